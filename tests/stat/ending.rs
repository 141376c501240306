//! How `stat` ends: as its command.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use crate::harness::{CXIDIAG, Command, assert_status, finish, stderr, stdout};
use crate::{Place, wait_for};

use rustix::process::{Pid, Signal, kill_process};

/// monitoring.md 1.6 vector 1.
#[test]
fn ends_as_the_command_ends() {
    let place = Place::new();
    for (command, status, said) in [
        (&["true"][..], 0, "exit status 0"),
        (&["false"], 1, "exit status 1"),
        (&["sh", "-c", "exit 77"], 77, "exit status 77"),
        (&["/none"], 127, "cannot execute /none: No such file or directory"),
        (&["/etc"], 126, "cannot execute /etc: Permission denied"),
    ] {
        let output = finish(place.stat(&[], command));
        let errors = assert_status(&output, status);
        assert!(errors.contains(said), "{errors}");
    }
    // SIGKILL, SIGTERM, SIGSEGV, SIGUSR1, SIGIO, SIGPWR, and one of real time.
    for signal in [9, 15, 11, 10, 29, 30, 40] {
        let end = format!("ulimit -S -c 0; kill -{signal} $$");
        let mut shell = Command::new("sh");
        // The leader may write cores, but does not.
        shell.args(["-c", "ulimit -S -c $(ulimit -H -c); exec \"$@\"", "sh"]);
        shell.args([CXIDIAG, "stat", "soft0", "--", "sh", "-c", &end]);
        shell.current_dir(place.path());
        shell.env("CXIDIAG_FABRIC_DIR", place.fabric.path());
        let output = finish(shell);
        assert_eq!(output.status.signal(), Some(signal), "{:?}", output.status);
        assert!(!output.status.core_dumped());
        let errors = stderr(&output);
        assert!(errors.contains(&format!("ended by signal {signal}")), "{errors}");
    }
    assert_eq!(place.left(), [""; 0]);
    place.fabric.assert_nothing_left();
}

#[test]
fn refuses_invalid_arguments_before_the_command_starts() {
    let place = Place::new();
    for (options, refused) in [
        (&["--set=jobs"][..], "invalid value 'jobs' for --set: expected job, quick"),
        (&["--set=@none"], "invalid value '@none' for --set: cannot read the file"),
        (
            &["--fail-on=timeouts"],
            "it is for --stop and --merge: the exit status is that of COMMAND",
        ),
        (&["--forward=some"], "expected all or none"),
        (&["--report=much"], "expected line, summary, nics, all"),
        (&["--start=x"], "--start runs no command"),
        (&["--linger=601"], "invalid value '601' for --linger"),
    ] {
        let output = finish(place.stat(options, &["touch", "started"]));
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {errors}");
        assert!(errors.contains(refused), "{options:?}: {errors}");
    }
    for arguments in [&["stat"][..], &["stat", "--"], &["stat", "soft0"]] {
        assert_status(&finish(place.cxidiag(arguments)), 2);
    }
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn command_has_the_descriptors_and_the_output_of_stat() {
    let place = Place::new();
    let shell = ["sh", "-c", "ls /proc/self/fd; cat; echo out >&2"];
    let input = place.write("input", "from stdin\n");
    let input = || fs::File::open(&input).expect("a file");
    let mut alone = Command::new(shell[0]);
    alone.args(&shell[1..]).stdin(input());
    let mut command = place.stat(&[], &shell);
    command.stdin(input());
    let output = finish(command);
    assert_eq!(stdout(&output), stdout(&finish(alone)));
    let errors = stderr(&output);
    assert!(errors.starts_with("out\n1 node, 1 NIC (software NICs): sh, "), "{errors}");
}

#[test]
fn report_has_what_was_sent() {
    let place = Place::new();
    let tool = [CXIDIAG, "write-lat", "--loopback", "-d", "soft0", "-n", "190", "--warmup=10"];
    let mut command = place.stat(&["--csv=counters.csv"], &tool);
    command.env("CXIDIAG_FAULTS", "seed=7,loss=0.1");
    let counters = [&tool[..], &["--counters"]].concat();
    let output = finish(command);
    assert_status(&output, 0);
    let delta = |counter: &str| place.delta(counter);
    let resent = delta("pct_retry_srb_requests");
    assert!(resent > 0);
    assert_eq!(delta("retry_handler/spt_timeouts"), resent);
    assert_eq!(delta("hni_tx_ok_opt"), delta("hni_rx_ok_opt"));
    // The tool shows the counters of the same run on a fabric of its own.
    let other = Place::new();
    let mut alone = other.cxidiag(&counters[1..]);
    alone.env("CXIDIAG_FAULTS", "seed=7,loss=0.1");
    let text = stdout(&finish(alone));
    let tool_count = |name: &str| -> u64 {
        let row = text.lines().find(|line| line.starts_with(name)).expect(name);
        row.split_whitespace().nth(1).expect("a column").parse().expect("a number")
    };
    assert_eq!(
        delta("hni_tx_ok_opt") - 2 * resent,
        tool_count("hni_tx_ok_opt") - 2 * tool_count("pct_retry")
    );
    let errors = stderr(&output);
    let line = format!(
        "packets were sent again on 1 of 1 NICs: soft0, {resent} timeouts, {resent} resent\n"
    );
    assert!(errors.contains(&line), "{errors}");
}

#[test]
fn quiet_report_appears_only_if_something_is_unusual() {
    let place = Place::new();
    let output = finish(place.stat(&["--quiet"], &["true"]));
    assert_eq!(assert_status(&output, 0), "");
    let tool = [CXIDIAG, "write-lat", "--loopback", "-d", "soft0", "-n", "200"];
    let mut command = place.stat(&["--quiet", "--report=line"], &tool);
    command.env("CXIDIAG_FAULTS", "loss=0.2");
    let errors = assert_status(&finish(command), 0);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(": packets were sent again on 1 of 1 NICs: soft0"), "{errors}");
}

/// monitoring.md 1.6 vector 14.
#[test]
fn directory_that_cannot_be_written_costs_one_line() {
    let place = Place::new();
    let output = finish(place.stat(&["--dir=/proc/self"], &["sh", "-c", "exit 4"]));
    let errors = assert_status(&output, 4);
    assert!(errors.starts_with("cxidiag stat: cannot write to /proc/self: "), "{errors}");
    assert!(errors.contains("1 node, 1 NIC"), "{errors}");
}

/// monitoring.md 1.6 vector 5.
#[test]
fn writes_an_interim_result_if_the_command_goes_on_after_sigterm() {
    let place = Place::new();
    let script =
        "trap '' TERM; touch ready; while [ -e ready ] && [ ! -e go ]; do sleep 0.02; done; exit 5";
    let process = place
        .stat(&[], &["sh", "-c", script])
        .env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "5")
        .spawn()
        .expect("it starts");
    place.wait_for_file("ready");
    let leader = Pid::from_raw(process.id().cast_signed()).expect("a process");
    kill_process(leader, Signal::TERM).expect("a signal");
    let interim = wait_for("an interim result", || {
        let entries = fs::read_dir(place.path()).expect("a directory").flatten();
        let mut step = entries.filter(|entry| entry.path().is_dir());
        let mut names = fs::read_dir(step.next()?.path()).ok()?.flatten().map(|file| file.path());
        let json =
            names.find(|path| path.extension().is_some_and(|extension| extension == "json"))?;
        fs::read_to_string(json).ok()
    });
    assert!(interim.contains("\"status\":null,\"is_interim\":true"), "{interim}");
    place.write("go", "");
    let errors = assert_status(&process.finish(), 5);
    assert!(errors.contains("exit status 5") && !errors.contains("no end reading"), "{errors}");
    assert_eq!(place.left(), ["go", "ready"]);
}
