//! Lists: the operations that one doorbell issues, counted together, and where in the buffers they
//! go (tools.md 3.7).

use cxi::sys::CXI_TC_TYPE_HRP;
use cxi::{
    CommunicationProfile, EmitError, Event, EventType, MemoryRegion, Record, ReturnCode,
    TransmitBatch,
};

use super::operation::NotIssued;
use super::{Ends, Initiator, ListCommand, Numbering, TriggeredCounter, memory};
use crate::bench::api::{Lists, Peer, RepeatLists, Step};
use crate::endpoint::Endpoint;
use facts::advice::{self, Situation};
use facts::error::{Context, Failure};
use measure::Supervisor;
use node::explain;
use plan::buffers::Buffer;
use plan::run_options::{MAX_HRP_SIZE, RunOptions};

/// Most slots of a transmit queue that one operation takes.
const SLOTS_PER_OPERATION: u32 = 4;

/// Slots in addition to those of a list: for an answer to the peer's list or a switch of the profile,
/// which takes three, and those that the NIC leaves unused (defect T6 of tools.md). With the longest
/// list, the largest queue holds them.
pub const FURTHER_SLOTS: u32 = 3 + 5;

/// Names of the operations of a list, for messages.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// One operation: `message`.
    pub operation: &'static str,
    /// The activity: `sending messages`.
    pub doing: &'static str,
}

/// An initiator of lists. The NIC counts completed operations and reports whole lists.
pub struct ListInitiator {
    /// The queues and the buffer.
    pub initiator: Initiator,
    completed: TriggeredCounter,
    words: Words,
    high_rate: Option<HighRate>,
}

/// Returns the failure to allocate a profile of High Rate Puts, with the remedy.
fn no_high_rate(error: cxi::Error) -> Failure {
    let errno = error.errno();
    let failure = explain::explained(error, "cannot allocate a profile of High Rate Puts");
    if errno == libc::EINVAL {
        failure.with_hint(advice::hint(Situation::NoHighRatePuts))
    } else {
        failure
    }
}

/// The profile of high-rate puts.
struct HighRate {
    profile: CommunicationProfile,
    /// The queue issues its commands with this profile.
    is_selected: bool,
}

impl ListInitiator {
    /// Allocates queues for lists of up to `list_size` operations, and one more.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn new(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        buffer: Buffer,
        list_size: u32,
        words: Words,
    ) -> Result<Self, Failure> {
        let slots = SLOTS_PER_OPERATION * list_size + FURTHER_SLOTS;
        let mut initiator = Initiator::with_queues(endpoint, peer, buffer, slots, list_size + 1)?;
        let completed = TriggeredCounter::new(endpoint, &initiator, &initiator.events)?;
        completed.keep_for(&mut initiator.transmit);
        Ok(Self {
            initiator,
            completed,
            words,
            high_rate: None,
        })
    }

    /// Allocates the profile of high-rate puts.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn allow_high_rate(&mut self, endpoint: &Endpoint) -> Result<(), Failure> {
        let profile = endpoint.profile(CXI_TC_TYPE_HRP).map_err(no_high_rate)?;
        self.high_rate = Some(HighRate {
            profile,
            is_selected: false,
        });
        Ok(())
    }

    /// Selects the profile of the operations that follow, which have `size` bytes: that of high-rate
    /// puts if it is allocated and the size fits, else the default.
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    pub fn select_profile(&mut self, size: u64) -> Result<(), Failure> {
        let Some(high_rate) = &mut self.high_rate else {
            return Ok(());
        };
        let wanted = size <= MAX_HRP_SIZE;
        if high_rate.is_selected == wanted {
            return Ok(());
        }
        let profile = if wanted {
            &high_rate.profile
        } else {
            &self.initiator.profile
        };
        let mut batch = self.initiator.transmit.batch();
        batch
            .emit_lcid(profile)
            .nic("cannot switch the communication profile")?;
        batch.commit_doorbell();
        high_rate.is_selected = wanted;
        Ok(())
    }

    /// Returns the number of the counter on which all commands count their completion.
    pub fn counter(&self) -> u16 {
        self.completed.number()
    }

    /// Issues `count` operations with one doorbell; `emit` writes the command of the next one.
    ///
    /// # Errors
    ///
    /// A command for which the queue has no room.
    #[inline]
    pub fn issue(
        &mut self,
        count: u64,
        mut emit: impl FnMut(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
    ) -> Result<(), Failure> {
        self.completed.arm(count)?;
        let mut batch = self.initiator.transmit.batch();
        for _ in 0..count {
            emit(&mut batch).nic(NotIssued(self.words.operation))?;
        }
        batch.commit_doorbell();
        Ok(())
    }

    /// Polls once. Returns whether the NIC reports that the issued operations are complete.
    /// `on_other` is called if another counter reports to the same event queue.
    ///
    /// # Errors
    ///
    /// An event that reports a failure.
    #[inline]
    pub fn poll(&mut self, on_other: impl FnOnce()) -> Result<bool, Failure> {
        let Some(event) = self.initiator.events.poll() else {
            return Ok(false);
        };
        let seen = triggered(&event, self.words)?;
        self.initiator.events.acknowledge();
        let complete = seen == self.counter();
        if !complete {
            on_other();
        }
        Ok(complete)
    }

    /// Takes the report of another counter from the event queue, if there is one.
    ///
    /// # Errors
    ///
    /// An event that reports a failure.
    pub fn take_other(&mut self) -> Result<bool, Failure> {
        let events = &mut self.initiator.events;
        let Some(event) = events.poll() else {
            return Ok(false);
        };
        triggered(&event, self.words)?;
        events.acknowledge();
        Ok(true)
    }

    /// Releases the resources.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn close(self) -> Result<(), Failure> {
        self.initiator.close_with(Some(self.completed))
    }
}

/// Returns the number of the counter whose threshold was reached.
#[inline(always)]
fn triggered(event: &Event<'_>, words: Words) -> Result<u16, Failure> {
    let (kind, code) = (event.event_type(), event.return_code());
    match (kind, code, event.record()) {
        (EventType::TRIGGERED_OP, ReturnCode::OK, Record::TriggeredShort(record)) => {
            Ok(record.ct_handle())
        }
        (EventType::TRIGGERED_OP, ReturnCode::OK, Record::TriggeredLong(record)) => {
            Ok(record.ct_handle())
        }
        _ => Err(unexpected(words, kind, code)),
    }
}

#[cold]
fn unexpected(words: Words, kind: EventType, code: ReturnCode) -> Failure {
    explain::unexpected(words.doing, kind, EventType::TRIGGERED_OP, code)
}

/// The offsets of the operations of a list in the buffers.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    list_size: u64,
    /// Bytes from one offset to the next.
    step: u64,
    /// Number of distinct offsets.
    places: u64,
    /// Index of the next offset.
    place: u64,
}

impl Walk {
    /// Creates the walk of lists with operations of `size` bytes.
    ///
    /// # Errors
    ///
    /// The run has no lists.
    pub fn new(run: &RunOptions, size: u64) -> Result<Self, Failure> {
        let lists = run.lists()?;
        let step = lists.step(size);
        Ok(Self {
            list_size: lists.list_size.into(),
            step,
            // Offsets are within the requested length of the buffer, not the length rounded up to
            // pages. The first offset is used even if its spacing does not fit.
            places: (lists.buffer(run.max_size) / step).max(1),
            place: 0,
        })
    }

    /// Returns the number of operations of a list.
    pub fn list_size(&self) -> u64 {
        self.list_size
    }

    /// Returns the number of distinct offsets of a list.
    pub fn distinct_places(&self) -> u64 {
        self.list_size.min(self.places)
    }

    /// Returns the number of bytes from the start of a buffer to the end of the last operation, if each
    /// has `size` bytes.
    pub fn length(&self, size: u64) -> u64 {
        (self.distinct_places() - 1) * self.step + size
    }

    /// Returns to the start of the buffers, where each list begins.
    #[inline(always)]
    pub fn restart(&mut self) {
        self.place = 0;
    }

    /// Returns the offset of the next operation, in bytes.
    #[inline(always)]
    pub fn next_offset(&mut self) -> u64 {
        let offset = self.place * self.step;
        self.place += 1;
        if self.place == self.places {
            self.place = 0;
        }
        offset
    }
}

/// Numbers the bytes of `buffer` that operations of `size` bytes carry.
///
/// # Errors
///
/// A peer that ends meanwhile, and a copy that fails.
pub fn fill(
    buffer: &MemoryRegion,
    run: &RunOptions,
    size: u64,
    supervisor: &dyn Supervisor,
) -> Result<(), Failure> {
    let length = Walk::new(run, size)?.length(size);
    Numbering::of(run, size).fill(buffer, length, supervisor)
}

/// Checks that all operations of a list of `size` bytes have left numbered bytes in `buffer`; `whose`
/// names it in the message. Returns the number of these bytes.
///
/// # Errors
///
/// A byte that is not numbered, a peer that ends meanwhile, and a copy that fails.
pub fn check(
    buffer: &MemoryRegion,
    whose: &str,
    run: &RunOptions,
    size: u64,
    supervisor: &dyn Supervisor,
) -> Result<u64, Failure> {
    let mut walk = Walk::new(run, size)?;
    // All offsets of a list; a list that wraps uses them again.
    let offsets = (0..walk.distinct_places()).map(|_| walk.next_offset());
    let checked = Numbering::of(run, size).check(buffer, whose, offsets, size, supervisor)?;
    memory::clear(buffer, run)?;
    Ok(checked)
}

/// Passes lists of `command` to `repeat`, one for each of `pairs`. The peer's software takes no part
/// in them.
///
/// # Errors
///
/// A side that issues no lists, and the failure of `repeat`.
pub fn measure<C: ListCommand, R: RepeatLists>(
    pairs: &mut [Ends],
    walk: Walk,
    command: impl Fn(&ListInitiator) -> C,
    repeat: R,
) -> Result<R::Output, Failure> {
    let lists = pairs.iter_mut().map(|ends| {
        let initiator = ends.initiator()?;
        Ok(OneSidedLists {
            command: command(initiator),
            initiator,
            walk,
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
    walk: Walk,
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
        let (walk, command) = (&mut self.walk, &mut self.command);
        walk.restart();
        let count = walk.list_size();
        self.initiator
            .issue(count, |batch| command.emit(batch, walk.next_offset()))?;
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
