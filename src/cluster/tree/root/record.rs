//! The record of a process in the coordinator.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::survey::findings::Test;
use crate::timetable::acceptance::Expected;
use crate::timetable::{Block, Introduction};
use crate::tree::message::{Order, ParentRequest, encode};
use crate::tree::traffic::Traffic;

/// An order that is not known to have arrived.
#[derive(Debug)]
pub struct PendingOrder {
    /// Its number among the orders for this process, from 1.
    pub serial: u32,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// What the coordinator knows of a process.
#[derive(Debug, Default)]
pub struct MemberRecord {
    id: Option<u64>,
    introduction: Option<Introduction>,
    /// The address of its host, if it was invited there.
    pub host: Option<IpAddr>,
    /// Where it listens for children.
    pub address: Option<SocketAddr>,
    has_joined: bool,
    /// Number of its last order.
    serial: u32,
    orders: Vec<Arc<PendingOrder>>,
    /// The last block that it was sent.
    block: Option<Block>,
    /// Number of the last block that it has reported.
    reported: Option<u32>,
    /// What it has sent and received up to its end; none while it has not ended.
    pub ended: Option<Traffic>,
    /// Its last level in the tree.
    pub level: u32,
}

impl MemberRecord {
    /// Stores the introduction of a process. It replaces another process with the same rank that
    /// has not joined: a process that finds no parent in time begins again.
    ///
    /// # Errors
    ///
    /// Another process with this rank has joined; a sentence about the refused process.
    pub fn register(&mut self, request: &ParentRequest, peer: SocketAddr) -> Result<(), String> {
        if self.id != Some(request.id) {
            if let Some(Introduction { rank, host, .. }) = &self.introduction
                && self.has_joined
            {
                return Err(format!("rank {rank} has joined already, from {host}"));
            }
            self.id = Some(request.id);
            self.introduction = Some(request.introduction.clone());
        }
        let host = self.host.unwrap_or(peer.ip());
        self.address = Some(SocketAddr::new(host, request.port));
        self.orders.retain(|kept| kept.serial > request.received);
        Ok(())
    }

    /// Forgets a process that has never joined: another one may have its rank.
    pub fn forget(&mut self) {
        *self = Self { host: self.host, ..Self::default() };
    }

    /// Returns the introduction, the first time.
    pub fn joined(&mut self) -> Option<Introduction> {
        let is_first = !std::mem::replace(&mut self.has_joined, true);
        self.introduction.clone().filter(|_| is_first)
    }

    /// Returns whether it has joined, and has not ended.
    pub fn is_missing(&self) -> bool {
        self.has_joined && self.ended.is_none()
    }

    /// Keeps an order until it is known to have arrived.
    pub fn keep(&mut self, order: &Order) -> Arc<PendingOrder> {
        match order {
            Order::Block(block) => self.block = Some(block.clone()),
            Order::Course(_) | Order::Check | Order::CopyMemory | Order::End => {}
        }
        self.serial += 1;
        let kept = Arc::new(PendingOrder { serial: self.serial, body: encode(order) });
        self.orders.push(kept.clone());
        kept
    }

    /// Returns the orders that are not known to have arrived.
    pub fn orders(&self) -> Vec<Arc<PendingOrder>> {
        self.orders.clone()
    }

    /// Forgets the orders that are not known to have arrived.
    pub fn forget_orders(&mut self) {
        self.orders.clear();
    }

    /// Returns what the next report of the process with this `rank` is about.
    pub fn expected<'a>(&'a self, rank: u32, tests: &'a [Test]) -> Expected<'a> {
        Expected { rank, nics: self.nics(), tests, block: self.block.as_ref() }
    }

    fn nics(&self) -> usize {
        let introduction = self.introduction.as_ref();
        introduction.map_or(0, |introduction| introduction.nics.len())
    }

    /// Returns whether the report of this block has not come before.
    pub fn is_new(&self, block: u32) -> bool {
        self.reported.is_none_or(|last| block > last)
    }

    /// Notes the report of a block. It shows that the orders up to now have arrived.
    pub fn reported(&mut self, block: u32) {
        self.reported = Some(block);
        self.forget_orders();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::testing::introduction;

    #[test]
    fn invited_process_is_found_at_its_host() {
        let request = ParentRequest {
            id: 0,
            port: 7,
            avoid: None,
            received: 0,
            introduction: introduction(0, 1),
        };
        let peer: SocketAddr = "10.1.0.9:40000".parse().unwrap();
        let mut record = MemberRecord::default();
        for (host, expected) in [(None, "10.1.0.9:7"), (Some("10.1.0.2"), "10.1.0.2:7")] {
            record.host = host.map(|host| host.parse().unwrap());
            record.forget();
            record.register(&request, peer).unwrap();
            assert_eq!(record.address, Some(expected.parse().unwrap()));
        }
    }
}
