//! `--use-hp`: buffers of huge pages, and what is said where there are too few.

mod harness;

use std::io::{BufRead, BufReader};

use harness::machine::{HugePages, MadeUp};
use harness::{Fabric, Server, assert_success, stderr, stdout};

/// Tools with data buffers of their own: what a run takes of them on each side, and options that have the
/// data move by DMA.
const TOOLS: [(&str, u64, &[&str]); 5] = [
    ("write-lat", 1, &["--no-idc"]),
    ("read-lat", 1, &[]),
    ("send-lat", 2, &["--no-idc"]),
    ("send-bw", 1, &["-l", "8"]),
    ("send-bw", 2, &["-l", "8", "-b"]),
];

/// Every tool with every kind of page; both sides hold all that arrives against what was sent (debug
/// builds). Each prints its own pages.
fn matrix(option: &[&str], sizes: &str, free: u64, shown: impl Fn(u64) -> String) {
    for (tool, buffers, options) in TOOLS {
        if 2 * buffers > free {
            println!("not tested here, only {free} pages: {tool} {options:?} {option:?}");
            continue;
        }
        let fabric = Fabric::new();
        let server = fabric.server(tool, &["-d", "soft0"]);
        let args = ["-d", "soft1", "-n", "3", "-s", sizes];
        let client = fabric.client(tool, &server, &[&args, options, option].concat());
        // A server without a client would wait for one.
        assert_success(&client);
        let server = server.finish();
        assert_success(&server);
        let line = format!("\nHugepages        : {}\n", shown(buffers));
        for output in [&client, &server] {
            assert!(stdout(output).contains(&line), "{tool}: {}", stdout(output));
        }
        fabric.assert_nothing_left();
    }
}

#[test]
fn system_pages() {
    matrix(&[], "16384:65536", u64::MAX, |_| "Disabled".into());
}

#[test]
fn pages_of_2m() {
    if let Some(made) = HugePages::make(2048, 4, 4) {
        matrix(&["--use-hp=2M"], "16384:65536", made.free, |pages| {
            format!("Enabled (2M - {pages} pages)")
        });
    }
}

#[test]
fn pages_of_1g() {
    if let Some(made) = HugePages::make(1_048_576, 4, 2) {
        matrix(&["--use-hp=1G"], "65536", made.free, |pages| {
            format!("Enabled (1G - {pages} pages)")
        });
    }
}

/// Sizes of the pages of the larger mappings of a process, in kB.
fn sizes_of_pages(process: u32) -> Vec<String> {
    let smaps = std::fs::read_to_string(format!("/proc/{process}/smaps")).expect("a process");
    let sizes = smaps
        .lines()
        .filter_map(|line| line.strip_prefix("KernelPageSize:"));
    sizes.map(|size| size.trim().to_owned()).collect()
}

/// It is not only said.
#[test]
fn the_buffers_are_made_of_huge_pages() {
    let Some(_pages) = HugePages::make(2048, 4, 4) else {
        return;
    };
    let fabric = Fabric::new();
    for (tool, buffers) in [("write-lat", 1), ("read-lat", 1), ("send-lat", 2)] {
        let server = fabric.server(tool, &["-d", "soft0"]);
        let args = ["-d", "soft1", "-D", "1", "--use-hp=2M"];
        let mut client = fabric
            .client_command(tool, &server, &args)
            .spawn()
            .expect("starts");
        // The header of the results: both sides have all that they need.
        let mut lines = BufReader::new(client.stdout.take().expect("a pipe")).lines();
        let mut line = || lines.next().expect("a line").expect("text");
        while !line().contains("StdDev[us]") {}
        for process in [client.id(), server.id()] {
            let sizes = sizes_of_pages(process);
            let huge = sizes.iter().filter(|size| *size == "2048 kB").count();
            // Neighbours may be one mapping.
            assert!((1..=buffers).contains(&huge), "{tool}: {huge} of {buffers}");
        }
        assert!(client.wait().expect("a status").success());
        assert_success(&server.finish());
    }
}

/// tools.md 3.6: a list that needs more than one page.
#[test]
fn a_buffer_is_rounded_up_to_whole_pages() {
    let Some(_pages) = HugePages::make(2048, 6, 6) else {
        return;
    };
    let fabric = Fabric::new();
    let args = ["send-bw", "--loopback", "-d", "soft0", "-n", "2"];
    for (options, pages, used) in [
        (&["-s", "65536", "-l", "33"][..], 2, 4 << 20),
        (&["-s", "65536", "-l", "32"], 1, 2 << 20),
        (
            &["-s", "65536", "-l", "256", "--buf-sz=5000000"],
            3,
            6 << 20,
        ),
        (&["-s", "1", "-l", "1"], 1, 2 << 20),
    ] {
        let output = fabric.run(&[&args, options, &["--use-hp=2M"]].concat());
        assert_success(&output);
        let text = stdout(&output);
        assert!(text.contains(&format!(" ({used} used)\n")), "{text}");
        let line = format!("\nHugepages        : Enabled (2M - {pages} pages)\n");
        assert!(text.contains(&line), "{text}");
    }
}

/// The page is named in any case, and the server's own option does not count.
#[test]
fn the_client_decides() {
    let Some(_pages) = HugePages::make(2048, 2, 2) else {
        return;
    };
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0", "--use-hp=1G"]);
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "--use-hp=2m"]);
    assert_success(&client);
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
fn too_few_pages_are_one_line_before_anything_is_opened() {
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
        // The port of nobody: who has the pages comes that far.
        let args = [tool, sides, "-d", "soft0", "--use-hp=2M", "-p", "1"];
        let output = machine.seen_by(fabric.command(&args)).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = stderr(&output);
        match needed {
            Some(needed) => {
                let line = format!("cxidiag {tool}: error: {}\n{HINT}", too_few(needed, 1));
                assert!(
                    said.starts_with(&line) && said.lines().count() == 2,
                    "{said}"
                );
                assert!(!fabric.path().exists());
            }
            None => assert!(said.contains("connection refused"), "{said}"),
        }
    }
}

#[test]
fn a_size_that_the_kernel_does_not_have() {
    let fabric = Fabric::new();
    let machine = MadeUp::new(&[]);
    let args = ["write-lat", "--loopback", "-d", "soft0", "--use-hp=1G"];
    let output = machine.seen_by(fabric.command(&args)).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    let line = format!("the kernel of {} has no huge pages of 1G\nhint: ", host());
    assert!(said.contains(&line), "{said}");
}

/// The server finds out what it lacks when the client has told what it wants, and tells why it ends.
#[test]
fn t33_a_client_is_told_what_its_server_lacks() {
    // The client's own.
    let Some(_pages) = HugePages::make(2048, 2, 2) else {
        return;
    };
    let fabric = Fabric::new();
    let poor = MadeUp::with_huge_pages([0, 0]);
    for (tool, options, needed) in [
        ("write-lat", &[][..], 1),
        ("send-lat", &[], 2),
        ("send-bw", &["-l", "1", "-b"], 2),
    ] {
        let args = ["-p", "0", "-d", "soft0"];
        let server = Server::start(poor.seen_by(fabric.command(&[&[tool], &args[..]].concat())));
        let peer = format!("127.0.0.1:{}", server.port);
        let args = [&["-d", "soft1", "--use-hp=2M"], options].concat();
        let client = fabric.client(tool, &server, &args);
        let missing = too_few(needed, 0);
        assert_eq!(
            stderr(&client),
            format!(
                "cxidiag {tool}: error: the peer ({peer}) cannot run: {missing}\n\
                 hint: see what the peer printed\n"
            )
        );
        let server = server.finish();
        let said = stderr(&server);
        assert!(
            said.starts_with(&format!("cxidiag {tool}: error: {missing}\n{HINT}")),
            "{said}"
        );
        assert_eq!(
            (client.status.code(), server.status.code()),
            (Some(1), Some(1))
        );
        fabric.assert_nothing_left();
    }
}

/// A legacy client may ask for them, too. One whose server has too few sees the connection end, as with a
/// legacy server. (The stand-in without a NIC plays the control connection alone, and leaves.)
#[test]
fn a_legacy_client_is_served_or_sees_the_end() {
    let Some(_pages) = HugePages::make(2048, 1, 1) else {
        return;
    };
    let fabric = Fabric::new();
    let rich = fabric.command(&["write-lat", "-p", "0", "-d", "soft0"]);
    let poor = MadeUp::with_huge_pages([0, 0]);
    let poor_server = fabric.command(&["write-lat", "-p", "0", "-d", "soft0"]);
    for (server, is_rich) in [(rich, true), (poor.seen_by(poor_server), false)] {
        let server = Server::start(server);
        let args = [
            "cxi_write_lat",
            "127.0.0.1",
            "-p",
            &server.port,
            "-d",
            "cxi1",
        ];
        let client = fabric.peer(&[&args[..], &["-n", "3", "--use-hp", "2M"]].concat());
        let client = { client }.output().expect("python3 starts");
        assert_eq!(client.status.success(), is_rich, "{}", stderr(&client));
        let server = server.finish();
        let said = (stderr(&client), stderr(&server));
        match is_rich {
            true => assert!(stdout(&server).contains("Enabled (2M - 1 pages)\n")),
            false => assert!(said.1.contains(&too_few(1, 0)), "{said:?}"),
        }
    }
}

/// Pages that others have reserved are not free, and those of another node are of no use.
#[test]
fn t33_pages_are_counted_where_they_are_needed() {
    let fabric = Fabric::new();
    let pool = "sys/kernel/mm/hugepages/hugepages-2048kB";
    let node = "sys/devices/system/node/node0";
    let machine = MadeUp::new(&[
        (&format!("{pool}/free_hugepages"), "9\n"),
        (&format!("{pool}/resv_hugepages"), "8\n"),
        (&format!("{node}/cpulist"), "0\n"),
        (
            &format!("{node}/hugepages/hugepages-2048kB/free_hugepages"),
            "0\n",
        ),
        ("sys/devices/system/node/node1/cpulist", "1\n"),
    ]);
    let args = ["write-lat", "--loopback", "-d", "soft0", "--use-hp=2M"];
    for (options, found) in [
        (&[][..], "need 2 of 2M, 1 are available on this machine ("),
        (
            &["--cpu=0"],
            "need 2 of 2M, 0 are available on NUMA node 0 (",
        ),
    ] {
        let command = fabric.command(&[&args, options].concat());
        let output = machine.seen_by(command).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(found), "{}", stderr(&output));
    }
}

/// A server that has its place counts the pages there.
#[test]
fn t33_a_server_counts_the_pages_of_its_node() {
    let fabric = Fabric::new();
    let pool = "hugepages/hugepages-2048kB/free_hugepages";
    let node = "sys/devices/system/node/node0";
    let machine = MadeUp::new(&[
        (&format!("sys/kernel/mm/{pool}"), "9\n"),
        (&format!("{node}/cpulist"), "0\n"),
        (&format!("{node}/{pool}"), "0\n"),
    ]);
    let args = ["write-lat", "-p", "0", "-d", "soft0", "--cpu=0"];
    let server = Server::start(machine.seen_by(fabric.command(&args)));
    // What becomes of the client depends on the pages of this machine.
    let rich = MadeUp::with_huge_pages([9, 9]);
    let client = fabric.client_command("write-lat", &server, &["-d", "soft1", "--use-hp=2M"]);
    assert!(!rich.seen_by(client).output().unwrap().status.success());
    let said = stderr(&server.finish());
    assert!(
        said.contains("need 1 of 2M, 0 are available on NUMA node 0 ("),
        "{said}"
    );
}

/// Somebody takes the pages between the look and the allocation.
#[test]
fn t13_pages_that_have_gone_are_an_error_and_no_crash() {
    let fabric = Fabric::new();
    let machine = MadeUp::with_huge_pages([1 << 20, 1 << 20]);
    let args = ["-n", "1", "--use-hp=1G"];
    let Some(_no_others) = HugePages::make(1_048_576, 0, 0) else {
        return;
    };
    let free = "/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages";
    if std::fs::read_to_string(free).expect("a number").trim() != "0" {
        println!("not tested here: there are pages of 1G");
        return;
    }
    let server = machine.seen_by(fabric.command(&["write-lat", "-p", "0", "-d", "soft0"]));
    let server = Server::start(server);
    let client = [&["-d", "soft1"], &args[..]].concat();
    let client = machine.seen_by(fabric.client_command("write-lat", &server, &client));
    let client = { client }.output().expect("cxidiag starts");
    let what = "cannot get a buffer of 8 bytes in huge pages of 1G: mmap: ";
    let explained = |said: &String| said.contains(what) || said.contains("cannot run");
    assert!(explained(&stderr(&client)), "{}", stderr(&client));
    let server = server.finish();
    let said = [stderr(&client), stderr(&server)];
    assert_eq!(
        (client.status.code(), server.status.code()),
        (Some(1), Some(1)),
        "{said:?}"
    );
    // Whoever comes first says why; the other was told, or finds out by itself.
    assert!(said.iter().any(|said| said.contains(what)), "{said:?}");
    assert!(said.iter().all(explained), "{said:?}");
    fabric.assert_nothing_left();
}

#[test]
fn other_sizes_are_usage_errors() {
    let fabric = Fabric::new();
    for wrong in ["4K", "2", "2MB", "", "512M"] {
        let option = format!("--use-hp={wrong}");
        let output = fabric.run(&["write-lat", "--loopback", "-d", "soft0", &option]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            stderr(&output),
            format!(
                "cxidiag write-lat: error: invalid value '{wrong}' for --use-hp: expected 2M or 1G\n"
            )
        );
        assert!(!fabric.path().exists());
    }
    // Atomic operations have no buffers to speak of.
    let output = fabric.run(&["atomic-lat", "--loopback", "-d", "soft0", "--use-hp=2M"]);
    assert_eq!(output.status.code(), Some(2));
}
