//! Programs of all kinds under `stat`: exact counts of what they sent, and how they ended.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use crate::Place;
use crate::harness::{CXIDIAG, Command, SOFTWARE_NIC, assert_status, finish, stderr, stdout};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libcxi");
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ffi/cxi-sys");

/// Bytes of a packet.
const PACKET: u64 = 2048;

/// Bytes of the large writes of `writer.c`.
const LARGE: u64 = 65_536;

/// Compiles a program in C for libcxi.
fn compile(directory: &Path, name: &str) -> String {
    let program = directory.join(name);
    let source = |name: &str| format!("{SOURCES}/{name}.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-std=gnu11", "-O2", "-pthread"])
        .args([format!("-I{HEADERS}"), format!("-I{SOURCES}")])
        .arg("-o")
        .arg(&program)
        .args([source(name), source("rig")])
        .arg(format!("-L{}", SOFTWARE_NIC.display()))
        .arg("-lcxi");
    assert_status(&finish(compiler), 0);
    program.display().to_string()
}

/// Returns by how much a counter of a NIC has grown, as the table of `--csv` has it.
fn delta(place: &Place, device: &str, counter: &str) -> u64 {
    let table = fs::read_to_string(place.path().join("counters.csv")).expect("a file");
    let wanted = format!(",{device},{counter},");
    let row = table.lines().find(|line| line.contains(&wanted));
    let row = row.unwrap_or_else(|| panic!("{wanted} {table}"));
    let delta = row.split(',').nth(5).expect("a column");
    delta.parse().expect("a number")
}

#[test]
fn counts_exactly_what_a_program_in_c_sends() {
    const WRITES: u64 = 50;
    let writes = WRITES.to_string();
    let place = Place::new();
    let programs = tempfile::tempdir().expect("a directory");
    let writer = compile(programs.path(), "writer");
    let wrapper = SOFTWARE_NIC.join("cxi-softnic").display().to_string();
    let command = [&wrapper, &writer, &writes].map(String::as_str);
    let options = ["stat", "soft0", "soft1", "--csv=counters.csv", "--"];
    let output = finish(place.cxidiag(&[&options[..], &command].concat()));
    let errors = assert_status(&output, 0);
    assert!(stdout(&output).contains("50 writes of 65536 bytes"));
    assert!(
        errors.contains("1 node, 2 NICs (software NICs): "),
        "{errors}"
    );
    let of = |device: &str, counter: &str| delta(&place, device, counter);
    // A packet for each small write, and as many as a large one needs.
    assert_eq!(of("soft0", "hni_tx_ok_opt"), WRITES * (1 + LARGE / PACKET));
    assert_eq!(of("soft1", "hni_rx_ok_opt"), of("soft0", "hni_tx_ok_opt"));
    assert_eq!(of("soft0", "hni_rx_ok_opt"), of("soft1", "hni_tx_ok_opt"));
    assert_eq!(of("soft0", "retry_handler/spt_timeouts"), 0);
}

#[test]
fn counts_what_a_script_has_sent_before_it_dies() {
    let place = Place::new();
    let tool = format!("{CXIDIAG} write-lat --loopback -d soft0 -n 190 --warmup=10 > /dev/null");
    let script = format!("{tool}; kill -9 $$; {tool}");
    let output = finish(place.stat(&["--csv=counters.csv"], &["sh", "-c", &script]));
    assert_eq!(output.status.signal(), Some(9));
    let errors = stderr(&output);
    assert!(errors.contains("ended by signal 9"), "{errors}");
    // A write and its answer each, and what the sides exchange before and after them.
    let sent = delta(&place, "soft0", "hni_tx_ok_opt");
    assert_eq!(delta(&place, "soft0", "hni_rx_ok_opt"), sent);
    let other = Place::new();
    let output = finish(other.stat(&["--csv=counters.csv"], &["sh", "-c", &tool]));
    assert_status(&output, 0);
    assert_eq!(delta(&other, "soft0", "hni_tx_ok_opt"), sent);
}

#[test]
fn counts_nothing_for_a_program_that_sleeps() {
    let place = Place::new();
    let output = finish(place.stat(&["--csv=counters.csv"], &["sleep", "0.1"]));
    let errors = assert_status(&output, 0);
    assert!(errors.ends_with("traffic: nothing was sent\n"), "{errors}");
    for counter in ["hni_tx_ok_opt", "hni_rx_ok_opt", "hni_sts_tx_ok_octets"] {
        assert_eq!(delta(&place, "soft0", counter), 0, "{counter}");
    }
}
