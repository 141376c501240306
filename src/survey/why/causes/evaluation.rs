//! Readings and figures -> causes, each as sure as the evidence permits (diagnosis.md 6.2).

use std::cmp::Reverse;

use crate::causes::assessment::{Assessed, Assessment, Case};
use crate::causes::ceilings;
use crate::causes::columns::Column;
use crate::causes::comparison::{Compared, Comparison, TestFigures};
use crate::causes::procedure::TestCode;
use crate::causes::seen::seen;
use crate::causes::table::cause;
use crate::causes::why::{Confidence, Observation, Why, evidence, item};
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

/// Returns whether a cause that was found explains that the culprit is slow.
fn explains_slowness((confidence, assessment): &(Confidence, &Assessment)) -> bool {
    *confidence < Confidence::Possibly
        || *confidence == Confidence::Possibly
            && !assessment.signs.is_empty()
            && !assessment.has_no_known_effect()
}

/// Returns the cause that the figures fit, if they fit no other one: the cause that files have left
/// over need not be it.
fn shown_by_tests<'a>(all: &'a [Assessment], comparisons: &[Comparison]) -> Option<&'a Assessment> {
    let mut possible = all.iter().filter(|assessment| assessment.explains(comparisons));
    let only = possible.next().filter(|assessment| assessment.fits())?;
    possible.next().is_none().then_some(only)
}

/// Returns the entries of the causes that were found, or one that says that there is none.
fn whys(case: Case, comparisons: &[Comparison], found: &[(Confidence, &Assessment)]) -> Vec<Why> {
    let mut whys: Vec<Why> =
        found.iter().map(|(confidence, assessment)| assessment.why(*confidence)).collect();
    if !whys.iter().any(|why| why.confidence < Confidence::AlsoFound) {
        whys.insert(0, without_cause(case, comparisons));
    }
    let hint = ceilings::hint(comparisons, case.own).map(|text| item("pcie-ceiling", &text));
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

#[cfg(test)]
#[path = "evaluation_tests.rs"]
mod tests;
