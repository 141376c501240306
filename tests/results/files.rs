//! Files that users name, to be read and to be written.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::harness::{Fabric, assert_status, assert_success, finish};

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
    assert!(
        error.contains("neither a regular file nor a pipe"),
        "{error}"
    );
}

#[test]
fn reads_files_with_a_byte_order_mark() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bounds");
    fs::write(&path, "\u{feff}p50<1000s\r\n").expect("a file");
    let expect = format!("--expect=@{}", path.display());
    let arguments = [
        "write-lat",
        "--loopback",
        "-d",
        "soft0",
        "-n",
        "10",
        &expect,
    ];
    assert_success(&fabric.run(&arguments));
}

/// The check before the run does what its end does.
#[test]
fn refuses_a_file_that_cannot_be_replaced_before_measuring() {
    if !rustix::process::geteuid().is_root() {
        println!("not tested: needs root");
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
    run.user(1234, 1234)
        .env("CXIDIAG_FABRIC_DIR", directory.path().join("fabric"));
    let output = finish(run);
    let error = assert_status(&output, 1);
    assert!(error.contains("Operation not permitted"), "{error}");
    assert_eq!(output.stdout, b"");
}
