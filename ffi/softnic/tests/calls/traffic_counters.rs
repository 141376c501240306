//! Telemetry counters of messages, lists and the link (health.md 1.5, 3).

use crate::driver::prelude::*;
use crate::snapshots::counter as file_counter;

/// Runs `work`, and returns how much each of these counters rose.
fn rises<const N: usize>(rig: &mut Rig, names: [&str; N], work: impl FnOnce(&mut Rig)) -> [u64; N] {
    let before = names.map(|name| counter(rig.dev, name));
    work(rig);
    let mut at = 0;
    names.map(|name| {
        at += 1;
        counter(rig.dev, name) - before[at - 1]
    })
}

/// A matching portal at index 1 with one entry.
fn matching(rig: &mut Rig, sink: &Buffer, choose: impl FnOnce(&mut TargetCmd)) -> Portal {
    let portal = rig.enabled(1, |options| options.set_is_matching(1));
    rig.append(portal, |entry| {
        whole(entry, sink);
        match_all(entry);
        choose(entry);
    })
    .is(C_EVENT_LINK, C_RC_OK);
    portal
}

fn to_matching(rig: &Rig) -> (u32, u8) {
    address(rig.nid, rig.pid, 1)
}

#[test]
fn counts_flushed_operations() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let eq = rig.eq.number;
    let dfa = rig.dfa(0);
    let names = ["ixe_dmawr_flush_reqs", "ixe_rx_ptl_restricted_pkt", "lpe_plec_hits"];
    for flush in [true, false] {
        let flushed = |operations| if flush { operations } else { 0 };
        // One put at a time, and many to the entry of the last one.
        let restricted = rig.nomatch_put(&source, 0, 3000, |put| _ = put.set_flush(flush));
        let rose = rises(&mut rig, names, |rig| {
            for _ in 0..5 {
                assert_eq!(rig.code(&restricted), C_RC_OK);
            }
        });
        assert_eq!(rose, [flushed(5), 10, 5]);
        let unrestricted = rig.dma_put(&source, 0, 0, |put| _ = put.set_flush(flush));
        let rose = rises(&mut rig, names, |rig| {
            for _ in 0..3 {
                assert_eq!(rig.code(&unrestricted), C_RC_OK);
            }
        });
        assert_eq!(rose, [flushed(3), 0, 3]);
        let rose = rises(&mut rig, names, |rig| {
            rig.tx.emit(&c_state(eq, true, |state| _ = state.set_flush(flush)));
            rig.tx.emit(&idc_put(dfa, 0, &[1; 8]));
            rig.tx.ring();
            assert_eq!(rig.eq.wait().code(), C_RC_OK);
        });
        assert_eq!(rose, [flushed(1), 1, 1]);
    }
    // A put that fails writes nothing.
    let beyond =
        rig.dma_put(&source, 0, 8, |put| _ = put.set_flush(true).set_remote_offset(PAGE as u64));
    let rose = rises(&mut rig, ["ixe_dmawr_flush_reqs"], |rig| {
        assert_eq!(rig.code(&beyond), C_RC_NO_SPACE);
    });
    assert_eq!(rose, [0]);
}

/// Only portals without matching use the cache of entries.
#[test]
fn counts_results_of_matching() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    let portal = matching(&mut rig, &sink, |entry| {
        _ = entry.set_match_bits(1).set_ignore_bits(0).set_buffer_id(1)
    });
    rig.append(portal, |entry| {
        whole(entry, &sink);
        match_all(entry);
        entry
            .set_use_once(true)
            .set_manage_local(true)
            .set_length(100)
            .set_match_bits(2)
            .set_ignore_bits(0);
    })
    .is(C_EVENT_LINK, C_RC_OK);
    rig.append(portal, |entry| {
        whole(entry, &sink);
        match_all(entry);
        entry
            .set_ptl_list(C_PTL_LIST_OVERFLOW as u8)
            .set_manage_local(true)
            .set_match_bits(3)
            .set_ignore_bits(0);
    })
    .is(C_EVENT_LINK, C_RC_OK);
    let (dfa, ext) = to_matching(&rig);
    // Requests, matched; used once, locally managed; PRIORITY, OVERFLOW; truncated; no match.
    let names = [
        "lpe_net_match_requests_0",
        "lpe_net_match_success_0",
        "lpe_net_match_useonce_0",
        "lpe_net_match_local_0",
        "lpe_net_match_priority_0",
        "lpe_net_match_overflow_0",
        "lpe_num_truncated_0",
        "lpe_err_entry_not_found_no_match_in_overflow",
    ];
    for (bits, expected, code) in [
        (1, [1, 1, 0, 0, 1, 0, 0, 0], C_RC_OK),
        (2, [1, 1, 1, 1, 1, 0, 1, 0], C_RC_OK),
        (3, [1, 1, 0, 1, 0, 1, 0, 0], C_RC_OK),
        (4, [1, 0, 0, 0, 0, 0, 0, 1], C_RC_ENTRY_NOT_FOUND),
    ] {
        let put = rig.dma_put(&source, 0, 200, |put| {
            _ = put.set_dfa(dfa).set_index_ext(ext).set_match_bits(bits)
        });
        let rose = rises(&mut rig, names, |rig| assert_eq!(rig.code(&put), code));
        assert_eq!(rose, expected, "{bits}");
    }
    // One, two, and with the list entry of bits 2 used up, two at each of the others.
    assert_eq!(file_counter("lpe_sts_net_match_attempts_0"), 7);
    assert_eq!(file_counter("lpe_sts_net_max_attempts_max_0"), 2);
    // A rendezvous put needs space for its eager part only, here for none.
    let put = rig.dma_put(&source, 0, 300, |put| {
        put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
            .set_dfa(dfa)
            .set_index_ext(ext)
            .set_match_bits(3);
    });
    let rose = rises(&mut rig, names, |rig| {
        assert_eq!(rig.code(&put), C_RC_OK);
    });
    assert_eq!(rose, [1, 1, 0, 1, 0, 1, 0, 0]);
    assert_eq!(counter(rig.dev, "lpe_plec_hits"), 0);
    // Gets and atomics by kind; an operation that the entry does not allow.
    let names = [
        "lpe_get_cmds",
        "lpe_amo_cmds",
        "lpe_famo_cmds",
        "lpe_err_op_violation",
        "lpe_success_cntr",
        "lpe_fail_cntr",
    ];
    let get = rig.dma_put(&source, 0, 8, |get| {
        get.set_opcode(C_CMD_GET as u8).set_dfa(dfa).set_index_ext(ext).set_match_bits(1);
    });
    let rose = rises(&mut rig, names, |rig| {
        assert_eq!(rig.run(&get).code(), C_RC_OP_VIOLATION);
    });
    assert_eq!(rose, [1, 0, 0, 1, 0, 1]);
    let (lac, from, eq) = (source.lac, source.iova(0), rig.eq.number);
    for (fetching, expected) in [(false, [0, 1, 0, 0, 1, 0]), (true, [0, 0, 1, 1, 0, 1])] {
        let sum = dma_amo(fetching, |sum| {
            sum.set_dfa(dfa)
                .set_index_ext(ext)
                .set_lac(lac)
                .set_local_read_addr(from)
                .set_write_lac(lac)
                .set_local_write_addr(from)
                .set_match_bits(1)
                .set_eq(eq);
        });
        let rose = rises(&mut rig, names, |rig| _ = rig.run(&sum));
        assert_eq!(rose, expected, "fetching {fetching}");
    }
}

#[test]
fn counts_refused_operations() {
    alone!();
    let mut rig = Rig::new();
    let source = rig.buffer(PAGE);
    let put = rig.dma_put(&source, 0, 8, |_| {});
    // No portal, a portal without an entry, a portal that flow control disables.
    let unresolved =
        rises(&mut rig, ["rmu_ptl_no_ptlte_cntr", "lpe_net_match_requests_0"], |rig| {
            assert_eq!(rig.code(&put), C_RC_PTLTE_NOT_FOUND);
        });
    assert_eq!(unresolved, [1, 0]);
    for (flow_control, code, expected) in
        [(0, C_RC_ENTRY_NOT_FOUND, [0, 1, 0]), (1, C_RC_PT_DISABLED, [1, 0, 0])]
    {
        let portal = rig.enabled(0, |options| options.set_en_flowctrl(flow_control));
        let rose = rises(
            &mut rig,
            [
                "lpe_err_pt_disabled_no_match_in_overflow",
                "lpe_err_entry_not_found_no_match_in_overflow",
                "rmu_ptl_no_ptlte_cntr",
            ],
            |rig| {
                assert_eq!(rig.code(&put), code);
            },
        );
        assert_eq!(rose, expected);
        rig.teq.discard();
        portal.close();
    }
}

#[test]
fn counts_target_commands_by_result() {
    alone!();
    let mut rig = Rig::new();
    let sink = rig.buffer(PAGE);
    let portal = matching(&mut rig, &sink, |_| {});
    let names = [
        "lpe_unlink_success",
        "lpe_err_entry_not_found_unlink_failed",
        "lpe_search_fail",
        "lpe_search_delete_fail",
        "lpe_err_search_no_match",
    ];
    let rose = rises(&mut rig, names, |rig| {
        rig.unlink(portal, 0).is(C_EVENT_UNLINK, C_RC_OK);
        rig.unlink(portal, 0).is(C_EVENT_UNLINK, C_RC_ENTRY_NOT_FOUND);
        for opcode in [C_CMD_TGT_SEARCH, C_CMD_TGT_SEARCH_AND_DELETE] {
            let search = target(opcode, portal.number, |search| {
                _ = search.set_ptl_list(C_PTL_LIST_UNEXPECTED as u8)
            });
            rig.tgt.issue(&search);
            rig.teq.wait().is(C_EVENT_SEARCH, C_RC_NO_MATCH);
        }
    });
    assert_eq!(rose, [1, 1, 1, 1, 2]);
}

#[test]
fn counts_rendezvous_puts() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    matching(&mut rig, &sink, |_| {});
    let (dfa, ext) = to_matching(&rig);
    let put = rig.dma_put(&source, 0, 300, |put| {
        put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8).set_dfa(dfa).set_index_ext(ext);
    });
    // The get of the NIC finds no portal at the source.
    let names = [
        "lpe_rendezvous_put_cmds",
        "lpe_rndzv_puts_0",
        "lpe_rndzv_puts_offloaded_0",
        "oxe_ptl_tx_get_msgs_tsc_0",
        "rmu_ptl_no_ptlte_cntr",
    ];
    let rose = rises(&mut rig, names, |rig| {
        assert_eq!(rig.code(&put), C_RC_OK);
        wait_for("the REPLY", || rig.teq.poll().filter(|event| event.kind() == C_EVENT_REPLY));
    });
    assert_eq!(rose, [1, 1, 1, 1, 1]);
}

#[test]
fn counts_packets_by_priority() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    for (class, priority) in
        [(CXI_TC_BEST_EFFORT, 0), (CXI_TC_BULK_DATA, 2), (CXI_TC_LOW_LATENCY, 4)]
    {
        let profile = profile(rig.lni, VNI, class).expect("a profile");
        rig.tx.emit_lcid(lcid(profile));
        let put = rig.dma_put(&source, 0, 8, |_| {});
        let sent = ["hni_pkts_sent_by_tc_0", "hni_pkts_sent_by_tc_2", "hni_pkts_sent_by_tc_4"];
        let others = [
            &*format!("hni_pkts_sent_by_tc_{}", priority + 1),
            &*format!("hni_pkts_recv_by_tc_{priority}"),
            &*format!("hni_pkts_recv_by_tc_{}", priority + 1),
        ];
        let mut more = [0; 3];
        let rose = rises(&mut rig, sent, |rig| {
            more = rises(rig, others, |rig| assert_eq!(rig.code(&put), C_RC_OK));
        });
        assert_eq!(rose, [0, 2, 4].map(|number| u64::from(number == priority)));
        assert_eq!(more, [1, 1, 1], "responses, and what was received");
    }
}

#[test]
fn counts_lost_packets() {
    alone!();
    // SAFETY: nothing in this process reads the environment meanwhile.
    unsafe { std::env::set_var("CXIDIAG_FAULTS", "loss=0.2,retry=1us") };
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 8, |_| {});
    for _ in 0..100 {
        rig.run(&put);
    }
    let (timeouts, retries) =
        (counter(rig.dev, "pct_spt_timeouts"), counter(rig.dev, "pct_retry_srb_requests"));
    // 25 on average, of which those that are the fifth are not sent again.
    assert!((5..60).contains(&timeouts), "{timeouts}");
    assert!((5..=timeouts).contains(&retries), "{retries}");
}

#[test]
fn receives_code_words_while_link_is_up() {
    alone!();
    let dev = open(0);
    let before = counter(dev, "hni_pcs_good_cw");
    wait_for("code words", || (counter(dev, "hni_pcs_good_cw") > before).then_some(()));
    close(dev);
    // SAFETY: nothing in this process reads the environment meanwhile.
    unsafe { std::env::set_var("CXIDIAG_FAULTS", "down=0ns") };
    let dev = open(0);
    assert_eq!(counter(dev, "hni_pcs_good_cw"), 0);
    close(dev);
}
