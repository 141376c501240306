//! Changes of services: privileges and arguments. The driver's own service, its parameters, and
//! resource groups with the counts of their resources (libcxi.md 3.1, 3.2; jobs.md 1.7).

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

#[test]
fn default_service_is_that_of_driver() {
    alone!();
    let dev = open(0);
    let default = get(dev, 1).unwrap();
    assert_eq!((default.is_system_svc(), default.restricted_tcs()), (0, 0));
    assert_eq!((default.restricted_members(), default.restricted_vnis()), (0, 1));
    assert_eq!(default.tcs, [true, true, true, true, false]);
    assert_eq!((default.enable(), default.resource_limits()), (1, 1));
    let tles = limits(&default)[CXI_RSRC_TYPE_TLE as usize];
    assert_eq!((tles.max, tles.res), (512, 512));
    close(dev);
}

#[test]
fn starts_with_default_service_alone() {
    alone!();
    for (state, refusal) in [("enabled", None), ("disabled", Some(EKEYREVOKED))] {
        set("CXIDIAG_SERVICES", state);
        let dev = open(0);
        assert_eq!(ids(dev), [1]);
        let user = lni(dev, 1);
        assert_eq!(user.err(), refusal, "{state}");
        user.into_iter().for_each(drop_lni);
        if is_root() {
            // The file exists while the services differ from those.
            let is_enabled = refusal.is_none();
            assert_eq!(enable(dev, 1, !is_enabled), Ok(0));
            assert_eq!(ports(), ["cxisoft-12.0", "services-12"]);
            assert_eq!(enable(dev, 1, is_enabled), Ok(0));
            assert_eq!(ports(), ["cxisoft-12.0"]);
        }
        close(dev);
    }
}

#[test]
fn starts_with_service_of_job() {
    alone!();
    set("CXIDIAG_SERVICES", "job");
    let dev = open(0);
    assert_eq!(ids(dev), [1, 5]);
    assert_eq!(lni(dev, 1).err(), Some(EKEYREVOKED));
    let user = lni(dev, 5).unwrap();
    for vni in [1358, 1214] {
        for (tc, expected) in [
            (CXI_TC_LOW_LATENCY, None),
            (CXI_TC_BEST_EFFORT, None),
            (CXI_TC_BULK_DATA, Some(EINVAL)),
        ] {
            assert_eq!(profile(user, vni, tc).err(), expected, "{vni} {tc}");
        }
    }
    close(dev);
}

#[test]
fn rejects_invalid_driver_parameters() {
    alone!();
    for (variable, value) in
        [("CXIDIAG_SERVICES", "1"), ("CXIDIAG_QOS", "hpc"), ("CXIDIAG_SHS", "11")]
    {
        set(variable, value);
        let mut dev = null_mut();
        assert_eq!(call!(cxil_open_device(0, &mut dev)), -EINVAL);
        set(variable, "");
    }
}

/// The classes and types of a QoS profile without Ethernet, as pairs of their numbers.
fn classes() -> Vec<(u32, u32)> {
    let dev = open(0);
    let user = lni(dev, 1).unwrap();
    let all = [0, 1, 2, 3, 5].map(|tc| [0, 1, 2, 3, 4].map(|tc_type| (tc, tc_type)));
    let is_accepted = |(tc, tc_type)| {
        let mut cp = null_mut();
        match call!(cxil_alloc_cp(user, 1, tc, tc_type, &mut cp)) {
            0 => assert_eq!(call!(cxil_destroy_cp(cp)), 0),
            code => {
                assert_eq!(code, -EINVAL);
                return false;
            }
        }
        true
    };
    let mut found = all.concat();
    found.retain(|&pair| is_accepted(pair));
    close(dev);
    found
}

#[test]
fn profile_decides_traffic_classes() {
    alone!();
    let [da, ll, bd, be] = [0, 1, 2, 3];
    let [default, hrp, restricted, leaf] = [0, 1, 2, 3];
    let common = [(bd, default), (be, default), (be, restricted), (be, hrp)];
    let hpc = [&common[..], &[(da, default), (be, leaf)]].concat();
    let others = [&common[..], &[(ll, default), (ll, leaf)]].concat();
    for (profile, mut expected) in [
        ("", others.clone()),
        ("LL_BE_BD_ET", others.clone()),
        ("LL_BE_BD_ET1_ET2", others),
        ("HPC", hpc),
    ] {
        set("CXIDIAG_QOS", profile);
        expected.sort_unstable();
        assert_eq!(classes(), expected, "{profile}");
    }
}

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
