//! Blocks of text after the documented table, on request: percentiles and verdicts.

use std::io::{self, Write};

use super::columns::{self, MARK, Table};
use super::outcome::{SizeResult, Verdict};
use super::table::{self, Align};
use crate::plan::expect::Expectation;
use crate::tool::Tool;

/// Writes the percentiles of each size.
///
/// # Errors
///
/// `out` cannot be written.
pub fn percentiles(out: &mut impl Write, tool: &Tool, results: &[SizeResult]) -> io::Result<()> {
    let header = columns::header(tool, Table::Percentiles);
    writeln!(out, "{header}")?;
    let mut any_marked = false;
    for result in results.iter().filter(|result| result.latency.is_some()) {
        let row = columns::row(tool, Table::Percentiles, result, None);
        any_marked |= row.contains(MARK);
        writeln!(out, "{row}")?;
    }
    if any_marked {
        writeln!(
            out,
            "{MARK} fewer than 10 samples above this percentile: unreliable"
        )?;
    }
    writeln!(out, "{}", "-".repeat(header.len()))
}

/// Writes for each size which expectations it meets.
///
/// # Errors
///
/// `out` cannot be written.
pub fn verdicts(
    out: &mut impl Write,
    tool: &Tool,
    expectations: &[Expectation],
    verdicts: &[Verdict],
) -> io::Result<()> {
    let titles = [tool.size_column, "Expected", "Measured", "Verdict"].map(String::from);
    let rows = verdicts.iter().map(|verdict| {
        let of = |expectation: &&Expectation| expectation.text == verdict.expectation;
        let metric = expectations.iter().find(of).map(|found| found.metric);
        vec![
            verdict.size_bytes.to_string(),
            verdict.expectation.clone(),
            metric.map_or_else(String::new, |metric| verdict.measured_text(metric)),
            if verdict.met { "met" } else { "not met" }.into(),
        ]
    });
    let rows = std::iter::once(titles.to_vec()).chain(rows);
    let align = [Align::Right, Align::Left, Align::Right, Align::Left];
    let lines = table::lines(rows, &align);
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{}", "-".repeat(lines[0].len()))
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
    fn prints_percentiles() {
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
* fewer than 10 samples above this percentile: unreliable
------------------------------------------------------------------------------------------
";
        assert_eq!(text, expected);
    }

    #[test]
    fn explains_the_mark_only_if_used() {
        let results = [recorded(8, (0..100_000).map(|i| 2_000 + i % 100))];
        let text = written(|out| percentiles(out, &TOOLS[0], &results));
        assert!(!text.contains(MARK), "{text}");
    }

    #[test]
    fn prints_verdicts() {
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
