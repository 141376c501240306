//! Results for programs: JSON against its schema, CSV, histogram logs, expectations.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::short_runs::{document, short};
use crate::harness::{
    self, Command, Fabric, assert_success, measures_bandwidth, named, schema, stderr, stdout, tools,
};

mod changed_documents;
mod clock;
mod counters;
mod expect;
mod hdr_log;
mod histogram;
mod intervals;
mod jsonl;
mod places;
mod progress;
mod sides;
mod units;
mod until;

#[test]
fn writes_json_to_standard_output_and_text_to_standard_error() {
    for tool in tools() {
        let output = short(tool, &["--json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let run = document(&output);
        assert_eq!(run["tool"], tool);
        assert_eq!(run["status"], "complete");
        assert_eq!(run["device"]["name"], named("soft0"));
        assert_eq!(run["device"]["is_software"], true);
        assert_eq!(run["addresses"]["local"]["nic"], run["addresses"]["remote"]["nic"]);
        assert_eq!(run["options"]["loopback"], true);
        let sizes = if tool.starts_with("atomic") { 1 } else { 2 };
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), sizes);
        for result in results {
            assert_eq!(result["extent"], "complete");
            let is_bandwidth = measures_bandwidth(tool);
            let count = if is_bandwidth { 8 } else { 30 };
            assert_eq!(result["count"], count);
            assert_eq!(result["latency"].is_null(), is_bandwidth);
            assert_eq!(result["bandwidth"].is_null(), !is_bandwidth);
        }
        let text = stderr(&output);
        assert!(text.contains("\nPlatform ") && text.contains("Size"), "{text}");
        let quiet = short(tool, &["--json", "--quiet"]);
        document(&quiet);
        assert_eq!(stderr(&quiet), "");
    }
}

#[test]
fn json_has_the_metrics_of_the_text() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("result.json");
    let option = format!("--json={}", file.display());
    let output = short("write-lat", &[&option, "--percentiles"]);
    assert_success(&output);
    let run: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    schema::check(&run);
    let text = stdout(&output);
    for result in run["results"].as_array().unwrap() {
        let latency = &result["latency"];
        let us = |name: &str| latency[name].as_f64().unwrap() / 1000.0;
        let row = format!(
            "{:12}  {:10}  {:10.2}  {:10.2}  {:10.2}  {:10.2}\n",
            result["size_bytes"].as_u64().unwrap(),
            30,
            us("min_ns"),
            us("max_ns"),
            us("mean_ns"),
            us("standard_deviation_ns"),
        );
        assert!(text.contains(&row), "no {row:?} in {text}");
        let median = latency["percentiles"][0]["value_ns"].as_u64().unwrap();
        // Long latencies of a busy machine need several tables of percentiles.
        let (_, table) = text.split_once("p50").expect("a column with the median");
        let size = result["size_bytes"].to_string();
        let mut lines = table.lines();
        let line = lines.find(|line| line.split_whitespace().next() == Some(&size)).unwrap();
        let shown = format!("{}.{:03}", median / 1000, median % 1000);
        assert!(line.contains(&shown), "no {shown} in {line}");
    }
}

#[test]
fn further_outputs_leave_the_text_unchanged() {
    let masked = |options: &[&str]| {
        let output = short("write-lat", options);
        assert_success(&output);
        harness::masked(&stdout(&output))
    };
    let plain = masked(&[]);
    let directory = tempfile::tempdir().unwrap();
    let to = |kind: &str| format!("--{kind}={}", directory.path().join(kind).display());
    let files = [to("json"), to("csv"), to("hdr-log")];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(masked(&files), plain);
    let more = masked(&["--percentiles", "--expect", "max<1s"]);
    let rest = more.strip_prefix(&plain).expect("the text, and more");
    // On a busy machine the figures may need more than one table.
    let titles = rest.lines().filter(|line| line.starts_with("RDMA Size[B]"));
    let titles = titles.filter(|line| !line.contains("Expected"));
    let words: Vec<_> = titles.flat_map(|title| title.split_whitespace().skip(2)).collect();
    let expected = ["p50[us]", "p90[us]", "p99[us]", "p99.9[us]", "p99.99[us]", "Max[us]"];
    assert_eq!(words, expected);
    assert!(rest.contains("\nRDMA Size[B]  Expected"), "{rest}");
    let names: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(names.len(), 3, "nothing temporary is left");
}

#[test]
fn csv_has_the_metrics_of_json() {
    for tool in tools() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("result.json");
        let output = short(tool, &["--csv", &format!("--json={}", file.display())]);
        let run: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let mut table = csv::Reader::from_reader(&output.stdout[..]);
        let titles = table.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        let results = run["results"].as_array().unwrap();
        assert_eq!(rows.len(), results.len());
        for (row, result) in rows.iter().zip(results) {
            let field = |title: &str| &row[titles.iter().position(|name| name == title).unwrap()];
            let same = |title: &str, value: &Value| match value {
                Value::Null => assert_eq!(field(title), "", "{title}"),
                Value::String(text) => assert_eq!(field(title), text, "{title}"),
                number => {
                    let read: f64 = field(title).parse().unwrap();
                    assert_eq!(Some(read), number.as_f64(), "{title}");
                }
            };
            same("tool", &run["tool"]);
            same("status", &run["status"]);
            same("size_bytes", &result["size_bytes"]);
            same("extent", &result["extent"]);
            same("count", &result["count"]);
            for title in ["min_ns", "max_ns", "mean_ns", "standard_deviation_ns"] {
                same(title, &result["latency"][title]);
            }
            let percentiles = &result["latency"]["percentiles"];
            for (at, title) in
                ["p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "p99.99_ns"].iter().enumerate()
            {
                same(title, &percentiles[at]["value_ns"]);
            }
            for title in ["bandwidth_bytes_per_s", "packet_rate_packets_per_s"] {
                same(title, &result["bandwidth"][title]);
            }
        }
    }
}

/// `--report-all` prints each sample and adds it to JSON, `--samples` writes it to a table.
#[test]
fn writes_each_sample() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("samples.csv");
    std::fs::write(&file, "old").unwrap();
    let samples = format!("--samples={}", file.display());
    let output = short("write-lat", &["--json", "--report-all", &samples]);
    let run = document(&output);
    let text = stderr(&output);
    let mut table = csv::Reader::from_path(&file).unwrap();
    assert_eq!(table.headers().unwrap(), ["size_bytes", "iteration", "latency_ns"].as_slice());
    let rows: Vec<[u64; 3]> = table.deserialize().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 60);
    for (at, [size, iteration, ns]) in rows.into_iter().enumerate() {
        assert_eq!((size, iteration), ([8, 16][at / 30], at as u64 % 30));
        let latency = &run["results"][at / 30]["latency"];
        assert_eq!(latency["samples_ns"][at % 30], ns);
        let printed = format!("\n{iteration:10}  {:7}.{:03}\n", ns / 1000, ns % 1000);
        assert!(text.contains(&printed), "{printed}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);

    // JSON is made in memory. The run ends before it begins.
    let output = short("write-lat", &["-n", "1000001", "--report-all", "--json", "-v", "7777"]);
    let error = harness::assert_status(&output, 1);
    assert!(
        error.contains("warning: JSON has no more than 1000000 samples of a size: "),
        "{error}"
    );
    // Only the table has the samples; the text equals the text of a run without the table.
    let output = short("send-lat", &[&samples, "--json"]);
    let run = document(&output);
    assert!(run["results"][0]["latency"]["samples_ns"].is_null());
    assert!(!stderr(&output).contains("WriteNum"));
    assert_eq!(read(&file).lines().count(), 61);
    for (arguments, message) in [
        ("write-lat --samples=x -D 1", "--samples needs a number of iterations"),
        ("write-lat --samples=x --until=1%", "--samples needs a number of iterations"),
        ("write-lat --samples=x -n 1000000001", "at most 1000000000 with --samples"),
        ("write-lat --samples=-", "expected the name of a file"),
    ] {
        let output = Fabric::new().run(&format!("{arguments} --loopback -d cxi99"));
        assert!(harness::assert_status(&output, 2).contains(message), "{arguments}");
    }
}

/// Options may be abbreviated, and other arguments may be wrong in any way.
#[test]
fn writes_requested_document_for_invalid_arguments() {
    for (arguments, is_json) in [
        (&["--json", "--iters=x"][..], true),
        (&["--iters=x", "--json=-"], true),
        (&["--unknown", "--json"], true),
        (&["--csv", "--json", "a", "b"], true),
        (&["--cs", "--unknown"], false),
    ] {
        let output = Fabric::new().run(&[&["write-lat"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        if is_json {
            assert_eq!(document(&output)["error"]["kind"], "usage");
        } else {
            assert!(stdout(&output).starts_with("tool,host,"), "{arguments:?}");
        }
    }
    for arguments in
        [&["--unknown"][..], &["--unknown", "--", "--json"], &["--unknown", "--json=file"]]
    {
        let output = Fabric::new().run(&[&["write-lat"], arguments].concat());
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn writes_one_document_for_a_failure() {
    let output = Fabric::new().run(&[
        "write-lat",
        "--loopback",
        "-d",
        "soft0",
        "-v",
        "7777",
        "--json",
        "-s",
        "8:16",
        "--expect",
        "max<1s",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let run = document(&output);
    assert_eq!((&run["status"], &run["exit_status"]), (&json!("failed"), &json!(1)));
    assert!(run["error"]["message"].as_str().unwrap().contains("7777"));
    assert!(run["addresses"].is_null());
    let results = run["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["extent"] == "none") && results.len() == 2);
    // A size that was not measured meets no expectation.
    let verdicts = run["expectations"].as_array().unwrap();
    assert!(verdicts.iter().all(|verdict| verdict["met"] == false) && verdicts.len() == 2);

    let output =
        Fabric::new().run(&["send-bw", "--loopback", "-d", "soft0", "-v", "7777", "--csv"]);
    let mut table = csv::Reader::from_reader(&output.stdout[..]);
    let rows: Vec<_> = table.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].iter().any(|field| field.contains("7777")), "{rows:?}");
}

/// A client whose server is killed in the middle of the second size.
#[test]
fn writes_measured_sizes_if_the_peer_is_killed() {
    let fabric = Fabric::new();
    let mut server = fabric.server("write-lat", &["-d", "soft0"]);
    let args = [
        "-d",
        "soft1",
        "-s",
        "8:16",
        "-D",
        "1",
        "--latency-gap=0",
        "--json",
        "--expect",
        "max<100s",
    ];
    let client = fabric.client_command("write-lat", &server, &args).spawn().unwrap();
    // The server says so after each size.
    while server.next_line() != "See client for results.\n" {}
    server.kill();
    let output = client.finish();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let run = document(&output);
    assert_eq!(run["error"]["kind"], "peer");
    assert_eq!(run["results"][0]["extent"], "complete");
    assert_ne!(run["results"][1]["extent"], "complete");
    let met: Vec<_> =
        run["expectations"].as_array().unwrap().iter().map(|entry| entry["met"] == true).collect();
    assert_eq!(met, [true, false]);
}

/// SIGTERM in the middle of the second size.
/// Both sides share a CPU with three loops.
#[test]
fn text_tells_time_without_a_cpu() {
    const SECONDS: f64 = 3.0;
    let fabric = Fabric::new();
    let on_one_cpu = |arguments: &[&str]| {
        let all = [&["--cpu-list", "0"], arguments].concat();
        fabric.command_of(Path::new("taskset"), &all)
    };
    let starts = |_| on_one_cpu(&["sh", "-c", "while :; do :; done"]).spawn();
    let loops = [(); 3].map(|()| starts(()).expect("taskset starts"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.json");
    let json = format!("--json={}", file.display());
    let run = "write-lat --loopback -d soft0 --latency-gap=0 -D 3";
    let arguments: Vec<&str> = [harness::CXIDIAG].into_iter().chain(run.split(' ')).collect();
    let output = on_one_cpu(&[&arguments[..], &[&json]].concat()).output();
    let output = output.expect("taskset starts");
    drop(loops);
    let text = harness::stdout(&output);
    let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let percent = document["results"][0]["cpu_wait_percent"].as_f64().unwrap();
    let line =
        format!("warning: CPU taken away for {percent:.0} % of the time at 8 bytes; see --cpu");
    let is_long = percent / 100.0 * SECONDS >= 0.6;
    if is_long {
        let warnings = harness::whole_stderr(&output);
        assert!(warnings.contains(&line), "{warnings}");
        // Scripts search the output for the size.
        assert_eq!(text.lines().filter(|line| line.contains(" 8 ")).count(), 1, "{text}");
    } else {
        println!("not tested: the CPU was taken away for {percent} % of the time only");
    }
}

#[test]
fn writes_each_format_if_interrupted() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let csv = format!("--csv={}", file("csv").display());
    let log = format!("--hdr-log={}", file("log").display());
    let server = fabric.server("write-lat", &["-d", "soft0"]);
    let args = [
        "-d",
        "soft1",
        "-s",
        "8:32",
        "-D",
        "2",
        "--latency-gap=0",
        "--json",
        "--percentiles",
        "--expect",
        "max<100s",
        &csv,
        &log,
    ];
    let mut client = fabric.client_command("write-lat", &server, &args).spawn().unwrap();
    let mut lines = BufReader::new(client.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("\n           8  ") {
        assert_ne!(lines.read_line(&mut text).unwrap(), 0, "{text}");
    }
    let killed = Command::new("kill").args(["-TERM", &client.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let output = client.finish();
    lines.read_to_string(&mut text).unwrap();
    let text = harness::without_waits(&text);
    assert_eq!(output.status.code(), Some(130), "{text}");
    let run = document(&output);
    assert_eq!((&run["status"], &run["exit_status"]), (&json!("interrupted"), &json!(130)));
    assert_eq!(run["error"]["kind"], "interrupted");
    let extents: Vec<_> =
        run["results"].as_array().unwrap().iter().map(|entry| entry["extent"].clone()).collect();
    assert_eq!((&extents[0], &extents[2]), (&json!("complete"), &json!("none")));
    assert_ne!(extents[1], "complete");
    let met: Vec<_> =
        run["expectations"].as_array().unwrap().iter().map(|entry| entry["met"] == true).collect();
    assert_eq!(met, [true, false, false]);
    assert!(
        text.contains("Interrupted: results are partial\nRDMA Size[B]  ")
            && text.contains("p50[us]"),
        "{text}"
    );
    let mut table = csv::Reader::from_path(file("csv")).unwrap();
    assert_eq!(table.records().map(Result::unwrap).count(), 3);
    let measured = extents.iter().filter(|extent| *extent != "none").count();
    let logged = hdr_log::intervals(&read(&file("log")));
    assert_eq!(logged.len(), measured);
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
