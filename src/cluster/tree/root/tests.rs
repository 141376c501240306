//! The coordinator and members whose steps the tests choose.

use std::thread;

use super::*;
use crate::timetable::Block;
use crate::tree::links::AWAY_LIMIT;
use crate::tree::message::ParentRequest;
use crate::tree::testing::*;
use crate::tree::{KnockAnswer, Meeting, knock};

const SIZE: u32 = 2 + WIDTH as u32;

/// More steps than a member takes to join.
const MOMENTS: u32 = 40;

/// A block that is longer than a test.
fn long_block() -> Block {
    Block { slot_ns: 2 * LIMIT.as_nanos() as u64, ..block(0) }
}

/// A coordinator, and a member at this level of the tree, with its parent if there is one.
struct Scene {
    root: Observed,
    meeting: Meeting,
    members: Vec<Stepped>,
}

impl Scene {
    fn at_level(level: u32) -> Self {
        let (root, meeting) = root(SIZE);
        let mut scene = Self { root, meeting, members: Vec::new() };
        for rank in 0..level {
            if rank > 0 {
                scene.wait_for(joined);
                scene.fill();
            }
            let member = Stepped::new(&scene.meeting, rank, SIZE);
            scene.members.push(member);
        }
        scene
    }

    /// Gives the places at the coordinator to processes that never come.
    fn fill(&mut self) {
        for rank in 2..=WIDTH as u32 {
            assert_eq!(self.root.links.place(rank, None, Instant::now()), Some(None));
        }
    }

    /// Lets each process take a step.
    fn step(&mut self) -> Vec<Event> {
        self.members.iter_mut().for_each(Stepped::step);
        self.members.retain(|member| !member.node.is_over());
        self.root.poll(Instant::now()).unwrap()
    }

    /// Takes steps until this is true.
    fn wait_until(&mut self, mut is_true: impl FnMut(&mut Self, Vec<Event>) -> bool) {
        let until = Instant::now() + LIMIT;
        loop {
            let events = self.step();
            let lost: Vec<_> = events.iter().cloned().filter_map(lost).collect();
            assert_eq!(lost, []);
            if is_true(self, events) {
                return;
            }
            assert!(Instant::now() < until);
        }
    }

    fn wait_for<T>(&mut self, mut wanted: impl FnMut(Event) -> Option<T>) {
        self.wait_until(|_, events| events.into_iter().any(|event| wanted(event).is_some()));
    }
}

#[test]
fn member_joins_and_keeps_quiet_at_any_moment_of_block() {
    for (level, moment) in
        [1, 2].into_iter().flat_map(|level| (0..MOMENTS).map(move |moment| (level, moment)))
    {
        let mut scene = Scene::at_level(level);
        let mut has_joined = false;
        for _ in 0..moment {
            has_joined |= scene.step().into_iter().any(|event| joined(event).is_some());
        }
        scene.root.send_blocks(vec![(level - 1, long_block())]);
        if !has_joined {
            scene.wait_for(joined);
        }
        // It sends no ping in this block.
        scene.wait_until(|scene, _| {
            let last = scene.members.last().unwrap();
            last.node.due() > Instant::now() + LIMIT
        });
    }
}

#[test]
fn member_ends_at_any_moment_of_joining() {
    for (level, moment) in
        [1, 2].into_iter().flat_map(|level| (0..MOMENTS).map(move |moment| (level, moment)))
    {
        let mut scene = Scene::at_level(level);
        for _ in 0..moment {
            scene.step();
        }
        scene.root.end(Duration::ZERO);
        scene.wait_until(|scene, _| scene.members.is_empty());
        assert_eq!(scene.root.end(Duration::ZERO), []);
    }
}

#[test]
fn lets_late_member_ask_again() {
    let mut scene = Scene::at_level(1);
    scene.wait_until(|scene, _| !scene.root.children.is_empty());
    scene.root.links.forget(0);
    scene.wait_for(joined);

    // The same below a member.
    let mut scene = Scene::at_level(2);
    scene.wait_until(|scene, _| scene.root.links.parent(1) == Some(Some(0)));
    scene.root.links.forget(1);
    scene.wait_for(joined);
}

#[test]
fn lets_process_without_parent_begin_again() {
    let mut scene = Scene::at_level(0);
    for rank in 0..WIDTH as u32 {
        scene.root.links.place(rank, None, Instant::now());
    }
    for _ in 0..2 {
        let member = Stepped::new(&scene.meeting, WIDTH as u32, SIZE);
        scene.members.push(member);
        scene.wait_until(|scene, events| {
            assert_eq!(events, []);
            !scene.root.waiting.is_empty()
        });
        scene.members.clear();
        scene.wait_until(|scene, _| scene.root.waiting.is_empty());
    }
    // It was sent to a parent, and did not come.
    let peer = scene.meeting.addresses[0];
    for id in 0..2 {
        let request = ParentRequest {
            id,
            port: 1,
            avoid: None,
            received: 0,
            introduction: introduction(1, SIZE),
        };
        assert_eq!(scene.root.register(&request, peer), Ok(()));
    }
}

#[test]
fn refuses_waiting_process_that_is_lost() {
    let mut scene = Scene::at_level(0);
    for rank in 1..=WIDTH as u32 {
        scene.root.links.place(rank, None, Instant::now());
    }
    scene.members.push(Stepped::new(&scene.meeting, 0, SIZE));
    scene.wait_until(|scene, _| !scene.root.waiting.is_empty());
    scene.root.lose(0, "a reason".into());
    assert!(scene.root.waiting.is_empty());
    while !scene.members.is_empty() {
        scene.step();
    }
}

#[test]
fn accepts_arrived_reports_before_giving_up() {
    let (mut root, meeting) = root(1);
    let member = obedient(&meeting, 0, 1);
    events(&mut root, 1, joined);
    root.send_blocks(vec![(0, long_block())]);
    interrupt::wait(root.set.socket(), PollFlags::IN, Some(LIMIT)).unwrap();
    assert_eq!(root.give_up_silent(&[0].into(), "no report"), [0u32; 0]);
    assert_eq!(events(&mut root, 1, reported), [(0, 0)]);
    assert_eq!(root.end(LIMIT), []);
    member.join().unwrap();
}

#[test]
fn gives_up_no_member_after_it_was_stopped() {
    let (mut root, meeting) = root(1);
    let member = Stoppable::start(&meeting, 0, 1);
    events(&mut root, 1, joined);
    let stopped = Duration::from_secs(10);
    root.stalls.sleep(Instant::now() - stopped);
    root.links.away(0, Instant::now() - AWAY_LIMIT);
    assert_eq!(root.give_up_silent(&[0].into(), "no report"), [0u32; 0]);
    assert_eq!(root.links.overdue(Instant::now()), []);
    root.stalls = StallWatch::new(Instant::now());
    let given_up = root.give_up_silent(&[0].into(), "no report");
    assert_eq!(given_up, [0]);
    member.stop();
}

#[test]
fn tells_members_and_tasks_without_token_that_the_survey_has_failed() {
    const COUNT: u32 = 3;
    let (root, meeting) = root(COUNT);
    let address = meeting.addresses[0];
    let others = thread::spawn(move || {
        let failures = [1, 2].map(|rank| join(&meeting, rank, COUNT).unwrap_err());
        assert!(failures.iter().all(|failure| failure.is_printed()), "{failures:?}");
        // A rank of no process does not count.
        let _ = knock(&[address], COUNT);
        knock(&[address], 0)
    });
    root.into_inner().abort("no file", COUNT, LIMIT);
    let answer = others.join().unwrap();
    assert_eq!(answer, Some(KnockAnswer::Failed("no file".into())));
}

#[test]
fn answers_tasks_that_do_not_see_the_meeting_point() {
    let (mut root, meeting) = root(2);
    let address = meeting.addresses[0];
    let task = thread::spawn(move || knock(&[address], 1));
    let knocked = |event| match event {
        Event::Knocked { rank } => Some(rank),
        _ => None,
    };
    assert_eq!(events(&mut root, 1, knocked), [1]);
    assert_eq!(task.join().unwrap(), Some(KnockAnswer::Waits));
    // It joins when it sees the meeting point.
    let member = obedient(&meeting, 1, 2);
    events(&mut root, 1, joined);
    assert_eq!(root.end(LIMIT), []);
    member.join().unwrap();
}
