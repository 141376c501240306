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

/// `--list-size`; it is `--num-xfers` under the legacy name of `loopback-bw`.
const LIST_SIZE: ToolOption = ToolOption {
    id: Opt::ListSize,
    short: Some('l'),
    long: "list-size",
    value: Some(Value::new("LIST_SIZE", Completion::Nothing)),
    governs: Governs::Run,
    legacy: true,
    text: |tool| {
        let default = tool.defaults.lists.map_or(0, |lists| lists.list_size);
        format!(
            "Operations per iteration, issued with one doorbell (default: {default}); at \
             most {MAX_LIST_SIZE}"
        )
    },
    set: |typed, value| {
        let list_size = within(text(value)?, 1..=MAX_LIST_SIZE.into())? as u16;
        set_lists(typed, |lists| lists.list_size = list_size)
    },
};

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    ToolOption {
        id: Opt::Size,
        short: Some('s'),
        long: "size",
        value: Some(Value::new("MIN[:MAX]", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        text: |tool| {
            let range = if tool.defaults.lists.is_some() {
                "or each power of 2 from MIN to MAX"
            } else {
                "or a range that doubles from MIN to MAX, both powers of 2"
            };
            format!(
                "{} size in bytes (default: {}), {range} (such as 1:8K); at most {MAX_SIZE}\n\n\
                 K, M and G after a number stand for 1024 bytes, 1024 K and 1024 M; KiB, MiB and GiB \
                 are the same.",
                tool.operation, tool.defaults.min_size
            )
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
        text: |_| {
            "Measure the sizes 1:8M, as with --size\n\n\
             The sizes are the powers of two from 1 byte to 8 MiB. Excludes --size, which takes \
             sizes of up to 4 GiB."
                .into()
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
        text: |tool| {
            let default = atomic_default(tool, |atomic| atomic.op.to_string());
            format!(
                "Atomic operation (default: {default}); see below\n\n\
                 OP is in capital or small letters. Integers support all operations; FLOAT and \
                 DOUBLE support MIN, MAX, SUM, SWAP and CSWAP; FLOAT_COMPLEX and DOUBLE_COMPLEX \
                 support SUM, SWAP, and CSWAP with EQ or NE; UINT128 supports CSWAP with EQ."
            )
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
        text: |tool| {
            let default = atomic_default(tool, |atomic| atomic.cswap.to_string());
            format!(
                "Comparison of CSWAP (default: {default})\n\n\
                 CSWAP compares operand 2 with the value at the target. With LE, for example, the \
                 value is replaced if operand 2 is less than or equal to it."
            )
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
        text: |tool| {
            let default = atomic_default(tool, |atomic| atomic.ty.to_string());
            format!(
                "Atomic type (default: {default})\n\n\
                 The value and the operands have this type, which determines the size of the \
                 operation."
            )
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
        text: |_| {
            "Use fetching operations, which return the previous value of the target\n\n\
             The measured time ends when that value has arrived."
                .into()
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
        text: |_| {
            "Use matching list entries at the target; implies --unrestricted and --no-idc\n\n\
             The target finds the memory by match bits."
                .into()
        },
        set: |typed, _| set_atomic(typed, |atomic| atomic.matching = true),
    },
    LIST_SIZE,
    ToolOption { id: Opt::NumXfers, short: Some('n'), long: "num-xfers", ..LIST_SIZE },
    ToolOption {
        id: Opt::Bidirectional,
        short: Some('b'),
        long: "bidirectional",
        value: None,
        governs: Governs::Run,
        legacy: true,
        text: |_| {
            "Measure both directions at the same time\n\n\
             Each side sends lists and replies to the lists of the other side. The bandwidths of \
             both sides are added, and both sides print the sum. --duration suits this option \
             better than a number of iterations."
                .into()
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
        text: |_| {
            "The server issues the operations, not the client\n\n\
             The client is their target, and both sides print the server's operations. The peer \
             must be cxidiag. Not with --bidirectional or --interval: the client does not see the \
             operations while they are measured."
                .into()
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
        text: |_| {
            format!(
                "Pairs of queues that work side by side, each with its own list and buffers \
                 (default: 1); at most {MAX_PAIRS}\n\n\
                 Each pair has its own command queues and portal, too, and issues its next list \
                 as soon as its last one is complete. Iterations, list size and buffer size are \
                 those of one pair; the results are those of all pairs together, and a line after \
                 the table names the slowest one. Pairs are numbered from 0. The peer must be \
                 cxidiag. Not with --rdzv."
            )
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
        text: |_| {
            "Threads that drive the pairs, on CPUs near the NIC (default: 1); without --pairs, \
             one pair each\n\n\
             At most one for each pair. Each thread has a CPU of its own near the NIC, or of \
             those that --cpu lists, as long as there are enough. The peer must be cxidiag."
                .into()
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
        text: |_| {
            "Use rendezvous transfers; implies --no-idc\n\n\
             The target's NIC receives a notice of the message and fetches its data."
                .into()
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
        text: |tool| {
            let operations = match tool.defaults.atomic {
                Some(_) => "AMOs".into(),
                None => tool.operations.to_lowercase(),
            };
            format!(
                "Use unrestricted (ordered) {operations}\n\n\
                 The NICs deliver unrestricted operations in order and keep state for them."
            )
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
        text: |tool| {
            let data = if tool.takes(Opt::AtomicOp) {
                "With this option, the NIC reads the first operand from memory, not from the command."
            } else {
                "With this option, the NIC reads all data from memory. Without it, data of up to 192 \
                 bytes is part of the command, up to 224 bytes in restricted writes."
            };
            format!("Use DMA only, no Immediate Data Commands\n\n{data}")
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
        text: |tool| {
            let carried = if tool.takes(Opt::AtomicOp) {
                "operations that do not fetch, except UINT32 on early Cassini 1 NICs"
            } else {
                "writes of up to 2048 bytes"
            };
            format!(
                "Use no High Rate Puts\n\n\
                 The switch acknowledges High Rate Puts instead of the target's NIC. Without this \
                 option, they carry all restricted {carried}."
            )
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
        text: |_| {
            "Issue commands with the doorbell, not through the low-latency path\n\n\
             Without this option, commands that are small enough are written to the NIC through \
             that path."
                .into()
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
        text: |_| {
            "Check the received data after each size\n\n\
             The data is numbered by place and size, and must be the data of the last operations. \
             Data that a later operation has overwritten is not checked. A wrong byte ends the \
             run with exit status 1 and one line that names size, place, found and expected \
             bytes. The check is not part of the measurement. Both sides must be cxidiag."
                .into()
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
