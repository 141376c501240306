//! The counters of one NIC, read before and after a run: the reader of `--counters`, `check` and
//! `stat`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counter::{CounterChange, CounterReading};
use super::counter_table::{CounterNames, CounterRow, Preset};
use super::files::Files;
use super::generation::Generation;
use super::link_speed::DriverLimits;
use super::pcie_path::PcieSpeed;
use facts::number::decimal;

/// Where the names of the retry handler's counters begin.
const RETRY_HANDLER: &str = "retry_handler/";

/// Where the names of the driver's PCIe counters begin.
const PROPERTIES: &str = "properties/";

/// Counters at one moment. Those that the NIC does not have are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterReadings(BTreeMap<String, CounterReading>);

impl CounterReadings {
    /// Reads the counters of `preset` from `files`.
    pub fn read(files: &Files, preset: Preset) -> Self {
        Self::of(files, preset.rows().flat_map(CounterRow::names))
    }

    /// Reads the counters with these names, as [`CounterReadings::read`] does.
    pub fn of(files: &Files, names: impl IntoIterator<Item = String>) -> Self {
        let read = |name: String| Some((read(files, &name)?, name));
        let readings = names.into_iter().filter_map(read);
        readings.map(|(reading, name)| (name, reading)).collect()
    }

    /// The reading of a counter; `None` if the NIC does not have it.
    pub fn get(&self, name: &str) -> Option<CounterReading> {
        self.0.get(name).copied()
    }
}

impl FromIterator<(String, CounterReading)> for CounterReadings {
    fn from_iter<T: IntoIterator<Item = (String, CounterReading)>>(readings: T) -> Self {
        Self(readings.into_iter().collect())
    }
}

fn read(files: &Files, name: &str) -> Option<CounterReading> {
    if let Some(name) = name.strip_prefix(RETRY_HANDLER) {
        files.timed(|| Some((decimal(&files.retry_handler_text(name)?)?, None)))
    } else if name.starts_with(PROPERTIES) {
        files.timed(|| Some((files.number(name)?, None)))
    } else {
        files.counter(name)
    }
}

/// What a NIC shows about itself: the limits of some counters depend on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NicFacts {
    /// Name of the device.
    pub device: String,
    pub is_software: bool,
    /// Generation of the NIC, if it is known.
    pub generation: Option<Generation>,
    /// Mode of the link, as the driver shows it.
    pub link_speed: Option<String>,
    /// Transfers per second of each PCIe lane, in 10^9.
    pub pcie_gt_per_s: Option<f64>,
    /// Limits of code words that the driver shows.
    pub limits: DriverLimits,
    /// Address on the fabric.
    pub nid: Option<u32>,
    /// How often the retry handler sends a packet again at most.
    pub max_spt_retries: Option<u64>,
}

impl NicFacts {
    /// Reads the facts about `device`.
    pub fn read(files: &Files, device: String, is_software: bool) -> Self {
        Self {
            device,
            is_software,
            generation: Generation::of(files),
            link_speed: (files.text("port/speed")).or_else(|| files.text("port/0/link/speed")),
            pcie_gt_per_s: PcieSpeed::read(files).map(|speed| speed.gt_per_s),
            limits: DriverLimits::read(files),
            nid: files.nid(),
            max_spt_retries: files
                .retry_handler_text("config/max_spt_retries")
                .and_then(|text| decimal(&text)),
        }
    }

    /// The cycles of the NIC's clock in a second. A NIC of an unknown generation counts as Cassini
    /// 1.
    pub fn cycles_per_s(&self) -> f64 {
        let generation = self.generation.unwrap_or(Generation::Cassini1);
        generation.cycles_per_s()
    }
}

/// What the counters of a NIC did during a run. Those that the NIC does not have are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterChanges {
    pub nic: NicFacts,
    /// The names of the counters, which all NICs of a job share.
    names: Arc<CounterNames>,
    /// The change of each counter, in the order of the names.
    changes: Vec<Option<CounterChange>>,
}

impl CounterChanges {
    /// Returns what has happened between two readings.
    pub fn between(nic: NicFacts, before: &CounterReadings, after: &CounterReadings) -> Self {
        let changes = before.0.iter().filter_map(|(name, before)| {
            let after = after.0.get(name)?;
            Some((name.clone(), CounterChange::between(*before, *after)))
        });
        Self::new(nic, changes.collect())
    }

    pub fn new(nic: NicFacts, by_name: BTreeMap<String, CounterChange>) -> Self {
        let (names, changes): (Vec<String>, Vec<CounterChange>) = by_name.into_iter().unzip();
        Self {
            nic,
            names: Arc::new(CounterNames::new(names)),
            changes: changes.into_iter().map(Some).collect(),
        }
    }

    /// Returns changes in the order of `names`; `None` for a counter that is not available.
    pub fn in_order(
        nic: NicFacts,
        names: Arc<CounterNames>,
        changes: impl IntoIterator<Item = Option<CounterChange>>,
    ) -> Self {
        Self { nic, names, changes: changes.into_iter().collect() }
    }

    /// The change of a counter; `None` if it is not available.
    pub fn of(&self, name: &str) -> Option<CounterChange> {
        self.at(self.names.position(name)?)
    }

    /// The changes of one counter on several NICs. NICs that share their names cost one search for
    /// the name together.
    pub fn changes_by_nic(nics: &[&Self], name: &str) -> Vec<Option<CounterChange>> {
        let mut found: Option<(&Arc<CounterNames>, Option<usize>)> = None;
        let mut changes = Vec::with_capacity(nics.len());
        for nic in nics {
            let position = match found {
                Some((names, position)) if Arc::ptr_eq(names, &nic.names) => position,
                _ => nic.names.position(name),
            };
            found = Some((&nic.names, position));
            changes.push(position.and_then(|position| nic.at(position)));
        }
        changes
    }

    fn at(&self, position: usize) -> Option<CounterChange> {
        self.changes.get(position).copied().flatten()
    }

    /// Returns by how much a counter has grown; `None` if it is not available or was reset.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.of(name)?.count()
    }

    /// Returns by how much the counters whose names are `prefix` and a number have grown together;
    /// `None` if none is available.
    pub fn sum(&self, prefix: &str) -> Option<u64> {
        let numbered = self.numbered(prefix);
        numbered.filter_map(|(_, change)| change.count()).reduce(u64::saturating_add)
    }

    /// The counters whose names are `prefix` and a number, with the number.
    pub fn numbered(&self, prefix: &str) -> impl Iterator<Item = (u32, CounterChange)> {
        let named = self.names.with_prefix(prefix);
        named.filter_map(move |(number, position)| Some((number.parse().ok()?, self.at(position)?)))
    }

    /// All changes, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, CounterChange)> {
        let names = self.names.sorted();
        names.filter_map(|(name, position)| Some((name, self.at(position)?)))
    }

    /// Whether no counter is available.
    pub fn is_empty(&self) -> bool {
        self.changes.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    /// Writes files below a root, named without the leading slash.
    fn write(root: &tempfile::TempDir, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn counted(by: u64, seconds: u64) -> CounterChange {
        CounterChange::Counted { by, within: Some(Duration::from_secs(seconds)) }
    }

    #[test]
    fn reads_counters_of_all_sources() {
        let root = tempfile::tempdir().unwrap();
        let telemetry = "sys/class/cxi/cxi0/device/telemetry";
        let good = format!("{telemetry}/hni_pcs_good_cw");
        let reset = format!("{telemetry}/pct_spt_timeouts");
        let gone = format!("{telemetry}/hni_tx_ok_opt");
        let handler = "run/cxi/cxi0/spt_timeouts";
        let pcie = "sys/class/cxi/cxi0/device/properties/pcie_corr_err";
        write(
            &root,
            &[
                (&good, "72057594037927900@100.000000000\n"),
                (&reset, "5000@100.0\n"),
                (&gone, "1@100.0\n"),
                (handler, "7\n"),
                (pcie, "40\n"),
            ],
        );
        let files = Files::new(root.path(), "cxi0");
        let read = |seconds| {
            let files = files.clone().taken_at(Duration::from_secs(seconds));
            CounterReadings::read(&files, Preset::Quick)
        };
        let before = read(10);
        fs::remove_file(root.path().join(gone)).unwrap();
        write(
            &root,
            &[
                (&good, "100@101.000000000\n"),
                (&reset, "100@104.0\n"),
                (handler, "9"),
                (pcie, "40\n"),
            ],
        );
        let changes = CounterChanges::between(NicFacts::default(), &before, &read(13));
        assert_eq!(changes.of("hni_pcs_good_cw"), Some(counted(136, 3)));
        assert_eq!(changes.of("pct_spt_timeouts"), Some(CounterChange::Reset));
        assert_eq!(changes.count("pct_spt_timeouts"), None);
        assert_eq!(changes.of("hni_tx_ok_opt"), None);
        assert_eq!(changes.of("hni_rx_ok_opt"), None);
        let timeouts = changes.of("retry_handler/spt_timeouts");
        assert_eq!(timeouts, Some(counted(2, 3)));
        assert_eq!(changes.count("properties/pcie_corr_err"), Some(0));
    }

    #[test]
    fn reads_facts_of_both_generations() {
        let root = tempfile::tempdir().unwrap();
        let value_for = |device: &str| {
            let files = Files::new(root.path(), device);
            let facts = NicFacts::read(&files, device.to_owned(), false);
            (facts.link_speed, facts.pcie_gt_per_s)
        };
        let at = |device, name| format!("sys/class/cxi/{device}/device/{name}");
        let esm = at("cxi1", "properties/current_esm_link_speed");
        write(
            &root,
            &[
                (&at("cxi0", "port/speed"), "BS_200G"),
                (&at("cxi0", "current_link_speed"), "16.0 GT/s PCIe\n"),
                (&at("cxi0", "properties/current_esm_link_speed"), "Disabled\n"),
                (&at("cxi1", "port/0/link/speed"), "ck400G\n"),
                (&at("cxi1", "current_link_speed"), "16 GT/s\n"),
                (&esm, "25.0 GT/s\n"),
            ],
        );
        assert_eq!(value_for("cxi0"), (Some("BS_200G".into()), Some(16.0)));
        assert_eq!(value_for("cxi1"), (Some("ck400G".into()), Some(25.0)));
        assert_eq!(value_for("cxi2"), (None, None));
    }

    #[test]
    fn sums_counters_with_numbers() {
        let by_name = [
            ("hni_rx_paused_0", counted(3, 1)),
            ("hni_rx_paused_7", counted(4, 1)),
            ("hni_rx_paused_2", CounterChange::Reset),
            ("hni_rx_paused_std", counted(100, 1)),
            ("hni_tx_paused_0", counted(1000, 1)),
        ];
        let by_name = by_name.map(|(name, change)| (name.to_owned(), change));
        let changes = CounterChanges::new(NicFacts::default(), by_name.into());
        assert_eq!(changes.sum("hni_rx_paused_"), Some(7));
        assert_eq!(changes.sum("hni_rx_stall_"), None);
        assert!(!changes.is_empty());
    }
}
