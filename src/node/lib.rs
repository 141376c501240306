//! This machine and its NICs.
//!
//! <!-- From tests/tidy/houses.rs: src/node -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | service         the service, VNI and traffic class to use                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | backend         opens the device: hardware library or software NIC                        |
//!    | local_address   the address of this process on the fabric                                 |
//!    | slingshot       what the launcher has granted on the NICs of this node                    |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | machine         what this machine has: CPUs, memory, huge pages                           |
//!    | traffic_class   how NICs and switches share their links                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | explain         errors of libcxi and of the NIC, and its states -> failures with remedies |
//!    | gpu             buffers on GPUs                                                           |
//!    | nic             the files of a NIC: counters, link, PCIe                                  |
//!    | programs        programs of the host that show more than its files                        |
//!    | reading         files that may not answer                                                 |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod backend;
pub mod explain;
pub mod gpu;
pub mod local_address;
pub mod machine;
pub mod nic;
pub mod programs;
pub mod reading;
pub mod service;
pub mod slingshot;
pub mod traffic_class;
