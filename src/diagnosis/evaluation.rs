//! Readings and figures -> causes, each as sure as the evidence permits (diagnosis.md 6.2).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Expected, Sign};
use crate::causes::{CAUSES, cause};
use crate::ceilings;
use crate::columns::Column;
use crate::comparison::{Compared, Comparison, Figures, Measured, compare};
use crate::majority::{self, Difference};
use crate::next_steps::next_step;
use crate::procedure::TestCode;
use crate::readings::{Reading, Readings, find, number};
use facts::severity::Severity;

/// Most causes that are named by their figures alone.
const MOST_POSSIBLE: usize = 3;

/// The cause that counters of lost packets prove.
const LOSS: &str = "loss";

/// Cells beside the decisive ones that must hold for a certain cause.
const FURTHER: usize = 2;

/// How sure a cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Direct evidence proves the cause, and the tests show what it makes slow.
    Because,
    /// There is direct evidence, and tests do not contradict it.
    Probably,
    /// The tests fit, without direct evidence; or only a difference from other NICs is known.
    Possibly,
    /// There is direct evidence, and tests contradict it.
    AlsoFound,
    /// The culprit was slow, and is not slow now.
    Transient,
    /// Processes waited for CPUs, so that the tests do not show whether the culprit is slow.
    NotMeasured,
    /// Nothing that was read or measured explains the culprit.
    Unknown,
}

impl Confidence {
    /// Returns its name in documents and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Because => "because",
            Self::Probably => "probably",
            Self::Possibly => "possibly",
            Self::AlsoFound => "also_found",
            Self::Transient => "transient",
            Self::NotMeasured => "not_measured",
            Self::Unknown => "unknown",
        }
    }
}

/// What is known about a culprit.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The items of the culprit.
    pub own: &'a Readings,
    /// The items of good NICs of the same kind.
    pub others: &'a [Readings],
    /// The figures.
    pub measured: &'a Measured,
    /// Whether operations of the culprit failed in the survey.
    pub fails: bool,
    /// Whether the good NICs are known to be good. If not, no cause is certain.
    pub has_good_controls: bool,
}

/// A cause, or that there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Why {
    /// The id of the cause; null if none is known.
    pub cause: Option<String>,
    /// How sure it is.
    pub confidence: Confidence,
    /// The cause in words; if none is known, what the tests show together, or null.
    pub what: Option<String>,
    /// What supports it, and what contradicts it.
    pub evidence: Vec<Observation>,
    /// What to do, or where to look; null if that is not known.
    #[serde(rename = "do")]
    pub advice: Option<String>,
    /// Who can do it: user, root, fabric manager or hands; null if nothing is to be done.
    pub by: Option<String>,
}

impl Why {
    /// Returns the entry of a culprit of which nothing is known.
    pub fn unknown() -> Self {
        Self {
            cause: None,
            confidence: Confidence::Unknown,
            what: None,
            evidence: Vec::new(),
            advice: None,
            by: None,
        }
    }
}

/// An item, or a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Observation {
    /// Code of an item of check, or of a test: L1, or L2-L1 for a difference.
    pub test: String,
    /// It in words.
    pub text: String,
    /// The figure of the culprit, in nanoseconds or bytes per second; null for an item.
    pub own: Option<f64>,
    /// The figure of good NICs.
    pub others: Option<f64>,
    /// Unit of the figures: ns or B/s.
    pub unit: Option<String>,
    /// What the cause makes of the figure.
    pub expected: Option<String>,
    /// Whether it contradicts the cause.
    pub contradicts: bool,
}

/// What was found about a culprit.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// The causes, the surest first; at least one entry.
    pub whys: Vec<Why>,
    /// Items in which the culprit differs from good NICs.
    pub differs: Vec<Difference>,
    /// Ids of causes that files or tests exclude.
    pub excluded: Vec<String>,
}

/// Returns what is known about the causes of a culprit.
pub fn evaluate(case: Case) -> Diagnosis {
    let Assessed { comparisons, differs, mut all } = Assessed::of(case);
    let voids = |assessment: &&Assessment| assessment.cause.voids && !assessment.signs.is_empty();
    if let Some(found) = all.iter().find(voids) {
        // What needs no figures stays known.
        let others = || all.iter().filter(|assessment| !assessment.signs.is_empty());
        let failing = others().filter(|assessment| case.fails && assessment.cause.fails);
        let failing = failing.map(|assessment| assessment.why(Confidence::Because));
        let proved = others().filter(|assessment| assessment.has_bad_sign());
        let proved = proved.chain([found]).map(|assessment| assessment.why(Confidence::Probably));
        return Diagnosis {
            whys: failing.chain(proved).collect(),
            differs: Vec::new(),
            excluded: Vec::new(),
        };
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
    let has_slow = comparisons.iter().any(|comparison| comparison.outcome == Compared::Slower);
    let is_as_fast = !has_slow && !comparisons.is_empty() && !case.fails;
    let mut found: Vec<(Confidence, usize, &Assessment)> = Vec::new();
    for candidate in &all {
        let confidence = match candidate.confidence(case.fails, loses) {
            // The certain cause explains what is slow.
            Some(Confidence::Probably | Confidence::Possibly)
                if has_certain && candidate.matched.is_empty() =>
            {
                Some(Confidence::AlsoFound)
            }
            // There is nothing that it explains.
            Some(Confidence::Possibly) if is_as_fast && candidate.has_no_known_effect() => {
                Some(Confidence::AlsoFound)
            }
            // Failures need no comparison.
            Some(Confidence::Because) if !case.has_good_controls && !candidate.cause.fails => {
                Some(Confidence::Probably)
            }
            other => other,
        };
        found.extend(confidence.map(|confidence| (confidence, candidate.matched.len(), candidate)));
    }
    let is_known = |(confidence, _, assessment): &(Confidence, usize, &Assessment)| {
        *confidence < Confidence::Possibly
            || *confidence == Confidence::Possibly
                && !assessment.signs.is_empty()
                && !assessment.has_no_known_effect()
    };
    if has_slow && !found.iter().any(is_known) {
        let mut possible: Vec<_> =
            all.iter().filter(|assessment| assessment.fits(&comparisons)).collect();
        possible.sort_by_key(|assessment| std::cmp::Reverse(assessment.matched.len()));
        let possible = possible.into_iter().take(MOST_POSSIBLE);
        found.extend(
            possible.map(|assessment| (Confidence::Possibly, assessment.matched.len(), assessment)),
        );
    }
    // What files and counters prove comes before what figures show.
    found.sort_by_key(|(confidence, matched, assessment)| {
        (*confidence, !assessment.has_proof(), std::cmp::Reverse(*matched))
    });
    let excluded = all.iter().filter(|assessment| assessment.is_excluded());
    let excluded = excluded.map(|assessment| assessment.cause.id.to_owned()).collect();
    let mut whys: Vec<Why> =
        found.iter().map(|(how, _, assessment)| assessment.why(*how)).collect();
    let explains = |why: &Why| why.confidence < Confidence::AlsoFound;
    if !whys.iter().any(explains) {
        whys.insert(0, without_cause(case, &comparisons));
    }
    let hint = ceilings::hint(&comparisons, case.own).map(|text| item("pcie-ceiling", &text));
    let is_open =
        |why: &&mut Why| matches!(why.confidence, Confidence::Possibly | Confidence::Unknown);
    for why in whys.iter_mut().filter(is_open) {
        why.evidence.extend(hint.clone());
    }
    Diagnosis { whys, differs, excluded }
}

impl Diagnosis {
    /// Returns whether figures would say nothing more: the first cause is certain, or a cause makes
    /// figures say nothing.
    pub fn is_final(&self) -> bool {
        let is_certain = |why: &Why| why.confidence == Confidence::Because;
        let voids = |why: &Why| {
            let known = why.cause.as_deref().and_then(cause);
            known.is_some_and(|cause| cause.voids)
        };
        self.whys.first().is_some_and(is_certain) || self.whys.iter().any(voids)
    }
}

/// Returns the tests that contradict causes with direct evidence: one measurement may have been an
/// accident, so they are worth a second one.
pub fn doubtful(case: Case) -> Vec<TestCode> {
    let proved =
        Assessed::of(case).all.into_iter().filter(|assessment| !assessment.signs.is_empty());
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

/// Returns whether the culprit is slower in a column, whatever its process waited.
fn is_slow(comparisons: &[Comparison]) -> bool {
    let mut all = comparisons.iter();
    all.any(|comparison| {
        comparison.outcome == Compared::Slower && comparison.column != Column::Waiting
    })
}

/// Returns the entry of a culprit without a cause: it is transient if the test that found it is as
/// fast as on good NICs now.
fn without_cause(case: Case, comparisons: &[Comparison]) -> Why {
    let is_slow = is_slow(comparisons);
    let survey = comparisons.iter().find(|comparison| comparison.column == Column::Survey);
    let is_same = survey.is_some_and(|comparison| comparison.outcome == Compared::Same);
    let is_transient = !case.fails && !is_slow && is_same;
    let has_waited = case.measured.values().any(Figures::has_waited);
    let shown = |comparison: &&Comparison| {
        comparison.outcome == Compared::Slower || comparison.column == Column::Survey
    };
    let mut evidence: Vec<Observation> =
        comparisons.iter().filter(shown).map(|comparison| evidence(comparison, None)).collect();
    let failure = case.measured.get(&TestCode::S);
    if let Some(why) = failure.and_then(|figures| figures.failure.clone()) {
        evidence.push(Observation { text: why, ..item("S", "") });
    }
    let next = next_step(comparisons).filter(|_| !case.fails);
    Why {
        confidence: if is_transient {
            Confidence::Transient
        } else if has_waited && !is_slow && !case.fails {
            Confidence::NotMeasured
        } else {
            Confidence::Unknown
        },
        what: next.map(|step| step.says.to_owned()),
        evidence,
        advice: next.map(|step| step.advice.to_owned()),
        by: next.map(|step| step.by.name().to_owned()),
        ..Why::unknown()
    }
}

/// How each cause fits.
struct Assessed {
    comparisons: Vec<Comparison>,
    differs: Vec<Difference>,
    all: Vec<Assessment>,
}

impl Assessed {
    fn of(case: Case) -> Self {
        let comparisons = compare(case.measured);
        let differs = majority::differences(case.own, case.others);
        let normals = majority::normals(case.others);
        let all = CAUSES.iter();
        let all = all.map(|cause| Assessment::of(cause, case, &comparisons, &differs, &normals));
        let all = all.collect();
        Self { comparisons, differs, all }
    }
}

/// How one cause fits.
struct Assessment {
    cause: &'static Cause,
    /// What proves it, with texts of items.
    signs: Vec<(Sign, String)>,
    /// Whether one of its items is bad, not only suspect.
    is_bad: bool,
    /// Whether only differences from other NICs prove it.
    only_differs: bool,
    /// Whether each of its signs can be read, and none other than a sign shows it.
    is_readable: bool,
    matched: Vec<(Comparison, Expected)>,
    contradicted: Vec<(Comparison, Expected)>,
}

impl Assessment {
    fn of(
        cause: &'static Cause,
        case: Case,
        comparisons: &[Comparison],
        differs: &[Difference],
        normals: &BTreeMap<&str, &str>,
    ) -> Self {
        let is_sign = |reading: &&Reading| {
            let mut codes = cause.signs.iter().filter_map(|sign| sign.code());
            codes.any(|code| code == reading.code)
        };
        let mut own = case.own.iter().filter(is_sign);
        let has_bad = own.any(|reading| reading.state == Severity::Bad);
        let mut share = None;
        let held = cause.signs.iter().filter_map(|sign| {
            if let Sign::Cures(column) = sign {
                return cures(*column, comparisons).then(|| (*sign, String::new()));
            }
            // An item without a value can be bad: the NIC lacks what it must have.
            let reading =
                case.own.iter().find(|reading| Some(reading.code.as_str()) == sign.code())?;
            let text = match sign {
                Sign::Bad(_) => (reading.state == Severity::Bad).then(|| reading.text.clone()),
                Sign::Wrong(code) | Sign::BadAlone(code) => {
                    let is_wrong = matches!(sign, Sign::Wrong(_)) && reading.state.is_wrong();
                    let is_common = majority::is_common(code, reading.state, case.others);
                    let holds = is_wrong || reading.state == Severity::Bad;
                    (holds && !is_common).then(|| reading.text.clone())
                }
                Sign::Differs(code) | Sign::Less(code) | Sign::More(code, _) => {
                    let own = differs.iter().find(|differ| differ.attribute == *code)?;
                    let [value, normal] = [number(&own.own), number(&own.normal)];
                    let fits = match sign {
                        // A value without a number, such as "Disabled", is less than any.
                        Sign::Less(_) => value < normal,
                        Sign::More(_, least) => value > normal && value > Some(*least),
                        _ => true,
                    };
                    (own.supports && !has_bad && fits).then(|| difference_text(own))
                }
                Sign::Cures(_) => None,
            }?;
            let normal_difference = differs.iter().find(|differ| differ.attribute == reading.code);
            let share_of_normal = normal_difference.and_then(|difference| {
                Some(number(&difference.own)? / number(&difference.normal)?)
            });
            share = share.or(match sign {
                Sign::Less(_) => share_of_normal,
                _ => reading.share,
            });
            Some((*sign, text))
        });
        let held: Vec<(Sign, String)> = held.collect();
        let is_readable = |sign: &Sign| match sign {
            Sign::Wrong(code) | Sign::Bad(code) => {
                find(case.own, code).is_some_and(|reading| reading.state >= Severity::Good)
            }
            Sign::BadAlone(code) => {
                find(case.own, code).is_some_and(|reading| reading.state == Severity::Good)
            }
            Sign::Differs(code) | Sign::Less(code) | Sign::More(code, _) => {
                find(case.own, code).is_some() && normals.contains_key(code)
            }
            Sign::Cures(_) => false,
        };
        let mut found = Self {
            cause,
            is_bad: has_bad,
            only_differs: held
                .iter()
                .all(|(sign, _)| !matches!(sign, Sign::Wrong(_) | Sign::Bad(_) | Sign::Cures(_))),
            signs: held,
            is_readable: cause.files_exclude
                && !cause.signs.is_empty()
                && cause.signs.iter().all(is_readable),
            matched: Vec::new(),
            contradicted: Vec::new(),
        };
        for (column, expected) in cause.expected {
            let Some(measured) = comparisons.iter().find(|comparison| comparison.column == *column)
            else {
                continue;
            };
            match holds(*expected, measured, share) {
                Some(true) => found.matched.push((*measured, *expected)),
                Some(false) => found.contradicted.push((*measured, *expected)),
                None => {}
            }
        }
        found
    }

    /// Returns how sure the cause is by direct evidence; `None` without any.
    fn confidence(&self, fails: bool, loses: bool) -> Option<Confidence> {
        if self.signs.is_empty() {
            return None;
        }
        Some(if self.cause.fails {
            match (fails, self.is_bad) {
                (true, true) => Confidence::Because,
                // It may be the effect of another cause.
                (true, false) => Confidence::Probably,
                (false, true) if loses => Confidence::Probably,
                (false, _) => Confidence::AlsoFound,
            }
        } else if !self.contradicted.is_empty() {
            if self.is_shown() && self.is_beside_another() {
                Confidence::Probably
            } else {
                Confidence::AlsoFound
            }
        } else if self.is_shown() {
            Confidence::Because
        } else if self.only_differs && !self.shows_decisive_slowness() {
            Confidence::Possibly
        } else {
            Confidence::Probably
        })
    }

    /// Returns whether a file or a counter proves the cause.
    fn has_proof(&self) -> bool {
        let mut signs = self.signs.iter();
        signs.any(|(sign, _)| sign.code().is_some())
    }

    /// Returns whether an item that is bad, whatever good NICs have, proves the cause.
    fn has_bad_sign(&self) -> bool {
        let mut signs = self.signs.iter();
        signs.any(|(sign, _)| matches!(sign, Sign::Bad(_)))
    }

    /// Returns whether every sign of the cause is a state whose effect on figures is unknown.
    fn has_no_known_effect(&self) -> bool {
        let mut signs = self.signs.iter();
        !self.signs.is_empty() && signs.all(|(sign, _)| matches!(sign, Sign::BadAlone(_)))
    }

    /// Returns whether a bandwidth is as low as it makes it, and all that contradicts it are
    /// latencies that it does not make longer: another cause does.
    fn is_beside_another(&self) -> bool {
        let is_share = |expected: &Expected| {
            matches!(expected, Expected::MustBeAsSign | Expected::MustBeShare(..))
        };
        let has_share = self.matched.iter().any(|(_, expected)| is_share(expected));
        let mut contradicted = self.contradicted.iter();
        has_share
            && contradicted
                .all(|(comparison, expected)| !comparison.is_bandwidth && expected.is_same())
    }

    /// Returns whether the tests show what the cause makes slow: all that is decisive holds, and
    /// further ones.
    fn is_shown(&self) -> bool {
        self.has_all_decisive() && self.matched.len() >= self.decisive_count() + FURTHER
    }

    fn has_all_decisive(&self) -> bool {
        let held = self.matched.iter().filter(|(_, expected)| expected.is_decisive());
        self.decisive_count() > 0 && held.count() == self.decisive_count()
    }

    /// Returns whether something is slow as the cause makes it, and all that is decisive holds.
    fn shows_decisive_slowness(&self) -> bool {
        self.has_all_decisive() && self.matched.iter().any(|(_, expected)| !expected.is_same())
    }

    fn decisive_count(&self) -> usize {
        let expected = self.cause.expected.iter();
        expected.filter(|(_, expected)| expected.is_decisive()).count()
    }

    /// Returns whether the tests alone permit the cause: everything that is slow is slow because of
    /// it, and nothing contradicts it.
    fn fits(&self, comparisons: &[Comparison]) -> bool {
        // Other processes make single operations late, whatever the cause is.
        let beside = [Column::Survey, Column::Tail, Column::Waiting];
        let slow = comparisons.iter().filter(|comparison| {
            comparison.outcome == Compared::Slower && !beside.contains(&comparison.column)
        });
        let is_explained = |comparison: &Comparison| {
            let mut expected = self.cause.expected.iter();
            expected.any(|(column, expected)| *column == comparison.column && !expected.is_same())
        };
        self.signs.is_empty()
            && !self.is_readable
            && self.contradicted.is_empty()
            && self.has_all_decisive()
            && self.matched.iter().any(|(_, expected)| !expected.is_same())
            && self.matched.len() >= FURTHER
            && slow.into_iter().all(is_explained)
    }

    /// Returns whether files or tests exclude the cause: only a test that would have shown it can.
    fn is_excluded(&self) -> bool {
        let mut contradicted = self.contradicted.iter();
        let is_shown_not =
            |(comparison, expected): &(Comparison, Expected)| match comparison.outcome {
                // It would have been slow.
                Compared::Same => !expected.is_same(),
                // It would have been fast in the other way.
                Compared::Slower => expected.is_same() && comparison.column.repeats().is_some(),
                Compared::Unclear => false,
            };
        self.signs.is_empty() && (self.is_readable || contradicted.any(is_shown_not))
    }

    /// Returns the columns that are slow because of it.
    fn slows(&self) -> Vec<Column> {
        let slow = self.matched.iter().filter(|(_, expected)| !expected.is_same());
        slow.map(|(comparison, _)| comparison.column).collect()
    }

    /// Leaves out what contradicts it in columns that a certain cause makes slow.
    fn leave_out_slow(&mut self, explained: &[Column]) {
        self.contradicted.retain(|(comparison, _)| !explained.contains(&comparison.column));
    }

    fn why(&self, confidence: Confidence) -> Why {
        let signs = self.signs.iter().filter_map(|(sign, text)| Some(item(sign.code()?, text)));
        let matched = self
            .matched
            .iter()
            .map(|(comparison, expected)| evidence(comparison, Some((*expected, false))));
        let contradicted = self.contradicted.iter();
        let contradicted = contradicted
            .map(|(comparison, expected)| evidence(comparison, Some((*expected, true))));
        Why {
            cause: Some(self.cause.id.into()),
            confidence,
            what: Some(self.cause.what.into()),
            evidence: signs.chain(matched).chain(contradicted).collect(),
            advice: Some(self.cause.advice.into()),
            by: Some(self.cause.by.name().into()),
        }
    }
}

/// Returns whether a culprit is as fast as good NICs in a column that repeats one in which it is
/// slower.
fn cures(column: Column, comparisons: &[Comparison]) -> bool {
    let outcome =
        |column: Column| comparisons.iter().find(|own| own.column == column).map(|own| own.outcome);
    let slow = Column::ALL.into_iter().find(|candidate| column.repeats() == Some(*candidate));
    outcome(column) == Some(Compared::Same) && slow.and_then(outcome) == Some(Compared::Slower)
}

/// A share of the bandwidth is about the share of a sign within these factors: good NICs may be
/// limited by their links.
const ABOUT: (f64, f64) = (0.75, 1.4);

/// Returns whether a column is as expected; `None` if the figures do not say. `share` is the share
/// of the sign of the cause.
fn holds(expected: Expected, comparison: &Comparison, share: Option<f64>) -> Option<bool> {
    let (least, most) = comparison.shares;
    let is_between = |low: f64, high: f64| {
        if comparison.outcome == Compared::Slower && least >= low && most <= high {
            Some(true)
        } else {
            (least > high || most < low).then_some(false)
        }
    };
    match (expected, comparison.outcome) {
        (Expected::Varies, _) => None,
        (Expected::AtLeast(share), _) if least >= share => Some(true),
        (Expected::AtLeast(share), _) => (most < share).then_some(false),
        (Expected::Share(low, high) | Expected::MustBeShare(low, high), _) => is_between(low, high),
        (Expected::AsSign | Expected::MustBeAsSign, _) => {
            let share = share?;
            is_between(share * ABOUT.0, share * ABOUT.1)
        }
        (_, Compared::Unclear) => None,
        (_, outcome) => Some(expected.is_same() == (outcome == Compared::Same)),
    }
}

fn item(code: &str, text: &str) -> Observation {
    Observation {
        test: code.to_owned(),
        text: text.to_owned(),
        own: None,
        others: None,
        unit: None,
        expected: None,
        contradicts: false,
    }
}

/// Returns a column as evidence, with what a cause makes of it and whether it contradicts the
/// cause.
fn evidence(comparison: &Comparison, expected: Option<(Expected, bool)>) -> Observation {
    Observation {
        own: Some(comparison.own),
        others: Some(comparison.others),
        unit: Some(if comparison.is_bandwidth { "B/s" } else { "ns" }.into()),
        expected: expected.map(|(expected, _)| expected.words()),
        contradicts: expected.is_some_and(|(_, contradicts)| contradicts),
        ..item(&comparison.column.code(), &comparison.name())
    }
}

/// Returns a difference from most good NICs, in words.
pub fn difference_text(difference: &Difference) -> String {
    format!(
        "{} {}, {} of {} others {}",
        difference.name,
        difference.own,
        difference.with_normal,
        difference.of,
        majority::common_text(&difference.attribute, &difference.normal)
    )
}

#[cfg(test)]
#[path = "evaluation_tests.rs"]
mod tests;
