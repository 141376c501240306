//! How long the fabric takes to answer: the windows of slots follow from the first pairs.
//!
//! An operation without an answer in its slot says that the pair is dead, or that the slot is too
//! short for the fabric. Most pairs of a class are not dead: if most of them have no answer, the
//! slots of the test get longer, and its lists shorter, until they have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lengths::with_window;
use super::pairs::MeasuredRounds;
use crate::location::Class;
use crate::survey::answer::{Answer, Figures, Pair, Stage};
use crate::survey::findings::Test;
use crate::survey::ids::TestId;
use crate::survey::roster::Roster;

/// The windows after the usual one. In the last one, a NIC sends 64 KiB at 4 kB/s.
const WINDOWS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(15)];

/// Operations of at most this many bytes are answered in the first of these windows.
const SMALL: u64 = 4096;

/// Pairs of a class with an answer, of which most have one, after which a missing answer is the
/// pair's.
const ENOUGH: usize = 16;

/// A slot leaves this many times as long as the slowest single operation so far has taken.
const SPARE: f64 = 8.0;

/// The times of the answers of each test.
#[derive(Debug, Default)]
pub struct AnswerTimes {
    tests: BTreeMap<TestId, TestTimes>,
    /// Pairs that are dead in an earlier test: they say nothing about the time of answers.
    dead: BTreeSet<Pair>,
}

#[derive(Debug, Default)]
struct TestTimes {
    /// How many of [`WINDOWS`] it has reached.
    level: usize,
    has_single_operations: bool,
    /// The slowest single operation.
    slowest: Option<Duration>,
    classes: BTreeMap<Class, ClassAnswers>,
}

/// The pairs of a class of the sweep, in the slots of this length.
#[derive(Debug, Default)]
struct ClassAnswers {
    answered: Vec<Pair>,
    unanswered: Vec<Pair>,
    is_settled: bool,
}

/// The slots of a test were too short.
#[derive(Debug, PartialEq, Eq)]
pub struct TooShort {
    /// Pairs of this block and earlier ones whose missing answers say nothing.
    pub pairs: BTreeSet<Pair>,
    /// Whether lists get one operation: then other results of this block say nothing either,
    /// because they cannot be compared with what follows. There are none of earlier blocks.
    pub shortens_lists: bool,
}

impl AnswerTimes {
    /// Adds what the pairs of a block have answered to `test`.
    pub fn add(
        &mut self,
        block: &MeasuredRounds,
        test: &Test,
        roster: &Roster,
    ) -> Option<TooShort> {
        let times = self.tests.entry(block.test).or_default();
        let is_first = times.classes.values().all(|class| class.answered.is_empty());
        let sweep = block.pairs.iter().filter(|result| result.stage == Stage::Sweep);
        for result in sweep {
            let class = times.classes.entry(roster.class(result.pair)).or_default();
            if let Answer::Measured(figures) = result.answer {
                class.answered.push(result.pair);
                if times.has_single_operations {
                    times.slowest = times.slowest.max(time(figures, test.size_bytes));
                }
            } else if block.unanswered.contains(&result.pair) && !self.dead.contains(&result.pair) {
                class.unanswered.push(result.pair);
            }
        }
        let most = if test.size_bytes <= SMALL { 1 } else { WINDOWS.len() };
        let is_too_slow = times.classes.values().any(ClassAnswers::is_too_slow);
        if times.level == most || !is_too_slow {
            times.classes.values_mut().for_each(ClassAnswers::settle);
            self.dead.extend(&block.unanswered);
            return None;
        }
        times.level += 1;
        let shortens_lists = is_first && test.of_bandwidth && !times.has_single_operations;
        times.has_single_operations |= shortens_lists;
        times.slowest = None;
        let mut pairs = BTreeSet::new();
        for class in times.classes.values_mut().filter(|class| !class.is_settled) {
            pairs.extend(std::mem::take(&mut class.unanswered));
            if shortens_lists {
                class.answered.clear();
            }
        }
        Some(TooShort { pairs, shortens_lists })
    }

    /// Returns the shortest slot of a test whose pairs are measured for the time `pair`; `None` if
    /// the usual ones suffice. Pairs of the sweep follow from the pairs before.
    pub fn slot(&self, test: TestId, pair: Duration, is_sweep: bool) -> Option<Duration> {
        let times = self.tests.get(&test)?;
        let most = pair.max(*WINDOWS.get(times.level.checked_sub(1)?)?);
        let needed = times.slowest.map(|slowest| pair + slowest.mul_f64(SPARE));
        Some(with_window(needed.filter(|_| is_sweep).map_or(most, |needed| needed.min(most))))
    }
}

/// Returns how long an operation of this size takes at this bandwidth.
fn time(figures: Figures, size_bytes: u64) -> Option<Duration> {
    match figures {
        Figures::Bandwidth { bytes_per_second, .. } => {
            Duration::try_from_secs_f64(size_bytes as f64 / bytes_per_second).ok()
        }
        Figures::Latency { .. } => None,
    }
}

impl ClassAnswers {
    /// Returns whether most pairs have no answer, and not because a few NICs are dead: NICs that no
    /// pair has reached do not count, if they are fewer than the others.
    fn is_too_slow(&self) -> bool {
        if self.is_settled || self.unanswered.is_empty() {
            return false;
        }
        let nics =
            |pairs: &[Pair]| -> BTreeSet<_> { pairs.iter().flat_map(|pair| pair.nics()).collect() };
        let reached = nics(&self.answered);
        let unreached = nics(&self.unanswered).difference(&reached).count();
        let counts = |pair: &&Pair| {
            unreached >= reached.len() || pair.nics().iter().all(|nic| reached.contains(nic))
        };
        let unanswered = self.unanswered.iter().filter(counts).count();
        unanswered > 0 && unanswered >= self.answered.len()
    }

    /// Forgets the pairs if they suffice.
    fn settle(&mut self) {
        if self.answered.len() >= ENOUGH && self.answered.len() > self.unanswered.len() {
            *self = Self { is_settled: true, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::answer::PairResult;
    use crate::survey::testing::{Cluster, pair};

    /// Returns a block in which these pairs of eight NICs have an answer, and those have none.
    fn block(answered: &[(u32, u32)], unanswered: &[(u32, u32)]) -> MeasuredRounds {
        let pairs = |pairs: &[(u32, u32)]| -> Vec<Pair> {
            pairs.iter().map(|(one, other)| pair(*one, *other)).collect()
        };
        let result = |pair, answer| PairResult {
            test: TestId(0),
            pair,
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            answer,
            waited_percent: 0,
            counters: Vec::new(),
        };
        let figures = Figures::Bandwidth { bytes_per_second: 65_536.0, operations_per_second: 1.0 };
        let measured = pairs(answered).into_iter().map(|pair| (pair, Answer::Measured(figures)));
        let missing = pairs(unanswered).into_iter();
        let missing = missing.map(|pair| (pair, Answer::Failed("no answer".into())));
        MeasuredRounds {
            test: TestId(0),
            pairs: measured.chain(missing).map(|(pair, answer)| result(pair, answer)).collect(),
            unanswered: pairs(unanswered).into_iter().collect(),
            beyond: None,
            clock_uncertainty_ns: None,
            work: Vec::new(),
            lost: BTreeMap::new(),
            failed: Vec::new(),
        }
    }

    fn test(size_bytes: u64) -> Test {
        Test { tool: "write-bw".into(), size_bytes, of_bandwidth: true }
    }

    #[test]
    fn slots_follow_from_the_answers() {
        let roster = Cluster::new([0, 0, 8, 1], &[], 0).roster;
        let (mut times, test) = (AnswerTimes::default(), test(65_536));
        let slot = |times: &AnswerTimes, is_sweep| {
            times.slot(TestId(0), Duration::from_millis(50), is_sweep).map(|slot| slot.as_millis())
        };
        let all = [(0, 1), (2, 3), (4, 5), (6, 7)];
        let short = times.add(&block(&[], &all), &test, &roster).unwrap();
        assert_eq!((short.pairs.len(), short.shortens_lists), (4, true));
        assert_eq!(slot(&times, true), Some(4000));
        let short = times.add(&block(&all[..1], &all[1..]), &test, &roster).unwrap();
        assert_eq!((short.pairs.len(), short.shortens_lists), (3, false));
        assert_eq!(slot(&times, true), Some(20_000));
        // An operation takes 1 s.
        assert_eq!(times.add(&block(&all, &[]), &test, &roster), None);
        assert_eq!((slot(&times, true), slot(&times, false)), (Some(10_733), Some(20_000)));
        assert_eq!(times.add(&block(&[], &all), &test, &roster), None, "no slot is longer");
    }

    #[test]
    fn few_dead_nics_do_not_count() {
        let roster = Cluster::new([0, 0, 8, 1], &[], 0).roster;
        let too_short = |answered: &[_], unanswered: &[_]| {
            let block = block(answered, unanswered);
            AnswerTimes::default().add(&block, &test(8), &roster).is_some()
        };
        assert!(!too_short(&[(0, 1)], &[(0, 2), (2, 1)]));
        assert!(too_short(&[(0, 1)], &[(0, 2), (3, 1)]));
        assert!(too_short(&[(0, 1), (1, 2)], &[(1, 0), (2, 1)]));
        assert!(too_short(&[], &[(0, 1)]));
    }

    #[test]
    fn pair_that_is_dead_with_small_operations_says_nothing() {
        let roster = Cluster::new([0, 0, 8, 1], &[], 0).roster;
        let mut times = AnswerTimes::default();
        let dead = block(&[], &[(0, 1)]);
        assert!(times.add(&dead, &test(8), &roster).is_some());
        assert_eq!(times.add(&dead, &test(8), &roster), None);
        let larger = MeasuredRounds { test: TestId(1), ..block(&[], &[(0, 1)]) };
        assert_eq!(times.add(&larger, &test(65_536), &roster), None);
    }
}
