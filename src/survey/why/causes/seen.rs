//! What the tests of a culprit show together, if no cause is known (diagnosis.md 5, single
//! observations).

use crate::causes::columns::Column::{
    self, FastFlows, Hop, Read, ReadBandwidth, Received, Sent, Write, WriteBandwidth, WriteFrom,
    WriteTo,
};
use crate::causes::comparison::{Compared, Comparison};

/// Which columns are slower, one of them at least, which ones are as on good NICs, and these facts
/// in words; the most special first. No text names a cause: tests or files may exclude it.
const STEPS: [(&[Column], &[Column], &str); 9] = [
    (&[FastFlows], &[], "all flows between the groups are slow alike"),
    (&[Sent], &[Received], "sending is slow, receiving is not"),
    (&[Received], &[Sent], "receiving is slow, sending is not"),
    (
        &[WriteBandwidth, ReadBandwidth],
        &[Write],
        "large operations are slow also in loopback, small ones are not",
    ),
    (
        &[Sent, Received, WriteTo, WriteFrom],
        &[Write, Read, WriteBandwidth],
        "loopback is fast, operations with other NICs are not",
    ),
    (&[Hop], &[], "hops without a CPU are slow as well, so it is not the CPU alone"),
    (&[Write], &[Hop, WriteBandwidth], "small writes are slow, hops without a CPU are not"),
    (
        &[Write, Read],
        &[WriteBandwidth],
        "small operations are slow also in loopback, large ones are not",
    ),
    (&[Write, Read, WriteBandwidth, ReadBandwidth], &[], "the NIC is slow also in loopback"),
];

/// Returns what is slow, in words; `None` if the tests do not say where.
pub fn seen(comparisons: &[Comparison]) -> Option<String> {
    let find = |column: Column| comparisons.iter().find(|found| found.column == column);
    let is = |column: Column, expected: Compared| {
        find(column).is_some_and(|found| found.outcome == expected)
    };
    let bandwidths = [WriteBandwidth, ReadBandwidth, Sent, Received];
    let is_late = [Write, WriteTo, WriteFrom].into_iter().all(|way| is(way, Compared::Slower));
    if is_late && !bandwidths.into_iter().any(|column| is(column, Compared::Slower)) {
        let longer = find(WriteTo).map(|found| (found.own - found.others) / 1e3)?;
        let place = match find(Hop).map(|hop| hop.outcome) {
            Some(Compared::Slower) => "at the NIC or its link",
            Some(Compared::Same) => "at the CPU or on its way to the NIC",
            _ => "at the NIC, its link or its node",
        };
        let decimals = if longer < 10.0 { 1 } else { 0 };
        return Some(format!("slow in both roles, latency +{longer:.decimals$} us {place}"));
    }
    let steps = STEPS.iter().find(|(slower, same, _)| {
        slower.iter().any(|column| is(*column, Compared::Slower))
            && same.iter().all(|column| is(*column, Compared::Same))
    });
    steps.map(|(_, _, says)| (*says).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(column: Column, outcome: Compared) -> Comparison {
        Comparison {
            column,
            is_bandwidth: false,
            own: 102_400.0,
            others: 2_000.0,
            shares: (1.0, 1.0),
            outcome,
            is_beside_busy: false,
        }
    }

    /// Returns what is seen if these columns are slower, and the others are not.
    fn says(slower: &[Column]) -> Option<String> {
        let outcome = |column| {
            if slower.contains(&column) { Compared::Slower } else { Compared::Same }
        };
        seen(&Column::ALL.map(|column| comparison(column, outcome(column))))
    }

    #[test]
    fn each_step_is_the_first_for_something() {
        for (slower, start) in [
            (&[WriteBandwidth, Sent, Received][..], "large operations"),
            (&[Write, Read, WriteTo], "small writes are slow, hops without a CPU are not"),
            (&[Write, Read, WriteTo, Hop], "hops without a CPU are slow as well"),
            (&[Read, WriteTo], "small operations"),
            (&[Write, WriteBandwidth, WriteTo, Hop], "hops without a CPU are slow as well"),
            (&[WriteTo, Hop], "loopback is fast"),
            (&[Write, WriteBandwidth], "the NIC is slow also in loopback"),
            (&[Sent], "sending is slow"),
            (&[Sent, WriteBandwidth], "sending is slow"),
            (&[Received], "receiving is slow"),
            (&[Sent, Received], "loopback is fast"),
            (&[WriteFrom], "loopback is fast"),
            (&[Sent, FastFlows], "all flows between the groups"),
        ] {
            let says = says(slower).unwrap_or_default();
            assert!(says.starts_with(start), "{slower:?}: {says}");
        }
        assert_eq!(says(&[]), None);
        assert_eq!(says(&[Column::Tail, Column::Survey]), None);
    }

    #[test]
    fn latency_of_both_roles_has_a_place() {
        let both = [Write, WriteTo, WriteFrom];
        let text = "slow in both roles, latency +100 us at the";
        let with_hops = says(&[&both[..], &[Hop]].concat());
        assert_eq!(with_hops, Some(format!("{text} NIC or its link")));
        assert_eq!(says(&both), Some(format!("{text} CPU or on its way to the NIC")));
        let without_hops = both.map(|column| comparison(column, Compared::Slower));
        assert_eq!(seen(&without_hops), Some(format!("{text} NIC, its link or its node")));
        // A bandwidth that the latency does not explain is another fault.
        let with_bandwidth = says(&[&both[..], &[Hop, Sent]].concat()).unwrap();
        assert!(with_bandwidth.starts_with("sending is slow"), "{with_bandwidth}");
    }

    #[test]
    fn tests_that_were_not_measured_say_nothing() {
        let sent = comparison(Sent, Compared::Slower);
        assert_eq!(seen(&[sent]), None);
        assert_eq!(seen(&[sent, comparison(Received, Compared::Unclear)]), None);
    }
}
