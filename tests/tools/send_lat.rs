//! `send-lat`: server and client over loopback and the software NIC.
//!
//! In debug builds, which tests run, both sides fail unless the bytes of the peer arrived.

use std::process::{Output, Stdio};

use crate::harness::legacy::{Peer, Run};
use crate::harness::{
    self, Command, Fabric, Server, assert_has_form_of, assert_success, finish, seed, stderr, stdout,
};

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
            fabric.loopback("send-lat", &format!("{options} -n 3 --latency-gap 0 -s {size}"));
        }
    }
    fabric.assert_nothing_left();
}

/// The text, the document and the latencies have the list entries before the one that receives:
/// each message waits at least as long as the NIC takes for them, and all of them no longer than
/// the run.
#[test]
fn message_waits_for_posted_list_entries() {
    for options in ["", "--rdzv", "--no-idc"] {
        let fabric = Fabric::new();
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display();
        let mut command = fabric.command(&format!(
            "send-lat --loopback -d soft0 --posted=2000 -n 5 --warmup=0 --latency-gap=0 \
             --json={path} {options}"
        ));
        command.env("CXIDIAG_LINK", "match=5us");
        let begin = std::time::Instant::now();
        let output = finish(command);
        let elapsed_ns = begin.elapsed().as_secs_f64() * 1e9;
        assert_success(&output);
        assert!(stdout(&output).contains("\nPosted Entries   : 2000\n"), "{}", stdout(&output));
        let document = std::fs::read_to_string(file.path()).expect("a document");
        let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
        assert_eq!(document["options"]["posted"], 2000);
        let figure = |name| document["results"][0]["latency"][name].as_f64().expect("a time");
        assert!(figure("min_ns") >= 2000.0 * 5_000.0, "{options}: {document}");
        assert!(figure("mean_ns") * 2.0 * 5.0 <= elapsed_ns, "{options}: {document}");
        fabric.assert_nothing_left();
    }
}

/// Each row waits at least as long as the NIC takes for what stands before, and its key is the
/// depth in each output. The time of an entry is the slope between two of the rows.
#[test]
fn range_has_a_row_for_each_depth() {
    for (option, title) in [("posted", "Posted"), ("unexpected", "Unexpected")] {
        let fabric = Fabric::new();
        let directory = tempfile::tempdir().expect("a directory");
        let [json, csv] = ["run.json", "run.csv"].map(|name| directory.path().join(name));
        let mut command = fabric.command(&format!(
            "send-lat --loopback -d soft0 --{option}=0:8 -n 3 --warmup=0 --latency-gap=0 --verify \
             --expect=min>1ns --json={} --csv={}",
            json.display(),
            csv.display()
        ));
        command.env("CXIDIAG_LINK", "match=2ms");
        let output = finish(command);
        assert_success(&output);
        let text = stdout(&output);
        assert!(text.contains(&format!("     Bytes  {title}       Sends")), "{text}");
        let document = std::fs::read_to_string(&json).expect("a document");
        let document: serde_json::Value = serde_json::from_str(&document).expect("JSON");
        let rows = document["results"].as_array().expect("results");
        let depths: Vec<u64> = rows.iter().filter_map(|row| row[option].as_u64()).collect();
        assert_eq!(depths, [0, 1, 2, 4, 8], "{document}");
        let median = |row: &serde_json::Value| {
            row["latency"]["percentiles"][0]["value_ns"].as_f64().expect("a median")
        };
        for (row, depth) in rows.iter().zip(&depths) {
            let min = row["latency"]["min_ns"].as_u64().expect("a time");
            assert!(min >= depth * 2_000_000, "{row}");
        }
        let slope = |one: usize, other: usize| {
            (median(&rows[other]) - median(&rows[one])) / (depths[other] - depths[one]) as f64
        };
        let entry_ns = document["walk"]["entry_ns"].as_f64().expect("a slope");
        let mut pairs = (0..5).flat_map(|one| (one + 1..5).map(move |other| slope(one, other)));
        assert!(pairs.any(|slope| (slope - entry_ns).abs() < 1e-3), "{document}");
        assert_eq!(document["expectations"].as_array().map(Vec::len), Some(5));
        assert_eq!(document["expectations"][4][option], 8);
        let csv = std::fs::read_to_string(&csv).expect("a table");
        let place = csv
            .lines()
            .next()
            .and_then(|titles| titles.split(',').position(|title| title == option));
        let place = place.expect("a column");
        let column: Vec<&str> =
            csv.lines().skip(1).filter_map(|row| row.split(',').nth(place)).collect();
        assert_eq!(column, ["0", "1", "2", "4", "8"]);
        let json = json.display();
        let compared =
            stdout(&fabric.run(&format!("compare {json} {json} --max-regress=0 --verbose")));
        for (row, depth) in rows.iter().zip(&depths) {
            let min = row["latency"]["min_ns"].as_f64().expect("a time") / 1e3;
            let is_of_row = |line: &&str| line.starts_with(&format!("8 behind {depth}  min[us]"));
            let line = compared.lines().find(is_of_row).unwrap_or_else(|| panic!("{compared}"));
            assert_eq!(line.matches(&format!("  {min:.3}  ")).count(), 2, "{line}");
        }
        fabric.assert_nothing_left();
    }
}

#[test]
fn refuses_depths_that_do_not_fit_together() {
    for (options, message) in [
        ("--posted=0:4 -s 1:8", "invalid value '0:4' for --posted: expected one number with "),
        ("--unexpected=0:4 -a", "invalid value '0:4' for --unexpected: expected one number with "),
        ("--posted=4:1", "invalid value '4:1' for --posted: expected N or MIN:MAX"),
        ("--posted=4 --unexpected=2", "invalid value '2' for --unexpected: not with --posted"),
        ("--rdzv --unexpected=2", "invalid value '2' for --unexpected: not with --rdzv"),
    ] {
        let errors =
            harness::assert_status(&Fabric::new().run(&format!("send-lat h {options}")), 2);
        assert!(errors.contains(message), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

/// The default service reserves no list entries, and has 16384 of each processing element.
#[test]
fn takes_no_more_than_a_quarter_of_the_free_list_entries() {
    let fabric = Fabric::new();
    for option in ["posted", "unexpected"] {
        let run = |depth: &str| {
            fabric.run(&format!("send-lat --loopback -d soft0 -n 1 --{option}={depth}"))
        };
        let errors = harness::assert_status(&run("0:2049"), 1);
        let message = format!(
            "--{option}=2049: both sides on one NIC need 4098 list entries, and 4096 are allowed: \
             those that service 1 of soft0 has reserved (0), or a quarter of the 16384 that are \
             free: at most --{option}=2048\n"
        );
        assert!(errors.contains(&message), "{errors}");
        harness::assert_success(&run("2048"));
    }
    fabric.assert_nothing_left();
}

/// A service may have 100 list entries of each element, of which 40 are its own.
#[test]
fn takes_all_that_the_service_has_reserved() {
    const FEW: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 1 \
                       2047 0 1024 0 512 0 2047 0 2047 0 100 40 512 512 1022 0 0 0 1 1 0\n";
    let fabric = Fabric::new();
    fabric.write_services(0x12, FEW);
    let run = |posted| fabric.run(&format!("send-bw --loopback -d soft0 -n 1 --posted={posted}"));
    harness::assert_success(&run(20));
    let errors = harness::assert_status(&run(21), 1);
    let message = "--posted=21: both sides on one NIC need 42 list entries, and 40 are allowed: \
                   those that service 1 of soft0 has reserved (40), or a quarter of the 100 ";
    assert!(errors.contains(message), "{errors}");
}

#[test]
fn refuses_more_posted_entries_than_a_nic_has() {
    let errors = harness::assert_status(&Fabric::new().run("send-lat h --posted=16384"), 2);
    assert!(errors.contains("invalid value '16384' for --posted"), "{errors}");
}

#[test]
fn posted_entries_need_a_cxidiag_as_server() {
    for (options, name) in [
        ("--posted=1", "posted"),
        ("--posted=0:4", "posted=RANGE"),
        ("--unexpected=1", "unexpected"),
        ("--unexpected=0:4", "unexpected"),
    ] {
        let run = Fabric::new().replay_server("send-lat", options, Peer::of("send-lat"));
        let errors = harness::assert_status(&run.cxidiag, 1);
        assert!(errors.contains(&format!("--{name}: the server (127.0.0.1:")), "{errors}");
    }
}

/// The address of a virtual function has more bits than packets and initiators of gets carry
/// (libcxi.md 2.2).
#[test]
fn measures_between_a_virtual_function_and_its_nic() {
    for nids in ["0x12,0x200012", "0x200012,0x12", "0x200012,0x300013"] {
        let fabric = Fabric::new();
        let with = |mut command: Command| {
            command.env("CXIDIAG_SHS", "next").env("CXIDIAG_NIDS", nids);
            command
        };
        let server = Server::start(with(fabric.command("send-lat -p 0 -d soft0")));
        let client = "-d soft1 --rdzv -n 3 --latency-gap 0 -s 1024";
        let client = with(fabric.client_command("send-lat", &server, client));
        assert_success(&finish(client));
        assert_success(&server.finish());
    }
}

/// Each size ends with a last message of either side, and the next one begins in step: eager by
/// both kinds of command, and rendezvous.
#[test]
fn ends_each_size_of_a_duration_on_both_sides() {
    for options in ["", "--rdzv"] {
        let args = format!("-D 0.3 --latency-gap 100 -s 128:256 {options}");
        let [client, _] = Fabric::new().pair("send-lat", &args);
        let rows = client.lines().filter(|line| line.starts_with("   "));
        assert_eq!(rows.count(), 3 + 1);
    }
}

/// The lengths of a client's messages after the handshake of a run of both sides.
#[track_caller]
fn messages_after_handshake(options: &str) -> Vec<usize> {
    run(options).0
}

/// Runs both sides. Returns the lengths of the client's messages after the handshake, and its
/// output.
#[track_caller]
fn run(options: &str) -> (Vec<usize>, Output) {
    let fabric = Fabric::new();
    let Run { cxidiag: client, peer: server, received } =
        fabric.against_itself("send-lat", options);
    assert_success(&client);
    assert_success(&server);
    fabric.assert_nothing_left();
    let messages = received[4..].iter().map(Vec::len).collect();
    (messages, client)
}

/// After the ready barrier: one barrier before each size and one after it, and silence in between.
#[test]
fn waits_for_the_peer_on_the_control_connection_once_for_each_size() {
    for (options, sizes) in [
        ("-n 7 --warmup 3 -s 8:32 --latency-gap 10", 3),
        ("-n 1 --warmup 0 -s 256:1024 --latency-gap 0", 3),
        ("-n 5 --latency-gap 0 -s 100000 --no-ll", 1),
        ("-n 5 --latency-gap 0 -s 8:4096 -R", 10),
        ("-D 0.3 --latency-gap 50 -s 128:256", 2),
        ("-D 0.3 --latency-gap 0 -R", 1),
    ] {
        let expected = vec![0; 1 + 2 * sizes];
        assert_eq!(messages_after_handshake(options), expected, "{options}");
    }
}

#[test]
fn waits_for_the_peer_before_each_iteration_with_legacy_sync() {
    for (options, iterations) in [("", 4 + 3), ("-R", 4 + 3), ("-s 64:128", 2 * (4 + 3 + 1) - 1)] {
        let options = format!("--legacy-sync -n 4 --warmup 3 {options}");
        let expected = vec![0; 1 + iterations + 1];
        assert_eq!(messages_after_handshake(&options), expected, "{options}");
    }
    // The side whose time is up first ends the size with one more round trip.
    let (messages, output) = run("--legacy-sync -D 1");
    let sends: usize = harness::rows(&stdout(&output))[0][1].parse().expect("a number");
    assert!(messages.len() > sends, "{} messages of {sends} sends", messages.len());
}

/// The server answers at once: it never pauses.
#[test]
fn only_the_client_keeps_the_gap() {
    for (options, paused_sides) in [("", [1, 0]), ("--legacy-sync", [1, 1])] {
        let fabric = Fabric::new();
        let pause = ("CXIDIAG_TEST_PAUSE_AT", "gap");
        let mut command = fabric.command("send-lat -p 0 -d soft0");
        command.env(pause.0, pause.1);
        let server = harness::Server::start(command);
        let args = format!("-d soft1 -n 3 --latency-gap 10 {options}");
        let mut command = fabric.client_command("send-lat", &server, &args);
        let client = finish({
            command.env(pause.0, pause.1).stdin(Stdio::null());
            command
        });
        let pauses = [client, server.finish()].map(|side| {
            assert!(side.status.success(), "{side:?}");
            stderr(&side).matches("paused at gap").count()
        });
        assert_eq!(pauses, paused_sides, "{options}");
    }
}

/// The server reports no slow answer while the client keeps a gap that is longer than that takes.
#[test]
fn server_expects_the_gap_of_its_client() {
    let fabric = Fabric::new();
    let server = fabric.server("send-lat", "-d soft0");
    let args = "-d soft1 -n 2 --warmup 0 --latency-gap 2300000";
    let client = fabric.client_command("send-lat", &server, args).spawn();
    assert_success(&client.expect("cxidiag starts").finish());
    assert_eq!(stderr(&server.finish()), "");
}

#[test]
fn json_has_the_points_at_which_the_sides_wait() {
    for (tool, options, sync) in [
        ("send-lat", "", "\"size\""),
        ("send-lat", "--legacy-sync", "\"iteration\""),
        ("write-lat", "", "null"),
    ] {
        let json = Fabric::new().loopback(tool, &format!("-n 2 --json --quiet {options}"));
        assert!(json.contains(&format!("\"sync\": {sync},")), "{json}");
    }
}

/// A NIC may leave the gets of rendezvous messages to software.
#[test]
fn t21_issues_gets_by_software() {
    let fabric = Fabric::new();
    let mut command = fabric
        .command("send-lat --loopback -d soft0 -R -s 1:65536 -n 2 --warmup 1 --latency-gap 0");
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
