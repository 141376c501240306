//! Which signals the command gets (monitoring.md 1.6 vector 4).

use std::fs;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::harness::{CXIDIAG, Command, Process, assert_status, finish};
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
    found = signal.sigwaitinfo(wanted).si_signo
    log.write(signal.Signals(found).name + ' ')
    if found == last:
        break
    os.kill(os.getppid(), last)
";

const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/terminal.py");

fn has_python() -> bool {
    let mut python = Command::new("python3");
    python.arg("-c").arg("import signal").stdout(Stdio::null());
    let is_there = python.status().is_ok_and(|status| status.success());
    if !is_there {
        println!("not tested: no python3");
    }
    is_there
}

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
    wait_for(|| place.path().join("ready").exists().then_some(()));
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
        (
            Signal::USR1,
            false,
            &["--forward=all"],
            "SIGTERM",
            "SIGUSR1 SIGTERM ",
        ),
        (
            Signal::USR1,
            true,
            &["--forward=all"],
            "SIGTERM",
            "SIGUSR1 SIGUSR1 SIGTERM ",
        ),
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
        let is_expected = log == expected
            // Two copies of one signal that are pending at once are one signal.
            || expected.starts_with("SIGUSR1 SIGUSR1") && log == "SIGUSR1 SIGTERM ";
        assert!(is_expected, "{signal:?} {to_group} {options:?}: {log}");
    }
}

#[test]
fn command_gets_ctrl_c_of_the_terminal_once() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let script = place.write("script.py", SCRIPT);
    let stat = format!("exec {} stat soft0 -- python3 {script} SIGTERM", CXIDIAG);
    let mut terminal = Command::new("python3");
    terminal.args([TERMINAL, "interrupt", "ready", &stat]);
    terminal
        .current_dir(place.path())
        .env("CXIDIAG_FABRIC_DIR", place.fabric.path());
    assert_status(&finish(terminal), 0);
    assert_eq!(log(place.path()), "SIGINT SIGTERM ");
}
