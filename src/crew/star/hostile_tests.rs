//! Members with the token that lie, are silent, stall or send without end: the others go on, and
//! the survey ends.

use std::thread;
use std::time::Duration;

use super::Order;
use super::fuzzing::{FuzzTarget, Receiver, targets};
use super::message::{MAX_MESSAGE, Message, Reply, decode, encode, frame};
use super::testing::*;
use facts::net::framing;
use facts::text::MOST_TEXT;

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
    (|member| member.send_bytes(&framing::message(&[0xff])), Some(NO_MESSAGE)),
    (|member| member.send_bytes(&(MAX_MESSAGE as u32 + 1).to_le_bytes()), Some(NO_MESSAGE)),
    (|member| member.send_bytes(&framing::message(&[])), Some(NO_MESSAGE)),
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
        hostile.send_bytes(&framing::message(&bytes));
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
