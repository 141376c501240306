//! The processes that ask the coordinator for a parent, at their start or after the loss of a
//! parent.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::waiting::Waiting;
use super::{Event, Root, RootChild};
use crate::tree::link::Link;
use crate::tree::listener::{Arrival, Claim, Rejection};
use crate::tree::message::{Message, ParentAddress, ParentRequest};

impl Root {
    /// Registers a process that looks for a parent.
    pub(super) fn accept(&mut self, arrival: Arrival) {
        let Arrival { mut link, peer, claim } = arrival;
        let request = match claim {
            Claim::Seek(mut request) => match request.introduction.accept() {
                Ok(()) => request,
                Err(reason) => return self.refuse(link, peer, reason),
            },
            Claim::Knock(rank) => return self.answer_knock(link, rank),
            Claim::Attach(_) => return,
        };
        if let Err(reason) = self.register(&request, peer) {
            return self.refuse(link, peer, reason);
        }
        let rank = request.introduction.rank;
        if let Some(reason) = &self.failure {
            link.send(&Message::Abort(reason.clone()));
            self.told.insert(rank);
            return;
        }
        self.waiting.retain(|_, waiting| waiting.rank != rank);
        // The process returns with a new connection. The old connection has no meaning any longer.
        self.close_child(rank);
        if self.links.parent(rank).is_some() {
            self.links.away(rank, Instant::now());
        }
        let waiting = Waiting { rank, avoid: request.avoid, link };
        self.waiting.insert(waiting.link.key(), waiting);
        self.place_waiting();
    }

    fn refuse(&mut self, mut link: Link, peer: SocketAddr, reason: String) {
        link.send(&Message::Refused(reason.clone()));
        self.turned_away(Rejection { peer, reason });
    }

    /// Answers a task that does not see the meeting point.
    fn answer_knock(&mut self, mut link: Link, rank: u32) {
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
    pub(super) fn register(
        &mut self,
        request: &ParentRequest,
        peer: SocketAddr,
    ) -> Result<(), String> {
        let rank = request.introduction.rank;
        let size = self.members.len();
        let Some(member) = self.members.get_mut(rank as usize) else {
            return Err(format!("its rank is {rank}, and the survey has {size} processes"));
        };
        if self.links.is_lost(rank) {
            return Err(format!("the survey has given up rank {rank}"));
        }
        member.register(request, peer)
    }

    /// Gives parents to the processes that wait for one.
    pub(super) fn place_waiting(&mut self) {
        while let Some((&key, waiting)) = self.waiting.first_key_value() {
            let (rank, avoid) = (waiting.rank, waiting.avoid);
            let now = Instant::now();
            let parent = if self.is_ending {
                // Other members may have ended already.
                self.links.place_at_root(rank, now);
                None
            } else {
                match self.links.place(rank, avoid, now) {
                    Some(parent) => parent,
                    None => return,
                }
            };
            let Some(mut waiting) = self.waiting.remove(&key) else {
                return;
            };
            let place = parent.and_then(|parent| self.place_of(parent, &waiting.link));
            waiting.link.send(&Message::Parent(place));
            self.traffic += waiting.link.take_traffic();
            if parent.is_none() {
                let link = waiting.link;
                self.children.insert(key, RootChild { link, rank });
            }
        }
    }

    /// Returns the address at which a process finds `parent`. A member on the host of the
    /// coordinator may have connected by loopback. Processes on other hosts reach this member at
    /// the address at which they have reached the coordinator.
    fn place_of(&self, parent: u32, request: &Link) -> Option<ParentAddress> {
        let member = &self.members[parent as usize];
        let mut address = member.address?;
        if is_loopback(address.ip())
            && let Some(here) = request.local()
            && !is_loopback(here.ip())
        {
            address.set_ip(here.ip().to_canonical());
        }
        let rank = parent;
        Some(ParentAddress { rank, address })
    }

    /// Handles the connection of a process that waits for its parent. Such a process sends nothing,
    /// so its connection has ended. A member may return.
    pub(super) fn receive_from_waiting(&mut self, key: u64) {
        let Some(waiting) = self.waiting.get_mut(&key) else {
            return;
        };
        let rank = waiting.rank;
        waiting.link.flush();
        if matches!(waiting.link.receive(), Ok(None)) {
            return;
        }
        self.waiting.remove(&key);
        if self.links.is_known(rank) {
            self.links.away(rank, Instant::now());
        } else {
            self.forget(rank);
        }
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
