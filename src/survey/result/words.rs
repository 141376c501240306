//! The parts of a cluster, tests and figures, in words.

use campaign::quiet::answer::{Answer, Pair, PairResult};
use campaign::quiet::findings::{Test, Unit};
use campaign::quiet::roster::Roster;
use campaign::quiet::states::members;
pub use facts::number::{counted, grouped};

/// Returns the name of a part, with the number of its NICs: `switch 003.12 (16 NICs)`.
pub fn unit(roster: &Roster, unit: &Unit) -> String {
    let name = name(roster, unit);
    match (unit, members(roster, unit).len()) {
        (Unit::Nic(_) | Unit::GroupPair(..) | Unit::Path(_), _) | (_, 0) => name,
        (_, count) => format!("{name} ({})", counted(count as u64, "NIC")),
    }
}

/// Returns the name of a part: `nid000417 cxi1`, `switch 003.12`.
pub fn name(roster: &Roster, unit: &Unit) -> String {
    match *unit {
        Unit::Nic(nic) => roster.name(nic),
        Unit::Node(node) => roster.node(node).host.clone(),
        Unit::Switch { group, switch } => format!("switch {group:03}.{switch:02}"),
        Unit::Group(group) => format!("group {group:03}"),
        Unit::GroupPair(one, other) => format!("links between groups {one:03} and {other:03}"),
        Unit::Path(pair) => path(roster, pair),
    }
}

/// Returns the name of a pair of NICs, in its direction.
pub fn path(roster: &Roster, pair: Pair) -> String {
    let [initiator, target] = pair.nics().map(|nic| roster.name(nic));
    if pair.is_loopback() {
        format!("{initiator} with itself")
    } else {
        format!("{initiator} to {target}")
    }
}

/// Returns the noun for a kind of part.
pub fn kind(unit: &Unit) -> &'static str {
    match unit {
        Unit::Nic(_) => "NIC",
        Unit::Node(_) => "node",
        Unit::Switch { .. } => "switch",
        Unit::Group(_) => "group",
        Unit::GroupPair(..) => "pair of groups",
        Unit::Path(_) => "path",
    }
}

/// Returns a size as users type it: `8`, `64K`, `1M`.
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Returns the name of a test: `write-lat 8`.
pub fn test(test: &Test) -> String {
    format!("{} {}", test.tool, size(test.size_bytes))
}

/// Returns the unit of the figures of a test in texts.
pub fn figure_unit(test: &Test) -> &'static str {
    if test.of_bandwidth { "GB/s" } else { "us" }
}

/// Returns a figure of a test, without its unit.
pub fn figure(test: &Test, value: f64) -> String {
    if test.of_bandwidth {
        let decimals = if value < 1e9 { 3 } else { 2 };
        format!("{:.decimals$}", value / 1e9)
    } else {
        let decimals = if value < 10.0 { 3 } else { 2 };
        format!("{:.decimals$}", value / 1e3)
    }
}

/// Returns a figure of a test with its unit: latencies of a millisecond or more in ms or s.
pub fn scaled_figure(test: &Test, value: f64) -> (String, &'static str) {
    if test.of_bandwidth || value < 1e6 {
        return (figure(test, value), figure_unit(test));
    }
    let (scale, unit) = if value < 1e9 { (1e6, "ms") } else { (1e9, "s") };
    (format!("{:.2}", value / scale), unit)
}

/// Returns the answer of a pair: `3.90 us`, `failed`.
pub fn answer(tests: &[Test], result: &PairResult) -> String {
    let test = &tests[result.test.index()];
    match &result.answer {
        Answer::Measured(figures) => {
            format!("{} {}", figure(test, figures.value()), figure_unit(test))
        }
        Answer::Failed(_) => "failed".into(),
        Answer::Untested(_) => "not measured".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{good, roster, survey};
    use super::*;
    use campaign::quiet::answer::Pair;
    use campaign::quiet::ids::{NicId, NodeId};

    #[test]
    fn names_parts() {
        let pair = |initiator, target| {
            Unit::Path(Pair { initiator: NicId(initiator), target: NicId(target) })
        };
        let switch = Unit::Switch { group: 3, switch: 13 };
        for (part, text) in [
            (Unit::Nic(NicId(3)), "nid000417 cxi1"),
            (Unit::Node(NodeId(1)), "nid000417 (2 NICs)"),
            (switch, "switch 003.13 (4 NICs)"),
            (Unit::Group(3), "group 003 (8 NICs)"),
            (Unit::GroupPair(3, 12), "links between groups 003 and 012"),
            (pair(0, 7), "nid000416 cxi0 to nid000419 cxi1"),
            (pair(2, 2), "nid000417 cxi0 with itself"),
        ] {
            assert_eq!(unit(&roster(), &part), text);
        }
    }

    #[test]
    fn writes_numbers_for_people() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
        for (bytes, text) in [(8, "8"), (1_500, "1500"), (65_536, "64K"), (1 << 20, "1M")] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(counted(1, "pair of groups"), "1 pair of groups");
        assert_eq!(counted(2, "pair of groups"), "2 pairs of groups");
        assert_eq!(counted(2, "switch"), "2 switches");
        let bandwidth = &survey(good(), Ok(())).setup.tests[1];
        assert_eq!(figure(bandwidth, 24.126e9), "24.13");
        assert_eq!(figure(bandwidth, 12.3e6), "0.012");
        let latency = &survey(good(), Ok(())).setup.tests[0];
        assert_eq!(figure(latency, 1.0), "0.001");
        assert_eq!(figure(latency, 1_904.0), "1.90");
    }
}
