//! What comparisons say about the time of retests and swaps: a cluster or a machine that is slow
//! for some seconds is no property of a pair.

use super::ids::PopulationKey;
use super::limits::Limit;
use super::observation::PairFigures;
use super::result_store::ResultStore;
use super::slow_parts::Judgement;

impl Judgement {
    /// Returns an observation as if the cluster had been as fast as in the sweep: if the
    /// comparisons before and after it are outside the limit, without what both took longer than
    /// good pairs. One slow comparison may have a reason of its own.
    pub fn without_drift(
        &self,
        results: &ResultStore,
        key: PopulationKey,
        one: PairFigures,
    ) -> PairFigures {
        let limit = self.limits.get(&key).filter(|_| !one.is_of_sweep);
        let drift = limit.and_then(|limit| drift(results, key, one.round, limit));
        drift.map_or(one, |drift| one.faster_by(drift))
    }
}

/// Returns by how much the comparisons directly before and after a round are slower than good
/// pairs, if all of them are outside the limit: the smallest difference.
fn drift(results: &ResultStore, key: PopulationKey, round: u32, limit: &Limit) -> Option<f64> {
    let rounds = results.comparisons.get(&key)?;
    let (_, before) = rounds.range(..round).next_back()?;
    let (_, after) = rounds.range(round + 1..).next()?;
    let residuals = before.iter().chain(after).filter_map(|one| limit.residual(one));
    let least = residuals.min_by(f64::total_cmp)?;
    (least > limit.ratio).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Figures, Stage};
    use super::super::findings::{Direction, Findings, Unit};
    use super::super::ids::NicId;
    use super::super::settings::Settings;
    use super::super::testing::{Cluster, Fault, named, pair, settings, survey_with};

    /// Measures a survey of five NICs on a machine that is slower by a factor at times.
    fn survey_of_slow_times(
        cluster: &mut Cluster,
        is_slow: impl Fn(Stage, usize) -> bool,
        factor: f64,
    ) -> Findings {
        let one_at_a_time = Settings { most_active: Some(1), ..settings("random:4", 1) };
        let mut number = 0;
        survey_with(cluster, one_at_a_time, |cluster, round| {
            let factor = if is_slow(round.stage, number) { factor } else { 1.0 };
            number += 1;
            let mut results = cluster.measure(round);
            for result in &mut results {
                if let Answer::Measured(Figures::Latency { median_ns, .. }) = &mut result.answer {
                    *median_ns = (*median_ns as f64 * factor) as u64;
                }
            }
            results
        })
    }

    #[test]
    fn names_no_path_of_a_machine_that_is_slow_at_times() {
        // The first and the last pair are slow, and all retests.
        let is_slow = |stage, number| stage != Stage::Sweep || [0, 15].contains(&number);
        let mut cluster = Cluster::new([0, 0, 5, 1], &["write-lat"], 1);
        cluster.noise = 0.05;
        let findings = survey_of_slow_times(&mut cluster, is_slow, 1.8);
        assert_eq!(named(&findings), []);
        assert!(findings.untested.is_empty(), "{:?}", findings.untested);
        // A slow path is still found.
        let path = Unit::Path(pair(1, 4));
        cluster.faults = vec![Fault::slow(path, Direction::Both, 10.0)];
        let findings = survey_of_slow_times(&mut cluster, is_slow, 1.8);
        let found: Vec<Unit> = named(&findings).iter().map(|one| one.0).collect();
        assert_eq!(found, [path]);
    }

    #[test]
    fn judges_pairs_by_the_best_of_several_measurements_if_they_differ() {
        let survey_at = |slow: fn(Stage, usize) -> bool, fault: Option<Fault>| {
            let mut cluster = Cluster::new([0, 0, 5, 1], &["write-lat"], 1);
            cluster.noise = 0.05;
            cluster.faults.extend(fault);
            survey_of_slow_times(&mut cluster, slow, 20.0)
        };
        // Every third measurement is slow.
        let third = |_, number: usize| number.is_multiple_of(3);
        let findings = survey_at(third, None);
        assert_eq!(named(&findings), []);
        assert!(findings.untested.is_empty(), "{:?}", findings.untested);
        let unit = Unit::Nic(NicId(2));
        let findings = survey_at(third, Some(Fault::slow(unit, Direction::Both, 3.0)));
        let found: Vec<Unit> = named(&findings).iter().map(|one| one.0).collect();
        assert_eq!(found, [unit]);
    }
}
