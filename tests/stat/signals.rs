//! Which signals the command gets (monitoring.md 1.6 vector 4).

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::harness::terminal::{has_python, on_terminal};
use crate::harness::{CXIDIAG, Command, Process, assert_status, finish, stdout};
use crate::{Place, wait_for};

/// The command: notes each signal in the file `log`. After the first one, it sends the signal that
/// its argument names to the leader, and ends when it gets that one. The leader handles signals in
/// order, so a second copy of the first signal would come before that.
const SCRIPT: &str = "
import os, signal, sys
last = signal.Signals[sys.argv[1]]
wanted = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
log = open('log', 'w', buffering=1)
open('ready', 'w').close()
print('ready', flush=True)
while True:
    found = signal.sigtimedwait(wanted, 120)
    if found is None:
        sys.exit('no signal came')
    found = found.si_signo
    log.write(signal.Signals(found).name + ' ')
    if found == last:
        break
    os.kill(os.getppid(), last)
";

/// Blocks signals, and executes its arguments.
const BLOCKED: &str = "
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
os.execvp(sys.argv[1], sys.argv[1:])
";

/// Executes its arguments as the leader of a session with a terminal that hangs up as soon as the
/// command has begun. The kernel signals the leader of the session alone.
const HANG_UP: &str = "
import os, pty, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
end = time.monotonic() + 120
while not os.path.exists('ready'):
    if time.monotonic() > end:
        sys.exit('the command has not begun')
    time.sleep(0.02)
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

/// Starts the command below a leader that is the first of its process group.
fn start(place: &Place, options: &[&str], last: &str) -> (Process, Pid) {
    let script = place.write("script.py", SCRIPT);
    let leading = ["stat", "soft0"];
    let command = ["--", "python3", &script, last];
    let mut setsid = Command::new("setsid");
    setsid
        .arg(CXIDIAG)
        .args([&leading[..], options, &command].concat())
        .current_dir(place.path())
        .env("CXIDIAG_FABRIC_DIR", place.fabric.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let process = setsid.spawn().expect("it starts");
    place.wait_for_file("ready");
    let leader = Pid::from_raw(process.id().cast_signed()).expect("a process");
    (process, leader)
}

fn log(directory: &Path) -> String {
    fs::read_to_string(directory.join("log")).expect("a file")
}

#[test]
fn command_gets_each_signal_once() {
    if !has_python() {
        return;
    }
    for (signal, to_group, options, last, expected) in [
        (Signal::TERM, false, &[][..], "SIGHUP", "SIGTERM SIGHUP "),
        (Signal::INT, false, &[], "SIGTERM", "SIGINT SIGTERM "),
        (Signal::USR1, true, &[], "SIGTERM", "SIGUSR1 SIGTERM "),
        (Signal::USR1, false, &[], "SIGTERM", "SIGUSR1 SIGTERM "),
        (Signal::TERM, true, &[], "SIGHUP", "SIGTERM SIGHUP "),
        (Signal::USR1, false, &["--forward=all"], "SIGTERM", "SIGUSR1 SIGTERM "),
    ] {
        let place = Place::new();
        let (process, leader) = start(&place, options, last);
        if to_group {
            kill_process_group(leader, signal).expect("a signal");
        } else {
            kill_process(leader, signal).expect("a signal");
        }
        assert_status(&process.finish(), 0);
        let log = log(place.path());
        assert_eq!(log, expected, "{signal:?} {to_group} {options:?}");
    }
}

/// `timeout` signals its child, and then the group.
#[test]
fn command_gets_a_signal_to_leader_and_group_once() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let (process, leader) = start(&place, &[], "SIGHUP");
    kill_process(leader, Signal::TERM).expect("a signal");
    kill_process_group(leader, Signal::TERM).expect("a signal");
    assert_status(&process.finish(), 0);
    assert_eq!(log(place.path()), "SIGTERM SIGHUP ");
}

#[test]
fn command_gets_ctrl_c_of_the_terminal_once() {
    let place = Place::new();
    let script = place.write("script.py", SCRIPT);
    let stat = format!("exec {CXIDIAG} stat soft0 -- python3 {script} SIGTERM");
    let Some(mut terminal) = on_terminal(&place.fabric, "interrupt", "ready", &stat) else {
        return;
    };
    terminal.current_dir(place.path());
    assert_status(&finish(terminal), 0);
    assert_eq!(log(place.path()), "SIGINT SIGTERM ");
}

#[test]
fn sees_the_end_of_the_command_with_blocked_signals() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let script = place.write("blocked.py", BLOCKED);
    // Some shells unblock signals.
    let mask = ["grep", "SigBlk", "/proc/self/status"];
    let run = |arguments: &[&str]| {
        let mut python = Command::new("python3");
        python.arg(&script).args(arguments);
        python.current_dir(place.path());
        python.env("CXIDIAG_FABRIC_DIR", place.fabric.path());
        let output = finish(python);
        assert_status(&output, 0);
        stdout(&output)
    };
    let alone = run(&mask);
    assert!(alone.contains("14000"), "{alone}");
    assert_eq!(run(&[&[CXIDIAG, "stat", "soft0", "--"][..], &mask].concat()), alone);
}

/// A container has PID namespaces of its own: the leader is its process 1, and its session and its
/// parent are outside.
#[test]
fn command_gets_signals_in_a_pid_namespace_without_its_session() {
    let namespace = ["unshare", "--map-root-user", "--pid", "--fork"];
    let namespace_output = |place: &Place, arguments: &[&str]| {
        let mut unshare = Command::new(namespace[0]);
        unshare.args(&namespace[1..]).args(arguments);
        unshare.current_dir(place.path());
        unshare.env("CXIDIAG_FABRIC_DIR", place.fabric.path());
        finish(unshare)
    };
    let place = Place::new();
    if !namespace_output(&place, &["true"]).status.success() {
        println!("not tested: no PID namespaces");
        return;
    }
    place.write("go", "");
    let script = "trap 'exit 3' TERM; kill -TERM $PPID; while [ -e go ]; do sleep 0.02; done";
    let stat = [CXIDIAG, "stat", "soft0", "--", "sh", "-c", script];
    let errors = assert_status(&namespace_output(&place, &stat), 3);
    assert!(errors.contains("exit status 3"), "{errors}");
}

/// A signal of the user ends what the leader waits for after its command.
#[test]
fn ending_signal_after_the_command_ends_linger_and_gathering() {
    // One process of two has come: the other one is on this node, or on another one.
    for (option, tasks, nodes) in
        [("--linger=600", "2", "nid0"), ("--gather=600", "1(x2)", "nid[0-1]")]
    {
        let place = Place::new();
        let mut stat = place.stat(&[option], &["sh", "-c", "exit 7"]);
        stat.env("SLURM_JOB_ID", place.key())
            .env("SLURM_STEP_ID", "0")
            .env("SLURM_PROCID", "0")
            .env("SLURM_LOCALID", "0")
            .env("SLURM_NODEID", "0")
            .env("SLURM_STEP_NUM_TASKS", "2")
            .env("SLURM_STEP_TASKS_PER_NODE", tasks)
            .env("SLURM_STEP_NODELIST", nodes)
            .env("SLURMD_NODENAME", "nid0");
        let process = stat.spawn().expect("it starts");
        let leader = Pid::from_raw(process.id().cast_signed()).expect("a process");
        // The file of the node is there before the waits end.
        let file = place.path().join(format!("cxidiag-stat.{}.0/nid0.json", place.key()));
        wait_for("the file of the node", || file.exists().then_some(()));
        wait_for("the end of the leader", || {
            let _ = kill_process(leader, Signal::INT);
            let has_ended = fs::read_to_string(format!("/proc/{}/stat", leader.as_raw_nonzero()))
                .map_or(true, |text| text.contains(") Z "));
            has_ended.then_some(())
        });
        assert_status(&process.finish(), 7);
    }
}

#[test]
fn command_gets_the_end_of_the_terminal_that_the_leader_alone_sees() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let script = place.write("script.py", SCRIPT);
    let hang_up = place.write("hang_up.py", HANG_UP);
    let mut terminal = Command::new("python3");
    terminal
        .args([&hang_up, CXIDIAG, "stat", "soft0", "--", "sh", "-c"])
        // The script prints, which fails on a terminal that is closed.
        .arg(format!("exec python3 {script} SIGHUP > printed"))
        .current_dir(place.path())
        .env("CXIDIAG_FABRIC_DIR", place.fabric.path());
    assert_status(&finish(terminal), 0);
    assert_eq!(log(place.path()), "SIGHUP ");
}

/// The dispositions that `stat` needs for itself do not reach its command.
#[test]
fn command_inherits_ignored_signals() {
    let mask = ["grep", "SigIgn", "/proc/self/status"];
    let run = |arguments: &[&str]| {
        let place = Place::new();
        let mut env = Command::new("env");
        env.args(arguments).current_dir(place.path());
        env.env("CXIDIAG_FABRIC_DIR", place.fabric.path());
        finish(env)
    };
    for option in ["--ignore-signal=CHLD,PIPE,XFSZ", "--default-signal=CHLD,PIPE,XFSZ"] {
        let alone = run(&[&[option][..], &mask].concat());
        if !alone.status.success() {
            println!("not tested: no env {option}");
            return;
        }
        let leader = run(&[&[option, CXIDIAG, "stat", "soft0", "--"][..], &mask].concat());
        assert_status(&leader, 0);
        // Signals above 31 belong to the C library.
        let standard = |output| stdout(output).trim().chars().rev().take(8).collect::<String>();
        assert_eq!(standard(&leader), standard(&alone));
    }
}
