//! Parts that several benchmarks share.

pub mod atomics;
mod chain;
pub mod lists;
pub mod memory;
mod one_sided;
mod operands;
#[cfg(test)]
pub(crate) mod operands_tests;
mod operation;
pub mod portals;
pub mod rendezvous;
pub mod service_limits;
mod sides;
mod triggered_counter;

#[cfg(test)]
pub use crate::bench::common::operands::applied_times;
pub use chain::{Chain, HopPut, Hops};
pub use lists::{ImmediatePut, ListCommand, ListOffsets, RestrictedDma, UnrestrictedDma};
pub use memory::{Numbering, PERIOD};
pub use one_sided::{OneSided, SideResources, measure_lists};
pub use operands::Operands;
pub use operation::{
    CompletionEvent, NotIssued, PreparedCommand, PutKind, failed_full_get, measure,
};
pub use portals::{Entry, Match, Portals, PostedList, Reports, UNRECEIVED, WriteOrder, answer};
pub use sides::{Direction, IdcContext, Initiator, Target};
pub use triggered_counter::ThresholdCounter;

/// Index at which the target's first portals table entry is mapped in its domain.
pub const PORTAL_INDEX: u32 = 0;
