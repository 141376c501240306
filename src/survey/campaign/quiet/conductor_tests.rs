//! Tests of the test setup of a survey on the model of a cluster.

use std::collections::BTreeSet;

use super::answer::{Answer, PairResult, Stage};
use super::conductor::{Conductor, Settings};
use super::coverage::MOST_REPEATS;
use super::findings::{Cause, Certainty, Direction, Findings, LimitSource, UntestedPart};
use super::roster::{NicId, NodeId, Pair, TestId, Unit};
use super::testing::{Cluster, Effect, Fault, named, pair, run, settings, survey, survey_with};

fn conductor(cluster: &Cluster, settings: Settings) -> Conductor {
    Conductor::new(cluster.roster.clone(), cluster.tests.clone(), settings).unwrap()
}

/// The number of pairs without an answer.
fn untested(findings: &Findings) -> u64 {
    findings.untested.iter().map(|one| one.pairs).sum()
}

#[test]
fn names_path_between_two_nodes_outside_expectation() {
    let mut cluster = Cluster::new([0, 0, 2, 1], &["write-lat"], 1);
    let mut settings = settings("random:4", 1);
    settings.expectations = vec![facts::expect::parse("p50<1.2us", false).unwrap()];
    let mut conductor = conductor(&cluster, settings);
    run(&mut cluster, &mut conductor);
    let findings = conductor.findings();
    let path = match findings.causes[..] {
        [
            Cause {
                unit: Unit::Path(pair),
                certainty: Certainty::Bad,
                direction: Direction::Both,
                ..
            },
        ] => pair,
        _ => panic!("{:?}", findings.causes),
    };
    assert_eq!(path.initiator.0 + path.target.0, 1);
    let evidence = &findings.causes[0].evidence[0];
    // Both directions of the path, with the retests of each.
    let all = findings.outside.len() as u32;
    assert!(all > 4);
    assert_eq!([evidence.outside, evidence.measured], [all; 2]);
    assert_eq!((evidence.source, evidence.limit), (LimitSource::Expect, Some(1200.0)));
    assert_eq!(
        (findings.populations[0].limit, findings.populations[0].expected),
        (None, Some(1200.0))
    );
}

#[test]
fn names_nic_that_is_slow_alone() {
    let mut cluster = Cluster::new([0, 0, 12, 1], &["write-lat"], 1);
    let pair = pair(3, 3);
    cluster.faults.push(Fault::slow(Unit::Path(pair), Direction::Both, 2.0));
    let findings = survey(&mut cluster, "loopback,random:4", 1);
    assert_eq!(named(&findings), [(Unit::Nic(NicId(3)), Certainty::Bad, Direction::Both)]);
}

#[test]
fn retests_have_short_slots_unless_a_nic_has_failed() {
    for (effect, is_short) in [(Effect::Fails, false), (Effect::Slow(3.0), true)] {
        let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
        let (unit, direction) = (Unit::Nic(NicId(2)), Direction::Both);
        cluster.faults.push(Fault { unit, direction, effect });
        let mut conductor = conductor(&cluster, settings("all", 1));
        let mut retests = 0;
        while !conductor.is_over() {
            for round in conductor.next_rounds(100) {
                let has_nic = round.pairs.iter().any(|pair| pair.nics().contains(&NicId(2)));
                if matches!(round.stage, Stage::Retest(_)) && has_nic {
                    retests += 1;
                    let rounds = std::slice::from_ref(&round);
                    assert_eq!(conductor.has_short_slots(rounds), is_short);
                } else if round.stage == Stage::Sweep {
                    assert!(conductor.has_short_slots(std::slice::from_ref(&round)));
                }
                for result in cluster.measure(&round) {
                    conductor.add(&result);
                }
            }
        }
        assert!(retests > 0);
    }
}

#[test]
fn retests_are_compared_with_good_pairs_of_their_test_only() {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat", "write-bw"], 1);
    cluster.faults.push(Fault::slow(Unit::Nic(NicId(2)), Direction::Both, 3.0));
    let one_at_a_time = Settings { most_active: Some(1), ..settings("all", 1) };
    let mut rounds = Vec::new();
    survey_with(&mut cluster, one_at_a_time, |cluster, round| {
        rounds.push((round.stage, round.test));
        cluster.measure(round)
    });
    let is_of_retest = |(stage, _): &&(Stage, TestId)| matches!(stage, Stage::Retest(_));
    for test in [TestId(0), TestId(1)] {
        let retested = rounds.iter().filter(is_of_retest).any(|one| one.1 == test);
        assert!(retested, "{rounds:?}");
    }
    for (number, comparison) in rounds.iter().enumerate() {
        if comparison.0 == Stage::Comparison {
            let before = rounds[number - 1];
            let beside = [Some(&before), rounds.get(number + 1)];
            let is_beside = |one: &&(Stage, TestId)| is_of_retest(one) && one.1 == comparison.1;
            assert!(beside.into_iter().flatten().any(|one| is_beside(&one)), "{rounds:?}");
        }
    }
}

#[test]
fn reports_nic_that_fails_later_as_untested_without_cause() {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
    let mut conductor = conductor(&cluster, settings("all", 1));
    let round = conductor.next_rounds(1).remove(0);
    cluster.faults.push(Fault {
        unit: Unit::Nic(NicId(2)),
        direction: Direction::Both,
        effect: Effect::Fails,
    });
    conductor.fail_nic(NicId(2), "it does not answer");
    for result in cluster.measure(&round) {
        conductor.add(&result);
    }
    run(&mut cluster, &mut conductor);
    let findings = conductor.findings();
    assert_eq!(named(&findings), []);
    let [untested] = &findings.untested[..] else { panic!("{:?}", findings.untested) };
    assert_eq!(
        (untested.unit, untested.reason.as_str()),
        (Unit::Nic(NicId(2)), "it does not answer")
    );
    assert_eq!((untested.pairs, findings.answered), (7, 21));
}

#[test]
fn reports_lost_node_as_untested_without_cause() {
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
                        unit: Unit::Node(NodeId(2)),
                        direction: Direction::Both,
                        effect: Effect::Fails,
                    });
                }
                let results = cluster.measure(&round);
                results.into_iter().for_each(|result| conductor.add(&result));
                if measured == 4 {
                    conductor.lose(NodeId(2), "closed its connection");
                }
            }
        }
        let findings = conductor.findings();
        assert_eq!(named(&findings), [], "seed {seed}");
        let [untested] = &findings.untested[..] else { panic!("{:?}", findings.untested) };
        assert_eq!(
            (untested.unit, untested.reason.as_str()),
            (Unit::Node(NodeId(2)), "closed its connection")
        );
        assert_eq!((untested.pairs, findings.answered), (5, 23), "seed {seed}");
    }
}

#[test]
fn counts_only_pairs_of_the_sweep_of_a_lost_node() {
    let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
    cluster.faults.push(Fault {
        unit: Unit::Node(NodeId(2)),
        direction: Direction::Both,
        effect: Effect::Fails,
    });
    let mut conductor = conductor(&cluster, settings("random:4", 1));
    let mut swaps = 0;
    while !conductor.is_over() {
        for round in conductor.next_rounds(100) {
            swaps += usize::from(round.stage == Stage::Swap);
            let results = cluster.measure(&round);
            results.into_iter().for_each(|result| conductor.add(&result));
        }
    }
    conductor.lose(NodeId(2), "closed its connection");
    let findings = conductor.findings();
    assert!(swaps > 0);
    assert_eq!((findings.planned - findings.answered, untested(&findings)), (4, 4));
}

#[test]
fn takes_failing_nic_out_of_the_sweep() {
    let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
    cluster.faults.push(Fault {
        unit: Unit::Nic(NicId(5)),
        direction: Direction::Both,
        effect: Effect::Fails,
    });
    let mut conductor = conductor(&cluster, settings("all", 1));
    let mut failed = 0;
    while !conductor.is_over() {
        for round in conductor.next_rounds(1) {
            let is_of_it = |pair: &Pair| pair.nics().contains(&NicId(5));
            failed += usize::from(round.stage == Stage::Sweep && round.pairs.iter().any(is_of_it));
            let results = cluster.measure(&round);
            results.into_iter().for_each(|result| conductor.add(&result));
        }
    }
    let findings = conductor.findings();
    assert_eq!(failed, 2);
    assert_eq!(named(&findings), [(Unit::Nic(NicId(5)), Certainty::Bad, Direction::Both)]);
    let [untested] = &findings.untested[..] else { panic!("{:?}", findings.untested) };
    assert_eq!((untested.unit, untested.pairs), (Unit::Nic(NicId(5)), 13));
}

#[test]
fn returns_nic_to_sweep_after_loss_of_failing_partners() {
    let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
    let mut conductor = conductor(&cluster, settings("all", 1));
    let mut failed = BTreeSet::new();
    while !conductor.is_over() {
        for round in conductor.next_rounds(1) {
            for mut result in cluster.measure(&round) {
                let Pair { initiator, target } = result.pair;
                let partner = if initiator == NicId(5) { target } else { initiator };
                if (initiator == NicId(5) || target == NicId(5)) && failed.len() < 2 {
                    failed.insert(partner);
                    result.answer = Answer::Failed("no answer".into());
                }
                conductor.add(&result);
            }
        }
        if failed.len() == 2 {
            for nic in &failed {
                conductor.lose(cluster.roster.nic(*nic).node, "closed its connection");
            }
        }
    }
    let findings = conductor.findings();
    let lost: Vec<Unit> =
        failed.into_iter().map(|nic| Unit::Node(cluster.roster.nic(nic).node)).collect();
    let parts: Vec<Unit> = findings.untested.iter().map(|one| one.unit).collect();
    assert_eq!((named(&findings), parts), (vec![], lost));
}

#[test]
fn tries_pairs_without_answer_again() {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
    let mut conductor = conductor(&cluster, settings("all", 1));
    let late = |result: &PairResult| result.pair.target == NicId(3);
    let mut answers = 0;
    while !conductor.is_over() {
        for mut result in conductor.next_rounds(100).iter().flat_map(|round| cluster.measure(round))
        {
            if late(&result) {
                answers += 1;
                // The target was late, and the initiator got no answer, in either order.
                let failed =
                    PairResult { answer: Answer::Failed("no answer".into()), ..result.clone() };
                result.answer = Answer::Untested("the target was late".into());
                let both = if answers % 2 == 0 { [failed, result] } else { [result, failed] };
                both.into_iter().for_each(|result| conductor.add(&result));
            } else {
                conductor.add(&result);
            }
        }
    }
    let findings = conductor.findings();
    assert_eq!(named(&findings), []);
    let pairs = untested(&findings) as usize;
    let rounds = 1 + usize::from(MOST_REPEATS);
    assert_eq!((answers, pairs as u64), (rounds * pairs, 28 - findings.answered));
    assert!(
        findings
            .untested
            .iter()
            .all(|one| one.pairs == 0 || one.reason.as_str() == "the target was late")
    );
}

#[test]
fn goes_on_with_missing_pairs_of_earlier_survey() {
    let mut cluster = Cluster::new([2, 2, 4, 1], &["write-lat", "write-bw"], 1);
    cluster.faults.push(Fault::slow(Unit::Nic(NicId(6)), Direction::Both, 2.0));
    let mut first = conductor(&cluster, settings("all", 1));
    let mut results: Vec<PairResult> = Vec::new();
    for round in first.next_rounds(20) {
        results.extend(cluster.measure(&round));
    }
    let mut second = conductor(&cluster, settings("all", 1));
    for result in &results {
        second.add_earlier(result);
        second.add_earlier(result);
    }
    assert_eq!(second.findings().answered, results.len() as u64);
    let mut again = 0;
    while !second.is_over() {
        for result in second.next_rounds(100).iter().flat_map(|round| cluster.measure(round)) {
            let is_known = |one: &PairResult| (one.test, one.pair) == (result.test, result.pair);
            again += usize::from(result.stage == Stage::Sweep && results.iter().any(is_known));
            second.add(&result);
        }
    }
    let findings = second.findings();
    assert_eq!((again, findings.answered, findings.planned), (0, 240, 240));
    assert_eq!(named(&findings), [(Unit::Nic(NicId(6)), Certainty::Bad, Direction::Both)]);
}

#[test]
fn counts_earlier_pairs_outside_the_sweep_as_measured() {
    let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
    let mut first = conductor(&cluster, settings("random:4", 1));
    let results: Vec<PairResult> =
        first.next_rounds(100).iter().flat_map(|round| cluster.measure(round)).collect();
    let mut second = conductor(&cluster, settings("random:4", 2));
    results.into_iter().for_each(|result| second.add_earlier(&result));
    while !second.is_over() {
        for result in second.next_rounds(100).iter().flat_map(|round| cluster.measure(round)) {
            second.add(&result);
        }
        let progress = second.progress();
        assert!(progress.answered <= progress.planned);
    }
    let findings = second.findings();
    let count = findings.populations[0].count;
    assert!(count > 32);
    assert_eq!((findings.answered, findings.planned), (count, count));
}

#[test]
fn calls_causes_of_partial_survey_suspect() {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
    cluster.faults.push(Fault::slow(Unit::Nic(NicId(6)), Direction::Both, 2.0));
    let mut conductor = conductor(&cluster, settings("all", 1));
    let rounds = conductor.next_rounds(100);
    assert!(conductor.next_rounds(100).is_empty() && !conductor.is_over());
    for result in rounds[..5].iter().flat_map(|round| cluster.measure(round)) {
        conductor.add(&result);
    }
    conductor.give_up("the time is over");
    let findings = conductor.findings();
    assert_eq!(named(&findings), [(Unit::Nic(NicId(6)), Certainty::Suspect, Direction::Both)]);
    assert_eq!((findings.answered, findings.planned, findings.untested.len()), (20, 28, 8));
}

#[test]
fn retests_suspects_after_early_end_of_sweep() {
    let mut cluster = Cluster::new([0, 0, 16, 1], &["write-lat"], 1);
    cluster.faults.push(Fault::slow(Unit::Nic(NicId(6)), Direction::Both, 2.0));
    let mut conductor = conductor(&cluster, settings("all", 1));
    for result in conductor.next_rounds(4).iter().flat_map(|round| cluster.measure(round)) {
        conductor.add(&result);
    }
    conductor.end_sweep();
    run(&mut cluster, &mut conductor);
    let findings = conductor.findings();
    assert_eq!(named(&findings), [(Unit::Nic(NicId(6)), Certainty::Bad, Direction::Both)]);
    assert_eq!((findings.answered, findings.planned), (32, 120));
    assert_eq!(untested(&findings), 88);
    // The pairs of a NIC that has too few are counted by their paths.
    let is_late = |one: &UntestedPart| one.pairs == 0 || one.reason.as_str() == "the time was up";
    assert!(findings.untested.iter().all(is_late));
}

#[test]
fn retests_half_as_many_pairs_each_time() {
    let mut cluster = Cluster::new([0, 0, 64, 1], &["write-lat"], 1);
    let path = |number: u32| Unit::Path(pair(2 * number, 2 * number + 1));
    cluster.faults = (0..2).map(|pair| Fault::slow(path(pair), Direction::Both, 2.0)).collect();
    let mut conductor = conductor(&cluster, settings("all", 1));
    let mut widths = Vec::new();
    while !conductor.is_over() {
        for round in conductor.next_rounds(100) {
            if let Stage::Retest(number) = round.stage {
                widths.push((number, round.pairs.len()));
            }
            let results = cluster.measure(&round);
            results.into_iter().for_each(|result| conductor.add(&result));
        }
    }
    assert_eq!(widths, [(1, 2), (2, 1), (2, 1), (3, 1), (3, 1)]);
    assert_eq!(conductor.findings().causes.len(), 2);
}

/// The numbers of the retests in a survey with a NIC that is `factor` times as slow.
fn retests_of_slow_nic(factor: f64) -> BTreeSet<u8> {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
    cluster.faults.push(Fault::slow(Unit::Nic(NicId(2)), Direction::Both, factor));
    let mut stages = BTreeSet::new();
    let findings = survey_with(&mut cluster, settings("all", 1), |cluster, round| {
        if let Stage::Retest(number) = round.stage {
            stages.insert(number);
        }
        cluster.measure(round)
    });
    assert_eq!(findings.causes[0].certainty, Certainty::Bad);
    stages
}

#[test]
fn ends_retests_of_a_nic_that_is_far_outside_the_limits_after_the_second() {
    assert_eq!(retests_of_slow_nic(3.0), BTreeSet::from([1, 2]));
    assert_eq!(retests_of_slow_nic(1.5), BTreeSet::from([1, 2, 3]));
}

#[test]
fn ignores_earlier_failure_with_absent_node() {
    let mut cluster = Cluster::new([0, 0, 8, 1], &["write-lat"], 1);
    cluster.roster.nodes[2].absent = Some("no process".into());
    let mut conductor = conductor(&cluster, settings("all", 1));
    conductor.add_earlier(&PairResult {
        test: TestId(0),
        pair: pair(2, 3),
        stage: Stage::Sweep,
        round: 0,
        active: 1,
        answer: Answer::Failed("no answer".into()),
        waited_percent: 0,
        counters: Vec::new(),
    });
    let findings = conductor.findings();
    assert_eq!((named(&findings), findings.answered), (vec![], 0));
    let is_of_node = |one: &&UntestedPart| one.unit == Unit::Node(NodeId(2));
    let untested = findings.untested.iter().find(is_of_node).unwrap();
    assert_eq!((untested.reason.as_str(), untested.pairs), ("no process", 7));
}

#[test]
fn pairs_are_answered_or_untested_at_any_moment() {
    for seed in 0..100 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut cluster = Cluster::new([0, 0, rng.u16(3..10), rng.u16(1..3)], &["write-lat"], seed);
        let pairs = ["all", "halves,all", "random:3", "loopback,random:2,neighbours"];
        let mut settings = settings(pairs[rng.usize(..pairs.len())], seed);
        settings.most_active = rng.bool().then(|| rng.u32(1..4));
        let mut earlier = settings.clone();
        earlier.seed += rng.u64(..2);
        let rounds = conductor(&cluster, earlier).next_rounds(3);
        let nodes = cluster.roster.nodes.len() as u32;
        let mut conductor = conductor(&cluster, settings);
        for mut result in rounds.iter().flat_map(|round| cluster.measure(round)) {
            if rng.u8(..4) == 0 {
                result.answer = Answer::Failed("no answer".into());
            }
            conductor.add_earlier(&result);
        }
        while !conductor.is_over() {
            for mut result in conductor
                .next_rounds(rng.usize(1..4))
                .iter()
                .flat_map(|round| cluster.measure(round))
            {
                let late = Answer::Untested("late".into());
                match rng.u8(..10) {
                    0 => continue,
                    1 => result.answer = late,
                    2 => result.answer = Answer::Failed("no answer".into()),
                    3 => {
                        let failed = Answer::Failed("no answer".into());
                        conductor.add(&PairResult { answer: failed, ..result.clone() });
                        result.answer = late;
                    }
                    _ => {}
                }
                conductor.add(&result);
            }
            match rng.u8(..40) {
                0..2 => conductor.lose(NodeId(rng.u32(..nodes)), "closed its connection"),
                2 => conductor.end_sweep(),
                _ => {}
            }
            let findings = conductor.findings();
            assert_eq!(findings.answered + untested(&findings), findings.planned, "seed {seed}");
            conductor.give_up("no report");
        }
    }
}
