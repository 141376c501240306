//! The options of what is measured: sizes, operations, how they are issued.

use super::tool_option::{Governs, ToolOption};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::{set_atomic, set_lists, sizes, text, words};
use crate::extensions::MAX_PAIRS;
use crate::run_options::{MAX_LIST_SIZE, RANGES, SIZES};
use crate::tool::{Opt, Tool};
use facts::atomic::{self, Atomic};
use facts::number::within;
use facts::size::MAX_SIZE;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    ToolOption {
        id: Opt::Size,
        short: Some('s'),
        long: "size",
        value: Some(Value::new("MIN[:MAX]", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        repeats: false,
        help: |tool| {
            let range = if tool.defaults.lists.is_some() {
                "or each power of\n2 from MIN to MAX"
            } else {
                "or a range that\ndoubles from MIN to MAX, both powers of 2"
            };
            format!(
                "{} size in bytes (default: {}), {range}\n\
                 (such as 1:8K); at most {MAX_SIZE}",
                tool.operation, tool.defaults.min_size
            )
        },
        manual: |tool| {
            if tool.defaults.lists.is_some() {
                "The size in bytes, from 1 to 4294967295 (4 GiB - 1). K, M and G after a number \
                 stand for 1024 bytes, 1024 K and 1024 M; KiB, MiB and GiB are the same. With \
                 *MIN*:*MAX*, the tool measures each power of two from *MIN* to *MAX*."
            } else {
                "The size in bytes, from 1 to 4294967295 (4 GiB - 1). K, M and G after a number \
                 stand for 1024 bytes, 1024 K and 1024 M; KiB, MiB and GiB are the same. With \
                 *MIN*:*MAX*, both powers of two, the tool measures each power of two from *MIN* \
                 to *MAX*."
            }
        },
        set: |typed, value| {
            let is_bandwidth = typed.run.lists.is_some();
            let allowed = if is_bandwidth { RANGES } else { SIZES };
            let (min, max) = sizes(text(value)?, is_bandwidth).ok_or(allowed)?;
            typed.run.min_size = min;
            typed.run.max_size = max;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::AllSizes,
        short: Some('a'),
        long: "all-sizes",
        value: None,
        governs: Governs::Run,
        legacy: false,
        repeats: false,
        help: |_| "Measure the sizes 1:8M, as with --size".into(),
        manual: |_| {
            "Measure each power of two from 1 byte to 8 MiB, as `--size=1:8M` does. Excludes \
             `--size`, which takes sizes of up to 4 GiB."
        },
        set: |typed, _| {
            (typed.run.min_size, typed.run.max_size) = (1, 8 << 20);
            Ok(())
        },
    },
    ToolOption {
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
    ToolOption {
        id: Opt::CswapOp,
        short: Some('C'),
        long: "cswap-op",
        value: Some(Value::new("CMP", Completion::Words(|| words(&atomic::CSWAP_OPS)))),
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
    ToolOption {
        id: Opt::AtomicType,
        short: Some('T'),
        long: "atomic-type",
        value: Some(Value::new("TYPE", Completion::Words(|| words(&atomic::TYPES)))),
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
    ToolOption {
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
];

fn atomic_default(tool: &Tool, text: impl FnOnce(Atomic) -> String) -> String {
    tool.defaults.atomic.map(text).unwrap_or_default()
}
