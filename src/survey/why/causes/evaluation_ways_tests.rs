//! Vectors of diagnosis.md 8 about links between two groups, other ways of doing the same, and
//! counters.

use super::*;
use crate::causes::readings::{FLOW_HEAPS, MeasuredFlow, flow_reading};

/// Returns bandwidths with this factor, except for these tests.
fn bandwidths_without(factor: f64, cured: &[TestCode]) -> FiguresByTest {
    let mut slow = bandwidths(factor);
    slow.retain(|(code, _)| !cured.contains(code));
    measured(&slow)
}

/// Vector 11.
#[test]
fn huge_pages_cure_what_small_pages_make_slow() {
    let cured = bandwidths_without(0.7, &[TestCode::H]);
    let because = [named("hugepages", Confidence::Because)];
    assert_eq!(found(&healthy(), &cured), because);
    let slow = diagnosis(&healthy(), &measured(&bandwidths(0.7)));
    assert!(causes(&slow).iter().all(|(id, _)| *id != Some("hugepages")));
    // Good NICs are not slower, or the culprit would not be faster with huge pages either.
    let mut limited = cured;
    if let Some(figures) = limited.get_mut(&TestCode::H) {
        figures.others.iter_mut().for_each(|value| *value *= 0.7);
        figures.own.iter_mut().for_each(|value| *value *= 0.7);
    }
    let all = found(&healthy(), &limited);
    assert_eq!(all, [(None, Confidence::Unknown)]);
}

/// Vector 22.
#[test]
fn ceiling_of_a_class_is_the_cause_if_another_class_is_fast() {
    let mut capped = healthy();
    capped.push(reading("class-ceiling", "50 %", Severity::Shown));
    let mut full = healthy();
    full.push(reading("class-ceiling", "100 %", Severity::Shown));
    let others = vec![full; 7];
    let has = |measured: &FiguresByTest, how| {
        let found = evaluate(Case {
            own: &capped,
            others: &others,
            measured,
            fails: false,
            has_good_controls: true,
        });
        causes(&found).contains(&(Some("class-cap"), how))
    };
    let cured = [TestCode::Q, TestCode::B5, TestCode::B3];
    assert!(has(&bandwidths_without(0.5, &cured), Confidence::Because));
    // Another class is as slow: the ceiling only differs.
    let uncured = bandwidths_without(0.5, &cured[1..]);
    for how in [Confidence::Because, Confidence::Probably, Confidence::Possibly] {
        assert!(!has(&uncured, how), "{how:?}");
    }
}

/// Vectors 23 and 24.
#[test]
fn counters_prove_what_the_fabric_does() {
    let marks = with("congestion-marks", "1000", Severity::Suspect);
    let late = measured(&[(TestCode::S, 0.5), (TestCode::P1, 2.0), (TestCode::P2, 2.0)]);
    let because = |id| [named(id, Confidence::Because)];
    assert_eq!(found(&marks, &late), because("congestion"));
    assert_eq!(found(&healthy(), &late), [named("congestion", Confidence::Possibly)]);
    // In all classes: not the queue of one.
    let all_late = measured(&[
        (TestCode::S, 0.5),
        (TestCode::P1, 2.0),
        (TestCode::P2, 2.0),
        (TestCode::QP, 2.0),
    ]);
    let late = diagnosis(&healthy(), &all_late);
    assert_eq!(causes(&late), [(None, Confidence::Unknown)]);
    assert_eq!(late.not_excluded, ["port"]);
    let held = with("fabric-stall", "5000000", Severity::Suspect);
    let slow = measured(&[(TestCode::S, 0.5), (TestCode::B4, 0.4)]);
    assert_eq!(found(&held, &slow), [named("fgfc", Confidence::Probably)]);
}

/// Vector 20.
#[test]
fn lost_packets_are_probably_the_cause() {
    let lossy = with("packets-lost", "40", Severity::Suspect);
    let slow = measured(&[(TestCode::S, 0.5), (TestCode::P1, 2.0)]);
    assert_eq!(found(&lossy, &slow)[0], named("loss", Confidence::Probably));
}

/// It may follow from what makes operations fail, so it is never certain.
#[test]
fn parked_peer_is_probably_the_cause_of_failures() {
    let parked = with("parked-peers", "1", Severity::Suspect);
    let found_causes = |own: &Readings, others: Readings| {
        let found = evaluate(Case {
            own,
            others: &vec![others; 7],
            measured: &FiguresByTest::new(),
            fails: true,
            has_good_controls: true,
        });
        let causes = causes(&found).into_iter().map(|(id, how)| (id.map(str::to_owned), how));
        causes.collect::<Vec<_>>()
    };
    let probably = named("parked", Confidence::Probably);
    assert_eq!(found_causes(&parked, healthy()), [probably]);
    // Good NICs have parked a peer as well: the culprit, or another one.
    assert_eq!(found_causes(&parked, parked.clone()), [(None, Confidence::Unknown)]);
    let mut without_handler = parked.clone();
    without_handler.retain(|reading| reading.code != "retry-handler");
    without_handler.push(reading("retry-handler", "off", Severity::Bad));
    let both = [named("retry-off", Confidence::Because), named("parked", Confidence::AlsoFound)];
    assert_eq!(found_causes(&without_handler, healthy()), both);
    // What is only slow is slow for another reason.
    let slow = measured(&[(TestCode::S, 0.5), (TestCode::L1, 2.0), (TestCode::L2, 2.0)]);
    let also = named("parked", Confidence::AlsoFound);
    assert!(found(&parked, &slow).contains(&also));
}

/// The figures of a NIC in use say nothing about it, and bad items do.
#[test]
fn only_bad_items_are_known_about_a_nic_in_use() {
    let in_use = |mut own: Readings| {
        own.push(reading("foreign-traffic", "900 MB/s", Severity::Suspect));
        diagnosis(&own, &measured(&bandwidths(0.55)))
    };
    let others_use = (Some("others-use"), Confidence::Probably);
    let found = in_use(with("governor", "powersave", Severity::Suspect));
    assert_eq!(causes(&found), [others_use]);
    assert!(found.is_final());
    let narrow = (Some("pcie-narrow"), Confidence::Probably);
    let found = in_use(with("pcie-width", "x8", Severity::Bad));
    assert_eq!(causes(&found), [narrow, others_use]);
    assert!(found.is_final());
    let mut without_handler = with("retry-handler", "off", Severity::Bad);
    without_handler.push(reading("foreign-traffic", "900 MB/s", Severity::Suspect));
    let found = evaluate(Case {
        own: &without_handler,
        others: &vec![healthy(); 7],
        measured: &FiguresByTest::new(),
        fails: true,
        has_good_controls: true,
    });
    let retry_off = (Some("retry-off"), Confidence::Because);
    assert_eq!(causes(&found), [retry_off, others_use]);
    assert!(!diagnosis(&healthy(), &measured(&bandwidths(0.55))).is_final());
}

/// Latencies that are twice as long, and hops with this factor, if they are measured.
fn slow_latencies(hop: Option<f64>) -> FiguresByTest {
    use TestCode::{L1, L2, L3, L5, P1, P2, QP, S};
    let slow = [L1, P1, P2, QP].map(|code| (code, 2.0));
    // As much longer as L1.
    let differences = [(L2, 3200.0 / 1800.0), (L3, 3300.0 / 1900.0), (L5, 2900.0 / 1500.0)];
    let hop = hop.map(|factor| (TestCode::T, factor));
    let factors = slow.into_iter().chain(differences).chain([(S, 0.5)]).chain(hop);
    measured(&factors.collect::<Vec<_>>())
}

fn test_evidence<'a>(found: &'a Diagnosis, test: &str) -> Option<&'a Observation> {
    found.whys[0].evidence.iter().find(|item| item.test == test)
}

/// Without hops, the figures of a slow link are the figures of a slow CPU, and name neither.
#[test]
fn hops_tell_a_slow_link_from_a_slow_cpu() {
    let cpu = (Some("cpu-slow"), Confidence::Possibly);
    let found = diagnosis(&healthy(), &slow_latencies(None));
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    assert_eq!(found.not_excluded, ["cpu-slow", "port"]);
    assert_eq!(test_evidence(&found, "T"), None);

    let found = diagnosis(&healthy(), &slow_latencies(Some(2.0)));
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    let what = found.whys[0].what.as_deref().unwrap_or_default();
    assert_eq!(what, "slow in both roles, latency +2.4 us at the NIC or its link");
    assert_eq!(found.not_excluded, ["port"]);
    assert!(found.excluded.contains(&"cpu-slow".to_owned()), "{found:?}");
    let hops = test_evidence(&found, "T").expect("hops");
    assert_eq!((hops.own, hops.others), (Some(2376.0), Some(1176.0)));

    let found = diagnosis(&healthy(), &slow_latencies(Some(1.0)));
    assert_eq!(causes(&found), [cpu]);
    let hops = test_evidence(&found, "T").expect("hops");
    assert_eq!(hops.expected.as_deref(), Some("as good NICs"));
    // Too little to say anything.
    let found = diagnosis(&healthy(), &slow_latencies(Some(1.32)));
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    assert_eq!(test_evidence(&found, "T"), None);
}

/// The files say that the clock is low, and hops that the CPU is not what is slow.
#[test]
fn slow_hops_contradict_a_low_clock() {
    let slow_clock = with("governor", "powersave", Severity::Suspect);
    let confidence = |hop| found(&slow_clock, &slow_latencies(Some(hop)));
    assert_eq!(confidence(1.0), [named("cpu-slow", Confidence::Because)]);
    assert!(confidence(2.0).contains(&named("cpu-slow", Confidence::AlsoFound)));
}

#[test]
fn hops_as_fast_as_on_good_nics_contradict_a_slow_port() {
    let late = |hop| {
        let slow = [(TestCode::S, 0.5), (TestCode::P1, 2.0), (TestCode::QP, 2.0)];
        diagnosis(&healthy(), &measured(&[&slow[..], &[(TestCode::T, hop)]].concat()))
    };
    assert_eq!(late(2.0).not_excluded, ["port"]);
    assert!(is_excluded(&late(1.0), "port"));
}

#[test]
fn reason_why_hops_are_not_measured_is_evidence() {
    let mut refused = slow_latencies(None);
    let why = "service 1 of cxi0 has 0 available".to_owned();
    refused.insert(TestCode::T, TestFigures { unmeasured: Some(why), ..TestFigures::default() });
    let found = diagnosis(&healthy(), &refused);
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    let text = "hops without a CPU not measured: service 1 of cxi0 has 0 available";
    assert_eq!(test_evidence(&found, "T").map(|item| item.text.as_str()), Some(text));
    // Another slot has measured them.
    let mut measured = slow_latencies(Some(1.0));
    let hops = measured.get_mut(&TestCode::T).expect("hops");
    hops.unmeasured = Some("no answer".into());
    let found = diagnosis(&healthy(), &measured);
    assert!(found.whys[0].evidence.iter().all(|item| !item.text.contains("not measured")));
}

/// A low rate of the port leaves the latencies that pass it as they are.
#[test]
fn latencies_do_not_exclude_the_port() {
    let found = diagnosis(&healthy(), &measured(&bandwidths(0.5)));
    assert!(!is_excluded(&found, "port"), "{:?}", found.excluded);
    assert!(found.not_excluded.contains(&"port".to_owned()), "{:?}", found.not_excluded);
}

/// A link adds 100 us to each latency. The lower bandwidths that follow from this, and the larger
/// noise of these latencies, are no second fault.
#[test]
fn longer_link_is_one_fault() {
    use TestCode::{B1, B3, B4, B5, L1, L2, L3, L4, L5, P1, P2, QP, S, T};
    let longer = [
        (L1, 205_970.0),
        (L2, 209_070.0),
        (L3, 207_100.0),
        (L4, 204_340.0),
        (L5, 208_000.0),
        (P1, 102_400.0),
        (P2, 102_500.0),
        (QP, 105_300.0),
        (T, 101_300.0),
        (S, 2.0e9),
        (B1, 1.78e9),
        (B3, 1.41e9),
        (B4, 3.53e9),
        (B5, 2.4e9),
    ];
    let factors = longer.map(|(code, own)| {
        let (_, _, healthy) = HEALTHY.into_iter().find(|(known, ..)| *known == code).unwrap();
        (code, own / healthy)
    });
    let found = diagnosis(&healthy(), &measured(&factors));
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    let what = found.whys[0].what.as_deref().unwrap_or_default();
    assert_eq!(what, "slow in both roles, latency +99 us at the NIC or its link");
    assert_eq!((found.whys[0].advice.clone(), found.not_excluded), (None, vec!["port".into()]));
}

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
    let readings = |flows| flow_reading(flows).into_iter().collect();
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
    assert_eq!(flow_reading(&slower).unwrap().code, FLOW_HEAPS);
}
