//! The measuring loop allocates no memory: counted by the allocator, on a complete software NIC.

use allocation_counter::AllocationInfo;

use super::size_loop::{Limit, Schedule, repeat};
use crate::bench::api::{
    Bandwidth, Lists, OneSidedLatency, RepeatLists, RepeatTransaction, Transaction,
};
use crate::bench::testing::{Alone, TimesLists, both_ends, endpoint};
use crate::bench::{atomic_bw, atomic_lat, read_bw, read_lat, write_bw, write_lat};
use facts::error::Failure;
use measure::{MonotonicRaw, Recorder, WaitPolicy};
use plan::testing::plan;

/// Counts the allocations of the loop, warm-up included, while samples are kept and published.
struct CountedLoop;

impl RepeatTransaction for CountedLoop {
    type Output = AllocationInfo;

    fn run(self, transaction: &mut impl Transaction) -> Result<AllocationInfo, Failure> {
        let schedule =
            Schedule { limit: Limit::Iterations(100), warmup: 3, gap: 1_000, period: None };
        let mut policy = WaitPolicy::new(&Alone);
        let mut recorder = Recorder::new(Some(100))?.with_live_latencies();
        // The software NIC allocates its path to the peer with the first packet.
        transaction.iterate(&MonotonicRaw, &mut policy)?;
        let mut record = |sample| {
            recorder.record(sample);
            false
        };
        let mut result = Ok(None);
        let info = allocation_counter::measure(|| {
            result = repeat(transaction, &MonotonicRaw, schedule, &mut policy, &mut record);
        });
        assert_eq!(recorder.samples().map(<[u64]>::len), Some(100));
        result.map(|_| info)
    }
}

impl RepeatLists for CountedLoop {
    type Output = AllocationInfo;

    fn run(self, pairs: &mut [impl Lists]) -> Result<AllocationInfo, Failure> {
        TimesLists(1).run(pairs)?;
        let mut result = Ok(());
        let info = allocation_counter::measure(|| result = TimesLists(20).run(pairs));
        result.map(|()| info)
    }
}

fn allocates_nothing<B: OneSidedLatency>(tool: &str, options: &[&str]) {
    let plan = plan(tool, options);
    let endpoint = endpoint(&plan);
    let (mut client, server) = both_ends::<B>(&endpoint, &plan.run);
    let counted = B::measure(&mut client, &plan.run, plan.run.max_size, CountedLoop).unwrap();
    assert_eq!(counted.count_total, 0, "{tool} {options:?}");
    B::close(client).unwrap();
    B::close(server).unwrap();
    endpoint.close().unwrap();
}

#[test]
fn measuring_loop_allocates_nothing() {
    for options in [
        &["-s", "8"][..],
        &["-s", "224", "--no-ll"],
        &["-s", "8", "--no-idc"],
        &["-s", "192", "--unrestricted"],
        &["-s", "100000", "--unrestricted"],
    ] {
        allocates_nothing::<write_lat::WriteLatency>("write-lat", options);
    }
    allocates_nothing::<read_lat::ReadLatency>("read-lat", &["-s", "100000"]);
    allocates_nothing::<read_lat::ReadLatency>("read-lat", &["--unrestricted"]);
    allocates_nothing::<atomic_lat::AtomicLatency>("atomic-lat", &["--fetching"]);
    allocates_nothing::<atomic_lat::AtomicLatency>("atomic-lat", &["--matching"]);
}

fn lists_allocate_nothing<B: Bandwidth>(tool: &str, options: &[&str]) {
    let plan = plan(tool, options);
    let endpoint = endpoint(&plan);
    let (client, server) = both_ends::<B>(&endpoint, &plan.run);
    let mut pairs = [client];
    let counted = B::measure(&mut pairs, &plan.run, plan.run.max_size, CountedLoop).unwrap();
    assert_eq!(counted.count_total, 0, "{tool} {options:?}");
    pairs.into_iter().for_each(|pair| B::close(pair).unwrap());
    B::close(server).unwrap();
    endpoint.close().unwrap();
}

#[test]
fn lists_of_operations_allocate_nothing() {
    for options in [
        &["-s", "8", "-l", "20"][..],
        &["-s", "2048", "-l", "20"],
        &["-s", "4096", "-l", "20", "--unrestricted"],
    ] {
        lists_allocate_nothing::<write_bw::WriteBandwidth>("write-bw", options);
    }
    lists_allocate_nothing::<read_bw::ReadBandwidth>("read-bw", &["-s", "4096", "-l", "20"]);
    for options in [
        &["-l", "20"][..],
        &["-l", "20", "-A", "SWAP", "--no-idc"],
        &["-l", "20", "--fetching", "--matching"],
    ] {
        lists_allocate_nothing::<atomic_bw::AtomicBandwidth>("atomic-bw", options);
    }
}
