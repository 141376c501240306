//! The PCI device of a NIC as the kernel itself shows it: its files, with its configuration
//! space.
//!
//! Besides readers of Cassini NICs, hwloc and lspci read them. lspci reports an error without
//! `config`, `irq` or `resource`.

use std::fs;

use cxi_sys::cxil_devinfo;

use crate::fabric::{Health, PCIE_MAX, PcieLanes};
use crate::libcxi::DRIVER;

/// Base class, subclass and programming interface of an Ethernet controller.
const CLASS: u32 = 0x02_0000;

/// Base class, subclass and programming interface of a bridge between buses of PCI.
const BRIDGE_CLASS: u32 = 0x06_0400;

/// Speeds of PCIe links in 10^9 transfers per second. The configuration space has their positions,
/// counted from 1.
const SPEEDS: [f64; 5] = [2.5, 5.0, 8.0, 16.0, 32.0];

/// Ranges of addresses in `resource`: six and the ROM. A software NIC has none.
const RESOURCES: usize = 7;

/// Size of the configuration space. On hardware, users without privileges read the first 64 bytes
/// of it.
const CONFIGURATION: usize = 256;

/// Place of the PCI Express capability in the configuration space.
const CAPABILITY: u8 = 0x40;

/// The address of the PCI device of a NIC.
pub fn address(info: &cxil_devinfo) -> String {
    format!("{}:{:02x}.{}", bus(info), info.pci_device, info.pci_function)
}

/// The domain and the bus of the PCI device of a NIC.
pub fn bus(info: &cxil_devinfo) -> String {
    format!("{:04x}:{:02x}", info.pci_domain, info.pci_bus)
}

/// The text files without their last newline, and without the counts of errors that a planted fault
/// makes rise.
pub fn files(info: &cxil_devinfo, health: &Health) -> Vec<(&'static str, String)> {
    let cpus = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let (vendor, device) = (info.vendor_id, info.device_id);
    let alias = alias(vendor, device);
    let mut files = vec![
        (
            "uevent",
            format!(
                "DRIVER={DRIVER}\nPCI_CLASS={CLASS:X}\nPCI_ID={vendor:04X}:{device:04X}\n\
                 PCI_SUBSYS_ID={vendor:04X}:{device:04X}\nPCI_SLOT_NAME={}\nMODALIAS={alias}",
                address(info)
            ),
        ),
        ("modalias", alias),
        ("vendor", format!("{vendor:#06x}")),
        ("device", format!("{device:#06x}")),
        // The ids of a card are nowhere documented.
        ("subsystem_vendor", format!("{vendor:#06x}")),
        ("subsystem_device", format!("{device:#06x}")),
        ("revision", format!("{:#04x}", info.device_rev as u8)),
        ("class", format!("{CLASS:#08x}")),
        ("irq", "0".into()),
        ("resource", [["0x0000000000000000"; 3].join(" ").as_str(); RESOURCES].join("\n")),
        // A NIC without a place in the machine.
        ("numa_node", "-1".into()),
        ("local_cpulist", cpus.trim_end().into()),
        ("local_cpus", cpu_mask(cpus.trim_end())),
        ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 0".into()),
        ("aer_dev_fatal", "TOTAL_ERR_FATAL 0".into()),
    ];
    files.extend(lanes(health.pcie, PCIE_MAX));
    if health.pcie_errors == 0.0 {
        files.push(("aer_dev_correctable", "TOTAL_ERR_COR 0".into()));
    }
    files
}

/// The ids and the class of a card with the ids of its NIC as one word, as the kernel writes it for
/// udev. Device plugins of Kubernetes read the ids from it.
fn alias(vendor: u32, device: u32) -> String {
    let [_, class, subclass, interface] = CLASS.to_be_bytes();
    format!(
        "pci:v{vendor:08X}d{device:08X}sv{vendor:08X}sd{device:08X}\
         bc{class:02X}sc{subclass:02X}i{interface:02X}"
    )
}

/// The bridges above a NIC, from the root port down, each with its address and text files without
/// their last newline. Between two links is a switch: a port above it and one below it.
///
/// The list of PCI devices has no bridges. Their addresses are on the bus of the NIC, so that no
/// other NIC has them.
pub fn bridges(info: &cxil_devinfo, health: &Health) -> Vec<(String, Vec<(&'static str, String)>)> {
    let links = &health.pcie_path;
    let port_lists = links.iter().enumerate().flat_map(|(index, link)| {
        let is_of_nic = index + 1 == links.len();
        let current = if is_of_nic { health.pcie } else { link.current };
        let ports = if is_of_nic { 1 } else { 2 };
        vec![lanes(current, link.max); ports]
    });
    let mut bridges: Vec<_> = (1..)
        .zip(port_lists)
        .map(|(device, lanes)| {
            let mut files = vec![
                ("class", format!("{BRIDGE_CLASS:#08x}")),
                ("aer_dev_correctable", "TOTAL_ERR_COR 0".into()),
                ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 0".into()),
                ("aer_dev_fatal", "TOTAL_ERR_FATAL 0".into()),
            ];
            files.extend(lanes);
            (format!("{}:{device:02x}.0", bus(info)), files)
        })
        .collect();
    if let Some((_, files)) = bridges.first_mut() {
        let totals = [
            "aer_rootport_total_err_cor",
            "aer_rootport_total_err_nonfatal",
            "aer_rootport_total_err_fatal",
        ];
        files.extend(totals.map(|name| (name, "0".to_owned())));
    }
    bridges
}

/// A list of CPUs (`0-3,8`) as a mask: hexadecimal numbers of 32 bits each, the one with the lowest
/// CPUs last.
fn cpu_mask(list: &str) -> String {
    let mut words = vec![0_u32];
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
            continue;
        };
        words.resize(words.len().max(last / 32 + 1), 0);
        (first..=last).for_each(|cpu| words[cpu / 32] |= 1 << (cpu % 32));
    }
    let groups = words.iter().rev().map(|word| format!("{word:08x}"));
    groups.collect::<Vec<_>>().join(",")
}

/// The files of the link of a device.
fn lanes(current: PcieLanes, max: PcieLanes) -> [(&'static str, String); 4] {
    let speed = |lanes: PcieLanes| format!("{:.1} GT/s PCIe", lanes.speed);
    [
        ("current_link_speed", speed(current)),
        ("max_link_speed", speed(max)),
        ("current_link_width", current.width.to_string()),
        ("max_link_width", max.width.to_string()),
    ]
}

/// The file `config`, the configuration space: the header of a device with a PCI Express
/// capability.
pub fn configuration(info: &cxil_devinfo, health: &Health) -> [u8; CONFIGURATION] {
    let mut space = [0; CONFIGURATION];
    let mut set = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    let ids = [info.vendor_id, info.device_id].map(|id| (id as u16).to_le_bytes());
    set(0x00, ids.as_flattened());
    // Command: the device accesses memory. Status: it has a list of capabilities.
    set(0x04, &[0x06, 0x00, 0x10, 0x00]);
    set(0x08, &[info.device_rev as u8]);
    set(0x09, &CLASS.to_le_bytes()[..3]);
    set(0x2c, ids.as_flattened());
    set(0x34, &[CAPABILITY]);
    let capability = usize::from(CAPABILITY);
    // PCI Express, the last capability, in the second version, of an endpoint.
    set(capability, &[0x10, 0x00, 0x02, 0x00]);
    let most = link(PCIE_MAX);
    set(capability + 0x0c, &u32::from(most).to_le_bytes());
    let now = link(health.pcie);
    set(capability + 0x12, &now.to_le_bytes());
    space
}

/// Speed and width of a PCIe link as registers have them.
fn link(lanes: PcieLanes) -> u16 {
    let slower = SPEEDS.iter().take_while(|speed| **speed < lanes.speed);
    (lanes.width as u16) << 4 | (slower.count() + 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_list_of_cpus_as_mask() {
        assert_eq!(cpu_mask("0-1"), "00000003");
        assert_eq!(cpu_mask("0,4-7,31"), "800000f1");
        assert_eq!(cpu_mask("1,63-64"), "00000001,80000000,00000002");
        assert_eq!(cpu_mask(""), "00000000");
    }
}
