//! The intervals of one size (`--interval`): from readings of its counters to figures.

use std::cmp::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use facts::expect::Metric;
use facts::percentile::Percentile;
use measure::{LatencyCounts, Rates};

/// The intervals of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Intervals {
    /// --interval: requested length, in seconds.
    pub interval_s: f64,
    /// One entry for each interval, in order. The last one may be shorter.
    pub rows: Vec<Interval>,
    /// Smallest value of each figure; null without an interval of at least half the requested
    /// length. Shorter intervals do not count.
    pub min: Option<IntervalFigures>,
    /// 5th percentile of each figure over the same intervals, by nearest rank.
    pub p5: Option<IntervalFigures>,
    /// Largest value of each figure over the same intervals.
    pub max: Option<IntervalFigures>,
}

/// One interval. Start and end are the times at which the counters were read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Interval {
    /// Start of the interval, in seconds from the start of the measured part of the size.
    pub start_s: f64,
    /// End of the interval, in seconds from the start of the measured part of the size.
    pub end_s: f64,
    /// What this side measured in the interval.
    #[serde(flatten)]
    pub figures: IntervalFigures,
}

/// The figures of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Figures"))]
pub struct IntervalFigures {
    /// Number of operations of this side that ended in the interval.
    pub count: u64,
    /// Bytes per second of this side; null in a latency tool.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Packets per second of this side; null in a latency tool.
    pub packet_rate_packets_per_s: Option<f64>,
    /// Arithmetic mean of the latencies, in nanoseconds; null in a bandwidth tool, and if no
    /// operation ended in the interval.
    pub mean_ns: Option<f64>,
    /// 99th percentile of the latencies, in nanoseconds, to 0.2 %; null where mean_ns is null.
    pub p99_ns: Option<u64>,
}

impl IntervalFigures {
    /// A metric in its base unit, if an interval has it.
    pub fn figure(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Mean => self.mean_ns,
            Metric::Percentile(Percentile::P99) => self.p99_ns.map(|ns| ns as f64),
            Metric::Bandwidth => self.bandwidth_bytes_per_s,
            Metric::PacketRate => self.packet_rate_packets_per_s,
            _ => None,
        }
    }
}

/// The counters of a size at one time.
#[derive(Clone, Debug)]
pub struct SizeReading {
    /// When they were read, in nanoseconds.
    pub at: u64,
    /// Number of operations.
    pub count: u64,
    /// Sum of their latencies in nanoseconds, in a latency tool.
    pub sum: u64,
    /// The latencies, also of former sizes; `None` in a bandwidth tool.
    pub latencies: Option<LatencyCounts>,
}

impl SizeReading {
    /// The figures between this reading and a `later` one, of operations of `size` bytes.
    fn figures_until(&self, later: &Self, size: u64) -> IntervalFigures {
        let count = later.count - self.count;
        let (mut rates, mut mean_ns, mut p99_ns) = (None, None, None);
        match (&self.latencies, &later.latencies) {
            (Some(before), Some(now)) if count > 0 => {
                mean_ns = Some((later.sum - self.sum) as f64 / count as f64);
                p99_ns = now.percentile_since(before, Percentile::P99);
            }
            (None, None) if later.at > self.at => {
                let us = (later.at - self.at) as f64 / 1e3;
                rates = Some(Rates::from_operations(size, count as f64 / us));
            }
            _ => {}
        }
        IntervalFigures {
            count,
            bandwidth_bytes_per_s: rates.map(|rates| rates.megabytes * 1e6),
            packet_rate_packets_per_s: rates.map(|rates| rates.megapackets * 1e6),
            mean_ns,
            p99_ns,
        }
    }
}

/// The intervals of a size that is being measured. All times are in nanoseconds.
#[derive(Debug)]
pub struct Series {
    size: u64,
    length: Duration,
    begun: u64,
    last: SizeReading,
    next_end: u64,
    /// The intervals, and whether each takes at least half a length.
    rows: Vec<(Interval, bool)>,
}

impl Series {
    /// Creates the intervals of a size: they end at multiples of `length` after `first`, the begin
    /// of the measured part.
    pub fn new(size: u64, length: Duration, first: SizeReading) -> Self {
        Self {
            size,
            length,
            begun: first.at,
            next_end: first.at + length.as_nanos() as u64,
            last: first,
            rows: Vec::new(),
        }
    }

    /// Adds the interval from the reading before to this one, and returns it.
    pub fn add(&mut self, reading: SizeReading) -> Interval {
        let seconds = |at| (at - self.begun) as f64 / 1e9;
        let interval = Interval {
            start_s: seconds(self.last.at),
            end_s: seconds(reading.at),
            figures: self.last.figures_until(&reading, self.size),
        };
        let length = self.length.as_nanos() as u64;
        let is_long = reading.at - self.last.at >= length / 2;
        // At least half an interval away: a late reading makes no short interval.
        let least = reading.at - self.begun + length / 2;
        self.next_end = self.begun + least.div_ceil(length) * length;
        self.last = reading;
        self.rows.push((interval, is_long));
        interval
    }

    /// Returns when the next interval is to end.
    pub fn next_end(&self) -> u64 {
        self.next_end
    }

    pub fn last(&self) -> &SizeReading {
        &self.last
    }

    /// The intervals with their minimum, 5th percentile and maximum.
    pub fn finish(self) -> Intervals {
        let long = self.rows.iter().filter(|(_, is_long)| *is_long);
        let figures: Vec<IntervalFigures> = long.map(|(interval, _)| interval.figures).collect();
        Intervals {
            interval_s: self.length.as_secs_f64(),
            min: each_figure(&figures, |_| 1),
            p5: each_figure(&figures, |count| Percentile::P5.rank(count)),
            max: each_figure(&figures, |count| count),
            rows: self.rows.into_iter().map(|(interval, _)| interval).collect(),
        }
    }
}

/// The value of each figure at a rank in ascending order, from 1; `rank` returns it for a number of
/// values. `None` without figures.
fn each_figure(figures: &[IntervalFigures], rank: fn(u64) -> u64) -> Option<IntervalFigures> {
    let numbers = |figure: fn(&IntervalFigures) -> Option<f64>| {
        at_rank(figures.iter().filter_map(figure), rank, f64::total_cmp)
    };
    Some(IntervalFigures {
        count: at_rank(figures.iter().map(|figure| figure.count), rank, u64::cmp)?,
        bandwidth_bytes_per_s: numbers(|figures| figures.bandwidth_bytes_per_s),
        packet_rate_packets_per_s: numbers(|figures| figures.packet_rate_packets_per_s),
        mean_ns: numbers(|figures| figures.mean_ns),
        p99_ns: at_rank(figures.iter().filter_map(|figure| figure.p99_ns), rank, u64::cmp),
    })
}

fn at_rank<T: Copy>(
    values: impl Iterator<Item = T>,
    rank: fn(u64) -> u64,
    order: fn(&T, &T) -> Ordering,
) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable_by(order);
    let count = values.len() as u64;
    values.get((rank(count).max(1) - 1) as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Gauge;

    const MS: u64 = 1_000_000;

    /// A reading of a bandwidth tool.
    fn reading(at: u64, count: u64) -> SizeReading {
        SizeReading { at, count, sum: 0, latencies: None }
    }

    /// A series of a bandwidth tool, from 5 s on, with operations of 4096 bytes.
    fn series() -> Series {
        Series::new(4096, Duration::from_millis(100), reading(5_000 * MS, 0))
    }

    /// Adds readings, each with its time from the start (ms) and number of operations.
    fn added(readings: &[(u64, u64)]) -> Intervals {
        let mut series = series();
        for (ms, count) in readings {
            series.add(reading((5_000 + ms) * MS, *count));
        }
        series.finish()
    }

    fn bandwidths(intervals: &Intervals) -> Vec<f64> {
        let all = intervals.rows.iter().filter_map(|row| row.figures.bandwidth_bytes_per_s);
        all.map(|bandwidth| bandwidth / 4096.0).collect()
    }

    #[test]
    fn rates_are_those_of_the_time_between_two_readings() {
        let intervals = added(&[(100, 100), (200, 200), (350, 350), (400, 400)]);
        assert_eq!(bandwidths(&intervals), [1_000.0; 4]);
        let times = intervals.rows.iter().map(|row| (row.start_s, row.end_s));
        let expected = [(0.0, 0.1), (0.1, 0.2), (0.2, 0.35), (0.35, 0.4)];
        assert!(times.eq(expected), "{intervals:?}");
        let packets = intervals.rows[0].figures.packet_rate_packets_per_s;
        assert_eq!(packets, Some(2_000.0));
        assert_eq!(intervals.interval_s, 0.1);
    }

    #[test]
    fn stalled_interval_is_the_minimum() {
        let intervals = added(&[(100, 100), (200, 100), (300, 250)]);
        assert_eq!(bandwidths(&intervals), [1_000.0, 0.0, 1_500.0]);
        let value_for = |figures: Option<IntervalFigures>| {
            let figures = figures.unwrap();
            (figures.count, figures.bandwidth_bytes_per_s.unwrap() / 4096.0)
        };
        assert_eq!(value_for(intervals.min), (0, 0.0));
        assert_eq!(value_for(intervals.p5), (0, 0.0));
        assert_eq!(value_for(intervals.max), (150, 1_500.0));
    }

    #[test]
    fn fifth_percentile_is_by_nearest_rank() {
        // 40 intervals with 1 to 40 operations, in descending order.
        let counts = (1..=40).scan(0, |sum, i| {
            *sum += 41 - i;
            Some((i * 100, *sum))
        });
        let intervals = added(&counts.collect::<Vec<_>>());
        let counts =
            [intervals.min, intervals.p5, intervals.max].map(|figures| figures.unwrap().count);
        assert_eq!(counts, [1, 2, 40]);
    }

    #[test]
    fn short_rest_is_shown_but_is_no_extreme() {
        let intervals = added(&[(100, 100), (149, 100)]);
        assert_eq!(intervals.rows.len(), 2);
        assert_eq!(intervals.min.unwrap().count, 100);
        let intervals = added(&[(100, 100), (150, 100)]);
        assert_eq!(intervals.min.unwrap().count, 0);
        let intervals = added(&[(49, 100)]);
        assert_eq!((intervals.rows.len(), intervals.min), (1, None));
        assert_eq!(added(&[]).max, None);
    }

    #[test]
    fn intervals_end_on_a_fixed_grid() {
        let mut series = series();
        let next = |series: &Series| series.next_end() / MS - 5_000;
        assert_eq!(next(&series), 100);
        // At most half an interval late: the next one ends in time.
        for (late, end) in [(100, 200), (210, 300), (350, 400), (451, 600), (1_234, 1_300)] {
            series.add(reading((5_000 + late) * MS, 0));
            assert_eq!(next(&series), end, "{late}");
        }
    }

    #[test]
    fn latencies_are_those_of_the_interval() {
        let gauge = Gauge::with_latencies();
        let (mut count, mut sum) = (0, 0);
        let mut measure = |at, samples: &[u64]| {
            for sample in samples {
                (count, sum) = (count + 1, sum + sample);
                gauge.record(*sample);
            }
            SizeReading { at, count, sum, latencies: gauge.latencies() }
        };
        let mut series = Series::new(8, Duration::from_millis(1), measure(7, &[]));
        for (at, samples) in [(1, &[400, 200, 300][..]), (2, &[]), (3, &[100; 100])] {
            series.add(measure(7 + at * MS, samples));
        }
        let intervals = series.finish();
        let figures = |figures: &IntervalFigures| (figures.count, figures.mean_ns, figures.p99_ns);
        let rows: Vec<_> = intervals.rows.iter().map(|row| figures(&row.figures)).collect();
        let expected =
            [(3, Some(300.0), Some(400)), (0, None, None), (100, Some(100.0), Some(100))];
        assert_eq!(rows, expected);
        assert_eq!(intervals.rows[0].figures.bandwidth_bytes_per_s, None);
        let min = figures(&intervals.min.unwrap());
        assert_eq!(min, (0, Some(100.0), Some(100)));
        assert_eq!(figures(&intervals.max.unwrap()), (100, Some(300.0), Some(400)));
    }

    #[test]
    fn interval_without_time_has_no_rate() {
        let intervals = added(&[(0, 3)]);
        let figures = intervals.rows[0].figures;
        assert_eq!((figures.count, figures.bandwidth_bytes_per_s), (3, None));
    }
}
