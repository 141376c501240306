//! Counting events: a success and a failure count, doorbells and a write-back word (nic.md 9.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::C_RC_OK;
use cxi_sys::records::{CtWriteback, TargetCmd};

use super::return_codes::ReturnCode;
use crate::pages::Pages;

/// The largest success count: 48 bits. Larger counts wrap (nic.md 15, question 16).
pub const SUCCESS_MASK: u64 = (1 << 48) - 1;

/// The largest failure count: 7 bits. The count saturates (nic.md 15, question 16).
pub const MAX_FAILURES: u8 = 0x7f;

/// Byte offsets of the doorbells.
const ADD_SUCCESS: usize = 0;
const ADD_FAILURE: usize = 64;
const RESET_SUCCESS: usize = 128;
const RESET_FAILURE: usize = 192;

/// The value of a doorbell that was not written: wider than any count.
const UNTOUCHED: u64 = u64::MAX;

/// A change of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountChange {
    Add {
        success: u64,
        failure: u8,
    },
    /// Overwrites the counts that are given.
    Set {
        success: Option<u64>,
        failure: Option<u8>,
    },
}

/// Which completions of an operation are counted, and how (nic.md 3.3, 9.2).
///
/// In one word, so that a copy does not collect fields which were just stored one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counting(u32);

const SEND: u32 = 1 << 16;
const COMPLETION: u32 = 1 << 17;
const BYTES: u32 = 1 << 18;

impl Counting {
    /// The counting of a list entry: operations at the target, if `is_counted`.
    #[inline]
    pub fn from_entry(entry: &TargetCmd, is_counted: bool) -> Self {
        Self::new(entry.ct(), false, is_counted, entry.event_ct_bytes())
    }

    /// Makes the description for counter `ct`; 0 is none. `send` counts when the data of an
    /// operation has been sent, `completion` its ACK or REPLY; `bytes` counts bytes, not
    /// operations.
    #[inline]
    pub fn new(ct: u16, send: bool, completion: bool, bytes: bool) -> Self {
        let flag = |set, flag| if set { flag } else { 0 };
        Self(u32::from(ct) | flag(send, SEND) | flag(completion, COMPLETION) | flag(bytes, BYTES))
    }

    /// The counter; 0 is none.
    #[inline]
    pub fn ct(self) -> u16 {
        self.0 as u16
    }

    /// Whether an operation counts when its data has been sent.
    #[inline]
    pub fn send(self) -> bool {
        self.0 & SEND != 0
    }

    /// Whether the ACK or REPLY of an operation counts.
    #[inline]
    pub fn completion(self) -> bool {
        self.0 & COMPLETION != 0
    }

    /// Whether bytes are counted, not operations.
    #[inline]
    pub fn bytes(self) -> bool {
        self.0 & BYTES != 0
    }

    /// Whether anything is counted.
    #[inline]
    pub fn is_used(self) -> bool {
        self.ct() != 0 && (self.send() || self.completion())
    }
}

/// The change by a completed operation of `length` bytes: one success or its bytes, or one failure.
#[inline]
pub fn amount(bytes: bool, length: u32, code: ReturnCode) -> CountChange {
    let (success, failure) = match (code, bytes) {
        (C_RC_OK, true) => (length.into(), 0),
        (C_RC_OK, false) => (1, 0),
        _ => (0, 1),
    };
    CountChange::Add { success, failure }
}

/// The change by a store of `value` at byte `offset` of the doorbells; `None` if there is no
/// doorbell.
#[inline]
pub fn change(offset: usize, value: u64) -> Option<CountChange> {
    let set = |success, failure| CountChange::Set { success, failure };
    let add = |success, failure| CountChange::Add { success, failure };
    match offset {
        ADD_SUCCESS => Some(add(value & SUCCESS_MASK, 0)),
        ADD_FAILURE => Some(add(0, value as u8 & MAX_FAILURES)),
        RESET_SUCCESS => Some(set(Some(0), None)),
        RESET_FAILURE => Some(set(None, Some(0))),
        _ => None,
    }
}

/// A counter.
pub struct CountingEvent {
    pub lni: usize,
    pub success: u64,
    pub failure: u8,
    /// Address of the write-back word, if there is one.
    write_back: Option<usize>,
    doorbells: Arc<Pages>,
}

impl CountingEvent {
    /// Makes a counter at zero, written through `doorbells`.
    pub fn new(lni: usize, doorbells: Arc<Pages>) -> Self {
        for offset in [ADD_SUCCESS, ADD_FAILURE, RESET_SUCCESS, RESET_FAILURE] {
            doorbells.word(offset).store(UNTOUCHED, Ordering::Relaxed);
        }
        Self { lni, success: 0, failure: 0, write_back: None, doorbells }
    }

    /// Sets the address of the write-back word; `None` for no write-back.
    ///
    /// # Safety
    /// The address leads to 8 aligned bytes that stay mapped and writable until the address is
    /// replaced or the counter is dropped.
    pub unsafe fn set_write_back(&mut self, address: Option<usize>) {
        self.write_back = address;
    }

    /// The changes that software stored to the doorbells since the last call, in this order: resets
    /// before additions, as programs set counters up; successes before failures, which are written
    /// back. Of two stores to one doorbell between two calls only the second has an effect;
    /// hardware handles both.
    #[inline]
    pub fn take_doorbells(&self) -> [Option<CountChange>; 4] {
        let take = |offset| {
            let word = self.doorbells.word(offset);
            if word.load(Ordering::Acquire) == UNTOUCHED {
                return None;
            }
            change(offset, word.swap(UNTOUCHED, Ordering::AcqRel))
        };
        // Read in reverse order: a program that writes doorbells in the above order meanwhile is
        // never seen to have written a later one without the earlier ones.
        let add_failure = take(ADD_FAILURE);
        let add_success = take(ADD_SUCCESS);
        let reset_failure = take(RESET_FAILURE);
        let reset_success = take(RESET_SUCCESS);
        [reset_success, reset_failure, add_success, add_failure]
    }

    /// Changes the counts. Every change except an addition to the successes is written back (nic.md
    /// 9.1; 15, question 17).
    #[inline]
    pub fn apply(&mut self, change: CountChange) {
        match change {
            CountChange::Add { success, failure } => {
                self.success = self.success.wrapping_add(success) & SUCCESS_MASK;
                self.failure = self.failure.saturating_add(failure).min(MAX_FAILURES);
                if failure == 0 {
                    return;
                }
            }
            CountChange::Set { success, failure } => {
                self.success = success.unwrap_or(self.success);
                self.failure = failure.unwrap_or(self.failure);
            }
        }
        self.write_back();
    }

    /// Writes the counts to the write-back word, in a single store.
    pub fn write_back(&self) {
        let Some(address) = self.write_back else {
            return;
        };
        let mut counts = CtWriteback::new();
        counts.set_ct_success(self.success).set_ct_failure(self.failure).set_ct_writeback(true);
        let word = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the caller of `set_write_back` keeps this aligned word mapped and writable.
        let word = unsafe { AtomicU64::from_ptr(word) };
        word.store(u64::from_le_bytes(*counts.bytes()), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::page_size;

    fn counter() -> (CountingEvent, Arc<Pages>) {
        let page = Arc::new(Pages::anonymous(page_size()).unwrap());
        (CountingEvent::new(1, page.clone()), page)
    }

    fn add(success: u64, failure: u8) -> CountChange {
        CountChange::Add { success, failure }
    }

    #[test]
    fn wraps_successes_and_saturates_failures() {
        let (mut counter, _) = counter();
        counter.apply(add(SUCCESS_MASK, 126));
        counter.apply(add(3, 1));
        assert_eq!((counter.success, counter.failure), (2, 127));
        counter.apply(add(0, 1));
        assert_eq!(counter.failure, 127);
        counter.apply(add(0, 127));
        assert_eq!(counter.failure, 127);
    }

    #[test]
    fn takes_each_doorbell_once() {
        let (counter, page) = counter();
        assert_eq!(counter.take_doorbells(), [None; 4]);
        page.word(0).store(1 << 48 | 5, Ordering::Release);
        page.word(64).store(0x80 | 3, Ordering::Release);
        page.word(128).store(0, Ordering::Release);
        page.word(192).store(7, Ordering::Release);
        let set = |success, failure| Some(CountChange::Set { success, failure });
        let changes = [set(Some(0), None), set(None, Some(0)), Some(add(5, 0)), Some(add(0, 3))];
        assert_eq!(counter.take_doorbells(), changes);
        assert_eq!(counter.take_doorbells(), [None; 4]);
    }

    #[test]
    fn writes_back_failures_and_assignments() {
        let (mut counter, page) = counter();
        let address = page.at(1024, 8).expose_provenance();
        // SAFETY: the page lives as long as the counter, and nothing else uses these bytes.
        unsafe { counter.set_write_back(Some(address)) };
        let mut after = |change| {
            page.word(1024).store(0, Ordering::Relaxed);
            counter.apply(change);
            page.word(1024).load(Ordering::Relaxed)
        };
        const FLAG: u64 = 1 << 63;
        assert_eq!(after(add(7, 0)), 0);
        assert_eq!(after(add(1, 2)), FLAG | 2 << 48 | 8);
        let set = |success, failure| CountChange::Set { success, failure };
        assert_eq!(after(set(Some(0), None)), FLAG | 2 << 48);
        assert_eq!(after(set(None, Some(1))), FLAG | 1 << 48);
        assert_eq!(
            after(set(Some(SUCCESS_MASK), Some(MAX_FAILURES))),
            FLAG | 127 << 48 | SUCCESS_MASK
        );
    }

    #[test]
    fn operation_adds_success_or_bytes_or_failure() {
        assert_eq!(amount(false, 4096, C_RC_OK), add(1, 0));
        assert_eq!(amount(true, 4096, C_RC_OK), add(4096, 0));
        assert_eq!(amount(true, 0, C_RC_OK), add(0, 0));
        for bytes in [false, true] {
            assert_eq!(amount(bytes, 4096, cxi_sys::C_RC_NO_SPACE), add(0, 1));
        }
    }
}
