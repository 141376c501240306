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

/// Fails unless the first `size` bytes of `buffer` are `byte`; `whose` names it in the message.
pub(super) fn holds(
    buffer: &MemoryRegion,
    whose: &str,
    byte: u8,
    size: u64,
) -> Result<(), Failure> {
    let mut block = [0; 1 << 16];
    for start in (0..size as usize).step_by(block.len()) {
        let block = &mut block[..(size as usize - start).min(1 << 16)];
        buffer.copy_out(start, block);
        if let Some(at) = block.iter().position(|found| *found != byte) {
            return Err(Failure::nic(format!(
                "byte {} of {whose} is {:#04x}, not {byte:#04x}",
                start + at,
                block[at]
            )));
        }
    }
    Ok(())
}

/// The failure of a call; `what` completes "cannot ...".
pub(super) fn refused(what: &str) -> impl FnOnce(cxi::Error) -> Failure {
    let what = what.to_owned();
    move |error| advice::refused(&what, error)
}
