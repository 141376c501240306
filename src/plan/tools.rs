//! The registry of the tools, in the order of listings. All lists of tools derive from it.

use facts::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};
use facts::error::{Failure, Kind};

use crate::extensions::Extensions;
use crate::run_options::{ListOptions, RunOptions, SyncPoint};
use crate::tool::{FullBuffers, Tool};

/// The tools without a peer are the last ones.
pub static TOOLS: &[Tool] = &[
    WRITE_LAT,
    READ_LAT,
    ATOMIC_LAT,
    SEND_LAT,
    TRIG_LAT,
    WRITE_BW,
    READ_BW,
    ATOMIC_BW,
    SEND_BW,
    LOOPBACK_BW,
];

/// The tools that measure between two processes.
pub fn peer_tools() -> &'static [Tool] {
    TOOLS.split_at(TOOLS.partition_point(Tool::has_peer)).0
}

/// The form that `tool` has under its legacy name: `loopback-bw` has other options there.
pub fn legacy_form(tool: &'static Tool) -> &'static Tool {
    if tool.name == LEGACY.name { &LEGACY } else { tool }
}

static LEGACY: Tool = LEGACY_LOOPBACK_BW;

/// Whether `tool` ends with 1 for invalid options, as for all failures: the legacy form of
/// `loopback-bw` does (node-tools.md 4.4).
pub fn has_one_status(tool: &Tool) -> bool {
    std::ptr::eq(tool, &LEGACY)
}

/// Returns `failure` with the exit status that `tool` has for it.
pub fn with_status_of(tool: &Tool, failure: Failure) -> Failure {
    let is_replaced = has_one_status(tool) && failure.kind == Kind::Usage;
    if is_replaced { failure.with_status(1) } else { failure }
}

/// `write-lat`: one-sided RDMA write latency.
pub const WRITE_LAT: Tool = Tool {
    name: "write-lat",
    legacy_name: "cxi_write_lat",
    wire_version: "2.4.0",
    title: "CXI RDMA Write Latency Test",
    about: "One-sided RDMA write latency",
    operation: "Write",
    operations: "Writes",
    size_column: "RDMA Size[B]",
    defaults: LATENCY,
    buffers: FullBuffers::OneEach,
};

/// `read-lat`: one-sided RDMA read latency.
pub const READ_LAT: Tool = Tool {
    name: "read-lat",
    legacy_name: "cxi_read_lat",
    wire_version: "2.4.0",
    title: "CXI RDMA Read Latency Test",
    about: "One-sided RDMA read latency",
    operation: "Read",
    operations: "Reads",
    size_column: "RDMA Size[B]",
    defaults: RunOptions { use_idc: false, ..LATENCY },
    buffers: FullBuffers::OneEach,
};

/// `atomic-lat`: atomic memory operation (AMO) latency.
pub const ATOMIC_LAT: Tool = Tool {
    name: "atomic-lat",
    legacy_name: "cxi_atomic_lat",
    wire_version: "2.4.0",
    title: "CXI Atomic Memory Operation Latency Test",
    about: "Atomic memory operation (AMO) latency",
    operation: "AMO",
    operations: "Ops",
    size_column: "AMO Size[B]",
    defaults: RunOptions { atomic: Some(SUM), ..LATENCY },
    buffers: FullBuffers::None,
};

/// `send-lat`: two-sided RDMA message latency.
pub const SEND_LAT: Tool = Tool {
    name: "send-lat",
    legacy_name: "cxi_send_lat",
    wire_version: "2.3.0",
    title: "CXI RDMA Send Latency Test",
    about: "Two-sided RDMA message latency",
    operation: "Send",
    operations: "Sends",
    size_column: "     Bytes",
    defaults: LATENCY,
    buffers: FullBuffers::Both,
};

/// `trig-lat`: latency of a hop between NICs, in chains of triggered puts.
pub const TRIG_LAT: Tool = Tool {
    name: "trig-lat",
    legacy_name: "cxi_trig_lat",
    wire_version: "1.0.0",
    title: "CXI Triggered Put Latency Test",
    about: "Latency of a hop between NICs without a CPU in between",
    operation: "Put",
    operations: "Chains",
    size_column: "RDMA Size[B]",
    defaults: RunOptions {
        unrestricted: true,
        use_idc: false,
        extensions: Extensions { hops: 64, ..Extensions::NONE },
        ..LATENCY
    },
    buffers: FullBuffers::Both,
};

/// `write-bw`: one-sided RDMA write bandwidth.
pub const WRITE_BW: Tool = Tool {
    name: "write-bw",
    legacy_name: "cxi_write_bw",
    wire_version: "2.4.0",
    title: "CXI RDMA Write Bandwidth Test",
    about: "One-sided RDMA write bandwidth",
    operation: "Write",
    operations: "Writes",
    size_column: "RDMA Size[B]",
    defaults: RunOptions { use_hrp: true, ..BANDWIDTH },
    buffers: FullBuffers::ByDirection,
};

/// `read-bw`: one-sided RDMA read bandwidth.
pub const READ_BW: Tool = Tool {
    name: "read-bw",
    legacy_name: "cxi_read_bw",
    wire_version: "2.4.0",
    title: "CXI RDMA Read Bandwidth Test",
    about: "One-sided RDMA read bandwidth",
    operation: "Read",
    operations: "Reads",
    size_column: "RDMA Size[B]",
    defaults: RunOptions { use_idc: false, ..BANDWIDTH },
    buffers: FullBuffers::ByDirection,
};

/// `atomic-bw`: atomic memory operation (AMO) rate.
pub const ATOMIC_BW: Tool = Tool {
    name: "atomic-bw",
    legacy_name: "cxi_atomic_bw",
    wire_version: "2.4.0",
    title: "CXI Atomic Memory Operation Bandwidth Test",
    about: "Atomic memory operation (AMO) rate",
    operation: "AMO",
    operations: "Ops",
    size_column: " AMO Size[B]",
    defaults: RunOptions {
        iters: 10_000,
        atomic: Some(SUM),
        use_hrp: true,
        lists: Some(ListOptions { list_size: 4096, ..LISTS }),
        ..BANDWIDTH
    },
    buffers: FullBuffers::None,
};

/// `send-bw`: two-sided RDMA message bandwidth.
pub const SEND_BW: Tool = Tool {
    name: "send-bw",
    legacy_name: "cxi_send_bw",
    wire_version: "2.4.0",
    title: "CXI RDMA Send Bandwidth Test",
    about: "Two-sided RDMA message bandwidth",
    operation: "Send",
    operations: "Sends",
    size_column: "Send Size[B]",
    defaults: BANDWIDTH,
    buffers: FullBuffers::ByDirection,
};

/// `loopback-bw`: bandwidth of writes of a NIC to itself, in one process.
pub const LOOPBACK_BW: Tool = Tool {
    name: "loopback-bw",
    legacy_name: "cxi_gpu_loopback_bw",
    wire_version: "1.5.1",
    title: "CXI Loopback Bandwidth Test",
    about: "Bandwidth of a NIC that writes to itself, in system or GPU memory",
    operation: "Write",
    operations: "Writes",
    size_column: "RDMA Size[B]",
    // An eighth of the writes of the legacy tool, in short lists: the queue of lists of 8192 takes
    // 4 MiB of contiguous memory of the kernel (node-tools.md 4.2).
    defaults: RunOptions { iters: 100, ..LOOPBACK_DEFAULTS },
    buffers: FullBuffers::OneProcess,
};

/// `loopback-bw` with the options and defaults of `cxi_gpu_loopback_bw` (node-tools.md 4.1).
const LEGACY_LOOPBACK_BW: Tool = Tool {
    defaults: RunOptions {
        iters: 25,
        lists: Some(ListOptions { list_size: 8192, ..LISTS }),
        ..LOOPBACK_DEFAULTS
    },
    ..LOOPBACK_BW
};

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
const BANDWIDTH: RunOptions = RunOptions {
    iters: 1000,
    warmup: 0,
    gap_us: 0,
    min_size: 65536,
    max_size: 65536,
    use_ll: false,
    lists: Some(LISTS),
    ..LATENCY
};

/// Defaults of the loopback tool.
const LOOPBACK_DEFAULTS: RunOptions =
    RunOptions { min_size: 524_288, max_size: 524_288, use_idc: false, ..BANDWIDTH };

/// Default of the atomic tools.
const SUM: Atomic = Atomic {
    op: AtomicOp::Sum,
    cswap: CswapOp::Eq,
    ty: AtomicType::Uint64,
    fetching: false,
    matching: false,
};

/// Lists of the bandwidth tools.
const LISTS: ListOptions =
    ListOptions { list_size: 256, bidirectional: false, max_buffer: 1 << 32, alignment: 64 };

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::time::Duration;

    use super::*;
    use crate::command_line;
    use crate::command_line::Request;
    use crate::{Plan, Role};

    fn plan(tool: &'static Tool, options: &str) -> Plan {
        let arguments = options.split_whitespace().map(OsString::from).collect();
        let Ok(Request::Run(typed)) = command_line::parse(tool, arguments) else {
            panic!("{options}");
        };
        Plan::new(tool, tool.name.into(), *typed, None).unwrap()
    }

    #[test]
    fn tools_without_peer_are_the_last_ones() {
        assert!(TOOLS.is_sorted_by_key(|tool| !tool.has_peer()));
        assert!(peer_tools().iter().all(Tool::has_peer));
        assert_eq!(peer_tools().len(), TOOLS.len() - 1);
    }

    /// node-tools.md 4.1
    #[test]
    fn loopback_tool_has_letters_and_defaults_of_its_name() {
        let tool = &TOOLS[peer_tools().len()];
        let measured = |plan: &Plan| {
            let lists = plan.run.lists.unwrap();
            (plan.run.iters, lists.list_size, plan.run.max_size)
        };
        let legacy = plan(legacy_form(tool), "");
        assert_eq!((legacy.role.clone(), measured(&legacy)), (Role::Alone, (25, 8192, 524_288)));
        let legacy = plan(legacy_form(tool), "-i 3 -n 5 -s 64");
        assert_eq!(measured(&legacy), (3, 5, 64));
        assert_eq!(measured(&plan(tool, "-n 3 -l 5 -s 64")), (3, 5, 64));
        // `-i` has this meaning in all other tools.
        assert!(plan(tool, "-i 1s").outputs.interval.is_some());
        for other in peer_tools() {
            assert_eq!(legacy_form(other).name, other.name);
        }
    }

    #[test]
    fn n22_keeps_durations_beyond_32_bits_of_microseconds() {
        let run = plan(legacy_form(&LOOPBACK_BW), "-D 5000").run;
        assert_eq!(run.duration(), Some(Duration::from_secs(5000)));
    }

    /// node-tools.md 4.2
    #[test]
    fn buffers_of_the_loopback_tool_hold_one_message() {
        let tool = TOOLS.last().unwrap();
        for sizes in ["-s 2049", "-s 1:4096"] {
            let run = plan(tool, sizes).run;
            let lists = run.lists.unwrap();
            assert_eq!(lists.buffer(run.max_size), run.max_size);
            assert!(run.sizes().all(|size| lists.step(size) == run.max_size));
        }
    }
}
