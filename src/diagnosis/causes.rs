//! The causes (diagnosis.md 2), each a row: what proves it, how it shows in the columns of the
//! matrix (diagnosis.md 5), and what to do about it.
//!
//! A new cause is a new row. Cells that the matrix leaves open are left out.

use crate::columns::Column;
use crate::columns::Column::{
    CommandRead, HostRead, HugePages, OtherClass, Pause, Read, ReadBandwidth, Received, Sent, Tail,
    Write, WriteBandwidth, WriteFrom, WriteTo, WriteToInOtherClass,
};
use Cell::{
    AsSign, AtLeast, Certainly, CertainlyAsSign, CertainlySame, CertainlySlower, Same, Share,
    Slower, Varies,
};
use Sign::{Bad, Cures, Differs, Less, More, Wrong};

/// A cause.
#[derive(Debug)]
pub struct Cause {
    /// What documents and metrics name it by. It never changes.
    pub id: &'static str,
    /// What it is, after "because".
    pub what: &'static str,
    /// Its subject in a list of what was excluded.
    pub subject: &'static str,
    /// What proves it: one sign is enough.
    pub signs: &'static [Sign],
    /// How it shows.
    pub cells: &'static [(Column, Cell)],
    /// Whether it makes operations fail, so that figures cannot show it.
    pub fails: bool,
    /// Whether figures say nothing about the NIC meanwhile, so that nothing else is known about it.
    pub voids: bool,
    /// Whether it is excluded if all of its signs can be read and none holds: it has no other form.
    pub files_exclude: bool,
    /// What to do.
    pub advice: &'static str,
    /// Who can do it.
    pub by: By,
}

/// Who can do something about a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The user of the node.
    User,
    /// An administrator of the node.
    Root,
    /// The administrator of the fabric.
    FabricManager,
    /// Somebody at the node.
    Hands,
}

impl By {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Root => "root",
            Self::FabricManager => "fabric manager",
            Self::Hands => "hands",
        }
    }
}

/// An item that proves a cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sign {
    /// The item with this code is bad or suspect, and is not so on many good NICs.
    Wrong(&'static str),
    /// The item with this code is bad, whatever good NICs have.
    Bad(&'static str),
    /// The item with this code is not bad, but hardly any good NIC has its value.
    Differs(&'static str),
    /// The same, with a smaller number than most good NICs have.
    Less(&'static str),
    /// The same, with a larger number than most good NICs have, and than this one.
    More(&'static str, f64),
    /// What is slow is as fast as on good NICs if it is done in another way.
    Cures(Column),
}

impl Sign {
    /// Returns the code of its item, if it is one.
    pub fn code(self) -> Option<&'static str> {
        match self {
            Self::Wrong(code)
            | Self::Bad(code)
            | Self::Differs(code)
            | Self::Less(code)
            | Self::More(code, _) => Some(code),
            Self::Cures(_) => None,
        }
    }
}

/// How documents describe a culprit that is not slower in a column.
pub const SAME: &str = "as good NICs";

/// What is expected of a culprit in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// As good NICs.
    Same,
    /// Slower.
    Slower,
    /// Slower or not: it says nothing about the cause, and the cause may explain it.
    Varies,
    /// A bandwidth that is this share of the bandwidth of good NICs.
    Share(f64, f64),
    /// A bandwidth whose share is about the share of the sign: half of the lanes, half of the
    /// bandwidth.
    AsSign,
    /// The same; without it, the cause is never certain.
    CertainlyAsSign,
    /// A bandwidth of at least this share of the bandwidth of good NICs.
    AtLeast(f64),
    /// As the column of good NICs; without it, the cause is never certain.
    CertainlySame,
    /// Slower; without it, the cause is never certain.
    CertainlySlower,
    /// A share of a bandwidth; without it, the cause is never certain.
    Certainly(f64, f64),
}

impl Cell {
    /// Returns whether the cause is never certain without it.
    pub fn is_decisive(self) -> bool {
        matches!(
            self,
            Self::CertainlySame
                | Self::CertainlySlower
                | Self::Certainly(..)
                | Self::CertainlyAsSign
        )
    }

    /// Returns whether the culprit is as good NICs in the column.
    pub fn is_same(self) -> bool {
        matches!(self, Self::Same | Self::CertainlySame)
    }

    /// Returns the cell in words.
    pub fn words(self) -> String {
        match self {
            Self::Same | Self::CertainlySame => SAME.into(),
            Self::Slower | Self::CertainlySlower => "slower".into(),
            Self::Varies => "slower or not".into(),
            Self::Share(low, high) | Self::Certainly(low, high) => {
                format!("{low} to {high} of good NICs")
            }
            Self::AsSign | Self::CertainlyAsSign => "about the share of the sign".into(),
            Self::AtLeast(share) => format!("at least {share} of good NICs"),
        }
    }
}

/// How a PCIe link shows that is slower than the links of good NICs.
const SLOW_PCIE: &[(Column, Cell)] = &[
    (Write, Same),
    (WriteBandwidth, CertainlyAsSign),
    (ReadBandwidth, AsSign),
    (Sent, AsSign),
    (Received, AsSign),
    (HugePages, Slower),
    (OtherClass, Slower),
];

/// Code of the reading that says that the processes of a NIC waited for their CPUs in all tests.
pub const CPU_WAIT: &str = "cpu-wait";

/// Code of the reading about the traffic of others.
pub const FOREIGN: &str = "foreign-traffic";

/// Without tests that show it.
const NOTHING: &[(Column, Cell)] = &[];

/// The causes.
pub const CAUSES: &[Cause] = &[
    Cause {
        id: "retry-off",
        what: "no retry handler runs for the NIC",
        subject: "retry handler",
        signs: &[Wrong("retry-handler")],
        cells: NOTHING,
        fails: true,
        voids: false,
        files_exclude: true,
        advice: "start the retry handler before traffic; under traffic, reboot the node",
        by: By::Root,
    },
    Cause {
        id: "ama",
        what: "the NIC has no algorithmic MAC address",
        subject: "address",
        signs: &[Wrong("ama")],
        cells: NOTHING,
        fails: true,
        voids: false,
        files_exclude: true,
        advice: "renew the address (lldpad), or reboot the node",
        by: By::Root,
    },
    Cause {
        id: "loopback-mode",
        what: "the NIC is in internal loopback and never reaches the cable",
        subject: "loopback mode",
        signs: &[Wrong("loopback-on")],
        cells: NOTHING,
        fails: true,
        voids: false,
        files_exclude: true,
        advice: "reload the driver",
        by: By::Root,
    },
    Cause {
        id: "link-down",
        what: "the link is down",
        subject: "link state",
        signs: &[Wrong("link-down")],
        cells: NOTHING,
        fails: true,
        voids: false,
        files_exclude: true,
        advice: "reseat the cable, and look at the port of the switch",
        by: By::Hands,
    },
    Cause {
        id: "nic-broken",
        what: "memory of the NIC has uncorrectable errors",
        subject: "memory of the NIC",
        signs: &[Wrong("memory-errors")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reset the NIC; if the errors return, replace it",
        by: By::Hands,
    },
    Cause {
        id: "pcie-narrow",
        what: "a PCIe link runs with fewer lanes than both of its ends have",
        subject: "PCIe width",
        signs: &[Bad("pcie-width")],
        cells: SLOW_PCIE,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reboot the node; if the width stays, reseat, then replace the card",
        by: By::Hands,
    },
    Cause {
        id: "pcie-slow",
        what: "a PCIe link is slower than both of its ends can be",
        subject: "PCIe speed",
        signs: &[Bad("pcie-speed")],
        cells: SLOW_PCIE,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reboot the node; if the speed stays, look at slot, riser and BIOS",
        by: By::Hands,
    },
    Cause {
        id: "pcie-slot",
        what: "the slot or a PCIe switch can do less than the slots of other nodes",
        subject: "slot",
        signs: &[Less("pcie-width"), Less("pcie-speed")],
        cells: SLOW_PCIE,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "move the card to another slot",
        by: By::Hands,
    },
    Cause {
        id: "pcie-errors",
        what: "PCIe packets are corrupted and sent again",
        subject: "PCIe errors",
        signs: &[Wrong("pcie-corrected"), Wrong("pcie-uncorrected")],
        cells: &[
            (Write, Same),
            (Tail, CertainlySlower),
            (WriteBandwidth, AtLeast(0.8)),
            (HugePages, Varies),
            (OtherClass, Varies),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reseat the card; then look at slot and riser",
        by: By::Hands,
    },
    Cause {
        id: "link-speed",
        what: "the link is slower than the NIC can be",
        subject: "link speed",
        signs: &[Wrong("link-speed"), Less("link-speed")],
        cells: &[
            (Write, Same),
            (WriteBandwidth, Certainly(0.35, 0.65)),
            (ReadBandwidth, Share(0.35, 0.7)),
            (Sent, Share(0.35, 0.65)),
            (Received, Share(0.35, 0.65)),
            (HugePages, Slower),
            (OtherClass, Slower),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "look at the cable and at the configuration of the switch port",
        by: By::FabricManager,
    },
    Cause {
        id: "link-lanes",
        what: "the receiving side of the link has lost lanes",
        subject: "link lanes",
        signs: &[Wrong("link-degraded")],
        cells: &[
            (Write, Same),
            (WriteBandwidth, Share(0.35, 0.65)),
            (ReadBandwidth, Share(0.35, 0.65)),
            (Sent, CertainlySame),
            (Received, Certainly(0.35, 0.65)),
            (HugePages, Slower),
            (OtherClass, Slower),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reseat the cable, then replace it",
        by: By::Hands,
    },
    Cause {
        id: "link-errors",
        what: "the link has bit errors",
        subject: "link errors",
        signs: &[
            Wrong("fec-uncorrected"),
            Wrong("fec-corrected"),
            Wrong("fec-lane"),
            Wrong("link-replays"),
            Wrong("link-interrupted"),
        ],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (Tail, CertainlySlower),
            (WriteBandwidth, AtLeast(0.9)),
            (HugePages, Varies),
            (OtherClass, Varies),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reseat the cable, then swap it: see whether the errors follow the cable",
        by: By::Hands,
    },
    Cause {
        id: "link-flaps",
        what: "the link went down and came back, which takes half a minute each time",
        subject: "link flaps",
        signs: &[Wrong("link-flaps")],
        cells: &[(Write, Same), (HostRead, Same), (Read, Same)],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reseat the cable, then swap it",
        by: By::Hands,
    },
    Cause {
        id: "iommu",
        what: "the IOMMU translates the addresses of the NIC",
        subject: "IOMMU",
        signs: &[Wrong("iommu")],
        cells: &[
            (Write, Varies),
            (HostRead, CertainlySlower),
            (Read, Slower),
            (WriteBandwidth, Share(0.4, 0.95)),
            (ReadBandwidth, Share(0.4, 0.95)),
            (CommandRead, Varies),
            (Sent, Varies),
            (Received, Slower),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (HugePages, Varies),
            (OtherClass, Slower),
            (WriteToInOtherClass, Varies),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "set the IOMMU to identity (iommu=pt), and reboot the node",
        by: By::Root,
    },
    Cause {
        id: "numa",
        what: "the process runs far from the NIC",
        subject: "NUMA",
        signs: &[Wrong("numa")],
        cells: &[
            (Write, CertainlySlower),
            (HostRead, Slower),
            (CommandRead, Varies),
            (Read, Same),
            (WriteBandwidth, Varies),
            (ReadBandwidth, Varies),
            (Sent, Varies),
            (Received, Varies),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (HugePages, Varies),
            (OtherClass, Varies),
            (WriteToInOtherClass, Varies),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "use --cpu=auto, or bind the process to the CPUs of the NIC",
        by: By::User,
    },
    Cause {
        id: "cpu-slow",
        what: "the CPUs of the node are slow",
        subject: "CPU clock",
        signs: &[Wrong("governor"), Wrong("cpu-throttling")],
        cells: &[
            (Write, CertainlySlower),
            (HostRead, Same),
            (Read, Varies),
            (WriteBandwidth, Same),
            (ReadBandwidth, Same),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (WriteToInOtherClass, Varies),
        ],
        fails: false,
        voids: false,
        files_exclude: false,
        advice: "set the governor to performance, and look at power limits and cooling",
        by: By::Root,
    },
    Cause {
        id: "cpu-sleep",
        what: "the CPUs sleep deeply between operations",
        subject: "idle states",
        signs: &[More("idle-states", 10.0)],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (Pause, CertainlySlower),
            (WriteBandwidth, Same),
            (ReadBandwidth, Same),
        ],
        fails: false,
        voids: false,
        files_exclude: false,
        advice: "disable idle states that take longer than 10 us (cpupower idle-set -D 10)",
        by: By::Root,
    },
    Cause {
        id: "cpu-noise",
        what: "other processes use the CPUs of the node",
        subject: "busy CPUs",
        signs: &[Wrong(CPU_WAIT)],
        cells: NOTHING,
        fails: false,
        voids: true,
        files_exclude: true,
        advice: "end the other processes, or drain the node, and measure again",
        by: By::User,
    },
    Cause {
        id: "others-use",
        what: "other processes use the NIC",
        subject: "use by others",
        signs: &[Wrong(FOREIGN)],
        cells: NOTHING,
        fails: false,
        voids: true,
        files_exclude: true,
        advice: "wait until the NIC is idle, and measure again",
        by: By::User,
    },
    Cause {
        id: "memory-bw",
        what: "the memory of the node is slow",
        subject: "memory",
        signs: &[Less("memory-size"), Wrong("host-memory-errors")],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (Read, Same),
            (WriteBandwidth, Share(0.4, 0.95)),
            (ReadBandwidth, CertainlySlower),
            (Sent, Varies),
            (Received, Slower),
            (HugePages, Slower),
            (OtherClass, Slower),
        ],
        fails: false,
        voids: false,
        files_exclude: false,
        advice: "compare the memory with other nodes (MemTotal, EDAC), and replace a bad DIMM",
        by: By::Hands,
    },
    Cause {
        id: "hugepages",
        what: "the NIC translates the addresses of many small pages",
        subject: "page size",
        signs: &[Cures(HugePages)],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (WriteBandwidth, Certainly(0.5, 0.95)),
            (ReadBandwidth, Share(0.5, 0.95)),
            (Sent, Varies),
            (Received, Varies),
            (HugePages, Same),
            (OtherClass, Slower),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "measure with --use-hp=2M",
        by: By::User,
    },
    Cause {
        id: "class-cap",
        what: "the traffic class has a ceiling",
        subject: "traffic class",
        signs: &[Less("class-ceiling")],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (WriteBandwidth, CertainlySlower),
            (ReadBandwidth, Varies),
            (Sent, Slower),
            (Received, Same),
            (HugePages, Slower),
            (OtherClass, CertainlySame),
        ],
        fails: false,
        voids: false,
        files_exclude: false,
        advice: "measure with another --traffic-class",
        by: By::User,
    },
    Cause {
        id: "qos-differs",
        what: "the NIC has another QoS profile than the others",
        subject: "QoS profile",
        signs: &[Wrong("qos-profile"), Differs("qos-profile")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "give all NICs the same profile",
        by: By::Root,
    },
    Cause {
        id: "pause-mode",
        what: "the link pauses as a whole, or not at all, in place of each class",
        subject: "pause mode",
        signs: &[Wrong("pause-mode"), Differs("pause-mode")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "set the pause mode to PFC",
        by: By::Root,
    },
    Cause {
        id: "mtu",
        what: "the NIC has another MTU than the others",
        subject: "MTU",
        signs: &[Wrong("mtu"), Differs("mtu")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "reload the driver with its usual settings",
        by: By::Root,
    },
    Cause {
        id: "esm-off",
        what: "the PCIe link of the NIC lacks the extended speed of the others",
        subject: "extended PCIe speed",
        signs: &[Less("esm")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "install the firmware for the extended speed (slingshot-firmware --cassini_opt \
                 \"--esm\" update)",
        by: By::Root,
    },
    Cause {
        id: "firmware",
        what: "the NIC has other firmware than the others",
        subject: "firmware",
        signs: &[Differs("firmware")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "install the firmware of the other nodes",
        by: By::Root,
    },
    Cause {
        id: "driver",
        what: "the node has another driver than the others",
        subject: "driver",
        signs: &[Differs("driver")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "install the driver of the other nodes",
        by: By::Root,
    },
    Cause {
        id: "libcxi",
        what: "the node has another libcxi than the others",
        subject: "libcxi",
        signs: &[Differs("libcxi")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "install the libcxi of the other nodes",
        by: By::Root,
    },
    Cause {
        id: "kernel",
        what: "the node has another kernel than the others",
        subject: "kernel",
        signs: &[Differs("kernel")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "boot the kernel of the other nodes",
        by: By::Root,
    },
    Cause {
        id: "port",
        what: "the port of the switch, or what is behind it, is slow",
        subject: "switch port",
        signs: &[],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (Read, Same),
            (WriteBandwidth, CertainlySame),
            (ReadBandwidth, Same),
            (Sent, Varies),
            (Received, Varies),
            (WriteTo, CertainlySlower),
            (WriteFrom, Varies),
            (WriteToInOtherClass, Slower),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "look at the counters of the switch port; then move the cable to a free port",
        by: By::FabricManager,
    },
    Cause {
        id: "congestion",
        what: "other traffic uses the path",
        subject: "congestion",
        signs: &[Wrong("congestion-marks")],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (Read, Same),
            (WriteBandwidth, CertainlySame),
            (ReadBandwidth, Same),
            (Sent, Varies),
            (Received, Varies),
            (WriteTo, CertainlySlower),
            (WriteFrom, Varies),
            (WriteToInOtherClass, CertainlySame),
        ],
        fails: false,
        voids: false,
        files_exclude: false,
        advice: "measure again when the fabric is idle, or in another --traffic-class",
        by: By::User,
    },
    Cause {
        id: "loss",
        what: "packets are lost on the way",
        subject: "lost packets",
        signs: &[Wrong("packets-lost")],
        cells: NOTHING,
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "see which NICs count timeouts and towards whom, and look at the path between them",
        by: By::FabricManager,
    },
    Cause {
        id: "parked",
        what: "the retry handler regards a peer as down, because packets to it were lost",
        subject: "parked peers",
        signs: &[Wrong("parked-peers")],
        cells: &[
            (Write, Same),
            (HostRead, Same),
            (Read, Same),
            (WriteBandwidth, Same),
            (ReadBandwidth, Same),
        ],
        fails: false,
        voids: false,
        files_exclude: true,
        advice: "wait 136 s, and test again",
        by: By::User,
    },
    Cause {
        id: "fgfc",
        what: "the fabric holds this NIC back",
        subject: "flow control of the fabric",
        signs: &[Wrong("fabric-stall")],
        cells: &[
            (Write, Same),
            (WriteBandwidth, CertainlySame),
            (Sent, Certainly(0.1, 0.9)),
            (Received, CertainlySame),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (WriteToInOtherClass, Varies),
        ],
        fails: false,
        voids: false,
        files_exclude: false,
        advice: "look at the path of its group",
        by: By::FabricManager,
    },
];

/// Returns the cause with this id.
pub fn cause(id: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn causes_have_ids_and_columns_once() {
        let ids: BTreeSet<&str> = CAUSES.iter().map(|cause| cause.id).collect();
        assert_eq!(ids.len(), CAUSES.len());
        for cause in CAUSES {
            let columns: BTreeSet<Column> = cause.cells.iter().map(|(column, _)| *column).collect();
            assert_eq!(columns.len(), cause.cells.len(), "{}", cause.id);
            assert!(
                !cause.signs.is_empty() || !cause.cells.is_empty(),
                "{} can never be found",
                cause.id
            );
        }
    }

    #[test]
    fn shares_are_between_nothing_and_good() {
        let cells = CAUSES.iter().flat_map(|cause| cause.cells);
        for (_, cell) in cells {
            if let Share(low, high) | Certainly(low, high) = cell {
                assert!(0.0 < *low && low < high && *high < 1.0);
            }
        }
    }
}
