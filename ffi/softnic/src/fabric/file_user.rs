//! File access as the user and the group who opened a device.
//!
//! An open device stays usable when its program changes its effective user or group (libcxi.md 1).
//! The kernel checks accesses to files by the file system user and group of the thread, which
//! seteuid(2) and setegid(2) change as well, and which a thread may set back to its real, effective
//! or saved ones.

use std::marker::PhantomData;

use rustix::process::{Gid, Uid, getegid, geteuid};

/// Makes the calling thread access files as another user and group until it is dropped.
pub struct FileUser {
    group: IdChange,
    user: IdChange,
    /// The file system user belongs to the thread.
    thread: PhantomData<*const ()>,
}

impl FileUser {
    /// Becomes `user` and `group` for accesses to files. Without effect if the thread may not: a
    /// process that gave up a user for good then meets the errors of its present one.
    pub fn become_user(user: Uid, group: Gid) -> Self {
        Self {
            group: IdChange::to(group.as_raw(), effective_group, set_group),
            user: IdChange::to(user.as_raw(), effective_user, set_user),
            thread: PhantomData,
        }
    }
}

impl Drop for FileUser {
    fn drop(&mut self) {
        self.user.undo();
        self.group.undo();
    }
}

/// A change of the file system user or group of a thread.
struct IdChange {
    to: u32,
    /// The file system id before the change.
    before: u32,
    /// The effective id before the change.
    effective: u32,
    read_effective: fn() -> u32,
    set: fn(u32) -> u32,
}

impl IdChange {
    fn to(to: u32, read_effective: fn() -> u32, set: fn(u32) -> u32) -> Self {
        Self { to, effective: read_effective(), before: set(to), read_effective, set }
    }

    fn undo(&self) {
        let effective = (self.read_effective)();
        if effective != self.effective {
            // Another thread changed the effective id, and thereby the file system id.
            (self.set)(effective);
        } else if self.before != self.to {
            (self.set)(self.before);
        }
    }
}

fn effective_user() -> u32 {
    geteuid().as_raw()
}

fn effective_group() -> u32 {
    getegid().as_raw()
}

/// Sets the file system user of the thread, and returns the one before.
fn set_user(user: u32) -> u32 {
    // SAFETY: setfsuid(2) has no requirements.
    let before = unsafe { libc::setfsuid(user) };
    before.cast_unsigned()
}

/// Sets the file system group of the thread, and returns the one before.
fn set_group(group: u32) -> u32 {
    // SAFETY: setfsgid(2) has no requirements.
    let before = unsafe { libc::setfsgid(group) };
    before.cast_unsigned()
}
