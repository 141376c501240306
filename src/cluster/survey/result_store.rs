//! The results of a survey: counts, distributions, and results of pairs. A small survey keeps the
//! results of all pairs. A large survey keeps only results that may be outside the limits, so its
//! memory grows with the number of NICs and not with the number of pairs.

use std::collections::{BTreeMap, HashMap};

use super::answer::{Answer, Figures, Pair, PairResult, Stage};
use super::findings::{Test, Unit};
use super::ids::{NicId, PopulationKey, TestId};
use super::limits::{FEW_RETRIES, Limit};
use super::population::{Distribution, LEAST_FIGURES, MOST_EXACT, Noise, cost};
use super::role_counts::RoleCounts;
use super::roster::Roster;
use super::units::parts_of_pair;
use crate::location::Class;
use facts::device::DeviceName;
use facts::expect::Expectation;

/// Most figures of a switch, a group or a pair of groups that are kept exactly.
const EXACT_OF_AGGREGATE: usize = 256;

/// Most results that a large survey keeps. It only counts further results outside the limits.
const MOST_RECORDS: usize = 1 << 20;

/// A test and a pair.
pub type TestPair = (TestId, Pair);

/// The figures of a population.
#[derive(Debug)]
pub(super) struct PopulationData {
    pub(super) figures: Distribution,
    /// Packets that the initiators sent again.
    pub(super) retries: Distribution,
    /// The limit that follows from the figures so far.
    limit: Option<Limit>,
    /// Number of figures at which the limit is computed again.
    next: u64,
}

/// The results of a survey.
#[derive(Debug)]
pub struct ResultStore {
    pub(super) tests: Vec<Test>,
    pub(super) expectations: Vec<Vec<Expectation>>,
    pub(super) keeps_all: bool,
    pub(super) noise: Noise,
    pub(super) populations: BTreeMap<PopulationKey, PopulationData>,
    /// Pairs with an answer, by test and NIC.
    counts: Vec<RoleCounts>,
    /// The least costs of the pairs of the sweep, by test and NIC, then by class.
    least_costs: Vec<[f64; Class::ALL.len()]>,
    pub(super) nics: usize,
    pub(super) aggregates: BTreeMap<(TestId, Unit), Distribution>,
    /// First results of pairs.
    pub(super) records: Vec<PairResult>,
    pub(super) retests: HashMap<TestPair, Vec<PairResult>>,
    counters: BTreeMap<(NicId, String), u64>,
    worst: Option<(f64, PairResult)>,
    suspects: u64,
}

impl ResultStore {
    /// Creates an empty collection. Without `keeps_all` only results that may be outside the limits
    /// are kept.
    pub fn new(
        roster: &Roster,
        tests: Vec<Test>,
        expectations: Vec<Vec<Expectation>>,
        keeps_all: bool,
    ) -> Self {
        Self {
            counts: vec![RoleCounts::default(); tests.len() * roster.nics.len()],
            least_costs: vec![[f64::INFINITY; Class::ALL.len()]; tests.len() * roster.nics.len()],
            nics: roster.nics.len(),
            tests,
            expectations,
            keeps_all,
            noise: noise(roster),
            populations: BTreeMap::new(),
            aggregates: BTreeMap::new(),
            records: Vec::new(),
            retests: HashMap::new(),
            counters: BTreeMap::new(),
            worst: None,
            suspects: 0,
        }
    }

    /// Returns the tests.
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Returns the result that is farthest from the median of its class.
    pub fn worst(&self) -> Option<&PairResult> {
        self.worst.as_ref().map(|(_, result)| result)
    }

    /// Returns the number of pairs outside the limits that followed from earlier results.
    pub fn suspects(&self) -> u64 {
        self.suspects
    }

    /// Returns how many pairs of a NIC have an answer.
    pub fn counts(&self, test: TestId, nic: NicId) -> &RoleCounts {
        &self.counts[self.cell(test, nic)]
    }

    /// Returns the least cost of the pairs of a NIC in a class; infinite without a figure.
    pub(super) fn least_cost(&self, test: TestId, nic: NicId, class: Class) -> f64 {
        self.least_costs[self.cell(test, nic)][class as usize]
    }

    /// Returns the index of a NIC and a test in `counts` and `least_costs`.
    fn cell(&self, test: TestId, nic: NicId) -> usize {
        test.index() * self.nics + nic.index()
    }

    /// Returns how many pairs of a NIC have an answer in all tests.
    pub fn answers(&self, nic: NicId) -> u32 {
        let tests = TestId::first(self.tests.len());
        tests.map(|test| self.counts(test, nic).total()).sum()
    }

    /// Returns the counters that changed, by NIC.
    pub fn counters(&self) -> &BTreeMap<(NicId, String), u64> {
        &self.counters
    }

    /// Returns the kept pairs.
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
        if let Stage::Retest(_) = result.stage {
            self.retests
                .entry((result.test, result.pair))
                .or_default()
                .push(result.clone());
            return;
        }
        let class = roster.class(result.pair);
        self.count(result, class, 1);
        let limit = self.gather(result, class, roster);
        let excess = match (&result.answer, limit) {
            (Answer::Measured(figures), Some(limit)) => {
                let cost = cost(figures.value(), self.of_bandwidth(result.test));
                self.suspects += u64::from(limit.source(cost, result.retries()).is_some());
                cost / limit.centre.median
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
            || limit.is_none_or(|limit| excess * limit.centre.median > nearly(limit))
            || result.retries() > FEW_RETRIES
            || self.breaks_expectation(result).is_some();
        if is_kept && (self.keeps_all || self.records.len() < MOST_RECORDS) {
            self.records.push(result.clone());
        }
    }

    /// Adds a figure to the distributions, and returns the limit of its population so far.
    fn gather(&mut self, result: &PairResult, class: Class, roster: &Roster) -> Option<Limit> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let value = figures.value();
        for unit in parts_of_pair(roster, result.pair).into_iter().flatten() {
            let new = || Distribution::new(EXACT_OF_AGGREGATE);
            self.aggregates
                .entry((result.test, unit))
                .or_insert_with(new)
                .add(value);
        }
        let of_bandwidth = self.of_bandwidth(result.test);
        let data = self
            .populations
            .entry((result.test, class))
            .or_insert_with(|| PopulationData {
                figures: Distribution::new(MOST_EXACT),
                retries: Distribution::new(MOST_EXACT),
                limit: None,
                next: LEAST_FIGURES as u64,
            });
        // The partners of suspects are not random, so only pairs of the sweep form a population.
        if result.stage == Stage::Sweep {
            data.figures.add(value);
            data.retries.add(result.retries() as f64);
            let cost = cost(value, of_bandwidth);
            for nic in result.pair.nics() {
                let cell = result.test.index() * self.nics + nic.index();
                let least = &mut self.least_costs[cell][class as usize];
                *least = least.min(cost);
            }
        }
        let count = data.figures.count();
        if count >= data.next {
            data.next = count + count / 2;
            let costs = data.figures.sorted().costs(of_bandwidth);
            let retries = data.retries.sorted();
            data.limit = Some(Limit::of(&costs, &retries, self.noise, of_bandwidth));
            if let (Some(limit), false) = (data.limit, self.keeps_all) {
                self.drop_good(result.test, class, limit, roster);
            }
        }
        self.populations[&(result.test, class)].limit
    }

    /// Drops results that are far inside the limits.
    fn drop_good(&mut self, test: TestId, class: Class, limit: Limit, roster: &Roster) {
        let of_bandwidth = self.of_bandwidth(test);
        let expectations = self
            .expectations
            .get(test.index())
            .map_or(&[][..], Vec::as_slice);
        let size = self.tests[test.index()].size_bytes;
        self.records.retain(|result| {
            let is_other = result.test != test || roster.class(result.pair) != class;
            is_other
                || match &result.answer {
                    Answer::Measured(figures) => {
                        cost(figures.value(), of_bandwidth) > nearly(limit)
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
        let gone: Vec<PairResult> = self
            .records
            .extract_if(.., |result| is_gone(result))
            .collect();
        for result in &gone {
            self.count(result, roster.class(result.pair), -1);
        }
        for results in self.retests.values_mut() {
            results.retain(|result| !is_gone(result));
        }
        if self.worst.as_ref().is_some_and(|(_, worst)| is_gone(worst)) {
            self.worst = None;
        }
        gone.iter()
            .map(|result| ((result.test, result.pair), result.stage))
            .collect()
    }

    /// Returns the pairs that failed, in the order of their results.
    pub fn failed_pairs(&self) -> impl Iterator<Item = Pair> {
        let is_failure = |result: &&PairResult| matches!(result.answer, Answer::Failed(_));
        self.records
            .iter()
            .filter(is_failure)
            .map(|result| result.pair)
    }

    pub(super) fn of_bandwidth(&self, test: TestId) -> bool {
        self.tests[test.index()].of_bandwidth
    }

    pub(super) fn breaks_expectation(&self, result: &PairResult) -> Option<f64> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let expectations = self.expectations.get(result.test.index())?;
        broken(
            expectations,
            self.tests[result.test.index()].size_bytes,
            figures,
        )
    }
}

/// Returns the noise of a survey: the noise of software NICs if it has any.
fn noise(roster: &Roster) -> Noise {
    let is_noisy = |device: &str| DeviceName::names(device, |platform| platform.runs_on_cpus);
    if roster.nics.iter().any(|nic| is_noisy(&nic.device)) {
        Noise::SOFTWARE
    } else {
        Noise::HARDWARE
    }
}

/// Returns the cost above which results are kept because a later limit may be lower.
fn nearly(limit: Limit) -> f64 {
    limit.centre.median + 0.8 * (limit.cost - limit.centre.median)
}

/// Returns the limit of the first expectation that is not met.
fn broken(expectations: &[Expectation], size: u64, figures: &Figures) -> Option<f64> {
    let of_size = expectations.iter().filter(|one| one.applies_to(size));
    let mut broken = of_size.filter(|one| {
        figures
            .metric(one.metric)
            .is_some_and(|figure| !one.is_met_by(figure))
    });
    broken.next().map(|one| one.limit)
}
