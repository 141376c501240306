//! Parts, figures and judgements under load, in words.

use super::load_verdict::unit_of;
use super::words;
use cluster::load::findings::{Grade, LoadFigure, LoadJudgement, LoadUnit, Spread};
use cluster::survey::roster::Roster;

/// Says that the load depends on the fabric.
pub const CLOSED_LOOP: &str =
    "Closed loop: a NIC sends on when answers arrive; a slow fabric gets less load.";

/// Says what bisections of the system cannot show.
pub const UNSEEN: &str = "NICs cannot see one bad cable of a bundle while adaptive routing has \
                          room on the others: the counters of the switches show it.";

/// Returns the name of a part, with the number of its NICs: `switch 002.00 (16 NICs)`.
pub fn unit(roster: &Roster, unit: &LoadUnit) -> String {
    match unit_of(unit) {
        Some(of) => words::unit(roster, &of),
        None => name(roster, unit),
    }
}

/// Returns the name of a part: `switch 002.00`, `links from group 000 to group 002`.
pub fn name(roster: &Roster, unit: &LoadUnit) -> String {
    match *unit {
        LoadUnit::System => "the fabric".into(),
        LoadUnit::TrafficClass => "a traffic class".into(),
        LoadUnit::SwitchLinks {
            group,
            from,
            to,
            both: false,
        } => format!("links from switch {group:03}.{from:02} to switch {group:03}.{to:02}"),
        LoadUnit::SwitchLinks {
            group, from, to, ..
        } => format!("links between switches {group:03}.{from:02} and {group:03}.{to:02}"),
        LoadUnit::GroupLinks {
            from,
            to,
            both: false,
        } => format!("links from group {from:03} to group {to:03}"),
        LoadUnit::GroupLinks { from, to, .. } => {
            format!("links between groups {from:03} and {to:03}")
        }
        LoadUnit::Nic(_) | LoadUnit::Switch { .. } | LoadUnit::Group(_) => {
            unit_of(unit).map_or(String::new(), |of| words::name(roster, &of))
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

/// Returns the name of a figure in documents.
pub fn figure_name(figure: LoadFigure) -> &'static str {
    match figure {
        LoadFigure::Bandwidth => "bandwidth",
        LoadFigure::ShareOfTheory => "share_of_theory",
        LoadFigure::IncastSum => "incast_sum",
        LoadFigure::Fairness => "fairness",
        LoadFigure::SmallestShare => "smallest_share",
        LoadFigure::Impact => "impact",
        LoadFigure::ImpactP99 => "impact_p99",
        LoadFigure::Isolation => "isolation",
        LoadFigure::VictimsPaused => "victims_paused",
        LoadFigure::TargetPauses => "target_pauses",
        LoadFigure::Timeouts => "timeouts",
        LoadFigure::Unanswered => "unanswered",
    }
}

/// Returns a grade in words; a dash without a verdict.
pub fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Good => "good",
        Grade::Slow => "slow",
        Grade::Bad => "bad",
        Grade::Unjudged => "-",
    }
}

/// Returns the name of a spread.
pub fn spread(spread: Spread) -> &'static str {
    match spread {
        Spread::Mixed => "mixed",
        Spread::Switches => "switches",
        Spread::Groups => "groups",
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
pub fn sentence(of: &LoadJudgement) -> String {
    let value = value(of.figure, of.value);
    let what = match of.figure {
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
    };
    let limit = self::value(of.figure, of.limit);
    let side = if is_better_if_small(of.figure) {
        "at most"
    } else {
        "at least"
    };
    format!("{what} under {} (good: {side} {limit})", of.pattern)
}

fn value(figure: LoadFigure, value: f64) -> String {
    match figure {
        LoadFigure::VictimsPaused | LoadFigure::TargetPauses | LoadFigure::Unanswered => {
            percent(value)
        }
        LoadFigure::Timeouts => words::grouped(value as u64),
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
    )
}

/// Returns what to do about a judgement.
pub fn next_step(roster: &Roster, of: &LoadJudgement) -> String {
    let name = name(roster, &of.unit);
    match (of.figure, of.unit) {
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
        (LoadFigure::Timeouts | LoadFigure::Unanswered, _) => format!(
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

#[cfg(test)]
mod tests {
    use super::super::load_testing::{SWITCH, judgement};
    use super::super::testing::roster;
    use super::*;
    use cluster::survey::ids::NicId;

    #[test]
    fn names_parts() {
        let of_switches = |both| LoadUnit::SwitchLinks {
            group: 3,
            from: 12,
            to: 13,
            both,
        };
        let of_groups = |both| LoadUnit::GroupLinks {
            from: 0,
            to: 2,
            both,
        };
        for (part, text) in [
            (LoadUnit::System, "the fabric"),
            (LoadUnit::Nic(NicId(3)), "nid000417 cxi1"),
            (SWITCH, "switch 003.12 (4 NICs)"),
            (LoadUnit::Group(3), "group 003 (8 NICs)"),
            (
                of_switches(false),
                "links from switch 003.12 to switch 003.13",
            ),
            (
                of_switches(true),
                "links between switches 003.12 and 003.13",
            ),
            (of_groups(false), "links from group 000 to group 002"),
            (of_groups(true), "links between groups 000 and 002"),
            (LoadUnit::TrafficClass, "a traffic class"),
        ] {
            assert_eq!(unit(&roster(), &part), text);
        }
    }

    #[test]
    fn writes_judgements_with_their_limits() {
        let of = |figure, value, limit| {
            sentence(&LoadJudgement {
                value,
                limit,
                ..judgement(SWITCH, figure, Grade::Bad, None)
            })
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
            assert_eq!(of(figure, value, limit), text);
        }
    }

    #[test]
    fn next_steps_name_what_to_look_at() {
        let next = |unit, figure| next_step(&roster(), &judgement(unit, figure, Grade::Bad, None));
        let nic = LoadUnit::Nic(NicId(3));
        let links = LoadUnit::GroupLinks {
            from: 0,
            to: 2,
            both: false,
        };
        for (unit, figure, part) in [
            (
                nic,
                LoadFigure::Bandwidth,
                "'cxidiag check' on nid000417; then check the cable",
            ),
            (
                nic,
                LoadFigure::TargetPauses,
                "the host is too slow: run 'cxidiag check' on nid000417",
            ),
            (SWITCH, LoadFigure::Bandwidth, "all links of switch 003.12"),
            (
                links,
                LoadFigure::Bandwidth,
                "list the links from group 000 to group 002",
            ),
            (
                SWITCH,
                LoadFigure::Timeouts,
                "links of switch 003.12 that went down",
            ),
            (LoadUnit::System, LoadFigure::VictimsPaused, "enable_fgfc"),
            (
                LoadUnit::System,
                LoadFigure::Impact,
                "high in mixed alone: switches",
            ),
            (
                LoadUnit::System,
                LoadFigure::ShareOfTheory,
                "--load=bisect:switch,bisect:group",
            ),
            (LoadUnit::TrafficClass, LoadFigure::Isolation, "QoS profile"),
        ] {
            let text = next(unit, figure);
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn writes_ratios_with_three_digits() {
        for (value, text) in [
            (0.444, "0.44"),
            (9.996, "10.0"),
            (25.06, "25.1"),
            (131.4, "131"),
        ] {
            assert_eq!(ratio(value), text);
        }
        for (value, text) in [(0.004, "0.4 %"), (0.12, "12 %"), (1.0, "100 %")] {
            assert_eq!(percent(value), text);
        }
    }
}
