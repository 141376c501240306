//! The entries of an [`Outcome`] that plan and machine determine before the run begins.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::system::uname;

use super::outcome::{
    AtomicOptions, Device, Host, ListOptions, Options, Outcome, SCHEMA_VERSION, Status,
};
use crate::atomic::AtomicOp;
use crate::machine::host_name;
use crate::machine::placement::Cpus;
use crate::measure::ClockFacts;
use crate::plan::{Plan, Role};
use crate::tool::{Opt, Tool};

impl Outcome {
    /// Returns the outcome of a run of which only the tool is known.
    pub fn bare(tool: &Tool) -> Self {
        let machine = uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let started = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            schema_version: SCHEMA_VERSION,
            tool: tool.name.into(),
            cxidiag_version: env!("CARGO_PKG_VERSION").into(),
            cxidiag_revision: option_env!("CXIDIAG_REVISION").map(str::to_owned),
            status: Status::Failed,
            exit_status: 1,
            error: None,
            started_unix_ms: started.unwrap_or_default().as_millis() as u64,
            elapsed_ms: 0,
            host: Host {
                name: host_name(),
                kernel: text(machine.release()),
                architecture: text(machine.machine()),
            },
            device: None,
            addresses: None,
            options: None,
            clock: ClockFacts::of_monotonic_raw().into(),
            measurement_error: None,
            results: Vec::new(),
            expectations: Vec::new(),
        }
    }

    /// Returns the outcome of a run of `plan` that has not begun.
    pub fn of(plan: &Plan) -> Self {
        Self {
            device: Some(Device {
                name: plan.device.to_string(),
                is_software: None,
                svc_id: plan.svc_id,
            }),
            options: Some(options(plan)),
            ..Self::bare(plan.tool)
        }
    }
}

fn options(plan: &Plan) -> Options {
    let run = &plan.run;
    let takes = |option| plan.tool.takes(option);
    Options {
        address: match &plan.role {
            Role::Client { address } => Some(address.clone()),
            _ => None,
        },
        loopback: plan.role == Role::Loopback,
        port: plan.port,
        libcxi: plan
            .libcxi
            .as_ref()
            .map(|library| library.path.to_string_lossy().into_owned()),
        iters: run.duration_s.is_none().then_some(run.iters),
        duration_s: run.duration_s,
        until_percent: plan.until.map(|until| until.percent),
        warmup: takes(Opt::Warmup).then_some(run.warmup),
        latency_gap_us: takes(Opt::LatencyGap).then_some(run.gap_us),
        min_size_bytes: run.min_size,
        max_size_bytes: run.max_size,
        restricted: takes(Opt::Unrestricted).then_some(run.restricted().is_on()),
        idc: takes(Opt::NoIdc).then_some(run.idc().is_on()),
        hrp: takes(Opt::NoHrp).then_some(run.hrp().is_on()),
        low_latency: takes(Opt::NoLl).then_some(run.use_ll),
        rdzv: takes(Opt::Rdzv).then_some(run.rdzv),
        sync: takes(Opt::LegacySync).then(|| run.sync.to_string()),
        tx_gpu: plan.gpus.tx,
        rx_gpu: plan.gpus.rx,
        gpu_type: plan
            .gpus
            .kind
            .filter(|_| plan.gpus.any())
            .map(|kind| kind.to_string()),
        peer_tx_gpu: None,
        peer_rx_gpu: None,
        peer_gpu_type: None,
        use_hp: run.huge_page.map(|size| size.to_string()),
        cpu: (plan.cpus != Cpus::Any).then(|| plan.cpus.to_string()),
        report_all: takes(Opt::ReportAll).then_some(run.report_all),
        rate: run.extensions.rate.map(|rate| rate.to_string()),
        verify: takes(Opt::Verify).then_some(run.extensions.verify),
        atomic: run.atomic.map(|atomic| AtomicOptions {
            op: atomic.op.to_string(),
            cswap_op: (atomic.op == AtomicOp::Cswap).then(|| atomic.cswap.to_string()),
            ty: atomic.ty.to_string(),
            fetching: atomic.fetching,
            matching: atomic.matching,
        }),
        lists: run.lists.map(|lists| ListOptions {
            list_size: lists.list_size,
            bidirectional: lists.bidirectional,
            buf_sz_bytes: takes(Opt::BufSz).then_some(lists.max_buffer),
            buf_align_bytes: takes(Opt::BufAlign).then_some(lists.alignment),
            pairs: run.extensions.pairs,
            threads: run.extensions.threads,
            reverse: run.extensions.reverse,
            both_ends: run.extensions.both_ends,
        }),
        interval_s: plan.outputs.interval.map(|length| length.as_secs_f64()),
        expect: plan
            .outputs
            .expectations
            .iter()
            .map(|expectation| expectation.text.clone())
            .collect(),
    }
}
