//! Default run options that several tools share.

use crate::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};
use crate::run_options::{ListOptions, RunOptions};

/// Defaults of the latency tools.
pub const LATENCY: RunOptions = RunOptions {
    iters: 100,
    duration_s: None,
    warmup: 10,
    gap_us: 1000,
    min_size: 8,
    max_size: 8,
    unrestricted: false,
    use_idc: true,
    use_ll: true,
    report_all: false,
    atomic: None,
    rdzv: false,
    huge_page: None,
    lists: None,
};

/// Default of the atomic tools.
pub const SUM: Atomic = Atomic {
    op: AtomicOp::Sum,
    cswap: CswapOp::Eq,
    ty: AtomicType::Uint64,
    fetching: false,
    matching: false,
};

/// Defaults of the bandwidth tools.
pub const LISTS: ListOptions = ListOptions {
    list_size: 256,
    bidirectional: false,
    max_buffer: 1 << 32,
    alignment: 64,
};
