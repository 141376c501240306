//! The figures of a culprit beside the figures of good NICs, which were measured in turn with it:
//! only their ratio counts (diagnosis.md 1).

use std::collections::BTreeMap;

use serde::Serialize;

use super::procedure::Column;
use super::readings::heaps;
use crate::causes::procedure::{HOPS, LARGE, LIST_SIZE, TestCode};
use facts::figures::{LEAST_BANDWIDTH, MOST_LATENCY};
use facts::robust::lower_median;

/// Ratio of latencies from which on a culprit is slower, and up to which it is not (jobs.md 3.4).
const SLOWER: f64 = MOST_LATENCY;
const SAME: f64 = 1.15;

/// The same ratios for 99th percentiles, which few samples determine.
const SLOWER_TAIL: f64 = 2.0;
const SAME_TAIL: f64 = 1.5;

/// Share of the bandwidth of good NICs below which a culprit is slower, and from which on it is not
/// (jobs.md 3.4).
pub(crate) const SLOWER_SHARE: f64 = 0.85;
const SAME_SHARE: f64 = LEAST_BANDWIDTH;

/// Difference of latencies in nanoseconds that says nothing: the columns of the matrix call shorter
/// additions the same.
const LEAST_NS: f64 = 100.0;

/// Part of a latency that an addition to it must exceed: less is noise of the latency.
const LEAST_PART: f64 = 0.08;

/// Part of what a write takes longer than on good NICs that two hops explain: from here on the NIC
/// or a link is slow, and below something else.
const EXPLAINED: f64 = 0.5;

/// The 99th percentile of the latencies of a measurement, with their median, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// The 99th percentile.
    pub p99: f64,
    pub median: f64,
}

/// The latencies that waiting for CPUs hardly raises, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// The smallest latency. On fast links it depends on chance.
    pub min: f64,
    /// The 5th percentile, or the smallest latency where it is unknown.
    pub p5: f64,
}

/// A measurement whose process waited for its CPU too long for its median or its bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayedMeasurement {
    /// How long it waited, in percent of the measurement.
    pub percent: u8,
    /// Its median in nanoseconds, or a lower bound of its bandwidth in bytes per second.
    pub value: f64,
}

impl DelayedMeasurement {
    /// The bandwidth that both sides would have reached without waiting, at most: they may have
    /// waited at different times.
    fn without_waiting(self) -> f64 {
        let had_cpu = 1.0 - f64::from(self.percent.min(100)) / 100.0;
        self.value / had_cpu.powi(2)
    }
}

/// The figures of one test: median latencies in nanoseconds, or bandwidths in bytes per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TestFigures {
    /// Whether large figures are good.
    pub is_bandwidth: bool,
    /// The culprit, while its process had a CPU.
    pub own: Vec<f64>,
    /// Good NICs.
    pub others: Vec<f64>,
    /// The tails of the culprit and of good NICs, where there were enough samples.
    pub own_tails: Vec<Tail>,
    /// See `own_tails`.
    pub others_tails: Vec<Tail>,
    /// The floors of all latencies of the culprit and of good NICs.
    pub own_floors: Vec<Floor>,
    /// See `own_floors`.
    pub others_floors: Vec<Floor>,
    /// The measurements in which the process of the culprit or of a good NIC waited for its CPU.
    pub own_waiting: Vec<DelayedMeasurement>,
    /// See `own_waiting`.
    pub others_waiting: Vec<DelayedMeasurement>,
    /// Whether the process of the culprit had no CPU in time for a measurement.
    pub is_late: bool,
    /// Why a measurement of the culprit failed, if one did.
    pub failure: Option<String>,
    /// Why a measurement of the culprit or of a good NIC has no figure, if one has none.
    pub unmeasured: Option<String>,
}

impl TestFigures {
    /// Whether the process of the culprit waited for its CPU in a measurement.
    pub fn has_waited(&self) -> bool {
        self.is_late || !self.own_waiting.is_empty()
    }

    /// The figures that count beside busy CPUs, if a side has none of a process that had its CPU:
    /// two ways to compare latencies, which must agree, or the bounds of bandwidths.
    fn robust(&self) -> Option<Vec<TestFigures>> {
        let is_complete = !self.own.is_empty() && !self.others.is_empty();
        if is_complete || self.own_waiting.is_empty() && self.others_waiting.is_empty() {
            return None;
        }
        if self.is_bandwidth {
            let bounds = |quiet: &[f64], waiting: &[DelayedMeasurement]| {
                let bounds =
                    waiting.iter().flat_map(|waiting| [waiting.value, waiting.without_waiting()]);
                quiet.iter().copied().chain(bounds).collect()
            };
            return Some(vec![TestFigures {
                own: bounds(&self.own, &self.own_waiting),
                others: bounds(&self.others, &self.others_waiting),
                ..self.clone()
            }]);
        }
        let figures = |value: fn(&Floor) -> f64| TestFigures {
            own: self.own_floors.iter().map(value).collect(),
            others: self.others_floors.iter().map(value).collect(),
            ..TestFigures::default()
        };
        Some(vec![figures(|floor| floor.min), figures(|floor| floor.p5)])
    }
}

pub type FiguresByTest = BTreeMap<TestCode, TestFigures>;

/// How a NIC compares in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// As good NICs.
    Same,
    /// Slower.
    Slower,
    /// Too close to the limit, or its figures are too far apart.
    Unclear,
}

/// One column of a culprit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    pub column: Column,
    /// Whether large figures are good.
    pub is_bandwidth: bool,
    /// Its figure.
    pub own: f64,
    /// The figure of good NICs.
    pub others: f64,
    /// The shares of the speed of good NICs that the figures permit, the smallest first. For a
    /// difference of latencies, both are 1.
    pub shares: (f64, f64),
    /// What follows.
    pub outcome: Compared,
    /// Whether processes waited for their CPUs, so that latencies are the smallest ones, and
    /// bandwidths bounds.
    pub is_beside_busy: bool,
}

impl Comparison {
    /// The name of what was compared.
    pub fn name(&self) -> String {
        let name = self.column.name();
        match (self.is_beside_busy, self.is_bandwidth) {
            (false, _) => name.to_owned(),
            (true, false) => format!("{name} (minimum)"),
            (true, true) => format!("{name} (at least)"),
        }
    }
}

/// Compares the culprit in each column whose tests have figures of both.
pub fn compare(measured: &FiguresByTest) -> Vec<Comparison> {
    let columns = Column::ALL.into_iter();
    let compared = columns.filter(|column| is_comparable(*column, measured)).filter_map(|column| {
        match (column, column.tests()) {
            (Column::Tail, (test, _)) => tail(measured.get(&test)?),
            (Column::Waiting, (test, _)) => waiting(measured.get(&test)?),
            (Column::FastFlows | Column::SlowFlows, (test, _)) => {
                flows(column, measured.get(&test)?)
            }
            (Column::Hop, (test, _)) => {
                hops(measured.get(&test)?, measured.get(&column.repeats()?.tests().0)?)
            }
            (_, (test, None)) => test_comparison(column, measured.get(&test)?),
            (_, (test, Some(base))) => {
                difference_comparison(column, measured.get(&test)?, measured.get(&base)?)
            }
        }
    });
    let mut compared: Vec<Comparison> = compared.collect();
    leave_out_latencies(&mut compared, measured);
    leave_out_hops_beside_slow_reads(&mut compared);
    compared
}

/// Compares the figures of a test.
fn test_comparison(column: Column, figures: &TestFigures) -> Option<Comparison> {
    let Some(ways) = figures.robust() else {
        return ratio(column, figures);
    };
    let agreed = agreed(ways.iter().map(|way| ratio(column, way)))?;
    let comparison = Comparison { is_beside_busy: true, ..agreed };
    if !figures.is_bandwidth {
        return Some(comparison);
    }
    let best = |quiet: &[f64], waiting: &[DelayedMeasurement]| {
        let waiting = waiting.iter().map(|waiting| waiting.value);
        quiet.iter().copied().chain(waiting).reduce(f64::max)
    };
    Some(Comparison {
        own: best(&figures.own, &figures.own_waiting)?,
        others: best(&figures.others, &figures.others_waiting)?,
        ..comparison
    })
}

/// Compares how much longer a test takes than the test `base`.
fn difference_comparison(
    column: Column,
    figures: &TestFigures,
    base: &TestFigures,
) -> Option<Comparison> {
    let floors = |value: fn(&Floor) -> f64| {
        let [figures, base] = [figures, base].map(|figures| TestFigures {
            own: figures.own_floors.iter().map(value).collect(),
            others: figures.others_floors.iter().map(value).collect(),
            ..TestFigures::default()
        });
        addition(column, &figures, &base)
    };
    let is_beside_busy = figures.robust().is_some() || base.robust().is_some();
    let medians = || addition(column, figures, base);
    let p5s = || floors(|floor| floor.p5);
    let compared = match (column, is_beside_busy) {
        (_, true) => agreed([floors(|floor| floor.min), p5s()].into_iter())?,
        // A CPU that sleeps makes each operation late. Programs that run in the pauses make most of
        // them late, because they empty the caches, and no process waits for a CPU.
        (Column::Pause, false) => agreed([medians(), p5s()].into_iter())?,
        (_, false) => medians()?,
    };
    let outcome = match compared.outcome {
        // Beside busy CPUs, a program runs in each pause.
        Compared::Slower if is_beside_busy && column == Column::Pause => Compared::Unclear,
        outcome => outcome,
    };
    Some(Comparison { outcome, is_beside_busy, ..compared })
}

/// The comparison in which several ways to compare agree, with the figures of the first one;
/// unclear if they do not.
fn agreed(ways: impl Iterator<Item = Option<Comparison>>) -> Option<Comparison> {
    let ways: Vec<Comparison> = ways.collect::<Option<_>>()?;
    let first = *ways.first()?;
    let shares = ways.iter().map(|way| way.shares);
    let shares = shares.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    let is_one = ways.iter().all(|way| way.outcome == first.outcome);
    Some(Comparison {
        shares,
        outcome: if is_one { first.outcome } else { Compared::Unclear },
        ..first
    })
}

/// Whether good NICs are as fast in a column as in the one that it repeats in another way. If not,
/// the other way has a limit of its own, and says nothing.
fn is_comparable(column: Column, measured: &FiguresByTest) -> bool {
    let Some(base) = column.repeats() else {
        return true;
    };
    let figures = [column, base].map(|column| measured.get(&column.tests().0));
    let [Some(other_way), Some(base)] = figures else {
        return false;
    };
    let good_nics = TestFigures {
        is_bandwidth: base.is_bandwidth,
        own: other_way.others.clone(),
        own_floors: other_way.others_floors.clone(),
        own_waiting: other_way.others_waiting.clone(),
        others: base.others.clone(),
        others_floors: base.others_floors.clone(),
        others_waiting: base.others_waiting.clone(),
        ..TestFigures::default()
    };
    test_comparison(column, &good_nics)
        .is_some_and(|comparison| comparison.outcome == Compared::Same)
}

/// The figure of the culprit in a column, whatever good NICs have.
pub fn own_figure(column: Column, measured: &FiguresByTest) -> Option<f64> {
    let (test, base) = column.tests();
    let best = |figures: &TestFigures| {
        let (least, most) = ends(&figures.own)?;
        Some(if figures.is_bandwidth { most } else { least })
    };
    let figures = measured.get(&test)?;
    match (column, base) {
        (Column::Tail, _) => {
            ends(&figures.own_tails.iter().map(|own_tail| own_tail.p99).collect::<Vec<_>>())
                .map(|(least, _)| least)
        }
        (Column::Waiting, _) => None,
        (_, None) => best(figures),
        (_, Some(base)) => Some(best(figures)? - best(measured.get(&base)?)?),
    }
}

/// Compares 99th percentiles: by how much they exceed the medians.
fn tail(figures: &TestFigures) -> Option<Comparison> {
    let beyond = |tails: &[Tail]| tails.iter().map(|tail| tail.p99 - tail.median).collect();
    let tails = TestFigures {
        own: beyond(&figures.own_tails),
        others: beyond(&figures.others_tails),
        ..TestFigures::default()
    };
    let comparison = ratio(Column::Tail, &tails)?;
    let (least, most) = comparison.shares;
    let shown = |tails: &[Tail]| ends(&tails.iter().map(|tail| tail.p99).collect::<Vec<_>>());
    Some(Comparison {
        own: shown(&figures.own_tails)?.0,
        others: shown(&figures.others_tails)?.0,
        outcome: outcome(1.0 / most >= SLOWER_TAIL, 1.0 / least <= SAME_TAIL),
        ..comparison
    })
}

/// Compares medians of processes that waited for their CPUs. The culprit is slower because of
/// waiting only if no good NIC is fast whose process waited as long.
fn waiting(figures: &TestFigures) -> Option<Comparison> {
    let own: Vec<f64> = figures.own_waiting.iter().map(|waiting| waiting.value).collect();
    let waited = figures.own_waiting.iter().map(|waiting| waiting.percent).min()?;
    let quiet = figures.others.iter().copied();
    let others_waiting = figures.others_waiting.iter();
    let all: Vec<f64> = quiet.chain(others_waiting.map(|waiting| waiting.value)).collect();
    let fastest = ends(&all)?.0;
    let mut as_busy = figures.others_waiting.iter().filter(|waiting| waiting.percent >= waited);
    let is_innocent = as_busy.any(|waiting| waiting.value <= fastest * SAME);
    let compared = ratio(
        Column::Waiting,
        &TestFigures { own, others: vec![fastest], ..TestFigures::default() },
    )?;
    Some(Comparison {
        outcome: if is_innocent { Compared::Same } else { compared.outcome },
        ..compared
    })
}

/// Compares the fast or the slow flows: their medians, because single flows vary.
fn flows(column: Column, figures: &TestFigures) -> Option<Comparison> {
    let own = match (column, heaps(&figures.own)) {
        (_, None) => figures.own.clone(),
        (Column::FastFlows, Some((_, fast))) => fast,
        (_, Some((slow, _))) => slow,
    };
    let middle_of = |all: &[f64]| lower_median(all).into_iter().collect();
    let medians =
        TestFigures { own: middle_of(&own), others: middle_of(&figures.others), ..figures.clone() };
    ratio(column, &medians)
}

/// Compares hops between the NICs of `writes`. A write and its answer are two hops and the work of
/// the CPU, so hops show which of them is slow if the writes are slower. The CPU starts a chain and
/// sees its end: one of [`HOPS`] parts of what its work takes longer is left out.
fn hops(hops: &TestFigures, writes: &TestFigures) -> Option<Comparison> {
    let writes = test_comparison(Column::WriteTo, writes)?;
    let longer = writes.own - writes.others;
    let found = test_comparison(Column::Hop, hops)?;
    // The work of the CPU takes `longer`, but for two hops, which take `more` without its part.
    let part = 1.0 / f64::from(HOPS);
    let more = (found.own - found.others - part * longer) / (1.0 - 2.0 * part);
    let ends = (part * (longer - 2.0 * more)).clamp(0.0, (part * longer).max(0.0));
    let mut hops = hops.clone();
    hops.own.iter_mut().for_each(|own| *own -= ends);
    for floor in &mut hops.own_floors {
        *floor = Floor { min: floor.min - ends, p5: floor.p5 - ends };
    }
    let hop = test_comparison(Column::Hop, &hops)?;
    let is_explained = 2.0 * (hop.own - hop.others) >= EXPLAINED * longer;
    let is_clear = writes.outcome == Compared::Slower
        && hop.outcome == if is_explained { Compared::Slower } else { Compared::Same };
    let outcome = if is_clear { hop.outcome } else { Compared::Unclear };
    Some(Comparison { own: hop.own + ends, outcome, ..hop })
}

/// The bandwidths, each with the latency that each of its lists waits for once.
const WAITS_OF_LISTS: [(Column, Column); 6] = [
    (Column::WriteBandwidth, Column::Write),
    (Column::ReadBandwidth, Column::Read),
    (Column::Sent, Column::WriteTo),
    (Column::Received, Column::WriteFrom),
    (Column::HugePages, Column::Write),
    (Column::OtherClass, Column::Write),
];

/// Compares bandwidths as if latencies were as on good NICs: a list that waits longer for its end
/// is no second fault. Whether a bandwidth is lower because as many bytes are on the way for longer
/// is unclear. The figures that are shown stay as they are.
fn leave_out_latencies(compared: &mut [Comparison], measured: &FiguresByTest) {
    let list_ns = 1e9 * f64::from(LIST_SIZE) * LARGE as f64;
    for (bandwidth, latency) in WAITS_OF_LISTS {
        let slow = |found: &&Comparison| {
            found.column == latency && found.outcome == Compared::Slower && !found.is_bandwidth
        };
        let Some(slow) = compared.iter().find(slow).copied() else {
            continue;
        };
        let longer = slow.own - slow.others;
        let Some(figures) = measured.get(&bandwidth.tests().0) else {
            continue;
        };
        // Without the latency, a list takes at least a quarter of its time: the rest is noise.
        let faster = |value: f64| {
            let time = list_ns / value;
            list_ns / (time - longer).max(time / 4.0)
        };
        let waiting = figures.own_waiting.iter();
        let corrected = TestFigures {
            own: figures.own.iter().copied().map(faster).collect(),
            own_waiting: waiting
                .map(|waiting| DelayedMeasurement { value: faster(waiting.value), ..*waiting })
                .collect(),
            ..figures.clone()
        };
        let own = compared.iter_mut().find(|found| found.column == bandwidth);
        if let Some((own, corrected)) = own.zip(test_comparison(bandwidth, &corrected)) {
            (own.outcome, own.shares) = (corrected.outcome, corrected.shares);
            // No NIC has fewer bytes on the way than an operation.
            let [window, usual] = [(own.own, slow.own), (own.others, slow.others)]
                .map(|(bandwidth, latency)| bandwidth * latency / 1e9);
            if own.outcome == Compared::Slower && window >= usual.max(LARGE as f64) {
                own.outcome = Compared::Unclear;
            }
        }
    }
}

/// Lets slow hops say nothing if the NIC reads memory slowly: it reads the data of each hop. The
/// writes have theirs in the command.
fn leave_out_hops_beside_slow_reads(compared: &mut [Comparison]) {
    let is_slow =
        |found: &Comparison, column| found.column == column && found.outcome == Compared::Slower;
    if compared.iter().any(|found| is_slow(found, Column::HostRead)) {
        let slow_hops = compared.iter_mut().filter(|found| is_slow(found, Column::Hop));
        slow_hops.for_each(|found| found.outcome = Compared::Unclear);
    }
}

/// Compares figures by their ratio.
fn ratio(column: Column, figures: &TestFigures) -> Option<Comparison> {
    let is_bandwidth = figures.is_bandwidth;
    let (own_least, own_most) = ends(&figures.own)?;
    let (others_least, others_most) = ends(&figures.others)?;
    let shares = if is_bandwidth {
        (own_least / others_most, own_most / others_least)
    } else {
        (others_least / own_most, others_most / own_least)
    };
    let outcome = if is_bandwidth {
        outcome(shares.1 < SLOWER_SHARE, shares.0 >= SAME_SHARE)
    } else {
        let (least, most) = (own_least - others_most, own_most - others_least);
        outcome(
            1.0 / shares.1 >= SLOWER && least > LEAST_NS,
            1.0 / shares.0 <= SAME || most <= LEAST_NS,
        )
    };
    let best = |(least, most)| if is_bandwidth { most } else { least };
    Some(Comparison {
        column,
        is_bandwidth,
        own: best((own_least, own_most)),
        others: best((others_least, others_most)),
        shares,
        outcome,
        is_beside_busy: false,
    })
}

/// Compares how much longer a test takes than the test `base`.
fn addition(column: Column, figures: &TestFigures, base: &TestFigures) -> Option<Comparison> {
    let least = |figures: &[f64]| Some(ends(figures)?.0);
    let own = least(&figures.own)? - least(&base.own)?;
    let base_value = least(&base.others)?;
    let others = least(&figures.others)? - base_value;
    // A latency that is longer is noisier as well.
    let noise = LEAST_PART * base_value.max(least(&base.own)?);
    let limit = (others * (SLOWER - 1.0)).max(noise).max(LEAST_NS);
    let longer = own - others;
    Some(Comparison {
        column,
        is_bandwidth: false,
        own,
        others,
        shares: (1.0, 1.0),
        outcome: outcome(longer >= limit, longer <= limit / 2.0),
        is_beside_busy: false,
    })
}

fn outcome(is_slower: bool, is_same: bool) -> Compared {
    if is_slower {
        Compared::Slower
    } else if is_same {
        Compared::Same
    } else {
        Compared::Unclear
    }
}

/// The smallest and the largest figure.
fn ends(figures: &[f64]) -> Option<(f64, f64)> {
    let least = figures.iter().copied().reduce(f64::min)?;
    let most = figures.iter().copied().reduce(f64::max)?;
    Some((least, most))
}

#[cfg(test)]
#[path = "comparison_tests.rs"]
mod tests;
