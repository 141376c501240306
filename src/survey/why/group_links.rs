//! Slow links between two groups: ordered flows show whether some of several parallel links are
//! slow (diagnosis.md 4.3).

use super::culprits::{GroupLinks, LOOK_AT_SWITCHES, left_out};
use super::explanation::Explanation;
use super::investigation::{Investigation, UNTESTED};
use super::links::{Crossings, directions};
use super::slots::Found;
use crate::causes::assessment::Case;
use crate::causes::evaluation::evaluate;
use crate::causes::procedure::TestCode;
use crate::causes::why::Confidence;
use campaign::quiet::findings::{Cause, Findings};
use campaign::quiet::roster::Roster;
use campaign::quiet::states::State;
use facts::error::Failure;
use health::item::Readings;

/// Returns the pairs of NICs across the links of two groups and others, in each direction that is
/// slow.
pub fn crossings(
    links: &GroupLinks,
    roster: &Roster,
    verdict: &Findings,
    states: &[State],
) -> Vec<Crossings> {
    let directions = directions(links.groups, links.cause.direction).into_iter();
    let crossings = directions.map(|groups| Crossings::of(roster, verdict, states, groups));
    crossings.flatten().collect()
}

/// Measures across links, in one direction after the other until one explains them.
pub fn explanation(
    cause: &Cause,
    directions: &[Crossings],
    investigation: &mut Investigation,
) -> Result<Explanation, Failure> {
    let Some(evidence) = cause.evidence.first() else {
        return Ok(left_out(cause, LOOK_AT_SWITCHES));
    };
    let mut best: Option<Explanation> = None;
    for crossings in directions {
        let found = investigation.measure_links(crossings, evidence.test)?;
        let one = evaluated(cause, crossings, &found);
        let confidence = |explanation: &Explanation| explanation.causes[0].confidence;
        let is_final = confidence(&one) <= Confidence::Probably;
        // A direction that is not slow now says less than one that is.
        let is_open = |explanation: &Explanation| {
            matches!(confidence(explanation), Confidence::Transient | Confidence::NotMeasured)
        };
        if is_final || best.as_ref().is_none_or(is_open) {
            best = Some(one);
        }
        if is_final {
            break;
        }
    }
    Ok(best.unwrap_or_else(|| left_out(cause, LOOK_AT_SWITCHES)))
}

/// Returns what the measurements of one direction say.
fn evaluated(cause: &Cause, crossings: &Crossings, found: &Found) -> Explanation {
    let [own, others] = found.flows();
    let mut measured = found.measured.clone();
    if own.is_none() {
        // Flows that say nothing about links permit no cause either.
        measured.remove(&TestCode::O);
    }
    let own: Readings = own.into_iter().chain(found.counters()).collect();
    let others: Vec<Readings> = others.map(|reading| vec![reading]).into_iter().collect();
    let diagnosis = evaluate(Case {
        own: &own,
        others: &others,
        measured: &measured,
        fails: false,
        has_good_controls: crossings.are_good,
    });
    let doubt = (!crossings.are_good).then(|| UNTESTED.to_owned());
    let notes: Vec<String> = found.left_out().into_iter().chain(doubt).collect();
    let (first, beside) = crossings.first();
    Explanation {
        nic: Some(first),
        controls: beside,
        causes: diagnosis.whys,
        excluded: diagnosis.excluded,
        not_excluded: diagnosis.not_excluded,
        left_out: (!notes.is_empty()).then(|| notes.join("; ")),
        ..Explanation::new(cause.unit)
    }
}
