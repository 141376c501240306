//! Devices: their names (`cxi3` is hardware, `soft0` a software NIC), the library that opens them,
//! addresses on the fabric.
//!
//! The kinds of NICs, and what each kind allows. Code above asks this table; only `node::backend`,
//! which opens the devices, distinguishes the kinds themselves.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::number::decimal;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// Hardware or software.
    pub kind: DeviceKind,
    /// The number in `cxiN` (any) or `softN` (0 to 99).
    pub index: u32,
}

/// The device if the user names none.
pub const DEFAULT_DEVICE: DeviceName = DeviceName { kind: DeviceKind::Hardware, index: 0 };

impl DeviceName {
    /// The software NIC of this number.
    pub fn software(index: u32) -> Self {
        Self { kind: DeviceKind::Software, index }
    }

    /// Returns what holds for the NIC.
    pub fn platform(self) -> &'static Platform {
        self.kind.platform()
    }

    /// Whether `name` is the name of a NIC for which `holds` is true.
    pub fn names(name: &str, holds: impl FnOnce(&Platform) -> bool) -> bool {
        name.parse::<Self>().is_ok_and(|name| holds(name.platform()))
    }
}

/// Description of valid device names, for messages.
pub const DEVICE_NAMES: &str = "expected cxiN (hardware) or soft0 to soft99 (software NIC)";

impl FromStr for DeviceName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (platform, index) = PLATFORMS
            .iter()
            .find_map(|platform| Some((platform, text.strip_prefix(platform.prefix)?)))
            .ok_or(DEVICE_NAMES)?;
        let index = decimal(index)
            .and_then(|n| u32::try_from(n).ok())
            .filter(|index| *index <= platform.last_index)
            .ok_or(DEVICE_NAMES)?;
        let kind = platform.kind;
        Ok(Self { kind, index })
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.platform().prefix, self.index)
    }
}

/// Environment variable that names the libcxi to load.
pub const LIBCXI_VARIABLE: &str = "CXIDIAG_LIBCXI";

/// A libcxi that the user has named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryFile {
    pub path: PathBuf,
    /// The option or variable that names it.
    pub named_by: &'static str,
}

impl LibraryFile {
    /// The library at `path`, which this option or variable names.
    pub fn new(path: PathBuf, named_by: &'static str) -> Self {
        Self { path, named_by }
    }

    /// Returns it as the user wrote it, with the option or variable before the path.
    pub fn to_os_string(&self) -> OsString {
        let mut text = OsString::from(self.named_by);
        text.push("=");
        text.push(&self.path);
        text
    }
}

/// An address on the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
pub struct FabricAddress {
    /// Address of the NIC.
    pub nic: u32,
    /// PID of the process on this NIC.
    pub pid: u32,
}

impl FabricAddress {
    /// Whether a NIC can have this address: NIC addresses have 20 bits, addresses of virtual
    /// functions 26 (libcxi.md 2.2), and PIDs are below the one that stands for any (nic.md
    /// 4.1).
    pub fn is_valid(self) -> bool {
        self.nic < 1 << 26 && self.pid < 511
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceKind {
    /// A NIC of this machine, used through libcxi.
    Hardware,
    /// A software NIC, built into this program.
    Software,
}

/// What holds for all NICs of a kind.
#[derive(Debug)]
pub struct Platform {
    pub kind: DeviceKind,
    /// The beginning of its device names; a number follows.
    pub prefix: &'static str,
    /// The highest number of a device.
    pub last_index: u32,
    /// The NICs are devices of the machine: the kernel lists them, launchers grant services on
    /// them, and the jobs of the machine share them.
    pub is_listed: bool,
    /// A library is loaded to use the NICs: `--libcxi` applies.
    pub loads_library: bool,
    /// The NICs imitate hardware; all results say so.
    pub is_simulated: bool,
    /// The CPUs of the machine do the work of the NICs: each side of a pair needs CPUs of its own,
    /// and figures differ between NICs without a fault.
    pub runs_on_cpus: bool,
}

/// One row for each kind.
const PLATFORMS: [Platform; 2] = [
    Platform {
        kind: DeviceKind::Hardware,
        prefix: "cxi",
        last_index: u32::MAX,
        is_listed: true,
        loads_library: true,
        is_simulated: false,
        runs_on_cpus: false,
    },
    Platform {
        kind: DeviceKind::Software,
        prefix: "soft",
        last_index: 99,
        is_listed: false,
        loads_library: false,
        is_simulated: true,
        runs_on_cpus: true,
    },
];

impl DeviceKind {
    /// Returns what holds for NICs of this kind.
    pub fn platform(self) -> &'static Platform {
        let row = PLATFORMS.iter().find(|platform| platform.kind == self);
        row.expect("each kind has a row; a test looks for it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_names_as_parsed() {
        for name in ["cxi0", "cxi12", "cxi4294967295", "soft0", "soft99"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("soft7".parse(), Ok(DeviceName { kind: DeviceKind::Software, index: 7 }));
    }

    #[test]
    fn t24_refuses_other_device_names() {
        for name in [
            "",
            "cxi",
            "soft",
            "cxi-1",
            "cxi+1",
            "cxi 1",
            "cxi1 ",
            "cxi01",
            "cxi00",
            "cxi4294967296",
            "soft100",
            "soft00",
            "softx",
            "Cxi0",
            "hsn0",
            "0",
            "cxi0x",
            "cxi\u{661}",
        ] {
            assert!(name.parse::<DeviceName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn asks_about_valid_names_only() {
        assert!(DeviceName::names("soft3", |platform| platform.is_simulated));
        assert!(!DeviceName::names("cxi0", |platform| platform.is_simulated));
        assert!(!DeviceName::names("eth0", |_| true));
    }

    #[test]
    fn each_kind_has_its_row() {
        for kind in [DeviceKind::Hardware, DeviceKind::Software] {
            assert_eq!(kind.platform().kind, kind);
        }
    }
}
