//! Ends either side of a run, or their connection, in each phase: the survivor notices, reports it,
//! and leaves nothing.
//!
//! src/facts/phase.rs defines the phases. A process stops by itself in the phase that its test
//! names.

use std::fs;
use std::io::Read;
use std::process::Output;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::paused::{Side, port};
use crate::harness::relay::Relay;
use crate::harness::{
    Fabric, assert_status, assert_success, is_notice, stderr, stdout, whole_stderr,
};

/// Three sizes: a run that ends after the first has not printed all results. A client may complete
/// the second one while its server stops, but not the third.
const SIZES: &str = "-n 2 --warmup 1 --latency-gap 1 -s 8:32";
/// The client measures until it notices the loss.
const LONG: &str = "-D 60";
const SIZES_IN_LEGACY_SYNC: &str = "-n 2 --warmup 1 --latency-gap 1 -s 8:16 --legacy-sync";
const VERIFIED: &str = "-n 2 --warmup 1 --latency-gap 1 -s 8:32 --verify";
const LISTS: &str = "-n 2 -l 4 -s 8:16";
const BOTH_WAYS: &str = "-n 2 -l 4 -s 8:16 -b";

const HANDSHAKE: [&str; 4] = ["names", "versions", "options", "addresses"];
const INITIATOR: [&str; 8] =
    ["set-up", "ready", "warm-up", "measuring", "gap", "post-run", "reporting", "releasing"];
const TARGET: [&str; 5] = ["set-up", "ready", "measuring", "reporting", "releasing"];
const ASKING: [&str; 9] = [
    "set-up",
    "ready",
    "sync",
    "warm-up",
    "measuring",
    "gap",
    "post-run",
    "reporting",
    "releasing",
];
const ANSWERING: [&str; 7] =
    ["set-up", "ready", "sync", "measuring", "post-run", "reporting", "releasing"];
/// The phases of either side that differ with `--legacy-sync`.
const LEGACY_SYNC: [&str; 4] = ["sync", "warm-up", "measuring", "gap"];
const BANDWIDTH: [&str; 9] = [
    "set-up",
    "ready",
    "pre-run",
    "measuring",
    "post-run",
    "results",
    "settling",
    "reporting",
    "releasing",
];

/// How a side, or the connection, ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Interrupt,
    /// SIGSTOP, for longer than the other side waits.
    Stop,
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
}

/// Those that the other side notices at once.
const AT_ONCE: [Blow; 4] = [Blow::Kill, Blow::Interrupt, Blow::Close, Blow::Reset];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Client,
    Server,
}

/// What the time limits of a pair with a stopped side are divided by, one after the other: where
/// the limits are too short for a busy machine, a side gives up before the other one stops.
const DIVISORS: [u32; 4] = [240, 60, 15, 4];

/// A pair of which one side, the victim, stops in a phase and is hit there.
#[derive(Clone, Copy, Debug)]
struct Case {
    tool: &'static str,
    options: &'static str,
    victim: Victim,
    phase: &'static str,
    blow: Blow,
    /// What the time limits of both sides are divided by.
    divisor: Option<u32>,
}

impl Case {
    /// Calls `play`, which returns whether the victim has reached its phase.
    fn play_with_limits(self, play: fn(Self) -> bool) {
        let has_paused = if self.blow == Blow::Stop {
            let divisors = DIVISORS.map(Some).into_iter();
            divisors.map(|divisor| Self { divisor, ..self }).any(play)
        } else {
            play(self)
        };
        assert!(has_paused, "{self:?}: no pause");
    }

    /// Starts a side of this pair, which stops at the phase if it is the victim.
    fn side(&self, fabric: &Fabric, side: Victim, args: &str) -> Side {
        let mut command = fabric.command(&format!("{} {args}", self.tool));
        if let Some(divisor) = self.divisor {
            command.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", divisor.to_string());
        }
        Side::start(command, (side == self.victim).then_some(self.phase))
    }

    fn server(&self, fabric: &Fabric) -> Side {
        self.side(fabric, Victim::Server, "-d soft0 -p 0")
    }

    fn client(&self, fabric: &Fabric, port: &str) -> Side {
        let args = format!("127.0.0.1 -p {port} -d soft1 {}", self.options);
        self.side(fabric, Victim::Client, &args)
    }

    /// Whether the survivor waits for nothing more.
    fn is_over(&self) -> bool {
        self.phase == "releasing"
    }

    /// Plays a pair whose victim is in a run, or is a server in the handshake.
    fn play(self) -> bool {
        let fabric = Fabric::new();
        let mut server = self.server(&fabric);
        let port = port(&mut server);
        let relay = matches!(self.blow, Blow::Close | Blow::Reset).then(|| Relay::to(&port));
        let client = self.client(&fabric, relay.as_ref().map_or(&port, |relay| &relay.port));
        let (mut victim, other) = match self.victim {
            Victim::Client => (client, server),
            Victim::Server => (server, client),
        };
        if !victim.pauses() {
            return false;
        }
        match self.blow {
            Blow::Kill => victim.signal("KILL"),
            Blow::Interrupt => victim.signal("TERM"),
            Blow::Stop => {
                self.play_stop(&fabric, victim, other);
                return true;
            }
            Blow::Close => relay.expect("a relay").close(),
            Blow::Reset => relay.expect("a relay").reset(),
        }
        if matches!(self.blow, Blow::Close | Blow::Reset) {
            victim.go_on();
        }
        self.assert_victim_ended(&victim.finish());
        self.assert_survivor_failed(&other.finish());
        if self.blow == Blow::Kill && !fabric.left().is_empty() {
            // The kernel may close the connection of a killed process before its files: the
            // survivor leaves the files of a process that still lives to the next run.
            fabric.loopback("write-lat", "-n 1");
        }
        fabric.assert_nothing_left();
        true
    }

    /// Stops the victim until the other side has given up.
    fn play_stop(self, fabric: &Fabric, mut victim: Side, other: Side) {
        victim.signal("STOP");
        self.assert_survivor_failed(&other.finish());
        victim.signal("CONT");
        let still_waits = self.victim == Victim::Server && HANDSHAKE[..3].contains(&self.phase);
        if still_waits {
            // The client went before it was this server's client.
            victim.signal("TERM");
            assert_status(&victim.finish(), 130);
        } else {
            victim.go_on();
            self.assert_victim_went_on(&victim.finish());
        }
        fabric.assert_nothing_left();
    }

    /// Plays a client that is hit in the handshake; the server serves the next one.
    fn play_handshake(self) -> bool {
        // The limit of the handshake is 5 s. The limits of the next client's run are longer.
        let case = Self { divisor: self.divisor.map(|divisor| divisor.min(5)), ..self };
        let fabric = Fabric::new();
        let mut server = case.server(&fabric);
        let port = port(&mut server);
        let mut first = case.client(&fabric, &port);
        if !first.pauses() {
            return false;
        }
        match self.blow {
            Blow::Kill => first.signal("KILL"),
            Blow::Interrupt => first.signal("TERM"),
            _ => first.signal("STOP"),
        }
        let next = Case { victim: Victim::Server, ..case };
        assert_success(&next.client(&fabric, &port).finish());
        assert_status(&server.finish(), 0);
        if self.blow == Blow::Stop {
            first.signal("CONT");
            first.go_on();
        }
        self.assert_victim_ended(&first.finish());
        fabric.assert_nothing_left();
        true
    }

    #[track_caller]
    fn assert_victim_ended(&self, victim: &Output) {
        match self.blow {
            Blow::Kill => assert_eq!(victim.status.code(), None, "{self:?}"),
            Blow::Interrupt => {
                let line = format!("cxidiag {}: interrupted by SIGTERM\n", self.tool);
                assert_eq!(assert_status(victim, 130), line, "{self:?}");
                self.assert_partial_results(victim, "Interrupted");
            }
            Blow::Stop | Blow::Close | Blow::Reset => self.assert_victim_went_on(victim),
        }
    }

    /// The victim went on without its peer.
    #[track_caller]
    fn assert_victim_went_on(&self, victim: &Output) {
        if self.is_over() {
            assert_success(victim);
        } else {
            assert_eq!(victim.status.code(), Some(1), "{self:?}: {victim:?}");
        }
    }

    /// The survivor failed, and reported in one line and a hint which peer ended when and how.
    #[track_caller]
    fn assert_survivor_failed(&self, survivor: &Output) {
        if self.is_over() {
            assert_success(survivor);
            return;
        }
        assert_eq!(survivor.status.code(), Some(1), "{self:?}: {survivor:?}");
        let said = whole_stderr(survivor);
        let (notices, lines): (Vec<&str>, Vec<&str>) =
            said.lines().partition(|line| is_notice(line));
        if self.blow == Blow::Stop && ["set-up", "ready"].contains(&self.phase) {
            let is_told = |line: &&str| line.contains(" at the ready barrier for ");
            assert!(notices.iter().any(is_told), "{self:?}: {said}");
        }
        let [line, hint] = lines[..] else {
            panic!("{self:?}: {said}");
        };
        let program = format!("cxidiag {}: error: ", self.tool);
        assert!(line.starts_with(&program), "{self:?}: {said}");
        // A server is connected to its client in the last step of the handshake.
        let is_told = self.blow == Blow::Interrupt && !HANDSHAKE[..3].contains(&self.phase);
        let how = match self.blow {
            Blow::Stop => &["did not answer", "no answer to a", "sent nothing for"][..],
            _ if is_told => &["was interrupted"],
            _ => &["closed the connection"],
        };
        assert!(how.iter().any(|how| line.contains(how)), "{self:?}: {said}");
        // A wait for the NIC says what became of its commands.
        assert!(
            !line.contains("no answer to a") || line.contains(" the NIC has "),
            "{self:?}: {said}"
        );
        assert!(
            self.blow == Blow::Stop || line.contains("the peer (127.0.0.1:"),
            "{self:?}: {said}"
        );
        assert!(hint.starts_with("hint: "), "{self:?}: {said}");
        if self.victim == Victim::Server {
            self.assert_partial_results(survivor, "Failed");
        }
    }

    /// The last line of a table that was begun says that results are missing.
    #[track_caller]
    fn assert_partial_results(&self, output: &Output, how: &str) {
        let text = stdout(output);
        let has_table = text.contains("[us]") || text.contains("BW[MB/s]");
        let last = text.lines().last().unwrap_or_default();
        let is_partial = last.starts_with(&format!("{how}: results are partial"));
        let is_cut = has_table && !self.is_over();
        assert_eq!(is_partial, is_cut, "{self:?}: {output:?}");
    }
}

/// Each of `phases` with each of `blows`.
fn cases(
    tool: &'static str,
    options: &'static str,
    victim: Victim,
    phases: &[&'static str],
    blows: &[Blow],
) -> Vec<Case> {
    let blows_at = |phase| {
        blows.iter().map(move |&blow| Case { tool, options, victim, phase, blow, divisor: None })
    };
    let cases = phases.iter().flat_map(|&phase| blows_at(phase));
    // The last message of a server may be on its way when the connection ends.
    let is_sent = |case: &Case| {
        let is_connection = matches!(case.blow, Blow::Close | Blow::Reset);
        is_connection && victim == Victim::Server && case.is_over()
    };
    cases.filter(|case| !is_sent(case)).collect()
}

/// Plays `cases`, several at a time: most of their time is spent waiting.
fn play_all(cases: Vec<Case>, at_a_time: usize, play: fn(Case) -> bool) {
    let cases = Mutex::new(cases.into_iter());
    let next = || cases.lock().expect("no panic in here").next();
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let _shown = ShownIfFailed(case);
                    case.play_with_limits(play);
                }
            });
        }
    });
}

/// Prints its case if that panics.
struct ShownIfFailed(Case);

impl Drop for ShownIfFailed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed: {:?}", self.0);
        }
    }
}

/// Both sides of a one-sided latency tool.
fn one_sided(tool: &'static str, options: &'static str, blows: &[Blow]) -> Vec<Case> {
    [
        cases(tool, options, Victim::Client, &INITIATOR, blows),
        cases(tool, options, Victim::Server, &TARGET, blows),
    ]
    .concat()
}

/// Both sides of send-lat.
fn two_sided(blows: &[Blow]) -> Vec<Case> {
    let legacy = |victim| {
        let options = SIZES_IN_LEGACY_SYNC;
        cases("send-lat", options, victim, &LEGACY_SYNC, blows)
    };
    [
        cases("send-lat", SIZES, Victim::Client, &ASKING, blows),
        cases("send-lat", SIZES, Victim::Server, &ANSWERING, blows),
        legacy(Victim::Client),
        legacy(Victim::Server),
    ]
    .concat()
}

/// Both sides of send-bw. A server that answers in the other direction measures as well.
fn bandwidth(blows: &[Blow]) -> Vec<Case> {
    [
        cases("send-bw", LISTS, Victim::Client, &BANDWIDTH, blows),
        cases("send-bw", BOTH_WAYS, Victim::Server, &BANDWIDTH, blows),
    ]
    .concat()
}

#[test]
fn one_sided_latency_notices_a_lost_peer_in_each_phase() {
    play_all(one_sided("write-lat", SIZES, &AT_ONCE), 4, Case::play);
}

/// The session and its phases equal the session of write-lat; the operations in flight differ.
#[test]
fn each_one_sided_tool_notices_a_lost_peer_while_measuring() {
    for tool in ["read-lat", "atomic-lat"] {
        for victim in [Victim::Client, Victim::Server] {
            let lost = cases(tool, LONG, victim, &["measuring"], &AT_ONCE);
            play_all(lost, 4, Case::play);
        }
    }
}

/// The other side waits for the result of the check.
#[test]
fn notices_a_lost_peer_while_data_is_checked() {
    for victim in [Victim::Client, Victim::Server] {
        let blows = [&AT_ONCE[..], &[Blow::Stop]].concat();
        let lost = cases("write-lat", VERIFIED, victim, &["verifying"], &blows);
        play_all(lost, 5, Case::play);
    }
}

#[test]
fn send_lat_notices_a_lost_peer_in_each_phase() {
    let blows = [Blow::Kill, Blow::Interrupt, Blow::Reset];
    play_all(two_sided(&blows), 4, Case::play);
}

#[test]
fn send_bw_notices_a_lost_peer_in_each_phase() {
    let blows = [Blow::Kill, Blow::Interrupt, Blow::Close];
    play_all(bandwidth(&blows), 4, Case::play);
}

/// The kernel of a stopped process acknowledges what is sent to it: only a time limit ends the
/// wait.
#[test]
fn gives_up_a_stopped_peer_in_each_phase() {
    let stop = [Blow::Stop];
    let handshake = cases("write-lat", SIZES, Victim::Server, &HANDSHAKE, &stop);
    let measuring = cases("read-lat", SIZES, Victim::Server, &["measuring"], &stop);
    let stops = [
        one_sided("write-lat", SIZES, &stop),
        two_sided(&stop),
        bandwidth(&stop),
        handshake,
        measuring,
    ];
    play_all(stops.concat(), 16, Case::play);
}

#[test]
fn serves_the_next_client_after_one_is_lost_in_the_handshake() {
    let phases = ["connecting", "names", "versions", "options", "addresses"];
    let blows = [Blow::Kill, Blow::Interrupt, Blow::Stop];
    let lost = cases("write-lat", SIZES, Victim::Client, &phases, &blows);
    play_all(lost, 4, Case::play_handshake);
}

#[test]
fn notices_a_server_that_is_lost_in_the_handshake() {
    let blows = [Blow::Kill, Blow::Interrupt];
    let lost = cases("write-lat", SIZES, Victim::Server, &HANDSHAKE, &blows);
    play_all(lost, 4, Case::play);
}

#[test]
fn ends_in_each_phase_without_a_peer() {
    let blows = [Blow::Kill, Blow::Interrupt];
    let server = cases("write-lat", "", Victim::Server, &["opening", "listening"], &blows);
    let client = cases("send-bw", "", Victim::Client, &["opening", "connecting"], &blows);
    play_all([server, client].concat(), 4, |case| {
        let fabric = Fabric::new();
        let mut side = match case.victim {
            Victim::Server => case.server(&fabric),
            // A port without a listener.
            Victim::Client => case.client(&fabric, "1"),
        };
        if !side.pauses() {
            return false;
        }
        let is_kill = case.blow == Blow::Kill;
        side.signal(if is_kill { "KILL" } else { "TERM" });
        case.assert_victim_ended(&side.finish());
        if !is_kill {
            fabric.assert_nothing_left();
        }
        true
    });
}

#[test]
fn releases_everything_of_killed_clients_with_persist() {
    let fabric = Fabric::new();
    let command = fabric.command("send-lat -d soft0 -p 0 --persist");
    let mut server = Side::start(command, None);
    let port = port(&mut server);
    let mut fewest = usize::MAX;
    for _ in 0..3 {
        let command = fabric.command(&format!("send-lat 127.0.0.1 -p {port} -d soft1 -n 3"));
        let mut client = Side::start(command, Some("measuring"));
        client.wait_for_pause();
        client.signal("KILL");
        client.finish();
        // It listens again after it has released everything of the last client.
        while !server.next_line().starts_with("Listening on port ") {}
        fewest = descriptors_up_to(server.id(), fewest);
    }
    // The regular end of such a server.
    server.signal("TERM");
    let lines = assert_status(&server.finish(), 0);
    assert!(!lines.contains("interrupted"), "{lines}");
    fabric.assert_nothing_left();
}

/// Waits until a process has at most `most` descriptors: its threads open files for moments, which
/// are long without a CPU.
/// Returns how many it has.
fn descriptors_up_to(process: u32, most: usize) -> usize {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        match descriptors(process) {
            open if open <= most => return open,
            open => assert!(Instant::now() < end, "{open} descriptors, not {most}"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Counts the open files of a process, except the files of /proc, which the software NIC opens for
/// a moment to read the load of the machine.
fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd"))
        .expect("a process")
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|file| !file.starts_with("/proc"))
        .count()
}

/// Locks a directory as a software NIC does, and stops.
const HOLDER: &str = "
import fcntl, os, signal, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print('held', flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
";

#[test]
fn names_a_stopped_process_that_holds_the_fabric() {
    let fabric = Fabric::new();
    fs::create_dir(fabric.path()).expect("a directory");
    let path = fabric.path();
    let arguments = ["-c", HOLDER, path.to_str().expect("UTF-8")];
    let mut holder = fabric.command_of("python3".as_ref(), &arguments);
    let mut holder = holder.spawn().expect("python3 starts");
    let held = holder.stdout.as_mut().expect("a pipe");
    held.read_exact(&mut [0; 4]).expect("held");
    let output = fabric.run("write-lat --loopback -d soft0");
    assert_status(&output, 1);
    let text = stderr(&output);
    let named = format!("process {} (python3, stopped) holds the fabric", holder.id());
    assert!(text.contains(&named), "{text}");
    holder.signal("CONT");
    assert_success(&holder.finish());
    assert_success(&fabric.run("write-lat --loopback -d soft0 -n 1"));
}
