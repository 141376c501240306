use std::collections::BTreeMap;

use super::*;
use crate::calls::{RankCall, Wait};
use crate::nics::{ServiceUse, TableUse};
use crate::process::Holdings;
use crate::ranks::EndedRank;

fn rank(number: u32, activity: Activity) -> RankState {
    RankState {
        rank: Some(number),
        pid: 800 + number,
        host: None,
        name: "app".into(),
        activity,
        call: None,
        wait_channel: None,
        system_call: None,
        other_threads: BTreeMap::new(),
        tracer: None,
        holdings: Holdings::default(),
    }
}

/// Returns a NIC that is silent and has nothing outstanding.
fn nic() -> NicState {
    let tables = ["spt", "srb", "trs", "mst"].map(|name| (name.to_owned(), TableUse::default()));
    NicState {
        device: "cxi0".into(),
        is_up: Some(true),
        motion: Motion::Silent,
        packets_per_s: Some(0.0),
        has_retry_handler: Some(true),
        tables: tables.into(),
        answers: Some(0),
        ..NicState::default()
    }
}

fn node(activities: &[Activity], nic: NicState) -> NodeReading {
    let ranks = activities.iter().enumerate().map(|(at, activity)| rank(at as u32, *activity));
    NodeReading { ranks: ranks.collect(), nics: vec![nic], ..NodeReading::default() }
}

fn with_table(name: &str, first: u64, last: u64) -> NicState {
    let mut nic = nic();
    nic.tables.insert(name.into(), TableUse { first, last });
    nic
}

fn with_growth(names: &[&str]) -> NicState {
    NicState { grown: names.iter().map(|name| ((*name).into(), 3)).collect(), ..nic() }
}

/// Asserts the first row, how sure it is, and a part of its text.
#[track_caller]
fn assert_first(node: &NodeReading, row: u32, certainty: Certainty, part: &str) {
    let found = findings(node);
    let first = &found[0];
    assert_eq!((first.row, first.certainty), (row, certainty), "{found:#?}");
    assert!(first.text.contains(part), "{found:#?}");
}

/// Four ranks that poll.
const POLLING: [Activity; 4] = [Activity::Runs; 4];

/// The vectors of hangs.md 8, in their order.
mod vectors {
    use super::*;

    #[test]
    fn vector_1_one_rank_waits_for_a_signal() {
        let activities = [Activity::Runs, Activity::Runs, Activity::Runs, Activity::Signal];
        let part = "rank 3 (pid 803) neither computes nor polls: it is waiting for a signal; 3 ranks wait for it, or compute";
        assert_first(&node(&activities, nic()), 9, Certainty::Possibly, part);
        let sleeps = Activity::Descriptors;
        let activities = [sleeps, sleeps, sleeps, Activity::Signal];
        let part = "3 ranks wait for rank 3 (pid 803), which neither computes nor polls: it is waiting for a signal";
        assert_first(&node(&activities, nic()), 9, Certainty::Probably, part);
        let moving = NicState { motion: Motion::Trickle, ..nic() };
        assert_first(&node(&activities, moving), 9, Certainty::Possibly, part);
    }

    #[test]
    fn vector_2_one_rank_was_killed() {
        let mut node = node(&POLLING, nic());
        let proof = "process 804 is a zombie".into();
        node.ended.push(EndedRank { rank: Some(4), pid: Some(804), proof });
        assert_first(&node, 1, Certainty::Because, "rank 4 (pid 804) has ended; the others wait");
    }

    #[test]
    fn vector_3_one_rank_is_stopped() {
        let activities = [Activity::Runs, Activity::Stopped, Activity::Runs];
        assert_first(
            &node(&activities, nic()),
            2,
            Certainty::Because,
            "rank 1 (pid 801) is stopped",
        );
        let mut traced = node(&[Activity::Traced], nic());
        traced.ranks[0].tracer = Some(77);
        assert_first(&traced, 2, Certainty::Because, "held by process 77");
    }

    #[test]
    fn vector_4_all_queues_of_the_service_are_used() {
        let used = |in_use| ServiceUse { service: 5, resource: "TXQ".into(), in_use, limit: 64 };
        let full = NicState { services: vec![used(62)], ..nic() };
        let part = "the limit of TXQ of service 5 is reached on cxi0";
        assert_first(&node(&POLLING, full), 14, Certainty::Possibly, part);
        let below = NicState { services: vec![used(60)], ..nic() };
        assert!(findings(&node(&POLLING, below)).iter().all(|found| found.row != 14));
    }

    #[test]
    fn vector_5_all_packets_are_lost_with_and_without_retries() {
        let lossy = with_growth(&["retry_handler/spt_timeouts"]);
        assert_first(&node(&POLLING, lossy.clone()), 6, Certainty::Probably, "get no answer");
        let recovers = NicState { answers: Some(9), motion: Motion::Trickle, ..lossy };
        assert_first(&node(&POLLING, recovers), 6, Certainty::Possibly, "get no answer");
        let off = NicState { has_retry_handler: Some(false), ..with_table("spt", 3, 3) };
        assert_first(&node(&POLLING, off), 4, Certainty::Because, "no retry handler");
        let idle = NicState { has_retry_handler: Some(false), ..nic() };
        assert_first(&node(&POLLING, idle), 5, Certainty::Possibly, "nothing is outstanding");
    }

    #[test]
    fn vector_6_the_list_of_a_receiver_is_full() {
        let full = with_growth(&["lpe_err_pt_disabled_cant_alloc_unexpected"]);
        assert_first(&node(&POLLING, full.clone()), 15, Certainty::Probably, "flow control");
        let busy = NicState { motion: Motion::Busy, packets_per_s: Some(2e6), ..full };
        assert_first(&node(&POLLING, busy), 24, Certainty::Moving, "cxi0 moves data");
    }

    #[test]
    fn vector_7_the_link_is_down() {
        let down = NicState { is_up: Some(false), ..nic() };
        assert_first(&node(&POLLING, down), 3, Certainty::Because, "cxi0 has no link");
    }

    #[test]
    fn vector_8_all_ranks_read_from_a_pipe() {
        let pipes = [Activity::Pipe; 3];
        assert_first(&node(&pipes, nic()), 35, Certainty::Open, "3 ranks waiting for a pipe");
        let storage = [Activity::Storage; 3];
        assert_first(&node(&storage, nic()), 10, Certainty::Probably, "waits for storage");
    }

    #[test]
    fn vector_9_messages_reach_a_process_that_has_ended() {
        let target = with_growth(&["rmu_ptl_no_ptlte_cntr"]);
        assert_first(&node(&POLLING, target), 29, Certainty::Possibly, "that has ended");
    }

    #[test]
    fn vector_10_a_process_is_hidden() {
        let hidden = NodeReading { hidden: vec![812], ..NodeReading::default() };
        assert_first(&hidden, 35, Certainty::Open, "no rank is readable");
    }
}

#[test]
fn quiet_node_waits_for_others_and_running_ranks_are_not_blamed() {
    assert_first(&node(&POLLING, nic()), 8, Certainty::Open, "no packet is lost here");
    let unknown = NicState { motion: Motion::Unknown, ..nic() };
    assert_first(&node(&POLLING, unknown), 33, Certainty::Open, "4 ranks computing or polling");
    let one_runs = [Activity::Descriptors, Activity::Descriptors, Activity::Runs];
    assert_first(&node(&one_runs, nic()), 35, Certainty::Open, "1 rank computing or polling");
    for activity in [Activity::Runs, Activity::Yields] {
        let found = findings(&node(&[Activity::Lock, Activity::Lock, activity], nic()));
        assert!(found.iter().all(|found| !found.text.contains("rank 2")), "{found:#?}");
    }
}

#[test]
fn data_that_moves_is_no_hang() {
    let busy = NicState { motion: Motion::Busy, packets_per_s: Some(5e5), ..nic() };
    for activities in [&POLLING[..], &[Activity::Storage; 2], &[Activity::Runs, Activity::Kernel]] {
        assert_first(&node(activities, busy.clone()), 24, Certainty::Moving, "slow, and not hung");
    }
    let stopped = [Activity::Runs, Activity::Stopped];
    assert_first(&node(&stopped, busy), 2, Certainty::Because, "is stopped");
}

#[test]
fn states_of_ranks_have_their_rows() {
    let mut memory = node(&[Activity::MemoryMonitor, Activity::Runs], nic());
    assert!(findings(&memory).iter().all(|found| found.row != 17));
    memory.ranks[0].other_threads.insert(Activity::Lock.name().into(), 1);
    assert_first(&memory, 17, Certainty::Probably, "rank 0 (pid 800) waits for the monitor");
    for (activity, row) in
        [(Activity::GpuDriver, 18), (Activity::NicDriver, 27), (Activity::Kernel, 27)]
    {
        let found = findings(&node(&[activity, Activity::Runs, Activity::Runs], nic()));
        assert_eq!((found[0].row, found[0].certainty), (row, Certainty::Possibly));
    }
}

/// Refusals of a NIC are about its own tables, and nacks that it receives about tables of targets.
#[test]
fn full_tables_are_named_with_their_side() {
    for (counter, text) in [
        ("retry_handler/nack_resource_busy", "tables of targets are full, and packets of cxi0"),
        ("pct_no_tct_nacks", "tables of cxi0 are full: it refuses packets"),
    ] {
        let node = node(&[Activity::NicDriver], with_growth(&[counter]));
        let found = findings(&node);
        let rows: Vec<&HangFinding> = found.iter().filter(|found| found.row == 23).collect();
        assert!(rows.len() == 1 && rows[0].text.starts_with(text), "{counter}: {rows:?}");
    }
}

#[test]
fn states_of_nics_have_their_rows() {
    let busy_tables = with_growth(&["retry_handler/nack_no_target_trs"]);
    let pauses = |sent, received| NicState {
        held_off_by_switch: Some(sent),
        holds_off_switch: Some(received),
        ..nic()
    };
    for (nic, row, certainty) in [
        (NicState { parked_nids: Some(2), ..nic() }, 7, Certainty::Possibly),
        (with_growth(&["lpe_net_match_request"]), 16, Certainty::Possibly),
        (pauses(0.9, 0.0), 21, Certainty::Probably),
        (pauses(0.89, 0.49), 8, Certainty::Open),
        (pauses(0.0, 0.5), 22, Certainty::Probably),
        (busy_tables, 23, Certainty::Possibly),
        (with_table("trs", 2, 2), 25, Certainty::Possibly),
        (with_table("trs", 2, 3), 33, Certainty::Open),
        (with_growth(&["ee_events_dropped_ordinary_cntr"]), 28, Certainty::Probably),
        (NicState { dropped_events: 4, ..self::nic() }, 28, Certainty::Possibly),
    ] {
        assert_first(&node(&POLLING, nic), row, certainty, "");
    }
}

#[test]
fn entries_are_left_only_after_the_processes() {
    let left = |ranks: &[Activity]| node(ranks, with_table("mst", 2, 2));
    assert_first(&left(&POLLING), 25, Certainty::Possibly, "exchanges that do not end");
    assert_first(&left(&[]), 26, Certainty::Possibly, "are left from processes that have ended");
}

#[test]
fn groups_begin_with_those_that_stand_out() {
    let mut activities = vec![Activity::Runs; 99];
    activities.extend([Activity::Pipe, Activity::Socket, Activity::Socket]);
    activities.extend([Activity::Lock; 3]);
    let groups = groups(&node(&activities, nic()).ranks);
    let rows: Vec<_> =
        groups.iter().map(|group| (group.names.as_str(), group.count, group.is_outlier)).collect();
    assert_eq!(
        rows,
        [
            ("ranks 100-101", 2, true),
            ("rank 99 (pid 899)", 1, true),
            ("ranks 0-98", 99, false),
            ("ranks 102-104", 3, false),
        ]
    );
    let does: Vec<_> = groups.iter().map(|group| group.does.as_str()).collect();
    assert_eq!(does[..2], ["waiting for a socket", "waiting for a pipe"]);
    let pair = node(&[Activity::Runs, Activity::Pipe], nic());
    assert!(super::groups(&pair.ranks).iter().all(|group| !group.is_outlier));
}

#[test]
fn several_nodes_are_judged_together() {
    let merged = |nodes: &[(&str, &NodeReading)]| {
        let nodes = nodes.iter().map(|(host, node)| ((*host).to_owned(), Ok((*node).clone())));
        crate::merging::merged(nodes.collect(), None).unwrap()
    };
    let mut quiet = node(&[Activity::Descriptors; 3], nic());
    let mut odd = node(&[Activity::Pipe], nic());
    odd.ranks[0].rank = Some(3);
    odd.size = Some(4);
    let all = merged(&[("n1", &quiet), ("n2", &odd)]);
    let part = "3 ranks wait for rank 3 (n2, pid 800), which neither";
    assert_first(&all, 9, Certainty::Probably, part);
    let devices: Vec<&str> = all.nics.iter().map(|nic| nic.device.as_str()).collect();
    assert_eq!(
        (devices, all.host.as_str(), all.size),
        (vec!["n1 cxi0", "n2 cxi0"], "2 nodes", Some(4))
    );
    let mut down = quiet.clone();
    down.nics[0].is_up = Some(false);
    let all = merged(&[("n1", &down)]);
    assert_first(&all, 3, Certainty::Because, "n1 cxi0 has no link");
    assert_eq!(findings(&all)[0].next, "cxidiag link -d cxi0");
    quiet.size = Some(3);
    assert_first(&quiet, 8, Certainty::Open, "the ranks wait for each other");
}

/// Documents come from other nodes.
#[test]
fn largest_numbers_do_not_overflow() {
    let mut nic = with_growth(&["retry_handler/spt_timeouts", "retry_handler/pkts_cancelled_1"]);
    nic.grown.values_mut().for_each(|count| *count = u64::MAX);
    nic.answers = Some(u64::MAX);
    assert_first(&node(&[], nic), 6, Certainty::Possibly, "packets of cxi0 get no answer");
}

/// Rows that need the functions of ranks.
mod calls {
    use super::*;

    /// A call that a rank was in at both readings; without a name, functions of the program.
    fn call(entry: &str) -> RankCall {
        RankCall {
            entry: Some(entry.to_owned()).filter(|entry| !entry.is_empty()),
            caller: Some("solve".into()),
            stays: Some(true),
            ..RankCall::default()
        }
    }

    fn waiting(entry: &str, wait: Wait) -> RankCall {
        RankCall { wait: Some(wait), provider: Some("cxip_x".into()), ..call(entry) }
    }

    /// A part of a job of 128 ranks, whose ranks all poll in these calls.
    fn job(calls: &[RankCall]) -> NodeReading {
        let mut node = node(&vec![Activity::Runs; calls.len()], nic());
        for (rank, call) in node.ranks.iter_mut().zip(calls) {
            rank.call = Some(call.clone());
        }
        node.size = Some(128);
        node
    }

    /// The rows that hold.
    fn rows(node: &NodeReading) -> Vec<u32> {
        findings(node).iter().map(|found| found.row).collect()
    }

    fn moving() -> RankCall {
        RankCall { left: Some("MPI_Recv".into()), stays: Some(false), ..call("MPI_Send") }
    }

    #[test]
    fn vector_1_names_the_function_of_the_rank_that_waits() {
        let part = "3 ranks wait for rank 3 (pid 803), which neither computes nor polls: it is \
                    waiting for a signal, in its function solve";
        for (entry, certainty) in
            [("MPI_Recv", Certainty::Possibly), ("MPI_Barrier", Certainty::Probably)]
        {
            let mut job = job(&[call(entry), call(entry), call(entry), call("")]);
            job.ranks[3].activity = Activity::Signal;
            assert_first(&job, 9, certainty, part);
            let proof = format!("ranks 0-2: in {entry}, called by solve; the NICs are silent");
            assert!(findings(&job)[0].proof.starts_with(&proof));
            // A rank in a call waits for others, also if it sleeps there.
            job.ranks[3].call = Some(call(entry));
            let part = format!("4 ranks in {entry}, called by solve, and nothing");
            assert_first(&job, 8, Certainty::Open, &part);
        }
    }

    #[test]
    fn rank_in_functions_of_the_program_may_have_more_work() {
        let barrier = || call("MPI_Barrier");
        let mut job = job(&[barrier(), call(""), barrier(), barrier()]);
        let part =
            "3 ranks wait for rank 1 (pid 801), which is in functions of the program (solve)";
        assert_first(&job, 9, Certainty::Possibly, part);
        let once = RankCall { stays: None, ..call("") };
        let moves = RankCall { stays: Some(false), left: Some("MPI_Test".into()), ..call("") };
        for other in [once, moves] {
            job.ranks[1].call = Some(other);
            assert!(!rows(&job).contains(&9));
        }
        job.ranks[1].call = Some(call(""));
        job.ranks[0].call = Some(RankCall { stays: None, ..barrier() });
        let part =
            "2 ranks wait for rank 1 (pid 801), which is in functions of the program (solve)";
        assert_first(&job, 9, Certainty::Possibly, part);
        assert!(findings(&job)[0].proof.ends_with("1 rank was not read twice"));
        job.ranks[0].call = Some(call("MPI_Test"));
        assert!(!rows(&job).contains(&9));
    }

    #[test]
    fn different_calls_are_named_and_ranks_of_one_node_may_use_its_memory() {
        let all = || call("MPI_Allreduce");
        let mut job = job(&[all(), all(), call("MPI_Send"), all()]);
        let part = "ranks are in different calls: rank 2 (pid 802) in MPI_Send, called by solve; 3 ranks \
                    in MPI_Allreduce, called by solve";
        assert_first(&job, 11, Certainty::Probably, part);
        job.size = Some(4);
        assert_first(&job, 11, Certainty::Possibly, part);
        assert!(findings(&job)[0].proof.ends_with("no counter shows messages through its memory"));
        job.ranks[0].host = Some("n1".into());
        assert_first(&job, 11, Certainty::Probably, part);
        let sides = [all(), all(), call("MPI_Send"), call("MPI_Recv")];
        let part = "rank 3 (pid 803) in MPI_Recv, called by solve; ";
        assert_first(&super::calls::job(&sides), 11, Certainty::Possibly, part);
        assert_first(
            &super::calls::job(&sides[1..3]),
            11,
            Certainty::Possibly,
            "1 (pid 801) in MPI",
        );
        job.nics[0].motion = Motion::Trickle;
        assert_first(&job, 11, Certainty::Possibly, "ranks are in different calls");
        for other in [
            call("MPI_Test"),
            call(""),
            call("MPI_Init"),
            call("MPI_Finalize"),
            call("ncclAllReduce"),
            RankCall { stays: None, ..call("MPI_Send") },
        ] {
            job.ranks[2].call = Some(other.clone());
            assert!(!rows(&job).contains(&11), "{other:?}");
        }
        // Of many ranks, the time is enough for some.
        job.ranks[2].call = Some(call("MPI_Send"));
        job.ranks[3].call = None;
        let part = "rank 2 (pid 802) in MPI_Send, called by solve; 2 ranks in MPI_Allreduce";
        assert_first(&job, 11, Certainty::Possibly, part);
        assert!(findings(&job)[0].proof.contains("1 rank was not read twice"));
        job.nics[0].motion = Motion::Silent;
        assert_first(&job, 11, Certainty::Possibly, part);
        // Messages between two ranks need no collective.
        let sides = [call("MPI_Send"), call("MPI_Recv"), call("MPI_Recv"), call("MPI_Recv")];
        assert!(!rows(&super::calls::job(&sides)).contains(&11));
    }

    #[test]
    fn ranks_that_move_are_not_called_hung() {
        let mut job = job(&[call("MPI_Allreduce"), call("MPI_Allreduce"), moving()]);
        assert_first(&job, 24, Certainty::Moving, "rank 2 (pid 802) goes from call to call");
        job.ranks[2].activity = Activity::Storage;
        assert_first(&job, 24, Certainty::Moving, "goes from call to call");
        job.ranks[2].call = Some(call(""));
        job.ranks[2].activity = Activity::Pipe;
        assert_first(&job, 9, Certainty::Probably, "2 ranks wait for rank 2");
        job.ranks.push(RankState { call: Some(moving()), ..rank(3, Activity::Runs) });
        assert_first(&job, 24, Certainty::Moving, "rank 3 (pid 803) goes");
    }

    #[test]
    fn ranks_that_cannot_send_are_counted() {
        let send = || waiting("MPI_Send", Wait::Send);
        let mut job = job(&[send(), send()]);
        assert_first(&job, 12, Certainty::Probably, "none of 2 ranks can send");
        job.nics[0].motion = Motion::Trickle;
        assert_first(&job, 12, Certainty::Possibly, "none of 2 ranks can send");
        job.ranks[0].call = Some(waiting("MPI_Recv", Wait::Poll));
        let service = ServiceUse { service: 5, resource: "LE".into(), in_use: 7, limit: 64 };
        job.nics[0].services.push(service);
        assert_first(&job, 13, Certainty::Possibly, "rank 1 (pid 801) is not able to send");
        assert!(findings(&job)[0].proof.contains("service 5 uses 7 of 64 LE"));
        job.ranks[1].call = Some(RankCall { stays: Some(false), ..send() });
        assert_eq!(rows(&job), [35]);
    }

    #[test]
    fn ranks_that_wait_for_gpus_are_told_from_the_others() {
        let gpu = || waiting("cudaStreamSynchronize", Wait::Gpu);
        let all = job(&[gpu(), gpu(), gpu()]);
        assert_first(&all, 18, Certainty::Possibly, "3 ranks wait for their GPUs");
        let mut one = job(&[gpu(), gpu(), call("")]);
        let part = "2 ranks wait for their GPUs, and rank 2 (pid 802) does not";
        assert_first(&one, 19, Certainty::Possibly, part);
        one.ranks[2].call = Some(call("MPI_Recv"));
        assert_first(&one, 19, Certainty::Possibly, part);
        for rank in &mut one.ranks {
            rank.holdings.libraries = vec!["/opt/lib/libnccl.so.2".into()];
        }
        assert_first(&one, 20, Certainty::Possibly, "rank 2 (pid 802) is in MPI and 2 ranks wait");
        for few in [&[gpu(), call(""), call("")][..], &[gpu(), call("")]] {
            assert!(!rows(&job(few)).contains(&19));
        }
    }

    #[test]
    fn start_and_end_of_a_job_have_their_rows() {
        let all = [call("MPI_Init"), call("MPI_Init")];
        assert_first(&job(&all), 31, Certainty::Possibly, "ranks 0-1 are still in MPI_Init");
        let part = "ranks 0-1 are in MPI_Finalize, and rank 2 (pid 802) is in MPI_Recv";
        let end = [call("MPI_Finalize"), call("MPI_Finalize"), call("MPI_Recv")];
        assert_first(&job(&end), 32, Certainty::Possibly, part);
        assert_eq!(rows(&job(&end[..2])), [8]);
    }

    #[test]
    fn waits_of_the_provider_have_their_rows() {
        let stuck = [waiting("MPI_Win_create", Wait::NicAnswer), call("MPI_Recv")];
        let mut job = job(&stuck);
        assert_first(
            &job,
            27,
            Certainty::Probably,
            "does not execute a command of rank 0 (pid 800)",
        );
        job.nics[0].motion = Motion::Trickle;
        assert_first(&job, 27, Certainty::Possibly, "does not execute a command");
        job.ranks[0].call = Some(waiting("MPI_Recv", Wait::FlowControl));
        assert_first(&job, 15, Certainty::Possibly, "rank 0 (pid 800) is in flow control");
        job.ranks[0].call = Some(waiting("MPI_Isend", Wait::Registration));
        assert!(!rows(&job).contains(&17));
        job.ranks[0].other_threads.insert(Activity::Lock.name().into(), 1);
        assert_first(
            &job,
            17,
            Certainty::Possibly,
            "the registration of memory does not end in rank 0",
        );
        job.ranks[0].call = Some(RankCall { has_lock: true, ..call("MPI_Recv") });
        assert_first(&job, 30, Certainty::Possibly, "threads of rank 0 (pid 800) block each other");
    }

    #[test]
    fn libraries_without_names_do_not_name_a_call() {
        let inside = RankCall { library: Some("libmpi.so.40".into()), caller: None, ..call("") };
        let mut job = job(&[inside.clone(), inside]);
        job.nics[0].motion = Motion::Trickle;
        assert_first(&job, 34, Certainty::Open, "2 ranks inside libmpi.so.40");
    }
}
