//! LNIs, and the objects of software that have no more state than their owner and their numbers.

use cxi_sys::{C_COMM_PROF_PER_CQ, CXI_TC_BEST_EFFORT};

use super::address::VniRange;
use super::memory::AddressSpace;

/// Communication profiles of one LNI.
pub const PROFILES: usize = C_COMM_PROF_PER_CQ as usize;

/// A communication profile. Requests for the same VNI and traffic class share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub vni: u16,
    pub tc: u32,
    pub tc_type: u32,
    pub users: usize,
}

impl Profile {
    /// Returns the traffic class of packets, 0 to 3: BEST_EFFORT is 0 (health.md 1.5).
    #[inline]
    pub fn class(&self) -> u8 {
        CXI_TC_BEST_EFFORT.saturating_sub(self.tc) as u8
    }
}

/// A logical network interface: the owner of all other objects of one client.
#[derive(Default)]
pub struct Lni {
    /// The number of its service.
    pub service: u32,
    /// The most list entries and pending triggered operations that the service allows it.
    pub most_entries: usize,
    pub most_pending: usize,
    pub reservations: Vec<Reservation>,
    pub profiles: [Option<Profile>; PROFILES],
    pub space: AddressSpace,
    pub wait_objects: usize,
}

impl Lni {
    /// Returns the profile with this LCID.
    #[inline]
    pub fn profile(&self, lcid: u8) -> Option<&Profile> {
        self.profiles.get(usize::from(lcid))?.as_ref()
    }
}

/// A PID on the VNIs of a profile of the receive unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    pub lni: usize,
    pub vnis: VniRange,
    pub pid: u16,
}

/// A PID that only a domain of one LNI can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub vnis: VniRange,
    pub pid: u16,
}

/// A memory descriptor: memory mapped for the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md {
    pub lni: usize,
    pub lac: u8,
    pub iova: u64,
    pub va: usize,
    pub len: usize,
    pub flags: u32,
}
