//! Runs that tools printed as text, read back: cxidiag and the legacy tools in any version
//! (tools.md 9, 10), and programs of the layers above.
//!
//! The title of a tool begins a run. The prefix of its line, such as the host name that `pdsh` or
//! `srun --label` adds, stands before each line of that run, so runs of several processes may be
//! mixed. Dates and times of a log are no part of the prefix. Lines that are no part of a run are
//! skipped. The text has no percentiles, no time, and not all options: these are unknown in the
//! outcome.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::printed_run::{Mixed, PrintedRun, is_rule};
use super::program_run::{Mentioned, ProgramRun};
use plan::tool::Tool;
use plan::tools::TOOLS;
use report::outcome::Outcome;

/// A run that is being read: of a tool, or of a program of another layer.
enum TextRun {
    Tool(PrintedRun),
    Program(ProgramRun),
}

impl TextRun {
    fn prefix(&self) -> &str {
        match self {
            Self::Tool(run) => &run.prefix,
            Self::Program(run) => &run.prefix,
        }
    }

    fn read(&mut self, line: &str) -> Result<Option<String>, Mixed> {
        match self {
            Self::Tool(run) => run.read(line),
            Self::Program(run) => run.read(line),
        }
    }
}

/// The runs in a text, in the order of their titles, and a note for each one that has no results or
/// ends early, and for each figure that is no number of a NIC.
///
/// # Errors
///
/// The rows of several processes are mixed, and it is not known which row belongs to which.
pub fn runs(text: &str) -> Result<(Vec<Outcome>, Vec<String>), String> {
    let mut runs: Vec<TextRun> = Vec::new();
    // The last run with each prefix, by the length of the prefix: earlier runs have ended.
    let mut last: BTreeMap<usize, HashMap<String, usize>> = BTreeMap::new();
    // The last number of a line that is cut off may be cut off too.
    let (whole, rest) = match text.rsplit_once('\n') {
        Some((whole, rest)) if !is_rule(rest) => (whole, rest),
        _ => (text, ""),
    };
    let mut notes = Vec::new();
    let mut mentioned = Mentioned::default();
    for (number, line) in (1..).zip(whole.lines()) {
        let line = without_times(line.trim_end());
        if let Some(mut title) = titled(&line, number, &mentioned) {
            let prefix = title.prefix().to_owned();
            let last_of_length = last.entry(prefix.len()).or_default();
            let before = last_of_length.insert(prefix, runs.len());
            if let TextRun::Tool(run) = &mut title
                && let Some(TextRun::Tool(before)) = before.map(|index| &runs[index])
            {
                run.columns.clone_from(&before.columns);
            }
            runs.push(title);
            continue;
        }
        mentioned.add(&line);
        let run_behind = |(length, runs): (&usize, &HashMap<String, usize>)| {
            runs.get(line.get(..*length)?).copied()
        };
        if let Some(index) = last.iter().rev().find_map(run_behind) {
            let run = &mut runs[index];
            let behind = &line[run.prefix().len()..];
            let unreadable = run.read(behind).map_err(|Mixed| {
                format!("line {number} has figures that belong to none of the runs before it, or to several")
            })?;
            notes.extend(
                unreadable.map(|what| format!("line {number}: {what} is no number of a NIC")),
            );
        }
    }
    let rest = without_times(rest);
    for index in last.values().flat_map(HashMap::values).filter(|_| !rest.is_empty()) {
        if let TextRun::Program(run) = &mut runs[*index]
            && (rest.starts_with(&run.prefix) || run.prefix.starts_with(&*rest))
        {
            run.cut();
        }
    }
    let outcomes = outcomes(runs, &mut notes);
    Ok((outcomes, notes))
}

/// Returns the results of runs, and adds their notes.
fn outcomes(runs: Vec<TextRun>, notes: &mut Vec<String>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for run in runs {
        match run {
            TextRun::Tool(run) => {
                notes.extend(run.note());
                outcomes.extend(run.into_outcome());
            }
            TextRun::Program(run) => {
                notes.extend(run.note());
                outcomes.extend(run.into_outcomes());
            }
        }
    }
    outcomes
}

/// The run whose title is in a line, with the programs that lines before it name.
fn titled(line: &str, number: usize, mentioned: &Mentioned) -> Option<TextRun> {
    let tool = title(line).map(|(prefix, tool)| {
        TextRun::Tool(PrintedRun::new(prefix.to_owned(), tool, number, Vec::new()))
    });
    tool.or_else(|| ProgramRun::titled(line, number, mentioned).map(TextRun::Program))
}

/// The tool whose title ends a line, and the prefix of the line.
fn title(line: &str) -> Option<(&str, &'static Tool)> {
    let (before, title) = line.rsplit_once("CXI ")?;
    let tool = TOOLS.iter().find(|tool| tool.title.strip_prefix("CXI ") == Some(title))?;
    if before.ends_with(char::is_alphanumeric) {
        return None;
    }
    // Some logs have no blanks at the start of a text.
    Some((before.strip_suffix("    ").unwrap_or(before), tool))
}

/// A line without the date and the time of a log, which differ in each line. Forms: system
/// journals, ISO 8601, seconds since 1970 or since the start of the machine.
fn without_times(line: &str) -> Cow<'_, str> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b"-/T[".contains(byte);
    let bytes = line.as_bytes();
    let is_time = |part: &[u8]| {
        part.iter().zip(b"00:00:00").all(|(byte, form)| match form {
            b':' => *byte == b':',
            _ => byte.is_ascii_digit(),
        })
    };
    let time = bytes.windows(8).position(is_time);
    let Some(time) = time.filter(|start| !line[..*start].ends_with(':')) else {
        let seconds = line.split_once(' ').filter(|(first, _)| !first.starts_with('['));
        let uptime = || line.strip_prefix('[')?.split_once("] ");
        return match seconds.or_else(uptime) {
            Some((number, rest)) if is_clock(number.trim(), line.starts_with('[')) => rest.into(),
            _ => line.into(),
        };
    };
    let start = time - bytes[..time].iter().rev().take_while(|byte| is_part(byte)).count();
    let mut before = &line[..start];
    let mut words = before.split_whitespace().rev();
    let date = match (words.next(), words.next()) {
        (Some(day), Some(month)) if day.len() <= 2 && MONTHS.contains(&month) => Some(month),
        (Some(date), _) if date.bytes().all(|byte| is_part(&byte)) && date.len() >= 8 => Some(date),
        _ => None,
    };
    if let Some(date) = date {
        before = &before[..before.rfind(date).unwrap_or_default()];
    }
    let rest =
        line[time + 8..].trim_start_matches(|c: char| c.is_ascii_digit() || ".,:+-Z]".contains(c));
    Cow::Owned(format!("{before}{}", rest.strip_prefix(' ').unwrap_or(rest)))
}

/// Names of months in system journals.
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Whether a word is a time in seconds: since 1970, or in brackets since any start.
fn is_clock(word: &str, is_in_brackets: bool) -> bool {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once('.').is_some_and(|(whole, part)| {
        is_digits(whole) && is_digits(part) && (is_in_brackets || whole.len() >= 10)
    })
}

#[cfg(test)]
mod tests {
    use facts::bandwidth_unit::BandwidthUnit;

    use super::*;
    use facts::expect::Metric;
    use report::outcome::{Extent, Side, Status};

    /// A bandwidth run of a legacy tool, which lacks lines of later versions.
    const BANDWIDTH: &str = "\
---------------------------------------------------
    CXI RDMA Write Bandwidth Test
Device           : cxi1
Service ID       : 5
Client TX Mem    : GPU 3
Server RX Mem    : System
Test Type        : Iteration
Iterations       : 1000
Min Write Size   : 4096
Max Write Size   : 8192
List Size        : 256
IDC              : Enabled
Bidirectional    : Enabled
Max RDMA Buf     : 4294967296 (1073741824 used)
Local (client)   : NIC 0x1a PID 2 VNI 10
Remote (server)  : NIC 0x3 PID 0
---------------------------------------------------
RDMA Size[B]      Writes  BW[MB/s]  PktRate[Mpkt/s]
        4096      256000  20433.31         9.977201
        8192      256000  22191.85        10.835864
---------------------------------------------------
";

    const LATENCY: &str = "\
------------------------------------------------------------------------
    CXI RDMA Send Latency Test
Device           : cxi0
Iterations       : 2
Results Reported : All
Local (client)   : NIC 0x1 PID 0 VNI 1
Remote (server)  : NIC 0x0 PID 0
------------------------------------------------------------------------
  WriteNum  Latency[us]
         0        1.750
         1       12.041
------------------------------------------------------------------------
     Bytes       Sends     Min[us]     Max[us]    Mean[us]  StdDev[us]
         8           2        1.75       12.04        6.89        5.14
------------------------------------------------------------------------
";

    fn only(text: &str) -> Outcome {
        let (mut runs, notes) = runs(text).unwrap();
        assert_eq!((runs.len(), notes), (1, Vec::new()));
        runs.remove(0)
    }

    #[test]
    fn reads_facts_and_rows_of_bandwidth() {
        let run = only(BANDWIDTH);
        assert_eq!(
            (run.tool.as_str(), run.side, run.status),
            ("write-bw", Side::Client, Status::Complete)
        );
        let device = run.device.unwrap();
        assert_eq!((device.name.as_str(), device.svc_id, device.is_software), ("cxi1", 5, None));
        let addresses = run.addresses.unwrap();
        assert_eq!((addresses.local.nic, addresses.local.pid, addresses.vni), (0x1a, 2, 10));
        let options = run.options.unwrap();
        assert_eq!(
            (options.iters, options.tx_gpu, options.peer_rx_gpu),
            (Some(1000), Some(3), None)
        );
        assert_eq!((options.min_size_bytes, options.max_size_bytes), (4096, 8192));
        // A line that this version lacks is unknown.
        assert_eq!((options.idc, options.hrp), (Some(true), None));
        let lists = options.lists.unwrap();
        assert_eq!((lists.list_size, lists.bidirectional), (256, true));
        assert_eq!(lists.buf_sz_bytes, Some(4_294_967_296));
        let rows: Vec<_> = run
            .results
            .iter()
            .map(|result| {
                let bandwidth = result.bandwidth.as_ref().unwrap();
                (
                    result.size_bytes,
                    result.count,
                    bandwidth.bandwidth_bytes_per_s,
                    bandwidth.packet_rate_packets_per_s,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [(4096, 256_000, 20_433.31e6, 9_977_201.0), (8192, 256_000, 22_191.85e6, 10_835_864.0)]
        );
    }

    #[test]
    fn reads_bandwidth_in_each_unit() {
        for unit in BandwidthUnit::ALL {
            let text = BANDWIDTH.replace("BW[MB/s]", &format!("BW[{unit}]"));
            let bandwidth = only(&text).results[0].bandwidth.clone().unwrap();
            assert_eq!(bandwidth.bandwidth_bytes_per_s, 20_433.31 * unit.bytes_per_s());
        }
    }

    #[test]
    fn reads_samples_and_latencies() {
        let run = only(LATENCY);
        let [result] = run.results.as_slice() else { panic!("{run:?}") };
        let latency = result.latency.as_ref().unwrap();
        assert_eq!((result.size_bytes, result.extent), (8, Extent::Complete));
        assert_eq!((latency.min_ns, latency.max_ns, latency.mean_ns), (1750, 12_040, 6890.0));
        assert_eq!(latency.standard_deviation_ns, 5140.0);
        assert_eq!(latency.samples_ns, Some(vec![1750, 12_041]));
        assert!(latency.percentiles.is_empty());
    }

    #[test]
    fn table_of_pairs_adds_no_results() {
        let text = format!(
            "{BANDWIDTH}RDMA Size[B]  Pairs  Slowest pair  BW[MB/s]  Mean of pairs[MB/s]\n\
             4096      2             1      0.32                 0.32\n{}\n",
            "-".repeat(64)
        );
        assert_eq!(only(&text).results.len(), 2);
    }

    #[test]
    fn reads_several_runs_between_other_text() {
        let text =
            format!("$ cxi_write_bw nid1\n{BANDWIDTH}real 0m3.1s\n  5: not a row\n{LATENCY}done\n");
        let (runs, notes) = runs(&text).unwrap();
        let tools: Vec<_> = runs.iter().map(|run| (run.tool.as_str(), run.results.len())).collect();
        assert_eq!((tools, notes), (vec![("write-bw", 2), ("send-lat", 1)], Vec::new()));
    }

    #[test]
    fn separates_mixed_runs_by_what_stands_before_their_lines() {
        let lines = |host: &str, text: &str| -> Vec<String> {
            text.lines().map(|line| format!("{host}: {line}\n")).collect()
        };
        let [first, second] = [lines("nid1", BANDWIDTH), lines("nid10", BANDWIDTH)];
        let mixed: String =
            first.into_iter().zip(second).flat_map(|(one, other)| [one, other]).collect();
        let (runs, notes) = runs(&mixed).unwrap();
        let hosts: Vec<_> =
            runs.iter().map(|run| (run.host.name.as_str(), run.results.len())).collect();
        assert_eq!((hosts, notes), (vec![("nid1", 2), ("nid10", 2)], Vec::new()));
    }

    #[test]
    fn keeps_whole_rows_of_runs_that_end_early() {
        let row = "        8192      256000  22191.85        10.835864\n";
        let start = BANDWIDTH.find(row).unwrap();
        for end in start..start + row.trim_end().len() {
            let (runs, notes) = runs(&BANDWIDTH[..end]).unwrap();
            assert_eq!(runs[0].results.len(), 1, "{}", &BANDWIDTH[..end]);
            assert_eq!(runs[0].status, Status::Interrupted);
            assert_eq!(
                notes,
                ["the run of write-bw in line 2 ends before its last line: the sizes before count"]
            );
        }
        let (runs, notes) = runs(BANDWIDTH.split_once("RDMA Size").unwrap().0).unwrap();
        assert_eq!((runs[0].results.len(), runs[0].status), (0, Status::Interrupted));
        assert_eq!(notes, ["the run of write-bw in line 2 has no results"]);
    }

    /// With --report-all, a line of dashes follows each size.
    #[test]
    fn run_without_its_largest_size_is_incomplete() {
        let text = BANDWIDTH.replace("Size   : 8192", "Size   : 16384");
        let (runs, notes) = runs(&text).unwrap();
        assert_eq!((runs[0].status, runs[0].results.len()), (Status::Interrupted, 2));
        assert_eq!(runs[0].error.as_ref().unwrap().message, "the text of the run ends early");
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn takes_partial_results_as_they_are_marked() {
        for (word, status) in [("Interrupted", Status::Interrupted), ("Failed", Status::Failed)] {
            let text = format!("{BANDWIDTH}{word}: results are partial\n");
            let run = only(&text);
            assert_eq!(run.status, status);
            let word = word.to_lowercase();
            assert!(run.error.unwrap().message.contains(&word), "{word}");
        }
    }

    #[test]
    fn servers_of_latency_tools_have_no_results() {
        let server = LATENCY.split_once("  WriteNum").unwrap().0.replace("(client)", "(server)");
        assert!(runs(&format!("{server}See client for results.\n")).unwrap().1.is_empty());
        let server = BANDWIDTH.replace("Local (client)", "Local (server)");
        assert_eq!(only(&server.replace("    256000", "         -")).side, Side::Server);
    }

    /// Prefixes of a system journal, of `kubectl --timestamps`, of the kernel's log and of `ts`,
    /// each with the host that it names.
    #[test]
    fn finds_runs_behind_prefixes_that_vary() {
        let journal = |n: usize| format!("Nov 28 21:00:{n:02} nid1 cxi_write_bw[42]: ");
        let iso = |n: usize| format!("[pod/a/b] 2024-11-28T21:00:{n:02}.12345{n}+01:00 ");
        let comma = |n: usize| format!("2024-11-28 21:00:{n:02},123 nid2: ");
        let uptime = |n: usize| format!("[    {n}.123456] nid3: ");
        let unix = |n: usize| format!("17328276{n:02}.123 ");
        let prefixes: [(&dyn Fn(usize) -> String, &str); 5] = [
            (&journal, "nid1"),
            (&iso, "[pod/a/b]"),
            (&comma, "nid2"),
            (&uptime, "nid3"),
            (&unix, "unknown host"),
        ];
        for (prefix, host) in prefixes {
            let lines = BANDWIDTH.lines().enumerate();
            let text: String = lines.map(|(n, line)| prefix(n) + line + "\n").collect();
            let run = only(&text);
            assert_eq!((run.host.name.as_str(), run.results.len()), (host, 2), "{text}");
            assert_eq!(run.device.unwrap().name, "cxi1");
        }
        let lines: String =
            BANDWIDTH.lines().map(|line| line.trim_start().to_owned() + "\n").collect();
        assert_eq!(only(&lines).results.len(), 2);
    }

    /// Three processes wrote to one terminal: nothing says whose the rows are.
    #[test]
    fn refuses_rows_of_mixed_runs() {
        let (head, table) = BANDWIDTH.split_at(BANDWIDTH.find("RDMA Size").unwrap());
        let (titles, rows) = table.split_at(table.find("        4096").unwrap());
        let (row, last) = rows.split_at(rows.find("        8192").unwrap());
        for text in [
            [head, head, titles, titles, rows, rows].concat(),
            [head, titles, head, titles, rows, rows].concat(),
            [head, titles, head, row, titles, rows, last].concat(),
            [head, titles, head, titles, row, row, last, last].concat(),
            // The first process has written one size of two, the second one only the other.
            [head, titles, row, head, titles, last].concat(),
            [head, titles, &head.replace("4096", "1024"), titles, &row.replace("4096", " 512")]
                .concat(),
        ] {
            assert!(runs(&text).is_err(), "{text}");
        }
        // A run that ended early, and the next one.
        let (outcomes, notes) = runs(&[head, titles, head, titles, rows].concat()).unwrap();
        assert_eq!((outcomes.len(), outcomes[1].results.len(), notes.len()), (2, 2, 1));
    }

    #[test]
    fn figure_that_is_no_number_is_unknown_and_named() {
        for cell in ["inf", "-inf", "nan", "-nan", "1e999", "20.3.1", "9999999999999999.00"] {
            let (runs, notes) = runs(&BANDWIDTH.replace("20433.31", cell)).unwrap();
            let result = &runs[0].results[0];
            assert_eq!(result.figure(Metric::Bandwidth), None, "{cell}");
            assert_eq!(result.figure(Metric::PacketRate), Some(9_977_201.0));
            assert_eq!(notes, [format!("line 19: bw '{cell}' is no number of a NIC")]);
        }
        let (runs, _) = runs(&LATENCY.replace("5.14", "-nan")).unwrap();
        let result = &runs[0].results[0];
        assert_eq!(result.figure(Metric::Mean), Some(6890.0));
        assert_eq!(report::noise::of(result, Metric::Mean), None);
    }

    proptest::proptest! {
        #[test]
        fn survives_damaged_text(
            at in 0..BANDWIDTH.len(),
            damage in "[ -~\n]{0,40}",
        ) {
            let text = format!("{}{damage}{}", &BANDWIDTH[..at], &BANDWIDTH[at..]);
            let _ = runs(&text);
            let _ = runs(&format!("{}{damage}", &LATENCY[..at.min(LATENCY.len())]));
        }
    }
}
