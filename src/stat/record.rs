//! What the NICs of one node showed before and after a command: the files `NODE.start` and
//! `NODE.json`, and the file of `--start` (monitoring.md 1.4). A table has the names of the
//! counters once, so that a node with 8 NICs takes some 50 kB.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::counter_set::is_counter;
use facts::text;
use facts::time_of_day::Clocks;
use node::nic::counter::{CounterChange, CounterReading};
use node::nic::counter_table::CounterNames;
use node::nic::counters::{CounterChanges, CounterReadings, NicFacts};
use node::nic::generation::Generation;
use node::nic::link_speed::DriverLimits;
use page::json;

/// The version of the files. Files of another version are refused.
pub const FORMAT: u32 = 2;

/// The readings of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub stat_format: u32,
    /// Version of the program that wrote the file.
    pub cxidiag_version: String,
    /// Name of the node.
    pub node: String,
    /// What the kernel draws at each start; `None` where it does not show it.
    pub boot_id: Option<String>,
    /// The parallel program; `None` for a command that no launcher has started.
    pub step: Option<StepRecord>,
    /// Number of nodes of the program or, for the script of a job, of the job; `None` if no
    /// launcher shows it.
    pub job_nodes: Option<u32>,
    /// Which command of this node in this step it is, from 1 on, as far as files of earlier ones
    /// show.
    pub run: u32,
    /// The command: its name, and its arguments if the user wants them.
    pub command: Vec<String>,
    /// Name of the set of counters.
    pub set: String,
    /// The names of the counters, in the order of the readings.
    pub counters: Vec<String>,
    /// When the first reading began, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The same by the monotonic clock of the node.
    pub started_ns: u64,
    /// The end; `None` if there is no end reading yet.
    pub end: Option<EndRecord>,
    pub nics: Vec<NicRecord>,
}

/// The parallel program that a record belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its name for reports: `Slurm job 1234 step 0`.
    pub name: String,
    /// Number of the node in the step.
    pub node_index: Option<u32>,
    /// The names of the nodes, as far as the launcher shows them, each once.
    pub nodes: Vec<String>,
    /// Number of its processes on this node, if the launcher tells it.
    pub local_size: Option<u32>,
    /// Number of its processes on all nodes.
    pub size: u32,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndRecord {
    /// When the last reading began, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The same by the monotonic clock of the node.
    pub ns: u64,
    /// How the command ended; `None` if it has not ended, or if that is unknown.
    pub status: Option<EndStatus>,
    /// Whether the command, or another process of the program on this node, went on after this
    /// reading.
    pub is_interim: bool,
    /// Processes of the program on this node that were still running.
    pub still_running: u32,
}

impl EndRecord {
    /// The end of a command whose last reading begins `now`.
    pub fn new(
        now: Clocks,
        status: Option<EndStatus>,
        is_interim: bool,
        still_running: u32,
    ) -> Self {
        let (unix_ns, ns) = (nanoseconds(now.of_day), nanoseconds(now.monotonic));
        Self { unix_ns, ns, status, is_interim, still_running }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    Exit(i32),
    Signal(i32),
}

/// The readings of one NIC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NicRecord {
    /// Name of the device.
    pub device: String,
    pub is_software: bool,
    /// Serial number.
    pub serial: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Generation of the NIC: 1 or 2 for Cassini 1 or 2; `None` if it is unknown.
    pub generation: Option<u32>,
    /// Mode of the link.
    pub link_speed: Option<String>,
    /// Transfers per second of a PCIe lane, in 10^9.
    pub pcie_gt_per_s: Option<f64>,
    /// Limits of code words that the driver shows, by the names of their files.
    pub limits: Vec<(String, f64)>,
    /// Address on the fabric, if it says where the NIC is.
    pub nid: Option<u32>,
    /// How often the retry handler sends a packet again at most.
    pub max_spt_retries: Option<u64>,
    /// The counters before the command.
    pub before: TimedValues,
    /// The counters after it; `None` if they were not read.
    pub after: Option<TimedValues>,
}

/// A value, its time in nanoseconds after the first one of its reading, and the driver's stamp;
/// `None` for a counter that the NIC does not have.
type TimedValue = Option<(u64, u64, Option<u64>)>;

/// The values of all counters at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedValues {
    /// The first time, in nanoseconds of a clock without steps.
    first_ns: u64,
    /// What the stamps add to, in nanoseconds since 1970.
    first_unix_ns: u64,
    /// A value for each name in the table of names.
    values: Vec<TimedValue>,
}

impl TimedValues {
    /// Returns readings in the order of `names`.
    pub fn of(readings: &CounterReadings, names: &[String]) -> Self {
        let readings: Vec<Option<CounterReading>> =
            names.iter().map(|name| readings.get(name)).collect();
        let known = || readings.iter().flatten();
        let first_ns = known().map(|reading| nanoseconds(reading.at)).min().unwrap_or(0);
        let stamps = known().filter_map(|reading| reading.stamp);
        let first_unix_ns = stamps.map(nanoseconds).min().unwrap_or(0);
        let value = |reading: CounterReading| {
            let stamp = reading.stamp.map(|stamp| nanoseconds(stamp) - first_unix_ns);
            (reading.value, nanoseconds(reading.at) - first_ns, stamp)
        };
        Self {
            first_ns,
            first_unix_ns,
            values: readings.into_iter().map(|reading| reading.map(value)).collect(),
        }
    }

    /// The reading of the counter at this position in the table of names; `None` if the NIC does
    /// not have it.
    pub fn reading(&self, position: usize) -> Option<CounterReading> {
        let (value, after, stamp) = (*self.values.get(position)?)?;
        let time = |first: u64, after| Duration::from_nanos(first.saturating_add(after));
        Some(CounterReading {
            value,
            at: time(self.first_ns, after),
            stamp: stamp.map(|after| time(self.first_unix_ns, after)),
        })
    }
}

impl NicRecord {
    /// The record of a NIC before the command.
    pub fn begin(
        nic: &NicFacts,
        serial: Option<String>,
        driver: Option<String>,
        before: TimedValues,
    ) -> Self {
        let limits = nic.limits.iter();
        Self {
            device: nic.device.clone(),
            is_software: nic.is_software,
            serial,
            driver,
            generation: nic.generation.map(Generation::number),
            link_speed: nic.link_speed.clone(),
            pcie_gt_per_s: nic.pcie_gt_per_s,
            limits: limits.map(|(name, limit)| (name.to_owned(), limit)).collect(),
            nid: nic.nid,
            max_spt_retries: nic.max_spt_retries,
            before,
            after: None,
        }
    }

    /// Returns what the counters did. Without an end reading there are no changes.
    pub fn changes(&self, names: &Arc<CounterNames>) -> CounterChanges {
        let mut limits = DriverLimits::default();
        for (name, limit) in &self.limits {
            // A file of a later version may have a limit that this one does not know.
            let _ = limits.set(name, &limit.to_string());
        }
        let nic = NicFacts {
            device: self.device.clone(),
            is_software: self.is_software,
            generation: self.generation.and_then(Generation::from_number),
            link_speed: self.link_speed.clone(),
            pcie_gt_per_s: self.pcie_gt_per_s,
            limits,
            nid: self.nid,
            max_spt_retries: self.max_spt_retries,
        };
        let changes = (0..names.names().len()).map(|position| self.change(position));
        CounterChanges::in_order(nic, Arc::clone(names), changes)
    }

    /// Returns what the counter at this position did; `None` without two readings.
    pub fn change(&self, position: usize) -> Option<CounterChange> {
        let after = self.after.as_ref()?.reading(position)?;
        Some(CounterChange::between(self.before.reading(position)?, after))
    }
}

fn other_version(format: u32) -> String {
    format!("format {format} of another version of cxidiag, expected {FORMAT}")
}

impl NodeRecord {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// What is wrong with the bytes.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let bytes = &text::shown_json(bytes);
        /// What a file of any version has.
        #[derive(Deserialize)]
        struct FormatVersion {
            stat_format: u32,
        }
        let record: Self = match json::read(bytes) {
            Ok(record) => record,
            // A file of another version may lack anything else.
            Err(error) => match serde_json::from_slice(bytes) {
                Ok(FormatVersion { stat_format }) if stat_format != FORMAT => {
                    return Err(other_version(stat_format));
                }
                _ => return Err(format!("not a file of cxidiag stat: {error}")),
            },
        };
        if record.stat_format != FORMAT {
            return Err(other_version(record.stat_format));
        }
        // Counters are read by their names, perhaps by root.
        if let Some(place) = record.counters.iter().position(|name| !is_counter(name)) {
            return Err(format!("not a file of cxidiag stat: counters[{place}] is no counter"));
        }
        let count = record.counters.len();
        let all = |nic: &NicRecord| {
            let after = nic.after.as_ref().map_or(count, |after| after.values.len());
            nic.before.values.len() == count && after == count
        };
        if !record.nics.iter().all(all) {
            return Err(
                "not a file of cxidiag stat: values and names of counters differ in number".into(),
            );
        }
        Ok(record)
    }

    /// The record as a file.
    pub fn bytes(&self) -> Vec<u8> {
        // Serializing plain data into memory does not fail.
        page::json::line(self).unwrap_or_default()
    }

    /// Whether this record belongs to an earlier command than `other`, a record of another node of
    /// the same step. Each node counts its commands, and one of them may have run fewer: so the
    /// times must agree, too.
    pub fn is_before(&self, other: &Self) -> bool {
        let last = self.end.as_ref().map_or(self.started_unix_ns, |end| end.unix_ns);
        self.run < other.run && last < other.started_unix_ns
    }

    /// The time between both readings; `None` without an end.
    pub fn elapsed(&self) -> Option<Duration> {
        let end = self.end.as_ref()?;
        Some(Duration::from_nanos(end.ns.saturating_sub(self.started_ns)))
    }

    /// Returns by how many seconds the clock of the node was stepped between both readings, if it
    /// was.
    pub fn clock_step(&self) -> Option<f64> {
        let end = self.end.as_ref()?;
        let clocks = |monotonic, of_day| Clocks {
            monotonic: Duration::from_nanos(monotonic),
            of_day: Duration::from_nanos(of_day),
        };
        let before = clocks(self.started_ns, self.started_unix_ns);
        clocks(end.ns, end.unix_ns).step_since(before)
    }
}

/// A time in whole nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    #[test]
    fn keeps_values_and_times_exactly() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let stamp = Some(Duration::new(1_700_000_000, 999_999_999));
        let moment = |ns| Duration::new(12_345, ns);
        let readings: CounterReadings = [
            ("a".to_owned(), CounterReading { value: (1 << 56) - 10, at: moment(7), stamp }),
            ("c".to_owned(), CounterReading { value: 3, at: moment(12), stamp: None }),
        ]
        .into_iter()
        .collect();
        let values = TimedValues::of(&readings, &names);
        for (position, name) in names.iter().enumerate() {
            assert_eq!(values.reading(position), readings.get(name));
        }
        assert_eq!(values.reading(names.len()), None);
        assert_eq!(values.values, [Some(((1 << 56) - 10, 0, Some(0))), None, Some((3, 5, None))]);
    }

    #[test]
    fn reads_back_what_it_wrote() {
        let record = testing::node("nid1", &[("cxi0", &[("hni_tx_ok_opt", 5)])]);
        let read = NodeRecord::read(&record.bytes()).unwrap();
        assert_eq!(read, record);
        let changes = read.nics[0].changes(&Arc::new(CounterNames::new(read.counters)));
        assert_eq!(changes.count("hni_tx_ok_opt"), Some(5));
        assert_eq!(changes.of("hni_rx_ok_opt").and_then(CounterChange::count), None);
    }

    /// As in `--stop`, whose process began after the clock was set.
    #[test]
    fn durations_and_rates_do_not_follow_steps_of_the_clock() {
        for (step_ms, step) in [(0, None), (300, Some("+0.300")), (-2000, Some("-2.000"))] {
            let mut node = testing::node("nid1", &[("cxi0", &[("hni_tx_ok_opt", 50)])]);
            let end = node.end.as_mut().unwrap();
            end.unix_ns = end.unix_ns.saturating_add_signed(step_ms * 1_000_000);
            let after = node.nics[0].after.as_mut().unwrap();
            after.first_unix_ns = after.first_unix_ns.saturating_add_signed(step_ms * 1_000_000);
            let found = node.clock_step().map(|step| format!("{step:+.3}"));
            assert_eq!(found.as_deref(), step);
            assert_eq!(node.elapsed(), Some(Duration::from_secs(testing::SECONDS)));
            assert_eq!(node.nics[0].change(0).and_then(CounterChange::per_second), Some(5.0));
        }
    }

    #[test]
    fn earlier_commands_have_a_lower_number_and_have_ended() {
        let node_for = |run, started: u64, end: Option<u64>| {
            let mut record = testing::node("nid1", &[]);
            record.run = run;
            record.started_unix_ns = started;
            match (&mut record.end, end) {
                (Some(record), Some(end)) => record.unix_ns = end,
                (record, _) => *record = None,
            }
            record
        };
        let own = node_for(2, 100, Some(200));
        assert!(node_for(1, 10, Some(99)).is_before(&own));
        assert!(node_for(1, 10, None).is_before(&own), "its leader was killed");
        assert!(!node_for(2, 10, Some(99)).is_before(&own), "a node may be slow");
        assert!(!node_for(1, 10, Some(101)).is_before(&own), "they overlap");
        assert!(!node_for(1, 101, None).is_before(&own));
    }

    #[test]
    fn refuses_other_files() {
        let record = testing::node("nid1", &[("cxi0", &[("hni_tx_ok_opt", 5)])]);
        let text = String::from_utf8(record.bytes()).unwrap();
        let refused = |text: &str| NodeRecord::read(text.as_bytes()).unwrap_err();
        let newer = text.replace("\"stat_format\":2", "\"stat_format\":3");
        assert_eq!(refused(&newer), "format 3 of another version of cxidiag, expected 2");
        let newer = "{\"stat_format\":3}";
        assert_eq!(refused(newer), "format 3 of another version of cxidiag, expected 2");
        assert!(refused("{}").starts_with("not a file of cxidiag stat: missing field"));
        assert!(refused(&text[..text.len() / 2]).contains(": EOF"));
        for name in ["properties/../../x", "retry_handler//abs/path", "../x", ""] {
            let other = text
                .replace("\"counters\":[\"hni_tx_ok_opt\"", &format!("\"counters\":[\"{name}\""));
            let why = "not a file of cxidiag stat: counters[0] is no counter";
            assert_eq!(refused(&other), why);
        }
        let short = text.replace("\"counters\":[", "\"counters\":[\"more\",");
        assert!(refused(&short).contains("differ in number"), "{}", refused(&short));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_or_read(at in 0usize..2000, byte: u8) {
            let record = testing::node("nid1", &[("cxi0", &[("hni_tx_ok_opt", 5)])]);
            let mut bytes = record.bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(record) = NodeRecord::read(&bytes) {
                let names = Arc::new(CounterNames::new(record.counters));
                for nic in &record.nics {
                    nic.changes(&names);
                }
            }
        }
    }
}
