//! The clock of a run and the tool's own error: their choice, and what the outputs show of them.

use serde_json::Value;

use super::{document, short};
use crate::harness::machine::MadeUp;
use crate::harness::{Fabric, assert_success, finish, masked, stderr, stdout};

const CLOCK_SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The option for the counter of this architecture, its name, its clock source, and the option for
/// the counter of the other architecture.
const COUNTER: [&str; 4] = if cfg!(target_arch = "x86_64") {
    ["--clock=tsc", "TSC", "tsc", "--clock=cntvct"]
} else {
    ["--clock=cntvct", "CNTVCT", "arch_sys_counter", "--clock=tsc"]
};

/// A short run with this clock on a machine with this clock source.
fn run_on(clock_source: &str, tool: &str, clock: &str) -> std::process::Output {
    let machine = MadeUp::new(&[(CLOCK_SOURCE, clock_source)]);
    let fabric = Fabric::new();
    let args = format!("{tool} --loopback -d soft0 -n 5 {clock} --json --quiet");
    finish(machine.seen_by(fabric.command(&args)))
}

/// The clock in the document of a short run.
fn clock_of(clock_source: &str, tool: &str, option: &str) -> Value {
    let output = run_on(clock_source, tool, option);
    assert_success(&output);
    document(&output)["clock"].clone()
}

/// Whether the processor of this machine has a counter with a constant rate.
fn has_counter() -> bool {
    let usable = run_on(COUNTER[2], "write-lat", COUNTER[0]);
    usable.status.success()
}

#[test]
fn latency_tools_measure_with_counter_that_kernel_uses() {
    if !has_counter() {
        return;
    }
    for tool in ["write-lat", "read-lat", "atomic-lat", "send-lat"] {
        let clock = clock_of(COUNTER[2], tool, "--clock=auto");
        assert_eq!(clock["name"], COUNTER[1], "{tool}");
        assert!(clock["frequency_hz"].as_f64().unwrap() > 1e6, "{clock}");
        assert!(clock["drift_ppm"].is_number(), "{clock}");
    }
}

#[test]
fn measures_with_kernel_clock_where_counters_may_differ() {
    for (clock_source, option) in
        [("kvm-clock", "--clock=auto"), (COUNTER[2], "--clock=monotonic-raw")]
    {
        for tool in ["write-lat", "send-lat"] {
            let clock = clock_of(clock_source, tool, option);
            assert_eq!(clock["name"], "CLOCK_MONOTONIC_RAW", "{tool} {option}");
            assert!(clock["frequency_hz"].is_null() && clock["drift_ppm"].is_null());
        }
    }
}

#[test]
fn refuses_counter_that_is_not_reliable() {
    for (clock_source, option) in [("hpet", COUNTER[0]), (COUNTER[2], COUNTER[3])] {
        let output = run_on(clock_source, "write-lat", option);
        assert_eq!(output.status.code(), Some(2));
        let text = stderr(&output);
        let (_, value) = option.split_once('=').unwrap();
        assert!(text.contains(&format!("'{value}' for --clock: ")), "{text}");
        assert!(text.contains("hint: leave out --clock"), "{text}");
    }
}

#[test]
fn bandwidth_tool_takes_no_clock() {
    let output = short("send-bw", &["--clock=auto"]);
    assert_eq!(output.status.code(), Some(2));
    let output = short("send-bw", &["--json"]);
    assert_eq!(document(&output)["clock"]["name"], "CLOCK_MONOTONIC_RAW");
}

#[test]
fn json_of_latency_tools_has_own_error() {
    for tool in ["write-lat", "read-lat", "atomic-lat", "send-lat"] {
        let run = document(&short(tool, &["--json"]));
        let error = &run["measurement_error"];
        for part in ["clock", "issue", "poll", "path"] {
            let at = |field: &str| error[part][field].as_u64().unwrap();
            let ordered = [at("min_ns"), at("p50_ns"), at("p99_ns"), at("max_ns")];
            assert!(at("count") > 1000 && ordered.is_sorted(), "{error:#}");
        }
        assert!(error["path"]["min_ns"].as_u64() > Some(0), "{error:#}");
        let percentiles = run["results"][0]["latency"]["percentiles"].as_array();
        for percentile in percentiles.unwrap() {
            assert!(percentile["within_own_spread"].is_boolean(), "{percentile}");
        }
    }
    let run = document(&short("send-bw", &["--json"]));
    assert!(run["measurement_error"].is_null());
}

#[test]
fn text_shows_own_error_only_on_request() {
    let text = |options: &[&str]| {
        let output = short("write-lat", options);
        assert_success(&output);
        stdout(&output)
    };
    let plain = masked(&text(&[]));
    let shown = text(&["--show-error"]);
    let (table, line) = shown.split_once("Own error in ns").expect("the line");
    assert_eq!(masked(table), plain);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains("issue and poll "), "{line}");
}
