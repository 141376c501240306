//! The objects with which the loops measure one size, and how the two sides of a measurement keep
//! in step: over the control connection, or by the timetable of a survey.

use std::time::Duration;

use super::watchdog::Notices;
use facts::error::Failure;
use measure::{SideResult, SideView, Supervisor};
use plan::run_options::{RunOptions, Side};
use session::{PeerCheck, Session};

/// The objects with which the loops measure one size.
pub struct LoopContext<'a> {
    /// Which side this process is.
    pub side: Side,
    /// Keeps this side in step with the peer.
    pub barriers: &'a dyn Barriers,
    pub run: &'a RunOptions,
    pub peer_is_cxidiag: bool,
    /// Watches the peer while this side waits for the NIC.
    pub supervisor: &'a dyn Supervisor,
    /// Reports long waits.
    pub notices: Notices<'a>,
    /// A CPU for each measuring thread; empty for one thread.
    pub cpus: &'a [u32],
}

/// Labels of the barriers around the measurement of each size: of a latency (wire.md 6.2) and of a
/// bandwidth (wire.md 6.3).
pub const SYNC: &str = "Sync";
pub const PRE_RUN: &str = "Pre-run";
pub const POST_RUN: &str = "Post-run";
pub const CLEANUP: &str = "RDZV cleanup";

/// The barriers of a measurement, and the results that both sides exchange at them. None of them is
/// in the timed part of a loop.
pub trait Barriers {
    /// Waits, for `limit` at most, until the peer is at the barrier `point`.
    ///
    /// # Errors
    ///
    /// A peer that has failed or does not come, and an interruption.
    fn barrier(&self, point: &str, limit: Duration) -> Result<(), Failure> {
        self.barrier_while(point, limit, &mut || Ok(()))
    }

    /// Waits as [`Self::barrier`] does; a failure of `look`, which is called regularly, ends the
    /// wait.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::barrier`] and of `look`.
    fn barrier_while(
        &self,
        point: &str,
        limit: Duration,
        look: &mut PeerCheck<'_>,
    ) -> Result<(), Failure>;

    /// Exchanges the results of one size. Returns the peer's.
    fn results(&self, own: SideResult) -> Result<SideResult, Failure>;

    /// Exchanges each side's view of one size. Returns the peer's.
    fn views(&self, own: SideView) -> Result<SideView, Failure>;

    /// Whether the peer waits at the next barrier. Does not block.
    fn peer_waits(&self) -> bool;
}

impl Barriers for Session {
    fn barrier_while(
        &self,
        point: &str,
        limit: Duration,
        look: &mut PeerCheck<'_>,
    ) -> Result<(), Failure> {
        Session::barrier_while(self, point, limit, look)
    }

    fn results(&self, own: SideResult) -> Result<SideResult, Failure> {
        Session::results(self, own)
    }

    fn views(&self, own: SideView) -> Result<SideView, Failure> {
        Session::views(self, own)
    }

    fn peer_waits(&self) -> bool {
        Session::peer_waits(self)
    }
}
