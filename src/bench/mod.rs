//! THE registry of the tools: one `mod` line and one entry for each. Dispatch, help and
//! control connection derive from it.

pub mod api;
pub mod common;
pub(crate) mod write_lat;

use crate::cli::options;
use crate::plan::RunOptions;
use crate::run::one_sided_latency;
use crate::tool::Tool;

/// All tools, in the order of listings.
pub static TOOLS: &[Tool] = &[Tool {
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
        &options::LIBCXI,
    ],
    defaults: RunOptions {
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
    },
    run: one_sided_latency::<write_lat::WriteLat>,
}];
