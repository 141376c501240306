//! The messages of members to the coordinator, and processes that join it, return to it, or leave
//! it.

use std::time::Instant;

use crate::star::clock::now_ns;
use crate::star::link::{Loss, StarLink};
use crate::star::listener::{Claim, ClaimedConnection, Rejection};
use crate::star::message::{Expected, JoinRequest, Message, Order, Reply, Work};
use crate::star::root::{AWAY_LIMIT, Absence, Event, Root};
use facts::{limit, text};

impl<W: Work> Root<W> {
    /// Admits a process that joins or returns.
    pub(super) fn accept(&mut self, arrival: ClaimedConnection<W>) {
        let ClaimedConnection { mut link, peer, claim } = arrival;
        let mut request = match claim {
            Claim::Join(request) => request,
            Claim::Knock(rank) => return self.answer_knock(link, rank),
        };
        let accepted = request.introduction.accept();
        if let Err(reason) = accepted.and_then(|()| self.register(&request)) {
            link.send(&Message::Refused(reason.clone()));
            return self.turned_away(Rejection { peer, reason });
        }
        let rank = request.introduction.rank;
        if let Some(reason) = &self.failure {
            link.send(&Message::Abort(reason.clone()));
            self.told.insert(rank);
            return;
        }
        // The process returns with a new connection. The old connection has no meaning any longer.
        self.close(rank);
        link.set_key(u64::from(rank) + 1);
        let member = self.member(rank);
        link.send(&Message::Admitted { answered: member.answered() });
        member.link = Some(link);
        if member.has_joined() {
            self.note_absence(rank, "it has returned, and does not go on".into());
        }
    }

    /// Answers a task that does not see the meeting point.
    fn answer_knock(&mut self, mut link: StarLink<W>, rank: u32) {
        if rank as usize >= self.members.len() {
            return;
        }
        match &self.failure {
            Some(reason) => {
                link.send(&Message::Abort(reason.clone()));
                self.told.insert(rank);
            }
            None => {
                link.send(&Message::Waits);
                self.events.push(Event::Knocked { rank });
            }
        }
    }

    /// Checks and stores the introduction of a process.
    pub(super) fn register(&mut self, request: &JoinRequest) -> Result<(), String> {
        let rank = request.introduction.rank;
        let size = self.members.len();
        let Some(member) = self.members.get_mut(rank as usize) else {
            return Err(format!("its rank is {rank}, and the survey has {size} processes"));
        };
        if member.is_lost {
            return Err(format!("the survey has given up rank {rank}"));
        }
        member.register(request)
    }

    /// A member has the clock, and can receive orders.
    pub(super) fn ready(&mut self, rank: u32) {
        self.away.remove(&rank);
        let until_ns = self.quiet_until_ns;
        let member = self.member(rank);
        let joined = member.ready(Instant::now());
        if until_ns > now_ns() {
            member.send(&Message::Quiet { until_ns });
        }
        member.send_orders();
        self.events.extend(joined.map(Event::Joined));
    }

    /// The connection of a member has ended. A process that ends closes its connection; any other
    /// end may be one of the network, and the member may return. A member that returns closes its
    /// connection as well if it waits too long for the coordinator, and tries again.
    pub(super) fn gone(&mut self, rank: u32, loss: &Loss) {
        let was_ready = self.member(rank).is_ready;
        self.close(rank);
        let member = self.member(rank);
        if !member.has_joined() {
            // The process may begin again.
            return;
        }
        let is_over = member.is_lost || member.has_ended;
        match loss {
            _ if is_over => {}
            _ if self.is_ending => self.member(rank).has_ended = true,
            Loss::Closed if !was_ready => self.note_absence(rank, loss.to_string()),
            Loss::Closed | Loss::Unread => self.lose(rank, loss.to_string()),
            Loss::Malformed => self.lose(rank, format!("expelled: {loss}")),
            Loss::Reset | Loss::Silent | Loss::Io(_) => self.note_absence(rank, loss.to_string()),
        }
    }

    /// Notes that a member has to return. Its time does not begin again while it is away.
    pub(super) fn note_absence(&mut self, rank: u32, reason: String) {
        self.away.entry(rank).or_insert(Absence { since: Instant::now(), reason });
    }

    /// Gives up the members that have not returned within their time.
    pub(super) fn lose_overdue(&mut self, now: Instant) {
        let limit = limit::in_effect(AWAY_LIMIT);
        let is_over = |absence: &Absence| now.saturating_duration_since(absence.since) >= limit;
        let overdue = self.away.iter().filter(|(_, absence)| is_over(absence));
        let overdue: Vec<u32> = overdue.map(|(&rank, _)| rank).collect();
        for rank in overdue {
            if let Some(absence) = self.away.remove(&rank) {
                self.lose(rank, absence.reason);
            }
        }
    }

    /// Removes a process from the survey.
    pub(super) fn lose(&mut self, rank: u32, reason: String) {
        let member = self.member(rank);
        if member.is_lost {
            return;
        }
        member.send(&Message::Refused(format!("the survey has given it up: {reason}")));
        member.lose();
        self.close(rank);
        self.away.remove(&rank);
        self.events.push(Event::Lost { rank, reason });
    }

    pub(super) fn close(&mut self, rank: u32) {
        let member = self.member(rank);
        let traffic = member.take_traffic();
        member.close();
        self.traffic += traffic;
    }
}

/// Longest document of the check of a node, in bytes: 8 NICs have 64 KiB.
const MOST_DOCUMENT: usize = 4 << 20;

/// Messages of a member that are handled before others have a turn.
const MOST_AT_ONCE: usize = 16;

impl<W: Work> Root<W> {
    /// Handles the messages of a member.
    pub(super) fn receive_from(&mut self, rank: u32) {
        for _ in 0..MOST_AT_ONCE {
            let Some(link) = &mut self.member(rank).link else {
                return;
            };
            link.flush();
            match link.receive() {
                Ok(None) => return,
                Ok(Some(message)) => {
                    if let Err(reason) = self.take(rank, message) {
                        self.lose(rank, format!("expelled: {reason}"));
                    }
                }
                Err(loss) => self.gone(rank, &loss),
            }
        }
    }

    /// Handles a message of a member. The error is the rule that it breaks.
    fn take(&mut self, rank: u32, message: Message<W>) -> Result<(), String> {
        let member = self.member(rank);
        member.count_message(Instant::now())?;
        match message {
            Message::Ping { sent_ns } => {
                member.send(&Message::Pong { sent_ns, here_ns: now_ns() });
            }
            Message::Ready if !member.is_ready => self.ready(rank),
            Message::Reply { serial, reply } if member.is_ready => {
                self.reply(rank, serial, reply)?;
            }
            Message::Failed(mut reason) if member.is_ready => {
                text::accept(&mut reason);
                self.lose(rank, reason);
            }
            Message::Leave => {
                self.close(rank);
                if self.member(rank).has_joined() {
                    self.note_absence(rank, "it has left, and has not returned".into());
                }
            }
            _ => return Err("it sent a message out of turn".into()),
        }
        Ok(())
    }

    /// Takes over the reply to an order, which must be one of the kind of the order, about this
    /// member. The error is the rule that it breaks.
    fn reply(&mut self, rank: u32, serial: u32, reply: Reply<W>) -> Result<(), String> {
        let setup = self.setup.as_ref();
        let member = &mut self.members[rank as usize];
        let order = member.order(serial).ok_or("it sent a reply to no order")?;
        let event = match (order, reply) {
            (Order::TestSetup(_), Reply::Begun) => Event::Begun { rank },
            (Order::Block(block), Reply::Report(mut report)) => {
                let expected = Expected { rank, nics: member.nics(), setup, block: &block };
                W::accept(&mut report, expected)?;
                Event::Report { rank, report }
            }
            (Order::Check, Reply::Checked(document)) if document.len() > MOST_DOCUMENT => {
                return Err(format!("its check has {} bytes", document.len()));
            }
            (Order::Check, Reply::Checked(document)) => Event::Checked { rank, document },
            (Order::CopyMemory, Reply::CopiedMemory(copy)) => Event::CopiedMemory { rank, copy },
            (Order::End, Reply::Ended) => {
                member.has_ended = true;
                self.close(rank);
                return Ok(());
            }
            _ => return Err("its reply is not one to its order".into()),
        };
        member.answer(serial);
        self.events.push(event);
        Ok(())
    }
}
