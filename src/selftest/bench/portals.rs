//! Portals table entries of checks, list entries on them, and operations by commands of the
//! initiator.

use cxi::records::{
    CStateCmd, DmaAmoCmd, FullDmaCmd, IdcHdr, NomatchDmaCmd, SetStateCmd, TargetCmd,
};
use cxi::sys::*;
use cxi::{EventQueue, EventType, PortalTableEntry};

use super::{Bench, Portal, USER_PTR};
use crate::ended::{Checked, equal};
use crate::events::Seen;

impl Bench<'_> {
    /// Allocates a portals table entry at `index` with these options, and enables it.
    ///
    /// # Errors
    ///
    /// A call that the library refuses, or an entry that is not enabled.
    pub fn portal(
        &mut self,
        index: u32,
        options: impl FnOnce(&mut cxi_pt_alloc_opts),
    ) -> Checked<Portal> {
        self.portal_with(index, CXI_EQ_EC_DISABLE, options)
    }

    /// Allocates and enables a portals table entry whose event queue has these flags.
    pub fn portal_with(
        &mut self,
        index: u32,
        flags: u32,
        options: impl FnOnce(&mut cxi_pt_alloc_opts),
    ) -> Checked<Portal> {
        let mut portal = self.disabled_portal(index, flags, options)?;
        self.set_state(&mut portal, C_PTLTE_ENABLED, 0, C_RC_OK)?;
        Ok(portal)
    }

    /// Allocates and maps a portals table entry without enabling it.
    pub fn disabled_portal(
        &self,
        index: u32,
        flags: u32,
        options: impl FnOnce(&mut cxi_pt_alloc_opts),
    ) -> Checked<Portal> {
        let events = EventQueue::new(&self.lni, 60, flags.into())?;
        self.portal_on(events, index, options)
    }

    /// Allocates and maps a portals table entry that reports to `events`, without enabling it.
    pub fn portal_on(
        &self,
        events: EventQueue,
        index: u32,
        options: impl FnOnce(&mut cxi_pt_alloc_opts),
    ) -> Checked<Portal> {
        let mut entry = PortalTableEntry::with_options(&self.lni, &events, options)?;
        entry.map(&self.domain, index)?;
        Ok(Portal { entry, events })
    }

    /// Sets the state of `portal` and waits for its STATE_CHANGE with this return code.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn set_state(
        &mut self,
        portal: &mut Portal,
        state: c_ptlte_state,
        drop_count: u32,
        code: u32,
    ) -> Checked<Seen> {
        let mut command = SetStateCmd::new();
        command
            .set_ptlte_state(state as u8)
            .set_ptlte_index(portal.entry.number())
            .set_drop_count(drop_count);
        self.command(|batch| batch.emit_set_state(&command))?;
        let change = self.expect_at(portal, EventType::STATE_CHANGE, code)?;
        if code == C_RC_OK {
            let event = change.long()?;
            equal("state", u32::from(event.ptlte_state()), state)?;
        }
        Ok(change)
    }

    /// An APPEND of an entry over all of the target's memory, for all operations.
    pub fn entry(&self, portal: &Portal) -> TargetCmd {
        let mut command = self.target_command(portal, C_CMD_TGT_APPEND);
        command
            .set_ptl_list(C_PTL_LIST_PRIORITY as u8)
            .set_lac(self.remote.lac())
            .set_start(self.remote.iova(0))
            .set_length(self.remote.len() as u64)
            .set_match_id(CXI_MATCH_ID_ANY)
            .set_op_put(true)
            .set_op_get(true);
        command
    }

    pub fn target_command(&self, portal: &Portal, opcode: u32) -> TargetCmd {
        let mut command = TargetCmd::new();
        command.set_opcode(opcode as u8).set_ptlte_index(portal.entry.number());
        command
    }

    /// Appends the entry of [`Self::entry`], changed by `change`, and waits for its LINK.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn append(
        &mut self,
        portal: &mut Portal,
        change: impl FnOnce(&mut TargetCmd),
    ) -> Checked<Seen> {
        let mut command = self.entry(portal);
        change(&mut command);
        self.command(|batch| batch.emit_target(&command))?;
        self.expect_at(portal, EventType::LINK, C_RC_OK)
    }

    /// Opens a portal at index 0 with these options, and appends an entry changed by `change`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::portal`] and [`Self::append`].
    pub fn open(
        &mut self,
        options: impl FnOnce(&mut cxi_pt_alloc_opts),
        change: impl FnOnce(&mut TargetCmd),
    ) -> Checked<Portal> {
        let mut portal = self.portal(0, options)?;
        self.append(&mut portal, change)?;
        Ok(portal)
    }

    /// Opens a portal as [`Self::open`] does; its entry reports nothing unless `change` says so.
    pub fn open_silent(
        &mut self,
        options: impl FnOnce(&mut cxi_pt_alloc_opts),
        change: impl FnOnce(&mut TargetCmd),
    ) -> Checked<Portal> {
        self.open(options, |entry| {
            silent(entry);
            change(entry);
        })
    }

    /// Opens a portal without matching at index 0 with one entry that reports nothing.
    pub fn plain(&mut self) -> Checked<Portal> {
        self.open(|_| {}, silent)
    }
}

/// Makes an entry report nothing but its LINK.
pub fn silent(entry: &mut TargetCmd) {
    entry
        .set_event_success_disable(true)
        .set_event_comm_disable(true)
        .set_event_unlink_disable(true);
}

/// Sets no option of a portals table entry but matching.
pub fn matching(options: &mut cxi_pt_alloc_opts) {
    options.set_is_matching(1);
}

impl Bench<'_> {
    /// A full DMA command of `len` bytes between both memories at index 0.
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

    /// A non-matching DMA command of `len` bytes between both memories at index 0.
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

    /// A DMA atomic operation on the first bytes of the target's memory. Operand 1 lies at byte 0
    /// of the initiator's memory, and the old value goes to byte 64.
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

    /// The context of immediate data commands to index 0.
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

    /// The header of an immediate put to `offset` at index 0.
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
