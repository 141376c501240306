//! Event queues that move to other buffers, and their reserved slots (nic.md 5.6, 5.8).

use std::ffi::c_void;
use std::ptr::null_mut;

use cxi_sys::records::EqSwState;
use cxi_sys::*;
use libc::{EBUSY, EFAULT, EINVAL, ENOSPC};

use crate::driver::alone::alone;
use crate::driver::commands::{cq, set_state};
use crate::driver::event_queue::{EventQueue, SLOT};
use crate::driver::memory::{Buffer, PAGE, Pages, RW};
use crate::driver::rig::{Rig, alloc_lni};
use crate::driver::{call, export, progress};

/// Slots of a page that events can fill.
const USABLE: usize = PAGE / SLOT - 2;

/// Events of 16 bytes in a slot.
const PACKED: usize = 4;

/// An initiator whose ACKs are what the queue is filled with.
struct Bench {
    rig: Rig,
    source: Buffer,
    /// How many puts there were.
    count: u64,
}

impl Bench {
    fn new() -> Self {
        let mut rig = Rig::new();
        let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
        rig.target(0, &sink);
        let count = 0;
        Self { rig, source, count }
    }

    /// Puts of which the `n`th has the user pointer `n`, all complete.
    fn put(&mut self, count: usize) {
        for _ in 0..count {
            self.count += 1;
            let put = self.rig.dma_put(&self.source, 0, 8, |put| {
                put.set_user_ptr(self.count);
            });
            self.rig.tx.emit(&put);
            self.rig.tx.ring();
        }
        self.rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
        self.rig.tx.ring();
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
            found.push(u64::from_le_bytes(
                event.bytes::<16>()[..8].try_into().unwrap(),
            ));
        }
        (found, false)
    }

    fn resize(&self, buffer: &Buffer) -> i32 {
        resize(self.rig.eq.handle, buffer)
    }

    fn complete(&mut self, buffer: Buffer) {
        // The helpers of a program have left their cursors anywhere.
        // SAFETY: alive, and used by this thread alone.
        let public = unsafe { &mut *self.rig.eq.handle };
        public.rd_offset = 640;
        public.prev_rd_offset = 640;
        assert_eq!(export!(cxil_evtq_resize_complete(self.rig.eq.handle)), 0);
        self.rig.eq.go_over(buffer);
    }
}

fn resize(eq: *mut cxi_eq, buffer: &Buffer) -> i32 {
    let (base, len) = (buffer.pages.base.cast(), buffer.pages.len);
    export!(cxil_evtq_resize(eq, base, len, buffer.md))
}

#[test]
fn a_queue_moves_and_goes_on() {
    alone(|| {
        let mut bench = Bench::new();
        let buffers = [3, 1, 2].map(|pages| bench.rig.buffer(pages * PAGE));
        let mut last = bench.rig.eq.buffer;
        for (round, buffer) in buffers.into_iter().enumerate() {
            // More than once round the ring that is left.
            for _ in 0..3 {
                bench.put(USABLE * 2);
                let (found, switch) = bench.take();
                assert_eq!((found.len(), switch), (USABLE * 2, false));
                bench.rig.eq.acknowledge();
            }
            bench.put(3);
            // What was in the buffer before is no event.
            buffer.pages.fill(0xff);
            assert_eq!(bench.resize(&buffer), 0);
            bench.put(2);
            assert_eq!(
                bench.resize(&bench.rig.buffer(PAGE)),
                -EBUSY,
                "one is under way"
            );
            let ends = bench.count;
            assert_eq!(bench.take(), (vec![ends - 4, ends - 3, ends - 2], true));
            bench.rig.eq.acknowledge();
            for held in [last.md, buffer.md] {
                assert_eq!(call!(cxil_unmap(held)), -EBUSY);
            }
            bench.complete(buffer);
            assert_eq!(call!(cxil_unmap(last.md)), 0);
            assert_eq!(call!(cxil_unmap(buffer.md)), -EBUSY);
            last = buffer;
            // SAFETY: alive.
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
        assert_eq!(call!(cxil_unmap(last.md)), 0);
    });
}

#[test]
fn a_full_queue_still_has_room_for_the_switch() {
    alone(|| {
        for beyond in [0, 1, 5] {
            let mut bench = Bench::new();
            let room = USABLE * PACKED;
            bench.put(room + beyond);
            assert_eq!(bench.rig.eq.status().unackd_dropped_event(), beyond > 0);
            let buffer = bench.rig.buffer(PAGE);
            assert_eq!(bench.resize(&buffer), 0);
            // The other buffer fills while this one is not read, and overflows too.
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
    });
}

#[test]
fn the_switch_also_fits_into_a_slot_begun() {
    alone(|| {
        for begun in 1..PACKED {
            let mut bench = Bench::new();
            bench.put(begun);
            let buffer = bench.rig.buffer(PAGE);
            assert_eq!(bench.resize(&buffer), 0);
            let found = bench.take();
            assert_eq!(found, ((1..=begun as u64).collect(), true));
        }
    });
}

/// What the register says of the buffer before the last is no news of the one in use.
#[test]
fn two_moves_without_an_acknowledgement() {
    alone(|| {
        let mut bench = Bench::new();
        bench.put(5 * PACKED);
        bench.take();
        bench.rig.eq.acknowledge();
        // All of a buffer is free from the beginning, also before software has come there.
        let all = USABLE as i32;
        let eq = bench.rig.eq.handle;
        let adjust = move |by| export!(cxil_evtq_adjust_reserved_fc(eq, by));
        // The NIC sees how far software has come, and so does the copy of the state that the helpers keep.
        assert_eq!(adjust(0), 0);
        let state = u64::from_le_bytes(*bench.rig.eq.state.bytes());
        // SAFETY: alive, and used by this thread alone.
        unsafe { (*eq).sw_state = c_ee_cfg_eq_sw_state { qw: state } };
        for _ in 0..2 {
            let buffer = bench.rig.buffer(PAGE);
            assert_eq!(bench.resize(&buffer), 0);
            assert_eq!((adjust(all), adjust(-all)), (0, 0));
            assert_eq!(bench.take(), (vec![], true));
            bench.complete(buffer);
            assert_eq!((adjust(all), adjust(-all)), (0, 0));
        }
    });
}

#[test]
fn what_no_queue_can_move_to() {
    alone(|| {
        let rig = Rig::new();
        let eq = rig.eq.handle;
        let buffer = rig.buffer(2 * PAGE);
        let base: *mut c_void = buffer.pages.base.cast();
        let with = |queue, len, md| -export!(cxil_evtq_resize(eq, queue, len, md));
        assert_eq!(resize(null_mut(), &buffer), -EINVAL);
        assert_eq!(with(null_mut(), PAGE, buffer.md), EINVAL);
        assert_eq!(with(base, 0, buffer.md), EINVAL);
        assert_eq!(with(base, PAGE + 64, buffer.md), EINVAL);
        assert_eq!(with(base.wrapping_byte_add(64), PAGE, buffer.md), EINVAL);
        assert_eq!(with(base, 3 * PAGE, buffer.md), EINVAL);
        assert_eq!(with(base, PAGE, null_mut()), EINVAL);
        let pages = Pages::new(PAGE);
        assert_eq!(with(pages.base.cast(), PAGE, buffer.md), EINVAL);
        let read_only = Buffer::over(rig.lni, pages, CXI_MAP_PIN | CXI_MAP_READ);
        assert_eq!(resize(eq, &read_only), -EINVAL);
        let of_another = Buffer::new(alloc_lni(rig.dev), PAGE, RW);
        assert_eq!(resize(eq, &of_another), -EINVAL);
        let of_another = Rig::on(1);
        assert_eq!(resize(eq, &of_another.buffer(PAGE)), -EINVAL);
        let complete = |eq| export!(cxil_evtq_resize_complete(eq));
        assert_eq!(complete(null_mut()), -EINVAL);
        assert_eq!(complete(eq), -EINVAL, "it is not moving");
        // It has not been harmed, and goes with a move under way.
        assert_eq!(resize(eq, &buffer), 0);
        assert_eq!(call!(cxil_destroy_evtq(eq)), 0);
        assert_eq!(call!(cxil_unmap(buffer.md)), 0);
        assert_eq!(call!(cxil_unmap(rig.eq.buffer.md)), 0);
    });
}

#[test]
fn passthrough_queues_move_without_a_mapping() {
    alone(|| {
        let rig = Rig::new();
        let eq = EventQueue::with(rig.dev, rig.lni, PAGE, |attributes| {
            attributes.flags = CXI_EQ_PASSTHROUGH.into();
        });
        let pages = Pages::new(2 * PAGE);
        let base: *mut c_void = pages.base.cast();
        let to = |queue, len| -export!(cxil_evtq_resize(eq.handle, queue, len, null_mut()));
        assert_eq!(to(base, 2 * PAGE), EINVAL, "more than a contiguous page");
        assert_eq!(to(std::ptr::without_provenance_mut(PAGE), PAGE), EFAULT);
        assert_eq!(to(base, PAGE), 0);
        assert_eq!(export!(cxil_evtq_resize_complete(eq.handle)), 0);
    });
}

#[test]
fn a_queue_takes_its_reserved_slots_along() {
    alone(|| {
        let rig = Rig::new();
        for (reserved, code) in [(PAGE / SLOT, -EINVAL), (PAGE / SLOT - 1, 0)] {
            let eq = EventQueue::with(rig.dev, rig.lni, 2 * PAGE, |attributes| {
                attributes.reserved_slots = reserved as u32;
            });
            assert_eq!(resize(eq.handle, &rig.buffer(PAGE)), code);
            let adjust = |by| export!(cxil_evtq_adjust_reserved_fc(eq.handle, by));
            assert_eq!(adjust(-(reserved as i32) - 1), -EINVAL);
            assert_eq!(adjust(-(reserved as i32)), 0);
        }
    });
}

#[test]
fn reserved_slots_are_adjusted() {
    alone(|| {
        let mut rig = Rig::new();
        let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
        let portal = rig.target_with(0, &sink, |_| {});
        let put = rig.dma_put(&source, 0, 8, |_| {});
        let eq = rig.teq.handle;
        let adjust = |by| -export!(cxil_evtq_adjust_reserved_fc(eq, by));
        assert_eq!(
            export!(cxil_evtq_adjust_reserved_fc(null_mut(), 1)),
            -EINVAL
        );
        let limit = 1 << 14;
        for beyond in [limit, -limit, i32::MAX, i32::MIN] {
            assert_eq!(adjust(beyond), EINVAL);
        }
        assert_eq!(adjust(limit - 1), ENOSPC);
        assert_eq!(adjust(-1), EINVAL, "none is reserved");
        let free = USABLE as i32;
        assert_eq!(adjust(free + 1), ENOSPC);
        assert_eq!(adjust(free), 0);
        assert_eq!(adjust(1), ENOSPC);
        assert_eq!(adjust(0), 0);
        // Nothing is left for messages; whoever wants to tell of one is refused.
        progress(rig.dev);
        assert_eq!(rig.code(&put), C_RC_ENTRY_NOT_FOUND);
        assert_eq!(adjust(-free - 1), EINVAL);
        // The NIC's own events go on, into what is reserved; and more is given back than is free.
        for _ in 0..4 {
            rig.tgt.emit(&set_state(portal.number, C_PTLTE_ENABLED));
        }
        rig.tgt.ring();
        rig.tgt.drain();
        assert_eq!(adjust(-1), 0);
        for _ in 0..4 {
            assert_eq!(rig.teq.wait().kind(), C_EVENT_STATE_CHANGE);
        }
        assert_eq!(rig.code(&put), C_RC_OK);
        assert_eq!(rig.teq.wait().kind(), C_EVENT_PUT);
        assert_eq!(adjust(1 - free), 0);
        assert_eq!(rig.code(&put), C_RC_OK);
    });
}
