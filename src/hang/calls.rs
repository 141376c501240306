//! What the stacks of a rank say (hangs.md 4.2 and 4.4): the call in which it waits. Innermost
//! functions of a rank that polls are random, so the outermost public function counts.

use serde::{Deserialize, Serialize};

use crate::process::LIBRARIES;
use crate::stacks::{Frame, ThreadStack};

/// Beginnings of the names of public functions. Behind `nccl` and `cxil_` there is more, so that
/// a function of the program is none.
const PUBLIC: [&str; 10] = [
    "MPI_",
    "nccl",
    "shmem_",
    "gasnet_",
    "gasneti_",
    "gasnetc_",
    "chpl_comm_",
    "fi_",
    "cxil_",
    "cxi_",
];

/// Public functions that wait for a GPU.
const GPU: [&str; 8] = [
    "cudaStreamSynchronize",
    "cuStreamSynchronize",
    "cudaEventSynchronize",
    "hipStreamSynchronize",
    "hipEventSynchronize",
    "hsa_signal_wait",
    "zeEventHostSynchronize",
    "zeCommandQueueSynchronize",
];

/// Calls of MPI in which all ranks of a communicator take part.
const COLLECTIVES: [&str; 13] = [
    "MPI_Allgather",
    "MPI_Allreduce",
    "MPI_Alltoall",
    "MPI_Barrier",
    "MPI_Bcast",
    "MPI_Comm_",
    "MPI_Exscan",
    "MPI_Gather",
    "MPI_Neighbor_",
    "MPI_Reduce",
    "MPI_Scan",
    "MPI_Scatter",
    "MPI_Win_fence",
];

/// Other calls of MPI that return only when something has happened.
const BLOCKING: [&str; 10] = [
    "MPI_Finalize",
    "MPI_Init",
    "MPI_Mprobe",
    "MPI_Mrecv",
    "MPI_Probe",
    "MPI_Recv",
    "MPI_Rsend",
    "MPI_S",
    "MPI_Wait",
    "MPI_Win_",
];

/// Calls that begin as those that block, and return at once.
const RETURNING: [&str; 10] = [
    "MPI_Comm_get",
    "MPI_Comm_rank",
    "MPI_Comm_set",
    "MPI_Comm_size",
    "MPI_Start",
    "MPI_Status",
    "MPI_Win_c",
    "MPI_Win_get",
    "MPI_Win_set",
    "MPI_Win_test",
];

/// Calls that start the communication of a job.
const START: [&str; 4] = ["MPI_Init", "ncclCommInit", "shmem_init", "PMIx_Fence"];

/// Functions of locks.
const LOCKS: [&str; 5] = [
    "pthread_mutex_lock",
    "lll_lock_wait",
    "lll_mutex_lock",
    "pthread_rwlock_wrlock",
    "pthread_spin_lock",
];

/// Beginnings of the names of functions of the provider, of MPI's loop around it, and of GPU
/// runtimes, each with what they do. The first that fits counts: all wait in the functions of the
/// last row.
const WAITS: [(Wait, &[&str]); 14] = [
    (
        Wait::FlowControl,
        &[
            "cxip_recv_reenable",
            "cxip_fc_",
            "cxip_post_ux_onload_fc",
            "cxip_ux_onload",
            "cxip_flush_appends",
        ],
    ),
    (Wait::RendezvousEnd, &["cxip_rdzv_done_notify"]),
    (Wait::Search, &["cxip_build_ux_entry_info", "cxip_unexp_start"]),
    (Wait::Cancel, &["cxip_evtq_req_cancel", "cxip_rxc_cancel", "cxip_recv_cancel", "fi_cancel"]),
    (
        Wait::NicAnswer,
        &["cxip_pte_set_state_wait", "cxip_rdzv_pte_wait_append", "cxip_mr_wait_append"],
    ),
    (Wait::RegionClose, &["cxip_mr_close", "cxip_mr_disable", "cxip_ctrl_mr_cache_flush"]),
    (
        Wait::Registration,
        &["cxip_map", "ofi_mr_cache_", "util_mr_", "ofi_monitor_", "ofi_memhooks_", "kdreg2_"],
    ),
    (
        Wait::Send,
        &[
            "MPIDI_OFI_retry_progress",
            "MTL_OFI_RETRY_UNTIL_DONE",
            "cxip_tsend",
            "cxip_send",
            "cxip_rma_common",
            "cxip_amo_common",
        ],
    ),
    (Wait::Receive, &["cxip_trecv", "cxip_recv"]),
    (Wait::CollectiveJoin, &["cxip_coll_progress_join"]),
    (Wait::Gpu, &GPU),
    (Wait::Counter, &["cxip_cntr_"]),
    (Wait::Sleep, &["cxip_cq_sreadfrom", "cxip_cq_trywait", "cxip_ep_trywait"]),
    (
        Wait::Poll,
        &[
            "cxip_evtq_progress",
            "cxip_cq_progress",
            "cxip_util_cq_progress",
            "ofi_cq_readfrom",
            "cxip_ep_",
        ],
    ),
];

facts::named_enum! {
    /// For what a call waits, as far as functions of libfabric's provider and of GPU runtimes show
    /// it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Wait {
        /// It polls for events.
        Poll = "polling for events",
        /// It sleeps until there is an event.
        Sleep = "sleeping until there is an event",
        /// It waits for a counter to reach a value.
        Counter = "waiting for a counter",
        /// It repeats a send that does not get into the queue.
        Send = "trying to send",
        /// It repeats a receive that does not get into the list.
        Receive = "trying to post a receive",
        /// It recovers from a full list or event queue of a receiver.
        FlowControl = "in flow control",
        /// It tells the other side of a rendezvous that it has ended.
        RendezvousEnd = "ending a rendezvous",
        /// It searches unexpected messages.
        Search = "searching unexpected messages",
        /// It cancels a receive.
        Cancel = "cancelling a receive",
        /// It waits for the NIC to execute a command, without a time limit.
        NicAnswer = "waiting for the NIC to execute a command",
        /// It closes a memory region.
        RegionClose = "closing a memory region",
        /// It registers memory.
        Registration = "registering memory",
        /// It joins a collective of the NIC.
        CollectiveJoin = "joining a collective of the NIC",
        /// It waits for a GPU.
        Gpu = "waiting for a GPU",
    }
    /// Its name in texts.
    pub fn name(self);
}

/// The functions in which a rank is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct RankCall {
    /// The outermost public function of its main thread: of MPI, NCCL, SHMEM, GASNet, Chapel, a GPU
    /// runtime, libfabric or libcxi. Null in functions of the program.
    pub entry: Option<String>,
    /// The function of the program that has called it; without a public function, the innermost
    /// function of the program.
    pub caller: Option<String>,
    /// The communication library in which it is, if no public function has a name.
    pub library: Option<String>,
    /// For what the call waits.
    pub wait: Option<Wait>,
    /// The innermost function of libfabric's provider, or of libcxi.
    pub provider: Option<String>,
    /// Whether a thread waits for a lock in a call of MPI while another one is in a call of MPI.
    pub has_lock: bool,
    /// The public function at the first reading, if the rank has left it.
    pub left: Option<String>,
    /// Whether it was in the same call at both readings; null if it was read once.
    pub stays: Option<bool>,
}

impl RankCall {
    /// Returns what the stacks of the threads of a process say. `program` is its executable file.
    pub fn new(pid: u32, stacks: &[ThreadStack], program: Option<&str>) -> Option<Self> {
        let main = &stacks.iter().find(|stack| stack.tid == pid)?.frames;
        let index = main.iter().rposition(|frame| public(frame).is_some());
        let name = |frame: &Frame| frame.function.as_deref().map(plain);
        let is_of_program =
            |frame: &Frame| frame.file.is_some() && frame.file.as_deref() == program;
        let entry = index.and_then(|index| public(&main[index]));
        let library = main.iter().filter_map(library).next_back();
        let caller = match index {
            Some(index) => main.get(index + 1).and_then(name),
            None => main.iter().find(|frame| is_of_program(frame)).and_then(name),
        };
        let provider = main.iter().filter_map(name).find(|name| {
            name.starts_with("cxip_") || name.starts_with("cxil_") || name.starts_with("cxi_")
        });
        let (mut locked, mut others) = (0, 0);
        for stack in stacks.iter().filter(|stack| is_in_mpi(&stack.frames)) {
            *(if is_lock(&stack.frames) { &mut locked } else { &mut others }) += 1;
        }
        Some(Self {
            library: library.filter(|_| entry.is_none()),
            entry,
            caller,
            wait: wait(main),
            provider,
            has_lock: locked > 0 && others > 0,
            left: None,
            stays: None,
        })
    }

    /// Returns it together with what the stacks said earlier.
    pub fn after(self, earlier: &Self) -> Self {
        let stays = self.key() == earlier.key();
        let left = earlier.entry.clone().filter(|_| !stays);
        Self {
            wait: self.wait.filter(|_| self.wait == earlier.wait),
            has_lock: self.has_lock && earlier.has_lock,
            provider: self.provider.filter(|_| stays),
            left,
            stays: Some(stays),
            ..self
        }
    }

    /// Returns what ranks that are in one call have in common. Functions of the program differ by
    /// the moment.
    pub fn key(&self) -> (Option<&str>, Option<&str>) {
        match &self.entry {
            Some(entry) => (Some(entry), self.caller.as_deref()),
            None => (self.library.as_deref(), None),
        }
    }

    /// Whether it is in functions of the program, and not in a call.
    pub fn is_own(&self) -> bool {
        self.entry.is_none() && self.library.is_none()
    }

    /// Whether it was in one call at both readings, which returns only when something has happened.
    pub fn is_blocked(&self) -> bool {
        self.stays == Some(true) && self.entry.as_deref().is_some_and(is_blocking)
    }

    /// Whether the rank has left a call that returns only when something has happened.
    pub fn has_moved(&self) -> bool {
        self.left.as_deref().is_some_and(is_blocking) && self.left != self.entry
    }

    /// Whether it is in a call in which all ranks of a communicator take part.
    pub fn is_collective(&self) -> bool {
        self.entry.as_deref().is_some_and(|entry| begins(entry, &COLLECTIVES))
    }

    /// Whether it starts the communication of the job.
    pub fn is_start(&self) -> bool {
        self.entry.as_deref().is_some_and(|entry| begins(entry, &START))
    }

    /// Whether it waits for a GPU.
    pub fn is_gpu(&self) -> bool {
        self.wait == Some(Wait::Gpu)
    }

    /// Whether it is in a call of MPI.
    pub fn is_mpi(&self) -> bool {
        self.entry.as_deref().is_some_and(|entry| entry.starts_with("MPI_"))
    }

    /// Returns where the rank is, for texts: `in MPI_Send, called by solve`.
    pub fn text(&self) -> Option<String> {
        let called = self.caller.as_ref().map(|caller| format!(", called by {caller}"));
        match (&self.entry, &self.library) {
            _ if self.has_moved() => Some("going from call to call".into()),
            _ if self.stays == Some(false) => {
                let call = self.entry.as_ref().or(self.left.as_ref());
                call.map(|call| format!("in and out of {call}"))
            }
            (Some(entry), _) => Some(format!("in {entry}{}", called.unwrap_or_default())),
            (None, Some(library)) => Some(format!("inside {library}")),
            (None, None) => None,
        }
    }
}

fn begins(name: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|start| name.starts_with(start))
}

fn is_blocking(entry: &str) -> bool {
    (begins(entry, &COLLECTIVES) || begins(entry, &BLOCKING) || begins(entry, &GPU))
        && !begins(entry, &RETURNING)
}

/// The name of a function without what compilers and linkers have added.
fn plain(name: &str) -> String {
    let name = name.split(['(', '<']).next().filter(|name| !name.is_empty()).unwrap_or(name);
    let end = [".isra.", ".constprop.", ".part.", ".cold", "@"]
        .iter()
        .filter_map(|mark| name.find(mark))
        .min();
    let name = &name[..end.unwrap_or(name.len())];
    // Rust adds a hash.
    let path = name.rsplit_once("::h").filter(|(_, hash)| hash.len() == 16);
    path.map_or(name, |(path, _)| path).to_owned()
}

/// The name of a public function, as its documentation writes it: of `PMPI_Send` and of Fortran's
/// `mpi_send_`, too.
fn public(frame: &Frame) -> Option<String> {
    let name = plain(frame.function.as_deref()?);
    let fortran = ["mpi_", "pmpi_"].iter().find_map(|start| name.strip_prefix(start));
    if let Some(rest) = fortran.and_then(|rest| rest.strip_suffix('_')) {
        let rest = rest.trim_end_matches("_f08").trim_end_matches("_f08ts");
        let first = rest.chars().next()?.to_uppercase();
        return Some(format!("MPI_{first}{}", rest.get(1..)?));
    }
    let name = name.strip_prefix('P').filter(|rest| rest.starts_with("MPI_")).unwrap_or(&name);
    let is_nccl = |name: &str| {
        name.strip_prefix("nccl").is_none_or(|rest| rest.starts_with(char::is_uppercase))
    };
    let is_public = begins(name, &PUBLIC) && is_nccl(name) || begins(name, &GPU);
    is_public.then(|| name.trim_end_matches("_impl").to_owned())
}

/// The communication library of a frame.
fn library(frame: &Frame) -> Option<String> {
    let name = frame.file.as_deref()?.rsplit('/').next()?;
    begins(name, &LIBRARIES).then(|| name.to_owned())
}

fn is_in_mpi(frames: &[Frame]) -> bool {
    frames.iter().filter_map(public).any(|name| name.starts_with("MPI_"))
}

/// Whether a thread waits for a lock: of its innermost functions, one is of a lock.
fn is_lock(frames: &[Frame]) -> bool {
    let inner = frames.iter().take(3).filter_map(|frame| frame.function.as_deref());
    inner
        .map(|name| name.trim_start_matches("__GI_").trim_start_matches('_'))
        .any(|name| begins(name, &LOCKS))
}

fn wait(frames: &[Frame]) -> Option<Wait> {
    let names: Vec<String> =
        frames.iter().filter_map(|frame| frame.function.as_deref().map(plain)).collect();
    let is_there = |starts: &[&str]| names.iter().any(|name| begins(name, starts));
    WAITS.iter().find(|(_, starts)| is_there(starts)).map(|(wait, _)| *wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stack of a thread from the names of its functions, innermost first. `lib:` in front
    /// stands for libfabric, and `?` for a function without a name.
    fn stack(tid: u32, names: &str) -> ThreadStack {
        let frame = |word: &str| {
            let (file, name) = match word.strip_prefix("lib:") {
                Some(name) => ("/opt/libfabric.so.1", name),
                None => ("/home/u/app", word),
            };
            Frame { function: (name != "?").then(|| name.to_owned()), file: Some(file.to_owned()) }
        };
        ThreadStack { tid, frames: names.split(' ').map(frame).collect() }
    }

    fn call(names: &str) -> RankCall {
        RankCall::new(5, &[stack(5, names)], Some("/home/u/app")).unwrap()
    }

    #[test]
    fn outermost_public_function_counts() {
        for (names, entry, caller) in [
            ("poll MPIR_Barrier PMPI_Barrier MPI_File_close solve main", "MPI_File_close", "solve"),
            ("x PMPI_Recv ompi_recv_f pmpi_recv_ step_ MAIN__", "MPI_Recv", "step_"),
            ("x mpi_allreduce_f08_ work", "MPI_Allreduce", "work"),
            ("x PMPI_Win_fence.constprop.0 a.isra.3", "MPI_Win_fence", "a"),
            (
                "x cudaStreamSynchronize_impl torch::wait(int)",
                "cudaStreamSynchronize",
                "torch::wait",
            ),
            ("x lib:cxip_cq_read fi_cq_sread poller", "fi_cq_sread", "poller"),
            ("x ncclCommInitRank app::init::h0123456789abcdef", "ncclCommInitRank", "app::init"),
        ] {
            let call = call(names);
            assert_eq!(
                (call.entry.as_deref(), call.caller.as_deref()),
                (Some(entry), Some(caller))
            );
        }
        for (names, caller) in [("lib:poll solve main", "solve"), ("ncclx MPIR_x main", "ncclx")] {
            let call = call(names);
            assert_eq!((call.entry.as_deref(), call.caller.as_deref()), (None, Some(caller)));
        }
        assert!(RankCall::new(6, &[stack(5, "main")], None).is_none());
    }

    #[test]
    fn libraries_without_names_are_named() {
        let found = call("lib:? lib:? main");
        assert_eq!((found.library.as_deref(), found.entry.clone()), (Some("libfabric.so.1"), None));
        assert!(!found.is_own());
        assert_eq!(found.text().as_deref(), Some("inside libfabric.so.1"));
        assert_eq!(call("lib:? MPI_Send main").library, None);
        assert!(call("solve main").is_own() && call("solve main").text().is_none());
    }

    #[test]
    fn functions_of_the_provider_have_classes() {
        for (names, wait, provider) in [
            ("cxip_evtq_progress ofi_cq_readfrom MPI_Recv", Wait::Poll, "cxip_evtq_progress"),
            ("epoll_wait cxip_cq_sreadfrom MPI_Recv", Wait::Sleep, "cxip_cq_sreadfrom"),
            (
                "sched_yield cxip_evtq_progress cxip_cntr_wait x",
                Wait::Counter,
                "cxip_evtq_progress",
            ),
            ("cxip_tsend_common MPI_Send", Wait::Send, "cxip_tsend_common"),
            (
                "cxip_evtq_progress MPIDI_OFI_retry_progress MPI_Send",
                Wait::Send,
                "cxip_evtq_progress",
            ),
            ("cxip_recv_common MPI_Irecv", Wait::Receive, "cxip_recv_common"),
            ("cxip_recv_reenable x", Wait::FlowControl, "cxip_recv_reenable"),
            ("usleep cxip_fc_notify_cb", Wait::FlowControl, "cxip_fc_notify_cb"),
            ("usleep cxip_rdzv_done_notify", Wait::RendezvousEnd, "cxip_rdzv_done_notify"),
            ("cxip_build_ux_entry_info", Wait::Search, "cxip_build_ux_entry_info"),
            ("cxip_evtq_req_cancel cxip_rxc_cancel", Wait::Cancel, "cxip_evtq_req_cancel"),
            ("cxil_x cxip_pte_set_state_wait", Wait::NicAnswer, "cxil_x"),
            ("cxip_mr_close", Wait::RegionClose, "cxip_mr_close"),
            ("ofi_mr_cache_search cxip_map_cache", Wait::Registration, "cxip_map_cache"),
            ("cxip_coll_progress_join", Wait::CollectiveJoin, "cxip_coll_progress_join"),
        ] {
            let call = call(names);
            assert_eq!(
                (call.wait, call.provider.as_deref()),
                (Some(wait), Some(provider)),
                "{names}"
            );
        }
        assert_eq!(call("ioctl cudaStreamSynchronize main").wait, Some(Wait::Gpu));
        assert_eq!(call("solve main").wait, None);
    }

    #[test]
    fn locks_count_beside_a_thread_in_mpi() {
        let found = |others: &[&str]| {
            let mut stacks = vec![stack(5, "cxip_evtq_progress PMPI_Recv main")];
            stacks.extend(others.iter().map(|names| stack(6, names)));
            RankCall::new(5, &stacks, None).unwrap().has_lock
        };
        assert!(found(&["__lll_lock_wait ___pthread_mutex_lock PMPI_Isend work"]));
        assert!(!found(&["__lll_lock_wait work"]));
        assert!(!found(&["a b c d __lll_lock_wait MPI_Isend"]));
        assert!(!found(&["cxip_evtq_progress MPI_Isend"]));
        let alone = stack(5, "__lll_lock_wait MPI_Isend");
        assert!(!RankCall::new(5, &[alone], None).unwrap().has_lock);
    }

    #[test]
    fn second_reading_says_whether_a_rank_moves() {
        let both = |first: &str, second: &str| call(second).after(&call(first));
        let same = both("cxip_tsend MPI_Send solve", "cxip_evtq_progress MPI_Send solve");
        assert!(same.is_blocked() && !same.has_moved());
        assert_eq!(
            (same.wait, same.text().as_deref()),
            (None, Some("in MPI_Send, called by solve"))
        );
        for (first, second, has_moved, text) in [
            ("MPI_Recv solve", "MPI_Send solve", true, Some("going from call to call")),
            ("MPI_Recv solve", "solve main", true, Some("going from call to call")),
            // A loop that looks for messages.
            ("MPI_Iprobe solve", "solve main", false, Some("in and out of MPI_Iprobe")),
            ("solve main", "MPI_Test solve", false, Some("in and out of MPI_Test")),
            ("MPI_Comm_rank a", "MPI_Recv a", false, Some("in and out of MPI_Recv")),
            // Another place, the same call: the caller may not be known at each reading.
            ("MPI_Recv a", "MPI_Recv b", false, Some("in and out of MPI_Recv")),
            ("solve main", "other main", false, None),
        ] {
            let call = both(first, second);
            assert_eq!((call.has_moved(), call.text().as_deref()), (has_moved, text), "{first}");
            assert!(!call.is_blocked());
        }
        assert!(!call("MPI_Recv solve").is_blocked(), "read once");
        assert!(!both("MPI_Test a", "MPI_Test a").is_blocked());
    }
}
