//! Surveys whose processes are tasks of a launcher.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{SHORT, absent, bad, document, start, wait_for_lines};
use crate::cpus::{Work, cpus};
use crate::harness::hosts::{Hosts, ip};
use crate::harness::{Command, Fabric, Process, assert_status, assert_success, stderr, stdout};

/// The variables of a launcher are all that a task needs.
fn task(fabric: &Fabric, directory: &Path, rank: u32, size: u32, more: &str) -> Command {
    let mut command = fabric.command(&format!("survey --device=soft{rank} --no-why {more}"));
    command
        .current_dir(directory)
        .env("OMPI_COMM_WORLD_RANK", rank.to_string())
        .env("OMPI_COMM_WORLD_SIZE", size.to_string());
    command
}

/// A task of Slurm on a node of its own, whose name is an address of this machine.
pub fn task_of_slurm(
    fabric: &Fabric,
    directory: &Path,
    rank: u32,
    size: u32,
    more: &str,
) -> Command {
    let mut command = fabric.command(&format!("survey --device=soft{rank} --no-why {more}"));
    let rank_text = rank.to_string();
    // Surveys at the same time must not have the same port.
    let job = fabric.path().display().to_string();
    command.current_dir(directory).envs([
        ("SLURM_JOB_ID", job.as_str()),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", &rank_text),
        ("SLURM_NODEID", &rank_text),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_NUM_TASKS", &size.to_string()),
        ("SLURM_STEP_TASKS_PER_NODE", &format!("1(x{size})")),
        ("SLURM_STEP_NODELIST", &format!("127.0.0.[1-{size}]")),
        ("SLURMD_NODENAME", &host(rank)),
    ]);
    command
}

/// The node of a task of Slurm.
fn host(rank: u32) -> String {
    format!("127.0.0.{}", rank + 1)
}

#[test]
fn tasks_of_a_launcher_find_each_other() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let first = start(task(&fabric, directory.path(), 0, 3, "--pairs=all --json write-lat"));
    let others = [1, 2].map(|rank| {
        start(task(&fabric, directory.path(), rank, 3, "--pairs=all --json write-lat"))
    });
    let output = first.finish();
    let document = document(&output);
    assert_eq!(document["setup"]["launcher"], "openmpi");
    assert_eq!(document["setup"]["processes"], 3);
    assert_eq!(absent(&document), [], "{}", stderr(&output));
    assert_eq!(document["verdict"]["planned"], 3);
    for other in others {
        let output = other.finish();
        assert_success(&output);
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn tasks_end_after_their_coordinator_was_killed() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("lines");
    let more = format!("--pairs=all --jsonl={} write-lat read-lat", lines.display());
    let tasks = [0, 1, 2].map(|rank| start(task(&fabric, directory.path(), rank, 3, &more)));
    let [mut first, others @ ..] = tasks;
    wait_for_lines(&mut first, &lines, 2);
    first.kill();
    first.wait();
    for other in others {
        let error = assert_status(&other.finish(), 0);
        assert!(error.contains("the coordinator of the survey is not there"), "{error}");
    }
}

/// The launcher merges what its tasks print: only the first one prints why the survey has failed.
#[test]
fn tasks_end_silently_with_coordinator_that_fails_at_start() {
    for (arguments, status, message) in [
        ("--resume=nofile", 2, "'nofile' for --resume: No such file"),
        ("--json=no/file", 1, "no/file"),
        ("--meeting-point=/no/file", 1, "--meeting-point names another file"),
    ] {
        let fabric = Fabric::new();
        let directory = tempfile::tempdir().unwrap();
        let tasks = [0, 1, 2]
            .map(|rank| start(task_of_slurm(&fabric, directory.path(), rank, 3, arguments)));
        let [first, others @ ..] = tasks.map(Process::finish);
        assert_status(&first, status);
        assert!(stderr(&first).contains(message), "{}", stderr(&first));
        for other in others {
            assert_success(&other);
            assert_eq!(stderr(&other), "", "{arguments}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn names_nodes_that_do_not_share_the_meeting_point() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directories = [0, 1, 2].map(|_| tempfile::tempdir().unwrap());
    let tasks = [0, 1, 2].map(|rank| {
        let at = directories[rank as usize].path();
        let mut task = task_of_slurm(&fabric, at, rank, 3, "--json --join=30m");
        task.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "5");
        start(task)
    });
    let [first, others @ ..] = tasks.map(Process::finish);
    let document = document(&first);
    let nodes = document["roster"]["nodes"].as_array().unwrap();
    for (rank, node) in (0..).zip(nodes) {
        assert_eq!(node["host"], host(rank));
    }
    let absent = absent(&document);
    assert_eq!(absent.len(), 2, "{absent:?}");
    for (_, reason) in absent {
        assert!(reason.starts_with("it does not see /"), "{reason}");
    }
    let note = stderr(&first);
    assert!(note.contains("2 tasks do not see /"), "{note}");
    assert!(note.contains("--meeting-point names another"), "{note}");
    for other in others {
        assert_success(&other);
        assert_eq!(stderr(&other), "");
    }
}

#[test]
fn late_task_takes_part_and_absent_task_has_the_name_of_its_node() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        "--pairs=all --pair-time=500ms --join=5s --json --jsonl=lines write-lat read-lat";
    let task = |rank| start(task_of_slurm(&fabric, directory.path(), rank, 4, arguments));
    let mut first = task(0);
    let second = task(1);
    // The first line comes when the survey has stopped waiting.
    wait_for_lines(&mut first, &directory.path().join("lines"), 1);
    let late = task(3);
    let output = first.finish();
    let document = document(&output);
    let found = absent(&document);
    assert_eq!(found, [(2, "it did not join within 5s".to_owned())]);
    let nodes = document["roster"]["nodes"].as_array().unwrap().iter();
    let nodes: Vec<_> = nodes.map(|node| node["host"].as_str().unwrap()).collect();
    assert_eq!(nodes, [0, 1, 2, 3].map(host));
    assert!(stderr(&output).contains(&format!("joined late: {}", host(3))));
    assert_eq!(document["roster"]["nics"].as_array().unwrap().len(), 3);
    // Two NICs have one pair. Results in the other direction count beside the pairs of three NICs.
    let planned = document["verdict"]["planned"].as_u64().unwrap();
    assert!((2 * 3..=2 * 4).contains(&planned), "{document}");
    for other in [second, late] {
        assert_success(&other.finish());
    }
}

/// Its packets would not arrive: it is named before anything is measured.
#[test]
fn names_task_with_another_vni() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let first = start(task(&fabric, directory.path(), 0, 4, &format!("{SHORT} --json")));
    let vni = ["", "", "--vni=10", ""];
    let others =
        [1, 2, 3].map(|rank| start(task(&fabric, directory.path(), rank, 4, vni[rank as usize])));
    let output = first.finish();
    let document = document(&output);
    let failures: Vec<&Value> =
        document["roster"]["nics"].as_array().unwrap().iter().map(|nic| &nic["failure"]).collect();
    assert_eq!(failures[2], "its VNI is 10, that of most NICs is 1");
    assert!([0, 1, 3].iter().all(|nic| failures[*nic].is_null()));
    assert_eq!(bad(&document), (vec![], 0));
    assert_status(&output, 4);
    for other in others {
        assert_success(&other.finish());
    }
}

/// No task waits for a coordinator that has refused the same options.
#[test]
fn each_task_refuses_invalid_pairs() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--pairs=all,all", "--pairs=loopback send-lat"];
    for (rank, arguments) in
        [0, 1].into_iter().flat_map(|rank| arguments.map(|arguments| (rank, arguments)))
    {
        let refused = start(task(&fabric, directory.path(), rank, 2, arguments));
        assert_status(&refused.finish(), 2);
    }
}

/// The packets to the first three addresses of the coordinator's host go to a host that does not
/// exist.
#[test]
fn task_joins_at_the_fourth_address_of_the_coordinator() {
    let Some(hosts) = Hosts::new() else {
        println!("not tested: network namespaces need root and the program ip");
        return;
    };
    hosts.set_cable("up");
    let [a, b] = &hosts.names;
    let silent = (1..=3).map(|number| format!("10.98.0.{number}"));
    for address in silent {
        assert!(ip(&format!("-n {a} address add {address}/32 dev cable")));
        assert!(ip(&format!("-n {b} route add {address} via 10.99.0.9")));
    }
    let no_host = "neighbour add 10.99.0.9 lladdr 02:00:00:00:00:09 dev cable nud permanent";
    assert!(ip(&format!("-n {b} {no_host}")));
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let tasks = [0_u32, 1].map(|rank| {
        let options = format!("--no-why {SHORT} --json write-lat");
        let mut task =
            hosts.command(rank as usize, &fabric, &format!("survey -d soft{rank} {options}"));
        task.current_dir(directory.path())
            .env("OMPI_COMM_WORLD_RANK", rank.to_string())
            .env("OMPI_COMM_WORLD_SIZE", "2");
        start(task)
    });
    let [first, other] = tasks.map(Process::finish);
    let document = document(&first);
    assert_eq!(absent(&document), [], "{}", stderr(&first));
    assert_eq!(stderr(&other), "");
}

/// The nodes share the directory, and no network.
#[test]
fn both_sides_name_the_addresses_that_do_not_answer() {
    let Some(hosts) = Hosts::new() else {
        println!("not tested: network namespaces need root and the program ip");
        return;
    };
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let tasks = [0_u32, 1].map(|rank| {
        let options = format!("survey -d soft{rank} --no-why write-lat");
        let mut task = hosts.command(rank as usize, &fabric, &options);
        task.current_dir(directory.path())
            .env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "20")
            .env("OMPI_COMM_WORLD_RANK", rank.to_string())
            .env("OMPI_COMM_WORLD_SIZE", "2");
        start(task)
    });
    let [first, other] = tasks.map(Process::finish);
    for output in [&first, &other] {
        let error = stderr(output);
        assert!(error.contains("10.99.0.1"), "{error}");
        assert!(!error.contains("has not written"), "{error}");
    }
}
