//! The times of packets on links, in nanoseconds: on the parts of their way to another NIC, and at
//! the receiving side of a NIC, which also translates the addresses of pages.
//!
//! A packet that has arrived occupies the receiving side of the link after the packets before it,
//! and its data is written to the memory of the host. The writes of several packets overlap, as
//! posted writes of PCIe do.

use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::lane::Unread;
use super::link_settings::{Between, CLASSES, FULL_BANDWIDTH, Slowness};
use crate::engine::wire::{MTU, Packet, PacketKind};
use crate::environment::Nics;

/// Bytes of a packet on the link in addition to its payload (libcxi.md 2.2: MTU 2112 for 2048).
pub const HEADER: u64 = 64;

/// The time that bytes occupy a link with this many bytes per second.
pub fn time_on_link(bytes: u64, bandwidth: Option<f64>) -> u64 {
    let takes = bandwidth.map_or(0.0, |rate| bytes as f64 / rate * 1e9);
    takes.round() as u64
}

pub fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

/// The time in nanoseconds, on a clock that all processes share: the monotonic clock of the
/// machine, also in a time namespace.
pub fn now() -> u64 {
    static OFFSET: LazyLock<i64> = LazyLock::new(|| {
        let offsets = fs::read_to_string("/proc/self/timens_offsets");
        offset(&offsets.unwrap_or_default()).unwrap_or(0)
    });
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec * NS_PER_SECOND + now.tv_nsec;
    (now - *OFFSET) as u64
}

/// Nanoseconds of a second.
const NS_PER_SECOND: i64 = 1_000_000_000;

/// The offset of the monotonic clock in the time namespace of a process, in nanoseconds.
fn offset(offsets: &str) -> Option<i64> {
    let clock = offsets.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut fields = clock.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanoseconds) = (fields.next()?.ok()?, fields.next()?.ok()?);
    seconds.checked_mul(NS_PER_SECOND)?.checked_add(nanoseconds)
}

/// A part of the way that packets occupy one after another.
#[derive(Clone, Copy, Default)]
struct PathStage {
    /// Bytes per second; `None` for a part that takes no time.
    bandwidth: Option<f64>,
    /// When the last packet will have left it, in nanoseconds.
    busy_until: u64,
}

impl PathStage {
    /// When a packet that comes at the time `begin` has passed.
    fn pass(&mut self, bytes: u64, begin: u64) -> u64 {
        let takes = time_on_link(bytes, self.bandwidth);
        self.busy_until = self.busy_until.max(begin) + takes;
        self.busy_until
    }
}

/// The ways of the packets of a NIC.
pub struct Ways {
    /// The address of this NIC.
    nid: u32,
    /// The shapers of the traffic classes, the times for which packets wait in switches, and the
    /// nanoseconds for which the shapers held packets back.
    shapers: [PathStage; CLASSES.len()],
    delays: [u64; CLASSES.len()],
    pub held: [u64; CLASSES.len()],
    /// The bandwidth of the link, what the flow control of the fabric leaves of it to other NICs,
    /// the nanoseconds for which it stopped the link, and the packets that it stopped.
    full: f64,
    fabric: PathStage,
    pub held_by_fabric: u64,
    pub stops: u64,
    /// By the addresses of other NICs.
    to: Vec<(u32, PathStage, u64)>,
}

impl Ways {
    /// The ways of the NIC with the address `nid`, whose link has this bandwidth.
    pub fn new(slowness: &Slowness, bandwidth: Option<f64>, nid: u32, nics: &Nics) -> Self {
        let full = bandwidth.unwrap_or(FULL_BANDWIDTH);
        let to = |(&(one, other), between): (&(u32, u32), &Between)| {
            let addresses = [one, other].map(|number| nics.address(number));
            let other = addresses.into_iter().find(|address| *address != Some(nid));
            let stage = PathStage { bandwidth: between.bandwidth, busy_until: 0 };
            // Without another one, it is the way of the NIC to itself.
            let address = other.unwrap_or(Some(nid))?;
            Some((address, stage, nanoseconds(between.delay)))
        };
        Self {
            nid,
            shapers: slowness.ceilings.map(|percent| PathStage {
                bandwidth: percent.map(|percent| full * percent as f64 / 100.0),
                busy_until: 0,
            }),
            delays: slowness.class_delays.map(nanoseconds),
            held: [0; CLASSES.len()],
            full,
            fabric: PathStage {
                bandwidth: slowness
                    .fgfc
                    .filter(|share| *share > 0.0)
                    .map(|share| full * (1.0 - share)),
                busy_until: 0,
            },
            held_by_fabric: 0,
            stops: 0,
            to: slowness.between.iter().filter_map(to).collect(),
        }
    }

    /// When a packet arrives that comes to the link at the time `begin`, and would have left it at
    /// the time `end`, apart from the latency of the link. A class that is held back leaves the
    /// link to others meanwhile.
    ///
    /// Packets of the NIC to itself do not pass the links on which others queue, so the flow
    /// control of the fabric and the delay of their class do not apply to them.
    pub fn pass(&mut self, class: u8, to: u32, bytes: u64, begin: u64, end: u64) -> u64 {
        let class = usize::from(class) % CLASSES.len();
        let mut arrives = end;
        if self.shapers[class].bandwidth.is_some() {
            arrives = arrives.max(self.shapers[class].pass(bytes, begin));
            self.held[class] += arrives - end;
        }
        let mut late = 0;
        if to != self.nid {
            if self.fabric.bandwidth.is_some() {
                arrives = arrives.max(self.fabric.pass(bytes, begin));
                let alone = time_on_link(bytes, Some(self.full));
                self.held_by_fabric += time_on_link(bytes, self.fabric.bandwidth) - alone;
                self.stops += 1;
            }
            late = self.delays[class];
        }
        if let Some((_, stage, delay)) = self.to.iter_mut().find(|(nid, ..)| *nid == to) {
            arrives = arrives.max(stage.pass(bytes, begin));
            late += *delay;
        }
        arrives + late
    }
}

/// The translation of addresses for the reads or the writes of a NIC: one page after another.
#[derive(Default)]
pub struct Translation {
    /// For each ordinary page, in nanoseconds. Huge pages are so few that their translations stay
    /// in the cache.
    cost: u64,
    /// When the last page will have been translated, in nanoseconds.
    busy_until: u64,
    /// Pages that were asked for, and those that were not in the cache.
    pub requests: u64,
    pub misses: u64,
}

impl Translation {
    /// Makes a translation that takes this time for each ordinary page.
    pub fn new(cost: Duration) -> Self {
        Self { cost: nanoseconds(cost), ..Self::default() }
    }

    /// Whether translations take time.
    pub fn takes_time(&self) -> bool {
        self.cost > 0
    }

    /// When pages are translated that are asked for at the time `begin`.
    pub fn translate(&mut self, pages: u64, is_huge: bool, begin: u64) -> u64 {
        if self.cost == 0 {
            return begin;
        }
        self.requests += pages;
        if is_huge || pages == 0 {
            return begin;
        }
        self.misses += pages;
        self.busy_until = self.busy_until.max(begin) + pages * self.cost;
        self.busy_until
    }

    /// When the last page will have been translated.
    pub fn ends_at(&self) -> u64 {
        self.busy_until
    }
}

/// Packets that arrive at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Bytes on the link.
    bytes: u64,
    /// Packets of the link with data for the memory of the host.
    writes: u64,
}

impl Load {
    /// The load of a packet, which may stand for several of the link.
    pub fn from_packet(packet: &Packet) -> Self {
        let packets = u64::from(packet.length).div_ceil(MTU as u64);
        let has_data =
            !matches!(packet.kind, PacketKind::Get | PacketKind::Response | PacketKind::Abort);
        Self {
            bytes: u64::from(packet.length) + packets.max(1) * HEADER,
            writes: if has_data { packets } else { 0 },
        }
    }

    /// The load of responses that share a cell.
    pub fn from_responses(responses: Unread) -> Self {
        Self { bytes: responses.count() as u64 * HEADER, writes: 0 }
    }
}

/// The receiving side of a NIC.
pub struct ReceivingSide {
    bandwidth: Option<f64>,
    /// For each write to the memory of the host, in nanoseconds.
    write: u64,
    /// When the last packet will have been received, in nanoseconds.
    busy_until: u64,
    /// When the last packet was delivered, in nanoseconds.
    delivered: u64,
    /// The translation of the pages that received data is written to. They are known only when the
    /// engine has found the list entry, so they delay the answer and the packets behind.
    pub translation: Translation,
    /// Nanoseconds for which writes to the memory of the host waited.
    pub blocked: u64,
}

impl ReceivingSide {
    /// Makes the receiving side of a NIC; `None` if receiving takes no time.
    pub fn new(slowness: &Slowness) -> Option<Self> {
        let write = nanoseconds(slowness.host_write);
        let translation = Translation::new(slowness.page_cost);
        let takes_time = slowness.rx_bandwidth.is_some() || write > 0 || translation.takes_time();
        takes_time.then_some(Self {
            bandwidth: slowness.rx_bandwidth,
            write,
            busy_until: 0,
            delivered: 0,
            translation,
            blocked: 0,
        })
    }

    /// When a load is delivered that arrived at this time.
    pub fn deliver(&mut self, load: Load, arrived: u64) -> u64 {
        let takes = time_on_link(load.bytes, self.bandwidth);
        self.busy_until = self.busy_until.max(arrived) + takes;
        self.blocked += load.writes * self.write;
        let write = if load.writes > 0 { self.write } else { 0 };
        self.delivered = self.translation.ends_at().max(self.busy_until + write);
        self.delivered
    }

    /// Notes that the data of the packet that was delivered last was written to pages.
    pub fn note_write(&mut self, pages: u64, is_huge: bool) {
        let begin = self.delivered;
        self.translation.translate(pages, is_huge, begin);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn reads_offset_of_time_namespace() {
        let text = "monotonic      100000         5\nboottime            0         0\n";
        assert_eq!(offset(text), Some(100_000_000_000_005));
        assert_eq!(offset("monotonic -2 999999999"), Some(-1_000_000_001));
        for other in ["", "monotonic x 0", "monotonic 1", "boottime 1 0"] {
            assert_eq!(offset(other), None, "{other}");
        }
    }

    const OWN: u32 = 0x12;
    const NEXT: u32 = 0x13;
    const FAR: u32 = 0x14;

    fn ways(bandwidth: Option<f64>, change: impl FnOnce(&mut Slowness)) -> Ways {
        let mut slowness = Slowness::default();
        change(&mut slowness);
        Ways::new(&slowness, bandwidth, OWN, &Nics::from_environment().unwrap())
    }

    #[test]
    fn ceiling_holds_back_one_class() {
        let mut ways = ways(Some(1e9), |slowness| slowness.ceilings[1] = Some(50));
        assert_eq!(ways.pass(1, NEXT, 1000, 0, 1000), 2000);
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 2000), 2000, "another class");
        assert_eq!(ways.pass(1, NEXT, 1000, 0, 3000), 4000);
        assert_eq!(ways.pass(1, OWN, 1000, 9000, 10_000), 11_000, "loopback");
        assert_eq!(ways.held, [0, 3000, 0, 0]);
    }

    #[test]
    fn ceiling_is_a_share_of_200_gigabits_without_bandwidth() {
        let mut ways = ways(None, |slowness| slowness.ceilings[0] = Some(4));
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 0), 1000);
    }

    #[test]
    fn flow_control_of_the_fabric_holds_back_packets_to_others() {
        let mut ways = ways(Some(1e9), |slowness| slowness.fgfc = Some(0.75));
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 1000), 4000);
        assert_eq!(ways.pass(0, OWN, 1000, 0, 2000), 2000, "loopback");
        assert_eq!(ways.pass(1, FAR, 1000, 0, 3000), 8000);
        assert_eq!((ways.held_by_fabric, ways.stops), (6000, 2));
    }

    #[test]
    fn share_of_zero_stops_nothing() {
        let mut ways = ways(Some(1e9), |slowness| slowness.fgfc = Some(0.0));
        assert_eq!(ways.pass(0, NEXT, 1000, 0, 1000), 1000);
        assert_eq!((ways.held_by_fabric, ways.stops), (0, 0));
    }

    #[test]
    fn class_waits_on_the_way_to_others() {
        let mut ways = ways(None, |slowness| {
            slowness.class_delays[2] = Duration::from_nanos(70);
        });
        let mut pass = |class, to| ways.pass(class, to, 64, 100, 100);
        assert_eq!([pass(2, NEXT), pass(1, NEXT), pass(2, OWN)], [170, 100, 100]);
    }

    #[test]
    fn way_between_two_nics_is_slower() {
        let mut ways = ways(None, |slowness| {
            let slow = Between { delay: Duration::from_nanos(500), bandwidth: Some(1e9) };
            let only_late = Between { bandwidth: None, ..slow };
            slowness.between = [((0, 1), slow), ((0, 0), only_late)].into();
        });
        let mut pass = |to| ways.pass(0, to, 1000, 0, 10);
        assert_eq!([NEXT, NEXT, FAR, OWN].map(&mut pass), [1500, 2500, 10, 510]);
    }

    fn packet(kind: PacketKind, length: u16) -> Load {
        Load::from_packet(&Packet { kind, length, ..Packet::default() })
    }

    #[test]
    fn packets_occupy_the_receiving_side_one_after_another() {
        let mut side =
            ReceivingSide::new(&Slowness { rx_bandwidth: Some(1e9), ..Slowness::default() })
                .unwrap();
        // A byte takes 1 ns, and each packet of the link has 64 more bytes.
        assert_eq!(side.deliver(packet(PacketKind::Put, 8), 1000), 1072);
        assert_eq!(side.deliver(packet(PacketKind::Response, 0), 1000), 1136);
        assert_eq!(side.deliver(packet(PacketKind::Put, 8192), 1000), 1136 + 8448);
        assert_eq!(side.deliver(packet(PacketKind::Reply, 2048), 50_000), 52_112);
        assert_eq!(side.blocked, 0);
    }

    #[test]
    fn writes_to_the_host_overlap() {
        let mut side = ReceivingSide::new(&Slowness {
            host_write: Duration::from_nanos(700),
            ..Slowness::default()
        })
        .unwrap();
        for kind in [PacketKind::Put, PacketKind::Rendezvous, PacketKind::Atomic, PacketKind::Reply]
        {
            assert_eq!(side.deliver(packet(kind, 8), 1000), 1700, "{kind:?}");
        }
        for (kind, length) in
            [(PacketKind::Get, 0), (PacketKind::Response, 0), (PacketKind::Put, 0)]
        {
            assert_eq!(side.deliver(packet(kind, length), 1000), 1000, "{kind:?}");
        }
        assert_eq!(side.deliver(packet(PacketKind::Put, 8192), 1000), 1700);
        assert_eq!(side.blocked, 8 * 700);
    }

    #[test]
    fn pages_delay_later_packets() {
        let mut side = ReceivingSide::new(&Slowness {
            page_cost: Duration::from_nanos(300),
            ..Slowness::default()
        })
        .unwrap();
        assert_eq!(side.deliver(packet(PacketKind::Put, 2048), 1000), 1000);
        side.note_write(1, false);
        assert_eq!(side.deliver(packet(PacketKind::Put, 2048), 1000), 1300);
        side.note_write(2, false);
        assert_eq!(side.deliver(packet(PacketKind::Put, 2048), 1000), 1900);
        side.note_write(512, true);
        assert_eq!(side.deliver(packet(PacketKind::Put, 2048), 2000), 2000);
    }

    #[test]
    fn receives_at_once_without_faults() {
        assert!(ReceivingSide::new(&Slowness::default()).is_none());
    }

    #[test]
    fn ordinary_pages_take_time_one_after_another() {
        let mut translation = Translation::new(Duration::from_nanos(300));
        assert_eq!(translation.translate(2, false, 1000), 1600);
        assert_eq!(translation.translate(1, false, 1000), 1900);
        assert_eq!(translation.translate(0, false, 1000), 1000);
        assert_eq!(translation.translate(512, true, 1000), 1000);
        assert_eq!(translation.translate(1, false, 5000), 5300);
        assert_eq!((translation.requests, translation.misses), (516, 4));
        assert_eq!(translation.ends_at(), 5300);
    }

    #[test]
    fn counts_nothing_without_fault() {
        let mut translation = Translation::new(Duration::ZERO);
        assert!(!translation.takes_time());
        assert_eq!(translation.translate(2, false, 1000), 1000);
        assert_eq!((translation.requests, translation.misses), (0, 0));
    }
}
