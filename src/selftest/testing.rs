//! The NIC of tests.

use cxi::sys::CXI_TC_BEST_EFFORT;
use facts::device::DeviceName;

use crate::bench::Nic;

/// Opens a software NIC.
pub fn nic() -> Nic {
    let name = DeviceName::software(78);
    let device = node::backend::open(name, None).unwrap();
    Nic {
        device,
        name,
        service: 1,
        vni: 1,
        class: CXI_TC_BEST_EFFORT,
    }
}
