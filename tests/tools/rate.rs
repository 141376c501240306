//! `--rate`: an open-loop schedule of intended start times.

use crate::harness::legacy::Peer;
use crate::harness::{Fabric, Server, assert_status, assert_success, finish, stdout, tools};
use serde_json::Value;

/// Each packet is late: an operation and its answer take at least 10 ms.
const SLOW: (&str, &str) = ("CXIDIAG_FAULTS", "delay=1:5ms");

fn is_bandwidth(tool: &str) -> bool {
    tool.ends_with("-bw")
}

/// Runs both sides with an environment variable. Returns the text and the document.
fn run(tool: &str, (variable, value): (&str, &str), options: &str) -> (String, Value) {
    let fabric = Fabric::new();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().display();
    let mut command =
        fabric.command(&format!("{tool} --loopback -d soft0 --json={path} {options}"));
    command.env(variable, value);
    let output = finish(command);
    assert_success(&output);
    fabric.assert_nothing_left();
    let document = std::fs::read_to_string(file.path()).expect("a document");
    (stdout(&output), serde_json::from_str(&document).expect("JSON"))
}

/// Ten iterations of 10 ms, one intended in each ms: the schedule cannot be kept. The last one ends
/// after 100 ms, and was intended after 9 ms.
#[test]
fn latency_counts_from_intended_start_and_missed_rate_is_named() {
    let runs = tools().filter(|tool| !is_bandwidth(tool)).map(|tool| match tool {
        "trig-lat" => (tool, "--hops=4"),
        _ => (tool, ""),
    });
    for (tool, options) in runs.chain([("send-lat", "--legacy-sync")]) {
        let options = format!("-n 10 --warmup 1 --rate=1000 {options}");
        let (text, document) = run(tool, SLOW, &options);
        let line = "\nRate             : 1000 op/s (latency from intended start)\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("\nInter-Iter Gap   : 0 microseconds\n"), "{text}");
        let missed = "\nRate not reached at 8 bytes: ";
        assert!(text.contains(missed), "{text}");
        assert!(text.contains(" of 1000 op/s, 90.0 % of starts late\n"), "{text}");
        assert_eq!(document["options"]["rate"], "1000 op/s");
        assert_eq!(document["options"]["latency_gap_us"], 0);
        let result = &document["results"][0];
        let (latency, rate) = (&result["latency"], &result["rate"]);
        assert_eq!(latency["latency_from"], "intended_start");
        assert_eq!((&rate["starts"], &rate["late_starts"]), (&10.into(), &9.into()));
        assert_eq!(rate["requested_operations_per_s"], 1000.0);
        assert_eq!(rate["is_reached"], false);
        assert!(rate["reached_operations_per_s"].as_f64() <= Some(100.0), "{rate}");
        // Half of a round trip of two messages, after its delay.
        let (slowest, first) = match tool {
            "send-lat" => (81e6 + 5e6, 5e6),
            // A hop of 5 ms after the delay by nine chains of 20 ms, without the 9 ms intended.
            "trig-lat" => (9.0 * 20e6 - 9e6 + 5e6, 5e6),
            _ => (91e6, 10e6),
        };
        assert!(latency["max_ns"].as_f64() >= Some(slowest), "{tool}: {latency}");
        assert!(latency["min_ns"].as_f64() >= Some(first), "{tool}: {latency}");
    }
}

#[test]
fn lists_start_at_intended_times() {
    for tool in tools().filter(|tool| is_bandwidth(tool)) {
        for (options, pairs) in [("", 1), ("-b", 1), ("-P 3 --threads=2", 3)] {
            // Four lists of four operations, one intended in each 40 ms; 120 ms for each of three
            // pairs.
            let options = format!("-n 4 -l 4 --rate=100op/s {options}");
            let (text, document) = run(tool, ("CXIDIAG_FAULTS", ""), &options);
            let schedule = ": 100 op/s (a list of 4 every 40.000 ms)";
            let is_rate = |line: &str| line.starts_with("Rate ") && line.ends_with(schedule);
            assert!(text.lines().any(is_rate), "{text}");
            let result = &document["results"][0];
            assert_eq!(result["count"], 16 * pairs);
            assert_eq!(result["rate"]["starts"], 4 * pairs);
            assert_eq!(result["rate"]["requested_operations_per_s"], 100.0);
            let elapsed = result["bandwidth"]["elapsed_us"].as_u64();
            assert!(elapsed >= Some(3 * 40_000 * pairs), "{elapsed:?}");
        }
    }
}

/// Pairs start in turn: at the end, some have a start more than others, or the only one.
#[test]
fn rate_that_is_kept_by_all_pairs_is_reached() {
    for (tool, options) in [
        ("write-bw", "-P 4 -l 1 -s 8 --rate=82op/s -D 1"),
        ("read-bw", "-P 4 -l 1 -s 8 --rate=6op/s -D 1"),
        ("send-bw", "-b -P 4 -l 2 --rate=10op/s -D 2"),
    ] {
        let (text, document) = run(tool, ("CXIDIAG_FAULTS", ""), options);
        let rate = &document["results"][0]["rate"];
        let late = rate["late_starts"].as_u64().expect("a number");
        assert!(rate["is_reached"] == true || late > 0, "{options}: {rate}");
        assert!(!text.contains("Rate not reached") || late > 0, "{text}");
        let reached = rate["reached_operations_per_s"].as_f64();
        let requested = rate["requested_operations_per_s"].as_f64().expect("a rate");
        assert!(reached > Some(0.9 * requested) || late > 0, "{rate}");
    }
}

#[test]
fn names_each_size_whose_rate_was_not_reached() {
    for tool in ["write-bw", "read-bw", "send-bw"] {
        let (text, document) = run(tool, SLOW, "-n 3 -l 4 -s 64:128 --rate=1GB/s");
        for (size, requested) in [(64, 15_625_000), (128, 7_812_500)] {
            let start = format!("\nRate not reached at {size} bytes: ");
            assert!(text.contains(&start), "{text}");
            let end = format!(" of {requested} op/s, 66.7 % of starts late\n");
            assert!(text.contains(&end), "{text}");
        }
        assert_eq!(document["results"][1]["rate"]["late_starts"], 2);
    }
}

#[test]
fn works_with_duration_until_and_legacy_sync() {
    for (tool, options) in [
        ("write-lat", "-D 0.2 --rate=1K"),
        ("send-lat", "-D 200ms --rate=100kB/s -s 64:128"),
        ("send-lat", "-n 5 --rate=1kop/s --legacy-sync"),
        ("send-lat", "-D 0.2 --rate=1000 --legacy-sync"),
        ("send-bw", "-D 0.2 --rate=1kop/s -l 4 -b"),
    ] {
        let (_, document) = run(tool, ("CXIDIAG_FAULTS", ""), options);
        for result in document["results"].as_array().expect("results") {
            let (count, rate) = (result["count"].as_u64(), &result["rate"]);
            assert!(count > Some(0), "{tool} {options}: {result}");
            let operations = if is_bandwidth(tool) { 4 } else { 1 };
            assert_eq!(rate["starts"].as_u64().map(|starts| starts * operations), count);
            if options.contains("-D 0.2 --rate=1") && !options.contains("-l 4") {
                assert!(count <= Some(200), "{options}: {result}");
            }
        }
    }
    let options = "-D 5 --rate=10kop/s --until=50%";
    let (_, document) = run("write-lat", ("CXIDIAG_FAULTS", ""), options);
    let result = &document["results"][0];
    assert_eq!(result["rate"]["starts"], result["count"]);
}

/// The server would otherwise give up after a second: it waits two for each message or list.
#[test]
fn peer_waits_for_intended_starts() {
    let shortened = ("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "40");
    for (tool, options) in [
        ("send-lat", "--rate=4B/s -s 8 --warmup 0"),
        ("send-lat", "--rate=4B/s -s 8 --warmup 0 --legacy-sync"),
        ("send-bw", "--rate=4B/s -s 4 -l 2"),
    ] {
        let (_, document) = run(tool, shortened, &format!("-n 2 {options}"));
        assert_eq!(document["results"][0]["rate"]["starts"], 2, "{tool} {options}");
    }
}

/// The document of an interrupted run says where its latencies begin.
#[test]
fn partial_result_says_that_latency_counts_from_intended_start() {
    let args = "write-lat --loopback -d soft0 -n 20 --rate=1000 --json";
    let fabric = Fabric::new();
    let mut command = fabric.command(args);
    command.env("CXIDIAG_FAULTS", "error=PT_DISABLED@20");
    let output = finish(command);
    assert_status(&output, 1);
    let document: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let result = &document["results"][0];
    assert_eq!(result["extent"], "partial");
    assert_eq!(result["latency"]["latency_from"], "intended_start");
    assert_eq!(result["rate"], Value::Null);
}

#[test]
fn both_sides_of_a_bidirectional_run_keep_the_rate() {
    let fabric = Fabric::new();
    let mut server = fabric.command("send-bw -p 0 -d soft0");
    server.env(SLOW.0, SLOW.1);
    let server = Server::start(server);
    let client = fabric.client("send-bw", &server, "-d soft1 -n 3 -l 4 -b --rate=1Mop/s");
    for text in [client, server.finish()] {
        assert_success(&text);
        let text = stdout(&text);
        assert!(
            text.contains("\nRate             : 1000000 op/s (a list of 4 every 0.004 ms)\n"),
            "{text}"
        );
        assert!(text.contains("\nRate not reached at 65536 bytes: "), "{text}");
    }
    fabric.assert_nothing_left();
}

#[test]
fn rejects_invalid_rates_before_anything_is_opened() {
    for (options, line) in [
        ("--rate=fast", "invalid value 'fast' for --rate: expected a rate from 1 to 1000Mop/s or "),
        ("--rate=10G", "invalid value '10G' for --rate: expected a rate from 1 to 1000Mop/s or "),
        ("--rate=0", "invalid value '0' for --rate: expected a rate from 1 to 1000Mop/s or "),
        (
            "--rate=1B/s -s 4096",
            "invalid value '1 B/s' for --rate: at least one iteration (4096 bytes) an hour",
        ),
        ("--rate=1000 --latency-gap=0", "--rate and --latency-gap exclude each other: "),
    ] {
        let output = Fabric::new().run(&format!("write-lat --loopback -d soft99 {options}"));
        let error = assert_status(&output, 2);
        assert!(error.starts_with(&format!("cxidiag write-lat: error: {line}")), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_eq!(stdout(&output), "");
    }
}

/// A client alone keeps a rate and ends in time, unless the server issues operations too. The
/// option block has whole seconds, rounded up.
#[test]
fn legacy_server_is_refused_only_if_it_issues_operations() {
    let fabric = Fabric::new();
    for (tool, options, refused) in [
        ("write-lat", "--rate=1000 -D 1.5", None),
        ("send-bw", "--rate=1000 -D 1500ms", None),
        ("send-bw", "--rate=1000 -b", Some("rate")),
        ("send-bw", "-D 2000ms -b", None),
        ("send-bw", "-D 1.5 -b", Some("duration")),
        ("send-bw", "--until-stopped", Some("until-stopped")),
        ("write-lat", "--until-stopped", None),
    ] {
        let run = fabric.replay_server(tool, options, Peer::of(tool));
        let error = assert_status(&run.cxidiag, 1);
        let found = ["rate", "duration", "until-stopped"]
            .into_iter()
            .find(|option| error.contains(&format!("--{option}: the server (127.0.0.1:")));
        assert_eq!(found, refused, "{error}");
    }
}
