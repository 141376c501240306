//! `write-lat`: server and client over loopback and the software NIC.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tempfile::TempDir;

use crate::harness::{
    self, Command, Fabric, assert_has_form_of, assert_status, assert_success, finish, named, seed,
    stdout,
};

#[test]
fn prints_the_example_of_the_document() {
    let [client, server] = Fabric::new().pair("write-lat", "-n 5 --report-all");
    assert_has_form_of(&client, &seed("cxi_write_lat 10.1.1.8 -n 5 --report-all"));
    assert_has_form_of(&server, &seed("cxi_write_lat"));
}

/// The document shows a range for `cxi_read_lat`; `cxi_write_lat` prints its own words and an
/// additional `IDC` line.
#[test]
fn prints_a_range_of_sizes() {
    let [client, server] = Fabric::new().pair("write-lat", "-s 1:4096 -n 10");
    let row = "           #           #        #.##        #.##        #.##        #.##\n";
    let expected = |command| {
        harness::masked(&seed(command))
            .replace(&harness::duration(1.0), &harness::iterations(10))
            .replace("CXI RDMA Read Latency Test", "CXI RDMA Write Latency Test")
            .replace("Min Read Size    : 64", "Min Write Size   : 1")
            .replace("Max Read Size    : 1024", "Max Write Size   : 4096")
            .replace("LL Cmd Launch", "IDC              : Enabled\nLL Cmd Launch")
            .replace("       Reads", "      Writes")
            .replace(&row.repeat(5), &row.repeat(13))
    };
    let masked = |text| harness::masked(&harness::without_platform(text));
    assert_eq!(masked(&client), expected("cxi_read_lat 192.168.1.1 -D 1 -s 1:1024"));
    assert_eq!(masked(&server), expected("cxi_read_lat"));
    let sizes: Vec<u64> = client
        .lines()
        .filter(|line| line.starts_with("    "))
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    assert_eq!(sizes, (0..13).map(|power| 1 << power).collect::<Vec<_>>());
}

#[test]
fn measures_all_sizes() {
    let text = Fabric::new().loopback("write-lat", "-a -n 1 --warmup=0 --latency-gap=0");
    let sizes: Vec<u64> =
        harness::rows(&text).iter().map(|row| row[0].parse().expect("a size")).collect();
    assert_eq!(sizes, (0..24).map(|power| 1 << power).collect::<Vec<_>>());
}

#[test]
fn measures_in_loopback_with_one_command() {
    let fabric = Fabric::new();
    let text = fabric.loopback("write-lat", "-n 20");
    for line in [
        "\nRemote (server)  : NIC 0x12 PID 0 (loopback)\n",
        "\nLocal (client)   : NIC 0x12 PID 1 VNI 1\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(text.matches("RDMA Size[B]").count(), 1, "{text}");
    assert!(!text.contains("Listening"), "{text}");
    fabric.assert_nothing_left();
}

/// Sizes on each side of each limit; each size of a range decides for itself (T5). The target
/// checks the bytes that arrived (debug builds).
#[test]
fn measures_with_each_kind_of_command() {
    let fabric = Fabric::new();
    let limits = ["1:1024", "192", "193", "224", "225"];
    for (options, sizes) in [
        ("", &limits[..]),
        ("--unrestricted", &limits),
        ("--no-idc", &["1:1024", "65537"]),
        ("--no-ll", &["1:1024"]),
        ("--unrestricted --no-ll", &["1:1024"]),
        ("--unrestricted --no-idc", &["1:1024"]),
        ("--no-idc --no-ll", &["1:1024"]),
    ] {
        for size in sizes {
            fabric.loopback("write-lat", &format!("-n 3 {options} --latency-gap 0 -s {size}"));
        }
    }
    fabric.loopback("write-lat", "-n 2 --warmup 0 -s 16777217");
}

#[test]
fn runs_two_pairs_at_a_time() {
    let fabric = Fabric::new();
    let servers = [(); 2].map(|()| fabric.server("write-lat", "-d soft0"));
    let clients = servers.each_ref().map(|server| {
        let args = "-d soft1 -n 50 --latency-gap 100";
        let mut command = fabric.client_command("write-lat", server, args);
        command.spawn().expect("cxidiag starts")
    });
    for client in clients {
        assert_success(&client.finish());
    }
    for server in servers {
        assert_success(&server.finish());
    }
    fabric.assert_nothing_left();
}

/// A loopback run of a copy of the program, and the directory of the copy. Each user may execute
/// the copy and write to the directory.
fn run_for_each_user() -> (Command, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("cxidiag");
    harness::copy_program(&program);
    let everyone = PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), everyone).expect("a mode");
    let mut command = Command::new(&program);
    command.args("write-lat --loopback -d soft0 -n 5".split(' '));
    (command, directory)
}

/// Whether this process may start another one as any user.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// Tests that run as root start it as the user nobody.
#[test]
fn runs_as_an_ordinary_user() {
    let (mut command, directory) = run_for_each_user();
    command.env("CXIDIAG_FABRIC_DIR", directory.path().join("fabric"));
    if is_root() {
        command.user(65534, 65534);
    }
    assert_success(&finish(command));
}

/// Anybody may make a directory in /dev/shm.
#[test]
fn runs_although_another_user_has_taken_the_directory_of_the_fabric() {
    if !is_root() {
        return;
    }
    const USER: u32 = 64_999;
    let taken = format!("/dev/shm/cxidiag-{USER}");
    std::fs::create_dir(&taken).expect("a directory");
    let (mut command, _directory) = run_for_each_user();
    command.env_remove("CXIDIAG_FABRIC_DIR").user(USER, USER);
    let output = command.output();
    std::fs::remove_dir(&taken).expect("an empty directory");
    let output = output.expect("the program starts");
    harness::assert_status(&output, 0);
    let warning = format!("{taken} belongs to another user: software NICs meet in {taken}.1\n");
    let text = harness::stderr(&output);
    assert!(text.contains(&warning), "{text}");
    assert!(!std::fs::exists(format!("{taken}.1")).expect("a shared directory"));
}

#[test]
fn runs_under_its_legacy_name() {
    harness::assert_legacy_name_works("write-lat", "-n 5");
}

/// The server that a loopback run starts gets arguments that name the tool.
#[test]
fn runs_both_sides_from_a_file_with_the_legacy_name() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let name = directory.path().join("cxi_write_lat");
    harness::copy_program(&name);
    let fabric = Fabric::new();
    let command = fabric.command_of(&name, "--loopback -d soft0 -n 5");
    assert_success(&finish(command));
}

#[test]
fn counts_the_samples_of_each_size() {
    let text = Fabric::new().loopback("write-lat", "-s 8:32 -n 5");
    let (_, rows) = text.split_once("StdDev[us]\n").expect("a table");
    let sizes_and_counts: Vec<_> = rows
        .lines()
        .filter_map(|row| {
            let mut words = row.split_whitespace();
            words.next().zip(words.next())
        })
        .collect();
    assert_eq!(sizes_and_counts, [("8", "5"), ("16", "5"), ("32", "5")]);
}

#[test]
fn names_the_run_options_that_a_server_ignores() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0 -n 7 --no-idc");
    assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 5"));
    let server = server.finish();
    let notice = assert_status(&server, 0);
    assert!(stdout(&server).contains("\nIterations       : 5\n"));
    assert!(stdout(&server).contains("\nIDC              : Enabled\n"));
    assert_eq!(notice.lines().count(), 1, "{notice}");
    assert!(notice.contains("--iters") && notice.contains("--no-idc"), "{notice}");
}

#[test]
fn t8_ignores_report_all_with_a_duration() {
    harness::assert_report_all_is_ignored_with_a_duration("write-lat");
}

/// `tests/connection/deaths.rs` kills each side in every phase, one at a time.
#[test]
fn t14_fails_when_the_peer_is_killed() {
    let options = ["--latency-gap 0", "--latency-gap=1000000000000"];
    harness::assert_killed_side_ends_the_other("write-lat", &options, "Remote (client)");
}

#[test]
fn t26_uses_its_own_vni_in_a_service_with_a_range() {
    let text = Fabric::new().loopback("write-lat", "-n 3 --svc-id=2");
    assert!(text.contains("\nService ID       : 2\n"), "{text}");
    assert!(text.contains(" PID 1 VNI 16\n"), "{text}");
}

#[test]
fn t15_refuses_a_client_of_another_vni_and_serves_the_next() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0 --svc-id=2");
    let error = assert_status(&fabric.client("write-lat", &server, "-d soft1"), 1);
    assert!(error.contains(": different VNIs: "), "{error}");
    assert_success(&fabric.client("write-lat", &server, "-d soft1 --svc-id=2 -n 3"));
    let error = assert_status(&server.finish(), 0);
    assert!(error.contains(": different VNIs: "), "{error}");
    fabric.assert_nothing_left();
}

#[test]
fn takes_sizes_and_times_with_units() {
    let options = "-s 1K:2KiB -D 0.2 --latency-gap 0.01ms";
    let text = Fabric::new().loopback("write-lat", options);
    assert!(text.contains(&harness::duration(0.2)), "{text}");
    assert!(text.contains("\nInter-Iter Gap   : 10 microseconds\n"), "{text}");
    let sizes: Vec<&str> = harness::rows(&text).iter().map(|row| row[0]).collect();
    assert_eq!(sizes, ["1024", "2048"]);
}

/// A loopback run has no server of its own yet: it is refused as a client is.
#[test]
fn loopback_is_refused_in_the_words_of_any_run() {
    let fabric = Fabric::new();
    for options in ["-d cxi0 --libcxi=/nowhere/libcxi.so.1", "-d soft0 --svc-id=9"] {
        let server = fabric.run(&format!("write-lat -p 0 {options}"));
        let loopback = fabric.run(&format!("write-lat --loopback {options}"));
        assert_eq!(assert_status(&loopback, 1), assert_status(&server, 1));
    }
}

#[test]
fn explains_what_the_environment_refuses() {
    let fabric = Fabric::new();
    for (args, line, hint) in [
        ("-d soft0 --svc-id=3", "service 3 of soft0 is disabled", "cxi_service enable -s"),
        (
            "-d soft0 --svc-id=4",
            "cxil_alloc_lni: Operation not permitted",
            "not a member of the service",
        ),
        ("-d soft0 --svc-id=9", "cannot use service 9 of soft0", "cxi_service list"),
        (
            "-d cxi0 --libcxi=/nowhere/libcxi.so.1",
            "cannot open device cxi0: --libcxi=/nowhere/libcxi.so.1: ",
            "libcxi.so.1",
        ),
        (
            "-d soft0 -p 1",
            "cannot connect to 127.0.0.1 port 1: connection refused",
            "start the server first",
        ),
    ] {
        let output = fabric.run(&format!("write-lat 127.0.0.1 {args}"));
        let error = assert_status(&output, 1);
        let [first, second] = error.lines().collect::<Vec<_>>()[..] else {
            panic!("a line and a hint: {error}");
        };
        assert_eq!(stdout(&output), "");
        assert!(first.starts_with("cxidiag write-lat: error: "), "{error}");
        assert!(first.contains(&named(line)), "{error}");
        assert!(second.starts_with("hint: ") && second.contains(hint), "{error}");
    }
    fabric.assert_nothing_left();
}

#[test]
fn suggests_the_software_nic_where_there_is_no_hardware() {
    if Path::new("/sys/class/cxi").exists() {
        return;
    }
    let mut command = Fabric::new().command("write-lat");
    command.env_remove("CXIDIAG_LIBCXI");
    let error = assert_status(&finish(command), 1);
    for words in ["/sys/class/cxi", "--device=soft0"] {
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn names_a_host_that_cannot_be_resolved() {
    let fabric = Fabric::new();
    let error = assert_status(&fabric.run("write-lat host.invalid -d soft0"), 1);
    let start = "cxidiag write-lat: error: cannot resolve 'host.invalid': ";
    assert!(error.starts_with(start), "{error}");
    fabric.assert_nothing_left();
}

/// NICs of two fabrics do not reach each other. The server waits for another client.
#[test]
fn fails_if_the_peer_is_on_another_fabric() {
    let (here, there) = (Fabric::new(), Fabric::new());
    let server = here.server("write-lat", "-d soft0");
    let client = there.client("write-lat", &server, "-d soft1");
    let error = assert_status(&client, 1);
    assert!(error.contains("error: software NICs of two fabrics, "), "{error}");
}
