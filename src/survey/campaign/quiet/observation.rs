//! The figures of pairs as the fit reads them: logarithms of costs, of which large values are bad.
//! The cost of a latency is the latency, the cost of a bandwidth its reciprocal.

use super::answer::{Answer, Figures, Pair, PairResult, Stage};
use super::busy::most_waited_percent;
use super::findings::Statistic;
use super::fit::{spread, upper_spread};
use super::population::SMALLEST_BANDWIDTH;
use crate::blame::LEAST_FIGURES;
use crew::location::Class;

/// Part of the pairs of a class above which disturbed pairs decide how all of them are judged.
const MOST_DISTURBED: f64 = 0.1;
/// The same for bandwidths: a part of them may be left out, because a bound of a bandwidth says
/// much less than one of a latency.
const MOST_DISTURBED_BANDWIDTHS: f64 = 0.5;

/// CPUs that limit bandwidths make them differ as much as waits for them do. They do not limit the
/// bandwidths of a class if these differ by less than this part of that.
const MOST_FROM_WAITS: f64 = 0.25;

/// A latency, in nanoseconds. Linux runs a process for about 3 ms between two waits for its CPU
/// **[I]**, which is dozens of latencies up to this one.
const SHORT_NS: f64 = 1e5;

/// The figures of a pair.
#[derive(Clone, Copy, Debug)]
pub struct PairFigures {
    pub pair: Pair,
    pub class: Class,
    /// Whether a side waited for its CPU so long that the figure is only a bound.
    pub is_disturbed: bool,
    /// Whether the user has asked for the pair: the partners of suspects are not random.
    pub is_of_sweep: bool,
    /// Number of the round in the survey.
    pub round: u32,
    /// How long a side waited for its CPU, in percent of its time.
    pub waited_percent: u8,
    /// Logarithm of the cost.
    cost: f32,
    /// Logarithm of the cost by the 5th percentile, or by the smallest latency if that is unknown;
    /// of bandwidths, `cost`.
    p5: f32,
    /// Logarithm of the cost by the smallest latency; of bandwidths, `cost`.
    min: f32,
    /// Ratios of the 90th and 99th percentile of the latencies to their median; 1 if they are
    /// unknown, and of bandwidths.
    pub p90: f32,
    pub p99: f32,
}

/// The logarithm of the cost of a pair, in the statistic by which its class is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedCost {
    /// The logarithm of the cost.
    pub cost: f64,
    /// Whether the true cost may be smaller.
    pub is_bound: bool,
}

impl PairFigures {
    /// Returns the observation of a pair that was measured.
    pub fn of(result: &PairResult, class: Class) -> Option<Self> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let is_bandwidth = matches!(figures, Figures::Bandwidth { .. });
        let cost = log_cost(figures.value(), is_bandwidth) as f32;
        let mut one = Self {
            pair: result.pair,
            class,
            is_disturbed: result.waited_percent > most_waited_percent(is_bandwidth),
            is_of_sweep: result.stage == Stage::Sweep,
            round: result.round,
            waited_percent: result.waited_percent,
            cost,
            p5: cost,
            min: cost,
            p90: 1.0,
            p99: 1.0,
        };
        if let Figures::Latency { median_ns, p5_ns, min_ns, p90_ns, p99_ns, .. } = *figures {
            one.p5 = log_cost(p5_ns.unwrap_or(min_ns) as f64, false) as f32;
            one.min = log_cost(min_ns as f64, false) as f32;
            let ratio = |ns: Option<u64>| ns.unwrap_or(median_ns) as f32 / median_ns.max(1) as f32;
            (one.p90, one.p99) = (ratio(p90_ns), ratio(p99_ns));
        }
        Some(one)
    }

    /// Replaces figures by better ones of another measurement of the pair.
    pub fn improve(&mut self, other: &Self) {
        self.is_disturbed &= other.is_disturbed;
        self.waited_percent = self.waited_percent.min(other.waited_percent);
        self.cost = self.cost.min(other.cost);
        self.p5 = self.p5.min(other.p5);
        self.min = self.min.min(other.min);
        self.p90 = self.p90.min(other.p90);
        self.p99 = self.p99.min(other.p99);
    }

    /// Returns whether few operations can have met a wait for a CPU, and not the 90th percentile.
    pub fn has_p90(&self) -> bool {
        !self.is_disturbed || f64::from(self.cost) <= SHORT_NS.ln()
    }

    /// Returns the observation with costs that are lower by this logarithm.
    pub fn faster_by(self, log: f64) -> Self {
        let lower = |cost: f32| cost - log as f32;
        Self { cost: lower(self.cost), p5: lower(self.p5), min: lower(self.min), ..self }
    }

    /// Returns the logarithm of the ratio between a figure by this statistic and the smallest one:
    /// what waiting for CPUs may have added to it.
    pub fn waiting(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::P5 => f64::from(self.p5 - self.min),
            Statistic::Median | Statistic::Min | Statistic::Bound | Statistic::Unaffected => 0.0,
        }
    }

    /// Returns the cost by a statistic. A median of a disturbed pair can be anything: its 5th
    /// percentile is a bound.
    pub fn reading(&self, statistic: Statistic) -> JudgedCost {
        let cost = match statistic {
            Statistic::Median if self.is_disturbed => self.p5,
            Statistic::Median | Statistic::Bound | Statistic::Unaffected => self.cost,
            Statistic::P5 => self.p5,
            Statistic::Min => self.min,
        };
        JudgedCost {
            cost: f64::from(cost),
            is_bound: self.is_disturbed && statistic == Statistic::Median,
        }
    }
}

/// Returns the logarithm of the cost of a figure.
pub fn log_cost(value: f64, is_bandwidth: bool) -> f64 {
    let least = if is_bandwidth { SMALLEST_BANDWIDTH } else { 1.0 };
    let log = value.max(least).ln();
    if is_bandwidth { -log } else { log }
}

/// Returns the figure with this logarithm of a cost.
pub fn figure(log: f64, is_bandwidth: bool) -> f64 {
    if is_bandwidth { (-log).exp() } else { log.exp() }
}

/// Returns the statistics by which a class may be judged. They must not depend on the result of any
/// pair: with many disturbed pairs, those that reach more than a bound are a selection.
pub fn statistics(pairs: &[&PairFigures], is_bandwidth: bool) -> &'static [Statistic] {
    let disturbed = pairs.iter().filter(|one| one.is_disturbed).count();
    let part = disturbed as f64 / pairs.len().max(1) as f64;
    if is_bandwidth && part > MOST_DISTURBED_BANDWIDTHS {
        if follow_waits(pairs) { &[Statistic::Bound] } else { &[Statistic::Unaffected] }
    } else if !is_bandwidth && part > MOST_DISTURBED {
        &[Statistic::P5, Statistic::Min]
    } else {
        &[Statistic::Median]
    }
}

/// Returns whether busy CPUs may have limited the bandwidths of pairs.
fn follow_waits(pairs: &[&PairFigures]) -> bool {
    let without_cpu =
        |one: &&PairFigures| -(1.0 - f64::from(one.waited_percent.min(99)) / 100.0).ln();
    let costs: Vec<f64> = pairs.iter().map(|one| f64::from(one.cost)).collect();
    let waits: Vec<f64> = pairs.iter().map(without_cpu).collect();
    pairs.len() < LEAST_FIGURES || upper_spread(&costs) > MOST_FROM_WAITS * spread(&waits)
}
