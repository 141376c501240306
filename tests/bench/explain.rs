//! `cargo bench --bench explain`: rate at which `explain` reads logs, and its largest memory. A log
//! of 2 GB takes 2000 MB divided by the rate.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes of each log.
const LENGTH: usize = 512 << 20;

/// Label and line; `#` becomes another number in each line.
const LOGS: [(&str, &str); 4] = [
    ("output of a program", "step #: residual 1.25e-7, time 3.1 s, energy -17.2451\n"),
    ("lines that look like errors", "#: warning: solver failed to converge, error norm 1e-3\n"),
    (
        "messages of libfabric",
        "#: libfabric:7:1700000000::cxi:ep_data:cxip_send():719<warn> nid00#: TXC (0x#:0): Request \
         dest_addr: 1 caddr.nic: 0X9 caddr.pid: 0 error: 0x1 (err: 113, UNDELIVERABLE)\n",
    ),
    (
        "messages of MPI",
        "#: MPIDI_OFI_handle_cq_error(1): OFI poll failed (ofi_events.c:1:f:Input/output error - \
         PTLTE_NOT_FOUND)\n",
    ),
];

/// Lines of different numbers.
const DIFFERENT: usize = 4096;

fn main() {
    println!("{:<32}{:>12}{:>16}", "log of 512 MiB", "MB/s", "memory in MiB");
    for (label, line) in LOGS {
        let text: String = (0..DIFFERENT).map(|at| line.replace('#', &at.to_string())).collect();
        let begun = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_cxidiag"))
            .args(["explain", "-q", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("cxidiag starts");
        let mut input = child.stdin.take().expect("a pipe");
        let mut written = 0;
        while written < LENGTH {
            input.write_all(text.as_bytes()).expect("explain reads its input");
            written += text.len();
        }
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        drop(input);
        child.wait().expect("explain ends");
        let rate = written as f64 / 1e6 / begun.elapsed().as_secs_f64();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
        println!("{label:<32}{rate:>12.0}{:>16.1}", peak.unwrap_or(f64::NAN) / 1024.0);
    }
}
