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
use crate::buffers;
use crate::cli::options;
use crate::plan::{Bandwidth, RunOptions};
use crate::run::{bandwidth_run, one_sided_latency, two_sided_latency};
use crate::tool::Tool;

/// The options of a latency tool, in the order of its help: those of its own stand between the ones that
/// choose the NIC and the ones for results and the connection, which all have.
macro_rules! latency_options {
    ($($own:ident),* $(,)?) => {
        &[
            &options::DEVICE,
            &options::SVC_ID,
            &options::PORT,
            $(&options::$own,)*
            &options::PERCENTILES,
            &options::JSON,
            &options::CSV,
            &options::HDR_LOG,
            &options::EXPECT,
            &options::QUIET,
            &options::LOOPBACK,
            &options::BIND,
            &options::PERSIST,
            &options::WAIT,
            &options::CONNECT_TIMEOUT,
            &options::CPU,
            &options::LIBCXI,
        ]
    };
}

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
        options: latency_options![
            TX_GPU,
            RX_GPU,
            GPU_TYPE,
            ITERS,
            DURATION,
            WARMUP,
            LATENCY_GAP,
            SIZE,
            UNRESTRICTED,
            NO_IDC,
            NO_LL,
            REPORT_ALL,
            USE_HP,
        ],
        defaults: LATENCY,
        buffers: buffers::one_each,
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
        options: latency_options![
            TX_GPU,
            RX_GPU,
            GPU_TYPE,
            ITERS,
            DURATION,
            WARMUP,
            LATENCY_GAP,
            SIZE,
            UNRESTRICTED,
            NO_LL,
            REPORT_ALL,
            USE_HP,
        ],
        defaults: RunOptions {
            use_idc: false,
            ..LATENCY
        },
        buffers: buffers::one_each,
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
        options: latency_options![
            ITERS,
            DURATION,
            WARMUP,
            LATENCY_GAP,
            ATOMIC_OP,
            CSWAP_OP,
            ATOMIC_TYPE,
            FETCHING,
            MATCHING,
            UNRESTRICTED,
            NO_IDC,
            NO_LL,
            REPORT_ALL,
        ],
        defaults: RunOptions {
            atomic: Some(SUM),
            ..LATENCY
        },
        buffers: buffers::none,
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
        options: latency_options![
            TX_GPU,
            RX_GPU,
            GPU_TYPE,
            ITERS,
            DURATION,
            WARMUP,
            LATENCY_GAP,
            SIZE,
            NO_IDC,
            NO_LL,
            RDZV,
            REPORT_ALL,
            USE_HP,
        ],
        defaults: LATENCY,
        buffers: buffers::both,
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
            &options::TX_GPU,
            &options::RX_GPU,
            &options::GPU_TYPE,
            &options::ITERS,
            &options::DURATION,
            &options::SIZE,
            &options::LIST_SIZE,
            &options::BIDIRECTIONAL,
            &options::NO_IDC,
            &options::RDZV,
            &options::BUF_SZ,
            &options::BUF_ALIGN,
            &options::USE_HP,
            &options::JSON,
            &options::CSV,
            &options::EXPECT,
            &options::QUIET,
            &options::LOOPBACK,
            &options::BIND,
            &options::PERSIST,
            &options::WAIT,
            &options::CONNECT_TIMEOUT,
            &options::CPU,
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
        buffers: buffers::by_direction,
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
    huge_page: None,
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
