//! Comparisons: good pairs that are measured beside retests, and what they say about the time of
//! the retests. A cluster or a machine that is slow for some seconds is no property of a pair.

use std::collections::BTreeMap;

use super::ids::PopulationKey;
use super::limits::{Limit, Limits};
use super::observation::Observation;

/// The comparisons of each class, by round.
#[derive(Debug, Default)]
pub struct Comparisons(BTreeMap<PopulationKey, BTreeMap<u32, Vec<Observation>>>);

impl Comparisons {
    /// Adds a comparison.
    pub fn add(&mut self, key: PopulationKey, one: Observation) {
        let rounds = self.0.entry(key).or_default();
        rounds.entry(one.round).or_default().push(one);
    }

    /// Returns an observation as if the pair had been measured as often as those of the sweep, and
    /// the cluster had been as fast as then: if the comparisons before and after it are outside the
    /// limit, without what both took longer than good pairs. One slow comparison may have a reason
    /// of its own.
    pub fn without_drift(
        &self,
        key: PopulationKey,
        one: Observation,
        limits: &Limits,
    ) -> Observation {
        if one.is_of_sweep {
            return one;
        }
        let Some(limit) = limits.get(&key) else {
            return one;
        };
        let drift = self.drift(key, one.round, limit);
        let lasting = drift.filter(|drift| *drift > limit.ratio);
        one.faster_by(limit.single + lasting.unwrap_or_default())
    }

    /// Returns how far the comparisons before and after a round are from the centre of their class,
    /// of both the smaller distance.
    fn drift(&self, key: PopulationKey, round: u32, limit: &Limit) -> Option<f64> {
        let rounds = self.0.get(&key)?;
        let (_, before) = rounds.range(..round).next_back()?;
        let (_, after) = rounds.range(round + 1..).next()?;
        let both = before.iter().chain(after);
        let residuals = both.filter_map(|one| limit.residual(&one.faster_by(limit.single)));
        residuals.min_by(f64::total_cmp)
    }
}
