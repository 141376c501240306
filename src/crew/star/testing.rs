//! Processes as threads, over TCP on this host, for unit tests, and work for them.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::listener::{CALLER, VERSION, role};
use super::message::{JoinRequest, MAX_MESSAGE, Message, decode, frame};
use super::*;
use crate::introduction::Introduction;
use facts::error::Failure;
use facts::net::{Incoming, Listener, Reach};

/// Time limit for anything that has to happen.
pub const LIMIT: Duration = Duration::from_secs(60);

pub fn token(text: &str) -> Token {
    Token::new(OsStr::new(text)).unwrap()
}

/// Work without NICs: a member reports the number of its block.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TestWork;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    pub number: u32,
    pub end_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub block: u32,
    pub rank: u32,
}

impl Work for TestWork {
    type TestSetup = String;
    type Block = Block;
    type Report = Report;

    fn is_valid_setup(_: &String) -> bool {
        true
    }

    fn is_valid_block(_: &Block, _: usize, _: Option<&String>) -> bool {
        true
    }

    fn end_ns(block: &Block) -> u64 {
        block.end_ns
    }

    fn accept(report: &mut Report, expected: Expected<Self>) -> Result<(), String> {
        if report.rank != expected.rank {
            return Err(format!("its report is about rank {}", report.rank));
        }
        let is_valid = report.block == expected.block.number;
        is_valid.then_some(()).ok_or_else(|| format!("it has reported block {}", report.block))
    }
}

/// A coordinator, and its events that no test has asked for: several may come at once.
pub struct Observed<W: Work = TestWork> {
    root: Root<W>,
    others: Vec<Event<W>>,
}

impl<W: Work> Observed<W> {
    pub fn into_inner(self) -> Root<W> {
        self.root
    }
}

impl<W: Work> Deref for Observed<W> {
    type Target = Root<W>;

    fn deref(&self) -> &Root<W> {
        &self.root
    }
}

impl<W: Work> DerefMut for Observed<W> {
    fn deref_mut(&mut self) -> &mut Root<W> {
        &mut self.root
    }
}

pub fn root(size: u32) -> (Observed, Meeting) {
    root_of(size)
}

/// A coordinator of any work.
pub fn root_of<W: Work>(size: u32) -> (Observed<W>, Meeting) {
    let listener = Listener::bind(None, 0, Reach::ThisMachine).unwrap();
    let root = Root::listen(listener, token("secret"), size).unwrap();
    let meeting = Meeting {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], root.port()))],
        token: token("secret"),
    };
    let others = Vec::new();
    (Observed { root, others }, meeting)
}

pub fn introduction(rank: u32, size: u32) -> Introduction {
    Introduction { rank, size, host: format!("node{rank}"), topology: None, nics: Vec::new() }
}

pub fn block(number: u32) -> Block {
    Block { number, end_ns: now_ns() }
}

pub fn report(rank: u32, block: u32) -> Report {
    Report { block, rank }
}

pub fn join<W: Work>(meeting: &Meeting, rank: u32, size: u32) -> Result<Member<W>, Failure> {
    Member::join(meeting, introduction(rank, size), LIMIT)
}

/// A member in a thread of its own that reports each block at once, and sends its rank as the
/// document of each check and as the CPUs on which it has copied memory. Returns the number of
/// orders.
pub fn obedient(meeting: &Meeting, rank: u32, size: u32) -> JoinHandle<usize> {
    let meeting = meeting.clone();
    let body = move || {
        let mut member = join::<TestWork>(&meeting, rank, size).unwrap();
        let mut orders = 0;
        loop {
            orders += 1;
            match member.next_order().unwrap() {
                Order::TestSetup(_) => {}
                Order::Block(block) => member.report(report(rank, block.number)),
                Order::Check => member.send_check(vec![rank as u8]),
                Order::CopyMemory => {
                    let copy = MemoryCopy { cpus: rank, bytes_per_second: 1 };
                    member.send_memory_copy(Some(copy));
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

/// The first `count` events for which `wanted` is something. The others stay for later calls.
pub fn events<T, W: Work>(
    root: &mut Observed<W>,
    count: usize,
    mut wanted: impl FnMut(Event<W>) -> Option<T>,
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

pub fn joined<W: Work>(event: Event<W>) -> Option<u32> {
    match event {
        Event::Joined(introduction) => Some(introduction.rank),
        _ => None,
    }
}

pub fn begun(event: Event<TestWork>) -> Option<u32> {
    match event {
        Event::Begun { rank } => Some(rank),
        _ => None,
    }
}

pub fn reported(event: Event<TestWork>) -> Option<(u32, u32)> {
    match event {
        Event::Report { rank, report } => Some((report.block, rank)),
        _ => None,
    }
}

pub fn lost(event: Event<TestWork>) -> Option<(u32, String)> {
    match event {
        Event::Lost { rank, reason } => Some((rank, reason)),
        _ => None,
    }
}

/// A member that has joined, and does nothing: one that is stopped.
pub fn stopped<W: Work>(
    root: &mut Observed<W>,
    meeting: &Meeting,
    rank: u32,
    size: u32,
) -> Member<W>
where
    Member<W>: Send + 'static,
{
    let meeting = meeting.clone();
    let member = thread::spawn(move || join(&meeting, rank, size).unwrap());
    assert_eq!(events(root, 1, joined), [rank]);
    member.join().unwrap()
}

/// A process that sends what a test wants.
pub struct Raw {
    stream: TcpStream,
    incoming: Incoming,
    /// Its request to join: its introduction, and the last order that it has received.
    pub request: JoinRequest,
}

impl Raw {
    /// Connects, and has itself admitted with this `request`.
    pub fn enter(meeting: &Meeting, request: JoinRequest) -> Self {
        let stream = TcpStream::connect(meeting.addresses[0]).unwrap();
        let mut raw = Self { stream, incoming: Incoming::new(MAX_MESSAGE), request };
        raw.send(&Message::Hello { version: VERSION.into(), nonce: [0; 16] });
        let Some(Message::Challenge { nonce }) = raw.receive() else { panic!("no challenge") };
        let proof = meeting.token.proof(&role(CALLER, &nonce));
        let request = Box::new(raw.request.clone());
        raw.send(&Message::Join { proof, request });
        assert!(matches!(raw.receive(), Some(Message::Welcome { .. })));
        raw
    }

    /// Joins `root`, which runs in this thread.
    pub fn join(root: &mut Observed, meeting: &Meeting, rank: u32, size: u32) -> Self {
        let introduction = introduction(rank, size);
        let request = JoinRequest { id: rank.into(), received: 0, introduction };
        let meeting = meeting.clone();
        let raw = thread::spawn(move || {
            let mut raw = Self::enter(&meeting, request);
            assert_eq!(raw.receive(), Some(Message::Admitted { answered: 0 }));
            raw.send(&Message::Ready);
            raw
        });
        assert_eq!(events(root, 1, joined), [rank]);
        raw.join().unwrap()
    }

    pub fn send(&mut self, message: &Message<TestWork>) {
        self.send_bytes(&frame(message));
    }

    /// Sends bytes. The coordinator may have closed the connection.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.can_send(bytes);
    }

    /// Sends bytes. Returns false if the coordinator has closed the connection.
    pub fn can_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// The next message; `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<Message<TestWork>> {
        loop {
            let count = self.stream.read(self.incoming.room()).ok().filter(|&count| count > 0)?;
            if let Some(bytes) = self.incoming.advance(count).unwrap() {
                return Some(decode(&bytes).unwrap());
            }
        }
    }

    /// Resets the connection, as a broken network may.
    pub fn reset(self) -> JoinRequest {
        rustix::net::connect_unspec(&self.stream).unwrap();
        self.request
    }
}

/// Carries connections to a coordinator and back, in threads, until they are cut.
pub struct Proxy {
    pub address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    /// Number of connections that are closed at once.
    refused: Arc<AtomicUsize>,
}

impl Proxy {
    pub fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (streams, refused) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<AtomicUsize>::default());
        let (kept, left) = (streams.clone(), refused.clone());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // Only this thread counts down.
                if left.load(Ordering::SeqCst) > 0 {
                    left.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                let Ok(far) = TcpStream::connect(server) else { return };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let [mut from, mut to] = [from, to].map(|stream| stream.try_clone().unwrap());
                    thread::spawn(move || {
                        if io::copy(&mut from, &mut to).is_ok() {
                            let _ = to.shutdown(Shutdown::Write);
                        }
                    });
                }
                kept.lock().unwrap().extend([near, far]);
            }
        });
        Self { address, streams, refused }
    }

    /// Resets all connections, as a broken network may, and closes this number of the next ones.
    pub fn cut(&self, attempts: usize) {
        self.refused.store(attempts, Ordering::SeqCst);
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = rustix::net::connect_unspec(&stream);
        }
    }
}
