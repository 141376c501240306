//! The messages of the tree.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::token;
use crate::location::Location;
use crate::survey::answer::{Figures, Pair, RETRIES, Stage};
use crate::survey::busy::HostLoad;
use crate::survey::findings::Test;
use crate::survey::ids::{NicId, TestId};
use crate::survey::rounds::Round;
use crate::survey::untested::Untested;
use crate::timetable::histogram::Histogram;
use crate::timetable::{
    Block, Course, Introduction, MemoryCopy, NicFacts, PARTS, Part, Report, Task, TaskAnswer,
    TaskResult, Watched,
};
use crate::tree::Order;
use crate::tree::listener::{CALLER, VERSION, role};
use crate::tree::message::{FromMember, Message, ParentAddress, ParentRequest, encode};
use crate::tree::traffic::Traffic;
use facts::device::FabricAddress;

/// Who receives the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// A process that listens, from an unknown one.
    Listener,
    /// The coordinator, from a child.
    Coordinator,
    /// The coordinator, from a member: the body of a message.
    CoordinatorOfMember,
    /// A member, from its parent or the coordinator.
    Member,
    /// A member, from a child.
    Parent,
    /// A member, from the coordinator: the body of an order.
    MemberOfCoordinator,
}

pub const RECEIVERS: [Receiver; 6] = [
    Receiver::Listener,
    Receiver::Coordinator,
    Receiver::CoordinatorOfMember,
    Receiver::Member,
    Receiver::Parent,
    Receiver::MemberOfCoordinator,
];

/// A message, and who receives it.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Who receives it.
    pub receiver: Receiver,
    /// A valid message.
    pub seed: Vec<u8>,
}

pub(super) fn introduction(rank: u32) -> Introduction {
    let nic = |index| NicFacts {
        device: format!("cxi{index}"),
        address: Some(address(2 * rank + index)),
        vni: 10,
        class: "BEST_EFFORT".into(),
        location: Some(Location::from_nid(2 * rank + index)),
        simulated: false,
        failure: (index == 1).then(|| "no link".into()),
    };
    Introduction {
        rank,
        size: 2,
        host: format!("nid{rank}"),
        topology: Some("s0.s1".into()),
        nics: vec![nic(0), nic(1)],
    }
}

fn address(nic: u32) -> FabricAddress {
    FabricAddress { nic, pid: 7 }
}

pub(super) fn tests() -> Vec<Test> {
    let test = |tool: &str, is_bandwidth| Test {
        tool: tool.into(),
        size_bytes: 8,
        of_bandwidth: is_bandwidth,
    };
    vec![test("write-lat", false), test("write-bw", true)]
}

pub(super) fn course() -> Course {
    Course {
        tests: tests(),
        arguments: vec![vec!["-s".into(), "8".into()], Vec::new()],
        pair_ns: 1_000_000,
        first_nic: NicId(0),
    }
}

/// Returns a block with a slot for each pair of NICs of different members, in both tests.
pub(super) fn block() -> Block {
    let tasks = rounds().into_iter().zip(0..).map(|(round, slot)| {
        let (test, pair) = (round.test, round.pairs[0]);
        let (target, initiator) = (pair.target, pair.initiator);
        let is_initiator = initiator < NicId(2);
        let part = if is_initiator {
            Part::Measure { test, target, reads_all_counters: slot % 2 == 0 }
        } else {
            Part::Answer { test, initiator }
        };
        Task { slot, nic: if is_initiator { initiator } else { target }, part }
    });
    Block {
        number: 3,
        begins_ns: 1_000,
        slot_ns: 50,
        slots: 12,
        window_bytes: None,
        tasks: tasks.collect(),
        addresses: addresses(),
    }
}

/// The rounds of [`block`].
pub(super) fn rounds() -> Vec<Round> {
    let pairs = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (3, 1)];
    let slots = [0, 1].into_iter().flat_map(|test| pairs.map(|pair| (test, pair)));
    let round = |((test, (initiator, target)), slot): ((u16, (u32, u32)), usize)| Round {
        test: TestId(test),
        stage: [Stage::Sweep, Stage::Retest(1), Stage::Swap][slot % 3],
        pairs: vec![Pair { initiator: NicId(initiator), target: NicId(target) }],
    };
    slots.zip(0..).map(round).collect()
}

fn addresses() -> BTreeMap<NicId, FabricAddress> {
    NicId::first(4).map(|nic| (nic, address(nic.0))).collect()
}

/// The block under load of the member with rank 0: its NICs do what NICs can do.
pub(super) fn load_block() -> Block {
    let (test, peer) = (TestId(0), NicId(2));
    let parts = [
        Part::Send { test, targets: vec![peer, NicId(3)] },
        Part::Measure { test, target: peer, reads_all_counters: false },
        Part::Answer { test, initiator: peer },
        Part::Watch,
    ];
    let tasks = (0..).zip(parts).map(|(slot, part)| Task { slot, nic: NicId(slot % 2), part });
    Block {
        number: 4,
        slot_ns: 5_000_000,
        slots: 4,
        window_bytes: Some(1 << 20),
        tasks: tasks.collect(),
        ..block()
    }
}

fn load_report() -> Report {
    let mut samples = Histogram::default();
    samples.add(1_900, 1_000);
    samples.add(9_000, 3);
    let answers = [
        TaskAnswer::Sent { bytes: [1 << 20; PARTS], unreached: vec![0] },
        TaskAnswer::Latencies(samples),
        TaskAnswer::Failed("no answer".into()),
        TaskAnswer::Untested(Untested::Other("the link is down".into())),
    ];
    let results = load_block().tasks.into_iter().zip(answers);
    let results = results.map(|(task, answer)| TaskResult {
        waited_percent: 3,
        watched: vec![(Watched::TxPaused, 7)],
        ..TaskResult::new(task.slot, task.nic, answer)
    });
    Report { block: 4, results: results.collect(), beyond_ns: 0, load: None, ..report() }
}

fn report() -> Report {
    let answers = [
        TaskAnswer::Figures(Figures::Latency {
            count: 2_000,
            min_ns: 1_800,
            p5_ns: Some(1_810),
            median_ns: 1_900,
            p99_ns: Some(2_200),
            max_ns: 9_000,
        }),
        TaskAnswer::Figures(Figures::Bandwidth {
            bytes_per_second: 2.5e10,
            operations_per_second: 1e6,
        }),
        TaskAnswer::Failed("no answer".into()),
        TaskAnswer::Untested(Untested::Late),
        TaskAnswer::Untested(Untested::Other("the link is down".into())),
    ];
    let tasks = block().tasks.into_iter();
    let results = tasks.enumerate().map(|(place, task)| {
        let is_initiator = matches!(task.part, Part::Measure { .. });
        let answer = match (place % 3, task.part.test()) {
            (0 | 1, Some(test)) if is_initiator => answers[test.index()].clone(),
            (other, _) => answers[2 + other].clone(),
        };
        TaskResult {
            waited_percent: 3,
            counters: is_initiator.then(|| (RETRIES.to_owned(), 7)).into_iter().collect(),
            ..TaskResult::new(task.slot, task.nic, answer)
        }
    });
    Report {
        block: 3,
        rank: 0,
        results: results.collect(),
        addresses: vec![Ok(address(0)), Err("cxi1 was given up".into())],
        beyond_ns: 8_000_000,
        clock_uncertainty_ns: Some(20_000),
        load: Some(HostLoad { mean: 3.5, cpus: 2, most: vec![("stress".into(), 1.5)] }),
    }
}

/// Returns the targets, one for each message.
pub fn targets() -> Vec<Target> {
    use Receiver::*;
    let token = token();
    let request = ParentRequest {
        id: 1,
        port: 2,
        avoid: Some(3),
        received: 4,
        introduction: introduction(2),
    };
    let proof = token.proof(&role(CALLER, &[0; 16]));
    let claim = proof.clone();
    let own = |body: &FromMember| encode(body);
    let here = SocketAddr::from(([127, 0, 0, 1], 1));
    let up = Message::Up { path: Vec::new(), body: encode(&FromMember::Begun) };
    let down = Message::Down { path: vec![1], serial: 1, body: encode(&Order::Block(block())) };
    let parent = Message::Parent(Some(ParentAddress { rank: 1, address: here }));
    let ping = Message::Ping { sent_ns: 1 << 40 };
    let pong = Message::Pong { sent_ns: 1 << 40, here_ns: 1 << 41, uncertainty_ns: 1 << 10 };
    let traffic =
        Traffic { messages_sent: 1, bytes_sent: 2, messages_received: 3, bytes_received: 4 };
    let gone = FromMember::Gone { rank: 1, reason: Some("it ended".into()) };
    let hello = Message::Hello { version: VERSION.into(), nonce: [1; 16] };
    let release = Message::Release { path: vec![0, 1], child: 1 };
    let reason = || "no file".to_owned();
    let list = [
        ("hello", Listener, encode(&hello)),
        ("knock", Listener, encode(&Message::Knock { rank: 1 })),
        ("seek", Listener, encode(&Message::Seek { proof, request: Box::new(request) })),
        ("attach", Listener, encode(&Message::Attach { proof: claim, rank: 1 })),
        ("ready", Coordinator, encode(&Message::Ready)),
        ("ping", Coordinator, encode(&ping)),
        ("leave", Coordinator, encode(&Message::Leave)),
        ("up", Coordinator, encode(&up)),
        ("up to a parent", Parent, encode(&up)),
        ("ready to a parent", Parent, encode(&Message::Ready)),
        ("waits", Member, encode(&Message::Waits)),
        ("challenge", Member, encode(&Message::Challenge { nonce: [1; 16] })),
        ("welcome", Member, encode(&Message::Welcome { proof: "0".repeat(96) })),
        ("refused", Member, encode(&Message::Refused(reason()))),
        ("parent", Member, encode(&parent)),
        ("pong", Member, encode(&pong)),
        ("down", Member, encode(&down)),
        ("release", Member, encode(&release)),
        ("quiet", Member, encode(&Message::Quiet { until_ns: 1 << 40 })),
        ("repeat", Member, encode(&Message::Repeat)),
        ("end", Member, encode(&Message::End)),
        ("abort", Member, encode(&Message::Abort(reason()))),
        ("joined", Member, encode(&Message::Joined)),
        ("attached", CoordinatorOfMember, own(&FromMember::Attached(1))),
        ("children", CoordinatorOfMember, own(&FromMember::Children(vec![1, 2]))),
        ("gone", CoordinatorOfMember, own(&gone)),
        ("begun", CoordinatorOfMember, own(&FromMember::Begun)),
        ("report", CoordinatorOfMember, own(&FromMember::Report(report()))),
        ("report of load", CoordinatorOfMember, own(&FromMember::Report(load_report()))),
        ("checked", CoordinatorOfMember, own(&FromMember::Checked(vec![b'{', b'}']))),
        (
            "copied memory",
            CoordinatorOfMember,
            own(&FromMember::CopiedMemory(Some(MemoryCopy {
                cpus: 8,
                bytes_per_second: 100_000_000_000,
            }))),
        ),
        ("failed", CoordinatorOfMember, own(&FromMember::Failed(reason()))),
        ("ended", CoordinatorOfMember, own(&FromMember::Ended(traffic))),
        ("order of course", MemberOfCoordinator, encode(&Order::Course(course()))),
        ("order of block", MemberOfCoordinator, encode(&Order::Block(block()))),
        ("order of load", MemberOfCoordinator, encode(&Order::Block(load_block()))),
        ("order of end", MemberOfCoordinator, encode(&Order::End)),
        ("order of check", MemberOfCoordinator, encode(&Order::Check)),
        ("order to copy memory", MemberOfCoordinator, encode(&Order::CopyMemory)),
    ];
    list.map(|(name, receiver, seed)| Target { name, receiver, seed }).into()
}
