//! A crew of models: a cluster whose pairs answer at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::pace::{longest, most_beyond};
use super::{
    AnsweredBlock, BlockLoad, CheckedNodes, Crew, LostMembers, MemberWork, Members, ProgressText,
};
use crate::quiet::answer::{Answer, Figures, Untested};
use crate::quiet::roster::{NicId, NodeId, Pair};
use crate::quiet::testing::{Cluster, DEAD};
use crate::timetable::{
    BlockTimes, Report, Slot, SlotTask, Task, TaskAnswer, TaskResult, TestSetup, blocks,
};
use crew::introduction::{IntroducedNic, Introduction};
use crew::location::Class;
use crew::star::MemoryCopy;
use facts::device::FabricAddress;
use facts::error::Failure;
use health::item::Readings;

/// A crew that a model of a cluster plays.
pub struct ModelCrew {
    pub cluster: Cluster,
    members: Members,
    /// What has joined, by rank.
    pub joined: BTreeMap<u32, Introduction>,
    /// What the files of each NIC say.
    pub files: BTreeMap<NicId, Readings>,
    /// Bytes per second at which each node copies memory; none says nothing.
    pub memory: BTreeMap<u32, u64>,
    /// Bytes per second of the pairs of a class, where it differs from the cluster. A list that
    /// takes longer than the window of its slot has no answer.
    pub rates: BTreeMap<Class, f64>,
    /// Time for measuring one pair.
    pair: Duration,
    /// Slots of a second and longer so far.
    pub long_slots: usize,
    /// Slots shorter than the longest ones, and whether processes are late in them.
    pub short_slots: usize,
    pub is_late: bool,
    /// Operations of a list of each test.
    list_sizes: Vec<u32>,
    /// Ranks that are lost in the blocks with these numbers.
    pub losses: BTreeMap<u32, Vec<u32>>,
    /// Ranks that join after the blocks with these numbers.
    pub arrivals: BTreeMap<u32, Vec<u32>>,
    /// Number of blocks so far.
    pub block: u32,
    /// The notes that the campaigns have made.
    pub notes: Vec<String>,
}

impl ModelCrew {
    /// The crew of a cluster. The processes with the ranks in `missing` have not joined.
    pub fn new(cluster: Cluster, missing: &[u32]) -> Self {
        let ranks = cluster.roster.nodes.iter().map(|node| node.rank);
        let joined = ranks.filter(|rank| !missing.contains(rank));
        let joined: BTreeMap<u32, Introduction> =
            joined.map(|rank| (rank, introduction(&cluster, rank))).collect();
        let hosts = cluster.roster.nodes.iter().map(|node| node.host.clone()).collect();
        let mut members = Members::new(hosts, &joined, |_| "it did not join".into());
        members.locate(&joined, |_, nic| nic.location);
        Self {
            cluster,
            members,
            joined,
            files: BTreeMap::new(),
            memory: BTreeMap::new(),
            rates: BTreeMap::new(),
            pair: Duration::ZERO,
            long_slots: 0,
            short_slots: 0,
            is_late: false,
            list_sizes: Vec::new(),
            losses: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            block: 0,
            notes: Vec::new(),
        }
    }

    /// The NIC of the model that the roster of the crew calls by this number: nodes that have
    /// joined late have the last numbers.
    fn nic_of_model(&self, nic: NicId) -> NicId {
        let roster = &self.members.roster;
        let (node, device) = (roster.node_of(nic), &roster.nic(nic).device);
        let model = &self.cluster.roster;
        let mut nics = model.nic_ids();
        let found = nics
            .find(|nic| model.node_of(*nic).rank == node.rank && model.nic(*nic).device == *device);
        found.expect("a NIC of the model")
    }

    /// Returns what a member says of an operation without an answer in a slot of this length.
    fn no_answer(&self, why: &str, slot: Duration) -> TaskAnswer {
        if slot < longest(self.pair) {
            return TaskAnswer::Untested(Untested::ShortSlot);
        }
        TaskAnswer::NoAnswer(why.into())
    }

    fn answer(&mut self, task: &Task, slot: Duration) -> TaskResult {
        let SlotTask::Measure { test, target, .. } = task.part else {
            return TaskResult::new(task.slot, task.nic, TaskAnswer::Present);
        };
        if self.is_late && slot < longest(self.pair) {
            return TaskResult::new(task.slot, task.nic, TaskAnswer::Untested(Untested::Late));
        }
        let [initiator, target] = [task.nic, target].map(|nic| self.nic_of_model(nic));
        let pair = Pair { initiator, target };
        let (answer, waited_percent) = self.cluster.answer(test, pair);
        let rate = self.rates.get(&self.cluster.roster.class(pair)).copied();
        let answer = match answer {
            Answer::Measured(Figures::Bandwidth { bytes_per_second, .. }) if rate.is_some() => {
                // The model has 24 GB/s and its faults.
                let bytes_per_second = bytes_per_second * rate.unwrap_or_default() / 24e9;
                let size = self.cluster.tests[test.index()].size_bytes as f64;
                let list = f64::from(self.list_sizes[test.index()]) * size / bytes_per_second;
                if list > 0.75 * slot.as_secs_f64() {
                    self.no_answer("no answer to a list of operations", slot)
                } else {
                    let operations_per_second = bytes_per_second / size;
                    TaskAnswer::Figures(Figures::Bandwidth {
                        bytes_per_second,
                        operations_per_second,
                    })
                }
            }
            Answer::Measured(figures) => TaskAnswer::Figures(figures),
            Answer::Failed(why) if why == DEAD => self.no_answer(DEAD, slot),
            Answer::Failed(why) => TaskAnswer::Failed(why),
            Answer::Untested(why) => TaskAnswer::Untested(why),
        };
        let counters = self.cluster.counters(pair).into_iter();
        let counters = counters.map(|evidence| (evidence.counter, evidence.change)).collect();
        TaskResult { waited_percent, counters, ..TaskResult::new(task.slot, task.nic, answer) }
    }
}

/// Returns what the process with this rank introduces.
pub fn introduction(cluster: &Cluster, rank: u32) -> Introduction {
    let roster = &cluster.roster;
    let own = roster.nics.iter().filter(|nic| nic.node == NodeId(rank));
    let nic_facts = own.map(|nic| IntroducedNic {
        device: nic.device.clone(),
        address: nic.nid.map(|nid| FabricAddress { nic: nid, pid: 7 }),
        vni: 10,
        class: "BEST_EFFORT".into(),
        location: nic.location,
        simulated: false,
        link_gbps: None,
        failure: nic.failure.clone(),
    });
    Introduction {
        rank,
        size: roster.nodes.len() as u32,
        host: roster.node(NodeId(rank)).host.clone(),
        topology: None,
        nics: nic_facts.collect(),
    }
}

impl Crew for ModelCrew {
    fn members(&self) -> &Members {
        &self.members
    }

    fn admit(&mut self) -> Vec<Introduction> {
        let arrived = self.arrivals.remove(&self.block).unwrap_or_default();
        let arrived: Vec<Introduction> =
            arrived.into_iter().map(|rank| introduction(&self.cluster, rank)).collect();
        for introduction in &arrived {
            self.members.add_late(introduction, None);
            self.joined.insert(introduction.rank, introduction.clone());
        }
        self.members.locate(&self.joined, |_, nic| nic.location);
        arrived
    }

    fn prepare(
        &mut self,
        _: &BTreeSet<u32>,
        setup: &TestSetup,
        _: ProgressText,
    ) -> Result<LostMembers, Failure> {
        self.cluster.tests.clone_from(&setup.tests);
        self.pair = Duration::from_nanos(setup.pair_ns);
        let is_single =
            |arguments: &Vec<String>| arguments.iter().any(|own| own == "--list-size=1");
        let sizes = setup.arguments.iter().map(|own| if is_single(own) { 1 } else { 32 });
        self.list_sizes = sizes.collect();
        Ok(LostMembers::new())
    }

    fn check(&mut self, ranks: &BTreeSet<u32>, _: ProgressText) -> Result<CheckedNodes, Failure> {
        let roster = &self.members.roster;
        let mut nodes = CheckedNodes::new();
        for nic in roster.nic_ids() {
            let rank = roster.node_of(nic).rank;
            if ranks.contains(&rank) {
                let readings = self.files.get(&nic).cloned().unwrap_or_default();
                let node = nodes.entry(rank).or_default();
                node.insert(roster.nic(nic).device.clone(), readings);
            }
        }
        Ok(nodes)
    }

    fn copy_memory(&mut self, rank: u32, _: ProgressText) -> Result<Option<MemoryCopy>, Failure> {
        let copied = self.memory.get(&rank);
        Ok(copied
            .map(|bytes_per_second| MemoryCopy { cpus: 8, bytes_per_second: *bytes_per_second }))
    }

    fn run(
        &mut self,
        slots: &[Slot],
        length: Duration,
        load: Option<BlockLoad>,
        _: ProgressText,
    ) -> Result<AnsweredBlock, Failure> {
        assert!(load.is_none(), "the model has no load");
        let number = self.block;
        self.long_slots += if length.as_secs() > 0 { slots.len() } else { 0 };
        self.short_slots += if length < longest(self.pair) { slots.len() } else { 0 };
        let slot_ns = length.as_nanos() as u64;
        let times = BlockTimes { number, slot_ns, window_bytes: None };
        let blocks = blocks(slots, times, &self.members.roster, &self.members.addresses);
        let lost = self.losses.remove(&number).unwrap_or_default().into_iter();
        let lost: LostMembers = lost.map(|rank| (rank, "it was killed".to_owned())).collect();
        let (mut reports, mut work) = (Vec::new(), Vec::new());
        for (rank, block) in blocks.iter().filter(|(rank, _)| !lost.contains_key(rank)) {
            let addresses: Vec<_> =
                self.joined[rank].nics.iter().map(|nic| Ok(nic.address.unwrap())).collect();
            let results: Vec<TaskResult> =
                block.tasks.iter().map(|task| self.answer(task, length)).collect();
            work.push(MemberWork {
                rank: *rank,
                tasks: block.tasks.len() as u32,
                busy_tasks: block.busy(&results, &self.cluster.tests),
                load: None,
            });
            let is_short =
                |result: &TaskResult| result.answer == TaskAnswer::Untested(Untested::ShortSlot);
            let beyond = if results.iter().any(is_short) {
                most_beyond(self.pair)
            } else {
                Duration::from_millis(1)
            };
            reports.push(Report {
                block: number,
                rank: *rank,
                results,
                addresses,
                beyond_ns: beyond.as_nanos() as u64,
                clock_uncertainty_ns: Some(1_000),
                load: None,
            });
        }
        for (rank, reason) in &lost {
            self.members.lose(*rank, reason);
        }
        self.block += 1;
        Ok(AnsweredBlock { reports, work, lost, failed: Vec::new() })
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.into());
    }
}
