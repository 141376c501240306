//! Buffers larger than memory are refused with what there is, and nobody is killed.

mod harness;

use std::path::Path;

use harness::machine::MadeUp;
use harness::{CXIDIAG, Fabric, Server, assert_success, stderr};

const SMALL: (&str, &str) = (
    "proc/meminfo",
    "MemTotal: 99999 kB\nMemFree: 100 kB\nMemAvailable: 65536 kB\n",
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

const HINT: &str = "hint: buffers are pinned: they must fit into the free memory, that of the NUMA \
                    node of --cpu and the limit of the control group; use a smaller --size (for \
                    send-bw also --list-size or --buf-sz)\n";

#[test]
fn t13_buffers_beyond_memory_are_refused_before_anything_is_opened() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[SMALL]);
    for (tool, options, buffers) in [
        ("write-lat", &["-s", "67108864"][..], 2_u64 << 26),
        ("read-lat", &["-s", "33554432"], 2 << 25),
        ("send-lat", &["-s", "16777216"], 4 << 24),
        (
            "send-bw",
            &["-s", "33554432", "--buf-sz=50000000"],
            2 * 50_003_968,
        ),
        ("send-bw", &["-b", "-s", "65536"], 4 << 24),
    ] {
        let args = [&[tool, "--loopback", "-d", "soft0"], options].concat();
        let output = machine.seen_by(fabric.command(&args)).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let needed = buffers + (16 << 20) + buffers / 256;
        assert_eq!(
            stderr(&output),
            format!(
                "cxidiag {tool}: error: the run needs {needed} bytes of memory, {buffers} of them for buffers; \
                 67108864 are available on this machine\n{HINT}"
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
        "8388608",
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
            said.contains(&format!(" 524288 of them for buffers; {found}")),
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
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-s", "67108864"]);
    let why = "67108864 of them for buffers; 67108864 are available on this machine\n";
    let told = stderr(&client);
    assert!(
        told.contains(" cannot run: the run needs ") && told.contains(why),
        "{told}"
    );
    let server = server.finish();
    assert!(stderr(&server).contains(why), "{}", stderr(&server));
    assert_eq!(
        (client.status.code(), server.status.code()),
        (Some(1), Some(1))
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
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-s", "67108864"]);
    assert_eq!(client.status.code(), Some(1));
    while !server.next_line().starts_with("Listening") {}
    assert_success(&fabric.client("write-lat", &server, &["-d", "soft1", "-n", "1"]));
}

/// What the look at the machine does not find out, the allocation does, on either side; the other is told.
#[test]
fn t13_an_allocation_that_fails_is_an_error_and_no_crash() {
    for (tool, options) in [
        ("write-lat", "-s 268435456"),
        ("read-lat", "-s 268435456"),
        ("send-lat", "-s 268435456"),
        ("send-bw", "-s 268435456 -l 1"),
    ] {
        for limited in ["server", "client"] {
            let fabric = Fabric::new();
            let command = |side: &str, arguments: &str| {
                let limit = match side == limited {
                    true => "ulimit -v 300000;",
                    false => "",
                };
                let line = format!(
                    "{limit} exec {CXIDIAG} {tool} {}",
                    harness::named(arguments)
                );
                fabric.command_of(Path::new("sh"), &["-c", &line])
            };
            let server = Server::start(command("server", "-p 0 -d soft0"));
            let arguments = format!("127.0.0.1 -d soft1 -p {} {options}", server.port);
            let client = command("client", &arguments).output().expect("a shell");
            assert_eq!(client.status.code(), Some(1), "{tool}: {}", stderr(&client));
            let server = server.finish();
            let (fails, told) = match limited {
                "client" => (&client, &server),
                _ => (&server, &client),
            };
            assert_eq!(server.status.code(), Some(1), "{tool}: {}", stderr(&server));
            let why =
                "cannot get a buffer of 268435456 bytes: mmap: Cannot allocate memory (errno 12)\n";
            let said = stderr(fails);
            let begin = format!("cxidiag {tool}: error: {why}hint: ");
            assert!(said.starts_with(&begin), "{tool}, {limited}: {said}");
            let said = stderr(told);
            assert!(
                said.contains(&format!(" cannot run: {why}")),
                "{tool}, {limited}: {said}"
            );
            fabric.assert_nothing_left();
        }
    }
}
