//! A process that measures with the NICs of its node, as the coordinator orders: a process of a
//! launcher, or a process of `cxidiag serve` on a host without a launcher, which a coordinator on
//! another host has invited.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::processes::Started;
use super::request::{self, ProcessSource, SurveyRequest};
use campaign::quiet::busy::HostLoad;
use campaign::timetable::{SurveyWork, TestSetup};
use check::SurveyChecks;
use crew::introduction::Introduction;
use crew::launcher::LauncherTask;
use crew::meeting_point::{Coordinator, join};
use crew::star::{JOIN_LIMIT, Member, MemoryCopy, Order};
use diag::run::serve::{LOST, Taken, next, take_client};
use facts::device::DeviceName;
use facts::error::{Context, Failure, Kind};
use facts::host::host_name;
use facts::net::loopback;
use facts::token::Token;
use measure::memory_copy_rate;
use members::nics::{NicPlan, Nics, TestPlan};
use node::backend;
use node::machine::placement::{Cpus, Placement};
use node::machine::{CpuTimes, Machine};
use plan::tool::Tool;
use plan::tools::{TOOLS, peer_tools};
use session::AcceptedClient;
use session::control_line::{Called, ControlLine, Ready, ServerOrder};
use session::requests::Invitation;

/// How long a process copies memory, and on how many CPUs at once (diagnosis.md 1, test M).
const COPYING: Duration = Duration::from_millis(50);
const FEWEST_COPYING: usize = 4;
const MOST_COPYING: usize = 8;

/// The identity of a process in the survey.
#[derive(Clone, Debug)]
pub struct ProcessIdentity {
    rank: u32,
    size: u32,
    host: String,
    topology: Option<String>,
}

impl ProcessIdentity {
    /// The identity of the process with this `rank` among `size`. `task` adds its node and
    /// topology.
    pub fn new(rank: u32, size: u32, task: Option<&LauncherTask>) -> Self {
        Self {
            rank,
            size,
            host: task.and_then(|task| task.node.clone()).unwrap_or_else(host_name),
            topology: task.and_then(|task| task.topology.clone()),
        }
    }
}

/// What a process may do for a coordinator that it need not trust.
#[derive(Clone, Debug, Default)]
pub struct MemberGrant {
    /// Most bytes of buffers.
    pub buffer_bytes: Option<u64>,
}

impl MemberGrant {
    /// The tests of a survey, if this number of NICs may measure them.
    fn tests(&self, course: &TestSetup, nics: usize) -> Result<Vec<TestPlan>, Failure> {
        let names = course.tests.iter().map(|test| test.tool.as_str());
        let tests = tests(names.zip(&course.arguments))?;
        let needed = needed_bytes(&tests, nics);
        match self.buffer_bytes {
            Some(granted) if needed > granted => Err(Failure::environment(format!(
                "the tests need buffers of {needed} bytes, and the coordinator has announced \
                 {granted}"
            ))),
            _ => Ok(tests),
        }
    }
}

/// The most bytes of buffers that `tests` need at a time on this number of NICs.
fn needed_bytes(tests: &[TestPlan], nics: usize) -> u64 {
    members::nics::buffer_bytes(tests).saturating_mul(nics as u64)
}

/// Opens NICs by their plans, joins the survey within `limit`, and measures until its end, as far
/// as `grant` permits. `coordinator` finds the coordinator; it stops searching at the given
/// instant.
///
/// # Errors
///
/// A coordinator that is not found, refuses this process or ends, and an interruption.
pub fn run(
    plans: Vec<NicPlan>,
    identity: ProcessIdentity,
    limit: Duration,
    grant: &MemberGrant,
    coordinator: impl Fn(Instant) -> Result<Coordinator, Failure>,
) -> Result<(), Failure> {
    let count = plans.len();
    let devices: Vec<DeviceName> = plans.iter().map(|plan| plan.device).collect();
    let device = devices.first().copied();
    let mut checks = SurveyChecks::new(devices);
    let mut load = CpuWatch::begin();
    let mut nics = Nics::open(plans)?;
    let rank = identity.rank;
    let introduction = Introduction {
        rank,
        size: identity.size,
        host: identity.host,
        topology: identity.topology,
        nics: nics.facts(),
    };
    let end = Instant::now() + limit;
    let mut member: Member<SurveyWork> = join(&introduction, end, coordinator)?;
    let mut measured = Vec::new();
    loop {
        match member.next_order()? {
            Order::TestSetup(course) => match grant.tests(&course, count) {
                Ok(tests) => {
                    nics.begin(rank, &course, &tests);
                    measured = course.tests;
                }
                Err(failure) => {
                    member.fail(&failure.message());
                    return Err(failure);
                }
            },
            Order::Block(block) => {
                let block = Arc::new(block);
                let mut report = nics.run(&block, |ns| member.local(ns));
                let is_quiet = block.window_bytes.is_none();
                if is_quiet && block.busy(&report.results, &measured) > 0 {
                    report.load = load.now();
                }
                report.clock_uncertainty_ns = member.clock_uncertainty_ns();
                member.report(report);
            }
            Order::Check => match checks.document() {
                Ok(document) => member.send_check(document),
                Err(failure) if failure.kind == Kind::Interrupted => return Err(failure),
                // The coordinator does without.
                Err(_) => member.send_check(Vec::new()),
            },
            Order::CopyMemory => member.send_memory_copy(memory_copy(device)),
            Order::End => break,
        }
    }
    member.end();
    Ok(())
}

/// Copies memory on the CPUs of the NUMA node of a NIC that this process may use. Returns how fast
/// it was; `None` with fewer CPUs than show the memory of the node (diagnosis.md 1, test M).
fn memory_copy(device: Option<DeviceName>) -> Option<MemoryCopy> {
    let device = device?;
    let placement = Placement::choose(&Cpus::Any, device, &Machine::this(), false).ok()?;
    let cpus = &placement.for_threads;
    let cpus = &cpus[..cpus.len().min(MOST_COPYING)];
    if cpus.len() < FEWEST_COPYING {
        return None;
    }
    let rate = memory_copy_rate(cpus, COPYING)? * backend::memory_share(device);
    Some(MemoryCopy { cpus: cpus.len() as u32, bytes_per_second: rate as u64 })
}

/// The plans of the NICs of a process with this `identity`.
///
/// # Errors
///
/// Invalid options.
pub fn own_plans(
    request: &SurveyRequest,
    identity: &ProcessIdentity,
) -> Result<Vec<NicPlan>, Failure> {
    let devices = match request.processes {
        ProcessSource::Loopback(_) => vec![DeviceName::software(identity.rank)],
        _ => request.devices().to_vec(),
    };
    let first = &request.tests[0];
    plans(devices, first.plan.tool, &first.arguments)
}

/// The plans of these NICs, with arguments of `tool`. Without `devices`, returns the plans of all
/// hardware NICs.
fn plans(
    mut devices: Vec<DeviceName>,
    tool: &'static Tool,
    arguments: &[String],
) -> Result<Vec<NicPlan>, Failure> {
    let plan = request::plan(tool, arguments)?;
    if devices.is_empty() {
        devices = backend::all_hardware();
    }
    Ok(devices.into_iter().map(|device| NicPlan::new(&plan, device)).collect())
}

/// The tests of these tools with their arguments.
///
/// # Errors
///
/// A tool that this version lacks, and arguments with which a survey cannot measure.
fn tests<'a>(
    all: impl Iterator<Item = (&'a str, &'a Vec<String>)>,
) -> Result<Vec<TestPlan>, Failure> {
    let test = |(name, arguments): (&str, &Vec<String>)| {
        let tool = peer_tools().iter().find(|tool| tool.name == name);
        let tool =
            tool.ok_or_else(|| Failure::environment(format!("this version has no tool {name}")))?;
        request::test_plan(tool, arguments)
    };
    all.map(test).collect()
}

/// Runs a member that a coordinator on this machine has started.
pub fn run_started(request: &SurveyRequest, started: Started) -> Result<(), Failure> {
    started.end_with_parent()?;
    let token = Token::from_environment();
    let token = token.ok_or_else(|| Failure::environment("the coordinator has sent no token"))?;
    let coordinator = Coordinator {
        host: "localhost".into(),
        addresses: vec![(loopback(), started.port).into()],
        token,
    };
    let task =
        LauncherTask::from_environment()?.filter(|_| request.processes == ProcessSource::Launcher);
    let place = ProcessIdentity::new(started.rank, started.size, task.as_ref());
    let plans = own_plans(request, &place)?;
    match run(plans, place, JOIN_LIMIT, &MemberGrant::default(), |_| Ok(coordinator.clone())) {
        // The coordinator ends its processes by a signal, and prints why.
        Err(failure) if failure.kind == Kind::Interrupted => Ok(()),
        // It has given up this process, and says so, or it has ended itself.
        Err(failure) if failure.is_of_peer() => Err(failure.printed()),
        ended => ended,
    }
}

/// Joins the survey of the client of this process, when it is the client's turn. `own` has the NIC
/// of the server, with which the process measures if the coordinator names none and the NIC is a
/// software NIC.
///
/// # Errors
///
/// A coordinator that ends or refuses this process, and an interruption.
pub fn run_served(own: SurveyRequest) -> Result<(), Failure> {
    let Taken { mut line, peer, caller } = take_client()?;
    let invitation = caller.invitation()?;
    let accepted = AcceptedInvitation::check(&invitation, own);
    let accepted = accepted.map_err(|failure| caller.refuse(failure))?;
    caller.accept_invitation()?;
    let AcceptedInvitation { plans, buffer_bytes, token } = accepted;
    line.send(&Ready {
        devices: plans.iter().map(|plan| plan.device).collect(),
        buffer_bytes,
        asked_ms: None,
    })
    .environment(LOST)?;
    wait_for_turn(&mut line, &caller)?;
    let coordinator = Coordinator {
        host: peer.ip().to_string(),
        addresses: vec![(peer.ip(), invitation.port).into()],
        token,
    };
    let grant = MemberGrant { buffer_bytes: Some(buffer_bytes) };
    let identity = ProcessIdentity::new(invitation.rank, invitation.size, None);
    run(plans, identity, JOIN_LIMIT, &grant, |_| Ok(coordinator.clone()))
}

/// What a process does for its coordinator.
struct AcceptedInvitation {
    plans: Vec<NicPlan>,
    buffer_bytes: u64,
    token: Token,
}

impl AcceptedInvitation {
    /// Returns what an invitation of a coordinator asks for, if the server permits it.
    fn check(invitation: &Invitation, own: SurveyRequest) -> Result<Self, Failure> {
        let plans = invited_plans(&invitation.devices, &invitation.service, own)?;
        let named = invitation.tests.iter().map(|(tool, arguments)| (tool.as_str(), arguments));
        let tests = tests(named)?;
        let token = invitation.token.as_ref().and_then(|text| Token::new(text.as_ref()));
        let token = token.or_else(Token::from_environment);
        let no_token = || Failure::environment("the coordinator has sent no token");
        Ok(Self {
            buffer_bytes: needed_bytes(&tests, plans.len()),
            plans,
            token: token.ok_or_else(no_token)?,
        })
    }
}

/// Returns how the NICs are opened: the NICs that the coordinator names, or the NIC of the server
/// if it is a software NIC, or all hardware NICs. The server, not the coordinator, chooses
/// libraries and files.
fn invited_plans(
    devices: &[String],
    service: &[String],
    own: SurveyRequest,
) -> Result<Vec<NicPlan>, Failure> {
    let allowed = ["--svc-id=", "--vni=", "--traffic-class="];
    let is_allowed = |option: &String| allowed.iter().any(|start| option.starts_with(start));
    if let Some(option) = service.iter().find(|option| !is_allowed(option)) {
        let message = format!("the coordinator may not choose '{option}'");
        return Err(Failure::environment(message));
    }
    let named = devices.iter().map(|name| name.parse()).collect::<Result<Vec<DeviceName>, _>>();
    let named = named.map_err(|why| Failure::environment(format!("invalid device: {why}")))?;
    let devices = match named.as_slice() {
        [] if own.devices().iter().any(is_software) => own.devices().to_vec(),
        _ => named,
    };
    plans(devices, &TOOLS[0], service)
}

fn is_software(device: &DeviceName) -> bool {
    device.platform().is_simulated
}

/// Waits until other clients of the NICs have measured, or the coordinator ends.
fn wait_for_turn(line: &mut ControlLine, caller: &AcceptedClient) -> Result<(), Failure> {
    loop {
        match next(line, |line| caller.wait_beside(line))? {
            ServerOrder::Begin => {
                caller.send_place(0)?;
                return line.send(&Called::Answered).environment(LOST);
            }
            ServerOrder::Refuse(reason) => return Err(caller.refuse(Failure::environment(reason))),
            ServerOrder::Place(place) => caller.send_place(place)?,
            ServerOrder::Serve { .. } => {}
        }
    }
}

/// Shortest time between two looks at all processes, which takes some milliseconds.
const INTERVAL: Duration = Duration::from_secs(10);

/// The CPU times of all processes at the start of the survey, and what was seen since.
#[derive(Debug)]
struct CpuWatch {
    begun: Instant,
    times: CpuTimes,
    seen: Option<(Instant, HostLoad)>,
}

impl CpuWatch {
    /// Looks at all processes for the first time.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), times: Machine::this().cpu_times(), seen: None }
    }

    /// Returns what used the CPUs since the start.
    pub fn now(&mut self) -> Option<HostLoad> {
        let is_recent = |(at, _): &&(Instant, HostLoad)| at.elapsed() < INTERVAL;
        if let Some((_, load)) = self.seen.as_ref().filter(is_recent) {
            return Some(load.clone());
        }
        let machine = Machine::this();
        let load = machine.load()?;
        let elapsed = self.begun.elapsed().as_secs_f64();
        let load = HostLoad {
            mean: load.mean,
            cpus: load.cpus,
            most: machine.cpu_times().most_since(&self.times, elapsed),
        };
        self.seen = Some((Instant::now(), load.clone()));
        Some(load)
    }
}
