//! A kernel that refuses system calls, as filters of containers and services do; files that fail
//! with EIO; steps of the clock; machines with more than 1,024 CPUs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use crate::harness::kernel::{FAILING, compile};
use crate::harness::machine::MadeUp;
use crate::harness::{
    CXIDIAG, Command, Fabric, LIBCXI, assert_status, assert_success, finish, stderr, stdout,
};

/// Exit status of `refuse` where this machine cannot refuse a call.
const UNTESTED: i32 = 77;

/// The system calls that the program makes and can be without, or whose refusal it names. The
/// standard library and rustix take for granted that clock_nanosleep, sched_yield and uname
/// succeed.
const CALLS: [&str; 34] = [
    "clone3",
    "epoll_create1",
    "faccessat2",
    "fallocate",
    "fchmod",
    "flock",
    "ftruncate",
    "getpriority",
    "getrandom",
    "getrusage",
    "getsockopt",
    "ioctl",
    "linkat",
    "madvise",
    "membarrier",
    "mlock",
    "pidfd_open",
    "ppoll",
    "prctl",
    "prlimit64",
    "process_vm_readv",
    "rseq",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_setattr",
    "set_mempolicy",
    "set_robust_list",
    "setpgid",
    "setpriority",
    "setsockopt",
    "sigaltstack",
    "socketpair",
    "statx",
    "userfaultfd",
];

/// What is run, and its exit status if all works.
const CASES: [(&str, i32); 4] = [
    ("write-lat --loopback -d soft0 -n 9", 0),
    ("devices soft0", 0),
    ("check soft0 --quick", 0),
    // Two NICs are too few for a verdict.
    ("survey --loopback=2 --pair-time=1ms --no-why", 4),
];

/// Runs a program for which the kernel refuses a call.
static REFUSE: LazyLock<PathBuf> = LazyLock::new(|| compile("refuse", &[]));

/// The program with `arguments`, for which the kernel refuses `call` with `error`.
fn refused(fabric: &Fabric, call: &str, error: &str, arguments: &str) -> Command {
    let arguments = arguments.split(' ');
    let words: Vec<&str> = [call, error, CXIDIAG].into_iter().chain(arguments).collect();
    fabric.command_of(&REFUSE, &words)
}

/// The program with `arguments` and a variable of `failing`.
fn failing(fabric: &Fabric, variable: &str, value: &str, arguments: &[&str]) -> Command {
    let mut command = fabric.command(arguments);
    command.env("LD_PRELOAD", &*FAILING).env(variable, value);
    command
}

#[test]
fn works_or_names_the_refusal_without_any_one_system_call() {
    let mut failures = String::new();
    for (error, text) in
        [("EPERM", "Operation not permitted"), ("ENOSYS", "Function not implemented")]
    {
        // ENOSYS differs from EPERM in the calls that have a substitute: one tool makes them.
        let cases = if error == "EPERM" { &CASES[..] } else { &CASES[..1] };
        for call in CALLS {
            for (arguments, good) in cases {
                let output = finish(refused(&Fabric::new(), call, error, arguments));
                let status = output.status.code();
                if status == Some(UNTESTED) {
                    println!("not tested: {}", stderr(&output).trim_end());
                    return;
                }
                let shown = (stdout(&output) + &stderr(&output)).replace("\n    ", " ");
                let works = status == Some(*good);
                let names_it = shown.contains(text) || shown.contains("No locks available");
                // Nothing that the kernel refuses is a finding about a NIC.
                let is_undecided = status == Some(4) && names_it;
                let fails = status == Some(1)
                    && names_it
                    && (shown.contains("(seccomp)") || shown.contains("No locks available"));
                if !(works || is_undecided || fails) || shown.contains("panicked") {
                    failures += &format!("{call} {error}, {arguments}: {status:?}: {shown}\n");
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Its command runs in place of `stat` if that cannot start it.
#[test]
fn stat_runs_its_command_without_any_one_system_call() {
    for call in CALLS {
        let output = finish(refused(&Fabric::new(), call, "EPERM", "stat soft0 -- expr 6 + 1"));
        if output.status.code() == Some(UNTESTED) {
            println!("not tested: {}", stderr(&output).trim_end());
            return;
        }
        let shown = stdout(&output) + &stderr(&output);
        assert!(
            output.status.success() && shown.lines().any(|line| line == "7"),
            "{call}: {shown}"
        );
    }
}

/// The kernel refuses masks that are smaller than its own.
#[test]
fn works_with_more_than_1024_cpus() {
    let pinned = "write-lat --loopback -d soft0 -n 9 --cpu=auto";
    for (arguments, good) in CASES.into_iter().chain([(pinned, 0)]) {
        let output = finish(refused(&Fabric::new(), "many_cpus", "EINVAL", arguments));
        if output.status.code() == Some(UNTESTED) {
            println!("not tested: {}", stderr(&output).trim_end());
            return;
        }
        assert_status(&output, good);
    }
}

/// A process that may use one CPU of such a machine measures one pair at a time.
#[test]
fn counts_its_own_cpus_of_more_than_1024() {
    let survey = "survey --loopback=4 --pair-time=1ms --no-why --json";
    let refuse = REFUSE.display().to_string();
    let words = ["-c", "0", &refuse, "many_cpus", "EINVAL", CXIDIAG];
    let words: Vec<&str> = words.into_iter().chain(survey.split(' ')).collect();
    let output = finish(Fabric::new().command_of(Path::new("taskset"), &words));
    if output.status.code() == Some(UNTESTED) {
        println!("not tested: {}", stderr(&output).trim_end());
        return;
    }
    let document: Value = serde_json::from_str(&stdout(&output)).expect("a document");
    assert_eq!(document["setup"]["max_active"], 1, "{document}");
}

#[test]
fn names_file_that_cannot_be_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    let at = |name: &str| directory.join(name).display().to_string();
    for option in ["json", "jsonl", "csv", "hdr-log"] {
        let fabric = Fabric::new();
        let file = at(option);
        let argument = format!("--{option}={file}");
        let run = ["write-lat", "--loopback", "-d", "soft0", "-n", "9", &argument];
        let error = assert_status(&finish(failing(&fabric, "FAILING_WRITES", &at(""), &run)), 1);
        let line = format!("error: cannot write {file}: Input/output error\n");
        assert!(error.contains(&line), "{option}: {error}");
        assert!(error.contains("the disk or the file server has failed"), "{error}");
        // Lines are added to the file of --jsonl.
        assert!(option == "jsonl" || !Path::new(&file).exists(), "{option}");
    }
    // Standard output is written without libc. No memory is at address 0: writing there is EIO.
    let fabric = Fabric::new();
    let mut run = fabric.command("write-lat --loopback -d soft0 -n 9");
    let memory = File::options().write(true).open("/proc/self/mem");
    run.stdout(memory.expect("the memory of this process"));
    let error = assert_status(&finish(run), 1);
    let line = "cannot write to standard output: Input/output error";
    assert!(error.contains(line), "{error}");
}

#[test]
fn names_file_that_cannot_be_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("some-file").display().to_string();
    fs::write(&file, "{}").expect("a file");
    let [hosts, expect, resume, pairs] = ["--hosts=@", "--expect=@", "--resume=", "--pairs=@"]
        .map(|option| format!("{option}{file}"));
    let page = directory.path().join("page").display().to_string();
    for (arguments, status) in [
        (&["compare", &file, &file][..], 1),
        (&["report", &file, "-o", &page], 1),
        (&["check", &hosts], 2),
        (&["write-lat", "--loopback", "-d", "soft0", &expect], 2),
        (&["survey", "--loopback=2", &resume], 1),
        (&["survey", "--loopback=2", &pairs], 2),
    ] {
        let output = finish(failing(&Fabric::new(), "FAILING_READS", &file, arguments));
        let error = assert_status(&output, status);
        let is_named = error.contains(&file) && error.contains("Input/output error");
        assert!(is_named, "{arguments:?}: {error}");
    }
    let fabric = Fabric::new();
    let mut devices = failing(&fabric, "FAILING_READS", &file, &["devices", "soft0"]);
    devices.env("CXIDIAG_TOPOLOGY", &file);
    let error = stderr(&finish(devices));
    let is_named = error.contains(&file) && error.contains("Input/output error");
    assert!(is_named, "{error}");
}

/// A counter that fails is neither 0 nor a finding.
#[test]
fn counters_that_fail_are_unknown() {
    let telemetry = "/telemetry/";
    let fabric = Fabric::new();
    let run = "write-lat --loopback -d soft0 -n 9 --counters";
    let run: Vec<&str> = run.split(' ').collect();
    let output = finish(failing(&fabric, "FAILING_READS", telemetry, &run));
    assert_success(&output);
    let text = stdout(&output);
    assert!(text.contains(" of 172 not available\n"), "{text}");
    assert!(!text.contains("(limit: "), "{text}");

    let stat = ["stat", "soft0", "--", "sh", "-c", "exit 7"];
    let output = finish(failing(&fabric, "FAILING_READS", telemetry, &stat));
    let error = assert_status(&output, 7);
    let note = "files of soft0 cannot be read: Input/output error";
    assert!(error.contains(note), "{error}");

    let check = ["check", "soft0", "--window=20ms"];
    let output = finish(failing(&fabric, "FAILING_READS", telemetry, &check));
    assert_status(&output, 4);
    let text = stdout(&output);
    assert!(text.starts_with("UNDECIDED untested soft0: "), "{text}");
    assert!(text.contains(": unreadable: Input/output error"), "{text}");
}

/// The time of day steps by three hours during each run that takes longer than 100 ms.
#[test]
fn durations_do_not_follow_steps_of_the_clock() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("stat.json");
    let to_json = format!("--json={}", json.display());
    for step in ["10800", "-10800"] {
        for (arguments, good) in CASES {
            let fabric = Fabric::new();
            let arguments: Vec<&str> = arguments.split(' ').collect();
            let output = finish(failing(&fabric, "STEP", step, &arguments));
            assert_status(&output, good);
        }
        // Stamps from just before the step and just after it, whatever the process has read first.
        for after in [None, Some("1"), Some("2"), Some("4"), Some("30")] {
            let check = || {
                let fabric = Fabric::new();
                let mut check =
                    failing(&fabric, "STEP", step, &["check", "soft0", "--window=300ms"]);
                check.envs(after.map(|after| ("STEP_AFTER", after)));
                finish(check)
            };
            // Beside busy CPUs, a check has no figures of the traffic, and is undecided.
            let mut outputs = (0..20).map(|_| check());
            let output = outputs.find(|output| output.status.code() != Some(4)).expect("a verdict");
            assert!(stdout(&output).starts_with("OK soft0\n"), "{after:?}: {}", stdout(&output));
            assert_success(&output);
        }
        let stat = ["stat", "soft0", &to_json, "--interval=200ms", "--", "sleep", "0.3"];
        assert_status(&finish(failing(&Fabric::new(), "STEP", step, &stat)), 0);
        let text = fs::read_to_string(&json).expect("a document");
        let document: Value = serde_json::from_str(&text).expect("a document");
        let seconds = document["seconds"].as_f64().expect("a duration");
        assert!((0.1..3600.0).contains(&seconds), "{step}: {seconds}");
    }
}

/// Code words of a software NIC per second: they follow its own clock.
const GOOD_PER_S: f64 = 39_062_500.0;

/// A program whose clock steps after the first readings of the clock, and before the last ones.
fn stepping(fabric: &Fabric, step: &str, arguments: &[&str]) -> Command {
    let mut command = failing(fabric, "STEP", step, arguments);
    command.env("STEP_AFTER", "30");
    command
}

fn document(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a document");
    serde_json::from_str(&text).expect("a document")
}

/// Neither rates nor verdicts follow a step, and a line names it.
#[test]
fn rates_do_not_follow_steps_of_the_clock() {
    let directory = tempfile::tempdir().expect("a directory");
    let json = directory.path().join("document.json");
    let to_json = format!("--json={}", json.display());
    for (step, shown) in [("0.3", "+0.300"), ("-2", "-2.000")] {
        let line = format!(
            "the clock of this host was stepped by {shown} s meanwhile: rates use the monotonic \
             clock\n"
        );
        let run = |arguments: &[&str]| {
            let output = finish(stepping(&Fabric::new(), step, arguments));
            assert_status(&output, 0);
            output
        };
        let is_step = |value: &Value| {
            let step: f64 = step.parse().expect("a number");
            value.as_f64().is_some_and(|found| (found - step).abs() < 0.01)
        };
        let is_good = |rate: f64| (rate - GOOD_PER_S).abs() < 100.0;

        let check = run(&["check", "soft0", "--no-traffic", "--window=100ms", &to_json]);
        assert!(stdout(&check).starts_with("OK soft0\n"), "{}", stdout(&check));
        assert!(stdout(&check).ends_with(&line), "{}", stdout(&check));
        let check = document(&json);
        assert!(is_step(&check["clock_step_s"]), "{step}: {}", check["clock_step_s"]);
        let items = check["devices"][0]["items"].as_array().expect("items");
        let item = |code| items.iter().find(|item| item["code"] == code).expect("an item");
        assert_eq!(item("link-interrupted")["value"], "3.906e7/s");
        assert_eq!(item("link-interrupted")["verdict"], "good");

        let link = run(&["link", "soft0", "--rates=100ms", &to_json]);
        assert!(stdout(&link).ends_with(&line), "{}", stdout(&link));
        let link = document(&json);
        assert!(is_step(&link["clock_step_s"]), "{step}: {}", link["clock_step_s"]);
        let rate = link["links"][0]["rates"]["good_code_words_per_s"].as_f64().expect("a rate");
        assert!(is_good(rate), "{step}: {rate}");

        let stat = run(&["stat", "soft0", &to_json, "--", "sleep", "0.1"]);
        assert!(stderr(&stat).contains(&format!("stepped by {shown} s")), "{}", stderr(&stat));
        let stat = document(&json);
        assert!(is_step(&stat["nodes"][0]["clock_step_s"]), "{step}: {}", stat["nodes"]);
        let good = &stat["nics"][0]["counters"]["hni_pcs_good_cw"];
        let [count, seconds] =
            ["delta", "seconds"].map(|key| good[key].as_f64().expect("a number"));
        assert!(is_good(count / seconds), "{step}: {good}");

        let tool = ["write-lat", "--loopback", "-d", "soft0", "-n", "9", "--counters", &to_json];
        let tool = run(&tool);
        assert!(stdout(&tool).contains(&line), "{}", stdout(&tool));
        let counters = &document(&json)["counters"];
        assert!(is_step(&counters["clock_step_s"]), "{step}: {}", counters["clock_step_s"]);

        let output =
            finish(stepping(&Fabric::new(), step, &["cxi_stat", "-d", "soft0", "-r", "-p", "1"]));
        assert!(stderr(&output).starts_with(&format!("Warning: {line}")), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("Good CW: 39062500.00/s\n"), "{text}");
        assert!(!text.contains("clock"), "{text}");
    }
}

/// The second process starts after the step.
#[test]
fn readings_of_two_processes_do_not_follow_steps_of_the_clock() {
    let directory = tempfile::tempdir().expect("a directory");
    let [before, json] = ["before", "document.json"].map(|name| directory.path().join(name));
    let [start, stop, to_json] = [("--start", &before), ("--stop", &before), ("--json", &json)]
        .map(|(option, path)| format!("{option}={}", path.display()));
    for (step, shown) in [("10800", "+10800.000"), ("-10800", "-10800.000")] {
        let fabric = Fabric::new();
        assert_success(&finish(fabric.command(["stat", "soft0", &start].as_slice())));
        let mut stop = failing(&fabric, "STEP", step, &["stat", &stop, &to_json]);
        stop.env("STEP_AFTER", "0");
        let output = finish(stop);
        assert_success(&output);
        assert!(stderr(&output).is_empty(), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains(&format!(" was stepped by {shown} s meanwhile: ")), "{text}");
        let seconds = document(&json)["seconds"].as_f64().expect("a duration");
        assert!((0.0..3600.0).contains(&seconds), "{step}: {seconds}");
    }
}

/// The lines of the legacy program stay as they are.
#[test]
fn load_does_not_follow_steps_of_the_clock() {
    let machine = MadeUp::described_by(include_str!("../fixtures/nics/cassini2"));
    for (step, shown) in [("0.3", "+0.300"), ("-2", "-2.000")] {
        for (arguments, name) in [
            (&["cxi_heatsink_check", "-D", "1", "-i", "1"][..], "cxi_heatsink_check"),
            (&["check", "cxi0", "--stress=1s"], "cxidiag check"),
        ] {
            let fabric = Fabric::new();
            let mut command = failing(&fabric, "STEP", step, arguments);
            command.env("STEP_AFTER", "3").env("CXIDIAG_LIBCXI", &*LIBCXI);
            let output = finish(machine.seen_by(command));
            let line = format!(
                "{name}: the clock of this host was stepped by {shown} s meanwhile: rates use the \
                 monotonic clock\n"
            );
            assert!(stderr(&output).starts_with(&line), "{arguments:?}: {}", stderr(&output));
            assert!(!stdout(&output).contains("clock"), "{arguments:?}: {}", stdout(&output));
        }
    }
}
