//! The phases of a run, by name.
//!
//! A run calls [`enter`] at each transition. Release builds compile it to nothing. In debug builds,
//! `CXIDIAG_TEST_PAUSE_AT=phase` (or `phase:n`, the nth time) pauses a run there, so that tests can
//! end either side in any phase: the run prints `paused at phase` to stderr and continues when its
//! standard input has a byte or its end, or when it is interrupted.

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Opening the device and allocating an address.
    Opening,
    /// The server waits for a client.
    Listening,
    /// The client connects to its server.
    Connecting,
    /// Handshake: names of the tools.
    Names,
    /// Handshake: versions.
    Versions,
    /// Handshake: options.
    Options,
    /// Handshake: fabric addresses.
    Addresses,
    /// Printing the summary, and allocating the resources of the run.
    SetUp,
    /// The barrier after the set-up.
    Ready,
    /// The barrier before a size, in bandwidth tools.
    PreRun,
    /// The barrier before a size, or before each iteration, in two-sided latency tools.
    Sync,
    /// Unmeasured iterations; in one-sided latency tools on the client only.
    WarmUp,
    /// Measured iterations; a one-sided target waits for their end.
    Measuring,
    /// Between two iterations.
    Gap,
    /// The barrier after a size.
    PostRun,
    /// Exchanging results, in bandwidth tools.
    Results,
    /// Completing the iterations that either side has begun, in bandwidth tools.
    Settling,
    /// Checking the data of a size and numbering the data of the next size.
    Verifying,
    /// Printing the results of a size.
    Reporting,
    /// Releasing all resources.
    Releasing,
}

impl Phase {
    /// All phases, in the order of a run.
    pub const ALL: [Self; 20] = [
        Self::Opening,
        Self::Listening,
        Self::Connecting,
        Self::Names,
        Self::Versions,
        Self::Options,
        Self::Addresses,
        Self::SetUp,
        Self::Ready,
        Self::PreRun,
        Self::Sync,
        Self::WarmUp,
        Self::Measuring,
        Self::Gap,
        Self::PostRun,
        Self::Results,
        Self::Settling,
        Self::Verifying,
        Self::Reporting,
        Self::Releasing,
    ];

    /// Returns its name, for tests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Listening => "listening",
            Self::Connecting => "connecting",
            Self::Names => "names",
            Self::Versions => "versions",
            Self::Options => "options",
            Self::Addresses => "addresses",
            Self::SetUp => "set-up",
            Self::Ready => "ready",
            Self::PreRun => "pre-run",
            Self::Sync => "sync",
            Self::WarmUp => "warm-up",
            Self::Measuring => "measuring",
            Self::Gap => "gap",
            Self::PostRun => "post-run",
            Self::Results => "results",
            Self::Settling => "settling",
            Self::Verifying => "verifying",
            Self::Reporting => "reporting",
            Self::Releasing => "releasing",
        }
    }
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
