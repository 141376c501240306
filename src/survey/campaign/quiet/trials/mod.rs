//! Trials: surveys of model clusters with planted faults, counted by how right their verdicts are.
//! The seed of a cluster decides about its noise and about the place of its fault, so two builds
//! with equal verdicts print equal tables. The clusters have one fault: with free CPUs, and with
//! busy ones.

pub mod dragonfly;

use std::collections::BTreeSet;

use fastrand::Rng;

use super::findings::{Certainty, Direction, Findings};
use super::roster::{NicId, NodeId, Pair, Roster, Unit, members};
use super::testing::{Cluster, Effect, Fault, Load, named, pair, survey_of_some};
use crate::blame::LEAST_FIGURES;
use dragonfly::ModelDragonfly;

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

/// The NICs of a part, or at its ends.
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

/// Whether findings without a named part call all NICs good, with respect to a fault that makes
/// pairs slower by this factor.
fn is_good(findings: &Findings, factor: f64) -> bool {
    let mut populations = findings.populations.iter();
    findings.untested.is_empty()
        && findings.answered == findings.planned
        && populations.all(|one| {
            let is_seen = one.sensitivity.is_none_or(|ratio| ratio <= factor);
            one.count < LEAST_FIGURES as u64 || one.limit.is_some() && is_seen
        })
}

/// All trials of surveys.
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

/// The trials of one fault in small clusters, quiet and noisy.
fn planted_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (noise_name, noise, spikes, factor) in
        [("quiet", 0.03, 0.0, 1.6), ("noisy", 0.2, 0.01, 6.0), ("at the limit", 0.02, 0.0, 1.32)]
    {
        for plan in plans().into_iter().chain(signs()) {
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

/// The trials of slow parts of dragonflies, idle and with busy CPUs.
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

/// The trials of clusters with busy CPUs.
fn busy_trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for truth in Truth::ALL {
        for (load, disturbed, untested) in LOADS {
            let shapes: Vec<_> =
                SHAPES.into_iter().filter(|(shape, _)| truth.fits(*shape)).collect();
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

/// The trials of clusters in which nothing is wrong, or so much that nothing can be named.
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

/// A cluster with a fault, and the pairs of its survey.
pub struct PlantedSurvey {
    pub name: &'static str,
    pub shape: [u16; 4],
    pub pairs: &'static str,
    pub fault: Fault,
}

pub fn plans() -> Vec<PlantedSurvey> {
    use Direction::{Both, Initiator, Target};
    let slow = |unit, direction| Fault::slow(unit, direction, 2.0);
    let nic = Unit::Nic(NicId(1));
    let fails = Fault { unit: nic, direction: Both, effect: Effect::Fails };
    let plan = |name, shape, pairs, fault| PlantedSurvey { name, shape, pairs, fault };
    let small = [0, 0, 4, 1];
    let racks = [4, 4, 8, 1];
    let (from, to) = (3, 5);
    let path = Unit::Path(pair(from, to));
    vec![
        plan("nic", small, "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 5, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 6, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 7, 1], "random:4", slow(nic, Both)),
        plan("nic", [0, 0, 8, 1], "random:3", slow(nic, Both)),
        plan("nic", racks, "random:4", slow(nic, Both)),
        plan("nic", racks, "halves", slow(nic, Both)),
        plan("nic as initiator", [0, 0, 4, 1], "random:4", slow(nic, Initiator)),
        plan("nic as initiator", [0, 0, 8, 1], "random:4", slow(nic, Initiator)),
        plan("nic as initiator", racks, "random:4", slow(nic, Initiator)),
        plan("nic as target", [0, 0, 8, 1], "random:4", slow(nic, Target)),
        plan("nic as target", racks, "random:4", slow(nic, Target)),
        plan("failing nic", small, "random:4", fails),
        plan("failing nic", [0, 0, 8, 1], "random:4", fails),
        plan("failing nic", racks, "random:4", fails),
        plan("one nic of four", [0, 0, 8, 4], "random:4", slow(nic, Both)),
        plan("node", [0, 0, 8, 2], "random:4", slow(Unit::Node(NodeId(2)), Both)),
        plan("node", [2, 2, 4, 4], "random:4", slow(Unit::Node(NodeId(2)), Both)),
        plan("switch", racks, "random:4", slow(Unit::Switch { group: 1, switch: 2 }, Both)),
        plan(
            "switch",
            racks,
            "within-switch,switches",
            slow(Unit::Switch { group: 1, switch: 2 }, Both),
        ),
        plan("group", [6, 2, 8, 1], "random:4", slow(Unit::Group(3), Both)),
        plan("group pair", [4, 2, 8, 1], "random:4", slow(Unit::GroupPair(1, 3), Both)),
        plan("group pair", [5, 2, 8, 1], "groups", slow(Unit::GroupPair(1, 3), Both)),
        plan("path", [0, 0, 8, 1], "all", slow(path, Both)),
    ]
}

/// Returns clusters whose faults hardly change a median: counters, tails and failures show them.
fn signs() -> Vec<PlantedSurvey> {
    let nic = Unit::Nic(NicId(3));
    let switch = Unit::Switch { group: 1, switch: 0 };
    let links = Unit::GroupPair(0, 2);
    let groups = ([3, 2, 3, 1], "all");
    let shapes = [([0, 0, 5, 1], "random:4"), ([0, 0, 24, 1], "random:4"), groups];
    let nic_faults = [
        ("nic that damages packets", Effect::Damages(60.0)),
        ("nic that loses few packets", Effect::Resends(4.0)),
        ("nic that sends packets again", Effect::Resends(20.0)),
        ("nic that delays some", Effect::DelaysSome(3.0)),
        ("nic with tails", Effect::HasTail),
        ("nic that fails now and then", Effect::Loses(0.3)),
    ];
    let larger_faults = [
        ("switch that damages packets", switch, Effect::Damages(60.0)),
        ("switch that fails", switch, Effect::Fails),
        ("links with tails", links, Effect::HasTail),
        ("links that fail", links, Effect::Fails),
    ];
    let plan = |name, (shape, pairs), unit, effect| PlantedSurvey {
        name,
        shape,
        pairs,
        fault: Fault { unit, direction: Direction::Both, effect },
    };
    let larger = larger_faults.map(|(name, unit, effect)| plan(name, groups, unit, effect));
    let nics = shapes
        .into_iter()
        .flat_map(|shape| nic_faults.map(|(name, effect)| plan(name, shape, nic, effect)));
    nics.chain(larger).collect()
}

/// What is wrong with a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Truth {
    Nothing,
    Switch,
    Nic,
    NicAsInitiator,
    HalfBandwidth,
    FivePercent,
    ThirtyPercent,
    BusyNode,
    DeadNode,
    TwoNics,
}

impl Truth {
    pub const ALL: [Self; 10] = [
        Self::Nothing,
        Self::Switch,
        Self::Nic,
        Self::NicAsInitiator,
        Self::HalfBandwidth,
        Self::FivePercent,
        Self::ThirtyPercent,
        Self::BusyNode,
        Self::DeadNode,
        Self::TwoNics,
    ];

    /// The test that meets the fault.
    fn tool(self) -> &'static str {
        if self == Self::HalfBandwidth { "write-bw" } else { "write-lat" }
    }

    fn faults(self) -> Vec<Fault> {
        let nic = |nic, factor| Fault::slow(Unit::Nic(NicId(nic)), Direction::Both, factor);
        let switch = Unit::Switch { group: 1, switch: 1 };
        match self {
            Self::Nothing | Self::BusyNode => Vec::new(),
            Self::Switch => vec![Fault::slow(switch, Direction::Both, 4.0)],
            Self::Nic => vec![nic(1, 3.0)],
            Self::NicAsInitiator => {
                vec![Fault::slow(Unit::Nic(NicId(1)), Direction::Initiator, 3.0)]
            }
            Self::HalfBandwidth => vec![nic(1, 2.0)],
            Self::FivePercent => vec![nic(1, 1.05)],
            Self::ThirtyPercent => vec![nic(1, 1.35)],
            Self::DeadNode => vec![Fault {
                unit: Unit::Node(NodeId(1)),
                direction: Direction::Both,
                effect: Effect::Fails,
            }],
            Self::TwoNics => vec![nic(1, 3.0), nic(6, 2.0)],
        }
    }

    /// Whether a cluster of this shape can have the fault.
    pub fn fits(self, shape: [u16; 4]) -> bool {
        let [groups, _, nodes, nics] = shape;
        match self {
            Self::Switch => groups > 0,
            Self::TwoNics => groups > 0 || nodes * nics >= 8,
            _ => true,
        }
    }

    /// A cluster with the fault, and with CPUs that disturb a part of its pairs and leave another
    /// part untested.
    pub fn cluster(self, shape: [u16; 4], (disturbed, untested): (f64, f64), seed: u64) -> Cluster {
        let mut cluster = Cluster::new(shape, &[self.tool()], seed);
        cluster.faults = self.faults();
        cluster.load = (disturbed > 0.0 || self == Self::BusyNode).then(|| Load {
            node: (self == Self::BusyNode).then_some(NodeId(2)),
            disturbed: if disturbed > 0.0 { disturbed } else { 0.3 },
            untested,
            is_harmless: false,
        });
        cluster
    }
}

/// A cluster, and the pairs of its survey.
const SHAPES: [([u16; 4], &str); 13] = [
    ([0, 0, 4, 1], "all,random:4"),
    ([0, 0, 8, 1], "random:4"),
    ([0, 0, 8, 1], "all"),
    ([0, 0, 12, 1], "all"),
    ([2, 2, 4, 1], "all"),
    ([0, 0, 32, 1], "random:4"),
    ([0, 0, 16, 2], "all"),
    ([3, 3, 4, 1], "random:4"),
    ([4, 4, 8, 1], "random:4"),
    ([0, 0, 128, 1], "random:4"),
    ([8, 8, 8, 1], "random:4"),
    ([0, 0, 512, 1], "random:6"),
    ([2, 4, 16, 1], "all"),
];

/// Busy CPUs: their names, parts of the pairs that are disturbed and untested.
const LOADS: [(&str, f64, f64); 4] =
    [("idle", 0.0, 0.0), ("some", 0.05, 0.02), ("busy", 0.4, 0.1), ("very busy", 0.9, 0.5)];
