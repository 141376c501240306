//! Readings and figures -> causes, each as sure as the evidence permits (diagnosis.md 6.2).
//!
//! * A bandwidth that is about the limit of a slower PCIe link than the NIC needs is a hint at this
//!   link, also where no file shows it (diagnosis.md 3.1).
//! * If no cause is known, the result says what the tests of the culprit show together
//!   (diagnosis.md 5, single observations).

use std::cmp::Reverse;

use super::assessment::{Assessed, Assessment, Case};
use super::cause::{Confidence, Observation, Why, evidence, item};
use super::comparison::{Compared, Comparison, TestFigures};
use super::procedure::Column::{
    self, FastFlows, Hop, Read, ReadBandwidth, Received, Sent, Write, WriteBandwidth, WriteFrom,
    WriteTo,
};
use super::procedure::TestCode;
use super::table::cause;
use health::item::{Readings, find};
use health::majority::Difference;

/// The cause that counters of lost packets prove.
const LOSS: &str = "loss";

/// What was found about a culprit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnosis {
    /// The causes, the surest first; at least one entry.
    pub whys: Vec<Why>,
    /// Items in which the culprit differs from good NICs.
    pub differs: Vec<Difference>,
    /// Ids of causes that files or tests exclude.
    pub excluded: Vec<String>,
    /// Ids of causes that explain what is slow and are not excluded, if no cause is named.
    pub not_excluded: Vec<String>,
}

/// Returns what is known about the causes of a culprit.
pub fn evaluate(case: Case) -> Diagnosis {
    let Assessed { comparisons, differs, mut all } = Assessed::new(case);
    if let Some(whys) = without_figures(case, &all) {
        return Diagnosis { whys, ..Diagnosis::default() };
    }
    // Packets are lost because of the NIC, if its state explains failures.
    let loses = all.iter().any(|assessment| assessment.cause.id == LOSS && assessment.has_proof());
    let is_certain = |assessment: &&Assessment| {
        assessment.confidence(case.fails, loses) == Some(Confidence::Because)
    };
    let has_certain = all.iter().any(|assessment| is_certain(&assessment));
    let certain = all.iter().filter(is_certain);
    let explained: Vec<Column> = certain.flat_map(Assessment::slows).collect();
    for candidate in &mut all {
        candidate.leave_out_slow(&explained);
    }
    let is_slow = comparisons.iter().any(|comparison| comparison.outcome == Compared::Slower);
    let is_as_fast = !is_slow && !comparisons.is_empty() && !case.fails;
    // What measurements beside busy CPUs show is no proof.
    let busy = comparisons.iter().filter(|comparison| comparison.is_beside_busy).count();
    let is_disturbed = 2 * busy > comparisons.len();
    let is_proof = case.has_good_controls && !is_disturbed;
    let mut found: Vec<(Confidence, &Assessment)> = Vec::new();
    for candidate in &all {
        let confidence = candidate.confidence(case.fails, loses);
        let confidence =
            confidence.map(|own| beside_others(own, candidate, is_proof, has_certain, is_as_fast));
        found.extend(confidence.map(|confidence| (confidence, candidate)));
    }
    if !found.iter().any(explains_slowness) {
        let shown = shown_by_tests(&all, &comparisons)
            .filter(|assessment| !is_disturbed || assessment.slows().contains(&Column::Waiting));
        found.extend(shown.map(|assessment| (Confidence::Possibly, assessment)));
    }
    // What files and counters prove comes before what figures show, and a bad item before others.
    found.sort_by_key(|(confidence, assessment)| {
        let is_without = (!assessment.has_proof(), !assessment.has_bad_sign());
        (*confidence, is_without, Reverse(assessment.matched.len()))
    });
    let ids = |meant: &dyn Fn(&Assessment) -> bool| {
        let meant = all.iter().filter(|assessment| meant(assessment));
        meant.map(|assessment| assessment.cause.id.to_owned()).collect()
    };
    let is_known = found.iter().any(|(confidence, _)| *confidence < Confidence::AlsoFound);
    let is_open = |assessment: &Assessment| {
        let is_possible = assessment.signs.is_empty() && assessment.explains(&comparisons);
        !assessment.is_excluded() && (is_possible || assessment.is_difference())
    };
    Diagnosis {
        whys: whys(case, &comparisons, &found),
        excluded: ids(&Assessment::is_excluded),
        not_excluded: if is_known || !is_slow { Vec::new() } else { ids(&is_open) },
        differs,
    }
}

/// Returns what is known about a culprit with a cause that makes figures say nothing, if it has
/// one: what needs no figures.
fn without_figures(case: Case, all: &[Assessment]) -> Option<Vec<Why>> {
    let others = || all.iter().filter(|assessment| !assessment.signs.is_empty());
    let found = others().find(|assessment| assessment.cause.voids)?;
    let failing = others().filter(|assessment| case.fails && assessment.cause.fails);
    let failing = failing.map(|assessment| assessment.why(Confidence::Because));
    let proved = others().filter(|assessment| assessment.has_bad_sign());
    let proved = proved.chain([found]).map(|assessment| assessment.why(Confidence::Probably));
    Some(failing.chain(proved).collect())
}

/// Returns how sure a cause is beside the others, which is `own` by its evidence alone.
fn beside_others(
    own: Confidence,
    candidate: &Assessment,
    is_proof: bool,
    has_certain: bool,
    is_as_fast: bool,
) -> Confidence {
    match own {
        // The certain cause explains what is slow.
        Confidence::Probably | Confidence::Possibly
            if has_certain && candidate.matched.is_empty() =>
        {
            Confidence::AlsoFound
        }
        // There is nothing that it explains.
        Confidence::Possibly if is_as_fast && candidate.has_no_known_effect() => {
            Confidence::AlsoFound
        }
        // Failures need no comparison.
        Confidence::Because if !is_proof && !candidate.cause.fails => Confidence::Probably,
        own => own,
    }
}

/// Whether a cause that was found explains that the culprit is slow.
fn explains_slowness((confidence, assessment): &(Confidence, &Assessment)) -> bool {
    *confidence < Confidence::Possibly
        || *confidence == Confidence::Possibly
            && !assessment.signs.is_empty()
            && !assessment.has_no_known_effect()
}

/// The cause that the figures fit, if they fit no other one: the cause that files have left over
/// need not be it.
fn shown_by_tests<'a>(all: &'a [Assessment], comparisons: &[Comparison]) -> Option<&'a Assessment> {
    let mut possible = all.iter().filter(|assessment| assessment.explains(comparisons));
    let only = possible.next().filter(|assessment| assessment.fits())?;
    possible.next().is_none().then_some(only)
}

/// The entries of the causes that were found, or one that says that there is none.
fn whys(case: Case, comparisons: &[Comparison], found: &[(Confidence, &Assessment)]) -> Vec<Why> {
    let mut whys: Vec<Why> =
        found.iter().map(|(confidence, assessment)| assessment.why(*confidence)).collect();
    if !whys.iter().any(|why| why.confidence < Confidence::AlsoFound) {
        whys.insert(0, without_cause(case, comparisons));
    }
    let hint = ceiling_hint(comparisons, case.own).map(|text| item("pcie-ceiling", &text));
    let is_open =
        |why: &&mut Why| matches!(why.confidence, Confidence::Possibly | Confidence::Unknown);
    let unmeasured = unmeasured_hops(case, comparisons);
    for why in whys.iter_mut().filter(is_open) {
        why.evidence.extend(hint.iter().chain(&unmeasured).cloned());
    }
    whys
}

/// Returns why hops do not show whether NICs or CPUs are slow, if they were to be measured.
fn unmeasured_hops(case: Case, comparisons: &[Comparison]) -> Option<Observation> {
    let figures = case.measured.get(&TestCode::T)?;
    let is_compared = comparisons.iter().any(|comparison| comparison.column == Column::Hop);
    let why = figures.unmeasured.as_deref().filter(|_| !is_compared)?;
    Some(item("T", &format!("{} not measured: {why}", Column::Hop.name())))
}

impl Diagnosis {
    /// Whether figures would say nothing more: the first cause is certain, or a cause makes figures
    /// say nothing.
    pub fn is_final(&self) -> bool {
        let is_certain = |why: &Why| why.confidence == Confidence::Because;
        let voids = |why: &Why| {
            let known = why.cause.as_deref().and_then(cause);
            known.is_some_and(|cause| cause.voids)
        };
        self.whys.first().is_some_and(is_certain) || self.whys.iter().any(voids)
    }
}

/// The tests that contradict causes with direct evidence: one measurement may have been an
/// accident, so they are worth a second one.
pub fn doubtful(case: Case) -> Vec<TestCode> {
    let proved =
        Assessed::new(case).all.into_iter().filter(|assessment| !assessment.signs.is_empty());
    let contradicted = proved.flat_map(|assessment| assessment.contradicted);
    let mut tests: Vec<TestCode> = contradicted
        .flat_map(|(comparison, _)| {
            let (test, base) = comparison.column.tests();
            [Some(test), base].into_iter().flatten()
        })
        .collect();
    tests.sort_unstable();
    tests.dedup();
    tests
}

/// Whether the culprit is slower in a column, whatever its process waited.
fn is_slow(comparisons: &[Comparison]) -> bool {
    let mut all = comparisons.iter();
    all.any(|comparison| {
        comparison.outcome == Compared::Slower && comparison.column != Column::Waiting
    })
}

/// The entry of a culprit without a cause: it is transient if the test that found it is as fast as
/// on good NICs now.
fn without_cause(case: Case, comparisons: &[Comparison]) -> Why {
    let is_slow = is_slow(comparisons);
    let survey = comparisons.iter().find(|comparison| comparison.column == Column::Survey);
    let is_same = survey.is_some_and(|comparison| comparison.outcome == Compared::Same);
    let is_transient = !case.fails && !is_slow && is_same;
    let has_waited = case.measured.values().any(TestFigures::has_waited);
    let shown = |comparison: &&Comparison| match comparison.column {
        Column::Survey => true,
        Column::Hop => comparison.outcome != Compared::Unclear,
        _ => comparison.outcome == Compared::Slower,
    };
    let mut evidence: Vec<Observation> =
        comparisons.iter().filter(shown).map(|comparison| evidence(comparison, None)).collect();
    let failure = case.measured.get(&TestCode::S);
    if let Some(why) = failure.and_then(|figures| figures.failure.clone()) {
        evidence.push(Observation { text: why, ..item("S", "") });
    }
    let seen = if case.fails { None } else { seen(comparisons) };
    Why {
        confidence: if is_transient {
            Confidence::Transient
        } else if has_waited && !is_slow && !case.fails {
            Confidence::NotMeasured
        } else {
            Confidence::Unknown
        },
        what: seen,
        evidence,
        ..Why::default()
    }
}

/// PCIe links in words, and the product of their lanes and their speed in GT/s.
const LINKS: [(&str, f64); 6] = [
    ("8 lanes at 8 GT/s", 64.0),
    ("16 lanes at 8 GT/s or 8 lanes at 16 GT/s", 128.0),
    ("16 lanes at 16 GT/s", 256.0),
    ("16 lanes at 20 GT/s", 320.0),
    ("16 lanes at 25 GT/s", 400.0),
    ("16 lanes at 32 GT/s", 512.0),
];

/// Bytes of data per second of a lane at 1 GT/s, in one direction: 16 lanes at 8 GT/s carry 14 GB/s
/// (diagnosis.md 3.1).
const OF_LANE: f64 = 14e9 / 128.0;

/// A bandwidth is the limit of a link within this part of it.
const ABOUT: f64 = 0.12;

/// Returns what the bandwidth of a slow culprit in loopback says about PCIe; `None` if it is not
/// the limit of a link that carries less than good NICs do.
fn ceiling_hint(comparisons: &[Comparison], own: &Readings) -> Option<String> {
    let is_slow = |comparison: &&Comparison| {
        comparison.column == Column::WriteBandwidth && comparison.outcome == Compared::Slower
    };
    let slow = comparisons.iter().find(is_slow)?;
    let is_limit = |(_, lanes): &&(&str, f64)| {
        let limit = lanes * OF_LANE;
        limit < slow.others && (slow.own / limit - 1.0).abs() <= ABOUT
    };
    let (link, _) = LINKS.iter().find(is_limit)?;
    let gigabytes = slow.own / 1e9;
    let text = format!("{gigabytes:.1} GB/s is about the limit of a PCIe link with {link}");
    let value = |code| find(own, code)?.value.as_deref();
    let shown = value("pcie-width").zip(value("pcie-speed"));
    let number = |code| find(own, code)?.number;
    let lanes = number("pcie-width").zip(number("pcie-speed"));
    let limit = lanes.map(|(lanes, speed)| lanes * speed / 1e9 * OF_LANE);
    Some(match (shown, limit) {
        (Some((width, speed)), Some(limit)) if limit > slow.own * (1.0 + ABOUT) => {
            format!("{text}; its files show {width} at {speed}, so the limit is elsewhere")
        }
        _ => text,
    })
}

/// Which columns are slower, one of them at least, which ones are as on good NICs, and these facts
/// in words; the most special first. No text names a cause: tests or files may exclude it.
const STEPS: [(&[Column], &[Column], &str); 9] = [
    (&[FastFlows], &[], "all flows between the groups are slow alike"),
    (&[Sent], &[Received], "sending is slow, receiving is not"),
    (&[Received], &[Sent], "receiving is slow, sending is not"),
    (
        &[WriteBandwidth, ReadBandwidth],
        &[Write],
        "large operations are slow also in loopback, small ones are not",
    ),
    (
        &[Sent, Received, WriteTo, WriteFrom],
        &[Write, Read, WriteBandwidth],
        "loopback is fast, operations with other NICs are not",
    ),
    (&[Hop], &[], "hops without a CPU are slow as well, so it is not the CPU alone"),
    (&[Write], &[Hop, WriteBandwidth], "small writes are slow, hops without a CPU are not"),
    (
        &[Write, Read],
        &[WriteBandwidth],
        "small operations are slow also in loopback, large ones are not",
    ),
    (&[Write, Read, WriteBandwidth, ReadBandwidth], &[], "the NIC is slow also in loopback"),
];

/// Returns what is slow, in words; `None` if the tests do not say where.
fn seen(comparisons: &[Comparison]) -> Option<String> {
    let find = |column: Column| comparisons.iter().find(|found| found.column == column);
    let is = |column: Column, expected: Compared| {
        find(column).is_some_and(|found| found.outcome == expected)
    };
    let bandwidths = [WriteBandwidth, ReadBandwidth, Sent, Received];
    let is_late = [Write, WriteTo, WriteFrom].into_iter().all(|way| is(way, Compared::Slower));
    if is_late && !bandwidths.into_iter().any(|column| is(column, Compared::Slower)) {
        let longer = find(WriteTo).map(|found| (found.own - found.others) / 1e3)?;
        let place = match find(Hop).map(|hop| hop.outcome) {
            Some(Compared::Slower) => "at the NIC or its link",
            Some(Compared::Same) => "at the CPU or on its way to the NIC",
            _ => "at the NIC, its link or its node",
        };
        let decimals = if longer < 10.0 { 1 } else { 0 };
        return Some(format!("slow in both roles, latency +{longer:.decimals$} us {place}"));
    }
    let steps = STEPS.iter().find(|(slower, same, _)| {
        slower.iter().any(|column| is(*column, Compared::Slower))
            && same.iter().all(|column| is(*column, Compared::Same))
    });
    steps.map(|(_, _, says)| (*says).to_owned())
}

#[cfg(test)]
mod ceilings_tests {
    use super::*;
    use facts::severity::Severity;
    use health::item::testing::reading;

    fn comparison(own: f64, others: f64) -> Comparison {
        Comparison {
            column: Column::WriteBandwidth,
            is_bandwidth: true,
            own,
            others,
            shares: (own / others, own / others),
            outcome: Compared::Slower,
            is_beside_busy: false,
        }
    }

    fn pcie(width: &str, speed: &str) -> Readings {
        let items = [("pcie-width", width), ("pcie-speed", speed)];
        items.map(|(code, value)| reading(code, value, Severity::Good)).into()
    }

    #[test]
    fn bandwidth_names_the_link() {
        let text_for =
            |own: f64, others: f64| ceiling_hint(&[comparison(own, others)], &Vec::new());
        let expected = "13.9 GB/s is about the limit of a PCIe link with 16 lanes at 8 GT/s or 8 \
                        lanes at 16 GT/s";
        assert_eq!(text_for(13.9e9, 23e9).as_deref(), Some(expected));
        // Within 12 % of 14 GB/s.
        for (own, is_near) in [(12.3e9, false), (12.4e9, true), (15.6e9, true), (15.7e9, false)] {
            assert_eq!(text_for(own, 23e9).is_some(), is_near, "{own}");
        }
        // The link of good NICs is the limit of a larger one.
        assert!(text_for(28e9, 46e9).is_some_and(|text| text.ends_with("16 lanes at 16 GT/s")));
        assert_eq!(text_for(28e9, 27.5e9), None);
        assert_eq!(text_for(0.1e9, 0.2e9), None);
    }

    #[test]
    fn other_outcomes_and_columns_say_nothing() {
        let same = Comparison { outcome: Compared::Same, ..comparison(14e9, 23e9) };
        let sent = Comparison { column: Column::Sent, ..comparison(14e9, 23e9) };
        assert_eq!(ceiling_hint(&[same, sent], &Vec::new()), None);
    }

    #[test]
    fn faster_link_in_the_files_contradicts() {
        let text =
            |width, speed| ceiling_hint(&[comparison(13.9e9, 23e9)], &pcie(width, speed)).unwrap();
        let end = "; its files show x16 at 16.0 GT/s, so the limit is elsewhere";
        assert!(text("x16", "16.0 GT/s").ends_with(end));
        // These carry about as much.
        assert!(text("x8", "16.0 GT/s").ends_with("8 lanes at 16 GT/s"));
        assert!(text("x16", "8.0 GT/s").ends_with("8 lanes at 16 GT/s"));
    }
}

#[cfg(test)]
#[path = "evaluation_tests.rs"]
mod tests;

#[cfg(test)]
mod seen_tests {
    use super::*;

    fn comparison(column: Column, outcome: Compared) -> Comparison {
        Comparison {
            column,
            is_bandwidth: false,
            own: 102_400.0,
            others: 2_000.0,
            shares: (1.0, 1.0),
            outcome,
            is_beside_busy: false,
        }
    }

    /// Returns what is seen if these columns are slower, and the others are not.
    fn says(slower: &[Column]) -> Option<String> {
        let outcome = |column| {
            if slower.contains(&column) { Compared::Slower } else { Compared::Same }
        };
        seen(&Column::ALL.map(|column| comparison(column, outcome(column))))
    }

    #[test]
    fn each_step_is_the_first_for_something() {
        for (slower, start) in [
            (&[WriteBandwidth, Sent, Received][..], "large operations"),
            (&[Write, Read, WriteTo], "small writes are slow, hops without a CPU are not"),
            (&[Write, Read, WriteTo, Hop], "hops without a CPU are slow as well"),
            (&[Read, WriteTo], "small operations"),
            (&[Write, WriteBandwidth, WriteTo, Hop], "hops without a CPU are slow as well"),
            (&[WriteTo, Hop], "loopback is fast"),
            (&[Write, WriteBandwidth], "the NIC is slow also in loopback"),
            (&[Sent], "sending is slow"),
            (&[Sent, WriteBandwidth], "sending is slow"),
            (&[Received], "receiving is slow"),
            (&[Sent, Received], "loopback is fast"),
            (&[WriteFrom], "loopback is fast"),
            (&[Sent, FastFlows], "all flows between the groups"),
        ] {
            let says = says(slower).unwrap_or_default();
            assert!(says.starts_with(start), "{slower:?}: {says}");
        }
        assert_eq!(says(&[]), None);
        assert_eq!(says(&[Column::Tail, Column::Survey]), None);
    }

    #[test]
    fn latency_of_both_roles_has_a_place() {
        let both = [Write, WriteTo, WriteFrom];
        let text = "slow in both roles, latency +100 us at the";
        let with_hops = says(&[&both[..], &[Hop]].concat());
        assert_eq!(with_hops, Some(format!("{text} NIC or its link")));
        assert_eq!(says(&both), Some(format!("{text} CPU or on its way to the NIC")));
        let without_hops = both.map(|column| comparison(column, Compared::Slower));
        assert_eq!(seen(&without_hops), Some(format!("{text} NIC, its link or its node")));
        // A bandwidth that the latency does not explain is another fault.
        let with_bandwidth = says(&[&both[..], &[Hop, Sent]].concat()).unwrap();
        assert!(with_bandwidth.starts_with("sending is slow"), "{with_bandwidth}");
    }

    #[test]
    fn tests_that_were_not_measured_say_nothing() {
        let sent = comparison(Sent, Compared::Slower);
        assert_eq!(seen(&[sent]), None);
        assert_eq!(seen(&[sent, comparison(Received, Compared::Unclear)]), None);
    }
}
