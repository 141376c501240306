//! `atomic-bw`: server and client over loopback and the software NIC.
//!
//! `bench::atomic_bw` tests what each combination does: its tests read the memory of the target.

use crate::harness::{self, Fabric, assert_status, masked, rows};

/// tools.md 9.3, with more iterations and operations; the legacy tool ends `Atomic Op` with a
/// blank.
const SERVER: &str = "\
---------------------------------------------------
    CXI Atomic Memory Operation Bandwidth Test
Device          : cxi0
Service ID      : 1
Test Type       : Iteration
Iterations      : 3
Atomic Op       : NON-FETCHING SUM
Atomic Type     : UINT64
List Size       : 4
HRP             : Enabled
IDC             : Enabled
Matching LEs    : Disabled
Restricted      : Enabled
Bidirectional   : Disabled
Local (server)  : NIC 0x12 PID 0 VNI 1
Remote (client) : NIC 0x13 PID 0
---------------------------------------------------
 AMO Size[B]         Ops  BW[MB/s]      OpRate[M/s]
           8           -      0.01         0.001021
---------------------------------------------------
";

#[test]
fn prints_the_example_of_the_reference() {
    let platform = "Platform        : software NIC (no Cassini hardware involved)\n";
    let [client, server] = Fabric::new()
        .pair("atomic-bw", "-n 3 -l 4")
        .map(|text| masked(&text.replace(platform, "")));
    let listening = "Listening on port 49194 for client to connect...\n";
    assert_eq!(server, masked(&format!("{listening}{SERVER}")));
    let expected = SERVER
        .replace("Local (server)  : NIC 0x12", "Local (client)  : NIC 0x13")
        .replace("Remote (client) : NIC 0x13", "Remote (server) : NIC 0x12")
        .replace("          -  ", "         12  ");
    assert_eq!(client, masked(&expected));
}

/// The settings in the order HRP, IDC, Matching LEs, Restricted.
#[test]
fn prints_its_settings() {
    const NOT: &str = "Disabled - Not Applicable";
    let fabric = Fabric::new();
    for (options, operation, settings) in [
        ("-A cswap -C ne", "NON-FETCHING CSWAP NE", ["Enabled", "Enabled", "Disabled", "Enabled"]),
        ("--no-hrp", "NON-FETCHING SUM", ["Disabled", "Enabled", "Disabled", "Enabled"]),
        ("--no-idc", "NON-FETCHING SUM", ["Enabled", "Disabled", "Disabled", "Enabled"]),
        ("--fetching -A swap -T int64", "FETCHING SWAP", [NOT, "Enabled", "Disabled", "Enabled"]),
        ("--unrestricted", "NON-FETCHING SUM", [NOT, "Enabled", "Disabled", "Disabled"]),
        ("--matching", "NON-FETCHING SUM", [NOT, NOT, "Enabled", NOT]),
        (
            "--matching --unrestricted --no-hrp",
            "NON-FETCHING SUM",
            ["Disabled", NOT, "Enabled", "Disabled"],
        ),
    ] {
        let text = fabric.loopback("atomic-bw", &format!("-n 2 -l 3 {options}"));
        let [hrp, idc, matching, restricted] = settings;
        for lines in [
            format!("\nAtomic Op       : {operation}\n"),
            format!(
                "\nHRP             : {hrp}\nIDC             : {idc}\n\
                 Matching LEs    : {matching}\nRestricted      : {restricted}\n"
            ),
        ] {
            assert!(text.contains(&lines), "{options}: {text}");
        }
    }
    fabric.assert_nothing_left();
}

#[test]
fn counts_the_operations_of_all_lists() {
    let fabric = Fabric::new();
    for (options, columns) in [
        ("-n 3", ["8", "12288"]),
        ("-n 3 -l 1 -T INT8", ["1", "3"]),
        ("-n 2 -l 16382 -T DOUBLE_COMPLEX --fetching -A SWAP", ["16", "32764"]),
        ("-n 2 -l 16382 --matching --fetching -b", ["8", "32764"]),
    ] {
        let text = fabric.loopback("atomic-bw", options);
        assert_eq!(rows(&text)[0][..2], columns, "{options}");
    }
}

#[test]
fn prints_sum_of_both_directions_on_both_sides() {
    for options in ["-b", "-b --fetching", "-b --no-idc -A CSWAP"] {
        let texts = Fabric::new().pair("atomic-bw", &format!("-n 3 -l 100 {options}"));
        let [client, server] = texts.each_ref().map(|text| rows(text));
        assert_eq!(client, server);
        assert_eq!(client[0][1], "300");
    }
}

#[test]
fn ends_a_bidirectional_duration() {
    let fabric = Fabric::new();
    let text = fabric.loopback("atomic-bw", "-b -D 1");
    assert!(text.contains("\nDuration        : 1 seconds\n"), "{text}");
    fabric.assert_nothing_left();
}

/// Refused in one line, before a device is opened: the fabric has no directory.
#[test]
fn rejects_invalid_combinations_and_options() {
    let fabric = Fabric::new();
    for (options, words) in [
        ("-A LOR -T FLOAT", ["LOR", "FLOAT"]),
        ("-A CSWAP -C GT -T DOUBLE_COMPLEX", ["GT", "DOUBLE_COMPLEX"]),
        ("-l 16383", ["--list-size", "16382"]),
        ("-s 8", ["-s (--size)", "the atomic type"]),
        ("--buf-sz 65536", ["--buf-sz", "is for write-bw"]),
        ("--use-hp 2M", ["--use-hp", "is for write-lat"]),
    ] {
        let output = fabric.run(&format!("atomic-bw --loopback -d soft0 {options}"));
        let error = assert_status(&output, 2);
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
    assert!(!fabric.path().exists());
}

#[test]
fn t14_fails_when_the_peer_is_killed() {
    harness::assert_killed_side_ends_the_other("atomic-bw", &["", "-b"], " AMO Size[B]");
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("atomic-bw", "-n 5 --fetching");
}
