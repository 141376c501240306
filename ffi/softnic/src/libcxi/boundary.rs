//! The boundary to C: pointers in, results out.
//!
//! A handle is a heap object whose first part is public in C. The NIC's side of the object is in
//! the engine's tables. A list for C is one block with a count, and the elements at an offset.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::{c_int, c_uint};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};

/// Passes a pointer argument of a C function to one of the functions of this module.
///
/// The macro is for arguments of `extern "C"` functions only, whose callers guarantee what libcxi
/// asks of them: a pointer is null or points to an object of its type; a handle was returned by the
/// function that makes such objects, and was not destroyed; nothing else uses the object during the
/// call, if the function changes or destroys it.
macro_rules! from_c {
    ($function:ident($pointer:expr)) => {
        // SAFETY: the pointer is an argument of the C function around, whose caller guarantees that
        // it is null, or valid for the parameter's type and used by nothing else that conflicts.
        unsafe { $crate::libcxi::boundary::$function($pointer) }
    };
    ($function:ident($pointer:expr, $work:expr)) => {{
        let work = $work;
        // SAFETY: the pointer is an argument of the C function around, whose caller guarantees that
        // it is null, or valid for the parameter's type and used by nothing else that conflicts.
        unsafe { $crate::libcxi::boundary::$function($pointer, work) }
    }};
}
pub(super) use from_c;

/// The public type of a handle in C.
///
/// # Safety
/// `Object` is the type that all pointers to `Self` really point to, given out by [`hand_out`].
pub unsafe trait Handle {
    /// The object behind the handle.
    type Object;
}

/// Calls a function for C: returns 0 or a negative errno, EIO for a panic.
pub fn answer(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => -error.raw_os_error(),
        Err(_) => -Errno::IO.raw_os_error(),
    }
}

/// Calls a function for C that returns a number or a negative errno.
pub fn answer_number(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    let mut number = 0;
    let code = answer(|| {
        number = work()?;
        Ok(())
    });
    if code == 0 { number } else { code }
}

/// Calls a function for C that puts its result at `place`: returns 0 or a negative errno, EINVAL
/// for null.
///
/// # Safety
/// The pointer is null, or writable for its type and used by nothing else during the call.
pub unsafe fn answer_at<T>(place: *mut T, work: impl FnOnce() -> Result<T, Errno>) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees null or a writable object.
        let place = unsafe { output(place) }?;
        *place = work()?;
        Ok(())
    })
}

/// Ends a handle, unless `release` fails for its object; EINVAL for null.
///
/// # Safety
/// The pointer is null or a live handle, and is not used again unless an error is returned.
pub unsafe fn end<Public: Handle>(
    ended: *mut Public,
    release: impl FnOnce(&Public::Object) -> Result<(), Errno>,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees null or a live handle.
        release(unsafe { handle(ended) }?)?;
        // SAFETY: it is not null, so a live handle, which the caller does not use again.
        unsafe { destroy(ended) };
        Ok(())
    })
}

/// Gives an object to C as a handle.
pub fn hand_out<Public: Handle>(object: Public::Object) -> *mut Public {
    Box::into_raw(Box::new(object)).cast()
}

/// The object of a handle; EINVAL for null.
///
/// # Safety
/// The pointer is null or a live handle that nothing changes while the reference lives.
pub unsafe fn handle<'a, Public: Handle + 'a>(
    handle: *const Public,
) -> Result<&'a Public::Object, Errno> {
    // SAFETY: the caller guarantees null or a live handle.
    unsafe { optional_handle(handle) }.ok_or(Errno::INVAL)
}

/// The object of a handle; `None` for null.
///
/// # Safety
/// The pointer is null or a live handle that nothing changes while the reference lives.
pub unsafe fn optional_handle<'a, Public: Handle + 'a>(
    handle: *const Public,
) -> Option<&'a Public::Object> {
    // SAFETY: the caller guarantees null or a live handle, which `Handle` says is of this type.
    unsafe { handle.cast::<Public::Object>().as_ref() }
}

/// The object of a handle, to change it; EINVAL for null.
///
/// # Safety
/// The pointer is null or a live handle that nothing else uses while the reference lives.
pub unsafe fn handle_mut<'a, Public: Handle + 'a>(
    handle: *mut Public,
) -> Result<&'a mut Public::Object, Errno> {
    // SAFETY: the caller guarantees null or a live handle, which `Handle` says is of this type.
    unsafe { handle.cast::<Public::Object>().as_mut() }.ok_or(Errno::INVAL)
}

/// Ends a handle.
///
/// # Safety
/// The pointer is a live handle, and is not used again.
pub unsafe fn destroy<Public: Handle>(handle: *mut Public) {
    // SAFETY: the caller guarantees a live handle, which `hand_out` made of a box of this type.
    drop(unsafe { Box::from_raw(handle.cast::<Public::Object>()) });
}

/// An argument to be read; EINVAL for null.
///
/// # Safety
/// The pointer is null, or readable for its type.
pub unsafe fn input<'a, T>(pointer: *const T) -> Result<&'a T, Errno> {
    // SAFETY: the caller guarantees null or a readable object.
    unsafe { optional_input(pointer) }.ok_or(Errno::INVAL)
}

/// An argument to be read; `None` for null.
///
/// # Safety
/// The pointer is null, or readable for its type.
pub unsafe fn optional_input<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller guarantees null or a readable object.
    unsafe { pointer.as_ref() }
}

/// An argument to be written; EINVAL for null.
///
/// # Safety
/// The pointer is null, or writable for its type and used by nothing else while the reference
/// lives.
pub unsafe fn output<'a, T>(pointer: *mut T) -> Result<&'a mut T, Errno> {
    // SAFETY: the caller guarantees null or a writable object.
    unsafe { optional_output(pointer) }.ok_or(Errno::INVAL)
}

/// An argument to be written; `None` for null.
///
/// # Safety
/// The pointer is null, or writable for its type and used by nothing else while the reference
/// lives.
pub unsafe fn optional_output<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: the caller guarantees null or a writable object.
    unsafe { pointer.as_mut() }
}

/// Fails with EPERM unless the caller has this capability, which root of a container may lack.
pub fn require_capability(capability: CapabilitySet) -> Result<(), Errno> {
    if capabilities(None)?.effective.contains(capability) { Ok(()) } else { Err(Errno::PERM) }
}

/// Fails with EPERM unless the caller is root.
pub fn require_root() -> Result<(), Errno> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Err(Errno::PERM) }
}

fn list_layout<T>(offset: usize, count: usize) -> Layout {
    Layout::from_size_align(offset + count * size_of::<T>(), align_of::<u64>())
        .expect("a list has at most some thousand elements")
}

/// Gives C a list with its elements from `offset` on.
///
/// # Errors
/// ENOMEM.
pub fn hand_out_list<T: Copy, List>(elements: &[T], offset: usize) -> Result<*mut List, Errno> {
    // SAFETY: the layout is not empty: it has at least room for the count.
    let list = unsafe { alloc_zeroed(list_layout::<T>(offset, elements.len())) };
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
/// `list` is null, or was made by [`hand_out_list`] with the same element type and offset, and is
/// not used again.
pub unsafe fn free_list<T, List>(list: *mut List, offset: usize) {
    if list.is_null() {
        return;
    }
    // SAFETY: the caller guarantees a list of `hand_out`, which begins with the count.
    let count = unsafe { list.cast::<c_uint>().read() };
    // SAFETY: `hand_out` allocated the list with this layout.
    unsafe { dealloc(list.cast(), list_layout::<T>(offset, count as usize)) };
}
