//! What surveys find: good fabrics, and fabrics with faults.

use std::fs;
use std::process::Output;

use serde_json::Value;

use super::{SHORT, bad, device, document};
use crate::cpus::{Work, cpus};
use crate::harness::{Fabric, assert_status, finish, schema, stderr, stdout};

/// Runs a survey with variables of the environment. Returns its output and document.
fn survey(arguments: &str, variables: &[(&str, &str)]) -> (Output, Value) {
    let fabric = Fabric::new();
    let mut command = fabric.command(&format!("survey {arguments} --no-why --json"));
    command.envs(variables.iter().copied());
    let output = finish(command);
    let document = document(&output);
    fabric.assert_nothing_left();
    (output, document)
}

/// Why NICs are untested on a busy machine: latencies of a few microseconds vary there, also if no
/// process waits for long.
const BUSY: [&str; 5] = [
    "waited for its CPU",
    "late for its slot",
    "the pairs differ too much",
    "Busy CPUs:",
    "busy CPUs",
];

/// Runs surveys of a fabric with a fault until one finds it. On a busy machine, too many pairs may
/// be untested for a verdict, and the exit status is 4. Then the next survey, which gets its
/// options, has longer slots. One pair at a time needs the fewest CPUs.
#[track_caller]
fn bad_one_of_ten<T>(survey: impl Fn(&str) -> (Output, T)) -> (Output, T) {
    for attempt in 0..10 {
        let pair_time = 20 << attempt.min(4);
        let (output, found) = survey(&format!("--max-active=1 --pair-time={pair_time}ms"));
        if output.status.code() != Some(4) {
            assert_status(&output, 3);
            return (output, found);
        }
        let text = stdout(&output);
        assert!(BUSY.iter().any(|reason| text.contains(reason)), "{text}");
    }
    panic!("ten surveys have not measured enough pairs");
}

/// The operations before the measured ones take 200 ms, and the longest window of a pair 100 ms.
#[test]
fn operation_that_began_late_does_not_lack_its_answer() {
    let latency = [("CXIDIAG_LINK", "latency=10ms")];
    let (output, _) = survey("--loopback=3 --pairs=all --pair-time=20ms write-lat", &latency);
    assert_status(&output, 4);
}

#[test]
fn measures_all_pairs_with_each_tool() {
    let _cpus = cpus(Work::Measures);
    let (output, document) =
        survey(&format!("--loopback=4 --pairs=all {SHORT} write-lat send-lat write-bw"), &[]);
    // A process may have waited for its CPU: such a pair is untested, and nothing is bad.
    assert!([Some(0), Some(4)].contains(&output.status.code()), "{}", stdout(&output));
    let verdict = &document["verdict"];
    assert_eq!(verdict["planned"], 3 * 6);
    assert_eq!(bad(&document), (vec![], 0), "{}", stdout(&output));
    let devices: Vec<String> = (0..4).map(|nic| device(&document, nic)).collect();
    assert_eq!(devices, ["soft0", "soft1", "soft2", "soft3"]);
    for (matrix, is_bandwidth) in
        verdict["matrices"].as_array().unwrap().iter().zip([false, false, true])
    {
        let test = &document["setup"]["tests"][matrix["test"].as_u64().unwrap() as usize];
        assert_eq!(test["of_bandwidth"], is_bandwidth);
        for cell in matrix["cells"].as_array().unwrap() {
            let figure = cell[2].as_f64().unwrap_or_else(|| panic!("{test}: {cell}"));
            // Nanoseconds, or bytes per second.
            let plausible = if is_bandwidth { 1e6..1e12 } else { 100.0..1e8 };
            assert!(plausible.contains(&figure), "{test}: {cell}");
        }
    }
}

#[test]
fn names_slow_nic() {
    let _cpus = cpus(Work::Measures);
    let (output, directory) = bad_one_of_ten(|options| {
        let fabric = Fabric::new();
        let directory = tempfile::tempdir().unwrap();
        let arguments = format!(
            "survey --loopback=5 {options} --no-why --bad-nodes=bad --json=found.json write-lat"
        );
        let mut command = fabric.command(&arguments);
        command.env("CXIDIAG_LINK", "nic=2,latency=5ms").current_dir(directory.path());
        (finish(command), directory)
    });
    let text = stdout(&output);
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let document =
        schema::document(include_str!("../../docs/survey.schema.json"), &read("found.json"));
    assert_eq!(bad(&document), (vec!["soft2".to_owned()], 0), "{text}");
    assert_eq!(read("bad"), "", "node2 is no node of the cluster");
    assert!(stderr(&output).contains("--bad-nodes (the file stays empty"));
    assert!(text.starts_with("bad: node2 soft2 ("), "{text}");
    assert!(text.contains("node2 soft2: writes "), "{text}");
    assert!(text.contains("software NICs: no Cassini hardware involved"), "{text}");
}

#[test]
fn names_nic_whose_operations_fail() {
    let _cpus = cpus(Work::Measures);
    let failing = ("CXIDIAG_FAULTS", "nic=1,error=PT_DISABLED:0.9");
    let (output, document) =
        bad_one_of_ten(|options| survey(&format!("--loopback=5 {options} write-lat"), &[failing]));
    assert_eq!(bad(&document), (vec!["soft1".to_owned()], 0), "{}", stdout(&output));
    let evidence = &document["verdict"]["culprits"][0]["evidence"][0];
    assert_eq!(evidence["source"], "failure");
    assert!(evidence["failure"].as_str().unwrap().contains("PT_DISABLED"));
}

/// A virtual function is at the place of its NIC (libcxi.md 2.2).
#[test]
fn measures_with_virtual_functions_and_says_so() {
    let _cpus = cpus(Work::Waits);
    let variables = [("CXIDIAG_SHS", "next"), ("CXIDIAG_NIDS", "0x12,0x200012,0x13")];
    let (_, document) = survey(&format!("--loopback=3 {SHORT} write-lat"), &variables);
    assert_eq!(document["roster"]["nics"][1]["nid"], 0x20_0012);
    let summary = document["summary"].as_str().unwrap();
    assert!(summary.starts_with("undecided: latencies not judged: "), "{summary}");
    assert_eq!(bad(&document), (vec![], 0));
}

/// A NIC that cannot be opened was not measured, so it is not bad.
#[test]
fn nic_without_link_is_untested() {
    let _cpus = cpus(Work::Waits);
    let (output, document) = survey(
        &format!("--loopback=4 {SHORT} write-lat"),
        &[("CXIDIAG_FAULTS", "nic=1,up-fail=unsupported-cable")],
    );
    assert_eq!(output.status.code(), Some(4), "{}", stdout(&output));
    let failure = document["roster"]["nics"][1]["failure"].as_str().expect("a reason");
    let reason = "the link of soft1 is down (did not come up: unsupported-cable, at ";
    assert!(failure.starts_with(reason), "{failure}");
    assert_eq!(bad(&document), (vec![], 0));
}
