//! The directory of a fabric, with one file per open NIC, `cxisoft-<nid in hex>.<slot>`.
//!
//! The directory is private to a user, or shared by the members of a group (`Sharing`).
//!
//! The owner of a file holds an exclusive lock on it, which the kernel releases when the owner
//! exits for any reason. Files are made and removed only under the lock of the directory.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::place::{self, FabricDirectory, FileUser, Sharing};
use super::port::{self, PortHeader};
use super::shared_counts::{self, Totals};
use crate::counter_names;
use crate::engine::telemetry::ENTRIES_IN_USE;

/// Start of the name of a port.
const PREFIX: &str = "cxisoft-";

/// Start of the name of the file that describes the services of a NIC.
const SERVICES: &str = "services-";

/// End of the name of such a file while it is written.
const UNFINISHED: &str = ".new";

/// Start of the name of the file with the counters of a NIC (`Totals`).
const COUNTERS: &str = "counters-";

/// Start of the name of the file with the error flags of a NIC (`ErrorFlags`).
const ERRORS: &str = "errors-";

/// Start of the name of the file with the pools of triggered operations of a NIC
/// (`TriggeredPools`).
const TRIGGERED: &str = "triggered-";

/// Start of the name of a snapshot of the files of a NIC: a directory, `files-<nid in hex>.<slot>`.
const SNAPSHOT: &str = "files-";

/// The name of the file with the state of the links between switches (`links`).
const LINKS: &str = "links";

/// Permissions of a directory that a process of the fabric makes. The sticky bit, which is without
/// effect where one user alone can write, marks it: it is removed with its last file, a directory
/// that existed before is not.
const MADE: Mode = Mode::RWXU.union(Mode::SVTX);

/// The maximum length of a file of services.
const MAX_SERVICES_LEN: u64 = 16 << 20;

/// The directory, locked until dropped. It is never locked while waiting for anything except the
/// file system.
pub struct Directory {
    path: PathBuf,
    sharing: Sharing,
    /// A process of the fabric made it.
    is_made: bool,
    lock: OwnedFd,
    _user: FileUser,
}

impl FabricDirectory {
    /// The addresses of NICs whose ports are in this memory map.
    pub fn mapped_nids(&self, maps: &str) -> HashSet<u32> {
        let ports = maps.lines().filter_map(|line| {
            // Addresses, rights, offset, device and inode precede the path.
            let path = Path::new(line.get(line.find('/')?..)?);
            let name = path.strip_prefix(&self.path).ok()?.to_str()?.strip_prefix(PREFIX)?;
            u32::from_str_radix(name.split_once('.')?.0, 16).ok()
        });
        ports.collect()
    }
}

impl Directory {
    /// Opens and locks the directory, and makes it if it does not exist.
    ///
    /// # Errors
    /// EACCES if it is neither private to the user nor shared by a group; EBUSY if another process
    /// holds it for too long.
    pub fn lock(place: &FabricDirectory) -> Result<Self, Errno> {
        loop {
            let made = {
                let _user = place.become_user();
                rustix::fs::mkdir(&place.path, MADE)
            };
            match made {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            match Self::lock_existing(place) {
                // The last user of the directory removed it after mkdir.
                Err(Errno::NOENT) => continue,
                result => return result,
            }
        }
    }

    /// Opens and locks the directory as `lock` does; ENOENT if it does not exist.
    pub fn lock_existing(place: &FabricDirectory) -> Result<Self, Errno> {
        let user = place.become_user();
        let path = &place.path;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&lock)?;
        let sharing = Sharing::of(&stat, place.user)?;
        place::lock(&lock)?;
        // The name must still lead to the locked directory.
        let named = rustix::fs::lstat(path)?;
        if (named.st_dev, named.st_ino) != (stat.st_dev, stat.st_ino) {
            return Err(Errno::NOENT);
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        Ok(Self {
            path: path.clone(),
            sharing,
            is_made: sharing == Sharing::Private && mode.contains(Mode::SVTX),
            lock,
            _user: user,
        })
    }

    /// Removes ports and snapshots whose owners are gone, and incomplete files of services. Files
    /// with other names stay. Files of other users stay in a directory that protects them (sticky).
    pub fn sweep(&self) -> Result<(), Errno> {
        let remove = |name: &Path| match remove(&self.path.join(name)) {
            Ok(()) => Ok(true),
            Err(Errno::PERM | Errno::ACCESS) => Ok(false),
            Err(error) => Err(error),
        };
        for name in self.entries()? {
            if is_unfinished(&name) {
                remove(Path::new(&name))?;
            }
        }
        for (name, nid, _) in self.names()? {
            if let Ok(file) = open(&self.path.join(&name))
                && port::is_port(&file)
                && !is_owned(&file)
            {
                let counts = port::read_counts(&file);
                if remove(&name)? {
                    self.count_closed(nid, counts);
                    self.give_triggered_back(nid, &file);
                }
            }
        }
        for name in self.entries()? {
            if parse(&name, SNAPSHOT).is_some()
                && let Ok(snapshot) = open_directory(&self.path.join(&name))
                && !is_owned(&snapshot)
            {
                // A snapshot of another user remains until a process of that user removes it.
                let _ = fs::remove_dir_all(self.path.join(&name));
            }
        }
        Ok(())
    }

    /// Makes and locks the file of a new port, in the lowest free slot of its NIC.
    pub fn create(&self, nid: u32) -> Result<(File, u32), Errno> {
        for slot in 0..=u32::MAX {
            match self.create_file(&self.port_path(nid, slot)) {
                Ok(file) => {
                    retry_interrupted(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
                    return Ok((file, slot));
                }
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error),
            }
        }
        Err(Errno::NOSPC)
    }

    /// Makes a file for all who share the directory, whatever the file mode creation mask is.
    fn create_file(&self, path: &Path) -> Result<File, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = self.sharing.file_mode();
        let file = rustix::fs::open(path, flags, mode)?;
        rustix::fs::fchmod(&file, mode)?;
        Ok(File::from(file))
    }

    /// Opens a port a second time, to map its memory. A mapping keeps its open file, and with it
    /// the lock, even in a child that closed the file.
    pub fn reopen(&self, nid: u32, slot: u32) -> Result<File, Errno> {
        open(&self.port_path(nid, slot))
    }

    /// The ports of one NIC whose owners are alive, with their slots.
    pub fn ports(&self, nid: u32) -> Result<Vec<(u32, File, PortHeader)>, Errno> {
        let mut ports = Vec::new();
        for (name, _, slot) in self.names()?.into_iter().filter(|(_, owner, _)| *owner == nid) {
            let Ok(file) = open(&self.path.join(name)) else {
                continue;
            };
            if !is_owned(&file) {
                continue;
            }
            if let Some(header) = port::read_header(&file) {
                ports.push((slot, file, header));
            }
        }
        Ok(ports)
    }

    /// Allocates memory of all ports for the lanes between them. Ports of other users, which this
    /// one may not open, are left out.
    pub fn reserve(&self) -> Result<(), Errno> {
        let names = self.names()?;
        for (name, ..) in &names {
            if let Ok(file) = open(&self.path.join(name))
                && port::read_header(&file).is_some()
            {
                port::reserve(&file, names.len())?;
            }
        }
        Ok(())
    }

    /// The bytes that one more port and the present ones need.
    pub fn needed(&self) -> Result<u64, Errno> {
        let count = self.names()?.len() + 1;
        Ok(count as u64 * port::reserved(count) as u64)
    }

    /// Whether any device of the fabric is open.
    pub fn has_ports(&self) -> Result<bool, Errno> {
        let mut names = self.names()?.into_iter();
        Ok(names.any(|(name, ..)| self.is_in_use(name.as_os_str())))
    }

    /// Opens the file with the state of the links, if there is one.
    pub fn links(&self) -> Option<File> {
        open(&self.path.join(LINKS)).ok()
    }

    /// Makes the file with the state of the links.
    pub fn create_links(&self) -> Result<File, Errno> {
        self.create_file(&self.path.join(LINKS))
    }

    /// Removes the file with the state of the links, if there is one.
    pub fn remove_links(&self) -> Result<(), Errno> {
        match remove(&self.path.join(LINKS)) {
            Err(Errno::NOENT) => Ok(()),
            result => result,
        }
    }

    /// A port, if its owner is alive and has not been replaced.
    pub fn port(&self, nid: u32, slot: u32, instance: u64) -> Option<(File, PortHeader)> {
        let file = open(&self.port_path(nid, slot)).ok()?;
        let header = port::read_header(&file)?;
        (header.instance == instance && is_owned(&file)).then_some((file, header))
    }

    /// The file that describes the services of a NIC; `None` if they are unchanged. EIO if it is
    /// not a text file. Bytes beyond the maximum length are not read.
    pub fn services(&self, nid: u32) -> Result<Option<String>, Errno> {
        // A pipe of this name must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(self.services_path(nid), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(_) => return Err(Errno::IO),
        };
        let text = io::read_to_string(file.take(MAX_SERVICES_LEN)).map_err(|_| Errno::IO)?;
        Ok(Some(text))
    }

    /// Replaces that file by renaming a new one, or removes it.
    pub fn set_services(&self, nid: u32, text: Option<&str>) -> Result<(), Errno> {
        let path = self.services_path(nid);
        let Some(text) = text else {
            return match remove(&path) {
                Err(Errno::NOENT) => Ok(()),
                result => result,
            };
        };
        let new = self.path.join(format!("{SERVICES}{nid:x}{UNFINISHED}"));
        let mut file = match self.create_file(&new) {
            // Left by a process that was killed since the last sweep.
            Err(Errno::EXIST) => {
                remove(&new)?;
                self.create_file(&new)?
            }
            result => result?,
        };
        file.write_all(text.as_bytes())
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn services_path(&self, nid: u32) -> PathBuf {
        self.path.join(format!("{SERVICES}{nid:x}"))
    }

    /// The counts of the closed devices of a NIC. Starts the NIC if it has no counters, or if their
    /// file is damaged.
    pub fn totals(&self, nid: u32) -> Result<Totals, Errno> {
        let path = self.counters_path(nid);
        let found = open(&path).ok();
        if let Some(totals) = found.and_then(|file| Totals::read(&file)) {
            return Ok(totals);
        }
        match remove(&path) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
        let totals = Totals::start();
        totals.write(&self.create_file(&path)?)?;
        Ok(totals)
    }

    /// Adds the counts of a device that is closed to the counts of its NIC. If their file cannot be
    /// written, the counts are lost, and the device is closed all the same.
    pub fn count_closed(&self, nid: u32, counts: Option<Vec<u64>>) {
        let added = || {
            let mut totals = self.totals(nid).ok()?;
            let mut counts = counts?;
            let gauges = counter_names::places(ENTRIES_IN_USE);
            counts[gauges].fill(0);
            totals.add(&counts);
            totals.write(&open(&self.counters_path(nid)).ok()?).ok()
        };
        let _ = added();
    }

    /// Opens the file with the error flags of a NIC, and makes an empty one if there is none.
    /// Returns whether it is new.
    pub fn error_flags(&self, nid: u32) -> Result<(File, bool), Errno> {
        self.open_or_create(ERRORS, nid)
    }

    /// Opens the file with the pools of triggered operations of a NIC, as
    /// [`error_flags`](Self::error_flags) does.
    pub fn triggered(&self, nid: u32) -> Result<(File, bool), Errno> {
        self.open_or_create(TRIGGERED, nid)
    }

    /// Gives back the triggered operations of a device that is closed, whose port has this file.
    pub fn give_triggered_back(&self, nid: u32, port: &File) {
        if let Ok((file, false)) = self.triggered(nid) {
            shared_counts::give_back_triggered(&file, port);
        }
    }

    fn open_or_create(&self, start: &str, nid: u32) -> Result<(File, bool), Errno> {
        let path = self.path.join(format!("{start}{nid:x}"));
        match open(&path) {
            Err(Errno::NOENT) => Ok((self.create_file(&path)?, true)),
            opened => Ok((opened?, false)),
        }
    }

    /// Makes and locks the directory of a new snapshot of the files of a NIC, in the lowest free
    /// slot.
    pub fn create_snapshot(&self, nid: u32) -> Result<(File, PathBuf), Errno> {
        for slot in 0..=u32::MAX {
            let path = self.path.join(format!("{SNAPSHOT}{nid:x}.{slot}"));
            match rustix::fs::mkdir(&path, Mode::RWXU) {
                Ok(()) => {
                    let lock = open_directory(&path)?;
                    retry_interrupted(|| rustix::fs::flock(&lock, FlockOperation::LockExclusive))?;
                    return Ok((lock, path));
                }
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error),
            }
        }
        Err(Errno::NOSPC)
    }

    /// Removes a snapshot of the caller, and what [`Self::remove`] removes with the last port.
    pub fn remove_snapshot(&self, path: &Path) -> Result<(), Errno> {
        let removed = fs::remove_dir_all(path);
        removed.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        self.end_if_unused()
    }

    /// Removes a port of the caller. If neither a port nor a snapshot remains, also removes the
    /// counters, the error flags, the state of the links, and the directory if a process of the
    /// fabric made it.
    pub fn remove(&self, nid: u32, slot: u32) -> Result<(), Errno> {
        remove(&self.port_path(nid, slot))?;
        self.end_if_unused()
    }

    fn end_if_unused(&self) -> Result<(), Errno> {
        let entries = self.entries()?;
        if entries.iter().any(|name| self.is_in_use(name)) {
            return Ok(());
        }
        for name in entries {
            let is_ended = |name: &str| {
                let starts = [COUNTERS, ERRORS, TRIGGERED];
                starts.iter().any(|start| name.starts_with(start)) || name == LINKS
            };
            if name.to_str().is_some_and(is_ended) {
                let _ = remove(&self.path.join(name));
            }
        }
        if !self.is_made {
            return Ok(());
        }
        match rustix::fs::rmdir(&self.path) {
            Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether this is the name of a port or snapshot whose owner is alive. Those that this user
    /// may not open count as such.
    fn is_in_use(&self, name: &OsStr) -> bool {
        let path = self.path.join(name);
        let file = if parse(name, PREFIX).is_some() {
            open(&path)
        } else if parse(name, SNAPSHOT).is_some() {
            open_directory(&path)
        } else {
            return false;
        };
        match file {
            Ok(file) => is_owned(file),
            // A snapshot of another user, who removes it.
            Err(error) => error == Errno::ACCESS,
        }
    }

    fn counters_path(&self, nid: u32) -> PathBuf {
        self.path.join(format!("{COUNTERS}{nid:x}"))
    }

    fn port_path(&self, nid: u32, slot: u32) -> PathBuf {
        self.path.join(format!("{PREFIX}{nid:x}.{slot}"))
    }

    /// The ports by file name: (name, nid, slot), in the order of slots.
    fn names(&self) -> Result<Vec<(PathBuf, u32, u32)>, Errno> {
        let mut names = Vec::new();
        for name in self.entries()? {
            if let Some((nid, slot)) = parse(&name, PREFIX) {
                names.push((PathBuf::from(name), nid, slot));
            }
        }
        names.sort_by_key(|(_, nid, slot)| (*nid, *slot));
        Ok(names)
    }

    fn entries(&self) -> Result<Vec<OsString>, Errno> {
        let entries = fs::read_dir(&self.path)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        entries.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Explicit, because a process forked meanwhile has the same lock open.
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// NID and slot in a name with this start.
fn parse(name: &OsStr, start: &str) -> Option<(u32, u32)> {
    let (nid, slot) = name.to_str()?.strip_prefix(start)?.split_once('.')?;
    Some((u32::from_str_radix(nid, 16).ok()?, slot.parse().ok()?))
}

/// Whether this is the name of an incomplete file of services.
fn is_unfinished(name: &OsStr) -> bool {
    let nid = (name.to_str())
        .and_then(|name| name.strip_prefix(SERVICES)?.strip_suffix(UNFINISHED))
        .map(|nid| u32::from_str_radix(nid, 16));
    matches!(nid, Some(Ok(_)))
}

fn open_directory(path: &Path) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

fn open(path: &Path) -> Result<File, Errno> {
    // A pipe must not block.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(File::from)
}

fn remove(path: &Path) -> Result<(), Errno> {
    rustix::fs::unlink(path)
}

/// Whether the owner of a port is alive, because it holds the lock. `file` must have been opened by
/// the caller.
pub fn is_owned(file: impl AsFd) -> bool {
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
            false
        }
        Err(_) => true,
    }
}

fn retry_interrupted(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => continue,
            result => return result,
        }
    }
}

/// The bytes that the directory of the fabric has left, and the bytes that one more NIC needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The directory.
    pub path: PathBuf,
    /// Bytes of its file system.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Bytes that all open NICs and one more need.
    pub needed: u64,
}

impl Space {
    /// The space of the fabric of the environment; `None` if it cannot be seen.
    pub fn from_environment() -> Option<Self> {
        let place = FabricDirectory::from_environment().ok()?;
        // The directory is removed with its last NIC.
        let directory = Directory::lock_existing(&place).ok();
        let needed = match &directory {
            Some(directory) => directory.needed().ok()?,
            None => port::reserved(1) as u64,
        };
        let mut ancestors = place.path.ancestors();
        let found = ancestors.find_map(|path| rustix::fs::statvfs(path).ok())?;
        Some(Self {
            size: found.f_blocks * found.f_frsize,
            free: found.f_bavail * found.f_frsize,
            needed,
            path: place.path,
        })
    }
}
