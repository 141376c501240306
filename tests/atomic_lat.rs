//! `atomic-lat`: server and client over loopback and the software NIC.
//!
//! That every combination really does what its definition says is tested inside the crate, where
//! the target's memory can be read (`bench::atomic_lat`).

mod harness;

use cxidiag::atomic::{Atomic, AtomicOp, CSWAP_OPS, OPS, TYPES};
use harness::{Fabric, assert_success, masked, seed, stderr, stdout, without_platform};

#[test]
fn the_example_of_the_seed() {
    let fabric = Fabric::new();
    let server = fabric.server("atomic-lat", &["-d", "soft0"]);
    let client = fabric.client("atomic-lat", &server, &["-d", "soft1"]);
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    assert_eq!(
        masked(&without_platform(&stdout(&client))),
        masked(&seed("cxi_atomic_lat cxi-nid0"))
    );
    assert_eq!(
        masked(&without_platform(&stdout(&server))),
        masked(&seed("cxi_atomic_lat"))
    );
    fabric.assert_nothing_left();
}

/// What the summary of a short run on `options` says, from `Atomic Op` to `LL Cmd Launch`.
fn settings(fabric: &Fabric, options: &[&str]) -> String {
    let args = [
        "atomic-lat",
        "--loopback",
        "-d",
        "soft0",
        "-n",
        "3",
        "--latency-gap=0",
    ];
    let output = fabric.run(&[&args[..], options].concat());
    assert_success(&output);
    stdout(&output)
        .lines()
        .skip_while(|line| !line.starts_with("Atomic Op "))
        .take_while(|line| !line.starts_with("Results"))
        .map(|line| line.split_once(": ").expect("a setting").1)
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
fn what_the_summary_says() {
    let fabric = Fabric::new();
    for (options, expected) in [
        (
            &["--fetching"][..],
            "FETCHING SUM, UINT64, Enabled, Disabled, Enabled, Enabled",
        ),
        (
            &["-A", "cswap", "-C", "ne", "-T", "float_complex", "--no-ll"],
            "NON-FETCHING CSWAP NE, FLOAT_COMPLEX, Enabled, Disabled, Enabled, Disabled",
        ),
        (
            &["-A", "AXOR", "-T", "Int8", "--no-idc", "--unrestricted"],
            "NON-FETCHING AXOR, INT8, Disabled, Disabled, Disabled, Enabled",
        ),
        (
            &["--matching", "--fetching"],
            "FETCHING SUM, UINT64, Disabled - Not Applicable, Enabled, Disabled - Not Applicable, Enabled",
        ),
        (
            &["--atomic-op=CSWAP", "--atomic-type=UINT128"],
            "NON-FETCHING CSWAP EQ, UINT128, Enabled, Disabled, Enabled, Enabled",
        ),
    ] {
        assert_eq!(settings(&fabric, options), expected);
    }
    fabric.assert_nothing_left();
}

#[test]
fn the_size_is_that_of_the_type() {
    let fabric = Fabric::new();
    for (ty, size) in [("INT8", "1"), ("FLOAT", "4"), ("DOUBLE_COMPLEX", "16")] {
        let args = [
            "atomic-lat",
            "--loopback",
            "-d",
            "soft0",
            "-n",
            "2",
            "-T",
            ty,
        ];
        let output = fabric.run(&args);
        assert_success(&output);
        let text = stdout(&output);
        let row = text.lines().rev().nth(1).expect("a row");
        let row: Vec<&str> = row.split_whitespace().take(2).collect();
        assert_eq!(row, [size, "2"]);
    }
}

/// Refused in one line, before a device is opened: nothing appears on the fabric.
#[test]
fn combinations_that_do_not_exist() {
    let fabric = Fabric::new();
    let mut refused = 0;
    for (op_name, op) in OPS {
        for (type_name, ty) in TYPES {
            for (cswap_name, cswap) in CSWAP_OPS {
                let atomic = Atomic {
                    op,
                    cswap,
                    ty,
                    fetching: false,
                    matching: false,
                };
                let once = op == AtomicOp::Cswap || cswap_name == "EQ";
                if !once || atomic.exists() {
                    continue;
                }
                let args = ["atomic-lat", "--loopback", "-d", "soft0"];
                let what = ["-A", op_name, "-T", type_name, "-C", cswap_name];
                let output = fabric.run(&[&args[..], &what].concat());
                let said = stderr(&output);
                assert_eq!(output.status.code(), Some(2), "{what:?} {said}");
                assert_eq!(said.lines().count(), 1, "{said}");
                assert!(
                    said.contains(op_name) || said.contains(cswap_name),
                    "{said}"
                );
                assert!(said.contains(type_name), "{said}");
                refused += 1;
            }
        }
    }
    // 17 operations and comparisons of 13 types, without those that exist.
    assert_eq!(refused, 17 * 13 - 165);
    assert!(!fabric.path().exists());
}

#[test]
fn names_that_do_not_exist() {
    let fabric = Fabric::new();
    for (option, value, allowed) in [
        ("--atomic-op", "SUMM", "MIN, MAX, SUM"),
        ("--cswap-op", "", "EQ, NE, LE"),
        ("--atomic-type", "INT128", "INT8, UINT8"),
    ] {
        let output = fabric.run(&["atomic-lat", "h", option, value]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2));
        assert!(said.contains(option) && said.contains(allowed), "{said}");
    }
}

/// A duration, every latency of it asked for: the legacy tool crashes.
#[test]
fn t8_report_all_is_ignored_with_a_duration() {
    let fabric = Fabric::new();
    let args = [
        "atomic-lat",
        "--loopback",
        "-d",
        "soft0",
        "-D",
        "1",
        "--report-all",
    ];
    let output = fabric.run(&[&args[..], &["--latency-gap=0"]].concat());
    assert_success(&output);
    assert!(stdout(&output).contains("\nResults Reported : Summary\n"));
    assert!(!stdout(&output).contains("WriteNum"));
}

#[test]
fn every_latency_is_reported() {
    harness::assert_every_latency_is_reported("atomic-lat");
}

#[test]
fn the_legacy_name_is_the_same_tool() {
    harness::assert_legacy_name_works("atomic-lat", &["--fetching"]);
}
