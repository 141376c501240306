//! Resource groups of the driver (libcxi.md 3.1): its own service, groups that are no services, and
//! the counts of their resources.

use crate::desk::*;
use crate::driver::prelude::*;

const RELEASES: [&str; 5] = ["12", "13", "14", "14.0.1", "next"];

/// A resource group that is no service.
const GROUP: u32 = 1001;

#[test]
fn driver_has_a_system_service_for_root_without_vnis() {
    alone!();
    let dev = open(0);
    let desc = get(dev, DRIVER_SVC_ID).unwrap();
    let flags = [desc.enable(), desc.is_system_svc(), desc.restricted_members()];
    assert_eq!(flags, [1; 3]);
    // SAFETY: both members of this union are the same number.
    let user = unsafe { desc.members[0].svc_member.uid };
    assert_eq!((desc.members[0].type_, user), (CXI_SVC_MEMBER_UID, 0));
    assert_eq!((desc.restricted_vnis(), desc.num_vld_vnis), (0, 0));
    let made = lni(dev, DRIVER_SVC_ID).err();
    assert_eq!(made, if is_root() { None } else { Some(EPERM) });
    close(dev);
}

#[test]
fn lists_groups_that_are_no_services_since_the_next_driver() {
    alone!();
    for release in RELEASES {
        set("CXIDIAG_SHS", release);
        let dev = open(0);
        let is_listed = release == "next";
        assert_eq!(ids(dev).contains(&GROUP), is_listed, "{release}");
        assert_eq!(uses(dev).iter().any(|(id, _)| *id == GROUP), is_listed, "{release}");
        assert_eq!(get(dev, GROUP).err(), Some(EINVAL));
        assert_eq!(lni(dev, GROUP).err(), Some(EINVAL));
        let (mut first, mut last) = (0, 0);
        let range = call!(cxil_svc_get_vni_range(dev, GROUP, &mut first, &mut last));
        assert_eq!(range, if is_listed { -libc::EOPNOTSUPP } else { -EINVAL });
        let shared = call!(cxil_get_svc_lpr(dev, GROUP));
        assert_eq!(shared, if is_listed { 1 } else { -EINVAL });
        if is_listed {
            assert_eq!(used(dev, GROUP)[CXI_RSRC_TYPE_EQ as usize], 0);
        }
        close(dev);
    }
}

/// libcxi.md 6: before 13.0 the driver has no receive profiles.
#[test]
fn checks_vnis_of_domains_by_release() {
    alone!();
    for release in RELEASES {
        set("CXIDIAG_SHS", release);
        let dev = open(0);
        let lni = lni(dev, 1).unwrap();
        let without = |vni| if is_root() { Ok(vni) } else { Err(ENOENT) };
        let reserve = |vni| answered(call!(cxil_reserve_domain(lni, vni, C_PID_ANY, 1)));
        let cp = |vni| profile(lni, vni, CXI_TC_BEST_EFFORT).map(|_| vni);
        assert_eq!(domain(lni, 0, C_PID_ANY), Err(EINVAL));
        assert_eq!(domain(lni, 65536, C_PID_ANY), Err(EINVAL));
        assert_eq!(reserve(10), Ok(0), "{release}");
        assert_eq!(cp(10), Ok(10), "{release}");
        if release == "12" {
            // VNIs of no service, of another one, and of a service for others.
            for vni in [999, 16, 50] {
                assert_eq!(domain(lni, vni, C_PID_ANY), Ok(0), "{vni}");
                assert_eq!(reserve(vni), Err(EINVAL), "{vni}");
                assert_eq!(cp(vni), Err(EINVAL), "{vni}");
            }
            // VNIs of a range have PIDs of their own.
            assert_eq!(domain(lni, 17, C_PID_ANY), Ok(0));
        } else {
            assert_eq!(cp(999), without(999), "{release}");
            assert_eq!(domain(lni, 999, C_PID_ANY), without(0), "{release}");
            assert_eq!(domain(lni, 50, C_PID_ANY), Err(EPERM), "{release}");
            assert_eq!(domain(lni, 16, C_PID_ANY), Ok(0), "{release}");
            assert_eq!(domain(lni, 17, C_PID_ANY), Ok(1), "{release}");
        }
        close(dev);
    }
}

/// Service 1 has a pool, service 2 has none.
#[test]
fn counts_entries_of_pools_only_since_the_next_driver() {
    alone!();
    for release in RELEASES {
        set("CXIDIAG_SHS", release);
        let dev = open(0);
        let counts =
            |id| [CXI_RSRC_TYPE_LE, CXI_RSRC_TYPE_TLE].map(|kind| used(dev, id)[kind as usize]);
        assert_eq!(counts(1), [0; 2], "{release}");
        let expected = if release == "next" { 65535 } else { 0 };
        assert_eq!(counts(2), [expected; 2], "{release}");
        assert_eq!(used(dev, 2)[CXI_RSRC_TYPE_CT as usize], 0);
        close(dev);
    }
}
