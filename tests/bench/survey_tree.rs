//! `cargo bench --bench survey_tree`: the tree of a survey with 10,000 processes
//! (`CXIDIAG_BENCH_PROCESSES`), over TCP of this host.
//!
//! The processes are simulated: each has its two threads, its listening socket and its connections,
//! but 2,000 of them share one process of the system, and all share its CPUs and its network. A
//! member reports a block as soon as it receives it, with results for half of its slots. The times
//! are the times of a single host that does the work of all.

mod status;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use cluster::survey::answer::Figures;
use cluster::survey::findings::Test;
use cluster::survey::ids::{NicId, TestId};
use cluster::timetable::{
    Block, Course, Introduction, NicFacts, Part, Report, Task, TaskAnswer, TaskResult,
};
use cluster::tree::{Bounds, Event, Meeting, Member, Order, Root, now_ns};
use facts::device::FabricAddress;
use facts::net::listener::{Listener, Reach};
use facts::token::{TOKEN_VARIABLE, Token};

use status::status_kib;

/// Processes that share one process of the system: below its limit of file descriptors.
const SHARED_BY: u32 = 2000;

const BLOCKS: u32 = 10;
const SLOTS: u32 = 100;

/// The block in which one process of a hundred dies.
const DEATHS: u32 = 5;

const LIMIT: Duration = Duration::from_secs(120);
const END_LIMIT: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "members", first, end, size, port] => {
            let [first, end, size, port] = [first, end, size, port].map(number);
            simulate(first, end, size, port as u16);
        }
        _ => {
            let size = env::var("CXIDIAG_BENCH_PROCESSES");
            coordinate(size.map_or(10_000, |size| number(&size)));
        }
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}

/// The members of one process of the system.
fn simulate(first: u32, end: u32, size: u32, port: u16) {
    let token = Token::from_environment().expect("a token");
    let meeting = Meeting {
        addresses: vec![([127, 0, 0, 1], port).into()],
        token,
        bounds: Bounds::default(),
    };
    thread::scope(|scope| {
        for rank in first..end {
            let meeting = &meeting;
            let thread = thread::Builder::new().stack_size(1 << 16);
            thread.spawn_scoped(scope, move || take_part(meeting, rank, size)).expect("a thread");
        }
    });
    println!("{}", status_kib("VmHWM"));
}

/// One member, from joining to its end or death.
fn take_part(meeting: &Meeting, rank: u32, size: u32) {
    let joined = Member::join(meeting, introduction(rank, size), LIMIT);
    let member = joined.unwrap_or_else(|failure| panic!("rank {rank}: {failure}"));
    loop {
        match member.next() {
            Ok(Order::Course(_) | Order::Check | Order::CopyMemory) => {}
            Ok(Order::Block(block)) if block.slots == 0 => return,
            Ok(Order::Block(block)) => member.report(report(rank, &block)).expect("a tree"),
            Ok(Order::End) => return member.end(),
            Err(failure) => {
                eprintln!("rank {rank}: {failure}");
                return;
            }
        }
    }
}

fn introduction(rank: u32, size: u32) -> Introduction {
    let nic = |index| NicFacts {
        device: format!("cxi{index}"),
        address: Some(address(rank)),
        vni: 1358,
        class: "BEST_EFFORT".into(),
        location: None,
        simulated: false,
        failure: None,
    };
    Introduction { rank, size, host: format!("nid{rank:06}"), topology: None, nics: vec![nic(0)] }
}

fn address(rank: u32) -> FabricAddress {
    FabricAddress { nic: rank, pid: 7 }
}

fn course(rank: u32) -> Course {
    let test = |size_bytes| Test { tool: "write-lat".into(), size_bytes, of_bandwidth: false };
    Course {
        tests: vec![test(8)],
        arguments: vec![vec!["-s".into(), "8".into()]],
        pair_ns: 50_000_000,
        first_nic: NicId(rank),
    }
}

fn block(rank: u32, size: u32, number: u32, slots: u32) -> Block {
    let peer = |slot| NicId((rank + number * SLOTS + slot + 1) % size);
    let task = |slot| {
        let part = Part::Measure { test: TestId(0), target: peer(slot), reads_all_counters: false };
        Task { slot, nic: NicId(rank), part }
    };
    Block {
        number,
        begins_ns: now_ns(),
        slot_ns: 0,
        slots,
        window_bytes: None,
        tasks: (0..slots).map(task).collect(),
        addresses: (0..slots).map(|slot| (peer(slot), address(peer(slot).0))).collect(),
    }
}

fn report(rank: u32, block: &Block) -> Report {
    let figures = Figures::Latency {
        count: 12_345,
        min_ns: 1_800,
        p5_ns: None,
        median_ns: 1_900,
        p99_ns: Some(2_200),
        max_ns: 9_000,
    };
    let result = |task: &Task| TaskResult::new(task.slot, task.nic, TaskAnswer::Figures(figures));
    Report {
        block: block.number,
        rank,
        results: block.tasks.iter().step_by(2).map(result).collect(),
        addresses: vec![Ok(address(rank))],
        beyond_ns: 8_000_000,
        clock_uncertainty_ns: None,
        load: None,
    }
}

/// The coordinator, which this process runs.
fn coordinate(size: u32) {
    let token = Token::new("a token of the benchmark".as_ref()).expect("a text");
    let listener = Listener::bind(None, 0, Reach::ThisMachine).expect("a port");
    let mut root = Root::listen(listener, token.clone(), size).expect("a coordinator");
    let own = status_kib("VmHWM");
    let began = Instant::now();
    let mut children: Vec<Child> = (0..size)
        .step_by(SHARED_BY as usize)
        .map(|first| start(&token, first, size, root.port()))
        .collect();

    let mut joined = Vec::new();
    while joined.len() < size as usize {
        for event in poll(&mut root) {
            if let Event::Joined(introduction) = event {
                joined.push(introduction.rank);
            }
        }
    }
    println!("{size} processes have joined after {:.2?}", began.elapsed());

    // Children of the coordinator, their children, and leaves, by the order in which they have
    // come.
    let dead = |place: &usize| place % 100 == 37 || [3, 17].contains(place);
    let victims: BTreeSet<u32> =
        (0..joined.len()).filter(dead).map(|place| joined[place]).collect();
    let mut alive: BTreeSet<u32> = (0..size).collect();
    let began = Instant::now();
    root.send_courses((0..size).map(|rank| (rank, course(rank))).collect());
    println!("courses were sent in {:.2?}", began.elapsed());
    for number in 0..BLOCKS {
        let began = Instant::now();
        let dies = |rank| number == DEATHS && victims.contains(&rank);
        let slots = |rank| if dies(rank) { 0 } else { SLOTS };
        let blocks = alive.iter().map(|&rank| (rank, block(rank, size, number, slots(rank))));
        root.send_blocks(blocks.collect());
        let sent = began.elapsed();
        let mut missing = alive.clone();
        let mut last_loss = None;
        while !missing.is_empty() {
            for event in poll(&mut root) {
                match event {
                    Event::Report(report) => drop(missing.remove(&report.rank)),
                    Event::Lost { rank, reason } => {
                        assert!(dies(rank), "lost rank {rank}: {reason}");
                        missing.remove(&rank);
                        alive.remove(&rank);
                        last_loss = Some(began.elapsed());
                    }
                    // An attempt to connect that this busy host has not answered in time.
                    Event::TurnedAway { .. }
                    | Event::Knocked { .. }
                    | Event::Begun { .. }
                    | Event::Checked { .. }
                    | Event::CopiedMemory { .. } => {}
                    Event::Joined(introduction) => panic!("{introduction:?}"),
                }
            }
        }
        let losses = last_loss.map_or(String::new(), |last| {
            format!(", {} losses known after {last:.2?}", victims.len())
        });
        let back = began.elapsed();
        println!("block {number}: sent in {sent:.2?}, all reports after {back:.2?}{losses}");
    }
    let began = Instant::now();
    let missing = root.end(END_LIMIT);
    let count = missing.len();
    println!("ended in {:.2?}, without an answer: {count}", began.elapsed());

    println!(
        "\nlevel  processes  messages sent  received  bytes sent  received  (most of a process)"
    );
    for level in root.traffic() {
        println!(
            "{:>5}{:>11}{:>15}{:>10}{:>12}{:>10}",
            level.level,
            level.processes,
            level.most.messages_sent,
            level.most.messages_received,
            level.most.bytes_sent,
            level.most.bytes_received
        );
    }
    println!("memory of the coordinator: {} KiB before, {} KiB at most", own, status_kib("VmHWM"));
    println!("CPU time of the coordinator: {:.2} s", cpu_time());
    println!("memory of {SHARED_BY} processes, KiB at most:");
    for child in &mut children {
        child.wait().expect("a process");
    }
}

fn start(token: &Token, first: u32, size: u32, port: u16) -> Child {
    let end = size.min(first + SHARED_BY);
    Command::new(env::current_exe().expect("a program"))
        .arg("members")
        .args([first, end, size, port.into()].map(|number| number.to_string()))
        .env(TOKEN_VARIABLE, token.text())
        .spawn()
        .expect("a process")
}

fn poll(root: &mut Root) -> Vec<Event> {
    let events = root.poll(Instant::now() + LIMIT).expect("no signal");
    assert!(!events.is_empty(), "nothing happens");
    events
}

/// Returns the CPU time of this process, in seconds.
fn cpu_time() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("a state");
    let fields = stat.rsplit(") ").next().map(|rest| rest.split(' ').skip(11).take(2));
    let ticks = fields.into_iter().flatten().filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
