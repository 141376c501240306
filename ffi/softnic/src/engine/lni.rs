//! LNIs, and the objects of software that have no more state than their owner and their numbers.

use cxi_sys::{C_COMM_PROF_PER_CQ, C_NUM_LACS, C_NUM_RGIDS, CXI_TC_BEST_EFFORT};

use super::address::VniRange;
use super::memory::AddressSpace;

/// Processing elements of the NIC. Each has list entries for its own portals table entries.
pub const ELEMENTS: usize = 4;

/// Communication profiles of one RGID.
pub const PROFILES: usize = C_COMM_PROF_PER_CQ as usize;

/// The most LNIs that can share an RGID: its address contexts, of which each LNI that maps memory
/// needs one.
pub const LNIS_PER_RGID: u32 = C_NUM_LACS;

/// One more than the highest number of an LNI: the driver limits RGIDs, not LNIs. RGID 0 is
/// reserved (libcxi.md 4).
pub const LNIS: usize = 1 + ((C_NUM_RGIDS - 1) * LNIS_PER_RGID) as usize;

/// A communication profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    pub vni: u16,
    pub tc: u32,
    pub tc_type: u32,
}

impl Profile {
    /// The traffic class of packets, 0 to 3: BEST_EFFORT is 0 (health.md 1.5).
    #[inline]
    pub fn class(&self) -> u8 {
        CXI_TC_BEST_EFFORT.saturating_sub(self.tc) as u8
    }
}

/// The references of an LNI to a profile of its RGID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldProfile {
    pub profile: Profile,
    pub users: usize,
}

/// A logical network interface: the owner of all other objects of one client.
#[derive(Default)]
pub struct Lni {
    /// The number of its service.
    pub service: u32,
    /// The resource group, which LNIs of the service may share.
    pub rgid: u16,
    /// The most list entries and pending triggered operations that the service allows it.
    pub most_entries: usize,
    pub most_pending: usize,
    /// Its pool of triggered operations, and its pool of list entries in each processing element.
    pub triggered_pool: u8,
    pub entry_pool: u8,
    /// Portals table entries that it has allocated so far.
    pub allocated_ptes: usize,
    pub reservations: Vec<Reservation>,
    /// The profiles that this LNI has allocated, by LCID.
    pub profiles: [Option<HeldProfile>; PROFILES],
    /// Profiles of other LNIs of the RGID with which this LNI has made queues, by LCID.
    pub neighbour_profiles: [Option<Profile>; PROFILES],
    pub space: AddressSpace,
    pub wait_objects: usize,
}

impl Lni {
    #[inline]
    pub fn profile(&self, lcid: u8) -> Option<&Profile> {
        let lcid = usize::from(lcid);
        match self.profiles.get(lcid)? {
            Some(held) => Some(&held.profile),
            None => self.neighbour_profiles[lcid].as_ref(),
        }
    }

    /// The processing element of its next portals table entry: the elements in turn, from its RGID
    /// modulo 4 on (libcxi.md 8.3).
    pub fn next_element(&mut self) -> usize {
        self.allocated_ptes += 1;
        (usize::from(self.rgid) + self.allocated_ptes - 1) % ELEMENTS
    }

    /// Adds a reference to the profile with this LCID.
    pub fn hold(&mut self, lcid: usize, profile: Profile) {
        let held = self.profiles[lcid].get_or_insert(HeldProfile { profile, users: 0 });
        held.users += 1;
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
