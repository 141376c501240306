//! Parts that several benchmarks share.

mod atomic_model;
pub mod atomics;
mod chain;
mod initiator;
pub mod lists;
pub mod memory;
mod one_sided;
mod operands;
#[cfg(test)]
pub(crate) mod operands_tests;
mod operation;
pub mod portals;
mod put_kind;
pub mod rendezvous;
pub mod service_limits;
mod target;
mod triggered_counter;

pub use crate::bench::common::lists::ListOffsets;
#[cfg(test)]
pub use atomic_model::applied_times;
pub use chain::{Chain, HopPut, Hops};
pub use initiator::{Direction, IdcContext, Initiator};
pub use lists::{ImmediatePut, ListCommand, RestrictedDma, UnrestrictedDma};
pub use memory::{Numbering, PERIOD};
pub use one_sided::{OneSided, SideResources, measure_lists};
pub use operands::Operands;
pub use operation::{CompletionEvent, NotIssued, PreparedCommand, measure};
pub use portals::{Entry, Match, Portals, PostedList, Reports, UNRECEIVED, WriteOrder, answer};
pub use put_kind::PutKind;
pub use put_kind::failed_full_get;
pub use target::Target;
pub use triggered_counter::ThresholdCounter;

/// Index at which the target's first portals table entry is mapped in its domain.
pub const PORTAL_INDEX: u32 = 0;
