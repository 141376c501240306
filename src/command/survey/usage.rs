//! What `survey` takes.

use std::time::Duration;

use crate::command::output::{json_entry, metrics_entries};
use facts::number::time_text;
use plan::cli::usage::{Completion, Entry, Usage, Value};
use plan::tools::TOOLS;

/// Default of `--pair-time`. The thread of a software NIC takes up to 20 ms before it polls without
/// sleeping.
pub const PAIR_TIME: Duration = Duration::from_millis(50);

/// Default of `--pairs`.
pub const PAIRS: &str = "random:4";

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag survey".into(),
        about: "Measure all NICs of a cluster, and name what is slow",
        synopsis: vec![
            (
                "srun --ntasks-per-node=1 --mpi=none cxidiag survey [TOOL...] [OPTIONS]".into(),
                "",
            ),
            ("cxidiag survey --hosts=LIST [TOOL...] [OPTIONS]".into(), ""),
            (
                "cxidiag survey --loopback=COUNT [TOOL...] [OPTIONS]".into(),
                "",
            ),
        ],
        arguments: Completion::Words(|| TOOLS.iter().map(|tool| tool.name.to_owned()).collect()),
        about_arguments: "TOOL is write-lat (default), read-lat, atomic-lat, send-lat, write-bw, read-bw,\n\
                          atomic-bw or send-bw. With several, each measures all pairs. Options of the\n\
                          tools follow after '--'.",
        options: [places(), measurements(), limits(), outputs()]
            .into_iter()
            .flatten()
            .chain(metrics_entries())
            .chain([Entry::help(), Entry::version()])
            .collect(),
        remarks: vec![
            "Each task of srun, mpiexec, flux run or mpirun measures with the NICs of its\nnode.",
            "Exit status: 0 all good, 3 something is bad, 1 something was not measured or is\n\
             suspect, 130 interrupted, with the results so far.",
        ],
        ..Usage::default()
    }
}

fn option(
    short: Option<char>,
    long: &'static str,
    value: Option<Value>,
    help: &str,
    manual: &'static str,
) -> Entry {
    Entry {
        short,
        long,
        value,
        help: help.into(),
        manual,
    }
}

fn plain(name: &'static str) -> Option<Value> {
    Some(Value::new(name, Completion::Nothing))
}

fn file(name: &'static str) -> Option<Value> {
    Some(Value::new(name, Completion::Files))
}

/// Where the processes are, and with which NICs they measure.
fn places() -> Vec<Entry> {
    vec![
        option(
            None,
            "hosts",
            plain("LIST|@FILE"),
            "Hosts on which 'cxidiag serve' runs, such as\nnid[000001-000512] (default: those of the launcher)",
            "Measure between these hosts, on which **cxidiag serve** runs, instead of the tasks of a \
             launcher. A host list in the notation of Slurm, or a file with one on each line.",
        ),
        option(
            None,
            "loopback",
            plain("COUNT"),
            "Try it: measure between COUNT (2 to 100) software\nNICs of this machine",
            "Start this number of processes on this machine, 2 to 100, each with a software NIC of \
             its own: to try the command.",
        ),
        option(
            Some('d'),
            "device",
            Some(Value::new("DEV,...", Completion::Devices)),
            "NICs of each node (default: all of its hardware)",
            "The NICs of each node, with commas between them. Without it, all hardware NICs of the \
             node.",
        ),
        option(
            None,
            "nics",
            plain("turn|once"),
            "NICs of a node: in turn, or all at once\n(default: turn)",
            "**turn** measures with one NIC of a node at a time. **once** measures with all of them \
             at the same time, which also loads what they share: PCIe switches and memory.",
        ),
        option(
            Some('v'),
            "svc-id",
            plain("SVC_ID"),
            "CXI service (default: as for the tools)",
            "The CXI service on each node, as for the tools.",
        ),
        option(
            None,
            "vni",
            plain("VNI|job"),
            "VNI of the service (default: as for the tools)",
            "The VNI on each node, as for the tools.",
        ),
        option(
            None,
            "traffic-class",
            plain("CLASS"),
            "Traffic class (default: as for the tools)",
            "The traffic class of all operations, as for the tools.",
        ),
        option(
            None,
            "locations",
            file("FILE"),
            "Lines of 'HOST SWITCH GROUP' (default: by the\naddresses of the NICs)",
            "A file with a line *HOST SWITCH GROUP* for each host or host list; switches and groups are \
             numbers or names. Results have numbers: that at the end of a name if the names differ \
             in it alone, else the place of the name in alphabetical order, from 0. By default the \
             locations are read from the addresses of the NICs, or from SLURM_TOPOLOGY_ADDR.",
        ),
        option(
            None,
            "meeting-point",
            file("FILE"),
            "File by which the tasks find each other, in a\ndirectory that all nodes share (default: in the\nworking directory)",
            "The file in which the first task writes its address and a secret for the other tasks. \
             Its directory must be the same on all nodes. Not needed if **CXIDIAG_TOKEN** is set and \
             the launcher names the hosts.",
        ),
        option(
            Some('p'),
            "port",
            plain("PORT"),
            "TCP port of the first task, or of the servers of\n--hosts (default: any free one, or 49194)",
            "The TCP port on which the first task waits for the others, or that of the servers of \
             **--hosts**.",
        ),
    ]
}

/// What is measured.
fn measurements() -> Vec<Entry> {
    vec![
        option(
            None,
            "pairs",
            plain("WHICH"),
            &format!(
                "Pairs of NICs: loopback, neighbours, halves,\nrandom:COUNT, within-switch, switches, groups, all,\n@FILE, or several with commas (default: {PAIRS})"
            ),
            "Which pairs of NICs are measured: **loopback**, each NIC with itself; **neighbours**, \
             log2 of the number of nodes for each; **halves**, the first half with the second one; \
             **random:**_COUNT_, this number of partners for each; **within-switch**, **switches**, \
             **groups**, those that share a switch, a group, or only the fabric; **all**. With \
             commas several of them, in the order of the list. **@**_FILE_ has a line *ROUND NODE \
             NODE* for each pair.",
        ),
        option(
            Some('s'),
            "size",
            plain("SIZE,..."),
            "Sizes of operations, or ranges MIN:MAX\n(default: that of the tool)",
            "The sizes of operations in bytes, or ranges as of the tools, with commas between them.",
        ),
        option(
            None,
            "pair-time",
            plain("TIME"),
            &format!("Time to measure a pair (default: {})", time_text(PAIR_TIME)),
            "How long each pair is measured for each test, from 1 ms to 1 h. *TIME* is in seconds \
             without a unit. The time from one pair to the next is longer: see **survey** in the \
             documentation.",
        ),
        option(
            None,
            "time-limit",
            plain("TIME"),
            "End the survey after TIME (default: a minute before\nthe end of the job)",
            "End the survey after this time. Pairs that were not measured by then are untested. The \
             default is a minute before the end of the job, if its launcher tells it.",
        ),
        option(
            None,
            "max-active",
            plain("COUNT"),
            "Most pairs at the same time (default: no limit)",
            "The largest number of pairs that measure at the same time, to load the fabric less. With \
             **--loopback**, one for two CPUs.",
        ),
        option(
            None,
            "seed",
            plain("NUMBER"),
            "Seed of random pairs (default: 1)",
            "The seed of random pairs and of retests: the same seed chooses the same pairs.",
        ),
    ]
}

/// What is good.
fn limits() -> Vec<Entry> {
    vec![option(
        None,
        "expect",
        plain("LIST|@FILE"),
        "Limits of each pair, such as p50<2us,bw>=23GB/s, in\naddition to those from the population",
        "Limits of each pair, as of the tools: of latency tools, of bandwidth tools, or of both. A \
         pair outside them is suspect, also if it is like all the others.",
    )]
}

/// What is written.
fn outputs() -> Vec<Entry> {
    vec![
        option(
            None,
            "bad-nodes",
            file("FILE"),
            "Write the nodes that are bad to FILE, as a host list",
            "Write the nodes that are bad, or that have a bad NIC, to *FILE*, as a host list for \
             **scontrol update NodeName=**. The survey drains no node. With **--loopback** the file \
             stays empty: its nodes have invented names.",
        ),
        json_entry(),
        option(
            None,
            "jsonl",
            file("FILE"),
            "Append each result to FILE as it is measured",
            "Append a line for each pair to *FILE* as soon as it is measured. **--resume** continues \
             from such a file.",
        ),
        option(
            None,
            "csv",
            Some(Value::optional("FILE", Completion::Files)),
            "Print the results of the pairs as CSV instead of the\ntext, or write them to FILE",
            "Write a row for each pair that was kept.",
        ),
        option(
            None,
            "matrix",
            None,
            "Keep the figures of all pairs, also of more than\n1024 NICs",
            "Keep the figures of all pairs in the document of **--json**, also with more than 1024 \
             NICs. They need 12 bytes of memory each, and about 20 bytes in the document.",
        ),
        option(
            None,
            "resume",
            file("FILE"),
            "Continue a survey whose results --jsonl has written\nto FILE",
            "Take the results in *FILE*, which **--jsonl** has written, and measure what is missing. \
             The other options must be the same. The file grows only if **--jsonl** names it too.",
        ),
        option(
            Some('q'),
            "quiet",
            None,
            "Print the verdict only, without progress",
            "Print no progress and no notes.",
        ),
    ]
}
