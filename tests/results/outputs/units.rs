//! What a user chooses of the figures: percentiles, units of bandwidths and times.

use crate::harness::{Fabric, assert_success, stdout};

use super::{document, short};

/// Text, JSON and CSV have the listed percentiles; the documents also have the usual ones.
#[test]
fn percentiles_are_those_of_the_list() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let csv = format!("--csv={}", file.path().display());
    let output = short("write-lat", &["--percentiles=95,25.5", "--json", "--quiet", &csv]);
    let run = document(&output);
    assert_eq!(run["options"]["percentiles"], serde_json::json!([25.5, 95.0]));
    let percentiles = &run["results"][0]["latency"]["percentiles"];
    let percents: Vec<_> = percentiles
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["percent"].as_f64())
        .collect();
    assert_eq!(percents, [25.5, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0].map(Some));
    let mut table = csv::Reader::from_path(file.path()).expect("a table");
    let titles = table.headers().expect("titles").clone();
    assert_eq!(titles.iter().rev().take(2).collect::<Vec<_>>(), ["p95_ns", "p25.5_ns"]);
    let row = table.records().next().expect("a row").expect("a row");
    assert_eq!(row[titles.len() - 1], percentiles[3]["value_ns"].to_string());
    let text = stdout(&short("write-lat", &["--percentiles=95,25.5"]));
    let header = text.lines().find(|line| line.contains("p95[us]")).expect("a header");
    let words: Vec<_> = header.split_whitespace().skip(2).collect();
    assert_eq!(words, ["p25.5[us]", "p95[us]"]);
}

/// The same bandwidth in each unit, with the unit in the title; a server has a unit of its own.
#[test]
fn bandwidths_are_in_the_chosen_unit() {
    for (unit, bytes) in [("MB/s", 1e6), ("GB/s", 1e9), ("MiB/s", 1_048_576.0), ("Gb/s", 125e6)] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let (unit_option, json) =
            (format!("--unit={unit}"), format!("--json={}", file.path().display()));
        let output = short("send-bw", &[&unit_option, &json]);
        assert_success(&output);
        let text = stdout(&output);
        let (_, table) =
            text.split_once(&format!("  BW[{unit}]  PktRate[Mpkt/s]\n")).expect("titles");
        let shown: f64 =
            table.split_whitespace().nth(2).expect("a bandwidth").parse().expect("a number");
        let run = std::fs::read_to_string(file.path()).expect("a document");
        let run: serde_json::Value = serde_json::from_str(&run).expect("JSON");
        let bandwidth = run["results"][0]["bandwidth"]["bandwidth_bytes_per_s"].as_f64();
        let exact = bandwidth.expect("a bandwidth") / bytes;
        assert!((shown - exact).abs() <= 0.0051, "{shown} {unit}, not {exact}");
    }
    let fabric = Fabric::new();
    let server = fabric.server("write-bw", "-d soft0 --unit=Gb/s");
    assert_success(&fabric.client("write-bw", &server, "-d soft1 -n 2 -l 4"));
    let text = stdout(&server.finish());
    assert!(text.contains("  BW[Gb/s]  "), "{text}");
}

#[test]
fn document_has_the_exact_duration() {
    for (duration, seconds) in [("300ms", "0.3"), ("1", "1")] {
        let options = ["-D", duration, "--json", "--quiet"];
        let output = Fabric::new()
            .run(&[&["write-lat", "--loopback", "-d", "soft0"][..], &options].concat());
        assert_eq!(document(&output)["options"]["duration_s"].to_string(), seconds);
    }
}
