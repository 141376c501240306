//! What more than one benchmark is built from.

mod endpoint;
mod initiator;
mod memory;
mod operands;
#[cfg(test)]
pub(crate) mod operands_tests;
mod operation;
mod target;

pub use endpoint::Endpoint;
pub use initiator::{Direction, IdcContext, Initiator};
pub use operands::{Operands, initial_target};
pub use operation::{Command, Completion, FullDma, NomatchDma, measure};
pub use target::{Entry, Target};

/// Index at which the target's portals table entry is mapped in its domain.
const PORTAL_INDEX: u32 = 0;
