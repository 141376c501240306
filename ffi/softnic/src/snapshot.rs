//! The files of a software NIC, written on request: `/sys/class`, the files of the retry handler
//! below `/run/cxi/<device>` (health.md 1.6), and files of the host that faults plant.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, linkat};
use rustix::io::Errno;

use crate::counters::CounterSnapshot;
use crate::environment::{Driver, Nics, Release};
use crate::fabric::{self, Directory, ErrorFlags, FabricDirectory, Health, LinkSettings};
use crate::fork;
use crate::libcxi::{NAME, information};
use crate::sysfs::{self, Entries, SysfsEntry};

/// Its counters.
const RETRY_COUNTERS: [&str; 35] = [
    "accel_close_complete",
    "cancel_no_matching_conn",
    "cancel_resource_busy",
    "cancel_tct_closed",
    "cancel_trs_pend_rsp",
    "connections_cancelled",
    "ignored_sct_timeouts",
    "max_parked_nids",
    "max_parked_switches",
    "mst_in_use",
    "nack_no_matching_conn",
    "nack_no_target_conn",
    "nack_no_target_mst",
    "nack_no_target_trs",
    "nack_resource_busy",
    "nack_sequence_error",
    "nack_trs_pend_rsp",
    "nacks",
    "nid_tree_count",
    "parked_nids",
    "parked_switches",
    "pkts_cancelled_o",
    "pkts_cancelled_u",
    "sct_in_use",
    "sct_timeouts",
    "smt_in_use",
    "spt_in_use",
    "spt_timeouts",
    "spt_timeouts_o",
    "spt_timeouts_u",
    "srb_in_use",
    "switch_tree_count",
    "tct_in_use",
    "tct_timeouts",
    "trs_in_use",
];

/// Its limits: numbers of retries, and seconds.
const RETRY_LIMITS: [(&str, u32); 5] = [
    ("down_nid_wait_time", 136),
    ("max_no_matching_conn_retries", 12),
    ("max_resource_busy_retries", 10),
    ("max_spt_retries", 4),
    ("max_trs_pend_rsp_retries", 10),
];

/// The size of each file, whatever it says (health.md 1.6).
const RETRY_FILE_SIZE: usize = 1024;

/// A file with this line. NULs fill it up.
fn retry_handler_file(line: &str) -> SysfsEntry {
    let mut content = format!("{line}\n").into_bytes();
    content.resize(RETRY_FILE_SIZE.max(content.len()), 0);
    SysfsEntry::File(content)
}

/// The files, by their paths.
fn retry_handler_files(counters: &CounterSnapshot, health: &Health) -> Entries {
    let unordered = counters.value("pct_req_unordered");
    let requests = counters.value("pct_req_ordered").saturating_add(unordered);
    let timeouts = counters.value("pct_spt_timeouts");
    // The engine does not count them by order: they are divided like the requests.
    let unordered_count = (timeouts as f64 * unordered as f64 / requests.max(1) as f64) as u64;
    let refused = (requests as f64 * health.full) as u64;
    let value = |name: &str| match name {
        "nack_no_target_trs" | "nack_no_target_conn" => refused,
        "nacks" => refused.saturating_mul(2),
        "spt_timeouts" => timeouts,
        "spt_timeouts_o" => timeouts.saturating_sub(unordered_count),
        "spt_timeouts_u" => unordered_count,
        _ => 0,
    };
    let counts =
        RETRY_COUNTERS.map(|name| (name.into(), retry_handler_file(&value(name).to_string())));
    let limits = RETRY_LIMITS.map(|(name, limit)| {
        let path = format!("config/{name}").into();
        (path, retry_handler_file(&limit.to_string()))
    });
    counts.into_iter().chain(limits).collect()
}

/// The number of restarts of the link, and of failures to bring it up, that the driver shows
/// (health.md 2.1).
const MOST_RESTARTS: usize = 10;

/// The files of a NIC at one moment, below a directory of their own in the fabric. Dropping it
/// removes them.
///
/// The counters of the NIC continue while a device of it is open or a snapshot exists.
pub struct Snapshot {
    root: PathBuf,
    place: FabricDirectory,
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
        let place = FabricDirectory::from_environment()?;
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
        let counters = CounterSnapshot::read(|| Directory::lock_existing(&place), nid, &settings)?;
        snapshot.taken_at = counters.read_at;
        let health = &settings.health;
        let shown = nics.nid(number).ok_or(Errno::NODEV)?;
        let mut info = information(number, shown, health);
        info.link_state = (settings.faults.is_up(counters.age) && !info.is_vf).into();
        let _user = place.become_user();
        let mut class = Entries::new();
        sysfs::add(&mut class, &info, driver, &settings, groups?);
        let device = sysfs::device(&info, health);
        let masks = errors.masks().into_iter().map(|(block, mask)| {
            let content = format!("{:08x},{:08x}\n", mask >> 32, mask as u32);
            (format!("err_flgs_irqa/{}/mask", block.name()), content)
        });
        let changing = history(&settings, &counters, driver.release).into_iter().chain(masks);
        for (name, content) in changing.filter(|(name, _)| sysfs::has_file(&info, name)) {
            class.insert(device.join(name), SysfsEntry::File(content.into()));
        }
        sysfs::plant(&mut class, &device, health);
        let classes = snapshot.root.join("sys/class");
        sysfs::write(&classes, &class)?;
        let telemetry = classes.join(device).join("telemetry");
        if !info.is_vf {
            write_telemetry(&telemetry, &counters, wanted)?;
        }
        if health.has_retry_handler && !info.is_vf {
            let service = snapshot.root.join(format!("run/cxi/{NAME}{number}"));
            sysfs::write(&service, &retry_handler_files(&counters, health))?;
        }
        // The last files: they replace files of the retry handler.
        sysfs::write(&snapshot.root, &sysfs::host_files(health, retry_handler_file))?;
        Ok(snapshot)
    }

    /// The directory that stands for `/`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// When the counters were read, by the monotonic clock of the host.
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

/// The files that count corrected errors of PCIe and restarts of the link, and those with the times
/// at which the link went down or did not come up, and the causes (health.md 2.1.2). No fault gives
/// a link a cause to go down.
fn history(
    settings: &LinkSettings,
    counters: &CounterSnapshot,
    release: Release,
) -> Vec<(String, String)> {
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
    let mut add =
        |name: String, text: &str| files.push((format!("port/0/link/{name}"), format!("{text}\n")));
    let failed = settings.health.up_fail.as_deref();
    let failed = failed.map(|cause| (cause.to_owned(), time_text(started)));
    let none = |word: &str| (word.to_owned(), word.to_owned());
    if release >= Release::Shs14_0_1 {
        for index in 0..MOST_RESTARTS {
            let failure = failed.clone().filter(|_| index == 0);
            let (cause, time) = failure.unwrap_or_else(|| none("none"));
            add(format!("last_up_fail/up_fail_cause_map_{index}"), &cause);
            add(format!("last_up_fail/up_fail_time_{index}"), &time);
            add(format!("last_down/cause_map_{index}"), "none");
            add(format!("last_down/time_{index}"), "none");
        }
    } else if release >= Release::Shs13 {
        let is_up = settings.faults.is_up(counters.age);
        let word = if is_up { "no-fail" } else { "no-record" };
        let (cause, time) = failed.unwrap_or_else(|| none(word));
        add("last_up_fail_cause_map".into(), &cause);
        add("last_up_fail_time".into(), &time);
        add("last_down_cause_map".into(), "none");
        add("last_down_time".into(), "none");
    } else {
        add("last_down_cause".into(), "no record");
        add("last_down_time".into(), "no record");
    }
    files
}

/// A time as the driver shows it (health.md 2.1.2): in UTC, the time before the date.
fn time_text(since_1970: u64) -> String {
    let (days, seconds) = (since_1970 / 86_400, since_1970 % 86_400);
    // Years begin in March here, so that the leap day is the last one. Eras have 400 years.
    let since_era = days + 719_468;
    let (era, day_of_era) = (since_era / 146_097, since_era % 146_097);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (seconds / 3600, seconds / 60 % 60);
    format!("{hour:02}:{minute:02}:{:02} {year}-{month:02}-{day:02}", seconds % 60)
}

/// When the link restarted, the last time first, in seconds since 1970: after it was down, and
/// before the NIC started.
fn restarts(settings: &LinkSettings, counters: &CounterSnapshot) -> impl Iterator<Item = u64> {
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
    counters: &CounterSnapshot,
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

#[cfg(test)]
mod tests {
    use super::time_text;

    #[test]
    fn times_are_those_of_the_driver() {
        for (since_1970, text) in [
            (0, "00:00:00 1970-01-01"),
            (951_827_696, "12:34:56 2000-02-29"),
            (1_709_251_199, "23:59:59 2024-02-29"),
            (1_735_689_599, "23:59:59 2024-12-31"),
            (1_772_323_200, "00:00:00 2026-03-01"),
        ] {
            assert_eq!(time_text(since_1970), text);
        }
    }
}
