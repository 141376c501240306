//! `write-lat`: one-sided RDMA write latency.
//!
//! The client puts to a list entry of the server and waits for the ACK. The server's NIC raises no
//! event: its software takes no part.

use cxi::{EventType, idc_put_words};

use super::api::{BenchmarkTask, OneSidedLatency, Peer, RepeatTransaction};
use super::common::{
    CompletionEvent, Direction, IdcContext, Initiator, NotIssued, Numbering, OneSided, PutKind,
    SideResources, measure,
};
use facts::error::{Context, Failure};
use plan::buffers::Buffer;
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::tools;

const COMPLETION: CompletionEvent = CompletionEvent { event: EventType::ACK, operation: "write" };

const NOT_ISSUED: NotIssued = NotIssued(COMPLETION.operation);

/// The benchmark.
pub struct WriteLatency;

impl OneSided for WriteLatency {
    const TOOL: &'static Tool = &tools::WRITE_LAT;
    const MOVES: Option<Direction> = Some(Direction::Put);

    type Initiator = Initiator;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.one_sided::<Self>()
    }

    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<Initiator, Failure> {
        let mut initiator = Initiator::new(peer, Buffer::full(run))?;
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
}

impl OneSidedLatency for WriteLatency {
    fn measure<R: RepeatTransaction>(
        resources: &mut SideResources<Initiator>,
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let initiator = resources.initiator()?;
        match PutKind::of(run, size) {
            // The size of the command is part of the type of the loop.
            PutKind::Immediate => match idc_put_words(size as usize) {
                4 => measure_immediate::<4, R>(initiator, run, size, repeat),
                8 => measure_immediate::<8, R>(initiator, run, size, repeat),
                16 => measure_immediate::<16, R>(initiator, run, size, repeat),
                _ => measure_immediate::<32, R>(initiator, run, size, repeat),
            },
            PutKind::Restricted => {
                let put = initiator.nomatch(Direction::Put, size);
                let put = initiator.transmit.prepare_nomatch_dma(&put).nic(NOT_ISSUED)?;
                measure(initiator, put, COMPLETION, run.use_ll, repeat)
            }
            PutKind::Unrestricted => {
                let put = initiator.full(Direction::Put, size);
                let put = initiator.transmit.prepare_dma(&put).nic(NOT_ISSUED)?;
                measure(initiator, put, COMPLETION, run.use_ll, repeat)
            }
        }
    }
}

/// Measures writes with the payload in the command.
fn measure_immediate<const WORDS: usize, R: RepeatTransaction>(
    initiator: &mut Initiator,
    run: &RunOptions,
    size: u64,
    repeat: R,
) -> Result<R::Output, Failure> {
    let payload = Numbering::of(run, size).bytes(size);
    let transmit = &initiator.transmit;
    let put = transmit.prepare_idc_put::<WORDS>(&initiator.idc_header(), &payload);
    measure(initiator, put.nic(NOT_ISSUED)?, COMPLETION, run.use_ll, repeat)
}
