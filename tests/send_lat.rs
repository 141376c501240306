//! `send-lat`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, both sides fail unless the bytes of the peer arrived.

mod harness;

use harness::{Fabric, assert_success, finish_or_kill, masked, seed, stdout, without_platform};

#[test]
fn the_example_of_the_seed() {
    let fabric = Fabric::new();
    let server = fabric.server("send-lat", &["-d", "soft0"]);
    let client = fabric.client("send-lat", &server, &["-d", "soft1"]);
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    // The document's command has a range that its output does not show (tools.md 10).
    assert_eq!(
        masked(&without_platform(&stdout(&client))),
        masked(&seed("cxi_send_lat 192.168.1.1 -s 1:1024"))
    );
    assert_eq!(
        masked(&without_platform(&stdout(&server))),
        masked(&seed("cxi_send_lat"))
    );
    fabric.assert_nothing_left();
}

#[test]
fn every_way_of_sending() {
    let fabric = Fabric::new();
    for options in [
        &[][..],
        &["--no-ll"],
        &["--no-idc"],
        &["--rdzv"],
        &["-R", "--no-ll"],
    ] {
        for size in ["1:1024", "192", "193", "65537"] {
            let args = [
                &["send-lat", "--loopback", "-d", "soft0", "-n", "3"],
                options,
                &["--latency-gap", "0", "-s", size],
            ];
            assert_success(&fabric.run(&args.concat()));
        }
    }
    fabric.assert_nothing_left();
}

/// Each size ends by a last message of either side, and the next one begins in step: eager by
/// both kinds of command, and rendezvous.
#[test]
fn durations_end_on_both_sides() {
    let fabric = Fabric::new();
    for options in [&["-s", "128:256"][..], &["-s", "128:256", "--rdzv"]] {
        let server = fabric.server("send-lat", &["-d", "soft0"]);
        let args = [&["-d", "soft1", "-D", "1", "--latency-gap", "100"], options].concat();
        let client = fabric.client_command("send-lat", &server, &args).spawn();
        let client = finish_or_kill(client.expect("cxidiag starts"));
        assert_success(&client);
        assert_success(&server.finish());
        let text = stdout(&client);
        assert_eq!(
            text.lines().filter(|line| line.starts_with("   ")).count(),
            3 + 1
        );
    }
    fabric.assert_nothing_left();
}

/// A NIC that leaves the gets of rendezvous messages to software gets them from there.
#[test]
fn t21_gets_by_software() {
    let fabric = Fabric::new();
    let args = [
        "send-lat",
        "--loopback",
        "-d",
        "soft0",
        "-R",
        "-s",
        "1:65536",
        "-n",
        "5",
    ];
    let mut command = fabric.command(&args);
    let output = command.env("CXIDIAG_RDZV_GET", "0").output();
    assert_success(&output.expect("cxidiag starts"));
    fabric.assert_nothing_left();
}

#[test]
fn every_latency_is_reported() {
    harness::assert_every_latency_is_reported("send-lat");
}

#[test]
fn a_rendezvous_run_has_no_immediate_data() {
    let fabric = Fabric::new();
    let args = ["send-lat", "--loopback", "-d", "soft0", "-n", "1", "-R"];
    let output = fabric.run(&args);
    assert_success(&output);
    assert!(stdout(&output).contains("\nIDC              : Disabled\n"));
}

/// A long run to be killed in the middle of.
const LONG: [&str; 6] = ["-d", "soft1", "-D", "600", "--latency-gap", "0"];

#[test]
fn t14_a_killed_side_ends_the_other() {
    let fabric = Fabric::new();
    for rdzv in [&[][..], &["-R"]] {
        for kill_server in [true, false] {
            let mut server = fabric.server("send-lat", &["-d", "soft0"]);
            let args = [&LONG[..], rdzv].concat();
            let mut client = fabric
                .client_command("send-lat", &server, &args)
                .spawn()
                .expect("cxidiag starts");
            while !server.next_line().starts_with("Remote (client)") {}
            if kill_server {
                server.kill();
                assert_eq!(finish_or_kill(client).status.code(), Some(1));
            } else {
                client.kill().expect("a running client");
                let _ = client.wait();
                assert_eq!(server.finish().status.code(), Some(1));
            }
        }
    }
    assert_success(&fabric.run(&["send-lat", "--loopback", "-d", "soft0", "-n", "3"]));
    fabric.assert_nothing_left();
}

#[test]
fn the_legacy_name_is_the_same_tool() {
    harness::assert_legacy_name_works("send-lat", &["-n", "5"]);
}
