//! The coordinator of a survey, as its thread sees it: all processes by their ranks, its orders to
//! them, and their end.

mod arrivals;
#[cfg(any(test, feature = "testing"))]
mod fuzzing;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::introduction::Introduction;
use crate::star::link::{PollSet, Traffic};
use crate::star::listener::{MOST_PENDING, Rejection, SurveyListener, pending_connections};
use crate::star::message::{MemoryCopy, Message, Order, Work, frame};
use facts::error::{Context, Failure};
use facts::net::Listener;
use facts::token::Token;
use facts::{interrupt, limit};
use record::MemberRecord;

/// Key of the listening socket in the poll set. The key of a member is its rank and one.
const LISTENER: u64 = 0;

/// Interval at which the coordinator looks for members that have not returned.
const LOOK: Duration = Duration::from_secs(1);

/// How long members may take to answer after they have returned, or after the coordinator was
/// stopped.
pub const GRACE: Duration = Duration::from_secs(8);

/// How long a member that has lost its connection may take to return: longer than it tries.
const AWAY_LIMIT: Duration = Duration::from_secs(25);

/// What happened to the processes of a survey.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<W: Work> {
    /// A process has joined.
    Joined(Introduction),
    /// A process is prepared for its test setup.
    Begun { rank: u32 },
    /// A process has measured a block.
    Report { rank: u32, report: W::Report },
    /// A process has checked its node.
    Checked {
        rank: u32,
        /// The document of the check; empty if another process of the node sends it.
        document: Vec<u8>,
    },
    /// A process has copied memory.
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

impl<W: Work> Event<W> {
    /// The rank of the process that has answered an order, or is lost.
    pub(super) fn answerer(&self) -> Option<u32> {
        match self {
            Self::Begun { rank }
            | Self::Report { rank, .. }
            | Self::Checked { rank, .. }
            | Self::CopiedMemory { rank, .. }
            | Self::Lost { rank, .. } => Some(*rank),
            Self::Joined(_) | Self::Knocked { .. } | Self::TurnedAway { .. } => None,
        }
    }
}

/// A member that has lost its connection.
#[derive(Clone, Debug)]
struct Absence {
    since: Instant,
    /// Why, as a sentence about it.
    reason: String,
}

/// The coordinator. Its thread calls [`Self::poll`] often: members in want of an answer for 30
/// seconds give up.
#[derive(Debug)]
pub struct Root<W: Work> {
    set: PollSet,
    listener: SurveyListener<W>,
    members: Vec<MemberRecord<W>>,
    /// Members that have joined and may return, by rank.
    away: BTreeMap<u32, Absence>,
    events: Vec<Event<W>>,
    traffic: Traffic,
    /// The last test setup.
    setup: Option<W::TestSetup>,
    /// When the last block ends, on the clock of this process, in nanoseconds.
    quiet_until_ns: u64,
    is_ending: bool,
    /// Why the survey has failed before its start, and the processes that know it.
    failure: Option<String>,
    told: BTreeSet<u32>,
    looked: Instant,
    stalls: StallWatch,
}

impl<W: Work> Root<W> {
    /// Lets the processes with ranks below `size` in at `listener`.
    ///
    /// # Errors
    ///
    /// A process without free file descriptors.
    pub fn listen(listener: Listener, token: Token, size: u32) -> Result<Self, Failure> {
        const WHAT: &str = "cannot coordinate a survey";
        let set = PollSet::new().environment(WHAT)?;
        let most = pending_connections(size, MOST_PENDING);
        let listener = SurveyListener::new(listener, token, &set, LISTENER, most);
        let mut members = Vec::new();
        members.resize_with(size as usize, MemberRecord::default);
        Ok(Self {
            set,
            listener: listener.environment(WHAT)?,
            members,
            away: BTreeMap::new(),
            events: Vec::new(),
            traffic: Traffic::default(),
            setup: None,
            quiet_until_ns: 0,
            is_ending: false,
            failure: None,
            told: BTreeSet::new(),
            looked: Instant::now(),
            stalls: StallWatch::new(Instant::now()),
        })
    }

    /// The port listened on.
    pub fn port(&self) -> u16 {
        self.listener.port()
    }

    /// Waits for events. Returns the first ones, or none at `until`.
    pub fn poll(&mut self, until: Instant) -> Result<Vec<Event<W>>, Failure> {
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
    /// them. Members that have lost their connection may return, and may answer within [`GRACE`]
    /// then. The same is true of all if this process itself was stopped. The next [`Self::poll`]
    /// returns what has arrived in the meantime.
    pub fn give_up_silent(&mut self, silent: &BTreeSet<u32>, reason: &str) -> Vec<u32> {
        self.turn(Duration::ZERO);
        // A turn does not see all sockets if many are ready.
        for &rank in silent {
            self.receive_from(rank);
        }
        let (grace, now) = (limit::in_effect(GRACE), Instant::now());
        if self.stalls.has_returned_within(grace, now) {
            return Vec::new();
        }
        let answered: BTreeSet<u32> = self.events.iter().filter_map(Event::answerer).collect();
        let may_answer = |rank: &u32| {
            answered.contains(rank)
                || self.away.contains_key(rank)
                || self.members[*rank as usize].has_returned_within(grace, now)
        };
        let given_up: Vec<u32> = silent.iter().copied().filter(|rank| !may_answer(rank)).collect();
        for &rank in &given_up {
            self.lose(rank, reason.to_owned());
        }
        given_up
    }

    /// Returns how much the coordinator has sent and received.
    pub fn traffic(&mut self) -> Traffic {
        for member in &mut self.members {
            self.traffic += member.take_traffic();
        }
        self.traffic
    }

    fn due(&self, now: Instant) -> Instant {
        let look =
            if self.away.is_empty() { now + Duration::from_secs(3600) } else { self.looked + LOOK };
        self.listener.due().map_or(look, |due| due.min(look))
    }

    /// Notes that this process runs, and returns the time. Members that are away get the time in
    /// which it did not.
    fn note_stall(&mut self) -> Instant {
        let now = Instant::now();
        if let Some(stopped) = self.stalls.note(now) {
            for absence in self.away.values_mut() {
                absence.since += stopped;
            }
        }
        now
    }

    /// Waits until something arrives, for `within` at most, and handles what has arrived.
    fn turn(&mut self, within: Duration) {
        let mut keys = Vec::new();
        self.set.ready(within, &mut keys);
        self.note_stall();
        for key in keys {
            let rank = key.wrapping_sub(1);
            if key == LISTENER {
                self.listener.admit();
            } else if rank < self.members.len() as u64 {
                self.receive_from(rank as u32);
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
            self.lose_overdue(now);
        }
    }

    fn turned_away(&mut self, rejected: Rejection) {
        let Rejection { peer, reason } = rejected;
        self.events.push(Event::TurnedAway { peer, reason });
    }

    fn member(&mut self, rank: u32) -> &mut MemberRecord<W> {
        &mut self.members[rank as usize]
    }
}

impl<W: Work> Drop for Root<W> {
    fn drop(&mut self) {
        if !self.is_ending {
            self.send_to_all(&Message::Abort("the coordinator of the survey has ended".into()));
        }
    }
}

/// Interval at which the coordinator checks whether all processes know that the survey has failed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl<W: Work> Root<W> {
    /// Ends all processes, and waits for them, for `limit` at most. Returns those that have not
    /// ended, and why. Signals do not end this wait.
    pub fn end(&mut self, limit: Duration) -> Vec<(u32, String)> {
        if !self.is_ending {
            self.is_ending = true;
            for rank in 0..self.members.len() as u32 {
                self.order(rank, Order::End);
            }
        }
        let ends = Instant::now() + limit;
        let mut missing: Vec<u32> = (0..self.members.len() as u32).collect();
        loop {
            missing.retain(|&rank| self.members[rank as usize].is_missing());
            let now = self.note_stall();
            if missing.is_empty() || now >= ends {
                break;
            }
            let wakes = ends.min(self.due(now));
            self.stalls.sleep(wakes);
            self.turn(wakes.saturating_duration_since(now));
        }
        let limit = facts::number::time_text(limit);
        let reason = format!("it has not ended within {limit}");
        missing.into_iter().map(|rank| (rank, reason.clone())).collect()
    }

    /// Tells `count` processes that the survey has failed, for this reason: those that come within
    /// `limit`. An interruption ends this.
    pub fn abort(mut self, reason: &str, count: u32, limit: Duration) {
        self.failure = Some(reason.to_owned());
        let until = Instant::now() + limit;
        while self.told.len() < count as usize && Instant::now() < until {
            let next = until.min(Instant::now() + CHECK_INTERVAL);
            if self.poll(next).is_err() {
                break;
            }
        }
    }
}

impl<W: Work> Root<W> {
    /// Sends each of these processes its test setup.
    pub fn send_setups(&mut self, setups: Vec<(u32, W::TestSetup)>) {
        if let Some((_, last)) = setups.last() {
            self.setup = Some(last.clone());
        }
        for (rank, setup) in setups {
            self.order(rank, Order::TestSetup(setup));
        }
    }

    /// Sends each of these processes its block. Until the end of the last one, no member sends
    /// pings.
    pub fn send_blocks(&mut self, blocks: Vec<(u32, W::Block)>) {
        self.be_quiet(blocks.iter().map(|(_, block)| W::end_ns(block)).max());
        for (rank, block) in blocks {
            self.order(rank, Order::Block(block));
        }
    }

    /// Members receive this before their blocks, so that nothing arrives while they measure.
    fn be_quiet(&mut self, until_ns: Option<u64>) {
        if let Some(until_ns) = until_ns {
            self.quiet_until_ns = until_ns;
            self.send_to_all(&Message::Quiet { until_ns });
        }
    }

    /// Asks each of these processes for a check of its NICs.
    pub fn send_checks(&mut self, ranks: impl IntoIterator<Item = u32>) {
        for rank in ranks {
            self.order(rank, Order::Check);
        }
    }

    /// Asks a process how fast it copies memory.
    pub fn send_copy_memory(&mut self, rank: u32) {
        self.order(rank, Order::CopyMemory);
    }

    fn order(&mut self, rank: u32, order: Order<W>) {
        if let Some(member) = self.members.get_mut(rank as usize) {
            member.keep(order);
        }
    }

    fn send_to_all(&mut self, message: &Message<W>) {
        let frame = frame(message);
        for link in self.members.iter_mut().filter_map(|member| member.link.as_mut()) {
            link.send_frame(frame.clone());
        }
    }
}

/// A longer gap between two turns of the coordinator means that the coordinator was stopped.
const ABSENCE: Duration = Duration::from_secs(2);

/// Detects whether the process of the coordinator was stopped.
#[derive(Debug)]
pub struct StallWatch {
    /// When it runs next at the latest, unless it is stopped or busy.
    expected: Instant,
    /// When it has continued after an absence.
    returned: Option<Instant>,
}

impl StallWatch {
    /// Begins at `now`.
    pub fn new(now: Instant) -> Self {
        Self { expected: now, returned: None }
    }

    /// Notes that the process sleeps until `wakes` at most.
    pub fn sleep(&mut self, wakes: Instant) {
        self.expected = wakes;
    }

    /// Notes that the process runs at `now`. Returns how long it was absent, if it was.
    pub fn note(&mut self, now: Instant) -> Option<Duration> {
        let absent = now.saturating_duration_since(self.expected);
        self.expected = now;
        let absent = Some(absent).filter(|&absent| absent >= ABSENCE);
        if absent.is_some() {
            self.returned = Some(now);
        }
        absent
    }

    /// Whether the process has returned from an absence less than `time` before `now`.
    pub fn has_returned_within(&self, time: Duration, now: Instant) -> bool {
        let returned = self.returned;
        returned.is_some_and(|returned| now.saturating_duration_since(returned) < time)
    }
}

#[cfg(test)]
mod stalls_tests {
    use super::*;

    #[test]
    fn notes_absence_beyond_expected_sleep() {
        let begin = Instant::now();
        let mut presence = StallWatch::new(begin);
        presence.sleep(begin + 10 * ABSENCE);
        assert_eq!(presence.note(begin + 10 * ABSENCE), None);
        let back = begin + 11 * ABSENCE;
        assert!(!presence.has_returned_within(ABSENCE, back));
        assert_eq!(presence.note(back), Some(ABSENCE));
        assert!(presence.has_returned_within(ABSENCE, back + ABSENCE / 2));
        assert!(!presence.has_returned_within(ABSENCE, back + ABSENCE));
        // A message ends the sleep early.
        presence.sleep(back + ABSENCE);
        assert_eq!(presence.note(back), None);
        assert_eq!(presence.note(back + ABSENCE), Some(ABSENCE));
    }
}
