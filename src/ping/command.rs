//! `ping`: whether the NICs of other hosts answer, and how fast (docs/manual/ping.md).

use std::ffi::OsString;
use std::time::Duration;

use crate::document::{Ping, PingPair};
use crate::rounds::Rounds;
use crate::text;
use cli::arguments;
use cli::definition::OptionDef;
use cli::output;
use cli::usage::{Completion, Usage};
use facts::child::PROGRAM;
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::{Failure, Kind};
use facts::host::host_name;
use facts::interrupt;
use facts::number::time_text;
use node::backend;
use node::machine::Machine;
use page::destination::Place;
use page::documents::Documents;
use plan::command_line;
use plan::command_line::Request;
use plan::tools::TOOLS;
use plan::{DEFAULT_PORT, Plan};

/// Default of `--interval`.
const INTERVAL: Duration = Duration::from_secs(1);

/// Default of `--timeout`: a NIC that answers does so within microseconds, and a retry of a lost
/// packet takes 1.07 s (libcxi.md 12.3).
const TIMEOUT: Duration = Duration::from_secs(5);

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
        options: arguments::entries(options()),
        remarks: vec![
            "Exit status 1 if anything was not answered, 4 if only because NICs measured with\n\
             other clients.",
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
    let Some(request) = output::or_refusal(&arguments, parse(&arguments))? else {
        return Ok(());
    };
    let documents = Documents::open_json(request.json.as_ref())?;
    let devices = output::or_failure(&documents, request.devices())?;
    output::or_failure(&documents, interrupt::watch())?;
    let mut report = Ping::new(request.pairs(&devices));
    let has_text = !request.is_quiet && request.json != Some(Place::Stdout);
    let ended = request.rounds.run(&mut report, has_text);
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

/// What the arguments ask for.
#[derive(Debug, Default)]
struct PingRequest {
    hosts: Vec<String>,
    device: Option<DeviceName>,
    rounds: Rounds,
    is_quiet: bool,
    json: Option<Place>,
}

impl PingRequest {
    /// Checks the arguments of the runs by the rules of the tools.
    fn check(&self) -> Result<(), Failure> {
        let tool = &TOOLS[0];
        let typed = |place: &[&str]| {
            let passed_on = self.rounds.passed_on.iter().map(String::as_str);
            let arguments = passed_on.chain(place.iter().copied()).map(OsString::from).collect();
            match command_line::parse(tool, arguments).map_err(|refusal| refusal.failure)? {
                Request::Run(typed) => Plan::new(tool, PROGRAM.into(), *typed, None).map(|_| ()),
                _ => Ok(()),
            }
        };
        if self.rounds.is_loopback {
            return typed(&["--loopback"]);
        }
        self.hosts.iter().try_for_each(|host| typed(&["--", host]))
    }

    /// Returns the NICs of this machine to use.
    fn devices(&self) -> Result<Vec<DeviceName>, Failure> {
        if !self.rounds.all_nics {
            let device = self.device.unwrap_or(DEFAULT_DEVICE);
            backend::check(device)?;
            return Ok(vec![device]);
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

    fn pairs(&self, devices: &[DeviceName]) -> Vec<PingPair> {
        let own = [host_name()];
        let hosts = if self.hosts.is_empty() { &own[..] } else { &self.hosts };
        let pairs =
            hosts.iter().flat_map(|host| devices.iter().map(|device| PingPair::new(host, *device)));
        pairs.collect()
    }
}

fn options() -> Vec<OptionDef<PingRequest>> {
    type Def = OptionDef<PingRequest>;
    let passed_on = |option: OptionDef<Vec<String>>| -> Def {
        option.within(|request| &mut request.rounds.passed_on)
    };
    let peer_device =
        arguments::passed_on("peer-device", "DEV|auto").completed_by(Completion::Devices);
    let service = arguments::service();
    let mut options = vec![
        Def::number("count", "COUNT", 1..=u64::from(u32::MAX), |request| &mut request.rounds.count)
        .letter('c')
        .explained(
            "End after COUNT rounds (default: no limit)\n\n\
             A round measures each pair once. Without this option, ping goes on until Ctrl-C, unless no \
             NIC of this machine can be opened in the first round.",
        ),
        Def::time("interval", Duration::ZERO..=LONGEST, |request| &mut request.rounds.interval)
        .letter('i')
        .explained(format!(
            "Time from one round to the next (default: {})\n\n\
                     TIME is in seconds without a unit.",
            time_text(INTERVAL)
        )),
        Def::value("device", "DEV", str::parse::<DeviceName>, |request| &mut request.device)
        .letter('d')
        .completed_by(Completion::Devices)
        .explained(format!("NIC of this machine (default: {DEFAULT_DEVICE})")),
        passed_on(peer_device.explained(
            "NIC of the server; auto: the one of the same name (default: that of the server)",
        )),
        Def::switch("all-nics", |request| request.rounds.all_nics = true)
            .explained("Use each NIC of this machine, with --peer-device=auto"),
    ];
    options.extend(service.map(passed_on));
    options.extend([
        Def::switch("loopback", |request| request.rounds.is_loopback = true)
            .explained("Let each NIC answer itself; no HOST"),
        passed_on(
            arguments::passed_on("port", "PORT")
                .letter('p')
                .explained(format!("TCP port of the servers (default: {DEFAULT_PORT})")),
        ),
        Def::time("timeout", Duration::from_millis(1)..=LONGEST, |request| &mut request.rounds.timeout)
        .explained(format!(
            "Time limit of a pair for its answers (default: {})\n\n\
                     The limit covers the name of the host, the connection, the handshake and the operations together. Each kind of operation that is answered begins the time anew. TIME \
                     is in seconds without a unit.",
            time_text(TIMEOUT)
        )),
        Def::switch("quiet", |request| request.is_quiet = true)
            .letter('q')
            .explained("Print the table at the end only"),
        output::json().within(|request| &mut request.json),
    ]);
    options
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<PingRequest>, Failure> {
    let mut request = PingRequest {
        rounds: Rounds {
            passed_on: ["--iters=10", "--warmup=2", "--latency-gap=0"].map(String::from).into(),
            interval: INTERVAL,
            timeout: TIMEOUT,
            ..Rounds::default()
        },
        ..PingRequest::default()
    };
    let Some(words) = arguments::read(&usage(), &options(), arguments, &mut request)? else {
        return Ok(None);
    };
    request.hosts = arguments::texts(words)?;
    match (request.hosts.as_slice(), request.rounds.is_loopback) {
        ([], false) => return Err(Failure::usage("expected a HOST, or --loopback")),
        ([host, ..], true) => {
            return Err(Failure::usage(format!("--loopback needs no host: leave out '{host}'")));
        }
        _ => {}
    }
    let names_peer = |argument: &String| argument.starts_with("--peer-device=");
    for (other, is_given) in [
        ("device", request.device.is_some()),
        ("peer-device", request.rounds.passed_on.iter().any(names_peer)),
    ] {
        if request.rounds.all_nics && is_given {
            let message = format!("--all-nics and --{other} exclude each other");
            return Err(Failure::usage(message));
        }
    }
    request.check()?;
    Ok(Some(request))
}
