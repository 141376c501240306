//! Event records: their fields and formats (nic.md 6).

use cxi_sys::records::{
    CmdHeader, EventCmdFail, EventInitiatorLong, EventInitiatorShort, EventTargetLong,
    EventTargetShort, EventTrigOpLong, EventTrigOpShort,
};
use cxi_sys::*;

use super::arithmetic::Amo;
use super::event_queue::EventQueue;
use super::lists::Landing;
use super::return_codes::ReturnCode;
use super::table::Table;
use super::wire::{Packet, PacketKind};

/// An event at the initiator: ACK, REPLY or SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitiatorEvent {
    pub kind: c_event_type,
    pub user_ptr: u64,
    pub mlength: u32,
    pub ptl_list: u8,
    /// It completes a get that the NIC issued for a rendezvous put.
    pub rendezvous: bool,
    pub tgt_error: bool,
    pub return_code: ReturnCode,
}

/// An event at the target, about an operation or about a command to a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetEvent {
    pub kind: c_event_type,
    pub ptlte_index: u16,
    pub ptl_list: u8,
    pub buffer_id: u16,
    pub vni: u16,
    pub initiator: u32,
    pub match_bits: u64,
    pub header_data: u64,
    pub rlength: u32,
    pub mlength: u32,
    pub remote_offset: u64,
    pub start: u64,
    /// The operation is a rendezvous put.
    pub rendezvous: bool,
    pub rendezvous_id: u8,
    /// RENDEZVOUS only: the NIC issues the get.
    pub get_issued: bool,
    pub auto_unlinked: bool,
    /// ATOMIC and FETCH_ATOMIC only.
    pub amo: Amo,
    pub return_code: ReturnCode,
}

impl TargetEvent {
    /// The fields that depend only on the operation, whose first packet is `packet`.
    pub fn about(packet: &Packet) -> Self {
        Self {
            vni: packet.address.vni(),
            initiator: packet.initiator,
            match_bits: packet.match_bits(),
            header_data: packet.header_data(),
            rlength: packet.rlength(),
            remote_offset: packet.remote_offset,
            rendezvous: packet.kind == PacketKind::Rendezvous,
            rendezvous_id: packet.rendezvous.id,
            amo: packet.amo,
            ..Self::default()
        }
    }

    /// The event of an operation at its list entry.
    pub fn of(packet: &Packet, landing: &Landing, code: ReturnCode) -> Self {
        let (written, headers) = match code {
            C_RC_OK => (landing.mlength(packet), landing.headers(packet)),
            _ => (0, 0),
        };
        // The event of a rendezvous put has the offset from which the rest is fetched.
        let eager = match packet.kind {
            PacketKind::Rendezvous => u64::from(written),
            _ => 0,
        };
        Self {
            kind: match packet.kind {
                PacketKind::Get => C_EVENT_GET,
                PacketKind::Atomic if packet.amo.fetching => C_EVENT_FETCH_ATOMIC,
                PacketKind::Atomic => C_EVENT_ATOMIC,
                _ => C_EVENT_PUT,
            },
            ptlte_index: landing.pte as u16,
            ptl_list: landing.entry.ptl_list(),
            buffer_id: landing.entry.buffer_id(),
            mlength: written + headers,
            remote_offset: packet.remote_offset + eager,
            start: landing.place.start - u64::from(landing.headers(packet)),
            auto_unlinked: landing.auto_unlinked,
            return_code: code,
            ..Self::about(packet)
        }
    }
}

/// List entries in use and allocated, as long target events report them.
pub type PoolUse = (u16, u16);

/// Delivers an initiator event to event queue `eq`, unless that is 0.
#[inline]
pub fn initiator(eqs: &mut Table<EventQueue>, eq: u16, event: &InitiatorEvent) {
    let Some(queue) = eqs.get_mut(usize::from(eq)) else {
        return;
    };
    let mut short = EventInitiatorShort::new();
    short
        .set_user_ptr(event.user_ptr)
        .set_mlength(event.mlength)
        .set_ptl_list(event.ptl_list)
        .set_rendezvous(event.rendezvous)
        .set_tgt_error(event.tgt_error)
        .set_event_size(C_EVENT_SIZE_16_BYTE as u8)
        .set_event_type(event.kind as u8);
    if queue.flags & u64::from(CXI_EQ_INIT_LONG) == 0 {
        short.set_return_code(event.return_code as u8);
        queue.post(short.bytes());
        return;
    }
    let mut bytes = [0; EventInitiatorLong::SIZE];
    bytes[..EventInitiatorShort::SIZE].copy_from_slice(short.bytes());
    let mut long = EventInitiatorLong::from_bytes(bytes);
    long.set_event_size(C_EVENT_SIZE_32_BYTE as u8).set_return_code(event.return_code as u8);
    queue.post(long.bytes());
}

/// Delivers a TRIGGERED_OP of counter `ct` to event queue `eq`, unless that is 0.
pub fn triggered(
    eqs: &mut Table<EventQueue>,
    eq: u16,
    ct: usize,
    threshold: u64,
    code: ReturnCode,
) {
    let Some(queue) = eqs.get_mut(usize::from(eq)) else {
        return;
    };
    if queue.flags & u64::from(CXI_EQ_INIT_LONG) == 0 {
        let mut short = EventTrigOpShort::new();
        short
            .set_threshold(threshold)
            .set_ct_handle(ct as u16)
            .set_event_size(C_EVENT_SIZE_16_BYTE as u8)
            .set_event_type(C_EVENT_TRIGGERED_OP as u8)
            .set_return_code(code as u8);
        queue.post(short.bytes());
        return;
    }
    let mut long = EventTrigOpLong::new();
    long.set_threshold(threshold)
        .set_ct_handle(ct as u16)
        .set_event_size(C_EVENT_SIZE_32_BYTE as u8)
        .set_event_type(C_EVENT_TRIGGERED_OP as u8)
        .set_return_code(code as u8);
    queue.post(long.bytes());
}

/// The size of a target event. Events of puts and gets in the PRIORITY list are short, unless the
/// short format cannot express them: a failure, a truncation, a length beyond 20 bits, a rendezvous
/// (nic.md 6.3; 15, question 7).
pub fn target_size(queue: &EventQueue, event: &TargetEvent, use_long_event: bool) -> usize {
    let short = matches!(event.kind, C_EVENT_PUT | C_EVENT_GET)
        && u32::from(event.ptl_list) == C_PTL_LIST_PRIORITY
        && !event.rendezvous
        && event.return_code == C_RC_OK
        && event.rlength == event.mlength
        && event.rlength < 1 << 20
        && queue.flags & u64::from(CXI_EQ_TGT_LONG) == 0
        && !use_long_event;
    if short { EventTargetShort::SIZE } else { EventTargetLong::SIZE }
}

/// The event of an entry that an operation used up.
pub fn unlinked(landing: &Landing) -> TargetEvent {
    TargetEvent {
        kind: C_EVENT_UNLINK,
        ptlte_index: landing.pte as u16,
        ptl_list: landing.entry.ptl_list(),
        buffer_id: landing.entry.buffer_id(),
        auto_unlinked: true,
        return_code: C_RC_OK,
        ..TargetEvent::default()
    }
}

/// Delivers a target event.
pub fn target(queue: &mut EventQueue, event: &TargetEvent, use_long_event: bool, pool: PoolUse) {
    let mut long = EventTargetLong::new();
    long.set_header_data(event.header_data)
        .set_initiator(event.initiator)
        .set_ptlte_index(event.ptlte_index)
        .set_event_type(event.kind as u8)
        .set_ptl_list(event.ptl_list)
        .set_auto_unlinked(event.auto_unlinked)
        .set_match_bits(event.match_bits)
        .set_buffer_id(event.buffer_id)
        .set_vni(event.vni);
    if target_size(queue, event, use_long_event) == EventTargetShort::SIZE {
        // The formats are equal up to the VNI.
        let mut bytes = [0; EventTargetShort::SIZE];
        bytes.copy_from_slice(&long.bytes()[..EventTargetShort::SIZE]);
        let mut short = EventTargetShort::from_bytes(bytes);
        short
            .set_event_size(C_EVENT_SIZE_32_BYTE as u8)
            .set_length(event.rlength)
            .set_return_code(event.return_code as u8);
        queue.post(short.bytes());
        return;
    }
    long.set_event_size(C_EVENT_SIZE_64_BYTE as u8)
        .set_mlength(event.mlength)
        .set_rlength(event.rlength)
        .set_remote_offset(event.remote_offset)
        .set_start(event.start)
        .set_atomic_op(event.amo.op)
        .set_atomic_type(event.amo.kind)
        .set_cswap_op(event.amo.comparison)
        .set_rendezvous(event.rendezvous)
        .set_get_issued(event.get_issued)
        .set_rendezvous_id(event.rendezvous_id)
        .set_lpe_stat_1(pool.0)
        .set_lpe_stat_2(pool.1)
        .set_return_code(event.return_code as u8);
    queue.post(long.bytes());
}

/// Delivers a STATE_CHANGE. `reason` is given when the NIC changed the state without a command.
pub fn state_change(
    queue: &mut EventQueue,
    ptlte_index: u16,
    state: c_ptlte_state,
    reason: Option<c_sc_reason>,
    code: ReturnCode,
) {
    let mut event = EventTargetLong::new();
    event
        .set_ptlte_state(state as u8)
        .set_sc_reason(reason.unwrap_or(0) as u8)
        .set_sc_nic_auto(reason.is_some())
        .set_ptlte_index(ptlte_index)
        .set_event_size(C_EVENT_SIZE_64_BYTE as u8)
        .set_event_type(C_EVENT_STATE_CHANGE as u8)
        .set_return_code(code as u8);
    queue.post(event.bytes());
}

/// A command that failed.
pub struct FailedCommand {
    /// Its queue.
    pub queue: usize,
    pub is_target: bool,
    pub slot: u16,
    pub header: CmdHeader,
    pub code: ReturnCode,
}

/// Delivers a COMMAND_FAILURE to event queue `eq`, unless that is 0.
pub fn command_failure(eqs: &mut Table<EventQueue>, eq: u16, failed: &FailedCommand) {
    let Some(queue) = eqs.get_mut(usize::from(eq)) else {
        return;
    };
    let mut event = EventCmdFail::new();
    event
        .set_cq_id(failed.queue as u16)
        .set_is_target(failed.is_target)
        .set_fail_loc(failed.slot)
        .set_cmd_type(failed.header.cmd_type())
        .set_cmd_size(failed.header.cmd_size())
        .set_opcode(failed.header.opcode())
        .set_event_size(C_EVENT_SIZE_16_BYTE as u8)
        .set_event_type(C_EVENT_COMMAND_FAILURE as u8)
        .set_return_code(failed.code as u8);
    queue.post(event.bytes());
}
