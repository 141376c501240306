//! The report as text.

use std::collections::BTreeMap;

use super::job::JobStat;
use super::job_findings::{JobNic, messages, octets, percent, timeouts_of};
use super::series::NodeSeries;
use facts::text::plural;
use facts::time_of_day::step_text;
use health::findings::NicEvidence;
use node::nic::counter::CounterChange;
use node::nic::counter_table::CounterRow;
use node::nic::counters::CounterChanges;
use page::page::Page;

facts::named_enum! {
    /// How much the text shows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        Line = "line",
        /// Some sentences.
        #[default]
        Summary = "summary",
        /// Also a line for each NIC.
        Nics = "nics",
        /// Also the counters that have counted.
        All = "all",
    }
    impl Display;
    impl FromStr or "expected line, summary, nics, all";
}

/// Share of the traffic below which NICs are named as hardly used.
const LITTLE: f64 = 0.01;

/// Findings that the sentence before them has already.
const IN_OTHERS: [&str; 1] = ["never_answered"];

/// The page of the report.
pub fn page(job: &JobStat, level: Level) -> Page {
    let mut page = Page::default();
    let nics = job.changes();
    if level == Level::Line {
        page.line(format!("{}: {}", heading(job), in_one_line(job, &nics)));
        return page;
    }
    page.line(heading(job));
    page.lines(notes(job, &nics));
    let shown = job.findings.iter().filter(|finding| !IN_OTHERS.contains(&finding.code.as_str()));
    page.lines(shown.map(|finding| finding.text.as_str()));
    page.lines(job.series.iter().flat_map(NodeSeries::peaks));
    if !job.is_unusual() {
        page.line("nothing unusual");
    }
    page.lines(messages_line(&nics));
    page.lines(traffic_line(job, &nics));
    if level >= Level::Nics {
        nic_table(&mut page, &nics);
    }
    if level == Level::All {
        counter_table(&mut page, &nics);
    }
    page
}

/// The most important sentence, and what is missing.
fn in_one_line(job: &JobStat, nics: &[JobNic]) -> String {
    let first = job.unusual().next().map(|finding| finding.text.clone());
    let all: Vec<String> = first.into_iter().chain(notes(job, nics)).collect();
    if all.is_empty() { "nothing unusual".into() } else { all.join("; ") }
}

/// Returns what ran, where and how long.
fn heading(job: &JobStat) -> String {
    let count = |count: usize, what: &str| format!("{count} {what}{}", plural(count));
    let nodes = count(job.nodes.len(), "node");
    let nics = count(job.nics.len(), "NIC");
    let step = job.job.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    let command = Some(job.program.join(" ")).filter(|words| !words.is_empty());
    let elapsed = job.seconds.map(|seconds| format!("{seconds:.1} s"));
    let rest: Vec<String> = [command, elapsed, job.end()].into_iter().flatten().collect();
    let rest = if rest.is_empty() { String::new() } else { format!(": {}", rest.join(", ")) };
    let software = if job.is_software() { " (software NICs)" } else { "" };
    format!("{nodes}, {nics}{software}{step}{rest}")
}

/// Returns what is missing.
fn notes(job: &JobStat, nics: &[JobNic]) -> Vec<String> {
    let mut notes = Vec::new();
    if !job.has_readings() {
        notes.push("no counters could be read".to_owned());
    }
    let merge = job.directory.as_ref().map_or(String::new(), |directory| {
        format!(" (when they have ended: cxidiag stat --merge {directory})")
    });
    if !job.missing_nodes.is_empty() {
        notes.push(format!("no readings from {}{merge}", job.missing_nodes.join(", ")));
    }
    let without: Vec<&str> = job.without_end().collect();
    if !without.is_empty() {
        notes.push(format!("no end reading from {}{merge}", without.join(", ")));
    }
    let place = if job.nodes.len() == 1 { " of this node" } else { "" };
    match job.nodes.iter().map(|node| node.still_running).sum::<u32>() {
        0 => {}
        1 => notes.push(format!("1 process{place} was still running")),
        count => notes.push(format!("{count} processes{place} were still running")),
    }
    let was_reset =
        |nic: &&JobNic| nic.changes.iter().any(|(_, change)| change == CounterChange::Reset);
    let reset: Vec<&str> = nics.iter().filter(was_reset).map(|nic| nic.name.as_str()).collect();
    if !reset.is_empty() {
        notes.push(format!("counters were reset meanwhile: {}", reset.join(", ")));
    }
    for node in &job.nodes {
        notes.extend(node.clock_step_s.map(|step| step_text(&node.host, step)));
    }
    notes
}

fn messages_line(nics: &[JobNic]) -> Option<String> {
    let [posted, unexpected, software] = messages(nics)?;
    let all = posted.saturating_add(unexpected).saturating_add(software);
    let share = |count: u64| percent(count as f64 / all as f64);
    let software = match software {
        0 => String::new(),
        count => format!(", {} were left to software", share(count)),
    };
    (all > 0).then(|| {
        format!(
            "messages: {} found a posted receive, {} came unexpected{software}",
            share(posted),
            share(unexpected)
        )
    })
}

/// The bytes that a NIC has sent, and the bytes per second.
fn sent(changes: &CounterChanges) -> Option<(u64, f64)> {
    let change = changes.of("hni_sts_tx_ok_octets")?;
    Some((change.count()?, change.per_second().unwrap_or(0.0)))
}

fn traffic_line(job: &JobStat, nics: &[JobNic]) -> Option<String> {
    let sent: Vec<(&JobNic, u64, f64)> = (nics.iter())
        .filter_map(|nic| sent(&nic.changes).map(|(bytes, rate)| (nic, bytes, rate)))
        .collect();
    let (fastest, _, rate) = sent.iter().max_by(|(.., a), (.., b)| a.total_cmp(b))?;
    let all = sent.iter().map(|(_, bytes, _)| *bytes).fold(0, u64::saturating_add);
    if all == 0 {
        return Some("traffic: nothing was sent".into());
    }
    let mut line = format!(
        "traffic: {}B out, {}B/s a NIC at most ({})",
        scaled(all as f64),
        scaled(*rate),
        fastest.name
    );
    let unused = unused(nics);
    if !unused.is_empty() {
        let place = if job.nodes.len() > 1 { " of all nodes" } else { "" };
        line += &format!("; {}{place} carried < 1 %", unused.join(" and "));
    }
    Some(line)
}

/// The names of NICs that carried next to nothing in both directions, on all nodes together; none
/// if the bytes of any NIC are unknown.
fn unused(nics: &[JobNic]) -> Vec<&str> {
    let mut by_device: BTreeMap<&str, u64> = BTreeMap::new();
    for nic in nics {
        let Some(octets) = octets(&nic.changes) else {
            return Vec::new();
        };
        let sum = by_device.entry(&nic.changes.nic.device).or_default();
        *sum = sum.saturating_add(octets);
    }
    let all = by_device.values().copied().fold(0, u64::saturating_add);
    let is_little = |bytes: u64| (bytes as f64) < LITTLE * all as f64;
    let unused = by_device.iter().filter(|(_, bytes)| is_little(**bytes));
    unused.map(|(device, _)| *device).collect()
}

fn nic_table(page: &mut Page, nics: &[JobNic]) {
    table(page, &TITLES, nics.iter().map(|nic| nic_row(nic).to_vec()).collect());
}

/// Adds the counters that have counted.
fn counter_table(page: &mut Page, nics: &[JobNic]) {
    let mut rows = Vec::new();
    for nic in nics {
        for (name, change) in nic.changes.iter() {
            let row = CounterRow::of(name);
            let value = match change {
                CounterChange::Counted { by: 0, .. } => continue,
                CounterChange::Counted { by, .. } => by.to_string(),
                CounterChange::Reset => "reset".into(),
            };
            let rate = change.per_second().map_or("-".into(), |rate| format!("{rate:.1}"));
            let [unit, meaning] = row.map_or(["", ""], |row| [row.unit, row.meaning]);
            let words = [nic.name.as_str(), name, &value, &rate, unit, meaning];
            rows.push(words.map(str::to_owned).to_vec());
        }
    }
    let columns = ["NIC", "Counter", ">Count", ">Per second", "Unit", "Meaning"];
    table(page, &columns, rows);
}

fn table(page: &mut Page, columns: &[&str], rows: Vec<Vec<String>>) {
    if !rows.is_empty() {
        page.empty_line();
        page.table(columns, rows);
    }
}

/// The titles of the columns.
pub const TITLES: [&str; 7] =
    ["NIC", ">Sent", ">Received", ">Timeouts", ">Resent", ">Held back", ">Paused"];

/// The cells of a NIC; `-` for a counter that it does not have.
pub fn nic_row(nic: &JobNic) -> [String; 7] {
    let changes = &nic.changes;
    let bytes = |side: &str| {
        let count = changes.count(&format!("hni_sts_{side}_ok_octets"));
        count.map_or("-".into(), |bytes| format!("{}B", scaled(bytes as f64)))
    };
    let count = |count: Option<u64>| count.map_or("-".into(), |count| count.to_string());
    let evidence = NicEvidence { changes, packets: None };
    let share = |prefix: &str| evidence.longest_share(prefix).map_or("-".into(), percent);
    [
        nic.name.clone(),
        bytes("tx"),
        bytes("rx"),
        count(timeouts_of(changes)),
        count(changes.count("pct_retry_srb_requests")),
        share("oxe_stall_fgfc_blk_"),
        share("hni_tx_paused_"),
    ]
}

/// A number with a decimal prefix: `19.1 G`.
pub fn scaled(number: f64) -> String {
    let prefixes = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.into_iter().find(|(scale, _)| number >= *scale) {
        Some((scale, prefix)) => format!("{:.1} {prefix}", number / scale),
        None => format!("{number:.0} "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::StepRecord;
    use super::super::testing;
    use super::*;
    use page::table::TextStyle;

    fn text(job: &JobStat, level: Level) -> String {
        page(job, level).text(TextStyle::Plain)
    }

    /// Four nodes with four NICs, of which one has timeouts and is held back.
    fn job() -> JobStat {
        let quiet: &[(&str, u64)] = &[
            ("hni_sts_tx_ok_octets", 75_000_000_000),
            ("lpe_net_match_priority_0", 930),
            ("lpe_net_match_overflow_0", 70),
            ("lpe_net_match_request_0", 0),
            ("oxe_stall_fgfc_blk_0", 48_800_000),
            ("retry_handler/spt_timeouts", 0),
            ("pct_retry_srb_requests", 0),
            ("pct_rsp_err_rcvd", 0),
        ];
        let mut bad = quiet.to_vec();
        bad[4..].copy_from_slice(&[
            ("oxe_stall_fgfc_blk_0", 4_100_000_000),
            ("retry_handler/spt_timeouts", 320),
            ("pct_retry_srb_requests", 256),
            ("pct_rsp_err_rcvd", 64),
        ]);
        let nodes = (416..420).map(|number| {
            let second = if number == 417 { &bad[..] } else { quiet };
            let nics = [("cxi0", quiet), ("cxi1", second), ("cxi2", quiet), ("cxi3", quiet)];
            let mut node = testing::node(&format!("nid{number:06}"), &nics);
            node.step = Some(StepRecord {
                name: "Slurm job 1234 step 0".into(),
                node_index: Some(number - 416),
                nodes: Vec::new(),
                local_size: Some(1),
                size: 4,
            });
            node
        });
        JobStat::of(nodes.collect(), Vec::new())
    }

    #[test]
    fn summary_names_the_nic_that_the_fabric_holds_back() {
        let expected = "\
4 nodes, 16 NICs (Slurm job 1234 step 0): ./app, 10.0 s, exit status 0
packets were sent again on 1 of 16 NICs: nid000417 cxi1, 320 timeouts, 256 resent, 64 never answered
the fabric held nid000417 cxi1 back for 41 % of the time; median of the job 0.5 % of the time (factor 84)
messages: 93 % found a posted receive, 7.0 % came unexpected
traffic: 1.2 TB out, 7.5 GB/s a NIC at most (nid000419 cxi3)
";
        assert_eq!(text(&job(), Level::Summary), expected);
        let line = text(&job(), Level::Line);
        assert!(line.ends_with("exit status 0: packets were sent again on 1 of 16 NICs: nid000417 cxi1, 320 timeouts, 256 resent, 64 never answered\n"));
    }

    #[test]
    fn is_unusual_if_a_node_or_a_reading_is_missing() {
        let node = || testing::node("nid1", &[("cxi0", &[("hni_tx_ok_opt", 5)])]);
        assert!(!JobStat::of(vec![node()], Vec::new()).is_unusual());
        assert!(JobStat::of(vec![node()], vec!["nid2".into()]).is_unusual());
        let mut without_end = node();
        without_end.end = None;
        assert!(JobStat::of(vec![without_end], Vec::new()).is_unusual());
        assert!(JobStat::of(Vec::new(), Vec::new()).is_unusual());
    }

    #[test]
    fn says_how_many_messages_were_left_to_software() {
        let line = |software| {
            let counts = [
                ("lpe_net_match_priority_0", 1),
                ("lpe_net_match_overflow_0", 1),
                ("lpe_net_match_request_0", software),
            ];
            let job = JobStat::of(vec![testing::node("nid1", &[("cxi0", &counts)])], Vec::new());
            messages_line(&job.changes()).unwrap()
        };
        let expected = "messages: 50 % found a posted receive, 50 % came unexpected";
        assert_eq!(line(0), expected);
        let expected = "messages: 20 % found a posted receive, 20 % came unexpected, \
                        60 % were left to software";
        assert_eq!(line(3), expected);
    }

    #[test]
    fn counts_of_the_driver_alone_are_no_readings() {
        let counts = [("properties/pcie_corr_err", 0)];
        let job = JobStat::of(vec![testing::node("nid1", &[("cxi0", &counts)])], Vec::new());
        assert!(job.is_unusual());
        assert!(text(&job, Level::Line).ends_with(": no counters could be read\n"));
    }

    #[test]
    fn one_line_leaves_out_that_a_command_was_short() {
        let mut short = testing::node("nid1", &[("cxi0", &[("hni_tx_ok_opt", 5)])]);
        short.started_ns += 9_000_000_000;
        short.started_unix_ns += 9_000_000_000;
        let job = JobStat::of(vec![short], Vec::new());
        assert_eq!(job.findings[0].code, "short");
        assert_eq!(in_one_line(&job, &job.changes()), "nothing unusual");
    }

    #[test]
    fn says_whose_clock_was_stepped() {
        let mut node = testing::node("nid000417", &[("cxi0", &[("hni_tx_ok_opt", 5)])]);
        node.end.as_mut().unwrap().unix_ns -= 2_000_000_000;
        let line = "\nthe clock of nid000417 was stepped by -2.000 s meanwhile: rates use the \
                    monotonic clock\n";
        let text = text(&JobStat::of(vec![node], Vec::new()), Level::Summary);
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn names_nics_whose_counters_were_reset_but_not_states_that_fell() {
        let cases = [("hni_tx_ok_opt", true), ("retry_handler/sct_in_use", false)];
        for (counter, was_reset) in cases {
            let mut node = testing::node("nid1", &[("cxi0", &[(counter, 5)])]);
            let nic = &mut node.nics[0];
            let after = nic.after.replace(nic.before.clone());
            nic.before = after.unwrap();
            let job = JobStat::of(vec![node], Vec::new());
            let text = text(&job, Level::All);
            assert_eq!(
                text.contains("\ncounters were reset meanwhile: cxi0\n"),
                was_reset,
                "{text}"
            );
            assert_eq!(text.contains(counter), was_reset, "{text}");
            assert!(job.has_readings());
            let json = serde_json::to_value(&job).unwrap();
            assert!(json["nics"][0]["counters"][counter]["delta"].is_null());
            let read: JobStat = serde_json::from_value(json).unwrap();
            assert!(read.changes()[0].changes.iter().eq(job.changes()[0].changes.iter()));
        }
    }

    /// A NIC that only receives is used.
    #[test]
    fn names_nics_that_carried_next_to_nothing() {
        let line = |counts: &[(&str, u64)]| {
            let busy = [("hni_sts_tx_ok_octets", 75_000_000), ("hni_sts_rx_ok_octets", 75_000_000)];
            let node = testing::node("nid1", &[("cxi0", &busy), ("cxi1", counts)]);
            let job = JobStat::of(vec![node], Vec::new());
            traffic_line(&job, &job.changes()).unwrap()
        };
        let sent = ("hni_sts_tx_ok_octets", 1000);
        let received = |bytes| ("hni_sts_rx_ok_octets", bytes);
        assert!(line(&[sent, received(1000)]).ends_with("; cxi1 carried < 1 %"));
        assert!(!line(&[sent, received(75_000_000)]).contains("carried"));
        assert!(!line(&[sent]).contains("carried"), "it may have received");
    }

    #[test]
    fn says_what_is_missing() {
        let mut nodes = vec![
            testing::node("nid1", &[("cxi0", &[("hni_tx_ok_opt", 5)])]),
            testing::node("nid2", &[("cxi0", &[("hni_tx_ok_opt", 5)])]),
        ];
        nodes[1].end = None;
        nodes[0].end.as_mut().unwrap().still_running = 2;
        let job = JobStat::of(nodes, vec!["nid3".into(), "nid4".into()]);
        let expected = "\
2 nodes, 2 NICs: ./app, 10.0 s, exit status 0
no readings from nid3, nid4
no end reading from nid2
2 processes were still running
";
        assert_eq!(text(&job, Level::Summary), expected);
        let line = text(&job, Level::Line);
        let end = ": no readings from nid3, nid4; no end reading from nid2; 2 processes were still \
                   running\n";
        assert!(line.ends_with(end), "{line}");
        let line = text(&job.with_directory("cxidiag-stat.7.0".into()), Level::Line);
        let missing = "no readings from nid3, nid4 (when they have ended: cxidiag stat --merge \
                       cxidiag-stat.7.0); no end";
        assert!(line.contains(missing), "{line}");
        // Without readings, nothing is known to be usual.
        let job = JobStat::of(vec![testing::node("nid1", &[("cxi0", &[])])], Vec::new());
        assert!(text(&job, Level::Line).ends_with(": no counters could be read\n"));
    }

    #[test]
    fn tables_have_each_nic_and_each_counter_that_counted() {
        let counts = [("hni_sts_tx_ok_octets", 20_000), ("hni_fgfc_port", 0)];
        let job = JobStat::of(vec![testing::node("nid1", &[("cxi0", &counts)])], Vec::new());
        let text = text(&job, Level::All);
        let (_, tables) = text.split_once("\n\n").unwrap();
        let expected = "\
NIC      Sent  Received  Timeouts  Resent  Held back  Paused
cxi0  20.0 kB         -         -       -          -       -

NIC   Counter               Count  Per second  Unit   Meaning
cxi0  hni_sts_tx_ok_octets  20000      2000.0  bytes  sent in good packets
";
        assert_eq!(tables, expected);
    }
}
