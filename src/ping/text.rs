//! The text of `ping`: a line for each round of a pair, and the table at the end.

use crate::document::{DIRECTION, OPERATIONS, Ping, PingPair};
use facts::error::Kind;
use facts::severity::Severity;
use page::page::{Page, Words};
use page::table::wrapped;

/// The line before the first round.
pub fn title(report: &Ping) -> String {
    let is_software = report.pairs.iter().any(|pair| pair.is_software);
    let platform = if is_software { " (software NIC, no Cassini hardware)" } else { "" };
    format!("8 bytes, median in us{platform}")
}

/// The line of the last round of a pair for a terminal with this number of columns, and why an
/// operation has failed, behind the line or below it. A narrow terminal does not show the peer,
/// which the table at the end has.
pub fn line(report: &Ping, index: usize, columns: usize) -> Words {
    let pair = &report.pairs[index];
    let width = |text: fn(&PingPair) -> usize| report.pairs.iter().map(text).max().unwrap_or(0);
    let host = width(|pair| pair.host.len());
    let device = width(|pair| pair.device.to_string().len());
    let mut cells = Words::default();
    // The end of a cell is written with the cell behind it: no line ends in spaces.
    let mut end = 0;
    let mut reason = None;
    for (operation, answer) in OPERATIONS.iter().zip(&pair.last) {
        let (severity, cell) = match &answer.latencies {
            Ok(latencies) => (Severity::Good, us(latencies.median_ns)),
            Err(problem) => {
                reason.get_or_insert(problem);
                (Severity::Bad, "FAILED".to_owned())
            }
        };
        cells = cells.and(format!("{:end$}  {} ", "", operation.name));
        end = 5_usize.saturating_sub(cell.len());
        cells = cells.and(Words::verdict(severity, cell));
    }
    let name = format!("{:host$}  {:device$}", pair.host, pair.device.to_string());
    let with_peer = Words::from(format!("{name} -> {:7}", pair.peer())).and(cells.clone());
    let is_narrow = with_peer.width() > columns;
    let line = if is_narrow { Words::from(name).and(cells) } else { with_peer };
    let Some(problem) = reason else { return line };
    let side = if problem.kind == Kind::Peer.name() { "server: " } else { "" };
    let step = at(problem.step.as_deref());
    // The place of the error follows in the table at the end.
    let message = problem.message.split("; ").next().unwrap_or_default();
    let why = format!("{side}{step}{message}");
    let whole = line.clone().and(format!("  {why}"));
    if whole.width() <= columns {
        return whole;
    }
    let below = wrapped(&why, columns.saturating_sub(4), "");
    line.and(below.iter().map(|line| format!("\n    {line}")).collect::<String>())
}

/// The step of a failure in words, for the beginning of a line.
fn at(step: Option<&str>) -> String {
    match step {
        None => String::new(),
        Some("tcp") => "TCP: ".into(),
        Some("handshake") => "no handshake: ".into(),
        Some("vni") => "VNI: ".into(),
        Some("answer") => "no answer: ".into(),
        Some("turn") => "busy: ".into(),
        Some("operation") => "NIC error: ".into(),
        Some(DIRECTION) => "one direction only, the peer's operations do not arrive here: ".into(),
        Some(step) => format!("{step}: "),
    }
}

/// A time in microseconds: in five columns below 100 ms.
fn us(ns: u64) -> String {
    let decimals = match ns {
        ..99_995 => 2,
        99_995..999_950 => 1,
        _ => 0,
    };
    format!("{:.decimals$}", ns as f64 / 1000.0)
}

/// The table of all rounds, and what failed.
pub fn summary(report: &Ping) -> Page {
    let titles =
        ["Host", "NIC", "Peer", "Ping", ">Sent", ">Lost", ">Loss", ">Min[us]", ">Median", ">Max"];
    let mut rows = Vec::new();
    for pair in &report.pairs {
        for result in pair.operations.iter().filter(|operation| operation.sent > 0) {
            let time = |ns: Option<u64>| ns.map_or("-".into(), us);
            rows.push(vec![
                pair.host.clone(),
                pair.device.to_string(),
                pair.peer(),
                result.name.into(),
                result.sent.to_string(),
                result.lost.to_string(),
                format!("{:.0} %", 100.0 * result.lost as f64 / result.sent as f64),
                time(result.min_ns),
                time(result.median_ns),
                time(result.max_ns),
            ]);
        }
    }
    let mut page = Page::default();
    page.empty_line();
    page.table(&titles, rows);
    page.fit_table(&["Loss", "Peer", "Max"]);
    for pair in &report.pairs {
        let mut failures = pair.failures.iter().peekable();
        while let Some(failure) = failures.next() {
            let (host, device) = (&pair.host, pair.device);
            let (operation, message) = (failure.operation, &failure.message);
            let step = at(failure.step.as_deref());
            let times = match failure.count {
                1 => "once".into(),
                count => format!("{count} times"),
            };
            page.line(format!("\n{host} {device} {operation} ({times}): {step}{message}"));
            // One hint for all kinds of operation that have the same one.
            let next = failures.peek().and_then(|next| next.hint.as_ref());
            if let Some(hint) = failure.hint.as_ref().filter(|hint| next != Some(*hint)) {
                page.line(format!("hint: {hint}"));
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::tests::{answered, pair, unanswered};
    use page::table::TextStyle;

    #[test]
    fn shows_each_round_in_one_line() {
        let ok = || answered(1900, 2010, 2500);
        let report = Ping::new(vec![
            pair([vec![ok(), ok(), ok(), ok()]]),
            pair([vec![ok(), ok(), ok(), unanswered()]]),
        ]);
        let line = |index, columns| {
            let mut page = Page::default();
            page.line(line(&report, index, columns));
            page.text(TextStyle::Plain).trim_end_matches('\n').to_owned()
        };
        let wide = "node7  cxi1 -> 0x13     write 2.01   read 2.01   atomic 2.01   send 2.01";
        assert_eq!(line(0, wide.len()), wide);
        let narrow = "node7  cxi1  write 2.01   read 2.01   atomic 2.01   send 2.01";
        assert_eq!(line(0, wide.len() - 1), narrow);
        let expected = "\
node7  cxi1 -> 0x13     write 2.01   read 2.01   atomic 2.01   send FAILED
    one direction only, the peer's operations do not arrive here: no answer to a
    send within 5 s";
        assert_eq!(line(1, 80), expected);
        let times = [2_010, 99_990, 100_040, 999_900, 1_234_567].map(us);
        assert_eq!(times, ["2.01", "99.99", "100.0", "999.9", "1235"]);
    }

    #[test]
    fn narrow_table_keeps_minimum_and_median() {
        let mut report = Ping::new(vec![pair([])]);
        let answers = || answered(1900, 2010, 2500);
        report.pairs[0].add(vec![answers(), answers(), answers(), answers()]);
        report.pairs[0].host = "host".repeat(9);
        let text = summary(&report).text(TextStyle::Plain);
        let title = text.lines().nth(1).expect("titles");
        assert!(title.ends_with("NIC   Ping    Sent  Lost  Min[us]  Median"), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
