//! Parameters of the driver: the first services, and the QoS profile (libcxi.md 3.2, jobs.md 1.7).

use crate::desk::*;
use crate::driver::prelude::*;

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
