//! Default run options that several tools share.

use crate::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};
use crate::extensions::Extensions;
use crate::run_options::{ListOptions, RunOptions, SyncPoint};

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
    use_hrp: false,
    use_ll: true,
    report_all: false,
    atomic: None,
    rdzv: false,
    huge_page: None,
    sync: SyncPoint::Size,
    lists: None,
    extensions: Extensions::NONE,
};

/// Defaults of the bandwidth tools.
pub const BANDWIDTH: RunOptions = RunOptions {
    iters: 1000,
    warmup: 0,
    gap_us: 0,
    min_size: 65536,
    max_size: 65536,
    use_ll: false,
    lists: Some(LISTS),
    ..LATENCY
};

/// Default of the atomic tools.
pub const SUM: Atomic = Atomic {
    op: AtomicOp::Sum,
    cswap: CswapOp::Eq,
    ty: AtomicType::Uint64,
    fetching: false,
    matching: false,
};

/// Lists of the bandwidth tools.
pub const LISTS: ListOptions = ListOptions {
    list_size: 256,
    bidirectional: false,
    max_buffer: 1 << 32,
    alignment: 64,
};
