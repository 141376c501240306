//! What the results of a survey say, at its end or at any moment before.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::answer::Untested;
use super::cause::{CauseFacts, add_signs, cause};
use super::coverage::Coverage;
use super::explanation::explain;
use super::findings::{Cause, Certainty, Findings, LimitSource, Unit, UntestedPart};
use super::ids::{NicId, TestId};
use super::limits::Limits;
use super::result_store::ResultStore;
use super::roster::{Roster, members};
use super::search::{PartExplanation, waited_for_cpus};
use super::slow_parts::Judgement;

/// Most results outside the limits in a findings.
const MOST_OUTSIDE: usize = 10_000;

/// The results of a survey that ends at this moment.
#[derive(Debug)]
pub struct EndedSurvey<'a> {
    /// The nodes and NICs.
    pub roster: &'a Roster,
    pub results: &'a ResultStore,
    pub limits: &'a Limits,
    /// How much was measured.
    pub coverage: Coverage,
    /// Whether to return the figures of all pairs.
    pub keeps_figures: bool,
    /// Whether the selections have each NIC in a pair.
    pub is_of_all_nics: bool,
    /// Whether all pairs were measured because the selected ones differed too much.
    pub is_wide: bool,
}

impl EndedSurvey<'_> {
    /// Returns what the results say.
    pub fn findings(&self) -> Findings {
        let (results, limits, roster) = (self.results, self.limits, self.roster);
        let explained = explain(results, limits, roster);
        let (judgement, outside) = (&explained.judgement, &explained.outside);
        let mut populations = results.populations(judgement, outside, roster);
        let is_incomparable = |one| results.is_incomparable(one, &populations, roster);
        let incomparable: Vec<bool> = populations.iter().map(is_incomparable).collect();
        for (population, is_incomparable) in populations.iter_mut().zip(incomparable) {
            population.incomparable = is_incomparable;
        }
        let facts = CauseFacts {
            results,
            judgement,
            populations: &populations,
            failures: results.failures(),
            roster,
        };
        let (unclear, explanations): (Vec<_>, Vec<_>) =
            explained.explanations.iter().partition(|part| waited_for_cpus(part, results));
        let mut causes: Vec<Cause> =
            explanations.into_iter().map(|one| cause(one, &facts)).collect();
        add_signs(&mut causes, &facts);
        causes.sort_by_key(severity);
        let units: Vec<Unit> = causes.iter().map(|cause| cause.unit).collect();
        let outliers = judgement.outliers(&units, roster);
        let mut untested = self.coverage.unmeasured.untested(roster);
        let unpaired = self.take_unmeasured(&mut untested);
        self.add_unjudged(judgement, &causes, &mut untested);
        let tests = |part: &PartExplanation| -> BTreeSet<TestId> {
            part.pairs.iter().map(|one| one.test).collect()
        };
        untested.extend(unclear.into_iter().map(|part| UntestedPart {
            tests: tests(part).into_iter().collect(),
            ..UntestedPart::new(part.unit, Untested::BusyCpus)
        }));
        Findings {
            causes,
            untested,
            unpaired,
            populations,
            outliers,
            aggregates: results.aggregates(outside, roster),
            outside: results.results(outside, MOST_OUTSIDE),
            matrices: if self.keeps_figures { results.matrices() } else { Vec::new() },
            planned: self.coverage.planned,
            answered: self.coverage.answered,
            widened: self.is_wide,
        }
    }

    /// Adds the NICs to `untested` that were measured, but not judged in some tests: they have too
    /// few answers, or figures that say nothing. A NIC is good only in the other tests.
    fn add_unjudged(
        &self,
        judgement: &Judgement,
        causes: &[Cause],
        untested: &mut Vec<UntestedPart>,
    ) {
        let cause_nics = causes.iter().flat_map(|cause| members(cause.unit, self.roster));
        let untested_nics = untested.iter().filter_map(|part| match part.unit {
            Unit::Nic(nic) => Some(nic),
            _ => None,
        });
        let named: BTreeSet<NicId> = cause_nics.chain(untested_nics).collect();
        let mut unjudged: BTreeMap<(NicId, Untested), BTreeSet<TestId>> = BTreeMap::new();
        for test in TestId::first(self.results.tests().len()) {
            let reasons = judgement.unjudged(self.results, test, self.roster);
            let mut reasons: BTreeMap<NicId, Untested> = reasons.into_iter().collect();
            for nic in self.roster.nic_ids().filter(|nic| self.results.answers(*nic) > 0) {
                let too_few = self.coverage.unmeasured.missing.why_too_few(test, nic, self.results);
                reasons.extend(too_few.map(|reason| (nic, reason.into())));
            }
            for (nic, reason) in reasons {
                unjudged.entry((nic, reason)).or_default().insert(test);
            }
        }
        unjudged.retain(|(nic, _), _| !named.contains(nic));
        untested.extend(unjudged.into_iter().map(|((nic, reason), tests)| UntestedPart {
            tests: tests.into_iter().collect(),
            is_coarse: reason == Untested::TooCoarse,
            ..UntestedPart::new(Unit::Nic(nic), reason)
        }));
    }

    /// Adds the NICs without an answer to `untested`. Returns those that were not to be measured.
    fn take_unmeasured(&self, untested: &mut Vec<UntestedPart>) -> Vec<NicId> {
        let mut path_nics = BTreeSet::new();
        let mut named = BTreeSet::new();
        for part in &*untested {
            match part.unit {
                Unit::Path(pair) => path_nics.extend(pair.nics()),
                Unit::Nic(nic) => drop(named.insert(nic)),
                _ => {}
            }
        }
        let mut unpaired = Vec::new();
        for nic in self.roster.nic_ids() {
            let is_absent = self.roster.node_of(nic).absent.is_some();
            if named.contains(&nic) || is_absent || self.results.answers(nic) > 0 {
                continue;
            }
            let reason = if path_nics.contains(&nic) {
                "none of its pairs was measured"
            } else if self.is_of_all_nics {
                "it is in no pair"
            } else {
                unpaired.push(nic);
                continue;
            };
            untested.push(UntestedPart::new(Unit::Nic(nic), reason));
        }
        unpaired
    }
}

/// Returns a key by which causes are sorted, the worst first.
fn severity(cause: &Cause) -> Reverse<(Certainty, bool, u32)> {
    let pairs = match cause.unit {
        Unit::Path(_) => 1,
        _ => cause.evidence.iter().map(|one| one.outside).sum(),
    };
    let mut evidence = cause.evidence.iter();
    let has_failed = evidence.any(|one| one.source == LimitSource::Failure);
    Reverse((cause.certainty, has_failed, pairs))
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Pair, PairResult};
    use super::super::conductor::Conductor;
    use super::super::findings::{Findings, Unit};
    use super::super::ids::NicId;
    use super::super::settings::Settings;
    use super::super::testing::{Cluster, settings};
    use facts::expect::{self, Expectation};

    /// Returns the findings of a survey of a group of two switches, the second of which has one
    /// NIC. `answers` says whether a pair has an answer. An expectation judges classes of any size.
    fn findings(pairs: &str, answers: fn(Pair) -> bool) -> Findings {
        let expected = vec![expect::parse("p50<1ms", false).unwrap()];
        findings_with(expected, pairs, answers)
    }

    fn findings_with(
        expectations: Vec<Vec<Expectation>>,
        pairs: &str,
        answers: fn(Pair) -> bool,
    ) -> Findings {
        let mut cluster = Cluster::new([1, 2, 3, 1], &["write-lat"], 1);
        for nic in &mut cluster.roster.nics[3..5] {
            nic.location = None;
        }
        let settings = Settings { expectations, ..settings(pairs, 1) };
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
                    conductor.add(&PairResult { answer, ..result });
                }
            }
        }
        conductor.findings()
    }

    /// Returns the NICs that were not measured, with the reasons.
    fn untested(findings: &Findings) -> Vec<(NicId, &str)> {
        let parts = findings.untested.iter();
        let nic_pairs = parts.filter_map(|part| match part.unit {
            Unit::Nic(nic) => Some((nic, part.reason.as_str())),
            _ => None,
        });
        nic_pairs.collect()
    }

    #[test]
    fn reports_nic_in_no_pair_as_untested() {
        let findings = findings("within-switch", |_| true);
        assert_eq!(findings.planned, 3);
        let alone = [3, 4, 5].map(|nic| (NicId(nic), "it is in no pair"));
        assert_eq!(untested(&findings), alone);
        assert!(findings.unpaired.is_empty());
    }

    #[test]
    fn reports_other_nics_of_a_sample_as_unpaired() {
        let findings = findings("switches", |_| true);
        assert_eq!(findings.planned, 1);
        assert_eq!(untested(&findings), []);
        assert_eq!(findings.unpaired.len(), 4);
    }

    #[test]
    fn reports_nic_without_any_answer_as_untested() {
        let findings =
            findings("all", |pair| pair.initiator != NicId(2) && pair.target != NicId(2));
        assert_eq!(untested(&findings), [(NicId(2), "none of its pairs was measured")]);
    }

    #[test]
    fn reports_nics_without_a_judged_class_as_untested() {
        // Three pairs on a switch, and nothing to compare them with.
        let one_switch_findings = findings_with(Vec::new(), "within-switch", |_| true);
        let too_few = "too few pairs to compare";
        let parts = untested(&one_switch_findings);
        assert_eq!(&parts[3..], [0, 1, 2].map(|nic| (NicId(nic), too_few)));
        // The pairs between the switches are enough to judge each NIC.
        let both_findings = findings_with(Vec::new(), "all", |_| true);
        assert_eq!(untested(&both_findings), []);
    }

    #[test]
    fn reports_nic_with_too_few_answers_as_untested() {
        // NIC 2 has the answer of one pair.
        let findings = findings("all", |pair| match pair.nics().map(|nic| nic.0) {
            [2, other] | [other, 2] => other == 1,
            _ => true,
        });
        let too_few = (NicId(2), "1 of 5 pairs measured");
        assert_eq!(untested(&findings), [too_few]);
    }
}
