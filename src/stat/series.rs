//! What some counters of one node did over time: `NODE.series.jsonl` (monitoring.md 1.5), and the
//! thread of the leader that writes it (`--interval`).
//!
//! The first line names counters and NICs. Each line after it has a time, and the counts since the
//! line before.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use facts::device::DeviceName;
use facts::time_of_day::{milliseconds, rfc3339, since_1970};
use node::backend;
use node::machine::Machine;
use node::nic::counter::CounterChange;
use node::nic::counters::CounterReadings;
use page::json;
use serde::{Deserialize, Deserializer, Serialize};

use crate::note::note;

/// The counters of a series: what may explain a slow job, and its traffic.
const COUNTERS: [&str; 24] = [
    "retry_handler/spt_timeouts",
    "retry_handler/sct_timeouts",
    "pct_retry_srb_requests",
    "pct_rsp_err_rcvd",
    "hni_sts_tx_ok_octets",
    "hni_sts_rx_ok_octets",
    "oxe_stall_fgfc_blk_0",
    "oxe_stall_fgfc_blk_1",
    "oxe_stall_fgfc_blk_2",
    "oxe_stall_fgfc_blk_3",
    "hni_fgfc_port",
    "hni_tx_paused_0",
    "hni_tx_paused_1",
    "hni_rx_paused_0",
    "hni_rx_paused_1",
    "parbs_tarb_pi_posted_blocked_cnt",
    "parbs_tarb_pi_non_posted_blocked_cnt",
    "hni_pcs_corrected_cw",
    "hni_pcs_uncorrected_cw",
    "hni_llr_tx_replay_event",
    "hni_llr_rx_replay_event",
    "atu_cache_evictions",
    "lpe_net_match_overflow_0",
    "lpe_net_match_priority_0",
];

/// Counters whose counts a sentence places in time, and what they count.
const PLACED: [(&str, &str); 4] = [
    ("retry_handler/spt_timeouts", "timeouts"),
    ("hni_pcs_uncorrected_cw", "lost code words"),
    ("hni_llr_tx_replay_event", "replays to the switch"),
    ("hni_llr_rx_replay_event", "replays from the switch"),
];

/// Share of a series above which the time of its counts says nothing.
const MOST_OF_IT: f64 = 0.5;

/// Gaps of a NIC that a sentence names.
const MOST_GAPS: usize = 3;

/// Intervals without which a series has no parts.
const MIN_INTERVALS: usize = 4;

/// The first line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SeriesHead {
    /// Name of the node.
    pub node: String,
    /// The counters of each interval.
    pub counters: Vec<String>,
    /// The NICs of each interval.
    pub devices: Vec<String>,
    /// When the first interval began, in milliseconds since 1970.
    pub started_unix_ms: u64,
}

/// A line after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SeriesInterval {
    /// When the interval ended, in milliseconds since 1970.
    pub unix_ms: u64,
    /// For each NIC, the count of each counter; null for a counter that it does not have, and after
    /// a reset.
    pub counts: Vec<Vec<Option<u64>>>,
}

/// What some counters of a node did over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "StatSeries"))]
pub struct NodeSeries {
    /// Name of the node.
    pub host: String,
    /// The counters of each interval.
    pub counters: Vec<String>,
    /// The NICs of each interval.
    pub devices: Vec<String>,
    /// When the first interval began, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// The intervals.
    pub intervals: Vec<SeriesInterval>,
}

/// Reads the series of a document.
pub fn fitting<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NodeSeries>, D::Error> {
    let series = Vec::<NodeSeries>::deserialize(from)?;
    Ok(series.into_iter().map(NodeSeries::fitting).collect())
}

impl NodeSeries {
    /// Reads a file. A last line that was not written whole is left out.
    ///
    /// # Errors
    ///
    /// What is wrong with the first line.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let SeriesHead { node: host, counters, devices, started_unix_ms } =
            serde_json::from_str(head)
                .map_err(|error| format!("not a series of cxidiag stat: {error}"))?;
        let intervals = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { host, counters, devices, started_unix_ms, intervals }.fitting())
    }

    /// Leaves out intervals that do not have a count for each counter of each NIC.
    fn fitting(mut self) -> Self {
        let (nics, counters) = (self.devices.len(), self.counters.len());
        self.intervals.retain(|interval| {
            interval.counts.len() == nics && interval.counts.iter().all(|nic| nic.len() == counters)
        });
        self
    }

    /// The sum of `counters` of a NIC for each second, in each interval: the end of the interval in
    /// seconds after `start_unix_ms`, and the rate. Intervals that take no time have none.
    pub fn rates(&self, nic: usize, counters: &[&str], start_unix_ms: u64) -> Vec<(f64, f64)> {
        let names = self.counters.iter().enumerate();
        let columns = names.filter(|(_, name)| counters.contains(&name.as_str()));
        let columns: Vec<usize> = columns.map(|(column, _)| column).collect();
        let rate = |(index, interval): (usize, &SeriesInterval)| {
            let ms = interval.unix_ms.checked_sub(self.start_of(index))?;
            let counts = columns.iter().filter_map(|at| interval.counts[nic][*at]);
            let count = counts.fold(0, u64::saturating_add);
            let at = interval.unix_ms.checked_sub(start_unix_ms)?;
            (ms > 0).then(|| (at as f64 / 1e3, count as f64 * 1e3 / ms as f64))
        };
        self.intervals.iter().enumerate().filter_map(rate).collect()
    }

    /// Returns sentences about counts that happened in a part of the time only.
    pub fn peaks(&self) -> Vec<String> {
        let mut peaks = Vec::new();
        if self.intervals.len() < MIN_INTERVALS {
            return peaks;
        }
        for (counter, what) in PLACED {
            let Some(column) = self.counters.iter().position(|name| name == counter) else {
                continue;
            };
            for (nic, device) in self.devices.iter().enumerate() {
                let count = |interval: &SeriesInterval| interval.counts[nic][column].unwrap_or(0);
                let is_active = |index: &usize| count(&self.intervals[*index]) > 0;
                let mut active = (0..self.intervals.len()).filter(is_active);
                let Some(first) = active.next() else {
                    continue;
                };
                let last = active.next_back().unwrap_or(first);
                let share = (last - first + 1) as f64 / self.intervals.len() as f64;
                if share <= MOST_OF_IT {
                    let all: u64 = self.intervals.iter().map(count).sum();
                    peaks.push(format!(
                        "all {all} {what} of {} {device} between {} and {}",
                        self.host,
                        clock_time(self.start_of(first)),
                        clock_time(self.intervals[last].unix_ms)
                    ));
                }
            }
        }
        peaks
    }

    /// The times without any reading of a NIC that has readings at others, in milliseconds since
    /// 1970: it was gone, or its counters have begun anew.
    fn gaps(&self, nic: usize) -> Vec<(u64, u64)> {
        let is_empty =
            |index: &usize| self.intervals[*index].counts[nic].iter().all(Option::is_none);
        let (empty, read): (Vec<_>, Vec<_>) = (0..self.intervals.len()).partition(is_empty);
        let times = |part: &[usize]| {
            let last = part.last().map_or(0, |index| self.intervals[*index].unix_ms);
            (self.start_of(part[0]), last)
        };
        let parts = empty.chunk_by(|one, next| one + 1 == *next).map(times);
        parts.filter(|_| !read.is_empty()).collect()
    }

    /// Returns how long each NIC had no readings, in seconds, and a sentence about it.
    pub fn missing(&self) -> impl Iterator<Item = (&str, f64, String)> {
        self.devices.iter().enumerate().filter_map(|(nic, device)| {
            let gaps = self.gaps(nic);
            let ms: u64 = gaps.iter().map(|(begin, end)| end.saturating_sub(*begin)).sum();
            let texts = gaps
                .iter()
                .map(|(begin, end)| format!("{} and {}", clock_time(*begin), clock_time(*end)));
            let texts = texts.take(MOST_GAPS).collect::<Vec<_>>().join(", ");
            let more = match gaps.len().saturating_sub(MOST_GAPS) {
                0 => String::new(),
                more => format!(", and {more} more times"),
            };
            let text = format!(
                "no readings of {} {device} between {texts}{more}: the NIC was gone, or its \
                 counters began anew",
                self.host
            );
            (!gaps.is_empty()).then_some((device.as_str(), ms as f64 / 1e3, text))
        })
    }

    /// Returns when an interval began.
    fn start_of(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            Some(before) => self.intervals[before].unix_ms,
            None => self.started_unix_ms,
        }
    }

    /// The sum of each counter of a NIC, by name.
    pub fn sums(&self, nic: usize) -> BTreeMap<&str, u64> {
        let sum = |column: usize| {
            let counts = self.intervals.iter().filter_map(|interval| interval.counts[nic][column]);
            counts.fold(0, u64::saturating_add)
        };
        let names = self.counters.iter().enumerate();
        names.map(|(column, name)| (name.as_str(), sum(column))).collect()
    }
}

/// A time of day in UTC: `12:03:07`.
fn clock_time(unix_ms: u64) -> String {
    let text = rfc3339(unix_ms);
    text.split_once('T').map_or("", |(_, clock)| clock.trim_end_matches('Z')).to_owned()
}

/// How long the end waits for the thread: its files may not answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

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
        let _ = self.ended.recv_timeout(ANSWER_LIMIT);
    }
}

/// The next time to read after `last`, a number of intervals later. Times that have passed are left
/// out, so the time that reading takes does not add up, and slow files are not read without pause.
fn next_tick(last: Instant, interval: Duration, now: Instant) -> Instant {
    let mut next = last + interval;
    if next < now {
        let passed = now.duration_since(next).as_nanos() / interval.as_nanos().max(1);
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        next += interval.saturating_mul(passed.saturating_add(1));
    }
    next
}

/// The counters of each NIC; none of a NIC that cannot be read.
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
    use proptest::prelude::*;

    use super::*;

    /// A series of one NIC with these timeouts in intervals of a second.
    fn series(timeouts: &[u64]) -> NodeSeries {
        // 12:03:00 of some day.
        let start = (1_699_920_000 + 12 * 3600 + 3 * 60) * 1000;
        let interval = |(index, count): (usize, &u64)| SeriesInterval {
            unix_ms: start + 1000 * (index as u64 + 1),
            counts: vec![vec![Some(*count)]],
        };
        NodeSeries {
            host: "nid1".into(),
            counters: vec!["retry_handler/spt_timeouts".into()],
            devices: vec!["cxi1".into()],
            started_unix_ms: start,
            intervals: timeouts.iter().enumerate().map(interval).collect(),
        }
    }

    #[test]
    fn places_counts_that_happened_in_a_part_of_the_time() {
        let texts = |timeouts: &[u64]| series(timeouts).peaks();
        assert_eq!(
            texts(&[0, 0, 0, 0, 0, 0, 0, 300, 0, 0, 0, 20, 0, 0, 0, 0]),
            ["all 320 timeouts of nid1 cxi1 between 12:03:07 and 12:03:12"]
        );
        assert_eq!(
            texts(&[5, 0, 0, 0]),
            ["all 5 timeouts of nid1 cxi1 between 12:03:00 and 12:03:01"]
        );
        assert!(texts(&[5, 0, 5, 0]).is_empty());
        assert!(texts(&[5, 0]).is_empty());
        assert!(texts(&[0, 0, 0, 0]).is_empty());
    }

    #[test]
    fn names_times_without_readings() {
        let texts = |counts: &[Option<u64>]| {
            let mut series = series(&vec![0; counts.len()]);
            for (interval, count) in series.intervals.iter_mut().zip(counts) {
                interval.counts = vec![vec![*count]];
            }
            series.missing().map(|(_, seconds, text)| (seconds, text)).collect::<Vec<_>>()
        };
        let text = "no readings of nid1 cxi1 between 12:03:01 and 12:03:03, 12:03:04 and 12:03:05: \
            the NIC was gone, or its counters began anew";
        let (read, none) = (Some(0), None);
        assert_eq!(texts(&[read, none, none, read, none]), [(3.0, text.into())]);
        let many = [read, none, read, none, read, none, read, none, read, none];
        assert!(texts(&many)[0].1.contains("and 12:03:06, and 2 more times: the NIC"));
        assert!(texts(&[read, read]).is_empty());
        // It never had counters.
        assert!(texts(&[none, none]).is_empty() && texts(&[]).is_empty());
    }

    fn head_line(series: &NodeSeries) -> String {
        let NodeSeries { host: node, counters, devices, started_unix_ms, .. } = series.clone();
        let head = SeriesHead { node, counters, devices, started_unix_ms };
        serde_json::to_string(&head).unwrap() + "\n"
    }

    #[test]
    fn reads_lines_and_leaves_out_a_torn_one() {
        let series = series(&[1, 2, 3, 4]);
        let mut text = head_line(&series);
        for interval in &series.intervals {
            text += &(serde_json::to_string(interval).unwrap() + "\n");
        }
        assert_eq!(NodeSeries::read(&text).unwrap(), series);
        let torn = NodeSeries::read(&text[..text.len() - 5]).unwrap();
        assert_eq!(torn.intervals.len(), 3);
        assert_eq!(series.sums(0)["retry_handler/spt_timeouts"], 10);
        assert!(NodeSeries::read("").unwrap_err().starts_with("not a series of cxidiag stat"));
    }

    proptest! {
        #[test]
        fn hostile_lines_are_refused_or_left_out(line in "[\\[\\]{}\",:a-z0-9]{0,80}") {
            let series = series(&[1, 2, 3, 4]);
            let text = head_line(&series) + &line;
            let read = NodeSeries::read(&text).unwrap();
            read.peaks();
            let _ = NodeSeries::read(&line);
        }
    }

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
