//! The terms of a run: run options <-> option block.

use std::fmt::Display;

use cxi::HugePage;
use cxi::gpu::GpuType;

use crate::wire::{HostBlock, OptionBlock};
use facts::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};
use node::gpu::OnGpus;
use plan::extensions::Extensions;
use plan::run_options::{ListOptions, RunOptions};
use plan::tool::Tool;

/// The GPU type of a side without GPU buffers.
const NO_GPU: i8 = -1;

/// The GPU type of the atomic tools, which never set the field (wire.md 4.3).
const GPU_TYPE_OF_ATOMICS: i8 = 0;

/// Largest number in use on the wire (wire.md 4.2 and 4.4).
const MAX_CLOCK: u32 = 1;
const MAX_GPU_TYPE: i8 = 2;

/// The part of a side's option block about its own host (wire.md 4.2).
#[derive(Clone, Copy, Debug)]
pub struct LocalHost {
    /// CXI service.
    pub svc_id: u32,
    /// Number in the device's name.
    pub device: u32,
    /// TCP port in use.
    pub port: u16,
    /// The buffers that lie on GPUs.
    pub gpus: OnGpus,
}

/// The option block of a side on `host` with the options `run`.
pub fn to_block(run: &RunOptions, host: &LocalHost) -> OptionBlock {
    let gpus = host.gpus;
    let (min_size, max_size) = match run.atomic {
        Some(_) => (0, 0),
        None => (run.min_size, run.max_size),
    };
    // The atomic tools have no options about buffers.
    let buffers = run.lists.filter(|_| run.atomic.is_none());
    let atomic = |field: fn(Atomic) -> u8| run.atomic.map_or(0, field);
    let is_atomic = |flag: fn(Atomic) -> bool| run.atomic.is_some_and(flag);
    OptionBlock {
        iters: run.iters,
        warmup: run.warmup,
        iter_delay: run.gap_us,
        duration: run.duration_s.unwrap_or(0),
        list_size: run.lists.map_or(0, |lists| lists.list_size),
        bidirectional: run.lists.is_some_and(|lists| lists.bidirectional),
        report_all: run.report_all,
        hugepages: match run.huge_page {
            None => 0,
            Some(HugePage::Mib2) => 1,
            Some(HugePage::Gib1) => 2,
        },
        min_size,
        max_size,
        max_buf_size: buffers.map_or(0, |lists| lists.max_buffer),
        buf_align: buffers.map_or(0, |lists| lists.alignment),
        use_hrp: run.use_hrp,
        use_idc: run.use_idc,
        use_ll: run.use_ll,
        use_rdzv: run.rdzv,
        fetching: is_atomic(|atomic| atomic.fetching),
        matching: is_atomic(|atomic| atomic.matching),
        unrestricted: run.unrestricted,
        atomic_op: atomic(|atomic| atomic.op as u8),
        cswap_op: atomic(|atomic| atomic.cswap as u8),
        atomic_type: atomic(|atomic| atomic.ty as u8),
        host: HostBlock {
            svc_id: host.svc_id,
            dev_id: host.device,
            port: host.port,
            gpu_type: match (run.atomic, gpus.kind) {
                (Some(_), _) => GPU_TYPE_OF_ATOMICS,
                (None, None) => NO_GPU,
                (None, Some(GpuType::Amd)) => 0,
                (None, Some(GpuType::Nvidia)) => 1,
                (None, Some(GpuType::Intel)) => 2,
            },
            tx_gpu: gpus.tx,
            rx_gpu: gpus.rx,
        },
        ..OptionBlock::default()
    }
}

/// Checks the part of a peer's option block about its host.
///
/// # Errors
///
/// A GPU type that does not exist.
pub fn check_host(host: &HostBlock) -> Result<(), String> {
    if (NO_GPU..=MAX_GPU_TYPE).contains(&host.gpu_type) {
        Ok(())
    } else {
        Err(no_such("GPU type", host.gpu_type))
    }
}

/// The buffers of a checked host that lie on GPUs. The type is meaningful only if there is one.
pub fn gpus(host: &HostBlock) -> OnGpus {
    let (tx, rx) = (host.tx_gpu, host.rx_gpu);
    let kind = match host.gpu_type {
        0 => Some(GpuType::Amd),
        1 => Some(GpuType::Nvidia),
        2 => Some(GpuType::Intel),
        _ => None,
    };
    OnGpus { kind, tx, rx, ..OnGpus::NONE }
}

fn no_such(field: &str, number: impl Display) -> String {
    format!("unknown {field} {number}")
}

fn huge_page(block: &OptionBlock) -> Result<Option<HugePage>, String> {
    match block.hugepages {
        0 => Ok(None),
        1 => Ok(Some(HugePage::Mib2)),
        2 => Ok(Some(HugePage::Gib1)),
        other => Err(no_such("hugepages", other)),
    }
}

fn atomic(block: &OptionBlock) -> Result<Atomic, String> {
    Ok(Atomic {
        op: AtomicOp::try_from(block.atomic_op)
            .map_err(|()| no_such("atomic operation", block.atomic_op))?,
        cswap: CswapOp::try_from(block.cswap_op)
            .map_err(|()| no_such("CSWAP operation", block.cswap_op))?,
        ty: AtomicType::try_from(block.atomic_type)
            .map_err(|()| no_such("atomic type", block.atomic_type))?,
        fetching: block.fetching,
        matching: block.matching,
    })
}

/// The options that a client of `tool` has sent, with `extensions`, checked against the rules for
/// typed options (defect T27 of tools.md).
///
/// # Errors
///
/// The first option that is invalid.
pub fn from_block(
    tool: &Tool,
    block: &OptionBlock,
    extensions: Extensions,
) -> Result<RunOptions, String> {
    if block.clock > MAX_CLOCK {
        return Err(no_such("clock", block.clock));
    }
    let huge_page = huge_page(block)?;
    check_host(&block.host)?;
    if tool.has_chains() && extensions.hops == 0 {
        return Err("no --hops, which every cxidiag with this tool sends".into());
    }
    let atomic = atomic(block)?;
    let lists = tool.defaults.lists.map(|defaults| {
        let lists = ListOptions {
            list_size: block.list_size,
            bidirectional: block.bidirectional,
            ..defaults
        };
        if tool.has_data() {
            ListOptions { max_buffer: block.max_buf_size, alignment: block.buf_align, ..lists }
        } else {
            lists
        }
    });
    RunOptions {
        iters: block.iters,
        duration_s: (block.duration != 0).then_some(block.duration),
        warmup: block.warmup,
        gap_us: block.iter_delay,
        min_size: block.min_size,
        max_size: block.max_size,
        unrestricted: block.unrestricted,
        use_idc: block.use_idc,
        use_hrp: block.use_hrp && tool.defaults.use_hrp,
        use_ll: block.use_ll,
        report_all: block.report_all,
        atomic: tool.defaults.atomic.map(|_| atomic),
        rdzv: block.use_rdzv && tool.sends(),
        huge_page: huge_page.filter(|_| tool.has_data()),
        // Not part of the block: the words behind the version agree on it and on the extensions.
        sync: tool.defaults.sync,
        lists,
        extensions,
    }
    .checked()
    .map_err(|rule| rule.from_peer())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::plan;
    use super::*;
    use crate::wire::OPTIONS_SIZE;
    use plan::Plan;
    use plan::tools::TOOLS;

    /// The block of the side that `plan` describes.
    fn block(plan: &Plan, gpus: OnGpus, port: u16) -> OptionBlock {
        let host = LocalHost {
            svc_id: plan.service_options.svc_id.unwrap_or(1),
            device: plan.device.index,
            port,
            gpus,
        };
        to_block(&plan.run, &host)
    }

    fn asked() -> OptionBlock {
        block(&plan(&["10.1.1.8"]), OnGpus::NONE, 49194)
    }

    #[test]
    fn default_plan_matches_legacy_block() {
        // wire.md 4.6
        let block = asked();
        assert_eq!(
            (block.iters, block.warmup, block.iter_delay, block.duration),
            (100, 10, 1000, 0)
        );
        assert_eq!((block.min_size, block.max_size), (8, 8));
        assert_eq!(
            block.encode()[77..97],
            [6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x2a, 0xc0, 0xff, 0, 0, 0, 0, 0]
        );
    }

    /// No sizes, and a GPU type that was never set (wire.md 4.3).
    #[test]
    fn default_atomic_plan_matches_legacy_block() {
        let plan = plan::testing::plan("atomic-lat", &["-d", "soft0"]);
        let block = block(&plan, OnGpus::NONE, 49194);
        assert_eq!((block.min_size, block.max_size), (0, 0));
        assert_eq!(
            block.encode()[77..97],
            [6, 2, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0x2a, 0xc0, 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(from_block(plan.tool, &block, Extensions::NONE), Ok(plan.run));
    }

    /// wire.md 4.6: list size, sizes, limit and spacing of the buffers, flags.
    #[test]
    fn default_bandwidth_plans_match_legacy_blocks() {
        for (tool, list_size, size, buffers, flags) in [
            ("write-bw", 256, 65536, (1 << 32, 64), 0x03),
            ("read-bw", 256, 65536, (1 << 32, 64), 0x00),
            ("send-bw", 256, 65536, (1 << 32, 64), 0x02),
            ("atomic-bw", 4096, 0, (0, 0), 0x03),
        ] {
            let plan = plan::testing::plan(tool, &[]);
            let block = block(&plan, OnGpus::NONE, 49194);
            assert_eq!(block.list_size, list_size, "{tool}");
            assert_eq!((block.min_size, block.max_size), (size, size), "{tool}");
            assert_eq!((block.max_buf_size, block.buf_align), buffers, "{tool}");
            assert_eq!(block.encode()[77], flags, "{tool}");
            let received = from_block(plan.tool, &block, Extensions::NONE);
            assert_eq!(received, Ok(plan.run), "{tool}");
        }
    }

    #[test]
    fn options_survive_encoding() {
        for arguments in [
            &["h"][..],
            &["h", "-n", "5", "--report-all"],
            &["h", "-D", "3", "-s", "1:4096", "--warmup=0", "--latency-gap=7"],
            &["h", "--unrestricted", "--no-idc", "--no-ll", "-d", "soft3", "-v", "7"],
            &["h", "--use-hp=2M"],
            &["h", "--use-hp=1g"],
        ] {
            let plan = plan(arguments);
            assert_eq!(
                from_block(&TOOLS[0], &block(&plan, OnGpus::NONE, 1), Extensions::NONE),
                Ok(plan.run),
                "{arguments:?}"
            );
        }
    }

    /// Each side sends its own GPUs (wire.md 4.2).
    #[test]
    fn gpus_survive_encoding() {
        for (kind, number) in [(GpuType::Amd, 0), (GpuType::Nvidia, 1), (GpuType::Intel, 2)] {
            for (tx, rx) in [(None, Some(255)), (Some(0), None), (Some(3), Some(0))] {
                let plan = plan(&["h"]);
                let gpus = OnGpus { kind: Some(kind), tx, rx, ..OnGpus::NONE };
                let block = block(&plan, gpus, 1);
                assert_eq!(block.host.gpu_type, number);
                let received = OptionBlock::decode(&block.encode());
                assert_eq!(self::gpus(&received.host), gpus);
                assert_eq!(from_block(&TOOLS[0], &received, Extensions::NONE), Ok(plan.run));
            }
        }
        assert_eq!(gpus(&asked().host), OnGpus::NONE);
    }

    #[test]
    fn t27_checks_client_options_like_typed_ones() {
        let host = |gpu_type| HostBlock { gpu_type, ..asked().host };
        let wrong = [
            OptionBlock { iters: 0, ..asked() },
            OptionBlock { min_size: 0, ..asked() },
            OptionBlock { min_size: 16, ..asked() },
            OptionBlock { max_size: 1 << 32, ..asked() },
            OptionBlock { min_size: 1 << 50, max_size: 1 << 50, ..asked() },
            OptionBlock { min_size: 3, max_size: 7, ..asked() },
            OptionBlock { iter_delay: u64::MAX, ..asked() },
            OptionBlock { clock: 2, ..asked() },
            OptionBlock { hugepages: 3, ..asked() },
            OptionBlock { atomic_op: 3, ..asked() },
            OptionBlock { atomic_op: 13, ..asked() },
            OptionBlock { cswap_op: 6, ..asked() },
            OptionBlock { atomic_type: 200, ..asked() },
            OptionBlock { host: host(-2), ..asked() },
            OptionBlock { host: host(3), ..asked() },
        ];
        for block in wrong {
            assert!(from_block(&TOOLS[0], &block, Extensions::NONE).is_err(), "{block:?}");
        }
        assert!(
            from_block(
                &TOOLS[0],
                &OptionBlock { iters: 0, duration: 1, ..asked() },
                Extensions::NONE
            )
            .is_ok()
        );
    }

    /// The client keeps the samples, and has checked its memory.
    #[test]
    fn accepts_any_number_of_reported_samples() {
        let block = OptionBlock { iters: u64::MAX, report_all: true, ..asked() };
        assert!(from_block(&TOOLS[0], &block, Extensions::NONE).unwrap().report_all);
    }

    /// The buffers of atomic operations are never in huge pages.
    #[test]
    fn accepts_huge_pages_only_for_tools_with_option() {
        let plan = plan::testing::plan("atomic-lat", &[]);
        let block = OptionBlock { hugepages: 1, ..block(&plan, OnGpus::NONE, 1) };
        assert_eq!(from_block(plan.tool, &block, Extensions::NONE), Ok(plan.run));
        let with = OptionBlock { hugepages: 2, ..asked() };
        let run = from_block(&TOOLS[0], &with, Extensions::NONE).unwrap();
        assert_eq!(run.huge_page, Some(HugePage::Gib1));
    }

    #[test]
    fn t8_ignores_report_all_with_duration() {
        let run = from_block(
            &TOOLS[0],
            &OptionBlock { duration: 1, report_all: true, ..asked() },
            Extensions::NONE,
        )
        .unwrap();
        assert!(!run.report_all);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_refused_or_can_be_carried_out(bytes: [u8; OPTIONS_SIZE]) {
            if let Ok(run) = from_block(&TOOLS[0], &OptionBlock::decode(&bytes), Extensions::NONE) {
                prop_assert!(run.iters > 0 || run.duration_s.is_some());
                prop_assert!(run.sizes().count() <= 32);
                prop_assert!(run.gap_us.checked_mul(1000).is_some());
            }
        }
    }
}
