//! The target side of a one-sided benchmark (tools.md 3.3, 3.4).

use cxi::records::{SetStateCmd, TargetCmd};
use cxi::sys::{
    C_CMD_TGT_APPEND, C_CMD_TGT_SETSTATE, C_PTL_LIST_PRIORITY, C_PTLTE_ENABLED, CXI_EQ_EC_DISABLE,
};
use cxi::{EventQueue, EventType, MemoryRegion, PortalTableEntry, Record, ReturnCode, TargetQueue};

use super::memory::{self, EVENT_PAGE, map, refused};
use super::{Endpoint, PORTAL_INDEX};
use crate::advice;
use crate::error::Failure;

/// Slots of the target queue; the library rounds up to a page.
const TARGET_SLOTS: u32 = 1;

/// How long the NIC may take to enable a portal or to link an entry, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// The list entry that a target opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Length of its buffer in bytes, rounded up to pages.
    pub length: u64,
    /// What its buffer begins with; the rest is zero.
    pub contents: &'a [u8],
    /// Writes and atomic operations are let in.
    pub put: bool,
    /// Reads and fetching operations are let in.
    pub get: bool,
    /// Match bits of a matching entry; none for a non-matching one.
    pub match_bits: Option<u64>,
}

/// A buffer behind one persistent list entry of an enabled portal. It raises no events for the
/// operations that it receives.
pub struct Target {
    portal: PortalTableEntry,
    commands: TargetQueue,
    events: EventQueue,
    buffer: MemoryRegion,
}

impl Target {
    /// Allocates a buffer and opens it.
    pub fn new(endpoint: &Endpoint, entry: Entry) -> Result<Self, Failure> {
        let lni = endpoint.lni();
        let events = EventQueue::new(lni, EVENT_PAGE, CXI_EQ_EC_DISABLE.into())
            .map_err(refused("allocate the target's event queue"))?;
        let buffer = map(lni, entry.length)?;
        buffer.copy_in(0, entry.contents);
        let commands = TargetQueue::new(lni, TARGET_SLOTS, None)
            .map_err(refused("allocate the target command queue"))?;
        let mut portal = PortalTableEntry::new(lni, &events, entry.match_bits.is_some())
            .map_err(refused("allocate a portals table entry"))?;
        portal
            .map(endpoint.domain(), PORTAL_INDEX)
            .map_err(refused("map the portals table entry"))?;
        portal.keep_mapped(&buffer);
        let mut target = Self {
            portal,
            commands,
            events,
            buffer,
        };
        target.enable()?;
        target.append(entry)?;
        Ok(target)
    }

    fn enable(&mut self) -> Result<(), Failure> {
        let mut command = SetStateCmd::new();
        command
            .set_opcode(C_CMD_TGT_SETSTATE as u8)
            .set_ptlte_state(C_PTLTE_ENABLED as u8)
            .set_ptlte_index(self.portal.number());
        let mut batch = self.commands.batch();
        batch
            .emit_set_state(&command)
            .map_err(|error| Failure::nic(format!("cannot enable the portal: {error}")))?;
        batch.commit_doorbell();
        let record = self.answer("enabling the portal", EventType::STATE_CHANGE)?;
        match record {
            Record::TargetLong(event) if u32::from(event.ptlte_state()) == C_PTLTE_ENABLED => {
                Ok(())
            }
            _ => Err(Failure::nic(
                "enabling the portal: the NIC reported another state",
            )),
        }
    }

    fn append(&mut self, entry: Entry) -> Result<(), Failure> {
        let mut command = TargetCmd::new();
        command
            .set_opcode(C_CMD_TGT_APPEND as u8)
            .set_ptl_list(C_PTL_LIST_PRIORITY as u8)
            .set_ptlte_index(self.portal.number())
            .set_event_unlink_disable(true)
            .set_event_success_disable(true)
            .set_event_comm_disable(true)
            .set_unrestricted_body_ro(true)
            .set_unrestricted_end_ro(true)
            .set_op_put(entry.put)
            .set_op_get(entry.get)
            .set_lac(self.buffer.lac())
            .set_start(self.buffer.iova(0))
            .set_length(self.buffer.len() as u64);
        match entry.match_bits {
            Some(bits) => command.set_match_bits(bits),
            // Work-around of a hardware erratum: relaxes the order of the last write of a
            // restricted packet (nic.md 8.4).
            None => command.set_ignore_bits(1),
        };
        let mut batch = self.commands.batch();
        batch
            .emit_target(&command)
            .map_err(|error| Failure::nic(format!("cannot append the buffer: {error}")))?;
        batch.commit_doorbell();
        self.answer("appending the buffer", EventType::LINK)
            .map(drop)
    }

    /// Waits for the event that answers a target command.
    fn answer(&mut self, what: &str, expected: EventType) -> Result<Record, Failure> {
        let start = cxi::clock::now_ns();
        loop {
            if let Some(event) = self.events.poll() {
                let (seen, code, record) =
                    (event.event_type(), event.return_code(), event.record());
                self.events.acknowledge();
                if (seen, code) != (expected, ReturnCode::OK) {
                    return Err(advice::unexpected(what, seen, expected, code));
                }
                return Ok(record);
            }
            if cxi::clock::now_ns() - start > PATIENCE {
                return Err(Failure::nic(format!(
                    "{what}: the NIC did not answer within a second"
                )));
            }
        }
    }

    /// Fails unless the first `size` bytes of the buffer are `byte`.
    pub fn holds(&self, byte: u8, size: u64) -> Result<(), Failure> {
        memory::holds(&self.buffer, "the target buffer", byte, size)
    }

    /// Copies the start of the buffer.
    pub fn copy_out(&self, bytes: &mut [u8]) {
        self.buffer.copy_out(0, bytes);
    }

    /// Releases the resources and reports what fails.
    pub fn close(self) -> Result<(), Failure> {
        self.portal
            .close()
            .map_err(refused("release the portals table entry"))?;
        self.commands
            .close()
            .map_err(refused("release the target command queue"))?;
        self.events
            .close()
            .map_err(refused("release the target's event queue"))?;
        self.buffer.close().map_err(refused("release the buffer"))
    }
}
