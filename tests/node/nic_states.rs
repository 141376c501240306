//! What failures say about the queues of the NIC.

use crate::harness::{Fabric, finish, stderr};

/// Runs a tool whose NIC refuses a command. Returns what it prints as an error, and its document.
fn refused(tool: &str, fault: &str) -> (String, serde_json::Value) {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let document = directory.path().join("run.json");
    let mut command = fabric
        .command(&format!("{tool} --loopback -d soft0 -n 1000 --json={}", document.display()));
    command.env("CXIDIAG_FAULTS", fault);
    let output = finish(command);
    assert_eq!(output.status.code(), Some(1), "{tool}: {output:?}");
    let text = std::fs::read_to_string(document).expect("a document");
    let document = serde_json::from_str(&text).expect("JSON");
    (stderr(&output), document)
}

/// Nothing else reports a refused command: without a look at the queues, the run would wait for 40
/// seconds and find "no answer".
#[test]
fn refused_command_ends_run_with_its_reason() {
    const REFUSED: &str = "transmit queue: the NIC refused the ";
    const CODE: &str = ": PERM_VIOLATION (return code 5)";
    for tool in ["write-lat", "read-lat", "send-lat", "send-bw", "write-bw --pairs=2 --threads=2"] {
        let (said, document) = refused(tool, "refuse=PERM_VIOLATION@45");
        assert!(said.contains(REFUSED) && said.contains(CODE), "{tool}: {said}");
        assert!(!said.contains("no answer"), "{tool}: {said}");
        assert!(said.contains("\nhint: the service or profile lacks a right"), "{tool}: {said}");
        if document["error"]["kind"] == "nic" {
            let states = document["error"]["nic_states"].as_array().expect("a list");
            let has = |words: &str| {
                let mut texts = states.iter().filter_map(|state| state.as_str());
                texts.any(|text| text.starts_with(words))
            };
            assert!(has(REFUSED) && has("event queue "), "{tool}: {document}");
        }
    }
}

/// The target commands of the set-up are not refused by this fault; an event with a failure is
/// reported as such, with the states of the queues beside it.
#[test]
fn failed_operation_comes_with_states_of_queues() {
    let (said, document) = refused("write-lat", "error=PT_DISABLED@50");
    assert!(said.contains("the NIC reported PT_DISABLED"), "{said}");
    assert!(!said.contains("fetched"), "{said}");
    let states = document["error"]["nic_states"].to_string();
    assert!(states.contains("transmit queue: all commands fetched"), "{states}");
}
