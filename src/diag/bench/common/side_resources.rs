//! One side of a one-sided benchmark.

use super::Target;
use super::issuer::Issuer;
use facts::error::Failure;

/// The resources of one side of a one-sided benchmark.
pub struct SideResources<I> {
    /// Issues operations; none if this side is only their target.
    pub initiator: Option<I>,
    /// Is the target of the peer's operations; none if the peer issues none.
    pub target: Option<Target>,
}

impl<I: Issuer> SideResources<I> {
    /// Returns the initiator.
    ///
    /// # Errors
    ///
    /// This side issues no operations.
    pub fn initiator(&mut self) -> Result<&mut I, Failure> {
        let none = || Failure::environment("a passive side issues no operations");
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
    pub fn close(self) -> Result<(), Failure> {
        self.target.map_or(Ok(()), Target::close)?;
        self.initiator.map_or(Ok(()), Issuer::close)
    }
}
