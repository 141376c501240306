//! Counts of the packets of the link, by kind, transport, traffic class and size.

use super::wire::{MTU, Packet, PacketKind};

/// Bytes of a packet on the link in addition to its payload.
const HEADER: u64 = 64;

/// Sizes on the link: 64 bytes (a header without payload), up to 127, up to 255, and so on up to
/// 4095.
const SIZES: usize = 7;

/// The size of packets with the most payload.
const FULL_PACKET: usize = (MTU + 64).ilog2() as usize - 5;

/// A row has the counts of packets that are alike except for their size. Its number consists of the
/// kind of the packets in three bits, a bit for restricted transport, and the traffic class.
const ROWS: usize = 64;
const KIND: usize = 7;
const RESTRICTED: usize = 8;
const CLASS_SHIFT: usize = 4;

/// Priorities on the link: two for each class.
const PRIORITIES: usize = 8;

/// The kind of the packets of a put behind the first one.
const CONTINUATION: usize = 0;

/// Packets sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketCounts {
    packets: [[u64; SIZES]; ROWS],
    /// The bytes of their payload.
    payload: u64,
    /// Packets with a mark of congestion, by priority.
    marked: [u64; PRIORITIES],
}

impl Default for PacketCounts {
    fn default() -> Self {
        Self { packets: [[0; SIZES]; ROWS], payload: 0, marked: [0; PRIORITIES] }
    }
}

impl PacketCounts {
    /// Counts the packets of the link that one packet stands for: all but the last are full.
    #[inline]
    pub fn count(&mut self, packet: &Packet) {
        let is_continuation = packet.offset != 0 && packet.kind == PacketKind::Put;
        let kind = if is_continuation { CONTINUATION } else { packet.kind as usize };
        let row = kind
            + usize::from(packet.restricted) * RESTRICTED
            + (usize::from(packet.class) << CLASS_SHIFT);
        self.payload += u64::from(packet.length);
        if packet.is_marked {
            self.count_mark(packet);
        }
        if packet.length > MTU as u16 {
            return self.count_segment(row, packet.length);
        }
        self.packets[row % ROWS][size(packet.length) % SIZES] += 1;
    }

    #[cold]
    fn count_mark(&mut self, packet: &Packet) {
        let is_response = matches!(packet.kind, PacketKind::Response | PacketKind::Reply);
        let priority = 2 * usize::from(packet.class) + usize::from(is_response);
        self.marked[priority % PRIORITIES] += 1;
    }

    /// Counts a packet that stands for several of the link.
    #[cold]
    fn count_segment(&mut self, row: usize, length: u16) {
        let full = (length - 1) / MTU as u16;
        let puts = [PacketKind::Put, PacketKind::Rendezvous].map(|kind| kind as usize);
        let next =
            if puts.contains(&(row & KIND)) { row - (row & KIND) + CONTINUATION } else { row };
        self.packets[row % ROWS][FULL_PACKET] += 1;
        self.packets[next % ROWS][FULL_PACKET] += u64::from(full) - 1;
        self.packets[next % ROWS][size(length - full * MTU as u16) % SIZES] += 1;
    }

    /// Counts a response of class 0 without data, which is most responses.
    #[inline]
    pub fn count_response(&mut self) {
        self.packets[PacketKind::Response as usize][0] += 1;
    }

    pub fn all(&self) -> u64 {
        self.sum(|_| true)
    }

    /// The bytes of all packets on the link.
    pub fn octets(&self) -> u64 {
        self.payload + HEADER * self.all()
    }

    pub fn packets_of_size(&self, size: usize) -> u64 {
        self.packets.iter().map(|row| row[size]).sum()
    }

    /// The number of packets with a priority on the link: twice the class, and one more for
    /// responses (health.md 1.5).
    pub fn packets_of_priority(&self, priority: usize) -> u64 {
        self.sum(|row| {
            row >> CLASS_SHIFT == priority / 2 && is_response(row) == (priority % 2 == 1)
        })
    }

    /// The number of packets of a priority with a mark of congestion.
    pub fn marked(&self, priority: usize) -> u64 {
        self.marked[priority]
    }

    /// The number of packets of a priority without a mark.
    pub fn unmarked(&self, priority: usize) -> u64 {
        self.packets_of_priority(priority) - self.marked(priority)
    }

    pub fn all_marked(&self) -> u64 {
        self.marked.iter().sum()
    }

    /// The number of request packets, of restricted transport or others.
    pub fn requests(&self, restricted: bool) -> u64 {
        self.sum(|row| !is_response(row) && is_restricted(row) == restricted)
    }

    /// The number of responses, with data or without.
    pub fn responses(&self) -> u64 {
        self.sum(is_response)
    }

    /// The number of unrestricted packets behind the first one of their message.
    pub fn continuations(&self) -> u64 {
        self.sum(|row| row & KIND == CONTINUATION && !is_restricted(row))
    }

    /// The number of messages of a class that carry data or operands: puts and atomic operations.
    pub fn put_messages(&self, class: usize) -> u64 {
        let kinds =
            [PacketKind::Put, PacketKind::Rendezvous, PacketKind::Atomic].map(|kind| kind as usize);
        self.sum(|row| row >> CLASS_SHIFT == class && kinds.contains(&(row & KIND)))
    }

    /// The number of packets of these messages.
    pub fn put_packets(&self, class: usize) -> u64 {
        let others = |row: usize| row >> CLASS_SHIFT == class && row & KIND == CONTINUATION;
        self.put_messages(class) + self.sum(others)
    }

    pub fn gets(&self, class: usize) -> u64 {
        self.sum(|row| row >> CLASS_SHIFT == class && row & KIND == PacketKind::Get as usize)
    }

    fn sum(&self, is_wanted: impl Fn(usize) -> bool) -> u64 {
        let wanted = self.packets.iter().enumerate().filter(|(row, _)| is_wanted(*row));
        wanted.flat_map(|(_, counts)| counts).sum()
    }
}

#[inline]
fn size(payload: u16) -> usize {
    match payload {
        0 => 0,
        _ => (u32::from(payload) + 64).ilog2() as usize - 5,
    }
}

fn is_response(row: usize) -> bool {
    [PacketKind::Response, PacketKind::Reply].map(|kind| kind as usize).contains(&(row & KIND))
}

fn is_restricted(row: usize) -> bool {
    row & RESTRICTED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(kind: PacketKind, length: u16) -> Packet {
        Packet { kind, length, ..Packet::default() }
    }

    #[test]
    fn counts_segment_as_packets_of_the_link() {
        for restricted in [false, true] {
            for length in (0..=u16::MAX).step_by(61).chain([2048, 2049, 4096, 4097, 8192]) {
                let whole_put = Packet { restricted, ..packet(PacketKind::Put, length) };
                let mut whole = PacketCounts::default();
                whole.count(&whole_put);
                let mut cut = PacketCounts::default();
                let mut rest = length;
                loop {
                    let part = rest.min(MTU as u16);
                    cut.count(&Packet {
                        length: part,
                        offset: u32::from(length - rest),
                        ..whole_put
                    });
                    rest -= part;
                    if rest == 0 {
                        break;
                    }
                }
                assert_eq!(whole, cut, "{length} bytes");
                assert_eq!(whole.octets(), u64::from(length) + 64 * whole.all());
                assert_eq!(whole.put_messages(0), 1);
                assert_eq!(whole.put_packets(0), whole.requests(restricted));
            }
        }
    }

    #[test]
    fn counts_by_class_and_kind() {
        let mut counts = PacketCounts::default();
        let kinds = [
            (PacketKind::Put, 2),
            (PacketKind::Response, 3),
            (PacketKind::Get, 5),
            (PacketKind::Reply, 7),
            (PacketKind::Atomic, 11),
        ];
        for (kind, number) in kinds {
            for _ in 0..number {
                counts.count(&Packet { class: 1, ..packet(kind, 0) });
            }
        }
        counts.count(&Packet { restricted: true, is_marked: true, ..packet(PacketKind::Put, 8) });
        counts.count(&Packet { class: 3, is_marked: true, ..packet(PacketKind::Reply, 8) });
        assert_eq!([0, 1, 7].map(|priority| counts.marked(priority)), [1, 0, 1]);
        assert_eq!(counts.all_marked(), 2);
        assert_eq!(
            [0, 1, 2, 3].map(|priority| counts.packets_of_priority(priority)),
            [1, 0, 18, 10]
        );
        assert_eq!([false, true].map(|restricted| counts.requests(restricted)), [18, 1]);
        assert_eq!((counts.responses(), counts.gets(1), counts.gets(0)), (11, 5, 0));
        assert_eq!((counts.put_messages(1), counts.put_messages(0)), (13, 1));
        assert_eq!(
            (counts.all(), counts.packets_of_size(0), counts.packets_of_size(1)),
            (30, 28, 2)
        );
    }
}
