//! Lists: the operations that one doorbell issues, counted together (tools.md 3.7).

use cxi::{
    CommunicationProfile, EmitError, Event, EventRecord, EventType, ReturnCode, TransmitBatch,
};

use super::operation::NotIssued;
use super::{Initiator, ThresholdCounter};
use crate::bench::api::Peer;
use crate::endpoint::Endpoint;
use facts::advice::{Advise, Situation};
use facts::error::{Context, Failure};
use node::explain;
use plan::buffers::Buffer;
use plan::run_options::MAX_HRP_SIZE;

/// Most slots of a transmit queue that one operation takes.
const SLOTS_PER_OPERATION: u32 = 4;

/// Slots in addition to the slots of a list: three for an answer to the peer's list or a switch of
/// the profile, and five that the NIC leaves unused (defect T6 of tools.md). With the longest list,
/// the largest queue holds them.
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
    completed: ThresholdCounter,
    words: Words,
    high_rate: Option<HighRate>,
}

/// Returns the failure to allocate a profile of High Rate Puts, with the remedy.
fn no_high_rate(error: cxi::Error) -> Failure {
    let errno = error.errno();
    let failure = explain::explained(error, "cannot allocate a profile of High Rate Puts");
    if errno == libc::EINVAL { failure.explained(Situation::NoHighRatePuts) } else { failure }
}

/// The profile of high-rate puts.
struct HighRate {
    profile: CommunicationProfile,
    /// The queue issues its commands with this profile.
    is_selected: bool,
}

impl ListInitiator {
    /// Allocates queues for lists of up to `list_size` operations, and one more.
    pub fn new(
        peer: Peer<'_>,
        buffer: Buffer,
        list_size: u32,
        words: Words,
    ) -> Result<Self, Failure> {
        let slots = SLOTS_PER_OPERATION * list_size + FURTHER_SLOTS;
        let mut initiator = Initiator::with_queues(peer, buffer, slots, list_size + 1)?;
        let completed = ThresholdCounter::new(peer.own, &initiator.events)?;
        completed.keep_for(&mut initiator.transmit);
        Ok(Self { initiator, completed, words, high_rate: None })
    }

    /// Allows operations with the profile of high-rate puts, and selects the profile of operations
    /// of `size` bytes. Called before all other commands, as in the legacy tools (tools.md 4.3).
    ///
    /// # Errors
    ///
    /// A call that the library refuses, and a queue without room for the command.
    pub fn allow_high_rate(&mut self, endpoint: &Endpoint, size: u64) -> Result<(), Failure> {
        let profile = endpoint.high_rate_profile().map_err(no_high_rate)?;
        self.high_rate = Some(HighRate { profile, is_selected: false });
        self.select_profile(size)
    }

    /// Selects the profile of the operations that follow, which have `size` bytes: the
    /// profile of high-rate puts if it is allocated and the size fits, else the default.
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
        let profile = if wanted { &high_rate.profile } else { &self.initiator.profile };
        let mut batch = self.initiator.transmit.batch();
        batch.emit_lcid(profile).nic("cannot switch the communication profile")?;
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
    pub fn close(self) -> Result<(), Failure> {
        self.initiator.close_with(|| self.completed.close())
    }
}

/// Returns the number of the counter whose threshold was reached.
#[inline(always)]
fn triggered(event: &Event<'_>, words: Words) -> Result<u16, Failure> {
    let (kind, code) = (event.event_type(), event.return_code());
    match (kind, code, event.record()) {
        (EventType::TRIGGERED_OP, ReturnCode::OK, EventRecord::TriggeredShort(record)) => {
            Ok(record.ct_handle())
        }
        (EventType::TRIGGERED_OP, ReturnCode::OK, EventRecord::TriggeredLong(record)) => {
            Ok(record.ct_handle())
        }
        _ => Err(unexpected(words, kind, code)),
    }
}

#[cold]
fn unexpected(words: Words, kind: EventType, code: ReturnCode) -> Failure {
    explain::unexpected(words.doing, kind, EventType::TRIGGERED_OP, code)
}
