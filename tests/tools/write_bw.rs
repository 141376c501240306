//! `write-bw`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, each target fails unless every byte of every list is the one
//! that belongs there.

use std::fs;
use std::io::{BufRead, BufReader};

use crate::harness::{
    self, Fabric, assert_both_sides_have_form_of, assert_status, assert_success, duration,
    measures_bandwidth, rows, tools,
};

/// tools.md 9
const CLIENT: &str = "\
---------------------------------------------------
    CXI RDMA Write Bandwidth Test
Device           : cxi0
Service ID       : 1
Client TX Mem    : System
Server RX Mem    : System
Test Type        : Iteration
Iterations       : 4
Write Size       : 65536
List Size        : 256
HRP              : Disabled - Not Applicable
IDC              : Enabled
Restricted       : Enabled
Bidirectional    : Disabled
Max RDMA Buf     : 4294967296 (16777216 used)
RDMA Buf Align   : 64
Hugepages        : Disabled
Local (client)   : NIC 0x13 PID 0 VNI 10
Remote (server)  : NIC 0x12 PID 0
---------------------------------------------------
RDMA Size[B]      Writes  BW[MB/s]  PktRate[Mpkt/s]
       65536        1024  22961.10        11.211475
---------------------------------------------------
";

#[test]
fn prints_summary_and_row() {
    assert_both_sides_have_form_of("write-bw", "-n 4", CLIENT);
}

#[test]
fn prints_sum_of_both_directions_on_both_sides() {
    let texts = Fabric::new().pair("write-bw", "-b -n 10 -s 1024:8192");
    for text in &texts {
        for line in ["Client RX Mem    : System", "Bidirectional    : Enabled"] {
            assert!(text.contains(line), "{text}");
        }
    }
    let [client, server] = texts.each_ref().map(|text| rows(text));
    assert_eq!(client.len(), 4);
    assert_eq!(client, server);
}

#[test]
fn prints_its_settings() {
    let fabric = Fabric::new();
    const NOT: &str = "Disabled - Not Applicable";
    for (options, [hrp, idc, restricted]) in [
        ("-s 8", ["Enabled", "Enabled", "Enabled"]),
        ("-s 2048:4096 --no-idc", ["Enabled", "Disabled", "Enabled"]),
        ("-s 4096", [NOT, "Enabled", "Enabled"]),
        ("-s 8 --no-hrp", ["Disabled", "Enabled", "Enabled"]),
        ("-s 8 --unrestricted", [NOT, "Enabled", "Disabled"]),
        ("--unrestricted --no-hrp", ["Disabled", "Enabled", "Disabled"]),
    ] {
        let text = fabric.loopback("write-bw", &format!("-n 1 -l 1 {options}"));
        let lines = format!(
            "\nHRP              : {hrp}\nIDC              : {idc}\nRestricted       : {restricted}\n"
        );
        assert!(text.contains(&lines), "{options}: {text}");
    }
}

/// Sizes cross the limits of immediate data and of High Rate Puts.
#[test]
fn moves_all_sizes_with_each_kind_of_command_and_list() {
    let fabric = Fabric::new();
    for direction in ["", "-b"] {
        for options in ["", "--no-hrp", "--no-idc", "--unrestricted", "--unrestricted --no-idc"] {
            for sizes in ["-s 1:4096 -l 5", "-s 1:2048 --buf-sz 10000 -l 64"] {
                fabric.loopback("write-bw", &format!("{direction} {options} {sizes} -n 3"));
            }
        }
        for sizes in [
            "-s 192 -l 7",
            "-s 193 -l 9 --unrestricted",
            "-s 224 -l 255",
            "-s 225 -l 7",
            "-s 2049 -l 1",
            "-s 100 --buf-align 4096 -l 9",
            "-s 100 --buf-align 1 -l 9",
            "-s 3000 --buf-sz 3000 --buf-align 4096 -l 3",
        ] {
            fabric.loopback("write-bw", &format!("{direction} {sizes} -n 3"));
        }
    }
    fabric.assert_nothing_left();
}

/// 256-byte commands fill the queue (T6).
#[test]
fn t6_counts_the_writes_of_all_lists() {
    let fabric = Fabric::new();
    for (list, count) in [("1", "3"), ("63", "189"), ("16382", "49146")] {
        let text = fabric.loopback("write-bw", &format!("-n 3 -s 224 -l {list}"));
        assert_eq!(rows(&text)[0][..2], ["224", count], "{list}");
    }
}

/// Neither side waits for the other: one may be far ahead when the time is up.
#[test]
fn ends_each_size_of_a_bidirectional_duration() {
    let fabric = Fabric::new();
    let text = fabric.loopback("write-bw", "-b -D 0.3 -s 1024:2048");
    assert!(text.contains(&duration(0.3)), "{text}");
    assert_eq!(rows(&text).len(), 2);
    fabric.assert_nothing_left();
}

/// Lists of the run in which the passive side is observed.
const LISTS: usize = 40_000;

/// A passive side waits in a system call: while the client issues lists, its thread sleeps, and is
/// woken by far fewer than one for each hundred lists.
#[test]
fn passive_side_sleeps_while_the_client_measures() {
    let one_sided = |tool: &&str| measures_bandwidth(tool) && *tool != "send-bw";
    for tool in tools().filter(one_sided) {
        let fabric = Fabric::new();
        let mut server = fabric.server(tool, "-d soft0");
        let options = format!("-d soft1 -n {LISTS} -l 1");
        let mut client = fabric.client_command(tool, &server, &options);
        let mut client = client.spawn().expect("cxidiag starts");
        server.wait_for_line(if tool == "atomic-bw" { " AMO" } else { "RDMA Size[B]" });
        let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        while !line().contains("BW[MB/s]") {}
        let mut samples = Vec::new();
        while client.try_wait().is_none() {
            samples.extend(main_thread(server.id()));
            std::thread::yield_now();
        }
        assert_success(&client.finish());
        let server = server.finish();
        assert_success(&server);
        // It runs before the first and after the last list.
        let asleep = samples.iter().filter(|sample| sample.sleeps).count();
        assert!(2 * asleep > samples.len(), "{tool}: {asleep} of {}", samples.len());
        let [first, last] = [samples.first(), samples.last()].map(|sample| sample.expect("one"));
        let woken = last.switches - first.switches;
        assert!(woken < LISTS as u64 / 100, "{tool}: {woken}");
    }
}

/// The main thread of a process, as the kernel shows it.
struct Sample {
    sleeps: bool,
    switches: u64,
}

/// A sample of a process that has not ended.
fn main_thread(process: u32) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{process}/task/{process}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    Some(Sample {
        sleeps: field("State:")?.trim().starts_with('S'),
        switches: field("voluntary_ctxt_switches:")?.trim().parse().ok()?,
    })
}

#[test]
fn rejects_options_of_other_tools_and_invalid_lists() {
    let fabric = Fabric::new();
    for (options, words) in [
        ("-l 0", ["--list-size", "16382"]),
        ("--buf-sz 65535", ["--buf-sz", "65536"]),
        ("--rdzv", ["--rdzv", "is for send-lat, send-bw"]),
        ("--no-ll", ["--no-ll", "is for latency tools"]),
    ] {
        let error = assert_status(&fabric.run(&format!("write-bw h {options}")), 2);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert!(!fabric.path().exists());
}

#[test]
fn t14_fails_when_the_peer_is_killed() {
    harness::assert_killed_side_ends_the_other("write-bw", &["", "-b"], "RDMA Size[B]");
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("write-bw", "-n 5");
}

/// The client of one run may end before the server: the next one is not turned away.
#[test]
fn persistent_server_serves_clients_that_follow_one_another() {
    let fabric = Fabric::new();
    let server = fabric.server("write-bw", "-d soft0 --persist");
    for _ in 0..6 {
        assert_success(&fabric.client("write-bw", &server, "-d soft1 -n 5 --quiet"));
    }
}
