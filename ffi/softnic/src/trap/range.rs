//! The pages that can trap: one range of addresses, and what each page rings.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::doorbell::Doorbell;
use crate::nic::SoftwareNic;
use crate::pages::page_size;

/// The most pages that trap at the same time; further pages are polled.
const PAGES: usize = 8192;

/// Where the pages are: one range of addresses, so that the handler finds a page by its address
/// without locks. 0 before the first page.
static RANGE: AtomicUsize = AtomicUsize::new(0);

/// The pages of the range.
pub static ENTRIES: [TrappedPage; PAGES] = [const { TrappedPage::new() }; PAGES];

/// Which places in the range are free.
static PLACES: Mutex<FreePages> = Mutex::new(FreePages { returned: Vec::new(), used: 0 });

pub struct FreePages {
    /// Places that were in use.
    pub returned: Vec<usize>,
    /// Number of places that were ever in use, from the start of the range.
    used: usize,
}

/// Number of pages that trap.
pub static ARMED: AtomicUsize = AtomicUsize::new(0);

pub struct TrappedPage {
    /// Null while the page does not trap.
    pub nic: AtomicPtr<SoftwareNic>,
    pub doorbell: AtomicU64,
    /// The page was opened after it had trapped.
    pub open: AtomicBool,
}

/// Whether stores to a page trap.
pub enum TrapState {
    /// The page belongs to no object.
    Unused,
    Armed,
    Open,
}

impl TrappedPage {
    const fn new() -> Self {
        Self {
            nic: AtomicPtr::new(null_mut()),
            doorbell: AtomicU64::new(0),
            open: AtomicBool::new(false),
        }
    }
}

/// Makes a page writable, so that stores to it are polled. False if the kernel refuses: then the
/// page traps as before.
pub fn open(place: usize) -> bool {
    if protect(place, MprotectFlags::READ | MprotectFlags::WRITE).is_err() {
        return false;
    }
    ENTRIES[place].open.store(true, Ordering::Release);
    let nic = disarm(place);
    // SAFETY: the handle of the object owns the NIC and this page, and is not destroyed meanwhile.
    if let Some(nic) = unsafe { nic.as_ref() } {
        nic.poll_doorbells();
    }
    true
}

/// Makes a page one that does not trap. Returns its NIC, or null if it did not trap.
pub fn disarm(place: usize) -> *mut SoftwareNic {
    let nic = ENTRIES[place].nic.swap(null_mut(), Ordering::AcqRel);
    if !nic.is_null() {
        ARMED.fetch_sub(1, Ordering::Relaxed);
    }
    nic
}

pub fn lock_places() -> MutexGuard<'static, FreePages> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A free place, whose page is zero and writable; `None` if there is none.
pub fn take_place() -> Option<usize> {
    let mut places = lock_places();
    range()?;
    let place = places.returned.pop().or_else(|| {
        let next = places.used;
        places.used = PAGES.min(next + 1);
        (next < PAGES).then_some(next)
    })?;
    if protect(place, MprotectFlags::READ | MprotectFlags::WRITE).is_err() {
        places.returned.push(place);
        return None;
    }
    // SAFETY: the page is in the range, writable, and unused.
    unsafe { address(place).write_bytes(0, page_size()) };
    Some(place)
}

/// The start of the range, which is mapped at the first call; `None` without success.
fn range() -> Option<usize> {
    let start = RANGE.load(Ordering::Relaxed);
    if start != 0 {
        return Some(start);
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let len = PAGES * page_size();
    // SAFETY: without a requested address the kernel selects a range that nothing else uses.
    let base =
        unsafe { rustix::mm::mmap_anonymous(null_mut(), len, ProtFlags::empty(), flags) }.ok()?;
    let start = base.expose_provenance();
    RANGE.store(start, Ordering::Release);
    Some(start)
}

pub fn address(place: usize) -> *mut u8 {
    let start = RANGE.load(Ordering::Acquire);
    std::ptr::with_exposed_provenance_mut(start + place * page_size())
}

pub fn protect(place: usize, rights: MprotectFlags) -> Result<(), Errno> {
    // SAFETY: the page is in the range, whose places belong to one `DoorbellPage` each.
    unsafe { rustix::mm::mprotect(address(place).cast(), page_size(), rights) }
}

pub fn place_of(address: usize) -> Option<usize> {
    let start = RANGE.load(Ordering::Acquire);
    let place = address.checked_sub(start)? / page_size();
    (start != 0 && place < PAGES).then_some(place)
}

pub fn state(place: usize) -> TrapState {
    let entry = &ENTRIES[place];
    if !entry.nic.load(Ordering::Acquire).is_null() {
        TrapState::Armed
    } else if entry.open.load(Ordering::Acquire) {
        TrapState::Open
    } else {
        TrapState::Unused
    }
}

/// Has the NIC handle a store to a page that traps; false if it cannot. `value` is the word that
/// was stored, if it is known.
pub fn ring(place: usize, offset: usize, value: Option<u64>) -> bool {
    let entry = &ENTRIES[place];
    let nic = entry.nic.load(Ordering::Acquire);
    // SAFETY: the handle of the object owns the NIC and this page, and programs destroy no object
    // while they ring it.
    let Some(nic) = (unsafe { nic.as_ref() }) else {
        return false;
    };
    let doorbell = Doorbell::from_word(entry.doorbell.load(Ordering::Relaxed));
    // A panic must not cross the frames of the interrupted code.
    let rung = catch_unwind(AssertUnwindSafe(|| nic.ring(doorbell, offset, value)));
    matches!(rung, Ok(Ok(())))
}
