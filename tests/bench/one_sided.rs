//! `cargo bench`: what one transaction costs on the software NIC, with each way of issuing it.
//!
//! Machines are shared and noisy, so compare ratios within one run. Each way is measured several
//! times in turn, and its best mean counts.

use std::process::Command;

/// Label, tool and options; ratios are to the first.
const WAYS: [(&str, &[&str]); 10] = [
    ("write 8 B, IDC, low latency", &["write-lat"]),
    ("write 8 B, IDC, doorbell", &["write-lat", "--no-ll"]),
    ("write 8 B, DMA", &["write-lat", "--no-idc"]),
    ("write 8 B, DMA, unrestricted", &["write-lat", "--no-idc", "--unrestricted"]),
    ("write 4 KiB", &["write-lat", "-s", "4096"]),
    ("read 8 B", &["read-lat"]),
    ("read 4 KiB", &["read-lat", "-s", "4096"]),
    ("SUM, IDC", &["atomic-lat"]),
    ("fetching SUM, DMA, matching", &["atomic-lat", "--fetching", "--matching"]),
    ("write 1 MiB", &["write-lat", "-s", "1048576", "-n", "500"]),
];

const ROUNDS: usize = 5;

/// Runs both sides and reads the mean latency, in microseconds.
fn mean(options: &[&str]) -> f64 {
    let output = Command::new(env!("CARGO_BIN_EXE_cxidiag"))
        .args(&options[..1])
        .args(["--loopback", "-d", "soft0", "--latency-gap=0"])
        .args(["-n", "20000", "--warmup=200"])
        .args(&options[1..])
        .output()
        .expect("cxidiag starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let row = text.lines().rev().nth(1).unwrap_or_default();
    let mean = row.split_whitespace().nth(4).and_then(|mean| mean.parse().ok());
    mean.unwrap_or_else(|| panic!("{options:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn main() {
    let mut best = [f64::INFINITY; WAYS.len()];
    for _ in 0..ROUNDS {
        for (best, (_, options)) in best.iter_mut().zip(WAYS) {
            *best = best.min(mean(options));
        }
    }
    println!("{:<32}{:>12}{:>8}", "best mean of 5", "us", "ratio");
    for (best_of, (label, _)) in best.iter().zip(WAYS) {
        println!("{label:<32}{best_of:>12.2}{:>8.2}", best_of / best[0]);
    }
}
