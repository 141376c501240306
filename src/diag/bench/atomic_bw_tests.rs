//! Complete runs on the software NIC, compared with the model of the operations.

use std::slice;

use super::*;
use crate::bench::api::Benchmark;
use crate::bench::common::applied_times;
use crate::bench::common::operands_tests::combinations;
use crate::bench::testing::{TimesLists, both_ends, endpoint};
use plan::testing::plan;

/// Lists of each run, and operations of each list.
const LISTS: u64 = 9;
const LIST_SIZE: u16 = 3;

fn elements(buffer: &MemoryRegion, first: u16) -> [[u8; 16]; LIST_SIZE as usize] {
    std::array::from_fn(|at| {
        let mut bytes = [0; 16];
        let offset = (usize::from(first) + at) * atomics::ELEMENT as usize;
        buffer.copy_out(offset, &mut bytes).unwrap();
        bytes
    })
}

/// Issues every combination with every set of options. Each element of the list gets its value and
/// its operands before the first list.
#[test]
fn t10_each_element_and_fetched_value_match_model() {
    let options = format!("--list-size={LIST_SIZE}");
    let plan = plan("atomic-bw", &[&options]);
    let mut runs = 0;
    for atomic in combinations() {
        // An interface takes no number of a released counter again (libcxi.md 10).
        let endpoint = endpoint(&plan);
        for flags in 0..16 {
            let flag = |bit: u32| flags >> bit & 1 == 1;
            let run = RunOptions {
                use_idc: flag(0),
                unrestricted: flag(1),
                atomic: Some(Atomic { fetching: flag(2), matching: flag(3), ..atomic }),
                ..plan.run
            };
            let run = run.checked().unwrap();
            let (mut client, server) = both_ends::<AtomicBandwidth>(&endpoint, &run);
            let pairs = slice::from_mut(&mut client);
            AtomicBandwidth::measure(pairs, &run, run.max_size, TimesLists(LISTS)).unwrap();

            let target = server.target.as_ref().unwrap();
            let expected = applied_times(atomic, LISTS).to_le_bytes();
            for element in elements(&target.buffer, 0) {
                assert_eq!(element, expected, "{run:?}");
            }
            if flag(2) {
                let size = atomic.ty.size() as usize;
                let before = applied_times(atomic, LISTS - 1).to_le_bytes();
                let buffer = &client.initiator().unwrap().initiator.buffer;
                for element in elements(buffer, LIST_SIZE) {
                    assert_eq!(element[..size], before[..size], "{run:?}");
                }
            }
            AtomicBandwidth::close(client).unwrap();
            AtomicBandwidth::close(server).unwrap();
            runs += 1;
        }
        endpoint.close().unwrap();
    }
    assert_eq!(runs, 165 * 16);
}
