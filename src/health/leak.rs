//! Resources that an earlier job has left in use (diagnosis.md 2, `leak`).

use std::time::{Duration, Instant};

use facts::limit;
use facts::number::decimal;

use super::item::{Finding, Item};
use facts::severity::Severity;
use node::nic::files::Files;

/// Whether an earlier job has left entries of the tables of the NIC in use.
pub static LEAKED_RESOURCES: Item = Item {
    code: "leaked-resources",
    name: "leaked resources",
    source: "cxi_healthcheck",
    remedy: "an earlier job has left entries of the NIC's tables in use: drain and reboot the node",
};

/// Tables of the NIC, each with a file of the retry handler.
const TABLES: [&str; 5] = ["sct", "tct", "spt", "trs", "mst"];

/// Counters of the packets of RDMA, in both directions.
const PACKETS: [&str; 5] = [
    "pct_req_ordered",
    "pct_req_unordered",
    "pct_req_no_response",
    "pct_ptls_response",
    "pct_responses_received",
];

/// How long the tables may be in use after the last packet: a get whose last packet is lost ends
/// after 98 s (libcxi.md 12.3).
const QUIET: Duration = Duration::from_secs(100);

/// The use of the tables at a time.
#[derive(Clone, Debug)]
pub struct ResourceUse {
    at: Instant,
    /// Entries in use by table; `None` if a number cannot be read.
    in_use: Option<[u64; 5]>,
    /// Packets until then by counter; `None` if a counter cannot be read.
    packets: Option<[u64; 5]>,
}

impl ResourceUse {
    /// Reads the files of a NIC.
    pub fn read(files: &Files) -> Self {
        let in_use = |table: &str| decimal(&files.retry_handler_text(&format!("{table}_in_use"))?);
        let packets = |name: &str| Some(files.counter(name)?.value);
        Self {
            at: Instant::now(),
            in_use: all(TABLES.map(in_use)),
            packets: all(PACKETS.map(packets)),
        }
    }

    /// Returns the entries that have been in use since `before`. They have a verdict only if the
    /// NIC was idle for 100 s: no process has resources of a service (`is_unused`), and no
    /// packet was sent or received.
    pub fn since(&self, before: &Self, is_unused: bool) -> Finding {
        let Some(in_use) = self.in_use else {
            return Finding::absent(&LEAKED_RESOURCES);
        };
        if in_use == [0; 5] {
            return Finding::compared(&LEAKED_RESOURCES, "0", "0", Severity::Good);
        }
        let is_quiet = self.packets.is_some() && self.packets == before.packets;
        let is_long = self.at.duration_since(before.at) >= limit::in_effect(QUIET);
        let before = before.in_use.filter(|_| is_unused && is_quiet && is_long);
        let left = before.map(|before| std::array::from_fn(|at| in_use[at].min(before[at])));
        match left.filter(|left| *left != [0; 5]) {
            Some(left) => Finding::compared(&LEAKED_RESOURCES, text(left), "0", Severity::Suspect),
            None => Finding {
                note: Some(format!(
                    "no verdict: the NIC must be idle for {0} s (--no-traffic --window={0}s)",
                    QUIET.as_secs()
                )),
                ..Finding::shown(&LEAKED_RESOURCES, text(in_use))
            },
        }
    }
}

/// Returns the numbers; `None` if one is missing.
fn all(numbers: [Option<u64>; 5]) -> Option<[u64; 5]> {
    let found: Option<Vec<u64>> = numbers.into_iter().collect();
    found?.try_into().ok()
}

/// Returns the tables with entries: `3 sct, 1 tct`.
fn text(in_use: [u64; 5]) -> String {
    let tables = in_use.into_iter().zip(TABLES).filter(|(count, _)| *count > 0);
    let tables = tables.map(|(count, table)| format!("{count} {table}"));
    tables.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use node::nic::testing::MadeUp;

    /// Returns the use of tables this long after `start`, with this number of packets.
    fn in_use(start: Instant, seconds: u64, in_use: [u64; 5], packets: u64) -> ResourceUse {
        ResourceUse {
            at: start + Duration::from_secs(seconds),
            in_use: Some(in_use),
            packets: Some([7, 7, 0, 7, packets]),
        }
    }

    #[test]
    fn resources_of_an_idle_nic_are_suspect() {
        let start = Instant::now();
        let before = in_use(start, 0, [3, 1, 0, 0, 2], 5);
        let found = in_use(start, 100, [2, 1, 4, 0, 0], 5).since(&before, true);
        assert_eq!(found.verdict, Severity::Suspect);
        assert_eq!(found.value.as_deref(), Some("2 sct, 1 tct"));
        let empty = in_use(start, 0, [0; 5], 5);
        assert_eq!(empty.since(&before, false).verdict, Severity::Good);
    }

    #[test]
    fn resources_have_no_verdict_unless_the_nic_is_known_to_be_idle() {
        let start = Instant::now();
        let before = in_use(start, 0, [3, 1, 0, 0, 0], 5);
        let short = in_use(start, 99, [3, 1, 0, 0, 0], 5);
        let long = in_use(start, 100, [3, 1, 0, 0, 0], 5);
        let with_packets = in_use(start, 100, [3, 1, 0, 0, 0], 6);
        let others = in_use(start, 100, [0, 0, 1, 0, 0], 5);
        let unknown = |usage: &ResourceUse| ResourceUse { packets: None, ..usage.clone() };
        for (case, found) in [
            ("in use", long.since(&before, false)),
            ("too short", short.since(&before, true)),
            ("packets", with_packets.since(&before, true)),
            ("without counters", unknown(&long).since(&unknown(&before), true)),
            ("other resources", others.since(&before, true)),
        ] {
            assert_eq!(found.verdict, Severity::Shown, "{case}");
            assert!(found.note.is_some(), "{case}");
        }
    }

    #[test]
    fn reads_files_of_retry_handler() {
        let made_up = MadeUp::new(&[]);
        let found = |made_up: &MadeUp| {
            let now = ResourceUse::read(&made_up.files);
            now.since(&now, true)
        };
        for table in TABLES {
            assert_eq!(found(&made_up).verdict, Severity::NotAvailable, "{table}");
            made_up.write_of_host(&format!("run/cxi/cxi0/{table}_in_use"), "1\n");
        }
        let value = found(&made_up).value;
        assert_eq!(value.as_deref(), Some("1 sct, 1 tct, 1 spt, 1 trs, 1 mst"));
    }
}
