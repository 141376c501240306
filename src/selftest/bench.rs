//! What a check works with: the objects of both ends on one NIC, which addresses itself, and the
//! bytes of the last command and the last event.

use cxi::records::{
    CStateCmd, DmaAmoCmd, FullDmaCmd, IdcHdr, NomatchDmaCmd, SetStateCmd, TargetCmd,
};
use cxi::sys::*;
use cxi::{
    CommunicationProfile, Device, Domain, EmitError, EventQueue, EventType, Lni, MemoryRegion,
    Pages, PortalTableEntry, TargetBatch, TargetQueue, TransmitBatch, TransmitQueue, address,
};
use facts::device::DeviceName;

pub use crate::ended::{Checked, Ended, differs, ensure, equal, refused, skipped};
pub use crate::events::{LIMIT, Seen, Trace, expect, next, quiet};

/// Bytes of the initiator's and of the target's memory.
pub const LEN: usize = 256 * 1024;

/// Pinned memory that the NIC may read and write.
pub const RIGHTS: u32 = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;

/// The user pointer of commands, unless a check sets another.
pub const USER_PTR: u64 = 0x1234_5678_9abc_def0;

/// The NIC, and what this process uses of it.
pub struct Nic {
    /// The open device.
    pub device: Device,
    /// Its name.
    pub name: DeviceName,
    /// Number of the service.
    pub service: u32,
    /// VNI.
    pub vni: u32,
    /// Traffic class, `CXI_TC_*`.
    pub class: cxi_traffic_class,
}

impl Nic {
    /// Skips a check of what exists for BEST_EFFORT only (libcxi.md 5).
    ///
    /// # Errors
    ///
    /// Another traffic class.
    pub fn needs_best_effort(&self) -> Checked {
        if self.class == CXI_TC_BEST_EFFORT {
            return Ok(());
        }
        skipped("the traffic class is not BEST_EFFORT")
    }

    /// Allocates an interface.
    ///
    /// # Errors
    ///
    /// See libcxi.md 4.
    pub fn lni(&self) -> Result<Lni, cxi::Error> {
        Lni::new(&self.device, self.service)
    }
}

/// A portals table entry with an event queue of its own.
pub struct Portal {
    /// The entry.
    pub entry: PortalTableEntry,
    /// What happens at it.
    pub events: EventQueue,
    /// Where it is mapped.
    pub index: u32,
}

/// The objects of one check. They are its own, so that a queue that stops ends no other check.
pub struct Bench<'nic> {
    /// The NIC.
    pub nic: &'nic Nic,
    /// The bytes of the last command and event.
    pub trace: Trace,
    /// The initiator's commands.
    pub transmit: TransmitQueue,
    /// The target's commands.
    pub target: TargetQueue,
    /// The initiator's events.
    pub events: EventQueue,
    /// The initiator's memory.
    pub local: MemoryRegion,
    /// The target's memory.
    pub remote: MemoryRegion,
    /// The profile of the initiator, the first of the interface.
    pub profile: CommunicationProfile,
    /// The address.
    pub domain: Domain,
    /// The interface.
    pub lni: Lni,
}

impl<'nic> Bench<'nic> {
    /// Allocates the objects of a check.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn new(nic: &'nic Nic) -> Result<Self, cxi::Error> {
        let lni = nic.lni()?;
        let domain = Domain::new(&lni, nic.vni, C_PID_ANY)?;
        let profile = CommunicationProfile::new(&lni, nic.vni, nic.class, CXI_TC_TYPE_DEFAULT)?;
        let map = || MemoryRegion::map(&lni, Pages::anonymous(LEN)?, RIGHTS);
        let (local, remote) = (map()?, map()?);
        let events = EventQueue::new(&lni, 252, CXI_EQ_EC_DISABLE.into())?;
        let transmit = TransmitQueue::new(&profile, 64, &events, None)?;
        let target = TargetQueue::new(&lni, 64, None)?;
        Ok(Self {
            nic,
            trace: Trace::default(),
            transmit,
            target,
            events,
            local,
            remote,
            profile,
            domain,
            lni,
        })
    }

    /// Releases the objects.
    ///
    /// # Errors
    ///
    /// The first call that the library refuses.
    pub fn close(self) -> Result<(), cxi::Error> {
        let queues = [
            self.transmit.close(),
            self.target.close(),
            self.events.close(),
        ];
        let memory = [self.local.close(), self.remote.close()];
        let others = [self.profile.close(), self.domain.close(), self.lni.close()];
        queues
            .into_iter()
            .chain(memory)
            .chain(others)
            .fold(Ok(()), Result::and)
    }

    /// Returns the address of portal `index` of this process.
    pub fn dfa(&self, index: u32) -> u32 {
        let info = self.nic.device.info();
        address::dfa(info.nid, self.domain.pid(), index, info.pid_bits)
    }

    /// Returns this process's own match id.
    pub fn match_id(&self) -> u32 {
        let info = self.nic.device.info();
        address::match_id(info.pid_bits, self.domain.pid(), info.nid)
    }

    /// Emits commands by `emit` and rings the doorbell.
    ///
    /// # Errors
    ///
    /// A queue that does not accept them.
    pub fn send(
        &mut self,
        emit: impl FnOnce(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
    ) -> Checked {
        let mut batch = self.transmit.batch();
        emit(&mut batch)?;
        self.trace.command = batch.bytes();
        batch.commit_doorbell();
        Ok(())
    }

    /// Emits commands by `emit` and hands them over by a low-latency write.
    ///
    /// # Errors
    ///
    /// A queue that does not accept them.
    pub fn send_low_latency(
        &mut self,
        emit: impl FnOnce(&mut TransmitBatch<'_>) -> Result<(), EmitError>,
    ) -> Checked {
        let mut batch = self.transmit.batch();
        emit(&mut batch)?;
        self.trace.command = batch.bytes();
        batch.commit_low_latency();
        Ok(())
    }

    /// Emits target commands by `emit` and rings the doorbell.
    ///
    /// # Errors
    ///
    /// A queue that does not accept them.
    pub fn command(
        &mut self,
        emit: impl FnOnce(&mut TargetBatch<'_>) -> Result<(), EmitError>,
    ) -> Checked {
        let mut batch = self.target.batch();
        emit(&mut batch)?;
        self.trace.command = batch.bytes();
        batch.commit_doorbell();
        Ok(())
    }

    /// Waits for the next event of the initiator.
    ///
    /// # Errors
    ///
    /// No event in time.
    pub fn event(&mut self) -> Checked<Seen> {
        next(&mut self.events, &mut self.trace)
    }

    /// Waits for an event of the initiator of this type and return code.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn expect(&mut self, kind: EventType, code: u32) -> Checked<Seen> {
        expect(&mut self.events, &mut self.trace, kind, code)
    }

    /// Waits for the next event of `portal`.
    ///
    /// # Errors
    ///
    /// No event in time.
    pub fn event_at(&mut self, portal: &mut Portal) -> Checked<Seen> {
        next(&mut portal.events, &mut self.trace)
    }

    /// Waits for an event of `portal` of this type and return code.
    ///
    /// # Errors
    ///
    /// Another event, or none.
    pub fn expect_at(&mut self, portal: &mut Portal, kind: EventType, code: u32) -> Checked<Seen> {
        expect(&mut portal.events, &mut self.trace, kind, code)
    }

    /// Checks that the initiator gets no further event.
    ///
    /// # Errors
    ///
    /// An event.
    pub fn quiet(&mut self) -> Checked {
        quiet(&mut self.events, &mut self.trace)
    }

    /// Checks that `portal` reports nothing further.
    ///
    /// # Errors
    ///
    /// An event.
    pub fn quiet_at(&mut self, portal: &mut Portal) -> Checked {
        quiet(&mut portal.events, &mut self.trace)
    }

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
    ///
    /// # Errors
    ///
    /// The errors of [`Self::portal`].
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
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
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
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn portal_on(
        &self,
        events: EventQueue,
        index: u32,
        options: impl FnOnce(&mut cxi_pt_alloc_opts),
    ) -> Checked<Portal> {
        let mut entry = PortalTableEntry::with_options(&self.lni, &events, options)?;
        entry.map(&self.domain, index)?;
        Ok(Portal {
            entry,
            events,
            index,
        })
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

    /// Returns an APPEND of an entry over all of the target's memory, for all operations.
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

    /// Returns a command to `portal`.
    pub fn target_command(&self, portal: &Portal, opcode: u32) -> TargetCmd {
        let mut command = TargetCmd::new();
        command
            .set_opcode(opcode as u8)
            .set_ptlte_index(portal.entry.number());
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

    /// Opens a portal without matching at index 0 with one entry that reports nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::portal`] and [`Self::append`].
    pub fn plain(&mut self) -> Checked<Portal> {
        let mut portal = self.portal(0, |_| {})?;
        self.append(&mut portal, silent)?;
        Ok(portal)
    }

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

    /// Executes a DMA command, and returns its event.
    ///
    /// # Errors
    ///
    /// A queue that does not accept it, or no event.
    pub fn run(&mut self, command: &FullDmaCmd) -> Checked<Seen> {
        self.send(|batch| batch.emit_dma(command))?;
        self.event()
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
        self.send(|batch| batch.emit_dma(&command))?;
        self.expect(EventType::REPLY, code)
    }

    /// Fills both memories, each with its own pattern, and returns what the initiator's has.
    ///
    /// # Errors
    ///
    /// None: it is host memory.
    pub fn fill(&self) -> Checked<Vec<u8>> {
        let pattern: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8 + 1).collect();
        self.local.copy_in(0, &pattern)?;
        self.remote.fill(0xee)?;
        Ok(pattern)
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

/// Returns `len` bytes of `memory` from `offset` on.
///
/// # Errors
///
/// None: it is host memory.
pub fn bytes_of(memory: &MemoryRegion, offset: usize, len: usize) -> Checked<Vec<u8>> {
    let mut bytes = vec![0; len];
    memory.copy_out(offset, &mut bytes)?;
    Ok(bytes)
}

/// Checks that `memory` has these bytes at `offset`.
///
/// # Errors
///
/// The first byte that differs.
pub fn has(what: &str, memory: &MemoryRegion, offset: usize, expected: &[u8]) -> Checked {
    let seen = bytes_of(memory, offset, expected.len())?;
    let differing = seen.iter().zip(expected).position(|(a, b)| a != b);
    differing.map_or(Ok(()), |at| {
        let byte = |bytes: &[u8]| format!("{what}: {:#04x} at byte {}", bytes[at], offset + at);
        Err(differs(byte(expected), byte(&seen)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs_from(expected: &str, seen: &str) -> Checked {
        Err(differs(expected, seen))
    }

    #[test]
    fn waits_notice_other_events_and_their_absence() {
        let nic = crate::testing::nic();
        let mut bench = Bench::new(&nic).unwrap();
        let mut portal = bench.portal(0, |_| {}).unwrap();
        bench.append(&mut portal, |_| {}).unwrap();
        assert_eq!(bench.quiet(), Ok(()));
        let put = bench.dma(C_CMD_PUT, 8);
        bench.send(|batch| batch.emit_dma(&put)).unwrap();
        bench
            .expect_at(&mut portal, EventType::PUT, C_RC_OK)
            .unwrap();
        assert_eq!(bench.quiet(), differs_from("no further event", "ACK OK"));
        bench.send(|batch| batch.emit_dma(&put)).unwrap();
        let other = bench.expect(EventType::REPLY, C_RC_OK).map(drop);
        assert_eq!(other, differs_from("REPLY OK", "ACK OK"));
        assert_eq!(bench.trace.command, put_bytes(&put));
        assert_eq!(bench.trace.event.len(), 16);
        let none = bench.expect(EventType::ACK, C_RC_OK).map(drop);
        assert_eq!(none, differs_from("ACK OK", "no event within 3 s"));
        assert_eq!(bench.trace.event.len(), 0);
        bench.remote.fill(7).unwrap();
        assert_eq!(has("memory", &bench.remote, 1, &[7, 7]), Ok(()));
        let expected = ("memory: 0x08 at byte 2", "memory: 0x07 at byte 2");
        let seen = has("memory", &bench.remote, 1, &[7, 8]);
        assert_eq!(seen, differs_from(expected.0, expected.1));
        drop(portal);
        bench.close().unwrap();
    }

    /// Returns the command with the fields that emitting it sets.
    fn put_bytes(put: &FullDmaCmd) -> Vec<u8> {
        let mut put = *put;
        put.set_cmd_type(C_CMD_TYPE_DMA as u8)
            .set_cmd_size(C_CMD_SIZE_64B as u8);
        put.bytes().to_vec()
    }
}
