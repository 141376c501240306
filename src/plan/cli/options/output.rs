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
        text: |_| {
            "Print each sample; ignored with --duration\n\n\
             The lines stand before the table and have the number of the sample."
                .into()
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
        text: |_| {
            "Print percentiles after the table; those of LIST, such as 50,95,99.9, else 50, 90, \
             99, 99.9, 99.99, max\n\n\
             LIST is numbers above 0 and up to 100 with commas between them. A star marks a \
             percentile with fewer than ten samples above it. JSON and CSV always have the \
             percentiles without LIST, and those of LIST as well."
                .into()
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
        text: |_| {
            "Draw a histogram of the latencies of each size\n\n\
             The histogram stands after the table. It has a line for each bin that has samples, \
             with its lower edge, its number of samples and the percentiles in it. All bins of a \
             size are of equal ratio; a line of dots stands for empty ones. The bars fill the \
             width of the terminal, or 80 columns, and consist of # where the locale is not \
             UTF-8. JSON has the histogram as well, in narrower bins, and 'cxidiag report' draws \
             it."
            .into()
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
        text: |_| {
            "Print what the tool itself adds to a latency\n\n\
             A line after the table states the cost of reading the clock, of issuing a command \
             and of polling an event, measured without a NIC. With --percentiles, a tilde (~) \
             marks a percentile that differs from the one before it by less than the spread of \
             the tool."
                .into()
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
        text: |tool| {
            format!(
                "Unit of bandwidths in the text: MB/s, GB/s, MiB/s or Gb/s, which are bits \
                 (default: {})\n\n\
                 MB/s and GB/s are powers of 1000, MiB/s is 2^20 bytes, Gb/s is 10^9 bits; the \
                 unit stands in the title of the column. JSON and CSV always have bytes per \
                 second.",
                tool.unit()
            )
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
        text: |tool| {
            let figures = if tool.measures_bandwidth() {
                "bandwidth and packet rate"
            } else {
                "mean and p99"
            };
            format!(
                "Print {figures} of each interval of TIME while a size is measured, such as 100ms or \
                 1s\n\n\
                 Each row also has the number of operations. Minimum, 5th percentile and maximum \
                 of the intervals follow. TIME is a number with one of the units ns, us, ms, s and m, \
                 in seconds without a unit, from 1 ms to one hour. JSON and CSV have the intervals as \
                 well."
            )
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
        text: |_| {
            "Show each side's own view after the table\n\n\
             The table has operations issued and arrived, time, bandwidths in both directions, \
             and the CPU time of its first measuring thread. Arrived operations are counted by \
             the NIC of the target, in send-bw by its software. They are operations, not bytes \
             that flow in or out: a read that arrives sends its data back. High Rate Puts are \
             off: they are acknowledged before they arrive. The peer must be cxidiag."
                .into()
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
        text: |_| {
            "Show what the counters of both NICs did during the run; SET is quick (as without \
             SET), link or all\n\n\
             'quick' has the counters that explain most results, 'link' code words, replays and \
             pauses of the link. The counters are those of the whole NIC: all programs and \
             Ethernet count. They are read before the first and after the last size, and shown \
             with what they explain. JSON has all of the set; a counter that a NIC lacks is not \
             available, and not 0. A server shows those of its own NIC."
                .into()
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
        text: |_| {
            "Write the results as JSON to FILE; without FILE, to standard output, and the text \
             to standard error\n\n\
             A server writes the run as its side sees it; with --persist, each run replaces the \
             one before."
                .into()
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
        text: |_| {
            "Append the results to FILE as one line of JSON\n\n\
             The line is the document of --json. Many runs may append to the same file, also at \
             the same time."
                .into()
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
        text: |_| "Write the results as comma-separated values; FILE as for --json".into(),
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
        text: |_| {
            "Add a label to JSON and CSV, such as rack=x1; may be repeated\n\n\
             KEY consists of letters, digits, _, . and -; VALUE is text without control \
             characters and ';'. Of several labels with one key, the last counts."
                .into()
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
        text: |_| {
            "Write each sample to FILE as comma-separated values\n\n\
             Each line has the size, the number of the iteration from 0, and the latency in \
             nanoseconds. Not with --duration and --until."
                .into()
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
        text: |_| {
            "Write the distribution of the latencies to FILE as an HdrHistogram log (version 2)\n\n\
             The tools of HdrHistogram read it."
                .into()
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
        text: |tool| {
            let (example, metrics, units) = match tool.defaults.lists {
                Some(_) => (
                    "bw>=23GB/s,8:rate>1Mpkt/s",
                    "bw, rate",
                    "bw in B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s, Mb/s or Gb/s (bits), and rate \
                     in pkt/s, kpkt/s, Mpkt/s or the same with op",
                ),
                None => (
                    "p99<4us,64K:mean<9us",
                    "min, max, mean, stddev, pN",
                    "ns, us, ms or s; pN is a percentile such as p99",
                ),
            };
            format!(
                "Check bounds of all sizes or of one, such as \"{example}\", or those in @FILE; exit \
                 status 3 if any fails. Metrics: {metrics}\n\n\
                 LIST holds bounds, separated by commas: a metric, one of <, <=, >, >=, a number, and a \
                 unit ({units}). With a size and a colon in front, a bound applies to that size only. \
                 FILE has a list on each line; # begins a comment. All lists that are given apply."
            )
        },
        set: |typed, value| {
            let is_bandwidth = typed.run.lists.is_some();
            let expectations = match text(value)?.strip_prefix('@') {
                Some(path) => expect::parse_lines(&contents(path)?, is_bandwidth)?,
                None => expect::parse(text(value)?, is_bandwidth)?,
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
        text: |_| {
            "Print the table and the verdicts alone, without summary, notes and progress; no \
             text if another format has standard output\n\n\
             The blocks that other options ask for (such as --expect, --until or --percentiles) \
             stay, and with a software NIC the line that says so. Errors and warnings still go to \
             standard error."
                .into()
        },
        set: |typed, _| {
            typed.outputs.quiet = true;
            Ok(())
        },
    },
];
