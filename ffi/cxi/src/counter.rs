//! Counters: what the NIC counts instead of, or beside, reporting events (nic.md 9).

use std::ptr::{self, NonNull};
use std::rc::Rc;

use cxi_sys::cxi_ct;
use cxi_sys::records::CtWriteback;

use crate::error::Error;
use crate::fence;
use crate::library::Progress;
use crate::lni::{Lni, LniHandle};
use crate::memory::Pages;
use crate::owned::{Destroy, Owned, Release, close};

const CALL: &str = "cxil_alloc_ct";

/// Largest success count, 48 bits; counting beyond wraps to 0.
pub const MAX_SUCCESSES: u64 = (1 << 48) - 1;

/// Largest failure count, 7 bits.
pub const MAX_FAILURES: u8 = 0x7f;

/// A counter: a success count and a failure count.
///
/// Commands and list entries name it by [`number`](Self::number) and say what counts
/// (`event_ct_ack` and its like); commands of a [`TriggerQueue`](crate::TriggerQueue) wait for
/// it. The counts of one without a write-back word can be waited for, but not read.
pub struct Counter {
    doorbells: NonNull<u64>,
    progress: Progress,
    handle: Rc<CounterHandle>,
}

/// The counts of a counter at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Operations, or bytes, that went well: 0 to [`MAX_SUCCESSES`].
    pub success: u64,
    /// Operations that failed: 0 to [`MAX_FAILURES`].
    pub failure: u8,
}

/// Byte offsets in the doorbell page (nic.md 9.1).
const ADD_SUCCESS: usize = 0;
const ADD_FAILURE: usize = 64;
const RESET_SUCCESS: usize = 128;
const RESET_FAILURE: usize = 192;

impl Counter {
    /// Makes a counter at zero without a write-back word, as the bandwidth tools have them.
    /// Errors: libcxi.md 8.4.
    pub fn new(lni: &Lni) -> Result<Self, Error> {
        Self::allocate(lni, None)
    }

    /// Makes a counter at zero whose counts can be read. Errors: those of `mmap` and
    /// libcxi.md 8.4.
    pub fn with_write_back(lni: &Lni) -> Result<Self, Error> {
        Self::allocate(lni, Some(Pages::anonymous(CtWriteback::SIZE)?))
    }

    fn allocate(lni: &Lni, word: Option<Pages>) -> Result<Self, Error> {
        let lni = lni.handle();
        let api = lni.library().api();
        let wb = word.as_ref().map_or(ptr::null_mut(), Pages::as_ptr).cast();
        let object = Owned::allocate(
            lni.library(),
            CALL,
            Destroy {
                call: CounterHandle::CALL,
                function: api.cxil_destroy_ct,
            },
            // SAFETY: the interface is alive, the write-back word lies in pages that outlive
            // the counter (release below), and `counter` is there to be filled.
            |counter| unsafe { (api.cxil_alloc_ct)(lni.as_ptr(), wb, counter) },
        )?;
        let ct = object.read();
        Ok(Self {
            doorbells: NonNull::new(ct.doorbell).ok_or(Error::new(CALL, libc::EFAULT))?,
            progress: lni.progress(),
            handle: Rc::new(CounterHandle {
                object,
                word,
                number: ct.ctn as u16,
                lni: Rc::clone(lni),
            }),
        })
    }

    /// The number by which commands and events name the counter, 1 to 2047.
    pub fn number(&self) -> u16 {
        self.handle.number
    }

    /// Sets both counts to zero. The NIC then writes them back.
    pub fn reset(&self) {
        self.store(RESET_SUCCESS, 0);
        self.store(RESET_FAILURE, 0);
    }

    /// Adds to the success count, of `value` the low 48 bits.
    pub fn add_success(&self, value: u64) {
        self.store(ADD_SUCCESS, value & MAX_SUCCESSES);
    }

    /// Adds to the failure count, of `value` the low 7 bits. The NIC then writes both counts
    /// back.
    pub fn add_failure(&self, value: u8) {
        self.store(ADD_FAILURE, u64::from(value & MAX_FAILURES));
    }

    /// The counts, if the NIC has written them back since the last call: after a reset, a
    /// failure, a TRIG_EVENT or SET, or when asked by
    /// [`emit_get`](crate::TriggerBatch::emit_get), but not after a success (nic.md 9.1).
    /// Never for a counter without a write-back word.
    pub fn written_back(&self) -> Option<Counts> {
        self.progress.run();
        let word = self.handle.word.as_ref()?;
        if !CtWriteback::from_bytes(word.load(0).to_le_bytes()).ct_writeback() {
            return None;
        }
        // The flag first: should the NIC write again meanwhile, its flag stays, and nothing is
        // missed. Byte 7 alone, so that its counts stay too.
        word.clear_byte(7);
        let counts = CtWriteback::from_bytes(word.load(0).to_le_bytes());
        Some(Counts {
            success: counts.ct_success(),
            failure: counts.ct_failure(),
        })
    }

    /// Destroys the counter; what waits for it is cancelled. EBUSY while queues or portals
    /// table entries keep it.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    /// One doorbell. The fence behind it keeps two stores to one doorbell apart (nic.md 9.1).
    fn store(&self, offset: usize, value: u64) {
        let to = self.doorbells.as_ptr().wrapping_byte_add(offset);
        // SAFETY: the doorbell lies in the page that is mapped as long as the counter; the store
        // is volatile, so it happens once and whole.
        unsafe { to.write_volatile(value) };
        fence::after_launch();
        self.progress.run();
    }

    pub(crate) fn handle(&self) -> &Rc<CounterHandle> {
        &self.handle
    }
}

/// The part of a counter that others keep.
pub(crate) struct CounterHandle {
    object: Owned<cxi_ct>,
    word: Option<Pages>,
    number: u16,
    lni: Rc<LniHandle>,
}

impl CounterHandle {
    pub(crate) fn lni(&self) -> &Rc<LniHandle> {
        &self.lni
    }
}

impl Release for CounterHandle {
    const CALL: &'static str = "cxil_destroy_ct";

    /// If the library refuses, the write-back word is leaked: the NIC may still write it.
    fn release(&mut self) -> Result<(), Error> {
        let word = self.word.take();
        self.object
            .release()
            .inspect_err(|_| std::mem::forget(word))
    }
}

impl Drop for CounterHandle {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            self.object.library().record_failed_release(error);
        }
    }
}
