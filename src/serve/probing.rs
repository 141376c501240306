//! The probes of other nodes (docs/monitoring.md) as the server sees them: the options, the process
//! that probes, and the processes of other nodes that wait for the state of this one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use super::log::{Log, Priority};
use super::probe::schedule::TARGETS;
use crate::probe_metrics;
use cli::derived;
use cli::output::MetricsRequest;
use cli::usage::Completion;
use crew::host_list;
use facts::child::{self, Duty};
use facts::device::DeviceName;
use facts::error::{Context, Failure, invalid};
use facts::host::{host_name, is_same_host};
use facts::limit;
use facts::number::{bytes_within, counted, within};
use facts::text::plural;
use facts::token::Token;
use page::documents::{Documents, Places};
use plan::Plan;
use session::control_line::{ControlLine, NodeState, ProbeNews, ProbeProgress, Used};
use session::probe_feed::Watchers;

/// Time until a probing process that has ended starts again.
const AGAIN: Duration = Duration::from_secs(10);

/// Time that the process has to release its NICs when the server ends.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// What the options about probes ask for.
#[derive(Clone, Debug, Default, Args)]
pub struct ProbeRequest {
    /// Probe some of these hosts a little all day, for Prometheus
    ///
    /// Each of the hosts runs 'cxidiag serve' with the same list, in the same order, and the same
    /// --port. The list has this host, too: by its name, or by the address of --bind. Hosts that
    /// follow each other are taken for neighbours at a switch. FILE has lists of hosts, one on each
    /// line, and is read again when it changes. NICs on which clients measure are not probed.
    #[arg(long = "probe", value_name = "HOSTS|@FILE", value_parser = hosts)]
    #[arg(add = Completion::Hosts)]
    pub hosts: Option<String>,

    #[arg(long = "probe-targets", value_name = "COUNT")]
    #[arg(help = format!("Number of hosts that this host probes (default: {TARGETS})"))]
    #[arg(value_parser = |typed: &str| within(typed, 1..=64).map(|count| count as usize))]
    pub targets: Option<usize>,

    /// Most bytes a second of small writes at the port of each NIC (default: no limit)
    ///
    /// With fewer, each host is probed more rarely than every 5 s. Bulk writes, 1 MiB a minute to
    /// each host, are not counted. SIZE is in bytes, or has one of the units K, M and G.
    #[arg(long = "probe-budget", value_name = "SIZE")]
    #[arg(value_parser = |typed: &str| bytes_within(typed, 100..=1 << 30))]
    pub budget: Option<u64>,

    /// Do not probe, nor be probed, while FILE exists
    #[arg(long, value_name = "FILE", value_parser = derived::file(), add = Completion::Files)]
    pub pause_file: Option<PathBuf>,

    #[arg(skip)]
    pub metrics: MetricsRequest,
}

/// The list of hosts as typed: its file may change.
fn hosts(typed: &str) -> Result<String, String> {
    host_list::option_hosts(typed).map(|_| typed.to_owned())
}

impl ProbeRequest {
    /// Checks the options before anything is opened; `plan` is the plan of the server.
    ///
    /// # Errors
    ///
    /// A list that lacks this node, options that need the list, and a file that cannot be written.
    pub fn check(&self, plan: &Plan) -> Result<(), Failure> {
        let documents = self.documents()?;
        let Some(text) = &self.hosts else {
            let used = [
                ("openmetrics", documents.metrics.is_some()),
                ("probe-targets", self.targets.is_some()),
                ("pause-file", self.pause_file.is_some()),
                ("probe-budget", self.budget.is_some()),
            ];
            return match used.into_iter().find(|(_, is_used)| *is_used) {
                Some((option, _)) => Err(Failure::usage(format!("--{option} needs --probe=HOSTS"))),
                None => Ok(()),
            };
        };
        if plan.port == 0 {
            let why = "all servers need the same --port, and not 0";
            return Err(Failure::usage(invalid("probe", text, why)));
        }
        let hosts = host_list::option_hosts(text)
            .map_err(|why| Failure::usage(invalid("probe", text, why)))?;
        if own_name(&hosts, plan).is_none() {
            let why =
                format!("the list lacks this node, {} (or its address in --bind)", host_name());
            return Err(Failure::usage(invalid("probe", text, why)));
        }
        Ok(())
    }

    /// Opens the file of metrics, if there is one.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, or whose directory has another one with the same metrics.
    pub fn documents(&self) -> Result<Documents, Failure> {
        let metrics = self.metrics.file_with(probe_metrics::SERIES)?;
        Documents::open(&Places { metrics, ..Places::default() })
    }

    pub fn slots(&self) -> usize {
        self.targets.unwrap_or(TARGETS)
    }

    /// Returns which hosts are probed and where the figures go, for the log; `None` without probes.
    pub fn announcement(&self, plan: &Plan) -> Option<String> {
        let hosts = host_list::option_hosts(self.hosts.as_deref()?).ok()?;
        let own = own_name(&hosts, plan)?;
        let others = hosts.iter().collect::<BTreeSet<_>>().len() - 1;
        let targets = others.min(self.slots());
        let files = if self.metrics.is_given() {
            ""
        } else {
            "; without --openmetrics=FILE no metrics are written"
        };
        let ending = plural(others);
        Some(format!("probes {targets} of {others} other host{ending} as {own}{files}"))
    }
}

/// The name that the list of hosts has for this node: its address in `--bind`, or its own name.
pub fn own_name(hosts: &[String], plan: &Plan) -> Option<String> {
    let bind = plan.listening.bind.as_deref();
    let by_address = hosts.iter().find(|host| Some(host.as_str()) == bind);
    let own = host_name();
    by_address.or_else(|| hosts.iter().find(|host| is_same_host(host, &own))).cloned()
}

/// The process that probes other nodes, and those that probe this one.
pub struct Probing {
    /// Which hosts are probed, for the log.
    pub announcement: String,
    arguments: Vec<OsString>,
    token: Option<Token>,
    log: Log,
    process: Option<(Child, ControlLine)>,
    /// When the process starts again.
    again: Option<Instant>,
    /// What the process was told last.
    used: Vec<DeviceName>,
    state: NodeState,
    progress: ProbeProgress,
    watchers: Watchers,
}

impl Probing {
    /// Starts the process with the arguments of the server.
    pub fn start(
        announcement: String,
        arguments: Vec<OsString>,
        token: Option<Token>,
        log: Log,
    ) -> Self {
        let mut probing = Self {
            announcement,
            arguments,
            token,
            log,
            process: None,
            again: None,
            used: Vec::new(),
            state: NodeState::default(),
            progress: ProbeProgress::default(),
            watchers: Watchers::default(),
        };
        probing.start_process();
        probing
    }

    fn start_process(&mut self) {
        match self.process() {
            Ok(process) => self.process = Some(process),
            Err(failure) => self.wait_after(&failure.message()),
        }
    }

    fn process(&self) -> Result<(Child, ControlLine), Failure> {
        let pair = UnixStream::pair();
        let (own, other) = pair.environment("cannot make a socket for the process")?;
        let own_id = std::process::id().to_string();
        let mut command = child::command_with(Duty::Prober, &own_id, self.token.as_ref());
        let process =
            child::start(command.arg("serve").args(&self.arguments).stdout(OwnedFd::from(other)))?;
        let mut line = ControlLine::new(own);
        line.send(&Used(self.used.clone())).environment("cannot reach the process")?;
        Ok((process, line))
    }

    fn wait_after(&mut self, why: &str) {
        let again = limit::in_effect(AGAIN);
        self.log.line(
            Priority::Warning,
            format!("probes: {why}; they begin again in {} s", again.as_secs()),
        );
        self.again = Some(Instant::now() + again);
        self.set_state(NodeState::default());
    }

    /// Sends the state to those that probe this node.
    fn set_state(&mut self, state: NodeState) {
        self.state = state;
        self.watchers.send(&self.state);
    }

    /// The line of the process, to wait for its news.
    pub fn line(&self) -> Option<&ControlLine> {
        self.process.as_ref().map(|(_, line)| line)
    }

    /// Takes the news of the process.
    pub fn read(&mut self) {
        let Some((_, line)) = &mut self.process else {
            return;
        };
        let is_open = matches!(line.read(), Ok(true));
        let mut last = None;
        while let Some(news) = line.message() {
            match news {
                ProbeNews::State(state) => last = Some(state),
                ProbeNews::Progress(progress) => self.progress = progress,
                ProbeNews::Note(text) => {
                    self.log.line(Priority::Warning, format!("probes: {text}"));
                }
            }
        }
        if let Some(state) = last {
            self.set_state(state);
        }
        if !is_open && let Some((mut process, _)) = self.process.take() {
            let why = process.wait().map_or_else(|error| error.to_string(), child::end_text);
            self.wait_after(&why);
        }
    }

    /// Returns when to call [`Self::advance`], if nothing else happens.
    pub fn due(&self) -> Option<Instant> {
        self.again
    }

    /// Tells the process on which NICs clients measure, and starts it again when it is time.
    pub fn advance(&mut self, used: Vec<DeviceName>) {
        if self.used != used {
            self.used = used;
            if let Some((_, line)) = &mut self.process {
                // A process that does not read has ended, or stops probing for its own reasons.
                let _ = line.send(&Used(self.used.clone()));
            }
        }
        if self.again.is_some_and(|again| Instant::now() >= again) {
            self.again = None;
            self.start_process();
        }
    }

    /// Adds a process that probes this node. Returns who was refused instead, and why.
    pub fn add_watcher(
        &mut self,
        peer: SocketAddr,
        stream: TcpStream,
    ) -> Option<(SocketAddr, String)> {
        self.watchers.add(peer, stream, &self.state)
    }

    /// A line about the probes, for the state of the server.
    pub fn status(&self) -> String {
        let (nics, busy) = (&self.state.nics, self.state.nics.iter().filter(|nic| nic.is_busy));
        let ProbeProgress { targets, measured, bursts, late } = self.progress;
        let watchers = self.watchers.count();
        format!(
            "probes: {}, {} left out at present; latencies of {measured} of {} within a minute, \
             {late} of {} dropped because this host was late; {} this one",
            counted(nics.len() as u64, "NIC"),
            busy.count(),
            counted(targets as u64, "target"),
            counted(bursts, "burst"),
            if watchers == 1 { "1 node probes".into() } else { format!("{watchers} nodes probe") },
        )
    }

    /// Ends the process, which releases its NICs.
    pub fn stop(&mut self) {
        let Some((mut process, line)) = self.process.take() else {
            return;
        };
        drop(line);
        if let Some(id) = Pid::from_raw(process.id() as i32) {
            // It is not reaped yet, so the number is its own.
            let _ = kill_process(id, Signal::TERM);
        }
        let end = Instant::now() + RELEASE_LIMIT;
        while matches!(process.try_wait(), Ok(None)) {
            if Instant::now() >= end {
                let _ = process.kill();
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}
