//! A fabric as plain data, and its directed links, with what faults leave of them.

use std::fmt;

/// The most NICs of a fabric, which is the number of software NICs of a machine.
pub const MOST_NICS: usize = 100;

/// The most cables between switches: what the largest fabrics of tests need, several times over.
pub const MOST_CABLES: usize = 4096;

/// Groups, switches of a group, and ports of a switch, by the widths of their numbers in the
/// address of a NIC (jobs.md 3.5).
pub const MOST_GROUPS: u16 = 512;
pub const MOST_SWITCHES: u16 = 32;
pub const MOST_PORTS: u16 = 64;

/// The traffic classes, by their numbers in packets.
pub const CLASSES: [&str; 4] = ["BEST_EFFORT", "BULK_DATA", "LOW_LATENCY", "DEDICATED_ACCESS"];

/// A fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// The value of the variable: the name of the file, or the short form.
    pub name: String,
    /// In the order of their names.
    pub switches: Vec<Switch>,
    /// By the numbers of the software NICs.
    pub nics: Vec<AttachedNic>,
    /// Those between two switches follow each other, numbered from 0.
    pub cables: Vec<Cable>,
    /// Which paths packets take.
    pub routing: Routing,
    /// The rules of the switches for congestion.
    pub congestion: Congestion,
    /// Bytes that wait for a link, above which a packet with data gets a mark of congestion.
    pub mark: u64,
    /// By the numbers of the traffic classes.
    pub classes: [ClassRules; CLASSES.len()],
}

/// The name of a switch: `group.switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchName {
    pub group: u16,
    /// The switch of the group.
    pub switch: u16,
}

impl fmt::Display for SwitchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.switch)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switch {
    pub name: SwitchName,
    /// Nanoseconds that a packet takes through it, in addition to the latencies of links.
    pub latency: u64,
    /// Of all its ports and cables.
    pub fault: Fault,
}

/// A NIC and its port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttachedNic {
    /// The place of its switch in the list of switches.
    pub switch: usize,
    /// The number of the port of the switch.
    pub port: u16,
    /// Nanoseconds from the NIC to the switch, and from the switch to the NIC.
    pub latency: u64,
    /// From the NIC to the switch.
    pub transmit: PortDirection,
    /// From the switch to the NIC.
    pub receive: PortDirection,
}

/// A cable between two switches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cable {
    /// The places of its switches in the list of switches, in ascending order.
    pub ends: [usize; 2],
    /// Nanoseconds from one end to the other.
    pub latency: u64,
    /// From the first end to the second, and back.
    pub directions: [PortDirection; 2],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortDirection {
    /// Bytes per second without faults.
    pub rate: f64,
    /// Its faults.
    pub fault: Fault,
}

impl PortDirection {
    /// A direction without faults.
    pub fn new(rate: f64) -> Self {
        Self { rate, fault: Fault::default() }
    }
}

/// A fault of a switch, or of one direction of a cable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The share of the rate that is left.
    pub share: f64,
    /// Nanoseconds that a packet takes longer.
    pub latency: u64,
    /// Probability that a packet is damaged and sent again.
    pub loss: f64,
    /// Nanoseconds by which a packet that is sent again is late.
    pub retry: u64,
    /// When it is down.
    pub outage: Option<Outage>,
}

impl Default for Fault {
    fn default() -> Self {
        Self { share: 1.0, latency: 0, loss: 0.0, retry: 1_000_000, outage: None }
    }
}

/// A time in which a part is down, in nanoseconds since the fabric was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Its start.
    pub from: u64,
    /// `None` for one without an end.
    pub to: Option<u64>,
}

impl Outage {
    /// Whether the part is down at this time.
    pub fn is_at(self, time: u64) -> bool {
        self.from <= time && self.to.is_none_or(|to| time < to)
    }
}

/// Which paths packets take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// The shortest ones.
    Minimal,
    /// The shortest ones, and detours whose cost is lower by `bias` nanoseconds.
    Adaptive {
        /// Nanoseconds.
        bias: u64,
    },
}

/// The rules of the switches for congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Nothing: packets wait for each link.
    None,
    /// The sources that share a receiving port are held back to equal shares of it.
    Endpoint,
    /// Packets that wait for a link beyond `buffer` bytes block the links before it.
    Spread {
        /// Bytes that wait for a link without an effect on others.
        buffer: u64,
    },
}

/// How a traffic class shares links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassRules {
    /// Its packets go first.
    pub priority: bool,
    /// Its weight when several classes wait for a link; `None` if it has no share of its own: its
    /// packets wait in the queue of BEST_EFFORT, the first class.
    pub share: Option<f64>,
    /// The most of the transmitting side of a NIC that it gets, as a share.
    pub ceiling: Option<f64>,
}

impl Topology {
    /// The address of a NIC: group bits 19..11, switch bits 10..6, port bits 5..0 (jobs.md 3.5).
    pub fn address(&self, nic: usize) -> Option<u32> {
        let nic = self.nics.get(nic)?;
        let name = self.switches[nic.switch].name;
        Some(u32::from(name.group) << 11 | u32::from(name.switch) << 6 | u32::from(nic.port))
    }

    /// A number that differs for fabrics that differ in more than their name.
    pub fn fingerprint(&self) -> u64 {
        let unnamed = Self { name: String::new(), ..self.clone() };
        // FNV-1a.
        let text = format!("{unnamed:?}");
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    }
}

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
    /// All directed links: of each NIC those to transmit and to receive, then of each cable those
    /// from the first end to the second and back.
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
