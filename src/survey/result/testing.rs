//! Surveys with known results.

use std::time::{Duration, SystemTime};

use super::{Setup, Survey, SurveyJob};
use campaign::quiet::answer::{Answer, CounterEvidence, Figures, Pair, PairResult, Stage};
use campaign::quiet::findings::{
    Aggregate, Cause, Certainty, Direction, Evidence, Findings, LimitSource, Population, Statistic,
    Test, Unit, UntestedPart,
};
use campaign::quiet::ids::{NicId, NodeId, TestId};
use campaign::quiet::roster::{Nic, Node, Roster};
use crew::location::{Class, Location};
use facts::error::Failure;
use health::majority::Difference;
use load::findings::LoadFindings;
use why::causes::cause::{Confidence, Observation, Why};
use why::culprits::Explanation;
use why::verdict::SharedValue;

/// Returns the roster of 4 nodes, which have 2 NICs each and share 2 switches.
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

/// Returns a latency test and a bandwidth test.
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

/// Returns the figures of a class in which all is good.
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

/// Returns the verdict of a survey in which all is good.
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

/// Returns the evidence of a slow NIC: 6 of 6 pairs.
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

/// Returns a cause with the evidence of a slow NIC.
pub fn cause(unit: Unit, certainty: Certainty) -> Cause {
    Cause {
        unit,
        certainty,
        direction: Direction::Initiator,
        evidence: vec![evidence(TestId(0))],
        counters: Vec::new(),
    }
}

/// Returns the verdict of a survey with something of each kind.
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

/// Returns the result of one slow pair.
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

/// Returns a good survey with these findings under load.
pub fn loaded(load: LoadFindings) -> Survey {
    let good = survey(good(), Ok(()));
    let started = SystemTime::UNIX_EPOCH + Duration::from_millis(good.started_unix_ms);
    let took = Duration::from_millis(good.elapsed_ms);
    Survey::new(good.setup, started, took, good.roster, good.verdict, Some(load), Ok(()))
}

/// Returns an item as evidence.
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

/// Returns the figures of a test as evidence.
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

/// Returns a cause.
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

/// Returns a value that three culprits share.
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
