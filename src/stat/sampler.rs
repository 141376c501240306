//! `--interval`: a thread of the leader that reads some counters again and again, and writes what
//! they did in each interval.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::note::note;
use crate::series::{COUNTERS, SeriesHead, SeriesInterval};
use facts::device::DeviceName;
use facts::time_of_day::{milliseconds, since_1970};
use node::backend;
use node::machine::Machine;
use node::nic::counter::CounterChange;
use node::nic::counters::CounterReadings;
use page::json;

/// How long the end waits for the thread: its files may not answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The thread. It ends with this value.
pub struct CounterSampler {
    /// Ends the thread when it is dropped.
    end: Option<Sender<()>>,
    /// Is disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl CounterSampler {
    /// Starts to read the counters of `devices` every `interval`, into the file at `path`.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, and a thread that cannot be started.
    pub fn start(
        node: &str,
        devices: &[DeviceName],
        machine: &Machine,
        interval: Duration,
        path: &Path,
    ) -> io::Result<Self> {
        let head = SeriesHead {
            node: node.to_owned(),
            counters: COUNTERS.map(str::to_owned).to_vec(),
            devices: devices.iter().map(DeviceName::to_string).collect(),
            started_unix_ms: milliseconds(since_1970()),
        };
        let mut file = File::create(path)?;
        write_line(&mut file, &head)?;
        let (end, is_to_end) = mpsc::channel::<()>();
        let (running, ended) = mpsc::channel::<()>();
        let (devices, machine) = (devices.to_vec(), machine.clone());
        let sample = move || {
            let started = Instant::now();
            // Files that do not answer keep this thread alone waiting.
            let mut before = read(&devices, &machine);
            let mut next = started;
            loop {
                next = next_tick(next, interval, Instant::now());
                let left = next.saturating_duration_since(Instant::now());
                let is_last = is_to_end.recv_timeout(left) != Err(RecvTimeoutError::Timeout);
                let after = read(&devices, &machine);
                let written = write_line(&mut file, &between(&before, &after));
                if let Err(error) = &written {
                    note(&format!("--interval: the series ends here: {error}"));
                }
                if is_last || written.is_err() {
                    drop(running);
                    return;
                }
                before = after;
            }
        };
        thread::Builder::new().name("sampler".into()).spawn(sample)?;
        Ok(Self { end: Some(end), ended })
    }
}

impl Drop for CounterSampler {
    fn drop(&mut self) {
        self.end = None;
        let _ = self.ended.recv_timeout(LIMIT);
    }
}

/// Returns the next time to read after `last`, a number of intervals later. Times that have passed
/// are left out, so the time that reading takes does not add up, and slow files are not read
/// without pause.
fn next_tick(last: Instant, interval: Duration, now: Instant) -> Instant {
    let mut next = last + interval;
    if next < now {
        let passed = now.duration_since(next).as_nanos() / interval.as_nanos().max(1);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        next += interval.saturating_mul(passed.saturating_add(1));
    }
    next
}

/// Returns the counters of each NIC; none of a NIC that cannot be read.
fn read(devices: &[DeviceName], machine: &Machine) -> Vec<CounterReadings> {
    let names = || COUNTERS.map(str::to_owned);
    let wanted = |name: &str| COUNTERS.contains(&name);
    let read = |device: &DeviceName| match backend::files_of_counters(*device, machine, wanted) {
        Ok(files) => CounterReadings::of(&files, names()),
        Err(_) => CounterReadings::default(),
    };
    devices.iter().map(read).collect()
}

/// Returns what happened between two readings.
fn between(before: &[CounterReadings], after: &[CounterReadings]) -> SeriesInterval {
    let count = |before: &CounterReadings, after: &CounterReadings, name: &str| {
        CounterChange::between(before.get(name)?, after.get(name)?).count()
    };
    let nic_counts = |(before, after): (&CounterReadings, &CounterReadings)| {
        let counts = COUNTERS.iter().map(|name| count(before, after, name));
        counts.collect()
    };
    SeriesInterval {
        unix_ms: milliseconds(since_1970()),
        counts: before.iter().zip(after).map(nic_counts).collect(),
    }
}

fn write_line(file: &mut File, line: &impl serde::Serialize) -> io::Result<()> {
    let line = json::line(line).map_err(|failure| io::Error::other(failure.message()))?;
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_ticks_that_have_passed() {
        let last = Instant::now();
        let at = |ms| last + Duration::from_millis(ms);
        let next = |now| next_tick(last, Duration::from_millis(100), at(now));
        assert_eq!(next(0), at(100));
        assert_eq!(next(99), at(100));
        assert_eq!(next(101), at(200));
        assert_eq!(next(1950), at(2000));
    }
}
