//! A run of a tool without a peer: one process is the initiator and the target, at one address.

use std::time::Duration;

use super::context::{Barriers, LoopContext};
use super::driver::{note_gpu_map, open, release, set_up_pairs, summary_to_itself, thread_cpus};
use super::nic_counters::CounterBaseline;
use super::results::{BandwidthResults, Results, Sizes};
use super::watchdog::{Notices, Watchdog};
use super::{bandwidth, verify};
use crate::bench;
use crate::bench::api::{Bandwidth, BenchmarkTask, OneSidedLatency, Part, RoundTripLatency};
use crate::bench::common::service_limits;
use facts::device::FabricAddress;
use facts::error::{Failure, Kind};
use facts::host::host_name;
use facts::interrupt;
use facts::phase::{Phase, enter};
use measure::{SideResult, SideView};
use node::explain;
use plan::Plan;
use plan::run_options::Side;
use report::{Connected, Reporter};
use session::PeerCheck;

/// Measures as `plan` says.
///
/// # Errors
///
/// A device that cannot be opened, an error of the NIC, and an interruption.
pub fn measure(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    bench::perform(plan.tool, MeasureAlone { plan, reporter })
}

struct MeasureAlone<'a> {
    plan: &'a Plan,
    reporter: &'a mut Reporter,
}

impl BenchmarkTask for MeasureAlone<'_> {
    type Output = Result<(), Failure>;

    fn one_sided<B: OneSidedLatency>(self) -> Self::Output {
        Err(needs_peer(self.plan))
    }

    fn round_trip<B: RoundTripLatency>(self) -> Self::Output {
        Err(needs_peer(self.plan))
    }

    fn bandwidth<B: Bandwidth>(self) -> Self::Output {
        drive::<B>(self.plan, self.reporter)
    }
}

fn needs_peer(plan: &Plan) -> Failure {
    Failure::environment(format!("{} measures between two processes", plan.tool.name))
}

/// Takes the process through set-up, sizes, results and release.
fn drive<B: Bandwidth>(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    const SIDE: Side = Side::Client;
    let run = &plan.run;
    let endpoint = open(plan)?;
    let own = endpoint.address();
    enter(Phase::SetUp);
    let summary = summary_to_itself(plan, run, &endpoint);
    let (nic, access) = (endpoint.device().info(), endpoint.access());
    reporter.connected(&summary, &Connected { plan, nic, access, server: None, peer: None });
    reporter.print_summary(&summary)?;
    let cpus = thread_cpus(plan, run, reporter);
    let notices = Notices::new(&endpoint, plan);
    let watchdog = Watchdog { check: interrupt::check, notices };
    let set_up = |side| set_up_pairs::<B>(&endpoint, own.address, (run, side), &watchdog);
    service_limits::check(&endpoint, own.address, plan.tool, run, SIDE)?;
    let mut sources = set_up(Side::Client)?;
    let targets = set_up(Side::Server)?;
    note_gpu_map(plan, &endpoint, reporter);
    let counters = CounterBaseline::begin(plan, SIDE, &endpoint, own.address, run);
    let results = BandwidthResults::new(Part::Active, SIDE, false, true);
    let mut sizes = Sizes::begin(run, SIDE, reporter, results, counters)?;
    let context = LoopContext {
        side: SIDE,
        barriers: &NoPeer,
        run,
        peer_is_cxidiag: true,
        supervisor: &watchdog,
        notices,
        cpus: &cpus,
    };
    let measured = sizes.measure(|row, results, counters| {
        let size = row.size;
        bandwidth::measure::<B>(&context, &mut sources, size, results)
            .map_err(|failure| explain::explain(failure, endpoint.lni().observer()))?;
        let issued = results.issued(run)?;
        counters.add(run, size, &issued);
        verify::own_writes::<B>(&context, &sources, &targets, size, &issued)
    });
    if let Err((row, failure)) = measured {
        let failure = match failure.kind {
            Kind::Nic => {
                let (place, host) = (sizes.place(row), host_name());
                let FabricAddress { nic, pid } = own.address;
                failure.at(format!("{place}, NIC {nic:#x} PID {pid} on {host} to itself"))
            }
            _ => failure,
        };
        return Err(sizes.cut_short(row, failure));
    }
    let Sizes { reporter, results, counters, .. } = sizes;
    reporter.set_counters(counters.end_alone());
    release::<B>(results, reporter, targets.into_iter().chain(sources), endpoint)
}

/// The place of the peer in a run without one: its barriers and its result.
struct NoPeer;

impl Barriers for NoPeer {
    fn barrier_while(&self, _: &str, _: Duration, look: &mut PeerCheck<'_>) -> Result<(), Failure> {
        interrupt::check()?;
        look()
    }

    fn results(&self, _: SideResult) -> Result<SideResult, Failure> {
        Ok(SideResult::default())
    }

    fn views(&self, own: SideView) -> Result<SideView, Failure> {
        Ok(own)
    }

    fn peer_waits(&self) -> bool {
        false
    }
}
