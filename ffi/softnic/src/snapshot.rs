//! The files of a software NIC, written on request: `/sys/class`, and those of the retry handler.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::counters::NicCounters;
use crate::environment::{Driver, Nics};
use crate::fabric::{self, Directory, Place};
use crate::fork;
use crate::libcxi::{NAME, information};
use crate::retry_handler;
use crate::sysfs::{self, Entries};

/// The files of a NIC at one moment, below a directory of their own in the fabric. Dropping it
/// removes them.
///
/// The counters of the NIC continue while a device of it is open or a snapshot exists.
pub struct Snapshot {
    root: PathBuf,
    place: Place,
    /// Holds the lock that marks the directory as in use.
    lock: Option<File>,
}

impl Snapshot {
    /// Writes the files of the NIC with this number, as the driver of hardware would show them below
    /// `/` (health.md 3).
    ///
    /// # Errors
    /// EINVAL for invalid environment variables, ENOENT without such a NIC, errors of the file
    /// system.
    pub fn new(number: u32) -> io::Result<Self> {
        let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
        let driver = Driver::from_environment().map_err(|_| Errno::INVAL)?;
        let settings = fabric::settings().map_err(|_| Errno::INVAL)?;
        let nid = nics.address(number).ok_or(Errno::NOENT)?;
        let place = Place::from_environment()?;
        let snapshot = {
            let directory = Directory::lock(&place)?;
            directory.sweep()?;
            let (lock, root) = directory.create_snapshot(nid)?;
            fork::keep_from_children(&lock);
            Self {
                root,
                place: place.clone(),
                lock: Some(lock),
            }
        };
        let counters = NicCounters::read(|| Directory::lock_existing(&place), nid, &settings)?;
        let mut info = information(number, nid);
        info.link_state = settings.faults.is_up(counters.age).into();
        let _user = place.become_user();
        let mut class = Entries::new();
        sysfs::add(&mut class, &info, driver);
        let classes = snapshot.root.join("sys/class");
        sysfs::write(&classes, &class)?;
        write_telemetry(
            &classes.join(sysfs::device(&info)).join("telemetry"),
            &counters,
        )?;
        let service = snapshot.root.join(format!("run/cxi/{NAME}{number}"));
        sysfs::write(&service, &retry_handler::files(&counters))?;
        Ok(snapshot)
    }

    /// Returns the directory that stands for `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // Fails if the directory was removed by hand; then nothing remains to be done.
        let _ = Directory::lock_existing(&self.place)
            .and_then(|directory| directory.remove_snapshot(&self.root));
        if let Some(lock) = self.lock.take() {
            fork::release(lock);
        }
    }
}

/// Writes the telemetry counters. Those that are 0, which is most of them, are links to one file.
fn write_telemetry(directory: &Path, counters: &NicCounters) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let now = clock_gettime(ClockId::Realtime);
    let line = |value: u64| format!("{value}@{}.{:09}\n", now.tv_sec, now.tv_nsec);
    let mut zero: Option<PathBuf> = None;
    for (name, value) in counters.iter() {
        let path = directory.join(name);
        match &zero {
            Some(zero) if value == 0 => fs::hard_link(zero, &path)?,
            _ => fs::write(&path, line(value))?,
        }
        if value == 0 {
            zero.get_or_insert(path);
        }
    }
    Ok(())
}
