//! The terms of a run: run options <-> option block.

use super::option_block::{HostBlock, OptionBlock};
use crate::atomic::{Atomic, AtomicOp, AtomicType, CswapOp};
use crate::cli::options;
use crate::plan::{Bandwidth, Plan, RunOptions};
use crate::tool::Tool;

/// No GPU support, on the wire.
const NO_GPU: i8 = -1;

/// What the atomic tools, which never touch the field, leave there (wire.md 4.3).
const GPU_TYPE_OF_ATOMICS: i8 = 0;

/// Largest number in use on the wire (wire.md 4.2 and 4.4).
const MAX_CLOCK: u32 = 1;
const MAX_HUGEPAGES: u8 = 2;
const MAX_GPU_TYPE: i8 = 2;

/// What this side announces; `port` is the TCP port in use.
pub fn to_block(plan: &Plan, port: u16) -> OptionBlock {
    let run = &plan.run;
    let (min_size, max_size) = match run.atomic {
        Some(_) => (0, 0),
        None => (run.min_size, run.max_size),
    };
    let atomic = |field: fn(Atomic) -> u8| run.atomic.map_or(0, field);
    let is_atomic = |flag: fn(Atomic) -> bool| run.atomic.is_some_and(flag);
    OptionBlock {
        clock: 0,
        ignore_cpu_freq_mismatch: false,
        iters: run.iters,
        warmup: run.warmup,
        iter_delay: run.gap_us,
        duration: run.duration_s.unwrap_or(0),
        list_size: run.bandwidth.map_or(0, |bandwidth| bandwidth.list_size),
        bidirectional: run
            .bandwidth
            .is_some_and(|bandwidth| bandwidth.bidirectional),
        report_all: run.report_all,
        print_gbits: false,
        emu_mode: false,
        hugepages: 0,
        min_size,
        max_size,
        max_buf_size: run.bandwidth.map_or(0, |bandwidth| bandwidth.max_buffer),
        buf_size: 0,
        buf_align: run.bandwidth.map_or(0, |bandwidth| bandwidth.alignment),
        use_hrp: false,
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
            svc_id: plan.svc_id,
            dev_id: plan.device.index,
            port,
            gpu_type: match run.atomic {
                Some(_) => GPU_TYPE_OF_ATOMICS,
                None => NO_GPU,
            },
            tx_gpu: None,
            rx_gpu: None,
        },
    }
}

/// What a peer says of its own host.
pub fn check_host(host: &HostBlock) -> Result<(), String> {
    if (NO_GPU..=MAX_GPU_TYPE).contains(&host.gpu_type) {
        Ok(())
    } else {
        Err(no_such("GPU type"))
    }
}

fn no_such(field: &str) -> String {
    format!("its {field} is none that exists")
}

/// What a client of `tool` asks for, held against the rules for typed options (defect T27 of
/// tools.md); or why it cannot be.
pub fn from_block(tool: &Tool, block: &OptionBlock) -> Result<RunOptions, String> {
    if block.clock > MAX_CLOCK {
        return Err(no_such("clock"));
    }
    if block.hugepages > MAX_HUGEPAGES {
        return Err(no_such("hugepages"));
    }
    check_host(&block.host)?;
    let atomic = Atomic {
        op: AtomicOp::try_from(block.atomic_op).map_err(|()| no_such("atomic operation"))?,
        cswap: CswapOp::try_from(block.cswap_op).map_err(|()| no_such("CSWAP operation"))?,
        ty: AtomicType::try_from(block.atomic_type).map_err(|()| no_such("atomic type"))?,
        fetching: block.fetching,
        matching: block.matching,
    };
    let bandwidth = Bandwidth {
        list_size: block.list_size,
        bidirectional: block.bidirectional,
        max_buffer: block.max_buf_size,
        alignment: block.buf_align,
    };
    if block.hugepages != 0 {
        return Err("this version has no huge pages".into());
    }
    RunOptions {
        iters: block.iters,
        duration_s: (block.duration != 0).then_some(block.duration),
        warmup: block.warmup,
        gap_us: block.iter_delay,
        min_size: block.min_size,
        max_size: block.max_size,
        unrestricted: block.unrestricted,
        use_idc: block.use_idc,
        use_ll: block.use_ll,
        report_all: block.report_all,
        atomic: tool.defaults.atomic.map(|_| atomic),
        rdzv: block.use_rdzv && tool.takes(&options::RDZV),
        bandwidth: tool.defaults.bandwidth.map(|_| bandwidth),
    }
    .checked()
    .map_err(|rule| rule.as_heard())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::option_block::OPTIONS_SIZE;
    use super::super::testing::plan;
    use super::*;
    use crate::bench::TOOLS;

    fn asked() -> OptionBlock {
        to_block(&plan(&["10.1.1.8"]), 49194)
    }

    #[test]
    fn a_plan_without_options_is_what_the_legacy_tool_sends() {
        // wire.md 4.6
        let block = asked();
        assert_eq!(
            (block.iters, block.warmup, block.iter_delay, block.duration),
            (100, 10, 1000, 0)
        );
        assert_eq!((block.min_size, block.max_size), (8, 8));
        assert_eq!(
            block.encode()[77..97],
            [
                6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x2a, 0xc0, 0xff, 0, 0, 0, 0, 0
            ]
        );
    }

    /// wire.md 4.3: no sizes, and a GPU type that nobody set.
    #[test]
    fn an_atomic_plan_without_options_is_what_the_legacy_tool_sends() {
        let plan = crate::bench::testing::plan("atomic-lat", &["-d", "soft0"]);
        let block = to_block(&plan, 49194);
        assert_eq!((block.min_size, block.max_size), (0, 0));
        assert_eq!(
            block.encode()[77..97],
            [
                6, 2, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0x2a, 0xc0, 0, 0, 0, 0, 0, 0
            ]
        );
        assert_eq!(from_block(plan.tool, &block), Ok(plan.run));
    }

    #[test]
    fn what_a_client_asks_for_arrives() {
        for arguments in [
            &["h"][..],
            &["h", "-n", "5", "--report-all"],
            &[
                "h",
                "-D",
                "3",
                "-s",
                "1:4096",
                "--warmup=0",
                "--latency-gap=7",
            ],
            &[
                "h",
                "--unrestricted",
                "--no-idc",
                "--no-ll",
                "-d",
                "soft3",
                "-v",
                "7",
            ],
        ] {
            let plan = plan(arguments);
            assert_eq!(
                from_block(&TOOLS[0], &to_block(&plan, 1)),
                Ok(plan.run),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn t27_a_client_is_held_against_the_same_rules() {
        let host = |gpu_type| HostBlock {
            gpu_type,
            ..asked().host
        };
        let wrong = [
            OptionBlock {
                iters: 0,
                ..asked()
            },
            OptionBlock {
                min_size: 0,
                ..asked()
            },
            OptionBlock {
                min_size: 16,
                ..asked()
            },
            OptionBlock {
                max_size: 1 << 32,
                ..asked()
            },
            OptionBlock {
                min_size: 1 << 50,
                max_size: 1 << 50,
                ..asked()
            },
            OptionBlock {
                min_size: 3,
                max_size: 7,
                ..asked()
            },
            OptionBlock {
                iter_delay: u64::MAX,
                ..asked()
            },
            OptionBlock {
                clock: 2,
                ..asked()
            },
            OptionBlock {
                hugepages: 3,
                ..asked()
            },
            OptionBlock {
                hugepages: 1,
                ..asked()
            },
            OptionBlock {
                atomic_op: 3,
                ..asked()
            },
            OptionBlock {
                atomic_op: 13,
                ..asked()
            },
            OptionBlock {
                cswap_op: 6,
                ..asked()
            },
            OptionBlock {
                atomic_type: 200,
                ..asked()
            },
            OptionBlock {
                host: host(-2),
                ..asked()
            },
            OptionBlock {
                host: host(3),
                ..asked()
            },
        ];
        for block in wrong {
            assert!(from_block(&TOOLS[0], &block).is_err(), "{block:?}");
        }
        assert!(
            from_block(
                &TOOLS[0],
                &OptionBlock {
                    iters: 0,
                    duration: 1,
                    ..asked()
                }
            )
            .is_ok()
        );
    }

    /// The client keeps the latencies, and knows whether it has room for them.
    #[test]
    fn a_client_may_report_as_many_latencies_as_it_likes() {
        let block = OptionBlock {
            iters: u64::MAX,
            report_all: true,
            ..asked()
        };
        assert!(from_block(&TOOLS[0], &block).unwrap().report_all);
    }

    #[test]
    fn t8_no_latency_by_latency_in_a_duration() {
        let run = from_block(
            &TOOLS[0],
            &OptionBlock {
                duration: 1,
                report_all: true,
                ..asked()
            },
        )
        .unwrap();
        assert!(!run.report_all);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_refused_or_can_be_carried_out(bytes: [u8; OPTIONS_SIZE]) {
            if let Ok(run) = from_block(&TOOLS[0], &OptionBlock::decode(&bytes)) {
                prop_assert!(run.iters > 0 || run.duration_s.is_some());
                prop_assert!(run.sizes().count() <= 32);
                prop_assert!(run.gap_us.checked_mul(1000).is_some());
            }
        }
    }
}
