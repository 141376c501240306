//! Received packets: each goes to the operation that it belongs to.

use cxi_sys::*;

use super::lists::Landing;
use super::packet::PacketKind;
use super::state::Engine;
use super::wire::{PeerId, ReceivedPacket, Wire};

impl<W: Wire> Engine<W> {
    /// Handles the next packet, which it puts into `arrival`; false if there is none.
    #[inline]
    pub fn receive(&mut self, arrival: &mut ReceivedPacket) -> bool {
        if !self.wire.receive(arrival) {
            return false;
        }
        match arrival.packet.kind {
            PacketKind::Response => self.complete(&arrival.packet),
            PacketKind::Put if self.put_like_last(arrival) => {}
            PacketKind::Put | PacketKind::Rendezvous => self.put(arrival),
            PacketKind::Get => self.get(arrival),
            PacketKind::Reply => self.reply(arrival),
            PacketKind::Atomic => self.atomic(arrival),
            PacketKind::Abort => self.abort(arrival),
        }
        self.wire.count_received(&arrival.packet);
        self.wire.release(arrival.lane);
        true
    }

    /// Drops the incomplete puts of a NIC that is gone. They have no event, like a message whose
    /// connection timed out; a header on the UNEXPECTED list records the failure.
    pub fn drop_messages(&mut self, peer: PeerId) {
        for message in std::mem::take(&mut self.messages) {
            if message.peer != peer {
                self.messages.push(message);
            } else if let Some(landing) = message.landing {
                self.mark_header(&message.header, &landing, C_RC_SRC_ERROR);
            }
        }
    }

    /// Ends received puts and gets in progress at list entries that are being removed, with
    /// MST_CANCELLED (nic.md 7).
    pub fn cancel_messages(&mut self, concerns: impl Fn(&Landing) -> bool) {
        for message in &mut self.messages {
            if message.landing.as_ref().is_some_and(&concerns) {
                message.landing = None;
                message.code = C_RC_MST_CANCELLED;
            }
        }
        for reply in std::mem::take(&mut self.replies) {
            if concerns(&reply.landing) {
                self.finish(reply.peer, &reply.request, None, C_RC_MST_CANCELLED);
            } else {
                self.replies.push_back(reply);
            }
        }
    }
}
