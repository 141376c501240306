//! The commands of the operations of a list.

use cxi::records::{FullDmaCmd, IdcHdr, NomatchDmaCmd};
use cxi::{EmitError, IDC_MAX_RESTRICTED, MemoryRegion, TransmitBatch};

use super::lists::ListInitiator;
use super::{Direction, Initiator, Numbering, PERIOD};
use facts::error::Failure;

/// A command that is issued once for each operation of a list.
pub trait ListCommand: Send {
    /// Writes the command of the operation at `offset` of both buffers.
    ///
    /// # Errors
    ///
    /// A command that the queue does not take.
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError>;

    /// Prepares the next list; `buffer` is the initiator's.
    ///
    /// # Errors
    ///
    /// A copy that fails.
    #[inline(always)]
    fn advance(&mut self, _buffer: &MemoryRegion) -> Result<(), Failure> {
        Ok(())
    }
}

/// An immediate data put of numbered bytes.
pub struct ImmediatePut {
    header: IdcHdr,
    /// One period of the buffer's contents, followed by the longest payload.
    payload: [u8; PERIOD as usize + IDC_MAX_RESTRICTED],
    length: usize,
}

impl ImmediatePut {
    /// Creates puts of `size` bytes, at most [`IDC_MAX_RESTRICTED`].
    pub fn new(initiator: &Initiator, size: u64, numbering: Numbering) -> Self {
        Self {
            header: initiator.idc_header(),
            payload: std::array::from_fn(|at| numbering.byte(at as u64)),
            length: size as usize,
        }
    }

    /// Writes the command of an empty put at the start of the entry.
    ///
    /// # Errors
    ///
    /// A command that the queue does not take.
    #[inline(always)]
    pub fn emit_empty(&mut self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        self.header.set_remote_offset(0);
        batch.emit_idc_put(&self.header, &[])
    }
}

impl ListCommand for ImmediatePut {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.header.set_remote_offset(offset);
        // The bytes of a numbered buffer at this offset.
        let start = (offset % PERIOD) as usize;
        batch.emit_idc_put(&self.header, &self.payload[start..start + self.length])
    }
}

/// A restricted DMA put or get, counted and otherwise silent.
pub struct RestrictedDma {
    local: u64,
    command: NomatchDmaCmd,
}

impl RestrictedDma {
    /// Creates operations of `size` bytes.
    pub fn new(lists: &ListInitiator, direction: Direction, size: u64) -> Self {
        let mut command = lists.initiator.nomatch(direction, size);
        command
            .set_event_success_disable(true)
            .set_event_ct_ack(direction == Direction::Put)
            .set_event_ct_reply(direction == Direction::Get)
            .set_ct(lists.counter());
        Self { local: lists.initiator.buffer.iova(0), command }
    }
}

impl ListCommand for RestrictedDma {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.command.set_local_addr(self.local + offset).set_remote_offset(offset);
        batch.emit_nomatch_dma(&self.command)
    }
}

/// An unrestricted DMA put or get, counted and otherwise silent.
pub struct UnrestrictedDma {
    local: u64,
    command: FullDmaCmd,
}

impl UnrestrictedDma {
    /// Creates operations of `size` bytes.
    pub fn new(lists: &ListInitiator, direction: Direction, size: u64) -> Self {
        let mut command = lists.initiator.full(direction, size);
        command
            .set_event_success_disable(true)
            .set_event_ct_ack(direction == Direction::Put)
            .set_event_ct_reply(direction == Direction::Get)
            .set_ct(lists.counter());
        Self { local: lists.initiator.buffer.iova(0), command }
    }
}

impl ListCommand for UnrestrictedDma {
    #[inline(always)]
    fn emit(&mut self, batch: &mut TransmitBatch<'_>, offset: u64) -> Result<(), EmitError> {
        self.command.set_local_addr(self.local + offset).set_remote_offset(offset);
        batch.emit_dma(&self.command)
    }
}
