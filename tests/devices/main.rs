//! `cxidiag devices`: the NICs of a machine and who may use them.

#[path = "../harness/mod.rs"]
mod harness;

use std::process::Output;

use serde_json::{Value, json};

use harness::machine::MadeUp;
use harness::{
    Command, Fabric, LIBCXI, assert_status, assert_success, finish, schema, stderr, stdout,
};

const SCHEMA: &str = include_str!("../../docs/devices.schema.json");

/// A document that matches its schema, which allows no other fields.
#[track_caller]
fn document(text: &str) -> Value {
    schema::document(SCHEMA, text)
}

/// Runs the program on a machine described by `files`, with software NICs as its environment says.
fn on_machine(files: &[(&str, &str)], mut command: Command) -> Output {
    let machine = MadeUp::new(files);
    if command.get_envs().all(|(name, _)| name != "CXIDIAG_NICS") {
        command.env("CXIDIAG_NICS", "2");
    }
    finish(machine.seen_by(command))
}

/// libcxi.md 2.2: the NID of the NIC, and the number of the virtual function above it.
#[test]
fn shows_virtual_function_of_the_next_release() {
    let with = |arguments: &str, release| {
        let fabric = Fabric::new();
        let mut command = fabric.command(arguments);
        command.env("CXIDIAG_NIDS", "0x12,0x200012");
        command.env("CXIDIAG_SHS", release);
        on_machine(&[], command)
    };
    let text = stdout(&with("devices", "next"));
    assert!(text.contains("virtual function\n"), "{text}");
    let text = stdout(&with("devices --verbose soft1", "next"));
    let address = "NIC Address      : 0x200012 (virtual function 1 of 0x12)\n";
    assert!(text.contains(address), "{text}");
    for line in ["Link             : none of its own", "Retry Handler    : on the NIC of this"] {
        assert!(text.contains(line), "{text}");
    }
    let document = document(&stdout(&with("devices soft1 --json", "next")));
    let nic = &document["devices"][0]["nic"];
    assert_eq!((&nic["link_is_up"], &nic["retry_handler_runs"]), (&json!(null), &json!(null)));
    let output = with("write-lat --loopback -d soft1 -n 3 --latency-gap=0", "next");
    assert_success(&output);
    assert_eq!(stderr(&output), "");
    let text = stdout(&with("check soft1 --quick", "next"));
    assert!(text.starts_with("OK soft1\n"), "{text}");
    assert!(text.contains("software NIC, virtual function"), "{text}");
    let output = with("devices", "14");
    let errors = assert_status(&output, 2);
    assert!(errors.contains("CXIDIAG_NIDS=0x200012: a virtual function"), "{errors}");
}

#[test]
fn prints_the_fabric_of_software_nics() {
    let topology = "dragonfly:groups=1,switches=2,nics=1;fault link 0.0>0.1 rate=25%";
    let fabric = Fabric::new();
    let run = |arguments: &str, value: &str| {
        let mut command = fabric.command(arguments);
        command.env("CXIDIAG_TOPOLOGY", value);
        finish(command)
    };
    let output = run("devices --topology", topology);
    assert_success(&output);
    let expected = "    to 0.1: 1 cable, 25 MB/s, 20 us; FAULT rate 25 % (6.25 MB/s)\n";
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
    let output = run("devices", topology);
    assert_success(&output);
    assert!(stdout(&output).contains("soft1      0x41  up"), "{}", stdout(&output));
    for (arguments, value, message) in [
        ("devices --topology", "", "--topology: CXIDIAG_TOPOLOGY names no topology"),
        ("devices --topology soft0", topology, "--topology: not allowed with DEVICE"),
        ("devices --topology --json", topology, "--topology: not allowed with --json"),
        ("devices --topology", "/no/file", "CXIDIAG_TOPOLOGY=/no/file: No such file"),
        (
            "devices",
            "dragonfly:groups=x",
            "CXIDIAG_TOPOLOGY=dragonfly:groups=x: item 1: 'groups=x'",
        ),
    ] {
        let output = run(arguments, value);
        assert_status(&output, 2);
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
}

#[test]
fn describes_a_software_nic_in_80_columns() {
    let fabric = Fabric::new();
    let output = fabric.run("devices soft1");
    assert_success(&output);
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
Service 1        : enabled; VNIs 1,10; anyone
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

/// libcxi.md 3.1: the driver after 14.0.1 counts list entries of services with a pool only, and
/// lists resource groups that are no services.
#[test]
fn shows_services_of_each_release() {
    for release in ["12", "13", "14", "14.0.1", "next"] {
        let fabric = Fabric::new();
        let mut command = fabric.command("devices soft0");
        command.env("CXIDIAG_SHS", release);
        let output = finish(command);
        assert_success(&output);
        let text = stdout(&output);
        let count = if release == "next" { "n/a" } else { "0" };
        let line = format!(": CT 0/2047  LE {count}/16384  TLE {count}/0  AC 0/1022\n");
        assert!(text.contains(&line), "{release}: {text}");
        assert!(text.contains("  LE 0/16384  TLE 0/512  "), "{text}");
        assert!(!text.contains("65535"), "{release}: {text}");
        assert!(!text.contains("Service 1001"), "{release}: {text}");
        let own = "\nService 1000     : enabled, for the driver alone; no VNIs; user 0; system\n";
        assert!(text.contains(own), "{release}: {text}");
        let mut command = fabric.command("devices soft0 --json");
        command.env("CXIDIAG_SHS", release);
        let devices = document(&stdout(&finish(command)));
        let services = devices["devices"][0]["services"].as_array().expect("services");
        let own = services.iter().find(|service| service["id"] == 1000);
        assert_eq!(own.expect("a service")["is_usable"], false, "{release}");
        let le = &services[1]["resources"][5]["in_use"];
        assert_eq!(le.is_null(), release == "next", "{release}: {le}");
    }
}

#[test]
fn marks_service_that_tools_use_by_default() {
    let fabric = Fabric::new();
    let mut command = fabric.command("devices soft0");
    command.env("CXIDIAG_SERVICES", "job");
    let output = finish(command);
    assert_success(&output);
    let text = stdout(&output);
    assert!(text.contains("\nService 1        : DISABLED; VNIs 1,10; anyone\n"), "{text}");
    let service = text.lines().find(|line| line.starts_with("Service 5 ")).expect("a service");
    assert!(service.ends_with("; used by default"), "{service}");
}

#[test]
fn prints_one_row_for_each_nic() {
    let output = on_machine(&[], Fabric::new().command("devices"));
    assert_success(&output);
    let text = stdout(&output);
    assert!(text.starts_with("No Cassini hardware on this machine; "), "{text}");
    let table = "\
Device  Address  Link  Speed  NUMA  Services  Notes
soft0      0x12  up        -     -  1-2       software NIC
soft1      0x13  up        -     -  1-2       software NIC
";
    assert!(text.ends_with(table), "{text}");
    let output = on_machine(&[], Fabric::new().command("devices --verbose"));
    let text = stdout(&output);
    let devices: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("Device           : ")).collect();
    assert_eq!(devices, ["soft0", "soft1"]);
}

#[test]
fn prints_a_document_with_services_and_a_link_that_is_down() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0");
    let mut command = fabric.command("devices soft0 --json");
    command.env("CXIDIAG_FAULTS", "down=0ns");
    let output = finish(command);
    assert_success(&output);
    drop(server);
    let devices = document(&stdout(&output));
    let device = &devices["devices"][0];
    let service = |id: u64| {
        let services = device["services"].as_array().expect("services");
        let found = services.iter().find(|service| service["id"] == id);
        found.expect("a service")
    };
    let members = json!([{"kind": "user", "id": 4294967294_u32}]);
    for (found, expected) in [
        (&device["name"], json!("soft0")),
        (&device["is_software"], json!(true)),
        (&device["nic"]["address"], json!(0x12)),
        (&device["nic"]["link_is_up"], json!(false)),
        (&device["default_svc_id"], json!(1)),
        (&service(1)["vnis"], json!([1, 10])),
        (&service(2)["vni_range"], json!([16, 31])),
        (&service(3)["is_usable"], json!(false)),
        (&service(4)["members"], members),
        (&service(4)["is_usable"], json!(false)),
    ] {
        assert_eq!(*found, expected);
    }
}

/// The software NIC as a libcxi.so.1 stands in for hardware; its place comes from the kernel.
#[test]
fn places_hardware_on_numa_nodes() {
    let fabric = Fabric::new();
    let class = "sys/class/cxi";
    let files = [
        (&*format!("{class}/cxi0/device/numa_node"), "1\n"),
        (&format!("{class}/cxi0/device/net/hsn0/address"), "02:00:00:00:00:12\n"),
        (&format!("{class}/cxi1/device/net/hsn1/address"), "00:40:a6:02:00:13\n"),
        ("sys/devices/system/node/node1/cpulist", "8-15,24-31\n"),
    ];
    let run = |args: &str| {
        let command = fabric.command(&format!("devices --libcxi={} {args}", LIBCXI.display()));
        stdout(&on_machine(&files, command))
    };
    let text = run("");
    for line in ["cxi0       0x12  up", "MAC address NOT algorithmic\n"] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    let text = run("--verbose");
    for line in [
        "Device           : cxi0\n",
        "NUMA Node        : 1 (CPUs 8-15,24-31)\n",
        "MAC Address      : 02:00:00:00:00:12\n",
        "MAC Address      : 00:40:a6:02:00:13 (NOT algorithmic: switches do not route to it)\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    let devices = document(&run("cxi0 --json"));
    assert_eq!(devices["devices"][0]["numa_node"], 1);
    assert_eq!(devices["devices"][0]["mac_address"], "02:00:00:00:00:12");
}

/// A library of before June 2026 does not say that a NIC is a virtual function; its files do
/// (libcxi.md 2.2).
#[test]
fn recognizes_virtual_function_of_an_older_library() {
    let fabric = Fabric::new();
    let run = |device_id| {
        let command = format!("devices cxi0 --libcxi={} --json", LIBCXI.display());
        let mut command = fabric.command(&command);
        command.env("CXIDIAG_FAULTS", "retry-handler=off,down=0s");
        let files = [("sys/class/cxi/cxi0/device/device", device_id)];
        let nic = document(&stdout(&on_machine(&files, command)))["devices"][0]["nic"].clone();
        ["is_virtual_function", "link_is_up", "retry_handler_runs"].map(|name| nic[name].clone())
    };
    assert_eq!(run("0x0371\n"), [json!(false), json!(false), json!(false)]);
    assert_eq!(run("0x0372\n"), [json!(true), json!(null), json!(null)]);
}

#[test]
fn lists_a_nic_that_cannot_be_opened() {
    let fabric = Fabric::new();
    let mut command = fabric.command("devices --json");
    command.env_remove("CXIDIAG_LIBCXI").env("CXIDIAG_NICS", "1");
    let output = on_machine(&[("sys/class/cxi/cxi3/device/numa_node", "0\n")], command);
    let error = assert_status(&output, 1);
    let start = "cxidiag devices: error: cannot open device cxi3: ";
    assert!(error.starts_with(start), "{error}");
    let devices = document(&stdout(&output));
    let device = &devices["devices"][0];
    assert_eq!((&device["name"], &device["nic"]), (&json!("cxi3"), &Value::Null));
    assert_eq!(device["error"]["kind"], "environment");
    assert_eq!(device["numa_node"], 0);
    assert_eq!(devices["devices"][1]["name"], "soft0");
}

/// `cxi_ss1` drives the NIC, and `cxi_user` makes the file by which programs open it
/// (libcxi.md 2.1).
#[test]
fn names_the_module_without_which_a_nic_has_no_file() {
    let fabric = Fabric::new();
    let hint = |files: &[(&str, &str)]| {
        let mut command = fabric.command("devices cxi7 --json");
        command.env("CXIDIAG_LIBCXI", &*LIBCXI);
        let output = on_machine(files, command);
        assert_status(&output, 1);
        let error = &document(&stdout(&output))["devices"][0]["error"];
        error["hint"].as_str().expect("a hint").to_owned()
    };
    let nic = ("sys/class/cxi/cxi7/device/numa_node", "0\n");
    let without_file = hint(&[nic]);
    assert!(without_file.contains("'modprobe cxi_user'"), "{without_file}");
    for files in [&[nic, ("dev/cxi7", "")][..], &[]] {
        let other = hint(files);
        assert!(!other.contains("modprobe cxi_user"), "{other}");
    }
}

#[test]
fn reports_what_it_could_not_list_in_the_document() {
    for (variable, value, status) in
        [("CXIDIAG_LIBCXI", "/no/such/library", 1), ("CXIDIAG_NICS", "many", 2)]
    {
        let fabric = Fabric::new();
        let mut command = fabric.command("devices --json");
        command.env(variable, value);
        let output = on_machine(&[], command);
        let error = assert_status(&output, status);
        assert!(error.contains(value), "{error}");
        let devices = document(&stdout(&output));
        let message = devices["error"]["message"].as_str().expect("text");
        assert!(message.contains(value), "{message}");
        let found = devices["devices"].as_array().expect("devices");
        assert_eq!(found.is_empty(), status == 2, "{devices}");
    }
}

#[test]
fn writes_the_document_to_a_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("devices.json");
    let output = Fabric::new().run(&format!("devices soft0 --json={}", file.display()));
    assert!(stdout(&output).starts_with("Device           : soft0\n"));
    document(&std::fs::read_to_string(file).expect("a document"));
}

#[test]
fn rejects_invalid_arguments() {
    for (args, status, words) in [
        ("nope", 2, "invalid device 'nope': expected cxiN"),
        ("--jsn", 2, "--jsn"),
        ("soft0 --libcxi=", 2, "--libcxi"),
        ("soft0 --json=", 2, "--json"),
        ("soft0 --json=/no/such/directory/file", 1, "/no/such/directory/file"),
    ] {
        let output = Fabric::new().run(&format!("devices {args}"));
        let error = assert_status(&output, status);
        assert!(error.contains(words), "{error}");
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn prints_its_usage() {
    let output = Fabric::new().run("devices --help");
    assert!(stdout(&output).contains("cxidiag devices [DEVICE...]"));
    assert_eq!(stderr(&output), "");
}
