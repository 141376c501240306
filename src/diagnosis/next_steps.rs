//! Where to look if no cause is known: what the tests show together, as data (diagnosis.md 5,
//! single observations).

use crate::cause::By;
use crate::columns::Column::{
    self, FastFlows, Hop, Read, ReadBandwidth, Received, Sent, Write, WriteBandwidth, WriteFrom,
    WriteTo,
};
use crate::comparison::{Compared, Comparison};

/// What the tests show together, and where to look.
#[derive(Debug)]
pub struct NextStep {
    /// One of these columns is slower.
    slower: &'static [Column],
    /// These columns are as on good NICs.
    same: &'static [Column],
    /// What follows.
    pub says: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// Who can do it.
    pub by: By,
}

/// The steps, the most special first.
pub const NEXT_STEPS: &[NextStep] = &[
    NextStep {
        slower: &[FastFlows],
        same: &[],
        says: "all flows between the groups are slow alike: congestion, or all of their links",
        advice: "measure again in an idle fabric, then look at the counters of these links",
        by: By::FabricManager,
    },
    NextStep {
        slower: &[Sent],
        same: &[Received],
        says: "sending is slow, receiving is not: reads from memory, the transmit side of the NIC, \
               or a limit of the traffic class",
        advice: "look at the counters of its switch port, and at the limits of the traffic class",
        by: By::FabricManager,
    },
    NextStep {
        slower: &[Received],
        same: &[Sent],
        says: "receiving is slow, sending is not: writes to memory, or the receive lanes of the link",
        advice: "look at the lanes of its cable, and at the memory of the node",
        by: By::Root,
    },
    NextStep {
        slower: &[WriteBandwidth, ReadBandwidth],
        same: &[Write],
        says: "large operations are slow also in loopback, small ones are not: a limit of the \
               bandwidth of PCIe, link or memory",
        advice: "look at slot, cable and memory of the node; compare its BIOS settings with a good \
                 node",
        by: By::Root,
    },
    NextStep {
        slower: &[Sent, Received, WriteTo, WriteFrom],
        same: &[Write, Read, WriteBandwidth],
        says: "loopback is fast, so the cause is beyond the port of the NIC: switch, routes or load",
        advice: "look at the counters of the switch ports; measure again in an idle fabric",
        by: By::FabricManager,
    },
    NextStep {
        slower: &[Hop],
        same: &[],
        says: "hops without a CPU are slow as well: NIC, PCIe, link or path, not the CPU alone",
        advice: "look at the counters of its link and of its switch port; compare PCIe with a good \
                 node",
        by: By::FabricManager,
    },
    NextStep {
        slower: &[Write],
        same: &[Hop, WriteBandwidth],
        says: "small writes are slow, hops without a CPU are not: CPU of the node, or its way over \
               PCIe to the NIC and back",
        advice: "look at clock and idle states; compare the BIOS settings with a good node",
        by: By::Root,
    },
    NextStep {
        slower: &[Write, Read],
        same: &[WriteBandwidth],
        says: "small operations are slow also in loopback, large ones are not: CPU, idle states or \
               IOMMU of the node",
        advice: "look at clock, idle states and IOMMU; compare the BIOS settings with a good node",
        by: By::Root,
    },
    NextStep {
        slower: &[Write, Read, WriteBandwidth, ReadBandwidth],
        same: &[],
        says: "the NIC is slow also in loopback: NIC, PCIe, cable or node, not the fabric beyond \
               its port",
        advice: "run 'cxidiag why' on another NIC of the node: if that one is good, reseat the card",
        by: By::Hands,
    },
];

/// Returns the first step for what is slow; `None` if the tests do not say where to look.
pub fn next_step(comparisons: &[Comparison]) -> Option<&'static NextStep> {
    let outcome = |column: Column| {
        let mut all = comparisons.iter();
        all.find(|comparison| comparison.column == column).map(|comparison| comparison.outcome)
    };
    let is = |expected: Compared| move |column: &Column| outcome(*column) == Some(expected);
    let mut steps = NEXT_STEPS.iter();
    steps.find(|step| {
        step.slower.iter().any(is(Compared::Slower)) && step.same.iter().all(is(Compared::Same))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what follows if these columns are slower, and the others are not.
    fn says(slower: &[Column]) -> Option<&'static str> {
        let comparison = |column: Column| Comparison {
            column,
            is_bandwidth: false,
            own: 1.0,
            others: 1.0,
            shares: (1.0, 1.0),
            outcome: if slower.contains(&column) { Compared::Slower } else { Compared::Same },
            is_beside_busy: false,
        };
        let all = Column::ALL.map(comparison);
        next_step(&all).map(|step| step.says)
    }

    #[test]
    fn each_step_is_the_first_for_something() {
        for (slower, start) in [
            (&[WriteBandwidth, Sent, Received][..], "large operations"),
            (&[Write, Read, WriteTo], "small writes are slow, hops without a CPU are not"),
            (&[Write, Read, WriteTo, Hop], "hops without a CPU are slow as well"),
            (&[Read, WriteTo], "small operations"),
            (&[Write, WriteBandwidth, WriteTo, Hop], "hops without a CPU are slow as well"),
            (&[WriteTo, Hop], "loopback is fast"),
            (&[Write, WriteBandwidth], "the NIC is slow also in loopback"),
            (&[Sent], "sending is slow"),
            (&[Sent, WriteBandwidth], "sending is slow"),
            (&[Received], "receiving is slow"),
            (&[Sent, Received], "loopback is fast"),
            (&[WriteFrom], "loopback is fast"),
            (&[Sent, FastFlows], "all flows between the groups"),
        ] {
            let says = says(slower).unwrap_or_default();
            assert!(says.starts_with(start), "{slower:?}: {says}");
        }
        assert_eq!(says(&[]), None);
        assert_eq!(says(&[Column::Tail, Column::Survey]), None);
    }

    #[test]
    fn tests_that_were_not_measured_say_nothing() {
        let sent = Comparison {
            column: Sent,
            is_bandwidth: true,
            own: 0.5,
            others: 1.0,
            shares: (0.5, 0.5),
            outcome: Compared::Slower,
            is_beside_busy: false,
        };
        assert!(next_step(&[sent]).is_none());
        let received = Comparison { column: Received, outcome: Compared::Unclear, ..sent };
        assert!(next_step(&[sent, received]).is_none());
    }
}
