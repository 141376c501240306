//! How nodes that probe each other learn the addresses of their NICs: the probing process of a node
//! connects to `cxidiag serve` on each of its targets as a client, and adds a word to its version.
//! The server sends the state of its NICs whenever it changes, and as a sign of life.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

use super::connect::Search;
use super::invitation::greet;
use super::peer_facts::PROBE;
use super::probe_state::NodeState;
use facts::error::{Context, Failure};
use facts::limit;
use facts::net::framing::{Incoming, message};
use plan::Plan;

/// Time from one sign of life to the next.
pub const SIGN_OF_LIFE: Duration = Duration::from_secs(10);

/// A node that has sent nothing for this time is not probed: its server is stopped, or lost.
const SILENCE: Duration = Duration::from_secs(30);

/// Longest state, in bytes: a NIC takes 150.
const MOST: usize = 16 << 10;

/// Most processes that wait for the state of a node. About as many nodes probe it as it probes.
const MOST_WATCHERS: usize = 256;

/// Passes each state of the node `host` to `receive`, as the client of `plan`, until the server
/// ends or `receive` returns false.
///
/// # Errors
///
/// A server that cannot be reached, refuses this client, takes no part in probes, or is silent.
pub fn watch(
    plan: &Plan,
    host: &str,
    mut receive: impl FnMut(NodeState) -> bool,
) -> Result<(), Failure> {
    let (connection, facts) = greet(plan, Search::new(plan, host)?, PROBE)?;
    let peer = connection.peer();
    if !facts.probes {
        return Err(Failure::environment(format!("the server ({peer}) takes no part in probes"))
            .with_hint("run 'cxidiag serve --probe' of this release there"));
    }
    let lost = format!("lost the server ({peer})");
    let mut stream = connection.into_stream();
    // Signs of life replace the probes of the kernel, which would be sent each second.
    sockopt::set_socket_keepalive(&stream, false).environment(&lost)?;
    stream.set_read_timeout(Some(limit::in_effect(SILENCE))).environment(&lost)?;
    let mut incoming = Incoming::new(MOST);
    loop {
        let length = match stream.read(incoming.room()) {
            Ok(0) => return Err(Failure::peer(format!("{lost}: it has ended"))),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(Failure::peer(format!("{lost}: it is silent")));
            }
            Err(error) => return Err(error).environment(&lost),
        };
        let invalid = || Failure::peer(format!("the server ({peer}) sent an invalid state"));
        let Some(payload) = incoming.advance(length).map_err(|_| invalid())? else {
            continue;
        };
        let state: NodeState = serde_json::from_slice(&payload).map_err(|_| invalid())?;
        if state.nics.iter().any(|nic| !nic.address.is_valid()) {
            return Err(invalid());
        }
        if !receive(state) {
            return Ok(());
        }
    }
}

/// The processes that wait for the state of this node.
#[derive(Debug, Default)]
pub struct Watchers {
    streams: Vec<TcpStream>,
}

impl Watchers {
    /// Adds a process, and sends it the state. If there are too many already, its connection is
    /// closed, and it comes again.
    pub fn add(&mut self, stream: TcpStream, state: &NodeState) {
        let is_ready = stream.set_nonblocking(true).is_ok();
        if is_ready && self.streams.len() < MOST_WATCHERS && send(&stream, state) {
            self.streams.push(stream);
        }
    }

    /// Sends the state to all processes, and forgets those that have ended or do not read.
    pub fn send(&mut self, state: &NodeState) {
        self.streams.retain(|stream| send(stream, state));
    }

    pub fn count(&self) -> usize {
        self.streams.len()
    }
}

fn send(mut stream: &TcpStream, state: &NodeState) -> bool {
    let text = serde_json::to_vec(state).unwrap_or_default();
    stream.write_all(&message(&text)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::probe_state::NicState;
    use super::*;
    use facts::device::{DeviceName, FabricAddress};

    #[test]
    fn forgets_watchers_that_have_ended_or_do_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let nic = NicState {
            device: DeviceName::software(3),
            address: FabricAddress { nic: 0x15, pid: 2 },
            vni: 10,
            location: None,
            is_busy: true,
        };
        let state = NodeState { nics: vec![nic; 8] };
        let mut watchers = Watchers::default();
        let (mut reading, server) = connect();
        watchers.add(server, &state);
        let (_silent, server) = connect();
        watchers.add(server, &state);
        let (ended, server) = connect();
        watchers.add(server, &state);
        drop(ended);
        assert_eq!(watchers.count(), 3);
        let mut incoming = Incoming::new(MOST);
        let mut received = 0;
        while watchers.count() > 1 {
            watchers.send(&state);
            loop {
                let length = reading.read(incoming.room()).unwrap();
                if let Some(payload) = incoming.advance(length).unwrap() {
                    assert_eq!(serde_json::from_slice::<NodeState>(&payload).unwrap(), state);
                    received += 1;
                    break;
                }
            }
        }
        assert!(received > 1);
    }
}
