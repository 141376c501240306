//! The VNIs of a range share PIDs and endpoints (libcxi.md 5, 6).

use crate::desk::*;
use crate::driver::prelude::*;
use crate::driver::target_event::TargetEvent;

/// Changes the VNI of a profile.
fn modify(lni: Lni, cp: *mut cxi_cp, vni: u32) -> Result<u32, i32> {
    answered(call!(cxil_modify_cp(lni, cp, vni)))
}

fn vni_of(cp: *mut cxi_cp) -> u32 {
    // SAFETY: the handle was not destroyed yet.
    let public = unsafe { *cp };
    // SAFETY: the library fills this member.
    unsafe { public.__bindgen_anon_1.vni }
}

#[test]
fn vnis_of_range_share_pids() {
    alone!();
    let (dev, second) = (open(0), open(0));
    let (user, other) = (lni(dev, 2).unwrap(), lni(second, 2).unwrap());
    let mut on_16 = null_mut();
    assert_eq!(call!(cxil_alloc_domain(user, 16, 0, &mut on_16)), 0);
    for lni in [user, other] {
        assert_eq!(domain(lni, 31, 0), Err(EEXIST));
    }
    assert_eq!(domain(other, 20, C_PID_ANY), Ok(1));
    assert_eq!(domain(user, 1, 0), Ok(0), "not of the range");
    assert_eq!(call!(cxil_destroy_domain(on_16)), 0);
    assert_eq!(domain(other, 31, 0), Ok(0));
    // Reservations are for the range too.
    assert_eq!(call!(cxil_reserve_domain(user, 17, 9, 2)), 9);
    assert_eq!(domain(other, 18, 9), Err(EEXIST));
    assert_eq!(domain(user, 18, 9), Ok(9));
    close(dev);
    close(second);
}

/// The table of libcxi.md 3.3: two lists, a list and a range, and two ranges.
#[test]
fn services_may_have_a_vni_in_common_by_release() {
    alone!();
    let listed = |vni| {
        let mut desc = plain(vni);
        limit(&mut desc, CXI_RSRC_TYPE_TLE, 0, 0);
        desc
    };
    let mut ranged = listed(0);
    ranged.set_restricted_vnis(0);
    for (release, expected) in [
        ("12", [Ok(5), Ok(6), Ok(0)]),
        ("13", [Err(EEXIST); 3]),
        ("14", [Err(EEXIST); 3]),
        ("14.0.1", [Ok(5), Err(EEXIST), Err(EEXIST)]),
        ("next", [Ok(5), Err(EEXIST), Err(EEXIST)]),
    ] {
        set("CXIDIAG_SHS", release);
        let Some(dev) = administrator() else { return };
        let range = |id, first, last| answered(call!(cxil_svc_set_vni_range(dev, id, first, last)));
        // Services 2 to 4 have other VNIs: without a common one all releases make the service.
        let lists = alloc(dev, &listed(40));
        lists.map(|id| assert_eq!(destroy(dev, id), Ok(0))).ok();
        assert_eq!(alloc(dev, &ranged), Ok(5), "{release}");
        assert_eq!(range(5, 64, 127), Ok(0), "{release}");
        let beside = alloc(dev, &listed(100));
        beside.map(|id| assert_eq!(destroy(dev, id), Ok(0))).ok();
        assert_eq!(alloc(dev, &ranged), Ok(6), "{release}");
        assert_eq!(range(6, 128, 135), Ok(0), "{release}");
        let ranges = range(6, 72, 79);
        assert_eq!([lists, beside, ranges], expected, "{release}");
        assert_eq!((destroy(dev, 5), destroy(dev, 6)), (Ok(0), Ok(0)), "{release}");
        close(dev);
    }
}

/// Puts 8 bytes to index 0 of a domain, and returns the return code.
fn put(rig: &mut Rig, source: &Buffer, domain: *mut cxil_domain, lcid: u32) -> u32 {
    // SAFETY: the domain is alive.
    let pid = unsafe { (*domain).pid };
    let (dfa, _) = address(rig.nid, pid, 0);
    rig.tx = Queue::transmit(rig.dev, rig.lni, lcid);
    let put = rig.put_to(dfa, source, 8);
    rig.code(&put)
}

#[test]
fn data_reaches_domain_on_other_vni_of_range() {
    alone!();
    let mut rig = Rig::new();
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    let domain = alloc_domain(rig.lni, 16, C_PID_ANY);
    (rig.domain, rig.pid) = (domain, 0);
    rig.target(0, &sink);
    for (vni, code) in [(16, C_RC_OK), (31, C_RC_OK), (24, C_RC_OK), (1, C_RC_PTLTE_NOT_FOUND)] {
        let cp = alloc_cp(rig.lni, vni);
        source.pages.write(0, &[vni as u8]);
        assert_eq!(put(&mut rig, &source, domain, lcid(cp)), code, "{vni}");
        assert_eq!(sink.pages.is(0, 1, vni as u8), code == C_RC_OK, "{vni}");
    }
}

#[test]
fn data_reaches_other_nic_on_other_vni_of_range() {
    alone!();
    let (mut rig, mut target) = (Rig::new(), Rig::on(1));
    let (source, sink) = (rig.buffer(PAGE), target.buffer(PAGE));
    target.domain = alloc_domain(target.lni, 16, 7);
    target.target(0, &sink);
    let cp = alloc_cp(rig.lni, 31);
    rig.tx = Queue::transmit(rig.dev, rig.lni, lcid(cp));
    let (dfa, _) = address(target.nid, 7, 0);
    source.pages.fill(0xa5);
    let command = rig.put_to(dfa, &source, 8);
    rig.tx.issue(&command);
    let code = loop {
        progress(target.dev);
        if let Some(event) = rig.eq.poll() {
            break event.code();
        }
    };
    assert_eq!(code, C_RC_OK);
    assert!(sink.pages.is(0, 8, 0xa5));
}

/// A put to a PID of NIC 1, on which `targets` are open.
fn reaches(rig: &mut Rig, source: &Buffer, targets: [Dev; 2], pid: u32) -> bool {
    let (dfa, _) = address(0x13, pid, 0);
    rig.tx.issue(&rig.put_to(dfa, source, 8));
    let event = wait_for("the ACK", || {
        targets.into_iter().for_each(progress);
        rig.eq.poll()
    });
    rig.eq.acknowledge();
    event.code() == C_RC_OK
}

#[test]
fn data_follows_pid_to_other_process() {
    alone!();
    let mut rig = Rig::on(0);
    let source = rig.buffer(PAGE);
    let (mut first, mut second) = (Rig::on(1), Rig::on(1));
    let targets = [first.dev, second.dev];
    let sink = first.buffer(PAGE);
    let portal = first.target(0, &sink);
    assert!(reaches(&mut rig, &source, targets, first.pid));
    // The first device keeps a PID on the VNI.
    let kept = alloc_domain(first.lni, 1, 9);
    let mut map = null_mut();
    assert_eq!(call!(cxil_map_pte(portal.handle, kept, 0, false, &mut map)), 0);
    assert_eq!(call!(cxil_unmap_pte(portal.map)), 0);
    assert_eq!(call!(cxil_destroy_domain(first.domain)), 0);
    assert!(!reaches(&mut rig, &source, targets, first.pid));
    second.domain = alloc_domain(second.lni, 1, first.pid);
    let sink = second.buffer(PAGE);
    second.target(0, &sink);
    assert!(reaches(&mut rig, &source, targets, first.pid));
    assert!(reaches(&mut rig, &source, targets, 9));
}

#[test]
fn modifies_vni_of_exclusive_profile_inside_range() {
    alone!();
    let Some(dev) = administrator() else { return };
    let shared = lni(dev, 2).unwrap();
    let cp = profile(shared, 16, CXI_TC_BEST_EFFORT).unwrap();
    for vni in [16, 17, 32, 1] {
        assert_eq!(modify(shared, cp, vni), Err(EINVAL), "not exclusive");
    }
    assert_eq!(call!(cxil_destroy_cp(cp)), 0);
    drop_lni(shared);
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 2, true)), 0);
    let (user, other) = (lni(dev, 2).unwrap(), lni(dev, 2).unwrap());
    let cp = profile(user, 16, CXI_TC_BEST_EFFORT).unwrap();
    profile(other, 16, CXI_TC_BEST_EFFORT).unwrap();
    // VNIs outside the range, of another service, of no service, and none.
    for vni in [15, 32, 1, 1000, 0, 65536, 65536 + 17, u32::MAX] {
        assert_eq!(modify(user, cp, vni), Err(EINVAL), "{vni}");
    }
    assert_eq!(modify(null_mut(), cp, 17), Err(EINVAL));
    assert_eq!(modify(user, null_mut(), 17), Err(EINVAL));
    assert_eq!(modify(other, cp, 17), Err(EINVAL), "of another LNI");
    assert_eq!(vni_of(cp), 16);
    for vni in [31, 16] {
        assert_eq!(modify(user, cp, vni), Ok(0));
        assert_eq!(vni_of(cp), vni);
    }
    // The service of the VNI decides, not the LNI's. A list has no other VNIs.
    let cp = profile(user, 1, CXI_TC_BEST_EFFORT).unwrap();
    assert_eq!(modify(user, cp, 1), Err(EINVAL), "not exclusive");
    close(dev);
    let dev = open(0);
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 2, false)), 0);
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 1, true)), 0);
    let user = lni(dev, 2).unwrap();
    let cp = profile(user, 1, CXI_TC_BEST_EFFORT).unwrap();
    assert_eq!(modify(user, cp, 10), Err(EINVAL));
    assert_eq!(modify(user, cp, 1), Ok(0));
    close(dev);
    let dev = open(0);
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 1, false)), 0);
    close(dev);
}

#[test]
fn modified_profile_sends_on_its_vni() {
    alone!();
    let Some(dev) = administrator() else { return };
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 2, true)), 0);
    let (mut rig, source, _sink) = Rig::with_target();
    let cp = alloc_cp(rig.lni, 16);
    rig.tx = Queue::transmit(rig.dev, rig.lni, lcid(cp));
    let sink = rig.buffer(PAGE);
    rig.domain = alloc_domain(rig.lni, 24, 3);
    let portal = rig.enabled(0, |options| options.set_use_long_event(1));
    let link = rig.append(portal, |entry| whole(entry, &sink));
    assert_eq!(link.code(), C_RC_OK);
    let (dfa, _) = address(rig.nid, 3, 0);
    let put = rig.put_to(dfa, &source, 8);
    for vni in [16, 31] {
        assert_eq!(modify(rig.lni, cp, vni), Ok(0));
        assert_eq!(rig.code(&put), C_RC_OK);
        let event = TargetEvent::of(&rig.teq.wait());
        assert_eq!((event.code, u32::from(event.vni)), (C_RC_OK, vni));
    }
    drop(rig);
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 2, false)), 0);
    close(dev);
}
