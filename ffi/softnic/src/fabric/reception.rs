//! The time that a NIC takes to receive packets, and to translate the addresses of pages.
//!
//! A packet that has arrived occupies the receiving side of the link after the packets before it,
//! and its data is written to the memory of the host. The writes of several packets overlap, as
//! posted writes of PCIe do.

use std::time::Duration;

use super::lane::Unread;
use super::link_settings::Slowness;
use super::link_time::{HEADER, nanoseconds, time_on_link};
use crate::engine::wire::{MTU, Packet, PacketKind};

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
