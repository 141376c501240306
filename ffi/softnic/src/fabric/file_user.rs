//! File access as the user who opened a device.
//!
//! An open device stays usable when its program changes its effective user (libcxi.md 1). The
//! kernel checks accesses to files by the file system user of the thread, which seteuid(2) changes
//! as well, and which a thread may set back to its real, effective or saved user.

use std::marker::PhantomData;

use rustix::process::{Uid, geteuid};

/// Makes the calling thread access files as another user until it is dropped.
pub struct FileUser {
    /// The effective user of before.
    effective: Uid,
    /// The file system user of before.
    before: libc::uid_t,
    user: libc::uid_t,
    /// The file system user belongs to the thread.
    of_thread: PhantomData<*const ()>,
}

impl FileUser {
    /// Becomes `user` for accesses to files. Without effect if the thread may not: a process that
    /// gave up a user for good then meets the errors of its present one.
    pub fn become_user(user: Uid) -> Self {
        let user = user.as_raw();
        Self {
            effective: geteuid(),
            before: set(user),
            user,
            of_thread: PhantomData,
        }
    }
}

impl Drop for FileUser {
    fn drop(&mut self) {
        let effective = geteuid();
        if effective != self.effective {
            // Another thread changed the user of the process, and thereby the file system user.
            set(effective.as_raw());
        } else if self.before != self.user {
            set(self.before);
        }
    }
}

/// Sets the file system user of the thread, and returns the one before.
fn set(user: libc::uid_t) -> libc::uid_t {
    // SAFETY: setfsuid(2) has no requirements.
    let before = unsafe { libc::setfsuid(user) };
    before.cast_unsigned()
}
