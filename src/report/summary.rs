//! The summary block that precedes the results, line for line as the user's documents show it
//! (tools.md 9).

use std::fmt;
use std::io::{self, Write};

use super::columns::Layout;
use super::text::separator;
use facts::device::{DeviceName, FabricAddress};
use node::gpu::{OnGpus, Use};
use node::local_address::LocalAddress;
use plan::buffers::Need;
use plan::extensions::Extensions;
use plan::options;
use plan::run_options::{ListOptions, RunOptions, Setting, Side};
use plan::tool::Tool;

/// What the summary block shows.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// What the tables depend on, among it the tool.
    pub layout: Layout,
    /// The side that prints.
    pub side: Side,
    /// This side's device.
    pub device: DeviceName,
    /// Whether the device is a software NIC.
    pub simulated: bool,
    /// The options of the run, chosen by the client.
    pub run: &'a RunOptions,
    /// This side's address.
    pub own: LocalAddress,
    pub peer: FabricAddress,
    /// Where the peer's buffers lie.
    pub peer_gpus: OnGpus,
    /// Number of GPUs that this side has found; 0 if it uses none.
    pub gpu_count: u32,
    /// Whether this side uses high-rate puts.
    pub hrp: Setting,
    /// The CPUs that this thread is confined to; empty if it may use all.
    pub cpus: &'a [u32],
}

/// Writes the summary block, from its opening separator to its last line.
pub fn write(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let Summary { layout, run, own, .. } = summary;
    let tool = layout.tool;
    let need = Need::of(tool, run, &[summary.side], own.gpus);
    separator(out, *layout)?;
    writeln!(out, "    {}", tool.title)?;
    let mut block = Lines { out, label_width: tool.label_width() };
    let block = &mut block;
    block.line("Device", summary.device)?;
    block.line("Service ID", own.svc_id)?;
    if !tool.has_peer() {
        return without_peer(block, summary);
    }
    let has_buffers = tool.has_data();
    if has_buffers {
        buffers(block, summary)?;
    }
    extent(block, run)?;
    if !tool.measures_bandwidth() {
        block.line("Warmup Iters", run.warmup)?;
        block.line("Inter-Iter Gap", format_args!("{} microseconds", run.gap_us))?;
    }
    rate(block, tool, run)?;
    operation(block, tool, run)?;
    if let Some(lists) = run.lists {
        block.line("List Size", lists.list_size)?;
    }
    if tool.defaults.use_hrp {
        block.line("HRP", summary.hrp)?;
    }
    if tool.defaults.use_idc {
        block.line("IDC", run.idc())?;
    }
    if let Some(atomic) = run.atomic {
        block.line("Matching LEs", Setting::from(atomic.matching))?;
    }
    // The user's documents show it neither in write-lat nor in read-lat.
    let is_shown = tool.measures_bandwidth() || run.atomic.is_some() || tool.has_chains();
    if tool.is_one_sided() && is_shown {
        block.line("Restricted", run.restricted())?;
    }
    for (label, value) in options::lines(tool, &run.extensions) {
        block.line(label, value)?;
    }
    if !tool.measures_bandwidth() {
        block.line("LL Cmd Launch", Setting::from(run.use_ll))?;
        let reported = if run.report_all { "All" } else { "Summary" };
        block.line("Results Reported", reported)?;
    }
    if let Some(lists) = run.lists {
        direction_and_buffers(block, tool, lists, need.allocated())?;
        extensions(block, &run.extensions)?;
    }
    if has_buffers {
        huge_pages(block, run, &need)?;
    }
    addresses(block, summary)?;
    platform(block, summary)?;
    gpus(block, summary)
}

/// Writes the atomic operation of the run, or the sizes of its operations.
fn operation(block: &mut Lines<impl Write>, tool: &Tool, run: &RunOptions) -> io::Result<()> {
    if let Some(atomic) = run.atomic {
        let fetching = if atomic.fetching { "FETCHING" } else { "NON-FETCHING" };
        block.line("Atomic Op", format_args!("{fetching} {}", atomic.operation()))?;
        block.line("Atomic Type", atomic.ty)
    } else if run.min_size == run.max_size {
        block.line(&format!("{} Size", tool.operation), run.min_size)
    } else {
        block.line(&format!("Min {} Size", tool.operation), run.min_size)?;
        block.line(&format!("Max {} Size", tool.operation), run.max_size)
    }
}

/// Writes the addresses of both sides.
fn addresses(block: &mut Lines<impl Write>, summary: &Summary) -> io::Result<()> {
    let (here, there) = match summary.side {
        Side::Server => ("server", "client"),
        Side::Client => ("client", "server"),
    };
    let LocalAddress { address: FabricAddress { nic, pid }, vni, .. } = summary.own;
    block.line(&format!("Local ({here})"), format_args!("NIC 0x{nic:x} PID {pid} VNI {vni}"))?;
    let loopback = if summary.peer.nic == nic { " (loopback)" } else { "" };
    let FabricAddress { nic, pid } = summary.peer;
    block.line(&format!("Remote ({there})"), format_args!("NIC 0x{nic:x} PID {pid}{loopback}"))
}

/// Writes the lines of a tool without a peer (node-tools.md 4.3).
fn without_peer(block: &mut Lines<impl Write>, summary: &Summary) -> io::Result<()> {
    let Summary { layout: Layout { tool, .. }, run, own, .. } = summary;
    block.line("TX Mem", BufferMemory(own.gpus.tx))?;
    block.line("RX Mem", BufferMemory(own.gpus.rx))?;
    if let Some(kind) = own.gpus.kind.filter(|_| own.gpus.any()) {
        block.line("GPU Type", kind)?;
    }
    extent(block, run)?;
    rate(block, tool, run)?;
    if run.min_size == run.max_size {
        block.line("Write Size (B)", run.min_size)?;
    } else {
        block.line("Min Write Size", run.min_size)?;
        block.line("Max Write Size", run.max_size)?;
    }
    if let Some(lists) = run.lists {
        block.line("Cmds per iter", lists.list_size)?;
    }
    extensions(block, &run.extensions)?;
    let need = Need::of(tool, run, &[Side::Client, Side::Server], own.gpus);
    huge_pages(block, run, &need)?;
    platform(block, summary)?;
    gpus(block, summary)
}

/// Writes how long each size is measured.
fn extent(block: &mut Lines<impl Write>, run: &RunOptions) -> io::Result<()> {
    match run.duration() {
        Some(_) if run.extensions.until_stopped => block.line("Test Type", "Until stopped"),
        Some(time) => {
            block.line("Test Type", "Duration")?;
            block.line("Duration", format_args!("{} seconds", time.as_secs_f64()))
        }
        None => {
            block.line("Test Type", "Iteration")?;
            block.line("Iterations", run.iters)
        }
    }
}

fn rate(block: &mut Lines<impl Write>, tool: &Tool, run: &RunOptions) -> io::Result<()> {
    let Some(rate) = run.extensions.rate else {
        return Ok(());
    };
    let origin = if tool.measures_bandwidth() { "" } else { " (latency from intended start)" };
    block.line("Rate", format_args!("{rate}{origin}{}", schedule(run)))
}

fn huge_pages(block: &mut Lines<impl Write>, run: &RunOptions, need: &Need) -> io::Result<()> {
    match need.huge_pages() {
        // All buffers of this side lie on GPUs.
        None if run.huge_page.is_some() => block.line("Hugepages", Setting::NotApplicable),
        None => block.line("Hugepages", Setting::Disabled),
        Some((size, count)) => {
            block.line("Hugepages", format_args!("Enabled ({size} - {count} pages)"))
        }
    }
}

/// Writes the only line of the summary block that results have in any case: that no hardware is
/// involved.
pub fn write_platform(out: &mut impl Write, summary: &Summary) -> io::Result<()> {
    let label_width = summary.layout.tool.label_width();
    platform(&mut Lines { out, label_width }, summary)
}

fn platform(block: &mut Lines<impl Write>, summary: &Summary) -> io::Result<()> {
    if summary.simulated {
        block.line("Platform", "software NIC (no Cassini hardware involved)")?;
    }
    Ok(())
}

/// Writes the lines of a bandwidth tool about the direction and the buffers, which take `used`
/// bytes each.
fn direction_and_buffers(
    block: &mut Lines<impl Write>,
    tool: &Tool,
    lists: ListOptions,
    used: u64,
) -> io::Result<()> {
    block.line("Bidirectional", Setting::from(lists.bidirectional))?;
    if !tool.has_data() {
        return Ok(());
    }
    block.line("Max RDMA Buf", format_args!("{} ({used} used)", lists.max_buffer))?;
    block.line("RDMA Buf Align", lists.alignment)
}

/// Returns how a bandwidth tool keeps a rate: it issues whole lists.
fn schedule(run: &RunOptions) -> String {
    let Some(lists) = run.lists else {
        return String::new();
    };
    let list = lists.list_size;
    // In a range, the time depends on the size if the rate is one of bytes.
    match run.list_interval(run.min_size) {
        Some(ns) if run.list_interval(run.max_size) == Some(ns) => {
            format!(" (a list of {list} every {:.3} ms)", ns as f64 / 1e6)
        }
        _ => format!(" (in lists of {list})"),
    }
}

/// Writes the options that the legacy tools lack, if they are in use.
fn extensions(block: &mut Lines<impl Write>, extensions: &Extensions) -> io::Result<()> {
    let Extensions { pairs, threads, .. } = extensions;
    match threads {
        1 if *pairs == 1 => {}
        1 => block.line("Pairs", pairs)?,
        _ => block.line("Pairs", format_args!("{pairs} ({threads} threads)"))?,
    }
    if extensions.reverse {
        block.line("Reverse", "Enabled (the server issues)")?;
    }
    Ok(())
}

/// The memory of a buffer: of the system, or of the GPU with this index.
struct BufferMemory(Option<u8>);

impl fmt::Display for BufferMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("System"),
            Some(index) => write!(f, "GPU {index}"),
        }
    }
}

/// Writes in which memory both sides have the buffers that the run uses (tools.md 9.1).
fn buffers(block: &mut Lines<impl Write>, summary: &Summary) -> io::Result<()> {
    let (client, server) = match summary.side {
        Side::Client => (summary.own.gpus, summary.peer_gpus),
        Side::Server => (summary.peer_gpus, summary.own.gpus),
    };
    let uses = |side| {
        let transmit = summary.run.issues(side).then_some(Use::Transmit);
        let receive = summary.run.is_target(side).then_some(Use::Receive);
        transmit.into_iter().chain(receive).collect::<Vec<_>>()
    };
    host(block, "Client", client, &uses(Side::Client))?;
    host(block, "Server", server, &uses(Side::Server))
}

fn host(block: &mut Lines<impl Write>, name: &str, gpus: OnGpus, uses: &[Use]) -> io::Result<()> {
    for use_ in uses {
        let direction = match use_ {
            Use::Transmit => "TX",
            Use::Receive => "RX",
        };
        block.line(&format!("{name} {direction} Mem"), BufferMemory(gpus.of(*use_)))?;
    }
    let on_gpu = uses.iter().any(|use_| gpus.of(*use_).is_some());
    match gpus.kind {
        Some(kind) if on_gpu => block.line(&format!("{name} GPU Type"), kind),
        _ => Ok(()),
    }
}

/// Writes how many GPUs this side has found, if it uses any.
fn gpus(block: &mut Lines<impl Write>, summary: &Summary) -> io::Result<()> {
    match summary.gpu_count {
        0 => Ok(()),
        count => writeln!(block.out, "Found {count} GPU(s)"),
    }
}

/// Lines of labels and values.
struct Lines<'a, W> {
    out: &'a mut W,
    label_width: usize,
}

impl<W: Write> Lines<'_, W> {
    fn line(&mut self, label: &str, value: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{label:width$}: {value}", width = self.label_width)
    }
}
