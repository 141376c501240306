//! The NICs of this node, read before and after a command, and the record of the node before its
//! command has run.

use std::collections::{BTreeSet, HashSet};
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crew::launcher::node_count;
use facts::device::DeviceName;
use facts::threads;
use facts::time_of_day::Clocks;
use measure::CpuShare;
use node::backend::{self, WRAPPER};
use node::machine::Machine;
use node::nic::counters::{CounterReadings, NicFacts};
use node::nic::files::Files;
use node::reading;
use node::slingshot::Launcher;

use crate::counter_set::CounterSet;
use crate::options::StatRequest;
use crate::parallel_program::ParallelProgram;
use crate::record::{FORMAT, NicRecord, NodeRecord, TimedValues, nanoseconds};

/// How long the files of one NIC may take, beside the time for which their thread waits for a CPU.
/// A file system whose server is gone must not keep the command from starting.
const LIMIT: Duration = Duration::from_secs(5);

/// How long they may take with that time.
const LONGEST: Duration = Duration::from_secs(60);

/// Name of the threads that read.
const READING: &str = "reading";

/// Number of the software NICs that are read on a machine without hardware, if the user names none.
const SOFTWARE_NICS: u32 = 4;

/// The NICs of this node.
pub struct RecordedNics {
    set: CounterSet,
    nics: Vec<RecordedNic>,
    /// What could not be read, a line each.
    pub notes: Vec<String>,
}

struct RecordedNic {
    device: DeviceName,
    record: NicRecord,
    /// The files of the first reading. The counters of software NICs begin anew if nothing holds
    /// them.
    _files: Files,
}

struct NicReading {
    files: Files,
    facts: NicFacts,
    serial: Option<String>,
    driver: Option<String>,
    readings: CounterReadings,
    /// Why files could not be read although they are there, one reason each.
    failed: Vec<String>,
}

impl RecordedNics {
    /// Reads the counters for the first time. What cannot be read is left out, with a note.
    pub fn begin(devices: &[DeviceName], set: &CounterSet, machine: &Machine) -> Self {
        let mut nics = Self { set: set.clone(), nics: Vec::new(), notes: Vec::new() };
        for device in nics.selected(devices, machine) {
            if let Some(reading) = nics.read(device, machine) {
                let before = TimedValues::of(&reading.readings, &nics.set.counters);
                nics.nics.push(RecordedNic {
                    device,
                    record: NicRecord::begin(
                        &reading.facts,
                        reading.serial,
                        reading.driver,
                        before,
                    ),
                    _files: reading.files,
                });
            }
        }
        nics.note_unknown_counters();
        nics
    }

    /// The NICs to read: the named ones, else what the job has, else all of the machine.
    fn selected(&mut self, devices: &[DeviceName], machine: &Machine) -> Vec<DeviceName> {
        if !devices.is_empty() {
            return devices.to_vec();
        }
        let granted: Vec<String> = match Launcher::find(|name| env::var(name).ok()) {
            Ok(Launcher::Granted(grant)) => grant.devices().map(str::to_owned).collect(),
            Ok(Launcher::Absent | Launcher::Incomplete(_)) => Vec::new(),
            Err(message) => {
                self.notes.push(message);
                Vec::new()
            }
        };
        let found: Vec<DeviceName> = granted.iter().filter_map(|name| name.parse().ok()).collect();
        if !found.is_empty() {
            return found;
        }
        let found = machine.nics();
        if found.is_empty() {
            (0..SOFTWARE_NICS).map(DeviceName::software).collect()
        } else {
            found
        }
    }

    /// Reads the counters of all NICs again, as often as the caller likes: so it makes no notes. An
    /// unreadable NIC has no counters.
    pub fn read_again(&mut self, machine: &Machine) -> Vec<(NicFacts, CounterReadings)> {
        let devices = self.devices().into_iter();
        let read = devices.map(|device| match self.read(device, machine) {
            Some(reading) => (reading.facts, reading.readings),
            None => {
                let device = device.to_string();
                let facts = NicFacts { device, ..NicFacts::default() };
                (facts, CounterReadings::default())
            }
        });
        let read = read.collect();
        self.notes.clear();
        read
    }

    /// Reads the counters for the last time.
    pub fn end(&mut self, machine: &Machine) {
        for index in 0..self.nics.len() {
            let device = self.nics[index].device;
            let read = self.read(device, machine);
            let after = read.map(|reading| TimedValues::of(&reading.readings, &self.set.counters));
            self.nics[index].record.after = after;
        }
    }

    /// The NICs that were read.
    pub fn devices(&self) -> Vec<DeviceName> {
        self.nics.iter().map(|nic| nic.device).collect()
    }

    /// Returns what was read.
    pub fn records(&self) -> Vec<NicRecord> {
        self.nics.iter().map(|nic| nic.record.clone()).collect()
    }

    /// Whether there are no NICs.
    pub fn is_empty(&self) -> bool {
        self.nics.is_empty()
    }

    /// Reads one NIC in a thread of its own, which is given up if a file does not answer.
    fn read(&mut self, device: DeviceName, machine: &Machine) -> Option<NicReading> {
        let (sender, answer) = mpsc::sync_channel(1);
        let (machine, names) = (machine.clone(), self.set.counters.clone());
        // The receiver is gone if this thread was given up.
        let work = move || drop(sender.send(read(device, &machine, names)));
        let started = threads::start(READING, work);
        let result = match started.map(|_| answer_within(LIMIT, &answer)) {
            Ok(Some(result)) => result,
            Ok(None) => Err("reading its files took longer than 5 s".into()),
            Err(failure) => Err(failure.message()),
        };
        match result {
            Ok(read) => {
                if let Some(reason) = read.failed.first() {
                    let count = read.failed.len();
                    let note = format!("{count} files of {device} cannot be read: {reason}");
                    self.notes.push(note);
                }
                Some(read)
            }
            Err(why) => {
                self.notes.push(format!("the counters of {device} cannot be read: {why}"));
                None
            }
        }
    }

    /// Notes names of the user's list that no NIC has.
    fn note_unknown_counters(&mut self) {
        let is_absent = |name: &&str| {
            let position = self.set.counters.iter().position(|counter| counter == name);
            let mut nics = self.nics.iter().map(|nic| &nic.record.before);
            nics.all(|before| position.and_then(|at| before.reading(at)).is_none())
        };
        let unknown: BTreeSet<&str> = self.set.unknown().filter(is_absent).collect();
        if !unknown.is_empty() && !self.nics.is_empty() {
            let names: Vec<&str> = unknown.into_iter().collect();
            self.notes.push(format!("no NIC has these counters: {}", names.join(" ")));
        }
    }
}

/// The answer of a thread that reads, if it comes within `limit`, beside the time for which the
/// thread waits for a CPU.
fn answer_within<T>(limit: Duration, answer: &Receiver<T>) -> Option<T> {
    let waited = || CpuShare::from_threads(READING).map_or(Duration::ZERO, CpuShare::waited);
    let (begin, waited_before) = (Instant::now(), waited());
    let mut longer = limit;
    loop {
        let left = longer.saturating_sub(begin.elapsed());
        match answer.recv_timeout(left) {
            Ok(read) => return Some(read),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if left.is_zero() => return None,
            Err(RecvTimeoutError::Timeout) => {
                longer = (limit + waited().saturating_sub(waited_before)).min(LONGEST)
            }
        }
    }
}

/// Reads the counters of one NIC.
fn read(device: DeviceName, machine: &Machine, names: Vec<String>) -> Result<NicReading, String> {
    let wanted: HashSet<&str> = names.iter().map(String::as_str).collect();
    let files = backend::files_of_counters(device, machine, |name| wanted.contains(name));
    let files = files.map_err(|failure| failure.message())?;
    if !files.exist() {
        return Err("there is no such NIC".into());
    }
    let readings = CounterReadings::of(&files, names);
    let failed = reading::unreadable().into_iter();
    let failed = failed.filter(|(path, _)| path.starts_with(files.path("")));
    let failed: Vec<String> = failed.map(|(_, reason)| reason).collect();
    let is_software = backend::is_software(device, machine);
    let mut facts = NicFacts::read(&files, device.to_string(), is_software);
    facts.nid = facts.nid.filter(|_| backend::has_location(device, machine));
    Ok(NicReading {
        facts,
        serial: files.text("fru/serial_number"),
        driver: files.text("properties/driver_rev"),
        readings,
        failed,
        files,
    })
}

/// The record of a node before its command.
pub fn new_record(
    request: &StatRequest,
    command: &[OsString],
    program: &ParallelProgram,
    machine: &Machine,
    nics: &RecordedNics,
    started: Clocks,
) -> NodeRecord {
    let words = if request.with_arguments { command } else { name_of(command) };
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    NodeRecord {
        stat_format: FORMAT,
        cxidiag_version: env!("CARGO_PKG_VERSION").into(),
        node: program.node().to_owned(),
        boot_id: machine.boot_id(),
        step: program.step(),
        job_nodes: node_count(|name| env::var(name).ok()),
        run: 1,
        command: words.collect(),
        set: request.set.name.clone(),
        counters: request.set.counters.clone(),
        started_unix_ns: nanoseconds(started.of_day),
        started_ns: nanoseconds(started.monotonic),
        end: None,
        nics: nics.records(),
    }
}

/// The name of a command. The wrapper of software NICs executes the program that follows its
/// options.
fn name_of(command: &[OsString]) -> &[OsString] {
    let is_wrapper = |word: &OsString| Path::new(word).file_name() == Some(WRAPPER.as_ref());
    let is_option = |word: &&OsString| word.as_encoded_bytes().starts_with(b"--");
    let wrapped = match command {
        [first, rest @ ..] if is_wrapper(first) => {
            &rest[rest.iter().take_while(is_option).count()..]
        }
        _ => &[],
    };
    let named = if wrapped.is_empty() { command } else { wrapped };
    &named[..named.len().min(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_read_are_given_up_after_the_limit() {
        const SHORT: Duration = Duration::from_millis(5);
        let (sender, answer) = mpsc::sync_channel(1);
        assert_eq!(answer_within(SHORT, &answer), None);
        sender.send(7).unwrap();
        assert_eq!(answer_within(SHORT, &answer), Some(7));
        drop(sender);
        assert_eq!(answer_within(LONGEST, &answer), None);
    }

    #[test]
    fn names_program_that_cxi_softnic_executes() {
        let name = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let name = name_of(&words).iter().map(|word| word.to_string_lossy());
            name.collect::<String>()
        };
        assert_eq!(name("./app input"), "./app");
        assert_eq!(name("cxi-softnic ./app input"), "./app");
        assert_eq!(name("/opt/cxi-softnic --verbose --no-sys app"), "app");
        assert_eq!(name("cxi-softnic --version"), "cxi-softnic");
    }
}
