//! A matching portal and its messages.

use crate::driver::prelude::*;

/// The list entries of a processing element.
pub const ENTRIES: usize = 16384;

pub struct Bench {
    pub rig: Rig,
    pub source: Buffer,
    pub sink: Buffer,
    pub portal: Portal,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// A matching portal at index 0, enabled.
    pub fn with(choose: impl FnOnce(&mut cxi_pt_alloc_opts)) -> Self {
        let mut rig = Rig::new();
        let (source, sink) = (rig.buffer(8 * PAGE), rig.buffer(8 * PAGE));
        let pattern: Vec<u8> = (0..8 * PAGE).map(|at| (at % 251) as u8 + 1).collect();
        source.pages.write(0, &pattern);
        let portal = rig.portal(0, |options| {
            options.set_is_matching(1);
            choose(options);
        });
        assert_eq!(rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
        Self { rig, source, sink, portal }
    }

    /// Issues a command to the portal, and returns its event.
    pub fn command(&mut self, opcode: u32, choose: impl FnOnce(&mut TargetCmd)) -> TargetEvent {
        let sink = self.sink;
        let command = target(opcode, self.portal.number, |entry| {
            whole(entry, &sink);
            entry.set_event_unlink_disable(false);
            choose(entry);
        });
        self.rig.tgt.issue(&command);
        self.reported()
    }

    pub fn append(&mut self, choose: impl FnOnce(&mut TargetCmd)) -> TargetEvent {
        self.command(C_CMD_TGT_APPEND, choose)
    }

    pub fn overflow(&mut self, choose: impl FnOnce(&mut TargetCmd)) {
        let link = self.append(|entry| {
            entry.set_ptl_list(C_PTL_LIST_OVERFLOW as u8);
            entry.set_ignore_bits(u64::MAX).set_match_id(u32::MAX);
            choose(entry);
        });
        assert_eq!((link.kind, link.code), (C_EVENT_LINK, C_RC_OK));
    }

    pub fn put(&mut self, len: usize, choose: impl FnOnce(&mut FullDmaCmd)) -> Completion {
        let put = self.rig.dma_put(&self.source, 0, len as u32, |put| {
            put.set_header_data(0x1dea).set_user_ptr(0xabc);
            choose(put);
        });
        Completion::of(&self.rig.run(&put))
    }

    /// Adds entries to the pool, all but `left` of those that it holds, on another portal of the
    /// processing element: the fourth one after the own portal.
    pub fn fill(&mut self, left: usize) -> Portal {
        let mut portals = (4..8).map(|index| self.rig.portal(index, |_| {}));
        let filler = portals.nth(3).expect("four portals");
        for _ in 0..ENTRIES - left {
            self.rig
                .tgt
                .issue(&append(filler.number, |entry| _ = entry.set_event_link_disable(true)));
        }
        self.rig.tgt.drain();
        filler
    }

    pub fn reported(&mut self) -> TargetEvent {
        TargetEvent::of(&self.rig.teq.wait())
    }

    pub fn nothing_more(&mut self) {
        for _ in 0..4 {
            progress(self.rig.dev);
        }
        assert!(self.rig.teq.take().is_none());
        assert!(self.rig.eq.take().is_none());
    }

    /// The return code of a command that stops its queue, a separate one.
    pub fn refused(&self, opcode: u32, choose: impl FnOnce(&mut TargetCmd)) -> u32 {
        let mut queue = Queue::target(self.rig.dev, self.rig.lni);
        queue.issue(&target(opcode, self.portal.number, choose));
        queue.wait_error().return_code().into()
    }
}
