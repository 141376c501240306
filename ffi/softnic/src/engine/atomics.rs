//! Received atomic operations. One engine executes the operations on its portals one after another.
//! [`update`](super::bytes::update) makes them atomic against engines of other open devices that
//! use the same memory.

use cxi_sys::*;

use super::arithmetic;
use super::bytes::copy;
use super::lists::Landing;
use super::memory::MemoryAccess;
use super::packet::{Packet, PacketKind};
use super::return_codes::ReturnCode;
use super::state::Engine;
use super::wire::{ReceivedPacket, Wire};

impl<W: Wire> Engine<W> {
    /// Handles an atomic operation.
    pub fn atomic(&mut self, arrival: &ReceivedPacket) {
        let packet = &arrival.packet;
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        let (landing, code) = self.match_operation(peer, packet);
        let (Some(landing), C_RC_OK) = (landing, code) else {
            return self.finish(peer, packet, landing.as_ref(), code);
        };
        let previous = match self.execute(arrival, &landing) {
            Ok(previous) => previous,
            Err(code) => return self.finish(peer, packet, Some(&landing), code),
        };
        if !packet.amo.fetching {
            return self.finish(peer, packet, Some(&landing), C_RC_OK);
        }
        self.report(packet, &landing, C_RC_OK);
        let length = packet.rlength();
        let reply = Packet {
            kind: PacketKind::Reply,
            class: packet.class,
            inline: true,
            length: length as u16,
            tag: packet.tag,
            return_code: C_RC_OK as u8,
            ptl_list: landing.entry.ptl_list(),
            total: length,
            tail: [previous as u64, (previous >> 64) as u64],
            ..Packet::default()
        };
        self.answer(peer, &reply);
    }

    /// Executes the operation and returns the previous value. A floating point exception that the
    /// portals table entry signals is returned instead; the target still has its new value, as in
    /// IEEE arithmetic (nic.md 7 does not state this).
    fn execute(&mut self, arrival: &ReceivedPacket, landing: &Landing) -> Result<u128, ReturnCode> {
        let packet = &arrival.packet;
        let amo = self.wire.executed(packet.amo)?;
        let pte = self.ptes.get(landing.pte).ok_or(C_RC_MST_CANCELLED)?;
        let lni = self.lnis.get(pte.lni).ok_or(C_RC_INVALID_AC)?;
        let start = landing.place.start;
        let length = packet.rlength();
        let lac = landing.entry.lac();
        let place = lni.space.translate(lac, start, length.into(), MemoryAccess::Write)?;
        let mut operands = [0_u128; 2];
        let carried = usize::from(packet.length).min(size_of_val(&operands));
        // SAFETY: the packet has `carried` bytes, and the array has room for them.
        unsafe { copy(arrival.data(), operands.as_mut_ptr().cast(), carried) };
        let [first, second] = operands.map(u128::from_le);
        let mut exceptions = arithmetic::Exceptions::default();
        let compute = |value| {
            let (result, raised) = arithmetic::execute(amo, value, first, second);
            exceptions = raised;
            result
        };
        // SAFETY: `match_operation` found the place aligned, and `translate` found its bytes, which
        // software keeps mapped while list entries use them.
        let previous = unsafe { place.update(length as usize, compute) }?;
        let (lni, signals) = (pte.lni, pte.options.signals);
        self.note_write(lni, lac, place.va, packet);
        match signals.code(exceptions) {
            Some(code) => Err(code),
            None => Ok(previous),
        }
    }
}
