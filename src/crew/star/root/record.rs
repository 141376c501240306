//! The record of a process in the coordinator.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::introduction::Introduction;
use crate::star::link::{StarLink, Traffic};
use crate::star::message::{JoinRequest, Message, Order, Work, decode, frame};
use facts::net::HEADER_SIZE;

/// Most messages of a member within a second. One that is in order sends a few pings.
const MOST_MESSAGES: u32 = 1000;

/// An order without a reply.
#[derive(Debug)]
struct KeptOrder {
    serial: u32,
    /// The message with its length in front.
    frame: Arc<[u8]>,
}

/// What the coordinator knows of a process.
#[derive(Debug, Default)]
pub struct MemberRecord<W: Work> {
    /// Its connection.
    pub link: Option<StarLink<W>>,
    /// It can receive orders on its connection.
    pub is_ready: bool,
    pub is_lost: bool,
    pub has_ended: bool,
    id: Option<u64>,
    host: String,
    nics: usize,
    /// None after the process has joined.
    introduction: Option<Introduction>,
    /// When it has joined, or returned for the last time.
    joined: Option<Instant>,
    has_returned: bool,
    /// Number of its last order.
    serial: u32,
    /// The last order that it has received, by its own words, when it last came.
    received: u32,
    /// The last order that it has replied to.
    answered: u32,
    orders: VecDeque<KeptOrder>,
    /// When the second began in which its messages are counted, and their number.
    second: Option<Instant>,
    messages: u32,
}

impl<W: Work> MemberRecord<W> {
    /// Stores the introduction of a process. It replaces another process with the same rank that
    /// has not joined.
    ///
    /// # Errors
    ///
    /// Another process with this rank has joined; a sentence about the refused process.
    pub fn register(&mut self, request: &JoinRequest) -> Result<(), String> {
        let Introduction { rank, host, nics, .. } = &request.introduction;
        if self.id != Some(request.id) {
            if self.has_joined() {
                return Err(format!("rank {rank} has joined already, from {}", self.host));
            }
            self.id = Some(request.id);
            self.host.clone_from(host);
            self.nics = nics.len();
            self.introduction = Some(request.introduction.clone());
        }
        self.received = request.received;
        Ok(())
    }

    /// Notes that it can receive orders. Returns the introduction, the first time.
    pub fn ready(&mut self, now: Instant) -> Option<Introduction> {
        self.is_ready = true;
        self.has_returned = self.joined.is_some();
        self.joined = Some(now);
        self.introduction.take()
    }

    pub fn has_joined(&self) -> bool {
        self.joined.is_some()
    }

    /// Whether it has returned less than `time` before `now`.
    pub fn has_returned_within(&self, time: Duration, now: Instant) -> bool {
        let is_new = |joined: Instant| now.saturating_duration_since(joined) < time;
        self.has_returned && self.joined.is_some_and(is_new)
    }

    /// Returns whether it has joined, and has not ended.
    pub fn is_missing(&self) -> bool {
        self.has_joined() && !self.has_ended && !self.is_lost
    }

    /// Sends a message, if it has a connection.
    pub fn send(&mut self, message: &Message<W>) {
        if let Some(link) = &mut self.link {
            link.send(message);
        }
    }

    /// Sends an order as soon as possible, and keeps it until it has a reply.
    pub fn keep(&mut self, order: Order<W>) {
        if self.is_lost {
            return;
        }
        self.serial += 1;
        let serial = self.serial;
        let frame = frame(&Message::Order { serial, order });
        if self.is_ready
            && let Some(link) = &mut self.link
        {
            link.send_frame(frame.clone());
        }
        self.orders.push_back(KeptOrder { serial, frame });
    }

    /// Sends the orders that it has not received.
    pub fn send_orders(&mut self) {
        if let Some(link) = &mut self.link {
            for kept in self.orders.iter().filter(|kept| kept.serial > self.received) {
                link.send_frame(kept.frame.clone());
            }
        }
    }

    /// The order with this number, if it has no reply.
    pub fn order(&self, serial: u32) -> Option<Order<W>> {
        let kept = self.orders.iter().find(|kept| kept.serial == serial)?;
        match decode(&kept.frame[HEADER_SIZE..])? {
            Message::Order { order, .. } => Some(order),
            _ => None,
        }
    }

    /// The last order that has a reply.
    pub fn answered(&self) -> u32 {
        self.answered
    }

    /// Forgets the orders up to this one: it has a reply.
    pub fn answer(&mut self, serial: u32) {
        self.answered = serial;
        self.orders.retain(|kept| kept.serial > serial);
    }

    /// The number of its NICs.
    pub fn nics(&self) -> usize {
        self.nics
    }

    /// Counts a message.
    ///
    /// # Errors
    ///
    /// More of them than a member sends that is in order.
    pub fn count_message(&mut self, now: Instant) -> Result<(), String> {
        let is_new = |second: Instant| now.saturating_duration_since(second).as_secs() > 0;
        if self.second.is_none_or(is_new) {
            (self.second, self.messages) = (Some(now), 0);
        }
        self.messages += 1;
        if self.messages > MOST_MESSAGES {
            return Err(format!("it sent more than {MOST_MESSAGES} messages within 1 s"));
        }
        Ok(())
    }

    /// Closes its connection.
    pub fn close(&mut self) {
        (self.link, self.is_ready) = (None, false);
    }

    /// Notes that it takes no part any longer.
    pub fn lose(&mut self) {
        self.is_lost = true;
        self.orders = VecDeque::new();
    }

    /// Returns what was sent and received on its connection since the last call.
    pub fn take_traffic(&mut self) -> Traffic {
        self.link.as_mut().map(StarLink::take_traffic).unwrap_or_default()
    }
}
