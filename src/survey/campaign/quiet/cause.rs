//! The causes in the findings of a survey, made from explanations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::answer::{CounterEvidence, TestPair};
use super::findings::{
    Cause, Certainty, Direction, Evidence, LimitSource, Population, Statistic, Unit,
};
use super::ids::{NicId, PopulationKey, Role};
use super::observation::figure;
use super::outside::Outside;
use super::population::Sorted;
use super::result_store::ResultStore;
use super::roster::{Roster, crossing, members};
use super::search::PartExplanation;
use super::signs::{PartSigns, signs};
use super::slow_parts::Judgement;

/// The facts from which causes are made.
#[derive(Debug)]
pub struct CauseFacts<'a> {
    pub results: &'a ResultStore,
    /// The limits and the slow parts.
    pub judgement: &'a Judgement,
    /// The figures by test and class.
    pub populations: &'a [Population],
    /// The messages of failed pairs.
    pub failures: HashMap<TestPair, &'a str>,
    /// The nodes and NICs.
    pub roster: &'a Roster,
}

impl CauseFacts<'_> {
    /// Returns the most frequent message of the failed pairs among `pairs`.
    fn failure(&self, pairs: &[&Outside]) -> Option<String> {
        let mut messages: BTreeMap<&str, usize> = BTreeMap::new();
        for one in pairs {
            if let Some(message) = self.failures.get(&(one.test, one.pair)) {
                *messages.entry(message).or_default() += 1;
            }
        }
        let frequent = messages.into_iter().max_by_key(|(_, count)| *count);
        frequent.map(|(message, _)| message.to_owned())
    }
}

/// Returns the cause that an explanation stands for.
pub fn cause(explanation: &PartExplanation, facts: &CauseFacts<'_>) -> Cause {
    let mut populations: BTreeMap<PopulationKey, Vec<&Outside>> = BTreeMap::new();
    for one in &explanation.pairs {
        let pairs = populations.entry((one.test, one.class)).or_default();
        pairs.push(one);
    }
    let nics: BTreeSet<NicId> = match explanation.unit {
        Unit::Path(pair) => pair.nics().into(),
        unit => members(unit, facts.roster).into_iter().collect(),
    };
    let mut evidence: Vec<Evidence> = populations
        .into_iter()
        .map(|(key, pairs)| evidence_of(explanation, key, &pairs, facts, &nics))
        .collect();
    evidence.sort_by_key(|one| Reverse(one.outside));
    Cause {
        unit: explanation.unit,
        certainty: explanation.certainty,
        direction: explanation.direction,
        evidence,
        counters: counters(&nics, facts),
    }
}

/// Fewest pairs in which a counter shows that a part is bad, if they are most of its pairs: each
/// pair is a measurement at another time.
const CONFIRMED: u32 = 8;

/// Adds what counters and tails say to the causes. A part with such a sign is suspect at least; it
/// also explains the paths that end at it and are not bad.
pub fn add_signs(causes: &mut Vec<Cause>, facts: &CauseFacts<'_>) {
    for sign in signs(facts.results, facts.roster) {
        let nics = members(sign.unit, facts.roster);
        let is_named = |cause: &Cause| {
            let cause_nics = members(cause.unit, facts.roster);
            let has_all = !nics.is_empty() && nics.iter().all(|nic| cause_nics.contains(nic));
            cause.certainty != Certainty::Transient && (cause.unit == sign.unit || has_all)
        };
        if causes.iter().any(is_named) {
            continue;
        }
        causes.retain(|cause| match cause.unit {
            Unit::Path(pair) => {
                cause.certainty == Certainty::Bad
                    || !pair.nics().iter().any(|nic| nics.contains(nic))
            }
            unit => unit != sign.unit,
        });
        let evidence = evidence_of_sign(&sign, &nics, facts);
        causes.push(Cause {
            unit: sign.unit,
            certainty: certainty_of_sign(sign.source, &evidence),
            direction: Direction::of(sign.role.filter(|_| sign.source == LimitSource::Tail)),
            evidence,
            counters: counters(&nics.into_iter().collect(), facts),
        });
    }
}

/// Returns how sure a sign is. Long tails may come from the host.
fn certainty_of_sign(source: LimitSource, evidence: &[Evidence]) -> Certainty {
    let outside: u32 = evidence.iter().map(|one| one.outside).sum();
    let measured: u32 = evidence.iter().map(|one| one.measured).sum();
    if source != LimitSource::Tail && outside >= CONFIRMED && 2 * outside > measured {
        Certainty::Bad
    } else {
        Certainty::Suspect
    }
}

/// Returns what the pairs of each population with a sign say about its part, which has these NICs.
fn evidence_of_sign(sign: &PartSigns, nics: &[NicId], facts: &CauseFacts<'_>) -> Vec<Evidence> {
    let mut outside: BTreeMap<PopulationKey, u32> = BTreeMap::new();
    for (test, pair) in &sign.pairs {
        *outside.entry((*test, facts.roster.class(*pair))).or_default() += 1;
    }
    let evidence = outside.into_iter().map(|((test, class), outside)| {
        let measured = nics.iter().map(|nic| {
            let counts = facts.results.counts(test, *nic);
            match sign.role {
                Some(role) => counts[(role, class)],
                None => counts.pairs_in_class(class),
            }
        });
        let measured = match sign.unit {
            Unit::GroupPair(..) => facts.results.crossings(test, sign.unit) as u32,
            _ => measured.sum(),
        };
        Evidence {
            test,
            class,
            figure: Statistic::default(),
            outside,
            measured: measured.max(outside),
            value: None,
            median: None,
            limit: None,
            source: sign.source,
            retries: None,
            usual_retries: None,
            failure: None,
        }
    });
    let mut evidence: Vec<Evidence> = evidence.collect();
    evidence.sort_by_key(|one| Reverse(one.outside));
    evidence
}

/// Returns the counters of these NICs that changed, summed up over all pairs.
fn counters(nics: &BTreeSet<NicId>, facts: &CauseFacts<'_>) -> Vec<CounterEvidence> {
    let nic_counters = nics.iter().flat_map(|nic| {
        let nic_range = (*nic, String::new())..(NicId(nic.0 + 1), String::new());
        facts.results.counters.range(nic_range)
    });
    let evidence = nic_counters.map(|((nic, counter), change)| CounterEvidence {
        nic: *nic,
        counter: counter.clone(),
        change: *change,
    });
    evidence.collect()
}

/// Returns what the pairs of a population say about a part with these NICs.
fn evidence_of(
    explanation: &PartExplanation,
    (test, class): PopulationKey,
    pairs: &[&Outside],
    facts: &CauseFacts<'_>,
    nics: &BTreeSet<NicId>,
) -> Evidence {
    let is_bandwidth = facts.results.tests()[test.index()].of_bandwidth;
    let limit = facts.judgement.limits.get(&(test, class));
    let centre = limit.filter(|limit| limit.has_costs());
    let mut populations = facts.populations.iter();
    let population =
        populations.find(|population| (population.test, population.class) == (test, class));
    let source = strongest_source(pairs);
    let values: Vec<(f64, u64)> = pairs.iter().filter_map(|one| Some((one.value?, 1))).collect();
    let resending = pairs.iter().filter(|one| one.source == LimitSource::Retries);
    let retries = Sorted::of(resending.map(|one| (one.retries as f64, 1)).collect());
    let is_about_retries = source == LimitSource::Retries;
    let (outside, measured) = counts(explanation, (test, class), pairs, facts, nics);
    Evidence {
        test,
        class,
        figure: limit.map(|limit| limit.statistic).unwrap_or_default(),
        outside,
        measured: measured.max(outside),
        value: (!values.is_empty()).then(|| Sorted::of(values).median()),
        median: match centre {
            Some(limit) => Some(figure(limit.centre, is_bandwidth)),
            None => population.map(Population::median),
        },
        limit: match source {
            LimitSource::Population => centre.map(|limit| {
                let part_value = match explanation.unit {
                    Unit::Path(_) => limit.pair_limit,
                    _ => limit.ratio,
                };
                figure(limit.centre + part_value, is_bandwidth)
            }),
            LimitSource::Expect => facts.results.expected(test),
            LimitSource::Retries
            | LimitSource::Failure
            | LimitSource::LinkErrors
            | LimitSource::Losses
            | LimitSource::Tail => None,
        },
        source,
        retries: is_about_retries.then(|| retries.median()),
        usual_retries: limit.filter(|_| is_about_retries).map(|limit| limit.usual_retries),
        failure: facts.failure(pairs),
    }
}

/// Returns which limit the pairs do not meet. Ties: the limit that says most.
fn strongest_source(pairs: &[&Outside]) -> LimitSource {
    let sources = [LimitSource::Failure, LimitSource::Expect, LimitSource::Retries];
    let mut sources = sources.into_iter();
    sources
        .find(|source| pairs.iter().any(|one| one.source == *source))
        .unwrap_or(LimitSource::Population)
}

/// Returns the numbers of pairs outside the limits and of measured pairs. A path has the numbers of
/// its measurements, with retests.
fn counts(
    explanation: &PartExplanation,
    (test, class): PopulationKey,
    pairs: &[&Outside],
    facts: &CauseFacts<'_>,
    nics: &BTreeSet<NicId>,
) -> (u32, u32) {
    let results = facts.results;
    let outside = pairs.len() as u32;
    match explanation.unit {
        Unit::Path(_) => {
            let (mut outside, mut measured) = (outside, outside);
            for one in pairs {
                let (failures, passes) =
                    results.retested((test, one.pair), facts.judgement, facts.roster);
                outside += failures as u32;
                measured += (failures + passes) as u32;
            }
            (outside, measured)
        }
        unit if explanation.direction != Direction::Both && matches!(unit, Unit::GroupPair(..)) => {
            let role = match explanation.direction {
                Direction::Initiator => Role::Initiator,
                _ => Role::Target,
            };
            let is_own = |pair| crossing(facts.roster, pair) == Some((unit, role));
            (outside, facts.judgement.measured((test, class), is_own))
        }
        unit @ Unit::Switch { .. } if facts.judgement.has_links(test, unit) => {
            let is_own = |pair| facts.judgement.is_covered_by(test, pair, unit, facts.roster);
            (outside, facts.judgement.measured((test, class), is_own))
        }
        unit @ Unit::GroupPair(..) => {
            let failed = pairs.iter().filter(|one| one.value.is_none()).count();
            let with_figures = results.crossings(test, unit) as u32;
            (outside, with_figures.saturating_add(failed as u32))
        }
        _ => {
            let measured = nics.iter().map(|nic| {
                let counts = results.counts(test, *nic);
                match explanation.direction {
                    Direction::Initiator => counts[(Role::Initiator, class)],
                    Direction::Target => counts[(Role::Target, class)],
                    Direction::Both => counts.pairs_in_class(class),
                }
            });
            (outside, measured.sum())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiet::ids::TestId;
    use crew::location::Class;

    #[test]
    fn counters_confirm_in_most_of_enough_pairs() {
        let certainty = |source, outside, measured| {
            let evidence = Evidence {
                test: TestId(0),
                class: Class::Fabric,
                outside,
                measured,
                figure: Statistic::default(),
                value: None,
                median: None,
                limit: None,
                source,
                retries: None,
                usual_retries: None,
                failure: None,
            };
            certainty_of_sign(source, &[evidence])
        };
        for (source, outside, measured, expected) in [
            (LimitSource::LinkErrors, 8, 15, Certainty::Bad),
            (LimitSource::Losses, 8, 15, Certainty::Bad),
            (LimitSource::Losses, 8, 16, Certainty::Suspect),
            (LimitSource::Losses, 7, 7, Certainty::Suspect),
            (LimitSource::Tail, 20, 20, Certainty::Suspect),
        ] {
            assert_eq!(certainty(source, outside, measured), expected, "{source:?} {outside}");
        }
    }
}
