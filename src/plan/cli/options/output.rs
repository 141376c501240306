//! The options of the results: what is printed, which documents are written, what is checked.

use super::tool_option::{Governs, ToolOption};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::{LEFT_OUT, contents, label, named_file, names, percentiles, place, text};
use crate::outputs::INTERVALS;
use crate::tool::Opt;
use facts::bandwidth_unit::BandwidthUnit;
use facts::expect;
use facts::number::time;
use facts::percentile::Percentile;
use node::nic::counter_table::Preset;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    ToolOption {
        id: Opt::ReportAll,
        short: None,
        long: "report-all",
        value: None,
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |_| "Print each sample; ignored with --duration".into(),
        manual: |_| {
            "Print each measured latency with its number, before the table. Ignored with \
             `--duration`."
        },
        set: |typed, _| {
            typed.run.report_all = true;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Percentiles,
        short: None,
        long: "percentiles",
        value: Some(Value::optional("LIST", Completion::Nothing)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| {
            "Print percentiles after the table; those of LIST,\n\
             such as 50,95,99.9, else 50, 90, 99, 99.9, 99.99, max"
                .into()
        },
        manual: |_| {
            "Print percentiles of the latencies after the table: those of *LIST*, numbers above 0 and \
             up to 100 with commas between them, or 50, 90, 99, 99.9, 99.99 and the maximum. A star \
             marks a percentile with fewer than ten samples above it. JSON and CSV always have the \
             latter ones, and those of *LIST* as well."
        },
        set: |typed, value| {
            typed.outputs.percentiles = if value == LEFT_OUT {
                Percentile::STANDARD.to_vec()
            } else {
                percentiles(text(value)?)?
            };
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Histogram,
        short: None,
        long: "histogram",
        value: None,
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Draw a histogram of the latencies of each size".into(),
        manual: |_| {
            "Draw a histogram of the latencies of each size after the table: a line for each bin \
             that has samples, with its lower edge, its number of samples and the percentiles in \
             it. All bins of a size are of equal ratio; a line of dots stands for empty ones. The \
             bars fill the width of the terminal, or 80 columns, and consist of # where the locale \
             is not UTF-8. JSON has the histogram as well, in narrower bins, and `cxidiag report` \
             draws it."
        },
        set: |typed, _| {
            typed.outputs.histogram = true;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::ShowError,
        short: None,
        long: "show-error",
        value: None,
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Print what the tool itself adds to a latency".into(),
        manual: |_| {
            "Print one line after the table about what the tool itself adds to a latency: the cost \
             of reading the clock, of issuing a command and of polling an event, measured without \
             a NIC. With `--percentiles`, a tilde (~) marks a percentile that differs from the one \
             before it by less than the spread of the tool."
        },
        set: |typed, _| {
            typed.outputs.show_error = true;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Unit,
        short: None,
        long: "unit",
        value: Some(Value::new("UNIT", Completion::Words(|| names(&BandwidthUnit::ALL)))),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Unit of bandwidths in the text: MB/s, GB/s, MiB/s or\nGb/s, which are bits (default: MB/s)".into()
        },
        manual: |_| {
            "The unit of the bandwidths in the text of this side, which stands in the title of the \
             column: MB/s, GB/s (powers of 1000), MiB/s (2^20 bytes) or Gb/s (10^9 bits). JSON and \
             CSV always have bytes per second."
        },
        set: |typed, value| {
            typed.outputs.unit = text(value)?.parse()?;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Interval,
        short: Some('i'),
        long: "interval",
        value: Some(Value::new("TIME", Completion::Nothing)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |tool| {
            let figures = if tool.measures_bandwidth() {
                "bandwidth and packet rate"
            } else {
                "mean and p99"
            };
            format!(
                "Print {figures} of each interval of\nTIME while a size is measured, such as 100ms or 1s"
            )
        },
        manual: |tool| {
            if tool.measures_bandwidth() {
                "Print one row for each interval of *TIME* while a size is measured: operations, \
                 bandwidth and packet rate of this side. Minimum, 5th percentile and maximum of \
                 the intervals follow. *TIME* is a number with one of the units ns, us, ms, s \
                 and m, in seconds without a unit, from 1 ms to one hour. JSON and CSV have the \
                 intervals as well."
            } else {
                "Print one row for each interval of *TIME* while a size is measured: operations, \
                 mean and 99th percentile of their latencies. Minimum, 5th percentile and maximum \
                 of the intervals follow. *TIME* is a number with one of the units ns, us, ms, s \
                 and m, in seconds without a unit, from 1 ms to one hour. JSON and CSV have the \
                 intervals as well."
            }
        },
        set: |typed, value| {
            typed.outputs.interval = Some(time(text(value)?, INTERVALS)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::BothEnds,
        short: None,
        long: "both-ends",
        value: None,
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| "Show each side's own view after the table".into(),
        manual: |_| {
            "Show, in one table after the results, what each side has seen itself: operations issued \
             and arrived, time, bandwidths in both directions, and the CPU time of its first measuring \
             thread. Arrived operations are counted by the NIC of the target, in `send-bw` by its \
             software. They are operations, not bytes that flow in or out: a read that arrives sends its \
             data back. High Rate Puts are off: they are acknowledged before they arrive. The peer must \
             be cxidiag."
        },
        set: |typed, _| {
            typed.run.extensions.both_ends = true;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Counters,
        short: None,
        long: "counters",
        value: Some(Value::optional("SET", Completion::Words(|| names(&Preset::ALL)))),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Show what the counters of both NICs did during the\n\
             run; SET is quick (as without SET), link or all"
                .into()
        },
        manual: |_| {
            "Show, after the results, what the counters of both NICs did during the run, and what \
             they explain. *SET* is `quick` (what explains most results, the default), `link` (code \
             words, replays and pauses of the link) or `all`. The counters are those of the whole \
             NIC: all programs and Ethernet count. They are read before the first and after the \
             last size. JSON has all of the set; in JSON and text, a counter that a NIC lacks is \
             not available, and not 0. A server shows those of its own NIC."
        },
        set: |typed, value| {
            typed.outputs.counters =
                Some(if value == LEFT_OUT { Preset::Quick } else { text(value)?.parse()? });
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Json,
        short: None,
        long: "json",
        value: Some(Value::optional("FILE", Completion::Files)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Write the results as JSON to FILE; without FILE, to\n\
             standard output, and the text to standard error"
                .into()
        },
        manual: |_| {
            "Write the results as one JSON document to *FILE*. Without *FILE*, the document goes \
             to standard output, and the text to standard error. A server writes the run as its \
             side sees it; with `--persist`, each run replaces the one before."
        },
        set: |typed, value| {
            typed.outputs.json = Some(place(value)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Jsonl,
        short: None,
        long: "jsonl",
        value: Some(Value::new("FILE", Completion::Files)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| "Append the results to FILE as one line of JSON".into(),
        manual: |_| {
            "Append the results to *FILE* as one line of JSON, the document of `--json`. Many runs may \
             append to the same file, also at the same time."
        },
        set: |typed, value| {
            typed.outputs.jsonl = Some(named_file(value)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Csv,
        short: None,
        long: "csv",
        value: Some(Value::optional("FILE", Completion::Files)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| "Write the results as comma-separated values; FILE\nas for --json".into(),
        manual: |_| {
            "Write the results as a table of comma-separated values to *FILE*. Without *FILE*, \
             the table goes to standard output, and the text to standard error."
        },
        set: |typed, value| {
            typed.outputs.csv = Some(place(value)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Label,
        short: None,
        long: "label",
        value: Some(Value::new("KEY=VALUE", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: true,
        help: |_| "Add a label to JSON and CSV, such as rack=x1; may\nbe repeated".into(),
        manual: |_| {
            "Add a label to JSON and CSV, such as `rack=x1`. *KEY* consists of letters, digits, \
             `_`, `.` and `-`; *VALUE* is text without control characters and `;`. Each given \
             label counts; of several with one key the last."
        },
        set: |typed, value| {
            let (key, value) = label(text(value)?)?;
            typed.outputs.labels.insert(key, value);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Samples,
        short: None,
        long: "samples",
        value: Some(Value::new("FILE", Completion::Files)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Write each sample to FILE as comma-separated values".into(),
        manual: |_| {
            "Write each measured latency to *FILE* as comma-separated values: size, number of the \
             iteration from 0, and latency in nanoseconds. Not with `--duration` and `--until`."
        },
        set: |typed, value| {
            typed.outputs.samples = Some(named_file(value)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::HdrLog,
        short: None,
        long: "hdr-log",
        value: Some(Value::new("FILE", Completion::Files)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| {
            "Write the distribution of the latencies to FILE as\nan HdrHistogram log (version 2)"
                .into()
        },
        manual: |_| {
            "Write the distribution of the latencies to *FILE*, as a log of histograms (version \
             2) that the tools of HdrHistogram read."
        },
        set: |typed, value| {
            typed.outputs.hdr_log = Some(named_file(value)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Expect,
        short: None,
        long: "expect",
        value: Some(Value::new("LIST", Completion::Nothing)),
        governs: Governs::Results,
        legacy: false,
        repeats: true,
        help: |tool| {
            let (example, metrics) = match tool.defaults.lists {
                Some(_) => ("bw>=23GB/s,8:rate>1Mpkt/s", "bw, rate"),
                None => ("p99<4us,64K:mean<9us", "min, max,\nmean, stddev, pN"),
            };
            format!(
                "Check bounds of all sizes or of one, such as\n\"{example}\", or those in @FILE;\n\
                 exit status 3 if any fails. Metrics: {metrics}"
            )
        },
        manual: |tool| {
            if tool.measures_bandwidth() {
                "Check the metrics of the sizes, and exit with status 3 if any check fails. *LIST* \
                 holds bounds, separated by commas: a metric, one of `<`, `<=`, `>`, `>=`, a \
                 number, and a unit. With a size and a colon in front (`64K:bw>=20GB/s`), a bound \
                 applies to that size only. The metrics are bw, in B/s, kB/s, MB/s, GB/s, KiB/s, \
                 MiB/s, GiB/s, Mb/s or Gb/s (bits), and rate, in pkt/s, kpkt/s, Mpkt/s or the same \
                 with op. With `@` and the name of a file, the file has a list on each line; `#` \
                 begins a comment. All lists that are given apply."
            } else {
                "Check the metrics of the sizes, and exit with status 3 if any check fails. *LIST* \
                 holds bounds, separated by commas: a metric, one of `<`, `<=`, `>`, `>=`, a \
                 number, and a unit. With a size and a colon in front (`8:p50<2us`), a bound applies \
                 to that size only. The metrics are min, max, mean, stddev and percentiles such as \
                 p99, in ns, us, ms or s. With `@` and the name of a file, the file has a list on \
                 each line; `#` begins a comment. All lists that are given apply."
            }
        },
        set: |typed, value| {
            let of_bandwidth = typed.run.lists.is_some();
            let expectations = match text(value)?.strip_prefix('@') {
                Some(path) => expect::parse_lines(&contents(path)?, of_bandwidth)?,
                None => expect::parse(text(value)?, of_bandwidth)?,
            };
            typed.outputs.expectations.extend(expectations);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::Quiet,
        short: None,
        long: "quiet",
        value: None,
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Print the table and the verdicts alone, without\n\
             summary, notes and progress; no text if another\n\
             format has standard output"
                .into()
        },
        manual: |_| {
            "Print the table of results and the blocks that other options ask for (such as \
             `--expect`, `--until` or `--percentiles`), without the summary before the table, notes \
             about options, and the progress on a terminal. With a software NIC, the line that says \
             so stays. If another format has standard output, no text is printed. Errors and \
             warnings still go to standard error."
        },
        set: |typed, _| {
            typed.outputs.quiet = true;
            Ok(())
        },
    },
];
