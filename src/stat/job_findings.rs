//! What the counters of all NICs of a job explain: rules with limits, in order of importance
//! (monitoring.md 1.5). The rules of one NIC follow them.

use std::array;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outliers::{CounterQuantity, OutlyingNic, outliers};
use health::findings::NicEvidence;
use health::findings::{self, RuleFinding};
use node::nic::counter_table::CounterRow;
use node::nic::counters::CounterChanges;

#[derive(Clone, Debug)]
pub struct JobNic {
    /// Its name in sentences: `nid000417 cxi1`.
    pub name: String,
    /// Name of its node.
    pub host: String,
    /// What its counters did.
    pub changes: CounterChanges,
}

/// What was observed of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobEvidence<'a> {
    pub nics: &'a [JobNic],
    /// How long the command took; `None` if it is unknown.
    pub elapsed: Option<Duration>,
    /// Number of nodes of the job, of which some may have no readings; `None` if it is unknown.
    pub job_nodes: Option<u32>,
}

/// What counters explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatFinding {
    /// Name of the rule.
    pub code: String,
    /// The NICs that it is about, the most affected first; empty for the whole job.
    pub nics: Vec<StatPlace>,
    /// The counter in which a NIC stands out; `None` for other rules.
    #[serde(skip)]
    pub counter: Option<String>,
    /// What is compared with the limit, of the most affected NIC.
    pub value: f64,
    /// The value above which it is reported.
    pub limit: String,
    /// Where the limit comes from.
    pub source: String,
    /// What happened, in a sentence.
    pub text: String,
}

/// A NIC in a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StatPlace {
    /// Name of its node.
    pub host: String,
    /// Name of the device.
    pub device: String,
}

/// One rule. It may find several things.
struct JobRule {
    code: &'static str,
    limit: &'static str,
    source: &'static str,
    find: fn(&JobEvidence) -> Vec<JobObservation>,
}

/// What a rule has found.
struct JobObservation {
    nics: Vec<usize>,
    counter: Option<String>,
    value: f64,
    text: String,
}

/// The rule about times without readings, which are evidence of their own.
pub const GAPS: &str = "gaps";

const OPEN_MPI: &str = "Open MPI";
pub const OWN: &str = "cxidiag";
const USER: &str = "a user of LUMI";

/// All rules, in order of importance.
const RULES: [JobRule; 13] = [
    rule("nic_not_used", "no packet in HPC format", OWN, nic_not_used),
    rule("timeouts", "0", OPEN_MPI, timeouts),
    rule("never_answered", "5 timeouts : 4 resent : 1 error, within 10 %", USER, never_answered),
    rule("outlier", "3 times the median, and 4.5 times the spread", OWN, outlier),
    rule("pcie_congestion", "5 cycles per packet", OPEN_MPI, pcie_congestion),
    rule("unexpected", "20 % of messages, and 1000", OWN, unexpected),
    rule("software_matching", "0", OWN, software_matching),
    rule("rendezvous", "95 % offloaded", OWN, rendezvous),
    rule("translation", "1 % misses, or any eviction", OWN, translation),
    rule("congestion", "1 % of packets or of the time", OWN, congestion),
    rule("imbalance", "1.5 times, in 80 % of the nodes", OWN, imbalance),
    rule("ethernet", "10 % of the bytes", OWN, ethernet),
    rule("short", "5 s", OPEN_MPI, short),
];

const fn rule(
    code: &'static str,
    limit: &'static str,
    source: &'static str,
    find: fn(&JobEvidence) -> Vec<JobObservation>,
) -> JobRule {
    JobRule { code, limit, source, find }
}

/// The rules of one NIC that a rule of a job replaces, or that need what a tool knows of its run.
const REPLACED: [&str; 7] = [
    "packets_resent",
    "congestion",
    "slow_receiving_host",
    "slow_sending_host",
    "translation_misses",
    "slow_matching",
    "others_use_nic",
];

/// Share of the time or of packets above which congestion is reported.
const NOTABLE_SHARE: f64 = 0.01;

/// Retries of a packet by the retry handler, unless it shows its configuration.
const RETRIES: u64 = 4;

/// Bytes below which shares of traffic mean nothing.
const MIN_OCTETS: u64 = 1 << 20;

/// Packets below which cycles for each mean nothing.
const MIN_PACKETS: u64 = 1000;

/// The names of all rules, of jobs and of NICs.
pub fn codes() -> Vec<&'static str> {
    let nics = findings::codes().filter(|code| !REPLACED.contains(code));
    RULES.iter().map(|rule| rule.code).chain(nics).chain([GAPS]).collect()
}

/// The rules that hold for a job.
pub fn job_findings(job: &JobEvidence) -> Vec<StatFinding> {
    let mut found = Vec::new();
    for rule in &RULES {
        found.extend((rule.find)(job).into_iter().map(|observation| StatFinding {
            code: rule.code.to_owned(),
            nics: job.places(&observation.nics),
            counter: observation.counter,
            value: observation.value,
            limit: rule.limit.to_owned(),
            source: rule.source.to_owned(),
            text: observation.text,
        }));
    }
    found.extend(single_nic_findings(job));
    found
}

/// The rules of one NIC that hold, each once, with all NICs for which it does.
fn single_nic_findings(job: &JobEvidence) -> Vec<StatFinding> {
    let mut by_code: BTreeMap<usize, (RuleFinding, Vec<usize>)> = BTreeMap::new();
    for (index, nic) in job.nics.iter().enumerate() {
        let evidence = NicEvidence { changes: &nic.changes, packets: None };
        for finding in findings::findings(&evidence) {
            let rank = findings::codes().position(|code| code == finding.code);
            if !REPLACED.contains(&finding.code) {
                let entry = by_code.entry(rank.unwrap_or_default());
                entry.or_insert((finding, Vec::new())).1.push(index);
            }
        }
    }
    let merged = by_code.into_values().map(|(finding, nics)| StatFinding {
        code: finding.code.to_owned(),
        counter: None,
        value: nics.len() as f64,
        limit: finding.limit,
        source: finding.source.to_owned(),
        text: format!("{}: {}", job.names(&nics), finding.text),
        nics: job.places(&nics),
    });
    merged.collect()
}

impl JobEvidence<'_> {
    fn places(&self, nics: &[usize]) -> Vec<StatPlace> {
        let nics = nics.iter().map(|nic| &self.nics[*nic]);
        let place = |nic: &JobNic| StatPlace {
            host: nic.host.clone(),
            device: nic.changes.nic.device.clone(),
        };
        nics.map(place).collect()
    }

    /// The NICs with a value above `limit`, the largest first.
    fn above(&self, limit: f64, value: impl Fn(&NicEvidence) -> Option<f64>) -> Vec<(usize, f64)> {
        let values = self.nics.iter().enumerate().filter_map(|(index, nic)| {
            let evidence = NicEvidence { changes: &nic.changes, packets: None };
            Some((index, value(&evidence)?))
        });
        let mut above: Vec<(usize, f64)> = values.filter(|(_, value)| *value > limit).collect();
        above.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        above
    }

    /// The name of one NIC, or of the first and how many more there are.
    fn names(&self, nics: &[usize]) -> String {
        let first = nics.first().map_or("", |nic| self.nics[*nic].name.as_str());
        match nics.len() {
            0 | 1 => first.to_owned(),
            2 => format!("{first} and 1 more NIC"),
            count => format!("{first} and {} more NICs", count - 1),
        }
    }

    /// The sums of some counts over the NICs of which all of them are known; `None` without such a
    /// NIC. A counter that was not read does not count as 0.
    fn sums<const N: usize>(
        &self,
        counts: impl Fn(&CounterChanges) -> Option<[u64; N]>,
    ) -> Option<[u64; N]> {
        let known = self.nics.iter().filter_map(|nic| counts(&nic.changes));
        known.reduce(added)
    }
}

/// The sums of the numbers at each place.
fn added<const N: usize>(one: [u64; N], other: [u64; N]) -> [u64; N] {
    array::from_fn(|index| one[index].saturating_add(other[index]))
}

impl JobObservation {
    fn from_job(value: f64, text: String) -> Vec<Self> {
        vec![Self { nics: Vec::new(), counter: None, value, text }]
    }

    /// Returns what is found about the NICs with these values; nothing without any.
    fn from_nics(above: &[(usize, f64)], text: impl FnOnce(&[usize], f64) -> String) -> Vec<Self> {
        let Some((_, value)) = above.first().copied() else {
            return Vec::new();
        };
        let nics: Vec<usize> = above.iter().map(|(nic, _)| *nic).collect();
        vec![Self { text: text(&nics, value), nics, counter: None, value }]
    }
}

/// The timeouts of a NIC. The transport and the retry handler count the same timeouts.
pub fn timeouts_of(changes: &CounterChanges) -> Option<u64> {
    let count = |names: [&str; 2]| {
        let counts = names.map(|name| changes.count(name));
        counts.into_iter().flatten().reduce(u64::saturating_add)
    };
    count(["retry_handler/spt_timeouts", "retry_handler/sct_timeouts"])
        .or_else(|| count(["pct_spt_timeouts", "pct_sct_timeouts"]))
}

/// The packets of a NIC that no try has brought an answer for: each has timed out, was sent again,
/// and in the end has an answer of the retry handler with an error.
pub fn never_answered_of(changes: &CounterChanges) -> Option<u64> {
    let count = |name: &str| changes.count(name);
    let spt = count("retry_handler/spt_timeouts").or_else(|| count("pct_spt_timeouts"))?;
    let (resent, errors) = (count("pct_retry_srb_requests")?, count("pct_rsp_err_rcvd")?);
    let is_near =
        |count: u64, expected: u64| (count as f64 - expected as f64).abs() <= 0.1 * expected as f64;
    let most = changes.nic.max_spt_retries.unwrap_or(RETRIES);
    let expected = [most.saturating_add(1), most].map(|times| times.saturating_mul(errors));
    let holds = is_near(spt, expected[0]) && is_near(resent, expected[1]);
    (errors > 0 && holds).then_some(errors)
}

/// Nodes that exchange nothing need no NIC, but a job of several nodes is rarely meant so. [I] RDMA
/// between nodes is in HPC format; TCP over the interface of a NIC is not. Whether a process has
/// opened a NIC leaves no trace; one that has opened none sends nothing.
fn nic_not_used(job: &JobEvidence) -> Vec<JobObservation> {
    let packets = |nic: &JobNic| nic.changes.count("hni_tx_ok_opt");
    let hosts: BTreeSet<&str> = job.nics.iter().map(|nic| nic.host.as_str()).collect();
    let job_nodes = job.job_nodes.map_or(0, |count| count as usize).max(hosts.len());
    let is_idle = !job.nics.is_empty() && job.nics.iter().all(|nic| packets(nic) == Some(0));
    if job_nodes < 2 || !is_idle {
        return Vec::new();
    }
    let place = match hosts.len() {
        1 => format!("this node, one of {job_nodes} of the job,"),
        count => format!("{count} hosts"),
    };
    let text = format!(
        "no NIC of {place} sent a packet in HPC format: the job probably used no RDMA; \
         'cxidiag check --job' finds settings that leave the NIC"
    );
    JobObservation::from_job(0.0, text)
}

fn timeouts(job: &JobEvidence) -> Vec<JobObservation> {
    let above = job.above(0.0, |evidence| Some(timeouts_of(evidence.changes)? as f64));
    JobObservation::from_nics(&above, |nics, value| {
        let changes = &job.nics[nics[0]].changes;
        let resent = changes.count("pct_retry_srb_requests");
        let resent = resent.map_or(String::new(), |count| format!(", {count} resent"));
        let never = never_answered_of(changes);
        let never = never.map_or(String::new(), |count| format!(", {count} never answered"));
        let most = if nics.len() > 1 { "most on " } else { "" };
        format!(
            "packets were sent again on {} of {} NICs: {most}{}, {value} \
             timeouts{resent}{never}",
            nics.len(),
            job.nics.len(),
            job.nics[nics[0]].name
        )
    })
}

fn never_answered(job: &JobEvidence) -> Vec<JobObservation> {
    let above = job.above(0.0, |evidence| Some(never_answered_of(evidence.changes)? as f64));
    let all: f64 = above.iter().map(|(_, count)| count).sum();
    JobObservation::from_nics(&above, |nics, _| {
        format!("{all} packets were never answered ({})", job.names(nics))
    })
}

fn outlier(job: &JobEvidence) -> Vec<JobObservation> {
    let nics: Vec<&CounterChanges> = job.nics.iter().map(|nic| &nic.changes).collect();
    let (outliers, uneven) = outliers(&nics);
    let named = outliers.iter().map(|outlier| JobObservation {
        nics: vec![outlier.nic],
        counter: Some(outlier.counter.clone()),
        value: outlier.value.number(),
        text: outlier_text(&job.nics[outlier.nic].name, outlier),
    });
    let uneven = uneven.iter().map(|uneven| JobObservation {
        nics: Vec::new(),
        counter: Some(uneven.counter.clone()),
        value: uneven.nics as f64,
        text: format!(
            "uneven: {} of {} NICs are far above the others in {}",
            uneven.nics,
            job.nics.len(),
            meaning(&uneven.counter)
        ),
    });
    named.chain(uneven).collect()
}

fn outlier_text(name: &str, outlier: &OutlyingNic) -> String {
    let [value, median] = [outlier.value, outlier.median].map(amount);
    let factor = outlier.value.number() / outlier.median.number();
    let factor = if factor.is_finite() { format!(" (factor {factor:.0})") } else { String::new() };
    if outlier.counter.starts_with("oxe_stall_fgfc_blk_") {
        return format!(
            "the fabric held {name} back for {value}; median of the job {median}{factor}"
        );
    }
    format!(
        "{name} stands out: {} {value}; median of the job {median}{factor}",
        meaning(&outlier.counter)
    )
}

/// Returns what a counter means, with its name.
fn meaning(counter: &str) -> String {
    let row = CounterRow::of(counter).or_else(|| CounterRow::of(&format!("{counter}_0")));
    match row {
        Some(row) => format!("{counter} ({} {})", row.unit, row.meaning),
        None => counter.to_owned(),
    }
}

/// A value with its unit.
pub fn amount(value: CounterQuantity) -> String {
    match value {
        CounterQuantity::PerSecond(rate) => format!("{rate:.1} per second"),
        CounterQuantity::OfTime(share) => format!("{} of the time", percent(share)),
        CounterQuantity::CyclesPerPacket(cycles) => format!("{cycles:.1} cycles per packet"),
        CounterQuantity::OfPackets(share) => format!("{} of the packets", percent(share)),
    }
}

/// A share in percent, with a decimal below 10 %.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 9.95 && percent != 0.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn pcie_congestion(job: &JobEvidence) -> Vec<JobObservation> {
    const LIMIT: f64 = 5.0;
    let nic_cycles = |kind: &str| {
        let packets = format!("parbs_tarb_pi_{kind}_pkts");
        let blocked = format!("parbs_tarb_pi_{kind}_blocked_cnt");
        job.above(LIMIT, |evidence| {
            evidence.count(&packets).filter(|count| *count >= MIN_PACKETS)?;
            evidence.ratio(&blocked, &packets)
        })
    };
    let sides = [("posted", "receive", "writes"), ("non_posted", "send", "reads")];
    let found = sides.map(|(kind, what, which)| {
        JobObservation::from_nics(&nic_cycles(kind), |nics, cycles| {
            format!(
                "the host is too slow to {what}: PCIe {which} of {} were blocked for {cycles:.0} \
                 cycles per packet",
                job.names(nics)
            )
        })
    });
    found.into_iter().flatten().collect()
}

/// Returns how many messages found a posted receive, came unexpected, and were left to software;
/// `None` if not all of these counters were read. The get of a rendezvous put matches an entry of
/// its initiator, which is no receive.
pub fn messages(nics: &[JobNic]) -> Option<[u64; 3]> {
    let job = JobEvidence { nics, elapsed: None, job_nodes: None };
    let [matched, unexpected, software] = job.sums(|changes| {
        Some([
            changes.sum("lpe_net_match_priority_")?,
            changes.sum("lpe_net_match_overflow_")?,
            changes.sum("lpe_net_match_request_")?,
        ])
    })?;
    let gets = job.sums(|changes| Some([changes.sum("lpe_rndzv_puts_")?]));
    let [gets] = gets.unwrap_or_default();
    Some([matched.saturating_sub(gets), unexpected, software])
}

fn unexpected(job: &JobEvidence) -> Vec<JobObservation> {
    const LIMIT: f64 = 0.2;
    const MIN_MESSAGES: u64 = 1000;
    // Ranks that share CPUs, with each other and with software NICs, are late without a fault.
    if job.nics.iter().any(|nic| nic.changes.nic.is_software) {
        return Vec::new();
    }
    let Some([posted, unexpected, software]) = messages(job.nics) else {
        return Vec::new();
    };
    let all = posted.saturating_add(unexpected).saturating_add(software);
    let share = unexpected as f64 / all.max(1) as f64;
    if share <= LIMIT || unexpected <= MIN_MESSAGES {
        return Vec::new();
    }
    let text =
        format!("receives are posted late: {} of the messages came unexpected", percent(share));
    JobObservation::from_job(share, text)
}

fn software_matching(job: &JobEvidence) -> Vec<JobObservation> {
    let above =
        job.above(0.0, |evidence| Some(evidence.changes.sum("lpe_net_match_request_")? as f64));
    let all: f64 = above.iter().map(|(_, count)| count).sum();
    JobObservation::from_nics(&above, |nics, _| {
        format!(
            "matching fell back to software: {all} messages on {} of {} NICs",
            nics.len(),
            job.nics.len()
        )
    })
}

fn rendezvous(job: &JobEvidence) -> Vec<JobObservation> {
    const LIMIT: f64 = 0.95;
    let sums = job.sums(|changes| {
        Some([changes.sum("lpe_rndzv_puts_")?, changes.sum("lpe_rndzv_puts_offloaded_")?])
    });
    let Some([all, offloaded]) = sums.filter(|[all, _]| *all > 0) else {
        return Vec::new();
    };
    let share = offloaded as f64 / all as f64;
    if share >= LIMIT {
        return Vec::new();
    }
    let text = format!("rendezvous without offload: {} of {all}", percent(1.0 - share));
    JobObservation::from_job(share, text)
}

fn translation(job: &JobEvidence) -> Vec<JobObservation> {
    const LIMIT: f64 = 0.01;
    let user_counts = |user: &str| {
        job.sums(|changes| {
            let count = |start: &str| changes.count(&format!("{start}_{user}"));
            Some([count("atu_cache_miss")?, count("atu_client_req")?])
        })
    };
    let users = ["oxe", "ixe", "ee"].into_iter().filter_map(user_counts);
    let [misses, requests] = users.fold([0; 2], added);
    let share = (requests > 0).then(|| misses as f64 / requests as f64);
    let high = share.filter(|share| misses >= MIN_PACKETS && *share > LIMIT);
    let evictions = job.sums(|changes| Some([changes.count("atu_cache_evictions")?]));
    let [evictions] = evictions.unwrap_or_default();
    let amounts = [
        high.map(|share| format!("{} misses", percent(share))),
        (evictions > 0).then(|| format!("{evictions} evictions")),
    ];
    let amounts: Vec<String> = amounts.into_iter().flatten().collect();
    if amounts.is_empty() {
        return Vec::new();
    }
    let text = format!(
        "the cache of address translations is too small: {} (huge pages, fewer buffers)",
        amounts.join(", ")
    );
    JobObservation::from_job(high.unwrap_or(evictions as f64), text)
}

fn congestion(job: &JobEvidence) -> Vec<JobObservation> {
    let kind_counts = |kind: &str| {
        job.sums(|changes| {
            let sum = |mark: &str| changes.sum(&format!("ixe_tc_{kind}_{mark}_pkts_"));
            Some([sum("ecn")?, sum("no_ecn")?])
        })
    };
    let [marked, unmarked] = ["req", "rsp"].into_iter().filter_map(kind_counts).fold([0; 2], added);
    let share = marked as f64 / marked.saturating_add(unmarked).max(1) as f64;
    let paused = job.above(NOTABLE_SHARE, |evidence| evidence.longest_share("hni_tx_paused_"));
    let mut found = Vec::new();
    if share > NOTABLE_SHARE {
        let text = format!(
            "the fabric or receivers are congested: {} of the packets were marked",
            percent(share)
        );
        found.extend(JobObservation::from_job(share, text));
    }
    found.extend(JobObservation::from_nics(&paused, |nics, share| {
        format!(
            "the fabric or receivers are congested: the switch held off {} of {} NICs, {} for {} \
             of the time",
            nics.len(),
            job.nics.len(),
            job.nics[nics[0]].name,
            percent(share)
        )
    }));
    found
}

/// The bytes that a NIC has sent and received.
pub fn octets(changes: &CounterChanges) -> Option<u64> {
    let count = |side| changes.count(&format!("hni_sts_{side}_ok_octets"));
    Some(count("tx")?.saturating_add(count("rx")?))
}

fn imbalance(job: &JobEvidence) -> Vec<JobObservation> {
    const FACTOR: f64 = 1.5;
    const NODES: f64 = 0.8;
    let mut by_node: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for nic in job.nics {
        if let Some(octets) = octets(&nic.changes) {
            by_node.entry(&nic.host).or_default().push(octets);
        }
    }
    by_node.retain(|_, octets| octets.len() > 1);
    let most = |octets: &[u64]| octets.iter().copied().max().unwrap_or(0);
    let least = |octets: &[u64]| octets.iter().copied().min().unwrap_or(0);
    let differs = |octets: &&Vec<u64>| {
        most(octets) >= MIN_OCTETS && most(octets) as f64 > FACTOR * least(octets) as f64
    };
    let uneven = by_node.values().filter(differs).count();
    if uneven == 0 || (uneven as f64) < NODES * by_node.len() as f64 {
        return Vec::new();
    }
    let ratios = by_node.values().filter(differs);
    let ratio =
        ratios.map(|ratio| most(ratio) as f64 / least(ratio).max(1) as f64).fold(0.0, f64::max);
    let text = format!(
        "ranks and NICs are mapped unevenly: NICs of one node carry more than {FACTOR} times the \
         bytes of others on {uneven} of {} nodes",
        by_node.len()
    );
    JobObservation::from_job(ratio, text)
}

fn ethernet(job: &JobEvidence) -> Vec<JobObservation> {
    const LIMIT: f64 = 0.1;
    let sums = job.sums(|changes| {
        let count = |name: &str| changes.count(&format!("hni_sts_{name}"));
        let [sent, received] = [count("tx_octets_ieee")?, count("rx_octets_ieee")?];
        Some([octets(changes)?, sent.saturating_add(received)])
    });
    let [all, ethernet] = sums.unwrap_or_default();
    let share = ethernet as f64 / all.max(1) as f64;
    if all < MIN_OCTETS || share <= LIMIT {
        return Vec::new();
    }
    let text = format!(
        "storage or TCP traffic shares the NICs: {} of the bytes are Ethernet",
        percent(share)
    );
    JobObservation::from_job(share, text)
}

fn short(job: &JobEvidence) -> Vec<JobObservation> {
    const LIMIT: Duration = Duration::from_secs(5);
    let Some(elapsed) = job.elapsed.filter(|elapsed| *elapsed < LIMIT) else {
        return Vec::new();
    };
    let seconds = elapsed.as_secs_f64();
    let text = format!("the command took only {seconds:.1} s: rates are unreliable");
    JobObservation::from_job(seconds, text)
}

#[cfg(test)]
#[path = "job_findings_tests.rs"]
mod tests;
