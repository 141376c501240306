//! What the results of a survey say, at its end or at any moment before.

use std::collections::BTreeSet;

use super::answer::Stage;
use super::blame::{Causes, causes};
use super::conductor::Conductor;
use super::culprit::{Facts, culprit};
use super::gaps::{Gaps, Rest};
use super::verdict::{Culprit, LimitSource, Unit, Untested, Verdict};

/// Most results outside the limits in a verdict.
const MOST_OUTSIDE: usize = 10_000;

impl Conductor {
    /// Returns what the results so far say.
    pub fn verdict(&self) -> Verdict {
        let so_far = self.evidence.limits(&self.roster);
        let limits = self.limits.as_ref().unwrap_or(&so_far);
        let Causes { causes, mixed } = causes(&self.evidence, limits, &self.roster);
        let outside = self.evidence.outside(limits, &self.roster);
        let mut populations = self.evidence.populations(limits, &outside);
        let facts = Facts {
            evidence: &self.evidence,
            limits,
            populations: &populations,
            failures: self.evidence.failures(),
            roster: &self.roster,
        };
        let mut culprits: Vec<Culprit> =
            causes.iter().map(|cause| culprit(cause, &facts)).collect();
        culprits.sort_by_key(|culprit| {
            let pairs: u32 = match culprit.unit {
                Unit::Path(_) => 1,
                _ => culprit.evidence.iter().map(|one| one.outside).sum(),
            };
            let failed = culprit
                .evidence
                .iter()
                .any(|one| one.source == LimitSource::Failure);
            std::cmp::Reverse((culprit.word, failed, pairs))
        });
        for population in &mut populations {
            population.limit = population
                .limit
                .filter(|_| !mixed.contains(&(population.test, population.class)));
        }
        let (gaps, answered) = self.gaps_so_far();
        let mut untested = gaps.untested(&self.roster);
        let unpaired = self.take_unmeasured(&mut untested);
        Verdict {
            culprits,
            untested,
            unpaired,
            populations,
            aggregates: self.evidence.aggregates(&outside, &self.roster),
            outside: self.evidence.results(&outside, MOST_OUTSIDE),
            matrices: if self.keeps_figures {
                self.evidence.matrices()
            } else {
                Vec::new()
            },
            planned: self.planned,
            answered,
        }
    }

    /// Adds the NICs without any answer to `untested`. Returns those that were not to be measured.
    fn take_unmeasured(&self, untested: &mut Vec<Untested>) -> Vec<u32> {
        let mut of_paths = BTreeSet::new();
        let mut named = BTreeSet::new();
        for part in &*untested {
            match part.unit {
                Unit::Path(pair) => of_paths.extend([pair.initiator, pair.target]),
                Unit::Nic(nic) => drop(named.insert(nic)),
                _ => {}
            }
        }
        let mut unpaired = Vec::new();
        for (nic, of) in (0..).zip(&self.roster.nics) {
            let is_absent = self.roster.nodes[of.node as usize].absent.is_some();
            if self.evidence.answers(nic) > 0 || named.contains(&nic) || is_absent {
                continue;
            }
            let reason = if of_paths.contains(&nic) {
                "none of its pairs was measured"
            } else if self.is_of_all_nics {
                "it is in no pair"
            } else {
                unpaired.push(nic);
                continue;
            };
            untested.push(Untested {
                unit: Unit::Nic(nic),
                reason: reason.to_owned(),
                pairs: 0,
            });
        }
        unpaired
    }

    /// Returns the gaps and the number of answers if the survey ends at this moment.
    fn gaps_so_far(&self) -> (Gaps, u64) {
        let (mut gaps, mut answered) = (self.gaps.clone(), self.answered);
        let mut rest = Rest::new(&self.roster, |nic| self.evidence.answers(nic) > 0);
        self.sweep.clone().drain(|test, pair| {
            if self.already[test as usize].contains(pair) {
                answered += 1;
            } else {
                rest.add(pair);
            }
        });
        let outstanding = self.outstanding.iter();
        let of_sweep = outstanding.filter(|(_, stage)| **stage == Stage::Sweep);
        of_sweep.for_each(|((_, pair), _)| rest.add(*pair));
        self.queue.of_sweep().for_each(|pair| rest.add(pair));
        gaps.leave_out_rest(rest, "the survey ended before");
        (gaps, answered)
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Pair, PairResult};
    use super::super::blame_tests::settings;
    use super::super::conductor::Conductor;
    use super::super::testing::Cluster;
    use super::super::verdict::{Unit, Verdict};

    /// Returns the verdict of a survey of a group of two switches, the second of which has one NIC.
    /// `answers` says whether a pair has an answer.
    fn verdict(pairs: &str, answers: fn(Pair) -> bool) -> Verdict {
        let mut cluster = Cluster::new([1, 2, 3, 1], &["write-lat"], 1);
        for nic in &mut cluster.roster.nics[3..5] {
            nic.location = None;
        }
        let settings = settings(pairs, 1);
        let mut conductor =
            Conductor::new(cluster.roster.clone(), cluster.tests.clone(), settings).unwrap();
        while !conductor.is_over() {
            for round in conductor.next_rounds(100) {
                for result in cluster.measure(&round) {
                    let answer = if answers(result.pair) {
                        result.answer
                    } else {
                        Answer::Untested("late".into())
                    };
                    conductor.add(PairResult { answer, ..result });
                }
            }
        }
        conductor.verdict()
    }

    /// Returns the NICs that were not measured, with the reasons.
    fn untested(verdict: &Verdict) -> Vec<(u32, &str)> {
        let parts = verdict.untested.iter();
        let of_nics = parts.filter_map(|part| match part.unit {
            Unit::Nic(nic) => Some((nic, part.reason.as_str())),
            _ => None,
        });
        of_nics.collect()
    }

    #[test]
    fn nic_in_no_pair_is_untested() {
        let verdict = verdict("within-switch", |_| true);
        assert_eq!(verdict.planned, 3);
        let alone = [3, 4, 5].map(|nic| (nic, "it is in no pair"));
        assert_eq!(untested(&verdict), alone);
        assert!(verdict.unpaired.is_empty());
    }

    #[test]
    fn nothing_is_said_about_other_nics_of_a_sample() {
        let verdict = verdict("switches", |_| true);
        assert_eq!(verdict.planned, 1);
        assert_eq!(untested(&verdict), []);
        assert_eq!(verdict.unpaired.len(), 4);
    }

    #[test]
    fn nic_without_answer_in_any_pair_is_untested() {
        let verdict = verdict("all", |pair| pair.initiator != 2 && pair.target != 2);
        assert_eq!(untested(&verdict), [(2, "none of its pairs was measured")]);
    }
}
