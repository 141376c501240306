//! Parts, figures and judgements under load, in words, what judgements mean for the conclusion and
//! for NICs, and the text of `--load=plan`: what a load would be and cost. Nothing is sent for it.

use super::words;
use campaign::quiet::findings::Certainty;
use campaign::quiet::roster::{Roster, Unit};
use load::conductor::LoadPreview;
use load::findings::{Grade, LinkCoverage, LoadFigure, LoadFindings, LoadJudgement, LoadUnit};
use page::table::{self, WIDTH, wrapped};

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

/// The name of a part, with the number of its NICs: `switch 002.00 (16 NICs)`.
pub fn unit(roster: &Roster, unit: &LoadUnit) -> String {
    match unit_of(unit) {
        Some(part) => words::unit(roster, &part),
        None => name(roster, unit),
    }
}

/// The name of a part: `switch 002.00`, `links from group 000 to group 002`.
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

/// The noun for a kind of part.
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

/// A ratio with three significant digits: `1.10`, `25.1`, `131`.
pub fn ratio(value: f64) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// A part of a whole in percent, with two significant digits.
pub fn percent(value: f64) -> String {
    let decimals = usize::from(value < 0.0995);
    format!("{:.decimals$} %", value * 100.0)
}

/// A judgement as a sentence: the figure, the pattern and the limit.
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

/// The parts with bad figures, and how certain each figure is.
pub fn certainties(
    load: Option<&LoadFindings>,
) -> impl Iterator<Item = (LoadUnit, Certainty)> + '_ {
    let judgements = load.into_iter().flat_map(|findings| &findings.judgements);
    judgements.filter_map(|judgement| Some((judgement.unit, certainty(judgement)?)))
}

/// The parts whose most certain bad figure has this certainty, each once.
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

/// The part without load that a part under load is. `None` for links in one direction, the fabric
/// and a traffic class, to which no NIC belongs.
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

/// The text of a plan, in lines of at most 80 columns where names allow it.
pub fn plan_text(plan: &LoadPreview) -> Vec<String> {
    let partial = if plan.is_partial { " (partial load)" } else { "" };
    let senders = format!(
        "plan: at most {} of {} would send at once{partial}; nothing was sent",
        words::grouped(plan.most_aggressors.into()),
        words::counted(plan.nics.into(), "NIC"),
    );
    let rate = plan
        .peak
        .map_or_else(|| "peak rate unknown".into(), |rate| format!("at most {}/s", amount(rate)));
    let bytes = plan
        .total_bytes
        .map_or(String::new(), |bytes| format!(", at most {} in total", amount(bytes)));
    let cost = format!(
        "{} in {}; {rate}{bytes}",
        words::counted(plan.slots.into(), "slot"),
        time(plan.seconds),
    );
    let mut lines =
        [senders, cost].iter().flat_map(|line| wrapped(line, WIDTH, "  ")).collect::<Vec<String>>();
    if !plan.patterns.is_empty() {
        lines.push(String::new());
        let row = |(name, slots): &(String, u32)| vec![name.clone(), slots.to_string()];
        let rows = plan.patterns.iter().map(row).collect();
        lines.extend(table::lines(&["Pattern", ">Slots"], rows));
    }
    if !plan.left_out.is_empty() {
        lines.extend([String::new(), "Left out".into()]);
    }
    for left_out in &plan.left_out {
        let line = format!("{}: {}", left_out.what, left_out.reason);
        lines.extend(wrapped(&line, WIDTH, "    "));
    }
    lines
}

/// A number of bytes in the largest unit of 1,000 that leaves at least 1.
fn amount(bytes: f64) -> String {
    let units = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")];
    let fitting = units.into_iter().find(|(factor, _)| bytes >= *factor);
    let (factor, unit) = fitting.unwrap_or((1e3, "kB"));
    let value = bytes / factor;
    let decimals = usize::from(value < 99.95);
    format!("{value:.decimals$} {unit}")
}

/// A time: `42 s`, `2 min 20 s`.
fn time(seconds: f64) -> String {
    let whole = seconds.ceil() as u64;
    match whole {
        ..100 => format!("{whole} s"),
        _ => format!("{} min {} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod load_verdict_tests {
    use super::super::testing::{SWITCH, good_load, judgement};
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
mod tests {
    use super::super::testing::{SWITCH, judgement, roster};
    use super::*;
    use campaign::quiet::roster::NicId;
    use load::findings::LeftOut;

    #[test]
    fn names_parts() {
        let switch_unit = |both| LoadUnit::SwitchLinks { group: 3, from: 12, to: 13, both };
        let group_unit = |both| LoadUnit::GroupLinks { from: 0, to: 2, both };
        for (part, text) in [
            (LoadUnit::System, "the fabric"),
            (LoadUnit::Nic(NicId(3)), "nid000417 cxi1"),
            (SWITCH, "switch 003.12 (4 NICs)"),
            (LoadUnit::Group(3), "group 003 (8 NICs)"),
            (switch_unit(false), "links from switch 003.12 to switch 003.13"),
            (switch_unit(true), "links between switches 003.12 and 003.13"),
            (group_unit(false), "links from group 000 to group 002"),
            (group_unit(true), "links between groups 000 and 002"),
            (LoadUnit::TrafficClass, "a traffic class"),
        ] {
            assert_eq!(unit(&roster(), &part), text);
        }
    }

    #[test]
    fn writes_judgements_with_their_limits() {
        let text_for = |figure, value, limit| {
            sentence(&LoadJudgement { value, limit, ..judgement(SWITCH, figure, Grade::Bad, None) })
        };
        for (figure, value, limit, text) in [
            (
                LoadFigure::Bandwidth,
                0.44,
                0.9,
                "bandwidth 0.44 times the median of equal parts under bisect:switch \
                 (good: at least 0.90)",
            ),
            (
                LoadFigure::Impact,
                131.2,
                1.2,
                "median latency 131 times the quiet one under bisect:switch (good: at most 1.20)",
            ),
            (
                LoadFigure::VictimsPaused,
                0.03,
                0.01,
                "the switch paused victims with idle targets 3.0 % of the time under \
                 bisect:switch (good: at most 1.0 %)",
            ),
            (
                LoadFigure::Timeouts,
                1204.0,
                0.0,
                "answers of packets lost: 1,204 under bisect:switch (good: at most 0)",
            ),
        ] {
            assert_eq!(text_for(figure, value, limit), text);
        }
    }

    #[test]
    fn next_steps_name_what_to_look_at() {
        let next = |unit, figure| next_step(&roster(), &judgement(unit, figure, Grade::Bad, None));
        let nic = LoadUnit::Nic(NicId(3));
        let links = LoadUnit::GroupLinks { from: 0, to: 2, both: false };
        for (unit, figure, part) in [
            (nic, LoadFigure::Bandwidth, "'cxidiag check' on nid000417; then check the cable"),
            (
                nic,
                LoadFigure::TargetPauses,
                "the host is too slow: run 'cxidiag check' on nid000417",
            ),
            (SWITCH, LoadFigure::Bandwidth, "all links of switch 003.12"),
            (links, LoadFigure::Bandwidth, "list the links from group 000 to group 002"),
            (SWITCH, LoadFigure::Timeouts, "links of switch 003.12 that went down"),
            (LoadUnit::System, LoadFigure::VictimsPaused, "enable_fgfc"),
            (LoadUnit::System, LoadFigure::Impact, "high in mixed alone: switches"),
            (LoadUnit::System, LoadFigure::ShareOfTheory, "--load=bisect:switch,bisect:group"),
            (LoadUnit::TrafficClass, LoadFigure::Isolation, "QoS profile"),
        ] {
            let text = next(unit, figure);
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn writes_ratios_with_three_digits() {
        for (value, text) in [(0.444, "0.44"), (9.996, "10.0"), (25.06, "25.1"), (131.4, "131")] {
            assert_eq!(ratio(value), text);
        }
        for (value, text) in [(0.004, "0.4 %"), (0.12, "12 %"), (1.0, "100 %")] {
            assert_eq!(percent(value), text);
        }
    }

    #[test]
    fn says_what_would_be_done_and_what_it_costs() {
        let plan = LoadPreview {
            nics: 10_000,
            most_aggressors: 64,
            is_partial: true,
            slots: 408,
            seconds: 139.2,
            peak: Some(1.6e12),
            total_bytes: Some(84.8e12),
            patterns: vec![("bisect:switch".into(), 16), ("all2all".into(), 64)],
            left_out: vec![LeftOut {
                what: "bisect:system".into(),
                reason:
                    "the groups of the NICs are not known: --topology or --locations gives them"
                        .into(),
            }],
        };
        let expected = "\
plan: at most 64 of 10,000 NICs would send at once (partial load); nothing was
  sent
408 slots in 2 min 20 s; at most 1.6 TB/s, at most 84.8 TB in total

Pattern        Slots
bisect:switch     16
all2all           64

Left out
bisect:system: the groups of the NICs are not known: --topology or --locations
    gives them";
        assert_eq!(plan_text(&plan).join("\n"), expected);
    }

    #[test]
    fn says_which_costs_are_unknown() {
        let plan = LoadPreview {
            nics: 4,
            most_aggressors: 4,
            slots: 1,
            seconds: 0.25,
            ..LoadPreview::default()
        };
        let expected = [
            "plan: at most 4 of 4 NICs would send at once; nothing was sent",
            "1 slot in 1 s; peak rate unknown",
        ];
        assert_eq!(plan_text(&plan), expected);
    }

    #[test]
    fn writes_amounts_in_their_unit() {
        for (bytes, text) in [
            (300.0, "0.3 kB"),
            (25e6, "25.0 MB"),
            (84.8e12, "84.8 TB"),
            (150e12, "150 TB"),
            (1.2e15, "1.2 PB"),
        ] {
            assert_eq!(amount(bytes), text);
        }
    }
}
