//! `loopback-bw` and `cxi_gpu_loopback_bw`: one process that writes to itself on a software NIC.
//!
//! In debug builds, which tests run, the process fails unless every byte is the one that belongs
//! there.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use crate::harness::machine::MadeUp;
use crate::harness::schema::document;
use crate::harness::{
    CXIDIAG, Fabric, assert_has_form_of, assert_status, assert_success, finish, rows, stdout,
};

/// node-tools.md 4.3, with fewer iterations.
const LEGACY: &str = "\
---------------------------------------------------
    CXI Loopback Bandwidth Test
Device           : cxi0
Service ID       : 1
TX Mem           : System
RX Mem           : System
Test Type        : Iteration
Iterations       : 2
Write Size (B)   : 524288
Cmds per iter    : 4
Hugepages        : Disabled
---------------------------------------------------
RDMA Size[B]      Writes  BW[Gb/s]  PktRate[Mpkt/s]
      524288           8    186.37        11.375035
---------------------------------------------------
";

const SCHEMA: &str = include_str!("../../docs/cxidiag.schema.json");

/// Runs the program with faults of the software NICs.
fn run_with(faults: &str, arguments: &str) -> Output {
    let fabric = Fabric::new();
    let mut command = fabric.command(arguments);
    command.env("CXIDIAG_FAULTS", faults);
    finish(command)
}

#[test]
fn prints_text_of_the_legacy_tool_under_each_name() {
    let fabric = Fabric::new();
    for arguments in ["cxi_gpu_loopback_bw -d soft0 -i 2 -n 4", "loopback-bw -d soft0 -n 2 -l 4"] {
        let output = fabric.run(arguments);
        assert_success(&output);
        assert_has_form_of(&stdout(&output), LEGACY);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = directory.path().join("cxi_gpu_loopback_bw");
    symlink(CXIDIAG, &name).expect("a symlink");
    let output = finish(fabric.command_of(&name, "-d soft0 --iters=2 --num-xfers=4 -s 524288"));
    assert_success(&output);
    assert_has_form_of(&stdout(&output), LEGACY);
    fabric.assert_nothing_left();
}

#[test]
fn moves_all_sizes_of_a_range_with_pairs_and_threads() {
    let fabric = Fabric::new();
    for options in ["-s 1:65536 -l 5", "-s 65537 -l 3 -P 3", "-s 8:64 -l 2 --threads=2"] {
        let output = fabric.run(&format!("loopback-bw -d soft0 -n 3 --verify {options}"));
        assert_success(&output);
        assert!(stdout(&output).contains("\nVerified: "), "{}", stdout(&output));
    }
    let text = stdout(&fabric.run("loopback-bw -d soft0 -n 3 -l 2 -s 8:32 --unit=MB/s"));
    assert!(text.contains("  BW[MB/s]  "), "{text}");
    let counts: Vec<&str> = rows(&text).iter().map(|row| row[1]).collect();
    assert_eq!(counts, ["6", "6", "6"]);
    fabric.assert_nothing_left();
}

/// All writes of a list have the same place: the memory of a list does not grow with it.
#[test]
fn holds_one_message_in_each_buffer() {
    let page = "2097152";
    let machine = MadeUp::with_huge_pages([1, 0]);
    for list in ["1", "64"] {
        let arguments = format!("cxi_gpu_loopback_bw -d soft0 -n {list} -s {page} --use-hp=2M");
        let output = finish(machine.seen_by(Fabric::new().command(&arguments)));
        let errors = assert_status(&output, 1);
        let words = "the buffers need 2 of 2M, 1 are available on this machine (";
        assert!(errors.contains(words), "{errors}");
    }
}

#[test]
fn measures_for_a_duration() {
    let output = Fabric::new().run("cxi_gpu_loopback_bw -d soft0 -D 1 -n 4 -s 4096");
    assert_success(&output);
    let text = stdout(&output);
    assert!(
        text.contains("\nTest Type        : Duration\nDuration         : 1 seconds\n"),
        "{text}"
    );
    let rows = rows(&text);
    assert_eq!(rows.len(), 1, "{text}");
    let [size, writes, ..] = rows[0][..] else { panic!("{text}") };
    // Whole lists of four writes.
    let writes: u64 = writes.parse().expect("a number");
    assert!(size == "4096" && writes > 0 && writes.is_multiple_of(4), "{text}");
}

#[test]
fn n20_ends_if_the_link_returns_no_packets() {
    let output = run_with("down=0ns", "loopback-bw -d soft0 -n 2 -l 4 --ignore-link");
    let errors = assert_status(&output, 1);
    assert!(errors.contains("writing failed: the NIC reported UNDELIVERABLE"), "{errors}");
    assert!(errors.contains("to itself"), "{errors}");
    assert!(stdout(&output).ends_with("\nFailed: results are partial\n"));
}

/// A wrong option ends the program before the device is opened: this machine has no cxi0.
#[test]
fn n21_n22_refuses_sizes_and_numbers_that_the_legacy_tool_cuts() {
    for (options, message) in [
        ("-s 0", "invalid value '0' for --size: expected "),
        ("-s 4294967296", "invalid value '4294967296' for --size: "),
        (
            "-n 65537",
            "invalid value '65537' for --num-xfers: expected a decimal number from 1 to 16382",
        ),
        ("-n 0", "invalid value '0' for --num-xfers: "),
        ("-i 0", "invalid value '0' for --iters: "),
        ("-i 0x10", "invalid value '0x10' for --iters: "),
        ("-D 4294967296", "invalid value '4294967296' for --duration: "),
        ("node1", "unexpected argument 'node1': loopback-bw has no server"),
        ("-l 5", "-l (--list-size) is not an option of cxi_gpu_loopback_bw: "),
    ] {
        let output = Fabric::new().run(&format!("cxi_gpu_loopback_bw -d cxi0 {options}"));
        let errors = assert_status(&output, 1);
        assert!(errors.contains(message), "{errors}");
        assert_eq!(stdout(&output), "", "{options}");
    }
}

#[test]
fn finds_damaged_data() {
    let errors =
        assert_status(&run_with("corrupt=1", "loopback-bw -d soft0 -n 1 -l 2 -s 4096 --verify"), 1);
    assert!(errors.contains("size 4096: byte "), "{errors}");
}

#[test]
fn expectation_decides_exit_status() {
    let fabric = Fabric::new();
    for (bound, status) in [("bw>0.001MB/s", 0), ("bw>=9999GB/s", 3)] {
        let arguments = format!("loopback-bw -d soft0 -n 2 -l 4 -s 4096 --expect {bound}");
        assert_status(&fabric.run(&arguments), status);
        let arguments = format!("loopback-bw --all-nics -n 2 -l 4 -s 4096 --expect {bound}");
        let mut command = fabric.command(&arguments);
        command.env("CXIDIAG_NICS", "4");
        let output = finish(command);
        assert_status(&output, status);
        let verdict = if status == 0 { "  met" } else { "  NOT MET: bw>=9999GB/s" };
        let lines = stdout(&output).lines().filter(|line| line.ends_with(verdict)).count();
        assert_eq!(lines, 4, "{}", stdout(&output));
    }
}

/// A node that has lost its NICs meets no expectation.
#[test]
fn expectation_of_all_nics_is_not_met_without_hardware() {
    let fabric = Fabric::new();
    let mut command = fabric.command("loopback-bw --all-nics -n 1 -l 1 --expect bw>1B/s");
    for variable in ["CXIDIAG_NICS", "CXIDIAG_NIDS", "CXIDIAG_TOPOLOGY"] {
        command.env_remove(variable);
    }
    let output = finish(MadeUp::new(&[]).seen_by(command));
    let errors = assert_status(&output, 1);
    let words = "error: this machine has no Cassini NIC, or its driver is not loaded\n\
                 hint: for software NICs: CXIDIAG_NICS says how many there are";
    assert!(errors.contains(words), "{errors}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn text_of_all_nics_has_verified_sizes_and_counters() {
    let fabric = Fabric::new();
    let mut command =
        fabric.command("loopback-bw --all-nics -n 1 -l 2 -s 8:16 --verify --counters");
    command.env("CXIDIAG_NICS", "2");
    let output = finish(command);
    assert_success(&output);
    let text = stdout(&output);
    let (results, counters) = text.split_once("\n\nsoft0:\nCounter ").expect(&text);
    let words = "\nVerified: 4 sizes, data of the last operations correct";
    assert!(results.ends_with(words), "{text}");
    let (first, second) = counters.split_once("\n\nsoft1:\nCounter ").expect(&text);
    for counters in [first, second] {
        assert!(counters.contains("\nhni_tx_ok_opt "), "{text}");
    }
}

#[test]
fn measures_each_nic_and_writes_a_document_for_each() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let output = fabric.run(&format!(
        "loopback-bw --all-nics -n 2 -l 4 -s 1024:4096 --json={} --jsonl={} --csv={}",
        file("json"),
        file("jsonl"),
        file("csv")
    ));
    assert_success(&output);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Software NICs (no Cassini hardware involved)");
    assert_eq!(lines[1], "NIC     NUMA  RDMA Size[B]      Writes  BW[Gb/s]  PktRate[Mpkt/s]");
    let found: Vec<Vec<&str>> =
        lines[2..].iter().map(|line| line.split_whitespace().take(4).collect()).collect();
    let mut expected = Vec::new();
    for nic in ["soft0", "soft1", "soft2", "soft3"] {
        expected.extend(["1024", "2048", "4096"].map(|size| vec![nic, "-", size, "8"]));
    }
    assert_eq!(found, expected, "{text}");
    for name in ["json", "jsonl"] {
        let text = fs::read_to_string(directory.path().join(name)).expect("documents");
        let nics: Vec<String> = text
            .lines()
            .map(|line| document(SCHEMA, line)["device"]["name"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(nics, ["soft0", "soft1", "soft2", "soft3"], "{name}");
    }
    let csv = fs::read_to_string(directory.path().join("csv")).expect("a table");
    assert_eq!(csv.lines().count(), 1 + 4 * 3);
    let report = file("report.html");
    assert_success(&fabric.run(&format!("report {} --output={report}", file("json"))));
    fabric.assert_nothing_left();
}

#[test]
fn nic_that_fails_does_not_keep_the_others_from_being_measured() {
    for nic in [0, 1] {
        let faults = format!("nic={nic},down=0ns");
        let output = run_with(&faults, "loopback-bw --all-nics -n 2 -l 4 -s 4096");
        let errors = assert_status(&output, 1);
        let words = format!("1 of 4 measurements failed: soft{nic}");
        assert!(errors.contains(&words), "{errors}");
        let text = stdout(&output);
        assert!(text.starts_with("Software NICs (no Cassini hardware involved)\nNIC "), "{text}");
        let failed = text.lines().nth(2 + nic).expect("a row");
        let words = format!("failed: the link of soft{nic} is down");
        assert!(failed.starts_with(&format!("soft{nic} ")) && failed.contains(&words), "{text}");
        assert!(
            text.lines().any(|line| line.starts_with("soft3") && line.contains("4096")),
            "{text}"
        );
    }
}

#[test]
fn refuses_options_beside_all_nics() {
    let fabric = Fabric::new();
    for (options, message) in [
        ("--all-nics -d soft0", "--all-nics and --device exclude each other"),
        ("--all-nics --interval=1s", "--all-nics and --interval exclude each other"),
        ("--all-gpus -t 0", "--all-gpus and --tx-gpu exclude each other"),
        ("--all-gpus --until-stopped", "--all-gpus and --until-stopped exclude each other"),
    ] {
        let errors = assert_status(&fabric.run(&format!("loopback-bw {options}")), 2);
        assert!(errors.contains(message), "{errors}");
    }
}

#[test]
fn document_matches_schema_and_text_is_read_back() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let arguments = format!("cxi_gpu_loopback_bw -d soft0 -i 3 -n 4 -s 8192 --json={}", file("a"));
    let output = fabric.run(&arguments);
    assert_success(&output);
    let json = fs::read_to_string(file("a")).expect("a document");
    let outcome = document(SCHEMA, &json);
    assert_eq!(outcome["tool"], "loopback-bw");
    assert_eq!(outcome["options"]["iters"], 3);
    assert_eq!(outcome["options"]["lists"]["list_size"], 4);
    assert!(
        outcome["peer"].is_null()
            && outcome["addresses"]["local"] == outcome["addresses"]["remote"]
    );
    fs::write(file("b"), stdout(&output)).expect("a file");
    let compared =
        fabric.run(&format!("compare {} -- {} --json={}", file("a"), file("b"), file("c")));
    // The noise of so short a run hides any change: exit status 4.
    assert_status(&compared, 4);
    let comparison: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(file("c")).expect("a document")).expect("JSON");
    let differences = &comparison["groups"][0]["differences"];
    assert_eq!(*differences, serde_json::json!([]), "{comparison:#}");
}
