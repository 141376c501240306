//! Addresses of portals table entries (nic.md 4).

/// VNI, PID and index of a portals table entry on a NIC, in one word, which is compared at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address(u64);

impl Address {
    /// Makes an address.
    #[inline]
    pub fn new(vni: u16, pid: u16, index: u16) -> Self {
        Self(u64::from(vni) | u64::from(pid) << 16 | u64::from(index) << 32)
    }

    /// Returns the VNI.
    #[inline]
    pub fn vni(self) -> u16 {
        self.0 as u16
    }

    /// Returns the PID.
    #[inline]
    pub fn pid(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns VNI and PID in the lower half of a word, and the index.
    #[inline]
    pub fn to_parts(self) -> (u64, u64) {
        (self.0 & 0xffff_ffff, self.0 >> 32)
    }

    /// Returns the address with these parts.
    #[inline]
    pub fn from_parts(endpoint: u32, index: u16) -> Self {
        Self(u64::from(endpoint) | u64::from(index) << 32)
    }
}
