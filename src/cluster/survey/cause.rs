//! The causes in the findings of a survey, made from explanations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::answer::CounterEvidence;
use super::findings::{self, Cause, Direction, LimitSource, Population, Unit};
use super::ids::{NicId, PopulationKey, Role, TestId};
use super::limits::Limits;
use super::outside::Outside;
use super::population::Sorted;
use super::result_store::{ResultStore, TestPair};
use super::roster::Roster;
use super::search::Explanation;
use super::summary::value_at;
use super::units::members;
use crate::location::Class;

/// The facts from which causes are made.
#[derive(Debug)]
pub struct CauseFacts<'a> {
    /// The results.
    pub results: &'a ResultStore,
    /// The limits.
    pub limits: &'a Limits,
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
pub fn cause(explanation: &Explanation, facts: &CauseFacts<'_>) -> Cause {
    let mut cells: BTreeMap<PopulationKey, Vec<&Outside>> = BTreeMap::new();
    for one in &explanation.pairs {
        cells.entry((one.test, one.class)).or_default().push(one);
    }
    let nics: BTreeSet<NicId> = match explanation.unit {
        Unit::Path(pair) => pair.nics().into(),
        unit => members(unit, facts.roster).into_iter().collect(),
    };
    let mut of_cells: Vec<_> = cells
        .into_iter()
        .map(|((test, class), pairs)| evidence_of(explanation, test, class, &pairs, facts, &nics))
        .collect();
    of_cells.sort_by_key(|one| Reverse(one.outside));
    let counters = nics.iter().flat_map(|nic| {
        let of_nic = (*nic, String::new())..(NicId(nic.0 + 1), String::new());
        facts.results.counters().range(of_nic)
    });
    Cause {
        unit: explanation.unit,
        certainty: explanation.certainty(),
        direction: explanation.direction,
        evidence: of_cells,
        counters: counters
            .map(|((nic, counter), change)| CounterEvidence {
                nic: *nic,
                counter: counter.clone(),
                change: *change,
            })
            .collect(),
    }
}

fn evidence_of(
    explanation: &Explanation,
    test: TestId,
    class: Class,
    pairs: &[&Outside],
    facts: &CauseFacts<'_>,
    nics: &BTreeSet<NicId>,
) -> findings::Evidence {
    let results = facts.results;
    let of_bandwidth = results.tests()[test.index()].of_bandwidth;
    let limit = facts.limits.get(&(test, class));
    let of_class = |of: &&Population| (of.test, of.class) == (test, class);
    let population = facts.populations.iter().find(of_class);
    let values: Vec<(f64, u64)> = pairs
        .iter()
        .filter_map(|one| Some((one.value?, 1)))
        .collect();
    let has = |source| pairs.iter().any(|one| one.source == source);
    let source = [
        LimitSource::Failure,
        LimitSource::Expect,
        LimitSource::Retries,
        LimitSource::Population,
    ]
    .into_iter()
    .find(|source| has(*source));
    let source = source.unwrap_or(LimitSource::Population);
    let resending = pairs
        .iter()
        .filter(|one| one.source == LimitSource::Retries);
    let retries = Sorted::of(resending.map(|one| (one.retries as f64, 1)).collect());
    let of_retries = |number| (source == LimitSource::Retries).then_some(number);
    let failed = pairs.iter().filter(|one| one.value.is_none()).count();
    let mut outside = pairs.len();
    let measured: u32 = match explanation.unit {
        Unit::Path(_) => {
            let mut measured = pairs.len();
            for one in pairs {
                let (failures, passes) = results.retested((test, one.pair), class, facts.limits);
                outside += failures;
                measured += failures + passes;
            }
            measured as u32
        }
        unit @ Unit::GroupPair(..) => {
            (results.crossings(test, unit) as u32).saturating_add(failed as u32)
        }
        _ => nics
            .iter()
            .map(|nic| {
                let counts = results.counts(test, *nic);
                match explanation.direction {
                    Direction::Initiator => counts[(Role::Initiator, class)],
                    Direction::Target => counts[(Role::Target, class)],
                    Direction::Both => counts.of_class(class),
                }
            })
            .sum(),
    };
    findings::Evidence {
        test,
        class,
        outside: outside as u32,
        measured: measured.max(outside as u32),
        value: (!values.is_empty()).then(|| Sorted::of(values).median()),
        median: population.map(Population::median),
        limit: match source {
            LimitSource::Population => limit.map(|limit| value_at(limit.cost, of_bandwidth)),
            LimitSource::Expect => results.expected(test),
            LimitSource::Retries | LimitSource::Failure => None,
        },
        source,
        retries: of_retries(retries.median()),
        usual_retries: limit.and_then(|limit| of_retries(limit.usual_retries)),
        failure: facts.failure(pairs),
    }
}
