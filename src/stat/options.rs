//! What `stat` takes.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{ArgAction, Args, Command};

use super::events::Forwarding;
use super::note::NAME;
use crate::counter_set::CounterSet;
use crate::metrics::SERIES;
use crate::text::Level;
use crate::{counter_set, job_findings};
use cli::arguments::TypedArguments;
use cli::output::MetricsRequest;
use cli::usage::{Completion, Usage};
use cli::{arguments, derived, values};
use facts::device::DeviceName;
use facts::error::{Failure, invalid};
use facts::number::time;
use page::destination::Place;

/// Bounds of `--linger` and `--gather`.
const WAITS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);

/// Bounds of `--interval`: reading more often would disturb what is measured.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(3600);

/// The interval of `--trace` without `--interval`.
const TRACE_INTERVAL: Duration = Duration::from_secs(1);

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: NAME.into(),
        about: "Show what the NICs did while a command ran",
        synopsis: vec![
            ("cxidiag stat [DEVICE...] [OPTIONS] [--] COMMAND [ARG...]".into(), ""),
            ("cxidiag stat [DEVICE...] [OPTIONS] --start=FILE".into(), ""),
            ("cxidiag stat [OPTIONS] --stop=FILE".into(), ""),
            ("cxidiag stat [OPTIONS] --merge DIR...".into(), ""),
            ("cxidiag stat [DEVICE...] [--set=SET] --top".into(), ""),
        ],
        arguments: Completion::Devices,
        about_arguments: "DEVICE is cxiN (hardware) or soft0 to soft99 (software NIC). Without DEVICE, the\n\
                          NICs of the job (SLINGSHOT_DEVICES) are read, else all of this machine.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "A launcher starts one copy for each rank: srun cxidiag stat -- ./app. One copy\n\
             of each node reads the NICs, the others become the command at once. The\n\
             report goes to standard error, after the output of the command.",
            "Exit status: that of COMMAND; a signal that ends it ends stat, too. 127 there is\n\
             no such command, 126 it cannot be executed, 2 invalid arguments. With --stop and\n\
             --merge: 0, 3 if --fail-on names a finding, 1 failed.",
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<StatRequest>);

/// What the arguments ask for.
#[derive(Clone, Debug, Args)]
pub struct StatRequest {
    #[arg(short, long = "device", help = arguments::DEVICES, value_name = "DEV,...", value_delimiter = ',')]
    #[arg(add = Completion::Devices)]
    pub devices: Vec<DeviceName>,

    /// Counters to read: job, quick, link, all, a group such as CxiErrStats, or those that FILE
    /// names
    ///
    /// 'job' has what most reports need, about 210; 'quick', 'link' and 'all' are sets of
    /// --counters of the tools. The groups are Open MPI's. FILE names a counter, a set or a group
    /// on each line; 'rh:' begins the name of a counter of the retry handler, and '#' a comment.
    #[arg(long, value_name = "SET|@FILE", default_value = counter_set::JOB, value_parser = set)]
    #[arg(add = Completion::Words(CounterSet::names))]
    pub set: CounterSet,

    /// How much to report: line, summary, nics (a line for each NIC) or all (its counters)
    ///
    /// 'line' is one line, 'summary' some sentences; 'all' has every counter that has counted.
    #[arg(long = "report", value_name = "LEVEL", default_value = "summary")]
    #[arg(add = Completion::Words(|| Level::ALL.map(|level| level.to_string()).into()))]
    pub level: Level,

    /// Report only if something is unusual
    #[arg(short = 'q', long = "quiet")]
    pub is_quiet: bool,

    /// Write the report to FILE, not to standard error
    #[arg(short, long, value_name = "FILE")]
    #[arg(value_parser = derived::file(), add = Completion::Files)]
    pub output: Option<PathBuf>,

    #[arg(long, help = cli::output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub json: Option<Place>,

    /// Print a row for each counter as CSV instead of the report, or write it to FILE
    #[arg(long, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub csv: Option<Place>,

    #[command(flatten)]
    pub metrics: MetricsRequest,

    /// Show the arguments of COMMAND, not its name alone
    ///
    /// Arguments may hold secrets.
    #[arg(long)]
    pub with_arguments: bool,

    /// Pass on all signals to COMMAND, or none (default: those that it does not get otherwise)
    ///
    /// Without this option, COMMAND gets SIGINT, SIGTERM, SIGHUP, SIGQUIT and others such as
    /// SIGUSR1 that are sent to stat alone: it gets a signal to the whole process group anyway.
    #[arg(long = "forward", value_name = "all|none", value_parser = forwarding)]
    #[arg(add = Completion::Words(|| vec!["all".into(), "none".into()]))]
    pub forwarding: Option<Forwarding>,

    /// How long to wait for other ranks of this node, after the end of COMMAND
    ///
    /// What these ranks send in the end counts, too.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    #[arg(value_parser = |typed: &str| time(typed, WAITS))]
    pub linger: Duration,

    /// Directory for files while COMMAND runs, which all nodes share (default: the working
    /// directory)
    ///
    /// The files hold the first readings, so that --stop can finish the report if stat is killed.
    #[arg(long = "dir", value_name = "FILE", default_value = ".")]
    #[arg(value_parser = derived::file(), add = Completion::Files)]
    pub directory: PathBuf,

    /// How long the first node waits for the files of the others (default: 10s and 5 % of the run)
    ///
    /// It waits three times as long while the command of another node runs, and at most 5 minutes
    /// by default.
    #[arg(long, value_name = "TIME", value_parser = |typed: &str| time(typed, WAITS))]
    pub gather: Option<Duration>,

    /// Each node reports itself; --merge reports all later
    ///
    /// The names of its documents have the name of the node before their ending.
    #[arg(long = "no-gather", action = ArgAction::SetFalse)]
    pub is_gathered: bool,

    /// Report what the nodes in DIR have read
    ///
    /// As the first node reports where all nodes share a directory.
    #[arg(long = "merge")]
    is_merge: bool,

    /// Show what the NICs of this node do, once a second
    ///
    /// Each NIC has a row; the counters that count fastest follow with their meaning. The key q
    /// ends it.
    #[arg(long = "top")]
    is_top: bool,

    /// Also read 24 counters every TIME, from 200ms on: when did it happen?
    ///
    /// The report says when timeouts and link errors happened, if only in a part of the time; JSON
    /// has all intervals, and so has NODE.series.jsonl with --keep. Not for measurements of
    /// latency.
    #[arg(long, value_name = "TIME", value_parser = |typed: &str| time(typed, INTERVALS))]
    pub interval: Option<Duration>,

    /// Write the counters over time to FILE, as a trace that Perfetto opens
    ///
    /// It has the rates of the counters of --interval, which is 1s then unless it is given: JSON
    /// trace events. With COMMAND or --merge.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub trace: Option<PathBuf>,

    /// Keep these files
    ///
    /// They are cxidiag-stat.JOB.STEP/NODE.start and NODE.json.
    #[arg(long = "keep")]
    pub is_kept: bool,

    /// Read the counters into FILE, as in a prolog
    ///
    /// No command runs.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    start: Option<PathBuf>,

    /// Report since --start=FILE, as in an epilog
    ///
    /// FILE may also be the NODE.start of a stat that was killed.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    stop: Option<PathBuf>,

    /// With --stop or --merge: exit status 3 if one of these holds, such as timeouts,outlier
    ///
    /// For epilogs that drain a node.
    #[arg(long, value_name = "CODE,...", value_delimiter = ',')]
    #[arg(action = ArgAction::Set, value_parser = code)]
    #[arg(add = Completion::Words(|| values::names(&job_findings::codes())))]
    pub fail_on: Vec<&'static str>,

    /// What to do.
    #[arg(skip)]
    pub form: StatAction,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatAction {
    /// Reads the counters, runs a command, and reads them again.
    Run(Vec<OsString>),
    /// Reads the counters into a file.
    Start(PathBuf),
    /// Reads them again, and reports since this file was written.
    Stop(PathBuf),
    /// Reports what the nodes in these directories have read.
    Merge(Vec<PathBuf>),
    /// Shows what the NICs do once a second.
    Top,
}

impl Default for StatAction {
    /// The form without options, before its command is read.
    fn default() -> Self {
        Self::Run(Vec::new())
    }
}

fn forwarding(text: &str) -> Result<Forwarding, &'static str> {
    match text {
        "all" => Ok(Forwarding::All),
        "none" => Ok(Forwarding::Off),
        _ => Err("expected all or none"),
    }
}

/// The code of a finding.
fn code(text: &str) -> Result<&'static str, String> {
    let known = job_findings::codes();
    let found = known.iter().find(|code| **code == text).copied();
    found.ok_or_else(|| format!("expected codes of findings: {}", known.join(", ")))
}

/// The set with a name, or in a file.
fn set(text: &str) -> Result<CounterSet, String> {
    match text.strip_prefix('@') {
        Some(path) => CounterSet::from_lines(text, &values::contents(path)?),
        None => CounterSet::named(text),
    }
}

/// Whether an argument may be a command: it is no option and no NIC.
fn is_command(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    !text.starts_with('-') && text.parse::<DeviceName>().is_err()
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<StatRequest>, Failure> {
    let usage = usage();
    let read = |own| TypedArguments::<StatRequest>::read(&usage, &COMMAND, own);
    let (mut own, mut command) = arguments::parts(arguments);
    if command.is_none() {
        // The first word that is neither an option, nor its value, nor a NIC is the command.
        for first in (0..own.len()).filter(|word| is_command(&own[*word])) {
            match read(&own[..first]) {
                Ok(None) => return Ok(None),
                Ok(Some(typed)) if forms(&typed).is_empty() => {
                    arguments::refuse_document(&own[first..=first], own)?;
                    (own, command) = (&arguments[..first], Some(&arguments[first..]));
                    break;
                }
                _ => {}
            }
        }
    }
    let Some(mut typed) = read(own)? else {
        return Ok(None);
    };
    let form = form(&typed, command)?;
    let TypedArguments { request, words, .. } = &mut typed;
    request.metrics.file_with(SERIES)?;
    match form {
        StatAction::Merge(_) if !request.devices.is_empty() => {
            return Err(Failure::usage("--merge reads no NIC: leave out --device"));
        }
        StatAction::Merge(_) => {}
        _ => arguments::add_devices(&mut request.devices, std::mem::take(words), own)?,
    }
    let interval = typed.request.interval;
    let interval = interval.or(typed.request.trace.as_ref().map(|_| TRACE_INTERVAL));
    Ok(Some(StatRequest { form, interval, ..typed.request }))
}

/// Returns which options run no command.
fn forms(typed: &TypedArguments<StatRequest>) -> Vec<&'static str> {
    let all = ["start", "stop", "merge", "top"];
    all.into_iter().filter(|long| typed.is_given(long)).collect()
}

/// Returns what to do, and refuses options that do not belong to it.
fn form(
    typed: &TypedArguments<StatRequest>,
    command: Option<&[OsString]>,
) -> Result<StatAction, Failure> {
    let (request, words) = (&typed.request, &typed.words);
    let see = |what: &str| Failure::usage(format!("{what} (see {NAME} --help)"));
    let refuse = |is_wrong: bool, why: &str| {
        if is_wrong { Err(Failure::usage(why)) } else { Ok(()) }
    };
    match forms(typed)[..] {
        [] => {}
        [form] => refuse(command.is_some(), &format!("--{form} runs no command"))?,
        _ => refuse(true, "--start, --stop, --merge and --top exclude each other")?,
    }
    let form = match (&request.start, &request.stop, command) {
        _ if request.is_top => {
            request.metrics.file_with(SERIES)?;
            let documents =
                ["json", "csv", "openmetrics", "output", "interval", "trace", "fail-on"];
            refuse(
                documents.into_iter().any(|long| typed.is_given(long)),
                "--top writes no report: no --json, --csv, --openmetrics, --output, \
                 --interval, --trace, --fail-on",
            )?;
            StatAction::Top
        }
        _ if request.is_merge && words.is_empty() => return Err(see("--merge needs a directory")),
        _ if request.is_merge => StatAction::Merge(words.iter().map(PathBuf::from).collect()),
        (Some(path), ..) => StatAction::Start(path.clone()),
        (None, Some(path), _) => {
            refuse(
                !words.is_empty() || typed.is_given("set"),
                "--stop reads the NICs and the counters of its file: no DEVICE, no --set",
            )?;
            StatAction::Stop(path.clone())
        }
        (None, None, None) => return Err(see("there is no COMMAND")),
        (None, None, Some([])) => return Err(see("there is no COMMAND after --")),
        (None, None, Some(command)) => StatAction::Run(command.to_vec()),
    };
    let is_run = matches!(form, StatAction::Run(_));
    refuse(request.interval.is_some() && !is_run, "--interval needs a COMMAND")?;
    let has_series = is_run || matches!(form, StatAction::Merge(_));
    refuse(request.trace.is_some() && !has_series, "--trace needs a COMMAND or --merge")?;
    if !request.fail_on.is_empty() && !matches!(form, StatAction::Stop(_) | StatAction::Merge(_)) {
        let allowed = "it is for --stop and --merge: the exit status is that of COMMAND";
        return Err(Failure::usage(invalid("fail-on", request.fail_on.join(","), allowed)));
    }
    Ok(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command that these arguments start, after their NICs; or the message of a failure.
    fn started(arguments: &str) -> Result<String, String> {
        let arguments: Vec<OsString> = arguments.split_whitespace().map(OsString::from).collect();
        let request = parse(&arguments).map_err(|failure| failure.message())?.expect("a request");
        let StatAction::Run(command) = request.form else { return Ok("no command".into()) };
        let words = command.iter().map(|word| word.to_string_lossy().into_owned());
        let nics = request.devices.iter().map(DeviceName::to_string);
        Ok(nics.chain(words).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn command_is_the_first_word_that_is_no_option_and_no_nic() {
        for (arguments, expected) in [
            ("ls", "ls"),
            ("cxi0 -q --set quick ls -l --json cxi1", "cxi0 ls -l --json cxi1"),
            ("-d cxi0,cxi1 -- cxi2 --help", "cxi0 cxi1 cxi2 --help"),
            ("--json ls", "ls"),
            ("--merge dir", "no command"),
            ("--top soft0", "no command"),
        ] {
            assert_eq!(started(arguments).as_deref(), Ok(expected), "{arguments}");
        }
        let refused = started("--json out.json ls").unwrap_err();
        assert_eq!(refused, "unexpected argument 'out.json'");
        assert!(started("cxi0").unwrap_err().contains("there is no COMMAND"));
    }

    #[test]
    fn refuses_options_that_do_not_belong_together() {
        for (arguments, expected) in [
            ("--start=a --stop=b", "--start, --stop, --merge and --top exclude each other"),
            ("--top -- ls", "--top runs no command"),
            ("--top --keep --csv", "--top writes no report: no --json, --csv"),
            ("--stop=a --set=job", "--stop reads the NICs and the counters of its file"),
            ("--merge", "--merge needs a directory (see cxidiag stat --help)"),
            ("--merge a --interval=1s", "--interval needs a COMMAND"),
            (
                "--fail-on=x --fail-on=outlier ls",
                "invalid value 'outlier' for --fail-on: it is for",
            ),
            ("--merge a -d cxi0", "--merge reads no NIC: leave out --device"),
            ("--openmetrics-format=openmetrics ls", "--openmetrics-format needs --openmetrics"),
        ] {
            let refused = started(arguments).unwrap_err();
            assert!(refused.starts_with(expected), "{arguments}: {refused}");
        }
    }
}
