//! What a layer of software costs, and how its costs changed between two sets of runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use facts::expect::Metric;
use facts::robust::{median, sorted};
use report::outcome::SizeResult;

/// Part of a figure within which a layer is unchanged, in percent.
pub const UNCHANGED: f64 = 3.0;

/// Operations below which a figure of a small size is not trusted.
pub const FEWEST: u64 = 100;

/// Largest size that so few operations measure badly: larger ones take long each.
const LARGEST_SMALL: u64 = 65_536;

/// Common sizes from which on a change must show at two neighbours.
const MANY_SIZES: usize = 4;

facts::named_enum! {
    /// A layer of software, the lowest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Layer {
        /// cxidiag and the legacy tools.
        Libcxi = "libcxi",
        /// fi_pingpong and fabtests.
        Libfabric = "libfabric",
        /// OSU micro-benchmarks and Intel MPI Benchmarks.
        Mpi = "MPI",
    }
    /// Its name in texts.
    pub fn name(self);
}

/// The figures of one size.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayeredSize {
    /// Size of an operation, in bytes.
    pub size_bytes: u64,
    /// The layers in the first set, the lowest first.
    pub base: Vec<LayerFigure>,
    /// The layers in the second set; empty with one set.
    pub new: Vec<LayerFigure>,
}

/// The figure of a layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayerFigure {
    /// The layer.
    pub layer: Layer,
    /// Median of its runs.
    pub value: f64,
    /// Noise of the value, as a part of it; null if it is not known.
    pub noise: Option<f64>,
    /// Number of operations of the run with the fewest; null if its program does not print it.
    pub count: Option<u64>,
    /// What the layer, with the ones below it that were not measured, adds to a latency in
    /// nanoseconds, or takes from a bandwidth in bytes per second; never below 0. The lowest layer
    /// has its value. Null if the layer was measured otherwise than the others.
    pub own: Option<f64>,
}

/// A layer that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayerChange {
    /// Name of the layer, or of several between which no program measured.
    pub layer: String,
    /// Whether it got slower.
    pub is_worse: bool,
    /// Smallest size at which it changed, in bytes.
    pub from_bytes: u64,
    /// Largest size at which it changed, in bytes.
    pub to_bytes: u64,
    /// Largest change of what it costs, in percent of the figure of the first set.
    pub change_percent: f64,
}

impl LayerFigure {
    pub fn new(layer: Layer, results: &[&SizeResult], metric: Metric) -> Option<Self> {
        let values = results.iter().filter_map(|result| result.figure(metric));
        let values = sorted(&values.filter(|value| *value > 0.0).collect::<Vec<_>>());
        let value = median(&values)?;
        let half_range = (values[values.len() - 1] - values[0]) / 2.0;
        let noise = match results {
            [only] => own_noise(only, metric),
            _ => Some(half_range),
        };
        let counts = results.iter().map(|result| result.count);
        Some(Self {
            layer,
            value,
            noise: noise.map(|noise| noise / value),
            count: counts.filter(|count| *count > 0).min(),
            own: None,
        })
    }

    /// Whether the first operations, which are slow, weigh in the figure.
    pub fn is_of_few_operations(&self, size: u64) -> bool {
        size <= LARGEST_SMALL && self.count.is_some_and(|count| count < FEWEST)
    }

    /// Returns how far the value may be wrong, as a part of it.
    fn tolerance(&self) -> f64 {
        self.noise.unwrap_or(0.0)
    }
}

/// The noise of a median or a mean in one run: half of the 95 % interval.
fn own_noise(result: &SizeResult, metric: Metric) -> Option<f64> {
    let latency = result.latency.as_ref()?;
    if metric == Metric::Mean {
        let deviation = result.figure(Metric::Deviation).filter(|_| result.count > 0)?;
        return Some(1.96 * deviation / (result.count as f64).sqrt());
    }
    let (low, high) = latency.median_low_ns.zip(latency.median_high_ns)?;
    Some((high.saturating_sub(low)) as f64 / 2.0)
}

/// Returns by how much `upper` is slower than `lower`, as a logarithm of their ratio.
fn slowdown(lower: f64, upper: f64, is_bandwidth: bool) -> f64 {
    if is_bandwidth { (lower / upper).ln() } else { (upper / lower).ln() }
}

/// Sets what each layer costs, in the largest set of layers in which none is faster than the one
/// below. Of equally large ones, the layer with few operations is left out, else the inner one.
pub fn set_costs(figures: &mut [LayerFigure], is_bandwidth: bool) {
    let count = figures.len();
    let is_consistent = |chosen: &[usize]| {
        chosen.windows(2).all(|pair| {
            let [lower, upper] = [&figures[pair[0]], &figures[pair[1]]];
            let tolerance = (lower.tolerance() + upper.tolerance()).max(UNCHANGED / 100.0);
            slowdown(lower.value, upper.value, is_bandwidth) >= -tolerance
        })
    };
    let chosen_of =
        |mask: &usize| (0..count).filter(|index| mask >> index & 1 == 1).collect::<Vec<_>>();
    let subsets = (1..1usize << count).map(|mask| chosen_of(&mask));
    let weight = |chosen: &Vec<usize>| {
        let trusted =
            chosen.iter().filter(|index| !figures[**index].is_of_few_operations(0)).count();
        let ends = [0, count.saturating_sub(1)].iter().filter(|end| chosen.contains(end)).count();
        (chosen.len(), trusted, ends)
    };
    let best =
        subsets.filter(|chosen| chosen.len() > 1 && is_consistent(chosen)).max_by_key(weight);
    let chosen = best.unwrap_or_default();
    let mut below: Option<f64> = None;
    for index in chosen {
        let value = figures[index].value;
        let sign = if is_bandwidth { -1.0 } else { 1.0 };
        figures[index].own = Some(below.map_or(value, |below| ((value - below) * sign).max(0.0)));
        below = Some(value);
    }
}

/// What a layer costs in both sets.
pub struct JudgedLayer {
    pub layer: Layer,
    /// Its name, with the layers below it that were not measured.
    name: String,
    pub rows: Vec<CostChange>,
}

/// The change of what a layer costs at a size, as a part of its figure in the first set.
pub struct CostChange {
    size: u64,
    change: f64,
    /// Changes up to this one are noise.
    limit: f64,
    /// The same as a part of the larger figure.
    pub within: f64,
}

/// Returns what the layers of both sets cost, at each size at which both were measured alike.
pub fn judged_layers(sizes: &[LayeredSize], is_bandwidth: bool) -> Vec<JudgedLayer> {
    let mut all: BTreeMap<(Layer, String), Vec<CostChange>> = BTreeMap::new();
    for size in sizes {
        let mut below: Option<[&LayerFigure; 2]> = None;
        for base in size.base.iter().filter(|figure| figure.own.is_some()) {
            let is_same = |new: &&LayerFigure| new.layer == base.layer && new.own.is_some();
            let Some(new) = size.new.iter().find(is_same) else { continue };
            // What the layers below lost is in all figures above: in nanoseconds, or as a ratio of
            // the bandwidth.
            let change = match below {
                _ if is_bandwidth => {
                    let lost = |[base, new]: [&LayerFigure; 2]| (base.value / new.value).ln();
                    lost([base, new]) - below.map_or(0.0, lost)
                }
                None => new.value / base.value - 1.0,
                Some([lower_base, lower_new]) => {
                    let cost = new.value - lower_new.value;
                    (cost - (base.value - lower_base.value)) / base.value
                }
            };
            let figures = below.into_iter().flatten().chain([base, new]);
            let noise: f64 = figures.map(LayerFigure::tolerance).sum();
            let scale = if is_bandwidth { 1.0 } else { (new.value / base.value).max(1.0) };
            let limit = noise.max(UNCHANGED / 100.0 * scale);
            let name = between(below.map(|[lower, _]| lower.layer), base.layer);
            let within = limit / scale;
            let row = CostChange { size: size.size_bytes, change, limit, within };
            all.entry((base.layer, name)).or_default().push(row);
            below = Some([base, new]);
        }
    }
    let judged = all.into_iter();
    judged.map(|((layer, name), rows)| JudgedLayer { layer, name, rows }).collect()
}

impl JudgedLayer {
    /// The change for the worse and the one for the better. A change at one of many sizes is none.
    pub fn changes(&self, is_bandwidth: bool) -> Vec<LayerChange> {
        let mut found = Vec::new();
        for is_worse in [true, false] {
            let is_changed = |index: usize| {
                let row = self.rows.get(index);
                row.is_some_and(|row| {
                    row.change.abs() > row.limit && (row.change > 0.0) == is_worse
                })
            };
            let has_neighbour =
                |index: usize| is_changed(index + 1) || (index > 0 && is_changed(index - 1));
            let few = self.rows.len() < MANY_SIZES;
            let changed = (0..self.rows.len())
                .filter(|index| is_changed(*index) && (few || has_neighbour(*index)));
            let changed: Vec<&CostChange> = changed.map(|index| &self.rows[index]).collect();
            let ([first, ..], [.., last]) = (&*changed, &*changed) else { continue };
            let by_size = |one: &&&CostChange, other: &&&CostChange| {
                one.change.abs().total_cmp(&other.change.abs())
            };
            let largest = changed.iter().max_by(by_size).map_or(0.0, |row| row.change);
            let part = if is_bandwidth { 1.0 - (-largest).exp() } else { largest };
            found.push(LayerChange {
                layer: self.name.clone(),
                is_worse,
                from_bytes: first.size,
                to_bytes: last.size,
                change_percent: part * 100.0,
            });
        }
        found
    }
}

/// The name of the layers from above one to another one.
fn between(below: Option<Layer>, layer: Layer) -> String {
    let all = [Layer::Libcxi, Layer::Libfabric, Layer::Mpi];
    let inner =
        all.into_iter().filter(|one| below.is_none_or(|below| *one > below) && *one <= layer);
    inner.map(Layer::name).collect::<Vec<_>>().join(" or ")
}
