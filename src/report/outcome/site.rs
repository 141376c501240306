//! The host that measured, its NIC, and the addresses of both sides.

use serde::{Deserialize, Serialize};

/// The machine that measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Architecture of the CPUs, as the kernel names it.
    pub architecture: String,
}

/// A NIC.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Device {
    /// Name of the device: cxiN, or softN for a software NIC.
    pub name: String,
    /// Whether it is a software NIC, so that no Cassini hardware was involved; null if the device
    /// was not opened.
    pub is_software: Option<bool>,
    /// Number of the CXI service.
    pub svc_id: u32,
}

/// Addresses of both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Addresses {
    /// Fabric address of this side.
    pub local: FabricAddress,
    /// Fabric address of the peer.
    pub remote: FabricAddress,
    /// VNI of this side.
    pub vni: u32,
    /// IP address of the server.
    pub server_ip: String,
    /// TCP port of the server.
    pub server_port: u16,
}

/// An address on the fabric.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FabricAddress {
    /// Address of the NIC.
    pub nic: u32,
    /// PID of the process on this NIC.
    pub pid: u32,
}
