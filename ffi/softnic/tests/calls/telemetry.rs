//! Registers, telemetry, and parts that the software NIC lacks (libcxi.md 8.5).

use crate::driver::prelude::*;
use std::ffi::c_void;

/// Runs `work` without the privileges of root.
fn as_nobody(work: impl FnOnce()) {
    let become_user = |user| {
        // SAFETY: the system call has no requirements.
        assert_eq!(unsafe { libc::seteuid(user) }, 0);
    };
    let was_root = is_root();
    if was_root {
        become_user(65534);
    }
    work();
    if was_root {
        become_user(0);
    }
}

/// An open device, closed when dropped.
struct Device(*mut cxil_dev);

impl Device {
    fn open() -> Self {
        Self(open(0))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        call!(cxil_close_device(self.0));
    }
}

const CLOCKS: [u32; 15] = [
    C_ATU_ERR_ELAPSED_TIME,
    C_CQ_ERR_ELAPSED_TIME,
    C_EE_ERR_ELAPSED_TIME,
    C_HNI_ERR_ELAPSED_TIME,
    C_HNI_PML_ERR_ELAPSED_TIME,
    C_IXE_ERR_ELAPSED_TIME,
    C_LPE_ERR_ELAPSED_TIME,
    C_MB_ERR_ELAPSED_TIME,
    C_MST_ERR_ELAPSED_TIME,
    C_OXE_ERR_ELAPSED_TIME,
    C_PARBS_ERR_ELAPSED_TIME,
    C_PCT_ERR_ELAPSED_TIME,
    C_PI_ERR_ELAPSED_TIME,
    C_PI_IPD_ERR_ELAPSED_TIME,
    C_RMU_ERR_ELAPSED_TIME,
];

fn read(dev: *mut cxil_dev, csr: u32, value: &mut [u8]) -> i32 {
    let (to, len) = (value.as_mut_ptr().cast(), value.len());
    -call!(cxil_read_csr(dev, csr, to, len))
}

/// Nanoseconds of a clock.
fn time(dev: *mut cxil_dev, csr: u32) -> u64 {
    // Unaligned, as in packed records.
    let mut value = [0xff; 9];
    assert_eq!(read(dev, csr, &mut value[1..]), 0, "{csr:#x}");
    let value = u64::from_le_bytes(value[1..].try_into().unwrap());
    let (seconds, nanoseconds) = (value >> 30, value & ((1 << 30) - 1));
    assert!(nanoseconds < 1_000_000_000);
    seconds * 1_000_000_000 + nanoseconds
}

#[test]
fn reads_clock_registers() {
    alone!();
    let started = std::time::Instant::now();
    let device = Device::open();
    let dev = device.0;
    let mut value = [0; 8];
    let clock = C_HNI_ERR_ELAPSED_TIME;
    assert_eq!(read(dev, clock, &mut value), EINVAL, "not mapped");
    if !is_root() {
        assert_eq!(call!(cxil_map_csr(dev)), -EPERM);
        return;
    }
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    assert_eq!(call!(cxil_map_csr(dev)), -EINVAL, "mapped");
    let mut last = 0;
    for clock in CLOCKS.into_iter().cycle().take(1000) {
        let now = time(dev, clock);
        assert!(now >= last);
        last = now;
    }
    assert!(last > 0 && u128::from(last) <= started.elapsed().as_nanos());
    // Other registers, and parts of a clock.
    let refuse = |csr, len: usize| read(dev, csr, &mut vec![0; len]);
    assert_eq!(refuse(clock, 16), EOPNOTSUPP);
    assert_eq!(refuse(0, 8), EOPNOTSUPP);
    for len in [0, 4, 7, 9] {
        assert_eq!(refuse(clock, len), EINVAL);
    }
    assert_eq!(refuse(clock + 4, 8), EINVAL);
    assert_eq!(refuse((2 << 30) - 8, 8), EOPNOTSUPP, "the last of the range");
    assert_eq!(refuse(2 << 30, 8), EINVAL);
    assert_eq!(refuse(u32::MAX - 7, 8), EINVAL);
    assert_eq!(call!(cxil_read_csr(dev, clock, null_mut(), 8)), -EINVAL);
    assert_eq!(read(null_mut(), clock, &mut value), EINVAL);
    let far = call!(cxil_read_csr(dev, 0, value.as_mut_ptr().cast(), usize::MAX - 7));
    assert_eq!(far, -EINVAL);
    // Each open has its own mapping.
    let other = Device::open();
    assert_eq!(read(other.0, clock, &mut value), EINVAL);
    as_nobody(|| {
        assert_eq!(call!(cxil_map_csr(other.0)), -EPERM);
        assert_eq!(call!(cxil_map_csr(null_mut())), -EINVAL);
    });
}

#[test]
fn rejects_register_writes() {
    alone!();
    let device = Device::open();
    let dev = device.0;
    let value = [0_u64; 2];
    let from: *const c_void = value.as_ptr().cast();
    let write = |dev, csr, from, len| -call!(cxil_write_csr(dev, csr, from, len));
    let write8 = |dev, csr, offset, from, len| -call!(cxil_write8_csr(dev, csr, offset, from, len));
    let clock = C_HNI_ERR_ELAPSED_TIME;
    assert_eq!(write(dev, clock, from, 8), EINVAL, "not mapped");
    assert_eq!(write8(dev, clock, 0, from, 1), EINVAL);
    if !is_root() {
        return;
    }
    assert_eq!(call!(cxil_map_csr(dev)), 0);
    assert_eq!(write(null_mut(), clock, from, 8), EINVAL);
    assert_eq!(write(dev, clock, null(), 8), EINVAL);
    assert_eq!(write(dev, clock, from, 7), EINVAL);
    assert_eq!(write(dev, clock, from, 8), EOPNOTSUPP);
    assert_eq!(write8(null_mut(), clock, 0, from, 1), EINVAL);
    assert_eq!(write8(dev, clock, 0, null(), 1), EINVAL);
    assert_eq!(write8(dev, clock, 0, from, 0), EINVAL);
    assert_eq!(write8(dev, clock, u32::MAX, from, 1), EINVAL);
    assert_eq!(write8(dev, clock, 2 << 30, from, 1), EINVAL);
    assert_eq!(write8(dev, clock, 3, from, 1), EOPNOTSUPP);
}

/// An impossible time.
const NEVER: timespec = timespec { tv_sec: -1, tv_nsec: -1 };

/// All counters except the counter of code words, which rises with time.
fn all(dev: *mut cxil_dev) -> Vec<u64> {
    let mut values = vec![u64::MAX; C1_CNTR_SIZE as usize + 1];
    let to = values.as_mut_ptr();
    assert_eq!(call!(cxil_read_all_cntrs(dev, to, null_mut())), 0);
    assert_eq!(values.pop(), Some(u64::MAX), "written beyond the room");
    values[number("hni_pcs_good_cw") as usize] = 0;
    values
}

/// Names and increments of the counters that changed.
fn changes(before: &[u64], after: &[u64]) -> Vec<(&'static str, u64)> {
    let mut changes: Vec<_> = before
        .iter()
        .zip(after)
        .enumerate()
        .filter(|(_, (before, after))| before != after)
        .map(|(number, (before, after))| (name(number as u32), after - before))
        .collect();
    changes.sort_unstable();
    changes
}

#[test]
fn reads_telemetry_counters_by_number() {
    alone!();
    let rig = Rig::new();
    let dev = rig.dev;
    let (mut value, mut ts) = ([77; 3], NEVER);
    let numbers = ["cq_success_tx_cntr", "ee_event_ack_cntr"].map(number);
    let read = |dev, count, numbers, to, ts| -call!(cxil_read_n_cntrs(dev, count, numbers, to, ts));
    let cast = |numbers: [u32; 2]| numbers.map(|number| number as c_cntr_type);
    let asked = cast(numbers);
    let (from, to) = (asked.as_ptr(), value.as_mut_ptr());
    assert_eq!(read(null_mut(), 2, from, to, &mut ts), EINVAL);
    assert_eq!(read(dev, 0, from, to, &mut ts), EINVAL);
    assert_eq!(read(dev, 2, null(), to, &mut ts), EINVAL);
    assert_eq!(read(dev, 2, from, null_mut(), &mut ts), EINVAL);
    // Numbers before the first, after the last, and in a gap: nothing is written.
    for wrong in [0, 95, 1971, 158, C1_CNTR_SIZE, u32::MAX] {
        let numbers = cast([numbers[0], wrong]);
        assert_eq!(read(dev, 2, numbers.as_ptr(), to, &mut ts), EINVAL);
        let one = call!(cxil_read_cntr(dev, wrong, to, &mut ts));
        assert_eq!(one, -EINVAL);
    }
    assert_eq!((value, ts.tv_sec), ([77; 3], -1));
    assert_eq!(read(dev, 2, from, value.as_mut_ptr(), null_mut()), 0);
    assert_eq!(value, [0, 0, 77]);
    let one = |dev, to| call!(cxil_read_cntr(dev, numbers[0], to, null_mut()));
    assert_eq!(one(null_mut(), value.as_mut_ptr()), -EINVAL);
    assert_eq!(one(dev, null_mut()), -EINVAL);
    let every = |dev, to| call!(cxil_read_all_cntrs(dev, to, null_mut()));
    assert_eq!(every(null_mut(), value.as_mut_ptr()), -EINVAL);
    assert_eq!(every(dev, null_mut()), -EINVAL);
    for (name, first_or_last) in [
        ("pi_ipd_pri_rtrgt_tlps", 96),
        ("pi_ipd_ipd_trigger_events_1", 157),
        ("oxe_prf_set1_occ_hist_bin3", 1970),
    ] {
        assert_eq!((number(name), counter(dev, name)), (first_or_last, 0));
    }
}

#[test]
fn counts_commands_events_and_packets() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    let mut last = all(rig.dev);
    assert!(last.iter().all(|&value| value == 0));
    let mut news = |rig: &Rig| {
        let now = all(rig.dev);
        let found = changes(&last, &now);
        for &(name, _) in &found {
            assert_eq!(counter(rig.dev, name), now[number(name) as usize]);
        }
        last = now;
        found
    };
    rig.target_with(0, &sink, |_| {});
    // SETSTATE and APPEND, and their events STATE_CHANGE and LINK.
    let commands = [
        ("cq_success_tgt_cntr", 2),
        ("cq_num_tgt_cmds_0", 2),
        ("lpe_append_cmds_0", 1),
        ("lpe_setstate_cmds_0", 1),
    ];
    let successes = [("lpe_append_success_0", 1), ("lpe_setstate_success_0", 1)];
    let events = [
        ("ee_events_enqueued_cntr_0", 2),
        ("ee_event_link_cntr", 1),
        ("ee_event_state_change_cntr", 1),
        ("parbs_tarb_pi_posted_pkts", 2),
    ];
    assert_eq!(news(&rig), sorted(&[&commands, &successes, &events]));
    // Found by the cache of persistent entries, in the PRIORITY list.
    let matched = [
        "lpe_put_cmds",
        "lpe_success_cntr",
        "lpe_plec_hits",
        "lpe_net_match_requests_0",
        "lpe_net_match_success_0",
        "lpe_net_match_priority_0",
    ]
    .map(|name| (name, 1));
    // A put of two packets to the device itself, and its response; events PUT and ACK.
    let put = rig.dma_put(&source, 0, 2100, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    assert_eq!(rig.teq.wait().kind(), C_EVENT_PUT);
    let commands =
        [("cq_success_tx_cntr", 1), ("cq_num_dma_cmds_0", 1), ("cq_dma_cmd_counts_1", 1)];
    let events =
        [("ee_events_enqueued_cntr_0", 2), ("ee_event_put_cntr", 1), ("ee_event_ack_cntr", 1)];
    let sent = [
        ("hni_tx_ok_opt", 3),
        ("hni_tx_ok_64", 1),
        ("hni_tx_ok_65_to_127", 1),
        ("hni_tx_ok_2048_to_4095", 1),
    ];
    let received = [
        ("hni_rx_ok_opt", 3),
        ("hni_rx_ok_64", 1),
        ("hni_rx_ok_65_to_127", 1),
        ("hni_rx_ok_2048_to_4095", 1),
        ("parbs_tarb_pi_posted_pkts", 5),
    ];
    // Unrestricted requests and a response, of which the second request continues the first.
    let requests = [
        ("pct_req_ordered", 2),
        ("oxe_ioi_pkts_ordered", 2),
        ("hni_pkts_sent_by_tc_0", 2),
        ("oxe_ptl_tx_put_msgs_tsc_0", 1),
        ("oxe_ptl_tx_put_pkts_tsc_0", 2),
    ];
    // None of them has a mark of congestion: by pool, and by priority.
    let arrived = [
        ("ixe_rx_ptl_unrestricted_pkt", 1),
        ("ixe_rx_ptl_continuation_pkt", 1),
        ("hni_pkts_recv_by_tc_0", 2),
        ("ixe_pool_no_ecn_pkts_0", 3),
        ("ixe_tc_req_no_ecn_pkts_0", 2),
    ];
    let response = [
        "pct_ptls_response",
        "hni_pkts_sent_by_tc_1",
        "pct_responses_received",
        "ixe_rx_ptl_response_pkt",
        "hni_pkts_recv_by_tc_1",
        "ixe_tc_rsp_no_ecn_pkts_1",
    ]
    .map(|name| (name, 1));
    assert_eq!(
        news(&rig),
        sorted(&[&commands, &events, &sent, &received, &requests, &arrived, &response, &matched])
    );
    // Low latency: C_STATE by doorbell, a put by a window.
    rig.tx.issue(&c_state(rig.eq.number, true, |_| {}));
    rig.tx.drain();
    rig.tx.emit(&idc_put(rig.dfa(0), 0, &[1; 8]));
    rig.tx.ll_ring();
    assert_eq!(rig.eq.wait().code(), C_RC_OK);
    assert_eq!(rig.teq.wait().kind(), C_EVENT_PUT);
    // A NOOP fills the slot of each command.
    let commands = [
        ("cq_success_tx_cntr", 4),
        ("cq_num_idc_cmds_0", 4),
        ("cq_num_ll_ops_successful_0", 1),
        ("cq_num_ll_ops_received_0", 1),
    ];
    let events =
        [("ee_events_enqueued_cntr_0", 2), ("ee_event_put_cntr", 1), ("ee_event_ack_cntr", 1)];
    let sent = [("hni_tx_ok_opt", 2), ("hni_tx_ok_64", 1), ("hni_tx_ok_65_to_127", 1)];
    let received = [
        ("hni_rx_ok_opt", 2),
        ("hni_rx_ok_64", 1),
        ("hni_rx_ok_65_to_127", 1),
        ("parbs_tarb_pi_posted_pkts", 4),
    ];
    let requests = [
        "pct_req_unordered",
        "oxe_ioi_pkts_unordered",
        "hni_pkts_sent_by_tc_0",
        "oxe_ptl_tx_put_msgs_tsc_0",
        "oxe_ptl_tx_put_pkts_tsc_0",
    ]
    .map(|name| (name, 1));
    let arrived = [
        ("ixe_rx_ptl_restricted_pkt", 1),
        ("hni_pkts_recv_by_tc_0", 1),
        ("ixe_pool_no_ecn_pkts_0", 2),
        ("ixe_tc_req_no_ecn_pkts_0", 1),
    ];
    assert_eq!(
        news(&rig),
        sorted(&[&commands, &events, &sent, &received, &requests, &arrived, &response, &matched])
    );
    // The counts of a destroyed queue remain.
    let lcid = rig.lcid;
    let failing = |pool| {
        Queue::with(rig.dev, rig.lni, null_mut(), |options| {
            options.flags = CXI_CQ_IS_TX;
            options.lcid = lcid;
            options.stat_cnt_pool = pool;
        })
    };
    let mut queue = failing(3);
    queue.emit(&cq(C_CMD_CQ_NOOP, 0));
    queue.issue(&cq(15, 0));
    queue.wait_error();
    let commands = [
        ("cq_success_tx_cntr", 1),
        ("cq_fail_tx_cntr", 1),
        ("cq_num_tx_cmd_op_errors", 1),
        ("cq_num_cq_cmds_3", 1),
        ("cq_cq_cmd_counts_0", 1),
    ];
    assert_eq!(news(&rig), sorted(&[&commands]));
    assert_eq!(call!(cxil_destroy_cmdq(queue.handle)), 0);
    assert_eq!(news(&rig), []);
    let queue = failing(0);
    queue.store_doorbell(9999);
    queue.wait_error();
    assert_eq!(news(&rig), [("cq_wr_ptr_updt_err_cntr", 1)]);
    // The counters are of the NIC.
    let second = Device::open();
    assert_eq!(changes(&all(rig.dev), &all(second.0)), []);
}

#[test]
fn counts_triggers_resizes_and_drops() {
    alone!();
    let mut rig = Rig::new();
    let last = all(rig.dev);
    let mut queue = Queue::with(rig.dev, rig.lni, null_mut(), |options| {
        options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
        options.stat_cnt_pool = 1;
    });
    let counter = Counter::new(rig.lni);
    let number = counter.number;
    queue.issue(&trig_event(number, rig.eq.number, 1));
    queue.drain();
    counter.ring(0, 1);
    assert_eq!(rig.eq.wait().kind(), C_EVENT_TRIGGERED_OP);
    // An event queue moves, overflows, and is destroyed.
    let mut eq = EventQueue::new(rig.dev, rig.lni, 0);
    let buffer = rig.buffer(PAGE);
    assert_eq!(resize(eq.handle, &buffer), 0);
    assert_eq!(eq.take().unwrap().kind(), C_EVENT_EQ_SWITCH);
    let mut triggers = 0;
    // Until the status reports a dropped event.
    while buffer.pages.read(15, 1)[0] & 1 == 0 {
        queue.issue(&trig_event(number, eq.number, 1));
        queue.drain();
        triggers += 1;
    }
    assert_eq!(call!(cxil_destroy_evtq(eq.handle)), 0);
    let all_triggers = triggers + 1;
    let commands = [
        ("cq_success_tx_cntr", all_triggers),
        ("tou_success_cntr", all_triggers),
        ("tou_cq_tou_num_cmds", all_triggers),
        ("tou_num_trig_cmds_1", all_triggers),
        ("tou_ct_cmd_counts_8", all_triggers),
        ("tou_num_doorbell_writes", 1),
    ];
    // The last event was dropped.
    let events = [
        ("ee_events_enqueued_cntr_0", triggers + 1),
        ("ee_events_dropped_ordinary_cntr_0", 1),
        ("ee_eq_status_update_cntr_0", 1),
        ("ee_eq_buffer_switch_cntr_0", 1),
        ("ee_event_triggered_op_cntr", triggers),
        ("ee_event_eq_switch_cntr", 1),
        ("parbs_tarb_pi_posted_pkts", triggers + 1),
    ];
    assert_eq!(changes(&last, &all(rig.dev)), sorted(&[&commands, &events]));
}

fn sorted<'a>(parts: &[&[(&'a str, u64)]]) -> Vec<(&'a str, u64)> {
    let mut all = parts.concat();
    all.sort_unstable();
    all
}

/// Checks arguments first, then privileges, then presence.
#[test]
fn rejects_operations_on_absent_parts() {
    alone!();
    let device = Device::open();
    let dev = device.0;
    let params = cxi_sbus_op_params {
        req_data: 0,
        data_addr: 0,
        rx_addr: 0,
        command: 0,
        delay: 0,
        timeout: 0,
        poll_interval: 0,
    };
    let (mut data, mut result, mut overrun, mut serdes) = (7, 7, 7, 7);
    let (d, r, o, s) = (&raw mut data, &raw mut result, &raw mut overrun, &raw mut serdes);
    let sbus = |dev, params, d, r, o| -call!(cxil_sbus_op(dev, params, d, r, o));
    let compat = |dev, d, r, o| -call!(cxil_sbus_op_compat(dev, 0, 0, 0, 0, 0, d, r, o, 0, 0));
    let serial = |dev, s| -call!(cxil_serdes_op(dev, 0, 0, 0, 0, s, 0, 0));
    let each = |dev| {
        [
            sbus(dev, &raw const params, d, r, o),
            compat(dev, d, r, o),
            -call!(cxil_sbus_op_reset(dev)),
            -call!(cxil_sbus_op_reset_compat(dev, 0)),
            serial(dev, s),
        ]
    };
    assert_eq!(each(null_mut()), [EINVAL; 5]);
    assert_eq!(sbus(dev, null(), d, r, o), EINVAL);
    assert_eq!(sbus(dev, &params, null_mut(), r, o), EINVAL);
    assert_eq!(sbus(dev, &params, d, null_mut(), o), EINVAL);
    assert_eq!(sbus(dev, &params, d, r, null_mut()), EINVAL);
    assert_eq!(compat(dev, null_mut(), r, o), EINVAL);
    assert_eq!(compat(dev, d, null_mut(), o), EINVAL);
    assert_eq!(compat(dev, d, r, null_mut()), EINVAL);
    assert_eq!(serial(dev, null_mut()), EINVAL);
    if is_root() {
        assert_eq!(each(dev), [ENODEV; 5]);
    }
    as_nobody(|| assert_eq!(each(dev), [EPERM; 5]));
    assert_eq!((data, result, overrun, serdes), (7, 7, 7, 7));
}

#[test]
fn reports_no_remapped_atomic() {
    alone!();
    let device = Device::open();
    let dev = device.0;
    let mut operation = 77;
    let get = |dev, to| -call!(cxil_get_amo_remap_to_pcie_fadd(dev, to));
    assert_eq!(get(null_mut(), &mut operation), EINVAL);
    assert_eq!(get(dev, null_mut()), EINVAL);
    assert_eq!(operation, 77);
    assert_eq!(get(dev, &mut operation), 0);
    assert_eq!(operation, -1);
}

#[test]
fn inbound_wait_leaves_received_data_in_memory() {
    alone!();
    assert_eq!(call!(cxil_inbound_wait(null_mut())), -EINVAL);
    let (mut from, mut to) = (Rig::on(0), Rig::on(1));
    assert_eq!(call!(cxil_inbound_wait(to.dev)), 0, "nothing to wait for");
    let (source, sink) = (from.buffer(16 * PAGE), to.buffer(16 * PAGE));
    source.pages.fill(5);
    to.target(0, &sink);
    let dfa = to.dfa(0);
    let put = from.dma_put(&source, 0, 16 * PAGE as u32, |put| _ = put.set_dfa(dfa));
    from.tx.issue(&put);
    // The sender may take long; `to.dev` receives in each call.
    while from.eq.poll().is_none() {
        assert_eq!(call!(cxil_inbound_wait(to.dev)), 0);
    }
    assert!(sink.pages.is(0, 16 * PAGE, 5));
}
