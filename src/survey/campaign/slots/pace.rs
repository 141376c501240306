//! The lengths of slots, and the rounds of a block. The time that processes needed in earlier
//! blocks determines the slots; pairs that were late or failed before have longer ones. Slots in
//! which a pair is measured by itself have lengths of their own.
//!
//! How long the fabric takes to answer determines slots and lists too. An operation without an
//! answer in its slot says that the pair is dead, or that the slot is too short for the fabric.
//! Most pairs of a class are not dead: if most of them have no answer, a few are probed in a long
//! slot. If these answer, the class is slow: its lists get one operation, and slots as long as that
//! takes. Otherwise the failures stand. A pair whose class answers is measured in a long slot
//! itself if its small operations were answered: it may be slow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::pairs::MeasuredRounds;
use crate::quiet::answer::{Answer, Figures, PairResult, Stage, Untested};
use crate::quiet::busy::is_busy;
use crate::quiet::findings::Test;
use crate::quiet::roster::{NicId, Pair, Roster, TestId};
use crate::quiet::rounds::Round;
use crew::location::Class;

/// Most slots of a block, and its longest time. A survey that ends within a block loses the block.
const MOST_SLOTS: usize = 100;
const LONGEST_BLOCK: Duration = Duration::from_secs(2);

/// If more than one of this many pairs of a block has a late process, slots get the longest time.
const LATE_PART: usize = 10;

/// The same for processes that waited for their CPUs: in longer slots they measure more often, and
/// sometimes without a wait.
const BUSY_PART: usize = 3;

/// A block with fewer pairs may have long slots because of a single process that was late: the next
/// block has few slots, which may show that short ones suffice.
const FEW_PAIRS: usize = 32;
const FEW_SLOTS: usize = 3;

/// Number of slots of the first block of a test, which shows how much time the processes need.
const FIRST_SLOTS: usize = 2;

/// How many times as long as for other tests the first slots of a test are for the work beyond the
/// measurement.
const NEW_TEST: u32 = 3;

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

/// The lengths of slots.
#[derive(Debug)]
pub struct Pace {
    /// Time for measuring one pair.
    pair: Duration,
    /// Time that the processes need for a pair, without the measurement.
    beyond: BTreeMap<TestId, Duration>,
    /// The shortest slot of each slow test.
    shortest: BTreeMap<TestId, Duration>,
    /// Tests whose slots are longer than the last block needed, because of few pairs with late or
    /// busy processes.
    doubtful: BTreeSet<TestId>,
    /// The test that was measured last.
    last: Option<TestId>,
}

impl Pace {
    /// Creates the pace of a survey that measures each pair for the time `pair`.
    pub fn new(pair: Duration) -> Self {
        Self {
            pair,
            beyond: BTreeMap::new(),
            shortest: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            last: None,
        }
    }

    /// Adapts the slots of a test to the results of a block. The results of earlier blocks lose
    /// weight slowly, because not every block has all NICs.
    pub fn add(&mut self, block: &MeasuredRounds, is_bandwidth: bool) {
        let count =
            |is: &dyn Fn(&PairResult) -> bool| block.pairs.iter().filter(|pair| is(pair)).count();
        let late = count(&|pair| pair.answer == Answer::Untested(Untested::Late));
        let busy = count(&|pair| is_busy(pair, is_bandwidth));
        let pairs = block.pairs.len();
        if let Some(beyond) = block.beyond {
            let needs_longest = late * LATE_PART > pairs || busy * BUSY_PART > pairs;
            self.note(block.test, beyond, needs_longest);
            let slot = |beyond| sufficient(self.pair, beyond);
            let is_longer = slot(self.beyond[&block.test]) > slot(beyond);
            let was_doubtful = self.doubtful.remove(&block.test);
            if pairs < FEW_PAIRS && is_longer && (needs_longest || was_doubtful) {
                self.doubtful.insert(block.test);
            }
        }
    }

    /// Sets the shortest slot of a slow test.
    pub fn set_shortest(&mut self, test: TestId, slot: Option<Duration>) {
        self.shortest.extend(slot.map(|slot| (test, slot)));
    }

    /// Notes that the processes needed the time `beyond` for a pair, without the time in which it
    /// is measured, and whether they need the longest slots.
    fn note(&mut self, test: TestId, beyond: Duration, needs_longest: bool) {
        let most = most_beyond(self.pair);
        let needed = if needs_longest { most } else { beyond.min(most) };
        let known = self.beyond.entry(test).or_default();
        *known = needed.max(*known / 2);
    }

    /// The number of slots of a block of the test that was measured last, if `left` is left of the
    /// time.
    pub fn most(&self, left: Option<Duration>) -> usize {
        self.last.map_or(FIRST_SLOTS, |test| self.most_of(test, self.slot(test, true), left))
    }

    /// The length of a slot: short, or for pairs that were late or failed before.
    fn slot(&self, test: TestId, is_short: bool) -> Duration {
        let known = self.beyond.get(&test).copied();
        // A test that was not measured yet may need more time than the others.
        let known = known.or_else(|| Some(NEW_TEST * *self.beyond.values().max()?));
        let slot = known
            .filter(|_| is_short)
            .map_or_else(|| longest(self.pair), |beyond| sufficient(self.pair, beyond));
        slot.max(*self.shortest.get(&test).unwrap_or(&SHORTEST_SLOT))
    }

    /// The largest number of slots of this length.
    fn most_of(&self, test: TestId, slot: Duration, left: Option<Duration>) -> usize {
        let most = match self.beyond.get(&test) {
            None => FIRST_SLOTS,
            Some(_) if self.doubtful.contains(&test) => FEW_SLOTS,
            Some(_) => MOST_SLOTS,
        };
        slots(slot, left).min(most)
    }

    /// The number of the first of `rounds` that are a block, and the length of their slots.
    /// `is_short` says whether none of their pairs was late or failed before.
    pub fn block(
        &mut self,
        rounds: &[Round],
        is_short: bool,
        left: Option<Duration>,
    ) -> (usize, Duration) {
        let test = rounds[0].test;
        let same = rounds.iter().take_while(|round| round.test == test).count();
        let slot = self.slot(test, is_short);
        self.last = Some(test);
        (same.min(self.most_of(test, slot, left)), slot)
    }
}

/// Returns how many slots of this length are a block, if `left` is left of the time: at least one.
fn slots(slot: Duration, left: Option<Duration>) -> usize {
    let longest = left.map_or(LONGEST_BLOCK, |left| left.min(LONGEST_BLOCK));
    let fitting = (longest.as_nanos() / slot.as_nanos()) as usize;
    fitting.clamp(1, MOST_SLOTS)
}

/// Shortest slot: clocks compared over the network are good enough for it (jobs.md 3.6).
const SHORTEST_SLOT: Duration = Duration::from_millis(50);

/// One of this many parts of a slot lies before the operations, for set-up, and one after them, for
/// release.
pub const MARGIN: u32 = 8;

/// The length of a slot whose operations may take five times as long as a pair is measured, the
/// time `pair`; at least the shortest slot.
pub fn longest(pair: Duration) -> Duration {
    with_window(longest_window(pair)).max(SHORTEST_SLOT)
}

/// The time for operations in the [`longest`] slot.
pub fn longest_window(pair: Duration) -> Duration {
    pair + 2 * most_beyond(pair)
}

/// The time beyond the measurement of a pair from which on [`sufficient`] returns the length of the
/// [`longest`] slot.
pub fn most_beyond(pair: Duration) -> Duration {
    2 * pair
}

/// The length of a slot in which a pair is measured for the time `pair`, if sides have needed the
/// time `beyond` for other work. The window is `pair` plus the larger of `2 * beyond` and `pair /
/// 2`. The target of a two-sided tool sets up and releases in the margins alone: the margin at the
/// end of this slot and the margin at the begin of the next slot are together as long as `beyond`.
pub fn sufficient(pair: Duration, beyond: Duration) -> Duration {
    let window = pair + (2 * beyond).max(pair / 2);
    let margins = beyond * (MARGIN / 2);
    with_window(window).max(margins).min(longest(pair))
}

/// The length of a slot with this time for operations.
pub(super) fn with_window(window: Duration) -> Duration {
    window * MARGIN / (MARGIN - 2)
}

/// The windows of probes. In the last one, a NIC sends 64 KiB at 4 kB/s.
pub const PROBE_WINDOWS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(15)];

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

    /// The pairs without an answer of a block that may be slower than their class: their smaller
    /// operations were answered, and a NIC of which some pairs are dead is not in them.
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

    /// The shortest slot of a round of slow pairs that are measured for the time `pair`; `None` if
    /// no pair of it is slower than its class.
    pub fn slot_of_slow_pairs(&self, round: &Round, pair: Duration) -> Option<Duration> {
        let times = round.pairs.iter().map(|own| self.slow_pairs.get(&(round.test, *own)));
        Some(slot(times.flatten().copied().max()?, pair))
    }

    /// Returns how long an operation of a class takes in slots that suffice for more of them at
    /// once; `None` if there are no longer ones, or if it is not known to be slow.
    pub fn longer(&self, test: TestId, class: Class) -> Option<Duration> {
        let longer = 4 * self.classes.get(&(test, class))?.slow?;
        (longer * SPARE / 4 < PROBE_WINDOWS[1]).then_some(longer)
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

    /// Whether lists of a class have one operation.
    pub fn is_slow(&self, test: TestId, class: Class) -> bool {
        self.classes.get(&(test, class)).is_some_and(|class| class.slow.is_some())
    }

    /// Whether lists of a pair have one operation.
    pub fn is_slow_pair(&self, test: TestId, pair: Pair) -> bool {
        self.slow_pairs.contains_key(&(test, pair))
    }

    /// The shortest slot of a test whose pairs are measured for the time `pair`; `None` if no class
    /// is slow.
    pub fn slot(&self, test: TestId, pair: Duration) -> Option<Duration> {
        let slow = self.classes.iter().filter(|((own, _), _)| *own == test);
        Some(slot(slow.filter_map(|(_, class)| class.slow).max()?, pair))
    }
}

/// The shortest slot for pairs whose single operations take the time `slowest`, and that are
/// measured for the time `pair`.
fn slot(slowest: Duration, pair: Duration) -> Duration {
    with_window(pair + (slowest * SPARE).min(PROBE_WINDOWS[1]))
}

/// The windows in which pairs of a test are probed.
pub fn windows(test: &Test) -> &'static [Duration] {
    if test.size_bytes <= SMALL { &PROBE_WINDOWS[..1] } else { &PROBE_WINDOWS }
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
pub fn answer_time(figures: Figures, size_bytes: u64) -> Duration {
    match figures {
        Figures::Bandwidth { bytes_per_second, .. } => {
            Duration::try_from_secs_f64(size_bytes as f64 / bytes_per_second)
                .unwrap_or(PROBE_WINDOWS[1])
        }
        Figures::Latency { max_ns, .. } => Duration::from_nanos(max_ns),
    }
}

impl ClassAnswers {
    /// Whether most pairs have no answer, and not because a few NICs are dead: NICs that no pair
    /// has reached do not count, if they are fewer than the others.
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
    use super::super::LostMembers;
    use super::*;
    use crate::quiet::testing::{Cluster, pair};

    const TEST: TestId = TestId(0);

    fn rounds(tests: &[u16]) -> Vec<Round> {
        let round =
            |test: &u16| Round { test: TestId(*test), stage: Stage::Sweep, pairs: Vec::new() };
        tests.iter().map(round).collect()
    }

    fn timed_pair(is_late: bool, waited_percent: u8) -> PairResult {
        let figures = Figures::Bandwidth { bytes_per_second: 1e9, operations_per_second: 1e6 };
        PairResult {
            test: TEST,
            pair: Pair { initiator: NicId(0), target: NicId(1) },
            stage: Stage::Sweep,
            round: 0,
            active: 1,
            answer: if is_late {
                Answer::Untested(Untested::Late)
            } else {
                Answer::Measured(figures)
            },
            waited_percent,
            counters: Vec::new(),
        }
    }

    /// A block with this number of pairs, of which some are late and further ones waited.
    fn measured(count: usize, late: usize, busy: usize) -> MeasuredRounds {
        let pairs = (0..count).map(|number| {
            let is_late = number < late;
            let waited_percent = if number < late + busy { 10 } else { 0 };
            timed_pair(is_late, waited_percent)
        });
        MeasuredRounds {
            test: TEST,
            pairs: pairs.collect(),
            unanswered: BTreeSet::new(),
            beyond: Some(Duration::ZERO),
            clock_uncertainty_ns: None,
            work: Vec::new(),
            lost: LostMembers::new(),
            failed: Vec::new(),
        }
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
        pace.note(TEST, milliseconds(15), false);
        assert_eq!(pace.block(&one_rounds, true, None), (16, milliseconds(120)));
        assert_eq!(pace.most(None), 16);
        pace.note(TEST, milliseconds(60), false);
        assert_eq!(pace.block(&one_rounds, true, None), (8, milliseconds(240)));
        // The rounds that are taken from the sweep are one block.
        assert_eq!(pace.most(None), 8);
        // Another test needs another time.
        assert_eq!(pace.block(&rounds(&[0, 0, 1]), true, None).0, 2);
        assert_eq!(pace.block(&rounds(&[1, 1, 1]), true, None), (2, milliseconds(400)));
    }

    #[test]
    fn first_slots_of_a_test_follow_from_the_other_tests() {
        let mut pace = Pace::new(milliseconds(60));
        pace.note(TEST, milliseconds(15), false);
        let slot = sufficient(milliseconds(60), milliseconds(45));
        assert_eq!(pace.block(&rounds(&[1, 1, 1]), true, None), (2, slot));
        assert!(slot < longest(milliseconds(60)));
        assert_eq!(pace.block(&rounds(&[2, 2]), false, None), (2, longest(milliseconds(60))));
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
        let mut block = |late: usize, busy: usize, is_bandwidth| {
            pace.add(&measured(20, late, busy), is_bandwidth);
            pace.slot(TEST, true)
        };
        let [short, longest] = [120, 400].map(milliseconds);
        assert_eq!(block(2, 0, false), short);
        assert_eq!(block(3, 0, false), longest);
        assert_eq!(block(0, 0, false), milliseconds(240));
        for _ in 0..10 {
            block(0, 0, false);
        }
        // A tenth of the time without a CPU makes a bandwidth a bound, and not a latency.
        assert_eq!(block(0, 20, false), short);
        assert_eq!(block(0, 6, true), short);
        assert_eq!(block(0, 7, true), longest);
    }

    #[test]
    fn block_after_few_pairs_with_a_late_one_is_short() {
        for (pairs, expected) in [(9, [3, 3, 3, 16]), (40, [5, 8, 12, 16])] {
            let mut pace = Pace::new(milliseconds(60));
            let mut block = |late| {
                pace.add(&measured(pairs, late, 0), false);
                pace.block(&rounds(&[0; 20]), true, None).0
            };
            let late_pairs = pairs / LATE_PART + 1;
            let slots = [block(late_pairs), block(0), block(0), block(0)];
            assert_eq!(slots, expected, "{pairs}");
        }
    }

    #[test]
    fn pairs_that_were_late_or_failed_have_longest_slots() {
        let mut pace = Pace::new(milliseconds(60));
        pace.note(TEST, Duration::ZERO, false);
        assert_eq!(pace.block(&rounds(&[0; 20]), false, None), (5, milliseconds(400)));
    }

    #[test]
    fn ends_block_with_the_time_limit() {
        let mut pace = Pace::new(milliseconds(1));
        pace.note(TEST, Duration::ZERO, false);
        let many = rounds(&[0; 200]);
        for (left, slots) in [(None, 40), (Some(500), 10), (Some(10), 1)] {
            let left = left.map(milliseconds);
            assert_eq!(pace.block(&many, true, left), (slots, SHORTEST_SLOT));
            assert_eq!(pace.most(left), slots);
        }
    }

    /// A block in which these pairs of eight NICs have an answer, and those have none.
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
