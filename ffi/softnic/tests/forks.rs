//! Child processes made by fork(2): they inherit no NIC, and the parent's goes on.

mod driver;

use std::ptr::null_mut;

use cxi_sys::*;
use driver::alone::{Partner, alone, listen, role, say};
use driver::memory::PAGE;
use driver::queue::options;
use driver::rig::{Rig, address};
use driver::{call, progress};
use libc::EIO;

/// Runs `child` in a child process and answers its number. The child exits 0 if `child` returns.
fn fork(child: impl FnOnce()) -> i32 {
    // SAFETY: the thread of the test is the only one of ours that holds locks.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: no requirements.
        unsafe { libc::_exit(outcome.is_err().into()) };
    }
    pid
}

/// Waits for a child, which must end well.
fn join(pid: i32) {
    let mut status = 0;
    // SAFETY: a child of ours, and a place for the answer.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child failed");
}

#[test]
fn a_child_has_no_part_in_the_devices_of_its_parent() {
    alone(|| {
        let mut rig = Rig::new();
        let source = rig.buffer(PAGE);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let put = rig.dma_put(&source, 0, 3000, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
        // A put that waits to be noticed while the child plays.
        rig.tx.emit(&put);
        rig.tx.ring();
        let child = fork(|| {
            let mut lni = null_mut();
            assert_eq!(call!(cxil_alloc_lni(rig.dev, &mut lni, 1)), -EIO);
            let mut cq = null_mut();
            let code = call!(cxil_alloc_cmdq(rig.lni, null_mut(), &options(), &mut cq));
            assert_eq!(code, -EIO);
            let (mut domain, mut md) = (null_mut(), null_mut());
            let code = call!(cxil_alloc_domain(rig.lni, 1, C_PID_ANY, &mut domain));
            assert_eq!(code, -EIO);
            let va = source.pages.base.cast();
            let flags = driver::memory::RW;
            let code = call!(cxil_map(rig.lni, va, PAGE, flags, null_mut(), &mut md));
            assert_eq!(code, -EIO);
            for code in [
                call!(cxil_destroy_cmdq(rig.tx.handle)),
                call!(cxil_destroy_evtq(rig.eq.handle)),
                call!(cxil_unmap(source.md)),
                call!(cxil_destroy_domain(rig.domain)),
                call!(cxil_destroy_cp(rig.cp)),
                call!(cxil_destroy_lni(rig.lni)),
            ] {
                assert_eq!(code, -EIO);
            }
            progress(rig.dev);
            call!(cxil_close_device(rig.dev));
        });
        join(child);
        assert_eq!(rig.eq.wait().code(), C_RC_OK);
        assert_eq!(rig.eq.poll(), None);
        assert_eq!(rig.code(&put), C_RC_OK);
        let target = rig.portal(32, |_| {});
        assert_eq!(rig.set_state(target, C_PTLTE_ENABLED).code(), C_RC_OK);
    });
}

#[test]
fn a_child_can_open_devices_of_its_own() {
    alone(|| {
        let mut rig = Rig::new();
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        let dfa = rig.dfa(0);
        // Forked at many moments of the parent's engine thread.
        for round in 0..30_u8 {
            let extra = Rig::on(2);
            let child = fork(|| {
                let mut own = Rig::on(1);
                let source = own.buffer(PAGE);
                source.pages.fill(round + 1);
                let put = own.dma_put(&source, 0, 100, |put| {
                    put.set_dfa(dfa);
                });
                assert_eq!(own.code(&put), C_RC_OK);
            });
            join(child);
            assert!(sink.pages.is(0, 100, round + 1), "round {round}");
            drop(extra);
        }
    });
}

#[test]
fn a_living_child_does_not_keep_a_dead_parent_on_the_fabric() {
    alone(|| {
        if role().is_some() {
            let mut rig = Rig::on(1);
            let sink = rig.buffer(PAGE);
            rig.target(0, &sink);
            // The child lives until the input ends, which is when the test drops its partner.
            fork(|| while listen().is_some() {});
            say(&rig.pid.to_string());
            loop {
                std::thread::park();
            }
        }
        let test = "a_living_child_does_not_keep_a_dead_parent_on_the_fabric";
        let mut partner = Partner::start(test, "parent");
        let pid = partner.hear().parse().unwrap();
        let mut rig = Rig::on(0);
        let source = rig.buffer(PAGE);
        let (dfa, _) = address(rig.nid + 1, pid, 0);
        let put = rig.dma_put(&source, 0, 8, |put| {
            put.set_dfa(dfa);
        });
        assert_eq!(rig.code(&put), C_RC_OK);
        partner.kill();
        assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
        assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
    });
}
