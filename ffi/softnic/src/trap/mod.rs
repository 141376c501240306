//! Doorbells that trap: stores of programs that do not call the library when they ring.
//!
//! A doorbell is a word of a page that the program may read but not write. A store to it raises
//! SIGSEGV in the thread that rings; the handler decodes the store, has the NIC handle it, and
//! continues behind the store (`fault`, `store`). So the NIC sees each store, in order, and the
//! thread that rings runs the engine.
//!
//! A page is opened for writing, and then polled by the engine thread, if a store cannot be
//! decoded, or when the program has replaced the handler. Machines other than x86-64 have no
//! decoder: there all pages are polled.

#[cfg(target_arch = "x86_64")]
mod fault;
mod range;
#[cfg(target_arch = "x86_64")]
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::mm::MprotectFlags;

use range::{ARMED, ENTRIES, address, disarm, lock_places, open, protect, take_place};

use crate::doorbell::Doorbell;
use crate::nic::SoftwareNic;
use crate::pages::{Pages, page_size};

/// The program replaced the handler: no page traps again.
static REPLACED: AtomicBool = AtomicBool::new(false);

/// A page of doorbells, which can be made to trap.
pub struct DoorbellPage {
    memory: Arc<Pages>,
    /// Its place in the range; `None` if it cannot trap.
    place: Option<usize>,
}

impl DoorbellPage {
    /// Makes a page that does not trap yet. If `traps` is false, it never will.
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub fn new(traps: bool) -> Result<Self, Errno> {
        if traps
            && cfg!(target_arch = "x86_64")
            && let Some(place) = take_place()
        {
            let base = address(place);
            // SAFETY: the place is in the range of `range`, and nothing else uses it until `drop`
            // returns it, after which the NIC has no object that accesses the page.
            let memory = unsafe { Pages::lent(base, page_size()) };
            return Ok(Self { memory: Arc::new(memory), place: Some(place) });
        }
        Ok(Self { memory: Arc::new(Pages::anonymous(page_size())?), place: None })
    }

    pub fn memory(&self) -> &Arc<Pages> {
        &self.memory
    }

    /// Makes stores to the page ring this doorbell of the NIC, which must outlive the page. Without
    /// success the page remains writable, and the NIC polls it.
    pub fn arm(&self, nic: &Arc<SoftwareNic>, doorbell: Doorbell) {
        let Some(place) = self.place.filter(|_| install_handler()) else {
            nic.poll_doorbells();
            return;
        };
        let entry = &ENTRIES[place];
        entry.doorbell.store(doorbell.to_word(), Ordering::Relaxed);
        entry.nic.store(Arc::as_ptr(nic).cast_mut(), Ordering::Release);
        ARMED.fetch_add(1, Ordering::Relaxed);
        let is_protected = protect(place, MprotectFlags::READ).is_ok();
        // Another thread may have replaced the handler, and `check_handler` have opened the page,
        // before it was protected.
        if !is_protected || entry.nic.load(Ordering::Acquire).is_null() || !has_handler() {
            open(place);
        }
    }
}

impl Drop for DoorbellPage {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            disarm(place);
            ENTRIES[place].open.store(false, Ordering::Release);
            // A later store is an error of the program, as to unmapped memory.
            let _ = protect(place, MprotectFlags::empty());
            lock_places().returned.push(place);
        }
    }
}

/// Opens all pages if the program has replaced the handler.
pub fn check_handler() {
    if ARMED.load(Ordering::Relaxed) == 0 || has_handler() {
        return;
    }
    REPLACED.store(true, Ordering::Relaxed);
    for (place, entry) in ENTRIES.iter().enumerate() {
        if !entry.nic.load(Ordering::Acquire).is_null() {
            open(place);
        }
    }
}

/// Has SIGSEGV handled; false if the program prevents that.
fn install_handler() -> bool {
    if REPLACED.load(Ordering::Relaxed) {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    fault::install();
    has_handler()
}

fn has_handler() -> bool {
    #[cfg(target_arch = "x86_64")]
    return fault::is_installed();
    #[cfg(not(target_arch = "x86_64"))]
    false
}
