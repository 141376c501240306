//! `write-lat`: one-sided RDMA write latency.
//!
//! The client puts to a list entry of the server and waits for the ACK. The server's NIC raises no
//! event: its software takes no part.

use cxi::{EventType, idc_put_words};

use super::api::{Benchmark, Issued, OneSidedLatency, Peer, RepeatTransaction, Visitor};
use super::common::{
    Completion, Direction, Entry, IdcContext, Initiator, NotIssued, Numbering, OneEnd, PutKind,
    Reports, Target, measure,
};
use crate::endpoint::Endpoint;
use facts::error::{Context, Failure};
use measure::Supervisor;
use plan::buffers::Buffer;
use plan::run_options::{RunOptions, Side};
use plan::tool::Tool;
use plan::tools;

const COMPLETION: Completion = Completion {
    event: EventType::ACK,
    operation: "write",
};

const NOT_ISSUED: NotIssued = NotIssued(COMPLETION.operation);

/// The benchmark.
pub struct Bench;

impl Benchmark for Bench {
    const TOOL: &'static Tool = &tools::WRITE_LAT;

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
        Ok(match side {
            Side::Client => OneEnd::Initiator(initiator(endpoint, peer, run)?),
            Side::Server => OneEnd::Target(Target::new(
                endpoint,
                peer.portal,
                Buffer::full(run),
                &[],
                entry(run),
            )?),
        })
    }

    fn fill(
        resources: &OneEnd,
        run: &RunOptions,
        size: u64,
        supervisor: &dyn Supervisor,
    ) -> Result<(), Failure> {
        match resources {
            OneEnd::Initiator(initiator) => {
                Numbering::of(run, size).fill(&initiator.buffer, size, supervisor)
            }
            OneEnd::Target(_) => Ok(()),
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
            OneEnd::Initiator(_) => Ok(0),
            OneEnd::Target(target) => {
                let numbering = Numbering::of(run, size);
                numbering.check(&target.buffer, "the target buffer", [0], size, supervisor)
            }
        }
    }

    fn close(resources: OneEnd) -> Result<(), Failure> {
        resources.close()
    }
}

/// Returns the server's list entry: it accepts writes and raises no events.
fn entry(run: &RunOptions) -> Entry {
    Entry {
        put: true,
        get: false,
        matching: None,
        reports: Reports::Nothing,
        relaxed: run.relaxes_writes(),
        buffer_id: 0,
    }
}

fn initiator(endpoint: &Endpoint, peer: Peer<'_>, run: &RunOptions) -> Result<Initiator, Failure> {
    let mut initiator = Initiator::new(endpoint, peer, Buffer::full(run))?;
    Numbering::of(run, run.min_size).fill_all(&initiator.buffer, peer.supervisor)?;
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

impl OneSidedLatency for Bench {
    fn measure<R: RepeatTransaction>(
        resources: &mut OneEnd,
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
                let put = initiator
                    .transmit
                    .prepare_nomatch_dma(&put)
                    .nic(NOT_ISSUED)?;
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
    measure(
        initiator,
        put.nic(NOT_ISSUED)?,
        COMPLETION,
        run.use_ll,
        repeat,
    )
}
