//! The options: each one defined here, once, with its syntax, its help and its meaning.
//!
//! A tool lists the options that it takes (`Tool::options`). Parser and help text follow from
//! these definitions; a rule that concerns several options is in `plan`.

use std::ffi::OsStr;
use std::path::PathBuf;

use cxi::HugePage;

use crate::atomic::{self, Atomic};
use crate::device::{DEFAULT_DEVICE, LIBCXI_VARIABLE};
use crate::gpu;
use crate::number::{decimal, within};
use crate::plan::expect;
use crate::plan::outputs::Place;
use crate::plan::typed::Typed;
use crate::plan::{DEFAULT_CONNECT_LIMIT, DEFAULT_PORT, DEFAULT_SVC_ID};
use crate::run_options::{
    ListOptions, MAX_ALIGNMENT, MAX_GAP_US, MAX_LIST_SIZE, MAX_SIZE, SIZES, is_range, is_size,
};
use crate::tool::{Opt, Tool};

/// Whose option it is when two processes measure together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Governs {
    /// The process that it is given to.
    ThisProcess,
    /// The run, on both sides. It comes from the client; a server ignores it.
    Run,
    /// What is made of the results, which are the client's; a server ignores it.
    Results,
}

/// One option.
#[derive(Debug)]
pub struct OptionDef {
    /// Which option it is.
    pub id: Opt,
    /// Letter of the short form.
    pub short: Option<char>,
    /// Long form, without the dashes.
    pub long: &'static str,
    /// Name of its value in the help text, in brackets where the value may be left out; an option
    /// without a name is a switch.
    pub value: Option<&'static str>,
    /// Whose option it is.
    pub governs: Governs,
    /// Help text, in lines.
    pub help: fn(&Tool) -> String,
    /// Takes over a value (empty for a switch, [`LEFT_OUT`] for a value that was left out), or says
    /// what is allowed.
    pub set: fn(&mut Typed, &OsStr) -> Result<(), String>,
}

/// The value of an option whose value was left out: `--json` is `--json=-`.
pub const LEFT_OUT: &str = "-";

impl OptionDef {
    /// Whether its value may be left out.
    pub fn value_is_optional(&self) -> bool {
        self.value.is_some_and(|name| name.starts_with('['))
    }
}

/// Options that the legacy tools do not have. An abbreviation that stands for an option of theirs
/// is never taken for one of these.
pub static OWN: &[Opt] = &[
    Opt::Percentiles,
    Opt::Json,
    Opt::Csv,
    Opt::HdrLog,
    Opt::Expect,
    Opt::Quiet,
    Opt::Bind,
    Opt::Persist,
    Opt::ConnectTimeout,
    Opt::Wait,
    Opt::Loopback,
    Opt::Cpu,
    Opt::Libcxi,
];

/// Options of which each one given counts.
pub static ADDING: &[Opt] = &[Opt::Expect];

/// All options.
pub static OPTIONS: [OptionDef; 39] = [
    OptionDef {
        id: Opt::Device,
        short: Some('d'),
        long: "device",
        value: Some("DEV"),
        governs: Governs::ThisProcess,
        help: |_| {
            format!(
                "Device: cxiN, or softN for the built-in software\nNIC (default: {DEFAULT_DEVICE})"
            )
        },
        set: |typed, value| {
            typed.device = Some(text(value)?.parse()?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::SvcId,
        short: Some('v'),
        long: "svc-id",
        value: Some("SVC_ID"),
        governs: Governs::ThisProcess,
        help: |_| format!("CXI service to work under (default: {DEFAULT_SVC_ID})"),
        set: |typed, value| {
            typed.svc_id = Some(within(text(value)?, 1..=i32::MAX as u64)? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Port,
        short: Some('p'),
        long: "port",
        value: Some("PORT"),
        governs: Governs::ThisProcess,
        help: |_| {
            format!(
                "TCP port of the server (default: {DEFAULT_PORT});\n0 on a server: any free port"
            )
        },
        set: |typed, value| {
            let port = within(text(value)?, 0..=65535)
                .map_err(|_| "expected a decimal number from 1 to 65535, or 0 on a server")?;
            typed.port = Some(port as u16);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Iters,
        short: Some('n'),
        long: "iters",
        value: Some("ITERS"),
        governs: Governs::Run,
        help: |tool| format!("Iterations per size (default: {})", tool.defaults.iters),
        set: |typed, value| {
            typed.run.iters = within(text(value)?, 1..=u64::MAX)?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Duration,
        short: Some('D'),
        long: "duration",
        value: Some("SEC"),
        governs: Governs::Run,
        help: |_| "Seconds per size, instead of iterations".into(),
        set: |typed, value| {
            typed.run.duration_s = Some(within(text(value)?, 1..=u32::MAX.into())? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Warmup,
        short: None,
        long: "warmup",
        value: Some("WARMUP"),
        governs: Governs::Run,
        help: |tool| {
            format!(
                "Unmeasured iterations before each size (default: {})",
                tool.defaults.warmup
            )
        },
        set: |typed, value| {
            typed.run.warmup = within(text(value)?, 0..=u64::MAX)?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::LatencyGap,
        short: None,
        long: "latency-gap",
        value: Some("USEC"),
        governs: Governs::Run,
        help: |tool| {
            format!(
                "Microseconds to wait after each iteration\n(default: {})",
                tool.defaults.gap_us
            )
        },
        set: |typed, value| {
            typed.run.gap_us = within(text(value)?, 0..=MAX_GAP_US)?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Size,
        short: Some('s'),
        long: "size",
        value: Some("MIN[:MAX]"),
        governs: Governs::Run,
        help: |tool| {
            format!(
                "{} size in bytes (default: {}), or a range that\n\
                 doubles from MIN to MAX, both powers of 2\n\
                 (such as 1:8192); at most {MAX_SIZE}",
                tool.operation, tool.defaults.min_size
            )
        },
        set: |typed, value| {
            let (min, max) = sizes(text(value)?).ok_or(SIZES)?;
            typed.run.min_size = min;
            typed.run.max_size = max;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Unrestricted,
        short: None,
        long: "unrestricted",
        value: None,
        governs: Governs::Run,
        help: |tool| {
            let operations = match tool.defaults.atomic {
                Some(_) => "AMOs".into(),
                None => tool.operations.to_lowercase(),
            };
            format!("Use unrestricted (ordered) {operations}")
        },
        set: |typed, _| {
            typed.run.unrestricted = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::NoIdc,
        short: None,
        long: "no-idc",
        value: None,
        governs: Governs::Run,
        help: |_| "Use no Immediate Data Commands, only DMA".into(),
        set: |typed, _| {
            typed.run.use_idc = false;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::NoLl,
        short: None,
        long: "no-ll",
        value: None,
        governs: Governs::Run,
        help: |_| "Issue commands by doorbell, not by the low-latency\npath".into(),
        set: |typed, _| {
            typed.run.use_ll = false;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::ReportAll,
        short: None,
        long: "report-all",
        value: None,
        governs: Governs::Run,
        help: |_| "Print each measured latency; ignored together with\n--duration".into(),
        set: |typed, _| {
            typed.run.report_all = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::AtomicOp,
        short: Some('A'),
        long: "atomic-op",
        value: Some("OP"),
        governs: Governs::Run,
        help: |tool| {
            let default = atomic_default(tool, |atomic| atomic.op.to_string());
            format!("Atomic operation (default: {default}); see below")
        },
        set: |typed, value| {
            let op = atomic::named(&atomic::OPS, text(value)?)?;
            set_atomic(typed, |atomic| atomic.op = op)
        },
    },
    OptionDef {
        id: Opt::CswapOp,
        short: Some('C'),
        long: "cswap-op",
        value: Some("CMP"),
        governs: Governs::Run,
        help: |tool| {
            let default = atomic_default(tool, |atomic| atomic.cswap.to_string());
            format!("Comparison of CSWAP (default: {default})")
        },
        set: |typed, value| {
            let cswap = atomic::named(&atomic::CSWAP_OPS, text(value)?)?;
            set_atomic(typed, |atomic| atomic.cswap = cswap)
        },
    },
    OptionDef {
        id: Opt::AtomicType,
        short: Some('T'),
        long: "atomic-type",
        value: Some("TYPE"),
        governs: Governs::Run,
        help: |tool| {
            let default = atomic_default(tool, |atomic| atomic.ty.to_string());
            format!("Atomic type (default: {default})")
        },
        set: |typed, value| {
            let ty = atomic::named(&atomic::TYPES, text(value)?)?;
            set_atomic(typed, |atomic| atomic.ty = ty)
        },
    },
    OptionDef {
        id: Opt::Fetching,
        short: None,
        long: "fetching",
        value: None,
        governs: Governs::Run,
        help: |_| {
            "Use fetching operations: the target's value before\nthe operation comes back".into()
        },
        set: |typed, _| set_atomic(typed, |atomic| atomic.fetching = true),
    },
    OptionDef {
        id: Opt::Matching,
        short: None,
        long: "matching",
        value: None,
        governs: Governs::Run,
        help: |_| {
            "Use matching list entries at the target; implies\n--unrestricted and --no-idc".into()
        },
        set: |typed, _| set_atomic(typed, |atomic| atomic.matching = true),
    },
    OptionDef {
        id: Opt::ListSize,
        short: Some('l'),
        long: "list-size",
        value: Some("LIST_SIZE"),
        governs: Governs::Run,
        help: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.list_size);
            format!(
                "Operations per iteration, rung for together\n(default: {default}); at most {MAX_LIST_SIZE}"
            )
        },
        set: |typed, value| {
            let list_size = within(text(value)?, 1..=MAX_LIST_SIZE.into())? as u16;
            set_lists(typed, |lists| lists.list_size = list_size)
        },
    },
    OptionDef {
        id: Opt::Bidirectional,
        short: Some('b'),
        long: "bidirectional",
        value: None,
        governs: Governs::Run,
        help: |_| "Measure both directions at a time".into(),
        set: |typed, _| set_lists(typed, |lists| lists.bidirectional = true),
    },
    OptionDef {
        id: Opt::BufSz,
        short: None,
        long: "buf-sz",
        value: Some("BUF_SIZE"),
        governs: Governs::Run,
        help: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.max_buffer);
            format!(
                "Largest buffer in bytes, wrapped around in where a\nlist does not fit (default: {default})"
            )
        },
        set: |typed, value| {
            let max_buffer = within(text(value)?, 1..=u64::MAX)?;
            set_lists(typed, |lists| lists.max_buffer = max_buffer)
        },
    },
    OptionDef {
        id: Opt::BufAlign,
        short: None,
        long: "buf-align",
        value: Some("BUF_ALIGN"),
        governs: Governs::Run,
        help: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.alignment);
            format!("Spacing of operations in the buffers in bytes\n(default: {default})")
        },
        set: |typed, value| {
            let alignment = within(text(value)?, 1..=MAX_ALIGNMENT)?;
            set_lists(typed, |lists| lists.alignment = alignment)
        },
    },
    OptionDef {
        id: Opt::Rdzv,
        short: Some('R'),
        long: "rdzv",
        value: None,
        governs: Governs::Run,
        help: |_| "Use rendezvous transfers; implies --no-idc".into(),
        set: |typed, _| {
            typed.run.rdzv = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Percentiles,
        short: None,
        long: "percentiles",
        value: None,
        governs: Governs::Results,
        help: |_| "Print percentiles after the table".into(),
        set: |typed, _| {
            typed.outputs.percentiles = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Json,
        short: None,
        long: "json",
        value: Some("[FILE]"),
        governs: Governs::Results,
        help: |_| {
            "Write the results as JSON to FILE; without FILE\nto standard output, and the text to standard error"
                .into()
        },
        set: |typed, value| {
            typed.outputs.json = Some(place(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Csv,
        short: None,
        long: "csv",
        value: Some("[FILE]"),
        governs: Governs::Results,
        help: |_| "The same as comma-separated values".into(),
        set: |typed, value| {
            typed.outputs.csv = Some(place(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::HdrLog,
        short: None,
        long: "hdr-log",
        value: Some("FILE"),
        governs: Governs::Results,
        help: |_| {
            "Write the distribution of the latencies to FILE as\nan HdrHistogram log (V2)".into()
        },
        set: |typed, value| {
            if value == LEFT_OUT {
                return Err(
                    "expected the name of a file: it is no format for standard output".into(),
                );
            }
            typed.outputs.hdr_log = Some(file(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Expect,
        short: None,
        long: "expect",
        value: Some("LIST"),
        governs: Governs::Results,
        help: |tool| {
            let (example, figures) = match tool.defaults.lists {
                Some(_) => ("bw>=23GB/s,bw<=25.5GB/s", "bw, rate"),
                None => ("p99<4us,mean<2.2us", "min, max,\nmean, stddev, pN"),
            };
            format!(
                "Judge the figures of each size, such as\n\"{example}\"; exit status 3 if one\n\
                 is not as expected; there are {figures}"
            )
        },
        set: |typed, value| {
            // Each of several is to be met.
            typed
                .outputs
                .expectations
                .extend(expect::parse(text(value)?)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Quiet,
        short: None,
        long: "quiet",
        value: None,
        governs: Governs::Results,
        help: |_| {
            "Show no progress on a terminal, and no text where\nanother format has standard output"
                .into()
        },
        set: |typed, _| {
            typed.outputs.quiet = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::TxGpu,
        short: Some('t'),
        long: "tx-gpu",
        value: Some("GPU"),
        governs: Governs::ThisProcess,
        help: |tool| {
            let implied = match tool.takes(Opt::NoIdc) {
                true => "; implies --no-idc",
                false => "",
            };
            format!(
                "GPU that holds the transmit buffer of this side\n(default: system memory){implied}"
            )
        },
        set: |typed, value| {
            typed.gpus.tx = Some(gpu_index(value)?);
            // The CPU, which would put the data into the command, cannot read it.
            typed.run.use_idc = false;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::RxGpu,
        short: Some('r'),
        long: "rx-gpu",
        value: Some("GPU"),
        governs: Governs::ThisProcess,
        help: |_| "GPU that holds the receive buffer of this side\n(default: system memory)".into(),
        set: |typed, value| {
            typed.gpus.rx = Some(gpu_index(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::GpuType,
        short: Some('g'),
        long: "gpu-type",
        value: Some("TYPE"),
        governs: Governs::ThisProcess,
        help: |_| "AMD, NVIDIA or INTEL (default: what is found)".into(),
        set: |typed, value| {
            typed.gpus.kind = Some(gpu::named(text(value)?).ok_or(gpu::GPU_TYPES)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::UseHp,
        short: None,
        long: "use-hp",
        value: Some("SIZE"),
        governs: Governs::Run,
        help: |_| "Huge pages for the data buffers: 2M or 1G\n(default: ordinary pages)".into(),
        set: |typed, value| {
            typed.run.huge_page = Some(huge_page(text(value)?).ok_or("expected 2M or 1G")?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Cpu,
        short: None,
        long: "cpu",
        value: Some("LIST|auto"),
        governs: Governs::ThisProcess,
        help: |_| {
            "Run on these CPUs (such as 2 or 0-3,8) and have the\n\
             buffers on their NUMA node; auto: one near the NIC\n\
             (default: any)"
                .into()
        },
        set: |typed, value| {
            typed.cpus = text(value)?.parse()?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Loopback,
        short: None,
        long: "loopback",
        value: None,
        governs: Governs::ThisProcess,
        help: |_| "Run server and client here, in one command".into(),
        set: |typed, _| {
            typed.loopback = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Bind,
        short: None,
        long: "bind",
        value: Some("ADDR"),
        governs: Governs::ThisProcess,
        help: |_| {
            "Server: address or name of this machine to listen\non (default: all, IPv4 and IPv6)"
                .into()
        },
        set: |typed, value| {
            let host = text(value)?;
            if host.is_empty() {
                return Err("expected an address or a name of this machine".into());
            }
            typed.bind = Some(host.to_owned());
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Persist,
        short: None,
        long: "persist",
        value: None,
        governs: Governs::ThisProcess,
        help: |_| "Server: serve one client after another, until\ntold to stop".into(),
        set: |typed, _| {
            typed.persist = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::ConnectTimeout,
        short: None,
        long: "connect-timeout",
        value: Some("SEC"),
        governs: Governs::ThisProcess,
        help: |_| {
            let default = DEFAULT_CONNECT_LIMIT.as_secs();
            format!(
                "Client: seconds for each address of the server\nto accept the connection (default: {default})"
            )
        },
        set: |typed, value| {
            typed.connect_timeout = Some(within(text(value)?, 1..=MAX_SECONDS)? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Wait,
        short: None,
        long: "wait",
        value: Some("SEC"),
        governs: Governs::ThisProcess,
        help: |_| {
            "Client: seconds to go on trying where no server\nlistens, or it serves another client (default: 0)".into()
        },
        set: |typed, value| {
            typed.wait = Some(within(text(value)?, 0..=MAX_SECONDS)? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Libcxi,
        short: None,
        long: "libcxi",
        value: Some("PATH"),
        governs: Governs::ThisProcess,
        help: |_| {
            format!(
                "Library to load for cxiN devices (default:\n${LIBCXI_VARIABLE}, else libcxi.so.1)"
            )
        },
        set: |typed, value| {
            if value.is_empty() {
                return Err("expected the path of a library".into());
            }
            typed.libcxi = Some(value.into());
            Ok(())
        },
    },
];

/// The definition of an option.
pub fn definition(id: Opt) -> &'static OptionDef {
    let defined = OPTIONS.iter().find(|option| option.id == id);
    defined.expect("each option is defined; a test counts them")
}

/// The options of `tool`, in the order of its help text.
pub fn of(tool: &Tool) -> impl Iterator<Item = &'static OptionDef> {
    tool.options().map(definition)
}

/// Longest wait that can be asked for: a week.
const MAX_SECONDS: u64 = 7 * 24 * 3600;

/// Where a document is to go: a file, or standard output where its name was left out.
pub fn place(value: &OsStr) -> Result<Place, String> {
    if value == LEFT_OUT {
        return Ok(Place::Stdout);
    }
    file(value).map(Place::File)
}

fn file(value: &OsStr) -> Result<PathBuf, String> {
    match value.is_empty() {
        true => Err("expected the name of a file".into()),
        false => Ok(value.into()),
    }
}

fn set_atomic(typed: &mut Typed, set: impl FnOnce(&mut Atomic)) -> Result<(), String> {
    if let Some(atomic) = &mut typed.run.atomic {
        set(atomic);
    }
    Ok(())
}

fn set_lists(typed: &mut Typed, set: impl FnOnce(&mut ListOptions)) -> Result<(), String> {
    if let Some(lists) = &mut typed.run.lists {
        set(lists);
    }
    Ok(())
}

fn atomic_default(tool: &Tool, text: impl FnOnce(Atomic) -> String) -> String {
    tool.defaults.atomic.map(text).unwrap_or_default()
}

fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "expected plain text".into())
}

/// The number of a GPU, which has eight bits on the control connection (wire.md 4.2).
fn gpu_index(value: &OsStr) -> Result<u8, String> {
    within(text(value)?, 0..=u8::MAX.into()).map(|index| index as u8)
}

/// Names of sizes, in any case.
fn huge_page(text: &str) -> Option<HugePage> {
    let sizes = [HugePage::Mib2, HugePage::Gib1];
    let is_named = |size: &HugePage| size.to_string().eq_ignore_ascii_case(text);
    sizes.into_iter().find(is_named)
}

/// `MIN` or `MIN:MAX`.
fn sizes(text: &str) -> Option<(u64, u64)> {
    match text.split_once(':') {
        None => {
            let size = decimal(text).filter(|size| is_size(*size))?;
            Some((size, size))
        }
        Some((min, max)) => {
            let (min, max) = (decimal(min)?, decimal(max)?);
            is_range(min, max).then_some((min, max))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_and_ranges() {
        assert_eq!(sizes("8"), Some((8, 8)));
        assert_eq!(sizes("7"), Some((7, 7)));
        assert_eq!(sizes("4294967295"), Some((4294967295, 4294967295)));
        assert_eq!(sizes("1:8192"), Some((1, 8192)));
        assert_eq!(sizes("64:64"), Some((64, 64)));
    }

    #[test]
    fn t24_malformed_sizes() {
        for text in [
            "",
            "0",
            "8x",
            "3:7",
            "8:4",
            "4294967296",
            "1:4294967296",
            "0:8",
            "1:",
            ":8",
            ":",
            "1:2:4",
            "1:abc",
            "1: 8",
            "-8",
            "8:12",
            "6:6",
        ] {
            assert_eq!(sizes(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn sizes_survive_anything(text in "[0-9:x -]{0,24}") {
            if let Some((min, max)) = sizes(&text) {
                prop_assert!(1 <= min && min <= max && max <= MAX_SIZE);
            }
        }
    }
}
