//! Launchers of real clusters, on this machine: what their tasks find in their environment, and how
//! they meet. Tests of launchers that are not installed are left out.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crew::launcher::LauncherTask;
use crew::meeting_point::MeetingPoint;
use crew::star::JOIN_LIMIT;
use facts::token::Token;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use crate::cpus::{Work, cpus};
use crate::harness::slurm::{Slurm, are_installed, node, outside_of_jobs};
use crate::harness::{CXIDIAG, Command, Fabric, finish, stderr, stdout};

/// What a task prints, before the line about itself.
const FOUND: &str = "found: ";

/// Arguments with which this test program is a task of a launcher.
const TASK: [&str; 4] = ["--ignored", "--exact", "launchers::task", "--nocapture"];

/// Not a test: the task that the tests start. It prints what it has found, and meets the others.
#[test]
#[ignore = "the other tests start it"]
fn task() {
    let task = LauncherTask::from_environment().expect("valid variables").expect("a launcher");
    let token = Token::from_environment();
    let point = MeetingPoint::of(&task, None, token.as_ref()).expect("a meeting point");
    if point.is_coordinator(&task) {
        let listener = TcpListener::bind(("0.0.0.0", point.port().unwrap_or(0))).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let _published = point.publish(&task, port).expect("a file");
        for _ in 1..task.size {
            let mut waiting = [PollFd::new(&listener, PollFlags::IN)];
            let limit = Timespec::try_from(JOIN_LIMIT).expect("a time");
            let connections = poll(&mut waiting, Some(&limit)).expect("poll");
            assert_eq!(connections, 1, "a task has not come");
            listener.accept().expect("a connection");
        }
    } else {
        let end = Instant::now() + JOIN_LIMIT;
        loop {
            let coordinator = point.find(&task, end).expect("a coordinator");
            if TcpStream::connect(&coordinator.addresses[..]).is_ok() {
                break;
            }
            assert!(Instant::now() < end, "cannot connect to {:?}", coordinator.addresses);
        }
    }
    let text = |value: &Option<String>| value.clone().unwrap_or("-".into());
    let number = |value: Option<u32>| value.map_or("-".into(), |number| number.to_string());
    let found = format!(
        "\n{FOUND}{}, {} of node {} {}, job {} step {}, {} {}\n",
        task.source(),
        number(task.local_rank),
        number(task.node_index),
        text(&task.node),
        text(&task.job),
        text(&task.step),
        text(&task.hosts.first().cloned()),
        text(&task.topology),
    );
    // One write: the launcher merges what its tasks write, and a line may otherwise begin with
    // another task's text.
    io::stdout().write_all(found.as_bytes()).expect("a pipe");
}

/// Runs a launcher, whose last arguments start [`task`], to its end. Returns what the tasks have
/// found, in the order of their ranks.
#[track_caller]
fn found(mut launcher: Command) -> Vec<String> {
    launcher.arg(env::current_exe().expect("this program")).args(TASK);
    let output = finish(launcher);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    let mut found: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix(FOUND)).map(str::to_owned).collect();
    found.sort();
    found
}

#[test]
fn tasks_of_slurm_meet() {
    let (_cpus, Some(slurm)) = (cpus(Work::Waits), Slurm::start(4)) else {
        return;
    };
    let step = |arguments: &str| {
        let arguments = format!("-N4 --mpi=none {arguments}");
        slurm.program("srun", arguments.split_whitespace())
    };
    let each = |tasks: usize, job: u32, place: &dyn Fn(usize) -> [usize; 2]| -> Vec<String> {
        let line = |rank| {
            let [index, local_rank] = place(rank);
            let (node, switch) = (node(index + 1), index / 2 + 1);
            format!(
                "rank {rank} of {tasks} from Slurm (SLURM_PROCID), {local_rank} of node {index} \
                 {node}, job {job} step 0, 127.0.0.1 s0.s{switch}"
            )
        };
        (0..tasks).map(line).collect()
    };
    assert_eq!(found(step("--ntasks-per-node=1")), each(4, slurm.first_job, &|rank| [rank, 0]));
    // Without a file.
    let mut with_token = step("-n8 --distribution=cyclic");
    with_token.env("CXIDIAG_TOKEN", "secret");
    assert_eq!(found(with_token), each(8, slurm.first_job + 1, &|rank| [rank % 4, rank / 4]));
}

/// A survey of four nodes of Slurm, each with a NIC: soft0 on the first one, and so on.
struct Survey<'a> {
    slurm: &'a Slurm,
    fabric: Fabric,
    directory: tempfile::TempDir,
}

impl<'a> Survey<'a> {
    fn new(slurm: &'a Slurm) -> Self {
        Self {
            slurm,
            fabric: Fabric::new(),
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    /// Runs the survey of all pairs with `options`. On the third node, `before` runs before it.
    #[track_caller]
    fn run(&self, before: &str, options: &str) -> Found {
        let script = format!(
            "if [ $SLURM_NODEID = 2 ]; then {before}; fi
             exec {CXIDIAG} survey write-lat -d soft$SLURM_NODEID --pairs=all --max-active=1 \
                --json=found.json --jsonl=found.jsonl --bad-nodes=bad {options} $OPTIONS"
        );
        let arguments = ["-N4", "--mpi=none", "sh", "-c", &script];
        let mut launcher = self.slurm.program("srun", arguments);
        launcher.env("CXIDIAG_FABRIC_DIR", self.fabric.path()).current_dir(self.directory.path());
        let output = finish(launcher);
        let read = |name| fs::read_to_string(self.directory.path().join(name));
        let document = read("found.json").unwrap_or_else(|error| {
            panic!("{error}\n{}{}", stdout(&output), stderr(&output));
        });
        let left = fs::read_dir(self.directory.path()).expect("a directory");
        let left = left.map(|file| file.expect("an entry").file_name());
        let left: Vec<_> =
            left.filter(|name| !name.to_string_lossy().starts_with("found")).collect();
        assert_eq!(left, ["bad"], "the meeting point is left");
        Found {
            text: stdout(&output),
            document: serde_json::from_str(&document).expect("a document"),
            bad_nodes: read("bad").expect("a list"),
        }
    }
}

/// What a survey has found.
struct Found {
    text: String,
    document: Value,
    bad_nodes: String,
}

impl Found {
    /// Panics if anything is blamed.
    #[track_caller]
    fn assert_no_blame(&self) {
        assert_eq!(self.document["verdict"]["culprits"], json!([]), "{}", self.text);
        assert_eq!(self.bad_nodes, "");
    }

    /// Panics unless the third node, or its NIC, is untested for a reason that contains `reason`.
    #[track_caller]
    fn assert_untested(&self, unit: &str, reason: &str) {
        self.assert_no_blame();
        let untested = self.document["verdict"]["untested"].as_array().expect("a list");
        let third = untested.iter().find(|part| part["unit"][unit] == 2);
        let found = third.and_then(|part| part["reason"].as_str());
        assert!(found.is_some_and(|found| found.contains(reason)), "{}", self.text);
        assert_eq!(self.document["exit_status"], 4);
    }
}

#[test]
fn survey_of_slurm_blames_nic_that_loses_packets() {
    let (_cpus, Some(slurm)) = (cpus(Work::Waits), Slurm::start(4)) else {
        return;
    };
    // Pairs that waited for their CPUs are not measured: on a busy machine, these may be all.
    for _ in 0..10 {
        let found = Survey::new(&slurm).run("export CXIDIAG_FAULTS=loss=1", "");
        let causes = found.document["verdict"]["culprits"].as_array().expect("a list");
        let blamed: Vec<_> = causes.iter().map(|cause| &cause["unit"]).collect();
        if found.document["conclusion"] == "bad" {
            assert_eq!(blamed, [&json!({"nic": 2})], "{}", found.text);
            assert_eq!(found.bad_nodes, format!("{}\n", node(3)));
            assert_eq!(found.document["exit_status"], 3);
            return;
        }
        let is_third = |unit: &&Value| **unit == json!({"nic": 2});
        assert!(blamed.iter().all(is_third), "{}", found.text);
    }
    panic!("the survey has not measured enough pairs ten times");
}

#[test]
fn survey_of_slurm_names_nodes_that_fail() {
    let (_cpus, Some(slurm)) = (cpus(Work::Waits), Slurm::start(4)) else {
        return;
    };
    let other_vni = Survey::new(&slurm).run("OPTIONS=--vni=10", "");
    other_vni.assert_untested("nic", "its VNI is 10, that of most NICs is 1");
    // In the middle of the survey. A process that was stopped would keep its step.
    let signal = |signal: &str| {
        // The first line comes before the first pair.
        let before = format!(
            "process=$$; (until [ $(wc -l <found.jsonl) -gt 1 ]; do sleep 0.05; done; \
             kill -{signal} $process; until [ -s found.json ]; do sleep 0.05; done; \
             kill -KILL $process) 2>&- & true",
        );
        Survey::new(&slurm).run(&before, "--pair-time=100ms")
    };
    signal("KILL").assert_untested("node", "it failed or was killed");
    signal("STOP").assert_untested("node", "no report within");
}

#[test]
fn tasks_of_hydra_meet() {
    if !are_installed(&["mpiexec.hydra"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let launcher = in_directory("mpiexec.hydra -n 3", directory.path());
    let line = |rank| {
        format!("rank {rank} of 3 from Hydra (PMI_RANK), {rank} of node - -, job - step -, - -")
    };
    assert_eq!(found(launcher), [0, 1, 2].map(line));
    assert_is_empty(directory.path());
}

#[test]
fn tasks_of_open_mpi_meet() {
    if !are_installed(&["mpirun.openmpi"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let words = "mpirun.openmpi --allow-run-as-root --oversubscribe -np 3";
    let found = found(in_directory(words, directory.path()));
    for (rank, line) in found.iter().enumerate() {
        let start = format!(
            "rank {rank} of 3 from Open MPI (OMPI_COMM_WORLD_RANK), {rank} of node - -, job - step "
        );
        assert!(line.starts_with(&start), "{line}");
    }
    assert_eq!(found.len(), 3);
    assert_is_empty(directory.path());
}

/// Words of a shell: a survey that waits for the others long enough on a busy machine.
fn survey_of(device: &str) -> String {
    format!("{CXIDIAG} survey write-lat --no-why -d {device} --join=15s --json=found.json")
}

/// Runs a line of a launcher without one of the three tasks of a survey, then with all of them what
/// the survey prints. Both run in the shell that `shell` returns.
#[track_caller]
fn assert_printed_line_runs(line: &str, shell: impl Fn() -> Command) {
    let (fabric, directory) = (Fabric::new(), tempfile::tempdir().expect("a directory"));
    let run = |line: &str| {
        let mut shell = shell();
        shell.args(["-c", line]);
        shell.env("CXIDIAG_FABRIC_DIR", fabric.path()).current_dir(directory.path());
        finish(shell)
    };
    let document = |name: &str| -> Option<Value> {
        let text = fs::read_to_string(directory.path().join(name)).ok()?;
        Some(serde_json::from_str(&text).expect("a document"))
    };
    let output = run(line);
    let first = document("found.json").unwrap_or_else(|| panic!("{}", stderr(&output)));
    let next = first["next"].as_str().unwrap_or_else(|| panic!("{}", stdout(&output)));
    let text = stdout(&output);
    assert!(text.contains("\nNext: this command would decide in about "), "{text}");
    let printed = text.lines().find_map(|line| line.strip_suffix(next));
    assert_eq!(printed, Some("  "), "{text}");
    fs::write(directory.path().join("ready"), "").expect("a file");
    let output = run(next);
    let second = document("found-next.json");
    let second = second.unwrap_or_else(|| panic!("{next}: {}", stderr(&output)));
    let nodes = second["roster"]["nodes"].as_array().expect("nodes");
    assert!(nodes.len() == 3 && nodes.iter().all(|node| node["absent"].is_null()), "{second}");
    assert_eq!(document("found.json").as_ref(), Some(&first), "{next}");
}

#[test]
fn survey_prints_line_of_slurm_that_runs() {
    let (_cpus, Some(slurm)) = (cpus(Work::Waits), Slurm::start(3)) else {
        return;
    };
    let survey = survey_of("soft0");
    let line =
        format!("srun -N3 --mpi=none sh -c 'if [ $SLURM_NODEID != 2 ]; then exec {survey}; fi'");
    assert_printed_line_runs(&line, || slurm.program("sh", []));
}

#[test]
fn survey_prints_lines_of_mpi_launchers_that_run() {
    for (program, options) in
        [("mpirun.openmpi", " --allow-run-as-root --oversubscribe"), ("mpiexec.hydra", "")]
    {
        if are_installed(&[program]) {
            let [first, second, third] = ["soft0", "soft1", "soft2"].map(survey_of);
            let line = format!(
                "{program}{options} -n 1 {first} : -n 1 {second} : \
                 -n 1 sh -c 'if [ -e ready ]; then exec {third}; fi'"
            );
            assert_printed_line_runs(&line, || in_directory("sh", Path::new(".")));
        }
    }
}

/// A launcher that runs in `directory`.
fn in_directory(words: &str, directory: &Path) -> Command {
    let mut words = words.split_whitespace();
    let mut command = outside_of_jobs(words.next().expect("a program"));
    command
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[track_caller]
fn assert_is_empty(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory).expect("a directory").collect();
    assert!(left.is_empty(), "{left:?}");
}
