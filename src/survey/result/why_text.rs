//! Why culprits are slow, as text.

use super::{Survey, words};
use campaign::quiet::roster::{Roster, Unit};
use facts::groups::by_key;
use facts::number::listed;
use health::majority::common_text;
use page::page::Page;
use why::causes::assessment::difference_text;
use why::causes::cause::{Confidence, Observation, SAME, Why};
use why::causes::table::cause;
use why::culprits::Explanation;
use why::verdict::SharedValue;

/// Most culprits in the text.
const MOST: usize = 20;

/// Most names of culprits in one sentence.
const MOST_NAMES: usize = 4;

/// Adds the section about causes; nothing without any.
pub fn add(page: &mut Page, survey: &Survey) {
    if survey.why.is_empty() {
        return;
    }
    page.line("\nWhy");
    let diagnosed = || survey.why.iter().filter(|explanation| !explanation.causes.is_empty());
    for explanation in diagnosed().take(MOST) {
        add_lines(page, &survey.roster, explanation);
    }
    page.and_more(diagnosed().count(), MOST);
    for sentence in same(survey).into_iter().chain(shared(survey)).chain(left_out(survey)) {
        page.paragraph(sentence, "    ");
    }
}

/// Returns which culprits are the same as others, in sentences: one for each of these others.
pub fn same(survey: &Survey) -> Vec<String> {
    let same = survey.why.iter().filter_map(|explanation| {
        let other = explanation.same_as.as_ref()?;
        Some((other, words::name(&survey.roster, &explanation.culprit)))
    });
    let sentence = |(other, names): (&Unit, Vec<String>)| {
        format!("{}: same as {}", listed(&names, MOST_NAMES), words::name(&survey.roster, other))
    };
    by_key(same).into_iter().map(sentence).collect()
}

/// Returns what several culprits share, in sentences: one for the values of the same culprits.
pub fn shared(survey: &Survey) -> Vec<String> {
    let values = survey.why_shared.iter();
    // The same culprits, beside as many others.
    let values = values
        .map(|value| ((&value.culprits, value.of_culprits, value.others, value.of_others), value));
    by_key(values).iter().map(|(_, group)| in_common(survey, group)).collect()
}

/// The sentence about values of the same culprits.
fn in_common(survey: &Survey, group: &[&SharedValue<Unit>]) -> String {
    let first = group[0];
    let mut units = first.culprits.iter();
    let names: Vec<String> = units.by_ref().map(|unit| words::name(&survey.roster, unit)).collect();
    let values: Vec<String> = group
        .iter()
        .map(|group| format!("{} {}", group.name, common_text(&group.attribute, &group.value)))
        .collect();
    let chance = first.chance * 100.0;
    let chance = if chance < 0.1 { "less than 0.1".to_owned() } else { format!("{chance:.1}") };
    format!(
        "{}: possibly one cause: {} on {} of {} culprits and {} of {} others (by chance: {chance} %)",
        listed(&names, MOST_NAMES),
        values.join(", "),
        first.culprits.len(),
        first.of_culprits,
        first.others,
        first.of_others,
    )
}

/// Whether nothing is known about the cause of a culprit.
fn is_left_out(explanation: &Explanation) -> bool {
    explanation.causes.is_empty() && explanation.same_as.is_none()
}

/// Returns which culprits were not diagnosed, in sentences: one for each reason.
fn left_out(survey: &Survey) -> Vec<String> {
    let left_out = survey.why.iter().filter(|explanation| is_left_out(explanation));
    let reasons = left_out.map(|explanation| {
        let reason = explanation.left_out.as_deref().unwrap_or_default();
        (reason, words::name(&survey.roster, &explanation.culprit))
    });
    let sentence = |(reason, names): (&str, Vec<String>)| {
        format!("not diagnosed: {}: {reason}", listed(&names, MOST_NAMES))
    };
    by_key(reasons).into_iter().map(sentence).collect()
}

/// Adds what is known about a culprit in lines: each sentence begins with its name, and evidence is
/// indented.
pub fn add_lines(page: &mut Page, roster: &Roster, explanation: &Explanation) {
    let mut name = words::name(roster, &explanation.culprit);
    if is_untested(explanation) {
        name += ", untested";
    }
    for (is_sentence, text) in statements(roster, explanation) {
        if is_sentence {
            page.paragraph(format!("{name}: {text}"), "    ");
        } else {
            page.indented(&text, "    ");
        }
    }
}

/// Whether the survey has left a NIC untested, of which files prove something.
fn is_untested(explanation: &Explanation) -> bool {
    let is_nic = matches!(explanation.culprit, Unit::Nic(_));
    is_nic
        && explanation.nic.is_none()
        && explanation.controls.is_empty()
        && !explanation.causes.is_empty()
}

/// Returns what is known about a culprit, or why nothing is, in sentences.
pub fn sentences(survey: &Survey, explanation: &Explanation) -> Vec<String> {
    if is_left_out(explanation) {
        let why = explanation.left_out.as_deref().unwrap_or_default();
        return vec![format!("not diagnosed: {why}")];
    }
    let all = statements(&survey.roster, explanation).into_iter();
    all.map(|(_, text)| text).collect()
}

/// Returns what is known about a culprit: each sentence (true) is followed by its evidence and what
/// to do.
fn statements(roster: &Roster, explanation: &Explanation) -> Vec<(bool, String)> {
    if let Some(other) = &explanation.same_as {
        let other = words::name(roster, other);
        return vec![(true, format!("same as {other}"))];
    }
    let mut all = Vec::new();
    for why in &explanation.causes {
        // What only fits says nothing beside a contradiction.
        let is_shown = |observation: &&Observation| {
            let is_found = why.confidence != Confidence::AlsoFound;
            is_found || observation.own.is_none() || observation.contradicts
        };
        let shown: Vec<&Observation> = why.evidence.iter().filter(is_shown).collect();
        all.push((true, stated(why)));
        all.extend(part("evidence", &evidence(&shown)));
        all.extend(part("do", why.advice.as_deref().unwrap_or_default()));
    }
    all.extend(part("note", explanation.left_out.as_deref().unwrap_or_default()));
    let is_certain =
        explanation.causes.first().map(|why| why.confidence) == Some(Confidence::Because);
    if !is_certain {
        let differs: Vec<String> = explanation.differs.iter().map(difference_text).collect();
        all.extend(part("differs", &differs.join("; ")));
        all.extend(part("not excluded", &subjects(&explanation.not_excluded)));
        all.extend(part("excluded", &subjects(&explanation.excluded)));
    }
    all
}

/// A part with this title; nothing without text.
fn part(title: &str, text: &str) -> Option<(bool, String)> {
    (!text.is_empty()).then(|| (false, format!("{title}: {text}")))
}

/// A cause as a sentence.
pub fn stated(why: &Why) -> String {
    let what = why.what.as_deref().unwrap_or_default();
    match why.confidence {
        Confidence::Because => format!("because {what}"),
        Confidence::Probably => format!("probably {what}"),
        Confidence::Possibly => format!("possibly {what}"),
        Confidence::AlsoFound => format!("also found: {what}"),
        Confidence::Transient => "it was slow in the survey, and is not slow now".into(),
        Confidence::NotMeasured => "not measured: CPUs busy".into(),
        Confidence::Unknown if what.is_empty() => "not known".into(),
        Confidence::Unknown => format!("{what}; cause not known"),
    }
}

/// Returns what excluded causes are about, each subject once. Causes of failures are left out: they
/// have no part in something slow.
fn subjects(excluded: &[String]) -> String {
    let mut subjects: Vec<&str> = Vec::new();
    for cause in excluded.iter().filter_map(|id| cause(id)) {
        if !cause.fails && !subjects.contains(&cause.subject) {
            subjects.push(cause.subject);
        }
    }
    subjects.join(", ")
}

/// Returns evidence in words: items and slow tests, then what contradicts, then the tests in which
/// the culprit is as good NICs.
fn evidence(all: &[&Observation]) -> String {
    let is_same = |observation: &&&Observation| {
        !observation.contradicts && observation.expected.as_deref() == Some(SAME)
    };
    let supports =
        all.iter().filter(|observation| !observation.contradicts && !is_same(observation));
    let contradicts = all.iter().filter(|observation| observation.contradicts);
    let contradicts = contradicts.map(|observation| format!("but {}", figure(observation)));
    let same: Vec<&str> =
        all.iter().filter(is_same).map(|observation| observation.text.as_str()).collect();
    let same = (!same.is_empty()).then(|| format!("{SAME}: {}", same.join(", ")));
    let all = supports.map(|observation| figure(observation)).chain(contradicts).chain(same);
    all.collect::<Vec<_>>().join("; ")
}

/// An item, or a test with both figures.
fn figure(observation: &Observation) -> String {
    let (Some(own), Some(others)) = (observation.own, observation.others) else {
        return observation.text.clone();
    };
    let is_bandwidth = observation.unit.as_deref() == Some("B/s");
    let unit = shown_unit(is_bandwidth);
    let [own, others] = [own, others].map(|value| shown(value, is_bandwidth));
    format!("{} {own} {unit}, good NICs {others}", observation.text)
}

/// The unit in which figures are shown.
pub fn shown_unit(is_bandwidth: bool) -> &'static str {
    if is_bandwidth { "GB/s" } else { "us" }
}

/// A figure in this unit: a bandwidth in bytes per second, or a time in nanoseconds.
pub fn shown(value: f64, is_bandwidth: bool) -> String {
    let value = value / if is_bandwidth { 1e9 } else { 1e3 };
    let decimals = if value.abs() < 1.0 { 3 } else { 2 };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{figures, item, mixed, shared_value, survey, why};
    use super::*;
    use campaign::quiet::roster::NicId;
    use page::table::TextStyle;

    fn explanation(nic: u32, causes: Vec<Why>) -> Explanation {
        Explanation {
            culprit: Unit::Nic(NicId(nic)),
            nic: Some(NicId(nic)),
            controls: vec![NicId(0), NicId(1)],
            causes,
            differs: Vec::new(),
            excluded: Vec::new(),
            not_excluded: Vec::new(),
            same_as: None,
            left_out: None,
        }
    }

    fn lines(survey: &Survey, explanation: &Explanation) -> String {
        let mut page = Page::default();
        add_lines(&mut page, &survey.roster, explanation);
        page.text(TextStyle::Plain)
    }

    #[test]
    fn shows_sentence_evidence_and_advice() {
        let mut survey = survey(mixed(), Ok(()));
        let narrow = why(
            Confidence::Because,
            vec![item("PCIe width x8, expected x16"), figures(13.9e9, 25.1e9, "B/s", false)],
        );
        let found = why(
            Confidence::AlsoFound,
            vec![item("PCIe width x8"), figures(410.0, 1400.0, "ns", true)],
        );
        let unknown = Why::default();
        survey.why = vec![
            explanation(3, vec![narrow]),
            Explanation {
                excluded: vec!["pcie-slow".into(), "link-speed".into()],
                ..explanation(4, vec![unknown, found])
            },
            Explanation { same_as: Some(Unit::Nic(NicId(3))), ..explanation(5, Vec::new()) },
            Explanation { same_as: Some(Unit::Nic(NicId(3))), ..explanation(7, Vec::new()) },
            Explanation { left_out: Some("the time was up".into()), ..explanation(6, Vec::new()) },
        ];
        survey.why_shared = vec![shared_value()];
        let mut page = Page::default();
        add(&mut page, &survey);
        let expected = "
Why
nid000417 cxi1: because a PCIe link runs with fewer lanes than both of its ends
    have
  evidence: PCIe width x8, expected x16; large writes in loopback 13.90 GB/s,
      good NICs 25.10
  do: reboot the node
nid000418 cxi0: not known
nid000418 cxi0: also found: a PCIe link runs with fewer lanes than both of its
    ends have
  evidence: PCIe width x8; but large writes in loopback 0.410 us, good NICs 1.40
  do: reboot the node
  excluded: PCIe speed, link speed
nid000418 cxi1, nid000419 cxi1: same as nid000417 cxi1
nid000417 cxi1, nid000418 cxi0, nid000418 cxi1: possibly one cause: driver 1.9
    on 3 of 3 culprits and 0 of 5 others (by chance: 1.8 %)
not diagnosed: nid000419 cxi0: the time was up
";
        assert_eq!(page.text(TextStyle::Plain), expected);
    }

    #[test]
    fn says_that_a_nic_is_untested() {
        let survey = survey(mixed(), Ok(()));
        let file_explanation = Explanation {
            nic: None,
            controls: Vec::new(),
            ..explanation(3, vec![why(Confidence::Probably, Vec::new())])
        };
        let first = lines(&survey, &file_explanation);
        let start = "nid000417 cxi1, untested: probably a PCIe link";
        assert!(first.starts_with(start), "{first}");
    }

    #[test]
    fn shows_where_to_look_without_a_cause() {
        let survey = survey(mixed(), Ok(()));
        let unknown = Why {
            cause: None,
            what: Some("loopback is fast".into()),
            advice: None,
            ..why(Confidence::Unknown, vec![figures(2e9, 4e9, "B/s", false)])
        };
        let expected = "\
nid000417 cxi1: loopback is fast; cause not known
  evidence: large writes in loopback 2.00 GB/s, good NICs 4.00
  not excluded: switch port
  excluded: memory\n";
        let unknown = Explanation {
            not_excluded: vec!["port".into()],
            excluded: vec!["memory-bw".into()],
            ..explanation(3, vec![unknown])
        };
        assert_eq!(lines(&survey, &unknown), expected);
    }

    #[test]
    fn shows_what_culprits_share_once_for_the_same_culprits() {
        let mut survey = survey(mixed(), Ok(()));
        let kernel = SharedValue { name: "kernel".into(), value: "6.4.0".into(), ..shared_value() };
        let all = [3, 4, 5, 6, 2, 1].map(|nic| Unit::Nic(NicId(nic)));
        let firmware = SharedValue {
            culprits: all.into(),
            of_culprits: 6,
            others: 1,
            of_others: 40,
            name: "firmware".into(),
            value: "1.5".into(),
            chance: 1e-6,
            ..shared_value()
        };
        survey.why_shared = vec![shared_value(), firmware, kernel];
        let expected = [
            "nid000417 cxi1, nid000418 cxi0, nid000418 cxi1: possibly one cause: driver 1.9, \
             kernel 6.4.0 on 3 of 3 culprits and 0 of 5 others (by chance: 1.8 %)",
            "nid000417 cxi1, nid000418 cxi0, nid000418 cxi1, nid000419 cxi0 and 2 more: possibly \
             one cause: firmware 1.5 on 6 of 6 culprits and 1 of 40 others (by chance: less than \
             0.1 %)",
        ];
        assert_eq!(shared(&survey), expected);
        let memory = SharedValue {
            attribute: "memory-size".into(),
            name: "memory".into(),
            value: "448.0 GiB".into(),
            ..shared_value()
        };
        survey.why_shared = vec![memory];
        let sentence = shared(&survey).concat();
        assert!(sentence.contains(" memory about 448.0 GiB on 3 of 3 "), "{sentence}");
    }
}
