//! Surveys with known results, without load and with load.

use std::time::{Duration, SystemTime};

use super::{Setup, Survey, SurveyJob};
use campaign::quiet::answer::{Answer, CounterEvidence, Figures, PairResult, Stage};
use campaign::quiet::findings::{
    Aggregate, Cause, Certainty, Direction, Evidence, Findings, LimitSource, Population, Statistic,
    Test, UntestedPart,
};
use campaign::quiet::roster::{Nic, NicId, Node, NodeId, Pair, Roster, TestId, Unit};
use campaign::timetable::Watched;
use crew::location::{Class, Location};
use facts::error::Failure;
use health::majority::Difference;
use load::findings::{
    BandwidthFigures, Compared, CounterFigures, FarVictim, Grade, ImpactFigures, IsolationFigures,
    LeftOut, LoadFigure, LoadFindings, LoadJudgement, LoadSettings, LoadUnit, SetFigures, Spread,
    StarFigures,
};
use why::causes::cause::{Confidence, Observation, Why};
use why::culprits::Explanation;
use why::verdict::SharedValue;

/// The roster of 4 nodes, which have 2 NICs each and share 2 switches.
pub fn roster() -> Roster {
    let node = |rank| Node { host: format!("nid{:06}", 416 + rank), rank, absent: None };
    let nic = |index: u32| Nic {
        node: NodeId(index / 2),
        device: format!("cxi{}", index % 2),
        nid: Some(0x700 + index),
        location: Some(Location { group: 3, switch: 12 + (index / 4) as u16, port: None }),
        failure: None,
    };
    Roster {
        nodes: (0..4).map(node).collect(),
        nics: (0..8).map(nic).collect(),
        ..Roster::default()
    }
}

/// A latency test and a bandwidth test.
pub fn tests() -> Vec<Test> {
    [("write-lat", 8, false), ("write-bw", 1 << 20, true)]
        .map(|(tool, size_bytes, is_bandwidth)| Test {
            tool: tool.into(),
            size_bytes,
            of_bandwidth: is_bandwidth,
        })
        .into()
}

/// Returns what is known before the first pair.
pub fn setup() -> Setup {
    Setup {
        arguments: vec!["write-lat,write-bw".into(), "--pairs=random:3".into()],
        command_line: ["cxidiag", "survey", "write-lat,write-bw", "--pairs=random:3"]
            .map(str::to_owned)
            .into(),
        tests: tests(),
        pairs: "random:3".into(),
        seed: 7,
        pair_s: 0.1,
        launcher: "slurm".into(),
        job: Some(SurveyJob { manager: "slurm".into(), id: "1234".into(), step: Some("0".into()) }),
        processes: 4,
        ..Setup::default()
    }
}

/// The figures of a class in which all is good.
pub fn population(test: TestId, class: Class) -> Population {
    let is_bandwidth = test == TestId(1);
    let scale = if is_bandwidth { 1e7 } else { 1.0 };
    Population {
        test,
        class,
        figure: Statistic::Median,
        count: 24,
        unjudged: 0,
        outside: 0,
        failed: 0,
        min: 1800.0 * scale,
        percentiles: [1810.0, 1820.0, 1850.0, 1900.0, 1950.0, 1990.0, 2010.0]
            .map(|value| value * scale),
        max: 2100.0 * scale,
        median_low: Some(1880.0 * scale),
        median_high: Some(1920.0 * scale),
        sigma: 40.0 * scale,
        limit: Some(if is_bandwidth { 17.67e9 } else { 2470.0 }),
        biased: false,
        incomparable: false,
        sensitivity: Some(1.3),
        links_sensitivity: None,
        expected: None,
        histogram: Vec::new(),
    }
}

/// The verdict of a survey in which all is good.
pub fn good() -> Findings {
    Findings {
        populations: vec![
            population(TestId(0), Class::Switch),
            population(TestId(0), Class::Group),
            population(TestId(1), Class::Switch),
        ],
        planned: 84,
        answered: 84,
        ..Findings::default()
    }
}

/// The evidence of a slow NIC: 6 of 6 pairs.
pub fn evidence(test: TestId) -> Evidence {
    Evidence {
        test,
        class: Class::Switch,
        figure: Statistic::Median,
        outside: 6,
        measured: 6,
        value: Some(if test == TestId(1) { 9.5e9 } else { 3900.0 }),
        median: Some(if test == TestId(1) { 19e9 } else { 1900.0 }),
        limit: Some(if test == TestId(1) { 17.67e9 } else { 2470.0 }),
        source: LimitSource::Population,
        retries: None,
        usual_retries: None,
        failure: None,
    }
}

/// A cause with the evidence of a slow NIC.
pub fn cause(unit: Unit, certainty: Certainty) -> Cause {
    Cause {
        unit,
        certainty,
        direction: Direction::Initiator,
        evidence: vec![evidence(TestId(0))],
        counters: Vec::new(),
    }
}

/// The verdict of a survey with something of each kind.
pub fn mixed() -> Findings {
    let path = Pair { initiator: NicId(4), target: NicId(6) };
    let bad = Cause {
        evidence: vec![evidence(TestId(0)), evidence(TestId(1))],
        counters: vec![
            CounterEvidence {
                nic: NicId(3),
                counter: "pct_retry_srb_requests".into(),
                change: 1204,
            },
            CounterEvidence { nic: NicId(3), counter: "hni_tx_paused_0".into(), change: 40 },
            CounterEvidence { nic: NicId(3), counter: "hni_tx_paused_1".into(), change: 2 },
        ],
        ..cause(Unit::Nic(NicId(3)), Certainty::Bad)
    };
    let failing = Cause {
        direction: Direction::Both,
        evidence: vec![Evidence {
            value: None,
            limit: None,
            source: LimitSource::Failure,
            failure: Some("the NIC reported PT_DISABLED".into()),
            ..evidence(TestId(0))
        }],
        ..cause(Unit::Path(path), Certainty::Suspect)
    };
    let mut verdict = Findings {
        causes: vec![bad, failing, cause(Unit::Nic(NicId(0)), Certainty::Transient)],
        untested: vec![
            UntestedPart {
                pairs: 12,
                ..UntestedPart::new(Unit::Node(NodeId(3)), "no answer within 30 s")
            },
            UntestedPart {
                pairs: 6,
                ..UntestedPart::new(Unit::Nic(NicId(5)), "cannot open cxi1: no such device")
            },
        ],
        aggregates: vec![
            Aggregate {
                test: TestId(0),
                unit: Unit::Switch { group: 3, switch: 12 },
                count: 20,
                median: 1900.0,
                worst: 3950.0,
                outside: 6,
            },
            Aggregate {
                test: TestId(0),
                unit: Unit::Switch { group: 3, switch: 13 },
                count: 20,
                median: 1900.0,
                worst: 2010.0,
                outside: 0,
            },
        ],
        outside: vec![result()],
        answered: 66,
        ..good()
    };
    verdict.populations[0].outside = 6;
    verdict.populations[0].expected = Some(2500.0);
    verdict.populations[1].limit = None;
    verdict
}

/// The result of one slow pair.
pub fn result() -> PairResult {
    PairResult {
        test: TestId(0),
        pair: Pair { initiator: NicId(3), target: NicId(0) },
        stage: Stage::Sweep,
        round: 2,
        active: 4,
        answer: Answer::Measured(Figures::Latency {
            count: 5000,
            min_ns: 3500,
            p5_ns: Some(3600),
            median_ns: 3900,
            p90_ns: Some(4400),
            p99_ns: Some(5100),
            max_ns: 9000,
        }),
        waited_percent: 0,
        counters: vec![CounterEvidence {
            nic: NicId(3),
            counter: "pct_retry_srb_requests".into(),
            change: 17,
        }],
    }
}

pub fn survey(verdict: Findings, end: Result<(), &Failure>) -> Survey {
    let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let took = Duration::from_millis(12_345);
    Survey::new(setup(), started, took, roster(), verdict, None, end)
}

/// A good survey with these findings under load.
pub fn loaded(load: LoadFindings) -> Survey {
    let good = survey(good(), Ok(()));
    let started = SystemTime::UNIX_EPOCH + Duration::from_millis(good.started_unix_ms);
    let took = Duration::from_millis(good.elapsed_ms);
    Survey::new(good.setup, started, took, good.roster, good.verdict, Some(load), Ok(()))
}

/// An item as evidence.
pub fn item(text: &str) -> Observation {
    Observation {
        test: "pcie-width".into(),
        text: text.into(),
        own: None,
        others: None,
        unit: None,
        expected: None,
        contradicts: false,
    }
}

/// The figures of a test as evidence.
pub fn figures(own: f64, others: f64, unit: &str, contradicts: bool) -> Observation {
    Observation {
        test: "B1".into(),
        own: Some(own),
        others: Some(others),
        unit: Some(unit.into()),
        contradicts,
        ..item("large writes in loopback")
    }
}

/// A cause.
pub fn why(confidence: Confidence, evidence: Vec<Observation>) -> Why {
    Why {
        cause: Some("pcie-narrow".into()),
        confidence,
        what: Some("a PCIe link runs with fewer lanes than both of its ends have".into()),
        evidence,
        advice: Some("reboot the node".into()),
        by: Some("hands".into()),
    }
}

/// A value that three culprits share.
pub fn shared_value() -> SharedValue<Unit> {
    SharedValue {
        culprits: [3, 4, 5].map(|nic| Unit::Nic(NicId(nic))).into(),
        of_culprits: 3,
        attribute: "driver".into(),
        name: "driver".into(),
        value: "1.9".into(),
        normal: "1.8".into(),
        others: 0,
        of_others: 5,
        chance: 1.0 / 56.0,
    }
}

/// Returns what is known about a culprit, with every kind of value.
pub fn explanation() -> Explanation {
    let evidence = vec![
        item("PCIe width x8, expected x16"),
        Observation {
            expected: Some("0.08 to 0.7 of good NICs".into()),
            ..figures(13.9e9, 25.1e9, "B/s", false)
        },
    ];
    Explanation {
        culprit: Unit::Nic(NicId(3)),
        nic: Some(NicId(3)),
        controls: vec![NicId(0), NicId(1)],
        causes: vec![why(Confidence::Because, evidence)],
        differs: vec![Difference {
            attribute: "pcie-width".into(),
            name: "PCIe width".into(),
            own: "x8".into(),
            normal: "x16".into(),
            with_normal: 7,
            of: 7,
            supports: true,
        }],
        excluded: vec!["pcie-slow".into()],
        not_excluded: Vec::new(),
        same_as: Some(Unit::Nic(NicId(2))),
        left_out: Some("2 of 28 measurements, in which processes waited for CPUs".into()),
    }
}

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

/// The figures of a pattern in which all is good.
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

/// The bandwidth of links from one group to another, as a ratio to the median.
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

/// Latencies of 1.9 us without load and `impact` times as much under load.
pub fn compared(impact: f64) -> Compared {
    Compared {
        quiet: 1900.0,
        loaded: 1900.0 * impact,
        impact,
        interval: Some((impact - 0.04, impact + 0.05)),
    }
}

/// The figures of victims.
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

/// A judgement without evidence.
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

/// Findings with something of each kind.
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
