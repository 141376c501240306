//! Whole runs between cxidiag and legacy tools: `tests/legacy/peer.py` stands in for them, on the
//! software NIC as a library.

mod harness;

use cxidiag::run_options::Side;
use harness::legacy::{Run, all};
use harness::{Fabric, assert_status, stdout};

/// Options of each tool that change what a NIC does, with the fields of the option block. A short gap:
/// an iteration takes long where two CPUs are shared by three programs.
const RUNS: [(&str, &str, &str); 27] = [
    ("write-lat", "-n 3", "iters=3"),
    (
        "write-lat",
        "-n 2 -s 1:512 --warmup 0",
        "iters=2 warmup=0 min=1 max=512",
    ),
    (
        "write-lat",
        "-n 2 -s 256:512 --no-ll",
        "iters=2 min=256 max=512 use=0x02",
    ),
    (
        "write-lat",
        "-n 3 -s 100 --no-idc --unrestricted",
        "iters=3 min=100 max=100 use=0x44",
    ),
    (
        "write-lat",
        "-n 3 -s 192 --unrestricted",
        "iters=3 min=192 max=192 use=0x46",
    ),
    (
        "write-lat",
        "-n 3 -s 5000 --report-all",
        "iters=3 flags=0x02 min=5000 max=5000",
    ),
    ("read-lat", "-n 3", "iters=3"),
    (
        "read-lat",
        "-n 2 -s 2048:8192 --no-ll --unrestricted",
        "iters=2 min=2048 max=8192 use=0x40",
    ),
    (
        "read-lat",
        "-D 1 -s 1 --warmup 3",
        "duration=1 warmup=3 min=1 max=1",
    ),
    ("atomic-lat", "-n 3", "iters=3"),
    ("atomic-lat", "-n 3 --no-idc", "iters=3 use=0x04"),
    (
        "atomic-lat",
        "-n 3 --fetching -A swap -T int32 --report-all",
        "iters=3 flags=0x02 use=0x16 op=10 type=4",
    ),
    (
        "atomic-lat",
        "-n 3 --matching --fetching -A cswap -C ne -T double_complex",
        "iters=3 use=0x36 op=11 cswap=1 type=11",
    ),
    (
        "atomic-lat",
        "-n 3 --unrestricted -A bxor -T uint8",
        "iters=3 use=0x46 op=9 type=1",
    ),
    (
        "send-lat",
        "-n 2 -s 128:512 --no-ll",
        "iters=2 min=128 max=512 use=0x02",
    ),
    (
        "send-lat",
        "-n 2 -s 8:16 --no-idc --warmup 1",
        "iters=2 warmup=1 max=16 use=0x04",
    ),
    (
        "send-lat",
        "-n 2 -s 64:128 -R",
        "iters=2 min=64 max=128 use=0x0c",
    ),
    (
        "send-lat",
        "-D 1 -s 8:16 --latency-gap 100",
        "duration=1 gap=100 max=16",
    ),
    (
        "send-lat",
        "-D 1 -s 8:16 -R --latency-gap 100",
        "duration=1 gap=100 max=16 use=0x0c",
    ),
    (
        "send-bw",
        "-n 3 -l 8 -s 64 --no-idc",
        "iters=3 list=8 min=64 max=64 use=0",
    ),
    (
        "send-bw",
        "-n 3 -l 4 -s 1000 --buf-align 4096 --buf-sz 8192",
        "iters=3 list=4 min=1000 max=1000 max_buf=8192 align=4096",
    ),
    (
        "send-bw",
        "-n 3 -l 4 -s 128:512 -b",
        "iters=3 list=4 flags=0x01 min=128 max=512",
    ),
    (
        "send-bw",
        "-n 3 -l 4 -s 128:512 -R",
        "iters=3 list=4 min=128 max=512 use=0x08",
    ),
    (
        "send-bw",
        "-n 3 -l 4 -s 128:512 -R -b",
        "iters=3 list=4 flags=0x01 min=128 max=512 use=0x08",
    ),
    (
        "send-bw",
        "-D 1 -l 4 -s 128",
        "duration=1 list=4 min=128 max=128",
    ),
    (
        "send-bw",
        "-D 1 -l 4 -s 128 -b",
        "duration=1 list=4 flags=0x01 min=128 max=128",
    ),
    (
        "send-bw",
        "-D 1 -l 4 -s 128:256 -R -b",
        "duration=1 list=4 flags=0x01 min=128 max=256 use=0x08",
    ),
];

#[track_caller]
fn assert_both_succeed(ended: &Run) {
    for output in [&ended.cxidiag, &ended.peer] {
        harness::assert_success(output);
    }
}

/// Returns the number of sizes of a run.
fn sizes(tool: &str, options: &str) -> usize {
    let range = options.split_once("-s ").filter(|_| tool != "atomic-lat");
    let range = range.map_or("", |(_, range)| range.split(' ').next().unwrap_or_default());
    let Some((min, max)) = range.split_once(':') else {
        return 1;
    };
    let power = |size: &str| size.parse::<u64>().expect("a number").ilog2();
    (power(max) - power(min) + 1) as usize
}

/// Runs all options of a tool in both roles, side by side: most of the time is spent waiting.
fn both_roles(tool: &str) {
    all(&[Side::Client, Side::Server], |fabric, &side| {
        for (_, options, fields) in RUNS.iter().filter(|(name, ..)| *name == tool) {
            let ended = fabric.against_legacy(side, tool, (options, fields), None);
            assert_both_succeed(&ended);
            if side == Side::Client {
                assert_table(tool, options, &stdout(&ended.cxidiag));
            }
        }
    });
}

/// Fails unless the table has a row for each size and each sample.
#[track_caller]
fn assert_table(tool: &str, options: &str, table: &str) {
    let is_row = |line: &&str| line.starts_with("   ") && line.contains('.');
    let samples = if options.contains("--report-all") {
        3
    } else {
        0
    };
    let rows = table.lines().filter(is_row).count();
    assert_eq!(rows, sizes(tool, options) + samples, "{options}: {table}");
}

#[test]
fn write_lat_measures_with_legacy_tools() {
    both_roles("write-lat");
}

#[test]
fn read_lat_measures_with_legacy_tools() {
    both_roles("read-lat");
}

#[test]
fn atomic_lat_measures_with_legacy_tools() {
    both_roles("atomic-lat");
}

#[test]
fn send_lat_measures_with_legacy_tools() {
    both_roles("send-lat");
}

#[test]
fn send_bw_measures_with_legacy_tools() {
    both_roles("send-bw");
}

/// After the handshake: the ready barrier, and for each size the barriers of its iterations and around
/// it, and the results of bandwidth tools (wire.md 6).
#[test]
fn sends_each_barrier_and_result() {
    let latency = "iters=4 warmup=3 max=16";
    let bandwidth = "iters=2 list=4 min=64 max=128";
    for (tool, options, fields, expected) in [
        (
            "write-lat",
            "-n 4 --warmup 3 -s 8:16",
            latency,
            vec![0; 1 + 2],
        ),
        (
            "send-lat",
            "-n 4 --warmup 3 -s 8:16",
            latency,
            vec![0; 1 + 2 * (4 + 3 + 1)],
        ),
        (
            "send-bw",
            "-n 2 -l 4 -s 64:128",
            bandwidth,
            vec![0, 0, 0, 16, 0, 0, 16],
        ),
    ] {
        let fabric = Fabric::new();
        for ended in [
            fabric.against_server(tool, options, None),
            fabric.against_client(tool, fields, None),
        ] {
            assert_both_succeed(&ended);
            let lengths: Vec<usize> = ended.received.iter().map(Vec::len).collect();
            assert_eq!(lengths[4..], expected, "{tool}");
        }
    }
}

/// The client may end a size when its samples are enough: of a one-sided run, in which the server takes
/// no part, and of a round trip, in which either side may send the last message.
#[test]
fn until_ends_sizes_with_legacy_servers() {
    let fabric = Fabric::new();
    let options = "--until=100000% -D 20 --latency-gap 100";
    for tool in ["write-lat", "read-lat", "atomic-lat", "send-lat"] {
        assert_both_succeed(&fabric.against_server(tool, options, None));
    }
    fabric.assert_nothing_left();
}

/// Results of bandwidth runs have the count of sent messages, which is 0 for a side that only answers.
#[test]
fn sends_its_count_of_messages() {
    let fabric = Fabric::new();
    for (option, flags, server_count) in [("", 0, 0), ("-b", 1, 12)] {
        let as_client =
            fabric.against_server("send-bw", &format!("-n 3 -l 4 -s 64 {option}"), None);
        let fields = format!("iters=3 list=4 min=64 max=64 flags={flags}");
        let as_server = fabric.against_client("send-bw", &fields, None);
        for (ended, count) in [(as_client, 12), (as_server, server_count)] {
            assert_both_succeed(&ended);
            let result: [u8; 16] = ended.received[7][..].try_into().expect("a result");
            let [elapsed, sent] = [0, 8]
                .map(|at| u64::from_le_bytes(result[at..at + 8].try_into().expect("8 bytes")));
            assert_ne!(elapsed, 0);
            assert_eq!(sent, count);
        }
    }
}

/// The messages of a run after the handshake and the ready barrier.
const FIRST: usize = 5;

#[test]
fn fails_if_the_peer_deviates_in_a_run() {
    const GONE: &str = "closed the connection";
    let cases = [
        // Post-run of one-sided tools, Sync of send-lat.
        ("write-lat", FIRST, "close", GONE),
        ("write-lat", FIRST, "reset", GONE),
        ("write-lat", FIRST, "cut", GONE),
        (
            "write-lat",
            FIRST,
            "huge",
            "announced 4294967294 bytes at the Post-run barrier",
        ),
        (
            "read-lat",
            FIRST,
            "longer",
            "announced 1 bytes at the Post-run barrier",
        ),
        ("atomic-lat", FIRST, "close", GONE),
        ("send-lat", FIRST, "close", GONE),
        ("send-lat", FIRST + 2, "reset", GONE),
        (
            "send-lat",
            FIRST + 1,
            "longer",
            "announced 1 bytes at the Sync barrier",
        ),
        // The tools between SHS 12.0 and 13.0 send a byte in each Sync, under the same version.
        (
            "send-lat",
            FIRST,
            "longer",
            "hint: the peer's tool is an unreleased version",
        ),
        ("send-lat", FIRST + 4, "close", GONE),
        // Pre-run, Post-run and results.
        ("send-bw", FIRST, "close", GONE),
        ("send-bw", FIRST + 1, "cut", GONE),
        ("send-bw", FIRST + 2, "close", GONE),
        (
            "send-bw",
            FIRST + 2,
            "empty",
            "sent a result of 0 bytes (expected 16)",
        ),
        (
            "send-bw",
            FIRST + 2,
            "shorter",
            "sent a result of 15 bytes (expected 16)",
        ),
        (
            "send-bw",
            FIRST + 2,
            "longer",
            "announced 17 bytes during the exchange of results",
        ),
        (
            "send-bw",
            FIRST + 2,
            "silence",
            "did not answer during the exchange of results within 5 s",
        ),
        (
            "send-bw",
            FIRST + 2,
            "stall",
            "did not answer during the exchange of results within 5 s",
        ),
    ];
    let mut cases: Vec<_> = [Side::Client, Side::Server]
        .into_iter()
        .flat_map(|side| cases.map(|case| (side, case)))
        .collect();
    let waits = |what: &str| what == "silence" || what == "stall";
    cases.sort_by_key(|(_, (_, _, what, _))| !waits(what));
    all(&cases, |fabric, &(side, (tool, at, what, text))| {
        let options = if tool == "send-bw" {
            ("-n 2 -l 4 -s 64", "iters=2 list=4 min=64 max=64")
        } else {
            ("-n 4 --warmup 0", "iters=4 warmup=0")
        };
        let ended = fabric.against_legacy(side, tool, options, Some((at, what)));
        let error = assert_status(&ended.cxidiag, 1);
        assert!(error.contains(text), "{side:?} {tool} {at}={what}: {error}");
        assert!(
            error.lines().count() <= 2,
            "{side:?} {tool} {at}={what}: {error}"
        );
    });
}
