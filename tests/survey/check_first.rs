//! `survey --check`: nodes are checked before their NICs are measured.

use std::fs;

use super::servers::server_command;
use super::tasks::task_of_slurm;
use crate::cpus::{Work, cpus};
use crate::harness::machine::MadeUp;
use crate::harness::{Fabric, Server, assert_status, assert_success, stderr, stdout};

#[test]
fn tasks_check_their_nodes_first() {
    let _cpus = cpus(Work::Waits);
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    let options = "--check --expect=p50<1s --pairs=all --json=found.json write-lat";
    let start = |rank: u32| {
        let mut command = task_of_slurm(&fabric, directory.path(), rank, 3, options);
        if rank == 1 {
            command.env("CXIDIAG_FAULTS", "pcie-width=8");
        }
        command.spawn().expect("cxidiag starts")
    };
    let others = [1, 2].map(start);
    let output = start(0).finish();
    let text = stderr(&output);
    assert_status(&output, 3);
    let checked =
        "cxidiag survey: check: bad: 1 of 3 nodes; 2 good\n\nBAD pcie-width soft1 (1 node): ";
    assert!(text.starts_with(checked), "{text}");
    // The survey itself is good: it measures whatever the checks find.
    assert!(stdout(&output).starts_with("good: 3 NICs (small writes "), "{}", stdout(&output));
    for task in others {
        let output = task.finish();
        assert_success(&output);
        assert_eq!(stdout(&output), "");
    }
    let left = fs::read_dir(directory.path()).expect("a directory");
    let names: Vec<_> = left.flatten().map(|file| file.file_name()).collect();
    assert_eq!(names, ["found.json"]);
}

/// Each process has the same faults, and the host of one NIC has less memory.
#[test]
fn planted_files_of_the_host_are_of_the_nic_with_the_fault() {
    let _cpus = cpus(Work::Waits);
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    let memory = "sys/devices/system/node/node0/meminfo";
    let machine = MadeUp::new(&[(memory, "Node 0 MemTotal: 536870912 kB\n")]);
    let faults = format!("nic=2,set=/{memory}:Node 0 MemTotal: 469762048 kB");
    let options = "--check --expect=p50<1s --pairs=all write-lat";
    let start = |rank: u32| {
        let command = task_of_slurm(&fabric, directory.path(), rank, 3, options);
        let mut command = machine.seen_by(command);
        command.env("CXIDIAG_FAULTS", &faults);
        command.spawn().expect("cxidiag starts")
    };
    let others = [1, 2].map(start);
    let output = start(0).finish();
    let text = assert_status(&output, 0);
    assert!(text.contains("check: good: 2 of 3 nodes; 1 suspect"), "{text}");
    let found = "\nSUSPECT memory-size host (1 node): memory 448.0 GiB; 2 of 3 nodes have ";
    assert!(text.contains(found), "{text}");
    for task in others {
        assert_success(&task.finish());
    }
}

#[test]
fn servers_check_their_nodes_first() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let server = |host, port: &str| {
        let mut command = server_command(&fabric, host, port);
        if host == 2 {
            command.env("CXIDIAG_FAULTS", "pcie-width=8");
        }
        Server::start(command)
    };
    let first = server(1, "0");
    let _second = server(2, &first.port);
    let port = &first.port;
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.[1-2] --port={port} --check --expect=p50<1s --quiet write-lat"
    ));
    assert_status(&output, 3);
    let checked = "cxidiag survey: check: bad: 1 of 2 nodes; 1 ";
    assert!(stderr(&output).contains(checked), "{}", stderr(&output));
}
