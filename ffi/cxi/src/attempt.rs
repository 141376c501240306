//! Single calls with any arguments, also ones that libcxi refuses: for checks of its errors.
//!
//! Each function makes one call that allocates, releases what the call has allocated, and returns
//! the error of the first call that failed.

use std::ptr;

use cxi_sys::*;

use crate::error::Error;
use crate::event_queue::EventQueue;
use crate::library::{Destroy, Owned};
use crate::lni::Lni;
use crate::pages::{Pages, page_size};
use crate::queue::ALLOCATE;

/// Allocates a command queue with these options. Returns its slots of 64 bytes.
///
/// # Errors
///
/// See libcxi.md 8.2.
pub fn command_queue(
    lni: &Lni,
    failures: Option<&EventQueue>,
    options: &cxi_cq_alloc_opts,
) -> Result<u32, Error> {
    let lni = lni.handle();
    let api = lni.library().api();
    let events = failures.map_or(ptr::null_mut(), |queue| queue.handle().as_ptr());
    let destroy = Destroy { call: "cxil_destroy_cmdq", function: api.cxil_destroy_cmdq };
    // SAFETY: the borrowed owners keep the interface and the event queue allocated; `options`
    // outlives the call; `queue` is a valid out pointer.
    let mut queue = Owned::allocate(lni.library(), ALLOCATE, destroy, |queue| unsafe {
        (api.cxil_alloc_cmdq)(lni.as_ptr(), events, options, queue)
    })?;
    let slots = queue.read().size;
    queue.release()?;
    Ok(slots)
}

/// The memory of an event queue that [`event_queue`] allocates, in pages of this machine.
#[derive(Clone, Copy, Debug)]
pub struct EventQueuePages {
    /// Pages of memory, which is filled with ones.
    pub memory: usize,
    /// How many of them are mapped for the NIC; 0 allocates the queue without a mapping.
    pub mapped: usize,
    /// Whether the NIC may write the mapped pages.
    pub is_writable: bool,
    /// Byte at which the queue begins.
    pub offset: usize,
}

/// Allocates an event queue of `attributes.queue_len` bytes; its address is set here. Returns
/// whether its memory was zero afterwards.
///
/// # Errors
///
/// The errors of `mmap` and `cxil_map`; see libcxi.md 8.1.
///
/// # Panics
///
/// Panics if the queue exceeds its memory: the library clears it.
pub fn event_queue(
    lni: &Lni,
    pages: EventQueuePages,
    attributes: &cxi_eq_attr,
) -> Result<bool, Error> {
    let memory = Pages::anonymous(pages.memory * page_size())?;
    let end = pages.offset.checked_add(attributes.queue_len);
    assert!(
        end.is_some_and(|end| end <= memory.len()) && pages.mapped <= pages.memory,
        "the queue exceeds its memory"
    );
    memory.fill(0xff);
    let lni = lni.handle();
    let api = lni.library().api();
    let mut region = match pages.mapped {
        0 => None,
        mapped => {
            let writes = if pages.is_writable { CXI_MAP_WRITE } else { 0 };
            let rights = CXI_MAP_PIN | CXI_MAP_READ | writes;
            // SAFETY: the interface is allocated; the range lies in `memory`, which is freed after
            // the mapping; `md` is a valid out pointer.
            let region = Owned::allocate(lni.library(), "cxil_map", unmap(api), |md| unsafe {
                let len = mapped * page_size();
                (api.cxil_map)(
                    lni.as_ptr(),
                    memory.as_ptr().cast(),
                    len,
                    rights,
                    ptr::null_mut(),
                    md,
                )
            })?;
            Some(region)
        }
    };
    let attributes =
        cxi_eq_attr { queue: memory.as_ptr().wrapping_add(pages.offset).cast(), ..*attributes };
    let md = region.as_ref().map_or(ptr::null_mut(), Owned::as_ptr);
    let destroy = Destroy { call: "cxil_destroy_evtq", function: api.cxil_destroy_evtq };
    // SAFETY: the interface is allocated; the queue lies in `memory`, and memory and mapping live
    // until the queue is destroyed; `queue` is a valid out pointer.
    let mut queue = Owned::allocate(lni.library(), "cxil_alloc_evtq", destroy, |queue| unsafe {
        let no_wait = ptr::null_mut();
        (api.cxil_alloc_evtq)(lni.as_ptr(), md, &raw const attributes, no_wait, no_wait, queue)
    })?;
    let mut bytes = vec![0; attributes.queue_len];
    memory.read(pages.offset, &mut bytes);
    queue.release()?;
    region.as_mut().map_or(Ok(()), Owned::release)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Allocates a counter whose write-back word begins at byte `offset` of a page.
///
/// # Errors
///
/// The errors of `mmap`; see libcxi.md 8.4.
///
/// # Panics
///
/// Panics if the word exceeds the page.
pub fn counter(lni: &Lni, offset: usize) -> Result<(), Error> {
    let memory = Pages::anonymous(1)?;
    assert!(offset + 8 <= memory.len(), "the word exceeds its page");
    let lni = lni.handle();
    let api = lni.library().api();
    let word = memory.as_ptr().wrapping_add(offset).cast();
    let destroy = Destroy { call: "cxil_destroy_ct", function: api.cxil_destroy_ct };
    // SAFETY: the interface is allocated; `memory` lives until the counter is destroyed; `counter`
    // is a valid out pointer.
    let mut counter = Owned::allocate(lni.library(), "cxil_alloc_ct", destroy, |counter| unsafe {
        (api.cxil_alloc_ct)(lni.as_ptr(), word, counter)
    })?;
    counter.release()
}

/// The rights of the process itself to the memory that [`map`] maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryRights {
    /// Nothing.
    Nothing,
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
}

/// The memory that a mapping covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// Bytes of the mapping before the address that was asked for.
    pub before: u64,
    /// Length of the mapping in bytes.
    pub len: usize,
    /// Logical address context.
    pub lac: u8,
}

/// Maps `len` bytes from byte `offset` of two pages on, with flags `CXI_MAP_*`.
///
/// # Errors
///
/// The errors of `mmap` and `mprotect`; see libcxi.md 7.4.
///
/// # Panics
///
/// Panics if the range exceeds the two pages.
pub fn map(
    lni: &Lni,
    rights: MemoryRights,
    offset: usize,
    len: usize,
    flags: u32,
) -> Result<Mapped, Error> {
    let memory = Pages::anonymous(2 * page_size())?;
    assert!(offset + len <= memory.len(), "the range exceeds two pages");
    memory.fill(1);
    memory.protect(match rights {
        MemoryRights::Nothing => libc::PROT_NONE,
        MemoryRights::Read => libc::PROT_READ,
        MemoryRights::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
    })?;
    let lni = lni.handle();
    let api = lni.library().api();
    let va = memory.as_ptr().wrapping_add(offset);
    // SAFETY: the interface is allocated; the range lies in `memory`, which is freed after the
    // mapping; `md` is a valid out pointer.
    let mut region = Owned::allocate(lni.library(), "cxil_map", unmap(api), |md| unsafe {
        (api.cxil_map)(lni.as_ptr(), va.cast(), len, flags, ptr::null_mut(), md)
    })?;
    let md = region.read();
    region.release()?;
    Ok(Mapped { before: (va as u64).wrapping_sub(md.va), len: md.len, lac: md.lac })
}

fn unmap(api: &Api) -> Destroy<cxi_md> {
    Destroy { call: "cxil_unmap", function: api.cxil_unmap }
}
