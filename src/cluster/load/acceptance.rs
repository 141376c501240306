//! Which messages about load are accepted: each number is checked here before anything else reads
//! it, and each text is cut, as in the acceptance of quiet blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::timetable::{LoadAnswer, LoadBlock, LoadPart, LoadReport, LoadResult, MOST_PEERS};
use crate::survey::acceptance::{accept_addresses, accept_sender, accept_time};
use crate::survey::ids::{NicId, TestId};
use crate::survey::timetable::Course;
use crate::survey::untested::Untested;
use facts::text;

/// Most bytes in one part of the counted time.
const MOST_BYTES: u64 = 1 << 50;

/// The longest load without an order (load.md 3.8).
const LONGEST_LOAD_NS: u64 = 2_000_000_000;

/// Most counters of a result, and the largest change of one: counters have 56 bits
/// (health.md 1.2).
const MOST_COUNTERS: usize = 16;
const LARGEST_CHANGE: u64 = 1 << 56;

impl LoadBlock {
    /// Returns whether a process with this many `nics`, prepared for `course`, can carry out this
    /// order of its coordinator. An order that loads the fabric for longer than two seconds is not
    /// accepted: the load has to end soon if the coordinator is gone.
    pub fn is_valid(&self, nics: usize, course: Option<&Course>) -> bool {
        let (tests, first) =
            course.map_or((0, NicId(0)), |course| (course.tests.len(), course.first_nic));
        let is_test = |test: &TestId| test.index() < tests;
        let is_valid = |task: &super::timetable::LoadTask| {
            let nic = task.nic.0.checked_sub(first.0);
            let is_own = nic.is_some_and(|nic| (nic as usize) < nics);
            let is_known = match &task.part {
                LoadPart::Send { test, peers } => {
                    is_test(test)
                        && (1..=MOST_PEERS).contains(&peers.len())
                        && peers.iter().all(|peer| peer.is_valid())
                }
                LoadPart::Measure { test, peer } | LoadPart::Answer { test, peer } => {
                    is_test(test) && peer.is_valid()
                }
                LoadPart::Watch => true,
            };
            is_own && is_known && task.slot < self.slots
        };
        let places = self.tasks.iter().map(|task| (task.slot, task.nic));
        let is_single = places.collect::<BTreeSet<_>>().len() == self.tasks.len();
        let length = self.slot_ns.checked_mul(self.slots.into());
        let is_short = length.is_some_and(|length| length <= LONGEST_LOAD_NS);
        let end = length.and_then(|length| self.begins_ns.checked_add(length));
        is_short && is_single && end.is_some() && self.tasks.iter().all(is_valid)
    }
}

/// What the next report of a process about load is about.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedLoad<'a> {
    /// Rank of the process.
    pub rank: u32,
    /// Number of its NICs.
    pub nics: usize,
    /// Its last block under load; none before the first one.
    pub block: Option<&'a LoadBlock>,
}

impl LoadReport {
    /// Checks a report, and cuts its texts.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks, as a sentence about the process.
    pub fn accept(&mut self, expected: ExpectedLoad) -> Result<(), String> {
        let block = expected.block.filter(|block| block.number == self.block);
        let block = accept_sender((self.rank, expected.rank), self.block, block)?;
        accept_addresses(&mut self.addresses, expected.nics)?;
        accept_time(self.clock_uncertainty_ns.unwrap_or(0))?;
        let tasks = block.tasks.iter().map(|task| ((task.slot, task.nic), &task.part));
        let mut tasks: BTreeMap<(u32, NicId), &LoadPart> = tasks.collect();
        self.results.iter_mut().try_for_each(|result| {
            match tasks.remove(&(result.slot, result.nic)) {
                Some(part) => result.accept(part, block.slot_ns),
                None => Err("it has reported a NIC for which it has no slot".into()),
            }
        })
    }
}

impl LoadResult {
    /// Checks the result of a task in a slot of this length.
    fn accept(&mut self, part: &LoadPart, slot_ns: u64) -> Result<(), String> {
        if self.waited_percent > 100 {
            let waited = self.waited_percent;
            return Err(format!("it has waited {waited}% of its time"));
        }
        if self.counters.len() > MOST_COUNTERS {
            return Err("it has reported too many counters".into());
        }
        if self.counters.iter().any(|(_, change)| *change > LARGEST_CHANGE) {
            return Err("it has reported a counter out of range".into());
        }
        match (&mut self.answer, part) {
            (LoadAnswer::Sent { bytes, unreached }, LoadPart::Send { peers, .. }) => {
                if bytes.iter().any(|byte| *byte > MOST_BYTES) {
                    return Err("it has reported a bandwidth out of range".into());
                }
                let has_peer = |place: &u32| (*place as usize) < peers.len();
                let is_valid = unreached.is_sorted_by(|one, next| one < next)
                    && unreached.iter().all(has_peer);
                let rule = || "it has reported peers that it does not have".to_owned();
                is_valid.then_some(()).ok_or_else(rule)
            }
            (LoadAnswer::Measured(samples), LoadPart::Measure { .. }) => {
                let is_valid = samples.is_valid()
                    && samples.count() > 0
                    && samples.time_of_others_ns() <= slot_ns as f64;
                let rule = || "it has reported a latency out of range".to_owned();
                is_valid.then_some(()).ok_or_else(rule)
            }
            (LoadAnswer::Present, LoadPart::Answer { .. } | LoadPart::Watch) => Ok(()),
            (LoadAnswer::Failed(why) | LoadAnswer::Untested(Untested::Other(why)), _) => {
                text::accept(why);
                Ok(())
            }
            (LoadAnswer::Untested(_), _) => Ok(()),
            _ => Err("it has reported another task than its own".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::Histogram;
    use super::super::timetable::{LoadTask, PARTS, Watched};
    use super::*;
    use crate::survey::findings::Test;
    use facts::device::FabricAddress;

    const PEER: FabricAddress = FabricAddress { nic: 1, pid: 2 };

    fn task(nic: u32, part: LoadPart) -> LoadTask {
        LoadTask { slot: 0, nic: NicId(nic), part }
    }

    fn send(peers: usize) -> LoadPart {
        LoadPart::Send { test: TestId(0), peers: vec![PEER; peers] }
    }

    fn block(tasks: Vec<LoadTask>) -> LoadBlock {
        LoadBlock {
            number: 3,
            begins_ns: 10,
            slot_ns: 250_000_000,
            slots: 8,
            window_bytes: 1 << 20,
            tasks,
        }
    }

    /// The course of a process with the NICs 5 and 6.
    fn course() -> Course {
        let test = Test { tool: "write-bw".into(), size_bytes: 65536, of_bandwidth: true };
        Course { tests: vec![test], arguments: vec![Vec::new()], pair_ns: 1, first_nic: NicId(5) }
    }

    #[test]
    fn accepts_orders_that_it_can_carry_out() {
        let is_valid = |block: LoadBlock| block.is_valid(2, Some(&course()));
        assert!(is_valid(block(vec![task(5, send(64)), task(6, LoadPart::Watch)])));
        let test = TestId(1);
        for tasks in [
            vec![task(4, LoadPart::Watch)],
            vec![task(7, LoadPart::Watch)],
            vec![task(5, send(0))],
            vec![task(5, send(65))],
            vec![task(5, send(1)), task(5, LoadPart::Watch)],
            vec![task(5, LoadPart::Measure { test, peer: PEER })],
            vec![LoadTask { slot: 8, ..task(5, LoadPart::Watch) }],
        ] {
            assert!(!is_valid(block(tasks.clone())), "{tasks:?}");
        }
        assert!(!block(vec![task(5, LoadPart::Watch)]).is_valid(2, None));
    }

    #[test]
    fn refuses_load_for_longer_than_two_seconds() {
        let block_for = |slot_ns, slots| LoadBlock { slot_ns, slots, ..block(Vec::new()) };
        let is_valid = |slot_ns, slots| block_for(slot_ns, slots).is_valid(2, Some(&course()));
        assert!(is_valid(250_000_000, 8));
        assert!(!is_valid(250_000_000, 9));
        assert!(!is_valid(u64::MAX, 2));
    }

    #[test]
    fn process_reports_its_own_tasks_only() {
        let block = block(vec![task(5, send(1)), task(6, LoadPart::Watch)]);
        let accept = |nic, answer: LoadAnswer| {
            let mut report = LoadReport {
                block: 3,
                rank: 1,
                results: vec![LoadResult {
                    slot: 0,
                    nic: NicId(nic),
                    answer,
                    waited_percent: 0,
                    counters: Vec::new(),
                }],
                addresses: vec![Ok(PEER), Ok(PEER)],
                clock_uncertainty_ns: None,
            };
            report.accept(ExpectedLoad { rank: 1, nics: 2, block: Some(&block) })
        };
        let without = |unreached: &[u32]| LoadAnswer::Sent {
            bytes: [0; PARTS],
            unreached: unreached.to_vec(),
        };
        assert_eq!(accept(5, without(&[0])), Ok(()));
        for unreached in [&[1][..], &[0, 0]] {
            let why = "it has reported peers that it does not have";
            assert_eq!(accept(5, without(unreached)), Err(why.into()));
        }
        let sent = |bytes| LoadAnswer::Sent { bytes: [bytes; PARTS], unreached: Vec::new() };
        assert_eq!(accept(5, sent(1 << 30)), Ok(()));
        assert_eq!(accept(6, LoadAnswer::Present), Ok(()));
        assert_eq!(accept(6, LoadAnswer::Untested(Untested::Late)), Ok(()));
        for (nic, answer, why) in [
            (5, sent(u64::MAX), "it has reported a bandwidth out of range"),
            (6, sent(1), "it has reported another task than its own"),
            (
                5,
                LoadAnswer::Measured(Histogram::default()),
                "it has reported another task than its own",
            ),
            (7, LoadAnswer::Present, "it has reported a NIC for which it has no slot"),
        ] {
            assert_eq!(accept(nic, answer).unwrap_err(), why);
        }
    }

    #[test]
    fn refuses_counters_and_samples_beyond_what_a_slot_has() {
        let block = block(vec![task(5, LoadPart::Measure { test: TestId(0), peer: PEER })]);
        let accept = |samples: &[(u64, u64)], counters: Vec<(Watched, u64)>| {
            let mut histogram = Histogram::default();
            samples.iter().for_each(|(ns, count)| histogram.add(*ns, *count));
            let mut report = LoadReport {
                block: 3,
                rank: 1,
                results: vec![LoadResult {
                    slot: 0,
                    nic: NicId(5),
                    answer: LoadAnswer::Measured(histogram),
                    waited_percent: 0,
                    counters,
                }],
                addresses: vec![Ok(PEER)],
                clock_uncertainty_ns: None,
            };
            report.accept(ExpectedLoad { rank: 1, nics: 1, block: Some(&block) })
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
    }

    #[test]
    fn each_task_has_one_result() {
        let block = block(vec![task(5, LoadPart::Watch)]);
        let result = LoadResult {
            slot: 0,
            nic: NicId(5),
            answer: LoadAnswer::Present,
            waited_percent: 0,
            counters: Vec::new(),
        };
        let mut report = LoadReport {
            block: 3,
            rank: 1,
            results: vec![result.clone(), result],
            addresses: vec![Ok(PEER)],
            clock_uncertainty_ns: None,
        };
        let expected = ExpectedLoad { rank: 1, nics: 1, block: Some(&block) };
        assert!(report.accept(expected).is_err());
        report.results.pop();
        assert_eq!(report.accept(expected), Ok(()));
        report.block = 4;
        assert_eq!(report.accept(expected).unwrap_err(), "it has reported block 4");
    }
}
