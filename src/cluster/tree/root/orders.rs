//! The orders of the coordinator to the members.

use std::sync::Arc;

use super::Root;
use super::record::PendingOrder;
use crate::timetable::{Block, Course};
use crate::tree::message::{Message, Order};

impl Root {
    /// Sends each of these processes its course.
    pub fn send_courses(&mut self, courses: Vec<(u32, Course)>) {
        for (rank, course) in courses {
            self.tests.clone_from(&course.tests);
            self.order(rank, &Order::Course(course));
        }
    }

    /// Sends each of these processes its block. Until the end of the last one, the tree is quiet.
    pub fn send_blocks(&mut self, blocks: Vec<(u32, Block)>) {
        let until_ns =
            blocks.iter().map(|(_, block)| end(block.begins_ns, block.slot_ns, block.slots)).max();
        for (rank, block) in blocks {
            self.order(rank, &Order::Block(block));
        }
        if let Some(until_ns) = until_ns {
            self.quiet_until_ns = until_ns;
            self.send_to_all(&Message::Quiet { until_ns });
        }
    }

    /// Asks each of these processes for a check of its NICs.
    pub fn send_checks(&mut self, ranks: impl IntoIterator<Item = u32>) {
        for rank in ranks {
            self.order(rank, &Order::Check);
        }
    }

    /// Asks a process how fast it copies memory.
    pub fn send_copy_memory(&mut self, rank: u32) {
        self.order(rank, &Order::CopyMemory);
    }

    /// Sends an order, and keeps it until it is known to have arrived.
    fn order(&mut self, rank: u32, order: &Order) {
        if (rank as usize) < self.members.len() && !self.links.is_lost(rank) {
            let kept = self.members[rank as usize].keep(order);
            self.send_order(rank, &kept);
        }
    }

    pub(super) fn send_order(&mut self, rank: u32, order: &Arc<PendingOrder>) {
        if let Some(path) = self.links.path(rank) {
            self.members[rank as usize].level = path.len() as u32;
            let (serial, body) = (order.serial, order.body.clone());
            self.send_along(path, |path| Message::Down { path, serial, body });
        }
    }

    /// Sends a message to the member at the end of a path.
    pub(super) fn send_along(&mut self, path: Vec<u32>, message: impl FnOnce(Vec<u32>) -> Message) {
        let first = path.first().copied();
        let mut children = self.children.values_mut();
        if let Some(child) = children.find(|child| Some(child.rank) == first) {
            child.link.send(&message(path));
        }
    }

    pub(super) fn send_to_all(&mut self, message: &Message) {
        for child in self.children.values_mut() {
            child.link.send(message);
        }
    }
}

/// Returns when a block ends, in nanoseconds.
fn end(begins_ns: u64, slot_ns: u64, slots: u32) -> u64 {
    begins_ns.saturating_add(slot_ns.saturating_mul(slots.into()))
}
