//! Blocks under load on software NICs of this process.

use std::time::{Duration, Instant};

use super::tests::nic_plan;
use super::*;
use cluster::load::scene::{SINK, VICTIM};
use cluster::load::timetable::{
    LoadAnswer, LoadBlock, LoadPart, LoadReport, LoadResult, LoadTask, Watched,
};
use cluster::survey::ids::TestId;
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
    let course = Course {
        tests: Vec::new(),
        arguments: Vec::new(),
        pair_ns: 20_000_000,
        first_nic: NicId(number),
    };
    nics.begin(3, &course, &plans);
}

/// Returns a block with tasks of NICs in its first slot.
pub fn block(begins_ns: u64, slot: Duration, tasks: Vec<(u32, LoadPart)>) -> LoadBlock {
    let task = |(nic, part)| LoadTask { slot: 0, nic: NicId(nic), part };
    LoadBlock {
        number: 8,
        begins_ns,
        slot_ns: slot.as_nanos() as u64,
        slots: 1,
        window_bytes: WINDOW,
        tasks: tasks.into_iter().map(task).collect(),
    }
}

pub fn of(report: &LoadReport, nic: u32) -> &LoadResult {
    let mut nic_results = report.results.iter().filter(|result| result.nic == NicId(nic));
    let one = nic_results.next().expect("a result");
    assert!(nic_results.next().is_none());
    one
}

/// Returns whether this is a result of a process that was late, or did not run for a time.
pub fn is_untested(result: &LoadResult) -> bool {
    matches!(result.answer, LoadAnswer::Untested(_))
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

    fn address(&self, nic: u32) -> FabricAddress {
        self.nics.facts()[nic as usize - 20].address.unwrap()
    }

    /// Returns the part of an aggressor.
    fn send(&self, peers: &[u32]) -> LoadPart {
        LoadPart::Send { test: SINK, peers: peers.iter().map(|nic| self.address(*nic)).collect() }
    }

    /// Runs a block that begins now.
    fn run(&mut self, tasks: Vec<(u32, LoadPart)>) -> LoadReport {
        let begins = self.start.elapsed().as_nanos() as u64;
        let count = tasks.len();
        let start = self.start;
        let block = block(begins, SLOT, tasks);
        let report = self.nics.run_load(&block, |ns| start + Duration::from_nanos(ns));
        assert_eq!((report.block, report.rank), (8, 3));
        assert_eq!(report.results.len(), count);
        report
    }

    /// Runs blocks until one is as expected.
    fn run_until(
        &mut self,
        tasks: &[(u32, LoadPart)],
        is_expected: impl Fn(&LoadReport) -> bool,
    ) -> LoadReport {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let report = self.run(tasks.to_vec());
            if is_expected(&report) {
                return report;
            }
            last = Some(report);
        }
        panic!("{last:?}");
    }
}

/// Returns whether bytes were acknowledged in each part of the counted time.
fn sends_always(result: &LoadResult) -> bool {
    let LoadAnswer::Sent { bytes, unreached } = &result.answer else {
        return false;
    };
    unreached.is_empty() && bytes.iter().all(|byte| *byte > 0)
}

#[test]
fn aggressors_count_bytes_in_all_parts() {
    let mut rig = Rig::new(&["soft50", "soft51", "soft52"]);
    let tasks = [(20, rig.send(&[22])), (21, rig.send(&[22])), (22, LoadPart::Watch)];
    let report = rig
        .run_until(&tasks, |report| sends_always(of(report, 20)) && sends_always(of(report, 21)));
    let addresses = [20, 21, 22].map(|nic| Ok(rig.address(nic)));
    assert_eq!(report.addresses, addresses);
    let LoadAnswer::Sent { bytes, .. } = &of(&report, 20).answer else { unreachable!() };
    assert!(bytes.iter().all(|byte| byte % SIZE == 0));
    let watched = rig.run_until(&tasks, |report| of(report, 22).answer == LoadAnswer::Present);
    let counters = &of(&watched, 22).counters;
    let unmarked = |(watched, count): &(Watched, u64)| *watched == Watched::Unmarked && *count > 0;
    assert!(counters.iter().any(unmarked), "{counters:?}");
    drop(rig.nics);
}

/// No operation follows the failed ones.
#[test]
fn aggressor_leaves_out_peer_that_failed() {
    let mut rig = Rig::new(&["soft53", "soft54"]);
    let live = rig.address(21);
    let dead = FabricAddress { pid: 499, ..live };
    let send = |peers| LoadPart::Send { test: SINK, peers };
    let tasks = [(20, send(vec![live, dead])), (21, LoadPart::Watch)];
    let report = rig.run_until(&tasks, |report| !is_untested(of(report, 20)));
    let LoadAnswer::Sent { bytes, unreached } = &of(&report, 20).answer else {
        panic!("{report:?}")
    };
    assert_eq!(unreached, &[1]);
    assert!(bytes.iter().any(|byte| *byte > 0));
    let tasks = [(20, send(vec![dead]))];
    let report = rig.run_until(&tasks, |report| !is_untested(of(report, 20)));
    let LoadAnswer::Failed(why) = &of(&report, 20).answer else { panic!("{report:?}") };
    assert!(why.contains("PTLTE_NOT_FOUND"), "{why}");
    let report = rig.run(vec![(20, send(Vec::new()))]);
    let nothing = LoadAnswer::Untested("the task names no NIC to send to".into());
    assert_eq!(of(&report, 20).answer, nothing);
    drop(rig.nics);
}

#[test]
fn victim_reports_all_its_samples() {
    let mut rig = Rig::new(&["soft55", "soft56", "soft57"]);
    for test in [VICTIM, TWO_SIDED] {
        let [initiator, target] = [20, 21].map(|nic| rig.address(nic));
        let target_answer = if test == VICTIM {
            LoadPart::Watch
        } else {
            LoadPart::Answer { test, peer: initiator }
        };
        let tasks = [
            (20, LoadPart::Measure { test, peer: target }),
            (21, target_answer),
            (22, rig.send(&[22])),
        ];
        let is_measured = |report: &LoadReport| {
            let is_present = of(report, 21).answer == LoadAnswer::Present;
            is_present && !is_untested(of(report, 20))
        };
        let report = rig.run_until(&tasks, is_measured);
        let LoadAnswer::Measured(histogram) = &of(&report, 20).answer else { panic!("{report:?}") };
        assert!(histogram.is_valid() && histogram.count() > 1);
        assert!(histogram.quantile(0.5).unwrap() >= 100.0);
    }
    drop(rig.nics);
}

#[test]
fn test_without_latencies_has_no_victim() {
    let mut rig = Rig::new(&["soft48"]);
    let part = LoadPart::Measure { test: SINK, peer: rig.address(20) };
    let why = LoadAnswer::Untested("the test measures no latencies".into());
    rig.run_until(&[(20, part)], |report| of(report, 20).answer == why);
    drop(rig.nics);
}
