//! Joining, orders and reports; who is not let in; the clock.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::message::{JoinRequest, Message, frame};
use super::testing::*;
use super::*;
use facts::error::Failure;
use facts::net::framing;

#[test]
fn sends_course_blocks_and_end_to_members() {
    const SIZE: u32 = 3;
    let (mut root, meeting) = root(SIZE);
    let members: Vec<_> = (0..SIZE).map(|rank| obedient(&meeting, rank, SIZE)).collect();
    events(&mut root, 3, joined);
    root.send_setups((0..SIZE).map(|rank| (rank, String::new())).collect());
    let mut prepared = events(&mut root, 3, begun);
    prepared.sort();
    assert_eq!(prepared, [0, 1, 2]);
    for number in 0..2 {
        root.send_blocks((0..SIZE).map(|rank| (rank, block(number))).collect());
        let mut found = events(&mut root, 3, reported);
        found.sort();
        assert_eq!(found, [0, 1, 2].map(|rank| (number, rank)));
    }
    root.send_checks([2, 0]);
    let mut documents = events(&mut root, 2, |event| match event {
        Event::Checked { rank, document } => Some((rank, document)),
        _ => None,
    });
    documents.sort();
    assert_eq!(documents, [(0, vec![0]), (2, vec![2])]);
    root.send_copy_memory(1);
    let copies = events(&mut root, 1, |event| match event {
        Event::CopiedMemory { rank, copy } => Some((rank, copy?.cpus)),
        _ => None,
    });
    assert_eq!(copies, [(1, 1)]);
    assert_eq!(root.end(LIMIT), []);
    let orders = members.into_iter().map(|member| member.join().unwrap());
    assert_eq!(orders.collect::<Vec<_>>(), [5, 5, 5]);
}

#[test]
fn counts_messages_and_bytes_of_all_members() {
    const SIZE: u32 = 3;
    let (mut root, meeting) = root(SIZE);
    let members: Vec<_> = (0..SIZE).map(|rank| obedient(&meeting, rank, SIZE)).collect();
    events(&mut root, 3, joined);
    root.send_blocks((0..SIZE).map(|rank| (rank, block(0))).collect());
    events(&mut root, 3, reported);
    assert_eq!(root.end(LIMIT), []);
    finish(members);
    let traffic = root.traffic();
    assert_eq!(root.traffic(), traffic);
    // Challenge, welcome, admission, 8 answers to pings, quiet, block and end, at least; and what a
    // member sends.
    assert!(traffic.messages_sent >= 14 * 3 && traffic.messages_received >= 13 * 3, "{traffic:?}");
    assert!(traffic.bytes_sent > 4 * traffic.messages_sent);
    assert!(traffic.bytes_received > 4 * traffic.messages_received);
}

/// Returns why a process cannot join, and why the coordinator has turned it away.
fn refusal(
    root: &mut Observed,
    join: impl FnOnce() -> Result<Member<TestWork>, Failure> + Send + 'static,
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
    let other = Meeting { token: token("Secret"), ..meeting.clone() };
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
    // Both events may come at once.
    let joined_or_reported =
        |event: Event<TestWork>| joined(event.clone()).or(reported(event).map(|entry| entry.1));
    assert_eq!(events(&mut root, 2, joined_or_reported), [1, 1]);
    assert_eq!(root.end(LIMIT), []);
    assert_eq!([member, late].map(|member| member.join().unwrap()), [2, 2]);
}

#[test]
fn member_refuses_coordinator_without_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let meeting =
        Meeting { addresses: vec![listener.local_addr().unwrap()], token: token("secret") };
    let limit = Duration::from_secs(1);
    let member =
        thread::spawn(move || Member::<TestWork>::join(&meeting, introduction(0, 1), limit));
    let (mut stream, _) = listener.accept().unwrap();
    let mut receive = |most| {
        let mut incoming = framing::Incoming::new(most);
        loop {
            let count = stream.read(incoming.room()).unwrap();
            if let Some(bytes) = incoming.advance(count).unwrap() {
                return message::decode::<Message<TestWork>>(&bytes).unwrap();
            }
        }
    };
    assert!(matches!(receive(256), Message::Hello { .. }));
    let mut stream = stream.try_clone().unwrap();
    stream.write_all(&frame(&Message::<NoWork>::Challenge { nonce: [1; 16] })).unwrap();
    let proof = token("other").proof("survey answerer");
    stream.write_all(&frame(&Message::<NoWork>::Welcome { proof })).unwrap();
    drop(listener);
    let failure = member.join().unwrap().unwrap_err().message();
    assert!(failure.starts_with("the coordinator of the survey is not there"), "{failure}");
}

#[test]
fn unrelated_connections_disturb_no_member() {
    let (mut root, meeting) = root(1);
    let silent = TcpStream::connect(meeting.addresses[0]).unwrap();
    let send = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(meeting.addresses[0]).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let web = send(b"GET / HTTP/1.1\r\n\r\n");
    let garbage = send(&[4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    let eager = send(&frame(&Message::<NoWork>::Ready));
    let hello = Message::<NoWork>::Hello { version: "0.0.1".into(), nonce: [0; 16] };
    let other = send(&frame(&hello));
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
    let (mut root, meeting) = root(1);
    let order = block(0);
    let sent = order.clone();
    let member = thread::spawn(move || {
        let mut member: Member<TestWork> = join(&meeting, 0, 1).unwrap();
        assert_eq!(member.next_order().unwrap(), Order::Block(sent));
        let before = Instant::now();
        let local = member.local(now_ns());
        let after = Instant::now();
        let uncertainty = Duration::from_nanos(member.clock_uncertainty_ns().unwrap());
        member.report(report(0, 0));
        assert_eq!(member.next_order().unwrap(), Order::End);
        member.end();
        (before, local, after, uncertainty)
    });
    assert_eq!(events(&mut root, 1, joined), [0]);
    root.send_blocks(vec![(0, order)]);
    events(&mut root, 1, reported);
    assert_eq!(root.end(LIMIT), []);
    let (before, local, after, uncertainty) = member.join().unwrap();
    assert!(uncertainty > Duration::ZERO);
    assert!(local + uncertainty >= before && local <= after + uncertainty);
}

proptest! {
    #[test]
    fn refuses_bytes_that_do_not_decode(bytes: Vec<u8>) {
        let _ = message::decode::<Message<TestWork>>(&bytes);
        let _ = message::decode::<Order<TestWork>>(&bytes);
    }

    #[test]
    fn refuses_altered_messages_that_do_not_decode(place: usize, byte: u8, end: usize) {
        let mut bytes = message::encode(&Message::<TestWork>::Join {
            proof: "0".repeat(96),
            request: Box::new(JoinRequest { id: 1, received: 4, introduction: introduction(5, 6) }),
        });
        let place = place % bytes.len();
        bytes[place] = byte;
        bytes.truncate(end % (bytes.len() + 1));
        let _ = message::decode::<Message<TestWork>>(&bytes);
    }
}
