#![doc = include_str!("../README.md")]
//! # Items
//!
//! | item | what it is |
//! |---|---|
//! | [`Library`] | the table of libcxi functions |
//! | [`Device`], [`devices`], [`Service`] | NICs, their information, the right to use them |
//! | [`Lni`], [`Domain`], [`CommunicationProfile`] | interface of the process on a NIC, address, VNI and traffic class |
//! | [`Pages`], [`HugePage`], [`MemoryRegion`] | host memory, and memory mapped for the NIC |
//! | [`gpu`] | memory of GPUs |
//! | [`EventQueue`], [`Event`] | events of the NIC |
//! | [`TransmitQueue`], [`TargetQueue`] and their batches | commands to the NIC |
//! | [`Prepared`] | a command that is issued many times |
//! | [`Counter`], [`TriggerQueue`] | counters, and commands that wait for them |
//! | [`PortalTableEntry`] | targets of operations |
//! | [`address`] | fabric addresses and match ids |
//! | [`clock`] | the clocks of the measurements |
//! | [`attempt`] | single calls with any arguments |
//! | [`calibration`] | queues without a NIC |
//! | [`signals`] | signals of this process, with who has sent each, and of its process group |
//! | [`placement`] | the CPUs of a thread and the NUMA node of its memory |
//! | [`Error`], [`EmitError`] | errors |
//! | [`ReturnCode`], [`EventType`] | codes of events |
//! | [`records`], [`sys`] | command and event records; constants under their C names |
//!
//! # Floors
//!
//! A file uses only files on floors below its own. The lowest floor is 0.
//!
//! <!-- From tests/tidy/houses.rs: ffi/cxi/src -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 13 | lib              the names that users see                                                 |
//!    +-------------------------------------------------------------------------------------------+
//! 12 | calibration      queues without a NIC                                                     |
//!    +-------------------------------------------------------------------------------------------+
//! 11 | prepared         commands that are issued many times                                      |
//!    +-------------------------------------------------------------------------------------------+
//! 10 | target_queue     commands to targets                                                      |
//!    | transmit_queue   commands to initiators                                                   |
//!    | trigger_queue    commands that wait for counters                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | attempt          single calls with any arguments                                          |
//!    | portal           portals table entries                                                    |
//!    | queue            what all command queues have in common                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | event_queue      event queues                                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | counter          counting events                                                          |
//!    | memory           memory of the host or of a GPU, mapped for the NIC                       |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | lni              interface of the process on a NIC, VNI, traffic class                    |
//!    | service          services: the right to use a NIC                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | device           NICs and their information                                               |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | observer         what the NIC says about its objects, for any thread                      |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | launch           doorbells and low-latency writes                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | bus              memory of rings, their cursors, launch pages                             |
//!    | event            one event                                                                |
//!    | gpu              memory of GPUs                                                           |
//!    | library          the table of functions, and the order in which objects are released      |
//!    | placement        the CPUs of a thread, the NUMA node of its memory                        |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | pages            memory of whole pages, ordinary or huge                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | address          fabric addresses and match ids                                           |
//!    | clock            the clocks of the measurements                                           |
//!    | encode           fields of commands that are set by emitting                              |
//!    | error            errors and return codes                                                  |
//!    | fence            fences between memory and doorbells                                      |
//!    | inherited        descriptors that this process inherited, and standard streams            |
//!    | signals          signals of this process and of its group, with who has sent each         |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->
//!
//! # Ownership
//!
//! Each owner keeps its parents allocated, so owners may be dropped in any order. `close` releases
//! the object and reports a failure; dropping an owner releases it and records a failure in
//! [`Library::failed_release`].
//!
//! # Threads
//!
//! libcxi has no locks (libcxi.md 1), so this package calls it from one thread at a time. Queues,
//! counters, portals and memory may be moved to another thread ([`Send`]); all that allocates them
//! stays in its thread. Two threads may read and write the same memory; no queue can be used by two
//! threads ([`Sync`]).
//!
//! ```
//! fn sync<T: Sync>() {}
//! fn send<T: Send>() {}
//! sync::<cxi::MemoryRegion>();
//! send::<(cxi::TransmitQueue, cxi::TriggerQueue, cxi::TargetQueue, cxi::EventQueue)>();
//! send::<(cxi::Counter, cxi::PortalTableEntry, cxi::MemoryRegion, cxi::CommunicationProfile)>();
//! ```
//!
//! ```compile_fail,E0277
//! fn send<T: Send>() {}
//! send::<cxi::Lni>();
//! ```
//!
//! ```compile_fail,E0277
//! fn sync<T: Sync>() {}
//! sync::<cxi::TransmitQueue>();
//! ```
//!
//! ```compile_fail,E0277
//! fn sync<T: Sync>() {}
//! sync::<cxi::CommunicationProfile>();
//! ```

#![warn(missing_docs)]

pub mod address;
pub mod attempt;
mod bus;
pub mod calibration;
pub mod clock;
mod counter;
mod device;
mod encode;
mod error;
mod event;
mod event_queue;
mod fence;
pub mod gpu;
pub mod inherited;
mod launch;
mod library;
mod lni;
mod memory;
mod observer;
mod pages;
pub mod placement;
mod portal;
mod prepared;
mod queue;
mod service;
pub mod signals;
#[cfg(test)]
#[path = "../tests/steps/mod.rs"]
#[allow(dead_code, reason = "shared with the test `mock`, which uses all of it")]
mod steps;
mod target_queue;
mod transmit_queue;
mod trigger_queue;

pub use counter::{Counter, Counts, MAX_FAILURES, MAX_SUCCESSES};
pub use cxi_sys::{self as sys, LoadError, records};
pub use device::{Device, DeviceInfo, devices};
pub use encode::{IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED};
pub use error::{EmitError, Error, EventType, ReturnCode, error_text};
pub use event::{Event, EventRecord, TargetFields};
pub use event_queue::EventQueue;
pub use library::Library;
pub use lni::{CommunicationProfile, Domain, Lni};
pub use memory::{Backing, MemoryRegion};
pub use observer::{ObjectState, Observer, QueueKind};
pub use pages::{HugePage, Pages, page_size};
pub use portal::PortalTableEntry;
pub use prepared::{Prepared, idc_amo_words, idc_put_words};
pub use service::{LIST_ENTRIES, RESOURCES, ResourceLimit, Service, ServiceMember, TRIGGERED};
pub use target_queue::{TargetBatch, TargetQueue};
pub use transmit_queue::{TransmitBatch, TransmitQueue};
pub use trigger_queue::{TriggerBatch, TriggerQueue};
