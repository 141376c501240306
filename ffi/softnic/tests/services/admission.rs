//! Access by members, VNIs, traffic classes and profiles.

use crate::driver::prelude::*;
use std::os::unix::fs::MetadataExt;

use crate::desk::*;

/// The number of this process's network namespace.
fn namespace() -> u32 {
    std::fs::metadata("/proc/self/ns/net").unwrap().ino() as u32
}

#[test]
fn admits_only_members() {
    alone!();
    let Some(dev) = administrator() else { return };
    // The effective ids count.
    // SAFETY: the system call has no requirements.
    assert_eq!(unsafe { libc::setegid(4711) }, 0);
    // SAFETY: the system call has no requirements.
    assert_eq!(unsafe { libc::setresuid(1234, 0, 0) }, 0);
    for (kind, own) in
        [(CXI_SVC_MEMBER_UID, 0), (CXI_SVC_MEMBER_GID, 4711), (CXI_SVC_MEMBER_NET_NS, namespace())]
    {
        for (number, admitted) in [(own, true), (own + 1, false)] {
            assert_eq!(alloc(dev, &for_member(70, kind, number)), Ok(5));
            let found = lni(dev, 5);
            assert_eq!(found.err(), (!admitted).then_some(EPERM), "{kind} {number}");
            found.into_iter().for_each(drop_lni);
            assert_eq!(destroy(dev, 5), Ok(0));
        }
    }
    // One matching member of two is enough.
    let mut desc = for_member(70, CXI_SVC_MEMBER_UID, 1234);
    desc.members[0] = for_member(70, CXI_SVC_MEMBER_GID, 4711).members[1];
    assert_eq!(alloc(dev, &desc), Ok(5));
    drop_lni(lni(dev, 5).unwrap());
    // A disabled service is reported first.
    desc.members[0].svc_member.uid = 1;
    desc.svc_id = 5;
    assert_eq!(update(dev, &desc), Ok(0));
    assert_eq!(lni(dev, 5).err(), Some(EPERM));
    assert_eq!(enable(dev, 5, false), Ok(0));
    assert_eq!(lni(dev, 5).err(), Some(EKEYREVOKED));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn admits_by_network_namespace() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    desc.set_restricted_members(1);
    assert_eq!(alloc(dev, &desc), Ok(5));
    let found = || {
        let mut found = 1;
        let code = call!(cxil_svc_get_netns(dev, 5, &mut found));
        answered(code).map(|_| found)
    };
    assert_eq!(found(), Err(EINVAL));
    for (number, refused) in [(namespace() ^ 1, Some(EPERM)), (namespace(), None), (0, Some(EPERM))]
    {
        assert_eq!(call!(cxil_svc_set_netns(dev, 5, number)), 0);
        assert_eq!(found(), Ok(number));
        let member = get(dev, 5).unwrap().members[0];
        assert_eq!(member.type_, CXI_SVC_MEMBER_NET_NS);
        // SAFETY: both members of this union are the same number.
        assert_eq!(unsafe { member.svc_member.uid }, number);
        let user = lni(dev, 5);
        assert_eq!(user.err(), refused, "{number}");
        user.into_iter().for_each(drop_lni);
    }
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn rejects_network_namespace_beside_other_members() {
    alone!();
    let Some(dev) = administrator() else { return };
    for desc in
        [plain(70), for_member(70, CXI_SVC_MEMBER_UID, 0), for_member(70, CXI_SVC_MEMBER_GID, 0)]
    {
        assert_eq!(alloc(dev, &desc), Ok(5));
        let before = fields_of(&get(dev, 5).unwrap());
        assert_eq!(call!(cxil_svc_set_netns(dev, 5, namespace())), -EEXIST);
        let mut netns = 9;
        assert_eq!(call!(cxil_svc_get_netns(dev, 5, &mut netns)), -EINVAL);
        assert_eq!(netns, 9);
        assert_eq!(fields_of(&get(dev, 5).unwrap()), before);
        assert_eq!(destroy(dev, 5), Ok(0));
    }
    let member = for_member(70, CXI_SVC_MEMBER_NET_NS, 4711);
    assert_eq!(alloc(dev, &member), Ok(5));
    let mut netns = 9;
    assert_eq!(call!(cxil_svc_get_netns(dev, 5, &mut netns)), 0);
    assert_eq!(netns, 4711, "a member of the description");
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn admits_nobody_without_members() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    desc.set_restricted_members(1);
    assert_eq!(alloc(dev, &desc), Ok(5));
    assert_eq!(lni(dev, 5).err(), Some(EPERM));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn admits_to_no_class_without_classes() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    desc.set_restricted_tcs(1);
    assert_eq!(alloc(dev, &desc), Ok(5));
    let user = lni(dev, 5).unwrap();
    assert_eq!(profile(user, 70, CXI_TC_BEST_EFFORT).err(), Some(EINVAL));
    assert_eq!(domain(user, 70, C_PID_ANY), Ok(0));
    close(dev);
    let dev = open(0);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

/// The errno of a profile of the class that all tools use, and of a domain; 0 for none.
fn refusals(user: Lni, vni: u32) -> (i32, i32) {
    let refusal = |found: Option<i32>| found.unwrap_or(0);
    (
        refusal(profile(user, vni, CXI_TC_BEST_EFFORT).err()),
        refusal(domain(user, vni, C_PID_ANY).err()),
    )
}

#[test]
fn admits_to_vni_by_any_service_with_it() {
    alone!();
    let dev = open(0);
    let user = lni(dev, 1).unwrap();
    // The VNI may belong to another service than the LNI's, but not to one for other members.
    assert_eq!(refusals(user, 20), (0, 0));
    assert_eq!(refusals(user, 50), (EPERM, EPERM));
    if is_root() {
        // VNI 50 belongs to a service for others and to one for all.
        assert_eq!(alloc(dev, &plain(50)), Ok(5));
        assert_eq!(refusals(user, 50), (0, 0));
        assert_eq!(enable(dev, 5, false), Ok(0));
        assert_eq!(refusals(user, 50), (EPERM, EPERM));
        assert_eq!(destroy(dev, 5), Ok(0));
    }
    close(dev);
    become_ordinary();
    let dev = open(0);
    let user = lni(dev, 1).unwrap();
    for (vni, refusal) in [(15, ENOENT), (16, 0), (31, 0), (32, ENOENT)] {
        assert_eq!(refusals(user, vni), (refusal, refusal), "{vni}");
    }
    close(dev);
}

/// A service with one VNI and one class.
fn service_with_class(vni: u16, tc: cxi_traffic_class) -> cxi_svc_desc {
    let mut desc = plain(vni);
    desc.set_restricted_tcs(1);
    desc.tcs[tc as usize] = true;
    desc
}

#[test]
fn admits_to_traffic_classes_of_vni() {
    alone!();
    let Some(dev) = administrator() else { return };
    let user = lni(dev, 1).unwrap();
    assert_eq!(alloc(dev, &service_with_class(70, CXI_TC_BEST_EFFORT)), Ok(5));
    assert!(profile(user, 70, CXI_TC_BEST_EFFORT).is_ok());
    assert_eq!(profile(user, 70, CXI_TC_LOW_LATENCY).err(), Some(EINVAL));
    assert_eq!(domain(user, 70, C_PID_ANY), Ok(0), "has no class");
    // Another service with the same VNI adds its class.
    assert_eq!(alloc(dev, &service_with_class(70, CXI_TC_LOW_LATENCY)), Ok(6));
    assert!(profile(user, 70, CXI_TC_LOW_LATENCY).is_ok());
    assert_eq!(profile(user, 70, CXI_TC_BULK_DATA).err(), Some(EINVAL));
    // Without the flag, the array is ignored.
    let mut free = service_with_class(71, CXI_TC_BEST_EFFORT);
    free.set_restricted_tcs(0);
    assert_eq!(alloc(dev, &free), Ok(7));
    assert!(profile(user, 71, CXI_TC_BULK_DATA).is_ok());
    for id in 5..8 {
        assert_eq!(destroy(dev, id), Ok(0));
    }
    close(dev);
}

#[test]
fn exclusive_profiles_are_not_shared() {
    alone!();
    let Some(dev) = administrator() else { return };
    let different = |user| {
        let [one, two] = [0; 2].map(|_| profile(user, 1, CXI_TC_BEST_EFFORT).unwrap());
        // SAFETY: the handle was not destroyed yet.
        let one = unsafe { (*one).lcid };
        // SAFETY: the handle was not destroyed yet.
        let two = unsafe { (*two).lcid };
        one != two
    };
    assert_eq!(alloc(dev, &plain(70)), Ok(5));
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 5, true)), 0);
    // The LNI's service decides, not the VNI's.
    let (shared, exclusive) = (lni(dev, 1).unwrap(), lni(dev, 5).unwrap());
    assert!(!different(shared));
    assert!(different(exclusive));
    close(dev);
    let dev = open(0);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}
