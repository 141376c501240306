//! The wrapper with a mock of libcxi without a NIC: release order, bytes of commands, credits,
//! errors.

mod api;
mod counting;
mod memory_use;
mod owners;
mod queues;
mod second_opinion;
#[path = "../steps/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the library, which use all of it")]
mod steps;

use cxi::sys::{
    C_PID_ANY, CXI_EQ_EC_DISABLE, CXI_MAP_PIN, CXI_MAP_READ, CXI_MAP_WRITE, CXI_TC_BEST_EFFORT,
    CXI_TC_TYPE_DEFAULT,
};
use cxi::{
    CommunicationProfile, Device, Domain, Error, EventQueue, Library, Lni, MemoryRegion, Pages,
    PortalTableEntry, TargetQueue, TransmitQueue,
};

/// One object of each kind.
struct World {
    device: Device,
    lni: Lni,
    domain: Domain,
    profile: CommunicationProfile,
    buffer: MemoryRegion,
    events: EventQueue,
    transmit: TransmitQueue,
    target: TargetQueue,
    portal: PortalTableEntry,
}

impl World {
    fn new(library: &Library) -> Result<Self, Error> {
        let device = Device::open(library, 0)?;
        let lni = Lni::new(&device, 1)?;
        let domain = Domain::new(&lni, 1, C_PID_ANY)?;
        let profile = CommunicationProfile::new(&lni, 1, CXI_TC_BEST_EFFORT, CXI_TC_TYPE_DEFAULT)?;
        let flags = CXI_MAP_PIN | CXI_MAP_READ | CXI_MAP_WRITE;
        let buffer = MemoryRegion::map(&lni, Pages::anonymous(4096)?, flags)?;
        let events = EventQueue::new(&lni, 1, CXI_EQ_EC_DISABLE.into())?;
        let mut transmit = TransmitQueue::new(&profile, 1, &events, Some(&events))?;
        transmit.keep_mapped(&buffer);
        let target = TargetQueue::new(&lni, 1, Some(&events))?;
        let mut portal = PortalTableEntry::new(&lni, &events, false)?;
        portal.keep_mapped(&buffer);
        portal.map(&domain, 0)?;
        Ok(Self { device, lni, domain, profile, buffer, events, transmit, target, portal })
    }
}

/// A world on a new mock without progress hook, like hardware.
fn hardware() -> World {
    api::reset();
    World::new(&Library::from_api(api::api())).unwrap()
}
