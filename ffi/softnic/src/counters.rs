//! The telemetry counters of a NIC (health.md 1): what its devices counted in all processes, and
//! what rises with the time.

use std::time::Duration;

use rustix::io::Errno;

use crate::counter_names;
use crate::fabric::{self, Directory, Settings};
use crate::runner;

/// Code words per second of a link that is up (health.md 1.7). They arrive whether packets do or
/// not.
const CODE_WORDS: u128 = 39_062_500;

const GOOD_CODE_WORDS: u32 = 1668;

/// The counters of a NIC at one moment.
pub struct NicCounters {
    /// In the order of [`counter_names::all`].
    values: Vec<u64>,
    /// The time since the NIC started.
    pub age: Duration,
}

impl NicCounters {
    /// Reads the counters of a NIC, whose link has these `settings`. `lock` locks the directory of
    /// the fabric.
    ///
    /// # Errors
    /// Errors of the directory.
    pub fn read(
        lock: impl Fn() -> Result<Directory, Errno>,
        nid: u32,
        settings: &Settings,
    ) -> Result<Self, Errno> {
        let totals = fabric::nic_counts(lock, nid, || runner::publish_counts(nid))?;
        let age = Duration::from_nanos(fabric::now().saturating_sub(totals.started));
        let mut counters = Self {
            values: totals.values,
            age,
        };
        let time_up = settings.faults.time_up(age);
        let code_words = time_up.as_nanos() * CODE_WORDS / 1_000_000_000;
        counters.add(GOOD_CODE_WORDS, code_words as u64);
        Ok(counters)
    }

    /// Returns the value of a counter, by its number; 0 for a number without a counter.
    pub fn value(&self, number: u32) -> u64 {
        counter_names::place(number).map_or(0, |place| self.values[place])
    }

    /// Returns all counters with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = counter_names::all().iter().map(|counter| &*counter.name);
        names.zip(self.values.iter().copied())
    }

    fn add(&mut self, number: u32, amount: u64) {
        if let Some(place) = counter_names::place(number) {
            self.values[place] += amount;
        }
    }
}
