//! The target side of a one-sided benchmark (tools.md 3.3).

use cxi::{MemoryRegion, PortalTableEntry};

use super::PORTAL_INDEX;
use super::memory::{self, EVENT_PAGE, map};
use super::portals::{self, Entry, Portals};
use crate::advice::Explain;
use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::gpu::Use;
use crate::measure::Supervisor;
use crate::plan::buffers::Buffer;

/// A buffer with one persistent list entry on an enabled portal.
pub struct Target {
    portal: PortalTableEntry,
    portals: Portals,
    buffer: MemoryRegion,
}

impl Target {
    /// Allocates `buffer` and opens it to the peer through `entry`. The buffer begins with
    /// `contents`; the rest is zero.
    ///
    /// # Errors
    ///
    /// A call that the library refuses.
    pub fn new(
        endpoint: &Endpoint,
        buffer: Buffer,
        contents: &[u8],
        entry: Entry,
    ) -> Result<Self, Failure> {
        let mut portals = Portals::new(endpoint, EVENT_PAGE)?;
        let buffer = map(endpoint, Use::Receive, buffer)?;
        buffer
            .copy_in(0, contents)
            .explain("cannot fill the buffer")?;
        let mut portal = portals.open(endpoint, PORTAL_INDEX, entry.matching.is_some())?;
        portals.append(&mut portal, &buffer, entry)?;
        Ok(Self {
            portal,
            portals,
            buffer,
        })
    }

    /// Numbers the bytes of the buffer ([`memory::fill_numbered`]).
    ///
    /// # Errors
    ///
    /// A peer that has ended, and a copy that fails.
    pub fn fill_numbered(&self, supervisor: &dyn Supervisor) -> Result<(), Failure> {
        memory::fill_numbered(&self.buffer, supervisor)
    }

    /// Checks that the first `size` bytes of the buffer are numbered.
    ///
    /// # Errors
    ///
    /// A byte that is not numbered, and a copy that fails.
    pub fn is_numbered(&self, size: u64) -> Result<(), Failure> {
        memory::is_numbered(&self.buffer, "the target buffer", 0, size)
    }

    /// Copies the start of the buffer.
    ///
    /// # Errors
    ///
    /// A copy from a GPU that fails.
    pub fn copy_out(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.buffer
            .copy_out(0, bytes)
            .explain("cannot read the buffer")
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
