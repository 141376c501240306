//! Parts, figures and judgements under load, in words, and what judgements mean for the conclusion
//! and for NICs.

use super::words;
use campaign::quiet::findings::{Certainty, Unit};
use campaign::quiet::roster::Roster;
use load::findings::{Grade, LinkCoverage, LoadFigure, LoadFindings, LoadJudgement, LoadUnit};

/// Says that the load depends on the fabric.
pub const CLOSED_LOOP: &str =
    "Closed loop: a NIC sends on when answers arrive; a slow fabric gets less load.";

/// Says what bisections of the system cannot show.
pub const UNSEEN: &str = "NICs cannot see one bad cable of a bundle while adaptive routing has \
                          room on the others: the counters of the switches show it.";

/// Says what flows carried over the links of one kind, in this unit.
pub fn crossed(links: &LinkCoverage, (scale, unit): (f64, &str)) -> String {
    let kind = links.kind.name();
    let [least, median] = [links.least, links.median].map(|rate| ratio(rate / scale));
    let (crossed, all) = (words::grouped(links.crossed.into()), words::grouped(links.links.into()));
    format!(
        "Links between {kind}: flows crossed {crossed} of {all}, with up to {median} {unit} in the \
         median and {least} {unit} at least. A slow link that carries as much looks good."
    )
}

/// Returns the name of a part, with the number of its NICs: `switch 002.00 (16 NICs)`.
pub fn unit(roster: &Roster, unit: &LoadUnit) -> String {
    match unit_of(unit) {
        Some(part) => words::unit(roster, &part),
        None => name(roster, unit),
    }
}

/// Returns the name of a part: `switch 002.00`, `links from group 000 to group 002`.
pub fn name(roster: &Roster, unit: &LoadUnit) -> String {
    match *unit {
        LoadUnit::System => "the fabric".into(),
        LoadUnit::TrafficClass => "a traffic class".into(),
        LoadUnit::SwitchLinks { group, from, to, both: false } => {
            format!("links from switch {group:03}.{from:02} to switch {group:03}.{to:02}")
        }
        LoadUnit::SwitchLinks { group, from, to, .. } => {
            format!("links between switches {group:03}.{from:02} and {group:03}.{to:02}")
        }
        LoadUnit::GroupLinks { from, to, both: false } => {
            format!("links from group {from:03} to group {to:03}")
        }
        LoadUnit::GroupLinks { from, to, .. } => {
            format!("links between groups {from:03} and {to:03}")
        }
        LoadUnit::Nic(_) | LoadUnit::Switch { .. } | LoadUnit::Group(_) => {
            unit_of(unit).map_or(String::new(), |unit| words::name(roster, &unit))
        }
    }
}

/// Returns the noun for a kind of part.
pub fn kind(unit: &LoadUnit) -> &'static str {
    match unit {
        LoadUnit::System => "fabric",
        LoadUnit::Nic(_) => "NIC",
        LoadUnit::Switch { .. } => "switch",
        LoadUnit::Group(_) => "group",
        LoadUnit::SwitchLinks { .. } => "pair of switches",
        LoadUnit::GroupLinks { .. } => "pair of groups",
        LoadUnit::TrafficClass => "traffic class",
    }
}

/// Returns a ratio with three significant digits: `1.10`, `25.1`, `131`.
pub fn ratio(value: f64) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Returns a part of a whole in percent, with two significant digits.
pub fn percent(value: f64) -> String {
    let decimals = usize::from(value < 0.0995);
    format!("{:.decimals$} %", value * 100.0)
}

/// Returns a judgement as a sentence: the figure, the pattern and the limit.
pub fn sentence(judgement: &LoadJudgement) -> String {
    let value = value(judgement.figure, judgement.value);
    let what = match judgement.figure {
        LoadFigure::Bandwidth => format!("bandwidth {value} times the median of equal parts"),
        LoadFigure::ShareOfTheory => format!("bandwidth {value} times what the topology allows"),
        LoadFigure::IncastSum => {
            format!("the sources of a target reach {value} times its quiet bandwidth together")
        }
        LoadFigure::Fairness => format!("fairness of the sources of a target (Jain) {value}"),
        LoadFigure::SmallestShare => {
            format!("the slowest source of a target gets {value} times an equal share")
        }
        LoadFigure::Impact => format!("median latency {value} times the quiet one"),
        LoadFigure::ImpactP99 => format!("99th percentile of latency {value} times the quiet one"),
        LoadFigure::Isolation => {
            format!("the other traffic class keeps {value} of the load away (1: all of it)")
        }
        LoadFigure::VictimsPaused => {
            format!("the switch paused victims with idle targets {value} of the time")
        }
        LoadFigure::TargetPauses => format!("targets paused the switch {value} of the time"),
        LoadFigure::Timeouts => format!("answers of packets lost: {value}"),
        LoadFigure::Unanswered => format!("{value} of the operations of victims not answered"),
        LoadFigure::DeadPaths => format!("paths on which operations failed: {value}"),
    };
    let limit = self::value(judgement.figure, judgement.limit);
    let side = if is_better_if_small(judgement.figure) { "at most" } else { "at least" };
    format!("{what} under {} (good: {side} {limit})", judgement.pattern)
}

fn value(figure: LoadFigure, value: f64) -> String {
    match figure {
        LoadFigure::VictimsPaused | LoadFigure::TargetPauses | LoadFigure::Unanswered => {
            percent(value)
        }
        LoadFigure::Timeouts | LoadFigure::DeadPaths => words::grouped(value as u64),
        _ => ratio(value),
    }
}

fn is_better_if_small(figure: LoadFigure) -> bool {
    matches!(
        figure,
        LoadFigure::Impact
            | LoadFigure::ImpactP99
            | LoadFigure::VictimsPaused
            | LoadFigure::TargetPauses
            | LoadFigure::Timeouts
            | LoadFigure::Unanswered
            | LoadFigure::DeadPaths
    )
}

/// Returns what to do about a judgement.
pub fn next_step(roster: &Roster, judgement: &LoadJudgement) -> String {
    let name = name(roster, &judgement.unit);
    match (judgement.figure, judgement.unit) {
        (LoadFigure::TargetPauses, LoadUnit::Nic(nic)) => format!(
            "the host is too slow: run 'cxidiag check' on {}, and look at its PCIe link and memory",
            roster.node_of(nic).host
        ),
        (LoadFigure::TargetPauses, _) => {
            "hosts are too slow: run 'cxidiag check' on the hosts of the targets".into()
        }
        (LoadFigure::VictimsPaused, _) => {
            "congestion spreads: check that the switches manage congestion, and that enable_fgfc \
             in /sys/module/cxi_ss1/parameters is on"
                .into()
        }
        (LoadFigure::Timeouts | LoadFigure::Unanswered | LoadFigure::DeadPaths, _) => format!(
            "look for links of {name} that went down at this time, in the logs of the fabric manager"
        ),
        (LoadFigure::Isolation, _) => {
            "check the traffic classes of the fabric manager's QoS profile and of the services \
             ('cxidiag devices')"
                .into()
        }
        (LoadFigure::Impact | LoadFigure::ImpactP99, _) => {
            "compare the spreads: high in mixed alone: switches; in switches too: links of a \
             group; in groups too: links between groups, or routing"
                .into()
        }
        (_, LoadUnit::Nic(nic)) => format!(
            "run 'cxidiag check' on {}; then check the cable of {name} and its port of the switch",
            roster.node_of(nic).host
        ),
        (_, LoadUnit::Switch { .. } | LoadUnit::Group(_)) => {
            format!("have the fabric manager list rate, width and errors of all links of {name}")
        }
        (_, LoadUnit::SwitchLinks { .. } | LoadUnit::GroupLinks { .. }) => {
            format!("have the fabric manager list the {name}: which are down, slow, or have errors")
        }
        (_, LoadUnit::System | LoadUnit::TrafficClass) => {
            "compare with --load=bisect:switch,bisect:group: if those are good, look for missing \
             or slow links between groups"
                .into()
        }
    }
}

/// Returns how certain it is that a figure is bad. `None` if it is not. A bad figure without
/// retests is not confirmed.
pub fn certainty(judgement: &LoadJudgement) -> Option<Certainty> {
    (judgement.grade == Grade::Bad).then(|| judgement.certainty.unwrap_or(Certainty::Suspect))
}

/// Returns the parts with bad figures, and how certain each figure is.
pub fn certainties(
    load: Option<&LoadFindings>,
) -> impl Iterator<Item = (LoadUnit, Certainty)> + '_ {
    let judgements = load.into_iter().flat_map(|findings| &findings.judgements);
    judgements.filter_map(|judgement| Some((judgement.unit, certainty(judgement)?)))
}

/// Returns the parts whose most certain bad figure has this certainty, each once.
pub fn units(load: Option<&LoadFindings>, word: Certainty) -> Vec<LoadUnit> {
    let mut units = Vec::new();
    for (unit, _) in certainties(load).filter(|(_, certainty)| *certainty == word) {
        let is_worse =
            |(candidate, certainty): (LoadUnit, Certainty)| candidate == unit && certainty > word;
        if !units.contains(&unit) && !certainties(load).any(is_worse) {
            units.push(unit);
        }
    }
    units
}

/// Returns the part without load that a part under load is. `None` for links in one direction, the
/// fabric and a traffic class, to which no NIC belongs.
pub fn unit_of(unit: &LoadUnit) -> Option<Unit> {
    match *unit {
        LoadUnit::Nic(nic) => Some(Unit::Nic(nic)),
        LoadUnit::Switch { group, switch } => Some(Unit::Switch { group, switch }),
        LoadUnit::Group(group) => Some(Unit::Group(group)),
        LoadUnit::System
        | LoadUnit::SwitchLinks { .. }
        | LoadUnit::GroupLinks { .. }
        | LoadUnit::TrafficClass => None,
    }
}

#[cfg(test)]
mod load_verdict_tests {
    use super::super::load_testing::{SWITCH, good_load, judgement};
    use super::*;
    use load::findings::LoadFigure;

    #[test]
    fn part_counts_once_with_its_most_certain_figure() {
        let judgement_for =
            |unit, figure, certainty| judgement(unit, figure, Grade::Bad, Some(certainty));
        let load = LoadFindings {
            judgements: vec![
                judgement_for(SWITCH, LoadFigure::Bandwidth, Certainty::Suspect),
                judgement_for(SWITCH, LoadFigure::Impact, Certainty::Bad),
                judgement_for(SWITCH, LoadFigure::Fairness, Certainty::Bad),
                judgement_for(LoadUnit::System, LoadFigure::Impact, Certainty::Suspect),
            ],
            ..good_load()
        };
        assert_eq!(units(Some(&load), Certainty::Bad), [SWITCH]);
        assert_eq!(units(Some(&load), Certainty::Suspect), [LoadUnit::System]);
        assert_eq!(units(None, Certainty::Bad), []);
    }
}

#[cfg(test)]
#[path = "load_words_tests.rs"]
mod tests;
