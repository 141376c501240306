//! Event queues: a ring of events in our memory, written by the NIC (nic.md 5).

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::{EqSwState, EventInitiatorShort};
use cxi_sys::*;

use crate::error::Error;
use crate::event::{Event, EventBytes, SLOT};
use crate::fence;
use crate::library::Progress;
use crate::lni::{Lni, LniHandle};
use crate::memory::{Pages, RegionHandle};
use crate::owned::{Destroy, Owned, Release, close};

/// An event queue with its memory.
///
/// It counts the operations in flight of the transmit queues that report to it, so that
/// the NIC never has an event of theirs without room for it. Events that others cause
/// (incoming messages, answers to target commands) cannot be counted: a queue that
/// receives those is sized for them by its owner. Nor are the failures of operations that
/// report nothing on success, and are counted on a [`Counter`](crate::Counter): they need no
/// room unless they fail.
pub struct EventQueue {
    consumer: Consumer<MappedEvents>,
    /// Consumed events of counted operations since the last acknowledgement.
    completed: u32,
    progress: Progress,
    handle: Rc<EventQueueHandle>,
}

impl EventQueue {
    /// Makes a queue in which at least `events` operations can be in flight, with flags
    /// `CXI_EQ_*`. Its memory comes with it. Errors: those of `mmap`, libcxi.md 7.4 and
    /// 8.1.
    pub fn new(lni: &Lni, events: u32, flags: u64) -> Result<Self, Error> {
        const CALL: &str = "cxil_alloc_evtq";
        let lni = lni.handle();
        let api = lni.library().api();
        let pages = Pages::anonymous((events as usize + UNUSABLE_SLOTS) * SLOT)?;
        let (queue, queue_len) = (pages.as_ptr(), pages.len());
        let rights = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;
        let region = RegionHandle::map(lni, pages.into(), rights)?;
        let attr = cxi_eq_attr {
            queue: queue.cast(),
            queue_len,
            flags,
            status_thresh_base: 0,
            status_thresh_delta: 0,
            status_thresh_count: 0,
            ec_delay: 0,
            cpu_affinity: 0,
            reserved_slots: 0,
        };
        let object = Owned::allocate(
            lni.library(),
            CALL,
            Destroy {
                call: EventQueueHandle::CALL,
                function: api.cxil_destroy_evtq,
            },
            // SAFETY: the interface is alive, the region holds the pages of `attr`, both stay
            // until the queue is destroyed, and `queue` is there to be filled.
            |queue| unsafe {
                (api.cxil_alloc_evtq)(
                    lni.as_ptr(),
                    region.as_ptr(),
                    &raw const attr,
                    ptr::null_mut(),
                    ptr::null_mut(),
                    queue,
                )
            },
        )?;
        let eq = object.read();
        let memory = MappedEvents {
            events: NonNull::new(queue).ok_or(Error::new(CALL, libc::EFAULT))?,
            bytes: queue_len,
            sw_state: NonNull::new(eq.sw_state_addr).ok_or(Error::new(CALL, libc::EFAULT))?,
        };
        let slots = queue_len / SLOT;
        Ok(Self {
            consumer: Consumer::new(memory),
            completed: 0,
            progress: lni.progress(),
            handle: Rc::new(EventQueueHandle {
                object,
                region,
                number: eq.eqn as u16,
                capacity: (slots - UNUSABLE_SLOTS) as u32,
                in_flight: Cell::new(0),
                silence: Cell::new(false),
                lni: Rc::clone(lni),
            }),
        })
    }

    /// The number by which commands name the queue, 1 to 2047.
    pub fn number(&self) -> u16 {
        self.handle.number
    }

    /// How many operations that report here can be in flight.
    pub fn capacity(&self) -> u32 {
        self.handle.capacity
    }

    /// The next event, if the NIC has completed one. A software NIC runs in here while
    /// the queue is empty.
    ///
    /// The event's fields were read once, after its last byte had been seen (acquire):
    /// everything that the NIC wrote before the event is visible.
    #[inline]
    pub fn poll(&mut self) -> Option<Event<'_>> {
        let event = match self.consumer.take() {
            Some(event) => event,
            None if self.progress.run() => self.consumer.take()?,
            None => return None,
        };
        self.completed += u32::from(completes_operation(&event, self.handle.silence.get()));
        Some(Event::new(event))
    }

    /// Gives the slots of all consumed events back to the NIC.
    #[inline]
    pub fn acknowledge(&mut self) {
        self.consumer.acknowledge();
        // Saturating: a device may send what nobody expects.
        let in_flight = &self.handle.in_flight;
        in_flight.set(in_flight.get().saturating_sub(self.completed));
        self.completed = 0;
    }

    /// Destroys the queue and frees its memory. EBUSY while command queues or portals
    /// table entries use it.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    pub(crate) fn handle(&self) -> &Rc<EventQueueHandle> {
        &self.handle
    }
}

/// Slots that cannot hold the event of an operation in flight: the status slot, the one
/// kept empty against overrun (nic.md 5.2), and one that is consumed in part. That one is
/// not given back (nic.md 5.4), although the NIC may have closed it.
const UNUSABLE_SLOTS: usize = C_EQ_RESERVED_EVENT_SLOTS as usize + 1;

/// Whether the event is the one that a command of a transmit queue was counted for. The
/// REPLY of a rendezvous get, which the NIC issues itself, is not. Where operations are silent
/// on success, a failure may be one of theirs, for which nothing was counted; it does not give
/// back the room of another.
#[inline]
fn completes_operation(event: &EventBytes, silence: bool) -> bool {
    if silence && u32::from(event.return_code()) != C_RC_OK {
        // Only trigger events are counted whatever becomes of them.
        return u32::from(event.event_type()) == C_EVENT_TRIGGERED_OP;
    }
    let rendezvous = || {
        let [first, second, ..] = event.words.map(u64::to_le_bytes);
        let mut bytes = [0; EventInitiatorShort::SIZE];
        bytes[..8].copy_from_slice(&first);
        bytes[8..].copy_from_slice(&second);
        EventInitiatorShort::from_bytes(bytes).rendezvous()
    };
    match u32::from(event.event_type()) {
        C_EVENT_ACK | C_EVENT_SEND | C_EVENT_TRIGGERED_OP => true,
        C_EVENT_REPLY => !rendezvous(),
        _ => false,
    }
}

/// The part of an event queue that others depend on.
pub(crate) struct EventQueueHandle {
    object: Owned<cxi_eq>,
    region: RegionHandle,
    number: u16,
    capacity: u32,
    /// Events to come of operations that were committed, plus those not acknowledged.
    in_flight: Cell<u32>,
    /// There have been operations that report failures alone.
    silence: Cell<bool>,
    lni: Rc<LniHandle>,
}

impl EventQueueHandle {
    pub(crate) fn as_ptr(&self) -> *mut cxi_eq {
        self.object.as_ptr()
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn lni(&self) -> &Rc<LniHandle> {
        &self.lni
    }

    /// Whether `more` events could come in without overrun.
    #[inline]
    pub(crate) fn has_room(&self, more: u32) -> bool {
        self.in_flight.get() + more <= self.capacity
    }

    /// Notes that operations report here which have an event only if they fail. Nothing keeps
    /// room for that event: whoever wants to see all failures of a list of operations, beside
    /// their trigger event, makes the queue for one event more than the list is long. One that
    /// finds no room is dropped by the NIC, and those before it have told.
    #[inline]
    pub(crate) fn expect_silence(&self) {
        self.silence.set(true);
    }

    /// Counts `more` events to come.
    #[inline]
    pub(crate) fn expect(&self, more: u32) {
        self.in_flight.set(self.in_flight.get() + more);
    }
}

impl Release for EventQueueHandle {
    const CALL: &'static str = "cxil_destroy_evtq";

    fn release(&mut self) -> Result<(), Error> {
        let queue = self.object.release();
        let memory = self.region.release();
        queue.and(memory)
    }
}

/// What a consumer does to the outside. The tests record it and check its order.
trait EventMemory {
    /// Bytes of the queue, a multiple of 64.
    fn bytes(&self) -> usize;
    /// Loads 8 bytes that tell whether other bytes are there: before those (acquire).
    fn load_first(&self, offset: usize) -> u64;
    /// Loads 8 bytes that are known to be there.
    fn load(&self, offset: usize) -> u64;
    /// Zeroes 8 bytes.
    fn zero(&mut self, offset: usize);
    /// Zeroes before the store of the software state.
    fn before_acknowledge(&mut self);
    /// Stores the software-state register.
    fn store_sw_state(&mut self, value: u64);
}

/// The memory and the register of a queue. Alive as long as its handle.
struct MappedEvents {
    events: NonNull<u8>,
    bytes: usize,
    sw_state: NonNull<u64>,
}

impl MappedEvents {
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < self.bytes);
        let word = self.events.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the consumer's offsets are multiples of 8 inside the queue, whose pages
        // live as long as the handle, and all access to them is atomic.
        unsafe { AtomicU64::from_ptr(word) }
    }
}

impl EventMemory for MappedEvents {
    #[inline]
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn load_first(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
    }

    #[inline]
    fn load(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Relaxed))
    }

    #[inline]
    fn zero(&mut self, offset: usize) {
        self.word(offset).store(0, Ordering::Relaxed);
    }

    #[inline]
    fn before_acknowledge(&mut self) {
        fence::before_acknowledge();
    }

    #[inline]
    fn store_sw_state(&mut self, value: u64) {
        // SAFETY: the register is mapped as long as the queue; the store is volatile, so
        // it happens once and whole.
        unsafe { self.sw_state.as_ptr().write_volatile(value) };
    }
}

/// The consumer side of an event queue (nic.md 5.3, 5.4). Offsets are in bytes, multiples
/// of 16, from 64 up to the end of the queue.
struct Consumer<M> {
    memory: M,
    rd_offset: usize,
    /// Up to where consumed bytes have been zeroed.
    prev_rd_offset: usize,
    sw_state: EqSwState,
}

impl<M: EventMemory> Consumer<M> {
    fn new(memory: M) -> Self {
        Self {
            memory,
            rd_offset: SLOT,
            prev_rd_offset: SLOT,
            sw_state: EqSwState::new(),
        }
    }

    /// The next complete event, NULL events skipped.
    #[inline]
    fn take(&mut self) -> Option<EventBytes> {
        loop {
            let event = self.peek()?;
            self.rd_offset += event.length;
            if self.rd_offset >= self.memory.bytes() {
                self.rd_offset = SLOT;
            }
            if u32::from(event.event_type()) != C_EVENT_NULL_EVENT {
                return Some(event);
            }
        }
    }

    /// The event at the read offset: there once its size code, and its return code in its
    /// last byte, are both not zero.
    #[inline]
    fn peek(&self) -> Option<EventBytes> {
        let at = self.rd_offset;
        let head = self.memory.load_first(at + 8);
        let size = head >> 48 & 3;
        if size == 0 {
            return None;
        }
        // Events do not straddle slots (nic.md 5.2). Should a broken device write one
        // that would, it is cut there, so that no read leaves the queue.
        let length = (8 << size).min(SLOT - at % SLOT);
        let last = match length {
            16 => head,
            _ => self.memory.load_first(at + length - 8),
        };
        if last >> 56 & 0x3f == 0 {
            return None;
        }
        let mut words = [0; SLOT / 8];
        words[0] = self.memory.load(at);
        words[1] = head;
        for (word, offset) in words.iter_mut().zip((0..length).step_by(8)).skip(2) {
            *word = self.memory.load(at + offset);
        }
        Some(EventBytes { words, length })
    }

    /// Zeroes what was consumed and tells the NIC the slot of the read offset. The store
    /// happens on every call.
    #[inline]
    fn acknowledge(&mut self) {
        if self.rd_offset < self.prev_rd_offset {
            self.zero(self.prev_rd_offset, self.memory.bytes());
            self.zero(SLOT, self.rd_offset);
        } else {
            self.zero(self.prev_rd_offset, self.rd_offset);
        }
        self.prev_rd_offset = self.rd_offset;
        self.sw_state.set_rd_ptr((self.rd_offset / SLOT) as u32);
        self.memory.before_acknowledge();
        let state = u64::from_le_bytes(*self.sw_state.bytes());
        self.memory.store_sw_state(state);
    }

    #[inline]
    fn zero(&mut self, from: usize, to: usize) {
        for offset in (from..to).step_by(8) {
            self.memory.zero(offset);
        }
    }
}

#[cfg(test)]
#[path = "event_queue_tests.rs"]
mod tests;
