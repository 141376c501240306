//! The messages between `cxidiag serve` and its processes, one for each client: lines of JSON on a
//! socket that is the standard output of the process. The document of the run follows on it.

use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crew::location::Location;
use facts::device::{DeviceName, FabricAddress};

/// A NIC, for those that probe it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicState {
    pub device: DeviceName,
    pub address: FabricAddress,
    pub vni: u32,
    /// Where it is, if its address shows it.
    pub location: Option<Location>,
    /// It is not to be probed at present.
    pub is_busy: bool,
}

/// The NICs of a node, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    pub nics: Vec<NicState>,
}

/// From the server to a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServerOrder {
    /// The first message: the client, whose connection is the standard input of the process.
    Serve {
        /// TCP address of the client.
        peer: SocketAddr,
        /// Its version, with the words behind it.
        version: String,
        /// The messages that it has sent after it.
        messages: Vec<Vec<u8>>,
    },
    /// The place of the client in the queue of its NICs has changed.
    Place(u32),
    /// It is the client's turn.
    Begin,
    /// The client may not measure, or no longer, for this reason.
    Refuse(String),
}

/// From a process to the server: the handshake is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The NICs that the run uses, each of which has one client at a time.
    pub devices: Vec<DeviceName>,
    /// Bytes of the buffers that the run needs on this side.
    pub buffer_bytes: u64,
    /// Duration of the run that the client asks for, in milliseconds; `None` for a number of
    /// iterations.
    pub asked_ms: Option<u64>,
}

/// From a process to the server: what has come of [`ServerOrder::Begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Called {
    /// The client is there: the run begins.
    Answered,
    /// The client has not answered in time.
    Late,
}

/// From the server to the process that probes other nodes: the NICs on which clients measure. It is
/// sent when they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used(pub Vec<DeviceName>);

/// From the process that probes other nodes to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeNews {
    /// The NICs of this node, for those that probe it; also sent as a sign of life.
    State(NodeState),
    /// The results of the probes of this node.
    Progress(ProbeProgress),
    /// A line for the log.
    Note(String),
}

/// The results of the probes of a node, over its NICs and their present targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeProgress {
    /// Number of targets.
    pub targets: usize,
    /// Targets with a latency within the last minute.
    pub measured: usize,
    /// Number of bursts.
    pub bursts: u64,
    /// Bursts that were dropped because this host was late.
    pub late: u64,
}

/// One end of the socket.
#[derive(Debug)]
pub struct ControlLine {
    socket: UnixStream,
    received: Vec<u8>,
}

impl ControlLine {
    /// Creates the end of a socket.
    pub fn new(socket: UnixStream) -> Self {
        Self { socket, received: Vec::new() }
    }

    /// Sends a message. Does not wait.
    ///
    /// # Errors
    ///
    /// The errors of the socket, and a receiver that has not read hundreds of messages.
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(message)? + "\n";
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = send(&self.socket, line.as_bytes(), flags)?;
        if sent == line.len() { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    /// Waits for more bytes. Returns false at the end of the connection.
    ///
    /// # Errors
    ///
    /// The errors of the socket.
    pub fn read(&mut self) -> io::Result<bool> {
        let mut part = [0; 4096];
        let length = self.socket.read(&mut part)?;
        self.received.extend(&part[..length]);
        Ok(length > 0)
    }

    /// The next message if it has arrived and is one.
    pub fn message<M: DeserializeOwned>(&mut self) -> Option<M> {
        let end = self.received.iter().position(|byte| *byte == b'\n')? + 1;
        let message = serde_json::from_slice(&self.received[..end]).ok()?;
        self.received.drain(..end);
        Some(message)
    }

    /// Why the server ends the run, if it has sent a reason. Does not wait.
    pub fn refusal(&mut self) -> Option<String> {
        let mut part = [0; 4096];
        if let Ok((length, _)) = recv(&self.socket, &mut part, RecvFlags::DONTWAIT) {
            self.received.extend(&part[..length]);
        }
        match self.message()? {
            ServerOrder::Refuse(reason) => Some(reason),
            _ => None,
        }
    }

    /// The bytes that are no message: the document.
    pub fn rest(&self) -> &[u8] {
        &self.received
    }
}

impl AsFd for ControlLine {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use facts::device::DEFAULT_DEVICE;

    #[test]
    fn messages_precede_the_document() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut process, mut server) = (ControlLine::new(one), ControlLine::new(other));
        let ready = Ready { devices: vec![DEFAULT_DEVICE], buffer_bytes: 8, asked_ms: None };
        process.send(&ready).unwrap();
        process.socket.write_all(b"{\n  \"tool\": 1\n}\n").unwrap();
        drop(process);
        while server.read().unwrap() {}
        assert_eq!(server.message(), Some(ready));
        assert_eq!(server.message::<Ready>(), None);
        assert_eq!(server.rest(), b"{\n  \"tool\": 1\n}\n");
    }
}
