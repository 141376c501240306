//! `cxidiag check`: the health of NICs, on machines described by files and on software NICs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Output;

use health::ITEMS;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::machine::MadeUp;
use crate::harness::terminal::on_terminal;
use crate::harness::{
    self, CXIDIAG, Command, Fabric, assert_status, assert_success, finish, metrics, schema, stdout,
};

const CASSINI_1: &str = include_str!("../fixtures/nics/cassini1");
const CASSINI_2: &str = include_str!("../fixtures/nics/cassini2");
const OLDER_DRIVER: &str = include_str!("../fixtures/nics/older-driver");

/// Directory of the device in these machines.
const DEVICE: &str = "sys/class/cxi/cxi0/device";

/// A document that matches its schema, which allows no other fields.
#[track_caller]
fn document(text: &str) -> Value {
    schema::document(include_str!("../../docs/check.schema.json"), text)
}

/// The verdicts of the items of the first device, by code.
fn verdict<'a>(document: &'a Value, code: &str) -> &'a str {
    let items = document["devices"][0]["items"].as_array().expect("items");
    let found = items.iter().find(|item| item["code"] == code);
    found.map_or("", |item| item["verdict"].as_str().expect("text"))
}

/// A check of `machine`, which has no library of the NIC.
fn command_on(machine: &MadeUp, arguments: &str) -> Command {
    let mut command = Fabric::new().command(&format!("check {arguments}"));
    command.env_remove("CXIDIAG_LIBCXI").env_remove("SLINGSHOT_DEVICES");
    machine.seen_by(command)
}

fn check(machine: &MadeUp, arguments: &str) -> Output {
    finish(command_on(machine, arguments))
}

/// A check of software NICs.
fn software(fabric: &Fabric, arguments: &str, faults: &str) -> Output {
    let window = if arguments.contains("--quick") { "" } else { " --window=20ms" };
    let mut command = fabric.command(&format!("check {arguments}{window}"));
    command.env("CXIDIAG_FAULTS", faults);
    finish(MadeUp::new(&[]).seen_by(command))
}

#[test]
fn finds_healthy_nics_of_each_generation_good() {
    for (text, generation, absent) in [
        (CASSINI_1, "Cassini 1.1", &["link-degraded"][..]),
        (CASSINI_2, "Cassini 2.0", &["pause-mode"]),
        (OLDER_DRIVER, "Cassini 1", &["llr-off", "aer-fatal", "firmware"]),
    ] {
        let machine = MadeUp::described_by(text);
        let output = check(&machine, "--no-traffic --window=10ms --json");
        assert_success(&output);
        let document = document(&stdout(&output));
        let summary = &document["summary"];
        assert_eq!(summary, "OK cxi0 (suspect: service cxi0)", "{generation}");
        assert_eq!(verdict(&document, "service"), "suspect", "no libcxi");
        let items = document["devices"][0]["items"].as_array().expect("items");
        let value = |code: &str| {
            let found = items.iter().find(|item| item["code"] == code);
            found.map_or(Value::Null, |item| item["value"].clone())
        };
        assert_eq!(value("generation"), generation);
        for code in absent.iter().chain(&["loopback-write"]) {
            let verdict = verdict(&document, code);
            assert_eq!(verdict, "not_available", "{generation} {code}");
        }
        for code in ["link-down", "link-speed", "mtu", "retry-handler"] {
            assert_eq!(verdict(&document, code), "good", "{generation} {code}");
        }
    }
}

/// Puts a FIFO in the place of a file.
fn put_fifo(machine: &MadeUp, name: &str) -> PathBuf {
    let path = machine.path().join(DEVICE).join(name);
    fs::remove_file(&path).expect("a file");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    path
}

#[test]
fn names_file_that_does_not_answer() {
    let machine = MadeUp::described_by(CASSINI_1);
    put_fifo(&machine, "port/link");
    let mut command = command_on(&machine, "--quick --json");
    command.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "5");
    let output = finish(command);
    assert_status(&output, 4);
    let document = document(&stdout(&output));
    let error = &document["devices"][0]["error"]["message"];
    let expected = "/sys/class/cxi/cxi0/device/port/link: unreadable: no answer";
    assert_eq!(error, expected);
    assert_eq!(verdict(&document, "link-speed"), "good");
}

/// A NIC in reset answers no reading of a counter: EIO, as at the start of /proc/self/mem.
#[test]
fn names_file_of_a_nic_in_reset() {
    let machine = MadeUp::described_by(CASSINI_1);
    let name = "telemetry/hni_pcs_good_cw";
    let path = machine.path().join(DEVICE).join(name);
    fs::remove_file(&path).expect("a file");
    symlink("/proc/self/mem", &path).expect("a symlink");
    let output = check(&machine, "--no-traffic --window=20ms --json");
    assert_status(&output, 4);
    let document = document(&stdout(&output));
    let error = &document["devices"][0]["error"]["message"];
    let expected = format!("/{DEVICE}/{name}: unreadable: Input/output error");
    assert_eq!(*error, expected);
    assert_eq!(verdict(&document, "link-interrupted"), "not_available");
}

#[test]
fn signal_ends_wait_for_a_file() {
    for signal in [Signal::TERM, Signal::INT] {
        let machine = MadeUp::described_by(CASSINI_1);
        let fifo = put_fifo(&machine, "port/link");
        let check = command_on(&machine, "--quick").spawn().expect("a check");
        // The FIFO has a writer as soon as somebody reads.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        let _writer = loop {
            match open(&fifo, flags, Mode::empty()) {
                Ok(writer) => break writer,
                Err(Errno::NXIO) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        };
        kill_process(Pid::from_raw(check.id() as i32).expect("a process"), signal)
            .expect("a signal");
        assert_status(&check.finish(), 130);
    }
}

#[test]
fn first_line_names_what_is_bad() {
    let machine = MadeUp::described_by(CASSINI_1);
    for (name, content, line) in [
        ("port/link", "down", "FAIL link-down cxi0: link state down, expected up"),
        (
            "port/speed",
            "BJ_100G",
            "FAIL link-speed cxi0: link speed 100 Gb/s (BJ_100G), expected 200 Gb/s",
        ),
        ("current_link_width", "8\n", "FAIL pcie-width cxi0: PCIe width x8, expected x16"),
        (
            "properties/pct_eq",
            "0\n",
            "FAIL retry-handler cxi0: retry handler not running, expected running",
        ),
        ("port/media", "unknown", "OK cxi0 (suspect: media-unknown cxi0, service cxi0)"),
    ] {
        let path = format!("{DEVICE}/{name}");
        let before = MadeUp::described_by(CASSINI_1).read(&path);
        machine.write(&path, content);
        let output = check(&machine, "cxi0 --quick --quiet");
        let status = if line.starts_with("OK") { 0 } else { 3 };
        assert_eq!(assert_status(&output, status), "");
        assert_eq!(stdout(&output), format!("{line}\n"));
        machine.write(&path, &before);
    }
    let slower = check(&machine, "--quick --quiet --link-speed=100");
    assert_success(&slower);
}

#[test]
fn prints_tables_and_what_to_do() {
    let machine = MadeUp::described_by(CASSINI_1);
    machine.write(&format!("{DEVICE}/current_link_width"), "8\n");
    let output = check(&machine, "--quick");
    assert_status(&output, 3);
    let text = stdout(&output);
    for line in [
        "\ncxi0\nItem ",
        "BAD pcie-width\n",
        "link flaps           0 in 1 h, 0 in 10 h  <5, <10 ",
        "pcie-width cxi0: a degraded link: reboot the node, then reseat the card, and\n  check slot and riser; fewer lanes than on other nodes: compare slot and riser",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
}

#[test]
fn without_hardware_names_software_nic() {
    let machine = MadeUp::new(&[]);
    let output = check(&machine, "--quiet");
    assert_eq!(assert_status(&output, 4), "");
    let line = "UNDECIDED untested host: no Cassini NIC on this machine ('cxidiag check soft0' checks a software NIC)\n";
    assert_eq!(stdout(&output), line);
}

#[test]
fn finds_nic_bad_that_was_asked_for_and_is_absent() {
    let output = check(&MadeUp::described_by(CASSINI_1), "cxi3 cxi0 --quick");
    assert_status(&output, 3);
    let text = stdout(&output);
    for line in [
        "FAIL nic-absent cxi3: NIC absent, expected present\n",
        "\nNIC: devices of this machine: cxi0\n",
        "\nnic-absent cxi3: the driver does not show this NIC: ",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
    let output = check(&MadeUp::new(&[]), "cxi0 --quick --quiet");
    assert_status(&output, 3);
    assert!(stdout(&output).starts_with("FAIL nic-absent cxi0: "));
    let fabric = Fabric::new();
    let mut command = fabric.command("check soft0 soft2 --quick --quiet");
    command.env("CXIDIAG_NICS", "2");
    let output = finish(MadeUp::new(&[]).seen_by(command));
    assert_status(&output, 3);
    assert!(stdout(&output).starts_with("FAIL nic-absent soft2: "));
}

#[test]
fn compares_number_of_nics_with_what_the_site_expects() {
    const SITE: &str = "etc/cxidiag/check.conf";
    let machine = MadeUp::described_by(CASSINI_1);
    let line = |arguments: &str, status| {
        let output = check(&machine, &format!("--quick --quiet {arguments}"));
        assert_eq!(assert_status(&output, status), "");
        stdout(&output)
    };
    assert!(line("--expect-nics=1", 0).starts_with("OK cxi0 "));
    let missing = "FAIL nic-count host: NICs 1, expected 2\n";
    assert_eq!(line("--expect-nics=2", 3), missing);
    machine.write(SITE, "# Mountain blades\nexpect-nics=2\n");
    assert_eq!(line("", 3), missing);
    assert_eq!(line("cxi0", 3), missing);
    assert!(line("--expect-nics=1", 0).starts_with("OK cxi0 "));
    machine.write(SITE, "nics=2\n");
    let error = assert_status(&check(&machine, "--quick"), 2);
    assert!(error.contains("etc/cxidiag/check.conf: "), "{error}");
    let none = MadeUp::new(&[(SITE, "expect-nics=2\n")]);
    let output = check(&none, "--quiet");
    assert_status(&output, 3);
    assert_eq!(stdout(&output), "FAIL nic-count host: NICs 0, expected 2\n");
}

#[test]
fn finds_nic_without_driver_bad() {
    let machine = MadeUp::new(&[
        ("sys/bus/pci/devices/0000:21:00.0/vendor", "0x17db\n"),
        ("sys/bus/pci/devices/0000:21:00.0/device", "0x0501\n"),
    ]);
    let output = check(&machine, "--quiet");
    assert_status(&output, 3);
    let line = "FAIL nic-driver host: NICs without driver 0000:21:00.0, expected none\n";
    assert_eq!(stdout(&output), line);
}

#[test]
fn traffic_without_library_is_not_tested() {
    let output = check(&MadeUp::described_by(CASSINI_1), "--window=10ms --json");
    assert_status(&output, 4);
    let document = document(&stdout(&output));
    let summary = document["summary"].as_str().expect("text");
    assert!(summary.starts_with("UNDECIDED untested cxi0: write-lat: "), "{summary}");
    assert_eq!(verdict(&document, "loopback-write"), "not_available");
    assert_eq!(verdict(&document, "link-down"), "good");
}

#[test]
fn checks_nics_of_the_job() {
    let machine = MadeUp::described_by(CASSINI_1);
    let mut command = command_on(&machine, "--quick --quiet");
    command
        .env("SLINGSHOT_DEVICES", "cxi0,cxi7")
        .env("SLINGSHOT_SVC_IDS", "5,6")
        .env("SLINGSHOT_VNIS", "1358");
    let output = finish(command);
    assert_status(&output, 3);
    let text = stdout(&output);
    assert!(text.starts_with("FAIL nic-absent cxi7: "), "{text}");
    let mut command = command_on(&machine, "--quick");
    command
        .env("SLINGSHOT_DEVICES", "cxi0,cxi1")
        .env("SLINGSHOT_SVC_IDS", "5")
        .env("SLINGSHOT_VNIS", "1358");
    let error = assert_status(&finish(command), 2);
    assert!(error.contains("different lengths (2 and 1)"), "{error}");
}

/// The variables are for other NICs, or choose what the check does not use.
#[test]
fn judges_only_variables_of_the_job_that_it_needs() {
    let fabric = Fabric::new();
    let odd_services = [
        ("SLINGSHOT_DEVICES", "soft0,soft1"),
        ("SLINGSHOT_SVC_IDS", "5"),
        ("SLINGSHOT_VNIS", "1358"),
    ];
    let odd_others = [
        ("SLINGSHOT_DEVICES", "soft0"),
        ("SLINGSHOT_SVC_IDS", "1"),
        ("SLINGSHOT_VNIS", "70000"),
        ("SLINGSHOT_TCS", "x"),
    ];
    let note = "cxidiag check: SLINGSHOT_DEVICES=soft0,soft1 and SLINGSHOT_SVC_IDS=5 have different \
                lengths (2 and 1): the services of the job are not known\n";
    for (variables, arguments, notes) in [
        (&odd_services[..], "check soft2 --quick", ""),
        (&odd_services, "check soft1 --quick", note),
        (&odd_others, "check soft0 --quick", ""),
        (&odd_others, "check --quick", ""),
    ] {
        let mut command = fabric.command(arguments);
        command.envs(variables.iter().copied());
        let output = finish(command);
        assert_eq!(assert_status(&output, 0), notes, "{arguments}");
    }
}

#[test]
fn writes_and_reads_through_a_software_nic() {
    let fabric = Fabric::new();
    let output = software(&fabric, "soft0 --json --ranks=2", "");
    assert_success(&output);
    let document = document(&stdout(&output));
    assert_eq!(document["summary"], "OK soft0");
    assert_eq!(document["devices"][0]["is_software"], json!(true));
    // All items, in the order of importance.
    let nic_values = document["devices"][0]["items"].as_array().expect("items");
    let host_values = document["host"].as_array().expect("items");
    let codes = nic_values.iter().chain(host_values).map(|item| &item["code"]);
    assert!(codes.eq(ITEMS.iter().map(|item| item.code)), "{document:#}");
    let measured = ["loopback-write", "loopback-read", "write-bandwidth", "read-bandwidth"];
    for code in measured.iter().chain(&["service", "fec-corrected", "link-interrupted"]) {
        assert_eq!(verdict(&document, code), "good", "{code}\n{document:#}");
    }
    fabric.assert_nothing_left();
}

#[test]
fn rehearses_verdicts_on_faults_of_a_software_nic() {
    for (faults, options, line) in [
        ("down=0ns", "--quick", "FAIL link-down soft0: link state down, expected up"),
        (
            "up-fail=unsupported-cable",
            "--quick",
            "FAIL link-down soft0: link state down, did not come up: unsupported-cable",
        ),
        (
            "flaps=5",
            "--quick",
            "FAIL link-flaps soft0: link flaps 5 in 1 h, 5 in 10 h, expected <5",
        ),
        ("pcie-width=8", "--quick", "FAIL pcie-width soft0: PCIe width x8, expected x16"),
        ("pcie-speed=8", "--quick", "FAIL pcie-speed soft0: PCIe speed 8.0 GT/s, expected 16.0"),
        ("retry-handler=off", "--quick", "FAIL retry-handler soft0: "),
        ("ama=off", "--quick", "FAIL ama soft0: algorithmic address "),
        (
            "uncorrected=100000",
            "--no-traffic",
            "FAIL fec-uncorrected soft0: uncorrected errors BER ",
        ),
        ("corrected=30000000", "--no-traffic", "FAIL fec-corrected soft0: corrected errors BER "),
        (
            "corrupt=1",
            "",
            "FAIL loopback-write soft0: the server of the loopback run failed: size 8: byte ",
        ),
        (
            "error=PT_DISABLED@1",
            "",
            "FAIL loopback-write soft0: write failed: the NIC reported PT_DISABLED",
        ),
    ] {
        let output = software(&Fabric::new(), &format!("soft0 {options}"), faults);
        assert_eq!(assert_status(&output, 3), "");
        let text = stdout(&output);
        assert!(text.starts_with(line), "{faults}: {text}");
        assert!(!text.lines().next().is_some_and(|line| line.contains(';')));
        assert!(!text.replace("unsupported-cable", "").contains("cable"), "{text}");
    }
}

/// Only the driver of the next release shows what pauses the link of a Cassini 2 (health.md 2.1).
#[test]
fn pause_of_cassini_2_is_known_from_the_next_release_on() {
    for (release, expected) in [("14", Value::Null), ("next", "pfc/802.1qbb".into())] {
        let fabric = Fabric::new();
        let mut command = fabric.command("check soft0 --quick --json");
        command.env("CXIDIAG_SHS", release);
        let output = finish(MadeUp::new(&[]).seen_by(command));
        assert_success(&output);
        let document = document(&stdout(&output));
        let items = document["devices"][0]["items"].as_array().expect("items");
        let pause = items.iter().find(|item| item["code"] == "pause-mode");
        assert_eq!(pause.expect("an item")["value"], expected, "{release}");
    }
}

/// Faults of a software NIC plant files of the host, and of its retry handler.
#[test]
fn reads_planted_files_of_the_host() {
    let faults = "set=/sys/devices/system/cpu/online:0,\
                  set=/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor:powersave,\
                  set=/sys/devices/system/cpu/cpu0/cpuidle/state2/name:C6,\
                  set=/sys/devices/system/cpu/cpu0/cpuidle/state2/latency:133,\
                  set=/sys/devices/system/cpu/cpu0/cpuidle/state2/disable:0,\
                  set=/sys/devices/system/node/node0/meminfo:Node 0 MemTotal: 469762048 kB,\
                  set=/sys/devices/system/edac/mc/mc0/ce_count:5,\
                  set=/sys/devices/system/edac/mc/mc0/ue_count:1,\
                  set=/run/cxi/soft0/parked_nids:2,\
                  set=/run/cxi/soft0/sct_in_use:3";
    let since_boot = "5 corrected and 1 uncorrected since boot";
    let during = "0 corrected and 0 uncorrected during the check, 6 in all";
    for (options, errors) in
        [("--quick", (since_boot, "shown")), ("--no-traffic", (during, "good"))]
    {
        let output = software(&Fabric::new(), &format!("soft0 --json {options}"), faults);
        assert_success(&output);
        let document = document(&stdout(&output));
        let blocks = [&document["host"], &document["devices"][0]["items"]];
        for (code, expected) in [
            ("governor", ("powersave", "suspect")),
            ("idle-states", ("133 us (C6)", "shown")),
            ("memory-size", ("448.0 GiB", "shown")),
            ("host-memory-errors", errors),
            ("parked-peers", ("2, each for 136 s", "suspect")),
            ("leaked-resources", ("3 sct", "shown")),
        ] {
            let mut items = blocks.iter().flat_map(|block| block.as_array().expect("items"));
            let item = items.find(|item| item["code"] == code).expect(code);
            let found = (item["value"].as_str(), item["verdict"].as_str());
            assert_eq!(found, (Some(expected.0), Some(expected.1)), "{code}");
        }
        let expected = "OK soft0 (suspect: parked-peers soft0, governor host)";
        assert_eq!(document["summary"], expected);
    }
}

/// Entries in use are leaked if the NIC is idle. Another process shows that it is not.
#[test]
fn resources_of_an_idle_nic_are_suspect() {
    let fabric = Fabric::new();
    let check = || {
        let mut command = fabric.command("check soft0 --no-traffic --window=1100ms");
        command
            .env("CXIDIAG_FAULTS", "set=/run/cxi/soft0/tct_in_use:4")
            .env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "1000");
        let output = finish(MadeUp::new(&[]).seen_by(command));
        assert_success(&output);
        let text = stdout(&output);
        let is_suspect = text.contains("SUSPECT leaked-resources");
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_busy = words.join(" ").contains("no verdict: the NIC must be idle for 100 s");
        assert_eq!(is_busy, !is_suspect);
        is_suspect
    };
    assert!(check());
    let mut other = fabric.command("write-lat --loopback -d soft0 -D 60 --interval=10ms");
    let mut other = other.spawn().expect("cxidiag starts");
    let printed = BufReader::new(other.stdout.take().expect("a pipe"));
    let mut lines = printed.lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.contains("Start[s]")));
    assert!(!check());
}

#[test]
fn leaves_out_traffic_while_others_use_the_nic() {
    let fabric = Fabric::new();
    let mut other = fabric.command("write-lat --loopback -d soft0 -D 60 --interval=10ms");
    let mut other = other.spawn().expect("cxidiag starts");
    let printed = BufReader::new(other.stdout.take().expect("a pipe"));
    let mut lines = printed.lines().map(|line| line.expect("text"));
    assert!(lines.any(|line| line.contains("Start[s]")));
    let output = software(&fabric, "soft0 soft1", "");
    assert_success(&output);
    let text = stdout(&output);
    let line = "Not available (other processes use the NIC; --busy-ok measures): write latency";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    assert_eq!(text.matches("write latency  ").count(), 1, "{text}");
    let output = software(&fabric, "soft0 --busy-ok", "");
    assert_success(&output);
    assert!(!stdout(&output).contains("--busy-ok"));
}

#[test]
fn writes_metrics_that_their_readers_accept() {
    let machine = MadeUp::described_by(CASSINI_1);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [prom, text] = ["nic.prom", "nic.txt"].map(|name| directory.path().join(name));
    for file in [&prom, &text] {
        let options = format!("--quick --quiet --openmetrics={}", file.display());
        assert_success(&check(&machine, &options));
    }
    let prom_text = fs::read_to_string(&prom).expect("a file");
    assert!(prom_text.contains("\ncxidiag_check_ok{device=\"cxi0\",check=\"link-down\"} 1\n"));
    metrics::assert_accepted(&prom, &text, 6);
}

/// Half of the 16384 list entries of an element are enough for a rank with 4088 peers.
#[test]
fn shows_for_how_many_ranks_the_service_has_resources() {
    let fabric = Fabric::new();
    for (ranks, value) in [
        (64, "room for 341 (PTE ends first), 0 reserved"),
        (4089, "room for 8 (LE ends first), 0 reserved"),
        (1, "room for 341 (PTE ends first), 0 reserved"),
        (9000, "room for 0 (LE ends first), 0 reserved"),
    ] {
        let output = software(&fabric, &format!("soft0 --quick --json --ranks={ranks}"), "");
        let document = document(&stdout(&output));
        assert_eq!(verdict(&document, "mpi-ranks"), "shown");
        let items = document["devices"][0]["items"].as_array().expect("items");
        let item = items.iter().find(|item| item["code"] == "mpi-ranks").expect("the item");
        assert_eq!(item["value"], value);
        assert!(item["note"].as_str().expect("a note").contains("TLE 1/512/512"), "{item}");
    }
    let text = stdout(&software(&fabric, "soft0 --quick --ranks=64", ""));
    assert!(text.contains("\nMPI ranks            room for 341"), "{text}");
    let without = document(&stdout(&software(&fabric, "soft0 --quick --json", "")));
    assert_eq!(verdict(&without, "mpi-ranks"), "");
}

#[test]
fn refuses_invalid_arguments() {
    for (arguments, words) in [
        ("eth0", "invalid device 'eth0'"),
        ("--window=1h", "invalid value '1h' for --window"),
        ("--quick --window=1s", "--window has no effect with --quick"),
        ("--expect-nics=0", "invalid value '0' for --expect-nics"),
        ("--ranks=0", "invalid value '0' for --ranks"),
        ("--ranks=8 --hosts=node1", "--ranks has no effect with --hosts"),
        ("--ranks=8 --stress", "--ranks has no effect with --stress"),
        ("--link-speed=300", "expected 50, 100, 200 or 400 (Gb/s)"),
        ("--openmetrics=", "for --openmetrics: expected the name of a file"),
        ("--openmetrics=x --openmetrics-format=json", "expected node-exporter or openmetrics"),
        ("--openmetrics-format=openmetrics", "needs --openmetrics=FILE"),
    ] {
        let error = assert_status(&check(&MadeUp::new(&[]), arguments), 2);
        assert!(error.contains(words), "{arguments}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// NHC runs the command of its line in `docs/check.md` and compares exit status and output.
#[test]
fn line_for_node_health_check_matches_nodes_that_are_not_bad() {
    let page = include_str!("../../docs/check.md");
    let mut lines = page.lines();
    let line = lines.find_map(|line| line.strip_prefix("* || check_cmd_output -t 25 -r 0 -m '/^"));
    let (pattern, command) = line.and_then(|line| line.split_once("/' ")).expect("a line");
    assert_eq!(pattern, "(OK|UNDECIDED) ");
    let program = format!("{} check --quick", harness::CXIDIAG);
    let command = command.replace("cxidiag check", &program);
    let healthy = MadeUp::described_by(CASSINI_1);
    let cases = [(&healthy, "up", true), (&healthy, "down", false), (&MadeUp::new(&[]), "", true)];
    for (machine, link, matches) in cases {
        if !link.is_empty() {
            machine.write(&format!("{DEVICE}/port/link"), link);
        }
        let mut shell = Command::new("bash");
        shell.args(["-c", &command]).env_remove("SLINGSHOT_DEVICES");
        let output = finish(machine.seen_by(shell));
        let text = stdout(&output);
        let is_match = text.starts_with("OK ") || text.starts_with("UNDECIDED ");
        assert_eq!((output.status.success(), is_match), (matches, matches), "{text}");
    }
}

/// The page has each item as the program has it.
#[test]
fn page_lists_each_item() {
    let page = include_str!("../../docs/items.md");
    for item in ITEMS {
        let row = format!("| `{}` | {} | {} | ", item.code, item.name, item.source);
        assert!(page.contains(&row), "docs/items.md: {row}");
    }
}

/// Output to files and pipes has no colours: the other tests compare it.
#[test]
fn colors_verdicts_on_a_terminal_unless_it_is_refused() {
    for (environment, is_colored) in [
        ("TERM=xterm NO_COLOR=", true),
        ("TERM=xterm NO_COLOR=1", false),
        ("TERM=dumb NO_COLOR=", false),
    ] {
        let check = format!("exec env {environment} {CXIDIAG} check soft0 --quick --expect-nics=9");
        let fabric = Fabric::new();
        let Some(command) = on_terminal(&fabric, "quit", "FAIL", &check) else {
            return;
        };
        let output = finish(command);
        assert_status(&output, 3);
        let shown = stdout(&output);
        let start = if is_colored { "\x1b[31mFAIL\x1b[0m nic-count" } else { "FAIL nic-count" };
        assert!(shown.starts_with(start), "{environment}: {shown:?}");
        assert_eq!(shown.contains('\x1b'), is_colored, "{environment}: {shown:?}");
    }
}
