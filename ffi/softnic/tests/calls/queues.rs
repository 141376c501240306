//! Command queues in memory of the caller's, and what they have under way (libcxi.md 8.2, nic.md 9.3).

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use cxi_sys::records::CtCmd;
use cxi_sys::*;
use libc::{E2BIG, EFAULT, EINVAL, EOPNOTSUPP};

use crate::driver::alone::alone;
use crate::driver::commands::cq;
use crate::driver::memory::{PAGE, Pages};
use crate::driver::queue::{Queue, options};
use crate::driver::rig::Rig;
use crate::driver::{call, export, progress, wait_for};

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
fn a_queue_in_memory_of_the_callers() {
    alone(|| {
        let mut rig = Rig::new();
        let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
        source.pages.fill(3);
        rig.target(0, &sink);
        // What a queue before this one has left there is no command.
        let pages = Pages::new(2 * PAGE);
        pages.fill(0xff);
        let mut opts = in_memory(pages);
        opts.opts.flags = CXI_CQ_IS_TX;
        opts.opts.lcid = rig.lcid;
        opts.opts.count = 65;
        let mut handle = null_mut();
        let (lni, eq) = (rig.lni, rig.eq.handle);
        assert_eq!(export!(cxil_alloc_buf_cmdq(lni, eq, &opts, &mut handle)), 0);
        // SAFETY: just made.
        let public = unsafe { &*handle };
        // SAFETY: the only member in use.
        let memory = unsafe { public.__bindgen_anon_1.cmds32 };
        assert_eq!(memory.cast(), pages.base);
        assert_eq!(public.size, 128);
        assert!(pages.is(64, 2 * PAGE - 64, 0));
        rig.tx = Queue::over(rig.dev, handle);
        // More than once around.
        for round in 0..300_u32 {
            let put = rig.dma_put(&source, 0, 1 + round, |_| {});
            assert_eq!(rig.code(&put), C_RC_OK);
        }
        assert!(sink.pages.is(0, 300, 3));
        assert_eq!(call!(cxil_destroy_cmdq(handle)), 0);
        // The memory is the caller's again, and still there.
        pages.fill(5);
    });
}

#[test]
fn memory_that_no_queue_can_be_in() {
    alone(|| {
        let rig = Rig::new();
        let pages = Pages::new(PAGE);
        let mut handle = null_mut();
        let mut alloc = |change: &dyn Fn(&mut cxi_cq_alloc_opts_buf)| {
            let mut opts = in_memory(pages);
            change(&mut opts);
            let eq = null_mut();
            -export!(cxil_alloc_buf_cmdq(rig.lni, eq, &opts, &mut handle))
        };
        let inside = pages.base.wrapping_add(64).cast();
        assert_eq!(alloc(&|opts| opts.buf = null_mut()), EINVAL);
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
        let call = |lni, opts, to| -export!(cxil_alloc_buf_cmdq(lni, eq, opts, to));
        assert_eq!(call(null_mut(), &opts, &mut handle), EINVAL);
        assert_eq!(call(lni, std::ptr::null(), &mut handle), EINVAL);
        assert_eq!(call(lni, &opts, null_mut()), EINVAL);
    });
}

fn unanswered(queue: *mut cxi_cq) -> u32 {
    let mut count = 77;
    assert_eq!(export!(cxil_cmdq_ack_counter(queue, &mut count)), 0);
    count
}

#[test]
fn operations_without_an_answer() {
    alone(|| {
        // Puts take so long that they are still under way when the test looks.
        // SAFETY: nothing in this process reads the environment meanwhile.
        unsafe { std::env::set_var("CXIDIAG_LINK", "latency=20ms") };
        let mut rig = Rig::new();
        let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
        rig.target(0, &sink);
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
        let of = |queue, count| -export!(cxil_cmdq_ack_counter(queue, count));
        assert_eq!(of(null_mut(), &mut count), EINVAL);
        assert_eq!(of(rig.tx.handle, null_mut()), EINVAL);
        assert_eq!(
            of(rig.tgt.handle, &mut count),
            EINVAL,
            "commands without answers"
        );
        assert_eq!(count, 77);
    });
}

/// A trigger event of counter `ct` at a threshold, to event queue `eq`.
pub fn trigger(ct: u16, eq: u16, threshold: u64) -> Vec<u8> {
    let mut command = CtCmd::new();
    command
        .set_cmd_type(C_CMD_TYPE_CT as u8)
        .set_cmd_size(1)
        .set_opcode(C_CMD_CT_TRIG_EVENT as u8)
        .set_trig_ct(ct)
        .set_eq(eq)
        .set_threshold(threshold);
    let mut bytes = command.bytes().to_vec();
    bytes.resize(64, 0);
    bytes
}

/// nic.md 9.3: triggered operations issued from the queue that are not complete or cancelled.
#[test]
fn triggered_operations_that_wait() {
    alone(|| {
        let mut rig = Rig::new();
        let queue = || {
            Queue::with(rig.dev, rig.lni, null_mut(), |options| {
                options.flags = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
            })
        };
        let mut queues = [queue(), queue()];
        let mut ct = null_mut();
        assert_eq!(call!(cxil_alloc_ct(rig.lni, null_mut(), &mut ct)), 0);
        // SAFETY: just made.
        let public = unsafe { *ct };
        let (number, doorbell) = (public.ctn as u16, public.doorbell);
        // SAFETY: the first word of the counter's page, alive with it.
        let add = |count| unsafe { AtomicU64::from_ptr(doorbell) }.store(count, Ordering::Release);
        for (thresholds, queue) in [1..4, 2..4].into_iter().zip(&mut queues) {
            for threshold in thresholds {
                queue.emit(&trigger(number, rig.eq.number, threshold));
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
        // One that is gone leaves nothing to the next of its number.
        let [first, second] = queues;
        assert_eq!(call!(cxil_destroy_cmdq(first.handle)), 0);
        let next = queue();
        assert_eq!(unanswered(next.handle), 0);
        assert_eq!(unanswered(second.handle), 1);
        assert_eq!(call!(cxil_destroy_ct(ct)), 0);
        assert_eq!(unanswered(second.handle), 0, "cancelled");
        wait_for("the events of what was cancelled", || {
            rig.eq.poll().filter(|event| event.code() == C_RC_CANCELED)
        });
        rig.tx.emit(&cq(C_CMD_CQ_FENCE, 0));
        rig.tx.ring();
        rig.tx.drain();
    });
}
