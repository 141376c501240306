//! What is measured again, and what the retests say about the first measurement (load.md 3.7).

use super::course::CourseStep;
use super::findings::{BandwidthFigures, Grade, LoadFigure, LoadFindings, LoadJudgement, LoadUnit};
use super::spec::Pattern;
use crate::slot::LoadMeasurement;
use campaign::quiet::findings::{Certainty, Direction};

/// Number of retests.
pub const RETESTS: usize = 2;

/// Returns the steps that are measured again: the quiet bandwidth, and the steps of judgements
/// about bad parts. It is empty without such judgements.
pub fn steps_again(steps: &[CourseStep], judgements: &[LoadJudgement]) -> Vec<CourseStep> {
    let bad = || judgements.iter().filter(|judgement| judgement.grade == Grade::Bad);
    if bad().next().is_none() {
        return Vec::new();
    }
    let is_quiet = |step: &CourseStep| step.purpose == LoadMeasurement::Bandwidth(Pattern::Quiet);
    let is_again =
        |step: &&CourseStep| is_quiet(step) || bad().any(|judgement| is_about(judgement, step));
    steps.iter().filter(is_again).copied().collect()
}

/// Returns whether a judgement follows from a step. What names a slow part compares the flows of
/// all bisections; lost answers and paused victims are judged over all patterns.
fn is_about(judgement: &LoadJudgement, step: &CourseStep) -> bool {
    let has_victims = matches!(step.purpose, LoadMeasurement::Victims(_));
    let is_of_pattern = judgement.pattern == step.name();
    match judgement.figure {
        LoadFigure::Bandwidth => {
            let is_bisection =
                matches!(step.purpose, LoadMeasurement::Bandwidth(Pattern::Bisect { .. }));
            is_bisection || is_of_pattern && !has_victims
        }
        LoadFigure::ShareOfTheory
        | LoadFigure::IncastSum
        | LoadFigure::Fairness
        | LoadFigure::SmallestShare
        | LoadFigure::DeadPaths => is_of_pattern && !has_victims,
        LoadFigure::Impact | LoadFigure::ImpactP99 | LoadFigure::Isolation => {
            is_of_pattern && has_victims
        }
        LoadFigure::VictimsPaused | LoadFigure::Unanswered => has_victims,
        LoadFigure::Timeouts => true,
        // It is never bad.
        LoadFigure::TargetPauses => false,
    }
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

#[derive(Debug)]
pub struct Retest<'a> {
    /// What it has found.
    pub findings: LoadFindings,
    /// Names of the patterns that it has measured; empty if it did not come to its end.
    pub measured: Vec<&'a String>,
}

/// Returns how sure the survey is about a bad part.
pub fn certainty(judgement: &LoadJudgement, retests: &[Retest]) -> Certainty {
    let says: Vec<RetestSays> = retests.iter().map(|retest| says(judgement, retest)).collect();
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
    let is_again = |load_judgement: &LoadJudgement| {
        load_judgement.grade == Grade::Bad && is_same(load_judgement, judgement)
    };
    if retest.measured.iter().all(|name| **name != judgement.pattern) {
        RetestSays::Nothing
    } else if retest.findings.judgements.iter().any(is_again) {
        RetestSays::Confirmed
    } else if was_judged(judgement, &retest.findings) {
        RetestSays::Cleared
    } else {
        RetestSays::Nothing
    }
}

/// Returns whether two judgements are about the same fault. The same one may show at one NIC or at
/// several, and by one of two figures.
fn is_same(one: &LoadJudgement, other: &LoadJudgement) -> bool {
    let family = |figure| match figure {
        LoadFigure::ImpactP99 => LoadFigure::Impact,
        LoadFigure::SmallestShare => LoadFigure::Fairness,
        figure => figure,
    };
    let units = [one.unit, other.unit];
    let is_same_unit = units[0] == units[1]
        || match one.figure {
            LoadFigure::Timeouts | LoadFigure::DeadPaths => true,
            LoadFigure::IncastSum => units.contains(&LoadUnit::System),
            _ => false,
        };
    family(one.figure) == family(other.figure) && is_same_unit
}

/// Returns whether what a judgement is about had a verdict in a retest, so that it was good where
/// it is not bad again. Processes that waited for their CPUs leave patterns without a verdict.
fn was_judged(judgement: &LoadJudgement, retest: &LoadFindings) -> bool {
    let is_judged = |grade| grade != Grade::Unjudged;
    let pattern = &judgement.pattern;
    let mut bandwidths = retest.bandwidths.iter();
    let pattern_bandwidth =
        bandwidths.find(|bandwidth| bandwidth.pattern == *pattern && is_judged(bandwidth.grade));
    match judgement.figure {
        LoadFigure::Bandwidth => {
            pattern_bandwidth.is_some_and(|bandwidth| is_good(judgement, bandwidth))
        }
        LoadFigure::ShareOfTheory | LoadFigure::Fairness | LoadFigure::SmallestShare => {
            pattern_bandwidth.is_some()
        }
        // Other targets may be good.
        LoadFigure::IncastSum => pattern_bandwidth.is_some_and(|bandwidth| {
            let mut stars = bandwidth.stars.iter();
            judgement.unit == LoadUnit::System
                || stars.any(|star| LoadUnit::Nic(star.target) == judgement.unit)
        }),
        LoadFigure::Impact | LoadFigure::ImpactP99 => {
            let mut impacts = retest.impacts.iter();
            impacts.any(|impact| impact.under == *pattern && is_judged(impact.grade))
        }
        LoadFigure::Isolation => {
            let mut isolations = retest.isolations.iter();
            isolations.any(|isolation| isolation.under == *pattern && is_judged(isolation.grade))
        }
        LoadFigure::VictimsPaused
        | LoadFigure::Unanswered
        | LoadFigure::Timeouts
        | LoadFigure::DeadPaths
        | LoadFigure::TargetPauses => true,
    }
}

/// Returns whether a part was as fast as equal ones in a retest. That nobody was named does not say
/// so: the flows of a retest may not tell two parts apart, and the set of a NIC is what it sends.
fn is_good(judgement: &LoadJudgement, found: &BandwidthFigures) -> bool {
    if judgement.direction == Some(Direction::Target) {
        return false;
    }
    let own = found.sets.iter().filter(|set| judgement.unit.covers(set.unit));
    let grades: Vec<Grade> = own.map(|set| set.grade).collect();
    !grades.is_empty() && grades.iter().all(|grade| *grade == Grade::Good)
}

/// Removes all verdicts: the figures stay.
pub fn remove_verdicts(findings: &mut LoadFindings) {
    findings.judgements.clear();
    for figures in &mut findings.bandwidths {
        figures.grade = Grade::Unjudged;
        figures.sets.iter_mut().for_each(|set| set.grade = Grade::Unjudged);
        figures.stars.iter_mut().for_each(|star| star.grade = Grade::Unjudged);
    }
    findings.impacts.iter_mut().for_each(|impact| impact.grade = Grade::Unjudged);
    findings.isolations.iter_mut().for_each(|isolation| isolation.grade = Grade::Unjudged);
}

#[cfg(test)]
mod tests {
    use super::super::findings::SetFigures;
    use super::*;
    use campaign::quiet::ids::NicId;

    const PATTERN: &str = "bisect:system";

    fn links(from: u16, to: u16, both: bool) -> LoadUnit {
        LoadUnit::GroupLinks { from, to, both }
    }

    /// Returns a retest that names nobody, with these grades of links.
    fn retest(sets: &[(LoadUnit, Grade)]) -> LoadFindings {
        let set = |(unit, grade): &(LoadUnit, Grade)| SetFigures {
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
                sets: sets.iter().map(set).collect(),
                stars: Vec::new(),
                grade: Grade::Good,
            }],
            ..LoadFindings::default()
        }
    }

    fn judgement(unit: LoadUnit, figure: LoadFigure) -> LoadJudgement {
        LoadJudgement::new(figure, unit, PATTERN, (Grade::Bad, 0.3, 0.9), Vec::new())
    }

    /// Returns how sure a judgement is after two retests with these judgements.
    fn after(first: &LoadJudgement, again: &[LoadJudgement]) -> Certainty {
        let name = PATTERN.to_owned();
        let retest = || Retest {
            findings: LoadFindings {
                judgements: again.to_vec(),
                ..retest(&[(LoadUnit::Nic(NicId(5)), Grade::Good)])
            },
            measured: vec![&name],
        };
        certainty(first, &[retest(), retest()])
    }

    #[test]
    fn fault_may_show_at_another_nic_or_by_another_figure() {
        let nic = |nic| LoadUnit::Nic(NicId(nic));
        let system = LoadUnit::System;
        for (first, again, expected) in [
            ((nic(5), LoadFigure::Timeouts), (system, LoadFigure::Timeouts), Certainty::Bad),
            ((nic(5), LoadFigure::DeadPaths), (system, LoadFigure::DeadPaths), Certainty::Bad),
            ((nic(5), LoadFigure::IncastSum), (system, LoadFigure::IncastSum), Certainty::Bad),
            ((nic(5), LoadFigure::IncastSum), (nic(6), LoadFigure::IncastSum), Certainty::Suspect),
            ((system, LoadFigure::Impact), (system, LoadFigure::ImpactP99), Certainty::Bad),
            ((system, LoadFigure::Fairness), (system, LoadFigure::SmallestShare), Certainty::Bad),
            (
                (nic(5), LoadFigure::Bandwidth),
                (nic(6), LoadFigure::Bandwidth),
                Certainty::Transient,
            ),
        ] {
            let [first, again] = [first, again].map(|(unit, figure)| judgement(unit, figure));
            assert_eq!(after(&first, &[again]), expected, "{first:?}");
        }
    }

    /// No victim was measured in the retests, and the set of a NIC is what it sends.
    #[test]
    fn retest_clears_only_what_it_has_measured() {
        for figure in [LoadFigure::Impact, LoadFigure::Isolation] {
            let first = judgement(LoadUnit::System, figure);
            assert_eq!(after(&first, &[]), Certainty::Suspect);
        }
        let mut receiver = judgement(LoadUnit::Nic(NicId(5)), LoadFigure::Bandwidth);
        assert_eq!(after(&receiver, &[]), Certainty::Transient);
        receiver.direction = Some(Direction::Target);
        assert_eq!(after(&receiver, &[]), Certainty::Suspect);
    }

    #[test]
    fn retest_that_names_nobody_clears_only_a_fast_part() {
        let judgement = judgement(links(0, 2, true), LoadFigure::Bandwidth);
        let name = PATTERN.to_owned();
        let after = |sets: &[(LoadUnit, Grade)]| {
            let retest = || Retest { findings: retest(sets), measured: vec![&name] };
            certainty(&judgement, &[retest(), retest()])
        };
        let [one, back, other] = [links(0, 2, false), links(2, 0, false), links(1, 3, false)];
        let good = Grade::Good;
        assert_eq!(after(&[(one, good), (back, good)]), Certainty::Transient);
        assert_eq!(after(&[(one, good), (back, Grade::Bad)]), Certainty::Suspect);
        assert_eq!(after(&[(one, Grade::Slow)]), Certainty::Suspect);
        assert_eq!(after(&[(other, good)]), Certainty::Suspect);
        assert_eq!(after(&[(other, good); 32]), Certainty::Suspect);
    }
}
