//! Planted hangs in tables: what hangs, and what is said of it.

use super::*;

/// A job that is planted, with its verdict: exit status, beginning of the first line, and words of
/// the text.
struct Planted {
    ranks: &'static str,
    verdict: (i32, &'static str, &'static [&'static str]),
    faults: &'static str,
    services: Option<&'static str>,
    needs_stacks: bool,
    /// Whether the ranks check their NIC afterwards.
    can_go_on: bool,
}

impl Planted {
    /// Plants the job, and asserts what is said of it and that its ranks are unharmed.
    fn check(&self) {
        if self.needs_stacks && !*HAS_STACKS {
            return;
        }
        let fabric = Fabric::new();
        if let Some(services) = self.services {
            fabric.write_services(0x12, services);
        }
        let job = Job::start_on(fabric, self.ranks.split(' ').count(), self.ranks, self.faults);
        let options = if self.needs_stacks { STACKS } else { NO_STACKS };
        job.assert_verdict(options, self.verdict);
        if self.can_go_on {
            job.assert_unharmed();
        }
    }
}

/// Checks planted jobs, several at a time.
fn check_all(planted: &[Planted]) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(planted) = planted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    planted.check();
                }
            });
        }
    });
}

const fn planted(
    ranks: &'static str,
    status: i32,
    first: &'static str,
    words: &'static [&'static str],
) -> Planted {
    let verdict = (status, first, words);
    Planted { ranks, verdict, faults: "", services: None, needs_stacks: false, can_go_on: true }
}

/// With these functions of ranks, which a stack tool reads.
const fn called(
    ranks: &'static str,
    status: i32,
    first: &'static str,
    words: &'static [&'static str],
) -> Planted {
    Planted { needs_stacks: true, ..planted(ranks, status, first, words) }
}

/// Two transmit queues and two target queues, of which each rank has one.
const TWO_QUEUES: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 1 \
                          2047 0 2 0 512 0 2047 0 2047 0 100 40 512 512 1022 0 0 0 1 1 0\n";

/// Four event queues, of which each rank has two.
const FOUR_EVENT_QUEUES: &str = "cxidiag services 3: 1\n1 1 0 0 0 0 0 0 1 2 1 10 0 0 0 0 0 0 0 0 1 \
                                 2047 0 512 0 512 0 4 0 2047 0 100 40 512 512 1022 0 0 0 1 1 0\n";

const QUIET: &str = "soft0 silent, nothing outstanding";

#[test]
fn names_the_rank_that_waits_for_something_else() {
    const FIRST: &str = "hung: probably 3 ranks wait for rank 42 (pid PID2), which neither computes \
                         nor polls: it is ";
    const OTHERS: &str = "3 ranks          : ranks 40-41,43: sleeping until a descriptor is ready";
    check_all(&[
        planted(
            "wait wait pause wait",
            3,
            FIRST,
            &["1 rank           : rank 42 (pid PID2): waiting for a signal", OTHERS, QUIET],
        ),
        planted("wait wait pipe wait", 3, FIRST, &["PID2): waiting for a pipe", OTHERS]),
        planted("wait wait sleep wait", 3, FIRST, &["PID2): sleeping for a time", OTHERS]),
        planted("wait wait socket wait", 3, FIRST, &["PID2): waiting for a socket", OTHERS]),
        planted("wait wait child wait", 3, FIRST, &["PID2): waiting for a child process", OTHERS]),
        planted("wait wait file-lock wait", 3, FIRST, &["waiting for the lock of a file", OTHERS]),
        called(
            "PMPI_Recv/wait PMPI_Recv/wait solve/pause",
            3,
            "hung: probably 2 ranks wait for rank 42 (pid PID2), which neither",
            &["it is waiting for a signal, in its function hang", "in MPI_Recv, called by main"],
        ),
        called(
            "MPI_Barrier/yield MPI_Barrier/yield solve/pause",
            3,
            "hung: probably 2 ranks wait for rank 42 (pid PID2), which neither",
            &[
                "ranks 40-41: in MPI_Barrier, called by main",
                "do not conclude  : a fault of the network",
            ],
        ),
    ]);
}

#[test]
fn names_no_rank_without_a_proof() {
    const OTHERS: &str = "cxidiag why --job on the other nodes";
    check_all(&[
        planted(
            "wait wait wait",
            4,
            "undecided: 3 ranks sleeping until",
            &["no packet is lost here", OTHERS],
        ),
        planted(
            "sleep sleep sleep",
            4,
            "undecided: 3 ranks sleeping for",
            &["3 of 128 ranks", OTHERS],
        ),
        planted("pipe pipe", 4, "undecided: 2 ranks waiting for a pipe", &[QUIET]),
        planted("socket socket", 4, "undecided: 2 ranks waiting for a socket", &[QUIET]),
        // A rank that runs may wait or compute.
        planted("wait yield wait", 4, "undecided: 1 rank ", &["rank 41 (pid PID1): "]),
        planted("counter wait", 4, "undecided: 1 rank ", &[QUIET]),
        planted("receive wait", 4, "undecided: 1 rank ", &[QUIET]),
        planted("unposted wait", 4, "undecided: ", &["soft0 few packets"]),
        planted("slow wait", 4, "undecided: ", &["soft0 few packets"]),
        called(
            "wait kernel wait",
            4,
            "undecided: possibly rank 41 (pid PID1) does not come back from the kernel\n",
            &["(a thread is in the kernel); the administrator can: cat /proc/PID1/task/*/stack"],
        ),
        called(
            "MPI_Allreduce/wait MPI_Allreduce/yield",
            4,
            "undecided: 2 ranks in MPI_Allreduce, called by main, and nothing is outstanding",
            &["they wait for others", "that this node is healthy, so the network is bad"],
        ),
        called(
            "MPI_Barrier/wait MPI_Barrier/wait solve/yield",
            4,
            "undecided: possibly 2 ranks wait for rank 42 (pid PID2), which is in functions of the program",
            &["a hang: this rank may have more work"],
        ),
        called(
            "MPI_Init/wait MPI_Init/wait",
            4,
            "undecided: possibly ranks 40-41 are still in MPI_Init",
            &["ranks that are missing"],
        ),
        called(
            "MPI_Finalize/wait MPI_Finalize/wait PMPI_Recv/wait",
            4,
            "undecided: possibly ranks 40-41 are in MPI_Finalize, and rank 42 (pid PID2) is in MPI_Recv",
            &["some ranks may be done earlier"],
        ),
    ]);
}

#[test]
fn names_ranks_in_different_calls() {
    const FIRST: &str = "hung: probably ranks are in different calls: rank 42 (pid PID2) in ";
    const OTHERS: &str = "2 ranks          : ranks 40-41: in MPI_Allreduce, called by main";
    check_all(&[
        called(
            "MPI_Allreduce/wait MPI_Allreduce/cxip_evtq_progress/yield MPI_Send/wait",
            3,
            FIRST,
            &["PID2): in MPI_Send, called by main (stands out)", OTHERS],
        ),
        called(
            "MPI_Allreduce/wait MPI_Allreduce/wait MPI_Barrier/wait",
            3,
            FIRST,
            &["PID2) in MPI_Barrier, called by main; 2 ranks in MPI_Allreduce", QUIET],
        ),
        // The memory of the node may have their messages.
        called(
            "MPI_Barrier/wait PMPI_Recv/wait",
            4,
            "undecided: possibly ranks are in different calls: ",
            &["rank 41 (pid PID1) in MPI_Recv"],
        ),
    ]);
}

#[test]
fn names_what_calls_wait_for() {
    check_all(&[
        called(
            "MPI_Send/cxip_tsend/yield MPI_Send/MPIDI_OFI_retry_progress/cxip_evtq_progress/wait",
            3,
            "hung: probably none of 2 ranks can send",
            &["in the loop that repeats a send, at both readings"],
        ),
        called(
            "PMPI_Recv/cxip_evtq_progress/wait MPI_Send/cxip_tsend/wait",
            4,
            "undecided: possibly rank 41 (pid PID1) is not able to send",
            &["service 1 uses 2 of 512"],
        ),
        called(
            "cudaStreamSynchronize/wait cudaStreamSynchronize/wait solve/wait",
            4,
            "undecided: possibly 2 ranks wait for their GPUs, and rank 42 (pid PID2) does not",
            &["py-spy dump --pid PID2"],
        ),
        called(
            "cudaStreamSynchronize/yield cudaStreamSynchronize/wait",
            4,
            "undecided: possibly 2 ranks wait for their GPUs\n",
            &["that a silent NIC has a fault"],
        ),
        called(
            "cxip_mr_wait_append/yield wait",
            3,
            "hung: probably the NIC does not execute a command of rank 40 (pid PID0)\n",
            &["(cxip_mr_wait_append)"],
        ),
        called(
            "PMPI_Recv/cxip_recv_reenable/wait wait",
            4,
            "undecided: possibly rank 40 (pid PID0) is in flow control",
            &["that flow control by itself is an error"],
        ),
        called(
            "locked PMPI_Recv/wait",
            4,
            "undecided: possibly threads of rank 40 (pid PID0) block each other",
            &["a thread waits for a lock in a call of MPI"],
        ),
    ]);
}

#[test]
fn names_what_nics_show() {
    let lossy = |faults, job| Planted { faults, ..job };
    let broken = |faults, job| Planted { faults, can_go_on: false, ..job };
    let limited = |services, job| Planted { services: Some(services), ..job };
    check_all(&[
        broken(
            "down=1ms",
            planted(
                "wait wait",
                3,
                "hung: because soft0 has no link\n",
                &["next             : cxidiag link -d soft0"],
            ),
        ),
        broken(
            "loss=1",
            planted(
                "nobody wait",
                3,
                "hung: probably packets of soft0 get no answer",
                &["retry_handler/spt_timeouts +"],
            ),
        ),
        // A link that loses packets, all of which get through.
        lossy(
            "loss=0.2",
            planted(
                "slow wait",
                4,
                "undecided: possibly packets of soft0 get no answer",
                &["a deadlock of the program"],
            ),
        ),
        lossy(
            "retry-handler=off",
            planted(
                "wait wait",
                4,
                "undecided: possibly soft0 has no retry handler, but nothing is outstanding now\n",
                &["that this explains the hang"],
            ),
        ),
        planted(
            "nobody wait",
            4,
            "undecided: possibly messages reach soft0 for a process that has ended\n",
            &["soft0 rmu_ptl_no_ptlte_cntr +", "soft0 few packets"],
        ),
        planted(
            "events wait",
            3,
            "hung: probably an event queue on soft0 loses events: its process waits for them forever\n",
            &["soft0 ee_events_dropped_ordinary_cntr +"],
        ),
        planted(
            "entries wait",
            3,
            "hung: probably a receiver on soft0 is in flow control",
            &["soft0 lpe_err_no_space_append +"],
        ),
        limited(
            TWO_QUEUES,
            planted(
                "wait wait",
                4,
                "undecided: possibly the limit of TXQ of service 1 is reached on soft0\n",
                &["2 of 2 TXQ are in use", "service 1 uses 2 of 2 TXQ"],
            ),
        ),
        limited(
            FOUR_EVENT_QUEUES,
            planted(
                "wait wait",
                4,
                "undecided: possibly the limit of EQ of service 1 is reached on soft0\n",
                &["4 of 4 EQ are in use"],
            ),
        ),
    ]);
}
