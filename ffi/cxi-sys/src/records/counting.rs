//! Records of counting events: commands, the write-back word, events (nic.md 3.12, 6.2, 9).

use super::{Bits, Field, get_bits, set_bits};

record! {
    /// Counter command. It takes 64 bytes in a queue, or 128 where a DMA command is embedded
    /// from byte 24 on. Its fields `set_ct_*` are flags, so the setters of the counts have
    /// other names here.
    ///
    /// Source: nic.md 3.12.
    CtCmd = "c_ct_cmd", 24 bytes {
        cmd_type / set_cmd_type: u8 = 0, 2;
        cmd_size / set_cmd_size: u8 = 2, 2;
        opcode / set_opcode: u8 = 4, 4;
        ct / set_ct: u16 = 16, 11;
        trig_ct / set_trig_ct: u16 = 32, 11;
        eq / set_eq: u16 = 48, 11;
        ct_success / put_ct_success: u64 = 64, 48;
        ct_failure / put_ct_failure: u8 = 112, 7;
        set_ct_success / put_set_ct_success: bool = 126, 1;
        set_ct_failure / put_set_ct_failure: bool = 127, 1;
        threshold / set_threshold: u64 = 128, 48;
    }
}

record! {
    /// Word in which the NIC tells the counts of a counter.
    ///
    /// Source: nic.md 9.1.
    CtWriteback = "c_ct_writeback", 8 bytes {
        ct_success / set_ct_success: u64 = 0, 48;
        ct_failure / set_ct_failure: u8 = 48, 7;
        ct_writeback / set_ct_writeback: bool = 63, 1;
    }
}

record! {
    /// TRIGGERED_OP event, 16 bytes.
    ///
    /// Source: nic.md 6.2.
    EventTrigOpShort = "c_event_trig_op_short", 16 bytes {
        threshold / set_threshold: u64 = 0, 48;
        ct_handle / set_ct_handle: u16 = 64, 11;
        event_size / set_event_size: u8 = 112, 2;
        event_type / set_event_type: u8 = 114, 5;
        return_code / set_return_code: u8 = 120, 6;
    }
}

record! {
    /// TRIGGERED_OP event, 32 bytes, with a timestamp.
    ///
    /// Source: nic.md 6.2.
    EventTrigOpLong = "c_event_trig_op_long", 32 bytes {
        threshold / set_threshold: u64 = 0, 48;
        ct_handle / set_ct_handle: u16 = 64, 11;
        event_size / set_event_size: u8 = 112, 2;
        event_type / set_event_type: u8 = 114, 5;
        timestamp_ns / set_timestamp_ns: u32 = 128, 30;
        timestamp_sec / set_timestamp_sec: u64 = 192, 48;
        return_code / set_return_code: u8 = 248, 6;
    }
}
