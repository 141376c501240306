//! `cxidiag check` of many nodes: as the tasks of a launcher, and through `cxidiag serve`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{
    Command, Fabric, Server, assert_status, assert_success, finish, schema, stderr, stdout,
};

/// A task of Hydra on a node of its own.
fn task(fabric: &Fabric, directory: &Path, rank: u32, size: u32, more: &str) -> Command {
    let mut command = fabric.command(&format!("check --quick {more}"));
    command
        .current_dir(directory)
        .env("PMI_RANK", rank.to_string())
        .env("PMI_SIZE", size.to_string())
        .env("MPI_LOCALRANKID", "0")
        .env("PMI_HOSTNAME", format!("nid{rank:04}"));
    command
}

fn document(text: &str) -> Value {
    schema::document(include_str!("../../docs/check-fleet.schema.json"), text)
}

/// Returns verdict, code, devices and nodes of the groups.
fn groups(document: &Value) -> Vec<String> {
    let groups = document["groups"].as_array().expect("groups");
    let text = |group: &Value, name: &str| group[name].as_str().expect("text").to_owned();
    let fields = ["verdict", "code", "devices", "nodes"];
    groups.iter().map(|group| fields.map(|name| text(group, name)).join(" ")).collect()
}

#[test]
fn tasks_of_a_launcher_check_their_nodes() {
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    let files = "--json=found.json --bad-nodes=bad --csv=found.csv --openmetrics=found.prom";
    let mut tasks: Vec<_> = (0..6)
        .map(|rank| {
            let devices = if rank == 4 { "soft1" } else { "soft1 soft2" };
            let mut task = task(&fabric, directory.path(), rank, 6, &format!("{devices} {files}"));
            if rank == 2 || rank == 3 {
                task.env("CXIDIAG_FAULTS", "pcie-width=8");
            }
            if rank == 5 {
                // A second task of the same node.
                task.env("MPI_LOCALRANKID", "1").env("PMI_HOSTNAME", "nid0004");
            }
            task.spawn().expect("cxidiag starts")
        })
        .collect();
    let first = tasks.remove(0).finish();
    assert_eq!(assert_status(&first, 3), "");
    let text = stdout(&first);
    let start = "bad: 3 of 5 nodes; 2 good\n\nBAD pcie-width soft1 soft2 (2 nodes): PCIe width x8, \
                 expected x16\n  nid[0002-0003]\n";
    assert!(text.starts_with(start), "{text}");
    let is_width = |line: &str| line.starts_with("PCIe width ") && line.contains(" x16 ");
    assert!(text.lines().any(is_width), "{text}");
    for task in tasks {
        let output = task.finish();
        assert_success(&output);
        assert_eq!((stdout(&output), stderr(&output)), Default::default());
    }
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).expect("a file");
    let document = document(&read("found.json"));
    let expected = ["bad pcie-width soft1 soft2 nid[0002-0003]", "bad nic-count host nid0004"];
    assert_eq!(groups(&document), expected);
    assert_eq!(read("bad"), "nid[0002-0004]\n");
    assert!(read("found.csv").starts_with("node,verdict,code,device,what\nnid0000,good,,,\n"));
    assert!(read("found.prom").contains("\ncxidiag_fleet_nodes{verdict=\"bad\"} 3\n"));
    let mut left: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().collect();
    left.retain(|file| file.file_name().to_string_lossy().starts_with('.'));
    assert!(left.is_empty(), "the meeting point is left: {left:?}");
}

/// A slot that is slower than the NIC is no defect. That it is slower than elsewhere shows.
#[test]
fn slow_slot_differs_from_most_nodes() {
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    let mut tasks: Vec<_> = (0..5)
        .map(|rank| {
            let mut task = task(&fabric, directory.path(), rank, 5, "soft1 --json=found.json");
            let path = match rank {
                3 => "8@16:8@16/16@16",
                4 => "16@16/8@16:8@16",
                _ => "16@16/16@16",
            };
            task.env("CXIDIAG_FAULTS", format!("pcie-path={path}"));
            task.spawn().expect("cxidiag starts")
        })
        .collect();
    let first = tasks.remove(0).finish();
    assert_success(&first);
    let text = stdout(&first);
    assert!(text.starts_with("good: 3 of 5 nodes; 2 suspect\n"), "{text}");
    for task in tasks {
        assert_success(&task.finish());
    }
    let found = fs::read_to_string(directory.path().join("found.json")).expect("a file");
    let document = document(&found);
    let groups = document["groups"].as_array().expect("groups");
    let found: Vec<_> =
        groups.iter().map(|group| [&group["code"], &group["nodes"], &group["what"]]).collect();
    let width = "PCIe width x8; 4 of 5 NICs have x16";
    let upstream = "PCIe upstream x8 16.0 GT/s; 4 of 5 NICs have x16 16.0 GT/s";
    let expected = [["pcie-width", "nid0004", width], ["pcie-upstream", "nid0003", upstream]];
    assert_eq!(found, expected, "{text}");
}

#[test]
fn task_with_local_option_checks_its_node_alone() {
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    let output = finish(task(&fabric, directory.path(), 1, 3, "soft1 --local --quiet"));
    assert_success(&output);
    assert_eq!(stdout(&output), "OK soft1\n");
    let output = finish(task(&fabric, directory.path(), 0, 1, "soft1 --csv"));
    let error = assert_status(&output, 2);
    assert!(error.contains("--csv is for several nodes"), "{error}");
}

#[test]
fn task_that_ends_early_is_without_answer() {
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    fs::create_dir_all(directory.path().join("etc/cxidiag")).unwrap();
    fs::write(directory.path().join("etc/cxidiag/check.conf"), "nics=4\n").unwrap();
    let first = task(&fabric, directory.path(), 0, 2, "soft1").spawn();
    let mut second = task(&fabric, directory.path(), 1, 2, "soft1");
    second.env("CXIDIAG_ROOT", directory.path());
    let second = second.spawn().expect("cxidiag starts");
    let output = first.expect("cxidiag starts").finish();
    assert_status(&output, 4);
    let text = stdout(&output);
    assert!(text.starts_with("undecided: 1 of 2 nodes without answer; 1 good\n"), "{text}");
    assert!(text.contains("\nWITHOUT ANSWER (1 node): "), "{text}");
    assert!(text.contains("check.conf: "), "{text}");
    // The first task determines the exit status of the step.
    let output = second.finish();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), ""));
    assert!(stderr(&output).contains("check.conf: "));
}

#[test]
fn absent_task_has_the_name_of_its_node() {
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    let mut first = fabric.command("check --quick soft1");
    first.current_dir(directory.path()).envs([
        ("SLURM_JOB_ID", "1"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_PROCID", "0"),
        ("SLURM_NODEID", "0"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_STEP_TASKS_PER_NODE", "1(x2)"),
        ("SLURM_STEP_NODELIST", "nid[0007-0008]"),
        ("SLURMD_NODENAME", "nid0007"),
        ("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "30"),
    ]);
    let output = finish(first);
    assert_status(&output, 4);
    let absent = "it did not join within 1s\n  nid0008\n";
    assert!(stdout(&output).contains(absent), "{}", stdout(&output));
}

/// Starts servers with one port on addresses from 127.0.3.1 on; returns the port as well.
fn servers(fabric: &Fabric, start: u32, more: &[&str]) -> (String, Vec<Server>) {
    let mut port = "0".to_owned();
    let mut servers = Vec::new();
    for (host, more) in (start..).zip(more) {
        let mut command =
            fabric.command(&format!("serve -d soft1 --bind=127.0.3.{host} --port={port}"));
        for word in more.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) if !name.starts_with('-') => command.env(name, value),
                _ => command.arg(word),
            };
        }
        let server = Server::start(command);
        port.clone_from(&server.port);
        servers.push(server);
    }
    (port, servers)
}

#[test]
fn servers_check_their_nodes_for_others() {
    let fabric = Fabric::new();
    let server_values =
        ["", "", "CXIDIAG_FAULTS=pcie-width=8", "--allow=10.0.0.0/8", "CXIDIAG_TOKEN=a"];
    let (port, mut servers) = servers(&fabric, 1, &server_values);
    let output = fabric.run(&format!("check --hosts=127.0.3.[1-6] -p {port} --json"));
    assert_status(&output, 3);
    let document = document(&stdout(&output));
    assert_eq!(document["summary"], "bad: 1 of 6 nodes; 3 without answer, 2 good");
    let found = groups(&document);
    assert_eq!(found[0], "bad pcie-width soft1 127.0.3.3");
    let reasons: Vec<_> = document["groups"].as_array().unwrap()[1..]
        .iter()
        .map(|group| group["what"].as_str().expect("text"))
        .collect();
    for words in ["--allow of the server does not list", "token", "does 'cxidiag serve' run there?"]
    {
        assert!(reasons.iter().any(|reason| reason.contains(words)), "{words}: {reasons:?}");
    }
    servers[0].wait_for(" check on soft1: done");
}

#[test]
fn server_checks_once_a_second() {
    let fabric = Fabric::new();
    let (port, mut servers) = servers(&fabric, 11, &[""]);
    let check = || {
        let mut command = fabric.command(&format!("check --hosts=127.0.3.11 -p {port} --quiet"));
        command.spawn().expect("cxidiag starts")
    };
    // The others come again. On a busy machine some may come later than a second.
    let all: [_; 4] = std::array::from_fn(|_| check());
    for check in all {
        let output = check.finish();
        assert_success(&output);
        assert_eq!(stdout(&output), "good: 1 of 1 node\n");
    }
    servers[0].wait_for("another check has run within the last 1s");
}

#[test]
fn refuses_options_without_effect_on_servers() {
    for (arguments, words) in [
        ("--hosts=a --window=1s", "--window has no effect with --hosts"),
        ("--hosts=a --local", "--local has no effect with --hosts"),
        ("--hosts=n[4-1]", "for --hosts"),
        ("--port=7", "invalid value '7' for --port: it is for --hosts"),
        ("--bad-nodes=x", "--bad-nodes is for several nodes"),
    ] {
        let error = assert_status(&Fabric::new().run(&format!("check {arguments}")), 2);
        assert!(error.contains(words), "{arguments}: {error}");
    }
}
