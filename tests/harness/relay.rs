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
    /// A relay to `server`, a port of this machine.
    pub fn to(server: &str) -> Self {
        Self::damaging(server, b"", b"")
    }

    /// A relay that replaces the first `word` of the client, which arrives in one piece, by another
    /// one of the same length.
    pub fn damaging(server: &str, word: &'static [u8], damaged: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = format!("127.0.0.1:{server}");
        let connected = thread::spawn(move || {
            let (client, _) = listener.accept().expect("a client");
            let server = TcpStream::connect(server).expect("a server");
            carry(&client, &server, word, damaged);
            carry(&server, &client, b"", b"");
            [client, server]
        });
        Self { port: port.to_string(), connected }
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
            carry(&stream, &stream, b"", b"");
        }
    });
    port
}

/// Carries bytes in a thread, with the first `word` damaged.
fn carry(from: &TcpStream, to: &TcpStream, word: &'static [u8], damaged: &'static [u8]) {
    let (mut from, mut to) = (clone(from), clone(to));
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        let mut is_damaged = word.is_empty();
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if !is_damaged
                && let Some(place) =
                    (bytes[..count].windows(word.len())).position(|part| part == word)
            {
                bytes[place..][..word.len()].copy_from_slice(damaged);
                is_damaged = true;
            }
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
