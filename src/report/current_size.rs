//! The size that is being measured: when it began, and what was set about it. What a bandwidth tool
//! reports of a size.

use std::time::Duration;

use facts::rate::{KeptSchedule, Rate};
use measure::{CpuShare, Rates, SideResult, SideView};
use plan::depths::Row;

use crate::noise::DISTURBED_PERCENT;
use crate::outcome::{Extent, FanResult, QueuePairResult, SizeResult};

/// The shortest wait for a CPU in a size that is told after the table: a run of some milliseconds
/// shares its CPU with whatever started it.
const SHORTEST_WAIT: Duration = Duration::from_millis(500);

/// The current size, and what its run has in common with the sizes before it.
#[derive(Default)]
pub struct CurrentSize {
    /// What it measures.
    pub row: Row,
    /// When it was begun, from the start of the run.
    pub began: Duration,
    /// The CPU time of this thread when it was begun.
    cpu: Option<CpuShare>,
    /// Its bytes that were checked.
    pub verified_bytes: Option<u64>,
    /// How the rate was kept.
    pub kept: Option<KeptSchedule>,
    /// Median of the writes that it is compared with, in nanoseconds.
    pub write_ns: Option<u64>,
    /// Medians of its fans in nanoseconds: the first arrival after the start, and the last one
    /// after the first.
    pub fan_ns: Option<[u64; 2]>,
    /// Puts of the fans of the run; 0 without.
    pub fan: u16,
    /// The rate to keep in the run, and the operations in each start.
    pub rate: Option<(Rate, u64)>,
    /// Sizes during which this thread waited long for a CPU, and for how much of their time in
    /// percent.
    pub cpu_waits: Vec<(Row, f64)>,
}

impl CurrentSize {
    /// Begins a row, this time after the start of the run.
    pub fn begin(&mut self, row: Row, time: Duration) {
        self.row = row;
        self.began = time;
        self.cpu = CpuShare::from_this_thread();
    }

    /// Forgets what was set about a size that has no result.
    pub fn forget(&mut self) {
        (self.verified_bytes, self.kept, self.write_ns) = (None, None, None);
        self.fan_ns = None;
    }

    /// The result of the size with what was set about it.
    pub fn complete(&mut self, result: SizeResult) -> SizeResult {
        let mut result = SizeResult {
            verified_bytes: self.verified_bytes.take(),
            cpu_wait_percent: self.cpu_wait_percent(),
            ..result.in_row(self.row)
        };
        if let Some(write_ns) = self.write_ns.take() {
            result = result.with_write(write_ns);
        }
        if let Some([first_ns, span_ns]) = self.fan_ns.take() {
            result.fan = Some(FanResult::new(self.fan, first_ns, span_ns));
        }
        if let (Some(_), Some(latency)) = (self.rate, &mut result.latency) {
            latency.latency_from = Some("intended_start".into());
        }
        match (self.rate, self.kept.take()) {
            (Some((rate, operations)), Some(kept)) => result.with_rate(rate, operations, kept),
            _ => result,
        }
    }

    /// The part of the time of the size in which this thread waited for a CPU.
    fn cpu_wait_percent(&mut self) -> Option<f64> {
        let earlier = self.cpu.take()?;
        let now = CpuShare::from_this_thread()?;
        let percent = now.waited_percent_since(earlier)?;
        if percent > DISTURBED_PERCENT && now.waited_since(earlier) >= SHORTEST_WAIT {
            self.cpu_waits.push((self.row, percent));
        }
        Some(percent)
    }
}

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
