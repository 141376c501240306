//! `calibrate`: the latency tools on software NICs of known latency.

use std::process::Output;

use serde_json::Value;

use crate::harness::{self, Fabric, assert_status, assert_success, schema, stdout};

/// A calibration with few samples. The default device is a software NIC; with a library in its place,
/// the program has none.
fn few(more: &str) -> Output {
    let fabric = Fabric::new();
    let output = fabric.run(&format!("calibrate -n 20 --rounds=1 {more}"));
    fabric.assert_nothing_left();
    output
}

#[test]
fn reports_each_tool_on_each_link() {
    let output = few("--json");
    assert_success(&output);
    let schema = include_str!("../../docs/calibration.schema.json");
    let document = schema::document(schema, &stdout(&output));
    let tools = document["tools"].as_array().unwrap();
    let names: Vec<_> = tools
        .iter()
        .map(|of| of["tool"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["write-lat", "read-lat", "atomic-lat", "send-lat"]);
    for tool in tools {
        let crossings = if tool["tool"] == "send-lat" { 1.0 } else { 2.0 };
        let runs = tool["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 5);
        for run in runs {
            let at = |field: &str| run[field].as_f64().unwrap();
            let one_way = at("link_latency_ns") + at("link_jitter_ns") / 2.0;
            assert_eq!(at("known_ns"), crossings * one_way);
            // No packet arrives before it is due.
            let earliest = crossings * at("link_latency_ns");
            assert!(at("median_ns") >= earliest, "{run:#}");
            assert_eq!(at("median_offset_ns"), at("median_ns") - at("known_ns"));
        }
        let parts = tool["tool_ns"].as_f64().unwrap() + tool["nic_ns"].as_f64().unwrap();
        let offset = tool["offset_ns"].as_f64().unwrap();
        assert!((parts - offset).abs() < 1e-6 && offset > 0.0, "{tool:#}");
    }
}

#[test]
fn prints_both_tables_and_writes_document_to_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("calibration.json");
    let output = few(&format!("--json={}", file.display()));
    assert_success(&output);
    let text = stdout(&output);
    let (runs, summary) = text
        .split_once("\n\nTool ")
        .and_then(|(_, tables)| tables.split_once("\n\n"))
        .expect("two tables");
    assert_eq!(runs.lines().count(), 1 + 4 * 5, "{text}");
    assert_eq!(summary.lines().count(), 1 + 4, "{text}");
    let document = std::fs::read(file).unwrap();
    assert!(serde_json::from_slice::<Value>(&document).is_ok());
}

#[test]
fn refuses_hardware_and_invalid_arguments() {
    for (arguments, word) in [
        ("-d cxi0", "only a software NIC"),
        ("-d eth0", "eth0"),
        ("-n 0", "--iters"),
        ("--rounds=0", "--rounds"),
        ("soft0", "unexpected argument"),
    ] {
        let errors = assert_status(&few(arguments), 2);
        assert!(errors.contains(word), "{arguments}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn passes_on_failure_of_a_run() {
    let fabric = Fabric::new();
    let mut command = fabric.command("calibrate");
    command.env("CXIDIAG_FABRIC_DIR", "/proc/none");
    let errors = assert_status(&harness::finish(command), 1);
    assert!(
        errors.contains("write-lat failed: ") && errors.contains("\nhint: "),
        "{errors}"
    );
}
