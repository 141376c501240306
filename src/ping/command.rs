//! `ping`: whether the NICs of other hosts answer, and how fast (docs/manual/ping.md): its options
//! and its rounds. The pairs of a round are measured side by side, so that hosts that do not answer
//! delay no others.

use std::ffi::OsString;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use clap::{Args, Command};
use cli::arguments::{self, ServiceArguments, TypedArguments, passed_on};
use cli::usage::{Completion, Usage};
use cli::{derived, output};
use crossbeam_channel::unbounded;
use diag::probe::Probe;
use facts::advice::{Advise, Situation};
use facts::child::PROGRAM;
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, Kind, Step};
use facts::host::{host_name, ip_address};
use facts::number::{time, time_text};
use facts::{interrupt, threads};
use node::backend;
use node::machine::Machine;
use page::destination::Place;
use page::documents::Documents;
use page::page::{Page, Words, style_of_stdout};
use page::problem::Problem;
use page::progress_line::columns;
use plan::command_line::{self, Request};
use plan::tools::TOOLS;
use plan::{DEFAULT_PORT, Plan};

use crate::document::{OPERATIONS, Ping, PingAnswer, PingOperation, PingPair};
use crate::text;

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a file that cannot be written, and operations without an answer.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(request) = output::or_refusal(&arguments, parse(&arguments))? else {
        return Ok(());
    };
    let documents = Documents::open_json(request.json.as_ref())?;
    let devices = output::or_failure(&documents, devices(&request))?;
    output::or_failure(&documents, interrupt::watch())?;
    let mut report = Ping::new(pairs(&request, &devices));
    let has_text = !request.is_quiet && request.json != Some(Place::Stdout);
    let ended = request.run(&mut report, has_text);
    // Ctrl-C is the regular end, as of ping(8).
    if let Err(failure) = ended
        && failure.kind != Kind::Interrupted
    {
        return output::or_failure(&documents, Err(failure));
    }
    report.end();
    output::write(&documents, &report, false, text::summary)?;
    report.result()
}

/// The NICs of this machine to use.
fn devices(request: &PingRequest) -> Result<Vec<DeviceName>, Failure> {
    if !request.all_nics {
        backend::check(request.device)?;
        return Ok(vec![request.device]);
    }
    let (found, failure) = backend::devices(&[], None, &Machine::this());
    if let Some(failure) = failure {
        return Err(failure);
    }
    let names: Vec<DeviceName> = found.iter().map(|found| found.name).collect();
    let hardware: Vec<DeviceName> =
        names.iter().copied().filter(|name| name.platform().is_listed).collect();
    Ok(if hardware.is_empty() { names } else { hardware })
}

fn pairs(request: &PingRequest, devices: &[DeviceName]) -> Vec<PingPair> {
    let own = [host_name()];
    let hosts = if request.hosts.is_empty() { &own[..] } else { &request.hosts };
    let pairs =
        hosts.iter().flat_map(|host| devices.iter().map(|device| PingPair::new(host, *device)));
    pairs.collect()
}

/// The longest time of an option: a day.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag ping".into(),
        about: "Check whether NICs of other hosts answer, and how fast",
        synopsis: vec![
            ("cxidiag ping HOST... [OPTIONS]".into(), ""),
            ("cxidiag ping --loopback [OPTIONS]".into(), ""),
        ],
        arguments: Completion::Hosts,
        about_arguments: "HOST runs 'cxidiag serve'. Each pair of NICs gets a few writes, reads, \
                          atomics\nand sends of 8 bytes.",
        options: derived::entries(&COMMAND),
        remarks: vec![
            "Exit status 1 if anything was not answered, 4 if only because NICs measured with\n\
             other clients.",
            "A token is taken from CXIDIAG_TOKEN.",
        ],
        ..Usage::default()
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<PingRequest>);

/// What the arguments ask for.
#[derive(Debug, Args)]
struct PingRequest {
    /// End after COUNT rounds (default: no limit)
    ///
    /// A round measures each pair once. Without this option, ping goes on until Ctrl-C, unless no
    /// NIC of this machine can be opened in the first round.
    #[arg(short, long, value_name = "COUNT")]
    #[arg(value_parser = derived::number(1..=u64::from(u32::MAX)))]
    pub count: Option<u64>,

    /// Time from one round to the next
    ///
    /// TIME is in seconds without a unit.
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    #[arg(value_parser = |typed: &str| time(typed, Duration::ZERO..=LONGEST))]
    pub interval: Duration,

    /// NIC of this machine
    #[arg(short, long, value_name = "DEV", default_value_t = DEFAULT_DEVICE)]
    #[arg(add = Completion::Devices)]
    pub device: DeviceName,

    /// NIC of the server; auto: the one of the same name (default: as the server was started)
    #[arg(long, value_name = "DEV|auto")]
    #[arg(value_parser = passed_on("peer-device"), add = Completion::Devices)]
    peer_device: Option<String>,

    /// Use each NIC of this machine, with --peer-device=auto
    #[arg(long)]
    pub all_nics: bool,

    #[command(flatten)]
    service: ServiceArguments,

    /// Let each NIC answer itself; no HOST
    #[arg(long = "loopback")]
    pub is_loopback: bool,

    #[arg(short, long, help = format!("TCP port of the servers (default: {DEFAULT_PORT})"))]
    #[arg(value_name = "PORT", value_parser = passed_on("port"))]
    port: Option<String>,

    /// Time limit of a pair for its answers
    ///
    /// The limit covers the name of the host, the connection, the handshake and the operations
    /// together. Each kind of operation that is answered begins the time anew. TIME is in seconds
    /// without a unit.
    // A NIC that answers does so within microseconds, and a retry of a lost packet takes 1.07 s
    // (libcxi.md 12.3).
    #[arg(long, value_name = "TIME", default_value = "5s")]
    #[arg(value_parser = |typed: &str| time(typed, Duration::from_millis(1)..=LONGEST))]
    pub timeout: Duration,

    /// Print the table at the end only
    #[arg(short = 'q', long = "quiet")]
    pub is_quiet: bool,

    #[arg(long, help = output::JSON, value_name = "FILE", require_equals = true)]
    #[arg(value_parser = derived::document(), add = Completion::Files)]
    pub json: Option<Place>,

    #[arg(skip)]
    pub hosts: Vec<String>,
}

impl PingRequest {
    /// Returns arguments for each run.
    pub fn passed_on(&self) -> Vec<String> {
        let own = ["--iters=10", "--warmup=2", "--latency-gap=0"].map(String::from).into_iter();
        let typed = [&self.peer_device, &self.port].into_iter().flatten().cloned();
        own.chain(typed).chain(self.service.arguments()).collect()
    }

    /// Checks the arguments of the runs by the rules of the tools.
    fn check(&self) -> Result<(), Failure> {
        let tool = &TOOLS[0];
        let typed = |place: &[&str]| {
            let passed_on = self.passed_on().into_iter().map(OsString::from);
            let arguments = passed_on.chain(place.iter().map(OsString::from)).collect();
            match command_line::parse(tool, arguments).map_err(|refusal| refusal.failure)? {
                Request::Run(typed) => Plan::new(tool, PROGRAM.into(), *typed, None).map(|_| ()),
                _ => Ok(()),
            }
        };
        if self.is_loopback {
            return typed(&["--loopback"]);
        }
        self.hosts.iter().try_for_each(|host| typed(&["--", host]))
    }
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<PingRequest>, Failure> {
    let Some(typed) = TypedArguments::<PingRequest>::read(&usage(), &COMMAND, arguments)? else {
        return Ok(None);
    };
    let hosts = arguments::texts(typed.words.clone())?;
    match (hosts.as_slice(), typed.request.is_loopback) {
        ([], false) => return Err(Failure::usage("expected a HOST, or --loopback")),
        ([host, ..], true) => {
            return Err(Failure::usage(format!("--loopback needs no host: leave out '{host}'")));
        }
        _ => {}
    }
    let others = ["device", "peer-device"];
    if let Some(other) = others.into_iter().find(|long| typed.is_given(long))
        && typed.request.all_nics
    {
        return Err(Failure::usage(format!("--all-nics and --{other} exclude each other")));
    }
    let request = PingRequest { hosts, ..typed.request };
    request.check()?;
    Ok(Some(request))
}

/// Most pairs that are measured at a time. Each has a process, which takes one of the 255 LNIs of
/// the NIC.
const AT_A_TIME: usize = 64;

/// What to do without a connection.
const NO_SERVER: &str = "check that the host is up, that 'cxidiag serve' runs there with this --port, and that no firewall blocks the port";

/// What to do with a server that does not speak.
const FROZEN: &str = "see on the host what listens on the port ('ss -ltnp') and whether it is stopped ('ps', state T or D); this has nothing to do with the NICs";

/// What to do if a process of this machine did not even begin to connect.
const STARVED: &str =
    "this machine is too busy: ping fewer hosts at a time, or with a longer --timeout";

/// What to do if another client measures.
const BUSY: &str = "wait for the other clients ('cxidiag serve --status' on the host lists them)";

/// Situations whose hints name options of the tools that `ping` lacks, and the hints of `ping`.
const OWN_HINTS: [(Situation, &str); 4] = [
    (Situation::OtherToken, "give both sides the same token, in CXIDIAG_TOKEN, or none"),
    (
        Situation::OtherJob,
        "run ping in the job of the server, or start 'cxidiag serve' with --any-job",
    ),
    (Situation::ServerBusy, BUSY),
    (Situation::NoDiagnostic, FROZEN),
];

impl PingRequest {
    /// Measures all pairs of `report`, round after round; prints a line for each if `has_text`.
    ///
    /// # Errors
    ///
    /// An interruption, and standard output that cannot be written.
    pub fn run(&self, report: &mut Ping, has_text: bool) -> Result<(), Failure> {
        if has_text {
            print(text::title(report))?;
        }
        let mut round = 0;
        loop {
            let began = Instant::now();
            self.round(report, has_text)?;
            round += 1;
            let is_last = match self.count {
                Some(count) => round == count,
                // Further rounds would say the same.
                None => round == 1 && report.has_no_device(),
            };
            if is_last {
                return Ok(());
            }
            let left = self.interval.saturating_sub(began.elapsed());
            interrupt::wait_for_any(&mut Vec::new(), Some(left))?;
        }
    }

    /// Measures all pairs once, [`AT_A_TIME`] side by side. In a loopback run, one after the other:
    /// each takes two CPUs of this machine.
    fn round(&self, report: &mut Ping, has_text: bool) -> Result<(), Failure> {
        let pairs: Vec<_> =
            report.pairs.iter().map(|pair| (pair.host.clone(), pair.device)).collect();
        let most = if self.is_loopback { 1 } else { AT_A_TIME };
        let next = AtomicUsize::new(0);
        let (answered, answers) = unbounded();
        thread::scope(|scope| {
            for count in 0..most.min(pairs.len()) {
                let (pairs, next, answered) = (&pairs, &next, answered.clone());
                let measure = move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some((host, device)) = pairs.get(index) else {
                            return;
                        };
                        // The receiver takes all answers.
                        let _ = answered.send((index, self.operations(host, *device)));
                    }
                };
                match threads::start_in(scope, measure) {
                    // The others measure.
                    Err(_) if count > 0 => break,
                    started => started?,
                };
            }
            drop(answered);
            let mut is_known = vec![false; pairs.len()];
            let mut printed = 0;
            let mut result = Ok(());
            for (index, answers) in &answers {
                let taken = answers.and_then(|answers| {
                    report.pairs[index].add(answers);
                    is_known[index] = true;
                    while has_text && is_known.get(printed) == Some(&true) {
                        print(text::line(report, printed, columns(&io::stdout())))?;
                        printed += 1;
                    }
                    Ok(())
                });
                if taken.is_err() {
                    // No further pair begins.
                    next.store(pairs.len(), Ordering::Relaxed);
                    result = result.and(taken);
                }
            }
            result
        })
    }

    /// Runs each kind of operation of a pair. Each answer begins the time limit anew. After a
    /// failure on the way to the NIC of the peer, the other kinds are left out: they would fail in
    /// the same way. So are those for which a failure has left no time.
    fn operations(&self, host: &str, device: DeviceName) -> Result<Vec<PingAnswer>, Failure> {
        let mut since = Instant::now();
        let mut answers = Vec::new();
        for operation in &OPERATIONS {
            let answer = self.operation(host, device, operation, since)?;
            let is_of_nics = |problem: &Problem| {
                let steps = [Step::Answer, Step::Operation];
                steps.iter().any(|step| problem.step.as_deref() == Some(step.name()))
                    && since.elapsed() < self.timeout
            };
            let goes_on = answer.latencies.as_ref().err().is_none_or(is_of_nics);
            if answer.latencies.is_ok() {
                since = Instant::now();
            }
            answers.push(answer);
            if !goes_on {
                break;
            }
        }
        Ok(answers)
    }

    /// Runs one kind of operation; the time limit counts from `since` on.
    fn operation(
        &self,
        host: &str,
        device: DeviceName,
        operation: &PingOperation,
        since: Instant,
    ) -> Result<PingAnswer, Failure> {
        let mut arguments: Vec<OsString> = self.passed_on().into_iter().map(Into::into).collect();
        arguments.push(format!("--device={device}").into());
        if self.is_loopback {
            arguments.push("--loopback".into());
        } else {
            let limit = time_text(self.timeout);
            arguments.push(format!("--connect-timeout={limit}").into());
            if self.all_nics {
                arguments.push("--peer-device=auto".into());
            }
            arguments.extend(["--".into(), host.into()]);
        }
        let probe = Probe {
            tool: operation.tool,
            arguments,
            variables: Vec::new(),
            limit: Some(self.timeout),
            longest: None,
            since,
        };
        match probe.run() {
            Ok(mut outcome) => {
                if let Some(problem) = &mut outcome.error {
                    problem.hint = own_hint(problem).or(problem.hint.take());
                }
                Ok(PingAnswer::of(outcome))
            }
            Err(failure) if failure.kind == Kind::Interrupted => Err(failure),
            Err(failure) => Ok(PingAnswer::none(&self.explain(failure, host))),
        }
    }

    /// The failure of a run without an outcome: one that did not end in time, at its step.
    fn explain(&self, failure: Failure, host: &str) -> Failure {
        let limit = time_text(self.timeout);
        let failed_in = |step, message: String| Failure::environment(message).in_step(step);
        match failure.step() {
            // The server is a process of this run.
            Some(_) if self.is_loopback => {
                failed_in(Step::Answer, failure.message()).advised(Situation::NoAnswer)
            }
            // An address needs no name service: this machine had no time for the run.
            Some(Step::Name) if ip_address(host).is_some() => {
                let message = format!("did not begin to connect within {limit}");
                Failure::environment(message).with_hint(STARVED)
            }
            Some(step @ Step::Name) => {
                let message = format!("the name is not resolved within {limit}");
                failed_in(step, message).advised(Situation::UnknownHost)
            }
            Some(step @ Step::Tcp) => {
                failed_in(step, format!("no connection within {limit}")).with_hint(NO_SERVER)
            }
            Some(step @ Step::Handshake) => {
                let message = format!(
                    "accepts connections but does not speak within {limit}: frozen or another program"
                );
                failed_in(step, message).with_hint(FROZEN)
            }
            Some(Step::Turn) => failure.with_hint(BUSY),
            Some(Step::Answer) => failure.advised(Situation::NoAnswer),
            _ => failure,
        }
    }
}

/// The hint of `ping` for a problem that a run has reported, if `ping` has its own.
fn own_hint(problem: &Problem) -> Option<String> {
    if problem.step.as_deref() == Some(Step::Tcp.name()) {
        return Some(NO_SERVER.into());
    }
    let situation = problem.situation.as_ref()?;
    let own = OWN_HINTS.iter().find(|(own, _)| own.name() == *situation);
    own.map(|(_, hint)| (*hint).into())
}

fn print(line: impl Into<Words>) -> Result<(), Failure> {
    let mut page = Page::default();
    page.line(line);
    page.print(style_of_stdout())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_the_situation_and_not_the_text() {
        let hint = |failure: Failure| own_hint(&Problem::from(&failure));
        let wrong = || Failure::environment("tokens differ").with_hint("give --token");
        assert_eq!(hint(wrong()), None);
        let own = hint(wrong().in_situation(Situation::OtherToken)).unwrap();
        assert!(own.contains("CXIDIAG_TOKEN") && !own.contains("--token"), "{own}");
        assert_eq!(hint(wrong().in_step(Step::Tcp)).as_deref(), Some(NO_SERVER));
        assert_eq!(hint(wrong().advised(Situation::NoDiagnostic)).as_deref(), Some(FROZEN));
    }

    #[test]
    fn blames_name_service_for_names_only() {
        let request = parse(&["n1".into()]).unwrap().unwrap();
        let explained = |host| {
            let ended = Failure::environment("did not end").in_step(Step::Name);
            request.explain(ended, host).message()
        };
        assert_eq!(explained("nid0001"), "the name is not resolved within 5s");
        for host in ["10.1.1.8", "::1", "[fe80::1]"] {
            assert_eq!(explained(host), "did not begin to connect within 5s");
        }
    }
}
