//! Command queues in the caller's memory, and their operations under way (libcxi.md 8.2, nic.md
//! 9.3).

use crate::driver::prelude::*;

fn in_memory(pages: Pages) -> cxi_cq_alloc_opts_buf {
    cxi_cq_alloc_opts_buf {
        opts: options(),
        buf: pages.base.cast(),
        is_host_mem: true,
        dmabuf_fd: -1,
        dmabuf_offset: 0,
    }
}

#[test]
fn runs_queue_in_caller_memory() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    source.pages.fill(3);
    rig.target(0, &sink);
    // Bytes of an earlier queue are not commands.
    let pages = Pages::new(2 * PAGE);
    pages.fill(0xff);
    let mut opts = in_memory(pages);
    opts.opts.flags = CXI_CQ_IS_TX;
    opts.opts.lcid = rig.lcid;
    opts.opts.count = 65;
    let mut handle = null_mut();
    let (lni, eq) = (rig.lni, rig.eq.handle);
    assert_eq!(call!(cxil_alloc_buf_cmdq(lni, eq, &opts, &mut handle)), 0);
    // SAFETY: libcxi has just returned the handle.
    let public = unsafe { &*handle };
    // SAFETY: the library fills this member.
    let memory = unsafe { public.__bindgen_anon_1.cmds32 };
    assert_eq!(memory.cast(), pages.base);
    assert_eq!(public.size, 128);
    assert!(pages.is(64, 2 * PAGE - 64, 0));
    rig.tx = Queue::over(rig.dev, handle);
    // More commands than the ring holds.
    for round in 0..300_u32 {
        let put = rig.dma_put(&source, 0, 1 + round, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
    }
    assert!(sink.pages.is(0, 300, 3));
    assert_eq!(call!(cxil_destroy_cmdq(handle)), 0);
    // The caller's memory is not unmapped.
    pages.fill(5);
}

#[test]
fn allocates_memory_for_queue_without_buffer() {
    alone!();
    let rig = Rig::new();
    let mut opts = in_memory(Pages::new(PAGE));
    opts.buf = null_mut();
    // Not looked at without a buffer.
    opts.is_host_mem = false;
    let mut handle = null_mut();
    let eq = null_mut();
    assert_eq!(call!(cxil_alloc_buf_cmdq(rig.lni, eq, &opts, &mut handle)), 0);
    // SAFETY: the call has made the queue.
    assert!(unsafe { (*handle).size } >= opts.opts.count);
    assert_eq!(call!(cxil_destroy_cmdq(handle)), 0);
}

#[test]
fn rejects_unusable_queue_memory() {
    alone!();
    let rig = Rig::new();
    let pages = Pages::new(PAGE);
    let mut handle = null_mut();
    let mut alloc = |change: &dyn Fn(&mut cxi_cq_alloc_opts_buf)| {
        let mut opts = in_memory(pages);
        change(&mut opts);
        let eq = null_mut();
        -call!(cxil_alloc_buf_cmdq(rig.lni, eq, &opts, &mut handle))
    };
    let inside = pages.base.wrapping_add(64).cast();
    assert_eq!(alloc(&|opts| opts.buf = inside), EINVAL);
    assert_eq!(alloc(&|opts| opts.is_host_mem = false), EOPNOTSUPP);
    assert_eq!(alloc(&|opts| opts.opts.count = 65537), E2BIG);
    assert_eq!(alloc(&|opts| opts.opts.policy = 4), EINVAL);
    let nowhere = std::ptr::without_provenance_mut(PAGE);
    assert_eq!(alloc(&|opts| opts.buf = nowhere), EFAULT);
    // SAFETY: the test's own page.
    let code = unsafe { libc::mprotect(pages.base.cast(), PAGE, libc::PROT_READ) };
    assert_eq!(code, 0);
    assert_eq!(alloc(&|_| {}), EFAULT);
    let (lni, eq, opts) = (rig.lni, null_mut(), in_memory(pages));
    let call = |lni, opts, to| -call!(cxil_alloc_buf_cmdq(lni, eq, opts, to));
    assert_eq!(call(null_mut(), &opts, &mut handle), EINVAL);
    assert_eq!(call(lni, std::ptr::null(), &mut handle), EINVAL);
    assert_eq!(call(lni, &opts, null_mut()), EINVAL);
}

fn unanswered(queue: *mut cxi_cq) -> u32 {
    let mut count = 77;
    assert_eq!(call!(cxil_cmdq_ack_counter(queue, &mut count)), 0);
    count
}

#[test]
fn counts_unanswered_operations() {
    alone!();
    // The puts are under way while the test counts them.
    // SAFETY: nothing in this process reads the environment meanwhile.
    unsafe { std::env::set_var("CXIDIAG_LINK", "latency=20ms") };
    let (mut rig, source, _) = Rig::with_target();
    assert_eq!(unanswered(rig.tx.handle), 0);
    let put = rig.dma_put(&source, 0, 8, |_| {});
    for _ in 0..3 {
        rig.tx.emit(&put);
    }
    rig.tx.ring();
    progress(rig.dev);
    assert_eq!(unanswered(rig.tx.handle), 3);
    for _ in 0..3 {
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
    }
    assert_eq!(unanswered(rig.tx.handle), 0);
    let mut count = 77;
    let value_for = |queue, count| -call!(cxil_cmdq_ack_counter(queue, count));
    assert_eq!(value_for(null_mut(), &mut count), EINVAL);
    assert_eq!(value_for(rig.tx.handle, null_mut()), EINVAL);
    assert_eq!(count, 77);
    // The commands of target queues have no responses, also before they are executed.
    rig.tgt.write_and_ring(&append(0, |_| {}));
    assert_eq!(unanswered(rig.tgt.handle), 0);
}

/// nic.md 9.3: triggered operations issued from the queue that are not complete or cancelled.
#[test]
fn counts_waiting_triggered_operations() {
    alone!();
    let mut rig = Rig::new();
    let queue = || Queue::trigger(rig.dev, rig.lni, null_mut());
    let mut queues = [queue(), queue()];
    let counter = Counter::new(rig.lni);
    let number = counter.number;
    let add = |count| counter.ring(0, count);
    for (thresholds, queue) in [1..4, 2..4].into_iter().zip(&mut queues) {
        for threshold in thresholds {
            queue.emit(&trig_event(number, rig.eq.number, threshold));
        }
        queue.ring();
        queue.drain();
    }
    let counts = || queues.each_ref().map(|queue| unanswered(queue.handle));
    assert_eq!(counts(), [3, 2]);
    add(1);
    assert_eq!(rig.eq.wait().kind(), C_EVENT_TRIGGERED_OP);
    assert_eq!(counts(), [2, 2]);
    add(1);
    for _ in 0..2 {
        assert_eq!(rig.eq.wait().kind(), C_EVENT_TRIGGERED_OP);
    }
    assert_eq!(counts(), [1, 1]);
    // A new queue with the number of a destroyed one starts at zero.
    let [first, second] = queues;
    assert_eq!(call!(cxil_destroy_cmdq(first.handle)), 0);
    let next = queue();
    assert_eq!(unanswered(next.handle), 0);
    assert_eq!(unanswered(second.handle), 1);
    counter.destroy();
    assert_eq!(unanswered(second.handle), 0, "cancelled");
    wait_for("the events of what was cancelled", || {
        rig.eq.poll().filter(|event| event.code() == C_RC_CANCELED)
    });
    rig.tx.issue(&cq(C_CMD_CQ_FENCE, 0));
    rig.tx.drain();
}
