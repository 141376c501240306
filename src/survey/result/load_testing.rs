//! Findings under load with known values.

use super::testing::tests;
use campaign::quiet::answer::Pair;
use campaign::quiet::findings::Certainty;
use campaign::quiet::ids::NicId;
use campaign::timetable::Watched;
use crew::location::Class;
use load::findings::{
    BandwidthFigures, Compared, CounterFigures, FarVictim, Grade, ImpactFigures, IsolationFigures,
    LeftOut, LoadFigure, LoadFindings, LoadJudgement, LoadSettings, LoadUnit, SetFigures, Spread,
    StarFigures,
};

pub fn settings() -> LoadSettings {
    LoadSettings {
        patterns: "standard".into(),
        nics: 8,
        most_aggressors: 8,
        is_partial: false,
        size_bytes: 64 << 10,
        window_bytes: 1 << 20,
        slot_s: 0.25,
        slots: 408,
        seed: 7,
    }
}

/// Returns the figures of a pattern in which all is good.
pub fn bandwidth(pattern: &str) -> BandwidthFigures {
    BandwidthFigures {
        pattern: pattern.into(),
        slots: 8,
        nics: 8,
        unjudged: 0,
        mean: 21.5e9,
        sum: 172e9,
        min: 20.9e9,
        p1: 20.95e9,
        percentiles: [20.95e9, 21e9, 21.3e9, 21.5e9, 21.7e9, 21.9e9, 22e9],
        theory: Some(22.9e9),
        share_of_theory: Some(0.94),
        ratio_to_quiet: Some(0.98),
        sets: Vec::new(),
        stars: Vec::new(),
        grade: Grade::Good,
    }
}

/// Returns the bandwidth of links from one group to another, as a ratio to the median.
pub fn links(from: u16, to: u16, ratio: f64) -> SetFigures {
    SetFigures {
        unit: LoadUnit::GroupLinks { from, to, both: false },
        flows: 16,
        per_flow: 21.5e9 * ratio,
        ratio,
        theory: Some(22.9e9),
        grade: match ratio {
            0.9.. => Grade::Good,
            0.8.. => Grade::Slow,
            _ => Grade::Bad,
        },
    }
}

pub fn star(target: u32, smallest_share: f64) -> StarFigures {
    StarFigures {
        target: NicId(target),
        sources: 8,
        sum: 21.2e9,
        ratio_to_quiet: Some(0.96),
        fairness: 0.99,
        smallest_share,
        grade: Grade::Good,
    }
}

/// Returns latencies of 1.9 us without load and `impact` times as much under load.
pub fn compared(impact: f64) -> Compared {
    Compared {
        quiet: 1900.0,
        loaded: 1900.0 * impact,
        impact,
        interval: Some((impact - 0.04, impact + 0.05)),
    }
}

/// Returns the figures of victims.
pub fn impact(under: &str, spread: Spread, class: Option<Class>) -> ImpactFigures {
    let histogram = |shift: f64| {
        let bins = (0..40).map(|bin| (1800.0 * 1.01f64.powi(bin) * shift, 1 << (20 - bin / 2)));
        bins.collect::<Vec<(f64, u64)>>()
    };
    ImpactFigures {
        under: under.into(),
        spread,
        test: tests()[0].clone(),
        traffic_class: None,
        class,
        victims: 24,
        unjudged: 0,
        resolution: 1.04,
        median: compared(1.1),
        p99: Some(compared(1.3)),
        p999: Some(compared(1.8)),
        far_above: Vec::new(),
        quiet_histogram: histogram(1.0),
        loaded_histogram: histogram(1.1),
        grade: Grade::Good,
    }
}

/// Returns a judgement without evidence.
pub fn judgement(
    unit: LoadUnit,
    figure: LoadFigure,
    grade: Grade,
    certainty: Option<Certainty>,
) -> LoadJudgement {
    LoadJudgement {
        unit,
        grade,
        certainty,
        pattern: "bisect:switch".into(),
        figure,
        value: 0.44,
        limit: 0.9,
        evidence: Vec::new(),
        direction: None,
    }
}

/// The switch of the NICs 0 to 3.
pub const SWITCH: LoadUnit = LoadUnit::Switch { group: 3, switch: 12 };

pub fn good_load() -> LoadFindings {
    LoadFindings {
        settings: settings(),
        quiet_bandwidth: Some(21.9e9),
        bandwidths: vec![bandwidth("bisect:switch")],
        impacts: vec![impact("all2all", Spread::Mixed, None)],
        ..LoadFindings::default()
    }
}

/// Returns findings with something of each kind.
pub fn mixed_load() -> LoadFindings {
    let slow_links = LoadUnit::GroupLinks { from: 0, to: 2, both: false };
    let bad = LoadJudgement {
        evidence: vec![
            "8 of 8 flows at this switch are slow, 0 of 24 at others".into(),
            "no pauses, no timeouts".into(),
        ],
        ..judgement(SWITCH, LoadFigure::Bandwidth, Grade::Bad, Some(Certainty::Bad))
    };
    let suspect = LoadJudgement {
        pattern: "bisect:system".into(),
        value: 0.25,
        ..judgement(slow_links, LoadFigure::Bandwidth, Grade::Bad, Some(Certainty::Suspect))
    };
    let transient = judgement(
        LoadUnit::Nic(NicId(2)),
        LoadFigure::Bandwidth,
        Grade::Bad,
        Some(Certainty::Transient),
    );
    let slow = LoadJudgement {
        pattern: "incast:8".into(),
        value: 0.12,
        limit: 0.01,
        ..judgement(LoadUnit::Nic(NicId(5)), LoadFigure::TargetPauses, Grade::Slow, None)
    };
    let system = BandwidthFigures {
        unjudged: 1,
        min: 5.4e9,
        sets: vec![links(0, 2, 0.25), links(2, 0, 0.85), links(0, 1, 1.0)],
        ..bandwidth("bisect:system, both ways")
    };
    let incast = BandwidthFigures {
        mean: 2.65e9,
        min: 2.6e9,
        sum: 21.2e9,
        theory: None,
        share_of_theory: None,
        stars: vec![star(5, 0.62), star(1, 0.97)],
        grade: Grade::Slow,
        ..bandwidth("incast:8")
    };
    let unknown = BandwidthFigures {
        theory: None,
        share_of_theory: None,
        ratio_to_quiet: None,
        grade: Grade::Unjudged,
        ..bandwidth("shift")
    };
    let few = ImpactFigures {
        median: Compared { interval: None, ..compared(131.0) },
        p99: None,
        p999: None,
        victims: 4,
        traffic_class: Some("LOW_LATENCY".into()),
        grade: Grade::Unjudged,
        ..impact("incast-same:8", Spread::Groups, None)
    };
    let far = FarVictim {
        pair: Pair { initiator: NicId(0), target: NicId(1) },
        impact: 3.0,
        quiet_ratio: 1.02,
    };
    let isolation = |isolation, same| IsolationFigures {
        under: "incast:32".into(),
        traffic_class: "LOW_LATENCY".into(),
        same,
        other: 1.1,
        isolation,
        grade: Grade::Good,
    };
    LoadFindings {
        judgements: vec![bad, suspect, transient, slow],
        bandwidths: vec![bandwidth("bisect:switch"), system, incast, unknown],
        impacts: vec![
            ImpactFigures {
                far_above: vec![far],
                ..impact("all2all", Spread::Mixed, Some(Class::Switch))
            },
            impact("all2all", Spread::Switches, None),
            few,
        ],
        isolations: vec![isolation(Some(0.95), 3.0), isolation(None, 1.1)],
        counters: vec![
            CounterFigures {
                pattern: "incast:8".into(),
                aggressors: vec![
                    (Watched::TxPaused, 1_200_000_000),
                    (Watched::RxPaused, 0),
                    (Watched::Refused, 1204),
                    (Watched::Marked, 3_000),
                    (Watched::Unmarked, 97_000),
                ],
                victims: vec![
                    (Watched::TxPaused, 2_100_000),
                    (Watched::Timeouts, 3),
                    (Watched::Retries, 3),
                ],
            },
            CounterFigures {
                pattern: "all2all".into(),
                aggressors: vec![(Watched::RxPaused, 0), (Watched::Unmarked, 5)],
                victims: Vec::new(),
            },
        ],
        left_out: vec![LeftOut { what: "incast:32".into(), reason: "only 8 NICs".into() }],
        ..good_load()
    }
}
