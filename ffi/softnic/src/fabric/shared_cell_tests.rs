//! Cells with several responses, and cells with any bytes, between two NICs of this process.

use std::sync::atomic::Ordering;
use std::time::Duration;

use cxi_sys::C_RC_OK;
use proptest::prelude::*;

use super::link_model::LinkModel;
use super::port::CELLS;
use super::{Fabric, LinkSettings};
use crate::engine::VniRange;
use crate::engine::packet::{Packet, PacketKind};
use crate::engine::wire::{PeerId, ReceivedPacket, Wire};
use crate::environment::Nics;

/// Addresses that no other test uses.
const NIDS: [u32; 2] = [0xf_fff1, 0xf_fff2];

/// Two NICs, and the number of the first as the peer of the second.
fn connected() -> (Fabric, Fabric, PeerId) {
    let [mut receiver, mut sender] = NIDS.map(|nid| Fabric::join(0, nid).unwrap());
    let pid = receiver.claim(VniRange::single(1), None, 1).unwrap();
    let peer = sender.resolve(NIDS[0], 1, pid).unwrap();
    (receiver, sender, peer)
}

fn response(tag: u32, code: u8) -> Packet {
    Packet {
        kind: PacketKind::Response,
        tag,
        total: 3 * tag,
        return_code: code,
        ..Packet::default()
    }
}

fn send(sender: &mut Fabric, peer: PeerId, packet: &Packet) -> bool {
    // SAFETY: the packet has no payload outside its header.
    unsafe { sender.send(peer, packet, std::ptr::null()) }
}

/// The fields of a response.
fn fields(packet: &Packet) -> (PacketKind, u32, u32, u8) {
    (packet.kind, packet.tag, packet.total, packet.return_code)
}

/// Receives all packets.
fn received(receiver: &mut Fabric) -> Vec<(PacketKind, u32, u32, u8)> {
    let mut arrival = ReceivedPacket::new();
    let mut packets = Vec::new();
    // A cell that is skipped ends a look.
    for _ in 0..32 {
        while receiver.receive(&mut arrival) {
            packets.push(fields(&arrival.packet));
            receiver.count_received(&arrival.packet);
            receiver.release(arrival.lane);
            assert!(packets.len() < 10_000, "endless");
        }
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Some responses fail, which are not gathered; some are puts.
    #[test]
    fn responses_keep_order_and_counts(kinds in proptest::collection::vec(0..8u8, 0..200)) {
        let (mut receiver, mut sender, peer) = connected();
        let packets: Vec<Packet> = (0..).zip(&kinds).map(|(tag, kind)| match kind {
            0 => response(tag, C_RC_OK as u8 + 1),
            1 => Packet { kind: PacketKind::Put, total: 0, ..response(tag, 0) },
            _ => response(tag, C_RC_OK as u8),
        }).collect();
        let mut arrived = Vec::new();
        for packet in &packets {
            while !send(&mut sender, peer, packet) {
                arrived.extend(received(&mut receiver));
            }
            if packet.tag % 17 == 0 {
                sender.flush();
                arrived.extend(received(&mut receiver));
                let expected = fields(packet);
                prop_assert_eq!(arrived.last(), Some(&expected));
            }
        }
        sender.flush();
        arrived.extend(received(&mut receiver));
        let expected: Vec<_> = packets.iter().map(fields).collect();
        prop_assert_eq!(arrived, expected);
        prop_assert_eq!(&receiver.received, &sender.sent);
    }

    #[test]
    fn survives_any_bytes_in_cells(
        cells in proptest::collection::vec((any::<[u64; 8]>(), 0..10u64, 0..9u64), 1..20),
    ) {
        let (mut receiver, mut sender, peer) = connected();
        for &(words, kind, count) in &cells {
            let remote = sender.remotes[peer].as_mut().unwrap();
            let position = remote.head;
            for (index, word) in words.into_iter().enumerate().skip(1) {
                remote.port.cell_word(remote.lane, position, index).store(word, Ordering::Relaxed);
            }
            let flags = words[0] & !(0xffff_00ff << 32 | 0xffff_ffff);
            remote.publish(flags | kind << 32 | count << 48);
        }
        // A NIC that follows the rules uses the lane afterwards.
        let good = response(7, C_RC_OK as u8);
        prop_assert!(send(&mut sender, peer, &good));
        sender.flush();
        let mut arrived = received(&mut receiver);
        if arrived.is_empty() {
            // Some cells have a due time, at any time.
            prop_assert!(receiver.time_to_next_packet().is_some());
        } else if receiver.time_to_next_packet().is_none() {
            prop_assert_eq!(arrived.pop(), Some(fields(&good)));
        }
    }
}

/// With a link model the receiver takes packets out of the ring before they are due. The engine,
/// which has received none, does not flush then.
#[test]
fn wakes_sender_after_each_half_of_full_ring() {
    for latency in [Duration::ZERO, Duration::from_secs(3600)] {
        let (mut receiver, mut sender, peer) = connected();
        let settings = LinkSettings { latency, ..LinkSettings::default() };
        let nics = Nics::from_environment().unwrap();
        sender.link = LinkModel::new(settings, &nics, NIDS[1], 0, None);
        let put = Packet::default();
        let mut arrival = ReceivedPacket::new();
        // The receiver learns who sends.
        assert!(send(&mut sender, peer, &put));
        assert!(receiver.sender(lane_of(&sender, peer), sender.instance).is_some());
        while send(&mut sender, peer, &put) {}
        let mut woken_at = Vec::new();
        for released in 1..=CELLS {
            sender.port.parked().store(1, Ordering::Relaxed);
            if receiver.receive(&mut arrival) {
                receiver.release(arrival.lane);
                receiver.flush();
            }
            if sender.port.parked().load(Ordering::Relaxed) == 0 {
                woken_at.push(released);
            }
        }
        let expected = if latency.is_zero() { vec![CELLS / 2, CELLS] } else { vec![1] };
        assert_eq!(woken_at, expected, "{latency:?}");
        assert!(send(&mut sender, peer, &put), "there is room");
    }
}

/// The lane in which a NIC sends to a peer.
fn lane_of(sender: &Fabric, peer: PeerId) -> usize {
    sender.remotes[peer].as_ref().unwrap().lane
}
