use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use node::nic::counter_table::{CounterRow, Preset};
use node::nic::counters::{CounterChanges, NicFacts};
use node::nic::generation::Generation;

/// Changes in `seconds` of a NIC of Cassini 1 at 200 Gb/s. Other counters are 0.
fn changes(seconds: f64, counted: &[(&str, u64)]) -> CounterChanges {
    let change = |by| CounterChange::Counted { by, within: Some(Duration::from_secs_f64(seconds)) };
    let names = Preset::All.rows().flat_map(CounterRow::names);
    let mut by_name: BTreeMap<String, CounterChange> =
        names.map(|name| (name, change(0))).collect();
    for (name, by) in counted {
        let known = by_name.insert((*name).to_owned(), change(*by));
        assert!(known.is_some(), "{name}");
    }
    let nic = NicFacts {
        device: "cxi0".into(),
        is_software: false,
        link_speed: Some("BS_200G".into()),
        pcie_gt_per_s: Some(16.0),
        ..NicFacts::default()
    };
    CounterChanges::new(nic, by_name)
}

fn found(changes: &CounterChanges) -> Vec<RuleFinding> {
    findings(&NicEvidence { changes, packets: Some(100) })
}

#[track_caller]
fn assert_codes(seconds: f64, counted: &[(&str, u64)], expected: &[&str]) {
    let codes: Vec<_> =
        found(&changes(seconds, counted)).iter().map(|finding| finding.code).collect();
    assert_eq!(codes, expected, "{counted:?} in {seconds} s");
}

#[test]
fn finds_nothing_in_healthy_run() {
    let healthy = [
        ("hni_pcs_good_cw", 156_250_000),
        ("hni_pcs_corrected_cw", 8),
        ("hni_tx_ok_opt", 200),
        ("hni_pkts_sent_by_tc_0", 200),
        ("lpe_net_match_requests_0", 100),
        ("lpe_sts_net_match_attempts_0", 100),
        ("atu_client_req_oxe", 100),
        ("atu_cache_miss_oxe", 5),
        ("parbs_tarb_pi_non_posted_pkts", 100),
        ("parbs_tarb_pi_non_posted_blocked_cnt", 900),
    ];
    assert_codes(4.0, &healthy, &[]);
}

#[test]
fn finds_nothing_in_missing_and_reset_counters() {
    let nothing = CounterChanges::default();
    assert_eq!(found(&nothing), []);
    let reset = Preset::All
        .rows()
        .flat_map(CounterRow::names)
        .map(|name| (name, CounterChange::Reset))
        .collect();
    let nic = changes(1.0, &[]).nic;
    assert_eq!(found(&CounterChanges::new(nic, reset)), []);
}

#[test]
fn finds_resent_packets() {
    let resent = [("pct_spt_timeouts", 1), ("pct_retry_srb_requests", 37)];
    assert_codes(1.0, &resent, &["packets_resent"]);
    assert_codes(1.0, &resent[1..], &["packets_resent"]);
    let expected = RuleFinding {
        code: "packets_resent",
        text: "1 packet was not answered in time, 37 packets were sent again: each timeout costs \
               at least 1.07 s"
            .into(),
        limit: "0".into(),
        source: OPEN_MPI,
    };
    assert_eq!(found(&changes(1.0, &resent)), [expected]);
    // Without telemetry, the retry handler counts.
    let within = Some(Duration::from_secs(1));
    let timeout = CounterChange::Counted { by: 1, within };
    let by_name = [("retry_handler/spt_timeouts".to_owned(), timeout)];
    let handler = CounterChanges::new(NicFacts::default(), by_name.into());
    assert_eq!(found(&handler)[0].code, "packets_resent");
}

/// Limits of the driver: 21 lost code words per second at 200 Gb/s; 21,250,000 corrected ones.
#[test]
fn finds_link_errors_above_limits() {
    const LOST: &str = "hni_pcs_uncorrected_cw";
    const CORRECTED: &str = "hni_pcs_corrected_cw";
    assert_codes(4.0, &[(LOST, 85)], &["link_errors"]);
    assert_codes(4.0, &[(LOST, 84)], &["uncorrected_code_words"]);
    // The driver checks in intervals of 500 ms: one code word in a short run is not 1000 a second.
    assert_codes(0.001, &[(LOST, 1)], &["uncorrected_code_words"]);
    assert_codes(1.0, &[(CORRECTED, 21_250_001)], &["link_failing"]);
    assert_codes(1.0, &[(CORRECTED, 212_501)], &["link_marginal"]);
    assert_codes(1.0, &[(CORRECTED, 212_500)], &[]);
}

#[test]
fn limits_of_link_follow_its_speed() {
    let at = |speed: &str, name, by| {
        let mut changes = changes(1.0, &[(name, by)]);
        changes.nic.link_speed = Some(speed.into());
        found(&changes).first().map(|finding| finding.code)
    };
    const LOST: &str = "hni_pcs_uncorrected_cw";
    const CORRECTED: &str = "hni_pcs_corrected_cw";
    assert_eq!(at("ck400G", LOST, 42), Some("uncorrected_code_words"));
    assert_eq!(at("ck400G", LOST, 43), Some("link_errors"));
    assert_eq!(at("CD_50G", LOST, 6), Some("link_errors"));
    assert_eq!(at("NA", LOST, 1000), Some("uncorrected_code_words"));
    assert_eq!(at("ck400G", CORRECTED, 100_000_000), Some("link_marginal"));
    assert_eq!(at("ck400G", CORRECTED, 425_000), None);
    assert_eq!(at("BJ_100G", CORRECTED, 10_312_501), Some("link_failing"));
    assert_eq!(at("NA", CORRECTED, 1 << 40), Some("link_marginal"));
}

#[test]
fn limits_in_files_of_the_driver_come_first() {
    let mut changes = changes(1.0, &[("hni_pcs_corrected_cw", 4_250_001)]);
    changes.nic.link_speed = Some("ck400G".into());
    changes.nic.limits.set("ccw_warn_limit", "4250000").unwrap();
    let marginal = &found(&changes)[0];
    let limit = (marginal.limit.as_str(), marginal.source);
    assert_eq!((marginal.code, limit), ("link_marginal", ("1e-5", DRIVER)));
    changes.nic.limits.set("ccw_warn_limit", "4250001").unwrap();
    assert_eq!(found(&changes), []);
    changes.nic.limits.set("ccw_down_limit", "4250000").unwrap();
    assert_eq!(found(&changes)[0].code, "link_failing");
}

proptest! {
    /// A server sends any counts.
    #[test]
    fn accepts_any_counts(
        counts in proptest::collection::vec((any::<u64>(), any::<Option<u32>>()), 1..8),
        speed in "BS_200G|ck400G|cd50G|x",
    ) {
        let counts = counts.into_iter().cycle();
        let names = Preset::All.rows().flat_map(CounterRow::names);
        let by_name = names.zip(counts).map(|(name, (by, us))| {
            let within = us.map(|us| Duration::from_micros(us.into()));
            (name, CounterChange::Counted { by: by | 1 << 63, within })
        });
        let mut nic = changes(1.0, &[]).nic;
        nic.link_speed = Some(speed);
        let all = CounterChanges::new(nic, by_name.collect());
        prop_assert!(found(&all).len() > 8);
    }
}

#[test]
fn only_hardware_has_cable() {
    let mut changes = changes(1.0, &[("hni_pcs_uncorrected_cw", 100)]);
    let text = |changes: &CounterChanges| found(changes)[0].text.clone();
    assert!(text(&changes).ends_with(": reseat or replace the cable"));
    changes.nic.is_software = true;
    assert_eq!(text(&changes), "link errors: 100.0 lost code words per second");
}

#[test]
fn finds_replays_and_bad_lane() {
    let replays = [("hni_llr_rx_replay_event", 36), ("hni_llr_tx_replay_event", 1)];
    let text = |counts| found(&changes(1.0, counts)).remove(0).text;
    let both_text = text(&replays);
    assert!(both_text.contains("again once to the switch and 36 times from the switch:"));
    assert!(text(&replays[..1]).contains("again 36 times from the switch:"));
    let lanes = [("hni_pcs_fecl_errors_2", 5000), ("hni_pcs_fecl_errors_3", 400)];
    assert_codes(1.0, &lanes, &["bad_lane"]);
    assert!(found(&changes(1.0, &lanes))[0].text.starts_with("lane 2 "));
    assert_codes(100.0, &lanes, &[]);
    let equal = [("hni_pcs_fecl_errors_2", 5000), ("hni_pcs_fecl_errors_3", 501)];
    assert_codes(1.0, &equal, &[]);
    let above: Vec<String> = (0..8).map(|lane| format!("hni_pcs_fecl_errors_{lane}")).collect();
    let above: Vec<(&str, u64)> = above.iter().map(|name| (&**name, 2_656_251)).collect();
    assert_codes(1.0, &above, &["bad_lane"]);
}

#[test]
fn finds_oversubscribed_target() {
    for name in ["pct_no_tct_nacks", "pct_no_trs_nacks", "pct_no_mst_nacks", "pct_resource_busy"] {
        assert_codes(1.0, &[(name, 1)], &["target_oversubscribed"]);
    }
}

/// health.md 1.8: 20,000,000 cycles in 2 s are 1.0 % of the time on Cassini 1, 0.9 % on Cassini 2.
#[test]
fn finds_congestion() {
    assert_codes(2.0, &[("hni_tx_paused_3", 20_000_000)], &[]);
    assert_codes(2.0, &[("hni_tx_paused_3", 20_000_001)], &["congestion"]);
    let mut faster = changes(2.0, &[("hni_tx_paused_3", 22_000_000)]);
    assert_eq!(found(&faster).len(), 1);
    faster.nic.generation = Some(Generation::Cassini2);
    assert_eq!(found(&faster), []);
    let marked = |count| [("ixe_tc_rsp_ecn_pkts_1", count), ("ixe_tc_req_no_ecn_pkts_0", 990)];
    assert_codes(2.0, &marked(10), &[]);
    assert_codes(2.0, &marked(11), &["congestion"]);
    assert_codes(2.0, &[("oxe_stall_fgfc_blk_0", 1)], &["congestion"]);
}

/// health.md 1.8: 1,000,000 cycles for 100,000 packets are 10 cycles each.
#[test]
fn finds_slow_host() {
    let blocked = [
        ("parbs_tarb_pi_posted_blocked_cnt", 1_000_000),
        ("parbs_tarb_pi_posted_pkts", 100_000),
        ("hni_rx_paused_0", 30_000_000),
    ];
    assert_codes(2.0, &blocked, &["slow_receiving_host"]);
    let text = &found(&changes(2.0, &blocked))[0].text;
    assert!(text.contains("for 10 cycles per packet"), "{text}");
    assert!(text.contains("for 1.5 % of the time"), "{text}");
    assert_codes(2.0, &blocked[..2], &[]);
    let reads =
        [("parbs_tarb_pi_non_posted_blocked_cnt", 6000), ("parbs_tarb_pi_non_posted_pkts", 1000)];
    assert_codes(2.0, &reads, &["slow_sending_host"]);
}

#[test]
fn finds_class_limit_and_translation_misses() {
    let stalled = |cycles| [("oxe_stall_ts_no_out_crd_tsc_4", cycles)];
    assert_codes(1.0, &stalled(10_000_001), &["class_limit"]);
    assert_codes(1.0, &stalled(10_000_000), &[]);
    let misses = |misses| [("atu_cache_miss_ixe", misses), ("atu_client_req_ixe", 10_000)];
    assert_codes(1.0, &misses(101), &["translation_misses"]);
    assert_codes(1.0, &misses(100), &[]);
    assert_codes(1.0, &[("atu_cache_evictions", 1)], &["translation_misses"]);
    let text = found(&changes(1.0, &misses(150))).remove(0).text;
    assert_eq!(
        text,
        "the cache of address translations is too small: 1.5 % misses, 0 evictions (use huge pages \
         or smaller buffers)"
    );
}

/// health.md 1.8: 40 errors in 60 s are above the limit at 16 GT/s, and below that at 32 GT/s.
#[test]
fn finds_pcie_errors_above_limit_of_speed() {
    const CORRECTED: &str = "properties/pcie_corr_err";
    assert_codes(60.0, &[(CORRECTED, 40)], &["pcie_errors"]);
    let mut faster = changes(60.0, &[(CORRECTED, 40)]);
    faster.nic.pcie_gt_per_s = Some(32.0);
    assert_eq!(found(&faster), []);
    // The driver adds the errors of a minute at once.
    assert_codes(2.0, &[(CORRECTED, 31)], &[]);
    assert_codes(2.0, &[("properties/pcie_uncorr_err", 1)], &["pcie_errors"]);
}

#[test]
fn finds_slow_matching() {
    let deep =
        |attempts| [("lpe_net_match_requests_0", 100), ("lpe_sts_net_match_attempts_0", attempts)];
    assert_codes(1.0, &deep(801), &["slow_matching"]);
    assert_codes(1.0, &deep(800), &[]);
    assert_codes(1.0, &[("lpe_net_match_overflow_2", 1)], &["slow_matching"]);
}

#[test]
fn finds_lost_events_and_packets() {
    for kind in ["ordinary", "fc_sc", "rsrvn"] {
        let name = format!("ee_events_dropped_{kind}_cntr_1");
        assert_codes(1.0, &[(&name, 1)], &["events_lost"]);
    }
    for name in ["rmu_ptl_invld_vni_cntr", "rmu_ptl_invld_dfa_cntr", "rmu_ptl_no_ptlte_cntr"] {
        assert_codes(1.0, &[(name, 1)], &["unknown_targets"]);
    }
    let lost = [("hni_pfc_fifo_oflw_cntr_6", 1)];
    assert_codes(1.0, &lost, &["lossless_packets_lost"]);
}

#[test]
fn finds_traffic_of_others() {
    let sent = |packets| changes(1.0, &[("hni_pkts_sent_by_tc_2", packets)]);
    assert_eq!(found(&sent(2000)), []);
    assert_eq!(found(&sent(2001))[0].code, "others_use_nic");
    let unknown = findings(&NicEvidence { changes: &sent(1 << 40), packets: None });
    assert_eq!(unknown, []);
}

#[test]
fn page_has_each_rule_in_order() {
    let page = include_str!("../../docs/counters.md");
    let places =
        RULES.iter().map(|rule| page.find(&format!("\n| `{}` |", rule.code)).expect(rule.code));
    assert!(places.is_sorted());
}

#[test]
fn reports_most_important_finding_first() {
    let all =
        [("rmu_ptl_no_ptlte_cntr", 1), ("hni_llr_tx_replay_event", 1), ("pct_spt_timeouts", 1)];
    let expected = ["packets_resent", "link_replays", "unknown_targets"];
    assert_codes(1.0, &all, &expected);
}
