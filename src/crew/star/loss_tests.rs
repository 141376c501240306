//! Members that end, fail, are stopped, or lose their connection; and the coordinator.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use super::message::{JoinRequest, Message};
use super::testing::*;
use super::*;

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
