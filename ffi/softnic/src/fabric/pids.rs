//! The PIDs that a NIC claims, and the resources that its processes use.

use std::collections::BTreeSet;

use cxi_sys::C_PID_ANY;
use rustix::io::Errno;

use super::port::{self, Endpoints, LniUse, VNIS};
use super::{Directory, Fabric};
use crate::engine::VniRange;

impl Fabric {
    /// Returns the resources in use by the LNIs of all processes that have this NIC open.
    pub fn uses(&self, directory: &Directory) -> Result<Vec<LniUse>, Errno> {
        let ports = directory.ports(self.nid)?;
        Ok(ports.iter().flat_map(|(_, file, _)| port::read_uses(file)).collect())
    }

    /// Claims `count` consecutive PIDs on `vnis` for this NIC, from `pid` on or the lowest free
    /// ones, and returns the first. With `pid`, they must be below the wildcard.
    ///
    /// # Errors
    /// EEXIST if a port of this NIC has one of them on one of these VNIs; ENOSPC if there are too
    /// few below 510 (libcxi.md 6), or if the NIC has domains on too many VNIs.
    pub fn claim(&mut self, vnis: VniRange, pid: Option<u16>, count: u16) -> Result<u16, Errno> {
        let directory = self.directory()?;
        let ports = directory.ports(self.nid)?;
        let in_use = || ports.iter().flat_map(|(_, _, header)| &header.endpoints);
        let mut rows: BTreeSet<VniRange> = in_use().map(|endpoints| endpoints.vnis).collect();
        rows.insert(vnis);
        if rows.len() > VNIS {
            return Err(Errno::NOSPC);
        }
        let overlapping: Vec<&Endpoints> =
            in_use().filter(|endpoints| endpoints.vnis.overlaps(vnis)).collect();
        let is_free =
            |pid: u16| !overlapping.iter().any(|port_endpoints| port_endpoints.contains(pid));
        let are_free = |first: u16| (first..first + count).all(is_free);
        let first = match pid {
            Some(pid) => Some(pid).filter(|&pid| are_free(pid)).ok_or(Errno::EXIST)?,
            // The wildcard never selects the highest PID.
            None => (0..C_PID_ANY as u16)
                .take_while(|first| first + count < C_PID_ANY as u16)
                .find(|&first| are_free(first))
                .ok_or(Errno::NOSPC)?,
        };
        if self.port.add_pids(vnis, first..first + count) { Ok(first) } else { Err(Errno::NOSPC) }
    }

    /// Releases a PID.
    pub fn unclaim(&mut self, vnis: VniRange, pid: u16) {
        self.port.remove_pid(vnis, pid);
    }
}
