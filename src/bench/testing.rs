//! A benchmark on both ends of one process: an endpoint that addresses itself on the software NIC.

use std::ffi::OsString;

use super::TOOLS;
use super::api::{Measurement, OneSidedLatency, Peer, Transaction};
use super::common::Endpoint;
use crate::backend;
use crate::cli::{self, Request};
use crate::error::Failure;
use crate::plan::{Plan, RunOptions};
use crate::run::{MonotonicRaw, Patience, Supervisor};
use crate::session::Address;

/// The plan of a client of `tool` with these options.
pub fn plan(tool: &str, options: &[&str]) -> Plan {
    let tool = TOOLS.iter().find(|other| other.name == tool).unwrap();
    let arguments = [&["127.0.0.1", "-d", "soft90"], options].concat();
    match cli::parse(tool, arguments.into_iter().map(OsString::from).collect()) {
        Ok(Request::Run(typed)) => Plan::new(tool, tool.name.into(), *typed, None).unwrap(),
        _ => panic!("options of a run"),
    }
}

/// A place on the fabric for `plan`.
pub fn endpoint(plan: &Plan) -> Endpoint {
    Endpoint::new(plan, None, backend::open(plan).unwrap()).unwrap()
}

/// Initiator and target of `B` on one endpoint.
pub fn both_ends<B: OneSidedLatency>(
    endpoint: &Endpoint,
    run: &RunOptions,
) -> (B::Initiator, B::Target) {
    let own = endpoint.address();
    let address = Address {
        nic: own.nic,
        pid: own.pid,
    };
    let peer = Peer {
        address,
        supervisor: &Alone,
    };
    let target = B::target(endpoint, peer, run).unwrap();
    (B::initiator(endpoint, peer, run).unwrap(), target)
}

/// Repeats the transaction so many times.
pub struct Times(pub u64);

impl Measurement for Times {
    type Output = ();

    fn run(self, transaction: &mut impl Transaction) -> Result<(), Failure> {
        let mut patience = Patience::new(&Alone);
        for _ in 0..self.0 {
            transaction.iterate(&MonotonicRaw, &mut patience)?;
        }
        Ok(())
    }
}

/// There is no peer to lose.
pub struct Alone;

impl Supervisor for Alone {
    fn peer_is_there(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn slow(&self, _: &str, _: u64, _: u64) {}

    fn no_answer(&self, operation: &str, _: u64) -> Failure {
        Failure::nic(format!("no answer to a {operation}"))
    }
}
