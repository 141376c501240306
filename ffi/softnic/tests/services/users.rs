//! Users: an open device after a change of user, and several users on one fabric (libcxi.md 1).

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use libc::EACCES;

use crate::desk::*;
use crate::driver::prelude::*;

/// The group of the shared directory.
const GROUP: u32 = 4711;

/// A user whom no service names.
const NOBODY: u32 = 65534;

/// Whether this process can become other users; prints a line otherwise.
fn can_change_users() -> bool {
    if !is_root() {
        println!("not tested here: only root can change its user");
    }
    is_root()
}

fn set_effective_user(user: u32) {
    // SAFETY: the system call has no requirements.
    assert_eq!(unsafe { libc::seteuid(user) }, 0);
}

fn set_effective_group(group: u32) {
    // SAFETY: the system call has no requirements.
    assert_eq!(unsafe { libc::setegid(group) }, 0);
}

/// Becomes a user for good, with these groups besides one of its own.
fn become_user(user: u32, groups: &[u32]) {
    // SAFETY: the pointer leads to `groups`, which has this length.
    assert_eq!(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) }, 0);
    // SAFETY: the system call has no requirements.
    assert_eq!(unsafe { libc::setresgid(user, user, user) }, 0);
    // SAFETY: the system call has no requirements.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
}

/// Makes the directory of the fabric with these permissions.
fn make_directory(mode: u32) {
    fs::create_dir(fabric()).unwrap();
    set_mode(mode);
}

fn set_mode(mode: u32) {
    fs::set_permissions(fabric(), Permissions::from_mode(mode)).unwrap();
}

/// Opens and closes device 0; an errno if that fails.
fn try_open() -> Result<(), i32> {
    let mut dev = null_mut();
    answered(call!(cxil_open_device(0, &mut dev)))?;
    close(dev);
    Ok(())
}

#[test]
fn open_device_survives_change_of_effective_user() {
    alone!();
    if !can_change_users() {
        return;
    }
    let (mut rig, mut target) = (Rig::on(0), Rig::on(1));
    let (source, sink) = (rig.buffer(PAGE), target.buffer(PAGE));
    target.target(0, &sink);
    assert_eq!(alloc(rig.dev, &for_member(70, CXI_SVC_MEMBER_UID, 0)), Ok(5));
    let member = for_member(71, CXI_SVC_MEMBER_UID, NOBODY);
    assert_eq!(alloc(rig.dev, &member), Ok(6));
    set_effective_user(NOBODY);
    // Membership follows the effective user.
    assert_eq!(lni(rig.dev, 5).err(), Some(EPERM));
    let user = lni(rig.dev, 6).unwrap();
    assert_eq!(domain(user, 71, C_PID_ANY), Ok(0));
    assert_eq!(domain(user, 70, C_PID_ANY), Err(EPERM));
    assert_eq!(domain(user, 999, C_PID_ANY), Err(ENOENT));
    assert_eq!(alloc(rig.dev, &plain(72)), Err(EPERM));
    // The NICs have exchanged no packet before.
    source.pages.fill(7);
    let (dfa, _) = address(target.nid, target.pid, 0);
    rig.tx.issue(&rig.put_to(dfa, &source, 8));
    let event = wait_for("the ACK", || {
        progress(target.dev);
        rig.eq.poll()
    });
    assert_eq!(event.code(), C_RC_OK);
    assert!(sink.pages.is(0, 8, 7));
    // SAFETY: the system call has no requirements; it changes nothing for an invalid user.
    let file_user = unsafe { libc::setfsuid(u32::MAX) };
    assert_eq!(file_user.cast_unsigned(), NOBODY, "after the calls");
    // Closing removes the port.
    drop(target);
    set_effective_user(0);
    assert_eq!(ports(), ["cxisoft-12.0", "services-12"]);
    assert_eq!(lni(rig.dev, 6).err(), Some(EPERM));
    drop(rig);
    let dev = open(0);
    assert_eq!((destroy(dev, 5), destroy(dev, 6)), (Ok(0), Ok(0)));
    close(dev);
}

/// Devices that a program opens as another effective user are on the fabric of its first device,
/// and find the services of the new user there.
#[test]
fn later_devices_find_services_of_new_effective_user() {
    alone!();
    if !can_change_users() {
        return;
    }
    let dev = open(0);
    let member = for_member(70, CXI_SVC_MEMBER_UID, NOBODY);
    assert_eq!(alloc(dev, &member), Ok(5));
    let group = for_member(71, CXI_SVC_MEMBER_GID, NOBODY);
    assert_eq!(alloc(dev, &group), Ok(6));
    for is_open in [true, false] {
        if !is_open {
            close(dev);
        }
        let look_up = || {
            let dev = open(0);
            assert_eq!(ids(dev), [1, 2, 3, 4, 5, 6]);
            let found = [5, 6].map(|id| lni(dev, id).is_ok());
            close(dev);
            found
        };
        assert_eq!(look_up(), [false, false]);
        set_effective_group(NOBODY);
        assert_eq!(look_up(), [false, true]);
        set_effective_user(NOBODY);
        assert_eq!(look_up(), [true, true]);
        // The kernel gives the rights of root back with its effective user only.
        set_effective_user(0);
        set_effective_group(0);
    }
    let dev = open(0);
    assert_eq!((destroy(dev, 5), destroy(dev, 6)), (Ok(0), Ok(0)));
    close(dev);
    // The directory of the fabric is made for its first user too.
    set_effective_user(NOBODY);
    assert_eq!(try_open(), Ok(()));
    set_effective_user(0);
}

#[test]
fn service_of_job_stays_with_its_user() {
    alone!();
    if !can_change_users() {
        return;
    }
    set("CXIDIAG_SERVICES", "job");
    let dev = open(0);
    drop_lni(lni(dev, 5).unwrap());
    set_effective_user(NOBODY);
    let later = open(0);
    for dev in [dev, later] {
        assert_eq!(lni(dev, 5).err(), Some(EPERM));
    }
    set_effective_user(0);
    close(later);
    close(dev);
}

#[test]
fn devices_in_directory_of_group_survive_change_of_effective_group() {
    alone!();
    if role().is_some() {
        // The directory is open to this user through the effective group only.
        // SAFETY: a null pointer is valid for no groups.
        assert_eq!(unsafe { libc::setgroups(0, std::ptr::null()) }, 0);
        // SAFETY: the system call has no requirements.
        assert_eq!(unsafe { libc::setresgid(GROUP, GROUP, 1001) }, 0);
        // SAFETY: the system call has no requirements.
        assert_eq!(unsafe { libc::setresuid(1001, 1001, 1001) }, 0);
        let dev = open(0);
        assert_eq!(lni(dev, 5).err(), Some(EPERM));
        set_effective_group(1001);
        drop_lni(lni(dev, 5).unwrap());
        let later = open(0);
        drop_lni(lni(later, 5).unwrap());
        close(later);
        close(dev);
        return;
    }
    if !can_change_users() {
        return;
    }
    make_directory(0o700);
    chown(fabric(), None, Some(GROUP)).unwrap();
    set_mode(0o2770);
    let dev = open(0);
    let member = for_member(70, CXI_SVC_MEMBER_GID, 1001);
    assert_eq!(alloc(dev, &member), Ok(5));
    Partner::start("member").end();
    assert_eq!(destroy(dev, 5), Ok(0));
    close(dev);
    fs::remove_dir(fabric()).unwrap();
}

#[test]
fn open_device_needs_the_user_who_opened_it() {
    alone!();
    if role().is_some() {
        let dev = open(0);
        let user = lni(dev, 1).unwrap();
        become_user(NOBODY, &[]);
        assert_eq!(lni(dev, 1).err(), Some(EACCES));
        assert_eq!(domain(user, 1, C_PID_ANY), Err(EACCES));
        drop_lni(user);
        close(dev);
        return;
    }
    if !can_change_users() {
        return;
    }
    Partner::start("gives up").end();
    assert_eq!(ports(), ["cxisoft-12.0"], "the user may not remove it");
    assert_eq!(try_open(), Ok(()));
    assert_eq!(ports(), [""; 0]);
}

#[test]
fn rejects_directory_that_strangers_can_write() {
    alone!();
    make_directory(0o700);
    for (mode, result) in [
        (0o755, Ok(())),
        (0o770, Err(EACCES)),
        (0o702, Err(EACCES)),
        (0o2775, Err(EACCES)),
        (0o2771, Err(EACCES)),
        (0o2770, Ok(())),
        (0o3770, Ok(())),
    ] {
        if !fabric().exists() {
            make_directory(mode);
        }
        set_mode(mode);
        assert_eq!(try_open(), result, "{mode:o}");
    }
    assert!(fabric().exists(), "a shared directory stays");
    if can_change_users() {
        for (owner, mode, result) in
            [(NOBODY, 0o700, Err(EACCES)), (NOBODY, 0o2770, Err(EACCES)), (0, 0o2770, Ok(()))]
        {
            chown(fabric(), Some(owner), None).unwrap();
            set_mode(mode);
            assert_eq!(try_open(), result, "{owner} {mode:o}");
        }
        chown(fabric(), Some(NOBODY), None).unwrap();
        in_child(|| {
            become_user(NOBODY, &[]);
            try_open() == Ok(())
        });
    }
    fs::remove_dir(fabric()).unwrap();
}

/// Plays the role of this process, named after its user, until its input ends; false in the main
/// process.
fn played() -> bool {
    let Some(role) = role() else {
        return false;
    };
    match role.as_str() {
        "1001" => target(),
        "1002" => initiator(),
        "1003" => {
            become_user(1003, &[GROUP]);
            let dev = open(0);
            assert_eq!(lni(dev, 1).err(), Some(EPERM), "not a member");
            close(dev);
        }
        "1004" => {
            become_user(1004, &[]);
            assert_eq!(try_open(), Err(EACCES), "not in the group");
        }
        _ => panic!("unknown role {role}"),
    }
    true
}

fn target() {
    become_user(1001, &[GROUP]);
    let mut rig = Rig::on(0);
    let sink = rig.buffer(PAGE);
    rig.target(0, &sink);
    say(&format!("{} {}", rig.nid, rig.pid));
    while listen().is_some() {
        say(&sink.pages.is(0, PAGE, 0x5a).to_string());
    }
}

fn initiator() {
    become_user(1002, &[GROUP]);
    let mut rig = Rig::on(1);
    let source = rig.buffer(PAGE);
    source.pages.fill(0x5a);
    let dfa = listen().unwrap().parse().unwrap();
    let put = rig.put_to(dfa, &source, PAGE);
    say(&rig.code(&put).to_string());
}

#[test]
fn users_of_group_meet_in_its_directory() {
    alone!();
    if played() {
        return;
    }
    if !can_change_users() {
        return;
    }
    // Files get their permissions in spite of the mask.
    // SAFETY: the system call has no requirements.
    unsafe { libc::umask(0o077) };
    make_directory(0o700);
    chown(fabric(), None, Some(GROUP)).unwrap();
    set_mode(0o2770);
    for id in [0, 1] {
        let dev = open(id);
        let mut default = get(dev, 1).unwrap();
        default.set_restricted_members(1);
        for (member, uid) in default.members.iter_mut().zip([1001, 1002]) {
            member.type_ = CXI_SVC_MEMBER_UID;
            member.svc_member.uid = uid;
        }
        assert_eq!(update(dev, &default), Ok(0));
        close(dev);
    }
    assert_eq!(ports(), ["services-12", "services-13"]);
    let (mut first, mut second) = (Partner::start("1001"), Partner::start("1002"));
    let dfa = first.receive_address();
    second.send(&dfa.to_string());
    assert_eq!(second.receive(), C_RC_OK.to_string());
    first.send("look");
    assert_eq!(first.receive(), "true");
    for name in ["services-12", "cxisoft-12.0"] {
        let metadata = fs::metadata(fabric().join(name)).unwrap();
        let found = (metadata.mode() & 0o777, metadata.gid());
        assert_eq!(found, (0o660, GROUP), "{name}");
    }
    Partner::start("1003").end();
    Partner::start("1004").end();
    second.end();
    // The port of a killed process is removed by a process of another user.
    first.kill();
    assert_eq!(ports(), ["cxisoft-12.0", "services-12", "services-13"]);
    Partner::start("1003").end();
    assert_eq!(ports(), ["services-12", "services-13"]);
    fs::remove_dir_all(fabric()).unwrap();
}

#[test]
fn tolerates_dead_ports_that_sticky_directory_protects() {
    alone!();
    if role().is_some() {
        become_user(1001, &[GROUP]);
        open(0);
        say("here");
        listen();
        return;
    }
    if !can_change_users() {
        return;
    }
    make_directory(0o700);
    chown(fabric(), None, Some(GROUP)).unwrap();
    set_mode(0o3770);
    let mut dead = Partner::start("owner");
    assert_eq!(dead.receive(), "here");
    dead.kill();
    in_child(|| {
        become_user(1002, &[GROUP]);
        let dev = open(0);
        assert_eq!(ports(), ["cxisoft-12.0", "cxisoft-12.1"]);
        close(dev);
        true
    });
    assert_eq!(ports(), ["cxisoft-12.0"]);
    assert_eq!(try_open(), Ok(()), "root removes it");
    assert_eq!(ports(), [""; 0]);
    fs::remove_dir(fabric()).unwrap();
}

#[test]
fn counters_continue_while_another_user_has_a_snapshot() {
    alone!();
    if role().is_some() {
        become_user(1001, &[GROUP]);
        let _snapshot = softnic::Snapshot::new(0).unwrap();
        say("here");
        listen();
        return;
    }
    if !can_change_users() {
        return;
    }
    make_directory(0o700);
    chown(fabric(), None, Some(GROUP)).unwrap();
    set_mode(0o2770);
    let mut owner = Partner::start("owner");
    assert_eq!(owner.receive(), "here");
    let counters = fabric().join("counters-12");
    assert!(counters.exists());
    in_child(|| {
        become_user(1002, &[GROUP]);
        try_open() == Ok(())
    });
    assert!(counters.exists());
    owner.end();
    assert!(!counters.exists());
    fs::remove_dir(fabric()).unwrap();
}
