//! Set-up, contents and check of the one-sided benchmarks: each states what differs, and is a
//! [`Benchmark`] by that.

use cxi::MemoryRegion;

use super::ends::Ends;
use super::issuer::Issuer;
use super::portals::{Entry, Reports, WriteOrder};
use super::{Direction, Numbering, Target, memory};
use crate::bench::api::{Benchmark, Issued, Peer, Visitor};
use crate::endpoint::Endpoint;
use facts::error::Failure;
use measure::Supervisor;
use plan::buffers::Buffer;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;

/// A benchmark in which the target's software takes no part.
pub trait OneSided: 'static {
    /// The tool that measures this transaction type.
    const TOOL: &'static Tool;

    /// The direction of the numbered bytes that operations move; none if they change values.
    const MOVES: Option<Direction>;

    /// Issues the operations.
    type Initiator: Issuer;

    /// Calls the method of `visitor` for the sub-trait of [`Benchmark`] that this benchmark
    /// implements.
    fn accept<V: Visitor>(visitor: V) -> V::Output;

    /// Allocates the initiator.
    ///
    /// # Errors
    ///
    /// A call that the library or the kernel refuses.
    fn initiator(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
    ) -> Result<Self::Initiator, Failure>;

    /// Allocates the target of moved bytes. Its list entry raises no events.
    ///
    /// # Errors
    ///
    /// A call that the library or the kernel refuses.
    fn target(endpoint: &Endpoint, peer: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        let entry = Entry {
            put: Self::MOVES == Some(Direction::Put),
            get: Self::MOVES == Some(Direction::Get),
            matching: None,
            reports: Reports::Nothing,
            order: WriteOrder::for_run(run),
            buffer_id: 0,
        };
        Target::new(endpoint, peer, run, Buffer::full(run), &[], entry)
    }

    /// Checks the bytes that operations have moved to this side, as [`Benchmark::check`] has it.
    ///
    /// # Errors
    ///
    /// A byte that is not numbered, a peer that ends meanwhile, and a copy that fails.
    fn verify(
        ends: &Ends<Self::Initiator>,
        run: &RunOptions,
        size: u64,
        issued: Issued,
        supervisor: &dyn Supervisor,
    ) -> Result<u64, Failure> {
        let (buffer, whose) = match (Self::MOVES, &ends.initiator, &ends.target) {
            (Some(Direction::Put), _, Some(target)) if issued.peer != Some(0) => {
                (&target.buffer, "the target buffer")
            }
            (Some(Direction::Get), Some(issuer), _) if issued.own > 0 => {
                (&issuer.initiator().buffer, Self::Initiator::BUFFER)
            }
            _ => return Ok(0),
        };
        let walk = Self::Initiator::walk(run, size)?;
        let checked = walk.check(buffer, whose, run, size, supervisor)?;
        if Self::Initiator::CLEARS {
            memory::clear(buffer, run)?;
        }
        Ok(checked)
    }
}

/// Returns the buffer of this side whose bytes operations move, if there is one.
fn source<B: OneSided>(ends: &Ends<B::Initiator>) -> Option<&MemoryRegion> {
    match B::MOVES? {
        Direction::Put => Some(&ends.initiator.as_ref()?.initiator().buffer),
        Direction::Get => Some(&ends.target.as_ref()?.buffer),
    }
}

impl<B: OneSided> Benchmark for B {
    const TOOL: &'static Tool = <B as OneSided>::TOOL;

    type Resources = Ends<B::Initiator>;

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        <B as OneSided>::accept(visitor)
    }

    fn set_up(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
        side: Side,
    ) -> Result<Self::Resources, Failure> {
        let part = B::Initiator::part(run, side);
        let initiator = part.issues().then(|| B::initiator(endpoint, peer, run));
        let target = part.is_target().then(|| B::target(endpoint, peer, run));
        let ends = Ends { initiator: initiator.transpose()?, target: target.transpose()? };
        if let Some(buffer) = source::<B>(&ends) {
            Numbering::of(run, run.min_size).fill_all(buffer, peer.supervisor)?;
        }
        Ok(ends)
    }

    fn fill(
        ends: &Self::Resources,
        run: &RunOptions,
        size: u64,
        supervisor: &dyn Supervisor,
    ) -> Result<(), Failure> {
        match source::<B>(ends) {
            Some(buffer) => B::Initiator::walk(run, size)?.fill(buffer, run, size, supervisor),
            None => Ok(()),
        }
    }

    fn check(
        ends: &Self::Resources,
        run: &RunOptions,
        size: u64,
        issued: Issued,
        supervisor: &dyn Supervisor,
    ) -> Result<u64, Failure> {
        B::verify(ends, run, size, issued, supervisor)
    }

    fn close(ends: Self::Resources) -> Result<(), Failure> {
        ends.close()
    }
}
