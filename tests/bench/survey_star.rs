//! `cargo bench --bench survey_star`: a survey with 10,000 processes (`CXIDIAG_BENCH_PROCESSES`),
//! over TCP of this host.
//!
//! Another process of the system simulates all members in one thread. A member reports a block as
//! soon as it receives it, with results for half of its slots. The times are the times of a single
//! host that does the work of all.

mod status;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use campaign::quiet::answer::Figures;
use campaign::quiet::findings::Test;
use campaign::quiet::roster::{NicId, TestId};
use campaign::timetable::{
    Block, Report, SlotTask, SurveyWork, Task, TaskAnswer, TaskResult, TestSetup,
};
use crew::introduction::{IntroducedNic, Introduction};
use crew::star::{Event, Order, Reply, Root, allow_connections, many_members, now_ns};
use facts::device::FabricAddress;
use facts::net::{Listener, Reach};
use facts::token::{TOKEN_VARIABLE, Token};

use status::status_kib;

const BLOCKS: u32 = 10;
const SLOTS: u32 = 100;

/// The block in which one process of a hundred dies.
const DEATHS: u32 = 5;

const LIMIT: Duration = Duration::from_secs(120);
const END_LIMIT: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<String> = env::args().collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "members", size, port] => simulate(number(size), number(port) as u16),
        _ => {
            let size = env::var("CXIDIAG_BENCH_PROCESSES");
            coordinate(size.map_or(10_000, |size| number(&size)));
        }
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}

/// The members.
fn simulate(size: u32, port: u16) {
    allow_connections(size).expect("open files");
    let token = Token::from_environment().expect("a token");
    let introductions = (0..size).map(|rank| introduction(rank, size));
    let mut uncertainties = Vec::new();
    let joined = |uncertainty_ns| uncertainties.push(uncertainty_ns);
    many_members::take_part::<SurveyWork>(
        ([127, 0, 0, 1], port).into(),
        &token,
        introductions,
        joined,
        |rank, order| match order {
            Order::TestSetup(_) => Some(Reply::Begun),
            Order::Block(block) if block.slots == 0 => None,
            Order::Block(block) => Some(Reply::Report(report(rank, &block))),
            Order::End => Some(Reply::Ended),
            other => panic!("{other:?}"),
        },
    );
    uncertainties.sort();
    let part = |percent: usize| uncertainties[(uncertainties.len() - 1) * percent / 100] / 1000;
    println!(
        "uncertainty of the clocks of members: median {} us, 99 of 100 below {} us, at most {} us",
        part(50),
        part(99),
        part(100)
    );
    println!("memory of the process with all members: {} KiB at most", status_kib("VmHWM"));
}

fn introduction(rank: u32, size: u32) -> Introduction {
    let nic = |index| IntroducedNic {
        device: format!("cxi{index}"),
        address: Some(address(rank)),
        vni: 1358,
        class: "BEST_EFFORT".into(),
        location: None,
        simulated: false,
        link_gbps: None,
        failure: None,
    };
    Introduction { rank, size, host: format!("nid{rank:06}"), topology: None, nics: vec![nic(0)] }
}

fn address(rank: u32) -> FabricAddress {
    FabricAddress { nic: rank, pid: 7 }
}

fn course(rank: u32) -> TestSetup {
    let test = |size_bytes| Test { tool: "write-lat".into(), size_bytes, of_bandwidth: false };
    TestSetup {
        tests: vec![test(8)],
        arguments: vec![vec!["-s".into(), "8".into()]],
        pair_ns: 50_000_000,
        first_nic: NicId(rank),
    }
}

fn block(rank: u32, size: u32, number: u32, slots: u32) -> Block {
    let peer = |slot| NicId((rank + number * SLOTS + slot + 1) % size);
    let task = |slot| {
        let part =
            SlotTask::Measure { test: TestId(0), target: peer(slot), reads_all_counters: false };
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
        p90_ns: Some(2_100),
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
    allow_connections(size).expect("open files");
    let mut root = Root::listen(listener, token.clone(), size).expect("a coordinator");
    let own = status_kib("VmHWM");
    let began = Instant::now();
    let mut child = start(&token, size, root.port());

    let mut joined = 0;
    while joined < size {
        let events = poll(&mut root);
        joined += events.iter().filter(|event| matches!(event, Event::Joined(_))).count() as u32;
    }
    println!("{size} processes have joined after {:.2?}", began.elapsed());

    let victims: BTreeSet<u32> = (0..size).filter(|rank| rank % 100 == 37).collect();
    let mut alive: BTreeSet<u32> = (0..size).collect();
    let began = Instant::now();
    root.send_setups((0..size).map(|rank| (rank, course(rank))).collect());
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
                    Event::Report { rank, .. } => drop(missing.remove(&rank)),
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

    let traffic = root.traffic();
    println!(
        "{} messages sent ({} bytes), {} received ({} bytes)",
        traffic.messages_sent,
        traffic.bytes_sent,
        traffic.messages_received,
        traffic.bytes_received
    );
    println!("memory of the coordinator: {} KiB before, {} KiB at most", own, status_kib("VmHWM"));
    println!("CPU time of the coordinator: {:.2} s", cpu_time());
    child.wait().expect("a process");
}

fn start(token: &Token, size: u32, port: u16) -> Child {
    Command::new(env::current_exe().expect("a program"))
        .arg("members")
        .args([size, port.into()].map(|number| number.to_string()))
        .env(TOKEN_VARIABLE, token.text())
        .spawn()
        .expect("a process")
}

fn poll(root: &mut Root<SurveyWork>) -> Vec<Event<SurveyWork>> {
    let events = root.poll(Instant::now() + LIMIT).expect("no signal");
    assert!(!events.is_empty(), "nothing happens");
    events
}

/// The CPU time of this process, in seconds.
fn cpu_time() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("a state");
    let fields = stat.rsplit(") ").next().map(|rest| rest.split(' ').skip(11).take(2));
    let ticks = fields.into_iter().flatten().filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
