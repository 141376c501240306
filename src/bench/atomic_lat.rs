//! `atomic-lat`: latency of one-sided atomic memory operations (AMO).
//!
//! The client's operation changes a value in the server's memory. The client waits for the ACK, or
//! for the REPLY that says that the value from before is in its buffer. Operands advance between
//! operations, outside the timed part, so that each operation really changes the target.

use cxi::records::{DmaAmoCmd, IdcAmoCmd};
use cxi::{EmitError, EventType, MemoryRegion, TransmitBatch};

use super::api::{Measurement, OneSidedLatency, Peer};
use super::common::{
    Command, Completion, Endpoint, Entry, IdcContext, Initiator, Match, Operands, Reports, Target,
    initial_target, measure,
};
use crate::atomic::Atomic;
use crate::error::Failure;
use crate::plan::RunOptions;

/// Length of the server's buffer, and where in the client's the fetched value goes, in bytes.
const ELEMENT: u64 = 64;

/// Match bits of operations and entry (tools.md 3.4).
const MATCH_BITS: u64 = 1;

/// The benchmark.
pub struct AtomicLat;

impl OneSidedLatency for AtomicLat {
    type Initiator = Initiator;
    type Target = Target;

    fn initiator(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
    ) -> Result<Initiator, Failure> {
        let fetching = atomic(run)?.fetching;
        let length = if fetching { 2 * ELEMENT } else { ELEMENT };
        let mut initiator = Initiator::new(endpoint, peer.address, length)?;
        if run.idc().is_on() {
            initiator.set_idc_context(IdcContext {
                restricted: run.restricted().is_on(),
                fetching,
                silent: false,
                counter: None,
            })?;
        }
        Ok(initiator)
    }

    fn target(endpoint: &Endpoint, _: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        let atomic = atomic(run)?;
        let matching = atomic.matching.then_some(Match {
            initiator: 0,
            bits: MATCH_BITS,
            ignored: 0,
        });
        let contents = initial_target(atomic).to_le_bytes();
        let entry = Entry {
            put: true,
            get: atomic.fetching,
            matching,
            reports: Reports::Nothing,
            relaxed: true,
            buffer_id: 0,
        };
        Target::new(endpoint, ELEMENT, &contents, entry)
    }

    fn measure<M: Measurement>(
        initiator: &mut Initiator,
        run: &RunOptions,
        _size: u64,
        measurement: M,
    ) -> Result<M::Output, Failure> {
        let atomic = atomic(run)?;
        let completion = Completion {
            event: if atomic.fetching {
                EventType::REPLY
            } else {
                EventType::ACK
            },
            operation: "atomic operation",
        };
        let operands = Operands::new(atomic);
        if run.idc().is_on() {
            let command = IdcAmo::new(initiator, atomic, operands);
            measure(initiator, command, completion, run.use_ll, measurement)
        } else {
            let command = DmaAmo::new(initiator, run, atomic, operands);
            measure(initiator, command, completion, run.use_ll, measurement)
        }
    }

    fn close_initiator(initiator: Initiator) -> Result<(), Failure> {
        initiator.close()
    }

    fn close_target(target: Target) -> Result<(), Failure> {
        target.close()
    }
}

/// What the run does. A plan of this tool has it.
fn atomic(run: &RunOptions) -> Result<Atomic, Failure> {
    run.atomic
        .ok_or_else(|| Failure::environment("the run has no atomic operation"))
}

/// Both operands travel in the command.
struct IdcAmo {
    command: IdcAmoCmd,
    fetching: bool,
    operands: Operands,
}

impl IdcAmo {
    fn new(initiator: &Initiator, atomic: Atomic, operands: Operands) -> Self {
        let mut command = IdcAmoCmd::new();
        command
            .set_dfa(initiator.dfa())
            .set_atomic_op(atomic.op as u8)
            .set_cswap_op(atomic.cswap as u8)
            .set_atomic_type(atomic.ty as u8);
        if atomic.fetching {
            command.set_local_addr(initiator.buffer.iova(ELEMENT as usize));
        }
        let mut amo = Self {
            command,
            fetching: atomic.fetching,
            operands,
        };
        amo.set_operands();
        amo
    }

    #[inline]
    fn set_operands(&mut self) {
        let (first, second) = (words(self.operands.first), words(self.operands.second));
        self.command
            .set_op1_word1(first[0])
            .set_op1_word2(first[1])
            .set_op2_word1(second[0])
            .set_op2_word2(second[1]);
    }
}

impl Command for IdcAmo {
    #[inline(always)]
    fn emit(&self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        batch.emit_idc_amo(&self.command, self.fetching)
    }

    #[inline]
    fn advance(&mut self, _: &mut MemoryRegion) {
        self.operands.advance();
        self.set_operands();
    }
}

/// The NIC reads operand 1 from the client's buffer.
struct DmaAmo {
    command: DmaAmoCmd,
    fetching: bool,
    operands: Operands,
}

impl DmaAmo {
    fn new(
        initiator: &mut Initiator,
        run: &RunOptions,
        atomic: Atomic,
        operands: Operands,
    ) -> Self {
        let mut command = DmaAmoCmd::new();
        command
            .set_index_ext(initiator.index_ext())
            .set_lac(initiator.buffer.lac())
            .set_event_send_disable(true)
            .set_restricted(run.restricted().is_on())
            .set_dfa(initiator.dfa())
            .set_eq(initiator.events.number())
            .set_atomic_op(atomic.op as u8)
            .set_cswap_op(atomic.cswap as u8)
            .set_atomic_type(atomic.ty as u8)
            .set_local_read_addr(initiator.buffer.iova(0));
        if atomic.fetching {
            command
                .set_write_lac(initiator.buffer.lac())
                .set_local_write_addr(initiator.buffer.iova(ELEMENT as usize));
        }
        if atomic.matching {
            command.set_match_bits(MATCH_BITS);
        }
        let mut amo = Self {
            command,
            fetching: atomic.fetching,
            operands,
        };
        amo.set_operands(&mut initiator.buffer);
        amo
    }

    #[inline]
    fn set_operands(&mut self, buffer: &mut MemoryRegion) {
        buffer.copy_in(0, &self.operands.first.to_le_bytes());
        let second = words(self.operands.second);
        self.command
            .set_op2_word1(second[0])
            .set_op2_word2(second[1]);
    }
}

impl Command for DmaAmo {
    #[inline(always)]
    fn emit(&self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        batch.emit_dma_amo(&self.command, self.fetching)
    }

    #[inline]
    fn advance(&mut self, buffer: &mut MemoryRegion) {
        self.operands.advance();
        self.set_operands(buffer);
    }
}

/// A value in the two words of a command, the low one first.
fn words(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

#[cfg(test)]
#[path = "atomic_lat_tests.rs"]
mod tests;
