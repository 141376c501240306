//! Any bytes in place of each message between members and coordinator: nothing panics, and what is
//! accepted obeys the rules. `tests/fuzz` runs the targets under libFuzzer, a test of this package
//! on the stable toolchain.

mod targets;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::Value;

use super::clock::Exchanges;
use super::connection::Connection;
use super::link::{Link, PollSet};
use super::listener::{Arrival, PendingConnection};
use super::message::{MAX_CLAIM, Message, decode, encode};
use super::{Event, Meeting, Order, Root};
use crate::campaign::{LostMembers, pairs};
use crate::load::conductor::{Cap, LoadConductor, LoadSetup, LoadSizes};
use crate::load::foreign::foreign_traffic;
use crate::load::pattern::Pattern;
use crate::load::scene::{Flow, Purpose, Scene};
use crate::load::wanted;
use crate::survey::answer::{Figures, Pair};
use crate::survey::busy::BusySlots;
use crate::survey::conductor::{Conductor, Settings};
use crate::survey::ids::{NicId, NodeId};
use crate::survey::pairs::Selection;
use crate::survey::roster::{Nic, Node, Roster};
use crate::survey::rounds::NicOrder;
use crate::timetable::blocks::by_slot;
use crate::timetable::{Report, TaskAnswer};
use facts::net::framing;
use facts::net::listener::{Listener, Reach};
use facts::text::MOST_TEXT;
use facts::token::Token;
pub use targets::{RECEIVERS, Receiver, Target, targets};
use targets::{block, course, introduction, load_block, rounds, tests};

/// Messages after which the conclusions of the survey are drawn, and it begins again.
const RESULTS: usize = 500;

/// What receives bytes.
pub struct Fuzzer {
    root: Root,
    member: Connection,
    set: PollSet,
    token: Token,
    survey: Option<Survey>,
    accepted: u64,
}

/// What a coordinator knows of a survey.
struct Survey {
    conductor: Conductor,
    busy: BusySlots,
    load: LoadConductor,
    results: usize,
}

fn token() -> Token {
    Token::new(OsStr::new("secret")).expect("a token")
}

impl Default for Fuzzer {
    /// Creates a coordinator and a member.
    fn default() -> Self {
        let listener = Listener::bind(None, 0, Reach::ThisMachine).expect("a port");
        let meeting =
            Meeting { addresses: vec![SocketAddr::from(([127, 0, 0, 1], 1))], token: token() };
        let mut fuzzer = Self {
            root: Root::listen(listener, token(), 0).expect("a coordinator"),
            member: Connection::new(meeting, introduction(1)),
            set: PollSet::new().expect("a set"),
            token: token(),
            survey: None,
            accepted: 0,
        };
        fuzzer.restart();
        fuzzer
    }
}

impl Fuzzer {
    fn restart(&mut self) {
        let members = [0, 1].map(introduction);
        self.root.restart(&members, &course(), [block(), load_block()]);
    }

    /// Returns how many messages were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Receives `bytes` in place of a message. The first byte chooses the state of a connection.
    ///
    /// # Panics
    ///
    /// If anything is accepted that breaks a rule.
    pub fn receive(&mut self, receiver: Receiver, state: u8, bytes: &[u8]) {
        match receiver {
            Receiver::Listener => self.listen(state, bytes),
            Receiver::Coordinator => self.coordinate(state, bytes),
            Receiver::Member => {
                let messages: &[&[u8]] = match state % 6 {
                    0..=2 => &[bytes],
                    3 => &[&encode(&Message::Challenge { nonce: [1; 16] }), bytes],
                    4 => &[&encode(&Message::Admitted { answered: 0 }), bytes],
                    _ => &[bytes, bytes],
                };
                let (link, _other) = link(messages, self.member.set());
                self.accepted += u64::from(self.member.receive_by(state, link));
            }
            Receiver::MemberOfCoordinator => self.order(bytes),
        }
    }

    fn listen(&mut self, state: u8, bytes: &[u8]) {
        let (link, _other) = link(&[], &self.set);
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut connection = PendingConnection {
            link,
            peer,
            since: Instant::now(),
            own_nonce: [0; 16],
            peer_nonce: state.is_multiple_of(2).then_some([1; 16]),
        };
        let Some(message) = decode(bytes).filter(|_| bytes.len() <= MAX_CLAIM) else {
            return;
        };
        match connection.answer(message, &self.token) {
            Ok(Some(claim)) => {
                self.accepted += 1;
                let link = connection.link;
                let events = self.root.receive_claim(Arrival { link, peer, claim });
                for event in events {
                    assert!(matches!(event, Event::Knocked { .. } | Event::TurnedAway { .. }));
                    assert_plain(&event);
                }
                self.restart();
            }
            Ok(None) => self.accepted += 1,
            Err(reason) => assert!(reason.len() < 2 * MOST_TEXT, "{reason}"),
        }
    }

    fn coordinate(&mut self, state: u8, bytes: &[u8]) {
        let (link, _other) = link(&[bytes], &self.set);
        let events = self.root.receive_by(link, !state.is_multiple_of(4));
        for event in events {
            assert_plain(&event);
            self.accepted += u64::from(!matches!(event, Event::Lost { .. }));
            match event {
                Event::Report(report) if report.block == block().number => self.add(report),
                Event::Report(report) => self.add_load(&report),
                Event::Begun { rank }
                | Event::Checked { rank, .. }
                | Event::CopiedMemory { rank, .. } => assert_eq!(rank, 0),
                Event::Lost { rank, .. } => assert_eq!(rank, 0),
                other => panic!("{other:?}"),
            }
        }
        self.restart();
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
        assert_eq!(report.rank, 0);
        let survey = self.survey.get_or_insert_with(Survey::new);
        let scene = Scene {
            purpose: Purpose::Bandwidth(Pattern::AllToAll),
            repetition: 0,
            place: 0,
            flows: vec![Flow { source: NicId(0), peers: vec![NicId(2), NicId(3)] }],
            victims: vec![Pair { initiator: NicId(1), target: NicId(2) }],
            slot_ns: load_block().slot_ns,
            window_bytes: 1 << 20,
        };
        survey.load.add(&scene, &report.results);
        foreign_traffic(&report.results, 2.0);
        serde_json::to_string(&survey.load.findings()).expect("a document");
    }

    fn order(&mut self, bytes: &[u8]) {
        let course = course();
        match decode::<Order>(bytes) {
            Some(Order::Course(course)) if course.is_valid() => {
                assert_eq!(course.tests.len(), course.arguments.len());
            }
            Some(Order::Block(block)) if block.is_valid(2, Some(&course)) => {
                for task in &block.tasks {
                    let begins_ns = block.begins_ns + u64::from(task.slot) * block.slot_ns;
                    let _ = Exchanges::default().local(begins_ns);
                    let _ = task.part.test().map(|test| &course.tests[test.index()]);
                    for peer in task.part.peers() {
                        let _ = &block.addresses[peer];
                    }
                }
            }
            Some(Order::End) => {}
            _ => return,
        }
        self.accepted += 1;
    }
}

/// Returns a connection on which these messages have arrived, and then its end; and its other end.
fn link(messages: &[&[u8]], set: &PollSet) -> (Link, UnixStream) {
    let (mut near, far) = UnixStream::pair().expect("a pair of sockets");
    for bytes in messages {
        near.write_all(&framing::message(bytes)).expect("a short message");
    }
    near.shutdown(Shutdown::Write).expect("a socket");
    (Link::from_pair(far, set).expect("a connection"), near)
}

/// Panics if an event has a long text, a text with control characters, or a figure that is none.
fn assert_plain(event: &Event) {
    match event {
        Event::Lost { reason, .. } | Event::TurnedAway { reason, .. } => assert_text(reason),
        Event::Report(report) => {
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
        _ => {}
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

fn assert_text(text: &str) {
    let is_short = text.len() < 2 * MOST_TEXT;
    assert!(is_short && !text.contains(char::is_control), "{text:?}");
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
        let roster = Roster { nodes: [0, 1].map(node).into(), nics: [0, 1, 2, 3].map(nic).into() };
        let setup = LoadSetup {
            wanted: wanted::parse("all2all").expect("a pattern"),
            sizes: LoadSizes { size_bytes: 65_536, window_bytes: 1 << 20 },
            victims_percent: 50,
            cap: Cap::Default,
            seed: 1,
            is_hardware: false,
            nic_rate: Some(1e9),
            theory: None,
            victim_test: tests().swap_remove(0),
            other_class: None,
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
