//! Surveys whose members are processes of `serve`.

use super::{SHORT, absent, document};
use crate::cpus::{Work, cpus};
use crate::harness::{Command, Fabric, Server, assert_status, stderr, stdout};

/// A server at an address of its own, `127.0.0.HOST`, so that servers can have the same port.
pub fn server_command(fabric: &Fabric, host: u32, port: &str) -> Command {
    fabric.command(&format!("serve --device=soft{host} --bind=127.0.0.{host} --port={port}"))
}

#[test]
fn members_of_servers_take_part() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let server = |host, port: &str| Server::start(server_command(&fabric, host, port));
    let first = server(1, "0");
    let others = [2, 3].map(|host| server(host, &first.port));
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.[1-4] --port={} --pairs=all {SHORT} --json",
        first.port
    ));
    let document = document(&output);
    let absent = absent(&document);
    assert_eq!(absent.len(), 1);
    let reason = "refused (does 'cxidiag serve' run there?)";
    assert!(absent[0].1.ends_with(reason), "{absent:?}");
    // Without tools, latencies and bandwidths are measured.
    assert_eq!(document["verdict"]["planned"], 9, "{}", stdout(&output));
    assert_eq!(document["scope"], "both");
    for mut server in [first].into_iter().chain(others) {
        server.wait_for("done");
    }
}

#[test]
fn members_that_their_servers_end_leave_nothing() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let server = |host, port: &str| {
        let mut command = server_command(&fabric, host, port);
        command.arg("--max-run=2");
        Server::start(command)
    };
    let first = server(1, "0");
    let second = server(2, &first.port);
    let port = &first.port;
    let output = fabric.run(&format!("survey --hosts=127.0.0.[1-2] --port={port} --pair-time=60s"));
    assert_status(&output, 4);
    for mut server in [first, second] {
        server.wait_for(" failed after ");
    }
    fabric.assert_nothing_left();
}

/// The second process would wait for the first one.
#[test]
fn refuses_two_names_of_one_server() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let server = fabric.server("serve", "--device=soft1");
    let port = &server.port;
    let output = fabric.run(&format!("survey --hosts=127.0.0.1,127.1 --port={port}"));
    assert_status(&output, 2);
    let message = "127.0.0.1 and 127.1 are the same host (127.0.0.1)";
    assert!(stderr(&output).contains(message), "{}", stderr(&output));
}

#[test]
fn member_of_server_takes_turn_at_all_its_nics() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let mut server = fabric.server("serve", "--device=soft1");
    let port = &server.port;
    fabric.run(&format!(
        "survey --hosts=127.0.0.1 --port={port} --device=soft8,soft9 --pairs=loopback --quiet"
    ));
    server.wait_for(" survey on soft8,soft9: begins\n");
}

#[test]
fn server_refuses_survey_with_large_buffers() {
    let fabric = Fabric::new();
    let server = fabric.server("serve", "--device=soft1 --max-buffers=1M");
    let port = &server.port;
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.1 --port={port} --device=soft8 --pairs=loopback --size=4M --json \
         write-bw"
    ));
    let absent = absent(&document(&output));
    let reason = "MiB here; --max-buffers of the server is 1.0 MiB";
    assert!(absent[0].1.ends_with(reason), "{absent:?}");
}

/// A member connects to its coordinator alone, whatever other hosts the survey has.
#[test]
fn server_serves_allowed_coordinator_with_any_hosts() {
    let _cpus = cpus(Work::Waits);
    let fabric = Fabric::new();
    let mut command = server_command(&fabric, 1, "0");
    command.arg("--allow=127.0.0.1");
    let server = Server::start(command);
    let port = &server.port;
    let output = fabric.run(&format!(
        "survey --hosts=127.0.0.1,127.0.0.9 --port={port} --pairs=loopback {SHORT} --json"
    ));
    let absent = absent(&document(&output));
    assert_eq!(absent.len(), 1, "{absent:?}");
    let reason = "refused (does 'cxidiag serve' run there?)";
    assert!(absent[0].1.ends_with(reason), "{absent:?}");
}
