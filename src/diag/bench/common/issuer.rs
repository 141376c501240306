//! The common part of the initiators of single operations and of lists.

use super::lists::ListInitiator;
use super::{Initiator, ListOffsets};
use crate::bench::api::Part;
use facts::error::Failure;
use plan::run_options::{RunOptions, Side};

/// Issues the operations of a one-sided benchmark: one at a time, or in lists.
pub trait Issuer: Sized {
    /// Name of its buffer, for messages.
    const BUFFER: &'static str;

    /// Whether a check clears the buffer, so that the check after the next size notices missing
    /// writes. The operations of the next size may begin only after the check.
    const CLEARS: bool;

    /// The part that `side` plays in `run`.
    fn part(run: &RunOptions, side: Side) -> Part;

    /// Where in the buffers operations of `size` bytes go.
    ///
    /// # Errors
    ///
    /// Lists in a run that has none.
    fn offsets(run: &RunOptions, size: u64) -> Result<ListOffsets, Failure>;

    /// The queues and the buffer.
    fn initiator(&self) -> &Initiator;

    /// Releases the resources.
    fn close(self) -> Result<(), Failure>;
}

/// One operation at a time. Only the client issues operations.
impl Issuer for Initiator {
    const BUFFER: &'static str = "the client's buffer";
    // The client begins the next size while the server checks.
    const CLEARS: bool = false;

    fn part(_: &RunOptions, side: Side) -> Part {
        match side {
            Side::Client => Part::Active,
            Side::Server => Part::Passive,
        }
    }

    fn offsets(_: &RunOptions, size: u64) -> Result<ListOffsets, Failure> {
        Ok(ListOffsets::from_one(size))
    }

    fn initiator(&self) -> &Initiator {
        self
    }

    fn close(self) -> Result<(), Failure> {
        Initiator::close(self)
    }
}

/// Lists. The options determine which sides issue them.
impl Issuer for ListInitiator {
    const BUFFER: &'static str = "the initiator's buffer";
    const CLEARS: bool = true;

    fn part(run: &RunOptions, side: Side) -> Part {
        Part::by_direction(run, side)
    }

    fn offsets(run: &RunOptions, size: u64) -> Result<ListOffsets, Failure> {
        ListOffsets::new(run, size)
    }

    fn initiator(&self) -> &Initiator {
        &self.initiator
    }

    fn close(self) -> Result<(), Failure> {
        ListInitiator::close(self)
    }
}
