//! Whole runs between cxidiag and legacy tools: `tests/legacy/peer.py` stands in for them, on the
//! software NIC as a library.

use std::process::Output;

use crate::harness::legacy::{Run, all};
use crate::harness::{self, Fabric, assert_status, stdout};
use plan::run_options::Side;

/// Tool | options that change what a NIC does | these options as fields of the option block. A
/// short gap: an iteration takes long where two CPUs are shared by three programs.
const RUNS: &str = "
write-lat  | -n 3 | iters=3
write-lat  | -n 2 -s 1:512 --warmup 0 | iters=2 warmup=0 min=1 max=512
write-lat  | -n 2 -s 256:512 --no-ll | iters=2 min=256 max=512 use=0x02
write-lat  | -n 3 -s 100 --no-idc --unrestricted | iters=3 min=100 max=100 use=0x44
write-lat  | -n 3 -s 192 --unrestricted | iters=3 min=192 max=192 use=0x46
write-lat  | -n 3 -s 5000 --report-all | iters=3 flags=0x02 min=5000 max=5000
read-lat   | -n 3 | iters=3
read-lat   | -n 2 -s 2048:8192 --no-ll --unrestricted | iters=2 min=2048 max=8192 use=0x40
read-lat   | -D 1 -s 1 --warmup 3 | duration=1 warmup=3 min=1 max=1
atomic-lat | -n 3 | iters=3
atomic-lat | -n 3 --no-idc | iters=3 use=0x04
atomic-lat | -n 3 --fetching -A swap -T int32 --report-all | iters=3 flags=0x02 use=0x16 op=10 type=4
atomic-lat | -n 3 --matching --fetching -A cswap -C ne -T double_complex | iters=3 use=0x36 op=11 cswap=1 type=11
atomic-lat | -n 3 --unrestricted -A bxor -T uint8 | iters=3 use=0x46 op=9 type=1
send-lat   | -n 2 -s 128:512 --no-ll | iters=2 min=128 max=512 use=0x02
send-lat   | -n 2 -s 8:16 --no-idc --warmup 1 | iters=2 warmup=1 max=16 use=0x04
send-lat   | -n 2 -s 64:128 -R | iters=2 min=64 max=128 use=0x0c
send-lat   | -D 1 -s 8:16 --latency-gap 100 | duration=1 gap=100 max=16
send-lat   | -D 1 -s 8:16 -R --latency-gap 100 | duration=1 gap=100 max=16 use=0x0c
write-bw   | -n 2 -l 4 -s 1:4096 | iters=2 list=4 min=1 max=4096
write-bw   | -n 2 -l 8 -s 8:128 -b | iters=2 list=8 flags=0x01 min=8 max=128
write-bw   | -n 2 -l 4 -s 128:256 --unrestricted --no-hrp --no-idc | iters=2 list=4 min=128 max=256 use=0x40
write-bw   | -n 2 -l 4 -s 192 --unrestricted | iters=2 list=4 min=192 max=192 use=0x43
write-bw   | -D 1 -l 4 -s 3000 -b --buf-align 4096 --buf-sz 8192 | duration=1 list=4 flags=0x01 min=3000 max=3000 max_buf=8192 align=4096
read-bw    | -n 2 -l 4 -s 1:4096 | iters=2 list=4 min=1 max=4096
read-bw    | -n 2 -l 8 -s 2048:8192 -b --unrestricted | iters=2 list=8 flags=0x01 min=2048 max=8192 use=0x40
read-bw    | -D 1 -l 4 -s 64 | duration=1 list=4 min=64 max=64
atomic-bw  | -n 3 -l 4 | iters=3 list=4
atomic-bw  | -n 3 -l 4 -b --no-hrp --no-idc -A band -T uint16 | iters=3 list=4 flags=0x01 use=0 op=7 type=3
atomic-bw  | -n 3 -l 4 -b --fetching -A cswap -C ne -T double_complex | iters=3 list=4 flags=0x01 use=0x13 op=11 cswap=1 type=11
atomic-bw  | -n 3 -l 4 --matching --fetching -A axor -T int32 | iters=3 list=4 use=0x33 op=12 type=4
atomic-bw  | -n 3 -l 4 --unrestricted -A min -T float | iters=3 list=4 use=0x43 type=8 op=0
send-bw    | -n 3 -l 8 -s 64 --no-idc | iters=3 list=8 min=64 max=64 use=0
send-bw    | -n 3 -l 4 -s 1000 --buf-align 4096 --buf-sz 8192 | iters=3 list=4 min=1000 max=1000 max_buf=8192 align=4096
send-bw    | -n 3 -l 4 -s 128:512 -b | iters=3 list=4 flags=0x01 min=128 max=512
send-bw    | -n 3 -l 4 -s 128:512 -R | iters=3 list=4 min=128 max=512 use=0x08
send-bw    | -n 3 -l 4 -s 128:512 -R -b | iters=3 list=4 flags=0x01 min=128 max=512 use=0x08
send-bw    | -D 1 -l 4 -s 128 | duration=1 list=4 min=128 max=128
send-bw    | -D 1 -l 4 -s 128 -b | duration=1 list=4 flags=0x01 min=128 max=128
send-bw    | -D 1 -l 4 -s 128:256 -R -b | duration=1 list=4 flags=0x01 min=128 max=256 use=0x08
";

/// The options and the fields of each run of a tool.
fn runs(tool: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    RUNS.lines().filter_map(move |line| {
        let mut columns = line.split('|').map(str::trim);
        let is_tool = columns.next() == Some(tool);
        is_tool.then(|| (columns.next().expect("options"), columns.next().expect("fields")))
    })
}

#[track_caller]
fn assert_both_succeed(ended: &Run) {
    for output in [&ended.cxidiag, &ended.peer] {
        harness::assert_success(output);
    }
}

/// The number of sizes of a run.
fn sizes(options: &str) -> usize {
    let range = options.split_once("-s ");
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
        for (options, fields) in runs(tool) {
            let ended = fabric.against_legacy(side, tool, (options, fields), None);
            assert_both_succeed(&ended);
            if side == Side::Client {
                let samples = if options.contains("--report-all") { 3 } else { 0 };
                let rows = rows(&ended.cxidiag);
                assert_eq!(rows.len(), sizes(options) + samples, "{options}: {rows:?}");
            }
            if tool.ends_with("-bw") {
                assert_results_agree(side, options, &ended);
            }
        }
    });
}

/// The rows of the table that a tool printed.
fn rows(output: &Output) -> Vec<Vec<String>> {
    let text = stdout(output);
    let rows = text.lines().filter(|line| line.starts_with("   ") && line.contains('.'));
    rows.map(|row| row.split_whitespace().map(str::to_owned).collect()).collect()
}

/// Fails unless both sides of a bandwidth run print the same rates for each size, and each its own
/// operations: `-` on the server of one direction, and in a run of iterations as many as asked for.
#[track_caller]
fn assert_results_agree(side: Side, options: &str, ended: &Run) {
    let (client, server) = match side {
        Side::Client => (&ended.cxidiag, &ended.peer),
        Side::Server => (&ended.peer, &ended.cxidiag),
    };
    let (client, server) = (rows(client), rows(server));
    assert_eq!(client.len(), server.len(), "{options}");
    let is_both = options.contains(" -b");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let value = |name: &str| {
        let mut words = options.split(' ').skip_while(|word| *word != name);
        words.nth(1).map(|value| value.parse::<u32>().expect("a number"))
    };
    let asked = value("-n").zip(value("-l")).map(|(iters, list)| (iters * list).to_string());
    for (client, server) in client.iter().zip(&server) {
        let context = format!("{options}: {client:?} {server:?}");
        let ([size, operations, rates @ ..], [other_size, other_operations, other_rates @ ..]) =
            (&client[..], &server[..])
        else {
            panic!("{context}");
        };
        assert_eq!(size, other_size, "{context}");
        if let Some(asked) = &asked {
            assert_eq!(operations, asked, "{context}");
        }
        assert_eq!(other_operations == "-", !is_both, "{context}");
        // Both sides print the same digits, except for a tie in the last one.
        assert_eq!(rates.len(), 2, "{context}");
        for ((rate, other), digit) in rates.iter().zip(other_rates).zip([0.01, 0.000_001]) {
            assert!((number(rate) - number(other)).abs() < 1.5 * digit, "{context}");
        }
    }
}

#[test]
fn write_bw_measures_with_legacy_tools() {
    both_roles("write-bw");
}

#[test]
fn read_bw_measures_with_legacy_tools() {
    both_roles("read-bw");
}

#[test]
fn atomic_bw_measures_with_legacy_tools() {
    both_roles("atomic-bw");
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

/// After the handshake: the ready barrier, and for each size the barriers of its iterations and
/// around it, and the results of bandwidth tools (wire.md 6).
#[test]
fn sends_each_barrier_and_result() {
    let latency = "iters=4 warmup=3 max=16";
    let bandwidth = "iters=2 list=4 min=64 max=128";
    for (tool, options, fields, expected) in [
        ("write-lat", "-n 4 --warmup 3 -s 8:16", latency, vec![0; 1 + 2]),
        ("send-lat", "-n 4 --warmup 3 -s 8:16", latency, vec![0; 1 + 2 * (4 + 3 + 1)]),
        ("send-bw", "-n 2 -l 4 -s 64:128", bandwidth, vec![0, 0, 0, 16, 0, 0, 16]),
        ("write-bw", "-n 2 -l 4 -s 64:128", bandwidth, vec![0, 0, 0, 16, 0, 0, 16]),
    ] {
        let fabric = Fabric::new();
        for ended in
            [fabric.against_server(tool, options, None), fabric.against_client(tool, fields, None)]
        {
            assert_both_succeed(&ended);
            let lengths: Vec<usize> = ended.received.iter().map(Vec::len).collect();
            assert_eq!(lengths[4..], expected, "{tool}");
        }
    }
}

/// A legacy peer sends no name of its host or NIC.
#[test]
fn names_no_host_of_legacy_peers() {
    let fabric = Fabric::new();
    let ended = fabric.against_server("read-lat", "-n 1 --json --quiet", None);
    assert_both_succeed(&ended);
    let run: serde_json::Value = serde_json::from_slice(&ended.cxidiag.stdout).expect("JSON");
    let expected = serde_json::json!({
        "device": null, "host_name": null, "ip": "127.0.0.1", "is_cxidiag": false
    });
    assert_eq!(run["peer"], expected);
}

/// The client may end a size when its samples are enough: of a one-sided run, in which the server
/// takes no part, and of a round trip, in which either side may send the last message.
#[test]
fn until_ends_sizes_with_legacy_servers() {
    let fabric = Fabric::new();
    let options = "--until=100000% -D 20 --latency-gap 100";
    for tool in ["write-lat", "read-lat", "atomic-lat", "send-lat"] {
        assert_both_succeed(&fabric.against_server(tool, options, None));
    }
    fabric.assert_nothing_left();
}

/// Results of bandwidth runs have the time and the count of operations of a side. The server of one
/// direction issues none; in one-sided tools it does not even take the time.
#[test]
fn sends_its_time_and_count_of_operations() {
    let cases = [
        ("send-bw", "", [true, false]),
        ("send-bw", "-b", [true, true]),
        ("write-bw", "", [false, false]),
        ("write-bw", "-b", [true, true]),
    ];
    let fabric = Fabric::new();
    for (tool, option, [server_measures, server_issues]) in cases {
        let options = format!("-n 3 -l 4 -s 64 {option}");
        let flags = u8::from(option == "-b");
        let fields = format!("iters=3 list=4 min=64 max=64 flags={flags}");
        for side in [Side::Client, Side::Server] {
            let ended = fabric.against_legacy(side, tool, (&options, &fields), None);
            assert_both_succeed(&ended);
            let result: [u8; 16] = ended.received[7][..].try_into().expect("a result");
            let [elapsed, count] = [0, 8]
                .map(|at| u64::from_le_bytes(result[at..at + 8].try_into().expect("8 bytes")));
            let is_client = side == Side::Client;
            assert_eq!(elapsed != 0, is_client || server_measures, "{tool} {option} {side:?}");
            let issued = if is_client || server_issues { 12 } else { 0 };
            assert_eq!(count, issued, "{tool} {option} {side:?}");
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
        ("write-lat", FIRST, "huge", "announced 4294967040 bytes at the Post-run barrier"),
        ("read-lat", FIRST, "longer", "announced 1 bytes at the Post-run barrier"),
        ("atomic-lat", FIRST, "close", GONE),
        ("send-lat", FIRST, "close", GONE),
        ("send-lat", FIRST + 2, "reset", GONE),
        ("send-lat", FIRST + 1, "longer", "announced 1 bytes at the Sync barrier"),
        // The tools between SHS 12.0 and 13.0 send a byte in each Sync, under the same version.
        ("send-lat", FIRST, "longer", "hint: the peer's tool is an unreleased version"),
        ("send-lat", FIRST + 4, "close", GONE),
        // Pre-run, Post-run and results.
        ("send-bw", FIRST, "close", GONE),
        ("send-bw", FIRST + 1, "cut", GONE),
        ("send-bw", FIRST + 2, "close", GONE),
        ("send-bw", FIRST + 2, "empty", "sent a result of 0 bytes (expected 16)"),
        ("send-bw", FIRST + 2, "shorter", "sent a result of 15 bytes (expected 16)"),
        ("send-bw", FIRST + 2, "longer", "announced 17 bytes during the exchange of results"),
        (
            "send-bw",
            FIRST + 2,
            "silence",
            "did not answer during the exchange of results within 5 s",
        ),
        ("send-bw", FIRST + 2, "stall", "did not answer during the exchange of results within 5 s"),
        // A passive server waits for its client at the first and the second.
        ("write-bw", FIRST, "close", GONE),
        ("read-bw", FIRST + 1, "longer", "announced 1 bytes at the Post-run barrier"),
        ("write-bw", FIRST + 1, "reset", GONE),
        ("atomic-bw", FIRST + 2, "shorter", "sent a result of 15 bytes (expected 16)"),
    ];
    let mut cases: Vec<_> = [Side::Client, Side::Server]
        .into_iter()
        .flat_map(|side| cases.map(|case| (side, case)))
        .collect();
    let waits = |what: &str| what == "silence" || what == "stall";
    cases.sort_by_key(|(_, (_, _, what, _))| !waits(what));
    all(&cases, |fabric, &(side, (tool, at, what, text))| {
        let options = if tool.ends_with("-bw") {
            ("-n 2 -l 4", "iters=2 list=4")
        } else {
            ("-n 4 --warmup 0", "iters=4 warmup=0")
        };
        let ended = fabric.against_legacy(side, tool, options, Some((at, what)));
        let error = assert_status(&ended.cxidiag, 1);
        assert!(error.contains(text), "{side:?} {tool} {at}={what}: {error}");
        assert!(error.lines().count() <= 2, "{side:?} {tool} {at}={what}: {error}");
    });
}

/// Only cxidiag sends the counters of its NIC.
#[test]
fn counters_of_legacy_server_are_not_available() {
    let ended = Fabric::new().against_server("write-lat", "-n 3 --counters", None);
    assert_both_succeed(&ended);
    let text = stdout(&ended.cxidiag);
    let line = "\nCounters of the server's NIC: not available (the server has not sent them)\n";
    assert!(text.contains(line), "{text}");
}
