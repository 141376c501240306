//! What a survey has found, and the state of each NIC. The doc comments are the descriptions in the
//! schema of its document.

use serde::{Deserialize, Serialize};

use super::answer::{CounterEvidence, PairResult, Untested};
use super::roster::{self, Nic, NicId, Role, Roster, TestId, Unit};
use crew::location::Class;
use facts::severity::Severity;

/// A test: what is measured between two NICs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Test {
    /// Name of the tool: `write-lat`.
    pub tool: String,
    /// Size of the operations, in bytes.
    pub size_bytes: u64,
    /// Whether the figure is a bandwidth in bytes per second, so that small values are bad.
    /// Otherwise it is a latency in nanoseconds, and large values are bad.
    pub of_bandwidth: bool,
}

facts::named_enum! {
    /// How sure the survey is about a part of the cluster.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Certainty {
        /// The part was outside the limits once, and inside the limits twice in retests; of
        /// software NICs once.
        Transient = "transient",
        /// The part was outside the limits, and no retest has confirmed it.
        Suspect = "suspect",
        /// Retests have confirmed that the part is outside the limits, or counters of damaged or
        /// lost packets have changed in most of its pairs.
        Bad = "bad",
    }
    /// Its name in texts and metrics.
    pub fn name(self);
}

impl Certainty {
    /// Returns how bad the part is.
    pub fn severity(self) -> Severity {
        if self == Self::Bad { Severity::Bad } else { Severity::Suspect }
    }
}

/// In which role a unit is outside the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// As initiator only: the transmitting side.
    Initiator,
    /// As target only: the receiving side.
    Target,
    /// In both roles, or in one without a measurement of the other.
    Both,
}

impl Direction {
    /// The direction of a role; `None` for both.
    pub fn of(role: Option<Role>) -> Self {
        match role {
            Some(Role::Initiator) => Self::Initiator,
            Some(Role::Target) => Self::Target,
            None => Self::Both,
        }
    }

    /// Whether it is about this role.
    pub fn has(self, role: Role) -> bool {
        match self {
            Self::Initiator => role == Role::Initiator,
            Self::Target => role == Role::Target,
            Self::Both => true,
        }
    }
}

/// Which limit a figure did not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitSource {
    /// The population of its class: the ratio to good pairs.
    Population,
    /// The population of its class: the number of packets that the initiator sent again.
    Retries,
    /// --expect.
    Expect,
    /// The operations failed or were not answered.
    Failure,
    /// Counters of the initiator: packets were damaged on its link.
    LinkErrors,
    /// Counters of the initiator: packets were sent again, or not answered in time.
    Losses,
    /// The 99th percentile of the latencies, as a multiple of their median.
    Tail,
}

/// The statistic of its samples by which a pair is judged.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The median latency, or the bandwidth.
    #[default]
    Median,
    /// The 5th percentile of the latencies: busy CPUs delay most samples, but not all.
    P5,
    /// The smallest latency.
    Min,
    /// The bandwidth, beside CPUs so busy that it is only a lower bound.
    Bound,
    /// The bandwidth, beside busy CPUs that did not limit it: it does not follow how long processes
    /// waited for them.
    Unaffected,
}

/// What one test says about a cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Index of the test.
    pub test: TestId,
    /// Class of the pairs.
    pub class: Class,
    /// Pairs of the cause outside the limit; for a path, measurements outside the limit, with
    /// retests.
    pub outside: u32,
    /// Pairs of the cause that were measured; for a path, measurements.
    pub measured: u32,
    /// By which statistic of their samples the pairs of the class are judged.
    #[serde(default)]
    pub figure: Statistic,
    /// Median figure of the pairs outside the limit; null if all of them failed, and if counters or
    /// tails are the evidence.
    pub value: Option<f64>,
    /// Median figure of the good pairs of the class; null if nothing of it was measured.
    pub median: Option<f64>,
    /// The limit, if it is a figure.
    pub limit: Option<f64>,
    /// Which limit it is.
    pub source: LimitSource,
    /// Median number of packets that the initiator of a pair outside the limit sent again; null
    /// unless this number is the limit.
    pub retries: Option<f64>,
    /// Median of this number in the class.
    pub usual_retries: Option<f64>,
    /// The most frequent message of the failed pairs; null if none failed.
    pub failure: Option<String>,
}

/// A part of the cluster that explains results outside the limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Cause {
    /// The part.
    pub unit: Unit,
    /// How sure the survey is.
    #[serde(rename = "word")]
    pub certainty: Certainty,
    /// The role of the part in pairs outside the limits.
    pub direction: Direction,
    /// What the tests say, the strongest first.
    pub evidence: Vec<Evidence>,
    /// Counters of its NICs whose changes may explain the results, summed up over its pairs.
    #[serde(rename = "witnesses")]
    pub counters: Vec<CounterEvidence>,
}

/// The figures of the pairs of one test and class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Population {
    /// Index of the test.
    pub test: TestId,
    /// The class.
    pub class: Class,
    /// By which statistic of their samples the pairs are judged. Limit and sensitivity are about
    /// this figure; the distribution below is of medians or bandwidths.
    #[serde(default)]
    pub figure: Statistic,
    /// Number of measured pairs.
    pub count: u64,
    /// Number of measured pairs whose figures are only bounds that say nothing, because a process
    /// waited for its CPU.
    #[serde(default)]
    pub unjudged: u64,
    /// Number of measured pairs outside the limits that retests have not found inside them.
    pub outside: u64,
    /// Number of pairs that failed, which have no figure. A class without any measured pair is not
    /// listed here: its failures are only in the evidence.
    pub failed: u64,
    /// Smallest figure.
    pub min: f64,
    /// Percentiles 1, 5, 25, 50, 75, 95 and 99 of the figures.
    pub percentiles: [f64; 7],
    /// Largest figure.
    pub max: f64,
    /// Lower end of the 95 % interval of the median; null with fewer than 8 pairs.
    pub median_low: Option<f64>,
    /// Upper end of this interval.
    pub median_high: Option<f64>,
    /// Robust standard deviation.
    pub sigma: f64,
    /// Limit of a pair from the population; null with fewer than 8 pairs, or if the population is
    /// biased or mixed: its pairs differ too much to say which of them are good, or the limit would
    /// be more than 10 times a good pair.
    pub limit: Option<f64>,
    /// Whether the pairs without a figure are unevenly spread over the figures, so that these say
    /// nothing about the class.
    #[serde(default)]
    pub biased: bool,
    /// Whether all pairs pass the same links, between two groups or two switches, and are slower
    /// than pairs that pass fewer: nothing shows that these links are good. --expect judges them.
    #[serde(default)]
    pub incomparable: bool,
    /// The smallest ratio to good pairs at which a NIC would have been found in any role: faults of
    /// some NICs were added to the figures of this survey. Null without a limit, and if no ratio
    /// that says something would have been found.
    #[serde(default)]
    pub sensitivity: Option<f64>,
    /// The same for the links between two groups. Null without a limit, and without measured pairs
    /// of two groups.
    #[serde(default)]
    pub links_sensitivity: Option<f64>,
    /// Limit of --expect; null without.
    pub expected: Option<f64>,
    /// Histogram: lower edges of bins of equal ratio, ascending, and the number of pairs in each.
    pub histogram: Vec<(f64, u64)>,
}

impl Population {
    /// The median figure.
    pub fn median(&self) -> f64 {
        self.percentiles[3]
    }
}

/// Sums over the pairs of a switch or a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Aggregate {
    /// Index of the test.
    pub test: TestId,
    /// The switch, group or pair of groups.
    pub unit: Unit,
    /// Number of measured pairs.
    pub count: u64,
    /// Median figure.
    pub median: f64,
    /// Worst figure.
    pub worst: f64,
    /// Number of pairs outside the limits.
    pub outside: u64,
}

/// The figures of each pair of NICs, for pictures: one for each test, on request and for small
/// surveys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Matrix {
    /// Index of the test.
    pub test: TestId,
    /// Initiator, target, figure; null if the pair failed. Pairs that were not measured are
    /// missing.
    pub cells: Vec<(NicId, NicId, Option<f64>)>,
}

/// Pairs or NICs that were not measured, and NICs whose figures say nothing in some tests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct UntestedPart {
    /// The part that was not measured or not judged: a node, a NIC or a path.
    pub unit: Unit,
    /// The tests in which the NIC was measured but not judged; empty if the part was not measured.
    #[serde(default)]
    pub tests: Vec<TestId>,
    /// Whether only faults below the sensitivity of its classes were not judged.
    #[serde(default)]
    pub is_coarse: bool,
    /// Why.
    #[cfg_attr(feature = "testing", schemars(with = "String"))]
    pub reason: Untested,
    /// Number of pairs that were left out for this reason.
    pub pairs: u64,
}

impl UntestedPart {
    /// A part that was not measured, for this reason.
    pub fn new(unit: Unit, reason: impl Into<Untested>) -> Self {
        Self { unit, tests: Vec::new(), is_coarse: false, reason: reason.into(), pairs: 0 }
    }
}

/// A NIC that is slower than the other ones, within the limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Outlier {
    /// The NIC, as an index in the roster.
    pub nic: NicId,
    /// Index of the test.
    pub test: TestId,
    /// Class of most of its pairs.
    pub class: Class,
    /// How many times as long as good pairs its pairs take.
    pub ratio: f64,
    /// The logarithm of this ratio, in robust deviations of the NICs.
    pub score: f64,
}

/// What the survey has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct Findings {
    /// Parts that are bad, suspect or transient, the worst first.
    #[serde(rename = "culprits")]
    pub causes: Vec<Cause>,
    /// Parts that were not measured.
    pub untested: Vec<UntestedPart>,
    /// NICs in no pair of a selection that takes some NICs of each switch or group, or of a file:
    /// the survey says nothing about them.
    pub unpaired: Vec<NicId>,
    /// The figures by test and class.
    pub populations: Vec<Population>,
    /// NICs that are slower than the others of their class, within the limits; the worst first.
    #[serde(default)]
    pub outliers: Vec<Outlier>,
    /// Sums over switches, groups and pairs of groups, where locations are known.
    pub aggregates: Vec<Aggregate>,
    /// Results of pairs outside the limits, and of their retests.
    pub outside: Vec<PairResult>,
    /// The figures of all pairs; empty unless they were kept.
    pub matrices: Vec<Matrix>,
    /// Pairs that were to be measured, and pairs of --resume that were not asked for.
    pub planned: u64,
    /// Pairs that were measured or failed, now or in the survey of --resume.
    pub answered: u64,
    /// Whether all pairs were measured after the pairs of --pairs, because these differed too much.
    #[serde(default)]
    pub widened: bool,
}

facts::named_enum! {
    /// The state of a NIC, the worst last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum State {
        /// The NIC and the parts that it belongs to are good.
        Good = "good",
        /// The NIC is in no pair: nothing is known about it.
        Unpaired = "unpaired",
        /// The NIC or its node was left out at least once, or not judged in a test.
        Untested = "untested",
        /// The NIC belongs to a suspect part, or it is an end of a path that is suspect or bad.
        Suspect = "suspect",
        /// The NIC belongs to a bad part.
        Bad = "bad",
    }
    pub fn name(self);
}

/// The state of the NICs of a part; `None` if it says nothing about them.
pub fn state_of(certainty: Certainty) -> Option<State> {
    match certainty {
        Certainty::Bad => Some(State::Bad),
        Certainty::Suspect => Some(State::Suspect),
        Certainty::Transient => None,
    }
}

/// The state of each NIC of the roster without load.
pub fn states(roster: &Roster, verdict: &Findings) -> Vec<State> {
    let nic_state = |nic: &Nic| {
        let is_absent = roster.node(nic.node).absent.is_some();
        if is_absent || nic.failure.is_some() || verdict.answered == 0 {
            State::Untested
        } else {
            State::Good
        }
    };
    let mut states: Vec<State> = roster.nics.iter().map(nic_state).collect();
    for nic in &verdict.unpaired {
        states[nic.index()] = State::Unpaired;
    }
    let untested = verdict.untested.iter().map(|part| (&part.unit, State::Untested));
    let causes = verdict.causes.iter();
    let causes = causes.filter_map(|cause| Some((&cause.unit, state_of(cause.certainty)?)));
    for (unit, state) in untested.chain(causes) {
        let state = match (unit, state) {
            // Its ends are tested with other partners.
            (Unit::Path(_), State::Untested) => State::Good,
            (Unit::Path(_), _) => State::Suspect,
            _ => state,
        };
        for nic in members(roster, unit) {
            let known = &mut states[nic.index()];
            *known = state.max(*known);
        }
    }
    states
}

/// The same states, except that NICs are good whose figures say something in a test that shows the
/// fault of a bad part: they do not have this fault.
pub fn states_beside_bad(roster: &Roster, verdict: &Findings) -> Vec<State> {
    let bad = verdict.causes.iter().filter(|cause| cause.certainty == Certainty::Bad);
    let shown: Vec<&Evidence> = bad.flat_map(|cause| &cause.evidence).collect();
    let is_found = |part: &UntestedPart, one: &Evidence| {
        let populations = verdict.populations.iter().filter(|other| other.test == one.test);
        let mut ratios = populations.filter_map(|population| population.sensitivity);
        let found = one.value.zip(one.median).map(|(own, median)| (own / median).ln().abs());
        part.is_coarse && found.is_some_and(|found| ratios.all(|ratio| ratio.ln() <= found))
    };
    let hides = |part: &UntestedPart, one: &Evidence| {
        part.tests.is_empty() || (part.tests.contains(&one.test) && !is_found(part, one))
    };
    let is_open = |part: &&UntestedPart| {
        let is_own = |other: &&UntestedPart| other.unit == part.unit;
        let own: Vec<&UntestedPart> = verdict.untested.iter().filter(is_own).collect();
        shown.iter().all(|one| own.iter().any(|part| hides(part, one)))
    };
    let untested = verdict.untested.iter().filter(is_open).cloned().collect();
    states(roster, &Findings { untested, ..verdict.clone() })
}

/// The NICs of a part. A path has both of its ends. A pair of groups has none, because its links
/// belong to no NIC.
pub fn members(roster: &Roster, unit: &Unit) -> Vec<NicId> {
    match *unit {
        Unit::Path(pair) => vec![pair.initiator, pair.target],
        unit => roster::members(unit, roster),
    }
}
