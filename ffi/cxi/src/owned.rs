//! Ownership of libcxi objects, and the closing of owners.
//!
//! Every owner type holds an `Arc` of a handle; a handle holds its object first and the handles of
//! the object's parents after it. Fields are dropped in that order, so an object is always released
//! before its parents, in whatever order the owners are dropped (libcxi.md 10).

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use crate::error::{Error, check};
use crate::library::Library;

/// The function that releases an object, with its name.
pub(crate) struct Destroy<T> {
    pub(crate) call: &'static str,
    pub(crate) function: unsafe extern "C" fn(*mut T) -> c_int,
}

/// One libcxi object; released once, on `release` or on drop.
pub(crate) struct Owned<T> {
    object: NonNull<T>,
    destroy: Destroy<T>,
    released: bool,
    library: Library,
}

// SAFETY: an object of libcxi belongs to the process, not to a thread. `Library::serialize` lets
// one thread at a time call the library, which has no locks (libcxi.md 1).
unsafe impl<T> Send for Owned<T> {}
// SAFETY: a shared `Owned` gives access to the pointer and to the public part of the object, which
// the library does not write after the allocation; calls are serialized.
unsafe impl<T> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// Runs `allocate`, which stores the object through its argument.
    pub(crate) fn allocate(
        library: &Library,
        call: &'static str,
        destroy: Destroy<T>,
        allocate: impl FnOnce(*mut *mut T) -> c_int,
    ) -> Result<Self, Error> {
        let mut object = ptr::null_mut();
        let calling = library.serialize();
        check(call, allocate(&raw mut object))?;
        drop(calling);
        Ok(Self {
            object: NonNull::new(object).ok_or(Error::new(call, libc::EFAULT))?,
            destroy,
            released: false,
            library: library.share(),
        })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    /// Releases the object. A second call does nothing: after a failure the object remains
    /// allocated until the device is closed (libcxi.md 10).
    pub(crate) fn release(&mut self) -> Result<(), Error> {
        if self.released {
            return Ok(());
        }
        self.released = true;
        let _calling = self.library.serialize();
        // SAFETY: the matching function allocated the object, and `released` lets this call happen
        // only once.
        check(self.destroy.call, unsafe { (self.destroy.function)(self.object.as_ptr()) })
    }
}

impl<T: Copy> Owned<T> {
    /// A copy of the public part of the object.
    pub(crate) fn read(&self) -> T {
        // SAFETY: libcxi keeps the object, which begins with its public part, allocated until the
        // release, after which no owner calls this.
        unsafe { self.object.as_ptr().read() }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Err(error) = self.release() {
            self.library.record_failed_release(error);
        }
    }
}

/// A handle that an owner shares with the objects that depend on it.
pub(crate) trait ReleaseHandle {
    /// The function that releases the handle's main object.
    const CALL: &'static str;

    /// Releases what the handle owns, in the order of libcxi.md 10. Continues after a failure and
    /// returns the first.
    fn release(&mut self) -> Result<(), Error>;
}

/// Closes an owner. Returns EBUSY, as libcxi would, if other objects depend on it; it is then
/// released after the last of them.
pub(crate) fn close<H: ReleaseHandle>(handle: Arc<H>) -> Result<(), Error> {
    match Arc::try_unwrap(handle) {
        Ok(mut handle) => handle.release(),
        Err(_) => Err(Error::new(H::CALL, libc::EBUSY)),
    }
}
