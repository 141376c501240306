//! Target events, short or long, as one structure.

use cxi_sys::records::{EventInitiatorShort, EventTargetLong, EventTargetShort};
use cxi_sys::*;

use super::event_queue::Event;

/// All fields of a target event. Fields that a short event lacks are 0; both lengths are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetEvent {
    pub long: bool,
    pub kind: u32,
    pub code: u32,
    pub ptlte_index: u16,
    pub ptl_list: u32,
    pub buffer_id: u16,
    pub auto_unlinked: bool,
    pub initiator: u32,
    pub match_bits: u64,
    pub header_data: u64,
    pub vni: u16,
    pub rlength: u32,
    pub mlength: u32,
    pub start: u64,
    pub remote_offset: u64,
    pub rendezvous: bool,
    pub rendezvous_id: u8,
    pub get_issued: bool,
}

impl TargetEvent {
    pub fn of(event: &Event) -> Self {
        let mut first = [0; EventTargetShort::SIZE];
        first.copy_from_slice(&event.0[..EventTargetShort::SIZE]);
        let short = EventTargetShort::from_bytes(first);
        let common = Self {
            kind: event.kind(),
            code: event.code(),
            ptlte_index: short.ptlte_index(),
            ptl_list: short.ptl_list().into(),
            buffer_id: short.buffer_id(),
            auto_unlinked: short.auto_unlinked(),
            initiator: short.initiator(),
            match_bits: short.match_bits(),
            header_data: short.header_data(),
            vni: short.vni(),
            ..Self::default()
        };
        if event.0.len() == EventTargetShort::SIZE {
            return Self { rlength: short.length(), mlength: short.length(), ..common };
        }
        let long = EventTargetLong::from_bytes(event.bytes());
        Self {
            long: true,
            rlength: long.rlength(),
            mlength: long.mlength(),
            start: long.start(),
            remote_offset: long.remote_offset(),
            rendezvous: long.rendezvous(),
            rendezvous_id: long.rendezvous_id(),
            get_issued: long.get_issued(),
            ..common
        }
    }
}

/// An ACK or a REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    pub kind: u32,
    pub code: u32,
    pub user_ptr: u64,
    pub mlength: u32,
    pub ptl_list: u32,
    pub rendezvous: bool,
    pub tgt_error: bool,
}

impl Completion {
    pub fn of(event: &Event) -> Self {
        let short = EventInitiatorShort::from_bytes(event.bytes());
        Self {
            kind: event.kind(),
            code: event.code(),
            user_ptr: short.user_ptr(),
            mlength: short.mlength(),
            ptl_list: short.ptl_list().into(),
            rendezvous: short.rendezvous(),
            tgt_error: short.tgt_error(),
        }
    }
}

/// Whether an event is an initiator's.
pub fn is_completion(event: &Event) -> bool {
    matches!(event.kind(), C_EVENT_ACK | C_EVENT_REPLY | C_EVENT_SEND)
}
