//! `atomic-lat`: latency of one-sided atomic memory operations (AMO).
//!
//! The client's operation changes a value in the server's memory. The client waits for the ACK, or,
//! if the operation fetches, for the REPLY, after which the previous value is in its buffer.
//! Operands advance between operations, outside the timed part, so that each operation changes the
//! target.

use cxi::records::{DmaAmoCmd, IdcAmoCmd};
use cxi::{EventType, MemoryRegion, Prepared, TransmitQueue, idc_amo_words};

use super::api::{BenchmarkTask, Issued, OneSidedLatency, Peer, RepeatTransaction, SizeOfRun};
use super::common::atomics::{self, ELEMENT};
use super::common::{
    CompletionEvent, Direction, Initiator, NotIssued, OneSided, Operands, PreparedCommand,
    SideResources, Target, measure,
};
use facts::atomic::Atomic;
use facts::error::{Context, Failure};
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::tools;

const OPERATION: &str = "atomic operation";
const NOT_ISSUED: NotIssued = NotIssued(OPERATION);

/// The benchmark.
pub struct AtomicLatency;

impl OneSided for AtomicLatency {
    const TOOL: &'static Tool = &tools::ATOMIC_LAT;
    const MOVES: Option<Direction> = None;

    type Initiator = Initiator;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.one_sided::<Self>()
    }

    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<Initiator, Failure> {
        let atomic = run.atomic()?;
        let buffer = atomics::initiator_buffer(atomic, 1);
        let mut initiator = Initiator::new(peer, buffer)?;
        if run.idc().is_on() {
            initiator.set_idc_context(atomics::idc_context(run, atomic, None))?;
        }
        Ok(initiator)
    }

    fn target(peer: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        atomics::target(peer, run, 1)
    }

    fn verify(
        resources: &SideResources<Initiator>,
        size: SizeOfRun<'_>,
        issued: Issued,
    ) -> Result<u64, Failure> {
        atomics::check(resources, size.run, 1, issued)
    }
}

impl OneSidedLatency for AtomicLatency {
    fn measure<R: RepeatTransaction>(
        resources: &mut SideResources<Initiator>,
        run: &RunOptions,
        _size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let initiator = resources.initiator()?;
        let atomic = run.atomic()?;
        let completion = CompletionEvent {
            event: if atomic.fetching { EventType::REPLY } else { EventType::ACK },
            operation: OPERATION,
        };
        let operands = Operands::new(atomic);
        if run.idc().is_on() {
            let result = result(initiator, atomic);
            let command = atomics::idc_command(initiator, atomic, operands, result);
            // The size of the command is part of the type of the loop.
            if idc_amo_words(&command, atomic.fetching) == SMALL {
                let amo = SingleIdcAmo::<SMALL>::new(initiator, command, atomic, operands)?;
                measure(initiator, amo, completion, run.use_ll, repeat)
            } else {
                let amo = SingleIdcAmo::<LARGE>::new(initiator, command, atomic, operands)?;
                measure(initiator, amo, completion, run.use_ll, repeat)
            }
        } else {
            let command = SingleDmaAmo::new(initiator, run, atomic, operands)?;
            measure(initiator, command, completion, run.use_ll, repeat)
        }
    }
}

/// Words of an immediate command in the small and in the large form (nic.md 3.7).
const SMALL: usize = 4;
const LARGE: usize = 8;

/// The local address of the fetched value, behind operand 1.
fn result(initiator: &Initiator, atomic: Atomic) -> u64 {
    if atomic.fetching { initiator.buffer.iova(ELEMENT as usize) } else { 0 }
}

/// An operation with both operands in the command.
struct SingleIdcAmo<const WORDS: usize> {
    prepared: Prepared<WORDS>,
    command: IdcAmoCmd,
    fetching: bool,
    operands: Operands,
}

impl<const WORDS: usize> SingleIdcAmo<WORDS> {
    fn new(
        initiator: &Initiator,
        command: IdcAmoCmd,
        atomic: Atomic,
        operands: Operands,
    ) -> Result<Self, Failure> {
        let prepared = initiator.transmit.prepare_idc_amo(&command, atomic.fetching);
        Ok(Self {
            prepared: prepared.nic(NOT_ISSUED)?,
            command,
            fetching: atomic.fetching,
            operands,
        })
    }
}

impl<const WORDS: usize> PreparedCommand<WORDS> for SingleIdcAmo<WORDS> {
    #[inline(always)]
    fn prepared(&self) -> &Prepared<WORDS> {
        &self.prepared
    }

    #[inline]
    fn advance(&mut self, transmit: &TransmitQueue, _: &mut MemoryRegion) -> Result<(), Failure> {
        self.operands.advance();
        atomics::set_operands(&mut self.command, self.operands);
        let prepared = transmit.prepare_idc_amo(&self.command, self.fetching);
        self.prepared = prepared.nic(NOT_ISSUED)?;
        Ok(())
    }
}

/// An operation whose operand 1 the NIC reads from the client's buffer.
struct SingleDmaAmo {
    prepared: Prepared<16>,
    command: DmaAmoCmd,
    fetching: bool,
    operands: Operands,
}

impl SingleDmaAmo {
    fn new(
        initiator: &mut Initiator,
        run: &RunOptions,
        atomic: Atomic,
        operands: Operands,
    ) -> Result<Self, Failure> {
        let result = result(initiator, atomic);
        let command = atomics::dma_command(initiator, run, atomic, operands, result);
        atomics::set_first_operand(&initiator.buffer, operands, 1)?;
        let prepared = initiator.transmit.prepare_dma_amo(&command, atomic.fetching);
        Ok(Self {
            prepared: prepared.nic(NOT_ISSUED)?,
            command,
            fetching: atomic.fetching,
            operands,
        })
    }
}

impl PreparedCommand<16> for SingleDmaAmo {
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
        atomics::set_first_operand(buffer, self.operands, 1)?;
        atomics::set_second_operand(&mut self.command, self.operands);
        let prepared = transmit.prepare_dma_amo(&self.command, self.fetching);
        self.prepared = prepared.nic(NOT_ISSUED)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::api::Benchmark;
    use crate::bench::common::applied_times;
    use crate::bench::common::operands_tests::combinations;
    use crate::bench::testing::{Times, both_ends, endpoint};
    use plan::testing::plan;

    /// Issues every combination with every set of options (T9, T11, T12).
    #[test]
    fn t9_target_and_fetched_value_match_model() {
        let plan = plan("atomic-lat", &[]);
        let endpoint = endpoint(&plan);
        let mut runs = 0;
        for atomic in combinations() {
            for flags in 0..16 {
                let flag = |bit: u32| flags >> bit & 1 == 1;
                let run = RunOptions {
                    use_idc: flag(0),
                    unrestricted: flag(1),
                    atomic: Some(Atomic { fetching: flag(2), matching: flag(3), ..atomic }),
                    ..plan.run
                };
                let run = run.checked().unwrap();
                let (mut client, server) = both_ends::<AtomicLatency>(&endpoint, &run);
                AtomicLatency::measure(&mut client, &run, run.max_size, Times(9)).unwrap();

                let size = atomic.ty.size() as usize;
                let mut bytes = [0; 16];
                let target = server.target.as_ref().unwrap();
                target.buffer.copy_out(0, &mut bytes).unwrap();
                let expected = applied_times(atomic, 9).to_le_bytes();
                assert_eq!(bytes, expected, "{run:?}");
                if flag(2) {
                    let mut fetched = [0; 16];
                    let buffer = &client.initiator().unwrap().buffer;
                    buffer.copy_out(ELEMENT as usize, &mut fetched).unwrap();
                    let before = applied_times(atomic, 8).to_le_bytes();
                    assert_eq!(fetched[..size], before[..size], "{run:?}");
                }
                AtomicLatency::close(client).unwrap();
                AtomicLatency::close(server).unwrap();
                runs += 1;
            }
        }
        // 12 operations and 5 more comparisons on integers, and others: see `atomic`.
        assert_eq!(runs, 165 * 16);
        endpoint.close().unwrap();
    }
}
