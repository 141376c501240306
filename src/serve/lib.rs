//! `serve`: the server of all tools and NICs of a machine (docs/serve.md).
//!
//! <!-- From tests/tidy/houses.rs: src/serve -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib             options, and the start of the server                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | prober          the process that probes other nodes                                       |
//!    | supervisor      the main thread                                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | client          a client, and the process that measures with it                           |
//!    | probing         the process that probes other nodes, and who probes this one              |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | board           what the threads of the prober share                                      |
//!    | ending          how a client and its process have ended                                   |
//!    | limits          what clients may ask for                                                  |
//!    | log             the lines about events                                                    |
//!    | probe_metrics   what probes have measured, as metrics                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | probe           probes all day: which targets, when, and what has come of them            |
//!    | queue           whose turn it is                                                          |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->
//!
//! A second thread receives connections (`session::arrivals`). Each client gets a process of its
//! own (`run::serve`), so that the end of a run, whatever its reason, releases all that it has
//! taken, and ends nothing else.

#![forbid(unsafe_code)]

mod board;
mod client;
mod ending;
mod limits;
mod log;
pub mod probe;
pub mod probe_metrics;
mod prober;
mod probing;
mod queue;
mod supervisor;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;

use clap::{ArgAction, Args, Command};
use crossbeam_channel::{Sender, unbounded};
use cxi::inherited;
use cxi::placement::Confined;
use ipnet::IpNet;
use rustix::net::sockopt::socket_acceptconn;
use sd_notify::NotifyState;
use signal_hook::consts::SIGUSR1;
use signal_hook::low_level;

use cli::output::MetricsRequest;
use cli::usage::{Completion, Usage};
use cli::{arguments, definition, derived};
use diag::run;
use diag::run::serve::is_started_for;
use facts::child::Duty;
use facts::device::LIBCXI_VARIABLE;
use facts::error::{Context, Failure, Kind};
use facts::host::bare;
use facts::net::{Listener, Reach, loopback};
use facts::token::Token;
use facts::{interrupt, threads};
use limits::ClientLimits;
use log::{Log, Priority};
use node::backend;
use node::explain::Explain;
use plan::options::{self, Def};
use plan::tools::{TOOLS, peer_tools};
use plan::typed::Typed;
use plan::{Plan, Role};
use probing::{ProbeRequest, Probing};
use session::arrivals::{Arrival, Rules, receive_all};
use session::{RefusalLog, ServerTotals, requests};
use supervisor::ClientSupervisor;

/// The options of the tools that `serve` has as well, by their long forms.
const OF_TOOLS: [&str; 11] = [
    "device",
    "svc-id",
    "vni",
    "traffic-class",
    "cpu",
    "ignore-link",
    "libcxi",
    "port",
    "bind",
    "any-job",
    "token",
];

/// Niceness of the thread that receives connections: measurements have a higher priority. With the
/// lowest priority, clients of a loaded host would wait for seconds.
const NICENESS: i32 = 5;

/// Returns what the command takes.
pub fn usage() -> Usage {
    Usage {
        program: "cxidiag serve".into(),
        about: "Serve the clients of all tools on all NICs",
        synopsis: vec![("cxidiag serve [OPTIONS]".into(), "")],
        arguments: Completion::Nothing,
        options: tool_options().map(|own| own.entry).chain(derived::entries(&COMMAND)).collect(),
        remarks: vec![
            "Each client names its tool, and with --peer-device a NIC. Other clients measure\n\
             with the NIC of --device. The clients of a NIC wait for each other.",
        ],
        ..Usage::default()
    }
}

/// Runs the command with the arguments after its name.
///
/// # Errors
///
/// Invalid arguments, a port that cannot be used, and an interruption other than by SIGTERM, which
/// is the regular end.
pub fn run(arguments: Vec<OsString>) -> Result<(), Failure> {
    let Some(mut request) = parse(&arguments)? else {
        return Ok(());
    };
    let is_prober = is_started_for(Duty::Prober);
    if is_prober {
        // The server has passed its own, which it may have made.
        request.typed.token = None;
    }
    request.limits.shows_token = request.typed.is_token_new;
    let plan = plan(request.typed)?;
    if !request.status && !is_prober {
        request.probes.check(&plan)?;
    }
    interrupt::watch()?;
    if is_prober {
        return prober::run(&plan, &request.probes);
    }
    if request.status {
        let host = plan.listening.bind.clone().unwrap_or_else(|| loopback().to_string());
        return page::print(&requests::ask_status(&plan, &host)?);
    }
    backend::check(plan.device)?;
    let announcement = request.probes.announcement(&plan);
    let probes = announcement.map(|announcement| (announcement, arguments));
    match serve(&plan, request.allowed, request.limits, probes) {
        Err(failure) if failure.kind == Kind::Interrupted && interrupt::is_terminated() => Ok(()),
        ended => ended,
    }
}

static COMMAND: LazyLock<Command> = LazyLock::new(derived::declared::<ServeRequest>);

/// What the arguments ask for.
#[derive(Args)]
struct ServeRequest {
    /// The options that all processes have.
    #[arg(skip = Typed::nothing(TOOLS[0].defaults))]
    typed: Typed,

    /// Networks of the clients, such as 10.1.0.0/16,192.168.1.7 (default: all)
    ///
    /// Other clients are refused at once. '--status' works on this machine in any case.
    #[arg(long = "allow", value_name = "NETWORKS", value_delimiter = ',')]
    #[arg(action = ArgAction::Set, value_parser = network)]
    allowed: Vec<IpNet>,

    #[command(flatten)]
    limits: ClientLimits,

    #[command(flatten)]
    probes: ProbeRequest,

    /// Print the state of the server that runs on this machine, and exit
    ///
    /// It says who is served and who waits. With --port or --bind, the server with these options.
    #[arg(long)]
    status: bool,

    #[command(flatten)]
    metrics: MetricsRequest,
}

/// The options of the tools that `serve` has as well.
fn tool_options() -> impl Iterator<Item = Def> {
    OF_TOOLS.iter().filter_map(|long| {
        let mut all = options::of(&TOOLS[0]).map(|(_, option)| option);
        all.find(|option| option.entry.long == *long)
    })
}

/// Reads the arguments. Returns `None` if they ask for help or the version.
fn parse(arguments: &[OsString]) -> Result<Option<ServeRequest>, Failure> {
    let Some(matches) = arguments::matches(&usage(), arguments)? else { return Ok(None) };
    let mut typed = Typed::nothing(TOOLS[0].defaults);
    definition::read(&tool_options().collect::<Vec<_>>(), &matches, &mut typed)?;
    let mut request = ServeRequest { typed, ..derived::read(&COMMAND, &matches)? };
    request.probes.metrics = std::mem::take(&mut request.metrics);
    Ok(Some(request))
}

/// A network. An address is a network of one.
fn network(text: &str) -> Result<IpNet, &'static str> {
    let address = || bare(text).parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(address).map(canonical).ok_or(
        "expected networks and addresses with commas between them, such as 10.1.0.0/16,192.168.1.7",
    )
}

/// An IPv4 network for one of IPv4-mapped addresses, such as ::ffff:10.1.0.0/112: clients are
/// compared by their IPv4 addresses.
fn canonical(network: IpNet) -> IpNet {
    /// Bits of an IPv4-mapped address before the IPv4 address.
    const MAPPED: u8 = 96;
    match network.addr().to_canonical() {
        address @ IpAddr::V4(_) if network.prefix_len() >= MAPPED => {
            IpNet::new_assert(address, network.prefix_len() - MAPPED)
        }
        _ => network,
    }
}

/// The plan of a server of the first tool, with the options that all processes have.
fn plan(mut typed: Typed) -> Result<Plan, Failure> {
    typed.token = typed.token.or_else(Token::from_environment);
    typed.is_token_new = false;
    let libcxi = std::env::var_os(LIBCXI_VARIABLE).filter(|path| !path.is_empty());
    let program = usage().program;
    Plan::new(&TOOLS[0], program, typed, libcxi.map(Into::into))
}

/// Serves until it is interrupted. `probes` are what the log says about the process that probes
/// others, and its arguments.
fn serve(
    plan: &Plan,
    allowed: Vec<IpNet>,
    limits: ClientLimits,
    probes: Option<(String, Vec<OsString>)>,
) -> Result<(), Failure> {
    // The CPUs that the runs with the default NIC take, before anything is opened.
    let placed = run::place(&Plan { role: Role::Server, ..plan.clone() })?;
    let listener = listener(plan)?;
    let log = Log::start()?;
    let token = plan.admission.token.clone();
    let probing = probes.map(|(announcement, arguments)| {
        Probing::start(announcement, arguments, token, log.clone())
    });
    let ended = serve_at(listener, plan, allowed, limits, &placed, &log, probing);
    log.finish();
    ended
}

/// Serves the clients that come to `listener`; `placed` is the plan of a run with the default NIC.
fn serve_at(
    listener: Listener,
    plan: &Plan,
    allowed: Vec<IpNet>,
    limits: ClientLimits,
    placed: &Plan,
    log: &Log,
    probing: Option<Probing>,
) -> Result<(), Failure> {
    let is_open = allowed.is_empty();
    let port = listener.port();
    let rules = Rules::new(peer_tools(), allowed, limits.surveys, plan);
    let rules = rules.with_probes(probing.is_some());
    let (arrived, arrivals) = unbounded();
    let (wake, woken) = UnixStream::pair().environment("cannot make a socket")?;
    let (ask, asked_for_state) = UnixStream::pair().environment("cannot make a socket")?;
    low_level::pipe::register(SIGUSR1, ask).environment("cannot wait for signals")?;
    let totals = Arc::new(ServerTotals::default());
    let receiver = ConnectionReceiver {
        listener,
        rules,
        log: log.clone(),
        totals: totals.clone(),
        cpus: free_cpus(placed)?,
        arrived,
        wake,
    };
    let thread = receiver.start()?;
    limits::print(log, plan, port, is_open, limits);
    if let Some(probing) = &probing {
        log.line(Priority::Info, probing.announcement.as_str());
    }
    // Does nothing without a service manager.
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let mut supervisor = ClientSupervisor::new(plan, port, limits, log.clone(), totals, probing);
    supervisor.run(&arrivals, &woken, &asked_for_state)?;
    // Without an interruption, the other thread has failed.
    match thread.join() {
        Ok(ended) => ended,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// What the thread has that receives connections.
struct ConnectionReceiver {
    listener: Listener,
    rules: Rules,
    log: Log,
    totals: Arc<ServerTotals>,
    /// The CPUs to run on; empty for all.
    cpus: Vec<u32>,
    /// Receives each client.
    arrived: Sender<Arrival>,
    /// Receives a byte after each client.
    wake: UnixStream,
}

impl ConnectionReceiver {
    /// Starts the thread. The scheduler prefers other threads to it.
    fn start(self) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
        threads::start("arrivals", move || self.receive())
    }

    fn receive(mut self) -> Result<(), Failure> {
        // Without its own CPUs, or a lower priority, the thread receives as well.
        let _confined = Confined::to(&self.cpus);
        let _ = rustix::process::nice(NICENESS);
        let refusals = RefusalLog::new("", &mut self.log).counting_in(self.totals);
        receive_all(&self.listener, &self.rules, refusals, |arrival| {
            // The main thread ends with the process.
            if self.arrived.send(arrival).is_ok() {
                let _ = self.wake.write_all(&[0]);
            }
        })
    }
}

/// The socket of the service manager, or else one on the plan's port.
fn listener(plan: &Plan) -> Result<Listener, Failure> {
    let Some(socket) = inherited::socket() else {
        return Listener::bind(plan.listening.bind.as_deref(), plan.port, Reach::Everywhere);
    };
    const WHAT: &str = "cannot use the socket of the service manager";
    let count = inherited::count();
    if count > 1 {
        let reason = format!("it has passed {count} (one ListenStream= in the .socket unit)");
        return Err(Failure::environment(reason).context(WHAT));
    }
    if !socket_acceptconn(&socket).environment(WHAT)? {
        let reason = "it does not listen (ListenStream= in the .socket unit)";
        return Err(Failure::new(Kind::Environment, io::Error::other(reason)).context(WHAT));
    }
    Listener::from_socket(TcpListener::from(socket)).environment(WHAT)
}

/// The CPUs on which no run with the default NIC measures.
fn free_cpus(placed: &Plan) -> Result<Vec<u32>, Failure> {
    let mut cpus = cxi::placement::cpus().explain("cannot read the CPUs of this process")?;
    cpus.retain(|cpu| !placed.placement.cpus.contains(cpu));
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request(arguments: &[&str]) -> Result<ServeRequest, Failure> {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        parse(&arguments).map(|request| request.expect("options of a server"))
    }

    fn refusal(arguments: &[&str]) -> String {
        request(arguments).err().expect("a refusal").message()
    }

    #[test]
    fn takes_options_of_tools_and_its_own() {
        let arguments = "-d soft3 -p 0 --any-job --max-run=10m --vni=7 --traffic-class=bulk-data";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let request = request(&arguments).unwrap();
        let plan = plan(request.typed).unwrap();
        assert_eq!(plan.role, Role::Server);
        assert_eq!(plan.device.to_string(), "soft3");
        assert_eq!((plan.port, plan.admission.any_job), (0, true));
        assert_eq!(request.limits.run, Duration::from_secs(600));
        let passed = plan.server_arguments();
        for argument in ["--device=soft3", "--vni=7", "--traffic-class=BULK_DATA"] {
            assert!(passed.contains(&argument.into()), "{passed:?}");
        }
        assert_eq!(request.limits.clients, 64);
    }

    #[test]
    fn refuses_invalid_limits_and_options_of_clients() {
        for (arguments, message) in [
            (["--max-clients=0"], "invalid value '0' for --max-clients: "),
            (["--max-run=0"], "invalid value '0' for --max-run: "),
            (["--max-buffers=1"], "invalid value '1' for --max-buffers: "),
            (["--allow="], "invalid value '' for --allow: "),
            (["--device=eth0"], "invalid value 'eth0' for --device: "),
            (["--persist"], "unknown option '--persist'"),
        ] {
            let refusal = refusal(&arguments);
            assert!(refusal.starts_with(message), "{refusal}");
        }
    }

    #[test]
    fn reads_networks_and_addresses() {
        let allowed = "10.1.0.0/16,192.168.1.7,fd00::/8,[fe80::1],::ffff:10.9.0.0/112";
        let allowed = request(&[&format!("--allow={allowed}")]).unwrap().allowed;
        let contains = |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            allowed.iter().any(|network| network.contains(&address))
        };
        for (address, expected) in [
            ("10.1.255.1", true),
            ("10.2.0.1", false),
            ("10.9.255.1", true),
            ("10.10.0.1", false),
            ("192.168.1.7", true),
            ("192.168.1.8", false),
            ("fd12::1", true),
            ("fe80::1", true),
            ("::1", false),
        ] {
            assert_eq!(contains(address), expected, "{address}");
        }
        for text in ["10.1", "10.1.0.0/33", "node1", "10.1.0.0/16,"] {
            assert!(request(&[&format!("--allow={text}")]).is_err(), "{text}");
        }
    }
}
