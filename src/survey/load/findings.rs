//! What the fabric does under load, as data and as a part of the document of a survey. The doc
//! comments are the descriptions in the schema. Bandwidths are in bytes per second, latencies in
//! nanoseconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use campaign::quiet::findings::{Certainty, Direction, Test};
use campaign::quiet::roster::{NicId, Pair};
use campaign::timetable::Watched;
use crew::location::Class;
use facts::severity::Severity;

/// A part of the fabric that a figure under load is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadUnit {
    /// The whole fabric.
    System,
    /// A NIC, its cable, or its port of the switch; an index in the roster.
    Nic(NicId),
    /// A switch.
    Switch {
        /// Its group.
        group: u16,
        /// Its number in the group.
        switch: u16,
    },
    /// A group of switches.
    Group(u16),
    /// The links from one switch of a group to another one, in this direction.
    SwitchLinks {
        /// The group.
        group: u16,
        /// Number of the switch at which they begin.
        from: u16,
        /// Number of the switch at which they end.
        to: u16,
        /// Whether the other direction is part of it.
        both: bool,
    },
    /// The links from one group to another one, in this direction.
    GroupLinks {
        /// The group at which they begin.
        from: u16,
        /// The group at which they end.
        to: u16,
        /// Whether the other direction is part of it.
        both: bool,
    },
    /// The NICs of a traffic class: its name is in the judgement.
    TrafficClass,
}

impl LoadUnit {
    /// Whether a set is this part, or one direction of it, or links at it.
    pub fn covers(self, set: Self) -> bool {
        match (self, set) {
            (
                Self::GroupLinks { from, to, both },
                Self::GroupLinks { from: start, to: end, .. },
            ) => (from, to) == (start, end) || both && (to, from) == (start, end),
            (
                Self::SwitchLinks { group, from, to, both },
                Self::SwitchLinks { group: number, from: start, to: end, .. },
            ) => {
                group == number
                    && ((from, to) == (start, end) || both && (to, from) == (start, end))
            }
            (Self::Switch { group, switch }, Self::SwitchLinks { group: number, from, to, .. }) => {
                group == number && [from, to].contains(&switch)
            }
            (Self::Group(group), Self::GroupLinks { from, to, .. }) => [from, to].contains(&group),
            (part, set) => part == set,
        }
    }
}

facts::named_enum! {
    /// How aggressors and victims are dealt (load.md 3.5).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Spread {
        /// Each switch has both.
        Mixed = "mixed",
        /// A switch has one role.
        Switches = "switches",
        /// A group has one role.
        Groups = "groups",
    }
    /// Its name in texts and metrics.
    pub fn name(self);
}

facts::named_enum! {
    /// How good a figure is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Grade {
        /// Within the limits.
        Good = "good",
        /// Worse than usual, within the limits.
        Slow = "slow",
        /// Outside the limits.
        Bad = "bad",
        /// No verdict: the figure is known, and too little is known about it.
        Unjudged = "not judged",
    }
    /// Its name in texts.
    pub fn name(self);
}

facts::named_enum! {
    /// What a judgement is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum LoadFigure {
        /// Bandwidth of the NIC or of the part, as a ratio to the median of equal ones.
        Bandwidth = "bandwidth",
        /// Bandwidth as a share of what the topology allows.
        ShareOfTheory = "share_of_theory",
        /// Sum of the bandwidths into one target, as a ratio to the bandwidth of the target alone.
        IncastSum = "incast_sum",
        /// Jain's index of the sources of one target.
        Fairness = "fairness",
        /// Smallest share of a source of one target, as a ratio to an equal share.
        SmallestShare = "smallest_share",
        /// Median latency under load, as a ratio to the quiet one.
        Impact = "impact",
        /// 99th percentile of the latencies under load, as a ratio to the quiet one.
        ImpactP99 = "impact_p99",
        /// How far another traffic class keeps the load away: 1 fully, 0 not at all.
        Isolation = "isolation",
        /// Part of the time in which the switch paused victims, whose targets were idle.
        VictimsPaused = "victims_paused",
        /// Part of the time in which a target paused the switch.
        TargetPauses = "target_pauses",
        /// Number of packets whose answers were lost.
        Timeouts = "timeouts",
        /// Part of the operations of victims that were not answered.
        Unanswered = "unanswered",
        /// Number of paths on which operations of the load failed in several slots.
        DeadPaths = "dead_paths",
    }
    /// Its name in metrics.
    pub fn name(self);
}

impl Grade {
    /// How it is shown. A figure without a verdict is not good.
    pub fn severity(self) -> Severity {
        match self {
            Self::Good => Severity::Good,
            Self::Slow | Self::Unjudged => Severity::Suspect,
            Self::Bad => Severity::Bad,
        }
    }

    /// Whether it is a verdict other than good.
    pub fn is_worse(self) -> bool {
        matches!(self, Self::Slow | Self::Bad)
    }
}

/// A figure outside the limits, or close to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct LoadJudgement {
    /// The part.
    pub unit: LoadUnit,
    /// Slow or bad.
    pub grade: Grade,
    /// For a bad part, whether retests with other roles confirm it; null for a slow one.
    #[serde(rename = "word")]
    pub certainty: Option<Certainty>,
    /// The pattern: `bisect:system`.
    pub pattern: String,
    /// The figure.
    pub figure: LoadFigure,
    /// Its value.
    pub value: f64,
    /// The limit that a good part meets.
    pub limit: f64,
    /// What else explains it, as sentences.
    pub evidence: Vec<String>,
    /// The direction in which the part is slow, if one is known.
    #[serde(skip)]
    pub direction: Option<Direction>,
}

impl LoadJudgement {
    /// Creates a judgement that no retest has confirmed. `value` is outside `limit` by this grade.
    pub fn new(
        figure: LoadFigure,
        unit: LoadUnit,
        pattern: impl Into<String>,
        (grade, value, limit): (Grade, f64, f64),
        evidence: Vec<String>,
    ) -> Self {
        Self {
            unit,
            grade,
            certainty: None,
            pattern: pattern.into(),
            figure,
            value,
            limit,
            evidence,
            direction: None,
        }
    }
}

/// How one pattern of bandwidths went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct BandwidthFigures {
    /// The pattern with its variant: `bisect:system, both ways`.
    pub pattern: String,
    /// Number of slots.
    pub slots: u32,
    /// Number of NICs that sent, with measurements that count. The figures are 0 without any.
    pub nics: u32,
    /// Number of measurements that do not count, because processes waited for CPUs.
    pub unjudged: u32,
    /// Mean of a NIC that sent.
    pub mean: f64,
    /// Sum over the NICs that sent at once: the mean times their number.
    pub sum: f64,
    /// The slowest NIC.
    pub min: f64,
    /// 1st percentile of the NICs.
    pub p1: f64,
    /// Percentiles 1, 5, 25, 50, 75, 95 and 99 of the NICs.
    pub percentiles: [f64; 7],
    /// What the topology allows for each NIC; null if it is not known.
    pub theory: Option<f64>,
    /// The mean as a share of it.
    pub share_of_theory: Option<f64>,
    /// The mean as a ratio to the quiet bandwidth; null if that is not known.
    pub ratio_to_quiet: Option<f64>,
    /// Figures of switches, groups or pairs of groups under equal patterns, the slowest first.
    pub sets: Vec<SetFigures>,
    /// Figures of targets with many sources, the worst first.
    pub stars: Vec<StarFigures>,
    /// How good the pattern is as a whole.
    pub grade: Grade,
}

impl BandwidthFigures {
    /// One of the figures; `None` if no measurement counts.
    pub fn measured(&self, figure: f64) -> Option<f64> {
        (self.nics > 0).then_some(figure)
    }
}

/// The bandwidth of a part of the fabric under a pattern in which equal parts have equal flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct SetFigures {
    /// The part.
    pub unit: LoadUnit,
    /// Number of flows that were measured.
    pub flows: u32,
    /// Median of a flow.
    pub per_flow: f64,
    /// This median as a ratio to the median of equal parts.
    pub ratio: f64,
    /// What the topology allows for each flow; null if it is not known.
    pub theory: Option<f64>,
    /// How good it is.
    pub grade: Grade,
}

/// The figures of one target to which many NICs send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct StarFigures {
    /// The target.
    pub target: NicId,
    /// Number of sources.
    pub sources: u32,
    /// Sum of their bandwidths.
    pub sum: f64,
    /// The sum as a ratio to the quiet bandwidth; null if that is not known.
    pub ratio_to_quiet: Option<f64>,
    /// Jain's index of fairness.
    pub fairness: f64,
    /// Smallest share as a ratio to an equal share.
    pub smallest_share: f64,
    /// How good it is.
    pub grade: Grade,
}

/// A statistic of latencies, quiet and under load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Compared {
    /// Without load.
    pub quiet: f64,
    /// Under load.
    pub loaded: f64,
    /// Ratio of both: the impact factor.
    pub impact: f64,
    /// 95 % interval of the impact factor; null with too few victims.
    pub interval: Option<(f64, f64)>,
}

/// What load does to the victims of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct ImpactFigures {
    /// The pattern of the aggressors: `incast:8`.
    pub under: String,
    /// How roles were dealt.
    pub spread: Spread,
    /// What the victims measured.
    pub test: Test,
    /// The traffic class of the victims, if aggressors have another one.
    pub traffic_class: Option<String>,
    /// Class of the pairs; null for all of them.
    pub class: Option<Class>,
    /// Number of pairs over all repetitions.
    pub victims: u32,
    /// Number of pairs that do not count, because processes waited for CPUs.
    pub unjudged: u32,
    /// Largest ratio of two quiet medians of the class in the order of the survey: smaller
    /// differences say nothing.
    pub resolution: f64,
    /// The median.
    pub median: Compared,
    /// The 99th percentile; null with fewer than 1,000 samples.
    pub p99: Option<Compared>,
    /// The 99.9th percentile; null with fewer than 10,000 samples.
    pub p999: Option<Compared>,
    /// The victims far above this class, the worst first, at most five; of all classes none.
    pub far_above: Vec<FarVictim>,
    /// Histogram of the quiet latencies: lower edges of bins, and numbers of samples.
    pub quiet_histogram: Vec<(f64, u64)>,
    /// Histogram of the latencies under load.
    pub loaded_histogram: Vec<(f64, u64)>,
    /// How good it is.
    pub grade: Grade,
}

/// A victim whose impact factor is above 1.2, and more than 3 robust deviations above the median of
/// its class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct FarVictim {
    /// The pair.
    pub pair: Pair,
    /// Mean of its impact factors in the repetitions in which it was far above.
    pub impact: f64,
    /// Its quiet median as a ratio to the median of its class.
    pub quiet_ratio: f64,
}

/// How far another traffic class keeps load away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct IsolationFigures {
    /// The pattern of the aggressors.
    pub under: String,
    /// The other traffic class.
    pub traffic_class: String,
    /// Impact factor of victims in the class of the aggressors.
    pub same: f64,
    /// Impact factor of victims in the other class.
    pub other: f64,
    /// 1 − (other − 1)/(same − 1); null if there is nothing to isolate from.
    pub isolation: Option<f64>,
    /// How good it is.
    pub grade: Grade,
}

/// What counters of NICs say, summed up over the slots of a pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct CounterFigures {
    /// The pattern.
    pub pattern: String,
    /// Sums over the aggressors and their targets.
    pub aggressors: Vec<(Watched, u64)>,
    /// Sums over the victims.
    pub victims: Vec<(Watched, u64)>,
}

/// A part of the load that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// A pattern, or NICs.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// What the load was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct LoadSettings {
    /// The patterns, as typed.
    pub patterns: String,
    /// Number of NICs that could be used.
    pub nics: u32,
    /// Most NICs that sent at once.
    pub most_aggressors: u32,
    /// Whether a cap kept the load below what the NICs can do: no figure is a share of theory.
    pub is_partial: bool,
    /// Bytes of an operation of aggressors.
    pub size_bytes: u64,
    /// Bytes that an aggressor had under way at most.
    pub window_bytes: u64,
    /// Length of a slot, in seconds.
    pub slot_s: f64,
    /// Number of slots.
    pub slots: u32,
    /// Seed of roles and peers.
    pub seed: u64,
}

facts::named_enum! {
    /// What links connect.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum LinkKind {
        /// Two switches of a group.
        Switches = "switches of a group",
        /// Two groups.
        Groups = "groups",
    }
    /// What they connect, in sentences.
    pub fn name(self);
}

/// What flows carried over the links of one kind, under the patterns that judge it. A link that can
/// carry no less looks good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "testing", schemars(rename = "CrossedLinks"))]
pub struct LinkCoverage {
    /// What they connect.
    pub kind: LinkKind,
    /// Number of links, each direction by itself; all links from one switch or group to another one
    /// are one.
    pub links: u32,
    /// Number of links that flows crossed.
    pub crossed: u32,
    /// Bytes per second in the best slot of a link, where they are least.
    pub least: f64,
    /// Bytes per second in the best slot of a link, the median of the crossed links.
    pub median: f64,
}

/// What the survey has found under load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct LoadFindings {
    /// What the load was.
    pub settings: LoadSettings,
    /// Median bandwidth of a NIC without load; null if it was not measured.
    pub quiet_bandwidth: Option<f64>,
    /// Figures outside the limits or close to them, the worst first.
    pub judgements: Vec<LoadJudgement>,
    /// Bandwidths, by pattern.
    pub bandwidths: Vec<BandwidthFigures>,
    /// Latencies of victims.
    pub impacts: Vec<ImpactFigures>,
    /// Traffic classes.
    pub isolations: Vec<IsolationFigures>,
    /// Counters, by pattern.
    pub counters: Vec<CounterFigures>,
    /// What flows carried over links.
    #[serde(default)]
    pub crossed: Vec<LinkCoverage>,
    /// Patterns of which most measurements do not count: processes waited for CPUs, or did not
    /// measure.
    #[serde(default)]
    pub unmeasured: Vec<String>,
    /// Patterns and NICs that were left out.
    pub left_out: Vec<LeftOut>,
    /// Why figures have no verdict, if so: traffic of others.
    pub unjudged: Option<String>,
    /// Why the load ended early; null if it did not.
    pub aborted: Option<String>,
}

impl LoadFindings {
    /// Whether all patterns were measured and judged, and nothing is bad without a name.
    pub fn is_complete(&self) -> bool {
        self.unjudged.is_none()
            && self.unmeasured.is_empty()
            && self.bad_pattern().is_none()
            && self.bad_links().is_empty()
    }

    /// The links between groups that were bad under each pattern that loads them, of which there
    /// are several, although no judgement names them. Links within groups may be so without a
    /// fault: where a group has few links, the flows of a pattern share them unevenly.
    pub fn bad_links(&self) -> Vec<LoadUnit> {
        let mut grades: BTreeMap<LoadUnit, Vec<Grade>> = BTreeMap::new();
        for set in self.bandwidths.iter().flat_map(|bandwidth| &bandwidth.sets) {
            if matches!(set.unit, LoadUnit::GroupLinks { .. }) {
                grades.entry(set.unit).or_default().push(set.grade);
            }
        }
        let is_bad = |grades: &Vec<Grade>| {
            grades.len() > 1 && grades.iter().all(|grade| *grade == Grade::Bad)
        };
        let is_named =
            |links: LoadUnit| self.judgements.iter().any(|judgement| judgement.unit.covers(links));
        let bad = grades.iter().filter(|(_, grades)| is_bad(grades)).map(|(links, _)| *links);
        bad.filter(|links| !is_named(*links)).collect()
    }

    /// The name of a pattern that is bad, although nothing explains that or retests have not
    /// confirmed it.
    pub fn bad_pattern(&self) -> Option<&str> {
        let mut patterns = self.bandwidths.iter();
        let bad = patterns.find(|bandwidth| bandwidth.grade == Grade::Bad);
        bad.map(|bandwidth| bandwidth.pattern.as_str())
    }
}
