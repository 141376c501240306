//! Files that users name, to be read and to be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{
    Fabric, assert_status, assert_success, finish, is_open_to_other_users, stderr, stdout,
};

#[test]
fn refuses_devices_in_place_of_files() {
    let fabric = Fabric::new();
    for (arguments, status) in [
        ("report -o /dev/null /dev/zero", 1),
        ("compare /dev/zero /dev/zero", 1),
        ("survey --loopback=2 --resume=/dev/zero", 2),
        ("survey --loopback=2 --pairs=@/dev/zero", 2),
        ("survey --loopback=2 --locations=/dev/zero", 2),
        ("survey --loopback=2 --topology=/dev/zero", 2),
        ("check --hosts=@/dev/zero", 2),
        ("write-lat --loopback -d soft0 --expect=@/dev/zero", 2),
        ("stat soft0 --set=@/dev/zero -- true", 2),
    ] {
        let error = assert_status(&fabric.run(arguments), status);
        let why = "neither a regular file nor a pipe";
        assert!(error.contains(why), "{arguments}: {error}");
        assert_eq!(error.lines().filter(|line| line.contains(why)).count(), 1);
    }
    let mut devices = fabric.command("devices soft0");
    devices.env("CXIDIAG_TOPOLOGY", "/dev/zero");
    let error = assert_status(&finish(devices), 2);
    assert!(error.contains("neither a regular file nor a pipe"), "{error}");
}

#[test]
fn reads_files_with_a_byte_order_mark() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bounds");
    fs::write(&path, "\u{feff}p50<1000s\r\n").expect("a file");
    let expect = format!("--expect=@{}", path.display());
    let arguments = ["write-lat", "--loopback", "-d", "soft0", "-n", "10", &expect];
    assert_success(&fabric.run(&arguments));
}

/// The check before the run does what its end does.
#[test]
fn refuses_a_file_that_cannot_be_replaced_before_measuring() {
    if !rustix::process::geteuid().is_root() {
        println!("not tested: needs root");
        return;
    }
    if !is_open_to_other_users() {
        return;
    }
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o1777)).expect("a mode");
    let file = directory.path().join("x.json");
    fs::write(&file, "").expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("a mode");
    let json = format!("--json={}", file.display());
    let mut run = fabric.command(&["write-lat", "--loopback", "-d", "soft0", "-n", "10", &json]);
    run.user(1234, 1234).env("CXIDIAG_FABRIC_DIR", directory.path().join("fabric"));
    let output = finish(run);
    let error = assert_status(&output, 1);
    assert!(error.contains("Operation not permitted"), "{error}");
    assert_eq!(output.stdout, b"");
}

/// The node exporter rejects two files with the same samples.
#[test]
fn refuses_metrics_beside_a_file_with_the_same_samples() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().unwrap();
    let run = |command: &str, file: &str| {
        let file = directory.path().join(file);
        let mut words: Vec<&str> = command.split(' ').collect();
        let option = format!("--openmetrics={}", file.display());
        words.insert(1, &option);
        let output = fabric.run(words.as_slice());
        (output.status.code(), stderr(&output))
    };
    for (command, status) in [("check soft0 --quick", 0), ("survey --loopback=2 --no-why", 4)] {
        let name = command.split(' ').next().unwrap();
        let [first, second] = ["a", "b"].map(|end| format!("{name}-{end}.prom"));
        assert_eq!(run(command, &first).0, Some(status));
        assert_eq!(run(command, &first).0, Some(status));
        let (refused, error) = run(command, &second);
        assert_eq!(refused, Some(2), "{error}");
        assert!(error.contains(&first) && error.contains("name this file"), "{error}");
        assert!(!directory.path().join(&second).exists());
    }
    // A command under `stat` runs whatever its files are.
    assert_eq!(run("stat -- true", "stat-a.prom").0, Some(0));
    let (status, error) = run("stat -- false", "stat-b.prom");
    assert_eq!(status, Some(1));
    assert!(error.contains("stat-a.prom"), "{error}");
}

/// As of the tools: a document on standard output, and no file.
#[test]
fn writes_document_of_invalid_arguments_of_commands() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("found.json");
    for arguments in [
        "devices --bogus",
        "check --window=x",
        "check --csv --local",
        "ping --count=x",
        "survey --pairs=x",
        "survey",
        "why --peer-device=cxi1",
        "stat",
        "compare --max-regress=x",
        "selftest --only=x",
    ] {
        let (command, rest) = arguments.split_once(' ').unwrap_or((arguments, ""));
        let run = |json: &str| Fabric::new().run(&*format!("{command} {json} {rest}"));
        let output = run("--json");
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", stderr(&output));
        let document: Value = serde_json::from_str(&stdout(&output)).expect(arguments);
        assert_eq!(document["error"]["kind"], "usage", "{arguments}");
        let output = run(&format!("--json={}", file.display()));
        assert_eq!((output.status.code(), &*stdout(&output)), (Some(2), ""), "{arguments}");
        assert!(!file.exists(), "{arguments}");
    }
}

#[test]
fn writes_document_of_failures_before_results() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("found.json");
    for (command, status) in [
        ("stat --merge /none/x", 2),
        ("stat --stop=/none/x", 2),
        ("survey --hosts=localhost -p 1", 1),
        ("why soft0 --peer=localhost -p 1", 1),
    ] {
        let (name, rest) = command.split_once(' ').unwrap();
        let option = format!("--json={}", file.display());
        let output = Fabric::new().run(&*format!("{name} {option} {rest}"));
        assert_eq!(output.status.code(), Some(status), "{command}: {}", stderr(&output));
        let text = std::fs::read_to_string(&file).expect(command);
        let document: Value = serde_json::from_str(&text).expect(command);
        assert!(document["schema_version"].is_u64(), "{command}: {text}");
        std::fs::remove_file(&file).unwrap();
    }
}
