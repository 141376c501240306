//! Vectors of diagnosis.md 8 about hosts and about settings that only differ.

use super::*;

/// Returns the causes of a culprit whose item has another value than on seven good NICs.
fn beside(code: &str, own: &str, others: &str, factors: &[(TestCode, f64)]) -> Diagnosis {
    let culprit = with(code, own, State::Shown);
    let others = vec![with(code, others, State::Shown); 7];
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
    let mut slow = with("pcie-speed", "8.0 GT/s", State::Bad);
    slow.iter_mut()
        .for_each(|of| of.share = of.share.or((of.state == State::Bad).then_some(0.5)));
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
        let found = beside(
            code,
            own,
            others,
            &[(TestCode::S, 0.5), (TestCode::L1, 2.0)],
        );
        assert_eq!(found.differs[0].attribute, code);
        assert!(!names(&found, id, Confidence::Because), "{id}");
        assert!(!names(&found, id, Confidence::Probably), "{id}");
    }
}

/// Vector 9.
#[test]
fn idle_states_that_differ_make_pauses_long() {
    let slow = [(TestCode::S, 0.5), (TestCode::L5, 30.0)];
    let found = beside("idle-states", "C6, 133 us", "C1, 2 us", &slow);
    assert_eq!(causes(&found), [(Some("cpu-sleep"), Confidence::Because)]);
}

/// Vector 12.
#[test]
fn less_memory_with_less_bandwidth_is_the_cause() {
    let found = beside("memory-size", "448.0 GiB", "512.0 GiB", &bandwidths(0.7));
    assert_eq!(causes(&found), [(Some("memory-bw"), Confidence::Because)]);
}

/// Vector 17.
#[test]
fn errors_without_effect_are_also_found() {
    let errors = with("fec-corrected", "BER 2e-6", State::Suspect);
    let all = found(
        &errors,
        &measured(&[(TestCode::S, 0.5), (TestCode::L1, 2.0)]),
    );
    assert!(
        all.contains(&named("link-errors", Confidence::AlsoFound)),
        "{all:?}"
    );
}

/// Vector 36, without latencies that depend on the CPU.
#[test]
fn far_cpus_without_effect_are_also_found() {
    let far = with("numa", "1 (CPUs 8-15)", State::Suspect);
    let all = found(&far, &measured(&[(TestCode::S, 0.5), (TestCode::P1, 2.0)]));
    assert!(
        all.contains(&named("numa", Confidence::AlsoFound)),
        "{all:?}"
    );
}
