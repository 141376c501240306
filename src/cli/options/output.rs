//! The options of the results: what is printed, which documents are written, what is checked.

use super::{Governs, OptionDef};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::{LEFT_OUT, file, place, text};
use crate::number::time;
use crate::plan::expect;
use crate::plan::outputs::INTERVALS;
use crate::tool::Opt;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef {
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
    OptionDef {
        id: Opt::Percentiles,
        short: None,
        long: "percentiles",
        value: None,
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Print percentiles after the table".into(),
        manual: |_| {
            "Print percentiles of the latencies after the table: 50, 90, 99, 99.9 and 99.99 \
             percent. A star marks a percentile with fewer than ten samples above it."
        },
        set: |typed, _| {
            typed.outputs.percentiles = true;
            Ok(())
        },
    },
    OptionDef {
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
    OptionDef {
        id: Opt::Interval,
        short: None,
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
    OptionDef {
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
    OptionDef {
        id: Opt::Json,
        short: None,
        long: "json",
        value: Some(Value::optional("FILE", Completion::Files)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| {
            "Write the results as JSON to FILE; without FILE, to\n\
             standard output, and the text to standard error"
                .into()
        },
        manual: |_| {
            "Write the results as one JSON document to *FILE*. Without *FILE*, the document goes \
             to standard output, and the text to standard error."
        },
        set: |typed, value| {
            typed.outputs.json = Some(place(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Jsonl,
        short: None,
        long: "jsonl",
        value: Some(Value::new("FILE", Completion::Files)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Append the results to FILE as one line of JSON".into(),
        manual: |_| {
            "Append the results to *FILE* as one line of JSON, the document of `--json`. Many runs may \
             append to the same file, also at the same time."
        },
        set: |typed, value| {
            typed.outputs.jsonl = Some(file(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Csv,
        short: None,
        long: "csv",
        value: Some(Value::optional("FILE", Completion::Files)),
        governs: Governs::Results,
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
    OptionDef {
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
            if value == LEFT_OUT {
                return Err(
                    "expected the name of a file: this format cannot go to standard output".into(),
                );
            }
            typed.outputs.hdr_log = Some(file(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Expect,
        short: None,
        long: "expect",
        value: Some(Value::new("LIST", Completion::Nothing)),
        governs: Governs::Results,
        legacy: false,
        repeats: true,
        help: |tool| {
            let (example, metrics) = match tool.defaults.lists {
                Some(_) => ("bw>=23GB/s,bw<=25.5GB/s", "bw, rate"),
                None => ("p99<4us,mean<2.2us", "min, max,\nmean, stddev, pN"),
            };
            format!(
                "Check each size against bounds such as\n\"{example}\"; exit status 3 if any\n\
                 fails. Metrics: {metrics}"
            )
        },
        manual: |tool| {
            if tool.measures_bandwidth() {
                "Check the metrics of each size, and exit with status 3 if any check fails. \
                 *LIST* holds bounds, separated by commas: a metric, one of `<`, `<=`, `>`, `>=`, \
                 a number, and a unit. The metrics are bw, in MB/s or GB/s, and rate, in pkt/s, \
                 kpkt/s or Mpkt/s. All lists that are given apply."
            } else {
                "Check the metrics of each size, and exit with status 3 if any check fails. \
                 *LIST* holds bounds, separated by commas: a metric, one of `<`, `<=`, `>`, `>=`, \
                 a number, and a unit. The metrics are min, max, mean, stddev and percentiles \
                 such as p99, in ns, us, ms or s. All lists that are given apply."
            }
        },
        set: |typed, value| {
            typed
                .outputs
                .expectations
                .extend(expect::parse(text(value)?)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Quiet,
        short: None,
        long: "quiet",
        value: None,
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| {
            "Show no progress on a terminal, and no text if\nanother format has standard output"
                .into()
        },
        manual: |_| {
            "Show no progress on a terminal, and no text if another format has standard \
             output."
        },
        set: |typed, _| {
            typed.outputs.quiet = true;
            Ok(())
        },
    },
];
