//! What a bandwidth tool reports of a size.

use super::outcome::{Extent, QueuePairResult, SizeResult};
use measure::{Rates, SideResult, SideView};

/// What a bandwidth tool measured with one size.
#[derive(Clone, Debug)]
pub struct MeasuredBandwidth {
    /// The size in bytes.
    pub size: u64,
    /// The counts of both sides, this side first.
    pub sides: [SideResult; 2],
    /// Bandwidth and packet rate of both sides together.
    pub rates: Rates,
    /// The counts of both sides with each pair, this side first, and its rates.
    pub pairs: Vec<([SideResult; 2], Rates)>,
    /// Each side's own view, this side first, with `--both-ends`.
    pub views: Option<[SideView; 2]>,
    /// The operations that the text shows; none on a server that issues none.
    pub count: Option<u64>,
    /// Whether the peer's part of a bidirectional run is missing.
    pub one_sided: bool,
    /// Whether only the peer issues operations.
    pub is_measured_by_peer: bool,
}

impl MeasuredBandwidth {
    pub fn result(&self, extent: Extent) -> SizeResult {
        let mut result = SizeResult::from_lists(self.size, self.sides, self.rates, extent);
        result.count = self.count.unwrap_or(self.sides[0].count);
        if let (Some(bandwidth), 2..) = (&mut result.bandwidth, self.pairs.len()) {
            bandwidth.pairs = Some(QueuePairResult::of(&self.pairs));
        }
        if let (Some(bandwidth), Some(views)) = (&mut result.bandwidth, self.views) {
            bandwidth.own_view = Some(views[0]);
            bandwidth.peer_view = Some(views[1]);
        }
        result
    }
}
