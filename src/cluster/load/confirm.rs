//! What is measured again, and what the retests say about the first measurement (load.md 3.7).

use super::findings::{Grade, LoadFigure, LoadFindings, LoadJudgement};
use super::pattern::Pattern;
use super::scene::Purpose;
use super::steps::CourseStep;
use crate::survey::findings::Certainty;

/// Number of retests.
pub const RETESTS: usize = 2;

/// Returns the steps that are measured again: the quiet bandwidth, and the steps of judgements
/// about bad parts. It is empty without such judgements.
pub fn steps_again(steps: &[CourseStep], judgements: &[LoadJudgement]) -> Vec<CourseStep> {
    let bad = || judgements.iter().filter(|of| of.grade == Grade::Bad);
    if bad().next().is_none() {
        return Vec::new();
    }
    let is_quiet = |step: &CourseStep| step.purpose == Purpose::Bandwidth(Pattern::Quiet);
    let is_again = |step: &&CourseStep| is_quiet(step) || bad().any(|of| is_about(of, step));
    steps.iter().filter(is_again).copied().collect()
}

/// Returns whether a judgement follows from a step.
fn is_about(judgement: &LoadJudgement, step: &CourseStep) -> bool {
    let is_of_victims = match judgement.figure {
        LoadFigure::Bandwidth
        | LoadFigure::ShareOfTheory
        | LoadFigure::IncastSum
        | LoadFigure::Fairness
        | LoadFigure::SmallestShare => Some(false),
        LoadFigure::Impact
        | LoadFigure::ImpactP99
        | LoadFigure::Isolation
        | LoadFigure::VictimsPaused
        | LoadFigure::Unanswered => Some(true),
        LoadFigure::TargetPauses | LoadFigure::Timeouts => None,
    };
    let has_victims = matches!(step.purpose, Purpose::Victims { .. });
    judgement.pattern == step.name() && is_of_victims.is_none_or(|of| of == has_victims)
}

/// What a retest says about a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetestSays {
    /// The part is bad again.
    Confirmed,
    /// The part is not bad.
    Cleared,
    /// The retest was not measured.
    Nothing,
}

/// A retest.
#[derive(Debug)]
pub struct Retest<'a> {
    /// What it has found.
    pub findings: LoadFindings,
    /// Names of the patterns that it has measured; empty if it did not come to its end.
    pub measured: Vec<&'a String>,
}

/// Returns how sure the survey is about a bad part.
pub fn certainty(judgement: &LoadJudgement, retests: &[Retest]) -> Certainty {
    let says: Vec<RetestSays> = retests
        .iter()
        .map(|retest| says(judgement, retest))
        .collect();
    let count = |wanted| says.iter().filter(|says| **says == wanted).count();
    if count(RetestSays::Confirmed) == RETESTS {
        Certainty::Bad
    } else if count(RetestSays::Cleared) > 0 {
        Certainty::Transient
    } else {
        Certainty::Suspect
    }
}

fn says(judgement: &LoadJudgement, retest: &Retest) -> RetestSays {
    let is_again = |of: &LoadJudgement| {
        of.grade == Grade::Bad && (of.unit, of.figure) == (judgement.unit, judgement.figure)
    };
    // Processes that waited for their CPUs leave a pattern without a verdict.
    let mut bandwidths = retest.findings.bandwidths.iter();
    let is_unjudged =
        bandwidths.any(|of| of.pattern == judgement.pattern && of.grade == Grade::Unjudged);
    if retest
        .measured
        .iter()
        .all(|name| **name != judgement.pattern)
    {
        RetestSays::Nothing
    } else if retest.findings.judgements.iter().any(is_again) {
        RetestSays::Confirmed
    } else if is_unjudged {
        RetestSays::Nothing
    } else {
        RetestSays::Cleared
    }
}

/// Removes all verdicts: the figures stay.
pub fn remove_verdicts(findings: &mut LoadFindings) {
    findings.judgements.clear();
    for figures in &mut findings.bandwidths {
        figures.grade = Grade::Unjudged;
        figures
            .sets
            .iter_mut()
            .for_each(|of| of.grade = Grade::Unjudged);
        figures
            .stars
            .iter_mut()
            .for_each(|of| of.grade = Grade::Unjudged);
    }
    findings
        .impacts
        .iter_mut()
        .for_each(|of| of.grade = Grade::Unjudged);
    findings
        .isolations
        .iter_mut()
        .for_each(|of| of.grade = Grade::Unjudged);
}
