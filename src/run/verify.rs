//! The end of a size: checks the data that has arrived, and numbers the data of the next size.

use std::time::Duration;

use super::driver::Context;
use crate::bench::api::Benchmark;
use crate::error::Failure;
use crate::interrupt;
use crate::measure::{Supervisor, WaitPolicy};
use crate::phase::{Phase, enter};
use crate::plan::buffers::Buffer;

/// Number of times that each side goes over its buffers: for the check and for the next size, those
/// that it sends from and those that it receives to.
const PASSES: u64 = 4;

/// Time limit for an operation of an atomic tool, whose results the peer computes.
const PER_OPERATION: Duration = Duration::from_nanos(100);

/// Checks what operations of `size` bytes have left in the buffers of this side, and, with `--verify`,
/// prepares those of the next size. `iterations` are those that each pair of this side has issued.
/// Returns the number of bytes that both sides have checked; `None` without `--verify`.
///
/// With `--verify` no side begins the next size before both are done: it would change data that is
/// not checked yet, or read data that is not numbered yet. Debug builds check the data of each
/// cxidiag peer. A legacy peer sends other bytes.
///
/// # Errors
///
/// Wrong data on either side, a peer that fails, and an interruption.
pub fn after_size<B: Benchmark>(
    context: &Context<'_>,
    pairs: &[B::Resources],
    size: u64,
    iterations: &[u64],
) -> Result<Option<u64>, Failure> {
    let Context { run, session, .. } = context;
    let verifies = run.extensions.verify;
    if !context.peer_is_cxidiag || !(verifies || cfg!(debug_assertions)) {
        return Ok(None);
    }
    enter(Phase::Verifying);
    let supervisor: &dyn Supervisor = if verifies {
        context.watchdog
    } else {
        &Unwatched
    };
    let refuse = |failure| session.refuse(failure);
    let mut checked = 0;
    for resources in pairs {
        checked += B::check(resources, run, size, supervisor).map_err(refuse)?;
    }
    if !verifies {
        return Ok(None);
    }
    let bytes = Buffer::full(run).length.saturating_mul(pairs.len() as u64);
    let mut limit = WaitPolicy::longest(bytes.saturating_mul(PASSES));
    if run.atomic.is_some() {
        for (resources, own) in pairs.iter().zip(iterations) {
            let peer = session.verify(*own, limit)?;
            let count = own.saturating_add(peer).try_into().unwrap_or(u32::MAX);
            limit = limit.saturating_add(PER_OPERATION.saturating_mul(count));
            checked +=
                B::check_values(resources, run, *own, peer, context.watchdog).map_err(refuse)?;
        }
    }
    if let Some(next) = run.sizes().find(|next| *next > size) {
        for resources in pairs {
            B::fill(resources, run, next, context.watchdog)?;
        }
    }
    let theirs = session.verify(checked, limit)?;
    Ok(Some(checked.saturating_add(theirs)))
}

/// Supervises the check of a debug build: the peer does not wait for it, and may have ended its run.
struct Unwatched;

impl Supervisor for Unwatched {
    fn peer_is_there(&self) -> Result<(), Failure> {
        interrupt::check()
    }

    fn slow(&self, _: &str, _: u64, _: u64) {}

    fn no_answer(&self, operation: &str, waited: u64) -> Failure {
        Failure::nic(format!("no answer to a {operation} within {waited} s"))
    }
}
