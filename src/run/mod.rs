//! One run, from a plan to its outcome.
//!
//! * This file: what a process does in its role: serve, measure, or both.
//! * `driver`: leads one side through set-up, barriers, sizes, results and release, for all tools.
//! * `one_sided`, `round_trip`, `bandwidth`: what one size is, for each way to measure.
//! * `results`: what one size yields, and how it is reported.
//! * `size_loop`: warm-up, pause, iterations or duration; how long a peer may take.
//! * `serve`: a server's clients: one, or one after another.
//! * `watchdog`: watches the control connection while the NIC is waited for.
//! * `loopback`: both roles in one command.

#[cfg(test)]
mod allocation_test;
mod bandwidth;
mod driver;
mod loopback;
mod one_sided;
mod results;
mod round_trip;
mod serve;
mod size_loop;
mod watchdog;

use crate::error::Failure;
use crate::machine::Machine;
use crate::machine::placement::Placement;
use crate::plan::buffers::Need;
use crate::plan::{Plan, Role};
use crate::report::Reporter;
use crate::run_options::Side;

/// Checks the machine before anything is opened. Returns the plan with the CPUs to run on, which the
/// result names. A server learns from its client how much memory it needs.
///
/// # Errors
///
/// CPUs that the machine does not have, and too little memory for the buffers of the sides that this
/// process starts.
pub fn place(plan: &Plan) -> Result<Plan, Failure> {
    let machine = Machine::this();
    let second = loopback::is_second();
    let placement = Placement::choose(&plan.cpus, plan.device, &machine, second)?;
    let sides: &[Side] = match plan.role {
        Role::Server => &[],
        Role::Client { .. } => &[Side::Client],
        Role::Loopback => &[Side::Client, Side::Server],
    };
    Need::of(plan.tool, &plan.run, sides, plan.gpus).check(&machine, placement.node)?;
    Ok(Plan {
        placement,
        ..plan.clone()
    })
}

/// Carries out the part that `plan` gives this process.
///
/// # Errors
///
/// Whatever ends the run early.
pub fn carry_out(plan: &Plan, reporter: &mut Reporter) -> Result<(), Failure> {
    match &plan.role {
        Role::Server => serve::clients(plan, reporter),
        Role::Client { address } => driver::measure(plan, address, reporter),
        Role::Loopback => loopback::run(plan, |plan, address| {
            driver::measure(plan, address, reporter)
        }),
    }
}
