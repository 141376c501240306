//! The control connection: unrelated connections, several addresses, clients that come early, late
//! and one after another, and hosts that vanish.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use crate::harness::hosts::Hosts;
use crate::harness::relay::start_echo;
use crate::harness::{
    CXIDIAG, Command, Fabric, Server, assert_status, assert_success, finish, stderr, stdout,
};

/// A message of the control connection.
fn message(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

/// Uses a connection as something that is no client.
type Use = fn(&mut TcpStream) -> io::Result<()>;

/// Kinds of unrelated connections. None waits for an answer, so that many can be open at a time.
const UNRELATED: [(&str, Use); 10] = [
    ("a port scan", |_| Ok(())),
    ("silence", |_| Ok(())),
    ("one byte", |stream| stream.write_all(b"x")),
    ("HTTP", |stream| stream.write_all(b"GET / HTTP/1.1\r\nHost: node1\r\n\r\n")),
    ("a TLS hello", |stream| stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")),
    ("another tool", |stream| stream.write_all(&message(b"cxi_read_lat\0"))),
    ("another version", |stream| {
        stream.write_all(&[message(b"cxi_write_lat\0"), message(b"1.0\0")].concat())
    }),
    ("an invalid length", |stream| stream.write_all(&[0xff; 4])),
    ("a reset", |stream| {
        // Closing a connection with unread bytes resets it.
        stream.write_all(&message(b"cxi_write_lat\0"))?;
        stream.peek(&mut [0]).map(drop)
    }),
    ("invalid options", |stream| {
        let greeting = [message(b"cxi_write_lat\0"), message(b"2.4.0\0")].concat();
        let options_and_address = [message(&[0xff; 129]), message(&[0; 8])].concat();
        stream.write_all(&[greeting, options_and_address].concat())
    }),
];

/// Rounds of all kinds: together more connections than a server reports one by one.
const ROUNDS: usize = 20;

#[test]
fn t16_serves_a_client_among_unrelated_connections() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0");
    let mut open = Vec::new();
    for round in 0..ROUNDS {
        for (kind, (name, use_it)) in UNRELATED.iter().enumerate() {
            let address = format!("127.0.0.1:{}", server.port);
            let mut stream = TcpStream::connect(address).expect(name);
            // The server may have closed the connection before everything was sent.
            let _ = use_it(&mut stream);
            // All port scans end, and half of the others.
            if kind != 0 && (round + kind) % 2 == 0 {
                open.push(stream);
            }
        }
    }
    let client = fabric.client("write-lat", &server, "-d soft1 -n 5");
    assert_success(&client);
    let text = stdout(&client);
    let row = text.lines().rev().nth(1).expect("a row");
    assert_eq!(row.split_whitespace().take(2).collect::<Vec<_>>(), ["8", "5"]);
    let server = server.finish();
    let notes = assert_status(&server, 0);
    for words in [
        "ignored a connection from 127.0.0.1:",
        "it closed the connection",
        "speaks another protocol",
        "cxi_read_lat at the peer",
        "1.0 at the peer",
        "sent invalid options",
        "connections before this client\n",
        "clients before this client\n",
    ] {
        assert!(notes.contains(words), "no {words:?} in {notes}");
    }
    assert!(notes.lines().count() < 60, "{notes}");
    fabric.assert_nothing_left();
}

/// Silent connections take all descriptors of the server, and one of them is closed for the client.
#[test]
fn serves_a_client_without_free_descriptors() {
    let fabric = Fabric::new();
    let args = format!("--nofile=64 {CXIDIAG} write-lat -d soft0 -p 0");
    let server = Server::start(fabric.command_of(Path::new("prlimit"), &args));
    let address = format!("127.0.0.1:{}", server.port);
    let silent = (0..80).map(|_| TcpStream::connect(&address).expect("a connection"));
    let silent: Vec<TcpStream> = silent.collect();
    assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 5"));
    let notes = assert_status(&server.finish(), 0);
    assert!(
        notes.contains("replaced by newer connections (limit of open files (ulimit -n))"),
        "{notes}"
    );
    drop(silent);
}

/// A port that echoes what it receives is no peer, and no command blames a NIC.
#[test]
fn refuses_peer_that_sends_back_what_it_receives() {
    let port = start_echo();
    let reflects = "it sends back what it receives";
    for (command, reason) in [
        ("write-lat -d soft0 -n 5 127.0.0.1", reflects),
        ("send-bw -d soft0 -n 5 127.0.0.1", reflects),
        ("send-lat -d soft0 -n 5 --token=secret-of-this-test 127.0.0.1", reflects),
        ("selftest -d soft0 --only=peer/send-bandwidth --peer=127.0.0.1", reflects),
        ("ping -d soft0 -c 1 127.0.0.1", reflects),
        ("check --hosts=127.0.0.1", reflects),
        ("survey --hosts=127.0.0.1 -d soft0", reflects),
    ] {
        let fabric = Fabric::new();
        let output = finish(fabric.command(&format!("{command} -p {port}")));
        let error = stderr(&output);
        // Tables break long reasons.
        let text = format!("{}{error}", stdout(&output));
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(reason), "{command}: {text}");
        let status = output.status.code();
        assert!(matches!(status, Some(1 | 4)), "{command}: {status:?} {text}");
        fabric.assert_nothing_left();
    }
}

#[test]
fn connects_by_ipv6_and_by_name() {
    let fabric = Fabric::new();
    for (bind, host) in [
        ("--bind ::1", "::1"),
        ("--bind ::1", "[::1]"),
        ("--bind localhost", "localhost"),
        ("", "::1"),
    ] {
        let server = fabric.server("write-lat", &format!("-d soft0 {bind}"));
        let args = format!("write-lat {host} -p {} -d soft1 -n 3", server.port);
        assert_success(&fabric.run(&args));
        assert_success(&server.finish());
    }
}

/// A port without a listener. The kernel gives it to no other process while this value exists, but
/// a process that names the port may listen on it.
struct FreePort {
    _socket: OwnedFd,
    number: u16,
}

impl FreePort {
    fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        set_socket_reuseaddr(&socket, true).expect("an option of Linux");
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let address = getsockname(&socket).expect("an address");
        let address = SocketAddrV4::try_from(address).expect("an address of IPv4");
        Self { _socket: socket, number: address.port() }
    }
}

#[test]
fn waits_for_a_server_that_starts_late() {
    let fabric = Fabric::new();
    let FreePort { _socket, number } = FreePort::new();
    let args = format!("write-lat 127.0.0.1 -p {number} -d soft1 -n 3 --wait=60");
    let mut client = fabric.command(&args).spawn().expect("cxidiag starts");
    let mut notes = BufReader::new(client.stderr.take().expect("a pipe"));
    let mut line = String::new();
    notes.read_line(&mut line).expect("a line");
    for words in ["connection refused", "waiting up to 1m\n"] {
        assert!(line.contains(words), "{line}");
    }
    let server = Server::start(fabric.command(&format!("write-lat -d soft0 -p {number}")));
    let status = client.wait();
    let mut rest = String::new();
    notes.read_to_string(&mut rest).expect("a pipe");
    assert!(status.success() && rest.is_empty(), "{rest}");
    assert_success(&server.finish());
}

#[test]
fn fails_after_waiting_for_a_server_in_vain() {
    let FreePort { _socket, number } = FreePort::new();
    let args = format!("write-lat 127.0.0.1 -p {number} -d soft1 --wait=500ms");
    let error = assert_status(&Fabric::new().run(&args), 1);
    assert!(error.contains("; waiting up to 500ms\n"), "{error}");
    assert_eq!(error.matches("connection refused").count(), 2, "{error}");
}

/// One of five clients is killed while measuring, one sends garbage, and one waits for another.
#[test]
fn serves_one_client_after_another_with_persist() {
    let fabric = Fabric::new();
    let mut server = fabric.server("write-lat", "-d soft0 --persist");
    let client = "-d soft1 -n 3 --wait=60";
    assert_success(&fabric.client("write-lat", &server, client));
    server.wait_for_line("Serving client 127.0.0.1:");

    let long = "-d soft1 --latency-gap=1000000000000 --wait=60";
    let mut measuring = fabric.client_command("write-lat", &server, long);
    let measuring = measuring.stderr(Stdio::null()).spawn();
    let mut measuring = measuring.expect("cxidiag starts");
    server.wait_for_line("Serving client 127.0.0.1:");
    server.wait_for_line("Remote (client)");
    let refused = fabric.client("write-lat", &server, "-d soft2 -n 3");
    let error = assert_status(&refused, 1);
    assert!(error.contains("is busy: serving 127.0.0.1 for "), "{error}");
    let mut waiting = fabric.client_command("write-lat", &server, "-d soft2 -n 3 --wait=60");
    let mut waiting = waiting.spawn().expect("cxidiag starts");
    let mut notes = BufReader::new(waiting.stderr.take().expect("a pipe"));
    let mut line = String::new();
    // On a busy machine, a note about a slow answer may come first.
    while !line.contains(" is busy: ") {
        line.clear();
        assert_ne!(notes.read_line(&mut line).expect("a line"), 0);
    }
    let words = [" is busy: serving 127.0.0.1 for ", "; waiting up to 1m\n"];
    assert!(words.iter().all(|words| line.contains(words)), "{line}");
    measuring.kill();
    assert!(waiting.finish().status.success());

    // It listened before it served this client, too.
    server.wait_for_line("Serving client 127.0.0.1:");
    server.wait_for_line("Listening on port ");
    let garbage = TcpStream::connect(format!("127.0.0.1:{}", server.port));
    let mut garbage = garbage.expect("a connection");
    garbage.write_all(&[0xff; 99]).expect("a connection");
    // The server may have reset it by now.
    let _ = garbage.shutdown(Shutdown::Write);
    assert!(matches!(garbage.read(&mut [0]), Ok(0) | Err(_)));
    assert_status(&fabric.client("write-lat", &server, client), 0);

    server.wait_for_line("Listening on port ");
    server.kill();
    let notes = stderr(&server.finish());
    for words in ["the peer (127.0.0.1:", "ignored a connection"] {
        assert!(notes.contains(words), "{notes}");
    }
}

/// The environment of a process in job `id`.
fn in_job(mut command: Command, id: &str) -> Command {
    command.env("SLURM_JOB_ID", id);
    command
}

#[test]
fn server_ends_if_no_client_comes() {
    let fabric = Fabric::new();
    for persist in ["", "--persist"] {
        let server = fabric.server("write-lat", &format!("-d soft0 --timeout=100ms {persist}"));
        let line = format!("no client came to TCP port {} within 100ms\n", server.port);
        let error = assert_status(&server.finish(), 1);
        assert_eq!(error, format!("cxidiag write-lat: error: {line}"));
    }
    fabric.assert_nothing_left();
}

#[test]
fn server_in_batch_job_names_its_time_limit() {
    let fabric = Fabric::new();
    let note = "Slurm job 7: the server ends if no client comes within 5m (see --timeout)\n";
    for (options, expected) in
        [("", format!("cxidiag write-lat: {note}")), ("--timeout=0", String::new())]
    {
        let command = fabric.command(&format!("write-lat -d soft0 -p 0 {options}"));
        let server = Server::start(in_job(command, "7"));
        assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 3"));
        assert_eq!(assert_status(&server.finish(), 0), expected);
    }
    let loopback = fabric.command("write-lat -d soft0 --loopback -n 3");
    assert_success(&finish(in_job(loopback, "7")));
}

#[test]
fn both_sides_refuse_a_peer_of_another_job() {
    let fabric = Fabric::new();
    let command = fabric.command("write-lat -d soft0 -p 0 --timeout=0");
    let server = Server::start(in_job(command, "11"));
    let client = |job: &str, option: &str| {
        let options = format!("-d soft1 -n 3 {option}");
        let command = fabric.client_command("write-lat", &server, &options);
        finish(in_job(command, job))
    };
    let error = assert_status(&client("12", ""), 1);
    let words = "different jobs: Slurm job 12 here, Slurm job 11 at the peer (127.0.0.1:";
    assert!(error.contains(words), "{error}");
    assert!(error.contains("--any-job"), "{error}");
    assert_success(&client("12", "--any-job"));
    let notes = assert_status(&server.finish(), 0);
    let words = "refused a client: different jobs: Slurm job 11 here, Slurm job 12 at the peer (";
    assert!(notes.contains(words), "{notes}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
}

#[test]
fn both_sides_need_the_same_token() {
    let fabric = Fabric::new();
    let mut command = fabric.command("write-lat -d soft0 -p 0");
    command.env("CXIDIAG_TOKEN", "s3cret");
    let server = Server::start(command);
    let client = |options: &str| {
        let options = format!("-d soft1 -n 3 --json {options}");
        fabric.client("write-lat", &server, &options)
    };
    let mut notes = String::new();
    for (options, words) in [
        ("", "tokens differ: not set here, set at the peer (127.0.0.1:"),
        ("--token=other", "tokens differ: set here, another one at the peer ("),
    ] {
        let refused = client(options);
        notes += &assert_status(&refused, 1);
        assert!(notes.contains(words), "{notes}");
        notes += &stdout(&refused);
    }
    let measured = client("--token=s3cret");
    notes += &assert_status(&measured, 0);
    notes += &stdout(&measured);
    let served = server.finish();
    notes += &assert_status(&served, 0);
    assert!(notes.contains("tokens differ: set here, not set at the peer ("), "{notes}");
    notes += &stdout(&served);
    for secret in ["s3cret", "other\""] {
        assert!(!notes.contains(secret), "{notes}");
    }
    // The second process gets it, too.
    let both = finish(fabric.command("write-lat --loopback -d soft0 -n 3 --token=s3cret"));
    assert_success(&both);
}

#[test]
fn writes_the_port_to_a_file_while_it_listens() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("port");
    for option in ["", "--persist"] {
        std::fs::write(&path, "1\n").expect("a file");
        let options = format!("-d soft0 {option} --port-file={}", path.display());
        let mut server = fabric.server("write-lat", &options);
        let text = std::fs::read_to_string(&path).expect("a port");
        assert_eq!(text, format!("{}\n", server.port));
        assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 3"));
        if !option.is_empty() {
            // The run is over.
            server.wait_for_line("Listening");
            end(server.id());
        }
        assert_success(&server.finish());
        let left = std::fs::read_dir(directory.path()).expect("a directory");
        assert_eq!(left.count(), 0, "{option}");
    }
    let missing = fabric.run("write-lat -d soft0 -p 0 --port-file=/no/such/file");
    let error = assert_status(&missing, 1);
    assert!(error.contains("cannot write /no/such/file"), "{error}");
    assert_eq!(stdout(&missing), "");
}

/// A client measures. A server of one client has closed its port, and another one still answers:
/// its answers are no phase of the run.
#[test]
fn port_file_exists_as_long_as_clients_can_connect() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("port");
    for persist in [false, true] {
        let option = if persist { "--persist" } else { "" };
        let options = format!("write-lat -d soft0 -p 0 {option} --port-file={}", path.display());
        let mut command = fabric.command(&options);
        command.env("CXIDIAG_TEST_PAUSE_AT", "names:2");
        let mut server = Server::start(command);
        let endless = "-d soft1 --latency-gap=1000000000000";
        let mut client = fabric.client_command("write-lat", &server, endless);
        let client = client.stderr(Stdio::null()).spawn();
        let mut client = client.expect("cxidiag starts");
        server.wait_for_line("Remote (client)");
        assert_eq!(path.exists(), persist);
        let refused = fabric.client("write-lat", &server, "-d soft2 -n 3");
        let error = assert_status(&refused, 1);
        let reason = if persist { " is busy: " } else { "refused" };
        assert!(error.contains(reason), "{error}");
        client.kill();
        if persist {
            server.wait_for_line("Listening on port ");
            end(server.id());
        }
        let notes = stderr(&server.finish());
        assert!(!notes.contains("paused"), "{notes}");
        assert!(!path.exists());
    }
}

/// Sends SIGTERM.
fn end(process: u32) {
    let status = Command::new("kill").arg(process.to_string()).status();
    assert!(status.expect("kill starts").success());
}

/// The client is between two iterations, the server waits for the end of the size: neither sends a
/// byte, and both notice.
#[test]
fn ends_both_sides_if_a_host_vanishes() {
    let Some(hosts) = Hosts::new() else {
        println!("skipped: network namespaces need root and the program ip");
        return;
    };
    let fabric = Fabric::new();
    hosts.set_cable("up");
    let running = ["write-lat", "send-lat"].map(|tool| {
        let args = format!("{tool} -d soft0 -p 0");
        let mut server = Server::start(hosts.command(0, &fabric, &args));
        let args = format!(
            "{tool} 10.99.0.1 -p {} -d soft1 --latency-gap=1000000000000 --wait=60",
            server.port
        );
        let client = hosts.command(1, &fabric, &args).spawn();
        server.wait_for_line("Remote (client)");
        // The ready barrier follows the last line of the summary.
        server.next_line();
        (tool, server, client.expect("cxidiag starts"))
    });
    hosts.set_cable("down");
    for (tool, server, client) in running {
        for (side, output) in [("client", client.finish()), ("server", server.finish())] {
            let error = assert_status(&output, 1);
            let words = "its host does not answer";
            assert!(error.contains(words), "{tool} {side}: {error}");
        }
    }
}
