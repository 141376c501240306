//! The address of this process on the fabric, as its peer and the results name it.

use facts::device::FabricAddress;

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
