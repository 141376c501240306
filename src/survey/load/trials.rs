//! Trials: models of fabrics with at most one fault under load, counted by how right the verdicts
//! are.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::conductor::{LoadConductor, LoadSetup};
use super::findings::{Grade, LoadFigure, LoadFindings, LoadUnit};
use super::limits::FabricShape;
use super::testing::{ModelFabric, SlowLinks, all, setup};
use crate::results::ResultFacts;
use campaign::quiet::findings::Certainty;
use campaign::quiet::roster::{NicId, Roster};
use campaign::quiet::trials::{Correctness, Trial, TrialVerdict};

/// Slots of each pattern in trials of a single round.
const SLOTS: u32 = 12;

/// What is slow, by the remainder of a seed and their number.
const FAULTS: [&str; 8] = [
    "nothing",
    "links of groups",
    "links of switches",
    "switch",
    "group",
    "NIC",
    "receiver",
    "sender",
];

/// All trials of load: with retests as in a survey, and of a single round.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (name, noise, silent) in [("quiet", 0.015, 0.0), ("noisy", 0.05, 0.0), ("busy", 0.03, 0.3)]
    {
        for (fault, part) in FAULTS.into_iter().zip(0..) {
            for has_retests in [true, false] {
                let rounds = if has_retests { "with retests" } else { "one round" };
                let name = format!("load {rounds}, {name}: {fault}");
                trials.push(Trial::new(name, move |seed| {
                    let (mut fabric, truth) = random_fabric(FAULTS.len() as u64 * seed + part);
                    (fabric.noise, fabric.silent) = (noise, silent);
                    let (roster, switches) = (fabric.roster.clone(), fabric.shape.switches);
                    let findings = if has_retests {
                        survey(fabric, seed)
                    } else {
                        fabric.survey(SLOTS).findings()
                    };
                    judge(&findings, truth, &roster, switches)
                }));
            }
        }
    }
    trials
}

/// Surveys a fabric as a coordinator does.
fn survey(mut fabric: ModelFabric, seed: u64) -> LoadFindings {
    let setup = setup("bisect:switch,bisect:group,bisect:system");
    let setup = LoadSetup {
        nic_rate: Some(fabric.shape.nic_rate),
        facts: ResultFacts { theory: Some(fabric.shape), seed, ..setup.facts },
        ..setup
    };
    let mut conductor =
        LoadConductor::new(&fabric.roster, all(&fabric.roster), setup).expect("a load");
    loop {
        let load_slots = conductor.next_load_slots();
        if load_slots.is_empty() {
            return conductor.findings();
        }
        for load_slot in load_slots {
            let results = fabric.measure(&load_slot);
            conductor.add(&load_slot, &results);
        }
    }
}

/// The NICs of a part, or at the ends of links.
fn nics(unit: LoadUnit, roster: &Roster) -> BTreeSet<NicId> {
    let is_in = |nic: &NicId| {
        let place = roster.location(*nic).expect("a location");
        match unit {
            LoadUnit::System | LoadUnit::TrafficClass => false,
            LoadUnit::Nic(own) => own == *nic,
            LoadUnit::Switch { group, switch } => (place.group, place.switch) == (group, switch),
            LoadUnit::Group(group) => place.group == group,
            LoadUnit::SwitchLinks { group, from, to, .. } => {
                place.group == group && [from, to].contains(&place.switch)
            }
            LoadUnit::GroupLinks { from, to, .. } => [from, to].contains(&place.group),
        }
    };
    roster.nic_ids().filter(is_in).collect()
}

fn judge(
    findings: &LoadFindings,
    truth: Option<LoadUnit>,
    roster: &Roster,
    switches: u32,
) -> TrialVerdict {
    let judgements = findings.judgements.iter();
    let named: Vec<(LoadUnit, bool)> = judgements
        .filter(|one| one.certainty != Some(Certainty::Transient))
        .filter(|one| one.figure == LoadFigure::Bandwidth)
        .map(|one| {
            let is_bad = one.grade == Grade::Bad && one.certainty != Some(Certainty::Suspect);
            (one.unit, is_bad)
        })
        .collect();
    let guilty = truth.map(|unit| nics(unit, roster)).unwrap_or_default();
    let is_related = |unit| truth.is_some_and(|truth| is_related(truth, unit, switches));
    let is_innocent = |unit| !is_related(unit) && nics(unit, roster).is_disjoint(&guilty);
    let mut innocent = named.iter().filter(|one| is_innocent(one.0)).peekable();
    let outcome = match &named[..] {
        _ if innocent.peek().is_some() => {
            if innocent.any(|one| one.1) {
                Correctness::BlamesInnocent
            } else {
                Correctness::SuspectsInnocent
            }
        }
        [] if truth.is_none() => Correctness::Right,
        [] if findings.is_complete() => Correctness::CalledGood,
        [] => Correctness::Undecided,
        [(unit, is_bad)] if Some(*unit) == truth => {
            if *is_bad {
                Correctness::Right
            } else {
                Correctness::Suspect
            }
        }
        [(unit, _)] if is_related(*unit) => Correctness::Partly,
        _ => Correctness::WrongName,
    };
    let judgements = findings.judgements.iter();
    let all = judgements.map(|one| (one.unit, one.value, one.certainty, &one.evidence));
    TrialVerdict { outcome, text: format!("{:?}", all.collect::<Vec<_>>()) }
}

/// A fabric from a seed, with one fault or none, and the part that it is in.
fn random_fabric(seed: u64) -> (ModelFabric, Option<LoadUnit>) {
    let mut rng = Rng::with_seed(seed);
    let (groups, switches, nics) = (rng.u32(3..8), rng.u32(2..5), rng.u32(2..5));
    let mut fabric = ModelFabric::new(FabricShape {
        groups,
        switches,
        nics,
        links: rng.u32(1..3),
        nic_rate: 50e6,
        local_rate: [50e6, 100e6][rng.usize(..2)],
        global_rate: [50e6, 100e6][rng.usize(..2)],
        is_minimal: true,
    });
    let number = |rng: &mut Rng, below: u32| rng.u32(..below) as u16;
    let (group, switch) = (number(&mut rng, groups), number(&mut rng, switches));
    let other_group = (group + 1 + number(&mut rng, groups - 1)) % groups as u16;
    let other_switch = (switch + 1 + number(&mut rng, switches - 1)) % switches as u16;
    let nic = NicId(rng.u32(..groups * switches * nics));
    let both = rng.bool();
    let ordered = |one: u16, other: u16| {
        if both { (one.min(other), one.max(other)) } else { (one, other) }
    };
    let planted = match FAULTS[(seed % FAULTS.len() as u64) as usize] {
        "nothing" => None,
        "links of groups" => Some((
            SlowLinks::Global(group, other_group, both),
            LoadUnit::GroupLinks {
                from: ordered(group, other_group).0,
                to: ordered(group, other_group).1,
                both,
            },
        )),
        "links of switches" => Some((
            SlowLinks::Local(group, switch, other_switch, both),
            LoadUnit::SwitchLinks {
                group,
                from: ordered(switch, other_switch).0,
                to: ordered(switch, other_switch).1,
                both,
            },
        )),
        "switch" => Some((SlowLinks::Switch(group, switch), LoadUnit::Switch { group, switch })),
        "group" => Some((SlowLinks::Group(group), LoadUnit::Group(group))),
        "NIC" => Some((SlowLinks::Nic(nic), LoadUnit::Nic(nic))),
        "receiver" => Some((SlowLinks::Receive(nic), LoadUnit::Nic(nic))),
        "sender" => Some((SlowLinks::Transmit(nic), LoadUnit::Nic(nic))),
        fault => unreachable!("{fault}"),
    };
    fabric.noise = 0.015;
    fabric.rng = rng.fork();
    if let Some((slow, _)) = planted {
        fabric.faults.push((slow, 0.25 + 0.4 * rng.f64()));
    }
    (fabric, planted.map(|(_, unit)| unit))
}

/// Whether the named part is one direction of slow links, or whether one of both parts is a group
/// of two switches and the other one all of its local links: narrow local links hide slow links to
/// other groups, and slow ones slow the flows to other groups.
fn is_related(truth: LoadUnit, named: LoadUnit, switches: u32) -> bool {
    use LoadUnit::{Group, GroupLinks, SwitchLinks};
    match (truth, named) {
        (GroupLinks { from: one, to: other, both: true }, GroupLinks { from, to, .. }) => {
            (from, to) == (one, other) || (to, from) == (one, other)
        }
        (Group(other), SwitchLinks { group, .. }) | (SwitchLinks { group, .. }, Group(other)) => {
            group == other && switches == 2
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    //! The verdicts about the first clusters of each trial. `tests/bench/blame.rs` counts the
    //! verdicts about thousands of clusters.

    use std::ops::Range;
    use std::thread;

    use super::trials;
    use campaign::quiet::testing::seeds;
    use campaign::quiet::trials::{self as survey_trials, Correctness, Trial};

    /// Clusters of each trial in the file.
    const SEEDS: u64 = 5;

    /// The verdicts, as `CXIDIAG_UPDATE_DOCS=1 cargo test -p load trial` writes them.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/trials.txt");

    /// The word of an outcome in the file.
    fn word(outcome: Correctness) -> &'static str {
        match outcome {
            Correctness::Right => "right",
            Correctness::Suspect => "suspect",
            Correctness::Partly => "partly",
            Correctness::Undecided => "undecided",
            Correctness::CalledGood => "called-good",
            Correctness::WrongName => "wrong-name",
            Correctness::SuspectsInnocent => "suspects-innocent",
            Correctness::BlamesInnocent => "blames-innocent",
        }
    }

    fn line(trial: &Trial, seeds: Range<u64>) -> String {
        let words = seeds.map(|seed| word((trial.survey)(seed).outcome));
        format!("{}: {}\n", trial.name, words.collect::<Vec<_>>().join(" "))
    }

    /// A change for the better is written to the file; read the difference, no line may be worse.
    #[test]
    fn verdicts_of_trials_are_as_right_as_they_were() {
        let trials: Vec<Trial> = survey_trials::trials().into_iter().chain(trials()).collect();
        let (first, second) = trials.split_at(trials.len() / 2);
        let is_update = std::env::var_os("CXIDIAG_UPDATE_DOCS").is_some();
        let seeds = if is_update { 0..SEEDS } else { seeds(SEEDS) };
        let lines = |trials: &[Trial]| {
            trials.iter().map(|trial| line(trial, seeds.clone())).collect::<String>()
        };
        let found = thread::scope(|scope| {
            let first = scope.spawn(|| lines(first));
            let second = lines(second);
            first.join().expect("trials") + &second
        });
        if is_update {
            std::fs::write(FILE, &found).expect("the file is written");
        }
        let known = std::fs::read_to_string(FILE).expect("a file");
        // The file may have the words of further clusters.
        let differs = |(one, other): &(&str, &str)| {
            one.split(' ').zip(other.split(' ')).any(|(one, other)| one != other)
        };
        let differing: Vec<(&str, &str)> =
            known.lines().zip(found.lines()).filter(differs).collect();
        let has_all = known.lines().count() == found.lines().count();
        assert!(has_all && differing.is_empty(), "before and now: {differing:#?}");
    }
}
