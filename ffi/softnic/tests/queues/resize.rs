//! Event queues that move to other buffers, and their reserved slots (nic.md 5.6, 5.8).

use crate::driver::prelude::*;
use std::ffi::c_void;

/// Slots of a page that events can fill.
const USABLE: usize = PAGE / SLOT - 2;

/// Events of 16 bytes in a slot.
const PACKED: usize = 4;

/// An initiator whose ACKs fill its event queue.
struct Bench {
    rig: Rig,
    source: Buffer,
    /// Number of puts.
    count: u64,
}

impl Bench {
    fn new() -> Self {
        let (rig, source, _) = Rig::with_target();
        let count = 0;
        Self { rig, source, count }
    }

    /// Completes puts; the `n`th has the user pointer `n`.
    fn put(&mut self, count: usize) {
        for _ in 0..count {
            self.count += 1;
            let put = self.rig.dma_put(&self.source, 0, 8, |put| _ = put.set_user_ptr(self.count));
            self.rig.tx.issue(&put);
        }
        self.rig.tx.issue(&cq(C_CMD_CQ_FENCE, 0));
        self.rig.tx.drain();
    }

    /// The user pointers of the ACKs in the queue, and whether EQ_SWITCH follows them.
    fn take(&mut self) -> (Vec<u64>, bool) {
        let mut found = vec![];
        while let Some(event) = self.rig.eq.take() {
            assert_eq!(event.code(), C_RC_OK);
            assert_eq!(event.0.len(), 16);
            if event.kind() == C_EVENT_EQ_SWITCH {
                assert_eq!(event.0[..8], [0; 8]);
                assert_eq!(self.rig.eq.take(), None, "nothing comes after it");
                return (found, true);
            }
            assert_eq!(event.kind(), C_EVENT_ACK);
            found.push(u64::from_le_bytes(event.bytes::<16>()[..8].try_into().unwrap()));
        }
        (found, false)
    }

    fn resize(&self, buffer: &Buffer) -> i32 {
        resize(self.rig.eq.handle, buffer)
    }

    fn complete(&mut self, buffer: Buffer) {
        // The cursors of the program's helpers have any value.
        // SAFETY: the queue was not destroyed yet, and only this thread uses its handle.
        let public = unsafe { &mut *self.rig.eq.handle };
        public.rd_offset = 640;
        public.prev_rd_offset = 640;
        assert_eq!(call!(cxil_evtq_resize_complete(self.rig.eq.handle)), 0);
        self.rig.eq.go_over(buffer);
    }
}

#[test]
fn queue_moves_and_continues() {
    alone!();
    let mut bench = Bench::new();
    let buffers = [3, 1, 2].map(|pages| bench.rig.buffer(pages * PAGE));
    let mut last = bench.rig.eq.buffer;
    for (round, buffer) in buffers.into_iter().enumerate() {
        // More events than the ring holds.
        for _ in 0..3 {
            bench.put(USABLE * 2);
            let (found, switch) = bench.take();
            assert_eq!((found.len(), switch), (USABLE * 2, false));
            bench.rig.eq.acknowledge();
        }
        bench.put(3);
        // Earlier bytes of the buffer are not events.
        buffer.pages.fill(0xff);
        assert_eq!(bench.resize(&buffer), 0);
        bench.put(2);
        assert_eq!(bench.resize(&bench.rig.buffer(PAGE)), -EBUSY, "one is under way");
        let ends = bench.count;
        assert_eq!(bench.take(), (vec![ends - 4, ends - 3, ends - 2], true));
        bench.rig.eq.acknowledge();
        for held in [last.md, buffer.md] {
            assert_eq!(call!(cxil_unmap(held)), -EBUSY);
        }
        bench.complete(buffer);
        last.unmap();
        assert_eq!(call!(cxil_unmap(buffer.md)), -EBUSY);
        last = buffer;
        // SAFETY: the handle was not destroyed yet.
        let public = unsafe { &*bench.rig.eq.handle };
        assert_eq!(public.byte_size as usize, buffer.pages.len);
        assert_eq!((public.rd_offset, public.prev_rd_offset), (64, 64));
        // SAFETY: both members are addresses.
        let events = unsafe { public.__bindgen_anon_1.events };
        // SAFETY: all members are the same word.
        let state = unsafe { public.sw_state.qw };
        assert_eq!(events, buffer.pages.base);
        let state = EqSwState::from_bytes(state.to_le_bytes());
        assert_eq!(state.reading_buffer_b(), round % 2 == 0);
        assert_eq!(bench.take(), (vec![ends - 1, ends], false));
        bench.rig.eq.acknowledge();
    }
    assert_eq!(call!(cxil_destroy_evtq(bench.rig.eq.handle)), 0);
    last.unmap();
}

#[test]
fn full_queue_has_room_for_switch_event() {
    alone!();
    for beyond in [0, 1, 5] {
        let mut bench = Bench::new();
        let room = USABLE * PACKED;
        bench.put(room + beyond);
        assert_eq!(bench.rig.eq.status().unackd_dropped_event(), beyond > 0);
        let buffer = bench.rig.buffer(PAGE);
        assert_eq!(bench.resize(&buffer), 0);
        // The new buffer overflows before the old one is read.
        bench.put(room + 7);
        let (old, switch) = bench.take();
        assert!(switch && old.len() == room && old[room - 1] == room as u64);
        bench.complete(buffer);
        let status = bench.rig.eq.status();
        assert!(status.using_buffer_b());
        assert!(status.unackd_dropped_event());
        let (found, switch) = bench.take();
        let first = (room + beyond + 1) as u64;
        assert!(!switch && found.len() == room && found[0] == first);
        assert_eq!(found[room - 1], first + room as u64 - 1);
        bench.rig.eq.acknowledge();
        bench.put(1);
        assert_eq!(bench.take(), (vec![bench.count], false));
    }
}

#[test]
fn switch_event_fits_into_partly_used_slot() {
    alone!();
    for begun in 1..PACKED {
        let mut bench = Bench::new();
        bench.put(begun);
        let buffer = bench.rig.buffer(PAGE);
        assert_eq!(bench.resize(&buffer), 0);
        let found = bench.take();
        assert_eq!(found, ((1..=begun as u64).collect(), true));
    }
}

/// A read pointer of an earlier buffer does not apply to the present one.
#[test]
fn moves_twice_without_acknowledgement() {
    alone!();
    let mut bench = Bench::new();
    bench.put(5 * PACKED);
    bench.take();
    bench.rig.eq.acknowledge();
    // All of a new buffer is free.
    let all = USABLE as i32;
    let eq = bench.rig.eq.handle;
    let adjust = move |by| call!(cxil_evtq_adjust_reserved_fc(eq, by));
    // Stores the read pointer to the NIC and to the helpers' copy.
    assert_eq!(adjust(0), 0);
    let state = u64::from_le_bytes(*bench.rig.eq.state.bytes());
    // SAFETY: the queue was not destroyed yet, and only this thread uses its handle.
    unsafe { (*eq).sw_state = c_ee_cfg_eq_sw_state { qw: state } };
    for _ in 0..2 {
        let buffer = bench.rig.buffer(PAGE);
        assert_eq!(bench.resize(&buffer), 0);
        assert_eq!((adjust(all), adjust(-all)), (all, 0));
        assert_eq!(bench.take(), (vec![], true));
        bench.complete(buffer);
        assert_eq!((adjust(all), adjust(-all)), (all, 0));
    }
}

#[test]
fn rejects_invalid_resize_buffers() {
    alone!();
    let rig = Rig::new();
    let eq = rig.eq.handle;
    let buffer = rig.buffer(2 * PAGE);
    let base: *mut c_void = buffer.pages.base.cast();
    let with = |queue, len, md| -call!(cxil_evtq_resize(eq, queue, len, md));
    assert_eq!(resize(null_mut(), &buffer), -EINVAL);
    assert_eq!(with(null_mut(), PAGE, buffer.md), EINVAL);
    assert_eq!(with(base, 0, buffer.md), EINVAL);
    assert_eq!(with(base, PAGE + 64, buffer.md), EINVAL);
    assert_eq!(with(base.wrapping_byte_add(64), PAGE, buffer.md), EINVAL);
    assert_eq!(with(base, 3 * PAGE, buffer.md), EINVAL);
    assert_eq!(with(base, PAGE, null_mut()), EINVAL);
    let pages = Pages::new(PAGE);
    assert_eq!(with(pages.base.cast(), PAGE, buffer.md), EINVAL);
    let another_buffer = Buffer::new(alloc_lni(rig.dev), PAGE, RW);
    assert_eq!(resize(eq, &another_buffer), -EINVAL);
    let another_rig = Rig::on(1);
    assert_eq!(resize(eq, &another_rig.buffer(PAGE)), -EINVAL);
    let complete = |eq| call!(cxil_evtq_resize_complete(eq));
    assert_eq!(complete(null_mut()), -EINVAL);
    assert_eq!(complete(eq), -EINVAL, "it is not moving");
    // A queue can be destroyed during a resize.
    assert_eq!(resize(eq, &buffer), 0);
    assert_eq!(call!(cxil_destroy_evtq(eq)), 0);
    buffer.unmap();
    rig.eq.buffer.unmap();
}

#[test]
fn passthrough_queue_moves_without_mapping() {
    alone!();
    let rig = Rig::new();
    let eq = EventQueue::with(rig.dev, rig.lni, PAGE, |attributes| {
        attributes.flags = CXI_EQ_PASSTHROUGH.into()
    });
    let pages = Pages::new(2 * PAGE);
    let base: *mut c_void = pages.base.cast();
    let to = |queue, len| -call!(cxil_evtq_resize(eq.handle, queue, len, null_mut()));
    assert_eq!(to(base, 2 * PAGE), EINVAL, "more than a contiguous page");
    assert_eq!(to(std::ptr::without_provenance_mut(PAGE), PAGE), EFAULT);
    assert_eq!(to(base, PAGE), 0);
    assert_eq!(call!(cxil_evtq_resize_complete(eq.handle)), 0);
}

#[test]
fn resize_keeps_reserved_slots() {
    alone!();
    let rig = Rig::new();
    for (reserved, code) in [(PAGE / SLOT, -EINVAL), (PAGE / SLOT - 1, 0)] {
        let eq = EventQueue::with(rig.dev, rig.lni, 2 * PAGE, |attributes| {
            attributes.reserved_slots = reserved as u32
        });
        assert_eq!(resize(eq.handle, &rig.buffer(PAGE)), code);
        let adjust = |by| call!(cxil_evtq_adjust_reserved_fc(eq.handle, by));
        assert_eq!(adjust(-(reserved as i32) - 1), -EINVAL);
        assert_eq!(adjust(-(reserved as i32)), 0);
    }
}

/// Each call returns the number of reserved slots (libcxi.md 8.1).
#[test]
fn adjusts_reserved_slots() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    let portal = rig.target_with(0, &sink, |_| {});
    let put = rig.dma_put(&source, 0, 8, |_| {});
    let eq = rig.teq.handle;
    let adjust = |by| answered(call!(cxil_evtq_adjust_reserved_fc(eq, by)));
    assert_eq!(call!(cxil_evtq_adjust_reserved_fc(null_mut(), 1)), -EINVAL);
    let limit = 1 << 14;
    for beyond in [limit, -limit, i32::MAX, i32::MIN] {
        assert_eq!(adjust(beyond), Err(EINVAL));
    }
    assert_eq!(adjust(limit - 1), Err(ENOSPC));
    assert_eq!(adjust(-1), Err(EINVAL), "none is reserved");
    let free = USABLE as i32;
    assert_eq!(adjust(free + 1), Err(ENOSPC));
    assert_eq!(adjust(free - 2), Ok(free as u32 - 2));
    assert_eq!(adjust(2), Ok(free as u32));
    assert_eq!(adjust(1), Err(ENOSPC));
    assert_eq!(adjust(0), Ok(free as u32));
    // No room is left for messages.
    progress(rig.dev);
    assert_eq!(rig.code(&put), C_RC_ENTRY_NOT_FOUND);
    assert_eq!(adjust(-free - 1), Err(EINVAL));
    // The NIC's own events use reserved slots; more slots are released than are free.
    for _ in 0..4 {
        rig.tgt.emit(&set_state(portal.number, C_PTLTE_ENABLED));
    }
    rig.tgt.ring();
    rig.tgt.drain();
    assert_eq!(adjust(-1), Ok(free as u32 - 1));
    for _ in 0..4 {
        assert_eq!(rig.teq.wait().kind(), C_EVENT_STATE_CHANGE);
    }
    assert_eq!(rig.code(&put), C_RC_OK);
    assert_eq!(rig.teq.wait().kind(), C_EVENT_PUT);
    assert_eq!(adjust(1 - free), Ok(0));
    assert_eq!(rig.code(&put), C_RC_OK);
}
