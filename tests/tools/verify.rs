//! `--verify`: the receiving side checks the data after each size.

use crate::harness::legacy::Peer;
use crate::harness::{Fabric, Server, assert_status, finish, stdout};

/// The tools, each with the sides that receive data: the client, the server.
const TOOLS: [(&str, [bool; 2]); 6] = [
    ("write-lat", [false, true]),
    ("read-lat", [true, false]),
    ("send-lat", [true, true]),
    ("write-bw", [false, true]),
    ("read-bw", [true, false]),
    ("send-bw", [false, true]),
];

const FEW: &str = "-n 3";

/// The checked bytes of each size in a JSON document.
fn verified_bytes(document: &str) -> Vec<Option<u64>> {
    let document: serde_json::Value = serde_json::from_str(document).expect("a document");
    let results = document["results"].as_array().expect("results");
    let bytes = results.iter().map(|result| result["verified_bytes"].as_u64());
    bytes.collect()
}

#[test]
fn checks_each_size_in_each_tool() {
    let fabric = Fabric::new();
    for (tool, sides) in TOOLS {
        let options = format!("{FEW} --verify -s 4:4096");
        for text in fabric.pair(tool, &options) {
            let last = text.lines().last();
            assert_eq!(
                last,
                Some("Verified: 11 sizes, data of the last operations correct"),
                "{tool}: {text}"
            );
        }
        let document = fabric.loopback(tool, &format!("{options} --json --quiet"));
        // A list of 256 operations is checked as a whole.
        let operations = if tool.ends_with("-bw") { 256 } else { 1 };
        let receivers = sides.iter().filter(|receives| **receives).count() as u64;
        let expected = (2..13).map(|power| Some((operations * receivers) << power));
        assert_eq!(verified_bytes(&document), expected.collect::<Vec<_>>(), "{tool}");
    }
}

#[test]
fn checks_each_kind_of_command() {
    let fabric = Fabric::new();
    for (tool, options) in [
        ("write-lat", "--no-idc"),
        ("write-lat", "--unrestricted -s 128:8192"),
        ("write-lat", "-s 5001"),
        ("read-lat", "--unrestricted -s 1:4"),
        ("send-lat", "--rdzv -s 64:128"),
        ("send-lat", "--legacy-sync -s 64:512"),
        ("write-bw", "--no-hrp -s 128:512 -l 5"),
        ("write-bw", "--unrestricted -b -s 128:512 -l 5"),
        ("write-bw", "--reverse -P 3 --threads=2 -s 64:512 -l 5"),
        ("read-bw", "--unrestricted -b -s 64:128 -l 5"),
        ("read-bw", "--reverse -P 2 -s 64:128 -l 5"),
        ("send-bw", "--reverse -P 2 -s 64:128 -l 5"),
        ("send-bw", "--rdzv -s 64:128 -l 5"),
        ("send-bw", "-b -s 64:512 -l 5"),
        ("send-bw", "-b -D 0.3 -s 64:128"),
        ("send-bw", "-s 100 --buf-align=64 --buf-sz=1000"),
    ] {
        let options = if options.contains("-D") {
            format!("{options} --verify")
        } else {
            format!("{FEW} {options} --verify")
        };
        let text = fabric.loopback(tool, &options);
        assert!(text.contains("\nVerified: "), "{tool} {options}: {text}");
    }
    fabric.assert_nothing_left();
}

/// The data of the last operations is wrong on one side, or on both.
#[test]
fn names_wrong_byte_and_ends_both_sides() {
    for (tool, [client_receives, _]) in TOOLS {
        let sender_is_client = !client_receives || tool == "send-lat";
        for size in [8, 65536] {
            let fabric = Fabric::new();
            let faulty = ("CXIDIAG_FAULTS", "corrupt=1");
            let mut server = fabric.command(&format!("{tool} -p 0 -d soft0"));
            if !sender_is_client {
                server.env(faulty.0, faulty.1);
            }
            let server = Server::start(server);
            let options = format!("-d soft1 {FEW} --verify -s {size}");
            let mut client = fabric.client_command(tool, &server, &options);
            if sender_is_client {
                client.env(faulty.0, faulty.1);
            }
            let client = assert_status(&finish(client), 1);
            let server = assert_status(&server.finish(), 1);
            let (receiver, sender) =
                if sender_is_client { (&server, &client) } else { (&client, &server) };
            let start = format!("cxidiag {tool}: error: size {size}: byte ");
            assert!(receiver.starts_with(&start), "{receiver}");
            assert!(receiver.contains("\nhint: run again "), "{receiver}");
            for words in [" is 0x", " (expected 0x", "; from byte ", ": found ", ", expected "] {
                assert!(receiver.contains(words), "{receiver}");
            }
            let reason = format!(" ended the run: size {size}: byte ");
            assert!(sender.contains(&reason), "{sender}");
            fabric.assert_nothing_left();
        }
    }
}

/// The second pair would start its first list after three seconds. Its buffer has no data to check.
#[test]
fn checks_only_pairs_that_have_issued_operations() {
    let fabric = Fabric::new();
    for (tool, options, bytes) in [
        ("write-bw", "-b", 2 * 24),
        ("read-bw", "--reverse", 24),
        ("send-bw", "", 24),
        ("send-bw", "-b", 2 * 24),
        ("atomic-bw", "--fetching", 24 + 24 + 24),
    ] {
        let size = if tool == "atomic-bw" { "" } else { "-s 8" };
        let options = format!("{options} {size} --pairs=2 --rate=1op/s -l 3 -D 1");
        let document = fabric.loopback(tool, &format!("{options} --verify --json --quiet"));
        assert_eq!(verified_bytes(&document), [Some(bytes)], "{tool} {options}");
    }
    // Debug builds check the data in each run.
    fabric.loopback("write-bw", "-s 8 --pairs=2 --rate=1op/s -l 3 -D 1");
}

/// A wrong size has no checked bytes, and the sizes before it have theirs.
#[test]
fn document_has_checked_bytes_of_right_sizes_only() {
    let fabric = Fabric::new();
    // One packet in ten is corrupted: the three messages of a small size arrive unchanged, the
    // messages of a large size do not.
    let args =
        format!("read-lat --loopback -d soft0 {FEW} --warmup 0 --verify -s 1024:1048576 --json");
    let mut command = fabric.command(&args);
    command.env("CXIDIAG_FAULTS", "corrupt=0.1,seed=3");
    let output = finish(command);
    let error = assert_status(&output, 1);
    assert!(error.contains("byte "), "{error}");
    let bytes = verified_bytes(&stdout(&output));
    let right = bytes.iter().take_while(|bytes| bytes.is_some()).count();
    assert!((1..bytes.len()).contains(&right), "{bytes:?}");
    assert!(bytes[right..].iter().all(Option::is_none), "{bytes:?}");
}

/// All operations, comparisons and types: see `bench::common::atomics`.
#[test]
fn checks_values_that_atomic_tools_change() {
    let fabric = Fabric::new();
    for (tool, options, bytes) in [
        ("atomic-lat", "-n 5", 8),
        ("atomic-lat", "-n 5 -A swap -T uint16 --no-idc", 2),
        ("atomic-lat", "-D 0.3 --fetching", 16),
        ("atomic-lat", "-n 5 --fetching --matching -A cswap -T uint128", 32),
        ("atomic-bw", "-n 5 -l 7", 7 * 8),
        ("atomic-bw", "-D 0.3 -l 7 -b --fetching -T float_complex", 4 * 7 * 8),
        ("atomic-bw", "-n 5 -l 7 -P 3 --threads=2 --reverse --no-idc", 3 * 7 * 8),
    ] {
        let options = format!("{options} --verify --json --quiet");
        let document = fabric.loopback(tool, &options);
        assert_eq!(verified_bytes(&document), [Some(bytes)], "{tool} {options}");
    }
}

/// A changed byte of an operand changes the target, and one of a reply the fetched value.
#[test]
fn names_wrong_value() {
    let fabric = Fabric::new();
    for (tool, receiver, options, place) in [
        ("atomic-lat", "server", "-n 20", "value 0 of the target buffer"),
        ("atomic-bw", "server", "-n 20 -l 4", " of the target buffer"),
        ("atomic-lat", "client", "-n 20 --fetching", "value 0 of the fetched values"),
        ("atomic-bw", "client", "-n 20 -l 4 --fetching", " of the fetched values"),
    ] {
        let faulty = |side| if side == receiver { "" } else { "corrupt=1" };
        let mut server = fabric.command(&format!("{tool} -p 0 -d soft0"));
        server.env("CXIDIAG_FAULTS", faulty("server"));
        let server = Server::start(server);
        let options = format!("-d soft1 --verify {options}");
        let mut client = fabric.client_command(tool, &server, &options);
        client.env("CXIDIAG_FAULTS", faulty("client"));
        let errors = [assert_status(&finish(client), 1), assert_status(&server.finish(), 1)];
        let start = format!("cxidiag {tool}: error: size 8: value ");
        let own = &errors[usize::from(receiver == "server")];
        assert!(own.starts_with(&start) && own.contains(place), "{errors:?}");
        let other = &errors[usize::from(receiver == "client")];
        assert!(other.contains(" ended the run: size 8: value "), "{errors:?}");
    }
    fabric.assert_nothing_left();
}

#[test]
fn prints_and_documents_nothing_without_it() {
    let fabric = Fabric::new();
    for (tool, _) in TOOLS {
        assert!(!fabric.loopback(tool, FEW).contains("Verified"));
        let document = fabric.loopback(tool, &format!("{FEW} --json --quiet"));
        assert_eq!(verified_bytes(&document), [None]);
    }
}

#[test]
fn refuses_legacy_server() {
    let fabric = Fabric::new();
    let run = fabric.replay_server("write-lat", "--verify", Peer::of("write-lat"));
    let error = assert_status(&run.cxidiag, 1);
    assert!(error.contains("--verify: the server (127.0.0.1:"), "{error}");
}

/// The pair is known even if only one of several has wrong data.
#[test]
fn names_the_pair_of_a_wrong_byte() {
    let fabric = Fabric::new();
    let options = "-n 2 -l 4 -P 3 --verify";
    let mut command = fabric.command(&format!("read-bw --loopback -d soft0 {options}"));
    command.env("CXIDIAG_FAULTS", "corrupt=1");
    let errors = assert_status(&finish(command), 1);
    assert!(errors.contains("error: pair 0: size 65536: byte "), "{errors}");
}
