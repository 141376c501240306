//! What the results of a survey say, at its end or at any moment before.

use std::collections::BTreeSet;

use super::answer::Stage;
use super::cause::{CauseFacts, cause};
use super::conductor::Conductor;
use super::explanation::{Explained, explain};
use super::findings::{Cause, Findings, LimitSource, Unit, UntestedPart};
use super::unmeasured::{Rest, Unmeasured};

/// Most results outside the limits in a findings.
const MOST_OUTSIDE: usize = 10_000;

impl Conductor {
    /// Returns what the results so far say.
    pub fn findings(&self) -> Findings {
        let so_far = self.evidence.limits(&self.roster);
        let limits = self.limits.as_ref().unwrap_or(&so_far);
        let Explained {
            explanations,
            mixed,
        } = explain(&self.evidence, limits, &self.roster);
        let outside = self.evidence.outside(limits, &self.roster);
        let mut populations = self.evidence.populations(limits, &outside);
        let facts = CauseFacts {
            evidence: &self.evidence,
            limits,
            populations: &populations,
            failures: self.evidence.failures(),
            roster: &self.roster,
        };
        let mut causes: Vec<Cause> = explanations
            .iter()
            .map(|explanation| cause(explanation, &facts))
            .collect();
        causes.sort_by_key(|cause| {
            let pairs: u32 = match cause.unit {
                Unit::Path(_) => 1,
                _ => cause.evidence.iter().map(|one| one.outside).sum(),
            };
            let failed = cause
                .evidence
                .iter()
                .any(|one| one.source == LimitSource::Failure);
            std::cmp::Reverse((cause.certainty, failed, pairs))
        });
        for population in &mut populations {
            population.limit = population
                .limit
                .filter(|_| !mixed.contains(&(population.test, population.class)));
        }
        let (unmeasured, answered) = self.unmeasured_so_far();
        let mut untested = unmeasured.untested(&self.roster);
        let unpaired = self.take_unmeasured(&mut untested);
        Findings {
            causes,
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
    fn take_unmeasured(&self, untested: &mut Vec<UntestedPart>) -> Vec<u32> {
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
            untested.push(UntestedPart {
                unit: Unit::Nic(nic),
                reason: reason.to_owned(),
                pairs: 0,
            });
        }
        unpaired
    }

    /// Returns the gaps and the number of answers if the survey ends at this moment.
    fn unmeasured_so_far(&self) -> (Unmeasured, u64) {
        let (mut unmeasured, mut answered) = (self.unmeasured.clone(), self.answered);
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
        unmeasured.leave_out_rest(rest, "the survey ended before");
        (unmeasured, answered)
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Pair, PairResult};
    use super::super::conductor::Conductor;
    use super::super::explanation_tests::settings;
    use super::super::findings::{Findings, Unit};
    use super::super::testing::Cluster;

    /// Returns the findings of a survey of a group of two switches, the second of which has one NIC.
    /// `answers` says whether a pair has an answer.
    fn findings(pairs: &str, answers: fn(Pair) -> bool) -> Findings {
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
        conductor.findings()
    }

    /// Returns the NICs that were not measured, with the reasons.
    fn untested(findings: &Findings) -> Vec<(u32, &str)> {
        let parts = findings.untested.iter();
        let of_nics = parts.filter_map(|part| match part.unit {
            Unit::Nic(nic) => Some((nic, part.reason.as_str())),
            _ => None,
        });
        of_nics.collect()
    }

    #[test]
    fn nic_in_no_pair_is_untested() {
        let findings = findings("within-switch", |_| true);
        assert_eq!(findings.planned, 3);
        let alone = [3, 4, 5].map(|nic| (nic, "it is in no pair"));
        assert_eq!(untested(&findings), alone);
        assert!(findings.unpaired.is_empty());
    }

    #[test]
    fn nothing_is_said_about_other_nics_of_a_sample() {
        let findings = findings("switches", |_| true);
        assert_eq!(findings.planned, 1);
        assert_eq!(untested(&findings), []);
        assert_eq!(findings.unpaired.len(), 4);
    }

    #[test]
    fn nic_without_answer_in_any_pair_is_untested() {
        let findings = findings("all", |pair| pair.initiator != 2 && pair.target != 2);
        assert_eq!(untested(&findings), [(2, "none of its pairs was measured")]);
    }
}
