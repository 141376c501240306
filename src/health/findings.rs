//! What counters explain: rules with limits, in order of importance (health.md 1.7), and what they
//! know about one NIC.

use std::time::Duration;

use node::nic::counter::CounterChange;
use node::nic::counters::CounterChanges;
use node::nic::link_speed::{CodeWordLimits, LinkSpeed, bit_rate};
use node::nic::pcie_path::max_corrected_per_minute;

/// A rule that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFinding {
    /// Name of the rule.
    pub code: &'static str,
    /// What happened, in a sentence.
    pub text: String,
    /// Above which value the rule holds.
    pub limit: String,
    /// Where the limit comes from.
    pub source: &'static str,
}

struct Rule {
    code: &'static str,
    source: &'static str,
    find: fn(&NicEvidence) -> Option<RuleResult>,
}

/// What happened, and the limit.
struct RuleResult {
    text: String,
    limit: String,
    /// Where the limit comes from, if it is not the source of the rule.
    source: Option<&'static str>,
}

/// Sources of limits.
const DRIVER: &str = "the driver";
const HPE: &str = "HPE's documents";
const OPEN_MPI: &str = "Open MPI";
const OWN: &str = "cxidiag";
const OPEN_MPI_AND_OWN: &str = "Open MPI, cxidiag";

/// All rules, in order of importance.
const RULES: [Rule; 19] = [
    rule("packets_resent", OPEN_MPI, packets_resent),
    rule("link_errors", DRIVER, link_errors),
    rule("uncorrected_code_words", HPE, uncorrected_code_words),
    rule("link_failing", DRIVER, link_failing),
    rule("link_marginal", OWN, link_marginal),
    rule("link_replays", OPEN_MPI, link_replays),
    rule("bad_lane", DRIVER, bad_lane),
    rule("target_oversubscribed", OPEN_MPI, target_oversubscribed),
    rule("congestion", OWN, congestion),
    rule("slow_receiving_host", OPEN_MPI_AND_OWN, slow_receiving_host),
    rule("slow_sending_host", OPEN_MPI_AND_OWN, slow_sending_host),
    rule("class_limit", OWN, class_limit),
    rule("translation_misses", OWN, translation_misses),
    rule("pcie_errors", DRIVER, pcie_errors),
    rule("slow_matching", OWN, slow_matching),
    rule("events_lost", OWN, events_lost),
    rule("unknown_targets", OWN, unknown_targets),
    rule("lossless_packets_lost", HPE, lossless_packets_lost),
    rule("others_use_nic", OWN, others_use_nic),
];

const fn rule(
    code: &'static str,
    source: &'static str,
    find: fn(&NicEvidence) -> Option<RuleResult>,
) -> Rule {
    Rule { code, source, find }
}

/// The names of all rules, in order of importance.
pub fn codes() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.code)
}

/// The rules that hold for a NIC.
pub fn findings(evidence: &NicEvidence) -> Vec<RuleFinding> {
    let finding = |rule: &Rule| {
        let found = (rule.find)(evidence)?;
        Some(RuleFinding {
            code: rule.code,
            text: found.text,
            limit: found.limit,
            source: found.source.unwrap_or(rule.source),
        })
    };
    RULES.iter().filter_map(finding).collect()
}

/// Share of a time or of packets above which a finding is reported.
const NOTABLE_SHARE: f64 = 0.01;

/// Cycles for each PCIe packet above which the host is too slow.
const MAX_BLOCKED_CYCLES: f64 = 5.0;

/// Numbers of PCIe reads and of cache misses below which their shares mean nothing.
const MIN_PCIE_READS: u64 = 1000;
const MIN_MISSES: u64 = 100;

/// Interval in which the driver checks uncorrected code words.
const CODE_WORD_CHECK: Duration = Duration::from_millis(500);

/// Interval in which the driver updates the PCIe errors: a minute.
const PCIE_CHECK: Duration = Duration::from_secs(60);

fn packets_resent(evidence: &NicEvidence) -> Option<RuleResult> {
    let timeouts = evidence.count("pct_spt_timeouts");
    let timeouts = timeouts.or_else(|| evidence.count("retry_handler/spt_timeouts"));
    let (timeouts, resent) = (timeouts.unwrap_or(0), evidence.or_0("pct_retry_srb_requests"));
    if timeouts == 0 && resent == 0 {
        return None;
    }
    let (timeouts, resent) = (were(timeouts, "packet"), were(resent, "packet"));
    // The timer of hardware (libcxi.md 12.3). The timer of a software NIC is a setting.
    let cost =
        if evidence.changes.nic.is_software { "" } else { ": each timeout costs at least 1.07 s" };
    above_zero(format!("{timeouts} not answered in time, {resent} sent again{cost}"))
}

fn link_errors(evidence: &NicEvidence) -> Option<RuleResult> {
    let rate = uncorrected_per_s(evidence)?;
    let limit = CodeWordLimits::uncorrected(evidence.changes.nic.limits, evidence.speed()).bad?;
    (rate > limit).then(|| RuleResult {
        text: format!(
            "link errors: {rate:.1} lost code words per second{}",
            evidence.about_cable()
        ),
        limit: format!("{limit:.1} per second at {}", evidence.speed_name()),
        source: None,
    })
}

fn uncorrected_code_words(evidence: &NicEvidence) -> Option<RuleResult> {
    let count = evidence.count("hni_pcs_uncorrected_cw").filter(|count| *count > 0)?;
    if link_errors(evidence).is_some() {
        return None;
    }
    above_zero(format!(
        "link errors: {} lost, and repaired by link-level retry",
        were(count, "code word")
    ))
}

fn link_failing(evidence: &NicEvidence) -> Option<RuleResult> {
    let rate = evidence.per_second("hni_pcs_corrected_cw")?;
    let limit = CodeWordLimits::corrected(evidence.changes.nic.limits, evidence.speed()).bad?;
    (rate > limit).then(|| RuleResult {
        text: format!(
            "the link is failing: {rate:.0} corrected code words per second{}",
            evidence.about_cable()
        ),
        limit: format!("{limit:.0} per second at {}", evidence.speed_name()),
        source: None,
    })
}

/// A link with more errors than healthy ones have, or than the driver of Cassini 2 warns of.
fn link_marginal(evidence: &NicEvidence) -> Option<RuleResult> {
    let rate = evidence.per_second("hni_pcs_corrected_cw")?;
    let limits = CodeWordLimits::corrected(evidence.changes.nic.limits, evidence.speed());
    let bits = bit_rate(evidence.speed());
    (rate > limits.suspect && link_failing(evidence).is_none()).then(|| RuleResult {
        text: format!("the link is marginal: corrected bit error rate {:.1e}", rate / bits),
        limit: format!("{:.0e}", limits.suspect / bits),
        source: limits.is_of_driver.then_some(DRIVER),
    })
}

fn link_replays(evidence: &NicEvidence) -> Option<RuleResult> {
    let sent = evidence.or_0("hni_llr_tx_replay_event");
    let received = evidence.or_0("hni_llr_rx_replay_event");
    let directions = [(sent, "to the switch"), (received, "from the switch")];
    let times = directions.into_iter().filter(|(count, _)| *count > 0);
    let times: Vec<String> =
        times.map(|(count, direction)| format!("{} {direction}", times_text(count))).collect();
    let text = || {
        format!(
            "link-level retry sent data again {}: latency outliers of microseconds, no loss",
            times.join(" and ")
        )
    };
    (!times.is_empty()).then(|| above_zero(text()))?
}

fn bad_lane(evidence: &NicEvidence) -> Option<RuleResult> {
    let mut lanes: Vec<(u64, u32, CounterChange)> =
        (evidence.changes.numbered("hni_pcs_fecl_errors_"))
            .filter_map(|(lane, change)| Some((change.count()?, lane, change)))
            .collect();
    lanes.sort_unstable_by_key(|(count, lane, _)| (*count, *lane));
    let [.., (next, ..), (_, lane, worst)] = lanes[..] else {
        return None;
    };
    let rate = worst.per_second()?;
    let limit =
        evidence.speed().and_then(|speed| speed.cassini_1).map(|limits| limits.max_of_lane_per_s);
    let share = rate / bit_rate(evidence.speed());
    // Few errors do not distinguish lanes.
    let is_alone = worst.count()? > next.saturating_mul(10) && share > 1e-9;
    let is_above = limit.is_some_and(|limit| rate > limit);
    (is_above || is_alone).then(|| RuleResult {
        text: format!(
            "lane {lane} of the link has most errors: {rate:.0} per second{}",
            evidence.about_cable()
        ),
        limit: match limit {
            Some(limit) => format!("{limit:.0} per second, or 10 times those of the next lane"),
            None => "10 times those of the next lane".into(),
        },
        source: limit.is_none().then_some(OWN),
    })
}

fn target_oversubscribed(evidence: &NicEvidence) -> Option<RuleResult> {
    let refused = evidence.total(&[
        "pct_no_tct_nacks",
        "pct_no_trs_nacks",
        "pct_no_mst_nacks",
        "pct_resource_busy",
    ]);
    let text = || {
        format!(
            "{} refused because tables of this NIC were full: too many sources at once",
            were(refused, "packet")
        )
    };
    (refused > 0).then(|| above_zero(text()))?
}

fn congestion(evidence: &NicEvidence) -> Option<RuleResult> {
    let marked = evidence.total_numbered(&["ixe_tc_req_ecn_pkts_", "ixe_tc_rsp_ecn_pkts_"]);
    let unmarked = evidence.total_numbered(&["ixe_tc_req_no_ecn_pkts_", "ixe_tc_rsp_no_ecn_pkts_"]);
    let share = marked as f64 / marked.saturating_add(unmarked).max(1) as f64;
    let paused = evidence.longest_share("hni_tx_paused_");
    let held_back = evidence.total_numbered(&["oxe_stall_fgfc_blk_"]);
    let mut signs = Vec::new();
    if share > NOTABLE_SHARE {
        signs.push(format!("{:.1} % of packets were marked", 100.0 * share));
    }
    if let Some(paused) = paused.filter(|paused| *paused > NOTABLE_SHARE) {
        signs.push(format!("the switch held off this NIC for {:.1} % of the time", 100.0 * paused));
    }
    if held_back > 0 {
        signs.push(format!("flow control of the fabric held back packets for {held_back} cycles"));
    }
    (!signs.is_empty()).then(|| RuleResult {
        text: format!("congestion in the fabric: {}", signs.join(", ")),
        limit: "1 % of packets or of the time, or any flow control".into(),
        source: None,
    })
}

fn slow_receiving_host(evidence: &NicEvidence) -> Option<RuleResult> {
    let paused = evidence.longest_share("hni_rx_paused_")?;
    let blocked =
        evidence.ratio("parbs_tarb_pi_posted_blocked_cnt", "parbs_tarb_pi_posted_pkts")?;
    (paused > NOTABLE_SHARE && blocked > MAX_BLOCKED_CYCLES).then(|| RuleResult {
        text: format!(
            "this host cannot keep up with what arrives: PCIe writes were blocked for {blocked:.0} \
             cycles per packet, and the NIC held off its sender for {:.1} % of the time (IOMMU, \
             NUMA node, PCIe width)",
            100.0 * paused
        ),
        limit: format!("{MAX_BLOCKED_CYCLES} cycles per packet and 1 % of the time"),
        source: None,
    })
}

fn slow_sending_host(evidence: &NicEvidence) -> Option<RuleResult> {
    const READS: &str = "parbs_tarb_pi_non_posted_pkts";
    evidence.count(READS).filter(|reads| *reads >= MIN_PCIE_READS)?;
    let blocked = evidence.ratio("parbs_tarb_pi_non_posted_blocked_cnt", READS)?;
    (blocked > MAX_BLOCKED_CYCLES).then(|| RuleResult {
        text: format!(
            "this host is slow to send: PCIe reads were blocked for {blocked:.0} cycles per packet"
        ),
        limit: format!("{MAX_BLOCKED_CYCLES} cycles per packet"),
        source: None,
    })
}

fn class_limit(evidence: &NicEvidence) -> Option<RuleResult> {
    let share = evidence.longest_share("oxe_stall_ts_no_out_crd_tsc_")?;
    (share > NOTABLE_SHARE).then(|| RuleResult {
        text: format!(
            "the bandwidth limit of the traffic class held back packets for {:.1} % of the time",
            100.0 * share
        ),
        limit: "1 % of the time".into(),
        source: None,
    })
}

fn translation_misses(evidence: &NicEvidence) -> Option<RuleResult> {
    let users = ["oxe", "ixe", "ee"].iter().filter_map(|user| {
        let misses = evidence.count(&format!("atu_cache_miss_{user}"))?;
        let requests = evidence.count(&format!("atu_client_req_{user}"))?;
        let is_enough = misses >= MIN_MISSES && requests > 0;
        is_enough.then(|| misses as f64 / requests as f64)
    });
    let share = users.fold(0.0, f64::max);
    let evictions = evidence.or_0("atu_cache_evictions");
    (share > NOTABLE_SHARE || evictions > 0).then(|| RuleResult {
        text: format!(
            "the cache of address translations is too small: {:.1} % misses, {evictions} evictions \
             (use huge pages or smaller buffers)",
            100.0 * share
        ),
        limit: "1 % misses, or any eviction".into(),
        source: None,
    })
}

fn pcie_errors(evidence: &NicEvidence) -> Option<RuleResult> {
    let uncorrected = evidence.or_0("properties/pcie_uncorr_err");
    let corrected = evidence.or_0("properties/pcie_corr_err");
    let per_minute = evidence.count_in("properties/pcie_corr_err", PCIE_CHECK);
    let speed = evidence.changes.nic.pcie_gt_per_s;
    let limit = speed.and_then(|gt| Some((gt, max_corrected_per_minute(gt)?)));
    let is_above = match (per_minute, limit) {
        (Some(per_minute), Some((_, limit))) => per_minute > limit as f64,
        _ => false,
    };
    (uncorrected > 0 || is_above).then(|| RuleResult {
        text: format!("PCIe errors: {uncorrected} not corrected, {corrected} corrected"),
        limit: match limit {
            Some((gt, limit)) => format!("0, {limit} corrected per minute at {gt} GT/s"),
            None => "0".into(),
        },
        source: None,
    })
}

fn slow_matching(evidence: &NicEvidence) -> Option<RuleResult> {
    const LIMIT: f64 = 8.0;
    let requests = evidence.changes.sum("lpe_net_match_requests_")?;
    let attempts = evidence.changes.sum("lpe_sts_net_match_attempts_").unwrap_or(0);
    let unexpected = evidence.changes.sum("lpe_net_match_overflow_").unwrap_or(0);
    let depth = attempts as f64 / requests.max(1) as f64;
    (depth > LIMIT || unexpected > 0).then(|| RuleResult {
        text: format!(
            "matching is slow: {depth:.1} list entries looked at per arrival, {unexpected} \
             unexpected arrivals"
        ),
        limit: format!("{LIMIT} entries, or any unexpected arrival"),
        source: None,
    })
}

fn events_lost(evidence: &NicEvidence) -> Option<RuleResult> {
    let lost = evidence.total_numbered(&[
        "ee_events_dropped_ordinary_cntr_",
        "ee_events_dropped_fc_sc_cntr_",
        "ee_events_dropped_rsrvn_cntr_",
    ]);
    let text = || {
        format!(
            "{} lost because an event queue was full: the result of its program is invalid",
            were(lost, "event")
        )
    };
    (lost > 0).then(|| above_zero(text()))?
}

fn unknown_targets(evidence: &NicEvidence) -> Option<RuleResult> {
    let vni = evidence.or_0("rmu_ptl_invld_vni_cntr");
    let address = evidence.or_0("rmu_ptl_invld_dfa_cntr");
    let portal = evidence.or_0("rmu_ptl_no_ptlte_cntr");
    if vni == 0 && address == 0 && portal == 0 {
        return None;
    }
    above_zero(format!(
        "packets arrived for what this NIC does not have: {vni} for a VNI, {address} for an \
         address, {portal} for a portal"
    ))
}

fn lossless_packets_lost(evidence: &NicEvidence) -> Option<RuleResult> {
    let lost = evidence.changes.sum("hni_pfc_fifo_oflw_cntr_");
    let lost = lost.filter(|lost| *lost > 0)?;
    above_zero(format!(
        "{} lost at a full PFC FIFO: the QoS profiles of NIC and switch differ",
        were(lost, "packet")
    ))
}

fn others_use_nic(evidence: &NicEvidence) -> Option<RuleResult> {
    /// Packets of a NIC for each packet with data: each may be answered, and sent again.
    const FACTOR: u64 = 10;
    /// Packets that any NIC may send during a run.
    const ANY: u64 = 1000;
    let own = evidence.packets?;
    let sent = evidence.changes.sum("hni_pkts_sent_by_tc_").unwrap_or(0);
    let received = evidence.changes.sum("hni_pkts_recv_by_tc_").unwrap_or(0);
    let limit = own.saturating_mul(FACTOR).saturating_add(ANY);
    (sent.max(received) > limit).then(|| RuleResult {
        text: format!(
            "other programs use this NIC: it sent {sent} packets and received {received}, this \
             run has about {own} with data"
        ),
        limit: format!("{limit} packets"),
        source: None,
    })
}

/// Returns what was found by a rule that holds for any count.
fn above_zero(text: String) -> Option<RuleResult> {
    Some(RuleResult { text, limit: "0".into(), source: None })
}

/// Returns `1 packet was` or `37 packets were`.
fn were(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what} was") } else { format!("{count} {what}s were") }
}

/// Returns `once` or `37 times`.
fn times_text(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// The uncorrected code words per second, in intervals of the driver's check.
fn uncorrected_per_s(evidence: &NicEvidence) -> Option<f64> {
    let count = evidence.count_in("hni_pcs_uncorrected_cw", CODE_WORD_CHECK)?;
    Some(count / CODE_WORD_CHECK.as_secs_f64())
}

/// What is known about one NIC.
#[derive(Clone, Copy, Debug)]
pub struct NicEvidence<'a> {
    /// What its counters did during the run.
    pub changes: &'a CounterChanges,
    /// Packets with data that the run sent or received, about; `None` if unknown.
    pub packets: Option<u64>,
}

impl NicEvidence<'_> {
    /// Returns by how much a counter has grown; `None` if it is not available or was reset.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.changes.count(name)
    }

    /// A count, 0 for a counter that is not available: it supports no finding.
    pub fn or_0(&self, name: &str) -> u64 {
        self.count(name).unwrap_or(0)
    }

    /// The counts per second, if they are known.
    pub fn per_second(&self, name: &str) -> Option<f64> {
        self.changes.of(name)?.per_second()
    }

    /// The counts in each `interval`; a shorter run counts as one.
    pub fn count_in(&self, name: &str, interval: Duration) -> Option<f64> {
        let change = self.changes.of(name)?;
        let within = change.within()?.max(interval);
        Some(change.count()? as f64 * interval.as_secs_f64() / within.as_secs_f64())
    }

    /// The share of the time of the counter of cycles that has counted most, of those whose names
    /// are `prefix` and a number.
    pub fn longest_share(&self, prefix: &str) -> Option<f64> {
        let rates = self.changes.numbered(prefix);
        let rates = rates.filter_map(|(_, change)| change.per_second());
        let cycles_per_s = self.changes.nic.cycles_per_s();
        rates.reduce(f64::max).map(|rate| rate / cycles_per_s)
    }

    /// The ratio of two counters.
    pub fn ratio(&self, name: &str, to: &str) -> Option<f64> {
        let (value, to) = (self.count(name)?, self.count(to)?);
        (to > 0).then(|| value as f64 / to as f64)
    }

    /// The mode of the link, if its rates are known.
    pub fn speed(&self) -> Option<LinkSpeed> {
        LinkSpeed::of(self.changes.nic.link_speed.as_deref()?)
    }

    /// The mode of the link as the driver shows it.
    pub fn speed_name(&self) -> &str {
        let name = self.changes.nic.link_speed.as_deref();
        name.unwrap_or("an unknown speed")
    }

    /// The sum of counters; one that is not available adds nothing.
    pub fn total(&self, names: &[&str]) -> u64 {
        let counts = names.iter().map(|name| self.or_0(name));
        counts.fold(0, u64::saturating_add)
    }

    /// The sum of counters whose names are one of `prefixes` and a number; one that is not
    /// available adds nothing.
    pub fn total_numbered(&self, prefixes: &[&str]) -> u64 {
        let sums = prefixes.iter().map(|prefix| self.changes.sum(prefix));
        sums.flatten().fold(0, u64::saturating_add)
    }

    /// Returns what to do about a bad link; a software NIC has no cable.
    pub fn about_cable(&self) -> &'static str {
        if self.changes.nic.is_software { "" } else { ": reseat or replace the cable" }
    }
}

#[cfg(test)]
#[path = "findings_tests.rs"]
mod tests;
