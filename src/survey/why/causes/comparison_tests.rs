//! Comparisons of figures that are known.

use super::*;

fn figures(is_bandwidth: bool, own: &[f64], others: &[f64]) -> TestFigures {
    TestFigures { is_bandwidth, own: own.into(), others: others.into(), ..TestFigures::default() }
}

fn outcome_of(code: TestCode, figures: TestFigures) -> Compared {
    compare(&[(code, figures)].into())[0].outcome
}

#[test]
fn compares_bandwidths_by_their_share() {
    let compared = |own: &[f64]| outcome_of(TestCode::B1, figures(true, own, &[100.0, 96.0]));
    assert_eq!(compared(&[93.0]), Compared::Same);
    assert_eq!(compared(&[92.0]), Compared::Unclear);
    assert_eq!(compared(&[81.0]), Compared::Slower);
    // The second measurement was as fast as good NICs.
    assert_eq!(compared(&[55.0, 95.0]), Compared::Unclear);
}

#[test]
fn compares_latencies_by_ratio_and_difference() {
    let compared = |own: &[f64]| outcome_of(TestCode::L1, figures(false, own, &[1400.0, 1450.0]));
    assert_eq!(compared(&[1600.0]), Compared::Same);
    assert_eq!(compared(&[1700.0]), Compared::Unclear);
    assert_eq!(compared(&[1900.0]), Compared::Slower);
    // A difference below 100 ns says nothing, whatever the ratio.
    let short = figures(false, &[290.0], &[200.0]);
    assert_eq!(outcome_of(TestCode::L1, short), Compared::Same);
}

#[test]
fn compares_tails_more_coarsely() {
    let compared = |own: f64| {
        let tail = |beyond| Tail { p99: 1400.0 + beyond, median: 1400.0 };
        let tails = TestFigures {
            own_tails: vec![tail(own)],
            others_tails: vec![tail(2000.0), tail(2200.0)],
            ..figures(false, &[1400.0], &[1400.0])
        };
        let measured = [(TestCode::L1, tails)].into();
        let all = compare(&measured);
        let found = all.iter().find(|comparison| comparison.column == Column::Tail).unwrap();
        // The figure is the 99th percentile, not the difference.
        assert_eq!((found.own, found.others), (1400.0 + own, 3400.0));
        assert_eq!(own_figure(Column::Tail, &measured), Some(1400.0 + own));
        found.outcome
    };
    assert_eq!(compared(3000.0), Compared::Same);
    assert_eq!(compared(4300.0), Compared::Unclear);
    assert_eq!(compared(4400.0), Compared::Slower);
}

fn floors(values: &[f64]) -> Vec<Floor> {
    values.iter().map(|min: &f64| Floor { min: *min, p5: min * 1.1 }).collect()
}

fn waiting(percent: u8, figures: &[f64]) -> Vec<DelayedMeasurement> {
    let values = figures.iter().copied();
    values.map(|value| DelayedMeasurement { percent, value }).collect()
}

/// Medians beside busy CPUs can be anything: the smallest latencies and the 5th percentiles
/// must agree.
#[test]
fn compares_floors_of_latencies_beside_busy_cpus() {
    let value_for = |own_floors: Vec<Floor>| {
        let busy = TestFigures {
            own_waiting: waiting(50, &[90_000.0]),
            own_floors,
            others_floors: floors(&[41_000.0, 42_000.0]),
            ..figures(false, &[], &[42_000.0])
        };
        let found = compare(&[(TestCode::L1, busy)].into())[0];
        assert!(found.is_beside_busy);
        (found.own, found.others, found.outcome)
    };
    let expected = (120_000.0, 41_000.0, Compared::Slower);
    assert_eq!(value_for(floors(&[120_000.0, 125_000.0])), expected);
    assert_eq!(value_for(floors(&[42_000.0])).2, Compared::Same);
    let waited = vec![Floor { min: 41_500.0, p5: 200_000.0 }];
    assert_eq!(value_for(waited).2, Compared::Unclear);
}

#[test]
fn compares_bounds_of_bandwidths_beside_busy_cpus() {
    let compared = |percent, own: f64| {
        let busy =
            TestFigures { own_waiting: waiting(percent, &[own]), ..figures(true, &[], &[100.0]) };
        let found = compare(&[(TestCode::B1, busy)].into())[0];
        assert_eq!((found.own, found.others), (own, 100.0));
        found.outcome
    };
    // Without waiting for a tenth of the time, 62 at most.
    assert_eq!(compared(10, 50.0), Compared::Slower);
    assert_eq!(compared(50, 50.0), Compared::Unclear);
    assert_eq!(compared(100, 50.0), Compared::Unclear);
    assert_eq!(compared(50, 95.0), Compared::Same);
}

#[test]
fn figures_of_processes_with_cpus_count_first() {
    let both = TestFigures {
        own_waiting: waiting(50, &[90_000.0]),
        own_floors: floors(&[120_000.0]),
        others_floors: floors(&[41_000.0]),
        ..figures(false, &[43_000.0], &[42_000.0])
    };
    let found = compare(&[(TestCode::L1, both)].into())[0];
    assert!(!found.is_beside_busy);
    assert_eq!((found.own, found.outcome), (43_000.0, Compared::Same));
}

#[test]
fn waiting_makes_slow_unless_good_nics_wait_as_long() {
    let compared = |others_waiting: Vec<DelayedMeasurement>| {
        let busy = TestFigures {
            own_waiting: waiting(40, &[90_000.0]),
            others_waiting,
            ..figures(false, &[], &[42_000.0])
        };
        let all = compare(&[(TestCode::L1, busy)].into());
        let found = all.iter().find(|comparison| comparison.column == Column::Waiting);
        found.map(|comparison| comparison.outcome)
    };
    assert_eq!(compared(Vec::new()), Some(Compared::Slower));
    assert_eq!(compared(waiting(40, &[85_000.0])), Some(Compared::Slower));
    assert_eq!(compared(waiting(40, &[44_000.0])), Some(Compared::Same));
    // This good NIC had more of its CPU.
    assert_eq!(compared(waiting(30, &[44_000.0])), Some(Compared::Slower));
}

#[test]
fn compares_what_a_test_adds_to_another() {
    let addition = |own: f64| {
        let measured = [
            (TestCode::L1, figures(false, &[1500.0], &[1400.0])),
            (TestCode::L2, figures(false, &[1500.0 + own], &[1700.0])),
        ];
        let all = compare(&measured.into());
        let found = all.iter().find(|comparison| comparison.column == Column::HostRead);
        found.map(|comparison| comparison.outcome).unwrap()
    };
    assert_eq!(addition(300.0), Compared::Same);
    assert_eq!(addition(380.0), Compared::Unclear);
    assert_eq!(addition(1300.0), Compared::Slower);
}

#[test]
fn additions_within_noise_of_long_latencies_say_nothing() {
    let measured = [
        (TestCode::L1, figures(false, &[20000.0], &[20000.0])),
        (TestCode::L2, figures(false, &[21400.0], &[20400.0])),
    ];
    let all = compare(&measured.into());
    let found = all.iter().find(|comparison| comparison.column == Column::HostRead);
    assert_eq!(found.map(|comparison| comparison.outcome), Some(Compared::Unclear));
}

/// Compares hops that take `more` than `usual` ones. Writes take `longer` than 2400 ns.
fn hop(longer: f64, usual: f64, more: &[f64]) -> Compared {
    let own: Vec<f64> = more.iter().map(|more| usual + more).collect();
    let measured = [
        (TestCode::P1, figures(false, &[2400.0 + longer], &[2400.0, 2410.0])),
        (TestCode::T, figures(false, &own, &[usual, usual + 5.0])),
    ];
    let all = compare(&measured.into());
    let found = all.iter().find(|comparison| comparison.column == Column::Hop).unwrap();
    assert!((found.own - own[0]).abs() < 1e-6 && found.others == usual, "{found:?}");
    found.outcome
}

#[test]
fn hops_explain_slow_writes_or_do_not() {
    use Compared::{Same, Slower, Unclear};
    // Two hops explain all of it, or nothing.
    assert_eq!(hop(1600.0, 1200.0, &[800.0]), Slower);
    assert_eq!(hop(1600.0, 1200.0, &[20.0, 30.0]), Same);
    // One of the chains was as fast as on good NICs.
    assert_eq!(hop(1600.0, 1200.0, &[20.0, 800.0]), Unclear);
    // NIC or link are slow, and something else is slower.
    assert_eq!(hop(8000.0, 1200.0, &[1200.0]), Unclear);
    // The CPU takes 100 us longer, and has a part in each chain.
    assert_eq!(hop(100e3, 1200.0, &[100e3 / 12.0]), Same);
    // Neither slower nor as fast, and as fast with most of what the writes take longer.
    assert_eq!(hop(800.0, 1200.0, &[240.0]), Unclear);
    assert_eq!(hop(800.0, 2400.0, &[300.0]), Unclear);
    // Writes are as fast as on good NICs.
    assert_eq!(hop(100.0, 1200.0, &[800.0]), Unclear);
}

/// Hops read memory, writes of P1 do not.
#[test]
fn slow_reads_of_memory_explain_slow_hops() {
    let hop = |read| {
        let measured = [
            (TestCode::L1, figures(false, &[1800.0], &[1800.0, 1810.0])),
            (TestCode::L2, figures(false, &[1800.0 + read], &[2300.0, 2310.0])),
            (TestCode::P1, figures(false, &[4000.0], &[2400.0, 2410.0])),
            (TestCode::T, figures(false, &[2000.0], &[1200.0, 1205.0])),
        ];
        let all = compare(&measured.into());
        all.iter().find(|comparison| comparison.column == Column::Hop).unwrap().outcome
    };
    assert_eq!(hop(500.0), Compared::Slower);
    assert_eq!(hop(1500.0), Compared::Unclear);
}

#[test]
fn compares_floors_of_hops_beside_busy_cpus() {
    let compared = |own: Floor| {
        let busy = TestFigures {
            own_waiting: waiting(50, &[9000.0]),
            own_floors: vec![own],
            others_floors: floors(&[1200.0]),
            ..figures(false, &[], &[1200.0])
        };
        let writes = figures(false, &[4000.0], &[2400.0]);
        let all = compare(&[(TestCode::P1, writes), (TestCode::T, busy)].into());
        let found = all.iter().find(|comparison| comparison.column == Column::Hop).unwrap();
        assert!(found.is_beside_busy);
        found.outcome
    };
    assert_eq!(compared(Floor { min: 2000.0, p5: 2200.0 }), Compared::Slower);
    assert_eq!(compared(Floor { min: 1220.0, p5: 1350.0 }), Compared::Same);
    assert_eq!(compared(Floor { min: 1220.0, p5: 2200.0 }), Compared::Unclear);
}

/// The latencies of a good NIC beside programs that run now and then, in nanoseconds: after a
/// pause, most operations find empty caches. A CPU that sleeps deeply makes each of them late.
#[test]
fn programs_that_run_in_pauses_are_no_sleep() {
    let latencies = |(own, least): (f64, f64), (others, others_least): (f64, f64)| TestFigures {
        own_floors: vec![Floor { min: least, p5: least }],
        others_floors: vec![Floor { min: others_least, p5: others_least }],
        ..figures(false, &[own], &[others])
    };
    let writes = latencies((42_400.0, 42_100.0), (42_200.0, 42_000.0));
    let compared = |paused| {
        let all = compare(&[(TestCode::L1, writes.clone()), (TestCode::L5, paused)].into());
        let found = all.iter().find(|comparison| comparison.column == Column::Pause).unwrap();
        found.outcome
    };
    let pause = |own| latencies(own, (43_300.0, 42_600.0));
    assert_eq!(compared(pause((43_500.0, 42_700.0))), Compared::Same);
    assert_eq!(compared(pause((50_800.0, 42_700.0))), Compared::Unclear);
    assert_eq!(compared(pause((93_000.0, 92_000.0))), Compared::Slower);
    // Of a process that waits for its CPU, also the fastest operations are late after pauses.
    let busy =
        |own| TestFigures { own: vec![], own_waiting: waiting(50, &[60_000.0]), ..pause(own) };
    assert_eq!(compared(busy((43_500.0, 42_700.0))), Compared::Same);
    assert_eq!(compared(busy((93_000.0, 92_000.0))), Compared::Unclear);
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

/// A list of 2 MiB takes 210 us on good NICs. A NIC at the end of a longer link needs as much
/// longer for a list as for a small write.
#[test]
fn longer_latency_explains_lower_bandwidth() {
    let compared = |latency: f64, share: f64| {
        let writes = figures(false, &[latency], &[1400.0, 1450.0]);
        let bandwidth = figures(true, &[share * 10e9], &[10e9, 9.9e9]);
        let all = compare(&[(TestCode::L1, writes), (TestCode::B1, bandwidth)].into());
        let found = all.iter().find(|found| found.column == Column::WriteBandwidth).unwrap();
        assert_eq!((found.own, found.others), (share * 10e9, 10e9));
        found.outcome
    };
    assert_eq!(compared(1400.0, 0.512), Compared::Slower);
    assert_eq!(compared(201_400.0, 0.512), Compared::Same);
    // As many bytes are on the way for longer, or fewer than an operation has.
    assert_eq!(compared(201_400.0, 0.3), Compared::Unclear);
    assert_eq!(compared(201_400.0, 0.03), Compared::Slower);
    assert_eq!(compared(1900.0, 0.7), Compared::Slower);
}
