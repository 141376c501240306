//! This machine and its NICs.

#![forbid(unsafe_code)]

pub mod backend;
pub mod explain;
pub mod gpu;
pub mod local_address;
pub mod machine;
pub mod nic;
pub mod service;
pub mod slingshot;
pub mod traffic_class;
