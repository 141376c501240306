//! The pairs outside the limits, and what their retests say (jobs.md 3.3).

use super::answer::{Answer, Pair, PairResult, Stage};
use super::findings::LimitSource;
use super::ids::{NicId, PopulationKey, TestId};
use super::limits::{Limit, Limits};
use super::population::{LEAST_FIGURES, cost, without_worst_nics};
use super::result_store::{PopulationData, ResultStore, TestPair};
use super::roster::Roster;
use crate::location::Class;

/// Most NICs for which one of them shifts the median of all pairs.
const FEW_NICS: usize = 32;

/// Number of equal retests that decide about a suspect pair. A pair with two passes is transient. A
/// pair with two failures and fewer passes is confirmed.
const DECISIVE: usize = 2;

/// Most retests of a suspect pair (jobs.md 3.3).
pub const MOST_RETESTS: u8 = 4;

/// Bad NICs determine the median of a population if more than this part of its pairs are better
/// than the median,
const MOST_BETTER: f64 = 0.1;
/// and if this part of its NICs, more than chance explains, have none of the better pairs.
const MOST_WITHOUT: f64 = 0.1;
/// Chance explains much with few NICs: for few NICs, this part of better pairs alone decides.
const MOST_BETTER_OF_FEW: f64 = 0.07;
/// Fewest better pairs that say anything: one good figure is chance.
const LEAST_BETTER: u64 = 2;

/// What the retests of a suspect say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetestOutcome {
    /// There are not enough retests.
    Open,
    /// The pair is outside the limits again.
    Confirmed,
    /// The pair is inside the limits.
    Transient,
}

/// A pair outside the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    /// Index of the test.
    pub test: TestId,
    /// The pair.
    pub pair: Pair,
    /// Its class.
    pub class: Class,
    /// Which limit it does not meet.
    pub source: LimitSource,
    /// The figure; `None` if the pair failed.
    pub value: Option<f64>,
    /// Packets that the initiator sent again.
    pub retries: u64,
    /// Why it was measured.
    pub stage: Stage,
    /// What its retests say.
    pub outcome: RetestOutcome,
    /// Whether operations failed in a retest or in a swap.
    pub fails_again: bool,
}

impl ResultStore {
    /// Returns the limits of all populations.
    pub fn limits(&self, roster: &Roster) -> Limits {
        let few = self.keeps_all && self.nics < FEW_NICS;
        let limit = |((test, class), data): (&PopulationKey, &PopulationData)| {
            let of_bandwidth = self.of_bandwidth(*test);
            let costs = if few {
                without_worst_nics(&self.costs(*test, *class, roster), of_bandwidth)
            } else {
                data.figures.sorted().costs(of_bandwidth)
            };
            let limit = Limit::of(&costs, &data.retries.sorted(), self.noise, of_bandwidth);
            let has_limit = data.figures.count() >= LEAST_FIGURES as u64;
            let limit = if has_limit {
                limit
            } else {
                limit.without_limit()
            };
            ((*test, *class), limit)
        };
        self.populations.iter().map(limit).collect()
    }

    /// Returns the costs of the pairs of a population.
    fn costs(&self, test: TestId, class: Class, roster: &Roster) -> Vec<(Pair, f64)> {
        let of_test = self
            .records
            .iter()
            .filter(|result| result.test == test && result.stage == Stage::Sweep);
        let cost = |result: &PairResult| match &result.answer {
            Answer::Measured(figures) if roster.class(result.pair) == class => {
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
        limit.source(cost, result.retries())
    }

    /// Returns whether bad NICs determine the medians of these populations of a test: some pairs
    /// are as much better than the median as the limit is worse. If the populations are one class
    /// of many NICs, many NICs must have none of the better pairs, more than chance explains.
    /// Without locations, pairs of near NICs are better too, but such pairs are spread over all
    /// NICs.
    pub fn has_better_nics(&self, keys: &[PopulationKey], limits: &Limits) -> bool {
        let mirrored = |key| limits[key].mirrored();
        let (mut pairs, mut better) = (0, 0);
        for key in keys {
            let figures = &self.populations[key].figures;
            let costs = figures.sorted().costs(self.of_bandwidth(key.0));
            pairs += figures.count();
            better += costs.count_below(mirrored(key));
        }
        if better < LEAST_BETTER {
            return false;
        }
        let better = better as f64 / pairs as f64;
        let [key @ (test, class)] = keys else {
            return better > MOST_BETTER_OF_FEW;
        };
        let (mut nics, mut without, mut by_chance) = (0, 0.0, 0.0);
        for nic in NicId::first(self.nics) {
            let counts = self.counts(*test, nic);
            let pairs = counts.of_class(*class);
            if pairs > 0 {
                nics += 1;
                without += f64::from(u8::from(
                    self.least_cost(*test, nic, *class) >= mirrored(key),
                ));
                by_chance += (1.0 - better).powf(f64::from(pairs));
            }
        }
        if nics < FEW_NICS {
            better > MOST_BETTER_OF_FEW
        } else {
            better > MOST_BETTER && without - by_chance > MOST_WITHOUT * nics as f64
        }
    }

    /// Returns the pairs outside the limits.
    pub fn outside(&self, limits: &Limits, roster: &Roster) -> Vec<Outside> {
        let outside = |result: &PairResult| {
            let class = roster.class(result.pair);
            Some(Outside {
                test: result.test,
                pair: result.pair,
                class,
                source: self.source(result, class, limits)?,
                value: match &result.answer {
                    Answer::Measured(figures) => Some(figures.value()),
                    _ => None,
                },
                retries: result.retries(),
                stage: result.stage,
                outcome: self.outcome((result.test, result.pair), class, limits),
                fails_again: self.fails_again(result),
            })
        };
        self.records.iter().filter_map(outside).collect()
    }

    fn fails_again(&self, first: &PairResult) -> bool {
        let retests = self.retests.get(&(first.test, first.pair));
        let is_swap = |result: &PairResult| result.stage == Stage::Swap;
        let again = std::iter::once(first).filter(|first| is_swap(first));
        again
            .chain(retests.into_iter().flatten())
            .any(|result| matches!(result.answer, Answer::Failed(_)))
    }

    /// Returns how many retests of a pair are outside the limits, and how many are inside them.
    pub fn retested(&self, key: TestPair, class: Class, limits: &Limits) -> (usize, usize) {
        let retests = self.retests.get(&key).map_or(&[][..], Vec::as_slice);
        let is_outside = |result: &&PairResult| self.source(result, class, limits).is_some();
        let outside = retests.iter().filter(is_outside).count();
        (outside, retests.len() - outside)
    }

    fn outcome(&self, key: TestPair, class: Class, limits: &Limits) -> RetestOutcome {
        let (failures, passes) = self.retested(key, class, limits);
        if passes >= DECISIVE {
            RetestOutcome::Transient
        } else if failures >= DECISIVE {
            RetestOutcome::Confirmed
        } else {
            RetestOutcome::Open
        }
    }

    /// Returns whether further retests of a suspect can change what they say.
    pub fn needs_retest(&self, key: TestPair, limits: &Limits, roster: &Roster) -> bool {
        let class = roster.class(key.1);
        let (failures, passes) = self.retested(key, class, limits);
        passes < DECISIVE && failures + DECISIVE <= MOST_RETESTS as usize
    }
}
