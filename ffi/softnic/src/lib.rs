#![doc = include_str!("../README.md")]
//! # Floors
//!
//! A file uses only files on floors below its own, or on its own floor without a circle:
//!
//! <!-- From tests/tidy/houses.rs: ffi/softnic/src -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 12 | lib              the names that users see                                                 |
//!    +-------------------------------------------------------------------------------------------+
//! 11 | snapshot         files of sysfs and of the retry handler, and counters, at one moment     |
//!    +-------------------------------------------------------------------------------------------+
//! 10 | sysfs            the NICs as the kernel's files show them                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | libcxi           the functions, their rules and errno values                              |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | counters         the telemetry counters of a NIC, over all processes                      |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | runner           the threads that run engines                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | trap             doorbells whose stores the library notices                               |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | nic              one open device: the engine, shared by the threads that run it           |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | fabric           the wire between NICs: shared memory in a private directory              |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | counter_names    the names of the telemetry counters                                      |
//!    | cpu              CPU time for the engine thread                                           |
//!    | doorbell         doorbells, which of them trap, the preloaded library                     |
//!    | environment      NICs and driver parameters, from environment variables                   |
//!    | fork             files that child processes must not inherit                              |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | engine           the NIC: a state machine without input or output                         |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | network          switches and links between NICs, as functions of the time                |
//!    | process_memory   memory of the process, and memory that it may unmap                      |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | gpu              memory of GPUs                                                           |
//!    | pages            memory shared with other threads and processes                           |
//!    | random           random numbers from a seed                                               |
//!    | summary          the packets of a program, for `cxi-softnic`                              |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![warn(missing_docs)]
// Doorbells trap on x86-64 only. Other machines have no use for what handles their stores.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

mod counter_names;
mod counters;
mod cpu;
mod doorbell;
mod engine;
mod environment;
mod fabric;
mod fork;
mod gpu;
mod libcxi;
mod network;
mod nic;
mod pages;
mod process_memory;
mod random;
mod runner;
mod snapshot;
pub mod summary;
pub mod sysfs;
mod trap;

use std::io;
use std::time::Duration;

use rustix::io::Errno;

pub use counters::counters;
pub use cpu::rest_after;
pub use fabric::{
    LinksDelay, Space, describe_holder as fabric_holder, fallback as fabric_fallback,
    identity as fabric_identity, owner as fabric_owner,
};
pub use libcxi::{DRIVER, api};
pub use snapshot::Snapshot;

/// The error flags that operations have set on the NIC with this number: block, bit and the number
/// of times.
///
/// # Errors
/// ENODEV without such a NIC, errors of the file system.
pub fn raised_errors(number: u32) -> io::Result<Vec<(&'static str, u32, u64)>> {
    let nics = environment::Nics::from_environment().map_err(|_| Errno::INVAL)?;
    let nid = nics.address(number).ok_or(Errno::NODEV)?;
    let place = fabric::FabricDirectory::from_environment()?;
    let directory = fabric::Directory::lock_existing(&place)?;
    let raised = fabric::ErrorFlags::open(&directory, nid)?.raised();
    Ok(raised.map(|(flag, times)| (flag.block.name(), flag.bit, times)).collect())
}

/// The numbers of the NICs of this fabric that a process has open, from its memory map
/// (`/proc/PID/maps`).
pub fn mapped_nics(maps: &str) -> Vec<u32> {
    let Ok(place) = fabric::FabricDirectory::from_environment() else { return Vec::new() };
    let Ok(nics) = environment::Nics::from_environment() else { return Vec::new() };
    let mapped = place.mapped_nids(maps);
    let addresses = (0..).map_while(|number| Some((number, nics.address(number)?)));
    addresses.filter(|(_, nid)| mapped.contains(nid)).map(|(number, _)| number).collect()
}

/// The part of its speed with which the host of the NIC with this number copies memory, as
/// `CXIDIAG_FAULTS` plants it.
pub fn memory_share(number: u32) -> f64 {
    fabric::settings(number).map_or(1.0, |settings| settings.health.memory)
}

/// Whether `CXIDIAG_LINK` or `CXIDIAG_FAULTS` makes packets of the NIC with this number slower or
/// faster than packets of NICs that they do not name.
pub fn has_own_link(number: u32) -> bool {
    let link = |number| {
        let settings = fabric::settings(number).ok()?;
        Some((settings.latency, settings.jitter, settings.slowness))
    };
    link(number) != link(u32::MAX)
}

/// Whether the fabric has switches, so that the addresses of NICs tell where they are.
pub fn has_switches() -> bool {
    environment::topology().is_ok_and(|topology| topology.is_some())
}

/// How long the packets with data that the NIC with this address sent took on the slowest link of
/// their way: for this time, no CPU held them up. `None` for a fabric without switches.
pub fn links_filled(address: u32) -> Option<Duration> {
    link_counts(address).map(|counts| Duration::from_nanos(counts.filled))
}

/// How long messages that the NIC with this address sent, and the answers to them, were under way
/// in the model of the fabric. `None` for a fabric without switches.
pub fn links_delay(address: u32) -> Option<LinksDelay> {
    link_counts(address).map(|counts| counts.delay)
}

fn link_counts(address: u32) -> Option<fabric::NicLinkCounts> {
    // A fabric without switches needs no lock.
    has_switches().then_some(())?;
    let place = fabric::FabricDirectory::from_environment().ok()?;
    let directory = fabric::Directory::lock_existing(&place).ok()?;
    fabric::nic_link_counts(&directory, address)
}

/// Checks the environment variables that describe software NICs. The functions of libcxi only
/// return EINVAL for a wrong one.
///
/// # Errors
/// One line for the user: variable, value, and what is allowed.
pub fn check_environment() -> Result<(), String> {
    environment::Nics::from_environment()?;
    environment::Driver::from_environment()?;
    doorbell::Trapped::from_environment()?;
    fabric::check_environment()
}
