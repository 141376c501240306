//! The target side of a one-sided benchmark (tools.md 3.3).

use cxi::{MemoryRegion, PortalTableEntry};

use super::memory::{EVENT_PAGE, map};
use super::portals::{self, Entry, Portals, Reports};
use super::triggered_counter::{CounterQueue, TRIGGER_SLOTS};
use crate::bench::api::Peer;
use facts::error::Failure;
use node::explain::Explain;
use node::gpu::Use;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;

/// A buffer with one persistent list entry on an enabled portal.
pub struct Target {
    portal: PortalTableEntry,
    /// Counts the operations of the peer, if both sides show their own view.
    arrivals: Option<CounterQueue>,
    portals: Portals,
    /// The memory that the operations of the peer read or write.
    pub buffer: MemoryRegion,
}

impl Target {
    /// Allocates `buffer`, which begins with `contents` and is zero behind them, and opens it to
    /// `peer` through `entry`. With `--both-ends`, the NIC counts the operations that arrive.
    pub fn new(
        peer: Peer<'_>,
        run: &RunOptions,
        buffer: Buffer,
        contents: &[u8],
        mut entry: Entry,
    ) -> Result<Self, Failure> {
        let mut portals = Portals::new(peer.own, EVENT_PAGE)?;
        let counts = run.extensions.both_ends;
        let arrivals = counts
            .then(|| CounterQueue::new(peer.own, TRIGGER_SLOTS, &portals.events))
            .transpose()?;
        if let Some(arrivals) = &arrivals {
            entry.reports = Reports::Counted(arrivals.number());
        }
        let buffer = map(peer.own, Use::Receive, buffer)?;
        buffer.copy_in(0, contents).explain("cannot fill the buffer")?;
        let mut portal = portals.open(peer.own, peer.portal, entry.matching.is_some())?;
        portals.append(&mut portal, &buffer, entry)?;
        Ok(Self { portal, arrivals, portals, buffer })
    }

    /// The number of operations that have arrived, if they are counted.
    ///
    /// # Errors
    ///
    /// A NIC that does not answer.
    pub fn arrived(&mut self) -> Result<Option<u64>, Failure> {
        let count = |queue: &mut CounterQueue| queue.read(false, "reading a counter");
        let counts = self.arrivals.as_mut().map(count).transpose()?;
        Ok(counts.map(|counts| counts.success))
    }

    /// Releases the resources.
    pub fn close(self) -> Result<(), Failure> {
        portals::close(self.portal)?;
        self.arrivals.map_or(Ok(()), CounterQueue::close)?;
        self.portals.close()?;
        self.buffer.close().explain("cannot release the buffer")
    }
}
