//! The figures of a culprit beside the figures of good NICs, which were measured in turn with it:
//! only their ratio counts (diagnosis.md 1).

use std::collections::BTreeMap;

use crate::columns::Column;
use crate::flows::{heaps, middle};
use crate::procedure::TestCode;

/// Ratio of latencies from which on a culprit is slower, and up to which it is not (jobs.md 3.4).
const SLOWER: f64 = 1.3;
const SAME: f64 = 1.15;

/// The same ratios for 99th percentiles, which few samples determine.
const SLOWER_TAIL: f64 = 2.0;
const SAME_TAIL: f64 = 1.5;

/// Share of the bandwidth of good NICs below which a culprit is slower, and from which on it is not
/// (jobs.md 3.4).
const SLOWER_SHARE: f64 = 0.85;
const SAME_SHARE: f64 = 0.93;

/// Difference of latencies in nanoseconds that says nothing: the columns of the matrix call shorter
/// additions the same.
const LEAST_NS: f64 = 100.0;

/// Part of the latency of a good NIC that an addition to it must exceed: less is noise of the
/// latency.
const LEAST_PART: f64 = 0.08;

/// The figures of one test: median latencies in nanoseconds, or bandwidths in bytes per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Whether large figures are good.
    pub of_bandwidth: bool,
    /// The culprit.
    pub own: Vec<f64>,
    /// Good NICs.
    pub others: Vec<f64>,
    /// The 99th percentiles of the latencies of the culprit and of good NICs, in nanoseconds, where
    /// there were enough samples.
    pub own_tails: Vec<f64>,
    /// See `own_tails`.
    pub others_tails: Vec<f64>,
    /// Why a measurement of the culprit failed, if one did.
    pub failure: Option<String>,
}

/// The figures of all tests.
pub type Measured = BTreeMap<TestCode, Figures>;

/// How a culprit compares in one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// As good NICs.
    Same,
    /// Slower.
    Slower,
    /// The figures are too far apart, or too close to a limit.
    Unclear,
}

/// One column of a culprit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The column.
    pub column: Column,
    /// Whether large figures are good.
    pub of_bandwidth: bool,
    /// Its figure.
    pub own: f64,
    /// The figure of good NICs.
    pub others: f64,
    /// The shares of the speed of good NICs that the figures permit, the smallest first. For a
    /// difference of latencies, both are 1.
    pub shares: (f64, f64),
    /// What follows.
    pub outcome: Outcome,
}

/// Compares the culprit in each column whose tests have figures of both.
pub fn compare(measured: &Measured) -> Vec<Comparison> {
    let columns = Column::ALL.into_iter();
    columns
        .filter(|column| is_comparable(*column, measured))
        .filter_map(|column| match (column, column.tests()) {
            (Column::Tail, (test, _)) => tail(measured.get(&test)?),
            (Column::FastFlows | Column::SlowFlows, (test, _)) => {
                flows(column, measured.get(&test)?)
            }
            (_, (test, None)) => ratio(column, measured.get(&test)?),
            (_, (test, Some(base))) => addition(column, measured.get(&test)?, measured.get(&base)?),
        })
        .collect()
}

/// Returns whether good NICs are as fast in a column as in the one that it repeats in another way.
/// If not, the other way has a limit of its own, and says nothing.
fn is_comparable(column: Column, measured: &Measured) -> bool {
    let Some(base) = column.repeats() else {
        return true;
    };
    let figures = [column, base].map(|of| measured.get(&of.tests().0));
    let [Some(other_way), Some(base)] = figures else {
        return false;
    };
    let good_nics = Figures {
        own: other_way.others.clone(),
        ..base.clone()
    };
    ratio(column, &good_nics).is_some_and(|of| of.outcome == Outcome::Same)
}

/// Returns the figure of the culprit in a column, whatever good NICs have.
pub fn own_figure(column: Column, measured: &Measured) -> Option<f64> {
    let (test, base) = column.tests();
    let best = |figures: &Figures| {
        let (least, most) = ends(&figures.own)?;
        Some(if figures.of_bandwidth { most } else { least })
    };
    let figures = measured.get(&test)?;
    match (column, base) {
        (Column::Tail, _) => Some(ends(&figures.own_tails)?.0),
        (_, None) => best(figures),
        (_, Some(base)) => Some(best(figures)? - best(measured.get(&base)?)?),
    }
}

/// Compares 99th percentiles.
fn tail(figures: &Figures) -> Option<Comparison> {
    let tails = Figures {
        own: figures.own_tails.clone(),
        others: figures.others_tails.clone(),
        ..Figures::default()
    };
    let of = ratio(Column::Tail, &tails)?;
    let (least, most) = of.shares;
    Some(Comparison {
        outcome: outcome(1.0 / most >= SLOWER_TAIL, 1.0 / least <= SAME_TAIL),
        ..of
    })
}

/// Compares the fast or the slow flows: their medians, because single flows vary.
fn flows(column: Column, figures: &Figures) -> Option<Comparison> {
    let own = match (column, heaps(&figures.own)) {
        (_, None) => figures.own.clone(),
        (Column::FastFlows, Some((_, fast))) => fast,
        (_, Some((slow, _))) => slow,
    };
    let middle_of = |all: &[f64]| (!all.is_empty()).then(|| middle(all)).into_iter().collect();
    let medians = Figures {
        own: middle_of(&own),
        others: middle_of(&figures.others),
        ..figures.clone()
    };
    ratio(column, &medians)
}

/// Compares figures by their ratio.
fn ratio(column: Column, figures: &Figures) -> Option<Comparison> {
    let of_bandwidth = figures.of_bandwidth;
    let (own_least, own_most) = ends(&figures.own)?;
    let (others_least, others_most) = ends(&figures.others)?;
    let shares = if of_bandwidth {
        (own_least / others_most, own_most / others_least)
    } else {
        (others_least / own_most, others_most / own_least)
    };
    let outcome = if of_bandwidth {
        outcome(shares.1 < SLOWER_SHARE, shares.0 >= SAME_SHARE)
    } else {
        let (least, most) = (own_least - others_most, own_most - others_least);
        outcome(
            1.0 / shares.1 >= SLOWER && least > LEAST_NS,
            1.0 / shares.0 <= SAME || most <= LEAST_NS,
        )
    };
    let best = |(least, most)| if of_bandwidth { most } else { least };
    Some(Comparison {
        column,
        of_bandwidth,
        own: best((own_least, own_most)),
        others: best((others_least, others_most)),
        shares,
        outcome,
    })
}

/// Compares how much longer a test takes than the test `base`.
fn addition(column: Column, figures: &Figures, base: &Figures) -> Option<Comparison> {
    let least = |figures: &[f64]| Some(ends(figures)?.0);
    let own = least(&figures.own)? - least(&base.own)?;
    let of_base = least(&base.others)?;
    let others = least(&figures.others)? - of_base;
    let limit = (others * (SLOWER - 1.0))
        .max(of_base * LEAST_PART)
        .max(LEAST_NS);
    let longer = own - others;
    Some(Comparison {
        column,
        of_bandwidth: false,
        own,
        others,
        shares: (1.0, 1.0),
        outcome: outcome(longer >= limit, longer <= limit / 2.0),
    })
}

fn outcome(is_slower: bool, is_same: bool) -> Outcome {
    if is_slower {
        Outcome::Slower
    } else if is_same {
        Outcome::Same
    } else {
        Outcome::Unclear
    }
}

/// Returns the smallest and the largest figure.
fn ends(figures: &[f64]) -> Option<(f64, f64)> {
    let least = figures.iter().copied().reduce(f64::min)?;
    let most = figures.iter().copied().reduce(f64::max)?;
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(of_bandwidth: bool, own: &[f64], others: &[f64]) -> Figures {
        Figures {
            of_bandwidth,
            own: own.into(),
            others: others.into(),
            ..Figures::default()
        }
    }

    fn outcome_of(code: TestCode, figures: Figures) -> Outcome {
        compare(&[(code, figures)].into())[0].outcome
    }

    #[test]
    fn compares_bandwidths_by_their_share() {
        let of = |own: &[f64]| outcome_of(TestCode::B1, figures(true, own, &[100.0, 96.0]));
        assert_eq!(of(&[93.0]), Outcome::Same);
        assert_eq!(of(&[92.0]), Outcome::Unclear);
        assert_eq!(of(&[81.0]), Outcome::Slower);
        // The second measurement was as fast as good NICs.
        assert_eq!(of(&[55.0, 95.0]), Outcome::Unclear);
    }

    #[test]
    fn compares_latencies_by_ratio_and_difference() {
        let of = |own: &[f64]| outcome_of(TestCode::L1, figures(false, own, &[1400.0, 1450.0]));
        assert_eq!(of(&[1600.0]), Outcome::Same);
        assert_eq!(of(&[1700.0]), Outcome::Unclear);
        assert_eq!(of(&[1900.0]), Outcome::Slower);
        // A difference below 100 ns says nothing, whatever the ratio.
        let short = figures(false, &[290.0], &[200.0]);
        assert_eq!(outcome_of(TestCode::L1, short), Outcome::Same);
    }

    #[test]
    fn compares_tails_more_coarsely() {
        let of = |own: f64| {
            let tails = Figures {
                own_tails: vec![own],
                others_tails: vec![2000.0, 2200.0],
                ..figures(false, &[1400.0], &[1400.0])
            };
            let all = compare(&[(TestCode::L1, tails)].into());
            let found = all.iter().find(|of| of.column == Column::Tail);
            found.map(|of| of.outcome).unwrap()
        };
        assert_eq!(of(3000.0), Outcome::Same);
        assert_eq!(of(4300.0), Outcome::Unclear);
        assert_eq!(of(4400.0), Outcome::Slower);
    }

    #[test]
    fn compares_what_a_test_adds_to_another() {
        let addition = |own: f64| {
            let measured = [
                (TestCode::L1, figures(false, &[1500.0], &[1400.0])),
                (TestCode::L2, figures(false, &[1500.0 + own], &[1700.0])),
            ];
            let all = compare(&measured.into());
            let found = all.iter().find(|of| of.column == Column::HostRead);
            found.map(|of| of.outcome).unwrap()
        };
        assert_eq!(addition(300.0), Outcome::Same);
        assert_eq!(addition(380.0), Outcome::Unclear);
        assert_eq!(addition(1300.0), Outcome::Slower);
    }

    #[test]
    fn additions_within_noise_of_long_latencies_say_nothing() {
        let measured = [
            (TestCode::L1, figures(false, &[20000.0], &[20000.0])),
            (TestCode::L2, figures(false, &[21400.0], &[20400.0])),
        ];
        let all = compare(&measured.into());
        let found = all.iter().find(|of| of.column == Column::HostRead);
        assert_eq!(found.map(|of| of.outcome), Some(Outcome::Unclear));
    }

    #[test]
    fn own_figures_need_no_good_nic() {
        let measured = [
            (TestCode::L1, figures(false, &[1500.0, 1400.0], &[])),
            (TestCode::L2, figures(false, &[1700.0], &[])),
            (TestCode::B1, figures(true, &[20e9, 22e9], &[])),
        ];
        let measured = measured.into();
        for (column, expected) in [
            (Column::Write, Some(1400.0)),
            (Column::HostRead, Some(300.0)),
            (Column::WriteBandwidth, Some(22e9)),
            (Column::CommandRead, None),
            (Column::Tail, None),
            (Column::Read, None),
        ] {
            assert_eq!(own_figure(column, &measured), expected, "{column:?}");
        }
    }

    #[test]
    fn leaves_out_columns_without_figures_of_both() {
        let measured = [(TestCode::B4, figures(true, &[1.0], &[]))];
        assert_eq!(compare(&measured.into()), []);
    }
}
