//! Transmit queues: initiator commands become packets (nic.md 3).
//!
//! Commands of a queue start in order. A put is cut into packets as the wire has room, so a queue
//! whose receiver is slow waits without holding up anything else.

use std::collections::VecDeque;

use cxi_sys::records::{CStateCmd, CmdHeader, CqCmd, FaUnicast, FullDmaCmd, IdcHdr, NomatchDmaCmd};
use cxi_sys::*;

use super::event_queue::EventQueue;
use super::events::{self, Initiator};
use super::memory::{Access, AddressSpace};
use super::packet::{INLINE, Kind, MTU, Packet, Peer, Wire};
use super::ring::{Command, CommandRing};
use super::table::Table;
use super::transactions::{Transaction, Transactions};
use super::{Lni, ReturnCode};
use crate::engine::PID_BITS;

/// Commands of one queue that are executed before others get their turn.
const BURST: usize = 32;

/// A transmit queue.
pub struct TransmitQueue {
    pub ring: CommandRing,
    pub lni: usize,
    /// The communication profile of the commands to come.
    pub lcid: u8,
    /// Takes counter commands too (nic.md 1).
    pub trigger: bool,
    /// Event queue for COMMAND_FAILURE; 0 is none.
    pub error_eq: u16,
    /// What immediate data commands do not say themselves (nic.md 3.4).
    pub c_state: CStateCmd,
    /// The put whose packets are not all sent.
    pub transfer: Option<Transfer>,
    /// Puts that wait for their response, for FENCE.
    pub outstanding: usize,
}

/// Where the payload of a put comes from.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would cost every immediate put an allocation"
)]
enum Source {
    /// Out of the command.
    Immediate([u64; 28]),
    /// Out of memory of the LNI.
    Memory { lac: u8, iova: u64 },
}

/// A put on its way into the wire.
pub struct Transfer {
    pub peer: Peer,
    /// Header of the next packet.
    pub packet: Packet,
    source: Source,
    send_event: bool,
}

/// A put as decoded.
struct Put {
    dfa: u32,
    index_ext: u8,
    restricted: bool,
    remote_offset: u64,
    length: u32,
    initiator: u32,
    match_bits: u64,
    header_data: u64,
    source: Source,
    eq: u16,
    user_ptr: u64,
    success_disable: bool,
    send_disable: bool,
    /// The counter asked for; 0 is none.
    ct: u16,
    reduction: bool,
}

/// What became of a step.
#[derive(PartialEq, Eq)]
enum Step {
    Done,
    /// Not now: the wire, the transactions or a fence hold it up.
    Wait,
}

/// The rest of the NIC, as a transmit queue sees it.
pub struct Surroundings<'a, W> {
    pub wire: &'a mut W,
    pub lnis: &'a Table<Lni>,
    pub eqs: &'a mut Table<EventQueue>,
    pub transactions: &'a mut Transactions,
    /// Packets that found no room.
    pub waiting: &'a mut VecDeque<(Peer, Packet)>,
}

impl TransmitQueue {
    pub fn new(ring: CommandRing, lni: usize, lcid: u8, trigger: bool, error_eq: u16) -> Self {
        Self {
            ring,
            lni,
            lcid,
            trigger,
            error_eq,
            c_state: CStateCmd::new(),
            transfer: None,
            outstanding: 0,
        }
    }

    /// Executes what can be executed. True if anything happened.
    #[inline]
    pub fn run<W: Wire>(&mut self, number: usize, nic: &mut Surroundings<'_, W>) -> bool {
        let mut worked = self.ring.notice();
        for _ in 0..BURST {
            if let Some(transfer) = &mut self.transfer {
                let before = transfer.packet.offset;
                if !transfer.advance(self.lni, nic) {
                    return worked || transfer.packet.offset != before;
                }
                self.transfer = None;
                worked = true;
            }
            let Some(fetched) = self.ring.peek() else {
                break;
            };
            let result = fetched.and_then(|command| {
                let done = self
                    .execute(number, &command, nic)
                    .map_err(|code| (command.header, code))?;
                Ok((done, command.size()))
            });
            match result {
                Ok((Step::Done, size)) => self.ring.advance(size),
                Ok((Step::Wait, _)) => break,
                Err((header, code)) => self.fail(number, header, code, nic.eqs),
            }
            worked = true;
        }
        worked
    }

    fn fail(
        &mut self,
        number: usize,
        header: CmdHeader,
        code: ReturnCode,
        eqs: &mut Table<EventQueue>,
    ) {
        let slot = self.ring.fail(header, code);
        if let Some(eq) = eqs.get_mut(usize::from(self.error_eq)) {
            events::command_failure(eq, number, false, slot, header, code);
        }
    }

    #[inline]
    fn execute<W: Wire>(
        &mut self,
        number: usize,
        command: &Command,
        nic: &mut Surroundings<'_, W>,
    ) -> Result<Step, ReturnCode> {
        let header = command.header;
        if self.trigger && !matches!(command.size(), 64 | 128) {
            return Err(C_RC_CMD_INVALID_ARG); // nic.md 2.6
        }
        match (u32::from(header.cmd_type()), u32::from(header.opcode())) {
            (C_CMD_TYPE_IDC, C_CMD_PUT) => {
                let put = self.decode_idc_put(command)?;
                self.start(number, put, nic)
            }
            (C_CMD_TYPE_DMA, C_CMD_NOMATCH_PUT) if command.size() == NomatchDmaCmd::SIZE => self
                .start(
                    number,
                    decode_nomatch_put(&NomatchDmaCmd::from_bytes(command.bytes())),
                    nic,
                ),
            (C_CMD_TYPE_DMA, C_CMD_PUT) if command.size() == FullDmaCmd::SIZE => self.start(
                number,
                decode_dma_put(&FullDmaCmd::from_bytes(command.bytes())),
                nic,
            ),
            (C_CMD_TYPE_IDC, C_CMD_CSTATE) if command.size() == CStateCmd::SIZE => {
                let c_state = CStateCmd::from_bytes(command.bytes());
                if usize::from(c_state.length()) != CStateCmd::SIZE {
                    return Err(C_RC_CMD_INVALID_ARG);
                }
                self.c_state = c_state;
                Ok(Step::Done)
            }
            (C_CMD_TYPE_IDC | C_CMD_TYPE_DMA, C_CMD_NOOP) | (C_CMD_TYPE_CQ, C_CMD_CQ_NOOP) => {
                Ok(Step::Done)
            }
            // Opcode 0 is the NOOP of this type too: padding of a trigger queue.
            (C_CMD_TYPE_CT, 0) if self.trigger => Ok(Step::Done),
            (C_CMD_TYPE_CQ, C_CMD_CQ_FENCE) => Ok(if self.outstanding == 0 {
                Step::Done
            } else {
                Step::Wait
            }),
            (C_CMD_TYPE_CQ, C_CMD_CQ_LCID) => self.select_profile(command, nic.lnis),
            (C_CMD_TYPE_DMA, C_CMD_NOMATCH_PUT | C_CMD_PUT) | (C_CMD_TYPE_IDC, C_CMD_CSTATE) => {
                Err(C_RC_CMD_INVALID_ARG)
            }
            _ => Err(C_RC_ILLEGAL_OP),
        }
    }

    fn select_profile(&mut self, command: &Command, lnis: &Table<Lni>) -> Result<Step, ReturnCode> {
        if !self.ring.is_at_even_slot() {
            return Err(C_RC_CMD_ALIGN_ERROR); // nic.md 3.11
        }
        let lcid = CqCmd::from_bytes(command.bytes()).lcid();
        lnis.get(self.lni)
            .and_then(|lni| lni.profile(lcid))
            .ok_or(C_RC_PERM_VIOLATION)?;
        self.lcid = lcid;
        Ok(Step::Done)
    }

    #[inline]
    fn decode_idc_put(&self, command: &Command) -> Result<Put, ReturnCode> {
        let header = IdcHdr::from_bytes(command.bytes());
        let length = usize::from(header.length());
        let c_state = &self.c_state;
        let limit = if c_state.restricted() {
            C_MAX_IDC_PAYLOAD_RES
        } else {
            C_MAX_IDC_PAYLOAD_UNR
        };
        if length < IdcHdr::SIZE
            || length > command.size()
            || length - IdcHdr::SIZE > limit as usize
        {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        let mut payload = [0; 28];
        payload.copy_from_slice(&command.words()[2..30]);
        Ok(Put {
            dfa: header.dfa(),
            index_ext: c_state.index_ext(),
            restricted: c_state.restricted(),
            remote_offset: header.remote_offset(),
            length: (length - IdcHdr::SIZE) as u32,
            initiator: c_state.initiator(),
            match_bits: 0,
            header_data: 0,
            source: Source::Immediate(payload),
            eq: c_state.eq(),
            user_ptr: c_state.user_ptr(),
            success_disable: c_state.event_success_disable(),
            send_disable: c_state.event_send_disable(),
            ct: if c_state.event_ct_ack() || c_state.event_ct_send() {
                c_state.ct()
            } else {
                0
            },
            reduction: c_state.reduction(),
        })
    }

    /// Starts a put: complete at once if it can go nowhere, else on its way.
    #[inline]
    fn start<W: Wire>(
        &mut self,
        number: usize,
        put: Put,
        nic: &mut Surroundings<'_, W>,
    ) -> Result<Step, ReturnCode> {
        let lni = nic.lnis.get(self.lni).ok_or(C_RC_PERM_VIOLATION)?;
        let vni = lni.profile(self.lcid).ok_or(C_RC_PERM_VIOLATION)?;
        let eq_is_ours = |eq: &EventQueue| eq.lni == self.lni;
        if put.eq != 0 && !nic.eqs.get(usize::from(put.eq)).is_some_and(eq_is_ours) {
            return Err(C_RC_PERM_VIOLATION);
        }
        // No counter can be allocated, so none can be named.
        if put.ct != 0 {
            return Err(C_RC_PERM_VIOLATION);
        }
        if put.reduction {
            return Err(C_RC_CMD_INVALID_ARG);
        }
        if nic.transactions.is_full() {
            return Ok(Step::Wait);
        }
        let mut completion = Initiator {
            kind: C_EVENT_ACK,
            user_ptr: put.user_ptr,
            mlength: 0,
            ptl_list: 0,
            tgt_error: false,
            return_code: C_RC_OK,
        };
        if let Err(code) = put.source.check(&lni.space, put.length) {
            completion.return_code = code;
            events::initiator(nic.eqs, put.eq, &completion);
            return Ok(Step::Done);
        }
        let dfa = FaUnicast::from_bytes(put.dfa.to_le_bytes());
        let pid = dfa.endpoint_defined() & ((1 << PID_BITS) - 1);
        let peer = match nic.wire.resolve(dfa.nid(), vni, pid) {
            Ok(peer) => peer,
            Err(code) => {
                completion.return_code = code;
                completion.tgt_error = code != C_RC_UNDELIVERABLE;
                events::initiator(nic.eqs, put.eq, &completion);
                return Ok(Step::Done);
            }
        };
        let tag = nic.transactions.start(Transaction {
            peer,
            queue: Some(number),
            eq: put.eq,
            user_ptr: put.user_ptr,
            success_disable: put.success_disable,
            local_error: None,
            probed: false,
        });
        self.outstanding += 1;
        // The restricted header has no room for match information (nic.md 3.10.1).
        let carried = |value| if put.restricted { 0 } else { value };
        let mut transfer = Transfer {
            peer,
            packet: Packet {
                kind: Kind::Put,
                restricted: put.restricted,
                tag,
                vni,
                pid,
                index: dfa.endpoint_defined() >> PID_BITS << 5 | u16::from(put.index_ext),
                initiator: if put.restricted { 0 } else { put.initiator },
                remote_offset: put.remote_offset,
                total: put.length,
                tail: [carried(put.match_bits), carried(put.header_data)],
                ..Packet::default()
            },
            source: put.source,
            send_event: !put.send_disable,
        };
        if !transfer.advance(self.lni, nic) {
            self.transfer = Some(transfer);
        }
        Ok(Step::Done)
    }
}

fn decode_nomatch_put(command: &NomatchDmaCmd) -> Put {
    Put {
        dfa: command.dfa(),
        index_ext: command.index_ext(),
        restricted: command.restricted(),
        remote_offset: command.remote_offset(),
        length: command.request_len(),
        initiator: 0,
        match_bits: 0,
        header_data: 0,
        source: Source::Memory {
            lac: command.lac(),
            iova: command.local_addr(),
        },
        eq: command.eq(),
        user_ptr: 0, // nic.md 3.8
        success_disable: command.event_success_disable(),
        send_disable: command.event_send_disable(),
        ct: if command.event_ct_ack() || command.event_ct_send() {
            command.ct()
        } else {
            0
        },
        reduction: command.reduction(),
    }
}

fn decode_dma_put(command: &FullDmaCmd) -> Put {
    Put {
        dfa: command.dfa(),
        index_ext: command.index_ext(),
        restricted: command.restricted(),
        remote_offset: command.remote_offset(),
        length: command.request_len(),
        initiator: command.initiator(),
        match_bits: command.match_bits(),
        header_data: command.header_data(),
        source: Source::Memory {
            lac: command.lac(),
            iova: command.local_addr(),
        },
        eq: command.eq(),
        user_ptr: command.user_ptr(),
        success_disable: command.event_success_disable(),
        send_disable: command.event_send_disable(),
        ct: if command.event_ct_ack() || command.event_ct_send() {
            command.ct()
        } else {
            0
        },
        reduction: command.reduction(),
    }
}

impl Source {
    /// Whether all `length` bytes can be read. A put of no bytes looks at no address.
    #[inline]
    fn check(&self, space: &AddressSpace, length: u32) -> Result<(), ReturnCode> {
        if let Self::Memory { lac, iova } = *self
            && length > 0
        {
            space.translate(lac, iova, u64::from(length), Access::Read)?;
        }
        Ok(())
    }

    /// Address of `length` bytes at `offset`. Looked up for each packet, since software may unmap
    /// the memory while the put is under way.
    #[inline]
    fn at(&self, space: &AddressSpace, offset: u32, length: u16) -> Result<*const u8, ReturnCode> {
        match self {
            Self::Immediate(words) => Ok(words.as_ptr().cast()),
            Self::Memory { .. } if length == 0 => Ok(std::ptr::null()),
            Self::Memory { lac, iova } => {
                let va = space.translate(
                    *lac,
                    iova + u64::from(offset),
                    u64::from(length),
                    Access::Read,
                )?;
                Ok(std::ptr::with_exposed_provenance(va))
            }
        }
    }
}

impl Transfer {
    /// Sends packets while there is room; true when all are sent, or none will be any more.
    #[inline]
    fn advance<W: Wire>(&mut self, lni: usize, nic: &mut Surroundings<'_, W>) -> bool {
        loop {
            let rest = self.packet.total - self.packet.offset;
            self.packet.length = rest.min(MTU as u32) as u16;
            let space = nic.lnis.get(lni).map(|lni| &lni.space);
            let payload = space.ok_or(C_RC_PERM_VIOLATION).and_then(|space| {
                self.source
                    .at(space, self.packet.offset, self.packet.length)
            });
            let payload = match payload {
                Ok(payload) => payload,
                Err(code) => {
                    self.abort(Some(code), nic.transactions, nic.waiting);
                    return true;
                }
            };
            let packet = self.inlined(payload);
            // SAFETY: `Source::at` found these bytes readable: in the command, or in memory that
            // software keeps mapped while commands use it.
            let sent = unsafe { nic.wire.send(self.peer, &packet, payload) };
            if !sent {
                return false;
            }
            self.packet.offset += u32::from(self.packet.length);
            if self.packet.offset == self.packet.total {
                break;
            }
        }
        if self.send_event
            && let Some(transaction) = nic.transactions.get_mut(self.packet.tag)
        {
            let event = Initiator {
                kind: C_EVENT_SEND,
                user_ptr: transaction.user_ptr,
                mlength: self.packet.total,
                ptl_list: 0,
                tgt_error: false,
                return_code: C_RC_OK,
            };
            events::initiator(nic.eqs, transaction.eq, &event);
        }
        true
    }

    /// The packet with its payload in the header, if it is small and the place is free.
    #[inline]
    fn inlined(&self, payload: *const u8) -> Packet {
        let length = usize::from(self.packet.length);
        let mut packet = self.packet;
        if length > INLINE || packet.tail != [0; 2] || usize::try_from(packet.total) != Ok(length) {
            return packet;
        }
        packet.inline = true;
        if length > 0 {
            let tail = packet.tail.as_mut_ptr().cast();
            // SAFETY: `payload` is readable for `length` bytes as in `advance`, and the tail holds 16.
            unsafe { super::memory::copy(payload, tail, length) };
        }
        packet
    }

    /// Gives up: the target is told that no more will come. `error` is what our side reports.
    pub fn abort(
        &self,
        error: Option<ReturnCode>,
        transactions: &mut Transactions,
        waiting: &mut VecDeque<(Peer, Packet)>,
    ) {
        if let Some(transaction) = transactions.get_mut(self.packet.tag) {
            transaction.local_error = error;
        }
        let packet = Packet {
            kind: Kind::Abort,
            length: 0,
            ..self.packet
        };
        waiting.push_back((self.peer, packet));
    }
}
