//! The pairs outside the limits, and what their retests say (jobs.md 3.3).
//!
//! Failures are not noise if the operations of a NIC failed with several partners. Most retests of
//! a NIC that loses packets now and then pass, so passed retests do not clear such a NIC.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Answer, PairResult, Stage};
use super::findings::LimitSource;
use super::fit::{PairFigures, figure};
use super::result_store::ResultStore;
use super::roster::{NicId, Pair, Roster, TestId, TestPair};
use super::slow_parts::Judgement;
use crate::blame::LEAST_PARTNERS;
use crew::location::Class;

/// Number of equal retests that decide about a suspect pair. A pair with two passes is transient. A
/// pair with two failures and fewer passes is confirmed.
pub const DECISIVE: usize = 2;

/// The same for passes of software NICs: what else a CPU does makes figures worse, and nothing
/// makes them better. This deviates from jobs.md 3.3, which is about hardware.
const DECISIVE_ON_CPUS: usize = 1;

/// Most retests of a suspect pair (jobs.md 3.3).
pub const MOST_RETESTS: u8 = 4;

/// A pair is far outside its limit if it differs from good pairs by more than this many times the
/// difference at the limit: noise does not explain that.
const FAR: f64 = 3.0;

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
    pub pair: Pair,
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
    /// Whether the figures of the sweep and of all retests are far outside the limit.
    pub is_far: bool,
}

impl ResultStore {
    /// Returns which limit a result does not meet.
    fn source(
        &self,
        result: &PairResult,
        judgement: &Judgement,
        roster: &Roster,
    ) -> Option<LimitSource> {
        let class = roster.class(result.pair);
        let Some(one) = self.figures_of(result, roster) else {
            return Some(LimitSource::Failure);
        };
        let key = (result.test, class);
        let one = judgement.without_drift(self, key, one);
        if self.breaks_expectation(result).is_some() {
            return Some(LimitSource::Expect);
        }
        let limit = judgement.limits.get(&key)?;
        let threshold = judgement.threshold(result.test, result.pair, limit, roster);
        limit.source(&one, result.retries(), threshold)
    }

    /// The pairs outside the limits.
    pub fn outside(&self, judgement: &Judgement, roster: &Roster) -> Vec<Outside> {
        let outside = |result: &PairResult| {
            let class = roster.class(result.pair);
            let source = self.source(result, judgement, roster)?;
            let limit = judgement.limits.get(&(result.test, class));
            let statistic = limit.map(|limit| limit.statistic).unwrap_or_default();
            let value = self.figures_of(result, roster).map(|one| {
                let cost = one.reading(statistic).cost;
                figure(cost, self.is_of_bandwidth(result.test))
            });
            let fails_again = self.fails_again(result);
            let outcome = self.outcome((result.test, result.pair), judgement, roster);
            let fails_twice = fails_again && matches!(result.answer, Answer::Failed(_));
            Some(Outside {
                test: result.test,
                pair: result.pair,
                class,
                source,
                value,
                retries: result.retries(),
                stage: result.stage,
                // Other measurements that succeed do not excuse two that fail.
                outcome: match outcome {
                    RetestOutcome::Transient if fails_twice => RetestOutcome::Open,
                    outcome => outcome,
                },
                fails_again,
                is_far: self.is_far(result, judgement, roster),
            })
        };
        self.records.iter().filter_map(outside).collect()
    }

    /// Whether a pair, of which this is the first result, is far outside its limit in the sweep and
    /// in each of its retests, of which it has one at least, and no process waited for its CPU.
    fn is_far(&self, first: &PairResult, judgement: &Judgement, roster: &Roster) -> bool {
        let key = (first.test, roster.class(first.pair));
        let limit = judgement.limits.get(&key).filter(|limit| limit.has_costs());
        let retests = self.retests.get(&(first.test, first.pair));
        let (Some(limit), Some(retests)) = (limit, retests) else {
            return false;
        };
        let far = (FAR * limit.pair_limit.exp_m1()).ln_1p();
        let is_far = |one: Option<PairFigures>| {
            let undisturbed = one.filter(|one| !one.is_disturbed);
            let corrected = undisturbed.map(|one| judgement.without_drift(self, key, one));
            corrected.and_then(|one| limit.residual(&one)).is_some_and(|residual| residual > far)
        };
        is_far(self.figures_of(first, roster))
            && retests.iter().all(|result| is_far(PairFigures::of(result, key.1)))
    }

    /// Returns how often a pair was retested.
    pub fn retest_count(&self, key: TestPair) -> usize {
        self.retests.get(&key).map_or(0, Vec::len)
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
    pub fn retested(
        &self,
        key: TestPair,
        judgement: &Judgement,
        roster: &Roster,
    ) -> (usize, usize) {
        let retests = self.retests.get(&key).map_or(&[][..], Vec::as_slice);
        let (mut outside, mut inside) = (0, 0);
        for result in retests {
            let is_outside = self.source(result, judgement, roster).is_some();
            let class = roster.class(result.pair);
            let one = PairFigures::of(result, class);
            let limit = judgement.limits.get(&(result.test, class));
            // A bound outside the limit says nothing.
            let is_silent = match (limit, &one) {
                (Some(limit), Some(one)) => limit.has_costs() && limit.residual(one).is_none(),
                _ => false,
            };
            inside += usize::from(!is_outside && !is_silent);
            // A process that waited for its CPU may be why the pair is slow.
            outside += usize::from(is_outside && !one.is_some_and(|one| one.is_disturbed));
        }
        (outside, inside)
    }

    fn outcome(&self, key: TestPair, judgement: &Judgement, roster: &Roster) -> RetestOutcome {
        let (failures, passes) = self.retested(key, judgement, roster);
        if passes >= decisive_passes(key.1, roster) {
            RetestOutcome::Transient
        } else if failures >= DECISIVE {
            RetestOutcome::Confirmed
        } else {
            RetestOutcome::Open
        }
    }

    /// Whether further retests of a suspect can change what they say.
    pub fn needs_retest(&self, key: TestPair, judgement: &Judgement, roster: &Roster) -> bool {
        let (failures, passes) = self.retested(key, judgement, roster);
        passes < decisive_passes(key.1, roster)
            && failures + DECISIVE <= MOST_RETESTS as usize
            && self.retest_count(key) < 2 * MOST_RETESTS as usize
    }
}

/// The number of passes that make a pair transient.
fn decisive_passes(pair: Pair, roster: &Roster) -> usize {
    if pair.nics().iter().any(|nic| roster.runs_on_cpus(*nic)) {
        DECISIVE_ON_CPUS
    } else {
        DECISIVE
    }
}

/// Each NIC that failed with at least two partners and more than any of these partners did, with
/// the indices of its failures. Ties: the NIC with the fewest `answers`.
pub fn most_failing<'a>(
    open: impl Iterator<Item = (usize, &'a Outside)>,
    answers: impl Fn(NicId) -> u32,
) -> BTreeMap<NicId, Vec<usize>> {
    let mut failures: BTreeMap<NicId, (BTreeSet<NicId>, Vec<usize>)> = BTreeMap::new();
    for (index, one) in open.filter(|(_, one)| one.value.is_none()) {
        if one.pair.is_loopback() {
            continue;
        }
        let Pair { initiator, target } = one.pair;
        for (nic, partner) in [(initiator, target), (target, initiator)] {
            let (partners, indices) = failures.entry(nic).or_default();
            partners.insert(partner);
            indices.push(index);
        }
    }
    failures.retain(|_, (partners, _)| partners.len() >= LEAST_PARTNERS);
    let mut ranked: Vec<_> = failures.into_iter().collect();
    ranked.sort_by_key(|(nic, (partners, _))| {
        (Reverse(partners.len()), answers(*nic), Reverse(*nic))
    });
    let mut touched: BTreeSet<NicId> = BTreeSet::new();
    let mut most = BTreeMap::new();
    for (nic, (partners, indices)) in ranked {
        if !touched.contains(&nic) {
            most.insert(nic, indices);
        }
        touched.extend(partners);
    }
    most
}

/// Keeps retests from clearing a NIC that failed with several partners. Its failures are confirmed
/// if an operation of the NIC has failed in a retest or in a swap too.
pub fn keep_failures(outside: &mut [Outside], answers: impl Fn(NicId) -> u32) {
    let mut is_open = vec![true; outside.len()];
    loop {
        let open = outside.iter().enumerate().filter(|(index, _)| is_open[*index]);
        let failing = most_failing(open, &answers);
        if failing.is_empty() {
            return;
        }
        for failures in failing.into_values() {
            let fails_again = failures.iter().any(|index| outside[*index].fails_again);
            for index in failures {
                is_open[index] = false;
                let outcome = &mut outside[index].outcome;
                if fails_again {
                    *outcome = RetestOutcome::Confirmed;
                } else if *outcome == RetestOutcome::Transient {
                    *outcome = RetestOutcome::Open;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::Figures;
    use super::super::findings::Certainty;
    use super::super::roster::Unit;
    use super::super::testing::{Cluster, named, pair, settings, survey_with};
    use super::*;

    /// Returns how certain the survey is of a path whose measurements with these numbers fail.
    fn certainty(failing: &[usize]) -> Option<Certainty> {
        let fail = |answer: &mut Answer| *answer = Answer::Failed("UNDELIVERABLE".into());
        certainty_on("cxi", failing, fail)
    }

    /// The same for NICs of this kind, with another change of the measurements.
    fn certainty_on(kind: &str, changed: &[usize], change: fn(&mut Answer)) -> Option<Certainty> {
        let mut cluster = Cluster::new([0, 0, 12, 1], &["write-lat"], 1);
        for (number, nic) in cluster.roster.nics.iter_mut().enumerate() {
            nic.device = format!("{kind}{number}");
        }
        let path = pair(3, 5);
        let mut measured = 0;
        let findings = survey_with(&mut cluster, settings("all", 1), |cluster, round| {
            let mut results = cluster.measure(round);
            for result in &mut results {
                if result.pair.nics() == path.nics() || result.pair.nics() == pair(5, 3).nics() {
                    if changed.contains(&measured) {
                        change(&mut result.answer);
                    }
                    measured += 1;
                }
            }
            results
        });
        let is_path = |unit: &Unit| matches!(unit, Unit::Path(_));
        assert!(named(&findings).iter().all(|(unit, _, _)| is_path(unit)));
        let causes = findings.causes.iter();
        causes.map(|cause| cause.certainty).next()
    }

    #[test]
    fn one_fast_retest_shows_that_a_path_of_software_nics_is_good() {
        let slow = |answer: &mut Answer| {
            if let Answer::Measured(Figures::Latency { median_ns, .. }) = answer {
                *median_ns *= 4;
            }
        };
        // The first retest is fast, and the others are slow.
        let changed = [0, 2, 3, 4, 5, 6];
        assert_eq!(certainty_on("cxi", &changed, slow), Some(Certainty::Bad));
        let transient = Some(Certainty::Transient);
        assert_eq!(certainty_on("soft", &changed, slow), transient);
        let always: Vec<usize> = (0..9).collect();
        assert_eq!(certainty_on("soft", &always, slow), Some(Certainty::Bad));
    }

    #[test]
    fn path_that_fails_twice_is_not_transient() {
        assert_eq!(certainty(&[0]), Some(Certainty::Transient));
        assert_eq!(certainty(&[0, 2]), Some(Certainty::Suspect));
        assert_eq!(certainty(&[0, 1, 2, 3, 4, 5, 6, 7]), Some(Certainty::Bad));
        assert_eq!(certainty(&[]), None);
    }
}
