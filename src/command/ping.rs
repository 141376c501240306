//! `ping`: whether the NICs of other hosts answer, and how fast (docs/manual/ping.md).

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::arguments;
use super::output;
use super::probe::Probe;
use facts::advice::{Situation, remedy};
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, Kind, Step};
use facts::host::host_name;
use facts::interrupt;
use facts::number::{time, time_text, within};
use node::backend;
use node::machine::Machine;
use plan::cli::definition::OptionDef;
use plan::cli::usage::{Completion, Usage};
use plan::cli::{self, Request};
use plan::outputs::Place;
use plan::tool::PROGRAM;
use plan::tools::TOOLS;
use plan::{DEFAULT_PORT, Plan};
use report::documents::Documents;
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
        options: arguments::entries(options()),
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
    let Some(request) = parse(&arguments)? else {
        return Ok(());
    };
    let documents = Documents::open_json(request.json.as_ref())?;
    let devices = request.devices()?;
    interrupt::watch()?;
    let mut report = Ping::new(request.pairs(&devices));
    let ended = rounds(&request, &mut report);
    // Ctrl-C is the regular end, as of ping(8).
    if let Err(failure) = ended
        && failure.kind != Kind::Interrupted
    {
        return Err(failure);
    }
    report.end();
    output::write(&documents, &report, ping_text::summary)?;
    report.result()
}

/// Measures all pairs, round after round, and prints a line for each.
fn rounds(request: &PingRequest, report: &mut Ping) -> Result<(), Failure> {
    let has_text = request.json != Some(Place::Stdout);
    if has_text {
        print(&ping_text::title(report))?;
    }
    let mut round = 0;
    loop {
        let began = Instant::now();
        for index in 0..report.pairs.len() {
            let answers = request.operations(&report.pairs[index])?;
            let pair = &mut report.pairs[index];
            pair.add(answers);
            if has_text {
                let line = ping_text::line(report, index);
                print(&line)?;
            }
        }
        round += 1;
        if request.count == Some(round) {
            return Ok(());
        }
        let left = request.interval.saturating_sub(began.elapsed());
        interrupt::wait_for_any(&mut Vec::new(), Some(left))?;
    }
}

fn print(line: &str) -> Result<(), Failure> {
    writeln!(io::stdout(), "{line}").map_err(interrupt::output_failed)
}

/// What the arguments ask for.
#[derive(Debug, Default)]
struct PingRequest {
    hosts: Vec<String>,
    is_loopback: bool,
    device: Option<DeviceName>,
    all_nics: bool,
    /// Arguments for each run.
    passed_on: Vec<String>,
    count: Option<u64>,
    interval: Duration,
    timeout: Duration,
    json: Option<Place>,
}

impl PingRequest {
    /// Checks the arguments of the runs by the rules of the tools.
    fn check(&self) -> Result<(), Failure> {
        let tool = &TOOLS[0];
        let typed = |place: &[&str]| {
            let passed_on = self.passed_on.iter().map(String::as_str);
            let arguments = passed_on.chain(place.iter().copied());
            let arguments = arguments.map(OsString::from).collect();
            match cli::parse(tool, arguments).map_err(|refusal| refusal.failure)? {
                Request::Run(typed) => Plan::new(tool, PROGRAM.into(), *typed, None).map(|_| ()),
                _ => Ok(()),
            }
        };
        if self.is_loopback {
            return typed(&["--loopback"]);
        }
        self.hosts.iter().try_for_each(|host| typed(&["--", host]))
    }

    /// Returns the NICs of this machine to use.
    fn devices(&self) -> Result<Vec<DeviceName>, Failure> {
        if !self.all_nics {
            let device = self.device.unwrap_or(DEFAULT_DEVICE);
            backend::check(device)?;
            return Ok(vec![device]);
        }
        let (found, failure) = backend::devices(&[], None, &Machine::this());
        if let Some(failure) = failure {
            return Err(failure);
        }
        let names: Vec<DeviceName> = found.iter().map(|found| found.name).collect();
        let hardware: Vec<DeviceName> = names
            .iter()
            .copied()
            .filter(|name| name.platform().is_listed)
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
        let mut arguments: Vec<OsString> = self.passed_on.iter().map(Into::into).collect();
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
                if let Some(problem) = &mut outcome.error
                    && problem.step.as_deref() == Some(Step::Tcp.name())
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

fn options() -> Vec<OptionDef<PingRequest>> {
    type Def = OptionDef<PingRequest>;
    let passed_on =
        |option: OptionDef<Vec<String>>| -> Def { option.within(|request| &mut request.passed_on) };
    let peer_device =
        arguments::passed_on("peer-device", "DEV|auto").completed_by(Completion::Devices);
    let service = arguments::service([
        "The CXI service of this side, as for the tools.",
        "The VNI of this side, as for the tools.",
        "The traffic class of this side, as for the tools.",
    ]);
    let mut options =
        vec![
        Def::text("count", "COUNT", |request, typed| {
            request.count = Some(within(typed, 1..=u32::MAX.into())?);
            Ok(())
        })
        .letter('c')
        .explained(
            "End after COUNT rounds (default: no limit)",
            "End after this number of rounds. A round measures each pair once. Without it, \
             **ping** goes on until Ctrl-C.",
        ),
        Def::text("interval", "TIME", |request, typed| {
            request.interval = time(typed, Duration::ZERO..=LONGEST)?;
            Ok(())
        })
        .letter('i')
        .explained(
            format!("Time from one round to the next (default: {})", time_text(INTERVAL)),
            "The time from the beginning of one round to that of the next. *TIME* is in seconds \
             without a unit.",
        ),
        Def::text("device", "DEV", |request, typed| {
            request.device = Some(typed.parse()?);
            Ok(())
        })
        .letter('d')
        .completed_by(Completion::Devices)
        .explained(
            format!("NIC of this machine (default: {DEFAULT_DEVICE})"),
            "The NIC of this machine.",
        ),
        passed_on(peer_device.explained(
            "NIC of the server; auto: the one of the same name\n(default: that of the server)",
            "The NIC of the server: a name, or *auto* for the one with the name of the NIC of this \
             machine. By default the server chooses.",
        )),
        Def::switch("all-nics", |request| request.all_nics = true).explained(
            "Use each NIC of this machine, with --peer-device=auto",
            "Use each NIC of this machine in turn, with the NIC of the same name of the server.",
        ),
    ];
    options.extend(service.map(passed_on));
    options.extend([
        Def::switch("loopback", |request| request.is_loopback = true).explained(
            "Let each NIC answer itself; no HOST",
            "Let each NIC answer itself, without a peer.",
        ),
        passed_on(arguments::passed_on("port", "PORT").letter('p').explained(
            format!("TCP port of the servers (default: {DEFAULT_PORT})"),
            "The TCP port of the servers.",
        )),
        Def::text("timeout", "TIME", |request, typed| {
            request.timeout = time(typed, Duration::from_millis(1)..=LONGEST)?;
            Ok(())
        })
        .explained(
            format!(
                "Time limit of each operation (default: {})",
                time_text(TIMEOUT)
            ),
            "How long to wait for the answers to each kind of operation. *TIME* is in seconds \
             without a unit.",
        ),
        output::json().within(|request| &mut request.json),
    ]);
    options
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<PingRequest>, Failure> {
    let mut request = PingRequest {
        passed_on: ["--iters=10", "--warmup=2", "--latency-gap=0"]
            .map(String::from)
            .into(),
        interval: INTERVAL,
        timeout: TIMEOUT,
        ..PingRequest::default()
    };
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    request.hosts = arguments::texts(words)?;
    match (request.hosts.as_slice(), request.is_loopback) {
        ([], false) => return Err(Failure::usage("expected a HOST, or --loopback")),
        ([host, ..], true) => {
            return Err(Failure::usage(format!(
                "--loopback needs no host: leave out '{host}'"
            )));
        }
        _ => {}
    }
    let names_peer = |argument: &String| argument.starts_with("--peer-device=");
    for (other, is_given) in [
        ("device", request.device.is_some()),
        ("peer-device", request.passed_on.iter().any(names_peer)),
    ] {
        if request.all_nics && is_given {
            let message = format!("--all-nics and --{other} exclude each other");
            return Err(Failure::usage(message));
        }
    }
    request.check()?;
    Ok(Some(request))
}
