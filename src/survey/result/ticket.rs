//! What a survey has found, as a page of Markdown for a ticket.

use std::time::{Duration, UNIX_EPOCH};

use super::load_words::certainty;
use super::next::advice;
use super::text::{measured, place};
use super::{Survey, load_text, load_words, why_text, words};
use campaign::quiet::findings::{Cause, Certainty};
use page::page::Page;
use why::culprits::Explanation;

/// Most parts on the page.
const MOST: usize = 5;

/// Most sentences of the survey about a part.
const MOST_SENTENCES: usize = 2;

/// The page: what the survey was, then each bad or suspect part with its figures, its cause and
/// what to do.
pub fn page(survey: &Survey) -> Page {
    let mut page = Page::default();
    page.heading(1, &survey.summary);
    page.lines([place(survey) + ".", measured(survey) + "."]);
    let setup = &survey.setup;
    origin(&mut page, "survey", &setup.arguments, &survey.cxidiag_version, survey.started_unix_ms);
    if survey.is_software {
        page.line("\nSoftware NICs: no Cassini hardware involved.");
    }
    if let Some(advice) = advice(survey) {
        page.line(format!("\n{advice}"));
        survey.next.iter().for_each(|command| page.command(command));
    }
    parts(&mut page, survey);
    under_load(&mut page, survey);
    section(&mut page, 2, "In common", [why_text::same(survey), why_text::shared(survey)].concat());
    page
}

/// Adds the command that has found this, with its version and when it began.
pub fn origin(page: &mut Page, name: &str, arguments: &[String], version: &str, unix_ms: u64) {
    page.command(format!("cxidiag {name} {}", arguments.join(" ")));
    let began = UNIX_EPOCH + Duration::from_millis(unix_ms);
    page.line(format!("\ncxidiag {version}, {}", humantime::format_rfc3339_seconds(began)));
}

/// Adds the parts that are bad or suspect, and those that were diagnosed without a measurement.
fn parts(page: &mut Page, survey: &Survey) {
    let is_shown = |cause: &&Cause| cause.certainty != Certainty::Transient;
    let parts = || survey.verdict.causes.iter().filter(is_shown);
    for cause in parts().take(MOST) {
        let why = survey.why.iter().find(|explanation| explanation.culprit == cause.unit);
        let why = why.map_or(Vec::new(), |explanation| why_text::sentences(survey, explanation));
        let figures = words::evidence_sentences(survey, cause).into_iter().take(MOST_SENTENCES);
        let name = words::unit(&survey.roster, &cause.unit);
        section(page, 2, &name, figures.chain(why).collect());
    }
    let is_named =
        |explanation: &&Explanation| parts().any(|cause| cause.unit == explanation.culprit);
    let untested = survey
        .why
        .iter()
        .filter(|explanation| !is_named(explanation))
        .filter(|explanation| explanation.same_as.is_none());
    for why in untested.take(MOST.saturating_sub(parts().count())) {
        let name = words::unit(&survey.roster, &why.culprit) + ", untested";
        section(page, 2, &name, why_text::sentences(survey, why));
    }
    and_more(page, parts().count());
}

/// Adds what is bad or suspect under load; nothing without load.
fn under_load(page: &mut Page, survey: &Survey) {
    let Some(load) = &survey.load else {
        return;
    };
    section(page, 2, "Under load", load_text::remarks(load));
    let shown = |judgement| {
        let certainty = certainty(judgement)?;
        (certainty != Certainty::Transient).then_some((judgement, certainty.name()))
    };
    let judgements = || load.judgements.iter().filter_map(shown);
    for (finding, state) in judgements().take(MOST) {
        let name = load_words::unit(&survey.roster, &finding.unit);
        let sentences =
            [vec![load_words::sentence(finding)], load_text::further(survey, finding)].concat();
        section(page, 3, &format!("{name}, {state} under load"), sentences);
    }
    and_more(page, judgements().count());
}

/// Adds a section with these sentences; nothing without any.
fn section(page: &mut Page, level: usize, title: &str, sentences: Vec<String>) {
    if !sentences.is_empty() {
        page.empty_line();
        page.heading(level, title);
        page.list(sentences);
    }
}

fn and_more(page: &mut Page, all: usize) {
    if let more @ 1.. = all.saturating_sub(MOST) {
        page.line(format!("\nand {more} more: the document of `--json` has all of them"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{explanation, loaded, mixed, mixed_load, shared_value, survey};
    use super::*;
    use campaign::quiet::roster::{NicId, Unit};
    use page::table::TextStyle;

    fn text(survey: &Survey) -> String {
        page(survey).text(TextStyle::Markdown)
    }

    #[test]
    fn names_each_part_with_its_cause() {
        let mut survey = survey(mixed(), Ok(()));
        let mut why = explanation();
        (why.same_as, why.left_out) = (None, None);
        survey.why = vec![why];
        let expected = "\
# bad: nid000417 cxi1 (latency, bandwidth); nid000418 cxi1 not measured

4 nodes, 8 NICs (Slurm job 1234 step 0): 66 of 84 pairs in 12.3 s.
write-lat 8, write-bw 1M; pairs random:3 (seed 7).

    cxidiag survey write-lat,write-bw --pairs=random:3

cxidiag 0.1.0, 2023-11-14T22:13:20Z

Next: this command would decide in about 16 s

    srun -N4 -n4 --nodelist=nid[000416-000419] --mpi=none cxidiag survey write-lat,write-bw --pairs=all

## nid000417 cxi1

* writes 3.90 us to 6 of 6 partners at its switch, median of its class 1.90; 1,204 retries, 42 cycles the switch held off this NIC
* writes 9.50 GB/s to 6 of 6 partners, median of its class 19.00
* because a PCIe link runs with fewer lanes than both of its ends have
* evidence: PCIe width x8, expected x16; large writes in loopback 13.90 GB/s, good NICs 25.10
* do: reboot the node

## nid000418 cxi0 to nid000419 cxi0

* writes in 6 of 6 measurements fail: the NIC reported PT_DISABLED
";
        assert_eq!(text(&survey), expected);
    }

    #[test]
    fn names_untested_nics_and_what_parts_have_in_common() {
        let mut survey = survey(mixed(), Ok(()));
        let explanation_for = |nic| Explanation {
            culprit: Unit::Nic(NicId(nic)),
            same_as: None,
            left_out: None,
            ..explanation()
        };
        let same = Explanation {
            causes: Vec::new(),
            same_as: Some(Unit::Nic(NicId(6))),
            ..explanation_for(7)
        };
        survey.why = vec![explanation_for(6), same];
        survey.why_shared = vec![shared_value()];
        let page = text(&survey);
        let (_, rest) = page.split_once("\n## nid000419 cxi0, untested\n").expect("a section");
        let expected = "
* because a PCIe link runs with fewer lanes than both of its ends have
* evidence: PCIe width x8, expected x16; large writes in loopback 13.90 GB/s, good NICs 25.10
* do: reboot the node

## In common

* nid000419 cxi1: same as nid000419 cxi0
* nid000417 cxi1, nid000418 cxi0, nid000418 cxi1: possibly one cause: driver 1.9 on 3 of 3 culprits \
and 0 of 5 others (by chance: 1.8 %)
";
        assert_eq!(rest, expected);
        assert!(!page.contains("\n## nid000419 cxi1"), "{page}");
    }

    #[test]
    fn fits_on_a_page() {
        let mut verdict = mixed();
        let first = verdict.causes[0].clone();
        verdict.causes = vec![first; 30];
        let page = text(&survey(verdict, Ok(())));
        assert!(page.lines().count() < 60, "{page}");
        assert!(page.ends_with("and 25 more: the document of `--json` has all of them\n"));
    }

    #[test]
    fn names_what_is_bad_under_load() {
        let page = text(&loaded(mixed_load()));
        let (_, rest) = page.split_once("\n## Under load\n").expect("a section");
        let (remarks, rest) =
            rest.split_once("\n### switch 003.12 (4 NICs), bad under load\n").unwrap();
        assert!(remarks.contains("\n* Closed loop: "), "{remarks}");
        let expected = "
* bandwidth 0.44 times the median of equal parts under bisect:switch (good: at least 0.90)
* 8 of 8 flows at this switch are slow, 0 of 24 at others
* no pauses, no timeouts
* do: have the fabric manager list rate, width and errors of all links of switch 003.12

### links from group 000 to group 002, suspect under load

* bandwidth 0.25 times the median of equal parts under bisect:system (good: at least 0.90)
* do: have the fabric manager list the links from group 000 to group 002: which are down, slow, \
or have errors
";
        assert_eq!(rest, expected);
    }
}
