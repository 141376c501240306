//! The telemetry counters of the NIC, `C_CNTR_*`.
//!
//! Each queue and the wire keep their own counts, with plain additions; [`Telemetry`] is a sum over
//! them made on request.

use std::ops::Range;

use cxi_sys::records::CmdHeader;
use cxi_sys::*;

use super::packet_counts::PacketCounts;
use super::return_codes::ReturnCode;

/// Declares the counters with their names.
macro_rules! list_counts {
    ($($(#[$comment:meta])* $count:ident = $name:literal,)*) => {
        /// A counter.
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub enum ListCount {
            $($(#[$comment])* $count,)*
        }

        /// All counters, in the order of their numbers.
        const COUNTERS: &[(ListCount, &str)] = &[$((ListCount::$count, $name),)*];
    };
}

// Of the counters that exist for each of four pools, the first counts.
list_counts! {
    Success = "lpe_success_cntr",
    Fail = "lpe_fail_cntr",
    Put = "lpe_put_cmds",
    RendezvousPut = "lpe_rendezvous_put_cmds",
    Get = "lpe_get_cmds",
    Atomic = "lpe_amo_cmds",
    FetchingAtomic = "lpe_famo_cmds",
    /// Messages refused by flow control, and by portals table entries without it.
    DisabledEqFull = "lpe_err_pt_disabled_eq_full",
    DisabledRequestEmpty = "lpe_err_pt_disabled_req_empty",
    DisabledNoUnexpected = "lpe_err_pt_disabled_cant_alloc_unexpected",
    DisabledNoMatch = "lpe_err_pt_disabled_no_match_in_overflow",
    OpViolation = "lpe_err_op_violation",
    UnlinkFailed = "lpe_err_entry_not_found_unlink_failed",
    NotFoundEqFull = "lpe_err_entry_not_found_eq_full",
    NotFoundRequestEmpty = "lpe_err_entry_not_found_req_empty",
    NotFoundNoMatch = "lpe_err_entry_not_found_no_match_in_overflow",
    NotFoundNoUnexpected = "lpe_err_entry_not_found_cant_alloc_unexpected",
    InvalidEndpoint = "lpe_err_invalid_endpoint",
    NoSpaceAppend = "lpe_err_no_space_append",
    NoSpaceNet = "lpe_err_no_space_net",
    SearchNoMatch = "lpe_err_search_no_match",
    SetStateNoMatch = "lpe_err_setstate_no_match",
    SoftwareManaged = "lpe_err_ptlte_sw_managed",
    RestrictedUnicast = "lpe_err_restricted_unicast",
    /// Operations at persistent entries of portals table entries without matching.
    CacheHit = "lpe_plec_hits",
    SearchSuccess = "lpe_search_success",
    SearchFail = "lpe_search_fail",
    DeleteSuccess = "lpe_search_delete_success",
    DeleteFail = "lpe_search_delete_fail",
    UnlinkSuccess = "lpe_unlink_success",
    MatchRequest = "lpe_net_match_requests_0",
    MatchSuccess = "lpe_net_match_success_0",
    MatchUseOnce = "lpe_net_match_useonce_0",
    MatchLocal = "lpe_net_match_local_0",
    MatchPriority = "lpe_net_match_priority_0",
    MatchOverflow = "lpe_net_match_overflow_0",
    MatchRequestList = "lpe_net_match_request_0",
    AppendSuccess = "lpe_append_success_0",
    SetStateSuccess = "lpe_setstate_success_0",
    Rendezvous = "lpe_rndzv_puts_0",
    RendezvousOffloaded = "lpe_rndzv_puts_offloaded_0",
    Truncated = "lpe_num_truncated_0",
}

/// The properties by which the counters distinguish operations that matched an entry.
#[derive(Clone, Copy)]
pub struct MatchedOperation {
    /// One of `Put` to `FetchingAtomic`.
    pub kind: ListCount,
    /// The number of the list.
    pub list: u8,
    pub use_once: bool,
    pub manage_local: bool,
    pub truncated: bool,
    /// A persistent entry of a portals table entry without matching.
    pub cached: bool,
}

/// More than any index of a match at one of the three lists.
const MATCHES: usize = 3 << 7;

impl MatchedOperation {
    #[inline]
    fn index(self) -> usize {
        (self.kind as usize - ListCount::Put as usize)
            | usize::from(self.use_once) << 3
            | usize::from(self.manage_local) << 4
            | usize::from(self.truncated) << 5
            | usize::from(self.cached) << 6
            | usize::from(self.list & 3) << 7
    }

    /// Whether a counter counts the matches with this index.
    fn is_counted(index: usize, count: ListCount) -> bool {
        let flag = |bit: u32| index >> bit & 1 == 1;
        match count {
            ListCount::Success | ListCount::MatchRequest | ListCount::MatchSuccess => true,
            ListCount::MatchUseOnce => flag(3),
            ListCount::MatchLocal => flag(4),
            ListCount::Truncated => flag(5),
            ListCount::CacheHit => flag(6),
            ListCount::MatchPriority => index >> 7 == 0,
            ListCount::MatchOverflow => index >> 7 == 1,
            ListCount::MatchRequestList => index >> 7 == 2,
            _ => count as usize == ListCount::Put as usize + (index & 7),
        }
    }
}

/// The counters of the lists.
///
/// An operation that matches adds to many counters, so matches are counted by what distinguishes
/// them, with one addition each.
#[derive(Clone, Debug)]
pub struct ListCounts {
    counts: [u64; COUNTERS.len()],
    matches: [u64; MATCHES],
    /// List entries that operations were compared with, and the most for one operation.
    pub attempts: u64,
    most_attempts: u64,
}

impl Default for ListCounts {
    fn default() -> Self {
        Self { counts: [0; COUNTERS.len()], matches: [0; MATCHES], attempts: 0, most_attempts: 0 }
    }
}

impl ListCounts {
    /// Adds one to a counter.
    pub fn count(&mut self, count: ListCount) {
        self.counts[count as usize] += 1;
    }

    /// Counts `operations` that succeeded at the entry that they matched.
    #[inline]
    pub fn matched(&mut self, matching: MatchedOperation, operations: u64) {
        self.matches[matching.index() % MATCHES] += operations;
    }

    /// Counts the list entries that each of these operations was compared with.
    #[inline]
    pub fn searched(&mut self, entries: usize, operations: u64) {
        let entries = entries as u64;
        self.attempts += entries * operations;
        self.most_attempts = self.most_attempts.max(entries);
    }

    /// The names and the values of all counters.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> {
        COUNTERS.iter().map(|(count, name)| (*name, self.value(*count)))
    }

    fn value(&self, count: ListCount) -> u64 {
        let matches = self.matches.iter().enumerate();
        let counted = matches.filter(|&(index, &operations)| {
            operations != 0 && MatchedOperation::is_counted(index, count)
        });
        let matched: u64 = counted.map(|(_, operations)| operations).sum();
        self.counts[count as usize] + matched
    }
}

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
    /// CommandCounts of transmit and target queues, by pool.
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

/// The cycles of the clock of Cassini 2, 1.1 GHz (health.md 1.2), in a time.
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

    /// A sum over the transmit queues.
    fn transmit(&self, value: fn(&CommandCounts) -> u64) -> u64 {
        self.transmit.iter().map(value).sum()
    }

    /// A sum over the target queues.
    fn target(&self, value: fn(&CommandCounts) -> u64) -> u64 {
        self.target.iter().map(value).sum()
    }

    /// The number of commands of transmit queues with this type and opcode.
    fn commands(&self, cmd_type: c_cmd_type, opcode: usize) -> u64 {
        self.transmit.iter().map(|pool| pool.commands_of_opcode(cmd_type, opcode)).sum()
    }

    /// The number of commands of target queues with this opcode.
    fn target_commands(&self, opcode: c_tgt_op) -> u64 {
        self.target.iter().map(|pool| pool.commands_of_opcode(C_CMD_TYPE_CQ, opcode as usize)).sum()
    }

    fn events(&self, event_type: c_event_type) -> u64 {
        self.events.written[event_type as usize]
    }
}

/// The value of a counter. Of a row of counters the second argument is the place in the row, which
/// names are numbered by; of others it is 0.
type CounterSource = fn(&Telemetry, usize) -> u64;

/// The counters by name; a row of them has an asterisk in place of the number. The others are 0:
/// their blocks do not exist or do not count. Of counters that exist once for each of several equal
/// blocks, the first is used.
const SOURCES: &[(&str, CounterSource)] = &[
    // Pages of 4 KiB. Ordinary pages are the first size of pages.
    ("atu_cache_miss_0", |all, _| all.link.read_pages.1 + all.link.written_pages.1),
    ("atu_cache_miss_oxe", |all, _| all.link.read_pages.1),
    ("atu_cache_miss_ixe", |all, _| all.link.written_pages.1),
    ("atu_client_req_oxe", |all, _| all.link.read_pages.0),
    ("atu_client_req_ixe", |all, _| all.link.written_pages.0),
    // Command queues.
    ("cq_success_tx_cntr", |all, _| all.transmit(CommandCounts::successes)),
    ("cq_success_tgt_cntr", |all, _| all.target(CommandCounts::successes)),
    ("cq_fail_tx_cntr", |all, _| all.transmit(CommandCounts::failures)),
    ("cq_fail_tgt_cntr", |all, _| all.target(CommandCounts::failures)),
    ("cq_wr_ptr_updt_err_cntr", |all, _| {
        all.transmit(|pool| pool.pointer_errors) + all.target(|pool| pool.pointer_errors)
    }),
    ("cq_num_tx_cmd_align_errors", |all, _| all.transmit(|pool| pool.align_errors)),
    ("cq_num_tx_cmd_op_errors", |all, _| all.transmit(|pool| pool.op_errors)),
    ("cq_num_tx_cmd_arg_errors", |all, _| all.transmit(|pool| pool.arg_errors)),
    ("cq_num_tx_cmd_perm_errors", |all, _| all.transmit(|pool| pool.perm_errors)),
    ("cq_num_tgt_cmd_arg_errors", |all, _| {
        all.target(|pool| pool.align_errors + pool.op_errors + pool.arg_errors)
    }),
    ("cq_num_tgt_cmd_perm_errors", |all, _| all.target(|pool| pool.perm_errors)),
    ("cq_num_idc_cmds_*", |all, pool| all.transmit[pool].commands_of_type(C_CMD_TYPE_IDC)),
    ("cq_num_dma_cmds_*", |all, pool| all.transmit[pool].commands_of_type(C_CMD_TYPE_DMA)),
    ("cq_num_cq_cmds_*", |all, pool| all.transmit[pool].commands_of_type(C_CMD_TYPE_CQ)),
    ("cq_num_tgt_cmds_*", |all, pool| all.target[pool].successes()),
    ("cq_dma_cmd_counts_*", |all, opcode| all.commands(C_CMD_TYPE_DMA, opcode)),
    ("cq_cq_cmd_counts_*", |all, opcode| all.commands(C_CMD_TYPE_CQ, opcode)),
    // No low-latency write is ever rejected or split.
    ("cq_num_ll_ops_successful_*", |all, pool| all.transmit[pool].low_latency),
    ("cq_num_ll_ops_received_*", |all, pool| all.transmit[pool].low_latency),
    // Counting events and triggered operations.
    ("tou_success_cntr", |all, _| all.transmit(|pool| pool.commands_of_type(C_CMD_TYPE_CT))),
    ("tou_cq_tou_num_cmds", |all, _| all.transmit(|pool| pool.commands_of_type(C_CMD_TYPE_CT))),
    ("tou_num_doorbell_writes", |all, _| all.doorbells),
    ("tou_num_trig_cmds_*", |all, pool| all.transmit[pool].triggered()),
    ("tou_ct_cmd_counts_*", |all, opcode| all.commands(C_CMD_TYPE_CT, opcode)),
    // Requests and responses.
    ("pct_req_ordered", |all, _| all.sent.requests(false)),
    ("pct_req_unordered", |all, _| all.sent.requests(true)),
    ("pct_ptls_response", |all, _| all.sent.responses()),
    ("pct_responses_received", |all, _| all.received.responses()),
    ("pct_spt_timeouts", |all, _| all.link.lost),
    ("pct_retry_srb_requests", |all, _| all.link.resent),
    // Events.
    ("ee_events_enqueued_cntr_0", |all, _| all.events.written.iter().sum()),
    ("ee_events_dropped_ordinary_cntr_0", |all, _| all.events.dropped),
    ("ee_eq_status_update_cntr_0", |all, _| all.events.statuses),
    ("ee_eq_buffer_switch_cntr_0", |all, _| all.events(C_EVENT_EQ_SWITCH)),
    ("ee_event_put_cntr", |all, _| all.events(C_EVENT_PUT)),
    ("ee_event_get_cntr", |all, _| all.events(C_EVENT_GET)),
    ("ee_event_atomic_cntr", |all, _| all.events(C_EVENT_ATOMIC)),
    ("ee_event_fetch_atomic_cntr", |all, _| all.events(C_EVENT_FETCH_ATOMIC)),
    ("ee_event_put_overflow_cntr", |all, _| all.events(C_EVENT_PUT_OVERFLOW)),
    ("ee_event_get_overflow_cntr", |all, _| all.events(C_EVENT_GET_OVERFLOW)),
    ("ee_event_atomic_overflow_cntr", |all, _| all.events(C_EVENT_ATOMIC_OVERFLOW)),
    ("ee_event_fetch_atomic_overflow_cntr", |all, _| all.events(C_EVENT_FETCH_ATOMIC_OVERFLOW)),
    ("ee_event_send_cntr", |all, _| all.events(C_EVENT_SEND)),
    ("ee_event_ack_cntr", |all, _| all.events(C_EVENT_ACK)),
    ("ee_event_reply_cntr", |all, _| all.events(C_EVENT_REPLY)),
    ("ee_event_link_cntr", |all, _| all.events(C_EVENT_LINK)),
    ("ee_event_search_cntr", |all, _| all.events(C_EVENT_SEARCH)),
    ("ee_event_state_change_cntr", |all, _| all.events(C_EVENT_STATE_CHANGE)),
    ("ee_event_unlink_cntr", |all, _| all.events(C_EVENT_UNLINK)),
    ("ee_event_rendezvous_cntr", |all, _| all.events(C_EVENT_RENDEZVOUS)),
    ("ee_event_ethernet_cntr", |all, _| all.events(C_EVENT_ETHERNET)),
    ("ee_event_command_failure_cntr", |all, _| all.events(C_EVENT_COMMAND_FAILURE)),
    ("ee_event_triggered_op_cntr", |all, _| all.events(C_EVENT_TRIGGERED_OP)),
    ("ee_event_ethernet_fgfc_cntr", |all, _| all.events(C_EVENT_ETHERNET_FGFC)),
    ("ee_event_pct_cntr", |all, _| all.events(C_EVENT_PCT)),
    ("ee_event_match_cntr", |all, _| all.events(C_EVENT_MATCH)),
    ("ee_event_error_cntr", |all, _| all.events(C_EVENT_ERROR)),
    ("ee_event_timestamp_cntr", |all, _| all.events(C_EVENT_TIMESTAMP)),
    ("ee_event_eq_switch_cntr", |all, _| all.events(C_EVENT_EQ_SWITCH)),
    ("ee_event_null_event_cntr", |all, _| all.events(C_EVENT_NULL_EVENT)),
    // CommandCounts to targets. `ListCount` has the other counters of lists.
    ("lpe_search_cmds", |all, _| all.target_commands(C_CMD_TGT_SEARCH)),
    ("lpe_search_delete_cmds", |all, _| all.target_commands(C_CMD_TGT_SEARCH_AND_DELETE)),
    ("lpe_unlink_cmds", |all, _| all.target_commands(C_CMD_TGT_UNLINK)),
    ("lpe_append_cmds_0", |all, _| all.target_commands(C_CMD_TGT_APPEND)),
    ("lpe_setstate_cmds_0", |all, _| all.target_commands(C_CMD_TGT_SETSTATE)),
    (ENTRIES_IN_USE, |all, place| all.entries[place / 16][place % 16]),
    ("lpe_sts_net_match_attempts_0", |all, _| all.lists.attempts),
    ("lpe_sts_net_max_attempts_max_0", |all, _| all.lists.most_attempts),
    // Received packets. Those with an even priority are requests, the others responses.
    ("ixe_rx_ptl_unrestricted_pkt", |all, _| {
        all.received.requests(false) - all.received.continuations()
    }),
    ("ixe_rx_ptl_continuation_pkt", |all, _| all.received.continuations()),
    ("ixe_rx_ptl_restricted_pkt", |all, _| all.received.requests(true)),
    ("ixe_rx_ptl_response_pkt", |all, _| all.received.responses()),
    ("ixe_pool_ecn_pkts_0", |all, _| all.received.all_marked()),
    ("ixe_pool_no_ecn_pkts_0", |all, _| all.received.all() - all.received.all_marked()),
    ("ixe_tc_req_ecn_pkts_*", |all, priority| if_request(priority, all.received.marked(priority))),
    ("ixe_tc_req_no_ecn_pkts_*", |all, priority| {
        if_request(priority, all.received.unmarked(priority))
    }),
    ("ixe_tc_rsp_ecn_pkts_*", |all, priority| if_response(priority, all.received.marked(priority))),
    ("ixe_tc_rsp_no_ecn_pkts_*", |all, priority| {
        if_response(priority, all.received.unmarked(priority))
    }),
    ("ixe_dmawr_flush_reqs", |all, _| all.flushed),
    ("rmu_ptl_no_ptlte_cntr", |all, _| all.unresolved),
    // Memory of the host: each received packet and each event is written.
    ("parbs_tarb_pi_posted_pkts", |all, _| {
        all.received.all() + all.events.written.iter().sum::<u64>()
    }),
    ("parbs_tarb_pi_non_posted_pkts", |all, _| all.link.reads),
    ("parbs_tarb_pi_posted_blocked_cnt", |all, _| cycles(all.link.writes_blocked)),
    ("parbs_tarb_pi_non_posted_blocked_cnt", |all, _| cycles(all.link.reads_blocked)),
    // Packets of the link, by size and priority.
    ("hni_tx_ok_opt", |all, _| all.sent.all()),
    ("hni_tx_ok_64", |all, _| all.sent.packets_of_size(0)),
    ("hni_tx_ok_65_to_127", |all, _| all.sent.packets_of_size(1)),
    ("hni_tx_ok_128_to_255", |all, _| all.sent.packets_of_size(2)),
    ("hni_tx_ok_256_to_511", |all, _| all.sent.packets_of_size(3)),
    ("hni_tx_ok_512_to_1023", |all, _| all.sent.packets_of_size(4)),
    ("hni_tx_ok_1024_to_2047", |all, _| all.sent.packets_of_size(5)),
    ("hni_tx_ok_2048_to_4095", |all, _| all.sent.packets_of_size(6)),
    ("hni_rx_ok_opt", |all, _| all.received.all()),
    ("hni_rx_ok_64", |all, _| all.received.packets_of_size(0)),
    ("hni_rx_ok_65_to_127", |all, _| all.received.packets_of_size(1)),
    ("hni_rx_ok_128_to_255", |all, _| all.received.packets_of_size(2)),
    ("hni_rx_ok_256_to_511", |all, _| all.received.packets_of_size(3)),
    ("hni_rx_ok_512_to_1023", |all, _| all.received.packets_of_size(4)),
    ("hni_rx_ok_1024_to_2047", |all, _| all.received.packets_of_size(5)),
    ("hni_rx_ok_2048_to_4095", |all, _| all.received.packets_of_size(6)),
    ("hni_pkts_sent_by_tc_*", |all, priority| all.sent.packets_of_priority(priority)),
    ("hni_pkts_recv_by_tc_*", |all, priority| all.received.packets_of_priority(priority)),
    ("hni_sts_tx_ok_octets", |all, _| all.sent.octets()),
    ("hni_sts_tx_octets_opt", |all, _| all.sent.octets()),
    ("hni_sts_rx_ok_octets", |all, _| all.received.octets()),
    ("hni_sts_rx_octets_opt", |all, _| all.received.octets()),
    // Packets that the flow control of the fabric and the shapers of the classes hold back.
    ("hni_fgfc_port", |all, _| all.link.stops),
    ("oxe_stall_fgfc_blk_0", |all, _| cycles(all.link.held_by_fabric)),
    ("oxe_stall_ts_no_out_crd_tsc_*", |all, class| {
        cycles(all.link.held.get(class).copied().unwrap_or(0))
    }),
    // Messages and packets sent.
    ("oxe_ioi_pkts_ordered", |all, _| all.sent.requests(false)),
    ("oxe_ioi_pkts_unordered", |all, _| all.sent.requests(true)),
    ("oxe_ptl_tx_put_msgs_tsc_*", |all, class| all.sent.put_messages(class)),
    ("oxe_ptl_tx_get_msgs_tsc_*", |all, class| all.sent.gets(class)),
    ("oxe_ptl_tx_put_pkts_tsc_*", |all, class| all.sent.put_packets(class)),
];

impl Telemetry {
    /// The values of the counters that rise, with their places. `places` returns the places of the
    /// counter or of the row of counters with a name.
    pub fn values(
        &self,
        places: impl Fn(&'static str) -> Range<usize>,
    ) -> impl Iterator<Item = (usize, u64)> {
        let mut values = Vec::new();
        for (name, source) in SOURCES {
            let row = places(name).enumerate();
            values.extend(row.map(|(index, place)| (place, source(self, index))));
        }
        for (name, value) in self.lists.values() {
            values.extend(places(name).map(|place| (place, value)));
        }
        values.into_iter()
    }
}

fn if_request(priority: usize, packets: u64) -> u64 {
    if priority.is_multiple_of(2) { packets } else { 0 }
}

/// The packets of a priority, if it is one of responses.
fn if_response(priority: usize, packets: u64) -> u64 {
    packets - if_request(priority, packets)
}
