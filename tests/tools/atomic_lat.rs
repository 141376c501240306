//! `atomic-lat`: server and client over loopback and the software NIC.
//!
//! `bench::atomic_lat` tests what each combination does: its tests read the memory of the target.

use crate::harness::{
    self, Fabric, LIBCXI, assert_has_form_of, assert_status, finish, seed, stderr,
};

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
        ("--fetching", "FETCHING SUM, UINT64, Enabled, Disabled, Enabled, Enabled"),
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

/// The NIC of the target executes SWAP as a PCIe FetchAdd (nic.md 11.3).
const FETCH_ADD: &str = "set=properties/amo_remap_to_pcie_fadd:10";

/// The warnings about a PCIe FetchAdd.
fn warnings(errors: &str) -> Vec<&str> {
    errors.lines().filter(|line| line.contains("FetchAdd")).collect()
}

#[test]
fn warns_once_of_swap_that_adds_and_verifies_its_sums() {
    let fabric = Fabric::new();
    for tool in ["atomic-lat --fetching", "atomic-bw -b", "atomic-bw --matching --fetching"] {
        for (ty, expected) in [("UINT32", 1), ("UINT64", 1), ("INT64", 0)] {
            let args = format!("{tool} --loopback -d soft0 -n 10 --verify -A SWAP -T {ty}");
            let mut command = fabric.command(&args);
            command.env("CXIDIAG_FAULTS", FETCH_ADD);
            let errors = assert_status(&finish(command), 0);
            let found = warnings(&errors);
            assert_eq!(found.len(), expected, "{args}: {errors}");
            let names = |line: &&str| {
                line.contains(&format!("executes SWAP of {ty} as a PCIe FetchAdd ("))
                    && line.contains("amo_remap_to_pcie_fadd is 10)")
            };
            assert!(found.iter().all(names), "{errors}");
        }
    }
}

#[test]
fn each_side_warns_of_fetch_add_at_the_target() {
    for (nic, expected) in [("nic=0", [1, 1]), ("nic=1", [0, 0])] {
        let fabric = Fabric::new();
        let faults = format!("{nic},{FETCH_ADD}");
        let mut server = fabric.command("atomic-lat -p 0 -d soft0");
        server.env("CXIDIAG_FAULTS", &faults);
        let server = harness::Server::start(server);
        let mut client =
            fabric.client_command("atomic-lat", &server, "-d soft1 -n 10 --verify -A SWAP");
        client.env("CXIDIAG_FAULTS", &faults);
        let found = [finish(client), server.finish()].map(|output| {
            let errors = assert_status(&output, 0);
            warnings(&errors).len()
        });
        assert_eq!(found, expected, "{nic}");
    }
}

#[test]
fn explains_fetch_add_without_completer() {
    let fabric = Fabric::new();
    let mut command = fabric.command("atomic-lat --loopback -d soft0 -n 10 -A SWAP");
    let faults = format!("{FETCH_ADD},atomic-completer=off");
    command.env("CXIDIAG_FAULTS", faults);
    let errors = assert_status(&finish(command), 1);
    for part in [
        "the NIC reported PCIE_UNSUCCESS_CMPL (return code 39)",
        "hint: a bus error; of an atomic operation also",
        "'-A CSWAP -C NE' swaps on every NIC",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
}

/// The driver of a NIC in a library shows no files.
#[test]
fn warns_of_possible_fetch_add_where_files_are_not_visible() {
    for (options, expected) in [("-A SWAP", 1), ("-A SWAP -T INT64", 0), ("-A MIN", 0)] {
        let fabric = Fabric::new();
        let mut command = fabric.command(&format!("atomic-lat --loopback -d cxi0 -n 10 {options}"));
        command.env("CXIDIAG_LIBCXI", &*LIBCXI);
        let output = finish(command);
        assert_status(&output, 0);
        let errors = stderr(&output);
        let found = warnings(&errors);
        assert_eq!(found.len(), expected, "{options}: {errors}");
        assert!(found.iter().all(|line| line.contains(" may execute SWAP of UINT64 ")));
    }
}
