//! The counters of a NIC that may explain the answer of a pair.

use std::time::Instant;

use cluster::survey::answer::{RETRIES, Stage};
use facts::device::DeviceName;
use node::backend;
use node::machine::Machine;
use node::nic::counter_table::Preset;
use node::nic::counters::{Changes, NicFacts, Readings};

/// The counters that do not grow on a NIC without problems; those with a number at their end, such
/// as `hni_tx_paused_0`, are summed up.
const COUNTERS: [(&str, bool); 15] = [
    ("pct_spt_timeouts", false),
    (RETRIES, false),
    ("pct_sct_timeouts", false),
    ("pct_no_tct_nacks", false),
    ("pct_no_mst_nacks", false),
    ("pct_no_trs_nacks", false),
    ("pct_resource_busy", false),
    ("hni_pcs_uncorrected_cw", false),
    ("hni_llr_tx_replay_event", false),
    ("hni_llr_rx_replay_event", false),
    ("hni_tx_paused_", true),
    ("hni_rx_paused_", true),
    ("ixe_tc_req_ecn_pkts_", true),
    ("ixe_tc_rsp_ecn_pkts_", true),
    ("oxe_stall_fgfc_blk_", true),
];

/// The counters before a pair.
pub struct Watch {
    device: DeviceName,
    started: Instant,
    before: Before,
}

/// What was read before a pair.
enum Before {
    /// The number of packets sent again: the sweep has many pairs, and limits for these alone.
    Retries(u64),
    /// All that may explain a suspect.
    All(Readings),
}

impl Watch {
    /// Reads the counters of `device` that count in this stage. `None` if it has none.
    pub fn begin(device: DeviceName, stage: Stage) -> Option<Self> {
        let started = Instant::now();
        let before = if matches!(stage, Stage::Sweep | Stage::Again) {
            Before::Retries(retries(device)?)
        } else {
            Before::All(read(device, started)?)
        };
        Some(Self {
            device,
            started,
            before,
        })
    }

    /// Returns the counters that have changed since, with their changes.
    pub fn end(self) -> Vec<(&'static str, u64)> {
        match self.before {
            Before::Retries(before) => {
                let after = retries(self.device);
                let change = after.map_or(0, |after| after.saturating_sub(before));
                (change > 0)
                    .then_some((RETRIES, change))
                    .into_iter()
                    .collect()
            }
            Before::All(before) => {
                let after = read(self.device, self.started);
                after.map_or(Vec::new(), |after| changes(&before, &after))
            }
        }
    }
}

/// Returns the counters that have changed, with their changes.
fn changes(before: &Readings, after: &Readings) -> Vec<(&'static str, u64)> {
    let changes = Changes::between(NicFacts::default(), before, after);
    let change = |(name, is_numbered)| {
        let count = if is_numbered {
            changes.sum(name)
        } else {
            changes.count(name)
        };
        Some((
            name.trim_end_matches('_'),
            count.filter(|count| *count > 0)?,
        ))
    };
    COUNTERS.into_iter().filter_map(change).collect()
}

/// Returns whether a counter is one of [`COUNTERS`].
fn is_wanted(counter: &str) -> bool {
    COUNTERS.iter().any(|(name, is_numbered)| {
        let number = counter.strip_prefix(name);
        number.is_some_and(|number| *is_numbered || number.is_empty())
    })
}

fn retries(device: DeviceName) -> Option<u64> {
    backend::counter(device, RETRIES, &Machine::this())
}

fn read(device: DeviceName, started: Instant) -> Option<Readings> {
    let files = backend::files_of_counters(device, &Machine::this(), is_wanted).ok()?;
    Some(Readings::read(&files, Preset::Quick, started.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_counters_that_may_explain_an_answer() {
        assert!(is_wanted(RETRIES) && is_wanted("hni_tx_paused_0"));
        let others = ["hni_sts_tx_ok_octets", "pct_spt_timeouts_0", "hni_tx_paus"];
        assert!(!others.into_iter().any(is_wanted));
    }

    #[test]
    fn counters_are_those_of_the_preset() {
        for (name, is_numbered) in COUNTERS {
            let row = Preset::Quick.rows().find(|row| row.name == name);
            assert_eq!(row.unwrap().count.is_some(), is_numbered, "{name}");
        }
    }
}
