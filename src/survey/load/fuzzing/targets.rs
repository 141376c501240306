//! The orders and reports of surveys.

use std::collections::BTreeMap;

use campaign::quiet::answer::{Figures, Pair, RETRIES, Stage, Untested};
use campaign::quiet::busy::HostLoad;
use campaign::quiet::findings::Test;
use campaign::quiet::ids::{NicId, TestId};
use campaign::quiet::rounds::Round;
use campaign::timetable::histogram::Histogram;
use campaign::timetable::{
    Block, PARTS, Report, SlotTask, SurveyWork, Task, TaskAnswer, TaskResult, TestSetup, Watched,
};
use crew::star::fuzzing::{FuzzTarget, targets as star_targets};
use crew::star::{Order, Reply};
use facts::device::FabricAddress;

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

pub(super) fn course() -> TestSetup {
    TestSetup {
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
            SlotTask::Measure { test, target, reads_all_counters: slot % 2 == 0 }
        } else {
            SlotTask::Answer { test, initiator }
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
        SlotTask::Send { test, targets: vec![peer, NicId(3)] },
        SlotTask::Measure { test, target: peer, reads_all_counters: false },
        SlotTask::Answer { test, initiator: peer },
        SlotTask::Watch,
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
            p90_ns: Some(2_100),
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
        let is_initiator = matches!(task.part, SlotTask::Measure { .. });
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
pub fn targets() -> Vec<FuzzTarget> {
    let order = |name, order| FuzzTarget::order::<SurveyWork>(name, order);
    let reply =
        |name, serial, report| FuzzTarget::reply::<SurveyWork>(name, serial, Reply::Report(report));
    let mut targets = star_targets::<SurveyWork>(block());
    targets.extend([
        reply("report", 2, report()),
        reply("report of load", 3, load_report()),
        order("order of course", Order::TestSetup(course())),
        order("order of block", Order::Block(block())),
        order("order of load", Order::Block(load_block())),
    ]);
    targets
}
