//! One run, from a plan to its outcome.
//!
//! * This file: the part of a process by its role: serve, measure, or both.
//! * `context`: what the measurement of one size needs, and how both sides keep in step.
//! * `driver`: takes one side through set-up, barriers, sizes, results and release, for all tools.
//! * `compiled`: the loops of all tools, for other packages.
//! * `latency`, `bandwidth`: the measurement of one size, for the sub-traits of `Benchmark`.
//! * `pairs`: the loop of `bandwidth`, over all pairs of queues.
//! * `threads`: drives the pairs of a side from several threads.
//! * `legacy_sync`: round trips as the legacy tools measure them, with a barrier before each
//!   message.
//! * `results`: the sizes of a run, one after the other, and how their results are reported.
//! * `nic_counters`: what the counters of the NICs did during a run.
//! * `route`: the two NICs of a run, for messages about errors of a NIC.
//! * `size_loop`: warm-up, pause, iterations or duration, and the time limits of the peer.
//! * `serve`: the clients of a server: one, or one after another; the process that serves one
//!   client of `cxidiag serve`; the file of the port.
//! * `verify`: the check of the data after each size.
//! * `watchdog`: watches the control connection while this side waits for the NIC.
//! * `loopback`: both roles in one command.
//! * `alone`: both roles in one process: a tool without a peer.
//! * `every_nic`: `alone` with each NIC of this machine, one after the other.
//! * [`stress`]: the load of `check --stress`.
//! * `second_process`: what the server of a loopback run knows about its client.

#[cfg(test)]
mod allocation_test;
mod alone;
pub mod bandwidth;
pub mod compiled;
pub mod context;
mod driver;
mod every_nic;
pub mod latency;
mod legacy_sync;
mod loopback;
mod nic_counters;
mod pairs;
pub mod results;
#[cfg(test)]
mod scripted;
pub mod serve;
pub mod size_loop;
pub mod stress;
mod threads;
pub mod verify;
pub mod watchdog;

pub use every_nic::measure as measure_every_nic;
use facts::error::Failure;
use node::machine::Machine;
use node::machine::placement::Placement;
use node::service::ServiceRequest;
use plan::buffers::Need;
use plan::run_options::Side;
use plan::{Plan, Role};
use report::Reporter;

/// Checks the machine before anything is opened, and returns the plan with the CPUs to run on and
/// the service to use. A server checks its memory later, when it knows the client's options.
///
/// # Errors
///
/// An invalid variable of the job, CPUs that the machine does not have, and not enough memory for
/// the buffers of the sides that this process runs.
pub fn place(plan: &Plan) -> Result<Plan, Failure> {
    let machine = Machine::this();
    let second = driver::is_second_process();
    let service = ServiceRequest::from_environment(plan.service_options, plan.device)?;
    let placement = Placement::choose(&plan.cpus, plan.device, &machine, second)?;
    let sides: &[Side] = match plan.role {
        Role::Server => &[],
        Role::Client { .. } => &[Side::Client],
        Role::Loopback | Role::Alone => &[Side::Client, Side::Server],
    };
    Need::of(plan.tool, &plan.run, sides, plan.gpus).check(&machine, placement.node)?;
    Ok(Plan { placement, service, ..plan.clone() })
}

/// Runs this process in the role that `plan` has.
pub fn carry_out(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    match &plan.role {
        Role::Server if serve::is_started_for_client() => serve::accepted_client(plan, reporter),
        Role::Server => serve::clients(plan, reporter),
        Role::Client { address } => driver::measure(plan, address, reporter),
        Role::Alone => alone::measure(plan, reporter),
        Role::Loopback => {
            loopback::run(plan, |plan, address| driver::measure(plan, address, reporter))
        }
    }
}
