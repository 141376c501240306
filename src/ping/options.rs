//! What `ping` takes.

use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::Duration;

use clap::{Args, Command};

use cli::arguments::{ServiceArguments, TypedArguments, passed_on};
use cli::usage::{Completion, Usage};
use cli::{arguments, derived, output};
use facts::child::PROGRAM;
use facts::device::{DEFAULT_DEVICE, DeviceName};
use facts::error::Failure;
use facts::number::time;
use page::destination::Place;
use plan::command_line::Request;
use plan::tools::TOOLS;
use plan::{DEFAULT_PORT, Plan, command_line};

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
pub struct PingRequest {
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
pub fn parse(arguments: &[OsString]) -> Result<Option<PingRequest>, Failure> {
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
