//! The coordinator of two members, for any bytes in place of a message.

use crate::introduction::Introduction;
use crate::star::link::StarLink;
use crate::star::listener::ClaimedConnection;
use crate::star::message::{JoinRequest, Order, Work};
use crate::star::root::{Event, Root};

impl<W: Work> Root<W> {
    /// Begins again with these members. The first one has one order of each kind, and two `blocks`.
    pub(in crate::star) fn restart(
        &mut self,
        members: &[Introduction],
        setup: &W::TestSetup,
        blocks: &[W::Block; 2],
    ) {
        self.events.clear();
        self.away.clear();
        self.members.clear();
        self.members.resize_with(members.len() + 1, Default::default);
        for introduction in members {
            let rank = introduction.rank;
            let request = JoinRequest { id: 1, received: 0, introduction: introduction.clone() };
            self.register(&request).expect("a member");
            self.ready(rank);
        }
        self.events.clear();
        self.send_setups(vec![(0, setup.clone())]);
        blocks.iter().for_each(|block| self.send_blocks(vec![(0, block.clone())]));
        self.send_checks([0]);
        self.send_copy_memory(0);
        self.order(0, Order::End);
    }

    /// Receives what has arrived from the member with rank 0, ready or not, and returns what
    /// follows.
    pub(in crate::star) fn receive_by(
        &mut self,
        link: StarLink<W>,
        is_ready: bool,
    ) -> Vec<Event<W>> {
        let member = self.member(0);
        (member.link, member.is_ready) = (Some(link), is_ready);
        self.receive_from(0);
        self.member(0).close();
        std::mem::take(&mut self.events)
    }

    /// Accepts a process with a claim, and returns what follows.
    pub(in crate::star) fn receive_claim(
        &mut self,
        arrival: ClaimedConnection<W>,
    ) -> Vec<Event<W>> {
        self.accept(arrival);
        std::mem::take(&mut self.events)
    }
}
