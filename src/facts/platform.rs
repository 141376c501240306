//! The kinds of NICs, and what each kind allows. Code above asks this table; only `node::backend`,
//! which opens the devices, distinguishes the kinds themselves.

use serde::{Deserialize, Serialize};

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
pub const PLATFORMS: [Platform; 2] = [
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
    fn each_kind_has_its_row() {
        for kind in [DeviceKind::Hardware, DeviceKind::Software] {
            assert_eq!(kind.platform().kind, kind);
        }
    }
}
