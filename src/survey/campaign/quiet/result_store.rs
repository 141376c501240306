//! The results of a survey: counts, distributions, and results of pairs. A small survey keeps the
//! results of all pairs. A large survey keeps only results that may be outside the limits, so its
//! memory grows with the number of NICs and not with the number of pairs.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Index, IndexMut};

use super::answer::{
    Answer, FEW_RETRIES, Figures, LINK_ERRORS, PairResult, RETRIES, Stage, TIMEOUTS,
};
use super::findings::Test;
use super::fit::PairFigures;
use super::population::{FigureHistogram, MOST_EXACT, cost};
use super::roster::{
    NicId, Pair, PopulationKey, Role, Roster, TestId, TestPair, Unit, parts_of_pair,
};
use crate::blame::LEAST_FIGURES;
use crew::location::Class;
use facts::expect::Expectation;

/// Most figures of a switch, a group or a pair of groups that are kept exactly.
const EXACT_OF_AGGREGATE: usize = 256;

/// Most results that a large survey keeps. It only counts further results outside the limits.
const MOST_RECORDS: usize = 1 << 20;

/// Pairs of a NIC in a class from which causes follow; further pairs say nothing new about it.
const MOST_OBSERVATIONS: u32 = 64;

/// Distance of the limit so far from the median, in robust deviations.
const NOISE: f64 = 4.5;

/// The limit of a class that follows from the figures so far: which results are kept.
#[derive(Clone, Copy, Debug)]
struct RunningLimit {
    /// Median cost.
    median: f64,
    /// The largest cost inside the limit.
    cost: f64,
}

impl RunningLimit {
    /// The cost above which results are kept because the limit may become lower.
    fn kept(self) -> f64 {
        self.median + 0.8 * (self.cost - self.median)
    }
}

/// The figures of a population.
#[derive(Debug)]
pub(super) struct PopulationData {
    pub(super) figures: FigureHistogram,
    /// The 5th percentiles of the pairs, if they are latencies.
    pub(super) p5: FigureHistogram,
    /// The smallest latencies of the pairs.
    pub(super) least: FigureHistogram,
    /// Packets that the initiators sent again.
    pub(super) retries: FigureHistogram,
    /// The limit that follows from the figures so far.
    limit: Option<RunningLimit>,
    /// Number of figures at which the limit is computed again.
    next: u64,
}

/// The results of a survey.
#[derive(Debug)]
pub struct ResultStore {
    pub(super) tests: Vec<Test>,
    pub(super) expectations: Vec<Vec<Expectation>>,
    pub(super) keeps_all: bool,
    pub(super) sensitivity: Option<f64>,
    pub(super) populations: BTreeMap<PopulationKey, PopulationData>,
    /// Pairs with an answer, by test and NIC.
    counts: Vec<RoleCounts>,
    /// The figures from which causes follow, by test.
    pub(super) observations: Vec<Vec<PairFigures>>,
    pub(super) nics: usize,
    pub(super) aggregates: BTreeMap<(TestId, Unit), FigureHistogram>,
    /// First results of pairs.
    pub(super) records: Vec<PairResult>,
    pub(super) retests: HashMap<TestPair, Vec<PairResult>>,
    /// The comparisons of each class, by round.
    pub(super) comparisons: BTreeMap<PopulationKey, BTreeMap<u32, Vec<PairFigures>>>,
    /// The best figures of pairs of the sweep that were measured again.
    improved: HashMap<TestPair, PairFigures>,
    /// The counters that changed, by NIC.
    pub(super) counters: BTreeMap<(NicId, String), u64>,
    /// Counters of damaged and lost packets, by pair.
    pub(super) errors: ErrorCounts,
    worst: Option<(f64, PairResult)>,
    /// Number of pairs outside the limits that followed from earlier results.
    pub(super) suspects: u64,
}

impl ResultStore {
    /// Creates an empty collection. Without `keeps_all` only results that may be outside the limits
    /// are kept.
    pub fn new(
        roster: &Roster,
        tests: Vec<Test>,
        expectations: Vec<Vec<Expectation>>,
        sensitivity: Option<f64>,
        keeps_all: bool,
    ) -> Self {
        Self {
            counts: vec![RoleCounts::default(); tests.len() * roster.nics.len()],
            observations: vec![Vec::new(); tests.len()],
            nics: roster.nics.len(),
            tests,
            expectations,
            keeps_all,
            sensitivity,
            populations: BTreeMap::new(),
            aggregates: BTreeMap::new(),
            records: Vec::new(),
            retests: HashMap::new(),
            comparisons: BTreeMap::new(),
            improved: HashMap::new(),
            counters: BTreeMap::new(),
            errors: ErrorCounts::default(),
            worst: None,
            suspects: 0,
        }
    }

    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// The result that is farthest from the median of its class.
    pub fn worst(&self) -> Option<&PairResult> {
        self.worst.as_ref().map(|(_, result)| result)
    }

    /// Returns how many pairs of a NIC have an answer.
    pub fn counts(&self, test: TestId, nic: NicId) -> &RoleCounts {
        &self.counts[self.cell(test, nic)]
    }

    /// The figures from which causes follow.
    pub fn observations(&self, test: TestId) -> &[PairFigures] {
        &self.observations[test.index()]
    }

    /// The first results of pairs, and the results of all retests.
    pub fn all(&self) -> impl Iterator<Item = &PairResult> {
        self.records.iter().chain(self.retests())
    }

    pub fn retests(&self) -> impl Iterator<Item = &PairResult> {
        self.retests.values().flatten()
    }

    /// The index of a NIC and a test in `counts`.
    fn cell(&self, test: TestId, nic: NicId) -> usize {
        test.index() * self.nics + nic.index()
    }

    /// Returns how many pairs of a NIC have an answer in all tests.
    pub fn answers(&self, nic: NicId) -> u32 {
        let tests = TestId::first(self.tests.len());
        tests.map(|test| self.counts(test, nic).total()).sum()
    }

    /// The kept pairs.
    pub fn keys(&self) -> impl Iterator<Item = TestPair> {
        self.records.iter().map(|result| (result.test, result.pair))
    }

    /// Adds the result of a pair that was measured or failed.
    pub fn add(&mut self, result: &PairResult, roster: &Roster) {
        for counter_evidence in &result.counters {
            let sum = self
                .counters
                .entry((counter_evidence.nic, counter_evidence.counter.clone()))
                .or_default();
            *sum = sum.saturating_add(counter_evidence.change);
        }
        self.errors.add(result);
        if let Stage::Retest(_) = result.stage {
            self.retests.entry((result.test, result.pair)).or_default().push(result.clone());
            return;
        }
        let class = roster.class(result.pair);
        // A failure counts like the failure of a swap.
        match (result.stage, PairFigures::of(result, class)) {
            (Stage::Again, Some(again)) => return self.improve(result, &again),
            (Stage::Comparison, Some(one)) => {
                let class_lists = self.comparisons.entry((result.test, class)).or_default();
                return class_lists.entry(result.round).or_default().push(one);
            }
            _ => {}
        }
        self.count(result, class, 1);
        let limit = self.gather(result, class, roster);
        let excess = match (&result.answer, limit) {
            (Answer::Measured(figures), Some(limit)) => {
                let cost = cost(figures.value(), self.is_of_bandwidth(result.test));
                let is_outside = cost > limit.cost || result.retries() > FEW_RETRIES;
                self.suspects += u64::from(is_outside);
                cost / limit.median
            }
            (Answer::Measured(_), None) => 0.0,
            _ => {
                self.suspects += 1;
                f64::INFINITY
            }
        };
        if self.worst.as_ref().is_none_or(|(worst, _)| excess > *worst) {
            self.worst = Some((excess, result.clone()));
        }
        let is_kept = self.keeps_all
            || limit.is_none_or(|limit| excess * limit.median > limit.kept())
            || result.retries() > FEW_RETRIES
            || self.breaks_expectation(result).is_some();
        if is_kept && (self.keeps_all || self.records.len() < MOST_RECORDS) {
            self.records.push(result.clone());
        }
    }

    /// Adds a figure to the distributions, and returns the limit of its population so far.
    fn gather(
        &mut self,
        result: &PairResult,
        class: Class,
        roster: &Roster,
    ) -> Option<RunningLimit> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let value = figures.value();
        for unit in parts_of_pair(roster, result.pair).into_iter().flatten() {
            let new = || FigureHistogram::new(EXACT_OF_AGGREGATE);
            self.aggregates.entry((result.test, unit)).or_insert_with(new).add(value);
        }
        self.observe(result, class);
        let is_bandwidth = self.is_of_bandwidth(result.test);
        let ratio = self.ratio(result.test).exp();
        let data = self.populations.entry((result.test, class)).or_insert_with(|| PopulationData {
            figures: FigureHistogram::new(MOST_EXACT),
            p5: FigureHistogram::new(MOST_EXACT),
            least: FigureHistogram::new(MOST_EXACT),
            retries: FigureHistogram::new(MOST_EXACT),
            limit: None,
            next: LEAST_FIGURES as u64,
        });
        // The partners of suspects are not random, so only pairs of the sweep form a population.
        if result.stage == Stage::Sweep {
            data.figures.add(value);
            if let Figures::Latency { p5_ns, min_ns, .. } = *figures {
                data.p5.add(p5_ns.unwrap_or(min_ns) as f64);
                data.least.add(min_ns as f64);
            }
            data.retries.add(result.retries() as f64);
        }
        let count = data.figures.count();
        if count >= data.next {
            data.next = count + count / 2;
            let costs = data.figures.sorted().costs(is_bandwidth);
            let median = costs.median();
            let noise = 1.0 + NOISE * costs.sigma() / median;
            data.limit = Some(RunningLimit { median, cost: median * noise.max(ratio) });
            if let (Some(limit), false) = (data.limit, self.keeps_all) {
                self.drop_good(result.test, class, limit, roster);
            }
        }
        self.populations[&(result.test, class)].limit
    }

    /// Adds another measurement of a pair of the sweep. The best one counts.
    fn improve(&mut self, result: &PairResult, again: &PairFigures) {
        let mut known = self.observations[result.test.index()].iter_mut();
        if let Some(first) = known.find(|one| one.is_of_sweep && one.pair == result.pair) {
            first.improve(again);
            self.improved.insert((result.test, result.pair), *first);
        }
    }

    /// The figures of a result: the best ones, if the sweep's pair was measured again.
    pub(super) fn figures_of(&self, result: &PairResult, roster: &Roster) -> Option<PairFigures> {
        let one = PairFigures::of(result, roster.class(result.pair))?;
        let improved = self.improved.get(&(result.test, result.pair));
        Some(*improved.filter(|_| one.is_of_sweep).unwrap_or(&one))
    }

    /// Keeps the figure of a pair, unless both NICs have many in the class.
    fn observe(&mut self, result: &PairResult, class: Class) {
        let is_of_sweep = result.stage == Stage::Sweep;
        let has_many =
            |nic: &NicId| self.counts(result.test, *nic).pairs_in_class(class) > MOST_OBSERVATIONS;
        if is_of_sweep && result.pair.nics().iter().all(has_many) {
            return;
        }
        let observation = PairFigures::of(result, class);
        self.observations[result.test.index()].extend(observation);
    }

    /// Drops results that are far inside the limits.
    fn drop_good(&mut self, test: TestId, class: Class, limit: RunningLimit, roster: &Roster) {
        let is_bandwidth = self.is_of_bandwidth(test);
        let expectations = self.expectations.get(test.index()).map_or(&[][..], Vec::as_slice);
        let size = self.tests[test.index()].size_bytes;
        self.records.retain(|result| {
            let is_other = result.test != test || roster.class(result.pair) != class;
            is_other
                || match &result.answer {
                    Answer::Measured(figures) => {
                        cost(figures.value(), is_bandwidth) > limit.kept()
                            || result.retries() > FEW_RETRIES
                            || broken(expectations, size, figures).is_some()
                    }
                    _ => true,
                }
        });
    }

    fn count(&mut self, result: &PairResult, class: Class, by: i32) {
        for (role, nic) in result.pair.roles() {
            let cell = self.cell(result.test, nic);
            let count = &mut self.counts[cell][(role, class)];
            *count = count.saturating_add_signed(by);
        }
    }

    /// Removes failures that later facts have explained. Returns the pairs whose first results were
    /// removed, with the stages.
    pub fn remove_failures(
        &mut self,
        roster: &Roster,
        is_explained: impl Fn(&PairResult) -> bool,
    ) -> Vec<(TestPair, Stage)> {
        let is_gone = |result: &PairResult| {
            matches!(result.answer, Answer::Failed(_)) && is_explained(result)
        };
        let gone: Vec<PairResult> = self.records.extract_if(.., |result| is_gone(result)).collect();
        for result in &gone {
            self.count(result, roster.class(result.pair), -1);
        }
        for results in self.retests.values_mut() {
            results.retain(|result| !is_gone(result));
        }
        if self.worst.as_ref().is_some_and(|(_, worst)| is_gone(worst)) {
            self.worst = None;
        }
        gone.iter().map(|result| ((result.test, result.pair), result.stage)).collect()
    }

    /// The pairs that failed, in the order of their results.
    pub fn failed_pairs(&self) -> impl Iterator<Item = Pair> {
        let is_failure = |result: &&PairResult| matches!(result.answer, Answer::Failed(_));
        self.records.iter().filter(is_failure).map(|result| result.pair)
    }

    pub(super) fn is_of_bandwidth(&self, test: TestId) -> bool {
        self.tests[test.index()].of_bandwidth
    }

    pub(super) fn breaks_expectation(&self, result: &PairResult) -> Option<f64> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let expectations = self.expectations.get(result.test.index())?;
        broken(expectations, self.tests[result.test.index()].size_bytes, figures)
    }
}

/// The limit of the first expectation that is not met.
fn broken(expectations: &[Expectation], size: u64, figures: &Figures) -> Option<f64> {
    let size_expectations = expectations.iter().filter(|one| one.applies_to(size));
    let mut broken = size_expectations
        .filter(|one| figures.metric(one.metric).is_some_and(|figure| !one.is_met_by(figure)));
    broken.next().map(|one| one.limit)
}

/// Most pairs whose counts are kept.
const MOST_PAIRS: usize = 1 << 20;

/// The sums of counters that do not grow on a good fabric, by pair.
#[derive(Debug, Default)]
pub struct ErrorCounts {
    /// Packets that were damaged on the link of the initiator.
    pub damaged: BTreeMap<TestPair, u64>,
    /// Packets that were sent again or not answered in time.
    pub lost: BTreeMap<TestPair, u64>,
}

impl ErrorCounts {
    /// Adds the counters of a result.
    pub fn add(&mut self, result: &PairResult) {
        let key = (result.test, result.pair);
        for (counts, counters) in
            [(&mut self.damaged, &LINK_ERRORS[..]), (&mut self.lost, &[RETRIES, TIMEOUTS][..])]
        {
            let sum = result.sum(counters);
            if sum > 0 && (counts.len() < MOST_PAIRS || counts.contains_key(&key)) {
                let known = counts.entry(key).or_default();
                *known = known.saturating_add(sum);
            }
        }
    }
}

/// The number of pairs of each role and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleCounts([[u32; Class::ALL.len()]; 2]);

impl RoleCounts {
    /// The number of pairs in a role.
    pub fn pairs_in_role(&self, role: Role) -> u32 {
        self.0[role.index()].iter().sum()
    }

    /// The number of pairs of a class.
    pub fn pairs_in_class(&self, class: Class) -> u32 {
        self.0.iter().map(|counts| counts[class as usize]).sum()
    }

    /// The number of all pairs.
    pub fn total(&self) -> u32 {
        self.0.iter().flatten().sum()
    }

    /// Adds the numbers of `other`.
    pub fn add(&mut self, other: &Self) {
        self.combine(other, u32::saturating_add);
    }

    /// Subtracts the numbers of `other`, down to zero.
    pub fn subtract(&mut self, other: &Self) {
        self.combine(other, u32::saturating_sub);
    }

    fn combine(&mut self, other: &Self, operation: fn(u32, u32) -> u32) {
        let others = other.0.iter().flatten();
        for (count, other) in self.0.iter_mut().flatten().zip(others) {
            *count = operation(*count, *other);
        }
    }
}

impl Index<(Role, Class)> for RoleCounts {
    type Output = u32;

    fn index(&self, (role, class): (Role, Class)) -> &u32 {
        &self.0[role.index()][class as usize]
    }
}

impl IndexMut<(Role, Class)> for RoleCounts {
    fn index_mut(&mut self, (role, class): (Role, Class)) -> &mut u32 {
        &mut self.0[role.index()][class as usize]
    }
}
