//! A server: its socket, how it gets from client to client, its wait for the client of one tool,
//! and its answers to others while it measures with that client.
//!
//! A thread answers the others, because the measuring thread must not be disturbed. It sleeps until
//! there is a connection, runs on other CPUs where there are any, and a client costs it one name
//! and one version.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use cxi::placement::Confined;
use facts::error::{Context, Failure, cause};
use facts::interrupt;
use facts::net::{Listener, Reach};
use facts::number::time_text;
use facts::phase::{Phase, enter};
use node::local_address::LocalAddress;
use plan::Plan;
use rustix::event::PollFlags;

use crate::admission::Serving;
use crate::connection::Connection;
use crate::handshake::{Agreed, Handshake, Refusal};
use crate::open::Session;
use crate::peer_facts::{HandshakeIntroduction, machine};
use crate::reception::{
    Dialogue, DialogueState, HandshakeLine, ReadySockets, Reception, RefusalLog,
};

/// Beginning of the line in which a server prints its port.
pub const LISTENING: &str = "Listening on port ";

/// A server's listening socket.
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Listens on the plan's port.
    ///
    /// # Errors
    ///
    /// A port or address that cannot be used.
    pub fn listen(plan: &Plan, reach: Reach) -> Result<Self, Failure> {
        enter(Phase::Listening);
        let listener = Listener::bind(plan.listening.bind.as_deref(), plan.port, reach)?;
        Ok(Self { listener })
    }

    /// Prints the port to `out`.
    pub fn announce(&self, out: &mut impl Write) -> Result<(), Failure> {
        let port = self.port();
        writeln!(out, "{LISTENING}{port} for client to connect...")
            .and_then(|()| out.flush())
            .map_err(interrupt::output_failed)
    }

    /// The port that the server listens on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Waits for a client of the plan's tool, for the plan's time limit at most. Other connections
    /// are logged to `err` and ignored (defect T16 of tools.md). The socket stays open: the next
    /// call finds the next client.
    ///
    /// # Errors
    ///
    /// The end of the time limit, an interruption, and a process that has no file descriptors left.
    pub fn find_client(
        &self,
        plan: &Plan,
        own: LocalAddress,
        err: &mut impl Write,
    ) -> Result<(Session, Agreed), Failure> {
        let us = HandshakeIntroduction::new(plan, own, self.port(), machine());
        let refusals = RefusalLog::new(&plan.program, err);
        let limit = plan.listening.timeout.filter(|limit| !limit.is_zero());
        let found = first_client(&self.listener, &us, refusals, limit)?;
        let (connection, agreed) = found.ok_or_else(|| {
            let limit = time_text(limit.unwrap_or_default());
            let port = self.port();
            Failure::environment(format!("no client came to TCP port {port} within {limit}"))
        })?;
        let connection = connection.with_program(&plan.program);
        Ok((Session::new(connection, &agreed, plan), agreed))
    }

    /// Calls `serve` with the session of a client. Until the run is over, a thread tells other
    /// clients that the server is busy; later ones wait for the next [`Self::find_client`], and all
    /// do if the thread cannot be started. It runs on `cpus`, if there are any, and the scheduler
    /// prefers other threads to it.
    ///
    /// # Errors
    ///
    /// The errors of `serve`.
    pub fn serve_alone(
        &self,
        plan: &Plan,
        own: LocalAddress,
        cpus: &[u32],
        session: Session,
        serve: impl FnOnce(Session) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut us = HandshakeIntroduction::new(plan, own, self.port(), machine());
        us.serving = Some(Serving { client: session.peer().ip(), since: Instant::now() });
        turn_away_during(&self.listener, &us, cpus, |running| {
            session.running.replace(running);
            serve(session)
        })
    }
}

/// Time limit for the answers to clients that have connected when a busy server becomes free, or
/// when the time limit of a server ends.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// How long a busy server leaves a new client without an answer: the run may be over by then.
const NEARLY_FREE: Duration = Duration::from_secs(1);

/// A client, and what was agreed with it.
type Met = (Connection, Agreed);

/// Waits for the first connection to `listener` whose handshake succeeds. Returns `None` if there
/// is none by the time limit, after which the connections of that moment have [`LAST_ANSWERS`] to
/// finish. No connection ends the wait unless it becomes the client.
///
/// # Errors
///
/// An interruption, and a process without free file descriptors.
fn first_client<'a>(
    listener: &'a Listener,
    us: &'a HandshakeIntroduction,
    refusals: RefusalLog<'a>,
    limit: Option<Duration>,
) -> Result<Option<Met>, Failure> {
    let mut reception = reception(listener, us, refusals);
    let end = limit.map(|limit| Instant::now() + limit);
    let client = loop {
        let ready = reception.wait(None, end)?;
        let client = answer(&mut reception, listener, &ready)?;
        if client.is_some() {
            break client;
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            break last_answers(&mut reception, listener, |_| false)?;
        }
    };
    if client.is_some() {
        reception.served();
    }
    Ok(client)
}

/// Tells each client that the server is busy, until `end` is readable or closed. The connection of
/// a client that waits for its turn stays open until then, or until the limit of its answer.
/// Connections that come later stay with the listener.
fn turn_away<'a>(
    listener: &'a Listener,
    us: &'a HandshakeIntroduction,
    refusals: RefusalLog<'a>,
    end: &UnixStream,
) -> Result<(), Failure> {
    let mut reception = reception(listener, us, refusals);
    let nearly = Some(NEARLY_FREE);
    loop {
        let ready = reception.wait(Some(end), None)?;
        // A client that comes at the end of a run, perhaps after the client of that run has ended,
        // stays with the listener and is served next.
        if ready.end || ready.newcomers && interrupt::wait(end, PollFlags::IN, nearly)? {
            break;
        }
        answer(&mut reception, listener, &ready)?;
    }
    // A client whose handshake has begun gets its answer, not a closed connection.
    last_answers(&mut reception, listener, |handshake| handshake.turns_away())?;
    Ok(())
}

fn reception<'a>(
    listener: &'a Listener,
    us: &'a HandshakeIntroduction,
    refusals: RefusalLog<'a>,
) -> Reception<'a, Handshake<'a>> {
    Reception::new(listener, refusals, |line: &mut HandshakeLine| Ok(Handshake::new(us, line.peer)))
}

impl Dialogue for Handshake<'_> {
    type End = Met;

    fn is_named(&self) -> bool {
        Handshake::is_named(self)
    }

    fn answer(mut self, mut line: HandshakeLine) -> Result<DialogueState<Self>, Refusal> {
        while let Some(payload) = self.receive(&mut line)? {
            // A legacy client that waits for an answer sees the connection close. SIGPIPE would end
            // it without a message if it received one and sent the next (wire.md 10).
            if self.turns_away() {
                return Err(self.refusal(&line, "the server is busy"));
            }
            // A prompted client has already received this side's half of the exchange.
            if !line.is_prompted {
                self.learn(&payload);
                self.send_mine(&mut line)?;
            }
            if let Some(agreed) = self.accept(&payload)? {
                let connection = Connection::new(line.stream, line.peer, false);
                let lost = |error| Refusal::Unrelated(cause(&error));
                return Ok(DialogueState::Over((connection.map_err(lost)?, agreed)));
            }
            if line.is_prompted {
                self.send_mine(&mut line)?;
            }
        }
        Ok(DialogueState::Waits(self, line))
    }

    fn prompt(&mut self, line: &mut HandshakeLine) -> Result<(), Refusal> {
        self.send_mine(line)
    }

    fn failure(&mut self, line: &HandshakeLine, reason: &str) -> Failure {
        let (peer, doing) = (line.peer, self.doing());
        let failure = format!("the client ({peer}) failed {doing}: {reason}");
        Handshake::failure(self, Failure::environment(failure))
    }
}

impl Handshake<'_> {
    /// Sends this side's half of an exchange.
    fn send_mine(&mut self, line: &mut HandshakeLine) -> Result<(), Refusal> {
        // The answers of a busy server are no phase of its run.
        if !self.is_busy() {
            enter(self.phase());
        }
        let mine = self.mine();
        self.send(line, &mine)
    }
}

/// Continues the handshakes of the connections that are ready. Returns the client, once there is
/// one.
fn answer(
    reception: &mut Reception<Handshake>,
    listener: &Listener,
    ready: &ReadySockets,
) -> Result<Option<Met>, Failure> {
    let port = listener.port();
    let answered = reception.answer(ready);
    answered.environment(format_args!("cannot accept a connection on TCP port {port}"))
}

/// Continues the handshakes that have begun, until all are answered, for [`LAST_ANSWERS`] at most.
/// Returns the client, if there is one.
fn last_answers(
    reception: &mut Reception<Handshake>,
    listener: &Listener,
    is_answered: impl Fn(&Handshake) -> bool,
) -> Result<Option<Met>, Failure> {
    let until = Instant::now() + LAST_ANSWERS;
    while !reception.dialogues().all(&is_answered) && Instant::now() < until {
        let ready = reception.wait_for_present(Some(until))?;
        if let Some(client) = answer(reception, listener, &ready)? {
            return Ok(Some(client));
        }
    }
    Ok(None)
}

/// Niceness of the thread: the measurement has a higher priority. With the lowest one, the thread,
/// and the run with it, would end seconds later on a loaded host.
const NICENESS: i32 = 5;

/// Name of the thread.
const NAME: &str = "busy";

/// Calls `serve`, while a thread on `cpus` (any if empty) turns away the clients of `listener`. The
/// thread ends when `serve` drops its argument. If it cannot be started, other clients wait.
///
/// # Errors
///
/// The errors of `serve`.
fn turn_away_during(
    listener: &Listener,
    us: &HandshakeIntroduction,
    cpus: &[u32],
    serve: impl FnOnce(Option<UnixStream>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Ok((running, end)) = UnixStream::pair() else {
        return serve(None);
    };
    let turn_away = || {
        // Without its own CPUs, or a lower priority, the thread answers as well.
        let _confined = Confined::to(cpus);
        let _ = rustix::process::nice(NICENESS);
        // Clients see in the answer why they are turned away: nothing is printed.
        let log = &mut io::sink();
        // An interruption ends `serve` as well. Without file descriptors, clients wait.
        let _ = turn_away(listener, us, RefusalLog::new("", log), &end);
    };
    let thread = Builder::new().name(NAME.into());
    beside(thread, turn_away, || serve(Some(running)))
}

/// The result of `run`, which is called while `thread` executes `answer`, if it can be started: the
/// run matters more than the answers.
fn beside<T>(thread: Builder, answer: impl FnOnce() + Send, run: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let _ = thread.spawn_scoped(scope, answer);
        run()
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::sync::mpsc;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use facts::error::Kind;
    use facts::net::message;

    use super::*;
    use crate::testing::{
        CLIENT, HOST, LONG, Output, SERVER, Script, client, default_options, plan,
    };
    use crate::wire::{encode_address, string};

    #[test]
    fn runs_without_a_thread_that_cannot_be_started() {
        // No address space has room for this stack.
        let thread = Builder::new().stack_size(1 << 50);
        let outcome = beside(thread, || panic!("it has started"), || "measured");
        assert_eq!(outcome, "measured");
    }

    #[test]
    fn listener_stays_open_while_a_client_is_served() {
        let (port, listening) = mpsc::channel();
        let server = thread::spawn(move || {
            let plan = plan(&["--port=0"]);
            let text = Vec::new();
            let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
            server.announce(&mut Output { text, port }).unwrap();
            let next = || server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
            let (first, _) = next();
            let (second, _) = next();
            // The first session goes on while the second client is found.
            first.ready().unwrap();
            second.ready().unwrap();
        });
        let port = listening.recv_timeout(LONG).unwrap();
        let (first, _) = client(port, &[], CLIENT).unwrap();
        let (second, _) = client(port, &[], CLIENT).unwrap();
        first.ready().unwrap();
        second.ready().unwrap();
        server.join().unwrap();
    }

    /// A server of two clients, its port, and its session with the first one, which lasts until the
    /// first barrier. The server then calls `release`.
    fn releasing_server(release: impl FnOnce() + Send + 'static) -> (JoinHandle<()>, u16, Session) {
        let (port, listening) = mpsc::channel();
        let server = thread::spawn(move || {
            let plan = plan(&["--port=0"]);
            let text = Vec::new();
            let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
            server.announce(&mut Output { text, port }).unwrap();
            let (session, _) = server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
            let served = server.serve_alone(&plan, SERVER, &[], session, |session| {
                session.barrier("first", LONG)?;
                session.finish();
                release();
                Ok(())
            });
            served.unwrap();
            server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
        });
        let port = listening.recv_timeout(LONG).unwrap();
        let (first, _) = client(port, &[], CLIENT).unwrap();
        (server, port, first)
    }

    fn busy_server() -> (JoinHandle<()>, u16, Session) {
        releasing_server(|| {})
    }

    #[test]
    fn busy_server_names_its_client() {
        let (server, port, first) = busy_server();
        let failure = client(port, &[], CLIENT).unwrap_err();
        let message = failure.message();
        let expected = format!("the server ({HOST}:{port}) is busy: serving {HOST} for ");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.ends_with(" s"), "{message}");
        assert!(failure.hint.unwrap().contains("--wait"));
        // What is wrong in any case comes first.
        let failure = client(port, &["--wait=60"], LocalAddress { vni: 11, ..CLIENT }).unwrap_err();
        assert!(failure.message().contains("VNIs"), "{failure}");
        first.barrier("first", LONG).unwrap();
        client(port, &[], CLIENT).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn client_gets_its_turn_when_a_busy_server_is_free() {
        let (server, port, first) = busy_server();
        let mut waiting = Script::client(port);
        waiting.lead(&string("cxi_write_lat"));
        let answer = waiting.lead(&string("2.4.0 cxidiag/9 vni=10"));
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(" busy="), "{answer}");
        first.barrier("first", LONG).unwrap();
        waiting.ended();
        client(port, &[], CLIENT).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn client_connects_again_when_a_busy_server_becomes_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let scripted = thread::spawn(move || {
            let next = || Script(listener.accept().unwrap().0);
            let mut told = next();
            told.follow(&string("cxi_write_lat"));
            told.follow(&string("2.4.0 cxidiag/9 vni=10 busy=3:10.1.1.8"));
            drop(told);
            // This one becomes free before it sends its version.
            next().follow(&string("cxi_write_lat"));
            // This one finds another client after it has sent its version.
            let mut other = next();
            other.follow(&string("cxi_write_lat"));
            other.follow(&string("2.4.0 cxidiag/9 vni=10"));
            drop(other);
            let mut free = next();
            free.follow(&string("cxi_write_lat"));
            free.follow(&string("2.4.0"));
            free.follow(&default_options());
            free.follow(&encode_address(SERVER.address));
        });
        client(port, &["--wait=60"], CLIENT).unwrap();
        scripted.join().unwrap();
    }

    #[test]
    fn server_that_releases_its_resources_is_not_busy() {
        let (finished, end) = mpsc::channel::<()>();
        let (released, gate) = mpsc::channel::<()>();
        let (server, port, first) = releasing_server(move || {
            finished.send(()).unwrap();
            gate.recv().unwrap();
        });
        first.barrier("first", LONG).unwrap();
        end.recv().unwrap();
        let mut next = Script::client(port);
        next.send(&string("cxi_write_lat"));
        // No answer, rather than one that the server is busy.
        let moment = Duration::from_millis(100);
        next.0.set_read_timeout(Some(moment)).unwrap();
        assert!(next.0.peek(&mut [0]).is_err());
        next.0.set_read_timeout(None).unwrap();
        released.send(()).unwrap();
        assert_eq!(next.receive(), string("cxi_write_lat"));
        let version = String::from_utf8(next.lead(&string("2.4.0"))).unwrap();
        assert!(!version.contains(" busy="), "{version}");
        next.lead(&default_options());
        next.lead(&encode_address(CLIENT.address));
        server.join().unwrap();
    }

    /// A legacy client ends without a message if it sends to a closed connection (wire.md 10).
    #[test]
    fn busy_server_closes_connection_while_legacy_client_listens() {
        let (server, port, first) = busy_server();
        let mut script = Script::client(port);
        assert_eq!(script.lead(&string("cxi_write_lat")), string("cxi_write_lat"));
        script.lead(&string("2.4.0"));
        script.send(&default_options());
        assert_eq!(script.0.read(&mut [0]).unwrap(), 0);
        first.barrier("first", LONG).unwrap();
        client(port, &[], CLIENT).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn busy_server_ignores_unrelated_connections() {
        let (server, port, first) = busy_server();
        let mut silent = TcpStream::connect((HOST, port)).unwrap();
        let mut garbage = TcpStream::connect((HOST, port)).unwrap();
        garbage.write_all(&[0xff; 99]).unwrap();
        Script(garbage).ended();
        client(port, &[], CLIENT).unwrap_err();
        first.barrier("first", LONG).unwrap();
        // After two seconds, the server sends its name.
        let mut sent = Vec::new();
        let _ = silent.read_to_end(&mut sent);
        let name = message(&string("cxi_write_lat"));
        assert!(sent.is_empty() || sent == name, "{sent:?}");
        client(port, &[], CLIENT).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn limits_each_wait_for_a_client() {
        let plan = plan(&["--port=0", "--timeout=10ms"]);
        let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
        let port = server.port();
        // A silent connection is not a client, and does not extend the time.
        let _silent = TcpStream::connect((HOST, port)).unwrap();
        for _ in 0..2 {
            let met = server.find_client(&plan, SERVER, &mut Vec::new());
            let failure = met.map(drop).unwrap_err();
            let message = format!("no client came to TCP port {port} within 10ms");
            assert_eq!((failure.kind, failure.message()), (Kind::Environment, message));
        }
    }

    #[test]
    fn client_that_has_connected_in_time_finishes_its_handshake() {
        let plan = plan(&["--port=0", "--timeout=1ns"]);
        let server = Server::listen(&plan, Reach::ThisMachine).unwrap();
        let mut client = Script::client(server.port());
        client.send(&string("cxi_write_lat"));
        client.send(&string("2.4.0"));
        client.send(&default_options());
        client.send(&encode_address(CLIENT.address));
        server.find_client(&plan, SERVER, &mut Vec::new()).unwrap();
    }

    #[test]
    fn legacy_peers_need_no_token_only_if_this_side_has_none() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        for version in ["2.4.0", "2.4.0 cxidiag/0.1.0 vni=10"] {
            let ours = thread::spawn(move || client(port, &["--token=secret"], CLIENT));
            let mut script = Script(listener.accept().unwrap().0);
            script.follow(&string("cxi_write_lat"));
            let received = String::from_utf8(script.follow(&string(version))).unwrap();
            assert!(!received.contains("secret"), "{received}");
            let failure = ours.join().unwrap().map(drop).unwrap_err();
            let expected = format!("tokens differ: set here, not set at the peer ({HOST}:{port})");
            assert_eq!(failure.message(), expected);
            assert!(failure.hint.unwrap().contains("CXIDIAG_TOKEN"));
        }
    }
}
