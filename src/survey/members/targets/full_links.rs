//! Whether the data of a pair filled a link while its bandwidth was measured, if a model of the
//! fabric knows that: then busy CPUs did not lower it.

use std::time::{Duration, Instant};

use facts::device::FabricAddress;
use node::local_address::LocalAddress;

/// For how long the data of a pair filled a link, since a moment.
pub(super) struct FullLinks {
    own: LocalAddress,
    /// Each NIC, and for how long its data had filled links before.
    nics: [(u32, Duration); 2],
    began: Instant,
}

impl FullLinks {
    /// Begins to watch the links on the way of the data between a NIC and its peer. `None` without
    /// a model of these links.
    pub fn watch(own: LocalAddress, peer: FabricAddress) -> Option<Self> {
        let nics = [own.address.nic, peer.nic];
        let [one, other] = nics.map(|nic| own.modelled_filling(nic));
        Some(Self { own, nics: [(nics[0], one?), (nics[1], other?)], began: Instant::now() })
    }

    /// Returns for which part of the time the data filled no link, in percent.
    pub fn idle_percent(&self) -> f64 {
        let elapsed = self.began.elapsed();
        let filled = self.nics.map(|(nic, before)| {
            let after = self.own.modelled_filling(nic).unwrap_or(before);
            after.saturating_sub(before)
        });
        // One of the two sends the data.
        let filled = filled[0].max(filled[1]);
        100.0 * (1.0 - filled.as_secs_f64() / elapsed.as_secs_f64()).clamp(0.0, 1.0)
    }
}
