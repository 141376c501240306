//! The table of libcxi functions, from the installed library or from a software NIC, and the
//! ownership and release of its objects.
//!
//! Every owner type holds an `Arc` of a handle; a handle holds its object first and the handles of
//! the object's parents after it. Fields are dropped in that order, so an object is always released
//! before its parents, in whatever order the owners are dropped (libcxi.md 10).

use std::ffi::{OsStr, c_int};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cxi_sys::{Api, LoadError, cxil_dev};

use crate::error::{Error, check};

/// A libcxi, from which all other objects are opened.
pub struct Library {
    shared: Arc<LibraryState>,
    /// Not `Send`, not `Sync`: the library has no locks.
    _one_thread: PhantomData<*const ()>,
}

struct LibraryState {
    api: Api,
    failed_release: OnceLock<Error>,
    /// Held during each call of the library, which has no locks of its own (libcxi.md 1).
    calling: Mutex<()>,
}

impl Library {
    /// Opens a libcxi by name (`libcxi.so.1`) or path.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn load(path: &OsStr) -> Result<Self, LoadError> {
        Api::load(path).map(Self::from_api)
    }

    /// The library that `api` stands for. The safety of this package depends on the provider of the
    /// table: its functions must behave as libcxi.md 1 to 8 say, and several threads may call
    /// `progress` at the same time.
    pub fn from_api(api: Api) -> Self {
        Self {
            shared: Arc::new(LibraryState {
                api,
                failed_release: OnceLock::new(),
                calling: Mutex::new(()),
            }),
            _one_thread: PhantomData,
        }
    }

    /// The first failed release of an owner that was dropped instead of closed.
    pub fn failed_release(&self) -> Option<Error> {
        self.shared.failed_release.get().copied()
    }

    pub(crate) fn share(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), _one_thread: PhantomData }
    }

    /// Waits until no other thread calls the library. The caller holds the guard during its call:
    /// an object may be released in any thread, while another one allocates.
    pub(crate) fn serialize(&self) -> MutexGuard<'_, ()> {
        let calling = self.shared.calling.lock();
        calling.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn api(&self) -> &Api {
        &self.shared.api
    }

    pub(crate) fn record_failed_release(&self, error: Error) {
        // Fails if there is one: the first is kept.
        let _ = self.shared.failed_release.set(error);
    }
}

/// The hook that runs a software NIC in the calling thread; hardware has none.
///
/// The object that holds it keeps the device open.
#[derive(Clone, Copy)]
pub(crate) struct ProgressHook {
    hook: Option<unsafe extern "C" fn(*mut cxil_dev)>,
    device: *mut cxil_dev,
}

// SAFETY: the hook may be called from several threads at the same time: this is part of what a
// provider of the table promises (see [`Library::from_api`]).
unsafe impl Send for ProgressHook {}
// SAFETY: the hook takes its arguments by value.
unsafe impl Sync for ProgressHook {}

impl ProgressHook {
    pub(crate) fn new(library: &Library, device: *mut cxil_dev) -> Self {
        Self { hook: library.api().progress, device }
    }

    /// Runs the software NIC and returns true; returns false on hardware, after one predictable
    /// branch.
    #[inline]
    pub(crate) fn run(self) -> bool {
        let Some(hook) = self.hook else {
            return false;
        };
        // SAFETY: the object that holds `self` keeps the device open.
        unsafe { hook(self.device) };
        true
    }
}

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
