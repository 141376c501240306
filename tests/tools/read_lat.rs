//! `read-lat`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, the client fails unless its buffer received the bytes of the
//! target.

use crate::harness::{
    self, Fabric, assert_has_form_of, assert_status, assert_success, duration, iterations, stderr,
    stdout,
};

#[test]
fn prints_the_example_of_the_document() {
    let fabric = Fabric::new();
    let server = fabric.server("read-lat", "-d soft0");
    // The document's command has 1:1024, but its output is of this range (tools.md 10).
    let client = fabric.client("read-lat", &server, "-d soft0 -n 10 -s 64:1024");
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    // Both sides use one NIC: the current tools mark it, the document's did not (tools.md 10).
    let unmarked = |output| stdout(output).replace(" (loopback)\n", "\n");
    let seed = |command| harness::seed(command).replace(&duration(1.0), &iterations(10));
    let example = seed("cxi_read_lat 192.168.1.1 -D 1 -s 1:1024");
    assert_has_form_of(&unmarked(&client), &example);
    assert_has_form_of(&unmarked(&server), &seed("cxi_read_lat"));
    fabric.assert_nothing_left();
}

#[test]
fn measures_with_each_kind_of_command() {
    let fabric = Fabric::new();
    for options in ["", "--no-ll", "--unrestricted", "--unrestricted --no-ll"] {
        for size in ["1:4096", "65537"] {
            fabric.loopback("read-lat", &format!("{options} -n 3 --latency-gap 0 -s {size}"));
        }
    }
    fabric.loopback("read-lat", "-n 3 --latency-gap 0 -s 7");
    fabric.assert_nothing_left();
}

/// Whether hardware executes unrestricted reads is not known.
#[test]
fn failed_unrestricted_read_names_the_restricted_form() {
    let fabric = Fabric::new();
    for tool in ["read-lat", "read-bw"] {
        for (options, is_named) in [("--unrestricted", true), ("", false)] {
            let mut command = fabric.command(&format!("{tool} --loopback -d soft0 -n 1 {options}"));
            command.env("CXIDIAG_FAULTS", "error=ENTRY_NOT_FOUND@1");
            let error = assert_status(&harness::finish(command), 1);
            assert!(error.contains("ENTRY_NOT_FOUND"), "{error}");
            assert_eq!(error.contains("restricted reads"), is_named, "{error}");
        }
    }
}

#[test]
fn reports_every_latency() {
    harness::assert_every_latency_is_reported("read-lat");
}

#[test]
fn has_no_immediate_data() {
    let fabric = Fabric::new();
    let refused = fabric.run("read-lat --loopback -d soft0 --no-idc");
    assert_status(&refused, 2);
    assert!(!fabric.loopback("read-lat", "-n 1").contains("IDC"));
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("read-lat", "-n 5");
}

#[test]
fn refuses_a_client_of_another_tool_and_serves_the_next() {
    let fabric = Fabric::new();
    let server = fabric.server("read-lat", "-d soft0");
    let client = fabric.client("write-lat", &server, "-d soft1 -n 5");
    let error = assert_status(&client, 1);
    assert!(error.contains("cxi_read_lat"), "{error}");
    assert_success(&fabric.client("read-lat", &server, "-d soft1 -n 5"));
    let error = stderr(&server.finish());
    assert!(error.contains("different tools"), "{error}");
}
