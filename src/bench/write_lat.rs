//! `write-lat`: one-sided RDMA write latency.
//!
//! The client puts to a list entry of the server and waits for the ACK. The server's NIC raises no
//! event: its software takes no part.

use cxi::records::IdcHdr;
use cxi::{EmitError, EventType, IDC_MAX_RESTRICTED, IDC_MAX_UNRESTRICTED, TransmitBatch};

use super::api::{Measurement, OneSidedLatency, Peer};
use super::common::memory;
use super::common::{
    Command, Completion, Direction, Endpoint, Entry, FullDma, IdcContext, Initiator, NomatchDma,
    Reports, Target, measure,
};
use crate::error::Failure;
use crate::plan::RunOptions;

const COMPLETION: Completion = Completion {
    event: EventType::ACK,
    operation: "write",
};

/// The benchmark.
pub struct WriteLat;

impl OneSidedLatency for WriteLat {
    type Initiator = Initiator;
    type Target = Target;

    fn initiator(
        endpoint: &Endpoint,
        peer: Peer<'_>,
        run: &RunOptions,
    ) -> Result<Initiator, Failure> {
        let mut initiator = Initiator::new(endpoint, peer.address, run.max_size)?;
        memory::fill_numbered(&initiator.buffer, peer.supervisor)?;
        if run.use_idc {
            initiator.set_idc_context(IdcContext {
                restricted: !run.unrestricted,
                fetching: false,
                silent: false,
                counter: None,
            })?;
        }
        Ok(initiator)
    }

    fn target(endpoint: &Endpoint, _: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        let entry = Entry {
            put: true,
            get: false,
            matching: None,
            reports: Reports::Nothing,
            relaxed: true,
            buffer_id: 0,
        };
        Target::new(endpoint, run.max_size, &[], entry)
    }

    fn measure<M: Measurement>(
        initiator: &mut Initiator,
        run: &RunOptions,
        size: u64,
        measurement: M,
    ) -> Result<M::Output, Failure> {
        match way(run, size) {
            Way::Immediate => {
                let put = IdcPut {
                    header: initiator.idc_header(),
                    payload: std::array::from_fn(|at| memory::numbered(at as u64)),
                    length: size as usize,
                };
                measure(initiator, put, COMPLETION, run.use_ll, measurement)
            }
            Way::Restricted => {
                let put = NomatchDma(initiator.nomatch(Direction::Put, size));
                measure(initiator, put, COMPLETION, run.use_ll, measurement)
            }
            Way::Unrestricted => {
                let put = FullDma(initiator.full(Direction::Put, size));
                measure(initiator, put, COMPLETION, run.use_ll, measurement)
            }
        }
    }

    fn check_target(target: &Target, size: u64) -> Result<(), Failure> {
        target.is_numbered(size)
    }

    fn close_initiator(initiator: Initiator) -> Result<(), Failure> {
        initiator.close()
    }

    fn close_target(target: Target) -> Result<(), Failure> {
        target.close()
    }
}

/// The command of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Immediate data.
    Immediate,
    /// DMA, restricted.
    Restricted,
    /// DMA, unrestricted. A NOMATCH command is always restricted (nic.md 3.8), so that clearing its
    /// bit may change nothing (defect T4 of tools.md): a full DMA command is not.
    Unrestricted,
}

/// Each size decides for itself (defect T5 of tools.md).
fn way(run: &RunOptions, size: u64) -> Way {
    let limit = if run.unrestricted {
        IDC_MAX_UNRESTRICTED
    } else {
        IDC_MAX_RESTRICTED
    };
    if run.use_idc && size <= limit as u64 {
        Way::Immediate
    } else if run.unrestricted {
        Way::Unrestricted
    } else {
        Way::Restricted
    }
}

/// The payload travels in the command.
struct IdcPut {
    header: IdcHdr,
    payload: [u8; IDC_MAX_RESTRICTED],
    length: usize,
}

impl Command for IdcPut {
    #[inline(always)]
    fn emit(&self, batch: &mut TransmitBatch<'_>) -> Result<(), EmitError> {
        batch.emit_idc_put(&self.header, &self.payload[..self.length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::TOOLS;

    #[test]
    fn t4_t5_each_size_of_a_range_decides_for_itself() {
        let run = RunOptions {
            min_size: 1,
            max_size: 4096,
            ..TOOLS[0].defaults
        };
        assert_eq!(way(&run, 224), Way::Immediate);
        assert_eq!(way(&run, 225), Way::Restricted);
        let unrestricted = RunOptions {
            unrestricted: true,
            ..run
        };
        assert_eq!(way(&unrestricted, 192), Way::Immediate);
        assert_eq!(way(&unrestricted, 193), Way::Unrestricted);
        let without = RunOptions {
            use_idc: false,
            ..run
        };
        assert_eq!(way(&without, 1), Way::Restricted);
    }
}
