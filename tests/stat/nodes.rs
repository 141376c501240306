//! Several nodes, which are processes on this machine: gathering and `--merge` (monitoring.md 1.6
//! vectors 15 and 16).

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::Place;
use crate::harness::{CXIDIAG, Process, assert_status, finish, stderr, stdout};

/// Starts `stat` on `node` of four, with a fabric of its own as nodes have NICs of their own.
fn start(place: &Place, node: usize, options: &[&str], command: &[&str]) -> Process {
    let own = Place::new();
    let leading = ["stat", "soft0", "--dir"];
    let directory = place.path().display().to_string();
    let arguments = [&leading[..], &[&directory], options, &["--"], command].concat();
    let mut stat = own.cxidiag(&arguments);
    let number = node.to_string();
    stat.current_dir(place.path())
        .env("CXIDIAG_FABRIC_DIR", place.path().join(format!("fabric{node}")))
        .env("SLURM_JOB_ID", format!("{}", std::process::id()))
        .env("SLURM_STEP_ID", "0")
        .env("SLURM_PROCID", &number)
        .env("SLURM_LOCALID", "0")
        .env("SLURM_NODEID", &number)
        .env("SLURM_STEP_NUM_TASKS", "4")
        .env("SLURM_STEP_TASKS_PER_NODE", "1(x4)")
        .env("SLURM_STEP_NODELIST", "nid[0-3]")
        .env("SLURMD_NODENAME", format!("nid{node}"))
        .stdin(Stdio::null());
    stat.spawn().expect("it starts")
}

fn finished(processes: Vec<Process>) -> Vec<String> {
    let outputs = processes.into_iter().map(Process::finish);
    outputs.map(|output| assert_status(&output, 0)).collect()
}

fn step(place: &Place) -> String {
    let names = place.left();
    let step = names.iter().find(|name| name.starts_with("cxidiag-stat."));
    place.path().join(step.expect("a directory")).display().to_string()
}

#[test]
fn first_node_reports_all_nodes() {
    let place = Place::new();
    let tool = [CXIDIAG, "write-lat", "--loopback", "-d", "soft0", "-n", "100"];
    let options = ["--gather=600", "--csv=counters.csv"];
    let nodes = (0..4).map(|node| {
        let options = if node == 0 { &options[..] } else { &options[..1] };
        start(&place, node, options, &tool)
    });
    let errors = finished(nodes.collect());
    let heading =
        format!("4 nodes, 4 NICs (software NICs) (Slurm job {} step 0): ", std::process::id());
    assert!(errors[0].starts_with(&heading), "{}", errors[0]);
    assert!(errors[1..].iter().all(String::is_empty), "{errors:?}");
    let sent = place.deltas("hni_tx_ok_opt");
    assert!(sent.len() == 4 && sent.iter().all(|count| *count == sent[0]), "{sent:?}");
    assert!(
        !place.left().iter().any(|name| name.starts_with("cxidiag-stat.")),
        "{:?}",
        place.left()
    );
}

#[test]
fn names_nodes_that_leave_nothing() {
    let place = Place::new();
    // The first node comes last.
    let others = [1, 2].map(|node| start(&place, node, &[], &["true"]));
    finished(others.into());
    let errors = finished(vec![start(&place, 0, &["--gather=0.01"], &["true"])]);
    assert!(
        errors[0].contains("\nno readings from nid3 (when they have ended: cxidiag stat --merge "),
        "{}",
        errors[0]
    );
    // The files are still there.
    let merged = finish(place.cxidiag(&["stat", "--merge", &step(&place)]));
    assert_status(&merged, 0);
    let text = stdout(&merged);
    assert!(text.starts_with("3 nodes, 3 NICs"), "{text}");
    assert!(text.contains("\nno readings from nid3\n"), "{text}");
}

#[test]
fn each_node_reports_itself_without_gathering() {
    let place = Place::new();
    let options = ["--no-gather", "--csv=counters.csv"];
    let nodes = (0..4).map(|node| start(&place, node, &options, &["true"]));
    for errors in finished(nodes.collect()) {
        assert!(errors.starts_with("1 node, 1 NIC"), "{errors}");
    }
    // All nodes have the same options, but a file each.
    for node in 0..4 {
        let name = format!("counters.nid{node}.csv");
        let table = fs::read_to_string(place.path().join(name)).expect("a file");
        let own = format!("nid{node},soft0,");
        assert!(table.lines().skip(1).all(|line| line.starts_with(&own)));
    }
    assert!(!place.path().join("counters.csv").exists());
    let merged = finish(place.cxidiag(&["stat", "--merge", &step(&place)]));
    assert!(stdout(&merged).starts_with("4 nodes, 4 NICs"), "{}", stderr(&merged));
}

#[test]
fn refuses_directories_without_readings() {
    let place = Place::new();
    let refused = |arguments: &[&str]| {
        let output = finish(place.cxidiag(&[&["stat", "--merge"], arguments].concat()));
        assert_status(&output, 2)
    };
    assert!(refused(&[]).contains("--merge needs a directory"));
    assert!(refused(&["none"]).contains("no files of stat in none"));
    place.write("nid1.json", "{}");
    let errors = refused(&["."]);
    assert!(errors.contains("cannot read ./nid1.json: not a file of cxidiag stat"), "{errors}");
}

#[test]
fn merges_what_can_be_read_of_each_directory_once() {
    let place = Place::new();
    let step = many(&place, 3);
    fs::write(Path::new(&step).join("nid1.json"), "{}").expect("a file");
    let merged = finish(place.cxidiag(&["stat", "--merge", &step]));
    let errors = assert_status(&merged, 0);
    assert!(errors.contains("nid1.json: not a file of cxidiag stat"), "{errors}");
    let text = stdout(&merged);
    assert!(text.starts_with("2 nodes, 2 NICs"), "{text}");
    let twice = finish(place.cxidiag(&["stat", "--merge", &step, &format!("{step}/.")]));
    let errors = assert_status(&twice, 2);
    assert!(errors.contains("is named twice"), "{errors}");
}

/// A job that runs again in the same directory counts anew.
#[test]
fn files_of_an_earlier_command_are_replaced() {
    let place = Place::new();
    let step = many(&place, 1);
    let json = Path::new(&step).join("nid0.json");
    fs::write(&json, "old").expect("a file");
    let script = format!("[ -e {} ] && exit 9; exit 0", json.display());
    finished(vec![start(&place, 0, &["--no-gather"], &["sh", "-c", &script])]);
}

/// Writes the readings of many nodes, as one node has left them.
fn many(place: &Place, count: usize) -> String {
    let nodes = finished(vec![start(place, 0, &["--no-gather"], &["true"])]);
    assert_eq!(nodes.len(), 1);
    let step = step(place);
    let first = Path::new(&step).join("nid0.json");
    let text = fs::read_to_string(&first).expect("a file");
    for node in 1..count {
        let name = format!("nid{node}");
        let text = text.replace("\"node\":\"nid0\"", &format!("\"node\":\"{name}\""));
        fs::write(Path::new(&step).join(format!("{name}.json")), text).expect("a file");
    }
    step
}

#[test]
fn merges_many_nodes() {
    let place = Place::new();
    let step = many(&place, 1000);
    let merged = finish(place.cxidiag(&["stat", "--merge", &step, "--json=stat.json"]));
    assert_status(&merged, 0);
    let text = stdout(&merged);
    assert!(text.starts_with("1000 nodes, 1000 NICs"), "{text}");
}
