//! Processes of a survey as threads, over TCP on this host, for unit tests.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::clock::SharedClock;
use super::*;
use crate::error::Failure;
use crate::session::listener::{Listener, Reach};
use crate::survey::timetable::{Block, BlockReport, Course, Introduction};

/// Time limit for anything that has to happen.
pub const LIMIT: Duration = Duration::from_secs(60);

pub fn token(text: &str) -> Token {
    Token::new(OsStr::new(text)).unwrap()
}

pub fn root(size: u32) -> (Root, Meeting) {
    let listener = Listener::bind(None, 0, Reach::ThisMachine).unwrap();
    let root = Root::listen(listener, token("secret"), size).unwrap();
    let meeting = Meeting {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], root.port()))],
        token: token("secret"),
    };
    (root, meeting)
}

pub fn introduction(rank: u32, size: u32) -> Introduction {
    Introduction {
        rank,
        size,
        host: format!("node{rank}"),
        topology: None,
        nics: Vec::new(),
    }
}

pub fn course() -> Course {
    Course {
        tests: Vec::new(),
        arguments: Vec::new(),
        pair_ns: 1,
        first_nic: 0,
    }
}

pub fn block(number: u32) -> Block {
    Block {
        number,
        begins_ns: now_ns(),
        slot_ns: 1,
        slots: 1,
        tasks: Vec::new(),
    }
}

pub fn report(rank: u32, block: u32) -> BlockReport {
    BlockReport {
        block,
        rank,
        results: Vec::new(),
        addresses: Vec::new(),
        clock_uncertainty_ns: None,
    }
}

pub fn join(meeting: &Meeting, rank: u32, size: u32) -> Result<Member, Failure> {
    Member::join(meeting, introduction(rank, size), LIMIT)
}

/// A member in a thread of its own that reports each block at once. Returns the number of orders.
pub fn obedient(meeting: &Meeting, rank: u32, size: u32) -> JoinHandle<usize> {
    let meeting = meeting.clone();
    let body = move || {
        let member = join(&meeting, rank, size).unwrap();
        let mut orders = 0;
        loop {
            orders += 1;
            match member.next().unwrap() {
                Order::Course(_) => {}
                Order::Block(block) => member.report(report(rank, block.number)).unwrap(),
                Order::End => {
                    member.end();
                    return orders;
                }
            }
        }
    };
    thread::spawn(body)
}

/// Waits for members that have received their end.
pub fn finish(members: Vec<JoinHandle<usize>>) {
    for member in members {
        member.join().unwrap();
    }
}

/// Returns the first `count` events for which `wanted` is something.
pub fn events<T>(
    root: &mut Root,
    count: usize,
    mut wanted: impl FnMut(Event) -> Option<T>,
) -> Vec<T> {
    let until = Instant::now() + LIMIT;
    let mut found = Vec::new();
    while found.len() < count {
        assert!(Instant::now() < until, "{} of {count} events", found.len());
        found.extend(
            root.poll(until)
                .unwrap()
                .into_iter()
                .filter_map(&mut wanted),
        );
    }
    found
}

pub fn joined(event: Event) -> Option<u32> {
    match event {
        Event::Joined(introduction) => Some(introduction.rank),
        _ => None,
    }
}

pub fn begun(event: Event) -> Option<u32> {
    match event {
        Event::Begun { rank } => Some(rank),
        _ => None,
    }
}

pub fn reported(event: Event) -> Option<(u32, u32)> {
    match event {
        Event::Report(report) => Some((report.block, report.rank)),
        _ => None,
    }
}

pub fn lost(event: Event) -> Option<(u32, String)> {
    match event {
        Event::Lost { rank, reason } => Some((rank, reason)),
        _ => None,
    }
}

/// Starts members one after another, so that the coordinator has the first [`WIDTH`] as children, and
/// each of the next ones has another of these as its parent, in the order of ranks.
pub fn start_in_order<T>(
    root: &mut Root,
    ranks: std::ops::Range<u32>,
    start: impl Fn(u32) -> T,
) -> Vec<T> {
    let start = |rank| {
        let member = start(rank);
        assert_eq!(events(root, 1, joined), [rank]);
        member
    };
    ranks.map(start).collect()
}

pub struct Stoppable {
    node: JoinHandle<Node>,
    stop: Arc<AtomicBool>,
    pub line: UnixStream,
}

impl Stoppable {
    pub fn start(meeting: &Meeting, rank: u32, size: u32) -> Self {
        let (line, other_end) = UnixStream::pair().unwrap();
        let clock = Arc::new(SharedClock::default());
        let introduction = introduction(rank, size);
        let node = Node::new(meeting.clone(), introduction, LIMIT, other_end, clock);
        let mut node = node.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let body = move || {
            while !stopped.load(Ordering::Relaxed) {
                node.turn(Duration::from_millis(10), &mut Vec::new());
            }
            node
        };
        let node = thread::spawn(body);
        Self { node, stop, line }
    }

    pub fn stop(self) -> (Node, UnixStream) {
        self.stop.store(true, Ordering::Relaxed);
        (self.node.join().unwrap(), self.line)
    }
}
