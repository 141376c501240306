//! The coordinator of a survey, as its thread sees it: all processes by their ranks.
//!
//! * `arrivals`: the processes that ask for a parent.
//! * `ending`: the end of all processes.
//! * `messages`: what members send.
//! * `record`: what the coordinator knows of a process.
//! * `orders`: what it sends.
//! * `stalls`: when the coordinator itself was stopped.

mod arrivals;
mod ending;
#[cfg(any(test, feature = "testing"))]
mod fuzzing;
mod messages;
mod orders;
mod record;
mod stalls;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::WIDTH;
use super::clock::now_ns;
use super::link::{Link, PollSet};
use super::links::{Parent, TreeLinks};
use super::listener::{Rejection, SurveyListener};
use super::message::Message;
use super::traffic::Traffic;
use super::uplink::DETOUR_LIMIT;
use crate::survey::findings::Test;
use crate::timetable::{Introduction, MemoryCopy, Report};
use facts::error::{Context, Failure};
use facts::net::listener::Listener;
use facts::token::Token;
use facts::{interrupt, limit};
use record::MemberRecord;
use stalls::StallWatch;
use waiting::Waiting;

/// Key of the listening socket in the poll set.
const LISTENER: u64 = 0;

/// Interval at which the coordinator looks for members that have not come.
const LOOK: Duration = Duration::from_secs(1);

/// What happened to the processes of a survey.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A process has joined.
    Joined(Introduction),
    /// A process is prepared for its course. This may be reported again, if its parent was lost.
    Begun { rank: u32 },
    /// A process has done its tasks of a block.
    Report(Report),
    /// A process has checked its node. This may be reported again, if its parent was lost.
    Checked {
        rank: u32,
        /// The document of the check; empty if another process of the node sends it.
        document: Vec<u8>,
    },
    /// A process has copied memory. This may be reported again, if its parent was lost.
    CopiedMemory {
        rank: u32,
        /// How fast; none if that says nothing about the memory of its node.
        copy: Option<MemoryCopy>,
    },
    /// A process has ended, or cannot be reached. It may not return.
    Lost {
        rank: u32,
        /// Why, as a sentence about it.
        reason: String,
    },
    /// A process does not see the meeting point. It has not proved that it is one of the survey.
    Knocked { rank: u32 },
    /// A connection was turned away, which is not one of a process of this survey, or is of a rank
    /// that has joined already.
    TurnedAway {
        /// Its address.
        peer: SocketAddr,
        /// Why, as a sentence about it.
        reason: String,
    },
}

impl Event {
    /// Returns the rank of the process that has answered an order, or is lost.
    fn answerer(&self) -> Option<u32> {
        match self {
            Self::Begun { rank }
            | Self::Checked { rank, .. }
            | Self::CopiedMemory { rank, .. }
            | Self::Lost { rank, .. } => Some(*rank),
            Self::Report(report) => Some(report.rank),
            Self::Joined(_) | Self::Knocked { .. } | Self::TurnedAway { .. } => None,
        }
    }
}

/// A child of the coordinator.
#[derive(Debug)]
struct RootChild {
    link: Link,
    rank: u32,
}

/// The coordinator. Its thread calls [`Self::poll`] often: members in want of an answer for 30
/// seconds give up.
#[derive(Debug)]
pub struct Root {
    set: PollSet,
    next_key: u64,
    listener: SurveyListener,
    links: TreeLinks,
    members: Vec<MemberRecord>,
    children: HashMap<u64, RootChild>,
    /// By key: the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    events: Vec<Event>,
    traffic: Traffic,
    /// The tests of all courses.
    tests: Vec<Test>,
    /// When the last block ends, on the clock of this process, in nanoseconds.
    quiet_until_ns: u64,
    is_ending: bool,
    /// Why the survey has failed before its start, and the processes that know it.
    failure: Option<String>,
    told: BTreeSet<u32>,
    looked: Instant,
    stalls: StallWatch,
}

impl Root {
    /// Lets the processes with ranks below `size` in at `listener`.
    ///
    /// # Errors
    ///
    /// A process without free file descriptors.
    pub fn listen(listener: Listener, token: Token, size: u32) -> Result<Self, Failure> {
        const WHAT: &str = "cannot coordinate a survey";
        let set = PollSet::new().environment(WHAT)?;
        let listener = SurveyListener::new(listener, token, &set, LISTENER).environment(WHAT)?;
        let mut members = Vec::new();
        members.resize_with(size as usize, MemberRecord::default);
        Ok(Self {
            set,
            next_key: LISTENER,
            listener,
            links: TreeLinks::new(size, WIDTH),
            members,
            children: HashMap::new(),
            waiting: BTreeMap::new(),
            events: Vec::new(),
            traffic: Traffic::default(),
            tests: Vec::new(),
            quiet_until_ns: 0,
            is_ending: false,
            failure: None,
            told: BTreeSet::new(),
            looked: Instant::now(),
            stalls: StallWatch::new(Instant::now()),
        })
    }

    /// Returns the port listened on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Notes the addresses of the hosts at which processes were invited, by rank. Others find a
    /// process there.
    pub fn expect_at(&mut self, hosts: impl Iterator<Item = (u32, IpAddr)>) {
        for (rank, host) in hosts {
            if let Some(member) = self.members.get_mut(rank as usize) {
                member.host = Some(host.to_canonical());
            }
        }
    }

    /// Waits for events. Returns the first ones, or none at `until`.
    pub fn poll(&mut self, until: Instant) -> Result<Vec<Event>, Failure> {
        while self.events.is_empty() {
            let now = self.note_stall();
            let wakes = until.min(self.due(now));
            let within = wakes.saturating_duration_since(now);
            self.stalls.sleep(wakes);
            interrupt::wait(self.set.socket(), PollFlags::IN, Some(within))?;
            self.turn(Duration::ZERO);
            if Instant::now() >= until {
                break;
            }
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Gives up the members among `silent` that do not answer because of themselves, and returns
    /// them. The others are below silent ones, or look for a parent: they may answer within
    /// [`DETOUR_LIMIT`]. The same is true of all if this process itself was stopped. The next
    /// [`Self::poll`] returns what has arrived in the meantime.
    pub fn give_up_silent(&mut self, silent: &BTreeSet<u32>, reason: &str) -> Vec<u32> {
        self.turn(Duration::ZERO);
        let (limit, now) = (limit::in_effect(DETOUR_LIMIT), Instant::now());
        if self.stalls.has_returned_within(limit, now) {
            return Vec::new();
        }
        let answered: BTreeSet<u32> = self.events.iter().filter_map(Event::answerer).collect();
        let silent: BTreeSet<u32> = silent.difference(&answered).copied().collect();
        let silent_itself = |&rank: &u32| !self.links.is_cut_off(rank, &silent, limit, now);
        let given_up: Vec<u32> = silent.iter().copied().filter(silent_itself).collect();
        for &rank in &given_up {
            self.lose(rank, reason.to_owned());
        }
        given_up
    }

    fn due(&self, now: Instant) -> Instant {
        let look = if self.links.is_waiting() {
            self.looked + LOOK
        } else {
            now + Duration::from_secs(3600)
        };
        self.listener.due().map_or(look, |due| due.min(look))
    }

    /// Notes that this process runs, and returns the time. Members that look for a parent get the
    /// time in which it did not.
    fn note_stall(&mut self) -> Instant {
        let now = Instant::now();
        if let Some(absence) = self.stalls.note(now) {
            self.links.postpone(absence);
        }
        now
    }

    /// Waits until something arrives, for `within` at most, and handles all that has arrived.
    fn turn(&mut self, within: Duration) {
        let mut keys = Vec::new();
        self.set.ready(within, &mut keys);
        self.note_stall();
        for key in keys {
            if key == LISTENER {
                self.listener.admit(&mut self.next_key);
            } else if self.children.contains_key(&key) {
                self.receive_from_child(key);
            } else if self.waiting.contains_key(&key) {
                self.receive_from_waiting(key);
            } else {
                match self.listener.advance(key) {
                    None => {}
                    Some(Ok(arrival)) => self.accept(arrival),
                    Some(Err(rejected)) => self.turned_away(rejected),
                }
            }
        }
        let now = self.note_stall();
        for rejected in self.listener.tick(now) {
            self.turned_away(rejected);
        }
        if now.saturating_duration_since(self.looked) >= LOOK {
            self.looked = now;
            self.look(now);
        }
    }

    fn turned_away(&mut self, rejected: Rejection) {
        let Rejection { peer, reason } = rejected;
        self.events.push(Event::TurnedAway { peer, reason });
    }

    /// Gives up the members that have not come within their time.
    fn look(&mut self, now: Instant) {
        for overdue in self.links.overdue(now) {
            if overdue.is_known {
                let reason = "it has lost its parent in the tree, and has not returned".to_owned();
                self.lose(overdue.rank, reason);
            } else {
                self.forget(overdue.rank);
            }
        }
        self.place_waiting();
    }

    /// Forgets a process that has not joined: it may come again.
    fn forget(&mut self, rank: u32) {
        self.close_child(rank);
        self.links.forget(rank);
        self.members[rank as usize].forget();
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
                Ok(Some(Message::Ping { sent_ns })) => child.link.send(&Message::Pong {
                    sent_ns,
                    here_ns: now_ns(),
                    uncertainty_ns: 0,
                }),
                Ok(Some(Message::Ready)) => {
                    let until_ns = self.quiet_until_ns;
                    if self.is_ending {
                        child.link.send(&Message::End);
                    } else if until_ns > now_ns() {
                        child.link.send(&Message::Quiet { until_ns });
                    }
                    self.attached(rank, None);
                }
                Ok(Some(Message::Leave)) => self.gone(rank, None, None),
                Ok(Some(Message::Up { mut path, body })) => {
                    path.push(rank);
                    self.handle(&path, &body);
                }
                Ok(Some(_)) => {
                    let reason = "it sent a message out of turn".into();
                    self.gone(rank, None, Some(reason));
                }
                Err(loss) => self.gone(rank, None, Some(loss.to_string())),
            }
        }
    }

    /// A member is connected to this parent.
    fn attached(&mut self, rank: u32, parent: Parent) {
        if self.links.attach(rank, parent) {
            let joined = self.members[rank as usize].joined();
            self.events.extend(joined.map(Event::Joined));
        } else if !self.links.is_attached_to(rank, parent) {
            // It has come too late, or is lost. If it is neither, it asks for its parent again.
            self.release(rank, parent);
            return;
        }
        // What was on its way to members below may be lost as well.
        for member in self.links.below(rank) {
            for order in self.members[member as usize].orders() {
                self.send_order(member, &order);
            }
        }
        self.place_waiting();
    }

    /// The connection of a member to this parent has ended.
    fn gone(&mut self, rank: u32, parent: Parent, reason: Option<String>) {
        if parent.is_none() {
            self.close_child(rank);
        }
        // It may have another parent by now.
        if self.links.parent(rank) != Some(parent) {
            return;
        }
        match reason {
            None => self.links.away(rank, Instant::now()),
            Some(_) if self.is_ending => {
                self.members[rank as usize].ended.get_or_insert_default();
            }
            Some(reason) => self.lose(rank, reason),
        }
    }

    /// Removes a process from the survey.
    fn lose(&mut self, rank: u32, reason: String) {
        if self.links.is_lost(rank) {
            return;
        }
        let refused = Message::Refused(format!("the survey has given it up: {reason}"));
        for waiting in self.waiting.values_mut() {
            if waiting.rank == rank {
                waiting.refuse(&refused);
            }
        }
        self.waiting.retain(|_, waiting| waiting.rank != rank);
        if let Some(child) = self.children.values_mut().find(|child| child.rank == rank) {
            child.link.send(&refused);
        }
        if let Some(parent) = self.links.parent(rank) {
            self.release(rank, parent);
        }
        self.links.lose(rank, Instant::now());
        self.members[rank as usize].forget_orders();
        self.events.push(Event::Lost { rank, reason });
        self.place_waiting();
    }

    /// Closes the connection of a member to this parent.
    fn release(&mut self, rank: u32, parent: Parent) {
        match parent {
            None => self.close_child(rank),
            Some(parent) => {
                if let Some(path) = self.links.path(parent) {
                    self.send_along(path, |path| Message::Release { path, child: rank });
                }
            }
        }
    }

    fn close_child(&mut self, rank: u32) {
        let children = self.children.extract_if(|_, child| child.rank == rank);
        for (_, mut child) in children {
            self.traffic += child.link.take_traffic();
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if !self.is_ending {
            self.send_to_all(&Message::Abort("the coordinator of the survey has ended".into()));
        }
    }
}
