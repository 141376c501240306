//! Pairs of two processes; one of the processes has a fault. Each process is this executable, in
//! its test [`member`].

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use super::tests::{PAIR, begin, nic_plan, pair};
use super::*;
use campaign::quiet::answer::{ERROR_COUNTERS, Figures, RETRIES};
use campaign::quiet::roster::{NicId, TestId};
use campaign::slots::pace::{longest, most_beyond, sufficient};
use facts::device::FabricAddress;
use node::backend;
use node::service::VniOption;

/// Variables of a process: its tool, its device, the number of its NIC, its VNI, the time of a pair
/// in milliseconds.
const TOOL: &str = "CXIDIAG_TEST_MEMBER_TOOL";
const DEVICE: &str = "CXIDIAG_TEST_MEMBER_DEVICE";
const NUMBER: &str = "CXIDIAG_TEST_MEMBER_NUMBER";
const VNI: &str = "CXIDIAG_TEST_MEMBER_VNI";
const PAIR_MS: &str = "CXIDIAG_TEST_MEMBER_PAIR_MS";

/// In place of a tool, the tests of load.
pub const LOAD: &str = "load";

/// Begin of the lines with data, among the lines of the test harness.
const DATA: &str = "data: ";

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(300);

/// Attempts to measure a pair on a machine whose CPUs are busy.
const ATTEMPTS: u32 = 1000;

/// The process of a pair: opens its NIC, and runs the blocks that it reads.
#[test]
fn member() {
    let Ok(tool) = env::var(TOOL) else {
        return;
    };
    let mut plan = nic_plan(&env::var(DEVICE).unwrap());
    let vni = env::var(VNI).ok();
    plan.service.vni = vni.map(|vni| VniOption::Number(vni.parse().unwrap()));
    let mut nics = Nics::open(vec![plan]).unwrap();
    let number = env::var(NUMBER).unwrap().parse().unwrap();
    let pair = Duration::from_millis(env::var(PAIR_MS).unwrap().parse().unwrap());
    if tool == LOAD {
        load_tests::begin(&mut nics, number);
    } else {
        begin(&mut nics, number, &[&tool], pair);
    }
    write(&nics.facts());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (now, here) = (cxi::clock::now_ns(), Instant::now());
        let local = |ns: u64| match ns.checked_sub(now) {
            Some(ahead) => here + Duration::from_nanos(ahead),
            None => here - Duration::from_nanos(now - ns),
        };
        let block: Block = serde_json::from_str(&line).unwrap();
        write(&nics.run(&Arc::new(block), local));
    }
    drop(nics);
}

fn write(data: &impl serde::Serialize) {
    // The name of the test may stand on the line.
    println!("\n{DATA}{}", serde_json::to_string(data).unwrap());
}

/// A process of a pair.
pub struct Member {
    child: Child,
    blocks: ChildStdin,
    lines: BufReader<ChildStdout>,
    pub address: FabricAddress,
}

impl Member {
    /// Starts the process of NIC `number` with these variables, and waits until that is open.
    pub fn start(
        number: u32,
        device: &str,
        tool: &str,
        variables: &[(&str, &str)],
        pair: Duration,
    ) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        let mut child = command
            .args(["--exact", "nics::process_tests::member", "--nocapture"])
            .env(TOOL, tool)
            .env(DEVICE, device)
            .env(NUMBER, number.to_string())
            .env(PAIR_MS, pair.as_millis().to_string())
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut member = Self {
            blocks: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()),
            child,
            address: FabricAddress { nic: 0, pid: 0 },
        };
        let facts: Vec<IntroducedNic> = member.read().expect("facts");
        member.address = facts[0].address.unwrap_or_else(|| panic!("{facts:?}"));
        member
    }

    /// Reads the next data; none if the process has ended.
    pub fn read<T: DeserializeOwned>(&mut self) -> Option<T> {
        for line in (&mut self.lines).lines() {
            if let Some(data) = line.unwrap().strip_prefix(DATA) {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
        None
    }

    pub fn send(&mut self, block: &Block) {
        let line = serde_json::to_string(block).unwrap();
        // A process that was killed reads nothing.
        let _ = writeln!(self.blocks, "{line}");
    }

    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(process, signal).unwrap();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes with a NIC each.
struct Group {
    members: Vec<Member>,
    /// Whether all counters of the initiator are read.
    reads_all_counters: bool,
    /// Time for measuring a pair.
    pair: Duration,
    /// Length of a slot.
    slot: Duration,
}

impl Group {
    /// Starts a process for each variable, and sets the variable in its environment.
    fn new(first_device: u32, tool: &str, variables: &[(&str, &str)]) -> Self {
        Self::with_pair(first_device, tool, variables, PAIR)
    }

    /// Starts a process for each variable, which measures a pair for the time `pair`.
    fn with_pair(
        first_device: u32,
        tool: &str,
        variables: &[(&str, &str)],
        pair: Duration,
    ) -> Self {
        let start = |(number, variable)| {
            let device = format!("soft{}", first_device + number);
            Member::start(number, &device, tool, &[variable], pair)
        };
        Self {
            members: (0..).zip(variables.iter().copied()).map(start).collect(),
            reads_all_counters: true,
            pair,
            slot: SLOT,
        }
    }

    /// Sends both processes of a pair a block of one slot. Returns when it ends.
    fn send(&mut self, initiator: u32, target: u32) -> u64 {
        let begins_ns = cxi::clock::now_ns() + 20_000_000;
        let nics = [initiator, target].map(NicId);
        let addresses = nics.map(|nic| (nic, self.members[nic.index()].address));
        for task in pair(0, TestId(0), nics, self.reads_all_counters) {
            self.members[task.nic.index()].send(&Block {
                number: 5,
                begins_ns,
                slot_ns: self.slot.as_nanos() as u64,
                slots: 1,
                window_bytes: None,
                tasks: vec![task],
                addresses: addresses.into(),
            });
        }
        begins_ns + self.slot.as_nanos() as u64
    }

    /// Receives the result of a process of its block, if it has one.
    fn receive(&mut self, member: u32) -> Option<TaskResult> {
        let member = &mut self.members[member as usize];
        let report: Report = member.read()?;
        assert_eq!(report.addresses, [Ok(member.address)]);
        let result = report.results.into_iter().next();
        // A failure does not show what others need.
        let has_failed = result.as_ref().is_some_and(|result| {
            matches!(result.answer, TaskAnswer::Failed(_) | TaskAnswer::NoAnswer(_))
        });
        assert!(!has_failed || report.beyond_ns == 0);
        let is_open = result
            .as_ref()
            .is_some_and(|result| result.answer == TaskAnswer::Untested(Untested::ShortSlot));
        let most = most_beyond(self.pair).as_nanos() as u64;
        assert!(!is_open || report.beyond_ns == most);
        result
    }

    /// Measures in one slot, as [`Self::result`] does. Returns the answer.
    fn measure(&mut self, initiator: u32, target: u32) -> TaskAnswer {
        self.result(initiator, target).answer
    }

    /// Measures in one slot, again as long as a process was late. Returns the result of the target,
    /// if it has one.
    fn result(&mut self, initiator: u32, target: u32) -> TaskResult {
        let mut reasons = Vec::new();
        for _ in 0..ATTEMPTS {
            let result = self.attempt(initiator, target);
            match result.answer {
                TaskAnswer::Untested(reason) => reasons.push(reason),
                _ => return result,
            }
        }
        panic!("{reasons:?}");
    }

    /// Attempts a measurement whose operations fail, again as long as it did not begin. A process
    /// that did not run for a time does not blame the NIC: on a busy machine, that may be each one.
    fn fail(&mut self, initiator: u32, target: u32) {
        let mut reasons = Vec::new();
        for _ in 0..ATTEMPTS {
            match self.attempt(initiator, target).answer {
                TaskAnswer::Failed(_)
                | TaskAnswer::NoAnswer(_)
                | TaskAnswer::Untested(Untested::Paused) => return,
                TaskAnswer::Untested(reason) => reasons.push(reason),
                other => panic!("{other:?}"),
            }
        }
        panic!("{reasons:?}");
    }

    /// Returns what the target says of one slot, or else the initiator.
    fn attempt(&mut self, initiator: u32, target: u32) -> TaskResult {
        self.send(initiator, target);
        let result = self.receive(initiator);
        self.receive(target).or(result).expect("a result")
    }
}

const GOOD: (&str, &str) = ("CXIDIAG_FAULTS", "");

/// Its packets are lost, and it sends them again much later.
const SILENT: (&str, &str) = ("CXIDIAG_FAULTS", "loss=1,retry=3600s");

/// The failure of a pair whose operation has no answer.
const NO_ANSWER: &str = "no answer to a write within 225ms";

fn failure(answer: TaskAnswer) -> String {
    match answer {
        TaskAnswer::Failed(why) | TaskAnswer::NoAnswer(why) => why,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_measured(answer: TaskAnswer) {
    assert!(matches!(answer, TaskAnswer::Figures(_)), "{answer:?}");
}

#[test]
fn slow_nic_is_slow_in_both_roles() {
    let slow = ("CXIDIAG_LINK", "latency=200us");
    let mut group = Group::new(60, "write-lat", &[GOOD, slow]);
    for (initiator, target) in [(0, 1), (1, 0)] {
        let TaskAnswer::Figures(Figures::Latency { min_ns, .. }) = group.measure(initiator, target)
        else {
            panic!("no latency")
        };
        assert!(min_ns >= 200_000, "{min_ns}");
    }
}

/// An interface keeps the counters that it has destroyed until it is released (libcxi.md 10).
#[test]
fn nic_gives_counters_back_between_blocks() {
    let mut group = Group::with_pair(97, "write-bw", &[GOOD, GOOD], Duration::from_millis(5));
    group.slot = Duration::from_millis(60);
    for _ in 0..nic::MOST_TASKS + 20 {
        group.send(0, 1);
        for member in [0, 1] {
            group.receive(member);
        }
    }
    let device = backend::open("soft97".parse().unwrap(), None).unwrap();
    let counts = device.in_use(1).unwrap().unwrap();
    let counters = cxi::RESOURCES.iter().position(|kind| *kind == "CT");
    let counters = counts[counters.unwrap()].unwrap();
    assert!(counters <= 25, "{counters} counters");
    device.close().unwrap();
}

/// The NIC loses packets, and sends them again. A pair without losses is possible.
#[test]
fn reports_counters_of_initiator() {
    let lossy = ("CXIDIAG_FAULTS", "loss=0.1,retry=1ms");
    let mut group = Group::new(58, "write-lat", &[GOOD, lossy]);
    group.reads_all_counters = false;
    let result = group.result(1, 0);
    assert!(result.counters.iter().any(|(name, change)| name == RETRIES && *change > 0));
    let is_error = |(name, _): &(String, u64)| ERROR_COUNTERS.contains(&name.as_str());
    assert!(result.counters.iter().all(is_error), "{:?}", result.counters);
    group.reads_all_counters = true;
    let counters = group.result(1, 0).counters;
    let timeouts = counters.iter().find(|(name, _)| name == "pct_spt_timeouts");
    let (_, timeouts) = timeouts.unwrap_or_else(|| panic!("{counters:?}"));
    assert!(*timeouts > 0);
    assert_eq!(group.result(0, 1).counters, []);
}

#[test]
fn failed_operations_are_answers() {
    for (tool, variable, initiator, words) in [
        ("write-lat", ("CXIDIAG_FAULTS", "error=PT_DISABLED@5"), 1, "PT_DISABLED"),
        ("write-lat", (VNI, "10"), 0, "VNI_NOT_FOUND"),
        ("write-bw", ("CXIDIAG_FAULTS", "loss=1"), 0, "UNDELIVERABLE"),
        ("write-lat", SILENT, 1, NO_ANSWER),
    ] {
        let mut group = Group::new(62, tool, &[GOOD, variable]);
        // A fault with a number occurs once after each opening of the NIC.
        for attempt in 0..2 {
            // On a busy host, the engine of the other NIC may get no CPU in this time.
            let is_about_cpus =
                |why: &String| why.contains(NO_ANSWER) && !words.contains(NO_ANSWER);
            let mut answers =
                (0..ATTEMPTS).map(|_| failure(group.measure(initiator, 1 - initiator)));
            let why = answers.find(|why| !is_about_cpus(why)).unwrap();
            assert!(why.contains(words), "{tool}, {words}, {attempt}: {why}");
        }
    }
}

#[test]
fn longest_slot_decides_about_missing_answer() {
    // Short for this time, and long enough for processes on busy CPUs not to be late.
    let pair = 10 * PAIR;
    let mut group = Group::with_pair(72, "write-lat", &[GOOD, SILENT], pair);
    group.slot = sufficient(pair, pair / 2);
    let mut reasons = Vec::new();
    while !reasons.contains(&Untested::ShortSlot) {
        assert!(reasons.len() < ATTEMPTS as usize, "{reasons:?}");
        group.send(1, 0);
        let own = group.receive(1).expect("a result").answer;
        group.receive(0);
        match own {
            TaskAnswer::Untested(reason) => reasons.push(reason),
            other => panic!("{other:?}"),
        }
    }
    group.slot = longest(pair);
    failure(group.measure(1, 0));
}

/// The answers of one process are lost. A second one measures with it, and then with a third one.
#[test]
fn nic_measures_again_after_pair_without_answer() {
    for tool in ["write-lat", "send-bw"] {
        let mut group = Group::new(64, tool, &[SILENT, GOOD, GOOD]);
        group.fail(1, 0);
        assert_measured(group.measure(1, 2));
        assert_measured(group.measure(2, 1));
    }
}

#[test]
fn stopped_process_is_late_and_measures_again() {
    for stopped in [0, 1] {
        let mut group = Group::new(67, "write-lat", &[GOOD, GOOD]);
        group.members[stopped].signal(Signal::STOP);
        let end = group.send(0, 1);
        let other = 1 - stopped as u32;
        let answer = group.receive(other);
        while cxi::clock::now_ns() < end {
            thread::sleep(Duration::from_millis(1));
        }
        group.members[stopped].signal(Signal::CONT);
        let late = group.receive(stopped as u32).expect("a result");
        let TaskAnswer::Untested(why) = late.answer else { panic!("{late:?}") };
        assert_eq!(why, Untested::Late);
        // The target of a software NIC stops with its process.
        if stopped == 1 {
            let answer = answer.expect("a result").answer;
            assert!(!matches!(answer, TaskAnswer::Figures(_)), "{answer:?}");
        }
        assert_measured(group.measure(0, 1));
    }
}

#[test]
fn killed_process_does_not_hold_up_its_peer() {
    for tool in ["write-lat", "send-lat"] {
        let mut group = Group::new(69, tool, &[GOOD, GOOD, GOOD]);
        group.members[0].signal(Signal::KILL);
        let why = failure(group.measure(1, 0));
        assert!(why.contains("UNDELIVERABLE"), "{tool}: {why}");
        assert_measured(group.measure(1, 2));
    }
}
