//! `--until`: a run that ends when its median is stable.

use std::process::Output;

use super::{document, short};
use crate::harness::{Fabric, assert_status, assert_success, finish, stdout};

/// A run until the median is known to `limit`, at most `seconds`, on a link whose jitter is far
/// larger than a nanosecond.
fn run(tool: &str, limit: &str, seconds: u32, more: &str) -> Output {
    let args = format!(
        "{tool} --loopback -d soft0 --latency-gap=0 --until={limit} -D {seconds} --quiet {more}"
    );
    let fabric = Fabric::new();
    let mut command = fabric.command(&args);
    command.env("CXIDIAG_LINK", "latency=1us,jitter=20us");
    finish(command)
}

const LATENCY_TOOLS: [&str; 4] = ["write-lat", "read-lat", "atomic-lat", "send-lat"];

#[test]
fn ends_when_median_is_known_to_limit() {
    for tool in LATENCY_TOOLS {
        // Any interval lies within this limit, so the first decision ends the run.
        let output = run(tool, "100000%", 60, "--json");
        assert_success(&output);
        let run = document(&output);
        assert_eq!(run["options"]["until_percent"], 100_000.0);
        assert_eq!(run["options"]["duration_s"], 60);
        let result = &run["results"][0];
        assert_eq!(result["count"], 100, "{tool}");
        let latency = &result["latency"];
        assert_eq!(latency["median_is_stable"], true);
        let median = latency["percentiles"][0]["value_ns"].as_u64();
        assert!(latency["median_low_ns"].as_u64() <= median, "{latency:#}");
        assert!(latency["median_high_ns"].as_u64() >= median, "{latency:#}");
    }
}

#[test]
fn reports_unstable_median_at_end_of_duration() {
    for tool in LATENCY_TOOLS {
        let output = run(tool, "0.000001%", 1, "--json");
        let errors = assert_status(&output, 3);
        assert!(errors.contains("unstable: the median"), "{errors}");
        let run = document(&output);
        assert_eq!(run["status"], "unmet");
        assert_eq!(run["results"][0]["latency"]["median_is_stable"], false);
        assert_eq!(run["results"][0]["extent"], "complete");
    }
    let output = run("write-lat", "0.000001%", 1, "");
    assert_status(&output, 3);
    let text = stdout(&output);
    let row = text.lines().rev().nth(1).unwrap();
    assert!(row.contains("unstable") && row.contains(" to "), "{text}");
}

#[test]
fn prints_median_and_interval_of_stable_size() {
    let output = run("write-lat", "100000%", 60, "-s 8:16");
    assert_success(&output);
    let text = stdout(&output);
    let (_, block) = text.split_once("Median[us]").expect("the block");
    assert!(!block.contains("unstable"), "{text}");
    for row in block.lines().skip(1).take(2) {
        assert!(row.contains(" to ") && row.ends_with("  100"), "{text}");
    }
}

#[test]
fn refuses_options_that_exclude_until() {
    for options in [&["--until=1%", "-n", "5"][..], &["--until=1%", "--report-all"], &["--until=0"]]
    {
        let output = Fabric::new().run(&[&["write-lat", "h"], options].concat());
        assert_status(&output, 2);
    }
    assert_status(&short("send-bw", &["--until=1%"]), 2);
}
