//! The connection of a member to the coordinator. The member connects, takes over the clock of the
//! coordinator, and receives orders. If the connection is lost, it returns with another one.
//!
//! A coordinator that is stopped does not close its connections. While no block runs, each member
//! sends pings; a coordinator that has not answered for [`COORDINATOR_SILENCE`] is lost.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::error::{Context, Failure};
use facts::groups::by_key;
use facts::limit::{self, ANSWER_LIMIT};
use facts::net::{connect_first, reason};
use facts::token::random;
use facts::{interrupt, text};
use rustix::event::PollFlags;

use crate::introduction::Introduction;
use crate::star::Meeting;
use crate::star::clock::{EXCHANGES, Exchanges, now_ns};
use crate::star::link::{Loss, PollSet, StarLink};
use crate::star::listener::{ANSWERER, CALLER, VERSION, jittered, role};
use crate::star::message::{
    JoinRequest, MAX_CLAIM, MAX_MESSAGE, Message, Order, Reply, Work, frame,
};

/// Longest interval of pings while no block runs, for surveys of up to [`FEW`] processes. More
/// processes send pings less often, so that the coordinator has as many pings to answer.
const PING_INTERVAL: Duration = Duration::from_secs(1);

const FEW: u32 = 1000;

/// How long the coordinator may leave a ping unanswered.
const COORDINATOR_SILENCE: Duration = Duration::from_secs(30);

/// How long a member that has lost its connection tries to return.
const RETURN_LIMIT: Duration = Duration::from_secs(20);

/// How long a member that has ended waits until the coordinator knows.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Pause after the first failed attempt to connect; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(50);

/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why an attempt to connect has failed.
enum Setback {
    /// No address has answered.
    Unreached,
    /// A further attempt may succeed.
    Again(String),
    /// The coordinator has refused this process before it has proved who it is.
    Refused(String),
    /// The member cannot take part any longer.
    Final(Failure),
}

impl From<Failure> for Setback {
    fn from(failure: Failure) -> Self {
        Self::Final(failure)
    }
}

impl From<Loss> for Setback {
    fn from(loss: Loss) -> Self {
        Self::Again(loss.to_string())
    }
}

/// The connection of a member, and what it needs for another one.
#[derive(Debug)]
pub struct MemberConnection<W> {
    meeting: Meeting,
    request: JoinRequest,
    set: PollSet,
    /// None while the connection is lost.
    link: Option<StarLink<W>>,
    /// The address of the link.
    address: Option<SocketAddr>,
    /// The address of the coordinator that is tried first.
    first: usize,
    last_error: String,
    /// The last reply and its order: the coordinator may not have it.
    last_reply: Option<(u32, Arc<[u8]>)>,
    exchanges: Exchanges,
    ping_interval: Duration,
    /// Since when a ping is unanswered.
    asked: Option<Instant>,
    next_ping: Instant,
    is_ending: bool,
}

impl<W: Work> MemberConnection<W> {
    /// Connects to the coordinator within `limit`.
    ///
    /// # Errors
    ///
    /// A coordinator that does not exist or refuses this process, and an interruption.
    pub fn open(
        meeting: Meeting,
        introduction: Introduction,
        limit: Duration,
    ) -> Result<Self, Failure> {
        let mut connection = Self::begin(meeting, introduction)?;
        connection.establish(limit)?;
        Ok(connection)
    }

    fn begin(meeting: Meeting, introduction: Introduction) -> Result<Self, Failure> {
        let ping_interval = PING_INTERVAL * (introduction.size / FEW).max(1);
        let id = u64::from_le_bytes(random());
        Ok(Self {
            meeting,
            request: JoinRequest { id, received: 0, introduction },
            set: PollSet::new().environment("cannot join the survey")?,
            link: None,
            address: None,
            first: 0,
            last_error: String::new(),
            last_reply: None,
            exchanges: Exchanges::default(),
            ping_interval,
            asked: None,
            next_ping: Instant::now(),
            is_ending: false,
        })
    }

    /// The number of NICs of this process.
    pub fn nics(&self) -> usize {
        self.request.introduction.nics.len()
    }

    /// Returns what is known of the clock of the coordinator.
    pub fn clock(&self) -> &Exchanges {
        &self.exchanges
    }

    /// Waits for the next order.
    ///
    /// # Errors
    ///
    /// A coordinator that is lost or has given this process up, and an interruption.
    pub fn next(&mut self) -> Result<Order<W>, Failure> {
        loop {
            match self.receive(None)? {
                // An order may come twice: by the lost connection and by the next one.
                Some(Message::Order { serial, order }) if serial > self.request.received => {
                    self.request.received = serial;
                    return Ok(order);
                }
                Some(Message::Order { .. }) | None => {}
                Some(other) => return Err(unexpected(other)),
            }
        }
    }

    /// Sends the reply to the last order.
    pub fn reply(&mut self, reply: Reply<W>) {
        let serial = self.request.received;
        self.send_last(serial, &Message::Reply { serial, reply });
    }

    /// Ends after [`Order::End`], or with the reason why this process cannot go on: waits, for a
    /// few seconds at most, until the coordinator knows.
    pub fn end(mut self, failure: Option<&str>) {
        self.is_ending = true;
        let serial = self.request.received;
        self.send_last(
            u32::MAX,
            &match failure {
                Some(reason) => Message::Failed(reason.to_owned()),
                None => Message::Reply { serial, reply: Reply::Ended },
            },
        );
        let until = Instant::now() + limit::in_effect(END_LIMIT);
        // The coordinator closes the connection.
        while let Ok(Some(_)) = self.receive(Some(until)) {}
    }

    fn send_last(&mut self, serial: u32, message: &Message<W>) {
        let frame = frame(message);
        self.last_reply = Some((serial, frame.clone()));
        if let Some(link) = &mut self.link {
            link.send_frame(frame);
        }
    }

    /// The next message that is not about the clock; `None` at `until`.
    fn receive(&mut self, until: Option<Instant>) -> Result<Option<Message<W>>, Failure> {
        loop {
            let Some(link) = &mut self.link else {
                let limit = if self.is_ending { END_LIMIT } else { RETURN_LIMIT };
                self.establish(limit::in_effect(limit))?;
                continue;
            };
            link.flush();
            match link.receive() {
                Ok(Some(Message::Pong { sent_ns, here_ns })) => {
                    self.exchanges.add(sent_ns, now_ns(), here_ns);
                    self.asked = None;
                    // A block may have begun since the ping.
                    let next = Instant::now() + jittered(self.ping_interval / 2);
                    self.next_ping = self.next_ping.max(next);
                }
                Ok(Some(Message::Quiet { until_ns })) => {
                    self.asked = None;
                    self.next_ping = self.exchanges.local(until_ns)
                        + random_part(self.ping_interval - PING_INTERVAL);
                }
                Ok(Some(message)) => {
                    // Any message shows that the coordinator is not stopped.
                    self.asked = self.asked.map(|_| Instant::now());
                    return Ok(Some(message));
                }
                Ok(None) => {
                    let now = Instant::now();
                    if until.is_some_and(|until| now >= until) {
                        return Ok(None);
                    }
                    let due = self.ping(now);
                    let due = until.map_or(due, |until| due.min(until));
                    self.wait(due)?;
                }
                Err(Loss::Closed) if self.is_ending => {
                    return Err(Failure::peer("the coordinator knows that this process ends"));
                }
                Err(loss) => self.lose(&loss.to_string()),
            }
        }
    }

    /// Sends a ping, or gives the connection up, if the time for it has come. Returns when it comes
    /// next.
    fn ping(&mut self, now: Instant) -> Instant {
        let silence = limit::in_effect(COORDINATOR_SILENCE);
        match self.asked {
            Some(asked) if now >= asked + silence => {
                self.send(&Message::Leave);
                self.lose(&format!("no answer within {} s", silence.as_secs()));
                now
            }
            Some(asked) => asked + silence,
            None if now >= self.next_ping => {
                self.asked = Some(now);
                self.send(&Message::Ping { sent_ns: now_ns() });
                now + silence
            }
            None => self.next_ping,
        }
    }

    fn send(&mut self, message: &Message<W>) {
        if let Some(link) = &mut self.link {
            link.send(message);
        }
    }

    /// Waits until something arrives or can be sent, until `due` at most.
    fn wait(&self, due: Instant) -> Result<(), Failure> {
        let within = due.saturating_duration_since(Instant::now());
        interrupt::wait(self.set.socket(), PollFlags::IN, Some(within)).map(drop)
    }

    fn lose(&mut self, reason: &str) {
        self.note(reason.to_owned());
        self.link = None;
    }

    /// Notes why the address of the connection has failed. The next attempt begins with another
    /// address.
    fn note(&mut self, reason: String) {
        if let Some(address) = self.address.take() {
            self.last_error = failures(&[(address, reason)]);
            let mut addresses = self.meeting.addresses.iter();
            let place = addresses.position(|other| *other == address);
            self.first = place.map_or(0, |place| (place + 1) % self.meeting.addresses.len());
        }
    }

    /// Connects to the coordinator within `limit`.
    fn establish(&mut self, limit: Duration) -> Result<(), Failure> {
        let ends = Instant::now() + limit;
        let (mut pause, mut refusals) = (PAUSE, 0);
        let mut refusing = BTreeSet::new();
        loop {
            match self.attempt(&mut refusing) {
                Ok(link) => {
                    self.link = Some(link);
                    return Ok(());
                }
                Err(Setback::Final(failure)) => return Err(failure),
                Err(Setback::Unreached) => {}
                Err(Setback::Again(reason)) => self.note(reason),
                Err(Setback::Refused(reason)) => {
                    refusals += 1;
                    self.note(format!("it has refused this process: {reason}"));
                }
            }
            let count = self.meeting.addresses.len();
            let last = &self.last_error;
            if refusing.len() == count {
                return Err(Failure::peer(format!(
                    "the coordinator of the survey is not there: {last}"
                )));
            }
            if refusals >= count || Instant::now() + pause >= ends {
                let limit = facts::number::time_text(limit);
                return Err(Failure::peer(format!(
                    "cannot reach the coordinator of the survey (limit: {limit}); the last \
                     attempt: {last}"
                )));
            }
            interrupt::wait_for_any(&mut Vec::new(), Some(jittered(pause)))?;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects to the first address that answers, and lets the coordinator admit this process.
    /// Notes the addresses that are `refusing` connections.
    fn attempt(&mut self, refusing: &mut BTreeSet<SocketAddr>) -> Result<StarLink<W>, Setback> {
        let mut addresses = self.meeting.addresses.clone();
        addresses.rotate_left(self.first);
        let connected = interrupt::aside(move || connect_first(&addresses, ANSWER_LIMIT))?;
        let (stream, address) = connected.map_err(|failed| {
            let refused = failed.iter().filter(|(_, error)| is_refused(error));
            refusing.extend(refused.map(|(address, _)| *address));
            let failed = failed.iter().map(|(address, error)| (*address, cause(*address, error)));
            self.last_error = failures(&failed.collect::<Vec<_>>());
            Setback::Unreached
        })?;
        self.address = Some(address);
        let mut link = StarLink::from_stream(stream, &self.set, 0).map_err(Loss::from)?;
        self.prove(&mut link)?;
        self.enter(&mut link)?;
        Ok(link)
    }

    /// Exchanges proofs of the token with the coordinator.
    fn prove(&self, link: &mut StarLink<W>) -> Result<(), Setback> {
        link.allow(MAX_CLAIM);
        let nonce = random();
        link.send(&Message::Hello { version: VERSION.into(), nonce });
        let nonce_of_coordinator = match self.step(link, ANSWER_LIMIT)? {
            Message::Challenge { nonce } => nonce,
            other => return Err(refusal(other)),
        };
        let token = &self.meeting.token;
        let proof = token.proof(&role(CALLER, &nonce_of_coordinator));
        link.send(&Message::Join { proof, request: Box::new(self.request.clone()) });
        match self.step(link, ANSWER_LIMIT)? {
            Message::Welcome { proof } if token.confirms(&proof, &role(ANSWERER, &nonce)) => Ok(()),
            Message::Welcome { .. } => {
                Err(Setback::Again("its token is not that of this process".into()))
            }
            other => Err(refusal(other)),
        }
    }

    /// Waits until the coordinator admits this process, and takes over its clock. Sends the last
    /// reply again if the coordinator does not have it.
    fn enter(&mut self, link: &mut StarLink<W>) -> Result<(), Setback> {
        link.allow(MAX_MESSAGE);
        let silence = limit::in_effect(COORDINATOR_SILENCE);
        let answered = match self.step(link, silence)? {
            Message::Admitted { answered } => answered,
            Message::Refused(mut reason) => {
                text::accept(&mut reason);
                let message = format!("the coordinator has refused this process: {reason}");
                return Err(Failure::peer(message).into());
            }
            other => return Err(unexpected(other).into()),
        };
        self.synchronize(link, silence)?;
        link.send(&Message::Ready);
        if let Some((serial, frame)) = &self.last_reply
            && *serial > answered
        {
            link.send_frame(frame.clone());
        }
        self.asked = None;
        self.next_ping = Instant::now() + jittered(self.ping_interval / 2);
        Ok(())
    }

    /// Takes over the clock of the coordinator, which answers each ping within `silence`.
    fn synchronize(&mut self, link: &mut StarLink<W>, silence: Duration) -> Result<(), Setback> {
        self.exchanges = Exchanges::default();
        for _ in 0..EXCHANGES {
            link.send(&Message::Ping { sent_ns: now_ns() });
            loop {
                match self.step(link, silence)? {
                    Message::Pong { sent_ns, here_ns } => {
                        self.exchanges.add(sent_ns, now_ns(), here_ns);
                        break;
                    }
                    // It is sent again to members that are ready.
                    Message::Quiet { .. } => {}
                    other => return Err(unexpected(other).into()),
                }
            }
        }
        Ok(())
    }

    /// The next message on a connection that is not established yet.
    fn step(&self, link: &mut StarLink<W>, limit: Duration) -> Result<Message<W>, Setback> {
        let until = Instant::now() + limit;
        loop {
            link.flush();
            if let Some(message) = link.receive()? {
                return Ok(message);
            }
            if Instant::now() >= until {
                return Err(Setback::Again(format!("no answer within {} s", limit.as_secs())));
            }
            self.wait(until)?;
        }
    }
}

/// A random part of `time`.
fn random_part(time: Duration) -> Duration {
    let [part] = random::<1>();
    time * u32::from(part) / 256
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ConnectionRefused
}

/// Returns why an address does not answer.
fn cause(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut => format!("no answer within {} s", ANSWER_LIMIT.as_secs()),
        _ => reason(address, error),
    }
}

/// The setback of a process that received this message instead of a proof.
fn refusal<W: Work>(message: Message<W>) -> Setback {
    match message {
        Message::Refused(mut reason) => {
            text::accept(&mut reason);
            Setback::Refused(reason)
        }
        _ => Loss::Malformed.into(),
    }
}

/// The failure of a member that received this message instead of an order.
fn unexpected<W: Work>(message: Message<W>) -> Failure {
    match message {
        // The coordinator prints it.
        Message::Refused(mut reason) | Message::Abort(mut reason) => {
            text::accept(&mut reason);
            Failure::peer(reason).printed()
        }
        _ => Failure::environment("the survey sent a message out of turn"),
    }
}

/// The text for addresses that have failed: those with one reason together.
fn failures(failed: &[(SocketAddr, String)]) -> String {
    let places = failed
        .iter()
        .map(|(address, reason)| (reason, format!("{} port {}", address.ip(), address.port())));
    let groups = by_key(places).into_iter();
    let groups = groups.map(|(reason, places)| format!("{}: {reason}", places.join(", ")));
    groups.collect::<Vec<_>>().join("; ")
}

#[cfg(any(test, feature = "testing"))]
impl<W: Work> MemberConnection<W> {
    /// A connection that has not begun.
    pub(super) fn new(meeting: Meeting, introduction: Introduction) -> Self {
        Self::begin(meeting, introduction).expect("a poll set")
    }

    /// Receives what has arrived on `link` in one of several states, until its end. Returns whether
    /// that means something to the measuring thread.
    pub(super) fn receive_by(&mut self, state: u8, mut link: StarLink<W>) -> bool {
        match state % 3 {
            0 => self.prove(&mut link).is_ok(),
            1 => self.enter(&mut link).is_ok(),
            _ => {
                (self.link, self.is_ending) = (Some(link), true);
                let next = self.next();
                self.link = None;
                next.is_ok_and(|order| order != Order::End)
            }
        }
    }

    /// Returns its poll set.
    pub(super) fn set(&self) -> &PollSet {
        &self.set
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use facts::net::testing::silent;

    use super::*;
    use crate::star::NoWork;
    use crate::star::testing::{LIMIT, introduction, token};

    fn meeting(addresses: Vec<SocketAddr>) -> Meeting {
        Meeting { addresses, token: token("secret") }
    }

    #[test]
    fn gives_up_coordinator_whose_host_refuses_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let meeting = meeting(vec![listener.local_addr().unwrap()]);
        drop(listener);
        // It does not search until its limit.
        let opened = MemberConnection::<NoWork>::open(meeting, introduction(0, 1), LIMIT);
        let failure = opened.unwrap_err().message();
        assert!(failure.starts_with("the coordinator of the survey is not there"), "{failure}");
        assert!(failure.to_lowercase().contains("connection refused"), "{failure}");
    }

    #[test]
    fn connects_to_the_address_behind_three_silent_ones() {
        let silent = [1, 2, 3].map(|host| silent([127, 0, 1, host]));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let addresses = silent.iter().map(|(address, _)| *address);
        let meeting = meeting(addresses.chain([good]).collect());
        let mut connection = MemberConnection::<NoWork>::new(meeting, introduction(0, 1));
        let ended = std::thread::spawn(move || drop(listener.accept().unwrap()));
        assert!(connection.attempt(&mut BTreeSet::new()).is_err());
        ended.join().unwrap();
        assert_eq!(connection.address, Some(good));
        // An address that answers, but not as the coordinator, is the last one next time.
        connection.meeting.addresses.rotate_right(2);
        connection.note("it has refused this process".into());
        assert_eq!(connection.first, 2);
        assert!(connection.last_error.ends_with(": it has refused this process"));
    }

    #[test]
    fn names_all_addresses_without_an_answer() {
        let failed = ["10.0.0.1:7", "10.0.0.2:7", "10.0.0.3:7"].map(|address| {
            let reason = match address {
                "10.0.0.2:7" => "Connection refused",
                _ => "no answer within 5 s",
            };
            (address.parse().unwrap(), reason.to_owned())
        });
        assert_eq!(
            failures(&failed),
            "10.0.0.1 port 7, 10.0.0.3 port 7: no answer within 5 s; 10.0.0.2 port 7: Connection refused"
        );
    }
}
