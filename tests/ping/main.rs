//! `ping`: the answers of NICs.

#[path = "../harness/mod.rs"]
mod harness;

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use harness::{Fabric, assert_status, assert_success, finish, schema, stderr, stdout};

/// The document of an output, which is valid by its schema.
fn document(output: &Output) -> Value {
    schema::document(include_str!("../../docs/ping.schema.json"), &stdout(output))
}

/// Pings of a NIC with itself, with a variable of the environment.
fn ping(more: &str, (name, value): (&str, &str)) -> Output {
    let fabric = Fabric::new();
    let mut command = fabric.command(&format!("ping -i 0 --timeout=1m {more}"));
    command.env(name, value);
    finish(command)
}

/// No variable.
const NOTHING: (&str, &str) = ("CXIDIAG_FAULTS", "");

#[test]
fn prints_a_line_a_round_and_a_table() {
    let output = ping("--loopback -d soft0 -c 2", NOTHING);
    assert_success(&output);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("8 bytes, median in us"), "{text}");
    for line in &lines[1..3] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let named: Vec<&str> = words[4..].iter().step_by(2).copied().collect();
        assert_eq!(named, ["write", "read", "atomic", "send"], "{line}");
        for time in words[4..].iter().skip(1).step_by(2) {
            assert!(time.parse::<f64>().is_ok_and(|median_us| median_us > 0.0), "{line}");
        }
    }
    assert_eq!(lines[3], "");
    assert_eq!(lines.len(), 9, "{text}");
    for (line, name) in lines[5..].iter().zip(["write", "read", "atomic", "send"]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[3..8], [name, "2", "0", "0", "%"], "{line}");
    }
}

#[test]
fn writes_document() {
    let output = ping("--loopback -d soft0 -c 2 --json", NOTHING);
    assert_success(&output);
    let document = document(&output);
    let pair = &document["pairs"][0];
    assert_eq!(pair["peer_nic"], 0x12);
    assert_eq!(pair["failures"], serde_json::json!([]));
    for operation in pair["operations"].as_array().unwrap() {
        assert_eq!(operation["sent"], 2);
        let ns = |field: &str| operation[field].as_u64().expect("a time");
        assert!(ns("min_ns") <= ns("median_ns") && ns("median_ns") <= ns("max_ns"));
    }
}

/// The steps before the NIC of the peer: nothing else is tried.
#[test]
fn names_the_step_that_failed() {
    let disabled = ("CXIDIAG_SERVICES", "disabled");
    let down = ("CXIDIAG_FAULTS", "down=0s");
    let refused = ("CXIDIAG_FAULTS", "error=PT_DISABLED:1");
    let lost = ("CXIDIAG_FAULTS", "error=UNDELIVERABLE:1");
    for (variable, arguments, step, operations) in [
        (NOTHING, "nosuch.invalid -d soft0", "name", 1),
        (NOTHING, "127.0.0.1 -p 1 -d soft0", "tcp", 1),
        (NOTHING, "--loopback -d soft0 -v 77", "service", 1),
        (disabled, "--loopback -d soft0", "service", 1),
        (NOTHING, "--loopback -d cxi99", "device", 1),
        (down, "--loopback -d soft0", "link", 1),
        (refused, "--loopback -d soft0", "operation", 4),
        (lost, "--loopback -d soft0", "answer", 4),
    ] {
        let output = ping(&format!("-c 1 --json {arguments}"), variable);
        assert_status(&output, 1);
        let document = document(&output);
        let failures = document["pairs"][0]["failures"].as_array().unwrap();
        assert_eq!(failures.len(), operations, "{arguments}: {document:#}");
        for failure in failures {
            assert_eq!(failure["step"], step, "{arguments}: {failure:#}");
        }
        let message = stderr(&output);
        let counts = format!("{operations} of {operations} pings without an answer");
        assert!(message.contains(&counts), "{message}");
    }
}

/// A pair has one time limit for all kinds of operation.
#[test]
fn ends_runs_that_take_too_long() {
    let faults = ("CXIDIAG_FAULTS", "loss=1,retry=3600s");
    let output = ping("--loopback -d soft0 -c 1 --timeout=200ms", faults);
    assert_status(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("no answer: write-lat did not end within 200ms"), "{text}");
    assert_eq!(text.matches("FAILED").count(), 1, "{text}");
}

/// Servers that do not speak are told apart from hosts that are down and NICs that do not answer.
#[test]
fn names_servers_that_do_not_speak() {
    let silent = TcpListener::bind("127.77.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    thread::spawn(move || silent.incoming().collect::<Vec<_>>());
    let listen = |host: &str| TcpListener::bind((host, port)).expect("a free address");
    // The kernel accepts connections for a stopped process, until its queue is full.
    let stopped = listen("127.77.0.2");
    let full = listen("127.77.0.3");
    rustix::net::listen(&full, 0).expect("a shorter queue");
    let address = full.local_addr().expect("an address");
    let mut queue = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
        queue.push(stream);
    }
    let hosts: Vec<String> = (1..=4).map(|host| format!("127.77.0.{host}")).collect();
    let args = format!("{} -p {port} -d soft0 -c 1 --timeout=4s", hosts.join(" "));
    let output = ping(&args, NOTHING);
    let error = assert_status(&output, 1);
    assert!(error.contains("4 of 4 pings without an answer"), "{error}");
    let text = stdout(&output);
    let frozen = "    no handshake: accepts connections but does not speak within 4s: frozen or\n    \
                  another program";
    let ends = [frozen, frozen, "TCP: no connection within 4s", "connection refused"];
    for (host, end) in hosts.iter().zip(ends) {
        let (_, lines) = text.split_once(&format!("\n{host} ")).expect("a line");
        let lines = lines.split("\n1").next().expect("its lines");
        assert!(lines.contains(end), "{text}");
    }
    let hint = "\nhint: see on the host what listens on the port ";
    assert!(text.contains(hint), "{text}");
    drop((stopped, queue));
}

/// The first host is still being waited for when the second one is connected.
#[test]
fn measures_hosts_side_by_side() {
    let first = TcpListener::bind("127.77.0.6:0").expect("a port");
    let port = first.local_addr().expect("an address").port();
    let second = TcpListener::bind(("127.77.0.7", port)).expect("a free address");
    let servers = thread::spawn(move || {
        let (mut stream, _) = first.accept().expect("a connection");
        let other = second.accept().expect("a connection");
        // The name of the tool has arrived, or nothing; not the end.
        stream.set_nonblocking(true).expect("a socket");
        let ended = stream.read_to_end(&mut Vec::new());
        drop(other);
        ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    });
    let args = format!("127.77.0.6 127.77.0.7 -p {port} -d soft0 -c 1");
    let output = ping(&args, NOTHING);
    assert_status(&output, 1);
    assert!(servers.join().expect("two connections"));
    let text = stdout(&output);
    assert_eq!(text.matches("  no handshake: ").count(), 2, "{text}");
}

/// More pairs than are measured at a time.
#[test]
fn prints_hosts_in_the_order_of_the_arguments() {
    let hosts: Vec<String> = (1..=70).map(|host| format!("127.78.0.{host}")).collect();
    let output = ping(&format!("{} -p 1 -d soft0 -c 1", hosts.join(" ")), NOTHING);
    assert_status(&output, 1);
    let text = stdout(&output);
    let rows = text.lines().skip(1).filter(|line| !line.starts_with(' '));
    let named: Vec<_> = rows.filter_map(|line| line.split(' ').next()).take(70).collect();
    assert_eq!(named, hosts);
}

#[test]
fn hints_name_only_what_ping_has() {
    let fabric = Fabric::new();
    let server = fabric.server("serve", "-d soft0 --token=secret");
    let args = format!("ping localhost -p {} -d soft1 -c 1 --timeout=1m", server.port);
    let output = fabric.run(&args);
    assert_status(&output, 1);
    let text = stdout(&output);
    let hint = "\nhint: give both sides the same token, in CXIDIAG_TOKEN, or none\n";
    assert!(text.contains(hint), "{text}");
    let mut command = fabric.command(&args);
    command.env("CXIDIAG_TOKEN", "secret");
    assert_success(&finish(command));
}

#[test]
fn ends_without_a_nic_of_this_machine() {
    let output = ping("--loopback -d cxi99 -i 0", NOTHING);
    assert_status(&output, 1);
    let text = stdout(&output);
    assert_eq!(text.matches("write FAILED\n    device: ").count(), 1, "{text}");
    assert!(text.contains("\nhint: "), "{text}");
}

#[test]
fn prints_what_the_nic_reports_with_its_hint() {
    let faults = ("CXIDIAG_FAULTS", "error=PT_DISABLED@3");
    let output = ping("--loopback -d soft0 -c 1", faults);
    assert_status(&output, 1);
    let text = stdout(&output);
    assert!(text.contains(" send FAILED\n    NIC error: "), "{text}");
    assert!(text.contains("hint: the peer's portal is not open"), "{text}");
}

/// Two NICs answer, and a NIC that measures with another client is busy, not dead.
#[test]
fn distinguishes_busy_nics_from_dead_ones() {
    let fabric = Fabric::new();
    let server = fabric.server("serve", "-d soft0");
    let to = format!("ping localhost -p {} -i 0 --timeout=1m --json", server.port);
    let ping = |more: &str| {
        let mut command = fabric.command(&format!("{to} {more}"));
        command.env("CXIDIAG_NICS", "2");
        finish(command)
    };
    let all = ping("--all-nics -c 1");
    assert_success(&all);
    let pairs = &document(&all)["pairs"];
    for (pair, device) in [(0, "soft0"), (1, "soft1")] {
        assert_eq!(pairs[pair]["device"], device);
        assert_eq!(pairs[pair]["peer_device"], device);
    }
    // Until the client with the long gap is killed.
    let long = "-d soft5 --peer-device=soft0 -n 1 --latency-gap=1000000000000";
    let client = fabric.client_command("write-lat", &server, long).spawn();
    let client = client.expect("cxidiag starts");
    // After the runs of the ping, the log only counts the further ones of this host.
    let status = format!("serve --status -p {}", server.port);
    let measures = " write-lat on soft0: measures for ";
    while !stdout(&fabric.run(&status)).contains(measures) {}
    let busy = ping("-d soft1 -c 1 --timeout=8s");
    let verdict = assert_status(&busy, 4);
    assert!(verdict.contains("1 of 1 pings undecided"), "{verdict}");
    let failures = &document(&busy)["pairs"][0]["failures"];
    assert_eq!(failures.as_array().map(Vec::len), Some(1), "{failures:#}");
    assert_eq!(failures[0]["step"], "turn");
    let message = failures[0]["message"].as_str().expect("text");
    assert!(
        message.contains("did not end within 8s: waiting for soft0 of the server"),
        "{message}"
    );
    drop(client);
}

#[test]
fn refuses_invalid_arguments() {
    for (arguments, words) in [
        ("", &["expected a HOST, or --loopback"][..]),
        ("node1 --loopback", &["--loopback needs no host", "'node1'"]),
        ("node1 -c 0", &["--count", "'0'", "1 to 4294967295"]),
        ("node1 -i fast", &["--interval", "'fast'"]),
        ("node1 --timeout 0", &["--timeout", "'0'"]),
        ("node1 -d eth0", &["--device", "'eth0'", "expected cxiN"]),
        ("node1 -d cxi1 --all-nics", &["--all-nics and --device"]),
        ("node1 -p 0", &["--port", "'0'", "1 to 65535"]),
    ] {
        let output = ping(arguments, NOTHING);
        let message = assert_status(&output, 2);
        assert!(stdout(&output).is_empty() && message.lines().count() == 1, "{message}");
        for word in words {
            assert!(message.contains(word), "{arguments}: {message}");
        }
    }
}
