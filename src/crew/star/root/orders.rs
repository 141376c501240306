//! The orders of the coordinator to the members.

use super::Root;
use crate::star::message::{Message, Order, frame};
use crate::star::work::Work;

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

    pub(super) fn order(&mut self, rank: u32, order: Order<W>) {
        if let Some(member) = self.members.get_mut(rank as usize) {
            member.keep(order);
        }
    }

    pub(super) fn send_to_all(&mut self, message: &Message<W>) {
        let frame = frame(message);
        for link in self.members.iter_mut().filter_map(|member| member.link.as_mut()) {
            link.send_frame(frame.clone());
        }
    }
}
