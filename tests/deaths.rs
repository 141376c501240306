//! Either side of a run is ended in each of its phases, or their connection is; whoever is left
//! notices, says so, and leaves nothing.
//!
//! The phases are those of src/phase.rs: a process stops where its test wants it, by itself.

mod harness;

use std::fs;
use std::process::Output;
use std::sync::Mutex;
use std::thread;

use harness::paused::{Side, port};
use harness::relay::Relay;
use harness::{Fabric, assert_success, stderr, stdout};

/// Two sizes: what ends behind the first has more before it.
const SIZES: [&str; 8] = [
    "-n",
    "2",
    "--warmup",
    "1",
    "--latency-gap",
    "1",
    "-s",
    "8:16",
];
/// The same where the size is that of the type.
const TYPE: [&str; 6] = ["-n", "2", "--warmup", "1", "--latency-gap", "1"];
const LISTS: [&str; 6] = ["-n", "2", "-l", "4", "-s", "8:16"];
const BOTH_WAYS: [&str; 7] = ["-n", "2", "-l", "4", "-s", "8:16", "-b"];

const HANDSHAKE: [&str; 4] = ["names", "versions", "options", "addresses"];
const INITIATOR: [&str; 8] = [
    "set-up",
    "ready",
    "warm-up",
    "measuring",
    "gap",
    "post-run",
    "reporting",
    "releasing",
];
const TARGET: [&str; 5] = ["set-up", "ready", "measuring", "reporting", "releasing"];
const PING_PONG: [&str; 9] = [
    "set-up",
    "ready",
    "warm-up",
    "sync",
    "measuring",
    "gap",
    "post-run",
    "reporting",
    "releasing",
];
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

/// How a side, or the connection, is ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blow {
    /// SIGKILL.
    Kill,
    /// SIGTERM: where tests run in the background, SIGINT is ignored.
    Interrupt,
    /// SIGSTOP, for longer than the other side waits.
    Stop,
    /// The connection is closed in order.
    Close,
    /// The connection is reset.
    Reset,
}

/// Those that the other side notices at once.
const AT_ONCE: [Blow; 4] = [Blow::Kill, Blow::Interrupt, Blow::Close, Blow::Reset];

/// Which side comes to the phase, and is hit there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Client,
    Server,
}

/// One pair, one of which is hit in one phase.
#[derive(Clone, Copy, Debug)]
struct Case {
    tool: &'static str,
    options: &'static [&'static str],
    victim: Victim,
    phase: &'static str,
    blow: Blow,
}

impl Case {
    /// The side `of` this pair, which stops at the phase if it is to be hit.
    fn side(&self, fabric: &Fabric, of: Victim, args: &[&str]) -> Side {
        let mut command = fabric.command(&[&[self.tool], args].concat());
        if self.blow == Blow::Stop {
            command.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "80");
        }
        Side::start(command, (of == self.victim).then_some(self.phase))
    }

    fn server(&self, fabric: &Fabric) -> Side {
        self.side(fabric, Victim::Server, &["-d", "soft0", "-p", "0"])
    }

    fn client(&self, fabric: &Fabric, port: &str) -> Side {
        let args = ["127.0.0.1", "-p", port, "-d", "soft1"];
        self.side(fabric, Victim::Client, &[&args, self.options].concat())
    }

    /// All that the other side has to wait for has been said.
    fn is_over(&self) -> bool {
        self.phase == "releasing"
    }

    /// A pair in the middle of a run, or in the server's handshake.
    fn play(self) {
        let fabric = Fabric::new();
        let mut server = self.server(&fabric);
        let port = port(&mut server);
        let relay = matches!(self.blow, Blow::Close | Blow::Reset).then(|| Relay::to(&port));
        let client = self.client(&fabric, relay.as_ref().map_or(&port, |relay| &relay.port));
        let (mut victim, other) = match self.victim {
            Victim::Client => (client, server),
            Victim::Server => (server, client),
        };
        victim.wait_for_pause();
        match self.blow {
            Blow::Kill => victim.signal("KILL"),
            Blow::Interrupt => victim.signal("TERM"),
            Blow::Stop => victim.signal("STOP"),
            Blow::Close => {
                relay.expect("a relay").close();
                victim.go_on();
            }
            Blow::Reset => {
                relay.expect("a relay").reset();
                victim.go_on();
            }
        }
        if self.blow == Blow::Stop {
            self.missed(&other.finish());
            victim.signal("CONT");
            let is_still_waiting =
                self.victim == Victim::Server && HANDSHAKE[..3].contains(&self.phase);
            if is_still_waiting {
                // A client that has gone before it was one is none.
                victim.signal("TERM");
                assert_eq!(victim.finish().status.code(), Some(130), "{self:?}");
            } else {
                victim.go_on();
                self.went_on(&victim.finish());
            }
        } else {
            self.ended(&victim.finish());
            self.missed(&other.finish());
        }
        if self.blow == Blow::Kill {
            // The kernel may end the connection of a killed process before it lets go of its files: what
            // the survivor has met as alive is left to the next run.
            assert_success(&fabric.run(&["write-lat", "-d", "soft0", "--loopback", "-n", "1"]));
        }
        fabric.assert_nothing_left();
    }

    /// A client that is hit before it is its server's client; the server serves the next one.
    fn play_handshake(self) {
        let fabric = Fabric::new();
        let mut server = self.server(&fabric);
        let port = port(&mut server);
        let mut first = self.client(&fabric, &port);
        first.wait_for_pause();
        match self.blow {
            Blow::Kill => first.signal("KILL"),
            Blow::Interrupt => first.signal("TERM"),
            _ => first.signal("STOP"),
        }
        let next = Case {
            victim: Victim::Server,
            ..self
        };
        assert_success(&next.client(&fabric, &port).finish());
        let served = server.finish();
        assert!(served.status.success(), "{self:?}: {served:?}");
        if self.blow == Blow::Stop {
            first.signal("CONT");
            first.go_on();
        }
        self.ended(&first.finish());
        fabric.assert_nothing_left();
    }

    /// How the victim ended, and what it said.
    #[track_caller]
    fn ended(&self, victim: &Output) {
        match self.blow {
            Blow::Kill => assert_eq!(victim.status.code(), None, "{self:?}"),
            Blow::Interrupt => {
                assert_eq!(victim.status.code(), Some(130), "{self:?}: {victim:?}");
                let line = format!("cxidiag {}: interrupted by SIGTERM\n", self.tool);
                assert_eq!(stderr(victim), line, "{self:?}");
                self.says_partial(victim, "Interrupted");
            }
            Blow::Stop | Blow::Close | Blow::Reset => self.went_on(victim),
        }
    }

    /// The victim went on, and found nobody there.
    #[track_caller]
    fn went_on(&self, victim: &Output) {
        match self.is_over() {
            true => assert_success(victim),
            false => assert_eq!(victim.status.code(), Some(1), "{self:?}: {victim:?}"),
        }
    }

    /// The survivor failed, and said in one line and a hint who went away, when, and how.
    #[track_caller]
    fn missed(&self, survivor: &Output) {
        if self.is_over() {
            assert_success(survivor);
            return;
        }
        assert_eq!(survivor.status.code(), Some(1), "{self:?}: {survivor:?}");
        let said = stderr(survivor);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| !line.contains(" s; giving up"))
            .collect();
        let [line, hint] = lines[..] else {
            panic!("{self:?}: {said}");
        };
        let program = format!("cxidiag {}: error: ", self.tool);
        assert!(line.starts_with(&program), "{self:?}: {said}");
        // The last half of the handshake is the server's.
        let is_told = self.blow == Blow::Interrupt && !HANDSHAKE[..3].contains(&self.phase);
        let how = match self.blow {
            Blow::Stop => &["did not answer", "no answer to a", "sent nothing for"][..],
            _ if is_told => &["was interrupted"],
            _ => &["closed the connection"],
        };
        assert!(how.iter().any(|how| line.contains(how)), "{self:?}: {said}");
        assert!(
            self.blow == Blow::Stop || line.contains("the peer (127.0.0.1:"),
            "{self:?}: {said}"
        );
        assert!(hint.starts_with("hint: "), "{self:?}: {said}");
        if self.victim == Victim::Server {
            self.says_partial(survivor, "Failed");
        }
    }

    /// A table that was begun says that it is not all.
    #[track_caller]
    fn says_partial(&self, output: &Output, how: &str) {
        let text = stdout(output);
        let has_table = text.contains("[us]") || text.contains("BW[MB/s]");
        let last = text.lines().last().unwrap_or_default();
        let is_partial = last.starts_with(&format!("{how}: results are partial"));
        let is_cut = has_table && !self.is_over();
        assert_eq!(is_partial, is_cut, "{self:?}: {output:?}");
    }
}

/// Each of `phases`, with each of `blows`.
fn cases(
    tool: &'static str,
    options: &'static [&'static str],
    (victim, phases): (Victim, &'static [&'static str]),
    blows: &[Blow],
) -> Vec<Case> {
    let of = |phase: &&'static str| {
        blows
            .iter()
            .map(|blow| Case {
                tool,
                options,
                victim,
                phase,
                blow: *blow,
            })
            .collect::<Vec<_>>()
    };
    let cases = phases.iter().flat_map(of);
    // The server's last words may be under way when the connection ends.
    let is_over = |case: &Case| {
        matches!(case.blow, Blow::Close | Blow::Reset) && victim == Victim::Server && case.is_over()
    };
    cases.filter(|case| !is_over(case)).collect()
}

/// Carries out `cases`, so many at a time.
fn each(cases: Vec<Case>, at_a_time: usize, play: impl Fn(Case) + Sync) {
    let cases = Mutex::new(cases.into_iter());
    let next = || {
        cases
            .lock()
            .expect("no case fails while it is taken")
            .next()
    };
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let _told = ToldIfFailed(case);
                    play(case);
                }
            });
        }
    });
}

/// Names its case where that has failed.
struct ToldIfFailed(Case);

impl Drop for ToldIfFailed {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("failed: {:?}", self.0);
        }
    }
}

/// Both sides of a one-sided latency tool.
fn one_sided(tool: &'static str, options: &'static [&'static str], blows: &[Blow]) -> Vec<Case> {
    [
        cases(tool, options, (Victim::Client, &INITIATOR), blows),
        cases(tool, options, (Victim::Server, &TARGET), blows),
    ]
    .concat()
}

/// Both sides of send-lat.
fn two_sided(blows: &[Blow]) -> Vec<Case> {
    [
        cases("send-lat", &SIZES, (Victim::Client, &PING_PONG), blows),
        cases("send-lat", &SIZES, (Victim::Server, &PING_PONG), blows),
    ]
    .concat()
}

/// Both sides of send-bw. A server that answers in the other direction measures as well.
fn bandwidth(blows: &[Blow]) -> Vec<Case> {
    [
        cases("send-bw", &LISTS, (Victim::Client, &BANDWIDTH), blows),
        cases("send-bw", &BOTH_WAYS, (Victim::Server, &BANDWIDTH), blows),
    ]
    .concat()
}

#[test]
fn write_lat_misses_its_peer_in_any_phase() {
    each(one_sided("write-lat", &SIZES, &AT_ONCE), 3, Case::play);
}

#[test]
fn read_lat_misses_its_peer_in_any_phase() {
    each(one_sided("read-lat", &SIZES, &AT_ONCE), 3, Case::play);
}

#[test]
fn atomic_lat_misses_its_peer_in_any_phase() {
    // One size: there is none behind the first results.
    let more_follows = |case: &Case| case.phase != "reporting";
    let cases = one_sided("atomic-lat", &TYPE, &AT_ONCE);
    each(
        cases.into_iter().filter(more_follows).collect(),
        3,
        Case::play,
    );
}

#[test]
fn send_lat_misses_its_peer_in_any_phase() {
    each(two_sided(&AT_ONCE), 3, Case::play);
}

#[test]
fn send_bw_misses_its_peer_in_any_phase() {
    each(bandwidth(&AT_ONCE), 3, Case::play);
}

/// A stopped process has a kernel that answers for it, so what ends the wait is its limit.
#[test]
fn a_peer_that_is_stopped_in_any_phase_ends_the_wait() {
    let stops = [
        one_sided("write-lat", &SIZES, &[Blow::Stop]),
        two_sided(&[Blow::Stop]),
        bandwidth(&[Blow::Stop]),
        cases(
            "write-lat",
            &SIZES,
            (Victim::Server, &HANDSHAKE),
            &[Blow::Stop],
        ),
        cases(
            "read-lat",
            &SIZES,
            (Victim::Server, &["measuring"]),
            &[Blow::Stop],
        ),
        cases(
            "atomic-lat",
            &TYPE,
            (Victim::Client, &["measuring"]),
            &[Blow::Stop],
        ),
    ];
    each(stops.concat(), 16, Case::play);
}

#[test]
fn a_client_that_ends_in_the_handshake_is_none() {
    let phases = ["connecting", "names", "versions", "options", "addresses"];
    let blows = [Blow::Kill, Blow::Interrupt, Blow::Stop];
    let phases: &'static [&str] = Box::leak(phases.into());
    each(
        cases("write-lat", &SIZES, (Victim::Client, phases), &blows),
        2,
        Case::play_handshake,
    );
}

#[test]
fn a_server_that_ends_in_the_handshake_is_missed() {
    let blows = [Blow::Kill, Blow::Interrupt];
    each(
        cases("write-lat", &SIZES, (Victim::Server, &HANDSHAKE), &blows),
        1,
        Case::play,
    );
}

#[test]
fn a_side_without_a_peer_ends_in_any_phase() {
    for blow in [Blow::Kill, Blow::Interrupt] {
        for (tool, victim, phases) in [
            ("write-lat", Victim::Server, ["opening", "listening"]),
            ("send-bw", Victim::Client, ["opening", "connecting"]),
        ] {
            for case in cases(tool, &[], (victim, Box::leak(phases.into())), &[blow]) {
                let fabric = Fabric::new();
                let mut side = match victim {
                    Victim::Server => case.server(&fabric),
                    // Nobody listens there.
                    Victim::Client => case.client(&fabric, "1"),
                };
                side.wait_for_pause();
                side.signal(if blow == Blow::Kill { "KILL" } else { "TERM" });
                case.ended(&side.finish());
                if blow == Blow::Interrupt {
                    fabric.assert_nothing_left();
                }
            }
        }
    }
}

/// What a client's death leaves in a server that goes on.
#[test]
fn a_persistent_server_keeps_nothing_of_dead_clients() {
    let fabric = Fabric::new();
    let mut server = Side::start(
        fabric.command(&["send-lat", "-d", "soft0", "-p", "0", "--persist"]),
        None,
    );
    let port = port(&mut server);
    let mut open = Vec::new();
    for _ in 0..3 {
        let args = [
            "send-lat",
            "127.0.0.1",
            "-p",
            &port,
            "-d",
            "soft1",
            "-n",
            "3",
        ];
        let mut client = Side::start(fabric.command(&args), Some("measuring"));
        client.wait_for_pause();
        client.signal("KILL");
        client.finish();
        // It listens anew when all of the last client is released.
        while !server.next_line().starts_with("Listening on port ") {}
        open.push(descriptors(server.id()));
    }
    assert_eq!(open, [open[0]; 3]);
    server.signal("TERM");
    let output = server.finish();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    fabric.assert_nothing_left();
}

/// What a process has open, save for the moment in which the software NIC asks how busy the machine is.
fn descriptors(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/fd"))
        .expect("a process")
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|file| !file.starts_with("/proc"))
        .count()
}
