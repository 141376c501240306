//! Lists for C: one block with a count, and the elements at an offset.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_uint;

use rustix::io::Errno;

fn layout<T>(offset: usize, count: usize) -> Layout {
    Layout::from_size_align(offset + count * size_of::<T>(), align_of::<u64>())
        .expect("a list has at most some thousand elements")
}

/// Gives C a list with its elements from `offset` on.
///
/// # Errors
/// ENOMEM.
pub fn hand_out<T: Copy, List>(elements: &[T], offset: usize) -> Result<*mut List, Errno> {
    // SAFETY: the layout is not empty: it has at least room for the count.
    let list = unsafe { alloc_zeroed(layout::<T>(offset, elements.len())) };
    if list.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: the block begins with the count, and is aligned for it.
    unsafe { list.cast::<c_uint>().write(elements.len() as c_uint) };
    let first: *mut T = list.wrapping_add(offset).cast();
    // SAFETY: the block has room for all elements from `offset` on, aligned as in the C type of the
    // list.
    unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), first, elements.len()) };
    Ok(list.cast())
}

/// Frees a list, unless it is null.
///
/// # Safety
/// `list` is null, or was made by [`hand_out`] with the same element type and offset, and is not
/// used again.
pub unsafe fn free<T, List>(list: *mut List, offset: usize) {
    if list.is_null() {
        return;
    }
    // SAFETY: the caller guarantees a list of `hand_out`, which begins with the count.
    let count = unsafe { list.cast::<c_uint>().read() };
    // SAFETY: `hand_out` allocated the list with this layout.
    unsafe { dealloc(list.cast(), layout::<T>(offset, count as usize)) };
}
