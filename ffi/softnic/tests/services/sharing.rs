//! Services shared by processes: killed processes, and damaged files in the directory.

use crate::driver::prelude::*;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;

use crate::desk::*;

const CT: usize = CXI_RSRC_TYPE_CT as usize;

/// Allocates counters until none is left, and returns their number.
fn counters(user: Lni, wanted: usize) -> usize {
    let mut ct = null_mut();
    let got = (0..wanted).take_while(|_| match call!(cxil_alloc_ct(user, null_mut(), &mut ct)) {
        0 => true,
        code => {
            assert_eq!(code, -ENOSPC);
            false
        }
    });
    got.count()
}

/// Executes lines of a word and a number, and returns each result as a line.
fn obedient() {
    let dev = open(0);
    let mut user = null_mut();
    say("here");
    while let Some(line) = listen() {
        let (what, number) = line.split_once(' ').unwrap();
        let number: u32 = number.parse().unwrap();
        match what {
            "lni" => {
                let found = lni(dev, number);
                say(&format!("{:?}", found.map(|_| ())));
                user = found.unwrap_or(user);
            }
            "counters" => say(&counters(user, number as usize).to_string()),
            "disable" => say(&format!("{:?}", enable(dev, number, false))),
            "create" => say(&format!("{:?}", alloc(dev, &plain(number as u16)))),
            _ => panic!("{line}"),
        }
    }
    close(dev);
}

/// Plays the role of this process; false in the main process.
fn played() -> bool {
    let other = role().is_some();
    if other {
        obedient();
    }
    other
}

fn partner() -> Partner {
    let mut partner = Partner::start("obedient");
    assert_eq!(partner.receive(), "here");
    partner
}

fn order(partner: &mut Partner, what: &str) -> String {
    partner.send(what);
    partner.receive()
}

/// The total of the NIC; a killed process uses nothing.
#[test]
fn two_processes_share_resources_of_nic() {
    alone!();
    if played() {
        return;
    }
    let mut other = partner();
    assert_eq!(order(&mut other, "lni 1"), "Ok(())");
    assert_eq!(order(&mut other, "counters 2000"), "2000");
    let dev = open(0);
    assert_eq!(used(dev, 1)[CT], 2000);
    let user = lni(dev, 2).unwrap();
    assert_eq!(counters(user, 100), 47);
    assert_eq!((used(dev, 1)[CT], used(dev, 2)[CT]), (2000, 47));
    assert_eq!(order(&mut other, "counters 1"), "0");
    other.kill();
    assert_eq!((used(dev, 1)[CT], used(dev, 2)[CT]), (0, 47));
    assert_eq!(counters(user, 100), 100);
    close(dev);
}

#[test]
fn two_processes_share_resources_of_service() {
    alone!();
    if played() {
        return;
    }
    let Some(dev) = administrator() else { return };
    let mut desc = plain(70);
    limit(&mut desc, CXI_RSRC_TYPE_CT, 5, 0);
    assert_eq!(alloc(dev, &desc), Ok(5));
    let mut other = partner();
    assert_eq!(order(&mut other, "lni 5"), "Ok(())");
    assert_eq!(order(&mut other, "counters 3"), "3");
    let user = lni(dev, 5).unwrap();
    assert_eq!(counters(user, 9), 2);
    assert_eq!(order(&mut other, "counters 1"), "0");
    assert_eq!(used(dev, 5)[CT], 5);
    other.kill();
    assert_eq!(used(dev, 5)[CT], 2);
    assert_eq!(counters(user, 9), 3);
    close(dev);
    let dev = open(0);
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
}

#[test]
fn user_in_other_process_keeps_service_busy() {
    alone!();
    if played() {
        return;
    }
    let Some(dev) = administrator() else { return };
    let mut other = partner();
    assert_eq!(order(&mut other, "lni 2"), "Ok(())");
    assert_eq!(enable(dev, 2, false), Err(EBUSY));
    other.kill();
    assert_eq!(enable(dev, 2, false), Ok(0));
    assert_eq!(enable(dev, 2, true), Ok(0));
    close(dev);
}

#[test]
fn later_processes_see_changes() {
    alone!();
    if played() {
        return;
    }
    let Some(dev) = administrator() else { return };
    let mut other = partner();
    assert_eq!(order(&mut other, "disable 1"), "Ok(0)");
    assert_eq!(order(&mut other, "create 70"), "Ok(5)");
    assert_eq!(lni(dev, 1).err(), Some(EKEYREVOKED));
    drop_lni(lni(dev, 5).unwrap());
    other.kill();
    close(dev);
    // The NIC is not open.
    assert_eq!(ports(), ["services-12"]);
    let mut later = partner();
    assert_eq!(order(&mut later, "lni 5"), "Ok(())");
    let refused = format!("Err({})", EKEYREVOKED);
    assert_eq!(order(&mut later, "lni 1"), refused);
    later.end();
    let dev = open(0);
    assert_eq!((enable(dev, 1, true), destroy(dev, 5)), (Ok(0), Ok(0)));
    close(dev);
}

fn file() -> PathBuf {
    fabric().join("services-12")
}

/// A file with the default service alone, with VNI 9.
const GOOD: &str = "cxidiag services 3: 1\n1 1 1 0 0 0 0 0 1 1 9 0 0 0 1 1 1 1 1 1 \
                    2047 0 1024 0 512 0 2047 0 2047 0 16384 0 2048 0 1022 0 0 0 0 1 0\n";

/// The calls refuse to disable a used service, but users can edit the file.
#[test]
fn rejects_allocation_after_service_is_disabled() {
    alone!();
    let dev = open(0);
    let (user, second) = (lni(dev, 1).unwrap(), lni(dev, 2).unwrap());
    let mut ct = null_mut();
    let mut alloc = |user| answered(call!(cxil_alloc_ct(user, null_mut(), &mut ct)));
    fs::write(file(), GOOD).unwrap();
    assert_eq!(alloc(user), Ok(0));
    assert_eq!(alloc(second), Err(EKEYREVOKED), "gone");
    fs::write(file(), GOOD.replacen("\n1 1", "\n1 0", 1)).unwrap();
    assert_eq!(alloc(user), Err(EKEYREVOKED), "disabled");
    fs::remove_file(file()).unwrap();
    assert_eq!((alloc(user), alloc(second)), (Ok(0), Ok(0)));
    close(dev);
}

/// Files of services that are cut off or changed.
fn damaged(good: &str) -> Vec<Vec<u8>> {
    let mut damaged: Vec<Vec<u8>> =
        [0, 1, good.len() / 3, good.len() - 1].map(|len| good.as_bytes()[..len].to_vec()).into();
    // Cut at the end of a line.
    let without_last = good.trim_end().rsplit_once('\n').unwrap().0;
    damaged.push(format!("{without_last}\n").into());
    damaged.push(format!("{good}\n").into());
    damaged.push(good.replace('1', "99999999999").into());
    damaged.push(good.replace(' ', "  ").into());
    damaged.push(good.replace('0', "-1").into());
    damaged.push(vec![0; 4096]);
    damaged.push(vec![0xff; 4096]);
    damaged.push(b"cxidiag services 1: 18446744073709551615\n".to_vec());
    damaged
}

/// Checks that all calls that need services fail with EIO.
fn fails(what: &str) {
    let dev = open(0);
    let mut list = null_mut();
    assert_eq!(get(dev, 1).err(), Some(EIO), "{what}");
    assert_eq!(lni(dev, 1).err(), Some(EIO), "{what}");
    assert_eq!(call!(cxil_get_svc_list(dev, &mut list)), -EIO, "{what}");
    assert_eq!(changes(dev, 2), [Err(EIO); 8], "{what}");
    close(dev);
}

#[test]
fn rejects_damaged_files() {
    alone!();
    // The open device keeps the directory.
    let dev = open(0);
    let user = lni(dev, 1).unwrap();
    let good = GOOD;
    fs::write(file(), good).unwrap();
    assert_eq!(get(dev, 1).map(|desc| desc.vnis[0]), Ok(9), "or this test shows nothing");
    for bytes in damaged(good) {
        fs::write(file(), &bytes).unwrap();
        fails(&String::from_utf8_lossy(&bytes));
    }
    let endless = fs::File::create(file()).unwrap();
    endless.set_len(1 << 40).unwrap();
    fails("a terabyte");
    fs::remove_file(file()).unwrap();
    let elsewhere = fabric().join("elsewhere");
    fs::write(&elsewhere, GOOD).unwrap();
    symlink(&elsewhere, file()).unwrap();
    fails("a link");
    fs::remove_file(file()).unwrap();
    fs::remove_file(elsewhere).unwrap();
    let name = std::ffi::CString::new(file().to_str().unwrap()).unwrap();
    // SAFETY: a path that ends with a NUL.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    fails("a pipe that nobody writes");
    fs::remove_file(file()).unwrap();
    fs::create_dir(file()).unwrap();
    fails("a directory");
    // Existing LNIs can be destroyed, and the services work again without the file.
    drop_lni(user);
    fs::remove_dir(file()).unwrap();
    drop_lni(lni(dev, 1).unwrap());
    close(dev);
}

#[test]
fn removes_files_of_interrupted_writers() {
    alone!();
    fs::create_dir(fabric()).unwrap();
    let names = ["services-12.new", "services-13.new", "services-none.new"];
    for name in names {
        fs::write(fabric().join(name), "cxidiag ser").unwrap();
    }
    let dev = open(0);
    assert_eq!(ports(), ["cxisoft-12.0", "services-none.new"], "the last is none of ours");
    assert_eq!(ids(dev), [1, 2, 3, 4]);
    fs::remove_file(fabric().join(names[2])).unwrap();
    // One may appear while the device is open.
    fs::write(fabric().join(names[0]), "cxidiag ser").unwrap();
    if is_root() {
        assert_eq!(enable(dev, 3, true), Ok(0));
        assert_eq!(ports(), ["cxisoft-12.0", "services-12"]);
        assert_eq!(enable(dev, 3, false), Ok(0));
    }
    close(dev);
    fs::remove_dir_all(fabric()).unwrap();
}

/// Where a port has the uses of its LNIs.
const USES_AT: u64 = 20480;

/// Bytes of an LNI there.
const USE_LEN: usize = 96;

/// Where a port has the number of these records.
const COUNT_AT: u64 = 136;

/// Returns what 256 LNIs of a service claim: maximal uses, each in an RGID of its own.
fn claims(service: u32, first_rgid: u16) -> Vec<u8> {
    let mut claims = vec![0xff; 256 * USE_LEN];
    for (claim, rgid) in claims.chunks_exact_mut(USE_LEN).zip(first_rgid..) {
        claim[..4].copy_from_slice(&service.to_le_bytes());
        claim[4..6].copy_from_slice(&rgid.to_le_bytes());
    }
    claims
}

/// The uses in another process's port are not trusted.
#[test]
fn survives_false_claims_of_ports() {
    alone!();
    let (dev, other) = (open(0), open(0));
    let port = fs::OpenOptions::new().write(true).open(fabric().join("cxisoft-12.1")).unwrap();
    port.write_all_at(&256_u64.to_le_bytes(), COUNT_AT).unwrap();
    port.write_all_at(&claims(1, 0), USES_AT).unwrap();
    assert_eq!(used(dev, 1), [u16::MAX; KINDS]);
    assert_eq!(lni(dev, 1).err(), Some(ENOSPC));
    assert_eq!(lni(dev, 2).err(), Some(ENOSPC));
    // LNIs of an unknown service, in RGIDs that no NIC has.
    port.write_all_at(&claims(u32::MAX, 1000), USES_AT).unwrap();
    assert_eq!(used(dev, 1), [0; KINDS]);
    let user = lni(dev, 1).unwrap();
    assert_eq!(counters(user, 1), 1);
    assert_eq!(profile(user, 1, CXI_TC_BEST_EFFORT).err(), Some(ENOSPC));
    close(other);
    assert!(profile(user, 1, CXI_TC_BEST_EFFORT).is_ok());
    close(dev);
}
