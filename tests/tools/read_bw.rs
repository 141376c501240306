//! `read-bw`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, each initiator fails unless every byte of every list is the
//! one that belongs there.

use crate::harness::{self, Fabric, assert_both_sides_have_form_of, assert_status, duration, rows};

/// tools.md 9
const CLIENT: &str = "\
---------------------------------------------------
    CXI RDMA Read Bandwidth Test
Device           : cxi0
Service ID       : 1
Client TX Mem    : System
Server RX Mem    : System
Test Type        : Iteration
Iterations       : 4
Min Read Size    : 4096
Max Read Size    : 8192
List Size        : 256
Restricted       : Enabled
Bidirectional    : Disabled
Max RDMA Buf     : 4294967296 (2097152 used)
RDMA Buf Align   : 64
Hugepages        : Disabled
Local (client)   : NIC 0x13 PID 0 VNI 10
Remote (server)  : NIC 0x12 PID 0
---------------------------------------------------
RDMA Size[B]       Reads  BW[MB/s]  PktRate[Mpkt/s]
        4096        1024  22961.10        11.211475
        8192        1024  22961.10        11.211475
---------------------------------------------------
";

#[test]
fn prints_summary_and_rows() {
    assert_both_sides_have_form_of("read-bw", "-n 4 -s 4096:8192", CLIENT);
}

#[test]
fn prints_sum_of_both_directions_on_both_sides() {
    let texts = Fabric::new().pair("read-bw", "-b -n 10 -s 1024:8192");
    let [client, server] = texts.each_ref().map(|text| rows(text));
    assert_eq!(client.len(), 4);
    assert_eq!(client, server);
}

#[test]
fn t4_moves_all_sizes_with_each_kind_of_command_and_list() {
    let fabric = Fabric::new();
    for direction in ["", "-b"] {
        for options in ["", "--unrestricted"] {
            for sizes in [
                "-s 1:4096 -l 5",
                "-s 1:2048 --buf-sz 10000 -l 64",
                "-s 65537 -l 3",
                "-s 100 --buf-align 4096 -l 9",
                "-s 100 --buf-align 1 -l 9",
                "-s 3000 --buf-sz 3000 --buf-align 4096 -l 3",
            ] {
                fabric.loopback("read-bw", &format!("{direction} {options} {sizes} -n 3"));
            }
        }
    }
    let text = fabric.loopback("read-bw", "-n 1 -l 1 --unrestricted");
    assert!(text.contains("\nRestricted       : Disabled\n"), "{text}");
    fabric.assert_nothing_left();
}

#[test]
fn counts_the_reads_of_all_lists() {
    let fabric = Fabric::new();
    for (list, count) in [("1", "3"), ("255", "765"), ("16382", "49146")] {
        let text = fabric.loopback("read-bw", &format!("-n 3 -s 8 -l {list}"));
        assert_eq!(rows(&text)[0][..2], ["8", count], "{list}");
    }
}

#[test]
fn ends_each_size_of_a_bidirectional_duration() {
    let fabric = Fabric::new();
    let text = fabric.loopback("read-bw", "-b -D 0.3 -s 1024:2048");
    assert!(text.contains(&duration(0.3)), "{text}");
    assert_eq!(rows(&text).len(), 2);
    fabric.assert_nothing_left();
}

#[test]
fn has_neither_immediate_data_nor_high_rate_puts() {
    let fabric = Fabric::new();
    for option in ["--no-idc", "--no-hrp"] {
        assert_status(&fabric.run(&format!("read-bw --loopback -d soft0 {option}")), 2);
    }
    let text = fabric.loopback("read-bw", "-n 1");
    assert!(!text.contains("IDC") && !text.contains("HRP"), "{text}");
}

#[test]
fn t14_fails_when_the_peer_is_killed() {
    harness::assert_killed_side_ends_the_other("read-bw", &["", "-b"], "RDMA Size[B]");
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("read-bw", "-n 5");
}
