//! `read-lat`: one-sided RDMA read latency.
//!
//! The client gets from a list entry of the server and waits for the REPLY, the event that reports
//! the data in its buffer. The server's software takes no part.

use cxi::EventType;

use super::api::{BenchmarkTask, OneSidedLatency, Peer, RepeatTransaction};
use super::common::{
    CompletionEvent, Direction, Initiator, NotIssued, OneSided, SideResources, failed_full_get,
    measure,
};
use facts::error::{Context, Failure};
use plan::buffers::Buffer;
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::tools;

const COMPLETION: CompletionEvent = CompletionEvent { event: EventType::REPLY, operation: "read" };

const NOT_ISSUED: NotIssued = NotIssued(COMPLETION.operation);

/// The benchmark.
pub struct ReadLatency;

impl OneSided for ReadLatency {
    const TOOL: &'static Tool = &tools::READ_LAT;
    const MOVES: Option<Direction> = Some(Direction::Get);

    type Initiator = Initiator;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.one_sided::<Self>()
    }

    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<Initiator, Failure> {
        Initiator::new(peer, Buffer::full(run))
    }
}

impl OneSidedLatency for ReadLatency {
    fn measure<R: RepeatTransaction>(
        resources: &mut SideResources<Initiator>,
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
            measure(initiator, get, COMPLETION, run.use_ll, repeat).map_err(failed_full_get)
        } else {
            let get = initiator.nomatch(Direction::Get, size);
            let get = initiator.transmit.prepare_nomatch_dma(&get).nic(NOT_ISSUED)?;
            measure(initiator, get, COMPLETION, run.use_ll, repeat)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::api::Benchmark;
    use crate::bench::common::{Numbering, memory};
    use crate::bench::testing::{ISSUED, Times, both_ends, endpoint, size_of_run};
    use plan::testing::plan;

    /// Each byte arrives at its offset, and no other byte changes.
    #[test]
    fn reads_bytes_of_target() {
        for options in [&["-s", "5000"][..], &["-s", "5000", "--unrestricted"]] {
            let plan = plan("read-lat", options);
            let endpoint = endpoint(&plan);
            let (mut client, server) = both_ends::<ReadLatency>(&endpoint, &plan.run);
            for size in [1, 8, 2048, 4097] {
                memory::clear(&client.initiator().unwrap().buffer, &plan.run).unwrap();
                ReadLatency::measure(&mut client, &plan.run, size, Times(2)).unwrap();
                let mut bytes = [0; 5000];
                let buffer = &client.initiator().unwrap().buffer;
                buffer.copy_out(0, &mut bytes).unwrap();
                let (read, rest) = bytes.split_at(size as usize);
                let numbers = Numbering::of(&plan.run, size).bytes(size);
                assert_eq!(read, numbers, "{size} {options:?}");
                assert!(rest.iter().all(|byte| *byte == 0), "{size}");
                assert_eq!(
                    ReadLatency::check(&client, size_of_run(&plan.run, size), ISSUED).unwrap(),
                    size
                );
                ReadLatency::check(&client, size_of_run(&plan.run, size + 1), ISSUED).unwrap_err();
            }
            ReadLatency::close(client).unwrap();
            ReadLatency::close(server).unwrap();
            endpoint.close().unwrap();
        }
    }
}
