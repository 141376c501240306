//! Complete runs on the software NIC, compared with the model of the operations.

use super::*;
use crate::bench::api::Benchmark;
use crate::bench::common::applied_times;
use crate::bench::common::operands_tests::combinations;
use crate::bench::testing::{Times, both_ends, endpoint};
use plan::testing::plan;

/// Issues every combination with every set of options (T9, T11, T12).
#[test]
fn t9_target_and_fetched_value_match_model() {
    let plan = plan("atomic-lat", &[]);
    let endpoint = endpoint(&plan);
    let mut runs = 0;
    for atomic in combinations() {
        for flags in 0..16 {
            let flag = |bit: u32| flags >> bit & 1 == 1;
            let run = RunOptions {
                use_idc: flag(0),
                unrestricted: flag(1),
                atomic: Some(Atomic { fetching: flag(2), matching: flag(3), ..atomic }),
                ..plan.run
            };
            let run = run.checked().unwrap();
            let (mut client, server) = both_ends::<AtomicLatency>(&endpoint, &run);
            AtomicLatency::measure(&mut client, &run, run.max_size, Times(9)).unwrap();

            let size = atomic.ty.size() as usize;
            let mut bytes = [0; 16];
            let target = server.target.as_ref().unwrap();
            target.buffer.copy_out(0, &mut bytes).unwrap();
            let expected = applied_times(atomic, 9).to_le_bytes();
            assert_eq!(bytes, expected, "{run:?}");
            if flag(2) {
                let mut fetched = [0; 16];
                let buffer = &client.initiator().unwrap().buffer;
                buffer.copy_out(ELEMENT as usize, &mut fetched).unwrap();
                let before = applied_times(atomic, 8).to_le_bytes();
                assert_eq!(fetched[..size], before[..size], "{run:?}");
            }
            AtomicLatency::close(client).unwrap();
            AtomicLatency::close(server).unwrap();
            runs += 1;
        }
    }
    // 12 operations and 5 more comparisons on integers, and others: see `atomic`.
    assert_eq!(runs, 165 * 16);
    endpoint.close().unwrap();
}
