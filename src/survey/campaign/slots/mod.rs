//! Campaigns: what the NICs of a survey do together, until something is known about them.
//!
//! A campaign asks its [`Crew`] for work, reads what has come of it, and asks again; its findings
//! are a function of what it has read. Deadlines, lost members, the line of progress and
//! interruptions are the crew's. The crew is the coordinator with its members
//! (`crate::coordinator`), or a model of a cluster in tests.
//!
//! * This file: the crew, and the processes that have joined -> nodes, NICs and their addresses.
//! * `pairs`: rounds of pairs -> slots, and results of tasks -> results of pairs.
//! * `quiet`: the campaign of a survey without load. `pace`: how long its slots are, how many a
//!   block has, and how long the fabric takes to answer.
//!
//! The packages `load` and `why` have further campaigns.

pub mod pace;
pub mod pairs;
pub mod quiet;
#[cfg(test)]
mod quiet_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::quiet::busy::HostLoad;
use super::quiet::roster::{NO_NIC, Nic, NicId, Node, NodeId, Roster};
use super::timetable::{Report, Slot, TestSetup};
use crew::introduction::{IntroducedNic, Introduction};
use crew::location::Location;
use crew::star::MemoryCopy;
use facts::device::FabricAddress;
use facts::error::Failure;
use facts::host::is_same_host;
use health::item::Readings;

/// Members that were lost, by rank, with the reasons.
pub type LostMembers = BTreeMap<u32, String>;

/// The line of progress, which fits into this number of columns.
pub type ProgressText<'a> = &'a dyn Fn(&Roster, usize) -> String;

/// The members of a survey, as a campaign sees them. A member that is lost is absent in the roster
/// from then on.
///
/// Each function that waits for members fails if the user interrupts it.
pub trait Crew {
    /// The nodes and NICs, and how to reach them.
    fn members(&self) -> &Members;

    /// Takes the processes in that have joined since the last call. Returns what they have
    /// introduced.
    fn admit(&mut self) -> Vec<Introduction>;

    /// Prepares these processes for a test setup. Its first NIC does not matter: each process gets
    /// its own. Returns the members that were lost meanwhile.
    fn prepare(
        &mut self,
        ranks: &BTreeSet<u32>,
        setup: &TestSetup,
        line: ProgressText,
    ) -> Result<LostMembers, Failure>;

    /// Has these processes check their NICs by their files.
    fn check(&mut self, ranks: &BTreeSet<u32>, line: ProgressText)
    -> Result<CheckedNodes, Failure>;

    /// Asks a process how fast it copies memory; `None` if it does not answer, or if that says
    /// nothing about the memory of its node.
    fn copy_memory(&mut self, rank: u32, line: ProgressText)
    -> Result<Option<MemoryCopy>, Failure>;

    /// Has the members do what `slots` of this length say, under this load if there is one.
    fn run(
        &mut self,
        slots: &[Slot],
        length: Duration,
        load: Option<BlockLoad>,
        line: ProgressText,
    ) -> Result<AnsweredBlock, Failure>;

    /// Prints a line that is not part of the result.
    fn note(&mut self, line: &str);
}

/// The checks of nodes: what their files say about each NIC, by the ranks of their processes and by
/// device. A process without an answer has none.
pub type CheckedNodes = BTreeMap<u32, BTreeMap<String, Readings>>;

/// The load of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockLoad {
    /// Bytes that a NIC that sends has under way at most.
    pub window_bytes: u64,
    /// How long the fabric is idle before the block, at least.
    pub idle: Duration,
}

/// What a member had to do in a block.
#[derive(Clone, Debug)]
pub struct MemberWork {
    pub rank: u32,
    /// Number of its tasks, and of those for which it was too busy.
    pub tasks: u32,
    pub busy_tasks: u32,
    /// What used its CPUs, if it waited for one.
    pub load: Option<HostLoad>,
}

/// What the members have answered to a block.
#[derive(Debug)]
pub struct AnsweredBlock {
    pub reports: Vec<Report>,
    pub work: Vec<MemberWork>,
    pub lost: LostMembers,
    /// NICs that cannot measure any longer, with the reasons.
    pub failed: Vec<(NicId, String)>,
}

/// The nodes and NICs, and how to reach them.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// The nodes and NICs.
    pub roster: Roster,
    /// Index of the first NIC of each process that has joined, by its rank.
    pub first_nics: BTreeMap<u32, NicId>,
    /// Addresses of the NICs; `None` for a NIC that cannot measure.
    pub addresses: Vec<Option<FabricAddress>>,
    /// The VNI of most NICs.
    vni: Option<u32>,
    /// The hosts and devices of all NICs.
    known: BTreeSet<(String, String)>,
}

impl Members {
    /// The members of a survey on these `hosts`, by rank. `joined` are the introductions of the
    /// processes that have joined. `absent` returns the reason why a process is missing.
    pub fn new(
        hosts: Vec<String>,
        joined: &BTreeMap<u32, Introduction>,
        absent: impl Fn(u32) -> String,
    ) -> Self {
        let nics = joined.values().flat_map(|introduction| &introduction.nics);
        let mut members = Self { vni: most_frequent(nics.map(|nic| nic.vni)), ..Self::default() };
        for (host, rank) in hosts.into_iter().zip(0..) {
            let introduction = joined.get(&rank);
            members.roster.nodes.push(Node {
                host,
                rank,
                absent: introduction.is_none().then(|| absent(rank)),
            });
            if let Some(introduction) = introduction {
                members.add_nics(introduction);
            }
        }
        members
    }

    /// Adds a process that joins after the others have begun to measure, on `host` if the place of
    /// the process was a guess. The indices of NICs stay as they are: the node becomes the last
    /// one.
    pub fn add_late(&mut self, introduction: &Introduction, host: Option<&str>) {
        let rank = introduction.rank;
        let Some(NodeId(index)) = self.node(rank) else {
            return;
        };
        let expected = self.roster.nodes.remove(index as usize).host;
        for nic in self.roster.nics.iter_mut().filter(|nic| nic.node.0 > index) {
            nic.node.0 -= 1;
        }
        let host = host.map_or(expected.clone(), str::to_owned);
        let first_nics = &self.first_nics;
        let mut others = self.roster.nodes.iter_mut();
        let is_meant = |node: &&mut Node| {
            is_same_host(&node.host, &host) && !first_nics.contains_key(&node.rank)
        };
        if let Some(other) = others.find(is_meant) {
            other.host = expected;
        }
        self.roster.nodes.push(Node { host, rank, absent: None });
        self.add_nics(introduction);
    }

    /// Adds the NICs of the process of the last node.
    fn add_nics(&mut self, introduction: &Introduction) {
        let first = NicId(self.roster.nics.len() as u32);
        self.first_nics.insert(introduction.rank, first);
        let Some((node, last)) = self.roster.node_ids().zip(&mut self.roster.nodes).last() else {
            return;
        };
        if introduction.nics.is_empty() {
            last.absent = Some(NO_NIC.into());
        }
        for nic in &introduction.nics {
            let other_vni = self.vni;
            let other_vni = other_vni.filter(|most| nic.address.is_some() && nic.vni != *most);
            let other_vni = other_vni
                .map(|most| format!("its VNI is {}, that of most NICs is {most}", nic.vni));
            let is_known = !self.known.insert((last.host.clone(), nic.device.clone()));
            let again = is_known
                .then(|| "another process measures with it: start one on each node".to_owned());
            let failure = nic.failure.clone().or(other_vni).or(again);
            self.addresses.push(nic.address.filter(|_| failure.is_none()));
            self.roster.nics.push(Nic {
                node,
                device: nic.device.clone(),
                nid: nic.address.map(|address| address.nic),
                location: None,
                failure,
            });
        }
    }

    /// Sets the locations of all NICs. `location` returns the location of a NIC, if it is known,
    /// from its host and what its process says about it.
    pub fn locate(
        &mut self,
        joined: &BTreeMap<u32, Introduction>,
        location: impl Fn(&str, &IntroducedNic) -> Option<Location>,
    ) {
        for (rank, first) in &self.first_nics {
            let nics = &mut self.roster.nics[first.index()..];
            let facts = joined.get(rank).into_iter().flat_map(|introduction| &introduction.nics);
            for (nic, facts) in nics.iter_mut().zip(facts) {
                let host = &self.roster.nodes[nic.node.index()].host;
                nic.location = location(host, facts);
            }
        }
        let all = joined.values().flat_map(|introduction| &introduction.nics);
        let mut speeds = all.filter(|nic| nic.address.is_some()).map(|nic| nic.link_gbps);
        let first = speeds.next().flatten();
        self.roster.link_gbps = first.filter(|_| speeds.all(|speed| speed == first));
    }

    /// Whether a NIC can measure.
    pub fn has_address(&self, nic: NicId) -> bool {
        self.addresses[nic.index()].is_some()
    }

    /// The ranks of the processes that have joined and are not lost, of these.
    pub fn present(&self, ranks: &BTreeSet<u32>) -> BTreeSet<u32> {
        let nodes = self.roster.nodes.iter();
        let present = nodes.filter(|node| node.absent.is_none() && ranks.contains(&node.rank));
        present.map(|node| node.rank).collect()
    }

    /// The index of the node of a process.
    pub fn node(&self, rank: u32) -> Option<NodeId> {
        let position = self.roster.nodes.iter().position(|node| node.rank == rank);
        position.map(|node| NodeId(node as u32))
    }

    /// Leaves out the NICs of a process that is lost: later blocks have no pair with them. Returns
    /// the index of its node.
    pub fn lose(&mut self, rank: u32, reason: &str) -> Option<NodeId> {
        let node = self.node(rank)?;
        self.roster.set_absent(node, reason);
        for (nic, address) in self.roster.nics.iter_mut().zip(&mut self.addresses) {
            if nic.node == node {
                nic.failure.get_or_insert_with(|| reason.to_owned());
                *address = None;
            }
        }
        Some(node)
    }

    /// Stores new addresses of the NICs of a process that had to open NICs again. Returns the NICs
    /// that cannot measure any longer, with the reasons.
    pub fn set_addresses(
        &mut self,
        rank: u32,
        addresses: &[Result<FabricAddress, String>],
    ) -> Vec<(NicId, String)> {
        let mut failed = Vec::new();
        let Some(first) = self.first_nics.get(&rank) else {
            return failed;
        };
        let nics = &mut self.roster.nics[first.index()..];
        let own = &mut self.addresses[first.index()..];
        for (index, ((nic, own), address)) in
            (first.0..).map(NicId).zip(nics.iter_mut().zip(own).zip(addresses))
        {
            if nic.failure.is_none() {
                *own = address.as_ref().ok().copied();
                nic.failure = address.as_ref().err().cloned();
                failed.extend(nic.failure.clone().map(|why| (index, why)));
            }
        }
        failed
    }
}

/// The most frequent VNI other than 0. A NIC that could not be opened has VNI 0.
fn most_frequent(vnis: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    for vni in vnis.filter(|vni| *vni != 0) {
        *counts.entry(vni).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(vni, _)| vni)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction(rank: u32, vnis: &[u32]) -> Introduction {
        let nic = |(device, vni): (usize, &u32)| IntroducedNic {
            device: format!("cxi{device}"),
            address: (*vni != 0).then_some(FabricAddress { nic: 10 * rank, pid: 1 }),
            vni: *vni,
            class: "BEST_EFFORT".into(),
            location: None,
            simulated: false,
            link_gbps: None,
            failure: (*vni == 0).then(|| "the link of cxi0 is down".into()),
        };
        Introduction {
            rank,
            size: 4,
            host: format!("n{rank}"),
            topology: None,
            nics: vnis.iter().enumerate().map(nic).collect(),
        }
    }

    fn members() -> Members {
        let joined = [(0, &[10, 0][..]), (1, &[16]), (3, &[10])];
        let joined = joined.map(|(rank, vnis)| (rank, introduction(rank, vnis)));
        Members::new(hosts(), &joined.into(), |rank| format!("rank {rank} did not join"))
    }

    fn hosts() -> Vec<String> {
        ["n0", "n1", "n9", "n3"].map(str::to_owned).to_vec()
    }

    #[test]
    fn lists_absent_process_as_node_with_reason() {
        let members = members();
        let nodes: Vec<_> = members
            .roster
            .nodes
            .iter()
            .map(|node| (node.host.as_str(), node.absent.as_deref()))
            .collect();
        assert_eq!(
            nodes,
            [("n0", None), ("n1", None), ("n9", Some("rank 2 did not join")), ("n3", None)]
        );
        assert_eq!(members.first_nics, [(0, NicId(0)), (1, NicId(2)), (3, NicId(3))].into());
        assert_eq!(members.roster.nics[3].node, NodeId(3));
    }

    #[test]
    fn late_process_leaves_other_nics_in_their_places() {
        let joined = [(0, &[10, 0][..]), (3, &[10])];
        let joined = joined.map(|(rank, vnis)| (rank, introduction(rank, vnis)));
        let absent = |rank| format!("rank {rank} did not join");
        let hosts = ["n0", "n2", "n1", "n3"].map(str::to_owned).to_vec();
        let mut members = Members::new(hosts, &joined.into(), absent);
        members.add_late(&introduction(1, &[10, 16]), Some("n1"));
        let nodes = members.roster.nodes.iter();
        let nodes: Vec<_> = nodes.map(|node| (node.host.as_str(), node.rank)).collect();
        assert_eq!(nodes, [("n0", 0), ("n2", 2), ("n3", 3), ("n1", 1)]);
        let nics = members.roster.nics.iter().map(|nic| nic.node.0);
        assert_eq!(nics.collect::<Vec<_>>(), [0, 0, 2, 3, 3]);
        assert_eq!(members.first_nics[&1], NicId(3));
        let why = members.roster.nics[4].failure.as_deref();
        assert_eq!(why, Some("its VNI is 16, that of most NICs is 10"));
        let absent = members.roster.nodes.iter().map(|node| &node.absent);
        assert_eq!(absent.filter(|absent| absent.is_some()).count(), 1);
    }

    #[test]
    fn locates_nics_by_their_hosts() {
        let joined = [0, 2].map(|rank| (rank, introduction(rank, &[10])));
        let joined = BTreeMap::from(joined);
        let mut members = Members::new(hosts(), &joined, |_| String::new());
        let at = Location::from_nid(0x007ea);
        members.locate(&joined, |host, _| (host == "n9").then_some(at));
        let located = members.roster.nics.iter().map(|nic| nic.location);
        assert_eq!(located.collect::<Vec<_>>(), [None, Some(at)]);
    }

    #[test]
    fn gives_no_address_to_nic_that_cannot_measure() {
        let members = members();
        let failures: Vec<_> =
            members.roster.nics.iter().map(|nic| nic.failure.as_deref()).collect();
        assert_eq!(
            failures,
            [
                None,
                Some("the link of cxi0 is down"),
                Some("its VNI is 16, that of most NICs is 10"),
                None
            ]
        );
        let reachable: Vec<bool> = members.addresses.iter().map(Option::is_some).collect();
        assert_eq!(reachable, [true, false, false, true]);
    }

    #[test]
    fn leaves_out_second_process_of_a_nic() {
        let twice = |rank| Introduction { host: "n0".into(), ..introduction(rank, &[10]) };
        let joined = [0, 1].map(|rank| (rank, twice(rank)));
        let hosts = vec!["n0".to_owned(); 2];
        let members = Members::new(hosts, &joined.into(), |_| String::new());
        let failures = members.roster.nics.iter().map(|nic| nic.failure.as_deref());
        assert_eq!(
            failures.collect::<Vec<_>>(),
            [None, Some("another process measures with it: start one on each node")]
        );
        assert_eq!(members.addresses[1], None);
    }

    #[test]
    fn stores_addresses_of_reopened_nics() {
        let mut members = members();
        let address = FabricAddress { nic: 30, pid: 7 };
        assert_eq!(members.set_addresses(3, &[Ok(address)]), []);
        assert_eq!(members.set_addresses(1, &[Ok(address)]), []);
        assert_eq!(members.addresses[3], Some(address));
        // It has another VNI.
        assert_eq!(members.addresses[2], None);
    }

    #[test]
    fn leaves_out_nics_of_lost_process() {
        let mut members = members();
        let address = FabricAddress { nic: 30, pid: 7 };
        assert_eq!(members.lose(3, "it ended"), Some(NodeId(3)));
        assert_eq!(members.addresses[3], None);
        // Its last report may come afterwards.
        assert_eq!(members.set_addresses(3, &[Ok(address)]), []);
        assert_eq!(members.addresses[3], None);
        assert!(members.addresses[0].is_some());
        assert_eq!(members.lose(9, "it ended"), None);
    }

    /// The profiles are for one speed.
    #[test]
    fn links_of_one_speed_have_a_common_one() {
        let common = |speeds: [Option<u32>; 2]| {
            let mut members = Members::default();
            let mut joined = BTreeMap::new();
            for (rank, speed) in (0..).zip(speeds) {
                let mut one = introduction(rank, &[10]);
                one.nics[0].link_gbps = speed;
                joined.insert(rank, one);
            }
            members.locate(&joined, |_, _| None);
            members.roster.link_gbps
        };
        assert_eq!(common([Some(200), Some(200)]), Some(200));
        assert_eq!(common([Some(200), Some(400)]), None);
        assert_eq!(common([None, Some(200)]), None);
        assert_eq!(common([Some(200), None]), None);
    }

    #[test]
    fn gives_reason_of_nic_that_fails_later() {
        let mut members = members();
        let why = "the tasks of cxi0 did not end in time".to_owned();
        let failed = members.set_addresses(3, &[Err(why.clone())]);
        assert_eq!(failed, [(NicId(3), why.clone())]);
        assert_eq!(members.addresses[3], None);
        assert_eq!(members.roster.nics[3].failure, Some(why.clone()));
        assert_eq!(members.set_addresses(3, &[Err(why)]), []);
    }
}
