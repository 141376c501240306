//! A TCP connection between two sides that a test can close or reset.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};

/// Accepts one connection and carries its bytes to a server and back.
pub struct Relay {
    /// The port to connect to.
    pub port: String,
    connected: JoinHandle<[TcpStream; 2]>,
}

impl Relay {
    /// Returns a relay to `server`, a port of this machine.
    pub fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = format!("127.0.0.1:{server}");
        let connected = thread::spawn(move || {
            let (client, _) = listener.accept().expect("a client");
            let server = TcpStream::connect(server).expect("a server");
            carry(&client, &server);
            carry(&server, &client);
            [client, server]
        });
        Self {
            port: port.to_string(),
            connected,
        }
    }

    /// Closes both connections with FIN.
    pub fn close(self) {
        for stream in self.connected.join().expect("a connection") {
            // A process that has ended has closed its connection.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Resets both connections.
    pub fn reset(self) {
        for stream in self.connected.join().expect("a connection") {
            reset(&stream).expect("a socket");
        }
    }
}

/// Starts a server that sends back each byte, and returns its port.
pub fn start_echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            carry(&stream, &stream);
        }
    });
    port
}

fn carry(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (clone(from), clone(to));
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // Carries the end of the stream, too.
        let _ = to.shutdown(Shutdown::Write);
    });
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a descriptor")
}

/// Disconnecting a TCP socket resets its connection even if other descriptors refer to it.
pub fn reset(stream: &TcpStream) -> io::Result<()> {
    Ok(rustix::net::connect_unspec(stream.as_fd())?)
}
