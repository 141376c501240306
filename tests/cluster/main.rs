//! Surveys of many NICs, alone and under the launchers of clusters.

#[path = "../harness/mod.rs"]
mod harness;

mod check;
mod hostile;
mod launchers;
mod slurm;
mod stat;
mod survey;
mod why;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Surveys and clusters need the CPUs of the machine: without them, pairs are untested. So they run
/// one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Holds up the other surveys and clusters of this program.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
