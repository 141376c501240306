//! Portals table entries and their list entries (tools.md 3.3, 3.4), and waits for answers of the
//! NIC that take microseconds.

use cxi::records::{SetStateCmd, TargetCmd};
use cxi::sys::{
    C_CMD_TGT_APPEND, C_CMD_TGT_SETSTATE, C_CMD_TGT_UNLINK, C_PTL_LIST_OVERFLOW,
    C_PTL_LIST_PRIORITY, C_PTLTE_ENABLED, CXI_EQ_EC_DISABLE,
};
use cxi::{
    EventQueue, EventRecord, EventType, MemoryRegion, Observer, PortalTableEntry, ReturnCode,
    TargetQueue,
};
use facts::error::{Context, Failure};
use measure::{Clock, MonotonicRaw};
use node::explain::{self, Explain};
use plan::depths::Depths;
use plan::run_options::RunOptions;

use crate::endpoint::Endpoint;

/// How long the NIC may take to answer, in nanoseconds.
const LIMIT: u64 = 1_000_000_000;

/// Polls until there is an answer to `what`.
///
/// # Errors
///
/// No answer within a second.
pub fn answer<T>(what: &str, poll: impl FnMut() -> Option<T>) -> Result<T, Failure> {
    answer_by(&MonotonicRaw, poll)
        .ok_or_else(|| Failure::nic(format!("{what}: the NIC did not answer within a second")))
}

/// Polls until there is an answer or the limit has passed. The last poll begins after the limit:
/// this thread may not have run for all of the time in which the NIC has answered.
fn answer_by<T>(clock: &impl Clock, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let start = clock.now();
    loop {
        let is_late = clock.now() - start > LIMIT;
        let answer = poll();
        if answer.is_some() || is_late {
            return answer;
        }
    }
}

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
    /// An entry for the puts of `run` that reports nothing.
    pub fn for_puts(run: &RunOptions) -> Self {
        Self {
            put: true,
            get: false,
            matching: None,
            reports: Reports::Nothing,
            order: WriteOrder::for_run(run),
            buffer_id: 0,
        }
    }

    /// The command that appends the entry, without portal and buffer.
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

    /// The command that appends the entry over all of `buffer`.
    pub fn append_command(self, portal: &PortalTableEntry, buffer: &MemoryRegion) -> TargetCmd {
        let mut command = self.command();
        command
            .set_ptlte_index(portal.number())
            .set_lac(buffer.lac())
            .set_start(buffer.iova(0))
            .set_length(buffer.len() as u64);
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
    /// The order of the writes of `run`, in benchmarks that relax all of them.
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

/// Buffer id of list entries that no message of the run matches, and of list entries for messages
/// that nothing receives: an UNLINK command finds entries by it (nic.md 8.5).
const OTHER: u16 = u16::MAX;

/// Matches eager messages: their commands leave initiator and match bits 0, and immediate data
/// commands have none (nic.md 3.5).
const EAGER: Match = Match { initiator: 0, bits: 0, ignored: 0 };

/// A list whose last entry receives the messages of the run.
pub struct PostedList {
    /// The last entry. Its match criteria are set.
    entry: Entry,
    /// Entries before it, which no message of the run matches.
    others: u16,
}

/// Match bits of messages that nothing receives.
pub const UNRECEIVED: u64 = u64::MAX;

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
            EventRecord::TargetLong(event) if u32::from(event.ptlte_state()) == C_PTLTE_ENABLED => {
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

    /// Appends the first of these numbers of entries that no message of the run matches, and then
    /// `entry`. Returns the list, if other entries stand before in any row; then `portal` must be
    /// matching.
    ///
    /// # Errors
    ///
    /// A list entry that the NIC does not link.
    pub fn append_behind(
        &mut self,
        portal: &mut PortalTableEntry,
        buffer: &MemoryRegion,
        entry: Entry,
        posted: Depths,
    ) -> Result<Option<PostedList>, Failure> {
        if !posted.is_used() {
            return self.append(portal, buffer, entry).map(|()| None);
        }
        let entry = Entry { matching: entry.matching.or(Some(EAGER)), ..entry };
        portal.keep_mapped(buffer);
        let mut list = PostedList { entry, others: 0 };
        self.append_others(portal, buffer, &mut list, posted.least)?;
        Ok(Some(list))
    }

    /// Puts entries that no message of the run matches before the last one of `list`, until there
    /// are `count`. No message may be under way: the last entry is missing meanwhile.
    ///
    /// # Errors
    ///
    /// A list entry that the NIC does not link.
    pub fn deepen(
        &mut self,
        portal: &PortalTableEntry,
        buffer: &MemoryRegion,
        list: &mut PostedList,
        count: u16,
    ) -> Result<(), Failure> {
        if list.others >= count {
            return Ok(());
        }
        self.unlink(portal, list.entry.buffer_id)?;
        self.append_others(portal, buffer, list, count)
    }

    /// Appends entries that no message of the run matches until there are `count`, and the last one
    /// of `list` behind them.
    fn append_others(
        &mut self,
        portal: &PortalTableEntry,
        buffer: &MemoryRegion,
        list: &mut PostedList,
        count: u16,
    ) -> Result<(), Failure> {
        let matching = list.entry.matching.unwrap_or(EAGER);
        let other = Entry {
            matching: Some(Match { bits: !matching.bits, ..matching }),
            buffer_id: OTHER,
            ..list.entry
        };
        loop {
            let is_last = list.others >= count;
            let entry = if is_last { list.entry } else { other };
            self.link(portal, buffer, entry).map_err(|failure| {
                failure.context(format!("--posted={count}: list entry {}", list.others + 1))
            })?;
            if is_last {
                return Ok(());
            }
            list.others += 1;
        }
    }

    /// Opens the overflow list of `portal`, which is matching, for eager messages that arrive
    /// before their receives: `entry` stores them. Those with the match bits [`UNRECEIVED`] raise
    /// no event. Returns the command that receives an eager message.
    ///
    /// # Errors
    ///
    /// A list entry that the NIC does not link.
    pub fn append_overflow(
        &mut self,
        portal: &mut PortalTableEntry,
        buffer: &MemoryRegion,
        entry: Entry,
    ) -> Result<TargetCmd, Failure> {
        portal.keep_mapped(buffer);
        let unreceived = Entry {
            matching: Some(Match { bits: UNRECEIVED, ..EAGER }),
            reports: Reports::Nothing,
            buffer_id: OTHER,
            ..entry
        };
        let eager = Entry { matching: Some(EAGER), ..entry };
        for entry in [unreceived, eager] {
            let mut command = entry.append_command(portal, buffer);
            command.set_ptl_list(C_PTL_LIST_OVERFLOW as u8);
            self.issue(&command)?;
            self.answer("appending the buffer to the overflow list", EventType::LINK)?;
        }
        let mut receive = eager.append_command(portal, buffer);
        receive.set_use_once(true);
        Ok(receive)
    }

    /// Posts the receive of a message that has arrived. The NIC compares it with the headers of all
    /// messages that nothing has received, and reports the one that it matches by PUT_OVERFLOW
    /// (nic.md 8.6).
    ///
    /// # Errors
    ///
    /// A queue without room for the command.
    #[inline(always)]
    pub fn receive(&mut self, receive: &TargetCmd) -> Result<(), Failure> {
        self.issue(receive)
    }

    /// Appends a list entry, as [`Self::append`] does, over a buffer that the portal keeps mapped.
    fn link(
        &mut self,
        portal: &PortalTableEntry,
        buffer: &MemoryRegion,
        entry: Entry,
    ) -> Result<(), Failure> {
        self.issue(&entry.append_command(portal, buffer))?;
        self.answer("appending the buffer", EventType::LINK).map(drop)
    }

    /// Removes the first entry with this buffer id from the priority list.
    ///
    /// # Errors
    ///
    /// An entry that the NIC does not remove.
    fn unlink(&mut self, portal: &PortalTableEntry, buffer_id: u16) -> Result<(), Failure> {
        let mut command = TargetCmd::new();
        command
            .set_opcode(C_CMD_TGT_UNLINK as u8)
            .set_ptl_list(C_PTL_LIST_PRIORITY as u8)
            .set_ptlte_index(portal.number())
            .set_buffer_id(buffer_id);
        self.issue(&command)?;
        self.answer("unlinking the buffer", EventType::UNLINK).map(drop)
    }

    #[inline(always)]
    fn issue(&mut self, command: &TargetCmd) -> Result<(), Failure> {
        let mut batch = self.commands.batch();
        batch.emit_target(command).nic("cannot change a list of the portal")?;
        batch.commit_doorbell();
        Ok(())
    }

    /// Waits for an event of success.
    fn answer(&mut self, what: &str, expected: EventType) -> Result<EventRecord, Failure> {
        let (seen, code, record) = answer(what, || {
            let event = self.events.poll()?;
            Some((event.event_type(), event.return_code(), event.record()))
        })
        .map_err(|failure| explain::explain_wait(failure, &self.observer))?;
        self.events.acknowledge();
        if (seen, code) != (expected, ReturnCode::OK) {
            let failure = explain::unexpected(what, seen, expected, code);
            return Err(explain::explain(failure, &self.observer));
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
    use std::cell::Cell;

    use plan::testing::plan;

    use super::*;

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

    struct Set(Cell<u64>);

    impl Clock for Set {
        fn now(&self) -> u64 {
            self.0.get()
        }
    }

    #[test]
    fn finds_answer_that_came_while_thread_did_not_run() {
        let clock = Set(Cell::new(7));
        let mut polls = 0;
        let poll = || {
            polls += 1;
            // The thread loses its CPU after the first poll.
            clock.0.set(7 + 3 * LIMIT);
            (polls == 2).then_some("linked")
        };
        assert_eq!(answer_by(&clock, poll), Some("linked"));
    }

    #[test]
    fn ends_after_limit_without_answer() {
        let clock = Set(Cell::new(7));
        let mut polls = 0;
        let poll = || {
            polls += 1;
            clock.0.set(clock.0.get() + LIMIT / 4);
            None::<()>
        };
        assert_eq!(answer_by(&clock, poll), None);
        assert_eq!(polls, 6);
    }
}
