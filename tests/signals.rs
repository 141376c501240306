//! Signals, terminals that go away, and readers that have seen enough: the run ends, tells the
//! peer, and leaves what was measured. `tests/deaths.rs` sends them at every phase.

mod harness;

use std::path::Path;
use std::process::Command;

use harness::paused::{Side, port};
use harness::{CXIDIAG, Fabric, Running, assert_success, stderr, stdout};

const TERMINAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/harness/terminal.py");

fn server(fabric: &Fabric, tool: &str) -> (Side, String) {
    let mut server = Side::start(fabric.command(&[tool, "-d", "soft0", "-p", "0"]), None);
    let port = port(&mut server);
    (server, port)
}

fn client(fabric: &Fabric, tool: &str, port: &str, options: &[&str], pause: Option<&str>) -> Side {
    let args = [tool, "127.0.0.1", "-p", port, "-d", "soft1"];
    Side::start(fabric.command(&[&args, options].concat()), pause)
}

/// Reads what a client prints until a line that begins with `start`.
fn read_until(client: &mut Side, start: &str) -> String {
    let mut text = String::new();
    loop {
        let line = client.next_line();
        assert!(!line.is_empty(), "no line begins with {start:?}: {text}");
        text += &line;
        if line.trim_start().starts_with(start) {
            return text;
        }
    }
}

/// In full swing, behind a size that was measured and in another one.
#[test]
fn a_signal_ends_a_run_with_what_there_is() {
    for (tool, signal, row) in [
        ("write-lat", "TERM", "8  "),
        ("send-lat", "HUP", "8  "),
        ("send-bw", "TERM", "8  "),
    ] {
        let fabric = Fabric::new();
        let (server, port) = server(&fabric, tool);
        let timed = ["-D", "1", "-s", "8:1048576"];
        let mut client = client(&fabric, tool, &port, &timed, None);
        read_until(&mut client, row);
        // Two at once, as `timeout` does with its child and the child's group.
        client.signals_at_once([signal, "TERM"]);
        let ended = client.finish();
        assert_eq!(ended.status.code(), Some(130), "{ended:?}");
        // Whichever of the two was seen first.
        let said = stderr(&ended);
        assert!(
            [signal, "TERM"]
                .iter()
                .any(|name| said == format!("cxidiag {tool}: interrupted by SIG{name}\n")),
            "{said}"
        );
        let text = stdout(&ended);
        assert!(
            text.contains("\nInterrupted: results are partial"),
            "{text}"
        );
        assert!(!text.contains("\n     1048576 "), "it went on: {text}");
        let missed = server.finish();
        assert_eq!(missed.status.code(), Some(1), "{missed:?}");
        let said = stderr(&missed);
        assert!(said.contains("was interrupted"), "{said}");
        fabric.assert_nothing_left();
    }
}

/// A run that waits for somebody to read what it prints is asked to end, and then told to: nobody
/// has to read for it to end.
#[test]
fn a_second_signal_ends_a_run_at_once() {
    {
        let fabric = Fabric::new();
        let (server, port) = server(&fabric, "write-lat");
        let all = [
            "-n",
            "20000",
            "--warmup",
            "0",
            "--latency-gap",
            "0",
            "--report-all",
        ];
        let client = client(&fabric, "write-lat", &port, &all, Some("reporting"));
        let mut client = client;
        client.wait_for_pause();
        client.go_on();
        client.signal("HUP");
        // Those that come at once mean the same, and are not counted.
        let status = client.signal_until_it_ends("TERM");
        assert_eq!(status.code(), Some(130));
        drop(server);
        // Released by the run, or by the next one where the process was told to end a third time.
        assert_success(&fabric.run(&["write-lat", "-d", "soft0", "--loopback", "-n", "1"]));
        fabric.assert_nothing_left();
    }
}

/// `cxidiag write-lat ... | head`: the reader goes away.
#[test]
fn a_closed_output_ends_a_run() {
    for tool in ["write-lat", "send-bw"] {
        let fabric = Fabric::new();
        let (server, port) = server(&fabric, tool);
        let mut client = client(&fabric, tool, &port, &["-D", "3600"], None);
        client.next_line();
        client.close_stdout();
        let ended = client.finish();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        assert_eq!(stderr(&ended), "");
        let missed = server.finish();
        assert_eq!(missed.status.code(), Some(1), "{missed:?}");
        fabric.assert_nothing_left();
    }
}

/// A server whose reader goes away while it waits.
#[test]
fn a_closed_output_ends_a_wait_for_clients() {
    let fabric = Fabric::new();
    let (mut server, _) = server(&fabric, "read-lat");
    server.close_stdout();
    let ended = server.finish();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    fabric.assert_nothing_left();
}

/// `nohup`, and background jobs of scripts: what was ignored stays ignored.
#[test]
fn an_ignored_signal_stays_ignored() {
    let fabric = Fabric::new();
    let (server, port) = server(&fabric, "write-lat");
    let args = [
        "write-lat",
        "127.0.0.1",
        "-p",
        &port,
        "-d",
        "soft1",
        "-n",
        "3",
    ];
    let mut command = fabric.command_of(Path::new("nohup"), &[&[CXIDIAG], &args[..]].concat());
    command.env("LC_ALL", "C");
    let mut client = Side::start(command, Some("measuring"));
    client.wait_for_pause();
    client.signal("HUP");
    client.go_on();
    let ended = client.finish();
    assert!(ended.status.success(), "{ended:?}");
    assert_success(&server.finish());
}

/// What a terminal does to a loopback run, whose server is a process of its own.
#[test]
fn a_terminal_ends_a_run() {
    // What it does when it shows the header of the table, and what cxidiag says of it.
    for (deed, name) in [("interrupt", "SIGINT"), ("close", "SIGHUP")] {
        let fabric = Fabric::new();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let said = directory.path().join("stderr");
        let run = format!(
            "exec '{CXIDIAG}' write-lat -d soft0 --loopback -D 3600 2>'{}'",
            said.display()
        );
        let output = fabric
            .command_of(
                Path::new("python3"),
                &[TERMINAL, deed, "StdDev[us]\r\n", &run],
            )
            .output()
            .expect("python3 starts");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let said = std::fs::read_to_string(said).expect("text");
        assert_eq!(said, format!("cxidiag write-lat: interrupted by {name}\n"));
        fabric.assert_nothing_left();
    }
}

/// Its server ends with it, whatever becomes of it.
#[test]
fn the_server_of_a_loopback_run_ends_with_it() {
    let fabric = Fabric::new();
    let args = ["send-lat", "-d", "soft0", "--loopback", "-D", "3600"];
    let mut client = Side::start(fabric.command(&args), Some("measuring"));
    client.wait_for_pause();
    let server = child_of(client.id());
    client.signal("KILL");
    client.finish();
    // A pidfd-like wait of the shell: `tail` ends with the process.
    let gone = Command::new("tail")
        .args(["--pid", &server, "-f", "/dev/null"])
        .spawn();
    let mut gone = Running(gone.expect("tail starts"));
    assert!(gone.0.wait().expect("an exit status").success());
    assert_success(&fabric.run(&["write-lat", "-d", "soft0", "--loopback", "-n", "1"]));
    fabric.assert_nothing_left();
}

fn child_of(process: u32) -> String {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).expect("a process");
    children
        .split_whitespace()
        .next()
        .expect("a child")
        .to_owned()
}
