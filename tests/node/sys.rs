//! What programs find in `/sys` under `cxi-softnic`.

use std::path::Path;

use serde_json::Value;

use crate::harness::c_program::compile;
use crate::harness::shown_nics::{check_shown_nic, shows_nics_in_sys, wrapper};
use crate::harness::{Command, assert_status, assert_success, stderr, stdout};
use crate::libcxi::{PROGRAMS, run, run_by};

/// The program that finds NICs as MPICH does.
const HWLOC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/libfabric/hwloc");

/// MPICH ends in MPI_Init if hwloc does not know the PCI device of a NIC. hwloc finds PCI devices
/// by libpciaccess where it is installed, else by itself.
#[test]
fn hwloc_finds_pci_devices_and_interfaces() {
    if !Path::new("/usr/include/hwloc.h").exists() {
        println!("not tested: no header of hwloc");
        return;
    }
    if !shows_nics_in_sys() {
        return;
    }
    // The library comes before the files that use it.
    let library = ["-Wl,--no-as-needed", "-lhwloc"];
    compile(&PROGRAMS, Path::new(HWLOC), "hwloc", &library);
    for components in ["", "-pci"] {
        let choice = format!("HWLOC_COMPONENTS={components}");
        // Without bridges above the NICs, and with them.
        for faults in ["", "pcie-path=8@8/16@16"] {
            let mut wrapper = wrapper();
            wrapper.args(["env", &choice]).env("CXIDIAG_FAULTS", faults);
            run_by(&mut wrapper, "hwloc", "");
        }
    }
}

/// lspci reads the configuration space, and reports files that the kernel has and are missing.
#[test]
fn lspci_describes_pci_device() {
    let has_lspci = Command::new("lspci").arg("--version").output().is_ok();
    if !has_lspci {
        println!("not tested: no lspci");
        return;
    }
    if !shows_nics_in_sys() {
        return;
    }
    let listed = wrapper()
        .args(["lspci", "-nvv", "-s", "5f00:01:00.0"])
        .env("CXIDIAG_FAULTS", "pcie-width=8,pcie-speed=5")
        .output()
        .expect("the wrapper starts");
    let text = stdout(&listed);
    // Without privileges lspci says that it has no information about modules.
    let errors = stderr(&listed);
    assert!(!errors.contains("/sys/bus/pci"), "{errors}");
    for line in [
        "5f00:01:00.0 0200: 1590:0371\n",
        "\tSubsystem: 1590:0371\n",
        "Express (v2) Endpoint",
        "Speed 16GT/s, Width x16",
        "LnkSta:\tSpeed 5GT/s",
        "Kernel driver in use: softnic\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn shows_fewer_rgids_as_lnis_are_opened() {
    if shows_nics_in_sys() {
        run("shown", "");
    }
}

#[test]
fn executes_chosen_atomic_operation_as_addition() {
    if shows_nics_in_sys() {
        run("fetch_add", "");
    }
}

/// The files that `cxi-softnic` shows have no counters: `stat` reads the counters of the fabric.
#[test]
fn stat_counts_packets_of_shown_nics() {
    if !shows_nics_in_sys() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let document = directory.path().join("stat.json");
    let json = format!("--json={}", document.display());
    let tool = env!("CARGO_BIN_EXE_cxidiag");
    let output = wrapper()
        .args([tool, "stat", &json])
        .args(["--", tool, "write-lat", "--loopback", "-d", "cxi0", "-n100"])
        .env("CXIDIAG_FABRIC_DIR", directory.path().join("fabric"))
        // The directory of the step is made in the working directory.
        .current_dir(directory.path())
        .output()
        .expect("the wrapper starts");
    let text = assert_status(&output, 0);
    assert!(text.contains("NICs (software NICs): "), "{text}");
    assert!(text.contains("\ntraffic: "), "{text}");
    let document = std::fs::read(&document).expect("a document");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let nic = &document["nics"][0];
    assert_eq!(nic["device"], "cxi0");
    assert_eq!(nic["is_software"], true);
    let octets = &nic["counters"]["hni_sts_tx_ok_octets"]["delta"];
    assert!(octets.as_u64() > Some(0), "{nic}");
}

/// The files say the same as the information of the device, a Cassini 2, and have its layout.
#[test]
fn check_finds_shown_nic_healthy() {
    let Some(check) = check_shown_nic("") else {
        return;
    };
    assert_success(&check);
    let text = stdout(&check);
    assert!(text.starts_with("OK cxi0\n"), "{text}");
    let row = |item: &str| {
        let row = text.lines().find(|line| line.starts_with(item));
        let words = row.unwrap_or_default()[item.len()..].split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    for (item, expected) in [
        ("link speed ", "200 Gb/s (bs200G) - -"),
        ("link-level retry ", "running running good"),
        ("link loopback ", "disabled disabled good"),
        ("link media ", "electrical - -"),
        ("AER fatal ", "0 <1 good"),
        ("AER nonfatal ", "0 <5 good"),
        ("AER correctable ", "0 <10 good"),
        ("PCIe uncorrected ", "0 0 good"),
        ("NICs without driver ", "none none good"),
    ] {
        assert_eq!(row(item), expected, "{item}\n{text}");
    }
    // The driver of SHS 14 does not show the pause of a Cassini 2 (health.md 2.1).
    let pause = "Not available (this driver does not show it): link pause\n";
    assert!(text.contains(pause), "{text}");
}
