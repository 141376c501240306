use std::collections::BTreeMap;

use super::*;
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
