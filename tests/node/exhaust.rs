//! `check --exhaust`: the list entries of software NICs run out.

use serde_json::json;

use crate::harness::schema::document;
use crate::harness::{Fabric, assert_status, assert_success, finish, stdout};

#[test]
fn entries_run_out_and_come_back() {
    let fabric = Fabric::new();
    let output = fabric.run("check --exhaust soft0 --yes");
    assert_success(&output);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "OK soft0: a portal gets 16384 list entries, and a new one no fewer");
    for line in [
        "One portal gets  : 16384, then LINK reports NO_SPACE",
        "A message then   : answered PT_DISABLED; the NIC disables the portal (FC_UNEXPECTED_FAIL)",
        "A new portal gets: 16384",
    ] {
        assert!(lines.contains(&line), "{text}");
    }
    fabric.assert_nothing_left();
}

#[test]
fn document_has_what_the_text_says() {
    let fabric = Fabric::new();
    let output = fabric.run("check --exhaust soft3 --yes --json");
    assert_success(&output);
    let document = document(include_str!("../../docs/exhaust.schema.json"), &stdout(&output));
    let limits = json!({"service": 1, "reserved": 0, "maximum": 16384, "is_shared": true});
    assert_eq!(document["limits"], limits);
    assert_eq!(document["exhaustion"]["entries_again"], 16384);
}

/// The NIC answers with an error, and the portal stays enabled.
#[test]
fn message_that_fails_otherwise_is_shown() {
    let fabric = Fabric::new();
    let mut command = fabric.command("check --exhaust soft0 --yes");
    command.env("CXIDIAG_FAULTS", "error=OP_VIOLATION@1");
    let output = finish(command);
    assert_success(&output);
    let text = stdout(&output);
    let line = "\nA message then   : answered OP_VIOLATION; the portal stays enabled\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("Recovery         : none"), "{text}");
}

/// No message is ever stored, however many list entries are freed.
#[test]
fn portal_that_does_not_recover_is_undecided_where_others_share_entries() {
    let fabric = Fabric::new();
    let mut command = fabric.command("check --exhaust soft0 --yes --quiet");
    command.env("CXIDIAG_FAULTS", "error=NO_SPACE:1");
    let output = finish(command);
    assert_status(&output, 4);
    let line = "UNDECIDED list-entries soft0: the portal did not recover within 2 s, or others \
                took the list entries that were freed\n";
    assert_eq!(stdout(&output), line);
}

#[test]
fn nic_without_a_link_is_left_alone() {
    let fabric = Fabric::new();
    let mut command = fabric.command("check --exhaust soft0 --yes");
    command.env("CXIDIAG_FAULTS", "down=0ns");
    let error = assert_status(&finish(command), 4);
    assert_eq!(error, "cxidiag check: soft0: the link is down\n");
}

#[test]
fn shared_entries_are_taken_only_with_consent() {
    let fabric = Fabric::new();
    let error = assert_status(&fabric.run("check --exhaust soft0"), 4);
    let refusal = "soft0: others share the list entries of service 1, of which 0 are reserved\n";
    assert!(error.contains(refusal), "{error}");
    assert!(error.contains("hint: --yes "), "{error}");
}

#[test]
fn refuses_invalid_arguments() {
    let fabric = Fabric::new();
    for (options, words) in [
        ("--exhaust", "--exhaust needs one DEVICE, such as cxi0"),
        ("--exhaust soft0 soft1", "--exhaust needs one DEVICE, such as cxi0"),
        ("--exhaust soft0 --quick", "--quick has no effect with --exhaust"),
        ("--exhaust soft0 --stress", "--stress has no effect with --exhaust"),
        ("--exhaust soft0 --openmetrics=x", "--openmetrics has no effect with --exhaust"),
        ("soft0 --yes", "--yes needs --exhaust"),
    ] {
        let error = assert_status(&fabric.run(&format!("check {options}")), 2);
        assert!(error.contains(words), "{options}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
