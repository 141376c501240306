//! One command, repeated: issued, its event awaited.

use std::fmt;

use cxi::{EventQueue, EventType, MemoryRegion, Prepared, ReturnCode, TransmitQueue};

use super::Initiator;
use crate::bench::api::{RepeatTransaction, Timed, Transaction};
use facts::error::{Context, Failure};
use measure::{Clock, WaitPolicy};
use node::explain;

/// A command that is prepared before the loop and issued inside the timed part.
pub trait PreparedCommand<const WORDS: usize> {
    /// The command as the queue issues it.
    fn prepared(&self) -> &Prepared<WORDS>;

    /// Prepares the next command, outside the timed part. `transmit` and `buffer` are the
    /// initiator's.
    ///
    /// # Errors
    ///
    /// A command that cannot be prepared.
    #[inline(always)]
    fn advance(
        &mut self,
        _transmit: &TransmitQueue,
        _buffer: &mut MemoryRegion,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

/// A command that stays the same.
impl<const WORDS: usize> PreparedCommand<WORDS> for Prepared<WORDS> {
    #[inline(always)]
    fn prepared(&self) -> &Self {
        self
    }
}

/// The end of a transaction.
#[derive(Clone, Copy)]
pub struct CompletionEvent {
    /// The event that reports it.
    pub event: EventType,
    /// Name of the operation, for messages: `write`.
    pub operation: &'static str,
}

/// Passes `command` to `repeat` as a transaction that is launched by low-latency write or doorbell.
///
/// # Errors
///
/// The failure of `repeat`.
pub fn measure<const WORDS: usize, C: PreparedCommand<WORDS>, R: RepeatTransaction>(
    initiator: &mut Initiator,
    command: C,
    completion: CompletionEvent,
    low_latency: bool,
    repeat: R,
) -> Result<R::Output, Failure> {
    let Initiator { transmit, events, buffer, .. } = initiator;
    // The launch is part of the type: the loop does not branch on it.
    if low_latency {
        repeat.run(&mut TimedOperation::<WORDS, C, true> {
            transmit,
            events,
            buffer,
            command,
            completion,
        })
    } else {
        repeat.run(&mut TimedOperation::<WORDS, C, false> {
            transmit,
            events,
            buffer,
            command,
            completion,
        })
    }
}

/// The message about an operation of this name that cannot be issued. Unlike `format_args!`, it
/// costs nothing in the timed part.
pub struct NotIssued(pub &'static str);

impl fmt::Display for NotIssued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot issue a {}", self.0)
    }
}

struct TimedOperation<'a, const WORDS: usize, C, const LOW_LATENCY: bool> {
    transmit: &'a mut TransmitQueue,
    events: &'a mut EventQueue,
    buffer: &'a mut MemoryRegion,
    command: C,
    completion: CompletionEvent,
}

impl<const WORDS: usize, C: PreparedCommand<WORDS>, const LOW_LATENCY: bool> Transaction
    for TimedOperation<'_, WORDS, C, LOW_LATENCY>
{
    // One copy for warm-up and measured iterations. The call is outside the timed part.
    #[inline(never)]
    fn iterate<K: Clock>(
        &mut self,
        clock: &K,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<Timed, Failure> {
        let start = clock.now();
        let command = self.command.prepared();
        let issued = if LOW_LATENCY {
            self.transmit.issue_low_latency(command)
        } else {
            self.transmit.issue_doorbell(command)
        };
        issued.nic(NotIssued(self.completion.operation))?;
        let poll = || self.events.poll().map(|event| (event.event_type(), event.return_code()));
        let (seen, end) = policy.wait(clock, self.completion.operation, poll)?;
        if seen != (self.completion.event, ReturnCode::OK) {
            return Err(self.completion.unexpected(seen));
        }
        self.events.acknowledge();
        self.command.advance(self.transmit, self.buffer)?;
        Ok(Timed { start, latency: end.saturating_sub(start) })
    }
}

impl CompletionEvent {
    #[cold]
    fn unexpected(&self, (event, code): (EventType, ReturnCode)) -> Failure {
        explain::unexpected(self.operation, event, self.event, code)
    }
}
