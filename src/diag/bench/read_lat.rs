//! `read-lat`: one-sided RDMA read latency.
//!
//! The client gets from a list entry of the server and waits for the REPLY, the event that reports
//! the data in its buffer. The server's software takes no part.

use cxi::EventType;

use super::api::{Benchmark, Issued, OneSidedLatency, Peer, RepeatTransaction, Visitor};
use super::common::{
    Completion, Direction, Entry, Initiator, NotIssued, Numbering, OneEnd, Reports, Target, measure,
};
use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use measure::Supervisor;
use plan::buffers::Buffer;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;
use plan::tools;

const COMPLETION: Completion = Completion {
    event: EventType::REPLY,
    operation: "read",
};

const NOT_ISSUED: NotIssued = NotIssued(COMPLETION.operation);

/// The benchmark.
pub struct Bench;

impl Benchmark for Bench {
    const TOOL: &'static Tool = &tools::READ_LAT;

    type Resources = OneEnd;

    fn accept<V: Visitor>(visitor: V) -> V::Output {
        visitor.one_sided::<Self>()
    }

    fn set_up(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
        side: Side,
    ) -> Result<OneEnd, Failure> {
        let buffer = Buffer::full(run);
        Ok(match side {
            Side::Client => OneEnd::Initiator(Initiator::new(endpoint, peer, buffer)?),
            Side::Server => {
                let target = Target::new(endpoint, peer.portal, buffer, &[], entry(run))?;
                let numbering = Numbering::of(run, run.min_size);
                numbering.fill_all(&target.buffer, peer.supervisor)?;
                OneEnd::Target(target)
            }
        })
    }

    fn fill(
        resources: &OneEnd,
        run: &RunOptions,
        size: u64,
        supervisor: &dyn Supervisor,
    ) -> Result<(), Failure> {
        match resources {
            OneEnd::Initiator(_) => Ok(()),
            OneEnd::Target(target) => {
                Numbering::of(run, size).fill(&target.buffer, size, supervisor)
            }
        }
    }

    fn check(
        resources: &OneEnd,
        run: &RunOptions,
        size: u64,
        _: Issued,
        supervisor: &dyn Supervisor,
    ) -> Result<u64, Failure> {
        match resources {
            OneEnd::Initiator(initiator) => {
                let (numbering, buffer) = (Numbering::of(run, size), &initiator.buffer);
                numbering.check(buffer, "the client's buffer", [0], size, supervisor)
            }
            OneEnd::Target(_) => Ok(0),
        }
    }

    fn close(resources: OneEnd) -> Result<(), Failure> {
        resources.close()
    }
}

/// Returns the server's list entry: it accepts reads and raises no events.
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

impl OneSidedLatency for Bench {
    fn measure<R: RepeatTransaction>(
        resources: &mut OneEnd,
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let initiator = resources.initiator()?;
        if run.unrestricted {
            // A full DMA command: a NOMATCH command is always restricted (nic.md 3.8), and clearing
            // its bit may have no effect (defect T4 of tools.md).
            let get = initiator.full(Direction::Get, size);
            let get = initiator.transmit.prepare_dma(&get).nic(NOT_ISSUED)?;
            measure(initiator, get, COMPLETION, run.use_ll, repeat)
        } else {
            let get = initiator.nomatch(Direction::Get, size);
            let get = initiator
                .transmit
                .prepare_nomatch_dma(&get)
                .nic(NOT_ISSUED)?;
            measure(initiator, get, COMPLETION, run.use_ll, repeat)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::common::memory;
    use crate::bench::testing::{Alone, ISSUED, Times, both_ends, endpoint};
    use plan::testing::plan;

    /// Each byte arrives at its offset, and no other byte changes.
    #[test]
    fn reads_bytes_of_target() {
        for options in [&["-s", "5000"][..], &["-s", "5000", "--unrestricted"]] {
            let plan = plan("read-lat", options);
            let endpoint = endpoint(&plan);
            let (mut client, server) = both_ends::<Bench>(&endpoint, &plan.run);
            for size in [1, 8, 2048, 4097] {
                memory::clear(&client.initiator().unwrap().buffer, &plan.run).unwrap();
                Bench::measure(&mut client, &plan.run, size, Times(2)).unwrap();
                let mut bytes = [0; 5000];
                let buffer = &client.initiator().unwrap().buffer;
                buffer.copy_out(0, &mut bytes).unwrap();
                let (read, rest) = bytes.split_at(size as usize);
                let numbers = Numbering::of(&plan.run, size).bytes(size);
                assert_eq!(read, numbers, "{size} {options:?}");
                assert!(rest.iter().all(|byte| *byte == 0), "{size}");
                assert_eq!(
                    Bench::check(&client, &plan.run, size, ISSUED, &Alone).unwrap(),
                    size
                );
                Bench::check(&client, &plan.run, size + 1, ISSUED, &Alone).unwrap_err();
            }
            Bench::close(client).unwrap();
            Bench::close(server).unwrap();
            endpoint.close().unwrap();
        }
    }
}
