//! The files of a software NIC, written on request: `/sys/class`, the files of the retry handler,
//! and files of the host that faults plant.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, linkat};
use rustix::io::Errno;

use crate::counters::NicCounters;
use crate::environment::{Driver, Nics};
use crate::fabric::{self, Directory, ErrorFlags, Place, Settings};
use crate::fork;
use crate::libcxi::{NAME, information};
use crate::retry_handler;
use crate::sysfs::{self, Entries, Entry};

/// The number of restarts of the link, and of failures to bring it up, that the driver shows
/// (health.md 2.1).
const MOST_RESTARTS: usize = 10;

/// The files of a NIC at one moment, below a directory of their own in the fabric. Dropping it
/// removes them.
///
/// The counters of the NIC continue while a device of it is open or a snapshot exists.
pub struct Snapshot {
    root: PathBuf,
    place: Place,
    taken_at: Duration,
    /// Holds the lock that marks the directory as in use.
    lock: Option<File>,
}

impl Snapshot {
    /// Writes the files of the NIC with this number, as the driver of hardware would show them
    /// below `/` (health.md 3).
    ///
    /// # Errors
    /// EINVAL for invalid environment variables, ENODEV without such a NIC, errors of the file
    /// system.
    pub fn new(number: u32) -> io::Result<Self> {
        Self::with_counters(number, |_| true)
    }

    /// Writes the files of the NIC as [`Self::new`] does, but of its telemetry counters only the
    /// `wanted` ones, which takes a fraction of the time.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_counters(number: u32, wanted: impl Fn(&str) -> bool) -> io::Result<Self> {
        let nics = Nics::from_environment().map_err(|_| Errno::INVAL)?;
        let driver = Driver::from_environment().map_err(|_| Errno::INVAL)?;
        let settings = fabric::settings(number).map_err(|_| Errno::INVAL)?;
        let nid = nics.address(number).ok_or(Errno::NODEV)?;
        let place = Place::from_environment()?;
        let errors;
        let (mut snapshot, groups) = {
            let directory = Directory::lock(&place)?;
            directory.sweep()?;
            let (lock, root) = directory.create_snapshot(nid)?;
            fork::keep_from_children(&lock);
            let groups = fabric::available_groups(&directory, nid);
            errors = ErrorFlags::open(&directory, nid)?;
            let snapshot =
                Self { root, place: place.clone(), taken_at: Duration::ZERO, lock: Some(lock) };
            (snapshot, groups)
        };
        let counters = NicCounters::read(|| Directory::lock_existing(&place), nid, &settings)?;
        snapshot.taken_at = counters.read_at;
        let health = &settings.health;
        let shown = nics.nid(number).ok_or(Errno::NODEV)?;
        let mut info = information(number, shown, health);
        info.link_state = settings.faults.is_up(counters.age).into();
        let _user = place.become_user();
        let mut class = Entries::new();
        sysfs::add(&mut class, &info, driver, &settings, groups?);
        let device = sysfs::device(&info, health);
        for (name, content) in history(&settings, &counters) {
            class.insert(device.join(name), Entry::File(content.into()));
        }
        for (block, mask) in errors.masks() {
            let path = device.join(format!("err_flgs_irqa/{}/mask", block.name()));
            let content = format!("{:08x},{:08x}\n", mask >> 32, mask as u32);
            class.insert(path, Entry::File(content.into()));
        }
        sysfs::plant(&mut class, &device, health);
        let classes = snapshot.root.join("sys/class");
        sysfs::write(&classes, &class)?;
        let telemetry = classes.join(device).join("telemetry");
        write_telemetry(&telemetry, &counters, wanted)?;
        if health.has_retry_handler {
            let service = snapshot.root.join(format!("run/cxi/{NAME}{number}"));
            sysfs::write(&service, &retry_handler::files(&counters, health))?;
        }
        // The last files: they replace files of the retry handler.
        sysfs::write(&snapshot.root, &sysfs::host_files(health, retry_handler::file))?;
        Ok(snapshot)
    }

    /// Returns the directory that stands for `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns when the counters were read, by the monotonic clock of the host.
    pub fn taken_at(&self) -> Duration {
        self.taken_at
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

/// Returns the files that count corrected errors of PCIe and restarts of the link, and those with
/// the times at which the link did not come up, and the causes.
fn history(settings: &Settings, counters: &NicCounters) -> Vec<(String, String)> {
    let errors = (settings.health.pcie_errors * counters.age.as_secs_f64()) as u64;
    let mut files = vec![
        ("properties/pcie_corr_err".to_owned(), format!("{errors}\n")),
        ("aer_dev_correctable".to_owned(), format!("TOTAL_ERR_COR {errors}\n")),
    ];
    let restarts = restarts(settings, counters).chain(std::iter::repeat(0));
    for (index, time) in restarts.take(MOST_RESTARTS).enumerate() {
        files.push((format!("link_restarts/time_{index}"), format!("{time}\n")));
    }
    let started = counters.at.saturating_sub(counters.age).as_secs();
    for index in 0..MOST_RESTARTS {
        let failure = settings.health.up_fail.as_deref().filter(|_| index == 0);
        let (time, cause) = failure.map_or((0, ""), |cause| (started, cause));
        let file = |name: &str| format!("port/0/link/last_up_fail/up_fail_{name}_{index}");
        files.push((file("time"), format!("{time}\n")));
        files.push((file("cause_map"), format!("{cause}\n")));
    }
    files
}

/// Returns when the link restarted, the last time first, in seconds since 1970: after it was down,
/// and before the NIC started.
fn restarts(settings: &Settings, counters: &NicCounters) -> impl Iterator<Item = u64> {
    let (age, started) = (counters.age, counters.at.saturating_sub(counters.age));
    let again = settings.faults.restart().filter(|at| *at <= age);
    let again = again.map(move |at| (started + at).as_secs());
    let before = (1..=settings.health.flaps).map(move |minutes| started.as_secs() - 60 * minutes);
    again.into_iter().chain(before)
}

/// Writes the wanted telemetry counters. Those that are 0, which is most of them, are links to one
/// file.
fn write_telemetry(
    directory: &Path,
    counters: &NicCounters,
    wanted: impl Fn(&str) -> bool,
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let opened = File::open(directory)?;
    let (seconds, nanoseconds) = (counters.at.as_secs(), counters.at.subsec_nanos());
    let line = |value: u64| format!("{value}@{seconds}.{nanoseconds:09}\n");
    let mut zero = None;
    for (name, value) in counters.iter().filter(|(name, _)| wanted(name)) {
        match &zero {
            // By name in the directory: a path takes the kernel longer.
            Some(zero) if value == 0 => linkat(&opened, zero, &opened, &name, AtFlags::empty())?,
            _ => fs::write(directory.join(&name), line(value))?,
        }
        if value == 0 {
            zero.get_or_insert(name);
        }
    }
    Ok(())
}
