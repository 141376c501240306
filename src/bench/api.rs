//! What a transaction type implements, and what it is given.
//!
//! A benchmark says which resources each side needs and what one iteration is. It prints
//! nothing, keeps no statistics and opens no sockets: the loops are in `run`, the control
//! connection in `session`, the text in `report`.

use super::common::Endpoint;
use crate::error::Failure;
use crate::plan::{RunOptions, Side};
use crate::run::{Clock, Patience, Supervisor};
use crate::session::Address;

/// The other side, as a benchmark sees it.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    /// Its address on the fabric.
    pub address: Address,
    /// Who knows whether it is there. To be asked while resources are set up that take long.
    pub supervisor: &'a dyn Supervisor,
}

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
        peer: Peer<'_>,
        run: &RunOptions,
    ) -> Result<Self::Initiator, Failure>;

    /// Allocates the server's resources and opens them to the client.
    fn target(
        endpoint: &Endpoint,
        peer: Peer<'_>,
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

/// Two-sided latency: a message goes to the server, and one comes back.
pub trait TwoSidedLatency {
    /// What each side holds during the run.
    type Resources;

    /// Allocates the resources of one side, for all sizes of the run, and opens them to the peer.
    fn resources(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
        side: Side,
    ) -> Result<Self::Resources, Failure>;

    /// Makes the round trip for messages of `size` bytes and hands it to `measurement`. As
    /// [`OneSidedLatency::measure`].
    fn measure<M: RoundTripMeasurement>(
        resources: &mut Self::Resources,
        run: &RunOptions,
        size: u64,
        measurement: M,
    ) -> Result<M::Output, Failure>;

    /// Fails unless what arrived is what messages of `size` bytes bring. For debug builds.
    fn check(resources: &Self::Resources, size: u64) -> Result<(), Failure>;

    /// Releases the resources.
    fn close(resources: Self::Resources) -> Result<(), Failure>;
}

/// A message, as it looks to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// One of many.
    Ordinary,
    /// The sender makes no round trip after this one.
    Last,
}

/// One side of a round trip, ready to be repeated.
pub trait RoundTrip {
    /// Sends a message and waits until its data has left.
    fn send<C: Clock>(&mut self, clock: &C, patience: &mut Patience<'_>) -> Result<(), Failure>;

    /// Waits for a message and its data.
    fn receive<C: Clock>(
        &mut self,
        clock: &C,
        patience: &mut Patience<'_>,
    ) -> Result<Message, Failure>;

    /// Gives back what the events of this round trip took. Outside the timed part.
    fn acknowledge(&mut self);

    /// Fails if the NIC has reported a message that did not arrive, while nobody waits for messages. An
    /// ordinary one raises no event that would be waited for.
    fn look(&mut self) -> Result<(), Failure>;

    /// Makes the messages from now on of this kind.
    fn announce(&mut self, message: Message) -> Result<(), Failure>;
}

/// What is done with a round trip: the measuring loop.
pub trait RoundTripMeasurement {
    /// What the loop yields.
    type Output;

    /// Runs the loop.
    fn run(self, round_trip: &mut impl RoundTrip) -> Result<Self::Output, Failure>;
}

/// Bandwidth: lists of operations, rung for together.
pub trait Bandwidth {
    /// What each side holds during the run.
    type Resources;

    /// Allocates the resources of one side, for all sizes of the run, and opens them to the peer.
    fn resources(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
        side: Side,
    ) -> Result<Self::Resources, Failure>;

    /// Makes this side's part in iterations of `size` bytes and hands it to `measurement`. As
    /// [`OneSidedLatency::measure`].
    fn measure<M: ListMeasurement>(
        resources: &mut Self::Resources,
        run: &RunOptions,
        size: u64,
        measurement: M,
    ) -> Result<M::Output, Failure>;

    /// Fails unless what arrived is what lists of `size` bytes bring. For debug builds.
    fn check(resources: &Self::Resources, run: &RunOptions, size: u64) -> Result<(), Failure>;

    /// Releases the resources.
    fn close(resources: Self::Resources) -> Result<(), Failure>;
}

/// How far a step has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing has come from the peer.
    Waiting,
    /// Something has happened.
    Going,
    /// An iteration is complete.
    Complete,
}

/// One side's part in the iterations of one size.
pub trait Iterations {
    /// Goes on as far as it can without waiting for the peer's software. After a complete
    /// iteration it begins the next.
    fn step<C: Clock>(&mut self, clock: &C, patience: &mut Patience<'_>) -> Result<Step, Failure>;

    /// Lists that this side has sent, and whose arrival is acknowledged.
    fn lists_sent(&self) -> u64;

    /// Whether either side has begun an iteration that is not complete here.
    fn are_under_way(&mut self) -> Result<bool, Failure>;
}

/// What is done with iterations: the measuring loop.
pub trait ListMeasurement {
    /// What the loop yields.
    type Output;

    /// Runs the loop.
    fn run(self, iterations: &mut impl Iterations) -> Result<Self::Output, Failure>;
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
