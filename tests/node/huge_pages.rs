//! `--use-hp`: buffers of huge pages, and errors where there are too few.

use std::io::{BufRead, BufReader};

use crate::harness::legacy::{Peer, replay_client};
use crate::harness::machine::{HugePages, MadeUp};
use crate::harness::{Fabric, Server, assert_status, assert_success, finish, stderr, stdout};

/// Tools with data buffers, the number of their buffers on each side, and options that have data
/// move by DMA.
const TOOLS: [(&str, u64, &str); 9] = [
    ("write-lat", 1, "--no-idc"),
    ("read-lat", 1, ""),
    ("send-lat", 2, "--no-idc"),
    ("write-bw", 1, "-l 8"),
    ("write-bw", 2, "-l 8 -b"),
    ("read-bw", 1, "-l 8"),
    ("read-bw", 2, "-l 8 -b"),
    ("send-bw", 1, "-l 8"),
    ("send-bw", 2, "-l 8 -b"),
];

/// Runs tools with `option`. Both sides compare what arrives with what was sent (debug
/// builds), and each prints its pages.
fn measure_with_pages(
    tools: &[(&str, u64, &str)],
    option: &str,
    sizes: &str,
    free: u64,
    shown: impl Fn(u64) -> String,
) {
    for &(tool, buffers, options) in tools {
        if 2 * buffers > free {
            println!("not tested here, only {free} pages: {tool} {options:?} {option:?}");
            continue;
        }
        let args = format!("-n 3 -s {sizes} {options} {option}");
        let line = format!("\nHugepages        : {}\n", shown(buffers));
        for text in Fabric::new().pair(tool, &args) {
            assert!(text.contains(&line), "{tool}: {text}");
        }
    }
}

#[test]
fn measures_with_system_pages() {
    measure_with_pages(&TOOLS, "", "16384:65536", u64::MAX, |_| "Disabled".into());
}

#[test]
fn measures_with_pages_of_2m() {
    if let Some(made) = HugePages::make(2048, 4, 4) {
        measure_with_pages(&TOOLS, "--use-hp=2M", "16384:65536", made.free, |pages| {
            format!("Enabled (2M - {pages} pages)")
        });
    }
}

/// With one tool, and one buffer on each side: clearing and filling a page takes a second.
#[test]
fn measures_with_pages_of_1g() {
    if let Some(made) = HugePages::make(1_048_576, 2, 2) {
        measure_with_pages(&TOOLS[..1], "--use-hp=1G", "65536", made.free, |pages| {
            format!("Enabled (1G - {pages} pages)")
        });
    }
}

/// Counts the mappings of a process with pages of 2M.
fn huge_mappings(process: u32) -> usize {
    let smaps = std::fs::read_to_string(format!("/proc/{process}/smaps")).expect("a process");
    smaps
        .lines()
        .filter_map(|line| line.strip_prefix("KernelPageSize:"))
        .filter(|size| size.trim() == "2048 kB")
        .count()
}

#[test]
fn maps_its_buffers_in_huge_pages() {
    let Some(_pages) = HugePages::make(2048, 4, 4) else {
        return;
    };
    let fabric = Fabric::new();
    for (tool, buffers) in [("write-lat", 1), ("read-lat", 1), ("send-lat", 2)] {
        let server = fabric.server(tool, "-d soft0");
        let mut client = fabric.client_command(tool, &server, "-d soft1 -D 1 --use-hp=2M");
        let mut client = client.spawn().expect("cxidiag starts");
        // Both sides have allocated their buffers when the client prints the header of its results.
        let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        while !line().contains("StdDev[us]") {}
        for process in [client.id(), server.id()] {
            // The kernel may merge neighbours.
            let huge = huge_mappings(process);
            assert!((1..=buffers).contains(&huge), "{tool}: {huge} of {buffers}");
        }
        assert!(client.wait().success());
        assert_success(&server.finish());
    }
}

/// tools.md 3.6
#[test]
fn rounds_a_buffer_up_to_whole_pages() {
    let Some(_pages) = HugePages::make(2048, 6, 6) else {
        return;
    };
    let fabric = Fabric::new();
    for (options, pages, used) in [
        ("-s 65536 -l 33", 2, 4 << 20),
        ("-s 65536 -l 32", 1, 2 << 20),
        ("-s 65536 -l 256 --buf-sz=5000000", 3, 6 << 20),
        ("-s 1 -l 1", 1, 2 << 20),
    ] {
        let text = fabric.loopback("send-bw", &format!("-n 2 {options} --use-hp=2M"));
        assert!(text.contains(&format!(" ({used} used)\n")), "{text}");
        let line = format!("\nHugepages        : Enabled (2M - {pages} pages)\n");
        assert!(text.contains(&line), "{text}");
    }
}

/// The name of the page size may be in lower case.
#[test]
fn takes_the_page_size_of_the_client() {
    let Some(_pages) = HugePages::make(2048, 2, 2) else {
        return;
    };
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0 --use-hp=1G");
    assert_success(&fabric.client("write-lat", &server, "-d soft1 --use-hp=2m"));
    let server = server.finish();
    assert!(stdout(&server).contains("Hugepages        : Enabled (2M - 1 pages)\n"));
    assert!(
        stderr(&server).contains("ignored on a server (the client's options apply): --use-hp\n")
    );
}

fn host() -> String {
    let host = rustix::system::uname();
    host.nodename().to_str().expect("text").to_owned()
}

const SETTING: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

fn too_few(needed: u64, free: u64) -> String {
    format!(
        "not enough huge pages: the buffers need {needed} of 2M, {free} are available on this machine \
         ({}; see {SETTING})",
        host()
    )
}

const HINT: &str = "hint: huge pages must be reserved beforehand: there are too few, they are in use, \
                    or the control group limits them; as root, write a larger number to the file named";

#[test]
fn refuses_too_few_pages_before_opening_a_device() {
    let fabric = Fabric::new();
    let machine = MadeUp::with_huge_pages([1, 0]);
    for (tool, sides, needed) in [
        ("write-lat", "127.0.0.1", None),
        ("write-lat", "--loopback", Some(2)),
        ("read-lat", "--loopback", Some(2)),
        ("send-lat", "127.0.0.1", Some(2)),
        ("send-lat", "--loopback", Some(4)),
        ("send-bw", "--loopback", Some(16)),
    ] {
        // A client with enough pages finds no listener on port 1.
        let command = fabric.command(&format!("{tool} {sides} -d soft0 --use-hp=2M -p 1"));
        let error = assert_status(&finish(machine.seen_by(command)), 1);
        if let Some(needed) = needed {
            let start = format!("cxidiag {tool}: error: {}\n{HINT}", too_few(needed, 1));
            assert!(error.starts_with(&start), "{error}");
            assert_eq!(error.lines().count(), 2, "{error}");
            assert!(!fabric.path().exists());
        } else {
            assert!(error.contains("connection refused"), "{error}");
        }
    }
}

#[test]
fn refuses_a_page_size_that_the_kernel_lacks() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[]);
    let command = fabric.command("write-lat --loopback -d soft0 --use-hp=1G");
    let error = assert_status(&finish(machine.seen_by(command)), 1);
    let line = format!("the kernel of {} has no huge pages of 1G\nhint: ", host());
    assert!(error.contains(&line), "{error}");
}

/// The server learns from the client how many pages it needs.
#[test]
fn t33_tells_a_client_what_its_server_lacks() {
    // The pages of the client.
    let Some(_pages) = HugePages::make(2048, 2, 2) else {
        return;
    };
    let fabric = Fabric::new();
    let poor = MadeUp::with_huge_pages([0, 0]);
    for (tool, options, needed) in
        [("write-lat", "", 1), ("send-lat", "", 2), ("send-bw", "-l 1 -b", 2)]
    {
        let command = fabric.command(&format!("{tool} -p 0 -d soft0"));
        let server = Server::start(poor.seen_by(command));
        let peer = format!("127.0.0.1:{}", server.port);
        let client = fabric.client(tool, &server, &format!("-d soft1 --use-hp=2M {options}"));
        let missing = too_few(needed, 0);
        assert_eq!(
            assert_status(&client, 1),
            format!("cxidiag {tool}: error: the peer ({peer}) cannot run: {missing}\n")
        );
        let error = assert_status(&server.finish(), 1);
        let start = format!("cxidiag {tool}: error: {missing}\n{HINT}");
        assert!(error.starts_with(&start), "{error}");
        fabric.assert_nothing_left();
    }
}

/// A legacy client whose server has too few pages sees the connection end at the ready barrier, as
/// with a legacy server.
#[test]
fn serves_a_legacy_client_with_huge_pages() {
    let Some(_pages) = HugePages::make(2048, 1, 1) else {
        return;
    };
    let fabric = Fabric::new();
    let peer = Peer { fields: "iters=3 flags=0x10", ..Peer::of("write-lat") };
    let served = fabric.replay_client("write-lat", peer);
    assert_eq!(served.received.len(), 5, "{}", stderr(&served.cxidiag));
    assert!(stdout(&served.cxidiag).contains("Enabled (2M - 1 pages)\n"));

    let poor = MadeUp::with_huge_pages([0, 0]);
    let server = Server::start(poor.seen_by(fabric.command("write-lat -p 0 -d soft0")));
    let refused = replay_client(server, peer, |_| ());
    assert_eq!(refused.received.len(), 4);
    let error = stderr(&refused.cxidiag);
    assert!(error.contains(&too_few(1, 0)), "{error}");
}

/// Reserved pages are not free, and pages of another node do not help. A server counts after it has
/// moved to its node.
#[test]
fn t33_counts_the_free_pages_of_the_node() {
    let pool = "hugepages/hugepages-2048kB";
    let node = "sys/devices/system/node/node0";
    let machine = MadeUp::new(&[
        (&format!("sys/kernel/mm/{pool}/free_hugepages"), "9\n"),
        (&format!("sys/kernel/mm/{pool}/resv_hugepages"), "8\n"),
        (&format!("{node}/cpulist"), "0\n"),
        (&format!("{node}/{pool}/free_hugepages"), "0\n"),
        ("sys/devices/system/node/node1/cpulist", "1\n"),
    ]);
    let fabric = Fabric::new();
    for (option, found) in [
        ("", "need 2 of 2M, 1 are available on this machine ("),
        ("--cpu=0", "need 2 of 2M, 0 are available on NUMA node 0 ("),
    ] {
        let args = format!("write-lat --loopback -d soft0 --use-hp=2M {option}");
        let error = assert_status(&finish(machine.seen_by(fabric.command(&args))), 1);
        assert!(error.contains(found), "{error}");
    }
    let command = fabric.command("write-lat -p 0 -d soft0 --cpu=0");
    let server = Server::start(machine.seen_by(command));
    // The client takes a real page if there is one: not a page of another test.
    let _no_others = HugePages::make(2048, 0, 0);
    let rich = MadeUp::with_huge_pages([9, 9]);
    let client = fabric.client_command("write-lat", &server, "-d soft1 --use-hp=2M");
    assert!(!finish(rich.seen_by(client)).status.success());
    let error = stderr(&server.finish());
    let found = "need 1 of 2M, 0 are available on NUMA node 0 (";
    assert!(error.contains(found), "{error}");
}

/// The pages go between the check and the allocation: here they never existed.
#[test]
fn t13_reports_pages_that_are_gone() {
    let Some(_no_others) = HugePages::make(1_048_576, 0, 0) else {
        return;
    };
    let free = "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages";
    if std::fs::read_to_string(free).expect("a number").trim() != "0" {
        println!("not tested here: there are pages of 1G");
        return;
    }
    let fabric = Fabric::new();
    let machine = MadeUp::with_huge_pages([1 << 20, 1 << 20]);
    let server = machine.seen_by(fabric.command("write-lat -p 0 -d soft0"));
    let server = Server::start(server);
    let client = fabric.client_command("write-lat", &server, "-d soft1 -n 1 --use-hp=1G");
    let client = finish(machine.seen_by(client));
    let errors = [client, server.finish()].map(|output| assert_status(&output, 1));
    // The first side to allocate reports the cause; the other gets it from its peer, or fails
    // itself.
    let cause = "cannot get a buffer of 8 bytes in huge pages of 1G: mmap: ";
    assert!(errors.iter().any(|error| error.contains(cause)), "{errors:?}");
    let explains = |error: &String| error.contains(cause) || error.contains("cannot run");
    assert!(errors.iter().all(explains), "{errors:?}");
    fabric.assert_nothing_left();
}

#[test]
fn rejects_other_page_sizes() {
    let fabric = Fabric::new();
    for size in ["4K", "2", "2MB", "", "512M"] {
        let output = fabric.run(&format!("write-lat --loopback -d soft0 --use-hp={size}"));
        assert_eq!(
            assert_status(&output, 2),
            format!(
                "cxidiag write-lat: error: invalid value '{size}' for --use-hp: expected 2M or 1G\n"
            )
        );
    }
    // atomic-lat has no data buffers.
    let output = fabric.run("atomic-lat --loopback -d soft0 --use-hp=2M");
    assert_status(&output, 2);
    assert!(!fabric.path().exists());
}
