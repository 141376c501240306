//! Threads of this program.

use std::thread::{self, JoinHandle, Scope, ScopedJoinHandle};

use crate::error::{Context, Failure, not_started};

/// What fails without a thread.
const WHAT: &str = "cannot start a thread";

/// Starts a thread with this name.
///
/// # Errors
///
/// A thread that cannot be started; the message names the limit of this process if that is why.
pub fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Failure> {
    let thread = thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(not_started).environment(WHAT)
}

/// Starts a thread that ends with `scope`.
///
/// # Errors
///
/// The errors of [`start`].
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    thread::Builder::new().spawn_scoped(scope, work).map_err(not_started).environment(WHAT)
}

/// Calls `work` in `most` threads at once, or in as many as can be started. Returns when all have
/// ended.
///
/// # Errors
///
/// No thread can be started.
pub fn share(most: usize, work: impl Fn() + Sync) -> Result<(), Failure> {
    thread::scope(|scope| {
        for count in 0..most {
            match start_in(scope, &work) {
                // The others do the work.
                Err(_) if count > 0 => break,
                started => started?,
            };
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn work_is_done_in_each_thread() {
        let calls = AtomicUsize::new(0);
        let count = || {
            calls.fetch_add(1, Ordering::Relaxed);
        };
        share(3, count).unwrap();
        assert_eq!(calls.into_inner(), 3);
        assert_eq!(start("seven", || 7).unwrap().join().unwrap(), 7);
    }
}
