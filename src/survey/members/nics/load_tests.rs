//! Blocks under load on software NICs of this process.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::tests::nic_plan;
use super::*;
use campaign::quiet::answer::Untested;
use campaign::quiet::roster::TestId;
use campaign::timetable::{SlotTask, Watched};
use load::slot::{AGGRESSOR_TEST, VICTIM};
use plan::testing::plan;

/// A test of victims with a two-sided tool.
pub const TWO_SIDED: TestId = TestId(2);

/// Bytes of an operation of an aggressor, and those that it has under way.
pub const SIZE: u64 = 16_384;
pub const WINDOW: u64 = 4 * SIZE;

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(300);

/// Blocks that are run at most, on a machine whose CPUs are busy.
pub const ATTEMPTS: u32 = 200;

/// Begins the tests of aggressors and victims. `number` is the number of the first NIC.
pub fn begin(nics: &mut Nics, number: u32) {
    let size = SIZE.to_string();
    let sink: &[&str] = &["--list-size=1", "--size", &size];
    let victim: &[&str] = &["--latency-gap=0"];
    let plans = [("write-bw", sink), ("write-lat", victim), ("send-lat", victim)];
    let plans = plans.map(|(tool, options)| {
        let plan = plan(tool, options);
        TestPlan {
            // Tests run side by side.
            max_waited_percent: f64::INFINITY,
            ..TestPlan::new(plan.tool, plan.run).unwrap()
        }
    });
    let course = TestSetup {
        tests: Vec::new(),
        arguments: Vec::new(),
        pair_ns: 20_000_000,
        first_nic: NicId(number),
    };
    nics.begin(3, &course, &plans);
}

/// A block with tasks of NICs in its first slot. `addresses` has the addresses of NICs.
pub fn block(
    begins_ns: u64,
    slot: Duration,
    tasks: Vec<(u32, SlotTask)>,
    addresses: BTreeMap<NicId, FabricAddress>,
) -> Block {
    let task = |(nic, part)| Task { slot: 0, nic: NicId(nic), part };
    Block {
        number: 8,
        begins_ns,
        slot_ns: slot.as_nanos() as u64,
        slots: 1,
        window_bytes: Some(WINDOW),
        tasks: tasks.into_iter().map(task).collect(),
        addresses,
    }
}

/// The part of an aggressor.
pub fn send_to(targets: &[u32]) -> SlotTask {
    SlotTask::Send {
        test: AGGRESSOR_TEST,
        targets: targets.iter().map(|nic| NicId(*nic)).collect(),
    }
}

/// The parts of both sides of a pair of victims. The target of a two-sided test answers.
pub fn victims(test: TestId, [initiator, target]: [u32; 2]) -> [SlotTask; 2] {
    let [initiator, target] = [initiator, target].map(NicId);
    let measure = SlotTask::Measure { test, target, reads_all_counters: false };
    let answer =
        if test == TWO_SIDED { SlotTask::Answer { test, initiator } } else { SlotTask::Watch };
    [measure, answer]
}

pub fn of(report: &Report, nic: u32) -> &TaskResult {
    let mut nic_results = report.results.iter().filter(|result| result.nic == NicId(nic));
    let one = nic_results.next().expect("a result");
    assert!(nic_results.next().is_none());
    one
}

/// The NICs of a process.
struct Rig {
    nics: Nics,
    start: Instant,
}

impl Rig {
    fn new(devices: &[&str]) -> Self {
        let plans = devices.iter().map(|device| nic_plan(device));
        let mut nics = Nics::open(plans.collect()).unwrap();
        begin(&mut nics, 20);
        Self { nics, start: Instant::now() }
    }

    /// The addresses of the NICs, from 20 on.
    fn addresses(&self) -> BTreeMap<NicId, FabricAddress> {
        let addresses = self.nics.facts().into_iter().zip(20..);
        addresses.map(|(facts, nic)| (NicId(nic), facts.address.unwrap())).collect()
    }

    /// Runs a block that begins now.
    fn run_with(
        &mut self,
        tasks: Vec<(u32, SlotTask)>,
        addresses: BTreeMap<NicId, FabricAddress>,
    ) -> Report {
        let begins = self.start.elapsed().as_nanos() as u64;
        let count = tasks.len();
        let start = self.start;
        let block = Arc::new(block(begins, SLOT, tasks, addresses));
        let report = self.nics.run(&block, |ns| start + Duration::from_nanos(ns));
        assert_eq!((report.block, report.rank), (8, 3));
        assert_eq!(report.results.len(), count);
        report
    }

    /// Runs blocks until one is as expected.
    fn run_until(
        &mut self,
        tasks: &[(u32, SlotTask)],
        is_expected: impl Fn(&Report) -> bool,
    ) -> Report {
        self.run_until_with(tasks, self.addresses(), is_expected)
    }

    fn run_until_with(
        &mut self,
        tasks: &[(u32, SlotTask)],
        addresses: BTreeMap<NicId, FabricAddress>,
        is_expected: impl Fn(&Report) -> bool,
    ) -> Report {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let report = self.run_with(tasks.to_vec(), addresses.clone());
            if is_expected(&report) {
                return report;
            }
            last = Some(report);
        }
        panic!("{last:?}");
    }
}

/// Whether bytes were acknowledged in each part of the counted time.
fn sends_always(result: &TaskResult) -> bool {
    let TaskAnswer::Sent { bytes, unreached } = &result.answer else {
        return false;
    };
    unreached.is_empty() && bytes.iter().all(|byte| *byte > 0)
}

#[test]
fn aggressors_count_bytes_in_all_parts() {
    let mut rig = Rig::new(&["soft50", "soft51", "soft52"]);
    let tasks = [(20, send_to(&[22])), (21, send_to(&[22])), (22, SlotTask::Watch)];
    let report = rig
        .run_until(&tasks, |report| sends_always(of(report, 20)) && sends_always(of(report, 21)));
    let addresses: Vec<_> = rig.addresses().into_values().map(Ok).collect();
    assert_eq!(report.addresses, addresses);
    let TaskAnswer::Sent { bytes, .. } = &of(&report, 20).answer else { unreachable!() };
    assert!(bytes.iter().all(|byte| byte % SIZE == 0));
    let watched = rig.run_until(&tasks, |report| {
        of(report, 22).answer == TaskAnswer::Present && sends_always(of(report, 20))
    });
    let counters = &of(&watched, 22).watched;
    let unmarked = |(watched, count): &(Watched, u64)| *watched == Watched::Unmarked && *count > 0;
    assert!(counters.iter().any(unmarked), "{counters:?}");
    drop(rig.nics);
}

/// No operation follows the failed ones.
#[test]
fn aggressor_leaves_out_peer_that_failed() {
    let mut rig = Rig::new(&["soft53", "soft54"]);
    let mut addresses = rig.addresses();
    let dead = FabricAddress { pid: 499, ..addresses[&NicId(21)] };
    addresses.insert(NicId(99), dead);
    let tasks = [(20, send_to(&[21, 99])), (21, SlotTask::Watch)];
    let is_tested = |report: &Report| !of(report, 20).is_untested();
    let report = rig.run_until_with(&tasks, addresses.clone(), is_tested);
    let TaskAnswer::Sent { bytes, unreached } = &of(&report, 20).answer else {
        panic!("{report:?}")
    };
    assert_eq!(unreached, &[1]);
    assert!(bytes.iter().any(|byte| *byte > 0));
    let report = rig.run_until_with(&[(20, send_to(&[99]))], addresses, is_tested);
    let TaskAnswer::Failed(why) = &of(&report, 20).answer else { panic!("{report:?}") };
    assert!(why.contains("PTLTE_NOT_FOUND"), "{why}");
    let late = TaskAnswer::Untested(Untested::Late);
    let report = rig.run_until(&[(20, send_to(&[]))], |report| of(report, 20).answer != late);
    let nothing = TaskAnswer::Untested("the task names no NIC to send to".into());
    assert_eq!(of(&report, 20).answer, nothing);
    drop(rig.nics);
}

#[test]
fn victim_reports_all_its_samples() {
    let mut rig = Rig::new(&["soft55", "soft56", "soft57"]);
    for test in [VICTIM, TWO_SIDED] {
        let [measure, answer] = victims(test, [20, 21]);
        let tasks = [(20, measure), (21, answer), (22, send_to(&[22]))];
        let is_measured = |report: &Report| {
            let is_present = of(report, 21).answer == TaskAnswer::Present;
            let answer = &of(report, 20).answer;
            let is_measured = matches!(answer, TaskAnswer::Latencies(found) if found.count() > 1);
            is_present && is_measured
        };
        let report = rig.run_until(&tasks, is_measured);
        let TaskAnswer::Latencies(histogram) = &of(&report, 20).answer else { unreachable!() };
        assert!(histogram.is_valid());
        assert!(histogram.quantile(0.5).unwrap() >= 100.0);
    }
    drop(rig.nics);
}

#[test]
fn test_without_latencies_has_no_victim() {
    let mut rig = Rig::new(&["soft48"]);
    let [part, _] = victims(AGGRESSOR_TEST, [20, 20]);
    let why = TaskAnswer::Untested("the test measures no latencies".into());
    rig.run_until(&[(20, part)], |report| of(report, 20).answer == why);
    drop(rig.nics);
}
