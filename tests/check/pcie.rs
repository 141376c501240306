//! `cxidiag check` of the PCIe links between CPU and NIC, as `CXIDIAG_FAULTS` plants them.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::harness::machine::MadeUp;
use crate::harness::shown_nics::check_shown_nic;
use crate::harness::{Fabric, assert_status, finish, schema, stdout};

/// A check of soft0 with these faults.
fn check(options: &str, faults: &str) -> Output {
    let fabric = Fabric::new();
    let mut command = fabric.command(&format!("check soft0 --quick {options}"));
    command.env("CXIDIAG_FAULTS", faults);
    finish(MadeUp::new(&[]).seen_by(command))
}

/// Value, number, limit, place, verdict and note of an item of soft0.
fn item(document: &Value, code: &str) -> [Value; 6] {
    let items = document["devices"][0]["items"].as_array().expect("items");
    let found = items.iter().find(|item| item["code"] == code).expect("an item");
    ["value", "number", "limit", "place", "verdict", "note"].map(|name| found[name].clone())
}

#[test]
fn finds_degraded_links_bad_and_slow_slots_good() {
    let nic = "between 5f00:00:01.0 and 5f00:00:00.0";
    let root_port = "between 5f00:00:01.0 and 5f00:00:02.0";
    let width = "FAIL pcie-width soft0: PCIe width";
    let speed = "FAIL pcie-speed soft0: PCIe speed";
    for (path, line) in [
        ("16@16", "OK soft0".to_owned()),
        ("16@16:16@32", "OK soft0".to_owned()),
        ("16@16/16@16", "OK soft0".to_owned()),
        ("16@32/16@16:16@32", "OK soft0".to_owned()),
        ("8@16:8@16", "OK soft0".to_owned()),
        ("16@8:16@8", "OK soft0".to_owned()),
        ("8@16:8@16/16@16", "OK soft0".to_owned()),
        ("8@16", format!("{width} x8 {nic}, expected x16")),
        ("4@16:8@16", format!("{width} x4 {nic}, expected x8")),
        ("16@2.5:16@8", format!("{speed} 2.5 GT/s {nic}, expected 8.0 GT/s")),
        ("8@16/16@16", format!("{width} x8 {root_port}, expected x16")),
        ("16@8:16@32/16@16", format!("{speed} 8.0 GT/s {root_port}, expected 32.0 GT/s")),
        ("8@8/16@16/16@16", format!("{width} x8 {root_port}, expected x16 (and 1 more)")),
    ] {
        let output = check("--quiet", &format!("pcie-path={path}"));
        let status = if line.starts_with("OK") { 0 } else { 3 };
        assert_eq!(assert_status(&output, status), "", "{path}");
        assert_eq!(stdout(&output), format!("{line}\n"), "{path}");
    }
}

#[test]
fn explains_slow_slots_and_links_below_the_table() {
    for (path, lines) in [
        (
            "8@16:8@8",
            &["CXIDIAG_FAULTS: 'pcie-path=8@16:8@8': expected pcie-path=LINK/LINK..., from"][..],
        ),
        (
            "8@8:8@8",
            &[
                "\nPCIe width           x8 ",
                "\nPCIe upstream        none ",
                "\nPCIe width: limited by the slot 5f00:00:01.0, x8; the NIC can do x16\n",
                "\nPCIe speed: limited by the slot 5f00:00:01.0, 8.0 GT/s; the NIC can do 16.0 GT/s\n",
            ],
        ),
        (
            "4@16/16@16",
            &[
                "\nPCIe upstream        x4 16.0 GT/s ",
                "\nAER of bridges       0 ",
                "\nPCIe width: between 5f00:00:01.0 and 5f00:00:02.0; they can do x16 and x16\n",
                "\nPCIe upstream: slower than the link of the NIC between 5f00:00:01.0 and\n  5f00:00:02.0\n",
            ],
        ),
    ] {
        let output = check("", &format!("pcie-path={path}"));
        let text = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
        for line in lines {
            assert!(text.contains(line), "{path}: no {line:?} in\n{text}");
        }
    }
    let without = stdout(&check("", ""));
    let line = "Not available (no bridge is visible above the NIC): PCIe upstream\n";
    assert!(without.contains(line), "{without}");
}

#[test]
fn document_has_ends_of_degraded_link() {
    let document = |faults: &str| {
        let text = stdout(&check("--json", faults));
        schema::document(include_str!("../../docs/check.schema.json"), &text)
    };
    let degraded = document("pcie-path=16@8:16@32/8@16");
    let place = "between 5f00:00:03.0 and 5f00:00:00.0";
    let note = format!("{place}; they can do x16 and x16");
    let expected = serde_json::json!(["x8", 8.0, "x16", place, "bad", note]);
    assert_eq!(serde_json::json!(item(&degraded, "pcie-width")), expected);
    let place = "between 5f00:00:01.0 and 5f00:00:02.0";
    let note = format!("{place}; they can do 32.0 GT/s and 32.0 GT/s");
    let expected = serde_json::json!(["8.0 GT/s", 8e9, "32.0 GT/s", place, "bad", note]);
    assert_eq!(serde_json::json!(item(&degraded, "pcie-speed")), expected);
    let limited = document("pcie-path=8@16:8@32");
    let note = "limited by the slot 5f00:00:01.0, x8; the NIC can do x16";
    let expected = serde_json::json!(["x8", 8.0, "x8", null, "good", note]);
    assert_eq!(serde_json::json!(item(&limited, "pcie-width")), expected);
    let alone = document("");
    let expected = serde_json::json!(["x16", 16.0, "x16", null, "good", null]);
    assert_eq!(serde_json::json!(item(&alone, "pcie-width")), expected);
}

/// A FIFO in the place of a file of a bridge does not answer.
#[test]
fn names_file_of_bridge_that_does_not_answer() {
    const DEVICES: &str = "sys/devices/pci0000:40";
    let machine = MadeUp::new(&[(&format!("{DEVICES}/0000:40:01.1/max_link_speed"), "")]);
    let (root, class) = (machine.path(), "sys/class/cxi/cxi0");
    fs::create_dir_all(root.join(DEVICES).join("0000:40:01.1/0000:41:00.0")).unwrap();
    fs::create_dir_all(root.join(class)).unwrap();
    let link = "../../../devices/pci0000:40/0000:40:01.1/0000:41:00.0";
    symlink(link, root.join(class).join("device")).unwrap();
    machine.describe(include_str!("../fixtures/nics/cassini1"));
    let fifo = root.join(DEVICES).join("0000:40:01.1/max_link_width");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    let fabric = Fabric::new();
    let mut command = fabric.command("check cxi0 --quick --quiet");
    command.env_remove("CXIDIAG_LIBCXI").env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "5");
    let output = finish(machine.seen_by(command));
    assert_status(&output, 4);
    let file = "/sys/class/cxi/cxi0/device/../max_link_width";
    let line = format!("UNDECIDED untested cxi0: {file}: unreadable: no answer\n");
    assert_eq!(stdout(&output), line);
}

/// Programs under `cxi-softnic` find the same bridges above the NIC.
#[test]
fn finds_planted_bridges_in_sys() {
    let Some(check) = check_shown_nic("pcie-path=8@16/16@16") else {
        return;
    };
    assert_status(&check, 3);
    let text = stdout(&check);
    let line = "FAIL pcie-width cxi0: PCIe width x8 between 5f00:00:01.0 and \
                5f00:00:02.0, expected x16\n";
    assert!(text.starts_with(line), "{text}");
}
