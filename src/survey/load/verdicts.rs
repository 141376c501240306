//! Judgements on figures, each cause once; what is measured again, and what the retests say about
//! the first judgements (load.md 3.7).

use std::collections::{BTreeMap, BTreeSet};

use super::bandwidths::is_judged_by_share;
use super::course::CourseStep;
use super::findings::{
    BandwidthFigures, FarVictim, Grade, ImpactFigures, LoadFigure, LoadFindings, LoadJudgement,
    LoadUnit, Spread, StarFigures,
};
use super::impacts::MOST_FAR;
use super::limits::{FAIRNESS, IMPACT, IMPACT_P99, INCAST_SUM, LEAST_EQUAL, SHARE, SMALLEST_SHARE};
use super::slot::{LoadMeasurement, SlotRates, VictimKey, pattern_name, under_name};
use super::spec::Pattern;
use super::victims::Victims;
use campaign::quiet::findings::{Certainty, Direction};
use campaign::quiet::roster::{NicId, Roster};

/// Why an impact factor is no fault unless it is one of an incast.
const FILLS_LINKS: &str =
    "The pattern fills links that victims share: latencies may grow without a fault.";

/// Largest part of the victims under load without an answer.
const MOST_UNANSWERED: f64 = 0.05;

/// Slots in which operations fail on a dead path. In a single one, the process of the target may
/// have been about to open its NIC again.
const DEAD_SLOTS: u32 = 2;

/// Most dead paths that the evidence names.
const MOST_PATHS: usize = 5;

/// Grades each pattern by the judgements about it that retests have not cleared, and by its targets
/// with many sources, which the report shows with their grades. A set may be slow by chance: in
/// random halves some flows share links. A pattern of which most measurements do not count is not
/// good.
pub fn grade_patterns(findings: &mut LoadFindings) {
    let judgements = &findings.judgements;
    for bandwidth in &mut findings.bandwidths {
        if bandwidth.grade == Grade::Unjudged {
            continue;
        }
        let own = judgements.iter().filter(|judgement| {
            judgement.pattern == bandwidth.pattern
                && judgement.certainty != Some(Certainty::Transient)
        });
        let star_grades =
            bandwidth.stars.iter().map(|star| star.grade).filter(|grade| grade.is_worse());
        let grades = own.map(|own| own.grade).chain(star_grades);
        let is_measured = !findings.unmeasured.contains(&bandwidth.pattern);
        let otherwise = if is_measured { Grade::Good } else { Grade::Unjudged };
        bandwidth.grade = grades.max().unwrap_or(otherwise);
    }
}

/// The judgements that no judgement on a part explains: slow parts make shares and stars slow, and
/// bad ones make them bad.
pub fn unexplained<'a>(
    mut judgements: Vec<LoadJudgement>,
    part_judgements: impl Iterator<Item = &'a LoadJudgement>,
) -> Vec<LoadJudgement> {
    let worst = part_judgements.map(|part| part.grade).max();
    judgements.retain(|judgement| worst.is_none_or(|worst| worst < judgement.grade));
    judgements
}

/// The judgements on the shares of theory, one for each pattern: retests repeat it.
pub fn share_judgements(figures: &BTreeMap<Pattern, BandwidthFigures>) -> Vec<LoadJudgement> {
    let judged = figures.iter().filter(|(pattern, _)| is_judged_by_share(**pattern));
    let shares = judged.filter_map(|(_, bandwidth)| Some((bandwidth, bandwidth.share_of_theory?)));
    let slow = shares.filter(|share| SHARE.grade(share.1).is_worse());
    let judgement = |(bandwidth, value): (&BandwidthFigures, f64)| {
        LoadJudgement::new(
            LoadFigure::ShareOfTheory,
            LoadUnit::System,
            bandwidth.pattern.clone(),
            (SHARE.grade(value), value, SHARE.good),
            Vec::new(),
        )
    };
    slow.map(judgement).collect()
}

/// The judgements on targets with many sources: on a target whose sum is low although most others
/// have good ones, and on the system for low sums at most targets, or for unequal shares, which do
/// not show whether the source, its way or the target is the cause.
pub fn star_judgements(
    roster: &Roster,
    figures: &BTreeMap<Pattern, BandwidthFigures>,
) -> Vec<LoadJudgement> {
    let stars: Vec<(&str, &StarFigures)> = figures
        .values()
        .flat_map(|figure| figure.stars.iter().map(|star| (figure.pattern.as_str(), star)))
        .collect();
    let mut judgements = sum_judgements(&stars);
    judgements.extend(sharing_judgement(roster, &stars));
    judgements
}

/// The judgements on the sums that targets receive, each as a ratio to a quiet link.
fn sum_judgements(stars: &[(&str, &StarFigures)]) -> Vec<LoadJudgement> {
    let judgement = |unit, pattern: &str, value: f64, evidence| {
        let graded = (INCAST_SUM.grade(value), value, INCAST_SUM.good);
        LoadJudgement::new(LoadFigure::IncastSum, unit, pattern, graded, evidence)
    };
    let sum = |star: &StarFigures| star.ratio_to_quiet.unwrap_or(1.0);
    let mut low: BTreeMap<NicId, (&str, f64)> = BTreeMap::new();
    for (pattern, star) in stars {
        if INCAST_SUM.grade(sum(star)).is_worse() {
            let known = low.entry(star.target).or_insert((pattern, sum(star)));
            if sum(star) < known.1 {
                *known = (pattern, sum(star));
            }
        }
    }
    let targets: BTreeSet<NicId> = stars.iter().map(|star| star.1.target).collect();
    if targets.len() >= LEAST_EQUAL && 3 * low.len() < targets.len() {
        let low = low.iter().map(|(target, (pattern, value))| {
            judgement(LoadUnit::Nic(*target), pattern, *value, Vec::new())
        });
        return low.collect();
    }
    let lowest = low.values().min_by(|one, other| one.1.total_cmp(&other.1));
    let lowest = lowest.map(|(pattern, value)| {
        let text = format!("Low at {} of {} targets.", low.len(), targets.len());
        judgement(LoadUnit::System, pattern, *value, vec![text])
    });
    lowest.into_iter().collect()
}

/// The judgement on the system if sources of targets have unequal shares.
fn sharing_judgement(roster: &Roster, stars: &[(&str, &StarFigures)]) -> Option<LoadJudgement> {
    let share_grade = |star: &StarFigures| {
        FAIRNESS.grade(star.fairness).max(SMALLEST_SHARE.grade(star.smallest_share))
    };
    let uneven: Vec<_> = stars.iter().filter(|star| share_grade(star.1).is_worse()).collect();
    let (pattern, star) = uneven.iter().min_by(|one, other| {
        let by_grade = share_grade(other.1).cmp(&share_grade(one.1));
        by_grade.then(one.1.smallest_share.total_cmp(&other.1.smallest_share))
    })?;
    let by_smallest = SMALLEST_SHARE.grade(star.smallest_share);
    let is_by_smallest = by_smallest >= FAIRNESS.grade(star.fairness);
    let (figure, figure_grade) = if is_by_smallest {
        let value = star.smallest_share;
        (LoadFigure::SmallestShare, (by_smallest, value, SMALLEST_SHARE.good))
    } else {
        let grade = FAIRNESS.grade(star.fairness);
        (LoadFigure::Fairness, (grade, star.fairness, FAIRNESS.good))
    };
    let text = format!(
        "{} of {} targets have unequal sources; the worst is {}.",
        uneven.len(),
        stars.len(),
        roster.name(star.target)
    );
    Some(LoadJudgement::new(figure, LoadUnit::System, *pattern, figure_grade, vec![text]))
}

/// The judgements on the latencies of victims in the class of the aggressors: one for each pattern
/// that is bad, which retests repeat, or else one for all patterns that are slow.
pub fn impact_judgements(
    roster: &Roster,
    figures: &[(VictimKey, ImpactFigures)],
) -> Vec<LoadJudgement> {
    let judged: Vec<&(VictimKey, ImpactFigures)> = figures
        .iter()
        .filter(|(key, impact)| !key.in_other_class && impact.grade != Grade::Unjudged)
        .collect();
    let bad = judged.iter().filter(|(_, impact)| impact.grade == Grade::Bad);
    let patterns: BTreeSet<Pattern> = bad.map(|(key, _)| key.under).collect();
    let impacts_under = |under: Pattern| -> Vec<&(VictimKey, ImpactFigures)> {
        let all = judged.iter().copied();
        all.filter(|(key, _)| key.under == under).collect()
    };
    if patterns.is_empty() {
        return impact_judgement(roster, &judged).into_iter().collect();
    }
    let bad = patterns.into_iter();
    bad.filter_map(|under| impact_judgement(roster, &impacts_under(under))).collect()
}

/// The judgement on the worst of these figures.
fn impact_judgement(
    roster: &Roster,
    judged: &[&(VictimKey, ImpactFigures)],
) -> Option<LoadJudgement> {
    let hit: Vec<&(VictimKey, ImpactFigures)> =
        judged.iter().copied().filter(|(_, impact)| impact.grade.is_worse()).collect();
    let (key, worst) = hit.iter().copied().max_by(|one, other| {
        let by_grade = one.1.grade.cmp(&other.1.grade);
        let by_impact = one.1.median.impact.total_cmp(&other.1.median.impact);
        let by_class = one.1.class.is_none().cmp(&other.1.class.is_none());
        by_grade.then(by_impact).then(by_class)
    })?;
    let is_by_median = worst.median.impact
        > match worst.grade {
            Grade::Bad => IMPACT.slow,
            _ => IMPACT.good,
        };
    let tail = worst.p99.filter(|_| !is_by_median);
    let (figure, value, limit) = match tail {
        Some(p99) => (LoadFigure::ImpactP99, p99.impact, IMPACT_P99.good),
        None => (LoadFigure::Impact, worst.median.impact, IMPACT.good),
    };
    let has = |all: &[&(VictimKey, ImpactFigures)], spread| {
        all.iter().any(|(other_key, _)| other_key.under == key.under && other_key.spread == spread)
    };
    let mut evidence = vec![place(|spread| (has(judged, spread), has(&hit, spread))).to_owned()];
    if let Some(class) = worst.class {
        evidence.push(format!("Of pairs of the class {}.", class.name()));
    }
    if !matches!(key.under, Pattern::Incast(_)) {
        evidence.push(FILLS_LINKS.into());
    }
    let others = hit.iter().filter(|(other_key, _)| other_key.under != key.under);
    let mut names: Vec<&str> = others.map(|(_, impact)| impact.under.as_str()).collect();
    names.dedup();
    if !names.is_empty() {
        evidence.push(format!("Also under {}.", names.join(", ")));
    }
    let same = judged.iter().filter(|(other_key, _)| other_key == key);
    let mut far: Vec<&FarVictim> = same.flat_map(|(_, impact)| &impact.far_above).collect();
    far.sort_by(|one, other| other.impact.total_cmp(&one.impact));
    evidence.extend(far.iter().take(MOST_FAR).map(|victim| victim.sentence(roster)));
    Some(LoadJudgement::new(
        figure,
        LoadUnit::System,
        worst.under.clone(),
        (worst.grade, value, limit),
        evidence,
    ))
}

/// The sentence that says where interference arises (load.md 3.5): `spread_of` returns whether a
/// spread was judged, and whether it shows an impact.
fn place(spread_of: impl Fn(Spread) -> (bool, bool)) -> &'static str {
    let [mixed, switches, groups] =
        [Spread::Mixed, Spread::Switches, Spread::Groups].map(spread_of);
    match (mixed, switches, groups) {
        (_, _, (_, true)) => "Interference arises on links between groups, or by routing.",
        (_, (_, true), (true, false)) => {
            "Interference arises on links between switches of a group."
        }
        (_, (_, true), _) => "Interference arises on links between switches.",
        ((_, true), (true, false), _) => "Interference arises in switches.",
        _ => "The spreads that were measured do not show where interference arises.",
    }
}

/// The judgement on victims whose operations failed under load.
pub fn unanswered_judgement(victims: &BTreeMap<VictimKey, Victims>) -> Option<LoadJudgement> {
    let parts = victims
        .iter()
        .filter(|(key, _)| !key.at_target)
        .map(|(key, victims)| (key, victims.unanswered()));
    let (key, value) = parts.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (value > MOST_UNANSWERED).then(|| {
        LoadJudgement::new(
            LoadFigure::Unanswered,
            LoadUnit::System,
            under_name(key.under, key.at_target),
            (Grade::Bad, value, MOST_UNANSWERED),
            Vec::new(),
        )
    })
}

/// The judgement on paths on which operations of the load failed, although others of the same NICs
/// succeeded: on the NIC at which all of them begin or end, or else on the system.
pub fn dead_path_judgement(
    roster: &Roster,
    rates: &BTreeMap<Pattern, Vec<SlotRates>>,
) -> Option<LoadJudgement> {
    let mut failures: BTreeMap<(NicId, NicId), (u32, Pattern)> = BTreeMap::new();
    for (pattern, slots) in rates {
        for path in slots.iter().flat_map(|slot| &slot.unreached) {
            failures.entry(*path).or_insert((0, *pattern)).0 += 1;
        }
    }
    failures.retain(|_, (slots, _)| *slots >= DEAD_SLOTS);
    let (_, pattern) = *failures.first_key_value()?.1;
    let at_all = |nic: &NicId| {
        let mut paths = failures.keys();
        paths.all(|(source, target)| nic == source || nic == target)
    };
    let (source, target) = *failures.first_key_value()?.0;
    let nic = [source, target].into_iter().find(at_all);
    let unit = nic.filter(|_| failures.len() > 1).map(LoadUnit::Nic);
    let text = |((source, target), (slots, _)): (&(NicId, NicId), &(u32, Pattern))| {
        let [source, target] = [source, target].map(|nic| roster.name(*nic));
        format!("Operations from {source} to {target} failed in {slots} slots.")
    };
    Some(LoadJudgement::new(
        LoadFigure::DeadPaths,
        unit.unwrap_or(LoadUnit::System),
        pattern_name(pattern),
        (Grade::Bad, failures.len() as f64, 0.0),
        failures.iter().take(MOST_PATHS).map(text).collect(),
    ))
}

/// Number of retests.
pub const RETESTS: usize = 2;

/// The steps that are measured again: the quiet bandwidth, and the steps of judgements about bad
/// parts. It is empty without such judgements.
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

/// Whether a judgement follows from a step. What names a slow part compares the flows of all
/// bisections; lost answers and paused victims are judged over all patterns.
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

/// Whether two judgements are about the same fault. The same one may show at one NIC or at several,
/// and by one of two figures.
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

/// Whether what a judgement is about had a verdict in a retest, so that it was good where it is not
/// bad again. Processes that waited for their CPUs leave patterns without a verdict.
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

/// Whether a part was as fast as equal ones in a retest. That nobody was named does not say so: the
/// flows of a retest may not tell two parts apart, and the set of a NIC is what it sends.
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

    const PATTERN: &str = "bisect:system";

    fn links(from: u16, to: u16, both: bool) -> LoadUnit {
        LoadUnit::GroupLinks { from, to, both }
    }

    /// A retest that names nobody, with these grades of links.
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
