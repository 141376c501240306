//! What libcxi, libfabric and MPI add to the latency, or take from the bandwidth, of one pair of
//! NICs; and which of them changed between two sets of runs (docs/layers.md). The doc comments of
//! the types are the descriptions in their schema, docs/layers.schema.json.
//!
//! The cost of a layer is the difference between its figure and the figure of the layer below. A
//! layer cannot be faster than the one below it: such figures were measured otherwise, and no cost
//! is computed from them.
//!
//! The text of layers says what each adds, what changed, and what the figures cannot say.

use std::collections::{BTreeMap, BTreeSet};

use facts::error::Failure;
use facts::expect::Metric;
use facts::groups::by_key;
use facts::number::listed;
use page::page::{Page, Words};
use report::outcome::{Extent, SizeResult};
use serde::{Deserialize, Serialize};

use crate::comparison::{deciding, read_metric, write_metric};
use crate::layer_costs::{
    FEWEST, Layer, LayerChange, LayerFigure, LayeredSize, UNCHANGED, judged_layers, set_costs,
};
use crate::runs::ReadRun;

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Layers of a pair of NICs, as `cxidiag compare --layers --json` writes them. A value that does
/// not apply is null.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayerComparison {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    pub cxidiag_version: String,
    /// The first line of the text.
    pub summary: String,
    /// Whether a run is known to be of a software NIC, so that no Cassini hardware was involved.
    pub is_software: bool,
    /// Whether there are two sets of runs, such as before and after an upgrade.
    pub has_two_sets: bool,
    /// One entry for each kind of transfer that two layers have measured.
    pub transfers: Vec<LayeredTransfer>,
    /// What the figures cannot say, in sentences.
    pub remarks: Vec<String>,
}

/// One kind of transfer.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LayeredTransfer {
    /// What was measured, such as "send latency".
    pub name: String,
    /// The metric of all layers.
    #[serde(serialize_with = "write_metric", deserialize_with = "read_metric")]
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub metric: Metric,
    /// Unit of the figures.
    pub unit: String,
    /// The layers that were measured, the lowest first.
    pub layers: Vec<MeasuredLayer>,
    /// One entry for each size that two layers of a set have measured, in ascending order.
    pub sizes: Vec<LayeredSize>,
    /// What changed from the first set to the second one; empty with one set.
    pub changes: Vec<LayerChange>,
}

/// The runs of a layer.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct MeasuredLayer {
    /// The layer.
    pub layer: Layer,
    /// The programs that measured it.
    pub programs: Vec<String>,
    /// The files, of both sets.
    pub files: Vec<String>,
    /// Largest change that its costs may have between the sets without being named, in percent of
    /// its figure; null with one set, if a change was found, and if it could not be judged.
    pub unchanged_within_percent: Option<f64>,
    /// Whether its costs were compared between the sets: false with one set, and if it was measured
    /// otherwise.
    pub is_judged: bool,
}

/// The layer and the transfer that a run measures; `None` if no other layer measures it.
fn measured(run: &ReadRun) -> Option<(Layer, String)> {
    let options = run.outcome.options.as_ref();
    let lists = options.and_then(|options| options.lists.as_ref());
    let is_both = lists.is_some_and(|lists| lists.bidirectional);
    let has_pairs = lists.is_some_and(|lists| lists.pairs > 1);
    let (layer, transfer) = match run.outcome.tool.as_str() {
        "send-bw" | "write-bw" if has_pairs && is_both => return None,
        "send-lat" => (Layer::Libcxi, "send latency"),
        "write-lat" => (Layer::Libcxi, "write latency"),
        "read-lat" => (Layer::Libcxi, "read latency"),
        "send-bw" if is_both => (Layer::Libcxi, "send bandwidth in both directions"),
        "send-bw" if has_pairs => (Layer::Libcxi, "send bandwidth of several pairs"),
        "send-bw" => (Layer::Libcxi, "send bandwidth"),
        "write-bw" if is_both => (Layer::Libcxi, "write bandwidth in both directions"),
        "write-bw" if !has_pairs => (Layer::Libcxi, "write bandwidth"),
        "read-bw" if !is_both && !has_pairs => (Layer::Libcxi, "read bandwidth"),
        // fabtests do not print whether they write or read; to write is their default [I].
        "fi_rma_bw" => (Layer::Libfabric, "write bandwidth"),
        name if name.contains("_rma_") => return None,
        name if name.starts_with("fi_") && name.ends_with("pingpong") => {
            (Layer::Libfabric, "send latency")
        }
        name if name.starts_with("fi_") && name.ends_with("_bw") => {
            (Layer::Libfabric, "send bandwidth")
        }
        "osu_latency" | "IMB PingPong" => (Layer::Mpi, "send latency"),
        "osu_put_latency" => (Layer::Mpi, "write latency"),
        "osu_get_latency" => (Layer::Mpi, "read latency"),
        "osu_bw" => (Layer::Mpi, "send bandwidth"),
        "osu_bibw" => (Layer::Mpi, "send bandwidth in both directions"),
        "osu_mbw_mr" => (Layer::Mpi, "send bandwidth of several pairs"),
        "osu_put_bw" => (Layer::Mpi, "write bandwidth"),
        "osu_put_bibw" => (Layer::Mpi, "write bandwidth in both directions"),
        "osu_get_bw" => (Layer::Mpi, "read bandwidth"),
        _ => return None,
    };
    let on_gpu = |gpu: fn(&report::outcome::Options) -> Option<u8>| {
        if options.and_then(gpu).is_some() { "device" } else { "host" }
    };
    let own = || {
        let receiver = on_gpu(|options| options.peer_rx_gpu.or(options.rx_gpu));
        format!("{} to {receiver}", on_gpu(|options| options.tx_gpu))
    };
    let memory = run.outcome.labels.get("memory").filter(|_| run.outcome.is_printed());
    let memory = memory.cloned().unwrap_or_else(own);
    let memory = Some(memory).filter(|memory| memory != "host to host");
    let memory = memory.map_or(String::new(), |memory| format!(", {memory}"));
    Some((layer, format!("{transfer}{memory}")))
}

impl LayerComparison {
    /// Compares the layers of `base`, and with `new` what changed in them.
    ///
    /// # Errors
    ///
    /// No transfer was measured by two layers of a set, or runs are of several pairs of NICs.
    pub fn new(base: &[ReadRun], new: &[ReadRun]) -> Result<Self, Failure> {
        [base, new].into_iter().try_for_each(one_pair)?;
        let sets = [base, new];
        let all = || (0..).zip(sets).flat_map(|(set, runs)| runs.iter().map(move |run| (set, run)));
        let known = all().filter_map(|(set, run)| {
            let (layer, transfer) = measured(run)?;
            Some((transfer, SetRun { set, layer, run }))
        });
        let transfers: Vec<LayeredTransfer> = by_key(known)
            .into_iter()
            .filter_map(|(name, runs)| LayeredTransfer::new(name, &runs, !new.is_empty()))
            .collect();
        if transfers.is_empty() {
            return Err(no_transfer(all().map(|(_, run)| run)));
        }
        let left_out = all().filter_map(|(_, run)| {
            let name = measured(run).map(|(_, name)| name);
            let is_used = transfers.iter().any(|transfer| Some(&transfer.name) == name.as_ref());
            let what = name.map_or(String::new(), |name| format!(" ({name})"));
            (!is_used).then(|| format!("{}{what}", run.outcome.tool))
        });
        let left_out = distinct(left_out);
        let mut remarks: Vec<String> =
            transfers.iter().flat_map(LayeredTransfer::remarks).collect();
        if !left_out.is_empty() {
            let programs = listed(&left_out, 4);
            remarks.push(format!("Left out, no other layer measured the same: {programs}."));
        }
        let summary = if new.is_empty() {
            transfers.iter().map(LayeredTransfer::sentence).collect::<Vec<_>>().join("; ")
        } else {
            change_summary(&transfers)
        };
        let is_software = |(_, run): (usize, &ReadRun)| {
            run.outcome.device.as_ref().and_then(|device| device.is_software) == Some(true)
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION").into(),
            summary,
            is_software: all().any(is_software),
            has_two_sets: !new.is_empty(),
            transfers,
            remarks,
        })
    }

    /// Whether all layers of two sets were judged.
    pub fn is_judged(&self) -> bool {
        let mut layers = self.transfers.iter().flat_map(|transfer| &transfer.layers);
        self.has_two_sets && layers.all(|layer| layer.is_judged)
    }

    /// Whether no layer got slower.
    ///
    /// # Errors
    ///
    /// The summary, if one did, or if one of two sets was not judged.
    pub fn result(&self) -> Result<(), Failure> {
        let mut changes = self.transfers.iter().flat_map(|transfer| &transfer.changes);
        if changes.any(|change| change.is_worse) {
            return Err(Failure::unmet(self.summary.clone()));
        }
        if self.has_two_sets && !self.is_judged() {
            return Err(Failure::undecided(self.summary.clone()));
        }
        Ok(())
    }
}

/// The failure of runs without a transfer that two layers have measured.
fn no_transfer<'a>(runs: impl Iterator<Item = &'a ReadRun>) -> Failure {
    let programs: BTreeSet<&str> = runs.map(|run| run.outcome.tool.as_str()).collect();
    let programs = listed(&programs.into_iter().collect::<Vec<_>>(), 4);
    let hint = "give runs of two layers that measure the same at the same sizes, such as send-lat, \
                fi_pingpong and osu_latency";
    let why = format!("no transfer was measured by two layers ({programs})");
    Failure::usage(format!("nothing to compare: {why}")).with_hint(hint)
}

/// Checks that the runs of a set that name their NICs are of one pair.
fn one_pair(runs: &[ReadRun]) -> Result<(), Failure> {
    let with_nic = runs.iter().filter(|run| run.outcome.device.is_some());
    let mut places = with_nic.map(|run| (run.outcome.place(), &run.file));
    let Some((first, file)) = places.next() else { return Ok(()) };
    match places.find(|(place, _)| *place != first) {
        None => Ok(()),
        Some((other, other_file)) => Err(Failure::usage(format!(
            "--layers compares one pair of NICs: {file} is of {first}, {other_file} of {other}"
        ))),
    }
}

/// A run of a set.
struct SetRun<'a> {
    /// 0 or 1.
    set: usize,
    layer: Layer,
    run: &'a ReadRun,
}

/// Returns what changed from the first set to the second one, and notes the layers that did not.
fn changes(
    sizes: &[LayeredSize],
    is_bandwidth: bool,
    layers: &mut [MeasuredLayer],
) -> Vec<LayerChange> {
    let mut changes = Vec::new();
    for judged in judged_layers(sizes, is_bandwidth) {
        let found = judged.changes(is_bandwidth);
        for own in layers.iter_mut().filter(|one| one.layer == judged.layer) {
            let limits = judged.rows.iter().map(|row| row.within);
            let within = limits.fold(0.0, f64::max) * 100.0;
            own.unchanged_within_percent = found.is_empty().then_some(within);
            own.is_judged = true;
        }
        changes.extend(found);
    }
    changes
}

impl LayeredTransfer {
    /// A transfer that two layers of a set have measured at a common size.
    fn new(name: String, runs: &[SetRun], has_two_sets: bool) -> Option<Self> {
        let is_bandwidth = runs.iter().any(|one| one.run.measures_bandwidth());
        let metric = deciding(is_bandwidth, runs.iter().map(|one| one.run));
        let all_sizes: BTreeSet<u64> = runs
            .iter()
            .flat_map(|one| one.run.outcome.results.iter().map(|result| result.size_bytes))
            .collect();
        let figures = |set: usize, size: u64| {
            let mut by_layer: BTreeMap<Layer, Vec<&SizeResult>> = BTreeMap::new();
            for one in runs.iter().filter(|one| one.set == set) {
                let results = one.run.outcome.results.iter();
                let whole = results.filter(|result| result.extent == Extent::Complete);
                by_layer.entry(one.layer).or_default().extend(whole.filter(|result| {
                    result.size_bytes == size && result.posted.or(result.unexpected).is_none()
                }));
            }
            let figure = |(layer, results): (Layer, Vec<&SizeResult>)| {
                LayerFigure::new(layer, &results, metric)
            };
            let mut figures: Vec<LayerFigure> = by_layer.into_iter().filter_map(figure).collect();
            set_costs(&mut figures, is_bandwidth);
            figures
        };
        let size = |size_bytes| LayeredSize {
            size_bytes,
            base: figures(0, size_bytes),
            new: figures(1, size_bytes),
        };
        let sizes = all_sizes.into_iter().map(size);
        let sizes: Vec<LayeredSize> = sizes
            .filter(|size| {
                let least = if has_two_sets {
                    size.base.len().min(size.new.len())
                } else {
                    size.base.len()
                };
                least > 1
            })
            .collect();
        if sizes.is_empty() {
            return None;
        }
        let layer = |(layer, runs): (Layer, Vec<&SetRun>)| MeasuredLayer {
            layer,
            programs: distinct(runs.iter().map(|one| one.run.outcome.tool.clone())),
            files: distinct(runs.iter().map(|one| one.run.file.clone())),
            unchanged_within_percent: None,
            is_judged: false,
        };
        let mut layers: Vec<MeasuredLayer> =
            by_key(runs.iter().map(|one| (one.layer, one))).into_iter().map(layer).collect();
        layers.sort_by_key(|one| one.layer);
        let mut found = Vec::new();
        if has_two_sets {
            found = changes(&sizes, is_bandwidth, &mut layers);
        }
        let unit = metric.unit().name().into();
        Some(Self { name, metric, unit, layers, sizes, changes: found })
    }

    /// The size that the summary is about: the smallest one of latencies, the largest one of
    /// bandwidths, at which most layers were measured alike.
    fn main_size(&self) -> &LayeredSize {
        let alike = |size: &&LayeredSize| size.base.iter().filter(|one| one.own.is_some()).count();
        let sizes = || self.sizes.iter();
        // The last of several largest ones is found.
        let found = if self.metric.is_of_bandwidth() {
            sizes().max_by_key(alike)
        } else {
            sizes().rev().max_by_key(alike)
        };
        found.unwrap_or(&self.sizes[0])
    }

    /// The layers of the main size, as in `libcxi 1.64 us, + libfabric 0.31 = 1.95`.
    fn sentence(&self) -> String {
        let size = self.main_size();
        let (unit, scale) = match self.metric.unit().readable() {
            ("MB/s", _) => ("GB/s", 1e9),
            readable => readable,
        };
        let sign = if self.metric.is_of_bandwidth() { "-" } else { "+" };
        let mut parts: Vec<String> = Vec::new();
        let lowest = size.base.iter().find(|figure| figure.own.is_some());
        let lowest = lowest.map(|figure| figure.layer);
        for figure in &size.base {
            let name = figure.layer.name();
            parts.push(match figure.own {
                Some(own) if Some(figure.layer) == lowest => {
                    format!("{name} {:.2} {unit}", own / scale)
                }
                Some(own) => format!("{sign} {name} {:.2}", own / scale),
                None => format!("({name} {:.2} {unit})", figure.value / scale),
            });
        }
        let last = size.base.iter().rfind(|figure| figure.own.is_some());
        let total = last.map_or(String::new(), |last| format!(" = {:.2}", last.value / scale));
        format!("{}, {} B: {}{total}", self.name, size.size_bytes, parts.join(", "))
    }

    /// Returns what the figures cannot say.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let figures = || {
            self.sizes.iter().flat_map(|size| {
                let all = size.base.iter().chain(&size.new);
                all.map(move |figure| (size.size_bytes, figure))
            })
        };
        for MeasuredLayer { layer, programs, .. } in &self.layers {
            let own = || figures().filter(|(_, figure)| figure.layer == *layer);
            let few = own().filter(|(size, figure)| figure.is_of_few_operations(*size));
            if let Some(count) = few.filter_map(|(_, figure)| figure.count).min() {
                remarks.push(format!(
                    "{} has {count} operations a size, at least {FEWEST} are needed: its figures \
                     hold its first operations, which are slow ({}).",
                    programs.join(", "),
                    "fi_pingpong -I 10000, osu_latency -i 10000, --iters=10000"
                ));
            }
            let noisy = own().filter_map(|(size, figure)| Some((size, figure.noise?)));
            let noisiest = noisy.max_by(|(_, one), (_, other)| one.total_cmp(other));
            if let Some((size, noise)) = noisiest.filter(|(_, noise)| *noise * 100.0 > UNCHANGED) {
                let percent = noise * 100.0;
                let name = layer.name();
                remarks.push(format!("{name} has a noise of {percent:.0} % at {size} bytes."));
            }
        }
        let is_otherwise = |size: &&LayeredSize| {
            size.base.iter().chain(&size.new).any(|figure| figure.own.is_none())
        };
        let otherwise = self.sizes.iter().filter(is_otherwise);
        let otherwise: Vec<String> = otherwise.map(|size| size.size_bytes.to_string()).collect();
        if !otherwise.is_empty() {
            remarks.push(format!(
                "In parentheses, at {} bytes: measured otherwise, because a layer cannot be faster \
                 than the one below it. Compare settings, memory, direction and number of \
                 operations.",
                listed(&otherwise, 3)
            ));
        }
        remarks
    }
}

/// All names once, in order.
fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    all.collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns which layers changed, in a line.
fn change_summary(transfers: &[LayeredTransfer]) -> String {
    let mut parts = Vec::new();
    for LayeredTransfer { name, layers, changes, .. } in transfers {
        for LayerChange { layer, is_worse, from_bytes, to_bytes, change_percent } in changes {
            let sizes = match (from_bytes, to_bytes) {
                (from, to) if from == to => from.to_string(),
                (from, to) => format!("{from} to {to}"),
            };
            let word = if *is_worse { "slower" } else { "faster" };
            let percent = change_percent.abs();
            parts
                .push(format!("{layer} is {word}: {name} by up to {percent:.0} % ({sizes} bytes)"));
        }
        let within =
            |layer: &MeasuredLayer| Some((layer.layer.name(), layer.unchanged_within_percent?));
        let unchanged: Vec<(&str, f64)> = layers.iter().filter_map(within).collect();
        let percent = unchanged.iter().map(|(_, percent)| *percent).fold(0.0, f64::max);
        let names = unchanged.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let names = if changes.is_empty() { format!("{name}: {names}") } else { names };
        if !unchanged.is_empty() {
            parts.push(format!("{names} unchanged within {:.0} %", (percent - 0.01).ceil()));
        }
        let not_judged = layers.iter().filter(|layer| !layer.is_judged);
        let not_judged: Vec<&str> = not_judged.map(|layer| layer.layer.name()).collect();
        if !not_judged.is_empty() {
            parts.push(format!("{name}: {} not judged", not_judged.join(", ")));
        }
    }
    parts.join("; ")
}

/// Files of a layer that are named.
const NAMED_FILES: usize = 2;

pub fn page(compared: &LayerComparison) -> Page {
    let mut page = Page::default();
    page.paragraph(compared.summary.clone(), "  ");
    if compared.is_software {
        page.line("software NICs: no Cassini hardware involved");
    }
    for transfer in &compared.transfers {
        page.empty_line();
        page.fact("Transfer", format!("{} ({})", transfer.name, transfer.metric));
        for layer in &transfer.layers {
            let (programs, files) = (layer.programs.join(", "), listed(&layer.files, NAMED_FILES));
            page.fact(layer.layer.name(), format!("{programs} ({files})"));
        }
        page.empty_line();
        table(&mut page, transfer, compared.has_two_sets);
    }
    if !compared.remarks.is_empty() {
        page.empty_line();
    }
    for remark in &compared.remarks {
        page.paragraph(remark.clone(), "  ");
    }
    page
}

/// Adds a table with a row for each size and set: the lowest layer, what each layer above it adds
/// or takes, and the figure of the highest one.
fn table(page: &mut Page, transfer: &LayeredTransfer, has_two_sets: bool) {
    let (unit, scale) = transfer.metric.unit().readable();
    let sign = if transfer.metric.is_of_bandwidth() { "-" } else { "+" };
    let mut columns = vec![">Size[B]".to_owned()];
    columns.extend(has_two_sets.then(|| "Set".to_owned()));
    let layers: Vec<Layer> = transfer.layers.iter().map(|layer| layer.layer).collect();
    columns.extend(layers.iter().enumerate().map(|(place, layer)| match place {
        0 => format!(">{}[{unit}]", layer.name()),
        _ => format!(">{sign} {}", layer.name()),
    }));
    columns.push(">= total".into());
    let row = |size: &LayeredSize, set: &str, figures: &[LayerFigure]| {
        let mut cells: Vec<Words> = vec![size.size_bytes.to_string().into()];
        cells.extend(has_two_sets.then(|| set.into()));
        for layer in &layers {
            let figure = figures.iter().find(|figure| figure.layer == *layer);
            cells.push(match figure {
                Some(LayerFigure { own: Some(own), .. }) => format!("{:.3}", own / scale).into(),
                Some(LayerFigure { value, .. }) => format!("({:.3})", value / scale).into(),
                None => "-".into(),
            });
        }
        let total = figures.iter().rfind(|figure| figure.own.is_some());
        cells.push(total.map_or("-".into(), |total| format!("{:.3}", total.value / scale).into()));
        cells
    };
    let rows = transfer.sizes.iter().flat_map(|size| {
        let new = has_two_sets.then(|| row(size, "new", &size.new));
        [row(size, "base", &size.base)].into_iter().chain(new)
    });
    let rows: Vec<Vec<Words>> = rows.collect();
    page.table(&columns.iter().map(String::as_str).collect::<Vec<_>>(), rows);
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
