//! What a transaction type implements, and what it is given.
//!
//! A benchmark says which resources each side needs and what one iteration is. It prints
//! nothing, keeps no statistics and opens no sockets: the loops are in `run`, the control
//! connection in `session`, the text in `report`.

use super::common::Endpoint;
use crate::error::Failure;
use crate::plan::RunOptions;
use crate::run::{Clock, Patience};
use crate::session::Address;

/// One-sided latency: the client's NIC initiates, the server's NIC is the target and its
/// software takes no part.
pub trait OneSidedLatency {
    /// What the client holds during the run.
    type Initiator;
    /// What the server holds during the run.
    type Target;

    /// Allocates the client's resources, for all sizes of the run.
    fn initiator(
        endpoint: &Endpoint,
        peer: Address,
        run: &RunOptions,
    ) -> Result<Self::Initiator, Failure>;

    /// Allocates the server's resources and opens them to the client.
    fn target(
        endpoint: &Endpoint,
        peer: Address,
        run: &RunOptions,
    ) -> Result<Self::Target, Failure>;

    /// Makes the transaction for `size` bytes and hands it to `measurement`.
    ///
    /// Everything that the options decide is decided here, once: the loop behind
    /// `measurement` is compiled for the transaction that it gets and branches on no option.
    fn measure<M: Measurement>(
        initiator: &mut Self::Initiator,
        run: &RunOptions,
        size: u64,
        measurement: M,
    ) -> Result<M::Output, Failure>;

    /// Fails unless the client holds what operations of `size` bytes leave there. For debug
    /// builds: data really moves.
    fn check_initiator(_: &Self::Initiator, _size: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// The same for the server.
    fn check_target(_: &Self::Target, _size: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// Releases the client's resources.
    fn close_initiator(initiator: Self::Initiator) -> Result<(), Failure>;

    /// Releases the server's resources.
    fn close_target(target: Self::Target) -> Result<(), Failure>;
}

/// One transaction, ready to be repeated.
pub trait Transaction {
    /// Performs it once. The result is the time in nanoseconds from before the command is
    /// written until the event of the final data write is seen.
    fn iterate<C: Clock>(&mut self, clock: &C, patience: &mut Patience<'_>)
    -> Result<u64, Failure>;
}

/// What is done with a transaction: the measuring loop.
pub trait Measurement {
    /// What the loop yields.
    type Output;

    /// Runs the loop.
    fn run(self, transaction: &mut impl Transaction) -> Result<Self::Output, Failure>;
}
