//! Wait objects: programs sleep in poll(2) until an event (libcxi.md 8.1, nic.md 5.4).

use crate::driver::prelude::*;

/// Limit of a sleep in milliseconds.
const PATIENCE: i32 = 30_000;

/// The wait object of a rig's event queue, the rig, and a put.
fn rig_that_wakes() -> (*mut cxil_wait_obj, Rig, Vec<u8>) {
    let mut wait = null_mut();
    let (rig, put) = rig(|lni| {
        wait = alloc(lni);
        [wait, null_mut()]
    });
    (wait, rig, put)
}

fn alloc(lni: *mut cxil_lni) -> *mut cxil_wait_obj {
    let mut wait = null_mut();
    assert_eq!(call!(cxil_alloc_wait_obj(lni, &mut wait)), 0);
    wait
}

fn descriptor(wait: *mut cxil_wait_obj) -> i32 {
    let descriptor = call!(cxil_get_wait_obj_fd(wait));
    assert!(descriptor >= 0);
    descriptor
}

fn clear(wait: *mut cxil_wait_obj) {
    call!(cxil_clear_wait_obj(wait));
}

/// The result of poll(2) on a wait object.
fn poll(wait: *mut cxil_wait_obj, timeout: i32) -> i16 {
    let mut polled =
        libc::pollfd { fd: descriptor(wait), events: libc::POLLPRI | libc::POLLIN, revents: 0 };
    // SAFETY: `polled` is one descriptor and lives through the call.
    let count = unsafe { libc::poll(&mut polled, 1, timeout) };
    assert_eq!(count != 0, polled.revents != 0);
    polled.revents
}

fn is_ready(wait: *mut cxil_wait_obj) -> bool {
    poll(wait, 0) != 0
}

/// A rig whose initiator's queue signals the first wait object for events, the second for its
/// status.
fn rig(waits: impl FnOnce(*mut cxil_lni) -> [*mut cxil_wait_obj; 2]) -> (Rig, Vec<u8>) {
    let mut rig = Rig::new();
    let waits = waits(rig.lni);
    rig.eq = EventQueue::waited_for(rig.dev, rig.lni, PAGE, |_| {}, waits);
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    rig.target(0, &sink);
    let put = rig.dma_put(&source, 0, 8, |_| {});
    (rig, put)
}

/// Runs the NIC until it has seen all stores.
fn settle(rig: &Rig) {
    for _ in 0..4 {
        progress(rig.dev);
    }
}

#[test]
fn wakes_program_at_event() {
    alone!();
    let (wait, mut rig, put) = rig_that_wakes();
    for _ in 0..20 {
        assert!(!is_ready(wait));
        rig.tx.write_and_ring(&put);
        // The engine thread does the work.
        assert_ne!(poll(wait, PATIENCE) & libc::POLLPRI, 0);
        assert!(is_ready(wait), "until it is cleared");
        clear(wait);
        assert!(!is_ready(wait));
        assert_eq!(rig.eq.take().unwrap().kind(), C_EVENT_ACK);
        rig.eq.acknowledge();
        settle(&rig);
        assert!(!is_ready(wait), "what was read is no reason to wake");
    }
}

#[test]
fn disabled_interrupts_wake_no_program() {
    alone!();
    let (wait, mut rig, put) = rig_that_wakes();
    rig.eq.state.set_event_int_disable(true);
    rig.eq.acknowledge();
    assert_eq!(rig.code(&put), C_RC_OK);
    settle(&rig);
    assert!(!is_ready(wait));
    // Enables interrupts without, then with an unread event.
    rig.eq.state.set_event_int_disable(false);
    rig.eq.acknowledge();
    settle(&rig);
    assert!(!is_ready(wait));
    rig.eq.state.set_event_int_disable(true);
    rig.eq.store_state();
    rig.tx.issue(&put);
    rig.tx.drain();
    wait_for("an event", || {
        progress(rig.dev);
        rig.eq.has_more().then_some(())
    });
    assert!(!is_ready(wait));
    rig.eq.state.set_event_int_disable(false);
    rig.eq.store_state();
    assert_ne!(poll(wait, PATIENCE), 0);
}

#[test]
fn resized_queue_wakes_program() {
    alone!();
    let (wait, mut rig, put) = rig_that_wakes();
    rig.eq.state.set_event_int_disable(true);
    rig.eq.store_state();
    let buffer = rig.buffer(PAGE);
    assert_eq!(resize(rig.eq.handle, &buffer), 0);
    settle(&rig);
    assert!(!is_ready(wait));
    rig.eq.state.set_event_int_disable(false);
    rig.eq.store_state();
    assert_ne!(poll(wait, PATIENCE), 0, "EQ_SWITCH is unread");
    clear(wait);
    assert_eq!(rig.eq.take().unwrap().kind(), C_EVENT_EQ_SWITCH);
    assert_eq!(call!(cxil_evtq_resize_complete(rig.eq.handle)), 0);
    rig.eq.go_over(buffer);
    rig.eq.acknowledge();
    settle(&rig);
    assert!(!is_ready(wait));
    rig.tx.write_and_ring(&put);
    assert_ne!(poll(wait, PATIENCE), 0);
    clear(wait);
    assert_eq!(rig.eq.take().unwrap().kind(), C_EVENT_ACK);
    // With interrupts enabled, a resize wakes at once.
    rig.eq.acknowledge();
    settle(&rig);
    assert!(!is_ready(wait));
    let buffer = rig.buffer(PAGE);
    assert_eq!(resize(rig.eq.handle, &buffer), 0);
    assert!(is_ready(wait));
}

#[test]
fn signals_status_on_separate_wait_object() {
    alone!();
    let mut waits = [null_mut(); 2];
    let (mut rig, put) = rig(|lni| {
        waits = [alloc(lni), alloc(lni)];
        waits
    });
    let fill = |rig: &mut Rig| {
        while !rig.eq.status().unackd_dropped_event() {
            rig.tx.issue(&put);
            progress(rig.dev);
        }
        rig.tx.drain();
    };
    let [events, status] = waits;
    assert_eq!(rig.code(&put), C_RC_OK);
    assert!(is_ready(events) && !is_ready(status));
    clear(events);
    fill(&mut rig);
    assert!(is_ready(status), "an event was dropped");
    clear(status);
    assert!(!is_ready(status) && is_ready(events));
    // Acknowledges the drop, and drops again with status interrupts disabled.
    while rig.eq.take().is_some() {}
    rig.eq.clear_dropped();
    let sequence = rig.eq.status().event_drop_seq_no();
    rig.eq.state.set_event_drop_seq_no(sequence);
    rig.eq.state.set_eq_sts_int_disable(true);
    rig.eq.acknowledge();
    fill(&mut rig);
    assert!(!is_ready(status));
}

#[test]
fn wait_object_serves_several_queues() {
    alone!();
    let rig = Rig::new();
    let wait = alloc(rig.lni);
    let queue = || EventQueue::waited_for(rig.dev, rig.lni, PAGE, |_| {}, [wait; 2]);
    let queues = [queue(), queue()];
    for eq in &queues {
        let buffer = rig.buffer(PAGE);
        assert_eq!(resize(eq.handle, &buffer), 0);
        assert!(is_ready(wait));
        clear(wait);
    }
    assert_eq!(call!(cxil_destroy_wait_obj(wait)), -EBUSY);
    assert_eq!(call!(cxil_destroy_evtq(queues[0].handle)), 0);
    assert_eq!(call!(cxil_destroy_wait_obj(wait)), -EBUSY);
    assert_eq!(call!(cxil_destroy_evtq(queues[1].handle)), 0);
    let number = descriptor(wait);
    assert_eq!(call!(cxil_destroy_wait_obj(wait)), 0);
    // SAFETY: the call only reads the flags of a descriptor number.
    assert_eq!(unsafe { libc::fcntl(number, libc::F_GETFD) }, -1);
}

#[test]
fn rejects_invalid_wait_object_arguments() {
    alone!();
    let rig = Rig::new();
    let mut wait = null_mut();
    assert_eq!(call!(cxil_alloc_wait_obj(null_mut(), &mut wait)), -EINVAL);
    assert_eq!(call!(cxil_alloc_wait_obj(rig.lni, null_mut())), -EINVAL);
    assert_eq!(call!(cxil_destroy_wait_obj(null_mut())), -EINVAL);
    assert_eq!(call!(cxil_get_wait_obj_fd(null_mut())), -EINVAL);
    clear(null_mut());
    let lni = alloc_lni(rig.dev);
    let wait = alloc(lni);
    // SAFETY: the call only reads the flags of a descriptor.
    let flags = unsafe { libc::fcntl(descriptor(wait), libc::F_GETFD) };
    assert_eq!(flags, libc::FD_CLOEXEC);
    // The wait object belongs to another LNI than the queue.
    let buffer = rig.buffer(PAGE);
    let attributes = attributes(buffer.pages.base.cast(), PAGE);
    for [event, status] in [[wait, null_mut()], [null_mut(), wait]] {
        let mut eq = null_mut();
        let (lni, md) = (rig.lni, buffer.md);
        let code = call!(cxil_alloc_evtq(lni, md, &attributes, event, status, &mut eq));
        assert_eq!(code, -EINVAL);
    }
    assert_eq!(call!(cxil_destroy_lni(lni)), -EBUSY);
    assert_eq!(call!(cxil_destroy_wait_obj(wait)), 0);
    assert_eq!(call!(cxil_destroy_lni(lni)), 0);
}

#[test]
fn child_cannot_clear_wait_object_of_parent() {
    alone!();
    let (wait, mut rig, put) = rig_that_wakes();
    rig.tx.write_and_ring(&put);
    assert_ne!(poll(wait, PATIENCE), 0);
    in_child(|| {
        clear(wait);
        call!(cxil_get_wait_obj_fd(wait)) == -EIO && call!(cxil_destroy_wait_obj(wait)) == -EIO
    });
    assert!(is_ready(wait));
    clear(wait);
    assert!(!is_ready(wait));
}
