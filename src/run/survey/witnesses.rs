//! The counters of a NIC that may explain the answer of a pair.

use std::time::Instant;

use crate::backend;
use crate::device::DeviceName;
use crate::machine::Machine;
use crate::nic::counter_table::Preset;
use crate::nic::counters::{Changes, NicFacts, Readings};

/// The counters that do not grow on a NIC without problems; those with a number at their end, such as
/// `hni_tx_paused_0`, are summed up.
const COUNTERS: [(&str, bool); 12] = [
    ("pct_spt_timeouts", false),
    ("pct_retry_srb_requests", false),
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
];

/// The counters before a pair.
pub struct Watch {
    device: DeviceName,
    started: Instant,
    before: Readings,
}

impl Watch {
    /// Reads the counters of `device`. `None` if it has no files.
    pub fn begin(device: DeviceName) -> Option<Self> {
        let started = Instant::now();
        let before = read(device, started)?;
        Some(Self {
            device,
            started,
            before,
        })
    }

    /// Returns the counters that have changed since, with their changes.
    pub fn end(self) -> Vec<(&'static str, u64)> {
        let Some(after) = read(self.device, self.started) else {
            return Vec::new();
        };
        let changes = Changes::between(NicFacts::default(), &self.before, &after);
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
}

fn read(device: DeviceName, started: Instant) -> Option<Readings> {
    let files = backend::files(device, &Machine::this()).ok()?;
    Some(Readings::read(&files, Preset::Quick, started.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_those_of_the_preset() {
        for (name, is_numbered) in COUNTERS {
            let row = Preset::Quick.rows().find(|row| row.name == name);
            assert_eq!(row.unwrap().count.is_some(), is_numbered, "{name}");
        }
    }
}
