//! Drives the software NIC as a program does that has the specification and nothing else.
//!
//! Everything goes through `softnic::api()`, with records of `cxi_sys`; rings, windows and event
//! queues are handled here from nic.md once more, without the wrapper's code, so that a mistake
//! in one of the two cannot hide behind the same mistake in the other. Plain and slow on purpose.

#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    missing_docs,
    reason = "each test program uses a part of it; a test's name is its documentation"
)]

pub mod alone;
pub mod commands;
pub mod event_queue;
pub mod memory;
pub mod queue;
pub mod rig;
pub mod target_event;

use std::ffi::c_int;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cxi_sys::{Api, cxil_dev};

/// Long enough for a loaded machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(softnic::api)
}

/// Calls a libcxi function. The caller of the macro keeps the C contract: handles are null or
/// alive, other pointers null or good for the call.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = $crate::driver::api().$function;
        // SAFETY: the tests keep the C contract; see the macro.
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use call;

/// As `call`, for the functions that the table does not have: those that only other programs use.
macro_rules! export {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let function = cxi_sys::$function;
        // SAFETY: the tests keep the C contract; see `call`.
        unsafe { function($($argument),*) }
    }};
}
pub(crate) use export;

/// A negative errno, as the functions answer it.
pub fn minus(errno: c_int) -> c_int {
    -errno
}

/// Runs the NIC in this thread once.
pub fn progress(dev: *mut cxil_dev) {
    let progress = api().progress.expect("the software NIC has the hook");
    // SAFETY: tests pass devices that are open.
    unsafe { progress(dev) };
}

/// Waits until `ready` answers; panics when it does not.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::yield_now();
    }
}
