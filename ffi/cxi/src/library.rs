//! The table of libcxi functions, from the installed library or from a software NIC.

use std::cell::Cell;
use std::ffi::OsStr;
use std::rc::Rc;

use cxi_sys::{Api, LoadError, cxil_dev};

use crate::error::Error;

/// A libcxi, from which all other objects are opened.
pub struct Library {
    shared: Rc<Shared>,
}

struct Shared {
    api: Api,
    failed_release: Cell<Option<Error>>,
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

    /// Returns the library that `api` stands for. The safety of this package depends on the
    /// provider of the table: its functions must behave as libcxi.md 1 to 8 say.
    pub fn from_api(api: Api) -> Self {
        Self {
            shared: Rc::new(Shared {
                api,
                failed_release: Cell::new(None),
            }),
        }
    }

    /// Returns the first failed release of an owner that was dropped instead of closed.
    pub fn failed_release(&self) -> Option<Error> {
        self.shared.failed_release.get()
    }

    pub(crate) fn share(&self) -> Self {
        Self {
            shared: Rc::clone(&self.shared),
        }
    }

    pub(crate) fn api(&self) -> &Api {
        &self.shared.api
    }

    pub(crate) fn record_failed_release(&self, error: Error) {
        if self.shared.failed_release.get().is_none() {
            self.shared.failed_release.set(Some(error));
        }
    }
}

/// The hook that runs a software NIC in the calling thread; hardware has none.
///
/// The object that holds it keeps the device open.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    hook: Option<unsafe extern "C" fn(*mut cxil_dev)>,
    device: *mut cxil_dev,
}

impl Progress {
    pub(crate) fn new(library: &Library, device: *mut cxil_dev) -> Self {
        Self {
            hook: library.api().progress,
            device,
        }
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
