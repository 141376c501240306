//! The handshake between cxidiag and legacy tools (wire.md), whose messages a thread replays. It
//! has no NIC: the runs end after the handshake.

use std::process::Output;

use crate::harness::legacy::{Peer, Replayed, all, block, legacy};
use crate::harness::{Fabric, assert_status, stdout};

/// The error of cxidiag when the replay has come to its end.
const GONE: &str = "closed the connection";

/// Ends a server before its answer at the ready barrier.
const NO_FURTHER: &str = "ready=close";

/// Options that the option block carries, and its fields.
const OPTIONS: [(&str, &str, &str); 22] = [
    ("write-lat", "", ""),
    ("write-lat", "-n 7 --warmup 0 -s 3", "iters=7 warmup=0 min=3 max=3"),
    (
        "write-lat",
        "-D 9 --latency-gap 123456789012 -s 1:65536",
        "duration=9 gap=123456789012 min=1 max=65536",
    ),
    (
        "write-lat",
        "-n 18446744073709551615 --no-idc --no-ll --unrestricted",
        "iters=0xffffffffffffffff use=0x40",
    ),
    ("write-lat", "--report-all -s 100000", "flags=0x02 min=100000 max=100000"),
    ("read-lat", "", ""),
    (
        "read-lat",
        "--no-ll --unrestricted -D 4294967295 --report-all",
        "duration=4294967295 use=0x40",
    ),
    ("send-lat", "", ""),
    ("send-lat", "-R -s 8:16", "max=16 use=0x0c"),
    ("send-lat", "--no-idc --no-ll --report-all -n 65536", "iters=65536 flags=0x02 use=0"),
    ("atomic-lat", "", ""),
    (
        "atomic-lat",
        "-A cswap -C ge -T double --fetching --matching --no-idc",
        "use=0x34 op=11 cswap=4 type=10",
    ),
    (
        "atomic-lat",
        "-A bxor -T int8 --unrestricted --report-all",
        "flags=0x02 use=0x46 op=9 type=0",
    ),
    ("send-bw", "", ""),
    (
        "send-bw",
        "-b -R -l 16 --buf-sz 1048576 --buf-align 128 -s 1024:65536",
        "list=16 flags=0x01 min=1024 max_buf=1048576 align=128 use=0x08",
    ),
    ("send-bw", "-D 5 -l 1000 --no-idc -s 1:8", "duration=5 list=1000 min=1 max=8 use=0"),
    ("write-bw", "", ""),
    (
        "write-bw",
        "-b -l 16 -s 1:4096 --buf-sz 65536 --unrestricted --no-hrp",
        "list=16 flags=0x01 min=1 max=4096 max_buf=65536 use=0x42",
    ),
    ("read-bw", "", ""),
    (
        "read-bw",
        "-D 3 -s 100000 --buf-align 1 --unrestricted",
        "duration=3 min=100000 max=100000 align=1 use=0x40",
    ),
    ("atomic-bw", "", ""),
    (
        "atomic-bw",
        "-b -l 100 -A cswap -C ge -T double --fetching --matching --no-idc",
        "list=100 flags=0x01 use=0x31 op=11 cswap=4 type=10",
    ),
];

/// Fails unless cxidiag failed with all of `texts` in a line and at most a hint, perhaps after a
/// line about options without effect.
#[track_caller]
fn assert_fails(output: &Output, texts: &[&str]) {
    let error = assert_status(output, 1);
    for text in texts {
        assert!(error.contains(text), "{text:?} is not in {error:?}");
    }
    let is_note = |line: &&str| line.contains(": without effect: ");
    let lines = error.lines().filter(|line| !is_note(line));
    assert!(lines.count() <= 2, "{error}");
}

/// Fails unless a server gave its reason in one line and served the next client, for which it may
/// have had to wait on a busy machine.
#[track_caller]
fn assert_refuses(output: &Output, texts: &[&str]) {
    let error = assert_status(output, 0);
    for text in texts {
        assert!(error.contains(text), "{text:?} is not in {error:?}");
    }
    assert!(error.contains(": refused a client: "), "{error}");
    let is_delay = |line: &&str| line.contains(": no answer to a ");
    assert_eq!(error.lines().filter(|line| !is_delay(line)).count(), 1, "{error}");
}

/// Runs cxidiag in both roles against a replay.
fn both_roles(fabric: &Fabric, tool: &str, peer: Peer) -> [Replayed; 2] {
    let server = Peer { deviation: NO_FURTHER, ..peer };
    [fabric.replay_server(tool, "", server), fabric.replay_client(tool, peer)]
}

/// The vectors of wire.md 4.6.
#[test]
fn replays_the_documented_option_blocks() {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let send_bw = "iters=20 duration=5 list=16 flags=0x11 min=1024 max_buf=1048576 align=128 use=0x08 \
                   service=7 device=3 gpu_type=1";
    let write_lat = "warmup=2 gap=77 flags=0x2a min=64 max=64 use=0x40 gpu_type=2 gpus=0x39103";
    for (tool, fields, vector) in [
        (
            "write-lat",
            "",
            "00000000 00 6400000000000000 0a00000000000000 e803000000000000 00000000 0000 0000
             0800000000000000 0800000000000000 0000000000000000 0000000000000000 0000000000000000
             06 00 00 00
             01000000 00000000 2ac0 ff 00 00000000 0000000000000000
             00000000 00000000 0000 00 00 00000000 0000000000000000",
        ),
        (
            "send-bw",
            send_bw,
            "00 00 00 00 00 14 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 05 00 00
             00 10 00 11 00 00 04 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 00
             00 00 00 00 00 80 00 00 00 00 00 00 00 08 00 00 00 07 00 00 00 03 00 00 00 2a c0 01 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00",
        ),
        (
            "write-lat",
            write_lat,
            "00 00 00 00 00 64 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 4d 00 00 00 00 00 00 00 00 00 00
             00 00 00 2a 00 40 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 40 00 00 00 01 00 00 00 00 00 00 00 2a c0 02 00 00 00 00
             00 03 91 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00",
        ),
    ] {
        let vector = vector.replace(char::is_whitespace, "");
        assert_eq!(hex(&block(tool, fields)), vector, "{tool}");
    }
    for (tool, used, gpu_type) in [
        ("read-lat", "04000000", 0xff),
        ("send-lat", "06000000", 0xff),
        ("atomic-lat", "06020007", 0),
        ("write-bw", "03000000", 0xff),
        ("read-bw", "00000000", 0xff),
        ("send-bw", "02000000", 0xff),
        ("atomic-bw", "03020007", 0),
    ] {
        assert_eq!(hex(&block(tool, "")[77..81]), used, "{tool}");
        assert_eq!(block(tool, "")[91], gpu_type, "{tool}");
    }
    // Iterations, list size, both sizes, maximum and alignment of buffers.
    for (tool, iters, list, min, max, max_buf, align) in [
        ("write-bw", 1000, 256, 65536, 65536, 1 << 32, 64),
        ("read-bw", 1000, 256, 65536, 65536, 1 << 32, 64),
        ("send-bw", 1000, 256, 65536, 65536, 1 << 32, 64),
        ("atomic-bw", 10000, 4096, 0, 0, 0, 0),
    ] {
        let block = block(tool, "");
        let number = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("8 bytes"));
        assert_eq!([5, 37, 45, 53, 69].map(number), [iters, min, max, max_buf, align], "{tool}");
        assert_eq!(u16::from_le_bytes([block[33], block[34]]), list, "{tool}");
    }
}

#[test]
fn client_sends_what_the_legacy_tool_sends() {
    all(&OPTIONS, |fabric, (tool, options, fields)| {
        let ended = fabric.replay_server(tool, options, Peer::deviating(tool, NO_FURTHER));
        let (name, version) = legacy(tool);
        let [our_name, our_version, our_block, address, ready] = &ended.received[..] else {
            panic!("{tool} {options:?}: {:?}", ended.cxidiag);
        };
        assert_eq!(*our_name, [name.as_bytes(), b"\0"].concat());
        assert!(our_version.starts_with(version.as_bytes()), "{our_version:?}");
        let fields = format!("device=1 port={} {fields}", ended.port);
        assert_eq!(*our_block, block(tool, &fields), "{tool} {options:?}");
        // NIC 0x13, PID 0
        assert_eq!(*address, [0x13, 0, 0, 0, 0, 0, 0, 0]);
        assert!(ready.is_empty());
        assert_fails(&ended.cxidiag, &[GONE]);
    });
}

/// The server answers with the defaults of the tool, as the legacy one does, and follows the
/// client's options.
#[test]
fn server_answers_as_the_legacy_tool_does() {
    all(&OPTIONS, |fabric, (tool, options, fields)| {
        let peer = Peer { fields, ..Peer::of(tool) };
        let ended = fabric.replay_client(tool, peer);
        let [_, _, our_block, address, ready] = &ended.received[..] else {
            panic!("{tool} {options:?}: {:?}", ended.cxidiag);
        };
        let defaults = block(tool, &format!("port={}", ended.port));
        assert_eq!(*our_block, defaults, "{tool}");
        assert_eq!(*address, [0x12, 0, 0, 0, 0, 0, 0, 0]);
        assert!(ready.is_empty());
        assert_fails(&ended.cxidiag, &[GONE]);
        let summary = stdout(&ended.cxidiag);
        let words: Vec<&str> = options.split(' ').collect();
        let (size, max_size) = match tool.split('-').next() {
            Some("write") => ("Write Size", "Max Write Size"),
            Some("read") => ("Read Size", "Max Read Size"),
            _ => ("Send Size", "Max Send Size"),
        };
        // tools.md 9.1
        let width = if *tool == "atomic-bw" { 16 } else { 17 };
        for pair in words.windows(2) {
            let (label, value) = match pair[0] {
                "-n" => ("Iterations", pair[1].to_owned()),
                "-D" => ("Duration", format!("{} seconds", pair[1])),
                "-l" => ("List Size", pair[1].to_owned()),
                "--latency-gap" => ("Inter-Iter Gap", format!("{} microseconds", pair[1])),
                "--warmup" => ("Warmup Iters", pair[1].to_owned()),
                "-T" => ("Atomic Type", pair[1].to_uppercase()),
                "-s" => match pair[1].split_once(':') {
                    Some((_, max)) => (max_size, max.to_owned()),
                    None => (size, pair[1].to_owned()),
                },
                _ => continue,
            };
            let line = format!("{label:width$}: {value}\n");
            assert!(summary.contains(&line), "{line:?} is not in {summary}");
        }
    });
}

/// Only major and minor number count.
#[test]
fn accepts_versions_of_the_same_release() {
    let cases = [
        ("write-lat", "2.4"),
        ("read-lat", "2.4.0"),
        ("send-lat", "2.3.99-foo"),
        ("atomic-lat", "2.4.99-foo"),
        ("send-bw", "2.4 with words"),
    ];
    all(&cases, |fabric, (tool, version)| {
        let peer = Peer { version, ..Peer::of(tool) };
        for ended in both_roles(fabric, tool, peer) {
            assert_eq!(ended.received.len(), 5, "{version}");
            assert_fails(&ended.cxidiag, &[GONE]);
        }
    });
}

/// The error has both versions and a remedy; the peer gets our version and can report the mismatch.
#[test]
fn rejects_versions_of_other_releases() {
    let cases = [
        ("write-lat", "2.2.0", "SHS 12.0 or older"),
        ("write-lat", "2.3.0", "between SHS 12.0 and 13.0"),
        ("read-lat", "3.0.0", "same release of the tool"),
        ("atomic-lat", "2.1.0", "SHS 12.0 or older"),
        ("send-bw", "2.40.0", "same release of the tool"),
        ("send-bw", "12.4", "same release of the tool"),
        ("send-lat", "2.2.0", "SHS 12.0 or older"),
        ("send-lat", "2.4.0", "same release of the tool"),
    ];
    all(&cases, |fabric, (tool, version, hint)| {
        let peer = Peer { version, ..Peer::of(tool) };
        let (name, ours) = legacy(tool);
        let words = format!("different versions of {name}");
        let words = [&words, ours, version, hint];
        let as_client = fabric.replay_server(tool, "", peer);
        assert_fails(&as_client.cxidiag, &words);
        let as_server = fabric.replay_refused_client(tool, peer);
        assert_refuses(&as_server.cxidiag, &words);
        for ended in [as_client, as_server] {
            assert!(ended.received[1].starts_with(ours.as_bytes()), "{tool}");
        }
    });
}

#[test]
fn rejects_other_tools() {
    let names = ["cxi_read_lat", "cxi_write_bw", "cxi_write_la", "cxi_write_lat2"];
    all(&names, |fabric, name| {
        let words = ["different tools: cxi_write_lat here", name];
        let peer = Peer { name, ..Peer::of("write-lat") };
        let as_client = fabric.replay_server("write-lat", "", peer);
        assert_fails(&as_client.cxidiag, &words);
        let as_server = fabric.replay_refused_client("write-lat", peer);
        assert_refuses(&as_server.cxidiag, &words);
        for ended in [as_client, as_server] {
            assert_eq!(ended.received[0], b"cxi_write_lat\0");
        }
    });
}

const NO_VERSION: [&str; 2] = [
    "did not answer during the handshake (version) within 5 s",
    "failed during the handshake (version): it sent nothing for 5 s",
];

/// What a peer does instead of sending a message, and the errors of a client and of a server.
const IN_THE_HANDSHAKE: [(&str, [&str; 2]); 16] = [
    ("version=close", [GONE; 2]),
    ("version=silence", NO_VERSION),
    ("version=stall", NO_VERSION),
    ("version=empty", ["different versions"; 2]),
    (
        "version=huge",
        [
            "announced 4294967040 bytes during the handshake (version)",
            "failed during the handshake (version): it speaks another protocol",
        ],
    ),
    ("options=close", [GONE; 2]),
    ("options=cut", [GONE; 2]),
    (
        "options=silence",
        [
            "did not answer during the handshake (options) within 5 s",
            "failed during the handshake (options): it sent nothing for 5 s",
        ],
    ),
    ("options=empty", ["sent 0 bytes as its options (expected 129)"; 2]),
    ("options=shorter", ["sent 128 bytes as its options (expected 129)"; 2]),
    (
        "options=huge",
        [
            "announced 4294967040 bytes during the handshake (options)",
            "failed during the handshake (options): it speaks another protocol",
        ],
    ),
    ("address=close", [GONE; 2]),
    (
        "address=silence",
        [
            "did not answer during the handshake (address) within 5 s",
            "failed during the handshake (address): it sent nothing for 5 s",
        ],
    ),
    ("address=shorter", ["sent 7 bytes as its address (expected 8)"; 2]),
    ("address=longer", ["sent 9 bytes as its address (expected 8)"; 2]),
    (
        "address=huge",
        [
            "announced 4294967040 bytes during the handshake (address)",
            "failed during the handshake (address): it speaks another protocol",
        ],
    ),
];

/// Deviations after both sides have agreed: either side ends.
const AFTER_THE_HANDSHAKE: [(&str, &str); 4] = [
    ("address=twice", "announced 8 bytes at the ready barrier (at most 0 allowed)"),
    ("ready=close", GONE),
    ("ready=reset", GONE),
    ("ready=huge", "announced 4294967040 bytes at the ready barrier (at most 0 allowed)"),
];

#[test]
fn server_refuses_a_client_that_deviates() {
    let out_of_order = [
        ("options=skip", ["", "sent 8 bytes as its options (expected 129)"]),
        ("address=skip", ["", "sent 0 bytes as its address (expected 8)"]),
    ];
    let cases = [&IN_THE_HANDSHAKE[..], &out_of_order].concat();
    all(&cases, |fabric, (deviation, [_, text])| {
        let peer = Peer::deviating("write-lat", deviation);
        let ended = fabric.replay_refused_client("write-lat", peer);
        assert_refuses(&ended.cxidiag, &[text]);
    });
    all(&AFTER_THE_HANDSHAKE, |fabric, (deviation, text)| {
        let peer = Peer::deviating("write-lat", deviation);
        let ended = fabric.replay_client("write-lat", peer);
        assert_fails(&ended.cxidiag, &[text]);
    });
}

#[test]
fn client_fails_if_its_server_deviates() {
    let first = [
        ("name=close", GONE),
        ("name=silence", "sent nothing for 5 s"),
        ("name=stall", "sent nothing for 5 s"),
        ("name=empty", "did not send the name of a tool"),
        ("name=shorter", "did not send the name of a tool"),
        ("name=huge", "speaks another protocol"),
        ("name=skip", "did not send the name of a tool"),
    ];
    let first = first.map(|(deviation, text)| {
        let texts = ["did not answer as a cxi_read_lat server", text];
        ("read-lat", deviation, texts)
    });
    let in_the_handshake = IN_THE_HANDSHAKE.map(|(deviation, [text, _])| (deviation, text));
    let later = in_the_handshake.into_iter().chain(AFTER_THE_HANDSHAKE);
    let later = later.map(|(deviation, text)| ("write-lat", deviation, [text; 2]));
    let cases: Vec<_> = first.into_iter().chain(later).collect();
    all(&cases, |fabric, (tool, deviation, texts)| {
        let ended = fabric.replay_server(tool, "", Peer::deviating(tool, deviation));
        assert_fails(&ended.cxidiag, texts);
    });
}

/// The server sends first, which the client does not wait for (wire.md 9.1).
#[test]
fn client_recognises_servers_before_shs_13() {
    all(&["write-lat", "send-bw"], |fabric, tool| {
        let peer = Peer { version: "2.2.0", server_sends_first: true, ..Peer::of(tool) };
        let ended = fabric.replay_server(tool, "", peer);
        let texts = ["2.4.0 here, 2.2.0 at the peer", "SHS 12.0 or older"];
        assert_fails(&ended.cxidiag, &texts);
        assert!(ended.received[1].starts_with(b"2.4.0"));
    });
}

/// The server prints the reason. The client reports what it reports when a legacy server fails: the
/// connection ends at the ready barrier (T27 of tools.md).
/// Service 2 has the VNIs 16 to 31; the peer would use VNI 1.
#[test]
fn t26_client_fails_at_once_if_its_vni_is_of_a_range() {
    let fabric = Fabric::new();
    let peer = || Peer::deviating("write-lat", NO_FURTHER);
    let ended = fabric.replay_server("write-lat", "--svc-id=2", peer());
    let expected = "VNI 16 here, of the range of service 2; the peer (127.0.0.1:";
    assert_fails(&ended.cxidiag, &[expected, "--vni=1 here as root"]);
    // The user may know better.
    let chosen = fabric.replay_server("write-lat", "--svc-id=2 --vni=16", peer());
    let error = String::from_utf8_lossy(&chosen.cxidiag.stderr).into_owned();
    assert!(!error.contains("of the range"), "{error}");
}

#[test]
fn t27_server_refuses_invalid_options() {
    let cases = [
        ("write-lat", "flags=0x30", "unknown hugepages "),
        ("send-lat", "clock=2", "unknown clock "),
        ("write-lat", "iters=0", "iters 0: "),
        ("read-lat", "min=0 max=0", "size 0:0: "),
        ("read-lat", "min=8 max=4", "size 8:4: "),
        ("read-lat", "min=3 max=48", "size 3:48: "),
        (
            "read-lat",
            "min=1125899906842624 max=1125899906842624",
            "size 1125899906842624:1125899906842624: ",
        ),
        ("send-bw", "list=0", "list-size 0: "),
        ("send-bw", "list=16383", "list-size 16383: "),
        ("send-bw", "align=0", "buf-align 0: "),
        ("send-bw", "max_buf=8", "buf-sz 8: "),
        ("atomic-lat", "type=0xc8", "unknown atomic type "),
        ("atomic-lat", "op=3", "unknown atomic operation "),
        ("atomic-lat", "op=6 type=8", "FLOAT supports only"),
        ("atomic-bw", "op=6 type=8", "FLOAT supports only"),
        ("atomic-bw", "list=0", "list-size 0: "),
        ("write-lat", "gpu_type=3", "unknown GPU type "),
    ];
    all(&cases, |fabric, (tool, fields, text)| {
        let peer = Peer { fields, ..Peer::of(tool) };
        let ended = fabric.replay_refused_client(tool, peer);
        assert_refuses(&ended.cxidiag, &["sent invalid options", text]);
        // All of the handshake.
        assert_eq!(ended.received.len(), 4, "{fields}");
    });
}

/// Reserved bits and the fields of the client's host.
#[test]
fn server_ignores_what_concerns_the_client_only() {
    let cases = [
        "gpus=0x39103 gpu_type=1",
        "clock=1 ignore_mismatch=1",
        "flags=0xc4 reserved=0xff",
        "use=0x84",
        "padding=0xffffffffff server=0xffffffffffffffff",
        "service=7 device=3",
    ];
    all(&cases, |fabric, fields| {
        let peer = Peer { fields, ..Peer::of("send-lat") };
        let ended = fabric.replay_client("send-lat", peer);
        assert_eq!(ended.received.len(), 5, "{fields}");
        assert_fails(&ended.cxidiag, &[GONE]);
    });
}
