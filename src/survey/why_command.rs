//! `why`: why one NIC is slow that somebody suspects, beside good NICs of other nodes, by the
//! members of a survey that measures nothing else (docs/why.md); or why a job makes no progress
//! (docs/hang.md). What it takes, and how its arguments are read.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, Command};

use super::coordinator;
use super::launch::Launch;
use super::nic_diagnosis::{self, NicDiagnosis};
use super::processes::Started;
use super::request::{Hosts, ProcessSource, SurveyRequest, hosts, tests};
use cli::arguments::{self, ServiceArguments, TypedArguments};
use cli::usage::{Completion, Usage};
use cli::values::LEFT_OUT;
use cli::{derived, output};
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, invalid};
use facts::host::host_name;
use facts::interrupt;
use facts::number::{time, time_text, within};
use hang::{HangRequest, HangSource, ReadingTimes};
use node::machine::Machine;
use node::{backend, reading};
use page::destination::Place;
use page::documents::{Documents, Places};
use page::table::TextStyle;
use plan::DEFAULT_PORT;
use plan::tools::TOOLS;
use why::suspect::SuspectFindings;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a NIC that does not exist, good NICs that do not answer, a file that cannot
/// be written, and a NIC that is slow; with `--job` or `--merge`, the failures of [`hang::run`].
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let read = parse(&arguments);
    let Some(request) = output::or_refusal(&arguments, read)? else {
        return Ok(());
    };
    if let Some(hang) = request.hang() {
        return hang::run(&hang);
    }
    let ready = backend::check(request.device).and_then(|()| interrupt::watch());
    output::or_early_failure(crate::processes::own_place(request.json.as_ref()), ready)?;
    if measure_if_started(&request)? {
        return Ok(());
    }
    reading::limit_waits();
    let opened = Documents::open(&Places {
        json: request.json.clone(),
        ticket: request.ticket.clone().map(Place::File),
        ..Places::default()
    });
    let documents = output::or_early_failure(request.json.as_ref(), opened)?;
    let present = check::require(request.device, &Machine::this());
    output::or_failure(&documents, present)?;
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut has_results = false;
    let report = |found: SuspectFindings| {
        has_results = true;
        let typed = arguments.iter().map(|word| word.to_string_lossy().into_owned());
        let diagnosis = NicDiagnosis::new(typed.collect(), started, clock.elapsed(), found);
        output::write(&documents, &diagnosis, request.is_quiet, nic_diagnosis::page)?;
        if let Some(ticket) = &documents.ticket {
            let text = nic_diagnosis::ticket(&diagnosis).text(TextStyle::Markdown);
            ticket.write(text.as_bytes())?;
        }
        documents.conclude(diagnosis.result())
    };
    let diagnosed = diagnose(&request, "why", &arguments, report);
    if has_results { diagnosed } else { output::or_failure(&documents, diagnosed) }
}

/// Measures with the NIC of this process, if [`diagnose`] has started it. Returns whether it has.
///
/// # Errors
///
/// The errors of a member of a survey.
fn measure_if_started(request: &WhyRequest) -> Result<bool, Failure> {
    match Started::from_environment() {
        Some(started) => {
            super::member::run_started(&member_request(request)?, started).map(|()| true)
        }
        None => Ok(false),
    }
}

/// Finds out why a NIC is slow, and gives what was found to `report`. Processes of this machine are
/// started with the `command` and the `arguments` of this one.
///
/// # Errors
///
/// Options that no tool can measure with, processes that do not start or find each other, an
/// interruption, and the errors of `report`.
fn diagnose(
    request: &WhyRequest,
    command: &'static str,
    arguments: &[OsString],
    report: impl FnOnce(SuspectFindings) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let member_request = member_request(request)?;
    let (launch, rank) = match &request.beside {
        Beside::Loopback(count) => (Launch::loopback(*count, arguments), request.device.index),
        Beside::Peers { hosts, devices } => {
            let devices = devices.clone();
            (Launch::beside(host_name(), hosts, devices, arguments), 0)
        }
        Beside::Nothing => (Launch::beside(host_name(), &[], Vec::new(), arguments), 0),
    };
    coordinator::diagnose(&member_request, &launch.for_command(command), rank, report)
}

/// The request of a survey whose members measure the NIC.
fn member_request(request: &WhyRequest) -> Result<SurveyRequest, Failure> {
    let (processes, devices) = match &request.beside {
        Beside::Loopback(count) => (ProcessSource::Loopback(*count), None),
        Beside::Peers { .. } | Beside::Nothing => {
            (ProcessSource::Hosts(Vec::new()), Some(vec![request.device]))
        }
    };
    Ok(SurveyRequest {
        processes,
        devices,
        // Members read the options about the service from a test.
        tests: tests(&[&TOOLS[0]], &[], &request.service.arguments(), &[])?,
        service: request.service.clone(),
        pair_time: request.pair_time,
        port: request.port,
        is_quiet: request.is_quiet,
        ..SurveyRequest::default()
    })
}

/// Bounds of `--pair-time`.
const PAIR_TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// Bounds of `--interval`.
const INTERVALS: RangeInclusive<Duration> = hang::SHORTEST_INTERVAL..=Duration::from_secs(60);

/// Bounds of `--stack-time`.
const STACK_TIMES: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(600);

/// Largest number of a process in Linux.
const MOST_PIDS: u64 = 1 << 22;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag why".into(),
        about: "Find out why a NIC is slow, or why a job hangs",
        synopsis: vec![
            ("cxidiag why [NIC] --peer=LIST [OPTIONS]".into(), ""),
            ("cxidiag why [NIC] [OPTIONS]".into(), ""),
            ("cxidiag why [NIC] --loopback=COUNT [OPTIONS]".into(), ""),
            ("cxidiag why --job[=PID,...] [OPTIONS]".into(), ""),
            ("cxidiag why --job --hosts=LIST [OPTIONS]".into(), ""),
            ("cxidiag why --merge FILE... [OPTIONS]".into(), ""),
        ],
        arguments: Completion::Devices,
        about_arguments: "NIC is the suspect, a NIC of this machine (default: cxi0). Good NICs of other\n\
                          hosts are measured in turn with it.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "Exit status: 0 as good NICs, 3 slower, or a cause was found, 4 undecided,\n\
             1 the diagnosis itself failed, 2 invalid arguments, 130 interrupted.",
            "With --job: 0 data moves, 3 hung with a cause, 4 undecided.",
            "A token is taken from CXIDIAG_TOKEN.",
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<WhyRequest>);

/// What the arguments ask for.
#[derive(Debug, Args)]
pub struct WhyRequest {
    #[arg(short = 'd', long = "device", help = arguments::DEVICES, value_name = "DEV,...", value_delimiter = ',')]
    #[arg(add = Completion::Devices)]
    nics: Vec<DeviceName>,

    /// Hosts with good NICs, on which 'cxidiag serve' runs, such as nid[000418-000422] (default:
    /// none)
    ///
    /// A host list in the notation of Slurm, or FILE with one on each line. With two hosts, what
    /// passes between NICs is measured as well; with five, files are compared with what most good
    /// NICs have.
    #[arg(long = "peer", value_name = "LIST|@FILE", value_parser = hosts, add = Completion::Hosts)]
    peers: Option<Hosts>,

    /// NIC of the hosts of --peer (default: the one with the name of the suspect; of a software
    /// NIC, the one of the server)
    #[arg(long, value_name = "DEV", add = Completion::Devices)]
    peer_device: Option<DeviceName>,

    /// Try it: COUNT (2 to 100) software NICs of this machine, all but the suspect good
    ///
    /// Each of COUNT processes has one. The suspect is soft0 if no NIC is named.
    #[arg(long, value_name = "COUNT", value_parser = derived::number(2..=100_u32))]
    loopback: Option<u32>,

    /// Find out why a job makes no progress, instead of a NIC: of the processes PID,... (default:
    /// the ranks of your job on this node)
    ///
    /// The tasks of a launcher look at their nodes together, and the first one prints one result.
    /// Ranks, their threads and their NICs are read three times, and the functions of each rank
    /// with eu-stack or gdb, where one is installed. This needs no root and takes nothing from the
    /// job. docs/hang.md explains the verdicts.
    #[arg(long, value_name = "PID,...", require_equals = true, value_parser = job)]
    pub job: Option<JobPids>,

    /// Time between the readings of --job (default: 4s)
    ///
    /// From 10 ms to 60 s, in seconds without a unit.
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = |typed: &str| time(typed, INTERVALS))]
    pub interval: Option<Duration>,

    /// Look at your job on these hosts, on which 'cxidiag serve' runs as you, such as
    /// nid[0001-0512] (default: this node, or the tasks of a launcher)
    ///
    /// LIST is a host list; FILE has one on each line. Where the ranks of several jobs run, the
    /// job of this process counts.
    #[arg(long, value_name = "LIST|@FILE", value_parser = hosts, add = Completion::Hosts)]
    hosts: Option<Hosts>,

    /// Look at this node only with --job, also as a task of a launcher
    #[arg(long = "local")]
    is_local: bool,

    /// File by which the tasks of a launcher find each other with --job (default: in the working
    /// directory)
    ///
    /// All nodes share its directory. With CXIDIAG_TOKEN in the environment of all tasks, they need
    /// no file if the launcher names the hosts.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    meeting_point: Option<PathBuf>,

    /// Do not read the functions of the ranks of --job: no rank is stopped, not even for a moment
    #[arg(long = "no-stacks")]
    has_no_stacks: bool,

    /// Time for the functions of all ranks, at the first and at the last reading (default: 2s)
    ///
    /// From 10 ms to 10 minutes, in seconds without a unit. gdb needs more for large programs. A
    /// rank is stopped while its functions are read.
    #[arg(long, value_name = "TIME")]
    #[arg(value_parser = |typed: &str| time(typed, STACK_TIMES))]
    stack_time: Option<Duration>,

    /// Judge several nodes of a job together: FILE is a document that --job --json has written on
    /// a node
    #[arg(long = "merge")]
    is_merge: bool,

    #[command(flatten)]
    pub service: ServiceArguments,

    #[arg(short, long, help = format!("TCP port of the servers (default: {DEFAULT_PORT})"))]
    #[arg(value_name = "PORT", value_parser = derived::number(1..=u16::MAX))]
    pub port: Option<u16>,

    /// Time of each test on a NIC
    ///
    /// From 1 ms to 60 s, in seconds without a unit. With set-up and release, a test takes about
    /// seven times as long.
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    #[arg(value_parser = |typed: &str| time(typed, PAIR_TIMES))]
    pub pair_time: Duration,

    /// Write the result to FILE, as a page of Markdown
    ///
    /// The page suits a ticket.
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub ticket: Option<PathBuf>,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub json: Option<Place>,

    #[arg(short = 'q', long = "quiet", help = output::QUIET)]
    pub is_quiet: bool,

    /// The suspect.
    #[arg(skip = DEFAULT_DEVICE)]
    pub device: DeviceName,

    #[arg(skip)]
    pub beside: Beside,

    /// The files of `--merge`.
    #[arg(skip)]
    merged: Vec<PathBuf>,
}

/// The processes of a job, by number; none to search for them.
pub type JobPids = Vec<u32>;

fn job(typed: &str) -> Result<JobPids, String> {
    if typed == LEFT_OUT {
        return Ok(Vec::new());
    }
    let pids = typed.split(',').map(|pid| within(pid, 1..=MOST_PIDS));
    pids.map(|pid| Ok(pid? as u32)).collect()
}

/// The good NICs beside which a NIC is measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Beside {
    #[default]
    Nothing,
    /// Software NICs of this number of processes on this machine, the suspect among them.
    Loopback(u32),
    /// These NICs of `cxidiag serve` on each of these hosts; without `devices`, the NICs of the
    /// server.
    Peers { hosts: Vec<String>, devices: Vec<DeviceName> },
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<WhyRequest>, Failure> {
    let typed = TypedArguments::<WhyRequest>::read(&usage(), &COMMAND, arguments)?;
    let Some(TypedArguments { mut request, words, .. }) = typed else { return Ok(None) };
    if request.is_merge {
        request.merged = words.into_iter().map(PathBuf::from).collect();
    } else {
        arguments::add_devices(&mut request.nics, words, arguments)?;
    }
    (request.device, request.beside) = request.places()?;
    Ok(Some(request))
}

impl WhyRequest {
    /// Returns what `--job` or `--merge` asks for.
    pub fn hang(&self) -> Option<HangRequest> {
        let source = match (&self.job, &self.hosts) {
            _ if self.is_merge => HangSource::Files(self.merged.clone()),
            (None, _) => return None,
            (Some(_), Some(hosts)) => HangSource::Hosts(hosts.clone(), self.port),
            (Some(pids), None) if !pids.is_empty() => HangSource::Processes(pids.clone()),
            (Some(_), None) => HangSource::Tasks {
                is_local: self.is_local,
                meeting_point: self.meeting_point.clone(),
            },
        };
        let stacks = self.stack_time.unwrap_or(hang::STACK_TIME);
        let times = ReadingTimes {
            interval: self.interval.unwrap_or(hang::INTERVAL),
            stacks: (!self.has_no_stacks).then_some(stacks),
        };
        let (json, ticket, is_quiet) = (self.json.clone(), self.ticket.clone(), self.is_quiet);
        Some(HangRequest { source, times, json, ticket, is_quiet })
    }

    fn has_servers(&self) -> bool {
        self.peers.is_some() || self.hosts.is_some()
    }

    /// Returns what excludes `--job` or `--merge`, if something does.
    fn exclude(&self, nic: Option<DeviceName>) -> Option<String> {
        if self.is_merge && self.merged.is_empty() {
            return Some("--merge needs a FILE".into());
        }
        if let Some(nic) = nic {
            return Some(format!("--job looks at the NICs of the job: leave out {nic}"));
        }
        let (is_job, has_hosts) = (self.job.is_some(), self.hosts.is_some());
        let names_pids = self.job.as_ref().is_some_and(|pids| !pids.is_empty());
        let pairs = [
            ("merge", "job", self.is_merge && is_job),
            ("merge", "peer", self.is_merge && self.peers.is_some()),
            ("merge", "loopback", self.is_merge && self.loopback.is_some()),
            ("job", "peer", self.peers.is_some()),
            ("job", "loopback", self.loopback.is_some()),
            ("job=PID", "hosts", names_pids && has_hosts),
            ("no-stacks", "stack-time", self.has_no_stacks && self.stack_time.is_some()),
            ("hosts", "local", has_hosts && self.is_local),
            ("hosts", "meeting-point", has_hosts && self.meeting_point.is_some()),
        ];
        if let Some((one, other, _)) = pairs.iter().find(|(.., are_given)| *are_given) {
            return Some(format!("--{one} and --{other} exclude each other"));
        }
        let limits = [
            ("interval", self.interval, hang::INTERVAL),
            ("stack-time", self.stack_time, hang::STACK_TIME),
        ];
        limits.into_iter().filter(|_| has_hosts).find_map(|(option, time, most)| {
            let time = time.filter(|time| *time > most)?;
            let allowed = format!("servers allow {} at most", time_text(most));
            Some(invalid(option, time_text(time), allowed).to_string())
        })
    }

    /// The suspect, and the good NICs beside it.
    fn places(&self) -> Result<(DeviceName, Beside), Failure> {
        let nic = arguments::one_device(&self.nics)?;
        let pairs = [
            ("interval", self.interval.is_some(), "job", self.job.is_some()),
            ("no-stacks", self.has_no_stacks, "job", self.job.is_some()),
            ("stack-time", self.stack_time.is_some(), "job", self.job.is_some()),
            ("hosts", self.hosts.is_some(), "job", self.job.is_some()),
            ("local", self.is_local, "job", self.job.is_some()),
            ("meeting-point", self.meeting_point.is_some(), "job", self.job.is_some()),
            ("peer-device", self.peer_device.is_some(), "peer", self.peers.is_some()),
            ("port", self.port.is_some(), "peer or --hosts", self.has_servers()),
        ];
        let alone = pairs.iter().find(|(_, is_given, _, has_other)| *is_given && !has_other);
        if let Some((option, _, other, _)) = alone {
            return Err(Failure::usage(format!("--{option} needs --{other}")));
        }
        if self.is_merge || self.job.is_some() {
            return self
                .exclude(nic)
                .map_or(Ok((DEFAULT_DEVICE, Beside::Nothing)), |why| Err(Failure::usage(why)));
        }
        let device = nic.unwrap_or(DEFAULT_DEVICE);
        match (self.loopback, &self.peers) {
            (Some(_), Some(_)) => Err(Failure::usage("--loopback and --peer exclude each other")),
            (Some(count), None) => {
                let device = nic.unwrap_or(DeviceName::software(0));
                let is_one = device.platform().is_simulated && device.index < count;
                if !is_one {
                    let last = DeviceName::software(count - 1);
                    let why = format!("the NIC must be one of soft0 to {last}, and not {device}");
                    return Err(Failure::usage(invalid("loopback", count, why)));
                }
                Ok((device, Beside::Loopback(count)))
            }
            (None, Some(hosts)) => {
                let same = (!device.platform().is_simulated).then_some(device);
                let devices = self.peer_device.or(same).into_iter().collect();
                let hosts = hosts.clone();
                Ok((device, Beside::Peers { hosts, devices }))
            }
            (None, None) => Ok((device, Beside::Nothing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(arguments: &str) -> Result<(String, Beside), String> {
        let arguments: Vec<OsString> = arguments.split_whitespace().map(OsString::from).collect();
        let request = parse(&arguments).map_err(|failure| failure.message())?.expect("a request");
        Ok((request.device.to_string(), request.beside))
    }

    #[test]
    fn suspect_and_good_nics_follow_from_arguments() {
        let peers = |devices: &[&str]| Beside::Peers {
            hosts: vec!["n1".into(), "n2".into()],
            devices: devices.iter().map(|name| name.parse().unwrap()).collect(),
        };
        for (arguments, device, expected) in [
            ("", "cxi0", Beside::Nothing),
            ("soft3", "soft3", Beside::Nothing),
            ("--loopback=4", "soft0", Beside::Loopback(4)),
            ("soft3 --loopback=4", "soft3", Beside::Loopback(4)),
            ("--peer=n[1-2]", "cxi0", peers(&["cxi0"])),
            ("cxi1 --peer=n[1-2] --peer-device=cxi2", "cxi1", peers(&["cxi2"])),
            ("soft1 --peer=n[1-2]", "soft1", peers(&[])),
        ] {
            let found = beside(arguments);
            assert_eq!(found, Ok((device.into(), expected)), "{arguments}");
        }
    }

    #[test]
    fn rejects_options_that_exclude_or_need_others() {
        for (arguments, message) in [
            ("cxi0 cxi1", "expected one NIC: leave out cxi1"),
            ("--loopback=4 --peer=n1", "--loopback and --peer exclude each other"),
            ("--port=1", "--port needs --peer"),
            ("--job --peer=n1", "--job and --peer exclude each other"),
            ("--job --loopback=4", "--job and --loopback exclude each other"),
            ("cxi1 --job", "leave out cxi1"),
            ("cxi1 --interval=1s", "--interval needs --job"),
            ("--hosts=n1", "--hosts needs --job"),
            ("--local", "--local needs --job"),
            ("--merge a --meeting-point=f", "--meeting-point needs --job"),
            ("--job --port=7", "--port needs --peer or --hosts"),
            ("--job=5 --hosts=n1", "--job=PID and --hosts exclude each other"),
            ("--job --hosts=n1 --local", "--hosts and --local exclude each other"),
            ("--job --hosts=n1 --meeting-point=f", "--hosts and --meeting-point exclude"),
            ("--job --hosts=n1 --interval=5s", "invalid value '5s' for --interval: servers allow"),
            (
                "--job --hosts=n1 --stack-time=3s",
                "invalid value '3s' for --stack-time: servers allow",
            ),
            ("--no-stacks", "--no-stacks needs --job"),
            ("--merge a --stack-time=1s", "--stack-time needs --job"),
            (
                "--job --no-stacks --stack-time=1s",
                "--no-stacks and --stack-time exclude each other",
            ),
            ("--job --hosts=n1,n1", "n1 is named twice"),
            ("--merge", "--merge needs a FILE"),
            ("--merge a --job", "--merge and --job exclude each other"),
            ("--job=0", "invalid value '0' for --job"),
            ("--job=5,x", "invalid value '5,x' for --job"),
            ("--peer-device=cxi1", "--peer-device needs --peer"),
            ("--peer=n1,n1", "n1 is named twice"),
            ("soft4 --loopback=4", "one of soft0 to soft3, and not soft4"),
            ("cxi0 --loopback=4", "one of soft0 to soft3, and not cxi0"),
        ] {
            let found = beside(arguments).unwrap_err();
            assert!(found.contains(message), "{arguments}: {found}");
        }
    }
}
