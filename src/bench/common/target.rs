//! The target side of a one-sided benchmark (tools.md 3.3).

use cxi::{MemoryRegion, PortalTableEntry};

use super::memory::{EVENT_PAGE, map};
use super::portals::{self, Entry, Portals};
use crate::advice::Explain;
use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::gpu::Use;
use crate::plan::buffers::Buffer;

/// A buffer with one persistent list entry on an enabled portal.
pub struct Target {
    portal: PortalTableEntry,
    portals: Portals,
    /// What the operations of the peer read from or write to.
    pub buffer: MemoryRegion,
}

impl Target {
    /// Allocates `buffer` and opens it to the peer at the index `portal`, through `entry`. The buffer begins with
    /// `contents`; the rest is zero.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn new(
        endpoint: &Endpoint,
        portal: u32,
        buffer: Buffer,
        contents: &[u8],
        entry: Entry,
    ) -> Result<Self, Failure> {
        let mut portals = Portals::new(endpoint, EVENT_PAGE)?;
        let buffer = map(endpoint, Use::Receive, buffer)?;
        buffer
            .copy_in(0, contents)
            .explain("cannot fill the buffer")?;
        let mut portal = portals.open(endpoint, portal, entry.matching.is_some())?;
        portals.append(&mut portal, &buffer, entry)?;
        Ok(Self {
            portal,
            portals,
            buffer,
        })
    }

    /// Releases the resources.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn close(self) -> Result<(), Failure> {
        portals::close(self.portal)?;
        self.portals.close()?;
        self.buffer.close().explain("cannot release the buffer")
    }
}
