//! The thread of a member that forwards messages between its parent, its children and the measuring
//! thread. It sleeps while nothing arrives.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Meeting;
use super::clock::{SharedClock, now_ns};
use super::link::{Link, PollSet};
use super::listener::{Arrival, Claim, SurveyListener};
use super::message::{FromMember, Message, ParentRequest, encode};
use super::traffic::Traffic;
use super::uplink::{Uplink, UplinkEvent};
use crate::timetable::Introduction;
use facts::limit;
use facts::net::listener::{Listener, Reach};
use facts::token::random;

/// Key of the listening socket in the poll set.
const LISTENER: u64 = 0;

/// Key of the line to the measuring thread.
const LINE: u64 = 1;

/// How long a member that has ended waits for a message of the members below it. Those that remain
/// find the coordinator, which unit tests make happen early.
const END_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });

/// Longest wait of the loop.
const LONGEST: Duration = Duration::from_secs(3600);

/// A member below this one.
#[derive(Debug)]
struct RelayChild {
    link: Link,
    rank: u32,
    /// The coordinator may send it orders.
    is_ready: bool,
}

/// The connections of a member.
#[derive(Debug)]
pub struct Relay {
    set: PollSet,
    next_key: u64,
    listener: SurveyListener,
    /// The measuring thread; none after its end.
    line: Option<Link>,
    uplink: Uplink,
    children: HashMap<u64, RelayChild>,
    /// Messages for the coordinator while there is no parent.
    held: Vec<Message>,
    /// The last message of the measuring thread, which a new parent gets again: it may have been
    /// lost with the old one.
    last_report: Option<Message>,
    /// It has had a parent.
    was_attached: bool,
    clock: Arc<SharedClock>,
    traffic: Traffic,
    /// When the last block ends, on the clock of the coordinator and on the clock of this process.
    quiet_until: Option<(u64, Instant)>,
    /// When the wait for the members below ends, after the end of the survey.
    ending: Option<Instant>,
    is_over: bool,
}

impl Relay {
    /// Listens for children, and begins the search for a parent, which ends after `limit`. `line`
    /// is the other end of the measuring thread's.
    ///
    /// # Errors
    ///
    /// A process without free file descriptors or ports.
    pub fn new(
        meeting: Meeting,
        introduction: Introduction,
        limit: Duration,
        line: UnixStream,
        clock: Arc<SharedClock>,
    ) -> io::Result<Self> {
        let set = PollSet::new()?;
        let at = meeting.bounds.bind.map(|address| address.to_string());
        let listener = Listener::bind(at.as_deref(), 0, Reach::Everywhere)
            .map_err(|failure| io::Error::other(failure.message()))?;
        let listener = SurveyListener::new(listener, meeting.token.clone(), &set, LISTENER)?;
        let request = ParentRequest {
            id: u64::from_le_bytes(random()),
            port: listener.port(),
            avoid: None,
            received: 0,
            introduction,
        };
        Ok(Self {
            next_key: LINE,
            listener,
            line: Some(Link::from_line(line, &set, LINE)?),
            uplink: Uplink::new(meeting, request, &set, &clock, limit),
            set,
            children: HashMap::new(),
            held: Vec::new(),
            last_report: None,
            was_attached: false,
            clock,
            traffic: Traffic::default(),
            quiet_until: None,
            ending: None,
            is_over: false,
        })
    }

    /// Returns the poll set, which is readable if [`Self::turn`] has something to do.
    pub fn set(&self) -> &PollSet {
        &self.set
    }

    /// Runs until the end of the survey, or of the measuring thread.
    pub fn run(mut self) {
        let mut keys = Vec::new();
        while !self.is_over {
            let within = self.due().saturating_duration_since(Instant::now());
            self.turn(within, &mut keys);
        }
    }

    /// Returns whether the survey, or the measuring thread, has ended.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns when [`Self::turn`] has something to do, even if nothing arrives.
    pub fn due(&self) -> Instant {
        let uplink = self.uplink.due();
        let ending = self.ending.filter(|_| self.line.is_none());
        let others = self.listener.due().into_iter().chain(ending);
        others.fold(uplink, Instant::min).min(Instant::now() + LONGEST)
    }

    /// Waits until something arrives, for `within` at most, and handles it. `keys` is room for
    /// keys.
    pub fn turn(&mut self, within: Duration, keys: &mut Vec<u64>) {
        keys.clear();
        self.set.ready(within, keys);
        for &key in &*keys {
            if key == LISTENER {
                self.listener.admit(&mut self.next_key);
            } else if key == LINE {
                self.receive_from_line();
            } else if self.uplink.has(key) {
                self.receive_from_parent();
            } else if self.children.contains_key(&key) {
                self.receive_from_child(key);
            } else if let Some(Ok(arrival)) = self.listener.advance(key) {
                self.accept(arrival);
            }
        }
        let now = Instant::now();
        self.listener.tick(now);
        if let Err(reason) = self.uplink.tick(now, &mut self.next_key) {
            self.fail(&reason);
        }
        self.end_if_complete(now);
    }

    /// Accepts a child. The coordinator has sent it here.
    fn accept(&mut self, arrival: Arrival) {
        let Claim::Attach(rank) = arrival.claim else {
            return;
        };
        // A child that has lost this process and returns replaces its old connection.
        self.children.retain(|_, child| child.rank != rank);
        let child = RelayChild { link: arrival.link, rank, is_ready: false };
        let key = child.link.key();
        self.children.insert(key, child);
        self.receive_from_child(key);
    }

    /// Handles the messages of a child.
    fn receive_from_child(&mut self, key: u64) {
        loop {
            let Some(child) = self.children.get_mut(&key) else {
                return;
            };
            let rank = child.rank;
            child.link.flush();
            match child.link.receive() {
                Ok(None) => return,
                Ok(Some(Message::Ping { sent_ns })) => {
                    let (here_ns, offset) = (now_ns(), self.clock.offset());
                    child.link.send(&Message::Pong {
                        sent_ns,
                        here_ns: offset.coordinator_ns(here_ns),
                        uncertainty_ns: offset.uncertainty_ns(here_ns),
                    });
                }
                Ok(Some(Message::Ready)) => {
                    child.is_ready = true;
                    if self.ending.is_some() {
                        child.link.send(&Message::End);
                    } else if let Some((until_ns, until)) = self.quiet_until
                        && Instant::now() < until
                    {
                        child.link.send(&Message::Quiet { until_ns });
                    }
                    self.send_own(&FromMember::Attached(rank));
                }
                Ok(Some(Message::Leave)) => self.lose_child(key, None),
                Ok(Some(Message::Up { mut path, body })) => {
                    path.push(rank);
                    self.send_up(Message::Up { path, body });
                    if self.ending.is_some() {
                        self.wait_for_others();
                    }
                }
                Ok(Some(_)) => {
                    let reason = "it sent a message out of turn".into();
                    self.lose_child(key, Some(reason));
                }
                Err(loss) => self.lose_child(key, Some(loss.to_string())),
            }
        }
    }

    /// Removes a child, and reports why.
    fn lose_child(&mut self, key: u64, reason: Option<String>) {
        if let Some(mut child) = self.children.remove(&key) {
            self.traffic += child.link.take_traffic();
            let rank = child.rank;
            self.send_own(&FromMember::Gone { rank, reason });
        }
    }

    /// Handles what happened on the way to the coordinator.
    fn receive_from_parent(&mut self) {
        self.uplink.flush();
        loop {
            match self.uplink.next() {
                Ok(None) => return,
                Ok(Some(UplinkEvent::Changed)) => {}
                Ok(Some(UplinkEvent::Attached)) => {
                    self.send_to_line(&Message::Joined);
                    for message in std::mem::take(&mut self.held) {
                        self.uplink.send(&message);
                    }
                    if std::mem::replace(&mut self.was_attached, true) {
                        self.repeat();
                    }
                }
                Ok(Some(UplinkEvent::Message(message))) => self.handle_order(message),
                Err(reason) => {
                    self.fail(&reason);
                    return;
                }
            }
        }
    }

    /// Handles a message of the parent.
    fn handle_order(&mut self, message: Message) {
        match message {
            Message::Down { mut path, serial, body } => match next_on(&mut path) {
                Some(child) => self.send_to(child, &Message::Down { path, serial, body }),
                // An order may come twice, from the old parent and by the new one.
                None if serial > self.uplink.request.received => {
                    self.uplink.request.received = serial;
                    self.send_to_line(&Message::Down { path, serial, body });
                }
                None => {}
            },
            Message::Release { mut path, child } => match next_on(&mut path) {
                Some(next) => self.send_to(next, &Message::Release { path, child }),
                None => self.children.retain(|_, other| other.rank != child),
            },
            Message::Quiet { until_ns } => {
                let until = self.clock.local(until_ns);
                self.quiet_until = Some((until_ns, until));
                self.uplink.keep_quiet(until);
                self.send_to_all(&message);
            }
            Message::Repeat => self.repeat(),
            // It comes again with another parent.
            Message::End if self.ending.is_some() => {}
            Message::End => {
                self.wait_for_others();
                self.uplink.end();
                self.send_to_all(&Message::End);
                self.send_to_line(&Message::End);
            }
            Message::Abort(_) => {
                self.send_to_all(&message);
                self.send_to_line(&message);
                self.is_over = true;
            }
            _ => {}
        }
    }

    /// Sends again what may have been lost with a parent.
    fn repeat(&mut self) {
        let ready = self.children.values().filter(|child| child.is_ready);
        let children: Vec<u32> = ready.map(|child| child.rank).collect();
        self.send_own(&FromMember::Children(children));
        if let Some(report) = self.last_report.clone() {
            self.send_up(report);
        }
        self.send_to_all(&Message::Repeat);
    }

    fn send_to(&mut self, rank: u32, message: &Message) {
        let child = self.children.values_mut().find(|child| child.rank == rank);
        // A child that has gone is reported, and the coordinator sends the message another way.
        if let Some(child) = child {
            child.link.send(message);
        }
    }

    fn send_to_all(&mut self, message: &Message) {
        for child in self.children.values_mut() {
            child.link.send(message);
        }
    }

    fn send_to_line(&mut self, message: &Message) {
        if let Some(line) = &mut self.line {
            line.send(message);
        }
    }

    /// Sends a message of this process to the coordinator.
    fn send_own(&mut self, body: &FromMember) {
        let (path, body) = (Vec::new(), encode(body));
        self.send_up(Message::Up { path, body });
    }

    /// Sends a message to the coordinator, as soon as there is a parent.
    fn send_up(&mut self, message: Message) {
        if self.uplink.is_attached() {
            self.uplink.send(&message);
        } else {
            self.held.push(message);
        }
    }

    /// Handles the messages of the measuring thread, and its end.
    fn receive_from_line(&mut self) {
        while let Some(line) = &mut self.line {
            line.flush();
            match line.receive() {
                Ok(None) => return,
                Ok(Some(message)) => {
                    self.last_report = Some(message.clone());
                    self.send_up(message);
                }
                Err(_) => {
                    self.line = None;
                    if self.ending.is_some() {
                        for child in self.children.values_mut() {
                            self.traffic += child.link.take_traffic();
                        }
                        self.traffic += self.uplink.traffic();
                        self.send_own(&FromMember::Ended(self.traffic));
                        self.wait_for_others();
                    } else {
                        // Its last message, for instance why it failed.
                        self.uplink.flush();
                        self.is_over = true;
                    }
                }
            }
        }
    }

    /// Waits for the end of the members below from this moment on.
    fn wait_for_others(&mut self) {
        self.ending = Some(Instant::now() + limit::in_effect(END_LIMIT));
    }

    /// Ends after the survey when the measuring thread and all members below have ended. A
    /// measuring thread that hangs does not end: the coordinator reports this process then.
    fn end_if_complete(&mut self, now: Instant) {
        let Some(limit) = self.ending.filter(|_| self.line.is_none()) else {
            return;
        };
        let is_complete = self.children.is_empty() && self.held.is_empty();
        if is_complete && self.uplink.flush() || now >= limit {
            self.is_over = true;
        }
    }

    /// Ends this process for this reason. Those below it find other parents.
    fn fail(&mut self, reason: &str) {
        self.send_to_line(&Message::Refused(reason.to_owned()));
        self.is_over = true;
    }
}

#[cfg(any(test, feature = "testing"))]
impl Relay {
    /// Receives what has arrived on a connection to the coordinator in any state, or to a parent.
    pub(super) fn receive_by(&mut self, state: usize, link: Link) {
        self.uplink.take_over(state, link);
        self.receive_from_parent();
    }

    /// Receives what has arrived on a connection to a child.
    pub(super) fn receive_from(&mut self, rank: u32, link: Link) {
        let key = link.key();
        let child = RelayChild { link, rank, is_ready: true };
        self.children.insert(key, child);
        self.receive_from_child(key);
        self.children.clear();
        self.held.clear();
    }
}

/// Removes this process from a path, and returns the next on it; none if this process is its end.
fn next_on(path: &mut Vec<u32>) -> Option<u32> {
    if !path.is_empty() {
        path.remove(0);
    }
    path.first().copied()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

    use super::*;
    use crate::tree::Bounds;
    use crate::tree::testing::{LIMIT, introduction, token};

    #[test]
    fn listens_at_the_address_of_its_bounds() {
        let bind = Ipv4Addr::new(127, 0, 0, 2);
        let meeting = Meeting {
            addresses: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 1))],
            token: token("secret"),
            bounds: Bounds { parents: None, bind: Some(IpAddr::V4(bind)) },
        };
        let (line, _other) = UnixStream::pair().unwrap();
        let relay = Relay::new(meeting, introduction(0, 1), LIMIT, line, Arc::default()).unwrap();
        let port = relay.listener.port();
        assert!(TcpStream::connect((bind, port)).is_ok());
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    }
}
