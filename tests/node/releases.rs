//! What the driver of each release shows, in its own formats (health.md 2.1.2 to 2.1.5): a machine
//! with a Cassini 1, a Cassini 2, and a virtual function of both.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use serde_json::Value;

use crate::harness::machine::MadeUp;
use crate::harness::{Fabric, assert_status, assert_success, finish, stdout};

/// The files of a release. `cause` and `time` are names of its files about a link that is down;
/// `has_properties` is about virtual functions.
struct Release {
    name: &'static str,
    files: &'static str,
    cause: &'static str,
    time: &'static str,
    has_properties: bool,
}

macro_rules! release {
    ($name:literal, $cause:literal, $time:literal, $has_properties:literal) => {
        Release {
            name: $name,
            files: include_str!(concat!("../fixtures/nics/shs-", $name)),
            cause: $cause,
            time: $time,
            has_properties: $has_properties,
        }
    };
}

const RELEASES: [Release; 5] = [
    release!("12.0", "last_down_cause", "last_down_time", true),
    release!("13.1", "last_down_cause_map", "last_down_time", false),
    release!("14.0", "last_up_fail_cause_map", "last_up_fail_time", false),
    release!("14.0.1", "last_down/cause_map_0", "last_down/time_0", false),
    release!("main", "last_up_fail/up_fail_cause_map_0", "last_up_fail/up_fail_time_0", true),
];

/// Items of the NIC that virtual functions do not have.
const NOT_OF_VIRTUAL_FUNCTIONS: [&str; 9] = [
    "link-down",
    "link-speed",
    "link-degraded",
    "llr-off",
    "link-flaps",
    "media-unknown",
    "retry-handler",
    "firmware",
    "asic-temperature",
];

/// A machine with the files of a release.
fn machine(release: &Release) -> MadeUp {
    let machine = MadeUp::described_by(include_str!("../fixtures/nics/cassini1"));
    machine.describe(&include_str!("../fixtures/nics/cassini2").replace("cxi0", "cxi1"));
    machine.describe(release.files);
    machine
}

fn run(machine: &MadeUp, arguments: &str) -> Output {
    let mut command = Fabric::new().command(arguments);
    for variable in ["CXIDIAG_LIBCXI", "CXIDIAG_NICS", "CXIDIAG_NIDS", "SLINGSHOT_DEVICES"] {
        command.env_remove(variable);
    }
    finish(machine.seen_by(command))
}

/// The items of a check of all NICs by name of the NIC.
fn items(output: &Output) -> Vec<(String, Value)> {
    let document: Value = serde_json::from_str(&stdout(output)).expect("a document");
    let devices = document["devices"].as_array().expect("devices").iter();
    let named = devices.flat_map(|device| {
        let name = device["name"].as_str().expect("a name").to_owned();
        let items = device["items"].as_array().expect("items").clone();
        items.into_iter().map(move |item| (name.clone(), item))
    });
    named.collect()
}

#[test]
fn healthy_nics_of_each_release_are_good() {
    for release in &RELEASES {
        let machine = machine(release);
        let output = run(&machine, "check --quick --json");
        assert_success(&output);
        let mut seen = 0;
        for (nic, item) in items(&output) {
            let (code, verdict) = (&item["code"], &item["verdict"]);
            let is_virtual = nic == "cxi2" || nic == "cxi3";
            let name = format!("{} {nic} {item:#}", release.name);
            if code == "service" {
                assert_eq!(verdict, "suspect", "no libcxi: {name}");
            } else if is_virtual && NOT_OF_VIRTUAL_FUNCTIONS.iter().any(|lacking| code == *lacking)
            {
                assert_eq!(verdict, "not_available", "{name}");
                seen += 1;
            } else {
                assert!(verdict != "bad" && verdict != "suspect", "{name}");
            }
            if code == "generation" && (is_virtual || nic == "cxi0") {
                let text = item["value"].as_str().expect("text");
                assert_eq!(text.ends_with(", virtual function"), is_virtual, "{name}");
            }
        }
        assert_eq!(seen, 2 * NOT_OF_VIRTUAL_FUNCTIONS.len(), "{}", release.name);
        let output = run(&machine, "link --quick");
        assert_success(&output);
        let text = stdout(&output);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for nic in ["cxi2", "cxi3"] {
            let row = format!("{nic} - - - - virtual function: no link of its own");
            assert!(words.contains(&row), "{row}: {text}");
        }
    }
}

/// node-tools.md 2.6: a virtual function lacks values, which is no failure.
#[test]
fn cxi_stat_prints_nics_of_each_release() {
    for release in &RELEASES {
        let machine = machine(release);
        for (nic, lines) in [
            ("cxi0", ["    NID: 2026 (0x007ea)", "        Link state: up"]),
            ("cxi1", ["    NID: 18 (0x00012)", "        Link speed: ck400G"]),
            ("cxi2", ["    Description: Not Available", "        Link state: "]),
            ("cxi3", ["    Description: Not Available", "        Link speed: "]),
        ] {
            let output = run(&machine, &format!("cxi_stat -d {nic}"));
            let errors = assert_status(&output, 0);
            let text = stdout(&output);
            for line in lines {
                assert!(text.lines().any(|found| found == line), "{} {line}: {text}", release.name);
            }
            let is_virtual = nic == "cxi2" || nic == "cxi3";
            let mut starts =
                errors.lines().map(|line| line.starts_with("Error opening /sys/class/"));
            assert!(starts.all(|starts| starts) && errors.is_empty() != is_virtual, "{errors}");
            let lacks_nid = errors.contains("/properties/nid\n");
            assert_eq!(lacks_nid, is_virtual && !release.has_properties, "{errors}");
        }
    }
}

#[test]
fn names_cause_of_a_link_that_is_down_in_each_release() {
    for release in &RELEASES {
        let machine = machine(release);
        let link = "sys/class/cxi/cxi1/device/port/0/link";
        machine.write(&format!("{link}/state"), "down\n");
        machine.write(&format!("{link}/speed"), "no-link\n");
        machine.write(&format!("{link}/{}", release.cause), "rx-los media-hot\n");
        machine.write(&format!("{link}/{}", release.time), "12:34:56 2026-02-28\n");
        let output = run(&machine, "check cxi1 --quick --quiet");
        assert_eq!(assert_status(&output, 3), "");
        let what = if release.cause.contains("up_fail") { "did not come up" } else { "went down" };
        let expected = format!(
            "FAIL link-down cxi1: link state down, {what}: rx-los media-hot, at 2026-02-28 12:34:56 UTC, \
             expected up\n"
        );
        assert_eq!(stdout(&output), expected, "{}", release.name);
    }
}

/// Flags and neighbours are no files: `ethtool` and `lldptool` show them (health.md 2.1.1, 2.4.1).
#[test]
fn asks_programs_of_the_host() {
    let machine = machine(&RELEASES[4]);
    let programs = tempfile::tempdir().expect("a directory");
    let add = |name: &str, script: &str| {
        let path = programs.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a program");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a program");
    };
    let found = |code: &str| {
        let mut command = Fabric::new().command("check cxi0 --quick --json");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", programs.path().display()));
        command.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "2");
        let output = finish(machine.seen_by(command));
        let item = items(&output).into_iter().find(|(_, item)| item["code"] == code);
        let (_, item) = item.expect("an item");
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        (output.status.code(), text("verdict"), text("value"))
    };
    let not_available =
        |code| assert_eq!(found(code), (Some(0), "not_available".into(), String::new()));
    add("lldptool", "exit 1");
    add("ethtool", "exec sleep 600");
    not_available("switch-port");
    not_available("link-settings");
    add(
        "ethtool",
        "test \"$*\" = '--show-priv-flags hsn0' || exit 1
         echo 'Private flags for hsn0:'
         echo 'internal-loopback  : off'
         echo 'llr                : on'
         echo 'roce-opt           : on'
         echo 'ifg-hpc            : on'",
    );
    assert_eq!(found("link-settings"), (Some(0), "shown".into(), "llr, ifg-hpc".into()));
    let neighbour = |mac: &str| {
        add(
            "lldptool",
            &format!(
                "test \"$*\" = '-n -i hsn0 -t' || exit 1
                 printf 'Chassis ID TLV\\n\\tMAC: {mac}\\nSystem Name TLV\\n\\tx9000c3r3b0\\n'"
            ),
        );
        found("switch-port")
    };
    let good = neighbour("02:fe:00:00:07:ea");
    assert_eq!(good, (Some(0), "good".into(), "02:fe:00:00:07:ea, x9000c3r3b0".into()));
    let other = neighbour("02:fe:00:00:07:eb");
    assert_eq!(other, (Some(3), "bad".into(), "02:fe:00:00:07:eb, x9000c3r3b0".into()));
}
