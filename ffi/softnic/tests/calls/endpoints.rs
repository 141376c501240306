//! Communication profiles and domains: VNIs and PIDs (libcxi.md 5, 6).

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::driver::prelude::*;

/// A profile of the class that all tools use.
fn best_effort(lni: *mut cxil_lni, vni: u32) -> Result<*mut cxi_cp, i32> {
    profile(lni, vni, CXI_TC_BEST_EFFORT)
}

#[test]
fn rejects_invalid_vnis() {
    alone!();
    let dev = open(0);
    let lni = alloc_lni(dev);
    for vni in [0, 65536, u32::MAX] {
        assert_eq!(best_effort(lni, vni), Err(EINVAL), "{vni}");
        assert_eq!(domain(lni, vni, C_PID_ANY), Err(EINVAL), "{vni}");
    }
    // VNI 50 belongs to a service for another member, and root is no exception.
    assert_eq!(best_effort(lni, 50), Err(EPERM));
    assert_eq!(domain(lni, 50, C_PID_ANY), Err(EPERM));
    for (vni, pid) in [(1, 0), (10, 0), (16, 0), (31, 1)] {
        assert!(best_effort(lni, vni).is_ok(), "{vni}");
        let found = domain(lni, vni, C_PID_ANY);
        assert_eq!(found, Ok(pid), "{vni}, in its range");
    }
    assert_eq!(best_effort(null_mut(), 1), Err(EINVAL));
    assert_eq!(domain(null_mut(), 1, C_PID_ANY), Err(EINVAL));
    let (none, domain) = (null_mut(), null_mut());
    assert_eq!(call!(cxil_alloc_domain(lni, 1, C_PID_ANY, domain)), -EINVAL);
    assert_eq!(call!(cxil_alloc_cp(lni, 1, 0, 0, none)), -EINVAL);
    assert_eq!(call!(cxil_destroy_domain(null_mut())), -EINVAL);
    assert_eq!(call!(cxil_destroy_cp(null_mut())), -EINVAL);
    close(dev);
}

#[test]
fn admits_only_root_to_vni_without_service() {
    alone!();
    if is_root() {
        let dev = open(0);
        let lni = alloc_lni(dev);
        assert!(best_effort(lni, 999).is_ok());
        assert_eq!(domain(lni, 999, C_PID_ANY), Ok(0));
        close(dev);
    }
    become_ordinary();
    let dev = open(0);
    let lni = alloc_lni(dev);
    // A VNI without service, and one of a disabled service.
    for vni in [999, 40] {
        assert_eq!(best_effort(lni, vni), Err(ENOENT), "{vni}");
        assert_eq!(domain(lni, vni, C_PID_ANY), Err(ENOENT), "{vni}");
    }
    assert_eq!(profile(lni, 1, CXI_TC_ETH), Err(EPERM));
    assert!(best_effort(lni, 1).is_ok());
    close(dev);
}

#[test]
fn accepts_traffic_classes_of_service() {
    alone!();
    let dev = open(0);
    let lni = alloc_lni(dev);
    let classes = [CXI_TC_BEST_EFFORT, CXI_TC_LOW_LATENCY, CXI_TC_BULK_DATA];
    for tc in classes {
        assert!(profile(lni, 1, tc).is_ok(), "{tc}");
        let expected = (tc != CXI_TC_BEST_EFFORT).then_some(EINVAL);
        for tc_type in [CXI_TC_TYPE_RESTRICTED, CXI_TC_TYPE_HRP] {
            let found = typed_profile(lni, 1, tc, tc_type).err();
            assert_eq!(found, expected, "{tc} {tc_type}");
        }
    }
    let ethernet = profile(lni, 1, CXI_TC_ETH);
    assert_eq!(ethernet, Err(if is_root() { EINVAL } else { EPERM }));
    let dedicated = profile(lni, 1, CXI_TC_DEDICATED_ACCESS);
    assert_eq!(dedicated, Err(EINVAL));
    assert_eq!(profile(lni, 1, 99), Err(EINVAL));
    assert_eq!(typed_profile(lni, 1, CXI_TC_BEST_EFFORT, 99), Err(EINVAL));
    close(dev);
}

#[test]
fn shares_profiles_and_limits_them_to_16() {
    alone!();
    let dev = open(0);
    let lni = alloc_lni(dev);
    let first = best_effort(lni, 1).unwrap();
    let again = best_effort(lni, 1).unwrap();
    assert_eq!((lcid(first), lcid(again)), (0, 0));
    // Fifteen more of service 2.
    let others: Vec<_> = (16..31).map(|vni| best_effort(lni, vni).unwrap()).collect();
    let numbers: Vec<u32> = others.iter().map(|cp| lcid(*cp)).collect();
    assert_eq!(numbers, (1..16).collect::<Vec<u32>>());
    assert_eq!(best_effort(lni, 31), Err(ENOSPC));
    assert_eq!(lcid(best_effort(lni, 1).unwrap()), 0, "known ones are still to be had");
    assert_eq!(call!(cxil_destroy_cp(others[4])), 0);
    assert_eq!(lcid(best_effort(lni, 31).unwrap()), 5, "the lowest free one");
    // The profile lives until its last user destroys it.
    assert_eq!(call!(cxil_destroy_cp(again)), 0);
    assert_eq!(lcid(best_effort(lni, 1).unwrap()), 0);
    // Each LNI has its own profiles.
    assert_eq!(lcid(best_effort(alloc_lni(dev), 10).unwrap()), 0);
    close(dev);
}

#[test]
fn keeps_pids_unique_on_nic_and_vni() {
    alone!();
    let (dev, second, other) = (open(0), open(0), open(1));
    let lni = alloc_lni(dev);
    let neighbour = alloc_lni(second);
    for pid in [511 + 1, 1 << 16, u32::MAX] {
        assert_eq!(domain(lni, 1, pid), Err(EINVAL), "{pid}");
    }
    assert_eq!(domain(lni, 1, 0), Ok(0));
    assert_eq!(domain(lni, 1, 0), Err(EEXIST));
    assert_eq!(domain(neighbour, 1, 0), Err(EEXIST), "another user of the NIC");
    assert_eq!(domain(neighbour, 1, 510), Ok(510), "the topmost");
    assert_eq!(domain(neighbour, 1, 2), Ok(2));
    // Any PID is the lowest free one.
    assert_eq!(domain(lni, 1, C_PID_ANY), Ok(1));
    assert_eq!(domain(neighbour, 1, C_PID_ANY), Ok(3));
    // Other VNIs and other NICs have separate PIDs.
    assert_eq!(domain(lni, 10, C_PID_ANY), Ok(0));
    assert_eq!(domain(alloc_lni(other), 1, C_PID_ANY), Ok(0));
    // Destroying a domain frees its PID; closing the device frees all.
    let mut four = null_mut();
    assert_eq!(call!(cxil_alloc_domain(lni, 1, 4, &mut four)), 0);
    assert_eq!(domain(neighbour, 1, 4), Err(EEXIST));
    assert_eq!(call!(cxil_destroy_domain(four)), 0);
    assert_eq!(domain(neighbour, 1, 4), Ok(4));
    close(dev);
    assert_eq!(domain(neighbour, 1, 0), Ok(0));
    close(second);
    close(other);
}

#[test]
fn assigns_any_pid_until_none_is_free() {
    alone!();
    let devices = [open(0), open(0)];
    let lnis = devices.map(alloc_lni);
    for pid in 0..510 {
        let lni = lnis[usize::from(pid % 100 == 0)];
        assert_eq!(domain(lni, 1, C_PID_ANY), Ok(pid));
    }
    for lni in lnis {
        let any = domain(lni, 1, C_PID_ANY);
        assert_eq!(any, Err(ENOSPC), "never the topmost");
    }
    assert_eq!(domain(lnis[1], 1, 510), Ok(510));
    assert_eq!(domain(lnis[1], 10, C_PID_ANY), Ok(0));
    devices.into_iter().for_each(close);
}

#[test]
fn creates_and_removes_ports_with_devices() {
    alone!();
    assert_eq!(ports(), [""; 0]);
    let first = open(0);
    assert_eq!(ports(), ["cxisoft-12.0"]);
    let second = open(0);
    let other = open(1);
    assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-12.1", "cxisoft-13.0"]);
    close(first);
    assert_eq!(ports(), ["cxisoft-12.1", "cxisoft-13.0"]);
    let again = open(0);
    assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-12.1", "cxisoft-13.0"]);
    let lni = alloc_lni(again);
    alloc_domain(lni, 1, C_PID_ANY);
    // Closing frees the objects of the device.
    for dev in [second, other, again] {
        close(dev);
    }
    assert!(!fabric().exists());
}

/// Even an empty one, whatever its permissions for reading.
#[test]
fn keeps_fabric_directory_that_existed_before() {
    alone!();
    let fabric = fabric();
    for mode in [0o700, 0o755] {
        std::fs::create_dir(&fabric).unwrap();
        std::fs::set_permissions(&fabric, Permissions::from_mode(mode)).unwrap();
        close(open(0));
        drop(softnic::Snapshot::new(0).unwrap());
        // Fails unless the directory is there, and empty.
        std::fs::remove_dir(&fabric).unwrap();
    }
    drop(softnic::Snapshot::new(0).unwrap());
    assert!(!fabric.exists(), "the snapshot made it");
}

/// Even a file with the name of a port.
#[test]
fn keeps_unrelated_files_in_fabric_directory() {
    alone!();
    let fabric = fabric();
    std::fs::create_dir(&fabric).unwrap();
    let theirs = ["2024.10", "cxisoft-12.7", "notes"].map(|name| fabric.join(name));
    for path in &theirs {
        std::fs::write(path, "a text of the user's").unwrap();
    }
    // An empty port is of a process that was killed while it created it.
    std::fs::write(fabric.join("cxisoft-12.3"), "").unwrap();
    let dev = open(0);
    assert_eq!(ports().len(), theirs.len() + 1);
    close(dev);
    for path in &theirs {
        assert_eq!(std::fs::read(path).unwrap(), b"a text of the user's");
        std::fs::remove_file(path).unwrap();
    }
    std::fs::remove_dir(&fabric).unwrap();
}
