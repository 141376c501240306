//! One command, repeated: issued, its event awaited. The command of a write, and unrestricted
//! reads: full GET commands to a list entry without matching (nic.md 3.9).

use std::fmt;

use cxi::{
    EventQueue, EventType, IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED, MemoryRegion, Prepared,
    ReturnCode, TransmitQueue,
};
use facts::advice::{self, Situation};
use facts::error::{Context, Failure, Kind};
use measure::{Clock, WaitPolicy};
use node::explain;
use plan::run_options::RunOptions;

use crate::bench::api::{RepeatTransaction, Timed, Transaction};
use crate::bench::common::Initiator;

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

/// The command of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutKind {
    /// Immediate data.
    Immediate,
    /// DMA, restricted.
    Restricted,
    /// DMA, unrestricted: a full DMA command. A NOMATCH command is always restricted (nic.md 3.8):
    /// clearing its bit may have no effect (defect T4 of tools.md).
    Unrestricted,
}

impl PutKind {
    /// The command of writes of `size` bytes (defect T5 of tools.md: the legacy tools decide once
    /// for a range).
    pub fn of(run: &RunOptions, size: u64) -> Self {
        let limit = if run.unrestricted { IDC_MAX_UNRESTRICTED } else { IDC_MAX_RESTRICTED };
        if run.use_idc && size <= limit as u64 {
            Self::Immediate
        } else if run.unrestricted {
            Self::Unrestricted
        } else {
            Self::Restricted
        }
    }
}

/// Adds to a failure that the NIC reports that it may not execute unrestricted reads at all.
pub fn failed_full_get(failure: Failure) -> Failure {
    if failure.kind == Kind::Nic {
        failure.with_further_hint(advice::hint(Situation::UnrestrictedReads))
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use plan::tools::WRITE_LAT;

    use super::*;

    #[test]
    fn t4_t5_selects_command_for_each_size() {
        let run = RunOptions { min_size: 1, max_size: 4096, ..WRITE_LAT.defaults };
        assert_eq!(PutKind::of(&run, 224), PutKind::Immediate);
        assert_eq!(PutKind::of(&run, 225), PutKind::Restricted);
        let unrestricted = RunOptions { unrestricted: true, ..run };
        assert_eq!(PutKind::of(&unrestricted, 192), PutKind::Immediate);
        assert_eq!(PutKind::of(&unrestricted, 193), PutKind::Unrestricted);
        let without = RunOptions { use_idc: false, ..run };
        assert_eq!(PutKind::of(&without, 1), PutKind::Restricted);
    }

    #[test]
    fn names_restricted_reads_unless_the_peer_failed() {
        let own = advice::hint(Situation::UnrestrictedReads);
        let hint = |failure| failed_full_get(failure).hint.unwrap();
        assert!(own.contains("restricted reads") && own.contains("--unrestricted"));
        assert_eq!(hint(Failure::nic("no answer")), own);
        let known = Failure::nic("refused").with_hint("look there");
        assert_eq!(hint(known), format!("look there; {own}"));
        assert_eq!(hint(Failure::peer("gone")), "see what the peer printed");
    }
}
