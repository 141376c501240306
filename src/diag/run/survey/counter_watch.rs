//! The counters of a NIC that may explain the answer of a pair, or that show what load does to it.

use std::collections::BTreeMap;

use cluster::survey::answer::{ERROR_COUNTERS, LINK_ERRORS, RETRIES, TIMEOUTS};
use cluster::timetable::{COUNTERS as UNDER_LOAD, Watched};
use facts::device::DeviceName;
use node::backend;
use node::machine::Machine;
use node::nic::counter_table::{Preset, Row};
use node::nic::counters::{Changes, NicFacts, Readings};
use node::nic::generation::Generation;

/// The counters that do not grow on a NIC without problems; those with a number at their end, such
/// as `hni_tx_paused_0`, are summed up.
const COUNTERS: [(&str, bool); 15] = [
    (TIMEOUTS, false),
    (RETRIES, false),
    ("pct_sct_timeouts", false),
    ("pct_no_tct_nacks", false),
    ("pct_no_mst_nacks", false),
    ("pct_no_trs_nacks", false),
    ("pct_resource_busy", false),
    (LINK_ERRORS[2], false),
    (LINK_ERRORS[0], false),
    (LINK_ERRORS[1], false),
    ("hni_tx_paused_", true),
    ("hni_rx_paused_", true),
    ("ixe_tc_req_ecn_pkts_", true),
    ("ixe_tc_rsp_ecn_pkts_", true),
    ("oxe_stall_fgfc_blk_", true),
];

/// The counters before a pair.
pub struct Watch {
    device: DeviceName,
    before: Before,
}

/// What was read before a pair.
enum Before {
    /// The counters of lost and damaged packets: the sweep has many pairs, and limits for these
    /// alone.
    Errors(Vec<Option<u64>>),
    /// All that may explain a suspect.
    All(Readings),
}

impl Watch {
    /// Reads the counters of `device`: all that may explain an answer, or the counters of lost and
    /// damaged packets. `None` if it has none.
    pub fn begin(device: DeviceName, reads_all: bool) -> Option<Self> {
        let before = if reads_all {
            Before::All(read(device, is_wanted)?.1)
        } else {
            Before::Errors(errors(device))
        };
        Some(Self { device, before })
    }

    /// Returns the counters that have changed since, with their changes.
    pub fn end(self) -> Vec<(&'static str, u64)> {
        match self.before {
            Before::Errors(before) => {
                let readings = before.into_iter().zip(errors(self.device));
                let changes = ERROR_COUNTERS.into_iter().zip(readings);
                let changes = changes.filter_map(|(name, (before, after))| {
                    Some((name, after?.saturating_sub(before?)))
                });
                changes.filter(|(_, change)| *change > 0).collect()
            }
            Before::All(before) => {
                let after = read(self.device, is_wanted);
                after.map_or(Vec::new(), |(_, after)| changes(&before, &after))
            }
        }
    }
}

/// The counters before a slot under load.
pub struct LoadWatch {
    device: DeviceName,
    before: Option<(NicFacts, Readings)>,
}

impl LoadWatch {
    /// Reads the counters of `device`. A NIC without counters has no changes.
    pub fn begin(device: DeviceName) -> Self {
        Self { device, before: read(device, is_wanted_under_load) }
    }

    /// Returns the changes since, without those that are zero.
    pub fn end(self) -> Vec<(Watched, u64)> {
        let after = read(self.device, is_wanted_under_load);
        let readings = self.before.zip(after);
        readings.map_or(Vec::new(), |((nic, before), (_, after))| {
            changes_under_load(nic, &before, &after)
        })
    }
}

/// Returns the counters that have changed, with their changes.
fn changes(before: &Readings, after: &Readings) -> Vec<(&'static str, u64)> {
    let changes = Changes::between(NicFacts::default(), before, after);
    let change = |(name, is_numbered): (&'static str, bool)| {
        let count = growth(&changes, name, is_numbered)?;
        Some((name.trim_end_matches('_'), count))
    };
    COUNTERS.into_iter().filter_map(change).collect()
}

/// Returns what the counters that are watched under load say: several of them may count together.
fn changes_under_load(nic: NicFacts, before: &Readings, after: &Readings) -> Vec<(Watched, u64)> {
    let ns_per_cycle = 1e9 / nic.cycles_per_s();
    let changes = Changes::between(nic, before, after);
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
fn growth(changes: &Changes, name: &str, is_numbered: bool) -> Option<u64> {
    let count = if is_numbered { changes.sum(name) } else { changes.count(name) };
    count.filter(|count| *count > 0)
}

fn is_wanted(counter: &str) -> bool {
    COUNTERS.iter().any(|(name, is_numbered): &(&str, bool)| is_named(counter, name, *is_numbered))
}

fn is_wanted_under_load(counter: &str) -> bool {
    let is = |(name, _): &(&str, Watched)| is_named(counter, name, name.ends_with('_'));
    UNDER_LOAD.iter().any(is)
}

fn is_named(counter: &str, name: &str, is_numbered: bool) -> bool {
    let number = counter.strip_prefix(name);
    number.is_some_and(|number| is_numbered || number.is_empty())
}

fn errors(device: DeviceName) -> Vec<Option<u64>> {
    backend::counters(device, &ERROR_COUNTERS, &Machine::this())
}

/// Reads the `wanted` counters, and the generation of the NIC, on which the length of a cycle
/// depends.
fn read(device: DeviceName, wanted: fn(&str) -> bool) -> Option<(NicFacts, Readings)> {
    let files = backend::files_of_counters(device, &Machine::this(), wanted).ok()?;
    let wanted = Preset::Quick.rows().flat_map(Row::names).filter(|name| wanted(name));
    let nic = NicFacts { generation: Generation::of(&files), ..NicFacts::default() };
    Some((nic, Readings::of(&files, wanted)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use node::nic::counter::Reading;

    use super::*;

    #[test]
    fn reads_only_counters_that_may_explain_an_answer() {
        assert!(is_wanted(RETRIES) && is_wanted("hni_tx_paused_0"));
        let others = ["hni_sts_tx_ok_octets", "pct_spt_timeouts_0", "hni_tx_paus"];
        assert!(!others.into_iter().any(is_wanted));
        assert!(is_wanted_under_load("ixe_tc_req_no_ecn_pkts_3"));
        assert!(!is_wanted_under_load("ixe_tc_rsp_ecn_pkts_3"));
    }

    #[test]
    fn pauses_under_load_are_nanoseconds_on_each_generation() {
        let reading = |value| {
            let reading = Reading { value, at: Duration::from_secs(1), stamp: None };
            let named = ("hni_tx_paused_3".to_owned(), reading);
            Readings::from_iter([named])
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
        let under_load = UNDER_LOAD.map(|(name, _)| (name, name.ends_with('_')));
        for (name, is_numbered) in COUNTERS.into_iter().chain(under_load) {
            let row = Preset::Quick.rows().find(|row| row.name == name);
            assert_eq!(row.unwrap().count.is_some(), is_numbered, "{name}");
        }
    }
}
