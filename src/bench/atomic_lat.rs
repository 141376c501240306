//! `atomic-lat`: latency of one-sided atomic memory operations (AMO).
//!
//! The client's operation changes a value in the server's memory. The client waits for the ACK, or,
//! if the operation fetches, for the REPLY, after which the previous value is in its buffer.
//! Operands advance between operations, outside the timed part, so that each operation changes the
//! target.

use cxi::records::{DmaAmoCmd, IdcAmoCmd};
use cxi::{EventType, MemoryRegion, Prepared, TransmitQueue, idc_amo_words};

use super::api::{Benchmark, OneSidedLatency, Peer, RepeatTransaction, Visitor};
use super::common::{
    Command, Completion, Entry, IdcContext, Initiator, Match, NotIssued, OneEnd, Operands, Reports,
    Target, defaults, initial_target, measure,
};
use crate::advice::Explain;
use crate::atomic::Atomic;
use crate::endpoint::Endpoint;
use crate::error::{Context, Failure};
use crate::plan::buffers::Buffer;
use crate::run_options::{RunOptions, Side};
use crate::tool::{FullBuffers, Opt, Tool};

/// Length of the server's buffer, and offset of the fetched value in the client's buffer, in bytes.
const ELEMENT: u64 = 64;

/// Match bits of operations and entry (tools.md 3.4).
const MATCH_BITS: u64 = 1;

const OPERATION: &str = "atomic operation";
const NOT_ISSUED: NotIssued = NotIssued(OPERATION);

/// The benchmark.
pub struct Bench;

impl Benchmark for Bench {
    const TOOL: Tool = Tool {
        name: "atomic-lat",
        legacy_name: "cxi_atomic_lat",
        wire_version: "2.4.0",
        title: "CXI Atomic Memory Operation Latency Test",
        about: "Atomic memory operation (AMO) latency",
        operation: "AMO",
        operations: "Ops",
        size_column: "AMO Size[B]",
        own_options: &[
            Opt::Iters,
            Opt::Duration,
            Opt::Warmup,
            Opt::LatencyGap,
            Opt::AtomicOp,
            Opt::CswapOp,
            Opt::AtomicType,
            Opt::Fetching,
            Opt::Matching,
            Opt::Unrestricted,
            Opt::NoIdc,
            Opt::NoLl,
            Opt::ReportAll,
        ],
        defaults: RunOptions {
            atomic: Some(defaults::SUM),
            ..defaults::LATENCY
        },
        buffers: FullBuffers::None,
    };

    type Resources = OneEnd;

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        visitor.one_sided::<Self>()
    }

    fn set_up(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
        side: Side,
    ) -> Result<OneEnd, Failure> {
        Ok(match side {
            Side::Client => OneEnd::Initiator(initiator(endpoint, peer, run)?),
            Side::Server => OneEnd::Target(target(endpoint, peer, run)?),
        })
    }

    fn close(resources: OneEnd) -> Result<(), Failure> {
        resources.close()
    }
}

fn initiator(endpoint: &Endpoint, peer: Peer<'_>, run: &RunOptions) -> Result<Initiator, Failure> {
    let fetching = atomic(run)?.fetching;
    let length = if fetching { 2 * ELEMENT } else { ELEMENT };
    let mut initiator = Initiator::new(endpoint, peer, Buffer::small(length))?;
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

fn target(endpoint: &Endpoint, peer: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
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
    Target::new(
        endpoint,
        peer.portal,
        Buffer::small(ELEMENT),
        &contents,
        entry,
    )
}

impl OneSidedLatency for Bench {
    fn measure<R: RepeatTransaction>(
        resources: &mut OneEnd,
        run: &RunOptions,
        _size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let initiator = resources.initiator()?;
        let atomic = atomic(run)?;
        let completion = Completion {
            event: if atomic.fetching {
                EventType::REPLY
            } else {
                EventType::ACK
            },
            operation: OPERATION,
        };
        let operands = Operands::new(atomic);
        if run.idc().is_on() {
            let command = idc_command(initiator, atomic, operands);
            // The size of the command is part of the type of the loop.
            if idc_amo_words(&command, atomic.fetching) == SMALL {
                let amo = IdcAmo::<SMALL>::new(initiator, command, atomic, operands)?;
                measure(initiator, amo, completion, run.use_ll, repeat)
            } else {
                let amo = IdcAmo::<LARGE>::new(initiator, command, atomic, operands)?;
                measure(initiator, amo, completion, run.use_ll, repeat)
            }
        } else {
            let command = DmaAmo::new(initiator, run, atomic, operands)?;
            measure(initiator, command, completion, run.use_ll, repeat)
        }
    }
}

/// Returns the atomic operation of the run. Each plan of this tool has one.
fn atomic(run: &RunOptions) -> Result<Atomic, Failure> {
    run.atomic
        .ok_or_else(|| Failure::environment("the run has no atomic operation"))
}

/// Words of an immediate command in the small and in the large form (nic.md 3.7).
const SMALL: usize = 4;
const LARGE: usize = 8;

/// Returns the immediate command of the first operation.
fn idc_command(initiator: &Initiator, atomic: Atomic, operands: Operands) -> IdcAmoCmd {
    let mut command = IdcAmoCmd::new();
    command
        .set_dfa(initiator.dfa())
        .set_atomic_op(atomic.op as u8)
        .set_cswap_op(atomic.cswap as u8)
        .set_atomic_type(atomic.ty as u8);
    if atomic.fetching {
        command.set_local_addr(initiator.buffer.iova(ELEMENT as usize));
    }
    set_operands(&mut command, operands);
    command
}

fn set_operands(command: &mut IdcAmoCmd, operands: Operands) {
    let (first, second) = (words(operands.first), words(operands.second));
    command
        .set_op1_word1(first[0])
        .set_op1_word2(first[1])
        .set_op2_word1(second[0])
        .set_op2_word2(second[1]);
}

/// An operation with both operands in the command.
struct IdcAmo<const WORDS: usize> {
    prepared: Prepared<WORDS>,
    command: IdcAmoCmd,
    fetching: bool,
    operands: Operands,
}

impl<const WORDS: usize> IdcAmo<WORDS> {
    fn new(
        initiator: &Initiator,
        command: IdcAmoCmd,
        atomic: Atomic,
        operands: Operands,
    ) -> Result<Self, Failure> {
        let prepared = initiator
            .transmit
            .prepare_idc_amo(&command, atomic.fetching);
        Ok(Self {
            prepared: prepared.nic(NOT_ISSUED)?,
            command,
            fetching: atomic.fetching,
            operands,
        })
    }
}

impl<const WORDS: usize> Command<WORDS> for IdcAmo<WORDS> {
    #[inline(always)]
    fn prepared(&self) -> &Prepared<WORDS> {
        &self.prepared
    }

    #[inline]
    fn advance(&mut self, transmit: &TransmitQueue, _: &mut MemoryRegion) -> Result<(), Failure> {
        self.operands.advance();
        set_operands(&mut self.command, self.operands);
        let prepared = transmit.prepare_idc_amo(&self.command, self.fetching);
        self.prepared = prepared.nic(NOT_ISSUED)?;
        Ok(())
    }
}

/// An operation whose operand 1 the NIC reads from the client's buffer.
struct DmaAmo {
    prepared: Prepared<16>,
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
    ) -> Result<Self, Failure> {
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
        set_memory_operands(&mut command, &mut initiator.buffer, operands)?;
        let prepared = initiator
            .transmit
            .prepare_dma_amo(&command, atomic.fetching);
        Ok(Self {
            prepared: prepared.nic(NOT_ISSUED)?,
            command,
            fetching: atomic.fetching,
            operands,
        })
    }
}

impl Command<16> for DmaAmo {
    #[inline(always)]
    fn prepared(&self) -> &Prepared<16> {
        &self.prepared
    }

    #[inline]
    fn advance(
        &mut self,
        transmit: &TransmitQueue,
        buffer: &mut MemoryRegion,
    ) -> Result<(), Failure> {
        self.operands.advance();
        set_memory_operands(&mut self.command, buffer, self.operands)?;
        let prepared = transmit.prepare_dma_amo(&self.command, self.fetching);
        self.prepared = prepared.nic(NOT_ISSUED)?;
        Ok(())
    }
}

/// Stores operand 1 in the buffer and operand 2 in the command.
#[inline]
fn set_memory_operands(
    command: &mut DmaAmoCmd,
    buffer: &mut MemoryRegion,
    operands: Operands,
) -> Result<(), Failure> {
    let copied = buffer.copy_in(0, &operands.first.to_le_bytes());
    copied.explain("cannot set the operand")?;
    let second = words(operands.second);
    command.set_op2_word1(second[0]).set_op2_word2(second[1]);
    Ok(())
}

/// Returns the two words of a value in a command, the low one first.
fn words(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}

#[cfg(test)]
#[path = "atomic_lat_tests.rs"]
mod tests;
