//! Buffers of the benchmarks, and how a refused allocation is told.

use cxi::sys::{CXI_MAP_PIN, CXI_MAP_READ, CXI_MAP_WRITE};
use cxi::{Lni, MemoryRegion, Pages};

use crate::advice;
use crate::error::Failure;

/// Events that an event queue of a latency benchmark must hold: one operation is outstanding at a
/// time, and the smallest queue, one page, holds more.
pub(super) const EVENT_PAGE: u32 = 1;

/// `length` bytes of zeroed system memory, rounded up to pages, pinned for the NIC to read and
/// write.
pub(super) fn map(lni: &Lni, length: u64) -> Result<MemoryRegion, Failure> {
    let pages = usize::try_from(length)
        .map(Pages::anonymous)
        .unwrap_or_else(|_| Pages::anonymous(usize::MAX));
    let pages = pages.map_err(refused(&format!("get a buffer of {length} bytes")))?;
    MemoryRegion::map(lni, pages, CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE).map_err(refused(
        &format!("map a buffer of {length} bytes for the NIC"),
    ))
}

/// The failure of a call; `what` completes "cannot ...".
pub(super) fn refused(what: &str) -> impl FnOnce(cxi::Error) -> Failure {
    let what = what.to_owned();
    move |error| advice::refused(&what, error)
}
