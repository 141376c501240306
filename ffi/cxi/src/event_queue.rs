//! Event queues: rings of events in host memory, written by the NIC (nic.md 5).

use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use cxi_sys::records::{CStateCmd, DmaAmoCmd, EqSwState, FullDmaCmd, NomatchDmaCmd};
use cxi_sys::*;

use crate::error::{EmitError, Error};
use crate::event::{Event, EventHeader, SLOT};
use crate::fence;
use crate::library::ProgressHook;
use crate::library::{Destroy, Owned, ReleaseHandle, close};
use crate::lni::{Lni, LniHandle};
use crate::memory::RegionHandle;
use crate::observer::{Registration, StateLocation};
use crate::pages::Pages;

/// An event queue with its memory.
///
/// The queue counts the operations in flight on the transmit queues that report to it, so that it
/// always has room for their events. Two kinds of events are not counted, and the caller must size
/// the queue for them: events of incoming messages and target commands, and failures of operations
/// whose successes are not reported but counted on a [`Counter`](crate::Counter).
pub struct EventQueue {
    consumer: Consumer<MappedEvents>,
    /// Events of counted operations that were polled since the last acknowledgement.
    completed: u32,
    progress: ProgressHook,
    handle: Arc<EventQueueHandle>,
}

impl EventQueue {
    /// Allocates a queue and its memory, with room for the events of at least `events` operations
    /// in flight. `flags` are `CXI_EQ_*`.
    ///
    /// # Errors
    ///
    /// The errors of `mmap`; see libcxi.md 7.4 and 8.1.
    pub fn new(lni: &Lni, events: u32, flags: u64) -> Result<Self, Error> {
        Self::with_reserved_slots(lni, events, flags, 0)
    }

    /// Allocates a queue like [`new`](Self::new), with `reserved` slots that incoming messages may
    /// not use (nic.md 5.1).
    ///
    /// # Errors
    ///
    /// EINVAL if `reserved` exceeds the slots of the queue, and the errors of [`new`](Self::new).
    pub fn with_reserved_slots(
        lni: &Lni,
        events: u32,
        flags: u64,
        reserved: u32,
    ) -> Result<Self, Error> {
        const CALL: &str = "cxil_alloc_evtq";
        let lni = lni.handle();
        let api = lni.library().api();
        let pages = Pages::anonymous((events as usize + UNUSABLE_SLOTS) * SLOT)?;
        let (queue, queue_len) = (pages.as_ptr(), pages.len());
        let rights = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;
        let region = RegionHandle::map(lni, pages.into(), rights)?;
        let attr = attributes(queue, queue_len, flags, reserved);
        let object = Owned::allocate(
            lni.library(),
            CALL,
            Destroy { call: EventQueueHandle::CALL, function: api.cxil_destroy_evtq },
            // SAFETY: the handle keeps the interface, and the region with the pages that `attr`
            // names, until the queue is destroyed; `queue` is a valid out pointer.
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
        let number = eq.eqn as u16;
        let status = memory.events.cast();
        Ok(Self {
            consumer: Consumer::new(memory),
            completed: 0,
            progress: lni.progress(),
            handle: Arc::new(EventQueueHandle {
                registration: lni.observer().register(StateLocation::Events { number, status }),
                object,
                region,
                number,
                capacity: (slots - UNUSABLE_SLOTS) as u32,
                in_flight: AtomicU32::new(0),
                failures_only: AtomicBool::new(false),
                lni: Arc::clone(lni),
            }),
        })
    }

    /// The number by which commands name the queue, 1 to 2047.
    pub fn number(&self) -> u16 {
        self.handle.number
    }

    /// How many operations that report to this queue can be in flight.
    pub fn capacity(&self) -> u32 {
        self.handle.capacity
    }

    /// The next event, if the NIC has completed one. If the queue is empty, the call runs a
    /// software NIC.
    ///
    /// Only the words that hold size, type and return code are read, so that the time of the event
    /// can be taken at once; the event reads its other fields when they are asked for. All loads
    /// follow an acquire load of its last byte: everything that the NIC wrote before the event is
    /// visible.
    #[inline]
    pub fn poll(&mut self) -> Option<Event<'_>> {
        let header = match self.consumer.take() {
            Some(header) => header,
            None if self.progress.run() => self.consumer.take()?,
            None => return None,
        };
        self.completed += u32::from(completes_operation(
            &header,
            self.handle.failures_only.load(Ordering::Relaxed),
        ));
        let words = self.consumer.memory.words(header.at, header.length);
        Some(Event::new(header, words))
    }

    /// Gives the slots of all polled events back to the NIC.
    #[inline]
    pub fn acknowledge(&mut self) {
        self.consumer.acknowledge();
        // A broken device may send more events than operations.
        let in_flight = &self.handle.in_flight;
        let left = in_flight.load(Ordering::Relaxed).saturating_sub(self.completed);
        in_flight.store(left, Ordering::Relaxed);
        self.completed = 0;
    }

    /// Destroys the queue and frees its memory.
    ///
    /// # Errors
    ///
    /// EBUSY while command queues or portals table entries use the queue; errors of
    /// `cxil_destroy_evtq` and `cxil_unmap`.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    pub(crate) fn handle(&self) -> &Arc<EventQueueHandle> {
        &self.handle
    }
}

/// Slots that cannot hold the event of an operation in flight: the status slot, the slot kept empty
/// against overrun (nic.md 5.2), and a partly consumed slot, which is not returned to the NIC
/// (nic.md 5.4) although the NIC may have closed it.
const UNUSABLE_SLOTS: usize = C_EQ_RESERVED_EVENT_SLOTS as usize + 1;

/// Whether the event releases the room that a command of a transmit queue reserved. The REPLY of a
/// rendezvous get does not, because the NIC issues that get itself. If some operations report
/// `failures_only`, a failure may belong to one of them, which reserved no room.
#[inline]
fn completes_operation(event: &EventHeader, failures_only: bool) -> bool {
    if failures_only && u32::from(event.return_code()) != C_RC_OK {
        // Trigger events reserve room whether they succeed or are cancelled.
        return u32::from(event.event_type()) == C_EVENT_TRIGGERED_OP;
    }
    match u32::from(event.event_type()) {
        C_EVENT_ACK | C_EVENT_SEND | C_EVENT_TRIGGERED_OP => true,
        C_EVENT_REPLY => !event.is_rendezvous(),
        _ => false,
    }
}

/// A command that names the event queue of its operation.
pub(crate) trait Reporting {
    /// Number of the event queue, or `C_EQ_NONE`.
    fn event_queue(&self) -> u16;
    /// Whether the operation causes no SEND event.
    fn disables_send(&self) -> bool;
    /// Whether the operation causes no event if it succeeds.
    fn disables_success(&self) -> bool;
}

macro_rules! reporting {
    ($($command:ty),*) => {$(
        impl Reporting for $command {
            #[inline]
            fn event_queue(&self) -> u16 {
                self.eq()
            }
            #[inline]
            fn disables_send(&self) -> bool {
                self.event_send_disable()
            }
            #[inline]
            fn disables_success(&self) -> bool {
                self.event_success_disable()
            }
        }
    )*};
}
reporting!(CStateCmd, NomatchDmaCmd, FullDmaCmd, DmaAmoCmd);

/// The part of an event queue that dependent objects share.
pub(crate) struct EventQueueHandle {
    // Ends before the queue and its memory are released.
    registration: Registration,
    object: Owned<cxi_eq>,
    region: RegionHandle,
    number: u16,
    capacity: u32,
    /// Events reserved by committed operations and not yet acknowledged. One thread at a time
    /// drives an event queue and its command queues: two at once could lose a count, but nothing
    /// worse.
    in_flight: AtomicU32,
    /// Whether an operation was emitted that reports failures only.
    failures_only: AtomicBool,
    lni: Arc<LniHandle>,
}

impl EventQueueHandle {
    pub(crate) fn as_ptr(&self) -> *mut cxi_eq {
        self.object.as_ptr()
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn lni(&self) -> &Arc<LniHandle> {
        &self.lni
    }

    /// Whether the queue has room for `more` events.
    #[inline]
    pub(crate) fn has_room(&self, more: u32) -> bool {
        self.in_flight.load(Ordering::Relaxed) + more <= self.capacity
    }

    /// How many events `command` reserves: its SEND and its success, unless disabled. A failure of
    /// an operation without success event has no reserved room: the caller makes the queue one
    /// event larger to see the first such failure beside the other events.
    ///
    /// # Errors
    ///
    /// [`EmitError::OtherEventQueue`] if the command names neither this event queue nor none.
    #[inline]
    pub(crate) fn events_of(&self, command: &impl Reporting) -> Result<u32, EmitError> {
        let eq = command.event_queue();
        if u32::from(eq) == C_EQ_NONE {
            return Ok(0);
        }
        if eq != self.number {
            return Err(EmitError::OtherEventQueue);
        }
        if command.disables_success() {
            self.failures_only.store(true, Ordering::Relaxed);
        }
        Ok(u32::from(!command.disables_send()) + u32::from(!command.disables_success()))
    }

    /// Reserves room for `more` events.
    #[inline]
    pub(crate) fn expect(&self, more: u32) {
        let expected = self.in_flight.load(Ordering::Relaxed) + more;
        self.in_flight.store(expected, Ordering::Relaxed);
    }
}

impl ReleaseHandle for EventQueueHandle {
    const CALL: &'static str = "cxil_destroy_evtq";

    fn release(&mut self) -> Result<(), Error> {
        self.registration.end();
        let queue = self.object.release();
        let memory = self.region.release();
        queue.and(memory)
    }
}

/// The memory accesses of a consumer. Tests record them and check their order.
trait EventMemory {
    /// The size of the queue in bytes, a multiple of 64.
    fn bytes(&self) -> usize;
    /// Loads 8 bytes that show whether an event is complete. Later loads are not moved before this
    /// load (acquire).
    fn load(&self, offset: usize) -> u64;
    /// Zeroes 8 bytes.
    fn zero(&mut self, offset: usize);
    /// Orders the zeroing before the store of the software state.
    fn before_acknowledge(&mut self);
    /// Stores the software-state register.
    fn store_sw_state(&mut self, value: u64);
}

/// The memory and the register of a queue. Valid as long as the handle of the queue.
struct MappedEvents {
    events: NonNull<u8>,
    bytes: usize,
    sw_state: NonNull<u64>,
}

// SAFETY: the pointers lead into a mapping of the process, which is valid in all its threads; the
// memory is accessed through atomics, and the register through `&mut self`.
unsafe impl Send for MappedEvents {}

impl MappedEvents {
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && offset < self.bytes);
        let word = self.events.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the consumer passes multiples of 8 inside the queue, whose pages are mapped as
        // long as the handle; the CPU accesses them only through atomics.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// The words of `length` bytes, both a multiple of 8.
    #[inline]
    fn words(&self, offset: usize, length: usize) -> &[AtomicU64] {
        debug_assert!(offset.is_multiple_of(8) && offset + length <= self.bytes);
        let first = self.events.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the consumer passes a range of whole words inside the queue, whose pages are
        // mapped as long as the handle; the CPU accesses them only through atomics.
        unsafe { slice::from_raw_parts(first, length / 8) }
    }
}

impl EventMemory for MappedEvents {
    #[inline]
    fn bytes(&self) -> usize {
        self.bytes
    }

    #[inline]
    fn load(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
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
        // SAFETY: the library keeps the register mapped as long as the queue. The store is
        // volatile, so the compiler neither splits nor repeats it.
        unsafe { self.sw_state.as_ptr().write_volatile(value) };
    }
}

/// The consumer side of an event queue (nic.md 5.3, 5.4). Offsets are in bytes, multiples
/// of 16, from 64 up to the end of the queue.
struct Consumer<M> {
    memory: M,
    rd_offset: usize,
    /// Consumed bytes before this offset have been zeroed.
    prev_rd_offset: usize,
    sw_state: EqSwState,
}

impl<M: EventMemory> Consumer<M> {
    fn new(memory: M) -> Self {
        Self { memory, rd_offset: SLOT, prev_rd_offset: SLOT, sw_state: EqSwState::new() }
    }

    /// Consumes NULL events and returns the next other event, if it is complete.
    #[inline]
    fn take(&mut self) -> Option<EventHeader> {
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

    /// The event at the read offset, if it is complete: if its size code and the return code in its
    /// last byte are both nonzero.
    #[inline]
    fn peek(&self) -> Option<EventHeader> {
        let at = self.rd_offset;
        let second = self.memory.load(at + 8);
        let size = second >> 48 & 3;
        if size == 0 {
            return None;
        }
        // Events do not straddle slots (nic.md 5.2). An event of a broken device is cut at the end
        // of its slot, so that no load is outside the queue.
        let length = (8 << size).min(SLOT - at % SLOT);
        let last = if length == 16 { second } else { self.memory.load(at + length - 8) };
        let header = EventHeader { at, length, second, last };
        (header.return_code() != 0).then_some(header)
    }

    /// Zeroes the consumed bytes and stores the slot of the read offset, on every call.
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

/// The attributes of a queue in these bytes that does not report how full it is.
fn attributes(queue: *mut u8, queue_len: usize, flags: u64, reserved: u32) -> cxi_eq_attr {
    cxi_eq_attr {
        queue: queue.cast(),
        queue_len,
        flags,
        status_thresh_base: 0,
        status_thresh_delta: 0,
        status_thresh_count: 0,
        ec_delay: 0,
        cpu_affinity: 0,
        reserved_slots: reserved,
    }
}

#[cfg(test)]
#[path = "event_queue_tests.rs"]
mod tests;
