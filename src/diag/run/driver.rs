//! The session driver: takes one side of a run through set-up, barriers, sizes, results, release.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};

use facts::atomic::AtomicOp;
use facts::child::{self, Duty};
use facts::device::{DeviceName, FabricAddress};
use facts::error::{Context, Failure, Kind};
use facts::host::{host_name, ip_address};
use facts::interrupt;
use facts::net::Reach;
use facts::phase::{Phase, enter};
use facts::text::plural;
use node::gpu::{self, OnGpus};
use node::machine::Machine;
use node::{backend, explain};
use plan::Plan;
use plan::buffers::Need;
use plan::run_options::{RunOptions, Side};
use report::columns::Layout;
use report::summary::Summary;
use report::{Connected, Reporter, outcome};
use session;
use session::{Agreed, Session};

use crate::bench;
use crate::bench::api::{
    Bandwidth, Benchmark, BenchmarkTask, OneSidedLatency, Peer, RoundTripLatency,
};
use crate::bench::common::{PORTAL_INDEX, service_limits};
use crate::endpoint::Endpoint;
use crate::run::context::LoopContext;
use crate::run::nic_counters::CounterBaseline;
use crate::run::results::{BandwidthResults, ClientLatencies, Results, ServerResults, Sizes};
use crate::run::watchdog::{MID_RUN, Notices, Watchdog, session_check};
use crate::run::{bandwidth, latency, verify};
use measure::Supervisor;

/// A session after its handshake, on either side.
pub struct RunSession<'a> {
    /// The plan of this process.
    pub plan: &'a Plan,
    /// Which side this process is.
    pub side: Side,
    /// The endpoint of this side.
    pub endpoint: Endpoint,
    /// The control connection.
    pub session: Session,
    /// The agreement of both sides in the handshake.
    pub agreed: Agreed,
    /// Receives the results.
    pub reporter: &'a mut Reporter,
}

/// Serves one client, with the tool that the client has named.
pub fn serve(client: RunSession) -> Result<(), Failure> {
    bench::perform(client.agreed.tool, Serve(client))
}

/// Measures against the server at `address`.
pub fn measure(plan: &Plan, address: &str, reporter: &mut Reporter) -> Result<(), Failure> {
    let task = ClientMeasurement { plan, address, reporter };
    bench::perform(plan.tool, task)
}

struct Serve<'a>(RunSession<'a>);

impl BenchmarkTask for Serve<'_> {
    type Output = Result<(), Failure>;

    fn one_sided<B: OneSidedLatency>(self) -> Self::Output {
        drive::<B, _>(self.0, ServerResults, |at, _, size, _| latency::serve_one_sided(at, size))
    }

    fn round_trip<B: RoundTripLatency>(self) -> Self::Output {
        drive::<B, _>(self.0, ServerResults, |at, pairs, size, _| {
            latency::serve_round_trips::<B>(at, &mut pairs[0], size)
        })
    }

    fn bandwidth<B: Bandwidth>(self) -> Self::Output {
        drive_bandwidth::<B>(self.0)
    }
}

struct ClientMeasurement<'a> {
    plan: &'a Plan,
    address: &'a str,
    reporter: &'a mut Reporter,
}

impl<'a> ClientMeasurement<'a> {
    fn connect(self) -> Result<RunSession<'a>, Failure> {
        let Self { plan, address, reporter } = self;
        let endpoint = open(plan)?;
        let mut fitting = plan.clone();
        if plan.has_default_hops {
            let own_host = ip_address(address).is_some_and(|ip| ip.is_loopback());
            let hops = &mut fitting.run.extensions.hops;
            *hops = service_limits::fitting_hops(&endpoint, own_host, *hops);
        }
        let (session, agreed) = session::join(&fitting, address, endpoint.address())?;
        Ok(RunSession { plan, side: Side::Client, endpoint, session, agreed, reporter })
    }
}

impl BenchmarkTask for ClientMeasurement<'_> {
    type Output = Result<(), Failure>;

    fn one_sided<B: OneSidedLatency>(self) -> Self::Output {
        let results = ClientLatencies::new(self.plan)?;
        let client = self.connect()?;
        drive::<B, _>(client, results, |at, pairs, size, results| {
            latency::measure_one_sided::<B>(at, &mut pairs[0], size, results.samples())
        })
    }

    fn round_trip<B: RoundTripLatency>(self) -> Self::Output {
        let results = ClientLatencies::new(self.plan)?;
        let client = self.connect()?;
        drive::<B, _>(client, results, |at, pairs, size, results| {
            results.besides =
                latency::measure_round_trips::<B>(at, &mut pairs[0], size, results.samples())?;
            Ok(())
        })
    }

    fn bandwidth<B: Bandwidth>(self) -> Self::Output {
        drive_bandwidth::<B>(self.connect()?)
    }
}

fn drive_bandwidth<B: Bandwidth>(client: RunSession) -> Result<(), Failure> {
    let run = &client.agreed.run;
    let one_nic = client.agreed.peer.nic == client.endpoint.address().address.nic;
    let bidirectional = run.lists()?.bidirectional;
    let results =
        BandwidthResults::new(B::part(run, client.side), client.side, bidirectional, one_nic);
    drive::<B, _>(client, results, bandwidth::measure::<B>)
}

/// Takes one side through a run of benchmark `B`. `measure` measures one size, from its first
/// barrier to its last.
fn drive<B: Benchmark, R: Results>(
    mut client: RunSession,
    results: R,
    mut measure: impl FnMut(&LoopContext<'_>, &mut [B::Resources], u64, &mut R) -> Result<(), Failure>,
) -> Result<(), Failure> {
    summarize(&mut client)?;
    let RunSession { plan, side, endpoint, session, agreed, reporter } = client;
    let run = &agreed.run;
    let cpus = thread_cpus(plan, run, reporter);
    if let Some(warning) = fetch_add_warning(plan.device, side, &endpoint, &agreed) {
        reporter.warn(&warning);
    }
    let notices = Notices::new(&endpoint, plan);
    let watchdog = Watchdog { check: session_check(&session), notices };
    let route = RunRoute::new(&endpoint, &agreed);
    let mut pairs = service_limits::check(&endpoint, agreed.peer, B::TOOL, run, side)
        .and_then(|()| set_up_pairs::<B>(&endpoint, agreed.peer, (run, side), &watchdog))
        .map_err(|failure| route.locate(session.refuse(failure), "during set-up"))?;
    note_gpu_map(plan, &endpoint, reporter);
    let counters = CounterBaseline::begin(plan, side, &endpoint, agreed.peer, run);
    session.ready()?;
    let context = LoopContext {
        side,
        barriers: &session,
        run,
        peer_is_cxidiag: agreed.is_cxidiag,
        supervisor: &watchdog,
        notices,
        cpus: &cpus,
    };
    let mut sizes = Sizes::begin(run, side, reporter, results, counters)?;
    let measured = sizes.measure(|row, results, counters| {
        let size = row.size;
        // The NIC may report an error because the peer has ended.
        pairs
            .iter_mut()
            .try_for_each(|pair| B::deepen(pair, run, row))
            .and_then(|()| measure(&context, &mut pairs, size, results))
            .map_err(|failure| explain::explain(failure, endpoint.lni().observer()))
            .map_err(|failure| session.cause(failure, MID_RUN))?;
        let issued = results.issued(run)?;
        counters.add(run, size, &issued);
        verify::after_size::<B>(&context, &session, &pairs, size, &issued)
    });
    if let Err((row, failure)) = measured {
        let failure = route.locate(failure, sizes.place(row));
        // Before anything is released or printed: the peer receives the notice before it sees the
        // consequences.
        let failure = notify_peer::<B>(&session, run, failure);
        return Err(sizes.cut_short(row, failure));
    }
    let Sizes { reporter, results, counters, .. } = sizes;
    reporter.set_counters(counters.end(&session)?);
    session.finish();
    release::<B>(results, reporter, pairs, endpoint)
}

/// Sets up the resources of one side of each pair, with the peer at `address`. A latency tool has
/// one pair.
pub(super) fn set_up_pairs<B: Benchmark>(
    own: &Endpoint,
    address: FabricAddress,
    (run, side): (&RunOptions, Side),
    supervisor: &dyn Supervisor,
) -> Result<Vec<B::Resources>, Failure> {
    let set_up = |pair: u16| {
        let portal = PORTAL_INDEX + u32::from(pair);
        B::set_up(Peer { own, address, portal, supervisor }, run, side)
    };
    (0..run.extensions.pairs).map(set_up).collect()
}

/// Tells the peer why the run of benchmark `B` ends early, as far as it cannot know. Returns the
/// failure of this side.
fn notify_peer<B: Benchmark>(session: &Session, run: &RunOptions, failure: Failure) -> Failure {
    let failure = if B::reports_failure(run) { session.refuse(failure) } else { failure };
    if matches!(failure.kind, Kind::Interrupted | Kind::OutputClosed) {
        session.send_interrupt_notice();
    }
    failure
}

/// Reports that all sizes are done, and releases what the run has used.
pub(super) fn release<B: Benchmark>(
    mut results: impl Results,
    reporter: &mut Reporter,
    resources: impl IntoIterator<Item = B::Resources>,
    endpoint: Endpoint,
) -> Result<(), Failure> {
    enter(Phase::Releasing);
    results.end(reporter)?;
    resources.into_iter().try_for_each(B::close)?;
    endpoint.close()?;
    // A signal that came too late to cut the run short still decides the exit status.
    interrupt::check()
}

/// A CPU for each measuring thread, with a warning if threads share some; none for one thread.
pub(super) fn thread_cpus(plan: &Plan, run: &RunOptions, reporter: &mut Reporter) -> Vec<u32> {
    let cpus = match run.extensions.threads {
        1 => Vec::new(),
        count => {
            let second = is_second_process();
            plan.placement.thread_cpus(count.into(), second)
        }
    };
    let distinct = cpus.iter().collect::<BTreeSet<_>>().len();
    if distinct < cpus.len() {
        let threads = cpus.len();
        let ending = plural(distinct);
        reporter.warn(&format!("{threads} threads share {distinct} CPU{ending}"));
    }
    cpus
}

/// Reports how the buffers of this process on GPUs are mapped, if there are any.
pub(super) fn note_gpu_map(plan: &Plan, endpoint: &Endpoint, reporter: &mut Reporter) {
    if let (Some(map), Some(gpus)) = (endpoint.gpu_map(), endpoint.gpus()) {
        reporter.set_gpu_map(map);
        let note = gpu::note(map, gpus.kind()).filter(|_| !plan.outputs.quiet);
        if let Some(note) = note {
            // The run goes on if the line cannot be written.
            let _ = writeln!(io::stderr(), "{}: {note}", plan.program);
        }
    }
}

/// The warning about an atomic operation that the target's NIC adds, or may add. A server warns of
/// its own NIC, and a client of the NICs whose files it sees.
fn fetch_add_warning(
    own_device: DeviceName,
    side: Side,
    endpoint: &Endpoint,
    agreed: &Agreed,
) -> Option<String> {
    let atomic = agreed.run.atomic?;
    let own = endpoint.address().address.nic;
    let files = |device| backend::files_of_counters(device, &Machine::this(), |_| false).ok();
    let opcode = match side {
        Side::Server if agreed.peer.nic == own => return None,
        Side::Server => files(own_device)?.fetch_add_opcode(),
        Side::Client => {
            let devices = [Some(own_device), agreed.peer_device];
            let visible = devices.into_iter().flatten().find_map(|device| {
                files(device).filter(|files| files.nid() == Some(agreed.peer.nic))
            });
            visible.and_then(|files| files.fetch_add_opcode())
        }
    };
    let what = format!("{} of {}", atomic.operation(), atomic.ty);
    let file = "properties/amo_remap_to_pcie_fadd";
    let advice = match atomic.op {
        AtomicOp::Swap => "; '-A CSWAP -C NE' swaps on every NIC",
        _ => "",
    };
    match (opcode, side) {
        (Some(opcode), _) if atomic.is_fetch_add(opcode) => Some(format!(
            "the target's NIC executes {what} as a PCIe FetchAdd ({file} is {opcode}): it adds, or \
             ends with PCIE_UNSUCCESS_CMPL where PCIe completes no atomic operations{advice}"
        )),
        // Software NICs swap, unless a file says otherwise (nic.md 11.3).
        (None, Side::Client)
            if atomic.is_fetch_add(AtomicOp::Swap as i32)
                && !backend::is_software(own_device, &Machine::this()) =>
        {
            Some(format!(
                "the target's NIC may execute {what} as a PCIe FetchAdd, as drivers do by default \
             ({file} of that NIC is not visible here){advice}"
            ))
        }
        _ => None,
    }
}

/// Opens the device, allocates an endpoint on it, and prints the warnings and notes about them.
///
/// # Errors
///
/// A GPU, device or service that cannot be opened or used.
pub fn open(plan: &Plan) -> Result<Endpoint, Failure> {
    enter(Phase::Opening);
    // Before this thread moves to its CPUs: the threads of a GPU runtime would inherit them.
    let gpus = gpu::open(&plan.gpus)?;
    let device = backend::open(plan.device, plan.libcxi.as_ref())?;
    let endpoint = Endpoint::new(plan.site(), gpus, device)?;
    let notes = if plan.outputs.quiet { Vec::new() } else { endpoint.notes(plan.tool) };
    for line in endpoint.warnings().into_iter().chain(notes) {
        // The run goes on if a line cannot be written.
        let _ = writeln!(io::stderr(), "{}: {line}", plan.program);
    }
    Ok(endpoint)
}

/// The summary of a run of the plan's tool from an endpoint to itself.
pub(super) fn summary_to_itself<'a>(
    plan: &'a Plan,
    run: &'a RunOptions,
    endpoint: &Endpoint,
) -> Summary<'a> {
    let own = endpoint.address();
    Summary {
        layout: Layout::new(plan.tool, plan.outputs.unit, run),
        side: Side::Client,
        device: plan.device,
        simulated: endpoint.device().info().is_simulated(),
        run,
        own,
        peer: own.address,
        gpu_count: endpoint.gpus().map_or(0, |gpus| gpus.count()),
        peer_gpus: OnGpus::NONE,
        hrp: endpoint.hrp(run),
        cpus: &plan.placement.cpus,
    }
}

/// Reports the summary of the run. A server first checks that it has memory for the client's
/// options.
fn summarize(client: &mut RunSession) -> Result<(), Failure> {
    enter(Phase::SetUp);
    let RunSession { plan, side, endpoint, session, agreed, reporter } = client;
    let summary = Summary {
        layout: Layout::new(agreed.tool, plan.outputs.unit, &agreed.run),
        side: *side,
        peer: agreed.peer,
        peer_gpus: agreed.peer_gpus,
        ..summary_to_itself(plan, &agreed.run, endpoint)
    };
    let connected = Connected {
        plan,
        nic: endpoint.device().info(),
        access: endpoint.access(),
        server: Some(match side {
            Side::Client => session.peer(),
            Side::Server => session.local()?,
        }),
        peer: Some(outcome::Peer {
            host_name: agreed.peer_name.clone(),
            ip: session.peer().ip().to_canonical().to_string(),
            is_cxidiag: agreed.is_cxidiag,
            device: agreed.peer_device.map(|device| device.to_string()),
        }),
    };
    reporter.connected(&summary, &connected);
    if *side == Side::Server {
        let need = Need::of(agreed.tool, &agreed.run, &[*side], plan.gpus);
        let checked = need.check(&Machine::this(), plan.placement.node);
        checked.map_err(|failure| session.refuse(failure))?;
    }
    reporter.print_summary(&summary)
}

/// The NICs of both sides.
#[derive(Clone, Debug)]
pub struct RunRoute {
    /// This side's.
    pub own: FabricAddress,
    /// Name of this host.
    pub host: String,
    pub peer: FabricAddress,
    /// Name of the peer's host; `None` if the peer has not sent it.
    pub peer_host: Option<String>,
}

impl RunRoute {
    fn new(own: &Endpoint, agreed: &Agreed) -> Self {
        Self {
            own: own.address().address,
            host: host_name(),
            peer: agreed.peer,
            peer_host: agreed.peer_name.clone(),
        }
    }

    /// Adds to an error of the NIC the place of the measurement, such as `at 8 bytes, iteration
    /// 17`, and both NICs. Other failures stay as they are.
    pub fn locate(&self, failure: Failure, place: impl fmt::Display) -> Failure {
        match failure.kind {
            Kind::Nic => failure.at(format!("{place}, between {self}")),
            _ => failure,
        }
    }
}

impl fmt::Display for RunRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, host, peer, peer_host } = self;
        write!(f, "NIC {:#x} PID {} on {host}", own.nic, own.pid)?;
        write!(f, " and NIC {:#x} PID {}", peer.nic, peer.pid)?;
        match peer_host {
            Some(host) => write!(f, " on {host}"),
            None => Ok(()),
        }
    }
}

/// The message of the client to the server: its process id.
const DUTY: Duty = Duty::LoopbackServer;

/// Which clients may connect to a server: only clients of this machine if the server is the second
/// process of a loopback run.
pub fn reach() -> Reach {
    if is_second_process() { Reach::ThisMachine } else { Reach::Everywhere }
}

/// Whether this process is the server of a loopback run.
pub fn is_second_process() -> bool {
    DUTY.environment_text().is_some()
}

/// Binds the server of a loopback run to its client: the server ends when the client has ended.
///
/// # Errors
///
/// A client that has ended already, and a system call that fails.
pub fn end_with_parent() -> Result<(), Failure> {
    let Some(parent) = DUTY.environment_text() else {
        return Ok(());
    };
    let is_there = match parent.parse() {
        Ok(parent) => {
            child::end_with(parent).environment("cannot bind the server to its client")?
        }
        Err(_) => false,
    };
    if is_there {
        Ok(())
    } else {
        Err(Failure::environment("the client of this loopback run has ended"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_both_nics_in_errors_of_the_nic_only() {
        let mut route = RunRoute {
            own: FabricAddress { nic: 0x13, pid: 0 },
            host: "node1".into(),
            peer: FabricAddress { nic: 0x12, pid: 7 },
            peer_host: Some("node2".into()),
        };
        let failure = Failure::nic("lost").context("write failed");
        assert_eq!(
            route.locate(failure, "at 8 bytes, iteration 3").message(),
            "write failed: lost; at 8 bytes, iteration 3, between NIC 0x13 PID 0 on node1 and NIC 0x12 PID 7 on node2"
        );
        route.peer_host = None;
        let message = route.locate(Failure::nic("lost"), "during set-up").message();
        assert!(message.ends_with("on node1 and NIC 0x12 PID 7"), "{message}");
        assert_eq!(route.locate(Failure::peer("gone"), "x").message(), "gone");
    }
}
