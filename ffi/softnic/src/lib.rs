//! A Cassini NIC in software, behind the functions of libcxi.
//!
//! [`api`] fills the same table that `cxi_sys::Api::load` fills from `libcxi.so.1`. With the
//! feature `library` the crate is itself such a library, for programs made for hardware
//! (`packaging/softnic/build-library`). The NIC follows `docs/reference/nic.md` and
//! `docs/reference/libcxi.md`, which comments cite as "nic.md 2.8".
//!
//! | module | concept |
//! |---|---|
//! | `engine` | the NIC: a state machine without input or output |
//! | `fabric` | the wire between NICs: shared memory in a private directory |
//! | `nic` | one open device: the engine, shared by the threads that run it |
//! | `runner` | the threads that run engines |
//! | `libcxi` | the functions, their rules and errno values |
//! | `cpu` | CPU time for the engine thread |
//! | `interrupt` | descriptors that programs sleep on |
//! | `sysfs`, `retry_handler` | the NICs as files of the kernel and of the retry handler show them |
//! | `snapshot` | these files, and the telemetry counters, at one moment |
//! | `counters`, `counter_names` | the telemetry counters of a NIC, over all processes |
//! | `environment` | the NICs of a machine and parameters of their driver, from environment variables |
//! | `fork` | files that child processes must not inherit |
//! | `process_memory`, `huge_page` | what the process has mapped, with which pages |
//! | `trap` | doorbells whose stores the library notices |
//! | `pages` | memory shared with other threads and processes |
//! | `on_demand` | memory that the program may unmap at any time |
//! | `gpu` | memory of GPUs |

// Doorbells trap on x86-64 only. Other machines have no use for what handles their stores.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod counter_names;
mod counters;
mod cpu;
mod engine;
mod environment;
mod fabric;
mod fork;
mod gpu;
mod huge_page;
mod interrupt;
mod libcxi;
mod nic;
mod on_demand;
mod pages;
mod prefetch;
mod process_memory;
mod retry_handler;
mod runner;
mod snapshot;
pub mod sysfs;
mod trap;

pub use counters::counter;
pub use fabric::owner as fabric_owner;
pub use libcxi::api;
pub use snapshot::Snapshot;

/// Checks the environment variables that describe software NICs. The functions of libcxi only
/// return EINVAL for a wrong one.
///
/// # Errors
/// One line for the user: variable, value, and what is allowed.
pub fn check_environment() -> Result<(), String> {
    environment::Nics::from_environment()?;
    environment::Driver::from_environment()?;
    trap::Trapped::from_environment()?;
    fabric::check_environment()?;
    Ok(())
}
