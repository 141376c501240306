//! `cargo bench`: latency of messages, and bandwidth of lists of messages, writes, reads and atomic
//! operations, on the software NIC.
//!
//! Compare ratios within one run. Each way is measured several times in turn, and its best counts.

use std::process::Command;

/// Label, tool and options.
const LATENCIES: [(&str, &[&str]); 4] = [
    ("8 B, IDC", &["send-lat"]),
    ("8 B, DMA", &["send-lat", "--no-idc"]),
    ("8 B, rendezvous", &["send-lat", "--rdzv"]),
    ("4 KiB", &["send-lat", "-s", "4096"]),
];
const BANDWIDTHS: [(&str, &[&str]); 11] = [
    ("send 64 KiB", &["send-bw"]),
    ("write 64 KiB", &["write-bw"]),
    ("read 64 KiB", &["read-bw"]),
    ("send 64 KiB, intervals of 10 ms", &["send-bw", "--interval=10ms"]),
    ("send 64 KiB, both directions", &["send-bw", "-b"]),
    ("send 64 KiB, rendezvous", &["send-bw", "--rdzv"]),
    ("send 8 B, IDC", &["send-bw", "-s", "8"]),
    ("send 8 B, DMA", &["send-bw", "-s", "8", "--no-idc"]),
    ("write 8 B, IDC", &["write-bw", "-s", "8"]),
    ("read 8 B", &["read-bw", "-s", "8"]),
    ("SUM, IDC", &["atomic-bw"]),
];

const ROUNDS: usize = 5;

/// Runs both sides and reads a column of the last row.
fn figure(options: &[&str], further: &[&str], column: usize) -> f64 {
    let output = Command::new(env!("CARGO_BIN_EXE_cxidiag"))
        .args(options)
        .args(["--loopback", "-d", "soft0"])
        .args(further)
        .output()
        .expect("cxidiag starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().rev().nth(1).unwrap_or_default();
    let figure = row.split_whitespace().nth(column);
    let figure = figure.and_then(|figure| figure.parse().ok());
    figure.unwrap_or_else(|| panic!("{options:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn main() {
    println!("{:<32}{:>12}{:>8}", "latency: best mean of 5", "us", "ratio");
    let mut first = None;
    for (label, options) in LATENCIES {
        let run = || figure(options, &["--latency-gap=0", "-n", "3000"], 4);
        let best = (0..ROUNDS).map(|_| run()).fold(f64::INFINITY, f64::min);
        let ratio = best / *first.get_or_insert(best);
        println!("{label:<32}{best:>12.2}{ratio:>8.2}");
    }
    println!("{:<32}{:>12}{:>8}", "bandwidth: best of 5", "MB/s", "ratio");
    // In turn: the machine may be slower for a while.
    let mut best = [0_f64; BANDWIDTHS.len()];
    for _ in 0..ROUNDS {
        for (best, (_, options)) in best.iter_mut().zip(BANDWIDTHS) {
            *best = best.max(figure(options, &["-n", "200"], 2));
        }
    }
    for (best_of, (label, _)) in best.iter().zip(BANDWIDTHS) {
        println!("{label:<32}{best_of:>12.2}{:>8.2}", best_of / best[0]);
    }
}
