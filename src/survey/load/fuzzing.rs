//! Any bytes in place of each message of a survey: what is accepted obeys the rules, and nothing
//! panics that reads it. `tests/fuzz` runs the targets under libFuzzer, a test of this package on
//! the stable toolchain.

use std::collections::BTreeMap;

use serde_json::Value;

use super::spec::{self, Pattern};
use crate::conductor::{Cap, LoadConductor, LoadSetup, LoadSizes};
use crate::results::ResultFacts;
use crate::safety::foreign_traffic;
use crate::slot::{LoadFlow, LoadMeasurement, LoadSlot};
use campaign::quiet::answer::{Figures, RETRIES, Stage, Untested};
use campaign::quiet::busy::{BusySlots, HostLoad};
use campaign::quiet::conductor::{Conductor, Settings};
use campaign::quiet::findings::Test;
use campaign::quiet::pairs::Selection;
use campaign::quiet::roster::{Nic, NicId, Node, NodeId, Pair, Roster, TestId};
use campaign::quiet::rounds::{NicOrder, Round};
use campaign::slots::{LostMembers, pairs};
use campaign::timetable::{
    Block, Histogram, PARTS, Report, SlotTask, SurveyWork, Task, TaskAnswer, TaskResult, TestSetup,
    Watched, by_slot,
};
use crew::star::fuzzing::{
    AcceptedMessage, FuzzTarget, StarFuzzer, assert_text, targets as star_targets,
};
use crew::star::{Order, Reply};
use facts::device::FabricAddress;

pub use crew::star::fuzzing::{RECEIVERS, Receiver};

/// Messages after which the conclusions of the survey are drawn, and it begins again.
const RESULTS: usize = 500;

/// What receives bytes.
pub struct Fuzzer {
    star: StarFuzzer<SurveyWork>,
    survey: Option<Survey>,
}

/// What a coordinator knows of a survey.
struct Survey {
    conductor: Conductor,
    busy: BusySlots,
    load: LoadConductor,
    results: usize,
}

impl Default for Fuzzer {
    fn default() -> Self {
        Self { star: StarFuzzer::new(course(), [block(), load_block()]), survey: None }
    }
}

impl Fuzzer {
    /// Returns how many messages were accepted.
    pub fn accepted(&self) -> u64 {
        self.star.accepted()
    }

    /// Receives `bytes` in place of a message. The first byte chooses the state of a connection.
    ///
    /// # Panics
    ///
    /// If anything is accepted that breaks a rule.
    pub fn receive(&mut self, receiver: Receiver, state: u8, bytes: &[u8]) {
        match self.star.receive(receiver, state, bytes) {
            Some(AcceptedMessage::Report(report)) => {
                assert_plain(&report);
                if report.block == block().number {
                    self.add(report);
                } else {
                    self.add_load(&report);
                }
            }
            Some(AcceptedMessage::Order(order)) => assert_possible(&order),
            None => {}
        }
    }

    /// Draws conclusions from a report, as a coordinator does.
    fn add(&mut self, report: Report) {
        let survey = self.survey.get_or_insert_with(Survey::new);
        let block = block();
        let busy = block.busy(&report.results, &tests());
        survey.busy.add(report.rank, block.tasks.len() as u32, busy, report.load.as_ref());
        let rounds = rounds();
        let slots: Vec<_> = rounds.iter().map(|round| pairs::slot(round, |_| true)).collect();
        let results = by_slot(vec![report], rounds.len());
        let (lost, roster) = (LostMembers::new(), survey.conductor.roster().clone());
        for result in &pairs::results((&rounds, 0), &slots, results, &lost, &roster).0 {
            survey.conductor.add_earlier(result);
            survey.conductor.add(result);
        }
        survey.results += 1;
        if survey.results >= RESULTS {
            let findings = survey.conductor.findings();
            let nodes = survey.busy.nodes(survey.conductor.roster());
            serde_json::to_string(&(findings, nodes)).expect("a document");
            self.survey = None;
        }
    }

    /// Draws conclusions from a report about load, as a coordinator does.
    fn add_load(&mut self, report: &Report) {
        let survey = self.survey.get_or_insert_with(Survey::new);
        let load_slot = LoadSlot {
            purpose: LoadMeasurement::Bandwidth(Pattern::AllToAll),
            repetition: 0,
            place: 0,
            flows: vec![LoadFlow { source: NicId(0), peers: vec![NicId(2), NicId(3)] }],
            victims: vec![Pair { initiator: NicId(1), target: NicId(2) }],
            slot_ns: load_block().slot_ns,
            window_bytes: 1 << 20,
        };
        survey.load.add(&load_slot, &report.results);
        foreign_traffic(&report.results, 2.0);
        serde_json::to_string(&survey.load.findings()).expect("a document");
    }
}

/// Panics if a member cannot carry out an order that it has accepted.
fn assert_possible(order: &Order<SurveyWork>) {
    let prepared = course();
    match order {
        Order::TestSetup(course) => assert_eq!(course.tests.len(), course.arguments.len()),
        Order::Block(block) => {
            for task in &block.tasks {
                let _ = block.begins_ns + u64::from(task.slot) * block.slot_ns;
                let _ = task.part.test().map(|test| &prepared.tests[test.index()]);
                for peer in task.part.peers() {
                    let _ = &block.addresses[peer];
                }
            }
        }
        Order::Check | Order::CopyMemory | Order::End => {}
    }
}

/// Panics if a report has a long text, a text with control characters, or a figure that is none.
fn assert_plain(report: &Report) {
    let blocks = [block(), load_block()];
    let block = blocks.iter().find(|block| block.number == report.block);
    let block = block.expect("a known block");
    assert_eq!(report.rank, 0);
    assert_texts(&serde_json::to_value(report).expect("a document"));
    for result in &report.results {
        let mut tasks = block.tasks.iter();
        let task = tasks.find(|task| (task.slot, task.nic) == (result.slot, result.nic));
        let part = &task.expect("a task of its own").part;
        assert!(result.waited_percent <= 100);
        match &result.answer {
            TaskAnswer::Figures(figures) => {
                let test = part.test().expect("a test");
                let is_bandwidth = matches!(figures, Figures::Bandwidth { .. });
                assert!(figures.value().is_finite() && figures.value() >= 0.0);
                assert_eq!(tests()[test.index()].of_bandwidth, is_bandwidth);
            }
            TaskAnswer::Latencies(samples) => {
                assert!(samples.count() > 0 && samples.is_valid());
            }
            _ => {}
        }
    }
}

fn assert_texts(value: &Value) {
    match value {
        Value::String(text) => assert_text(text),
        Value::Array(values) => values.iter().for_each(assert_texts),
        Value::Object(members) => members.values().for_each(assert_texts),
        _ => {}
    }
}

impl Survey {
    fn new() -> Self {
        let node = |rank| Node { host: format!("nid{rank}"), rank, absent: None };
        let nic = |index: u32| Nic {
            node: NodeId(index / 2),
            device: format!("cxi{}", index % 2),
            nid: Some(index),
            location: None,
            failure: None,
        };
        let roster = Roster {
            nodes: [0, 1].map(node).into(),
            nics: [0, 1, 2, 3].map(nic).into(),
            ..Roster::default()
        };
        let setup = LoadSetup {
            wanted: spec::parse("all2all").expect("a pattern"),
            sizes: LoadSizes { size_bytes: 65_536, window_bytes: 1 << 20 },
            victims_percent: 50,
            cap: Cap::Default,
            nic_rate: Some(1e9),
            facts: ResultFacts {
                theory: None,
                is_partial: false,
                is_software: true,
                victim_test: tests().swap_remove(0),
                other_class: None,
                seed: 1,
            },
        };
        let usable = roster.nic_ids().collect();
        let load = LoadConductor::new(&roster, usable, setup).expect("a load of all NICs");
        let settings = Settings {
            selections: vec![Selection::All],
            nics: NicOrder::AtOnce,
            most_active: None,
            seed: 1,
            expectations: Vec::new(),
            sensitivity: None,
            keep_figures: Some(true),
        };
        let conductor = Conductor::new(roster, tests(), settings);
        Self {
            conductor: conductor.expect("a survey of all pairs"),
            busy: BusySlots::default(),
            load,
            results: 0,
        }
    }
}

fn address(nic: u32) -> FabricAddress {
    FabricAddress { nic, pid: 7 }
}

fn tests() -> Vec<Test> {
    let test = |tool: &str, is_bandwidth| Test {
        tool: tool.into(),
        size_bytes: 8,
        of_bandwidth: is_bandwidth,
    };
    vec![test("write-lat", false), test("write-bw", true)]
}

fn course() -> TestSetup {
    TestSetup {
        tests: tests(),
        arguments: vec![vec!["-s".into(), "8".into()], Vec::new()],
        pair_ns: 1_000_000,
        first_nic: NicId(0),
    }
}

/// A block with a slot for each pair of NICs of different members, in both tests.
fn block() -> Block {
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
fn rounds() -> Vec<Round> {
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
fn load_block() -> Block {
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

/// The targets, one for each message.
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

#[cfg(test)]
mod tests {
    use super::*;
    use facts::text::MOST_TEXT;

    /// Variable with the number of inputs for each target.
    const RUNS: &str = "CXIDIAG_FUZZ_RUNS";

    /// The messages that do more than change the state of a connection.
    const WITH_EFFECT: [&str; 12] = [
        "hello",
        "knock",
        "join",
        "begun",
        "report",
        "report of load",
        "checked",
        "copied memory",
        "order",
        "order of course",
        "order of block",
        "order of end",
    ];

    /// Changes an input in one place.
    fn mutate(rng: &mut fastrand::Rng, input: &mut Vec<u8>, others: &[FuzzTarget]) {
        const EXTREMES: [&[u8]; 8] = [
            &[0; 8],
            &[0xff; 8],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &f64::NAN.to_le_bytes(),
            &f64::NEG_INFINITY.to_le_bytes(),
            &(-1.0_f64).to_le_bytes(),
            &1e300_f64.to_le_bytes(),
        ];
        if input.is_empty() {
            input.push(rng.u8(..));
        }
        let place = rng.usize(..input.len());
        match rng.u8(..7) {
            0 => input[place] = rng.u8(..),
            1 => input[place] ^= 1 << rng.u8(..8),
            2 => input.insert(place, rng.u8(..)),
            3 => drop(input.remove(place)),
            4 => {
                let more = EXTREMES[rng.usize(..EXTREMES.len())];
                let end = (place + more.len()).min(input.len());
                let place = if rng.bool() { place..end } else { place..place + 1 };
                input.splice(place, more.iter().copied());
            }
            5 => {
                let other = &others[rng.usize(..others.len())].seed;
                let end = (place + rng.usize(..32)).min(other.len()).min(input.len());
                if place < end {
                    input[place..end].copy_from_slice(&other[place..end]);
                }
            }
            _ => {
                let text = [b'\x1b', b'x'][rng.usize(..2)];
                let count = rng.usize(..2 * MOST_TEXT);
                input.splice(place..place, std::iter::repeat_n(text, count));
            }
        }
    }

    /// Gives each target ten million inputs, with checks of overflows:
    /// `CXIDIAG_FUZZ_RUNS=10000000 CARGO_PROFILE_TEST_OPT_LEVEL=2 cargo test -p load fuzzing
    /// --target-dir target/fuzz`.
    #[test]
    fn no_message_does_harm() {
        let runs = std::env::var(RUNS).map_or(300, |runs| runs.parse().expect(RUNS));
        let targets = targets();
        for (number, target) in targets.iter().enumerate() {
            let mut fuzzer = Fuzzer::default();
            let mut rng = fastrand::Rng::with_seed(number as u64);
            // Valid messages have their effects, in some state.
            (0..6).for_each(|state| fuzzer.receive(target.receiver, state, &target.seed));
            let has_effect = WITH_EFFECT.contains(&target.name);
            assert!(fuzzer.accepted() > 0 || !has_effect, "{}", target.name);
            for run in 0..runs {
                let mut input = target.seed.clone();
                for _ in 0..=rng.u8(..4) {
                    mutate(&mut rng, &mut input, &targets);
                }
                fuzzer.receive(target.receiver, run as u8, &input);
            }
            let accepted = fuzzer.accepted();
            println!("{}: {runs} inputs, {accepted} accepted", target.name);
        }
    }
}
