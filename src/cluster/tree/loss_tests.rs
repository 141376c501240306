//! Processes that end, fail or are stopped.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use super::message::{FromMember, Message, encode, frame};
use super::testing::*;
use super::*;

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
fn replaces_parent_that_is_stopped() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let first = start_in_order(&mut root, 0..1, |rank| Stoppable::start(&meeting, rank, SIZE));
    let others = start_in_order(&mut root, 1..SIZE, |rank| obedient(&meeting, rank, SIZE));
    let (mut stopped, _line) = first.into_iter().next().unwrap().stop();
    // The block of rank 32 stays with rank 0, and is sent another way.
    root.send_blocks(vec![(32, block(0))]);
    assert_eq!(events(&mut root, 1, reported), [(0, 32)]);
    let given_up = root.give_up_silent(&[0].into(), "it is stopped");
    assert_eq!(given_up, [0]);
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

/// The coordinator gives the stopped member up before those below it have noticed the silence.
#[test]
fn waits_for_members_below_stopped_one() {
    const SIZE: u32 = 34;
    let (mut root, meeting) = root(SIZE);
    let first = start_in_order(&mut root, 0..1, |rank| Stoppable::start(&meeting, rank, SIZE));
    let others = start_in_order(&mut root, 1..SIZE, |rank| obedient(&meeting, rank, SIZE));
    let (stopped, _line) = first.into_iter().next().unwrap().stop();
    root.send_blocks((0..SIZE).map(|rank| (rank, block(0))).collect());
    let given_up = root.give_up_silent(&[0, 32].into(), "no report");
    assert_eq!(given_up, [0]);
    let given_up = root.give_up_silent(&[32].into(), "no report");
    assert!(given_up.is_empty(), "{given_up:?}");
    assert_eq!(events(&mut root, 1, lost), [(0, "no report".into())]);
    let mut found = events(&mut root, SIZE as usize - 1, reported);
    found.sort();
    assert_eq!(found, (1..SIZE).map(|rank| (0, rank)).collect::<Vec<_>>());
    assert_eq!(root.end(LIMIT), []);
    finish(others);
    drop(stopped);
}

#[test]
fn sends_reports_again_that_were_lost_with_parent() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let first = start_in_order(&mut root, 0..1, |rank| Stoppable::start(&meeting, rank, SIZE));
    let others = start_in_order(&mut root, 1..SIZE - 1, |rank| obedient(&meeting, rank, SIZE));
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

/// It answers nothing, but its connections are in order.
#[test]
fn finds_other_parents_for_members_below_refused_one() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let first = thread::spawn({
        let meeting = meeting.clone();
        move || join(&meeting, 0, SIZE).unwrap()
    });
    assert_eq!(events(&mut root, 1, joined), [0]);
    let others = start_in_order(&mut root, 1..SIZE, |rank| obedient(&meeting, rank, SIZE));
    assert_eq!(root.give_up_silent(&[0].into(), "no report"), [0]);
    root.send_blocks(vec![(32, block(0))]);
    assert_eq!(events(&mut root, 1, reported), [(0, 32)]);
    assert_eq!(events(&mut root, 1, lost), [(0, "no report".into())]);
    assert_eq!(root.end(LIMIT), []);
    finish(others);
    drop(first);
}

/// The others have ended when this member looks for another parent.
#[test]
fn ends_member_whose_parent_is_lost_at_the_end() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let first = start_in_order(&mut root, 0..1, |rank| Stoppable::start(&meeting, rank, SIZE));
    let others = start_in_order(&mut root, 1..SIZE, |rank| obedient(&meeting, rank, SIZE));
    drop(first.into_iter().next().unwrap().stop());
    assert_eq!(root.end(LIMIT), []);
    finish(others);
}

/// Its parent does not wait for it, and it finds the coordinator.
#[test]
fn waits_for_member_that_ends_after_its_parent() {
    const SIZE: u32 = 33;
    let (mut root, meeting) = root(SIZE);
    let first = start_in_order(&mut root, 0..1, |rank| obedient(&meeting, rank, SIZE));
    let others = start_in_order(&mut root, 1..SIZE - 1, |rank| obedient(&meeting, rank, SIZE));
    let last = thread::spawn({
        let meeting = meeting.clone();
        move || {
            let member = join(&meeting, SIZE - 1, SIZE).unwrap();
            assert_eq!(member.next().unwrap(), Order::End);
            finish(first);
            member.end();
        }
    });
    assert_eq!(events(&mut root, 1, joined), [32]);
    assert_eq!(root.end(LIMIT), []);
    last.join().unwrap();
    finish(others);
}

#[test]
fn reports_member_whose_measurement_does_not_end() {
    let (mut root, meeting) = root(1);
    let member = thread::spawn(move || join(&meeting, 0, 1).unwrap());
    events(&mut root, 1, joined);
    let member = member.join().unwrap();
    let missing = root.end(Duration::from_secs(2));
    assert_eq!(missing, [(0, "it has not ended within 2s".into())]);
    drop(root);
    drop(member);
}

#[test]
fn reports_members_that_do_not_end() {
    let (mut root, meeting) = root(2);
    let member = obedient(&meeting, 0, 2);
    let stopped = Stoppable::start(&meeting, 1, 2);
    events(&mut root, 2, joined);
    let kept = stopped.stop();
    let missing = root.end(Duration::from_millis(100));
    assert!(missing.contains(&(1, "it has not ended within 100ms".into())), "{missing:?}");
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
    assert_eq!(member.join().unwrap(), "the coordinator of the survey has ended");
}

#[test]
fn loses_member_that_sends_invalid_bytes() {
    let (mut root, meeting) = root(1);
    let mut member = Stoppable::start(&meeting, 0, 1);
    events(&mut root, 1, joined);
    let (path, body) = (Vec::new(), vec![0xff]);
    member.line.write_all(&frame(&Message::Up { path, body })).unwrap();
    let reason = "expelled: it sent bytes that are not a message of a survey";
    assert_eq!(events(&mut root, 1, lost), [(0, reason.into())]);
    member.stop();
}

/// A message names the members that it comes from by its connections, whatever its sender says.
#[test]
fn believes_no_member_that_speaks_for_another() {
    let (mut root, meeting) = root(2);
    let other = obedient(&meeting, 1, 2);
    assert_eq!(events(&mut root, 1, joined), [1]);
    let mut member = Stoppable::start(&meeting, 0, 2);
    assert_eq!(events(&mut root, 1, joined), [0]);
    for path in [vec![1], vec![1, 0], vec![7], Vec::new()] {
        let reason = if path.is_empty() { "no NIC" } else { "a lie" };
        let body = encode(&FromMember::Failed(reason.into()));
        let message = Message::Up { path, body };
        member.line.write_all(&frame(&message)).unwrap();
    }
    assert_eq!(events(&mut root, 1, lost), [(0, "no NIC".into())]);
    root.send_blocks(vec![(1, block(0))]);
    assert_eq!(events(&mut root, 1, reported), [(0, 1)]);
    assert_eq!(root.end(LIMIT), []);
    finish(vec![other]);
    member.stop();
}
