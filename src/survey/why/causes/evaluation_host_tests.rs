//! Vectors of diagnosis.md 8 about hosts, busy CPUs, and settings that only differ.

use super::*;

/// The causes of a culprit whose item has another value than on seven good NICs.
fn beside(code: &str, own: &str, others: &str, factors: &[(TestCode, f64)]) -> Diagnosis {
    let culprit = with(code, own, Severity::Shown);
    let others = vec![with(code, others, Severity::Shown); 7];
    evaluate(Case {
        own: &culprit,
        others: &others,
        measured: &measured(factors),
        fails: false,
        has_good_controls: true,
    })
}

fn names(found: &Diagnosis, id: &str, how: Confidence) -> bool {
    causes(found).contains(&(Some(id), how))
}

/// Vector 6.
#[test]
fn slow_pcie_link_is_the_cause() {
    let mut slow = with("pcie-speed", "8.0 GT/s", Severity::Bad);
    let bad = slow.iter_mut().filter(|reading| reading.verdict == Severity::Bad);
    bad.for_each(|reading| reading.numbers = [(LIMIT.to_owned(), 16e9)].into());
    let because = [named("pcie-slow", Confidence::Because)];
    assert_eq!(found(&slow, &measured(&bandwidths(0.55))), because);
}

/// Vectors 8, 13 and 34: nothing is slow because of it.
#[test]
fn what_makes_nothing_slow_only_differs() {
    for (code, own, others, id) in [
        ("esm", "Disabled", "25.0 GT/s", "esm-off"),
        ("memory-size", "448.0 GiB", "512.0 GiB", "memory-bw"),
        ("qos-profile", "HPC", "LL_BE_BD_ET", "qos-differs"),
    ] {
        let found = beside(code, own, others, &[(TestCode::S, 0.5), (TestCode::L1, 2.0)]);
        assert_eq!(found.differs[0].attribute, code);
        assert!(!names(&found, id, Confidence::Because), "{id}");
        assert!(!names(&found, id, Confidence::Probably), "{id}");
    }
}

/// Vector 9.
#[test]
fn idle_states_that_differ_make_pauses_long() {
    let slow = [(TestCode::S, 0.5), (TestCode::L5, 30.0)];
    let diagnosis = |own, others| beside("idle-states", own, others, &slow);
    let found = diagnosis("133 us (C6)", "2 us (C1)");
    assert_eq!(causes(&found), [(Some("cpu-sleep"), Confidence::Because)]);
    // Less deeply than good NICs, by another name, and not deeply at all.
    for (own, others) in
        [("2 us (C1)", "133 us (C6)"), ("133 us (C6S)", "133 us (C6)"), ("9 us (C1E)", "2 us (C1)")]
    {
        let found = diagnosis(own, others);
        assert!(!names(&found, "cpu-sleep", Confidence::Because), "{own}");
    }
}

/// Vector 12.
#[test]
fn less_memory_with_less_bandwidth_is_the_cause() {
    let confidence = |copies: f64| {
        let slow = [bandwidths(0.7).as_slice(), &[(TestCode::M, copies)]].concat();
        let found = beside("memory-size", "448.0 GiB", "512.0 GiB", &slow);
        let mut known = causes(&found).into_iter();
        known.find_map(|(id, how)| (id == Some("memory-bw")).then_some(how))
    };
    assert_eq!(confidence(0.6), Some(Confidence::Because));
    // Copies neither slower nor as fast.
    assert_eq!(confidence(0.9), Some(Confidence::Because));
    assert_eq!(confidence(1.0), Some(Confidence::AlsoFound));
}

/// Slow copies of memory are no limit of PCIe.
#[test]
fn slow_copies_of_memory_leave_memory_as_a_cause() {
    let possible = |copies: f64| {
        let slow = [bandwidths(0.7).as_slice(), &[(TestCode::M, copies)]].concat();
        let found = diagnosis(&healthy(), &measured(&slow));
        let known = causes(&found).into_iter();
        known.map(|(id, _)| id.unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(possible(0.5), ["memory-bw"]);
    assert!(!possible(1.0).contains(&"memory-bw".to_owned()));
}

/// Vector 17.
#[test]
fn errors_without_effect_are_also_found() {
    let errors = with("fec-corrected", "BER 2e-6", Severity::Suspect);
    let all = found(&errors, &measured(&[(TestCode::S, 0.5), (TestCode::L1, 2.0)]));
    assert!(all.contains(&named("link-errors", Confidence::AlsoFound)), "{all:?}");
}

/// Vector 36, without latencies that depend on the CPU.
#[test]
fn far_cpus_without_effect_are_also_found() {
    let far = with("numa", "1 (CPUs 8-15)", Severity::Suspect);
    let all = found(&far, &measured(&[(TestCode::S, 0.5), (TestCode::P1, 2.0)]));
    assert!(all.contains(&named("numa", Confidence::AlsoFound)), "{all:?}");
}

/// A difference is no cause unless what it makes slow is slow, and unless nothing else differs.
#[test]
fn difference_without_its_slowness_only_differs() {
    let slow = [(TestCode::S, 0.5), (TestCode::B4, 0.5)];
    let mut without_pause = measured(&slow);
    without_pause.remove(&TestCode::L5);
    let culprit = with("idle-states", "133 us (C6)", Severity::Shown);
    let others = vec![with("idle-states", "2 us (C1)", Severity::Shown); 7];
    let found = evaluate(Case {
        own: &culprit,
        others: &others,
        measured: &without_pause,
        fails: false,
        has_good_controls: true,
    });
    assert_eq!(causes(&found), [(None, Confidence::Unknown)]);
    assert!(found.not_excluded.contains(&"cpu-sleep".to_owned()), "{found:?}");
}

#[test]
fn difference_beside_another_is_not_the_cause() {
    let state = |states, driver| {
        let mut own = with("idle-states", states, Severity::Shown);
        own.push(reading("driver", driver, Severity::Shown));
        own
    };
    let slow = measured(&[(TestCode::S, 0.5), (TestCode::L5, 30.0)]);
    let confidence = |driver| {
        let found = evaluate(Case {
            own: &state("133 us (C6)", driver),
            others: &vec![state("2 us (C1)", "1.8"); 7],
            measured: &slow,
            fails: false,
            has_good_controls: true,
        });
        found.whys[0].confidence
    };
    assert_eq!(confidence("1.8"), Confidence::Because);
    assert_eq!(confidence("1.9"), Confidence::Unknown);
}

/// That heat makes a NIC slower is not known: it is no more than possible, and no cause beside one.
#[test]
fn heat_is_possible_if_good_nics_are_cooler() {
    let hot = |state| with("asic-temperature", "91 C", state);
    let diagnosis = |own: &Readings, others: Readings, factors: &[(TestCode, f64)]| {
        evaluate(Case {
            own,
            others: &vec![others; 7],
            measured: &measured(factors),
            fails: false,
            has_good_controls: true,
        })
    };
    let is_named = |found: &Diagnosis, how| names(found, "over-temperature", how);
    let slow = [(TestCode::S, 0.5), (TestCode::B4, 0.5)];
    let found = diagnosis(&hot(Severity::Bad), hot(Severity::Good), &slow);
    assert_eq!(causes(&found)[0], (Some("over-temperature"), Confidence::Possibly));
    assert_eq!(found.whys[0].evidence[0].text, "asic-temperature 91 C");
    // A NIC that is as fast as the others is not slow because it is hot.
    let found = diagnosis(&hot(Severity::Bad), hot(Severity::Good), &bandwidths(1.0));
    assert!(is_named(&found, Confidence::AlsoFound), "{found:?}");
    assert_eq!(found.whys[0].cause, None, "{found:?}");
    // It hides no cause that fits the figures.
    let memory = [bandwidths(0.5).as_slice(), &[(TestCode::M, 0.5)]].concat();
    let [cool, heated] = [Severity::Good, Severity::Bad]
        .map(|state| diagnosis(&hot(state), hot(Severity::Good), &memory));
    for why in &cool.whys {
        assert!(causes(&heated).contains(&(why.cause.as_deref(), why.confidence)), "{heated:?}");
    }
    // As hot good NICs are not slow.
    let found = diagnosis(&hot(Severity::Bad), hot(Severity::Bad), &slow);
    assert!(!is_named(&found, Confidence::Possibly), "{found:?}");
    let mut suspect = hot(Severity::Suspect);
    suspect.extend(
        ["media", "regulator"]
            .map(|part| reading(&format!("{part}-temperature"), "40 C", Severity::Good)),
    );
    let found = diagnosis(&suspect, healthy(), &slow);
    assert!(!is_named(&found, Confidence::Possibly), "{found:?}");
    assert!(!found.excluded.contains(&"over-temperature".to_owned()), "{found:?}");
    let mut narrow = hot(Severity::Bad);
    narrow.retain(|reading| reading.code != "pcie-width");
    narrow.push(reading("pcie-width", "x8", Severity::Bad));
    let found = diagnosis(&narrow, hot(Severity::Good), &bandwidths(0.55));
    assert!(names(&found, "pcie-narrow", Confidence::Because), "{found:?}");
    assert!(is_named(&found, Confidence::AlsoFound), "{found:?}");
}

/// Vector 30: what files prove is known, however busy the CPUs are.
#[test]
fn files_prove_causes_beside_busy_cpus() {
    let narrow = with("pcie-width", "x8", Severity::Bad);
    let late = TestFigures { is_late: true, ..TestFigures::default() };
    for measured in [[(TestCode::L1, late)].into(), busy(&[], 50, 5.0)] {
        let all = found(&narrow, &measured);
        assert_eq!(all[0], named("pcie-narrow", Confidence::Probably));
    }
    let mut lossy = healthy();
    lossy.push(reading("packets-lost", "60", Severity::Suspect));
    let all = found(&lossy, &busy(&[], 50, 5.0));
    assert_eq!(all[0], named("loss", Confidence::Probably));
}

/// Vector 19, beside CPUs so busy that no test fails in time.
#[test]
fn state_of_nic_explains_lost_packets() {
    let mut off = with("retry-handler", "off", Severity::Bad);
    off.push(reading("packets-lost", "60", Severity::Suspect));
    let all = found(&off, &busy(&[], 50, 5.0));
    assert_eq!(all[0], named("retry-off", Confidence::Probably));
    assert_eq!(all[1], named("loss", Confidence::Probably));
}

/// Vector 30, without files.
#[test]
fn busy_cpus_alone_are_no_cause() {
    let late = TestFigures { is_late: true, ..TestFigures::default() };
    let nothing = found(&healthy(), &[(TestCode::L1, late)].into());
    assert_eq!(nothing, [(None, Confidence::NotMeasured)]);
    let advice = |measured| diagnosis(&healthy(), &measured).whys[0].advice.clone();
    // Good NICs whose processes waited as long are as fast as ever, or all are as slow.
    for factor in [1.05, 5.0] {
        let all = found(&healthy(), &busy(&[], 50, factor));
        assert_eq!(all, [(None, Confidence::NotMeasured)], "{factor}");
        assert_eq!(advice(busy(&[], 50, factor)), None);
    }
    // Waiting makes this NIC slow, and good NICs have waited less.
    let all = found(&healthy(), &busy(&[], 10, 1.0));
    assert_eq!(all, [named("cpu-noise", Confidence::Possibly)]);
    let advice = advice(busy(&[], 10, 1.0)).unwrap();
    assert!(!advice.contains("drain"), "{advice}");
}

/// The smallest latencies show that the NIC itself is slow.
#[test]
fn slow_nic_on_busy_cpus_is_slow_because_of_itself() {
    let latencies = [
        TestCode::S,
        TestCode::L1,
        TestCode::L2,
        TestCode::L3,
        TestCode::L4,
        TestCode::P1,
        TestCode::P2,
    ];
    let slow = busy(&latencies.map(|code| (code, 3.0)), 50, 5.0);
    for (percent, factor) in [(50, 5.0), (50, 1.0), (10, 1.0)] {
        let slow = busy(&latencies.map(|code| (code, 3.0)), percent, factor);
        let found = diagnosis(&healthy(), &slow);
        assert!(!causes(&found).iter().any(|(id, _)| *id == Some("cpu-noise")));
        assert_ne!(found.whys[0].confidence, Confidence::NotMeasured);
    }
    let evidence = &diagnosis(&healthy(), &slow).whys[0].evidence;
    let text = "small writes in loopback (minimum)";
    assert!(evidence.iter().any(|item| item.text == text), "{evidence:?}");
}

/// Of measurements beside busy CPUs, most of them prove nothing, and files still do.
#[test]
fn disturbed_measurements_prove_no_cause() {
    use TestCode::{L1, L2, L3, L5, P1, P2, QP, S, T};
    let slow = [L1, P1, P2, QP].map(|code| (code, 2.0));
    let differences = [(L2, 3200.0 / 1800.0), (L3, 3300.0 / 1900.0), (L5, 2900.0 / 1500.0)];
    let cpu = [&slow[..], &differences, &[(S, 0.5), (T, 1.0)]].concat();
    assert_eq!(found(&healthy(), &measured(&cpu)), [named("cpu-slow", Confidence::Possibly)]);
    let disturbed = diagnosis(&healthy(), &busy(&cpu, 50, 5.0));
    assert_eq!(causes(&disturbed), [(None, Confidence::Unknown)]);
    assert_eq!(disturbed.whys[0].advice, None);
    let narrow = with("pcie-width", "x8", Severity::Bad);
    let mut halved = bandwidths(0.5);
    halved.retain(|(code, _)| *code != S);
    let all = found(&narrow, &busy(&halved, 0, 5.0));
    assert_eq!(all, [named("pcie-narrow", Confidence::Probably)]);
}
