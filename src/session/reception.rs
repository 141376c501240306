//! The connections to a server in their handshake, among unrelated ones (defect T16 of tools.md),
//! and the lines that a server prints about refused connections.
//!
//! One thread reads the messages of all connections at the same time: a silent one delays no other,
//! and costs a file descriptor for [`ANSWER_LIMIT`] at most. What the server says to each is its
//! [`Dialogue`]: `first_client` for a server of one tool, `arrivals` for one of all tools. The
//! lines are limited in number so that a flood of connections does not fill a disk.

use std::io::{ErrorKind, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use facts::error::{Failure, cause};
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::net::{Incoming, Listener, TooLong, first_of_largest_host, message, out_of};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::handshake::Refusal;
use crate::wire::{self, BUSY, MAX_PAYLOAD};

/// Maximum number of connections in the handshake. A new one replaces an old one.
const MOST: usize = 256;

/// Number of connections up to which hosts have equal shares of the places. A host with two clients
/// is no larger than a stranger who has one connection from each of many addresses.
const FEW: usize = 8;

/// Time in which a connection is not replaced after its last message, so that a client that answers
/// at once is served however many others come. New connections wait meanwhile.
const KEPT: Duration = Duration::from_millis(250);

/// Time after which a server sends its name first. The clients of SHS 12 and before wait for it
/// (wire.md 9.1); newer ones have sent theirs by then.
const PROMPT: Duration = Duration::from_secs(2);

/// Why a peer that has ended is refused.
const CLOSED: &str = "it closed the connection";

/// The messages of a server to one connection.
pub trait Dialogue: Sized {
    /// The result of a connection when the dialogue is over.
    type End;

    /// Whether the peer has sent the name of a tool.
    fn is_named(&self) -> bool;

    /// Answers what has arrived.
    fn answer(self, line: HandshakeLine) -> Result<DialogueState<Self>, Refusal>;

    /// Sends a name first, for a client that waits for it.
    fn prompt(&mut self, line: &mut HandshakeLine) -> Result<(), Refusal>;

    /// The failure of a client for this `reason`.
    fn failure(&mut self, line: &HandshakeLine, reason: &str) -> Failure;

    /// The refusal for this `reason`: of an unrelated connection until it has sent the name of a
    /// tool, of a client afterwards.
    fn refusal(&mut self, line: &HandshakeLine, reason: &str) -> Refusal {
        if self.is_named() {
            self.failure(line, reason).into()
        } else {
            Refusal::Unrelated(reason.to_owned())
        }
    }

    /// The next message, if it has arrived whole.
    fn receive(&mut self, line: &mut HandshakeLine) -> Result<Option<Vec<u8>>, Refusal> {
        line.receive(self.is_named()).map_err(|reason| self.refusal(line, &reason))
    }

    /// Sends a payload, which always fits into the socket's buffer.
    fn send(&mut self, line: &mut HandshakeLine, payload: &[u8]) -> Result<(), Refusal> {
        let sent = line.stream.write_all(&message(payload));
        sent.map_err(|error| self.refusal(line, &cause(&error)))
    }
}

/// How far a dialogue is.
pub enum DialogueState<D: Dialogue> {
    /// The next message has not arrived.
    Waits(D, HandshakeLine),
    /// It is over.
    Over(D::End),
}

/// A connection in the handshake.
pub struct HandshakeLine {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    /// This side has sent a name first, for clients that wait for it.
    pub is_prompted: bool,
    incoming: Incoming,
    /// When the current exchange began.
    since: Instant,
}

impl HandshakeLine {
    /// Allows payloads of up to `most` bytes from the next message on.
    pub fn allow(&mut self, most: usize) {
        self.incoming = Incoming::new(most);
    }

    fn receive(&mut self, is_named: bool) -> Result<Option<Vec<u8>>, String> {
        // After a signal, nothing is answered.
        while !interrupt::requested() {
            let received = match self.stream.read(self.incoming.room()) {
                Ok(0) if is_named => return Err(CLOSED.into()),
                Ok(0) => return Err(format!("{CLOSED} without sending the name of a tool")),
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(cause(&error)),
            };
            let payload = self.incoming.advance(received);
            let payload = payload.map_err(|TooLong(_)| "it speaks another protocol")?;
            if payload.is_some() {
                self.since = Instant::now();
                return Ok(payload);
            }
        }
        Ok(None)
    }
}

/// How a server begins the dialogue with a new connection, unless it refuses it at once.
type Begin<'a, D> = dyn Fn(&mut HandshakeLine) -> Result<D, Refusal> + 'a;

/// The connections to a server in their handshake.
pub struct Reception<'a, D> {
    listener: &'a Listener,
    begin: Box<Begin<'a, D>>,
    refusals: RefusalLog<'a>,
    callers: Vec<InHandshake<D>>,
}

struct InHandshake<D> {
    line: HandshakeLine,
    dialogue: D,
}

/// The sockets that are ready after a wait.
#[derive(Debug, Default)]
pub struct ReadySockets {
    /// For each connection, whether there is something to read.
    callers: Vec<bool>,
    /// Whether there are new connections.
    pub newcomers: bool,
    /// Whether the end was requested.
    pub end: bool,
}

impl<'a, D: Dialogue> Reception<'a, D> {
    /// Creates the reception for the connections of `listener`. It logs to `refusals`.
    pub fn new(
        listener: &'a Listener,
        refusals: RefusalLog<'a>,
        begin: impl Fn(&mut HandshakeLine) -> Result<D, Refusal> + 'a,
    ) -> Self {
        Self { listener, begin: Box::new(begin), refusals, callers: Vec::new() }
    }

    /// Waits for a new connection, for bytes of one, for `end` to be readable or closed, or for the
    /// earliest time limit: a connection's, or `until`.
    ///
    /// # Errors
    ///
    /// An interruption.
    pub fn wait(
        &self,
        end: Option<&UnixStream>,
        until: Option<Instant>,
    ) -> Result<ReadySockets, Failure> {
        match self.full_until() {
            None => self.wait_at(Some(self.listener), end, until),
            full => self.wait_at(None, end, until.into_iter().chain(full).min()),
        }
    }

    /// The same, but leaves new connections to the listener.
    pub fn wait_for_present(&self, until: Option<Instant>) -> Result<ReadySockets, Failure> {
        self.wait_at(None, None, until)
    }

    fn wait_at(
        &self,
        listener: Option<&Listener>,
        end: Option<&UnixStream>,
        until: Option<Instant>,
    ) -> Result<ReadySockets, Failure> {
        let due = self.callers.iter().map(InHandshake::due).chain(until).min();
        let within = due.map(|due| due.saturating_duration_since(Instant::now()));
        let streams = self.callers.iter().map(|caller| &caller.line.stream);
        let mut polled: Vec<PollFd> = streams
            .map(|stream| PollFd::new(stream, PollFlags::IN))
            .chain(listener.map(|listener| PollFd::new(listener.socket(), PollFlags::IN)))
            .chain(end.map(|end| PollFd::new(end, PollFlags::IN)))
            .collect();
        interrupt::wait_for_any(&mut polled, within)?;
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        Ok(ReadySockets {
            callers: ready.by_ref().take(self.callers.len()).collect(),
            newcomers: listener.is_some() && ready.next() == Some(true),
            end: end.is_some() && ready.next() == Some(true),
        })
    }

    /// Answers the connections that are ready, and accepts new ones. Returns the first one whose
    /// dialogue is over; the next call answers those behind it.
    ///
    /// # Errors
    ///
    /// A process without resources for a new connection that has none to replace, and a socket that
    /// does not listen.
    pub fn answer(&mut self, ready: &ReadySockets) -> Result<Option<D::End>, Errno> {
        let mut callers = mem::take(&mut self.callers).into_iter();
        for (caller, is_ready) in callers.by_ref().zip(&ready.callers) {
            let peer = caller.line.peer;
            match caller.advance(*is_ready) {
                Ok(DialogueState::Waits(dialogue, line)) => {
                    self.callers.push(InHandshake { line, dialogue })
                }
                Ok(DialogueState::Over(end)) => {
                    self.callers.extend(callers);
                    return Ok(Some(end));
                }
                Err(refusal) => self.refusals.refused(peer, &refusal),
            }
        }
        if ready.newcomers {
            self.accept()?;
        }
        Ok(None)
    }

    /// Notes that a client is served.
    pub fn served(&mut self) {
        self.refusals.served();
    }

    /// The dialogues that go on.
    pub fn dialogues(&self) -> impl Iterator<Item = &D> {
        self.callers.iter().map(|caller| &caller.dialogue)
    }

    /// Accepts the new connections.
    fn accept(&mut self) -> Result<(), Errno> {
        // Not more than MOST at once, so that the accepted ones are answered in between.
        for _ in 0..MOST {
            if self.full_until().is_some() {
                return Ok(());
            }
            match self.listener.accept() {
                Ok(None) => return Ok(()),
                Ok(Some((stream, peer))) => self.greet(stream, peer),
                Err(error) if out_of(&error).is_some() && !self.callers.is_empty() => {
                    self.replace_oldest(&cause(&error));
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(errno @ (Errno::BADF | Errno::INVAL)) => return Err(errno),
                    Some(errno) if out_of(&error).is_some() => return Err(errno),
                    // Linux reports errors of the new connection here.
                    _ => {}
                },
            }
        }
        Ok(())
    }

    fn greet(&mut self, stream: TcpStream, peer: SocketAddr) {
        let mut line = HandshakeLine {
            stream,
            peer,
            is_prompted: false,
            incoming: Incoming::new(MAX_PAYLOAD),
            since: Instant::now(),
        };
        match (self.begin)(&mut line) {
            Ok(dialogue) => {
                if self.callers.len() == MOST {
                    self.replace_oldest(&format!("at most {MOST} at a time"));
                }
                self.callers.push(InHandshake { line, dialogue });
            }
            Err(refusal) => self.refusals.refused(peer, &refusal),
        }
    }

    /// The connection that gives way to a new one.
    fn oldest(&self) -> Option<usize> {
        let callers = self.callers.iter().map(|caller| (caller.line.peer.ip(), caller.line.since));
        first_of_largest_host(callers, FEW).map(|(oldest, _)| oldest)
    }

    /// When there is a place for a new connection, if there is none now.
    fn full_until(&self) -> Option<Instant> {
        if self.callers.len() < MOST {
            return None;
        }
        let oldest = self.oldest()?;
        let time = self.callers[oldest].line.since + KEPT;
        (time > Instant::now()).then_some(time)
    }

    /// Closes the connection that has sent nothing for the longest time, of the address with most
    /// connections if one has more than [`FEW`]: many connections of one address do not replace the
    /// connection of another one. A client of cxidiag reads this reason.
    fn replace_oldest(&mut self, reason: &str) {
        if let Some(oldest) = self.oldest() {
            let mut gone = self.callers.remove(oldest);
            let reason = format!("replaced by newer connections ({reason})");
            // A client that has ended does not need the reason.
            let _ = gone.line.stream.write_all(&wire::refusal(&format!("{BUSY}{reason}")));
            self.refusals.refused(gone.line.peer, &Refusal::Unrelated(reason));
        }
    }
}

impl<D: Dialogue> InHandshake<D> {
    /// Whether this side is to send a name first if the client does not send its own.
    fn may_wait(&self) -> bool {
        !self.line.is_prompted && !self.dialogue.is_named()
    }

    /// The time limit of the current exchange.
    fn due(&self) -> Instant {
        self.line.since + if self.may_wait() { PROMPT } else { ANSWER_LIMIT }
    }

    /// Continues the dialogue.
    fn advance(self, is_ready: bool) -> Result<DialogueState<D>, Refusal> {
        if !is_ready {
            return self.look_at_clock();
        }
        match self.dialogue.answer(self.line)? {
            DialogueState::Waits(dialogue, line) => Self { line, dialogue }.look_at_clock(),
            over => Ok(over),
        }
    }

    /// Acts if the time limit of the current exchange is over.
    fn look_at_clock(self) -> Result<DialogueState<D>, Refusal> {
        let (is_due, may_wait) = (Instant::now() >= self.due(), self.may_wait());
        let Self { mut line, mut dialogue } = self;
        if is_due && !may_wait {
            let silence = format!("it sent nothing for {} s", ANSWER_LIMIT.as_secs());
            return Err(dialogue.refusal(&line, &silence));
        }
        if is_due {
            line.is_prompted = true;
            dialogue.prompt(&mut line)?;
        }
        Ok(DialogueState::Waits(dialogue, line))
    }
}

/// Number of refusals that are printed one by one. Later ones are counted, and the count is printed
/// whenever it has doubled.
const SINGLY: u64 = 20;

/// The counts of a server of all tools since its start, in several threads.
#[derive(Debug, Default)]
pub struct ServerTotals {
    /// Unrelated connections.
    pub unrelated: AtomicU64,
    /// Refused clients.
    pub clients: AtomicU64,
    /// Runs that are done.
    pub runs: AtomicU64,
}

/// Limits the lines about events of one kind, such as `clients`: the first `SINGLY` are printed,
/// later ones counted.
#[derive(Debug)]
pub struct LineLimit {
    kind: &'static str,
    count: u64,
}

impl LineLimit {
    /// Creates the limit for events of this kind.
    pub fn new(kind: &'static str) -> Self {
        Self { kind, count: 0 }
    }

    /// Counts an event that `text` describes, and passes the lines to print to `print`.
    pub fn add(&mut self, text: &str, mut print: impl FnMut(&str)) {
        self.count += 1;
        let Self { kind, count } = *self;
        if count <= SINGLY {
            print(text);
            if count == SINGLY {
                print(&format!("further {kind} are only counted"));
            }
        } else if count.is_multiple_of(SINGLY) && (count / SINGLY).is_power_of_two() {
            print(&format!("{text} ({count} {kind} so far)"));
        }
    }

    /// Passes the count to `print` if a client is served after lines that were not printed, and
    /// begins to count anew.
    pub fn served(&mut self, mut print: impl FnMut(&str)) {
        let Self { kind, count } = *self;
        if count > SINGLY {
            print(&format!("refused {count} {kind} before this client"));
        }
        self.count = 0;
    }
}

/// The refusals of one wait.
pub struct RefusalLog<'a> {
    program: &'a str,
    out: &'a mut dyn Write,
    unrelated: LineLimit,
    clients: LineLimit,
    totals: Arc<ServerTotals>,
    /// Number of runs done at the last refusal.
    runs: u64,
}

impl<'a> RefusalLog<'a> {
    /// Creates the log of `program` on `out`. Without a program, the lines begin with the text.
    pub fn new(program: &'a str, out: &'a mut dyn Write) -> Self {
        Self {
            program,
            out,
            unrelated: LineLimit::new("connections"),
            clients: LineLimit::new("clients"),
            totals: Arc::default(),
            runs: 0,
        }
    }

    /// The log, which also counts in `totals`, and counts anew after each run.
    pub fn counting_in(self, totals: Arc<ServerTotals>) -> Self {
        Self { totals, ..self }
    }

    /// Logs the refusal of `peer`. Unrelated connections and clients are counted separately, so
    /// that a flood of unrelated connections does not hide a refused client.
    pub fn refused(&mut self, peer: SocketAddr, refusal: &Refusal) {
        let runs = self.totals.runs.load(Ordering::Relaxed);
        if runs != self.runs {
            self.runs = runs;
            self.served();
        }
        // In the log of a server of all tools, each line begins with the address.
        let is_of_all_tools = self.program.is_empty();
        let (limit, total, text) = match refusal {
            Refusal::Unrelated(reason) => {
                let text = if is_of_all_tools {
                    format!("{peer} ignored: {reason}")
                } else {
                    format!("ignored a connection from {peer}: {reason}")
                };
                (&mut self.unrelated, &self.totals.unrelated, text)
            }
            Refusal::Failed(failure) | Refusal::Busy(failure) => {
                let hint = failure.hint.as_ref();
                let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
                let text = if is_of_all_tools {
                    format!("{peer} refused: {failure}{hint}")
                } else {
                    format!("refused a client: {failure}{hint}")
                };
                (&mut self.clients, &self.totals.clients, text)
            }
        };
        total.fetch_add(1, Ordering::Relaxed);
        limit.add(&text, |text| print(self.program, self.out, text));
    }

    /// Prints the counts when a client is served, and begins to count anew.
    pub fn served(&mut self) {
        for limit in [&mut self.unrelated, &mut self.clients] {
            limit.served(|text| print(self.program, self.out, text));
        }
    }
}

/// Prints a line with one write, so that lines of several processes do not mix. Errors are ignored.
fn print(program: &str, out: &mut dyn Write, text: &str) {
    let line = match program {
        "" => format!("{text}\n"),
        program => format!("{program}: {text}\n"),
    };
    let _ = out.write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use facts::error::Failure;
    use facts::net::Reach;

    use super::*;

    /// Says nothing, and waits.
    struct Silent;

    impl Dialogue for Silent {
        type End = ();

        fn is_named(&self) -> bool {
            false
        }

        fn answer(self, line: HandshakeLine) -> Result<DialogueState<Self>, Refusal> {
            Ok(DialogueState::Waits(self, line))
        }

        fn prompt(&mut self, _line: &mut HandshakeLine) -> Result<(), Refusal> {
            Ok(())
        }

        fn failure(&mut self, _line: &HandshakeLine, reason: &str) -> Failure {
            Failure::environment(reason.to_owned())
        }
    }

    #[test]
    fn connections_that_have_just_spoken_are_not_replaced() {
        let listener = Listener::bind(Some("127.0.0.1"), 0, Reach::Everywhere).unwrap();
        let mut notes = Vec::new();
        let refusals = RefusalLog::new("", &mut notes);
        let mut reception = Reception::new(&listener, refusals, |_| Ok(Silent));
        let address = ("127.0.0.1", listener.port());
        let mut streams: Vec<TcpStream> = Vec::new();
        while reception.callers.len() < MOST {
            streams.push(TcpStream::connect(address).unwrap());
            reception.accept().unwrap();
        }
        let later = Instant::now() + Duration::from_secs(3600);
        reception.callers.iter_mut().for_each(|caller| caller.line.since = later);
        streams.push(TcpStream::connect(address).unwrap());
        let own = streams[MOST].local_addr().unwrap();
        let has_newest = |reception: &Reception<Silent>| {
            reception.callers.iter().any(|caller| caller.line.peer == own)
        };
        reception.accept().unwrap();
        assert!(reception.full_until().is_some() && !has_newest(&reception));
        reception.callers[7].line.since = Instant::now() - KEPT;
        reception.accept().unwrap();
        assert!(has_newest(&reception) && reception.callers.len() == MOST);
    }

    fn logged(unrelated: u64, clients: u64) -> String {
        let mut out = Vec::new();
        let mut refusals = RefusalLog::new("cxidiag write-lat", &mut out);
        let peer = "10.1.1.8:4711".parse().unwrap();
        for _ in 0..unrelated {
            refusals.refused(peer, &Refusal::Unrelated("no message".into()));
        }
        for _ in 0..clients {
            let failure = Failure::environment("different tools").with_hint("start the same");
            refusals.refused(peer, &Refusal::Failed(failure));
        }
        refusals.served();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn logs_first_refusals_one_by_one() {
        assert_eq!(
            logged(1, 1),
            "cxidiag write-lat: ignored a connection from 10.1.1.8:4711: no message\n\
             cxidiag write-lat: refused a client: different tools; start the same\n"
        );
        assert_eq!(logged(19, 19).lines().count(), 38);
        assert_eq!(logged(0, 0), "");
    }

    #[test]
    fn server_of_all_tools_counts_anew_after_a_run() {
        let mut out = Vec::new();
        let totals = Arc::new(ServerTotals::default());
        let mut refusals = RefusalLog::new("", &mut out).counting_in(totals.clone());
        let peer = "10.1.1.8:4711".parse().unwrap();
        for _ in 0..2 {
            for _ in 0..30 {
                refusals.refused(peer, &Refusal::Unrelated("no message".into()));
            }
            totals.runs.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(totals.unrelated.load(Ordering::Relaxed), 60);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("10.1.1.8:4711 ignored: no message").count(), 40, "{text}");
        let count = "refused 30 connections before this client\n";
        assert_eq!(text.matches(count).count(), 1, "{text}");
    }

    #[test]
    fn counts_flood_of_refusals() {
        let text = logged(1_000_000, 1);
        assert!(text.lines().count() < 45, "{text}");
        assert!(text.contains("(640 connections so far)\n"), "{text}");
        assert!(text.contains("refused a client: different tools"), "{text}");
        assert!(text.ends_with(": refused 1000000 connections before this client\n"), "{text}");
    }
}
