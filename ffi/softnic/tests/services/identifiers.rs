//! RGIDs, profiles, LCIDs, VNIs and PIDs: the limits of the NIC for all users, and how LNIs and
//! ranges share them (libcxi.md 4 to 6, 11).

use crate::desk::*;
use crate::driver::prelude::*;

#[test]
fn limits_rgids_of_nic_to_255() {
    alone!();
    let devices = [open(0), open(0)];
    let lnis: Vec<Lni> = (0..255).map(|nth| alloc_lni(devices[nth % 2])).collect();
    for dev in devices {
        assert_eq!(lni(dev, 1).err(), Some(ENOSPC));
        assert_eq!(lni(dev, 2).err(), Some(ENOSPC), "of another service");
    }
    let elsewhere = open(1);
    alloc_lni(elsewhere);
    drop_lni(lnis[7]);
    drop_lni(lni(devices[0], 2).unwrap());
    close(devices[1]);
    for _ in 0..127 {
        alloc_lni(devices[0]);
    }
    close(devices[0]);
    close(elsewhere);
}

#[test]
fn shares_rgid_between_lnis() {
    alone!();
    let Some(dev) = administrator() else { return };
    assert_eq!(alloc(dev, &plain(70)), Ok(5));
    assert_eq!(call!(cxil_set_svc_lpr(dev, 5, 3)), 0);
    assert_eq!(call!(cxil_get_svc_lpr(dev, 5)), 3);
    let second = open(0);
    for nth in 0..253 {
        alloc_lni([dev, second][nth % 2]);
    }
    // Two RGIDs are left, each for three LNIs.
    let lnis: Vec<Lni> = (0..4).map(|_| lni(dev, 5).unwrap()).collect();
    assert_eq!(lni(dev, 1).err(), Some(ENOSPC));
    let more = [0; 2].map(|_| lni(second, 5).unwrap());
    assert_eq!(lni(second, 5).err(), Some(ENOSPC));
    // An RGID is free again after its last LNI.
    drop_lni(lnis[3]);
    drop_lni(more[0]);
    assert_eq!(lni(dev, 1).err(), Some(ENOSPC));
    drop_lni(more[1]);
    let other = alloc_lni(dev);
    assert_eq!(lni(dev, 5).err(), Some(ENOSPC));
    drop_lni(other);
    lnis[..3].iter().for_each(|lni| drop_lni(*lni));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
    close(second);
}

#[test]
fn limits_profiles_of_nic_to_255() {
    alone!();
    let devices = [open(0), open(0)];
    // Sixteen for each of sixteen LNIs, except for the last.
    let mut last = Err(0);
    let mut profiles = Vec::new();
    for nth in 0..16 {
        let user = lni(devices[nth % 2], 2).unwrap();
        for vni in 16..32 {
            last = profile(user, vni, CXI_TC_BEST_EFFORT);
            profiles.extend(last);
        }
        assert_eq!(last.err(), (nth == 15).then_some(ENOSPC));
    }
    assert_eq!(profiles.len(), 255);
    let user = lni(devices[0], 1).unwrap();
    assert_eq!(profile(user, 1, CXI_TC_BEST_EFFORT).err(), Some(ENOSPC));
    // A shared profile does not count again.
    let owner = lni(devices[0], 1).unwrap();
    assert_eq!(call!(cxil_destroy_cp(profiles[200])), 0);
    let cp = profile(owner, 1, CXI_TC_BEST_EFFORT).unwrap();
    assert_eq!(profile(owner, 1, CXI_TC_BEST_EFFORT).ok().map(lcid), Some(lcid(cp)));
    assert_eq!(profile(user, 1, CXI_TC_BEST_EFFORT).err(), Some(ENOSPC));
    close(devices[1]);
    assert!(profile(user, 1, CXI_TC_BEST_EFFORT).is_ok());
    close(devices[0]);
}

fn lcid(cp: *mut cxi_cp) -> u32 {
    // SAFETY: the handle was not destroyed yet.
    unsafe { (*cp).lcid }
}

#[test]
fn limits_vnis_with_domains_to_256() {
    alone!();
    let Some(dev) = administrator() else { return };
    let devices: Vec<Dev> = (0..5).map(|_| open(0)).collect();
    let users: Vec<Lni> = devices.iter().map(|dev| alloc_lni(*dev)).collect();
    for vni in 1000..1256 {
        assert_eq!(domain(users[vni as usize % 5], vni, C_PID_ANY), Ok(0));
    }
    assert_eq!(domain(users[0], 1256, C_PID_ANY), Err(ENOSPC));
    assert_eq!(call!(cxil_reserve_domain(users[0], 1256, 7, 2)), -ENOSPC);
    assert_eq!(domain(users[0], 1001, C_PID_ANY), Ok(1), "on one that is known");
    close(devices[4]);
    assert_eq!(domain(users[0], 1256, C_PID_ANY), Ok(0));
    for each in devices[..4].iter().chain([&dev]) {
        close(*each);
    }
}

#[test]
fn reserves_consecutive_pids() {
    alone!();
    let (dev, second) = (open(0), open(0));
    let (owner, sibling) = (alloc_lni(dev), alloc_lni(dev));
    let other = alloc_lni(second);
    let keep = |lni, vni, pid, count| answered(call!(cxil_reserve_domain(lni, vni, pid, count)));
    assert_eq!(keep(null_mut(), 1, 0, 1), Err(EINVAL));
    assert_eq!(keep(owner, 0, 0, 1), Err(EINVAL));
    assert_eq!(keep(owner, 50, 0, 1), Err(EPERM));
    for (pid, count) in [(C_PID_ANY, 0), (0, 0), (C_PID_ANY, 512), (510, 2), (512, 1)] {
        assert_eq!(keep(owner, 1, pid, count), Err(EINVAL), "{count} from {pid}");
    }
    assert_eq!(keep(owner, 1, 1, u32::MAX), Err(EINVAL));
    assert_eq!(keep(owner, 1, C_PID_ANY, 511), Err(ENOSPC), "the topmost PID is not for any");
    assert_eq!(keep(owner, 1, 510, 1), Ok(510));
    // The lowest gap that is wide enough.
    assert_eq!(domain(other, 1, 2), Ok(2));
    assert_eq!(keep(owner, 1, C_PID_ANY, 3), Ok(3));
    assert_eq!(keep(owner, 1, 1, 2), Err(EEXIST));
    assert_eq!(keep(owner, 1, C_PID_ANY, 2), Ok(0));
    // Reserved PIDs are for the owner's explicit requests.
    for pid in [0, 3, 5, 510] {
        assert_eq!(domain(sibling, 1, pid), Err(EEXIST), "{pid}");
        assert_eq!(domain(other, 1, pid), Err(EEXIST), "{pid}");
    }
    assert_eq!(domain(other, 1, C_PID_ANY), Ok(6));
    assert_eq!(domain(owner, 1, C_PID_ANY), Ok(7));
    assert_eq!(domain(other, 10, 3), Ok(3), "another VNI");
    let mut kept = null_mut();
    assert_eq!(call!(cxil_alloc_domain(owner, 1, 4, &mut kept)), 0);
    assert_eq!(domain(owner, 1, 4), Err(EEXIST));
    assert_eq!(domain(other, 1, 4), Err(EEXIST));
    // The domain has used the reservation up.
    assert_eq!(call!(cxil_destroy_domain(kept)), 0);
    assert_eq!(domain(other, 1, 4), Ok(4));
    // Destroying the LNI or closing the device frees them.
    assert_eq!(keep(sibling, 10, C_PID_ANY, 3), Ok(0));
    drop_lni(sibling);
    assert_eq!(domain(other, 10, C_PID_ANY), Ok(0));
    close(dev);
    for pid in [0, 3, 510] {
        assert_eq!(domain(other, 1, pid), Ok(pid));
    }
    close(second);
}

#[test]
fn reserves_all_pids() {
    alone!();
    let dev = open(0);
    let [user, other] = [0; 2].map(|_| alloc_lni(dev));
    let keep = |lni, vni, count| answered(call!(cxil_reserve_domain(lni, vni, 0, count)));
    assert_eq!(keep(user, 1, 1), Ok(0));
    let domain = alloc_domain(user, 1, 0);
    assert_eq!(call!(cxil_destroy_domain(domain)), 0);
    for lni in [user, other] {
        assert_eq!(keep(lni, 1, 511), Ok(0));
        assert_eq!(keep(lni, 10, 511), Ok(0));
        assert_eq!(keep(lni, 20, 511), Ok(0));
        assert_eq!(keep(lni, 1, 1), Err(EEXIST));
        drop_lni(lni);
    }
    close(dev);
}

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

/// Two opened devices of one NIC, whose LNIs of the default service share an RGID in pairs. `None`
/// without the rights of an administrator.
fn devices() -> Option<[Dev; 2]> {
    let dev = administrator()?;
    assert_eq!(call!(cxil_set_svc_lpr(dev, 1, 2)), 0);
    Some([dev, open(0)])
}

/// Restores the services and closes the devices.
fn finish(devices: [Dev; 2], lnis: &[Lni]) {
    let [dev, other] = devices;
    close(other);
    lnis.iter().for_each(|lni| drop_lni(*lni));
    assert_eq!(call!(cxil_set_svc_lpr(dev, 1, 1)), 0);
    close(dev);
}

/// Allocates a queue with these flags and this LCID.
fn queue(lni: Lni, flags: u32, lcid: u32) -> Result<u32, i32> {
    let (mut options, mut cq) = (options(), null_mut());
    (options.flags, options.lcid) = (flags, lcid);
    answered(call!(cxil_alloc_cmdq(lni, null_mut(), &options, &mut cq)))
}

#[test]
fn allocates_lcids_for_all_lnis_of_rgid() {
    alone!();
    for (release, again) in [("13", 1), ("14", 2)] {
        set("CXIDIAG_SHS", release);
        let Some(devices) = devices() else { return };
        let [lni, neighbour] = devices.map(alloc_lni);
        let stranger = alloc_lni(devices[0]);
        let first = alloc_cp(lni, VNI);
        assert_eq!(lcid(first), 0);
        assert_eq!(lcid(alloc_cp(neighbour, 10)), 1);
        // An equal profile, found at LCID 0 or elsewhere.
        assert_eq!(lcid(alloc_cp(neighbour, VNI)), 0);
        let mine = alloc_cp(lni, 10);
        assert_eq!(lcid(mine), again, "{release}");
        // Another RGID.
        let beside = alloc_cp(stranger, 10);
        assert_eq!(lcid(beside), 0);
        // The neighbour still holds LCID 0.
        assert_eq!(call!(cxil_destroy_cp(first)), 0);
        let next = alloc_cp(lni, 16);
        assert_eq!(lcid(next), again + 1);
        let mut others = Vec::new();
        others.extend((17..32).map_while(|vni| profile(lni, vni, CXI_TC_BEST_EFFORT).ok()));
        assert_eq!(others.len() as u32, 16 - (again + 2));
        let refused = profile(neighbour, 31, CXI_TC_BEST_EFFORT);
        assert_eq!(refused.err(), Some(ENOSPC));
        for cp in [mine, beside, next].into_iter().chain(others) {
            assert_eq!(call!(cxil_destroy_cp(cp)), 0);
        }
        finish(devices, &[lni, stranger]);
    }
}

/// A neighbour has LCID 0, with another VNI.
#[test]
fn trigger_queue_has_lcid_0_of_rgid() {
    alone!();
    let Some(devices) = devices() else { return };
    let [lni, neighbour] = devices.map(alloc_lni);
    let trigger = CXI_CQ_IS_TX | CXI_CQ_TX_WITH_TRIG_CMDS;
    assert_eq!(queue(neighbour, trigger, 0), Err(EINVAL), "no profile");
    let first = alloc_cp(lni, VNI);
    assert_eq!(lcid(alloc_cp(neighbour, 10)), 1);
    assert_eq!(queue(neighbour, trigger, 1), Err(EINVAL));
    assert_eq!(queue(neighbour, trigger, 0), Ok(0));
    assert_eq!(queue(neighbour, CXI_CQ_IS_TX, 2), Err(EINVAL));
    assert_eq!(call!(cxil_destroy_cp(first)), 0);
    assert_eq!(queue(neighbour, trigger, 0), Err(EINVAL), "no profile");
    finish(devices, &[lni]);
}

#[test]
fn queue_sends_on_vni_of_neighbour_with_its_lcid() {
    alone!();
    let Some(devices) = devices() else { return };
    let neighbour = alloc_lni(devices[1]);
    let mut rig = Rig::new();
    assert_eq!(lcid(alloc_cp(neighbour, 10)), 1);
    let (source, sink) = (rig.buffer(PAGE), rig.buffer(PAGE));
    rig.target(0, &sink);
    let put = rig.put_to(address(rig.nid, rig.pid, 0).0, &source, 8);
    for (lcid, code) in [(0, C_RC_OK), (1, C_RC_PTLTE_NOT_FOUND)] {
        rig.tx = Queue::transmit(rig.dev, rig.lni, lcid);
        assert_eq!(rig.code(&put), code);
    }
    drop(rig);
    finish(devices, &[]);
}
