//! The length of slots, and the rounds of a block. The time that processes needed in earlier blocks
//! determines the slots. Pairs that were late or failed before have longer ones.

use std::collections::BTreeMap;
use std::time::Duration;

use super::lengths::{SHORTEST_SLOT, longest, most_beyond, sufficient};
use super::pairs::{MeasuredRounds, reads_all_counters};
use crate::survey::answer::{Answer, PairResult};
use crate::survey::ids::TestId;
use crate::survey::rounds::Round;
use crate::survey::untested::Untested;

/// Most slots of a block, and its longest time. A survey that ends within a block loses the block.
const MOST_SLOTS: usize = 100;
const LONGEST_BLOCK: Duration = Duration::from_secs(2);

/// If more than this part of the pairs of a block have a late process, slots get the longest time.
const LATE_PART: usize = 10;

/// Number of slots of the first block of a test, which shows how much time the processes need.
const FIRST_SLOTS: usize = 2;

/// A survey that takes longer than this says so early.
const LONG: Duration = Duration::from_secs(60);

/// Fewest pairs that tell how long the others take.
const ENOUGH_PAIRS: u64 = 4;

/// Returns how long the pairs that are left of a sweep take, as `answered` of `planned` took the
/// time `elapsed`. `None` if it is too early to say, or if it is not long.
pub fn estimate(answered: u64, planned: u64, elapsed: Duration) -> Option<String> {
    let left = planned.saturating_sub(answered);
    let needed = elapsed.mul_f64(left as f64 / answered.max(1) as f64);
    if answered < ENOUGH_PAIRS || needed < LONG {
        return None;
    }
    let a_minute = 60.0 * answered as f64 / elapsed.as_secs_f64();
    let minutes = (needed.as_secs_f64() / 60.0).ceil();
    Some(format!(
        "about {a_minute:.0} pairs a minute: the other {left} pairs take about {minutes} minutes \
         (a shorter --pair-time, fewer --pairs or --time-limit end earlier)"
    ))
}

/// What takes the same time beside the measurement of a pair: a test, and whether all counters are
/// read.
type Work = (TestId, bool);

/// The lengths of slots.
#[derive(Debug)]
pub struct Pace {
    /// Time for measuring one pair.
    pair: Duration,
    /// Time that the processes need for a pair, without the measurement.
    beyond: BTreeMap<Work, Duration>,
    /// The shortest slot of each slow test.
    shortest: BTreeMap<TestId, Duration>,
    /// What was done last.
    last: Option<Work>,
}

impl Pace {
    /// Creates the pace of a survey that measures each pair for the time `pair`.
    pub fn new(pair: Duration) -> Self {
        Self { pair, beyond: BTreeMap::new(), shortest: BTreeMap::new(), last: None }
    }

    /// Adapts the slots of a test to the results of a block. The results of earlier blocks lose
    /// weight slowly, because not every block has all NICs.
    pub fn add(&mut self, block: &MeasuredRounds) {
        if let (Some(beyond), Some(first)) = (block.beyond, block.pairs.first()) {
            let is_late = |pair: &&PairResult| pair.answer == Answer::Untested(Untested::Late);
            let late = block.pairs.iter().filter(is_late).count();
            let work = (block.test, reads_all_counters(first.stage));
            self.note(work, beyond, late, block.pairs.len());
        }
    }

    /// Sets the shortest slot of a slow test.
    pub fn set_shortest(&mut self, test: TestId, slot: Option<Duration>) {
        self.shortest.extend(slot.map(|slot| (test, slot)));
    }

    /// Notes that the processes needed the time `beyond` for a pair, without the time in which it
    /// is measured, and that `late` of `pairs` pairs had a late process.
    fn note(&mut self, work: Work, beyond: Duration, late: usize, pairs: usize) {
        let most = most_beyond(self.pair);
        let needed = if late * LATE_PART > pairs { most } else { beyond.min(most) };
        let known = self.beyond.entry(work).or_default();
        *known = needed.max(*known * 3 / 4);
    }

    /// Returns the number of slots of a block of the test that was measured last, if `left` is left
    /// of the time.
    pub fn most(&self, left: Option<Duration>) -> usize {
        self.last.map_or(FIRST_SLOTS, |work| self.most_of(work, self.slot(work, true), left))
    }

    /// Returns the length of a slot: short, or for pairs that were late or failed before.
    fn slot(&self, work: Work, is_short: bool) -> Duration {
        let known = self.beyond.get(&work).filter(|_| is_short);
        let slot =
            known.map_or_else(|| longest(self.pair), |beyond| sufficient(self.pair, *beyond));
        slot.max(*self.shortest.get(&work.0).unwrap_or(&SHORTEST_SLOT))
    }

    /// Returns the largest number of slots of this length.
    fn most_of(&self, work: Work, slot: Duration, left: Option<Duration>) -> usize {
        let most = if self.beyond.contains_key(&work) { MOST_SLOTS } else { FIRST_SLOTS };
        slots(slot, left).min(most)
    }

    /// Returns the number of the first of `rounds` that are a block, and the length of their slots.
    /// `is_short` says whether none of their pairs was late or failed before.
    pub fn block(
        &mut self,
        rounds: &[Round],
        is_short: bool,
        left: Option<Duration>,
    ) -> (usize, Duration) {
        let test = rounds[0].test;
        let same = rounds.iter().take_while(|round| round.test == test).count();
        let work = (test, reads_all_counters(rounds[0].stage));
        let slot = self.slot(work, is_short);
        self.last = Some(work);
        (same.min(self.most_of(work, slot, left)), slot)
    }
}

/// Returns how many slots of this length are a block, if `left` is left of the time: at least one.
fn slots(slot: Duration, left: Option<Duration>) -> usize {
    let longest = left.map_or(LONGEST_BLOCK, |left| left.min(LONGEST_BLOCK));
    let fitting = (longest.as_nanos() / slot.as_nanos()) as usize;
    fitting.clamp(1, MOST_SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::answer::Stage;

    const SWEEP: Work = (TestId(0), false);

    fn rounds(tests: &[u16]) -> Vec<Round> {
        let round =
            |test: &u16| Round { test: TestId(*test), stage: Stage::Sweep, pairs: Vec::new() };
        tests.iter().map(round).collect()
    }

    fn milliseconds(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn slots_get_shorter_after_first_block_of_test() {
        let mut pace = Pace::new(milliseconds(60));
        assert_eq!(pace.most(None), 2);
        let one_rounds = rounds(&[0; 20]);
        assert_eq!(pace.block(&one_rounds, true, None), (2, milliseconds(400)));
        pace.note(SWEEP, milliseconds(15), 0, 2);
        assert_eq!(pace.block(&one_rounds, true, None), (16, milliseconds(120)));
        assert_eq!(pace.most(None), 16);
        pace.note(SWEEP, milliseconds(60), 1, 16);
        assert_eq!(pace.block(&one_rounds, true, None), (8, milliseconds(240)));
        // The rounds that are taken from the sweep are one block.
        assert_eq!(pace.most(None), 8);
        // Another test needs another time, and so does reading all counters.
        let mut retests = rounds(&[0; 20]);
        retests.iter_mut().for_each(|round| round.stage = Stage::Retest(1));
        assert_eq!(pace.block(&retests, true, None), (2, milliseconds(400)));
        assert_eq!(pace.block(&rounds(&[0, 0, 1]), true, None).0, 2);
        assert_eq!(pace.block(&rounds(&[1, 1, 1]), true, None), (2, milliseconds(400)));
    }

    #[test]
    fn long_sweep_says_how_long_it_takes() {
        assert_eq!(estimate(3, 1000, Duration::from_secs(10)), None);
        assert_eq!(estimate(20, 40, Duration::from_secs(59)), None);
        let text = estimate(10, 130, Duration::from_secs(30)).unwrap();
        let expected = "about 20 pairs a minute: the other 120 pairs take about 6 minutes ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn slots_get_longer_at_once_and_shorter_slowly() {
        let mut pace = Pace::new(milliseconds(60));
        pace.note(SWEEP, milliseconds(0), 2, 20);
        assert_eq!(pace.slot(SWEEP, true), milliseconds(120));
        pace.note(SWEEP, milliseconds(0), 3, 20);
        assert_eq!(pace.slot(SWEEP, true), milliseconds(400));
        pace.note(SWEEP, milliseconds(0), 0, 20);
        assert_eq!(pace.slot(SWEEP, true), milliseconds(360));
        for _ in 0..10 {
            pace.note(SWEEP, milliseconds(0), 0, 20);
        }
        assert_eq!(pace.slot(SWEEP, true), milliseconds(120));
    }

    #[test]
    fn pairs_that_were_late_or_failed_have_longest_slots() {
        let mut pace = Pace::new(milliseconds(60));
        pace.note(SWEEP, Duration::ZERO, 0, 2);
        assert_eq!(pace.block(&rounds(&[0; 20]), false, None), (5, milliseconds(400)));
    }

    #[test]
    fn ends_block_with_the_time_limit() {
        let mut pace = Pace::new(milliseconds(1));
        pace.note(SWEEP, Duration::ZERO, 0, 2);
        let many = rounds(&[0; 200]);
        for (left, slots) in [(None, 40), (Some(500), 10), (Some(10), 1)] {
            let left = left.map(milliseconds);
            assert_eq!(pace.block(&many, true, left), (slots, SHORTEST_SLOT));
            assert_eq!(pace.most(left), slots);
        }
    }
}
