//! The PCIe links between a NIC and its host, one behind the other, their speeds, and the driver's
//! limits of their errors (health.md 1.7, 2.1).

use super::files::Files;
use crate::reading;

/// The PCIe links between a NIC and its host.
#[derive(Clone, Debug, PartialEq)]
pub struct PciePath {
    /// The links, from the root port to the NIC. Empty if no bridge is visible above the NIC, as in
    /// a virtual machine.
    pub links: Vec<PcieLink>,
    /// The bridges above the NIC, from the root port down.
    pub bridges: Vec<PciDevice>,
}

/// A PCIe link and the devices at its ends.
#[derive(Clone, Debug, PartialEq)]
pub struct PcieLink {
    /// The root port, or the port of a switch.
    pub upper: PciDevice,
    /// The port of a switch, or the NIC. What this device shows as current is the state of the
    /// link.
    pub lower: PciDevice,
}

/// A PCI device, with what the kernel shows of its link.
#[derive(Clone, Debug, PartialEq)]
pub struct PciDevice {
    /// Its address, such as `0000:41:00.0`.
    pub address: String,
    /// The way from the NIC to its directory: `../../`. A file that does not answer is thus a file
    /// of the NIC.
    way: String,
    /// Lanes in use.
    pub width: Option<u64>,
    /// Lanes that it can use.
    pub max_width: Option<u64>,
    /// Transfers per second of each lane, in 10^9.
    pub gt_per_s: Option<f64>,
    /// The most transfers per second of each lane, in 10^9.
    pub max_gt_per_s: Option<f64>,
}

impl PciePath {
    /// Reads the path of a NIC.
    ///
    /// A switch is two bridges: the kernel shows the port towards the host, and below it the port
    /// towards the NIC. No link is between these two, so each link has two devices of its own,
    /// counted from the NIC.
    pub fn read(files: &Files) -> Self {
        let device = reading::resolved(&files.path("")).unwrap_or_default();
        let mut upwards: Vec<PciDevice> = device
            .ancestors()
            .map_while(|directory| directory.file_name()?.to_str())
            .take_while(|name| is_address(name))
            .enumerate()
            .map(|(number, address)| PciDevice::read(files, address, "../".repeat(number)))
            .collect();
        if let Some(nic) = upwards.first_mut() {
            nic.gt_per_s = PcieSpeed::read(files).map(|speed| speed.gt_per_s);
        }
        let mut links: Vec<PcieLink> = upwards
            .chunks_exact(2)
            .map(|ends| PcieLink { upper: ends[1].clone(), lower: ends[0].clone() })
            .collect();
        links.reverse();
        Self { links, bridges: upwards.into_iter().skip(1).rev().collect() }
    }
}

impl PciDevice {
    fn read(files: &Files, address: &str, way: String) -> Self {
        let width = |name| {
            let lanes = files.number(&format!("{way}{name}"))?;
            Some(lanes).filter(|lanes| *lanes > 0)
        };
        let speed = |name| gigatransfers(&files.text(&format!("{way}{name}"))?);
        Self {
            address: address.to_owned(),
            width: width("current_link_width"),
            max_width: width("max_link_width"),
            gt_per_s: speed("current_link_speed"),
            max_gt_per_s: speed("max_link_speed"),
            way,
        }
    }

    /// The text of a file of the device, without white space at its ends. `files` are the files of
    /// the NIC.
    pub fn text(&self, files: &Files, name: &str) -> Option<String> {
        files.text(&format!("{}{name}", self.way))
    }
}

/// Whether a name is the address of a PCI device: domain, bus, device and function.
fn is_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let [domain, bus, device, function] = parts[..] else {
        return false;
    };
    let lengths = [bus, device, function].map(str::len);
    let are_digits = |text: &&str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    domain.len() >= 4 && lengths == [2, 2, 1] && parts.iter().all(are_digits)
}

/// Speeds in 10^9 transfers per second of a lane, and the corrected errors of one kind in a minute
/// above which the driver reports them.
const CORRECTED_LIMITS: [(f64, u64); 7] =
    [(2.5, 5), (5.0, 10), (8.0, 15), (16.0, 31), (20.0, 40), (25.0, 48), (32.0, 61)];

/// The speed of the connection of a NIC to its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PcieSpeed {
    /// Transfers per second of each lane, in 10^9.
    pub gt_per_s: f64,
    /// Whether it is an extended speed, which the kernel does not show.
    pub is_extended: bool,
}

impl PcieSpeed {
    /// The speed in effect: the extended one where there is one.
    pub fn read(files: &Files) -> Option<Self> {
        let speed = |name, is_extended| {
            let gt_per_s = gigatransfers(&files.text(name)?)?;
            Some(Self { gt_per_s, is_extended })
        };
        speed("properties/current_esm_link_speed", true)
            .or_else(|| speed("current_link_speed", false))
    }

    /// The largest speed of the card without extension.
    pub fn max(files: &Files) -> Option<f64> {
        gigatransfers(&files.text("max_link_speed")?)
    }
}

/// The corrected errors of one kind in a minute above which the driver reports them.
pub fn max_corrected_per_minute(gt_per_s: f64) -> Option<u64> {
    let limit = CORRECTED_LIMITS.iter().find(|(gt, _)| *gt == gt_per_s)?;
    Some(limit.1)
}

/// The number in a speed such as `16.0 GT/s PCIe` or `16 GT/s`.
pub fn gigatransfers(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let number = number.parse().ok().filter(|number: &f64| *number > 0.0);
    number.filter(|_| unit.starts_with("GT/s"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::MadeUp;
    use super::*;

    const ENDPOINT: &str = "pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:04.0/0000:43:00.0";

    #[test]
    fn a_link_has_two_devices_of_its_own() {
        let made_up = MadeUp::at(ENDPOINT);
        made_up.write("../../max_link_width", "8\n");
        made_up.write("current_link_speed", "16.0 GT/s PCIe\n");
        let path = PciePath::read(&made_up.files);
        let ends = |link: &PcieLink| [link.upper.address.clone(), link.lower.address.clone()];
        let links: Vec<[String; 2]> = path.links.iter().map(ends).collect();
        let expected = [["0000:40:01.1", "0000:41:00.0"], ["0000:42:04.0", "0000:43:00.0"]];
        assert_eq!(links, expected);
        assert_eq!(path.links[0].lower.max_width, Some(8));
        assert_eq!(path.links[1].lower.gt_per_s, Some(16.0));
        assert_eq!(path.links[1].upper.gt_per_s, None);
        let bridges = path.bridges.iter().map(|bridge| bridge.address.as_str());
        assert!(bridges.eq(["0000:40:01.1", "0000:41:00.0", "0000:42:04.0"]));
    }

    #[test]
    fn nic_without_bridges_has_no_links() {
        for device in ["pci0000:00/0000:00:05.0", "virtual/cxi0"] {
            let path = PciePath::read(&MadeUp::at(device).files);
            assert!(path.links.is_empty() && path.bridges.is_empty(), "{device}");
        }
        assert!(PciePath::read(&MadeUp::new(&[]).files).links.is_empty());
    }

    #[test]
    fn extended_speed_is_the_speed_of_the_link() {
        let made_up = MadeUp::at("pci0000:40/0000:40:01.1/0000:41:00.0");
        made_up.write("current_link_speed", "16.0 GT/s PCIe\n");
        made_up.write("properties/current_esm_link_speed", "25.0 GT/s\n");
        let path = PciePath::read(&made_up.files);
        assert_eq!(path.links[0].lower.gt_per_s, Some(25.0));
    }

    #[test]
    fn recognizes_addresses() {
        for (name, is) in [
            ("0000:41:00.0", true),
            ("10000:e1:1f.7", true),
            ("pci0000:40", false),
            ("0000:41:00", false),
            ("0000:41:00.00", false),
            ("wxyz:41:00.0", false),
        ] {
            assert_eq!(is_address(name), is, "{name}");
        }
    }

    #[test]
    fn reads_speeds_of_all_kernels() {
        for (text, expected) in [
            ("16.0 GT/s PCIe", Some(16.0)),
            ("16 GT/s", Some(16.0)),
            ("2.5 GT/s", Some(2.5)),
            ("Disabled", None),
            ("Unknown speed", None),
            ("0 GT/s", None),
            ("16 lanes", None),
        ] {
            assert_eq!(gigatransfers(text), expected, "{text}");
        }
    }
}
