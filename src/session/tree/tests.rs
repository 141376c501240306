//! Processes of a survey as threads, over TCP on this host.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::clock::SharedClock;
use super::message::{FromMember, Message, Seeker, frame};
use super::*;
use crate::session::listener::{Listener, Reach};
use crate::session::wire;
use crate::survey::timetable::{Block, BlockReport, Course, Introduction};

/// Time limit for anything that has to happen.
const LIMIT: Duration = Duration::from_secs(60);

fn token(text: &str) -> Token {
    Token::new(OsStr::new(text)).unwrap()
}

fn root(size: u32) -> (Root, Meeting) {
    let listener = Listener::bind(None, 0, Reach::ThisMachine).unwrap();
    let root = Root::listen(listener, token("secret"), size).unwrap();
    let meeting = Meeting {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], root.port()))],
        token: token("secret"),
    };
    (root, meeting)
}

fn introduction(rank: u32, size: u32) -> Introduction {
    Introduction {
        rank,
        size,
        host: format!("node{rank}"),
        topology: None,
        nics: Vec::new(),
    }
}

fn course() -> Course {
    Course {
        tests: Vec::new(),
        arguments: Vec::new(),
        pair_ns: 1,
        first_nic: 0,
    }
}

fn block(number: u32) -> Block {
    Block {
        number,
        begins_ns: now_ns(),
        slot_ns: 1,
        slots: 1,
        tasks: Vec::new(),
    }
}

fn report(rank: u32, block: u32) -> BlockReport {
    BlockReport {
        block,
        rank,
        results: Vec::new(),
        addresses: Vec::new(),
    }
}

fn join(meeting: &Meeting, rank: u32, size: u32) -> Result<Member, Failure> {
    Member::join(meeting, introduction(rank, size), LIMIT)
}

/// A member in a thread of its own that reports each block at once. Returns the number of orders.
fn obedient(meeting: &Meeting, rank: u32, size: u32) -> JoinHandle<usize> {
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
fn finish(members: Vec<JoinHandle<usize>>) {
    for member in members {
        member.join().unwrap();
    }
}

/// Returns the first `count` events for which `wanted` is something.
fn events<T>(root: &mut Root, count: usize, mut wanted: impl FnMut(Event) -> Option<T>) -> Vec<T> {
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

fn joined(event: Event) -> Option<u32> {
    match event {
        Event::Joined(introduction) => Some(introduction.rank),
        _ => None,
    }
}

fn reported(event: Event) -> Option<(u32, u32)> {
    match event {
        Event::Report(report) => Some((report.block, report.rank)),
        _ => None,
    }
}

fn lost(event: Event) -> Option<(u32, String)> {
    match event {
        Event::Lost { rank, reason } => Some((rank, reason)),
        _ => None,
    }
}

#[test]
fn leads_members_through_course_and_blocks_to_end() {
    const SIZE: u32 = 3;
    let (mut root, meeting) = root(SIZE);
    let members: Vec<_> = (0..SIZE)
        .map(|rank| obedient(&meeting, rank, SIZE))
        .collect();
    events(&mut root, 3, joined);
    root.send_courses((0..SIZE).map(|rank| (rank, course())).collect());
    for number in 0..2 {
        root.send_blocks((0..SIZE).map(|rank| (rank, block(number))).collect());
        let mut found = events(&mut root, 3, reported);
        found.sort();
        assert_eq!(found, [0, 1, 2].map(|rank| (number, rank)));
    }
    assert_eq!(root.end(LIMIT), []);
    for member in members {
        assert_eq!(member.join().unwrap(), 4);
    }
}

/// Starts members one after another, so that the coordinator has the first [`WIDTH`] as children, and
/// each of the next ones has another of these as its parent, in the order of ranks.
fn start_in_order<T>(
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

/// Runs a member's connecting part until it is stopped; returns it as it was then.
struct Stoppable {
    node: JoinHandle<Node>,
    stop: Arc<AtomicBool>,
    line: UnixStream,
}

impl Stoppable {
    fn start(meeting: &Meeting, rank: u32, size: u32) -> Self {
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

    fn stop(self) -> (Node, UnixStream) {
        self.stop.store(true, Ordering::Relaxed);
        (self.node.join().unwrap(), self.line)
    }
}

#[test]
fn gives_each_process_at_most_32_children() {
    const SIZE: u32 = 70;
    let (mut root, meeting) = root(SIZE);
    let members: Vec<_> = (0..SIZE)
        .map(|rank| obedient(&meeting, rank, SIZE))
        .collect();
    events(&mut root, SIZE as usize, joined);
    root.send_blocks((0..SIZE).map(|rank| (rank, block(0))).collect());
    events(&mut root, SIZE as usize, reported);
    assert_eq!(root.end(LIMIT), []);
    members
        .into_iter()
        .for_each(|member| assert_eq!(member.join().unwrap(), 2));
    let levels = root.traffic();
    let processes: Vec<u64> = levels.iter().map(|level| level.processes).collect();
    assert_eq!(processes, [1, 32, 38]);
    for level in &levels {
        assert!(level.most.messages_sent > 0 && level.most.messages_received > 0);
        assert!(level.sum.bytes_sent >= level.most.bytes_sent);
    }
    assert_eq!(levels[0].sum, levels[0].most);
}

#[test]
fn finds_other_parents_for_members_below_lost_one() {
    const SIZE: u32 = 34;
    let (mut root, meeting) = root(SIZE);
    let first = thread::spawn({
        let meeting = meeting.clone();
        move || join(&meeting, 0, SIZE).unwrap()
    });
    assert_eq!(events(&mut root, 1, joined), [0]);
    let first = first.join().unwrap();
    let others = start_in_order(&mut root, 1..SIZE, |rank| obedient(&meeting, rank, SIZE));
    // Rank 0 is the parent of rank 32.
    drop(first);
    let (rank, reason) = events(&mut root, 1, lost).remove(0);
    assert_eq!(rank, 0);
    assert_eq!(reason, "it closed its connection: it failed or was killed");
    root.send_blocks((0..SIZE).map(|rank| (rank, block(0))).collect());
    let mut found = events(&mut root, SIZE as usize - 1, reported);
    found.sort();
    assert_eq!(found, (1..SIZE).map(|rank| (0, rank)).collect::<Vec<_>>());
    assert_eq!(root.end(LIMIT), []);
    for member in others {
        assert_eq!(member.join().unwrap(), 2);
    }
}

#[test]
fn goes_around_parent_that_is_stopped() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let first = start_in_order(&mut root, 0..1, |rank| {
        Stoppable::start(&meeting, rank, SIZE)
    });
    let others = start_in_order(&mut root, 1..SIZE, |rank| obedient(&meeting, rank, SIZE));
    let (mut stopped, _line) = first.into_iter().next().unwrap().stop();
    // The block of rank 32 stays with rank 0, and is sent another way.
    root.send_blocks(vec![(32, block(0))]);
    assert_eq!(events(&mut root, 1, reported), [(0, 32)]);
    root.give_up(0, "it is stopped");
    assert_eq!(events(&mut root, 1, lost), [(0, "it is stopped".into())]);
    // A process that continues later learns that it takes no part any longer.
    let until = Instant::now() + LIMIT;
    while !stopped.is_over() && Instant::now() < until {
        stopped.turn(Duration::from_millis(10), &mut Vec::new());
        root.poll(Instant::now()).unwrap();
    }
    assert!(stopped.is_over());
    root.send_blocks(vec![(32, block(1))]);
    assert_eq!(events(&mut root, 1, reported), [(1, 32)]);
    assert_eq!(root.end(LIMIT), []);
    finish(others);
}

#[test]
fn sends_reports_again_that_were_lost_with_parent() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let first = start_in_order(&mut root, 0..1, |rank| {
        Stoppable::start(&meeting, rank, SIZE)
    });
    let others = start_in_order(&mut root, 1..SIZE - 1, |rank| {
        obedient(&meeting, rank, SIZE)
    });
    let last = thread::spawn({
        let meeting = meeting.clone();
        move || join(&meeting, SIZE - 1, SIZE).unwrap()
    });
    assert_eq!(events(&mut root, 1, joined), [32]);
    let last = last.join().unwrap();
    root.send_blocks(vec![(32, block(7))]);
    assert!(matches!(last.next().unwrap(), Order::Block(block) if block.number == 7));
    let (stopped, line) = first.into_iter().next().unwrap().stop();
    last.report(report(32, 7)).unwrap();
    assert_eq!(events(&mut root, 1, reported), [(7, 32)]);
    drop((stopped, line));
    assert_eq!(events(&mut root, 1, lost)[0].0, 0);
    let end = thread::spawn(move || {
        assert_eq!(last.next().unwrap(), Order::End);
        last.end();
    });
    assert_eq!(root.end(LIMIT), []);
    end.join().unwrap();
    finish(others);
}

#[test]
fn reports_members_that_do_not_end() {
    let (mut root, meeting) = root(2);
    let member = obedient(&meeting, 0, 2);
    let stopped = Stoppable::start(&meeting, 1, 2);
    events(&mut root, 2, joined);
    let kept = stopped.stop();
    let missing = root.end(Duration::from_millis(100));
    assert!(
        missing.contains(&(1, "it has not ended within 100ms".into())),
        "{missing:?}"
    );
    drop(kept);
    member.join().unwrap();
}

#[test]
fn member_gives_the_reason_of_its_failure() {
    let (mut root, meeting) = root(1);
    let member = thread::spawn(move || join(&meeting, 0, 1).unwrap().fail("no NIC is left"));
    assert_eq!(events(&mut root, 1, lost), [(0, "no NIC is left".into())]);
    member.join().unwrap();
}

#[test]
fn members_end_with_their_coordinator() {
    let (mut root, meeting) = root(1);
    let member = thread::spawn(move || {
        let member = join(&meeting, 0, 1).unwrap();
        member.next().unwrap_err().message()
    });
    events(&mut root, 1, joined);
    drop(root);
    assert_eq!(
        member.join().unwrap(),
        "the coordinator of the survey has ended"
    );
}

/// Returns why a process cannot join, and why the coordinator has turned it away.
fn refusal(
    root: &mut Root,
    join: impl FnOnce() -> Result<Member, Failure> + Send + 'static,
) -> [String; 2] {
    let member = thread::spawn(move || join().unwrap_err().message());
    let turned_away = |event| match event {
        Event::TurnedAway { reason, .. } => Some(reason),
        _ => None,
    };
    let reason = events(root, 1, turned_away).remove(0);
    [member.join().unwrap(), reason]
}

#[test]
fn refuses_other_tokens_and_ranks() {
    let (mut root, meeting) = root(2);
    let other = Meeting {
        token: token("Secret"),
        ..meeting.clone()
    };
    let [failure, reason] = refusal(&mut root, move || join(&other, 0, 2));
    assert_eq!(reason, "its token is not that of this survey");
    assert!(failure.contains(&reason), "{failure}");

    let here = meeting.clone();
    let [failure, reason] = refusal(&mut root, move || join(&here, 2, 3));
    assert_eq!(reason, "its rank is 2, and the survey has 2 processes");
    assert!(failure.contains(&reason), "{failure}");

    let member = obedient(&meeting, 0, 2);
    events(&mut root, 1, joined);
    let here = meeting.clone();
    let [failure, reason] = refusal(&mut root, move || join(&here, 0, 2));
    assert_eq!(reason, "rank 0 has joined already, from node0");
    assert!(failure.contains(&reason), "{failure}");

    // A member may join late.
    root.send_blocks(vec![(0, block(0)), (1, block(0))]);
    assert_eq!(events(&mut root, 1, reported), [(0, 0)]);
    let late = obedient(&meeting, 1, 2);
    assert_eq!(events(&mut root, 1, joined), [1]);
    assert_eq!(events(&mut root, 1, reported), [(0, 1)]);
    assert_eq!(root.end(LIMIT), []);
    assert_eq!([member, late].map(|member| member.join().unwrap()), [2, 2]);
}

#[test]
fn member_refuses_coordinator_without_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let meeting = Meeting {
        addresses: vec![listener.local_addr().unwrap()],
        token: token("secret"),
    };
    let limit = Duration::from_secs(1);
    let member = thread::spawn(move || Member::join(&meeting, introduction(0, 1), limit));
    let (mut stream, _) = listener.accept().unwrap();
    let mut receive = |most| {
        let mut incoming = wire::Incoming::new(most);
        loop {
            let count = stream.read(incoming.room()).unwrap();
            if let Some(bytes) = incoming.advance(count).unwrap() {
                return message::decode::<Message>(&bytes).unwrap();
            }
        }
    };
    assert!(matches!(receive(256), Message::Hello { .. }));
    let mut stream = stream.try_clone().unwrap();
    stream
        .write_all(&frame(&Message::Challenge { nonce: [1; 16] }))
        .unwrap();
    let proof = token("other").proof("survey answerer");
    stream
        .write_all(&frame(&Message::Welcome { proof }))
        .unwrap();
    drop(listener);
    let failure = member.join().unwrap().unwrap_err().message();
    assert!(
        failure.starts_with("cannot reach the coordinator of the survey"),
        "{failure}"
    );
}

#[test]
fn unrelated_connections_disturb_nobody() {
    let (mut root, meeting) = root(1);
    let silent = TcpStream::connect(meeting.addresses[0]).unwrap();
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(meeting.addresses[0]).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let web = send(b"GET / HTTP/1.1\r\n\r\n");
    let garbage = send(&[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let eager = send(&frame(&Message::Ready));
    let other = send(&frame(&Message::Hello {
        version: "0.0.1".into(),
        nonce: [0; 16],
    }));
    let member = obedient(&meeting, 0, 1);
    let mut reasons = Vec::new();
    let mut has_joined = false;
    let until = Instant::now() + LIMIT;
    while !has_joined || reasons.len() < 4 {
        assert!(Instant::now() < until, "{reasons:?}");
        for event in root.poll(until).unwrap() {
            match event {
                Event::TurnedAway { reason, .. } => reasons.push(reason),
                other => has_joined |= joined(other).is_some(),
            }
        }
    }
    reasons.sort();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        reasons,
        [
            &format!("it is cxidiag 0.0.1, and this is {version}: install the same on all nodes"),
            "it sent a message out of turn",
            "it sent bytes that are not a message of a survey",
            "it sent bytes that are not a message of a survey",
        ]
    );
    assert_eq!(root.end(LIMIT), []);
    member.join().unwrap();
    drop((silent, web, garbage, eager, other));
}

/// The clocks of these processes are one clock: the true offset is zero.
#[test]
fn offset_of_clock_is_within_its_uncertainty() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let others = start_in_order(&mut root, 0..SIZE - 1, |rank| {
        obedient(&meeting, rank, SIZE)
    });
    // Rank 32 is below rank 0.
    let last = thread::spawn(move || {
        let member = join(&meeting, SIZE - 1, SIZE).unwrap();
        let before = Instant::now();
        let local = member.local(now_ns());
        let after = Instant::now();
        let uncertainty = member.uncertainty();
        assert!(uncertainty > Duration::ZERO);
        assert!(local + uncertainty >= before && local <= after + uncertainty);
        assert_eq!(member.next().unwrap(), Order::End);
        member.end();
    });
    assert_eq!(events(&mut root, 1, joined), [32]);
    assert_eq!(root.end(LIMIT), []);
    last.join().unwrap();
    finish(others);
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_an_error(bytes: Vec<u8>) {
        let _ = message::decode::<Message>(&bytes);
        let _ = message::decode::<FromMember>(&bytes);
        let _ = message::decode::<Order>(&bytes);
    }

    #[test]
    fn altered_messages_decode_or_are_an_error(place: usize, byte: u8, end: usize) {
        let mut bytes = message::encode(&Message::Seek {
            proof: "0".repeat(96),
            seeker: Box::new(Seeker {
                id: 1,
                port: 2,
                avoid: Some(3),
                received: 4,
                introduction: introduction(5, 6),
            }),
        });
        let place = place % bytes.len();
        bytes[place] = byte;
        bytes.truncate(end % (bytes.len() + 1));
        let _ = message::decode::<Message>(&bytes);
    }
}

#[test]
fn member_that_sends_invalid_bytes_is_lost() {
    let (mut root, meeting) = root(1);
    let mut member = Stoppable::start(&meeting, 0, 1);
    events(&mut root, 1, joined);
    let body = vec![0xff];
    member
        .line
        .write_all(&frame(&Message::Up { rank: 0, body }))
        .unwrap();
    let reason = "it sent bytes that are not a message of a survey";
    assert_eq!(events(&mut root, 1, lost), [(0, reason.into())]);
    member.stop();
}
