//! `write-lat`: server and client over loopback and the software NIC.

mod harness;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use harness::{CXIDIAG, Fabric, Server, assert_success, masked, stderr, stdout};

const SEED: &str = include_str!("fixtures/seed-latency.txt");

/// The block of the seed that follows `$ command`, without the command.
fn seed(command: &str) -> String {
    let (_, after) = SEED.split_once(&format!("\n$ {command}\n")).expect(command);
    let (block, _) = after.split_once("```").expect("a closed block");
    block.to_owned()
}

/// What we print beyond the seed on a software device.
fn without_platform(text: &str) -> String {
    let line = "Platform         : software NIC (no Cassini hardware involved)\n";
    assert_eq!(text.matches(line).count(), 1, "{text}");
    text.replace(line, "")
}

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
    std::fs::copy(CXIDIAG, &program).expect("a copy");
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
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = directory.path().join("cxi_write_lat");
    std::os::unix::fs::symlink(CXIDIAG, &name).expect("a symlink");
    let server = Server::start(fabric.command_of(&name, &["-d", "soft0", "-p", "0"]));
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-n", "5"]);
    assert_success(&client);
    assert_success(&server.finish());
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
        stderr(&client).starts_with("cxidiag write-lat: "),
        "{}",
        stderr(&client)
    );
    assert_runs_again(&fabric);
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
        stderr(&server).starts_with("cxidiag write-lat: "),
        "{}",
        stderr(&server)
    );
    assert_runs_again(&fabric);
}

/// Nothing of a dead process is in the way of the next run, and that run cleans up.
fn assert_runs_again(fabric: &Fabric) {
    assert_success(&fabric.run(&["write-lat", "--loopback", "-d", "soft0", "-n", "3"]));
    fabric.assert_nothing_left();
}
