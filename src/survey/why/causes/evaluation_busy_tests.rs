//! Vectors of diagnosis.md 8 about measurements beside busy CPUs.

use super::*;

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
