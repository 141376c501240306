//! What the counters of the NICs did during a run: as data, and as text after the results.

use super::outcome::{CounterFinding, CounterResult, Counters, NicCounters, Side};
use facts::time_of_day::step_text;
use health::findings::{NicEvidence, RuleFinding, findings};
use node::nic::counter::CounterChange;
use node::nic::counter_table::{CounterRow, Preset};
use node::nic::counters::CounterChanges;
use page::table;
use plan::run_options;

/// The counters of the peer's NIC.
#[derive(Clone, Debug)]
pub enum PeerCounters {
    /// The peer uses the NIC of this side.
    OneNic,
    /// What the peer has sent.
    Received(CounterChanges),
    /// The run ended before the peer sent them, the peer does not know the option, or this side is
    /// a server, which does not receive them.
    NotAvailable,
}

impl Counters {
    /// Returns what the counters of the set did on the NICs of this side, which is `side`, and of
    /// the peer. `packets` with data were sent or received, about; `None` if that is unknown.
    pub fn new(
        preset: Preset,
        side: run_options::Side,
        own: &CounterChanges,
        peer: &PeerCounters,
        packets: Option<u64>,
    ) -> Self {
        let [own_side, peer_side] = sides(side);
        let received = match peer {
            PeerCounters::Received(changes) => Some(changes),
            PeerCounters::OneNic | PeerCounters::NotAvailable => None,
        };
        let mut findings = findings_of(own_side, own, packets);
        findings.extend(received.iter().flat_map(|nic| findings_of(peer_side, nic, packets)));
        Self {
            set: preset.to_string(),
            is_one_nic: matches!(peer, PeerCounters::OneNic),
            own: NicCounters::of(preset, own),
            peer: received.map(|changes| NicCounters::of(preset, changes)),
            findings,
            clock_step_s: None,
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

fn findings_of(side: Side, changes: &CounterChanges, packets: Option<u64>) -> Vec<CounterFinding> {
    let evidence = NicEvidence { changes, packets };
    let entry = |finding: RuleFinding| CounterFinding {
        side,
        device: changes.nic.device.clone(),
        code: finding.code.into(),
        text: finding.text,
        limit: finding.limit,
        limit_source: finding.source.into(),
    };
    findings(&evidence).into_iter().map(entry).collect()
}

impl NicCounters {
    fn of(preset: Preset, changes: &CounterChanges) -> Self {
        let counter = |name: String| {
            let change = changes.of(&name);
            CounterResult {
                name,
                change: change.and_then(CounterChange::count),
                seconds: change.and_then(CounterChange::within).map(|time| time.as_secs_f64()),
                was_reset: change == Some(CounterChange::Reset),
            }
        };
        let nic = changes.nic.clone();
        // Cassini 1 lacks counters of Cassini 2: they are not missing.
        let names = preset.rows().flat_map(CounterRow::names);
        let names = names.filter(|name| {
            let generation = nic.generation;
            generation.is_none_or(|generation| generation.has_counter(name))
        });
        Self {
            device: nic.device,
            is_software: nic.is_software,
            link_speed: nic.link_speed,
            pcie_gt_per_s: nic.pcie_gt_per_s,
            counters: names.map(counter).collect(),
        }
    }

    /// The number of counters that the NIC does not have.
    fn missing(&self) -> usize {
        let is_missing = |counter: &&CounterResult| counter.change.is_none() && !counter.was_reset;
        self.counters.iter().filter(is_missing).count()
    }

    fn find(&self, name: &str) -> Option<&CounterResult> {
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
    /// Returns what a line is about: it says so if the NIC is a software NIC.
    fn subject(&self) -> String {
        let kind = if self.nic.is_software { "software NIC " } else { "" };
        format!("{kind}{}", self.title)
    }
}

/// The counters that are not zero, what they explain, and what is not available, as lines. `side`
/// reports.
pub fn lines(side: run_options::Side, counters: &Counters) -> Vec<String> {
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
    let mut lines = table(&counters.set, &nics);
    for side in &nics {
        let (missing, all) = (side.nic.missing(), side.nic.counters.len());
        let subject = side.subject();
        if missing == all {
            lines.push(format!("Counters of {subject}: not available"));
        } else if missing > 0 {
            lines.push(format!("Counters of {subject}: {missing} of {all} not available"));
        }
    }
    if counters.peer.is_none() && !counters.is_one_nic && side == run_options::Side::Client {
        lines.push(
            "Counters of the server's NIC: not available (the server has not sent them)".into(),
        );
    }
    for side in &nics {
        let findings = counters.findings.iter();
        for finding in findings.filter(|finding| finding.side == side.side) {
            let (subject, text) = (side.subject(), &finding.text);
            let (limit, source) = (&finding.limit, &finding.limit_source);
            lines.push(format!("{subject}: {text} (limit: {limit}; source: {source})"));
        }
    }
    lines.extend(counters.clock_step_s.map(|step| step_text("this host", step)));
    let has_counters = |shown: &Shown| shown.nic.missing() < shown.nic.counters.len();
    if counters.findings.is_empty() && nics.iter().any(has_counters) {
        lines.push("Counters: nothing unusual".into());
    }
    lines
}

fn table(set: &str, nics: &[Shown]) -> Vec<String> {
    let preset = set.parse().unwrap_or(Preset::All);
    let mut rows = Vec::new();
    let is_shown = |row: &&CounterRow| preset == Preset::All || !row.is_background;
    for row in preset.rows().filter(is_shown) {
        for name in row.names() {
            let cells: Vec<String> = nics.iter().map(|nic| cell(nic.nic.find(&name))).collect();
            if cells.iter().any(|cell| !["0", "-"].contains(&cell.as_str())) {
                let text = [row.unit, row.meaning].map(String::from);
                rows.push([vec![name], cells, text.into()].concat());
            }
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let nics: Vec<String> = nics.iter().map(|nic| format!(">{}", nic.title)).collect();
    let mut titles = vec!["Counter"];
    titles.extend(nics.iter().map(String::as_str));
    titles.extend(["Unit", "Meaning"]);
    let mut lines = table::lines(&titles, rows);
    let width = lines.iter().map(String::len).max().unwrap_or(0);
    lines.push("-".repeat(width));
    lines
}

/// The change of a counter; a dash if it is not available.
fn cell(counter: Option<&CounterResult>) -> String {
    match counter {
        Some(counter) if counter.was_reset => "reset".into(),
        Some(counter) => counter.change.map_or("-".into(), |by| by.to_string()),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use node::nic::counters::NicFacts;

    fn counted(by: u64) -> CounterChange {
        CounterChange::Counted { by, within: Some(Duration::from_secs(2)) }
    }

    /// The counters of a NIC that has only the counters of the list.
    fn changes(device: &str, counters: &[(&str, CounterChange)]) -> CounterChanges {
        let nic = NicFacts {
            device: device.into(),
            is_software: device.starts_with("soft"),
            ..NicFacts::default()
        };
        let by_name = counters.iter().map(|(name, change)| ((*name).to_owned(), *change));
        CounterChanges::new(nic, by_name.collect())
    }

    const CLIENT: run_options::Side = run_options::Side::Client;

    fn text(side: run_options::Side, counters: &Counters) -> String {
        lines(side, counters).into_iter().map(|line| line + "\n").collect()
    }

    #[test]
    fn shows_both_nics_and_what_they_explain() {
        let own = changes(
            "cxi0",
            &[
                ("hni_tx_ok_opt", counted(1_234_567)),
                ("hni_pcs_good_cw", counted(78_125_000)),
                ("hni_pcs_corrected_cw", CounterChange::Reset),
                ("hni_rx_paused_3", counted(0)),
            ],
        );
        let peer =
            changes("cxi0", &[("hni_tx_ok_opt", counted(8)), ("pct_spt_timeouts", counted(1))]);
        let peer = PeerCounters::Received(peer);
        let document = Counters::new(Preset::Quick, CLIENT, &own, &peer, None);
        let expected = "\
Counter               cxi0 (client)  cxi0 (server)  Unit       Meaning
hni_tx_ok_opt               1234567              8  packets    sent in HPC format
hni_pcs_corrected_cw          reset              -  codewords  corrected; harmless until many
pct_spt_timeouts                  -              1  packets    not answered in time
---------------------------------------------------------------------------------------------
Counters of cxi0 (client): 168 of 172 not available
Counters of cxi0 (server): 170 of 172 not available
cxi0 (server): 1 packet was not answered in time, 0 packets were sent again: each timeout costs at least 1.07 s (limit: 0; source: Open MPI)
";
        assert_eq!(text(CLIENT, &document), expected);
        assert_eq!(document.findings[0].side, Side::Server);
        let good = document.own.find("hni_pcs_good_cw").unwrap();
        assert_eq!((good.change, good.seconds), (Some(78_125_000), Some(2.0)));
        let reset = document.own.find("hni_pcs_corrected_cw").unwrap();
        assert_eq!((reset.change, reset.was_reset), (None, true));
        let missing = document.own.find("pct_spt_timeouts").unwrap();
        assert_eq!((missing.change, missing.was_reset), (None, false));
    }

    #[test]
    fn says_what_is_not_available() {
        let nothing = changes("soft0", &[]);
        let counters =
            |side| Counters::new(Preset::Quick, side, &nothing, &PeerCounters::NotAvailable, None);
        let expected = "\
Counters of software NIC soft0 (client): not available
Counters of the server's NIC: not available (the server has not sent them)
";
        assert_eq!(text(CLIENT, &counters(CLIENT)), expected);
        let server = run_options::Side::Server;
        let expected = "Counters of software NIC soft0 (server): not available\n";
        assert_eq!(text(server, &counters(server)), expected);
    }

    #[test]
    fn one_nic_has_one_column_and_all_counters() {
        let own = changes("soft0", &[("hni_pcs_good_cw", counted(5))]);
        let counters = Counters::new(Preset::All, CLIENT, &own, &PeerCounters::OneNic, None);
        let counters = Counters { clock_step_s: Some(-2.0), ..counters };
        let expected = "\
Counter          soft0  Unit       Meaning
hni_pcs_good_cw      5  codewords  received without error
---------------------------------------------------------
Counters of software NIC soft0: 702 of 703 not available
the clock of this host was stepped by -2.000 s meanwhile: rates use the monotonic clock
Counters: nothing unusual
";
        assert_eq!(text(CLIENT, &counters), expected);
    }
}
