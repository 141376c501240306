//! The options of what is measured: sizes, operations, how they are issued.

use super::tool_option::{
    ALL, ATOMIC, BANDWIDTH, CHAINS, DATA, Def, HRP, IDC, KeyValue, LATENCY, LEGACY_LOOPBACK, LISTS,
    ONE_SIDED, OptionKey, OptionWord, SEND_LATENCY, SENDS, Takers, ToolOption, run, set, text,
};
use super::values::{set_atomic, set_lists, sizes, words};
use crate::depths::MAX_DEPTH;
use crate::extensions::{ChainStart, HOPS, MAX_FAN, MAX_HOPS, MAX_PAIRS};
use crate::run_options::{MAX_LIST_SIZE, RANGES, SIZES};
use crate::tool::Tool;
use crate::tools::has_one_status;
use cli::usage::Completion;
use facts::atomic::{self, Atomic};
use facts::number::{MAX_SIZE, within};

/// Lists have another option under the legacy name of `loopback-bw`.
const OWN_LISTS: Takers = |tool| tool.measures_bandwidth() && !has_one_status(tool);

/// Returns `--list-size`, by this name: `--num-xfers` under the legacy name of `loopback-bw`.
fn list_size(tool: &Tool, long: &'static str) -> Def {
    let default = tool.defaults.lists.map_or(0, |lists| lists.list_size);
    Def::text(long, "LIST_SIZE", |typed, value| {
        let list_size = within(value, 1..=MAX_LIST_SIZE.into())? as u16;
        set_lists(typed, |lists| lists.list_size = list_size)
    })
    .explained(format!(
        "Operations per iteration, issued with one doorbell (default: {default}); at most \
         {MAX_LIST_SIZE}"
    ))
}

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    run(DATA, |tool| {
        let range = if tool.defaults.lists.is_some() {
            "or each power of 2 from MIN to MAX"
        } else {
            "or a range that doubles from MIN to MAX, both powers of 2"
        };
        let text = format!(
            "{} size in bytes (default: {}), {range} (such as 1:8K); at most {MAX_SIZE}\n\n\
             K, M and G after a number stand for 1024 bytes, 1024 K and 1024 M; KiB, MiB and \
             GiB are the same.",
            tool.operation, tool.defaults.min_size
        );
        Def::text("size", "MIN[:MAX]", |typed, value| {
            let is_bandwidth = typed.run.lists.is_some();
            let allowed = if is_bandwidth { RANGES } else { SIZES };
            let (min, max) = sizes(value, is_bandwidth).ok_or(allowed)?;
            typed.run.min_size = min;
            typed.run.max_size = max;
            Ok(())
        })
        .letter('s')
        .explained(text)
    })
    .legacy()
    .frequent(),
    run(DATA, |_| {
        Def::switch("all-sizes", |typed| (typed.run.min_size, typed.run.max_size) = (1, 8 << 20))
            .letter('a')
            .explained(
                "Measure the sizes 1:8M, as with --size\n\n\
             The sizes are the powers of two from 1 byte to 8 MiB. Excludes --size, which takes \
             sizes of up to 4 GiB.",
            )
    }),
    run(ATOMIC, |tool| {
        let default = atomic_default(tool, |atomic| atomic.op.to_string());
        let text = format!(
            "Atomic operation (default: {default}); see below\n\n\
             OP is in capital or small letters. Integers support all operations; FLOAT and \
             DOUBLE support MIN, MAX, SUM, SWAP and CSWAP; FLOAT_COMPLEX and DOUBLE_COMPLEX \
             support SUM, SWAP, and CSWAP with EQ or NE; UINT128 supports CSWAP with EQ."
        );
        Def::text("atomic-op", "OP", |typed, value| {
            let op = atomic::named(&atomic::OPS, value)?;
            set_atomic(typed, |atomic| atomic.op = op)
        })
        .completed_by(Completion::Words(|| words(&atomic::OPS)))
        .letter('A')
        .explained(text)
    })
    .legacy()
    .frequent(),
    run(ATOMIC, |tool| {
        let default = atomic_default(tool, |atomic| atomic.cswap.to_string());
        let text = format!(
            "Comparison of CSWAP (default: {default})\n\n\
             CSWAP compares operand 2 with the value at the target. With LE, for example, the \
             value is replaced if operand 2 is less than or equal to it."
        );
        Def::text("cswap-op", "CMP", |typed, value| {
            let cswap = atomic::named(&atomic::CSWAP_OPS, value)?;
            set_atomic(typed, |atomic| atomic.cswap = cswap)
        })
        .completed_by(Completion::Words(|| words(&atomic::CSWAP_OPS)))
        .letter('C')
        .explained(text)
    })
    .legacy(),
    run(ATOMIC, |tool| {
        let default = atomic_default(tool, |atomic| atomic.ty.to_string());
        let text = format!(
            "Atomic type (default: {default})\n\n\
             The value and the operands have this type, which determines the size of the \
             operation."
        );
        Def::text("atomic-type", "TYPE", |typed, value| {
            let ty = atomic::named(&atomic::TYPES, value)?;
            set_atomic(typed, |atomic| atomic.ty = ty)
        })
        .completed_by(Completion::Words(|| words(&atomic::TYPES)))
        .letter('T')
        .explained(text)
    })
    .legacy()
    .frequent(),
    run(ATOMIC, |_| {
        Def::new("fetching", None, |typed, _| set_atomic(typed, |atomic| atomic.fetching = true))
            .explained(
                "Use fetching operations, which return the previous value of the target\n\n\
                 The measured time ends when that value has arrived.",
            )
    })
    .legacy(),
    run(ATOMIC, |_| {
        Def::new("matching", None, |typed, _| set_atomic(typed, |atomic| atomic.matching = true))
            .explained(
                "Use matching list entries at the target; implies --unrestricted and --no-idc\n\n\
                 The target finds the memory by match bits.",
            )
    })
    .legacy(),
    run(OWN_LISTS, |tool| list_size(tool, "list-size").letter('l')).legacy(),
    run(LEGACY_LOOPBACK, |tool| list_size(tool, "num-xfers").letter('n')).legacy().frequent(),
    run(BANDWIDTH, |_| {
        Def::new("bidirectional", None, |typed, _| {
            set_lists(typed, |lists| lists.bidirectional = true)
        })
        .letter('b')
        .explained(
            "Measure both directions at the same time\n\n\
             Each side sends lists and replies to the lists of the other side. The bandwidths of \
             both sides are added, and both sides print the sum. --duration suits this option \
             better than a number of iterations.",
        )
    })
    .legacy()
    .frequent(),
    run(BANDWIDTH, |_| {
        Def::switch("reverse", |typed| typed.run.extensions.reverse = true).explained(
            "The server issues the operations, not the client\n\n\
             The client is their target, and both sides print the server's operations. The \
             peer must be cxidiag. Not with --bidirectional or --interval: the client does \
             not see the operations while they are measured.",
        )
    })
    .words(&[OptionWord::switch(2, "reverse", |all| &mut all.reverse)]),
    run(LISTS, |tool| {
        let peer = needs_cxidiag(tool);
        let rendezvous = if tool.sends() { " Not with --rdzv." } else { "" };
        Def::number("pairs", "PAIRS", 1..=MAX_PAIRS, |typed| &mut typed.run.extensions.pairs)
            .letter('P')
            .explained(format!(
                "Pairs of queues that work side by side, each with its own list and buffers \
             (default: 1); at most {MAX_PAIRS}\n\n\
             Each pair has its own command queues and portal, too, and issues its next list \
             as soon as its last one is complete. Iterations, list size and buffer size are \
             those of one pair; the results are those of all pairs together, and a line after \
             the table names the slowest one. Pairs are numbered from 0.{peer}{rendezvous}"
            ))
    })
    .words(&[OptionWord::number(1, "pairs", |all| &mut all.pairs)]),
    run(LISTS, |tool| {
        let peer = needs_cxidiag(tool);
        Def::number("threads", "THREADS", 1..=MAX_PAIRS, |typed| &mut typed.run.extensions.threads)
            .explained(format!(
                "Threads that drive the pairs, on CPUs near the NIC (default: 1); without --pairs, \
             one pair each\n\n\
             At most one for each pair. Each thread has a CPU of its own near the NIC, or of \
             those that --cpu lists, as long as there are enough.{peer}"
            ))
    })
    .words(&[OptionWord::number(0, "threads", |all| &mut all.threads)]),
    run(SENDS, |_| {
        Def::switch("rdzv", |typed| typed.run.rdzv = true).letter('R').explained(
            "Use rendezvous transfers; implies --no-idc\n\n\
             The target's NIC receives a notice of the message and fetches its data.",
        )
    })
    .legacy(),
    run(SENDS, |_| {
        Def::value("posted", "MIN[:MAX]", str::parse, |typed| &mut typed.run.extensions.posted)
            .explained(format!(
                "List entries that match no message, before the one that does (default: 0), or a \
             range (such as 0:2048)\n\n\
             The receiving NIC compares each message with all of them, like the receives that \
             an MPI process has posted for other messages. Both sides append them. A range \
             has a row for MIN, for each number that is twice the one before, and for MAX; \
             send-lat prints the time of an entry from the rows. At most {MAX_DEPTH}, and no \
             more than the service has reserved, or a quarter of what is free. Not a range \
             with a range of sizes. The peer must be cxidiag."
            ))
    })
    .words(&[
        OptionWord::text(
            12,
            "posted",
            |all| text(all.posted.is_used() && !all.posted.is_range(), all.posted),
            |all, word| set(&mut all.posted, word),
        ),
        // A cxidiag that knows one number of posted entries does not know this name.
        OptionWord::text(
            13,
            "posted=RANGE",
            |all| text(all.posted.is_range(), all.posted),
            |all, word| set(&mut all.posted, word),
        ),
    ])
    .keys(&[
        OptionKey::new(
            "posted",
            "--posted: list entries before the one that receives messages, in send-lat and \
             send-bw; the smallest number of a range.",
            KeyValue::Number(|all| Some(all.posted.least)),
        )
        .printed("Posted Entries", |depths| depths.split(':').next()),
        OptionKey::new(
            "max_posted",
            "The largest number of --posted.",
            KeyValue::Number(|all| Some(all.posted.most)),
        )
        .printed("Posted Entries", |depths| depths.split(':').next_back()),
    ])
    .lines(&[("Posted Entries", |all| text(all.posted.is_used(), all.posted))]),
    run(SEND_LATENCY, |_| {
        Def::value("unexpected", "MIN[:MAX]", str::parse, |typed| {
            &mut typed.run.extensions.unexpected
        })
        .explained(format!(
            "Messages that nothing receives, before the one that each receive searches for \
             (default: none), or a range (such as 0:2048)\n\n\
             Each message arrives before its receive, as a message does whose MPI process has \
             posted no receive yet. Then the receiver posts the receive, and its NIC compares \
             it with the headers of all messages that have arrived before. Both sides keep \
             them. A range has rows as that of --posted. At most {MAX_DEPTH}, and no more \
             than the service has reserved list entries, or a quarter of what is free. Not \
             with --posted or --rdzv, and not a range with a range of sizes. The peer must be \
             cxidiag."
        ))
    })
    .words(&[OptionWord::text(
        14,
        "unexpected",
        |all| text(all.unexpected.is_used(), all.unexpected),
        |all, word| set(&mut all.unexpected, word),
    )])
    .keys(&[
        OptionKey::new(
            "unexpected",
            "--unexpected: messages before the one that each receive searches for, in send-lat; \
             the smallest number of a range.",
            KeyValue::Number(|all| Some(all.unexpected.least)),
        )
        .printed("Unexpected", |depths| depths.split(':').next()),
        OptionKey::new(
            "max_unexpected",
            "The largest number of --unexpected.",
            KeyValue::Number(|all| Some(all.unexpected.most)),
        )
        .printed("Unexpected", |depths| depths.split(':').next_back()),
    ])
    .lines(&[("Unexpected", |all| text(all.unexpected.is_used(), all.unexpected))]),
    run(ONE_SIDED, |tool| {
        let operations = match tool.defaults.atomic {
            Some(_) => "AMOs".into(),
            None => tool.operations.to_lowercase(),
        };
        let text = format!(
            "Use unrestricted (ordered) {operations}\n\n\
             The NICs deliver unrestricted operations in order and keep state for them."
        );
        Def::switch("unrestricted", |typed| typed.run.unrestricted = true).explained(text)
    })
    .legacy(),
    run(CHAINS, |tool| {
        let default = tool.defaults.extensions.hops;
        Def::text("hops", "HOPS", |typed, value| {
            typed.run.extensions.hops =
                within(value, 2..=MAX_HOPS.into()).map_err(|_| HOPS)? as u16;
            Ok(())
        })
        .explained(format!(
            "Puts of a chain, from NIC to NIC (default: {default}, or as many as fit); an \
             even number\n\n\
             The first put goes to the server, the second one back to the client, and so on; \
             the latency is the time of the chain divided by this number. Each side needs \
             half as many triggered operations (TLEs) of its service, and two more. At most \
             {MAX_HOPS}."
        ))
    })
    .words(&[OptionWord::number(9, "hops", |all| &mut all.hops)])
    .keys(&[OptionKey::new(
        "hops",
        "--hops: puts of a chain of trig-lat, from NIC to NIC.",
        KeyValue::Number(|all| (all.fan == 0).then_some(all.hops)),
    )
    .column()
    .printed("Hops", |hops| Some(hops))]),
    run(CHAINS, |_| {
        Def::text("start", "WAY", |typed, value| {
            const ALLOWED: &str = "expected put, counter or doorbell; chains that a GPU starts are \
                                   not supported";
            typed.run.extensions.start = ChainStart::named(value).ok_or(ALLOWED)?;
            Ok(())
        })
        .completed_by(Completion::Words(|| ChainStart::ALL.map(|start| start.to_string()).to_vec()))
        .explained(
            "How the client's CPU starts a chain: put, counter or doorbell (default: put)\n\n\
             'put': with a write, which is the first put of the chain. 'counter': with a command \
             in the trigger queue, which increments the counter that launches the first put. \
             'doorbell': with one store to the doorbell of that counter.",
        )
    })
    .words(&[OptionWord::text(
        10,
        "start",
        |all| text(all.start != ChainStart::Put, all.start),
        |all, word| ChainStart::named(word).map(|start| all.start = start),
    )])
    .keys(&[OptionKey::new(
        "start",
        "--start: how the client's CPU starts a chain: \"put\", \"counter\" or \"doorbell\".",
        KeyValue::Text(|all| all.start.to_string()),
    )
    .column()
    .printed("Chain Start", |start| Some(start))])
    .lines(&[("Chain Start", |all| Some(all.start.to_string()))]),
    run(CHAINS, |_| {
        Def::number("fan", "PUTS", 2..=MAX_FAN, |typed| &mut typed.run.extensions.fan).explained(
            format!(
                "Puts that one counter fires (default: a chain of hops)\n\n\
             The first put goes to the server and counts there; the count fires all others, \
             to the client. The latency ends when the last one has arrived; a line after the \
             table has the first arrival, and the triggered operations per second between \
             both. Server and client need this number of triggered operations (TLEs), and \
             some more. At most {MAX_FAN}. Not with --hops or --compare-write."
            ),
        )
    })
    .words(&[OptionWord::number(11, "fan", |all| &mut all.fan)])
    .keys(&[OptionKey::new(
        "fan",
        "--fan: puts of trig-lat that one counter fires together; 0 for hops one after the other.",
        KeyValue::Number(|all| Some(all.fan)),
    )
    .column()
    .printed("Fan", |puts| puts.split(' ').next())])
    .lines(&[
        ("Fan", |all| {
            text(
                all.fan > 0,
                format_args!("{} puts that one put fires; latency to the last", all.fan),
            )
        }),
        ("Hops", |all| text(all.fan == 0, all.hops)),
        ("Hop", |all| {
            text(
                all.fan == 0,
                format_args!("one put from NIC to NIC; latency = chain time / {}", all.hops),
            )
        }),
    ]),
    run(CHAINS, |_| {
        Def::switch("compare-write", |typed| typed.run.extensions.compare_write = true).explained(
            "After the chains of each size, also measure writes that the client's CPU issues\n\n\
             The writes are DMA commands like the puts of the chains. A line after the table \
             has the median of a write, and its difference from the median of a hop. A write \
             also takes the time of the CPU, of its command and its event on PCIe, and of the \
             response of the target's NIC; a hop takes the time in which a NIC counts a put \
             and launches the next one. Warm-up, iterations, duration and gap apply to both.",
        )
    })
    .words(&[OptionWord::switch(15, "compare-write", |all| &mut all.compare_write)])
    .keys(&[OptionKey::new(
        "compare_write",
        "--compare-write: whether writes were measured after the chains of each size.",
        KeyValue::Switch(|all| all.compare_write),
    )]),
    run(CHAINS, |_| {
        Def::switch("restricted", |typed| typed.run.unrestricted = false).explained(
            "Use restricted (unordered) puts\n\n\
             The NICs keep no state for restricted puts. The size is at most 2048 bytes, one \
             packet.",
        )
    }),
    run(IDC, |tool| {
        let data = if !tool.has_data() {
            "With this option, the NIC reads the first operand from memory, not from the \
             command."
        } else {
            "With this option, the NIC reads all data from memory. Without it, data of up to \
             192 bytes is part of the command, up to 224 bytes in restricted writes."
        };
        let text = format!("Use DMA only, no Immediate Data Commands\n\n{data}");
        Def::switch("no-idc", |typed| typed.run.use_idc = false).explained(text)
    })
    .legacy(),
    run(HRP, |tool| {
        let carried = if !tool.has_data() {
            "operations that do not fetch, except UINT32 on early Cassini 1 NICs"
        } else {
            "writes of up to 2048 bytes"
        };
        let text = format!(
            "Use no High Rate Puts\n\n\
             The switch acknowledges High Rate Puts instead of the target's NIC. Without this \
             option, they carry all restricted {carried}."
        );
        Def::switch("no-hrp", |typed| typed.run.use_hrp = false).explained(text)
    })
    .legacy(),
    run(LATENCY, |_| {
        Def::switch("no-ll", |typed| typed.run.use_ll = false).explained(
            "Issue commands with the doorbell, not through the low-latency path\n\n\
             Without this option, commands that are small enough are written to the NIC through \
             that path.",
        )
    })
    .legacy(),
    run(ALL, |tool| {
        let peer = needs_cxidiag(tool);
        Def::switch("verify", |typed| typed.run.extensions.verify = true).explained(format!(
            "Check the received data after each size\n\n\
             The data is numbered by place and size, and must be the data of the last \
             operations. Data that a later operation has overwritten is not checked. A wrong \
             byte ends the run with exit status 1 and one line that names size, place, found \
             and expected bytes. The check is not part of the measurement.{peer}"
        ))
    })
    .words(&[OptionWord::switch(4, "verify", |all| &mut all.verify)]),
];

/// The sentence of an option that legacy tools lack, for tools with a peer.
fn needs_cxidiag(tool: &Tool) -> &'static str {
    if tool.has_peer() { " The peer must be cxidiag." } else { "" }
}

fn atomic_default(tool: &Tool, text: impl FnOnce(Atomic) -> String) -> String {
    tool.defaults.atomic.map(text).unwrap_or_default()
}
