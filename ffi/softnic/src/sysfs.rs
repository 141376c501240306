//! The NICs as the kernel's drivers would show them in `/sys/class` (health.md 2.1, 2.4).
//!
//! Programs such as libfabric look there for the network interface of a NIC. The files have the
//! same values as the information of a device. What changes on hardware (telemetry, link restarts,
//! error counts of PCIe) is in snapshots only (`snapshot`): `cxi-softnic` shows these files for the
//! whole time of a program, and a reader would take a constant 0 as a measurement.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cxi_sys::{C_NUM_RGIDS, cxil_devinfo};

use crate::environment::{Driver, Nics, QosProfile};
use crate::fabric::{self, Health};
use crate::libcxi::{DRIVER, NAME, information};

/// The class that contains the PCI devices. The kernel has them in `/sys/devices`, where a program
/// without privileges cannot add any.
const DEVICES: &str = "softnic";

/// Classes of the kernel's drivers for Cassini, and of this NIC. They contain software NICs only.
const CLASSES: [&str; 3] = ["cxi", "cxi_user", DEVICES];

/// The start of the names of network interfaces: `hsn-soft0` in the program that contains the NIC
/// and can also use hardware, `hsn0` for other programs.
const INTERFACE: &str = if cfg!(feature = "library") {
    "hsn"
} else {
    "hsn-soft"
};

/// Speed of the link in Mb/s.
const SPEED: u32 = 200_000;

/// MTU in bytes of an Ethernet interface (health.md 2.2). The interface carries no packets.
const ETHERNET_MTU: u32 = 9000;

/// A file or a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file with this content.
    File(String),
    /// A link to this relative path.
    Link(PathBuf),
}

/// The entries of a directory, by relative path.
pub type Entries = BTreeMap<PathBuf, Entry>;

/// Returns what `/sys/class` contains on a machine with the listed NICs: the links of `real`, the
/// class directory of this machine, and the software NICs in place of NICs of the same name.
///
/// # Errors
/// One line that names an invalid environment variable.
pub fn class_directory(real: &Path) -> Result<Entries, String> {
    let nics = Nics::from_environment()?;
    let driver = Driver::from_environment()?;
    let mut directory = links(real);
    for number in 0..nics.listed {
        let nid = nics.address(number).expect("listed NICs have addresses");
        let health = fabric::settings(number)?.health;
        let info = information(number, nid, &health);
        add(&mut directory, &info, driver, &health);
    }
    Ok(directory)
}

/// Returns the links in the classes of this machine, except those that lead to Cassini NICs.
fn links(real: &Path) -> Entries {
    let mut found = Entries::new();
    for class in entries_of(real) {
        if CLASSES.iter().any(|ours| class.ends_with(ours)) {
            continue;
        }
        for path in entries_of(&class) {
            if let Ok(target) = fs::read_link(&path)
                && let Ok(name) = path.strip_prefix(real)
            {
                found.insert(name.to_owned(), Entry::Link(target));
            }
        }
    }
    found
}

/// Returns the paths of the entries of a directory; none if it cannot be read.
fn entries_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the path of the PCI device of a NIC in the class directory.
pub fn device(info: &cxil_devinfo) -> PathBuf {
    Path::new(DEVICES).join(pci_address(info))
}

fn pci_address(info: &cxil_devinfo) -> String {
    format!(
        "{:04x}:{:02x}:{:02x}.{}",
        info.pci_domain, info.pci_bus, info.pci_device, info.pci_function
    )
}

/// Adds a NIC: its PCI device, its devices in the classes `cxi` and `cxi_user`, and its network
/// interface.
pub fn add(directory: &mut Entries, info: &cxil_devinfo, driver: Driver, health: &Health) {
    let number = info.dev_id;
    let device = device(info);
    let files = pci_files(info, health)
        .into_iter()
        .chain(class_files(driver.qos));
    for (file, content) in files {
        directory.insert(device.join(file), Entry::File(content));
    }
    let interface = format!("{INTERFACE}{number}");
    for (file, content) in interface_files(info, health) {
        let path = device.join("net").join(&interface).join(file);
        directory.insert(path, Entry::File(content));
    }
    let cxi = format!("{NAME}{number}");
    for (class, name) in [("net", &interface), ("cxi", &cxi), ("cxi_user", &cxi)] {
        let place = device.join(class).join(name);
        directory.insert(place.join("device"), Entry::Link("../..".into()));
        directory.insert(
            Path::new(class).join(name),
            Entry::Link(Path::new("..").join(&place)),
        );
    }
}

/// Returns the traffic classes of a profile, with their assured share of the NIC and their limit,
/// in percent.
fn class_files(qos: QosProfile) -> Vec<(String, String)> {
    let shares = qos.shares().iter().flat_map(|(class, assured, ceiling)| {
        let file = |name: &str, percent: &u32| {
            (
                format!("traffic_classes/{class}/{name}"),
                format!("{percent}\n"),
            )
        };
        [file("assured_bw", assured), file("ceiling_bw", ceiling)]
    });
    let profile = "traffic_classes/active_qos_profile".to_owned();
    shares
        .chain([(profile, format!("{}\n", qos.name()))])
        .collect()
}

/// Writes the entries of a directory.
///
/// # Errors
/// Errors of the file system.
pub fn write(directory: &Path, entries: &Entries) -> io::Result<()> {
    for (name, entry) in entries {
        let path = directory.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match entry {
            Entry::File(content) => fs::write(&path, content)?,
            Entry::Link(target) => symlink(target, &path)?,
        }
    }
    Ok(())
}

/// Returns the files of a PCI device that readers of Cassini NICs use.
fn pci_files(info: &cxil_devinfo, health: &Health) -> Vec<(String, String)> {
    let cpus = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    // SAFETY: both fields of the union are 32-bit numbers.
    let nid = unsafe { info.__bindgen_anon_1.nid };
    let link = if info.link_state == 1 { "up" } else { "down" };
    let (vendor, device) = (info.vendor_id, info.device_id);
    let mut files = vec![
        (
            "uevent",
            format!(
                "DRIVER={DRIVER}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SLOT_NAME={}",
                pci_address(info)
            ),
        ),
        ("vendor", format!("{vendor:#06x}")),
        ("device", format!("{device:#06x}")),
        ("class", "0x020000".into()),
        // A NIC without a place in the machine.
        ("numa_node", "-1".into()),
        ("local_cpulist", cpus.trim_end().into()),
        (
            "current_link_speed",
            format!("{:.1} GT/s PCIe", health.pcie_speed),
        ),
        ("max_link_speed", "16.0 GT/s PCIe".into()),
        ("current_link_width", health.pcie_width.to_string()),
        ("max_link_width", "16".into()),
        ("fru/description", "software NIC".into()),
        ("fru/part_number", "".into()),
        ("fru/serial_number", "".into()),
        ("settings/ac_filter_disabled", "0".into()),
        ("uc/qspi_blob_version", "-".into()),
        ("port/link", link.into()),
        ("port/speed", "BS_200G".into()),
        ("port/media", "electrical".into()),
        ("port/link_layer_retry", "on".into()),
        ("port/loopback", "off".into()),
        ("port/pause", "pfc/802.1qbb".into()),
        ("properties/amo_remap_to_pcie_fadd", "-1".into()),
        ("properties/ats_enabled", "0".into()),
        ("properties/cassini_version", "2.0".into()),
        ("properties/current_esm_link_speed", "Disabled".into()),
        ("properties/driver_rev", env!("CARGO_PKG_VERSION").into()),
        ("properties/rgids_avail", (C_NUM_RGIDS - 1).to_string()),
        ("properties/speed", SPEED.to_string()),
    ];
    let numbers: [(&str, &dyn Display); 21] = [
        ("properties/hpc_mtu", &info.link_mtu),
        ("properties/link", &info.link_state),
        ("properties/min_free_shift", &info.min_free_shift),
        ("properties/num_acs", &info.num_acs),
        ("properties/num_cts", &info.num_cts),
        ("properties/num_eqs", &info.num_eqs),
        ("properties/num_les", &info.num_les),
        ("properties/num_ptes", &info.num_ptes),
        ("properties/num_tgqs", &info.num_tgqs),
        ("properties/num_tles", &info.num_tles),
        ("properties/num_txqs", &info.num_txqs),
        ("properties/pct_eq", &info.pct_eq),
        ("properties/pid_bits", &info.pid_bits),
        ("properties/pid_count", &info.pid_count),
        ("properties/pid_granule", &info.pid_granule),
        ("properties/platform", &info.device_platform),
        ("properties/rdzv_get_idx", &info.rdzv_get_idx),
        ("properties/rev", &info.device_rev),
        ("properties/proto", &info.device_proto),
        (
            "properties/system_type_identifier",
            &info.system_type_identifier,
        ),
        ("properties/uc_nic", &info.uc_nic),
    ];
    files.extend(numbers.map(|(file, number)| (file, number.to_string())));
    files.push(("properties/nid", format!("{nid:#x}")));
    files.push(("properties/nic_addr", format!("{nid:#x}")));
    lines(files)
}

/// Returns the files of a network interface. Its MAC address is an algorithmic one, set by
/// software: its low 20 bits are the NIC address (health.md 2.2). Without it, the interface has the
/// address of the hardware, here one that RFC 7042 reserves for documents.
fn interface_files(info: &cxil_devinfo, health: &Health) -> Vec<(String, String)> {
    // SAFETY: both fields of the union are 32-bit numbers.
    let nid = unsafe { info.__bindgen_anon_1.nid };
    let [_, high, middle, low] = nid.to_be_bytes();
    let up = info.link_state == 1;
    let state = if up { "up" } else { "down" };
    let (address, assigned) = if health.has_ama {
        let address = format!("02:00:00:{high:02x}:{middle:02x}:{low:02x}");
        (address, "3")
    } else {
        (format!("00:00:5e:00:53:{low:02x}"), "0")
    };
    lines(vec![
        ("address", address),
        ("addr_assign_type", assigned.into()),
        ("addr_len", "6".into()),
        ("carrier", u32::from(up).to_string()),
        ("mtu", ETHERNET_MTU.to_string()),
        ("operstate", state.into()),
        ("speed", SPEED.to_string()),
        ("type", "1".into()),
    ])
}

/// Ends each content with a newline, as the kernel does.
fn lines(files: Vec<(&str, String)>) -> Vec<(String, String)> {
    let files = files.into_iter();
    files
        .map(|(name, content)| (name.to_owned(), content + "\n"))
        .collect()
}
