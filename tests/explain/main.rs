//! `cxidiag explain`: from the messages of a failed job to the cause.

#[path = "../harness/mod.rs"]
mod harness;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use explain::table::TABLE;
use harness::{CXIDIAG, Fabric, assert_status, assert_success, finish, schema, stderr, stdout};

/// A document that matches its schema, which allows no other fields.
#[track_caller]
fn document(output: &Output) -> Value {
    schema::document(include_str!("../../docs/explain.schema.json"), &stdout(output))
}

/// The path of a log after a public report.
fn log(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/explain/logs").join(name);
    path.display().to_string()
}

fn explain(arguments: &[&str]) -> Output {
    let arguments: Vec<&str> = ["explain"].iter().chain(arguments).copied().collect();
    Fabric::new().run(&arguments)
}

/// Explains a text on standard input.
fn explain_text(text: &[u8], options: &[&str]) -> Output {
    let mut command = std::process::Command::new(CXIDIAG);
    command.args(["explain", "-"]).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn each_public_log_fits_in_ten_lines_and_its_schema() {
    let directory = PathBuf::from(log(""));
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path().display().to_string();
        if !path.ends_with(".log") {
            continue;
        }
        count += 1;
        let output = explain(&[&path]);
        let text = stdout(&output);
        assert!(text.lines().count() <= 10, "{path}:\n{text}");
        let with_document = explain(&[&path, "--json"]);
        let document = document(&with_document);
        assert_eq!(document["summary"], text.lines().next().unwrap());
        let status = document["exit_status"].as_i64().unwrap();
        assert_eq!(output.status.code().map(i64::from), Some(status), "{path}");
        assert_eq!(stderr(&output), "", "{path}");
    }
    assert_eq!(count, 36);
}

#[test]
fn reads_standard_input_gzip_and_several_files() {
    let text = fs::read(log("L20.log")).unwrap();
    let output = explain(&[&log("L20.log"), "-q"]);
    assert_success(&output);
    let expected = stdout(&output);
    assert!(expected.starts_with("known: "), "{expected}");
    assert_eq!(stdout(&explain_text(&text, &["-q"])), expected);
    let directory = tempfile::tempdir().unwrap();
    let packed = directory.path().join("job.out.gz");
    let mut encoder = GzEncoder::new(fs::File::create(&packed).unwrap(), Compression::fast());
    encoder.write_all(&text).unwrap();
    encoder.finish().unwrap();
    let packed = packed.display().to_string();
    assert_eq!(stdout(&explain(&[&packed, "-q"])), expected);
    let both = explain(&[&log("L36.log"), &packed, "--json"]);
    let both = document(&both);
    assert_eq!(both["cause"]["log"], packed.as_str());
    assert_eq!(both["logs"].as_array().unwrap().len(), 2);
}

#[test]
fn shows_all_messages() {
    let text = stdout(&explain(&[&log("L21.log"), "--all"]));
    let (_, table) = text.split_once("\n\n").expect("a table behind the explanation");
    assert!(table.starts_with("role"), "{table}");
    assert!(table.contains("consequence"), "{table}");
}

#[test]
fn names_hosts_of_nics_by_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let nids = directory.path().join("nids");
    for line in ["node9 0x19631", "node9 103985", "node9 dev hsn0 lladdr 02:00:00:01:96:31 STALE"] {
        fs::write(&nids, format!("other 7\n{line}\n")).unwrap();
        let option = format!("--nids={}", nids.display());
        let text = stdout(&explain(&[&log("L21.log"), &option, "-q"]));
        assert!(text.contains("NIC 0x19631 (node9, NID 103985)"), "{line}: {text}");
    }
}

#[test]
fn asks_this_node_about_possible_causes() {
    let text = "CXI retry handler not running for device: cxi0\n";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.out");
    fs::write(&path, text).unwrap();
    let explained = |faults: &str| {
        let fabric = Fabric::new();
        let mut command = fabric.command(&["explain", "--here", "-d", "soft0", "--json"]);
        command.arg(&path).env("CXIDIAG_FAULTS", faults);
        document(&finish(command))
    };
    let causes =
        |document: &Value| document["cause"]["possible_causes"].as_array().unwrap().clone();
    let faulty = explained("retry-handler=off");
    assert_eq!(faulty["confidence"], "known");
    assert_eq!(causes(&faulty)[0]["is_here"], true);
    assert!(causes(&faulty)[0]["reading"].as_str().unwrap().contains("soft0"));
    let healthy = explained("");
    assert_eq!(healthy["confidence"], "probably");
    assert_eq!(causes(&healthy).len(), causes(&faulty).len() - 1);
}

/// The link of this node says nothing about the link of another one.
#[test]
fn readings_of_another_node_change_nothing() {
    let line = |nic: &str| {
        format!(
            "libfabric:7:1700000000::cxi:ep_data:f():1<warn> far7: TXC (0x1:0): Request dest_addr: 1 \
             caddr.nic: {nic} caddr.pid: 0 error: 0x1 (err: 113, UNDELIVERABLE)\n"
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.out");
    let fabric = Fabric::new();
    // soft0 has the address 0x12.
    for (nic, is_own) in [("0X9", false), ("0X12", true)] {
        fs::write(&path, line(nic)).unwrap();
        let mut command = fabric.command(&["explain", "--here", "-d", "soft0", "--json"]);
        command.arg(&path);
        let found = document(&finish(command));
        let causes = found["cause"]["possible_causes"].as_array().unwrap().clone();
        assert_eq!(causes[0]["text"] == "the link of that NIC is down", !is_own, "{causes:?}");
        let missing = found["missing"].to_string();
        assert_eq!(missing.contains("run --here there"), !is_own, "{missing}");
    }
}

/// The link of this node says nothing about the link of a peer that the log does not name.
#[test]
fn readings_say_nothing_about_an_unknown_peer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.out");
    fs::write(&path, "OFI poll failed (f:1:g:Input/output error - UNDELIVERABLE)\n").unwrap();
    let fabric = Fabric::new();
    let mut command = fabric.command(&["explain", "--here", "-d", "soft0", "--json"]);
    command.arg(&path);
    let found = document(&finish(command));
    assert_eq!(found["cause"]["possible_causes"][0]["text"], "the link of that NIC is down");
    assert_eq!(found["cause"]["possible_causes"][0]["is_here"], Value::Null);
}

#[test]
fn hostile_logs_do_nothing_to_the_terminal() {
    let text =
        b"\x1b]0;title\x07\x1b[2JH/W Event Queue overflow detected.\x1b[8m\x00\xff\xfe\x07\n";
    for options in [&[][..], &["--all"]] {
        let output = explain_text(text, options);
        assert_success(&output);
        let shown = output.stdout.iter().filter(|byte| **byte != b'\n');
        assert!(shown.clone().all(|byte| *byte >= b' ' && *byte != 0x7f), "{}", stdout(&output));
    }
    let unknown = explain_text(b"fatal \x1b[31m\x07 error\n", &[]);
    let text = assert_status(&unknown, 4);
    assert_eq!(text, "");
    assert!(stdout(&unknown).starts_with("not known: "), "{}", stdout(&unknown));
    assert!(!stdout(&unknown).contains(['\x1b', '\x07']));
}

#[test]
fn refuses_what_it_cannot_read() {
    for (arguments, status, words) in [
        (&[][..], 2, "expected a LOG, or - for standard input"),
        (&["-", "-"], 2, "standard input (-) can be read only once"),
        (&["/nonexistent"], 1, "/nonexistent: No such file or directory"),
        (&["/"], 1, "/: is a directory"),
        (&["-", "--nids=/nonexistent"], 1, "--nids: /nonexistent: No such file or directory"),
        (&["-", "-d", "soft0"], 2, "--device needs --here"),
    ] {
        let errors = assert_status(&explain(arguments), status);
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    }
}

/// Each command that an explanation proposes exists and has its options.
#[test]
fn proposed_commands_exist() {
    let overview = stdout(&Fabric::new().run("--help"));
    let mut checked = 0;
    for row in &TABLE.rows {
        let actions = row.action.into_iter().flat_map(|text| text.split('\'').skip(1).step_by(2));
        for command in row.commands.iter().copied().chain(actions) {
            let Some(command) = command.strip_prefix("cxidiag ") else { continue };
            let mut words = command.split_whitespace();
            let name = words.next().unwrap();
            let named = overview.lines().any(|line| line.split_whitespace().next() == Some(name));
            assert!(named, "{}: {command}", row.id);
            let help = stdout(&Fabric::new().run(&[name, "--help"]));
            for option in words.filter(|word| word.starts_with("--")) {
                let option = option.split('=').next().unwrap();
                assert!(help.contains(option), "{}: {command}", row.id);
            }
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}
