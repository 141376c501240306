//! Commands and list entries of the atomic benchmarks.

use cxi::MemoryRegion;
use cxi::records::{DmaAmoCmd, IdcAmoCmd};

use crate::bench::api::{Issued, Peer};
use crate::bench::common::lists::Issuer;
use crate::bench::common::one_sided::SideResources;
use crate::bench::common::operands::{
    Operands, initial_target, target_after, target_after_additions,
};
use crate::bench::common::portals::{Entry, Match};
use crate::bench::common::{IdcContext, Initiator, Target};
use facts::advice::{Advise, Situation};
use facts::atomic::Atomic;
use facts::error::Failure;
use node::explain::Explain;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;

/// Bytes from one element to the next in the buffers (tools.md 3.5, 3.7). An element holds one
/// value.
pub const ELEMENT: u64 = 64;

/// Match bits of operations and entry (tools.md 3.4).
const MATCH_BITS: u64 = 1;

/// Allocates the target of operations on `elements` elements, each with the value before the first
/// operation.
pub fn target(peer: Peer<'_>, run: &RunOptions, elements: u64) -> Result<Target, Failure> {
    let atomic = run.atomic()?;
    let matching = atomic.matching.then_some(Match { initiator: 0, bits: MATCH_BITS, ignored: 0 });
    let entry = Entry { get: atomic.fetching, matching, ..Entry::for_puts(run) };
    let mut element = [0; ELEMENT as usize];
    let value = initial_target(atomic).to_le_bytes();
    element[..value.len()].copy_from_slice(&value);
    let contents = element.repeat(elements as usize);
    let buffer = Buffer::small(ELEMENT * elements);
    Target::new(peer, run, buffer, &contents, entry)
}

/// The buffer of an initiator: operand 1 of `elements` elements and, if operations fetch, their
/// results.
pub fn initiator_buffer(atomic: Atomic, elements: u64) -> Buffer {
    let parts = if atomic.fetching { 2 } else { 1 };
    Buffer::small(ELEMENT * elements * parts)
}

/// The context of immediate commands.
pub fn idc_context(run: &RunOptions, atomic: Atomic, counter: Option<u16>) -> IdcContext {
    IdcContext {
        restricted: run.restricted().is_on(),
        fetching: atomic.fetching,
        silent: counter.is_some(),
        counter,
    }
}

/// The immediate command of `operands` on the first element. It fetches to the local address
/// `result`.
pub fn idc_command(
    initiator: &Initiator,
    atomic: Atomic,
    operands: Operands,
    result: u64,
) -> IdcAmoCmd {
    let mut command = IdcAmoCmd::new();
    command
        .set_dfa(initiator.dfa())
        .set_atomic_op(atomic.op as u8)
        .set_cswap_op(atomic.cswap as u8)
        .set_atomic_type(atomic.ty as u8);
    if atomic.fetching {
        command.set_local_addr(result);
    }
    set_operands(&mut command, operands);
    command
}

/// Sets both operands of an immediate command.
#[inline]
pub fn set_operands(command: &mut IdcAmoCmd, operands: Operands) {
    let (first, second) = (words(operands.first), words(operands.second));
    command
        .set_op1_word1(first[0])
        .set_op1_word2(first[1])
        .set_op2_word1(second[0])
        .set_op2_word2(second[1]);
}

/// The DMA command of `operands` on the first element. The NIC reads operand 1 from the start of
/// the buffer ([`set_first_operand`]) and fetches to the local address `result`.
pub fn dma_command(
    initiator: &Initiator,
    run: &RunOptions,
    atomic: Atomic,
    operands: Operands,
    result: u64,
) -> DmaAmoCmd {
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
        command.set_write_lac(initiator.buffer.lac()).set_local_write_addr(result);
    }
    if atomic.matching {
        command.set_match_bits(MATCH_BITS);
    }
    set_second_operand(&mut command, operands);
    command
}

/// Sets operand 2 of a DMA command.
#[inline]
pub fn set_second_operand(command: &mut DmaAmoCmd, operands: Operands) {
    let second = words(operands.second);
    command.set_op2_word1(second[0]).set_op2_word2(second[1]);
}

/// Stores operand 1 of `elements` DMA commands in the initiator's buffer.
///
/// # Errors
///
/// A copy that fails.
#[inline]
pub fn set_first_operand(
    buffer: &MemoryRegion,
    operands: Operands,
    elements: u64,
) -> Result<(), Failure> {
    let first = operands.first.to_le_bytes();
    for element in 0..elements {
        buffer.copy_in((element * ELEMENT) as usize, &first).explain("cannot set the operand")?;
    }
    Ok(())
}

/// Checks the values that iterations of `elements` operations have changed in the target, and those
/// that the last iteration has fetched. Returns the number of bytes.
///
/// # Errors
///
/// Another value than the one of the model, and a copy that fails.
pub fn check<I: Issuer>(
    resources: &SideResources<I>,
    run: &RunOptions,
    elements: u64,
    issued: Issued,
) -> Result<u64, Failure> {
    let atomic = run.atomic()?;
    let changed = |count| Changed { atomic, elements, count };
    let mut checked = 0;
    if let Some(issuer) = &resources.initiator {
        checked += changed(issued.own).check_fetched(issuer.initiator())?;
    }
    if let (Some(target), Some(peer)) = (&resources.target, issued.peer) {
        checked += changed(peer).check_target(target)?;
    }
    Ok(checked)
}

/// The iterations of a run that have changed values.
#[derive(Clone, Copy)]
struct Changed {
    atomic: Atomic,
    /// Values that each iteration changes.
    elements: u64,
    /// Iterations.
    count: u64,
}

impl Changed {
    /// Checks the values of `target`. Returns the number of bytes.
    fn check_target(&self, target: &Target) -> Result<u64, Failure> {
        self.check(&target.buffer, 0, self.count, "the target buffer")
    }

    /// Checks the values that the last iteration of `initiator` has fetched, if it fetches. Returns
    /// the number of bytes.
    fn check_fetched(&self, initiator: &Initiator) -> Result<u64, Failure> {
        let Some(before) = self.count.checked_sub(1).filter(|_| self.atomic.fetching) else {
            return Ok(0);
        };
        let offset = ELEMENT * self.elements;
        self.check(&initiator.buffer, offset, before, "the fetched values")
    }

    /// Checks the values after `count` operations. The target's NIC may add instead; its file is
    /// not visible to the initiator, and an administrator may change it at any time.
    fn check(
        &self,
        buffer: &MemoryRegion,
        start: u64,
        count: u64,
        whose: &str,
    ) -> Result<u64, Failure> {
        let size = self.atomic.ty.size();
        let expected = target_after(self.atomic, count);
        let sum = target_after_additions(self.atomic, count);
        for element in 0..self.elements {
            let mut bytes = [0; 16];
            buffer
                .copy_out((start + element * ELEMENT) as usize, &mut bytes[..size as usize])
                .explain("cannot read a buffer")?;
            let found = u128::from_le_bytes(bytes);
            if found != expected && Some(found) != sum {
                let width = 2 + 2 * size as usize;
                let failure = Failure::nic(format!(
                    "size {size}: value {element} of {whose} is {found:#0width$x} \
                     (expected {expected:#0width$x} after {} operations)",
                    self.count
                ));
                return Err(failure.advised(Situation::WrongData));
            }
        }
        Ok(size * self.elements)
    }
}

/// The two words of a value in a command, the low one first.
fn words(value: u128) -> [u64; 2] {
    [value as u64, (value >> 64) as u64]
}
