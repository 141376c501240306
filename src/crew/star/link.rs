//! A connection of a poll loop: messages are received and sent without waiting. How much the
//! coordinator has sent and received.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::net::TcpStream;
use std::ops::AddAssign;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

use crate::star::message::{MAX_HELLO, MAX_MESSAGE, Message, Work, decode, frame};
use facts::error::cause;
use facts::net::Incoming;

/// Time without traffic before the kernel probes the host of the other process, and the interval of
/// further probes: few, because a measurement is in progress.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// How long that host may leave probes or data unacknowledged. This time is not above the time in
/// which a member has to report after its block, so that a coordinator that waits for reports knows
/// which members it cannot reach.
const HOST_SILENCE: Duration = Duration::from_secs(10);

/// Maximum number of bytes that wait to be sent: two of the largest messages. A process that does
/// not read is given up then.
const MOST_UNSENT: usize = 2 * MAX_MESSAGE;

/// Maximum number of sockets that one wait returns; the next wait returns the others.
const MOST_READY: usize = 512;

/// Why a connection ended.
#[derive(Debug)]
pub enum Loss {
    /// The other process closed it, or ended.
    Closed,
    /// It was reset: by the other process, which may have ended, or on the way.
    Reset,
    /// The host of the other process does not answer.
    Silent,
    /// It sent bytes that are no message.
    Malformed,
    /// It does not read what is sent to it.
    Unread,
    /// Any other error of the socket.
    Io(io::Error),
}

impl fmt::Display for Loss {
    /// Writes a sentence about the other process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it closed its connection: it failed or was killed"),
            Self::Reset => {
                f.write_str("its connection was reset: it was killed, or the network failed")
            }
            Self::Silent => f.write_str("its host does not answer"),
            Self::Malformed => f.write_str("it sent bytes that are not a message of a survey"),
            Self::Unread => f.write_str("it does not read its messages"),
            Self::Io(error) => write!(f, "the connection to it failed: {}", cause(error)),
        }
    }
}

impl From<io::Error> for Loss {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => {
                Self::Reset
            }
            ErrorKind::TimedOut => Self::Silent,
            _ => Self::Io(error),
        }
    }
}

/// The set of sockets that a loop waits for.
#[derive(Clone, Debug)]
pub struct PollSet(Arc<OwnedFd>);

impl PollSet {
    /// Creates an empty set.
    ///
    /// # Errors
    ///
    /// A process without free file descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?)))
    }

    /// Adds a socket; `key` stands for it in [`Self::ready`]. It leaves the set when it is closed.
    ///
    /// # Errors
    ///
    /// Memory that the kernel lacks.
    pub fn add(&self, socket: impl std::os::fd::AsFd, key: u64, out: bool) -> io::Result<()> {
        Ok(epoll::add(&self.0, socket, EventData::new_u64(key), interest(out))?)
    }

    /// Removes a socket.
    ///
    /// # Errors
    ///
    /// A socket that is not in the set.
    pub fn remove(&self, socket: impl std::os::fd::AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.0, socket)?)
    }

    /// The socket of the set itself, which is readable if any of the set is ready.
    pub fn socket(&self) -> &OwnedFd {
        &self.0
    }

    /// Waits until a socket is ready, for `within` at most, and appends the keys of those that are.
    pub fn ready(&self, within: Duration, keys: &mut Vec<u64>) {
        let mut events = Vec::with_capacity(MOST_READY);
        let within = rustix::event::Timespec::try_from(within).ok();
        // A wait that a signal interrupts ends early.
        let buffer = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&self.0, buffer, within.as_ref()).is_ok() {
            keys.extend(events.iter().map(|event| { event.data }.u64()));
        }
    }
}

fn interest(out: bool) -> EventFlags {
    let more = if out { EventFlags::OUT } else { EventFlags::empty() };
    EventFlags::IN | more
}

/// A connection between processes with this kind of work.
#[derive(Debug)]
pub struct StarLink<W> {
    socket: OwnedFd,
    set: PollSet,
    key: u64,
    incoming: Incoming,
    /// Messages that wait to be sent, with their lengths in front.
    outgoing: VecDeque<Arc<[u8]>>,
    /// Bytes of the first of them that are sent.
    sent: usize,
    /// Bytes that wait to be sent.
    unsent: usize,
    /// The set reports when the socket is writable.
    asks_to_write: bool,
    /// Why it ended, where the socket itself does not show it.
    lost: Option<Loss>,
    traffic: Traffic,
    work: PhantomData<W>,
}

impl<W: Work> StarLink<W> {
    /// Takes over a TCP connection.
    ///
    /// # Errors
    ///
    /// Socket options that the kernel refuses.
    pub fn from_stream(stream: TcpStream, set: &PollSet, key: u64) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let socket = OwnedFd::from(stream);
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, PROBE_INTERVAL)?;
        sockopt::set_tcp_keepintvl(&socket, PROBE_INTERVAL)?;
        sockopt::set_tcp_user_timeout(&socket, HOST_SILENCE.as_millis() as u32)?;
        Self::new(socket, set, key)
    }

    /// Takes over one end of a pair of sockets.
    #[cfg(any(test, feature = "testing"))]
    pub fn from_pair(end: std::os::unix::net::UnixStream, set: &PollSet) -> io::Result<Self> {
        end.set_nonblocking(true)?;
        let mut link = Self::new(end.into(), set, u64::MAX)?;
        link.allow(MAX_MESSAGE);
        Ok(link)
    }

    fn new(socket: OwnedFd, set: &PollSet, key: u64) -> io::Result<Self> {
        set.add(&socket, key, false)?;
        Ok(Self {
            socket,
            set: set.clone(),
            key,
            incoming: Incoming::new(MAX_HELLO),
            outgoing: VecDeque::new(),
            sent: 0,
            unsent: 0,
            asks_to_write: false,
            lost: None,
            traffic: Traffic::default(),
            work: PhantomData,
        })
    }

    /// Gives it another key in the set.
    pub fn set_key(&mut self, key: u64) {
        self.key = key;
        self.ask(self.asks_to_write);
    }

    /// Returns what it has sent and received since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        std::mem::take(&mut self.traffic)
    }

    /// Allows messages of up to `most` bytes from the next one on.
    pub fn allow(&mut self, most: usize) {
        self.incoming = Incoming::new(most);
    }

    /// The next message that has arrived, if there is one.
    ///
    /// # Errors
    ///
    /// The end of the connection.
    pub fn receive(&mut self) -> Result<Option<Message<W>>, Loss> {
        loop {
            let (count, _) = match recv(&self.socket, self.incoming.room(), RecvFlags::DONTWAIT) {
                Ok(received) => received,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => {
                    return Err(self.lost.take().unwrap_or(io::Error::from(error).into()));
                }
            };
            if count == 0 {
                return Err(self.lost.take().unwrap_or(Loss::Closed));
            }
            self.traffic.bytes_received += count as u64;
            match self.incoming.advance(count) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    self.traffic.messages_received += 1;
                    return decode(&bytes).map(Some).ok_or(Loss::Malformed);
                }
                Err(_) => return Err(Loss::Malformed),
            }
        }
    }

    /// Sends a message, or what of it the socket takes now and the rest later. The next
    /// [`Self::receive`] returns why that failed.
    pub fn send(&mut self, message: &Message<W>) {
        self.send_frame(frame(message));
    }

    /// Sends a message whose bytes are known, with its length in front, as [`Self::send`] does.
    pub fn send_frame(&mut self, frame: Arc<[u8]>) {
        self.traffic.messages_sent += 1;
        self.unsent += frame.len();
        self.outgoing.push_back(frame);
        self.flush();
        if self.unsent > MOST_UNSENT {
            self.end(Loss::Unread);
        }
    }

    /// Sends what the socket takes of the messages that wait.
    pub fn flush(&mut self) {
        while let Some(first) = self.outgoing.front() {
            match send(&self.socket, &first[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.traffic.bytes_sent += count as u64;
                    self.unsent -= count;
                    self.sent += count;
                    if self.sent == first.len() {
                        self.sent = 0;
                        self.outgoing.pop_front();
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.end(io::Error::from(error).into());
                    break;
                }
            }
        }
        let asks = !self.outgoing.is_empty();
        if asks != self.asks_to_write {
            self.ask(asks);
        }
    }

    /// Has the set report when the socket is readable, and if `out` when it is writable.
    fn ask(&mut self, out: bool) {
        let data = EventData::new_u64(self.key);
        match epoll::modify(self.set.socket(), &self.socket, data, interest(out)) {
            Ok(()) => self.asks_to_write = out,
            Err(error) => self.end(io::Error::from(error).into()),
        }
    }

    /// Ends the connection for this reason: the socket becomes readable, and [`Self::receive`]
    /// returns the reason.
    fn end(&mut self, loss: Loss) {
        self.outgoing = VecDeque::new();
        (self.sent, self.unsent) = (0, 0);
        self.lost.get_or_insert(loss);
        // An error means that there is no connection, which the socket shows as well.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

/// Messages and bytes on the connections of the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub messages_sent: u64,
    pub bytes_sent: u64,
    pub messages_received: u64,
    pub bytes_received: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        let [sent, bytes_sent] = [more.messages_sent, more.bytes_sent];
        self.messages_sent = self.messages_sent.saturating_add(sent);
        self.bytes_sent = self.bytes_sent.saturating_add(bytes_sent);
        let [received, bytes_received] = [more.messages_received, more.bytes_received];
        self.messages_received = self.messages_received.saturating_add(received);
        self.bytes_received = self.bytes_received.saturating_add(bytes_received);
    }
}
