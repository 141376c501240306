//! VNIs, addresses of portals table entries, and match ids (nic.md 4).

use cxi_sys::C_NID_ANY;

/// The VNIs of one profile of the receive unit: one VNI, or the range of a service. Their number is
/// a power of two, and the first is a multiple of it (libcxi.md 3.3). They share PIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VniRange {
    first: u16,
    last: u16,
}

impl VniRange {
    /// Makes a range of valid VNIs; `None` if its size or its place is not allowed.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        let size = (u32::from(last) + 1).checked_sub(first.into())?;
        let is_valid = first > 0 && size.is_power_of_two() && u32::from(first).is_multiple_of(size);
        is_valid.then_some(Self { first, last })
    }

    /// Makes a range of one VNI.
    pub fn single(vni: u16) -> Self {
        Self { first: vni, last: vni }
    }

    /// The first and the last VNI.
    pub fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }

    /// Whether a VNI is one of them.
    pub fn contains(self, vni: u16) -> bool {
        (self.first..=self.last).contains(&vni)
    }

    /// Whether two ranges have a VNI in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// VNI, PID and index of a portals table entry on a NIC, in one word, which is compared at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address(u64);

impl Address {
    /// Makes an address.
    #[inline]
    pub fn new(vni: u16, pid: u16, index: u16) -> Self {
        Self(u64::from(vni) | u64::from(pid) << 16 | u64::from(index) << 32)
    }

    /// Whether it has this PID and index, on any VNI of a range.
    #[inline]
    pub fn is_on(self, vnis: VniRange, pid: u16, index: u16) -> bool {
        // Alignment makes the VNIs of a range differ in their lower bits only.
        let any = u64::from(vnis.first ^ vnis.last);
        (self.0 ^ Self::new(vnis.first, pid, index).0) & !any == 0
    }

    #[inline]
    pub fn vni(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    pub fn pid(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// VNI and PID in the lower half of a word, and the index.
    #[inline]
    pub fn to_parts(self) -> (u64, u64) {
        (self.0 & 0xffff_ffff, self.0 >> 32)
    }

    /// The address with these parts.
    #[inline]
    pub fn from_parts(endpoint: u32, index: u16) -> Self {
        Self(u64::from(endpoint) | u64::from(index) << 32)
    }
}

/// Bits of a PID on this NIC (libcxi.md 2.2).
pub const PID_BITS: u32 = 9;

/// Bits of a match id below the PID: a NIC address, or a rank.
const NODE_BITS: u32 = 32 - PID_BITS;

pub fn match_id(pid: u16, nid: u32) -> u32 {
    u32::from(pid) << NODE_BITS | nid
}

pub fn pid_of(match_id: u32) -> u16 {
    (match_id >> NODE_BITS) as u16
}

/// Whether an entry with this match id accepts operations of `initiator`. All ones in the PID or in
/// the node match any; where nodes are NIC addresses, so does the wildcard address of 20 ones
/// (nic.md 15, question 27).
pub fn matches_initiator(match_id: u32, initiator: u32, use_logical: bool) -> bool {
    let pid = |id: u32| id >> NODE_BITS;
    let node = |id: u32| id & (u32::MAX >> PID_BITS);
    let any_pid = pid(match_id) == u32::MAX >> NODE_BITS;
    let any_node =
        node(match_id) == u32::MAX >> PID_BITS || (!use_logical && node(match_id) == C_NID_ANY);
    (any_pid || pid(match_id) == pid(initiator)) && (any_node || node(match_id) == node(initiator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_aligned_powers_of_two() {
        for (first, last) in [(1, 1), (65535, 65535), (2, 3), (16, 31), (1 << 15, 65535)] {
            let range = VniRange::new(first, last).unwrap();
            assert_eq!(range.bounds(), (first, last));
        }
        for (first, last) in [(0, 0), (0, 65535), (1, 2), (3, 5), (8, 23), (17, 16), (9, 7)] {
            assert_eq!(VniRange::new(first, last), None, "{first} to {last}");
        }
    }

    #[test]
    fn compares_ranges_and_addresses() {
        let range = VniRange::new(16, 31).unwrap();
        for vni in 0..64 {
            let is_inside = (16..32).contains(&vni);
            assert_eq!(range.contains(vni), is_inside);
            assert_eq!(range.overlaps(VniRange::single(vni)), is_inside);
            assert_eq!(Address::new(vni, 3, 7).is_on(range, 3, 7), is_inside);
        }
        assert!(!Address::new(16, 4, 7).is_on(range, 3, 7));
        assert!(!Address::new(16, 3, 8).is_on(range, 3, 7));
        assert!(range.overlaps(VniRange::new(1 << 4, 31).unwrap()));
    }
}
