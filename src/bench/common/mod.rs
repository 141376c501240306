//! What more than one benchmark is built from.

mod endpoint;
mod initiator;
pub mod memory;
mod operands;
#[cfg(test)]
pub(crate) mod operands_tests;
mod operation;
pub mod portals;
pub mod rendezvous;
mod tally;
mod target;

pub use endpoint::Endpoint;
pub use initiator::{Direction, IdcContext, Initiator};
pub use operands::{Operands, initial_target};
pub use operation::{Command, Completion, FullDma, NomatchDma, measure};
pub use portals::{Entry, Match, Portals, Reports};
pub use tally::Tally;
pub use target::Target;

/// Index at which the target's first portals table entry is mapped in its domain.
pub const PORTAL_INDEX: u32 = 0;
