//! An event queue as software reads it, and its events (nic.md 5, 6).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::{
    EqStatus, EqSwState, EventInitiatorShort, EventTargetLong, EventTargetShort,
};
use cxi_sys::*;

use super::memory::{Buffer, PAGE, RW};
use super::{call, progress, wait_for};

pub const SLOT: usize = 64;

/// An event: its bytes, 16, 32 or 64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event(pub Vec<u8>);

impl Event {
    pub fn kind(&self) -> u32 {
        u32::from(self.0[14] >> 2 & 0x1f)
    }

    pub fn code(&self) -> u32 {
        u32::from(self.0[self.0.len() - 1] & 0x3f)
    }

    /// Checks type and return code.
    #[track_caller]
    pub fn is(&self, kind: u32, code: u32) {
        assert_eq!((self.kind(), self.code()), (kind, code), "type, return code");
    }

    /// The record of this size.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        self.0[..].try_into().expect("an event of this size")
    }
}

pub struct EventQueue {
    pub dev: *mut cxil_dev,
    pub handle: *mut cxi_eq,
    pub number: u16,
    pub buffer: Buffer,
    pub state: EqSwState,
    read: usize,
    acknowledged: usize,
}

impl EventQueue {
    pub fn new(dev: *mut cxil_dev, lni: *mut cxil_lni, flags: u32) -> Self {
        Self::with(dev, lni, PAGE, |attributes| attributes.flags = flags.into())
    }

    pub fn with(
        dev: *mut cxil_dev,
        lni: *mut cxil_lni,
        len: usize,
        choose: impl FnOnce(&mut cxi_eq_attr),
    ) -> Self {
        Self::waited_for(dev, lni, len, choose, [null_mut(); 2])
    }

    /// A queue with wait objects for events and for its status.
    pub fn waited_for(
        dev: *mut cxil_dev,
        lni: *mut cxil_lni,
        len: usize,
        choose: impl FnOnce(&mut cxi_eq_attr),
        [event_wait, status_wait]: [*mut cxil_wait_obj; 2],
    ) -> Self {
        let buffer = Buffer::new(lni, len, RW);
        let mut attributes = attributes(buffer.pages.base.cast(), len);
        choose(&mut attributes);
        let mut handle = null_mut();
        let code = call!(cxil_alloc_evtq(
            lni,
            buffer.md,
            &attributes,
            event_wait,
            status_wait,
            &mut handle
        ));
        assert_eq!(code, 0, "cxil_alloc_evtq");
        // SAFETY: `cxil_alloc_evtq` has just returned the handle.
        let number = unsafe { (*handle).eqn } as u16;
        Self {
            dev,
            handle,
            number,
            buffer,
            state: EqSwState::new(),
            read: SLOT,
            acknowledged: SLOT,
        }
    }

    /// Continues to read in another buffer (nic.md 5.8).
    pub fn go_over(&mut self, buffer: Buffer) {
        self.buffer = buffer;
        self.read = SLOT;
        self.acknowledged = SLOT;
        let other = !self.state.reading_buffer_b();
        self.state.set_reading_buffer_b(other);
    }

    fn step(&self, at: usize, by: usize) -> usize {
        if at + by >= self.buffer.pages.len { SLOT } else { at + by }
    }

    /// The next event, consumed but not acknowledged; does not run the NIC.
    pub fn take(&mut self) -> Option<Event> {
        loop {
            let size = self.buffer.pages.byte(self.read + 14).load(Ordering::Acquire) & 3;
            if size == 0 {
                return None;
            }
            let len = 8 << size;
            let last = self.buffer.pages.byte(self.read + len - 1).load(Ordering::Acquire);
            if last & 0x3f == 0 {
                return None;
            }
            assert!(self.read % SLOT + len <= SLOT, "straddles a slot boundary");
            let event = Event(self.buffer.pages.read(self.read, len));
            self.read = self.step(self.read, len);
            if event.kind() != C_EVENT_NULL_EVENT {
                return Some(event);
            }
        }
    }

    /// Whether there is an unread event.
    pub fn has_more(&self) -> bool {
        let size = self.buffer.pages.byte(self.read + 14);
        size.load(Ordering::Acquire) & 3 != 0
    }

    /// Runs the NIC, then takes the next event.
    pub fn poll(&mut self) -> Option<Event> {
        progress(self.dev);
        self.take()
    }

    /// The next event, acknowledged.
    pub fn wait(&mut self) -> Event {
        let event = wait_for("an event", || self.poll());
        self.acknowledge();
        event
    }

    /// Waits for the next event, and checks its type and return code.
    #[track_caller]
    pub fn expect(&mut self, kind: u32, code: u32) -> Event {
        let event = self.wait();
        event.is(kind, code);
        event
    }

    /// Acknowledges all unread events without looking at them.
    pub fn discard(&mut self) {
        while self.take().is_some() {}
        self.acknowledge();
    }

    /// Waits for the next event without running the NIC, and acknowledges it.
    pub fn wait_inline(&mut self) -> Event {
        let event = wait_for("an event", || self.take());
        self.acknowledge();
        event
    }

    /// Zeroes and releases consumed events (nic.md 5.4).
    pub fn acknowledge(&mut self) {
        while self.acknowledged != self.read {
            self.buffer.pages.word(self.acknowledged).store(0, Ordering::Release);
            self.acknowledged = self.step(self.acknowledged, 8);
        }
        self.state.set_rd_ptr((self.read / SLOT) as u32);
        self.store_state();
    }

    pub fn store_state(&self) {
        // SAFETY: no test uses a queue after its `cxil_destroy_evtq`.
        let register = unsafe { (*self.handle).sw_state_addr };
        // SAFETY: the register is an aligned word that lives as long as the queue.
        let register = unsafe { AtomicU64::from_ptr(register) };
        register.store(u64::from_le_bytes(*self.state.bytes()), Ordering::Release);
    }

    pub fn status(&self) -> EqStatus {
        EqStatus::from_bytes(self.buffer.pages.read(0, SLOT).try_into().unwrap())
    }

    /// Clears the flag of dropped events, which is software's to clear (nic.md 5.6).
    pub fn clear_dropped(&self) {
        self.buffer.pages.byte(15).fetch_and(!1, Ordering::AcqRel);
    }
}

/// Starts the move of a queue to another buffer.
pub fn resize(eq: *mut cxi_eq, buffer: &Buffer) -> i32 {
    let (base, len) = (buffer.pages.base.cast(), buffer.pages.len);
    call!(cxil_evtq_resize(eq, base, len, buffer.md))
}

/// Attributes of a plain queue.
pub fn attributes(queue: *mut std::ffi::c_void, queue_len: usize) -> cxi_eq_attr {
    cxi_eq_attr {
        queue,
        queue_len,
        flags: CXI_EQ_EC_DISABLE.into(),
        status_thresh_base: 0,
        status_thresh_delta: 0,
        status_thresh_count: 0,
        ec_delay: 0,
        cpu_affinity: 0,
        reserved_slots: 0,
    }
}

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
