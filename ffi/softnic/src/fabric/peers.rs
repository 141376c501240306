//! The NICs to which a NIC sends: it finds them by their addresses, and connects to their ports.

use std::fs::File;
use std::sync::atomic::Ordering;

use cxi_sys::{C_RC_PTLTE_NOT_FOUND, C_RC_RESOURCE_BUSY, C_RC_UNDELIVERABLE, C_RC_VNI_NOT_FOUND};

use super::lane::{GatheredResponses, Remote};
use super::port::{Endpoints, LANES, Port};
use super::{AddressLookup, Directory, Fabric};
use crate::engine::ReturnCode;
use crate::engine::wire::PeerId;

impl Fabric {
    /// Resolves an address in the directory.
    #[cold]
    pub(super) fn look_up(&mut self, nid: u32, vni: u16, pid: u16) -> Result<PeerId, ReturnCode> {
        self.routes.retain(|route| (route.nid, route.vni, route.pid) != (nid, vni, pid));
        let Ok(directory) = Directory::lock_existing(&self.place) else {
            return Err(C_RC_UNDELIVERABLE);
        };
        let ports = directory.ports(nid).map_err(|_| C_RC_UNDELIVERABLE)?;
        if ports.is_empty() {
            // Hardware reports this after about 30 s of retries (libcxi.md 12.3).
            return Err(C_RC_UNDELIVERABLE);
        }
        // A NIC has a VNI while there is a domain on it. For its own address it does not report the
        // difference (nic.md 4.3).
        let mut vni_known = nid == self.nid;
        for (slot, file, header) in ports {
            let is_of_vni = |endpoints: &&Endpoints| endpoints.vnis.contains(vni);
            let mut endpoints = header.endpoints.iter().filter(is_of_vni).peekable();
            vni_known |= endpoints.peek().is_some();
            if let Some(endpoints) = endpoints.find(|endpoints| endpoints.contains(pid)) {
                let peer = self.connect(&directory, (nid, slot), file, header.instance)?;
                self.routes.push(AddressLookup {
                    nid,
                    vni,
                    pid,
                    peer,
                    row: endpoints.row,
                    vnis: endpoints.vnis,
                });
                return Ok(peer);
            }
        }
        Err(if vni_known { C_RC_PTLTE_NOT_FOUND } else { C_RC_VNI_NOT_FOUND })
    }

    /// Finds or makes the connection to the port (NID, slot).
    ///
    /// A connection needs a lane at both ends, because a sender must be able to get a response.
    /// Without a free lane at one end it fails with RESOURCE_BUSY.
    fn connect(
        &mut self,
        directory: &Directory,
        (nid, slot): (u32, u32),
        file: File,
        instance: u64,
    ) -> Result<PeerId, ReturnCode> {
        let known =
            |remote: &Option<Remote>| remote.as_ref().is_some_and(|r| r.instance == instance);
        if let Some(peer) = self.remotes.iter().position(known) {
            return Ok(peer);
        }
        let port = Port::map(&file).map_err(|_| C_RC_RESOURCE_BUSY)?;
        let ours = self.file.as_ref().ok_or(C_RC_RESOURCE_BUSY)?;
        let back = lane_for(&self.port, directory, instance).ok_or(C_RC_RESOURCE_BUSY)?;
        let lane = lane_for(&port, directory, self.instance).ok_or(C_RC_RESOURCE_BUSY)?;
        self.port.claim(ours, back, instance, nid, slot).map_err(|_| C_RC_RESOURCE_BUSY)?;
        let head = port
            .claim(&file, lane, self.instance, self.nid, self.slot)
            .map_err(|_| C_RC_RESOURCE_BUSY)?;
        let tail = port.tail(lane).load(Ordering::Acquire);
        let remote = Some(Remote {
            port,
            nid,
            file,
            instance,
            lane,
            head,
            tail,
            touched: false,
            gathered: GatheredResponses::default(),
        });
        let peer = self.remotes.iter().position(Option::is_none).unwrap_or(self.remotes.len());
        if peer == self.remotes.len() {
            self.remotes.push(remote);
        } else {
            self.remotes[peer] = remote;
        }
        Ok(peer)
    }

    /// Finds the NIC that owns a lane of the own port, to answer it.
    #[cold]
    pub(super) fn identify(&mut self, lane: usize, source: u64) -> Option<PeerId> {
        let (nid, slot) = self.port.owner_name(lane);
        let directory = Directory::lock_existing(&self.place).ok()?;
        let (file, header) = directory.port(nid, slot, source)?;
        let peer = self.connect(&directory, (nid, slot), file, header.instance).ok()?;
        self.inbound[lane].sender = Some((source, peer));
        Some(peer)
    }
}

/// The lane of `port` that `instance` owns, or a free one.
fn lane_for(port: &Port, directory: &Directory, instance: u64) -> Option<usize> {
    let owner = |lane: &usize| port.owner(*lane).load(Ordering::Acquire);
    let is_free = |lane: &usize| match owner(lane) {
        0 => true,
        owner => {
            let (nid, slot) = port.owner_name(*lane);
            directory.port(nid, slot, owner).is_none()
        }
    };
    (0..LANES).find(|lane| owner(lane) == instance).or_else(|| (0..LANES).find(is_free))
}
