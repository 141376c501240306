//! A Cassini NIC in software, behind the functions of libcxi.
//!
//! [`api`] fills the same table that `cxi_sys::Api::load` fills from `libcxi.so.1`. What the NIC
//! does follows `spec/nic.md` and `spec/libcxi.md`; names like "nic.md 2.8" point there.
//!
//! | module | concept |
//! |---|---|
//! | `engine` | the NIC: commands in, packets and events out; a pure state machine |
//! | `fabric` | the wire between NICs: shared memory in a private directory |
//! | `libcxi` | the functions, their rules and errno values |
//! | `runner` | who runs the engine: a polling thread, or the engine thread |
//! | `nic` | one open device: what those share |
//! | `fork` | what child processes must not inherit |
//! | `pages` | memory that others write too |

mod engine;
mod fabric;
mod fork;
mod libcxi;
mod nic;
mod pages;
mod runner;

pub use libcxi::api;
