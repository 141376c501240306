//! Services belong to the NIC: several processes, deaths, and what may lie about in the directory.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use std::ptr::null_mut;

use cxi_sys::*;
use libc::{EBUSY, EIO, EKEYREVOKED, ENOSPC};

use crate::desk::*;
use crate::driver::alone::{Partner, alone, fabric, listen, ports, role, say};
use crate::driver::rig::open;

const CT: usize = CXI_RSRC_TYPE_CT as usize;

/// Counters that an LNI gets until it gets no more.
fn counters(user: Lni, wanted: usize) -> usize {
    let mut ct = null_mut();
    let got = (0..wanted).take_while(|_| match ask!(cxil_alloc_ct(user, null_mut(), &mut ct)) {
        0 => true,
        code => {
            assert_eq!(code, -ENOSPC);
            false
        }
    });
    got.count()
}

/// A process that does what it hears, one word and a number a line, and says how it went.
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
    ask!(cxil_close_device(dev));
}

/// Plays the part that this process was started for; false for the main one.
fn played() -> bool {
    let other = role().is_some();
    if other {
        obedient();
    }
    other
}

fn partner(test: &str) -> Partner {
    let mut partner = Partner::start(&format!("sharing::{test}"), "obedient");
    assert_eq!(partner.hear(), "here");
    partner
}

fn order(partner: &mut Partner, what: &str) -> String {
    partner.tell(what);
    partner.hear()
}

/// Without any privilege: the NIC's own total is shared by two processes, and a dead one uses nothing.
#[test]
fn two_processes_share_the_nic() {
    alone(|| {
        if played() {
            return;
        }
        let mut other = partner("two_processes_share_the_nic");
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
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn two_processes_share_a_service() {
    alone(|| {
        if played() {
            return;
        }
        let Some(dev) = administrator() else { return };
        let mut desc = plain(70);
        limit(&mut desc, CXI_RSRC_TYPE_CT, 5, 0);
        assert_eq!(alloc(dev, &desc), Ok(5));
        let mut other = partner("two_processes_share_a_service");
        assert_eq!(order(&mut other, "lni 5"), "Ok(())");
        assert_eq!(order(&mut other, "counters 3"), "3");
        let user = lni(dev, 5).unwrap();
        assert_eq!(counters(user, 9), 2);
        assert_eq!(order(&mut other, "counters 1"), "0");
        assert_eq!(used(dev, 5)[CT], 5);
        other.kill();
        assert_eq!(used(dev, 5)[CT], 2);
        assert_eq!(counters(user, 9), 3);
        ask!(cxil_close_device(dev));
        let dev = open(0);
        assert_eq!(destroy(dev, 5), Ok(0));
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn a_user_elsewhere_keeps_a_service_busy() {
    alone(|| {
        if played() {
            return;
        }
        let Some(dev) = administrator() else { return };
        let mut other = partner("a_user_elsewhere_keeps_a_service_busy");
        assert_eq!(order(&mut other, "lni 2"), "Ok(())");
        assert_eq!(enable(dev, 2, false), Err(EBUSY));
        other.kill();
        assert_eq!(enable(dev, 2, false), Ok(0));
        assert_eq!(enable(dev, 2, true), Ok(0));
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn others_see_changes_also_later() {
    alone(|| {
        if played() {
            return;
        }
        let Some(dev) = administrator() else { return };
        let mut other = partner("others_see_changes_also_later");
        assert_eq!(order(&mut other, "disable 1"), "Ok(0)");
        assert_eq!(order(&mut other, "create 70"), "Ok(5)");
        assert_eq!(lni(dev, 1).err(), Some(EKEYREVOKED));
        drop_lni(lni(dev, 5).unwrap());
        other.kill();
        ask!(cxil_close_device(dev));
        // Nobody has the NIC open.
        assert_eq!(ports(), ["services-12"]);
        let mut later = partner("others_see_changes_also_later");
        assert_eq!(order(&mut later, "lni 5"), "Ok(())");
        let refused = format!("Err({})", EKEYREVOKED);
        assert_eq!(order(&mut later, "lni 1"), refused);
        later.end();
        let dev = open(0);
        assert_eq!((enable(dev, 1, true), destroy(dev, 5)), (Ok(0), Ok(0)));
        ask!(cxil_close_device(dev));
    });
}

fn file() -> PathBuf {
    fabric().join("services-12")
}

/// A file that has the default service alone, with VNI 9.
const GOOD: &str = "cxidiag services 1: 1\n1 1 1 0 0 0 0 0 1 1 9 0 0 0 1 1 1 1 1 1 \
                    2047 0 1024 0 512 0 2047 0 2047 0 16384 0 2048 0 1022 0 0 1 0 0\n";

/// Without calls, nobody disables a service that has users. But files can be changed by hand.
#[test]
fn a_service_disabled_meanwhile() {
    alone(|| {
        let dev = open(0);
        let (user, second) = (lni(dev, 1).unwrap(), lni(dev, 2).unwrap());
        let mut ct = null_mut();
        let mut alloc = |user| answered(ask!(cxil_alloc_ct(user, null_mut(), &mut ct)));
        fs::write(file(), GOOD).unwrap();
        assert_eq!(alloc(user), Ok(0));
        assert_eq!(alloc(second), Err(EKEYREVOKED), "gone");
        fs::write(file(), GOOD.replacen("\n1 1", "\n1 0", 1)).unwrap();
        assert_eq!(alloc(user), Err(EKEYREVOKED), "disabled");
        fs::remove_file(file()).unwrap();
        assert_eq!((alloc(user), alloc(second)), (Ok(0), Ok(0)));
        ask!(cxil_close_device(dev));
    });
}

/// A file of services that nobody can have written, as a good one is cut off or changed.
fn damaged(good: &str) -> Vec<Vec<u8>> {
    let mut damaged: Vec<Vec<u8>> = [0, 1, good.len() / 3, good.len() - 1]
        .map(|len| good.as_bytes()[..len].to_vec())
        .into();
    // Also at the end of a line.
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

/// Whether all that needs services fails with EIO, and the rest goes on.
fn fails(what: &str) {
    let dev = open(0);
    let mut list = null_mut();
    assert_eq!(get(dev, 1).err(), Some(EIO), "{what}");
    assert_eq!(lni(dev, 1).err(), Some(EIO), "{what}");
    assert_eq!(ask!(cxil_get_svc_list(dev, &mut list)), -EIO, "{what}");
    assert_eq!(changes(dev, 2), [Err(EIO); 8], "{what}");
    ask!(cxil_close_device(dev));
}

#[test]
fn hostile_files() {
    alone(|| {
        // Keeps the directory.
        let dev = open(0);
        let user = lni(dev, 1).unwrap();
        let good = GOOD;
        fs::write(file(), good).unwrap();
        assert_eq!(
            get(dev, 1).map(|desc| desc.vnis[0]),
            Ok(9),
            "or this test shows nothing"
        );
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
        // What was there before can be released meanwhile, and all is well without the file.
        drop_lni(user);
        fs::remove_dir(file()).unwrap();
        drop_lni(lni(dev, 1).unwrap());
        ask!(cxil_close_device(dev));
    });
}

#[test]
fn who_dies_at_writing_leaves_nothing() {
    alone(|| {
        fs::create_dir(fabric()).unwrap();
        let names = ["services-12.new", "services-13.new", "services-none.new"];
        for name in names {
            fs::write(fabric().join(name), "cxidiag ser").unwrap();
        }
        let dev = open(0);
        assert_eq!(
            ports(),
            ["cxisoft-12.0", "services-none.new"],
            "the last is none of ours"
        );
        assert_eq!(ids(dev), [1, 2, 3, 4]);
        fs::remove_file(fabric().join(names[2])).unwrap();
        ask!(cxil_close_device(dev));
    });
}

/// What another port says it uses is a claim, no more.
#[test]
fn hostile_ports() {
    alone(|| {
        let (dev, other) = (open(0), open(0));
        let port = fs::OpenOptions::new()
            .write(true)
            .open(fabric().join("cxisoft-12.1"))
            .unwrap();
        // 256 LNIs of the default service, with all that can be said of each.
        let mut claims = [0xff; 256 * 32];
        for claim in claims.chunks_exact_mut(32) {
            claim[..8].copy_from_slice(&1_u64.to_le_bytes());
        }
        port.write_all_at(&claims, 4096).unwrap();
        assert_eq!(used(dev, 1), [u16::MAX; KINDS]);
        assert_eq!(lni(dev, 1).err(), Some(ENOSPC));
        assert_eq!(lni(dev, 2).err(), Some(ENOSPC));
        // Of services that are not there.
        port.write_all_at(&[0xff; 256 * 32], 4096).unwrap();
        assert_eq!(used(dev, 1), [0; KINDS]);
        let user = lni(dev, 1).unwrap();
        assert_eq!(counters(user, 1), 1);
        assert_eq!(profile(user, 1, CXI_TC_BEST_EFFORT).err(), Some(ENOSPC));
        ask!(cxil_close_device(other));
        assert!(profile(user, 1, CXI_TC_BEST_EFFORT).is_ok());
        ask!(cxil_close_device(dev));
    });
}
