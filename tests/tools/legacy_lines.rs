//! Under legacy names, standard output has the lines of the legacy tools and no others, so that
//! scripts find in it what they search for, also on a busy machine and after a failure.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{hint, thread};

use tempfile::TempDir;

use crate::harness::paused::Side;
use crate::harness::{CXIDIAG, Fabric, Server, assert_status, finish, rows, stdout};

/// Beginnings of the lines before the table (tools.md 9.1, node-tools.md 4.3), without those that
/// the user's documents lack; `Platform` is the line of a software NIC.
const SUMMARY: &str = "Device|Service ID|Client TX Mem|Client RX Mem|Server TX Mem|Server RX Mem|\
    TX Mem|RX Mem|Test Type|Duration|Iterations|Warmup Iters|Inter-Iter Gap|Atomic Op|Atomic Type|\
    Write Size|Read Size|Send Size|Min Write Size|Max Write Size|Min Read Size|Max Read Size|\
    Min Send Size|Max Send Size|Write Size (B)|Cmds per iter|List Size|HRP|IDC|Matching LEs|\
    Restricted|LL Cmd Launch|Bidirectional|Results Reported|Max RDMA Buf|RDMA Buf Align|\
    Hugepages|Local (client)|Local (server)|Remote (client)|Remote (server)|Platform";

/// Titles of the tables (tools.md 9.2 and 10, node-tools.md 4.3).
const TITLES: &str = "RDMA Size[B] Writes Reads Sends Ops Min[us] Max[us] Mean[us] StdDev[us] \
    Bytes AMO Send BW[MB/s] BW[Gb/s] PktRate[Mpkt/s] OpRate[M/s]";

/// Fails if a line is none of the legacy tools. Returns the rows of the table.
#[track_caller]
fn rows_of_legacy_text(text: &str) -> Vec<Vec<&str>> {
    for line in text.lines() {
        let label = line.split_once(": ").map(|(label, _)| label.trim_end());
        let is_known = line.bytes().all(|byte| byte == b'-')
            || line.starts_with("    CXI ") && line.ends_with(" Test")
            || label.is_some_and(|label| SUMMARY.split('|').any(|known| known == label))
            || line.split_whitespace().all(|word| TITLES.split(' ').any(|title| title == word))
            || line.starts_with(' ') && line.split_whitespace().all(is_figure)
            || line == "See client for results."
            || line.starts_with("Listening on port ");
        assert!(is_known, "{line:?} in\n{text}");
    }
    rows(text)
}

/// Whether a word of a row is a figure, or stands for the operations of the other side.
fn is_figure(word: &str) -> bool {
    word == "-" || word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A symlink with this name to the program.
fn link(name: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join(name);
    symlink(CXIDIAG, &path).expect("a symlink");
    (directory, path)
}

/// Keeps all CPUs busy, each with two loops, while `run` runs.
fn beside_busy_loops<T>(run: impl FnOnce() -> T) -> T {
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = End(&is_over);
        for _ in 0..2 * thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let result = run();
        drop(end);
        result
    })
}

/// What a script for the legacy tools searches for: the row of each size, once.
#[test]
fn scripts_find_one_row_for_each_size_on_a_busy_machine() {
    let latency = "-n 5 --warmup=1 -s 8:32";
    let bandwidth = "-n 3 -l 4 -s 8:32";
    let runs = [
        ("cxi_write_lat", latency, &["8", "16", "32"][..]),
        ("cxi_read_lat", "-D 1 -s 8:16 --latency-gap=0", &["8", "16"]),
        ("cxi_send_lat", latency, &["8", "16", "32"]),
        ("cxi_atomic_lat", "-n 5 --latency-gap=0", &["8"]),
        ("cxi_write_bw", bandwidth, &["8", "16", "32"]),
        ("cxi_read_bw", "-D 1 -l 4 -s 4096", &["4096"]),
        ("cxi_send_bw", "-b -n 3 -l 4 -s 8:32", &["8", "16", "32"]),
        ("cxi_atomic_bw", "-n 3 -l 4", &["8"]),
        ("cxi_gpu_loopback_bw", "-D 1 -n 4 -s 524288", &["524288"]),
    ];
    beside_busy_loops(|| {
        for (name, options, sizes) in runs {
            let ((_directory, path), fabric) = (link(name), Fabric::new());
            let mut outputs: Vec<Output> = Vec::new();
            if name == "cxi_gpu_loopback_bw" {
                outputs.push(finish(fabric.command_of(&path, &format!("-d soft0 {options}"))));
            } else {
                let server = Server::start(fabric.command_of(&path, "-d soft0 -p 0"));
                let arguments = format!("127.0.0.1 -p {} -d soft1 {options}", server.port);
                outputs.push(finish(fabric.command_of(&path, &arguments)));
                outputs.push(server.finish());
            }
            for (place, output) in outputs.iter().enumerate() {
                assert_status(output, 0);
                let text = String::from_utf8_lossy(&output.stdout);
                let found: Vec<&str> =
                    rows_of_legacy_text(&text).iter().map(|row| row[0]).collect();
                let is_told = place == 0 || !text.contains("See client for results.");
                assert_eq!(found, if is_told { sizes } else { &[] }, "{name}: {text}");
            }
        }
    });
}

/// Interrupts a run of a legacy tool while it measures. Returns its output.
fn interrupted(name: &str, options: &str) -> Output {
    let ((_directory, path), fabric) = (link(name), Fabric::new());
    let mut command = fabric.command_of(&path, &format!("{options} -D 600 -s 8"));
    command.env("CXIDIAG_NICS", "2");
    let mut run = Side::start(command, Some("measuring"));
    run.wait_for_pause();
    run.go_on();
    run.signal("INT");
    run.finish()
}

/// A legacy tool prints no row of a size that it has not measured to the end.
#[test]
fn runs_that_end_early_have_no_row() {
    for name in ["cxi_write_lat --loopback", "cxi_write_bw --loopback", "cxi_gpu_loopback_bw"] {
        let (name, options) = name.split_once(' ').unwrap_or((name, ""));
        let output = interrupted(name, &format!("{options} -d soft0"));
        let errors = assert_status(&output, 130);
        assert!(errors.contains("\nInterrupted: results are partial\n"), "{errors}");
        assert_eq!(rows_of_legacy_text(&stdout(&output)), [[""; 0]; 0]);
    }
}

/// The table of all NICs says how each ended; a NIC has no text of its own.
#[test]
fn nics_of_a_table_that_ends_early_have_no_text() {
    let output = interrupted("cxi_gpu_loopback_bw", "--all-nics");
    let errors = assert_status(&output, 130);
    assert_eq!(errors, "cxi_gpu_loopback_bw: interrupted by SIGINT\n");
}
