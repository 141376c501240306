//! The telemetry counters of the NIC, `C_CNTR_*`.
//!
//! Each queue and the wire keep their own counts, with plain additions; [`Telemetry`] is a sum over
//! them made on request.

use cxi_sys::records::CmdHeader;
use cxi_sys::*;

use super::list_counts::{self, ListCounts};
use super::packet_counts::PacketCounts;
use super::return_codes::ReturnCode;

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

    fn of_type(&self, cmd_type: c_cmd_type) -> u64 {
        self.executed[cmd_type as usize].iter().sum()
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
    /// Operations that asked for a flush.
    pub flushed: u64,
    /// Operations for which this NIC has no portals table entry.
    pub unresolved: u64,
    pub link: LinkCounts,
    pub sent: PacketCounts,
    pub received: PacketCounts,
}

// The first numbers of groups of counters: by pool, opcode, event type, or packet size.
const IDC_OF_POOL: u32 = 524;
const DMA_OF_POOL: u32 = 528;
const CQ_OF_POOL: u32 = 532;
const TARGET_OF_POOL: u32 = 540;
const DMA_BY_OPCODE: u32 = 544;
const CQ_BY_OPCODE: u32 = 560;
const LOW_LATENCY_SUCCESSFUL: u32 = 592;
const LOW_LATENCY_RECEIVED: u32 = 604;
const TRIGGERED_OF_POOL: u32 = 628;
const CT_BY_OPCODE: u32 = 636;
const EVENTS: u32 = 904;
const SENT_BY_SIZE: u32 = 1546;
const RECEIVED_BY_SIZE: u32 = 1573;
const SENT_BY_PRIORITY: u32 = 1632;
const RECEIVED_BY_PRIORITY: u32 = 1640;
const HELD_BY_CLASS: u32 = 1745;
const PUT_MESSAGES_BY_CLASS: u32 = 1810;
const GETS_BY_CLASS: u32 = 1820;
const PUT_PACKETS_BY_CLASS: u32 = 1830;
/// Received packets with and without a mark of congestion, requests and responses by priority.
const MARKED_REQUESTS: u32 = 1224;
const MARKED_RESPONSES: u32 = 1240;
const UNMARKED_REQUESTS: u32 = 1232;
const UNMARKED_RESPONSES: u32 = 1248;
// Counters without a number on hardware (`counter_names`).
const SENT_OCTETS: u32 = 2528;
const SENT_OCTETS_OPTIMISED: u32 = 2529;
const RECEIVED_OCTETS: u32 = 2534;
const RECEIVED_OCTETS_OPTIMISED: u32 = 2535;
const MATCH_ATTEMPTS: u32 = 2540;
const MOST_MATCH_ATTEMPTS: u32 = 2548;

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

    /// Returns the value of a counter, by its number in `c_cntr_type`. Counters of blocks that this
    /// NIC does not have or count are 0. Of counters that exist once for each of several equal
    /// blocks, the first is used.
    pub fn value(&self, number: u32) -> u64 {
        use CommandCounts as Counts;
        let transmit = |value: fn(&Counts) -> u64| self.transmit.iter().map(value).sum::<u64>();
        let target = |value: fn(&Counts) -> u64| self.target.iter().map(value).sum::<u64>();
        let by_opcode = |pools: &[Counts; 4], cmd_type: c_cmd_type, opcode: u32| {
            let counts = |pool: &Counts| pool.executed[cmd_type as usize][opcode as usize];
            pools.iter().map(counts).sum()
        };
        let of_target = |opcode: c_tgt_op| by_opcode(&self.target, C_CMD_TYPE_CQ, opcode);
        let nth = |first: u32| (number - first) as usize;
        match number {
            // Ordinary pages are the first size of pages.
            354 => self.link.read_pages.1 + self.link.written_pages.1,
            370 => self.link.read_pages.1,
            371 => self.link.written_pages.1,
            381 => self.link.read_pages.0,
            382 => self.link.written_pages.0,
            480 => transmit(Counts::successes),
            481 => target(Counts::successes),
            482 => transmit(Counts::failures),
            483 => target(Counts::failures),
            488 => transmit(|pool| pool.pointer_errors) + target(|pool| pool.pointer_errors),
            512 => transmit(|pool| pool.align_errors),
            513 => transmit(|pool| pool.op_errors),
            514 => transmit(|pool| pool.arg_errors),
            515 => transmit(|pool| pool.perm_errors),
            516 => target(|pool| pool.align_errors + pool.op_errors + pool.arg_errors),
            517 => target(|pool| pool.perm_errors),
            IDC_OF_POOL..528 => self.transmit[nth(IDC_OF_POOL)].of_type(C_CMD_TYPE_IDC),
            DMA_OF_POOL..532 => self.transmit[nth(DMA_OF_POOL)].of_type(C_CMD_TYPE_DMA),
            CQ_OF_POOL..536 => self.transmit[nth(CQ_OF_POOL)].of_type(C_CMD_TYPE_CQ),
            TARGET_OF_POOL..544 => self.target[nth(TARGET_OF_POOL)].successes(),
            DMA_BY_OPCODE..560 => by_opcode(&self.transmit, C_CMD_TYPE_DMA, number - DMA_BY_OPCODE),
            CQ_BY_OPCODE..576 => by_opcode(&self.transmit, C_CMD_TYPE_CQ, number - CQ_BY_OPCODE),
            // No low-latency write is ever rejected or split.
            LOW_LATENCY_SUCCESSFUL..596 => self.transmit[nth(LOW_LATENCY_SUCCESSFUL)].low_latency,
            LOW_LATENCY_RECEIVED..608 => self.transmit[nth(LOW_LATENCY_RECEIVED)].low_latency,
            608 | 612 => transmit(|pool| pool.of_type(C_CMD_TYPE_CT)),
            626 => self.doorbells,
            TRIGGERED_OF_POOL..632 => {
                let counts = &self.transmit[nth(TRIGGERED_OF_POOL)];
                let opcodes = C_CMD_CT_TRIG_DMA as usize..=C_CMD_CT_TRIG_EVENT as usize;
                counts.executed[C_CMD_TYPE_CT as usize][opcodes].iter().sum()
            }
            CT_BY_OPCODE..652 => by_opcode(&self.transmit, C_CMD_TYPE_CT, number - CT_BY_OPCODE),
            674 | 1808 => self.sent.requests(false),
            675 | 1809 => self.sent.requests(true),
            679 => self.sent.responses(),
            680 | 1180 => self.received.responses(),
            702 => self.link.lost,
            705 => self.link.resent,
            800 => self.events.written.iter().sum(),
            812 => self.events.dropped,
            816 => self.events.statuses,
            832 => self.events.written[C_EVENT_EQ_SWITCH as usize],
            EVENTS..936 => self.events.written[(number - EVENTS) as usize],
            1056 => of_target(C_CMD_TGT_SEARCH),
            1059 => of_target(C_CMD_TGT_SEARCH_AND_DELETE),
            1062 => of_target(C_CMD_TGT_UNLINK),
            1092 => of_target(C_CMD_TGT_APPEND),
            1100 => of_target(C_CMD_TGT_SETSTATE),
            1175 => self.received.requests(false) - self.received.continuations(),
            1177 => self.received.continuations(),
            1178 => self.received.requests(true),
            1216 => self.received.all_marked(),
            1220 => self.received.all() - self.received.all_marked(),
            MARKED_REQUESTS..1232 if number.is_multiple_of(2) => {
                self.received.marked(nth(MARKED_REQUESTS))
            }
            UNMARKED_REQUESTS..1240 if number.is_multiple_of(2) => {
                self.unmarked(nth(UNMARKED_REQUESTS))
            }
            MARKED_RESPONSES..1248 if !number.is_multiple_of(2) => {
                self.received.marked(nth(MARKED_RESPONSES))
            }
            UNMARKED_RESPONSES..1256 if !number.is_multiple_of(2) => {
                self.unmarked(nth(UNMARKED_RESPONSES))
            }
            1305 => self.flushed,
            1326 => self.unresolved,
            // Writes to the memory of the host.
            1354 => self.received.all() + self.events.written.iter().sum::<u64>(),
            1355 => self.link.reads,
            1356 => cycles(self.link.writes_blocked),
            1357 => cycles(self.link.reads_blocked),
            1537 => self.sent.all(),
            1556 => self.received.all(),
            SENT_BY_SIZE..1553 => self.sent.of_size(nth(SENT_BY_SIZE)),
            RECEIVED_BY_SIZE..1580 => self.received.of_size(nth(RECEIVED_BY_SIZE)),
            SENT_BY_PRIORITY..1640 => self.sent.of_priority(nth(SENT_BY_PRIORITY)),
            RECEIVED_BY_PRIORITY..1648 => self.received.of_priority(nth(RECEIVED_BY_PRIORITY)),
            1584 => self.link.stops,
            HELD_BY_CLASS..1749 => cycles(self.link.held[nth(HELD_BY_CLASS)]),
            1785 => cycles(self.link.held_by_fabric),
            PUT_MESSAGES_BY_CLASS..1820 => self.sent.put_messages(nth(PUT_MESSAGES_BY_CLASS)),
            GETS_BY_CLASS..1830 => self.sent.gets(nth(GETS_BY_CLASS)),
            PUT_PACKETS_BY_CLASS..1840 => self.sent.put_packets(nth(PUT_PACKETS_BY_CLASS)),
            SENT_OCTETS | SENT_OCTETS_OPTIMISED => self.sent.octets(),
            RECEIVED_OCTETS | RECEIVED_OCTETS_OPTIMISED => self.received.octets(),
            MATCH_ATTEMPTS => self.lists.attempts,
            MOST_MATCH_ATTEMPTS => self.lists.most_attempts,
            number if list_counts::NUMBERS.contains(&number) => self.lists.value(number),
            _ => 0,
        }
    }

    /// Returns the number of received packets of a priority without a mark.
    fn unmarked(&self, priority: usize) -> u64 {
        self.received.of_priority(priority) - self.received.marked(priority)
    }
}
