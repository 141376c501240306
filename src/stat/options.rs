//! What `stat` takes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::forwarding::Forwarding;
use super::gather::GATHER;
use super::note::NAME;
use super::request::{LINGER, StatAction, StatRequest};
use crate::counter_set;
use crate::counter_set::CounterSet;
use crate::job_findings;
use crate::metrics::SERIES;
use crate::text::LEVELS;
use cli::definition::OptionDef;
use cli::usage::{Completion, Usage};
use cli::{arguments, output};
use facts::device::DeviceName;
use facts::error::{Failure, cause, invalid};
use facts::number::time_text;
use facts::user_file;

/// Bounds of `--linger`.
const LINGERS: std::ops::RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);

/// Bounds of `--interval`: reading more often would disturb what is measured.
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(200)..=Duration::from_secs(3600);

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
        options: arguments::entries(options()),
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

/// What the options set.
#[derive(Default)]
struct TypedStat {
    /// What an option sets alone.
    request: StatRequest,
    set: Option<CounterSet>,
    start: Option<PathBuf>,
    stop: Option<PathBuf>,
    is_merge: bool,
    is_top: bool,
    directory: Option<PathBuf>,
}

impl TypedStat {
    /// Returns which options run no command.
    fn forms(&self) -> [bool; 4] {
        [self.start.is_some(), self.stop.is_some(), self.is_merge, self.is_top]
    }
}

fn options() -> Vec<OptionDef<TypedStat>> {
    type Def = OptionDef<TypedStat>;
    let mut options = vec![
        arguments::devices().within(|typed: &mut TypedStat| &mut typed.request.devices),
        Def::value("set", "SET|@FILE", set, |typed| &mut typed.set)
        .completed_by(Completion::Words(CounterSet::names))
        .explained(
            "Counters to read: job, quick, link, all, a group such as CxiErrStats, or those that \
             FILE names (default: job)\n\n\
             'job' has what most reports need, about 210; 'quick', 'link' and 'all' are those of \
             --counters of the tools. The groups are Open MPI's. FILE names a counter, a set or a \
             group on each line; 'rh:' begins the name of a counter of the retry handler, and '#' \
             a comment.",
        ),
        Def::value("report", "LEVEL", str::parse, |typed| &mut typed.request.level)
        .completed_by(Completion::Words(levels))
        .explained(
            "How much to report: line, summary, nics (a line for each NIC) or all (its counters) \
             (default: summary)\n\n\
             'line' is one line, 'summary' some sentences; 'all' has every counter that has \
             counted.",
        ),
        Def::switch("quiet", |typed| typed.request.is_quiet = true)
            .letter('q')
            .explained("Report only if something is unusual"),
        Def::file("output", |typed| &mut typed.request.output)
            .letter('o')
            .explained("Write the report to FILE, not to standard error"),
        output::json().within(|typed: &mut TypedStat| &mut typed.request.json),
        Def::document("csv", |typed| &mut typed.request.csv).explained(
            "Print a row for each counter as CSV instead of the report, or write it to FILE",
        ),
    ];
    let metrics = output::metrics();
    options.extend(
        metrics.map(|option| option.within(|typed: &mut TypedStat| &mut typed.request.metrics)),
    );
    options.extend([
        Def::switch("with-arguments", |typed| typed.request.with_arguments = true).explained(
            "Show the arguments of COMMAND, not its name alone\n\n\
             Arguments may hold secrets.",
        ),
        Def::text("forward", "all|none", |typed, text| {
            typed.request.forwarding = match text {
                "all" => Forwarding::All,
                "none" => Forwarding::Off,
                _ => return Err("expected all or none".into()),
            };
            Ok(())
        })
        .completed_by(Completion::Words(forwardings))
        .explained(
            "Pass on all signals to COMMAND, or none (default: those that it does not get \
             otherwise)\n\n\
             Without this option, COMMAND gets SIGINT, SIGTERM, SIGHUP, SIGQUIT and others such \
             as SIGUSR1 that are sent to stat alone: it gets a signal to the whole process group \
             anyway.",
        ),
        Def::time("linger", LINGERS, |typed| &mut typed.request.linger)
        .explained(format!(
            "How long to wait for other ranks of this node, after the end of COMMAND \
                     (default: {})\n\n\
                     What these ranks send in the end counts, too.",
            time_text(LINGER)
        )),
        Def::file("dir", |typed| &mut typed.directory).explained(
            "Directory for files while COMMAND runs, which all nodes share (default: the working \
             directory)\n\n\
             The files hold the first readings, so that --stop can finish the report if stat is \
             killed.",
        ),
        Def::time("gather", LINGERS, |typed| &mut typed.request.gather)
        .explained(format!(
            "How long the first node waits for the files of the others (default: {} and \
                     5 % of the run)\n\n\
                     It waits three times as long while the command of another node runs, and at most 5 minutes by default.",
            time_text(GATHER)
        )),
        Def::switch("no-gather", |typed| typed.request.is_gathered = false).explained(
            "Each node reports itself; --merge reports all later\n\n\
             The names of its documents have the name of the node before their ending.",
        ),
        Def::switch("merge", |typed| typed.is_merge = true).explained(
            "Report what the nodes in DIR have read\n\n\
             The report is that of the first node where all nodes share a directory.",
        ),
        Def::switch("top", |typed| typed.is_top = true).explained(
            "Show what the NICs of this node do, once a second\n\n\
             Each NIC has a row; the counters that count fastest follow with their meaning. The key q ends it.",
        ),
        Def::time("interval", INTERVALS, |typed| &mut typed.request.interval)
        .explained(
            "Also read 24 counters every TIME, from 200ms on: when did it happen?\n\n\
             The report says when timeouts and link errors happened, if only in a part of the \
             time; JSON has all intervals, and so has NODE.series.jsonl with --keep. Not for \
             measurements of latency.",
        ),
        Def::switch("keep", |typed| typed.request.is_kept = true).explained(
            "Keep these files\n\n\
             They are cxidiag-stat.JOB.STEP/NODE.start and NODE.json.",
        ),
        Def::file("start", |typed| &mut typed.start).explained(
            "Read the counters into FILE, as in a prolog\n\n\
             No command runs.",
        ),
        Def::file("stop", |typed| &mut typed.stop).explained(
            "Report since --start=FILE, as in an epilog\n\n\
             FILE may also be the NODE.start of a stat that was killed.",
        ),
        Def::value("fail-on", "CODE,...", codes, |typed| &mut typed.request.fail_on)
        .completed_by(Completion::Words(all_codes))
        .explained(
            "With --stop or --merge: exit status 3 if one of these holds, such as \
             timeouts,outlier\n\n\
             For epilogs that drain a node.",
        ),
    ]);
    options
}

fn levels() -> Vec<String> {
    LEVELS.map(|(name, _)| name.to_owned()).to_vec()
}

fn forwardings() -> Vec<String> {
    ["all", "none"].map(str::to_owned).to_vec()
}

fn all_codes() -> Vec<String> {
    job_findings::codes().into_iter().map(str::to_owned).collect()
}

/// Returns the set with a name, or in a file.
fn set(text: &str) -> Result<CounterSet, String> {
    let Some(path) = text.strip_prefix('@') else {
        return CounterSet::named(text);
    };
    let lines = user_file::text(path.as_ref())
        .map_err(|error| format!("cannot read the file: {}", cause(&error)))?;
    CounterSet::from_lines(text, &lines)
}

/// Returns the codes of findings in a list.
fn codes(text: &str) -> Result<Vec<&'static str>, String> {
    let known = job_findings::codes();
    let code = |word: &str| known.iter().find(|code| **code == word).copied();
    let found: Option<Vec<&'static str>> = text.split(',').map(code).collect();
    found.ok_or_else(|| format!("expected codes of findings: {}", known.join(", ")))
}

/// Returns whether an argument may be a command: it is no option and no NIC.
fn is_command(argument: &OsString) -> bool {
    let text = argument.to_string_lossy();
    !text.starts_with('-') && text.parse::<DeviceName>().is_err()
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
pub fn parse(arguments: &[OsString]) -> Result<Option<StatRequest>, Failure> {
    let new = || {
        let request = StatRequest { linger: LINGER, is_gathered: true, ..StatRequest::default() };
        TypedStat { request, ..TypedStat::default() }
    };
    let read = |own, typed: &mut TypedStat| arguments::read(&usage(), &options(), own, typed);
    let (mut own, mut command) = arguments::parts(arguments);
    if command.is_none() {
        // The first word that is neither an option, nor its value, nor a NIC is the command.
        for first in (0..own.len()).filter(|word| is_command(&own[*word])) {
            let mut typed = new();
            match read(&own[..first], &mut typed) {
                Ok(None) => return Ok(None),
                Ok(Some(_)) if !typed.forms().contains(&true) => {
                    arguments::refuse_document(&own[first..=first], own)?;
                    (own, command) = (&arguments[..first], Some(&arguments[first..]));
                    break;
                }
                _ => {}
            }
        }
    }
    let mut typed = new();
    let Some(words) = read(own, &mut typed)? else {
        return Ok(None);
    };
    let form = form(&typed, command, &words)?;
    typed.request.metrics.file_with(SERIES)?;
    match form {
        StatAction::Merge(_) if !typed.request.devices.is_empty() => {
            return Err(Failure::usage("--merge reads no NIC: leave out --device"));
        }
        StatAction::Merge(_) => {}
        _ => arguments::add_devices(&mut typed.request.devices, words, own)?,
    }
    Ok(Some(StatRequest {
        form,
        set: match typed.set {
            Some(set) => set,
            None => CounterSet::named(counter_set::JOB).map_err(Failure::usage)?,
        },
        directory: typed.directory.unwrap_or_else(|| ".".into()),
        ..typed.request
    }))
}

/// Returns what to do, and refuses options that do not belong to it.
fn form(
    typed: &TypedStat,
    command: Option<&[OsString]>,
    words: &[OsString],
) -> Result<StatAction, Failure> {
    let see = |what: &str| Failure::usage(format!("{what} (see {NAME} --help)"));
    let without_command = |option: &str| {
        if command.is_some() {
            return Err(Failure::usage(format!("--{option} runs no command")));
        }
        Ok(())
    };
    if typed.forms().into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err(Failure::usage("--start, --stop, --merge and --top exclude each other"));
    }
    if typed.is_top {
        without_command("top")?;
        let documents = [
            typed.request.json.is_some(),
            typed.request.csv.is_some(),
            typed.request.metrics.file_with(SERIES)?.is_some(),
            typed.request.output.is_some(),
            typed.request.interval.is_some(),
            !typed.request.fail_on.is_empty(),
        ];
        if documents.contains(&true) {
            let why = "--top writes no report: no --json, --csv, --openmetrics, --output, \
                       --interval, --fail-on";
            return Err(Failure::usage(why));
        }
        return Ok(StatAction::Top);
    }
    if typed.is_merge {
        without_command("merge")?;
        if words.is_empty() {
            return Err(see("--merge needs a directory"));
        }
        if typed.request.interval.is_some() {
            return Err(Failure::usage("--interval needs a COMMAND"));
        }
        return Ok(StatAction::Merge(words.iter().map(PathBuf::from).collect()));
    }
    let form = match (&typed.start, &typed.stop) {
        (Some(path), _) => {
            without_command("start")?;
            StatAction::Start(path.clone())
        }
        (None, Some(path)) => {
            without_command("stop")?;
            if !words.is_empty() || typed.set.is_some() {
                return Err(Failure::usage(
                    "--stop reads the NICs and the counters of its file: no DEVICE, no --set",
                ));
            }
            StatAction::Stop(path.clone())
        }
        (None, None) => match command {
            Some(command) if !command.is_empty() => StatAction::Run(command.to_vec()),
            Some(_) => return Err(see("there is no COMMAND after --")),
            None => return Err(see("there is no COMMAND")),
        },
    };
    if typed.request.interval.is_some() && !matches!(form, StatAction::Run(_)) {
        return Err(Failure::usage("--interval needs a COMMAND"));
    }
    if !typed.request.fail_on.is_empty() && !matches!(form, StatAction::Stop(_)) {
        let allowed = "it is for --stop and --merge: the exit status is that of COMMAND";
        return Err(Failure::usage(invalid("fail-on", typed.request.fail_on.join(","), allowed)));
    }
    Ok(form)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the command that these arguments start, after their NICs; or the message of a
    /// failure.
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
}
