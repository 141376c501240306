//! The control connection between cxidiag and legacy tools (wire.md), for which a stand-in
//! written from that document plays them. It has no NIC here: the runs end behind the handshake.

mod harness;

use harness::legacy::{Ended, all, course, payloads};
use harness::{Fabric, stderr, stdout};

/// What cxidiag says when the stand-in has come to its end.
const GONE: &str = "closed the connection";

/// Ends a legacy server where its NIC would be needed next.
const NO_FURTHER: [&str; 2] = ["--at", "Client=close"];

/// Options that the option block carries, for each tool in turns.
const OPTIONS: [(&str, &[&str]); 16] = [
    ("write-lat", &[]),
    ("write-lat", &["-n", "7", "--warmup", "0", "-s", "3"]),
    (
        "write-lat",
        &["-D", "9", "--latency-gap", "123456789012", "-s", "1:65536"],
    ),
    (
        "write-lat",
        &[
            "-n",
            "18446744073709551615",
            "--no-idc",
            "--no-ll",
            "--unrestricted",
        ],
    ),
    ("write-lat", &["--report-all", "-s", "100000"]),
    ("read-lat", &[]),
    (
        "read-lat",
        &[
            "--no-ll",
            "--unrestricted",
            "-D",
            "4294967295",
            "--report-all",
        ],
    ),
    ("send-lat", &[]),
    ("send-lat", &["-R", "-s", "8:16"]),
    (
        "send-lat",
        &["--no-idc", "--no-ll", "--report-all", "-n", "65536"],
    ),
    ("atomic-lat", &[]),
    (
        "atomic-lat",
        &[
            "-A",
            "cswap",
            "-C",
            "ge",
            "-T",
            "double",
            "--fetching",
            "--matching",
            "--no-idc",
        ],
    ),
    (
        "atomic-lat",
        &["-A", "bxor", "-T", "int8", "--unrestricted", "--report-all"],
    ),
    ("send-bw", &[]),
    (
        "send-bw",
        &[
            "-b",
            "-R",
            "-l",
            "16",
            "--buf-sz",
            "1048576",
            "--buf-align",
            "128",
            "-s",
            "1024:65536",
        ],
    ),
    (
        "send-bw",
        &["-D", "5", "-l", "1000", "--no-idc", "-s", "1:8"],
    ),
];

#[track_caller]
fn assert_refused(ended: &Ended, texts: &[&str]) {
    let said = stderr(&ended.cxidiag);
    assert_eq!(ended.cxidiag.status.code(), Some(1), "{said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is not in {said:?}");
    }
    let lines = said.lines().count();
    assert!(lines <= 2, "more than a line and its hint: {said}");
}

/// The server said why in one line, and served the next client.
#[track_caller]
fn assert_only_refused(ended: &Ended, texts: &[&str]) {
    let said = stderr(&ended.cxidiag);
    assert!(ended.cxidiag.status.success(), "{said}");
    for text in texts {
        assert!(said.contains(text), "{text:?} is not in {said:?}");
    }
    assert!(said.contains(": refused a client: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// The stand-in itself is what wire.md says: the vectors of 4.6.
#[test]
fn the_stand_in_sends_the_documented_bytes() {
    let block = |args: &[&str]| {
        let output = Fabric::new()
            .peer(&[args, &["--show-block"]].concat())
            .output();
        stdout(&output.expect("python3 starts"))
    };
    let vector = |text: &str| text.replace(char::is_whitespace, "") + "\n";
    assert_eq!(
        block(&["cxi_write_lat"]),
        vector(
            "00000000 00 6400000000000000 0a00000000000000 e803000000000000 00000000 0000 0000
             0800000000000000 0800000000000000 0000000000000000 0000000000000000 0000000000000000
             06 00 00 00
             01000000 00000000 2ac0 ff 00 00000000 0000000000000000
             00000000 00000000 0000 00 00 00000000 0000000000000000"
        )
    );
    let send_bw = [
        "cxi_send_bw",
        "-d",
        "cxi3",
        "-v",
        "7",
        "-n",
        "20",
        "-D",
        "5",
        "-s",
        "1024:65536",
        "-l",
        "16",
        "-b",
        "-R",
        "--buf-sz",
        "1048576",
        "--buf-align",
        "128",
        "--use-hp",
        "2M",
        "-g",
        "nvidia",
    ];
    assert_eq!(
        block(&send_bw),
        vector(
            "00 00 00 00 00 14 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 05 00 00
             00 10 00 11 00 00 04 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 10 00 00 00 00 00 00 00 00
             00 00 00 00 00 80 00 00 00 00 00 00 00 08 00 00 00 07 00 00 00 03 00 00 00 2a c0 01 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00"
        )
    );
    let write_lat = [
        "cxi_write_lat",
        "-t",
        "3",
        "-r",
        "200",
        "-g",
        "intel",
        "--unrestricted",
        "--no-ll",
        "--report-all",
        "--warmup",
        "2",
        "--latency-gap",
        "77",
        "--use-hp",
        "1G",
        "-s",
        "64",
        "--emu-mode",
    ];
    assert_eq!(
        block(&write_lat),
        vector(
            "00 00 00 00 00 64 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 4d 00 00 00 00 00 00 00 00 00 00
             00 00 00 2a 00 40 00 00 00 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00 00 00 00 00 00 00 00 00 00 00 00 00 40 00 00 00 01 00 00 00 00 00 00 00 2a c0 02 00 00 00 00
             00 03 91 03 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
             00"
        )
    );
    let bytes = |args: &[&str], at: usize, end: usize| block(args)[2 * at..2 * end].to_owned();
    let atomic = [
        "cxi_atomic_lat",
        "-A",
        "cswap",
        "-C",
        "ge",
        "-T",
        "double",
        "--fetching",
        "--matching",
        "--no-idc",
    ];
    assert_eq!(bytes(&atomic, 77, 81), "340b040a");
    let clock = ["cxi_send_lat", "-c", "cycles", "--ignore-cpu-freq-mismatch"];
    assert_eq!(bytes(&clock, 0, 5), "0100000001");
    for (tool, used, gpu_type) in [
        ("cxi_read_lat", "04000000", "ff"),
        ("cxi_send_lat", "06000000", "ff"),
        ("cxi_atomic_lat", "06020007", "00"),
        ("cxi_send_bw", "02000000", "ff"),
    ] {
        assert_eq!(bytes(&[tool], 77, 81), used, "{tool}");
        assert_eq!(bytes(&[tool], 91, 92), gpu_type, "{tool}");
    }
}

/// A cxidiag client sends, byte for byte, what the legacy tool sends for the same options, and
/// all of its handshake is where a legacy server expects it.
#[test]
fn a_client_sends_what_the_legacy_tool_sends() {
    all(&OPTIONS, |fabric, (tool, options)| {
        let ended = fabric.against_server(
            tool,
            options,
            &[&["-d", "cxi1"], &NO_FURTHER[..], *options].concat(),
        );
        let sent = |label| payloads(&ended.peer, label, '<').concat();
        let expected = |label| payloads(&ended.peer, label, '>').concat();
        assert_eq!(sent("name"), expected("name"), "{tool} {options:?}");
        assert_eq!(sent("options"), expected("options"), "{tool} {options:?}");
        assert_eq!(sent("options").len(), 2 * 129);
        // NIC 0x13, PID 0
        assert_eq!(sent("address"), "1300000000000000", "{tool}");
        let version = expected("version");
        let (numbers, _nul) = version.split_at(version.len() - 2);
        assert!(
            sent("version").starts_with(numbers),
            "{tool}: {}",
            sent("version")
        );
        assert_eq!(
            course(&ended.peer),
            ["name", "version", "options", "address", "Client"],
            "{tool} {options:?}: {}",
            stderr(&ended.cxidiag)
        );
        assert!(ended.peer.status.success(), "{}", stderr(&ended.peer));
        assert_refused(&ended, &[GONE]);
    });
}

/// A cxidiag server answers with the defaults of the tool, as the legacy one does, and takes the
/// client's options over.
#[test]
fn a_server_answers_as_the_legacy_tool_does() {
    all(&OPTIONS, |fabric, (tool, options)| {
        let ended = fabric.against_client(tool, options);
        let said = stderr(&ended.cxidiag);
        let received = payloads(&ended.peer, "options", '<').concat();
        let port = &payloads(&ended.peer, "options", '>').concat()[2 * 89..2 * 91];
        let port = u16::from_str_radix(port, 16)
            .expect("hexadecimal")
            .swap_bytes()
            .to_string();
        let legacy = harness::legacy::legacy(tool);
        let defaults = fabric.peer(&[legacy, "-p", &port, "--show-block"]).output();
        assert_eq!(
            received + "\n",
            stdout(&defaults.expect("python3 starts")),
            "{tool}"
        );
        assert_eq!(
            payloads(&ended.peer, "address", '<'),
            ["1200000000000000"],
            "{tool}"
        );
        assert_eq!(
            course(&ended.peer),
            ["name", "version", "options", "address", "Server"],
            "{tool} {options:?}: {said}"
        );
        assert!(ended.peer.status.success(), "{}", stderr(&ended.peer));
        assert_refused(&ended, &[GONE]);
        let summary = stdout(&ended.cxidiag);
        for pair in options.windows(2) {
            let shown = match pair[0] {
                "-n" => format!("Iterations       : {}\n", pair[1]),
                "-D" => format!("Duration         : {} seconds\n", pair[1]),
                "-l" => format!("List Size        : {}\n", pair[1]),
                "--latency-gap" => format!("Inter-Iter Gap   : {} microseconds\n", pair[1]),
                "--warmup" => format!("Warmup Iters     : {}\n", pair[1]),
                "-T" => format!("Atomic Type      : {}\n", pair[1].to_uppercase()),
                "-s" => format!(": {}\n", pair[1].split(':').next_back().unwrap()),
                _ => continue,
            };
            assert!(summary.contains(&shown), "{shown:?} is not in {summary}");
        }
    });
}

/// Only major and minor number count.
#[test]
fn versions_that_match() {
    let cases = [
        ("write-lat", "2.4"),
        ("read-lat", "2.4.0"),
        ("send-lat", "2.3.99-foo"),
        ("atomic-lat", "2.4.99-foo"),
        ("send-bw", "2.4 with words"),
    ];
    all(&cases, |fabric, (tool, version)| {
        for ended in [
            fabric.against_server(
                tool,
                &[],
                &[&NO_FURTHER[..], &["--announce", version]].concat(),
            ),
            fabric.against_client(tool, &["--announce", version]),
        ] {
            assert!(
                ended.peer.status.success(),
                "{version}: {}",
                stderr(&ended.peer)
            );
            assert_refused(&ended, &[GONE]);
        }
    });
}

/// Both versions are named, and what to do; the legacy side reports the mismatch in its words.
#[test]
fn versions_that_do_not_match() {
    let cases = [
        ("write-lat", "2.4.0", "2.2.0", "SHS 12.0 or older"),
        ("write-lat", "2.4.0", "2.3.0", "between SHS 12.0 and 13.0"),
        ("read-lat", "2.4.0", "3.0.0", "same release of the tool"),
        ("atomic-lat", "2.4.0", "2.1.0", "SHS 12.0 or older"),
        ("send-bw", "2.4.0", "2.40.0", "same release of the tool"),
        ("send-bw", "2.4.0", "12.4", "same release of the tool"),
        ("send-lat", "2.3.0", "2.2.0", "SHS 12.0 or older"),
        ("send-lat", "2.3.0", "2.4.0", "same release of the tool"),
    ];
    all(&cases, |fabric, (tool, ours, theirs, hint)| {
        let words = format!("different versions of cxi_{}", tool.replace('-', "_"));
        let words = [&words, *ours, *theirs, *hint];
        let as_server = fabric.against_server(tool, &[], &["--announce", theirs]);
        assert_refused(&as_server, &words);
        let as_client = fabric.refused_client(tool, &["--announce", theirs]);
        assert_only_refused(&as_client, &words);
        for ended in [as_server, as_client] {
            let said = stderr(&ended.peer);
            assert_eq!(ended.peer.status.code(), Some(1), "{said}");
            assert!(said.contains("program versions do not match!"), "{said}");
        }
    });
}

#[test]
fn another_tool() {
    let cases = [
        "cxi_read_lat",
        "cxi_write_bw",
        "cxi_write_la",
        "cxi_write_lat2",
    ];
    all(&cases, |fabric, name| {
        let words = ["different tools: cxi_write_lat here", name];
        let as_server = fabric.against_server("write-lat", &[], &["--name", name]);
        assert_refused(&as_server, &words);
        let as_client = fabric.refused_client("write-lat", &["--name", name]);
        assert_only_refused(&as_client, &words);
        for ended in [as_server, as_client] {
            let said = stderr(&ended.peer);
            assert!(said.contains("program names do not match!"), "{said}");
        }
    });
}

/// What a peer does in the handshake instead of what it should, what a client says to it, and what a server
/// says.
const IN_THE_HANDSHAKE: [(&str, &str, &str); 16] = [
    ("version=close", GONE, GONE),
    (
        "version=silence",
        "did not answer during the handshake (version) within 5 s",
        "failed during the handshake (version): it sent nothing for 5 s",
    ),
    (
        "version=stall",
        "did not answer during the handshake (version) within 5 s",
        "failed during the handshake (version): it sent nothing for 5 s",
    ),
    ("version=empty", "different versions", "different versions"),
    (
        "version=huge",
        "announced 4294967294 bytes during the handshake (version)",
        "failed during the handshake (version): it speaks another protocol",
    ),
    ("options=close", GONE, GONE),
    ("options=cut", GONE, GONE),
    (
        "options=silence",
        "did not answer during the handshake (options) within 5 s",
        "failed during the handshake (options): it sent nothing for 5 s",
    ),
    (
        "options=empty",
        "sent 0 bytes as its options (expected 129)",
        "sent 0 bytes as its options (expected 129)",
    ),
    (
        "options=shorter",
        "sent 128 bytes as its options (expected 129)",
        "sent 128 bytes as its options (expected 129)",
    ),
    (
        "options=huge",
        "announced 4294967294 bytes during the handshake (options)",
        "failed during the handshake (options): it speaks another protocol",
    ),
    ("address=close", GONE, GONE),
    (
        "address=silence",
        "did not answer during the handshake (address) within 5 s",
        "failed during the handshake (address): it sent nothing for 5 s",
    ),
    (
        "address=shorter",
        "sent 7 bytes as its address (expected 8)",
        "sent 7 bytes as its address (expected 8)",
    ),
    (
        "address=longer",
        "sent 9 bytes as its address (expected 8)",
        "sent 9 bytes as its address (expected 8)",
    ),
    (
        "address=huge",
        "announced 4294967294 bytes during the handshake (address)",
        "failed during the handshake (address): it speaks another protocol",
    ),
];

/// The same where both sides have agreed: either of them ends.
const BEHIND_THE_HANDSHAKE: [(&str, &str); 4] = [
    (
        "address=twice",
        "announced 8 bytes at the ready barrier (at most 0 allowed)",
    ),
    ("ready=close", GONE),
    ("ready=reset", GONE),
    (
        "ready=huge",
        "announced 4294967294 bytes at the ready barrier (at most 0 allowed)",
    ),
];

/// A client that goes wrong in the handshake is refused, and the server says why.
#[test]
fn clients_that_go_wrong() {
    all(&IN_THE_HANDSHAKE, |fabric, (deviation, _, text)| {
        let ended = fabric.refused_client("write-lat", &["--at", deviation]);
        assert_only_refused(&ended, &[text]);
    });
    all(&BEHIND_THE_HANDSHAKE, |fabric, (deviation, text)| {
        let deviation = deviation.replace("ready", "Server");
        let ended = fabric.against_client("write-lat", &["--at", &deviation]);
        assert_refused(&ended, &[text]);
    });
    let out_of_order = [
        ("options=skip", "sent 8 bytes as its options (expected 129)"),
        ("address=skip", "sent 0 bytes as its address (expected 8)"),
    ];
    all(&out_of_order, |fabric, (deviation, text)| {
        let ended = fabric.refused_client("write-lat", &["--at", deviation]);
        assert_only_refused(&ended, &[text]);
    });
}

/// A server that goes wrong ends its client.
#[test]
fn servers_that_go_wrong() {
    all(&IN_THE_HANDSHAKE, |fabric, (deviation, text, _)| {
        let ended = fabric.against_server("write-lat", &[], &["--at", deviation]);
        assert_refused(&ended, &[text]);
    });
    all(&BEHIND_THE_HANDSHAKE, |fabric, (deviation, text)| {
        let deviation = deviation.replace("ready", "Client");
        let ended = fabric.against_server("write-lat", &[], &["--at", &deviation]);
        assert_refused(&ended, &[text]);
    });
    let first = [
        ("name=close", "closed the connection"),
        ("name=silence", "sent nothing for 5 s"),
        ("name=stall", "sent nothing for 5 s"),
        ("name=empty", "did not send the name of a tool"),
        ("name=shorter", "did not send the name of a tool"),
        ("name=huge", "speaks another protocol"),
        ("name=skip", "did not send the name of a tool"),
    ];
    all(&first, |fabric, (deviation, text)| {
        let ended = fabric.against_server("read-lat", &[], &["--at", deviation]);
        assert_refused(&ended, &["did not answer as a cxi_read_lat server", text]);
    });
}

/// Before SHS 13.0 the server began to speak. It is recognised and told apart.
#[test]
fn servers_that_speak_first() {
    all(&["cxi_write_lat", "cxi_send_bw"], |fabric, name| {
        let tool = name[4..].replace('_', "-");
        let old = ["--generation", "1", "--announce", "2.2.0"];
        let ended = fabric.against_server(&tool, &[], &old);
        assert_refused(
            &ended,
            &["2.4.0 here, 2.2.0 at the peer", "SHS 12.0 or older"],
        );
        let said = stderr(&ended.peer);
        assert!(said.contains("program versions do not match!"), "{said}");
    });
}

/// What a client asks for and cannot be: the server says why, and the client sees what it sees
/// when a legacy server gives up (T27 of tools.md).
#[test]
fn clients_that_ask_for_too_much() {
    let cases: [(&str, &[&str], &str); 15] = [
        ("write-lat", &["--block", "35=30"], "unknown hugepages "),
        ("send-lat", &["--block", "0=02"], "unknown clock "),
        ("write-lat", &["-n", "0"], "iters 0: "),
        ("read-lat", &["-s", "0"], "size 0:0: "),
        ("read-lat", &["-s", "8:4"], "size 8:4: "),
        ("read-lat", &["-s", "3:48"], "size 3:48: "),
        (
            "read-lat",
            &["-s", "1125899906842624"],
            "size 1125899906842624:1125899906842624: ",
        ),
        ("send-bw", &["-l", "0"], "list-size 0: "),
        ("send-bw", &["-l", "16383"], "list-size 16383: "),
        ("send-bw", &["--buf-align", "0"], "buf-align 0: "),
        ("send-bw", &["--buf-sz", "8"], "buf-sz 8: "),
        ("atomic-lat", &["--block", "80=c8"], "unknown atomic type "),
        (
            "atomic-lat",
            &["--block", "78=03"],
            "unknown atomic operation ",
        ),
        (
            "atomic-lat",
            &["-A", "bor", "-T", "float"],
            "FLOAT supports only",
        ),
        ("write-lat", &["--block", "91=03"], "unknown GPU type "),
    ];
    all(&cases, |fabric, (tool, options, text)| {
        let ended = fabric.refused_client(tool, options);
        assert_only_refused(&ended, &["sent invalid options", text]);
        let said = stderr(&ended.peer);
        assert_eq!(ended.peer.status.code(), Some(1), "{said}");
        assert!(said.contains("Server handshake failed: "), "{said}");
    });
}

/// Reserved bits, and what concerns only the client's own host, change nothing.
#[test]
fn what_does_not_concern_the_server() {
    let cases: [&[&str]; 6] = [
        &["-t", "3", "-r", "200", "-g", "nvidia"],
        &["-c", "cycles", "--ignore-cpu-freq-mismatch"],
        &["--block", "35=c4", "--block", "36=ff"],
        &["--block", "77=84"],
        &[
            "--block",
            "92=ffffffffff",
            "--block",
            "105=ffffffffffffffff",
        ],
        &["-v", "7", "-d", "cxi3"],
    ];
    all(&cases, |fabric, options| {
        let ended = fabric.against_client("send-lat", options);
        assert!(
            ended.peer.status.success(),
            "{options:?}: {}",
            stderr(&ended.peer)
        );
        assert_refused(&ended, &[GONE]);
    });
}
