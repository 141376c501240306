//! Blocks under load in several processes. Each process is this executable, in the test `member`
//! of `process_tests`.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::load_tests::{ATTEMPTS, TWO_SIDED, block, of, send_to, victims};
use super::process_tests::{LOAD, Member};
use super::tests::PAIR;
use super::*;
use campaign::timetable::{PARTS, SlotTask, SlotTimes};
use load::slot::VICTIM;

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(300);

/// Length of a slot on a slow fabric: operations take a small part of it.
const LONG_SLOT: Duration = Duration::from_secs(1);

/// Processes with a NIC each.
struct Group(Vec<Member>);

impl Group {
    fn new(first_device: u32, count: u32, variables: &[(&str, &str)]) -> Self {
        let start = |number| {
            let device = format!("soft{}", first_device + number);
            Member::start(number, &device, LOAD, variables, PAIR)
        };
        Self((0..count).map(start).collect())
    }

    /// Sends each process its part in a block of one slot. Returns when the slot begins.
    fn begin(&mut self, slot: Duration, parts: &[SlotTask]) -> u64 {
        let begins_ns = cxi::clock::now_ns() + 20_000_000;
        let addresses = (0..).map(NicId).zip(self.0.iter().map(|member| member.address));
        let addresses: BTreeMap<NicId, FabricAddress> = addresses.collect();
        for ((nic, member), part) in (0..).zip(&mut self.0).zip(parts) {
            let tasks = vec![(nic, part.clone())];
            member.send(&block(begins_ns, slot, tasks, addresses.clone()));
        }
        begins_ns
    }

    fn result(&mut self, nic: u32) -> TaskResult {
        let member = &mut self.0[nic as usize];
        let report: Report = member.read().expect("a report");
        assert_eq!(report.addresses, [Ok(member.address)]);
        of(&report, nic).clone()
    }

    fn results(&mut self) -> Vec<TaskResult> {
        (0..self.0.len() as u32).map(|nic| self.result(nic)).collect()
    }

    /// Lets the stopped first process continue after a slot. Returns its result.
    fn continue_after_slot(&mut self, begins_ns: u64) -> TaskResult {
        wait_until(begins_ns + SLOT.as_nanos() as u64);
        self.result(1);
        self.0[0].signal(Signal::CONT);
        self.result(0)
    }

    /// Runs a block until the results are as expected.
    fn run_until(
        &mut self,
        slot: Duration,
        parts: &[SlotTask],
        is_expected: impl Fn(&[TaskResult]) -> bool,
    ) -> Vec<TaskResult> {
        let mut last = Vec::new();
        for _ in 0..ATTEMPTS {
            self.begin(slot, parts);
            last = self.results();
            if is_expected(&last) {
                return last;
            }
        }
        panic!("{last:?}");
    }
}

/// The bytes that an aggressor counted, in all parts together; `None` if it has not sent.
fn bytes(result: &TaskResult) -> Option<u64> {
    match &result.answer {
        TaskAnswer::Sent { bytes, .. } => Some(bytes.iter().sum()),
        _ => None,
    }
}

/// A process that uses a CPU.
struct BusyLoop(Child);

impl BusyLoop {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for BusyLoop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts processes with a NIC each on a fabric of their own.
fn on_fabric(topology: &str, count: u32) -> (TempDir, Group) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let place = directory.path().join("fabric");
    let variables =
        [("CXIDIAG_TOPOLOGY", topology), ("CXIDIAG_FABRIC_DIR", place.to_str().unwrap())];
    (directory, Group::new(0, count, &variables))
}

/// The fabric gives equal shares, and shows that no CPU limited them.
#[test]
fn incast_has_equal_shares_beside_busy_loops() {
    let fabric = "dragonfly:groups=1,switches=1,nics=5,nic=10MB/s,latency=20us";
    let (_directory, mut group) = on_fabric(fabric, 5);
    let _busy = [BusyLoop::start(), BusyLoop::start()];
    let mut parts = vec![send_to(&[4]); 4];
    parts.push(SlotTask::Watch);
    group.run_until(LONG_SLOT, &parts, |results| {
        let sources = &results[..4];
        let shares: Vec<u64> = sources.iter().filter_map(bytes).collect();
        let (least, most) = (shares.iter().min(), shares.iter().max());
        let is_equal = |(least, most): (&u64, &u64)| *least as f64 >= 0.9 * *most as f64;
        shares.len() == 4
            && least.zip(most).is_some_and(is_equal)
            && sources.iter().all(|source| source.waited_percent == 0)
    });
}

/// A round trip takes 180 ms in the model: the time without a CPU is a small part of it. Six begin
/// in the 1040 ms that count, and there are 360 ms left for one more, which ends a two-sided test.
#[test]
fn slow_fabric_explains_latencies_beside_busy_loops() {
    let fabric = "dragonfly:groups=1,switches=1,nics=2,nic=10MB/s,latency=45ms";
    let (_directory, mut group) = on_fabric(fabric, 2);
    let _busy = [BusyLoop::start(), BusyLoop::start()];
    for test in [VICTIM, TWO_SIDED] {
        let parts = victims(test, [0, 1]);
        group.run_until(2 * LONG_SLOT, &parts, |results| {
            matches!(results[0].answer, TaskAnswer::Latencies(_)) && results[0].waited_percent == 0
        });
    }
}

/// Only CPUs limit what is sent on a fabric that is much faster than they are.
#[test]
fn fast_fabric_explains_no_bandwidth() {
    let fabric = "dragonfly:groups=1,switches=1,nics=2,nic=100GB/s,latency=1ns";
    let (_directory, mut group) = on_fabric(fabric, 2);
    let parts = [send_to(&[1]), SlotTask::Watch];
    let results = group.run_until(SLOT, &parts, |results| bytes(&results[0]) > Some(0));
    assert_eq!(results[0].waited_percent, 100);
}

/// The process is stopped until after the slot, either before it knows of the slot, or while bytes
/// count. A stop that comes late, because this test waited for a CPU, shows nothing.
#[test]
fn stopped_process_has_no_result_and_runs_again() {
    let mut group = Group::new(30, 2, &[]);
    let parts = [send_to(&[1]), SlotTask::Watch];
    group.0[0].signal(Signal::STOP);
    let begins = group.begin(SLOT, &parts);
    let result = group.continue_after_slot(begins);
    assert!(result.is_untested(), "{result:?}");
    let times = SlotTimes::from_slot(SLOT.as_nanos() as u64);
    for _ in 0..ATTEMPTS {
        let begins = group.begin(SLOT, &parts);
        wait_until(begins + times.count_ns);
        group.0[0].signal(Signal::STOP);
        let is_in_time = cxi::clock::now_ns() < begins + times.count_ns + times.counted() / 2;
        let result = group.continue_after_slot(begins);
        if is_in_time {
            assert!(result.is_untested(), "{result:?}");
            group.run_until(SLOT, &parts, |results| bytes(&results[0]) > Some(0));
            return;
        }
    }
    panic!("{ATTEMPTS} blocks in which the stop came late");
}

fn wait_until(ns: u64) {
    while cxi::clock::now_ns() < ns {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The answers of one process are lost: its NIC is opened again, and has no part of the next slots.
#[test]
fn unanswered_aggressor_sends_again() {
    let silent = [("CXIDIAG_FAULTS", "loss=1,retry=3600s")];
    let mut group = Group::new(34, 2, &[]);
    group.0.push(Member::start(2, "soft36", LOAD, &silent, PAIR));
    let parts = [send_to(&[2]), SlotTask::Watch, SlotTask::Watch];
    let results = group.run_until(SLOT, &parts, |results| !results[0].is_untested());
    let TaskAnswer::Failed(why) = &results[0].answer else { panic!("{results:?}") };
    assert!(why.contains("no answer to a put"), "{why}");
    let parts = [send_to(&[1]), SlotTask::Watch, SlotTask::Watch];
    group.run_until(SLOT, &parts, |results: &[TaskResult]| bytes(&results[0]) > Some(0));
}

#[test]
fn killed_process_does_not_hold_up_aggressors() {
    let mut group = Group::new(38, 3, &[]);
    group.0[2].signal(Signal::KILL);
    let parts = [send_to(&[2, 1]), SlotTask::Watch];
    for _ in 0..ATTEMPTS {
        group.begin(SLOT, &parts);
        let result = group.result(0);
        group.result(1);
        if let TaskAnswer::Sent { bytes, unreached } = result.answer
            && unreached == [0]
            && bytes != [0; PARTS]
        {
            return;
        }
    }
    panic!("{ATTEMPTS} blocks in which the aggressor did not go on");
}
