//! Text about the distribution of latencies, on request: the block of percentiles after the table
//! of results, and the picture of a histogram in a terminal (`--histogram`).

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::{env, iter};

use facts::percentile::Percentile;
use page::table::{self, WIDTH};
use plan::tool::Tool;
use rustix::termios::tcgetwinsize;

use crate::bins::{Joined, joined};
use crate::outcome::{LatencyResult, PercentileValue, SizeResult};

/// Marks a percentile of too few samples.
const FEW_SAMPLES: char = '*';

/// Marks a percentile that differs from the one before it by less than the spread of the tool.
const OWN_SPREAD: char = '~';

/// One percentile: its title, and its cell for each size, with the mark if any cell has one.
struct PercentileColumn {
    width: usize,
    title: String,
    cells: Vec<String>,
}

/// Returns `percentiles` of each size that has latencies, as lines. `own_spread` marks those that
/// the tool cannot distinguish.
pub fn percentile_lines(
    tool: &Tool,
    results: &[SizeResult],
    percentiles: &[Percentile],
    own_spread: bool,
) -> Vec<String> {
    let measured: Vec<_> = results.iter().filter(|result| result.latency.is_some()).collect();
    let columns: Vec<PercentileColumn> =
        percentiles.iter().map(|percentile| column(*percentile, &measured, own_spread)).collect();
    let sizes: Vec<String> = measured.iter().map(|result| result.row().cell()).collect();
    let sizes = PercentileColumn {
        width: sizes.iter().map(String::len).max().unwrap_or(0).max(tool.size_column.len()),
        title: tool.size_column.to_owned(),
        cells: sizes,
    };
    let (mut lines, mut widest) = (Vec::new(), 0);
    for columns in tables(&columns, sizes.width) {
        let line = |text: &dyn Fn(&PercentileColumn) -> String| {
            let cell = |column| format!("{:>width$}", text(column), width = column.width);
            let cells = iter::once(&sizes).chain(columns).map(cell);
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let header = line(&|column| column.title.clone());
        widest = widest.max(header.len());
        lines.push(header);
        lines.extend((0..measured.len()).map(|row| line(&|column| column.cells[row].clone())));
    }
    for (mark, meaning) in [
        (FEW_SAMPLES, "fewer than 10 samples above this percentile: unreliable"),
        (OWN_SPREAD, "differs from the percentile before it by less than the spread of the tool"),
    ] {
        let mut cells = columns.iter().flat_map(|column| &column.cells);
        if cells.any(|cell| cell.ends_with(mark)) {
            lines.push(format!("{mark} {meaning}"));
        }
    }
    lines.push("-".repeat(widest));
    lines
}

fn column(percentile: Percentile, measured: &[&SizeResult], own_spread: bool) -> PercentileColumn {
    let name =
        if percentile == Percentile::MAX { "Max".to_owned() } else { percentile.to_string() };
    let value = |result: &&SizeResult| {
        let mut values = result.latency.iter().flat_map(|latency| &latency.percentiles);
        let found = values.find(|value| value.percent == percentile.percent());
        found.map_or(("-".to_owned(), ' '), |value| {
            let us = format!("{}.{:03}", value.value_ns / 1000, value.value_ns % 1000);
            (us, mark(value, own_spread))
        })
    };
    let values: Vec<(String, char)> = measured.iter().map(value).collect();
    let has_mark = values.iter().any(|(_, mark)| *mark != ' ');
    let with_mark = |(text, mark): (String, char)| {
        if has_mark { format!("{text}{mark}") } else { text }
    };
    let title = with_mark((format!("{name}[us]"), ' '));
    let cells: Vec<String> = values.into_iter().map(with_mark).collect();
    let widths = cells.iter().chain([&title]).map(String::len);
    PercentileColumn { width: widths.max().unwrap_or_default(), title, cells }
}

fn mark(value: &PercentileValue, own_spread: bool) -> char {
    if value.too_few_samples {
        FEW_SAMPLES
    } else if own_spread && value.within_own_spread == Some(true) {
        OWN_SPREAD
    } else {
        ' '
    }
}

/// Divides the columns into tables that fit a terminal, each with the column of sizes before it.
fn tables(columns: &[PercentileColumn], size_width: usize) -> Vec<&[PercentileColumn]> {
    let mut tables = Vec::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut width = size_width;
        let fits = rest.iter().take_while(|column| {
            width += 2 + column.width;
            width <= WIDTH
        });
        let (table, others) = rest.split_at(fits.count().max(1));
        tables.push(table);
        rest = others;
    }
    tables
}

/// Most lines of a picture that are bins, so that a picture fits a screen.
const MOST_LINES: usize = 24;

/// Width of the text where it does not go to a terminal.
const DEFAULT_WIDTH: usize = 80;

/// Least width of the bars.
const LEAST_BAR: usize = 10;

/// Parts of a character that bars are drawn with: one eighth to eight eighths.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// How a picture is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Width in characters.
    pub width: usize,
    /// Whether bars consist of block characters, and not of ASCII.
    pub is_unicode: bool,
}

impl Style {
    /// The style for a text on standard output, or on standard error.
    pub fn for_output(on_standard_error: bool) -> Self {
        let width = if on_standard_error { width_of(io::stderr()) } else { width_of(io::stdout()) };
        Self {
            width: width.unwrap_or(DEFAULT_WIDTH),
            is_unicode: is_utf8(|name| env::var(name).ok()),
        }
    }
}

/// The columns of a terminal. `None` if the stream is not a terminal, or the terminal has no size.
fn width_of(stream: impl AsFd + IsTerminal) -> Option<usize> {
    let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok())??;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Whether the environment asks for UTF-8: the first variable that is set and not empty decides.
fn is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name| variable(name).filter(|value: &String| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

pub fn histogram_lines(results: &[SizeResult], style: Style) -> Vec<String> {
    let (mut lines, mut widest) = (Vec::new(), 0);
    for result in results {
        let Some(latency) = &result.latency else {
            continue;
        };
        let Some(bins) = &latency.histogram else {
            continue;
        };
        let samples = match result.count {
            1 => "1 sample".into(),
            count => format!("{count} samples"),
        };
        lines.push(format!("Histogram of {}, {samples}", result.row()));
        let picture = picture(latency, &joined(bins, MOST_LINES), style);
        widest = picture.iter().map(|line| line.chars().count()).fold(widest, usize::max);
        lines.extend(picture);
    }
    lines.extend((widest > 0).then(|| "-".repeat(widest)));
    lines
}

/// The lines of a picture, with their titles. One line stands for any number of empty bins.
fn picture(latency: &LatencyResult, bins: &[Joined], style: Style) -> Vec<String> {
    let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
    let row = |bin: &Joined| [us(bin.from_ns), bin.count.to_string(), marks(latency, bin)];
    let titles = [">From[us]", ">Samples", "", ""];
    let mut rows = Vec::new();
    let mut counts = Vec::new();
    for (at, bin) in bins.iter().enumerate() {
        if bin.count > 0 {
            rows.push(row(bin));
            counts.push(bin.count);
        } else if bins[at - 1].count > 0 {
            rows.push(["...", "", ""].map(String::from));
            counts.push(0);
        }
    }
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].len());
        widths.fold(table::title(titles[column]).0.len(), usize::max)
    };
    let taken: usize = (0..3).map(width).sum::<usize>() + 3 * 2;
    let bar_width = style.width.saturating_sub(taken).max(LEAST_BAR);
    let most = counts.iter().copied().max().unwrap_or(0);
    let cells = rows.into_iter().zip(&counts).map(|(row, count)| {
        let [from, count_text, marks] = row;
        let bar = bar(*count, most, bar_width, style.is_unicode);
        vec![from, count_text, bar, marks]
    });
    table::lines(&titles, cells.collect())
}

/// The names of the percentiles in a bin.
fn marks(latency: &LatencyResult, bin: &Joined) -> String {
    let is_inside = |ns: u64| (bin.from_ns..bin.to_ns).contains(&ns.max(1));
    let inside = latency.percentiles.iter().filter(|percentile| is_inside(percentile.value_ns));
    let names = inside.map(|value| match value.percent {
        100.0 => "max".to_owned(),
        percent => format!("p{percent}"),
    });
    names.collect::<Vec<_>>().join(" ")
}

/// A bar whose length is proportional to `count`. Each sample is visible.
fn bar(count: u64, most: u64, width: usize, is_unicode: bool) -> String {
    let share = |parts: usize| {
        let length = (count as f64 / most as f64 * parts as f64).round() as usize;
        length.max(usize::from(count > 0))
    };
    if count == 0 {
        String::new()
    } else if is_unicode {
        let eighths = share(width * 8);
        let part = (eighths % 8).checked_sub(1).map(|part| EIGHTHS[part]);
        let whole = iter::repeat_n(EIGHTHS[7], eighths / 8);
        whole.chain(part).collect()
    } else {
        "#".repeat(share(width))
    }
}

#[cfg(test)]
mod tests {
    use measure::Recorder;
    use plan::tools::TOOLS;

    use super::*;
    use crate::outcome::{Detail, Extent};

    fn recorded(size: u64, samples: impl IntoIterator<Item = u64>) -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        SizeResult::from_latencies(
            size,
            &recorder,
            Extent::Complete,
            Detail { own_spread_ns: Some(5), ..Detail::default() },
        )
    }

    fn written(results: &[SizeResult], percentiles: &[Percentile], own_spread: bool) -> String {
        let lines = percentile_lines(&TOOLS[0], results, percentiles, own_spread);
        lines.into_iter().map(|line| line + "\n").collect()
    }

    #[test]
    fn prints_columns_as_wide_as_their_cells() {
        let results = [
            recorded(8, (0..1_000).map(|i| 2_000 + i)),
            SizeResult::none(16),
            recorded(4_294_967_295, [1_456_789]),
        ];
        let expected = "\
RDMA Size[B]   p50[us]    p90[us]    p99[us]   p99.9[us]   p99.99[us]    Max[us]
           8     2.499      2.899      2.989       2.998*       2.999*     2.999
  4294967295  1456.789*  1456.789*  1456.789*   1456.789*    1456.789*  1456.789
* fewer than 10 samples above this percentile: unreliable
--------------------------------------------------------------------------------
";
        let text = written(&results, &Percentile::STANDARD, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn continues_in_a_further_table_beyond_80_columns() {
        let samples = (0..1_000_000).map(|i| 1_000_000_000 + i);
        let expected = "\
RDMA Size[B]      p50[us]      p90[us]      p99[us]    p99.9[us]   p99.99[us]
           8  1000505.343  1000931.327  1000996.863  1000999.999  1000999.999
RDMA Size[B]      Max[us]
           8  1000999.999
-----------------------------------------------------------------------------
";
        let text = written(&[recorded(8, samples)], &Percentile::STANDARD, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn shows_no_value_of_a_percentile_without_one() {
        let percentiles = ["95", "50"].map(|name| name.parse().unwrap());
        let expected = "\
RDMA Size[B]  p95[us]  p50[us]
           8        -    2.000*
* fewer than 10 samples above this percentile: unreliable
------------------------------
";
        let text = written(&[recorded(8, [2_000])], &percentiles, false);
        assert_eq!(text, expected);
    }

    #[test]
    fn marks_percentiles_within_spread_of_the_tool() {
        // 2000 to 2499 ns, and 1 % of the samples at 2,600 ns.
        let samples = (0..100_000).map(|i| if i < 99_000 { 2_000 + i % 500 } else { 2_600 });
        let expected = "\
RDMA Size[B]  p50[us]  p90[us]  p99[us]  p99.9[us]  p99.99[us]   Max[us]
           8    2.252    2.454    2.499      2.600       2.600~    2.600~
~ differs from the percentile before it by less than the spread of the tool
------------------------------------------------------------------------
";
        let text = written(&[recorded(8, samples)], &Percentile::STANDARD, true);
        assert_eq!(text, expected);
    }

    #[test]
    fn explains_a_mark_only_if_used() {
        let results = [recorded(8, (0..100_000).map(|i| 2_000 + i % 100))];
        let text = written(&results, &Percentile::STANDARD, false);
        assert!(!text.contains([FEW_SAMPLES, OWN_SPREAD]), "{text}");
    }

    fn recorded_samples(samples: impl IntoIterator<Item = u64>) -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        samples.into_iter().for_each(|sample| recorder.record(sample));
        let detail = Detail { histogram: true, ..Detail::default() };
        SizeResult::from_latencies(8, &recorder, Extent::Complete, detail)
    }

    fn drawn(result: SizeResult, width: usize, is_unicode: bool) -> String {
        let style = Style { width, is_unicode };
        histogram_lines(&[result], style).into_iter().map(|line| line + "\n").collect()
    }

    /// 1,000 samples at 2 us, 200 at 3 us, one at 50 us.
    fn two_peaks() -> SizeResult {
        let samples = (0..1_201).map(|at| match at {
            0..1_000 => 2_000,
            1_000..1_200 => 3_000,
            _ => 50_000,
        });
        recorded_samples(samples)
    }

    #[test]
    fn draws_bins_with_counts_and_percentiles() {
        let expected = "\
Histogram of 8 bytes, 1201 samples
From[us]  Samples
   1.983     1000  ███████████████████████████  p50
     ...
   2.992      200  █████▍                       p90 p99 p99.9
     ...
  49.991        1  ▏                            p99.99 max
-------------------------------------------------------------
";
        let text = drawn(two_peaks(), 61, true);
        assert_eq!(text, expected);
    }

    #[test]
    fn draws_ascii_without_utf8() {
        let text = drawn(two_peaks(), 61, false);
        assert!(text.is_ascii(), "{text}");
        let bars: Vec<usize> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars, [0, 0, 27, 0, 5, 0, 1, 0]);
    }

    #[test]
    fn fits_width() {
        for width in [50, 80, 132] {
            let text = drawn(two_peaks(), width, true);
            let line = |at| text.lines().nth(at).map(|line: &str| line.chars().count());
            // The columns of counts and marks, and the spaces between, are as wide everywhere.
            assert_eq!(line(2), Some(width - "p99.9".len() - " p99".len() - " ".len()), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn joins_bins_to_fit_a_screen() {
        let result = recorded_samples((0..100_000).map(|at| 1 + at * at));
        let latency = result.latency.unwrap();
        let bins = latency.histogram.unwrap();
        let joined = joined(&bins, MOST_LINES);
        let used = joined.iter().filter(|bin| bin.count > 0).count();
        assert!((MOST_LINES / 2..=MOST_LINES).contains(&used), "{used}");
        assert_eq!(joined.iter().map(|bin| bin.count).sum::<u64>(), 100_000);
        assert!(joined.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
        assert!(joined[0].from_ns <= latency.min_ns);
        assert!(joined.last().unwrap().to_ns > latency.max_ns);
    }

    #[test]
    fn first_variable_of_locale_decides() {
        let is_utf8 = |set: &[(&str, &str)]| {
            is_utf8(|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(is_utf8(&[("LANG", "en_US.UTF-8")]));
        assert!(is_utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8"), ("LANG", "C")]));
        assert!(!is_utf8(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!is_utf8(&[]));
    }
}
