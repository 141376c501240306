//! THE registry of the tools: one `mod` line and one entry for each. Dispatch, help and
//! control connection derive from it.

pub mod api;
pub(crate) mod atomic_lat;
pub mod common;
pub(crate) mod read_lat;
pub(crate) mod send_bw;
pub(crate) mod send_lat;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod write_lat;

use crate::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};
use crate::cli::options;
use crate::plan::{Bandwidth, RunOptions};
use crate::run::{bandwidth_run, one_sided_latency, two_sided_latency};
use crate::tool::Tool;

/// All tools, in the order of listings.
pub static TOOLS: &[Tool] = &[
    Tool {
        name: "write-lat",
        legacy_name: "cxi_write_lat",
        wire_version: "2.4.0",
        title: "CXI RDMA Write Latency Test",
        about: "One-sided RDMA write latency",
        operation: "Write",
        operations: "Writes",
        size_column: "RDMA Size[B]",
        options: &[
            &options::DEVICE,
            &options::SVC_ID,
            &options::PORT,
            &options::ITERS,
            &options::DURATION,
            &options::WARMUP,
            &options::LATENCY_GAP,
            &options::SIZE,
            &options::UNRESTRICTED,
            &options::NO_IDC,
            &options::NO_LL,
            &options::REPORT_ALL,
            &options::LOOPBACK,
            &options::BIND,
            &options::PERSIST,
            &options::WAIT,
            &options::CONNECT_TIMEOUT,
            &options::LIBCXI,
        ],
        defaults: LATENCY,
        run: one_sided_latency::<write_lat::WriteLat>,
    },
    Tool {
        name: "read-lat",
        legacy_name: "cxi_read_lat",
        wire_version: "2.4.0",
        title: "CXI RDMA Read Latency Test",
        about: "One-sided RDMA read latency",
        operation: "Read",
        operations: "Reads",
        size_column: "RDMA Size[B]",
        options: &[
            &options::DEVICE,
            &options::SVC_ID,
            &options::PORT,
            &options::ITERS,
            &options::DURATION,
            &options::WARMUP,
            &options::LATENCY_GAP,
            &options::SIZE,
            &options::UNRESTRICTED,
            &options::NO_LL,
            &options::REPORT_ALL,
            &options::LOOPBACK,
            &options::BIND,
            &options::PERSIST,
            &options::WAIT,
            &options::CONNECT_TIMEOUT,
            &options::LIBCXI,
        ],
        defaults: RunOptions {
            use_idc: false,
            ..LATENCY
        },
        run: one_sided_latency::<read_lat::ReadLat>,
    },
    Tool {
        name: "atomic-lat",
        legacy_name: "cxi_atomic_lat",
        wire_version: "2.4.0",
        title: "CXI Atomic Memory Operation Latency Test",
        about: "Atomic memory operation (AMO) latency",
        operation: "AMO",
        operations: "Ops",
        size_column: "AMO Size[B]",
        options: &[
            &options::DEVICE,
            &options::SVC_ID,
            &options::PORT,
            &options::ITERS,
            &options::DURATION,
            &options::WARMUP,
            &options::LATENCY_GAP,
            &options::ATOMIC_OP,
            &options::CSWAP_OP,
            &options::ATOMIC_TYPE,
            &options::FETCHING,
            &options::MATCHING,
            &options::UNRESTRICTED,
            &options::NO_IDC,
            &options::NO_LL,
            &options::REPORT_ALL,
            &options::LOOPBACK,
            &options::BIND,
            &options::PERSIST,
            &options::WAIT,
            &options::CONNECT_TIMEOUT,
            &options::LIBCXI,
        ],
        defaults: RunOptions {
            atomic: Some(SUM),
            ..LATENCY
        },
        run: one_sided_latency::<atomic_lat::AtomicLat>,
    },
    Tool {
        name: "send-lat",
        legacy_name: "cxi_send_lat",
        wire_version: "2.3.0",
        title: "CXI RDMA Send Latency Test",
        about: "Two-sided RDMA message latency",
        operation: "Send",
        operations: "Sends",
        size_column: "     Bytes",
        options: &[
            &options::DEVICE,
            &options::SVC_ID,
            &options::PORT,
            &options::ITERS,
            &options::DURATION,
            &options::WARMUP,
            &options::LATENCY_GAP,
            &options::SIZE,
            &options::NO_IDC,
            &options::NO_LL,
            &options::RDZV,
            &options::REPORT_ALL,
            &options::LOOPBACK,
            &options::BIND,
            &options::PERSIST,
            &options::WAIT,
            &options::CONNECT_TIMEOUT,
            &options::LIBCXI,
        ],
        defaults: LATENCY,
        run: two_sided_latency::<send_lat::SendLat>,
    },
    Tool {
        name: "send-bw",
        legacy_name: "cxi_send_bw",
        wire_version: "2.4.0",
        title: "CXI RDMA Send Bandwidth Test",
        about: "Two-sided RDMA message bandwidth",
        operation: "Send",
        operations: "Sends",
        size_column: "Send Size[B]",
        options: &[
            &options::DEVICE,
            &options::SVC_ID,
            &options::PORT,
            &options::ITERS,
            &options::DURATION,
            &options::SIZE,
            &options::LIST_SIZE,
            &options::BIDIRECTIONAL,
            &options::NO_IDC,
            &options::RDZV,
            &options::BUF_SZ,
            &options::BUF_ALIGN,
            &options::LOOPBACK,
            &options::BIND,
            &options::PERSIST,
            &options::WAIT,
            &options::CONNECT_TIMEOUT,
            &options::LIBCXI,
        ],
        defaults: RunOptions {
            iters: 1000,
            warmup: 0,
            gap_us: 0,
            min_size: 65536,
            max_size: 65536,
            use_ll: false,
            bandwidth: Some(LISTS),
            ..LATENCY
        },
        run: bandwidth_run::<send_bw::SendBw>,
    },
];

/// Defaults of the latency tools.
const LATENCY: RunOptions = RunOptions {
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
    bandwidth: None,
};

/// Default of the atomic tools.
const SUM: Atomic = Atomic {
    op: AtomicOp::Sum,
    cswap: CswapOp::Eq,
    ty: AtomicType::Uint64,
    fetching: false,
    matching: false,
};

/// Defaults of the bandwidth tools.
const LISTS: Bandwidth = Bandwidth {
    list_size: 256,
    bidirectional: false,
    max_buffer: 1 << 32,
    alignment: 64,
};
