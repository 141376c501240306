//! The side of the process that wrote the document, its host, job, NIC and peer, and the addresses
//! of both sides.

use serde::{Deserialize, Serialize};

use facts::device::FabricAddress;

/// A machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Architecture of the CPUs, as the kernel names it.
    pub architecture: String,
}

impl Host {
    /// Name of a host that the text of a run does not name.
    pub const UNKNOWN: &str = "unknown host";

    /// Returns the name of the host, unless it is unknown.
    pub fn known_name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != Self::UNKNOWN)
    }
}

/// The process at the other end of the control connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Peer {
    /// Name of its host; null for a legacy tool and an older cxidiag.
    pub host_name: Option<String>,
    /// Its IP address on the control connection.
    pub ip: String,
    /// Whether it is a cxidiag.
    pub is_cxidiag: bool,
    /// The NIC of the server, in the document of a client; null if the server has not announced it.
    #[serde(default)]
    pub device: Option<String>,
}

/// A NIC. Apart from name and service, a field is null if the device was not opened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[cfg_attr(any(test, feature = "testing"), schemars(rename = "Device"))]
pub struct UsedDevice {
    /// Name of the device: cxiN, or softN for a software NIC.
    pub name: String,
    /// Whether it is a software NIC, so that no Cassini hardware was involved.
    pub is_software: Option<bool>,
    /// Number of the CXI service.
    pub svc_id: u32,
    /// Where the service comes from: default, option, slingshot (the variables of the job) or
    /// service_list (the best of the NIC's services).
    pub svc_id_source: Option<String>,
    /// Where the VNI comes from: default (the first one of the service), option or slingshot.
    pub vni_source: Option<String>,
    /// Traffic class of this side's operations.
    pub traffic_class: Option<String>,
    /// Where the traffic class comes from: default, option or slingshot.
    pub traffic_class_source: Option<String>,
    /// MAC address of the network interface; null without an interface.
    pub mac_address: Option<String>,
    /// PCI address: domain:bus:device.function.
    pub pci_address: Option<String>,
    /// Speed of the link, as the driver reports it; null without a port.
    pub link_speed: Option<usize>,
    /// Name of the driver.
    pub driver: Option<String>,
    /// Revision of the driver; null if the driver does not show it.
    pub driver_revision: Option<String>,
    /// Version of the firmware; null if the driver does not show it.
    pub firmware_version: Option<String>,
    /// File of the libcxi in use, whose name contains its version; null for a software NIC.
    pub library: Option<String>,
}

/// Addresses of both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Addresses {
    /// Fabric address of this side.
    pub local: FabricAddress,
    /// Fabric address of the peer.
    pub remote: FabricAddress,
    /// VNI of this side.
    pub vni: u32,
    /// IP address of the server; empty in loopback-bw, which has none.
    pub server_ip: String,
    /// TCP port of the server; 0 in loopback-bw.
    pub server_port: u16,
}

/// The side of a process in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The client, also of a loopback run.
    #[default]
    Client,
    /// The server.
    Server,
}
