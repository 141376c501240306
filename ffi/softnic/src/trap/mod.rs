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

mod choice;
#[cfg(target_arch = "x86_64")]
mod fault;
#[cfg(target_arch = "x86_64")]
mod store;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

pub use choice::Trapped;

use crate::nic::Nic;
use crate::pages::{Pages, page_size};

/// What the doorbells of a page ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// The counter with this number.
    Counter(usize),
    /// The transmit queue with this number.
    Transmit(usize),
    /// The target queue with this number.
    Target(usize),
}

/// The most pages that trap at the same time; further pages are polled.
const PAGES: usize = 8192;

/// Where the pages are: one range of addresses, so that the handler finds a page by its address
/// without locks. 0 before the first page.
static RANGE: AtomicUsize = AtomicUsize::new(0);

/// The pages of the range.
static ENTRIES: [Entry; PAGES] = [const { Entry::new() }; PAGES];

/// Which places in the range are free.
static PLACES: Mutex<Places> = Mutex::new(Places {
    returned: Vec::new(),
    used: 0,
});

struct Places {
    /// Places that were in use.
    returned: Vec<usize>,
    /// Number of places that were ever in use, from the start of the range.
    used: usize,
}

/// Number of pages that trap.
static ARMED: AtomicUsize = AtomicUsize::new(0);

/// The program replaced the handler: no page traps again.
static REPLACED: AtomicBool = AtomicBool::new(false);

struct Entry {
    /// Null while the page does not trap.
    nic: AtomicPtr<Nic>,
    doorbell: AtomicU64,
    /// The page was opened after it had trapped.
    open: AtomicBool,
}

/// Whether stores to a page trap.
enum State {
    /// The page belongs to no object.
    Unused,
    Armed,
    Open,
}

impl Entry {
    const fn new() -> Self {
        Self {
            nic: AtomicPtr::new(null_mut()),
            doorbell: AtomicU64::new(0),
            open: AtomicBool::new(false),
        }
    }
}

impl Doorbell {
    fn to_word(self) -> u64 {
        let (kind, number) = match self {
            Self::Counter(number) => (0, number),
            Self::Transmit(number) => (1, number),
            Self::Target(number) => (2, number),
        };
        kind << 32 | number as u64
    }

    fn from_word(word: u64) -> Self {
        let number = word as u32 as usize;
        match word >> 32 {
            0 => Self::Counter(number),
            1 => Self::Transmit(number),
            _ => Self::Target(number),
        }
    }
}

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
            return Ok(Self {
                memory: Arc::new(memory),
                place: Some(place),
            });
        }
        Ok(Self {
            memory: Arc::new(Pages::anonymous(page_size())?),
            place: None,
        })
    }

    /// Returns the memory of the page.
    pub fn memory(&self) -> &Arc<Pages> {
        &self.memory
    }

    /// Makes stores to the page ring this doorbell of the NIC, which must outlive the page. Without
    /// success the page remains writable, and the NIC polls it.
    pub fn arm(&self, nic: &Arc<Nic>, doorbell: Doorbell) {
        let Some(place) = self.place.filter(|_| install_handler()) else {
            nic.poll_doorbells();
            return;
        };
        let entry = &ENTRIES[place];
        entry.doorbell.store(doorbell.to_word(), Ordering::Relaxed);
        entry
            .nic
            .store(Arc::as_ptr(nic).cast_mut(), Ordering::Release);
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

/// Makes a page writable, so that stores to it are polled. False if the kernel refuses: then the
/// page traps as before.
fn open(place: usize) -> bool {
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
fn disarm(place: usize) -> *mut Nic {
    let nic = ENTRIES[place].nic.swap(null_mut(), Ordering::AcqRel);
    if !nic.is_null() {
        ARMED.fetch_sub(1, Ordering::Relaxed);
    }
    nic
}

fn lock_places() -> MutexGuard<'static, Places> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a free place, whose page is zero and writable; `None` if there is none.
fn take_place() -> Option<usize> {
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

/// Returns the start of the range, which is mapped at the first call; `None` without success.
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

fn address(place: usize) -> *mut u8 {
    let start = RANGE.load(Ordering::Acquire);
    std::ptr::with_exposed_provenance_mut(start + place * page_size())
}

fn protect(place: usize, rights: MprotectFlags) -> Result<(), Errno> {
    // SAFETY: the page is in the range, whose places belong to one `DoorbellPage` each.
    unsafe { rustix::mm::mprotect(address(place).cast(), page_size(), rights) }
}

/// Returns the place of an address in the range.
fn place_of(address: usize) -> Option<usize> {
    let start = RANGE.load(Ordering::Acquire);
    let place = address.checked_sub(start)? / page_size();
    (start != 0 && place < PAGES).then_some(place)
}

/// Returns the state of the page at a place.
fn state(place: usize) -> State {
    let entry = &ENTRIES[place];
    if !entry.nic.load(Ordering::Acquire).is_null() {
        State::Armed
    } else if entry.open.load(Ordering::Acquire) {
        State::Open
    } else {
        State::Unused
    }
}

/// Has the NIC handle a store to a page that traps; false if it cannot. `value` is the word that was
/// stored, if it is known.
fn ring(place: usize, offset: usize, value: Option<u64>) -> bool {
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
