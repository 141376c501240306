//! Joining, orders and reports; who is not let in; the clock.
//!
//! * Members that end, fail, are stopped, or lose their connection; and the coordinator.
//! * Members with the token that lie, are silent, stall or send without end: the others go on, and
//!   the survey ends.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use facts::error::Failure;
use facts::net;
use facts::text::MOST_TEXT;
use proptest::prelude::*;

use crate::star::fuzzing::{FuzzTarget, Receiver, targets};
use crate::star::message::{JoinRequest, MAX_MESSAGE, Message, Reply, decode, encode, frame};
use crate::star::testing::*;
use crate::star::{Order, *};

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
        let mut incoming = net::Incoming::new(most);
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

/// What a hostile member does after it has joined, and the reason why it is lost; none if it is
/// given up for its silence.
type Attack = (fn(&mut Raw), Option<&'static str>);

const NO_MESSAGE: &str = "expelled: it sent bytes that are not a message of a survey";

const OUT_OF_TURN: &str = "expelled: it sent a message out of turn";

const NO_ORDER: &str = "expelled: it sent a reply to no order";

const OTHER_KIND: &str = "expelled: its reply is not one to its order";

/// The first order of each member is its block.
fn reply(serial: u32, reply: Reply<TestWork>) -> Message<TestWork> {
    Message::Reply { serial, reply }
}

const ATTACKS: [Attack; 15] = [
    (|_| {}, None),
    // It has announced more than it sends.
    (|member| member.send_bytes(&[0, 0, 16, 0, 7]), None),
    (|member| member.send_bytes(&net::message(&[0xff])), Some(NO_MESSAGE)),
    (|member| member.send_bytes(&(MAX_MESSAGE as u32 + 1).to_le_bytes()), Some(NO_MESSAGE)),
    (|member| member.send_bytes(&net::message(&[])), Some(NO_MESSAGE)),
    (|member| member.send(&Message::Ready), Some(OUT_OF_TURN)),
    (|member| member.send(&Message::Abort("a lie".into())), Some(OUT_OF_TURN)),
    (|member| member.send(&Message::Knock { rank: 0 }), Some(OUT_OF_TURN)),
    (|member| member.send(&reply(7, Reply::Begun)), Some(NO_ORDER)),
    (|member| member.send(&reply(1, Reply::Begun)), Some(OTHER_KIND)),
    (|member| member.send(&reply(1, Reply::Ended)), Some(OTHER_KIND)),
    (
        |member| member.send(&reply(1, Reply::Report(report(0, 0)))),
        Some("expelled: its report is about rank 0"),
    ),
    (
        |member| {
            let rank = member.request.introduction.rank;
            // The second report is one too many.
            (0..2).for_each(|_| member.send(&reply(1, Reply::Report(report(rank, 0)))));
        },
        Some(NO_ORDER),
    ),
    (
        |member| while member.can_send(&frame(&Message::<TestWork>::Ping { sent_ns: 0 })) {},
        Some("expelled: it sent more than 1000 messages within 1 s"),
    ),
    (|member| member.send(&Message::Failed("\x1b[2J".repeat(1000))), Some("[2J")),
];

#[test]
fn hostile_members_disturb_no_others() {
    const HONEST: u32 = 2;
    let size = HONEST + ATTACKS.len() as u32;
    let (mut root, meeting) = root(size);
    let members: Vec<_> = (0..HONEST).map(|rank| obedient(&meeting, rank, size)).collect();
    events(&mut root, 2, joined);
    let mut hostile: Vec<_> =
        (HONEST..size).map(|rank| Raw::join(&mut root, &meeting, rank, size)).collect();
    root.send_blocks((0..size).map(|rank| (rank, block(0))).collect());
    let attacks = thread::spawn(move || {
        for (member, (attack, _)) in hostile.iter_mut().zip(ATTACKS) {
            attack(member);
        }
        hostile
    });
    let mut found = events(&mut root, 2, |event| reported(event).filter(|(_, rank)| *rank < 2));
    found.sort();
    assert_eq!(found, [(0, 0), (0, 1)]);
    let expelled = ATTACKS.iter().filter(|(_, reason)| reason.is_some());
    let mut losses = events(&mut root, expelled.count(), lost);
    let silent = (0..ATTACKS.len()).filter(|place| ATTACKS[*place].1.is_none());
    let silent: Vec<u32> = silent.map(|place| HONEST + place as u32).collect();
    assert_eq!(root.give_up_silent(&silent.iter().copied().collect(), "no report"), silent);
    losses.extend(events(&mut root, silent.len(), lost));
    losses.sort();
    for ((rank, reason), (place, (_, expected))) in losses.iter().zip(ATTACKS.iter().enumerate()) {
        assert_eq!(*rank, HONEST + place as u32);
        assert!(reason.contains(expected.unwrap_or("no report")), "{place}: {reason}");
        assert!(!reason.contains(char::is_control) && reason.len() < 2 * MOST_TEXT, "{place}");
    }
    root.send_blocks((0..HONEST).map(|rank| (rank, block(1))).collect());
    events(&mut root, 2, reported);
    assert_eq!(root.end(LIMIT), []);
    finish(members);
    drop(attacks.join().unwrap());
}

/// Each message of the protocol, as it is and changed in one place.
#[test]
fn mutated_messages_disturb_no_other_member() {
    const COPIES: u32 = 6;
    let more = [
        FuzzTarget::reply::<TestWork>("report", 2, Reply::Report(report(0, 0))),
        FuzzTarget::order::<TestWork>("order of course", Order::TestSetup("a course".into())),
        FuzzTarget::order::<TestWork>("order of block", Order::Block(block(0))),
    ];
    let seeds: Vec<Vec<u8>> = targets::<TestWork>(block(0))
        .into_iter()
        .chain(more)
        .map(|target| match target.receiver {
            Receiver::MemberOfCoordinator => {
                let order = decode(&target.seed).unwrap();
                encode(&Message::<TestWork>::Order { serial: 1, order })
            }
            _ => target.seed,
        })
        .collect();
    let size = 1 + COPIES * seeds.len() as u32;
    let (mut root, meeting) = root(size);
    let member = obedient(&meeting, 0, size);
    events(&mut root, 1, joined);
    let mut dice = fastrand::Rng::with_seed(1);
    let mut kept = Vec::new();
    for (rank, seed) in (1..size).zip(seeds.iter().cycle()) {
        let mut hostile = Raw::join(&mut root, &meeting, rank, size);
        let mut bytes = seed.clone();
        if rank as usize > seeds.len() {
            let place = dice.usize(..bytes.len());
            bytes[place] = dice.u8(..);
        }
        root.send_checks([rank]);
        hostile.send_bytes(&net::message(&bytes));
        kept.push(hostile);
    }
    for number in 0..3 {
        root.send_blocks(vec![(0, block(number))]);
        assert_eq!(events(&mut root, 1, reported), [(number, 0)]);
    }
    while root.end(Duration::from_millis(100)).iter().any(|(rank, _)| *rank == 0) {}
    finish(vec![member]);
}

/// It reads no orders: others get their turns, and its connection ends.
#[test]
fn stalled_member_costs_bounded_memory() {
    let (mut root, meeting) = root(2);
    let member = obedient(&meeting, 1, 2);
    events(&mut root, 1, joined);
    let stalled = Raw::join(&mut root, &meeting, 0, 2);
    // Orders of 16 MiB each: it reads none.
    (0..4).for_each(|_| root.send_setups(vec![(0, "x".repeat(MAX_MESSAGE - 100))]));
    assert_eq!(events(&mut root, 1, lost), [(0, "it does not read its messages".into())]);
    root.send_blocks(vec![(1, block(0))]);
    assert_eq!(events(&mut root, 1, reported), [(0, 1)]);
    assert_eq!(root.end(LIMIT), []);
    finish(vec![member]);
    drop(stalled);
}

#[test]
fn goes_on_without_member_that_has_died() {
    const SIZE: u32 = 3;
    let (mut root, meeting) = root(SIZE);
    drop(stopped(&mut root, &meeting, 0, SIZE));
    let others: Vec<_> = (1..SIZE).map(|rank| obedient(&meeting, rank, SIZE)).collect();
    let (rank, reason) = events(&mut root, 1, lost).remove(0);
    assert_eq!((rank, &*reason), (0, "it closed its connection: it failed or was killed"));
    events(&mut root, 2, joined);
    root.send_blocks((0..SIZE).map(|rank| (rank, block(0))).collect());
    let mut found = events(&mut root, 2, reported);
    found.sort();
    assert_eq!(found, [(0, 1), (0, 2)]);
    assert_eq!(root.end(LIMIT), []);
    finish(others);
}

#[test]
fn gives_up_stopped_member_which_learns_it_later() {
    let (mut root, meeting) = root(2);
    let mut first = stopped(&mut root, &meeting, 0, 2);
    let other = obedient(&meeting, 1, 2);
    events(&mut root, 1, joined);
    root.send_blocks(vec![(0, block(0)), (1, block(0))]);
    assert_eq!(events(&mut root, 1, reported), [(0, 1)]);
    assert_eq!(root.give_up_silent(&[0].into(), "it is stopped"), [0]);
    assert_eq!(events(&mut root, 1, lost), [(0, "it is stopped".into())]);
    assert!(matches!(first.next_order().unwrap(), Order::Block(_)));
    first.report(report(0, 0));
    let failure = first.next_order().unwrap_err();
    assert_eq!(failure.message(), "the survey has given it up: it is stopped");
    assert!(failure.is_printed(), "the coordinator prints it");
    root.send_blocks(vec![(1, block(1))]);
    assert_eq!(events(&mut root, 1, reported), [(1, 1)]);
    assert_eq!(root.end(LIMIT), []);
    finish(vec![other]);
}

/// The connection is lost before the order arrives, before the report arrives, and several times.
#[test]
fn repeats_orders_and_reports_that_were_lost_with_a_connection() {
    let (mut root, mut meeting) = root(1);
    let proxy = Proxy::start(meeting.addresses[0]);
    meeting.addresses = vec![proxy.address];
    let (go_on, may_go_on) = channel();
    let member = thread::spawn(move || {
        let mut member = join::<TestWork>(&meeting, 0, 1).unwrap();
        for number in 0..3 {
            let order = member.next_order().unwrap();
            assert!(matches!(order, Order::Block(block) if block.number == number));
            may_go_on.recv().unwrap();
            member.report(report(0, number));
        }
        assert_eq!(member.next_order().unwrap(), Order::End);
        member.end();
    });
    events(&mut root, 1, joined);
    for number in 0..3 {
        if number != 1 {
            proxy.cut(0);
        }
        root.send_blocks(vec![(0, block(number))]);
        if number != 2 {
            // It does not return at once.
            proxy.cut(3);
        }
        go_on.send(()).unwrap();
        assert_eq!(events(&mut root, 1, reported), [(number, 0)]);
    }
    assert_eq!(root.end(LIMIT), []);
    member.join().unwrap();
}

/// It answers with an earlier order than the one it has received, as after a lost connection.
#[test]
fn sends_only_orders_that_have_not_arrived() {
    let (mut root, meeting) = root(1);
    let mut member = Raw::join(&mut root, &meeting, 0, 1);
    root.send_checks([0, 0, 0]);
    let serial = |message| match message {
        Some(Message::Order { serial, .. }) => serial,
        other => panic!("{other:?}"),
    };
    assert_eq!([1, 2, 3].map(|_| serial(member.receive())), [1, 2, 3]);
    let request = JoinRequest { received: 2, ..member.reset() };
    let returned = thread::spawn(move || {
        let mut member = Raw::enter(&meeting, request);
        assert_eq!(member.receive(), Some(Message::Admitted { answered: 0 }));
        member.send(&Message::Ready);
        serial(member.receive())
    });
    while !returned.is_finished() {
        root.poll(Instant::now() + Duration::from_millis(10)).unwrap();
    }
    assert_eq!(returned.join().unwrap(), 3);
}

#[test]
fn reports_members_that_do_not_end() {
    let (mut root, meeting) = root(2);
    let member = obedient(&meeting, 0, 2);
    events(&mut root, 1, joined);
    let stopped = stopped(&mut root, &meeting, 1, 2);
    let missing = root.end(Duration::from_millis(100));
    assert!(missing.contains(&(1, "it has not ended within 100ms".into())), "{missing:?}");
    drop((root, stopped));
    member.join().unwrap();
}

/// Its end may arrive when the coordinator waits no longer.
#[test]
fn member_ends_without_its_coordinator() {
    let (mut root, meeting) = root(1);
    let mut member = stopped(&mut root, &meeting, 0, 1);
    root.end(Duration::ZERO);
    drop(root);
    assert_eq!(member.next_order().unwrap(), Order::End);
    member.end();
}

#[test]
fn member_gives_the_reason_of_its_failure() {
    let (mut root, meeting) = root(1);
    let member =
        thread::spawn(move || join::<TestWork>(&meeting, 0, 1).unwrap().fail("no NIC is left"));
    assert_eq!(events(&mut root, 1, lost), [(0, "no NIC is left".into())]);
    member.join().unwrap();
}

#[test]
fn members_end_with_their_coordinator() {
    let (mut root, meeting) = root(1);
    let member = thread::spawn(move || {
        let mut member = join::<TestWork>(&meeting, 0, 1).unwrap();
        member.next_order().unwrap_err().message()
    });
    events(&mut root, 1, joined);
    drop(root);
    assert_eq!(member.join().unwrap(), "the coordinator of the survey has ended");
}

/// The host of a killed process refuses connections.
#[test]
fn members_end_after_their_coordinator_was_killed() {
    let (mut root, meeting) = root(1);
    let mut member = stopped(&mut root, &meeting, 0, 1);
    root.kill();
    let failure = member.next_order().unwrap_err().message();
    assert!(
        failure.starts_with("the coordinator of the survey is not there: 127.0.0.1"),
        "{failure}"
    );
}
