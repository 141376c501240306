//! `stat --top`: the NICs of this node, now: a screen, once a second, in place on the terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write as _};
use std::time::{Duration, Instant};

use facts::error::{Context, Failure};
use facts::interrupt;
use facts::text::{plural, shown};
use node::machine::Machine;
use node::nic::counter_table::CounterRow;
use node::nic::counters::CounterChanges;
use page::progress_line::has_cursor;
use page::table;
use rustix::event::PollFlags;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::job_findings::JobNic;
use crate::nics::RecordedNics;
use crate::note::note;
use crate::options::StatRequest;
use crate::text::{TITLES, nic_row, scaled};

/// How often the counters are read.
const INTERVAL: Duration = Duration::from_secs(1);

/// The size of a terminal that does not say its own: lines and columns.
const USUAL_SIZE: (usize, usize) = (24, 80);

/// Other screen without a cursor, and back.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l";

const END: &str = "\x1b[?25h\x1b[?1049l";

/// To the first line, and what deletes the rest of a line and of the screen.
const HOME: &str = "\x1b[H";

const CLEAR_LINE: &str = "\x1b[K";

const CLEAR_REST: &str = "\x1b[J";

/// Shows the NICs until a key ends it.
///
/// # Errors
///
/// Standard input or output that is no terminal, no NIC that can be read, and an interruption.
pub fn run(request: &StatRequest) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let why = "--top needs a terminal for standard input and output";
        return Err(Failure::usage(why));
    }
    if !has_cursor() {
        let why = "--top needs a terminal that can erase lines (TERM=dumb)";
        return Err(Failure::usage(why));
    }
    interrupt::watch()?;
    let machine = Machine::this();
    let mut nics = RecordedNics::begin(&request.devices, &request.set, &machine);
    for line in nics.notes.drain(..) {
        note(&line);
    }
    if nics.is_empty() {
        return Err(Failure::environment("no NIC can be read"));
    }
    let terminal = Terminal::take()?;
    let (mut before, mut read_at) = (nics.read_again(&machine), Instant::now());
    terminal.show(&[], Duration::ZERO)?;
    while !is_ended_within(read_at + INTERVAL)? {
        let (after, now) = (nics.read_again(&machine), Instant::now());
        let changed = before.iter().zip(&after).map(|((facts, before), (_, after))| JobNic {
            name: facts.device.clone(),
            host: String::new(),
            changes: CounterChanges::between(facts.clone(), before, after),
        });
        terminal.show(&changed.collect::<Vec<_>>(), now - read_at)?;
        (before, read_at) = (after, now);
    }
    Ok(())
}

/// Waits until this time, or for the key `q` or the end of the input. Returns whether these came.
fn is_ended_within(until: Instant) -> Result<bool, Failure> {
    let mut stdin = io::stdin();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !interrupt::wait(&stdin, PollFlags::IN, Some(left))? {
            return Ok(false);
        }
        let mut keys = [0; 64];
        let count = stdin.read(&mut keys).environment("cannot read keys")?;
        if count == 0 || keys[..count].contains(&b'q') {
            return Ok(true);
        }
    }
}

/// The terminal, on another screen and without lines of input. Dropping it restores both.
struct Terminal {
    before: Termios,
}

impl Terminal {
    fn take() -> Result<Self, Failure> {
        const WHAT: &str = "cannot set up the terminal";
        let before = tcgetattr(io::stdin()).environment(WHAT)?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        let terminal = Self { before };
        tcsetattr(io::stdin(), OptionalActions::Now, &keys).environment(WHAT)?;
        terminal.write(BEGIN)?;
        Ok(terminal)
    }

    /// Shows what the NICs did within this time.
    fn show(&self, nics: &[JobNic], within: Duration) -> Result<(), Failure> {
        let size = tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) =
            size.map_or(USUAL_SIZE, |size| (size.ws_row.into(), size.ws_col.into()));
        // The cursor stays below the last line.
        let text = if nics.is_empty() {
            "reading the counters for a second (q ends)\n".to_owned()
        } else {
            screen(nics, within, rows - 1, columns)
        };
        let lines = text.replace('\n', &format!("{CLEAR_LINE}\r\n"));
        self.write(&format!("{HOME}{lines}{CLEAR_REST}"))
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes());
        written.and_then(|()| stdout.flush()).map_err(interrupt::output_failed)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = self.write(END);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// The titles of the busiest counters.
const COUNTERS: [&str; 5] = [">Per second", "NIC", "Counter", "Unit", "Meaning"];

/// The lines of a screen of this size: a row for each NIC, then the counters that count fastest.
/// `within` is the time in which the counters have changed.
fn screen(nics: &[JobNic], within: Duration, rows: usize, columns: usize) -> String {
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

/// The rows of the counters that count fastest, at most this many.
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
