//! The processes of tests themselves: their time limit, and the signals that they begin with.

use std::env;
use std::panic;
use std::time::Duration;

use crate::harness::{Command, assert_status, stdout};

/// A process that has started another one, which holds its pipes.
#[test]
fn fails_with_output_of_process_at_its_limit() {
    let failed = panic::catch_unwind(|| {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo printed; echo complained >&2; sleep 600; true"])
            .limit(Duration::from_millis(300))
            .output()
    });
    let failed = failed.expect_err("a failure");
    let text: &String = failed.downcast_ref().expect("text");
    for words in [
        "sleep 600",
        "was killed after 0.3 s",
        "--- stdout:\nprinted\n",
        "--- stderr:\ncomplained\n",
    ] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

/// Not a test: prints which signals its process ignores.
#[test]
#[ignore = "another test starts it"]
fn shows_ignored_signals() {
    let ignored = Command::new("grep").args(["SigIgn", "/proc/self/status"]).output();
    print!("\n{}", stdout(&ignored.expect("grep starts")));
}

/// `tests/run &` in a script, or `nohup tests/run`.
#[test]
fn processes_of_tests_do_not_inherit_ignored_signals() {
    let program = env::current_exe().expect("this program");
    let script = "trap '' INT HUP QUIT TERM USR1; \
                  exec \"$0\" --ignored --exact processes::shows_ignored_signals --nocapture";
    let output = Command::new("sh").args(["-c", script]).arg(program).output().expect("sh starts");
    assert_status(&output, 0);
    let text = stdout(&output);
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
    let mask = u64::from_str_radix(mask.expect("a mask"), 16).expect("a mask");
    // Those from SIGHUP to SIGTERM.
    assert_eq!(mask & 0x7fff, 0, "{text}");
}
