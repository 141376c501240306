//! Whole runs between cxidiag and legacy tools: `tests/legacy/` stands in for them, on the
//! software NIC as a library.

mod harness;

use harness::legacy::{Ended, all, course, library, payloads};
use harness::{Fabric, stderr, stdout};

/// Options of each tool, in every way that changes what goes over the wire. A short pause: one
/// iteration takes a while where two processors are shared by three programs.
const RUNS: &[(&str, &str)] = &[
    ("write-lat", "-n 3"),
    ("write-lat", "-n 2 -s 1:512 --warmup 0"),
    ("write-lat", "-n 2 -s 256:512 --no-ll"),
    ("write-lat", "-n 3 -s 100 --no-idc --unrestricted"),
    ("write-lat", "-D 1 -s 192 --unrestricted --latency-gap 100"),
    ("write-lat", "-n 3 -s 5000 --report-all"),
    ("read-lat", "-n 3"),
    ("read-lat", "-n 2 -s 2048:8192 --no-ll --unrestricted"),
    ("read-lat", "-D 1 -s 1:2 --warmup 3"),
    ("atomic-lat", "-n 3"),
    ("atomic-lat", "-n 3 --no-idc"),
    (
        "atomic-lat",
        "-n 3 --fetching -A swap -T int32 --report-all",
    ),
    (
        "atomic-lat",
        "-n 3 --matching --fetching -A cswap -C ne -T double_complex",
    ),
    ("atomic-lat", "-D 1 --unrestricted -A bxor -T uint8"),
    ("send-lat", "-n 3"),
    ("send-lat", "-n 2 -s 128:512 --no-ll"),
    ("send-lat", "-n 2 -s 8:16 --no-idc --warmup 1"),
    ("send-lat", "-n 2 -s 64:128 -R"),
    ("send-lat", "-D 1 -s 8:16 --latency-gap 100"),
    ("send-lat", "-D 1 -s 8:16 --no-idc --latency-gap 100"),
    ("send-lat", "-D 1 -s 8:16 -R --latency-gap 100"),
    ("send-bw", "-n 3 -l 4 -s 64:256"),
    ("send-bw", "-n 3 -l 8 -s 64 --no-idc"),
    (
        "send-bw",
        "-n 3 -l 4 -s 1000 --buf-align 4096 --buf-sz 8192",
    ),
    ("send-bw", "-n 3 -l 4 -s 128:512 -b"),
    ("send-bw", "-n 3 -l 4 -s 128:512 -R"),
    ("send-bw", "-n 3 -l 4 -s 128:512 -R -b"),
    ("send-bw", "-D 1 -l 4 -s 128:256"),
    ("send-bw", "-D 1 -l 4 -s 128:256 -b"),
    ("send-bw", "-D 1 -l 4 -s 128:256 -R"),
    ("send-bw", "-D 1 -l 4 -s 128:256 -R -b"),
];

/// Runs of one tool.
fn runs(tool: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let of_tool = RUNS.iter().filter(move |(name, _)| *name == tool);
    of_tool.map(|(_, options)| options.split(' ').collect())
}

#[track_caller]
fn assert_both_succeed(tool: &str, options: &[&str], ended: &Ended) {
    let said = [stderr(&ended.cxidiag), stderr(&ended.peer)].join("\n");
    let codes = [ended.cxidiag.status.code(), ended.peer.status.code()];
    let shown = stdout(&ended.peer);
    let last = shown.lines().rev().take(4).collect::<Vec<_>>();
    assert_eq!(
        codes,
        [Some(0), Some(0)],
        "{tool} {options:?}: {said}; the peer showed {} lines, the last {last:?}",
        shown.lines().count()
    );
    let said: Vec<&str> = said
        .lines()
        .filter(|line| !line.is_empty() && !line.contains(": no answer to a "))
        .collect();
    assert!(said.is_empty(), "{tool} {options:?}: {said:?}");
}

/// The value behind an option.
fn value<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    let at = options.iter().position(|option| *option == name)?;
    Some(options[at + 1])
}

/// The sizes of a run.
fn sizes(tool: &str, options: &[&str]) -> usize {
    let range = value(options, "-s").filter(|_| tool != "atomic-lat");
    let Some((min, max)) = range.and_then(|range| range.split_once(':')) else {
        return 1;
    };
    let power = |size: &str| size.parse::<u64>().expect("a number").ilog2();
    (power(max) - power(min) + 1) as usize
}

/// The exchanges of a whole run, in order; several barriers of one name in a row stand as one.
fn expected_course(tool: &str, options: &[&str], ready: &str) -> Vec<String> {
    let mut course = vec!["name", "version", "options", "address", ready];
    let cleans_up = ["-D", "-R", "-b"]
        .iter()
        .all(|option| options.contains(option));
    for _ in 0..sizes(tool, options) {
        course.extend(match tool {
            "send-lat" => &["Sync", "Post-run"][..],
            "send-bw" => &["Pre-run", "Post-run", "results"],
            _ => &["Post-run"],
        });
        if cleans_up && sizes(tool, options) > 1 {
            course.push("RDZV cleanup");
        }
    }
    course.dedup();
    course.into_iter().map(str::to_owned).collect()
}

/// Runs all of a tool in both roles.
fn both_roles(tool: &str) {
    let fabric = Fabric::new();
    for options in runs(tool) {
        let ended = fabric.against_server(tool, &options, &["--nic", library()]);
        assert_both_succeed(tool, &options, &ended);
        assert_eq!(
            course(&ended.peer),
            expected_course(tool, &options, "Client")
        );
        // A row a size, behind the line of titles.
        let table = stdout(&ended.cxidiag);
        let rows = table
            .lines()
            .filter(|line| line.starts_with("   ") && line.contains('.'));
        let samples = if options.contains(&"--report-all") {
            3
        } else {
            0
        };
        assert_eq!(
            rows.count(),
            sizes(tool, &options) + samples,
            "{options:?}: {table}"
        );

        let with_nic = [&options[..], &["--nic", library()]].concat();
        let ended = fabric.against_client(tool, &with_nic);
        assert_both_succeed(tool, &options, &ended);
        assert_eq!(
            course(&ended.peer),
            expected_course(tool, &options, "Server")
        );
        fabric.assert_nothing_left();
    }
}

#[test]
fn write_lat() {
    both_roles("write-lat");
}

#[test]
fn read_lat() {
    both_roles("read-lat");
}

#[test]
fn atomic_lat() {
    both_roles("atomic-lat");
}

#[test]
fn send_lat() {
    both_roles("send-lat");
}

#[test]
fn send_bw() {
    both_roles("send-bw");
}

/// Barriers: one for each iteration, warm-up and all, and those behind the sizes.
#[test]
fn every_barrier_is_in_its_place() {
    let fabric = Fabric::new();
    let options = ["-n", "4", "--warmup", "3", "-s", "8:16"];
    let ended = fabric.against_server("send-lat", &options, &["--nic", library()]);
    assert_both_succeed("send-lat", &options, &ended);
    let barriers = |label| payloads(&ended.peer, label, '<');
    assert_eq!(barriers("Sync"), vec!["-"; 2 * (4 + 3)]);
    assert_eq!(barriers("Post-run"), ["-"; 2]);
}

/// Results of bandwidth runs: what a side sent, and for a side that only answers a count of 0.
#[test]
fn results_of_send_bw() {
    let fabric = Fabric::new();
    for (both, server_count) in [(&[][..], 0), (&["-b"][..], 12)] {
        let options = [&["-n", "3", "-l", "4", "-s", "64"], both].concat();
        let count = |peer: &std::process::Output| {
            let result = payloads(peer, "results", '<').concat();
            assert_ne!(result[..16], "0".repeat(16), "it took time");
            u64::from_str_radix(&result[16..], 16)
                .expect("hexadecimal")
                .swap_bytes()
        };
        let ended = fabric.against_server("send-bw", &options, &["--nic", library()]);
        assert_both_succeed("send-bw", &options, &ended);
        assert_eq!(count(&ended.peer), 12);
        let ended =
            fabric.against_client("send-bw", &[&options[..], &["--nic", library()]].concat());
        assert_both_succeed("send-bw", &options, &ended);
        assert_eq!(count(&ended.peer), server_count);
    }
}

/// The tools between SHS 12.0 and 13.0 sent a byte in each Sync, under the same version.
#[test]
fn send_lat_of_an_unreleased_state() {
    let fabric = Fabric::new();
    let old = ["--nic", library(), "--sync-byte"];
    for ended in [
        fabric.against_server("send-lat", &[], &old),
        fabric.against_client("send-lat", &old),
    ] {
        let said = stderr(&ended.cxidiag);
        assert_eq!(ended.cxidiag.status.code(), Some(1), "{said}");
        assert!(
            said.contains("announced 1 bytes at the Sync barrier"),
            "{said}"
        );
        assert!(
            said.contains("hint: the peer's tool is an unreleased version"),
            "{said}"
        );
    }
}

/// What cxidiag says to a peer that goes wrong in the middle of a run.
#[test]
fn peers_that_go_wrong_in_a_run() {
    const GONE: &str = "closed the connection";
    let cases = [
        ("write-lat", "Post-run=close", GONE),
        ("write-lat", "Post-run=reset", GONE),
        ("write-lat", "Post-run=cut", GONE),
        (
            "write-lat",
            "Post-run=huge",
            "announced 4294967294 bytes at the Post-run barrier",
        ),
        (
            "read-lat",
            "Post-run=longer",
            "announced 1 bytes at the Post-run barrier",
        ),
        ("atomic-lat", "Post-run=close", GONE),
        ("send-lat", "Sync=close", GONE),
        ("send-lat", "Sync#3=reset", GONE),
        (
            "send-lat",
            "Sync#2=longer",
            "announced 1 bytes at the Sync barrier",
        ),
        ("send-lat", "Post-run=close", GONE),
        ("send-bw", "Pre-run=close", GONE),
        ("send-bw", "Post-run=cut", GONE),
        ("send-bw", "results=close", GONE),
        (
            "send-bw",
            "results=empty",
            "sent a result of 0 bytes (expected 16)",
        ),
        (
            "send-bw",
            "results=shorter",
            "sent a result of 15 bytes (expected 16)",
        ),
        (
            "send-bw",
            "results=longer",
            "announced 17 bytes during the exchange of results",
        ),
        (
            "send-bw",
            "results=silence",
            "did not answer during the exchange of results within 5 s",
        ),
        (
            "send-bw",
            "results=stall",
            "did not answer during the exchange of results within 5 s",
        ),
    ];
    all(&cases, |fabric, &(tool, at, text)| {
        let options: &[&str] = match tool {
            "send-bw" => &["-n", "2", "-l", "4", "-s", "64"],
            _ => &["-n", "4", "--warmup", "0"],
        };
        let deviating = ["--nic", library(), "--at", at];
        for ended in [
            fabric.against_server(tool, options, &deviating),
            fabric.against_client(tool, &[options, &deviating].concat()),
        ] {
            let said = stderr(&ended.cxidiag);
            assert_eq!(ended.cxidiag.status.code(), Some(1), "{tool} {at}: {said}");
            assert!(
                said.contains(text),
                "{tool} {at}: {text:?} is not in {said:?}"
            );
            assert!(said.lines().count() <= 2, "{tool} {at}: {said}");
        }
    });
}
