//! `read-bw`: one-sided RDMA read bandwidth, in one direction or both.
//!
//! A side gets lists from an entry of the peer; its NIC counts the replies, which report the data in
//! its buffer. The target's NIC raises no events: its software takes no part.

use super::api::{Bandwidth, Benchmark, Issued, Peer, RepeatLists, Visitor};
use super::common::lists::{self, ListInitiator, Walk, Words};
use super::common::{
    Direction, Ends, Entry, Numbering, Reports, RestrictedDma, Target, UnrestrictedDma,
};
use crate::endpoint::Endpoint;
use facts::error::Failure;
use measure::Supervisor;
use plan::buffers::Buffer;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;
use plan::tools;

/// Names of the operations, for messages.
const WORDS: Words = Words {
    operation: "read",
    doing: "reading",
};

/// The benchmark.
pub struct Bench;

impl Benchmark for Bench {
    const TOOL: &'static Tool = &tools::READ_BW;

    type Resources = Ends;

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        visitor.bandwidth::<Self>()
    }

    fn set_up(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
        side: Side,
    ) -> Result<Ends, Failure> {
        let list_size = run.lists()?.list_size.into();
        let buffer = Buffer::full(run);
        Ends::set_up(
            Self::part(run, side),
            || ListInitiator::new(endpoint, peer, buffer, list_size, WORDS),
            || {
                let target = Target::for_lists(endpoint, peer, run, buffer, &[], entry(run))?;
                Numbering::of(run, run.min_size).fill_all(&target.buffer, peer.supervisor)?;
                Ok(target)
            },
        )
    }

    fn fill(
        resources: &Ends,
        run: &RunOptions,
        size: u64,
        supervisor: &dyn Supervisor,
    ) -> Result<(), Failure> {
        match &resources.target {
            Some(target) => lists::fill(&target.buffer, run, size, supervisor),
            None => Ok(()),
        }
    }

    fn check(
        resources: &Ends,
        run: &RunOptions,
        size: u64,
        issued: Issued,
        supervisor: &dyn Supervisor,
    ) -> Result<u64, Failure> {
        match &resources.initiator {
            Some(lists) if issued.own > 0 => {
                let buffer = &lists.initiator.buffer;
                lists::check(buffer, "the initiator's buffer", run, size, supervisor)
            }
            _ => Ok(0),
        }
    }

    fn close(resources: Ends) -> Result<(), Failure> {
        resources.close()
    }
}

/// Returns the target's list entry: it accepts reads and raises no events.
fn entry(run: &RunOptions) -> Entry {
    Entry {
        put: false,
        get: true,
        matching: None,
        reports: Reports::Nothing,
        relaxed: run.relaxes_writes(),
        buffer_id: 0,
    }
}

impl Bandwidth for Bench {
    const ANSWERS: bool = false;

    fn arrived(resources: &mut Ends, _: &RunOptions) -> Result<Option<u64>, Failure> {
        resources.arrived()
    }

    fn measure<R: RepeatLists>(
        pairs: &mut [Ends],
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let walk = Walk::new(run, size)?;
        if run.unrestricted {
            // A full DMA command: a NOMATCH command is always restricted (nic.md 3.8), and clearing
            // its bit may have no effect (defect T4 of tools.md).
            let get = |lists: &ListInitiator| UnrestrictedDma::new(lists, Direction::Get, size);
            lists::measure(pairs, walk, get, repeat)
        } else {
            let get = |lists: &ListInitiator| RestrictedDma::new(lists, Direction::Get, size);
            lists::measure(pairs, walk, get, repeat)
        }
    }
}
