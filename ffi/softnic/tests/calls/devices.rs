//! Devices and services: descriptions and access (libcxi.md 2 to 4).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use softnic::sysfs::SysfsEntry;

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
        (desc.enable(), desc.restricted_vnis(), desc.restricted_members(), vnis)
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
    assert_eq!((desc.tcs, desc.restricted_tcs()), ([true, true, true, true, false], 0));
    // SAFETY: integers, all views of which are valid.
    let limits = unsafe { desc.limits.__bindgen_anon_1.__bindgen_anon_1 };
    assert_eq!((limits.tles.res, limits.tles.max), (512, 512));
    assert_eq!((limits.eqs.res, limits.eqs.max), (0, 2047));
    assert_eq!((limits.txqs.max, limits.tgqs.max, limits.ptes.max), (1024, 512, 2047));
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
    let real = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sys");
    let _ = fs::remove_dir_all(&real);
    for link in [
        "class/net/lo",
        "class/net/hsn-soft0",
        "class/net/hsn9",
        "class/cxi/cxi0",
        "class/cxi/cxi9",
        "bus/pci/devices/0000:c1:00.0",
    ] {
        let link = real.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink("../../devices/real", link).unwrap();
    }
    let shown = softnic::sysfs::class_directory(&real).unwrap();
    let target = |link: &str| match shown.get(Path::new(link)) {
        Some(SysfsEntry::Link(target)) => target.to_str(),
        _ => None,
    };
    assert_eq!(target("net/lo"), Some("../../devices/real"));
    assert_eq!(target("net/hsn9"), Some("../../devices/real"));
    let device = "softnic/pci5f00:00/5f00:00:00.0";
    for (class, name) in [("net", "hsn-soft0"), ("cxi", "soft0"), ("cxi_user", "soft0")] {
        let place = format!("{device}/{class}/{name}");
        let shown = target(&format!("{class}/{name}"));
        assert_eq!(shown, Some(&*format!("../{place}")));
        // libfabric takes the last component of this text as the PCI address.
        let device = target(&format!("{place}/device"));
        assert_eq!(device, Some("../../../5f00:00:00.0"));
    }
    assert_eq!(target("cxi/cxi0"), None);
    assert_eq!(target("cxi/cxi9"), None);
    let listed = |address: &str| target(&format!("softnic/pci_devices/{address}"));
    assert_eq!(listed("0000:c1:00.0"), Some("../../devices/real"));
    let leads_to_device = format!("../../../class/{device}");
    assert_eq!(listed("5f00:00:00.0"), Some(&*leads_to_device));
}

/// The device is below its bridges, and all links still lead to it.
#[test]
fn shows_planted_bridges_above_device() {
    alone!();
    set("CXIDIAG_FAULTS", "pcie-path=16@16/8@16");
    let shown = softnic::sysfs::class_directory(Path::new("/nowhere")).unwrap();
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bridges");
    let _ = fs::remove_dir_all(&tree);
    let class = tree.join("sys/class");
    softnic::sysfs::write(&class, &shown).unwrap();
    let resolved = |path: &str| fs::canonicalize(class.join(path)).unwrap();
    let device = resolved("cxi/soft0/device");
    let width = |path: &Path| fs::read_to_string(path.join("current_link_width")).unwrap();
    assert_eq!(width(&device), "8\n");
    let root_port = device.ancestors().nth(3).unwrap();
    assert_eq!(width(root_port), "16\n");
    assert!(root_port.parent().unwrap().ends_with("pci5f00:00"));
    assert_eq!(resolved("net/hsn-soft0/device"), device);
    // The list of PCI devices is mounted elsewhere: its links are from `/sys/bus/pci/devices`.
    let in_list = Path::new("softnic/pci_devices/5f00:00:00.0");
    let Some(SysfsEntry::Link(target)) = shown.get(in_list) else {
        panic!("no link");
    };
    let list = tree.join("sys/bus/pci/devices");
    fs::create_dir_all(&list).unwrap();
    assert_eq!(fs::canonicalize(list.join(target)).unwrap(), device);
    fs::remove_dir_all(&tree).unwrap();
}

/// Device plugins find virtual functions by these links and counts of the kernel.
#[test]
fn links_virtual_functions_with_their_nic() {
    alone!();
    set("CXIDIAG_SHS", "next");
    set("CXIDIAG_NICS", "4");
    set("CXIDIAG_NIDS", "0x12,0x300012,0x13,0x100012");
    set("CXIDIAG_FAULTS", "nic=0,pcie-path=16@16/8@16");
    let shown = softnic::sysfs::class_directory(Path::new("/nowhere")).unwrap();
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("functions");
    let _ = fs::remove_dir_all(&tree);
    softnic::sysfs::write(&tree, &shown).unwrap();
    let device = |number: u32| tree.join(format!("cxi/soft{number}/device"));
    let resolved = |path: &Path| fs::canonicalize(path).unwrap();
    let text = |file: &str| fs::read_to_string(device(0).join(file)).unwrap();
    assert_eq!((text("sriov_totalvfs"), text("sriov_numvfs")), ("63\n".into(), "2\n".into()));
    for (link, number) in [("virtfn2", 1), ("virtfn0", 3)] {
        assert_eq!(resolved(&device(0).join(link)), resolved(&device(number)));
        assert_eq!(resolved(&device(number).join("physfn")), resolved(&device(0)));
        assert!(!device(number).join("sriov_totalvfs").exists());
    }
    let alias = "pci:v00001590d00000372sv00001590sd00000372bc02sc00i00";
    let read = |file: &str| fs::read_to_string(device(3).join(file)).unwrap();
    assert_eq!(read("modalias"), format!("{alias}\n"));
    let event = read("uevent");
    assert!(event.contains("\nPCI_CLASS=20000\nPCI_ID=1590:0372\n"), "{event}");
    assert!(event.contains(&format!("\nMODALIAS={alias}\n")), "{event}");
    for name in ["sriov_totalvfs", "sriov_numvfs", "virtfn0", "physfn"] {
        assert!(!device(2).join(name).exists(), "{name}");
    }
    fs::remove_dir_all(&tree).unwrap();
    for variable in ["CXIDIAG_FAULTS", "CXIDIAG_NIDS", "CXIDIAG_NICS", "CXIDIAG_SHS"] {
        set(variable, "");
    }
}

/// Returns the files of the first NIC in the tree of `cxi-softnic`.
fn shown_files() -> BTreeMap<String, Vec<u8>> {
    let shown = softnic::sysfs::class_directory(Path::new("/nowhere")).unwrap();
    let device = Path::new("softnic/pci5f00:00/5f00:00:00.0");
    let files = shown.into_iter().filter_map(|(path, entry)| {
        let name = path.strip_prefix(device).ok()?.to_str()?.to_owned();
        match entry {
            SysfsEntry::File(content) => Some((name, content)),
            SysfsEntry::Link(_) => None,
        }
    });
    files.collect()
}

#[test]
fn shows_configuration_space_of_pci_device() {
    alone!();
    set("CXIDIAG_FAULTS", "pcie-width=8,pcie-speed=2.5");
    let files = shown_files();
    let space = &files["config"];
    assert_eq!(space.len(), 256);
    let word = |at: usize| u16::from_le_bytes([space[at], space[at + 1]]);
    for (ids, name) in [(0x00, "the device"), (0x2c, "the card")] {
        assert_eq!((word(ids), word(ids + 2)), (0x1590, 0x0371), "{name}");
    }
    assert_eq!(word(0x0a), 0x0200, "the class");
    assert_eq!(word(0x06) & 0x10, 0x10, "there are capabilities");
    let capability = usize::from(space[0x34]);
    assert_eq!(word(capability), 0x10, "PCI Express, and no further one");
    assert_eq!(word(capability + 0x0c), 16 << 4 | 4, "at most 16 GT/s x16");
    assert_eq!(word(capability + 0x12), 8 << 4 | 1, "now 2.5 GT/s x8");
}

/// Without faults 0 errors are the truth. A file that is written once cannot show how a count
/// rises.
#[test]
fn shows_no_count_of_pcie_errors_that_rises() {
    const CORRECTED: [&str; 2] = ["aer_dev_correctable", "properties/pcie_corr_err"];
    alone!();
    let files = shown_files();
    let contents = CORRECTED.map(|name| files.get(name).map(Vec::as_slice));
    assert_eq!(contents, [Some(&b"TOTAL_ERR_COR 0\n"[..]), Some(b"0\n")]);
    set("CXIDIAG_FAULTS", "pcie-errors=1000");
    let files = shown_files();
    assert!(!CORRECTED.iter().any(|name| files.contains_key(*name)));
    assert_eq!(files["aer_dev_nonfatal"], b"TOTAL_ERR_NONFATAL 0\n");
    assert_eq!(files["aer_dev_fatal"], b"TOTAL_ERR_FATAL 0\n");
    assert_eq!(files["properties/pcie_uncorr_err"], b"0\n");
}
