//! Status words and registers, and 64-bit command fields with parts.

use super::*;

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
