//! The messages between members and coordinator.

use super::token;
use crate::load::histogram::Histogram;
use crate::load::timetable::{
    LoadAnswer, LoadBlock, LoadPart, LoadReport, LoadResult, LoadTask, PARTS, Watched,
};
use crate::location::Location;
use crate::star::Order;
use crate::star::listener::{CALLER, VERSION, role};
use crate::star::message::{JoinRequest, MemoryCopy, Message, Reply, encode};
use crate::survey::answer::{Answer, CounterEvidence, Figures, Pair, PairResult, RETRIES, Stage};
use crate::survey::busy::HostLoad;
use crate::survey::findings::Test;
use crate::survey::ids::{NicId, TestId};
use crate::survey::timetable::{Block, BlockReport, Course, Introduction, NicFacts, Part, Task};
use crate::survey::untested::Untested;
use facts::device::FabricAddress;

/// Who receives the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The coordinator, from an unknown process.
    Listener,
    /// The coordinator, from a member.
    Coordinator,
    /// A member, from the coordinator.
    Member,
    /// The measuring thread of a member: an order.
    MemberOfCoordinator,
}

pub const RECEIVERS: [Receiver; 4] =
    [Receiver::Listener, Receiver::Coordinator, Receiver::Member, Receiver::MemberOfCoordinator];

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
    let pairs = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (3, 1)];
    let slots = [0, 1].into_iter().flat_map(|test| pairs.map(|pair| (test, pair)));
    let tasks = slots.zip(0..).map(|((test, (initiator, target)), slot)| Task {
        slot,
        test: TestId(test),
        stage: [Stage::Sweep, Stage::Retest(1), Stage::Swap][slot as usize % 3],
        round: slot,
        active: 1,
        pair: Pair { initiator: NicId(initiator), target: NicId(target) },
        part: if initiator < 2 { Part::Initiator } else { Part::Target },
        peer: address(target),
    });
    Block { number: 3, begins_ns: 1_000, slot_ns: 50, slots: 12, tasks: tasks.collect() }
}

/// The block under load of the member with rank 0: its NICs do what NICs can do.
pub(super) fn load_block() -> LoadBlock {
    let test = TestId(0);
    let parts = [
        LoadPart::Send { test, peers: vec![address(2), address(3)] },
        LoadPart::Measure { test, peer: address(2) },
        LoadPart::Answer { test, peer: address(2) },
        LoadPart::Watch,
    ];
    let tasks = (0..).zip(parts).map(|(slot, part)| LoadTask { slot, nic: NicId(slot % 2), part });
    LoadBlock {
        number: 4,
        begins_ns: 1_000,
        slot_ns: 5_000_000,
        slots: 4,
        window_bytes: 1 << 20,
        tasks: tasks.collect(),
    }
}

fn load_report() -> LoadReport {
    let mut samples = Histogram::default();
    samples.add(1_900, 1_000);
    samples.add(9_000, 3);
    let answers = [
        LoadAnswer::Sent { bytes: [1 << 20; PARTS], unreached: vec![0] },
        LoadAnswer::Measured(samples),
        LoadAnswer::Failed("no answer".into()),
        LoadAnswer::Untested(Untested::Other("the link is down".into())),
    ];
    let results = load_block().tasks.into_iter().zip(answers);
    let results = results.map(|(task, answer)| LoadResult {
        slot: task.slot,
        nic: task.nic,
        answer,
        waited_percent: 3,
        counters: vec![(Watched::TxPaused, 7)],
    });
    LoadReport {
        block: 4,
        rank: 0,
        results: results.collect(),
        addresses: vec![Ok(address(0)), Err("cxi1 was given up".into())],
        clock_uncertainty_ns: Some(900),
    }
}

fn report() -> BlockReport {
    let answers = [
        Answer::Measured(Figures::Latency {
            count: 2_000,
            min_ns: 1_800,
            p5_ns: Some(1_810),
            median_ns: 1_900,
            p99_ns: Some(2_200),
            max_ns: 9_000,
        }),
        Answer::Measured(Figures::Bandwidth {
            bytes_per_second: 2.5e10,
            operations_per_second: 1e6,
        }),
        Answer::Failed("no answer".into()),
        Answer::Untested(Untested::Late),
        Answer::Untested(Untested::Other("the link is down".into())),
    ];
    let tasks = block().tasks.into_iter();
    let results = tasks.enumerate().map(|(place, task)| {
        let is_initiator = task.part == Part::Initiator;
        let answer = match place % 3 {
            0 | 1 if is_initiator => answers[task.test.index()].clone(),
            other => answers[2 + other].clone(),
        };
        let counter_evidence =
            CounterEvidence { nic: task.pair.initiator, counter: RETRIES.into(), change: 7 };
        PairResult {
            waited_percent: 3,
            counters: is_initiator.then_some(counter_evidence).into_iter().collect(),
            ..PairResult::of(&task, answer)
        }
    });
    BlockReport {
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
    let request = JoinRequest { id: 1, received: 4, introduction: introduction(2) };
    let proof = token().proof(&role(CALLER, &[0; 16]));
    let join = Message::Join { proof, request: Box::new(request) };
    let ping = Message::Ping { sent_ns: 1 << 40 };
    let pong = Message::Pong { sent_ns: 1 << 40, here_ns: 1 << 41 };
    let hello = Message::Hello { version: VERSION.into(), nonce: [1; 16] };
    let reason = || "no file".to_owned();
    let order = |order| encode(&Message::Order { serial: 1, order });
    // The coordinator of the fuzzer has sent one order of each kind.
    let reply = |serial, reply| encode(&Message::Reply { serial, reply });
    let copy = MemoryCopy { cpus: 8, bytes_per_second: 100_000_000_000 };
    let list = [
        ("hello", Listener, encode(&hello)),
        ("knock", Listener, encode(&Message::Knock { rank: 1 })),
        ("join", Listener, encode(&join)),
        ("ready", Coordinator, encode(&Message::Ready)),
        ("ping", Coordinator, encode(&ping)),
        ("leave", Coordinator, encode(&Message::Leave)),
        ("failed", Coordinator, encode(&Message::Failed(reason()))),
        ("begun", Coordinator, reply(1, Reply::Begun)),
        ("report", Coordinator, reply(2, Reply::Report(report()))),
        ("report of load", Coordinator, reply(3, Reply::LoadReport(load_report()))),
        ("checked", Coordinator, reply(4, Reply::Checked(vec![b'{', b'}']))),
        ("copied memory", Coordinator, reply(5, Reply::CopiedMemory(Some(copy)))),
        ("ended", Coordinator, reply(6, Reply::Ended)),
        ("waits", Member, encode(&Message::Waits)),
        ("challenge", Member, encode(&Message::Challenge { nonce: [1; 16] })),
        ("welcome", Member, encode(&Message::Welcome { proof: "0".repeat(96) })),
        ("admitted", Member, encode(&Message::Admitted { answered: 3 })),
        ("refused", Member, encode(&Message::Refused(reason()))),
        ("pong", Member, encode(&pong)),
        ("order", Member, order(Order::Block(block()))),
        ("quiet", Member, encode(&Message::Quiet { until_ns: 1 << 40 })),
        ("abort", Member, encode(&Message::Abort(reason()))),
        ("order of course", MemberOfCoordinator, encode(&Order::Course(course()))),
        ("order of block", MemberOfCoordinator, encode(&Order::Block(block()))),
        ("order of load", MemberOfCoordinator, encode(&Order::Load(load_block()))),
        ("order of end", MemberOfCoordinator, encode(&Order::End)),
        ("order of check", MemberOfCoordinator, encode(&Order::Check)),
        ("order to copy memory", MemberOfCoordinator, encode(&Order::CopyMemory)),
    ];
    list.map(|(name, receiver, seed)| Target { name, receiver, seed }).into()
}
