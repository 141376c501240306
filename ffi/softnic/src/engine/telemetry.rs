//! The telemetry counters of the NIC, `C_CNTR_*`.
//!
//! Each queue and the wire keep their own counts, with plain additions; [`Telemetry`] is a sum over
//! them made on request.

mod sources;

use cxi_sys::records::CmdHeader;
use cxi_sys::*;

use super::list_counts::ListCounts;
use super::packet_counts::PacketCounts;
use super::return_codes::ReturnCode;

/// The row of the list entries in use, a gauge: 16 times the processing element plus the pool
/// (nic.md 9.5).
pub const ENTRIES_IN_USE: &str = "lpe_sts_pe_le_alloc_num_allocated_*";

/// Counts of the commands of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// The pool of counters that the queue uses, 0 to 3.
    pub pool: usize,
    /// Executed commands, NOOPs included, by type and opcode.
    executed: [[u64; 16]; 4],
    /// Low-latency writes.
    pub low_latency: u64,
    align_errors: u64,
    op_errors: u64,
    arg_errors: u64,
    perm_errors: u64,
    /// Doorbells that name no slot of the ring.
    pub pointer_errors: u64,
}

impl CommandCounts {
    /// Counts a command that was executed.
    #[inline]
    pub fn executed(&mut self, header: CmdHeader) {
        self.executed[usize::from(header.cmd_type())][usize::from(header.opcode())] += 1;
    }

    /// Counts a command that failed.
    pub fn failed(&mut self, code: ReturnCode) {
        match code {
            C_RC_CMD_ALIGN_ERROR => self.align_errors += 1,
            C_RC_ILLEGAL_OP => self.op_errors += 1,
            C_RC_PERM_VIOLATION => self.perm_errors += 1,
            _ => self.arg_errors += 1,
        }
    }

    fn commands_of_type(&self, cmd_type: c_cmd_type) -> u64 {
        self.executed[cmd_type as usize].iter().sum()
    }

    fn commands_of_opcode(&self, cmd_type: c_cmd_type, opcode: usize) -> u64 {
        self.executed[cmd_type as usize][opcode]
    }

    fn triggered(&self) -> u64 {
        let opcodes = C_CMD_CT_TRIG_DMA as usize..=C_CMD_CT_TRIG_EVENT as usize;
        self.executed[C_CMD_TYPE_CT as usize][opcodes].iter().sum()
    }

    fn successes(&self) -> u64 {
        self.executed.iter().flatten().sum()
    }

    fn failures(&self) -> u64 {
        self.align_errors + self.op_errors + self.arg_errors + self.perm_errors
    }

    fn add(&mut self, other: &Self) {
        let counts = self.executed.iter_mut().flatten();
        for (sum, count) in counts.zip(other.executed.iter().flatten()) {
            *sum += count;
        }
        self.low_latency += other.low_latency;
        self.align_errors += other.align_errors;
        self.op_errors += other.op_errors;
        self.arg_errors += other.arg_errors;
        self.perm_errors += other.perm_errors;
        self.pointer_errors += other.pointer_errors;
    }
}

/// Counts of the events of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events written, by type.
    pub written: [u64; 32],
    pub dropped: u64,
    /// Writes of the status block.
    pub statuses: u64,
}

/// Counts of the link model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Requests that were lost, one for each time, and those that were sent again.
    pub lost: u64,
    pub resent: u64,
    /// Reads from the memory of the host that take time, the nanoseconds that these take, and those
    /// for which writes to it wait.
    pub reads: u64,
    pub reads_blocked: u64,
    pub writes_blocked: u64,
    /// Pages whose translation reads and writes asked for, and those that were not in the cache.
    pub read_pages: (u64, u64),
    pub written_pages: (u64, u64),
    /// Nanoseconds for which the shapers of the traffic classes held packets back, by class.
    pub held: [u64; 4],
    /// Nanoseconds for which the flow control of the fabric stopped the link, and packets that it
    /// stopped.
    pub held_by_fabric: u64,
    pub stops: u64,
}

/// Sums over all queues, and the counts of the wire.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    /// Commands of transmit and target queues, by pool.
    transmit: [CommandCounts; 4],
    target: [CommandCounts; 4],
    events: EventCounts,
    /// Stores to the doorbells of counters.
    pub doorbells: u64,
    pub lists: ListCounts,
    /// List entries in use of each processing element, by pool.
    pub entries: [[u64; 16]; 4],
    /// Operations that asked for a flush.
    pub flushed: u64,
    /// Operations for which this NIC has no portals table entry.
    pub unresolved: u64,
    pub link: LinkCounts,
    pub sent: PacketCounts,
    pub received: PacketCounts,
}

/// Returns the cycles of the clock of Cassini 2, 1.1 GHz (health.md 1.2), in a time.
pub fn cycles(nanoseconds: u64) -> u64 {
    nanoseconds.saturating_add(nanoseconds / 10)
}

impl Telemetry {
    /// Adds the counts of a transmit queue.
    pub fn add_transmit(&mut self, counts: &CommandCounts) {
        self.transmit[counts.pool].add(counts);
    }

    /// Adds the counts of a target queue.
    pub fn add_target(&mut self, counts: &CommandCounts) {
        self.target[counts.pool].add(counts);
    }

    /// Adds the counts of an event queue.
    pub fn add_events(&mut self, counts: &EventCounts) {
        for (sum, count) in self.events.written.iter_mut().zip(counts.written) {
            *sum += count;
        }
        self.events.dropped += counts.dropped;
        self.events.statuses += counts.statuses;
    }

    /// Returns a sum over the transmit queues.
    fn transmit(&self, value: fn(&CommandCounts) -> u64) -> u64 {
        self.transmit.iter().map(value).sum()
    }

    /// Returns a sum over the target queues.
    fn target(&self, value: fn(&CommandCounts) -> u64) -> u64 {
        self.target.iter().map(value).sum()
    }

    /// Returns the number of commands of transmit queues with this type and opcode.
    fn commands(&self, cmd_type: c_cmd_type, opcode: usize) -> u64 {
        self.transmit.iter().map(|pool| pool.commands_of_opcode(cmd_type, opcode)).sum()
    }

    /// Returns the number of commands of target queues with this opcode.
    fn target_commands(&self, opcode: c_tgt_op) -> u64 {
        self.target.iter().map(|pool| pool.commands_of_opcode(C_CMD_TYPE_CQ, opcode as usize)).sum()
    }

    /// Returns the number of events of a type.
    fn events(&self, event_type: c_event_type) -> u64 {
        self.events.written[event_type as usize]
    }
}
