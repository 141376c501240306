//! Processes of a survey as threads, over TCP on this host.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::*;
use crate::session::listener::{Listener, Reach};
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
