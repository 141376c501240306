//! `loopback-bw`: bandwidth of a NIC that writes to itself, in one process (node-tools.md 4.2).
//!
//! All writes of a list have the same source and the same target. The NIC counts the
//! acknowledgements.

use super::api::{Bandwidth, BenchmarkTask, Peer, RepeatLists};
use super::common::lists::{ListInitiator, Words};
use super::common::{
    Direction, Entry, ListOffsets, OneSided, RestrictedDma, SideResources, Target, WriteOrder,
    measure_lists,
};
use facts::error::Failure;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::tools;

/// Names of the operations, for messages.
const WORDS: Words = Words { operation: "write", doing: "writing" };

/// The benchmark.
pub struct LoopbackBandwidth;

impl OneSided for LoopbackBandwidth {
    const TOOL: &'static Tool = &tools::LOOPBACK_BW;
    const MOVES: Option<Direction> = Some(Direction::Put);

    type Initiator = ListInitiator;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.bandwidth::<Self>()
    }

    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<ListInitiator, Failure> {
        let list_size = run.lists()?.list_size.into();
        ListInitiator::new(peer, Buffer::full(run), list_size, WORDS)
    }

    fn target(peer: Peer<'_>, run: &RunOptions) -> Result<Target, Failure> {
        Target::new(peer, run, Buffer::full(run), &[], entry(run))
    }
}

/// The list entry. The legacy tool, too, relaxes the order of the last write only.
fn entry(run: &RunOptions) -> Entry {
    Entry {
        order: if run.relaxes_writes() { WriteOrder::RelaxedAtEnd } else { WriteOrder::Strict },
        ..Entry::for_puts(run)
    }
}

impl Bandwidth for LoopbackBandwidth {
    fn measure<R: RepeatLists>(
        pairs: &mut [SideResources<ListInitiator>],
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let put = |lists: &ListInitiator| RestrictedDma::new(lists, Direction::Put, size);
        measure_lists(pairs, ListOffsets::new(run, size)?, put, repeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::testing::plan;

    /// node-tools.md 4.2: no BODY_RO and END_RO, but ignore_bits 1.
    #[test]
    fn entry_relaxes_the_last_write_only() {
        for (options, ignored) in [(&[][..], 1), (&["--verify"], 0)] {
            let command = entry(&plan("loopback-bw", options).run).command();
            assert_eq!(command.ignore_bits(), ignored, "{options:?}");
            assert!(!command.unrestricted_body_ro() && !command.unrestricted_end_ro());
            assert!(command.event_success_disable() && command.event_comm_disable());
            assert!(command.event_unlink_disable() && command.op_put() && !command.op_get());
        }
    }
}
