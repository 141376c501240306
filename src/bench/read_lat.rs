//! `read-lat`: one-sided RDMA read latency.
//!
//! The client gets from a list entry of the server and waits for the REPLY, which says that the
//! data is in its buffer. The server's software takes no part.

use cxi::EventType;

use super::api::{Measurement, OneSidedLatency, Peer};
use super::common::memory;
use super::common::{
    Completion, Direction, Endpoint, Entry, FullDma, Initiator, NomatchDma, Reports, Target,
    measure,
};
use crate::error::Failure;
use crate::plan::RunOptions;

const COMPLETION: Completion = Completion {
    event: EventType::REPLY,
    operation: "read",
};

/// The benchmark.
pub struct ReadLat;

impl OneSidedLatency for ReadLat {
    type Initiator = Initiator;
    type Target = Target;

    fn initiator(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
    ) -> Result<Initiator, Failure> {
        Initiator::new(endpoint, peer.address, run.max_size)
    }

    fn target(endpoint: &Endpoint, peer: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        let entry = Entry {
            put: false,
            get: true,
            matching: None,
            reports: Reports::Nothing,
            relaxed: true,
            buffer_id: 0,
        };
        let target = Target::new(endpoint, run.max_size, &[], entry)?;
        target.fill_numbered(peer.supervisor)?;
        Ok(target)
    }

    fn measure<M: Measurement>(
        initiator: &mut Initiator,
        run: &RunOptions,
        size: u64,
        measurement: M,
    ) -> Result<M::Output, Failure> {
        if run.unrestricted {
            // A NOMATCH command is always restricted (nic.md 3.8), so that clearing its bit may
            // change nothing (defect T4 of tools.md): a full DMA command is not.
            let get = FullDma(initiator.full(Direction::Get, size));
            measure(initiator, get, COMPLETION, run.use_ll, measurement)
        } else {
            let get = NomatchDma(initiator.nomatch(Direction::Get, size));
            measure(initiator, get, COMPLETION, run.use_ll, measurement)
        }
    }

    fn check_initiator(initiator: &Initiator, size: u64) -> Result<(), Failure> {
        memory::is_numbered(&initiator.buffer, "the client's buffer", 0, size)
    }

    fn close_initiator(initiator: Initiator) -> Result<(), Failure> {
        initiator.close()
    }

    fn close_target(target: Target) -> Result<(), Failure> {
        target.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::testing::{Times, both_ends, endpoint, plan};

    /// The bytes of the target arrive, each in its place, and nothing but what was asked for.
    #[test]
    fn the_bytes_of_the_target_arrive() {
        for options in [&["-s", "5000"][..], &["-s", "5000", "--unrestricted"]] {
            let plan = plan("read-lat", options);
            let endpoint = endpoint(&plan);
            let (mut initiator, target) = both_ends::<ReadLat>(&endpoint, &plan.run);
            for size in [1, 8, 2048, 4097] {
                initiator.buffer.fill(0);
                ReadLat::measure(&mut initiator, &plan.run, size, Times(2)).unwrap();
                let mut bytes = [0; 5000];
                initiator.buffer.copy_out(0, &mut bytes);
                let (read, rest) = bytes.split_at(size as usize);
                let numbers: Vec<u8> = (0..size).map(memory::numbered).collect();
                assert_eq!(read, numbers, "{size} {options:?}");
                assert!(rest.iter().all(|byte| *byte == 0), "{size}");
                ReadLat::check_initiator(&initiator, size).unwrap();
                ReadLat::check_initiator(&initiator, size + 1).unwrap_err();
            }
            ReadLat::close_initiator(initiator).unwrap();
            ReadLat::close_target(target).unwrap();
            endpoint.close().unwrap();
        }
    }
}
