//! `why`: the cause of one NIC, beside good ones and alone.

use std::fs;
use std::process::Output;

use serde_json::Value;

use crate::alone;
use crate::harness::{Fabric, Server, assert_status, finish, schema, stderr, stdout};
use crate::survey::server_command;

/// Times of a test in milliseconds: longer ones where CPUs are busy.
const PAIR_TIMES: [u32; 4] = [20, 40, 60, 80];

/// A narrow PCIe link of `soft2`, and what it makes slow (vector 1 of diagnosis.md 8).
const NARROW: [(&str, &str); 2] = [
    (
        "CXIDIAG_LINK",
        "latency=20us,bandwidth=200MB/s;nic=2,latency=20us,bandwidth=110MB/s",
    ),
    (
        "CXIDIAG_FAULTS",
        "pcie-path=16@16;nic=2,pcie-path=8@16,rx-bandwidth=110MB/s",
    ),
];

const BESIDE_OTHERS: &str = "node2 soft2";

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

/// Returns the first cause and its confidence.
fn first(document: &Value) -> Option<(&str, &str)> {
    let why = document["why"][0]["causes"].get(0)?;
    Some((why["cause"].as_str()?, why["confidence"].as_str()?))
}

/// Returns whether processes waited for CPUs, so that a diagnosis need not be complete.
fn is_disturbed(document: &Value) -> bool {
    let note = document["why"][0]["left_out"].as_str();
    note.is_some_and(|note| note.contains("waited"))
}

#[test]
fn names_cause_beside_good_nics() {
    let _alone = alone();
    for pair_time in PAIR_TIMES {
        let fabric = Fabric::new();
        let arguments = format!("soft2 --loopback=4 --pair-time={pair_time}ms --json");
        let output = why(&fabric, &arguments, &NARROW);
        let document = document(&output);
        fabric.assert_nothing_left();
        assert_status(&output, 3);
        assert_eq!(document["conclusion"], "bad");
        // The file proves it at least.
        let (cause, confidence) = first(&document).expect("a cause");
        assert_eq!(cause, "pcie-narrow");
        let suspect = document["suspect"].as_u64().expect("a NIC") as usize;
        assert_eq!(document["roster"]["nics"][suspect]["device"], "soft2");
        assert_eq!(document["controls"].as_array().unwrap().len(), 3);
        if confidence == "because" {
            return;
        }
        assert!(is_disturbed(&document), "{document:#}");
    }
}

#[test]
fn healthy_nic_is_good() {
    let _alone = alone();
    for pair_time in PAIR_TIMES {
        let fabric = Fabric::new();
        let arguments = format!("soft1 --loopback=3 --pair-time={pair_time}ms --json");
        let output = why(&fabric, &arguments, &NARROW[..1]);
        let document = document(&output);
        if output.status.success() {
            let summary = document["summary"].as_str().unwrap();
            assert_eq!(summary, "good: soft1 is as fast as 2 good NICs");
            assert_eq!(first(&document), None);
            return;
        }
        assert_status(&output, 4);
        let summary = document["summary"].as_str().unwrap();
        assert!(
            is_disturbed(&document) || summary.contains("unclear"),
            "{document:#}"
        );
    }
}

#[test]
fn software_nic_alone_has_nothing_to_be_compared_with() {
    let _alone = alone();
    let fabric = Fabric::new();
    let output = why(&fabric, "soft1 --pair-time=20ms --json", &[]);
    let document = document(&output);
    let summary = assert_status(&output, 4);
    assert!(
        summary.contains("no figures of a healthy software NIC are known; use --peer"),
        "{summary}"
    );
    let tests = document["tests"].as_array().unwrap();
    let codes: Vec<&str> = tests
        .iter()
        .map(|of| of["test"].as_str().unwrap())
        .collect();
    for code in ["L1", "L2-L1", "L3-L1", "L5-L1", "L4", "B1", "B3"] {
        assert!(codes.contains(&code), "{codes:?}");
    }
    let has_own = |of: &Value| of["own"].is_number() && of["others"].is_null();
    assert!(tests.iter().any(has_own), "{document:#}");
    let note = document["why"][0]["left_out"].as_str().unwrap();
    assert!(
        note.contains("no good NIC was measured beside it"),
        "{note}"
    );
}

#[test]
fn cause_of_nic_alone_is_probable() {
    let _alone = alone();
    let fabric = Fabric::new();
    let output = why(&fabric, "soft2 --pair-time=20ms --json", &NARROW);
    assert_status(&output, 3);
    let document = document(&output);
    assert_eq!(first(&document), Some(("pcie-narrow", "probably")));
}

#[test]
fn failures_have_a_cause() {
    let _alone = alone();
    let fabric = Fabric::new();
    let faults = [("CXIDIAG_FAULTS", "nic=2,loss=0.9,retry-handler=off")];
    let output = why(&fabric, "soft2 --loopback=3 --pair-time=20ms", &faults);
    assert_status(&output, 3);
    let text = stdout(&output);
    let expected = "bad: soft2: because no retry handler runs for the NIC\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("FAILED"), "{text}");
    assert!(
        text.contains(&format!("\nWhy\n{BESIDE_OTHERS}: because ")),
        "{text}"
    );
}

#[test]
fn servers_have_the_good_nics() {
    let _alone = alone();
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
        "soft2 --peer=127.0.0.[1,3-4,9] --port={port} --pair-time=20ms --json --ticket={}",
        ticket.display()
    );
    let output = why(&fabric, &arguments, &NARROW);
    assert_status(&output, 3);
    let document = document(&output);
    assert_eq!(
        first(&document).map(|(cause, _)| cause),
        Some("pcie-narrow")
    );
    let nics = document["roster"]["nics"].as_array().unwrap();
    let devices: Vec<&str> = nics
        .iter()
        .map(|nic| nic["device"].as_str().unwrap())
        .collect();
    assert_eq!(devices, ["soft2", "soft1", "soft3", "soft4"]);
    assert_eq!(document["suspect"], 0);
    assert_eq!(document["controls"].as_array().unwrap().len(), 3);
    let note = stderr(&output);
    let left_out = "cxidiag why: left out: 127.0.0.9: cannot connect to 127.0.0.9";
    assert!(note.starts_with(left_out), "{note}");
    let page = fs::read_to_string(ticket).expect("a ticket");
    assert!(page.starts_with("# bad: soft2: "), "{page}");
    for mut server in [first_server].into_iter().chain(others) {
        server.wait_for("done");
    }
}

#[test]
fn one_peer_leaves_out_what_passes_between_nics() {
    let _alone = alone();
    let fabric = Fabric::new();
    let server = Server::start(server_command(&fabric, 1, "0"));
    let arguments = format!("soft2 --peer=127.0.0.1 --port={} --json", server.port);
    let output = why(&fabric, &arguments, &[]);
    let document = document(&output);
    let tests = document["tests"].as_array().unwrap();
    let between = ["B4", "B5", "P1", "P2"];
    let is_between = |of: &Value| between.contains(&of["test"].as_str().unwrap());
    assert!(!tests.iter().any(is_between), "{document:#}");
    let note = document["why"][0]["left_out"].as_str().unwrap();
    assert!(
        note.contains("one peer: what passes between two NICs"),
        "{note}"
    );
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
