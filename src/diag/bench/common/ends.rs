//! One side of a one-sided bandwidth benchmark.

use super::Target;
use super::lists::ListInitiator;
use crate::bench::api::Part;
use facts::error::Failure;

/// The resources of one side of a one-sided bandwidth benchmark: an initiator if the side issues
/// lists, and a target if it is the target of lists.
pub struct Ends {
    /// Issues lists.
    pub initiator: Option<ListInitiator>,
    /// Is the target of the peer's lists.
    pub target: Option<Target>,
}

impl Ends {
    /// Allocates what a side that plays `part` needs.
    ///
    /// # Errors
    ///
    /// The failure of `initiator` or `target`.
    pub fn set_up(
        part: Part,
        initiator: impl FnOnce() -> Result<ListInitiator, Failure>,
        target: impl FnOnce() -> Result<Target, Failure>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            initiator: part.issues().then(initiator).transpose()?,
            target: part.is_target().then(target).transpose()?,
        })
    }

    /// Returns the initiator.
    ///
    /// # Errors
    ///
    /// This side issues no lists.
    pub fn initiator(&mut self) -> Result<&mut ListInitiator, Failure> {
        let none = || Failure::environment("a passive side issues no lists");
        self.initiator.as_mut().ok_or_else(none)
    }

    /// Returns the number of operations that have arrived, if they are counted.
    ///
    /// # Errors
    ///
    /// A NIC that does not answer.
    pub fn arrived(&mut self) -> Result<Option<u64>, Failure> {
        match &mut self.target {
            Some(target) => target.arrived(),
            None => Ok(None),
        }
    }

    /// Releases the resources.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn close(self) -> Result<(), Failure> {
        self.target.map_or(Ok(()), Target::close)?;
        self.initiator.map_or(Ok(()), ListInitiator::close)
    }
}
