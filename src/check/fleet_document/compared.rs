//! The items that are compared between NICs and between nodes.

use health::{Item, host, host_state, identity, link, pcie, presence};

/// The settings that are compared, of NICs and of hosts.
pub(super) const COMPARED: [&Item; 20] = [
    &presence::COUNT,
    &identity::GENERATION,
    &identity::FIRMWARE,
    &identity::DRIVER,
    &host::LIBRARY,
    &host::KERNEL,
    &identity::QOS_PROFILE,
    &identity::CLASS_CEILING,
    &identity::ESM,
    &link::MTU,
    &link::SPEED,
    &link::LAYER_RETRY,
    &link::PAUSE,
    &pcie::WIDTH,
    &pcie::SPEED,
    &pcie::UPSTREAM,
    &host::IOMMU,
    &host::GOVERNOR,
    &host_state::IDLE_STATES,
    &host_state::MEMORY_SIZE,
];

/// Returns whether the item with this code is compared between NICs.
pub(super) fn is_compared(code: &str) -> bool {
    COMPARED.iter().any(|item| item.code == code)
}
