//! Drives the software NIC as a program does that knows only the reference.
//!
//! Rings, windows and event queues are implemented here a second time from nic.md, without the
//! code of the wrapper, so that a mistake in one of the two cannot hide the same mistake in the
//! other. The code prefers plainness to speed.

#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    missing_docs,
    reason = "each test program uses a part of it; a test's name is its documentation"
)]

pub mod alone;
pub mod child;
pub mod commands;
pub mod counter;
pub mod event_queue;
pub mod memory;
pub mod queue;
pub mod rig;
pub mod target_event;
pub mod telemetry;

/// What nearly every test uses.
pub mod prelude {
    pub use std::ptr::{null, null_mut};

    pub use cxi_sys::records::*;
    pub use cxi_sys::*;
    pub use libc::{
        E2BIG, EBADF, EBUSY, EEXIST, EFAULT, EINVAL, EIO, EKEYREVOKED, ENODEV, ENOENT, ENOMEM,
        ENOSPC, EOPNOTSUPP, EOVERFLOW, EPERM,
    };

    pub(crate) use super::alone::alone;
    pub use super::alone::{Partner, fabric, listen, ports, role, say};
    pub(crate) use super::call;
    pub use super::child::{become_ordinary, in_child, is_root, set};
    pub use super::commands::*;
    pub use super::counter::Counter;
    pub use super::event_queue::*;
    pub use super::memory::{Buffer, PAGE, Pages, RW};
    pub use super::queue::{Queue, Store, options};
    pub use super::rig::*;
    pub use super::target_event::*;
    pub use super::telemetry::{counter, name, number};
    pub use super::{progress, wait_for};
}

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use cxi_sys::cxil_dev;

/// Time limit of a wait: long enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(30);

/// Calls a libcxi function. The caller of the macro passes handles that are null or alive, and
/// other pointers that are null or valid for the call.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the caller of the macro upholds what it requires of handles and pointers.
        unsafe { cxi_sys::$function($($argument),*) }
    };
}
pub(crate) use call;

/// Runs the NIC once in this thread.
pub fn progress(dev: *mut cxil_dev) {
    static PROGRESS: LazyLock<unsafe extern "C" fn(*mut cxil_dev)> =
        LazyLock::new(|| softnic::api().progress.expect("the software NIC has the hook"));
    // SAFETY: tests pass devices that are open.
    unsafe { PROGRESS(dev) };
}

/// Waits until `ready` returns a value; panics after a time limit.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < LIMIT, "timed out waiting for {what}");
        std::thread::yield_now();
    }
}
