//! One side of a one-sided benchmark.

use super::{Initiator, Target};
use facts::error::Failure;

/// The resources of one side of a one-sided benchmark: the client's initiator, the server's target.
#[allow(clippy::large_enum_variant, reason = "a run has one of them")]
pub enum OneEnd {
    /// The client.
    Initiator(Initiator),
    /// The server.
    Target(Target),
}

impl OneEnd {
    /// Returns the initiator.
    ///
    /// # Errors
    ///
    /// This is the server's end, which measures nothing.
    pub fn initiator(&mut self) -> Result<&mut Initiator, Failure> {
        match self {
            Self::Initiator(initiator) => Ok(initiator),
            Self::Target(_) => Err(Failure::environment("the server's end cannot measure")),
        }
    }

    /// Releases the resources.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn close(self) -> Result<(), Failure> {
        match self {
            Self::Initiator(initiator) => initiator.close(),
            Self::Target(target) => target.close(),
        }
    }
}
