//! The coordinator and members whose steps the tests choose.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;
use crate::star::link::StarLink;
use crate::star::message::{JoinRequest, frame};
use crate::star::testing::*;
use crate::star::{KnockAnswer, Meeting, Reply, allow_connections, knock, now_ns};

impl<W: Work> Root<W> {
    /// Ends as a killed process does.
    pub(in crate::star) fn kill(&mut self) {
        let listener = Listener::from_socket(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let set = PollSet::new().unwrap();
        let token = token("another one");
        self.listener = SurveyListener::new(listener, token, &set, LISTENER, 1).unwrap();
        self.members.clear();
    }
}

/// A block that is longer than a test.
fn long_block() -> Block {
    Block { number: 0, end_ns: now_ns() + 2 * LIMIT.as_nanos() as u64 }
}

/// A process that joins or returns, and is not ready yet.
fn admitted(root: &mut Observed, meeting: &Meeting, request: JoinRequest) -> Raw {
    let meeting = meeting.clone();
    let member = thread::spawn(move || {
        let mut member = Raw::enter(&meeting, request);
        assert_eq!(member.receive(), Some(Message::Admitted { answered: 0 }));
        member
    });
    while !member.is_finished() {
        assert_eq!(root.poll(Instant::now() + Duration::from_millis(10)).unwrap(), []);
    }
    member.join().unwrap()
}

/// A member may return at any moment of its arrival: by a new connection, in place of the old one.
#[test]
fn lets_process_begin_again_until_it_has_joined() {
    let (mut root, meeting) = root(1);
    for id in 0..3 {
        let request = JoinRequest { id, received: 0, introduction: introduction(0, 1) };
        let mut member = admitted(&mut root, &meeting, request);
        if id == 2 {
            member.send(&Message::Ready);
            assert_eq!(events(&mut root, 1, joined), [0]);
        }
    }
    let request = JoinRequest { id: 3, received: 0, introduction: introduction(0, 1) };
    let refused = Err("rank 0 has joined already, from node0".to_owned());
    assert_eq!(root.register(&request), refused);
}

#[test]
fn member_that_joins_during_block_sends_no_ping() {
    let (mut root, meeting) = root(2);
    let first = obedient(&meeting, 1, 2);
    events(&mut root, 1, joined);
    root.send_blocks(vec![(1, long_block())]);
    let mut late = Raw::join(&mut root, &meeting, 0, 2);
    let until_ns = root.quiet_until_ns;
    assert_eq!(late.receive(), Some(Message::Quiet { until_ns }));
    events(&mut root, 1, reported);
    root.end(Duration::ZERO);
    first.join().unwrap();
}

#[test]
fn member_that_joins_after_the_end_ends() {
    let (mut root, meeting) = root(1);
    assert_eq!(root.end(Duration::ZERO), []);
    let member = obedient(&meeting, 0, 1);
    events(&mut root, 1, joined);
    assert_eq!(root.end(LIMIT), []);
    assert_eq!(member.join().unwrap(), 1);
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

/// One turn sees 512 sockets at most.
#[test]
fn accepts_answers_of_all_members_before_giving_up() {
    const COUNT: u32 = 600;
    allow_connections(COUNT).unwrap();
    let (mut root, _) = root(COUNT);
    for rank in 0..COUNT {
        let request = JoinRequest { id: 1, received: 0, introduction: introduction(rank, COUNT) };
        root.register(&request).unwrap();
        root.ready(rank);
    }
    root.send_checks(0..COUNT);
    let answer =
        frame(&Message::<TestWork>::Reply { serial: 1, reply: Reply::Checked(Vec::new()) });
    for rank in 0..COUNT {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(&answer).unwrap();
        let mut link = StarLink::from_pair(near, &root.set).unwrap();
        link.set_key(u64::from(rank) + 1);
        root.member(rank).link = Some(link);
    }
    assert_eq!(root.give_up_silent(&(0..COUNT).collect(), "no answer"), [0u32; 0]);
}

#[test]
fn gives_up_no_member_after_it_was_stopped() {
    let (mut root, meeting) = root(1);
    let member = stopped(&mut root, &meeting, 0, 1);
    let time = Duration::from_secs(10);
    root.note_absence(0, "a reason".into());
    root.stalls.sleep(Instant::now() - time);
    root.away.get_mut(&0).unwrap().since -= AWAY_LIMIT;
    root.looked -= LOOK;
    assert_eq!(root.give_up_silent(&[0].into(), "no report"), [0u32; 0]);
    assert_eq!(root.events, []);
    root.away.clear();
    root.stalls = StallWatch::new(Instant::now());
    assert_eq!(root.give_up_silent(&[0].into(), "no report"), [0]);
    drop(member);
}

/// Lets the time pass in which members that are away may return.
fn expire(root: &mut Root<TestWork>) {
    for absence in root.away.values_mut() {
        absence.since -= AWAY_LIMIT;
    }
    root.looked -= LOOK;
}

const CLOSED: &str = "it closed its connection: it failed or was killed";
const RESET: &str = "its connection was reset: it was killed, or the network failed";

#[test]
fn gives_up_member_that_does_not_return() {
    let (mut root, meeting) = root(2);
    let other = obedient(&meeting, 1, 2);
    events(&mut root, 1, joined);
    let member = Raw::join(&mut root, &meeting, 0, 2);
    root.send_blocks(vec![(0, block(0)), (1, block(0))]);
    let request = member.reset();
    assert_eq!(events(&mut root, 1, reported), [(0, 1)]);
    // It may return, and report.
    let given_up = root.give_up_silent(&[0].into(), "no report");
    assert!(given_up.is_empty(), "{given_up:?}");
    expire(&mut root);
    assert_eq!(events(&mut root, 1, lost), [(0, RESET.into())]);
    // It has returned too late.
    let late = thread::spawn(move || Raw::enter(&meeting, request).receive());
    let turned_away = |event| match event {
        Event::TurnedAway { reason, .. } => Some(reason),
        _ => None,
    };
    let reason = "the survey has given up rank 0".to_owned();
    assert_eq!(events(&mut root, 1, turned_away), [&*reason]);
    assert_eq!(late.join().unwrap(), Some(Message::Refused(reason)));
    assert_eq!(root.end(LIMIT), []);
    other.join().unwrap();
}

#[test]
fn gives_up_member_that_returns_and_is_never_ready() {
    let (mut root, meeting) = root(1);
    let request = Raw::join(&mut root, &meeting, 0, 1).reset();
    let member = admitted(&mut root, &meeting, request);
    expire(&mut root);
    assert_eq!(events(&mut root, 1, lost), [(0, RESET.into())]);
    drop(member);
}

/// A coordinator that was stalled reads a request whose process has tried again meanwhile.
#[test]
fn member_that_closes_before_it_is_ready_may_return() {
    let (mut root, meeting) = root(1);
    let request = Raw::join(&mut root, &meeting, 0, 1).reset();
    drop(admitted(&mut root, &meeting, request.clone()));
    while root.members[0].link.is_some() {
        assert_eq!(root.poll(Instant::now() + Duration::from_millis(10)).unwrap(), []);
    }
    let mut member = admitted(&mut root, &meeting, request.clone());
    member.send(&Message::Ready);
    root.send_checks([0]);
    member.send(&Message::Reply { serial: 1, reply: Reply::Checked(vec![7]) });
    let checked = Event::Checked { rank: 0, document: vec![7] };
    assert_eq!(events(&mut root, 1, Some), [checked]);
    // A member that is ready and closes its connection has ended.
    let order = member.receive();
    assert!(matches!(order, Some(Message::Order { serial: 1, .. })), "{order:?}");
    drop(member);
    assert_eq!(events(&mut root, 1, lost), [(0, CLOSED.into())]);
}

#[test]
fn tells_members_and_tasks_without_token_that_the_survey_has_failed() {
    const COUNT: u32 = 3;
    let (root, meeting) = root(COUNT);
    let address = meeting.addresses[0];
    let others = thread::spawn(move || {
        let failures = [1, 2].map(|rank| join::<TestWork>(&meeting, rank, COUNT).unwrap_err());
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
