//! `atomic-lat`: server and client over loopback and the software NIC.
//!
//! `bench::atomic_lat` tests what each combination does: its tests read the memory of the target.

use crate::harness::{self, Fabric, assert_has_form_of, assert_status, seed};

#[test]
fn prints_the_example_of_the_document() {
    let [client, server] = Fabric::new().pair("atomic-lat", "");
    assert_has_form_of(&client, &seed("cxi_atomic_lat cxi-nid0"));
    assert_has_form_of(&server, &seed("cxi_atomic_lat"));
}

#[test]
fn prints_its_settings() {
    let fabric = Fabric::new();
    for (options, expected) in [
        (
            "--fetching",
            "FETCHING SUM, UINT64, Enabled, Disabled, Enabled, Enabled",
        ),
        (
            "-A cswap -C ne -T float_complex --no-ll",
            "NON-FETCHING CSWAP NE, FLOAT_COMPLEX, Enabled, Disabled, Enabled, Disabled",
        ),
        (
            "-A AXOR -T Int8 --no-idc --unrestricted",
            "NON-FETCHING AXOR, INT8, Disabled, Disabled, Disabled, Enabled",
        ),
        (
            "--matching --fetching",
            "FETCHING SUM, UINT64, Disabled - Not Applicable, Enabled, Disabled - Not Applicable, Enabled",
        ),
        (
            "--matching --unrestricted",
            "NON-FETCHING SUM, UINT64, Disabled - Not Applicable, Enabled, Disabled, Enabled",
        ),
        (
            "--atomic-op=CSWAP --atomic-type=UINT128",
            "NON-FETCHING CSWAP EQ, UINT128, Enabled, Disabled, Enabled, Enabled",
        ),
    ] {
        let text = fabric.loopback("atomic-lat", &format!("-n 3 --latency-gap=0 {options}"));
        let settings: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.starts_with("Atomic Op "))
            .take_while(|line| !line.starts_with("Results"))
            .map(|line| line.split_once(": ").expect("a setting").1)
            .collect();
        assert_eq!(settings.join(", "), expected);
    }
    fabric.assert_nothing_left();
}

#[test]
fn prints_the_size_of_the_type() {
    for (ty, size) in [("INT8", "1"), ("FLOAT", "4"), ("DOUBLE_COMPLEX", "16")] {
        let text = Fabric::new().loopback("atomic-lat", &format!("-n 2 -T {ty}"));
        let row = text.lines().rev().nth(1).expect("a row");
        let row: Vec<&str> = row.split_whitespace().take(2).collect();
        assert_eq!(row, [size, "2"]);
    }
}

/// Refused in one line, before a device is opened: the fabric has no directory.
#[test]
fn rejects_combinations_and_names_that_do_not_exist() {
    let fabric = Fabric::new();
    for (options, words) in [
        ("-A LOR -T FLOAT", ["LOR", "FLOAT"]),
        ("-A SUM -T UINT128", ["SUM", "UINT128"]),
        ("-A CSWAP -C GT -T DOUBLE_COMPLEX", ["GT", "DOUBLE_COMPLEX"]),
        ("--atomic-op SUMM", ["--atomic-op", "MIN, MAX, SUM"]),
        ("--cswap-op=", ["--cswap-op", "EQ, NE, LE"]),
        ("--atomic-type INT128", ["--atomic-type", "INT8, UINT8"]),
    ] {
        let output = fabric.run(&format!("atomic-lat --loopback -d soft0 {options}"));
        let error = assert_status(&output, 2);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert!(!fabric.path().exists());
}

#[test]
fn t8_ignores_report_all_with_a_duration() {
    harness::assert_report_all_is_ignored_with_a_duration("atomic-lat");
}

#[test]
fn reports_every_latency() {
    harness::assert_every_latency_is_reported("atomic-lat");
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("atomic-lat", "--fetching");
}
