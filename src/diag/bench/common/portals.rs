//! Portals table entries and their list entries (tools.md 3.3, 3.4).

use cxi::records::{SetStateCmd, TargetCmd};
use cxi::sys::{
    C_CMD_TGT_APPEND, C_CMD_TGT_SETSTATE, C_PTL_LIST_PRIORITY, C_PTLTE_ENABLED, CXI_EQ_EC_DISABLE,
};
use cxi::{
    EventQueue, EventType, MemoryRegion, Observer, PortalTableEntry, Record, ReturnCode,
    TargetQueue,
};

use super::answer::answer;
use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use node::explain::Explain;
use node::{explain, nic_states};
use plan::run_options::RunOptions;

/// Slots of the target queue; the library rounds up to a page.
const TARGET_SLOTS: u32 = 1;

/// The operations that a list entry over a whole buffer accepts, and how it reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Accepts writes, sends and atomic operations.
    pub put: bool,
    /// Accepts reads and fetching operations.
    pub get: bool,
    /// Initiator and match bits; none on a non-matching portal, or for operations without match
    /// bits.
    pub matching: Option<Match>,
    /// How an operation is reported.
    pub reports: Reports,
    pub order: WriteOrder,
    /// Buffer id in its events.
    pub buffer_id: u16,
}

impl Entry {
    /// Returns the command that appends the entry, without portal and buffer.
    pub fn command(self) -> TargetCmd {
        let mut command = TargetCmd::new();
        command
            .set_opcode(C_CMD_TGT_APPEND as u8)
            .set_ptl_list(C_PTL_LIST_PRIORITY as u8)
            .set_event_unlink_disable(true)
            .set_unrestricted_body_ro(self.order == WriteOrder::Relaxed)
            .set_unrestricted_end_ro(self.order == WriteOrder::Relaxed)
            .set_op_put(self.put)
            .set_op_get(self.get)
            .set_buffer_id(self.buffer_id);
        match self.reports {
            Reports::Nothing => {
                command.set_event_success_disable(true).set_event_comm_disable(true);
            }
            Reports::Events => {}
            Reports::Counted(counter) => {
                command.set_event_success_disable(true).set_event_ct_comm(true).set_ct(counter);
            }
        }
        match self.matching {
            Some(matching) => command
                .set_match_id(matching.initiator)
                .set_match_bits(matching.bits)
                .set_ignore_bits(matching.ignored),
            // Work-around of a hardware erratum: relaxes the order of the last write of a
            // restricted packet (nic.md 8.4).
            None => command.set_ignore_bits((self.order != WriteOrder::Strict).into()),
        };
        command
    }
}

/// The order of the NIC's writes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrder {
    Strict,
    /// The NIC may reorder all of them.
    Relaxed,
    /// The NIC may reorder the last write of a restricted packet.
    RelaxedAtEnd,
}

impl WriteOrder {
    /// Returns the order of the writes of `run`, in benchmarks that relax all of them.
    pub fn for_run(run: &RunOptions) -> Self {
        if run.relaxes_writes() { Self::Relaxed } else { Self::Strict }
    }
}

/// The match criteria of a list entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Initiator, as in its commands.
    pub initiator: u32,
    pub bits: u64,
    /// Match bits that are ignored.
    pub ignored: u64,
}

/// Matches eager messages: their commands leave initiator and match bits 0, and immediate data
/// commands have none (nic.md 3.5).
const EAGER: Match = Match { initiator: 0, bits: 0, ignored: 0 };

/// How an operation on a list entry is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// Not at all.
    Nothing,
    Events,
    /// By incrementing the counter of this number; failures raise events.
    Counted(u16),
}

/// The command queue that opens portals, and the event queue of the portals.
pub struct Portals {
    observer: Observer,
    commands: TargetQueue,
    pub events: EventQueue,
}

impl Portals {
    /// Allocates the queues for `events` pending events.
    pub fn new(endpoint: &Endpoint, events: u32) -> Result<Self, Failure> {
        let lni = endpoint.lni();
        let events = EventQueue::new(lni, events, CXI_EQ_EC_DISABLE.into())
            .explain("cannot allocate the target's event queue")?;
        let commands = TargetQueue::new(lni, TARGET_SLOTS, None)
            .explain("cannot allocate the target command queue")?;
        Ok(Self { observer: lni.observer().clone(), commands, events })
    }

    /// Allocates a portal at `index` of the domain, and enables it.
    ///
    /// # Errors
    ///
    /// A call that the library refuses, and a portal that the NIC does not enable.
    pub fn open(
        &mut self,
        endpoint: &Endpoint,
        index: u32,
        is_matching: bool,
    ) -> Result<PortalTableEntry, Failure> {
        let mut portal = PortalTableEntry::new(endpoint.lni(), &self.events, is_matching)
            .explain("cannot allocate a portals table entry")?;
        portal.map(endpoint.domain(), index).explain("cannot map the portals table entry")?;
        let mut command = SetStateCmd::new();
        command
            .set_opcode(C_CMD_TGT_SETSTATE as u8)
            .set_ptlte_state(C_PTLTE_ENABLED as u8)
            .set_ptlte_index(portal.number());
        let mut batch = self.commands.batch();
        batch.emit_set_state(&command).nic("cannot enable the portal")?;
        batch.commit_doorbell();
        let record = self.answer("enabling the portal", EventType::STATE_CHANGE)?;
        match record {
            Record::TargetLong(event) if u32::from(event.ptlte_state()) == C_PTLTE_ENABLED => {
                Ok(portal)
            }
            _ => Err(Failure::nic("enabling the portal: the NIC reported another state")),
        }
    }

    /// Appends a persistent list entry over all of `buffer` to the priority list of `portal`.
    ///
    /// # Errors
    ///
    /// A list entry that the NIC does not link.
    pub fn append(
        &mut self,
        portal: &mut PortalTableEntry,
        buffer: &MemoryRegion,
        entry: Entry,
    ) -> Result<(), Failure> {
        portal.keep_mapped(buffer);
        self.link(portal, buffer, entry)
    }

    /// Appends `count` entries that no message of the run matches, and then `entry`.
    ///
    /// # Errors
    ///
    /// A list entry that the NIC does not link.
    pub fn append_behind(
        &mut self,
        portal: &mut PortalTableEntry,
        buffer: &MemoryRegion,
        entry: Entry,
        count: u16,
    ) -> Result<(), Failure> {
        if count == 0 {
            return self.append(portal, buffer, entry);
        }
        let matching = entry.matching.unwrap_or(EAGER);
        let other = Match { bits: !matching.bits, ..matching };
        for number in 0..count {
            let linked = self.link(portal, buffer, Entry { matching: Some(other), ..entry });
            linked.map_err(|failure| {
                failure.context(format!("--posted={count}: list entry {}", number + 1))
            })?;
        }
        self.append(portal, buffer, Entry { matching: Some(matching), ..entry })
    }

    /// Appends a list entry, as [`Self::append`] does, over a buffer that the portal keeps mapped.
    fn link(
        &mut self,
        portal: &PortalTableEntry,
        buffer: &MemoryRegion,
        entry: Entry,
    ) -> Result<(), Failure> {
        let mut command = entry.command();
        command
            .set_ptlte_index(portal.number())
            .set_lac(buffer.lac())
            .set_start(buffer.iova(0))
            .set_length(buffer.len() as u64);
        let mut batch = self.commands.batch();
        batch.emit_target(&command).nic("cannot append the buffer")?;
        batch.commit_doorbell();
        self.answer("appending the buffer", EventType::LINK).map(drop)
    }

    /// Waits for the event that answers a target command.
    fn answer(&mut self, what: &str, expected: EventType) -> Result<Record, Failure> {
        let (seen, code, record) = answer(what, || {
            let event = self.events.poll()?;
            Some((event.event_type(), event.return_code(), event.record()))
        })
        .map_err(|failure| nic_states::explain_wait(failure, &self.observer))?;
        self.events.acknowledge();
        if (seen, code) != (expected, ReturnCode::OK) {
            let failure = explain::unexpected(what, seen, expected, code);
            return Err(nic_states::explain(failure, &self.observer));
        }
        Ok(record)
    }

    /// Releases the queues, after the portals.
    pub fn close(self) -> Result<(), Failure> {
        self.commands.close().explain("cannot release the target command queue")?;
        self.events.close().explain("cannot release the target's event queue")
    }
}

/// Releases a portal.
pub fn close(portal: PortalTableEntry) -> Result<(), Failure> {
    portal.close().explain("cannot release the portals table entry")
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::testing::plan;

    #[test]
    fn relaxes_order_of_writes_unless_data_is_checked() {
        for (options, is_relaxed) in [(&[][..], true), (&["--rdzv"], false), (&["--verify"], false)]
        {
            let run = plan("send-bw", options).run;
            let entry = Entry {
                put: true,
                get: false,
                matching: None,
                reports: Reports::Events,
                order: WriteOrder::for_run(&run),
                buffer_id: 0,
            };
            let command = entry.command();
            let orders = [
                command.unrestricted_body_ro(),
                command.unrestricted_end_ro(),
                command.ignore_bits() == 1,
            ];
            assert_eq!(orders, [is_relaxed; 3], "{options:?}");
        }
    }
}
