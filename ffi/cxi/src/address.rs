//! Arithmetic of fabric addresses and match ids (nic.md 4).
//!
//! A portal is addressed by the NIC address (20 bits), the PID (`pid_bits` wide, 6 to 9) and the
//! portal index, at which a portals table entry is mapped in the domain of the PID.

use cxi_sys::{C_NID_ANY, CXI_DFA_EP_MASK, CXI_DFA_EP_WIDTH, CXI_DFA_EXT_MASK, CXI_DFA_EXT_WIDTH};

/// The part of a NIC address that packets carry, 20 bits: the address of the NIC. A virtual
/// function has its number and 1 in the bits above (libcxi.md 2.2).
pub const fn sent_nid(nid: u32) -> u32 {
    nid & C_NID_ANY
}

/// The number of the virtual function with this NIC address; `None` for a NIC.
pub const fn virtual_function(nid: u32) -> Option<u32> {
    (nid >> C_NID_ANY.count_ones()).checked_sub(1)
}

/// The destination fabric address (DFA) of a command. The command carries the low 5 bits of the
/// index separately ([`index_ext`]).
///
/// The endpoint is truncated to 12 bits, as in libcxi: index 511 addresses index 255 if `pid_bits`
/// is 9 (nic.md 4.1).
pub const fn dfa(nid: u32, pid: u32, index: u32, pid_bits: u32) -> u32 {
    // An addition, as in libcxi: a PID that is too wide carries into the index.
    let endpoint = ((index >> CXI_DFA_EXT_WIDTH) << pid_bits).wrapping_add(pid);
    endpoint & CXI_DFA_EP_MASK | nid << CXI_DFA_EP_WIDTH
}

/// The part of the portal index that a command carries beside its DFA, 5 bits.
pub const fn index_ext(index: u32) -> u8 {
    (index & CXI_DFA_EXT_MASK) as u8
}

/// The NIC address in a DFA.
pub const fn nid_of(dfa: u32) -> u32 {
    dfa >> CXI_DFA_EP_WIDTH
}

/// The PID in a DFA.
pub const fn pid_of(dfa: u32, pid_bits: u32) -> u32 {
    dfa & ((1 << pid_bits) - 1)
}

/// The portal index of a DFA and an index extension.
pub const fn index_of(dfa: u32, index_ext: u8, pid_bits: u32) -> u32 {
    ((dfa & CXI_DFA_EP_MASK) >> pid_bits) << CXI_DFA_EXT_WIDTH | index_ext as u32
}

/// The match id (initiator id) of a PID and a node. The node is a NIC address, or a rank for an
/// entry with logical addressing; of a NIC address the part that packets carry ([`sent_nid`]). All
/// ones in either part are a wildcard (nic.md 4.2).
pub const fn match_id(pid_bits: u32, pid: u32, node: u32) -> u32 {
    let node_bits = 32 - pid_bits;
    (pid & ((1 << pid_bits) - 1)) << node_bits | node & ((1 << node_bits) - 1)
}

#[cfg(test)]
mod tests {
    use cxi_sys::{C_PID_ANY, CXI_MATCH_ID_ANY};

    use super::*;

    #[test]
    fn encodes_example_of_section_4() {
        assert_eq!(dfa(0x12345, 7, 37, 9), 0x1234_5207);
        assert_eq!(index_ext(37), 5);
    }

    #[test]
    fn packets_carry_20_bits_of_the_address_of_a_virtual_function() {
        let nid = 0x12345 + (2 + 1) * (1 << 20);
        assert_eq!((sent_nid(nid), virtual_function(nid)), (0x12345, Some(2)));
        assert_eq!(dfa(nid, 7, 37, 9), dfa(0x12345, 7, 37, 9));
        assert_eq!(virtual_function(0xfffff), None);
    }

    #[test]
    fn encodes_example_of_appendix_b() {
        assert_eq!(dfa(0x00123, 4, 0, 9), 0x0012_3004);
        assert_eq!(index_ext(0), 0);
    }

    #[test]
    fn truncates_index_511_to_255() {
        let index = C_PID_ANY;
        let dfa = dfa(0x12344, 7, index, 9);
        assert_eq!(dfa, 0x12344 << 12 | 7 << 9 | 7);
        assert_eq!(index_ext(index), 31);
        assert_eq!(index_of(dfa, 31, 9), 255);
    }

    #[test]
    fn carries_wide_pid_into_index() {
        assert_eq!(dfa(0, 64, 0, 6), 1 << 6);
        assert_eq!(index_of(dfa(0, 64, 0, 6), 0, 6), 32);
    }

    #[test]
    fn decodes_parts_for_every_pid_width() {
        for pid_bits in 6..=9 {
            for pid in [0, 1, (1 << pid_bits) - 2] {
                for index in [0, 1, 31, 32, 37, (1 << (17 - pid_bits)) - 1] {
                    let dfa = dfa(0xfedcb, pid, index, pid_bits);
                    assert_eq!(nid_of(dfa), 0xfedcb);
                    assert_eq!(pid_of(dfa, pid_bits), pid);
                    assert_eq!(index_of(dfa, index_ext(index), pid_bits), index);
                }
            }
        }
    }

    #[test]
    fn splits_match_id_by_pid_width() {
        assert_eq!(match_id(9, 4, 0x123), 4 << 23 | 0x123);
        assert_eq!(match_id(6, 4, 0x123), 4 << 26 | 0x123);
        assert_eq!(match_id(9, 511, u32::MAX), CXI_MATCH_ID_ANY);
        assert_eq!(match_id(9, 512 + 4, 1 << 23 | 0x123), 4 << 23 | 0x123);
    }
}
