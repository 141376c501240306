//! The address of this process on the fabric, as its peer and the results name it.

use std::time::Duration;

use facts::device::FabricAddress;

use crate::backend::{self, LinksDelay};
use crate::gpu::OnGpus;
use crate::traffic_class::TrafficClass;

/// This side's address on the fabric and its memory, which it sends to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// NIC address and PID.
    pub address: FabricAddress,
    /// CXI service.
    pub svc_id: u32,
    /// VNI of the domain.
    pub vni: u32,
    /// The VNI is the first one of the service's range, and no option has chosen it.
    pub has_vni_of_range: bool,
    /// Traffic class of this side's operations.
    pub class: TrafficClass,
    /// The NIC is a software NIC, which reaches only its own machine.
    pub simulated: bool,
    /// The buffers that lie on GPUs, with the detected type of these GPUs.
    pub gpus: OnGpus,
}

impl LocalAddress {
    /// The name of the threads of this process that do the work of the NIC while nothing in it
    /// polls them; `None` if the NIC works by itself.
    pub fn thread(&self) -> Option<&'static str> {
        self.simulated.then_some(backend::SOFTWARE_NIC_THREAD)
    }

    /// The delays of all messages of a NIC of the same fabric so far, and of the answers to them.
    /// `None` if no model makes these delays.
    pub fn modelled_delay(&self, nic: u32) -> Option<LinksDelay> {
        if self.simulated { backend::links_delay(nic) } else { None }
    }

    /// Returns for how long data of a NIC of the same fabric has filled a link of a model so far.
    /// `None` without such a model.
    pub fn modelled_filling(&self, nic: u32) -> Option<Duration> {
        if self.simulated { backend::links_filled(nic) } else { None }
    }
}
