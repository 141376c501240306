//! The sizes of a run on the page: curves, distributions, intervals, tables; and what is unusual
//! about a curve, in a sentence: usually a larger operation takes longer, and carries more bytes in
//! a second.

use maud::{Markup, html};

use super::chart::{self, Axis, Curve, Mark};
use super::parts::{cell, figure, table};
use super::quantity::Quantity;
use facts::expect::Metric;
use facts::percentile::Percentile;
use plan::depths::Row;
use report::bins::{bins, joined};
use report::intervals::Interval;
use report::outcome::{Extent, LatencyResult, PercentileValue, SizeResult};
use survey::result::words::grouped;

/// Bins of a histogram on the page that have samples, at most.
const MOST_BARS: usize = 80;

pub fn percentile(latency: &LatencyResult, percent: f64) -> Option<&PercentileValue> {
    latency.percentiles.iter().find(|value| value.percent == percent)
}

/// The median, the mean if percentiles are unknown, or the bandwidth.
pub fn main_metric(result: &SizeResult) -> Option<f64> {
    let median = Metric::Percentile(Percentile::MEDIAN);
    let metrics = [median, Metric::Mean, Metric::Bandwidth];
    metrics.into_iter().find_map(|metric| result.figure(metric))
}

/// The name of a row: its size, and what stands before the entry or message that matches.
pub fn row_name(row: Row) -> String {
    let behind = row.posted.or(row.unexpected).map(|depth| format!(" behind {depth}"));
    Quantity::Size.text(row.size as f64) + &behind.unwrap_or_default()
}

pub fn axis_title(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Bandwidth => "Bandwidth",
        _ => "Latency",
    }
}

fn percentile_name(percent: f64) -> String {
    match percent {
        100.0 => "max".into(),
        50.0 => "median".into(),
        percent => format!("p{percent}"),
    }
}

/// The rows that curves go through.
struct CurveRows<'a> {
    results: &'a [&'a SizeResult],
    /// Whether the rows differ by their depths, and not by their sizes.
    has_depths: bool,
}

impl<'a> CurveRows<'a> {
    fn new(results: &'a [&'a SizeResult]) -> Self {
        let depths = results.iter().map(|result| result.posted.or(result.unexpected));
        Self { results, has_depths: depths.clone().min() < depths.max() }
    }

    /// The x of a row.
    fn place(&self, result: &SizeResult) -> f64 {
        match result.posted.or(result.unexpected) {
            Some(depth) if self.has_depths => f64::from(depth),
            _ => result.size_bytes as f64,
        }
    }

    fn curve(
        &self,
        name: &str,
        color: usize,
        is_main: bool,
        metric: impl Fn(&SizeResult) -> Option<f64>,
    ) -> Curve {
        let point = |result: &&SizeResult| Some((self.place(result), metric(result)?));
        let points = self.results.iter().filter_map(point).collect();
        Curve { name: name.to_owned(), color, is_main, points, band: Vec::new() }
    }

    /// A curve for each percentile, or else for the mean and the maximum; and the minimum.
    fn latencies(&self) -> Vec<Curve> {
        let shown = [50.0, 90.0, 99.0, 99.9, 100.0];
        let percentile_curve = |(color, percent): (usize, f64)| {
            self.curve(&percentile_name(percent), color, percent == 50.0, |result| {
                let value = percentile(result.latency.as_ref()?, percent)?;
                Some(value.value_ns as f64)
            })
        };
        let mut curves: Vec<Curve> = shown.into_iter().enumerate().map(percentile_curve).collect();
        if curves.iter().all(|curve| curve.points.is_empty()) {
            curves = vec![
                self.curve("mean", 0, true, main_metric),
                self.curve("max", 4, false, |result| result.figure(Metric::Max)),
            ];
        }
        curves.push(self.curve("min", 5, false, |result| result.figure(Metric::Min)));
        curves
    }

    fn bandwidth(&self) -> Vec<Curve> {
        vec![self.curve("bandwidth", 0, true, main_metric)]
    }
}

/// The metrics over the sizes, or over the depths of a range, with a curve for each percentile.
/// `None` for one row.
pub fn curves(measured: &[&SizeResult]) -> Option<Markup> {
    if measured.len() < 2 {
        return None;
    }
    let rows = CurveRows::new(measured);
    let has_depths = rows.has_depths;
    let is_latency = measured.iter().any(|result| result.latency.is_some());
    let (curves, quantity, what) = match (is_latency, has_depths) {
        (true, true) => (rows.latencies(), Quantity::Latency, "Latency of each depth"),
        (true, false) => (rows.latencies(), Quantity::Latency, "Latency of each size"),
        (false, true) => (rows.bandwidth(), Quantity::Bandwidth, "Bandwidth of each depth"),
        (false, false) => (rows.bandwidth(), Quantity::Bandwidth, "Bandwidth of each size"),
    };
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let x = if has_depths {
        Axis::from_zero("Depth", Quantity::Count, &mut points().map(|(depth, _)| *depth))?
    } else {
        Axis::log("Size", Quantity::Size, &mut points().map(|(size, _)| *size))?
    };
    let y = Axis::log(axis_title(quantity), quantity, &mut points().map(|(_, value)| *value))?;
    let main = |result: &&SizeResult| Some((result.size_bytes, main_metric(result)?));
    let main: Vec<(u64, f64)> = measured.iter().filter(|_| !has_depths).filter_map(main).collect();
    Some(html! {
        (figure(what, &chart::curves(what, &x, &y, &curves)))
        @if let Some(remark) = remark(&main, quantity) { p { (remark) } }
    })
}

/// The distribution of the latencies of a size, from its histogram or from its samples.
pub fn histogram(result: &SizeResult) -> Option<Markup> {
    let latency = result.latency.as_ref()?;
    let sample_pairs = || {
        let samples = latency.samples_ns.as_ref()?;
        Some(bins(samples.iter().map(|ns| (*ns, 1))))
    };
    let bins = latency.histogram.clone().or_else(sample_pairs)?;
    let bars: Vec<(f64, f64, u64)> = joined(&bins, MOST_BARS)
        .iter()
        .map(|bin| (bin.from_ns as f64, bin.to_ns as f64, bin.count))
        .collect();
    let mut edges = bars.iter().flat_map(|(from, to, _)| [*from, *to]);
    let marks: Vec<Mark> = [50.0, 99.0, 99.9, 100.0]
        .into_iter()
        .filter_map(|percent| percentile(latency, percent))
        .map(|value| Mark {
            name: percentile_name(value.percent),
            at: value.value_ns as f64,
            is_limit: false,
        })
        .collect();
    let x = Axis::log("Latency", Quantity::Latency, &mut edges)?;
    let counts = bars.iter().map(|(_, _, count)| *count as f64);
    let y = Axis::log("Samples", Quantity::Count, &mut counts.chain([0.6]))?;
    let size = row_name(result.row());
    let what = format!("How often each latency occurs, {size}, both axes logarithmic");
    Some(figure(&what, &chart::bars(&what, &x, &y, &bars, &marks)))
}

/// The metrics of a size over time. `None` unless there are at least two intervals.
pub fn intervals(result: &SizeResult) -> Option<Markup> {
    let rows = &result.intervals.as_ref()?.rows;
    if rows.len() < 2 {
        return None;
    }
    let curve = |name: &str, color, metric: &dyn Fn(usize) -> Option<f64>| {
        let point = |(at, row)| {
            let row: &Interval = row;
            Some((f64::midpoint(row.start_s, row.end_s), metric(at)?))
        };
        Curve {
            name: name.into(),
            color,
            is_main: color == 0,
            points: rows.iter().enumerate().filter_map(point).collect(),
            band: Vec::new(),
        }
    };
    let figures = |at: usize| &rows[at].figures;
    let curves = [
        curve("bandwidth", 0, &|at| figures(at).bandwidth_bytes_per_s),
        curve("mean", 0, &|at| figures(at).mean_ns),
        curve("p99", 2, &|at| figures(at).p99_ns.map(|ns| ns as f64)),
    ];
    let curves: Vec<Curve> = curves.into_iter().filter(|curve| !curve.points.is_empty()).collect();
    let values = || curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
    let mut ends = rows.iter().map(|row| row.end_s);
    let x = Axis::from_zero("Time", Quantity::Seconds, &mut ends)?;
    let (y, title) = if result.bandwidth.is_some() {
        (Axis::from_zero("Bandwidth", Quantity::Bandwidth, &mut values())?, "Bandwidth")
    } else {
        (Axis::log("Latency", Quantity::Latency, &mut values())?, "Latency")
    };
    let size = row_name(result.row());
    let what = format!("{title} over time, {size}");
    Some(figure(&what, &chart::curves(&what, &x, &y, &curves)))
}

/// The table of all metrics.
pub fn table_of(measured: &[&SizeResult]) -> Markup {
    let size = |result: &SizeResult| {
        let remark = match result.extent {
            Extent::Complete => "",
            Extent::Partial | Extent::None => " (partial)",
        };
        cell(format!("{}{remark}", row_name(result.row())))
    };
    let operations = |result: &SizeResult| cell(grouped(result.count));
    let text = |result: &SizeResult, metric: Metric| {
        let quantity = Quantity::from_unit(metric.unit().name());
        cell(result.figure(metric).map_or("-".into(), |value| quantity.text(value)))
    };
    if measured.iter().all(|result| result.latency.is_some()) {
        let columns = [
            ">Size", ">Samples", ">Min", ">Median", ">p90", ">p99", ">p99.9", ">p99.99", ">Max",
            ">Mean", ">StdDev",
        ];
        let row = |result: &&SizeResult| {
            let latencies = result.latency.as_ref()?;
            let mut row = vec![size(result), operations(result), text(result, Metric::Min)];
            for rank in Percentile::STANDARD.iter().take(5) {
                let known = percentile(latencies, rank.percent());
                row.push(html! {
                    (text(result, Metric::Percentile(*rank)))
                    @if known.is_some_and(|value| value.too_few_samples) {
                        abbr title="fewer than 10 samples above this percentile: unreliable" { "*" }
                    }
                });
            }
            row.extend(
                [Metric::Max, Metric::Mean, Metric::Deviation].map(|metric| text(result, metric)),
            );
            Some(row)
        };
        let rows: Vec<Vec<Markup>> = measured.iter().filter_map(row).collect();
        html! {
            (table("Latencies", &columns, &rows))
            p.note { "* fewer than 10 samples above this percentile: unreliable" }
        }
    } else {
        let row = |result: &&SizeResult| {
            let rates = [Metric::Bandwidth, Metric::PacketRate].map(|metric| text(result, metric));
            [size(result), operations(result)].into_iter().chain(rates).collect()
        };
        let rows: Vec<Vec<Markup>> = measured.iter().map(row).collect();
        table("Bandwidths", &[">Size", ">Operations", ">Bandwidth", ">Packets"], &rows)
    }
}

/// Smallest difference between two sizes that is worth a sentence, as a part of the better one.
const LEAST: f64 = 0.1;

/// The fall of a bandwidth ends at the first size that is at most this part above the lowest one.
const ABOUT: f64 = 0.02;

/// The sentence about latencies or bandwidths of sizes in ascending order, if they are unusual.
pub fn remark(points: &[(u64, f64)], quantity: Quantity) -> Option<String> {
    let text = |(size, value): (u64, f64)| (Quantity::Size.text(size as f64), quantity.text(value));
    if quantity == Quantity::Bandwidth {
        let (peak, low) = fall(points)?;
        let percent = 100.0 * (1.0 - low.1 / peak.1);
        let ((from, most), (to, least)) = (text(peak), text(low));
        return Some(format!(
            "The bandwidth falls by {percent:.0} % from {from} ({most}) to {to} ({least})."
        ));
    }
    let (slow, fast) = step(points)?;
    let ((small, long), (large, short)) = (text(slow), text(fast));
    Some(format!("Operations of {small} take longer ({long}) than of {large} ({short})."))
}

/// The beginning and the end of the largest fall.
fn fall(points: &[(u64, f64)]) -> Option<((u64, f64), (u64, f64))> {
    let mut peak = *points.first()?;
    let mut largest: Option<((u64, f64), f64)> = None;
    for &(size, value) in points {
        if value > peak.1 {
            peak = (size, value);
        }
        if value < largest.map_or(1.0 - LEAST, |(peak, low)| low / peak.1) * peak.1 {
            largest = Some((peak, value));
        }
    }
    let (peak, low) = largest?;
    let after = points.iter().filter(|(size, _)| *size > peak.0);
    let end = after.copied().find(|(_, value)| *value <= (1.0 + ABOUT) * low)?;
    Some((peak, end))
}

/// The largest size that takes longer than a larger one, and the fastest larger one.
fn step(points: &[(u64, f64)]) -> Option<((u64, f64), (u64, f64))> {
    points.iter().enumerate().rev().find_map(|(at, &slow)| {
        let larger = points[at + 1..].iter().copied();
        let fast = larger.min_by(|one, other| one.1.total_cmp(&other.1))?;
        (fast.1 <= (1.0 - LEAST) * slow.1).then_some((slow, fast))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_the_largest_fall_of_a_bandwidth() {
        // A fall of 7 % that recovers, and one of a third that stays.
        let points = [(1, 14e6), (64, 13e6), (4096, 20e9), (32_768, 23.5e9), (262_144, 16.2e9)];
        let points = [&points[..], &[(524_288, 15.73e9), (1_048_576, 15.7e9)]].concat();
        let expected =
            "The bandwidth falls by 33 % from 32 KiB (23.5 GB/s) to 512 KiB (15.7 GB/s).";
        assert_eq!(remark(&points, Quantity::Bandwidth).as_deref(), Some(expected));
        let expected = "The bandwidth falls by 14 % from 1 B (14.0 GB/s) to 64 B (12.0 GB/s).";
        let points = [(1, 14e9), (64, 12e9), (4096, 20e9), (32_768, 23.5e9)];
        assert_eq!(remark(&points, Quantity::Bandwidth).as_deref(), Some(expected));
        assert_eq!(remark(&[(1, 1e9), (2, 0.91e9), (4, 2e9)], Quantity::Bandwidth), None);
        assert_eq!(remark(&[], Quantity::Bandwidth), None);
    }

    #[test]
    fn tells_sizes_that_are_slower_than_larger_ones() {
        let points = [(1, 3460.0), (8, 3490.0), (16, 1650.0), (32, 1630.0), (128, 2230.0)];
        let expected = "Operations of 8 B take longer (3.49 us) than of 32 B (1.63 us).";
        assert_eq!(remark(&points, Quantity::Latency).as_deref(), Some(expected));
        assert_eq!(remark(&points[2..], Quantity::Latency), None);
    }
}
