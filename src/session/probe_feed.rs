//! How nodes that probe each other learn the addresses of their NICs: the probing process of a node
//! connects to `cxidiag serve` on each of its targets as a client, and adds a word to its version.
//! The server sends the state of its NICs whenever it changes, and as a sign of life.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;

use super::connect::ServerSearch;
use super::control_line::NodeState;
use super::peer_facts::PROBE;
use super::requests::greet;
use super::wire::{self, REFUSAL};
use facts::error::{Context, Failure};
use facts::limit;
use facts::net::{Incoming, TooLong, first_of_largest_host, message};
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
    receive: impl FnMut(NodeState) -> bool,
) -> Result<(), Failure> {
    let connection = greet(plan, ServerSearch::new(plan, host)?, PROBE)?;
    let peer = connection.peer();
    let lost = format!("lost the server ({peer})");
    let mut stream = connection.into_stream();
    // Signs of life replace the probes of the kernel, which would be sent each second.
    sockopt::set_socket_keepalive(&stream, false).environment(&lost)?;
    stream.set_read_timeout(Some(limit::in_effect(SILENCE))).environment(&lost)?;
    follow(&mut stream, peer, receive)
}

/// Passes each state that the server sends on `stream` to `receive`.
fn follow(
    stream: &mut impl Read,
    peer: SocketAddr,
    mut receive: impl FnMut(NodeState) -> bool,
) -> Result<(), Failure> {
    let lost = format!("lost the server ({peer})");
    let invalid = || Failure::peer(format!("the server ({peer}) sent an invalid state"));
    let mut incoming = Incoming::new(MOST);
    let mut is_refused = false;
    loop {
        let length = match stream.read(incoming.room()) {
            Ok(0) => return Err(Failure::peer(format!("{lost}: it closed the connection"))),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(Failure::peer(format!("{lost}: it is silent")));
            }
            Err(error) => return Err(error).environment(&lost),
        };
        let payload = match incoming.advance(length) {
            Ok(None) => continue,
            Ok(Some(payload)) => payload,
            Err(TooLong(REFUSAL)) if !is_refused => {
                (is_refused, incoming) = (true, Incoming::new(MOST));
                continue;
            }
            Err(TooLong(_)) => return Err(invalid()),
        };
        if is_refused {
            let reason = wire::parse_string(&payload).ok_or_else(invalid)?;
            return Err(Failure::peer(format!("the server ({peer}) refuses this node: {reason}")));
        }
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
    /// In order of arrival.
    streams: Vec<(SocketAddr, TcpStream)>,
}

impl Watchers {
    /// Adds the process at `peer`, and sends it the state. If there are too many already, the
    /// oldest one of the host with most is refused: of the same host, if no other has more. Returns
    /// its address and the reason.
    pub fn add(
        &mut self,
        peer: SocketAddr,
        stream: TcpStream,
        state: &NodeState,
    ) -> Option<(SocketAddr, String)> {
        stream.set_nonblocking(true).ok()?;
        self.streams.push((peer, stream));
        let hosts = self.streams.iter().map(|(other, _)| other.ip());
        let in_order = hosts.enumerate().map(|(index, host)| (host, (host != peer.ip(), index)));
        let largest =
            first_of_largest_host(in_order, 0).filter(|_| self.streams.len() > MOST_WATCHERS);
        let refused = largest.map(|(oldest, count)| {
            let (peer, mut stream) = self.streams.remove(oldest);
            let reason = format!(
                "at most {MOST_WATCHERS} processes probe a node, of which {} has {count}",
                peer.ip()
            );
            // A process that has ended does not need the reason.
            let _ = stream.write_all(&wire::refusal(&reason));
            (peer, reason)
        });
        // The newcomer, unless it is the one that was refused.
        self.streams.pop_if(|(other, stream)| *other == peer && !send(stream, state));
        refused
    }

    /// Sends the state to all processes, and forgets those that have ended or do not read.
    pub fn send(&mut self, state: &NodeState) {
        self.streams.retain(|(_, stream)| send(stream, state));
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

    use super::*;
    use crate::control_line::NicState;
    use facts::device::{DeviceName, FabricAddress};

    fn state() -> NodeState {
        let nic = NicState {
            device: DeviceName::software(3),
            address: FabricAddress { nic: 0x15, pid: 2 },
            vni: 10,
            location: None,
            is_busy: true,
        };
        NodeState { nics: vec![nic; 8] }
    }

    /// The address of a process on the host with this number.
    fn peer(number: usize) -> SocketAddr {
        SocketAddr::from(([10, 1, (number >> 8) as u8, number as u8], 1))
    }

    /// Receives `state` this number of times. Returns the reason why no further one comes.
    fn end(mut stream: TcpStream, count: usize) -> String {
        let mut received = 0;
        let ended = follow(&mut stream, peer(0), |_| {
            received += 1;
            true
        });
        assert_eq!(received, count);
        ended.unwrap_err().message()
    }

    #[test]
    fn host_with_most_processes_gives_way_and_learns_why() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let mut watchers = Watchers::default();
        let mut add = |number| {
            let (client, server) = connect();
            (client, watchers.add(peer(number), server, &state()).map(|(peer, _)| peer))
        };
        let (oldest, _) = add(1);
        let watched: Vec<_> = (2..MOST_WATCHERS).map(|_| add(1).1).collect();
        assert!(watched.iter().all(Option::is_none));
        let (youngest, refused) = add(1);
        assert_eq!(refused, None);
        let reason = "the server (10.1.0.0:1) refuses this node: at most 256 processes probe a \
                      node, of which 10.1.0.1 has";
        // Other hosts take the places of this host, until each host has one.
        let others: Vec<_> = (2..=MOST_WATCHERS).map(&mut add).collect();
        assert!(others.iter().all(|(_, refused)| *refused == Some(peer(1))));
        assert_eq!(end(oldest, 1), format!("{reason} 256"));
        let (mut newcomer, refused) = add(1);
        assert_eq!(refused, Some(peer(1)));
        assert_eq!(end(youngest, 1), format!("{reason} 2"));
        let (late, refused) = add(1000);
        assert_eq!(refused, Some(peer(1000)));
        assert!(end(late, 0).contains(" has 1"), "{reason}");
        assert_eq!(watchers.count(), MOST_WATCHERS);
        drop(watchers);
        let lost = "lost the server (10.1.0.0:1): it closed the connection";
        for (client, _) in others {
            assert_eq!(end(client, 1), lost);
        }
        assert_eq!(follow(&mut newcomer, peer(0), |_| false).map_err(|_| ()), Ok(()));
    }

    #[test]
    fn forgets_watchers_that_have_ended_or_do_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let state = state();
        let mut watchers = Watchers::default();
        let (mut reading, server) = connect();
        watchers.add(peer(0), server, &state);
        let (_silent, server) = connect();
        watchers.add(peer(0), server, &state);
        let (ended, server) = connect();
        watchers.add(peer(0), server, &state);
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
