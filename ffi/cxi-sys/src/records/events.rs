//! Events, which the NIC writes and software reads; status words and registers; 64-bit fields with
//! parts.

use super::*;

/// An event: size code and type, at the same place in all of them, and the fields listed.
macro_rules! event {
    ($(#[$doc:meta])* $name:ident = $c_name:literal, $words:tt { $($fields:tt)* }) => {
        record! {
            $(#[$doc])*
            $name = $c_name, $words {
                event_size / set_event_size: u8 = 14:0+2;
                event_type / set_event_type: u8 = 14:2+5;
                $($fields)*
            }
        }
    };
}

event! {
    /// Initiator event, 16 bytes: ACK, REPLY, SEND (nic.md 6.2).
    EventInitiatorShort = "c_event_initiator_short", [u64; 2] {
        user_ptr / set_user_ptr: u64 = 0:0+64;
        mlength / set_mlength: u32 = 8:0+32;
        ptl_list / set_ptl_list: u8 = 12:0+2;
        rendezvous / set_rendezvous: bool = 12:4+1;
        retry / set_retry: bool = 12:5+1;
        tgt_error / set_tgt_error: bool = 12:6+1;
        return_code / set_return_code: u8 = 15:0+6;
    }
}

event! {
    /// Initiator event, 32 bytes, with a timestamp (nic.md 6.2).
    EventInitiatorLong = "c_event_initiator_long", [u64; 4] {
        user_ptr / set_user_ptr: u64 = 0:0+64;
        mlength / set_mlength: u32 = 8:0+32;
        ptl_list / set_ptl_list: u8 = 12:0+2;
        rendezvous / set_rendezvous: bool = 12:4+1;
        retry / set_retry: bool = 12:5+1;
        tgt_error / set_tgt_error: bool = 12:6+1;
        timestamp_ns / set_timestamp_ns: u32 = 16:0+30;
        timestamp_sec / set_timestamp_sec: u64 = 24:0+48;
        return_code / set_return_code: u8 = 31:0+6;
    }
}

event! {
    /// Target event, 32 bytes (nic.md 6.2).
    EventTargetShort = "c_event_target_short", [u64; 4] {
        header_data / set_header_data: u64 = 0:0+64;
        initiator / set_initiator: u32 = 8:0+32;
        ptlte_index / set_ptlte_index: u16 = 12:0+11;
        ptl_list / set_ptl_list: u8 = 15:0+2;
        auto_unlinked / set_auto_unlinked: bool = 15:4+1;
        match_bits / set_match_bits: u64 = 16:0+64;
        buffer_id / set_buffer_id: u16 = 24:0+16;
        vni / set_vni: u16 = 26:0+16;
        length / set_length: u32 = 28:0+20;
        return_code / set_return_code: u8 = 31:0+6;
    }
}

event! {
    /// Target event, 64 bytes; also the form of LINK, UNLINK and STATE_CHANGE (nic.md 6.2).
    EventTargetLong = "c_event_target_long", [u64; 8] {
        header_data / set_header_data: u64 = 0:0+64;
        initiator / set_initiator: u32 = 8:0+32;
        ptlte_state / set_ptlte_state: u8 = 8:0+3;
        sc_reason / set_sc_reason: u8 = 9:0+4;
        sc_nic_auto / set_sc_nic_auto: bool = 10:0+1;
        ptlte_index / set_ptlte_index: u16 = 12:0+11;
        ptl_list / set_ptl_list: u8 = 15:0+2;
        rendezvous / set_rendezvous: bool = 15:2+1;
        get_issued / set_get_issued: bool = 15:3+1;
        auto_unlinked / set_auto_unlinked: bool = 15:4+1;
        match_bits / set_match_bits: u64 = 16:0+64;
        buffer_id / set_buffer_id: u16 = 24:0+16;
        vni / set_vni: u16 = 26:0+16;
        timestamp_ns / set_timestamp_ns: u32 = 28:0+30;
        timestamp_sec_low / set_timestamp_sec_low: u8 = 31:6+2;
        mlength / set_mlength: u32 = 32:0+32;
        rlength / set_rlength: u32 = 36:0+32;
        remote_offset / set_remote_offset: u64 = 40:0+56;
        start / set_start: u64 = 48:0+57;
        lpe_stat_1 / set_lpe_stat_1: u16 = 56:0+16;
        lpe_stat_2 / set_lpe_stat_2: u16 = 58:0+16;
        atomic_type / set_atomic_type: u8 = 60:0+4;
        atomic_op / set_atomic_op: u8 = 60:4+4;
        cswap_op / set_cswap_op: u8 = 61:0+3;
        rendezvous_id / set_rendezvous_id: u8 = 62:0+8;
        return_code / set_return_code: u8 = 63:0+6;
    }
}

event! {
    /// TRIGGERED_OP event, 16 bytes (nic.md 6.2).
    EventTrigOpShort = "c_event_trig_op_short", [u64; 2] {
        threshold / set_threshold: u64 = 0:0+48;
        ct_handle / set_ct_handle: u16 = 8:0+11;
        return_code / set_return_code: u8 = 15:0+6;
    }
}

event! {
    /// TRIGGERED_OP event, 32 bytes, with a timestamp (nic.md 6.2).
    EventTrigOpLong = "c_event_trig_op_long", [u64; 4] {
        threshold / set_threshold: u64 = 0:0+48;
        ct_handle / set_ct_handle: u16 = 8:0+11;
        timestamp_ns / set_timestamp_ns: u32 = 16:0+30;
        timestamp_sec / set_timestamp_sec: u64 = 24:0+48;
        return_code / set_return_code: u8 = 31:0+6;
    }
}

event! {
    /// COMMAND_FAILURE event, 16 bytes (nic.md 6.2).
    EventCmdFail = "c_event_cmd_fail", [u64; 2] {
        cq_id / set_cq_id: u16 = 0:0+10;
        is_target / set_is_target: bool = 1:2+1;
        fail_loc / set_fail_loc: u16 = 2:0+16;
        cmd_type / set_cmd_type: u8 = 4:0+2;
        cmd_size / set_cmd_size: u8 = 4:2+2;
        opcode / set_opcode: u8 = 4:4+4;
        return_code / set_return_code: u8 = 15:0+6;
    }
}

record! {
    /// Status word that the NIC writes at the start of a command queue (nic.md 2.2).
    CqStatus = "c_cq_status", [u64; 1] {
        rd_ptr / set_rd_ptr: u16 = 0:0+16;
        num_write_cmds_rejected / set_num_write_cmds_rejected: u16 = 2:0+16;
        fail_command / set_fail_command: u8 = 4:0+8;
        return_code / set_return_code: u8 = 6:0+6;
        fail_loc_32 / set_fail_loc_32: bool = 7:5+1;
        fail_ll / set_fail_ll: bool = 7:6+1;
        ll_disabled / set_ll_disabled: bool = 7:7+1;
    }
}

record! {
    /// Status slot that the NIC writes at the start of an event queue (nic.md 5.5).
    EqStatus = "c_eq_status", [u64; 8] {
        timestamp_ns_cpy / set_timestamp_ns_cpy: u32 = 0:0+30;
        timestamp_sec_cpy / set_timestamp_sec_cpy: u64 = 8:0+48;
        thld_sts / set_thld_sts: bool = 14:0+1;
        thld_id / set_thld_id: u8 = 14:4+2;
        unackd_dropped_event / set_unackd_dropped_event: bool = 15:0+1;
        event_drop_seq_no / set_event_drop_seq_no: bool = 15:4+1;
        event_slots_free / set_event_slots_free: u32 = 16:0+26;
        event_slots_rsrvd / set_event_slots_rsrvd: u32 = 20:0+26;
        wr_ptr / set_wr_ptr: u32 = 24:0+26;
        using_buffer_b / set_using_buffer_b: bool = 28:0+1;
        timestamp_ns / set_timestamp_ns: u32 = 52:0+30;
        timestamp_sec / set_timestamp_sec: u64 = 56:0+48;
    }
}

record! {
    /// Software-state register of an event queue (nic.md 5.4).
    EqSwState = "c_ee_cfg_eq_sw_state", [u64; 1] {
        rd_ptr / set_rd_ptr: u32 = 0:0+26;
        reading_buffer_b / set_reading_buffer_b: bool = 3:7+1;
        event_int_disable / set_event_int_disable: bool = 4:0+1;
        eq_sts_int_disable / set_eq_sts_int_disable: bool = 4:1+1;
        event_drop_seq_no / set_event_drop_seq_no: bool = 5:0+1;
    }
}

record! {
    /// Write-back word, in which the NIC stores the counts of a counter (nic.md 9.1).
    CtWriteback = "c_ct_writeback", [u64; 1] {
        ct_success / set_ct_success: u64 = 0:0+48;
        ct_failure / set_ct_failure: u8 = 6:0+7;
        ct_writeback / set_ct_writeback: bool = 7:7+1;
    }
}

record! {
    /// Match bits of the get that fetches the rest of a rendezvous put (nic.md 10.2).
    RdzvMatchBits = "cxi_rdzv_match_bits", [u64; 1] {
        rendezvous_id / set_rendezvous_id: u8 = 0:0+8;
        transaction_type / set_transaction_type: u8 = 1:0+4;
        match_bits / set_match_bits: u16 = 6:0+16;
    }
}

record! {
    /// User pointer in the REPLY of a rendezvous get that the NIC issued (nic.md 10.3).
    RdzvUserPtr = "cxi_rdzv_user_ptr", [u64; 1] {
        src_nid / set_src_nid: u32 = 0:0+20;
        src_pid / set_src_pid: u16 = 2:4+9;
        ptlte_index / set_ptlte_index: u16 = 3:5+11;
        rendezvous_id / set_rendezvous_id: u8 = 5:0+8;
        buffer_id / set_buffer_id: u16 = 6:0+16;
    }
}
