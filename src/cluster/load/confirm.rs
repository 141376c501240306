//! What is measured again, and what the retests say about the first measurement (load.md 3.7).

use super::findings::{Grade, LoadFigure, LoadFindings, LoadJudgement, LoadUnit};
use super::pattern::Pattern;
use super::scene::Purpose;
use super::sets::MOST_GOOD;
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

/// Returns whether a judgement follows from a step. What names a slow part compares the flows of
/// all bisections.
fn is_about(judgement: &LoadJudgement, step: &CourseStep) -> bool {
    if judgement.figure == LoadFigure::Bandwidth {
        return matches!(step.purpose, Purpose::Bandwidth(Pattern::Bisect { .. }));
    }
    let is_of_victims = match judgement.figure {
        LoadFigure::Bandwidth => None,
        LoadFigure::ShareOfTheory
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
    } else if is_unjudged
        || judgement.figure == LoadFigure::Bandwidth && !is_good(judgement, retest)
    {
        RetestSays::Nothing
    } else {
        RetestSays::Cleared
    }
}

/// Returns whether a part was as fast as equal ones in a retest. That nobody was named does not say
/// so: the flows of a retest may not tell two parts apart.
fn is_good(judgement: &LoadJudgement, retest: &Retest) -> bool {
    let mut bandwidths = retest.findings.bandwidths.iter();
    let found = bandwidths.find(|of| of.pattern == judgement.pattern);
    let sets = found.map_or(&[][..], |of| &of.sets);
    let own = sets.iter().filter(|set| covers(judgement.unit, set.unit));
    let grades: Vec<Grade> = own.map(|set| set.grade).collect();
    // Of many good parts, some are not listed.
    let is_listed = !grades.is_empty() || sets.len() < MOST_GOOD;
    !is_listed || !grades.is_empty() && grades.iter().all(|grade| *grade == Grade::Good)
}

/// Returns whether a set is a part, or one direction of it.
fn covers(part: LoadUnit, set: LoadUnit) -> bool {
    match (part, set) {
        (
            LoadUnit::GroupLinks { from, to, both },
            LoadUnit::GroupLinks {
                from: start,
                to: end,
                ..
            },
        ) => (from, to) == (start, end) || both && (to, from) == (start, end),
        (
            LoadUnit::SwitchLinks {
                group,
                from,
                to,
                both,
            },
            LoadUnit::SwitchLinks {
                group: of,
                from: start,
                to: end,
                ..
            },
        ) => group == of && ((from, to) == (start, end) || both && (to, from) == (start, end)),
        (part, set) => part == set,
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

#[cfg(test)]
mod tests {
    use super::super::findings::{BandwidthFigures, SetFigures};
    use super::*;

    const PATTERN: &str = "bisect:system";

    fn links(from: u16, to: u16, both: bool) -> LoadUnit {
        LoadUnit::GroupLinks { from, to, both }
    }

    /// Returns a retest that names nobody, with these grades of links.
    fn retest(sets: &[(LoadUnit, Grade)]) -> LoadFindings {
        let of_set = |(unit, grade): &(LoadUnit, Grade)| SetFigures {
            unit: *unit,
            flows: 8,
            per_flow: 1e9,
            ratio: 1.0,
            theory: None,
            grade: *grade,
        };
        LoadFindings {
            bandwidths: vec![BandwidthFigures {
                pattern: PATTERN.into(),
                slots: 8,
                nics: 16,
                unjudged: 0,
                mean: 1e9,
                sum: 8e9,
                min: 1e9,
                p1: 1e9,
                percentiles: [1e9; 7],
                theory: None,
                share_of_theory: None,
                ratio_to_quiet: None,
                sets: sets.iter().map(of_set).collect(),
                stars: Vec::new(),
                grade: Grade::Good,
            }],
            ..LoadFindings::default()
        }
    }

    #[test]
    fn retest_that_names_nobody_clears_only_a_fast_part() {
        let judgement = LoadJudgement {
            unit: links(0, 2, true),
            grade: Grade::Bad,
            certainty: None,
            pattern: PATTERN.into(),
            figure: LoadFigure::Bandwidth,
            value: 0.3,
            limit: 0.9,
            evidence: Vec::new(),
        };
        let name = PATTERN.to_owned();
        let after = |sets: &[(LoadUnit, Grade)]| {
            let retest = || Retest {
                findings: retest(sets),
                measured: vec![&name],
            };
            certainty(&judgement, &[retest(), retest()])
        };
        let [one, back, other] = [links(0, 2, false), links(2, 0, false), links(1, 3, false)];
        let good = Grade::Good;
        assert_eq!(after(&[(one, good), (back, good)]), Certainty::Transient);
        assert_eq!(
            after(&[(one, good), (back, Grade::Bad)]),
            Certainty::Suspect
        );
        assert_eq!(after(&[(one, Grade::Slow)]), Certainty::Suspect);
        assert_eq!(after(&[(other, good)]), Certainty::Suspect);
        assert_eq!(after(&[(other, good); MOST_GOOD]), Certainty::Transient);
    }
}
