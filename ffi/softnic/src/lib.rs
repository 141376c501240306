//! A Cassini NIC in software, behind the functions of libcxi.
//!
//! [`api`] fills the same table that `cxi_sys::Api::load` fills from `libcxi.so.1`. With the feature `library`
//! the crate is such a library itself, for programs that know no software NIC
//! (`packaging/softnic/build-library`). What the NIC
//! does follows `spec/nic.md` and `spec/libcxi.md`; names like "nic.md 2.8" point there.
//!
//! | module | concept |
//! |---|---|
//! | `engine` | the NIC: commands in, packets and events out; a pure state machine |
//! | `fabric` | the wire between NICs: shared memory in a private directory |
//! | `libcxi` | the functions, their rules and errno values |
//! | `runner` | who runs the engine: a polling thread, or the engine thread |
//! | `cpu` | how the engine thread shares the CPUs with the programs it serves |
//! | `interrupt` | what programs sleep on |
//! | `nic` | one open device: what those share |
//! | `environment` | what environment variables say about the NICs |
//! | `fork` | what child processes must not inherit |
//! | `fork_marks` | memory kept from children on request |
//! | `pages` | memory that others write too |
//! | `gpu` | memory that only the runtime of a GPU can reach |

mod cpu;
mod engine;
mod environment;
mod fabric;
mod fork;
mod fork_marks;
mod gpu;
mod interrupt;
mod libcxi;
mod nic;
mod pages;
mod runner;

pub use libcxi::api;

/// Checks the environment variables that describe software NICs, which the functions can only refuse with EINVAL.
///
/// Fails with one line for the user: variable, value, and what is allowed.
pub fn check_environment() -> Result<(), String> {
    environment::Nics::from_environment()?;
    fabric::check_conditions()?;
    Ok(())
}
