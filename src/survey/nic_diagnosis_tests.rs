//! Conclusions about one NIC from figures and causes.

use std::time::UNIX_EPOCH;

use super::*;
use crate::result::testing::{explanation, item, roster, why};
use why::causes::comparison::{Compared, DelayedMeasurement, Floor, Tail, TestFigures};
use why::causes::procedure::{TestCode, TestStep};
use why::causes::table::CAUSES;
use why::suspect::healthy;

/// Findings about NIC 3 beside these good NICs, in which each test has these figures.
fn findings(controls: &[u32], own: f64, others: f64, causes: Vec<Why>) -> SuspectFindings {
    let others = (!controls.is_empty()).then_some(others);
    let floor = |value| Floor { min: value, p5: value };
    let figures = |is_bandwidth| TestFigures {
        is_bandwidth,
        own: vec![own],
        others: others.into_iter().collect(),
        own_floors: vec![floor(own)],
        others_floors: others.map(floor).into_iter().collect(),
        ..TestFigures::default()
    };
    let planned = TESTS.iter().filter(|test| {
        let has_partners = controls.len() > 1 || test.route == TestRoute::Loopback;
        has_partners && test.repeats.is_none() && test.step != TestStep::OfLinks
    });
    SuspectFindings {
        roster: roster(),
        suspect: NicId(3),
        generation: Some("Cassini 1".into()),
        controls: controls.iter().copied().map(NicId).collect(),
        measured: planned.map(|test| (test.code, figures(test.tool.ends_with("-bw")))).collect(),
        is_disturbed: false,
        healthy: &[],
        explanation: Explanation { causes, ..explanation() },
    }
}

/// A 99th percentile that is this much beyond the median.
fn tail(beyond: f64) -> Tail {
    Tail { p99: 1e9 + beyond, median: 1e9 }
}

fn unknown() -> Why {
    Why { cause: None, what: None, ..why(Confidence::Unknown, Vec::new()) }
}

#[track_caller]
fn assert_concluded(found: SuspectFindings, expected: &str, status: u8) -> NicDiagnosis {
    let diagnosis = NicDiagnosis::new(Vec::new(), UNIX_EPOCH, Duration::ZERO, found);
    assert_eq!((diagnosis.summary.as_str(), diagnosis.exit_status), (expected, status));
    assert_eq!(diagnosis.result().map_err(|failure| failure.status()).err().unwrap_or(0), status);
    diagnosis
}

#[test]
fn nic_as_fast_as_good_ones_is_good() {
    let good = |controls: &[u32]| findings(controls, 1e9, 1e9, vec![unknown()]);
    let diagnosis = assert_concluded(good(&[0]), "good: cxi1 is as fast as cxi0 of nid000416", 0);
    assert_eq!(diagnosis.why[0].causes, []);
    assert_eq!(diagnosis.tests.len(), 7);
    let diagnosis = assert_concluded(good(&[0, 5]), "good: cxi1 is as fast as 2 good NICs", 0);
    assert_eq!(diagnosis.tests.len(), 11);
}

/// The service may refuse the other class.
#[test]
fn failure_of_a_test_in_another_way_is_not_bad() {
    let mut refused = findings(&[0, 5], 1e9, 1e9, vec![unknown()]);
    let failed = TestFigures {
        failure: Some("cannot allocate a communication profile".into()),
        ..TestFigures::default()
    };
    refused.measured.insert(TestCode::Q, failed);
    assert_concluded(refused, "good: cxi1 is as fast as 2 good NICs", 0);
    for (own, others) in [(0.5e9, vec![1e9]), (1e9, Vec::new())] {
        let mut other_way = findings(&[0, 5], 1e9, 1e9, vec![unknown()]);
        let figures =
            TestFigures { is_bandwidth: true, own: vec![own], others, ..TestFigures::default() };
        other_way.measured.insert(TestCode::Q, figures);
        assert_concluded(other_way, "good: cxi1 is as fast as 2 good NICs", 0);
    }
}

#[test]
fn slowness_beside_busy_cpus_is_undecided() {
    let mut slow = findings(&[0], 1e6, 2e6, vec![unknown()]);
    slow.is_disturbed = true;
    let diagnosis = NicDiagnosis::new(Vec::new(), UNIX_EPOCH, Duration::ZERO, slow);
    assert_eq!(diagnosis.exit_status, UNDECIDED);
    let start = "undecided: cxi1 seems slower than cxi0 of nid000416; CPUs are busy: ";
    assert!(diagnosis.summary.starts_with(start), "{}", diagnosis.summary);
}

/// The figures of a NIC whose process waited for its CPU, by their floors.
fn busy(own: f64) -> SuspectFindings {
    let mut found = findings(&[0, 5], 1e9, 1e9, vec![unknown()]);
    found.is_disturbed = true;
    for figures in found.measured.values_mut() {
        figures.own = Vec::new();
        let slower = if figures.is_bandwidth { 1e9 / own } else { own / 1e9 };
        let value = if figures.is_bandwidth { slower } else { 5.0 * slower } * 1e9;
        figures.own_waiting = vec![DelayedMeasurement { percent: 30, value }];
        if !figures.is_bandwidth {
            let floor = |min| vec![Floor { min, p5: 1.02 * min }];
            (figures.own_floors, figures.others_floors) = (floor(own), floor(1e9));
        }
    }
    found
}

#[test]
fn floors_judge_a_nic_beside_busy_cpus() {
    let diagnosis = assert_concluded(
        busy(3e9),
        "bad: cxi1 is slower than 2 good NICs, for an unknown cause",
        3,
    );
    assert_eq!(diagnosis.tests[0].name, "small writes in loopback (minimum)");
    assert_eq!((diagnosis.tests[0].own, diagnosis.tests[0].others), (Some(3e9), Some(1e9)));
    let good = "good: cxi1 is as fast as 2 good NICs (CPUs busy: minima)";
    assert_concluded(busy(1e9), good, 0);
}

#[test]
fn nic_without_figures_is_not_measured() {
    let mut late = findings(&[0, 5], 1e9, 1e9, vec![unknown()]);
    late.is_disturbed = true;
    for figures in late.measured.values_mut() {
        (figures.own, figures.is_late) = (Vec::new(), true);
    }
    let expected = "undecided: cxi1: not measured, CPUs busy: small writes in loopback, reading \
                    the data of a write from memory and 9 more";
    assert_concluded(late, expected, 4);
}

#[test]
fn tail_is_the_99th_percentile() {
    let mut found = findings(&[0], 1e9, 1e9, vec![unknown()]);
    let figures = found.measured.get_mut(&TestCode::L1).unwrap();
    (figures.own_tails, figures.others_tails) = (vec![tail(2e9)], vec![tail(1e8)]);
    let diagnosis = NicDiagnosis::new(Vec::new(), UNIX_EPOCH, Duration::ZERO, found);
    let tail = diagnosis.tests.iter().find(|test| test.test == "L1 p99").unwrap();
    assert_eq!((tail.own, tail.others), (Some(3e9), Some(1.1e9)));
}

/// Somebody reads the first line aloud.
#[test]
fn first_line_has_at_most_25_words() {
    let words = |found: SuspectFindings| {
        let diagnosis = NicDiagnosis::new(Vec::new(), UNIX_EPOCH, Duration::ZERO, found);
        let words = diagnosis.summary.split_whitespace().count();
        assert!(words <= 25, "{words}: {}", diagnosis.summary);
        diagnosis.summary
    };
    let confidences =
        [Confidence::Because, Confidence::Probably, Confidence::Possibly, Confidence::AlsoFound];
    for cause in CAUSES {
        for confidence in confidences {
            for own in [1e9, 2e9] {
                let named = Why {
                    cause: Some(cause.id.into()),
                    what: Some(cause.what.into()),
                    ..why(confidence, Vec::new())
                };
                let first = words(findings(&[0, 5], own, 1e9, vec![named; 3]));
                assert!(!first.ends_with("..."), "{first}");
            }
        }
    }
    let mut slow = findings(&[0, 5], 2e9, 1e9, vec![unknown()]);
    slow.is_disturbed = true;
    words(slow);
    let mut unclear = findings(&[0, 5], 1.2e9, 1e9, vec![unknown()]);
    for loaded in unclear.measured.values_mut().filter(|figures| figures.is_bandwidth) {
        loaded.own = vec![0.9e9];
    }
    words(unclear.clone());
    for loaded in unclear.measured.values_mut() {
        loaded.own.clear();
    }
    words(unclear);
    let mut fails = findings(&[0], 1e9, 1e9, vec![unknown()]);
    let figures = fails.measured.get_mut(&TestCode::L4).unwrap();
    figures.failure = Some("no answer from it ".repeat(12));
    words(fails);
}

#[test]
fn cause_or_slowness_is_bad() {
    let because = why(Confidence::Because, vec![item("PCIe width x8")]);
    let what = "a PCIe link runs with fewer lanes than both of its ends have";
    let with = |own: f64, cause| findings(&[0], own, 1e9, vec![cause]);
    let expected = format!("bad: cxi1: because {what}");
    assert_concluded(with(1e9, because.clone()), &expected, 3);
    let expected = "bad: cxi1 is slower than cxi0 of nid000416, for an unknown cause";
    assert_concluded(with(2e9, unknown()), expected, 3);
    let possibly = why(Confidence::Possibly, Vec::new());
    let expected = "bad: cxi1 is slower than cxi0 of nid000416, possibly PCIe width";
    assert_concluded(with(2e9, possibly.clone()), expected, 3);
    let also = why(Confidence::AlsoFound, Vec::new());
    let expected = format!("bad: cxi1 is not slow; also found: {what}");
    assert_concluded(with(1e9, also), &expected, 3);
    let expected = format!("undecided: cxi1 is not slow; possibly {what}");
    assert_concluded(with(1e9, possibly.clone()), &expected, 4);
    // A slow NIC would not have been seen.
    let expected = format!("undecided: cxi1: not known whether it is slow; possibly {what}");
    assert_concluded(with(1.2e9, possibly.clone()), &expected, 4);
    let link = Why { what: Some("latency +1.0 us".into()), ..unknown() };
    let expected = "bad: cxi1 is slower than cxi0 of nid000416: latency +1.0 us";
    assert_concluded(with(2e9, link), expected, 3);
    // Nobody knows whether it is slow.
    let mut unmeasured = with(1e9, possibly);
    unmeasured.measured.clear();
    let expected = format!("undecided: cxi1: possibly {what}");
    assert_concluded(unmeasured, &expected, 4);
    let others_use = Why {
        cause: Some("others-use".into()),
        what: Some("other processes use the NIC".into()),
        ..why(Confidence::Probably, Vec::new())
    };
    let expected = "undecided: cxi1: probably other processes use the NIC";
    assert_concluded(with(1e9, others_use), expected, 4);
}

/// The tests that failed.
fn failed(diagnosis: &NicDiagnosis) -> Vec<&str> {
    let failed = diagnosis.tests.iter().filter(|test| test.failure.is_some());
    failed.map(|test| test.test.as_str()).collect()
}

#[test]
fn failures_are_bad() {
    let mut found = findings(&[0], 1e9, 1e9, vec![unknown()]);
    let figures = found.measured.get_mut(&TestCode::L4).unwrap();
    (figures.own, figures.failure) = (Vec::new(), Some("no answer".into()));
    let diagnosis = assert_concluded(found, "bad: cxi1 fails: no answer", 3);
    assert_eq!(diagnosis.why[0].causes.len(), 1);
    // L2 has no column of its own.
    let mut found = findings(&[0], 1e9, 1e9, vec![unknown()]);
    let figures = found.measured.get_mut(&TestCode::L2).unwrap();
    (figures.own, figures.failure) = (Vec::new(), Some("no answer".into()));
    let diagnosis = assert_concluded(found, "bad: cxi1 fails: no answer", 3);
    assert_eq!(failed(&diagnosis), ["L2-L1"]);
    // One of the measurements of L1 has failed.
    let mut found = findings(&[0], 1e9, 1e9, vec![unknown()]);
    let figures = found.measured.get_mut(&TestCode::L1).unwrap();
    (figures.own_tails, figures.others_tails) = (vec![tail(1e9)], vec![tail(1e9)]);
    figures.failure = Some("no answer".into());
    let diagnosis = assert_concluded(found, "bad: cxi1 fails: no answer", 3);
    assert_eq!(failed(&diagnosis), ["L1"]);
}

#[test]
fn what_is_unclear_or_missing_is_undecided() {
    let mut found = findings(&[0], 1e9, 1e9, vec![unknown()]);
    found.measured.get_mut(&TestCode::B1).unwrap().own = vec![0.9e9];
    let expected = "undecided: cxi1 is about as fast as cxi0 of nid000416; unclear: large \
                    writes in loopback";
    assert_concluded(found.clone(), expected, 4);
    found.measured.get_mut(&TestCode::B1).unwrap().others.clear();
    let expected = "undecided: cxi1: not measured: large writes in loopback";
    assert_concluded(found, expected, 4);
}

/// What one test takes longer than another is within the noise of both more easily than a figure.
#[test]
fn unclear_differences_and_tails_are_good() {
    let mut found = findings(&[0], 1e9, 1e9, vec![unknown()]);
    found.measured.get_mut(&TestCode::L2).unwrap().own = vec![1.06e9];
    let figures = found.measured.get_mut(&TestCode::L1).unwrap();
    (figures.own_tails, figures.others_tails) = (vec![tail(1.7e9)], vec![tail(1e9)]);
    let diagnosis = assert_concluded(found, "good: cxi1 is as fast as cxi0 of nid000416", 0);
    let unclear = diagnosis.tests.iter().filter(|test| test.outcome == Some(Compared::Unclear));
    let unclear: Vec<&str> = unclear.map(|test| test.test.as_str()).collect();
    assert_eq!(unclear, ["L1 p99", "L2-L1"]);
}

#[test]
fn late_single_operations_are_not_bad() {
    let mut found = findings(&[0], 1e9, 1e9, vec![unknown()]);
    let figures = found.measured.get_mut(&TestCode::L1).unwrap();
    (figures.own_tails, figures.others_tails) = (vec![tail(1e9)], vec![tail(1e8)]);
    let diagnosis = assert_concluded(found, "good: cxi1 is as fast as cxi0 of nid000416", 0);
    let tail = diagnosis.tests.iter().find(|test| test.test == "L1 p99");
    assert_eq!(tail.and_then(|test| test.outcome), Some(Compared::Slower));
}

#[test]
fn bandwidths_of_nic_alone_are_compared_with_healthy_nics() {
    let alone = |writes: f64| {
        let mut found = findings(&[], 21e9, 0.0, vec![unknown()]);
        found.healthy = healthy(Some(1.0));
        found.measured.get_mut(&TestCode::B1).unwrap().own = vec![writes];
        for figure in found.healthy {
            found.measured.get_mut(&figure.test).unwrap().others = vec![figure.usual];
        }
        found
    };
    let good = "good: cxi1 is as fast as a healthy Cassini 1 in bandwidth";
    assert_concluded(alone(22.6e9), good, 0);
    let expected = "undecided: cxi1 is about as fast as a healthy Cassini 1 in bandwidth; \
                    unclear: large writes in loopback";
    assert_concluded(alone(22.4e9), expected, 4);
    let expected = "bad: cxi1 is slower than a healthy Cassini 1 in bandwidth, for an unknown \
                    cause";
    assert_concluded(alone(14e9), expected, 3);
    let mut other = alone(22.6e9);
    (other.healthy, other.generation) = (&[], Some("Cassini 2".into()));
    let expected = "undecided: cxi1 cannot be compared: no figures of a healthy Cassini 2 are \
                    known; use --peer";
    assert_concluded(other, expected, 4);
}
