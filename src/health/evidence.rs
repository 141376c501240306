//! What the rules of `findings` know about one NIC.

use std::time::Duration;

use node::nic::counters::CounterChanges;
use node::nic::link_speed::LinkSpeed;

/// What is known about one NIC.
#[derive(Clone, Copy, Debug)]
pub struct NicEvidence<'a> {
    /// What its counters did during the run.
    pub changes: &'a CounterChanges,
    /// Packets with data that the run sent or received, about; `None` if unknown.
    pub packets: Option<u64>,
}

impl NicEvidence<'_> {
    /// Returns by how much a counter has grown; `None` if it is not available or was reset.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.changes.count(name)
    }

    /// Returns a count, 0 for a counter that is not available: it supports no finding.
    pub fn or_0(&self, name: &str) -> u64 {
        self.count(name).unwrap_or(0)
    }

    /// Returns the counts per second, if they are known.
    pub fn per_second(&self, name: &str) -> Option<f64> {
        self.changes.of(name)?.per_second()
    }

    /// Returns the counts in each `interval`; a shorter run counts as one.
    pub fn count_in(&self, name: &str, interval: Duration) -> Option<f64> {
        let change = self.changes.of(name)?;
        let within = change.within()?.max(interval);
        Some(change.count()? as f64 * interval.as_secs_f64() / within.as_secs_f64())
    }

    /// Returns the share of the time of the counter of cycles that has counted most, of those whose
    /// names are `prefix` and a number.
    pub fn longest_share(&self, prefix: &str) -> Option<f64> {
        let rates = self.changes.numbered(prefix);
        let rates = rates.filter_map(|(_, change)| change.per_second());
        let cycles_per_s = self.changes.nic.cycles_per_s();
        rates.reduce(f64::max).map(|rate| rate / cycles_per_s)
    }

    /// Returns the ratio of two counters.
    pub fn ratio(&self, name: &str, to: &str) -> Option<f64> {
        let (value, to) = (self.count(name)?, self.count(to)?);
        (to > 0).then(|| value as f64 / to as f64)
    }

    /// Returns the mode of the link, if its rates are known.
    pub fn speed(&self) -> Option<LinkSpeed> {
        LinkSpeed::of(self.changes.nic.link_speed.as_deref()?)
    }

    /// Returns the mode of the link as the driver shows it.
    pub fn speed_name(&self) -> &str {
        let name = self.changes.nic.link_speed.as_deref();
        name.unwrap_or("an unknown speed")
    }

    /// Returns the sum of counters; one that is not available adds nothing.
    pub fn total(&self, names: &[&str]) -> u64 {
        let counts = names.iter().map(|name| self.or_0(name));
        counts.fold(0, u64::saturating_add)
    }

    /// Returns the sum of counters whose names are one of `prefixes` and a number; one that is not
    /// available adds nothing.
    pub fn total_numbered(&self, prefixes: &[&str]) -> u64 {
        let sums = prefixes.iter().map(|prefix| self.changes.sum(prefix));
        sums.flatten().fold(0, u64::saturating_add)
    }

    /// Returns what to do about a bad link; a software NIC has no cable.
    pub fn about_cable(&self) -> &'static str {
        if self.changes.nic.is_software { "" } else { ": reseat or replace the cable" }
    }
}
