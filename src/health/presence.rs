//! Whether the NICs are there (health.md 2.3): those that were asked for, as many as the site
//! expects, and each with a driver.

use std::path::Path;

use super::item::{Finding, Item};
use facts::severity::Severity;
use node::machine::Machine;
use node::reading;

/// Whether a NIC that was asked for exists.
pub static DEVICE: Item = Item {
    code: "nic-absent",
    name: "NIC",
    source: "cxidiag",
    remedy: "the driver does not show this NIC: look for it in 'lspci -d 17db:' or 'lspci -d 1590:', and \
             in the kernel log for 'cxi'",
};

/// The number of NICs of the machine.
pub static COUNT: Item = Item {
    code: "nic-count",
    name: "NICs",
    source: "site",
    remedy: "a NIC is missing: look for it in 'lspci -d 17db:' or 'lspci -d 1590:', and in the kernel log \
             for 'cxi'",
};

/// NICs on the PCI bus that no driver uses.
pub static DRIVER: Item = Item {
    code: "nic-driver",
    name: "NICs without driver",
    source: "kernel",
    remedy: "no driver uses this PCI device: load cxi_ss1 (modprobe), and look into the kernel log for \
             'cxi'",
};

/// Vendor and device of the NICs on the PCI bus (health.md 2.3). Virtual functions may be without
/// a driver.
const PCI_NICS: [[&str; 2]; 2] = [["0x17db", "0x0501"], ["0x1590", "0x0371"]];

/// A NIC that exists.
pub fn present() -> Finding {
    Finding::compared(&DEVICE, "present", "present", Severity::Good)
}

/// A NIC that does not exist; `note` names the NICs that do.
pub fn absent(note: String) -> Finding {
    Finding { note: Some(note), ..Finding::compared(&DEVICE, "absent", "present", Severity::Bad) }
}

/// This number of NICs, of which the site expects `expected`.
pub fn count(found: usize, expected: Option<u32>) -> Finding {
    let Some(expected) = expected else {
        return Finding::shown(&COUNT, found.to_string()).with_number(found as f64);
    };
    let verdict = match found.cmp(&(expected as usize)) {
        std::cmp::Ordering::Less => Severity::Bad,
        std::cmp::Ordering::Equal => Severity::Good,
        std::cmp::Ordering::Greater => Severity::Suspect,
    };
    Finding::compared(&COUNT, found.to_string(), expected.to_string(), verdict)
        .with_number(found as f64)
}

/// The NICs on the PCI bus that no driver uses.
pub fn driver(machine: &Machine) -> Finding {
    let directory = machine.root().join("sys/bus/pci/devices");
    let Ok(names) = reading::names(&directory) else {
        return Finding::absent(&DRIVER);
    };
    let paths = names.into_iter().map(|name| directory.join(name));
    let unused = paths.filter(|path| is_nic(path) && !reading::exists(&path.join("driver")));
    let mut names: Vec<String> =
        unused.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => Finding::compared(&DRIVER, "none", "none", Severity::Good),
        names => Finding::compared(&DRIVER, names.join(" "), "none", Severity::Bad),
    }
}

/// Whether the PCI device at `path` is a NIC.
fn is_nic(path: &Path) -> bool {
    let ids = ["vendor", "device"].map(|name| reading::text(&path.join(name)));
    let ids = ids.map(Result::unwrap_or_default);
    PCI_NICS.contains(&[ids[0].trim(), ids[1].trim()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::severity::Severity::{Bad, Good, NotAvailable, Shown, Suspect};
    use node::machine::testing::MadeUp;

    #[test]
    fn fewer_nics_than_expected_are_bad() {
        let verdict = |found, expected| count(found, expected).verdict;
        assert_eq!(verdict(3, Some(4)), Bad);
        assert_eq!(verdict(0, Some(1)), Bad);
        assert_eq!(verdict(4, Some(4)), Good);
        assert_eq!(verdict(5, Some(4)), Suspect);
        assert_eq!(verdict(0, None), Shown);
    }

    #[test]
    fn lists_physical_nics_without_driver() {
        let host = MadeUp::new(&[]);
        assert_eq!(driver(&host.machine()).verdict, NotAvailable);
        let put = |address: &str, vendor: &str, device: &str| {
            let path = format!("sys/bus/pci/devices/{address}");
            host.write(&format!("{path}/vendor"), &format!("{vendor}\n"));
            host.write(&format!("{path}/device"), &format!("{device}\n"));
        };
        put("0000:21:00.0", "0x17db", "0x0501");
        put("0000:21:00.1", "0x1590", "0x0372");
        put("0000:22:00.0", "0x8086", "0x0501");
        host.write("sys/bus/pci/devices/0000:21:00.0/driver/module", "");
        assert_eq!(driver(&host.machine()).verdict, Good);
        put("0000:61:00.0", "0x17db", "0x0501");
        put("0000:41:00.0", "0x1590", "0x0371");
        let found = driver(&host.machine());
        let value = Some("0000:41:00.0 0000:61:00.0");
        assert_eq!((found.verdict, found.value.as_deref()), (Bad, value));
    }
}
