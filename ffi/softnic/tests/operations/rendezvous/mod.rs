//! Rendezvous messages (nic.md 10): source and target in one process, as the send tools have them.

use crate::driver::prelude::*;

mod messages;
mod processes;
pub const M: u64 = 0x1234_5678_9abc_def0;
pub const ID: u8 = 0xcc;
pub const HEADER_DATA: u64 = 0x77;
pub const SOURCES: u32 = 255;

/// Source and target of rendezvous messages.
pub struct Bench {
    pub rig: Rig,
    /// Events of the source's entry.
    pub seq: EventQueue,
    pub source: Buffer,
    pub sink: Buffer,
    pub portal: Portal,
    pub len: usize,
}

impl Bench {
    pub fn new(len: usize) -> Self {
        let mut rig = Rig::new();
        let seq = EventQueue::new(rig.dev, rig.lni, CXI_EQ_EC_DISABLE);
        let source = rig.buffer(len);
        // In a separate address context.
        let sink = Buffer::new(rig.lni, len, CXI_MAP_PIN | CXI_MAP_WRITE);
        assert_ne!(source.lac, sink.lac);
        let pattern: Vec<u8> = (0..len).map(|at| (at % 251) as u8 + 1).collect();
        source.pages.write(0, &pattern);
        let portal = rig.portal(0, |options| options.set_is_matching(1));
        assert_eq!(rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
        let mut bench = Self { rig, seq, source, sink, portal, len };
        bench.offer_source(|_| {});
        bench
    }

    /// The source's portal, on its own queue, with an entry over all of the source.
    pub fn offer_source(&mut self, choose: impl FnOnce(&mut TargetCmd)) {
        std::mem::swap(&mut self.rig.teq, &mut self.seq);
        let (source, nid) = (self.source, self.rig.nid);
        let portal = self.rig.portal(SOURCES, |options| options.set_is_matching(1));
        assert_eq!(self.rig.set_state(portal, C_PTLTE_ENABLED).code(), C_RC_OK);
        let link = self.rig.append(portal, |entry| {
            whole(entry, &source);
            entry
                .set_op_put(false)
                .set_op_get(true)
                .set_match_id(match_id(511, nid))
                .set_match_bits(M >> 48 << 48 | u64::from(ID))
                .set_ignore_bits(0xf00);
            choose(entry);
        });
        assert_eq!(link.kind(), C_EVENT_LINK);
        std::mem::swap(&mut self.rig.teq, &mut self.seq);
    }

    /// Appends an entry over all of the sink to the target's portal.
    pub fn offer(&mut self, buffer_id: u16, choose: impl FnOnce(&mut TargetCmd)) {
        let sink = self.sink;
        let matches = match_id(self.rig.pid, self.rig.nid);
        let link = self.rig.append(self.portal, |entry| {
            whole(entry, &sink);
            entry.set_buffer_id(buffer_id).set_match_id(matches).set_match_bits(M);
            choose(entry);
        });
        link.is(C_EVENT_LINK, C_RC_OK);
    }

    pub fn put(&self, offset: usize, len: usize, choose: impl FnOnce(&mut FullDmaCmd)) -> Vec<u8> {
        self.rig.dma_put(&self.source, offset, len as u32, |put| {
            put.set_opcode(C_CMD_RENDEZVOUS_PUT as u8)
                .set_rendezvous_id(ID)
                .set_initiator(match_id(self.rig.pid, self.rig.nid))
                .set_match_bits(M)
                .set_header_data(HEADER_DATA)
                .set_user_ptr(0x88)
                .set_remote_offset(offset as u64);
            choose(put);
        })
    }

    pub fn send(&mut self, command: &[u8]) -> Completion {
        Completion::of(&self.rig.run(command))
    }

    pub fn target_event(&mut self) -> TargetEvent {
        let event = self.rig.teq.wait();
        assert!(!is_completion(&event), "{event:?}");
        TargetEvent::of(&event)
    }

    pub fn reply(&mut self) -> Completion {
        let event = self.rig.teq.wait();
        assert!(is_completion(&event), "{event:?}");
        Completion::of(&event)
    }

    /// PUT, RENDEZVOUS and REPLY of one message.
    pub fn three(&mut self) -> (TargetEvent, TargetEvent, Completion) {
        (self.target_event(), self.target_event(), self.reply())
    }

    pub fn user_ptr(&self, buffer_id: u16) -> u64 {
        let (nid, pid) = (u64::from(self.rig.nid), u64::from(self.rig.pid));
        nid | pid << 20
            | u64::from(self.portal.number) << 29
            | u64::from(ID) << 40
            | u64::from(buffer_id) << 48
    }

    pub fn nothing_more(&mut self) {
        for _ in 0..4 {
            progress(self.rig.dev);
        }
        assert!(self.rig.eq.take().is_none());
        assert!(self.rig.teq.take().is_none());
        assert!(self.seq.take().is_none());
    }
}
