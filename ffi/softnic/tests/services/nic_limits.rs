//! Limits of the NIC for all users: RGIDs, profiles, VNIs, PIDs (libcxi.md 4 to 6, 11).

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
