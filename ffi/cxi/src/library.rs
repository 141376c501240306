//! The table of libcxi functions, from the installed library or from a software NIC.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cxi_sys::{Api, LoadError, cxil_dev};

use crate::error::Error;

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
