//! Emitting, committing and polling allocate no memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use cxi::records::{CStateCmd, IdcHdr, NomatchDmaCmd};
use cxi::sys::{C_EVENT_ACK, C_EVENT_TRIGGERED_OP};

use crate::{api, hardware};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: `System` implements the allocator; counting does not change its results.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller passes a layout of nonzero size, as `GlobalAlloc::alloc` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller passes a block that `alloc` returned for this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[test]
fn allocates_nothing_while_counting() {
    let mut bench = crate::counting::bench();
    let before = ALLOCATIONS.get();
    for round in 0..3 {
        let mut batch = bench.trigger.batch();
        batch.emit_trigger_event(&bench.counter, round).unwrap();
        batch.commit_doorbell();
        api::deliver(C_EVENT_TRIGGERED_OP);
        let event = bench.world.events.poll().unwrap();
        let _ = (event.event_type(), event.return_code(), event.record());
        bench.world.events.acknowledge();
        bench.counter.add_success(1);
        let _ = bench.counter.written_back();
    }
    assert_eq!(ALLOCATIONS.get(), before);
}

#[test]
fn allocates_nothing_in_timed_path() {
    let mut world = hardware();
    let mut put = NomatchDmaCmd::new();
    put.set_event_send_disable(true);
    put.set_eq(world.events.number());
    let mut c_state = CStateCmd::new();
    c_state.set_restricted(true);

    let before = ALLOCATIONS.get();
    let mut batch = world.transmit.batch();
    batch.emit_c_state(&c_state).unwrap();
    batch.emit_idc_put(&IdcHdr::new(), &[7; 224]).unwrap();
    batch.commit_doorbell();
    let mut batch = world.transmit.batch();
    batch.emit_nomatch_dma(&put).unwrap();
    batch.commit_low_latency();
    api::deliver(C_EVENT_ACK);
    let event = world.events.poll().unwrap();
    let _ = (event.event_type(), event.return_code(), event.record());
    world.events.acknowledge();
    assert!(world.events.poll().is_none());
    let _ = cxi::clock::now_ns();
    assert_eq!(ALLOCATIONS.get(), before);
    drop(Box::new(1));
    assert!(ALLOCATIONS.get() > before, "the allocator counts");
}
