//! The command line: help, versions, dispatch, and one line for each error. No test opens a device.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CXIDIAG: &str = env!("CARGO_BIN_EXE_cxidiag");

/// Exit status and output of a program.
struct Outcome {
    status: i32,
    stdout: String,
    stderr: String,
}

fn run(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Outcome {
    let output = Command::new(program)
        .args(arguments)
        .env_remove("CXIDIAG_LIBCXI")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Outcome {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn cxidiag(arguments: &[&str]) -> Outcome {
    run(Path::new(CXIDIAG), arguments)
}

/// The program under another name. The link exists as long as this value.
struct Link(PathBuf);

impl Link {
    fn new(test: &str, name: &str) -> Self {
        let directory =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let link = directory.join(name);
        symlink(CXIDIAG, &link).unwrap();
        Self(link)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// Asserts that the outcome is a usage error: one line that begins with `program` and contains all
/// of `words`, and at most one hint.
#[track_caller]
fn refused(outcome: &Outcome, program: &str, words: &[&str]) {
    assert_eq!(outcome.status, 2, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    match lines.as_slice() {
        [_] => {}
        [_, hint] => assert!(hint.starts_with("hint: "), "{}", outcome.stderr),
        _ => panic!("{:?}", outcome.stderr),
    }
    let rest = lines[0].strip_prefix(&format!("{program}: error: "));
    let rest = rest.unwrap_or_else(|| panic!("{:?}", outcome.stderr));
    for word in words {
        assert!(rest.contains(word), "no {word:?} in {rest:?}");
    }
}

#[track_caller]
fn write_lat_refuses(arguments: &[&str], words: &[&str]) {
    let outcome = cxidiag(&[&["write-lat"], arguments].concat());
    refused(&outcome, "cxidiag write-lat", words);
}

#[test]
fn rejects_malformed_sizes() {
    let sizes = [
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
    ];
    for size in sizes {
        let words = [
            &format!("'{size}'"),
            "--size",
            "1 to 4294967295",
            "powers of 2",
        ];
        write_lat_refuses(&["10.1.1.8", &format!("--size={size}")], &words);
        write_lat_refuses(&["10.1.1.8", "-s", size], &words);
    }
}

#[test]
fn rejects_malformed_and_out_of_range_numbers() {
    let huge = "18446744073709551616";
    let cases: [(&str, &[&str], &str); 8] = [
        ("iters", &["0", "-3", "5x", "0x10", "", huge], "1 or more"),
        (
            "duration",
            &["0", "-1", "4294967296", "1s"],
            "1 to 4294967295",
        ),
        ("warmup", &["-1", "x", huge], "0 or more"),
        (
            "latency-gap",
            &["-1", "1.5", "18446744073709552"],
            "0 to 18446744073709551",
        ),
        (
            "port",
            &["65536", "70000", "-1", "http", "", "0x50"],
            "1 to 65535",
        ),
        (
            "svc-id",
            &["0", "-1", "2147483648", "one"],
            "1 to 2147483647",
        ),
        (
            "device",
            &["cxi", "cxi-1", "soft100", "soft01", "hsn0", "0", ""],
            "cxiN",
        ),
        ("libcxi", &[""], "path"),
    ];
    for (option, values, allowed) in cases {
        for value in values {
            let words = [&format!("'{value}'"), &*format!("--{option}"), allowed];
            write_lat_refuses(&["10.1.1.8", &format!("--{option}={value}")], &words);
        }
    }
}

#[test]
fn rejects_port_0_on_client() {
    write_lat_refuses(&["10.1.1.8", "-p", "0"], &["'0'", "--port", "1 to 65535"]);
}

#[test]
fn reads_word_with_dash_as_value_of_option() {
    write_lat_refuses(&["10.1.1.8", "-n", "-3"], &["'-3'", "--iters"]);
    write_lat_refuses(&["10.1.1.8", "-n-3"], &["'-3'", "--iters"]);
    write_lat_refuses(
        &["10.1.1.8", "--iters", "--report-all"],
        &["'--report-all'", "--iters"],
    );
}

#[test]
fn rejects_second_address() {
    write_lat_refuses(
        &["10.1.1.8", "10.1.1.9"],
        &["unexpected argument", "'10.1.1.9'"],
    );
    write_lat_refuses(
        &["10.1.1.8", "-n", "5", "--", "-x"],
        &["unexpected argument", "'-x'"],
    );
    write_lat_refuses(&[""], &["invalid address ''"]);
    write_lat_refuses(&["--loopback", "10.1.1.8"], &["--loopback", "'10.1.1.8'"]);
}

#[test]
fn rejects_unknown_options() {
    write_lat_refuses(&["--foo"], &["unknown option", "'--foo'", "--help"]);
    write_lat_refuses(&["--foo=1"], &["unknown option", "'--foo'"]);
    write_lat_refuses(&["-x"], &["unknown option", "'-x'"]);
    write_lat_refuses(&["-n5x"], &["'5x'", "--iters"]);
    // Options of other tools.
    write_lat_refuses(&["--rdzv"], &["unknown option", "'--rdzv'"]);
    write_lat_refuses(&["-l", "4"], &["unknown option", "'-l'"]);
}

#[test]
fn rejects_missing_and_surplus_values() {
    write_lat_refuses(&["10.1.1.8", "-n"], &["--iters", "needs a value"]);
    write_lat_refuses(&["10.1.1.8", "--size"], &["--size", "needs a value"]);
    write_lat_refuses(&["10.1.1.8", "--no-idc=yes"], &["--no-idc", "'yes'"]);
}

/// The error is about the invalid size at the end, so each form before it was read.
#[test]
fn reads_all_forms_of_options() {
    for form in [
        &["-n5"][..],
        &["-n", "5"],
        &["--iters=5"],
        &["--iters", "5"],
        &["--ite", "5"],
        &["--i=5"],
        &["-n", "0", "-n", "5"],
        &["10.1.1.8", "-n", "5"],
        &["-n", "5", "10.1.1.8", "--no-i", "-D", "1"],
        &[
            "--unres", "--dev", "soft1", "--lat=0", "--w=1", "--re", "--no-l",
        ],
        &["-dsoft1", "-v1", "-p1"],
    ] {
        write_lat_refuses(&[form, &["--size=8x"]].concat(), &["'8x'", "--size"]);
    }
}

#[test]
fn rejects_ambiguous_abbreviations() {
    write_lat_refuses(
        &["--no"],
        &["ambiguous option", "'--no'", "--no-idc", "--no-ll"],
    );
}

/// An abbreviation of a legacy option keeps its meaning, even if an option that the legacy tools
/// lack begins with it: `--loopback`, `--libcxi`, `--wait`, `--persist`, `--bind`, `--cpu`.
#[test]
fn keeps_abbreviations_of_legacy_tools() {
    for (tool, abbreviations) in [
        ("write-lat", &["--l", "--w", "--wa", "--p"][..]),
        ("atomic-lat", &["--c", "--l", "--p"]),
        ("send-bw", &["--l", "--li", "--p"]),
    ] {
        for abbreviation in abbreviations {
            let outcome = cxidiag(&[tool, "h", &format!("{abbreviation}=x")]);
            let long = match (*abbreviation, tool) {
                ("--w" | "--wa", _) => "--warmup",
                ("--p", _) => "--port",
                ("--c", _) => "--cswap-op",
                (_, "send-bw") => "--list-size",
                _ => "--latency-gap",
            };
            refused(&outcome, &format!("cxidiag {tool}"), &["'x'", long]);
        }
    }
    let outcome = cxidiag(&["send-bw", "h", "--bi", "-n", "x"]);
    refused(&outcome, "cxidiag send-bw", &["'x'", "--iters"]);
    write_lat_refuses(&["h", "--wai=x"], &["'x'", "--wait"]);
}

#[test]
fn rejects_options_of_other_side() {
    write_lat_refuses(&["h", "--persist"], &["--persist is for a server"]);
    write_lat_refuses(&["h", "--bind=::1"], &["--bind is for a server"]);
    write_lat_refuses(&["--wait=3"], &["--wait is for a client"]);
    write_lat_refuses(
        &["--connect-timeout=3"],
        &["--connect-timeout is for a client"],
    );
    write_lat_refuses(&["h", "--wait=-1"], &["'-1'", "--wait", "0 to 604800"]);
    write_lat_refuses(
        &["h", "--connect-timeout=0"],
        &["'0'", "--connect-timeout", "1 to 604800"],
    );
    write_lat_refuses(&["--bind="], &["''", "--bind", "address"]);
}

#[test]
fn t32_rejects_more_samples_than_memory_holds() {
    write_lat_refuses(
        &["10.1.1.8", "--report-all", "-n", "18446744073709551615"],
        &["--report-all", "18446744073709551615", "1000000000"],
    );
}

#[test]
fn rejects_library_for_software_nic() {
    write_lat_refuses(
        &["--loopback", "-d", "soft0", "--libcxi=/x"],
        &["--libcxi=/x", "soft0", "cxiN"],
    );
}

#[test]
fn rejects_arguments_that_are_not_text() {
    let strange = OsStr::from_bytes(b"\xff8");
    let outcome = run(
        Path::new(CXIDIAG),
        &[OsStr::new("write-lat"), OsStr::new("-s"), strange],
    );
    refused(&outcome, "cxidiag write-lat", &["--size"]);
    let outcome = run(Path::new(CXIDIAG), &[OsStr::new("write-lat"), strange]);
    refused(&outcome, "cxidiag write-lat", &["invalid address"]);
    let outcome = run(Path::new(CXIDIAG), &[strange]);
    refused(&outcome, "cxidiag", &["unknown tool", "write-lat"]);
}

#[test]
fn prints_help_before_later_errors() {
    for arguments in [
        &["write-lat", "--help"][..],
        &["write-lat", "-h", "--foo"],
        &["write-lat", "-n0", "--he"],
    ] {
        let outcome = cxidiag(arguments);
        assert_eq!(
            (outcome.status, outcome.stderr.as_str()),
            (0, ""),
            "{arguments:?}"
        );
        assert!(
            outcome
                .stdout
                .contains("\nUsage:\n  cxidiag write-lat [-d DEV] [-p PORT]\n"),
            "{}",
            outcome.stdout
        );
        assert!(
            outcome
                .stdout
                .contains("\n  cxidiag write-lat ADDR [OPTIONS]\n")
        );
        assert!(
            outcome
                .stdout
                .contains("\n  cxidiag write-lat --loopback [OPTIONS]\n")
        );
    }
}

/// The help contains the syntax of each option in the usage text of the user's document, except for
/// options of later versions.
#[test]
fn lists_options_of_user_document_in_help() {
    let document = include_str!("fixtures/seed-latency.txt");
    let later = ["--tx-gpu", "--rx-gpu", "--gpu-type", "--use-hp"];
    for (tool, count) in [("write-lat", 14), ("read-lat", 13), ("atomic-lat", 18)] {
        let legacy = format!("  cxi_{} [-d DEV] [-p PORT]\n", tool.replace('-', "_"));
        let (_, usage) = document.split_once(&legacy).unwrap();
        let (usage, _) = usage.split_once("```").unwrap();
        let help = cxidiag(&[tool, "--help"]).stdout;
        let mut options = 0;
        for line in usage
            .lines()
            .filter(|line| line.trim_start().starts_with('-'))
        {
            let syntax = line[..line.len().min(26)].trim_end();
            if !later.iter().any(|option| syntax.contains(option)) {
                assert!(
                    help.lines().any(|ours| ours.starts_with(syntax)),
                    "{tool} {syntax:?}"
                );
                options += 1;
            }
        }
        assert_eq!(options, count, "{tool}");
    }
}

#[test]
fn prints_help_list_and_version_of_program() {
    let help = cxidiag(&["--help"]);
    assert_eq!((help.status, help.stderr.as_str()), (0, ""));
    assert!(help.stdout.contains("\n  write-lat "), "{}", help.stdout);
    let alone = cxidiag(&[]);
    assert_eq!((alone.status, alone.stdout), (0, help.stdout));
    let list = cxidiag(&["--list"]);
    assert!(
        list.stdout
            .lines()
            .any(|line| line == "write-lat cxi_write_lat"),
        "{}",
        list.stdout
    );
    for option in ["-V", "--version"] {
        let version = cxidiag(&[option]);
        let expected = format!("cxidiag version: {}", env!("CARGO_PKG_VERSION"));
        assert!(version.stdout.starts_with(&expected), "{}", version.stdout);
        assert_eq!((version.status, version.stdout.lines().count()), (0, 1));
    }
}

#[test]
fn rejects_unknown_tools() {
    refused(
        &cxidiag(&["write-lot"]),
        "cxidiag",
        &["'write-lot'", "write-lat"],
    );
    refused(
        &cxidiag(&["--foo"]),
        "cxidiag",
        &["unknown option", "'--foo'"],
    );
    refused(
        &cxidiag(&["--version", "x"]),
        "cxidiag",
        &["unexpected argument", "'x'"],
    );
    let link = Link::new("unknown", "cxi_write_lot");
    refused(
        &run(&link.0, &["10.1.1.8"]),
        "cxi_write_lot",
        &["cxi_write_lat"],
    );
}

#[test]
fn runs_tool_under_legacy_name() {
    let link = Link::new("legacy", "cxi_write_lat");
    let version = run(&link.0, &["-V"]);
    assert_eq!(
        (version.status, version.stdout.as_str()),
        (0, "cxi_write_lat version: 2.4.0\n")
    );
    let help = run(&link.0, &["-h"]).stdout;
    let ours = cxidiag(&["write-lat", "-h"]).stdout;
    assert_eq!(help, ours.replace("cxidiag write-lat", "cxi_write_lat"));
    refused(
        &run(&link.0, &["-s", "8x"]),
        "cxi_write_lat",
        &["'8x'", "--size"],
    );
    let version = cxidiag(&["write-lat", "--version"]).stdout;
    assert_eq!(
        version,
        format!("cxidiag write-lat version: {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn runs_program_under_any_other_name() {
    let link = Link::new("other", "diag");
    assert_eq!(run(&link.0, &["write-lat", "-V"]).status, 0);
}

#[test]
fn exits_with_0_when_reader_closes_pipe() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(CXIDIAG)
        .arg("--help")
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}
