//! The decision table (hangs.md 7): from what was read on a node to what it says. Pure functions.

use crate::call_rows::call_findings;
use crate::calls::RankCall;
use crate::finding::{
    Certainty, HangFinding, does, finding, groups, is_quiet, members, names_of, stands_still,
    unless_moving,
};
use crate::nics::{Motion, NicState};
use crate::process::Activity;
use crate::ranks::names;
use crate::reading::{NodeReading, RankState};
use facts::number::counted;

/// Part of a limit from which on it may be what processes wait for.
const NEAR_LIMIT: f64 = 0.95;

/// Groups of ranks that a text names.
const MOST_GROUPS: usize = 3;

/// Part of the time in which the switch holds off a NIC that stands still.
const HELD_OFF: f64 = 0.9;

/// Part of the time in which a NIC that cannot take data holds off the switch.
const HOLDS_OFF: f64 = 0.5;

/// How often the retry handler sends a packet again (libcxi.md 12.3).
const RETRIES: u64 = 4;

/// What a rank does that waits for other ranks, or that computes.
const WAITING: [Activity; 6] = [
    Activity::Runs,
    Activity::Yields,
    Activity::Descriptors,
    Activity::Lock,
    Activity::Sleep,
    Activity::Changing,
];

/// What a rank does that waits for something beside the network.
const ELSEWHERE: [Activity; 7] = [
    Activity::Signal,
    Activity::Pipe,
    Activity::Socket,
    Activity::Read,
    Activity::Child,
    Activity::FileLock,
    Activity::Sleep,
];

/// Returns what holds, the surest first and then in the order of the table; never nothing.
pub fn findings(node: &NodeReading) -> Vec<HangFinding> {
    let mut all: Vec<HangFinding> = Vec::new();
    all.extend(ended(node));
    for rank in &node.ranks {
        all.extend(rank_finding(node, rank));
    }
    for nic in &node.nics {
        all.extend(nic_findings(node, nic));
    }
    all.extend(outlier(node));
    all.extend(call_findings(node));
    all.sort_by_key(|finding| (finding.certainty, finding.row));
    all.dedup_by(|later, first| later.row == first.row && later.text == first.text);
    if all.iter().all(|finding| finding.certainty >= Certainty::Possibly) {
        all.push(open(node));
    }
    all
}

/// Row 1.
fn ended(node: &NodeReading) -> Option<HangFinding> {
    let first = node.ended.first()?;
    let name = match (first.rank, first.pid) {
        (Some(rank), Some(pid)) => names(&[(Some(rank), pid, None)]),
        (Some(rank), None) => format!("rank {rank}"),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => "a rank of this node".into(),
    };
    let more = match node.ended.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let has = if more.is_empty() { "has" } else { "have" };
    let others = if node.ranks.is_empty() { "" } else { "; the others wait for it" };
    let text = format!("{name}{more} {has} ended{others}");
    let next = "cxidiag explain LOG with the output of the job; look for 'Out of memory' in dmesg";
    let certainty = unless_moving(node, Certainty::Because);
    Some(finding(1, certainty, [&text, &first.proof, next, "a fault of the network"]))
}

/// Rows that one rank is enough for.
fn rank_finding(node: &NodeReading, rank: &RankState) -> Option<HangFinding> {
    let name = rank.label();
    let function = rank.wait_channel.as_deref().unwrap_or("no function shown");
    let proof = format!("at each reading: {} ({function})", rank.activity.name());
    let several = |row, certainty, says: &str, next: &str, exclusion: &str| {
        let certainty = unless_moving(node, certainty);
        Some(finding(row, certainty, [&format!("{name} {says}"), &proof, next, exclusion]))
    };
    let has_lock = rank.has_thread(Activity::Lock);
    match rank.activity {
        Activity::Stopped => Some(finding(
            2,
            Certainty::Because,
            [
                &format!("{name} is stopped by a signal"),
                "its state is T",
                &format!("kill -CONT {} if nobody needs it stopped", rank.pid),
                "a fault of the network, or of the other ranks",
            ],
        )),
        Activity::Traced => {
            let tracer = rank.tracer.map_or("a debugger".into(), |pid| format!("process {pid}"));
            let text = format!("{name} is held by {tracer}");
            let next = "detach the debugger, or let the rank continue in it";
            let exclusion = "a fault of the network, or of the other ranks";
            Some(finding(2, Certainty::Because, [&text, "its state is t", next, exclusion]))
        }
        _ if rank.has_thread(Activity::MemoryMonitor) && has_lock => {
            let text = format!("{name} waits for the monitor of registered memory");
            let proof = "a thread waits in userfaultfd, and another one for a lock";
            let next = "run the job with FI_MR_CACHE_MONITOR=kdreg2 or disabled";
            let certainty = unless_moving(node, Certainty::Probably);
            Some(finding(17, certainty, [&text, proof, next, "that the GPU hangs"]))
        }
        Activity::Storage => several(
            10,
            Certainty::Probably,
            "waits for storage",
            "ask the administrators of the file system, with the name of this node",
            "a fault of the network of the job",
        ),
        Activity::GpuDriver => several(
            18,
            Certainty::Possibly,
            "waits in the driver of a GPU",
            "look at the GPU (nvidia-smi, rocm-smi), and for Xid in dmesg",
            "that a silent NIC has a fault",
        ),
        Activity::NicDriver | Activity::Kernel => several(
            27,
            Certainty::Possibly,
            "does not come back from the kernel",
            &format!("the administrator: cat /proc/{}/stack, and dmesg", rank.pid),
            "a fault of a peer",
        ),
        _ => None,
    }
}

/// Rows that one NIC is enough for.
fn nic_findings(node: &NodeReading, nic: &NicState) -> Vec<HangFinding> {
    [
        link_findings(nic),
        loss_findings(node, nic),
        limit_findings(node, nic),
        flow_findings(node, nic),
        target_findings(node, nic),
        event_findings(nic),
    ]
    .concat()
}

/// The name of a NIC without its node, as commands on this node take it.
fn name_on_node(nic: &NicState) -> &str {
    nic.device.rsplit(' ').next().unwrap_or(&nic.device)
}

/// Rows 3 to 5: the link and the retry handler.
fn link_findings(nic: &NicState) -> Vec<HangFinding> {
    let device = &nic.device;
    let name = name_on_node(nic);
    let outstanding = nic.in_use("spt");
    let mut all = Vec::new();
    let mut add = |row, certainty, texts: [&str; 4]| all.push(finding(row, certainty, texts));
    if nic.is_up == Some(false) {
        let text = format!("{device} has no link");
        let next = format!("cxidiag link -d {name}");
        let exclusion = "that only this node is hit";
        add(
            3,
            Certainty::Because,
            [&text, "the driver says that the link is down", &next, exclusion],
        );
    }
    let off = format!("pct_eq of {device} is 0, {outstanding} packets have no answer");
    match nic.has_retry_handler {
        Some(false) if outstanding > 0 => add(
            4,
            Certainty::Because,
            [
                &format!("no retry handler repeats the packets that {device} has lost"),
                &off,
                "end the job; the administrator reboots the node",
                "that starting the retry handler under traffic helps",
            ],
        ),
        Some(false) => add(
            5,
            Certainty::Possibly,
            [
                &format!("{device} has no retry handler, but nothing is outstanding now"),
                &off,
                &format!("the administrator: systemctl status cxi_rh@{name}"),
                "that this explains the hang",
            ],
        ),
        _ => {}
    }
    all
}

/// Rows 6 and 7: lost packets, and peers that the retry handler regards as down.
fn loss_findings(node: &NodeReading, nic: &NicState) -> Vec<HangFinding> {
    let device = &nic.device;
    let mut all = Vec::new();
    let mut add = |row, certainty, texts: [&str; 4]| all.push(finding(row, certainty, texts));
    let lost = [
        "retry_handler/spt_timeouts",
        "retry_handler/pkts_cancelled",
        "retry_handler/connections_cancelled",
    ];
    if let Some(proof) = nic.growth(&lost) {
        // A packet that gets through is sent again so often at most.
        let recovers =
            nic.answers.is_none_or(|answers| nic.count(&lost) <= answers.saturating_mul(RETRIES));
        let certainty = if recovers { Certainty::Possibly } else { Certainty::Probably };
        let text = format!(
            "packets of {device} get no answer; the job goes on, or fails with UNDELIVERABLE within 98 s"
        );
        let next =
            "wait 100 s; then the journal of cxi_rh names the peer (journalctl -u 'cxi_rh@*')";
        add(6, unless_moving(node, certainty), [&text, &proof, next, "a deadlock of the program"]);
    }
    if let Some(parked @ 1..) = nic.parked_nids {
        let text = format!("the retry handler of {device} regards peers as down");
        let proof = format!("{device} retry_handler/parked_nids {parked}");
        add(
            7,
            Certainty::Possibly,
            [&text, &proof, "cxidiag survey of the other nodes of the job", "a fault of this node"],
        );
    }
    all
}

/// Rows 14 to 16: resources that are used up, and messages that wait for software.
fn limit_findings(node: &NodeReading, nic: &NicState) -> Vec<HangFinding> {
    let device = &nic.device;
    let mut all = Vec::new();
    let mut add = |row, certainty, texts: [&str; 4]| all.push(finding(row, certainty, texts));
    if let Some(used) = nic.services.iter().find(|used| used.share() >= NEAR_LIMIT) {
        let text = format!(
            "the limit of {} of service {} is reached on {device}",
            used.resource, used.service
        );
        let proof = format!("{} of {} {} are in use", used.in_use, used.limit, used.resource);
        let next = "ask for more: srun --network=depth=N, or a service with higher limits";
        add(
            14,
            Certainty::Possibly,
            [&text, &proof, next, "that it is the cause if nothing asks for more"],
        );
    }
    if let Some(proof) = nic.growth(&["lpe_err_pt_disabled", "lpe_err_no_space"]) {
        let text = format!(
            "a receiver on {device} is in flow control: its lists or its event queue are full"
        );
        let next = "FI_CXI_RX_MATCH_MODE=hybrid, larger receive queues, receives posted earlier";
        let certainty = unless_moving(node, Certainty::Probably);
        add(15, certainty, [&text, &proof, next, "that flow control by itself is an error"]);
    }
    if let Some(proof) = nic.growth(&["lpe_net_match_request"]) {
        let text = format!("messages on {device} wait for ranks that match them in software");
        let next = "let the ranks call MPI more often, or use hardware matching";
        add(16, Certainty::Possibly, [&text, &proof, next, "a fault of the NIC"]);
    }
    all
}

/// Rows 21 to 24: data that waits or moves.
fn flow_findings(node: &NodeReading, nic: &NicState) -> Vec<HangFinding> {
    let device = &nic.device;
    let name = name_on_node(nic);
    let mut all = Vec::new();
    let mut add = |row, certainty, texts: [&str; 4]| all.push(finding(row, certainty, texts));
    let share = |share: Option<f64>, limit: f64| share.filter(|share| *share >= limit);
    if let Some(share) = share(nic.held_off_by_switch, HELD_OFF) {
        let text = format!("the switch holds off {device}");
        let proof = format!("{device} was paused for {:.0} % of the time", 100.0 * share);
        let next = "ask the fabric administrators about congestion and pause storms";
        add(
            21,
            unless_moving(node, Certainty::Probably),
            [&text, &proof, next, "a fault of this node"],
        );
    }
    if let Some(share) = share(nic.holds_off_switch, HOLDS_OFF) {
        let text =
            format!("{device} holds off the switch, because this node does not take its data");
        let proof = format!("{device} paused the switch for {:.0} % of the time", 100.0 * share);
        let next = format!("cxidiag why {name} with --peer");
        add(
            22,
            unless_moving(node, Certainty::Probably),
            [&text, &proof, &next, "a fault of the fabric"],
        );
    }
    let refusals = ["retry_handler/nack_no_target", "retry_handler/nack_resource_busy"];
    if let Some(proof) = nic.growth(&refusals) {
        let text = format!("tables of targets are full, and packets of {device} are repeated");
        let next = "let fewer ranks send to one rank at a time";
        add(23, Certainty::Possibly, [&text, &proof, next, "a deadlock: it may finish"]);
    }
    if nic.motion == Motion::Busy {
        let rate = |rate: Option<f64>| counted(rate.unwrap_or(0.0) as u64, "packet");
        let text = format!("{device} moves data: the job is slow, and not hung");
        let proof = format!("{} a second, of all processes on it", rate(nic.packets_per_s));
        let next = "cxidiag stat --top shows what its NICs do";
        add(24, Certainty::Moving, [&text, &proof, next, "a hang"]);
    }
    all
}

/// Rows 23, 25, 26 and 29: the NIC as a target.
fn target_findings(node: &NodeReading, nic: &NicState) -> Vec<HangFinding> {
    let device = &nic.device;
    let mut all = Vec::new();
    let mut add = |row, certainty, texts: [&str; 4]| all.push(finding(row, certainty, texts));
    if nic.in_use("spt") == 0 && (nic.is_stuck("trs") || nic.is_stuck("mst")) {
        let proof = format!("{device} trs {}, mst {}, spt 0", nic.in_use("trs"), nic.in_use("mst"));
        if node.ranks.is_empty() {
            let text =
                format!("entries of tables of {device} are left from processes that have ended");
            let next = "if no other job runs: the administrator drains the node and restarts it";
            let exclusion = "a leak, while any process uses this NIC";
            add(26, Certainty::Possibly, [&text, &proof, next, exclusion]);
        } else {
            let text = format!("{device} is the target of exchanges that do not end");
            let next = "cxidiag why --job on the other nodes: which one has entries of spt";
            let exclusion = "a leak, while the job runs";
            add(25, Certainty::Possibly, [&text, &proof, next, exclusion]);
        }
    }
    if let Some(proof) = nic.growth(&["pct_no_"]) {
        let text =
            format!("tables of {device} are full: it refuses packets, which their senders repeat");
        let next = "let fewer ranks send to the ranks of this node at a time";
        add(23, Certainty::Possibly, [&text, &proof, next, "a deadlock: it may finish"]);
    }
    if let Some(proof) = nic.growth(&["rmu_ptl_"]) {
        let text = format!("messages reach {device} for a process that has ended");
        let next = "which rank of this node has ended, and why: cxidiag explain LOG";
        add(29, Certainty::Possibly, [&text, &proof, next, "a wrong VNI of this job"]);
    }
    all
}

/// Row 28: lost events.
fn event_findings(nic: &NicState) -> Vec<HangFinding> {
    let device = &nic.device;
    let mut all = Vec::new();
    let mut add = |row, certainty, texts: [&str; 4]| all.push(finding(row, certainty, texts));
    if let Some(proof) = nic.growth(&["ee_events_dropped"]) {
        let text =
            format!("an event queue on {device} loses events: its process waits for them forever");
        let next = "larger completion queues (FI_CXI_DEFAULT_CQ_SIZE)";
        // The counter is of all processes on the NIC.
        add(28, Certainty::Probably, [&text, &proof, next, "a fault of the network"]);
    } else if nic.dropped_events > 0 {
        let text = format!("an event queue on {device} has lost events");
        let proof = format!("{} since the driver was loaded", counted(nic.dropped_events, "event"));
        let next = "look for 'CQ' and 'event queue' in the output of the job: cxidiag explain LOG";
        add(28, Certainty::Possibly, [&text, &proof, next, "that this job has lost them"]);
    }
    all
}

/// Row 9: ranks wait for one that waits for something else. A rank that runs is never named: it may
/// compute or poll. If the others run, they may compute, beside a rank that does the output.
fn outlier(node: &NodeReading) -> Option<HangFinding> {
    let groups = members(&node.ranks);
    let mut outliers = groups.iter().filter(|(is_outlier, _)| *is_outlier);
    let (Some((_, odd)), None) = (outliers.next(), outliers.next()) else { return None };
    let (_, others) = groups.iter().max_by_key(|(_, members)| members.len())?;
    let is_own = odd[0].call.as_ref().is_none_or(RankCall::is_own);
    let activity = others[0].activity;
    let is_call = others[0].call.as_ref().is_some_and(RankCall::is_blocked);
    if !ELSEWHERE.contains(&odd[0].activity)
        || !is_own
        || !(is_call || WAITING.contains(&activity))
        || others.len() < 2
    {
        return None;
    }
    let (count, odd_does) = (counted(others.len() as u64, "rank"), does(odd));
    let runs = matches!(activity, Activity::Runs | Activity::Changing);
    let may_compute = runs && !is_call;
    let name = names_of(odd);
    let text = if may_compute {
        format!(
            "{name} neither computes nor polls: it is {odd_does}; {count} wait for it, or compute"
        )
    } else {
        format!("{count} wait for {name}, which neither computes nor polls: it is {odd_does}")
    };
    let is_quiet = is_quiet(node);
    let quiet = if is_quiet { "; the NICs are silent, with nothing outstanding" } else { "" };
    let proof = format!("{}: {}{quiet}", names_of(others), does(others));
    let is_likely = is_quiet && !runs || stands_still(node);
    let certainty = if is_likely { Certainty::Probably } else { Certainty::Possibly };
    let next = format!(
        "look at what this rank waits for: eu-stack -p {0}, ls -l /proc/{0}/fd",
        odd[0].pid
    );
    let certainty = unless_moving(node, certainty);
    Some(finding(9, certainty, [&text, &proof, &next, "a fault of the network"]))
}

/// Rows 8 and 33 to 35: no cause is known.
fn open(node: &NodeReading) -> HangFinding {
    let groups = groups(&node.ranks);
    let counts = groups.iter().take(MOST_GROUPS);
    let counts: Vec<String> = counts
        .map(|group| format!("{} {}", counted(group.count.into(), "rank"), group.does))
        .collect();
    let counts = if counts.is_empty() { "no rank is readable".into() } else { counts.join("; ") };
    let motions = node.nics.iter().map(|nic| match nic.packets_per_s {
        Some(rate) if nic.motion == Motion::Trickle => {
            format!("{}: {} packets/s", nic.device, rate.ceil())
        }
        _ => format!("{}: {}", nic.device, nic.motion.name()),
    });
    let motions: Vec<String> = motions.collect();
    let proof =
        if motions.is_empty() { "no rank has a NIC open".into() } else { motions.join(", ") };
    let are_blocked =
        node.ranks.iter().all(|rank| rank.call.as_ref().is_some_and(RankCall::is_blocked));
    let is_one_group = groups.len() == 1 && (are_blocked || WAITING.contains(&groups[0].activity));
    let all_run = node.ranks.iter().all(|rank| rank.activity == Activity::Runs);
    let has_all = node.size.is_some_and(|size| node.ranks.len() as u64 >= u64::from(size));
    let compare = if !node.without_answer.is_empty() {
        "read the ranks of the nodes without answer, too"
    } else if has_all && node.ranks.iter().all(|rank| rank.call.is_some()) {
        "look in the program for what these ranks wait"
    } else if has_all {
        "look at the functions in which the ranks are"
    } else {
        "cxidiag why --job on the other nodes of the job, and why --merge"
    };
    if is_one_group && is_quiet(node) {
        let text = format!(
            "{counts}, and nothing is outstanding on the NICs: no packet is lost here, and {}{}",
            if has_all { "the ranks wait for each other" } else { "they wait for others" },
            if are_blocked { "" } else { ", or compute" }
        );
        let exclusion = "that this node is healthy, so the network is bad";
        return finding(8, Certainty::Open, [&text, &proof, compare, exclusion]);
    }
    let is_read = |rank: &RankState| rank.call.is_some();
    let has_library =
        |rank: &RankState| rank.call.as_ref().is_some_and(|call| call.library.is_some());
    let (row, exclusion) = match (node.ranks.is_empty(), all_run) {
        _ if node.ranks.iter().any(has_library) => {
            (34, "anything from a function name near the place in such a library")
        }
        (false, true) if !node.ranks.iter().any(is_read) => {
            (33, "that ranks that run compute: they may poll")
        }
        _ => (35, "any cause"),
    };
    finding(row, Certainty::Open, [&counts, &proof, compare, exclusion])
}

#[cfg(test)]
mod tests;
