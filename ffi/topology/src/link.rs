//! The directed links of a fabric, with what faults leave of them.

use crate::description::{Fault, Outage, PortDirection, Topology};

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// By its number.
    Nic(usize),
    /// By its place in the list of switches.
    Switch(usize),
}

/// One direction of a cable.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectedLink {
    /// Where packets enter it.
    pub from: LinkEnd,
    /// Where they leave it.
    pub to: LinkEnd,
    /// Bytes per second.
    pub rate: f64,
    /// Nanoseconds from one end to the other.
    pub latency: u64,
    /// Probability that a packet is damaged and sent again.
    pub loss: f64,
    /// Nanoseconds by which such a packet is late.
    pub retry: u64,
    /// The times in which it is down.
    pub outages: Vec<Outage>,
}

impl DirectedLink {
    /// Whether packets pass at this time, in nanoseconds since the fabric was made.
    pub fn is_up(&self, time: u64) -> bool {
        !self.outages.iter().any(|outage| outage.is_at(time))
    }
}

impl Topology {
    /// Returns all directed links: of each NIC those to transmit and to receive, then of each cable
    /// those from the first end to the second and back.
    pub fn links(&self) -> Vec<DirectedLink> {
        let nic_links = self.nics.iter().enumerate().flat_map(|(number, nic)| {
            let ends = (LinkEnd::Nic(number), LinkEnd::Switch(nic.switch));
            [
                self.link(ends.0, ends.1, nic.latency, nic.transmit),
                self.link(ends.1, ends.0, nic.latency, nic.receive),
            ]
        });
        let cable_links = self.cables.iter().flat_map(|cable| {
            let [one, other] = cable.ends.map(LinkEnd::Switch);
            [
                self.link(one, other, cable.latency, cable.directions[0]),
                self.link(other, one, cable.latency, cable.directions[1]),
            ]
        });
        nic_links.chain(cable_links).collect()
    }

    fn link(
        &self,
        from: LinkEnd,
        to: LinkEnd,
        latency: u64,
        direction: PortDirection,
    ) -> DirectedLink {
        let switch_fault = |node| match node {
            LinkEnd::Nic(_) => None,
            LinkEnd::Switch(place) => Some(self.switches[place].fault),
        };
        let faults: Vec<Fault> = [switch_fault(from), switch_fault(to)]
            .into_iter()
            .flatten()
            .chain([direction.fault])
            .collect();
        DirectedLink {
            from,
            to,
            rate: faults.iter().fold(direction.rate, |rate, fault| rate * fault.share),
            latency: latency + direction.fault.latency,
            loss: direction.fault.loss,
            retry: direction.fault.retry,
            outages: faults.iter().filter_map(|fault| fault.outage).collect(),
        }
    }
}
