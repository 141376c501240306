//! Text after the documented table, on request or if something disturbed the run: checked data,
//! lost CPU time, medians and verdicts.

use super::columns::Layout;
use super::noise::DISTURBED_PERCENT;
use super::outcome::{ExpectationResult, MatchCost, QueuePairResult, SizeResult};
use facts::expect::Expectation;
use facts::text::plural;
use measure::{Distribution, MeasurementError, MeasuringClock};
use page::table;
use plan::depths::{DepthKind, Row};
use plan::run_options::Side;
use plan::tool::Tool;

/// A line for each size whose rate was not reached.
pub fn missed_rates(results: &[SizeResult]) -> Vec<String> {
    let line = |result: &SizeResult| {
        let rate = result.rate.filter(|rate| !rate.is_reached)?;
        Some(format!(
            "Rate not reached at {}: {} of {} op/s, {:.1} % of starts late",
            result.row(),
            per_second(rate.reached_operations_per_s.unwrap_or(0.0)),
            per_second(rate.requested_operations_per_s),
            rate.late_starts as f64 * 100.0 / rate.starts as f64
        ))
    };
    results.iter().filter_map(line).collect()
}

/// A line for each size whose hops were compared with writes.
pub fn writes(results: &[SizeResult]) -> Vec<String> {
    let line = |result: &SizeResult| {
        let write = result.write?;
        let us = |ns: u64| ns as f64 / 1000.0;
        let order = if write.beyond_hop_ns < 0 { "less" } else { "more" };
        Some(format!(
            "Write of {} bytes: median {:.2} us, {:.2} us {order} than a hop",
            result.size_bytes,
            us(write.median_ns),
            us(write.beyond_hop_ns.unsigned_abs()),
        ))
    };
    results.iter().filter_map(line).collect()
}

/// A line for each size with fans.
pub fn fans(results: &[SizeResult]) -> Vec<String> {
    let line = |result: &SizeResult| {
        let fan = result.fan?;
        let us = |ns: u64| ns as f64 / 1000.0;
        let rate = |rate: f64| format!(" ({:.2} Mop/s)", rate / 1e6);
        Some(format!(
            "Fan at {}: first arrival after {:.2} us, last {:.2} us later{}",
            result.row(),
            us(fan.first_ns),
            us(fan.span_ns),
            fan.operations_per_s.map(rate).unwrap_or_default(),
        ))
    };
    results.iter().filter_map(line).collect()
}

/// Returns what an entry takes on the list that a range of depths makes longer, if there is one.
pub fn walk(depth: Option<DepthKind>, walk: Option<&MatchCost>) -> Option<String> {
    let (depth, walk) = depth.zip(walk)?;
    let what = match depth {
        DepthKind::Posted => "Posted entry",
        DepthKind::Unexpected => "Unexpected message",
    };
    let (ns, rows, us) = (walk.entry_ns, walk.rows, walk.farthest_ns / 1000.0);
    Some(if walk.is_shown {
        format!(
            "{what}: {ns:.2} ns each (slope of {rows} medians, which are within {us:.2} us of the \
             line)"
        )
    } else {
        format!("{what}: time not known ({rows} medians are up to {us:.2} us off a line)")
    })
}

/// Returns for how much of the time of a size the measuring thread waited for a CPU: of the worst
/// of these rows, each with its part in percent. `None` without any.
pub fn waits_for_cpu(waits: &[(Row, f64)]) -> Option<String> {
    let (row, percent) = waits.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let others = match waits.len() {
        1 => String::new(),
        sizes => format!(" ({sizes} sizes above {DISTURBED_PERCENT} %)"),
    };
    Some(format!("CPU taken away for {percent:.0} % of the time at {row}{others}; see --cpu"))
}

/// A number of operations per second, with decimals if it is small.
fn per_second(operations: f64) -> String {
    let decimals = if operations < 100.0 { 2 } else { 0 };
    format!("{operations:.decimals$}")
}

/// Returns of how many sizes the data of the last operations was checked, if of any.
pub fn verified(sizes: usize) -> Option<String> {
    let text = format!("{sizes} size{}, data of the last operations correct", plural(sizes));
    (sizes > 0).then(|| format!("Verified: {text}"))
}

/// The median of each size with its confidence interval, or that it is unstable.
pub fn medians(tool: &Tool, results: &[SizeResult]) -> Vec<String> {
    let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
    let row = |result: &SizeResult| {
        let latency = result.latency.as_ref()?;
        let median = latency.percentiles.first()?;
        let interval = latency.median_low_ns.zip(latency.median_high_ns);
        Some(vec![
            result.row().cell(),
            match latency.median_is_stable {
                Some(true) => us(median.value_ns),
                Some(false) => "unstable".into(),
                None => "-".into(),
            },
            interval.map_or("-".into(), |(low, high)| format!("{} to {}", us(low), us(high))),
            result.count.to_string(),
        ])
    };
    let rows = results.iter().filter_map(row).collect();
    table(tool, &[">Median[us]", ">95% interval[us]", ">Samples"], rows)
}

/// The slowest pair of queues of each size, if there are several.
pub fn slowest_pairs(layout: Layout, results: &[SizeResult]) -> Vec<String> {
    let rates = ["BW", "Mean of pairs"].map(|what| format!(">{what}[{}]", layout.unit));
    let titles = [">Pairs", ">Slowest pair", &rates[0], &rates[1]];
    let rows: Vec<_> = results
        .iter()
        .filter_map(|result| {
            let pairs = result.bandwidth.as_ref()?.pairs.as_ref()?;
            let rate = |pair: &QueuePairResult| pair.bandwidth_bytes_per_s;
            let slowest = pairs.iter().min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
            let mean = pairs.iter().map(rate).sum::<f64>() / pairs.len() as f64;
            Some(vec![
                result.row().cell(),
                pairs.len().to_string(),
                slowest.pair.to_string(),
                layout.unit.text(rate(slowest)),
                layout.unit.text(mean),
            ])
        })
        .collect();
    table(layout.tool, &titles, rows)
}

/// Each side's own view of each size, if the sides have exchanged them; `side` reports.
pub fn both_ends(layout: Layout, side: Side, results: &[SizeResult]) -> Vec<String> {
    let rates = ["Issued", "Arrived"].map(|what| format!(">{what}[{}]", layout.unit));
    let titles = [">Side", ">Issued", ">Arrived", ">Time[s]", &rates[0], &rates[1], ">CPU[%]"];
    let names = match side {
        Side::Client => ["client", "server"],
        Side::Server => ["server", "client"],
    };
    let mut rows = Vec::new();
    for result in results {
        let Some(bandwidth) = &result.bandwidth else {
            continue;
        };
        let views = [bandwidth.own_view, bandwidth.peer_view];
        for (name, view) in names.iter().zip(views) {
            let Some(view) = view else { continue };
            let elapsed = view.elapsed_us.max(1) as f64;
            let size = result.size_bytes as f64;
            let rate = |count: u64| layout.unit.text(count as f64 * size / elapsed * 1e6);
            rows.push(vec![
                result.row().cell(),
                (*name).to_owned(),
                view.issued.to_string(),
                view.arrived.map_or("-".into(), |count| count.to_string()),
                format!("{:.3}", elapsed / 1e6),
                rate(view.issued),
                view.arrived.map_or("-".into(), rate),
                format!("{:.1}", 100.0 * view.cpu_us as f64 / elapsed),
            ]);
        }
    }
    table(layout.tool, &titles, rows)
}

/// Returns what the tool itself adds to a latency, in one line.
pub fn own_error(clock: &MeasuringClock, error: &MeasurementError) -> String {
    let text = |name, distribution: Distribution| {
        format!(
            "{name} {} ({} to {})",
            distribution.p50_ns, distribution.min_ns, distribution.p99_ns
        )
    };
    let drift = clock.drift_ppm.map(|ppm| format!(", drift {ppm:.1} ppm")).unwrap_or_default();
    format!(
        "Own error in ns, p50 (min to p99): {}, {}, {}, {}; {}{drift}",
        text("clock", error.clock),
        text("issue", error.issue),
        text("poll", error.poll),
        text("issue and poll", error.path),
        clock.name,
    )
}

/// Returns for each size which expectations it meets.
pub fn verdicts(
    tool: &Tool,
    expectations: &[Expectation],
    verdicts: &[ExpectationResult],
) -> Vec<String> {
    let rows = verdicts.iter().map(|verdict| {
        let is_match = |expectation: &&Expectation| expectation.text == verdict.expectation;
        let metric = expectations.iter().find(is_match).map(|found| found.metric);
        vec![
            verdict.row().cell(),
            verdict.expectation.clone(),
            metric.map_or_else(String::new, |metric| verdict.measured_text(metric)),
            if verdict.met { "met" } else { "not met" }.into(),
        ]
    });
    table(tool, &["Expected", ">Measured", "Verdict"], rows.collect())
}

/// The table of these rows, which begin with a size, and the line below it, if there are any rows.
fn table(tool: &Tool, titles: &[&str], rows: Vec<Vec<String>>) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let size = format!(">{}", tool.size_column);
    let mut lines = table::lines(&[&[size.as_str()][..], titles].concat(), rows);
    lines.push("-".repeat(lines[0].len()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Detail, Extent, FanResult};
    use facts::expect;
    use facts::rate::{KeptSchedule, Rate};
    use measure::{Rates, Recorder, SideResult, Until};
    use plan::tools::TOOLS;

    fn recorded(size: u64, samples: impl IntoIterator<Item = u64>) -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        let detail = Detail {
            own_spread_ns: Some(5),
            until: Some(Until { percent: 1.0 }),
            ..Detail::default()
        };
        SizeResult::from_latencies(size, &recorder, Extent::Complete, detail)
    }

    #[test]
    fn names_the_size_that_waited_longest_for_a_cpu() {
        let text = |waits: &[(u64, f64)]| {
            let row = |size| Row { size, ..Row::default() };
            let waits: Vec<_> = waits.iter().map(|(size, part)| (row(*size), *part)).collect();
            waits_for_cpu(&waits).unwrap_or_default()
        };
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[(8, 83.6)]), "CPU taken away for 84 % of the time at 8 bytes; see --cpu");
        assert_eq!(
            text(&[(8, 5.1), (16, 40.2)]),
            "CPU taken away for 40 % of the time at 16 bytes (2 sizes above 5 %); see --cpu"
        );
    }

    #[test]
    fn says_whether_a_write_takes_more_or_less_than_a_hop() {
        let text = |write_ns| {
            let result = recorded(8, [1000, 1000, 1000]).with_write(write_ns);
            written(writes(std::slice::from_ref(&result)))
        };
        assert_eq!(text(1980), "Write of 8 bytes: median 1.98 us, 0.98 us more than a hop\n");
        assert_eq!(text(250), "Write of 8 bytes: median 0.25 us, 0.75 us less than a hop\n");
    }

    #[test]
    fn names_first_and_last_arrival_of_a_fan() {
        let text = |span_ns| {
            let fan = FanResult::new(65, 2040, span_ns);
            let result = SizeResult { fan: Some(fan), ..recorded(8, [9]) };
            written(fans(std::slice::from_ref(&result)))
        };
        let start = "Fan at 8 bytes: first arrival after 2.04 us, last ";
        assert_eq!(text(2560), format!("{start}2.56 us later (25.00 Mop/s)\n"));
        assert_eq!(text(0), format!("{start}0.00 us later\n"));
    }

    #[test]
    fn names_the_time_of_an_entry() {
        let result = MatchCost { entry_ns: 5.018, rows: 14, farthest_ns: 312.0, is_shown: true };
        let text = |depth, result| written(walk(depth, result));
        assert_eq!(
            text(Some(DepthKind::Posted), Some(&result)),
            "Posted entry: 5.02 ns each (slope of 14 medians, which are within 0.31 us of the line)\n"
        );
        let hidden = MatchCost { is_shown: false, ..result };
        assert_eq!(
            text(Some(DepthKind::Unexpected), Some(&hidden)),
            "Unexpected message: time not known (14 medians are up to 0.31 us off a line)\n"
        );
        assert_eq!(text(Some(DepthKind::Unexpected), None), "");
    }

    #[test]
    fn names_slowest_pair() {
        let sides = |elapsed_us| {
            let own = SideResult { elapsed_us, count: 100 };
            let sides = [own, SideResult::default()];
            (sides, Rates::of(1000, sides, false))
        };
        let pairs = QueuePairResult::of(&[sides(100), sides(400), sides(200)]);
        let mut result = SizeResult::from_lists(
            1000,
            [SideResult::default(); 2],
            Rates::of(1000, [SideResult::default(); 2], false),
            Extent::Complete,
        );
        result.bandwidth.as_mut().unwrap().pairs = Some(pairs);
        let tool = TOOLS.iter().find(|tool| tool.name == "write-bw").unwrap();
        let text = written(slowest_pairs(Layout::of(tool), &[result]));
        let words: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words, ["1000", "3", "1", "250.00", "583.33"]);
    }

    fn written(lines: impl IntoIterator<Item = String>) -> String {
        lines.into_iter().map(|line| line + "\n").collect()
    }

    #[test]
    fn prints_rates_that_were_not_reached() {
        let kept =
            |late, per_second| KeptSchedule { starts: 101, late, per_second: Some(per_second) };
        let result = |size, rate, kept| recorded(size, [2_000]).with_rate(rate, 1, kept);
        let (slow, fast) = (Rate::Bytes(4), Rate::Operations(1_000_000));
        let results = [
            result(8, fast, kept(100, 400_000.0)),
            result(16, fast, kept(3, 995_000.0)),
            result(64, fast, kept(0, 980_000.0)),
            recorded(32, [2_000]),
            result(8, slow, kept(50, 0.4)),
        ];
        let text = written(missed_rates(&results));
        let expected = "\
Rate not reached at 8 bytes: 400000 of 1000000 op/s, 99.0 % of starts late
Rate not reached at 8 bytes: 0.40 of 0.50 op/s, 49.5 % of starts late
";
        assert_eq!(text, expected);
    }

    #[test]
    fn prints_number_of_verified_sizes() {
        let texts = [0, 1, 3].map(|sizes| written(verified(sizes)));
        let expected = [
            "",
            "Verified: 1 size, data of the last operations correct\n",
            "Verified: 3 sizes, data of the last operations correct\n",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn prints_medians_or_that_they_are_unstable() {
        let results = [
            recorded(8, (0..10_000).map(|i| 2_000 + i % 10)),
            recorded(16, (0..1_000).map(|i| 2_000 + i % 2 * 1_000)),
            recorded(32, [2_000]),
            SizeResult::none(64),
        ];
        let text = written(medians(&TOOLS[0], &results));
        let expected = "\
RDMA Size[B]  Median[us]  95% interval[us]  Samples
           8       2.004    2.004 to 2.005    10000
          16    unstable    2.000 to 3.000     1000
          32    unstable                 -        1
---------------------------------------------------
";
        assert_eq!(text, expected);
    }

    #[test]
    fn prints_own_error_in_one_line() {
        let distribution = |p50_ns| Distribution {
            count: 4096,
            min_ns: p50_ns - 1,
            p50_ns,
            p99_ns: p50_ns + 3,
            max_ns: 40_000,
        };
        let error = MeasurementError {
            clock: distribution(13),
            issue: distribution(41),
            poll: distribution(22),
            path: distribution(60),
            granularity_ns: 1,
            spread_ns: 4,
        };
        let mut clock = MeasuringClock {
            name: "TSC".into(),
            resolution_ns: 1,
            frequency_hz: Some(2.6e9),
            drift_ppm: Some(-0.14),
        };
        let text = written([own_error(&clock, &error)]);
        assert_eq!(
            text,
            "Own error in ns, p50 (min to p99): clock 13 (12 to 16), issue 41 (40 to 44), \
             poll 22 (21 to 25), issue and poll 60 (59 to 63); TSC, drift -0.1 ppm\n"
        );
        clock.drift_ppm = None;
        let text = written([own_error(&clock, &error)]);
        assert!(text.ends_with("; TSC\n"), "{text}");
    }

    #[test]
    fn prints_verdicts() {
        let list = expect::parse("p99<4us,mean<=1.5us", false).unwrap();
        let result = |size, at: usize, figure| {
            let row = Row { size, ..Row::default() };
            ExpectationResult::new(row, &list[at], Extent::Complete, figure)
        };
        let all = [result(8, 0, Some(3999.0)), result(8, 1, Some(1600.5)), result(16, 0, None)];
        let text = written(verdicts(&TOOLS[0], &list, &all));
        let expected = "\
RDMA Size[B]  Expected     Measured  Verdict
           8  p99<4us       3.999us  met
           8  mean<=1.5us   1.601us  not met
          16  p99<4us             -  not met
--------------------------------------------
";
        assert_eq!(text, expected);
    }
}
