//! `cargo bench`: what the latency tools report in addition to the known latency of a software
//! link.
//!
//! A write, read or atomic crosses the link twice, half a round trip of `send-lat` and a hop of
//! `trig-lat` once; jitter delays each packet by half of it on average. Of several runs in turn,
//! the one with the lowest mean counts: other programs only make latencies longer.

use std::process::Command;

use serde_json::Value;

/// A latency tool, and how often its latency crosses the link.
const TOOLS: [(&str, f64); 5] = [
    ("write-lat", 2.0),
    ("read-lat", 2.0),
    ("atomic-lat", 2.0),
    ("send-lat", 1.0),
    ("trig-lat", 1.0),
];

/// Latency and jitter of a link, in nanoseconds.
const LINKS: [(u32, u32); 5] = [(0, 0), (1_000, 0), (2_000, 0), (5_000, 0), (2_000, 500)];

const ROUNDS: usize = 5;

/// Mean, median and 90th percentile of a run, and what the tool itself adds, in nanoseconds.
type Run = [f64; 4];

/// Runs both sides of a tool on a link.
fn run(tool: &str, latency: u32, jitter: u32) -> Run {
    let link = format!("latency={latency}ns,jitter={jitter}ns");
    run_on(tool, &[], Some(link).filter(|_| latency + jitter > 0))
}

/// Runs both sides of a tool with these options on this link.
fn run_on(tool: &str, options: &[&str], link: Option<String>) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cxidiag"));
    command
        .args([tool, "--loopback", "--device=soft0", "--latency-gap=0"])
        .args(["--iters=2000", "--warmup=200", "--json", "--quiet"])
        .args(options)
        .env_remove("CXIDIAG_FAULTS")
        .env_remove("CXIDIAG_LINK");
    if let Some(link) = link {
        command.env("CXIDIAG_LINK", link);
    }
    let output = command.output().expect("cxidiag starts");
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{tool}: {}", String::from_utf8_lossy(&output.stderr)));
    [
        "/results/0/latency/mean_ns",
        "/results/0/latency/percentiles/0/value_ns",
        "/results/0/latency/percentiles/1/value_ns",
        "/measurement_error/path/p50_ns",
    ]
    .map(|field| {
        let value = document.pointer(field).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("{tool}: no {field}"))
    })
}

/// The lowest median of several runs of `send-lat` behind this many list entries, for each of which
/// the NIC takes [`MATCH_NS`], in nanoseconds.
fn behind(entries: u32) -> f64 {
    let posted = format!("--posted={entries}");
    let medians = (0..ROUNDS).map(|_| {
        let link = format!("match={MATCH_NS}ns");
        run_on("send-lat", &[&posted, "--iters=200"], Some(link))[1]
    });
    medians.fold(f64::INFINITY, f64::min)
}

/// The time that a NIC takes for a list entry, in nanoseconds.
const MATCH_NS: u32 = 100;

fn main() {
    let entry_ns = (behind(1500) - behind(500)) / 1000.0;
    println!("list entry: {entry_ns:.1} ns, known: {MATCH_NS} ns");
    let mut best = [[None::<Run>; LINKS.len()]; TOOLS.len()];
    for _ in 0..ROUNDS {
        for (best, (tool, _)) in best.iter_mut().zip(TOOLS) {
            for (best, (latency, jitter)) in best.iter_mut().zip(LINKS) {
                let run = run(tool, latency, jitter);
                if best.is_none_or(|best| run[0] < best[0]) {
                    *best = Some(run);
                }
            }
        }
    }
    println!("best of {ROUNDS}, in ns; offset: median minus known latency");
    println!(
        "{:<12}{:>8}{:>8}{:>8}{:>8}{:>8}{:>13}{:>8}{:>13}",
        "tool",
        "link",
        "jitter",
        "known",
        "median",
        "offset",
        "mean offset",
        "spread",
        "tool itself"
    );
    for ((tool, crossings), best) in TOOLS.into_iter().zip(best) {
        for ((latency, jitter), run) in LINKS.into_iter().zip(best) {
            let [mean, median, p90, own] = run.unwrap_or_default();
            let known = crossings * (f64::from(latency) + f64::from(jitter) / 2.0);
            println!(
                "{tool:<12}{latency:>8}{jitter:>8}{known:>8.0}{median:>8.0}{:>8.0}{:>13.0}{:>8.0}{own:>13.0}",
                median - known,
                mean - known,
                p90 - median,
            );
        }
    }
}
