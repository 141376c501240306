//! Whether others use the fabric before the load begins: then figures have no verdict (load.md
//! 3.8).

use std::collections::BTreeMap;

use campaign::quiet::ids::NicId;
use campaign::timetable::{TaskResult, Watched};

/// Bytes per second and direction of a link of 200 Gb/s, the slowest one of a Cassini NIC.
const LINE_RATE: f64 = 25e9;

/// Part of the line rate from which on a NIC counts as used, and part of the NICs that may be.
const USED: f64 = 0.01;
const MOST_USED: f64 = 0.05;

/// Part of the packets that may arrive with a mark of congestion.
const MOST_MARKED: f64 = 0.01;

/// Returns how others use the fabric, in words, from what NICs without own traffic have counted for
/// this long, in seconds. `None` if it is idle.
pub fn foreign_traffic(results: &[TaskResult], seconds: f64) -> Option<String> {
    let mut octets: BTreeMap<NicId, u64> = BTreeMap::new();
    let (mut marked, mut unmarked) = (0_u64, 0_u64);
    for result in results {
        let nic_octets = octets.entry(result.nic).or_default();
        for (watched, change) in &result.watched {
            let sum = match watched {
                Watched::Octets => &mut *nic_octets,
                Watched::Marked => &mut marked,
                Watched::Unmarked => &mut unmarked,
                _ => continue,
            };
            *sum = sum.saturating_add(*change);
        }
    }
    // Both directions together, which is stricter than each alone.
    let is_used = |octets: &&u64| **octets as f64 > USED * LINE_RATE * seconds;
    let (used, all) = (octets.values().filter(is_used).count(), octets.len());
    if used as f64 > MOST_USED * all as f64 {
        return Some(format!("{used} of {all} NICs had traffic of others before it"));
    }
    let packets = marked.saturating_add(unmarked);
    let part = marked as f64 / packets.max(1) as f64;
    (part > MOST_MARKED).then(|| {
        let percent = 100.0 * part;
        format!("{percent:.0} % of the packets before it had marks of congestion")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use campaign::timetable::TaskAnswer;

    fn results(count: u32, used: u32, counters: &[(Watched, u64)]) -> Vec<TaskResult> {
        let nic_result = |nic| TaskResult {
            watched: if nic < used { counters.to_vec() } else { Vec::new() },
            ..TaskResult::new(0, NicId(nic), TaskAnswer::Present)
        };
        (0..count).map(nic_result).collect()
    }

    #[test]
    fn traffic_of_others_is_noticed() {
        let text =
            |used, octets| foreign_traffic(&results(40, used, &[(Watched::Octets, octets)]), 2.0);
        // 1 % of 25 GB/s for 2 s is 500 MB.
        assert_eq!(text(3, 500_000_000), None);
        assert_eq!(text(2, 2_000_000_000), None);
        let noticed = text(3, 500_000_001).unwrap();
        assert_eq!(noticed, "3 of 40 NICs had traffic of others before it");
        assert_eq!(foreign_traffic(&[], 2.0), None);
    }

    #[test]
    fn marks_of_congestion_are_noticed() {
        let text = |marked| {
            let counters = [(Watched::Marked, marked), (Watched::Unmarked, 1000 - marked)];
            foreign_traffic(&results(40, 1, &counters), 2.0)
        };
        assert_eq!(text(10), None);
        let noticed = text(20).unwrap();
        assert_eq!(noticed, "2 % of the packets before it had marks of congestion");
    }
}
