//! Vectors of diagnosis.md 8 about other ways of doing the same, and about counters.

use super::*;

/// Returns bandwidths with this factor, except for these tests.
fn bandwidths_without(factor: f64, cured: &[TestCode]) -> Measured {
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
    assert!(all.iter().all(|(_, how)| *how == Confidence::Possibly), "{all:?}");
}

/// Vector 22.
#[test]
fn ceiling_of_a_class_is_the_cause_if_another_class_is_fast() {
    let mut capped = healthy();
    capped.push(reading("class-ceiling", "50 %", Severity::Shown));
    let mut full = healthy();
    full.push(reading("class-ceiling", "100 %", Severity::Shown));
    let others = vec![full; 7];
    let has = |measured: &Measured, how| {
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
    // Another class is as slow.
    let uncured = bandwidths_without(0.5, &cured[1..]);
    assert!(has(&uncured, Confidence::AlsoFound));
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
    assert_eq!(found(&healthy(), &all_late), [named("port", Confidence::Possibly)]);
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
            measured: &Measured::new(),
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
        measured: &Measured::new(),
        fails: true,
        has_good_controls: true,
    });
    let retry_off = (Some("retry-off"), Confidence::Because);
    assert_eq!(causes(&found), [retry_off, others_use]);
    assert!(!diagnosis(&healthy(), &measured(&bandwidths(0.55))).is_final());
}
