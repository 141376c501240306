//! Blocks of slots on software NICs of this process.

use std::mem;
use std::time::{Duration, Instant};

use super::*;
use campaign::quiet::answer::Figures;
use campaign::quiet::roster::{NicId, TestId};
use campaign::timetable::SlotTask;
use node::machine::placement::Cpus;
use node::service::ServiceOptions;
use plan::testing::plan;
use plan::tools::peer_tools;

/// Time for a pair.
pub const PAIR: Duration = Duration::from_millis(20);

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(200);

/// The NICs of a process, and the clock of its blocks.
struct Rig {
    nics: Nics,
    tests: usize,
    start: Instant,
}

/// The plan of a NIC without options.
pub fn nic_plan(device: &str) -> NicPlan {
    NicPlan {
        device: device.parse().unwrap(),
        service: ServiceOptions::default(),
        libcxi: None,
        cpus: Cpus::Any,
    }
}

/// Begins tests of these tools. `number` is the number of the first NIC.
pub fn begin(nics: &mut Nics, number: u32, tools: &[&str], pair: Duration) {
    let plan_for = |tool: &&str| {
        // Small buffers: debug builds take long to fill them.
        let option = if tool.ends_with("bw") { "--list-size=4" } else { "--latency-gap=0" };
        let plan = plan(tool, &[option]);
        TestPlan {
            // Tests run side by side.
            class: None,
            max_waited_percent: f64::INFINITY,
            ..TestPlan::new(plan.tool, plan.run).unwrap()
        }
    };
    let plans: Vec<_> = tools.iter().map(plan_for).collect();
    let course = TestSetup {
        tests: Vec::new(),
        arguments: Vec::new(),
        pair_ns: pair.as_nanos() as u64,
        first_nic: NicId(number),
    };
    nics.begin(3, &course, &plans);
}

impl Rig {
    /// Opens `devices` and begins tests of these tools.
    fn new(devices: &[&str], tools: &[&str]) -> Self {
        let plans = devices.iter().map(|device| nic_plan(device));
        let mut nics = Nics::open(plans.collect()).unwrap();
        begin(&mut nics, 10, tools, PAIR);
        Self { nics, tests: tools.len(), start: Instant::now() }
    }

    /// Both tasks of a pair.
    fn pair(&self, slot: u32, test: u16, initiator: u32, target: u32) -> Vec<Task> {
        pair(slot, TestId(test), [10 + initiator, 10 + target].map(NicId), false)
    }

    fn addresses(&self) -> Vec<Result<FabricAddress, String>> {
        let facts = self.nics.facts().into_iter();
        facts.map(|facts| Ok(facts.address.unwrap())).collect()
    }

    /// Runs a block that begins now.
    fn run(&mut self, slots: u32, tasks: Vec<Task>) -> Report {
        self.run_at(self.start.elapsed(), slots, tasks)
    }

    /// Measures a pair until both processes had their CPUs.
    fn measure(&mut self, test: u16, initiator: u32, target: u32) -> TaskResult {
        for _ in 0..ATTEMPTS {
            let tasks = self.pair(0, test, initiator, target);
            let report = self.run(1, tasks);
            let result = merged(&report, 10 + initiator, 10 + target);
            if !result.is_untested() {
                return result;
            }
        }
        panic!("{ATTEMPTS} attempts without a CPU");
    }

    fn run_at(&mut self, begins: Duration, slots: u32, tasks: Vec<Task>) -> Report {
        let block = Block {
            number: 5,
            begins_ns: begins.as_nanos() as u64,
            slot_ns: SLOT.as_nanos() as u64,
            slots,
            window_bytes: None,
            tasks,
            addresses: (0..self.nics.members.len() as u32)
                .filter_map(|nic| Some((NicId(10 + nic), self.nics.facts()[nic as usize].address?)))
                .collect(),
        };
        let start = self.start;
        self.nics.run(&Arc::new(block), |ns| start + Duration::from_nanos(ns))
    }
}

/// Both tasks of a pair of NICs, or the task of a NIC that is alone.
pub fn pair(
    slot: u32,
    test: TestId,
    [initiator, target]: [NicId; 2],
    reads_all_counters: bool,
) -> Vec<Task> {
    let measure = SlotTask::Measure { test, target, reads_all_counters };
    let mut tasks = vec![Task { slot, nic: initiator, part: measure }];
    if initiator != target {
        tasks.push(Task { slot, nic: target, part: SlotTask::Answer { test, initiator } });
    }
    tasks
}

/// The result of a pair: from its target, if there is one.
fn merged(report: &Report, initiator: u32, target: u32) -> TaskResult {
    let pair = [initiator, target].map(NicId);
    let mut pair_results = report.results.iter().filter(|result| pair.contains(&result.nic));
    let one = pair_results.next().expect("a result");
    let other = pair_results.next().filter(|_| !one.is_untested());
    other.unwrap_or(one).clone()
}

/// The figures of a pair that was measured.
fn figures(result: &TaskResult) -> Figures {
    match &result.answer {
        TaskAnswer::Figures(figures) => *figures,
        other => panic!("{other:?}"),
    }
}

/// Attempts to measure a pair on a machine whose CPUs are busy.
const ATTEMPTS: u32 = 1000;

#[test]
fn measures_pair_with_each_tool() {
    let tools: Vec<_> = peer_tools().iter().map(|tool| tool.name).collect();
    let mut rig = Rig::new(&["soft80", "soft81"], &tools);
    for (test, tool) in (0..).zip(peer_tools()) {
        let result = rig.measure(test, 0, 1);
        assert_eq!((result.slot, result.nic), (0, NicId(10)));
        match figures(&result) {
            Figures::Latency { count, min_ns, p5_ns, median_ns, p90_ns, p99_ns, max_ns } => {
                assert!(!tool.measures_bandwidth() && p99_ns.is_some() == (count >= 1000));
                assert!(p90_ns.is_some() == (count >= 30));
                assert!(Some(min_ns) <= p5_ns && p5_ns <= Some(median_ns));
                assert!(median_ns <= max_ns && min_ns > 0);
            }
            Figures::Bandwidth { bytes_per_second, operations_per_second } => {
                assert!(tool.measures_bandwidth() && operations_per_second > 0.0);
                assert!(bytes_per_second >= operations_per_second);
            }
        }
    }
    drop(rig.nics);
}

#[test]
fn measures_nic_alone_with_one_sided_tools() {
    let tools = peer_tools().iter().filter(|tool| !is_two_sided(tool));
    let tools: Vec<_> = tools.map(|tool| tool.name).collect();
    let mut rig = Rig::new(&["soft82"], &tools);
    for test in 0..rig.tests as u16 {
        figures(&rig.measure(test, 0, 0));
    }
    drop(rig.nics);
}

/// Two pairs of four NICs, and the same pairs in the other direction, in the slots of one block.
#[test]
fn measures_several_pairs_at_once() {
    let mut rig = Rig::new(&["soft83", "soft84", "soft85", "soft86"], &["write-lat"]);
    for _ in 0..ATTEMPTS {
        let pairs = [(0, 0, 1), (0, 2, 3), (1, 1, 0), (1, 3, 2)];
        let tasks = pairs.map(|(slot, one, other)| rig.pair(slot, 0, one, other));
        let report = rig.run(2, tasks.concat());
        assert_eq!((report.block, report.rank), (5, 3));
        assert_eq!(report.addresses, rig.addresses());
        let in_slot = |slot| Report {
            results: report.results.iter().filter(|result| result.slot == slot).cloned().collect(),
            ..report.clone()
        };
        let answers = pairs.map(|(slot, one, other)| merged(&in_slot(slot), 10 + one, 10 + other));
        if answers.iter().all(|result| !result.is_untested()) {
            assert!(report.beyond_ns > 0);
            for result in &answers {
                figures(result);
            }
            return drop(rig.nics);
        }
    }
    panic!("{ATTEMPTS} attempts without a CPU");
}

#[test]
fn late_block_is_untested() {
    let mut rig = Rig::new(&["soft87", "soft88"], &["send-lat"]);
    let tasks = rig.pair(0, 0, 0, 1);
    rig.start -= 2 * SLOT;
    let report = rig.run_at(Duration::ZERO, 1, tasks);
    for result in &report.results {
        let TaskAnswer::Untested(why) = &result.answer else { panic!("{result:?}") };
        assert_eq!(why, &Untested::Late);
    }
    assert_eq!(report.results.len(), 2);
    drop(rig.nics);
}

#[test]
fn nic_that_cannot_be_opened_says_why() {
    let mut plan = nic_plan("soft89");
    plan.service.svc_id = Some(77);
    let nics = Nics::open(vec![plan, nic_plan("soft89")]).unwrap();
    let [refused, open] = &nics.facts()[..] else { panic!("two NICs") };
    let why = refused.failure.as_deref().unwrap();
    assert!(why.contains("service 77 of soft89"), "{why}");
    assert_eq!(refused.address, None);
    assert!(open.failure.is_none() && open.simulated && open.vni == 1);
    assert_eq!(open.device, "soft89");
    assert_eq!(open.location, None);
    drop(nics);
}

fn worker(rig: &mut Rig) -> &mut Worker {
    rig.nics.members[0].thread.as_mut().unwrap()
}

/// The NIC of the first pair never ends. The process reports the other one, tries the first one
/// again, and then does not wait for it any more.
#[test]
fn gives_up_nic_that_does_not_end() {
    let mut rig = Rig::new(&["soft78", "soft79"], &["write-lat"]);
    let tasks = [rig.pair(0, 0, 0, 0), rig.pair(0, 0, 1, 1)].concat();
    let (orders, ignored) = unbounded();
    let working = mem::replace(&mut worker(&mut rig).orders, orders.clone());
    let late = "the tasks of soft78 did not end in time (no CPU for its thread, or it hangs)";
    let untested = |why: &str| TaskAnswer::Untested(why.into());
    let report = rig.run(1, tasks.clone());
    assert_eq!(merged(&report, 10, 10).answer, untested(late));
    assert_ne!(merged(&report, 11, 11).answer, untested(late));
    assert!(report.addresses.iter().all(Result::is_ok));
    // It ends the tasks of the next block.
    worker(&mut rig).orders = working;
    let report = rig.run(1, tasks.clone());
    assert_ne!(merged(&report, 10, 10).answer, untested(late));
    worker(&mut rig).orders = orders;
    for _ in 0..2 {
        let report = rig.run(1, tasks.clone());
        assert_eq!(merged(&report, 10, 10).answer, untested(late));
        assert!(report.addresses[0].is_ok());
    }
    let report = rig.run(1, tasks);
    let given_up = format!("{late} 3 times: reading its counters did not return");
    assert_eq!(merged(&report, 10, 10).answer, untested(&given_up));
    assert_eq!(report.addresses[0], Err(given_up.clone()));
    assert!(report.addresses[1].is_ok());
    assert_eq!(rig.nics.facts()[0].failure, Some(given_up));
    drop(ignored);
    drop(rig.nics);
}
