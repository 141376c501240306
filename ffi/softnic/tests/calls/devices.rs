//! Devices, services and endpoints: descriptions and access, and the VNIs and PIDs of communication
//! profiles and domains (libcxi.md 2 to 6).

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
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

/// The files of the first NIC in the tree of `cxi-softnic`.
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
