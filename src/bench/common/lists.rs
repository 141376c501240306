//! Lists: the operations that one doorbell issues, counted together, and where in the buffers they
//! go (tools.md 3.7).

use cxi::{EmitError, Event, EventType, Record, ReturnCode, TransmitBatch};

use super::operation::NotIssued;
use super::{Initiator, TriggeredCounter};
use crate::advice;
use crate::bench::api::Peer;
use crate::endpoint::Endpoint;
use crate::error::{Context, Failure};
use crate::plan::buffers::Buffer;
use crate::run_options::RunOptions;

/// Most slots of a transmit queue that one operation takes.
const SLOTS_PER_OPERATION: u32 = 4;

/// Slots in addition to those of a list: for an answer to the peer's list, and those that the NIC
/// leaves unused (defect T6 of tools.md).
pub const FURTHER_SLOTS: u32 = 1 + 5;

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
        })
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
    advice::unexpected(words.doing, kind, EventType::TRIGGERED_OP, code)
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
