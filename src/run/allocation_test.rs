//! The measuring loop allocates nowhere: on a whole software NIC, counted by the allocator.

use allocation_counter::AllocationInfo;

use super::latency::{Limit, Schedule, repeat};
use super::{MonotonicRaw, Patience};
use crate::bench::api::{Measurement, OneSidedLatency, Transaction};
use crate::bench::atomic_lat::AtomicLat;
use crate::bench::read_lat::ReadLat;
use crate::bench::testing::{Alone, both_ends, endpoint, plan};
use crate::bench::write_lat::WriteLat;
use crate::error::Failure;
use crate::measure::Recorder;

/// What the loop allocates, warm-up included, with samples kept.
struct Counted;

impl Measurement for Counted {
    type Output = AllocationInfo;

    fn run(self, transaction: &mut impl Transaction) -> Result<AllocationInfo, Failure> {
        let schedule = Schedule {
            limit: Limit::Iterations(100),
            warmup: 3,
            gap: 1_000,
        };
        let mut patience = Patience::new(&Alone);
        let mut recorder = Recorder::new(Some(100))?;
        // With its first packet the software NIC opens a way to the peer.
        transaction.iterate(&MonotonicRaw, &mut patience)?;
        let mut result = Ok(());
        let info = allocation_counter::measure(|| {
            result = repeat(
                transaction,
                &MonotonicRaw,
                schedule,
                &mut patience,
                |sample| recorder.record(sample),
            );
        });
        assert_eq!(recorder.samples().map(<[u64]>::len), Some(100));
        result.map(|()| info)
    }
}

fn allocates_nothing<B: OneSidedLatency>(tool: &str, options: &[&str]) {
    let plan = plan(tool, options);
    let endpoint = endpoint(&plan);
    let (mut initiator, target) = both_ends::<B>(&endpoint, &plan.run);
    let counted = B::measure(&mut initiator, &plan.run, plan.run.max_size, Counted).unwrap();
    assert_eq!(counted.count_total, 0, "{tool} {options:?}");
    B::close_initiator(initiator).unwrap();
    B::close_target(target).unwrap();
    endpoint.close().unwrap();
}

#[test]
fn the_loop_allocates_nothing() {
    for options in [
        &["-s", "8"][..],
        &["-s", "224", "--no-ll"],
        &["-s", "8", "--no-idc"],
        &["-s", "192", "--unrestricted"],
        &["-s", "100000", "--unrestricted"],
    ] {
        allocates_nothing::<WriteLat>("write-lat", options);
    }
    allocates_nothing::<ReadLat>("read-lat", &["-s", "100000"]);
    allocates_nothing::<ReadLat>("read-lat", &["--unrestricted"]);
    allocates_nothing::<AtomicLat>("atomic-lat", &["--fetching"]);
    allocates_nothing::<AtomicLat>("atomic-lat", &["--matching"]);
}
