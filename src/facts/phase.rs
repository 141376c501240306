//! The phases of a run, by name.
//!
//! A run calls [`enter`] at each transition. Release builds compile it to nothing. In debug builds,
//! `CXIDIAG_TEST_PAUSE_AT=phase` (or `phase:n`, the nth time) pauses a run there, so that tests can
//! end either side in any phase: the run prints `paused at phase` to stderr and continues when its
//! standard input has a byte or its end, or when it is interrupted.

crate::named_enum! {
    /// A phase of a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Phase {
        /// Opening the device and allocating an address.
        Opening = "opening",
        /// The server waits for a client.
        Listening = "listening",
        /// The client connects to its server.
        Connecting = "connecting",
        /// Handshake: names of the tools.
        Names = "names",
        /// Handshake: versions.
        Versions = "versions",
        /// Handshake: options.
        Options = "options",
        /// Handshake: fabric addresses.
        Addresses = "addresses",
        /// Printing the summary, and allocating the resources of the run.
        SetUp = "set-up",
        /// The barrier after the set-up.
        Ready = "ready",
        /// The barrier before a size, in bandwidth tools.
        PreRun = "pre-run",
        /// The barrier before a size, or before each iteration, in two-sided latency tools.
        Sync = "sync",
        /// Unmeasured iterations; in one-sided latency tools on the client only.
        WarmUp = "warm-up",
        /// Measured iterations; a one-sided target waits for their end.
        Measuring = "measuring",
        /// Between two iterations.
        Gap = "gap",
        /// The barrier after a size.
        PostRun = "post-run",
        /// Exchanging results, in bandwidth tools.
        Results = "results",
        /// Completing the iterations that either side has begun, in bandwidth tools.
        Settling = "settling",
        /// Checking the data of a size and numbering the data of the next size.
        Verifying = "verifying",
        /// Printing the results of a size.
        Reporting = "reporting",
        /// Releasing all resources.
        Releasing = "releasing",
    }
    /// Its name, for tests.
    pub fn name(self);
}

/// Marks the beginning of `phase`.
#[inline(always)]
pub fn enter(phase: Phase) {
    #[cfg(debug_assertions)]
    pause::at(phase);
    #[cfg(not(debug_assertions))]
    let _ = phase;
}

#[cfg(debug_assertions)]
mod pause {
    use std::io::{self, Write};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::event::PollFlags;

    use super::Phase;
    use crate::interrupt;

    /// The phase at which to pause, and how many times it passes before.
    static STOP: LazyLock<Option<(Phase, AtomicU32)>> = LazyLock::new(|| {
        let wanted = std::env::var("CXIDIAG_TEST_PAUSE_AT").ok()?;
        let (name, time) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        let phase = Phase::ALL.into_iter().find(|phase| phase.name() == name)?;
        Some((phase, AtomicU32::new(time.parse().ok()?)))
    });

    pub fn at(phase: Phase) {
        if let Some((stop, times)) = &*STOP
            && *stop == phase
            && times.fetch_sub(1, Ordering::Relaxed) == 1
        {
            let _ = writeln!(io::stderr(), "paused at {}", phase.name());
            // An interrupted run continues and notices the interruption later.
            let _ = interrupt::wait(io::stdin(), PollFlags::IN, None);
        }
    }
}
