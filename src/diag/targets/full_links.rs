//! Whether the data of a pair of software NICs filled a link while its bandwidth was measured: then
//! busy CPUs did not lower it.

use std::time::{Duration, Instant};

use node::backend;

/// For how long the data of a pair filled a link, since a moment.
pub(super) struct FullLinks {
    /// Each NIC, and for how long its data had filled links before.
    nics: [(u32, Duration); 2],
    began: Instant,
}

impl FullLinks {
    /// Begins to watch the links on the way of the data between two software NICs. `None` if their
    /// fabric has no switches.
    pub fn watch(nics: [u32; 2]) -> Option<Self> {
        let [one, other] = nics.map(backend::links_filled);
        Some(Self { nics: [(nics[0], one?), (nics[1], other?)], began: Instant::now() })
    }

    /// Returns for which part of the time the data filled no link, in percent.
    pub fn idle_percent(&self) -> f64 {
        let elapsed = self.began.elapsed();
        let filled = self.nics.map(|(nic, before)| {
            let after = backend::links_filled(nic).unwrap_or(before);
            after.saturating_sub(before)
        });
        // One of the two sends the data.
        let filled = filled[0].max(filled[1]);
        100.0 * (1.0 - filled.as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0)
    }
}
