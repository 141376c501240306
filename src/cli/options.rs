//! The options of the tools: one block each, with syntax, help, manual and meaning.
//!
//! A tool lists the options that it takes (`Tool::options`). Parser, help text, manual pages and
//! completion are made from these definitions. Rules across several options are in `plan`.

use std::ffi::OsStr;

use cxi::gpu::GpuType;

use super::usage::{Completion, Entry, Value};
use super::values::{
    HUGE_PAGES, LEFT_OUT, file, gpu_index, huge_page, names, place, set_atomic, set_lists, sizes,
    text, words,
};
use crate::atomic::{self, Atomic};
use crate::device::{DEFAULT_DEVICE, LIBCXI_VARIABLE};
use crate::extensions::MAX_PAIRS;
use crate::gpu;
use crate::measure::{ClockChoice, Until};
use crate::number::{percent, time, within};
use crate::plan::expect;
use crate::plan::outputs::INTERVALS;
use crate::plan::typed::Typed;
use crate::plan::{DEFAULT_CONNECT_LIMIT, DEFAULT_PORT, DEFAULT_SVC_ID, DEFAULT_UNTIL_DURATION_S};
use crate::rate::RATES;
use crate::run_options::{MAX_ALIGNMENT, MAX_GAP_US, MAX_LIST_SIZE, MAX_SIZE, SIZES, SyncPoint};
use crate::tool::{Opt, Tool};

/// What an option governs when two processes measure together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Governs {
    /// The process that it is given to.
    ThisProcess,
    /// The run, on both sides. The client's option applies; a server ignores its own.
    Run,
    /// The output of the results, which the client has; a server ignores it.
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
    /// Its value; a switch has none.
    pub value: Option<Value>,
    /// What it governs.
    pub governs: Governs,
    /// Whether the legacy tools have it. An abbreviation of a legacy option never stands for an
    /// option that the legacy tools lack.
    pub legacy: bool,
    /// Whether each given value counts, and not only the last one.
    pub repeats: bool,
    /// Help text, in lines.
    pub help: fn(&Tool) -> String,
    /// Explanation in the manual, in Markdown. Syntax and default stand before and after it.
    pub manual: fn(&Tool) -> &'static str,
    /// Takes a value (empty for a switch, [`LEFT_OUT`] for an omitted value), or returns what is
    /// allowed.
    pub set: fn(&mut Typed, &OsStr) -> Result<(), String>,
}

impl OptionDef {
    /// Returns the option as help, manual and completion of `tool` show it.
    pub fn entry(&self, tool: &Tool) -> Entry {
        Entry {
            short: self.short,
            long: self.long,
            value: self.value,
            help: (self.help)(tool),
            manual: (self.manual)(tool),
        }
    }
}

/// Longest wait that a user can ask for, in seconds: a week.
const MAX_SECONDS: u64 = 7 * 24 * 3600;

/// All options.
pub static OPTIONS: [OptionDef; 51] = [
    OptionDef {
        id: Opt::Device,
        short: Some('d'),
        long: "device",
        value: Some(Value::new("DEV", Completion::Devices)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| {
            format!(
                "Device: cxiN, or softN for the built-in software\nNIC (default: {DEFAULT_DEVICE})"
            )
        },
        manual: |_| "The NIC to use: cxiN for a Cassini NIC, softN for a software NIC.",
        set: |typed, value| {
            typed.device = Some(text(value)?.parse()?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::SvcId,
        short: Some('v'),
        long: "svc-id",
        value: Some(Value::new("SVC_ID", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| format!("CXI service to work under (default: {DEFAULT_SVC_ID})"),
        manual: |_| {
            "The CXI service to work under, which determines the VNI and the resources of the NIC \
             that the user may have. Users without privileges need a service that admits them. \
             Both sides need services with the same VNI."
        },
        set: |typed, value| {
            typed.svc_id = Some(within(text(value)?, 1..=i32::MAX as u64)? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Port,
        short: Some('p'),
        long: "port",
        value: Some(Value::new("PORT", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| {
            format!(
                "TCP port of the server (default: {DEFAULT_PORT});\n0 on a server: any free port"
            )
        },
        manual: |_| {
            "The TCP port of the control connection: the server listens on it, and the client \
             connects to it. With 0 the server takes any free port and prints its number."
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
        value: Some(Value::new("ITERS", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| format!("Iterations per size (default: {})", tool.defaults.iters),
        manual: |tool| {
            if tool.measures_bandwidth() {
                "The number of measured iterations for each size. One iteration issues a list of \
                 *LIST_SIZE* operations together and waits until all of them are acknowledged."
            } else {
                "The number of measured operations for each size."
            }
        },
        set: |typed, value| {
            typed.run.iters = within(text(value)?, 1..=u64::MAX)?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Duration,
        short: Some('D'),
        long: "duration",
        value: Some(Value::new("SEC", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |_| "Seconds per size, instead of iterations".into(),
        manual: |_| "Measure each size for this number of seconds instead of iterations.",
        set: |typed, value| {
            typed.run.duration_s = Some(within(text(value)?, 1..=u32::MAX.into())? as u32);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Warmup,
        short: None,
        long: "warmup",
        value: Some(Value::new("WARMUP", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            format!(
                "Unmeasured iterations before each size (default: {})",
                tool.defaults.warmup
            )
        },
        manual: |_| "The number of operations before the measured ones, for each size.",
        set: |typed, value| {
            typed.run.warmup = within(text(value)?, 0..=u64::MAX)?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::LatencyGap,
        short: None,
        long: "latency-gap",
        value: Some(Value::new("USEC", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            format!(
                "Gap after each iteration in microseconds\n(default: {})",
                tool.defaults.gap_us
            )
        },
        manual: |_| {
            "The time to wait after each operation, in microseconds. It is not part of the \
             measured latency. With 0, each operation follows the previous one at once. A NIC or \
             a CPU that saves power when it is idle shows higher latencies with a gap."
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
        value: Some(Value::new("MIN[:MAX]", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            format!(
                "{} size in bytes (default: {}), or a range that\n\
                 doubles from MIN to MAX, both powers of 2\n\
                 (such as 1:8192); at most {MAX_SIZE}",
                tool.operation, tool.defaults.min_size
            )
        },
        manual: |_| {
            "The size in bytes, from 1 to 4294967295 (4 GiB - 1). With *MIN*:*MAX*, both powers \
             of two, the tool measures each power of two from *MIN* to *MAX*."
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
        legacy: true,
        repeats: false,
        help: |tool| {
            let operations = match tool.defaults.atomic {
                Some(_) => "AMOs".into(),
                None => tool.operations.to_lowercase(),
            };
            format!("Use unrestricted (ordered) {operations}")
        },
        manual: |_| {
            "Use unrestricted operations instead of restricted ones. The NICs deliver \
             unrestricted operations in order and keep state for them."
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
        legacy: true,
        repeats: false,
        help: |_| "Use DMA only, no Immediate Data Commands".into(),
        manual: |tool| {
            if tool.takes(Opt::AtomicOp) {
                "Do not put the operands into the command itself (Immediate Data Command): the \
                 NIC reads the first operand from memory."
            } else {
                "Never put the data into the command itself (Immediate Data Command): the NIC \
                 reads all data from memory. Without this option, data of up to 192 bytes is part \
                 of the command, up to 224 bytes in restricted writes."
            }
        },
        set: |typed, _| {
            typed.run.use_idc = false;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::NoHrp,
        short: None,
        long: "no-hrp",
        value: None,
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |_| "Use no High Rate Puts".into(),
        manual: |tool| {
            if tool.takes(Opt::AtomicOp) {
                "Do not use High Rate Puts, which the switch acknowledges instead of the target's \
                 NIC. Without this option, they carry all restricted operations that do not fetch, \
                 except UINT32 on early Cassini 1 NICs."
            } else {
                "Do not use High Rate Puts, which the switch acknowledges instead of the target's \
                 NIC. Without this option, they carry all restricted writes of up to 2048 bytes."
            }
        },
        set: |typed, _| {
            typed.run.use_hrp = false;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::NoLl,
        short: None,
        long: "no-ll",
        value: None,
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |_| "Issue commands with the doorbell, not through the\nlow-latency path".into(),
        manual: |_| {
            "Issue commands with the doorbell of the queue. Without this option, commands that \
             are small enough are written to the NIC through the low-latency path."
        },
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
        legacy: true,
        repeats: false,
        help: |_| "Print each sample; ignored with --duration".into(),
        manual: |_| {
            "Print each measured latency with its number, before the table. Ignored with \
             `--duration`."
        },
        set: |typed, _| {
            typed.run.report_all = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::AtomicOp,
        short: Some('A'),
        long: "atomic-op",
        value: Some(Value::new("OP", Completion::Words(|| words(&atomic::OPS)))),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            let default = atomic_default(tool, |atomic| atomic.op.to_string());
            format!("Atomic operation (default: {default}); see below")
        },
        manual: |_| {
            "The operation, in capital or small letters. Integers support all operations; FLOAT \
             and DOUBLE support MIN, MAX, SUM, SWAP and CSWAP; FLOAT_COMPLEX and DOUBLE_COMPLEX \
             support SUM, SWAP, and CSWAP with EQ or NE; UINT128 supports CSWAP with EQ."
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
        value: Some(Value::new(
            "CMP",
            Completion::Words(|| words(&atomic::CSWAP_OPS)),
        )),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            let default = atomic_default(tool, |atomic| atomic.cswap.to_string());
            format!("Comparison of CSWAP (default: {default})")
        },
        manual: |_| {
            "How CSWAP compares operand 2 with the value at the target. With LE, for example, the \
             value is replaced if operand 2 is less than or equal to it."
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
        value: Some(Value::new(
            "TYPE",
            Completion::Words(|| words(&atomic::TYPES)),
        )),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            let default = atomic_default(tool, |atomic| atomic.ty.to_string());
            format!("Atomic type (default: {default})")
        },
        manual: |_| {
            "The type of the value and of the operands, which determines the size of the \
             operation."
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
        legacy: true,
        repeats: false,
        help: |_| "Use fetching operations, which return the previous\nvalue of the target".into(),
        manual: |_| {
            "Use fetching operations, which return the previous value of the target. The measured \
             time ends when that value has arrived."
        },
        set: |typed, _| set_atomic(typed, |atomic| atomic.fetching = true),
    },
    OptionDef {
        id: Opt::Matching,
        short: None,
        long: "matching",
        value: None,
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |_| {
            "Use matching list entries at the target; implies\n--unrestricted and --no-idc".into()
        },
        manual: |_| {
            "Let the target find the memory by match bits. Implies `--unrestricted` and \
             `--no-idc`."
        },
        set: |typed, _| set_atomic(typed, |atomic| atomic.matching = true),
    },
    OptionDef {
        id: Opt::ListSize,
        short: Some('l'),
        long: "list-size",
        value: Some(Value::new("LIST_SIZE", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.list_size);
            format!(
                "Operations per iteration, issued with one doorbell\n\
                 (default: {default}); at most {MAX_LIST_SIZE}"
            )
        },
        manual: |_| {
            "The number of operations in one iteration. All their commands are written into the \
             transmit queue and issued with one doorbell. At most 16382."
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
        legacy: true,
        repeats: false,
        help: |_| "Measure both directions at the same time".into(),
        manual: |_| {
            "Measure both directions at the same time. Each side sends lists and replies to those \
             of the other side. The bandwidths of both sides are added, and both sides print the \
             sum. `--duration` suits this option better than a number of iterations."
        },
        set: |typed, _| set_lists(typed, |lists| lists.bidirectional = true),
    },
    OptionDef {
        id: Opt::BufSz,
        short: None,
        long: "buf-sz",
        value: Some(Value::new("BUF_SIZE", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.max_buffer);
            format!(
                "Largest buffer in bytes; longer lists reuse it from\n\
                 the start (default: {default})"
            )
        },
        manual: |_| {
            "The largest buffer to send from and to receive into, in bytes. The buffer is smaller \
             if all operations of a list, each aligned to *BUF_ALIGN*, fit into less. Longer \
             lists reuse the buffer from the start."
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
        value: Some(Value::new("BUF_ALIGN", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.alignment);
            format!("Spacing of operations in the buffers in bytes\n(default: {default})")
        },
        manual: |_| "The alignment of the operations within the buffers, in bytes.",
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
        legacy: true,
        repeats: false,
        help: |_| "Use rendezvous transfers; implies --no-idc".into(),
        manual: |_| {
            "Use rendezvous transfers: the target's NIC receives a notice of the message and \
             fetches its data. Implies `--no-idc`."
        },
        set: |typed, _| {
            typed.run.rdzv = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Pairs,
        short: Some('P'),
        long: "pairs",
        value: Some(Value::new("PAIRS", Completion::Nothing)),
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| {
            format!(
                "Pairs of queues that work side by side, each with\n\
                 its own list and buffers (default: 1); at most {MAX_PAIRS}"
            )
        },
        manual: |_| {
            "The number of pairs of queues, 1 to 64. Each pair has its own command queues, list, \
             buffers and portal, and all work side by side: a pair issues its next list as soon as \
             its last one is complete. Iterations, list size and buffer size are those of one pair; \
             the results are those of all pairs together, and a line after the table names the \
             slowest one. Pairs are numbered from 0. The peer must be cxidiag. Not with `--rdzv`."
        },
        set: |typed, value| {
            typed.run.extensions.pairs = within(text(value)?, 1..=MAX_PAIRS.into())? as u16;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Threads,
        short: None,
        long: "threads",
        value: Some(Value::new("THREADS", Completion::Nothing)),
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| {
            "Threads that drive the pairs, on CPUs near the NIC\n\
             (default: 1); without --pairs, one pair each"
                .into()
        },
        manual: |_| {
            "The number of threads that drive the pairs, at most one for each pair; without \
             `--pairs`, each thread drives one pair. Each thread has a CPU of its own near the NIC, \
             or of those that `--cpu` lists, as long as there are enough. The peer must be cxidiag."
        },
        set: |typed, value| {
            typed.run.extensions.threads = within(text(value)?, 1..=MAX_PAIRS.into())? as u16;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Reverse,
        short: None,
        long: "reverse",
        value: None,
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| "The server issues the operations, not the client".into(),
        manual: |_| {
            "Let the server issue the operations, with the client as their target. Both sides print \
             the server's operations. The peer must be cxidiag. Not with `--bidirectional` or \
             `--interval`: the client does not see the operations while they are measured."
        },
        set: |typed, _| {
            typed.run.extensions.reverse = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::BothEnds,
        short: None,
        long: "both-ends",
        value: None,
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| "Show each side's own view after the table".into(),
        manual: |_| {
            "Show, in one table after the results, what each side has seen itself: operations issued \
             and arrived, time, bandwidths in both directions, and the CPU time of its first measuring \
             thread. Arrived operations are counted by the NIC of the target, in `send-bw` by its \
             software. They are operations, not bytes that flow in or out: a read that arrives sends its \
             data back. High Rate Puts are off: they are acknowledged before they arrive. The peer must \
             be cxidiag."
        },
        set: |typed, _| {
            typed.run.extensions.both_ends = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Rate,
        short: None,
        long: "rate",
        value: Some(Value::new("RATE", Completion::Nothing)),
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| {
            "Issue at this rate: operations (1000, 20kop/s) or\nbytes (500MB/s, 16Gb/s) per second"
                .into()
        },
        manual: |tool| {
            if tool.measures_bandwidth() {
                "Start each list at its intended time, so that a side issues this number of \
                 operations (`1000`, `20kop/s`, `1Mop/s`) or bytes (`500MB/s`, `2GiB/s`, `16Gb/s`) \
                 per second, all pairs together. A list that is late is issued at once. A line \
                 after the table names each size whose rate was not reached."
            } else {
                "Start each measured operation at its intended time, so that this number of \
                 operations (`1000`, `20kop/s`, `1Mop/s`) or bytes (`500MB/s`, `2GiB/s`, `16Gb/s`) \
                 per second are issued, and count the latency from there: an operation that waits \
                 behind a slow one shows this wait. The warm-up has no intended times. A line after \
                 the table names each size whose rate was not reached. Excludes `--latency-gap`."
            }
        },
        set: |typed, value| {
            typed.run.extensions.rate = Some(text(value)?.parse().map_err(|()| RATES)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Verify,
        short: None,
        long: "verify",
        value: None,
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| "Check the received data after each size".into(),
        manual: |_| {
            "Number the data by place and size, and check after each size that the receiving side \
             has the data of the last operations. Data that a later operation has overwritten is \
             not checked. A wrong byte ends the run with exit status 1 \
             and one line that names size, place, found and expected bytes. The check is not part \
             of the measurement. Both sides must be cxidiag."
        },
        set: |typed, _| {
            typed.run.extensions.verify = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Until,
        short: None,
        long: "until",
        value: Some(Value::new("PERCENT", Completion::Nothing)),
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| {
            format!(
                "Measure each size until the 95% interval of the\n\
                 median lies within PERCENT of it, at most for the\n\
                 --duration ({DEFAULT_UNTIL_DURATION_S} s if not given); exit status 3 if a\n\
                 median stays unstable"
            )
        },
        manual: |_| {
            "Measure each size until both ends of the 95 % confidence interval of the median lie \
             within *PERCENT* of the median, such as 1%. A size takes at least 100 samples and at \
             most the time of `--duration`, 10 seconds if that is not given. A table shows the \
             medians and their intervals; a median that did not reach the limit is shown as \
             *unstable*, and the exit status is then 3. `send-lat` needs a server that is a cxidiag."
        },
        set: |typed, value| {
            let limit = percent(text(value)?).filter(|percent| *percent > 0.0);
            let percent = limit.ok_or("expected a percentage above 0, such as 1%")?;
            typed.until = Some(Until { percent });
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Clock,
        short: None,
        long: "clock",
        value: Some(Value::new(
            "CLOCK",
            Completion::Words(|| ClockChoice::NAMES.map(|(name, _)| name.to_owned()).to_vec()),
        )),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| {
            "Clock that measures: auto, tsc (x86-64), cntvct\n\
             (aarch64) or monotonic-raw (default: auto)"
                .into()
        },
        manual: |_| {
            "The clock that measures the latencies. *tsc* is the time stamp counter of x86-64, \
             *cntvct* the generic timer of aarch64, *monotonic-raw* CLOCK_MONOTONIC_RAW of Linux. \
             *auto* uses the counter of the CPU if its rate is constant and Linux uses it as its \
             clock source, and CLOCK_MONOTONIC_RAW otherwise. The JSON document names the clock, \
             its frequency and its drift."
        },
        set: |typed, value| {
            typed.clock = text(value)?.parse()?;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::LegacySync,
        short: None,
        long: "legacy-sync",
        value: None,
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| "Wait for the peer over TCP before each iteration,\nlike the legacy tools".into(),
        manual: |_| {
            "Let both sides wait for each other on the control connection (TCP) before each \
             iteration, as the legacy tools do. Without this option, two cxidiag processes wait \
             for each other once for each size. The wait is not measured, but the system calls \
             before each message make it slower. Use this option to compare results with older \
             ones. With a legacy peer, both sides always wait before each iteration."
        },
        set: |typed, _| {
            typed.run.sync = SyncPoint::Iteration;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::ShowError,
        short: None,
        long: "show-error",
        value: None,
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Print what the tool itself adds to a latency".into(),
        manual: |_| {
            "Print one line after the table about what the tool itself adds to a latency: the cost \
             of reading the clock, of issuing a command and of polling an event, measured without \
             a NIC. With `--percentiles`, a tilde (~) marks a percentile that differs from the one \
             before it by less than the spread of the tool."
        },
        set: |typed, _| {
            typed.outputs.show_error = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Percentiles,
        short: None,
        long: "percentiles",
        value: None,
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Print percentiles after the table".into(),
        manual: |_| {
            "Print percentiles of the latencies after the table: 50, 90, 99, 99.9 and 99.99 \
             percent. A star marks a percentile with fewer than ten samples above it."
        },
        set: |typed, _| {
            typed.outputs.percentiles = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Interval,
        short: None,
        long: "interval",
        value: Some(Value::new("TIME", Completion::Nothing)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |tool| {
            let figures = if tool.measures_bandwidth() {
                "bandwidth and packet rate"
            } else {
                "mean and p99"
            };
            format!(
                "Print {figures} of each interval of\nTIME while a size is measured, such as 100ms or 1s"
            )
        },
        manual: |tool| {
            if tool.measures_bandwidth() {
                "Print one row for each interval of *TIME* while a size is measured: operations, \
                 bandwidth and packet rate of this side. Minimum, 5th percentile and maximum of \
                 the intervals follow. *TIME* is a number with one of the units ns, us, ms, s \
                 and m, in seconds without a unit, from 1 ms to one hour. JSON and CSV have the \
                 intervals as well."
            } else {
                "Print one row for each interval of *TIME* while a size is measured: operations, \
                 mean and 99th percentile of their latencies. Minimum, 5th percentile and maximum \
                 of the intervals follow. *TIME* is a number with one of the units ns, us, ms, s \
                 and m, in seconds without a unit, from 1 ms to one hour. JSON and CSV have the \
                 intervals as well."
            }
        },
        set: |typed, value| {
            typed.outputs.interval = Some(time(text(value)?, INTERVALS)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Json,
        short: None,
        long: "json",
        value: Some(Value::optional("FILE", Completion::Files)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| {
            "Write the results as JSON to FILE; without FILE, to\n\
             standard output, and the text to standard error"
                .into()
        },
        manual: |_| {
            "Write the results as one JSON document to *FILE*. Without *FILE*, the document goes \
             to standard output, and the text to standard error."
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
        value: Some(Value::optional("FILE", Completion::Files)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| "Write the results as comma-separated values; FILE\nas for --json".into(),
        manual: |_| {
            "Write the results as a table of comma-separated values to *FILE*. Without *FILE*, \
             the table goes to standard output, and the text to standard error."
        },
        set: |typed, value| {
            typed.outputs.csv = Some(place(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::HdrLog,
        short: None,
        long: "hdr-log",
        value: Some(Value::new("FILE", Completion::Files)),
        governs: Governs::Results,
        legacy: false,
        repeats: false,
        help: |_| {
            "Write the distribution of the latencies to FILE as\nan HdrHistogram log (version 2)"
                .into()
        },
        manual: |_| {
            "Write the distribution of the latencies to *FILE*, as a log of histograms (version \
             2) that the tools of HdrHistogram read."
        },
        set: |typed, value| {
            if value == LEFT_OUT {
                return Err(
                    "expected the name of a file: this format cannot go to standard output".into(),
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
        value: Some(Value::new("LIST", Completion::Nothing)),
        governs: Governs::Results,
        legacy: false,
        repeats: true,
        help: |tool| {
            let (example, metrics) = match tool.defaults.lists {
                Some(_) => ("bw>=23GB/s,bw<=25.5GB/s", "bw, rate"),
                None => ("p99<4us,mean<2.2us", "min, max,\nmean, stddev, pN"),
            };
            format!(
                "Check each size against bounds such as\n\"{example}\"; exit status 3 if any\n\
                 fails. Metrics: {metrics}"
            )
        },
        manual: |tool| {
            if tool.measures_bandwidth() {
                "Check the metrics of each size, and exit with status 3 if any check fails. \
                 *LIST* holds bounds, separated by commas: a metric, one of `<`, `<=`, `>`, `>=`, \
                 a number, and a unit. The metrics are bw, in MB/s or GB/s, and rate, in pkt/s, \
                 kpkt/s or Mpkt/s. All lists that are given apply."
            } else {
                "Check the metrics of each size, and exit with status 3 if any check fails. \
                 *LIST* holds bounds, separated by commas: a metric, one of `<`, `<=`, `>`, `>=`, \
                 a number, and a unit. The metrics are min, max, mean, stddev and percentiles \
                 such as p99, in ns, us, ms or s. All lists that are given apply."
            }
        },
        set: |typed, value| {
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
        legacy: false,
        repeats: false,
        help: |_| {
            "Show no progress on a terminal, and no text if\nanother format has standard output"
                .into()
        },
        manual: |_| {
            "Show no progress on a terminal, and no text if another format has standard \
             output."
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
        value: Some(Value::new("GPU", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |tool| {
            let implied = if tool.takes(Opt::NoIdc) {
                "; implies --no-idc"
            } else {
                ""
            };
            format!(
                "GPU that holds the transmit buffer of this side\n(default: system memory){implied}"
            )
        },
        manual: |_| {
            "Put the transmit buffer of this side into the memory of a GPU; 0 is the first GPU of \
             its type. The other side chooses its own buffers. Data in GPU memory is never part \
             of the command itself."
        },
        set: |typed, value| {
            typed.gpus.tx = Some(gpu_index(value)?);
            // The CPU cannot read GPU memory, and so cannot put the data into the command.
            typed.run.use_idc = false;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::RxGpu,
        short: Some('r'),
        long: "rx-gpu",
        value: Some(Value::new("GPU", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| "GPU that holds the receive buffer of this side\n(default: system memory)".into(),
        manual: |_| {
            "Put the receive buffer of this side into the memory of a GPU; 0 is the first GPU of \
             its type."
        },
        set: |typed, value| {
            typed.gpus.rx = Some(gpu_index(value)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::GpuType,
        short: Some('g'),
        long: "gpu-type",
        value: Some(Value::new(
            "TYPE",
            Completion::Words(|| names(&GpuType::ALL)),
        )),
        governs: Governs::ThisProcess,
        legacy: true,
        repeats: false,
        help: |_| "AMD, NVIDIA or INTEL (default: first type found)".into(),
        manual: |_| {
            "The type of the GPUs. Without this option, it is the first of AMD, NVIDIA and INTEL \
             for which the machine has a GPU and the runtime (HIP, CUDA, Level Zero)."
        },
        set: |typed, value| {
            typed.gpus.kind = Some(gpu::named(text(value)?).ok_or(gpu::GPU_TYPES)?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::UseHp,
        short: None,
        long: "use-hp",
        value: Some(Value::new("SIZE", Completion::Words(|| names(&HUGE_PAGES)))),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |_| "Huge pages for the data buffers: 2M or 1G\n(default: ordinary pages)".into(),
        manual: |_| {
            "Use huge pages of this size for the data buffers of both sides. They must have been \
             reserved on both nodes; before anything is allocated, the tool compares the number \
             of pages that it needs with the number that is free."
        },
        set: |typed, value| {
            typed.run.huge_page = Some(huge_page(text(value)?).ok_or("expected 2M or 1G")?);
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Cpu,
        short: None,
        long: "cpu",
        value: Some(Value::new(
            "LIST|auto",
            Completion::Words(|| vec!["auto".into()]),
        )),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Run on these CPUs (such as 2 or 0-3,8), with the\n\
             buffers on their NUMA node; auto: a CPU near the\nNIC (default: any)"
                .into()
        },
        manual: |_| {
            "The CPUs on which the measuring thread of this side may run, which also determine \
             the NUMA node of its buffers. With *auto*, it runs on one CPU of the node that the \
             NIC is plugged into, and not on CPU 0 if there is another. Without this option the \
             kernel chooses, and the tool prints a hint if it chose another node."
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
        legacy: false,
        repeats: false,
        help: |_| "Run server and client on this machine, in one\ncommand".into(),
        manual: |_| {
            "Run server and client in one command, on one machine and one NIC. No address may be \
             given."
        },
        set: |typed, _| {
            typed.loopback = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::Bind,
        short: None,
        long: "bind",
        value: Some(Value::new("ADDR", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Server: address or name of this machine to listen\non (default: all, IPv4 and IPv6)"
                .into()
        },
        manual: |_| "For a server: the address, or a name of this machine, to listen on.",
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
        legacy: false,
        repeats: false,
        help: |_| "Server: serve one client after another, until\ninterrupted".into(),
        manual: |_| {
            "For a server: serve one client after another, until a signal ends it. A failed run \
             is reported and does not end the server."
        },
        set: |typed, _| {
            typed.persist = true;
            Ok(())
        },
    },
    OptionDef {
        id: Opt::ConnectTimeout,
        short: None,
        long: "connect-timeout",
        value: Some(Value::new("SEC", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            let default = DEFAULT_CONNECT_LIMIT.as_secs();
            format!(
                "Client: seconds to wait for a connection to each\n\
                 address of the server (default: {default})"
            )
        },
        manual: |_| {
            "For a client: the number of seconds to wait for each address of the server to accept \
             the connection."
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
        value: Some(Value::new("SEC", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            "Client: seconds to keep trying if no server listens\n\
             or the server is busy (default: 0)"
                .into()
        },
        manual: |_| {
            "For a client: the number of seconds to keep trying if no server listens yet or the \
             server is busy with another client."
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
        value: Some(Value::new("PATH", Completion::Files)),
        governs: Governs::ThisProcess,
        legacy: false,
        repeats: false,
        help: |_| {
            format!(
                "Library to load for cxiN devices (default:\n${LIBCXI_VARIABLE}, else libcxi.so.1)"
            )
        },
        manual: |_| "The library to load for cxiN devices.",
        set: |typed, value| {
            if value.is_empty() {
                return Err("expected the path of a library".into());
            }
            typed.libcxi = Some(value.into());
            Ok(())
        },
    },
];

/// Returns the definition of an option.
pub fn definition(id: Opt) -> &'static OptionDef {
    let defined = OPTIONS.iter().find(|option| option.id == id);
    defined.expect("each option is defined; a test counts them")
}

/// Returns the options of `tool`, in the order of its help text.
pub fn of(tool: &Tool) -> impl Iterator<Item = &'static OptionDef> {
    tool.options().map(definition)
}

fn atomic_default(tool: &Tool, text: impl FnOnce(Atomic) -> String) -> String {
    tool.defaults.atomic.map(text).unwrap_or_default()
}
