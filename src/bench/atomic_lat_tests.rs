//! Whole runs on the software NIC against the model of the operations.

use super::*;
use crate::bench::common::operands_tests::{combinations, target_after};
use crate::bench::testing::{Times, both_ends, endpoint, plan};

/// Every combination in every way of issuing it leaves in the target what the model predicts, and
/// brings back what was there before (T9, T11, T12).
#[test]
fn t9_the_target_holds_what_the_model_predicts() {
    let plan = plan("atomic-lat", &[]);
    let endpoint = endpoint(&plan);
    let mut runs = 0;
    for atomic in combinations() {
        for ways in 0..16 {
            let way = |bit: u32| ways >> bit & 1 == 1;
            let run = RunOptions {
                use_idc: way(0),
                unrestricted: way(1),
                atomic: Some(Atomic {
                    fetching: way(2),
                    matching: way(3),
                    ..atomic
                }),
                ..plan.run
            };
            let run = run.checked().unwrap();
            let (mut initiator, target) = both_ends::<AtomicLat>(&endpoint, &run);
            AtomicLat::measure(&mut initiator, &run, run.max_size, Times(9)).unwrap();

            let size = atomic.ty.size() as usize;
            let mut bytes = [0; 16];
            target.copy_out(&mut bytes).unwrap();
            let expected = target_after(atomic, 9).to_le_bytes();
            assert_eq!(bytes, expected, "{run:?}");
            if way(2) {
                let mut fetched = [0; 16];
                initiator
                    .buffer
                    .copy_out(ELEMENT as usize, &mut fetched)
                    .unwrap();
                let before = target_after(atomic, 8).to_le_bytes();
                assert_eq!(fetched[..size], before[..size], "{run:?}");
            }
            AtomicLat::close_initiator(initiator).unwrap();
            AtomicLat::close_target(target).unwrap();
            runs += 1;
        }
    }
    // 12 operations and 5 more comparisons on integers, and so on: see `atomic`.
    assert_eq!(runs, 165 * 16);
    endpoint.close().unwrap();
}
