//! Safe wrapper around libcxi, for hardware and for a software NIC behind the same table
//! of functions. It carries out what it is told: no policy, no printing.
//!
//! | room | what is in it |
//! |---|---|
//! | [`Library`] | the table of libcxi functions |
//! | [`Device`], [`devices`], [`Service`] | a NIC, what it says about itself, who may use it |
//! | [`Lni`], [`Domain`], [`CommunicationProfile`] | the process's interface on a NIC, its address, its traffic |
//! | [`Pages`], [`HugePage`], [`MemoryRegion`] | memory that the NIC reads and writes |
//! | [`gpu`] | the same on GPUs |
//! | [`EventQueue`], [`Event`] | what the NIC reports |
//! | [`TransmitQueue`], [`TargetQueue`] and their batches | what the NIC is told |
//! | [`Counter`], [`TriggerQueue`] | what the NIC counts, and what waits for that |
//! | [`PortalTableEntry`] | where operations arrive |
//! | [`address`] | fabric addresses and match ids |
//! | [`clock`] | the clock of the measurements |
//! | [`placement`] | the CPUs of a thread, and the NUMA node of its memory |
//! | [`Error`], [`EmitError`], [`ReturnCode`], [`EventType`] | what can go wrong |
//! | [`records`], [`sys`] | command and event records; constants under their C names |
//!
//! Inside: `owned`, `queue_handle` (release order), `ring` (cursor arithmetic), `encode` (what emitting
//! sets in a command), `launch` (doorbell and low-latency algorithm), `bus` (ring memory
//! and launch page), `fence`.
//!
//! # Ownership
//!
//! Each owner keeps what it was made from alive, so the order in which owners are dropped
//! does not matter. `close` releases and reports; dropping releases and records a failure
//! in [`Library::failed_release`].
//!
//! # Threads
//!
//! libcxi holds no locks (libcxi.md 1): one object, one thread. No type here can be sent
//! or shared.
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<cxi::Library>();
//! ```

pub mod address;
mod backing;
mod bus;
pub mod clock;
mod command_queue;
mod counter;
mod device;
mod encode;
mod error;
mod event;
mod event_queue;
mod fence;
pub mod gpu;
mod huge_page;
mod launch;
mod library;
mod lni;
mod memory;
mod owned;
pub mod placement;
mod portal;
mod queue_handle;
mod ring;
mod service;
mod trigger_queue;

pub use backing::Backing;
pub use command_queue::{TargetBatch, TargetQueue, TransmitBatch, TransmitQueue};
pub use counter::{Counter, Counts, MAX_FAILURES, MAX_SUCCESSES};
pub use cxi_sys as sys;
pub use cxi_sys::LoadError;
pub use cxi_sys::records;
pub use device::{Device, DeviceInfo, devices};
pub use encode::{IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED};
pub use error::{EmitError, Error, EventType, ReturnCode, error_text};
pub use event::{Event, Record, Target};
pub use event_queue::EventQueue;
pub use huge_page::HugePage;
pub use library::Library;
pub use lni::{CommunicationProfile, Domain, Lni};
pub use memory::{MemoryRegion, Pages};
pub use portal::PortalTableEntry;
pub use service::{Limit, Member, RESOURCES, Service};
pub use trigger_queue::{TriggerBatch, TriggerQueue};
