//! A model of a cluster, for tests and for the benchmark of a survey: what its pairs would answer,
//! with noise and with planted faults.

use fastrand::Rng;

use super::answer::{Answer, CounterEvidence, Figures, LINK_ERRORS, PairResult, RETRIES, Untested};
use super::conductor::{Conductor, Settings};
use super::findings::{Certainty, Direction, Findings, Test};
use super::pairs::parse;
use super::roster::{Nic, NicId, Node, NodeId, Pair, Roster, TestId, Unit};
use super::rounds::{NicOrder, Round};
use crew::location::{Class, Location};

/// The pair of the NICs with these indices.
pub const fn pair(initiator: u32, target: u32) -> Pair {
    Pair { initiator: NicId(initiator), target: NicId(target) }
}

/// Returns how many seeds a test tries: all of them with `CXIDIAG_LONG_TESTS`, which `tests/long`
/// sets, otherwise the first quarter.
pub fn seeds(all: u64) -> std::ops::Range<u64> {
    let is_long = std::env::var_os("CXIDIAG_LONG_TESTS").is_some();
    0..if is_long { all } else { all.div_ceil(4) }
}

/// What a fault does to a pair.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// It takes this many times as long.
    Slow(f64),
    /// Its bandwidths are this many times as small, and latencies as they were.
    Throttles(f64),
    Fails,
    /// Its operations have no answer.
    IsDead,
    /// This part of its measurements fails.
    Loses(f64),
    /// Its initiator sends about this many packets again.
    Resends(f64),
    /// Its initiator counts about this many packets that were damaged on its link, if it is at
    /// fault itself.
    Damages(f64),
    /// A few of its operations take 200 times as long as the others.
    HasTail,
    /// One of five of its operations takes this many times as long as the others.
    DelaysSome(f64),
}

/// The failure of a pair with a part that is dead.
pub const DEAD: &str = "no answer to a write";

/// A fault of a part of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The part.
    pub unit: Unit,
    /// In which role.
    pub direction: Direction,
    /// What it does.
    pub effect: Effect,
}

impl Fault {
    /// Creates a fault that makes pairs slow.
    pub fn slow(unit: Unit, direction: Direction, factor: f64) -> Self {
        Self { unit, direction, effect: Effect::Slow(factor) }
    }

    /// Whether the fault meets a pair.
    pub fn has(&self, roster: &Roster, pair: Pair) -> bool {
        let is_match = |nic: NicId| {
            let own = roster.nic(nic);
            match self.unit {
                Unit::Nic(index) => index == nic,
                Unit::Node(node) => own.node == node,
                Unit::Switch { group, switch } => {
                    own.location.is_some_and(|place| (place.group, place.switch) == (group, switch))
                }
                Unit::Group(group) => own.location.is_some_and(|place| place.group == group),
                Unit::GroupPair(..) | Unit::Path(_) => false,
            }
        };
        let group = |nic: NicId| roster.nic(nic).location.map(|place| place.group);
        match (self.unit, self.direction) {
            (Unit::Path(path), Direction::Both) => {
                pair == path || (pair.initiator, pair.target) == (path.target, path.initiator)
            }
            (Unit::Path(path), _) => pair == path,
            (Unit::GroupPair(one, other), _) => {
                let groups = (group(pair.initiator), group(pair.target));
                groups == (Some(one), Some(other)) || groups == (Some(other), Some(one))
            }
            (_, Direction::Initiator) => is_match(pair.initiator),
            (_, Direction::Target) => is_match(pair.target),
            (_, Direction::Both) => is_match(pair.initiator) || is_match(pair.target),
        }
    }
}

/// How busy the CPUs of nodes are.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The only busy node; all nodes if `None`.
    pub node: Option<NodeId>,
    /// Part of the fast pairs whose processes waited for their CPUs.
    pub disturbed: f64,
    /// Part of the fast pairs that stay untested. Slow pairs are disturbed and untested
    /// [`LESS_OFTEN`] as often: their processes sleep, and a process that spins waits for its CPU.
    pub untested: f64,
    /// Whether waiting leaves bandwidths as they are, because links limit them.
    pub is_harmless: bool,
}

impl Load {
    fn has(&self, roster: &Roster, pair: Pair) -> bool {
        self.node.is_none_or(|node| pair.nics().iter().any(|nic| roster.nic(*nic).node == node))
    }
}

/// How often a slow pair is disturbed, as a part of the frequency of fast ones.
const LESS_OFTEN: f64 = 0.2;

/// Ratio to the usual figure from which a pair is slow.
const SLOW: f64 = 1.3;

#[derive(Debug)]
pub struct Cluster {
    /// Its nodes and NICs.
    pub roster: Roster,
    pub tests: Vec<Test>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// Standard deviation of the logarithm of a figure.
    pub noise: f64,
    /// The same of minima and of 5th percentiles, which busy CPUs spread further.
    pub noise_of_least: (f64, f64),
    /// Spread of the 90th percentiles, as multiples of the medians.
    pub noise_of_p90: f64,
    /// Part of the figures that are three times as bad.
    pub spikes: f64,
    /// About how many packets the initiator of any pair sends again.
    pub resent: f64,
    /// How busy the CPUs are.
    pub load: Option<Load>,
    rng: Rng,
    rounds: u32,
}

impl Cluster {
    /// Creates a cluster of groups, switches in each, nodes at each switch and NICs in each node.
    /// Without groups, locations are not known and `nodes` is the number of all nodes.
    pub fn new([groups, switches, nodes, nics]: [u16; 4], tests: &[&str], seed: u64) -> Self {
        let mut roster = Roster::default();
        for place in 0..groups.max(1) * switches.max(1) * nodes {
            let rank = roster.nodes.len() as u32;
            roster.nodes.push(Node { host: format!("nid{rank:06}"), rank, absent: None });
            let switch = place / nodes;
            for nic in 0..nics {
                roster.nics.push(Nic {
                    node: NodeId(rank),
                    device: format!("cxi{nic}"),
                    nid: Some(roster.nics.len() as u32),
                    location: (groups > 0).then(|| Location {
                        group: switch / switches,
                        switch: switch % switches,
                        port: Some(place % nodes * nics + nic),
                    }),
                    failure: None,
                });
            }
        }
        let test = |tool: &&str| Test {
            tool: (*tool).to_owned(),
            size_bytes: 8,
            of_bandwidth: tool.ends_with("bw"),
        };
        Self {
            roster,
            tests: tests.iter().map(test).collect(),
            faults: Vec::new(),
            noise: 0.03,
            noise_of_least: (0.0, 0.0),
            noise_of_p90: 0.0,
            spikes: 0.0,
            resent: 0.0,
            load: None,
            rng: Rng::with_seed(seed),
            rounds: 0,
        }
    }

    /// Returns what a pair answers to a test, and how long its processes waited for their CPUs.
    pub(crate) fn answer(&mut self, test: TestId, pair: Pair) -> (Answer, u8) {
        let mut ratio = (self.noise * self.normal()).exp();
        if self.rng.f64() < self.spikes {
            ratio *= 3.0;
        }
        let (mut p90, mut tail) = (1.25 + self.half_normal(self.noise_of_p90), 2);
        let failed = || Answer::Failed("the NIC reported RC_TIMEOUT".into());
        for fault in self.faults.iter().filter(|fault| fault.has(&self.roster, pair)) {
            match fault.effect {
                Effect::Slow(factor) => ratio *= factor,
                Effect::Throttles(factor) if self.tests[test.index()].of_bandwidth => {
                    ratio *= factor
                }
                Effect::Fails => return (failed(), 0),
                Effect::IsDead => return (Answer::Failed(DEAD.into()), 0),
                Effect::Loses(part) if self.rng.f64() < part => return (failed(), 0),
                Effect::HasTail => tail = 200,
                Effect::DelaysSome(times) => (p90, tail) = (times * p90, times as u64 + 2),
                Effect::Loses(_)
                | Effect::Throttles(_)
                | Effect::Resends(_)
                | Effect::Damages(_) => {}
            }
        }
        let (mut delay, mut delay_of_least, mut waited) = (1.0, 1.0, 0);
        if let Some(load) = self.load.filter(|load| load.has(&self.roster, pair)) {
            let part = if ratio > SLOW { LESS_OFTEN } else { 1.0 };
            if self.rng.f64() < part * load.untested {
                return (Answer::Untested(Untested::Late), 0);
            }
            if self.rng.f64() < part * load.disturbed {
                waited = self.rng.u8(30..95);
                delay = 1.0 + (1.5 * self.normal()).exp();
                delay_of_least = 1.0 + 0.02 * self.normal().abs();
                if self.rng.f64() < 0.02 {
                    delay_of_least *= 2.0;
                }
            }
        }
        let figures = if self.tests[test.index()].of_bandwidth {
            let is_harmless = self.load.is_some_and(|load| load.is_harmless);
            let bytes_per_second = 24e9 / ratio / if is_harmless { 1.0 } else { delay };
            Figures::Bandwidth {
                bytes_per_second,
                operations_per_second: bytes_per_second / 65_536.0,
            }
        } else {
            let base = match self.roster.class(pair) {
                Class::Loopback => 1500.0,
                Class::Fabric => 2600.0,
                Class::Group => 2200.0,
                _ => 1800.0,
            };
            let (min_value, p5_value) = self.noise_of_least;
            let noise_of_min = self.half_normal(min_value);
            let noise_of_p5 = self.half_normal(p5_value);
            let least_ns = 0.9 * base * ratio * delay_of_least;
            let median_ns = (base * ratio * delay).max(least_ns) as u64;
            Figures::Latency {
                count: 10_000,
                min_ns: (0.95 * least_ns * (-noise_of_min).exp()) as u64,
                p5_ns: Some((least_ns * noise_of_p5.exp()) as u64),
                median_ns,
                p90_ns: Some((median_ns as f64 * p90) as u64),
                p99_ns: Some(median_ns * tail.max(p90 as u64 + 1)),
                max_ns: median_ns * (tail + p90 as u64 + 2),
            }
        };
        (Answer::Measured(figures), waited)
    }

    /// A number that is not negative, with this spread. Without a spread it takes no random number,
    /// so that clusters with a seed stay as they are.
    fn half_normal(&mut self, spread: f64) -> f64 {
        if spread > 0.0 { spread * self.normal().abs() } else { 0.0 }
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.rng.f64()).cos()
    }

    pub fn measure(&mut self, round: &Round) -> Vec<PairResult> {
        self.rounds += 1;
        let pairs = round.pairs.iter().map(|pair| PairResult {
            test: round.test,
            pair: *pair,
            stage: round.stage,
            round: self.rounds - 1,
            active: round.pairs.len() as u32,
            answer: Answer::Untested(Untested::NoReport),
            waited_percent: 0,
            counters: Vec::new(),
        });
        let mut results: Vec<PairResult> = pairs.collect();
        for result in &mut results {
            (result.answer, result.waited_percent) = self.answer(result.test, result.pair);
            result.counters = self.counters(result.pair);
        }
        results
    }

    /// The counters of the initiator of a pair.
    pub(crate) fn counters(&mut self, pair: Pair) -> Vec<CounterEvidence> {
        let (mut resent, mut damaged) = (self.resent, 0.0);
        let own = Pair::loopback(pair.initiator);
        for fault in &self.faults {
            match fault.effect {
                Effect::Resends(packets) if fault.has(&self.roster, pair) => resent += packets,
                Effect::Damages(packets) if fault.has(&self.roster, own) => damaged += packets,
                _ => {}
            }
        }
        let counts = [(RETRIES, resent), (LINK_ERRORS[0], damaged)];
        let counts = counts.into_iter().filter(|(_, packets)| *packets > 0.0);
        let evidence = counts.map(|(counter, packets)| CounterEvidence {
            nic: pair.initiator,
            counter: counter.into(),
            change: (packets * (0.3 * self.normal()).exp()) as u64,
        });
        evidence.collect()
    }
}

/// The settings of a survey of these pairs.
pub fn settings(pairs: &str, seed: u64) -> Settings {
    Settings {
        selections: parse(pairs, |path| Err(path.to_owned())).unwrap(),
        nics: NicOrder::InTurn,
        most_active: None,
        seed,
        expectations: Vec::new(),
        sensitivity: None,
        keep_figures: None,
    }
}

/// Answers rounds until the survey is over.
pub fn run(cluster: &mut Cluster, conductor: &mut Conductor) {
    run_with(cluster, conductor, Cluster::measure);
}

/// Answers rounds as `measure` does until the survey is over.
fn run_with(
    cluster: &mut Cluster,
    conductor: &mut Conductor,
    mut measure: impl FnMut(&mut Cluster, &Round) -> Vec<PairResult>,
) {
    while !conductor.is_over() {
        for round in conductor.next_rounds(100) {
            for result in measure(cluster, &round) {
                conductor.add(&result);
            }
        }
    }
}

/// The findings of a survey whose rounds `measure` answers.
pub fn survey_with(
    cluster: &mut Cluster,
    settings: Settings,
    measure: impl FnMut(&mut Cluster, &Round) -> Vec<PairResult>,
) -> Findings {
    let (roster, tests) = (cluster.roster.clone(), cluster.tests.clone());
    let mut conductor = Conductor::new(roster, tests, settings).unwrap();
    run_with(cluster, &mut conductor, measure);
    conductor.findings()
}

/// The findings of a survey of these pairs, all of which are measured.
pub fn survey(cluster: &mut Cluster, pairs: &str, seed: u64) -> Findings {
    let findings = survey_of_some(cluster, pairs, seed);
    assert_eq!(findings.answered, findings.planned);
    findings
}

/// The findings of a survey that NICs may leave.
pub fn survey_of_some(cluster: &mut Cluster, pairs: &str, seed: u64) -> Findings {
    survey_with(cluster, settings(pairs, seed), Cluster::measure)
}

/// The parts that are bad or suspect.
pub fn named(findings: &Findings) -> Vec<(Unit, Certainty, Direction)> {
    let lasting = findings.causes.iter().filter(|cause| cause.certainty != Certainty::Transient);
    lasting.map(|cause| (cause.unit, cause.certainty, cause.direction)).collect()
}
