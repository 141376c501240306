//! The connection of a member towards the coordinator. The member asks the coordinator for its
//! parent, connects to the parent, and takes over its clock. If the parent is lost, the member
//! begins again.
//!
//! A parent that is stopped does not close its connections. While no block runs, each child sends a
//! ping every [`BEAT`]; a parent that has not answered for [`PARENT_SILENCE`] is lost.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Meeting;
use super::clock::{EXCHANGES, Exchanges, SharedClock, now_ns};
use super::link::{Link, Loss, PollSet};
use super::listener::{ANSWERER, CALLER, VERSION, jittered, role};
use super::message::{MAX_CLAIM, MAX_MESSAGE, Message, Nonce, ParentAddress, ParentRequest};
use super::traffic::Traffic;
use facts::limit;
use facts::limit::ANSWER_LIMIT;
use facts::net::race::{STAGGER, reason};
use facts::token::random;

/// Interval of pings while no block runs.
const BEAT: Duration = Duration::from_secs(1);

/// How long a parent may leave a ping unanswered. A change of the parent costs little, so unit
/// tests make it early.
const PARENT_SILENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });

/// How long after the end of a block a member below a silent member may take to report. In this
/// time it notices the silence, and finds another parent.
pub const DETOUR_LIMIT: Duration = Duration::from_secs(PARENT_SILENCE.as_secs() + 3);

/// How long the coordinator may leave a ping unanswered. No other process can replace the
/// coordinator.
const COORDINATOR_SILENCE: Duration = Duration::from_secs(30);

/// How long a member that has lost its parent looks for the coordinator.
pub const RETURN_LIMIT: Duration = Duration::from_secs(15);

/// Pause after the first failed attempt to connect; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(50);

/// Longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UplinkState {
    /// It waits for this moment to connect.
    Pausing(Instant),
    /// It waits for the first of the addresses that answers. The next attempt begins then.
    Connecting(Instant),
    /// It has sent a hello.
    Greeting,
    /// It has sent its claim.
    Claiming,
    /// It waits for the coordinator to name a parent.
    Seeking,
    /// It takes over the clock of its parent.
    Syncing,
    /// It has a parent.
    Attached,
}

/// An event on the connection.
#[derive(Debug)]
pub enum UplinkEvent {
    /// The member has a parent.
    Attached,
    /// A message of the parent.
    Message(Message),
    /// The member has lost its parent, or what it was waiting for.
    Changed,
}

/// The connection to the parent, or to the coordinator while there is no parent.
#[derive(Debug)]
pub struct Uplink {
    meeting: Meeting,
    /// The request of this process for a parent.
    pub request: ParentRequest,
    set: PollSet,
    clock: Arc<SharedClock>,
    exchanges: Exchanges,
    stage: UplinkState,
    link: Option<Link>,
    /// Attempts to connect, with their addresses and starts: the first that succeeds is the link.
    attempts: Vec<(SocketAddr, Link, Instant)>,
    /// Addresses that have no attempt yet.
    waiting: VecDeque<SocketAddr>,
    /// Why attempts have failed since the last pause.
    failed: Vec<(SocketAddr, String)>,
    /// The address of the link.
    address: Option<SocketAddr>,
    /// The member at the other end; `None` for the coordinator.
    target: Option<ParentAddress>,
    /// When the stage began.
    since: Instant,
    /// When the search for a parent ends.
    ends: Instant,
    limit: Duration,
    pause: Duration,
    nonce: Nonce,
    /// The address of the coordinator that is tried first.
    first: usize,
    /// Attempts in a row that were refused before a proof.
    refusals: usize,
    /// Addresses of the coordinator that refuse connections.
    refusing: BTreeSet<SocketAddr>,
    last_error: String,
    /// Attempts to reach the coordinator that have failed since the end of the survey; none before
    /// it.
    failed_after_end: Option<usize>,
    /// Exchanges left of a burst.
    burst: usize,
    /// Since when a ping is unanswered.
    asked: Option<Instant>,
    next_ping: Instant,
    quiet_until: Option<Instant>,
    traffic: Traffic,
}

impl Uplink {
    /// Begins the search for a parent, which ends after `limit`.
    pub fn new(
        meeting: Meeting,
        request: ParentRequest,
        set: &PollSet,
        clock: &Arc<SharedClock>,
        limit: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            meeting,
            request,
            set: set.clone(),
            clock: clock.clone(),
            exchanges: Exchanges::default(),
            stage: UplinkState::Pausing(now),
            link: None,
            attempts: Vec::new(),
            waiting: VecDeque::new(),
            failed: Vec::new(),
            address: None,
            target: None,
            since: now,
            ends: now + limit,
            limit,
            pause: PAUSE,
            nonce: [0; 16],
            first: 0,
            refusals: 0,
            refusing: BTreeSet::new(),
            last_error: "no attempt was made".into(),
            failed_after_end: None,
            burst: 0,
            asked: None,
            next_ping: now,
            quiet_until: None,
            traffic: Traffic::default(),
        }
    }

    /// Returns whether the member has a parent.
    pub fn is_attached(&self) -> bool {
        self.stage == UplinkState::Attached
    }

    /// Returns whether the connection has this key.
    pub fn has(&self, key: u64) -> bool {
        let attempts = self.attempts.iter().map(|(_, link, _)| link);
        attempts.chain(&self.link).any(|link| link.key() == key)
    }

    /// Sends a message to the parent.
    pub fn send(&mut self, message: &Message) {
        if let Some(link) = &mut self.link {
            link.send(message);
        }
    }

    /// Sends what the socket takes of the messages that wait. Returns whether none is left.
    pub fn flush(&mut self) -> bool {
        self.link.as_mut().is_none_or(|link| {
            link.flush();
            link.is_flushed()
        })
    }

    /// Returns what it has sent and received.
    pub fn traffic(&mut self) -> Traffic {
        self.count();
        self.traffic
    }

    fn count(&mut self) {
        if let Some(link) = &mut self.link {
            self.traffic += link.take_traffic();
        }
    }

    /// Sends no pings before `until`: a block runs.
    pub fn keep_quiet(&mut self, until: Instant) {
        self.quiet_until = Some(until);
        if self.is_attached() {
            self.asked = None;
            self.burst = 0;
        }
    }

    /// Ends the search for a parent early from here on: a coordinator that cannot be reached has
    /// ended.
    pub fn end(&mut self) {
        self.failed_after_end.get_or_insert(0);
    }

    /// Returns what happened on the connection since the last call; `None` at the end.
    ///
    /// # Errors
    ///
    /// Why the member cannot take part any longer.
    pub fn next(&mut self) -> Result<Option<UplinkEvent>, String> {
        if matches!(self.stage, UplinkState::Connecting(_)) {
            return Ok(self.take_answers().then_some(UplinkEvent::Changed));
        }
        let Some(link) = &mut self.link else {
            return Ok(None);
        };
        match link.receive() {
            Ok(None) => Ok(None),
            Ok(Some(message)) => self.take(message),
            Err(loss) => {
                self.lose(&loss);
                Ok(Some(UplinkEvent::Changed))
            }
        }
    }

    /// Handles a message.
    fn take(&mut self, message: Message) -> Result<Option<UplinkEvent>, String> {
        // Any message of the parent shows that the parent is not stopped.
        self.asked = self.asked.map(|_| Instant::now());
        match (self.stage, message) {
            (UplinkState::Greeting, Message::Challenge { nonce }) => {
                let proof = self.meeting.token.proof(&role(CALLER, &nonce));
                let claim = match self.target {
                    None => Message::Seek { proof, request: Box::new(self.request.clone()) },
                    Some(_) => Message::Attach { proof, rank: self.request.introduction.rank },
                };
                self.send(&claim);
                self.enter(UplinkState::Claiming);
            }
            (UplinkState::Claiming, Message::Welcome { proof }) => {
                let role = role(ANSWERER, &self.nonce);
                if !self.meeting.token.confirms(&proof, &role) {
                    self.fail("its token is not that of this process".into());
                } else if self.target.is_some() {
                    self.synchronize();
                } else {
                    self.refusals = 0;
                    self.enter(UplinkState::Seeking);
                }
            }
            (UplinkState::Seeking, Message::Parent(None)) => self.synchronize(),
            (UplinkState::Seeking, Message::Parent(Some(place)))
                if !self.meeting.bounds.permit(place.address.ip()) =>
            {
                return Err(format!(
                    "the coordinator has named a parent at {}, which is no host of the survey",
                    place.address.ip()
                ));
            }
            (UplinkState::Seeking, Message::Parent(Some(place))) => {
                self.count();
                self.link = None;
                self.target = Some(place);
                self.enter(UplinkState::Pausing(Instant::now()));
            }
            (UplinkState::Seeking, Message::Refused(reason)) => {
                return Err(format!("the coordinator has refused this process: {reason}"));
            }
            (_, Message::Refused(reason)) => {
                self.refusals += 1;
                self.fail(format!("it has refused this process: {reason}"));
                if self.refusals >= self.meeting.addresses.len() {
                    return Err(self.failure());
                }
            }
            (
                UplinkState::Syncing | UplinkState::Attached,
                Message::Pong { sent_ns, here_ns, uncertainty_ns },
            ) => return Ok(self.pong(sent_ns, here_ns, uncertainty_ns)),
            (UplinkState::Seeking, message @ Message::Abort(_)) => {
                return Ok(Some(UplinkEvent::Message(message)));
            }
            // What a parent sends to all of its children also comes while one takes over its clock.
            (UplinkState::Syncing | UplinkState::Attached, message) => {
                return Ok(Some(UplinkEvent::Message(message)));
            }
            _ => self.lose(&Loss::Malformed),
        }
        Ok(Some(UplinkEvent::Changed))
    }

    /// Takes over a reading of the parent's clock.
    fn pong(&mut self, sent_ns: u64, here_ns: u64, uncertainty_ns: u64) -> Option<UplinkEvent> {
        let received_ns = now_ns();
        self.exchanges.add(sent_ns, received_ns, here_ns, uncertainty_ns);
        if let Some(best) = self.exchanges.best(received_ns) {
            self.clock.set(best);
        }
        self.asked = None;
        self.next_ping = Instant::now() + BEAT;
        self.burst = self.burst.saturating_sub(1);
        if self.burst > 0 {
            self.ping();
        } else if self.stage == UplinkState::Syncing {
            self.send(&Message::Ready);
            self.enter(UplinkState::Attached);
            return Some(UplinkEvent::Attached);
        }
        Some(UplinkEvent::Changed)
    }

    fn ping(&mut self) {
        self.asked = self.asked.or_else(|| Some(Instant::now()));
        let sent_ns = now_ns();
        self.send(&Message::Ping { sent_ns });
    }

    fn synchronize(&mut self) {
        if let Some(link) = &mut self.link {
            link.allow(MAX_MESSAGE);
        }
        self.exchanges = Exchanges::default();
        self.burst = EXCHANGES;
        self.asked = None;
        self.enter(UplinkState::Syncing);
        self.ping();
    }

    fn enter(&mut self, stage: UplinkState) {
        self.stage = stage;
        self.since = Instant::now();
    }

    /// Returns when [`Self::tick`] has something to do.
    pub fn due(&self) -> Instant {
        match self.stage {
            UplinkState::Pausing(until) => until,
            UplinkState::Connecting(next) => {
                let starts = self.attempts.iter().map(|(.., since)| *since);
                let end = starts.min().map(|since| since + ANSWER_LIMIT);
                let next = (!self.waiting.is_empty()).then_some(next);
                end.into_iter().chain(next).min().unwrap_or(self.since)
            }
            UplinkState::Greeting | UplinkState::Claiming => self.since + ANSWER_LIMIT,
            UplinkState::Seeking => self.ends,
            UplinkState::Syncing | UplinkState::Attached => match (self.asked, self.quiet_until) {
                (Some(asked), _) => asked + self.silence(),
                (None, Some(quiet)) => quiet,
                (None, None) => self.next_ping,
            },
        }
    }

    /// Returns how long the parent may leave a ping unanswered.
    fn silence(&self) -> Duration {
        limit::in_effect(match self.target {
            Some(_) => PARENT_SILENCE,
            None => COORDINATOR_SILENCE,
        })
    }

    /// Sends pings, connects, or gives up, if the time for it has come. New connections have the
    /// next keys.
    ///
    /// # Errors
    ///
    /// Why the member cannot take part any longer.
    pub fn tick(&mut self, now: Instant, next_key: &mut u64) -> Result<(), String> {
        if now < self.due() {
            return Ok(());
        }
        match self.stage {
            UplinkState::Pausing(_) if now >= self.ends || self.has_ended() => {
                return Err(self.failure());
            }
            UplinkState::Pausing(_) => {
                self.begin();
                self.connect(now, next_key);
            }
            UplinkState::Connecting(_) => self.connect(now, next_key),
            UplinkState::Greeting | UplinkState::Claiming => {
                let limit = ANSWER_LIMIT.as_secs();
                self.fail(format!("no answer within {limit} s"));
            }
            UplinkState::Seeking => {
                self.last_error = "the coordinator named no parent for this process".into();
                return Err(self.failure());
            }
            UplinkState::Syncing | UplinkState::Attached => {
                if self.asked.is_some() {
                    let silence = self.silence().as_secs();
                    self.send(&Message::Leave);
                    self.lose_with(format!("no answer within {silence} s"));
                } else if self.quiet_until.take().is_some() {
                    self.burst = EXCHANGES;
                    self.ping();
                } else {
                    self.ping();
                }
            }
        }
        Ok(())
    }

    /// Begins to connect to the parent, or to the coordinator.
    fn begin(&mut self) {
        let mut addresses = self.meeting.addresses.clone();
        addresses.rotate_left(self.first);
        self.waiting = match self.target {
            Some(place) => [place.address].into(),
            None => addresses.into(),
        };
        self.nonce = random();
        self.enter(UplinkState::Connecting(self.since));
    }

    /// Ends attempts without an answer, and begins the next one when its time has come.
    fn connect(&mut self, now: Instant, next_key: &mut u64) {
        if self.take_answers() {
            return;
        }
        let silent = self.attempts.extract_if(.., |(.., since)| now >= *since + ANSWER_LIMIT);
        let silent: Vec<_> = silent.map(|(address, ..)| address).collect();
        for address in silent {
            self.note(address, &Loss::Silent);
        }
        let UplinkState::Connecting(next) = self.stage else {
            return;
        };
        if (now >= next || self.attempts.is_empty())
            && let Some(address) = self.waiting.pop_front()
        {
            *next_key += 1;
            self.enter(UplinkState::Connecting(now + STAGGER));
            match Link::connect(address, &self.set, *next_key) {
                Ok(mut link) => {
                    link.allow(MAX_CLAIM);
                    link.send(&Message::Hello { version: VERSION.into(), nonce: self.nonce });
                    self.attempts.push((address, link, now));
                }
                Err(error) => self.note(address, &Loss::Io(error)),
            }
        }
        self.fail_without_attempts();
    }

    /// Takes over the first attempt that is connected. Returns whether an attempt has ended.
    fn take_answers(&mut self) -> bool {
        for index in 0..self.attempts.len() {
            let (address, link, _) = &mut self.attempts[index];
            link.flush();
            // A connection sends its greeting at once.
            let is_connected = link.is_flushed();
            let address = *address;
            if !is_connected {
                if let Err(loss) = link.receive() {
                    self.attempts.remove(index);
                    self.note(address, &loss);
                    self.enter(UplinkState::Connecting(Instant::now()));
                    self.fail_without_attempts();
                    return true;
                }
                continue;
            }
            let (_, link, _) = self.attempts.swap_remove(index);
            self.end_attempts();
            self.address = Some(address);
            self.link = Some(link);
            self.enter(UplinkState::Greeting);
            return true;
        }
        false
    }

    fn end_attempts(&mut self) {
        self.attempts.clear();
        self.waiting.clear();
        self.failed.clear();
    }

    /// Fails if no address is left.
    fn fail_without_attempts(&mut self) {
        if self.attempts.is_empty() && self.waiting.is_empty() {
            self.last_error = failures(&self.failed);
            let count = self.failed.len();
            self.retry(count);
        }
    }

    /// Notes why an attempt has failed.
    fn note(&mut self, address: SocketAddr, loss: &Loss) {
        let reason = self.reason(address, loss);
        self.failed.push((address, reason));
    }

    /// Returns why an address has failed.
    fn reason(&mut self, address: SocketAddr, loss: &Loss) -> String {
        match loss {
            Loss::Io(error) => {
                if self.target.is_none() && error.kind() == io::ErrorKind::ConnectionRefused {
                    self.refusing.insert(address);
                }
                reason(address, error)
            }
            Loss::Silent if self.link.is_none() => {
                format!("no answer within {} s", ANSWER_LIMIT.as_secs())
            }
            other => other.to_string(),
        }
    }

    fn lose(&mut self, loss: &Loss) {
        let reason = match self.address {
            Some(address) => self.reason(address, loss),
            None => loss.to_string(),
        };
        self.lose_with(reason);
    }

    fn lose_with(&mut self, reason: String) {
        if self.stage == UplinkState::Attached {
            self.limit = limit::in_effect(RETURN_LIMIT);
            self.ends = Instant::now() + self.limit;
            self.pause = PAUSE;
        }
        self.fail(reason);
    }

    /// Ends the connection. The next one begins after a pause, at the next address of the
    /// coordinator.
    fn fail(&mut self, reason: String) {
        if let Some(address) = self.address.take() {
            self.last_error = failures(&[(address, reason)]);
            let mut addresses = self.meeting.addresses.iter();
            if self.target.is_none()
                && let Some(index) = addresses.position(|other| *other == address)
            {
                self.first = (index + 1) % self.meeting.addresses.len();
            }
        }
        self.retry(1);
    }

    /// Connects again after a pause; `count` addresses have failed.
    fn retry(&mut self, count: usize) {
        self.count();
        self.link = None;
        self.end_attempts();
        match self.target.take() {
            Some(place) => self.request.avoid = Some(place.rank),
            None => {
                self.failed_after_end = self.failed_after_end.map(|failed| failed + count);
            }
        }
        self.asked = None;
        self.quiet_until = None;
        self.enter(UplinkState::Pausing(Instant::now() + jittered(self.pause)));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Returns whether the coordinator has ended: its addresses refuse connections, or no attempt
    /// after the end of the survey has reached it at any of them. The first failure may be the loss
    /// of the connection to it.
    fn has_ended(&self) -> bool {
        let failed = self.failed_after_end.unwrap_or(0);
        self.is_refused() || failed > self.meeting.addresses.len()
    }

    fn is_refused(&self) -> bool {
        let mut addresses = self.meeting.addresses.iter();
        addresses.all(|address| self.refusing.contains(address))
    }

    fn failure(&self) -> String {
        let limit = facts::number::time_text(self.limit);
        let last = &self.last_error;
        if self.is_refused() {
            return format!("the coordinator of the survey is not there: {last}");
        }
        format!(
            "cannot reach the coordinator of the survey (limit: {limit}); the last attempt: {last}"
        )
    }
}

/// Returns the text for addresses that have failed: those with one reason together.
fn failures(failed: &[(SocketAddr, String)]) -> String {
    let mut groups: Vec<(Vec<String>, &str)> = Vec::new();
    for (address, reason) in failed {
        let place = format!("{} port {}", address.ip(), address.port());
        match groups.iter_mut().find(|(_, other)| other == reason) {
            Some((places, _)) => places.push(place),
            None => groups.push((vec![place], reason)),
        }
    }
    let groups = groups.iter().map(|(places, reason)| format!("{}: {reason}", places.join(", ")));
    groups.collect::<Vec<_>>().join("; ")
}

#[cfg(any(test, feature = "testing"))]
impl Uplink {
    /// Continues with this connection in any state.
    pub(super) fn take_over(&mut self, state: usize, link: Link) {
        let states = [
            UplinkState::Greeting,
            UplinkState::Claiming,
            UplinkState::Seeking,
            UplinkState::Syncing,
            UplinkState::Attached,
        ];
        self.enter(states[state % states.len()]);
        self.link = Some(link);
    }
}

#[cfg(test)]
mod tests;
