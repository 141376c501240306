//! `cargo bench --bench ucx`: the software NIC beside the shared memory of UCX.
//!
//! `ucx_perftest` (Debian: `ucx-utils`) and cxidiag run in turn. On virtual machines two processors
//! are sometimes near each other and sometimes far, and may move: each pair of runs is bracketed by
//! a ping-pong of one cache line, and counts only if both ping-pongs took about the same time.
//! Without UCX only the figures of the software NIC are printed.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

type Options = &'static str;

/// What both sides measure, in the unit of its label.
struct Row {
    label: &'static str,
    /// Options of `ucx_perftest`, the column of its result, and a factor.
    ucx: (Options, usize, f64),
    /// Options of cxidiag, the column of its result, and a factor.
    ours: (Options, usize, f64),
}

/// Columns of `ucx_perftest`: mean latency, MiB/s, messages per second.
const LATENCY: usize = 2;
const BANDWIDTH: usize = 5;
const RATE: usize = 7;

const MIB_IN_GB: f64 = 1.048_576e-3;
const MB_IN_GB: f64 = 1e-3;

const ROWS: [Row; 5] = [
    Row {
        label: "8 B messages, million/s",
        ucx: ("-t tag_bw -s 8 -n 4000000", RATE, 1e-6),
        ours: ("send-bw -s 8 -D 1", 3, 1.0),
    },
    Row {
        label: "64 KiB messages, GB/s, one buffer",
        ucx: ("-t tag_bw -s 65536 -n 100000", BANDWIDTH, MIB_IN_GB),
        ours: ("send-bw --buf-sz=65536 -D 1", 2, MB_IN_GB),
    },
    Row {
        label: "64 KiB messages, GB/s, 256 buffers",
        ucx: ("-t tag_bw -s 65536 -n 100000", BANDWIDTH, MIB_IN_GB),
        ours: ("send-bw -D 1", 2, MB_IN_GB),
    },
    Row {
        label: "8 B message, us one way",
        ucx: ("-t tag_lat -s 8 -n 1000000", LATENCY, 1.0),
        ours: ("send-lat -s 8 -D 1 --latency-gap=0", 4, 1.0),
    },
    // The tool measures the write and its acknowledgement, UCX half of a write there and one back.
    Row {
        label: "8 B write and answer, us",
        ucx: ("-t ucp_put_lat -s 8 -n 1000000", LATENCY, 2.0),
        ours: ("write-lat -s 8 -D 1 --latency-gap=0", 4, 1.0),
    },
];

const ROUNDS: usize = 5;

/// The figures of one round.
struct Round {
    ours: f64,
    ucx: Option<f64>,
    /// Mean of the two ping-pongs, in nanoseconds.
    line: f64,
}

/// The largest ratio of two ping-pongs around runs that count.
const SAME_PLACEMENT: f64 = 1.3;

/// The round trip of a cache line between two threads, in nanoseconds.
fn ping_pong() -> f64 {
    const TRIPS: u32 = 200_000;
    let turn = AtomicU32::new(0);
    let await_turn = |wanted| while turn.load(Ordering::Acquire) != wanted {};
    let begin = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            for trip in 0..TRIPS {
                await_turn(2 * trip + 1);
                turn.store(2 * trip + 2, Ordering::Release);
            }
        });
        for trip in 0..TRIPS {
            turn.store(2 * trip + 1, Ordering::Release);
            await_turn(2 * trip + 2);
        }
    });
    begin.elapsed().as_nanos() as f64 / f64::from(TRIPS)
}

/// A column of the last row of numbers.
fn column(output: &[u8], column: usize) -> Option<f64> {
    let text = String::from_utf8_lossy(output);
    let is_row = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let row = text.lines().rev().find(is_row)?;
    row.split_whitespace().nth(column)?.parse().ok()
}

/// Runs both sides of `ucx_perftest`.
fn ucx(row: &Row) -> Option<f64> {
    let (options, at, factor) = row.ucx;
    let free_port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free_port.ok()?.port().to_string();
    let command = || {
        let mut command = Command::new("ucx_perftest");
        command
            .args(options.split(' '))
            .args(["-p", &port, "-f"])
            .env("UCX_TLS", "posix,self")
            .stderr(Stdio::null());
        command
    };
    let mut server = command().stdout(Stdio::null()).spawn().ok()?;
    // The server does not report when it listens.
    thread::sleep(Duration::from_millis(300));
    let output = command().arg("127.0.0.1").output();
    let _ = server.kill();
    let _ = server.wait();
    Some(column(&output.ok()?.stdout, at)? * factor)
}

/// Runs both sides of a tool.
fn ours(row: &Row) -> f64 {
    let (options, at, factor) = row.ours;
    let output = Command::new(env!("CARGO_BIN_EXE_cxidiag"))
        .args(options.split(' '))
        .args(["--loopback", "-d", "soft0"])
        .output()
        .expect("cxidiag starts");
    let Some(figure) = column(&output.stdout, at) else {
        panic!("{options}: {}", String::from_utf8_lossy(&output.stderr));
    };
    figure * factor
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let installed = Command::new("ucx_perftest").arg("-h").output().is_ok();
    if !installed {
        println!("ucx_perftest is not installed (package ucx-utils): no ratios");
    }
    println!(
        "{:<42}{:>9}{:>9}{:>8}{:>7}{:>11}",
        "median of rounds", "ours", "UCX", "ratio", "rounds", "line, ns"
    );
    for row in ROWS {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let before = ping_pong();
            let ucx = if installed { ucx(&row) } else { None };
            let ours = ours(&row);
            let after = ping_pong();
            if before.max(after) / before.min(after) <= SAME_PLACEMENT {
                let line = f64::midpoint(before, after);
                rounds.push(Round { ours, ucx, line });
            }
        }
        if rounds.is_empty() {
            println!("{:<42} the processors moved in each round", row.label);
            continue;
        }
        let value = |figure: fn(&Round) -> Option<f64>| {
            let figures: Vec<f64> = rounds.iter().filter_map(figure).collect();
            (!figures.is_empty()).then(|| median(figures))
        };
        let show = |figure: Option<f64>| figure.map_or("-".into(), |figure| format!("{figure:.2}"));
        println!(
            "{:<42}{:>9}{:>9}{:>8}{:>7}{:>11}",
            row.label,
            show(value(|round| Some(round.ours))),
            show(value(|round| round.ucx)),
            show(value(|round| Some(round.ours / round.ucx?))),
            rounds.len(),
            show(value(|round| Some(round.line))),
        );
    }
}
