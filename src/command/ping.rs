//! `ping`: whether the NICs of other hosts answer, and how fast (docs/manual/ping.md).

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches};

use super::output::{Destinations, json_entry, json_place};
use super::probe::Probe;
use facts::advice::{Situation, remedy};
use facts::device::{DEFAULT_DEVICE, DeviceKind, DeviceName};
use facts::error::{Failure, Kind, Step, invalid};
use facts::host::host_name;
use facts::interrupt;
use facts::number::{time, time_text, within};
use node::backend;
use node::machine::Machine;
use plan::cli::parser::with_optional_value;
use plan::cli::usage::{Completion, Entry, Usage, Value};
use plan::cli::{self, Request};
use plan::outputs::Place;
use plan::tool::PROGRAM;
use plan::tools::TOOLS;
use plan::{DEFAULT_PORT, Plan};
use report::outcome::Problem;
use report::ping::{Answer, OPERATIONS, Operation, Pair, Ping};
use report::ping_text;

/// Default of `--interval`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Default of `--timeout`: a NIC that answers does so within microseconds, and a retry of a lost
/// packet takes 1.07 s (libcxi.md 12.3).
const TIMEOUT: Duration = Duration::from_secs(5);

/// What to do without a connection.
const NO_SERVER: &str = "check that the host is up, that 'cxidiag serve' runs there with this --port, and that no firewall blocks the port";

/// What to do if another client measures.
const BUSY: &str = "wait for the other clients ('cxidiag serve --status' on the host lists them)";

/// The longest time of an option: a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Returns what the command takes.
pub fn usage() -> Usage {
    let option = |short, long, value, help: String, manual| Entry {
        short,
        long,
        value,
        help,
        manual,
    };
    let number = |name| Some(Value::new(name, Completion::Nothing));
    Usage {
        program: "cxidiag ping".into(),
        about: "Check whether the NICs of other hosts answer, and how fast",
        synopsis: vec![
            ("cxidiag ping HOST... [OPTIONS]".into(), ""),
            ("cxidiag ping --loopback [OPTIONS]".into(), ""),
        ],
        arguments: Completion::Hosts,
        about_arguments: "HOST runs 'cxidiag serve'. Each pair of NICs gets a few writes, reads, \
                          atomics\nand sends of 8 bytes.",
        options: vec![
            option(
                Some('c'),
                "count",
                number("COUNT"),
                "End after COUNT rounds (default: no limit)".into(),
                "End after this number of rounds. A round measures each pair once. Without it, \
                 **ping** goes on until Ctrl-C.",
            ),
            option(
                Some('i'),
                "interval",
                number("TIME"),
                format!(
                    "Time from one round to the next (default: {})",
                    time_text(INTERVAL)
                ),
                "The time from the beginning of one round to that of the next. *TIME* is in seconds \
                 without a unit.",
            ),
            option(
                Some('d'),
                "device",
                Some(Value::new("DEV", Completion::Devices)),
                format!("NIC of this machine (default: {DEFAULT_DEVICE})"),
                "The NIC of this machine.",
            ),
            option(
                None,
                "peer-device",
                Some(Value::new("DEV|auto", Completion::Devices)),
                "NIC of the server; auto: the one of the same name\n(default: that of the server)"
                    .into(),
                "The NIC of the server: a name, or *auto* for the one with the name of the NIC of this \
                 machine. By default the server chooses.",
            ),
            option(
                None,
                "all-nics",
                None,
                "Use each NIC of this machine, with --peer-device=auto".into(),
                "Use each NIC of this machine in turn, with the NIC of the same name of the server.",
            ),
            option(
                Some('v'),
                "svc-id",
                number("SVC_ID"),
                "CXI service (default: as for the tools)".into(),
                "The CXI service of this side, as for the tools.",
            ),
            option(
                None,
                "vni",
                Some(Value::new("VNI|job", Completion::Nothing)),
                "VNI of the service (default: as for the tools)".into(),
                "The VNI of this side, as for the tools.",
            ),
            option(
                None,
                "traffic-class",
                number("CLASS"),
                "Traffic class (default: as for the tools)".into(),
                "The traffic class of this side, as for the tools.",
            ),
            option(
                None,
                "loopback",
                None,
                "Let each NIC answer itself; no HOST".into(),
                "Let each NIC answer itself, without a peer.",
            ),
            option(
                Some('p'),
                "port",
                number("PORT"),
                format!("TCP port of the servers (default: {DEFAULT_PORT})"),
                "The TCP port of the servers.",
            ),
            option(
                None,
                "timeout",
                number("TIME"),
                format!(
                    "Time limit of each operation (default: {})",
                    time_text(TIMEOUT)
                ),
                "How long to wait for the answers to each kind of operation. *TIME* is in seconds \
                 without a unit.",
            ),
            json_entry(),
            Entry::help(),
            Entry::version(),
        ],
        remarks: vec![
            "Exit status 1 if anything was not answered.",
            "A token is taken from CXIDIAG_TOKEN.",
        ],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, and operations without an answer.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(asked) = parse(&arguments)? else {
        return Ok(());
    };
    let destinations = Destinations::open(asked.json.as_ref())?;
    let devices = asked.devices()?;
    interrupt::watch()?;
    let mut report = Ping::new(asked.pairs(&devices));
    let ended = rounds(&asked, &mut report);
    // Ctrl-C is the regular end, as of ping(8).
    if let Err(failure) = ended
        && failure.kind != Kind::Interrupted
    {
        return Err(failure);
    }
    report.end();
    destinations.write(&report, ping_text::summary)?;
    report.result()
}

/// Measures all pairs, round after round, and prints a line for each.
fn rounds(asked: &Asked, report: &mut Ping) -> Result<(), Failure> {
    let has_text = asked.json != Some(Place::Stdout);
    if has_text {
        print(&ping_text::title(report))?;
    }
    let mut round = 0;
    loop {
        let began = Instant::now();
        for index in 0..report.pairs.len() {
            let answers = asked.operations(&report.pairs[index])?;
            let pair = &mut report.pairs[index];
            pair.add(answers);
            if has_text {
                let line = ping_text::line(report, index);
                print(&line)?;
            }
        }
        round += 1;
        if asked.count == Some(round) {
            return Ok(());
        }
        let left = asked.interval.saturating_sub(began.elapsed());
        interrupt::wait_for_any(&mut Vec::new(), Some(left))?;
    }
}

fn print(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(interrupt::output_failed)
}

/// What the arguments ask for.
#[derive(Debug)]
struct Asked {
    hosts: Vec<String>,
    device: DeviceName,
    all_nics: bool,
    /// Arguments for each run.
    passed_on: Vec<OsString>,
    count: Option<u64>,
    interval: Duration,
    timeout: Duration,
    json: Option<Place>,
}

impl Asked {
    /// Returns the NICs of this machine to use.
    fn devices(&self) -> Result<Vec<DeviceName>, Failure> {
        if !self.all_nics {
            backend::check(self.device)?;
            return Ok(vec![self.device]);
        }
        let (found, failure) = backend::devices(&[], None, &Machine::this());
        if let Some(failure) = failure {
            return Err(failure);
        }
        let names: Vec<DeviceName> = found.iter().map(|found| found.name).collect();
        let hardware: Vec<DeviceName> = names
            .iter()
            .copied()
            .filter(|name| name.kind == DeviceKind::Hardware)
            .collect();
        Ok(if hardware.is_empty() { names } else { hardware })
    }

    fn pairs(&self, devices: &[DeviceName]) -> Vec<Pair> {
        let own = [host_name()];
        let hosts = if self.hosts.is_empty() {
            &own[..]
        } else {
            &self.hosts
        };
        let pairs = hosts
            .iter()
            .flat_map(|host| devices.iter().map(|device| Pair::new(host, *device)));
        pairs.collect()
    }

    /// Runs each kind of operation of a pair. After a failure on the way to the NIC of the peer,
    /// the other kinds are left out: they would fail in the same way.
    fn operations(&self, pair: &Pair) -> Result<Vec<Answer>, Failure> {
        let mut answers = Vec::new();
        for operation in &OPERATIONS {
            let answer = self.operation(pair, operation)?;
            let is_of_nics = |problem: &Problem| {
                let steps = [Step::Answer, Step::Operation];
                steps
                    .iter()
                    .any(|step| problem.step.as_deref() == Some(step.name()))
            };
            let goes_on = answer.latencies.as_ref().err().is_none_or(is_of_nics);
            answers.push(answer);
            if !goes_on {
                break;
            }
        }
        Ok(answers)
    }

    /// Runs one kind of operation.
    fn operation(&self, pair: &Pair, operation: &Operation) -> Result<Answer, Failure> {
        let mut arguments = self.passed_on.clone();
        arguments.push(format!("--device={}", pair.device).into());
        if self.hosts.is_empty() {
            arguments.push("--loopback".into());
        } else {
            let limit = time_text(self.timeout);
            arguments.push(format!("--connect-timeout={limit}").into());
            if self.all_nics {
                arguments.push("--peer-device=auto".into());
            }
            arguments.extend(["--".into(), pair.host.clone().into()]);
        }
        let probe = Probe {
            tool: operation.tool,
            arguments,
            variables: Vec::new(),
            limit: Some(self.timeout),
        };
        let failure = match probe.run() {
            Ok(mut outcome) => {
                let is_refused =
                    |problem: &Problem| problem.step.as_deref() == Some(Step::Tcp.name());
                if let Some(problem) = outcome.error.as_mut().filter(|problem| is_refused(problem))
                {
                    problem.hint = Some(NO_SERVER.into());
                }
                return Ok(Answer::of(outcome));
            }
            Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
            Err(failure) => failure,
        };
        Ok(Answer::none(&match failure.step() {
            Some(Step::Answer) => failure.with_hint(remedy(Situation::NoAnswer)),
            Some(Step::Turn) => failure.with_hint(BUSY),
            _ => failure,
        }))
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<Asked>, Failure> {
    let valued = |name| Arg::new(name).long(name).allow_hyphen_values(true);
    let switch = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
    let declared = [
        valued("count").short('c'),
        valued("interval").short('i'),
        valued("device").short('d'),
        valued("svc-id").short('v'),
        valued("vni"),
        valued("traffic-class"),
        valued("peer-device"),
        valued("port").short('p'),
        valued("timeout"),
        switch("all-nics"),
        switch("loopback"),
        with_optional_value("json"),
        Arg::new("HOST").num_args(0..),
    ];
    let Some(matches) = super::matches(&usage(), declared, arguments)? else {
        return Ok(None);
    };
    let hosts: Vec<String> = matches
        .get_many::<String>("HOST")
        .map(|hosts| hosts.cloned().collect())
        .unwrap_or_default();
    match (hosts.as_slice(), matches.get_flag("loopback")) {
        ([], false) => return Err(Failure::usage("expected a HOST, or --loopback")),
        ([host, ..], true) => {
            return Err(Failure::usage(format!(
                "--loopback needs no host: leave out '{host}'"
            )));
        }
        _ => {}
    }
    for other in ["device", "peer-device"] {
        if matches.get_flag("all-nics") && matches.contains_id(other) {
            let message = format!("--all-nics and --{other} exclude each other");
            return Err(Failure::usage(message));
        }
    }
    let mut passed_on: Vec<OsString> = ["--iters=10", "--warmup=2", "--latency-gap=0"]
        .map(OsString::from)
        .into();
    for name in ["svc-id", "vni", "traffic-class", "port", "peer-device"] {
        let typed = matches.get_one::<String>(name);
        passed_on.extend(typed.map(|typed| format!("--{name}={typed}").into()));
    }
    check(&passed_on, &hosts)?;
    let times = |name: &'static str, shortest, default| {
        let typed = value(&matches, name, |typed| time(typed, shortest..=LONGEST))?;
        Ok::<_, Failure>(typed.unwrap_or(default))
    };
    let json = json_place(matches.get_one("json"))?;
    Ok(Some(Asked {
        hosts,
        device: value(&matches, "device", |typed| {
            typed.parse().map_err(str::to_owned)
        })?
        .unwrap_or(DEFAULT_DEVICE),
        all_nics: matches.get_flag("all-nics"),
        passed_on,
        count: value(&matches, "count", |typed| {
            within(typed, 1..=u32::MAX.into())
        })?,
        interval: times("interval", Duration::ZERO, INTERVAL)?,
        timeout: times("timeout", Duration::from_millis(1), TIMEOUT)?,
        json,
    }))
}

/// Checks the arguments of the runs by the rules of the tools.
fn check(passed_on: &[OsString], hosts: &[String]) -> Result<(), Failure> {
    let tool = &TOOLS[0];
    let typed = |place: Vec<OsString>| {
        let arguments = passed_on.iter().cloned().chain(place).collect();
        match cli::parse(tool, arguments).map_err(|refusal| refusal.failure)? {
            Request::Run(typed) => Plan::new(tool, PROGRAM.into(), *typed, None).map(|_| ()),
            _ => Ok(()),
        }
    };
    match hosts {
        [] => typed(vec!["--loopback".into()]),
        hosts => hosts
            .iter()
            .try_for_each(|host| typed(vec!["--".into(), host.into()])),
    }
}

/// Returns the value of an option, if it is given.
fn value<T>(
    matches: &ArgMatches,
    name: &'static str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, Failure> {
    let Some(typed) = matches.get_one::<String>(name) else {
        return Ok(None);
    };
    let read = read(typed).map_err(|allowed| Failure::usage(invalid(name, typed, allowed)));
    read.map(Some)
}
