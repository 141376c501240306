//! Signals, terminals that close, and readers that go away: the run ends, informs the peer, and
//! prints what it has measured. `tests/connection/deaths.rs` sends signals in each phase.

use std::path::Path;

use crate::harness::paused::{Side, port};
use crate::harness::terminal::on_terminal;
use crate::harness::{
    CXIDIAG, Command, Fabric, assert_status, assert_success, finish, named, rows, stderr, stdout,
};

/// Starts a server of `tool` and a client with `options`, which stops at `pause`.
fn pair(fabric: &Fabric, tool: &str, options: &str, pause: Option<&str>) -> (Side, Side) {
    let command = fabric.command(&format!("{tool} -d soft0 -p 0"));
    let mut server = Side::start(command, None);
    let port = port(&mut server);
    let args = format!("{tool} 127.0.0.1 -p {port} -d soft1 {options}");
    (server, Side::start(fabric.command(&args), pause))
}

/// The run has measured one size and is in the next.
#[test]
fn prints_partial_results_after_a_signal() {
    for (tool, signal) in [("write-lat", "TERM"), ("send-lat", "HUP"), ("send-bw", "TERM")] {
        let fabric = Fabric::new();
        let (server, mut client) = pair(&fabric, tool, "-D 1 -s 8:1048576", None);
        loop {
            let line = client.next_line();
            assert!(!line.is_empty(), "no row of 8 bytes");
            if line.trim_start().starts_with("8  ") {
                break;
            }
        }
        // Two at once, as `timeout` sends them to its child and the child's group.
        client.signals_at_once([signal, "TERM"]);
        let ended = client.finish();
        let error = assert_status(&ended, 130);
        // Either may be seen first.
        let lines =
            [signal, "TERM"].map(|name| format!("cxidiag {tool}: interrupted by SIG{name}\n"));
        assert!(lines.contains(&error), "{error}");
        let text = stdout(&ended);
        assert!(text.contains("\nInterrupted: results are partial"), "{text}");
        assert!(!text.contains("\n     1048576 "), "it went on: {text}");
        let error = assert_status(&server.finish(), 1);
        assert!(error.contains("was interrupted"), "{error}");
        fabric.assert_nothing_left();
    }
}

/// Stops a client of the server at `port` while it measures, and returns its text.
fn stopped(fabric: &Fabric, (tool, options): (&str, &str), port: &str, signal: &str) -> String {
    let args = format!("{tool} 127.0.0.1 -p {port} -d soft1 --until-stopped {options}");
    let mut client = Side::start(fabric.command(&args), Some("measuring"));
    client.wait_for_pause();
    client.go_on();
    client.signal(signal);
    let output = client.finish();
    assert_success(&output);
    let text = stdout(&output);
    assert!(!rows(&text).is_empty(), "{tool} {options}: {text}");
    text
}

/// The signal is the regular end of both sides.
#[test]
fn ends_a_run_until_stopped_with_its_results() {
    for (run, signal) in [
        (("write-lat", ""), "INT"),
        (("read-lat", "--rate=1000"), "TERM"),
        (("atomic-lat", "--latency-gap=1m --warmup=0"), "INT"),
        (("send-lat", ""), "TERM"),
        (("send-lat", "--legacy-sync"), "INT"),
        (("write-bw", "-s 8 -l 4"), "INT"),
        (("read-bw", "-s 8 -l 4 -b --threads=2"), "TERM"),
        (("atomic-bw", "-l 4 --rate=10"), "INT"),
        (("send-bw", "-l 4"), "TERM"),
        (("send-bw", "-l 4 -b --rate=100"), "INT"),
    ] {
        let fabric = Fabric::new();
        let server = fabric.server(run.0, "-d soft0");
        let client = stopped(&fabric, run, &server.port, signal);
        let served = server.finish();
        assert_success(&served);
        for text in [client, stdout(&served)] {
            let line = text.lines().find(|line| line.starts_with("Test Type "));
            let is_named = line.is_some_and(|line| line.ends_with(": Until stopped"));
            assert!(is_named, "{run:?}: {text}");
        }
        fabric.assert_nothing_left();
    }
}

#[test]
fn stops_a_run_with_a_legacy_server() {
    for tool in ["write-lat", "send-lat"] {
        let fabric = Fabric::new();
        let server = fabric.legacy_server(tool);
        stopped(&fabric, (tool, ""), &server.port, "INT");
        let ended = server.finish();
        assert!(ended.status.success(), "{}", stderr(&ended));
    }
}

/// The server is stopped, so that the operation in progress does not end.
#[test]
fn interrupts_a_run_until_stopped_with_a_second_signal() {
    let fabric = Fabric::new();
    let (server, mut client) =
        pair(&fabric, "send-lat", "--until-stopped --warmup=0", Some("measuring"));
    client.wait_for_pause();
    server.signal("STOP");
    client.go_on();
    let status = client.signal_until_it_ends("INT");
    assert_eq!(status.code(), Some(130));
    server.signal("KILL");
    server.finish();
}

/// As systemd ends a service. Another signal is an interruption.
#[test]
fn ends_a_persistent_server_that_measures() {
    for (signal, status) in [("TERM", 0), ("INT", 130)] {
        let fabric = Fabric::new();
        let command = fabric.command("write-lat -d soft0 -p 0 --persist");
        let mut server = Side::start(command, None);
        let args = format!("write-lat 127.0.0.1 -p {} -d soft1 -D 3600", port(&mut server));
        let mut client = Side::start(fabric.command(&args), Some("measuring"));
        client.wait_for_pause();
        client.go_on();
        server.signal(signal);
        let lines = assert_status(&server.finish(), status);
        assert_eq!(lines, format!("cxidiag write-lat: interrupted by SIG{signal}\n"));
        let error = assert_status(&client.finish(), 1);
        assert!(error.contains("was interrupted"), "{error}");
        fabric.assert_nothing_left();
    }
}

/// The run waits for a reader of its output, and nothing reads: the first signal requests the end,
/// the second signal ends the run.
#[test]
fn ends_at_once_after_a_second_signal() {
    let fabric = Fabric::new();
    let options = "-n 20000 --warmup 0 --latency-gap 0 --report-all";
    let (server, mut client) = pair(&fabric, "write-lat", options, Some("reporting"));
    client.wait_for_pause();
    client.go_on();
    client.signal("HUP");
    // Signals that come at once count as one.
    let status = client.signal_until_it_ends("TERM");
    assert_eq!(status.code(), Some(130));
    drop(server);
    // A third signal ends the process without release: the next run removes what is left.
    fabric.loopback("write-lat", "-n 1");
    fabric.assert_nothing_left();
}

/// `cxidiag write-lat ... | head`
#[test]
fn ends_if_the_reader_of_its_output_goes_away() {
    for tool in ["write-lat", "send-bw"] {
        let fabric = Fabric::new();
        let (server, mut client) = pair(&fabric, tool, "-D 3600", None);
        client.next_line();
        client.close_stdout();
        assert_eq!(assert_status(&client.finish(), 1), "");
        assert_status(&server.finish(), 1);
        fabric.assert_nothing_left();
    }
}

#[test]
fn ends_a_waiting_server_if_the_reader_of_its_output_goes_away() {
    let fabric = Fabric::new();
    let mut server = Side::start(fabric.command("read-lat -d soft0 -p 0"), None);
    port(&mut server);
    server.close_stdout();
    assert_status(&server.finish(), 1);
    fabric.assert_nothing_left();
}

/// A client that is started with an ignored signal, and stops while it measures.
fn client_that_ignores(fabric: &Fabric, signal: &str, port: &str) -> Side {
    let mut command = match signal {
        "HUP" => fabric.command_of(Path::new("nohup"), CXIDIAG),
        // A background job of a script.
        "INT" => {
            fabric.command_of(Path::new("sh"), &["-c", "trap '' INT; exec \"$0\" \"$@\"", CXIDIAG])
        }
        _ => panic!("{signal}"),
    };
    command.env("LC_ALL", "C").args(["write-lat", "127.0.0.1", "-p", port, "-d"]).args([
        named("soft1"),
        "-n".into(),
        "3".into(),
    ]);
    let mut client = Side::start(command, Some("measuring"));
    client.wait_for_pause();
    client
}

#[test]
fn leaves_an_ignored_signal_ignored() {
    for signal in ["INT", "HUP"] {
        let fabric = Fabric::new();
        let server = fabric.server("write-lat", "-d soft0");
        let mut client = client_that_ignores(&fabric, signal, &server.port);
        client.signal(signal);
        client.go_on();
        assert_status(&client.finish(), 0);
        assert_success(&server.finish());
        fabric.assert_nothing_left();
    }
}

#[test]
fn ends_with_another_signal_than_the_ignored_one() {
    for signal in ["INT", "HUP"] {
        let fabric = Fabric::new();
        let server = fabric.server("write-lat", "-d soft0");
        let client = client_that_ignores(&fabric, signal, &server.port);
        client.signal(signal);
        client.signal("TERM");
        let error = assert_status(&client.finish(), 130);
        let line = "cxidiag write-lat: interrupted by SIGTERM\n";
        assert!(error.ends_with(line), "{error}");
        assert_status(&server.finish(), 1);
        fabric.assert_nothing_left();
    }
}

/// The server of a loopback run is another process of the terminal.
#[test]
fn ends_both_sides_of_a_loopback_run_with_the_terminal() {
    for (deed, name) in [("interrupt", "SIGINT"), ("close", "SIGHUP")] {
        let fabric = Fabric::new();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let errors = directory.path().join("stderr");
        let run = format!(
            "exec '{CXIDIAG}' write-lat -d soft0 --loopback -D 3600 2>'{}'",
            errors.display()
        );
        let command = on_terminal(&fabric, deed, "StdDev[us]\r\n", &run).expect("python3");
        let output = finish(command);
        assert_status(&output, 130);
        let errors = std::fs::read_to_string(errors).expect("text");
        assert_eq!(errors, format!("cxidiag write-lat: interrupted by {name}\n"));
        fabric.assert_nothing_left();
    }
}

#[test]
fn ends_the_server_of_a_loopback_run_if_its_client_is_killed() {
    let fabric = Fabric::new();
    let command = fabric.command("send-lat -d soft0 --loopback -D 3600");
    let mut client = Side::start(command, Some("measuring"));
    client.wait_for_pause();
    let server = child_of(client.id());
    client.signal("KILL");
    client.finish();
    // `tail` ends with the process.
    let gone =
        Command::new("tail").args(["--pid", &server, "-s", "0.1", "-f", "/dev/null"]).spawn();
    let mut gone = gone.expect("tail starts");
    assert!(gone.wait().success());
    fabric.loopback("write-lat", "-n 1");
    fabric.assert_nothing_left();
}

#[test]
fn names_the_signal_that_ended_the_server_of_a_loopback_run() {
    let fabric = Fabric::new();
    let command = fabric.command("write-lat -d soft0 --loopback -D 3600");
    let mut client = Side::start(command, Some("measuring"));
    client.wait_for_pause();
    let server = child_of(client.id());
    let killed = Command::new("kill").args(["-s", "KILL", &server]).status();
    assert!(killed.expect("kill starts").success());
    client.go_on();
    let errors = assert_status(&client.finish(), 1);
    assert_eq!(
        errors,
        "cxidiag write-lat: error: the server of the loopback run failed: signal 9 ended its process\n"
    );
    fabric.loopback("write-lat", "-n 1");
    fabric.assert_nothing_left();
}

fn child_of(process: u32) -> String {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).expect("a process");
    let child = children.split_whitespace().next().expect("a child");
    child.to_owned()
}
