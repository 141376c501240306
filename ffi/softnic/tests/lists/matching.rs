//! Matching: which entry an operation uses (nic.md 4.2, 8.4).

use crate::driver::prelude::*;

/// A rig with a matching portal at index 0 and a source of bytes to put.
struct Bench {
    rig: Rig,
    source: Buffer,
    sink: Buffer,
    portal: Portal,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(choose: impl FnOnce(&mut cxi_pt_alloc_opts)) -> Self {
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        let sink = rig.buffer(PAGE);
        let portal = rig.portal(0, |options| {
            options.set_is_matching(1);
            choose(options);
        });
        rig.set_state(portal, C_PTLTE_ENABLED);
        Self { rig, source, sink, portal }
    }

    /// Appends an entry with this buffer id.
    fn append(&mut self, buffer_id: u16, choose: impl FnOnce(&mut TargetCmd)) {
        let sink = self.sink;
        let link = self.rig.append(self.portal, |entry| {
            whole(entry, &sink);
            entry.set_buffer_id(buffer_id);
            choose(entry);
        });
        link.is(C_EVENT_LINK, C_RC_OK);
    }

    /// Puts a byte, and returns the buffer id of its entry; `None` without a match.
    fn put(&mut self, initiator: u32, match_bits: u64) -> Option<u16> {
        let put = self.rig.dma_put(&self.source, 0, 1, |put| {
            put.set_initiator(initiator).set_match_bits(match_bits).set_header_data(!match_bits);
        });
        match self.rig.code(&put) {
            C_RC_OK => {
                let event = self.rig.teq.wait();
                assert_eq!(event.kind(), C_EVENT_PUT);
                let event = EventTargetShort::from_bytes(event.bytes());
                assert_eq!(event.match_bits(), match_bits);
                assert_eq!(event.header_data(), !match_bits);
                assert_eq!(event.initiator(), initiator);
                Some(event.buffer_id())
            }
            code => {
                assert_eq!(code, C_RC_ENTRY_NOT_FOUND);
                assert!(self.rig.teq.poll().is_none());
                None
            }
        }
    }
}

#[test]
fn compares_every_bit_that_is_not_ignored() {
    alone!();
    let mut bench = Bench::new();
    let (wanted, ignored) = (0x0123_4567_89ab_cdef, 0x00ff_0000_0000_0f01);
    bench.append(1, |entry| _ = entry.set_match_bits(wanted).set_ignore_bits(ignored));
    assert_eq!(bench.put(0, wanted), Some(1));
    for bit in 0..64 {
        let expected = (ignored >> bit & 1 == 1).then_some(1);
        assert_eq!(bench.put(0, wanted ^ 1 << bit), expected, "bit {bit}");
    }
    assert_eq!(bench.put(0, wanted ^ ignored), Some(1));
}

#[test]
fn first_matching_entry_wins() {
    alone!();
    let mut bench = Bench::new();
    for (buffer_id, match_bits, ignore_bits) in
        [(1, 5, 0), (2, 4, 1), (3, 7, 0), (4, 0, u64::MAX), (5, 9, 0)]
    {
        bench.append(buffer_id, |entry| {
            _ = entry.set_match_bits(match_bits).set_ignore_bits(ignore_bits)
        });
    }
    for (match_bits, entry) in [(5, 1), (4, 2), (7, 3), (9, 4), (u64::MAX, 4)] {
        assert_eq!(bench.put(0, match_bits), Some(entry), "{match_bits}");
    }
    // Without the first entry, the next one matches.
    let unlink = target(C_CMD_TGT_UNLINK, bench.portal.number, |entry| _ = entry.set_buffer_id(1));
    bench.rig.tgt.issue(&unlink);
    assert_eq!(bench.rig.teq.wait().code(), C_RC_OK);
    assert_eq!(bench.put(0, 5), Some(2));
}

const fn id(pid: u32, node: u32) -> u32 {
    pid << 23 | node
}

#[test]
fn matches_initiator_or_wildcard() {
    alone!();
    const ANY_PID: u32 = 511;
    const ANY_NODE: u32 = (1 << 23) - 1;
    const ANY_NID: u32 = 0xf_ffff;
    let mine = [id(7, 0x12), id(7, 0x13), id(8, 0x12), id(8, 0x13)];
    for (match_id, admitted) in [
        (id(7, 0x12), [true, false, false, false]),
        (id(ANY_PID, 0x12), [true, false, true, false]),
        (id(7, ANY_NODE), [true, true, false, false]),
        (id(7, ANY_NID), [true, true, false, false]),
        (id(ANY_PID, ANY_NODE), [true; 4]),
        (id(0, 0), [false; 4]),
    ] {
        let mut bench = Bench::new();
        bench.append(1, |entry| _ = entry.set_match_id(match_id));
        let seen = mine.map(|initiator| bench.put(initiator, 0).is_some());
        assert_eq!(seen, admitted, "match id {match_id:#x}");
    }
    // Only the entry's id can be a wildcard, not the initiator's.
    let mut bench = Bench::new();
    bench.append(1, |entry| _ = entry.set_match_id(id(7, 0x12)));
    assert_eq!(bench.put(u32::MAX, 0), None);
    assert_eq!(bench.put(id(ANY_PID, 0x12), 0), None);
    // With logical addresses, 20 ones are a rank.
    let mut bench = Bench::with(|options| options.set_use_logical(1));
    bench.append(1, |entry| _ = entry.set_match_id(id(7, ANY_NID)));
    assert_eq!(bench.put(id(7, 0x12), 0), None);
    assert_eq!(bench.put(id(7, ANY_NID), 0), Some(1));
}

/// Immediate puts have neither match bits nor header data: both are zero.
#[test]
fn immediate_put_matches_zero_bits() {
    alone!();
    let mut bench = Bench::new();
    bench.append(1, |entry| _ = entry.set_match_bits(1));
    bench.append(2, |entry| _ = entry.set_match_id(id(9, 9)));
    bench.append(3, |entry| _ = entry.set_match_id(id(3, 4)));
    let c_state =
        c_state(bench.rig.eq.number, false, |c_state| _ = c_state.set_initiator(id(3, 4)));
    bench.rig.tx.emit(&c_state);
    let put = idc_put(bench.rig.dfa(0), 0, b"in the command");
    assert_eq!(bench.rig.code(&put), C_RC_OK);
    let event = EventTargetShort::from_bytes(bench.rig.teq.wait().bytes());
    assert_eq!(event.buffer_id(), 3);
    assert_eq!((event.match_bits(), event.header_data()), (0, 0));
    assert_eq!(event.initiator(), id(3, 4));
    assert_eq!(bench.sink.pages.read(0, 14), b"in the command");
}

/// Without matching, ids and bits are ignored.
#[test]
fn portal_without_matching_accepts_any_initiator() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    rig.target_with(0, &sink, |entry| {
        _ = entry.set_match_bits(1).set_match_id(id(1, 1)).set_event_comm_disable(true)
    });
    let put = rig.dma_put(&source, 0, 1, |put| _ = put.set_match_bits(2).set_initiator(id(2, 2)));
    assert_eq!(rig.code(&put), C_RC_OK);
}
