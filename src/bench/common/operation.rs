//! One command, repeated: written, launched, its event awaited.

use std::fmt;

use cxi::records::{FullDmaCmd, NomatchDmaCmd};
use cxi::{
    EmitError, EventQueue, EventType, MemoryRegion, ReturnCode, TransmitBatch, TransmitQueue,
};

use super::Initiator;
use crate::advice;
use crate::bench::api::{RepeatTransaction, Transaction};
use crate::error::{Context, Failure};
use crate::measure::{Clock, WaitPolicy};

/// A command that is made before the loop and written into the queue inside the timed part.
pub trait Command {
    /// Writes the command into `batch`.
    fn emit(&self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError>;

    /// Prepares the next command, outside the timed part. `buffer` is the initiator's.
    #[inline(always)]
    fn advance(&mut self, _buffer: &mut MemoryRegion) -> Result<(), Failure> {
        Ok(())
    }
}

/// A restricted DMA command: the NIC moves the data from or to the client's buffer.
pub struct NomatchDma(pub NomatchDmaCmd);

impl Command for NomatchDma {
    #[inline(always)]
    fn emit(&self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        batch.emit_nomatch_dma(&self.0)
    }
}

/// An unrestricted DMA command.
pub struct FullDma(pub FullDmaCmd);

impl Command for FullDma {
    #[inline(always)]
    fn emit(&self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        batch.emit_dma(&self.0)
    }
}

/// The end of a transaction.
#[derive(Clone, Copy)]
pub struct Completion {
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
pub fn measure<C: Command, R: RepeatTransaction>(
    initiator: &mut Initiator,
    command: C,
    completion: Completion,
    low_latency: bool,
    repeat: R,
) -> Result<R::Output, Failure> {
    let Initiator {
        transmit,
        events,
        buffer,
        ..
    } = initiator;
    // The launch is part of the type: the loop does not branch on it.
    if low_latency {
        repeat.run(&mut Operation::<C, true> {
            transmit,
            events,
            buffer,
            command,
            completion,
        })
    } else {
        repeat.run(&mut Operation::<C, false> {
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

struct Operation<'a, C, const LOW_LATENCY: bool> {
    transmit: &'a mut TransmitQueue,
    events: &'a mut EventQueue,
    buffer: &'a mut MemoryRegion,
    command: C,
    completion: Completion,
}

impl<C: Command, const LOW_LATENCY: bool> Transaction for Operation<'_, C, LOW_LATENCY> {
    #[inline(always)]
    fn iterate<K: Clock>(
        &mut self,
        clock: &K,
        policy: &mut WaitPolicy<'_>,
    ) -> Result<u64, Failure> {
        let start = clock.now();
        let mut batch = self.transmit.batch();
        self.command
            .emit(&mut batch)
            .nic(NotIssued(self.completion.operation))?;
        if LOW_LATENCY {
            batch.commit_low_latency();
        } else {
            batch.commit_doorbell();
        }
        let poll = || {
            self.events
                .poll()
                .map(|event| (event.event_type(), event.return_code()))
        };
        let (seen, end) = policy.wait(clock, self.completion.operation, poll)?;
        if seen != (self.completion.event, ReturnCode::OK) {
            return Err(self.completion.unexpected(seen));
        }
        self.events.acknowledge();
        self.command.advance(self.buffer)?;
        Ok(end - start)
    }
}

impl Completion {
    #[cold]
    fn unexpected(&self, (event, code): (EventType, ReturnCode)) -> Failure {
        advice::unexpected(self.operation, event, self.event, code)
    }
}
