//! Commands, which software writes and the NIC reads.

use super::*;

/// A command: the header byte (nic.md 3.1) and the fields listed.
macro_rules! command {
    ($(#[$doc:meta])* $name:ident = $c_name:literal, $words:tt { $($fields:tt)* }) => {
        record! {
            $(#[$doc])*
            $name = $c_name, $words {
                cmd_type / set_cmd_type: u8 = 0:0+2;
                cmd_size / set_cmd_size: u8 = 0:2+2;
                opcode / set_opcode: u8 = 0:4+4;
                $($fields)*
            }
        }
    };
}

/// A command with the common option bits (nic.md 3.3).
macro_rules! command_with_options {
    ($(#[$doc:meta])* $name:ident = $c_name:literal, $words:tt { $($fields:tt)* }) => {
        command! {
            $(#[$doc])*
            $name = $c_name, $words {
                event_send_disable / set_event_send_disable: bool = 2:3+1;
                event_success_disable / set_event_success_disable: bool = 2:4+1;
                event_ct_send / set_event_ct_send: bool = 2:5+1;
                event_ct_reply / set_event_ct_reply: bool = 2:6+1;
                event_ct_ack / set_event_ct_ack: bool = 2:7+1;
                event_ct_bytes / set_event_ct_bytes: bool = 3:0+1;
                get_with_local_flag / set_get_with_local_flag: bool = 3:1+1;
                restricted / set_restricted: bool = 3:2+1;
                reduction / set_reduction: bool = 3:3+1;
                flush / set_flush: bool = 3:4+1;
                use_offset_for_get / set_use_offset_for_get: bool = 3:5+1;
                $($fields)*
            }
        }
    };
}

record! {
    /// First byte of every command (nic.md 3.1).
    CmdHeader = "c_cmd", [u8; 1] {
        cmd_type / set_cmd_type: u8 = 0:0+2;
        cmd_size / set_cmd_size: u8 = 0:2+2;
        opcode / set_opcode: u8 = 0:4+4;
    }
}

record! {
    /// Unicast destination fabric address, DFA (nic.md 4.1).
    FaUnicast = "c_fa_unicast", [u32; 1] {
        endpoint_defined / set_endpoint_defined: u16 = 0:0+12;
        nid / set_nid: u32 = 1:4+20;
    }
}

command_with_options! {
    /// C_STATE: the context that later immediate data commands of the queue use (nic.md 3.4).
    CStateCmd = "c_cstate_cmd", [u64; 4] {
        length / set_length: u8 = 1:0+8;
        write_lac / set_write_lac: u8 = 2:0+3;
        initiator / set_initiator: u32 = 4:0+32;
        index_ext / set_index_ext: u8 = 8:0+5;
        user_ptr / set_user_ptr: u64 = 16:0+64;
        ct / set_ct: u16 = 28:0+11;
        eq / set_eq: u16 = 30:0+11;
    }
}

command! {
    /// Header of an immediate data PUT; the payload follows it (nic.md 3.5).
    IdcHdr = "c_idc_hdr", [u64; 2] {
        length / set_length: u8 = 1:0+8;
        dfa / set_dfa: u32 = 4:0+32;
        remote_offset / set_remote_offset: u64 = 8:0+56;
    }
}

command! {
    /// Header of a small message; the payload follows it (nic.md 3.6).
    IdcMsgHdr = "c_idc_msg_hdr", [u64; 4] {
        length / set_length: u8 = 1:0+8;
        dfa / set_dfa: u32 = 4:0+32;
        match_bits / set_match_bits: u64 = 8:0+64;
        header_data / set_header_data: u64 = 16:0+64;
        user_ptr / set_user_ptr: u64 = 24:0+64;
    }
}

command! {
    /// Immediate atomic operation, large form, with the fields of its [`IdcHdr`] (nic.md 3.7).
    IdcAmoCmd = "c_idc_amo_cmd", [u64; 8] {
        length / set_length: u8 = 1:0+8;
        dfa / set_dfa: u32 = 4:0+32;
        remote_offset / set_remote_offset: u64 = 8:0+56;
        local_addr / set_local_addr: u64 = 16:0+57;
        atomic_op / set_atomic_op: u8 = 24:0+4;
        atomic_type / set_atomic_type: u8 = 25:0+4;
        cswap_op / set_cswap_op: u8 = 26:0+3;
        op1_word1 / set_op1_word1: u64 = 32:0+64;
        op1_word2 / set_op1_word2: u64 = 40:0+64;
        op2_word1 / set_op2_word1: u64 = 48:0+64;
        op2_word2 / set_op2_word2: u64 = 56:0+64;
    }
}

record! {
    /// Payload of an immediate atomic operation, small form; it follows an [`IdcHdr`] (nic.md 3.7).
    SmallAmoPayload = "c_small_amo_payload", [u64; 2] {
        amo_op / set_amo_op: u8 = 0:0+4;
        amo_type / set_amo_type: u8 = 1:0+4;
        op1_word1 / set_op1_word1: u64 = 8:0+64;
    }
}

command_with_options! {
    /// Non-matching DMA command (nic.md 3.8).
    NomatchDmaCmd = "c_nomatch_dma_cmd", [u64; 4] {
        index_ext / set_index_ext: u8 = 1:0+5;
        lac / set_lac: u8 = 2:0+3;
        dfa / set_dfa: u32 = 4:0+32;
        remote_offset / set_remote_offset: u64 = 8:0+56;
        local_addr / set_local_addr: u64 = 16:0+57;
        request_len / set_request_len: u32 = 24:0+32;
        ct / set_ct: u16 = 28:0+11;
        eq / set_eq: u16 = 30:0+11;
    }
}

command_with_options! {
    /// Full DMA command (nic.md 3.9).
    FullDmaCmd = "c_full_dma_cmd", [u64; 8] {
        index_ext / set_index_ext: u8 = 1:0+5;
        lac / set_lac: u8 = 2:0+3;
        dfa / set_dfa: u32 = 4:0+32;
        remote_offset / set_remote_offset: u64 = 8:0+56;
        local_addr / set_local_addr: u64 = 16:0+57;
        request_len / set_request_len: u32 = 24:0+32;
        ct / set_ct: u16 = 28:0+11;
        eq / set_eq: u16 = 30:0+11;
        eager_length / set_eager_length: u32 = 32:0+20;
        rendezvous_id / set_rendezvous_id: u8 = 35:0+8;
        initiator / set_initiator: u32 = 36:0+32;
        match_bits / set_match_bits: u64 = 40:0+64;
        header_data / set_header_data: u64 = 48:0+64;
        user_ptr / set_user_ptr: u64 = 56:0+64;
    }
}

command_with_options! {
    /// DMA atomic operation: the first 96 bytes of a 128-byte command (nic.md 3.10).
    DmaAmoCmd = "c_dma_amo_cmd", [u64; 12] {
        index_ext / set_index_ext: u8 = 1:0+5;
        lac / set_lac: u8 = 2:0+3;
        dfa / set_dfa: u32 = 4:0+32;
        remote_offset / set_remote_offset: u64 = 8:0+56;
        local_read_addr / set_local_read_addr: u64 = 16:0+57;
        request_len / set_request_len: u32 = 24:0+32;
        ct / set_ct: u16 = 28:0+11;
        eq / set_eq: u16 = 30:0+11;
        initiator / set_initiator: u32 = 36:0+32;
        match_bits / set_match_bits: u64 = 40:0+64;
        header_data / set_header_data: u64 = 48:0+64;
        user_ptr / set_user_ptr: u64 = 56:0+64;
        local_write_addr / set_local_write_addr: u64 = 64:0+57;
        atomic_op / set_atomic_op: u8 = 72:0+4;
        atomic_type / set_atomic_type: u8 = 73:0+4;
        cswap_op / set_cswap_op: u8 = 74:0+3;
        write_lac / set_write_lac: u8 = 76:0+3;
        op2_word1 / set_op2_word1: u64 = 80:0+64;
        op2_word2 / set_op2_word2: u64 = 88:0+64;
    }
}

command! {
    /// Command to the queue itself: NOOP, FENCE or LCID (nic.md 3.11).
    CqCmd = "c_cq_cmd", [u64; 8] {
        lcid / set_lcid: u8 = 4:0+4;
    }
}

command! {
    /// Counter command (nic.md 3.12). A queue slot of 64 bytes holds it; with a DMA command
    /// embedded from byte 24 on it takes 128 bytes. The setters of the counts begin with `put_`,
    /// because `set_ct_success` and `set_ct_failure` are fields.
    CtCmd = "c_ct_cmd", [u64; 3] {
        ct / set_ct: u16 = 2:0+11;
        trig_ct / set_trig_ct: u16 = 4:0+11;
        eq / set_eq: u16 = 6:0+11;
        ct_success / put_ct_success: u64 = 8:0+48;
        ct_failure / put_ct_failure: u8 = 14:0+7;
        set_ct_success / put_set_ct_success: bool = 15:6+1;
        set_ct_failure / put_set_ct_failure: bool = 15:7+1;
        threshold / set_threshold: u64 = 16:0+48;
    }
}

command! {
    /// Target command: APPEND, SEARCH, SEARCH_AND_DELETE or UNLINK (nic.md 3.13).
    TargetCmd = "c_target_cmd", [u64; 8] {
        ptl_list / set_ptl_list: u8 = 1:0+2;
        ptlte_index / set_ptlte_index: u16 = 2:0+11;
        event_ct_bytes / set_event_ct_bytes: bool = 4:0+1;
        event_ct_overflow / set_event_ct_overflow: bool = 4:1+1;
        event_ct_comm / set_event_ct_comm: bool = 4:2+1;
        event_unlink_disable / set_event_unlink_disable: bool = 4:3+1;
        event_success_disable / set_event_success_disable: bool = 4:4+1;
        event_comm_disable / set_event_comm_disable: bool = 4:5+1;
        event_link_disable / set_event_link_disable: bool = 4:6+1;
        unrestricted_end_ro / set_unrestricted_end_ro: bool = 4:7+1;
        unrestricted_body_ro / set_unrestricted_body_ro: bool = 5:0+1;
        unexpected_hdr_disable / set_unexpected_hdr_disable: bool = 5:1+1;
        use_once / set_use_once: bool = 5:2+1;
        no_truncate / set_no_truncate: bool = 5:3+1;
        manage_local / set_manage_local: bool = 5:4+1;
        op_get / set_op_get: bool = 5:5+1;
        op_put / set_op_put: bool = 5:6+1;
        ct / set_ct: u16 = 6:0+11;
        buffer_id / set_buffer_id: u16 = 8:0+16;
        lac / set_lac: u8 = 10:0+3;
        restart_seq / set_restart_seq: bool = 11:0+1;
        start / set_start: u64 = 16:0+57;
        length / set_length: u64 = 24:0+56;
        min_free / set_min_free: u32 = 32:0+24;
        match_id / set_match_id: u32 = 36:0+32;
        match_bits / set_match_bits: u64 = 40:0+64;
        ignore_bits / set_ignore_bits: u64 = 48:0+64;
    }
}

command! {
    /// Target command that sets the state of a portals table entry (nic.md 3.13).
    SetStateCmd = "c_set_state_cmd", [u64; 8] {
        ptlte_state / set_ptlte_state: u8 = 1:0+3;
        ptlte_index / set_ptlte_index: u16 = 2:0+11;
        current_addr / set_current_addr: u64 = 8:0+57;
        drop_count / set_drop_count: u32 = 16:0+24;
    }
}
