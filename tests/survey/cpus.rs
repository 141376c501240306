//! CPU tokens: how much of the machine the surveys and clusters of this program use at once.
//!
//! A process that measures needs a CPU for some milliseconds, and waits most of the time: for
//! its slot, for other processes, for the end of a time limit. So there are more tokens than
//! CPUs. Where two tests measure at the same moment, pairs are untested, and a test that needs
//! them repeats its survey. More tokens cost more time for repeats than they save.

use std::num::NonZero;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::thread;

/// Tokens for each CPU.
const EACH: usize = 2;

/// The tokens of this machine.
static ALL: LazyLock<usize> =
    LazyLock::new(|| EACH * thread::available_parallelism().map_or(1, NonZero::get));

/// The tokens that are taken.
static TAKEN: Mutex<usize> = Mutex::new(0);

/// Some tokens have been returned.
static RETURNED: Condvar = Condvar::new();

/// The work of a test.
#[derive(Clone, Copy)]
pub enum Work {
    /// Processes that mostly wait, and a verdict that does not depend on what they measure.
    Waits,
    /// A survey that must find what is slow.
    Measures,
}

/// Tokens that a test holds. They are returned with this value.
pub struct Tokens(usize);

/// Waits until the tokens for this work are free, and takes them.
pub fn cpus(work: Work) -> Tokens {
    let count = match work {
        Work::Waits => 1,
        Work::Measures => 2,
    };
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut taken = RETURNED
        .wait_while(taken, |taken| *taken + count > *ALL)
        .unwrap_or_else(PoisonError::into_inner);
    *taken += count;
    Tokens(count)
}

impl Drop for Tokens {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        RETURNED.notify_all();
    }
}
