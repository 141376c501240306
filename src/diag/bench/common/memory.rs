//! Buffers of the benchmarks: allocation, mapping, clearing.

use cxi::sys::{CXI_MAP_PIN, CXI_MAP_READ, CXI_MAP_WRITE};
use cxi::{MemoryRegion, Pages};

use crate::endpoint::Endpoint;
use facts::advice::{Advise, Situation};
use facts::error::{Context, Failure};
use node::explain::Explain;
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;

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
        let region = MemoryRegion::map(endpoint.lni(), memory, RIGHTS)
            .environment(format_args!("cannot map a buffer of {what} for the NIC"))
            .map_err(|failure| failure.explained(Situation::NoPeerToPeer))?;
        endpoint.note_gpu_map(region.gpu_map());
        return Ok(region);
    }
    let pages = match buffer.huge_page {
        None => Pages::anonymous(bytes)
            .explain(format_args!("cannot get a buffer of {length} bytes"))?,
        Some(size) => Pages::huge(bytes, size).explain(format_args!(
            "cannot get a buffer of {length} bytes in huge pages of {size}"
        ))?,
    };
    // No hints: the driver determines the size of the pages (libcxi.md 7.2).
    MemoryRegion::map(endpoint.lni(), pages, RIGHTS)
        .explain(format_args!("cannot map a buffer of {length} bytes for the NIC"))
}

/// Sets all bytes of `buffer` to zero, so that the check after the next size notices missing
/// writes. Where the numbers of each size differ (`--verify`), old bytes are noticed in any case.
///
/// # Errors
///
/// A copy to a GPU that fails.
pub fn clear(buffer: &MemoryRegion, run: &RunOptions) -> Result<(), Failure> {
    if run.extensions.verify {
        return Ok(());
    }
    buffer.fill(0).explain("cannot clear a buffer")
}
