//! The first line of the text: the conclusion of a survey.

use std::collections::HashSet;

use super::load_verdict::units;
use super::mixed::{is_incomparable, is_mixed};
use super::nics::all_states;
use super::{Conclusion, Scope, Survey, load_words, words};
use cluster::survey::findings::{Certainty, Findings};
use cluster::survey::ids::NodeId;
use cluster::survey::roster::{NO_NIC, Node};
use cluster::survey::states::State;

/// Returns the first line, which fits into 80 columns except for a failure.
pub fn summary(survey: &Survey) -> String {
    let verdict = &survey.verdict;
    let pairs = pairs(verdict);
    let bad = joined([counts(verdict, Certainty::Bad), under_load(survey, Certainty::Bad, "")]);
    let suspect = counts(verdict, Certainty::Suspect);
    let suspect = joined([
        if suspect.is_empty() { suspect } else { format!("{suspect} suspect") },
        under_load(survey, Certainty::Suspect, "suspect "),
    ]);
    match survey.conclusion {
        Conclusion::Good => {
            let all = words::counted(survey.roster.nics.len() as u64, "NIC");
            let nics = match verdict.unpaired.len() {
                0 => all,
                unpaired => {
                    let measured = (survey.roster.nics.len() - unpaired) as u64;
                    format!("{} of {all}", words::grouped(measured))
                }
            };
            let scope = match survey.scope {
                Scope::Both => "",
                Scope::Latency => " (latency only)",
                Scope::Bandwidth => " (bandwidth only)",
            };
            format!("good{scope}: {nics}, {pairs} measured")
        }
        Conclusion::Bad => format!("bad: {bad}; {}", nics(survey)),
        Conclusion::Undecided => format!("undecided: {}", undecided(survey, &suspect, &pairs)),
        Conclusion::Interrupted => {
            format!("interrupted: {pairs} measured; {}", so_far(&bad, &suspect))
        }
        Conclusion::Failed => {
            let why = survey.error.as_ref().map_or("failed", |problem| &problem.message);
            format!("failed: {why}; {pairs} measured; {}", so_far(&bad, &suspect))
        }
    }
}

/// Returns why a survey of these `pairs` is undecided, and what was measured.
fn undecided(survey: &Survey, suspect: &str, pairs: &str) -> String {
    let populations = &survey.verdict.populations;
    if !suspect.is_empty() {
        return format!("{suspect}; {}", nics(survey));
    }
    if populations.iter().any(|population| population.biased) {
        return format!("the missing pairs of a class are unevenly spread; {pairs} measured");
    }
    if is_mixed(&survey.verdict) {
        return format!("the pairs of a class differ too much; {pairs} measured");
    }
    if let Some(population) = populations.iter().find(|population| is_incomparable(population)) {
        let class = population.class.name();
        return format!("class {class} unjudged (--expect judges it); {pairs} measured");
    }
    if let Some(load) = &survey.load {
        if load.unjudged.is_some() {
            return format!("the fabric was busy, no verdict under load; {pairs} measured");
        }
        if !load.unmeasured.is_empty() {
            return format!(
                "most measurements of a part of the load do not count; {pairs} measured"
            );
        }
        if let Some(name) = load.bad_pattern() {
            return format!("{name} is bad, retests do not confirm it; {}", nics(survey));
        }
        if let Some(links) = load.bad_links().first() {
            let links = load_words::name(&survey.roster, links);
            return format!("{links} slow under each pattern; {}", nics(survey));
        }
    }
    format!("{pairs} measured; {}", nics(survey))
}

/// Returns the parts that are outside the limits under load alone: the name of one, or how many
/// there are of each kind. Empty without any.
fn under_load(survey: &Survey, certainty: Certainty, state: &str) -> String {
    let units = units(survey.load.as_ref(), certainty);
    let names = match units.as_slice() {
        [] => return String::new(),
        [unit] => load_words::name(&survey.roster, unit),
        units => counted_kinds(units.iter().map(load_words::kind)),
    };
    format!("{names} {state}under load")
}

/// Returns texts with semicolons between them, without empty ones.
fn joined(texts: [String; 2]) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("; ")
}

/// Returns what is bad in an incomplete survey, and what is suspect if nothing is.
fn so_far(bad: &str, suspect: &str) -> String {
    if !bad.is_empty() {
        format!("bad so far: {bad}")
    } else if !suspect.is_empty() {
        format!("so far: {suspect}")
    } else {
        "nothing bad so far".into()
    }
}

/// Returns the number of measured pairs.
pub fn pairs(verdict: &Findings) -> String {
    let Findings { answered, planned, .. } = *verdict;
    if answered == planned {
        words::counted(planned, "pair")
    } else {
        let all = words::counted(planned, "pair");
        format!("{} of {all}", words::grouped(answered))
    }
}

/// Returns the number of parts of each kind with this certainty: `1 NIC, 2 switches`.
fn counts(verdict: &Findings, certainty: Certainty) -> String {
    let causes = verdict.causes.iter().filter(|cause| cause.certainty == certainty);
    counted_kinds(causes.map(|cause| words::kind(&cause.unit)))
}

/// Returns how many parts of each kind there are.
fn counted_kinds<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut kinds: Vec<(&str, u64)> = Vec::new();
    for kind in all {
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let texts = kinds.iter().map(|(kind, count)| words::counted(*count, kind));
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns how many NICs are good, suspect and untested, and how many nodes have no NIC because
/// they are absent.
fn nics(survey: &Survey) -> String {
    let states = all_states(survey);
    let count = |state| states.iter().filter(|candidate| **candidate == state).count() as u64;
    let all = words::counted(states.len() as u64, "NIC");
    let is_one = states.len() == 1 || count(State::Good) == 1;
    let are = if is_one { "is" } else { "are" };
    let mut text = format!("{} of {all} {are} good", words::grouped(count(State::Good)));
    let others = [
        ("suspect", State::Suspect),
        ("untested", State::Untested),
        ("in no pair", State::Unpaired),
    ];
    for (name, state) in others {
        if count(state) > 0 {
            text += &format!(", {} {name}", words::grouped(count(state)));
        }
    }
    let roster = &survey.roster;
    let with_nics: HashSet<NodeId> = roster.nics.iter().map(|nic| nic.node).collect();
    let nodes = roster.node_ids().zip(&roster.nodes);
    let absent = nodes.filter(|(at, node)| node.absent.is_some() && !with_nics.contains(at));
    let has_joined = |node: &Node| node.absent.as_deref() == Some(NO_NIC);
    let (without, absent): (Vec<&Node>, Vec<&Node>) =
        absent.map(|(_, node)| node).partition(|node| has_joined(node));
    for (nodes, what) in [(absent, "absent"), (without, "without a NIC")] {
        if !nodes.is_empty() {
            text += &format!(", {} {what}", words::counted(nodes.len() as u64, "node"));
        }
    }
    text
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
