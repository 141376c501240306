//! The vectors of diagnosis.md 8 that need no NIC, by their numbers.

#[path = "evaluation_host_tests.rs"]
mod hosts;
#[path = "evaluation_ways_tests.rs"]
mod other_ways;

use super::*;
use crate::causes::comparison::{DelayedMeasurement, FiguresByTest, Floor, Tail};
use facts::severity::Severity;
use health::item::{Readings, testing};
use health::{Finding, LIMIT};

/// Figures of a healthy NIC: latencies in nanoseconds, bandwidths in bytes per second.
const HEALTHY: [(TestCode, bool, f64); 17] = [
    (TestCode::S, true, 23e9),
    (TestCode::L1, false, 1400.0),
    (TestCode::L2, false, 1800.0),
    (TestCode::L3, false, 1900.0),
    (TestCode::L4, false, 1900.0),
    (TestCode::L5, false, 1500.0),
    (TestCode::B1, true, 23e9),
    (TestCode::B3, true, 20e9),
    (TestCode::B4, true, 23e9),
    (TestCode::B5, true, 23e9),
    (TestCode::P1, false, 2400.0),
    (TestCode::P2, false, 2400.0),
    (TestCode::M, true, 120e9),
    (TestCode::H, true, 23e9),
    (TestCode::Q, true, 23e9),
    (TestCode::QP, false, 2300.0),
    (TestCode::T, false, 1200.0),
];

const BANDWIDTHS: [TestCode; 7] =
    [TestCode::S, TestCode::B1, TestCode::B3, TestCode::B4, TestCode::B5, TestCode::H, TestCode::Q];

/// The figures of a NIC that is healthy but for these tests, whose figures have these factors.
/// Memory is copied, and hops are measured, only with a factor.
fn measured(factors: &[(TestCode, f64)]) -> FiguresByTest {
    let test_figures = |(code, is_bandwidth, value): (TestCode, bool, f64)| {
        let factor = factors.iter().find(|(own, _)| *own == code);
        let own = value * factor.map_or(1.0, |(_, factor)| *factor);
        let figures = TestFigures {
            is_bandwidth,
            own: vec![own, own * 0.99],
            others: vec![value, value * 0.98, value * 1.01],
            own_tails: vec![tail(own, 1.4 * own)],
            others_tails: vec![tail(value, 1.4 * value)],
            own_floors: vec![floor(own)],
            others_floors: vec![floor(value)],
            ..TestFigures::default()
        };
        (code, figures)
    };
    let is_measured = |code| {
        ![TestCode::M, TestCode::T].contains(&code) || factors.iter().any(|(own, _)| *own == code)
    };
    let all = HEALTHY.into_iter().filter(|(code, ..)| is_measured(*code));
    all.map(test_figures).collect()
}

fn floor(median: f64) -> Floor {
    Floor { min: 0.9 * median, p5: 0.95 * median }
}

/// A 99th percentile that is this much beyond a median.
fn tail(median: f64, beyond: f64) -> Tail {
    let p99 = median + beyond;
    Tail { p99, median }
}

/// Returns these factors for tests of bandwidth.
fn bandwidths(factor: f64) -> Vec<(TestCode, f64)> {
    BANDWIDTHS.map(|code| (code, factor)).into()
}

fn reading(code: &str, value: &str, state: Severity) -> Finding {
    let limit = (value == "x8").then(|| (LIMIT.to_owned(), 16.0));
    Finding { numbers: limit.into_iter().collect(), ..testing::reading(code, value, state) }
}

fn healthy() -> Readings {
    vec![
        reading("pcie-width", "x16", Severity::Good),
        reading("pcie-speed", "16.0 GT/s", Severity::Good),
        reading("link-speed", "BS_200G", Severity::Good),
        reading("link-flaps", "0", Severity::Good),
        reading("iommu", "identity", Severity::Good),
        reading("firmware", "1.6", Severity::Shown),
        reading("numa", "near", Severity::Good),
        reading("retry-handler", "on", Severity::Good),
    ]
}

/// The items of a NIC that is healthy but for this one.
fn with(code: &str, value: &str, state: Severity) -> Readings {
    let mut all = healthy();
    all.retain(|reading| reading.code != code);
    all.push(reading(code, value, state));
    all
}

fn diagnosis(own: &Readings, measured: &FiguresByTest) -> Diagnosis {
    let others = vec![healthy(); 7];
    evaluate(Case { own, others: &others, measured, fails: false, has_good_controls: true })
}

fn causes(found: &Diagnosis) -> Vec<(Option<&str>, Confidence)> {
    let whys = found.whys.iter();
    whys.map(|why| (why.cause.as_deref(), why.confidence)).collect()
}

fn found(own: &Readings, measured: &FiguresByTest) -> Vec<(Option<String>, Confidence)> {
    let found = diagnosis(own, measured);
    let causes = causes(&found).into_iter();
    causes.map(|(id, how)| (id.map(str::to_owned), how)).collect()
}

fn named(id: &str, confidence: Confidence) -> (Option<String>, Confidence) {
    (Some(id.to_owned()), confidence)
}

/// The figures of a NIC whose process waited for its CPU in half of the time, so that its medians
/// are five times as long. Its floors have these factors. The processes of good NICs waited for
/// `percent` of their time, and their medians are `factor` times as long.
fn busy(factors: &[(TestCode, f64)], percent: u8, factor: f64) -> FiguresByTest {
    let mut all = measured(&[]);
    for (code, figures) in &mut all {
        let own = factors.iter().find(|(own, _)| own == code).map_or(1.0, |(_, factor)| *factor);
        let value = figures.others[0];
        let waiting = |percent, value| vec![DelayedMeasurement { percent, value }];
        *figures = TestFigures { is_bandwidth: figures.is_bandwidth, ..TestFigures::default() };
        if figures.is_bandwidth {
            figures.own_waiting = waiting(50, 0.5 * value * own);
            figures.others_waiting = waiting(percent, 0.5 * value);
        } else {
            figures.own_waiting = waiting(50, 5.0 * value * own);
            figures.others_waiting = waiting(percent, factor * value);
            figures.own_floors = vec![floor(own * value)];
            figures.others_floors = vec![floor(value), floor(1.02 * value)];
        }
    }
    all
}

#[test]
fn unknown_cause_says_where_to_look() {
    let slow = measured(&[(TestCode::B4, 0.5), (TestCode::B5, 0.5), (TestCode::P2, 3.0)]);
    let unknown = &diagnosis(&healthy(), &slow).whys[0];
    assert_eq!((unknown.cause.as_deref(), unknown.confidence), (None, Confidence::Unknown));
    let what = unknown.what.as_deref().unwrap_or_default();
    assert!(what.starts_with("loopback is fast"), "{what}");
    // There is nothing to do about what is not known.
    assert_eq!((&unknown.by, &unknown.advice), (&None, &None));
    assert_eq!(diagnosis(&healthy(), &slow).not_excluded, ["port", "fgfc"]);
    // Failures are no slowness.
    let (own, others) = (healthy(), vec![healthy(); 7]);
    let failing = evaluate(Case {
        own: &own,
        others: &others,
        measured: &slow,
        fails: true,
        has_good_controls: true,
    });
    assert_eq!((&failing.whys[0].what, &failing.whys[0].advice), (&None, &None));
}

/// The bandwidth is evidence beside causes that nothing proves (diagnosis.md 3.1).
#[test]
fn bandwidth_of_a_narrow_link_is_a_hint() {
    let hints = |own: &Readings, others: &[(TestCode, f64)]| {
        let factors = [bandwidths(0.6).as_slice(), others].concat();
        let found = diagnosis(own, &measured(&factors));
        let hint = |why: &Why| why.evidence.iter().any(|item| item.test == "pcie-ceiling");
        let whys = found.whys.iter();
        whys.map(|why| (why.confidence, hint(why))).collect::<Vec<_>>()
    };
    let memory = hints(&healthy(), &[(TestCode::M, 0.5)]);
    assert_eq!(memory, [(Confidence::Possibly, true)]);
    let narrow = with("pcie-width", "x8", Severity::Bad);
    assert_eq!(hints(&narrow, &[]), [(Confidence::Because, false)]);
    assert_eq!(hints(&healthy(), &[]), [(Confidence::Unknown, true)]);
}

/// Vectors 1 and 2.
#[test]
fn narrow_link_is_cause_only_if_bandwidth_is_low() {
    let narrow = with("pcie-width", "x8", Severity::Bad);
    let slow = measured(&bandwidths(0.55));
    assert_eq!(found(&narrow, &slow), [named("pcie-narrow", Confidence::Because)]);
    let expected = [(None, Confidence::Transient), named("pcie-narrow", Confidence::AlsoFound)];
    assert_eq!(found(&narrow, &measured(&[])), expected);
    // Only latencies are slow.
    let latencies = [TestCode::S, TestCode::L1, TestCode::L2, TestCode::L4];
    let latencies = measured(&latencies.map(|code| (code, 2.0)));
    let all = found(&narrow, &latencies);
    assert!(all.contains(&named("pcie-narrow", Confidence::AlsoFound)));
    assert!(all.iter().all(|(_, how)| *how > Confidence::Because));
    // Another cause makes latencies long beside it.
    let factors = [bandwidths(0.55).as_slice(), &[(TestCode::L1, 2.0)]].concat();
    let both = found(&narrow, &measured(&factors));
    assert_eq!(both, [named("pcie-narrow", Confidence::Probably)]);
    // The bandwidth is not low as half of the lanes make it.
    let factors = [bandwidths(0.3).as_slice(), &[(TestCode::L1, 2.0)]].concat();
    let all = found(&narrow, &measured(&factors));
    assert!(all.contains(&named("pcie-narrow", Confidence::AlsoFound)));
}

#[test]
fn what_many_good_nics_have_proves_nothing() {
    let busy = with("governor", "powersave", Severity::Suspect);
    let slow = measured(&[(TestCode::S, 0.5), (TestCode::L1, 2.0), (TestCode::L2, 1.78)]);
    let value_for = |others: &[Readings], has_good_controls| {
        let found =
            evaluate(Case { own: &busy, others, measured: &slow, fails: false, has_good_controls });
        (found.whys[0].cause.clone(), found.whys[0].confidence)
    };
    let mut others = vec![healthy(); 7];
    assert_eq!(value_for(&others, true), named("cpu-slow", Confidence::Because));
    // Beside NICs that may be slow themselves, nothing is certain.
    assert_eq!(value_for(&others, false), named("cpu-slow", Confidence::Probably));
    others[0] = busy.clone();
    others[1] = busy.clone();
    assert_ne!(value_for(&others, true).1, Confidence::Because);
}

/// A bandwidth of a third is not because of half of the lanes.
#[test]
fn share_of_bandwidth_is_about_the_share_of_lanes() {
    let narrow = with("pcie-width", "x8", Severity::Bad);
    for (factor, confidence) in
        [(0.55, Confidence::Because), (0.3, Confidence::AlsoFound), (0.8, Confidence::AlsoFound)]
    {
        let all = found(&narrow, &measured(&bandwidths(factor)));
        assert!(all.contains(&named("pcie-narrow", confidence)), "{factor}: {all:?}");
    }
}

/// A bandwidth just below the bandwidth of good NICs is neither slower nor the same.
#[test]
fn unclear_bandwidths_show_nothing() {
    let translated = with("iommu", "DMA", Severity::Suspect);
    let mut factors = bandwidths(0.89);
    factors.extend([(TestCode::L2, 1.9), (TestCode::L4, 1.5)]);
    let probably = [named("iommu", Confidence::Probably)];
    assert_eq!(found(&translated, &measured(&factors)), probably);
}

#[test]
fn files_exclude_only_what_they_show_completely() {
    let slow = measured(&bandwidths(0.55));
    let is_excluded = |own: &Readings, id: &str| {
        let found = diagnosis(own, &slow);
        found.excluded.iter().any(|text| text == id)
    };
    assert!(is_excluded(&healthy(), "pcie-slot"));
    let mut without_speed = healthy();
    without_speed.retain(|reading| reading.code != "pcie-speed");
    assert!(!is_excluded(&without_speed, "pcie-slot"));
    // CPUs may be slow with a good governor as well.
    let governor = with("governor", "performance", Severity::Good);
    let slow = measured(&[(TestCode::S, 0.5), (TestCode::L1, 2.0), (TestCode::L2, 1.78)]);
    let found = diagnosis(&governor, &slow);
    assert!(found.not_excluded.contains(&"cpu-slow".to_owned()), "{:?}", found.not_excluded);
}

/// How low a bandwidth is beside late packets depends on how many are late.
#[test]
fn errors_that_halve_the_bandwidth_are_probably_the_cause() {
    let errors = with("fec-corrected", "many", Severity::Bad);
    let mut half = measured(&bandwidths(0.5));
    if let Some(figures) = half.get_mut(&TestCode::L1) {
        figures.own_tails = vec![tail(1400.0, 9000.0)];
    }
    let all = found(&errors, &half);
    assert_eq!(all, [named("link-errors", Confidence::Probably)]);
}

/// More lanes than good NICs have are no slower slot.
#[test]
fn slot_is_slower_only_with_less() {
    let wide = with("pcie-width", "x32", Severity::Good);
    let all = found(&wide, &measured(&bandwidths(0.55)));
    assert!(all.iter().all(|(id, _)| id.as_deref() != Some("pcie-slot")), "{all:?}");
}

/// Vector 3: figures do not single out a cause, and files exclude PCIe and link. What is left over
/// need not be the cause, so none is possible.
#[test]
fn what_files_do_not_exclude_is_not_therefore_the_cause() {
    let found = diagnosis(&healthy(), &measured(&bandwidths(0.55)));
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    assert_eq!(found.whys[0].advice, None);
    assert_eq!(found.not_excluded, ["memory-bw", "port"]);
    for excluded in ["pcie-narrow", "pcie-slow", "link-speed"] {
        assert!(is_excluded(&found, excluded), "{:?}", found.excluded);
    }
}

/// A reboot or a part is advised with proof only.
#[test]
fn costly_advice_needs_certainty() {
    let narrow = with("pcie-width", "x8", Severity::Bad);
    let advice = |own: &Readings, measured| {
        let why = &diagnosis(own, &measured).whys[0];
        (why.confidence, why.advice.is_some(), why.by.is_some())
    };
    let slow = || measured(&bandwidths(0.55));
    assert_eq!(advice(&narrow, slow()), (Confidence::Because, true, true));
    let mut few = slow();
    few.retain(|code, _| [TestCode::S, TestCode::L1, TestCode::B1].contains(code));
    assert_eq!(advice(&narrow, few), (Confidence::Probably, false, false));
    let mut unread = healthy();
    unread.retain(|reading| reading.code != "iommu");
    assert_eq!(advice(&unread, slow_translation(Some(0.7))), (Confidence::Possibly, false, false));
    let lossy = with("packets-lost", "40", Severity::Suspect);
    assert_eq!(advice(&lossy, slow()), (Confidence::Probably, true, true));
}

#[test]
fn certain_cause_needs_all_decisive_tests_and_two_more() {
    let narrow = with("pcie-width", "x8", Severity::Bad);
    let mut few = measured(&bandwidths(0.55));
    few.retain(|code, _| [TestCode::S, TestCode::L1, TestCode::B1].contains(code));
    let probably = |id| [named(id, Confidence::Probably)];
    assert_eq!(found(&narrow, &few), probably("pcie-narrow"));
    let lanes = with("link-degraded", "2 of 4", Severity::Bad);
    let mut half = measured(&bandwidths(0.5));
    half.remove(&TestCode::B4);
    assert_eq!(found(&lanes, &half), probably("link-lanes"));
}

#[test]
fn certain_cause_demotes_causes_that_no_test_shows() {
    let mut both = with("pcie-width", "x8", Severity::Bad);
    both.push(reading("qos-profile", "HPC", Severity::Suspect));
    let expected =
        [named("pcie-narrow", Confidence::Because), named("qos-differs", Confidence::AlsoFound)];
    assert_eq!(found(&both, &measured(&bandwidths(0.55))), expected);
}

/// Idle states do not make reads slow.
#[test]
fn possible_cause_explains_all_slow_tests() {
    let slow = [(TestCode::S, 0.5), (TestCode::L4, 3.0), (TestCode::L5, 30.0)];
    let unknown = [(None, Confidence::Unknown)];
    assert_eq!(found(&healthy(), &measured(&slow)), unknown);
}

/// Vectors 4 and 5.
#[test]
fn slot_is_cause_if_other_slots_can_do_more() {
    let slow = measured(&bandwidths(0.55));
    let slot = with("pcie-width", "x8", Severity::Good);
    assert_eq!(found(&slot, &slow), [named("pcie-slot", Confidence::Because)]);
    let others = vec![slot.clone(); 7];
    let alike = evaluate(Case {
        own: &slot,
        others: &others,
        measured: &slow,
        fails: false,
        has_good_controls: true,
    });
    assert!(causes(&alike).iter().all(|(id, _)| *id != Some("pcie-slot")));
}

/// Vector 9, without files of idle states.
#[test]
fn pauses_that_cost_time_are_possibly_idle_states() {
    let slow = measured(&[(TestCode::S, 0.5), (TestCode::L5, 30.0)]);
    assert_eq!(found(&healthy(), &slow), [named("cpu-sleep", Confidence::Possibly)]);
}

/// Vector 10.
#[test]
fn slow_host_reads_with_translation_are_because_of_iommu() {
    let mut factors = bandwidths(0.8);
    factors.extend([
        (TestCode::L1, 1.4),
        (TestCode::L2, 1.9),
        (TestCode::L3, 1.9),
        (TestCode::L4, 1.5),
    ]);
    let translated = with("iommu", "DMA", Severity::Suspect);
    assert_eq!(found(&translated, &measured(&factors)), [named("iommu", Confidence::Because)]);
}

/// Vectors 14 and 15.
#[test]
fn distinguishes_slow_link_from_lost_lanes() {
    let slow = measured(&bandwidths(0.5));
    let speed = with("link-speed", "BJ_100G", Severity::Bad);
    assert_eq!(found(&speed, &slow), [named("link-speed", Confidence::Because)]);
    let mut factors = bandwidths(0.5);
    factors.retain(|(code, _)| *code != TestCode::B4);
    let mut lanes = healthy();
    lanes.push(reading("link-degraded", "2 of 4", Severity::Bad));
    assert_eq!(found(&lanes, &measured(&factors)), [named("link-lanes", Confidence::Because)]);
}

/// Vectors 7 and 16, with latencies that are late only now and then.
#[test]
fn errors_that_delay_some_packets_are_the_cause() {
    let mut late = measured(&[(TestCode::S, 0.9)]);
    if let Some(figures) = late.get_mut(&TestCode::L1) {
        figures.own_tails = vec![tail(1400.0, 9000.0)];
    }
    for (code, id) in [("pcie-corrected", "pcie-errors"), ("fec-corrected", "link-errors")] {
        let errors = with(code, "many", Severity::Bad);
        assert_eq!(found(&errors, &late), [named(id, Confidence::Because)]);
        // All packets are slow: something else makes them slow.
        let slow = measured(&[(TestCode::L1, 2.0), (TestCode::L2, 2.0)]);
        assert!(found(&errors, &slow).contains(&named(id, Confidence::AlsoFound)));
    }
}

/// Vectors 18 and 31.
#[test]
fn culprit_that_is_fast_now_is_transient() {
    let flaps = with("link-flaps", "6", Severity::Suspect);
    assert_eq!(found(&flaps, &measured(&[])), [named("link-flaps", Confidence::Probably)]);
    assert_eq!(found(&healthy(), &measured(&[])), [(None, Confidence::Transient)]);
    // The test of the survey is still slow, and no other.
    assert_eq!(found(&healthy(), &measured(&[(TestCode::S, 0.5)])), [(None, Confidence::Unknown)]);
}

/// Vectors 19 and 21.
#[test]
fn state_of_nic_explains_failures_without_traffic() {
    let (because, probably) = (Confidence::Because, Confidence::Probably);
    for (code, state, expected) in [
        ("retry-handler", Severity::Bad, because),
        ("ama", Severity::Bad, because),
        ("parked-peers", Severity::Suspect, probably),
    ] {
        let off = with(code, "off", state);
        let confidences = |fails| {
            let others = vec![healthy(); 7];
            let measured = FiguresByTest::new();
            let own = &off;
            let found = evaluate(Case {
                own,
                others: &others,
                measured: &measured,
                fails,
                // Failures need no comparison with good NICs.
                has_good_controls: false,
            });
            found.whys.iter().map(|why| why.confidence).collect::<Vec<_>>()
        };
        assert_eq!(confidences(true), [expected], "{code}");
        assert_eq!(confidences(false), [Confidence::Unknown, Confidence::AlsoFound]);
    }
}

/// Vectors 27 and 28. What a difference of firmware would make slow is not known, so no figure fits
/// it: in place of "possibly", it is not excluded.
#[test]
fn difference_alone_is_never_the_cause() {
    let other = with("firmware", "1.5", Severity::Shown);
    let slow = measured(&[(TestCode::S, 0.6), (TestCode::L1, 1.5), (TestCode::L2, 1.5)]);
    let found = diagnosis(&other, &slow);
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    assert_eq!((found.differs.len(), found.whys[0].advice.clone()), (1, None));
    assert!(found.not_excluded.contains(&"firmware".to_owned()), "{:?}", found.not_excluded);
    let mut others = vec![healthy(); 4];
    others.extend(vec![other.clone(); 3]);
    let cleared = evaluate(Case {
        own: &other,
        others: &others,
        measured: &slow,
        fails: false,
        has_good_controls: true,
    });
    assert_eq!(causes(&cleared)[0], (None, Confidence::Unknown));
    assert_eq!(cleared.differs, []);
    // One of seven good NICs has the value as well: it is only mentioned.
    let mut others = vec![healthy(); 6];
    others.push(other.clone());
    let mentioned = evaluate(Case {
        own: &other,
        others: &others,
        measured: &slow,
        fails: false,
        has_good_controls: true,
    });
    assert_eq!(causes(&mentioned)[0], (None, Confidence::Unknown));
    assert_eq!(mentioned.differs.len(), 1);
}

/// The figures of a NIC that translates addresses slowly: page-cost=30us of the software NIC, whose
/// links take 20 us.
fn slow_translation(huge_pages: Option<f64>) -> FiguresByTest {
    let mut factors = vec![
        (TestCode::H, huge_pages.unwrap_or(1.0)),
        (TestCode::L1, 2.0),
        (TestCode::L2, 2.4),
        (TestCode::L4, 2.0),
        (TestCode::P2, 2.0),
    ];
    factors.extend(bandwidths(0.7));
    let mut all = measured(&factors);
    if huge_pages.is_none() {
        all.remove(&TestCode::H);
    }
    all
}

fn is_excluded(found: &Diagnosis, id: &str) -> bool {
    found.excluded.iter().any(|text| text == id)
}

/// Vector 11, beside slow small operations and without huge pages.
#[test]
fn only_huge_pages_tell_page_size_from_translation() {
    let mut unread = healthy();
    unread.retain(|reading| reading.code != "iommu");
    let because = [named("hugepages", Confidence::Because)];
    for own in [&healthy(), &unread] {
        assert_eq!(found(own, &slow_translation(Some(1.0))), because);
    }
    let without = diagnosis(&unread, &slow_translation(None));
    assert_eq!(causes(&without), [(None, Confidence::Unknown)]);
    assert_eq!(without.not_excluded, ["iommu", "hugepages"]);
    assert!(!is_excluded(&without, "hugepages") && !is_excluded(&without, "iommu"));
    // The file excludes the IOMMU, slow writes in huge pages exclude small pages.
    let identity = diagnosis(&healthy(), &slow_translation(None));
    assert_eq!(causes(&identity), [(None, Confidence::Unknown)]);
    assert_eq!(identity.not_excluded, ["hugepages"]);
    let as_slow = diagnosis(&unread, &slow_translation(Some(0.7)));
    assert_eq!(causes(&as_slow), [(Some("iommu"), Confidence::Possibly)]);
    assert!(is_excluded(&as_slow, "hugepages"));
}

/// Bit errors do not halve a bandwidth, so a bandwidth of one half says nothing about them.
#[test]
fn slowness_of_another_cause_excludes_nothing() {
    let mut unread = healthy();
    unread.retain(|reading| !reading.code.starts_with("fec"));
    let mut slow = bandwidths(0.2);
    slow.push((TestCode::L1, 3.0));
    let found = diagnosis(&unread, &measured(&slow));
    for id in ["memory-bw", "cpu-slow", "fgfc"] {
        assert!(!is_excluded(&found, id), "{id}: {:?}", found.excluded);
    }
    // What they make slow is fast.
    let found = diagnosis(&unread, &measured(&[(TestCode::P1, 3.0)]));
    for id in ["hugepages", "memory-bw", "cpu-slow"] {
        assert!(is_excluded(&found, id), "{id}: {:?}", found.excluded);
    }
}

/// As vector 32: each cause explains other tests.
#[test]
fn names_two_certain_causes() {
    let mut both = with("pcie-width", "x8", Severity::Bad);
    both.push(reading("fec-corrected", "many", Severity::Bad));
    let mut slow = measured(&bandwidths(0.55));
    if let Some(figures) = slow.get_mut(&TestCode::L1) {
        figures.own_tails = vec![tail(1400.0, 9000.0)];
    }
    let expected =
        [named("pcie-narrow", Confidence::Because), named("link-errors", Confidence::Because)];
    assert_eq!(found(&both, &slow), expected);
}

/// Vector 32, with files of the second cause.
#[test]
fn names_two_causes_that_explain_different_tests() {
    let mut both = with("pcie-width", "x8", Severity::Bad);
    both.retain(|reading| reading.code != "numa");
    both.push(reading("numa", "far", Severity::Suspect));
    let mut factors = bandwidths(0.55);
    factors.extend([(TestCode::L5, 30.0)]);
    let found = diagnosis(&both, &measured(&factors));
    assert_eq!(causes(&found)[0], (Some("pcie-narrow"), Confidence::Because));
    let numa = found.whys.iter().find(|why| why.cause.as_deref() == Some("numa"));
    assert_eq!(numa.map(|why| why.confidence), Some(Confidence::AlsoFound));
}

#[test]
fn tests_that_contradict_evidence_are_doubtful() {
    let narrow = with("pcie-width", "x8", Severity::Bad);
    let others = vec![healthy(); 7];
    let codes = |own: &Readings, factors: &[(TestCode, f64)]| {
        doubtful(Case {
            own,
            others: &others,
            measured: &measured(factors),
            fails: false,
            has_good_controls: true,
        })
    };
    let mut factors = bandwidths(0.55);
    assert_eq!(codes(&narrow, &factors), []);
    factors.retain(|(code, _)| *code != TestCode::B5);
    assert_eq!(codes(&narrow, &factors), [TestCode::B5]);
    // Nothing proves a cause that they could contradict.
    assert_eq!(codes(&healthy(), &factors), []);
}

#[test]
fn figures_that_vary_prove_nothing() {
    let narrow = with("pcie-width", "x8", Severity::Bad);
    let mut varies = measured(&bandwidths(0.4));
    for figures in varies.values_mut().filter(|figures| figures.is_bandwidth) {
        figures.own.push(0.8 * figures.others[0]);
    }
    assert_eq!(found(&narrow, &varies), [named("pcie-narrow", Confidence::Probably)]);
}

/// Whatever is known, nothing is both excluded and possible, and advice needs a cause.
#[test]
fn nothing_is_excluded_and_possible() {
    // A linear congruential generator, so that a failure comes again.
    let mut state: u64 = 1;
    let mut random = |count: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % count
    };
    const WRONG: [(&str, &str, Severity); 10] = [
        ("pcie-width", "x8", Severity::Bad),
        ("iommu", "DMA", Severity::Suspect),
        ("governor", "powersave", Severity::Suspect),
        ("fec-uncorrected", "15/s", Severity::Bad),
        ("pcie-corrected", "500/s", Severity::Suspect),
        ("firmware", "1.5", Severity::Shown),
        ("link-speed", "BJ_100G", Severity::Bad),
        ("packets-lost", "40", Severity::Suspect),
        ("asic-temperature", "91 C", Severity::Bad),
        ("pcie-speed", "8.0 GT/s", Severity::Good),
    ];
    for round in 0..4000 {
        let mut own = healthy();
        own.retain(|_| random(8) > 0);
        for (code, value, severity) in WRONG {
            if random(8) == 0 {
                own.retain(|reading| reading.code != code);
                own.push(reading(code, value, severity));
            }
        }
        let mut factors = Vec::new();
        for (code, is_bandwidth, _) in HEALTHY {
            let slow = [1.0, 1.0, 1.0, 1.2, 2.0, 30.0][random(6) as usize];
            factors.push((code, if is_bandwidth { 1.0 / slow } else { slow }));
        }
        let mut all = if random(4) == 0 { busy(&factors, 50, 5.0) } else { measured(&factors) };
        all.retain(|_, _| random(6) > 0);
        let found = diagnosis(&own, &all);
        for id in &found.excluded {
            let is_named = found.whys.iter().any(|why| why.cause.as_ref() == Some(id));
            assert!(!is_named && !found.not_excluded.contains(id), "{round}: {id}: {found:#?}");
        }
        for why in &found.whys {
            let cause = why.cause.as_deref().and_then(cause);
            let is_costly = cause.is_none_or(|cause| cause.is_costly);
            let is_advised = why.advice.is_some();
            assert!(!is_advised || !is_costly || why.confidence == Confidence::Because, "{why:#?}");
        }
    }
}

/// Beside busy CPUs, what a bad item makes slow may not be measured.
#[test]
fn bad_item_stands_before_a_suspect_one() {
    let mut own = with("pcie-width", "x8", Severity::Bad);
    own.retain(|reading| reading.code != "link-flaps");
    own.push(reading("link-flaps", "6", Severity::Suspect));
    let mut latencies = measured(&[]);
    latencies.retain(|code, _| !BANDWIDTHS.contains(code));
    let both = [("pcie-narrow", Confidence::Probably), ("link-flaps", Confidence::Probably)];
    assert_eq!(found(&own, &latencies), both.map(|(id, confidence)| named(id, confidence)));
}
