//! `cxidiag devices`: the NICs of a machine, and who may use them.

mod harness;

use std::fs;
use std::path::Path;

use boon::{Compiler, Schemas};
use serde_json::{Value, json};

use harness::legacy::library;
use harness::{Fabric, stderr, stdout};

const SCHEMA: &str = include_str!("../docs/devices.schema.json");

/// Reads a document that must match its schema, which allows no further fields.
#[track_caller]
fn document(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).expect("one document");
    let schema: Value = serde_json::from_str(SCHEMA).expect("a schema");
    let mut compiler = Compiler::new();
    compiler.add_resource("devices", schema).expect("a schema");
    let mut schemas = Schemas::new();
    let index = compiler.compile("devices", &mut schemas).expect("a schema");
    if let Err(error) = schemas.validate(&document, index) {
        panic!("{error:#}\n{document:#}");
    }
    document
}

/// An invented machine: files below a directory that replaces `/`.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    root
}

#[test]
fn prints_block_of_named_device() {
    let fabric = Fabric::new();
    let output = fabric.run(&["devices", "soft1"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stderr(&output), "");
    let text = stdout(&output);
    let start = "\
Device           : soft1
Platform         : software NIC (no Cassini hardware involved)
NIC Address      : 0x13
PID Bits         : 9 (511 PIDs)
Link             : up
Link MTU         : 2112 bytes
Retry Handler    : running
Board            : Not Available
Service 1        : enabled; VNIs 1,10; anyone; system
  In Use/Limit   : PTE 0/2047  TXQ 0/1024  TGQ 0/512  EQ 0/2047
                 : CT 0/2047  LE 0/16384  TLE 0/512  AC 0/1022
Service 2        : enabled; VNIs 16-31; anyone
";
    assert!(text.starts_with(start), "{text}");
    for service in [
        "Service 3        : DISABLED; VNIs 40; anyone\n",
        "Service 4        : enabled, NOT for this user; VNIs 50; user 4294967294\n",
    ] {
        assert!(text.contains(service), "{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    fabric.assert_nothing_left();
}

#[test]
fn prints_one_row_for_each_nic() {
    let fabric = Fabric::new();
    let root = machine(&[]);
    let mut command = fabric.command(&["devices"]);
    command
        .env("CXIDIAG_ROOT", root.path())
        .env("CXIDIAG_NICS", "2");
    let output = command.output().expect("cxidiag starts");
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    assert!(
        text.starts_with("No Cassini hardware on this machine; "),
        "{text}"
    );
    let table = "\
Device  Address  Link  Speed  NUMA  Services  Notes
soft0      0x12  up        -     -  1-2       software NIC
soft1      0x13  up        -     -  1-2       software NIC
";
    assert!(text.ends_with(table), "{text}");
    let output = command.arg("--verbose").output().expect("cxidiag starts");
    let text = stdout(&output);
    let devices: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("Device           : "))
        .collect();
    assert_eq!(devices, ["soft0", "soft1"]);
}

/// With a server that uses a service, and a link that is down.
#[test]
fn writes_document() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0"]);
    let mut command = fabric.command(&["devices", "soft0", "--json"]);
    command.env("CXIDIAG_FAULTS", "down=0ns");
    let output = command.output().expect("cxidiag starts");
    assert!(output.status.success(), "{output:?}");
    drop(server);
    let devices = document(&stdout(&output));
    let device = &devices["devices"][0];
    assert_eq!(device["name"], "soft0");
    assert_eq!(device["is_software"], true);
    assert_eq!(device["nic"]["address"], 0x12);
    assert_eq!(device["nic"]["link_is_up"], false);
    let services = device["services"].as_array().expect("services");
    let of = |id: u64| {
        services
            .iter()
            .find(|service| service["id"] == id)
            .expect("a service")
    };
    assert_eq!(of(1)["vnis"], json!([1, 10]));
    assert_eq!(of(2)["vni_range"], json!([16, 31]));
    assert_eq!(of(3)["is_usable"], false);
    assert_eq!(
        of(4)["members"],
        json!([{"kind": "user", "id": 4294967294_u32}])
    );
    assert_eq!(of(4)["is_usable"], false);
}

/// The software NIC as libcxi.so.1 stands for hardware, whose place comes from the kernel.
#[test]
fn shows_place_of_hardware() {
    let fabric = Fabric::new();
    let root = machine(&[
        ("sys/class/cxi/cxi0/device/numa_node", "1\n"),
        (
            "sys/class/cxi/cxi0/device/net/hsn0/address",
            "02:00:00:00:00:12\n",
        ),
        (
            "sys/class/cxi/cxi1/device/net/hsn1/address",
            "00:40:a6:02:00:13\n",
        ),
        ("sys/devices/system/node/node1/cpulist", "8-15,24-31\n"),
    ]);
    let libcxi = format!("--libcxi={}", library());
    let run = |args: &[&str]| {
        let mut command = fabric.command_of(Path::new(harness::CXIDIAG), args);
        command
            .env("CXIDIAG_ROOT", root.path())
            .env("CXIDIAG_NICS", "2");
        command.output().expect("cxidiag starts")
    };
    let text = stdout(&run(&["devices", &libcxi]));
    for line in ["cxi0       0x12  up", "MAC address NOT algorithmic\n"] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    let text = stdout(&run(&["devices", "--verbose", &libcxi]));
    for line in [
        "Device           : cxi0\n",
        "NUMA Node        : 1 (CPUs 8-15,24-31)\n",
        "MAC Address      : 02:00:00:00:00:12\n",
        "MAC Address      : 00:40:a6:02:00:13 (NOT algorithmic: switches do not route to it)\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    let output = run(&["devices", "cxi0", &libcxi, "--json"]);
    let devices = document(&stdout(&output));
    assert_eq!(devices["devices"][0]["numa_node"], 1);
    assert_eq!(devices["devices"][0]["mac_address"], "02:00:00:00:00:12");
}

/// The driver lists a NIC that cannot be opened.
#[test]
fn lists_nic_that_cannot_be_opened() {
    let fabric = Fabric::new();
    let root = machine(&[("sys/class/cxi/cxi3/device/numa_node", "0\n")]);
    let mut command = fabric.command(&["devices", "--json"]);
    command
        .env("CXIDIAG_ROOT", root.path())
        .env("CXIDIAG_NICS", "1")
        .env_remove("CXIDIAG_LIBCXI");
    let output = command.output().expect("cxidiag starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stderr(&output);
    assert!(
        said.starts_with("cxidiag devices: error: cannot open device cxi3: "),
        "{said}"
    );
    let devices = document(&stdout(&output));
    let device = &devices["devices"][0];
    assert_eq!(
        (&device["name"], &device["nic"]),
        (&json!("cxi3"), &Value::Null)
    );
    assert_eq!(device["error"]["kind"], "environment");
    assert_eq!(device["numa_node"], 0);
    assert_eq!(devices["devices"][1]["name"], "soft0");
}

/// The other NICs are listed, and the document has the error.
#[test]
fn reports_library_that_cannot_be_loaded() {
    let fabric = Fabric::new();
    let root = machine(&[]);
    for (variable, value, status) in [
        ("CXIDIAG_LIBCXI", "/no/such/library", 1),
        ("CXIDIAG_NICS", "many", 2),
    ] {
        let mut command = fabric.command(&["devices", "--json"]);
        command
            .env("CXIDIAG_ROOT", root.path())
            .env(variable, value);
        let output = command.output().expect("cxidiag starts");
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(stderr(&output).contains(value), "{output:?}");
        let devices = document(&stdout(&output));
        let message = devices["error"]["message"].as_str().expect("text");
        assert!(message.contains(value), "{message}");
        let found = devices["devices"].as_array().expect("devices");
        assert_eq!(found.is_empty(), status == 2, "{devices}");
    }
}

#[test]
fn writes_document_to_file() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("devices.json");
    let option = format!("--json={}", file.display());
    let output = fabric.run(&["devices", "soft0", &option]);
    assert!(stdout(&output).starts_with("Device           : soft0\n"));
    document(&fs::read_to_string(file).expect("a document"));
}

#[test]
fn rejects_invalid_arguments() {
    for (args, words) in [
        (&["nope"][..], "invalid device 'nope': expected cxiN"),
        (&["--jsn"], "--jsn"),
        (&["soft0", "--libcxi="], "--libcxi"),
        (&["soft0", "--json="], "--json"),
        (
            &["soft0", "--json=/no/such/directory/file"],
            "/no/such/directory/file",
        ),
    ] {
        let output = Fabric::new().run(&[&["devices"], args].concat());
        let said = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{said}");
        assert!(said.contains(words), "{said}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn prints_help() {
    let output = Fabric::new().run(&["devices", "--help"]);
    assert!(stdout(&output).contains("cxidiag devices [DEVICE...]"));
}
