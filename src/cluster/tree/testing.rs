//! Processes of a survey as threads, over TCP on this host, for unit tests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::clock::SharedClock;
use super::message::{MAX_MESSAGE, Message, decode};
use super::*;
use crate::survey::ids::NicId;
use crate::timetable::{Block, Course, Introduction, MemoryCopy, Report};
use facts::error::Failure;
use facts::net::framing::Incoming;
use facts::net::listener::{Listener, Reach};

/// Time limit for anything that has to happen.
pub const LIMIT: Duration = Duration::from_secs(60);

pub fn token(text: &str) -> Token {
    Token::new(OsStr::new(text)).unwrap()
}

/// A coordinator, and its events that no test has asked for: several may come at once.
pub struct Observed {
    root: Root,
    others: Vec<Event>,
}

impl Observed {
    pub fn into_inner(self) -> Root {
        self.root
    }
}

impl Deref for Observed {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.root
    }
}

impl DerefMut for Observed {
    fn deref_mut(&mut self) -> &mut Root {
        &mut self.root
    }
}

pub fn root(size: u32) -> (Observed, Meeting) {
    let listener = Listener::bind(None, 0, Reach::ThisMachine).unwrap();
    let root = Root::listen(listener, token("secret"), size).unwrap();
    let meeting = Meeting {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], root.port()))],
        token: token("secret"),
        bounds: Bounds::default(),
    };
    let others = Vec::new();
    (Observed { root, others }, meeting)
}

pub fn introduction(rank: u32, size: u32) -> Introduction {
    Introduction { rank, size, host: format!("node{rank}"), topology: None, nics: Vec::new() }
}

pub fn course() -> Course {
    Course { tests: Vec::new(), arguments: Vec::new(), pair_ns: 1, first_nic: NicId(0) }
}

pub fn block(number: u32) -> Block {
    Block {
        number,
        begins_ns: now_ns(),
        slot_ns: 1,
        slots: 1,
        window_bytes: None,
        tasks: Vec::new(),
        addresses: BTreeMap::new(),
    }
}

pub fn report(rank: u32, block: u32) -> Report {
    Report {
        block,
        rank,
        results: Vec::new(),
        addresses: Vec::new(),
        beyond_ns: 0,
        clock_uncertainty_ns: None,
        load: None,
    }
}

pub fn join(meeting: &Meeting, rank: u32, size: u32) -> Result<Member, Failure> {
    Member::join(meeting, introduction(rank, size), LIMIT)
}

/// A member in a thread of its own that reports each block at once, and sends its rank as the
/// document of each check and as the CPUs on which it has copied memory. Returns the number of
/// orders.
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
                Order::Check => member.send_check(vec![rank as u8]).unwrap(),
                Order::CopyMemory => {
                    let copy = MemoryCopy { cpus: rank, bytes_per_second: 1 };
                    member.send_memory_copy(Some(copy)).unwrap();
                }
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

/// Returns the first `count` events for which `wanted` is something. The others stay for later
/// calls.
pub fn events<T>(
    root: &mut Observed,
    count: usize,
    mut wanted: impl FnMut(Event) -> Option<T>,
) -> Vec<T> {
    let until = Instant::now() + LIMIT;
    let mut found = Vec::new();
    let mut others = Vec::new();
    let mut arrived = std::mem::take(&mut root.others);
    loop {
        for event in arrived {
            match wanted(event.clone()).filter(|_| found.len() < count) {
                Some(one) => found.push(one),
                None => others.push(event),
            }
        }
        if found.len() == count {
            root.others = others;
            return found;
        }
        assert!(Instant::now() < until, "{} of {count} events; others: {others:?}", found.len());
        arrived = root.poll(until).unwrap();
    }
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

/// Starts members one after another, so that the coordinator has the first [`WIDTH`] as children,
/// and each of the next ones has another of these as its parent, in the order of ranks.
pub fn start_in_order<T>(
    root: &mut Observed,
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
    node: JoinHandle<Relay>,
    stop: Arc<AtomicBool>,
    pub line: UnixStream,
}

impl Stoppable {
    pub fn start(meeting: &Meeting, rank: u32, size: u32) -> Self {
        let (line, other_end) = UnixStream::pair().unwrap();
        let clock = Arc::new(SharedClock::default());
        let introduction = introduction(rank, size);
        let node = Relay::new(meeting.clone(), introduction, LIMIT, other_end, clock);
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

    pub fn stop(self) -> (Relay, UnixStream) {
        self.stop.store(true, Ordering::Relaxed);
        (self.node.join().unwrap(), self.line)
    }
}

/// A member that does something only when a test wants it. Its measuring part ends when it is to.
pub struct Stepped {
    pub node: Relay,
    line: Option<UnixStream>,
    incoming: Incoming,
}

impl Stepped {
    pub fn new(meeting: &Meeting, rank: u32, size: u32) -> Self {
        let (line, other_end) = UnixStream::pair().unwrap();
        line.set_nonblocking(true).unwrap();
        let clock = Arc::new(SharedClock::default());
        let introduction = introduction(rank, size);
        let node = Relay::new(meeting.clone(), introduction, LIMIT, other_end, clock);
        Self { node: node.unwrap(), line: Some(line), incoming: Incoming::new(MAX_MESSAGE) }
    }

    /// Handles what has arrived, and waits briefly for more.
    pub fn step(&mut self) {
        self.node.turn(Duration::from_micros(200), &mut Vec::new());
        while let Some(line) = &mut self.line
            && let Ok(count) = line.read(self.incoming.room())
            && count > 0
        {
            let message = self.incoming.advance(count).unwrap();
            let message = message.and_then(|bytes| decode::<Message>(&bytes));
            if message == Some(Message::End) {
                self.line = None;
            }
        }
    }
}
