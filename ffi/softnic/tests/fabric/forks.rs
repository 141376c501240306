//! Child processes made by fork(2): they inherit no NIC, and the parent's NIC continues to work.

use crate::driver::child::fork;
use crate::driver::prelude::*;

#[test]
fn refuses_child_the_devices_of_its_parent() {
    alone!();
    let (mut rig, source, _) = Rig::with_target();
    let put = rig.dma_put(&source, 0, 3000, |_| {});
    assert_eq!(rig.code(&put), C_RC_OK);
    // The parent's NIC sees this put after the end of the child.
    rig.tx.issue(&put);
    in_child(|| {
        let (mut cq, mut md) = (null_mut(), null_mut());
        let (lni, none) = (rig.lni, null_mut());
        for code in [
            call!(cxil_alloc_lni(rig.dev, &mut null_mut(), 1)),
            call!(cxil_alloc_cmdq(lni, null_mut(), &options(), &mut cq)),
            call!(cxil_alloc_domain(lni, 1, C_PID_ANY, &mut null_mut())),
            call!(cxil_map(lni, source.pages.base.cast(), PAGE, RW, none, &mut md)),
            call!(cxil_destroy_cmdq(rig.tx.handle)),
            call!(cxil_destroy_evtq(rig.eq.handle)),
            call!(cxil_unmap(source.md)),
            call!(cxil_destroy_domain(rig.domain)),
            call!(cxil_destroy_cp(rig.cp)),
            call!(cxil_destroy_lni(lni)),
        ] {
            assert_eq!(code, -EIO);
        }
        progress(rig.dev);
        close(rig.dev);
        true
    });
    assert_eq!(rig.eq.wait().code(), C_RC_OK);
    assert_eq!(rig.eq.poll(), None);
    assert_eq!(rig.code(&put), C_RC_OK);
    rig.enabled(32, |_| {});
}

#[test]
fn child_opens_devices_of_its_own() {
    alone!();
    let (rig, _, sink) = Rig::with_target();
    let dfa = rig.dfa(0);
    // The forks hit the parent's engine threads at different moments.
    for round in 0..30_u8 {
        let _extra = Rig::on(2);
        in_child(|| {
            let mut own = Rig::on(1);
            let source = own.buffer(PAGE);
            source.pages.fill(round + 1);
            own.code(&own.put_to(dfa, &source, 100)) == C_RC_OK
        });
        assert!(sink.pages.is(0, 100, round + 1), "round {round}");
    }
}

#[test]
fn running_child_does_not_keep_killed_parent_on_fabric() {
    alone!();
    if role().is_some() {
        let mut rig = Rig::on(1);
        let sink = rig.buffer(PAGE);
        rig.target(0, &sink);
        // The child ends with its input, when the test drops its partner.
        fork(|| {
            while listen().is_some() {}
            true
        });
        say(&format!("{} {}", rig.nid, rig.pid));
        loop {
            std::thread::park();
        }
    }
    let mut partner = Partner::start("parent");
    let dfa = partner.receive_address();
    let mut rig = Rig::on(0);
    let source = rig.buffer(PAGE);
    let put = rig.put_to(dfa, &source, 8);
    assert_eq!(rig.code(&put), C_RC_OK);
    partner.kill();
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
    assert_eq!(rig.code(&put), C_RC_UNDELIVERABLE);
}
