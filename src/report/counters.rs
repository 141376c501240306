//! What the counters of the NICs did during a run: as data, and as text after the results.

use std::io::{self, Write};

use super::outcome::{Counter, CounterFinding, Counters, NicCounters, Side};
use super::table::{self, Align};
use crate::nic::counter::Change;
use crate::nic::counter_table::{Preset, Row};
use crate::nic::counters::Changes;
use crate::nic::evidence::Evidence;
use crate::nic::findings::{Finding, findings};
use crate::run_options;

/// The counters of a run.
#[derive(Clone, Debug)]
pub struct RunCounters {
    /// The requested ones.
    pub preset: Preset,
    /// The side that reports.
    pub side: run_options::Side,
    /// The NIC of this side.
    pub own: Changes,
    /// The NIC of the peer.
    pub peer: PeerCounters,
    /// Packets with data that the run sent or received, about; `None` if unknown.
    pub packets: Option<u64>,
}

/// The counters of the peer's NIC.
#[derive(Clone, Debug)]
pub enum PeerCounters {
    /// The peer uses the NIC of this side.
    OneNic,
    /// What the peer has sent.
    Received(Changes),
    /// The run ended before the peer sent them, the peer does not know the option, or this side is
    /// a server, which does not receive them.
    NotAvailable,
}

impl From<&RunCounters> for Counters {
    fn from(run: &RunCounters) -> Self {
        let [own, peer] = sides(run.side);
        let mut findings = findings_of(own, &run.own, run.packets);
        let received = match &run.peer {
            PeerCounters::Received(changes) => Some(changes),
            PeerCounters::OneNic | PeerCounters::NotAvailable => None,
        };
        findings.extend(received.map_or(Vec::new(), |of| findings_of(peer, of, run.packets)));
        Self {
            set: run.preset.to_string(),
            is_one_nic: matches!(run.peer, PeerCounters::OneNic),
            own: NicCounters::of(run.preset, &run.own),
            peer: received.map(|of| NicCounters::of(run.preset, of)),
            findings,
        }
    }
}

/// Returns this side, which is `side`, and the peer.
fn sides(side: run_options::Side) -> [Side; 2] {
    match side {
        run_options::Side::Client => [Side::Client, Side::Server],
        run_options::Side::Server => [Side::Server, Side::Client],
    }
}

fn findings_of(side: Side, changes: &Changes, packets: Option<u64>) -> Vec<CounterFinding> {
    let evidence = Evidence { changes, packets };
    let entry = |of: Finding| CounterFinding {
        side,
        device: changes.nic.device.clone(),
        code: of.code.into(),
        text: of.text,
        limit: of.limit,
        limit_source: of.source.into(),
    };
    findings(&evidence).into_iter().map(entry).collect()
}

impl NicCounters {
    fn of(preset: Preset, changes: &Changes) -> Self {
        let counter = |name: String| {
            let change = changes.of(&name);
            Counter {
                name,
                change: change.and_then(Change::count),
                seconds: change
                    .and_then(Change::within)
                    .map(|time| time.as_secs_f64()),
                was_reset: change == Some(Change::Reset),
            }
        };
        let nic = changes.nic.clone();
        Self {
            device: nic.device,
            is_software: nic.is_software,
            link_speed: nic.link_speed,
            pcie_gt_per_s: nic.pcie_gt_per_s,
            counters: preset.rows().flat_map(Row::names).map(counter).collect(),
        }
    }

    /// Returns the number of counters that the NIC does not have.
    fn missing(&self) -> usize {
        let is_missing = |of: &&Counter| of.change.is_none() && !of.was_reset;
        self.counters.iter().filter(is_missing).count()
    }

    fn find(&self, name: &str) -> Option<&Counter> {
        self.counters.iter().find(|counter| counter.name == name)
    }
}

/// One NIC in the text.
struct Shown<'a> {
    side: Side,
    /// `soft0`, or `soft0 (client)` if the sides have NICs of their own.
    title: String,
    nic: &'a NicCounters,
}

impl Shown<'_> {
    /// Returns what a line is about: counters of a software NIC are not those of hardware.
    fn subject(&self) -> String {
        let kind = if self.nic.is_software {
            "software NIC "
        } else {
            ""
        };
        format!("{kind}{}", self.title)
    }
}

/// Writes the counters that are not zero, what they explain, and what is not available. `side`
/// writes.
///
/// # Errors
///
/// `out` cannot be written.
pub fn write(out: &mut impl Write, side: run_options::Side, counters: &Counters) -> io::Result<()> {
    let sides = sides(side).map(|side| {
        let name = match side {
            Side::Client => "client",
            Side::Server => "server",
        };
        (side, name)
    });
    let nics = [Some(&counters.own), counters.peer.as_ref()];
    let shown = |((side, name), nic): ((Side, &str), Option<_>)| {
        let nic: &NicCounters = nic?;
        let title = if counters.is_one_nic {
            nic.device.clone()
        } else {
            format!("{} ({name})", nic.device)
        };
        Some(Shown { side, title, nic })
    };
    let nics: Vec<Shown> = sides.into_iter().zip(nics).filter_map(shown).collect();
    write_table(out, &counters.set, &nics)?;
    for of in &nics {
        let (missing, all) = (of.nic.missing(), of.nic.counters.len());
        let subject = of.subject();
        if missing == all {
            writeln!(out, "Counters of {subject}: not available")?;
        } else if missing > 0 {
            writeln!(
                out,
                "Counters of {subject}: {missing} of {all} not available"
            )?;
        }
    }
    if counters.peer.is_none() && !counters.is_one_nic && side == run_options::Side::Client {
        writeln!(
            out,
            "Counters of the server's NIC: not available (the server has not sent them)"
        )?;
    }
    for of in &nics {
        let findings = counters.findings.iter();
        for finding in findings.filter(|finding| finding.side == of.side) {
            let (subject, text) = (of.subject(), &finding.text);
            let (limit, source) = (&finding.limit, &finding.limit_source);
            writeln!(out, "{subject}: {text} (limit: {limit}; source: {source})")?;
        }
    }
    let has_counters = |of: &Shown| of.nic.missing() < of.nic.counters.len();
    if counters.findings.is_empty() && nics.iter().any(has_counters) {
        writeln!(out, "Counters: nothing unusual")?;
    }
    Ok(())
}

fn write_table(out: &mut impl Write, set: &str, nics: &[Shown]) -> io::Result<()> {
    let preset = set.parse().unwrap_or(Preset::All);
    let mut rows = Vec::new();
    let is_shown = |row: &&Row| preset == Preset::All || !row.is_background;
    for row in preset.rows().filter(is_shown) {
        for name in row.names() {
            let cells: Vec<String> = nics.iter().map(|of| cell(of.nic.find(&name))).collect();
            if cells
                .iter()
                .any(|cell| !["0", "-"].contains(&cell.as_str()))
            {
                let text = [row.unit, row.meaning].map(String::from);
                rows.push([vec![name], cells, text.into()].concat());
            }
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let titles = nics.iter().map(|of| of.title.clone());
    let titles = [vec!["Counter".into()], titles.collect()].concat();
    rows.insert(0, [titles, vec!["Unit".into(), "Meaning".into()]].concat());
    let mut align = vec![Align::Right; nics.len() + 3];
    for words in [0, nics.len() + 1, nics.len() + 2] {
        align[words] = Align::Left;
    }
    let lines = table::lines(rows, &align);
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    let width = lines.iter().map(String::len).max().unwrap_or(0);
    writeln!(out, "{}", "-".repeat(width))
}

/// Returns the change of a counter; a dash if it is not available.
fn cell(counter: Option<&Counter>) -> String {
    match counter {
        Some(counter) if counter.was_reset => "reset".into(),
        Some(counter) => counter.change.map_or("-".into(), |by| by.to_string()),
        None => "-".into(),
    }
}
