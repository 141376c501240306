//! The end of a size: checks the data that has arrived, and numbers the data of the next size.

use super::driver::Context;
use crate::bench::api::Benchmark;
use crate::error::Failure;
use crate::measure::WaitPolicy;
use crate::phase::{Phase, enter};
use crate::plan::buffers::Buffer;

/// Number of times that each side goes over its buffers: for the check and for the next size, those
/// that it sends from and those that it receives to.
const PASSES: u64 = 4;

/// Checks what operations of `size` bytes have left in the buffers of this side, and, with `--verify`,
/// prepares those of the next size. Returns the number of bytes that both sides have checked; `None`
/// without `--verify`.
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
) -> Result<Option<u64>, Failure> {
    let Context { run, session, .. } = context;
    let verifies = run.extensions.verify;
    if !context.peer_is_cxidiag || !(verifies || cfg!(debug_assertions)) {
        return Ok(None);
    }
    enter(Phase::Verifying);
    let mut checked = 0;
    for resources in pairs {
        checked += B::check(resources, run, size, context.watchdog)
            .map_err(|failure| session.refuse(failure))?;
    }
    if !verifies {
        return Ok(None);
    }
    if let Some(next) = run.sizes().find(|next| *next > size) {
        for resources in pairs {
            B::fill(resources, run, next, context.watchdog)?;
        }
    }
    let bytes = Buffer::full(run).length.saturating_mul(pairs.len() as u64);
    let limit = WaitPolicy::longest(bytes.saturating_mul(PASSES));
    let theirs = session.verified(checked, limit)?;
    Ok(Some(checked.saturating_add(theirs)))
}
