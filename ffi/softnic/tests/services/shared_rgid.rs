//! LNIs that share an RGID share its 16 LCIDs (libcxi.md 4, 5).

use crate::desk::*;
use crate::driver::prelude::*;

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
