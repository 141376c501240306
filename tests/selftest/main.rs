//! `cxidiag selftest`: the facts of docs/reference on software NICs, with and without faults.

#[path = "../harness/mod.rs"]
mod harness;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use harness::{
    Command, Fabric, LIBCXI, assert_status, assert_success, copy_program, finish, schema, stderr,
    stdout,
};

const SCHEMA: &str = include_str!("../../docs/selftest.schema.json");

/// Runs the command and returns its document, which has this exit status.
#[track_caller]
fn document(mut command: Command, status: i32) -> Value {
    command.arg("--json");
    let output = finish(command);
    assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
    schema::document(SCHEMA, &stdout(&output))
}

/// The names of the checks with this verdict.
fn with<'a>(document: &'a Value, verdict: &str) -> Vec<&'a str> {
    let checks = document["checks"].as_array().expect("checks");
    let found = checks.iter().filter(|check| check["verdict"] == verdict);
    found.map(|check| check["name"].as_str().expect("a name")).collect()
}

fn with_variable(fabric: &Fabric, name: &str, value: &str, args: &str) -> Command {
    let mut command = fabric.command(args);
    command.env(name, value);
    command
}

#[test]
fn all_facts_hold_on_a_software_nic() {
    let fabric = Fabric::new();
    let output = fabric.run("selftest -d soft0");
    assert_success(&output);
    let text = stdout(&output);
    let last = text.lines().last().expect("a line");
    let (held, ran) = last.split_once(" of ").expect("two numbers");
    let ran = ran.split(' ').next().expect("a number");
    assert_eq!(held, ran, "{text}");
    assert!(held.parse::<u32>().is_ok_and(|held| held > 200), "{text}");
    assert!(last.contains(" facts hold"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    fabric.assert_nothing_left();
}

/// Each release of the driver that docs/reference/releases.md names.
const RELEASES: [&str; 5] = ["12", "13", "14", "14.0.1", "next"];

/// Checks of facts hold with each driver, and find what differs from its facts.
#[test]
fn facts_hold_with_the_driver_of_each_release() {
    for release in RELEASES {
        let fabric = Fabric::new();
        let run = |args: &str| with_variable(&fabric, "CXIDIAG_SHS", release, args);
        let holding = document(run("selftest -d soft0"), 0);
        assert_eq!(holding["held"], holding["ran"], "{release}");
        assert!(holding["held"].as_u64() > Some(200), "{release}");
        assert_eq!(with(&holding, "refused"), [""; 0], "{release}");
        let ranged = document(run("selftest -d soft0 --svc-id=2 --vni=17"), 0);
        assert_eq!(ranged["held"], ranged["ran"], "{release}");
        let nic = &ranged["nic"];
        assert_eq!((&nic["svc_id"], &nic["vni"]), (&2.into(), &17.into()));
        let mut faulty = run("selftest -d soft0 --only=moves,queues/wrap");
        faulty.env("CXIDIAG_FAULTS", "error=NO_SPACE@1");
        let differing = document(faulty, 3);
        assert!(!with(&differing, "differs").is_empty(), "{release}");
        fabric.assert_nothing_left();
    }
}

/// Tests that run as root start it as the user nobody, and as root without capabilities.
#[test]
fn facts_hold_for_processes_without_privileges() {
    let directory = tempfile::tempdir().expect("a directory");
    let everyone = Permissions::from_mode(0o777);
    std::fs::set_permissions(directory.path(), everyone).expect("a mode");
    let program = directory.path().join("cxidiag");
    copy_program(&program);
    for release in RELEASES {
        let start = |mut command: Command, fabric: &str| {
            command
                .env("CXIDIAG_SHS", release)
                .env("CXIDIAG_FABRIC_DIR", directory.path().join(fabric));
            document(command, 0)
        };
        let mut command = Command::new(&program);
        command.args(["selftest", "-d", "soft0"]);
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            command.user(65534, 65534);
        }
        let ordinary = start(command, "ordinary");
        assert_eq!(ordinary["held"], ordinary["ran"], "{release}");
        if is_root {
            let mut command = Command::new("setpriv");
            command
                .args(["--bounding-set=-net_raw,-sys_admin", "--inh-caps=-all"])
                .arg(&program)
                .args(["selftest", "-d", "soft0", "--only=queue-calls"]);
            let root = start(command, "root");
            assert_eq!(with(&root, "skipped"), [""; 0], "{release}");
        }
    }
}

/// The facts do not depend on the QoS profile or settings that the NICs follow.
#[test]
fn facts_hold_with_other_drivers_and_settings() {
    let fabric = Fabric::new();
    for (name, value) in [
        ("CXIDIAG_QOS", "HPC"),
        ("CXIDIAG_RDZV_GET", "0"),
        ("CXIDIAG_NIDS", "0x54321"),
        ("CXIDIAG_LINK", "latency=20us,jitter=5us"),
    ] {
        let document = document(with_variable(&fabric, name, value, "selftest -d soft0"), 0);
        assert_eq!(document["held"], document["ran"], "{name}");
        assert_eq!(with(&document, "refused"), [""; 0], "{name}");
    }
}

/// What SWAP does depends on a file of the driver, which the check reads (nic.md 11.3). Where SWAP
/// is an AtomicOp of PCIe, which may raise PCIe errors, it runs on request only.
#[test]
fn facts_of_swap_follow_file_of_driver() {
    const SWAP: &str = "swap-of-uint32-and-uint64";
    let run = |faults: &str, options: &str, status| {
        let fabric = Fabric::new();
        let args = format!("selftest -d soft0 --only=atomics/{SWAP},atomics/uint64{options}");
        document(with_variable(&fabric, "CXIDIAG_FAULTS", faults, &args), status)
    };
    let remapped = "set=properties/amo_remap_to_pcie_fadd:10";
    let without_completer = format!("{remapped},atomic-completer=off");
    for (faults, options) in [
        ("set=properties/amo_remap_to_pcie_fadd:-1", ""),
        ("set=properties/amo_remap_to_pcie_fadd:0", ""),
        (remapped, " --risky"),
        (&without_completer, " --risky"),
    ] {
        let found = run(faults, options, 0);
        assert_eq!(with(&found, "holds").len(), 2, "{faults}: {found}");
    }
    for faults in [&without_completer, "set=properties/amo_remap_to_pcie_fadd:"] {
        let found = run(faults, "", 0);
        assert_eq!(with(&found, "skipped"), [SWAP], "{faults}");
    }
    assert_eq!(with(&run("error=PCIE_UNSUCCESS_CMPL@1", "", 3), "differs").len(), 1);
}

#[test]
fn checks_that_the_time_limit_leaves_out_are_no_success() {
    let fabric = Fabric::new();
    let output = fabric.run("selftest -d soft0 --only=moves,queues/wrap --time-limit=0s");
    assert_eq!(assert_status(&output, 4), "");
    let text = stdout(&output);
    let (first, last) = (text.lines().next(), text.lines().last());
    let count = first.and_then(|line| line.strip_suffix(" not examined: time")).expect("a count");
    assert!(count.parse::<u32>().is_ok_and(|count| count > 10), "{text}");
    assert_eq!(last, Some(&*format!("0 of 0 facts hold, {count} not examined")));
    let server = fabric.server("serve", "-d soft0");
    let args = format!("selftest -d soft1 --peer=127.0.0.1 -p {}", server.port);
    let only = "--only=peer/write,moves/ack --time-limit=0s";
    let late = document(fabric.command(&format!("{args} {only}")), 4);
    assert_eq!(with(&late, "not_examined"), ["ack", "write"]);
}

/// Through a libcxi.so.1, as on hardware: no function of the library runs the NIC.
#[test]
fn facts_hold_through_a_library() {
    let fabric = Fabric::new();
    let library = LIBCXI.display();
    let args = format!("selftest -d cxi0 --libcxi={library}");
    let document = document(fabric.command(&args), 0);
    assert!(document["ran"].as_u64() > Some(195), "{document}");
    assert_eq!(document["nic"]["is_software"], true);
    let loaded = document["nic"]["library"].as_str().expect("a library");
    assert!(loaded.contains("libcxi.so"), "{loaded}");
    // The files of such a NIC do not exist.
    let skipped = with(&document, "skipped");
    assert!(skipped.contains(&"flushes"), "{skipped:?}");
}

/// Each fault is noticed, by checks of the kind that it concerns.
#[test]
fn planted_faults_differ() {
    for (fault, args, expected) in [
        ("corrupt=0.2", "--only=moves", "put-lengths"),
        ("corrupt=1", "--only=rendezvous", "data"),
        ("corrupt=0.2", "--only=atomics", "uint64"),
        ("error=PT_DISABLED:0.05", "--only=queues", "wrap"),
        ("error=NO_SPACE@1", "--only=moves/ack", "ack"),
        ("error=OP_VIOLATION@1", "--only=errors/no-portal", "no-portal"),
        ("error=ENTRY_NOT_FOUND@3", "--only=matching/order", "order"),
        (
            "error=UNDELIVERABLE@2",
            "--only=counters/counts-failures,counters/triggered-put",
            "triggered-put",
        ),
        ("error=DROPPED@1", "--only=portals/disable", "disable"),
        ("loss=1,retry=1us", "--only=moves,counters/doorbells-add", "flush"),
        ("error=NO_SPACE:1", "--only=telemetry", "matches"),
    ] {
        let fabric = Fabric::new();
        let args = format!("selftest -d soft0 {args}");
        let document = document(with_variable(&fabric, "CXIDIAG_FAULTS", fault, &args), 3);
        let differing = with(&document, "differs");
        assert!(differing.contains(&expected), "{fault}: {differing:?}");
        fabric.assert_nothing_left();
    }
}

#[test]
fn difference_shows_what_was_expected_and_seen() {
    let fabric = Fabric::new();
    let args = "selftest -d soft0 --only=moves/ack";
    let faults = "error=NO_SPACE@1";
    let output = finish(with_variable(&fabric, "CXIDIAG_FAULTS", faults, args));
    assert_eq!(assert_status(&output, 3), "");
    let text = stdout(&output);
    let expected = "\
Group  Hold  Differ  Refused  Skipped
moves     -       1        -        -

DIFFERS moves/ack (nic.md 6.4, stated)
  fact:     a put ends with one ACK of 16 bytes with user_ptr, mlength and the list that matched
  expected: ACK OK
  seen:     ACK NO_SPACE
  command:  15 00 08 00 ";
    assert!(text.starts_with(expected), "{text}");
    let event = "\n  event:    f0 de bc 9a 78 56 34 12 00 00 00 00 40 00 25 10\n";
    assert!(text.contains(event), "{text}");
    assert!(text.ends_with("\n\n0 of 1 facts hold\n"), "{text}");
}

/// The address of the NIC is in the bytes of a put, and is replaced there.
#[test]
fn report_has_names_on_request_only() {
    let fabric = Fabric::new();
    let file = fabric.path().with_extension("report");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (option, has_names) in [("", false), (" --with-names", true)] {
        let report = file.display();
        let args = format!("selftest -d soft0 --only=moves/ack --report={report}{option}");
        let mut command = with_variable(&fabric, "CXIDIAG_FAULTS", "error=NO_SPACE@1", &args);
        command.env("CXIDIAG_NIDS", "0x54321");
        assert_status(&finish(command), 3);
        let text = std::fs::read_to_string(&file).expect("a report");
        for name in [&format!(": {host}\n"), "0x54321", " 10 32 54 ", "PCI address"] {
            assert_eq!(text.contains(name), has_names, "{name}: {text}");
        }
        for line in [
            "Report of cxidiag selftest\n",
            "\nKernel ",
            "\n0 of 1 facts hold\n",
            "DIFFERS moves/ack",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
    std::fs::remove_file(file).expect("a file");
}

#[test]
fn service_that_cannot_be_used_is_no_difference() {
    let fabric = Fabric::new();
    let args = "selftest -d soft0";
    let output = finish(with_variable(&fabric, "CXIDIAG_SERVICES", "disabled", args));
    let error = assert_status(&output, 1);
    assert!(error.contains("service 1 of soft0 is disabled"), "{error}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn peer_checks_run_tools_against_a_server() {
    let fabric = Fabric::new();
    let server = fabric.server("serve", "-d soft0");
    let names = ["unrestricted-read", "high-rate-puts", "rendezvous"];
    let only: Vec<String> = names.iter().map(|name| format!("--only=peer/{name}")).collect();
    let args = format!("selftest -d soft1 --peer=127.0.0.1 -p {} {}", server.port, only.join(" "));
    let holding = document(fabric.command(&args), 0);
    assert_eq!(with(&holding, "holds").len(), names.len());
    let faults = "error=PT_DISABLED@5";
    let differing = document(with_variable(&fabric, "CXIDIAG_FAULTS", faults, &args), 3);
    assert_eq!(with(&differing, "differs").len(), names.len());
    drop(server);
    let output = finish(fabric.command(&args));
    assert_status(&output, 1);
    let text = stdout(&output);
    let refused = "\nrefused peer/unrestricted-read and 2 more: cannot connect to the peer port";
    assert!(text.contains(refused), "{text}");
}

/// A file takes the place of the fabric's directory: opening a NIC would fail.
#[test]
fn dry_run_says_what_checks_do_without_a_nic() {
    let run = |args: &str| {
        let fabric = Fabric::new();
        let mut command = fabric.command(&format!("selftest --dry-run {args}"));
        command.env("CXIDIAG_FABRIC_DIR", "/dev/null");
        let output = finish(command);
        assert_success(&output);
        stdout(&output)
    };
    let all = run("-d soft0");
    for row in [
        "\nreads ",
        "\nown objects ",
        "\nerrors ",
        "\nrisky ",
        "\nPCIe atomics ",
        "raises PCIe (AER) errors",
        "queues/refused-opcode",
        "\nlpe.no_space ",
        "errors/beyond-entry",
    ] {
        assert!(all.contains(row), "{row}: {all}");
    }
    assert!(all.lines().all(|line| line.len() <= 100), "{all}");
    let one = run("-d cxi7 --only=moves/ack");
    assert!(one.contains("moves 1"), "{one}");
    assert!(!one.contains("Error flag"), "{one}");
    let with_peer = run("--peer=node1");
    assert!(with_peer.contains("on node1"), "{with_peer}");
}

#[test]
fn risky_checks_run_on_request_and_never_in_the_service_of_a_job() {
    let fabric = Fabric::new();
    let names = "refused-opcode,queues/refused-target-command,queues/refused-command-stops-queue";
    let args = format!("selftest -d soft0 --only=queues/{names}");
    let skipped = document(fabric.command(&format!("{args},queues/wrap")), 0);
    assert_eq!(with(&skipped, "skipped").len(), 3);
    let args = format!("{args} --risky");
    let ran = document(fabric.command(&args), 0);
    assert_eq!(with(&ran, "holds").len(), 3);
    assert_eq!(ran["aftermath"]["lost_rgids"], 0);
    for option in ["", " --svc-id=1"] {
        let mut command = fabric.command(&format!("{args}{option}"));
        command
            .env("SLINGSHOT_DEVICES", "soft0")
            .env("SLINGSHOT_SVC_IDS", "1")
            .env("SLINGSHOT_VNIS", "1");
        let error = assert_status(&finish(command), 2);
        assert!(error.contains("--risky: service 1 belongs to this job"), "{error}");
    }
}

#[test]
fn lists_checks_with_their_facts() {
    let output = Fabric::new().run("selftest --list");
    assert_success(&output);
    let text = stdout(&output);
    for row in ["queues/wrap ", "peer/unrestricted-read ", " nic.md 15 ", " assumed ", " risky "] {
        assert!(text.contains(row), "{row}: {text}");
    }
}

#[test]
fn rejects_arguments_without_effect() {
    for (args, words) in [
        ("--only=nothing", "expected a group (calls, "),
        ("--only=peer", "needs --peer=HOST"),
        ("--port=5", "--port=5 has no effect without --peer"),
        ("--peer=node1 --only=queues", "--peer has no effect without --only=peer"),
        ("--peer=node1 --port=bogus", "invalid value 'bogus' for --port"),
        ("--time-limit=2h", "'2h' for --time-limit: expected a time from 0s to 60m"),
        ("word", "invalid device 'word'"),
    ] {
        let output = Fabric::new().run(&format!("selftest {args}"));
        let error = assert_status(&output, 2);
        assert!(error.contains(words), "{error}");
    }
}
