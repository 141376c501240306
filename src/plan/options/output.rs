//! The options of the results: what is printed, which documents are written, what is checked.

use super::tool_option::{
    ALL, BANDWIDTH, Def, LATENCY, LISTS, OptionWord, ToolOption, process, results, run,
};
use super::values::{label, percentiles};
use crate::outputs::INTERVALS;
use crate::tools::has_one_status;
use cli::usage::{Completion, Value};
use cli::values::{LEFT_OUT, named_file, names, text};
use facts::bandwidth_unit::BandwidthUnit;
use facts::expect;
use facts::percentile::Percentile;
use node::nic::counter_table::Preset;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    run(LATENCY, |_| {
        Def::switch("report-all", |typed| typed.run.report_all = true).explained(
            "Print each sample; ignored with --duration\n\n\
             The lines stand before the table and have the number of the sample.",
        )
    })
    .legacy(),
    results(LATENCY, |_| {
        Def::new(
            "percentiles",
            Some(Value::optional("LIST", Completion::Nothing)),
            |typed, value| {
                typed.outputs.percentiles = if value == LEFT_OUT {
                    Percentile::STANDARD.to_vec()
                } else {
                    percentiles(text(value)?)?
                };
                Ok(())
            },
        )
        .explained(
            "Print percentiles after the table; those of LIST, such as 50,95,99.9, else 50, 90, \
             99, 99.9, 99.99, max\n\n\
             LIST is numbers above 0 and up to 100 with commas between them. A star marks a \
             percentile with fewer than ten samples above it. JSON and CSV always have the \
             percentiles without LIST, and those of LIST as well.",
        )
    })
    .frequent(),
    results(LATENCY, |_| {
        Def::switch("histogram", |typed| typed.outputs.histogram = true).explained(
            "Draw a histogram of the latencies of each size\n\n\
             The histogram stands after the table. It has a line for each bin that has samples, \
             with its lower edge, its number of samples and the percentiles in it. All bins of a \
             size are of equal ratio; a line of dots stands for empty ones. The bars fill the \
             width of the terminal, or 80 columns, and consist of # where the locale is not \
             UTF-8. JSON has the histogram as well, in narrower bins, and 'cxidiag report' draws \
             it.",
        )
    }),
    results(LATENCY, |_| {
        Def::switch("show-error", |typed| typed.outputs.show_error = true).explained(
            "Print what the tool itself adds to a latency\n\n\
             A line after the table states the cost of reading the clock, of issuing a command \
             and of polling an event, measured without a NIC. With --percentiles, a tilde (~) \
             marks a percentile that differs from the one before it by less than the spread of \
             the tool.",
        )
    }),
    process(LISTS, |tool| {
        Def::value("unit", "UNIT", str::parse, |typed| &mut typed.outputs.unit)
        .completed_by(Completion::Words(|| names(&BandwidthUnit::ALL)))
        .explained(format!(
            "Unit of bandwidths in the text: MB/s, GB/s, MiB/s or Gb/s, which are bits (default: \
             {})\n\n\
             MB/s and GB/s are powers of 1000, MiB/s is 2^20 bytes, Gb/s is 10^9 bits; the unit \
             stands in the title of the column. JSON and CSV always have bytes per second.",
            tool.unit()
        ))
    }),
    results(ALL, |tool| {
        let figures =
            if tool.measures_bandwidth() { "bandwidth and packet rate" } else { "mean and p99" };
        let text = format!(
            "Print {figures} of each interval of TIME while a size is measured, such as 100ms \
             or 1s\n\n\
             Each row also has the number of operations. Minimum, 5th percentile and maximum \
             of the intervals follow. TIME is a number with one of the units ns, us, ms, s and \
             m, in seconds without a unit, from 1 ms to one hour. JSON and CSV have the \
             intervals as well."
        );
        let interval = Def::time("interval", INTERVALS, |typed| &mut typed.outputs.interval);
        // `-i` is --iters under the legacy name of `loopback-bw`.
        let interval = if has_one_status(tool) { interval } else { interval.letter('i') };
        interval.explained(text)
    }),
    run(BANDWIDTH, |_| {
        Def::switch("both-ends", |typed| typed.run.extensions.both_ends = true).explained(
            "Show each side's own view after the table\n\n\
             The table has operations issued and arrived, time, bandwidths in both directions, \
             and the CPU time of its first measuring thread. Arrived operations are counted by \
             the NIC of the target, in send-bw by its software. They are operations, not bytes \
             that flow in or out: a read that arrives sends its data back. High Rate Puts are \
             off: they are acknowledged before they arrive. The peer must be cxidiag.",
        )
    })
    .words(&[OptionWord::switch(3, "both-ends", |all| &mut all.both_ends)]),
    process(ALL, |_| {
        Def::new(
            "counters",
            Some(Value::optional("SET", Completion::Words(|| names(&Preset::ALL)))),
            |typed, value| {
                typed.outputs.counters =
                    Some(if value == LEFT_OUT { Preset::Quick } else { text(value)?.parse()? });
                Ok(())
            },
        )
        .explained(
            "Show what the counters of both NICs did during the run; SET is quick (as without \
             SET), link or all\n\n\
             'quick' has the counters that explain most results, 'link' code words, replays and \
             pauses of the link. The counters are those of the whole NIC: all programs and \
             Ethernet count. They are read before the first and after the last size, and shown \
             with what they explain. JSON has all of the set; a counter that a NIC lacks is not \
             available, and not 0. A server shows those of its own NIC.",
        )
    })
    .words(&[OptionWord::text(
        8,
        "counters",
        |all| all.counters.map(|preset| preset.to_string()),
        |all, word| word.parse().map(|preset| all.counters = Some(preset)).ok(),
    )]),
    process(ALL, |_| {
        Def::document("json", |typed| &mut typed.outputs.json).explained(
            "Write the results as JSON to FILE; without FILE, to standard output, and the text \
             to standard error\n\n\
             A server writes the run as its side sees it; with --persist, each run replaces the \
             one before.",
        )
    })
    .frequent(),
    process(ALL, |_| {
        Def::new("jsonl", Some(Value::new("FILE", Completion::Files)), |typed, value| {
            typed.outputs.jsonl = Some(named_file(value)?);
            Ok(())
        })
        .explained(
            "Append the results to FILE as one line of JSON\n\n\
             The line is the document of --json. Many runs may append to the same file, also at \
             the same time.",
        )
    }),
    process(ALL, |_| {
        Def::document("csv", |typed| &mut typed.outputs.csv)
            .explained("Write the results as comma-separated values; FILE as for --json")
    }),
    process(ALL, |_| {
        Def::new("label", Some(Value::new("KEY=VALUE", Completion::Nothing)), |typed, value| {
            let (key, value) = label(text(value)?)?;
            typed.outputs.labels.insert(key, value);
            Ok(())
        })
        .repeated()
        .explained(
            "Add a label to JSON and CSV, such as rack=x1; may be repeated\n\n\
             KEY consists of letters, digits, _, . and -; VALUE is text without control \
             characters and ';'. Of several labels with one key, the last counts.",
        )
    }),
    results(LATENCY, |_| {
        Def::new("samples", Some(Value::new("FILE", Completion::Files)), |typed, value| {
            typed.outputs.samples = Some(named_file(value)?);
            Ok(())
        })
        .explained(
            "Write each sample to FILE as comma-separated values\n\n\
             Each line has the size, the number of the iteration from 0, and the latency in \
             nanoseconds. Not with --duration and --until.",
        )
    }),
    results(LATENCY, |_| {
        Def::new("hdr-log", Some(Value::new("FILE", Completion::Files)), |typed, value| {
            typed.outputs.hdr_log = Some(named_file(value)?);
            Ok(())
        })
        .explained(
            "Write the distribution of the latencies to FILE as an HdrHistogram log (version 2)\n\n\
             The tools of HdrHistogram read it.",
        )
    }),
    results(ALL, |tool| {
        let (example, metrics, units) = match tool.defaults.lists {
            Some(_) => (
                "bw>=23GB/s,8:rate>1Mpkt/s",
                "bw, rate",
                "bw in B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s, Mb/s or Gb/s (bits), and \
                 rate in pkt/s, kpkt/s, Mpkt/s, the same with op, or /s, k/s, M/s",
            ),
            None => (
                "p99<4us,64K:mean<9us",
                "min, max, mean, stddev, pN",
                "ns, us, ms or s; pN is a percentile such as p99",
            ),
        };
        let text = format!(
            "Check bounds of all sizes or of one, such as \"{example}\", or those in @FILE; \
             exit status 3 if any fails. Metrics: {metrics}\n\n\
             LIST holds bounds, separated by commas: a metric, one of <, <=, >, >=, a number, \
             and a unit ({units}). With a size and a colon in front, a bound applies to that \
             size only. FILE has a list on each line; # begins a comment. A line may begin with \
             the name of a tool, and is then for the sizes that this tool measures. All lists \
             that are given apply. Published figures have names, such as \
             --expect=slingshot200-same-switch."
        );
        Def::text("expect", "LIST", |typed, value| {
            let is_bandwidth = typed.run.lists.is_some();
            let expectations = match expect::profile_text(value)? {
                Some(text) => expect::parse_lines(&text, Some(is_bandwidth))?,
                None => expect::parse(value, is_bandwidth)?,
            };
            typed.outputs.expectations.extend(expectations);
            Ok(())
        })
        .repeated()
        .explained(text)
    })
    .frequent(),
    process(ALL, |_| {
        Def::switch("quiet", |typed| typed.outputs.quiet = true).explained(
            "Print the table and the verdicts alone, without summary, notes and progress; no \
             text if another format has standard output\n\n\
             The blocks that other options ask for (such as --expect, --until or --percentiles) \
             stay, and with a software NIC the line that says so. Errors and warnings still go to \
             standard error.",
        )
    }),
];
