//! The terms of a run: run options <-> option block.

use super::option_block::{HostBlock, OptionBlock};
use crate::plan::{Plan, RunOptions};

/// No GPU support, on the wire.
const NO_GPU: i8 = -1;

/// Largest number in use on the wire (wire.md 4.2 and 4.4).
const MAX_CLOCK: u32 = 1;
const MAX_ATOMIC_OP: u8 = 12;
const UNUSED_ATOMIC_OP: u8 = 3;
const MAX_CSWAP_OP: u8 = 5;
const MAX_ATOMIC_TYPE: u8 = 12;
const MAX_HUGEPAGES: u8 = 2;
const MAX_GPU_TYPE: i8 = 2;

/// What this side announces; `port` is the TCP port in use.
pub fn to_block(plan: &Plan, port: u16) -> OptionBlock {
    let run = &plan.run;
    OptionBlock {
        clock: 0,
        ignore_cpu_freq_mismatch: false,
        iters: run.iters,
        warmup: run.warmup,
        iter_delay: run.gap_us,
        duration: run.duration_s.unwrap_or(0),
        list_size: 0,
        bidirectional: false,
        report_all: run.report_all,
        print_gbits: false,
        emu_mode: false,
        hugepages: 0,
        min_size: run.min_size,
        max_size: run.max_size,
        max_buf_size: 0,
        buf_size: 0,
        buf_align: 0,
        use_hrp: false,
        use_idc: run.use_idc,
        use_ll: run.use_ll,
        use_rdzv: false,
        fetching: false,
        matching: false,
        unrestricted: run.unrestricted,
        atomic_op: 0,
        cswap_op: 0,
        atomic_type: 0,
        host: HostBlock {
            svc_id: plan.svc_id,
            dev_id: plan.device.index,
            port,
            gpu_type: NO_GPU,
            tx_gpu: None,
            rx_gpu: None,
        },
    }
}

/// What a client asks for, held against the rules for typed options (defect T27 of tools.md); or
/// why it cannot be.
pub fn from_block(block: &OptionBlock) -> Result<RunOptions, String> {
    let out_of_range = [
        ("clock", block.clock > MAX_CLOCK),
        ("hugepages", block.hugepages > MAX_HUGEPAGES),
        (
            "GPU type",
            !(NO_GPU..=MAX_GPU_TYPE).contains(&block.host.gpu_type),
        ),
        (
            "atomic operation",
            block.atomic_op > MAX_ATOMIC_OP || block.atomic_op == UNUSED_ATOMIC_OP,
        ),
        ("CSWAP operation", block.cswap_op > MAX_CSWAP_OP),
        ("atomic type", block.atomic_type > MAX_ATOMIC_TYPE),
    ];
    if let Some((field, _)) = out_of_range.iter().find(|(_, wrong)| *wrong) {
        return Err(format!("its {field} is none that exists"));
    }
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
    }
    .checked()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::option_block::OPTIONS_SIZE;
    use super::super::testing::plan;
    use super::*;

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
                from_block(&to_block(&plan, 1)),
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
                iters: u64::MAX,
                report_all: true,
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
            assert!(from_block(&block).is_err(), "{block:?}");
        }
        assert!(
            from_block(&OptionBlock {
                iters: 0,
                duration: 1,
                ..asked()
            })
            .is_ok()
        );
    }

    #[test]
    fn t8_no_latency_by_latency_in_a_duration() {
        let run = from_block(&OptionBlock {
            duration: 1,
            report_all: true,
            ..asked()
        })
        .unwrap();
        assert!(!run.report_all);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_refused_or_can_be_carried_out(bytes: [u8; OPTIONS_SIZE]) {
            if let Ok(run) = from_block(&OptionBlock::decode(&bytes)) {
                prop_assert!(run.iters > 0 || run.duration_s.is_some());
                prop_assert!(run.sizes().count() <= 32);
                prop_assert!(run.gap_us.checked_mul(1000).is_some());
            }
        }
    }
}
