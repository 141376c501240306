//! The measuring loop allocates nowhere: on a whole software NIC, counted by the allocator.

use std::ffi::OsString;

use allocation_counter::AllocationInfo;

use super::latency::{Limit, Schedule, repeat};
use super::patience::double::Watching;
use super::{MonotonicRaw, Patience};
use crate::backend;
use crate::bench::TOOLS;
use crate::bench::api::{Measurement, OneSidedLatency, Transaction};
use crate::bench::common::Endpoint;
use crate::bench::write_lat::WriteLat;
use crate::cli::{self, Request};
use crate::error::Failure;
use crate::measure::Recorder;
use crate::plan::Plan;
use crate::session::Address;

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
        let supervisor = Watching::peer(true);
        let mut patience = Patience::new(&supervisor);
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

fn plan(options: &[&str]) -> Plan {
    let tool = &TOOLS[0];
    let arguments = [&["127.0.0.1", "-d", "soft90"], options].concat();
    match cli::parse(tool, arguments.into_iter().map(OsString::from).collect()) {
        Ok(Request::Run(typed)) => Plan::new(tool, tool.name.into(), typed, None).unwrap(),
        _ => panic!("options of a run"),
    }
}

#[test]
fn the_loop_allocates_nothing() {
    for (options, size) in [
        (&[][..], 8),
        (&["--no-ll"], 224),
        (&["--no-idc"], 8),
        (&["--unrestricted"], 192),
        (&["--unrestricted"], 100_000),
    ] {
        let plan = plan(&[options, &["-s", "131072"]].concat());
        // One process on both ends: it writes to itself.
        let endpoint = Endpoint::new(&plan, backend::open(&plan).unwrap()).unwrap();
        let own = endpoint.address();
        let address = Address {
            nic: own.nic,
            pid: own.pid,
        };
        let target = WriteLat::target(&endpoint, address, &plan.run).unwrap();
        let mut initiator = WriteLat::initiator(&endpoint, address, &plan.run).unwrap();
        let counted = WriteLat::measure(&mut initiator, &plan.run, size, Counted).unwrap();
        assert_eq!(counted.count_total, 0, "{options:?} {size}");
        WriteLat::check(&target, size).unwrap();
        WriteLat::close_initiator(initiator).unwrap();
        WriteLat::close_target(target).unwrap();
        endpoint.close().unwrap();
    }
}
