//! Buffers of the benchmarks: allocation, mapping, contents.

use cxi::sys::{CXI_MAP_PIN, CXI_MAP_READ, CXI_MAP_WRITE};
use cxi::{MemoryRegion, Pages};

use crate::advice::{self, Explain, Situation};
use crate::endpoint::Endpoint;
use crate::error::{Context, Failure};
use crate::gpu::Use;
use crate::measure::Supervisor;
use crate::plan::buffers::Buffer;

/// Events that an event queue of a latency benchmark must hold: one operation is outstanding at a
/// time, and the smallest queue, one page, holds more.
pub const EVENT_PAGE: u32 = 1;

/// Access of the NIC to a buffer, which is pinned.
const RIGHTS: u32 = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;

/// Allocates zeroed memory for `buffer` in whole pages, and maps it for the NIC to read and write.
/// The memory is on the GPU that the user names for this `use_`, or system memory.
///
/// # Errors
///
/// Not enough memory, and a call that the library or the kernel refuses.
pub fn map(endpoint: &Endpoint, use_: Use, buffer: Buffer) -> Result<MemoryRegion, Failure> {
    let length = buffer.length;
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    if let Some((gpus, index)) = endpoint.gpu_for(use_) {
        let what = format!("{length} bytes on {} GPU {index}", gpus.kind());
        let memory = gpus
            .allocate(index.into(), bytes)
            .explain(format_args!("cannot get a buffer of {what}"))?;
        // Each errno of this call has the same cause: the NIC cannot access the memory of the GPU.
        return MemoryRegion::map(endpoint.lni(), memory, RIGHTS)
            .environment(format_args!("cannot map a buffer of {what} for the NIC"))
            .map_err(|failure| failure.with_hint(advice::hint(Situation::NoPeerToPeer)));
    }
    let pages = match buffer.huge_page {
        None => Pages::anonymous(bytes)
            .explain(format_args!("cannot get a buffer of {length} bytes"))?,
        Some(size) => Pages::huge(bytes, size).explain(format_args!(
            "cannot get a buffer of {length} bytes in huge pages of {size}"
        ))?,
    };
    // No hints: the driver determines the size of the pages (libcxi.md 7.2).
    MemoryRegion::map(endpoint.lni(), pages, RIGHTS).explain(format_args!(
        "cannot map a buffer of {length} bytes for the NIC"
    ))
}

/// Returns the byte at `offset` of a numbered buffer. It is never zero, the contents of an empty
/// buffer; the period is prime, so that a byte misplaced by a power of two differs.
pub const fn numbered(offset: u64) -> u8 {
    (offset % PERIOD) as u8 + 1
}

/// Number of 64 KB blocks that are filled between two checks of the peer, some milliseconds.
const BLOCKS_PER_LOOK: usize = 256;

/// Period of [`numbered`].
pub const PERIOD: u64 = 251;

/// Numbers all bytes of `buffer`. This may take seconds; a peer that ends stops it.
///
/// # Errors
///
/// A peer that has ended, and a copy that fails.
pub fn fill_numbered(buffer: &MemoryRegion, supervisor: &dyn Supervisor) -> Result<(), Failure> {
    let block: Vec<u8> = (0..PERIOD * 256).map(numbered).collect();
    for (number, start) in (0..buffer.len()).step_by(block.len()).enumerate() {
        if number % BLOCKS_PER_LOOK == BLOCKS_PER_LOOK - 1 {
            supervisor.peer_is_there()?;
        }
        let length = block.len().min(buffer.len() - start);
        buffer
            .copy_in(start, &block[..length])
            .explain("cannot fill a buffer")?;
    }
    Ok(())
}

/// Sets all bytes of `buffer` to zero.
///
/// # Errors
///
/// A copy to a GPU that fails.
pub fn clear(buffer: &MemoryRegion) -> Result<(), Failure> {
    buffer.fill(0).explain("cannot clear a buffer")
}

/// Checks that the bytes from `start` to `start + size` of `buffer` are numbered; `whose` names the
/// buffer in the message.
///
/// # Errors
///
/// A byte that is not numbered, and a copy that fails.
pub fn is_numbered(
    buffer: &MemoryRegion,
    whose: &str,
    start: u64,
    size: u64,
) -> Result<(), Failure> {
    let mut block = [0; 1 << 16];
    for at in (start..start + size).step_by(block.len()) {
        let block = &mut block[..(start + size - at).min(1 << 16) as usize];
        buffer
            .copy_out(at as usize, block)
            .explain("cannot read a buffer")?;
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
