//! Pairs of queues side by side, threads, `--reverse` and `--both-ends`, of all bandwidth tools.
//!
//! Debug builds, which tests run, check each byte that arrives in the buffers of each pair.

use crate::harness::{
    self, Fabric, assert_killed_side_ends_the_other, assert_status, assert_success, stderr, stdout,
};
use plan::tools::peer_tools;
use serde_json::Value;

/// The names of the bandwidth tools.
fn bandwidth_tools() -> impl Iterator<Item = &'static str> {
    let bandwidth = peer_tools().iter().filter(|tool| tool.measures_bandwidth());
    bandwidth.map(|tool| tool.name)
}

/// The JSON document of a run of both sides.
fn document(tool: &str, options: &str) -> Value {
    let fabric = Fabric::new();
    let output = fabric.run(&format!("{tool} --loopback -d soft0 --quiet --json=- {options}"));
    assert_success(&output);
    fabric.assert_nothing_left();
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// A number of the document.
fn number(entry: &Value, path: &str) -> u64 {
    let value = entry.pointer(path).unwrap_or_else(|| panic!("{path} in {entry}"));
    value.as_u64().unwrap_or_else(|| panic!("{path}: {value}"))
}

#[test]
fn sums_all_pairs_and_names_the_slowest() {
    for tool in bandwidth_tools() {
        let run = document(tool, "-n 3 -l 5 -P 3");
        let bandwidth = &run["results"][0]["bandwidth"];
        assert_eq!(number(&run, "/results/0/count"), 45, "{tool}");
        let pairs = bandwidth["pairs"].as_array().expect("pairs");
        let counts: Vec<_> = pairs.iter().map(|pair| number(pair, "/count")).collect();
        assert_eq!(counts, [15; 3], "{tool}");
        let longest = pairs.iter().map(|pair| number(pair, "/elapsed_us")).max();
        assert_eq!(Some(number(bandwidth, "/elapsed_us")), longest, "{tool}");

        let text = Fabric::new().loopback(tool, "-n 3 -l 5 -P 3");
        assert!(text.contains("\nPairs"), "{text}");
        let (_, table) = text.split_once("Slowest pair").expect("a table of pairs");
        let row: Vec<_> = table.lines().nth(1).expect("a row").split_whitespace().collect();
        let rates = pairs.iter().map(|pair| &pair["bandwidth_bytes_per_s"]);
        assert_eq!((row[1], rates.count()), ("3", 3), "{text}");
        let numbered_from_0: u16 = row[2].parse().expect("a number");
        assert!(numbered_from_0 < 3, "{text}");
    }
}

/// An interface has 16 communication profiles, and the driver of SHS 14.0 does not find an equal
/// one again.
#[test]
fn all_pairs_share_their_profiles() {
    for release in ["13", "14"] {
        for tool in bandwidth_tools() {
            let fabric = Fabric::new();
            let options = "-n 1 -l 1 -b --pairs=16";
            let size = if tool == "atomic-bw" { "" } else { "-s 8" };
            let mut command =
                fabric.command(&format!("{tool} --loopback -d soft0 {options} {size}"));
            command.env("CXIDIAG_SHS", release);
            assert_success(&harness::finish(command));
            fabric.assert_nothing_left();
        }
    }
}

/// With a list of VNIs, and with a range (libcxi.md 6).
#[test]
fn all_tools_run_with_the_driver_of_each_release() {
    for release in ["12", "13", "14", "next"] {
        for tool in harness::tools() {
            for service in [1, 2] {
                let fabric = Fabric::new();
                let options = format!("--svc-id {service} -n 2");
                let mut command = fabric.command(&format!("{tool} --loopback -d soft0 {options}"));
                command.env("CXIDIAG_SHS", release);
                assert_success(&harness::finish(command));
                fabric.assert_nothing_left();
            }
        }
    }
}

#[test]
fn slowest_pair_has_the_least_bandwidth() {
    let run = document("write-bw", "-n 2 -l 3 -P 4");
    let pairs = run["results"][0]["bandwidth"]["pairs"].as_array().unwrap();
    for (place, pair) in pairs.iter().enumerate() {
        assert_eq!(number(pair, "/pair"), place as u64);
        let bytes = number(pair, "/count") * 65536;
        let bytes_per_s = bytes as f64 * 1e6 / number(pair, "/elapsed_us") as f64;
        let reported = pair["bandwidth_bytes_per_s"].as_f64().unwrap();
        assert!((bytes_per_s / reported - 1.0).abs() < 1e-9, "{pair}");
    }
}

#[test]
fn both_sides_drive_pairs_in_a_bidirectional_run() {
    for tool in bandwidth_tools() {
        for options in ["-n 3 -l 5 -b -P 2", "-D 0.3 -l 5 -b --threads 2"] {
            let run = document(tool, options);
            let pairs = run["results"][0]["bandwidth"]["pairs"].as_array().unwrap();
            assert_eq!(pairs.len(), 2, "{tool} {options}");
            for side in ["/count", "/peer_count"] {
                let counts: Vec<_> = pairs.iter().map(|pair| number(pair, side)).collect();
                let whole_lists = counts.iter().all(|count| *count > 0 && count % 5 == 0);
                assert!(whole_lists, "{tool} {options}: {counts:?}");
            }
        }
    }
}

#[test]
fn goes_on_to_the_next_size_with_all_pairs() {
    for options in ["-s 32:64 -D 0.3 -P 2", "-s 64:512 -n 2 -l 3 -b --threads 3 -P 5"] {
        for tool in ["write-bw", "read-bw", "send-bw"] {
            assert_success(&Fabric::new().run(&format!("{tool} --loopback -d soft0 {options}")));
        }
    }
}

#[test]
fn gives_each_thread_a_pair_unless_pairs_are_given() {
    let run = document("write-bw", "-n 2 -l 3 --threads 3");
    let lists = &run["options"]["lists"];
    assert_eq!([&lists["pairs"], &lists["threads"]], [3, 3]);
    let run = document("write-bw", "-n 2 -l 3 --threads 2 -P 5");
    assert_eq!(number(&run, "/results/0/count"), 30);
    let output = Fabric::new().run("write-bw --loopback -d soft0 -n 2 -l 3 --threads 2 -P 5");
    assert_success(&output);
    let text = stdout(&output);
    assert!(text.contains("\nPairs            : 5 (2 threads)\n"), "{text}");
}

#[test]
fn warns_if_threads_share_cpus() {
    let fabric = Fabric::new();
    let output = fabric.run("write-bw --loopback -d soft0 -n 2 --threads 2 --cpu 0");
    assert_success(&output);
    let errors = stderr(&output);
    assert!(errors.contains("warning: 2 threads share 1 CPU"), "{errors}");
}

#[test]
fn refuses_invalid_combinations() {
    for (tool, options, text) in [
        ("write-bw", "-P 0", "'0' for --pairs: expected a decimal number from 1 to 64"),
        ("write-bw", "-P 65", "'65' for --pairs: expected a decimal number from 1 to 64"),
        ("write-bw", "-P 2 --threads 3", "'3' for --threads: expected 1 to the number of pairs, 2"),
        ("send-bw", "-P 2 -R", "'2' for --pairs: expected 1 with --rdzv"),
        ("write-bw", "--reverse -b", "--reverse and --bidirectional exclude each other"),
        ("write-bw", "--reverse --interval 1", "--reverse and --interval exclude each other"),
    ] {
        let fabric = Fabric::new();
        let errors = assert_status(&fabric.run(&format!("{tool} --loopback {options}")), 2);
        assert!(errors.contains(text), "{tool} {options}: {errors}");
    }
}

/// The server has no row of its own in the seed's form: here it issues, and both show its
/// operations.
#[test]
fn server_issues_in_reverse() {
    for tool in bandwidth_tools() {
        let texts = Fabric::new().pair(tool, "-n 3 -l 5 -P 2 --reverse");
        for text in &texts {
            let row = text.lines().find(|line| line.starts_with("    ") && line.contains(" 30 "));
            assert!(row.is_some(), "{tool}: {text}");
            assert!(text.contains("\nReverse"), "{tool}: {text}");
        }
        // Only a server sees that its peer waits; here the client answers.
        let run = document(tool, "-D 0.3 -l 5 -P 2 --reverse");
        assert!(number(&run, "/results/0/count") > 0, "{tool}");
        let run = document(tool, "-n 3 -l 5 --reverse");
        assert_eq!(number(&run, "/results/0/count"), 15, "{tool}");
        assert_eq!(number(&run, "/results/0/bandwidth/peer_count"), 15, "{tool}");
        assert_eq!(run["options"]["lists"]["reverse"], true, "{tool}");
    }
}

#[test]
fn each_side_shows_what_it_has_seen() {
    for tool in bandwidth_tools() {
        for (options, client, server) in [
            ("", (15, None), (0, Some(15))),
            ("--reverse", (0, Some(15)), (15, None)),
            ("-b", (15, Some(15)), (15, Some(15))),
            ("-P 2", (30, None), (0, Some(30))),
        ] {
            let run = document(tool, &format!("-n 3 -l 5 --both-ends {options}"));
            let bandwidth = &run["results"][0]["bandwidth"];
            let view = |name: &str| {
                let view = &bandwidth[name];
                (number(view, "/issued"), view["arrived"].as_u64())
            };
            let seen = (view("own_view"), view("peer_view"));
            assert_eq!(seen, (client, server), "{tool} {options}");
        }
    }
}

/// A duration may end in the middle of an iteration, which is then completed.
#[test]
fn all_issued_operations_arrive_in_timed_runs() {
    for tool in bandwidth_tools() {
        let run = document(tool, "-D 0.3 -l 5 -b -P 2 --both-ends");
        let view = |path: &str| number(&run, &format!("/results/0/bandwidth/{path}"));
        let sent = [view("own_view/issued"), view("peer_view/issued")];
        let arrived = [view("peer_view/arrived"), view("own_view/arrived")];
        assert_eq!(sent, arrived, "{tool}");
    }
}

/// The second of two threads meets a fault; the first one measures for a minute otherwise.
#[test]
fn failure_of_one_thread_ends_the_run() {
    let fabric = Fabric::new();
    let mut command = fabric.command(
        "write-bw --loopback -d soft0 -P 2 --threads 2 -l 16 -s 8 -D 60 --no-idc --no-hrp",
    );
    command.env("CXIDIAG_FAULTS", "error=NO_SPACE@5002");
    let errors = assert_status(&harness::finish(command), 1);
    assert!(errors.contains("NO_SPACE"), "{errors}");
}

#[test]
fn counts_arrivals_of_each_size_by_itself() {
    let run = document("write-bw", "-n 3 -l 5 -s 8:32 --both-ends");
    for result in 0..3 {
        let path = format!("/results/{result}/bandwidth/peer_view/arrived");
        assert_eq!(number(&run, &path), 15);
    }
}

#[test]
fn shows_both_ends_of_each_size_on_both_sides() {
    let texts = Fabric::new().pair("read-bw", "-n 3 -l 5 -s 8:16 --both-ends");
    for (text, sides) in texts.iter().zip([["client", "server"], ["server", "client"]]) {
        let (_, table) = text.split_once("CPU[%]\n").expect("a table");
        let rows = table.lines().take(4);
        let words: Vec<Vec<_>> = rows.map(|row| row.split_whitespace().take(2).collect()).collect();
        let expected = ["8", "16"].map(|size| sides.map(|side| vec![size, side]));
        assert_eq!(words, expected.concat(), "{text}");
    }
}

/// A server with `--persist` shows of each client what belongs to it.
#[test]
fn server_forgets_the_client_before() {
    let fabric = Fabric::new();
    let mut server = fabric.server("write-bw", "-d soft0 --persist");
    let options = "-d soft1 -n 2 -l 4";
    let mut text = String::new();
    for more in ["-P 2 --verify --both-ends", "-s 8"] {
        let output = fabric.client("write-bw", &server, &format!("{options} {more}"));
        assert_success(&output);
        let mut line = server.next_line();
        while !line.starts_with("Listening") {
            text += &line;
            line = server.next_line();
        }
    }
    server.kill();
    assert_eq!(text.matches("BW[MB/s]  PktRate").count(), 2, "{text}");
    for block in ["Verified: ", "Slowest pair", "CPU[%]"] {
        assert_eq!(text.matches(block).count(), 1, "{block}: {text}");
    }
}

#[test]
fn killed_side_ends_all_threads() {
    for tool in ["write-bw", "send-bw"] {
        let started = "Local (server)";
        assert_killed_side_ends_the_other(tool, &["--threads 2", "-P 3 -b"], started);
    }
}
