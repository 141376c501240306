//! Which orders and reports are accepted. Each number is checked here before anything else reads
//! it, and each text is cut. A process may speak about itself only: its NICs and its slots.
//!
//! The limits of times and rates are far beyond what any NIC or host can reach, so that no honest
//! process is expelled for a bad measurement.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Block, MOST_PEERS, Report, SlotTask, SurveyWork, Task, TaskAnswer, TaskResult, TestSetup,
};
use crate::quiet::answer::{Figures, Untested};
use crate::quiet::busy::HostLoad;
use crate::quiet::findings::Test;
use crate::quiet::roster::NicId;
use crew::star::{Expected, Work};
use facts::device::FabricAddress;
use facts::figures::LONGEST_NS;
use facts::text;

/// Largest number of threads or CPUs in any message.
const LARGEST_LOAD: f64 = 1e9;

/// Most bytes in one part of the counted time of a slot under load.
const MOST_BYTES: u64 = 1 << 50;

/// The longest load without an order (load.md 3.8).
const LONGEST_LOAD_NS: u64 = 2_000_000_000;

/// Most counters of a result, and the largest change of one: counters have 56 bits
/// (health.md 1.2).
const MOST_COUNTERS: usize = 64;
const LARGEST_CHANGE: u64 = 1 << 56;

/// Most processes in a load.
const MOST_PROCESSES: usize = 16;

impl Work for SurveyWork {
    type TestSetup = TestSetup;
    type Block = Block;
    type Report = Report;

    fn is_valid_setup(setup: &TestSetup) -> bool {
        setup.tests.len() == setup.arguments.len() && setup.pair_ns <= LONGEST_NS
    }

    /// An order that loads the fabric for longer than two seconds is not valid: the load has to end
    /// soon if the coordinator is gone.
    fn is_valid_block(block: &Block, nics: usize, setup: Option<&TestSetup>) -> bool {
        let (tests, first) =
            setup.map_or((0, NicId(0)), |setup| (setup.tests.len(), setup.first_nic));
        let is_loaded = block.window_bytes.is_some();
        let is_valid = |task: &Task| {
            let nic = task.nic.0.checked_sub(first.0);
            let is_known = match &task.part {
                SlotTask::Measure { .. } | SlotTask::Answer { .. } => true,
                SlotTask::Send { targets, .. } => {
                    is_loaded && (1..=MOST_PEERS).contains(&targets.len())
                }
                SlotTask::Watch => is_loaded,
            };
            let has_address = |nic: &NicId| block.addresses.contains_key(nic);
            is_known
                && nic.is_some_and(|nic| (nic as usize) < nics)
                && task.slot < block.slots
                && task.part.test().is_none_or(|test| test.index() < tests)
                && task.part.peers().iter().all(has_address)
        };
        let places = block.tasks.iter().map(|task| (task.slot, task.nic));
        let is_single = places.collect::<BTreeSet<_>>().len() == block.tasks.len();
        let length = block.slot_ns.checked_mul(block.slots.into());
        let end = length.and_then(|length| block.begins_ns.checked_add(length));
        let longest = if is_loaded { LONGEST_LOAD_NS } else { u64::MAX };
        block.slot_ns <= LONGEST_NS
            && length.is_some_and(|length| length <= longest)
            && end.is_some()
            && is_single
            && block.addresses.values().all(|address| address.is_valid())
            && block.tasks.iter().all(is_valid)
    }

    fn end_ns(block: &Block) -> u64 {
        block.begins_ns.saturating_add(block.slot_ns.saturating_mul(block.slots.into()))
    }

    fn accept(report: &mut Report, expected: Expected<Self>) -> Result<(), String> {
        if report.rank != expected.rank {
            return Err(format!("its report is about rank {}", report.rank));
        }
        let block = expected.block;
        if report.block != block.number {
            return Err(format!("it has reported block {}", report.block));
        }
        accept_addresses(&mut report.addresses, expected.nics)?;
        accept_time(report.beyond_ns.max(report.clock_uncertainty_ns.unwrap_or(0)))?;
        report.load.as_mut().map_or(Ok(()), HostLoad::accept)?;
        let tests = expected.setup.map_or(&[][..], |setup| &setup.tests);
        let tasks = block.tasks.iter().map(|task| ((task.slot, task.nic), &task.part));
        let mut tasks: BTreeMap<(u32, NicId), &SlotTask> = tasks.collect();
        let is_loaded = block.window_bytes.is_some();
        report.results.iter_mut().try_for_each(|result| {
            match tasks.remove(&(result.slot, result.nic)) {
                Some(part) if is_loaded => result.accept_loaded(part, block.slot_ns),
                Some(part) => result.accept(part, tests),
                None => Err("it has reported a NIC for which it has no slot".into()),
            }
        })
    }
}

/// Checks a time in nanoseconds.
fn accept_time(ns: u64) -> Result<(), String> {
    (ns <= LONGEST_NS).then_some(()).ok_or_else(|| "it has reported a time out of range".to_owned())
}

/// Checks the addresses of the NICs of a process with this many of them, and cuts the texts.
fn accept_addresses(
    addresses: &mut [Result<FabricAddress, String>],
    nics: usize,
) -> Result<(), String> {
    if addresses.len() != nics {
        let count = addresses.len();
        return Err(format!("it has reported {count} addresses for {nics} NICs"));
    }
    for address in addresses {
        match address {
            Ok(address) if !address.is_valid() => {
                return Err("it has reported an address that no NIC has".into());
            }
            Ok(_) => {}
            Err(why) => text::accept(why),
        }
    }
    Ok(())
}

impl TaskResult {
    /// Checks the result of a task without load.
    fn accept(&mut self, part: &SlotTask, tests: &[Test]) -> Result<(), String> {
        self.accept_counters()?;
        match (&mut self.answer, part) {
            (TaskAnswer::Figures(figures), SlotTask::Measure { test, .. }) => {
                accept_figures(*figures, tests.get(test.index()))
            }
            (answer, _) => accept_without_figures(answer),
        }
    }

    /// Checks the result of a task under load, in a slot of this length.
    fn accept_loaded(&mut self, part: &SlotTask, slot_ns: u64) -> Result<(), String> {
        self.accept_counters()?;
        match (&mut self.answer, part) {
            (TaskAnswer::Sent { bytes, unreached }, SlotTask::Send { targets, .. }) => {
                if bytes.iter().any(|byte| *byte > MOST_BYTES) {
                    return Err("it has reported a bandwidth out of range".into());
                }
                let has_peer = |place: &u32| (*place as usize) < targets.len();
                let is_valid = unreached.is_sorted_by(|one, next| one < next)
                    && unreached.iter().all(has_peer);
                let rule = || "it has reported peers that it does not have".to_owned();
                is_valid.then_some(()).ok_or_else(rule)
            }
            (TaskAnswer::Latencies(samples), SlotTask::Measure { .. }) => {
                let is_valid = samples.is_valid()
                    && samples.count() > 0
                    && samples.time_of_others_ns() <= slot_ns as f64;
                let rule = || "it has reported a latency out of range".to_owned();
                is_valid.then_some(()).ok_or_else(rule)
            }
            (TaskAnswer::Present, SlotTask::Answer { .. } | SlotTask::Watch) => Ok(()),
            (answer, _) => accept_without_figures(answer),
        }
    }

    fn accept_counters(&mut self) -> Result<(), String> {
        if self.waited_percent > 100 {
            return Err(format!("it has waited {}% of its time", self.waited_percent));
        }
        if self.counters.len() + self.watched.len() > MOST_COUNTERS {
            return Err("it has reported too many counters".into());
        }
        let changes = self.counters.iter().map(|(_, change)| change);
        let mut changes = changes.chain(self.watched.iter().map(|(_, change)| change));
        if changes.any(|change| *change > LARGEST_CHANGE) {
            return Err("it has reported a counter out of range".into());
        }
        self.counters.iter_mut().for_each(|(name, _)| text::accept(name));
        Ok(())
    }
}

/// Checks an answer that any task may have, and cuts its text.
fn accept_without_figures(answer: &mut TaskAnswer) -> Result<(), String> {
    match answer {
        TaskAnswer::Failed(why)
        | TaskAnswer::NoAnswer(why)
        | TaskAnswer::Untested(Untested::Other(why)) => {
            text::accept(why);
            Ok(())
        }
        TaskAnswer::Untested(_) => Ok(()),
        _ => Err("it has reported another task than its own".into()),
    }
}

/// Checks the figures of a pair in this test.
fn accept_figures(figures: Figures, test: Option<&Test>) -> Result<(), String> {
    let is_bandwidth = test.is_some_and(|test| test.of_bandwidth);
    let (name, other) = match figures {
        Figures::Latency { .. } => ("latency", "bandwidth"),
        Figures::Bandwidth { .. } => ("bandwidth", "latency"),
    };
    if matches!(figures, Figures::Bandwidth { .. }) != is_bandwidth {
        return Err(format!("it has reported a {name} in a test of {other}"));
    }
    let rule = || format!("it has reported a {name} out of range");
    figures.are_possible().then_some(()).ok_or_else(rule)
}

impl HostLoad {
    fn accept(&mut self) -> Result<(), String> {
        let mut loads = self.most.iter().map(|(_, cpus)| *cpus).chain([self.mean]);
        if self.most.len() > MOST_PROCESSES || !loads.all(|load| is_within(load, LARGEST_LOAD)) {
            return Err("it has reported a load out of range".into());
        }
        self.most.iter_mut().map(|(name, _)| name).for_each(text::accept);
        Ok(())
    }
}

/// Whether a number is between 0 and `most`. NaN and infinities are not.
fn is_within(number: f64, most: f64) -> bool {
    (0.0..=most).contains(&number)
}

#[cfg(test)]
mod tests {
    use super::super::{Histogram, PARTS, Watched};
    use super::*;
    use crate::quiet::roster::TestId;

    const PEER: FabricAddress = FabricAddress { nic: 1, pid: 2 };

    /// A NIC of another process that has an address.
    const OTHER: NicId = NicId(9);

    const LATENCY: TestId = TestId(0);

    fn task(nic: u32, part: SlotTask) -> Task {
        Task { slot: 0, nic: NicId(nic), part }
    }

    fn send(peers: usize) -> SlotTask {
        SlotTask::Send { test: LATENCY, targets: vec![OTHER; peers] }
    }

    fn measure(test: TestId, target: NicId) -> SlotTask {
        SlotTask::Measure { test, target, reads_all_counters: false }
    }

    fn quiet(tasks: Vec<Task>) -> Block {
        Block {
            number: 3,
            begins_ns: 10,
            slot_ns: 250_000_000,
            slots: 8,
            window_bytes: None,
            tasks,
            addresses: [(OTHER, PEER)].into(),
        }
    }

    fn loaded(tasks: Vec<Task>) -> Block {
        Block { window_bytes: Some(1 << 20), ..quiet(tasks) }
    }

    fn tests() -> Vec<Test> {
        vec![Test { tool: "write-lat".into(), size_bytes: 8, of_bandwidth: false }]
    }

    /// The test setup of a process with the NICs 5 and 6.
    fn setup() -> TestSetup {
        TestSetup { tests: tests(), arguments: vec![Vec::new()], pair_ns: 1, first_nic: NicId(5) }
    }

    #[test]
    fn accepts_orders_that_it_can_carry_out() {
        let is_valid = |block: Block| SurveyWork::is_valid_block(&block, 2, Some(&setup()));
        let part = measure(LATENCY, OTHER);
        assert!(is_valid(loaded(vec![task(5, send(64)), task(6, SlotTask::Watch)])));
        assert!(is_valid(quiet(vec![task(5, part.clone()), Task { slot: 7, ..task(5, part) }])));
        for tasks in [
            vec![task(4, measure(LATENCY, OTHER))],
            vec![task(7, measure(LATENCY, OTHER))],
            vec![task(5, measure(LATENCY, OTHER)), task(5, measure(LATENCY, OTHER))],
            vec![task(5, measure(TestId(1), OTHER))],
            vec![task(5, measure(LATENCY, NicId(8)))],
            vec![Task { slot: 8, ..task(5, measure(LATENCY, OTHER)) }],
        ] {
            assert!(!is_valid(quiet(tasks.clone())), "{tasks:?}");
            assert!(!is_valid(loaded(tasks.clone())), "{tasks:?}");
        }
        for part in [send(0), send(65)] {
            assert!(!is_valid(loaded(vec![task(5, part)])));
        }
        for part in [send(1), SlotTask::Watch] {
            assert!(!is_valid(quiet(vec![task(5, part)])));
        }
        let none = FabricAddress { nic: u32::MAX, pid: u32::MAX };
        assert!(!is_valid(Block { addresses: [(OTHER, none)].into(), ..quiet(Vec::new()) }));
        let block = loaded(vec![task(5, SlotTask::Watch)]);
        assert!(!SurveyWork::is_valid_block(&block, 2, None));
    }

    #[test]
    fn refuses_load_for_longer_than_two_seconds() {
        let is_valid = |block: Block, slot_ns, slots| {
            let block = Block { slot_ns, slots, ..block };
            SurveyWork::is_valid_block(&block, 2, Some(&setup()))
        };
        assert!(is_valid(loaded(Vec::new()), 250_000_000, 8));
        assert!(!is_valid(loaded(Vec::new()), 250_000_000, 9));
        assert!(is_valid(quiet(Vec::new()), 250_000_000, 9));
        assert!(!is_valid(loaded(Vec::new()), u64::MAX, 2));
        assert!(!is_valid(quiet(Vec::new()), u64::MAX, 2));
    }

    /// Returns what the coordinator says about a result of the process with the NICs 5 and 6.
    fn accepted(block: &Block, result: TaskResult) -> Result<(), String> {
        let mut report = report(vec![result]);
        let setup = setup();
        SurveyWork::accept(&mut report, Expected { rank: 1, nics: 2, setup: Some(&setup), block })
    }

    fn report(results: Vec<TaskResult>) -> Report {
        Report {
            block: 3,
            rank: 1,
            results,
            addresses: vec![Ok(PEER), Ok(PEER)],
            beyond_ns: 0,
            clock_uncertainty_ns: None,
            load: None,
        }
    }

    #[test]
    fn process_reports_its_own_tasks_only() {
        let block = loaded(vec![task(5, send(1)), task(6, SlotTask::Watch)]);
        let accept = |nic, answer| accepted(&block, TaskResult::new(0, NicId(nic), answer));
        let without = |unreached: &[u32]| TaskAnswer::Sent {
            bytes: [0; PARTS],
            unreached: unreached.to_vec(),
        };
        assert_eq!(accept(5, without(&[0])), Ok(()));
        for unreached in [&[1][..], &[0, 0]] {
            let why = "it has reported peers that it does not have";
            assert_eq!(accept(5, without(unreached)), Err(why.into()));
        }
        let sent = |bytes| TaskAnswer::Sent { bytes: [bytes; PARTS], unreached: Vec::new() };
        assert_eq!(accept(5, sent(1 << 30)), Ok(()));
        assert_eq!(accept(6, TaskAnswer::Present), Ok(()));
        assert_eq!(accept(6, TaskAnswer::Untested(Untested::Late)), Ok(()));
        let other = "it has reported another task than its own";
        for (nic, answer, why) in [
            (5, sent(u64::MAX), "it has reported a bandwidth out of range"),
            (6, sent(1), other),
            (5, TaskAnswer::Latencies(Histogram::default()), other),
            (5, TaskAnswer::Present, other),
            (7, TaskAnswer::Present, "it has reported a NIC for which it has no slot"),
        ] {
            assert_eq!(accept(nic, answer).unwrap_err(), why);
        }
    }

    #[test]
    fn figures_are_those_of_the_test() {
        let answer = SlotTask::Answer { test: LATENCY, initiator: OTHER };
        let block = quiet(vec![task(5, measure(LATENCY, OTHER)), task(6, answer)]);
        let accept = |nic, figures| {
            accepted(&block, TaskResult::new(0, NicId(nic), TaskAnswer::Figures(figures)))
        };
        let latency = |median_ns| Figures::Latency {
            count: 9,
            min_ns: 5,
            p5_ns: None,
            median_ns,
            p90_ns: None,
            p99_ns: None,
            max_ns: 20,
        };
        let bandwidth =
            Figures::Bandwidth { bytes_per_second: 1e9, operations_per_second: f64::NAN };
        assert_eq!(accept(5, latency(9)), Ok(()));
        for (nic, figures, why) in [
            (5, latency(21), "it has reported a latency out of range"),
            (5, bandwidth, "it has reported a bandwidth in a test of latency"),
            (6, latency(9), "it has reported another task than its own"),
        ] {
            assert_eq!(accept(nic, figures).unwrap_err(), why);
        }
        let samples = TaskAnswer::Latencies(Histogram::default());
        let why = accepted(&block, TaskResult::new(0, NicId(5), samples)).unwrap_err();
        assert_eq!(why, "it has reported another task than its own");
    }

    #[test]
    fn refuses_counters_and_samples_beyond_what_a_slot_has() {
        let block = loaded(vec![task(5, measure(LATENCY, OTHER))]);
        let accept = |samples: &[(u64, u64)], watched: Vec<(Watched, u64)>| {
            let mut histogram = Histogram::default();
            samples.iter().for_each(|(ns, count)| histogram.add(*ns, *count));
            let answer = TaskAnswer::Latencies(histogram);
            accepted(&block, TaskResult { watched, ..TaskResult::new(0, NicId(5), answer) })
        };
        let timeouts = |count| vec![(Watched::Timeouts, count)];
        assert_eq!(accept(&[(2000, 100_000)], timeouts(1 << 56)), Ok(()));
        // An operation that is answered after the slot.
        assert_eq!(accept(&[(2000, 100), (9_000_000_000, 1)], vec![]), Ok(()));
        for samples in [&[][..], &[(2000, 1_000_000)], &[(9_000_000_000, 2)]] {
            let why = "it has reported a latency out of range";
            assert_eq!(accept(samples, vec![]).unwrap_err(), why, "{samples:?}");
        }
        let why = "it has reported a counter out of range";
        assert_eq!(accept(&[(2000, 9)], timeouts(u64::MAX)).unwrap_err(), why);
        let named = |count| {
            let counters = vec![("retries".to_owned(), 1); count];
            let answer = TaskAnswer::Failed("no".into());
            accepted(&block, TaskResult { counters, ..TaskResult::new(0, NicId(5), answer) })
        };
        assert_eq!(named(64), Ok(()));
        assert_eq!(named(65).unwrap_err(), "it has reported too many counters");
    }

    #[test]
    fn each_task_has_one_result() {
        let block = loaded(vec![task(5, SlotTask::Watch)]);
        let result = TaskResult::new(0, NicId(5), TaskAnswer::Present);
        let mut report = report(vec![result.clone(), result]);
        let setup = setup();
        let expected = || Expected { rank: 1, nics: 2, setup: Some(&setup), block: &block };
        let accept = |report: &mut Report| SurveyWork::accept(report, expected());
        assert!(accept(&mut report).is_err());
        report.results.pop();
        assert_eq!(accept(&mut report), Ok(()));
        report.block = 4;
        assert_eq!(accept(&mut report).unwrap_err(), "it has reported block 4");
    }
}
