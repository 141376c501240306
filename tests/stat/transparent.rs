//! Nothing that `stat` cannot do keeps its command from running, or changes its status.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::Place;
use crate::harness::{CXIDIAG, Command, assert_status, finish, stderr, stdout};

/// `stat` with `options` and a command, started by a shell after `before` with `redirections`.
fn started(place: &Place, before: &str, redirections: &str, options: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("{before}\nexec \"$@\" {redirections}"))
        .args(["sh", CXIDIAG, "stat"])
        .args(options)
        .args(["--", "sh", "-c", "echo >>ran; exit 5"])
        .current_dir(place.path())
        .env("CXIDIAG_FABRIC_DIR", place.fabric.path());
    shell
}

#[test]
fn command_always_runs_and_keeps_its_status() {
    const SLURM: &str = "export SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 \
        SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=nid[0-1] SLURMD_NODENAME=nid0";
    for (before, redirections, options) in [
        ("", ">&-", &["soft0"][..]),
        ("", "2>&-", &["soft0"]),
        ("", "<&- >&- 2>&-", &["soft0"]),
        ("", ">&-", &["soft0", "--json"]),
        ("", ">/dev/full 2>/dev/full", &["soft0", "--json"]),
        ("", "", &["soft0", "--json=/none/x"]),
        ("", "", &["soft0", "--json=/dev/full"]),
        ("", "", &["soft0", "--csv=/proc/x", "--json=x.json"]),
        ("", "", &["soft0", "--openmetrics=/none/x.prom"]),
        ("", "", &["soft0", "-o", "/none/x"]),
        ("", "", &["soft0", "--dir=/none"]),
        ("", "", &["soft0", "--dir=/proc", "--interval=200ms", "--keep"]),
        ("", "", &["cxi99"]),
        ("export CXIDIAG_FABRIC_DIR=/proc/none", "", &["soft0"]),
        ("export CXIDIAG_FAULTS=nonsense", "", &["soft0"]),
        ("export CXIDIAG_NICS=none", "", &["soft0"]),
        ("export CXIDIAG_TOPOLOGY=/none", "", &["soft0"]),
        ("export SLINGSHOT_DEVICES=,,x SLINGSHOT_TCS=x", "", &[]),
        ("export PMIX_RANK=x OMPI_COMM_WORLD_RANK=7", "", &["soft0"]),
        (SLURM, "", &["soft0", "--gather=0", "--linger=0", "--dir=/none"]),
        ("ulimit -n 12", "", &["soft0"]),
        ("umask 777", "", &["soft0"]),
    ] {
        let place = Place::new();
        let case = format!("{before} {redirections} {options:?}");
        place.write("ran", "");
        let output = finish(started(&place, before, redirections, options));
        assert_eq!(output.status.code(), Some(5), "{case}: {}", stderr(&output));
        let ran = fs::read_to_string(place.path().join("ran")).expect("a file");
        assert_eq!(ran, "\n", "{case}");
    }
}

#[test]
fn report_goes_to_standard_error_if_standard_output_is_closed() {
    let place = Place::new();
    let output = finish(started(&place, "", ">&-", &["soft0"]));
    let report = assert_status(&output, 5);
    assert!(report.contains("1 node, 1 NIC"), "{report}");
}

#[test]
fn command_begins_with_the_closed_streams_of_stat() {
    let place = Place::new();
    let mut shell = Command::new("sh");
    let script = "exec \"$@\" >&-";
    shell.args(["-c", script, "sh", CXIDIAG, "stat", "soft0", "--"]);
    shell.args(["sh", "-c", "test ! -e /proc/self/fd/1"]);
    shell.current_dir(place.path());
    shell.env("CXIDIAG_FABRIC_DIR", place.fabric.path());
    assert_status(&finish(shell), 0);
}

#[test]
fn runs_scripts_as_other_wrappers_do() {
    let place = Place::new();
    for (script, status, said) in [
        ("exit 6\n", 6, "exit status 6"),
        ("#!/bin/sh\nexit 7\n", 7, "exit status 7"),
        (
            "#! /bin/none -x\nexit 7\n",
            127,
            "cannot execute ./script: its interpreter '/bin/none' does not exist",
        ),
        (
            "#!/bin/sh\r\nexit 7\r\n",
            127,
            "its first line ends in a carriage return, so its interpreter '/bin/sh' is not found",
        ),
    ] {
        let path = place.write("script", script);
        fs::set_permissions(Path::new(&path), Permissions::from_mode(0o755)).expect("a file");
        let output = finish(place.stat(&[], &["./script"]));
        let errors = assert_status(&output, status);
        assert!(errors.contains(said), "{errors}");
    }
}

#[test]
fn directory_of_the_step_is_private_under_any_umask() {
    let place = Place::new();
    for umask in ["000", "077"] {
        let mut shell = Command::new("sh");
        let script = format!("umask {umask}; exec \"$@\"");
        shell.args(["-c", &script, "sh", CXIDIAG, "stat", "soft0", "--"]);
        shell.args(["sh", "-c", "stat -c %a cxidiag-stat.*"]);
        shell.current_dir(place.path());
        shell.env("CXIDIAG_FABRIC_DIR", place.fabric.path());
        let output = finish(shell);
        assert_status(&output, 0);
        assert_eq!(stdout(&output), "700\n", "{umask}");
    }
}
