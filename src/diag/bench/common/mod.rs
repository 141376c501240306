//! Parts that several benchmarks share.

mod answer;
mod atomic_model;
pub mod atomics;
mod chain;
mod full_get;
mod initiator;
mod issuer;
mod list_commands;
mod list_offsets;
pub mod lists;
pub mod memory;
mod numbering;
mod one_sided;
mod one_sided_lists;
mod operands;
#[cfg(test)]
pub(crate) mod operands_tests;
mod operation;
pub mod portals;
mod put_kind;
pub mod rendezvous;
pub mod service_limits;
mod side_resources;
mod target;
mod triggered_counter;

pub use crate::bench::common::list_offsets::ListOffsets;
pub use answer::answer;
#[cfg(test)]
pub use atomic_model::applied_times;
pub use chain::{Chain, HopPut, Hops};
pub use full_get::failed_full_get;
pub use initiator::{Direction, IdcContext, Initiator};
pub use list_commands::{ImmediatePut, ListCommand, RestrictedDma, UnrestrictedDma};
pub use numbering::{Numbering, PERIOD};
pub use one_sided::OneSided;
pub use one_sided_lists::measure_lists;
pub use operands::Operands;
pub use operation::{CompletionEvent, NotIssued, PreparedCommand, measure};
pub use portals::{Entry, Match, Portals, PostedList, Reports, UNRECEIVED, WriteOrder};
pub use put_kind::PutKind;
pub use side_resources::SideResources;
pub use target::Target;
pub use triggered_counter::ThresholdCounter;

/// Index at which the target's first portals table entry is mapped in its domain.
pub const PORTAL_INDEX: u32 = 0;
