//! A mount namespace in which `/sys/class` shows the software NICs.

use std::fmt;
use std::fs;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use softnic::sysfs::ClassDirectory;

/// The step that failed, and why.
pub struct Refused {
    step: &'static str,
    error: io::Error,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.error)
    }
}

/// Returns an adapter for the error of a step.
fn refused<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> Refused {
    move |error| Refused {
        step,
        error: error.into(),
    }
}

/// Moves this process into a mount namespace of its own and mounts `entries` over `/sys/class`
/// there. The mount ends with the last process in the namespace.
///
/// # Errors
/// The step that the kernel refused. The process may be in a namespace without the mount then.
pub fn enter(entries: &ClassDirectory) -> Result<(), Refused> {
    if unshare(UnshareFlags::NEWNS).is_err() {
        unshare_as_user()?;
    }
    // Mounts of the program must not appear outside, and those outside still appear to it.
    let downstream = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", downstream).map_err(refused("mount namespace"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("cxi-softnic", super::CLASS, "tmpfs", flags, c"mode=0755")
        .map_err(refused("mount on /sys/class"))?;
    super::write(super::CLASS.as_ref(), entries).map_err(refused("write to /sys/class"))
}

/// Makes a mount namespace in a user namespace, in which a user without privileges may mount. The
/// process keeps its user and its group; files of other users appear as those of `nobody`.
fn unshare_as_user() -> Result<(), Refused> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS).map_err(refused("user namespace"))?;
    for (file, content) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(file, content).map_err(refused("user namespace"))?;
    }
    Ok(())
}

fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: the file descriptor table stays shared.
    unsafe { unshare_unsafe(flags) }
}
