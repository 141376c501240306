//! `why`: the cause of one NIC, beside good ones and alone.

use std::fs;
use std::num::NonZero;
use std::process::Output;
use std::thread;

use serde_json::Value;

use crate::SHORT;
use crate::cpus::{Work, cpus};
use crate::harness::{Fabric, Server, assert_status, finish, schema, stderr, stdout};
use crate::servers::server_command;

/// A narrow PCIe link of `soft2`, and what it makes slow (vector 1 of diagnosis.md 8).
const NARROW: [(&str, &str); 2] = [
    ("CXIDIAG_LINK", "latency=20us,bandwidth=200MB/s;nic=2,latency=20us,bandwidth=110MB/s"),
    ("CXIDIAG_FAULTS", "pcie-path=16@16;nic=2,pcie-path=8@16,rx-bandwidth=110MB/s"),
];

/// The document of a diagnosis, which is valid by its schema.
fn document(output: &Output) -> Value {
    schema::document(include_str!("../../docs/why.schema.json"), &stdout(output))
}

/// Runs `why` with these variables.
fn why(fabric: &Fabric, arguments: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = fabric.command(&format!("why {arguments}"));
    for (name, value) in variables {
        command.env(name, value);
    }
    finish(command)
}

/// The first cause and its confidence.
fn first(document: &Value) -> Option<(&str, &str)> {
    let why = document["why"][0]["causes"].get(0)?;
    Some((why["cause"].as_str()?, why["confidence"].as_str()?))
}

/// The outcome of a test; `None` if the NIC was not measured in it.
fn outcome<'a>(document: &'a Value, test: &str) -> Option<&'a str> {
    let mut tests = document["tests"].as_array().unwrap().iter();
    let measured = tests.find(|entry| entry["test"] == test && entry["own"].is_number());
    measured?["outcome"].as_str()
}

/// Whether this cause is named.
fn has_cause(document: &Value, id: &str) -> bool {
    let causes = document["why"][0]["causes"].as_array();
    causes.is_some_and(|all| all.iter().any(|why| why["cause"] == id))
}

/// The codes of the tests.
fn codes(document: &Value) -> Vec<&str> {
    let tests = document["tests"].as_array().unwrap();
    let codes = tests.iter().map(|test| test["test"].as_str().unwrap());
    codes.collect()
}

/// Whether processes waited for CPUs, so that a diagnosis need not be complete.
fn is_disturbed(document: &Value) -> bool {
    let note = document["why"][0]["left_out"].as_str();
    note.is_some_and(|note| note.contains("waited"))
}

/// Diagnoses a NIC. On a machine whose CPUs are busy, document and exit status may differ from
/// `expected`: then the document says so, and names nothing with certainty. Models of clusters show
/// each verdict on any machine (`src/cluster/why/verdict_tests.rs`).
#[track_caller]
fn assert_diagnosed(
    arguments: &str,
    variables: &[(&str, &str)],
    expected: impl Fn(&Value, Option<i32>) -> bool,
) {
    let _cpus = cpus(Work::Measures);
    let fabric = Fabric::new();
    let output = why(&fabric, &format!("{arguments} {SHORT} --json"), variables);
    let document = document(&output);
    fabric.assert_nothing_left();
    let status = output.status.code();
    assert_eq!(document["exit_status"], status.unwrap());
    if !expected(&document, status) {
        let is_certain = first(&document).is_some_and(|(_, confidence)| confidence == "because");
        let is_unclear = document["summary"].as_str().unwrap().contains("unclear");
        let may_differ = is_disturbed(&document) || is_unclear;
        assert!(may_differ && !is_certain, "{document:#}");
    }
}

/// Whether the first line begins so.
fn begins(document: &Value, expected: &str) -> bool {
    let summary = document["summary"].as_str();
    summary.is_some_and(|summary| summary.starts_with(expected))
}

#[test]
fn names_cause_beside_good_nics() {
    assert_diagnosed("soft2 --loopback=3", &NARROW, |document, status| {
        let suspect = document["suspect"].as_u64().expect("a NIC") as usize;
        assert_eq!(document["roster"]["nics"][suspect]["device"], "soft2");
        assert_eq!(document["controls"].as_array().unwrap().len(), 2);
        // Flows between groups say nothing about a NIC.
        let codes = codes(document);
        assert!(!codes.iter().any(|code| code.starts_with('O')), "{codes:?}");
        // What its files prove is named however busy the CPUs are.
        assert!(has_cause(document, "pcie-narrow"), "{document:#}");
        let words = document["summary"].as_str().unwrap().split_whitespace();
        assert!(words.count() <= 25, "{document:#}");
        first(document) == Some(("pcie-narrow", "because"))
            && status == Some(3)
            && begins(document, "bad: soft2: because a PCIe link ")
    });
}

/// The writes of a NIC with a slow link take as long as the writes of a slow CPU. Hops do not.
#[test]
fn slow_link_is_told_from_a_slow_cpu() {
    let link = [("CXIDIAG_LINK", "latency=20us;nic=2,latency=60us")];
    assert_diagnosed("soft2 --loopback=3", &link, |document, status| {
        let excluded = document["why"][0]["excluded"].as_array();
        let is_excluded = excluded.is_some_and(|all| all.iter().any(|id| id == "cpu-slow"));
        outcome(document, "T") == Some("slower")
            && is_excluded
            && first(document).is_none()
            && status == Some(3)
    });
}

/// The services of a NIC, as the software NIC keeps them: service 1 with seven triggered
/// operations.
const FEW_TRIGGERED: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 1 \
                             2047 0 1024 0 512 0 2047 0 2047 0 16384 0 7 7 1022 0 0 0 0 1 0\n";

#[test]
fn service_with_few_triggered_operations_ends_no_diagnosis() {
    let _cpus = cpus(Work::Measures);
    let fabric = Fabric::new();
    // The address of soft2.
    fabric.write_services(0x14, FEW_TRIGGERED);
    let link = [("CXIDIAG_LINK", "latency=20us;nic=2,latency=60us")];
    let output = why(&fabric, &format!("soft2 --loopback=3 {SHORT} --json"), &link);
    let document = document(&output);
    assert_eq!(outcome(&document, "T"), None);
    let causes = document["why"][0]["causes"].as_array().unwrap();
    let evidence = causes.iter().flat_map(|why| why["evidence"].as_array().unwrap());
    let texts: Vec<&str> = evidence.filter_map(|item| item["text"].as_str()).collect();
    let reason = "hops without a CPU not measured: --hops=12: each side needs 8 triggered \
                  operations, and service 1 of soft2 has 7 available: at most --hops=10";
    assert!(texts.contains(&reason) || is_disturbed(&document), "{document:#}");
}

#[test]
fn healthy_nic_is_good() {
    assert_diagnosed("soft1 --loopback=3", &NARROW[..1], |document, status| {
        assert_ne!(status, Some(3), "{document:#}");
        status == Some(0)
            && first(document).is_none()
            && begins(document, "good: soft1 is as fast as 2 good NICs")
    });
}

#[test]
fn software_nic_alone_has_nothing_to_be_compared_with() {
    assert_diagnosed("soft1", &[], |document, status| {
        let tests = document["tests"].as_array().unwrap();
        let codes = codes(document);
        for code in ["L1", "L2-L1", "L3-L1", "L5-L1", "L4", "B1", "B3"] {
            assert!(codes.contains(&code), "{codes:?}");
        }
        assert!(tests.iter().all(|test| test["others"].is_null()), "{document:#}");
        let note = document["why"][0]["left_out"].as_str().unwrap();
        assert!(note.contains("no good NIC was measured beside it"), "{note}");
        status == Some(4)
            && tests.iter().any(|test| test["own"].is_number())
            && begins(document, "undecided: soft1 cannot be compared: no figures of a healthy ")
    });
}

#[test]
fn cause_of_nic_alone_is_probable() {
    assert_diagnosed("soft2", &NARROW, |document, status| {
        first(document) == Some(("pcie-narrow", "probably")) && status == Some(3)
    });
}

#[test]
fn failures_have_a_cause() {
    let faults = [("CXIDIAG_FAULTS", "nic=2,loss=0.9,retry-handler=off")];
    assert_diagnosed("soft2 --loopback=3", &faults, |document, status| {
        let tests = document["tests"].as_array().unwrap();
        first(document) == Some(("retry-off", "because"))
            && status == Some(3)
            && tests.iter().any(|test| test["failure"].is_string())
    });
}

/// Nothing is sent to peers that may be parked (diagnosis.md 6.1). Links are slow: without that,
/// the NIC may be the slower one because of pauses of the machine that no process sees.
#[test]
fn parked_peer_is_also_found_if_nothing_fails() {
    let faults = [
        ("CXIDIAG_LINK", "latency=20us,bandwidth=200MB/s"),
        ("CXIDIAG_FAULTS", "nic=2,set=/run/cxi/soft2/parked_nids:1"),
    ];
    assert_diagnosed("soft2 --loopback=3", &faults, |document, status| {
        let sent = ["P1", "B4"].map(|test| outcome(document, test));
        assert_eq!(sent, [None; 2], "{document:#}");
        first(document) == Some(("parked", "also_found"))
            && outcome(document, "P2").is_some()
            && status == Some(3)
    });
}

/// A process may use too few CPUs to copy memory, and copies on busy CPUs show nothing.
#[test]
fn slow_copies_point_to_memory() {
    if thread::available_parallelism().map_or(1, NonZero::get) < 4 {
        println!("not tested: fewer than 4 CPUs");
        return;
    }
    let faults = [
        ("CXIDIAG_LINK", "latency=20us,bandwidth=200MB/s;nic=2,latency=20us,bandwidth=130MB/s"),
        ("CXIDIAG_FAULTS", "nic=2,rx-bandwidth=130MB/s,memory=0.5"),
    ];
    assert_diagnosed("soft2 --loopback=3", &faults, |document, status| {
        outcome(document, "M") == Some("slower")
            && first(document) == Some(("memory-bw", "possibly"))
            && status == Some(3)
    });
}

#[test]
fn text_has_verdict_table_and_cause() {
    let _cpus = cpus(Work::Measures);
    let fabric = Fabric::new();
    let faults = [("CXIDIAG_FAULTS", "pcie-path=16@16;nic=1,pcie-path=8@16")];
    let output = why(&fabric, &format!("soft1 --loopback=2 {SHORT}"), &faults);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "software NIC: no Cassini hardware involved");
    assert!(lines[3].ends_with("soft1  good NICs"), "{text}");
    assert!(text.contains("\nL1 "), "{text}");
    assert!(text.contains("\nWhy\nnode1 soft1: "), "{text}");
    let quiet = why(&fabric, &format!("soft1 {SHORT} -q"), &[]);
    assert_eq!(stdout(&quiet).lines().count(), 1);
}

#[test]
fn servers_have_the_good_nics() {
    let _cpus = cpus(Work::Measures);
    let fabric = Fabric::new();
    let server = |host, port: &str| {
        let mut command = server_command(&fabric, host, port);
        for (name, value) in NARROW {
            command.env(name, value);
        }
        Server::start(command)
    };
    let first_server = server(1, "0");
    let port = first_server.port.clone();
    let others = [3, 4].map(|host| server(host, &port));
    let directory = tempfile::tempdir().expect("a directory");
    let ticket = directory.path().join("ticket.md");
    let arguments = format!(
        "soft2 --peer=127.0.0.[1,3-4,9] --port={port} {SHORT} --json --ticket={}",
        ticket.display()
    );
    let output = why(&fabric, &arguments, &NARROW);
    let document = document(&output);
    assert!(has_cause(&document, "pcie-narrow"), "{document:#}");
    let nics = document["roster"]["nics"].as_array().unwrap();
    let devices: Vec<&str> = nics.iter().map(|nic| nic["device"].as_str().unwrap()).collect();
    assert_eq!(devices, ["soft2", "soft1", "soft3", "soft4"]);
    assert_eq!(document["suspect"], 0);
    assert_eq!(document["controls"].as_array().unwrap().len(), 3);
    let note = stderr(&output);
    let left_out = "cxidiag why: left out: 127.0.0.9: cannot connect to 127.0.0.9";
    assert!(note.starts_with(left_out), "{note}");
    let page = fs::read_to_string(ticket).expect("a ticket");
    let title = format!("# {}\n", document["summary"].as_str().unwrap());
    assert!(page.starts_with(&title), "{page}");
    for mut server in [first_server].into_iter().chain(others) {
        server.wait_for("done");
    }
}

#[test]
fn one_peer_leaves_out_what_passes_between_nics() {
    let _cpus = cpus(Work::Measures);
    let fabric = Fabric::new();
    let server = Server::start(server_command(&fabric, 1, "0"));
    let arguments = format!("soft2 --peer=127.0.0.1 --port={} {SHORT} --json", server.port);
    let output = why(&fabric, &arguments, &[]);
    let document = document(&output);
    let tests = document["tests"].as_array().unwrap();
    let between = ["B4", "B5", "P1", "P2"];
    let is_between = |value: &Value| between.contains(&value["test"].as_str().unwrap());
    assert!(!tests.iter().any(is_between), "{document:#}");
    let note = document["why"][0]["left_out"].as_str().unwrap();
    assert!(note.contains("one peer: what passes between two NICs"), "{note}");
}

#[test]
fn fails_in_one_line_without_suspect_or_good_nic() {
    let fabric = Fabric::new();
    let server = Server::start(server_command(&fabric, 1, "0"));
    let port = &server.port;
    for (arguments, message) in [
        ("cxi99".to_owned(), "there is no cxi99: "),
        (
            "soft1 --loopback=2 --svc-id=99".to_owned(),
            "soft1 cannot measure: cannot use service 99 of soft1",
        ),
        (
            format!("soft2 --peer=127.0.0.9 --port={port}"),
            "no good NIC to compare with: 127.0.0.9: cannot connect to 127.0.0.9 port ",
        ),
        (
            format!("soft1 --peer=127.0.0.1 --port={port}"),
            "127.0.0.1 soft1: a NIC of the same node is no control",
        ),
    ] {
        let output = why(&fabric, &arguments, &[]);
        assert_status(&output, 1);
        let text = stderr(&output);
        assert!(text.contains(message), "{arguments}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert_eq!(stdout(&output), "", "{arguments}");
    }
}
