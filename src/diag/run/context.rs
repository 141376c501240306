//! The objects with which the loops measure one size.

use super::barriers::Barriers;
use super::watchdog::Notices;
use measure::Supervisor;
use plan::run_options::{RunOptions, Side};

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
