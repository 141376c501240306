//! Tests of whole surveys on the model of a cluster: the planted fault is named, and nothing else.

use super::answer::{Answer, Pair, PairResult, Stage};
use super::conductor::{Conductor, Settings};
use super::pairs::parse;
use super::rounds::NicOrder;
use super::testing::{Cluster, Effect, Fault};
use super::verdict::{Culprit, Direction, LimitSource, Unit, Verdict, Word};

fn settings(pairs: &str, seed: u64) -> Settings {
    Settings {
        selections: parse(pairs, |path| Err(path.to_owned())).unwrap(),
        nics: NicOrder::InTurn,
        most_active: None,
        seed,
        expectations: Vec::new(),
        keep_figures: None,
    }
}

fn survey(cluster: &mut Cluster, pairs: &str, seed: u64) -> Verdict {
    let settings = settings(pairs, seed);
    let mut conductor =
        Conductor::new(cluster.roster.clone(), cluster.tests.clone(), settings).unwrap();
    cluster.run(&mut conductor);
    let verdict = conductor.verdict();
    assert_eq!(verdict.answered, verdict.planned);
    verdict
}

/// Returns the parts that are bad or suspect.
fn named(verdict: &Verdict) -> Vec<(Unit, Word, Direction)> {
    let lasting = verdict
        .culprits
        .iter()
        .filter(|culprit| culprit.word != Word::Transient);
    lasting
        .map(|culprit| (culprit.unit, culprit.word, culprit.direction))
        .collect()
}

struct Plan {
    name: &'static str,
    shape: [u16; 4],
    pairs: &'static str,
    fault: Fault,
}

/// Counts the seeds of each plan for which exactly the planted part is named.
fn check(plans: &[Plan], noise: f64, spikes: f64, factor: f64, seeds: u64) {
    let mut wrong = Vec::new();
    for plan in plans {
        for seed in 0..seeds {
            let mut cluster = Cluster::new(plan.shape, &["write-lat"], seed);
            (cluster.noise, cluster.spikes) = (noise, spikes);
            let mut fault = plan.fault;
            if let Effect::Slow(_) = fault.effect {
                fault.effect = Effect::Slow(factor);
            }
            cluster.faults.push(fault);
            let found = named(&survey(&mut cluster, plan.pairs, seed));
            if found != [(fault.unit, Word::Bad, fault.direction)] {
                wrong.push(format!(
                    "{} {:?} {} seed {seed}: {found:?}",
                    plan.name, plan.shape, plan.pairs
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn plans() -> Vec<Plan> {
    use Direction::{Both, Initiator, Target};
    let slow = |unit, direction| Fault::slow(unit, direction, 2.0);
    let nic = Unit::Nic(1);
    let fails = Fault {
        unit: nic,
        direction: Both,
        effect: Effect::Fails,
    };
    let plan = |name, shape, pairs, fault| Plan {
        name,
        shape,
        pairs,
        fault,
    };
    let small = [0, 0, 4, 1];
    let racks = [4, 4, 8, 1];
    let (from, to) = (3, 5);
    let path = Unit::Path(Pair {
        initiator: from,
        target: to,
    });
    vec![
        plan("nic", small, "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 5, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 6, 1], "random:3", slow(nic, Both)),
        plan("nic", [0, 0, 7, 1], "random:4", slow(nic, Both)),
        plan("nic", [0, 0, 8, 1], "random:3", slow(nic, Both)),
        plan("nic", racks, "random:4", slow(nic, Both)),
        plan("nic", racks, "halves", slow(nic, Both)),
        plan(
            "nic as initiator",
            [0, 0, 4, 1],
            "random:4",
            slow(nic, Initiator),
        ),
        plan(
            "nic as initiator",
            [0, 0, 8, 1],
            "random:4",
            slow(nic, Initiator),
        ),
        plan("nic as initiator", racks, "random:4", slow(nic, Initiator)),
        plan("nic as target", [0, 0, 8, 1], "random:4", slow(nic, Target)),
        plan("nic as target", racks, "random:4", slow(nic, Target)),
        plan("failing nic", small, "random:4", fails),
        plan("failing nic", [0, 0, 8, 1], "random:4", fails),
        plan("failing nic", racks, "random:4", fails),
        plan("one nic of four", [0, 0, 8, 4], "random:4", slow(nic, Both)),
        plan("node", [0, 0, 8, 2], "random:4", slow(Unit::Node(2), Both)),
        plan("node", [2, 2, 4, 4], "random:4", slow(Unit::Node(2), Both)),
        plan(
            "switch",
            racks,
            "random:4",
            slow(
                Unit::Switch {
                    group: 1,
                    switch: 2,
                },
                Both,
            ),
        ),
        plan(
            "switch",
            racks,
            "within-switch,switches",
            slow(
                Unit::Switch {
                    group: 1,
                    switch: 2,
                },
                Both,
            ),
        ),
        plan(
            "group",
            [6, 2, 8, 1],
            "random:4",
            slow(Unit::Group(3), Both),
        ),
        plan(
            "group pair",
            [4, 2, 8, 1],
            "random:4",
            slow(Unit::GroupPair(1, 3), Both),
        ),
        plan(
            "group pair",
            [5, 2, 8, 1],
            "groups",
            slow(Unit::GroupPair(1, 3), Both),
        ),
        plan("path", [0, 0, 8, 1], "all", slow(path, Both)),
    ]
}

#[test]
fn names_planted_fault_on_quiet_cluster() {
    check(&plans(), 0.03, 0.0, 1.6, 20);
}

#[test]
fn names_planted_fault_on_noisy_cluster() {
    check(&plans(), 0.2, 0.01, 6.0, 20);
}

#[test]
fn names_nothing_on_clean_cluster() {
    let mut wrong = Vec::new();
    for (shape, pairs) in [
        ([0, 0, 4, 1], "random:4"),
        ([0, 0, 8, 1], "random:4"),
        ([0, 0, 8, 1], "all"),
        ([2, 2, 4, 2], "random:4"),
        ([4, 4, 8, 1], "random:4"),
    ] {
        for (noise, spikes) in [(0.03, 0.0), (0.03, 0.01), (0.3, 0.02)] {
            for seed in 0..50 {
                let mut cluster = Cluster::new(shape, &["write-lat", "write-bw"], seed);
                (cluster.noise, cluster.spikes) = (noise, spikes);
                let found = named(&survey(&mut cluster, pairs, seed));
                if !found.is_empty() {
                    wrong.push(format!("{shape:?} {pairs} {noise} seed {seed}: {found:?}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn conductor(cluster: &Cluster, settings: Settings) -> Conductor {
    Conductor::new(cluster.roster.clone(), cluster.tests.clone(), settings).unwrap()
}

#[test]
fn names_path_between_two_nodes_beyond_expectation() {
    let mut cluster = Cluster::new([0, 0, 2, 1], &["write-lat"], 1);
    let mut settings = settings("random:4", 1);
    settings.expectations = vec![crate::plan::expect::parse("p50<1.2us", false).unwrap()];
    let mut conductor = conductor(&cluster, settings);
    cluster.run(&mut conductor);
    let verdict = conductor.verdict();
    let path = match verdict.culprits[..] {
        [
            Culprit {
                unit: Unit::Path(pair),
                word: Word::Bad,
                direction: Direction::Both,
                ..
            },
        ] => pair,
        _ => panic!("{:?}", verdict.culprits),
    };
    assert_eq!(path.initiator + path.target, 1);
    let evidence = &verdict.culprits[0].evidence[0];
    assert_eq!(
        (evidence.source, evidence.limit, evidence.outside),
        (LimitSource::Expect, Some(1200.0), 2)
    );
    assert_eq!(
        (
            verdict.populations[0].limit,
            verdict.populations[0].expected
        ),
        (None, Some(1200.0))
    );
}

#[test]
fn names_nic_that_is_slow_alone() {
    let mut cluster = Cluster::new([0, 0, 12, 1], &["write-lat"], 1);
    let pair = Pair {
        initiator: 3,
        target: 3,
    };
    cluster
        .faults
        .push(Fault::slow(Unit::Path(pair), Direction::Both, 2.0));
    let verdict = survey(&mut cluster, "loopback,random:4", 1);
    assert_eq!(
        named(&verdict),
        [(Unit::Nic(3), Word::Bad, Direction::Both)]
    );
}

#[test]
fn reports_lost_node_as_untested_and_blames_nobody() {
    for seed in 0..20 {
        let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], seed);
        let mut conductor = conductor(&cluster, settings("all", seed));
        let mut measured = 0;
        while !conductor.is_over() {
            for round in conductor.next_rounds(1) {
                measured += 1;
                if measured == 3 {
                    // Its partner gets no answer, and then its connection is closed.
                    cluster.faults.push(Fault {
                        unit: Unit::Node(2),
                        direction: Direction::Both,
                        effect: Effect::Fails,
                    });
                }
                let results = cluster.measure(&round);
                results.into_iter().for_each(|result| conductor.add(result));
                if measured == 4 {
                    conductor.lose(2, "closed its connection");
                }
            }
        }
        let verdict = conductor.verdict();
        assert_eq!(named(&verdict), [], "seed {seed}");
        let [untested] = &verdict.untested[..] else {
            panic!("{:?}", verdict.untested)
        };
        assert_eq!(
            (untested.unit, untested.reason.as_str()),
            (Unit::Node(2), "closed its connection")
        );
        assert_eq!((untested.pairs, verdict.answered), (5, 23), "seed {seed}");
    }
}

#[test]
fn gives_no_limits_to_mixed_population() {
    for (tool, factor) in [("write-bw", 2.0), ("write-lat", 1.4), ("write-lat", 3.0)] {
        for (shape, pairs) in [
            ([0, 0, 8, 1], "random:4"),
            ([0, 0, 32, 1], "random:4"),
            ([4, 4, 8, 1], "random:4"),
            ([0, 0, 32, 1], "all"),
        ] {
            for seed in 0..10 {
                let mut cluster = Cluster::new(shape, &[tool], seed);
                let nics = cluster.roster.nics.len() as u32;
                cluster.faults = (0..nics / 2)
                    .map(|nic| Fault::slow(Unit::Nic(2 * nic), Direction::Both, factor))
                    .collect();
                let verdict = survey(&mut cluster, pairs, seed);
                assert_eq!(
                    named(&verdict),
                    [],
                    "{tool} {factor} {shape:?} {pairs} seed {seed}"
                );
            }
        }
    }
}

#[test]
fn takes_failing_nic_out_of_the_sweep() {
    let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
    cluster.faults.push(Fault {
        unit: Unit::Nic(5),
        direction: Direction::Both,
        effect: Effect::Fails,
    });
    let mut conductor = conductor(&cluster, settings("all", 1));
    let mut failed = 0;
    while !conductor.is_over() {
        for round in conductor.next_rounds(1) {
            let is_of_it = |pair: &Pair| pair.initiator == 5 || pair.target == 5;
            failed += usize::from(round.stage == Stage::Sweep && round.pairs.iter().any(is_of_it));
            let results = cluster.measure(&round);
            results.into_iter().for_each(|result| conductor.add(result));
        }
    }
    let verdict = conductor.verdict();
    assert_eq!(failed, 2);
    assert_eq!(
        named(&verdict),
        [(Unit::Nic(5), Word::Bad, Direction::Both)]
    );
    let [untested] = &verdict.untested[..] else {
        panic!("{:?}", verdict.untested)
    };
    assert_eq!((untested.unit, untested.pairs), (Unit::Nic(5), 13));
}

#[test]
fn tries_pairs_without_answer_again() {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
    let mut conductor = conductor(&cluster, settings("all", 1));
    let late = |result: &PairResult| result.pair.target == 3;
    let mut answers = 0;
    while !conductor.is_over() {
        for mut result in conductor
            .next_rounds(100)
            .iter()
            .flat_map(|round| cluster.measure(round))
        {
            if late(&result) {
                answers += 1;
                // The target was late, and the initiator got no answer, in either order.
                let failed = PairResult {
                    answer: Answer::Failed("no answer".into()),
                    ..result.clone()
                };
                result.answer = Answer::Untested("the target was late".into());
                let both = if answers % 2 == 0 {
                    [failed, result]
                } else {
                    [result, failed]
                };
                both.into_iter().for_each(|result| conductor.add(result));
            } else {
                conductor.add(result);
            }
        }
    }
    let verdict = conductor.verdict();
    assert_eq!(named(&verdict), []);
    let pairs = verdict.untested.len();
    assert_eq!((answers, pairs as u64), (3 * pairs, 28 - verdict.answered));
    assert!(
        verdict
            .untested
            .iter()
            .all(|one| one.reason == "the target was late")
    );
}

#[test]
fn goes_on_with_missing_pairs_of_earlier_survey() {
    let mut cluster = Cluster::new([2, 2, 4, 1], &["write-lat", "write-bw"], 1);
    cluster
        .faults
        .push(Fault::slow(Unit::Nic(6), Direction::Both, 2.0));
    let mut first = conductor(&cluster, settings("all", 1));
    let mut results: Vec<PairResult> = Vec::new();
    for round in first.next_rounds(20) {
        results.extend(cluster.measure(&round));
    }
    let mut second = conductor(&cluster, settings("all", 1));
    for result in &results {
        second.already(result.clone());
        second.already(result.clone());
    }
    assert_eq!(second.progress().answered, results.len() as u64);
    let mut again = 0;
    while !second.is_over() {
        for result in second
            .next_rounds(100)
            .iter()
            .flat_map(|round| cluster.measure(round))
        {
            let is_known = |one: &PairResult| (one.test, one.pair) == (result.test, result.pair);
            again += usize::from(result.stage == Stage::Sweep && results.iter().any(is_known));
            second.add(result);
        }
    }
    let verdict = second.verdict();
    assert_eq!((again, verdict.answered, verdict.planned), (0, 240, 240));
    assert_eq!(
        named(&verdict),
        [(Unit::Nic(6), Word::Bad, Direction::Both)]
    );
}

#[test]
fn partial_survey_calls_culprits_suspect() {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
    cluster
        .faults
        .push(Fault::slow(Unit::Nic(6), Direction::Both, 2.0));
    let mut conductor = conductor(&cluster, settings("all", 1));
    let rounds = conductor.next_rounds(100);
    assert!(conductor.next_rounds(100).is_empty() && !conductor.is_over());
    for result in rounds[..5].iter().flat_map(|round| cluster.measure(round)) {
        conductor.add(result);
    }
    conductor.give_up("the time is over");
    let verdict = conductor.verdict();
    assert_eq!(
        named(&verdict),
        [(Unit::Nic(6), Word::Suspect, Direction::Both)]
    );
    assert_eq!(
        (verdict.answered, verdict.planned, verdict.untested.len()),
        (20, 28, 8)
    );
}

#[test]
fn end_of_sweep_leaves_time_for_retests() {
    let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
    cluster
        .faults
        .push(Fault::slow(Unit::Nic(6), Direction::Both, 2.0));
    let mut conductor = conductor(&cluster, settings("all", 1));
    for result in conductor
        .next_rounds(4)
        .iter()
        .flat_map(|round| cluster.measure(round))
    {
        conductor.add(result);
    }
    conductor.end_sweep();
    cluster.run(&mut conductor);
    let verdict = conductor.verdict();
    assert_eq!(
        named(&verdict),
        [(Unit::Nic(6), Word::Bad, Direction::Both)]
    );
    assert_eq!((verdict.answered, verdict.planned), (32, 120));
}

#[test]
fn retests_half_as_many_pairs_each_time() {
    let mut cluster = Cluster::new([0, 0, 64, 1], &["write-lat"], 1);
    let path = |pair: u32| {
        Unit::Path(Pair {
            initiator: 2 * pair,
            target: 2 * pair + 1,
        })
    };
    cluster.faults = (0..2)
        .map(|pair| Fault::slow(path(pair), Direction::Both, 2.0))
        .collect();
    let mut conductor = conductor(&cluster, settings("all", 1));
    let mut widths = Vec::new();
    while !conductor.is_over() {
        for round in conductor.next_rounds(100) {
            if let Stage::Retest(number) = round.stage {
                widths.push((number, round.pairs.len()));
            }
            let results = cluster.measure(&round);
            results.into_iter().for_each(|result| conductor.add(result));
        }
    }
    assert_eq!(widths, [(1, 2), (2, 1), (2, 1), (3, 1), (3, 1)]);
    assert_eq!(conductor.verdict().culprits.len(), 2);
}
