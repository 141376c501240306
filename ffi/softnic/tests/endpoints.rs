//! Communication profiles and domains: VNIs and PIDs (libcxi.md 5, 6).

mod driver;

use std::ptr::null_mut;

use cxi_sys::*;
use driver::alone::{alone, ports};
use driver::call;
use driver::rig::{alloc_domain, alloc_lni, open};
use libc::{EEXIST, EINVAL, ENOENT, ENOSPC, EPERM};

fn cp(lni: *mut cxil_lni, vni: u32, tc: u32, tc_type: u32) -> Result<*mut cxi_cp, i32> {
    let mut cp = null_mut();
    match call!(cxil_alloc_cp(lni, vni, tc, tc_type, &mut cp)) {
        0 => Ok(cp),
        code => Err(-code),
    }
}

/// A profile of the class that all tools use.
fn best_effort(lni: *mut cxil_lni, vni: u32) -> Result<*mut cxi_cp, i32> {
    cp(lni, vni, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT)
}

fn lcid(cp: *mut cxi_cp) -> u32 {
    // SAFETY: alive.
    unsafe { (*cp).lcid }
}

/// The PID of a new domain.
fn domain(lni: *mut cxil_lni, vni: u32, pid: u32) -> Result<u32, i32> {
    let mut domain = null_mut();
    match call!(cxil_alloc_domain(lni, vni, pid, &mut domain)) {
        // SAFETY: just made.
        0 => Ok(unsafe { (*domain).pid }),
        code => Err(-code),
    }
}

/// Continues as a user without privileges.
fn become_ordinary() {
    // SAFETY: no requirements.
    if unsafe { libc::geteuid() } == 0 {
        // SAFETY: no requirements.
        assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
    }
}

#[test]
fn vnis_that_cannot_be() {
    alone(|| {
        let dev = open(0);
        let lni = alloc_lni(dev);
        for vni in [0, 65536, u32::MAX] {
            assert_eq!(best_effort(lni, vni), Err(EINVAL), "{vni}");
            assert_eq!(domain(lni, vni, C_PID_ANY), Err(EINVAL), "{vni}");
        }
        // Of the service whose only member is somebody else: nobody's exception, root or not.
        assert_eq!(best_effort(lni, 50), Err(EPERM));
        assert_eq!(domain(lni, 50, C_PID_ANY), Err(EPERM));
        for vni in [1, 10, 16, 31] {
            assert!(best_effort(lni, vni).is_ok(), "{vni}");
            assert_eq!(domain(lni, vni, C_PID_ANY), Ok(0), "{vni}");
        }
        assert_eq!(best_effort(null_mut(), 1), Err(EINVAL));
        assert_eq!(domain(null_mut(), 1, C_PID_ANY), Err(EINVAL));
        let nowhere = null_mut();
        assert_eq!(
            call!(cxil_alloc_domain(lni, 1, C_PID_ANY, nowhere)),
            -EINVAL
        );
        assert_eq!(call!(cxil_destroy_domain(null_mut())), -EINVAL);
        assert_eq!(call!(cxil_destroy_cp(null_mut())), -EINVAL);
        call!(cxil_close_device(dev));
    });
}

#[test]
fn vnis_of_no_service_are_for_root() {
    alone(|| {
        // SAFETY: no requirements.
        if unsafe { libc::geteuid() } == 0 {
            let dev = open(0);
            let lni = alloc_lni(dev);
            assert!(best_effort(lni, 999).is_ok());
            assert_eq!(domain(lni, 999, C_PID_ANY), Ok(0));
            call!(cxil_close_device(dev));
        }
        become_ordinary();
        let dev = open(0);
        let lni = alloc_lni(dev);
        // Nobody's, and a disabled service's, which is the same.
        for vni in [999, 40] {
            assert_eq!(best_effort(lni, vni), Err(ENOENT), "{vni}");
            assert_eq!(domain(lni, vni, C_PID_ANY), Err(ENOENT), "{vni}");
        }
        assert_eq!(cp(lni, 1, CXI_TC_ETH, CXI_TC_TYPE_DEFAULT), Err(EPERM));
        assert!(best_effort(lni, 1).is_ok());
        call!(cxil_close_device(dev));
    });
}

#[test]
fn traffic_classes() {
    alone(|| {
        let dev = open(0);
        let lni = alloc_lni(dev);
        let classes = [CXI_TC_BEST_EFFORT, CXI_TC_LOW_LATENCY, CXI_TC_BULK_DATA];
        for tc in classes {
            assert!(cp(lni, 1, tc, CXI_TC_TYPE_DEFAULT).is_ok(), "{tc}");
            assert!(cp(lni, 1, tc, CXI_TC_TYPE_RESTRICTED).is_ok(), "{tc}");
            let high_rate = cp(lni, 1, tc, CXI_TC_TYPE_HRP).err();
            let expected = (tc != CXI_TC_BEST_EFFORT).then_some(EINVAL);
            assert_eq!(high_rate, expected, "{tc}");
        }
        let dedicated = cp(lni, 1, CXI_TC_DEDICATED_ACCESS, CXI_TC_TYPE_DEFAULT);
        assert_eq!(dedicated, Err(EINVAL));
        assert_eq!(cp(lni, 1, 99, CXI_TC_TYPE_DEFAULT), Err(EINVAL));
        assert_eq!(cp(lni, 1, CXI_TC_BEST_EFFORT, 99), Err(EINVAL));
        call!(cxil_close_device(dev));
    });
}

#[test]
fn profiles_are_shared_and_sixteen() {
    alone(|| {
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
        assert_eq!(
            lcid(best_effort(lni, 1).unwrap()),
            0,
            "known ones are still to be had"
        );
        assert_eq!(call!(cxil_destroy_cp(others[4])), 0);
        assert_eq!(
            lcid(best_effort(lni, 31).unwrap()),
            5,
            "the lowest free one"
        );
        // One of three users goes: still there.
        assert_eq!(call!(cxil_destroy_cp(again)), 0);
        assert_eq!(lcid(best_effort(lni, 1).unwrap()), 0);
        // Each LNI has its own.
        assert_eq!(lcid(best_effort(alloc_lni(dev), 10).unwrap()), 0);
        call!(cxil_close_device(dev));
    });
}

#[test]
fn pids_are_unique_on_a_nic_and_vni() {
    alone(|| {
        let (dev, second, other) = (open(0), open(0), open(1));
        let lni = alloc_lni(dev);
        let neighbour = alloc_lni(second);
        for pid in [511 + 1, 1 << 16, u32::MAX] {
            assert_eq!(domain(lni, 1, pid), Err(EINVAL), "{pid}");
        }
        assert_eq!(domain(lni, 1, 0), Ok(0));
        assert_eq!(domain(lni, 1, 0), Err(EEXIST));
        assert_eq!(
            domain(neighbour, 1, 0),
            Err(EEXIST),
            "another user of the NIC"
        );
        assert_eq!(domain(neighbour, 1, 510), Ok(510), "the topmost");
        assert_eq!(domain(neighbour, 1, 2), Ok(2));
        // The lowest free one, whoever asks.
        assert_eq!(domain(lni, 1, C_PID_ANY), Ok(1));
        assert_eq!(domain(neighbour, 1, C_PID_ANY), Ok(3));
        // Another VNI and another NIC have PIDs of their own.
        assert_eq!(domain(lni, 10, C_PID_ANY), Ok(0));
        assert_eq!(domain(alloc_lni(other), 1, C_PID_ANY), Ok(0));
        // Given back one by one, or all with the device.
        let mut four = null_mut();
        assert_eq!(call!(cxil_alloc_domain(lni, 1, 4, &mut four)), 0);
        assert_eq!(domain(neighbour, 1, 4), Err(EEXIST));
        assert_eq!(call!(cxil_destroy_domain(four)), 0);
        assert_eq!(domain(neighbour, 1, 4), Ok(4));
        call!(cxil_close_device(dev));
        assert_eq!(domain(neighbour, 1, 0), Ok(0));
        call!(cxil_close_device(second));
        call!(cxil_close_device(other));
    });
}

#[test]
fn any_pid_until_there_is_none() {
    alone(|| {
        // One open device has room for 64 domains, a limit of this NIC.
        let devices: Vec<_> = (0..8).map(|_| open(0)).collect();
        let lnis: Vec<_> = devices.iter().map(|dev| alloc_lni(*dev)).collect();
        for pid in 0..510 {
            assert_eq!(domain(lnis[pid as usize / 64], 1, C_PID_ANY), Ok(pid));
        }
        assert_eq!(
            domain(lnis[7], 1, C_PID_ANY),
            Err(ENOSPC),
            "never the topmost"
        );
        assert_eq!(domain(lnis[7], 1, 510), Ok(510));
        assert_eq!(domain(lnis[7], 10, C_PID_ANY), Ok(0));
        assert_eq!(
            domain(lnis[7], 10, C_PID_ANY),
            Err(ENOSPC),
            "the 65th domain"
        );
        devices
            .iter()
            .for_each(|dev| call!(cxil_close_device(*dev)));
    });
}

#[test]
fn ports_come_and_go_with_devices() {
    alone(|| {
        assert_eq!(ports(), [""; 0]);
        let first = open(0);
        assert_eq!(ports(), ["cxisoft-12.0"]);
        let second = open(0);
        let other = open(1);
        assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-12.1", "cxisoft-13.0"]);
        call!(cxil_close_device(first));
        assert_eq!(ports(), ["cxisoft-12.1", "cxisoft-13.0"]);
        let again = open(0);
        assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-12.1", "cxisoft-13.0"]);
        let lni = alloc_lni(again);
        alloc_domain(lni, 1, C_PID_ANY);
        // Closed with all that hangs on it.
        for dev in [second, other, again] {
            call!(cxil_close_device(dev));
        }
        assert!(!driver::alone::fabric().exists());
    });
}

/// Whatever a directory holds besides, it keeps: also a file with the name of a port.
#[test]
fn files_of_others_stay() {
    alone(|| {
        let fabric = driver::alone::fabric();
        std::fs::create_dir(&fabric).unwrap();
        let theirs = ["2024.10", "cxisoft-12.7", "notes"].map(|name| fabric.join(name));
        for path in &theirs {
            std::fs::write(path, "a text of the user's").unwrap();
        }
        // What an owner left that died before its port was ready is ours.
        std::fs::write(fabric.join("cxisoft-12.3"), "").unwrap();
        let dev = open(0);
        assert_eq!(ports().len(), theirs.len() + 1);
        call!(cxil_close_device(dev));
        for path in &theirs {
            assert_eq!(std::fs::read(path).unwrap(), b"a text of the user's");
            std::fs::remove_file(path).unwrap();
        }
        std::fs::remove_dir(&fabric).unwrap();
    });
}
