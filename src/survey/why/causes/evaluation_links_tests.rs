//! Vector 25 of diagnosis.md 8: links between two groups.

use super::*;
use crate::causes::flows::{self, FLOW_HEAPS, MeasuredFlow};

/// Returns 16 flows with this rate, of which the slow ones have this factor.
fn ordered(rate: f64, factor: f64, slow: &[usize]) -> Vec<MeasuredFlow> {
    let flow = |place: usize| MeasuredFlow {
        initiator: place as u32 % 4,
        target: 4 + (place + place / 4) as u32 % 4,
        rate: rate * if slow.contains(&place) { factor } else { 1.0 },
    };
    (0..16).map(flow).collect()
}

/// Returns what is found if flows between two groups have these rates, and flows between other
/// groups; the test of the survey and B4 have these shares of the bandwidth between other groups.
fn links(
    own: &[MeasuredFlow],
    shares: (&[f64], f64),
    others: &[MeasuredFlow],
) -> Vec<(Option<String>, Confidence)> {
    let rates = |flows: &[MeasuredFlow]| flows.iter().map(|flow| flow.rate).collect();
    let bandwidth =
        |own, others| TestFigures { is_bandwidth: true, own, others, ..TestFigures::default() };
    let share_figures = |shares: &[f64]| {
        let own = shares.iter().map(|share| 23e9 * share);
        bandwidth(own.collect(), vec![23e9])
    };
    let measured: FiguresByTest = [
        (TestCode::S, share_figures(shares.0)),
        (TestCode::B4, share_figures(&[shares.1])),
        (TestCode::O, bandwidth(rates(own), rates(others))),
    ]
    .into();
    let readings = |flows| flows::reading(flows).into_iter().collect();
    let (own, others): (Readings, Readings) = (readings(own), readings(others));
    let found = evaluate(Case {
        own: &own,
        others: &[others],
        measured: &measured,
        fails: false,
        has_good_controls: true,
    });
    let causes = causes(&found).into_iter();
    causes.map(|(id, how)| (id.map(str::to_owned), how)).collect()
}

const SLOW: [usize; 7] = [1, 4, 5, 8, 11, 14, 15];

#[test]
fn heaps_of_flows_are_slow_links() {
    let good = ordered(20e9, 1.0, &[]);
    let mixed = ordered(20e9, 0.4, &SLOW);
    let link = |how| vec![named("global-link", how)];
    let low: (&[f64], f64) = (&[0.7, 0.72], 0.7);
    assert_eq!(links(&mixed, low, &good), link(Confidence::Because));
    // There were too few flows between other groups for heaps.
    assert_eq!(links(&mixed, low, &good[..4]), link(Confidence::Because));
    // A survey of ordered operations has flows over fast and slow links; others avoid slow ones.
    let survey = (&[0.4, 1.0, 0.98][..], 0.99);
    assert_eq!(links(&mixed, survey, &good), link(Confidence::Probably));
    // The survey was slow because of something else.
    let other = links(&mixed, (&[0.98], 0.98), &good);
    let also = named("global-link", Confidence::AlsoFound);
    assert_eq!(other, [(None, Confidence::Unknown), also]);
}

#[test]
fn other_flows_have_other_causes() {
    let unknown = [(None, Confidence::Unknown)];
    let good = ordered(20e9, 1.0, &[]);
    let mixed = ordered(20e9, 0.4, &SLOW);
    let all_slow = ordered(10e9, 1.0, &[]);
    let half: (&[f64], f64) = (&[0.5], 0.5);
    assert_eq!(links(&all_slow, half, &good), unknown);
    // Flows between other groups fall into heaps as well.
    assert_eq!(links(&mixed, half, &mixed), unknown);
    // The fast flows are slow, too: congestion, or all links.
    let slower = ordered(12e9, 0.4, &SLOW);
    let found = links(&slower, half, &good);
    assert!(found.iter().all(|(_, how)| *how >= Confidence::AlsoFound), "{found:?}");
    assert_eq!(flows::reading(&slower).unwrap().code, FLOW_HEAPS);
}
