//! The table of libcxi functions, from the installed library or from a software NIC.

use std::cell::Cell;
use std::ffi::OsStr;
use std::rc::Rc;

use cxi_sys::{Api, LoadError, cxil_dev};

use crate::error::Error;

/// A libcxi: everything else is opened through it.
pub struct Library {
    shared: Rc<Shared>,
}

struct Shared {
    api: Api,
    failed_release: Cell<Option<Error>>,
}

impl Library {
    /// Opens a libcxi, by name (`libcxi.so.1`) or by path.
    pub fn load(path: &OsStr) -> Result<Self, LoadError> {
        Api::load(path).map(Self::from_api)
    }

    /// The library behind a table. Whoever made the table vouches that its functions
    /// keep the contracts of libcxi (libcxi.md 1 to 8): safety rests on it.
    pub fn from_api(api: Api) -> Self {
        Self {
            shared: Rc::new(Shared {
                api,
                failed_release: Cell::new(None),
            }),
        }
    }

    /// The first release that failed when an owner was dropped instead of closed.
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

/// The hook that runs a software NIC in the calling thread; nothing on hardware.
///
/// Its holder keeps the device open.
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

    /// Whether there was something to run: one predictable branch on hardware.
    #[inline]
    pub(crate) fn run(self) -> bool {
        let Some(hook) = self.hook else {
            return false;
        };
        // SAFETY: the holder of this value keeps the device open.
        unsafe { hook(self.device) };
        true
    }
}
