//! Buffers larger than memory are refused before the kernel kills a process for them; memory does
//! not grow with the length of a run.

use std::fs;
use std::path::Path;

use crate::harness::machine::MadeUp;
use crate::harness::paused::Side;
use crate::harness::{
    self, CXIDIAG, Fabric, Server, assert_status, assert_success, finish, stderr,
};

const SMALL: (&str, &str) =
    ("proc/meminfo", "MemTotal: 99999 kB\nMemFree: 100 kB\nMemAvailable: 65536 kB\n");

/// In a control group that may use 300000 bytes more, with a small NUMA node.
const LIMITED: [(&str, &str); 7] = [
    SMALL,
    ("proc/self/cgroup", "0::/batch/job7\n"),
    ("proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
    ("sys/fs/cgroup/batch/memory.max", "1000000\n"),
    ("sys/fs/cgroup/batch/memory.current", "700000\n"),
    ("sys/devices/system/node/node0/cpulist", "0\n"),
    ("sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 64 kB\n"),
];

const HINT: &str = "hint: buffers are pinned: they must fit into the free memory, that of the NUMA \
                    node of --cpu and the limit of the control group; use a smaller --size (for \
                    bandwidth tools also --list-size, --buf-sz or --pairs)\n";

#[test]
fn t13_refuses_buffers_beyond_memory_before_opening_a_device() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[SMALL]);
    for (tool, options, buffers) in [
        ("write-lat", "-s 67108864", 2_u64 << 26),
        ("read-lat", "-s 33554432", 2 << 25),
        ("send-lat", "-s 16777216", 4 << 24),
        ("send-bw", "-s 33554432 --buf-sz=50000000", 2 * 50_003_968),
        ("send-bw", "-b -s 65536", 4 << 24),
    ] {
        let command = fabric.command(&format!("{tool} --loopback -d soft0 {options}"));
        let error = assert_status(&finish(machine.seen_by(command)), 1);
        let needed = buffers + (16 << 20) + buffers / 256;
        assert_eq!(
            error,
            format!(
                "cxidiag {tool}: error: the run needs {needed} bytes of memory, {buffers} of them for buffers; \
                 67108864 are available on this machine\n{HINT}"
            )
        );
        assert!(!fabric.path().exists());
    }
    let fits = fabric.command("send-lat --loopback -d soft0 -s 8388608 -n 1");
    assert_success(&finish(machine.seen_by(fits)));
}

#[test]
fn counts_the_limits_of_the_control_group_and_of_the_numa_node() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&LIMITED);
    for (option, found) in [
        ("", "300000 are available in the control group /batch\n"),
        ("--cpu=0", "65536 are available on NUMA node 0\n"),
    ] {
        let command = fabric.command(&format!("write-lat --loopback -d soft0 -s 262144 {option}"));
        let error = assert_status(&finish(machine.seen_by(command)), 1);
        let expected = format!(" 524288 of them for buffers; {found}");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn t13_tells_a_refused_client_what_its_persistent_server_lacks() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[SMALL]);
    let command = fabric.command("write-lat -p 0 -d soft0 --persist");
    let mut server = Server::start(machine.seen_by(command));
    let client = fabric.client("write-lat", &server, "-d soft1 -s 67108864");
    let why = "67108864 of them for buffers; 67108864 are available on this machine\n";
    let error = assert_status(&client, 1);
    for words in [" cannot run: the run needs ", why] {
        assert!(error.contains(words), "{error}");
    }
    server.wait_for_line("Listening");
    assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 1"));
    server.wait_for_line("Listening");
    server.kill();
    let error = stderr(&server.finish());
    assert!(error.contains(why), "{error}");
}

/// `ulimit` makes an allocation fail on one side that the look at the machine allows.
#[test]
fn t13_reports_a_failed_allocation_on_both_sides() {
    for (tool, options) in [
        ("write-lat", "-s 536870912"),
        ("read-lat", "-s 536870912"),
        ("send-lat", "-s 536870912"),
        ("send-bw", "-s 536870912 -l 1"),
    ] {
        for limited in ["server", "client"] {
            let fabric = Fabric::new();
            let command = |side: &str, arguments: &str| {
                let limit = if side == limited { "ulimit -v 600000;" } else { "" };
                let arguments = harness::named(arguments);
                let line = format!("{limit} exec {CXIDIAG} {tool} {arguments}");
                fabric.command_of(Path::new("sh"), &["-c", &line])
            };
            let server = Server::start(command("server", "-p 0 -d soft0"));
            let arguments = format!("127.0.0.1 -d soft1 -p {} {options}", server.port);
            let client = assert_status(&finish(command("client", &arguments)), 1);
            let server = assert_status(&server.finish(), 1);
            let (limited_side, other) =
                if limited == "client" { (client, server) } else { (server, client) };
            let why =
                "cannot get a buffer of 536870912 bytes: mmap: Cannot allocate memory (errno 12)\n";
            let start = format!("cxidiag {tool}: error: {why}hint: ");
            assert!(limited_side.starts_with(&start), "{tool}: {limited_side}");
            let words = format!(" cannot run: {why}");
            assert!(other.contains(&words), "{tool}, {limited}: {other}");
            fabric.assert_nothing_left();
        }
    }
}

/// Memory of a client, in KiB, when it reports the first size, without pages of the program: how
/// many of these are in memory varies.
fn own_memory(options: &str) -> u64 {
    let fabric = Fabric::new();
    let args = format!("write-lat --loopback -d soft0 --latency-gap=0 {options}");
    let mut client = Side::start(fabric.command(&args), Some("reporting"));
    client.wait_for_pause();
    let path = format!("/proc/{}/status", client.id());
    let status = fs::read_to_string(path).expect("a process");
    client.go_on();
    assert_success(&client.finish());
    let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let number = own.and_then(|own| own.split_whitespace().next());
    number.expect("a size").parse().expect("a number")
}

/// A second more would need a megabyte more if each sample were kept.
#[test]
fn memory_does_not_grow_with_duration() {
    let [short, long] = ["-D 1", "-D 4"].map(own_memory);
    assert!(long < short + 500, "{short} KiB after 1 s, {long} KiB after 4 s");
}
