//! `cxidiag serve`: the server of all tools and NICs, and `--peer-device` of its clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::LazyLock;
use std::thread;

use rustix::net::{AddressFamily, SocketType};

use crate::harness::legacy::block;
use crate::harness::paused::Side;
use crate::harness::relay::Relay;
use crate::harness::{
    CXIDIAG, Command, Fabric, LIBCXI, Process, Server, assert_status, assert_success, finish,
    is_notice, stderr, stdout, tools, whole_stderr,
};

/// Starts a server whose clients measure with soft0 unless they ask for another NIC.
fn serve(fabric: &Fabric, args: &str) -> Server {
    fabric.server("serve", &format!("-d soft0 {args}"))
}

/// Sends a signal, such as TERM.
fn signal(process: u32, name: &str) {
    let process = process.to_string();
    let status = Command::new("kill").args(["-s", name, &process]).status();
    assert!(status.expect("kill starts").success());
}

/// Ends a server as a service manager does, and returns the rest of what it printed.
#[track_caller]
fn stop(server: Server) -> String {
    signal(server.id(), "TERM");
    let output = server.finish();
    assert_status(&output, 0);
    stdout(&output)
}

/// Starts a client that measures until it is ended, and waits until the server lets it.
fn measuring(fabric: &Fabric, server: &mut Server, args: &str) -> Process {
    let args = format!("-d soft1 -n 1 --latency-gap=1000000000000 {args}");
    let client = fabric.client_command("write-lat", server, &args).spawn();
    let client = client.expect("cxidiag starts");
    server.wait_for(": begins\n");
    client
}

/// The next line that a client prints on standard error.
fn note(client: &mut Process) -> String {
    let mut stderr = BufReader::with_capacity(1, client.stderr.as_mut().expect("a pipe"));
    loop {
        let mut line = String::new();
        stderr.read_line(&mut line).expect("a line");
        if !is_notice(&line) {
            return line;
        }
    }
}

/// Returns what the server reports about itself.
#[track_caller]
fn status(fabric: &Fabric, server: &Server) -> String {
    let output = fabric.run(&format!("serve --status -p {}", server.port));
    assert_success(&output);
    stdout(&output)
}

/// Waits until a server has no clients.
fn wait_until_idle(fabric: &Fabric, server: &Server) {
    while !status(fabric, server).contains("\nno clients\n") {}
}

/// Runs of a host that have lines of their own; further ones are counted.
const SINGLY: usize = 8;

#[test]
fn serves_all_tools_one_after_another() {
    let tools: Vec<&str> = tools().collect();
    for tools in tools.chunks(SINGLY) {
        assert_serves_each(tools);
    }
}

fn assert_serves_each(tools: &[&str]) {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "");
    let address = format!("127.0.0.1:{}", server.port);
    // Clients of SHS 12 wait for the name of the server.
    let name = b"\x0e\0\0\0cxi_write_lat\0";
    let shs_12_handle = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).expect("a server");
        let mut received = [0; 18];
        stream.read_exact(&mut received).expect("a name");
        assert_eq!(&received, name);
        stream.write_all(name).expect("a connection");
    });
    for tool in tools {
        let client = fabric.client(tool, &server, "-d soft1 -n 3 --json --quiet");
        assert_success(&client);
        let document: serde_json::Value = serde_json::from_slice(&client.stdout).expect("JSON");
        assert_eq!(document["peer"]["device"], "soft0", "{tool}");
        wait_until_idle(&fabric, &server);
    }
    shs_12_handle.join().expect("an answer");
    let mut log = String::new();
    let waits = " is cxi_write_lat, which waits for the server; ";
    while log.matches(": done after ").count() < tools.len() || !log.contains(waits) {
        let line = server.next_line();
        assert!(!line.is_empty(), "{log}");
        log += &line;
    }
    stop(server);
    for tool in tools {
        let done = format!(" {tool} on soft0: done after ");
        assert!(log.contains(&done), "{log}");
    }
    fabric.assert_nothing_left();
}

#[test]
fn serves_a_legacy_client() {
    // Built while nothing waits for it.
    LazyLock::force(&LIBCXI);
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "");
    let first = measuring(&fabric, &mut server, "");
    let legacy = fabric.legacy_client("write-lat", &server.port).spawn();
    let legacy = legacy.expect("python starts");
    server.wait_for(": waits, place 1\n");
    drop(first);
    let output = legacy.finish();
    assert!(output.status.success(), "{}", stderr(&output));
    server.wait_for(" write-lat on soft0: done after ");
    stop(server);
}

#[test]
fn clients_of_a_nic_wait_for_their_turn() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "");
    let first = measuring(&fabric, &mut server, "");

    // Another NIC is free.
    let other = fabric.client("send-bw", &server, "-d soft5 -n 3 --peer-device=auto");
    assert_success(&other);
    server.wait_for(" send-bw on soft5: begins\n");

    let waiting = |place: u32, args: &str| {
        let args = format!("-d soft2 -n 3 {args}");
        let client = fabric.client_command("read-lat", &server, &args).spawn();
        let mut client = client.expect("cxidiag starts");
        let line = note(&mut client);
        assert!(line.contains(": waiting for soft0 of the server ("), "{line}");
        assert!(line.ends_with(&format!(": place {place}\n")), "{line}");
        client
    };
    let second = waiting(1, "");
    let mut third = waiting(2, "");
    let in_time = fabric.client("read-lat", &server, "-d soft3 -n 3 --wait=4s");
    let error = assert_status(&in_time, 1);
    assert!(error.ends_with("no turn within 4s, place 3\n"), "{error}");
    server.wait_for(": left the queue after ");
    let state = status(&fabric, &server);
    for words in [
        "runs: 1 done, 0 failed, 1 ended by the client; refused: 0 clients, 0 other connections\n",
        " write-lat on soft0: measures for ",
        " read-lat on soft0: waits, place 1, for ",
        " read-lat on soft0: waits, place 2, for ",
    ] {
        assert!(state.contains(words), "no {words:?} in {state}");
    }

    drop(second);
    assert!(note(&mut third).ends_with(": place 1\n"));
    server.wait_for(": left the queue after ");
    signal(first.id(), "INT");
    server.wait_for(" write-lat on soft0: interrupted by the client after ");
    assert!(third.wait().success());
    server.wait_for(" read-lat on soft0: done after ");
    signal(server.id(), "USR1");
    server.wait_for("runs: 2 done, 0 failed, 3 ended by the client; ");
    stop(server);
    fabric.assert_nothing_left();
}

/// Starts a server whose limits of 5 s are one second.
fn serve_impatiently(fabric: &Fabric) -> Server {
    serve_with_limits_by(fabric, 30)
}

/// Starts a server whose time limits are divided by this number.
fn serve_with_limits_by(fabric: &Fabric, divisor: u32) -> Server {
    let mut command = fabric.command("serve -p 0 -d soft0");
    command.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", divisor.to_string());
    Server::start(command)
}

/// The server reads a damaged word: it does not know that the client waits for its turn.
#[test]
fn client_tells_whom_it_waits_for_after_a_damaged_byte() {
    let fabric = Fabric::new();
    let mut server = serve_with_limits_by(&fabric, 15);
    let relay = Relay::damaging(&server.port, b" queue ", b" quEue ");
    let args = format!("write-lat 127.0.0.1 -p {} -d soft1 -n 3", relay.port);
    let ended = finish(fabric.command(&args));
    assert_status(&ended, 1);
    let error = whole_stderr(&ended);
    let [notice, failure] = error.lines().collect::<Vec<_>>()[..] else {
        panic!("{error}");
    };
    let told = ": no answer from the server (127.0.0.1:";
    assert!(notice.contains(told), "{error}");
    let purpose = ") while this client waited for its turn for ";
    assert!(notice.contains(purpose), "{error}");
    let reason = "it did not answer when it was called, 3 times";
    assert!(failure.ends_with(reason), "{error}");
    server.wait_for(&format!(": did not begin: {reason}\n"));
    stop(server);
    fabric.assert_nothing_left();
}

/// Starts an impatient server that calls a client which is stopped. Returns the server, that
/// client, and the client behind it, which runs `tool` with soft3.
fn call_stopped_client(fabric: &Fabric, tool: &str, args: &str) -> (Server, Process, Process) {
    let mut server = serve_impatiently(fabric);
    let first = measuring(fabric, &mut server, "");
    let waiting = |tool, args: &str, place| {
        let mut client = fabric.client_command(tool, &server, args);
        let mut client = client.spawn().expect("cxidiag starts");
        let note = note(&mut client);
        assert!(note.ends_with(&format!(": place {place}\n")), "{note}");
        client
    };
    let stopped = waiting("read-lat", "-d soft2 -n 3", 1);
    signal(stopped.id(), "STOP");
    let next = waiting(tool, &format!("-d soft3 {args}"), 2);
    drop(first);
    server.wait_for(" read-lat on soft0: does not answer when it is called, place 2\n");
    (server, stopped, next)
}

#[test]
fn stopped_client_lets_others_pass_twice_and_leaves() {
    let fabric = Fabric::new();
    let (mut server, stopped, mut next) = call_stopped_client(&fabric, "send-lat", "-n 3");
    assert!(next.wait().success());
    server.wait_for(" read-lat on soft0: does not answer when it is called, place 1\n");
    server.wait_for(": did not begin: it did not answer when it was called, 3 times\n");
    signal(stopped.id(), "CONT");
    let error = stderr(&stopped.finish());
    let reason = ") cannot run: it did not answer when it was called, 3 times\n";
    assert!(error.ends_with(reason), "{error}");
    stop(server);
    fabric.assert_nothing_left();
}

#[test]
fn client_that_goes_on_is_served_when_it_is_called_again() {
    let fabric = Fabric::new();
    let endless = "-n 1 --latency-gap=1000000000000";
    let (mut server, stopped, next) = call_stopped_client(&fabric, "write-lat", endless);
    server.wait_for(" write-lat on soft0: begins\n");
    signal(stopped.id(), "CONT");
    drop(next);
    assert!(stopped.finish().status.success());
    server.wait_for(" read-lat on soft0: done after ");
    stop(server);
    // The kernel closes the connection of a killed process before it unlocks its NIC. On a busy
    // machine all others may end in between, so that the next one removes its files.
    assert_success(&fabric.run("write-lat --loopback -d soft0 -n 1"));
    fabric.assert_nothing_left();
}

#[test]
fn server_gives_up_a_client_that_is_stopped_while_it_measures() {
    let fabric = Fabric::new();
    let mut server = serve_impatiently(&fabric);
    // At a place where it holds no lock of the software NIC.
    let client = fabric.client_command("write-lat", &server, "-d soft1 -n 3");
    let mut client = Side::start(client, Some("gap"));
    client.wait_for_pause();
    client.signal("STOP");
    let line = server.wait_for(" write-lat on soft0: failed after ");
    let reason = " sent nothing for 6 s at the Post-run barrier, not even a tick\n";
    assert!(line.ends_with(reason), "{line}");
    client.go_on();
    client.signal("CONT");
    assert_status(&client.finish(), 1);
    stop(server);
    fabric.assert_nothing_left();
}

#[test]
fn legacy_client_that_is_never_ready_leaves() {
    let fabric = Fabric::new();
    let mut server = serve_impatiently(&fabric);
    let address = [8, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let options = [&129_u32.to_le_bytes(), &block("write-lat", "")[..]].concat();
    let silent = silent_clients(&server, 1, &[&options, &address[..]].concat());
    server.wait_for(": did not begin: it did not answer when it was called, 3 times\n");
    drop(silent);
    stop(server);
    fabric.assert_nothing_left();
}

#[test]
fn survey_waits_for_its_turn() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "");
    let first = measuring(&fabric, &mut server, "");
    let port = &server.port;
    let survey = format!("survey --hosts=127.0.0.1 --port={port} --device=soft0 --pairs=loopback");
    let mut command = fabric.command(&survey);
    let interrupted = command.spawn().expect("cxidiag starts");
    server.wait_for(" survey on soft0: waits, place 1\n");
    signal(interrupted.id(), "INT");
    let line = server.wait_for(" survey on soft0: ");
    assert!(line.contains(": left the queue after "), "{line}");
    // One that is not interrupted names the reason when its time is up.
    let mut command = fabric.command(&survey);
    command.env("CXIDIAG_TEST_SHORTEN_LIMITS_BY", "10");
    let output = stdout(&finish(command));
    let reason = "it did not join within 3s: it waits for its turn, place 1\n";
    assert!(output.contains(reason), "{output}");
    drop(first);
}

/// The process of the only client.
fn process_of_client(server: &Server) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", server.id());
    let process = std::fs::read_to_string(children).expect("a server");
    process.trim().parse().expect("one process")
}

#[test]
fn process_that_hangs_is_killed_after_the_longest_run() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "--max-run=1");
    let client = measuring(&fabric, &mut server, "");
    signal(process_of_client(&server), "STOP");
    server.wait_for("--max-run of the server, 1s; signal 9 ended its process\n");
    drop(client);
    let endless = fabric.client("write-lat", &server, "-d soft1 --until-stopped");
    let error = assert_status(&endless, 1);
    assert!(error.contains("--max-run of the server, 1s\n"), "{error}");
    // A client may ask for the longest run.
    let longest = fabric.client("write-bw", &server, "-d soft1 -D 1");
    assert_success(&longest);
    server.wait_for(" write-bw on soft0: done after ");
    stop(server);
}

/// Returns connections of 127.0.0.1 to 127.0.0.8 that have sent the name of a tool, a version and
/// `more`, and send nothing after it.
fn silent_clients(server: &Server, count: usize, more: &[u8]) -> Vec<TcpStream> {
    silent_clients_from(1, server, count, more)
}

/// Returns such connections of eight addresses, from 127.0.0.`first` on.
fn silent_clients_from(first: u8, server: &Server, count: usize, more: &[u8]) -> Vec<TcpStream> {
    let port = server.port.parse().expect("a port");
    let connect = |index: usize| -> std::io::Result<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        let own = Ipv4Addr::new(127, 0, 0, first + (index % 8) as u8);
        rustix::net::bind(&socket, &SocketAddr::from((own, 0)))?;
        rustix::net::connect(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let mut stream = TcpStream::from(socket);
        stream.write_all(b"\x0e\0\0\0cxi_write_lat\0\x06\0\0\x002.4.0\0")?;
        stream.write_all(more)?;
        Ok(stream)
    };
    let connected = (0..count).map(connect).collect::<Result<_, _>>();
    connected.expect("a server")
}

#[test]
fn silent_clients_take_no_place() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "");
    // More than the server keeps.
    let silent = silent_clients(&server, 300, b"");
    server.wait_for(": replaced by newer connections (at most 256 at a time)\n");
    assert!(status(&fabric, &server).contains("\nno clients\n"));
    assert_eq!(held(server.id())[2], 0);
    for _ in 0..9 {
        assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 3"));
        // The process of a client keeps the NIC for a moment after the client has ended.
        wait_until_idle(&fabric, &server);
    }
    drop(silent);
    stop(server);
    fabric.assert_nothing_left();
}

/// Returns how far the handshakes come of clients that fall silent before their last byte.
fn unfinished_handshakes() -> Vec<Vec<u8>> {
    let options = [&129_u32.to_le_bytes()[..], &[0; 129]].concat();
    let address = [&options[..], &8_u32.to_le_bytes(), &[0; 7]].concat();
    vec![options[..5].to_vec(), options[..132].to_vec(), options, address]
}

/// The client does not wait: it has a place at once.
#[test]
fn unfinished_handshakes_start_no_process_and_keep_out_no_client() {
    let fabric = Fabric::new();
    let server = serve(&fabric, "--max-clients=8");
    let mut silent = Vec::new();
    for (number, more) in unfinished_handshakes().iter().enumerate() {
        silent.extend(silent_clients_from(2 + 8 * number as u8, &server, 50, more));
        assert_eq!(held(server.id())[2], 0);
        assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 3"));
        wait_until_idle(&fabric, &server);
    }
    drop(silent);
    let log = stop(server);
    assert!(log.lines().count() < 60, "{log}");
    fabric.assert_nothing_left();
}

#[test]
fn process_that_is_killed_ends_its_run_alone() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "");
    let client = measuring(&fabric, &mut server, "");
    signal(process_of_client(&server), "KILL");
    let line = server.wait_for(": signal 9 ended its process\n");
    assert!(line.contains(" write-lat on soft0: failed after "), "{line}");
    drop(client);
    assert_success(&fabric.client("write-bw", &server, "-d soft1 -n 3"));
    stop(server);
}

#[test]
fn refusals_reach_client_and_log() {
    let fabric = Fabric::new();
    let mut server =
        serve(&fabric, "--max-run=2s --max-buffers=20M --max-clients=1 --token=secret");
    let refused = |args: &str, reason: &str| {
        let client = fabric.client_command("write-bw", &server, &format!("-d soft1 {args}"));
        let error = assert_status(&finish(client), 1);
        assert!(error.contains(reason), "{error}");
        wait_until_idle(&fabric, &server);
    };
    refused("", "tokens differ: not set here, set at the peer");
    let token = "--token=secret";
    refused(
        &format!("{token} -D 3"),
        "cannot run: the run takes 3s; --max-run of the server is 2s",
    );
    refused(
        &format!("{token} -s 65536 -l 512"),
        "cannot run: the run needs buffers of 32.0 MiB here; --max-buffers of the server is 20.0 MiB",
    );
    refused(&format!("{token} --peer-device=cxi7"), "cannot run: this server has no cxi7");
    // No process was started for it.
    server.wait_for(" refused: tokens differ: ");
    let mut first = measuring(&fabric, &mut server, token);
    let client = fabric.client("write-lat", &server, "-d soft2 -n 3 --token=secret");
    let error = assert_status(&client, 1);
    let reason = "cannot run: busy: the server has 1 clients already (--max-clients)";
    assert!(error.contains(reason), "{error}");
    // A run that takes longer than it may is ended.
    let reason = "the run takes longer than --max-run of the server, 2s\n";
    let ended = server.wait_for(reason);
    assert!(ended.contains(" write-lat on soft0: failed after "), "{ended}");
    assert!(note(&mut first).ends_with(&format!(" ended the run: {reason}")));
    let state = status(&fabric, &server);
    let totals = "runs: 0 done, 1 failed, 0 ended by the client; refused: 5 clients, ";
    assert!(state.contains(totals), "{state}");
    stop(server);
}

#[test]
fn server_makes_a_token_and_warns_of_a_short_one() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "--token=auto");
    let line = server.wait_for("token for clients, in CXIDIAG_TOKEN: ");
    let (_, token) = line.split_once(": ").expect("a token");
    let args = format!("-d soft1 -n 3 --token={}", token.trim_end());
    assert_success(&fabric.client("write-lat", &server, &args));
    let log = stop(server);
    assert!(!log.contains("can be guessed"), "{log}");
    let mut server = serve(&fabric, "--token=secret");
    let line = server.wait_for("the token can be guessed ");
    assert!(line.contains(": it has at most 13 bits, "), "{line}");
    stop(server);
    let error = assert_status(&fabric.run("write-lat -d soft0 --token=auto"), 2);
    assert!(error.contains("--token=auto is for 'cxidiag serve'"), "{error}");
}

#[test]
fn serves_allowed_networks_only() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "--allow=10.0.0.0/8,127.0.0.1");
    let mut client = measuring(&fabric, &mut server, "");
    signal(server.id(), "INT");
    assert!(note(&mut client).contains(") was interrupted "));
    assert_status(&server.finish(), 130);
    let server = serve(&fabric, "--allow=10.0.0.0/8");
    let client = fabric.client("write-lat", &server, "-d soft1 -n 3");
    let error = assert_status(&client, 1);
    let reason = ") cannot run: --allow of the server does not list 127.0.0.1\n";
    assert!(error.ends_with(reason), "{error}");
    // A process of this machine may ask for the state.
    assert!(status(&fabric, &server).contains(" clients, 1 other connections\n"));
    let log = stop(server);
    assert!(log.contains(": --allow does not list its address\n"), "{log}");
    let error = assert_status(&fabric.run("serve -d soft0 --allow=10.1.1"), 2);
    assert!(error.contains("invalid value '10.1.1' for --allow: "), "{error}");
}

#[test]
fn nic_that_cannot_be_used_is_reported_at_the_start() {
    let fabric = Fabric::new();
    let mut server = fabric.server("serve", "-d cxi0 --libcxi=/nonexistent");
    server.wait_for("clients cannot measure with cxi0 at present: ");
    stop(server);
}

#[test]
fn serves_clients_of_other_jobs_with_any_job() {
    let fabric = Fabric::new();
    let mut command = fabric.command("serve -p 0 -d soft0 --any-job");
    command.env("SLURM_JOB_ID", "11");
    let server = Server::start(command);
    let mut client = fabric.client_command("write-lat", &server, "-d soft1 -n 3");
    client.env("SLURM_JOB_ID", "12");
    assert_success(&finish(client));
    stop(server);
}

#[test]
fn takes_one_socket_of_the_service_manager() {
    let fabric = Fabric::new();
    let script = "LISTEN_PID=$$ LISTEN_FDS=2 exec \"$@\" serve -p 0 -d soft0";
    let command = fabric.command_of("sh".as_ref(), &["-c", script, "sh", CXIDIAG]);
    let error = assert_status(&finish(command), 1);
    let reason = "cannot use the socket of the service manager: it has passed 2 (one ";
    assert!(error.contains(reason), "{error}");
}

/// Returns how many descriptors, threads and children a process has.
fn held(process: u32) -> [usize; 3] {
    let count = |what: &str| {
        let path = format!("/proc/{process}/{what}");
        std::fs::read_dir(path).expect("a process").count()
    };
    let children = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(children).expect("a process");
    [count("fd"), count("task"), children.split_whitespace().count()]
}

#[test]
fn unrelated_connections_leave_nothing() {
    let fabric = Fabric::new();
    let mut server = serve(&fabric, "");
    let address = format!("127.0.0.1:{}", server.port);
    let mut serve_one = || {
        assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 3"));
        server.wait_for(": done after ");
        held(server.id())
    };
    let before = serve_one();
    let bytes: [&[u8]; 5] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 4],
        b"\x0e\0\0\0cxi_write_lat\0",
        b"\x0e\0\0\0cxi_write_lat\0\x04\0\0\x009.9\0",
    ];
    for bytes in bytes.iter().cycle().take(100) {
        let mut stream = TcpStream::connect(&address).expect("a server");
        // The server may have closed the connection before everything was sent.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(serve_one(), before);
    stop(server);
    fabric.assert_nothing_left();
}

#[test]
fn inherited_variable_makes_no_process_of_a_server() {
    let fabric = Fabric::new();
    let mut command = fabric.command("write-lat -p 0 -d soft0");
    command.env("CXIDIAG_SERVE_CLIENT", "1");
    let server = Server::start(command);
    assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 3"));
    assert_success(&server.finish());
}

#[test]
fn client_needs_the_nic_that_it_asks_for() {
    let fabric = Fabric::new();
    let server = fabric.server("write-lat", "-d soft0 --persist");
    let wrong = fabric.client("write-lat", &server, "-d soft1 --peer-device=auto");
    let error = assert_status(&wrong, 1);
    let reason = "--peer-device=soft1: the server (127.0.0.1:";
    assert!(error.contains(reason), "{error}");
    assert!(error.contains(") measures with soft0 alone\n"), "{error}");
    let right = "-d soft1 -n 3 --wait=60 --peer-device=soft0";
    assert_success(&fabric.client("write-lat", &server, right));
    let error = assert_status(&fabric.run("write-lat -d soft0 --peer-device=auto"), 2);
    assert!(error.contains("--peer-device is for a client"), "{error}");
}

#[test]
fn service_manager_passes_the_socket_and_is_notified() {
    let fabric = Fabric::new();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let notified = UnixDatagram::bind(&path).expect("a socket");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // The shell makes the socket descriptor 3, and keeps its process id.
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$@\"";
    let own = fabric.command("serve -d soft0");
    let mut command = fabric.command_of("sh".as_ref(), &["-c", script, "sh"]);
    command
        .arg(own.get_program())
        .args(own.get_args())
        .env("NOTIFY_SOCKET", &path)
        .stdin(OwnedFd::from(listener));
    let server = Server::start(command);
    assert_eq!(server.port, port.to_string());
    let mut text = [0; 64];
    let length = notified.recv(&mut text).expect("a message");
    assert_eq!(&text[..length], b"READY=1\n");
    assert_success(&fabric.client("write-lat", &server, "-d soft1 -n 3"));
    stop(server);
}
