//! `read-bw`: one-sided RDMA read bandwidth, in one direction or both.
//!
//! A side gets lists from an entry of the peer; its NIC counts the replies, which report the data
//! in its buffer. The target's NIC raises no events: its software takes no part.

use super::api::{Bandwidth, BenchmarkTask, Peer, RepeatLists};
use super::common::lists::{ListInitiator, Words};
use super::common::{
    Direction, ListOffsets, OneSided, RestrictedDma, SideResources, UnrestrictedDma,
    failed_full_get, measure_lists,
};
use facts::error::Failure;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::tools;

/// Names of the operations, for messages.
const WORDS: Words = Words { operation: "read", doing: "reading" };

/// The benchmark.
pub struct ReadBandwidth;

impl OneSided for ReadBandwidth {
    const TOOL: &'static Tool = &tools::READ_BW;
    const MOVES: Option<Direction> = Some(Direction::Get);

    type Initiator = ListInitiator;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.bandwidth::<Self>()
    }

    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<ListInitiator, Failure> {
        let list_size = run.lists()?.list_size.into();
        ListInitiator::new(peer, Buffer::full(run), list_size, WORDS)
    }
}

impl Bandwidth for ReadBandwidth {
    fn measure<R: RepeatLists>(
        pairs: &mut [SideResources<ListInitiator>],
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let offsets = ListOffsets::new(run, size)?;
        if run.unrestricted {
            // A full DMA command: a NOMATCH command is always restricted (nic.md 3.8), and clearing
            // its bit may have no effect (defect T4 of tools.md).
            let get = |lists: &ListInitiator| UnrestrictedDma::new(lists, Direction::Get, size);
            measure_lists(pairs, offsets, get, repeat).map_err(failed_full_get)
        } else {
            let get = |lists: &ListInitiator| RestrictedDma::new(lists, Direction::Get, size);
            measure_lists(pairs, offsets, get, repeat)
        }
    }
}
