//! `survey`: several processes with a software NIC each, as a user runs them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::alone;
use crate::harness::planted::member;
use crate::harness::{
    Command, Fabric, Process, Server, assert_status, assert_success, finish, schema, stderr, stdout,
};

/// The document of a survey, which is valid by its schema.
fn document(output: &Output) -> Value {
    schema::document(
        include_str!("../../docs/survey.schema.json"),
        &stdout(output),
    )
}

/// Arguments of surveys that are not interrupted: the longest slots take 133 ms instead of 333 ms.
const SHORT: &str = "--pair-time=20ms";

/// Runs a survey with variables of the environment. Returns its output and document.
fn survey(arguments: &str, variables: &[(&str, &str)]) -> (Output, Value) {
    let fabric = Fabric::new();
    let mut command = fabric.command(&format!("survey {arguments} --json"));
    command.envs(variables.iter().copied());
    let output = finish(command);
    let document = document(&output);
    fabric.assert_nothing_left();
    (output, document)
}

/// Why pairs are untested on a busy machine.
const BUSY: [&str; 2] = ["waited for its CPU", "late for its slot"];

/// Runs surveys of a fabric with a fault until one finds it. On a busy machine, too many pairs may
/// be untested for a verdict, and the exit status is 4. Then the next survey, which gets its
/// options, has longer slots. One pair at a time needs the fewest CPUs.
#[track_caller]
fn bad_one_of_ten<T>(survey: impl Fn(&str) -> (Output, T)) -> (Output, T) {
    for attempt in 0..10 {
        let pair_time = 20 << attempt.min(4);
        let (output, found) = survey(&format!("--max-active=1 --pair-time={pair_time}ms"));
        if output.status.code() != Some(4) {
            assert_status(&output, 3);
            return (output, found);
        }
        let text = stdout(&output);
        assert!(BUSY.iter().any(|reason| text.contains(reason)), "{text}");
    }
    panic!("ten surveys have not measured enough pairs");
}

/// Returns the names of the NICs that are bad by themselves, and the number of other bad parts.
fn bad(document: &Value) -> (Vec<String>, usize) {
    let culprits = document["verdict"]["culprits"].as_array().unwrap();
    let bad = culprits.iter().filter(|culprit| culprit["word"] == "bad");
    let mut nics = Vec::new();
    let mut others = 0;
    for culprit in bad {
        match culprit["unit"]["nic"]
            .as_u64()
            .or(culprit["unit"]["node"].as_u64())
        {
            Some(nic) => nics.push(device(document, nic)),
            None => others += 1,
        }
    }
    (nics, others)
}

fn device(document: &Value, nic: u64) -> String {
    let nic = &document["roster"]["nics"][nic as usize];
    nic["device"].as_str().unwrap().to_owned()
}

/// Returns why nodes take no part any more, with their ranks.
fn absent(document: &Value) -> Vec<(u64, String)> {
    let nodes = document["roster"]["nodes"].as_array().unwrap().iter();
    let absent = nodes.filter_map(|node| {
        let reason = node["absent"].as_str()?;
        Some((node["rank"].as_u64()?, reason.to_owned()))
    });
    absent.collect()
}

fn no_variable() -> &'static [(&'static str, &'static str)] {
    &[]
}

#[test]
fn measures_all_pairs_with_each_tool() {
    let _alone = alone();
    let (output, document) = survey(
        &format!("--loopback=4 --pairs=all {SHORT} write-lat send-lat write-bw"),
        no_variable(),
    );
    // A process may have waited for its CPU: such a pair is untested, and nothing is bad.
    assert!(
        [Some(0), Some(4)].contains(&output.status.code()),
        "{}",
        stdout(&output)
    );
    let verdict = &document["verdict"];
    assert_eq!(verdict["planned"], 3 * 6);
    assert_eq!(bad(&document), (vec![], 0), "{}", stdout(&output));
    let devices: Vec<String> = (0..4).map(|nic| device(&document, nic)).collect();
    assert_eq!(devices, ["soft0", "soft1", "soft2", "soft3"]);
    for (matrix, of_bandwidth) in verdict["matrices"]
        .as_array()
        .unwrap()
        .iter()
        .zip([false, false, true])
    {
        let test = &document["setup"]["tests"][matrix["test"].as_u64().unwrap() as usize];
        assert_eq!(test["of_bandwidth"], of_bandwidth);
        for cell in matrix["cells"].as_array().unwrap() {
            let figure = cell[2].as_f64().unwrap_or_else(|| panic!("{test}: {cell}"));
            // Nanoseconds, or bytes per second.
            let plausible = if of_bandwidth { 1e6..1e12 } else { 100.0..1e8 };
            assert!(plausible.contains(&figure), "{test}: {cell}");
        }
    }
}

#[test]
fn names_slow_nic() {
    let _alone = alone();
    let (output, directory) = bad_one_of_ten(|options| {
        let fabric = Fabric::new();
        let directory = tempfile::tempdir().unwrap();
        let arguments = format!("survey --loopback=5 {options} --bad-nodes=bad --json=found.json");
        let mut command = fabric.command(&arguments);
        command
            .env("CXIDIAG_LINK", "nic=2,latency=5ms")
            .current_dir(directory.path());
        (finish(command), directory)
    });
    let text = stdout(&output);
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let document = schema::document(
        include_str!("../../docs/survey.schema.json"),
        &read("found.json"),
    );
    assert_eq!(bad(&document), (vec!["soft2".to_owned()], 0), "{text}");
    assert_eq!(read("bad"), "", "node2 is no node of the cluster");
    assert!(stderr(&output).contains("--bad-nodes (the file stays empty"));
    assert!(text.starts_with("bad: 1 NIC"), "{text}");
    assert!(text.contains("node2 soft2: writes "), "{text}");
    assert!(
        text.contains("software NICs: no Cassini hardware involved"),
        "{text}"
    );
}

#[test]
fn names_nic_whose_operations_fail() {
    let _alone = alone();
    let failing = ("CXIDIAG_FAULTS", "nic=1,error=PT_DISABLED:0.9");
    let (output, document) =
        bad_one_of_ten(|options| survey(&format!("--loopback=5 {options}"), &[failing]));
    assert_eq!(
        bad(&document),
        (vec!["soft1".to_owned()], 0),
        "{}",
        stdout(&output)
    );
    let evidence = &document["verdict"]["culprits"][0]["evidence"][0];
    assert_eq!(evidence["source"], "failure");
    assert!(
        evidence["failure"]
            .as_str()
            .unwrap()
            .contains("PT_DISABLED")
    );
}

/// A NIC that cannot be opened is no measurement of it.
#[test]
fn nic_without_link_is_untested() {
    let _alone = alone();
    let (output, document) = survey(
        &format!("--loopback=4 {SHORT}"),
        &[("CXIDIAG_FAULTS", "nic=1,down=0s")],
    );
    assert_eq!(output.status.code(), Some(4), "{}", stdout(&output));
    assert_eq!(
        document["roster"]["nics"][1]["failure"],
        "the link of soft1 is down"
    );
    assert_eq!(bad(&document), (vec![], 0));
}

/// Runs a survey, and sends a signal to the member of a rank when the first results are written.
fn with_signal(rank: u32, signal: Signal) -> Value {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("lines");
    let arguments = format!(
        "survey --loopback=4 --pairs=all write-lat read-lat --json --jsonl={}",
        lines.display()
    );
    let mut survey = start(fabric.command(&arguments));
    wait_for_lines(&mut survey, &lines, 2);
    kill_process(member(&fabric, rank).expect("a member"), signal).unwrap();
    let output = survey.finish();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    document(&output)
}

fn start(mut command: Command) -> Process {
    command.spawn().expect("the program starts")
}

/// Waits until a survey has written this number of lines.
fn wait_for_lines(survey: &mut Process, path: &Path, count: usize) {
    while fs::read_to_string(path).map_or(0, |text| text.lines().count()) < count {
        let ended = survey.try_wait();
        assert!(ended.is_none(), "the survey has ended before {count} lines");
        std::thread::yield_now();
    }
}

#[test]
fn names_killed_and_stopped_processes() {
    let _alone = alone();
    for (signal, reason) in [
        (Signal::KILL, "closed its connection"),
        (Signal::STOP, "did not report"),
    ] {
        let document = with_signal(2, signal);
        let absent = absent(&document);
        assert_eq!(absent.len(), 1, "{absent:?}");
        assert_eq!(absent[0].0, 2, "{absent:?}");
        assert!(absent[0].1.contains(reason), "{absent:?}");
        assert_eq!(bad(&document), (vec![], 0), "{signal:?}: {document}");
    }
}

#[test]
fn interrupted_survey_writes_its_results_and_is_resumed() {
    let _alone = alone();
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let lines = directory.path().join("lines");
    let arguments = format!(
        "survey --loopback=4 --pairs=all write-lat read-lat --json --jsonl={}",
        lines.display()
    );
    let mut survey = start(fabric.command(&arguments));
    wait_for_lines(&mut survey, &lines, 2);
    kill_process(Pid::from_raw(survey.id() as i32).unwrap(), Signal::TERM).unwrap();
    let output = survey.finish();
    assert_status(&output, 130);
    let interrupted = document(&output);
    assert_eq!(interrupted["conclusion"], "interrupted");
    let answered = |document: &Value| document["verdict"]["answered"].as_u64().unwrap();
    assert!(answered(&interrupted) < 12, "{interrupted}");
    let before = fs::read_to_string(&lines).unwrap().len();

    let output = fabric.run(&format!("{arguments} --resume={}", lines.display()));
    let resumed = document(&output);
    assert_eq!(resumed["verdict"]["planned"], 12);
    assert!(answered(&resumed) >= answered(&interrupted));
    assert!(
        stderr(&output).contains("earlier results"),
        "{}",
        stderr(&output)
    );
    let text = fs::read_to_string(&lines).unwrap();
    let (earlier, new) = text.split_at(before);
    let measured = sweep(earlier, |answer| !answer["measured"].is_null());
    let again = sweep(new, |_| true);
    assert!(measured.is_disjoint(&again), "{text}");
    assert_eq!(measured.union(&again).count(), 12, "{text}");
}

/// Returns tool and NICs of each pair of the sweep in `lines` whose answer `is_wanted`.
fn sweep(lines: &str, is_wanted: impl Fn(&Value) -> bool) -> BTreeSet<[String; 3]> {
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["stage"] == "sweep" && is_wanted(&line["answer"]))
        .map(|line| {
            [
                &line["tool"],
                &line["initiator"]["device"],
                &line["target"]["device"],
            ]
            .map(Value::to_string)
        })
        .collect()
}

/// The variables of a launcher are all that a task needs.
fn task(fabric: &Fabric, directory: &Path, rank: u32, size: u32, more: &str) -> Command {
    let mut command = fabric.command(&format!("survey --device=soft{rank} {more}"));
    command
        .current_dir(directory)
        .env("OMPI_COMM_WORLD_RANK", rank.to_string())
        .env("OMPI_COMM_WORLD_SIZE", size.to_string());
    command
}

#[test]
fn tasks_of_a_launcher_find_each_other() {
    let _alone = alone();
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let first = start(task(&fabric, directory.path(), 0, 3, "--pairs=all --json"));
    let others = [1, 2].map(|rank| {
        start(task(
            &fabric,
            directory.path(),
            rank,
            3,
            "--pairs=all --json",
        ))
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

/// A task of Slurm on a node of its own, whose name is an address of this machine.
fn task_of_slurm(fabric: &Fabric, directory: &Path, rank: u32, size: u32, more: &str) -> Command {
    let mut command = fabric.command(&format!("survey --device=soft{rank} {more}"));
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

/// Returns the node of a task of Slurm.
fn host(rank: u32) -> String {
    format!("127.0.0.{}", rank + 1)
}

#[test]
fn tasks_check_their_nodes_first() {
    let _alone = alone();
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().unwrap());
    let options = "--check --expect=p50<1s --pairs=all --json=found.json";
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
    assert!(
        stdout(&output).starts_with("good: 3 NICs, 3 pairs"),
        "{}",
        stdout(&output)
    );
    for task in others {
        let output = task.finish();
        assert_success(&output);
        assert_eq!(stdout(&output), "");
    }
    let left = fs::read_dir(directory.path()).expect("a directory");
    let names: Vec<_> = left.flatten().map(|file| file.file_name()).collect();
    assert_eq!(names, ["found.json"]);
}

#[test]
fn servers_check_their_nodes_first() {
    let _alone = alone();
    let fabric = Fabric::new();
    let server = |host: u32, port: &str| {
        let arguments = format!("serve --device=soft{host} --bind=127.0.0.{host} --port={port}");
        let mut command = fabric.command(&arguments);
        if host == 2 {
            command.env("CXIDIAG_FAULTS", "pcie-width=8");
        }
        Server::start(command)
    };
    let first = server(1, "0");
    let _second = server(2, &first.port);
    let port = &first.port;
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.[1-2] --port={port} --check --expect=p50<1s --quiet"
    ));
    assert_status(&output, 3);
    let checked = "cxidiag survey: check: bad: 1 of 2 nodes; 1 ";
    assert!(stderr(&output).contains(checked), "{}", stderr(&output));
}

/// The launcher merges what its tasks print: only the first one prints why the survey has failed.
#[test]
fn tasks_end_silently_with_coordinator_that_fails_at_start() {
    for (arguments, status, message) in [
        ("--resume=nofile", 2, "'nofile' for --resume: No such file"),
        ("--json=no/file", 1, "no/file"),
        (
            "--meeting-point=/no/file",
            1,
            "--meeting-point names another file",
        ),
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
    let _alone = alone();
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
    let _alone = alone();
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
    let _alone = alone();
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let first = start(task(
        &fabric,
        directory.path(),
        0,
        4,
        &format!("{SHORT} --json"),
    ));
    let vni = ["", "", "--vni=10", ""];
    let others =
        [1, 2, 3].map(|rank| start(task(&fabric, directory.path(), rank, 4, vni[rank as usize])));
    let output = first.finish();
    let document = document(&output);
    let failures: Vec<&Value> = document["roster"]["nics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|nic| &nic["failure"])
        .collect();
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
    for (rank, arguments) in [0, 1]
        .into_iter()
        .flat_map(|rank| arguments.map(|arguments| (rank, arguments)))
    {
        let refused = start(task(&fabric, directory.path(), rank, 2, arguments));
        assert_status(&refused.finish(), 2);
    }
}

#[test]
fn members_of_servers_take_part() {
    let _alone = alone();
    let fabric = Fabric::new();
    let server = |host: u32, port: &str| {
        let arguments = format!("serve --device=soft{host} --bind=127.0.0.{host} --port={port}");
        Server::start(fabric.command(&arguments))
    };
    // One port for all: each server has an address of its own.
    let first = server(1, "0");
    let others = [2, 3].map(|host| server(host, &first.port));
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.[1-4] --port={} --pairs=all {SHORT} --json",
        first.port
    ));
    let document = document(&output);
    let absent = absent(&document);
    assert_eq!(absent.len(), 1);
    let reason = "refused (does 'cxidiag serve' run there?)";
    assert!(absent[0].1.ends_with(reason), "{absent:?}");
    assert_eq!(document["verdict"]["planned"], 3, "{}", stdout(&output));
    for mut server in [first].into_iter().chain(others) {
        server.wait_for("done");
    }
}

#[test]
fn members_that_their_servers_end_leave_nothing() {
    let _alone = alone();
    let fabric = Fabric::new();
    let server = |host: u32, port: &str| {
        let arguments =
            format!("serve --device=soft{host} --bind=127.0.0.{host} --port={port} --max-run=2");
        Server::start(fabric.command(&arguments))
    };
    let first = server(1, "0");
    let second = server(2, &first.port);
    let port = &first.port;
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.[1-2] --port={port} --pair-time=60s"
    ));
    assert_status(&output, 4);
    for mut server in [first, second] {
        server.wait_for(" failed after ");
    }
    fabric.assert_nothing_left();
}

/// The second process would wait for the first one.
#[test]
fn refuses_two_names_of_one_server() {
    let _alone = alone();
    let fabric = Fabric::new();
    let server = fabric.server("serve", "--device=soft1");
    let port = &server.port;
    let output = fabric.run(&format!("survey --hosts=127.0.0.1,127.1 --port={port}"));
    assert_status(&output, 2);
    let message = "127.0.0.1 and 127.1 are the same host (127.0.0.1)";
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
}

#[test]
fn member_of_server_takes_turn_at_all_its_nics() {
    let _alone = alone();
    let fabric = Fabric::new();
    let mut server = fabric.server("serve", "--device=soft1");
    let port = &server.port;
    fabric.run(&format!(
        "survey --hosts=127.0.0.1 --port={port} --device=soft8,soft9 --pairs=loopback --quiet"
    ));
    server.wait_for(" survey on soft8,soft9: begins\n");
}

#[test]
fn server_refuses_survey_with_large_buffers() {
    let fabric = Fabric::new();
    let server = fabric.server("serve", "--device=soft1 --max-buffers=1M");
    let port = &server.port;
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.1 --port={port} --device=soft8 --pairs=loopback --size=4M --json \
         write-bw"
    ));
    let absent = absent(&document(&output));
    let reason = "MiB here; --max-buffers of the server is 1.0 MiB";
    assert!(absent[0].1.ends_with(reason), "{absent:?}");
}

#[test]
fn server_refuses_survey_with_hosts_that_are_not_allowed() {
    let fabric = Fabric::new();
    let server = fabric.server("serve", "--device=soft1 --allow=127.0.0.1");
    let port = &server.port;
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.1,127.0.0.9 --port={port} --json"
    ));
    let absent = absent(&document(&output));
    let reason = "--allow of the server does not list 127.0.0.9/32, which the survey includes";
    assert!(absent[0].1.ends_with(reason), "{absent:?}");
}

#[test]
fn quiet_survey_with_a_table_on_standard_output_has_its_verdict_on_standard_error() {
    let _alone = alone();
    // On a busy machine, pairs may be untested.
    let survey =
        || Fabric::new().run("survey --loopback=2 --pairs=loopback --expect=p50<1s --quiet --csv");
    let output = (0..10).map(|_| survey()).find(|output| {
        let verdict = stderr(output);
        let is_one_line = verdict.lines().count() == 1;
        assert!(
            is_one_line && verdict.starts_with("cxidiag survey: "),
            "{verdict}"
        );
        output.status.success()
    });
    let output = output.expect("ten surveys have not measured all pairs");
    let verdict = "cxidiag survey: good: 2 NICs, 2 pairs measured\n";
    assert_eq!(stderr(&output), verdict);
    assert!(stdout(&output).starts_with("tool,"), "{}", stdout(&output));
}

#[test]
fn refuses_invalid_arguments() {
    let fabric = Fabric::new();
    for (arguments, expected) in [
        (
            "--loopback=1",
            "'1' for --loopback: expected a decimal number from 2 to 100",
        ),
        (
            "--loopback=4 --hosts=a",
            "--loopback and --hosts exclude each other",
        ),
        ("--loopback=4 --check", "--check checks nodes"),
        (
            "--loopback=4 write-lta",
            "unknown tool 'write-lta': did you mean write-lat",
        ),
        ("--loopback=4 --pairs=some", "unknown selection 'some'"),
        (
            "--loopback=4 --pairs=loopback send-lat",
            "loopback pairs are not possible with send-lat",
        ),
        ("--loopback=4 --size=0", "for --size"),
        (
            "--loopback=4 --expect=bw>1GB/s",
            "none of the tools measures it",
        ),
        ("--loopback=4 --expect=p50<1", "needs a number and a unit"),
        (
            "--loopback=4 write-bw -- --bidirectional",
            "--bidirectional is not possible in a survey",
        ),
        ("--loopback=4 -- --nonsense", "unknown option '--nonsense'"),
        (
            "--loopback=4 --locations=nofile",
            "'nofile' for --locations: No such file",
        ),
        (
            "--loopback=4 --resume=nofile",
            "'nofile' for --resume: No such file",
        ),
        ("--loopback=4 --pair-time=0", "for --pair-time"),
        (
            "--loopback=4 --join=500ms",
            "'500ms' for --join: expected a time from 1s to",
        ),
        ("--hosts=n[4-1]", "for --hosts"),
        (
            "--hosts=n[1-4],n3",
            "'n[1-4],n3' for --hosts: n3 is named twice",
        ),
        ("--hosts=a -p 0", "for --port"),
        ("--loopback=4 --device=soft1", "leave out --device"),
        (
            "--device=soft1,soft1 --loopback=3",
            "expected each NIC once",
        ),
        (
            "--loopback=4 --csv --json",
            "only one document can go to standard output",
        ),
        (
            "--loopback=4 --nics=both",
            "'both' for --nics: expected turn or once",
        ),
        ("", "no launcher has started this process"),
    ] {
        let output = fabric.run(&format!("survey {arguments}"));
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let message = stderr(&output);
        assert!(message.contains(expected), "{arguments}: {message}");
        assert_eq!(stdout(&output), "", "{arguments}");
    }
}
