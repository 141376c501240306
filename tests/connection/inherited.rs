//! What the parent of a process leaves to it: ignored and blocked signals, limits.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Output;
use std::thread;

use crate::harness::paused::Side;
use crate::harness::{CXIDIAG, Command, Fabric, assert_status, finish, stderr, stdout};

/// `cxidiag` with `arguments`, started by env(1) with `options` for signals.
fn started_by_env(fabric: &Fabric, options: &[&str], arguments: &[&str]) -> Command {
    fabric.command_of(Path::new("env"), &[options, &[CXIDIAG], arguments].concat())
}

/// `cxidiag` with `arguments` under limits of the shell: `ulimit -f 8`.
fn under(fabric: &Fabric, limits: &str, arguments: &[&str]) -> Command {
    let script = format!("{limits}; exec \"$@\"");
    let shell = ["-c", &script, "sh", CXIDIAG];
    fabric.command_of(Path::new("sh"), &[&shell[..], arguments].concat())
}

fn has_env_with_signals() -> bool {
    let mut env = Command::new("env");
    let status = env.args(["--ignore-signal=CHLD", "true"]).output();
    let has = status.is_ok_and(|output| output.status.success());
    if !has {
        println!("not tested: no env --ignore-signal");
    }
    has
}

#[test]
fn runs_with_sigchld_ignored() {
    if !has_env_with_signals() {
        return;
    }
    for arguments in [
        &["write-lat", "--loopback", "-d", "soft0", "-n", "10"][..],
        &["survey", "--loopback=2"],
        &["check", "soft0"],
    ] {
        let fabric = Fabric::new();
        let usual = finish(fabric.command(arguments));
        let output = finish(started_by_env(&fabric, &["--ignore-signal=CHLD"], arguments));
        assert_eq!(output.status, usual.status, "{}", stderr(&output));
        assert_eq!(without_load(&output), without_load(&usual));
        fabric.assert_nothing_left();
    }
}

/// Returns what a command says on standard error, without the load of the machine.
fn without_load(output: &Output) -> String {
    let text = stderr(output);
    let lines = text.lines().filter(|line| !line.contains("the CPUs are busy"));
    lines.collect::<Vec<&str>>().join("\n")
}

#[test]
fn ends_by_signals_that_were_blocked() {
    if !has_env_with_signals() {
        return;
    }
    for signal in ["TERM", "INT", "HUP"] {
        let fabric = Fabric::new();
        let arguments = ["write-lat", "--loopback", "-d", "soft0", "-D", "600", "-s", "8"];
        let blocked = ["--block-signal=TERM,INT,HUP,USR1"];
        let run = started_by_env(&fabric, &blocked, &arguments);
        let mut run = Side::start(run, Some("measuring"));
        run.wait_for_pause();
        run.go_on();
        run.signal(signal);
        let output = run.finish();
        let error = assert_status(&output, 130);
        assert!(error.contains(&format!("interrupted by SIG{signal}")), "{error}");
        assert!(stdout(&output).contains("results are partial"));
        fabric.assert_nothing_left();
    }
}

fn niceness_of_threads(process: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).expect("threads");
    let thread = |task: io::Result<fs::DirEntry>| {
        // It may have ended.
        let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(") ")?;
        let niceness = rest.split(' ').nth(16)?;
        Some((name.split_once('(')?.1.to_owned(), niceness.to_owned()))
    };
    tasks.filter_map(thread).collect()
}

/// A process ends when all its threads have had a CPU. One with a lower priority gets it late
/// beside busy programs.
#[test]
fn threads_of_a_run_have_the_priority_of_their_process() {
    let fabric = Fabric::new();
    let arguments = ["write-lat", "--loopback", "-d", "soft0", "-D", "600", "-s", "8"];
    let mut run = Side::start(fabric.command(&arguments[..]), Some("measuring"));
    run.wait_for_pause();
    // A thread takes its name when it has a CPU.
    let threads = loop {
        let threads = niceness_of_threads(run.id());
        if threads.iter().any(|(name, _)| name == "ticks") {
            break threads;
        }
        thread::yield_now();
    };
    assert!(threads.iter().all(|(_, niceness)| *niceness == threads[0].1), "{threads:?}");
    run.go_on();
    run.signal("TERM");
    assert_status(&run.finish(), 130);
}

#[test]
fn names_limits_of_the_process() {
    for (limit, arguments, status) in [
        ("-f 8", &["write-lat", "--loopback", "-d", "soft0", "-n", "10"][..], 1),
        ("-f 8", &["check", "soft0"], 4),
        ("-f 8", &["survey", "--loopback=2"], 4),
        ("-n 4", &["write-lat", "-d", "soft0"], 1),
        ("-s 128", &["write-lat", "-d", "soft0"], 1),
        ("-s 128", &["survey", "--loopback=2"], 1),
        ("-s 128", &["check", "soft0"], 1),
        ("-v 262144", &["write-lat", "-d", "soft0"], 1),
        ("-v 262144", &["selftest", "-d", "soft0"], 1),
        ("-v 262144", &["devices", "soft0"], 1),
        // Exhaustion is never a finding about a NIC.
        ("-v 262144", &["check", "soft0"], 4),
        ("-v 262144", &["survey", "--loopback=2"], 4),
    ] {
        let fabric = Fabric::new();
        let output = finish(under(&fabric, &format!("ulimit {limit}"), arguments));
        let error = assert_status(&output, status);
        let text = (stdout(&output) + &error).replace("\n    ", " ");
        let name = format!("ulimit {}", &limit[..2]);
        assert!(text.contains(&name), "{arguments:?}: {text}");
    }
}

/// The soft limit is raised to the hard limit, which is named where it is too low for the members.
#[test]
fn names_limit_of_open_files_that_is_too_low_for_members() {
    let fabric = Fabric::new();
    let survey = ["survey", "--loopback=2"];
    let error = assert_status(&finish(under(&fabric, "ulimit -n 29", &survey)), 1);
    let reason =
        "2 processes need 30 open files in the coordinator, and its hard limit is 29 (ulimit -Hn)";
    assert!(error.contains(reason), "{error}");
    assert_status(&finish(under(&fabric, "ulimit -Sn 29", &survey)), 4);
}

/// Runs `cxidiag` with a limit of processes and threads, as a user without privileges: root has no
/// such limit. Returns its exit status and standard error; `None` without setpriv(1).
fn with_processes(limit: u32, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let limit = format!("--nproc={limit}");
    let limited = [&limit, "setpriv", "--reuid=31337", "--clear-groups", CXIDIAG];
    let mut command = Command::new("prlimit");
    let output = command.args(limited).args(arguments).output().ok()?;
    let error = stderr(&output);
    if error.starts_with("setpriv: ") || error.starts_with("prlimit: ") {
        println!("not tested: {error}");
        return None;
    }
    Some((output.status.code(), error))
}

#[test]
fn names_limit_of_processes_and_threads() {
    for (limit, arguments) in [
        (2, &["write-lat", "-d", "soft0"][..]),
        (2, &["check", "soft0"]),
        (4, &["survey", "--loopback=2"]),
    ] {
        if let Some((status, error)) = with_processes(limit, arguments) {
            assert!(
                error.contains("(ulimit -u, or pids.max of the cgroup)"),
                "{arguments:?}: {error}"
            );
            assert_eq!(status, Some(1), "{error}");
        }
    }
}

/// A thread of the software NIC or of a command that the limit prevents is a failure of the run,
/// whichever thread it is.
#[test]
fn exhausted_threads_are_never_a_finding() {
    for arguments in [
        &["check", "soft0", "--window=20ms"][..],
        &["write-lat", "--loopback", "-d", "soft0", "-n", "10"],
        &["devices", "soft0"],
    ] {
        for limit in 1..9 {
            let Some((status, error)) = with_processes(limit, arguments) else {
                return;
            };
            let context = format!("{limit}: {arguments:?}: {status:?}: {error}");
            assert!(!error.contains("panicked"), "{context}");
            assert!(matches!(status, Some(0 | 1 | 4)), "{context}");
            let is_named = error.contains("ulimit -u");
            assert!(status != Some(1) || is_named, "{context}");
        }
    }
}

/// Where the system permits no second process, `stat` becomes the command.
#[test]
fn runs_command_without_a_second_process() {
    let arguments = ["stat", "--", "sh", "-c", "exit 7"];
    if let Some((status, error)) = with_processes(1, &arguments) {
        assert!(error.contains("no process beside the command"), "{error}");
        assert_eq!(status, Some(7), "{error}");
    }
}

/// A container has 64 MiB in /dev/shm, or less.
#[test]
fn names_a_full_directory_of_software_nics() {
    for (arguments, status) in [
        (&["write-lat", "--loopback", "-d", "soft0", "-n", "10"][..], 1),
        (&["check", "soft0"], 4),
        (&["survey", "--loopback=4"], 4),
    ] {
        let fabric = Fabric::new();
        let script = "mount -t tmpfs -o size=1M small /mnt || exit 77
            export CXIDIAG_FABRIC_DIR=/mnt/fabric
            exec \"$@\"";
        let shell = ["--map-root-user", "--mount", "sh", "-c", script, "sh", CXIDIAG];
        let unshare = Path::new("unshare");
        let output = finish(fabric.command_of(unshare, &[&shell[..], arguments].concat()));
        if output.status.code() == Some(77) || stderr(&output).contains("unshare failed") {
            println!("not tested: no mount namespaces");
            return;
        }
        let error = assert_status(&output, status);
        let text = stdout(&output) + &error;
        assert!(text.contains("no space in the fabric directory"), "{arguments:?}: {text}");
        assert!(text.contains("1.0 MiB"), "{text}");
        assert!(!text.contains("RESOURCE_BUSY"), "{text}");
    }
}
