//! The causes (diagnosis.md 2), each a row: what proves it, how it shows in the columns of the
//! matrix (diagnosis.md 5), and what to do about it.
//!
//! A new cause is a new row. Cells that the matrix leaves open are left out.

use super::procedure::Column::{
    self, CommandRead, FastFlows, Hop, HostRead, HugePages, Memory, OtherClass, Pause, Read,
    ReadBandwidth, Received, Sent, SlowFlows, Survey, Tail, Waiting, Write, WriteBandwidth,
    WriteFrom, WriteTo, WriteToInOtherClass,
};
use super::readings::FLOW_HEAPS;
use crate::causes::cause::ExpectedResult::{
    AsSign, AtLeast, MustBeAsSign, MustBeSame, MustBeShare, MustBeSlower, Same, Share, Slower,
    Varies,
};
use crate::causes::cause::Sign::{Bad, BadAlone, Cures, Differs, Less, More, Wrong};
use crate::causes::cause::{By, CauseRule, ExpectedResult};

/// How a PCIe link shows that is slower than the links of good NICs.
const SLOW_PCIE: &[(Column, ExpectedResult)] = &[
    (Write, Same),
    (WriteBandwidth, MustBeAsSign),
    (ReadBandwidth, AsSign),
    (Sent, AsSign),
    (Received, AsSign),
    (HugePages, Slower),
    (OtherClass, Slower),
];

/// Code of the reading about the traffic of others.
pub const FOREIGN: &str = "foreign-traffic";

/// What most causes have in common. Tests show only the causes that say how.
const ORDINARY: CauseRule = CauseRule {
    id: "",
    what: "",
    subject: "",
    signs: &[],
    expected: &[],
    fails: false,
    voids: false,
    files_exclude: true,
    advice: "",
    is_costly: false,
    by: By::User,
};

pub const CAUSES: &[CauseRule] = &[
    CauseRule {
        id: "retry-off",
        what: "no retry handler runs for the NIC",
        subject: "retry handler",
        signs: &[Wrong("retry-handler")],
        fails: true,
        advice: "start the retry handler before traffic; under traffic, reboot the node",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "parked",
        what: "the retry handler regards peers as down, because they did not answer",
        subject: "parked peers",
        signs: &[Wrong("parked-peers")],
        fails: true,
        advice: "measure again after 136 s; if it fails again, look at the path to these peers",
        by: By::User,
        ..ORDINARY
    },
    CauseRule {
        id: "ama",
        what: "the NIC has no algorithmic MAC address",
        subject: "address",
        signs: &[Wrong("ama")],
        fails: true,
        advice: "renew the address (lldpad), or reboot the node",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "loopback-mode",
        what: "the NIC is in internal loopback and never reaches the cable",
        subject: "loopback mode",
        signs: &[Wrong("loopback-on")],
        fails: true,
        advice: "reload the driver",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "link-down",
        what: "the link is down",
        subject: "link state",
        signs: &[Wrong("link-down")],
        fails: true,
        advice: "reseat the cable, and look at the port of the switch",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "nic-broken",
        what: "memory of the NIC has uncorrectable errors",
        subject: "memory of the NIC",
        signs: &[Wrong("memory-errors")],
        advice: "reset the NIC; if the errors return, replace it",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "over-temperature",
        what: "the card or the end of its cable is too hot",
        subject: "temperature",
        signs: &[
            BadAlone("asic-temperature"),
            BadAlone("media-temperature"),
            BadAlone("regulator-temperature"),
        ],
        advice: "look at fans, air flow and heat sink; then see 'cxidiag check --stress'",
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "pcie-narrow",
        what: "a PCIe link runs with fewer lanes than both of its ends have",
        subject: "PCIe width",
        signs: &[Bad("pcie-width")],
        expected: SLOW_PCIE,
        advice: "reboot the node; if the width stays, reseat, then replace the card",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "pcie-slow",
        what: "a PCIe link is slower than both of its ends can be",
        subject: "PCIe speed",
        signs: &[Bad("pcie-speed")],
        expected: SLOW_PCIE,
        advice: "reboot the node; if the speed stays, look at slot, riser and BIOS",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "pcie-slot",
        what: "the slot or a PCIe switch can do less than the slots of other nodes",
        subject: "slot",
        signs: &[Less("pcie-width"), Less("pcie-speed")],
        expected: SLOW_PCIE,
        advice: "move the card to another slot",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "pcie-errors",
        what: "PCIe packets are corrupted and sent again",
        subject: "PCIe errors",
        signs: &[Wrong("pcie-corrected"), Wrong("pcie-uncorrected")],
        expected: &[
            (Write, Same),
            (Tail, MustBeSlower),
            (WriteBandwidth, AtLeast(0.8)),
            (HugePages, Varies),
            (OtherClass, Varies),
        ],
        advice: "reseat the card; then look at slot and riser",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "link-speed",
        what: "the link is slower than the NIC can be",
        subject: "link speed",
        signs: &[Wrong("link-speed"), Less("link-speed")],
        expected: &[
            (Write, Same),
            (WriteBandwidth, MustBeShare(0.35, 0.65)),
            (ReadBandwidth, Share(0.35, 0.7)),
            (Sent, Share(0.35, 0.65)),
            (Received, Share(0.35, 0.65)),
            (HugePages, Slower),
            (OtherClass, Slower),
        ],
        advice: "look at the cable and at the configuration of the switch port",
        by: By::FabricManager,
        ..ORDINARY
    },
    CauseRule {
        id: "link-lanes",
        what: "the link has lost lanes",
        subject: "link lanes",
        signs: &[Wrong("link-degraded")],
        expected: &[
            (Write, Same),
            (WriteBandwidth, Share(0.35, 0.65)),
            (ReadBandwidth, Share(0.35, 0.65)),
            (Sent, MustBeSame),
            (Received, MustBeShare(0.35, 0.65)),
            (HugePages, Slower),
            (OtherClass, Slower),
        ],
        advice: "reseat the cable, then replace it",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
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
        expected: &[
            (Write, Same),
            (HostRead, Same),
            (Tail, MustBeSlower),
            (WriteBandwidth, AtLeast(0.9)),
            (HugePages, Varies),
            (OtherClass, Varies),
        ],
        advice: "reseat the cable, then swap it: see whether the errors follow the cable",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "link-flaps",
        what: "the link went down and came back, which takes half a minute each time",
        subject: "link flaps",
        signs: &[Wrong("link-flaps")],
        expected: &[(Write, Same), (HostRead, Same), (Read, Same)],
        advice: "reseat the cable, then swap it",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "iommu",
        what: "the IOMMU translates the addresses of the NIC",
        subject: "IOMMU",
        signs: &[Wrong("iommu")],
        expected: &[
            (Write, Varies),
            (HostRead, MustBeSlower),
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
            (Hop, Varies),
        ],
        advice: "set the IOMMU to identity (iommu=pt), and reboot the node",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "numa",
        what: "the process runs far from the NIC",
        subject: "NUMA",
        signs: &[Wrong("numa")],
        expected: &[
            (Write, MustBeSlower),
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
            (Hop, Varies),
        ],
        advice: "use --cpu=auto, or bind the process to the CPUs of the NIC",
        by: By::User,
        ..ORDINARY
    },
    CauseRule {
        id: "cpu-slow",
        what: "the CPUs of the node are slow",
        subject: "CPU clock",
        signs: &[Wrong("governor"), Wrong("cpu-throttling")],
        expected: &[
            (Write, MustBeSlower),
            (HostRead, Same),
            (Read, Varies),
            (WriteBandwidth, Same),
            (ReadBandwidth, Same),
            // Memory may be the limit of copies, not the clock.
            (Memory, Varies),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (WriteToInOtherClass, Varies),
            (Hop, Same),
        ],
        files_exclude: false,
        advice: "set the governor to performance, and look at power limits and cooling",
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "cpu-sleep",
        what: "the CPUs sleep deeply between operations",
        subject: "idle states",
        signs: &[More("idle-states", 10e-6)],
        expected: &[
            (Write, Same),
            (HostRead, Same),
            (Pause, MustBeSlower),
            (WriteBandwidth, Same),
            (ReadBandwidth, Same),
        ],
        files_exclude: false,
        advice: "disable idle states that take longer than 10 us (cpupower idle-set -D 10)",
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "cpu-noise",
        what: "other processes use the CPUs of the node",
        subject: "busy CPUs",
        signs: &[],
        expected: &[(Write, MustBeSame), (Waiting, MustBeSlower), (HostRead, Same)],
        files_exclude: false,
        advice: "see which processes use the CPUs, and measure again when these are free",
        by: By::User,
        ..ORDINARY
    },
    CauseRule {
        id: "others-use",
        what: "other processes use the NIC",
        subject: "use by others",
        signs: &[Wrong(FOREIGN)],
        voids: true,
        advice: "wait until the NIC is idle, and measure again",
        by: By::User,
        ..ORDINARY
    },
    CauseRule {
        id: "memory-bw",
        what: "the memory of the node is slow",
        subject: "memory",
        signs: &[Less("memory-size"), Wrong("host-memory-errors")],
        expected: &[
            (Write, Same),
            (HostRead, Same),
            (Read, Same),
            (WriteBandwidth, Share(0.4, 0.95)),
            (ReadBandwidth, MustBeSlower),
            (Sent, Varies),
            (Received, Slower),
            (Memory, Slower),
            (HugePages, Slower),
            (OtherClass, Slower),
        ],
        files_exclude: false,
        advice: "compare the memory with other nodes (MemTotal, EDAC), and replace a bad DIMM",
        is_costly: true,
        by: By::Hands,
        ..ORDINARY
    },
    CauseRule {
        id: "hugepages",
        what: "the NIC translates the addresses of many small pages",
        subject: "page size",
        signs: &[Cures(HugePages)],
        expected: &[
            // A translation that the NIC does not know yet makes small operations slow, too.
            (Write, Varies),
            (HostRead, Varies),
            (CommandRead, Varies),
            (Read, Varies),
            (WriteBandwidth, MustBeSlower),
            (ReadBandwidth, Slower),
            (Sent, Varies),
            (Received, Varies),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (Hop, Varies),
            (HugePages, Same),
            (OtherClass, Slower),
        ],
        advice: "measure with --use-hp=2M",
        by: By::User,
        ..ORDINARY
    },
    CauseRule {
        id: "class-cap",
        what: "the traffic class has a ceiling",
        subject: "traffic class",
        signs: &[Less("class-ceiling")],
        expected: &[
            (Write, Same),
            (HostRead, Same),
            (WriteBandwidth, MustBeSlower),
            (ReadBandwidth, Varies),
            (Sent, Slower),
            (Received, Same),
            (HugePages, Slower),
            (OtherClass, MustBeSame),
        ],
        files_exclude: false,
        advice: "measure with another --traffic-class",
        by: By::User,
        ..ORDINARY
    },
    CauseRule {
        id: "qos-differs",
        what: "the NIC has another QoS profile than the others",
        subject: "QoS profile",
        signs: &[Wrong("qos-profile"), Differs("qos-profile")],
        advice: "give all NICs the same profile",
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "pause-mode",
        what: "the link pauses as a whole, or not at all, in place of each class",
        subject: "pause mode",
        signs: &[Wrong("pause-mode"), Differs("pause-mode")],
        advice: "set the pause mode to PFC",
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "mtu",
        what: "the NIC has another MTU than the others",
        subject: "MTU",
        signs: &[Wrong("mtu"), Differs("mtu")],
        advice: "reload the driver with its usual settings",
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "esm-off",
        what: "the PCIe link of the NIC lacks the extended speed of the others",
        subject: "extended PCIe speed",
        signs: &[Less("esm")],
        advice: "install the firmware for the extended speed (slingshot-firmware --cassini_opt \
                 \"--esm\" update)",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "firmware",
        what: "the NIC has other firmware than the others",
        subject: "firmware",
        signs: &[Differs("firmware")],
        advice: "install the firmware of the other nodes",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "driver",
        what: "the node has another driver than the others",
        subject: "driver",
        signs: &[Differs("driver")],
        advice: "install the driver of the other nodes",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "libcxi",
        what: "the node has another libcxi than the others",
        subject: "libcxi",
        signs: &[Differs("libcxi")],
        advice: "install the libcxi of the other nodes",
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "kernel",
        what: "the node has another kernel than the others",
        subject: "kernel",
        signs: &[Differs("kernel")],
        advice: "boot the kernel of the other nodes",
        is_costly: true,
        by: By::Root,
        ..ORDINARY
    },
    CauseRule {
        id: "port",
        what: "the port of the switch, or what is behind it, is slow",
        subject: "switch port",
        signs: &[],
        // A loopback passes the port, so nothing that passes it is faster than it.
        expected: &[
            (Write, Varies),
            (Read, Varies),
            (WriteBandwidth, Varies),
            (ReadBandwidth, Varies),
            (Sent, Varies),
            (Received, Varies),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (HugePages, Slower),
            (OtherClass, Slower),
            (WriteToInOtherClass, Slower),
            (Hop, Slower),
        ],
        advice: "look at the counters of the switch port",
        by: By::FabricManager,
        ..ORDINARY
    },
    CauseRule {
        id: "congestion",
        what: "other traffic uses the path",
        subject: "congestion",
        signs: &[Wrong("congestion-marks")],
        expected: &[
            (Write, Same),
            (HostRead, Same),
            (Read, Same),
            (WriteBandwidth, MustBeSame),
            (ReadBandwidth, Same),
            (Sent, Varies),
            (Received, Varies),
            (WriteTo, MustBeSlower),
            (WriteFrom, Varies),
            (WriteToInOtherClass, MustBeSame),
            (Hop, Slower),
        ],
        files_exclude: false,
        advice: "measure again when the fabric is idle, or in another --traffic-class",
        by: By::User,
        ..ORDINARY
    },
    CauseRule {
        id: "loss",
        what: "packets are lost on the way",
        subject: "lost packets",
        signs: &[Wrong("packets-lost")],
        advice: "see which NICs count timeouts and towards whom, and look at the path between them",
        by: By::FabricManager,
        ..ORDINARY
    },
    CauseRule {
        id: "fgfc",
        what: "the fabric holds this NIC back",
        subject: "flow control of the fabric",
        signs: &[Wrong("fabric-stall")],
        expected: &[
            (Write, Same),
            (WriteBandwidth, MustBeSame),
            (Sent, MustBeShare(0.1, 0.9)),
            (Received, MustBeSame),
            (WriteTo, Varies),
            (WriteFrom, Varies),
            (WriteToInOtherClass, Varies),
            (Hop, Varies),
        ],
        files_exclude: false,
        advice: "look at the path of its group",
        by: By::FabricManager,
        ..ORDINARY
    },
    CauseRule {
        id: "global-link",
        what: "some of the parallel links between the groups are slow",
        subject: "parallel links",
        signs: &[Wrong(FLOW_HEAPS)],
        expected: &[
            (FastFlows, MustBeSame),
            (SlowFlows, MustBeSlower),
            (Survey, Slower),
            // What is not ordered spreads over the other links, too.
            (Sent, AtLeast(0.4)),
        ],
        advice: "look at counters and lanes of each link between the groups",
        by: By::FabricManager,
        ..ORDINARY
    },
];

pub fn cause(id: &str) -> Option<&'static CauseRule> {
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
            let columns: BTreeSet<Column> =
                cause.expected.iter().map(|(column, _)| *column).collect();
            assert_eq!(columns.len(), cause.expected.len(), "{}", cause.id);
            assert!(
                !cause.signs.is_empty() || !cause.expected.is_empty(),
                "{} can never be found",
                cause.id
            );
        }
    }

    #[test]
    fn shares_are_between_nothing_and_good() {
        let expected = CAUSES.iter().flat_map(|cause| cause.expected);
        for (_, expected) in expected {
            if let Share(low, high) | MustBeShare(low, high) = expected {
                assert!(0.0 < *low && low < high && *high < 1.0);
            }
        }
    }
}
