use super::*;
use node::nic::counter::CounterChange;
use node::nic::counters::NicFacts;

const SECONDS: u64 = 10;

fn nic(name: &str, node: usize, counts: &[(&str, u64)]) -> JobNic {
    let change = |by| CounterChange::Counted { by, within: Some(Duration::from_secs(SECONDS)) };
    let by_name = counts.iter().map(|(name, by)| ((*name).to_owned(), change(*by)));
    JobNic {
        name: name.to_owned(),
        host: node.to_string(),
        changes: CounterChanges::new(
            NicFacts { device: name.to_owned(), ..NicFacts::default() },
            by_name.collect(),
        ),
    }
}

fn found(nics: &[JobNic]) -> Vec<StatFinding> {
    job_findings(&JobEvidence {
        nics,
        elapsed: Some(Duration::from_secs(SECONDS)),
        job_nodes: None,
    })
}

fn codes_of(nics: &[JobNic]) -> Vec<String> {
    found(nics).into_iter().map(|finding| finding.code).collect()
}

fn one(counts: &[(&str, u64)]) -> Vec<String> {
    codes_of(&[nic("cxi0", 0, counts)])
}

const SPT: &str = "retry_handler/spt_timeouts";
const RESENT: &str = "pct_retry_srb_requests";
const ERRORS: &str = "pct_rsp_err_rcvd";

/// monitoring.md 1.6 vector 12, and the counts that a user of LUMI has published.
#[test]
fn tells_packets_that_were_never_answered_from_those_sent_again() {
    for (spt, resent, errors, never) in [
        (205, 164, 41, Some(41)),
        (320, 256, 64, Some(64)),
        (205, 205, 0, None),
        (5, 4, 1, Some(1)),
        (110, 88, 20, Some(20)),
        (111, 88, 20, None),
        (100, 89, 20, None),
        (0, 0, 0, None),
    ] {
        let nic = nic("cxi0", 0, &[(SPT, spt), (RESENT, resent), (ERRORS, errors)]);
        assert_eq!(never_answered_of(&nic.changes), never, "{spt} {resent} {errors}");
        let mut codes = Vec::new();
        codes.extend((spt > 0).then_some("timeouts"));
        codes.extend(never.map(|_| "never_answered"));
        assert_eq!(codes_of(&[nic]), codes, "{spt} {resent} {errors}");
    }
}

#[test]
fn retries_are_those_of_the_retry_handler() {
    let never = |retries, [spt, resent, errors]: [u64; 3]| {
        let mut nic = nic("cxi0", 0, &[(SPT, spt), (RESENT, resent), (ERRORS, errors)]);
        nic.changes.nic.max_spt_retries = retries;
        never_answered_of(&nic.changes)
    };
    assert_eq!(never(Some(2), [30, 20, 10]), Some(10));
    assert_eq!(never(Some(2), [50, 40, 10]), None);
    assert_eq!(never(None, [50, 40, 10]), Some(10));
    assert_eq!(never(Some(u64::MAX), [50, 40, 10]), None);
}

/// monitoring.md 1.6 vector 13.
#[test]
fn counts_each_timeout_once() {
    let counts = [(SPT, 5), ("retry_handler/sct_timeouts", 2), ("pct_spt_timeouts", 5)];
    assert_eq!(timeouts_of(&nic("cxi0", 0, &counts).changes), Some(7));
    let without = [("pct_spt_timeouts", 5), ("pct_sct_timeouts", 1)];
    assert_eq!(timeouts_of(&nic("cxi0", 0, &without).changes), Some(6));
    assert_eq!(timeouts_of(&nic("cxi0", 0, &[]).changes), None);
}

/// monitoring.md 1.6 vector 9, with the counts that a user of LUMI has published.
#[test]
fn names_the_nic_with_timeouts_first_and_then_the_one_held_back() {
    let mut nics: Vec<JobNic> = (0..16)
        .map(|index| {
            let name = format!("nid{:06} cxi{}", 416 + index / 4, index % 4);
            nic(&name, index / 4, &[("oxe_stall_fgfc_blk_0", 48_800_000), (SPT, 0)])
        })
        .collect();
    nics[5] = nic(
        "nid000417 cxi1",
        1,
        &[("oxe_stall_fgfc_blk_0", 4_100_000_000), (SPT, 320), (RESENT, 256), (ERRORS, 64)],
    );
    let found = found(&nics);
    let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(
        texts[..3],
        [
            "packets were sent again on 1 of 16 NICs: nid000417 cxi1, 320 timeouts, 256 resent, \
             64 never answered",
            "64 packets were never answered (nid000417 cxi1)",
            "the fabric held nid000417 cxi1 back for 41 % of the time; median of the job 0.5 % of \
             the time (factor 84)",
        ]
    );
    let place = StatPlace { host: "1".into(), device: "nid000417 cxi1".into() };
    assert_eq!((&*found[2].code, &*found[2].nics), ("outlier", &[place][..]));
}

/// monitoring.md 1.6 vector 10.
#[test]
fn says_that_nics_are_uneven_without_naming_them() {
    let nics: Vec<JobNic> = (0..16)
        .map(|index| {
            let count = if index < 4 { 1000 } else { 100 };
            nic("cxi", 0, &[("hni_fgfc_port", count)])
        })
        .collect();
    let found = found(&nics);
    assert_eq!((&*found[0].code, found[0].nics.len()), ("outlier", 0));
    assert_eq!(
        found[0].text,
        "uneven: 4 of 16 NICs are far above the others in hni_fgfc_port (events flow control of \
         the fabric, by port)"
    );
}

#[test]
fn gets_of_rendezvous_puts_are_no_messages() {
    let nics = [
        ("cxi0", 300, 10, 0),
        // The initiator of the puts: the gets match its entries.
        ("cxi1", 100, 0, 100),
    ]
    .map(|(name, matched, unexpected, gets)| {
        let counts = [
            ("lpe_net_match_priority_0", matched),
            ("lpe_net_match_overflow_0", unexpected),
            ("lpe_net_match_request_0", 5),
            ("lpe_rndzv_puts_0", gets),
        ];
        nic(name, 0, &counts)
    });
    assert_eq!(messages(&nics), Some([300, 10, 10]));
}

/// Ranks that share CPUs with software NICs are late without a fault.
#[test]
fn unexpected_messages_of_software_nics_are_usual() {
    let counts = [
        ("lpe_net_match_priority_0", 0),
        ("lpe_net_match_overflow_0", 5000),
        ("lpe_net_match_request_0", 0),
    ];
    let mut nic = nic("soft0", 0, &counts);
    assert_eq!(codes_of(std::slice::from_ref(&nic)), ["unexpected"]);
    nic.changes.nic.is_software = true;
    assert!(codes_of(&[nic]).is_empty());
}

#[test]
fn each_rule_holds_above_its_limit_only() {
    let posted = "parbs_tarb_pi_posted_pkts";
    let blocked = "parbs_tarb_pi_posted_blocked_cnt";
    for (counts, code) in [
        (vec![(posted, 1000), (blocked, 5000)], None),
        (vec![(posted, 1000), (blocked, 5001)], Some("pcie_congestion")),
        (vec![(posted, 999), (blocked, 50_000)], None),
        (
            vec![
                ("lpe_net_match_priority_0", 4004),
                ("lpe_net_match_overflow_0", 1001),
                ("lpe_net_match_request_0", 0),
            ],
            None,
        ),
        (
            vec![
                ("lpe_net_match_priority_0", 4000),
                ("lpe_net_match_overflow_0", 1001),
                ("lpe_net_match_request_0", 0),
            ],
            Some("unexpected"),
        ),
        (
            vec![
                ("lpe_net_match_priority_0", 0),
                ("lpe_net_match_overflow_0", 1000),
                ("lpe_net_match_request_0", 0),
            ],
            None,
        ),
        // Counters that were not read are not 0.
        (vec![("lpe_net_match_overflow_0", 2000)], None),
        (vec![("lpe_net_match_overflow_0", 2000), ("lpe_net_match_request_0", 0)], None),
        (vec![("lpe_net_match_overflow_0", 2000), ("lpe_net_match_priority_0", 0)], None),
        (vec![("lpe_rndzv_puts_0", 100)], None),
        (vec![("atu_cache_miss_ixe", 5000)], None),
        (vec![("ixe_tc_req_ecn_pkts_0", 50)], None),
        (vec![("hni_sts_tx_ok_octets", 10_000_000), ("hni_sts_tx_octets_ieee", 10_000_000)], None),
        (vec![("lpe_net_match_request_1", 1)], Some("software_matching")),
        (vec![("lpe_rndzv_puts_0", 100), ("lpe_rndzv_puts_offloaded_0", 95)], None),
        (vec![("lpe_rndzv_puts_0", 100), ("lpe_rndzv_puts_offloaded_0", 94)], Some("rendezvous")),
        (vec![("atu_cache_evictions", 1)], Some("translation")),
        (vec![("atu_cache_miss_ixe", 1000), ("atu_client_req_ixe", 100_000)], None),
        (vec![("atu_cache_miss_ixe", 1001), ("atu_client_req_ixe", 100_000)], Some("translation")),
        (vec![("ixe_tc_req_ecn_pkts_0", 1), ("ixe_tc_req_no_ecn_pkts_1", 99)], None),
        (vec![("ixe_tc_rsp_ecn_pkts_0", 2), ("ixe_tc_rsp_no_ecn_pkts_1", 98)], Some("congestion")),
        (vec![("hni_tx_paused_3", 100_000_000)], None),
        (vec![("hni_tx_paused_3", 100_000_001)], Some("congestion")),
        (
            vec![
                ("hni_sts_tx_ok_octets", 10_000_000),
                ("hni_sts_rx_ok_octets", 0),
                ("hni_sts_tx_octets_ieee", 1_000_000),
                ("hni_sts_rx_octets_ieee", 0),
            ],
            None,
        ),
        (
            vec![
                ("hni_sts_tx_ok_octets", 10_000_000),
                ("hni_sts_rx_ok_octets", 0),
                ("hni_sts_tx_octets_ieee", 1_000_001),
                ("hni_sts_rx_octets_ieee", 0),
            ],
            Some("ethernet"),
        ),
        (vec![("hni_pcs_uncorrected_cw", 1)], Some("uncorrected_code_words")),
        // Rules of NICs that a job has rules of its own for.
        (vec![("oxe_stall_fgfc_blk_0", 5)], None),
        (vec![("lpe_net_match_overflow_0", 5), ("lpe_net_match_requests_0", 5)], None),
    ] {
        assert_eq!(one(&counts), code.into_iter().collect::<Vec<_>>(), "{counts:?}");
    }
}

#[test]
fn nics_of_most_nodes_carry_unequal_shares() {
    let node = |node, most| {
        let octets = |name: &str, bytes| {
            nic(name, node, &[("hni_sts_tx_ok_octets", bytes), ("hni_sts_rx_ok_octets", 0)])
        };
        [octets("cxi0", most), octets("cxi1", 2_000_000)]
    };
    let nodes = |most: [u64; 5]| -> Vec<JobNic> {
        (0..5).flat_map(|index| node(index, most[index])).collect()
    };
    let [even, uneven] = [3_000_000, 3_000_001];
    assert_eq!(codes_of(&nodes([uneven, uneven, uneven, uneven, even])), ["imbalance"]);
    assert!(codes_of(&nodes([uneven, uneven, uneven, even, even])).is_empty());
}

#[test]
fn names_a_job_of_several_nodes_that_uses_no_nic() {
    let job = |counts: &[Option<u64>]| {
        let nic_of_node = |(node, count): (usize, &Option<u64>)| {
            let count = count.map(|count| ("hni_tx_ok_opt", count));
            nic("cxi0", node, count.as_slice())
        };
        let nics: Vec<JobNic> = counts.iter().enumerate().map(nic_of_node).collect();
        found(&nics)
    };
    let found = job(&[Some(0), Some(0)]);
    assert_eq!(found[0].code, "nic_not_used");
    let expected = "no NIC of 2 hosts sent a packet in HPC format: the job probably used no RDMA;";
    assert!(found[0].text.starts_with(expected), "{}", found[0].text);
    for counts in [&[Some(0)][..], &[Some(0), Some(1)], &[Some(0), None], &[None, None]] {
        assert!(job(counts).is_empty(), "{counts:?}");
    }
}

#[test]
fn names_the_one_node_with_readings_of_a_job_that_uses_no_nic() {
    let found = |packets: u64, job_nodes: Option<u32>| {
        let nics = [nic("cxi0", 0, &[("hni_tx_ok_opt", packets)])];
        let found = job_findings(&JobEvidence { nics: &nics, elapsed: None, job_nodes });
        found.first().map(|finding| finding.text.clone())
    };
    let text = found(0, Some(4)).unwrap_or_default();
    let expected = "no NIC of this node, one of 4 of the job, sent a packet in HPC format: the job \
                    probably used no RDMA;";
    assert!(text.starts_with(expected), "{text}");
    for (packets, job_nodes) in [(0, None), (0, Some(1)), (1, Some(4))] {
        assert_eq!(found(packets, job_nodes), None, "{packets} {job_nodes:?}");
    }
    let none = JobEvidence { nics: &[], elapsed: None, job_nodes: Some(4) };
    assert!(job_findings(&none).is_empty());
}

#[test]
fn short_runs_are_named_and_equal_findings_merged() {
    let nics: Vec<JobNic> = ["a cxi0", "b cxi0", "c cxi0"]
        .map(|name| nic(name, 0, &[("hni_llr_tx_replay_event", 3)]))
        .to_vec();
    let found = job_findings(&JobEvidence {
        nics: &nics,
        elapsed: Some(Duration::from_millis(4900)),
        job_nodes: None,
    });
    let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
    assert_eq!(texts[0], "the command took only 4.9 s: rates are unreliable");
    assert!(texts[1].starts_with("a cxi0 and 2 more NICs: link-level retry sent"), "{texts:?}");
    let devices: Vec<&str> = found[1].nics.iter().map(|nic| nic.device.as_str()).collect();
    assert_eq!(devices, ["a cxi0", "b cxi0", "c cxi0"]);
}

#[test]
fn codes_are_unique() {
    let codes = codes();
    let once: std::collections::BTreeSet<_> = codes.iter().collect();
    assert_eq!(once.len(), codes.len());
    assert!(codes.contains(&"outlier") && codes.contains(&"link_errors"));
}
