//! The figures of pairs as the fit reads them: logarithms of costs, of which large values are bad.
//! The cost of a latency is the latency, the cost of a bandwidth its reciprocal.

use super::answer::{Answer, Figures, Pair, PairResult};
use super::findings::Statistic;
use crate::location::Class;

/// Share of the slot, in percent, above which the latencies of a side that waited for its CPU are
/// disturbed: more of them are upper bounds than the median bears.
const MOST_WAITED_LATENCY: u8 = 25;

/// The same share for bandwidths, which each wait lowers.
const MOST_WAITED_BANDWIDTH: u8 = 5;

/// Part of the pairs of a class above which disturbed pairs decide how all of them are judged: by
/// their 5th percentiles.
pub const MOST_DISTURBED: f64 = 0.1;

/// The figures of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// The pair.
    pub pair: Pair,
    /// Its class.
    pub class: Class,
    /// Whether a side waited for its CPU so long that the figure is only a bound.
    pub is_disturbed: bool,
    /// Whether the user has asked for the pair: the partners of suspects are not random.
    pub is_of_sweep: bool,
    /// Logarithm of the cost.
    cost: f32,
    /// Logarithm of the cost by the 5th percentile, or by the smallest latency if that is unknown;
    /// of bandwidths, `cost`.
    low: f32,
}

/// The logarithm of the cost of a pair, in the statistic by which its class is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The logarithm of the cost.
    pub cost: f64,
    /// Whether the true cost may be smaller.
    pub is_bound: bool,
}

impl Observation {
    /// Returns the observation of a pair that was measured.
    pub fn of(result: &PairResult, class: Class, is_of_sweep: bool) -> Option<Self> {
        let Answer::Measured(figures) = &result.answer else {
            return None;
        };
        let (cost, low, most_waited) = match *figures {
            Figures::Latency {
                median_ns,
                p5_ns,
                min_ns,
                ..
            } => (
                log_cost(median_ns as f64, false),
                log_cost(p5_ns.unwrap_or(min_ns) as f64, false),
                MOST_WAITED_LATENCY,
            ),
            Figures::Bandwidth {
                bytes_per_second, ..
            } => {
                let cost = log_cost(bytes_per_second, true);
                (cost, cost, MOST_WAITED_BANDWIDTH)
            }
        };
        Some(Self {
            pair: result.pair,
            class,
            is_disturbed: result.waited_percent > most_waited,
            is_of_sweep,
            cost: cost as f32,
            low: low as f32,
        })
    }

    /// Returns the cost by a statistic. A median of a disturbed pair can be anything: its 5th
    /// percentile is a bound.
    pub fn reading(&self, statistic: Statistic) -> Reading {
        let uses_low = self.is_disturbed || statistic == Statistic::P5;
        Reading {
            cost: f64::from(if uses_low { self.low } else { self.cost }),
            is_bound: self.is_disturbed && statistic == Statistic::Median,
        }
    }
}

/// Returns the logarithm of the cost of a figure.
pub fn log_cost(value: f64, of_bandwidth: bool) -> f64 {
    let log = value.max(f64::MIN_POSITIVE).ln();
    if of_bandwidth { -log } else { log.max(0.0) }
}

/// Returns the figure with this logarithm of a cost.
pub fn figure(log: f64, of_bandwidth: bool) -> f64 {
    if of_bandwidth {
        (-log).exp()
    } else {
        log.exp()
    }
}

/// Returns the statistic by which a class of latencies is judged: it must not depend on the result
/// of any pair.
pub fn statistic(pairs: usize, disturbed: usize, of_bandwidth: bool) -> Statistic {
    if !of_bandwidth && disturbed as f64 > MOST_DISTURBED * pairs as f64 {
        Statistic::P5
    } else {
        Statistic::Median
    }
}
