//! `write-lat`: server and client over loopback and the software NIC.

mod harness;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use harness::{Fabric, assert_success, masked, named, seed, stderr, stdout, without_platform};

#[test]
fn the_example_of_the_seed() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0"]);
    let client = fabric.client(
        "write-lat",
        &server,
        &["-d", "soft1", "-n", "5", "--report-all"],
    );
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    assert_eq!(
        masked(&without_platform(&stdout(&client))),
        masked(&seed("cxi_write_lat 10.1.1.8 -n 5 --report-all"))
    );
    assert_eq!(
        masked(&without_platform(&stdout(&server))),
        masked(&seed("cxi_write_lat"))
    );
    fabric.assert_nothing_left();
}

/// The seed shows a duration run over a range for `cxi_read_lat`; `cxi_write_lat` prints the
/// same with its own words and an `IDC` line.
#[test]
fn a_duration_over_a_range() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0"]);
    let client = fabric.client(
        "write-lat",
        &server,
        &["-d", "soft1", "-s", "1:4096", "-D", "1"],
    );
    let server = server.finish();
    assert_success(&client);
    assert_success(&server);
    let expected = |command| {
        let example = masked(&seed(command))
            .replace("CXI RDMA Read Latency Test", "CXI RDMA Write Latency Test")
            .replace("Min Read Size    : 64", "Min Write Size   : 1")
            .replace("Max Read Size    : 1024", "Max Write Size   : 4096")
            .replace("LL Cmd Launch", "IDC              : Enabled\nLL Cmd Launch")
            .replace("       Reads", "      Writes");
        let row = "           #           #        #.##        #.##        #.##        #.##\n";
        let see = "See client for results.\n";
        let rule = "-".repeat(72) + "\n";
        example
            .replace(&row.repeat(5), &row.repeat(13))
            .replace(&format!("{rule}{see}"), &format!("{rule}{see}").repeat(13))
    };
    assert_eq!(
        masked(&without_platform(&stdout(&client))),
        expected("cxi_read_lat 192.168.1.1 -D 1 -s 1:1024")
    );
    assert_eq!(
        masked(&without_platform(&stdout(&server))),
        expected("cxi_read_lat")
    );
    let sizes: Vec<String> = stdout(&client)
        .lines()
        .filter(|line| line.starts_with("    "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|word| word.parse::<u64>().is_ok())
        .collect();
    let powers: Vec<String> = (0..13).map(|power| (1_u64 << power).to_string()).collect();
    assert_eq!(sizes, powers);
}

#[test]
fn loopback_measures_with_one_command_and_leaves_nothing() {
    let fabric = Fabric::new();
    let output = fabric.run(&["write-lat", "--loopback", "-d", "soft0", "-n", "20"]);
    assert_success(&output);
    let text = stdout(&output);
    assert!(
        text.contains("\nRemote (server)  : NIC 0x12 PID 0 (loopback)\n"),
        "{text}"
    );
    assert!(
        text.contains("\nLocal (client)   : NIC 0x12 PID 1 VNI 1\n"),
        "{text}"
    );
    assert_eq!(text.matches("RDMA Size[B]").count(), 1, "{text}");
    assert!(!text.contains("Listening"), "{text}");
    fabric.assert_nothing_left();
}

/// Each way of issuing, each side of each limit, with every size deciding for itself (T5). The
/// target checks the bytes that arrived (debug builds).
#[test]
fn every_way_of_issuing() {
    let fabric = Fabric::new();
    for options in [
        &[][..],
        &["--no-ll"],
        &["--no-idc"],
        &["--unrestricted"],
        &["--unrestricted", "--no-ll"],
        &["--unrestricted", "--no-idc"],
        &["--no-idc", "--no-ll"],
    ] {
        for size in ["1:1024", "192", "193", "224", "225", "65537"] {
            let args = [
                &["write-lat", "--loopback", "-d", "soft0", "-n", "3"],
                options,
                &["--latency-gap", "0", "-s", size],
            ];
            assert_success(&fabric.run(&args.concat()));
        }
    }
}

#[test]
fn a_large_write_arrives() {
    let fabric = Fabric::new();
    let args = [
        "write-lat",
        "--loopback",
        "-d",
        "soft0",
        "-n",
        "2",
        "--warmup",
        "0",
        "-s",
        "16777217",
    ];
    assert_success(&fabric.run(&args));
}

#[test]
fn two_pairs_at_a_time() {
    let fabric = Fabric::new();
    let servers = [(); 2].map(|()| fabric.server("write-lat", &["-d", "soft0"]));
    let clients = [0, 1].map(|index| {
        let args = ["-d", "soft1", "-n", "50", "--latency-gap", "100"];
        fabric
            .client_command("write-lat", &servers[index], &args)
            .spawn()
            .expect("cxidiag starts")
    });
    for client in clients {
        assert_success(&client.wait_with_output().expect("a pipe"));
    }
    for server in servers {
        assert_success(&server.finish());
    }
    fabric.assert_nothing_left();
}

/// Tests that run as root try it as nobody; others are an ordinary user already.
#[test]
fn an_ordinary_user() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("cxidiag");
    harness::copy_program(&program);
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777))
        .expect("a mode");
    let is_root = std::fs::metadata("/proc/self")
        .map(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
        .unwrap_or(false);
    let mut command = std::process::Command::new(&program);
    command
        .args(["write-lat", "--loopback", "-d", "soft0", "-n", "5"])
        .env("CXIDIAG_FABRIC_DIR", directory.path().join("fabric"));
    if is_root {
        command.uid(65534).gid(65534);
    }
    assert_success(&command.output().expect("cxidiag starts"));
}

#[test]
fn a_legacy_name_is_the_same_tool() {
    harness::assert_legacy_name_works("write-lat", &["-n", "5"]);
}

/// The server of its own gets arguments that name the tool.
#[test]
fn a_file_with_a_legacy_name_runs_both_sides() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = directory.path().join("cxi_write_lat");
    harness::copy_program(&name);
    let mut command = fabric.command_of(&name, &["--loopback", "-d", "soft0", "-n", "5"]);
    assert_success(&command.output().expect("cxidiag starts"));
}

#[test]
fn each_size_has_statistics_of_its_own() {
    let fabric = Fabric::new();
    let args = [
        "write-lat",
        "--loopback",
        "-d",
        "soft0",
        "-s",
        "8:32",
        "-n",
        "5",
    ];
    let output = fabric.run(&args);
    assert_success(&output);
    let text = stdout(&output);
    let (_, rows) = text.split_once("StdDev[us]\n").expect("a table");
    let sizes_and_counts: Vec<(&str, &str)> = rows
        .lines()
        .filter_map(|row| {
            let mut words = row.split_whitespace();
            words.next().zip(words.next())
        })
        .collect();
    assert_eq!(sizes_and_counts, [("8", "5"), ("16", "5"), ("32", "5")]);
}

#[test]
fn a_server_names_the_run_options_that_it_ignores() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0", "-n", "7", "--no-idc"]);
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-n", "5"]);
    let server = server.finish();
    assert_success(&client);
    assert!(server.status.success());
    assert!(stdout(&server).contains("\nIterations       : 5\n"));
    assert!(stdout(&server).contains("\nIDC              : Enabled\n"));
    let notice = stderr(&server);
    assert_eq!(notice.lines().count(), 1, "{notice}");
    assert!(
        notice.contains("--iters") && notice.contains("--no-idc"),
        "{notice}"
    );
}

#[test]
fn t8_report_all_is_ignored_with_a_duration() {
    let fabric = Fabric::new();
    let args = [
        "write-lat",
        "--loopback",
        "-d",
        "soft0",
        "-D",
        "1",
        "--report-all",
    ];
    let output = fabric.run(&args);
    assert_success(&output);
    assert!(stdout(&output).contains("\nResults Reported : Summary\n"));
    assert!(!stdout(&output).contains("WriteNum"));
}

/// A long run to be killed in the middle of.
const LONG: [&str; 6] = ["-d", "soft1", "-D", "600", "--latency-gap", "0"];

#[test]
fn t14_a_killed_server_ends_the_client() {
    let fabric = Fabric::new();
    let mut server = fabric.server("write-lat", &["-d", "soft0"]);
    let client = fabric
        .client_command("write-lat", &server, &LONG)
        .spawn()
        .expect("cxidiag starts");
    while !server.next_line().starts_with("Remote (client)") {}
    server.kill();
    let client = client.wait_with_output().expect("a pipe");
    assert_eq!(client.status.code(), Some(1));
    assert!(
        stderr(&client).starts_with("cxidiag write-lat: error: "),
        "{}",
        stderr(&client)
    );
    assert_runs_again(&fabric);
}

/// In an endless gap nothing but the control connection tells.
#[test]
fn t14_a_server_killed_in_a_gap_ends_the_client() {
    let fabric = Fabric::new();
    let mut server = fabric.server("write-lat", &["-d", "soft0"]);
    let args = ["-d", "soft1", "--latency-gap=1000000000000"];
    let client = fabric
        .client_command("write-lat", &server, &args)
        .spawn()
        .expect("cxidiag starts");
    while !server.next_line().starts_with("Remote (client)") {}
    server.kill();
    let client = harness::finish_or_kill(client);
    assert_eq!(client.status.code(), Some(1));
}

#[test]
fn t14_a_killed_client_ends_the_server() {
    let fabric = Fabric::new();
    let mut server = fabric.server("write-lat", &["-d", "soft0"]);
    let mut client = fabric
        .client_command("write-lat", &server, &LONG)
        .spawn()
        .expect("cxidiag starts");
    while !server.next_line().starts_with("Remote (client)") {}
    client.kill().expect("a running client");
    let _ = client.wait();
    let server = server.finish();
    assert_eq!(server.status.code(), Some(1));
    assert!(
        stderr(&server).starts_with("cxidiag write-lat: error: "),
        "{}",
        stderr(&server)
    );
    assert_runs_again(&fabric);
}

/// At any moment: as it starts, in the handshake, in the summary, in the run, between sizes.
#[test]
fn t14_a_client_killed_at_any_moment_ends_the_server() {
    let fabric = Fabric::new();
    for lines in [0, 1, 3, 12, 19, 21, 22] {
        let server = fabric.server("write-lat", &["-d", "soft0"]);
        let args = ["-d", "soft1", "-s", "8:64", "-n", "200"];
        let client = fabric.client_command("write-lat", &server, &args);
        let survived = kill_after(client, lines);
        if lines == 0 {
            // It may not have come as far as the server, which then still waits for a client.
            let client = fabric.client("write-lat", &server, &["-d", "soft1", "-n", "1"]);
            let _ = (client, server.finish());
        } else {
            let server = server.finish();
            assert_eq!(server.status.success(), survived, "{lines} lines");
        }
    }
    assert_runs_again(&fabric);
}

/// Kills a process when it has printed so many lines; true if it came to its end before.
fn kill_after(mut command: std::process::Command, lines: usize) -> bool {
    let mut child = command.spawn().expect("cxidiag starts");
    let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let _ = stdout.lines().take(lines).count();
    child.kill().expect("a child");
    child.wait().expect("an exit status").success()
}

/// Nothing of a dead process is in the way of the next run, and that run cleans up.
fn assert_runs_again(fabric: &Fabric) {
    assert_success(&fabric.run(&["write-lat", "--loopback", "-d", "soft0", "-n", "3"]));
    fabric.assert_nothing_left();
}

#[test]
fn t26_a_service_with_a_range_uses_its_own_vni() {
    let fabric = Fabric::new();
    let args = ["write-lat", "--loopback", "-d", "soft0", "-n", "3"];
    let output = fabric.run(&[&args[..], &["--svc-id=2"]].concat());
    assert_success(&output);
    let text = stdout(&output);
    assert!(text.contains("\nService ID       : 2\n"), "{text}");
    assert!(text.contains(" PID 1 VNI 16\n"), "{text}");
}

/// The server goes on waiting, for a client that it can work with.
#[test]
fn t15_two_sides_with_different_vnis_do_not_run() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0", "--svc-id=2"]);
    let client = fabric.client("write-lat", &server, &["-d", "soft1"]);
    assert_eq!(client.status.code(), Some(1));
    assert!(stderr(&client).contains(": different VNIs: "), "{client:?}");
    let args = ["-d", "soft1", "--svc-id=2", "-n", "3"];
    assert_success(&fabric.client("write-lat", &server, &args));
    let server = server.finish();
    assert!(server.status.success());
    assert!(stderr(&server).contains(": different VNIs: "), "{server:?}");
    fabric.assert_nothing_left();
}

/// What the environment refuses: one line that names it, a hint, exit status 1.
#[test]
fn what_the_environment_refuses() {
    let fabric = Fabric::new();
    for (args, line, hint) in [
        (
            &["-d", "soft0", "--svc-id=3"][..],
            "service 3 of soft0 is disabled",
            "cxi_service enable -s",
        ),
        (
            &["-d", "soft0", "--svc-id=4"],
            "cxil_alloc_lni: Operation not permitted",
            "not a member of the service",
        ),
        (
            &["-d", "soft0", "--svc-id=9"],
            "cannot use service 9 of soft0",
            "cxi_service list",
        ),
        (
            &["-d", "cxi0", "--libcxi=/nowhere/libcxi.so.1"],
            "cannot open device cxi0: --libcxi=/nowhere/libcxi.so.1: ",
            "libcxi.so.1",
        ),
        (
            &["-d", "soft0", "-p", "1"],
            "cannot connect to 127.0.0.1 port 1: connection refused",
            "start the server first",
        ),
    ] {
        let output = fabric.run(&[&["write-lat", "127.0.0.1"], args].concat());
        let said = stderr(&output);
        let (first, second) = said.split_once("\nhint: ").expect("a line and a hint");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(stdout(&output), "");
        assert!(first.starts_with("cxidiag write-lat: error: "), "{said}");
        assert!(
            first.contains(&named(line)) && !first.contains('\n'),
            "{said}"
        );
        assert!(second.contains(hint), "{said}");
        assert_eq!(second.lines().count(), 1, "{said}");
    }
    fabric.assert_nothing_left();
}

#[test]
fn no_hardware_is_answered_with_the_way_to_the_software_nic() {
    if std::path::Path::new("/sys/class/cxi").exists() {
        return;
    }
    let mut command = Fabric::new().command(&["write-lat"]);
    let command = command.env_remove("CXIDIAG_LIBCXI");
    let output = command.output().expect("cxidiag starts");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("/sys/class/cxi") && said.contains("--device=soft0"),
        "{said}"
    );
}

#[test]
fn an_unresolvable_host() {
    let fabric = Fabric::new();
    let output = fabric.run(&["write-lat", "host.invalid", "-d", "soft0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).starts_with("cxidiag write-lat: error: cannot resolve 'host.invalid': "),
        "{}",
        stderr(&output)
    );
    fabric.assert_nothing_left();
}

/// NICs of two fabrics do not reach each other; the NIC says so.
#[test]
fn a_peer_on_another_fabric_is_undeliverable() {
    let (here, there) = (Fabric::new(), Fabric::new());
    let server = here.server("write-lat", &["-d", "soft0"]);
    let client = there.client("write-lat", &server, &["-d", "soft1"]);
    assert_eq!(client.status.code(), Some(1));
    assert!(
        stderr(&client).contains("UNDELIVERABLE"),
        "{}",
        stderr(&client)
    );
    assert_eq!(server.finish().status.code(), Some(1));
}
