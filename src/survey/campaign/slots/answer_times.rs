//! How long the fabric takes to answer: slots and lists follow from the first pairs.
//!
//! An operation without an answer in its slot says that the pair is dead, or that the slot is too
//! short for the fabric. Most pairs of a class are not dead: if most of them have no answer, a few
//! are probed in a long slot. If these answer, the class is slow: its lists get one operation, and
//! slots as long as that takes. Otherwise the failures stand. A pair whose class answers is
//! measured in a long slot itself if its small operations were answered: it may be slow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::pace::with_window;
use super::pairs::MeasuredRounds;
use crate::quiet::answer::{Answer, Figures, Pair, Stage};
use crate::quiet::findings::Test;
use crate::quiet::ids::{NicId, TestId};
use crate::quiet::roster::Roster;
use crate::quiet::rounds::Round;
use crew::location::Class;

/// The windows of probes. In the last one, a NIC sends 64 KiB at 4 kB/s.
pub const WINDOWS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(15)];

/// Operations of at most this many bytes need the first of these windows only.
const SMALL: u64 = 4096;

/// Pairs of a class with an answer, of which most have one, after which a missing answer is the
/// pair's.
const ENOUGH: usize = 16;

/// A slot leaves this many times as long as an operation has taken: pairs may share links.
const SPARE: u32 = 8;

/// Pairs of a class that are probed.
const PROBES: usize = 2;

/// The times of the answers of each test.
#[derive(Debug, Default)]
pub struct AnswerTimes {
    classes: BTreeMap<(TestId, Class), ClassAnswers>,
    /// Pairs that are dead in an earlier test: they say nothing about the time of answers.
    dead: BTreeSet<Pair>,
    /// How long a single operation of a pair takes that is slower than its class.
    slow_pairs: BTreeMap<(TestId, Pair), Duration>,
}

/// The pairs of a class of the sweep, as far as they are needed.
#[derive(Debug, Default)]
struct ClassAnswers {
    answered: Vec<Pair>,
    unanswered: Vec<Pair>,
    /// Whether a missing answer is the pair's.
    is_settled: bool,
    /// How long a single operation takes, if the class is slow.
    slow: Option<Duration>,
}

/// Classes of which most pairs had no answer, with these pairs.
pub type Suspects = BTreeMap<Class, BTreeSet<Pair>>;

impl AnswerTimes {
    /// Adds what the pairs of a block have answered. Returns the classes that are dead or slow.
    pub fn add(&mut self, block: &MeasuredRounds, roster: &Roster) -> Suspects {
        for result in block.pairs.iter().filter(|result| result.stage == Stage::Sweep) {
            let key = (block.test, roster.class(result.pair));
            let class = self.classes.entry(key).or_default();
            if matches!(result.answer, Answer::Measured(_)) {
                class.answered.push(result.pair);
            } else if block.unanswered.contains(&result.pair) && !self.dead.contains(&result.pair) {
                class.unanswered.push(result.pair);
            }
        }
        let classes = self.classes.iter_mut().filter(|((test, _), _)| *test == block.test);
        let mut suspects = Suspects::new();
        for ((_, class), answers) in classes {
            if answers.is_suspect() {
                suspects
                    .insert(*class, std::mem::take(&mut answers.unanswered).into_iter().collect());
            } else {
                answers.forget_if_enough();
            }
        }
        suspects
    }

    /// Returns the pairs without an answer of a block that may be slower than their class: their
    /// smaller operations were answered, and a NIC of which some pairs are dead is not in them.
    pub fn lone_pairs(&self, test: &Test, block: &MeasuredRounds) -> BTreeSet<Pair> {
        let is_of_dead_nic = |pair: &Pair| {
            let dead = |nic| self.dead.iter().filter(|dead| dead.nics().contains(nic)).count();
            pair.nics().iter().any(|nic| dead(nic) >= PROBES)
        };
        let failed = block.pairs.iter().filter(|result| matches!(result.answer, Answer::Failed(_)));
        let unanswered = failed.map(|result| result.pair).filter(|pair| {
            test.size_bytes > SMALL
                && block.unanswered.contains(pair)
                && !self.dead.contains(pair)
                && !is_of_dead_nic(pair)
        });
        unanswered.collect()
    }

    /// Notes how long a single operation of a pair takes that is slower than its class.
    pub fn add_slow_pair(&mut self, test: TestId, pair: Pair, time: Duration) {
        self.slow_pairs.insert((test, pair), time);
    }

    /// Notes that pairs are dead.
    pub fn add_dead(&mut self, pairs: impl IntoIterator<Item = Pair>) {
        self.dead.extend(pairs);
    }

    /// Returns the shortest slot of a round of slow pairs that are measured for the time `pair`;
    /// `None` if no pair of it is slower than its class.
    pub fn slot_of_slow_pairs(&self, round: &Round, pair: Duration) -> Option<Duration> {
        let times = round.pairs.iter().map(|own| self.slow_pairs.get(&(round.test, *own)));
        Some(slot(times.flatten().copied().max()?, pair))
    }

    /// Returns how long an operation of a class takes in slots that suffice for more of them at
    /// once; `None` if there are no longer ones, or if it is not known to be slow.
    pub fn longer(&self, test: TestId, class: Class) -> Option<Duration> {
        let longer = 4 * self.classes.get(&(test, class))?.slow?;
        (longer * SPARE / 4 < WINDOWS[1]).then_some(longer)
    }

    /// Notes how long a single operation of a class takes; `None` if its pairs are dead.
    pub fn decide(
        &mut self,
        test: TestId,
        class: Class,
        time: Option<Duration>,
        pairs: &BTreeSet<Pair>,
    ) {
        let answers = self.classes.entry((test, class)).or_default();
        *answers =
            ClassAnswers { is_settled: time.is_none(), slow: time, ..ClassAnswers::default() };
        if time.is_none() {
            self.dead.extend(pairs);
        }
    }

    /// Returns whether lists of a class have one operation.
    pub fn is_slow(&self, test: TestId, class: Class) -> bool {
        self.classes.get(&(test, class)).is_some_and(|class| class.slow.is_some())
    }

    /// Returns whether lists of a pair have one operation.
    pub fn is_slow_pair(&self, test: TestId, pair: Pair) -> bool {
        self.slow_pairs.contains_key(&(test, pair))
    }

    /// Returns the shortest slot of a test whose pairs are measured for the time `pair`; `None` if
    /// no class is slow.
    pub fn slot(&self, test: TestId, pair: Duration) -> Option<Duration> {
        let slow = self.classes.iter().filter(|((own, _), _)| *own == test);
        Some(slot(slow.filter_map(|(_, class)| class.slow).max()?, pair))
    }
}

/// Returns the shortest slot for pairs whose single operations take the time `slowest`, and that
/// are measured for the time `pair`.
fn slot(slowest: Duration, pair: Duration) -> Duration {
    with_window(pair + (slowest * SPARE).min(WINDOWS[1]))
}

/// Returns the windows in which pairs of a test are probed.
pub fn windows(test: &Test) -> &'static [Duration] {
    if test.size_bytes <= SMALL { &WINDOWS[..1] } else { &WINDOWS }
}

/// Returns some pairs of each class, of different NICs.
pub fn probes(suspects: &Suspects) -> Vec<Pair> {
    let mut nics = BTreeSet::new();
    suspects.values().flat_map(|pairs| some_disjoint(pairs.iter(), &mut nics)).collect()
}

/// Returns some of these pairs without a NIC in common, and not in `nics`, to which it adds them.
pub fn some_disjoint<'a>(
    pairs: impl Iterator<Item = &'a Pair>,
    nics: &mut BTreeSet<NicId>,
) -> Vec<Pair> {
    let free = pairs.filter(|pair| {
        let is_free = pair.nics().iter().all(|nic| !nics.contains(nic));
        if is_free {
            nics.extend(pair.nics());
        }
        is_free
    });
    free.take(PROBES).copied().collect()
}

/// Returns how long an operation of this size takes.
pub fn time(figures: Figures, size_bytes: u64) -> Duration {
    match figures {
        Figures::Bandwidth { bytes_per_second, .. } => {
            Duration::try_from_secs_f64(size_bytes as f64 / bytes_per_second).unwrap_or(WINDOWS[1])
        }
        Figures::Latency { max_ns, .. } => Duration::from_nanos(max_ns),
    }
}

impl ClassAnswers {
    /// Returns whether most pairs have no answer, and not because a few NICs are dead: NICs that no
    /// pair has reached do not count, if they are fewer than the others.
    fn is_suspect(&self) -> bool {
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

    fn forget_if_enough(&mut self) {
        if self.answered.len() >= ENOUGH && self.answered.len() > self.unanswered.len() {
            *self = Self { is_settled: true, slow: self.slow, ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::answer::PairResult;
    use crate::quiet::testing::{Cluster, pair};

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

    fn roster() -> Roster {
        Cluster::new([0, 0, 8, 1], &[], 0).roster
    }

    #[test]
    fn slots_follow_from_the_time_of_an_operation() {
        let (mut times, test, class) = (AnswerTimes::default(), TestId(0), Class::Unknown);
        let pair = Duration::from_millis(50);
        let all = [(0, 1), (2, 3), (4, 5), (6, 7)];
        let suspects = times.add(&block(&[], &all), &roster());
        assert_eq!(suspects[&class].len(), 4);
        assert_eq!((probes(&suspects).len(), times.longer(test, class)), (PROBES, None));
        times.decide(test, class, Some(Duration::from_millis(300)), &suspects[&class]);
        assert!(times.is_slow(test, class));
        assert_eq!(times.slot(test, pair), Some(Duration::from_millis(2450) * 4 / 3));
        // Several pairs may share a link.
        let suspects = times.add(&block(&all[..1], &all[1..]), &roster());
        assert_eq!(suspects[&class].len(), 3);
        assert_eq!(times.longer(test, class), Some(Duration::from_millis(1200)));
        times.decide(test, class, Some(Duration::from_secs(2)), &suspects[&class]);
        assert_eq!(times.slot(test, pair), Some(Duration::from_millis(15_050) * 4 / 3));
        assert_eq!(times.longer(test, class), None);
    }

    #[test]
    fn few_dead_nics_do_not_count() {
        let is_suspect = |answered: &[_], unanswered: &[_]| {
            !AnswerTimes::default().add(&block(answered, unanswered), &roster()).is_empty()
        };
        assert!(!is_suspect(&[(0, 1)], &[(0, 2), (2, 1)]));
        assert!(is_suspect(&[(0, 1)], &[(0, 2), (3, 1)]));
        assert!(is_suspect(&[(0, 1), (1, 2)], &[(1, 0), (2, 1)]));
        assert!(is_suspect(&[], &[(0, 1)]));
    }

    #[test]
    fn dead_class_is_probed_once() {
        let mut times = AnswerTimes::default();
        let dead = block(&[], &[(0, 1)]);
        let suspects = times.add(&dead, &roster());
        times.decide(TestId(0), Class::Unknown, None, &suspects[&Class::Unknown]);
        assert_eq!(times.slot(TestId(0), Duration::ZERO), None);
        assert!(times.add(&block(&[], &[(2, 3)]), &roster()).is_empty());
        // A larger operation says nothing about a pair that is dead.
        let larger = MeasuredRounds { test: TestId(1), ..dead };
        assert!(times.add(&larger, &roster()).is_empty());
    }
}
