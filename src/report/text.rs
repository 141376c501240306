//! The text of the legacy latency tools: summary block and tables, line for line and column for
//! column as the user's documents show them (tools.md 9).
//!
//! Everything is written to a `Write` and its errors are returned: a reader that goes away early
//! (`cxidiag ... | head`) ends the program quietly, see `error::Kind::OutputClosed`.

use std::io::{self, BufWriter, Write};

use super::{bandwidth, buffers};
use crate::device::DeviceName;
use crate::device::FabricAddress;
use crate::endpoint::LocalAddress;
use crate::error::{Failure, Kind};
use crate::gpu::OnGpus;
use crate::measure::Statistics;
use crate::plan::buffers::Need;
use crate::run_options::{RunOptions, Setting, Side};
use crate::tool::{Opt, Tool};

/// Bytes of lines that are written together.
const LINES: usize = 1 << 16;

/// What the summary block says.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The benchmark.
    pub tool: &'a Tool,
    /// Who prints.
    pub side: Side,
    /// LocalAddress device.
    pub device: DeviceName,
    /// The device says that it is made of software.
    pub simulated: bool,
    /// LocalAddress service.
    pub svc_id: u32,
    /// The options of the run, which are the client's.
    pub run: &'a RunOptions,
    /// LocalAddress address.
    pub own: LocalAddress,
    /// FabricAddress of the peer.
    pub peer: FabricAddress,
    /// Where the peer's buffers lie.
    pub peer_gpus: OnGpus,
    /// GPUs that this side has found, if its buffers lie on some.
    pub gpu_count: u32,
    /// The CPUs that this thread is confined to, if it is.
    pub cpus: &'a [u32],
}

/// Writes the summary block, from its opening separator to its last line.
pub fn summary(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary {
        tool,
        run,
        own,
        peer,
        ..
    } = summary;
    let (here, there) = match summary.side {
        Side::Server => ("server", "client"),
        Side::Client => ("client", "server"),
    };
    let need = Need::of(tool, run, &[summary.side], own.gpus);
    separator(out, tool)?;
    writeln!(out, "    {}", tool.title)?;
    line(out, "Device", summary.device)?;
    line(out, "Service ID", summary.svc_id)?;
    let has_buffers = tool.takes(Opt::Size);
    if has_buffers {
        buffers::lines(out, summary)?;
    }
    match run.duration_s {
        Some(seconds) => {
            line(out, "Test Type", "Duration")?;
            line(out, "Duration", format_args!("{seconds} seconds"))?;
        }
        None => {
            line(out, "Test Type", "Iteration")?;
            line(out, "Iterations", run.iters)?;
        }
    }
    if tool.takes(Opt::Warmup) {
        line(out, "Warmup Iters", run.warmup)?;
        let gap = format_args!("{} microseconds", run.gap_us);
        line(out, "Inter-Iter Gap", gap)?;
    }
    if let Some(atomic) = run.atomic {
        let fetching = if atomic.fetching {
            "FETCHING"
        } else {
            "NON-FETCHING"
        };
        line(
            out,
            "Atomic Op",
            format_args!("{fetching} {}", atomic.operation()),
        )?;
        line(out, "Atomic Type", atomic.ty)?;
    } else if run.min_size == run.max_size {
        line(out, &format!("{} Size", tool.operation), run.min_size)?;
    } else {
        line(out, &format!("Min {} Size", tool.operation), run.min_size)?;
        line(out, &format!("Max {} Size", tool.operation), run.max_size)?;
    }
    if let Some(lists) = run.lists {
        line(out, "List Size", lists.list_size)?;
    }
    if tool.takes(Opt::NoIdc) {
        line(out, "IDC", run.idc())?;
    }
    if let Some(atomic) = run.atomic {
        line(out, "Matching LEs", Setting::from(atomic.matching))?;
        line(out, "Restricted", run.restricted())?;
    }
    if tool.takes(Opt::NoLl) {
        line(out, "LL Cmd Launch", Setting::from(run.use_ll))?;
    }
    if tool.takes(Opt::ReportAll) {
        let reported = if run.report_all { "All" } else { "Summary" };
        line(out, "Results Reported", reported)?;
    }
    if let Some(lists) = run.lists {
        bandwidth::lists(out, lists, need.allocated())?;
    }
    if has_buffers {
        match need.huge_pages() {
            // All buffers of this side lie on GPUs.
            None if run.huge_page.is_some() => line(out, "Hugepages", Setting::NotApplicable)?,
            None => line(out, "Hugepages", Setting::Disabled)?,
            Some((size, count)) => {
                let pages = format_args!("Enabled ({size} - {count} pages)");
                line(out, "Hugepages", pages)?;
            }
        }
    }
    let LocalAddress {
        address: FabricAddress { nic, pid },
        vni,
        ..
    } = *own;
    line(
        out,
        &format!("Local ({here})"),
        format_args!("NIC 0x{nic:x} PID {pid} VNI {vni}"),
    )?;
    let loopback = if peer.nic == nic { " (loopback)" } else { "" };
    let FabricAddress { nic, pid } = *peer;
    line(
        out,
        &format!("Remote ({there})"),
        format_args!("NIC 0x{nic:x} PID {pid}{loopback}"),
    )?;
    if summary.simulated {
        line(
            out,
            "Platform",
            "software NIC (no Cassini hardware involved)",
        )?;
    }
    buffers::found(out, summary)
}

/// Writes what a client prints before the first size.
pub fn begin(out: &mut impl Write, tool: &Tool, report_all: bool) -> io::Result<()> {
    if report_all {
        return Ok(());
    }
    titles(out, tool)
}

/// Writes the result for `size` bytes. `samples` are the latencies in ns, where each one is to be
/// reported.
pub fn result(
    out: &mut impl Write,
    tool: &Tool,
    size: u64,
    statistics: &Statistics,
    samples: Option<&[u64]>,
) -> io::Result<()> {
    if let Some(samples) = samples {
        every(out, tool, samples)?;
        titles(out, tool)?;
    }
    let us = |ns: f64| ns / 1000.0;
    writeln!(
        out,
        "{size:width$}  {:10}  {:10.2}  {:10.2}  {:10.2}  {:10.2}",
        statistics.count(),
        us(statistics.min() as f64),
        us(statistics.max() as f64),
        us(statistics.mean()),
        us(statistics.standard_deviation()),
        width = tool.size_column.len(),
    )?;
    // Into a pipe as well: whoever follows a long run sees each size when it is done.
    out.flush()
}

fn every(out: &mut impl Write, tool: &Tool, samples: &[u64]) -> io::Result<()> {
    separator(out, tool)?;
    // WriteNum it is in every tool.
    writeln!(out, "{:>10}  {:>11}", "WriteNum", "Latency[us]")?;
    // Standard output would make a system call for each of millions of lines.
    let mut out = BufWriter::with_capacity(LINES, out);
    for (number, ns) in samples.iter().enumerate() {
        writeln!(out, "{number:10}  {:7}.{:03}", ns / 1000, ns % 1000)?;
    }
    out.flush()
}

/// Writes what a client prints after the last size.
pub fn end(out: &mut impl Write, tool: &Tool) -> io::Result<()> {
    separator(out, tool)?;
    out.flush()
}

fn titles(out: &mut impl Write, tool: &Tool) -> io::Result<()> {
    separator(out, tool)?;
    writeln!(out, "{}", header(tool))
}

/// Writes what a server prints for each size.
pub fn server_result(out: &mut impl Write, tool: &Tool) -> io::Result<()> {
    separator(out, tool)?;
    writeln!(out, "See client for results.")?;
    out.flush()
}

/// Writes what a server prints after the last size.
pub fn server_end(out: &mut impl Write, tool: &Tool) -> io::Result<()> {
    separator(out, tool)?;
    out.flush()
}

/// Writes what stands below a table that a failure has cut short; `but` says more about its last row.
pub(super) fn cut_short(
    out: &mut impl Write,
    tool: &Tool,
    failure: &Failure,
    but: &str,
) -> io::Result<()> {
    separator(out, tool)?;
    let reason = match failure.kind {
        Kind::Interrupted => "Interrupted",
        _ => "Failed",
    };
    writeln!(out, "{reason}: results are partial{but}")?;
    out.flush()
}

fn header(tool: &Tool) -> String {
    if tool.defaults.lists.is_some() {
        return bandwidth::header(tool);
    }
    format!(
        "{}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}",
        tool.size_column, tool.operations, "Min[us]", "Max[us]", "Mean[us]", "StdDev[us]"
    )
}

/// A line of dashes, as long as the header of the results.
pub(super) fn separator(out: &mut impl Write, tool: &Tool) -> io::Result<()> {
    writeln!(out, "{}", "-".repeat(header(tool).len()))
}

/// One line of the summary.
pub(super) fn line(
    out: &mut impl Write,
    label: &str,
    value: impl std::fmt::Display,
) -> io::Result<()> {
    writeln!(out, "{label:17}: {value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;
    use crate::tools::TOOLS;

    /// The user's document.
    const SEED: &str = include_str!("../../tests/fixtures/seed-latency.txt");

    /// What the document shows below `$ command`.
    fn seed(command: &str) -> &'static str {
        let (_, after) = SEED.split_once(&format!("$ {command}\n")).unwrap();
        after.split_once("```").unwrap().0
    }

    fn write_lat() -> &'static Tool {
        TOOLS.iter().find(|tool| tool.name == "write-lat").unwrap()
    }

    const CXI0: DeviceName = DeviceName {
        kind: DeviceKind::Hardware,
        index: 0,
    };

    /// Options and addresses of the example in the document.
    fn example(run: &RunOptions, side: Side) -> Summary<'_> {
        let (nic, other) = match side {
            Side::Server => (0x12, 0x13),
            Side::Client => (0x13, 0x12),
        };
        Summary {
            tool: write_lat(),
            side,
            device: CXI0,
            simulated: false,
            svc_id: 1,
            run,
            own: LocalAddress {
                address: FabricAddress { nic, pid: 0 },
                vni: 10,
                simulated: false,
                gpus: OnGpus::NONE,
            },
            peer: FabricAddress { nic: other, pid: 0 },
            peer_gpus: OnGpus::NONE,
            gpu_count: 0,
            cpus: &[],
        }
    }

    fn five_iterations() -> RunOptions {
        RunOptions {
            iters: 5,
            report_all: true,
            ..write_lat().defaults
        }
    }

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_server_prints_what_the_document_shows() {
        let run = five_iterations();
        let text = written(|out| {
            summary(out, &example(&run, Side::Server))?;
            server_result(out, write_lat())?;
            server_end(out, write_lat())
        });
        let listening = "Listening on port 49194 for client to connect...\n";
        assert_eq!(format!("{listening}{text}"), seed("cxi_write_lat"));
    }

    #[test]
    fn the_client_prints_what_the_document_shows() {
        let run = five_iterations();
        // The row of the document does not follow from its samples (tools.md 10).
        let row = [2074, 2094, 2094, 2094, 2115].into_iter().collect();
        let text = written(|out| {
            summary(out, &example(&run, Side::Client))?;
            begin(out, write_lat(), true)?;
            result(
                out,
                write_lat(),
                8,
                &row,
                Some(&[2008, 2012, 2008, 2007, 2008]),
            )?;
            end(out, write_lat())
        });
        assert_eq!(text, seed("cxi_write_lat 10.1.1.8 -n 5 --report-all"));
    }

    #[test]
    fn a_range_has_one_header_and_a_row_for_each_size() {
        let row: Statistics = [1_000, 2_000].into_iter().collect();
        let text = written(|out| {
            begin(out, write_lat(), false)?;
            result(out, write_lat(), 8, &row, None)?;
            result(out, write_lat(), 4_294_967_295, &row, None)?;
            end(out, write_lat())
        });
        let dashes = "-".repeat(72);
        let expected = format!(
            "{dashes}\n\
             RDMA Size[B]      Writes     Min[us]     Max[us]    Mean[us]  StdDev[us]\n\
             \u{20}          8           2        1.00        2.00        1.50        0.50\n\
             \u{20} 4294967295           2        1.00        2.00        1.50        0.50\n\
             {dashes}\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_run_that_is_cut_short_says_so_below_what_it_has() {
        let row: Statistics = [1_000, 2_000].into_iter().collect();
        let text = |failure: &Failure, measured: &Statistics| {
            written(|out| {
                begin(out, write_lat(), false)?;
                if measured.count() > 0 {
                    result(out, write_lat(), 8, measured, None)?;
                }
                cut_short(out, write_lat(), failure, "")
            })
        };
        let dashes = "-".repeat(72);
        let table = format!("{dashes}\n{}\n", header(write_lat()));
        let figures = "           8           2        1.00        2.00        1.50        0.50\n";
        assert_eq!(
            text(&Failure::interrupted("SIGINT"), &row),
            format!("{table}{figures}{dashes}\nInterrupted: results are partial\n")
        );
        assert_eq!(
            text(&Failure::nic("lost"), &Statistics::default()),
            format!("{table}{dashes}\nFailed: results are partial\n")
        );
    }

    #[test]
    fn every_latency_of_each_size_has_its_table() {
        let row = [1_234_567_890].into_iter().collect();
        let text = written(|out| {
            begin(out, write_lat(), true)?;
            result(out, write_lat(), 1, &row, Some(&[1_234_567_890]))?;
            result(out, write_lat(), 2, &row, Some(&[1_234_567_890]))?;
            end(out, write_lat())
        });
        let dashes = "-".repeat(72);
        let table = format!(
            "{dashes}\n  WriteNum  Latency[us]\n         0  1234567.890\n{dashes}\n{}\n",
            header(write_lat())
        );
        let expected = format!(
            "{table}           1           1  1234567.89  1234567.89  1234567.89        0.00\n\
             {table}           2           1  1234567.89  1234567.89  1234567.89        0.00\n{dashes}\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_duration_and_a_range_in_the_summary() {
        let run = RunOptions {
            duration_s: Some(1),
            min_size: 1,
            max_size: 4096,
            ..write_lat().defaults
        };
        let text = written(|out| summary(out, &example(&run, Side::Client)));
        // The document shows it for reads.
        let shown = seed("cxi_read_lat 192.168.1.1 -D 1 -s 1:1024");
        for line in [
            "Test Type        : Duration",
            "Duration         : 1 seconds",
            "Results Reported : Summary",
        ] {
            assert!(text.contains(line) && shown.contains(line), "{line}");
        }
        assert!(
            text.contains("\nMin Write Size   : 1\nMax Write Size   : 4096\n"),
            "{text}"
        );
    }

    #[test]
    fn one_nic_is_loopback_and_a_software_nic_says_so() {
        let run = write_lat().defaults;
        let mut what = example(&run, Side::Client);
        what.peer = FabricAddress { nic: 0x13, pid: 1 };
        let text = written(|out| summary(out, &what));
        assert!(
            text.ends_with(
                "Remote (server)  : NIC 0x12 PID 0 (loopback)\n"
                    .replace("12 PID 0", "13 PID 1")
                    .as_str()
            )
        );
        what.device = DeviceName {
            kind: DeviceKind::Software,
            index: 3,
        };
        what.simulated = true;
        let text = written(|out| summary(out, &what));
        assert!(text.contains("\nDevice           : soft3\n"));
        assert!(
            text.ends_with("\nPlatform         : software NIC (no Cassini hardware involved)\n"),
            "{text}"
        );
    }

    #[test]
    fn a_full_or_closed_output_is_an_error_and_no_panic() {
        let mut room = [0; 100];
        let run = write_lat().defaults;
        assert!(summary(&mut &mut room[..], &example(&run, Side::Client)).is_err());
    }
}
