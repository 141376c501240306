//! The section of the text about load: what is outside the limits first, then all figures.

use std::time::Duration;

use super::load_words::certainty;
use super::{Survey, load_tables, load_words, words};
use campaign::quiet::findings::Certainty;
use campaign::timetable::Watched;
use facts::severity::Severity;
use load::findings::{
    CounterFigures, Grade, IsolationFigures, LoadFindings, LoadJudgement, LoadSettings,
};
use page::page::{Page, Words};

/// Most judgements of each kind.
const MOST: usize = 20;

/// Most sentences of evidence for a judgement.
const MOST_EVIDENCE: usize = 3;

/// Most patterns that were left out.
const MOST_LEFT_OUT: usize = 20;

/// Adds the section of a survey under load; nothing without load.
pub fn add(page: &mut Page, survey: &Survey) {
    let Some(load) = &survey.load else {
        return;
    };
    page.line("\nUnder load");
    for text in remarks(load) {
        page.paragraph(text, "  ");
    }
    for kind in kinds() {
        judgements(page, survey, load, kind);
    }
    load_tables::bandwidths(page, &survey.roster, load);
    load_tables::impacts(page, &survey.roster, load);
    for lines in [isolations(load), counters(load), left_out(load)] {
        if !lines.is_empty() {
            page.empty_line();
        }
        for line in lines {
            page.paragraph(line, "    ");
        }
    }
}

/// Returns what the load was, and what limits its figures.
pub fn remarks(load: &LoadFindings) -> Vec<String> {
    let mut remarks = vec![settings(&load.settings)];
    remarks.extend(
        load.aborted
            .as_ref()
            .map(|why| format!("The load ended early: {why}. The figures are partial.")),
    );
    remarks.extend(load.unjudged.as_ref().map(|why| format!("No verdict under load: {why}.")));
    if !load.unmeasured.is_empty() {
        remarks.push(format!(
            "Most measurements do not count, because processes waited for CPUs or did not measure: \
             {}.",
            load.unmeasured.join("; ")
        ));
    }
    if load.settings.is_partial {
        remarks.push(
            "Partial load: a cap kept it below what the NICs can do, so no figure is compared \
             with the topology."
                .into(),
        );
    }
    remarks.push(load_words::CLOSED_LOOP.into());
    let crossed = load.crossed.iter();
    remarks.extend(
        crossed.map(|links| load_words::crossed(links, load_tables::scale(&load.bandwidths))),
    );
    let is_of_system = |pattern: &str| pattern.starts_with("bisect:system");
    if load.bandwidths.iter().any(|bandwidth| is_of_system(&bandwidth.pattern)) {
        remarks.push(load_words::UNSEEN.into());
    }
    remarks
}

fn settings(load_settings: &LoadSettings) -> String {
    format!(
        "{}: at most {} of {} sent at once, operations of {}, window {}; {} of {} s, seed {}",
        load_settings.patterns,
        words::grouped(load_settings.most_aggressors.into()),
        words::counted(load_settings.nics.into(), "NIC"),
        words::size(load_settings.size_bytes),
        words::size(load_settings.window_bytes),
        words::counted(load_settings.slots.into(), "slot"),
        load_settings.slot_s,
        load_settings.seed,
    )
}

type JudgementKind = (&'static str, Severity, fn(&LoadJudgement) -> bool);

/// Returns the titles of the kinds of judgements, and what belongs to them.
fn kinds() -> [JudgementKind; 4] {
    [
        ("Bad under load", Severity::Bad, |judgement| certainty(judgement) == Some(Certainty::Bad)),
        (
            "Suspect under load: not confirmed by retests with other roles",
            Severity::Suspect,
            |judgement| certainty(judgement) == Some(Certainty::Suspect),
        ),
        ("Transient under load: inside the limits in retests", Severity::Good, |judgement| {
            certainty(judgement) == Some(Certainty::Transient)
        }),
        ("Slow under load, no fault", Severity::Good, |judgement| judgement.grade == Grade::Slow),
    ]
}

fn judgements(
    page: &mut Page,
    survey: &Survey,
    load: &LoadFindings,
    (title, severity, is_shown): JudgementKind,
) {
    let all: Vec<&LoadJudgement> =
        load.judgements.iter().filter(|judgement| is_shown(judgement)).collect();
    if all.is_empty() {
        return;
    }
    page.empty_line();
    page.line(Words::first(severity, title));
    for finding in all.iter().take(MOST) {
        let name = load_words::unit(&survey.roster, &finding.unit);
        page.paragraph(format!("{name}: {}", load_words::sentence(finding)), "    ");
        for further in further(survey, finding) {
            page.indented(&further, "  ");
        }
    }
    page.and_more(all.len(), MOST);
}

/// Returns the evidence of a judgement, and for a bad figure what to do next.
pub fn further(survey: &Survey, judgement: &LoadJudgement) -> Vec<String> {
    let mut sentences: Vec<String> =
        judgement.evidence.iter().take(MOST_EVIDENCE).cloned().collect();
    if matches!(certainty(judgement), Some(Certainty::Bad | Certainty::Suspect)) {
        let next = load_words::next_step(&survey.roster, judgement);
        sentences.push(format!("do: {next}"));
    }
    sentences
}

/// Returns how far other traffic classes keep load away.
fn isolations(load: &LoadFindings) -> Vec<String> {
    let line = |isolation: &IsolationFigures| {
        let (same, other) = (load_words::ratio(isolation.same), load_words::ratio(isolation.other));
        let found = match isolation.isolation {
            Some(part) => format!(
                "keeps {} of the load away ({})",
                load_words::ratio(part),
                isolation.grade.name()
            ),
            None => "nothing to isolate from".into(),
        };
        format!(
            "{} under {}: latency x{other}, in the class of the load x{same}: {found}",
            isolation.traffic_class, isolation.under
        )
    };
    load.isolations.iter().map(line).collect()
}

/// Returns what counters explain, by pattern. Marks of congestion are usual under load: they count
/// only beside a judgement.
pub fn counters(load: &LoadFindings) -> Vec<String> {
    let shows_marks = !load.judgements.is_empty();
    let line = |counter: &CounterFigures| {
        let role_pairs =
            [("senders and targets", &counter.aggressors), ("victims", &counter.victims)];
        let texts = role_pairs.into_iter().filter_map(|(role, counts)| {
            let texts = counts_in_words(counts, shows_marks);
            (!texts.is_empty()).then(|| format!("{role} {}", texts.join(", ")))
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| format!("{}: {}", counter.pattern, texts.join("; ")))
    };
    let mut lines: Vec<String> = load.counters.iter().filter_map(line).collect();
    if !lines.is_empty() {
        lines.insert(0, "Counters, summed over NICs and slots".into());
    }
    lines
}

/// Returns the counts above 0 in words.
fn counts_in_words(counts: &[(Watched, u64)], shows_marks: bool) -> Vec<String> {
    let unmarked = counts.iter().find(|(watched, _)| *watched == Watched::Unmarked);
    let unmarked = unmarked.map_or(0, |(_, count)| *count);
    let text = |&(watched, count): &(Watched, u64)| {
        let number = || words::grouped(count);
        Some(match watched {
            _ if count == 0 => return None,
            Watched::Octets | Watched::Unmarked => return None,
            Watched::TxPaused => format!("paused by the switch for {}", time(count)),
            Watched::RxPaused => format!("paused the switch for {}", time(count)),
            Watched::Timeouts => format!("lost {} answers", number()),
            Watched::Retries => format!("sent {} packets again", number()),
            Watched::Refused => format!("{} requests refused: tables full", number()),
            Watched::Marked if !shows_marks => return None,
            Watched::Marked => {
                let part = count as f64 / count.saturating_add(unmarked) as f64;
                format!("{} of the packets marked as congested", load_words::percent(part))
            }
        })
    };
    counts.iter().filter_map(text).collect()
}

/// Returns a time in nanoseconds in its unit.
fn time(ns: u64) -> String {
    let time = Duration::from_nanos(ns).as_secs_f64();
    if time < 0.1 {
        format!("{} ms", load_words::ratio(time * 1e3))
    } else {
        format!("{} s", load_words::ratio(time))
    }
}

fn left_out(load: &LoadFindings) -> Vec<String> {
    let all = &load.left_out;
    let mut lines = Vec::new();
    if !all.is_empty() {
        lines.push("Left out".to_owned());
    }
    let shown = all.iter().take(MOST_LEFT_OUT);
    lines.extend(shown.map(|left_out| format!("{}: {}", left_out.what, left_out.reason)));
    if let more @ 1.. = all.len().saturating_sub(MOST_LEFT_OUT) {
        lines.push(format!("and {more} more"));
    }
    lines
}

#[cfg(test)]
#[path = "load_text_tests.rs"]
mod tests;
