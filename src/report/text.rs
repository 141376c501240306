//! The table of results, column for column as the user's documents show it (tools.md 9).
//!
//! Everything is written to a `Write`, and its errors are returned: a reader that closes the pipe
//! early (`cxidiag ... | head`) ends the program quietly, see `error::Kind::OutputClosed`.

use std::io::{self, BufWriter, Write};

use super::columns::{self, Layout, TextTable};
use super::intervals::{Interval, Intervals};
use super::outcome::SizeResult;
use facts::error::{Failure, Kind};

/// Bytes of lines that are written together.
const LINES: usize = 1 << 16;

/// Writes what precedes the first size, unless each size has titles of its own.
pub fn begin(out: &mut impl Write, layout: Layout, each_has_titles: bool) -> io::Result<()> {
    if !each_has_titles {
        titles(out, layout)?;
    }
    out.flush()
}

/// Writes the row of a size. `count` is the number of operations that this side issued, if it
/// issues any. `samples` are the latencies in ns, if each one is to be reported.
pub fn result(
    out: &mut impl Write,
    layout: Layout,
    result: &SizeResult,
    count: Option<u64>,
    samples: Option<&[u64]>,
) -> io::Result<()> {
    if let Some(samples) = samples {
        every(out, layout, samples)?;
        titles(out, layout)?;
    }
    let row = columns::row(layout, result, count);
    writeln!(out, "{row}")?;
    // Also into a pipe: a reader that follows a long run sees each size as soon as it is measured.
    out.flush()
}

/// Writes each latency of a size.
fn every(out: &mut impl Write, layout: Layout, samples: &[u64]) -> io::Result<()> {
    separator(out, layout)?;
    // Every tool has the title WriteNum.
    writeln!(out, "{:>10}  {:>11}", "WriteNum", "Latency[us]")?;
    // Without this buffer, each of millions of lines costs a system call.
    let mut out = BufWriter::with_capacity(LINES, out);
    for (number, ns) in samples.iter().enumerate() {
        writeln!(out, "{number:10}  {:7}.{:03}", ns / 1000, ns % 1000)?;
    }
    out.flush()
}

/// Writes lines at once: each write is a system call.
pub fn lines(out: &mut impl Write, lines: impl IntoIterator<Item = String>) -> io::Result<()> {
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes what follows the last size.
pub fn end(out: &mut impl Write, layout: Layout) -> io::Result<()> {
    separator(out, layout)?;
    out.flush()
}

/// Writes the titles of the table of results.
pub(super) fn titles(out: &mut impl Write, layout: Layout) -> io::Result<()> {
    separator(out, layout)?;
    writeln!(out, "{}", columns::header(layout, TextTable::Results))
}

/// Writes the titles of the table of intervals.
pub(super) fn interval_titles(out: &mut impl Write, layout: Layout) -> io::Result<()> {
    separator(out, layout)?;
    writeln!(out, "{}", columns::header(layout, TextTable::Intervals))
}

/// Writes the row of an interval.
pub(super) fn interval(
    out: &mut impl Write,
    layout: Layout,
    interval: &Interval,
) -> io::Result<()> {
    let times = format!("{:10.3}  {:10.3}", interval.start_s, interval.end_s);
    let row = columns::interval_row(layout, &times, &interval.figures);
    writeln!(out, "{row}")?;
    out.flush()
}

/// Writes minimum, 5th percentile and maximum of the intervals. `one_of_two` is whether the peer's
/// part of the run is missing.
pub(super) fn interval_summary(
    out: &mut impl Write,
    layout: Layout,
    intervals: &Intervals,
    one_of_two: bool,
) -> io::Result<()> {
    for (label, figures) in [
        ("Minimum", &intervals.min),
        ("5th percentile", &intervals.p5),
        ("Maximum", &intervals.max),
    ] {
        if let Some(figures) = figures {
            writeln!(out, "{}", columns::interval_row(layout, label, figures))?;
        }
    }
    if one_of_two {
        writeln!(out, "(intervals: operations of this side alone)")?;
    }
    out.flush()
}

/// Writes what a latency server prints for each size.
pub fn server_result(out: &mut impl Write, layout: Layout) -> io::Result<()> {
    separator(out, layout)?;
    writeln!(out, "See client for results.")?;
    out.flush()
}

/// Writes what follows a table that a failure has cut short; `remark` is about its last row.
pub(super) fn cut_short(
    out: &mut impl Write,
    layout: Layout,
    failure: &Failure,
    remark: &str,
) -> io::Result<()> {
    separator(out, layout)?;
    let reason = match failure.kind {
        Kind::Interrupted => "Interrupted",
        _ => "Failed",
    };
    writeln!(out, "{reason}: results are partial{remark}")?;
    out.flush()
}

/// Writes a line of dashes, as long as the header of the results.
pub(super) fn separator(out: &mut impl Write, layout: Layout) -> io::Result<()> {
    writeln!(out, "{}", "-".repeat(columns::header(layout, TextTable::Results).len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Detail, Extent};
    use crate::summary::{self, Summary};
    use cxi::gpu::GpuType;
    use facts::device::{DeviceKind, DeviceName, FabricAddress};
    use measure::{Rates, Recorder, SideResult};
    use node::gpu::OnGpus;
    use node::local_address::LocalAddress;
    use node::traffic_class::TrafficClass;
    use plan::run_options::{RunOptions, Setting, Side};
    use plan::tool::Tool;
    use plan::tools::{TOOLS, legacy_form};

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

    const CXI0: DeviceName = DeviceName { kind: DeviceKind::Hardware, index: 0 };

    /// Options and addresses of the example in the document.
    fn example(run: &RunOptions, side: Side) -> Summary<'_> {
        let (nic, other) = match side {
            Side::Server => (0x12, 0x13),
            Side::Client => (0x13, 0x12),
        };
        Summary {
            layout: Layout::of(write_lat()),
            side,
            device: CXI0,
            simulated: false,
            run,
            own: LocalAddress {
                address: FabricAddress { nic, pid: 0 },
                svc_id: 1,
                vni: 10,
                has_vni_of_range: false,
                class: TrafficClass::BestEffort,
                simulated: false,
                gpus: OnGpus::NONE,
            },
            peer: FabricAddress { nic: other, pid: 0 },
            peer_gpus: OnGpus::NONE,
            gpu_count: 0,
            hrp: Setting::Disabled,
            cpus: &[],
        }
    }

    fn five_iterations() -> RunOptions {
        RunOptions { iters: 5, report_all: true, ..write_lat().defaults }
    }

    fn measured(size: u64, samples: &[u64]) -> SizeResult {
        let mut recorder = Recorder::new(None).unwrap();
        samples.iter().for_each(|sample| recorder.record(*sample));
        SizeResult::from_latencies(size, &recorder, Extent::Complete, Detail::default())
    }

    /// Writes the row of a latency tool.
    fn write_row(
        out: &mut Vec<u8>,
        result: &SizeResult,
        samples: Option<&[u64]>,
    ) -> io::Result<()> {
        super::result(out, Layout::of(write_lat()), result, Some(result.count), samples)
    }

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn prints_server_text_of_the_document() {
        let run = five_iterations();
        let text = written(|out| {
            summary::write(out, &example(&run, Side::Server))?;
            server_result(out, Layout::of(write_lat()))?;
            end(out, Layout::of(write_lat()))
        });
        let listening = "Listening on port 49194 for client to connect...\n";
        assert_eq!(format!("{listening}{text}"), seed("cxi_write_lat"));
    }

    /// node-tools.md 4.3
    const LOOPBACK: &str = "\
---------------------------------------------------
    CXI Loopback Bandwidth Test
Device           : cxi0
Service ID       : 1
TX Mem           : System
RX Mem           : System
Test Type        : Iteration
Iterations       : 25
Write Size (B)   : 524288
Cmds per iter    : 8192
Hugepages        : Disabled
---------------------------------------------------
RDMA Size[B]      Writes  BW[Gb/s]  PktRate[Mpkt/s]
      524288      204800    186.37        11.375035
---------------------------------------------------
";

    fn loopback() -> Layout {
        let tool = TOOLS.iter().find(|tool| !tool.has_peer()).unwrap();
        let tool = legacy_form(tool);
        Layout { tool, unit: tool.unit(), depth: None }
    }

    /// The row of `count` writes in this time.
    fn loopback_row(size: u64, count: u64, elapsed_us: u64) -> SizeResult {
        let sides = [SideResult { elapsed_us, count }, SideResult::default()];
        SizeResult::from_lists(size, sides, Rates::of(size, sides, false), Extent::Complete)
    }

    #[test]
    fn prints_text_of_the_legacy_loopback_tool() {
        let layout = loopback();
        let run = layout.tool.defaults;
        let text = written(|out| {
            let summary = Summary { layout, ..example(&run, Side::Client) };
            summary::write(out, &summary)?;
            begin(out, layout, false)?;
            let row = loopback_row(524_288, 204_800, 4_609_111);
            result(out, layout, &row, Some(row.count), None)?;
            end(out, layout)
        });
        assert_eq!(text, LOOPBACK);
    }

    #[test]
    fn prints_memory_and_duration_of_the_legacy_loopback_tool() {
        let layout = loopback();
        let mut run = layout.tool.defaults;
        run.set_duration(std::time::Duration::from_secs(5));
        let mut summary = Summary { layout, ..example(&run, Side::Client) };
        summary.own.gpus = OnGpus { kind: Some(GpuType::Amd), rx: Some(3), ..OnGpus::NONE };
        summary.gpu_count = 4;
        let text = written(|out| summary::write(out, &summary));
        let (_, text) = text.split_once("Service ID       : 1\n").unwrap();
        let expected = "\
TX Mem           : System
RX Mem           : GPU 3
GPU Type         : AMD
Test Type        : Duration
Duration         : 5 seconds
Write Size (B)   : 524288
Cmds per iter    : 8192
Hugepages        : Disabled
Found 4 GPU(s)
";
        assert_eq!(text, expected);
    }

    /// node-tools.md 4.3. In the sample of the legacy manual page, bandwidth and packet rate do not
    /// fit each other.
    #[test]
    fn n23_rows_of_the_loopback_tool_have_the_figures_of_the_legacy_tool() {
        for (size, count, elapsed_us, row) in [
            (524_288, 25 * 8192, 4_609_111, "      524288      204800    186.37        11.375035"),
            (8, 1, 1_000_000, "           8           1      0.00         0.000001"),
            (2049, 163_820, 100_000, "        2049      163820     26.85         3.276400"),
            (4_294_967_295, 1, 200_000_000, "  4294967295           1      0.17         0.010486"),
        ] {
            let result = loopback_row(size, count, elapsed_us);
            assert_eq!(columns::row(loopback(), &result, Some(count)), row);
        }
    }

    #[test]
    fn prints_client_text_of_the_document() {
        let run = five_iterations();
        // The row of the document does not follow from its samples (tools.md 10).
        let row = measured(8, &[2074, 2094, 2094, 2094, 2115]);
        let text = written(|out| {
            summary::write(out, &example(&run, Side::Client))?;
            begin(out, Layout::of(write_lat()), true)?;
            write_row(out, &row, Some(&[2008, 2012, 2008, 2007, 2008]))?;
            end(out, Layout::of(write_lat()))
        });
        assert_eq!(text, seed("cxi_write_lat 10.1.1.8 -n 5 --report-all"));
    }

    #[test]
    fn prints_one_header_and_a_row_for_each_size() {
        let row = |size| measured(size, &[1_000, 2_000]);
        let text = written(|out| {
            begin(out, Layout::of(write_lat()), false)?;
            write_row(out, &row(8), None)?;
            write_row(out, &row(4_294_967_295), None)?;
            end(out, Layout::of(write_lat()))
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
    fn marks_results_of_an_ended_run_as_partial() {
        let text = |failure: &Failure, measured: Option<SizeResult>| {
            written(|out| {
                begin(out, Layout::of(write_lat()), false)?;
                if let Some(measured) = &measured {
                    write_row(out, measured, None)?;
                }
                cut_short(out, Layout::of(write_lat()), failure, "")
            })
        };
        let dashes = "-".repeat(72);
        let table =
            format!("{dashes}\n{}\n", columns::header(Layout::of(write_lat()), TextTable::Results));
        let figures = "           8           2        1.00        2.00        1.50        0.50\n";
        assert_eq!(
            text(&Failure::interrupted("SIGINT"), Some(measured(8, &[1_000, 2_000]))),
            format!("{table}{figures}{dashes}\nInterrupted: results are partial\n")
        );
        assert_eq!(
            text(&Failure::nic("lost"), None),
            format!("{table}{dashes}\nFailed: results are partial\n")
        );
    }

    #[test]
    fn prints_a_table_of_samples_for_each_size() {
        let row = |size| measured(size, &[1_234_567_890]);
        let text = written(|out| {
            begin(out, Layout::of(write_lat()), true)?;
            write_row(out, &row(1), Some(&[1_234_567_890]))?;
            write_row(out, &row(2), Some(&[1_234_567_890]))?;
            end(out, Layout::of(write_lat()))
        });
        let dashes = "-".repeat(72);
        let table = format!(
            "{dashes}\n  WriteNum  Latency[us]\n         0  1234567.890\n{dashes}\n{}\n",
            columns::header(Layout::of(write_lat()), TextTable::Results)
        );
        let expected = format!(
            "{table}           1           1  1234567.89  1234567.89  1234567.89        0.00\n\
             {table}           2           1  1234567.89  1234567.89  1234567.89        0.00\n{dashes}\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn summarizes_duration_and_size_range() {
        let run =
            RunOptions { duration_s: Some(1), min_size: 1, max_size: 4096, ..write_lat().defaults };
        let text = written(|out| summary::write(out, &example(&run, Side::Client)));
        // The document shows it for reads.
        let shown = seed("cxi_read_lat 192.168.1.1 -D 1 -s 1:1024");
        for line in [
            "Test Type        : Duration",
            "Duration         : 1 seconds",
            "Results Reported : Summary",
        ] {
            assert!(text.contains(line) && shown.contains(line), "{line}");
        }
        assert!(text.contains("\nMin Write Size   : 1\nMax Write Size   : 4096\n"), "{text}");
    }

    #[test]
    fn names_loopback_and_software_nic() {
        let run = write_lat().defaults;
        let mut what = example(&run, Side::Client);
        what.peer = FabricAddress { nic: 0x13, pid: 1 };
        let text = written(|out| summary::write(out, &what));
        assert!(
            text.ends_with(
                "Remote (server)  : NIC 0x12 PID 0 (loopback)\n"
                    .replace("12 PID 0", "13 PID 1")
                    .as_str()
            )
        );
        what.device = DeviceName { kind: DeviceKind::Software, index: 3 };
        what.simulated = true;
        let text = written(|out| summary::write(out, &what));
        assert!(text.contains("\nDevice           : soft3\n"));
        assert!(
            text.ends_with("\nPlatform         : software NIC (no Cassini hardware involved)\n"),
            "{text}"
        );
    }

    #[test]
    fn returns_error_if_output_is_full() {
        let mut room = [0; 100];
        let run = write_lat().defaults;
        assert!(summary::write(&mut &mut room[..], &example(&run, Side::Client)).is_err());
    }
}
