//! The counters that rise, each with the counts that it shows.

use std::ops::Range;

use cxi_sys::*;

use super::{CommandCounts as Commands, ENTRIES_IN_USE, Telemetry, cycles};

/// Returns the value of a counter. Of a row of counters the second argument is the place in the
/// row, which names are numbered by; of others it is 0.
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
    ("cq_success_tx_cntr", |all, _| all.transmit(Commands::successes)),
    ("cq_success_tgt_cntr", |all, _| all.target(Commands::successes)),
    ("cq_fail_tx_cntr", |all, _| all.transmit(Commands::failures)),
    ("cq_fail_tgt_cntr", |all, _| all.target(Commands::failures)),
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
    // Commands to targets. `ListCount` has the other counters of lists.
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
    /// Returns the values of the counters that rise, with their places. `places` returns the places
    /// of the counter or of the row of counters with a name.
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

/// Returns the packets of a priority, if it is one of requests.
fn if_request(priority: usize, packets: u64) -> u64 {
    if priority.is_multiple_of(2) { packets } else { 0 }
}

/// Returns the packets of a priority, if it is one of responses.
fn if_response(priority: usize, packets: u64) -> u64 {
    packets - if_request(priority, packets)
}
