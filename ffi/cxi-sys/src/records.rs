//! Device records: what the NIC reads and writes, as bytes with bit accessors.
//!
//! C declares these as bit-fields of mixed types that share bytes, which binding
//! generators lay out wrongly (abi.md, "Layout surprises"). Here each field is a bit
//! offset from the start of the record and a width, so that the line in the source
//! is the fact itself. `tests/layout` compares every one with `abi.json`.
//!
//! The command header (`c_cmd`) and the state-change fields of target events are
//! embedded records in C; their fields appear here directly in the outer record.

/// Position of one field of a record, for tests that check layouts by name.
pub struct Field<R> {
    /// Name of the field in C.
    pub name: &'static str,
    /// First bit, counted from the start of the record.
    pub bit_offset: usize,
    /// Number of bits.
    pub bit_width: usize,
    /// Reads the field.
    pub get: fn(&R) -> u64,
    /// Writes the low `bit_width` bits of the value.
    pub set: fn(&mut R, u64),
}

/// Reads `width` bits (at most 64, touching at most 8 bytes) from bit `offset` on.
#[inline(always)]
const fn get_bits(bytes: &[u8], offset: usize, width: usize) -> u64 {
    let first = offset / 8;
    let last = (offset + width - 1) / 8;
    let mut value = 0;
    let mut index = last + 1;
    while index > first {
        index -= 1;
        value = value << 8 | bytes[index] as u64;
    }
    value >> (offset % 8) & mask(width)
}

/// Writes the low `width` bits of `value` from bit `offset` on; no other bit changes.
#[inline(always)]
const fn set_bits(bytes: &mut [u8], offset: usize, width: usize, value: u64) {
    let first = offset / 8;
    let last = (offset + width - 1) / 8;
    let shift = offset % 8;
    let mut mask = mask(width) << shift;
    let mut value = value << shift & mask;
    let mut index = first;
    while index <= last {
        bytes[index] = bytes[index] & !(mask as u8) | value as u8;
        mask >>= 8;
        value >>= 8;
        index += 1;
    }
}

const fn mask(width: usize) -> u64 {
    u64::MAX >> (64 - width)
}

/// Conversion between a field's type and the bits that hold it.
trait Bits {
    fn from_bits(bits: u64) -> Self;
    fn into_bits(self) -> u64;
}

impl Bits for bool {
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    #[inline(always)]
    fn into_bits(self) -> u64 {
        self as u64
    }
}

macro_rules! integer_bits {
    ($($int:ty),*) => {$(
        impl Bits for $int {
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                bits as $int
            }
            #[inline(always)]
            fn into_bits(self) -> u64 {
                self as u64
            }
        }
    )*};
}
integer_bits!(u8, u16, u32, u64);

macro_rules! record {
    (
        $(#[$doc:meta])*
        $name:ident = $c_name:literal, $size:literal bytes {
            $($get:ident / $set:ident: $type:ty = $offset:literal, $width:literal;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(transparent)]
        pub struct $name([u8; $size]);

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl $name {
            /// Bytes of the record.
            pub const SIZE: usize = $size;
            /// Name of the record in C.
            pub const C_NAME: &'static str = $c_name;
            /// Every field, in the order of the record.
            pub const FIELDS: &'static [Field<Self>] = &[$(Field {
                name: stringify!($get),
                bit_offset: $offset,
                bit_width: $width,
                get: |record| record.$get().into_bits(),
                set: |record, bits| {
                    record.$set(<$type as Bits>::from_bits(bits));
                },
            }),*];

            /// A record of zero bytes.
            #[inline]
            pub const fn new() -> Self {
                Self([0; $size])
            }

            /// The record made of these bytes.
            #[inline]
            pub const fn from_bytes(bytes: [u8; $size]) -> Self {
                Self(bytes)
            }

            /// The bytes of the record, in the order of memory.
            #[inline]
            pub const fn bytes(&self) -> &[u8; $size] {
                &self.0
            }

            $(
                #[doc = concat!("Field `", stringify!($get), "`: ", $width, " bit(s) from bit ", $offset, " on.")]
                #[inline(always)]
                pub fn $get(&self) -> $type {
                    <$type as Bits>::from_bits(get_bits(&self.0, $offset, $width))
                }

                #[doc = concat!("Sets `", stringify!($get), "` to the low ", $width, " bit(s) of `value`.")]
                #[inline(always)]
                pub fn $set(&mut self, value: $type) -> &mut Self {
                    set_bits(&mut self.0, $offset, $width, Bits::into_bits(value));
                    self
                }
            )*
        }
    };
}

mod counting;
pub use counting::*;

record! {
    /// The first byte of every command.
    ///
    /// Source: nic.md 3.1.
    CmdHeader = "c_cmd", 1 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
    }
}

record! {
    /// A unicast destination fabric address (DFA).
    ///
    /// Source: nic.md 4.1.
    FaUnicast = "c_fa_unicast", 4 bytes {
        endpoint_defined / set_endpoint_defined: u16 = 0, 12;
        nid / set_nid: u32 = 12, 20;
    }
}

record! {
    /// Per-queue context for immediate data commands.
    ///
    /// Source: nic.md 3.4.
    CStateCmd = "c_cstate_cmd", 32 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        length / set_length: u8 = 8, 8;
        write_lac / set_write_lac: u8 = 16, 3;
        event_send_disable / set_event_send_disable: bool = 19, 1;
        event_success_disable / set_event_success_disable: bool = 20, 1;
        event_ct_send / set_event_ct_send: bool = 21, 1;
        event_ct_reply / set_event_ct_reply: bool = 22, 1;
        event_ct_ack / set_event_ct_ack: bool = 23, 1;
        event_ct_bytes / set_event_ct_bytes: bool = 24, 1;
        get_with_local_flag / set_get_with_local_flag: bool = 25, 1;
        restricted / set_restricted: bool = 26, 1;
        reduction / set_reduction: bool = 27, 1;
        flush / set_flush: bool = 28, 1;
        use_offset_for_get / set_use_offset_for_get: bool = 29, 1;
        initiator / set_initiator: u32 = 32, 32;
        index_ext / set_index_ext: u8 = 64, 5;
        user_ptr / set_user_ptr: u64 = 128, 64;
        ct / set_ct: u16 = 224, 11;
        eq / set_eq: u16 = 240, 11;
    }
}

record! {
    /// Header of an immediate data PUT; the payload follows it.
    ///
    /// Source: nic.md 3.5.
    IdcHdr = "c_idc_hdr", 16 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        length / set_length: u8 = 8, 8;
        dfa / set_dfa: u32 = 32, 32;
        remote_offset / set_remote_offset: u64 = 64, 56;
    }
}

record! {
    /// Header of a small message; the payload follows it.
    ///
    /// Source: nic.md 3.6.
    IdcMsgHdr = "c_idc_msg_hdr", 32 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        length / set_length: u8 = 8, 8;
        dfa / set_dfa: u32 = 32, 32;
        match_bits / set_match_bits: u64 = 64, 64;
        header_data / set_header_data: u64 = 128, 64;
        user_ptr / set_user_ptr: u64 = 192, 64;
    }
}

record! {
    /// Non-matching DMA command.
    ///
    /// Source: nic.md 3.8.
    NomatchDmaCmd = "c_nomatch_dma_cmd", 32 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        index_ext / set_index_ext: u8 = 8, 5;
        lac / set_lac: u8 = 16, 3;
        event_send_disable / set_event_send_disable: bool = 19, 1;
        event_success_disable / set_event_success_disable: bool = 20, 1;
        event_ct_send / set_event_ct_send: bool = 21, 1;
        event_ct_reply / set_event_ct_reply: bool = 22, 1;
        event_ct_ack / set_event_ct_ack: bool = 23, 1;
        event_ct_bytes / set_event_ct_bytes: bool = 24, 1;
        get_with_local_flag / set_get_with_local_flag: bool = 25, 1;
        restricted / set_restricted: bool = 26, 1;
        reduction / set_reduction: bool = 27, 1;
        flush / set_flush: bool = 28, 1;
        use_offset_for_get / set_use_offset_for_get: bool = 29, 1;
        dfa / set_dfa: u32 = 32, 32;
        remote_offset / set_remote_offset: u64 = 64, 56;
        local_addr / set_local_addr: u64 = 128, 57;
        request_len / set_request_len: u32 = 192, 32;
        ct / set_ct: u16 = 224, 11;
        eq / set_eq: u16 = 240, 11;
    }
}

record! {
    /// Full DMA command.
    ///
    /// Source: nic.md 3.9.
    FullDmaCmd = "c_full_dma_cmd", 64 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        index_ext / set_index_ext: u8 = 8, 5;
        lac / set_lac: u8 = 16, 3;
        event_send_disable / set_event_send_disable: bool = 19, 1;
        event_success_disable / set_event_success_disable: bool = 20, 1;
        event_ct_send / set_event_ct_send: bool = 21, 1;
        event_ct_reply / set_event_ct_reply: bool = 22, 1;
        event_ct_ack / set_event_ct_ack: bool = 23, 1;
        event_ct_bytes / set_event_ct_bytes: bool = 24, 1;
        get_with_local_flag / set_get_with_local_flag: bool = 25, 1;
        restricted / set_restricted: bool = 26, 1;
        reduction / set_reduction: bool = 27, 1;
        flush / set_flush: bool = 28, 1;
        use_offset_for_get / set_use_offset_for_get: bool = 29, 1;
        dfa / set_dfa: u32 = 32, 32;
        remote_offset / set_remote_offset: u64 = 64, 56;
        local_addr / set_local_addr: u64 = 128, 57;
        request_len / set_request_len: u32 = 192, 32;
        ct / set_ct: u16 = 224, 11;
        eq / set_eq: u16 = 240, 11;
        eager_length / set_eager_length: u32 = 256, 20;
        rendezvous_id / set_rendezvous_id: u8 = 280, 8;
        initiator / set_initiator: u32 = 288, 32;
        match_bits / set_match_bits: u64 = 320, 64;
        header_data / set_header_data: u64 = 384, 64;
        user_ptr / set_user_ptr: u64 = 448, 64;
    }
}

record! {
    /// Immediate atomic operation, large form; the header of an immediate data command is
    /// flattened into it.
    ///
    /// Source: nic.md 3.7.
    IdcAmoCmd = "c_idc_amo_cmd", 64 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        length / set_length: u8 = 8, 8;
        dfa / set_dfa: u32 = 32, 32;
        remote_offset / set_remote_offset: u64 = 64, 56;
        local_addr / set_local_addr: u64 = 128, 57;
        atomic_op / set_atomic_op: u8 = 192, 4;
        atomic_type / set_atomic_type: u8 = 200, 4;
        cswap_op / set_cswap_op: u8 = 208, 3;
        op1_word1 / set_op1_word1: u64 = 256, 64;
        op1_word2 / set_op1_word2: u64 = 320, 64;
        op2_word1 / set_op2_word1: u64 = 384, 64;
        op2_word2 / set_op2_word2: u64 = 448, 64;
    }
}

record! {
    /// What follows the header ([`IdcHdr`]) of an immediate atomic operation, small form.
    ///
    /// Source: nic.md 3.7.
    SmallAmoPayload = "c_small_amo_payload", 16 bytes {
        amo_op / set_amo_op: u8 = 0, 4;
        amo_type / set_amo_type: u8 = 8, 4;
        op1_word1 / set_op1_word1: u64 = 64, 64;
    }
}

record! {
    /// DMA atomic operation. It takes 128 bytes in a queue, of which these are used.
    ///
    /// Source: nic.md 3.10.
    DmaAmoCmd = "c_dma_amo_cmd", 96 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        index_ext / set_index_ext: u8 = 8, 5;
        lac / set_lac: u8 = 16, 3;
        event_send_disable / set_event_send_disable: bool = 19, 1;
        event_success_disable / set_event_success_disable: bool = 20, 1;
        event_ct_send / set_event_ct_send: bool = 21, 1;
        event_ct_reply / set_event_ct_reply: bool = 22, 1;
        event_ct_ack / set_event_ct_ack: bool = 23, 1;
        event_ct_bytes / set_event_ct_bytes: bool = 24, 1;
        get_with_local_flag / set_get_with_local_flag: bool = 25, 1;
        restricted / set_restricted: bool = 26, 1;
        reduction / set_reduction: bool = 27, 1;
        flush / set_flush: bool = 28, 1;
        use_offset_for_get / set_use_offset_for_get: bool = 29, 1;
        dfa / set_dfa: u32 = 32, 32;
        remote_offset / set_remote_offset: u64 = 64, 56;
        local_read_addr / set_local_read_addr: u64 = 128, 57;
        request_len / set_request_len: u32 = 192, 32;
        ct / set_ct: u16 = 224, 11;
        eq / set_eq: u16 = 240, 11;
        initiator / set_initiator: u32 = 288, 32;
        match_bits / set_match_bits: u64 = 320, 64;
        header_data / set_header_data: u64 = 384, 64;
        user_ptr / set_user_ptr: u64 = 448, 64;
        local_write_addr / set_local_write_addr: u64 = 512, 57;
        atomic_op / set_atomic_op: u8 = 576, 4;
        atomic_type / set_atomic_type: u8 = 584, 4;
        cswap_op / set_cswap_op: u8 = 592, 3;
        write_lac / set_write_lac: u8 = 608, 3;
        op2_word1 / set_op2_word1: u64 = 640, 64;
        op2_word2 / set_op2_word2: u64 = 704, 64;
    }
}

record! {
    /// Command about the queue itself: NOOP, FENCE, LCID.
    ///
    /// Source: nic.md 3.11.
    CqCmd = "c_cq_cmd", 64 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        lcid / set_lcid: u8 = 32, 4;
    }
}

record! {
    /// Target command: APPEND, SEARCH, UNLINK.
    ///
    /// Source: nic.md 3.13.
    TargetCmd = "c_target_cmd", 64 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        ptl_list / set_ptl_list: u8 = 8, 2;
        ptlte_index / set_ptlte_index: u16 = 16, 11;
        event_ct_bytes / set_event_ct_bytes: bool = 32, 1;
        event_ct_overflow / set_event_ct_overflow: bool = 33, 1;
        event_ct_comm / set_event_ct_comm: bool = 34, 1;
        event_unlink_disable / set_event_unlink_disable: bool = 35, 1;
        event_success_disable / set_event_success_disable: bool = 36, 1;
        event_comm_disable / set_event_comm_disable: bool = 37, 1;
        event_link_disable / set_event_link_disable: bool = 38, 1;
        unrestricted_end_ro / set_unrestricted_end_ro: bool = 39, 1;
        unrestricted_body_ro / set_unrestricted_body_ro: bool = 40, 1;
        unexpected_hdr_disable / set_unexpected_hdr_disable: bool = 41, 1;
        use_once / set_use_once: bool = 42, 1;
        no_truncate / set_no_truncate: bool = 43, 1;
        manage_local / set_manage_local: bool = 44, 1;
        op_get / set_op_get: bool = 45, 1;
        op_put / set_op_put: bool = 46, 1;
        ct / set_ct: u16 = 48, 11;
        buffer_id / set_buffer_id: u16 = 64, 16;
        lac / set_lac: u8 = 80, 3;
        restart_seq / set_restart_seq: bool = 88, 1;
        start / set_start: u64 = 128, 57;
        length / set_length: u64 = 192, 56;
        min_free / set_min_free: u32 = 256, 24;
        match_id / set_match_id: u32 = 288, 32;
        match_bits / set_match_bits: u64 = 320, 64;
        ignore_bits / set_ignore_bits: u64 = 384, 64;
    }
}

record! {
    /// Target command that sets the state of a portals table entry.
    ///
    /// Source: nic.md 3.13.
    SetStateCmd = "c_set_state_cmd", 64 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        ptlte_state / set_ptlte_state: u8 = 8, 3;
        ptlte_index / set_ptlte_index: u16 = 16, 11;
        current_addr / set_current_addr: u64 = 64, 57;
        drop_count / set_drop_count: u32 = 128, 24;
    }
}

record! {
    /// Status word that the NIC writes at the start of a command queue.
    ///
    /// Source: nic.md 2.2.
    CqStatus = "c_cq_status", 8 bytes {
        rd_ptr / set_rd_ptr: u16 = 0, 16;
        num_write_cmds_rejected / set_num_write_cmds_rejected: u16 = 16, 16;
        fail_command / set_fail_command: u8 = 32, 8;
        return_code / set_return_code: u8 = 48, 6;
        fail_loc_32 / set_fail_loc_32: bool = 61, 1;
        fail_ll / set_fail_ll: bool = 62, 1;
        ll_disabled / set_ll_disabled: bool = 63, 1;
    }
}

record! {
    /// Status slot that the NIC writes at the start of an event queue.
    ///
    /// Source: nic.md 5.5.
    EqStatus = "c_eq_status", 64 bytes {
        timestamp_ns_cpy / set_timestamp_ns_cpy: u32 = 0, 30;
        timestamp_sec_cpy / set_timestamp_sec_cpy: u64 = 64, 48;
        thld_sts / set_thld_sts: bool = 112, 1;
        thld_id / set_thld_id: u8 = 116, 2;
        unackd_dropped_event / set_unackd_dropped_event: bool = 120, 1;
        event_drop_seq_no / set_event_drop_seq_no: bool = 124, 1;
        event_slots_free / set_event_slots_free: u32 = 128, 26;
        event_slots_rsrvd / set_event_slots_rsrvd: u32 = 160, 26;
        wr_ptr / set_wr_ptr: u32 = 192, 26;
        using_buffer_b / set_using_buffer_b: bool = 224, 1;
        timestamp_ns / set_timestamp_ns: u32 = 416, 30;
        timestamp_sec / set_timestamp_sec: u64 = 448, 48;
    }
}

record! {
    /// Software-state register of an event queue.
    ///
    /// Source: nic.md 5.4.
    EqSwState = "c_ee_cfg_eq_sw_state", 8 bytes {
        rd_ptr / set_rd_ptr: u32 = 0, 26;
        reading_buffer_b / set_reading_buffer_b: bool = 31, 1;
        event_int_disable / set_event_int_disable: bool = 32, 1;
        eq_sts_int_disable / set_eq_sts_int_disable: bool = 33, 1;
        event_drop_seq_no / set_event_drop_seq_no: bool = 40, 1;
    }
}

record! {
    /// Initiator event, 16 bytes: ACK, REPLY, SEND.
    ///
    /// Source: nic.md 6.2.
    EventInitiatorShort = "c_event_initiator_short", 16 bytes {
        user_ptr / set_user_ptr: u64 = 0, 64;
        mlength / set_mlength: u32 = 64, 32;
        ptl_list / set_ptl_list: u8 = 96, 2;
        rendezvous / set_rendezvous: bool = 100, 1;
        retry / set_retry: bool = 101, 1;
        tgt_error / set_tgt_error: bool = 102, 1;
        event_size / set_event_size: u8 = 112, 2;
        event_type / set_event_type: u8 = 114, 5;
        return_code / set_return_code: u8 = 120, 6;
    }
}

record! {
    /// Initiator event, 32 bytes, with a timestamp.
    ///
    /// Source: nic.md 6.2.
    EventInitiatorLong = "c_event_initiator_long", 32 bytes {
        user_ptr / set_user_ptr: u64 = 0, 64;
        mlength / set_mlength: u32 = 64, 32;
        ptl_list / set_ptl_list: u8 = 96, 2;
        rendezvous / set_rendezvous: bool = 100, 1;
        retry / set_retry: bool = 101, 1;
        tgt_error / set_tgt_error: bool = 102, 1;
        event_size / set_event_size: u8 = 112, 2;
        event_type / set_event_type: u8 = 114, 5;
        timestamp_ns / set_timestamp_ns: u32 = 128, 30;
        timestamp_sec / set_timestamp_sec: u64 = 192, 48;
        return_code / set_return_code: u8 = 248, 6;
    }
}

record! {
    /// Target event, 32 bytes.
    ///
    /// Source: nic.md 6.2.
    EventTargetShort = "c_event_target_short", 32 bytes {
        header_data / set_header_data: u64 = 0, 64;
        initiator / set_initiator: u32 = 64, 32;
        ptlte_index / set_ptlte_index: u16 = 96, 11;
        event_size / set_event_size: u8 = 112, 2;
        event_type / set_event_type: u8 = 114, 5;
        ptl_list / set_ptl_list: u8 = 120, 2;
        auto_unlinked / set_auto_unlinked: bool = 124, 1;
        match_bits / set_match_bits: u64 = 128, 64;
        buffer_id / set_buffer_id: u16 = 192, 16;
        vni / set_vni: u16 = 208, 16;
        length / set_length: u32 = 224, 20;
        return_code / set_return_code: u8 = 248, 6;
    }
}

record! {
    /// Target event, 64 bytes; also LINK, UNLINK and STATE_CHANGE.
    ///
    /// Source: nic.md 6.2.
    EventTargetLong = "c_event_target_long", 64 bytes {
        header_data / set_header_data: u64 = 0, 64;
        initiator / set_initiator: u32 = 64, 32;
        ptlte_state / set_ptlte_state: u8 = 64, 3;
        sc_reason / set_sc_reason: u8 = 72, 4;
        sc_nic_auto / set_sc_nic_auto: bool = 80, 1;
        ptlte_index / set_ptlte_index: u16 = 96, 11;
        event_size / set_event_size: u8 = 112, 2;
        event_type / set_event_type: u8 = 114, 5;
        ptl_list / set_ptl_list: u8 = 120, 2;
        rendezvous / set_rendezvous: bool = 122, 1;
        get_issued / set_get_issued: bool = 123, 1;
        auto_unlinked / set_auto_unlinked: bool = 124, 1;
        match_bits / set_match_bits: u64 = 128, 64;
        buffer_id / set_buffer_id: u16 = 192, 16;
        vni / set_vni: u16 = 208, 16;
        timestamp_ns / set_timestamp_ns: u32 = 224, 30;
        timestamp_sec_low / set_timestamp_sec_low: u8 = 254, 2;
        mlength / set_mlength: u32 = 256, 32;
        rlength / set_rlength: u32 = 288, 32;
        remote_offset / set_remote_offset: u64 = 320, 56;
        start / set_start: u64 = 384, 57;
        lpe_stat_1 / set_lpe_stat_1: u16 = 448, 16;
        lpe_stat_2 / set_lpe_stat_2: u16 = 464, 16;
        atomic_type / set_atomic_type: u8 = 480, 4;
        atomic_op / set_atomic_op: u8 = 484, 4;
        cswap_op / set_cswap_op: u8 = 488, 3;
        rendezvous_id / set_rendezvous_id: u8 = 496, 8;
        return_code / set_return_code: u8 = 504, 6;
    }
}

record! {
    /// COMMAND_FAILURE event.
    ///
    /// Source: nic.md 6.2.
    EventCmdFail = "c_event_cmd_fail", 16 bytes {
        cq_id / set_cq_id: u16 = 0, 10;
        is_target / set_is_target: bool = 10, 1;
        fail_loc / set_fail_loc: u16 = 16, 16;
        cmd_type / set_cmd_type: u8 = 32, 2;
        cmd_size / set_cmd_size: u8 = 34, 2;
        opcode / set_opcode: u8 = 36, 4;
        event_size / set_event_size: u8 = 112, 2;
        event_type / set_event_type: u8 = 114, 5;
        return_code / set_return_code: u8 = 120, 6;
    }
}

record! {
    /// Match bits of a get that fetches what a rendezvous put left.
    ///
    /// Source: nic.md 10.2.
    RdzvMatchBits = "cxi_rdzv_match_bits", 8 bytes {
        rendezvous_id / set_rendezvous_id: u8 = 0, 8;
        transaction_type / set_transaction_type: u8 = 8, 4;
        match_bits / set_match_bits: u16 = 48, 16;
    }
}

record! {
    /// User pointer in the REPLY of such a get, if the NIC made it.
    ///
    /// Source: nic.md 10.3.
    RdzvUserPtr = "cxi_rdzv_user_ptr", 8 bytes {
        src_nid / set_src_nid: u32 = 0, 20;
        src_pid / set_src_pid: u16 = 20, 9;
        ptlte_index / set_ptlte_index: u16 = 29, 11;
        rendezvous_id / set_rendezvous_id: u8 = 40, 8;
        buffer_id / set_buffer_id: u16 = 48, 16;
    }
}
