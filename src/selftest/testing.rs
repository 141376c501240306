//! The NIC of tests.

use cxi::sys::CXI_TC_BEST_EFFORT;
use facts::device::DeviceName;

use crate::bench::{CheckedNic, Provoked};

/// Opens a software NIC.
pub fn nic() -> CheckedNic {
    numbered(78)
}

/// Opens the software NIC with this number, which one test alone uses.
pub fn numbered(number: u32) -> CheckedNic {
    let name = DeviceName::software(number);
    let device = node::backend::open(name, None).unwrap();
    CheckedNic {
        device,
        name,
        service: 1,
        vni: 1,
        class: CXI_TC_BEST_EFFORT,
        provoked: Provoked::default(),
    }
}
