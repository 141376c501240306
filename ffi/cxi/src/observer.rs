//! The states of the queues and portals of an interface, for messages after a failure.
//!
//! Owners register their objects. An observer may belong to another thread: it reads an object
//! under a lock that the owner takes before it releases the object.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cxi_sys::records::{CqStatus, EqStatus};
use cxi_sys::{C_CQ_FIRST_WR_PTR, C_RC_OK, cxi_pte_status, cxil_pte};

use crate::library::Library;

/// The kinds of command queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueKind {
    /// Commands of an initiator.
    Transmit,
    /// Transmit commands that wait for counters.
    Trigger,
    /// Commands of a target.
    Target,
}

/// The state of an object, as the NIC shows it.
#[derive(Clone, Copy, Debug)]
pub enum ObjectState {
    /// A command queue.
    CommandQueue {
        /// Its kind.
        kind: QueueKind,
        /// Its status (nic.md 2.2).
        status: CqStatus,
        /// The slot after the last command that the NIC was told about.
        written: u32,
    },
    /// An event queue.
    EventQueue {
        /// Its number.
        number: u16,
        /// Whether the NIC had no room for an event (nic.md 5.6).
        has_dropped: bool,
    },
    /// A portals table entry (nic.md 8.7).
    Portal {
        /// Its number.
        number: u16,
        /// Its state, `C_PTLTE_*`.
        state: u8,
        /// Messages that were dropped while it was disabled.
        dropped: u32,
    },
}

impl ObjectState {
    /// Whether the NIC has refused a command of the queue. Software sets the return code OK; it is
    /// not known whether the NIC writes OK or nothing (0) with its status.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::CommandQueue { status, .. }
            if ![0, C_RC_OK].contains(&u32::from(status.return_code())))
    }
}

/// Reads the states of all objects of an interface. For any thread.
#[derive(Clone, Default)]
pub struct Observer {
    objects: Arc<Mutex<Vec<Arc<Object>>>>,
}

impl Observer {
    /// The states of the command queues, event queues and portals table entries, in the order of
    /// their allocation. Asks the driver for the states of the entries.
    pub fn states(&self) -> Vec<ObjectState> {
        let objects = locked(&self.objects).clone();
        objects.iter().filter_map(|object| object.state()).collect()
    }

    /// The state of the first command queue of which the NIC has refused a command. Calls no
    /// driver.
    pub fn refusal(&self) -> Option<ObjectState> {
        let objects = locked(&self.objects).clone();
        objects.iter().find_map(|object| object.refusal())
    }

    /// Registers an object.
    pub(crate) fn register(&self, source: StateLocation) -> Registration {
        let object = Arc::new(Object {
            written: AtomicU32::new(C_CQ_FIRST_WR_PTR),
            source: Mutex::new(source),
        });
        locked(&self.objects).push(Arc::clone(&object));
        Registration { object, observer: self.clone() }
    }
}

/// An object. Threads store to the objects of their own queues: each has its cache lines.
#[repr(align(128))]
struct Object {
    /// The slot after the last command; of command queues only.
    written: AtomicU32,
    source: Mutex<StateLocation>,
}

/// Where the state of an object is.
pub(crate) enum StateLocation {
    /// The status block of a command queue.
    Commands { kind: QueueKind, status: NonNull<u64> },
    /// The status slot of an event queue.
    Events { number: u16, status: NonNull<u64> },
    /// A portals table entry.
    Portal { number: u16, entry: NonNull<cxil_pte>, library: Library },
    /// The object was released.
    Released,
}

// SAFETY: the pointers are read under the lock of the object, whose owner takes it before the
// memory or the entry is released; calls of the library are serialized.
unsafe impl Send for StateLocation {}

impl Object {
    fn state(&self) -> Option<ObjectState> {
        match &*locked(&self.source) {
            StateLocation::Commands { kind, status } => Some(self.command_state(*kind, *status)),
            StateLocation::Events { number, status } => Some(event_state(*number, *status)),
            StateLocation::Portal { number, entry, library } => {
                portal_state(*number, *entry, library)
            }
            StateLocation::Released => None,
        }
    }

    fn refusal(&self) -> Option<ObjectState> {
        let StateLocation::Commands { kind, status } = *locked(&self.source) else {
            return None;
        };
        Some(self.command_state(kind, status)).filter(ObjectState::is_refusal)
    }

    fn command_state(&self, kind: QueueKind, status: NonNull<u64>) -> ObjectState {
        // SAFETY: the caller holds the lock, so the owner has not released the queue; its command
        // memory begins with the status block, which the CPU accesses only through atomics.
        let word = unsafe { AtomicU64::from_ptr(status.as_ptr()) }.load(Ordering::Acquire);
        ObjectState::CommandQueue {
            kind,
            status: CqStatus::from_bytes(word.to_le_bytes()),
            written: self.written.load(Ordering::Relaxed),
        }
    }
}

fn event_state(number: u16, status: NonNull<u64>) -> ObjectState {
    // The flag and the timestamps beside it are not compared: a flag that is set stays set.
    let mut bytes = [0; 64];
    for (index, place) in bytes.chunks_exact_mut(8).enumerate() {
        // SAFETY: the caller holds the lock, so the owner has not released the memory of the queue;
        // it begins with the status slot of 64 bytes, which the CPU accesses only through atomics.
        let word = unsafe { AtomicU64::from_ptr(status.as_ptr().wrapping_add(index)) };
        place.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
    }
    ObjectState::EventQueue {
        number,
        has_dropped: EqStatus::from_bytes(bytes).unackd_dropped_event(),
    }
}

/// `None` if the library lacks the call, or the driver refuses it.
fn portal_state(number: u16, entry: NonNull<cxil_pte>, library: &Library) -> Option<ObjectState> {
    let mut status = cxi_pte_status {
        drop_count: 0,
        state: 0,
        les_reserved: 0,
        les_allocated: 0,
        les_max: 0,
        ule_offsets: ptr::null_mut(),
        ule_count: 0,
    };
    let call = library.api().cxil_pte_status?;
    let calling = library.serialize();
    // SAFETY: the caller holds the lock, so the owner has not released the entry; `status` is a
    // valid out pointer without room for headers.
    let result = unsafe { call(entry.as_ptr(), &raw mut status) };
    drop(calling);
    (result == 0).then_some(ObjectState::Portal {
        number,
        state: status.state,
        dropped: status.drop_count,
    })
}

/// The entry of an object among the objects of its interface. The owner of the object holds it
/// before the object, and ends it before a release.
pub(crate) struct Registration {
    object: Arc<Object>,
    observer: Observer,
}

impl Registration {
    /// Notes the slot after the last command that the NIC was told about.
    #[inline]
    pub(crate) fn set_written(&self, slot: u32) {
        self.object.written.store(slot, Ordering::Relaxed);
    }

    /// Ends the access of observers to the object.
    pub(crate) fn end(&self) {
        *locked(&self.object.source) = StateLocation::Released;
        locked(&self.observer.objects).retain(|object| !Arc::ptr_eq(object, &self.object));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
