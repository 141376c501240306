//! The control connection among strangers, on several addresses, with clients that come early, late,
//! one after another, and with hosts that vanish.

mod harness;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;

use harness::{Fabric, Running, Server, assert_success, finish_or_kill, stderr, stdout};

/// A message of the control connection.
fn message(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

/// Something that connects, and is no client.
type Stray = fn(&mut TcpStream) -> std::io::Result<()>;

/// Ten kinds of them. None waits for an answer, so that any number of them is there at a time.
const STRAYS: [(&str, Stray); 10] = [
    ("a port scan", |_| Ok(())),
    ("silence", |_| Ok(())),
    ("one byte", |stream| stream.write_all(b"x")),
    ("HTTP", |stream| {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: node1\r\n\r\n")
    }),
    ("a TLS hello", |stream| {
        stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    }),
    ("another tool", |stream| {
        stream.write_all(&message(b"cxi_read_lat\0"))
    }),
    ("another version", |stream| {
        stream.write_all(&[message(b"cxi_write_lat\0"), message(b"1.0\0")].concat())
    }),
    ("a length that cannot be", |stream| {
        stream.write_all(&[0xff; 4])
    }),
    ("a reset", |stream| {
        // What arrives after the other side has gone is answered with a reset, and so is a close
        // with bytes unread.
        stream.write_all(&message(b"cxi_write_lat\0"))?;
        stream.peek(&mut [0]).map(drop)
    }),
    ("options that cannot be", |stream| {
        let greeting = [message(b"cxi_write_lat\0"), message(b"2.4.0\0")].concat();
        let options_and_address = [message(&[0xff; 129]), message(&[0; 8])].concat();
        stream.write_all(&[greeting, options_and_address].concat())
    }),
];

#[test]
fn t16_a_thousand_strangers_and_a_client() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", &["-d", "soft0"]);
    let mut open = Vec::new();
    for round in 0..100 {
        for (kind, (name, stray)) in STRAYS.iter().enumerate() {
            let address = format!("127.0.0.1:{}", server.port);
            let mut stream = TcpStream::connect(address).expect(name);
            // The server may have let go before all has been said.
            let _ = stray(&mut stream);
            // Some stay for ever, others go: all port scans, and half of the rest.
            if kind != 0 && (round + kind) % 2 == 0 {
                open.push(stream);
            }
        }
    }
    let client = fabric.client("write-lat", &server, &["-d", "soft1", "-n", "5"]);
    assert_success(&client);
    let row = stdout(&client);
    let row = row.lines().rev().nth(1).expect("a row");
    assert_eq!(
        row.split_whitespace().take(2).collect::<Vec<_>>(),
        ["8", "5"]
    );
    let server = server.finish();
    assert!(server.status.success(), "{server:?}");
    let said = stderr(&server);
    for word in [
        "ignored a connection from 127.0.0.1:",
        "it closed the connection",
        "speaks another protocol",
        "cxi_read_lat at the peer",
        "1.0 at the peer",
        "sent invalid options",
        "connections before this client\n",
        "clients before this client\n",
    ] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
    assert!(said.lines().count() < 60, "{said}");
    fabric.assert_nothing_left();
}

#[test]
fn ipv6_and_names() {
    let fabric = Fabric::new();
    for (bind, host) in [("::1", "::1"), ("::1", "[::1]"), ("localhost", "localhost")] {
        let server = fabric.server("write-lat", &["-d", "soft0", "--bind", bind]);
        let args = [
            "write-lat",
            host,
            "-p",
            &server.port,
            "-d",
            "soft1",
            "-n",
            "3",
        ];
        assert_success(&fabric.run(&args));
        assert_success(&server.finish());
    }
    let server = fabric.server("write-lat", &["-d", "soft0"]);
    let args = [
        "write-lat",
        "::1",
        "-p",
        &server.port,
        "-d",
        "soft1",
        "-n",
        "3",
    ];
    assert_success(&fabric.run(&args));
    assert_success(&server.finish());
}

/// A port that nobody listens on, for a moment at least.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener
        .local_addr()
        .expect("an address")
        .port()
        .to_string()
}

#[test]
fn a_client_waits_for_a_server_that_starts_late() {
    let fabric = Fabric::new();
    let port = free_port();
    let args = [
        "write-lat",
        "127.0.0.1",
        "-p",
        &port,
        "-d",
        "soft1",
        "-n",
        "3",
        "--wait=60",
    ];
    let mut client = Running(fabric.command(&args).spawn().expect("cxidiag starts"));
    let mut said = BufReader::new(client.0.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(
        line.contains("connection refused") && line.contains("waiting up to 60 s"),
        "{line}"
    );
    let server = Server::start(fabric.command(&["write-lat", "-d", "soft0", "-p", &port]));
    let status = client.0.wait().expect("an exit status");
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("a pipe");
    assert!(status.success() && rest.is_empty(), "{rest}");
    assert_success(&server.finish());
}

#[test]
fn a_client_that_waits_in_vain_says_so() {
    let args = [
        "write-lat",
        "127.0.0.1",
        "-p",
        &free_port(),
        "-d",
        "soft1",
        "--wait=1",
    ];
    let output = Fabric::new().run(&args);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert_eq!(said.matches("connection refused").count(), 2, "{said}");
}

/// Five come, one of them to die in the middle, one of them with garbage; and two at the same time,
/// of which one has to wait.
#[test]
fn a_persistent_server_serves_one_client_after_another() {
    let fabric = Fabric::new();
    let mut server = fabric.server("write-lat", &["-d", "soft0", "--persist"]);
    let wait = ["-d", "soft1", "-n", "3", "--wait=60"];
    assert_success(&fabric.client("write-lat", &server, &wait));

    let long = ["-d", "soft1", "--latency-gap=1000000000000", "--wait=60"];
    let client = fabric
        .client_command("write-lat", &server, &long)
        .stderr(Stdio::null())
        .spawn();
    let mut client = Running(client.expect("cxidiag starts"));
    let mut served = 0;
    while served < 2 {
        served += usize::from(server.next_line().starts_with("Serving client 127.0.0.1:"));
    }
    while !server.next_line().starts_with("Remote (client)") {}
    let refused = fabric.client("write-lat", &server, &["-d", "soft2", "-n", "3"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("connection refused"),
        "{refused:?}"
    );
    let waiting = fabric.client_command(
        "write-lat",
        &server,
        &["-d", "soft2", "-n", "3", "--wait=60"],
    );
    let mut waiting = { waiting }.spawn().expect("cxidiag starts");
    let mut told = BufReader::new(waiting.stderr.take().expect("a pipe"));
    told.read_line(&mut String::new()).expect("a line");
    client.0.kill().expect("a running client");
    assert!(finish_or_kill(waiting).status.success());

    let mut garbage = None;
    while garbage.is_none() {
        garbage = TcpStream::connect(format!("127.0.0.1:{}", server.port)).ok();
    }
    let mut garbage = garbage.expect("a connection");
    garbage.write_all(&[0xff; 99]).expect("a connection");
    // The server may have reset it by now.
    let _ = garbage.shutdown(Shutdown::Write);
    assert!(matches!(garbage.read(&mut [0]), Ok(0) | Err(_)));
    let last = fabric.client("write-lat", &server, &wait);
    assert!(last.status.success(), "{last:?}");

    while !server.next_line().starts_with("Listening on port ") {}
    server.kill();
    let server = server.finish();
    let said = stderr(&server);
    assert!(
        said.contains("the peer (127.0.0.1:") && said.contains("ignored a connection"),
        "{said}"
    );
}

/// Two hosts on a cable: network namespaces, which only root may make. Gone with this value.
struct Hosts {
    names: [String; 2],
}

impl Hosts {
    /// Of them, the first has 10.99.0.1, the second 10.99.0.2.
    fn new() -> Option<Self> {
        let names = ["a", "b"].map(|name| format!("cxidiag-{}-{name}", std::process::id()));
        let [a, b] = &names;
        let mut made = ip(&["netns", "add", a]) && ip(&["netns", "add", b]);
        let hosts = Self {
            names: [a.clone(), b.clone()],
        };
        made &= ip(&[
            "link", "add", "cable", "netns", a, "type", "veth", "peer", "cable", "netns", b,
        ]);
        for (name, address) in [(a, "10.99.0.1/24"), (b, "10.99.0.2/24")] {
            made &= ip(&["-n", name, "address", "add", address, "dev", "cable"]);
            made &= ip(&["-n", name, "link", "set", "cable", "up"]);
        }
        made.then_some(hosts)
    }

    /// Pulls the cable.
    fn part(&self) {
        assert!(ip(&["-n", &self.names[0], "link", "set", "cable", "down"]));
    }

    /// The program on one of them.
    fn command(&self, host: usize, fabric: &Fabric, args: &[&str]) -> std::process::Command {
        let front = ["netns", "exec", &self.names[host], harness::CXIDIAG];
        fabric.command_of(std::path::Path::new("ip"), &[&front, args].concat())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "delete", name]);
        }
    }
}

fn ip(args: &[&str]) -> bool {
    let status = std::process::Command::new("ip")
        .args(args)
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// The client is in a pause of its measurement, the server waits for the end of it: neither
/// sends a byte, and both notice.
#[test]
fn a_host_that_vanishes_ends_both_sides() {
    let Some(hosts) = Hosts::new() else {
        println!("skipped: network namespaces need root and the program ip");
        return;
    };
    let fabric = Fabric::new();
    for tool in ["write-lat", "send-lat"] {
        let _ = ip(&["-n", &hosts.names[0], "link", "set", "cable", "up"]);
        let args = [tool, "-d", "soft0", "-p", "0"];
        let mut server = Server::start(hosts.command(0, &fabric, &args));
        let gap = "--latency-gap=1000000000000";
        let args = [
            tool,
            "10.99.0.1",
            "-p",
            &server.port,
            "-d",
            "soft1",
            gap,
            "--wait=60",
        ];
        let client = hosts.command(1, &fabric, &args).spawn();
        while !server.next_line().starts_with("Remote (client)") {}
        // Behind the last line of the summary is the ready barrier.
        server.next_line();
        hosts.part();
        let client = finish_or_kill(client.expect("cxidiag starts"));
        for (side, output) in [("server", server.finish()), ("client", client)] {
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{tool} {side}: {said}");
            assert!(
                said.contains("its host does not answer"),
                "{tool} {side}: {said}"
            );
        }
    }
}
