//! The `Benchmark` trait: what a transaction type implements, and what it is given.
//!
//! A benchmark defines the resources of each side and one operation. It prints nothing,
//! keeps no statistics and opens no sockets: the loops are in `run`, the control connection in
//! `session`, the text in `report`.

use crate::endpoint::Endpoint;
use facts::device::FabricAddress;
use facts::error::Failure;
use measure::{Clock, Supervisor, WaitPolicy};
use plan::depths::Row;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;

/// One size of a run, whose data are numbered and checked.
#[derive(Clone, Copy)]
pub struct SizeOfRun<'a> {
    pub run: &'a RunOptions,
    pub size: u64,
    /// Is asked between blocks of data whether the peer is still there.
    pub supervisor: &'a dyn Supervisor,
}

/// The peer, as a benchmark needs it.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    /// The endpoint of this side.
    pub own: &'a Endpoint,
    pub address: FabricAddress,
    /// Portal index of the target on both sides. Each pair of queues has one of its own.
    pub portal: u32,
    /// Checks whether the peer still runs, during a long set-up.
    pub supervisor: &'a dyn Supervisor,
}

/// The iterations of one pair of one size, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Iterations that this side has issued.
    pub own: u64,
    /// Iterations that the peer has issued; `None` if this side does not know.
    pub peer: Option<u64>,
}

/// One transaction type.
///
/// The driver in `run` calls [`set_up`](Self::set_up) once on each side, then for each row
/// [`deepen`](Self::deepen), `measure` of one of the sub-traits, [`check`](Self::check) and
/// [`fill`](Self::fill), and finally [`close`](Self::close).
pub trait Benchmark: 'static {
    /// The tool that measures this transaction type.
    const TOOL: &'static Tool;

    /// The objects that one side holds during a run.
    type Resources;

    /// Calls the method of `task` for the sub-trait that this benchmark implements.
    fn perform<T: BenchmarkTask>(task: T) -> T::Output;

    /// Allocates the resources of `side`, for all sizes of the run, and opens them to the peer.
    ///
    /// # Errors
    ///
    /// A call that the library or the kernel refuses, and a peer that ends during the set-up.
    fn set_up(peer: Peer<'_>, run: &RunOptions, side: Side) -> Result<Self::Resources, Failure>;

    /// Puts onto the lists of this side what stands there in `row`, and was not there in the row
    /// before. Nothing is under way meanwhile.
    ///
    /// # Errors
    ///
    /// List entries that the NIC does not link, and messages that the peer does not take.
    fn deepen(_: &mut Self::Resources, _run: &RunOptions, _row: Row) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether a side whose NIC reports a failure sends it to a cxidiag peer: the failure of either
    /// side is one of the whole operation.
    fn reports_failure(_run: &RunOptions) -> bool {
        false
    }

    /// Numbers the bytes that operations of `size` bytes carry from this side. The driver calls it
    /// with `--verify`, before each size but the first: [`set_up`](Self::set_up) numbers the bytes
    /// of the first size.
    ///
    /// # Errors
    ///
    /// A copy that fails, and a peer that ends meanwhile.
    fn fill(_: &Self::Resources, _size: SizeOfRun<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Checks the bytes that the last operations of `size` bytes have moved to this side, or the
    /// values that they have changed here. `issued` has the iterations of both sides; a latency
    /// tool has issued at least one. Returns the number of checked bytes.
    ///
    /// The driver calls it after each size: with `--verify`, and in debug builds in each run with a
    /// cxidiag peer.
    ///
    /// # Errors
    ///
    /// A byte or value that differs from the one that the operations leave, a copy that fails, and
    /// a peer that ends meanwhile.
    fn check(_: &Self::Resources, _size: SizeOfRun<'_>, _issued: Issued) -> Result<u64, Failure> {
        Ok(0)
    }

    /// The number of operations that have arrived at this side since its set-up, as its NIC or its
    /// software counts them; `None` on a side that is not a target. Called after each size, with
    /// `--both-ends` only.
    ///
    /// # Errors
    ///
    /// A NIC that does not answer.
    fn arrived(_: &mut Self::Resources, _run: &RunOptions) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    /// Releases the resources.
    fn close(resources: Self::Resources) -> Result<(), Failure>;
}

/// Medians of fans of one size, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FanMedians {
    /// From the start to the first arrival of the fan.
    pub first_ns: u64,
    /// From the first arrival to the last one.
    pub span_ns: u64,
}

/// Code that is generic over benchmarks, with one method for each sub-trait of [`Benchmark`].
pub trait BenchmarkTask {
    /// Result of each method.
    type Output;

    /// Is called for a benchmark of one-sided latency.
    fn one_sided<B: OneSidedLatency>(self) -> Self::Output;

    /// Is called for a benchmark of round trips.
    fn round_trip<B: RoundTripLatency>(self) -> Self::Output;

    /// Is called for a benchmark of bandwidth.
    fn bandwidth<B: Bandwidth>(self) -> Self::Output;
}

/// One-sided latency: the client's NIC initiates, the server's NIC is the target and the server's
/// software takes no part.
pub trait OneSidedLatency: Benchmark {
    /// Makes the transaction for `size` bytes and passes it to `repeat`. Only the client calls it.
    ///
    /// All decisions that depend on options are made here, once: the loop in `repeat` is compiled
    /// for the type of the transaction and branches on no option.
    ///
    /// # Errors
    ///
    /// A transaction that cannot be made, and the failure of `repeat`.
    fn measure<R: RepeatTransaction>(
        resources: &mut Self::Resources,
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure>;
}

/// One transaction, ready to be repeated.
pub trait Transaction {
    /// Prepares the next transaction, before its pause. Not part of the latency.
    ///
    /// # Errors
    ///
    /// As [`Self::iterate`].
    #[inline(always)]
    fn prepare<C: Clock>(
        &mut self,
        _clock: &C,
        _policy: &mut WaitPolicy<'_>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Performs the transaction once. Its latency is the time from before the command is written
    /// until the event of the final data write is seen.
    ///
    /// # Errors
    ///
    /// A command that cannot be issued, another event than the expected one, or no event in time.
    fn iterate<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<Timed, Failure>;
}

/// The times of one transaction, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Reading of the clock before the command is written.
    pub start: u64,
    pub latency: u64,
}

/// The loop that repeats a transaction.
pub trait RepeatTransaction {
    /// Result of the loop.
    type Output;

    /// Runs the loop.
    ///
    /// # Errors
    ///
    /// The failure of an iteration, and an interruption.
    fn run(self, transaction: &mut impl Transaction) -> Result<Self::Output, Failure>;
}

/// Two-sided latency: the client sends a message, and the server answers with one.
pub trait RoundTripLatency: Benchmark {
    /// Whether a peer may demand a barrier before each message, as the legacy tool does.
    const HAS_LEGACY_SYNC: bool = true;

    /// Makes this side's part of a round trip with messages of `size` bytes and passes it to
    /// `repeat`, as [`OneSidedLatency::measure`] does. Both sides call it.
    ///
    /// # Errors
    ///
    /// A round trip that cannot be made, and the failure of `repeat`.
    fn measure<R: RepeatRoundTrip>(
        resources: &mut Self::Resources,
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure>;

    /// The medians of the fans of the last size; `None` in a benchmark, and in a run, without fans.
    /// The client calls it after the round trips of a size.
    fn fan(_resources: &Self::Resources) -> Option<FanMedians> {
        None
    }

    /// Makes a write of `size` bytes to compare the round trips with, and passes it to `repeat`;
    /// `None` in a benchmark that compares with nothing. The client calls it after the round trips
    /// of a size, if the run asks for it.
    ///
    /// # Errors
    ///
    /// A write that cannot be made, and the failure of `repeat`.
    fn compare<R: RepeatTransaction>(
        _resources: &mut Self::Resources,
        _run: &RunOptions,
        _size: u64,
        _repeat: R,
    ) -> Result<Option<R::Output>, Failure> {
        Ok(None)
    }
}

/// The kind of a message, for its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// More messages may follow.
    Ordinary,
    /// The sender makes no round trip after this one.
    Last,
}

/// One side of a round trip, ready to be repeated.
pub trait RoundTrip {
    /// How many times a message passes from one side to the other. The latency of a round trip is
    /// its time divided by this number.
    #[inline(always)]
    fn legs(&self) -> u64 {
        2
    }

    /// Prepares the next round trip of the client, before its pause. Not part of the latency.
    ///
    /// # Errors
    ///
    /// As [`Self::send`] and [`Self::receive`].
    #[inline(always)]
    fn prepare<C: Clock>(
        &mut self,
        _clock: &C,
        _policy: &mut WaitPolicy<'_>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Sends a message and waits until its data has left.
    ///
    /// # Errors
    ///
    /// A command that cannot be issued, another event than the expected one, or no event in time.
    fn send<C: Clock>(&mut self, clock: &C, policy: &mut WaitPolicy<'_>) -> Result<(), Failure>;

    /// Waits for a message and its data.
    ///
    /// # Errors
    ///
    /// Another event than the expected one, none in time.
    fn receive<C: Clock>(
        &mut self,
        clock: &C,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<MessageKind, Failure>;

    /// Acknowledges the events of this round trip. Called outside the timed part.
    fn acknowledge(&mut self);

    /// Checks for an event about a message that did not arrive, while this side awaits none.
    ///
    /// # Errors
    ///
    /// Such an event was found.
    fn look(&mut self) -> Result<(), Failure>;

    /// Sets the kind of the following messages.
    ///
    /// # Errors
    ///
    /// A command that cannot be issued.
    fn announce(&mut self, message: MessageKind) -> Result<(), Failure>;
}

/// The loop that repeats a round trip.
pub trait RepeatRoundTrip {
    /// Result of the loop.
    type Output;

    /// Runs the loop.
    ///
    /// # Errors
    ///
    /// The failure of a round trip, and an interruption.
    fn run(self, round_trip: &mut impl RoundTrip) -> Result<Self::Output, Failure>;
}

/// Bandwidth: lists of operations, each list issued with one doorbell.
///
/// The resources belong to one pair: a queue of this side, its buffers, and their counterparts
/// at the peer. A run may drive several pairs side by side.
pub trait Bandwidth: Benchmark {
    /// Whether the software of a target answers each list. If so, a passive side iterates as well;
    /// otherwise it waits until the peer has measured.
    const ANSWERS: bool = false;

    /// The part that `side` plays in `run`.
    fn part(run: &RunOptions, side: Side) -> Part {
        Part::by_direction(run, side)
    }

    /// Makes this side's part in iterations of `size` bytes, one for each pair, and passes them to
    /// `repeat`, as [`OneSidedLatency::measure`] does. A passive side calls it only with
    /// [`Self::ANSWERS`].
    ///
    /// # Errors
    ///
    /// Iterations that cannot be made, and the failure of `repeat`.
    fn measure<R: RepeatLists>(
        pairs: &mut [Self::Resources],
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure>;
}

/// The part that one side plays in a bandwidth run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Issues lists.
    Active,
    /// Is the target of the peer's lists, and issues none.
    Passive,
    /// Issues lists, and is the target of the peer's lists.
    Both,
}

impl Part {
    /// The part of `side` where the options determine the direction (see [`RunOptions::issues`]).
    pub fn by_direction(run: &RunOptions, side: Side) -> Self {
        match (run.issues(side), run.is_target(side)) {
            (true, true) => Self::Both,
            (true, false) => Self::Active,
            (false, _) => Self::Passive,
        }
    }

    /// Whether the side issues lists.
    pub fn issues(self) -> bool {
        self != Self::Passive
    }

    /// Whether the side is the target of lists.
    pub fn is_target(self) -> bool {
        self != Self::Active
    }
}

/// The progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The NIC has not completed the commands of this side. The loop does not end here: the next
    /// size would find their events.
    InFlight,
    /// Nothing has arrived from the peer.
    Waiting,
    /// The iteration has advanced.
    Going,
    /// An iteration is complete.
    Complete,
}

/// One side's part in the iterations of one size and one pair. Another thread may drive it.
pub trait Lists: Send {
    /// Advances as far as possible without waiting. After a complete iteration it begins the next
    /// one.
    ///
    /// # Errors
    ///
    /// A queue without room for a command, and an unexpected event.
    fn step(&mut self) -> Result<Step, Failure>;

    /// Takes the events of the peer's lists, as far as no iteration of this side needs them.
    fn take_events(&mut self) -> Result<(), Failure> {
        self.are_under_way().map(drop)
    }

    /// The number of issued lists whose completion the NIC has reported.
    fn issued(&self) -> u64;

    /// Whether either side has begun an iteration that is not complete on this side.
    fn are_under_way(&mut self) -> Result<bool, Failure>;
}

/// The loop that repeats lists.
pub trait RepeatLists {
    /// Result of the loop.
    type Output;

    /// Runs the loop.
    ///
    /// # Errors
    ///
    /// The failure of an iteration, and an interruption.
    fn run(self, pairs: &mut [impl Lists]) -> Result<Self::Output, Failure>;
}
