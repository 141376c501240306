//! Counters, which count operations instead of or beside reporting their events (nic.md 9).

use std::ptr::{self, NonNull};
use std::sync::Arc;

use cxi_sys::cxi_ct;
use cxi_sys::records::CtWriteback;

use crate::error::Error;
use crate::fence;
use crate::library::ProgressHook;
use crate::library::{Destroy, Owned, ReleaseHandle, close};
use crate::lni::{Lni, LniHandle};
use crate::pages::Pages;

const CALL: &str = "cxil_alloc_ct";

/// Largest success count, 48 bits; the next success wraps it to 0.
pub const MAX_SUCCESSES: u64 = (1 << 48) - 1;

/// Largest failure count, 7 bits.
pub const MAX_FAILURES: u8 = 0x7f;

/// A counter: a success count and a failure count.
///
/// Commands and list entries name it by [`number`](Self::number) and select what it counts by flags
/// such as `event_ct_ack`. Commands of a [`TriggerQueue`](crate::TriggerQueue) wait for it. The
/// counts of a counter without a write-back word cannot be read.
pub struct Counter {
    doorbells: NonNull<u64>,
    progress: ProgressHook,
    handle: Arc<CounterHandle>,
}

// SAFETY: the doorbell page belongs to the process; a store to it is one volatile access of the
// NIC, which orders the stores of several threads.
unsafe impl Send for Counter {}

/// The counts of a counter at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Successful operations, or their bytes: 0 to [`MAX_SUCCESSES`].
    pub success: u64,
    /// Failed operations: 0 to [`MAX_FAILURES`].
    pub failure: u8,
}

/// Byte offsets in the doorbell page (nic.md 9.1).
const ADD_SUCCESS: usize = 0;
const ADD_FAILURE: usize = 64;
const RESET_SUCCESS: usize = 128;
const RESET_FAILURE: usize = 192;

impl Counter {
    /// Allocates a counter at zero without a write-back word, as the bandwidth tools use it.
    ///
    /// # Errors
    ///
    /// See libcxi.md 8.4.
    pub fn new(lni: &Lni) -> Result<Self, Error> {
        Self::allocate(lni, None)
    }

    /// Allocates a counter at zero with a write-back word, so that its counts can be read.
    ///
    /// # Errors
    ///
    /// The errors of `mmap`; see libcxi.md 8.4.
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
            Destroy { call: CounterHandle::CALL, function: api.cxil_destroy_ct },
            // SAFETY: the handle keeps the interface allocated; `release` frees the pages of the
            // write-back word only after the counter; `counter` is a valid out pointer.
            |counter| unsafe { (api.cxil_alloc_ct)(lni.as_ptr(), wb, counter) },
        )?;
        let ct = object.read();
        Ok(Self {
            doorbells: NonNull::new(ct.doorbell).ok_or(Error::new(CALL, libc::EFAULT))?,
            progress: lni.progress(),
            handle: Arc::new(CounterHandle {
                object,
                word,
                number: ct.ctn as u16,
                lni: Arc::clone(lni),
            }),
        })
    }

    /// The number by which commands and events name the counter, 1 to 2047.
    pub fn number(&self) -> u16 {
        self.handle.number
    }

    /// Sets both counts to zero; the NIC then writes them back.
    pub fn reset(&self) {
        self.store(RESET_SUCCESS, 0);
        self.store(RESET_FAILURE, 0);
    }

    /// Adds the low 48 bits of `value` to the success count.
    pub fn add_success(&self, value: u64) {
        self.store(ADD_SUCCESS, value & MAX_SUCCESSES);
    }

    /// Adds the low 7 bits of `value` to the failure count; the NIC then writes both counts back.
    pub fn add_failure(&self, value: u8) {
        self.store(ADD_FAILURE, u64::from(value & MAX_FAILURES));
    }

    /// The counts if the NIC has written them back since the last call. It does so after a reset, a
    /// failure, a TRIG_EVENT, a SET, and on request ([`emit_get`](crate::TriggerBatch::emit_get)),
    /// but not after a success (nic.md 9.1). Always `None` for a counter without a write-back word.
    pub fn written_back(&self) -> Option<Counts> {
        self.progress.run();
        let word = self.handle.word.as_ref()?;
        if !CtWriteback::from_bytes(word.load(0).to_le_bytes()).ct_writeback() {
            return None;
        }
        // The flag is cleared before the counts are loaded, so that the flag of a write in between
        // remains set. Only byte 7 is stored, so that the counts of such a write remain too.
        word.clear_byte(7);
        let counts = CtWriteback::from_bytes(word.load(0).to_le_bytes());
        Some(Counts { success: counts.ct_success(), failure: counts.ct_failure() })
    }

    /// Destroys the counter and cancels the commands that wait for it.
    ///
    /// # Errors
    ///
    /// EBUSY while queues or portals table entries keep the counter; errors of `cxil_destroy_ct`.
    pub fn close(self) -> Result<(), Error> {
        close(self.handle)
    }

    /// Stores to a doorbell. The fence after the store prevents it from being combined with the
    /// next store to the same doorbell (nic.md 9.1).
    fn store(&self, offset: usize, value: u64) {
        let to = self.doorbells.as_ptr().wrapping_byte_add(offset);
        // SAFETY: libcxi keeps the doorbell page mapped as long as the counter. The store is
        // volatile, so the compiler neither splits nor repeats it.
        unsafe { to.write_volatile(value) };
        fence::after_launch();
        self.progress.run();
    }

    pub(crate) fn handle(&self) -> &Arc<CounterHandle> {
        &self.handle
    }
}

/// The part of a counter that dependent objects share.
pub(crate) struct CounterHandle {
    object: Owned<cxi_ct>,
    word: Option<Pages>,
    number: u16,
    lni: Arc<LniHandle>,
}

impl CounterHandle {
    pub(crate) fn lni(&self) -> &Arc<LniHandle> {
        &self.lni
    }
}

impl ReleaseHandle for CounterHandle {
    const CALL: &'static str = "cxil_destroy_ct";

    /// Leaks the write-back word if the library fails, because the NIC may still write it.
    fn release(&mut self) -> Result<(), Error> {
        let word = self.word.take();
        self.object.release().inspect_err(|_| std::mem::forget(word))
    }
}

impl Drop for CounterHandle {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            self.object.library().record_failed_release(error);
        }
    }
}
