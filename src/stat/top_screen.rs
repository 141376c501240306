//! The screen of `stat --top`: what the NICs of this node do now.

use std::fmt::Write;
use std::time::Duration;

use super::text::{TITLES, nic_row, scaled};
use crate::job_findings::JobNic;
use facts::text::{plural, shown};
use node::nic::counter_table::CounterRow;
use page::table;

/// The titles of the busiest counters.
const COUNTERS: [&str; 5] = [">Per second", "NIC", "Counter", "Unit", "Meaning"];

/// Returns the lines of a screen of this size: a row for each NIC, then the counters that count
/// fastest. `within` is the time in which the counters have changed.
pub fn screen(nics: &[JobNic], within: Duration, rows: usize, columns: usize) -> String {
    let (count, ending) = (nics.len(), plural(nics.len()));
    let mut lines = vec![
        format!("{count} NIC{ending}: the last {:.1} s (q ends)", within.as_secs_f64()),
        String::new(),
    ];
    let nic_rows = nics.iter().map(|nic| nic_row(nic).into());
    lines.extend(table::lines(&TITLES, nic_rows.collect()));
    lines.push(String::new());
    // One line is for the titles.
    let left = rows.saturating_sub(lines.len() + 1);
    let busiest = busiest(nics, left);
    if busiest.is_empty() {
        lines.push("no counter has counted".into());
    } else {
        lines.extend(table::lines(&COUNTERS, busiest));
    }
    let mut text = String::new();
    for line in lines.iter().take(rows) {
        let cut: String = shown(line).chars().take(columns).collect();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{cut}");
    }
    text
}

/// Returns the rows of the counters that count fastest, at most this many.
fn busiest(nics: &[JobNic], most: usize) -> Vec<Vec<String>> {
    let nic_rates = |nic: &JobNic| {
        let counts = nic.changes.iter().filter_map(|(name, change)| {
            let row = CounterRow::of(name).filter(|row| !row.is_gauge)?;
            let rate = change.per_second().filter(|rate| *rate > 0.0)?;
            Some((rate, nic.name.clone(), name.to_owned(), row))
        });
        counts.collect::<Vec<_>>()
    };
    let mut all: Vec<_> = nics.iter().flat_map(nic_rates).collect();
    all.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    let row = |(rate, nic, counter, row): (f64, String, String, &CounterRow)| {
        let rate = scaled(rate);
        vec![rate.trim_end().to_owned(), nic, counter, row.unit.to_owned(), row.meaning.to_owned()]
    };
    all.into_iter().take(most).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobStat;
    use crate::testing;

    fn nics(counts: &[(&str, u64)]) -> Vec<JobNic> {
        let node = testing::node("nid1", &[("cxi0", counts), ("cxi1", &[])]);
        JobStat::of(vec![node], Vec::new()).changes()
    }

    fn lines(counts: &[(&str, u64)], rows: usize, columns: usize) -> Vec<String> {
        let text = screen(&nics(counts), Duration::from_secs(10), rows, columns);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn shows_nics_and_the_fastest_counters() {
        let counts = [
            ("hni_sts_tx_ok_octets", 20_000),
            ("hni_fgfc_port", 50),
            ("pct_retry_srb_requests", 0),
        ];
        let found = lines(&counts, 24, 100);
        let expected = [
            "2 NICs: the last 10.0 s (q ends)",
            "",
            "NIC      Sent  Received  Timeouts  Resent  Held back  Paused",
            "cxi0  20.0 kB         -         -       0          -       -",
            "cxi1        -         -         -       -          -       -",
            "",
            "Per second  NIC   Counter               Unit    Meaning",
            "     2.0 k  cxi0  hni_sts_tx_ok_octets  bytes   sent in good packets",
            "         5  cxi0  hni_fgfc_port         events  flow control of the fabric, by port",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn fits_into_the_screen() {
        let counts = [("hni_sts_tx_ok_octets", 20_000), ("hni_sts_rx_ok_octets", 30_000)];
        let found = lines(&counts, 8, 20);
        assert_eq!(found.len(), 8);
        assert!(found.iter().all(|line| line.chars().count() <= 20));
        assert!(found[7].starts_with("     3.0 k"), "{found:?}");
        assert_eq!(lines(&counts, 3, 80).len(), 3);
        assert_eq!(lines(&[], 24, 80)[6], "no counter has counted");
    }
}
