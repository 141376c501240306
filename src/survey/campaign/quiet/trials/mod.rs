//! Trials: surveys of model clusters with planted faults, counted by how right their verdicts are.
//! The seed of a cluster decides about its noise and about the place of its fault, so two builds
//! with equal verdicts print equal tables.

use std::collections::BTreeSet;

use dragonfly::ModelDragonfly;
use fastrand::Rng;
use planted::Truth;

use super::answer::Pair;
use super::findings::{Certainty, Direction, Findings, Unit};
use super::ids::NicId;
use super::roster::{Roster, members};
use super::testing::{Cluster, Effect, Fault, Load, named, survey_of_some};
use crate::blame::LEAST_FIGURES;

pub mod dragonfly;
pub mod planted;

/// How right a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Correctness {
    /// It calls bad what is wrong, and names nothing else.
    Right,
    /// It suspects what is wrong, and names nothing else.
    Suspect,
    /// It names one of several faults, or slow paths of what is wrong.
    Partly,
    /// It names nothing, and does not call all NICs good.
    Undecided,
    /// It calls all NICs good although one is not.
    CalledGood,
    /// It names another part, which has NICs in common with what is wrong.
    WrongName,
    /// It suspects a part that has nothing to do with what is wrong.
    SuspectsInnocent,
    /// It calls such a part bad.
    BlamesInnocent,
}

impl Correctness {
    pub const ALL: [Self; 8] = [
        Self::Right,
        Self::Suspect,
        Self::Partly,
        Self::Undecided,
        Self::CalledGood,
        Self::WrongName,
        Self::SuspectsInnocent,
        Self::BlamesInnocent,
    ];
}

/// What a survey of a model says.
#[derive(Clone, Debug)]
pub struct TrialVerdict {
    pub outcome: Correctness,
    /// All that it says about parts.
    pub text: String,
}

/// The survey of the model with a seed.
type ModelSurvey = Box<dyn Fn(u64) -> TrialVerdict + Send + Sync>;

/// Surveys of models of one kind.
pub struct Trial {
    pub name: String,
    pub survey: ModelSurvey,
}

impl Trial {
    /// Creates a trial.
    pub fn new(name: String, survey: impl Fn(u64) -> TrialVerdict + Send + Sync + 'static) -> Self {
        Self { name, survey: Box::new(survey) }
    }
}

/// What is wrong with a cluster.
struct Guilty {
    /// What a verdict should name; nothing for a cluster without a fault.
    parts: Vec<(Unit, Direction)>,
    /// The NICs of all of it.
    nics: BTreeSet<NicId>,
    /// How many times slower its pairs are.
    factor: f64,
}

impl Guilty {
    fn new(parts: Vec<(Unit, Direction)>, factor: f64, roster: &Roster) -> Self {
        let nics = parts.iter().flat_map(|(unit, _)| nics(*unit, roster)).collect();
        Self { parts, nics, factor }
    }
}

/// Returns the NICs of a part, or at its ends.
fn nics(unit: Unit, roster: &Roster) -> Vec<NicId> {
    match unit {
        Unit::Path(pair) => pair.nics().into(),
        Unit::GroupPair(one, other) => {
            [one, other].into_iter().flat_map(|group| members(Unit::Group(group), roster)).collect()
        }
        _ => members(unit, roster),
    }
}

/// Judges findings. `is_slow` says which pairs the fault slows.
fn judge(
    findings: &Findings,
    guilty: &Guilty,
    roster: &Roster,
    is_slow: impl Fn(Pair) -> bool,
) -> TrialVerdict {
    let named = named(findings);
    let is_it = |(unit, _, direction): &(Unit, Certainty, Direction)| {
        let mut parts = guilty.parts.iter();
        // With few pairs, those in the other direction may not be measured.
        parts.any(|(own, way)| own == unit && (way == direction || *direction == Direction::Both))
    };
    let is_slow_path = |unit: &Unit| match unit {
        Unit::Path(pair) => is_slow(*pair) || is_slow(pair.reversed()),
        _ => false,
    };
    let is_near = |unit: &Unit| match unit {
        Unit::Path(_) => is_slow_path(unit),
        _ => nics(*unit, roster).iter().any(|nic| guilty.nics.contains(nic)),
    };
    let innocent = named.iter().filter(|one| !is_it(one) && !is_near(&one.0));
    let blames = innocent.map(|(_, certainty, _)| *certainty).max();
    let bad = named.iter().filter(|one| one.1 == Certainty::Bad && is_it(one)).count();
    let outcome = match blames {
        Some(Certainty::Bad) => Correctness::BlamesInnocent,
        Some(_) => Correctness::SuspectsInnocent,
        None if named.iter().any(|one| !is_it(one) && !is_slow_path(&one.0)) => {
            Correctness::WrongName
        }
        None if named.is_empty() => {
            match (is_good(findings, guilty.factor), guilty.parts.is_empty()) {
                (true, true) => Correctness::Right,
                (true, false) => Correctness::CalledGood,
                (false, _) => Correctness::Undecided,
            }
        }
        None if !named.iter().all(is_it) || named.len() < guilty.parts.len() => Correctness::Partly,
        None if bad == named.len() => Correctness::Right,
        None => Correctness::Suspect,
    };
    let causes = findings.causes.iter();
    let causes = causes.map(|cause| (cause.unit, cause.certainty, cause.direction));
    let untested: Vec<_> =
        findings.untested.iter().map(|part| (part.unit, part.reason.as_str())).collect();
    let outliers: Vec<_> = findings.outliers.iter().map(|one| one.nic).collect();
    let classes = findings.populations.iter();
    let classes = classes.map(|one| (one.class, one.limit, one.sensitivity, one.outside));
    let text = format!(
        "{:?} untested {untested:?} outliers {outliers:?} classes {:?} answered {}",
        causes.collect::<Vec<_>>(),
        classes.collect::<Vec<_>>(),
        findings.answered,
    );
    TrialVerdict { outcome, text }
}

/// Returns whether findings without a named part call all NICs good, with respect to a fault that
/// makes pairs slower by this factor.
fn is_good(findings: &Findings, factor: f64) -> bool {
    let mut populations = findings.populations.iter();
    findings.untested.is_empty()
        && findings.answered == findings.planned
        && populations.all(|one| {
            let is_seen = one.sensitivity.is_none_or(|ratio| ratio <= factor);
            one.count < LEAST_FIGURES as u64 || one.limit.is_some() && is_seen
        })
}

/// Returns all trials of surveys.
pub fn trials() -> Vec<Trial> {
    let trials = [planted_trials(), dragonfly_trials(), busy_trials(), good_trials()];
    trials.into_iter().flatten().collect()
}

/// Surveys a cluster with its faults, and judges the findings.
fn survey(mut cluster: Cluster, pairs: &str, guilty: &Guilty, seed: u64) -> TrialVerdict {
    let findings = survey_of_some(&mut cluster, pairs, seed);
    let is_slow = |pair: Pair| cluster.faults.iter().any(|fault| fault.has(&cluster.roster, pair));
    judge(&findings, guilty, &cluster.roster, is_slow)
}

/// Returns the trials of one fault in small clusters, quiet and noisy.
fn planted_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (noise_name, noise, spikes, factor) in
        [("quiet", 0.03, 0.0, 1.6), ("noisy", 0.2, 0.01, 6.0), ("at the limit", 0.02, 0.0, 1.32)]
    {
        for plan in planted::plans().into_iter().chain(planted::signs()) {
            let mut fault = plan.fault;
            match &mut fault.effect {
                Effect::Slow(own) => *own = factor,
                _ if noise_name == "at the limit" => continue,
                _ => {}
            }
            let name = format!("{noise_name}: {} {:?} {}", plan.name, plan.shape, plan.pairs);
            trials.push(Trial::new(name, move |seed| {
                let mut cluster = Cluster::new(plan.shape, &["write-lat"], seed);
                (cluster.noise, cluster.spikes) = (noise, spikes);
                cluster.faults = vec![fault];
                let parts = vec![(fault.unit, fault.direction)];
                let guilty = Guilty::new(parts, factor, &cluster.roster);
                survey(cluster, plan.pairs, &guilty, seed)
            }));
        }
    }
    trials
}

/// Returns the trials of slow parts of dragonflies, idle and with busy CPUs.
fn dragonfly_trials() -> Vec<Trial> {
    const FACTOR: f64 = 2.5;
    let busy = Load { node: None, disturbed: 0.4, untested: 0.1, is_harmless: false };
    let mut trials = Vec::new();
    for trial in &dragonfly::TRIALS {
        for (tool, pairs, load) in [
            ("write-bw", "random:4", None),
            ("write-bw", "random:8", None),
            ("write-lat", "random:8", None),
            ("write-bw", "all", None),
            ("write-bw", "random:8", Some(busy)),
            ("write-lat", "random:4", Some(busy)),
        ] {
            let load_name = if load.is_some() { "busy " } else { "" };
            let name = format!("{load_name}dragonfly: {} {tool} {pairs}", trial.name);
            trials.push(Trial::new(name, move |seed| {
                let shape = trial.shapes[seed as usize % trial.shapes.len()];
                let (planted, unit, direction) = (trial.plant)(&mut Rng::with_seed(seed), shape);
                let mut cluster = Cluster::new(shape, &[tool], seed);
                cluster.load = load;
                let dragonfly = ModelDragonfly { groups: shape[0], switches: shape[1] };
                let guilty = Guilty::new(vec![(unit, direction)], FACTOR, &cluster.roster);
                cluster.faults = dragonfly.faults(planted, FACTOR, &cluster.roster);
                survey(cluster, pairs, &guilty, seed)
            }));
        }
    }
    trials
}

/// Returns the trials of clusters with busy CPUs.
fn busy_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for truth in Truth::ALL {
        for (load, disturbed, untested) in planted::LOADS {
            let shapes: Vec<_> =
                planted::SHAPES.into_iter().filter(|(shape, _)| truth.fits(*shape)).collect();
            trials.push(Trial::new(format!("{load}: {truth:?}"), move |seed| {
                let (shape, pairs) = shapes[seed as usize % shapes.len()];
                let cluster = truth.cluster(shape, (disturbed, untested), seed);
                let faults = cluster.faults.iter();
                let mut parts: Vec<_> = faults.map(|fault| (fault.unit, fault.direction)).collect();
                // A node of one NIC is its NIC.
                let is_node = |unit: &Unit| matches!(unit, Unit::Node(_));
                if shape[3] == 1 && parts.iter().any(|(unit, _)| is_node(unit)) {
                    parts = vec![(Unit::Nic(NicId(1)), Direction::Both)];
                }
                if truth == Truth::FivePercent {
                    parts.clear();
                }
                let factor = if parts.is_empty() { f64::INFINITY } else { 1.35 };
                let guilty = Guilty::new(parts, factor, &cluster.roster);
                survey(cluster, pairs, &guilty, seed)
            }));
        }
    }
    trials
}

/// Returns the trials of clusters in which nothing is wrong, or so much that nothing can be named.
fn good_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (shape, pairs) in [
        ([0, 0, 4, 1], "random:4"),
        ([0, 0, 8, 1], "random:4"),
        ([0, 0, 8, 1], "all"),
        ([2, 2, 4, 2], "random:4"),
        ([4, 4, 8, 1], "random:4"),
    ] {
        for (noise, spikes) in [(0.03, 0.0), (0.03, 0.01), (0.3, 0.02)] {
            let name = format!("good: {shape:?} {pairs} noise {noise} spikes {spikes}");
            trials.push(Trial::new(name, move |seed| {
                let mut cluster = Cluster::new(shape, &["write-lat", "write-bw"], seed);
                (cluster.noise, cluster.spikes) = (noise, spikes);
                let guilty = Guilty::new(Vec::new(), f64::INFINITY, &cluster.roster);
                survey(cluster, pairs, &guilty, seed)
            }));
        }
    }
    for (shape, pairs) in [
        ([0, 0, 8, 1], "all"),
        ([0, 0, 16, 1], "random:4"),
        ([0, 0, 64, 1], "random:4"),
        ([2, 2, 8, 1], "random:4"),
    ] {
        for (tool, factor) in [("write-bw", 2.0), ("write-lat", 1.4), ("write-lat", 3.0)] {
            let name = format!("half is slow: {shape:?} {pairs} {tool} {factor}");
            trials.push(Trial::new(name, move |seed| {
                let mut cluster = Cluster::new(shape, &[tool], seed);
                let nics = cluster.roster.nics.len() as u32;
                let slow = |nic| Fault::slow(Unit::Nic(NicId(2 * nic)), Direction::Both, factor);
                cluster.faults = (0..nics / 2).map(slow).collect();
                // Nothing tells the slow half from the other one.
                let guilty = Guilty::new(Vec::new(), factor, &cluster.roster);
                survey(cluster, pairs, &guilty, seed)
            }));
        }
    }
    trials
}
