//! The coordinator of two members, for any bytes in place of a message.

use super::{Event, Root, RootChild};
use crate::timetable::{Block, Course, Introduction};
use crate::tree::link::Link;
use crate::tree::listener::Arrival;
use crate::tree::message::ParentRequest;

impl Root {
    /// Begins again with these members, as the children of the coordinator. The first one has a
    /// block.
    pub(in crate::tree) fn restart(
        &mut self,
        members: &[Introduction],
        course: &Course,
        block: &Block,
    ) {
        self.children.clear();
        self.waiting.clear();
        self.events.clear();
        self.links = crate::tree::links::TreeLinks::new(members.len() as u32 + 1, 2);
        self.members.clear();
        self.members.resize_with(members.len() + 1, Default::default);
        for introduction in members {
            let rank = introduction.rank;
            let request = ParentRequest {
                id: 1,
                port: 1,
                avoid: None,
                received: 0,
                introduction: introduction.clone(),
            };
            self.register(&request, ([127, 0, 0, 1], 1).into()).expect("a member");
            self.links.place_at_root(rank, std::time::Instant::now());
            self.attached(rank, None);
        }
        self.events.clear();
        self.send_courses(vec![(0, course.clone())]);
        self.send_blocks(vec![(0, block.clone())]);
    }

    /// Receives what has arrived from the member with rank 0, and returns what follows.
    pub(in crate::tree) fn receive_by(&mut self, link: Link) -> Vec<Event> {
        let key = link.key();
        self.children.insert(key, RootChild { link, rank: 0 });
        self.receive_from_child(key);
        self.children.remove(&key);
        std::mem::take(&mut self.events)
    }

    /// Accepts a process with a claim, and returns what follows.
    pub(in crate::tree) fn receive_claim(&mut self, arrival: Arrival) -> Vec<Event> {
        self.accept(arrival);
        std::mem::take(&mut self.events)
    }
}
