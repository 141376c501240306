//! An open session: what both sides exchange from the end of the handshake to the last barrier.

use std::cell::{Cell, RefCell};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::connection::{Connection, PeerCheck};
use super::control_line::ControlLine;
use super::handshake::{self, Agreed};
use super::link_error::LinkError;
use super::wait::{Ticker, Wait};
use super::wire::{self, REFUSAL};
use facts::advice::Advise;
use facts::error::{Context, Failure, Kind};
use facts::interrupt;
use facts::limit::ANSWER_LIMIT;
use facts::phase::{Phase, enter};
use measure::{SideResult, SideView};
use plan::Plan;
use plan::run_options::RunOptions;

/// Time limit for the set-up of a side, which may clear and pin hundreds of gigabytes.
const READY_LIMIT: Duration = Duration::from_secs(600);

/// Wait after an error of the NIC, because the end of the peer may be its cause and the connection
/// shows the end a moment later.
const NEWS: Duration = Duration::from_millis(200);

/// The connection to a peer that has the same tool and the same options.
#[derive(Debug)]
pub struct Session {
    pub(super) connection: Connection,
    /// The peer understands interrupt notices and refusals, and none was sent yet.
    owes_interrupt_notice: Cell<bool>,
    /// Open until the run is over; a server turns other clients away meanwhile.
    pub(super) running: RefCell<Option<UnixStream>>,
    /// The client receives its place in the queue.
    pub(super) queues: bool,
    /// The client answers calls.
    pub(super) answers_calls: bool,
    /// In the process of a client of a server of all tools: the line to that server, which may end
    /// the run.
    line: RefCell<Option<ControlLine>>,
    /// Sends the ticks of this side.
    ticker: RefCell<Option<Ticker>>,
    /// Time that the measurement of a size takes at least.
    measuring: Duration,
}

impl Session {
    /// Creates the session of a process with this `plan`. Ticks are sent from now on, if the peer
    /// knows them.
    pub(super) fn new(connection: Connection, agreed: &Agreed, plan: &Plan) -> Self {
        connection.expect_ticks(agreed.peer_ticks);
        // Without the descriptor there are no ticks.
        let stream = connection.stream().try_clone().ok();
        let stream = stream.filter(|_| agreed.own_ticks);
        let ticker = stream.and_then(|stream| Ticker::start(stream, &plan.placement.cpus));
        Self {
            connection,
            owes_interrupt_notice: Cell::new(agreed.is_cxidiag),
            running: RefCell::new(None),
            queues: agreed.queues,
            answers_calls: agreed.answers_calls,
            line: RefCell::new(None),
            ticker: RefCell::new(ticker),
            measuring: shortest_size(&agreed.run),
        }
    }

    /// Lets the server at the other end of `line` end the run with a reason.
    pub fn led_by(self, line: ControlLine) -> Self {
        self.line.replace(Some(line));
        self
    }

    /// TCP address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer()
    }

    /// The TCP address of this side.
    ///
    /// # Errors
    ///
    /// A connection without an address.
    pub fn local(&self) -> Result<SocketAddr, Failure> {
        let address = self.connection.local();
        address.environment("cannot read the address of the control connection")
    }

    /// Waits, for `limit` at most, until the peer is at the same barrier. The end of the peer's
    /// process is noticed at once, a lost host or network within two seconds.
    ///
    /// # Errors
    ///
    /// A peer that has ended, refused or sent something else, a lost host, the end of `limit`, and
    /// an interruption.
    pub fn barrier(&self, point: &str, limit: Duration) -> Result<(), Failure> {
        self.barrier_while(point, limit, &mut || Ok(()))
    }

    /// Waits as [`Self::barrier`] does; a failure of `look`, which is called regularly, ends the
    /// wait.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::barrier`] and of `look`.
    pub fn barrier_while(
        &self,
        point: &str,
        limit: Duration,
        look: &mut PeerCheck<'_>,
    ) -> Result<(), Failure> {
        // With more time than for an answer, the peer measures.
        let needed = (limit > ANSWER_LIMIT).then_some(self.measuring);
        self.wait_at(point, limit, needed, look)
    }

    fn wait_at(
        &self,
        point: &str,
        limit: Duration,
        needed: Option<Duration>,
        look: &mut PeerCheck<'_>,
    ) -> Result<(), Failure> {
        let wait = Wait { doing: &format!("at the {point} barrier"), limit, needed };
        match self.connection.exchange_while(&[], 0, &wait, look) {
            Ok(_) => Ok(()),
            Err(error) => {
                // wire.md 9.1: for a few months, latency tools sent one byte in barriers, with a
                // version of send_lat that is still in use.
                let is_unreleased = matches!(error, LinkError::TooLong { length: 1, .. });
                let failure = self.failure(error, wait.doing);
                Err(if is_unreleased {
                    failure.advised(handshake::release(Some((2, 3))))
                } else {
                    failure
                })
            }
        }
    }

    /// The failure of an exchange; `doing` names its purpose. A cxidiag that refuses sends its
    /// reason next.
    fn failure(&self, error: LinkError, doing: &str) -> Failure {
        let is_refusal = matches!(error, LinkError::TooLong { length: REFUSAL, .. });
        let error = if is_refusal && self.owes_interrupt_notice.get() {
            self.connection.refusal()
        } else {
            error
        };
        match error {
            LinkError::Refusal(reason) => self.connection.refused(reason),
            other => other.into_failure(self.peer(), doing),
        }
    }

    /// Waits at the barrier after which both sides have all their resources.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::barrier`]; a peer whose set-up failed refuses.
    pub fn ready(&self) -> Result<(), Failure> {
        enter(Phase::Ready);
        self.wait_at("ready", READY_LIMIT, None, &mut || Ok(()))?;
        self.connection.begin_run();
        Ok(())
    }

    /// Sends the result of one size, and returns the peer's.
    ///
    /// # Errors
    ///
    /// A peer that has ended, does not answer or sends something else, and an interruption.
    pub fn results(&self, own: SideResult) -> Result<SideResult, Failure> {
        let payload = self.exchange_fixed(&wire::encode_result(own), "result")?;
        Ok(wire::decode_result(&payload))
    }

    /// Sends this side's view of one size, and returns the peer's.
    pub fn views(&self, own: SideView) -> Result<SideView, Failure> {
        let payload = self.exchange_fixed(&wire::encode_view(own), "view")?;
        Ok(wire::decode_view(&payload))
    }

    /// Exchanges payloads of the same length.
    fn exchange_fixed<const LENGTH: usize>(
        &self,
        own: &[u8; LENGTH],
        what: &str,
    ) -> Result<[u8; LENGTH], Failure> {
        let doing = format!("during the exchange of {what}s");
        let wait = Wait::for_answer(&doing, ANSWER_LIMIT);
        let exchanged = self.connection.exchange(own, LENGTH, &wait);
        let payload = exchanged.map_err(|error| self.failure(error, &doing))?;
        payload[..].try_into().map_err(|_| {
            Failure::peer(format!(
                "the peer ({}) sent a {what} of {} bytes (expected {LENGTH})",
                self.peer(),
                payload.len()
            ))
        })
    }

    /// Sends the number of iterations that this side has issued, and returns the peer's.
    pub fn iterations(&self, own: u64) -> Result<u64, Failure> {
        let payload = self.exchange_fixed(&own.to_le_bytes(), "iteration count")?;
        Ok(u64::from_le_bytes(payload))
    }

    /// Sends the number of bytes that this side has checked, and waits, for `limit` at most, until
    /// the peer has checked its own. Returns the peer's number.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::barrier`]; a peer whose data is wrong refuses.
    pub fn checked_bytes(&self, own: u64, limit: Duration) -> Result<u64, Failure> {
        let doing = "at the Verify barrier";
        let mine = own.to_le_bytes();
        let wait = Wait { doing, limit, needed: Some(Duration::ZERO) };
        let exchanged = self.connection.exchange(&mine, mine.len(), &wait);
        let payload = exchanged.map_err(|error| self.failure(error, doing))?;
        match payload[..].try_into() {
            Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
            Err(_) => Err(Failure::peer(format!(
                "the peer ({}) sent {} bytes {doing} (expected {})",
                self.peer(),
                payload.len(),
                mine.len()
            ))),
        }
    }

    /// Whether a message of the peer has arrived: it waits at the next barrier. Does not block.
    pub fn peer_waits(&self) -> bool {
        self.connection.has_message()
    }

    /// Checks the connection without blocking; `doing` completes the message.
    ///
    /// # Errors
    ///
    /// A peer that has ended or was interrupted, and a lost host.
    pub fn check_peer(&self, doing: &str) -> Result<(), Failure> {
        self.connection.check(doing)
    }

    /// The cause of `failure`: an error of the NIC may result from the end of the peer, which the
    /// connection shows a moment later.
    pub fn cause(&self, failure: Failure, doing: &str) -> Failure {
        if failure.kind != Kind::Nic {
            return failure;
        }
        let until = Instant::now() + NEWS;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let waited = self.connection.wait(left);
            match waited.and_then(|()| self.connection.check(doing)) {
                // A tick has ended the wait.
                Ok(()) if !left.is_zero() && !self.connection.has_message() => {}
                Ok(()) => return failure,
                Err(cause) => return cause,
            }
        }
    }

    /// Sends the reason why this side cannot run to a cxidiag peer, and returns the failure. A
    /// legacy peer sees a closed connection (defect T33 of tools.md).
    pub fn refuse(&self, failure: Failure) -> Failure {
        let is_own = matches!(failure.kind, Kind::Environment | Kind::Nic | Kind::Usage);
        if is_own && self.owes_interrupt_notice.get() {
            self.finish();
            self.connection.refuse(&failure.message());
        }
        failure
    }

    /// Sends an interrupt notice to a cxidiag peer, once, or the reason why the server at the other
    /// end of the control line has ended the run. A legacy peer sees a closed connection.
    pub fn send_interrupt_notice(&self) {
        if !self.owes_interrupt_notice.replace(false) {
            return;
        }
        let mut line = self.line.borrow_mut();
        match line.as_mut().and_then(ControlLine::refusal) {
            Some(reason) => self.connection.refuse(&reason),
            None => self.connection.send_interrupt_notice(),
        }
    }

    /// Ends the protocol: no interrupt notice or refusal follows.
    pub fn finish(&self) {
        self.owes_interrupt_notice.set(false);
        self.running.take();
        self.ticker.take();
    }
}

/// The time that the measurement of a size takes at least.
fn shortest_size(run: &RunOptions) -> Duration {
    let iterations = run.warmup.saturating_add(run.iters);
    let gaps = iterations.saturating_mul(run.gap_us);
    run.duration().unwrap_or(Duration::from_micros(gaps))
}

impl Drop for Session {
    fn drop(&mut self) {
        if interrupt::requested() {
            self.send_interrupt_notice();
        }
        // The thread of the ticks may hold the connection open for a moment.
        let _ = self.connection.stream().shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;
    use crate::testing::{HOST, LONG, against_client, default_options, pair};
    use crate::wire::{TICK, string};

    #[test]
    fn barrier_waits_for_both_sides() {
        let (server, client) = pair();
        let waiting = thread::spawn(move || {
            server.ready().unwrap();
            server.barrier("Post-run", LONG).unwrap();
            server
        });
        client.ready().unwrap();
        client.barrier("Post-run", LONG).unwrap();
        waiting.join().unwrap();
    }

    /// Sends ticks from one side to the other one before and after a barrier.
    fn tick_between(receiver: Session, sender: &Session) {
        let tick = || {
            for _ in 0..40 {
                let mut stream = sender.connection.stream();
                stream.write_all(&TICK.to_le_bytes()).unwrap();
            }
        };
        tick();
        receiver.check_peer("here").unwrap();
        assert!(!receiver.peer_waits());
        tick();
        // They are not the cause of an error of the NIC.
        let nic = receiver.cause(Failure::nic("UNDELIVERABLE"), "here");
        assert_eq!(nic.kind, Kind::Nic);
        tick();
        let waiting = thread::spawn(move || {
            receiver.ready().unwrap();
            receiver
        });
        sender.ready().unwrap();
        let receiver = waiting.join().unwrap();
        tick();
        sender.send_interrupt_notice();
        let failure = receiver.cause(Failure::nic("UNDELIVERABLE"), "here");
        assert!(failure.message().ends_with(" was interrupted here"), "{failure}");
    }

    /// A side that ends with unread ticks may reset the connection, while its peer answers a
    /// message from before.
    #[test]
    fn reset_does_not_hide_the_interrupt_notice() {
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).unwrap();
            let client = Connection::new(client, address, true).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let server = Connection::new(server, peer, false).unwrap();
            client.send(&[]).unwrap();
            client.send_interrupt_notice();
            server.stream().write_all(&TICK.to_le_bytes()).unwrap();
            client.wait(LONG).unwrap();
            drop(client);
            let wait = Wait::for_answer("here", LONG);
            let seen = server.exchange(&[], 0, &wait).unwrap_err();
            assert!(matches!(seen, LinkError::InterruptNotice), "{seen:?}");
        }
    }

    #[test]
    fn ticks_are_no_messages() {
        let (server, client) = pair();
        tick_between(server, &client);
        let (server, client) = pair();
        tick_between(client, &server);
    }

    #[test]
    fn barrier_ends_at_limit() {
        let (_server, client) = pair();
        let failure = client.barrier("Post-run", Duration::from_millis(1)).unwrap_err();
        assert!(failure.message().contains("Post-run"), "{failure}");
        assert!(!failure.is_of_peer());
    }

    #[test]
    fn lost_peer_ends_long_barrier() {
        let (server, client) = pair();
        let waiting = thread::spawn(move || server.barrier("Post-run", LONG).unwrap_err());
        drop(client);
        let failure = waiting.join().unwrap();
        assert!(failure.is_of_peer());
        assert!(
            failure.message().contains(HOST) && failure.message().contains("failed or was killed"),
            "{failure}"
        );
    }

    #[test]
    fn refuses_barrier_with_payload() {
        let mut extra = None;
        let met = against_client(|mut script| {
            script.lead(&string("cxi_write_lat"));
            script.lead(&string("2.4.0"));
            script.lead(&default_options());
            script.lead(&[0; 8]);
            script.send(&[0]);
            extra = Some(script);
        });
        let failure = met.unwrap().0.ready().unwrap_err();
        assert!(failure.message().contains("announced 1 bytes"), "{failure}");
    }

    fn is_there(session: &Session) -> bool {
        session.check_peer("meanwhile").is_ok()
    }

    #[test]
    fn finds_interrupt_notice_in_check_and_at_barrier() {
        let (server, client) = pair();
        client.send_interrupt_notice();
        let seen = server.barrier("Post-run", LONG).unwrap_err();
        assert!(
            seen.is_of_peer() && seen.message().contains("was interrupted at the Post-run barrier")
        );
        // The notice is sent once; the end of the connection follows.
        client.send_interrupt_notice();
        drop(client);
        assert!(
            server
                .barrier("Post-run", LONG)
                .unwrap_err()
                .message()
                .contains("closed the connection")
        );

        let (server, client) = pair();
        server.send_interrupt_notice();
        assert!(client.connection.wait(Duration::from_secs(60)).is_ok());
        let seen = client.check_peer("meanwhile").unwrap_err();
        assert!(seen.message().ends_with("was interrupted meanwhile"), "{seen}");
        // The notice is the cause of an error of the NIC as well.
        let cause = client.cause(Failure::nic("UNDELIVERABLE"), "meanwhile");
        assert_eq!((cause.kind, cause.message()), (seen.kind, seen.message()));
        let other = Failure::environment("full");
        assert_eq!(client.cause(other, "meanwhile").kind, Kind::Environment);
    }

    #[test]
    fn t33_ready_barrier_fails_with_reason_of_refusal() {
        let (server, client) = pair();
        let failure = Failure::environment("no pages \u{fc}brig\n").with_hint("make some");
        let message = failure.message();
        assert_eq!(server.refuse(failure).message(), message);
        // Only the first refusal is sent.
        server.refuse(Failure::nic("other"));
        server.send_interrupt_notice();
        drop(server);
        let seen = client.ready().unwrap_err();
        assert!(seen.is_of_peer());
        assert!(seen.message().ends_with(" cannot run: no pages ?brig?"), "{seen}");
        assert!(client.ready().unwrap_err().message().contains("closed the connection"));
    }

    /// Failures that the peer has caused are not sent to it.
    #[test]
    fn refuses_only_for_own_failures() {
        for failure in [Failure::peer("gone"), Failure::interrupted("SIGINT")] {
            let (server, client) = pair();
            server.refuse(failure);
            drop(server);
            let seen = client.ready().unwrap_err();
            assert!(seen.message().contains("closed the connection"), "{seen}");
        }
    }

    #[test]
    fn check_does_not_disturb_peer() {
        let (server, client) = pair();
        assert!(is_there(&server) && is_there(&client));
        let leading = thread::spawn(move || {
            client.barrier("Post-run", LONG).unwrap();
            client
        });
        assert!(is_there(&server));
        server.barrier("Post-run", LONG).unwrap();
        assert!(is_there(&server));
        drop(leading.join().unwrap());
        // The barrier returns when the end of the connection has arrived.
        assert!(server.barrier("Post-run", LONG).unwrap_err().is_of_peer());
        assert!(!is_there(&server));
    }
}
