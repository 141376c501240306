//! The counters of a NIC that may explain the answer of a pair, or that show what load does to it.

use std::collections::BTreeMap;

use campaign::quiet::answer::{ERROR_COUNTERS, LINK_ERRORS, RETRIES, TIMEOUTS};
use campaign::timetable::{COUNTERS as UNDER_LOAD, Watched};
use facts::device::DeviceName;
use node::backend;
use node::machine::Machine;
use node::nic::counter_table::{CounterRow, Preset};
use node::nic::counters::{CounterChanges, CounterReadings, NicFacts};
use node::nic::generation::Generation;

/// The counters that do not grow on a NIC without problems; those with a number at their end, such
/// as `hni_tx_paused_0`, are summed up.
const COUNTERS: [&str; 15] = [
    TIMEOUTS,
    RETRIES,
    "pct_sct_timeouts",
    "pct_no_tct_nacks",
    "pct_no_mst_nacks",
    "pct_no_trs_nacks",
    "pct_resource_busy",
    LINK_ERRORS[2],
    LINK_ERRORS[0],
    LINK_ERRORS[1],
    "hni_tx_paused_",
    "hni_rx_paused_",
    "ixe_tc_req_ecn_pkts_",
    "ixe_tc_rsp_ecn_pkts_",
    "oxe_stall_fgfc_blk_",
];

/// The counters before a pair.
pub struct CounterWatch {
    device: DeviceName,
    /// The name of each counter, and the name under which it is reported.
    names: Vec<(String, &'static str)>,
    before: Vec<Option<u64>>,
}

impl CounterWatch {
    /// Reads the counters of `device`: all that may explain an answer, or the counters of lost and
    /// damaged packets. The sweep has many pairs, and limits for these alone.
    pub fn begin(device: DeviceName, reads_all: bool) -> Self {
        let names: Vec<(String, &'static str)> = if reads_all {
            COUNTERS.into_iter().flat_map(names).collect()
        } else {
            ERROR_COUNTERS.map(|name| (name.to_owned(), name)).into()
        };
        let before = values(device, &names);
        Self { device, names, before }
    }

    /// The counters that have grown since, with their changes.
    pub fn end(self) -> Vec<(&'static str, u64)> {
        let after = values(self.device, &self.names);
        let mut changes: Vec<(&'static str, u64)> = Vec::new();
        for ((_, reported), (before, after)) in self.names.iter().zip(self.before.iter().zip(after))
        {
            let change =
                after.zip(*before).map_or(0, |(after, before)| after.saturating_sub(before));
            match changes.last_mut() {
                Some((name, sum)) if name == reported => *sum = sum.saturating_add(change),
                _ => changes.push((reported, change)),
            }
        }
        changes.retain(|(_, change)| *change > 0);
        changes
    }
}

/// The counters with this name, or with a number after it, and the name of them all.
fn names(name: &'static str) -> impl Iterator<Item = (String, &'static str)> {
    let row = Preset::Quick.rows().filter(move |row| row.name == name);
    row.flat_map(CounterRow::names).map(|full| (full, name.trim_end_matches('_')))
}

/// Reads these counters; `None` for a counter that the device does not have.
fn values(device: DeviceName, names: &[(String, &'static str)]) -> Vec<Option<u64>> {
    let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    backend::counters(device, &names, &Machine::this())
}

/// The counters before a slot under load.
pub struct LoadWatch {
    device: DeviceName,
    before: Option<(NicFacts, CounterReadings)>,
}

impl LoadWatch {
    /// Reads the counters of `device`. A NIC without counters has no changes.
    pub fn begin(device: DeviceName) -> Self {
        Self { device, before: read(device) }
    }

    /// The changes since, without those that are zero.
    pub fn end(self) -> Vec<(Watched, u64)> {
        let after = read(self.device);
        let readings = self.before.zip(after);
        readings.map_or(Vec::new(), |((nic, before), (_, after))| {
            changes_under_load(nic, &before, &after)
        })
    }
}

/// Returns what the counters that are watched under load say: several of them may count together.
fn changes_under_load(
    nic: NicFacts,
    before: &CounterReadings,
    after: &CounterReadings,
) -> Vec<(Watched, u64)> {
    let ns_per_cycle = 1e9 / nic.cycles_per_s();
    let changes = CounterChanges::between(nic, before, after);
    let mut sums: BTreeMap<Watched, u64> = BTreeMap::new();
    for (name, watched) in UNDER_LOAD {
        if let Some(count) = growth(&changes, name, name.ends_with('_')) {
            let count = match watched {
                Watched::TxPaused | Watched::RxPaused => (count as f64 * ns_per_cycle) as u64,
                _ => count,
            };
            let sum = sums.entry(watched).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    sums.into_iter().collect()
}

/// Returns by how much a counter has grown, or the counters with a number after this name together;
/// `None` if none has grown.
fn growth(changes: &CounterChanges, name: &str, is_numbered: bool) -> Option<u64> {
    let count = if is_numbered { changes.sum(name) } else { changes.count(name) };
    count.filter(|count| *count > 0)
}

fn is_wanted_under_load(counter: &str) -> bool {
    UNDER_LOAD.iter().any(|(name, _): &(&str, Watched)| {
        let number = counter.strip_prefix(name);
        number.is_some_and(|number| number.is_empty() || name.ends_with('_'))
    })
}

/// Reads the counters that are watched under load, and the generation of the NIC, on which the
/// length of a cycle depends.
fn read(device: DeviceName) -> Option<(NicFacts, CounterReadings)> {
    let wanted = is_wanted_under_load;
    let files = backend::files_of_counters(device, &Machine::this(), wanted).ok()?;
    let wanted = Preset::Quick.rows().flat_map(CounterRow::names).filter(|name| wanted(name));
    let nic = NicFacts { generation: Generation::of(&files), ..NicFacts::default() };
    Some((nic, CounterReadings::of(&files, wanted)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use node::nic::counter::CounterReading;

    use super::*;

    #[test]
    fn reads_only_counters_that_may_explain_an_answer() {
        assert!(!is_wanted_under_load("ixe_tc_req_no_ecn_pkts"));
        assert!(is_wanted_under_load("ixe_tc_req_no_ecn_pkts_3"));
        assert!(!is_wanted_under_load("ixe_tc_rsp_ecn_pkts_3"));
    }

    #[test]
    fn pauses_under_load_are_nanoseconds_on_each_generation() {
        let reading = |value| {
            let reading = CounterReading { value, at: Duration::from_secs(1), stamp: None };
            let named = ("hni_tx_paused_3".to_owned(), reading);
            CounterReadings::from_iter([named])
        };
        for (generation, ns) in [
            (None, 1_100_000),
            (Some(Generation::Cassini1), 1_100_000),
            (Some(Generation::Cassini2), 1_000_000),
        ] {
            let nic = NicFacts { generation, ..NicFacts::default() };
            let changes = changes_under_load(nic, &reading(5), &reading(1_100_005));
            assert_eq!(changes, [(Watched::TxPaused, ns)], "{generation:?}");
        }
    }

    #[test]
    fn counters_are_those_of_the_preset() {
        let under_load = UNDER_LOAD.map(|(name, _)| name);
        for name in COUNTERS.into_iter().chain(under_load) {
            let row = Preset::Quick.rows().find(|row| row.name == name);
            assert_eq!(row.unwrap().count.is_some(), name.ends_with('_'), "{name}");
        }
        let paused: Vec<(String, &str)> = names("hni_tx_paused_").collect();
        assert_eq!(paused[7], ("hni_tx_paused_7".to_owned(), "hni_tx_paused"));
    }
}
