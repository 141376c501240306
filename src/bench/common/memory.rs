//! Buffers of the benchmarks, and how a refused allocation is told.

use cxi::sys::{CXI_MAP_PIN, CXI_MAP_READ, CXI_MAP_WRITE};
use cxi::{Lni, MemoryRegion, Pages};

use crate::advice;
use crate::error::Failure;
use crate::run::Supervisor;

/// Events that an event queue of a latency benchmark must hold: one operation is outstanding at a
/// time, and the smallest queue, one page, holds more.
pub const EVENT_PAGE: u32 = 1;

/// `length` bytes of zeroed system memory, rounded up to pages, pinned for the NIC to read and
/// write.
pub fn map(lni: &Lni, length: u64) -> Result<MemoryRegion, Failure> {
    let pages = usize::try_from(length)
        .map(Pages::anonymous)
        .unwrap_or_else(|_| Pages::anonymous(usize::MAX));
    let pages = pages.map_err(refused(&format!("get a buffer of {length} bytes")))?;
    MemoryRegion::map(lni, pages, CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE).map_err(refused(
        &format!("map a buffer of {length} bytes for the NIC"),
    ))
}

/// The failure of a call; `what` completes "cannot ...".
pub fn refused(what: &str) -> impl FnOnce(cxi::Error) -> Failure {
    let what = what.to_owned();
    move |error| advice::refused(&what, error)
}

/// Byte at `offset` of a buffer whose bytes tell where they belong. Never zero, which is what a
/// buffer holds before anything arrives; the period is prime, so that no power of two hides a
/// misplaced one.
pub const fn numbered(offset: u64) -> u8 {
    (offset % PERIOD) as u8 + 1
}

/// Blocks of 64 KB filled between two looks at the peer, for some milliseconds.
const BLOCKS_PER_LOOK: usize = 256;

/// Period of [`numbered`].
pub const PERIOD: u64 = 251;

/// Numbers all bytes of `buffer`, which may take seconds: as long as the peer is there.
pub fn fill_numbered(buffer: &MemoryRegion, supervisor: &dyn Supervisor) -> Result<(), Failure> {
    let block: Vec<u8> = (0..PERIOD * 256).map(numbered).collect();
    for (number, start) in (0..buffer.len()).step_by(block.len()).enumerate() {
        if number % BLOCKS_PER_LOOK == BLOCKS_PER_LOOK - 1 {
            supervisor.peer_is_there()?;
        }
        let length = block.len().min(buffer.len() - start);
        buffer.copy_in(start, &block[..length]);
    }
    Ok(())
}

/// Fails unless the bytes from `start` to `start + size` of `buffer` are numbered; `whose` names it.
pub fn is_numbered(
    buffer: &MemoryRegion,
    whose: &str,
    start: u64,
    size: u64,
) -> Result<(), Failure> {
    let mut block = [0; 1 << 16];
    for at in (start..start + size).step_by(block.len()) {
        let block = &mut block[..(start + size - at).min(1 << 16) as usize];
        buffer.copy_out(at as usize, block);
        for (found, offset) in block.iter().zip(at..) {
            let expected = numbered(offset);
            if *found != expected {
                return Err(Failure::nic(format!(
                    "byte {offset} of {whose} is {found:#04x}, not {expected:#04x}"
                )));
            }
        }
    }
    Ok(())
}
