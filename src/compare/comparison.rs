//! The runs of two sides compared, with a verdict for each size of each group of runs that measured
//! the same (docs/output-formats.md). The doc comments of the types are the descriptions in their
//! schema, docs/comparison.schema.json.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::grouping::{self, RunGroup};
use super::runs::ReadRun;
use facts::error::Failure;
use facts::expect::{Metric, MetricUnit};
use facts::number::listed;
use facts::percentile::Percentile;
use facts::robust::{median, sorted};
use facts::severity::Severity;
use measure::rank_test::{probability_of_shift, smallest_probability};
use plan::depths::Row;
use report::columns::{COLUMNS, Column};
use report::noise::{self, Noise};
use report::outcome::{Extent, SizeResult, Status};

/// Version of the document. It changes when a field is removed or changes its meaning.
pub const SCHEMA_VERSION: u32 = 2;

/// Groups that a message names.
const NAMED: usize = 3;

/// Default of `--max-regress`, in percent.
pub const MAX_REGRESS: f64 = 5.0;

/// Level of the test of several runs.
pub const LEVEL: f64 = 0.01;

/// Factor of a change that other programs on the machine do not cause: threads that share a CPU
/// move the median by a factor of 6.
const BEYOND_DISTURBANCE: f64 = 10.0;

/// Part of a factor by which runs are moved past each other.
const ORDER_CHANGES: f64 = 1e-9;

/// A comparison of runs, as `cxidiag compare --json` writes it. A value that does not apply is
/// null.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Version of this layout.
    schema_version: u32,
    /// Version of cxidiag.
    pub cxidiag_version: String,
    /// --max-regress: largest change for the worse that is allowed, in percent of the base.
    pub max_regress_percent: f64,
    /// Level of the test of several runs, for each size and each direction, in percent.
    pub level_percent: f64,
    /// One entry for each tool, NIC, peer and setting of which a side has runs.
    pub groups: Vec<Group>,
}

/// Runs that measured the same.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Group {
    /// What the runs measured: host and NIC, peer, and the options by which groups differ.
    pub name: String,
    /// Name of the tool that measured.
    pub tool: String,
    /// The metric that decides, such as p50 or bw.
    #[serde(serialize_with = "write_metric", deserialize_with = "read_metric")]
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub metric: Metric,
    /// The runs of the base; empty if the base has none.
    pub base: Vec<Run>,
    /// The new runs; empty if there are none.
    pub new: Vec<Run>,
    /// What makes runs differ beside their results, in lines.
    pub differences: Vec<String>,
    /// One entry for each size of any run, and each depth of --posted or --unexpected, in ascending
    /// order.
    pub sizes: Vec<SizeComparison>,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Run {
    /// The file that it was read from; - for standard input.
    pub file: String,
    /// Host name of the side that measured.
    pub host: String,
    /// Name of the NIC that measured; null without.
    pub device: Option<String>,
    /// Whether it is a software NIC; null if unknown.
    pub is_software: Option<bool>,
    /// Start of the run, in milliseconds since 1970-01-01 (UTC).
    pub started_unix_ms: u64,
    /// How the run ended.
    pub status: Status,
}

/// One size.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SizeComparison {
    /// Size of an operation, in bytes.
    pub size_bytes: u64,
    /// --posted: list entries before the one that receives; null without.
    #[serde(default)]
    pub posted: Option<u16>,
    /// --unexpected: messages before the one that a receive searches for; null without.
    #[serde(default)]
    pub unexpected: Option<u16>,
    /// How the metric that decides has changed.
    pub verdict: Verdict,
    /// How a change is tested; null if the size was not measured completely on both sides.
    pub test: Option<SignificanceTest>,
    /// Probability that runs that do not differ rank at least this far in the direction of the
    /// change: for the worse if the new median is worse, else for the better. The test calls it a
    /// change up to level_percent. Null if the runs were not ranked, and if the medians are equal.
    pub p_value: Option<f64>,
    /// Change for the worse from which the test finds one in such runs, in percent of the base.
    /// Null if the noise is unknown, or hides every change.
    pub detectable_percent: Option<f64>,
    /// The metrics that are shown, with the one that decides.
    pub metrics: Vec<MetricComparison>,
}

facts::named_enum! {
    /// How a size has changed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Verdict {
        /// No change beyond the limit.
        Ok = "ok",
        /// Better by more than the limit and than the noise.
        Improved = "improved",
        /// Worse by more than the limit, but not by more than the noise.
        WithinNoise = "within noise",
        /// The runs do not show whether there is a change beyond the limit: the noise is larger
        /// than the limit, or unknown.
        Unclear = "unclear",
        /// Worse by more than the limit and than the noise.
        Regressed = "regressed",
        /// Measured completely in the base, but in no new run.
        NotMeasured = "not measured",
        /// Not measured completely in the base.
        NoBase = "no base",
    }
    /// The verdict in words.
    pub fn text(self);
}

impl Verdict {
    /// Returns how good it is.
    pub fn severity(self) -> Severity {
        match self {
            Self::Ok | Self::Improved => Severity::Good,
            Self::WithinNoise | Self::Unclear | Self::NoBase => Severity::Suspect,
            Self::Regressed | Self::NotMeasured => Severity::Bad,
        }
    }

    /// Whether the runs do not show if the size has regressed.
    pub fn is_undecided(self) -> bool {
        matches!(self, Self::WithinNoise | Self::Unclear)
    }
}

/// How a change is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Test"))]
#[serde(rename_all = "snake_case")]
pub enum SignificanceTest {
    /// The runs of both sides are ranked: Mann-Whitney U, one-sided.
    MannWhitneyU,
    /// Too few runs to be ranked: the metric of each side must lie outside the range of the other.
    Ranges,
}

/// One metric of both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct MetricComparison {
    /// Its name.
    #[serde(serialize_with = "write_metric", deserialize_with = "read_metric")]
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub metric: Metric,
    /// Unit of the values.
    pub unit: String,
    /// The base; null if it was not measured completely.
    pub base: Option<Figure>,
    /// The new runs; null if it was not measured completely.
    pub new: Option<Figure>,
    /// Change in percent of the base; null if a side is null, or the base is 0.
    pub change_percent: Option<f64>,
}

pub fn write_metric<S: Serializer>(metric: &Metric, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(metric)
}

pub fn read_metric<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metric, D::Error> {
    let name = String::deserialize(deserializer)?;
    name.parse().map_err(serde::de::Error::custom)
}

/// A metric of the runs of one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Figure {
    /// Its median over the runs.
    pub value: f64,
    /// Number of runs that measured the size completely.
    pub runs: usize,
    /// Lower end of the noise: the lowest run if the runs are ranked, else the lower end of the
    /// range of the samples; null if unknown.
    pub noise_low: Option<f64>,
    /// Upper end of the noise.
    pub noise_high: Option<f64>,
    /// Whether the noise is assumed, because a run has no samples of the metric.
    pub noise_is_assumed: bool,
}

impl Figure {
    /// The larger distance of the noise from the value, in percent of the value; `-` without any.
    pub fn noise_text(&self) -> String {
        let farthest = self.noise_low.zip(self.noise_high);
        let farthest = farthest.map(|(low, high)| (self.value - low).max(high - self.value));
        match farthest.map(|farthest| farthest / self.value * 100.0) {
            Some(percent) if percent > 999.0 => ">999%".into(),
            Some(percent) if percent >= 9.95 => format!("{percent:.0}%"),
            Some(percent) if self.value > 0.0 => format!("{percent:.1}%"),
            _ => "-".into(),
        }
    }
}

/// The results of a row in the runs of one side that measured it completely.
struct RowResults<'a>(Vec<&'a SizeResult>);

impl<'a> RowResults<'a> {
    fn new(runs: &[&'a ReadRun], row: Row) -> Self {
        let result = |run: &&'a ReadRun| {
            let is_of_row = |result: &&SizeResult| result.row() == row;
            let result = run.outcome.results.iter().find(is_of_row);
            result.filter(|result| result.extent == Extent::Complete)
        };
        Self(runs.iter().filter_map(result).collect())
    }

    /// The metric in each run that has it.
    fn values(&self, metric: Metric) -> Vec<f64> {
        let results = self.0.iter();
        results.filter_map(|result| result.figure(metric)).collect()
    }

    /// The range of the own samples of the runs that have the metric.
    fn own_noise(&self, metric: Metric) -> Option<Noise> {
        let with_metric = self.0.iter().filter(|result| result.figure(metric).is_some());
        let mut ranges = with_metric.map(|result| noise::of(result, metric));
        let first = ranges.next()??;
        ranges.try_fold(first, |all, range| Some(all.and(range?)))
    }

    fn figure(&self, metric: Metric, test: SignificanceTest) -> Option<Figure> {
        let values = sorted(&self.values(metric));
        let (least, greatest) = (*values.first()?, *values.last()?);
        let noise = match test {
            SignificanceTest::Ranges => self.own_noise(metric),
            SignificanceTest::MannWhitneyU => {
                Some(Noise { low: least, high: greatest, is_assumed: false })
            }
        };
        Some(Figure {
            value: median(&values)?,
            runs: values.len(),
            noise_low: noise.map(|noise| noise.low),
            noise_high: noise.map(|noise| noise.high),
            noise_is_assumed: noise.is_some_and(|noise| noise.is_assumed),
        })
    }

    fn is_disturbed(&self) -> bool {
        self.0.iter().any(|result| noise::is_disturbed(result))
    }
}

impl Comparison {
    /// Compares runs of `new` with runs of `base` that measured the same. `figure` is the metric
    /// that decides; `None` for the one of each tool. Leaves out the runs of tools without it.
    ///
    /// # Errors
    ///
    /// A run does not say to which group it belongs.
    pub fn new(
        base: &[ReadRun],
        new: &[ReadRun],
        figure: Option<Metric>,
        max_regress: f64,
    ) -> Result<Self, Failure> {
        let compared = |group: RunGroup| {
            let runs = || base.iter().chain(new).filter(|run| run.outcome.tool == group.tool);
            let measures_bandwidth = runs().any(ReadRun::measures_bandwidth);
            let metric = figure.unwrap_or_else(|| deciding(measures_bandwidth, runs()));
            let fits = metric.is_of_bandwidth() == measures_bandwidth;
            fits.then(|| Group::new(group, metric, max_regress))
        };
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            cxidiag_version: env!("CARGO_PKG_VERSION").into(),
            max_regress_percent: max_regress,
            level_percent: LEVEL * 100.0,
            groups: grouping::groups(base, new)?.into_iter().filter_map(compared).collect(),
        })
    }

    /// All sizes with their groups.
    pub fn sizes(&self) -> impl Iterator<Item = (&Group, &SizeComparison)> {
        self.groups.iter().flat_map(|group| group.sizes.iter().map(move |size| (group, size)))
    }

    /// The names of the tools, for titles.
    pub fn tools(&self) -> String {
        let mut tools: Vec<&str> = self.groups.iter().map(|group| group.tool.as_str()).collect();
        tools.sort_unstable();
        tools.dedup();
        tools.join(", ")
    }

    /// The metrics that decide, with the limit.
    pub fn rule(&self) -> String {
        let mut metrics: Vec<String> = Vec::new();
        for group in &self.groups {
            let name = group.metric.to_string();
            if !metrics.contains(&name) {
                metrics.push(name);
            }
        }
        format!("{}, at most {}% worse", metrics.join(" or "), self.max_regress_percent)
    }

    /// The sizes of which this holds, for messages: `8, 16 bytes`, with the names of groups if
    /// there are several. `None` without any.
    fn names(&self, holds: impl Fn(&SizeComparison) -> bool) -> Option<String> {
        let rows = |group: &Group| -> Vec<Row> {
            group.sizes.iter().filter(|size| holds(size)).map(SizeComparison::row).collect()
        };
        if let [group] = self.groups.as_slice() {
            let rows = rows(group);
            return (!rows.is_empty()).then(|| Row::names(&rows));
        }
        let named = |group: &Group| {
            let rows = rows(group);
            (!rows.is_empty()).then(|| format!("{} ({})", group.name, Row::names(&rows)))
        };
        let all: Vec<String> = self.groups.iter().filter_map(named).collect();
        (!all.is_empty()).then(|| listed(&all, NAMED))
    }

    /// The sizes with this verdict, in words.
    pub fn sizes_that_are(&self, verdict: Verdict) -> Option<String> {
        self.names(|size| size.verdict == verdict)
    }

    /// The sizes in which a change of the limit may be missed, and the change that would have been
    /// found. `None` if there are no such sizes.
    pub fn undecided(&self) -> Option<String> {
        let undecided = self.sizes().filter(|(_, size)| size.verdict.is_undecided());
        let found = undecided.map(|(_, size)| size.detectable_percent);
        let found = found.reduce(|one, other| Some(one?.max(other?)))?;
        let found = match found {
            Some(percent) => format!("would have found a change of {percent:.0}%"),
            None => "the noise is unknown, or hides every change".into(),
        };
        let names = self.names(|size| size.verdict.is_undecided())?;
        Some(format!("{names}: {found}"))
    }

    /// Whether no size has regressed.
    ///
    /// # Errors
    ///
    /// A size is worse than allowed or not measured completely, no size could be compared, or the
    /// noise hides changes beyond the limit.
    pub fn result(&self) -> Result<(), Failure> {
        if self.sizes().all(|(_, size)| size.verdict == Verdict::NoBase) {
            let why = "no size in the base is complete and has the metric that decides";
            return Err(Failure::environment(format!("nothing to compare: {why}")));
        }
        let limit = self.max_regress_percent;
        let worse = format!("worse than the base by more than {limit}%");
        let bad: Vec<String> = [
            (Verdict::Regressed, worse.as_str()),
            (Verdict::NotMeasured, "not measured completely"),
        ]
        .into_iter()
        .filter_map(|(verdict, what)| Some(format!("{what}: {}", self.sizes_that_are(verdict)?)))
        .collect();
        if !bad.is_empty() {
            return Err(Failure::unmet(bad.join("; ")));
        }
        match self.undecided() {
            None => Ok(()),
            Some(undecided) => Err(Failure::undecided(format!("unclear: {undecided}"))),
        }
    }
}

/// The metric that decides about runs of a tool. The text of a run lacks percentiles.
pub fn deciding<'a>(
    measures_bandwidth: bool,
    mut runs: impl Iterator<Item = &'a ReadRun>,
) -> Metric {
    if measures_bandwidth {
        Metric::Bandwidth
    } else if runs.any(|run| run.outcome.is_printed()) {
        Metric::Mean
    } else {
        Metric::Percentile(Percentile::MEDIAN)
    }
}

impl Group {
    fn new(group: RunGroup, metric: Metric, max_regress: f64) -> Self {
        let RunGroup { name, tool, sides: [base, new] } = group;
        let mut rows: Vec<Row> = base
            .iter()
            .chain(&new)
            .flat_map(|run| run.outcome.results.iter().map(SizeResult::row))
            .collect();
        rows.sort_unstable();
        rows.dedup();
        let (decides, mut shown) = (metric, shown_metrics(metric));
        // The text of a run lacks percentiles.
        if base.iter().chain(&new).any(|run| run.outcome.is_printed()) {
            shown.retain(|metric| {
                [&base, &new].into_iter().filter(|runs| !runs.is_empty()).all(|runs| {
                    runs.iter()
                        .flat_map(|run| &run.outcome.results)
                        .any(|result| result.figure(*metric).is_some())
                }) || *metric == decides
            });
        }
        let compare = |row| {
            let sides = [RowResults::new(&base, row), RowResults::new(&new, row)];
            SizeComparison::new(row, &sides, metric, &shown, max_regress)
        };
        Self {
            name,
            tool: tool.into(),
            metric,
            differences: grouping::all(&base, &new),
            sizes: rows.into_iter().map(compare).collect(),
            base: base.into_iter().map(Run::new).collect(),
            new: new.into_iter().map(Run::new).collect(),
        }
    }
}

impl Run {
    fn new(ReadRun { file, outcome: run }: &ReadRun) -> Self {
        let device = run.device.as_ref();
        Self {
            file: file.clone(),
            host: run.host.name.clone(),
            device: device.map(|device| device.name.clone()),
            is_software: device.and_then(|device| device.is_software),
            started_unix_ms: run.started_unix_ms,
            status: run.status,
        }
    }
}

impl SizeComparison {
    /// The row, which no other entry has.
    pub fn row(&self) -> Row {
        Row { size: self.size_bytes, posted: self.posted, unexpected: self.unexpected }
    }

    fn new(
        row: Row,
        sides: &[RowResults; 2],
        metric: Metric,
        shown: &[Metric],
        max_regress: f64,
    ) -> Self {
        let [base, new] = [0, 1].map(|at| sides[at].values(metric));
        let can_rank = smallest_probability(base.len(), new.len()) <= LEVEL;
        let test = if can_rank { SignificanceTest::MannWhitneyU } else { SignificanceTest::Ranges };
        let figures = [0, 1].map(|at| sides[at].figure(metric, test));
        let (verdict, tested, p_value, detectable) = match &figures {
            [None, _] => (Verdict::NoBase, None, None, None),
            [Some(_), None] => (Verdict::NotMeasured, None, None, None),
            [Some(base_figure), Some(new_figure)] => {
                let worse = worse_by(metric, base_figure.value, new_figure.value);
                let p_value = (can_rank && worse != 0.0)
                    .then(|| probability(metric, &base, &new, worse > 0.0));
                let is_change = if can_rank {
                    p_value.map(|p_value| p_value <= LEVEL)
                } else {
                    are_apart(sides, metric, base_figure.value, new_figure.value)
                };
                let detectable = if can_rank {
                    detectable_by_ranks(metric, &base, &new)
                } else {
                    detectable_by_ranges(sides, metric, base_figure.value, new_figure.value)
                };
                let verdict = verdict(worse, max_regress, is_change, detectable);
                (verdict, Some(test), p_value, detectable)
            }
        };
        let compare = |&shown: &Metric| {
            let [base, new] = [0, 1].map(|at| sides[at].figure(shown, test));
            let values = base.as_ref().zip(new.as_ref()).map(|(base, new)| (base.value, new.value));
            MetricComparison {
                metric: shown,
                unit: shown.unit().name().into(),
                change_percent: values.and_then(|(base, new)| sayable(change(base, new))),
                base,
                new,
            }
        };
        Self {
            size_bytes: row.size,
            posted: row.posted,
            unexpected: row.unexpected,
            verdict,
            test: tested,
            p_value,
            detectable_percent: detectable,
            metrics: shown.iter().map(compare).collect(),
        }
    }
}

/// The verdict on a change for the worse, in percent. `is_change`: whether it is larger than the
/// noise, if that is known. `detectable`: the change that would have been found.
fn verdict(
    worse: f64,
    max_regress: f64,
    is_change: Option<bool>,
    detectable: Option<f64>,
) -> Verdict {
    match is_change {
        Some(true) if worse > max_regress => Verdict::Regressed,
        Some(false) if worse > max_regress => Verdict::WithinNoise,
        Some(true) if -worse > max_regress => Verdict::Improved,
        Some(true) => Verdict::Ok,
        _ if worse <= max_regress && detectable.is_some_and(|change| change <= max_regress) => {
            Verdict::Ok
        }
        _ => Verdict::Unclear,
    }
}

/// The change for the worse from which ranking finds one, in percent: the runs of `new` are
/// multiplied by a factor. `None` if ranking finds none, however large.
fn detectable_by_ranks(metric: Metric, base: &[f64], new: &[f64]) -> Option<f64> {
    // Just beyond the factor at which a run of `new` and a run of `base` are equal, the order
    // changes.
    let beyond = match metric.unit() {
        MetricUnit::Nanoseconds => 1.0 + ORDER_CHANGES,
        MetricUnit::Bytes | MetricUnit::Packets => 1.0 - ORDER_CHANGES,
    };
    let mut factors: Vec<f64> = new
        .iter()
        .filter(|new| **new > 0.0)
        .flat_map(|new| base.iter().map(move |base| base / new * beyond))
        .collect();
    factors.sort_unstable_by(f64::total_cmp);
    if beyond < 1.0 {
        factors.reverse();
    }
    let shifted = |factor: f64| new.iter().map(|new| new * factor).collect::<Vec<_>>();
    let is_missed = |factor: &f64| probability(metric, base, &shifted(*factor), true) > LEVEL;
    let least = factors.partition_point(is_missed);
    let new = shifted(*factors.get(least)?);
    sayable(worse_by(metric, median(base)?, median(&new)?).max(0.0))
}

/// The change for the worse from which the ranges of the samples show one, in percent. `None` if a
/// range is unknown.
fn detectable_by_ranges(
    sides @ [base, new]: &[RowResults; 2],
    metric: Metric,
    base_value: f64,
    new_value: f64,
) -> Option<f64> {
    let is_faster_better = metric.unit() != MetricUnit::Nanoseconds;
    let sure = is_typical(metric).then(|| {
        if is_faster_better {
            100.0 - 100.0 / BEYOND_DISTURBANCE
        } else {
            (BEYOND_DISTURBANCE - 1.0) * 100.0
        }
    });
    if base_value <= 0.0 || new_value <= 0.0 {
        return None;
    }
    if sides.iter().any(RowResults::is_disturbed) {
        return sure;
    }
    let Some((base_run_noise, new_run_noise)) = base.own_noise(metric).zip(new.own_noise(metric))
    else {
        return sure;
    };
    // `new` grows with its range until each value lies outside the range of the other side.
    let change = if is_faster_better {
        1.0 - (base_run_noise.low / base_value).min(new_value / new_run_noise.high)
    } else {
        (base_run_noise.high / base_value).max(new_value / new_run_noise.low) - 1.0
    };
    let change = change * 100.0;
    sayable(sure.map_or(change, |sure| sure.min(change)))
}

/// The p-value of `new` being worse than `base`, or else better.
fn probability(metric: Metric, base: &[f64], new: &[f64], is_worse: bool) -> f64 {
    let grows = metric.unit() == MetricUnit::Nanoseconds;
    if is_worse == grows {
        probability_of_shift(base, new)
    } else {
        probability_of_shift(new, base)
    }
}

/// Whether the value of each side lies outside the range of the other. `None` if a range is
/// unknown.
fn are_apart(
    [base, new]: &[RowResults; 2],
    metric: Metric,
    base_value: f64,
    new_value: f64,
) -> Option<bool> {
    let (least, greatest) = (base_value.min(new_value), base_value.max(new_value));
    if is_typical(metric) && greatest > least * BEYOND_DISTURBANCE {
        return Some(true);
    }
    if base.is_disturbed() || new.is_disturbed() {
        return None;
    }
    let (range_of_base, range_of_new) = (base.own_noise(metric)?, new.own_noise(metric)?);
    Some(!range_of_base.contains(new_value) && !range_of_new.contains(base_value))
}

/// Whether single slow operations leave the metric as it is.
fn is_typical(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Min
            | Metric::Percentile(Percentile::MEDIAN)
            | Metric::Bandwidth
            | Metric::PacketRate
    )
}

/// The change in percent of the base: infinite if the base is 0.
fn change(base: f64, new: f64) -> f64 {
    if new == base { 0.0 } else { (new - base) / base * 100.0 }
}

/// A change in percent, unless it is so large that it says nothing: the base is about 0.
fn sayable(percent: f64) -> Option<f64> {
    Some(percent).filter(|percent| percent.abs() <= 1e12)
}

/// Returns how much worse `new` is, in percent: a latency that grew, or a rate that fell.
fn worse_by(metric: Metric, base: f64, new: f64) -> f64 {
    match metric.unit() {
        MetricUnit::Nanoseconds => change(base, new),
        MetricUnit::Bytes | MetricUnit::Packets => -change(base, new),
    }
}

fn has_column(metric: Metric) -> bool {
    COLUMNS.iter().any(|column| column.shown_metric() == Some(metric))
}

/// The metrics of the table: those that are always shown, and the one that decides.
fn shown_metrics(deciding: Metric) -> Vec<Metric> {
    COLUMNS
        .iter()
        .filter(|column| column.compared || column.shown_metric() == Some(deciding))
        .filter_map(Column::shown_metric)
        .filter(|metric| metric.is_of_bandwidth() == deciding.is_of_bandwidth())
        .chain((!has_column(deciding)).then_some(deciding))
        .collect()
}
