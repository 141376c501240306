//! Atomic operations at the target. One engine executes those of its portals one after another; what
//! makes them atomic against engines of other open devices on the same memory is in
//! [`update`](super::memory::update).

use cxi_sys::*;

use super::admission::Landing;
use super::memory::{Access, copy};
use super::packet::{Arrival, Kind, Packet, Wire};
use super::{Engine, ReturnCode, arithmetic};

impl<W: Wire> Engine<W> {
    /// An atomic operation has come in.
    pub fn atomic(&mut self, arrival: &Arrival) {
        let packet = &arrival.packet;
        let Some(peer) = self.wire.sender(arrival.lane, packet.source) else {
            return;
        };
        let (landing, code) = self.judge(peer, packet);
        let (Some(landing), C_RC_OK) = (landing, code) else {
            return self.finish(peer, packet, landing.as_ref(), code);
        };
        let before = match self.execute(arrival, &landing) {
            Ok(before) => before,
            Err(code) => return self.finish(peer, packet, Some(&landing), code),
        };
        if !packet.amo.fetching {
            return self.finish(peer, packet, Some(&landing), C_RC_OK);
        }
        self.report(packet, &landing, C_RC_OK);
        let length = packet.rlength();
        let reply = Packet {
            kind: Kind::Reply,
            inline: true,
            length: length as u16,
            tag: packet.tag,
            return_code: C_RC_OK as u8,
            ptl_list: landing.entry.ptl_list(),
            total: length,
            tail: [before as u64, (before >> 64) as u64],
            ..Packet::default()
        };
        self.answer(peer, reply);
    }

    /// Does it, and answers the value before. An exception of floating point that the portals table
    /// entry signals is told instead of the value; the target has its new value all the same, as
    /// in IEEE arithmetic (nic.md 7 does not say).
    fn execute(&self, arrival: &Arrival, landing: &Landing) -> Result<u128, ReturnCode> {
        let packet = &arrival.packet;
        let amo = packet.amo;
        let pte = self.ptes.get(landing.pte).ok_or(C_RC_MST_CANCELLED)?;
        let lni = self.lnis.get(pte.lni).ok_or(C_RC_INVALID_AC)?;
        let start = landing.place.start;
        let length = packet.rlength();
        let lac = landing.entry.lac();
        let place = lni
            .space
            .translate(lac, start, length.into(), Access::Write)?;
        let mut operands = [0_u128; 2];
        let carried = usize::from(packet.length).min(size_of_val(&operands));
        // SAFETY: the packet holds that many bytes, and so does the array.
        unsafe { copy(arrival.data(), operands.as_mut_ptr().cast(), carried) };
        let [first, second] = operands.map(u128::from_le);
        let mut exceptions = arithmetic::Exceptions::default();
        let compute = |before| {
            let (after, raised) = arithmetic::execute(amo, before, first, second);
            exceptions = raised;
            after
        };
        // SAFETY: `judge` found the place aligned, and `translate` found it in memory that software
        // keeps mapped while list entries use it.
        let before = unsafe { place.update(length as usize, compute) }?;
        match pte.options.signals.code(exceptions) {
            Some(code) => Err(code),
            None => Ok(before),
        }
    }
}
