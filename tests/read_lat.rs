//! `read-lat`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, the client fails unless its buffer received the target's
//! bytes; a data check that fails would end these runs with status 1.

mod harness;

use harness::{Fabric, assert_success, masked, seed, stdout, without_platform};

#[test]
fn the_example_of_the_seed() {
    let fabric = Fabric::new();
    let server = fabric.server("read-lat", &["-d", "soft0"]);
    // The document's command says 1:1024, but its output comes from this range (tools.md 10).
    let args = ["-d", "soft0", "-D", "1", "-s", "64:1024"];
    let client = fabric.client("read-lat", &server, &args);
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    // One NIC: today's tools mark it, the document's did not (tools.md 10).
    let unmarked = |text: &str| text.replace(" (loopback)\n", "\n");
    assert_eq!(
        unmarked(&masked(&without_platform(&stdout(&client)))),
        masked(&seed("cxi_read_lat 192.168.1.1 -D 1 -s 1:1024"))
    );
    // The document's server shows one result for its five sizes.
    let rule = "-".repeat(72) + "\n";
    let result = format!("{rule}See client for results.\n");
    assert_eq!(
        unmarked(&masked(&without_platform(&stdout(&server)))),
        masked(&seed("cxi_read_lat")).replace(&result, &result.repeat(5))
    );
    fabric.assert_nothing_left();
}

#[test]
fn every_way_of_issuing() {
    let fabric = Fabric::new();
    for options in [
        &[][..],
        &["--no-ll"],
        &["--unrestricted"],
        &["--unrestricted", "--no-ll"],
    ] {
        for size in ["1:4096", "7", "4095", "65537"] {
            let args = [
                &["read-lat", "--loopback", "-d", "soft0", "-n", "3"],
                options,
                &["--latency-gap", "0", "-s", size],
            ];
            assert_success(&fabric.run(&args.concat()));
        }
    }
    fabric.assert_nothing_left();
}

#[test]
fn every_latency_is_reported() {
    harness::assert_every_latency_is_reported("read-lat");
}

/// Reads have no immediate data: no such option, no such line.
#[test]
fn there_is_no_idc() {
    let fabric = Fabric::new();
    let refused = fabric.run(&["read-lat", "--loopback", "-d", "soft0", "--no-idc"]);
    assert_eq!(refused.status.code(), Some(2));
    let output = fabric.run(&["read-lat", "--loopback", "-d", "soft0", "-n", "1"]);
    assert_success(&output);
    assert!(!stdout(&output).contains("IDC"));
}

#[test]
fn the_legacy_name_is_the_same_tool() {
    harness::assert_legacy_name_works("read-lat", &["-n", "5"]);
}

/// The two sides must be the same tool.
#[test]
fn another_tool_is_refused() {
    let fabric = Fabric::new();
    let server = fabric.server("read-lat", &["-d", "soft0"]);
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-n", "5"]);
    assert_eq!(client.status.code(), Some(1));
    let said = harness::stderr(&client);
    assert!(said.contains("cxi_read_lat"), "{said}");
    // Its own client comes later.
    let client = fabric.client("read-lat", &server, &["-d", "soft1", "-n", "5"]);
    assert!(client.status.success(), "{client:?}");
    let said = harness::stderr(&server.finish());
    assert!(said.contains("different tools"), "{said}");
}
