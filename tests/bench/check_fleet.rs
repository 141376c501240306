//! `cargo bench --bench check_fleet`: the checks of 512 nodes (`CXIDIAG_BENCH_PROCESSES`) with four
//! NICs each, sent by the tasks of a job step over TCP of this host, and made one result.
//!
//! All members are threads of this process, so one host does the work of all. Each sends the
//! document of a real check of four software NICs.

use std::env;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use check::document::Check;
use check::fleet_document::FleetCheck;
use crew::introduction::Introduction;
use crew::star::{Event, Meeting, Member, NoWork, Order, Root};
use facts::net::{Listener, Reach};
use facts::token::Token;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

fn main() {
    let size = env::var("CXIDIAG_BENCH_PROCESSES");
    let size: u32 = size.map_or(512, |size| size.parse().expect("a number"));
    let began = Instant::now();
    let document = document();
    let (bytes, took) = (document.len(), began.elapsed());
    println!("one check took {took:.2?}, and its document has {bytes} bytes");
    let token = Token::new("a token of the benchmark".as_ref()).expect("a text");
    let listener = Listener::bind(None, 0, Reach::ThisMachine).expect("a port");
    let mut root = Root::<NoWork>::listen(listener, token.clone(), size).expect("a coordinator");
    let meeting = Meeting { addresses: vec![([127, 0, 0, 1], root.port()).into()], token };
    let began = Instant::now();
    thread::scope(|scope| {
        for rank in 0..size {
            let (meeting, document) = (&meeting, document.clone());
            let body = move || take_part(meeting, rank, size, document);
            let thread = thread::Builder::new().stack_size(1 << 16);
            thread.spawn_scoped(scope, body).expect("a thread");
        }
        let mut documents = Vec::new();
        while documents.len() < size as usize {
            for event in root.poll(Instant::now() + LIMIT).expect("events") {
                match event {
                    Event::Joined(introduction) => root.send_checks([introduction.rank]),
                    Event::Checked { rank, document } => documents.push((rank, document)),
                    Event::Lost { rank, reason } => panic!("lost rank {rank}: {reason}"),
                    _ => {}
                }
            }
        }
        println!("{size} checks have arrived after {:.2?}", began.elapsed());
        let merging = Instant::now();
        let answer = |(rank, document): (u32, Vec<u8>)| {
            let check = Check::read(&document).map_err(|failure| failure.message());
            (format!("nid{rank:06}"), check)
        };
        let answers = documents.into_iter().map(answer).collect();
        let check = FleetCheck::new(SystemTime::now(), began.elapsed(), answers);
        println!("merged in {:.2?}: {}", merging.elapsed(), check.summary);
        root.end(LIMIT);
    });
}

/// The document of a check of four NICs.
fn document() -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cxidiag"));
    command.args(["check", "soft0", "soft1", "soft2", "soft3", "--quick", "--local", "--json"]);
    let output = command.output().expect("cxidiag starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // As it is sent: without white space.
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    document.to_string().into_bytes()
}

/// One member, from joining to its end.
fn take_part(meeting: &Meeting, rank: u32, size: u32, document: Vec<u8>) {
    let introduction = Introduction {
        rank,
        size,
        host: format!("nid{rank:06}"),
        topology: None,
        nics: Vec::new(),
    };
    let mut member = Member::<NoWork>::join(meeting, introduction, LIMIT).expect("a coordinator");
    assert_eq!(member.next_order().expect("an order"), Order::Check);
    member.send_check(document);
    while member.next_order().expect("an order") != Order::End {}
    member.end();
}
