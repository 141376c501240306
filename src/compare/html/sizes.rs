//! The sizes of a run on the page: curves, distributions, intervals, tables.

use maud::{Markup, html};

use super::chart::{self, Axis, Curve, Mark};
use super::curve_words;
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

/// Returns the median, the mean if percentiles are unknown, or the bandwidth.
pub fn main_metric(result: &SizeResult) -> Option<f64> {
    let median = Metric::Percentile(Percentile::MEDIAN);
    let metrics = [median, Metric::Mean, Metric::Bandwidth];
    metrics.into_iter().find_map(|metric| result.figure(metric))
}

/// Returns the name of a row: its size, and what stands before the entry or message that matches.
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

    /// Returns the x of a row.
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

    /// Returns a curve for each percentile, or else for the mean and the maximum; and the minimum.
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

/// Returns the metrics over the sizes, or over the depths of a range, with a curve for each
/// percentile. `None` for one row.
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
        @if let Some(remark) = curve_words::remark(&main, quantity) { p { (remark) } }
    })
}

/// Returns the distribution of the latencies of a size, from its histogram or from its samples.
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

/// Returns the metrics of a size over time. `None` unless there are at least two intervals.
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

/// Returns the table of all metrics.
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
