//! The options of how long a size is measured, how often, and when operations start.

use super::tool_option::{
    ALL, Def, LATENCY, LEGACY_LOOPBACK, OptionWord, SEND_LATENCY, ToolOption, results, run,
};
use crate::DEFAULT_UNTIL_DURATION;
use crate::run_options::{DURATIONS, MAX_GAP_US, SyncPoint};
use crate::tool::Tool;
use crate::tools::has_one_status;
use cli::usage::Completion;
use facts::number::{microseconds, percent, time, time_text};
use facts::rate::{RATES, Rate};
use measure::{ClockChoice, Until};

/// Returns `--iters` with this letter: `-i` under the legacy name of `loopback-bw`.
fn iters(tool: &Tool, letter: char) -> Def {
    let iteration = if tool.measures_bandwidth() {
        "\n\nOne iteration issues a list of LIST_SIZE operations together and waits until all \
         of them are acknowledged."
    } else {
        ""
    };
    Def::number("iters", "ITERS", 1..=u64::MAX, |typed| &mut typed.run.iters)
        .letter(letter)
        .explained(format!("Iterations per size (default: {}){iteration}", tool.defaults.iters))
}

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    run(|tool| !has_one_status(tool), |tool| iters(tool, 'n')).legacy().frequent(),
    run(LEGACY_LOOPBACK, |tool| iters(tool, 'i')).legacy().frequent(),
    run(ALL, |_| {
        Def::text("duration", "SEC", |typed, value| {
            typed.run.set_duration(time(value, DURATIONS)?);
            Ok(())
        })
        .letter('D')
        .explained(
            "Time per size, instead of iterations: 10 (s), 500ms\n\n\
             SEC is a number, which may have a fraction, and one of the units ns, us, ms, s and m \
             (minutes); in seconds without a unit. At least 1 ms. A legacy peer that issues \
             operations itself takes whole seconds only.",
        )
    })
    .legacy()
    .frequent()
    .words(&[OptionWord::text(
        6,
        "duration",
        |all| all.duration.map(time_text),
        |all, word| time(word, DURATIONS).map(|time| all.duration = Some(time)).ok(),
    )]),
    run(ALL, |tool| {
        let (printed, served) = if tool.has_peer() {
            (
                "both sides print the results",
                " 'cxidiag serve' ends the run after its --max-run. Bandwidth tools need a server \
                 that is cxidiag.",
            )
        } else {
            ("the results are printed", "")
        };
        Def::switch("until-stopped", |typed| {
            typed.run.extensions.until_stopped = true;
            typed.run.set_duration(*DURATIONS.end());
        })
        .explained(format!(
            "Measure one size until Ctrl-C or SIGTERM, which end it with its results and exit \
             status 0\n\n\
             The signal is the regular end: the operation or list in progress is completed, and \
             {printed}. A second signal interrupts. Replaces --iters and --duration; with \
             --interval, the figures are shown meanwhile.{served}"
        ))
    })
    .words(&[OptionWord::switch(7, "until-stopped", |all| &mut all.until_stopped)]),
    run(LATENCY, |_| {
        let limit = time_text(DEFAULT_UNTIL_DURATION);
        let text = format!(
            "Measure each size until the 95% interval of the median lies within PERCENT of \
             it, at most for the --duration ({limit} if not given); exit status 3 if a median \
             stays unstable\n\n\
             Both ends of the confidence interval must lie within PERCENT, such as 1%. A size \
             takes at least 100 samples. A table shows the medians and their intervals, and \
             which are unstable. send-lat needs a server that is a cxidiag."
        );
        Def::text("until", "PERCENT", |typed, value| {
            let limit = percent(value).filter(|percent| *percent > 0.0);
            let percent = limit.ok_or("expected a percentage above 0, such as 1%")?;
            typed.until = Some(Until { percent });
            Ok(())
        })
        .explained(text)
    }),
    run(LATENCY, |tool| {
        Def::number("warmup", "WARMUP", 0..=u64::MAX, |typed| &mut typed.run.warmup).explained(
            format!("Unmeasured iterations before each size (default: {})", tool.defaults.warmup),
        )
    })
    .legacy(),
    run(LATENCY, |tool| {
        Def::text("latency-gap", "USEC", |typed, value| {
            typed.run.gap_us = microseconds(value, MAX_GAP_US)?;
            Ok(())
        })
        .explained(format!(
            "Gap after each iteration: 100 (microseconds), 0.5ms (default: {})\n\n\
                 Whole microseconds, or with a unit as in --duration. The gap is not part of the \
                 measured latency. With 0, each operation follows the previous one at once. A NIC \
                 or a CPU that saves power when it is idle shows higher latencies with a gap.",
            tool.defaults.gap_us
        ))
    })
    .legacy(),
    run(ALL, |tool| {
        let (what, late) = if tool.measures_bandwidth() {
            (
                "list starts at its intended time, all pairs together",
                "A list that is late is issued at once.",
            )
        } else {
            (
                "measured operation starts at its intended time, and its latency counts \
                 from there",
                "An operation that waits behind a slow one shows this wait. The warm-up has no \
                 intended times. Excludes --latency-gap.",
            )
        };
        let text = format!(
            "Issue at this rate: operations (1000, 100K) or bytes (500MB/s, 16Gb/s) per \
             second\n\n\
             Each {what}. Units are also op/s, kop/s, Mop/s and GiB/s; K, M and G alone are \
             10^3, 10^6 and 10^9 operations. {late} A line after the table names each size \
             whose rate was not reached."
        );
        Def::text("rate", "RATE", |typed, value| {
            typed.run.extensions.rate = Some(value.parse().map_err(|()| RATES)?);
            Ok(())
        })
        .explained(text)
    })
    .words(&[OptionWord::text(
        5,
        "rate",
        |all| all.rate.map(Rate::word),
        |all, word| word.parse().map(|rate| all.rate = Some(rate)).ok(),
    )]),
    run(SEND_LATENCY, |_| {
        Def::switch("legacy-sync", |typed| typed.run.sync = SyncPoint::Iteration).explained(
            "Wait for the peer over TCP before each iteration, like the legacy tools\n\n\
             Without this option, two cxidiag processes wait for each other once for each size. \
             The wait is not measured, but the system calls before each message make it slower. \
             Use this option to compare results with older ones. With a legacy peer, both sides \
             always wait before each iteration.",
        )
    }),
    results(LATENCY, |_| {
        Def::value("clock", "CLOCK", str::parse, |typed| &mut typed.clock)
            .completed_by(Completion::Words(|| {
                ClockChoice::ALL.map(|clock| clock.to_string()).to_vec()
            }))
            .explained(
                "Clock that measures: auto, tsc (x86-64), cntvct (aarch64) or monotonic-raw \
             (default: auto)\n\n\
             'tsc' is the time stamp counter, 'cntvct' the generic timer, 'monotonic-raw' \
             CLOCK_MONOTONIC_RAW of Linux. 'auto' uses the counter of the CPU if its rate is \
             constant and Linux uses it as its clock source, and CLOCK_MONOTONIC_RAW otherwise. \
             The JSON document names the clock, its frequency and its drift.",
            )
    }),
];
