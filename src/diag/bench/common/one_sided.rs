//! Set-up, contents and check of the one-sided benchmarks: each states what differs, and is a
//! [`Benchmark`] by that. Lists of them need no software of the peer.

use cxi::MemoryRegion;
use facts::error::Failure;
use plan::buffers::Buffer;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;

use super::lists::Issuer;
use super::lists::{ListCommand, ListInitiator, ListOffsets};
use super::portals::Entry;
use super::{Direction, Numbering, Target, memory};
use crate::bench::api::{
    Benchmark, BenchmarkTask, Issued, Lists, Peer, RepeatLists, SizeOfRun, Step,
};

/// The resources of one side of a one-sided benchmark.
pub struct SideResources<I> {
    /// Issues operations; none if this side is only their target.
    pub initiator: Option<I>,
    /// Is the target of the peer's operations; none if the peer issues none.
    pub target: Option<Target>,
}

impl<I: Issuer> SideResources<I> {
    /// The initiator.
    ///
    /// # Errors
    ///
    /// This side issues no operations.
    pub fn initiator(&mut self) -> Result<&mut I, Failure> {
        let none = || Failure::environment("a passive side issues no operations");
        self.initiator.as_mut().ok_or_else(none)
    }

    /// The number of operations that have arrived, if they are counted.
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

/// A benchmark in which the target's software takes no part.
pub trait OneSided: 'static {
    /// The tool that measures this transaction type.
    const TOOL: &'static Tool;

    /// The direction of the numbered bytes that operations move; none if they change values.
    const MOVES: Option<Direction>;

    /// Issues the operations.
    type Initiator: Issuer;

    /// Calls the method of `task` for the sub-trait of [`Benchmark`] that this benchmark
    /// implements.
    fn perform<T: BenchmarkTask>(task: T) -> T::Output;

    /// Allocates the initiator.
    ///
    /// # Errors
    ///
    /// A call that the library or the kernel refuses.
    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<Self::Initiator, Failure>;

    /// Allocates the target of moved bytes. Its list entry raises no events.
    ///
    /// # Errors
    ///
    /// A call that the library or the kernel refuses.
    fn target(peer: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        let entry = Entry {
            put: Self::MOVES == Some(Direction::Put),
            get: Self::MOVES == Some(Direction::Get),
            ..Entry::for_puts(run)
        };
        Target::new(peer, run, Buffer::full(run), &[], entry)
    }

    /// Checks the bytes that operations have moved to this side, as [`Benchmark::check`] has it.
    ///
    /// # Errors
    ///
    /// A byte that is not numbered, a peer that ends meanwhile, and a copy that fails.
    fn verify(
        resources: &SideResources<Self::Initiator>,
        size: SizeOfRun<'_>,
        issued: Issued,
    ) -> Result<u64, Failure> {
        let (buffer, whose) = match (Self::MOVES, &resources.initiator, &resources.target) {
            (Some(Direction::Put), _, Some(target)) if issued.peer != Some(0) => {
                (&target.buffer, "the target buffer")
            }
            (Some(Direction::Get), Some(issuer), _) if issued.own > 0 => {
                (&issuer.initiator().buffer, Self::Initiator::BUFFER)
            }
            _ => return Ok(0),
        };
        let offsets = Self::Initiator::offsets(size.run, size.size)?;
        let checked = offsets.check(buffer, whose, size)?;
        if Self::Initiator::CLEARS {
            memory::clear(buffer, size.run)?;
        }
        Ok(checked)
    }
}

/// The buffer of this side whose bytes operations move, if there is one.
fn source<B: OneSided>(resources: &SideResources<B::Initiator>) -> Option<&MemoryRegion> {
    match B::MOVES? {
        Direction::Put => Some(&resources.initiator.as_ref()?.initiator().buffer),
        Direction::Get => Some(&resources.target.as_ref()?.buffer),
    }
}

impl<B: OneSided> Benchmark for B {
    const TOOL: &'static Tool = <B as OneSided>::TOOL;

    type Resources = SideResources<B::Initiator>;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        <B as OneSided>::perform(task)
    }

    fn set_up(peer: Peer<'_>, run: &RunOptions, side: Side) -> Result<Self::Resources, Failure> {
        let part = B::Initiator::part(run, side);
        let initiator = part.issues().then(|| B::initiator(peer, run));
        let target = part.is_target().then(|| B::target(peer, run));
        let resources =
            SideResources { initiator: initiator.transpose()?, target: target.transpose()? };
        if let Some(buffer) = source::<B>(&resources) {
            Numbering::of(run, run.min_size).fill_all(buffer, peer.supervisor)?;
        }
        Ok(resources)
    }

    fn fill(resources: &Self::Resources, size: SizeOfRun<'_>) -> Result<(), Failure> {
        match source::<B>(resources) {
            Some(buffer) => B::Initiator::offsets(size.run, size.size)?.fill(buffer, size),
            None => Ok(()),
        }
    }

    fn check(
        resources: &Self::Resources,
        size: SizeOfRun<'_>,
        issued: Issued,
    ) -> Result<u64, Failure> {
        B::verify(resources, size, issued)
    }

    fn arrived(resources: &mut Self::Resources, _: &RunOptions) -> Result<Option<u64>, Failure> {
        resources.arrived()
    }

    fn close(resources: Self::Resources) -> Result<(), Failure> {
        resources.close()
    }
}

/// Passes lists of `command` to `repeat`, one for each of `pairs`.
///
/// # Errors
///
/// A side that issues no lists, and the failure of `repeat`.
pub fn measure_lists<C: ListCommand, R: RepeatLists>(
    pairs: &mut [SideResources<ListInitiator>],
    offsets: ListOffsets,
    command: impl Fn(&ListInitiator) -> C,
    repeat: R,
) -> Result<R::Output, Failure> {
    let lists = pairs.iter_mut().map(|resources| {
        let initiator = resources.initiator()?;
        Ok(OneSidedLists {
            command: command(initiator),
            initiator,
            offsets,
            is_issued: false,
            completed: 0,
        })
    });
    repeat.run(&mut lists.collect::<Result<Vec<_>, Failure>>()?)
}

/// The lists of one pair: each is issued when the NIC has completed the one before.
struct OneSidedLists<'a, C> {
    initiator: &'a mut ListInitiator,
    command: C,
    offsets: ListOffsets,
    is_issued: bool,
    completed: u64,
}

impl<C: ListCommand> Lists for OneSidedLists<'_, C> {
    #[inline]
    fn step(&mut self) -> Result<Step, Failure> {
        if self.is_issued {
            if !self.initiator.poll(|| ())? {
                return Ok(Step::InFlight);
            }
            self.is_issued = false;
            self.completed += 1;
            self.command.advance(&self.initiator.initiator.buffer)?;
            return Ok(Step::Complete);
        }
        let (offsets, command) = (&mut self.offsets, &mut self.command);
        offsets.restart();
        let count = offsets.list_size();
        self.initiator.issue(count, |batch| command.emit(batch, offsets.next_offset()))?;
        self.is_issued = true;
        Ok(Step::InFlight)
    }

    fn issued(&self) -> u64 {
        self.completed
    }

    fn are_under_way(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }
}
