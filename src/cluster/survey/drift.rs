//! What comparisons say about the time of retests and swaps: a cluster or a machine that is slow
//! for some seconds is no property of a pair.

use super::ids::PopulationKey;
use super::limits::Limit;
use super::observation::Observation;
use super::result_store::ResultStore;
use super::slow_parts::Judgement;

impl Judgement {
    /// Returns an observation as if its pair had been measured as often as pairs of the sweep, and
    /// the cluster had been as fast as then: if the comparisons before and after it are outside the
    /// limit, without what both took longer than good pairs. One slow comparison may have a reason
    /// of its own.
    pub fn without_drift(
        &self,
        results: &ResultStore,
        key: PopulationKey,
        one: Observation,
    ) -> Observation {
        match self.limits.get(&key) {
            Some(limit) if !one.is_of_sweep => {
                let drift = drift(results, key, one.round, limit);
                let lasting = drift.filter(|drift| *drift > limit.ratio);
                one.faster_by(limit.single + lasting.unwrap_or_default())
            }
            _ => one,
        }
    }
}

/// Returns how far the comparisons before and after a round are from the centre of their class: the
/// smallest distance.
fn drift(results: &ResultStore, key: PopulationKey, round: u32, limit: &Limit) -> Option<f64> {
    let rounds = results.comparisons.get(&key)?;
    let (_, before) = rounds.range(..round).next_back()?;
    let (_, after) = rounds.range(round + 1..).next()?;
    let both = before.iter().chain(after);
    let residuals = both.filter_map(|one| limit.residual(&one.faster_by(limit.single)));
    residuals.min_by(f64::total_cmp)
}
