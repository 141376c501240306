//! The limits of the pairs of a test and class, from the fit of the sweep.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::answer::FEW_RETRIES;
use super::findings::{LimitSource, Statistic};
use super::fit::{
    Fit, JudgedCost, PairCost, PairFigures, PairResidual, fit, rank_correlation, statistics,
    upper_spread,
};
use super::population::Sorted;
use super::result_store::ResultStore;
use super::roster::{Pair, PopulationKey, Roster, TestId, TestPair};
use super::selection::{Selected, select};
use crate::blame::{LEAST_FIGURES, score_limit};
use crew::location::Class;
use facts::figures::{LEAST_BANDWIDTH, MOST_LATENCY};
use facts::robust::lower_median;

/// Ratio to the retries of a good pair above which retries are outside the limit.
const MANY_RETRIES: f64 = 10.0;

/// Part of the pairs that are certainly good. One bad NIC of four takes part in half of the pairs.
const GOOD_PART: f64 = 0.25;

/// Fewest good pairs that show that a wait for CPUs does not lower bandwidths.
const LEAST_HARMLESS: usize = 4;

/// Smallest robust deviation of the logarithm of a figure.
const LEAST_SPREAD: f64 = 0.005;

/// Part of the pairs of a class that may be missing without a test for bias.
const MOST_MISSING: f64 = 0.05;

/// Score of the rank correlation between missing pairs and figures from which a class is biased.
const BIASED: f64 = 2.5;

/// The limit of a class. Costs are logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The statistic by which pairs are judged.
    pub statistic: Statistic,
    /// Cost of a good pair.
    pub centre: f64,
    /// Robust deviation of the costs of good pairs.
    pub spread: f64,
    /// The smallest difference of a part from the centre that is outside the limit.
    pub ratio: f64,
    /// The smallest difference of a single pair that is outside the limit; infinite without a
    /// limit.
    pub pair_limit: f64,
    /// The largest number of retries inside the limit; infinite without a limit.
    pub retries: f64,
    /// Median of the retries of a pair.
    pub usual_retries: f64,
    /// Whether the missing pairs are unevenly spread over the figures.
    pub is_biased: bool,
    /// Logarithm of the ratio by which waiting for CPUs may have raised the figures of good pairs.
    pub waiting: f64,
    /// The longest wait for a CPU, in percent, that did not lower the bandwidths of good pairs, if
    /// they are judged as [`Statistic::Unaffected`].
    pub harmless_wait: u8,
}

pub type Limits = BTreeMap<PopulationKey, Limit>;

impl Limit {
    /// The limit of a class without limits, of a test with this ratio.
    fn none(ratio: f64) -> Self {
        Self {
            statistic: Statistic::Median,
            centre: f64::NAN,
            spread: 0.0,
            ratio,
            pair_limit: f64::INFINITY,
            retries: f64::INFINITY,
            usual_retries: f64::NAN,
            is_biased: false,
            waiting: 0.0,
            harmless_wait: 0,
        }
    }

    /// Whether the costs of the class have a limit.
    pub fn has_costs(&self) -> bool {
        self.pair_limit.is_finite()
    }

    pub fn without_costs(self) -> Self {
        Self { pair_limit: f64::INFINITY, ..self }
    }

    /// Returns how far the cost of a pair is from the centre; `None` if it is a bound that says
    /// nothing: a bound inside the limit shows that the pair is good.
    pub fn residual(&self, one: &PairFigures) -> Option<f64> {
        let JudgedCost { cost, is_bound } = one.reading(self.statistic);
        let has_waited = one.waited_percent > self.harmless_wait;
        let is_bound = is_bound || (self.statistic == Statistic::Unaffected && has_waited);
        let residual = cost - self.centre;
        match is_bound {
            false => Some(residual),
            true if residual < self.ratio => Some(residual.min(0.0)),
            true => None,
        }
    }

    /// Returns which limit a pair does not meet; `threshold` is the limit of its residual. If both
    /// limits are broken, the retries explain the cost.
    pub fn source(&self, one: &PairFigures, retries: u64, threshold: f64) -> Option<LimitSource> {
        if retries as f64 > self.retries {
            Some(LimitSource::Retries)
        } else if self.has_costs()
            && self.residual(one).is_some_and(|residual| residual > threshold)
        {
            Some(LimitSource::Population)
        } else {
            None
        }
    }
}

/// The limit and the median of the numbers of retries of a class.
fn limit_of_retries(retries: &Sorted) -> (f64, f64) {
    let good = retries.quantile(GOOD_PART);
    let most = (MANY_RETRIES * good).max(FEW_RETRIES as f64);
    (most, retries.median())
}

impl ResultStore {
    /// The logarithm of the smallest ratio to good pairs that is outside the limit.
    pub fn ratio(&self, test: TestId) -> f64 {
        let usual = if self.is_of_bandwidth(test) { 1.0 / LEAST_BANDWIDTH } else { MOST_LATENCY };
        self.sensitivity.unwrap_or(usual).ln()
    }

    /// The limits of all classes, as if those in `excluded` had no figures. `missing` are the pairs
    /// of the sweep without an answer.
    pub fn limits(
        &self,
        roster: &Roster,
        missing: &[TestPair],
        excluded: &BTreeSet<PopulationKey>,
    ) -> Limits {
        let mut limits = Limits::new();
        for (key, data) in &self.populations {
            let (retries, usual_retries) = limit_of_retries(&data.retries.sorted());
            let has_limit = data.figures.count() >= LEAST_FIGURES as u64;
            let retries = if has_limit { retries } else { f64::INFINITY };
            let limit = Limit { retries, usual_retries, ..Limit::none(self.ratio(key.0)) };
            limits.insert(*key, limit);
        }
        for test in TestId::first(self.tests.len()) {
            for in_loopback in [false, true] {
                let own = self.best_limits(test, in_loopback, roster, missing, excluded);
                for (class, own) in own {
                    if let Some(limit) = limits.get_mut(&(test, class)) {
                        let Limit { retries, usual_retries, .. } = *limit;
                        *limit = Limit { retries, usual_retries, ..own };
                    }
                }
            }
        }
        limits
    }

    /// Fits the pairs of a test, those in loopback or all others, by the statistics in which good
    /// pairs differ least. Beside busy CPUs these are the minima on slow links; on fast ones minima
    /// depend on chance.
    fn best_limits(
        &self,
        test: TestId,
        in_loopback: bool,
        roster: &Roster,
        missing: &[TestPair],
        excluded: &BTreeSet<PopulationKey>,
    ) -> Vec<(Class, Limit)> {
        let own = self.observations[test.index()].iter().filter(|one| {
            one.is_of_sweep
                && (one.class == Class::Loopback) == in_loopback
                && !excluded.contains(&(test, one.class))
        });
        let own: Vec<&PairFigures> = own.collect();
        let candidates = self.candidates(test, &own);
        let limits = (0..2).map(|place| {
            let statistics = candidates.iter();
            let statistics = statistics
                .map(|(class, statistic)| (*class, statistic[place.min(statistic.len() - 1)]));
            self.class_limits(test, &own, statistics.collect(), roster, missing)
        });
        let has_choice = candidates.values().any(|candidate| candidate.len() > 1);
        let spread =
            |limits: &Vec<(Class, Limit)>| limits.iter().map(|(_, own)| own.spread).sum::<f64>();
        limits
            .take(if has_choice { 2 } else { 1 })
            .min_by(|one, other| spread(one).total_cmp(&spread(other)))
            .expect("one choice at least")
    }

    /// The statistics by which each class may be judged, if it has enough figures.
    fn candidates(
        &self,
        test: TestId,
        pairs: &[&PairFigures],
    ) -> BTreeMap<Class, &'static [Statistic]> {
        let mut candidates = BTreeMap::new();
        for class in Class::ALL {
            let class_observations = || pairs.iter().filter(|one| one.class == class);
            let own: Vec<&PairFigures> = class_observations().copied().collect();
            let choice = statistics(&own, self.is_of_bandwidth(test));
            let figures = class_observations().filter(|one| !one.reading(choice[0]).is_bound);
            if figures.count() >= LEAST_FIGURES {
                candidates.insert(class, choice);
            }
        }
        candidates
    }

    /// Fits pairs of a test by these statistics. Returns the limits of costs of their classes.
    fn class_limits(
        &self,
        test: TestId,
        pairs: &[&PairFigures],
        statistics: BTreeMap<Class, Statistic>,
        roster: &Roster,
        missing: &[TestPair],
    ) -> Vec<(Class, Limit)> {
        let judged = || {
            let pairs = pairs.iter().copied();
            pairs.filter_map(|one| Some((one, one.reading(*statistics.get(&one.class)?))))
        };
        let costs: Vec<PairCost> = judged()
            .filter(|(_, reading)| !reading.is_bound)
            .map(|(one, reading)| PairCost { pair: one.pair, class: one.class, cost: reading.cost })
            .collect();
        let ratio = self.ratio(test);
        let (fit, selected) = self.fit_and_select(&costs, ratio, roster);
        let mut limits = Vec::new();
        for (class, statistic) in statistics.iter().map(|(class, statistic)| (*class, *statistic)) {
            let own = || (0..costs.len()).filter(|index| costs[*index].class == class);
            let good = own().filter(|index| !selected.is_explained[*index]);
            let good: Vec<f64> = good.map(|index| selected.rest[index]).collect();
            let shift = lower_median(&good).unwrap_or(0.0);
            let all: Vec<f64> = own().map(|index| selected.rest[index]).collect();
            let spread = upper_spread(&all).max(LEAST_SPREAD);
            let centre = fit.centres[class as usize].unwrap_or_default() + shift;
            let class_observations = pairs.iter().filter(|one| one.class == class);
            let waits: Vec<f64> = class_observations.map(|one| one.waiting(statistic)).collect();
            let waiting = lower_median(&waits).unwrap_or(f64::NAN);
            let is_good = |(one, reading): &(&PairFigures, JudgedCost)| {
                one.class == class && reading.cost - centre < ratio
            };
            let waits = judged().filter(is_good).map(|(one, _)| one.waited_percent);
            let mut waits: Vec<u8> = waits.collect();
            waits.sort_unstable_by_key(|wait| Reverse(*wait));
            let harmless_wait = waits.get(LEAST_HARMLESS - 1).copied().unwrap_or_default();
            let class_readings = judged().filter(|(one, _)| one.class == class);
            let answered: Vec<(Pair, bool)> =
                class_readings.map(|(one, reading)| (one.pair, reading.is_bound)).collect();
            let lost = missing.iter().filter(|(missing_test, pair)| {
                *missing_test == test && roster.class(*pair) == class
            });
            let lost: Vec<Pair> = lost.map(|(_, pair)| *pair).collect();
            let is_biased = is_biased(&answered, &lost, &fit.effects);
            let noise = score_limit(good.len()) * spread;
            let limit = Limit {
                statistic,
                centre,
                spread,
                pair_limit: if is_biased { f64::INFINITY } else { ratio.max(noise) },
                is_biased,
                waiting,
                harmless_wait,
                ..Limit::none(ratio)
            };
            limits.push((class, limit));
        }
        limits
    }

    /// The centres of classes and the effects of NICs that fit costs best, and the parts that
    /// explain what the centres leave.
    fn fit_and_select(&self, costs: &[PairCost], ratio: f64, roster: &Roster) -> (Fit, Selected) {
        let Fit { centres, effects } = fit(costs, self.nics);
        let centres = centres_of_most(costs, centres, ratio);
        let residual = |one: &PairCost| PairResidual {
            pair: one.pair,
            value: one.cost - centres[one.class as usize].unwrap_or_default(),
        };
        let residuals: Vec<PairResidual> = costs.iter().map(residual).collect();
        (Fit { centres, effects }, select(&residuals, ratio, roster))
    }
}

/// The centres of a fit. The centre of a class is the median of its pairs instead if most pairs are
/// better than the centre by more than the `ratio`, and alike: slow links between two of three
/// groups look like slow NICs of these groups, which are most of all NICs.
fn centres_of_most(
    costs: &[PairCost],
    fitted: [Option<f64>; Class::ALL.len()],
    ratio: f64,
) -> [Option<f64>; Class::ALL.len()] {
    let mut centres = fitted;
    for class in Class::ALL {
        let own = costs.iter().filter(|one| one.class == class).map(|one| one.cost);
        let own: Vec<f64> = own.collect();
        let (Some(centre), Some(median)) = (&mut centres[class as usize], lower_median(&own))
        else {
            continue;
        };
        let alike = own.iter().filter(|cost| (*cost - median).abs() < ratio).count();
        if 2 * alike > own.len() && *centre - median > ratio {
            *centre = median;
        }
    }
    centres
}

/// Whether the missing pairs of NICs follow the figures of the NICs. A pair without a figure is
/// missing too.
fn is_biased(answered: &[(Pair, bool)], lost: &[Pair], effects: &[f64]) -> bool {
    let mut counts = vec![(0.0, 0.0); effects.len()];
    let pairs = answered.iter().copied().chain(lost.iter().map(|pair| (*pair, true)));
    let (mut missing, mut total) = (0.0, 0.0);
    for (pair, is_missing) in pairs {
        let part = f64::from(u8::from(is_missing));
        (missing, total) = (missing + part, total + 1.0);
        for nic in pair.nics() {
            let (missing, total) = &mut counts[nic.index()];
            (*missing, *total) = (*missing + part, *total + 1.0);
        }
    }
    if missing <= MOST_MISSING * total {
        return false;
    }
    let nic_pairs = counts.iter().zip(effects);
    let nic_pairs = nic_pairs.filter(|((_, total), effect)| *total > 0.0 && effect.is_finite());
    let (shares, effects): (Vec<f64>, Vec<f64>) =
        nic_pairs.map(|((missing, total), effect)| (missing / total, *effect)).unzip();
    let nics = shares.len() as f64;
    rank_correlation(&shares, &effects).abs() * (nics - 1.0).max(0.0).sqrt() > BIASED
}

#[cfg(test)]
mod tests {
    use super::super::testing::pair;
    use super::*;

    fn retries(counts: &[u64]) -> f64 {
        limit_of_retries(&Sorted::of(counts.iter().map(|one| (*one as f64, 1)).collect())).0
    }

    #[test]
    fn accepts_few_retries() {
        assert_eq!(retries(&[0; 16]), FEW_RETRIES as f64);
    }

    #[test]
    fn ignores_retries_of_bad_nic_of_four_in_the_limit() {
        let limit = retries(&[40, 0, 40, 0, 40, 0, 40, 0, 40, 0, 40, 0]);
        assert_eq!(limit, FEW_RETRIES as f64);
    }

    #[test]
    fn accepts_retries_that_all_pairs_have() {
        assert!(retries(&[20, 25, 30, 40, 60, 100, 150, 190]) > 190.0);
    }

    #[test]
    fn finds_bias_if_pairs_of_fast_nics_are_missing() {
        let effects: Vec<f64> = (0..12).map(|nic| f64::from(u8::from(nic < 3))).collect();
        let all = (0..12).flat_map(|one| (one + 1..12).map(move |other| pair(one, other)));
        let (slow, fast): (Vec<Pair>, Vec<Pair>) = all.partition(|pair| pair.initiator.0 < 3);
        let answered = |pairs: &[Pair]| pairs.iter().map(|pair| (*pair, false)).collect();
        let slow: Vec<(Pair, bool)> = answered(&slow);
        assert!(is_biased(&slow, &fast, &effects));
        let (some, others) = fast.split_at(18);
        let answered = [slow, answered(others)].concat();
        assert!(!is_biased(&answered, &some[..2], &effects));
    }
}
