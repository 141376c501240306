//! Launchers of real clusters, on this machine: what their tasks find in their environment, and how
//! they meet. Tests of launchers that are not installed are left out.

mod harness;

use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use cxidiag::launcher::Task;
use cxidiag::meeting_point::{DEFAULT_LIMIT, MeetingPoint};
use cxidiag::token::Token;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use harness::slurm::{Slurm, are_installed, node, outside_of_jobs};
use harness::{finish, stderr, stdout};

/// What a task prints, before the line about itself.
const FOUND: &str = "found: ";

/// Arguments with which this test program is a task of a launcher.
const TASK: [&str; 4] = ["--ignored", "--exact", "task", "--nocapture"];

/// Not a test: the task that the tests start. It prints what it has found, and meets the others.
#[test]
#[ignore = "the other tests start it"]
fn task() {
    let task = Task::of_environment()
        .expect("valid variables")
        .expect("a launcher");
    let token = Token::of_environment();
    let point = MeetingPoint::of(&task, None, token.as_ref()).expect("a meeting point");
    if point.is_coordinator(&task) {
        let listener = TcpListener::bind(("0.0.0.0", point.port().unwrap_or(0))).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let _published = point.publish(&task, port).expect("a file");
        for _ in 1..task.size {
            let mut waiting = [PollFd::new(&listener, PollFlags::IN)];
            let limit = Timespec::try_from(DEFAULT_LIMIT).expect("a time");
            let connections = poll(&mut waiting, Some(&limit)).expect("poll");
            assert_eq!(connections, 1, "a task has not come");
            listener.accept().expect("a connection");
        }
    } else {
        let end = Instant::now() + DEFAULT_LIMIT;
        loop {
            let coordinator = point.find(&task, end).expect("a coordinator");
            if TcpStream::connect(&coordinator.addresses[..]).is_ok() {
                break;
            }
            assert!(
                Instant::now() < end,
                "cannot connect to {:?}",
                coordinator.addresses
            );
        }
    }
    let text = |value: &Option<String>| value.clone().unwrap_or("-".into());
    let number = |value: Option<u32>| value.map_or("-".into(), |number| number.to_string());
    println!(
        "\n{FOUND}{}, {} of node {} {}, job {} step {}, {} {}",
        task.source(),
        number(task.local_rank),
        number(task.node_index),
        text(&task.node),
        text(&task.job),
        text(&task.step),
        text(&task.first_host),
        text(&task.topology),
    );
}

/// Runs a launcher, whose last arguments start [`task`], to its end. Returns what the tasks have
/// found, in the order of their ranks.
#[track_caller]
fn found(mut launcher: Command) -> Vec<String> {
    launcher
        .arg(env::current_exe().expect("this program"))
        .args(TASK);
    let output = finish(launcher);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    let mut found: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix(FOUND))
        .map(str::to_owned)
        .collect();
    found.sort();
    found
}

#[test]
fn tasks_of_slurm_meet() {
    let Some(slurm) = Slurm::start(4) else {
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
    assert_eq!(
        found(step("--ntasks-per-node=1")),
        each(4, slurm.first_job, &|rank| [rank, 0])
    );
    // Without a file.
    let mut with_token = step("-n8 --distribution=cyclic");
    with_token.env("CXIDIAG_TOKEN", "secret");
    assert_eq!(
        found(with_token),
        each(8, slurm.first_job + 1, &|rank| [rank % 4, rank / 4])
    );
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

/// Returns a launcher that runs in `directory`.
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
