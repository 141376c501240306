//! Both sides of a benchmark in one process: an endpoint that addresses itself on the software NIC.

use std::time::Duration;

use super::api::{
    Benchmark, Issued, Lists, Peer, RepeatLists, RepeatTransaction, SizeOfRun, Transaction,
};
use super::common::PORTAL_INDEX;
use crate::endpoint::Endpoint;
use facts::error::Failure;
use measure::{MonotonicRaw, Supervisor, WaitPolicy};
use node::backend;
use plan::Plan;
use plan::run_options::{RunOptions, Side};

pub fn endpoint(plan: &Plan) -> Endpoint {
    let device = backend::open(plan.device, None).unwrap();
    Endpoint::new(plan.site(), None, device).unwrap()
}

/// The resources of client and server of `B`, on one endpoint.
pub fn both_ends<B: Benchmark>(
    endpoint: &Endpoint,
    run: &RunOptions,
) -> (B::Resources, B::Resources) {
    let peer = Peer {
        own: endpoint,
        address: endpoint.address().address,
        portal: PORTAL_INDEX,
        supervisor: &Alone,
    };
    let server = B::set_up(peer, run, Side::Server).unwrap();
    (B::set_up(peer, run, Side::Client).unwrap(), server)
}

/// A size of `run`, whose peer does not end.
pub fn size_of_run(run: &RunOptions, size: u64) -> SizeOfRun<'_> {
    SizeOfRun { run, size, supervisor: &Alone }
}

/// The iterations of both sides, where only those that have issued none matter.
pub const ISSUED: Issued = Issued { own: 1, peer: Some(1) };

/// Repeats the transaction this many times.
pub struct Times(pub u64);

impl RepeatTransaction for Times {
    type Output = ();

    fn run(self, transaction: &mut impl Transaction) -> Result<(), Failure> {
        let mut policy = WaitPolicy::new(&Alone);
        for _ in 0..self.0 {
            transaction.iterate(&MonotonicRaw, &mut policy)?;
        }
        Ok(())
    }
}

/// Repeats the lists of all pairs this many times.
pub struct TimesLists(pub u64);

impl RepeatLists for TimesLists {
    type Output = ();

    fn run(self, pairs: &mut [impl Lists]) -> Result<(), Failure> {
        for lists in pairs {
            while lists.issued() < self.0 {
                lists.step()?;
            }
            assert!(!lists.are_under_way()?);
        }
        Ok(())
    }
}

/// The supervisor of a test without a peer.
pub struct Alone;

impl Supervisor for Alone {
    fn peer_is_there(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn slow(&self, _: &str, _: u64, _: u64) {}

    fn no_answer(&self, operation: &str, _: Duration) -> Failure {
        Failure::nic(format!("no answer to a {operation}"))
    }
}
