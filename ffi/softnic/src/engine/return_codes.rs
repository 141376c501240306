//! Return codes, their names (nic.md 7), and the error flags of the NIC that programs can set
//! (health.md 2.5.1).

use cxi_sys::*;

/// A return code, `C_RC_*`.
pub type ReturnCode = c_return_code;

macro_rules! failures {
    ($($code:ident)*) => {
        [$((stringify!($code), $code)),*]
    };
}

/// All return codes of failures.
const FAILURES: [(&str, ReturnCode); 54] = failures! {
    C_RC_UNDELIVERABLE C_RC_PT_DISABLED C_RC_DROPPED C_RC_PERM_VIOLATION C_RC_OP_VIOLATION
    C_RC_NO_MATCH C_RC_UNCOR C_RC_UNCOR_TRNSNT C_RC_NO_SPACE C_RC_ENTRY_NOT_FOUND
    C_RC_NO_TARGET_CONN C_RC_NO_TARGET_MST C_RC_NO_TARGET_TRS C_RC_SEQUENCE_ERROR
    C_RC_NO_MATCHING_CONN C_RC_INVALID_DFA_FORMAT C_RC_VNI_NOT_FOUND C_RC_PTLTE_NOT_FOUND
    C_RC_PTLTE_SW_MANAGED C_RC_SRC_ERROR C_RC_MST_CANCELLED C_RC_HRP_CONFIG_ERROR C_RC_HRP_RSP_ERROR
    C_RC_HRP_RSP_DISCARD C_RC_INVALID_AC C_RC_PAGE_PERM_ERROR C_RC_ATS_ERROR C_RC_NO_TRANSLATION
    C_RC_PAGE_REQ_ERROR C_RC_PCIE_ERROR_POISONED C_RC_PCIE_UNSUCCESS_CMPL C_RC_AMO_INVAL_OP_ERROR
    C_RC_AMO_ALIGN_ERROR C_RC_AMO_FP_INVALID C_RC_AMO_FP_UNDERFLOW C_RC_AMO_FP_OVERFLOW
    C_RC_AMO_FP_INEXACT C_RC_ILLEGAL_OP C_RC_INVALID_ENDPOINT C_RC_RESTRICTED_UNICAST
    C_RC_CMD_ALIGN_ERROR C_RC_CMD_INVALID_ARG C_RC_INVALID_EVENT C_RC_ADDR_OUT_OF_RANGE
    C_RC_CONN_CLOSED C_RC_CANCELED C_RC_NO_MATCHING_TRS C_RC_NO_MATCHING_MST C_RC_DELAYED
    C_RC_AMO_LENGTH_ERROR C_RC_PKTBUF_ERROR C_RC_RESOURCE_BUSY C_RC_FLUSH_TRANSLATION
    C_RC_TRS_PEND_RSP
};

/// The return code of a failure, given its name without `C_RC_`.
pub fn failure_code(name: &str) -> Option<ReturnCode> {
    let (_, code) = FAILURES.iter().find(|(full, _)| full.strip_prefix("C_RC_") == Some(name))?;
    Some(*code)
}

/// A block of the NIC with a register of error flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicBlock {
    /// Address translation.
    Atu,
    /// Events.
    Ee,
    /// Execution at the target.
    Ixe,
    /// Lists.
    Lpe,
    /// Received packets.
    Rmu,
}

impl NicBlock {
    /// All blocks, each at the place of its number.
    pub const ALL: [Self; 5] = [Self::Atu, Self::Ee, Self::Ixe, Self::Lpe, Self::Rmu];

    /// The name of its directory.
    pub fn name(self) -> &'static str {
        match self {
            Self::Atu => "atu",
            Self::Ee => "ee",
            Self::Ixe => "ixe",
            Self::Lpe => "lpe",
            Self::Rmu => "rmu",
        }
    }

    /// The flags that the driver masks from the start.
    pub fn initial_mask(self) -> u64 {
        match self {
            Self::Atu => 1 << 38 | 1 << 39,
            Self::Ee => 1 << 35,
            Self::Ixe => 0,
            Self::Lpe => 1 << 13 | 1 << 18 | 1 << 21 | 1 << 22,
            Self::Rmu => 1 << 50 | 1 << 51,
        }
    }
}

/// A flag of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorFlag {
    pub block: NicBlock,
    pub bit: u32,
}

impl ErrorFlag {
    /// An event without room in its queue: of flow control, or any other.
    pub fn dropped_event(kind: u32) -> Self {
        let bit = if kind == C_EVENT_STATE_CHANGE { 33 } else { 34 };
        Self { block: NicBlock::Ee, bit }
    }

    /// The flag that an operation with this return code sets where it fails. The pairs follow from
    /// names.
    pub fn from_failure(code: ReturnCode) -> Option<Self> {
        let (block, bit) = match code {
            C_RC_RESTRICTED_UNICAST => (NicBlock::Lpe, 15),
            C_RC_NO_SPACE => (NicBlock::Lpe, 16),
            C_RC_INVALID_ENDPOINT => (NicBlock::Lpe, 17),
            C_RC_ENTRY_NOT_FOUND => (NicBlock::Lpe, 18),
            C_RC_OP_VIOLATION => (NicBlock::Lpe, 19),
            C_RC_PT_DISABLED => (NicBlock::Lpe, 22),
            C_RC_PTLTE_NOT_FOUND => (NicBlock::Rmu, 50),
            C_RC_AMO_ALIGN_ERROR => (NicBlock::Ixe, 50),
            C_RC_AMO_INVAL_OP_ERROR => (NicBlock::Ixe, 51),
            C_RC_AMO_LENGTH_ERROR => (NicBlock::Ixe, 57),
            C_RC_PAGE_PERM_ERROR => (NicBlock::Atu, 33),
            C_RC_NO_TRANSLATION => (NicBlock::Atu, 38),
            C_RC_INVALID_AC => (NicBlock::Atu, 39),
            _ => return None,
        };
        Some(Self { block, bit })
    }
}

/// The error flags, as event queues set them.
pub trait Raise: Send + Sync {
    /// Sets a flag, which interrupts the driver.
    fn raise(&self, flag: ErrorFlag);
}
