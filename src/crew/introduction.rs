//! How a process introduces itself to its coordinator, and what of that is accepted.

use serde::{Deserialize, Serialize};

use crate::location::Location;
use facts::device::{DeviceName, FabricAddress};
use facts::text;

/// Most NICs of a process.
const MOST_NICS: usize = 128;

/// Largest VNI: fields of VNIs have 16 bits.
const LARGEST_VNI: u32 = 0xffff;

/// A NIC as its process introduces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntroducedNic {
    /// Name of the device.
    pub device: String,
    /// Its address; none if it could not be opened.
    pub address: Option<FabricAddress>,
    /// VNI of its domain; 0 without an address.
    pub vni: u32,
    /// Traffic class of its operations.
    pub class: String,
    /// Location in its address; none if software has not set it.
    pub location: Option<Location>,
    /// Whether it is a software NIC.
    pub simulated: bool,
    /// Speed of its link, in Gb/s; none if it is unknown.
    #[serde(default)]
    pub link_gbps: Option<u32>,
    /// Why it could not be opened.
    pub failure: Option<String>,
}

/// A process as it introduces itself to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    pub rank: u32,
    /// Number of processes, as its launcher says.
    pub size: u32,
    /// Name of its host.
    pub host: String,
    /// Location of the host by the launcher: SLURM_TOPOLOGY_ADDR.
    pub topology: Option<String>,
    /// Its NICs, in the order in which blocks number them.
    pub nics: Vec<IntroducedNic>,
}

impl Introduction {
    /// Checks the numbers of an introduction, and cuts its texts.
    ///
    /// # Errors
    ///
    /// The first rule that it breaks, as a sentence about the process.
    pub fn accept(&mut self) -> Result<(), String> {
        text::accept(&mut self.host);
        self.topology.iter_mut().for_each(text::accept);
        if self.nics.len() > MOST_NICS {
            let count = self.nics.len();
            return Err(format!("it has {count} NICs (at most {MOST_NICS})"));
        }
        self.nics.iter_mut().try_for_each(IntroducedNic::accept)
    }
}

impl IntroducedNic {
    fn accept(&mut self) -> Result<(), String> {
        text::accept(&mut self.device);
        text::accept(&mut self.class);
        self.failure.iter_mut().for_each(text::accept);
        let device = &self.device;
        if device.parse::<DeviceName>().is_err() {
            return Err(format!("its NIC has the name '{device}'"));
        }
        let is_valid = self.address.is_none_or(FabricAddress::is_valid);
        let located = self.address.map(|address| Location::from_nid(address.nic));
        if !is_valid || self.location.is_some_and(|location| Some(location) != located) {
            return Err(format!("{device} has an address that no NIC has"));
        }
        if self.vni > LARGEST_VNI {
            return Err(format!("{device} has VNI {}, out of range", self.vni));
        }
        Ok(())
    }
}
