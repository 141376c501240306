//! One run that a program of another layer printed as text: its titles and its rows -> its outcome.
//! The programs are the OSU micro-benchmarks 5 to 7, libfabric's `fi_pingpong` and fabtests, Intel
//! MPI Benchmarks and nccl-tests. Their forms are inferred from published outputs (`[I]`).
//!
//! * All of them print the time of one way of a ping-pong: half of a round trip.
//! * Their MB and GB are powers of ten. The rate is in messages and becomes one of packets.
//! * A figure that a program does not print is missing: it is neither 0 nor another figure.

use std::collections::BTreeMap;

use facts::expect::Metric;
use measure::Rates;
use report::outcome::{Options, Outcome, SizeResult};

use crate::printed_run::{Mixed, PrintedColumn, US, printed, result};

/// Programs whose texts have one form.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ProgramFamily {
    Osu,
    Fabtests,
    Imb,
    Nccl,
}

/// Tests of the OSU micro-benchmarks in their titles, with the names of their programs.
const OSU: [(&str, &str); 15] = [
    ("mpi latency", "osu_latency"),
    ("mpi multi latency", "osu_multi_lat"),
    ("mpi multi-threaded latency", "osu_latency_mt"),
    ("mpi bandwidth", "osu_bw"),
    ("mpi bi-directional bandwidth", "osu_bibw"),
    ("mpi multiple bandwidth / message rate", "osu_mbw_mr"),
    ("mpi_put latency", "osu_put_latency"),
    ("mpi_put bandwidth", "osu_put_bw"),
    ("mpi_put bi-directional bandwidth", "osu_put_bibw"),
    ("mpi_get latency", "osu_get_latency"),
    ("mpi_get bandwidth", "osu_get_bw"),
    ("mpi_accumulate latency", "osu_acc_latency"),
    ("mpi_get_accumulate latency", "osu_get_acc_latency"),
    ("mpi_fetch_and_op latency", "osu_fop_latency"),
    ("mpi_compare_and_swap latency", "osu_cas_latency"),
];

/// A table of results that is being read.
struct ProgramTable {
    /// Name of the program, and of the bandwidth if it prints two.
    program: String,
    /// Empty before the titles of the columns.
    columns: Vec<PrintedColumn>,
    results: Vec<SizeResult>,
}

/// A run that is being read.
pub(super) struct ProgramRun {
    pub(super) prefix: String,
    family: ProgramFamily,
    /// Number of the line with the title, from 1.
    line: usize,
    /// What the text says about the settings.
    labels: BTreeMap<String, String>,
    /// One; two of nccl-tests.
    tables: Vec<ProgramTable>,
    /// Whether the text goes on to the end of the run, as far as its form shows.
    is_whole: bool,
    /// Whether the lines behind belong to nothing.
    is_ended: bool,
}

impl ProgramRun {
    /// The run whose title is in this line, with the programs that lines before it name.
    pub(super) fn titled(line: &str, number: usize, mentioned: &Mentioned) -> Option<Self> {
        let osu = || {
            let start = line.find("# OSU ")?;
            let (test, version) = line[start + 6..].split_once(" Test")?;
            let test = test.to_lowercase();
            let known = OSU.iter().find(|(name, _)| *name == without_accelerator(&test));
            let program = known.map_or_else(|| format!("OSU {test}"), |(_, name)| (*name).into());
            let version = version.trim().trim_start_matches('v').to_owned();
            let labels = [("version", version), ("memory", "host to host".into())];
            Some((ProgramFamily::Osu, start, program, labels.to_vec()))
        };
        let imb = || {
            let (before, benchmark) = line.split_once("# Benchmarking ")?;
            let program = format!("IMB {}", benchmark.trim());
            Some((ProgramFamily::Imb, before.len(), program, Vec::new()))
        };
        let nccl = || {
            let start = line.find('#')?;
            let words = line[start + 1..].split_whitespace();
            let is_title = words.take(3).eq(["size", "count", "type"]) && line.contains("busbw");
            let program = || mentioned.program(&line[..start], ProgramFamily::Nccl, "nccl-tests");
            is_title.then(|| (ProgramFamily::Nccl, start, program(), Vec::new()))
        };
        let fabtests = || {
            let start = line.find("bytes ").filter(|_| line.contains(" usec/xfer"))?;
            let start = line[..start].rfind("name ").unwrap_or(start);
            let program = if line.contains("#ack") {
                "fi_pingpong".to_owned()
            } else {
                mentioned.program(&line[..start], ProgramFamily::Fabtests, "fabtests")
            };
            Some((ProgramFamily::Fabtests, start, program, Vec::new()))
        };
        let found = osu().or_else(imb).or_else(nccl).or_else(fabtests);
        let (family, start, program, labels) = found?;
        let names = match family {
            ProgramFamily::Nccl => vec![format!("{program} busbw"), format!("{program} algbw")],
            _ => vec![program],
        };
        let table = |program| ProgramTable { program, columns: Vec::new(), results: Vec::new() };
        let mut run = Self {
            prefix: line[..start].to_owned(),
            family,
            line: number,
            labels: labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            tables: names.into_iter().map(table).collect(),
            is_whole: family != ProgramFamily::Nccl,
            is_ended: false,
        };
        run.read_titles(&line[start..]);
        Some(run)
    }

    /// Reads a line behind its prefix. Returns the figure of a row that is no number.
    pub(super) fn read(&mut self, line: &str) -> Result<Option<String>, Mixed> {
        if self.is_ended {
            return Ok(None);
        }
        let is_titled = !self.tables[0].columns.is_empty();
        if self.read_titles(line) {
            // Two processes write to one terminal: each has titles.
            return if is_titled { Err(Mixed) } else { Ok(None) };
        }
        match line.trim_start().strip_prefix('#') {
            Some(remark) => self.read_remark(remark.trim()),
            None if is_titled => return self.read_row(line),
            // A row before the titles of its columns.
            None if self.family == ProgramFamily::Osu && is_figures(line) => return Err(Mixed),
            None => {}
        }
        Ok(None)
    }

    /// Notes that the text ends within a line of the run.
    pub(super) fn cut(&mut self) {
        self.is_whole &= self.is_ended;
    }

    /// Reads a line with the titles of columns. Returns whether it is one.
    fn read_titles(&mut self, line: &str) -> bool {
        let line = line.trim();
        let titles: Vec<&str> = match self.family {
            // These titles have blanks.
            ProgramFamily::Osu if line.starts_with("# Size ") => {
                line[1..].split("  ").map(str::trim).filter(|title| !title.is_empty()).collect()
            }
            ProgramFamily::Imb if line.starts_with("#bytes ") => line.split_whitespace().collect(),
            ProgramFamily::Nccl if line.starts_with('#') && line.contains("busbw") => {
                line[1..].split_whitespace().collect()
            }
            ProgramFamily::Fabtests if line.contains("usec/xfer") => {
                line.split_whitespace().collect()
            }
            _ => return false,
        };
        for table in &mut self.tables {
            let mut columns: Vec<PrintedColumn> = Vec::new();
            for title in &titles {
                let column = self.family.column(title, &table.program);
                // The second table of nccl-tests is the one in place.
                columns.push(if columns.contains(&column) {
                    PrintedColumn::Unknown
                } else {
                    column
                });
            }
            table.columns = columns;
        }
        true
    }

    /// Reads a line that begins with `#`.
    fn read_remark(&mut self, line: &str) {
        if let Some(memory) = line.strip_prefix("Send Buffer on ") {
            let kind =
                |text: &str| text.split_whitespace().next().unwrap_or("unknown").to_lowercase();
            let (send, receive) =
                memory.split_once(" and Receive Buffer on ").unwrap_or((memory, ""));
            self.labels.insert("memory".into(), format!("{} to {}", kind(send), kind(receive)));
        } else if self.family == ProgramFamily::Osu {
            let values = line.split(['[', ']']).filter_map(|part| part.split_once(": "));
            let label = |(key, value): (&str, &str)| {
                (key.trim().to_lowercase(), value.trim().trim_end_matches('.').to_owned())
            };
            self.labels.extend(values.map(label));
        } else if self.family == ProgramFamily::Nccl && line.starts_with("Avg bus bandwidth") {
            (self.is_whole, self.is_ended) = (true, true);
        }
    }

    /// Reads a line that is no title.
    fn read_row(&mut self, line: &str) -> Result<Option<String>, Mixed> {
        let mut notes = None;
        for table in &mut self.tables {
            let Some(row) = self.family.plain_row(&table.columns, line) else { return Ok(None) };
            let Some((mut result, unreadable)) = result(&table.columns, &row, &mut None) else {
                return Ok(None);
            };
            // Each of these programs goes from small sizes to large ones.
            let size = result.size_bytes;
            if table.results.last().is_some_and(|last| last.size_bytes >= size) {
                return Err(Mixed);
            }
            if let Some(bandwidth) = &mut result.bandwidth {
                let messages_per_us = bandwidth.packet_rate_packets_per_s / 1e6;
                let rates = Rates::from_operations(size, messages_per_us);
                bandwidth.packet_rate_packets_per_s = rates.megapackets * 1e6;
            }
            table.results.push(result);
            notes = notes.or(unreadable);
        }
        Ok(notes)
    }

    /// A note on a run without results, whose text ends early, or whose program is unknown.
    pub(super) fn note(&self) -> Option<String> {
        let ProgramTable { program, results, .. } = &self.tables[0];
        let what = if results.is_empty() {
            "has no results"
        } else if !self.is_whole {
            "may end before its last line: the whole lines before count"
        } else if program == "fabtests" {
            "is of an unknown program: usec/xfer is no latency in all of them and is left out \
             (put the line with the command, such as fi_rdm_tagged_pingpong, in front)"
        } else {
            return None;
        };
        Some(format!("the run of {program} in line {} {what}", self.line))
    }

    /// Each table with results as an outcome.
    pub(super) fn into_outcomes(self) -> impl Iterator<Item = Outcome> {
        let Self { prefix, labels, tables, is_whole, .. } = self;
        let tables = tables.into_iter().filter(|table| !table.results.is_empty());
        tables.map(move |ProgramTable { program, results, .. }| {
            let sizes = || results.iter().map(|result| result.size_bytes);
            let options = Options {
                min_size_bytes: sizes().min().unwrap_or(0),
                max_size_bytes: sizes().max().unwrap_or(0),
                ..Options::default()
            };
            let ended = (!is_whole).then_some("the text of the run may end early");
            Outcome {
                tool: program,
                labels: labels.clone(),
                options: Some(options),
                results,
                ..printed(&prefix, ended)
            }
        })
    }
}

impl ProgramFamily {
    /// Returns what a column of `program` shows.
    fn column(self, title: &str, program: &str) -> PrintedColumn {
        let lower = title.to_lowercase();
        let is_pingpong = program.ends_with("pingpong");
        match (self, lower.as_str()) {
            (Self::Osu, "size") | (Self::Fabtests, "bytes") | (Self::Imb, "#bytes") => {
                PrintedColumn::Size
            }
            (Self::Nccl, "size") => PrintedColumn::Size,
            (Self::Osu, "iterations") | (Self::Imb, "#repetitions") => PrintedColumn::Count,
            (Self::Fabtests, "#sent" | "iters") => PrintedColumn::Count,
            (Self::Osu, "bandwidth (mb/s)" | "mb/s") => {
                PrintedColumn::Metric(Metric::Bandwidth, 1e6)
            }
            (Self::Osu, "messages/s") => PrintedColumn::Metric(Metric::PacketRate, 1.0),
            (Self::Osu, _) if lower.ends_with("lat(us)") => PrintedColumn::Unknown,
            (Self::Osu, _) if lower.starts_with("min ") => PrintedColumn::Metric(Metric::Min, US),
            (Self::Osu, _) if lower.starts_with("max ") => PrintedColumn::Metric(Metric::Max, US),
            (Self::Osu, _) if lower.ends_with("(us)") => PrintedColumn::Metric(Metric::Mean, US),
            // The time between two messages of a bandwidth test is no latency.
            (Self::Fabtests, "usec/xfer") if is_pingpong => PrintedColumn::Metric(Metric::Mean, US),
            (Self::Fabtests, "mb/sec") if !is_pingpong => {
                PrintedColumn::Metric(Metric::Bandwidth, 1e6)
            }
            (Self::Fabtests, "mxfers/sec") if !is_pingpong => {
                PrintedColumn::Metric(Metric::PacketRate, 1e6)
            }
            (Self::Imb, "t[usec]" | "t_avg[usec]") => PrintedColumn::Metric(Metric::Mean, US),
            (Self::Imb, "t_min[usec]") => PrintedColumn::Metric(Metric::Min, US),
            (Self::Imb, "t_max[usec]") => PrintedColumn::Metric(Metric::Max, US),
            (Self::Nccl, "busbw" | "algbw") if program.ends_with(title) => {
                PrintedColumn::Metric(Metric::Bandwidth, 1e9)
            }
            _ => PrintedColumn::Unknown,
        }
    }

    /// A row with plain numbers, and `-` in columns without a meaning. `None` if the line has
    /// another number of cells.
    fn plain_row(self, columns: &[PrintedColumn], line: &str) -> Option<String> {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let plain = |(cell, column): (&&str, &PrintedColumn)| match (self, column) {
            (_, PrintedColumn::Unknown) => "-".to_owned(),
            (Self::Fabtests, PrintedColumn::Size) => with_factor(cell, 1024),
            (Self::Fabtests, PrintedColumn::Count) => with_factor(cell, 1000),
            _ => (*cell).to_owned(),
        };
        let cells_fit = cells.len() == columns.len();
        cells_fit.then(|| cells.iter().zip(columns).map(plain).collect::<Vec<_>>().join(" "))
    }
}

/// A number such as `64k` or `1.2m` in plain digits, with `factor` for a step of its unit; other
/// text as it is.
fn with_factor(cell: &str, factor: u64) -> String {
    let power = |unit| "kmgb".find(unit).map_or(0, |power| power.min(2) as u32 + 1);
    let unit = cell.chars().next_back().filter(char::is_ascii_alphabetic);
    let number = unit.map_or(cell, |_| &cell[..cell.len() - 1]);
    let value = number.parse::<f64>().ok().filter(|_| unit.is_none_or(|unit| power(unit) > 0));
    let scale = factor.pow(unit.map_or(0, power)) as f64;
    value.map_or_else(|| cell.to_owned(), |value| (value * scale).to_string())
}

/// A test without the GPU runtime that its title may name.
fn without_accelerator(test: &str) -> String {
    ["-cuda", "-rocm", "-openacc"].iter().fold(test.to_owned(), |test, name| test.replace(name, ""))
}

/// Whether a line has two numbers or more and nothing else.
fn is_figures(line: &str) -> bool {
    let mut cells = line.split_whitespace();
    cells.clone().count() > 1 && cells.all(|cell| cell.parse::<f64>().is_ok())
}

/// The programs of fabtests and nccl-tests that lines name, such as the lines of their commands.
#[derive(Default)]
pub(super) struct Mentioned(Vec<(String, ProgramFamily, String)>);

impl Mentioned {
    pub(super) fn add(&mut self, line: &str) {
        let words = line.split(|c: char| c.is_whitespace() || "\"'`,:;()/".contains(c));
        let program = |word: &str| {
            let ends_with = |ends: &[&str]| ends.iter().any(|end| word.ends_with(end));
            let is_fabtest = word.starts_with("fi_") && ends_with(&["pingpong", "_bw"]);
            let family = is_fabtest.then_some(ProgramFamily::Fabtests);
            let family = family.or(ends_with(&["_perf"]).then_some(ProgramFamily::Nccl))?;
            Some((line.to_owned(), family, word.to_owned()))
        };
        self.0.extend(words.rev().find_map(program));
    }

    /// The last program of a family that a line with this prefix names, else the only one that any
    /// line names, else `unknown`.
    fn program(&self, prefix: &str, family: ProgramFamily, unknown: &str) -> String {
        let mut programs = self.0.iter().filter(|(_, own, _)| *own == family);
        let behind = programs.clone().rfind(|(line, ..)| line.starts_with(prefix));
        let only = || {
            let first = programs.next()?;
            programs.all(|(.., program)| *program == first.2).then_some(first)
        };
        behind.or_else(only).map_or(unknown, |(.., program)| program).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use facts::expect::Metric;
    use proptest::prelude::*;
    use report::outcome::{Outcome, Status};

    use crate::printed::runs;

    macro_rules! text {
        ($name:literal) => {
            ($name, include_str!(concat!("../../tests/fixtures/programs/", $name, ".txt")))
        };
    }

    /// A text with its name, the programs in it, and a figure: size, metric, value.
    type ProgramText = ((&'static str, &'static str), &'static [&'static str], (u64, Metric, f64));

    const TEXTS: [ProgramText; 16] = [
        (text!("osu-latency-5"), &["osu_latency"], (8, Metric::Mean, 2050.0)),
        (text!("osu-latency-7-device"), &["osu_latency"], (256, Metric::Min, 3660.0)),
        (text!("osu-bw-6"), &["osu_bw"], (4_194_304, Metric::Bandwidth, 24_013.40e6)),
        (text!("osu-bibw-7"), &["osu_bibw"], (65_536, Metric::Bandwidth, 42_301.08e6)),
        (text!("osu-mbw_mr-7"), &["osu_mbw_mr"], (8, Metric::PacketRate, 12_920_040.11)),
        (text!("osu-put-latency-5"), &["osu_put_latency"], (4096, Metric::Mean, 3200.0)),
        (text!("osu-get-bw-7"), &["osu_get_bw"], (8, Metric::Bandwidth, 27.93e6)),
        (text!("fi_pingpong"), &["fi_pingpong"], (65_536, Metric::Mean, 7890.0)),
        (text!("fi_rdm_tagged_pingpong"), &["fi_rdm_tagged_pingpong"], (8, Metric::Mean, 1950.0)),
        (text!("fi_rma_bw"), &["fi_rma_bw"], (1_048_576, Metric::Bandwidth, 24_008.61e6)),
        (text!("imb-pingpong-2021"), &["IMB PingPong"], (256, Metric::Mean, 2360.0)),
        (text!("imb-pingpong-2018"), &["IMB PingPong", "IMB Sendrecv"], (8, Metric::Mean, 2120.0)),
        (text!("imb-pingpong-labelled"), &["IMB PingPong"], (8, Metric::Mean, 1990.0)),
        (
            text!("nccl-all_reduce"),
            &["all_reduce_perf busbw", "all_reduce_perf algbw"],
            (1_073_741_824, Metric::Bandwidth, 122.60e9),
        ),
        (
            text!("nccl-all_gather-labelled"),
            &["all_gather_perf busbw", "all_gather_perf algbw"],
            (134_217_728, Metric::Bandwidth, 69.48e9),
        ),
        (
            text!("nccl-old"),
            &["nccl-tests busbw", "nccl-tests algbw"],
            (67_108_864, Metric::Bandwidth, 100.42e9),
        ),
    ];

    fn figure(run: &Outcome, size: u64, metric: Metric) -> Option<f64> {
        let result = run.results.iter().find(|result| result.size_bytes == size);
        result.unwrap_or_else(|| panic!("{run:?}")).figure(metric)
    }

    /// A program, and its sizes with the deciding metric.
    type RunFigures<'a> = (&'a str, Vec<(u64, Option<f64>)>);

    fn figures(runs: &[Outcome]) -> Vec<RunFigures<'_>> {
        let rows = |run: &'_ Outcome| {
            let metric = |result: &report::outcome::SizeResult| {
                result.figure(Metric::Mean).or(result.figure(Metric::Bandwidth))
            };
            run.results.iter().map(|result| (result.size_bytes, metric(result))).collect()
        };
        runs.iter().map(|run| (run.tool.as_str(), rows(run))).collect()
    }

    #[test]
    fn reads_each_program() {
        for ((name, text), programs, (size, metric, value)) in TEXTS {
            let (runs, notes) = runs(text).unwrap();
            assert_eq!(notes, [""; 0], "{name}");
            let names: Vec<&str> = runs.iter().map(|run| run.tool.as_str()).collect();
            assert_eq!(names, programs, "{name}");
            assert_eq!(figure(&runs[0], size, metric), Some(value), "{name}");
            assert!(runs.iter().all(|run| run.status == Status::Complete && run.is_printed()));
            let rows = text.lines().filter(|line| {
                let mut words = line.split_whitespace().skip_while(|word| word.ends_with(':'));
                let first = words.next().unwrap_or_default();
                first.starts_with(|c: char| c.is_ascii_digit())
                    && words.count() > 0
                    && !line.contains("INFO")
            });
            let tables = if programs[0].ends_with("busbw") { 2 } else { 1 };
            let read: usize = runs.iter().map(|run| run.results.len()).sum();
            assert_eq!(read, rows.count() * tables, "{name}");
        }
    }

    #[test]
    fn figures_that_are_not_printed_are_missing() {
        let latency = runs(text!("osu-latency-5").1).unwrap().0;
        for metric in [Metric::Min, Metric::Max, Metric::Deviation, "p50".parse().unwrap()] {
            assert_eq!(figure(&latency[0], 8, metric), None, "{metric}");
        }
        let bandwidth = runs(text!("osu-bw-6").1).unwrap().0;
        assert_eq!(figure(&bandwidth[0], 8, Metric::PacketRate), None);
        assert_eq!(figure(&bandwidth[0], 8, Metric::Mean), None);
        let device = runs(text!("osu-latency-7-device").1).unwrap().0;
        assert_eq!(
            (device[0].results[0].count, figure(&device[0], 1, Metric::Max)),
            (10_000, Some(4440.0))
        );
    }

    /// usec/xfer of a bandwidth test is the time between two messages; a ping-pong has one message
    /// under way; a message of 1 MiB is 512 packets; busbw is not algbw.
    #[test]
    fn takes_no_figure_for_another() {
        let rma = runs(text!("fi_rma_bw").1).unwrap().0;
        assert_eq!(figure(&rma[0], 64, Metric::Mean), None);
        assert_eq!(figure(&rma[0], 1_048_576, Metric::PacketRate), Some(0.02 * 1e6 * 512.0));
        for text in [text!("fi_rdm_tagged_pingpong").1, text!("imb-pingpong-2021").1] {
            assert_eq!(figure(&runs(text).unwrap().0[0], 256, Metric::Bandwidth), None);
        }
        // Nothing says which of the programs of fabtests it was.
        let (_, unnamed) = text!("fi_rdm_tagged_pingpong").1.split_once('\n').unwrap();
        let (unknown, notes) = runs(unnamed).unwrap();
        assert_eq!(
            (unknown[0].tool.as_str(), figure(&unknown[0], 8, Metric::Mean)),
            ("fabtests", None)
        );
        assert!(notes[0].contains("is of an unknown program"), "{notes:?}");
        let nccl = runs(text!("nccl-all_reduce").1).unwrap().0;
        assert_eq!(figure(&nccl[1], 1_073_741_824, Metric::Bandwidth), Some(81.74e9));
    }

    /// The figure in place stands behind the one that is no number.
    #[test]
    fn unreadable_figure_is_not_replaced_by_another_column() {
        let text = text!("nccl-all_reduce").1.replacen("16.35", "inf", 1);
        let (runs, notes) = runs(&text).unwrap();
        assert_eq!(figure(&runs[0], 1_048_576, Metric::Bandwidth), None);
        assert_eq!(figure(&runs[1], 1_048_576, Metric::Bandwidth), Some(10.90e9));
        assert_eq!(notes, ["line 13: bw 'inf' is no number of a NIC"]);
    }

    #[test]
    fn reads_settings_that_a_text_shows() {
        for (text, label, value) in [
            (text!("osu-latency-5").1, "memory", "host to host"),
            (text!("osu-latency-7-device").1, "memory", "device to device"),
            (text!("osu-latency-7-device").1, "version", "7.4"),
            (text!("osu-mbw_mr-7").1, "pairs", "4"),
            (text!("osu-mbw_mr-7").1, "window size", "64"),
            (text!("osu-put-latency-5").1, "synchronization", "MPI_Win_flush"),
        ] {
            assert_eq!(runs(text).unwrap().0[0].labels[label], value);
        }
        assert_eq!(runs(text!("osu-bibw-7").1).unwrap().0[0].host.name, "0");
    }

    #[test]
    fn refuses_rows_of_two_processes_without_names() {
        for (_, text) in [text!("osu-latency-5"), text!("fi_pingpong"), text!("nccl-all_reduce")] {
            let twice: String = text.lines().map(|line| format!("{line}\n{line}\n")).collect();
            assert!(runs(&twice).is_err(), "{twice}");
        }
    }

    /// The titles of an unknown test end the run before them.
    #[test]
    fn rows_of_other_tests_do_not_join_a_run() {
        let (first, _) = text!("osu-latency-5").1.split_at(150);
        let first = first.rsplit_once('\n').unwrap().0;
        let text = format!(
            "{first}\n\n# OSU MPI Allreduce Latency Test v5.9\n# Size       Avg Latency(us)\n\
             1048576               150.10\n"
        );
        let (runs, notes) = runs(&text).unwrap();
        let expected: Vec<(u64, Option<f64>)> = vec![(1_048_576, Some(150_100.0))];
        assert_eq!(figures(&runs)[1], ("OSU mpi allreduce latency", expected));
        assert_eq!((runs.len(), notes.len()), (2, 0));
    }

    fn any_text() -> impl Strategy<Value = &'static str> {
        (0..TEXTS.len()).prop_map(|index| TEXTS[index].0.1)
    }

    proptest! {
        /// A text that is cut anywhere has the figures of its whole lines, and no other ones.
        #[test]
        fn cut_texts_have_no_wrong_figures(text in any_text(), end in 0.0..1.0) {
            let end = (text.len() as f64 * end) as usize;
            let (all, _) = runs(text).unwrap();
            let (cut, notes) = runs(&text[..end]).unwrap();
            for ((program, whole), (cut_program, part)) in figures(&all).iter().zip(figures(&cut)) {
                // The line with the command stays.
                prop_assert_eq!(*program, cut_program);
                prop_assert!(whole.starts_with(&part), "{:?}", part);
            }
            let is_in_row = !text[..end].ends_with('\n') && cut.len() == all.len();
            if is_in_row && !text[..end].contains("Avg bus bandwidth") && end < text.len() {
                prop_assert_eq!(cut.last().unwrap().status, Status::Interrupted);
                prop_assert!(!notes.is_empty());
            }
        }

        /// A launcher's prefixes separate processes whose lines are mixed in any order.
        #[test]
        fn labelled_texts_may_be_mixed(one in any_text(), other in any_text(), order in any::<u64>()) {
            let mut lines = [("3: ", one.lines()), ("nid1: ", other.lines())];
            let mut mixed = String::new();
            for step in 0.. {
                let first = usize::from(order >> (step % 64) & 1 == 1);
                let Some((prefix, line)) = [first, 1 - first]
                    .into_iter()
                    .find_map(|writer| Some((lines[writer].0, lines[writer].1.next()?)))
                else {
                    break;
                };
                mixed += &format!("{prefix}{line}\n");
            }
            let (mixed_runs, _) = runs(&mixed).unwrap();
            let (mut both, mut read) = (runs(one).unwrap().0, mixed_runs);
            both.extend(runs(other).unwrap().0);
            let key = |run: &Outcome| (run.results.len(), run.results[0].size_bytes, format!("{:?}", run.results));
            both.sort_by_key(key);
            read.sort_by_key(key);
            let rows = |runs: &[Outcome]| figures(runs).into_iter().map(|(_, rows)| rows).collect::<Vec<_>>();
            prop_assert_eq!(rows(&both), rows(&read));
        }

        #[test]
        fn survives_damaged_texts(text in any_text(), end in 0.0..1.0, damage in "[ -~\n]{0,40}") {
            let end = (text.len() as f64 * end) as usize;
            let _ = runs(&format!("{}{damage}{}", &text[..end], &text[end..]));
        }
    }
}
