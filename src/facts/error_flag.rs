//! Error flags of a NIC that programs can set by mistakes (health.md 2.5.1).

/// A flag of a block's error register. Cassini 1 and 2 have it at the same bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorFlag {
    /// Directory of the block below `err_flgs_irqa`.
    pub block: &'static str,
    /// Bit of the register.
    pub bit: u32,
    pub name: &'static str,
}

impl ErrorFlag {
    /// A restricted put to a locally managed entry.
    pub const RESTRICTED_UNICAST: Self = flag("lpe", 15, "restricted_unicast");
    /// An access beyond a list entry.
    pub const NO_SPACE: Self = flag("lpe", 16, "no_space");
    /// A restricted operation to a matching portal.
    pub const INVALID_ENDPOINT: Self = flag("lpe", 17, "invalid_endpoint");
    /// An operation that its list entry does not permit.
    pub const OP_VIOLATION: Self = flag("lpe", 19, "op_violation");
    /// An atomic operation that the PCIe device in its way does not execute.
    pub const PCIE_UNSUCCESSFUL_COMPLETION: Self = flag("ixe", 35, "pcie_unsuccess_cmpl");
    /// A misaligned target of an atomic operation.
    pub const AMO_ALIGN: Self = flag("ixe", 50, "amo_align_err");
    /// An atomic operation that its type does not have.
    pub const AMO_OP: Self = flag("ixe", 51, "amo_op_err");
    /// An atomic operation on an invalid floating-point number.
    pub const AMO_FP_INVALID: Self = flag("ixe", 55, "amo_fp_invalid");
    /// An atomic operation of another length than its type.
    pub const AMO_LENGTH: Self = flag("ixe", 57, "amo_length_err");
    /// An event without room although room was reserved.
    pub const EQ_OVERFLOW_RESERVATION: Self = flag("ee", 32, "eq_ovflw_rsrvn");
    /// A completion without room in its event queue.
    pub const EQ_OVERFLOW: Self = flag("ee", 34, "eq_ovflw_ordinary");
    /// An access that the mapping of the memory does not permit.
    pub const PAGE_PERMISSION: Self = flag("atu", 33, "page_perm_err");

    /// The name with its block: `lpe.no_space`.
    pub fn full_name(self) -> String {
        format!("{}.{}", self.block, self.name)
    }

    /// The name of a flag that a program can set, by its block and bit.
    pub fn name_of(block: &str, bit: u32) -> Option<&'static str> {
        let mut known = KNOWN.iter();
        let found = known.find(|flag| flag.block == block && flag.bit == bit);
        found.map(|flag| flag.name)
    }
}

/// Flags that programs can set and that the driver does not mask from the start.
const KNOWN: &[ErrorFlag] = &[
    flag("rmu", 48, "ptl_invld_dfa"),
    flag("rmu", 49, "ptl_invld_vni"),
    flag("lpe", 10, "le_oversubscribed"),
    flag("lpe", 12, "illegal_op"),
    flag("lpe", 14, "delayed"),
    ErrorFlag::RESTRICTED_UNICAST,
    ErrorFlag::NO_SPACE,
    ErrorFlag::INVALID_ENDPOINT,
    ErrorFlag::OP_VIOLATION,
    flag("lpe", 20, "eq_disabled"),
    flag("lpe", 23, "pt_disabled_rst"),
    flag("lpe", 24, "illegal_cq_op"),
    ErrorFlag::PCIE_UNSUCCESSFUL_COMPLETION,
    ErrorFlag::AMO_ALIGN,
    ErrorFlag::AMO_OP,
    flag("ixe", 52, "amo_fp_inexact"),
    flag("ixe", 53, "amo_fp_overflow"),
    flag("ixe", 54, "amo_fp_underflow"),
    ErrorFlag::AMO_FP_INVALID,
    ErrorFlag::AMO_LENGTH,
    flag("cq", 33, "tle_oversubscribed"),
    flag("cq", 38, "rarb_invld_wr_sw_err"),
    flag("cq", 39, "rarb_tou_wr_sw_err"),
    flag("cq", 40, "rarb_ll_wr_sw_err"),
    flag("cq", 43, "wr_ptr_updt_err"),
    ErrorFlag::EQ_OVERFLOW_RESERVATION,
    flag("ee", 33, "eq_ovflw_fc_sc"),
    ErrorFlag::EQ_OVERFLOW,
    flag("ee", 36, "eq_dsabld_sw_state_wr"),
    flag("ee", 37, "eq_dsabld_lpe_query"),
    ErrorFlag::PAGE_PERMISSION,
    flag("atu", 41, "nta_pte_align_err"),
    flag("atu", 43, "addr_out_of_range"),
];

const fn flag(block: &'static str, bit: u32, name: &'static str) -> ErrorFlag {
    ErrorFlag { block, bit, name }
}
