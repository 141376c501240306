//! `atomic-bw`: rate of one-sided atomic memory operations (AMO), in one direction or both.
//!
//! Each operation of a list changes an element of its own in the peer's memory. The NIC of the
//! initiator counts the ACKs or, if operations fetch, the REPLYs. Operands advance after each list,
//! so that each operation changes its element.

use cxi::records::{DmaAmoCmd, IdcAmoCmd};
use cxi::{EmitError, MemoryRegion, TransmitBatch};

use super::api::{Bandwidth, BenchmarkTask, Issued, Peer, RepeatLists, SizeOfRun};
use super::common::lists::{ListInitiator, Words};
use super::common::{
    Direction, ListCommand, ListOffsets, OneSided, Operands, SideResources, Target, atomics,
    measure_lists,
};
use facts::atomic::Atomic;
use facts::error::Failure;
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::tools;

/// Names of the operations, for messages.
const WORDS: Words = Words { operation: "atomic operation", doing: "atomic operations" };

/// The benchmark.
pub struct AtomicBandwidth;

impl OneSided for AtomicBandwidth {
    const TOOL: &'static Tool = &tools::ATOMIC_BW;
    const MOVES: Option<Direction> = None;

    type Initiator = ListInitiator;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.bandwidth::<Self>()
    }

    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<ListInitiator, Failure> {
        let atomic = run.atomic()?;
        let list_size = run.lists()?.list_size;
        let buffer = atomics::initiator_buffer(atomic, list_size.into());
        let mut lists = ListInitiator::new(peer, buffer, list_size.into(), WORDS)?;
        if peer.own.hrp(run).is_on() {
            lists.allow_high_rate(peer.own, run.min_size)?;
        }
        if run.idc().is_on() {
            let context = atomics::idc_context(run, atomic, Some(lists.counter()));
            lists.initiator.set_idc_context(context)?;
        } else {
            atomics::set_first_operand(
                &lists.initiator.buffer,
                Operands::new(atomic),
                list_size.into(),
            )?;
        }
        Ok(lists)
    }

    fn target(peer: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        atomics::target(peer, run, run.lists()?.list_size.into())
    }

    fn verify(
        resources: &SideResources<ListInitiator>,
        size: SizeOfRun<'_>,
        issued: Issued,
    ) -> Result<u64, Failure> {
        atomics::check(resources, size.run, size.run.lists()?.list_size.into(), issued)
    }
}

impl Bandwidth for AtomicBandwidth {
    fn measure<R: RepeatLists>(
        pairs: &mut [SideResources<ListInitiator>],
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let offsets = ListOffsets::new(run, size)?;
        let atomic = run.atomic()?;
        for resources in &mut *pairs {
            resources.initiator()?.select_profile(size)?;
        }
        if run.idc().is_on() {
            let command = |lists: &ListInitiator| ListIdcAmo::new(lists, offsets, atomic);
            measure_lists(pairs, offsets, command, repeat)
        } else {
            let command = |lists: &ListInitiator| ListDmaAmo::new(lists, offsets, run, atomic);
            measure_lists(pairs, offsets, command, repeat)
        }
    }
}

/// The local address of the result of the first element. The results of a list are behind the
/// operands.
fn results(lists: &ListInitiator, offsets: ListOffsets, atomic: Atomic) -> u64 {
    if atomic.fetching {
        let offset = atomics::ELEMENT * offsets.list_size();
        lists.initiator.buffer.iova(offset as usize)
    } else {
        0
    }
}

/// Operations with both operands in the command.
struct ListIdcAmo {
    command: IdcAmoCmd,
    atomic: Atomic,
    operands: Operands,
    results: u64,
}

impl ListIdcAmo {
    fn new(lists: &ListInitiator, offsets: ListOffsets, atomic: Atomic) -> Self {
        let operands = Operands::new(atomic);
        let results = results(lists, offsets, atomic);
        Self {
            command: atomics::idc_command(&lists.initiator, atomic, operands, results),
            atomic,
            operands,
            results,
        }
    }
}

impl ListCommand for ListIdcAmo {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.command.set_remote_offset(offset);
        if self.atomic.fetching {
            self.command.set_local_addr(self.results + offset);
        }
        batch.emit_idc_amo(&self.command, self.atomic.fetching)
    }

    #[inline]
    fn advance(&mut self, _: &MemoryRegion) -> Result<(), Failure> {
        self.operands.advance();
        atomics::set_operands(&mut self.command, self.operands);
        Ok(())
    }
}

/// Operations whose operand 1 the NIC reads from the initiator's buffer, from an element of its own
/// for each.
struct ListDmaAmo {
    command: DmaAmoCmd,
    atomic: Atomic,
    operands: Operands,
    elements: u64,
    local: u64,
    results: u64,
}

impl ListDmaAmo {
    fn new(lists: &ListInitiator, offsets: ListOffsets, run: &RunOptions, atomic: Atomic) -> Self {
        let operands = Operands::new(atomic);
        let initiator = &lists.initiator;
        let results = results(lists, offsets, atomic);
        let mut command = atomics::dma_command(initiator, run, atomic, operands, results);
        command
            .set_event_success_disable(true)
            .set_event_ct_ack(!atomic.fetching)
            .set_event_ct_reply(atomic.fetching)
            .set_ct(lists.counter());
        Self {
            command,
            atomic,
            operands,
            elements: offsets.list_size(),
            local: initiator.buffer.iova(0),
            results,
        }
    }
}

impl ListCommand for ListDmaAmo {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.command.set_remote_offset(offset).set_local_read_addr(self.local + offset);
        if self.atomic.fetching {
            self.command.set_local_write_addr(self.results + offset);
        }
        batch.emit_dma_amo(&self.command, self.atomic.fetching)
    }

    #[inline]
    fn advance(&mut self, buffer: &MemoryRegion) -> Result<(), Failure> {
        let first = self.operands.first;
        self.operands.advance();
        atomics::set_second_operand(&mut self.command, self.operands);
        if self.operands.first == first {
            return Ok(());
        }
        atomics::set_first_operand(buffer, self.operands, self.elements)
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::bench::api::Benchmark;
    use crate::bench::common::applied_times;
    use crate::bench::common::operands_tests::combinations;
    use crate::bench::testing::{TimesLists, both_ends, endpoint};
    use plan::testing::plan;

    /// Lists of each run, and operations of each list.
    const LISTS: u64 = 9;
    const LIST_SIZE: u16 = 3;

    fn elements(buffer: &MemoryRegion, first: u16) -> [[u8; 16]; LIST_SIZE as usize] {
        std::array::from_fn(|at| {
            let mut bytes = [0; 16];
            let offset = (usize::from(first) + at) * atomics::ELEMENT as usize;
            buffer.copy_out(offset, &mut bytes).unwrap();
            bytes
        })
    }

    /// Issues every combination with every set of options. Each element of the list gets its value
    /// and its operands before the first list.
    #[test]
    fn t10_each_element_and_fetched_value_match_model() {
        let options = format!("--list-size={LIST_SIZE}");
        let plan = plan("atomic-bw", &[&options]);
        let mut runs = 0;
        for atomic in combinations() {
            // An interface takes no number of a released counter again (libcxi.md 10).
            let endpoint = endpoint(&plan);
            for flags in 0..16 {
                let flag = |bit: u32| flags >> bit & 1 == 1;
                let run = RunOptions {
                    use_idc: flag(0),
                    unrestricted: flag(1),
                    atomic: Some(Atomic { fetching: flag(2), matching: flag(3), ..atomic }),
                    ..plan.run
                };
                let run = run.checked().unwrap();
                let (mut client, server) = both_ends::<AtomicBandwidth>(&endpoint, &run);
                let pairs = slice::from_mut(&mut client);
                AtomicBandwidth::measure(pairs, &run, run.max_size, TimesLists(LISTS)).unwrap();

                let target = server.target.as_ref().unwrap();
                let expected = applied_times(atomic, LISTS).to_le_bytes();
                for element in elements(&target.buffer, 0) {
                    assert_eq!(element, expected, "{run:?}");
                }
                if flag(2) {
                    let size = atomic.ty.size() as usize;
                    let before = applied_times(atomic, LISTS - 1).to_le_bytes();
                    let buffer = &client.initiator().unwrap().initiator.buffer;
                    for element in elements(buffer, LIST_SIZE) {
                        assert_eq!(element[..size], before[..size], "{run:?}");
                    }
                }
                AtomicBandwidth::close(client).unwrap();
                AtomicBandwidth::close(server).unwrap();
                runs += 1;
            }
            endpoint.close().unwrap();
        }
        assert_eq!(runs, 165 * 16);
    }
}
