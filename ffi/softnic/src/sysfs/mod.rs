//! The NICs as the kernel and its drivers would show them in `/sys/class` and in the list of PCI
//! devices (health.md 2.1, 2.4).
//!
//! Programs such as libfabric look there for the network interface of a NIC, and hwloc for its
//! place in the machine. The files have the same values as the information of a device. What
//! changes (telemetry, link restarts, errors of PCIe that a fault plants) is in snapshots only
//! (`snapshot`): `cxi-softnic` shows these files for the whole time of a program, and a reader
//! would take a constant number as a measurement. Without that fault, a software NIC has no errors
//! of PCIe, so that 0 is true.

mod pci;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cxi_sys::{C_NID_ANY, cxil_devinfo};

use crate::environment::{Driver, MOST_FUNCTIONS, Nics, QosProfile, Release};
use crate::fabric::{self, FabricDirectory, Health, LinkSettings, Slowness};
use crate::libcxi::{DRIVER, NAME, information};

/// The class that contains the PCI devices. The kernel has them in `/sys/devices`, where a program
/// without privileges cannot add any.
const DEVICES: &str = "softnic";

/// Where the kernel lists PCI devices, below `/sys`.
pub const PCI_DEVICES: &str = "bus/pci/devices";

/// The directory of the class directory that replaces the kernel's list of PCI devices. Its links
/// lead to devices only where it is mounted over that list.
pub const PCI_LIST: &str = "softnic/pci_devices";

/// Classes of the kernel's drivers for Cassini, and of this NIC. They contain software NICs only.
const CLASSES: [&str; 3] = ["cxi", "cxi_user", DEVICES];

/// The start of the names of network interfaces: `hsn-soft0` in the program that contains the NIC
/// and can also use hardware, `hsn0` for other programs.
const INTERFACE: &str = if cfg!(feature = "library") { "hsn" } else { "hsn-soft" };

/// Speed of the link in Mb/s.
const SPEED: u32 = 200_000;

/// MTU in bytes of an Ethernet interface (health.md 2.2). The interface carries no packets.
const ETHERNET_MTU: u32 = 9000;

/// A file or a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SysfsEntry {
    /// A file with this content.
    File(Vec<u8>),
    /// A link to this relative path.
    Link(PathBuf),
}

/// The entries of a directory, by relative path.
pub type Entries = BTreeMap<PathBuf, SysfsEntry>;

/// The content of `/sys/class` on a machine with the listed NICs: the links of the classes of this
/// machine, whose `/sys` is `real`, and the software NICs in place of NICs of the same name; and
/// [`PCI_LIST`], the PCI devices of the machine with the software NICs.
///
/// # Errors
/// One line that names an invalid environment variable.
pub fn class_directory(real: &Path) -> Result<Entries, String> {
    let nics = Nics::from_environment()?;
    let driver = Driver::from_environment()?;
    let place = FabricDirectory::from_environment().map_err(|error| error.to_string())?;
    let mut directory = links_of_classes(&real.join("class"));
    directory.extend(links(&real.join(PCI_DEVICES), Path::new(PCI_LIST)));
    let mut devices = Vec::new();
    for number in 0..nics.listed {
        let nid = nics.nid(number).expect("listed NICs have addresses");
        let settings = fabric::settings(number)?;
        let health = &settings.health;
        let info = information(number, nid, health);
        let groups = fabric::available_groups_in(&place, nid & C_NID_ANY);
        add(&mut directory, &info, driver, &settings, groups);
        plant(&mut directory, &device(&info, health), health);
        directory.insert(
            Path::new(PCI_LIST).join(pci::address(&info)),
            SysfsEntry::Link(Path::new("../../../class").join(device(&info, health))),
        );
        devices.push((nid, device(&info, health)));
    }
    link_virtual_functions(&mut directory, &devices);
    Ok(directory)
}

/// Links each listed virtual function with its NIC, in both directions, and gives the NIC the
/// number of its functions, as the kernel does. `devices` has addresses and PCI devices.
fn link_virtual_functions(directory: &mut Entries, devices: &[(u32, PathBuf)]) {
    let link = |from: &Path, to: &Path| {
        let up: PathBuf = from.components().skip(1).map(|_| "..").collect();
        SysfsEntry::Link(up.join(to.strip_prefix(DEVICES).expect("a device")))
    };
    for (nid, nic) in devices.iter().filter(|(nid, _)| *nid <= C_NID_ANY) {
        // The driver counts functions from 0, and addresses count them from 1 (libcxi.md 2.2).
        let functions = devices
            .iter()
            .filter(|(address, _)| address & C_NID_ANY == *nid && address != nid)
            .map(|(address, function)| ((address - nid) / (C_NID_ANY + 1) - 1, function));
        let mut count = 0;
        for (number, function) in functions {
            count += 1;
            directory.insert(nic.join(format!("virtfn{number}")), link(nic, function));
            directory.insert(function.join("physfn"), link(function, nic));
        }
        // Here NICs without functions show neither file.
        if count > 0 {
            let numbers = [
                ("sriov_totalvfs", MOST_FUNCTIONS.to_string()),
                ("sriov_numvfs", count.to_string()),
            ];
            for (file, content) in lines(numbers.into()) {
                directory.insert(nic.join(file), SysfsEntry::File(content));
            }
        }
    }
}

/// The links in the classes of this machine, except those that lead to Cassini NICs.
fn links_of_classes(real: &Path) -> Entries {
    let classes = entries_of(real).into_iter();
    let others = classes.filter(|class| !CLASSES.iter().any(|ours| class.ends_with(ours)));
    others
        .filter_map(|class| Some(links(&class, Path::new(class.file_name()?))))
        .flatten()
        .collect()
}

/// The links of a directory of this machine, as entries of `directory`.
fn links(real: &Path, directory: &Path) -> Entries {
    let link = |path: PathBuf| {
        let target = fs::read_link(&path).ok()?;
        Some((directory.join(path.file_name()?), SysfsEntry::Link(target)))
    };
    entries_of(real).into_iter().filter_map(link).collect()
}

/// The paths of the entries of a directory; none if it cannot be read.
fn entries_of(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The path of the PCI device of a NIC in the class directory. As in `/sys/devices`, it is below a
/// directory of its bus, by whose name hwloc recognizes devices of PCI, and below its bridges.
pub fn device(info: &cxil_devinfo, health: &Health) -> PathBuf {
    let mut path = Path::new(DEVICES).join(format!("pci{}", pci::bus(info)));
    let bridges = pci::bridges(info, health).into_iter();
    path.extend(bridges.map(|(address, _)| address));
    path.join(pci::address(info))
}

/// Adds a NIC: its PCI device, its devices in the classes `cxi` and `cxi_user`, and its network
/// interface. No LNI has `groups` of its RGIDs.
pub fn add(
    directory: &mut Entries,
    info: &cxil_devinfo,
    driver: Driver,
    settings: &LinkSettings,
    groups: usize,
) {
    let health = &settings.health;
    let number = info.dev_id;
    let device = device(info, health);
    let mut bridges = device.ancestors().skip(1);
    for (_, files) in pci::bridges(info, health).into_iter().rev() {
        let bridge = bridges.next().expect("the device is below its bridges");
        for (file, content) in lines(files) {
            directory.insert(bridge.join(file), SysfsEntry::File(content));
        }
    }
    let configuration = pci::configuration(info, health).into();
    let files = lines(pci::files(info, health))
        .into_iter()
        .chain([("config".to_owned(), configuration)])
        .chain(driver_files(info, health, groups))
        .chain(link_files(info, driver.release))
        .chain(class_files(driver.qos, &settings.slowness));
    for (file, content) in files.filter(|(file, _)| has_file(info, file)) {
        directory.insert(device.join(file), SysfsEntry::File(content));
    }
    // A PCI device without this link has no driver.
    let drivers = Path::new("drivers").join(DRIVER);
    let up_to_devices: PathBuf = device.components().skip(1).map(|_| "..").collect();
    directory.insert(device.join("driver"), SysfsEntry::Link(up_to_devices.join(&drivers)));
    let address = pci::address(info);
    directory.insert(
        Path::new(DEVICES).join(&drivers).join(&address),
        SysfsEntry::Link(Path::new("../../..").join(&device)),
    );
    let interface = format!("{INTERFACE}{number}");
    for (file, content) in interface_files(info, health) {
        let path = device.join("net").join(&interface).join(file);
        directory.insert(path, SysfsEntry::File(content));
    }
    let cxi = format!("{NAME}{number}");
    // libfabric takes the PCI address from the text of this link (health.md 2.4).
    let to_device = Path::new("../../..").join(&address);
    for (class, name) in [("net", &interface), ("cxi", &cxi), ("cxi_user", &cxi)] {
        let place = device.join(class).join(name);
        directory.insert(place.join("device"), SysfsEntry::Link(to_device.clone()));
        directory
            .insert(Path::new(class).join(name), SysfsEntry::Link(Path::new("..").join(&place)));
    }
}

/// Whether a NIC has a file. Of the driver's own ones, a virtual function has the properties only
/// (health.md 2.1.5).
pub fn has_file(info: &cxil_devinfo, file: &str) -> bool {
    const NOT_OF_VIRTUAL_FUNCTIONS: [&str; 7] =
        ["err_flgs_irqa", "fru", "link_restarts", "port", "settings", "traffic_classes", "uc"];
    let directory = file.split_once('/').map_or("", |(directory, _)| directory);
    !(info.is_vf && NOT_OF_VIRTUAL_FUNCTIONS.contains(&directory))
}

/// Gives the files below a device the contents that faults plant. Unknown files are added: they may
/// be attributes of other drivers. A planted file replaces a directory, and a file on its path
/// becomes a directory. Files of the host are left out: see [`host_files`].
pub fn plant(directory: &mut Entries, device: &Path, health: &Health) {
    let device_pairs = health.files.iter().filter(|(file, _)| !file.starts_with('/'));
    for (file, content) in device_pairs {
        let path = device.join(file);
        directory
            .retain(|directory, _| !directory.starts_with(&path) && !path.starts_with(directory));
        directory.insert(path, SysfsEntry::File(format!("{content}\n").into()));
    }
}

/// The files of the host that faults plant, below `/`. `retry_handler_entry` makes a file with this
/// content in its directory.
pub fn host_files(health: &Health, retry_handler_entry: impl Fn(&str) -> SysfsEntry) -> Entries {
    let planted = health.files.iter().filter_map(|(file, content)| {
        let path = file.strip_prefix('/')?;
        let entry = if path.starts_with("run/cxi/") {
            retry_handler_entry(content)
        } else {
            SysfsEntry::File(format!("{content}\n").into())
        };
        Some((path.into(), entry))
    });
    planted.collect()
}

/// The traffic classes of a profile, with their assured share of the NIC and their limit, in
/// percent.
fn class_files(qos: QosProfile, slowness: &Slowness) -> Vec<(String, Vec<u8>)> {
    let shares = qos.shares().iter().flat_map(|(class, assured, ceiling)| {
        let file = |name: &str, percent: u64| {
            (format!("traffic_classes/{class}/{name}"), format!("{percent}\n").into())
        };
        let ceiling = slowness.ceiling(class).unwrap_or((*ceiling).into());
        [file("assured_bw", (*assured).into()), file("ceiling_bw", ceiling)]
    });
    let profile = "traffic_classes/active_qos_profile".to_owned();
    shares.chain([(profile, format!("{}\n", qos.name()).into())]).collect()
}

/// Writes the entries of a directory.
///
/// # Errors
/// Errors of the file system.
pub fn write(directory: &Path, entries: &Entries) -> io::Result<()> {
    let mut last = None;
    for (name, entry) in entries {
        let path = directory.join(name);
        // The entries of a directory mostly follow each other.
        if let Some(parent) = path.parent().filter(|parent| last.as_deref() != Some(*parent)) {
            fs::create_dir_all(parent)?;
            last = Some(parent.to_owned());
        }
        match entry {
            SysfsEntry::File(content) => fs::write(&path, content)?,
            SysfsEntry::Link(target) => symlink(target, &path)?,
        }
    }
    Ok(())
}

/// The files that the driver adds to the PCI device.
fn driver_files(info: &cxil_devinfo, health: &Health, groups: usize) -> Vec<(String, Vec<u8>)> {
    // SAFETY: both fields of the union are 32-bit numbers.
    let nid = unsafe { info.__bindgen_anon_1.nid };
    // Firmware for the extended speed has another name (`-` here, because there is none).
    let (esm, firmware) = match health.esm {
        Some(speed) => (format!("{speed:.1} GT/s"), "--ESM".to_owned()),
        None => ("Disabled".to_owned(), "-".to_owned()),
    };
    let mut files = vec![
        ("fru/description", "software NIC".into()),
        ("fru/part_number", "".into()),
        ("fru/serial_number", "".into()),
        ("settings/ac_filter_disabled", "0".into()),
        ("uc/qspi_blob_version", firmware),
        ("properties/amo_remap_to_pcie_fadd", "-1".into()),
        ("properties/ats_enabled", "0".into()),
        ("properties/cassini_version", "2.0".into()),
        ("properties/current_esm_link_speed", esm),
        ("properties/driver_rev", env!("CARGO_PKG_VERSION").into()),
        ("properties/pcie_uncorr_err", "0".into()),
        ("properties/rgids_avail", groups.to_string()),
        ("properties/speed", if info.is_vf { 0 } else { SPEED }.to_string()),
    ];
    if health.pcie_errors == 0.0 {
        files.push(("properties/pcie_corr_err", "0".into()));
    }
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
        ("properties/system_type_identifier", &info.system_type_identifier),
        ("properties/uc_nic", &info.uc_nic),
    ];
    files.extend(numbers.map(|(file, number)| (file, number.to_string())));
    files.push(("properties/nid", format!("{nid:#x}")));
    files.push(("properties/nic_addr", format!("{nid:#x}")));
    lines(files)
}

/// The files of the link, which Cassini 2 has in `port/0`. While the link is down, its state shows
/// that: what the other files show then is not documented.
///
/// The driver of Cassini 2 takes no link down because of errors that FEC corrects, unless it is
/// told to. Here it is told to: at the bit error rate at which the driver of Cassini 1 does
/// (health.md 1.7), so that the fault `corrected` can fail a check. The other limits are its own,
/// at 200 Gb/s, without limits for warnings (health.md 2.1.3). Only the driver of the next release
/// shows what pauses the link.
fn link_files(info: &cxil_devinfo, release: Release) -> Vec<(String, Vec<u8>)> {
    let state = if info.link_state == 1 { "up" } else { "down" };
    let file = |(name, content): (&str, &str)| (format!("port/0/{name}"), format!("{content}\n"));
    let files = [
        ("link/state", state),
        ("link/speed", "bs200G"),
        ("link/config/loopback", "disabled"),
        // What autonegotiation offers: nothing, although PFC is on.
        ("link/config/pause_map", "none"),
        ("link/fec/monitor_check/ccw_down_limit", "21250000"),
        ("link/fec/monitor_check/ccw_warn_limit", "0"),
        ("link/fec/monitor_check/period_ms", "500"),
        ("link/fec/monitor_check/ucw_down_limit", "21"),
        ("link/fec/monitor_check/ucw_warn_limit", "0"),
        ("llr/state", "running"),
        ("media/type", "electrical"),
    ];
    let mut files: Vec<(String, Vec<u8>)> =
        files.map(file).map(|(name, content)| (name, content.into())).into();
    if release >= Release::Next {
        files.push(("port/0/pause".into(), "pfc/802.1qbb".into()));
    }
    files
}

/// The files of a network interface. Its MAC address is an algorithmic one, set by software: its
/// low 20 bits are the NIC address (health.md 2.2). Without it, the interface has the address of
/// the hardware, here one that RFC 7042 reserves for documents.
fn interface_files(info: &cxil_devinfo, health: &Health) -> Vec<(String, Vec<u8>)> {
    // SAFETY: both fields of the union are 32-bit numbers.
    let nid = unsafe { info.__bindgen_anon_1.nid };
    let [_, high, middle, low] = nid.to_be_bytes();
    // The interface of a virtual function is up [I: health.md 2.1.5].
    let up = info.link_state == 1 || info.is_vf;
    let state = if up { "up" } else { "down" };
    let (address, assigned) = if let Some(first) = health.ama {
        let address = format!("{first:02x}:00:00:{high:02x}:{middle:02x}:{low:02x}");
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
fn lines(files: Vec<(&str, String)>) -> Vec<(String, Vec<u8>)> {
    let files = files.into_iter();
    files.map(|(name, content)| (name.to_owned(), (content + "\n").into())).collect()
}
