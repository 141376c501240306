//! The table of the legacy bandwidth tools, and their lines of the summary block, column for
//! column as the user's documents show them (tools.md 9). Both sides print both.

use std::io::{self, Write};

use super::text::{self, line, separator};
use crate::error::Failure;
use crate::measure::Rates;
use crate::run_options::{ListOptions, Setting};
use crate::tool::Tool;

/// The lines of the summary block between IDC and Hugepages.
/// A buffer takes `used` bytes.
pub(super) fn lists(out: &mut impl Write, lists: ListOptions, used: u64) -> io::Result<()> {
    line(out, "Bidirectional", Setting::from(lists.bidirectional))?;
    line(
        out,
        "Max RDMA Buf",
        format_args!("{} ({used} used)", lists.max_buffer),
    )?;
    line(out, "RDMA Buf Align", lists.alignment)
}

/// The header of the table.
pub(super) fn header(tool: &Tool) -> String {
    format!(
        "{}  {:>10}  {:>8}  {:>15}",
        tool.size_column, tool.operations, "BW[MB/s]", "PktRate[Mpkt/s]"
    )
}

/// Writes what stands before the first size.
pub fn begin(out: &mut impl Write, tool: &Tool) -> io::Result<()> {
    separator(out, tool)?;
    writeln!(out, "{}", header(tool))?;
    out.flush()
}

/// Writes the result for `size` bytes; `count` is what this side sent, if it sends.
pub fn result(
    out: &mut impl Write,
    tool: &Tool,
    size: u64,
    count: Option<u64>,
    rates: Rates,
) -> io::Result<()> {
    let count = count.map_or("-".into(), |count| count.to_string());
    writeln!(
        out,
        "{size:width$}  {count:>10}  {:8.2}  {:15.6}",
        rates.megabytes,
        rates.megapackets,
        width = tool.size_column.len(),
    )?;
    // Into a pipe as well: whoever follows a long run sees each size when it is done.
    out.flush()
}

/// Writes what stands below a table that a failure has cut short. `one_sided` if its last row
/// should have the sum of both directions, but the peer's figures are missing.
pub fn cut_short(
    out: &mut impl Write,
    tool: &Tool,
    failure: &Failure,
    one_sided: bool,
) -> io::Result<()> {
    let but = match one_sided {
        true => " (last line: this side's sends alone)",
        false => "",
    };
    text::cut_short(out, tool, failure, but)
}

/// Writes what stands after the last size.
pub fn end(out: &mut impl Write, tool: &Tool) -> io::Result<()> {
    separator(out, tool)?;
    out.flush()
}
