//! Tests of parts and judgements in words.

use super::*;
use crate::result::load_testing::{SWITCH, judgement};
use crate::result::testing::roster;
use campaign::quiet::ids::NicId;
use load::findings::Grade;

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
        (nic, LoadFigure::TargetPauses, "the host is too slow: run 'cxidiag check' on nid000417"),
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
