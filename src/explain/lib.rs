//! `explain`: from the messages of a failed job to the cause (docs/explain.md). The messages are
//! data, in `messages.txt`.
//!
//! <!-- From tests/tidy/houses.rs: src/explain -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  3 | lib        arguments -> explanation                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | judge      which message is the cause                                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | here       what this node says about possible causes                                      |
//!    | scan       reads logs, and counts their messages                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | document   the explanation, as data, JSON and text                                        |
//!    | line       time, host, rank and NIC of a line                                             |
//!    | table      known messages, read from messages.txt                                         |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod document;
mod here;
mod judge;
mod line;
mod scan;
pub mod table;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::{Args, Command};

use self::document::{LogSummary, all_messages, page};
use self::here::Node;
use self::line::hexadecimal;
use self::scan::Log;
use cli::arguments::TypedArguments;
use cli::usage::{Completion, Usage};
use cli::{derived, output};
use facts::device::DeviceName;
use facts::error::{Failure, cause};
use facts::interrupt;
use node::{backend, reading};
use page::destination::Place;
use page::documents::Documents;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag explain".into(),
        about: "Find the cause of a failed job in its messages",
        synopsis: vec![("cxidiag explain LOG... [OPTIONS]".into(), "")],
        arguments: Completion::Files,
        about_arguments: "LOG is the output of a job, a journal, or the output of dmesg; - is\n\
                          standard input. Files of gzip are read too.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "Exit status 0 if the cause was found, or no line looks like a failure; 4 if not.",
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<ExplainRequest>);

/// What the arguments ask for.
#[derive(Debug, Args)]
struct ExplainRequest {
    /// Show each message that was found
    #[arg(long)]
    all: bool,

    /// Check the possible causes on this node
    ///
    /// This reads the health of its NICs, the use of their services, and the settings of this
    /// environment, without traffic. Causes that this node does not have are left out.
    #[arg(long = "here")]
    is_here: bool,

    #[arg(short, long = "device", help = "NICs to look at with --here (default: all hardware)")]
    #[arg(value_name = "DEV,...", value_delimiter = ',', add = Completion::Devices)]
    devices: Vec<DeviceName>,

    /// File with the hosts of NICs, to name the host of an address
    ///
    /// Each line has a host and the address of a NIC: a NID (decimal, or hexadecimal with 0x) or a
    /// MAC address, as 'ip neigh' prints them.
    #[arg(long, value_name = "FILE")]
    #[arg(value_parser = derived::file(), add = Completion::Files)]
    nids: Option<PathBuf>,

    #[arg(short = 'q', long = "quiet", help = "Print the first line only")]
    is_quiet: bool,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    json: Option<Place>,

    #[arg(skip)]
    logs: Vec<PathBuf>,
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be read or written, and logs without a known message.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(request) = output::or_refusal(&arguments, parse(&arguments))? else {
        return Ok(());
    };
    let documents = Documents::open_json(request.json.as_ref())?;
    let explanation = output::or_failure(&documents, explained(&request))?;
    output::write(&documents, &explanation, request.is_quiet, |explanation| {
        let page = page(explanation);
        if request.all { page.and(all_messages(explanation)) } else { page }
    })?;
    explanation.result()
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<ExplainRequest>, Failure> {
    let typed = TypedArguments::<ExplainRequest>::read(&usage(), &COMMAND, arguments)?;
    let Some(TypedArguments { request, words, .. }) = typed else { return Ok(None) };
    let logs: Vec<PathBuf> = words.into_iter().map(PathBuf::from).collect();
    if logs.is_empty() {
        return Err(Failure::usage("expected a LOG, or - for standard input"));
    }
    if logs.iter().filter(|log| **log == Path::new("-")).count() > 1 {
        return Err(Failure::usage("standard input (-) can be read only once"));
    }
    if !request.devices.is_empty() && !request.is_here {
        return Err(Failure::usage("--device needs --here"));
    }
    request.devices.iter().try_for_each(|device| backend::check(*device))?;
    Ok(Some(ExplainRequest { logs, ..request }))
}

fn explained(request: &ExplainRequest) -> Result<document::Explanation, Failure> {
    interrupt::watch()?;
    let mut hosts = match &request.nids {
        Some(path) => hosts_of_nics(path)?,
        None => BTreeMap::new(),
    };
    let mut log = Log::default();
    let mut logs = Vec::new();
    for (source, path) in request.logs.iter().enumerate() {
        let before = log.lines;
        log.read_file(source, path)?;
        logs.push(LogSummary { name: path.display().to_string(), lines: log.lines - before });
    }
    log.settle_times();
    for (nic, host) in &log.hosts {
        hosts.entry(*nic).or_insert_with(|| host.clone());
    }
    let mut explanation = judge::explanation(&log, logs, &hosts);
    if request.is_here {
        reading::limit_waits();
        Node::read(&request.devices)?.weigh(&mut explanation);
    }
    Ok(explanation)
}

/// Reads the hosts of NICs, by address.
fn hosts_of_nics(path: &Path) -> Result<BTreeMap<u32, Option<String>>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::environment(format!("--nids: {}: {}", path.display(), cause(&error)))
    })?;
    let hosts = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let host = words.next()?;
        Some((words.find_map(nid)?, Some(host.to_owned())))
    });
    Ok(hosts.collect())
}

/// The address of a NIC: `0x19631`, `103985`, or `02:00:00:01:96:31`.
fn nid(word: &str) -> Option<u32> {
    if word.starts_with("0x") || word.starts_with("0X") {
        return hexadecimal(word);
    }
    if word.matches(':').count() == 5 {
        // The last 20 bits of a MAC address are the address (messages.md 3.7).
        let address = u64::from_str_radix(&word.replace(':', ""), 16).ok()?;
        return u32::try_from(address & 0xf_ffff).ok();
    }
    word.parse().ok()
}
