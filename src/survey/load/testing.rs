//! Fabrics and results for tests, and a model of a dragonfly: the rates of flows on minimal paths,
//! with planted faults (load.md 4.7), and simple load slots of the patterns.

use std::collections::{BTreeMap, HashSet};

use fastrand::Rng;

use super::conductor::{Cap, LoadConductor, LoadSetup, LoadSizes};
use super::flows::flows as flows_of;
use super::limits::{FabricShape, PAYLOAD};
use super::roles::{LocatedNic, placed};
use super::spec::{Pattern, Set, parse};
use crate::results::{LoadResults, ResultFacts};
use crate::slot::{LoadFlow, LoadMeasurement, LoadSlot};
use campaign::quiet::findings::Test;
use campaign::quiet::roster::{NicId, NodeId, Roster};
use campaign::quiet::testing::Cluster;
use campaign::timetable::{Histogram, PARTS, SlotTimes, TaskAnswer, TaskResult};
use crew::location::Location;

/// A fabric of groups, switches in each, nodes at each switch, and NICs of each node.
pub fn fabric(shape: [u16; 4]) -> Roster {
    Cluster::new(shape, &[], 1).roster
}

/// A fabric whose nodes have a NIC at each switch of their group.
pub fn fabric_of_wide_nodes(groups: u16, switches: u16, nodes: u16) -> Roster {
    let mut roster = fabric([groups, switches, nodes, 1]);
    for (index, nic) in roster.nics.iter_mut().enumerate() {
        let nodes = usize::from(nodes);
        let group = index / (nodes * usize::from(switches));
        nic.node = NodeId((group * nodes + index % nodes) as u32);
    }
    roster
}

/// The fabric of the vectors of load.md 5: four groups of two switches with two NICs.
pub fn d4() -> Roster {
    fabric([4, 2, 2, 1])
}

pub fn all(roster: &Roster) -> Vec<NicId> {
    roster.nic_ids().collect()
}

pub fn all_placed(roster: &Roster) -> Vec<LocatedNic> {
    placed(roster, &all(roster))
}

/// The settings of software NICs of 1 GB/s.
pub fn setup(wanted: &str) -> LoadSetup {
    LoadSetup {
        wanted: parse(wanted).unwrap(),
        sizes: LoadSizes { size_bytes: 65_536, window_bytes: 1 << 20 },
        victims_percent: super::roles::VICTIMS_PERCENT,
        cap: Cap::Default,
        nic_rate: Some(1e9),
        facts: ResultFacts {
            theory: None,
            is_partial: false,
            is_software: true,
            victim_test: Test { tool: "write-lat".into(), size_bytes: 8, of_bandwidth: false },
            other_class: None,
            seed: 7,
        },
    }
}

/// The load of a fabric.
pub fn conductor(roster: &Roster, setup: LoadSetup) -> LoadConductor {
    LoadConductor::new(roster, all(roster), setup).unwrap()
}

/// Returns what the NICs of a load slot report on a good fabric. `rate` is the bandwidth of a
/// source.
pub fn results(load_slot: &LoadSlot, slot: u32, rate: impl Fn(NicId) -> f64) -> Vec<TaskResult> {
    let part_s = SlotTimes::from_slot(load_slot.slot_ns).counted() as f64 / 1e9 / PARTS as f64;
    let result = |nic, answer| TaskResult::new(slot, nic, answer);
    let mut results = Vec::new();
    let mut targets: Vec<NicId> = load_slot.victims.iter().map(|pair| pair.target).collect();
    for flow in &load_slot.flows {
        let bytes = [(rate(flow.source) * part_s) as u64; PARTS];
        let unreached = Vec::new();
        results.push(result(flow.source, TaskAnswer::Sent { bytes, unreached }));
        targets.extend(&flow.peers);
    }
    for pair in &load_slot.victims {
        let mut latencies = Histogram::default();
        latencies.add(2000, 5000);
        latencies.add(2500, 100);
        results.push(result(pair.initiator, TaskAnswer::Latencies(latencies)));
    }
    // A NIC that sends and receives has one result.
    let mut seen: HashSet<NicId> = results.iter().map(|result| result.nic).collect();
    targets.retain(|nic| seen.insert(*nic));
    let watched = targets.into_iter().map(|nic| result(nic, TaskAnswer::Present));
    results.extend(watched);
    results
}

/// The pairs of `bisect:system` in vector 9 of load.md.
pub const VECTOR_9: [(u32, u32); 8] =
    [(0, 8), (1, 13), (2, 10), (3, 15), (4, 12), (5, 9), (6, 14), (7, 11)];

/// Length of all load slots.
const SLOT_NS: u64 = 250_000_000;

/// A link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ModelLink {
    Transmit(NicId),
    Receive(NicId),
    /// The links between two switches of a group.
    Local(u16, u16, u16),
    /// A cable between two groups.
    Global(u16, u16, u32),
}

/// A part whose links are slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlowLinks {
    /// From one group to another one, perhaps in both directions.
    Global(u16, u16, bool),
    /// From one switch of a group to another one, perhaps in both directions.
    Local(u16, u16, u16, bool),
    /// The ports of the NICs of a switch.
    Ports(u16, u16),
    /// All ports and links of a switch.
    Switch(u16, u16),
    /// All links between the switches of a group, and to other groups.
    Group(u16),
    Transmit(NicId),
    Receive(NicId),
    /// Both.
    Nic(NicId),
}

pub struct ModelFabric {
    pub shape: FabricShape,
    pub roster: Roster,
    /// Slow parts, and the rates of their links as a ratio to good ones.
    pub faults: Vec<(SlowLinks, f64)>,
    /// Standard deviation of a rate, as a part of it.
    pub noise: f64,
    /// Part of the results that busy CPUs spoil.
    pub silent: f64,
    pub rng: Rng,
}

/// The fabric D4 of load.md 5: four groups of two switches with two NICs, all links 50 MB/s.
pub fn d4_model() -> ModelFabric {
    ModelFabric::new(FabricShape {
        groups: 4,
        switches: 2,
        nics: 2,
        links: 1,
        nic_rate: 50e6,
        local_rate: 50e6,
        global_rate: 50e6,
        is_minimal: true,
    })
}

impl ModelFabric {
    pub fn new(shape: FabricShape) -> Self {
        let sizes = [shape.groups, shape.switches, shape.nics, 1].map(|number| number as u16);
        Self {
            shape,
            roster: Cluster::new(sizes, &[], 1).roster,
            faults: Vec::new(),
            noise: 0.0,
            silent: 0.0,
            rng: Rng::with_seed(1),
        }
    }

    /// Adds a slow part.
    pub fn with(mut self, links: SlowLinks, ratio: f64) -> Self {
        self.faults.push((links, ratio));
        self
    }

    fn place(&self, nic: NicId) -> Location {
        self.roster.location(nic).expect("a location")
    }

    /// The switch of a group at which its cable to another group ends.
    fn end(&self, group: u16, other: u16, cable: u32) -> u16 {
        let groups = self.shape.groups;
        let distance = (u32::from(other) + groups - u32::from(group)) % groups;
        ((distance - 1 + cable) % self.shape.switches) as u16
    }

    /// The links of a flow, and which part of it each of them carries.
    fn path(&self, source: NicId, target: NicId) -> Vec<(ModelLink, f64)> {
        let (from, to) = (self.place(source), self.place(target));
        let mut links = vec![(ModelLink::Transmit(source), 1.0), (ModelLink::Receive(target), 1.0)];
        let mut local = |group, from, to, part| {
            if from != to {
                links.push((ModelLink::Local(group, from, to), part));
            }
        };
        if from.group == to.group {
            local(from.group, from.switch, to.switch, 1.0);
            return links;
        }
        let part = 1.0 / f64::from(self.shape.links);
        let mut global = Vec::new();
        for cable in 0..self.shape.links {
            let out = self.end(from.group, to.group, cable);
            local(from.group, from.switch, out, part);
            local(to.group, self.end(to.group, from.group, cable), to.switch, part);
            global.push((ModelLink::Global(from.group, to.group, cable), part));
        }
        links.extend(global);
        links
    }

    /// The payload rate of a link.
    fn rate(&self, link: ModelLink) -> f64 {
        let rate = match link {
            ModelLink::Transmit(_) | ModelLink::Receive(_) => self.shape.nic_rate,
            ModelLink::Local(..) => self.shape.local_rate,
            ModelLink::Global(..) => self.shape.global_rate,
        };
        let slow = self.faults.iter().filter(|(links, _)| self.has(*links, link));
        slow.fold(PAYLOAD * rate, |rate, (_, ratio)| rate * ratio)
    }

    fn has(&self, slow: SlowLinks, link: ModelLink) -> bool {
        let is_at = |nic: NicId, group: u16, switch: u16| {
            let place = self.place(nic);
            (place.group, place.switch) == (group, switch)
        };
        match (slow, link) {
            (SlowLinks::Global(from, to, both), ModelLink::Global(one, other, _)) => {
                (from, to) == (one, other) || both && (to, from) == (one, other)
            }
            (SlowLinks::Local(group, from, to, both), ModelLink::Local(number, one, other)) => {
                group == number
                    && ((from, to) == (one, other) || both && (to, from) == (one, other))
            }
            (
                SlowLinks::Ports(group, switch) | SlowLinks::Switch(group, switch),
                ModelLink::Transmit(nic) | ModelLink::Receive(nic),
            ) => is_at(nic, group, switch),
            (SlowLinks::Switch(group, switch), ModelLink::Local(number, one, other)) => {
                group == number && (switch == one || switch == other)
            }
            (SlowLinks::Switch(group, switch), ModelLink::Global(one, other, cable)) => {
                group == one && self.end(one, other, cable) == switch
                    || group == other && self.end(other, one, cable) == switch
            }
            (SlowLinks::Group(group), ModelLink::Local(number, ..)) => group == number,
            (SlowLinks::Group(group), ModelLink::Global(one, other, _)) => {
                group == one || group == other
            }
            (SlowLinks::Transmit(slow) | SlowLinks::Nic(slow), ModelLink::Transmit(nic))
            | (SlowLinks::Receive(slow) | SlowLinks::Nic(slow), ModelLink::Receive(nic)) => {
                slow == nic
            }
            _ => false,
        }
    }

    /// The rates of flows by progressive filling: all rates rise until a link is full, then its
    /// flows stay. A NIC sends to its peers in turn, so it is one flow over all of their paths.
    pub fn rates(&self, flows: &[LoadFlow]) -> Vec<f64> {
        let paths: Vec<BTreeMap<ModelLink, f64>> = flows
            .iter()
            .map(|flow| {
                let mut links = BTreeMap::new();
                for peer in &flow.peers {
                    for (link, part) in self.path(flow.source, *peer) {
                        *links.entry(link).or_insert(0.0) += part / flow.peers.len() as f64;
                    }
                }
                links
            })
            .collect();
        let mut left: BTreeMap<ModelLink, f64> = BTreeMap::new();
        for link in paths.iter().flat_map(BTreeMap::keys) {
            left.entry(*link).or_insert_with(|| self.rate(*link));
        }
        let mut rates = vec![0.0; flows.len()];
        let mut rising: Vec<usize> = (0..flows.len()).collect();
        while !rising.is_empty() {
            let mut used: BTreeMap<ModelLink, f64> = BTreeMap::new();
            for (link, part) in rising.iter().flat_map(|flow| &paths[*flow]) {
                *used.entry(*link).or_default() += part;
            }
            let step = used.iter().map(|(link, part)| left[link] / part);
            let step = step.fold(f64::INFINITY, f64::min);
            rising.iter().for_each(|flow| rates[*flow] += step);
            for (link, part) in &used {
                *left.get_mut(link).expect("a link of a path") -= step * part;
            }
            let is_full = |link: &ModelLink| left[link] <= 1e-9 * self.rate(*link);
            rising.retain(|flow| !paths[*flow].keys().any(is_full));
        }
        rates
    }

    /// The results of a load slot without victims.
    pub fn measure(&mut self, load_slot: &LoadSlot) -> Vec<TaskResult> {
        let rates = self.rates(&load_slot.flows);
        let counted_s = SlotTimes::from_slot(load_slot.slot_ns).counted() as f64 / 1e9;
        let result = |(flow, rate): (&LoadFlow, f64)| {
            let noise = (0..12).map(|_| self.rng.f64()).sum::<f64>() - 6.0;
            let bytes = rate * (1.0 + self.noise * noise) * counted_s / PARTS as f64;
            let answer = TaskAnswer::Sent { bytes: [bytes as u64; PARTS], unreached: Vec::new() };
            let is_silent = self.silent > 0.0 && self.rng.f64() < self.silent;
            TaskResult {
                waited_percent: if is_silent { 100 } else { 0 },
                ..TaskResult::new(0, flow.source, answer)
            }
        };
        load_slot.flows.iter().zip(rates).map(result).collect()
    }

    /// Returns what the verdict needs to know about this fabric, of which the shape is known.
    pub fn facts(&self) -> ResultFacts {
        ResultFacts {
            theory: Some(self.shape),
            is_partial: false,
            is_software: false,
            victim_test: write_lat(),
            other_class: Some("LOW_LATENCY".into()),
            seed: 1,
        }
    }

    /// Returns empty results of this fabric.
    pub fn load_results(&self) -> LoadResults {
        LoadResults::new(&self.roster, self.facts())
    }

    /// Returns results of the quiet load slots and of this number of slots of each bisection.
    pub fn survey(&mut self, slots: u32) -> LoadResults {
        let mut load_results = self.load_results();
        for pattern in PATTERNS {
            for slot in 0..slots {
                let flows = self.flows(pattern, slot);
                self.run(&mut load_results, pattern, flows);
            }
        }
        load_results
    }

    /// Adds the results of a slot with these flows.
    pub fn run(&mut self, load_results: &mut LoadResults, pattern: Pattern, flows: Vec<LoadFlow>) {
        let load_slot = bandwidth_load_slot(pattern, flows);
        let results = self.measure(&load_slot);
        load_results.add(&load_slot, &results);
    }

    /// The flows of a slot, as a survey has them.
    pub fn flows(&self, pattern: Pattern, slot: u32) -> Vec<LoadFlow> {
        flows_of(pattern, &all_placed(&self.roster), slot, 1)
    }
}

/// The patterns of a survey, from the smallest shared part outward.
const PATTERNS: [Pattern; 7] = [
    Pattern::Quiet,
    bisect(Set::Switch, false),
    bisect(Set::Switch, true),
    bisect(Set::Group, false),
    bisect(Set::Group, true),
    bisect(Set::System, false),
    bisect(Set::System, true),
];

/// A bisection.
pub const fn bisect(set: Set, both_ways: bool) -> Pattern {
    Pattern::Bisect { of: set, both_ways }
}

pub fn flow(source: NicId, target: NicId) -> LoadFlow {
    LoadFlow { source, peers: vec![target] }
}

/// Returns flows from and to the NICs with these indices.
pub fn flows(pairs: &[(u32, u32)]) -> Vec<LoadFlow> {
    let pairs = pairs.iter();
    pairs.map(|(from, to)| flow(NicId(*from), NicId(*to))).collect()
}

pub fn bandwidth_load_slot(pattern: Pattern, flows: Vec<LoadFlow>) -> LoadSlot {
    LoadSlot {
        purpose: LoadMeasurement::Bandwidth(pattern),
        repetition: 0,
        place: 0,
        flows,
        victims: Vec::new(),
        slot_ns: SLOT_NS,
        window_bytes: 1 << 20,
    }
}

/// The test of victims.
fn write_lat() -> Test {
    Test { tool: "write-lat".into(), size_bytes: 8, of_bandwidth: false }
}
