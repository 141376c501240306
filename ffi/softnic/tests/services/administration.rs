//! Changes of services: privileges and arguments.

use crate::desk::*;
use crate::driver::prelude::*;

/// The file of services of NIC 0x12.
const FILE: &str = "services-12";

#[test]
fn rejects_null_and_unknown_services() {
    alone!();
    let dev = open(0);
    let none: Dev = null_mut();
    assert_eq!(changes(none, 2), [Err(EINVAL); 8]);
    assert_eq!(answered(call!(cxil_alloc_svc(dev, null(), null_mut()))), Err(EINVAL));
    assert_eq!(answered(call!(cxil_update_svc(dev, null(), null_mut()))), Err(EINVAL));
    let (mut list, mut uses) = (null_mut(), null_mut());
    assert_eq!(call!(cxil_get_svc_list(none, &mut list)), -EINVAL);
    assert_eq!(call!(cxil_get_svc_list(dev, null_mut())), -EINVAL);
    assert_eq!(call!(cxil_get_svc_rsrc_list(none, &mut uses)), -EINVAL);
    assert_eq!(call!(cxil_get_svc_rsrc_list(dev, null_mut())), -EINVAL);
    call!(cxil_free_svc_list(null_mut()));
    call!(cxil_free_svc_rsrc_list(null_mut()));
    // SAFETY: integers, for which zero is a value.
    let mut found: cxi_rsrc_use = unsafe { std::mem::zeroed() };
    let mut exclusive = true;
    let mut netns = 9;
    assert_eq!(call!(cxil_get_svc_rsrc_use(dev, 1, null_mut())), -EINVAL);
    assert_eq!(call!(cxil_svc_get_netns(dev, 1, null_mut())), -EINVAL);
    assert_eq!(call!(cxil_svc_get_exclusive_cp(dev, 1, null_mut())), -EINVAL);
    for (dev, id) in [(none, 1), (dev, 0), (dev, 5), (dev, u32::MAX)] {
        assert_eq!(call!(cxil_get_svc_rsrc_use(dev, id, &mut found)), -EINVAL);
        assert_eq!(call!(cxil_svc_get_netns(dev, id, &mut netns)), -EINVAL);
        assert_eq!(call!(cxil_svc_get_exclusive_cp(dev, id, &mut exclusive)), -EINVAL);
        assert_eq!(call!(cxil_get_svc_lpr(dev, id)), -EINVAL);
    }
    assert_eq!((netns, exclusive), (9, true), "left alone");
    assert_eq!(call!(cxil_svc_get_exclusive_cp(dev, 1, &mut exclusive)), 0);
    assert!(!exclusive);
    assert_eq!(call!(cxil_get_svc_lpr(dev, 1)), 1);
    close(dev);
}

#[test]
fn ordinary_user_can_only_read() {
    alone!();
    become_ordinary();
    let dev = open(0);
    // Missing privileges are reported before invalid arguments and used services.
    let user = lni(dev, 2).unwrap();
    for id in [1, 2, 3, 5] {
        assert_eq!(changes(dev, id), [Err(EPERM); 8], "{id}");
    }
    assert_eq!(alloc(dev, &blank()), Err(EPERM));
    assert_eq!(ports(), ["cxisoft-12.0"]);
    assert_eq!(ids(dev), [1, 2, 3, 4]);
    for desc in list(dev) {
        assert_eq!(fields_of(&get(dev, desc.svc_id).unwrap()), fields_of(&desc));
    }
    assert_eq!(uses(dev), [1, 2, 3, 4].map(|id| (id, used(dev, id))));
    drop_lni(user);
    close(dev);
}

#[test]
fn returns_created_descriptions() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = for_member(70, CXI_SVC_MEMBER_GID, 4711);
    desc.set_restricted_tcs(1);
    desc.set_cntr_pool_id(3);
    desc.tcs = [false, true, false, true, false];
    (desc.num_vld_vnis, desc.vnis) = (4, [70, 65535, 1, 71]);
    limit(&mut desc, CXI_RSRC_TYPE_LE, 100, 0);
    limit(&mut desc, CXI_RSRC_TYPE_AC, 9, 9);
    desc.svc_id = 77;
    assert_eq!(alloc(dev, &desc), Ok(5), "the lowest free number, whatever was asked for");
    desc.svc_id = 5;
    assert_eq!(fields_of(&get(dev, 5).unwrap()), fields_of(&desc));
    assert_eq!(alloc(dev, &plain(80)), Ok(6));
    assert_eq!(destroy(dev, 5), Ok(0));
    assert_eq!(get(dev, 5).err(), Some(EINVAL));
    assert_eq!(destroy(dev, 5), Err(EINVAL));
    assert_eq!(ids(dev), [1, 2, 3, 4, 6]);
    assert_eq!(alloc(dev, &plain(81)), Ok(5));
    assert_eq!(ids(dev), [1, 2, 3, 4, 5, 6]);
    assert_eq!((destroy(dev, 5), destroy(dev, 6)), (Ok(0), Ok(0)));
    assert_eq!(destroy(dev, CXI_DEFAULT_SVC_ID), Err(EINVAL));
    close(dev);
}

#[test]
fn file_exists_only_while_services_are_changed() {
    alone!();
    let Some(dev) = administrator() else { return };
    let other = open(1);
    let third = get(dev, 3).unwrap();
    assert_eq!(destroy(dev, 3), Ok(0));
    assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-13.0", FILE]);
    assert_eq!((ids(dev), ids(other)), (vec![1, 2, 4], vec![1, 2, 3, 4]), "a NIC's own");
    assert_eq!(alloc(dev, &third), Ok(3));
    assert_eq!(enable(dev, 3, false), Ok(0), "as before");
    assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-13.0"]);
    close(dev);
    close(other);
}

/// Makes a description invalid.
type Flaw = fn(&mut cxi_svc_desc);

#[test]
fn rejects_invalid_descriptions() {
    alone!();
    let Some(dev) = administrator() else { return };
    let flaws: [(&str, Flaw); 11] = [
        ("no VNI", |desc| desc.num_vld_vnis = 0),
        ("more VNIs than there is room for", |desc| desc.num_vld_vnis = 5),
        ("VNI 0", |desc| desc.vnis[0] = 0),
        ("a VNI twice", |desc| (desc.num_vld_vnis, desc.vnis) = (3, [70, 71, 70, 0])),
        ("a member of no type", |desc| {
            *desc = for_member(70, CXI_SVC_MEMBER_UID, 0);
            desc.members[0].type_ = CXI_SVC_MEMBER_MAX;
        }),
        ("more kept than allowed", |desc| limit(desc, CXI_RSRC_TYPE_CT, 3, 4)),
        ("more than 2047 PTEs", |desc| limit(desc, CXI_RSRC_TYPE_PTE, 2048, 0)),
        ("more than 1024 queues", |desc| limit(desc, CXI_RSRC_TYPE_TXQ, 1025, 0)),
        ("more than 16384 LEs", |desc| limit(desc, CXI_RSRC_TYPE_LE, 16385, 0)),
        ("more than 2048 TLEs", |desc| limit(desc, CXI_RSRC_TYPE_TLE, 2049, 0)),
        ("more than 1022 contexts", |desc| limit(desc, CXI_RSRC_TYPE_AC, u16::MAX, 0)),
    ];
    for (what, flaw) in flaws {
        let mut desc = plain(70);
        flaw(&mut desc);
        assert_eq!(alloc(dev, &desc), Err(EINVAL), "{what}");
        desc.svc_id = 3;
        assert_eq!(update(dev, &desc), Err(EINVAL), "{what}");
    }
    // Fields without their flag are ignored.
    let mut desc = plain(70);
    desc.set_restricted_vnis(0);
    desc.num_vld_vnis = 200;
    desc.members[0].type_ = CXI_SVC_MEMBER_MAX;
    desc.limits.__bindgen_anon_1.type_ = [cxi_limits { max: 0, res: u16::MAX }; KINDS];
    assert_eq!(alloc(dev, &desc), Ok(5));
    let found = get(dev, 5).unwrap();
    assert_eq!((found.enable(), found.num_vld_vnis), (0, 0), "with a range, and none yet");
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

/// LNIs for an RGID, exclusive profiles, and range of a service.
fn settings(dev: Dev, id: u32) -> (i32, bool, Option<(u16, u16)>) {
    let (mut exclusive, mut min, mut max) = (false, 0, 0);
    assert_eq!(call!(cxil_svc_get_exclusive_cp(dev, id, &mut exclusive)), 0);
    let range = match call!(cxil_svc_get_vni_range(dev, id, &mut min, &mut max)) {
        0 => Some((min, max)),
        code => {
            assert_eq!(code, -EINVAL);
            None
        }
    };
    (call!(cxil_get_svc_lpr(dev, id)), exclusive, range)
}

#[test]
fn update_keeps_settings_with_separate_calls() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut ranged = plain(0);
    ranged.set_restricted_vnis(0);
    ranged.svc_id = 5;
    assert_eq!(alloc(dev, &ranged), Ok(5));
    assert_eq!(settings(dev, 5), (1, false, Some((0, 0))));
    for lnis in [0, 9, u32::MAX] {
        assert_eq!(call!(cxil_set_svc_lpr(dev, 5, lnis)), -EINVAL, "{lnis}");
    }
    assert_eq!(call!(cxil_set_svc_lpr(dev, 5, 8)), 0);
    assert_eq!(call!(cxil_svc_set_exclusive_cp(dev, 5, true)), 0);
    assert_eq!(update(dev, &ranged), Ok(0));
    assert_eq!(get(dev, 5).unwrap().enable(), 0, "there is no range to be enabled for");
    assert_eq!(call!(cxil_svc_set_vni_range(dev, 5, 100, 100)), 0);
    assert_eq!(update(dev, &ranged), Ok(0));
    assert_eq!(get(dev, 5).unwrap().enable(), 1);
    assert_eq!(settings(dev, 5), (8, true, Some((100, 100))));
    // A list replaces the range for good.
    let mut listed = cxi_svc_desc { svc_id: 5, ..plain(70) };
    assert_eq!(update(dev, &listed), Ok(0));
    // Each service has triggered operations (libcxi.md 3.3).
    let mut given = limits(&listed);
    given[CXI_RSRC_TYPE_TLE as usize] = cxi_limits { max: 8, res: 8 };
    listed.limits.__bindgen_anon_1.type_ = given;
    assert_eq!(fields_of(&get(dev, 5).unwrap()), fields_of(&listed));
    assert_eq!(settings(dev, 5), (8, true, None));
    assert_eq!(update(dev, &ranged), Ok(0));
    assert_eq!(get(dev, 5).unwrap().enable(), 0);
    assert_eq!(settings(dev, 5), (8, true, Some((0, 0))));
    // An update does not change whether a service is a system service.
    let mut system = plain(71);
    system.set_is_system_svc(1);
    assert_eq!(alloc(dev, &system), Ok(6));
    system.svc_id = 6;
    system.set_is_system_svc(0);
    assert_eq!(update(dev, &system), Ok(0));
    assert_eq!(get(dev, 6).unwrap().is_system_svc(), 1);
    assert_eq!(destroy(dev, 6), Ok(0));
    assert_eq!(update(dev, &cxi_svc_desc { svc_id: 6, ..listed }), Err(EINVAL));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn enables_created_service_with_list() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    desc.set_enable(0);
    assert_eq!(alloc(dev, &desc), Ok(5));
    assert_eq!(get(dev, 5).unwrap().enable(), 1);
    drop_lni(lni(dev, 5).unwrap());
    // An update disables.
    desc.svc_id = 5;
    assert_eq!(update(dev, &desc), Ok(0));
    assert_eq!(get(dev, 5).unwrap().enable(), 0);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn rejects_update_of_resource_limits() {
    alone!();
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    assert_eq!(alloc(dev, &desc), Ok(5));
    desc.svc_id = 5;
    limit(&mut desc, CXI_RSRC_TYPE_CT, 5, 0);
    assert_eq!(update(dev, &desc), Err(EINVAL));
    assert_eq!(get(dev, 5).unwrap().resource_limits(), 0);
    let mut default = get(dev, 1).unwrap();
    default.set_resource_limits(0);
    assert_eq!(update(dev, &default), Err(EINVAL));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn sets_range_before_enabling() {
    alone!();
    let Some(dev) = administrator() else { return };
    let range = |id, min, max| answered(call!(cxil_svc_set_vni_range(dev, id, min, max)));
    assert_eq!(range(2, 40, 41), Err(EBUSY), "enabled");
    assert_eq!(enable(dev, 2, false), Ok(0));
    assert_eq!(lni(dev, 2).err(), Some(EKEYREVOKED));
    for (min, max) in [(0, 0), (0, 7), (9, 8), (9, 10), (3, 5), (1, 65535)] {
        assert_eq!(range(2, min, max), Err(EINVAL), "{min} to {max}");
    }
    assert_eq!(range(1, 40, 41), Err(EINVAL), "has a list");
    assert_eq!(range(9, 40, 41), Err(EINVAL), "is none");
    for (min, max) in [(9, 9), (8, 9), (1 << 15, u16::MAX)] {
        assert_eq!(range(2, min, max), Ok(0));
        assert_eq!(settings(dev, 2).2, Some((min, max)));
    }
    assert_eq!(range(2, 16, 31), Ok(0));
    assert_eq!(enable(dev, 9, true), Err(EINVAL));
    assert_eq!(enable(dev, 2, true), Ok(0));
    drop_lni(lni(dev, 2).unwrap());
    // A service without VNI cannot be enabled.
    let mut unready = plain(0);
    unready.set_restricted_vnis(0);
    assert_eq!(alloc(dev, &unready), Ok(5));
    assert_eq!(enable(dev, 5, true), Err(EINVAL));
    assert_eq!(enable(dev, 5, false), Ok(0));
    assert_eq!(lni(dev, 5).err(), Some(EKEYREVOKED));
    assert_eq!(destroy(dev, 5), Ok(0));
    assert_eq!(ports(), ["cxisoft-12.0"]);
    close(dev);
}

#[test]
fn rejects_changes_of_used_service() {
    alone!();
    let Some(dev) = administrator() else { return };
    assert_eq!(alloc(dev, &plain(70)), Ok(5));
    let before = list(dev).iter().map(fields_of).collect::<Vec<_>>();
    let user = lni(dev, 5).unwrap();
    let answers = changes(dev, 5);
    // The first change creates another service.
    assert_eq!(answers[0], Ok(6));
    assert_eq!(answers[1..], [Err(EBUSY); 7]);
    assert_eq!(destroy(dev, 6), Ok(0));
    assert_eq!(enable(dev, 5, false), Err(EBUSY));
    assert_eq!(list(dev).iter().map(fields_of).collect::<Vec<_>>(), before);
    assert_eq!(enable(dev, 3, true), Ok(0), "others can be changed");
    assert_eq!(enable(dev, 3, false), Ok(0));
    drop_lni(user);
    assert_eq!(enable(dev, 5, false), Ok(0));
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}
