//! The rows of the decision table that need the functions of ranks (hangs.md 7). Pure functions.

use crate::calls::{RankCall, Wait};
use crate::finding::{
    Certainty, HangFinding, Members, does, finding, has_further_nodes, is_quiet, members, moved,
    names_of, stands_still, unless_moving,
};
use crate::nics::ServiceUse;
use crate::reading::{NodeReading, RankState};
use facts::number::counted;

/// Groups of ranks that a text names.
const MOST_GROUPS: usize = 3;

/// Returns what the functions of the ranks say.
pub fn call_findings(node: &NodeReading) -> Vec<HangFinding> {
    let rows = [
        own_code,
        mismatch,
        sends,
        gpus,
        start,
        end,
        locks,
        nic_answers,
        flow_control,
        registration,
        motion,
    ];
    rows.iter().filter_map(|row| row(node)).collect()
}

/// The ranks whose functions are known, with them.
fn known(node: &NodeReading) -> impl Iterator<Item = (&RankState, &RankCall)> {
    node.ranks.iter().filter_map(|rank| Some((rank, rank.call.as_ref()?)))
}

/// The ranks to whose functions this applies.
fn those(node: &NodeReading, applies: impl Fn(&RankCall) -> bool) -> Members<'_> {
    known(node).filter(|(_, call)| applies(call)).map(|(rank, _)| rank).collect()
}

/// The ranks whose functions were read twice. The time may not be enough for all.
fn read_twice(node: &NodeReading) -> Members<'_> {
    those(node, |call| call.stays.is_some())
}

/// Returns how many ranks were not read twice, for a proof.
fn unread_text(node: &NodeReading) -> String {
    match node.ranks.len() - read_twice(node).len() {
        0 => String::new(),
        1 => "; 1 rank was not read twice".into(),
        count => format!("; {count} ranks were not read twice"),
    }
}

/// Returns `rank 3 (pid 812) is`, or `ranks 0-3 are`.
fn are(ranks: &[&RankState]) -> String {
    format!("{} {}", names_of(ranks), if ranks.len() == 1 { "is" } else { "are" })
}

fn counted_ranks(ranks: &[&RankState]) -> String {
    counted(ranks.len() as u64, "rank")
}

fn quiet_text(node: &NodeReading) -> &'static str {
    if is_quiet(node) { "; the NICs are silent, with nothing outstanding" } else { "" }
}

/// Row 9: ranks wait in a call, and one is in functions of the program.
fn own_code(node: &NodeReading) -> Option<HangFinding> {
    let groups = members(read_twice(node));
    let (true, odd) = groups.first()? else { return None };
    let (_, others) = groups.get(1)?;
    let own = odd.iter().all(|rank| {
        rank.call.as_ref().is_some_and(|call| call.is_own() && call.stays == Some(true))
    });
    let is_blocked = |rank: &&RankState| {
        rank.call.as_ref().is_some_and(|call| call.is_blocked() && !call.is_gpu())
    };
    // What it waits for there has its own rows.
    if !own || groups.len() > 2 || !others.iter().all(is_blocked) || !odd[0].activity.is_running() {
        return None;
    }
    let caller = odd[0].call.as_ref().and_then(|call| call.caller.clone());
    let function = caller.map_or(String::new(), |caller| format!(" ({caller})"));
    let text = format!(
        "{} wait for {}, which {} in functions of the program{function}, and not in a call",
        counted_ranks(others),
        names_of(odd),
        if odd.len() == 1 { "is" } else { "are" }
    );
    let unread = unread_text(node);
    let proof = format!("at both readings: {} {}{unread}", names_of(others), does(others));
    let next =
        format!("read its functions again, to see whether it gets on: eu-stack -p {}", odd[0].pid);
    let exclusion = "a hang: this rank may have more work than the others";
    Some(finding(9, Certainty::Possibly, [&text, &proof, &next, exclusion]))
}

/// Row 11.
fn mismatch(node: &NodeReading) -> Option<HangFinding> {
    let ranks = read_twice(node);
    let groups = members(ranks.iter().copied());
    let calls: Vec<&RankCall> =
        groups.iter().filter_map(|(_, members)| members[0].call.as_ref()).collect();
    let is_blocked = |rank: &&RankState| rank.call.as_ref().is_some_and(RankCall::is_blocked);
    let has_begun =
        |call: &&RankCall| !call.is_start() && call.entry.as_deref() != Some("MPI_Finalize");
    if groups.len() < 2
        || !ranks.iter().all(is_blocked)
        || !calls.iter().all(|call| call.is_mpi() && has_begun(call))
        || !calls.iter().any(|call| call.is_collective())
    {
        return None;
    }
    let parts: Vec<String> = groups
        .iter()
        .take(MOST_GROUPS)
        .map(|(_, members)| {
            let count = counted_ranks(members);
            let name = if members.len() == 1 { names_of(members) } else { count };
            format!("{name} {}", does(members))
        })
        .collect();
    let text = format!("ranks are in different calls: {}", parts.join("; "));
    let memory = if has_further_nodes(node) {
        ""
    } else {
        "; all ranks are on this node, and no counter shows messages through its memory"
    };
    let unread = unread_text(node);
    let proof = format!("at both readings{unread}{}{memory}", quiet_text(node));
    let next = "compare the places in the program: a branch by rank, a collective of other ranks";
    let certainty = if stands_still(node) { Certainty::Probably } else { Certainty::Possibly };
    Some(finding(11, certainty, [&text, &proof, next, "a fault of the network"]))
}

/// Rows 12 and 13.
fn sends(node: &NodeReading) -> Option<HangFinding> {
    let is_send = |call: &RankCall| call.wait == Some(Wait::Send) && call.stays == Some(true);
    let stuck = those(node, is_send);
    if stuck.is_empty() {
        return None;
    }
    let services = node.nics.iter().flat_map(|nic| &nic.services);
    let nearest = services.max_by(|one, other| one.share().total_cmp(&other.share()));
    let used = |used: &ServiceUse| {
        format!(
            "; service {} uses {} of {} {}",
            used.service, used.in_use, used.limit, used.resource
        )
    };
    let proof = format!(
        "{} in the loop that repeats a send, at both readings{}{}",
        are(&stuck),
        nearest.map_or(String::new(), used),
        quiet_text(node)
    );
    if stuck.len() == node.ranks.len() && stuck.len() > 1 {
        let text = format!("none of {} can send: resources are used up", counted_ranks(&stuck));
        let next = "larger completion queues (FI_CXI_DEFAULT_CQ_SIZE), receives posted earlier";
        // These are packets of the NIC.
        let certainty = if is_quiet(node) { Certainty::Probably } else { Certainty::Possibly };
        return Some(finding(12, certainty, [&text, &proof, next, "a fault of the link"]));
    }
    let text = format!("{} not able to send, and other ranks are elsewhere", are(&stuck));
    let next = "see whether its peers receive, and raise the limit that is nearest";
    Some(finding(13, Certainty::Possibly, [&text, &proof, next, "a fault of the link"]))
}

/// Rows 18 to 20.
fn gpus(node: &NodeReading) -> Option<HangFinding> {
    let waiting = those(node, |call| call.is_gpu() && call.stays == Some(true));
    let others: Members = node
        .ranks
        .iter()
        .filter(|rank| waiting.iter().all(|gpu| gpu.pid != rank.pid || gpu.host != rank.host))
        .collect();
    let in_mpi = those(node, |call| call.is_mpi() && call.is_blocked() && !call.is_gpu());
    let has_nccl = |rank: &&RankState| {
        let mut libraries = rank.holdings.libraries.iter();
        libraries.any(|library| library.contains("/libnccl") || library.contains("/librccl"))
    };
    let proof = format!(
        "at both readings, {} in {}",
        are(&waiting),
        waiting.first()?.call.as_ref()?.entry.as_deref().unwrap_or("a function of a GPU runtime")
    );
    let add = |row, texts: [&str; 4]| Some(finding(row, Certainty::Possibly, texts));
    match others.as_slice() {
        [] if is_quiet(node) => {
            let next = "tools of the GPU (nvidia-smi, rocm-smi), and NCCL RAS";
            let text = format!("{} wait for their GPUs", counted_ranks(&waiting));
            add(18, [&text, &proof, next, "that a silent NIC has a fault"])
        }
        [] => None,
        _ if in_mpi.len() == others.len() && node.ranks.iter().all(|rank| has_nccl(&rank)) => {
            let text = format!(
                "{} in MPI and {} wait for GPUs: GPU-aware MPI and NCCL may block each other",
                are(&in_mpi),
                counted_ranks(&waiting)
            );
            let next = "compare the order of MPI and NCCL calls on the ranks, and their streams";
            add(20, [&text, &proof, next, "a fault of the network"])
        }
        [odd] if waiting.len() > 1 => {
            let text = format!(
                "{} wait for their GPUs, and {} does not: it may not have launched the collective",
                counted_ranks(&waiting),
                odd.label()
            );
            let next = format!("its Python functions: py-spy dump --pid {}", odd.pid);
            add(19, [&text, &proof, &next, "a fault of the network"])
        }
        _ => None,
    }
}

/// Row 31.
fn start(node: &NodeReading) -> Option<HangFinding> {
    let starting = those(node, |call| call.is_start() && call.stays == Some(true));
    let entry = starting.first()?.call.as_ref()?.entry.clone()?;
    let text = format!("{} still in {entry}: the job has not started", are(&starting));
    let proof = "at both readings";
    let next = "look for ranks that are missing on other nodes, and at the log of the launcher";
    let exclusion = "a fault of the network, before addresses are exchanged";
    Some(finding(31, unless_moving(node, Certainty::Possibly), [&text, proof, next, exclusion]))
}

/// Row 32.
fn end(node: &NodeReading) -> Option<HangFinding> {
    let is_end = |call: &RankCall| call.entry.as_deref() == Some("MPI_Finalize");
    let ending = those(node, |call| is_end(call) && call.stays == Some(true));
    let others = those(node, |call| !is_end(call));
    if ending.is_empty() || others.is_empty() {
        return None;
    }
    let others_do = if others.len() == 1 {
        format!("{} is {}", names_of(&others), does(&others))
    } else {
        format!("{} are not", names_of(&others))
    };
    let text = format!("{} in MPI_Finalize, and {others_do}", are(&ending));
    let next = "look at the ranks that are not: do they still work, or wait for a message";
    let exclusion = "a hang: some ranks may be done earlier";
    Some(finding(32, Certainty::Possibly, [&text, "at both readings", next, exclusion]))
}

/// Row 30.
fn locks(node: &NodeReading) -> Option<HangFinding> {
    let locked = those(node, |call| call.has_lock && call.stays.is_some());
    if locked.is_empty() {
        return None;
    }
    let text = format!(
        "threads of {} block each other: one waits in MPI, and others for its lock",
        names_of(&locked)
    );
    let proof = "at both readings, a thread waits for a lock in a call of MPI";
    let next = "one thread that calls MPI, or another version (MPI_THREAD_MULTIPLE)";
    Some(finding(30, Certainty::Possibly, [&text, proof, next, "a fault of the network"]))
}

/// Returns ranks with this kind of wait at both readings, and the proof.
fn with_wait(node: &NodeReading, wait: Wait) -> Option<(Members<'_>, String)> {
    let ranks = those(node, |call| call.wait == Some(wait) && call.stays == Some(true));
    let provider = ranks.first()?.call.as_ref()?.provider.clone();
    let function = provider.map_or(String::new(), |provider| format!(" ({provider})"));
    let proof = format!("{} {} at both readings{function}", are(&ranks), wait.name());
    Some((ranks, proof))
}

/// Row 27.
fn nic_answers(node: &NodeReading) -> Option<HangFinding> {
    let (ranks, proof) = with_wait(node, Wait::NicAnswer)?;
    let text = format!("the NIC does not execute a command of {}", names_of(&ranks));
    let next = "dmesg, and cxidiag check --all: memory errors of the NIC";
    let certainty = if is_quiet(node) { Certainty::Probably } else { Certainty::Possibly };
    Some(finding(27, certainty, [&text, &proof, next, "a fault of a peer"]))
}

/// Row 15.
fn flow_control(node: &NodeReading) -> Option<HangFinding> {
    let (ranks, proof) = with_wait(node, Wait::FlowControl)?;
    let text = format!("{} in flow control: a list or an event queue is full", are(&ranks));
    let next = "FI_CXI_RX_MATCH_MODE=hybrid, larger receive queues, receives posted earlier";
    let exclusion = "that flow control by itself is an error";
    Some(finding(15, Certainty::Possibly, [&text, &proof, next, exclusion]))
}

/// Row 17.
fn registration(node: &NodeReading) -> Option<HangFinding> {
    let (ranks, proof) = with_wait(node, Wait::Registration)?;
    let has_lock = |rank: &&&RankState| rank.has_thread(crate::process::Activity::Lock);
    let locked: Members = ranks.iter().filter(has_lock).copied().collect();
    if locked.is_empty() {
        return None;
    }
    let text = format!("the registration of memory does not end in {}", names_of(&locked));
    let proof = format!("{proof}, and a thread waits for a lock");
    let next = "run the job with another FI_MR_CACHE_MONITOR";
    Some(finding(17, Certainty::Possibly, [&text, &proof, next, "that the GPU hangs"]))
}

/// Row 24, of ranks: they move.
fn motion(node: &NodeReading) -> Option<HangFinding> {
    let ranks = moved(node);
    let left = ranks.first()?.call.as_ref()?.left.as_deref().unwrap_or_default();
    let go = if ranks.len() == 1 { "goes" } else { "go" };
    let text = format!("{} {go} from call to call: the job moves there", names_of(&ranks));
    let proof = format!("{} has left {left} between the readings", names_of(&ranks[..1]));
    let next = "run the command again; ranks that wait for these come later";
    Some(finding(24, Certainty::Moving, [&text, &proof, next, "a hang"]))
}
