//! `--interval`: rows of a size while it is measured.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Output};

use serde_json::Value;

use super::{Fabric, document, measures_bandwidth, short, stdout, tools};
use crate::harness::{CXIDIAG, Command, Pipe, Process, assert_status, assert_success, finish};

/// A loopback run in which each packet is late by 100 ms, with intervals of 20 ms.
fn stalling(tool: &str, options: &str) -> Output {
    let fabric = Fabric::new();
    let args = format!("{tool} --loopback -d soft0 -n 2 --interval=20ms {options}");
    let mut command = fabric.command(&args);
    command.env("CXIDIAG_FAULTS", "delay=1:100ms");
    finish(command)
}

fn stalling_options(tool: &str) -> &'static str {
    if measures_bandwidth(tool) { "-l 4" } else { "--warmup=0 --latency-gap=0" }
}

fn sum(rows: &[Value]) -> u64 {
    rows.iter().map(|row| row["count"].as_u64().unwrap()).sum()
}

#[test]
fn intervals_of_json_have_all_operations_of_the_result() {
    for tool in tools() {
        let output = short(tool, &["--interval=1ms", "--json", "--quiet"]);
        assert_success(&output);
        let run = document(&output);
        assert_eq!(run["options"]["interval_s"], 0.001);
        for result in run["results"].as_array().unwrap() {
            let intervals = &result["intervals"];
            assert_eq!(intervals["interval_s"], 0.001);
            let rows = intervals["rows"].as_array().unwrap();
            assert_eq!(sum(rows), result["count"].as_u64().unwrap(), "{result:#}");
            assert_eq!(rows[0]["start_s"], 0.0);
            for two in rows.windows(2) {
                assert_eq!(two[0]["end_s"], two[1]["start_s"], "{intervals:#}");
            }
            for row in rows {
                let is_latency = row["bandwidth_bytes_per_s"].is_null();
                assert_eq!(is_latency, !measures_bandwidth(tool), "{row:#}");
                let has_mean = is_latency && row["count"] != 0;
                assert_eq!(row["mean_ns"].is_number(), has_mean, "{row:#}");
                assert_eq!(row["p99_ns"].is_number(), has_mean, "{row:#}");
            }
        }
    }
    let run = document(&short("write-lat", &["--json", "--quiet"]));
    assert!(run["options"]["interval_s"].is_null() && run["results"][0]["intervals"].is_null());
}

/// The last list is issued before the time is up and complete after it.
#[test]
fn intervals_have_all_operations_of_a_duration() {
    let output =
        Fabric::new().run("send-bw --loopback -d soft0 -D 0.5 --interval=0.1 --json --quiet");
    assert_success(&output);
    let run = document(&output);
    let result = &run["results"][0];
    let rows = result["intervals"]["rows"].as_array().unwrap();
    assert_eq!(sum(rows), result["count"].as_u64().unwrap(), "{result:#}");
    let end = rows.last().unwrap()["end_s"].as_f64().unwrap();
    let elapsed = result["bandwidth"]["elapsed_us"].as_f64().unwrap() / 1e6;
    assert!(end >= elapsed - 1e-6, "{result:#}");
}

#[test]
fn interval_that_is_longer_than_the_size_ends_with_it() {
    for tool in tools().filter(|tool| measures_bandwidth(tool)) {
        let run = document(&short(tool, &["--interval=60m", "--json", "--quiet"]));
        for result in run["results"].as_array().unwrap() {
            let rows = result["intervals"]["rows"].as_array().unwrap();
            assert_eq!(rows.len(), 1, "{result:#}");
            let end = rows[0]["end_s"].as_f64().unwrap();
            let elapsed = result["bandwidth"]["elapsed_us"].as_f64().unwrap() / 1e6;
            assert!((end - elapsed).abs() < 1e-6, "{result:#}");
            assert!(result["intervals"]["min"].is_null(), "{result:#}");
        }
    }
}

#[test]
fn stall_is_an_interval_without_operations() {
    for tool in tools() {
        let options = stalling_options(tool);
        let output = stalling(tool, &format!("--json --quiet {options}"));
        assert_success(&output);
        let run = document(&output);
        let intervals = &run["results"][0]["intervals"];
        let rows = intervals["rows"].as_array().unwrap();
        let stalled = rows.iter().find(|row| row["count"] == 0);
        let stalled = stalled.unwrap_or_else(|| panic!("{tool}: {intervals:#}"));
        assert_eq!(intervals["min"]["count"], 0);
        if measures_bandwidth(tool) {
            assert_eq!(stalled["bandwidth_bytes_per_s"], 0.0);
            assert_eq!(intervals["min"]["bandwidth_bytes_per_s"], 0.0);
        } else {
            assert!(stalled["mean_ns"].is_null() && stalled["p99_ns"].is_null());
            // Half a round trip at least.
            let least = intervals["min"]["mean_ns"].as_f64().unwrap();
            assert!(least >= 100e6, "{tool}: {intervals:#}");
        }
    }
}

/// Splits a text at its lines of dashes.
fn blocks(text: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = text.lines().collect();
    let blocks = lines.split(|line| line.starts_with("---"));
    blocks.map(<[&str]>::to_vec).collect()
}

#[test]
fn text_has_a_table_of_intervals_before_each_result() {
    for (tool, columns, empty) in [
        ("write-lat", "Writes    Mean[us]     p99[us]", "0           -           -"),
        ("send-bw", "Sends  BW[MB/s]  PktRate[Mpkt/s]", "0      0.00         0.000000"),
    ] {
        let options = stalling_options(tool);
        let output = stalling(tool, &format!("-s 8:16 {options}"));
        assert_success(&output);
        let text = stdout(&output);
        let blocks = blocks(&text);
        let [_, _, first, row, second, last, _] = &blocks[..] else { panic!("{text}") };
        for intervals in [first, second] {
            let header = intervals[0];
            let start = "  Start[s]      End[s]  ";
            assert!(header.starts_with(start) && header.ends_with(columns), "{text}");
            let [rows @ .., minimum, fifth, maximum] = &intervals[1..] else { panic!("{text}") };
            assert!(rows[0].starts_with("     0.000       0."), "{text}");
            assert!(rows.iter().any(|row| row.ends_with(empty)), "{text}");
            assert!(minimum.starts_with("Minimum  "), "{text}");
            assert!(fifth.starts_with("5th percentile  "), "{text}");
            assert!(maximum.starts_with("Maximum  "), "{text}");
            // All columns end at the same place.
            let all = rows.iter().chain([minimum, fifth, maximum]);
            assert!(all.clone().all(|row| row.len() == header.len()), "{text}");
        }
        for (size, result) in [(8, row), (16, last)] {
            assert_eq!(result.len(), 2, "{text}");
            assert!(result[0].contains("Size[B]"), "{text}");
            let cells: Vec<&str> = result[1].split_whitespace().collect();
            assert_eq!(cells[0], size.to_string(), "{text}");
        }
    }
}

#[test]
fn text_has_intervals_and_samples_with_report_all() {
    let text =
        stdout(&short("write-lat", &["--interval=1s", "--report-all", "-n", "3", "-s", "8"]));
    let titles = blocks(&text).into_iter().filter_map(|block| block.first().copied());
    let titles: Vec<&str> = titles.filter_map(|title| title.split_whitespace().next()).collect();
    assert_eq!(titles, ["CXI", "Start[s]", "WriteNum", "RDMA"], "{text}");
}

#[test]
fn says_that_intervals_of_a_bidirectional_run_have_one_direction() {
    let note = "(intervals: operations of this side alone)";
    for (option, expected) in [("--bidirectional", 2), ("--quiet", 0)] {
        let text = stdout(&short("send-bw", &["--interval=1s", option]));
        assert_eq!(text.matches(note).count(), expected, "{text}");
    }
}

#[test]
fn csv_has_a_row_for_each_interval() {
    for tool in tools() {
        let output = stalling(tool, &format!("--csv --quiet {}", stalling_options(tool)));
        assert_success(&output);
        let mut table = csv::Reader::from_reader(&output.stdout[..]);
        let titles = table.headers().unwrap().clone();
        let at = |title: &str| titles.iter().position(|name| name == title).unwrap();
        let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        let (result, intervals) = rows.split_first().unwrap();
        assert_eq!(&result[at("extent")], "complete");
        assert_eq!(&result[at("interval_end_s")], "");
        assert!(intervals.len() > 1);
        let mut count = 0;
        let mut end = "0".to_owned();
        for row in intervals {
            assert_eq!(&row[at("extent")], "interval");
            assert_eq!(&row[at("tool")], tool);
            assert_eq!(row[at("size_bytes")], result[at("size_bytes")]);
            assert_eq!(row[at("interval_start_s")], end);
            end = row[at("interval_end_s")].to_owned();
            let operations: u64 = row[at("count")].parse().unwrap();
            count += operations;
            let shown =
                if measures_bandwidth(tool) { "packet_rate_packets_per_s" } else { "mean_ns" };
            let is_empty = !measures_bandwidth(tool) && operations == 0;
            assert_eq!(row[at(shown)].is_empty(), is_empty, "{row:?}");
            assert_eq!(&row[at("max_ns")], "");
        }
        assert_eq!(result[at("count")], count.to_string());
        // A table without intervals has the same columns except the columns of intervals.
        let plain = stdout(&short(tool, &["--csv", "--quiet"]));
        let header = plain.lines().next().unwrap();
        let more = header.replace(",hint,", ",hint,interval_start_s,interval_end_s,");
        assert!(stdout(&output).starts_with(&more), "{plain}");
    }
}

/// Starts a run that takes longer than any test, and reads rows of intervals up to one with
/// operations.
fn running(fabric: &Fabric, tool: &str) -> (Process, BufReader<Pipe<ChildStdout>>, String) {
    let args = format!("{tool} --loopback -d soft0 -D 600 --interval=10ms");
    let mut child = fabric.command(&args).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    let has_operations = |text: &str| {
        let (_, rows) = text.split_once("Start[s]")?;
        let mut counts = rows.lines().skip(1).filter_map(|row| row.split_whitespace().nth(2));
        counts.find(|count| *count != "0").map(drop)
    };
    while has_operations(&text).is_none() {
        assert!(output.read_line(&mut text).unwrap() > 0, "{text}");
    }
    (child, output, text)
}

#[test]
fn prints_rows_at_once_and_up_to_an_interruption() {
    for tool in ["write-lat", "send-lat", "send-bw", "write-bw"] {
        let fabric = Fabric::new();
        let (child, mut output, mut text) = running(&fabric, tool);
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        while output.read_line(&mut text).unwrap() > 0 {}
        assert_eq!(child.finish().status.code(), Some(130));
        let blocks = blocks(&text);
        let [.., intervals, result, end] = &blocks[..] else { panic!("{text}") };
        assert_eq!(end, &["Interrupted: results are partial"], "{text}");
        let count = |row: &str, at| row.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap();
        let rows = intervals[1..].iter().filter(|row| row.starts_with(' '));
        let sum: u64 = rows.map(|row| count(row, 2)).sum();
        assert_eq!(sum, count(result[1], 1), "{text}");
    }
}

#[test]
fn ends_when_the_reader_of_the_rows_ends() {
    let fabric = Fabric::new();
    let (child, output, _) = running(&fabric, "write-lat");
    drop(output);
    let output = child.finish();
    assert_eq!(assert_status(&output, 1), "");
    fabric.assert_nothing_left();
}

#[test]
fn compares_results_with_intervals() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|name| directory.path().join(name).display().to_string());
    for (file, interval) in files.iter().zip(["--interval=1ms", "--quiet"]) {
        assert_success(&short("write-lat", &[&format!("--json={file}"), interval]));
    }
    let mut command = Command::new(CXIDIAG);
    command.args(["compare", &files[0], &files[1], "--max-regress=1000000%"]);
    assert_success(&finish(command));
}

/// The client does not see what its server issues.
#[test]
fn refuses_intervals_of_the_server() {
    let output = short("send-bw", &["--interval=1s", "--reverse"]);
    let errors = assert_status(&output, 2);
    assert!(errors.contains("--reverse and --interval exclude each other"), "{errors}");
}

#[test]
fn refuses_other_times() {
    for value in ["0", "999us", "61m", "1h", "fast", "-1s", "1 s"] {
        let output = short("write-lat", &[&format!("--interval={value}")]);
        let line = format!(
            "cxidiag write-lat: error: invalid value '{value}' for --interval: expected a time from \
             1ms to 60m: a number such as 0.5 with ns, us, ms, s or m (minutes)\n"
        );
        assert_eq!(assert_status(&output, 2), line);
    }
}
