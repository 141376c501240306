//! Whether a link between software NICs was full while a bandwidth was measured: then busy CPUs did
//! not lower it.

use std::time::{Duration, Instant};

use node::backend;

/// For how long links were full, since a moment.
pub(super) struct FullLinks {
    nics: [u32; 2],
    began: Instant,
    before: Duration,
}

impl FullLinks {
    /// Begins to watch the links on the way of the data between two software NICs. `None` if their
    /// fabric has no switches.
    pub fn watch(nics: [u32; 2]) -> Option<Self> {
        Some(Self {
            nics,
            before: backend::links_filled(nics)?,
            began: Instant::now(),
        })
    }

    /// Returns for which part of the time no link was full, in percent.
    pub fn idle_percent(&self) -> f64 {
        let elapsed = self.began.elapsed();
        let after = backend::links_filled(self.nics).unwrap_or(self.before);
        let filled = after.saturating_sub(self.before);
        100.0 * (1.0 - filled.as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0)
    }
}
