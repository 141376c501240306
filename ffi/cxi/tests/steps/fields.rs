//! Values for the fields of commands, by their names in nic.md 3.

/// The members of `struct fields` in commands.h.
pub const NAMES: [&str; 69] = [
    "opcode",
    "length",
    "index_ext",
    "lac",
    "write_lac",
    "event_send_disable",
    "event_success_disable",
    "event_ct_send",
    "event_ct_reply",
    "event_ct_ack",
    "event_ct_bytes",
    "get_with_local_flag",
    "restricted",
    "reduction",
    "flush",
    "use_offset_for_get",
    "dfa",
    "remote_offset",
    "local_addr",
    "local_read_addr",
    "local_write_addr",
    "request_len",
    "ct",
    "eq",
    "eager_length",
    "rendezvous_id",
    "initiator",
    "match_bits",
    "header_data",
    "user_ptr",
    "atomic_op",
    "atomic_type",
    "cswap_op",
    "op1_word1",
    "op1_word2",
    "op2_word1",
    "op2_word2",
    "fetching",
    "lcid",
    "trig_ct",
    "ct_success",
    "ct_failure",
    "set_ct_success",
    "set_ct_failure",
    "threshold",
    "ptl_list",
    "ptlte_index",
    "event_ct_overflow",
    "event_ct_comm",
    "event_unlink_disable",
    "event_comm_disable",
    "event_link_disable",
    "unrestricted_end_ro",
    "unrestricted_body_ro",
    "unexpected_hdr_disable",
    "use_once",
    "no_truncate",
    "manage_local",
    "op_get",
    "op_put",
    "buffer_id",
    "restart_seq",
    "start",
    "min_free",
    "match_id",
    "ignore_bits",
    "ptlte_state",
    "current_addr",
    "drop_count",
];

/// A value of 64 bits for each field, as random as a seed; a command takes the low bits that fit.
pub struct Fields {
    seed: u64,
    fixed: Vec<(&'static str, u64)>,
}

impl Fields {
    pub fn new(seed: u64) -> Self {
        let fixed = Vec::new();
        Self { seed, fixed }
    }

    /// Sets the value of the field `name`.
    pub fn fix(mut self, name: &'static str, value: u64) -> Self {
        self.fixed.push((name, value));
        self
    }

    /// Returns the value of the field `name`.
    pub fn get(&self, name: &str) -> u64 {
        let fixed = self.fixed.iter().rfind(|(fixed, _)| *fixed == name);
        fixed.map_or_else(|| mixed(self.seed, name), |&(_, value)| value)
    }
}

/// Returns 64 bits from a seed and a name (FNV-1a, and the last step of SplitMix64).
fn mixed(seed: u64, name: &str) -> u64 {
    let hash = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}
