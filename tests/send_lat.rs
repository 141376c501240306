//! `send-lat`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, both sides fail unless the bytes of the peer arrived.

mod harness;

use harness::{Fabric, assert_has_form_of, assert_success, finish, seed};

#[test]
fn prints_the_example_of_the_document() {
    let [client, server] = Fabric::new().pair("send-lat", "");
    // The document's command has a range that its output does not show (tools.md 10).
    assert_has_form_of(&client, &seed("cxi_send_lat 192.168.1.1 -s 1:1024"));
    assert_has_form_of(&server, &seed("cxi_send_lat"));
}

#[test]
fn measures_with_each_kind_of_command() {
    let fabric = Fabric::new();
    for (options, sizes) in [
        ("", &["1:1024", "192", "193", "65537"][..]),
        ("--no-ll", &["1:1024"]),
        ("--no-idc", &["1:1024", "65537"]),
        ("--rdzv", &["1:1024", "65537"]),
        ("-R --no-ll", &["1:1024"]),
    ] {
        for size in sizes {
            fabric.loopback(
                "send-lat",
                &format!("{options} -n 3 --latency-gap 0 -s {size}"),
            );
        }
    }
    fabric.assert_nothing_left();
}

/// Each size ends with a last message of either side, and the next one begins in step: eager by both
/// kinds of command, and rendezvous.
#[test]
fn ends_each_size_of_a_duration_on_both_sides() {
    for options in ["", "--rdzv"] {
        let args = format!("-D 1 --latency-gap 100 -s 128:256 {options}");
        let [client, _] = Fabric::new().pair("send-lat", &args);
        let rows = client.lines().filter(|line| line.starts_with("   "));
        assert_eq!(rows.count(), 3 + 1);
    }
}

/// A NIC may leave the gets of rendezvous messages to software.
#[test]
fn t21_issues_gets_by_software() {
    let fabric = Fabric::new();
    let mut command = fabric.command("send-lat --loopback -d soft0 -R -s 1:65536 -n 5");
    command.env("CXIDIAG_RDZV_GET", "0");
    assert_success(&finish(command));
    fabric.assert_nothing_left();
}

#[test]
fn reports_every_latency() {
    harness::assert_every_latency_is_reported("send-lat");
}

#[test]
fn disables_immediate_data_for_rendezvous() {
    let text = Fabric::new().loopback("send-lat", "-n 1 -R");
    assert!(text.contains("\nIDC              : Disabled\n"));
}

#[test]
fn t14_fails_when_the_peer_is_killed() {
    harness::assert_killed_side_ends_the_other(
        "send-lat",
        &["--latency-gap 0", "--latency-gap 0 -R"],
        "Remote (client)",
    );
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("send-lat", "-n 5");
}
