//! Commands of the initiator of a check, and operations by them.

use cxi::EventType;
use cxi::records::{CStateCmd, DmaAmoCmd, FullDmaCmd, IdcHdr, NomatchDmaCmd};
use cxi::sys::*;

use super::{Bench, USER_PTR};
use crate::ended::Checked;
use crate::events::Seen;

impl Bench<'_> {
    /// Returns a full DMA command of `len` bytes between both memories at index 0.
    pub fn dma(&self, opcode: u32, len: usize) -> FullDmaCmd {
        let mut command = FullDmaCmd::new();
        command
            .set_opcode(opcode as u8)
            .set_dfa(self.dfa(0))
            .set_lac(self.local.lac())
            .set_local_addr(self.local.iova(0))
            .set_request_len(len as u32)
            .set_eq(self.events.number())
            .set_event_send_disable(true)
            .set_initiator(self.match_id())
            .set_user_ptr(USER_PTR);
        command
    }

    /// Returns a non-matching DMA command of `len` bytes between both memories at index 0.
    pub fn nomatch(&self, opcode: u32, len: usize) -> NomatchDmaCmd {
        let mut command = NomatchDmaCmd::new();
        command
            .set_opcode(opcode as u8)
            .set_restricted(true)
            .set_dfa(self.dfa(0))
            .set_lac(self.local.lac())
            .set_local_addr(self.local.iova(0))
            .set_request_len(len as u32)
            .set_eq(self.events.number())
            .set_event_send_disable(true);
        command
    }

    /// Returns a DMA atomic operation on the first bytes of the target's memory. Operand 1 lies at
    /// byte 0 of the initiator's memory, and the old value goes to byte 64.
    pub fn dma_amo(&self, op: u8, ty: u8) -> DmaAmoCmd {
        let mut command = DmaAmoCmd::new();
        command
            .set_dfa(self.dfa(0))
            .set_lac(self.local.lac())
            .set_local_read_addr(self.local.iova(0))
            .set_write_lac(self.local.lac())
            .set_local_write_addr(self.local.iova(64))
            .set_eq(self.events.number())
            .set_event_send_disable(true)
            .set_initiator(self.match_id())
            .set_user_ptr(USER_PTR)
            .set_atomic_op(op)
            .set_atomic_type(ty);
        command
    }

    /// Returns the context of immediate data commands to index 0.
    pub fn c_state(&self, restricted: bool) -> CStateCmd {
        let mut command = CStateCmd::new();
        command
            .set_restricted(restricted)
            .set_event_send_disable(true)
            .set_eq(self.events.number())
            .set_initiator(self.match_id())
            .set_write_lac(self.local.lac())
            .set_user_ptr(USER_PTR);
        command
    }

    /// Returns the header of an immediate put to `offset` at index 0.
    pub fn idc(&self, offset: u64) -> IdcHdr {
        let mut header = IdcHdr::new();
        header.set_dfa(self.dfa(0)).set_remote_offset(offset);
        header
    }

    /// Puts `len` bytes by a full DMA command changed by `change`, and expects an ACK with `code`.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn put(
        &mut self,
        len: usize,
        code: u32,
        change: impl FnOnce(&mut FullDmaCmd),
    ) -> Checked<Seen> {
        let mut command = self.dma(C_CMD_PUT, len);
        change(&mut command);
        self.provoke_code(code)?;
        self.send(|batch| batch.emit_dma(&command))?;
        self.expect(EventType::ACK, code)
    }

    /// Gets `len` bytes, as [`Self::put`] puts them, and expects a REPLY with `code`.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn get(
        &mut self,
        len: usize,
        code: u32,
        change: impl FnOnce(&mut FullDmaCmd),
    ) -> Checked<Seen> {
        let mut command = self.dma(C_CMD_GET, len);
        change(&mut command);
        self.provoke_code(code)?;
        self.send(|batch| batch.emit_dma(&command))?;
        self.expect(EventType::REPLY, code)
    }
}
