//! Blocks of text after the documented table, on request: percentiles and verdicts.

use std::io::{self, Write};

use super::outcome::{SizeResult, Verdict};
use crate::measure::Percentile;
use crate::plan::expect::Expectation;
use crate::tool::Tool;

/// Marks a percentile of too few samples.
const MARK: &str = "*";

/// Writes the percentiles of each size.
pub fn percentiles(out: &mut impl Write, tool: &Tool, results: &[SizeResult]) -> io::Result<()> {
    let mut header = tool.size_column.to_owned();
    for percentile in Percentile::STANDARD {
        let title = match percentile {
            Percentile::MAX => "Max[us]".to_owned(),
            percentile => format!("{percentile}[us]"),
        };
        header += &format!("  {title:>11}");
    }
    writeln!(out, "{header}")?;
    let mut any_marked = false;
    for result in results {
        let Some(latency) = &result.latency else {
            continue;
        };
        let mut row = format!(
            "{:width$}",
            result.size_bytes,
            width = tool.size_column.len()
        );
        for value in &latency.percentiles {
            let us = format!("{}.{:03}", value.value_ns / 1000, value.value_ns % 1000);
            let mark = if value.too_few_samples { MARK } else { "" };
            row += &format!("  {us:>10}{mark:1}");
            any_marked |= value.too_few_samples;
        }
        writeln!(out, "{}", row.trim_end())?;
    }
    if any_marked {
        writeln!(
            out,
            "{MARK} fewer than ten samples lie above: it says little"
        )?;
    }
    writeln!(out, "{}", "-".repeat(header.len()))
}

/// Writes what became of each expectation, for each size.
pub fn verdicts(
    out: &mut impl Write,
    tool: &Tool,
    expectations: &[Expectation],
    verdicts: &[Verdict],
) -> io::Result<()> {
    let wide =
        |texts: &mut dyn Iterator<Item = usize>, title: &str| texts.fold(title.len(), usize::max);
    let measured: Vec<String> = verdicts
        .iter()
        .map(|verdict| {
            let of = |expectation: &&Expectation| expectation.text == verdict.expectation;
            let metric = expectations.iter().find(of).map(|found| found.metric);
            metric.map_or_else(String::new, |metric| verdict.measured_text(metric))
        })
        .collect();
    let bound = wide(
        &mut verdicts.iter().map(|of| of.expectation.len()),
        "Expected",
    );
    let figure = wide(&mut measured.iter().map(String::len), "Measured");
    let header = format!(
        "{}  {:bound$}  {:>figure$}  Verdict",
        tool.size_column, "Expected", "Measured"
    );
    writeln!(out, "{header}")?;
    for (verdict, measured) in verdicts.iter().zip(&measured) {
        writeln!(
            out,
            "{:width$}  {:bound$}  {measured:>figure$}  {}",
            verdict.size_bytes,
            verdict.expectation,
            if verdict.met { "met" } else { "not met" },
            width = tool.size_column.len(),
        )?;
    }
    writeln!(out, "{}", "-".repeat(header.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Recorder;
    use crate::plan::expect;
    use crate::report::outcome::Extent;
    use crate::tools::TOOLS;

    fn recorded(size: u64, samples: impl IntoIterator<Item = u64>) -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        samples
            .into_iter()
            .for_each(|sample| recorder.record(sample));
        SizeResult::of_latencies(size, &recorder, Extent::Complete)
    }

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn golden_percentiles() {
        let results = [
            recorded(8, (0..1_000).map(|i| 2_000 + i)),
            SizeResult::none(16),
            recorded(4_294_967_295, [123_456_789]),
        ];
        let text = written(|out| percentiles(out, &TOOLS[0], &results));
        let expected = "\
RDMA Size[B]      p50[us]      p90[us]      p99[us]    p99.9[us]   p99.99[us]      Max[us]
           8       2.499        2.899        2.989        2.998*       2.999*       2.999
  4294967295  123456.789*  123456.789*  123456.789*  123456.789*  123456.789*  123456.789
* fewer than ten samples lie above: it says little
------------------------------------------------------------------------------------------
";
        assert_eq!(text, expected);
    }

    #[test]
    fn no_mark_no_remark() {
        let results = [recorded(8, (0..100_000).map(|i| 2_000 + i % 100))];
        let text = written(|out| percentiles(out, &TOOLS[0], &results));
        assert!(!text.contains(MARK), "{text}");
    }

    #[test]
    fn golden_verdicts() {
        let list = expect::parse("p99<4us,mean<=1.5us").unwrap();
        let of = |size, at: usize, figure| Verdict::new(size, &list[at], Extent::Complete, figure);
        let all = [
            of(8, 0, Some(3999.0)),
            of(8, 1, Some(1600.5)),
            of(16, 0, None),
        ];
        let text = written(|out| verdicts(out, &TOOLS[0], &list, &all));
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
