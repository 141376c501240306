//! Devices and services: descriptions and access (libcxi.md 2 to 4).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use softnic::sysfs::Entry;

use crate::driver::prelude::*;

fn text(field: &[std::ffi::c_char]) -> String {
    let bytes = field.iter().map(|char| *char as u8);
    String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
}

fn service(dev: *mut cxil_dev, id: u32) -> Result<cxi_svc_desc, i32> {
    // SAFETY: integers, for which zero is a value.
    let mut desc: cxi_svc_desc = unsafe { std::mem::zeroed() };
    match call!(cxil_get_svc(dev, id, &mut desc)) {
        0 => Ok(desc),
        code => Err(-code),
    }
}

#[test]
fn lists_devices() {
    alone!();
    let mut list = null_mut();
    assert_eq!(call!(cxil_get_device_list(&mut list)), 0);
    // SAFETY: the list is alive until it is freed.
    let count = unsafe { (*list).count };
    assert_eq!(count, 4);
    // SAFETY: the list is alive until it is freed.
    let first: *const cxil_devinfo = unsafe { &raw const (*list).info }.cast();
    for id in 0..count {
        // SAFETY: the list has `count` entries and is not freed yet.
        let listed = unsafe { &*first.wrapping_add(id as usize) };
        assert_eq!(text(&listed.device_name), format!("soft{id}"));
        let dev = open(id);
        let info = info(dev);
        assert_eq!((listed.dev_id, nid(listed)), (info.dev_id, nid(&info)));
        assert_eq!(text(&listed.device_name), text(&info.device_name));
        close(dev);
    }
    call!(cxil_free_device_list(list));
    call!(cxil_free_device_list(null_mut()));
    assert_eq!(call!(cxil_get_device_list(null_mut())), -EINVAL);
}

#[test]
fn describes_device() {
    alone!();
    let (first, last) = (open(0), open(99));
    let (info, other) = (info(first), info(last));
    assert_eq!((info.dev_id, other.dev_id), (0, 99));
    assert_eq!(text(&other.device_name), "soft99");
    let pci_address = |info: &cxil_devinfo| (info.pci_domain, info.pci_bus, info.pci_device);
    assert_eq!(pci_address(&info), (0x5f00, 0, 0));
    assert_eq!(pci_address(&other), (0x5f00, 99, 0));
    assert_eq!(nid(&other), nid(&info) + 99);
    let pids = (info.pid_bits, info.pid_count, info.pid_granule);
    assert_eq!((pids, info.rdzv_get_idx), ((9, 511, 256), 255));
    let queues = (info.num_ptes, info.num_txqs, info.num_tgqs, info.num_eqs);
    assert_eq!(queues, (2048, 1024, 512, 2047));
    assert_eq!((info.num_cts, info.num_acs), (2047, 1022));
    assert_eq!((info.num_tles, info.num_les), (2048, 16384));
    let link = (info.link_mtu, info.link_state, info.is_vf);
    assert_eq!(link, (2112, 1, false));
    assert_eq!(info.device_platform, C_PLATFORM_NETSIM, "no hardware");
    assert_ne!(info.pct_eq, 0, "as if a retry handler ran");
    close(first);
    close(last);
    call!(cxil_close_device(null_mut()));
}

#[test]
fn rejects_missing_devices() {
    alone!();
    let mut dev = null_mut();
    for id in [100, 4711, u32::MAX] {
        assert_eq!(call!(cxil_open_device(id, &mut dev)), -ENOENT, "{id}");
    }
    assert!(dev.is_null());
    assert_eq!(call!(cxil_open_device(0, null_mut())), -EINVAL);
    assert!(!fabric().exists());
}

#[test]
fn describes_services() {
    alone!();
    let dev = open(0);
    let seen = |id: u32| {
        let desc = service(dev, id).unwrap();
        assert_eq!(desc.svc_id, id);
        let vnis = desc.vnis[..desc.num_vld_vnis.into()].to_vec();
        (
            desc.enable(),
            desc.restricted_vnis(),
            desc.restricted_members(),
            vnis,
        )
    };
    assert_eq!(seen(1), (1, 1, 0, vec![1, 10]));
    assert_eq!(seen(2), (1, 0, 0, vec![]));
    assert_eq!(seen(3), (0, 1, 0, vec![40]));
    assert_eq!(seen(4), (1, 1, 1, vec![50]));
    for id in [0, 5, u32::MAX] {
        assert_eq!(service(dev, id).err(), Some(EINVAL), "{id}");
    }
    assert_eq!(service(null_mut(), 1).err(), Some(EINVAL));
    assert_eq!(call!(cxil_get_svc(dev, 1, null_mut())), -EINVAL);
    let desc = service(dev, 1).unwrap();
    assert_eq!(
        (desc.tcs, desc.restricted_tcs()),
        ([true, true, true, true, false], 0)
    );
    // SAFETY: integers, all views of which are valid.
    let limits = unsafe { desc.limits.__bindgen_anon_1.__bindgen_anon_1 };
    assert_eq!((limits.tles.res, limits.tles.max), (512, 512));
    assert_eq!((limits.eqs.res, limits.eqs.max), (0, 2047));
    assert_eq!(
        (limits.txqs.max, limits.tgqs.max, limits.ptes.max),
        (1024, 512, 2047)
    );
    close(dev);
}

#[test]
fn returns_vni_range_of_service() {
    alone!();
    let dev = open(0);
    let range =
        |dev, id, min: *mut u16, max: *mut u16| call!(cxil_svc_get_vni_range(dev, id, min, max));
    let (mut min, mut max) = (0, 0);
    assert_eq!(range(dev, 2, &mut min, &mut max), 0);
    assert_eq!((min, max), (16, 31));
    for id in [0, 1, 5] {
        assert_eq!(range(dev, id, &mut min, &mut max), -EINVAL, "{id}");
    }
    assert_eq!(range(null_mut(), 2, &mut min, &mut max), -EINVAL);
    assert_eq!(range(dev, 2, null_mut(), &mut max), -EINVAL);
    assert_eq!(range(dev, 2, &mut min, null_mut()), -EINVAL);
    close(dev);
}

#[test]
fn admits_members_to_lni() {
    alone!();
    let dev = open(0);
    let mut lni = null_mut();
    let mut alloc = |dev, id| call!(cxil_alloc_lni(dev, &mut lni, id));
    assert_eq!(alloc(dev, 0), -EINVAL);
    assert_eq!(alloc(dev, 5), -EINVAL);
    assert_eq!(alloc(dev, 3), -EKEYREVOKED, "disabled");
    assert_eq!(alloc(dev, 4), -EPERM, "not a member, root or not");
    assert_eq!(alloc(null_mut(), 1), -EINVAL);
    assert_eq!(alloc(dev, 2), 0);
    assert_eq!(call!(cxil_alloc_lni(dev, null_mut(), 1)), -EINVAL);
    assert_eq!(call!(cxil_destroy_lni(lni)), 0);
    assert_eq!(call!(cxil_destroy_lni(null_mut())), -EINVAL);
    close(dev);
}

#[test]
fn limits_lnis_to_255() {
    alone!();
    let dev = open(0);
    let lnis: Vec<_> = (0..255).map(|_| alloc_lni(dev)).collect();
    let mut lni = null_mut();
    assert_eq!(call!(cxil_alloc_lni(dev, &mut lni, 1)), -ENOSPC);
    assert_eq!(call!(cxil_destroy_lni(lnis[17])), 0);
    alloc_lni(dev);
    close(dev);
}

#[test]
fn reads_devices_from_environment() {
    alone!();
    set("CXIDIAG_NICS", "2");
    set("CXIDIAG_NIDS", "0x77");
    let (mut list, mut dev) = (null_mut(), null_mut());
    assert_eq!(call!(cxil_get_device_list(&mut list)), 0);
    // SAFETY: the list is alive until it is freed.
    assert_eq!(unsafe { (*list).count }, 2);
    call!(cxil_free_device_list(list));
    assert_eq!(call!(cxil_open_device(2, &mut dev)), -ENOENT);
    let second = open(1);
    assert_eq!(nid(&info(second)), 0x78);
    close(second);
    for variable in ["NICS", "NIDS", "LINK", "FAULTS"] {
        let variable = format!("CXIDIAG_{variable}");
        set(&variable, "nonsense");
        assert_eq!(call!(cxil_open_device(0, &mut dev)), -EINVAL, "{variable}");
        set(&variable, "");
    }
    set("CXIDIAG_FABRIC_DIR", "/nowhere/at/all");
    assert_eq!(call!(cxil_open_device(0, &mut dev)), -ENOENT);
    set("CXIDIAG_FABRIC_DIR", "/proc");
    assert!(call!(cxil_open_device(0, &mut dev)) < 0);
}

#[test]
fn shows_software_nics_in_place_of_hardware() {
    alone!();
    let real = Path::new(env!("CARGO_TARGET_TMPDIR")).join("class");
    let _ = fs::remove_dir_all(&real);
    for link in [
        "net/lo",
        "net/hsn-soft0",
        "net/hsn9",
        "cxi/cxi0",
        "cxi/cxi9",
    ] {
        let link = real.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink("../../devices/real", link).unwrap();
    }
    let shown = softnic::sysfs::class_directory(&real).unwrap();
    let target = |link: &str| match shown.get(Path::new(link)) {
        Some(Entry::Link(target)) => target.to_str(),
        _ => None,
    };
    assert_eq!(target("net/lo"), Some("../../devices/real"));
    assert_eq!(target("net/hsn9"), Some("../../devices/real"));
    let device = "../softnic/5f00:00:00.0";
    assert_eq!(
        target("net/hsn-soft0"),
        Some(&*format!("{device}/net/hsn-soft0"))
    );
    assert_eq!(target("cxi/soft0"), Some(&*format!("{device}/cxi/soft0")));
    assert_eq!(target("cxi/cxi0"), None);
    assert_eq!(target("cxi/cxi9"), None);
}
