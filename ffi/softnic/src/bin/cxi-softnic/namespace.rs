//! A mount namespace in which `/sys/class` and the list of PCI devices show the software NICs.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use softnic::sysfs::{self, Entries, PCI_DEVICES, PCI_LIST};

/// Where the kernel shows devices.
pub const SYS: &str = "/sys";

/// Where programs look for NICs, and where the private view of them is mounted.
pub const CLASS: &str = "/sys/class";

/// Moves this process into a mount namespace of its own and mounts `entries` over `/sys/class`
/// there, and the list of PCI devices in it over the kernel's list, if the kernel permits that. The
/// mounts end with the last process in the namespace.
///
/// # Errors
/// Why it is not possible. The process remains where it was.
pub fn enter(entries: &Entries) -> io::Result<()> {
    // A child tries first: there is no way back out of a user namespace.
    let mut trial = Command::new("/proc/self/exe");
    trial.arg("--version").stdout(Stdio::null());
    let for_child = entries.clone();
    // SAFETY: this process has one thread, so the child may do anything.
    unsafe { trial.pre_exec(move || move_into(&for_child)) };
    // With SIGCHLD ignored, the kernel keeps no exit status. PROGRAM gets what was inherited.
    // SAFETY: the default action runs no code of this process.
    let inherited = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let status = trial.status();
    // SAFETY: `inherited` comes from the call above, and a process that has just begun has no
    // handlers.
    unsafe { libc::signal(libc::SIGCHLD, inherited) };
    status?;
    move_into(entries)
}

/// Does the work of [`enter`]. After an error the process may be in a namespace without the mount.
fn move_into(entries: &Entries) -> io::Result<()> {
    if unshare(UnshareFlags::NEWNS).is_err() {
        unshare_as_user()?;
    }
    // Mounts of the program must not appear outside, and those outside still appear to it.
    let downstream = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", downstream)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("cxi-softnic", CLASS, "tmpfs", flags, c"mode=0755")?;
    sysfs::write(CLASS.as_ref(), entries)?;
    let pci_devices = Path::new(SYS).join(PCI_DEVICES);
    // A machine without PCI has no place for the list.
    if pci_devices.exists() {
        mount_bind(Path::new(CLASS).join(PCI_LIST), pci_devices)?;
    }
    Ok(())
}

/// Makes a mount namespace in a user namespace, in which a user without privileges may mount. The
/// process keeps its user and its group; files of other users appear to belong to `nobody`. So the
/// process cannot use a fabric of another user, such as one that a group shares.
fn unshare_as_user() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if softnic::fabric_owner().is_some_and(|owner| owner != user) {
        return Err(Errno::ACCESS.into());
    }
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the file descriptor table stays shared.
    unsafe { unshare_unsafe(flags) }
}
