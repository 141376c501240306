//! Any bytes in place of each message of a survey: what is accepted obeys the rules, and nothing
//! panics that reads it. `tests/fuzz` runs the targets under libFuzzer, a test of this package on
//! the stable toolchain.

use serde_json::Value;
pub use targets::targets;
use targets::{block, course, load_block, rounds, tests};

use super::spec::Pattern;
use crate::conductor::{Cap, LoadConductor, LoadSetup, LoadSizes};
use crate::results::ResultFacts;
use crate::safety::foreign_traffic;
use crate::slot::{LoadFlow, LoadMeasurement, LoadSlot};
use crate::spec;
use campaign::quiet::answer::{Figures, Pair};
use campaign::quiet::busy::BusySlots;
use campaign::quiet::conductor::{Conductor, Settings};
use campaign::quiet::ids::{NicId, NodeId};
use campaign::quiet::pairs::Selection;
use campaign::quiet::roster::{Nic, Node, Roster};
use campaign::quiet::rounds::NicOrder;
use campaign::slots::{LostMembers, pairs};
use campaign::timetable::{Report, SurveyWork, TaskAnswer, by_slot};
use crew::star::Order;
use crew::star::fuzzing::{AcceptedMessage, StarFuzzer, assert_text};
pub use crew::star::fuzzing::{RECEIVERS, Receiver};

mod targets;
#[cfg(test)]
mod tests;

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
