//! Who shares the directory of a fabric, by its owner and permissions.

use rustix::fs::{Mode, Stat};
use rustix::io::Errno;
use rustix::process::Uid;

/// Who shares a directory. A user who can write to a port can write to the memory that its owner
/// exposes, and can end the owner by truncating the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// One user, who owns it and alone can write to it.
    Private,
    /// A group. Its set-group-ID bit and the write permission of the group mark it; other users
    /// have no permission. Root or the user owns it.
    Group,
}

impl Sharing {
    /// Returns who shares a directory with these properties; EACCES if others can write to it.
    pub fn of(stat: &Stat, user: Uid) -> Result<Self, Errno> {
        let mode = Mode::from_raw_mode(stat.st_mode);
        let is_own = stat.st_uid == user.as_raw();
        if mode.contains(Mode::SGID | Mode::WGRP) {
            let is_closed = !mode.intersects(Mode::RWXO);
            return if is_closed && (is_own || stat.st_uid == 0) {
                Ok(Self::Group)
            } else {
                Err(Errno::ACCESS)
            };
        }
        if is_own && !mode.intersects(Mode::WGRP | Mode::WOTH) {
            Ok(Self::Private)
        } else {
            Err(Errno::ACCESS)
        }
    }

    /// Returns the permissions of the files in the directory.
    pub fn file_mode(self) -> Mode {
        let own = Mode::RUSR | Mode::WUSR;
        match self {
            Self::Private => own,
            Self::Group => own | Mode::RGRP | Mode::WGRP,
        }
    }
}
