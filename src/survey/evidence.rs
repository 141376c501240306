//! The results of a survey: counts, distributions, and the results of pairs that may be outside the
//! limits. Of a small survey all results are kept, of a large one only the latter, so that memory grows
//! with the number of NICs and not with that of pairs.

use std::collections::{BTreeMap, HashMap};

use super::answer::{Answer, Figures, Pair, PairResult, Stage};
use super::population::{
    Centre, Distribution, LEAST_FIGURES, MOST_EXACT, Sorted, cost, without_worst_nics,
};
use super::roster::Roster;
use super::verdict::{Aggregate, LimitSource, Matrix, Population, Test, Unit};
use crate::location::Class;
use crate::measure::Percentile;
use crate::plan::expect::{Expectation, Metric};

/// Most NICs for which one of them shifts the median of all pairs.
const FEW_NICS: usize = 32;

/// Figures of a switch, a group or a pair of groups that are kept exactly.
const EXACT_OF_AGGREGATE: usize = 256;

/// Most results outside the limits of which a large survey keeps more than the number.
const MOST_RECORDS: usize = 1 << 20;

/// Retests that decide about a suspect: with two passes it is transient, with two failures and fewer
/// passes it is confirmed.
const DECISIVE: usize = 2;

/// Retests of a suspect, at most (jobs.md 3.3).
pub const MOST_RETESTS: u8 = 4;

/// A test and a pair.
pub type Key = (u16, Pair);

/// Numbers of pairs by role (initiator, target) and class.
pub type Cells = [[u32; CLASSES]; 2];

/// Number of classes.
pub const CLASSES: usize = 6;

/// What the retests of a suspect say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There are not enough of them.
    Open,
    /// It is outside the limits again.
    Confirmed,
    /// It is inside the limits.
    Transient,
}

/// A pair outside the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    /// Index of the test.
    pub test: u16,
    /// The pair.
    pub pair: Pair,
    /// Its class.
    pub class: Class,
    /// Which limit it does not meet.
    pub source: LimitSource,
    /// The figure; `None` if the pair failed.
    pub value: Option<f64>,
    /// What its retests say.
    pub standing: Standing,
}

/// The limit of a population.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The centre of the costs.
    pub centre: Centre,
    /// The largest cost inside the limit; infinite without a limit.
    pub cost: f64,
}

/// The limits of the populations.
pub type Limits = BTreeMap<(u16, Class), Limit>;

#[derive(Debug)]
struct Gathered {
    figures: Distribution,
    /// The limit of the figures so far,
    limit: Option<Limit>,
    /// which is computed again at this number of figures.
    next: u64,
}

/// The results of a survey.
#[derive(Debug)]
pub struct Evidence {
    tests: Vec<Test>,
    expectations: Vec<Vec<Expectation>>,
    keeps_all: bool,
    populations: BTreeMap<(u16, Class), Gathered>,
    /// Pairs with an answer, by test and NIC.
    counts: Vec<Cells>,
    nics: usize,
    aggregates: BTreeMap<(u16, Unit), Distribution>,
    /// First results of pairs.
    records: Vec<PairResult>,
    retests: HashMap<Key, Vec<PairResult>>,
    witnesses: BTreeMap<(u32, String), u64>,
    worst: Option<(f64, PairResult)>,
    suspects: u64,
}

impl Evidence {
    /// Creates an empty collection. Without `keeps_all` only results that may be outside the limits are
    /// kept.
    pub fn new(
        roster: &Roster,
        tests: Vec<Test>,
        expectations: Vec<Vec<Expectation>>,
        keeps_all: bool,
    ) -> Self {
        Self {
            counts: vec![Cells::default(); tests.len() * roster.nics.len()],
            nics: roster.nics.len(),
            tests,
            expectations,
            keeps_all,
            populations: BTreeMap::new(),
            aggregates: BTreeMap::new(),
            records: Vec::new(),
            retests: HashMap::new(),
            witnesses: BTreeMap::new(),
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

    /// Returns the number of pairs that were outside the limits of the figures before them.
    pub fn suspects(&self) -> u64 {
        self.suspects
    }

    /// Returns how many pairs of a NIC have an answer.
    pub fn counts(&self, test: u16, nic: u32) -> &Cells {
        &self.counts[test as usize * self.nics + nic as usize]
    }

    /// Returns the counters that changed, by NIC.
    pub fn witnesses(&self) -> &BTreeMap<(u32, String), u64> {
        &self.witnesses
    }

    /// Returns whether `pair` is among the kept results.
    pub fn has(&self, test: u16, pair: Pair) -> bool {
        self.records
            .iter()
            .any(|result| (result.test, result.pair) == (test, pair))
    }

    /// Returns the kept pairs.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.records.iter().map(|result| (result.test, result.pair))
    }

    /// Adds the result of a pair that was measured or failed.
    pub fn add(&mut self, result: PairResult, roster: &Roster) {
        for witness in &result.witnesses {
            let sum = self
                .witnesses
                .entry((witness.nic, witness.counter.clone()))
                .or_default();
            *sum = sum.saturating_add(witness.change);
        }
        if let Stage::Retest(_) = result.stage {
            self.retests
                .entry((result.test, result.pair))
                .or_default()
                .push(result);
            return;
        }
        let class = roster.class(result.pair.initiator, result.pair.target);
        self.count(&result, class, 1);
        let limit = self.gather(&result, class, roster);
        let excess = match (&result.answer, limit) {
            (Answer::Measured(figures), Some(limit)) => {
                let cost = cost(figures.value(), self.of_bandwidth(result.test));
                self.suspects += u64::from(cost > limit.cost);
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
            || self.breaks_expectation(&result).is_some();
        if is_kept && (self.keeps_all || self.records.len() < MOST_RECORDS) {
            self.records.push(result);
        }
    }

    /// Adds a figure to the distributions, and returns the limit of its population so far.
    fn gather(&mut self, result: &PairResult, class: Class, roster: &Roster) -> Option<Limit> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let value = figures.value();
        for unit in aggregates(roster, result.pair).into_iter().flatten() {
            let new = || Distribution::new(EXACT_OF_AGGREGATE);
            self.aggregates
                .entry((result.test, unit))
                .or_insert_with(new)
                .add(value);
        }
        let of_bandwidth = self.of_bandwidth(result.test);
        let gathered = self
            .populations
            .entry((result.test, class))
            .or_insert_with(|| Gathered {
                figures: Distribution::new(MOST_EXACT),
                limit: None,
                next: LEAST_FIGURES as u64,
            });
        // Suspects do not choose their partners at random: only the pairs of the user are a population.
        if result.stage == Stage::Sweep {
            gathered.figures.add(value);
        }
        let count = gathered.figures.count();
        if count >= gathered.next {
            gathered.next = count + count / 2;
            let centre = Centre::of(&gathered.figures.sorted().costs(of_bandwidth));
            gathered.limit = Some(Limit {
                centre,
                cost: centre.limit(of_bandwidth),
            });
            if let (Some(limit), false) = (gathered.limit, self.keeps_all) {
                self.drop_good(result.test, class, limit, roster);
            }
        }
        self.populations[&(result.test, class)].limit
    }

    /// Drops results that are far inside the limits.
    fn drop_good(&mut self, test: u16, class: Class, limit: Limit, roster: &Roster) {
        let of_bandwidth = self.of_bandwidth(test);
        let expectations = self
            .expectations
            .get(test as usize)
            .map_or(&[][..], Vec::as_slice);
        let size = self.tests[test as usize].size_bytes;
        self.records.retain(|result| {
            let is_other = result.test != test
                || roster.class(result.pair.initiator, result.pair.target) != class;
            is_other
                || match &result.answer {
                    Answer::Measured(figures) => {
                        cost(figures.value(), of_bandwidth) > nearly(limit)
                            || broken(expectations, size, figures).is_some()
                    }
                    _ => true,
                }
        });
    }

    fn count(&mut self, result: &PairResult, class: Class, by: i32) {
        for (role, nic) in [result.pair.initiator, result.pair.target]
            .into_iter()
            .enumerate()
        {
            let cells = &mut self.counts[result.test as usize * self.nics + nic as usize];
            let cell = &mut cells[role][class as usize];
            *cell = cell.saturating_add_signed(by);
        }
    }

    /// Removes failures, which later facts have explained, and returns how many of them were first results
    /// of pairs.
    pub fn remove_failures(
        &mut self,
        roster: &Roster,
        is_explained: impl Fn(&PairResult) -> bool,
    ) -> Vec<Key> {
        let is_gone = |result: &PairResult| {
            matches!(result.answer, Answer::Failed(_)) && is_explained(result)
        };
        let gone: Vec<PairResult> = self
            .records
            .extract_if(.., |result| is_gone(result))
            .collect();
        for result in &gone {
            self.count(
                result,
                roster.class(result.pair.initiator, result.pair.target),
                -1,
            );
        }
        for results in self.retests.values_mut() {
            results.retain(|result| !is_gone(result));
        }
        if self.worst.as_ref().is_some_and(|(_, worst)| is_gone(worst)) {
            self.worst = None;
        }
        gone.iter()
            .map(|result| (result.test, result.pair))
            .collect()
    }

    fn of_bandwidth(&self, test: u16) -> bool {
        self.tests[test as usize].of_bandwidth
    }

    fn breaks_expectation(&self, result: &PairResult) -> Option<f64> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let expectations = self.expectations.get(result.test as usize)?;
        broken(
            expectations,
            self.tests[result.test as usize].size_bytes,
            figures,
        )
    }

    /// Returns the limits of all populations.
    pub fn limits(&self, roster: &Roster) -> Limits {
        let few = self.keeps_all && self.nics < FEW_NICS;
        let limit = |((test, class), gathered): (&(u16, Class), &Gathered)| {
            let of_bandwidth = self.of_bandwidth(*test);
            let costs = if few {
                without_worst_nics(&self.costs(*test, *class, roster), of_bandwidth)
            } else {
                gathered.figures.sorted().costs(of_bandwidth)
            };
            let centre = Centre::of(&costs);
            let has_limit = gathered.figures.count() >= LEAST_FIGURES as u64;
            let cost = if has_limit {
                centre.limit(of_bandwidth)
            } else {
                f64::INFINITY
            };
            ((*test, *class), Limit { centre, cost })
        };
        self.populations.iter().map(limit).collect()
    }

    /// Returns the costs of the pairs of a population.
    fn costs(&self, test: u16, class: Class, roster: &Roster) -> Vec<(Pair, f64)> {
        let of_test = self
            .records
            .iter()
            .filter(|result| result.test == test && result.stage == Stage::Sweep);
        let cost = |result: &PairResult| match &result.answer {
            Answer::Measured(figures)
                if roster.class(result.pair.initiator, result.pair.target) == class =>
            {
                Some((result.pair, cost(figures.value(), self.of_bandwidth(test))))
            }
            _ => None,
        };
        of_test.filter_map(cost).collect()
    }

    /// Returns which limit a result does not meet.
    fn source(&self, result: &PairResult, class: Class, limits: &Limits) -> Option<LimitSource> {
        let Answer::Measured(figures) = &result.answer else {
            return Some(LimitSource::Failure);
        };
        if self.breaks_expectation(result).is_some() {
            return Some(LimitSource::Expect);
        }
        let limit = limits.get(&(result.test, class))?;
        let cost = cost(figures.value(), self.of_bandwidth(result.test));
        (cost > limit.cost).then_some(LimitSource::Population)
    }

    /// Returns the pairs outside the limits.
    pub fn outside(&self, limits: &Limits, roster: &Roster) -> Vec<Outside> {
        let outside = |result: &PairResult| {
            let class = roster.class(result.pair.initiator, result.pair.target);
            Some(Outside {
                test: result.test,
                pair: result.pair,
                class,
                source: self.source(result, class, limits)?,
                value: match &result.answer {
                    Answer::Measured(figures) => Some(figures.value()),
                    _ => None,
                },
                standing: self.standing((result.test, result.pair), class, limits),
            })
        };
        self.records.iter().filter_map(outside).collect()
    }

    fn standing(&self, key: Key, class: Class, limits: &Limits) -> Standing {
        let retests = self.retests.get(&key).map_or(&[][..], Vec::as_slice);
        let failures = retests
            .iter()
            .filter(|result| self.source(result, class, limits).is_some())
            .count();
        if retests.len() - failures >= DECISIVE {
            Standing::Transient
        } else if failures >= DECISIVE {
            Standing::Confirmed
        } else {
            Standing::Open
        }
    }

    /// Returns whether further retests of a suspect can change what they say.
    pub fn needs_retest(&self, key: Key, limits: &Limits, roster: &Roster) -> bool {
        let class = roster.class(key.1.initiator, key.1.target);
        let retests = self.retests.get(&key).map_or(&[][..], Vec::as_slice);
        let failures = retests
            .iter()
            .filter(|result| self.source(result, class, limits).is_some())
            .count();
        let passes = retests.len() - failures;
        passes < DECISIVE && failures + DECISIVE <= MOST_RETESTS as usize
    }

    /// Returns the number of retests of a pair.
    pub fn retests(&self, key: Key) -> usize {
        self.retests.get(&key).map_or(0, Vec::len)
    }

    /// Returns the results of `outside` and of their retests, at most `most`.
    pub fn results(&self, outside: &[Outside], most: usize) -> Vec<PairResult> {
        let keys: std::collections::HashSet<Key> =
            outside.iter().map(|one| (one.test, one.pair)).collect();
        let first = self
            .records
            .iter()
            .filter(|result| keys.contains(&(result.test, result.pair)));
        let with_retests = first.flat_map(|result| {
            let retests = self
                .retests
                .get(&(result.test, result.pair))
                .into_iter()
                .flatten();
            std::iter::once(result).chain(retests)
        });
        with_retests.take(most).cloned().collect()
    }

    /// Returns the most frequent message of failed pairs among `keys`.
    pub fn failure(&self, keys: &[Key]) -> Option<String> {
        let mut messages: BTreeMap<&str, usize> = BTreeMap::new();
        for result in self
            .records
            .iter()
            .filter(|result| keys.contains(&(result.test, result.pair)))
        {
            if let Answer::Failed(message) = &result.answer {
                *messages.entry(message).or_default() += 1;
            }
        }
        let frequent = messages.into_iter().max_by_key(|(_, count)| *count);
        frequent.map(|(message, _)| message.to_owned())
    }

    /// Returns the bound of --expect on the figure that is compared.
    pub fn expected(&self, test: u16) -> Option<f64> {
        let size = self.tests[test as usize].size_bytes;
        let expectations = self.expectations.get(test as usize)?.iter();
        let compared = |one: &&Expectation| match one.metric {
            Metric::Percentile(percentile) => percentile == Percentile::MEDIAN,
            metric => metric == Metric::Bandwidth,
        };
        expectations
            .filter(|one| one.applies_to(size))
            .find(compared)
            .map(|one| one.limit)
    }

    /// Returns the populations with their limits.
    pub fn populations(&self, limits: &Limits, outside: &[Outside]) -> Vec<Population> {
        let of = |(key, gathered): (&(u16, Class), &Gathered)| {
            let (test, class) = *key;
            let of_bandwidth = self.of_bandwidth(test);
            let sorted: Sorted = gathered.figures.sorted();
            let interval = sorted.median_interval();
            let limit = limits
                .get(key)
                .map(|limit| limit.cost)
                .filter(|cost| cost.is_finite());
            let count = |one: &&Outside| {
                (one.test, one.class) == *key && one.standing != Standing::Transient
            };
            Population {
                test,
                class,
                count: gathered.figures.count(),
                outside: outside.iter().filter(count).count() as u64,
                min: sorted.quantile(0.0),
                percentiles: [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
                    .map(|part| sorted.quantile(part)),
                max: sorted.quantile(1.0),
                median_low: interval.map(|(low, _)| low),
                median_high: interval.map(|(_, high)| high),
                sigma: sorted.sigma(),
                limit: limit.map(|cost| value_at(cost, of_bandwidth)),
                expected: self.expected(test),
                histogram: sorted.histogram(),
            }
        };
        self.populations
            .iter()
            .filter(|(_, gathered)| gathered.figures.count() > 0)
            .map(of)
            .collect()
    }

    /// Returns the sums over switches, groups and pairs of groups.
    pub fn aggregates(&self, outside: &[Outside], roster: &Roster) -> Vec<Aggregate> {
        let mut counts: HashMap<(u16, Unit), u64> = HashMap::new();
        for one in outside
            .iter()
            .filter(|one| one.standing != Standing::Transient)
        {
            for unit in aggregates(roster, one.pair).into_iter().flatten() {
                *counts.entry((one.test, unit)).or_default() += 1;
            }
        }
        let of = |(key, figures): (&(u16, Unit), &Distribution)| {
            let sorted = figures.sorted();
            Aggregate {
                test: key.0,
                unit: key.1,
                count: figures.count(),
                median: sorted.median(),
                worst: sorted.quantile(if self.of_bandwidth(key.0) { 0.0 } else { 1.0 }),
                outside: counts.get(key).copied().unwrap_or(0),
            }
        };
        self.aggregates.iter().map(of).collect()
    }

    /// Returns how many pairs between two groups have a figure.
    pub fn crossings(&self, test: u16, pair: Unit) -> u64 {
        self.aggregates
            .get(&(test, pair))
            .map_or(0, Distribution::count)
    }

    /// Returns the figures of all pairs by test; without all results, nothing.
    pub fn matrices(&self) -> Vec<Matrix> {
        if !self.keeps_all {
            return Vec::new();
        }
        let mut matrices: Vec<Matrix> = (0..self.tests.len() as u16)
            .map(|test| Matrix {
                test,
                cells: Vec::new(),
            })
            .collect();
        for result in &self.records {
            let figure = match &result.answer {
                Answer::Measured(figures) => Some(figures.value()),
                _ => None,
            };
            let cell = (result.pair.initiator, result.pair.target, figure);
            matrices[result.test as usize].cells.push(cell);
        }
        matrices
    }
}

/// Returns the figure with this cost.
pub fn value_at(cost: f64, of_bandwidth: bool) -> f64 {
    // The figure of a cost is the cost of a figure: both are reciprocals of each other, or equal.
    self::cost(cost, of_bandwidth)
}

/// Returns the cost above which results are kept because a later limit may be lower.
fn nearly(limit: Limit) -> f64 {
    limit.centre.median + 0.8 * (limit.cost - limit.centre.median)
}

/// Returns the limit of the first expectation that is not met.
fn broken(expectations: &[Expectation], size: u64, figures: &Figures) -> Option<f64> {
    let of_size = expectations.iter().filter(|one| one.applies_to(size));
    let mut broken = of_size
        .filter(|one| metric(one.metric, figures).is_some_and(|figure| !one.is_met_by(figure)));
    broken.next().map(|one| one.limit)
}

/// Returns a metric of a pair; `None` for those that the figures of a pair lack.
fn metric(metric: Metric, figures: &Figures) -> Option<f64> {
    match (*figures, metric) {
        (Figures::Latency { min_ns, .. }, Metric::Min) => Some(min_ns as f64),
        (Figures::Latency { max_ns, .. }, Metric::Max) => Some(max_ns as f64),
        (Figures::Latency { median_ns, .. }, Metric::Percentile(Percentile::MEDIAN)) => {
            Some(median_ns as f64)
        }
        (Figures::Latency { p99_ns, .. }, Metric::Percentile(Percentile::P99)) => {
            p99_ns.map(|ns| ns as f64)
        }
        (
            Figures::Bandwidth {
                bytes_per_second, ..
            },
            Metric::Bandwidth,
        ) => Some(bytes_per_second),
        (
            Figures::Bandwidth {
                operations_per_second,
                ..
            },
            Metric::PacketRate,
        ) => Some(operations_per_second),
        _ => None,
    }
}

/// Returns the larger parts of the fabric that a pair belongs to: switches and groups of both NICs, each
/// once, and the pair of groups.
fn aggregates(roster: &Roster, pair: Pair) -> [Option<Unit>; 5] {
    let [one, other] = [pair.initiator, pair.target].map(|nic| roster.nics[nic as usize].location);
    let switch = |place: crate::location::Location| Unit::Switch {
        group: place.group,
        switch: place.switch,
    };
    let (of_one, of_other) = (one.map(switch), other.map(switch));
    let (group, other_group) = (one.map(|place| place.group), other.map(|place| place.group));
    if pair.initiator == pair.target {
        return [None; 5];
    }
    [
        of_one,
        of_other.filter(|_| of_one != of_other),
        group.map(Unit::Group),
        other_group
            .filter(|_| group != other_group)
            .map(Unit::Group),
        group_pair(roster, pair),
    ]
}

/// Returns the groups of a pair between two groups.
pub fn group_pair(roster: &Roster, pair: Pair) -> Option<Unit> {
    let group = |nic: u32| Some(roster.nics[nic as usize].location?.group);
    let (one, other) = (group(pair.initiator)?, group(pair.target)?);
    (one != other).then(|| Unit::GroupPair(one.min(other), one.max(other)))
}
