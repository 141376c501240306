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

pub mod command_queue;
pub mod event_queue;
pub mod memory;
pub mod processes;
pub mod rig;

/// What nearly every test uses.
pub mod prelude {
    pub use std::ptr::{null, null_mut};

    pub use cxi_sys::records::*;
    pub use cxi_sys::*;
    pub use libc::{
        E2BIG, EBADF, EBUSY, EEXIST, EFAULT, EINVAL, EIO, EKEYREVOKED, ENODEV, ENOENT, ENOMEM,
        ENOSPC, EOPNOTSUPP, EOVERFLOW, EPERM,
    };

    pub(crate) use super::call;
    pub use super::command_queue::*;
    pub use super::event_queue::*;
    pub use super::memory::{Buffer, PAGE, Pages, RW};
    pub(crate) use super::processes::alone;
    pub use super::processes::{
        Partner, become_ordinary, fabric, in_child, is_root, listen, ports, role, say, set,
    };
    pub use super::rig::*;
    pub use super::{counter, name, number, progress, wait_for};
}

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use cxi_sys::{cxil_dev, timespec};

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

/// The numbers of the telemetry counters, by the names that libcxi's header gives them.
static NUMBERS: LazyLock<BTreeMap<String, u32>> = LazyLock::new(|| {
    let number = |line: &str| {
        let (name, number) = line.trim().trim_end_matches(',').split_once("\": ")?;
        let name = name.strip_prefix("\"C_CNTR_").or(name.strip_prefix("\"C1_CNTR_"))?;
        Some((name.to_lowercase(), number.parse().ok()?))
    };
    cxi_sys::testing::ABI.lines().filter_map(number).collect()
});

/// The number of a counter in `c_cntr_type`.
pub fn number(name: &str) -> u32 {
    *NUMBERS.get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

/// The name of the counter with this number.
pub fn name(number: u32) -> &'static str {
    let found = NUMBERS.iter().find(|(_, own)| **own == number);
    found.map_or_else(|| panic!("no counter {number}"), |(name, _)| name)
}

/// The value of a counter; checks the time of reading.
pub fn counter(dev: *mut cxil_dev, name: &str) -> u64 {
    let (mut value, mut ts) = (u64::MAX, timespec { tv_sec: -1, tv_nsec: -1 });
    assert_eq!(call!(cxil_read_cntr(dev, number(name), &mut value, &mut ts)), 0, "{name}");
    assert!(ts.tv_sec > 0 && (0..1_000_000_000).contains(&ts.tv_nsec));
    value
}
