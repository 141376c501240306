//! The first line of the text: the conclusion of a survey.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::distribution::{is_incomparable, is_mixed};
use super::load_words::units;
use super::nics::all_states;
use super::{Conclusion, Scope, Survey, load_words, words};
use campaign::quiet::findings::{
    Cause, Certainty, Findings, LimitSource, Population, State, Test, members,
};
use campaign::quiet::roster::{NicId, TestId, Unit};
use facts::number::listed;
use page::table::WIDTH;

/// Largest operation whose data the command carries, so that the NIC does not read memory
/// (nic.md 3.2).
const MOST_SMALL: u64 = 192;

/// Most parts that the first line names.
const MOST_NAMES: usize = 3;

/// Most words of a reason in the first line.
const MOST_WORDS: usize = 12;

/// The first line: the verdict, the names of the parts that it is about, what was not judged and
/// why, and how many NICs are good.
pub fn summary(survey: &Survey) -> String {
    let verdict = &survey.verdict;
    let pairs = pairs(verdict);
    let named = |certainty, most| {
        joined([causes(survey, certainty, most), under_load(survey, certainty, most)])
    };
    let bad = |most| named(Certainty::Bad, most);
    let suspect = |most| named(Certainty::Suspect, most);
    let so_far = || match [bad(MOST_NAMES), suspect(MOST_NAMES)] {
        [bad, _] if !bad.is_empty() => format!("bad so far: {bad}"),
        [_, suspect] if !suspect.is_empty() => format!("so far: {suspect}"),
        _ => "nothing bad so far".into(),
    };
    let concluded = |word: &str, named: &dyn Fn(usize) -> String, mut others: Vec<String>| {
        let line = |most| format!("{word}: {}", named(most));
        let fits = |most: &usize| line(*most).len() <= WIDTH;
        let line = line((1..=MOST_NAMES).rev().find(fits).unwrap_or(1));
        if named(1).is_empty() && !others.is_empty() {
            let first = format!("{word}: {}", others.remove(0));
            return fitted(first, others);
        }
        fitted(line, others)
    };
    match survey.conclusion {
        Conclusion::Good => format!("good: {}{}", good(survey), shortfall(survey)),
        Conclusion::Bad => {
            let others = [unjudged(survey), unmeasured(survey), vec![nics(survey)]].concat();
            concluded("bad", &bad, others)
        }
        Conclusion::Undecided => concluded("undecided", &suspect, undecided(survey, &pairs)),
        Conclusion::Interrupted => format!("interrupted: {pairs} measured; {}", so_far()),
        Conclusion::Failed => {
            let why = survey.error.as_ref().map_or("failed", |problem| &problem.message);
            format!("failed: {why}; {pairs} measured; {}", so_far())
        }
    }
}

/// A line of [`WIDTH`] columns with the parts that fit into it, without their reasons if only these
/// are too long. The text below it has the others.
fn fitted(mut line: String, parts: Vec<String>) -> String {
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let short = part.split_once(": ").map_or(part.as_str(), |(short, _)| short);
        let mut forms = [part, short].into_iter();
        if let Some(part) = forms.find(|part| line.len() + 2 + part.len() <= WIDTH) {
            line = format!("{line}; {part}");
        }
    }
    line
}

/// Returns how far all pairs stay below published figures, which no width cuts off.
fn shortfall(survey: &Survey) -> String {
    survey.shortfall.as_ref().map_or(String::new(), |found| {
        let test = words::test(&survey.setup.tests[found.test.index()]);
        format!("; {test} at {:.2} of what {} expects", found.share, found.profile)
    })
}

/// Returns how many NICs are good in which figures, and what was not measured.
fn good(survey: &Survey) -> String {
    let (all, unpaired) = (survey.roster.nics.len(), survey.verdict.unpaired.len());
    let all_nics = words::counted(all as u64, "NIC");
    let nics = match unpaired {
        0 => all_nics,
        _ => format!("{} of {all_nics}", words::grouped((all - unpaired) as u64)),
    };
    let not_measured = match survey.scope {
        Scope::Both => "",
        Scope::Latency => "; bandwidth not measured",
        Scope::Bandwidth => "; latency not measured",
    };
    let figures = judged_within(survey);
    let pairs = match survey.verdict {
        Findings { answered, planned, .. } if answered == planned => String::new(),
        _ => format!("; {} measured", pairs(&survey.verdict)),
    };
    format!("{nics} ({figures}{not_measured}){pairs}")
}

/// The figures in which NICs are good, each with the ratio to good NICs up to which nothing would
/// have been found: `small writes within 1.30, bandwidth 1.08`.
fn judged_within(survey: &Survey) -> String {
    // The ratio of a kind, and whether the user has set limits for it.
    let mut kinds: Vec<(String, Option<f64>, bool)> = Vec::new();
    for (index, test) in survey.setup.tests.iter().enumerate() {
        let populations = survey.verdict.populations.iter();
        let own = || populations.clone().filter(|population| population.test.index() == index);
        let ratio = own().filter_map(|population| population.sensitivity).reduce(f64::max);
        let is_expected = own().any(|population| population.expected.is_some());
        let name = figures_name(test);
        match kinds.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, known, are_expected)) => {
                *known = known.zip(ratio).map(|(one, other)| one.max(other));
                *are_expected &= is_expected;
            }
            None => kinds.push((name, ratio, is_expected)),
        }
    }
    let mut is_first = true;
    let text = |(name, ratio, is_expected): (String, Option<f64>, bool)| match ratio {
        Some(ratio) => {
            let within = if std::mem::take(&mut is_first) { "within " } else { "" };
            format!("{name} {within}{ratio:.2}")
        }
        None if is_expected => format!("{name} as expected"),
        None => format!("no statement about {name}"),
    };
    kinds.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// The name of the figures of a test: `small writes`, `writes of 4K`, `bandwidth`.
fn figures_name(test: &Test) -> String {
    let operation = test.tool.split('-').next().unwrap_or_default();
    match test.of_bandwidth {
        true if operation == "write" => "bandwidth".into(),
        true => format!("{operation} bandwidth"),
        false if test.size_bytes <= MOST_SMALL => format!("small {operation}s"),
        false => format!("{operation}s of {}", words::size(test.size_bytes)),
    }
}

/// The reasons why a survey is undecided, the most important first, and what is good.
fn undecided(survey: &Survey, pairs: &str) -> Vec<String> {
    let mut reasons = unjudged(survey);
    let verdict = &survey.verdict;
    if reasons.is_empty() {
        let populations = || verdict.populations.iter();
        let biased = populations().find(|one| one.biased && one.expected.is_none());
        let mixed = populations().find(|one| is_mixed(one));
        let incomparable = populations().find(|one| is_incomparable(one));
        let reason = |population: &Population, why: &str| {
            format!("class {} not judged: {why}", population.class.name())
        };
        reasons.extend(biased.map(|one| reason(one, "the missing pairs are uneven")));
        reasons.extend(
            mixed.filter(|_| biased.is_none()).map(|one| reason(one, "the pairs differ too much")),
        );
        reasons.extend(incomparable.map(|one| reason(one, "nothing to compare it with")));
    }
    reasons.extend(unmeasured(survey));
    if let Some(load) = &survey.load {
        let links = load.bad_links();
        reasons.extend(if load.unjudged.is_some() {
            Some("load not judged: the fabric was busy".into())
        } else if let Some(pattern) = load.unmeasured.first() {
            Some(format!("{pattern} not judged: too few measurements count"))
        } else if let Some(name) = load.bad_pattern() {
            Some(format!("{name} is bad, retests do not confirm it"))
        } else {
            let links = links.first().map(|links| load_words::name(&survey.roster, links));
            links.map(|links| format!("{links} slow under each pattern"))
        });
    }
    if verdict.answered < verdict.planned || verdict.planned == 0 {
        reasons.push(format!("{pairs} measured"));
    }
    reasons.push(nics(survey));
    reasons
}

/// The figures that were not judged, with the NICs if they are not all, and why.
fn unjudged(survey: &Survey) -> Vec<String> {
    let mut groups: BTreeMap<(&[TestId], &str), Vec<NicId>> = BTreeMap::new();
    for part in survey.verdict.untested.iter().filter(|part| !part.tests.is_empty()) {
        if let Unit::Nic(nic) = part.unit {
            groups.entry((&part.tests, part.reason.as_str())).or_default().push(nic);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nics)| Reverse(nics.len()));
    let causes = || {
        let causes = survey.verdict.causes.iter();
        causes.filter(|one| one.certainty != Certainty::Transient)
    };
    let named: HashSet<NicId> =
        causes().flat_map(|cause| members(&survey.roster, &cause.unit)).collect();
    let text = |((tests, reason), nics): ((&[TestId], &str), Vec<NicId>)| {
        let mut figures = tests_name(survey, tests);
        if causes().flat_map(|cause| &cause.evidence).any(|one| tests.contains(&one.test)) {
            figures = format!("other {figures}");
        }
        let whose = if nics.len() + named.len() >= survey.roster.nics.len() {
            String::new()
        } else {
            match &nics[..] {
                [nic] => format!(" of {}", survey.roster.name(*nic)),
                nics => format!(" of {}", words::counted(nics.len() as u64, "NIC")),
            }
        };
        format!("{figures}{whose} not judged: {reason}")
    };
    groups.into_iter().map(text).collect()
}

/// The name of the figures of tests: `latencies` if they are all tests of latencies.
pub fn tests_name(survey: &Survey, tests: &[TestId]) -> String {
    let all = &survey.setup.tests;
    let kind = |is_bandwidth: bool, name: &str| {
        let has_kind = |index: &usize| all[*index].of_bandwidth == is_bandwidth;
        let own: Vec<usize> = tests.iter().map(|test| test.index()).filter(has_kind).collect();
        let names = own.iter().map(|index| words::test(&all[*index]));
        let has_all = own.len() == (0..all.len()).filter(has_kind).count();
        let names = if has_all { name.into() } else { names.collect::<Vec<_>>().join(", ") };
        (!own.is_empty()).then_some(names)
    };
    let kinds = [kind(false, "latencies"), kind(true, "bandwidths")];
    kinds.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The nodes and NICs that were not measured, by reason.
fn unmeasured(survey: &Survey) -> Vec<String> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for part in survey.verdict.untested.iter().filter(|part| part.tests.is_empty()) {
        if !matches!(part.unit, Unit::Path(_)) {
            let names = groups.entry(part.reason.as_str()).or_default();
            names.push(words::name(&survey.roster, &part.unit));
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, names)| Reverse(names.len()));
    let text = |(reason, names): (&str, Vec<String>)| {
        let names = listed(&names, MOST_NAMES);
        match reason.split_whitespace().count() {
            ..MOST_WORDS => format!("{names} not measured: {reason}"),
            _ => format!("{names} not measured"),
        }
    };
    groups.into_iter().map(text).collect()
}

/// The names of bad or suspect parts without load, with the figures that show it: `node3 soft3
/// (latency)`.
fn causes(survey: &Survey, certainty: Certainty, most: usize) -> String {
    let causes = survey.verdict.causes.iter().filter(|cause| cause.certainty == certainty);
    let causes: Vec<&Cause> = causes.collect();
    let name = |cause: &&Cause| (words::name(&survey.roster, &cause.unit), shown_by(survey, cause));
    let mut parts: Vec<(String, String)> = causes.iter().map(name).collect();
    let state = if certainty == Certainty::Suspect { " suspect" } else { "" };
    let Some((_, first)) = parts.first().cloned() else {
        return String::new();
    };
    let are_alike = parts.iter().all(|(_, shown)| *shown == first);
    if let Some(links) = links_of_group(&causes).filter(|_| are_alike) {
        parts = vec![(links, first.clone())];
    }
    let mut figures = format!(" ({first})");
    if !are_alike {
        figures.clear();
        parts.iter_mut().for_each(|(name, shown)| *name = format!("{name} ({shown})"));
    }
    let names: Vec<String> = parts.into_iter().map(|(name, _)| name).collect();
    format!("{}{state}{figures}", listed(&names, most))
}

/// The name of causes that are links of the same group to several others: a switch at which they
/// end looks like them.
fn links_of_group(causes: &[&Cause]) -> Option<String> {
    let ends = |cause: &&Cause| match cause.unit {
        Unit::GroupPair(one, other) => Some([one, other]),
        _ => None,
    };
    let ends = causes.iter().map(ends).collect::<Option<Vec<_>>>().filter(|ends| ends.len() > 1)?;
    let group = ends[0].into_iter().find(|group| ends.iter().all(|ends| ends.contains(group)))?;
    let others = ends.iter().flatten().filter(|other| **other != group);
    let others: Vec<String> = others.map(|other| format!("{other:03}")).collect();
    let others = listed(&others, MOST_NAMES);
    Some(format!("a switch of group {group:03}, or its links to groups {others}"))
}

/// The kinds of figures that show a cause: `latency, bandwidth`.
fn shown_by(survey: &Survey, cause: &Cause) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for evidence in &cause.evidence {
        let kind = match evidence.source {
            LimitSource::Failure => "failures",
            LimitSource::LinkErrors => "damaged packets",
            LimitSource::Retries | LimitSource::Losses => "lost packets",
            LimitSource::Tail => "slow operations",
            LimitSource::Population | LimitSource::Expect => {
                let is_bandwidth = survey.setup.tests[evidence.test.index()].of_bandwidth;
                if is_bandwidth { "bandwidth" } else { "latency" }
            }
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.join(", ")
}

/// The parts that are outside the limits under load alone. Empty without any.
fn under_load(survey: &Survey, certainty: Certainty, most: usize) -> String {
    let units = units(survey.load.as_ref(), certainty);
    let names: Vec<String> =
        units.iter().map(|unit| load_words::name(&survey.roster, unit)).collect();
    let state = if certainty == Certainty::Suspect { " suspect" } else { "" };
    match names.as_slice() {
        [] => String::new(),
        names => format!("{}{state} under load", listed(names, most)),
    }
}

/// Texts with semicolons between them, without empty ones.
fn joined(texts: [String; 2]) -> String {
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("; ")
}

/// The number of measured pairs.
pub fn pairs(verdict: &Findings) -> String {
    let Findings { answered, planned, .. } = *verdict;
    if answered == planned {
        words::counted(planned, "pair")
    } else {
        let all = words::counted(planned, "pair");
        format!("{} of {all}", words::grouped(answered))
    }
}

/// Returns how many NICs are good in all tests; if none is, how many are good in one kind of
/// figures, or in which state they are.
fn nics(survey: &Survey) -> String {
    let states = all_states(survey);
    let all = words::counted(states.len() as u64, "NIC");
    let are = if states.len() == 1 { "is" } else { "are" };
    let mut unjudged: BTreeMap<NicId, Vec<TestId>> = BTreeMap::new();
    for part in survey.verdict.untested.iter().filter(|part| !part.tests.is_empty()) {
        if let Unit::Nic(nic) = part.unit {
            unjudged.entry(nic).or_default().extend(&part.tests);
        }
    }
    let count = |state| {
        let own = survey.roster.nic_ids().zip(&states).filter(|(_, own)| **own == state);
        own.filter(|(nic, _)| !unjudged.contains_key(nic)).count() as u64
    };
    let mut texts = Vec::new();
    if count(State::Good) > 0 || unjudged.is_empty() {
        texts.push(format!("{} of {all} {are} good", words::grouped(count(State::Good))));
    }
    for (is_bandwidth, name) in [(false, "latencies"), (true, "bandwidths")] {
        let tests = survey.setup.tests.iter().enumerate();
        let own = tests.filter(|(_, test)| test.of_bandwidth == is_bandwidth);
        let own: Vec<usize> = own.map(|(index, _)| index).collect();
        let judged = unjudged.iter().filter(|(nic, tests)| {
            let is_open = tests.iter().any(|test| own.contains(&test.index()));
            states[nic.index()] == State::Untested && !own.is_empty() && !is_open
        });
        if texts.is_empty() && judged.clone().count() > 0 {
            let judged = words::grouped(judged.count() as u64);
            texts.push(format!("{name} of {judged} of {all} {are} good"));
        }
    }
    let is_named = !unmeasured(survey).is_empty();
    for (name, state) in [
        ("suspect", State::Suspect),
        ("untested", State::Untested),
        ("in no pair", State::Unpaired),
    ] {
        if count(state) > 0 && !(is_named && state == State::Untested) {
            texts.push(format!("{} {name}", words::grouped(count(state))));
        }
    }
    texts.join(", ")
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
