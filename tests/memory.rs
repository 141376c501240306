//! Buffers larger than memory are refused with what there is, and nobody is killed.

mod harness;

use std::path::Path;

use harness::machine::MadeUp;
use harness::{CXIDIAG, Fabric, Server, assert_success, stderr, stdout};

const SMALL: (&str, &str) = (
    "proc/meminfo",
    "MemTotal: 4096 kB\nMemFree: 100 kB\nMemAvailable: 1024 kB\n",
);

/// In a group that may use 300000 bytes more.
const LIMITED: [(&str, &str); 5] = [
    SMALL,
    ("proc/self/cgroup", "0::/batch/job7\n"),
    (
        "proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    ),
    ("sys/fs/cgroup/batch/memory.max", "1000000\n"),
    ("sys/fs/cgroup/batch/memory.current", "700000\n"),
];

const HINT: &str = "hint: buffers are pinned: they must fit the memory that is free, on the NUMA node \
                    of --cpu and within the limit of the control group; use a smaller --size, \
                    --list-size or --buf-sz\n";

#[test]
fn t13_buffers_beyond_memory_are_refused_before_anything_is_opened() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[SMALL]);
    for (tool, options, needed) in [
        ("write-lat", &["-s", "4294967295"][..], 2_u64 << 32),
        ("read-lat", &["-s", "1048576"], 2 << 20),
        ("send-lat", &["-s", "1048576"], 4 << 20),
        ("send-bw", &["--buf-sz=5000000"], 2 * 5_001_216),
        ("send-bw", &["-b", "-s", "4096", "-l", "100"], 4 * 409_600),
    ] {
        let args = [&[tool, "--loopback", "-d", "soft0"], options].concat();
        let output = machine.seen_by(fabric.command(&args)).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            stderr(&output),
            format!(
                "cxidiag {tool}: the buffers need {needed} bytes of memory, 1048576 are available \
                 on this machine\n{HINT}"
            )
        );
        assert!(!fabric.path().exists());
    }
    let fits = [
        "send-lat",
        "--loopback",
        "-d",
        "soft0",
        "-s",
        "262144",
        "-n",
        "1",
    ];
    assert_success(&machine.seen_by(fabric.command(&fits)).output().unwrap());
}

#[test]
fn the_limit_of_a_control_group_and_the_memory_of_a_node_count() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(
        &[
            &LIMITED[..],
            &[
                ("sys/devices/system/node/node0/cpulist", "0\n"),
                (
                    "sys/devices/system/node/node0/meminfo",
                    "Node 0 MemFree: 64 kB\n",
                ),
            ],
        ]
        .concat(),
    );
    let args = ["write-lat", "--loopback", "-d", "soft0", "-s", "262144"];
    for (options, found) in [
        (
            &[][..],
            "300000 are available in the control group /batch\n",
        ),
        (&["--cpu=0"], "65536 are available on NUMA node 0\n"),
    ] {
        let command = fabric.command(&[&args, options].concat());
        let output = machine.seen_by(command).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        assert!(
            said.contains(&format!("need 524288 bytes of memory, {found}")),
            "{said}"
        );
    }
}

#[test]
fn t13_a_client_is_told_what_its_server_lacks() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[SMALL]);
    let server = machine.seen_by(fabric.command(&["write-lat", "-p", "0", "-d", "soft0"]));
    let server = Server::start(server);
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-s", "1048577"]);
    let server = server.finish();
    assert_eq!(
        (client.status.code(), server.status.code()),
        (Some(1), Some(1))
    );
    let why = "the buffers need 1052672 bytes of memory, 1048576 are available on this machine\n";
    assert!(stderr(&server).contains(why), "{}", stderr(&server));
    let told = stderr(&client);
    assert!(
        told.contains(&format!(" cannot take part: {why}")),
        "{told}"
    );
    fabric.assert_nothing_left();
}

/// A persistent server goes on after it has refused a client.
#[test]
fn a_refused_client_does_not_end_a_persistent_server() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[SMALL]);
    let args = ["write-lat", "-p", "0", "-d", "soft0", "--persist"];
    let mut server = Server::start(machine.seen_by(fabric.command(&args)));
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-s", "1048577"]);
    assert_eq!(client.status.code(), Some(1));
    while !server.next_line().starts_with("Listening") {}
    assert_success(&fabric.client("write-lat", &server, &["-d", "soft1", "-n", "1"]));
}

/// What the look at the machine does not find out, the allocation does.
#[test]
fn t13_an_allocation_that_fails_is_an_error_and_no_crash() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0"]);
    let client = format!(
        "ulimit -v 400000; exec {CXIDIAG} write-lat 127.0.0.1 -d {} -p {} -s 536870912",
        harness::named("soft1"),
        server.port
    );
    let client = fabric
        .command_of(Path::new("sh"), &["-c", &client])
        .output();
    let client = client.expect("a shell");
    let server = server.finish();
    let said = stderr(&client);
    assert_eq!(client.status.code(), Some(1), "{said}");
    let what =
        "cannot get a buffer of 536870912 bytes: mmap: Cannot allocate memory (errno 12)\nhint: ";
    assert!(said.contains(what), "{said}");
    let told = stderr(&server);
    assert!(
        told.contains(" cannot take part: cannot get a buffer of"),
        "{told}"
    );
    assert_eq!(server.status.code(), Some(1));
    assert!(!stdout(&client).contains("WriteNum"));
    fabric.assert_nothing_left();
}
