//! `cxidiag stat` under the launchers of clusters, on this machine. Tests of launchers that are not
//! installed are left out.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::slurm::{Slurm, are_installed, outside_of_jobs};
use crate::harness::{CXIDIAG, Command, Fabric, finish, stderr, stdout};

/// How long a test waits for a file, which is less than the time limit of a process.
const LIMIT: Duration = Duration::from_secs(150);

/// Steps that are run at most until srun shows the last lines of a task that a signal ends.
const ATTEMPTS: u32 = 20;

/// Runs `stat` as the last arguments of a launcher.
fn launch(mut launcher: Command, fabric: &Fabric, options: &[&str], command: &[&str]) -> Output {
    let arguments = [&["stat", "soft0"], options, &["--"], command].concat();
    launcher.arg(CXIDIAG).args(arguments).env("CXIDIAG_FABRIC_DIR", fabric.path());
    finish(launcher)
}

/// The reports, which are lines such as `4 nodes, 4 NICs ...`.
fn headings(output: &Output) -> Vec<String> {
    let errors = stderr(output);
    let lines = errors.lines().filter(|line| line.contains(" NIC") && line.contains(" node"));
    lines.map(str::to_owned).collect()
}

#[track_caller]
fn assert_nothing_left(directory: &Path) {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let left: Vec<String> = names.filter(|name| name.contains("cxidiag-stat")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn reports_all_nodes_of_a_step_of_slurm_once() {
    let Some(slurm) = Slurm::start(4) else {
        return;
    };
    let fabric = Fabric::new();
    let step = |arguments: &str| {
        let arguments = format!("--mpi=none {arguments}");
        slurm.program("srun", arguments.split_whitespace())
    };
    let output = launch(step("-N4 -n8"), &fabric, &["--gather=120"], &["sh", "-c", "echo ran"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "ran\n".repeat(8));
    let heading =
        format!("4 nodes, 4 NICs (software NICs) (Slurm job {} step 0): sh, ", slurm.first_job);
    let found = headings(&output);
    assert!(found.len() == 1 && found[0].starts_with(&heading), "{found:?}");
    assert!(!stderr(&output).contains("no readings from"), "{}", stderr(&output));
    assert_nothing_left(slurm.path());
    // The step ends as its command ends.
    let output = launch(step("-N2 -n2"), &fabric, &["--gather=120"], &["sh", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let found = headings(&output).concat();
    assert!(found.contains("exit status 7"), "{}", stderr(&output));
    let is_reported = |_| {
        let output = launch(step("-N1 -n1"), &fabric, &[], &["sh", "-c", "kill -9 $$"]);
        assert_eq!(output.status.code(), Some(128 + 9), "{}", stderr(&output));
        headings(&output).concat().contains("ended by signal 9")
    };
    let was_reported = (0..ATTEMPTS).any(is_reported);
    assert!(was_reported, "no report in {ATTEMPTS} attempts");
    assert_nothing_left(slurm.path());
}

/// The command: says when it has begun, and notes each signal with a line in the file `log`. After
/// SIGUSR1, it sends SIGTERM to the leader, which handles signals in order: a second copy of the
/// first one would come before that.
const SCRIPT: &str = "trap 'echo USR1 >> log; kill -TERM $PPID' USR1
    trap 'echo TERM >> log; exit 4' TERM
    touch ready; while [ -e ready ]; do sleep 0.05; done; exit 3";

/// Slurm signals every process of a step: the leader and its command.
#[test]
fn command_gets_signals_of_scancel_and_the_report_appears() {
    let Some(slurm) = Slurm::start(1) else {
        return;
    };
    let fabric = Fabric::new();
    let at = |name: &str| slurm.path().join(name);
    for (index, signal) in ["USR1", "TERM"].into_iter().enumerate() {
        for file in ["ready", "log"] {
            let _ = fs::remove_file(at(file));
        }
        let mut step = slurm.program("srun", ["-N1", "-n1", "--mpi=none"]);
        step.arg(CXIDIAG)
            .args(["stat", "soft0", "--", "sh", "-c", SCRIPT])
            .env("CXIDIAG_FABRIC_DIR", fabric.path());
        let process = step.spawn().expect("srun starts");
        wait_for_file(&at("ready"));
        let step = format!("{}.0", slurm.first_job + index as u32);
        let sent = finish(slurm.program("scancel", ["-s", signal, &step]));
        assert!(sent.status.success(), "{}", stderr(&sent));
        let output = process.finish();
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        let log = fs::read_to_string(at("log")).expect("a file");
        let lines: Vec<&str> = log.lines().collect();
        // The command may see the SIGTERM of Slurm and the one that the leader passes on.
        let terms = lines.iter().filter(|line| **line == "TERM").count();
        let usr1 = usize::from(signal == "USR1");
        assert!(terms >= 1 && lines.len() == usr1 + terms, "{signal}: {log}");
        assert_eq!(lines[0], signal);
        let found = headings(&output);
        let end = ", exit status 4";
        assert!(found.len() == 1 && found[0].ends_with(end), "{found:?}");
    }
    assert_nothing_left(slurm.path());
}

/// Waits until there is a file.
#[track_caller]
fn wait_for_file(path: &Path) {
    let end = Instant::now() + LIMIT;
    while !path.exists() {
        assert!(Instant::now() < end, "no file {}", path.display());
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_rank_of_hydra_and_of_open_mpi_reports() {
    for (program, words) in
        [("mpiexec.hydra", "-n 3"), ("mpirun.openmpi", "--allow-run-as-root --oversubscribe -np 3")]
    {
        if !are_installed(&[program]) {
            continue;
        }
        let (directory, fabric) = (tempfile::tempdir().expect("a directory"), Fabric::new());
        let mut launcher = outside_of_jobs(program);
        launcher
            .args(words.split(' '))
            .current_dir(directory.path())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let output = launch(launcher, &fabric, &["--linger=60"], &["sh", "-c", "echo ran"]);
        assert_eq!(output.status.code(), Some(0), "{program}: {}", stderr(&output));
        assert_eq!(stdout(&output), "ran\n".repeat(3), "{program}");
        let found = headings(&output);
        assert_eq!(found.len(), 1, "{program}: {}", stderr(&output));
        assert!(found[0].starts_with("1 node, 1 NIC (software NICs)"), "{program}: {found:?}");
        assert_nothing_left(directory.path());
    }
}
