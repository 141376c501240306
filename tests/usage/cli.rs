//! The command line: help, versions, dispatch, and one line of error for each mistake. No test here
//! opens a device.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use crate::harness::{
    Args, CXIDIAG, Command, assert_status, assert_success, finish, stderr, stdout,
};

fn run(program: impl AsRef<OsStr>, args: &(impl Args + ?Sized)) -> Output {
    let mut command = Command::new(program);
    command.args(args.words()).env_remove("CXIDIAG_LIBCXI");
    finish(command)
}

fn cxidiag(args: &(impl Args + ?Sized)) -> Output {
    run(CXIDIAG, args)
}

/// Returns what the program prints on success.
#[track_caller]
fn printed(args: &str) -> String {
    let output = cxidiag(args);
    assert_success(&output);
    stdout(&output)
}

/// Runs `test` with a link to the program under another name.
fn with_link(name: &str, test: impl Fn(&Path)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let link = directory.path().join(name);
    symlink(CXIDIAG, &link).expect("a link");
    test(&link);
}

/// Fails unless the output is a usage error of `program`: one line with all of `words`, perhaps a
/// hint, and nothing else.
#[track_caller]
fn assert_usage_error(output: &Output, program: &str, words: &[&str]) {
    let error = assert_status(output, 2);
    assert_eq!(stdout(output), "");
    let mut lines = error.lines();
    let line = lines.next().unwrap_or_default();
    let line = line.strip_prefix(&format!("{program}: error: "));
    let line = line.unwrap_or_else(|| panic!("{error:?}"));
    for word in words {
        assert!(line.contains(word), "no {word:?} in {line:?}");
    }
    assert!(lines.next().is_none_or(|hint| hint.starts_with("hint: ")), "{error}");
    assert_eq!(lines.next(), None, "{error}");
}

#[track_caller]
fn write_lat_rejects(args: &(impl Args + ?Sized), words: &[&str]) {
    let output = cxidiag(&[&["write-lat"], &args.words()[..]].concat());
    assert_usage_error(&output, "cxidiag write-lat", words);
}

#[test]
fn rejects_malformed_sizes() {
    for size in [
        "8x",
        "0",
        "3:7",
        "8:4",
        "4294967296",
        "1:4294967296",
        "0:8",
        "1:",
        ":8",
        "1:abc",
        "-8",
        "+8",
        " 8",
        "0x8",
        "010",
        "",
    ] {
        let words = [&format!("'{size}'"), "--size", "1 to 4294967295", "powers of 2"];
        write_lat_rejects(&["10.1.1.8", &format!("--size={size}")], &words);
    }
    write_lat_rejects("10.1.1.8 -s 8x", &["'8x'", "--size"]);
}

#[test]
fn rejects_malformed_values_and_values_out_of_range() {
    let huge = "18446744073709551616";
    for (option, values, allowed) in [
        ("iters", &["0", "-3", "5x", "0x10", "", huge][..], "from 1 to 18446744073709551615"),
        ("duration", &["0", "-1", "4294967296", "1h", "0.5ms"], "1ms to 4294967295s"),
        ("warmup", &["-1", "x", huge], "0 to 18446744073709551615"),
        ("latency-gap", &["-1", "1.5", "18446744073709552"], "0 to 18446744073709551"),
        ("port", &["65536", "70000", "-1", "http", "", "0x50"], "1 to 65535"),
        ("svc-id", &["0", "-1", "2147483648", "one"], "1 to 2147483647"),
        ("device", &["cxi", "cxi-1", "soft100", "soft01", "hsn0", "0", ""], "cxiN"),
        ("libcxi", &[""], "path"),
        ("wait", &["-1", "604801"], "0s to 10080m"),
        ("connect-timeout", &["0", "8000h"], "1ms to 10080m"),
    ] {
        for value in values {
            let words = [&format!("'{value}'"), &*format!("--{option}"), allowed];
            write_lat_rejects(&["10.1.1.8", &format!("--{option}={value}")], &words);
        }
    }
    write_lat_rejects("--bind=", &["''", "--bind", "address"]);
    // A server takes any free port.
    write_lat_rejects("10.1.1.8 -p 0", &["'0'", "--port", "1 to 65535"]);
}

#[test]
fn rejects_misplaced_arguments() {
    for (args, words) in [
        // What follows an option that needs a value is its value.
        ("h -n -3", &["'-3'", "--iters"][..]),
        ("h -n-3", &["'-3'", "--iters"]),
        ("-n5x", &["'5x'", "--iters"]),
        ("h --iters --report-all", &["'--report-all'", "--iters"]),
        ("h -n", &["--iters", "needs a value"]),
        ("h --size", &["--size", "needs a value"]),
        ("h --no-idc=yes", &["--no-idc", "'yes'"]),
        ("h 10.1.1.9", &["unexpected argument", "'10.1.1.9'"]),
        ("h -n 5 -- -x", &["unexpected argument", "'-x'"]),
        ("--loopback 10.1.1.8", &["--loopback", "'10.1.1.8'"]),
        ("--foo", &["unknown option", "'--foo'", "--help"]),
        ("--foo=1", &["unknown option", "'--foo'"]),
        ("-x", &["unknown option", "'-x'"]),
        ("--itres=5", &["'--itres'", "did you mean --iters?"]),
        ("h -a -s 8", &["--all-sizes and --size exclude each other"]),
        ("h --until-stopped -D 1", &["--until-stopped and --duration exclude each other"]),
        ("h --until-stopped -a", &["--until-stopped: only with one size"]),
        ("h -i 0", &["'0'", "--interval"]),
        // Options of other tools.
        ("--rdzv", &["--rdzv is not an option of write-lat", "send-lat, send-bw"]),
        ("-l 4", &["-l (--list-size) is for bandwidth tools"]),
        ("--no", &["ambiguous option", "'--no'", "--no-idc", "--no-ll"]),
        // Options of the other side.
        ("h --persist", &["--persist is for a server"]),
        ("h --bind=::1", &["--bind is for a server"]),
        ("--wait=3", &["--wait is for a client"]),
        ("--connect-timeout=3", &["--connect-timeout is for a client"]),
        ("--loopback -d soft0 --libcxi=/x", &["--libcxi=/x", "soft0", "cxiN"]),
    ] {
        write_lat_rejects(args, words);
    }
    write_lat_rejects(&[""], &["invalid address ''"]);
    for (tool, option, words) in [
        ("send-bw", "--percentiles", "is for latency tools"),
        ("atomic-lat", "-s", "the atomic type (--atomic-type)"),
    ] {
        let output = cxidiag(&format!("{tool} node1 {option}"));
        assert_usage_error(&output, &format!("cxidiag {tool}"), &[option, words]);
    }
}

#[test]
fn commands_reject_arguments_as_tools_do() {
    for command in [
        "devices",
        "ping",
        "check",
        "selftest",
        "serve",
        "survey",
        "why",
        "explain",
        "stat",
        "compare",
        "report",
        "completion",
    ] {
        for (args, line) in [
            ("--foo", "unknown option '--foo' (see --help)"),
            ("--hlep", "unknown option '--hlep': did you mean --help? (see --help)"),
            ("-x", "unknown option '-x' (see --help)"),
            ("--version=1", "option '--version' takes no value, but '1' was given"),
        ] {
            for name in [command, "write-lat"] {
                let output = cxidiag(&format!("{name} {args}"));
                assert_status(&output, 2);
                let expected = format!("cxidiag {name}: error: {line}\n");
                assert_eq!(stderr(&output), expected);
            }
        }
        let version = printed(&format!("{command} -V"));
        let expected = printed("-V").replacen("cxidiag", &format!("cxidiag {command}"), 1);
        assert_eq!(version, expected);
    }
    let output = cxidiag("write-lat -d soft0 --json no-such-host.invalid");
    assert!(stderr(&output).ends_with("hint: did you mean --json=no-such-host.invalid?\n"));
    let output = cxidiag("devices --json out.json");
    // The document of `--json`.
    assert!(stdout(&output).contains("unexpected argument 'out.json'"));
    assert!(stderr(&output).ends_with("hint: did you mean --json=out.json?\n"));
}

/// A server does not become a client, and a client does not look for a host of this name.
#[test]
fn rejects_file_as_address() {
    let output = cxidiag("write-lat -d soft0 --csv out.csv");
    let error = assert_status(&output, 2);
    assert!(error.contains("invalid address 'out.csv': expected a host name"), "{error}");
    assert!(error.ends_with("hint: did you mean --csv=out.csv?\n"), "{error}");
}

/// Each form is accepted if the error is about the size behind it.
#[test]
fn accepts_all_forms_of_an_option() {
    for form in [
        "-n5",
        "-n 5",
        "--iters=5",
        "--iters 5",
        "--ite 5",
        "--i=5",
        "-n 0 -n 5",
        "10.1.1.8 -n 5",
        "-n 5 10.1.1.8 --no-i -D 1",
        "--unres --dev soft1 --lat=0 --w=1 --re --no-l",
        "-dsoft1 -v1 -p1",
    ] {
        write_lat_rejects(&format!("{form} --size=8x"), &["'8x'", "--size"]);
    }
}

/// An abbreviation of a legacy option has its meaning even if an option of ours begins alike:
/// `--loopback`, `--libcxi`, `--wait`, `--persist`, `--bind`, `--connect-timeout`, `--cpu`.
#[test]
fn accepts_abbreviations_of_the_legacy_tools() {
    for (tool, abbreviation, long) in [
        ("write-lat", "--l=x", "--latency-gap"),
        ("write-lat", "--w=x", "--warmup"),
        ("write-lat", "--wa=x", "--warmup"),
        ("write-lat", "--wai=x", "--wait"),
        ("write-lat", "--p=x", "--port"),
        ("atomic-lat", "--c=x", "--cswap-op"),
        ("atomic-lat", "--l=x", "--latency-gap"),
        ("atomic-lat", "--p=x", "--port"),
        ("send-bw", "--l=x", "--list-size"),
        ("send-bw", "--li=x", "--list-size"),
        ("send-bw", "--p=x", "--port"),
        ("send-bw", "--bi -n x", "--iters"),
    ] {
        let output = cxidiag(&format!("{tool} h {abbreviation}"));
        assert_usage_error(&output, &format!("cxidiag {tool}"), &["'x'", long]);
    }
    for abbreviation in ["--v", "--ve", "--ver"] {
        let output = cxidiag(&format!("write-bw {abbreviation}"));
        assert_success(&output);
        assert!(stdout(&output).contains("version"), "{abbreviation}");
    }
}

#[test]
fn t32_rejects_more_latencies_than_memory_holds() {
    write_lat_rejects(
        "10.1.1.8 --report-all -n 18446744073709551615",
        &["--report-all", "18446744073709551615", "1000000000"],
    );
}

#[test]
fn rejects_bytes_that_are_not_text() {
    let bytes = OsStr::from_bytes(b"\xff8");
    let [tool, size] = ["write-lat", "-s"].map(OsStr::new);
    for (args, program, words) in [
        (&[tool, size, bytes][..], "cxidiag write-lat", &["--size"][..]),
        (&[tool, bytes], "cxidiag write-lat", &["invalid address"]),
        (&[bytes], "cxidiag", &["unknown tool", "write-lat"]),
    ] {
        let mut command = Command::new(CXIDIAG);
        command.args(args);
        assert_usage_error(&finish(command), program, words);
    }
}

#[test]
fn prints_the_usage_of_a_tool() {
    for args in ["write-lat --help", "write-lat -h --foo", "write-lat -n0 --he"] {
        let help = printed(args);
        for usage in ["[-d DEV] [-p PORT]", "ADDR [OPTIONS]", "--loopback [OPTIONS]"] {
            assert!(help.contains(&format!("\n  cxidiag write-lat {usage}  ")), "{help}");
        }
    }
}

#[test]
fn prints_short_help_with_h_and_all_of_it_with_help() {
    let long = printed("write-lat --help");
    assert!(long.contains("\nExamples:\n") && long.contains("--svc-id"));
    let short = printed("write-lat -h");
    assert!(short.contains("cxidiag write-lat --help shows all"), "{short}");
    assert!(!short.contains("--svc-id"), "{short}");
    for args in ["help write-lat", "help cxi_write_lat", "write_lat --he", "cxi_write_lat --help"] {
        assert_eq!(printed(args), long, "{args}");
    }
    assert_eq!(printed("help compare"), printed("compare -h"));
    assert_eq!(printed("help"), printed("--help"));
}

/// The help has the syntax of every option in the usage text of the user's document, except for
/// those that a later version adds.
#[test]
fn prints_the_options_of_the_document() {
    let document = include_str!("../fixtures/seed-latency.txt");
    let later = ["--tx-gpu", "--rx-gpu", "--gpu-type", "--use-hp"];
    for (tool, count) in [("write-lat", 14), ("read-lat", 13), ("atomic-lat", 18)] {
        let legacy = format!("  cxi_{} [-d DEV] [-p PORT]\n", tool.replace('-', "_"));
        let (_, usage) = document.split_once(&legacy).expect("a usage text");
        let (usage, _) = usage.split_once("```").expect("an end");
        let help = printed(&format!("{tool} --help"));
        let options: Vec<&str> = usage
            .lines()
            .filter(|line| line.trim_start().starts_with('-'))
            .map(|line| line[..line.len().min(26)].trim_end())
            .filter(|syntax| !later.iter().any(|option| syntax.contains(option)))
            .collect();
        for syntax in &options {
            let is_there = help.lines().any(|line| line.starts_with(syntax));
            assert!(is_there, "{tool} {syntax:?}");
        }
        assert_eq!(options.len(), count, "{tool}");
    }
}

#[test]
fn prints_help_list_and_version_of_the_program() {
    let help = printed("--help");
    assert!(help.contains("\n  write-lat "), "{help}");
    assert_eq!(printed(""), help);
    let list = printed("--list");
    assert!(list.lines().any(|line| line == "write-lat cxi_write_lat"), "{list}");
    for option in ["-V", "--version", "version"] {
        let version = printed(option);
        let expected = format!("cxidiag version: {}", env!("CARGO_PKG_VERSION"));
        assert!(version.starts_with(&expected), "{version}");
        assert_eq!(version.lines().count(), 1);
    }
}

#[test]
fn rejects_unknown_tools() {
    for (args, words) in [
        ("write-lot", ["'write-lot'", "write-lat"]),
        ("--foo", ["unknown option", "'--foo'"]),
        ("--version x", ["unexpected argument", "'x'"]),
    ] {
        assert_usage_error(&cxidiag(args), "cxidiag", &words);
    }
    with_link("cxi_write_lot", |link| {
        assert_usage_error(&run(link, "10.1.1.8"), "cxi_write_lot", &["cxi_write_lat"]);
    });
}

#[test]
fn runs_the_tool_of_a_legacy_name() {
    with_link("cxi_write_lat", |link| {
        let version = run(link, "-V");
        assert_eq!(assert_status(&version, 0), printed("-V"));
        assert_eq!(stdout(&version), "cxi_write_lat version: 2.4.0\n");
        let ours = printed("write-lat -h").replace("cxidiag write-lat", "cxi_write_lat");
        assert_eq!(stdout(&run(link, "-h")), ours);
        assert_usage_error(&run(link, "-s 8x"), "cxi_write_lat", &["'8x'", "--size"]);
    });
    for asked in ["--help write-lat", "-h cxi_write_lat", "help write_lat"] {
        assert_eq!(printed(asked), printed("write-lat --help"), "{asked}");
    }
    for asked in ["help --help", "version --help", "--help"] {
        assert_eq!(printed(asked), printed("help"), "{asked}");
    }
    let version = printed("-V").replacen("cxidiag", "cxidiag write-lat", 1);
    assert_eq!(printed("write-lat --version"), version);
}

#[test]
fn runs_as_the_program_under_any_other_name() {
    with_link("diag", |link| assert_success(&run(link, "write-lat -V")));
}

#[test]
fn succeeds_if_the_reader_of_its_help_has_gone() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = Command::new(CXIDIAG).arg("--help").stdout(writer).output();
    let output = status.expect("cxidiag starts");
    assert_success(&output);
    assert_eq!(stderr(&output), "");
}
