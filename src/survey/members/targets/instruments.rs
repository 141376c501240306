//! Figures of a pair, with the definitions of the tools.

use campaign::timetable::histogram::Histogram;
use diag::run::results::Samples;
use facts::error::Failure;
use facts::figures::Figures;
use facts::percentile::Percentile;
use measure::{ClockChoice, Rates, Recorder, RunClock, SideResult};
use node::machine::Machine;
use plan::run_options::RunOptions;

/// Fewest samples with a 90th percentile, of which surveys compare several pairs.
const ENOUGH_FOR_P90: u64 = 30;

/// What measures latencies on one NIC, for all tests.
pub struct Instruments {
    clock: RunClock,
    recorder: Recorder,
}

impl Instruments {
    /// Chooses the clock, and allocates the memory for samples.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self {
            clock: RunClock::choose(ClockChoice::Auto, &Machine::this())?,
            recorder: Recorder::new(None)?,
        })
    }

    /// Forgets what was recorded before a pair.
    pub fn clear(&mut self) {
        self.recorder.clear();
    }

    /// Returns all recorded latencies, in bins.
    pub fn histogram(&self) -> Histogram {
        let mut histogram = Histogram::default();
        for place in self.recorder.histogram().iter_recorded() {
            histogram.add(place.value_iterated_to(), place.count_at_value());
        }
        histogram
    }

    /// Returns the mean of the recorded latencies, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.recorder.statistics().mean()
    }

    /// Returns the figures of the recorded latencies.
    fn figures(&self) -> Figures {
        let statistics = self.recorder.statistics();
        let count = statistics.count();
        let at = |percentile| self.recorder.percentile(percentile);
        Figures::Latency {
            count,
            min_ns: statistics.min(),
            p5_ns: at(Percentile::P5),
            median_ns: at(Percentile::MEDIAN).unwrap_or_default(),
            p90_ns: at(Percentile::P90).filter(|_| count >= ENOUGH_FOR_P90),
            p99_ns: at(Percentile::P99).filter(|_| Percentile::P99.is_supported_by(count)),
            max_ns: statistics.max(),
        }
    }
}

/// Measures latencies by `measure`, in addition to those that were recorded. Returns the figures of
/// all, and the iterations of this call, with the warm-up.
///
/// # Errors
///
/// The errors of `measure`.
pub fn latency(
    run: &RunOptions,
    instruments: &mut Instruments,
    measure: impl FnOnce(Samples<'_>) -> Result<(), Failure>,
) -> Result<(Figures, u64), Failure> {
    let before = instruments.recorder.statistics().count();
    // Figures do not say how the start times of a rate were kept.
    let mut kept = None;
    let clock = instruments.clock.clock();
    measure(Samples::new(clock, &mut instruments.recorder, None, &mut kept))?;
    let iterations = instruments.recorder.statistics().count() - before + run.warmup;
    Ok((instruments.figures(), iterations))
}

/// Returns the figures of a side that has issued lists.
pub fn rates(run: &RunOptions, own: &[SideResult]) -> Figures {
    let own = SideResult::from_pairs(own);
    let rates = Rates::of(run.min_size, [own, SideResult::default()], false);
    let bytes_per_second = rates.megabytes * 1e6;
    Figures::Bandwidth {
        bytes_per_second,
        operations_per_second: bytes_per_second / run.min_size as f64,
    }
}
