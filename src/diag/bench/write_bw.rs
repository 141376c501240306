//! `write-bw`: one-sided RDMA write bandwidth, in one direction or both.
//!
//! A side puts lists to an entry of the peer; its NIC counts the acknowledgements. The target's NIC
//! raises no events: its software takes no part.

use super::api::{Bandwidth, BenchmarkTask, Peer, RepeatLists};
use super::common::lists::{ListInitiator, Words};
use super::common::{
    Direction, IdcContext, ImmediatePut, ListOffsets, Numbering, OneSided, PutKind, RestrictedDma,
    SideResources, UnrestrictedDma, measure_lists,
};
use facts::error::Failure;
use plan::buffers::Buffer;
use plan::run_options::RunOptions;
use plan::tool::Tool;
use plan::tools;

/// Names of the operations, for messages.
const WORDS: Words = Words { operation: "write", doing: "writing" };

/// The benchmark.
pub struct WriteBandwidth;

impl OneSided for WriteBandwidth {
    const TOOL: &'static Tool = &tools::WRITE_BW;
    const MOVES: Option<Direction> = Some(Direction::Put);

    type Initiator = ListInitiator;

    fn perform<T: BenchmarkTask>(task: T) -> T::Output {
        task.bandwidth::<Self>()
    }

    fn initiator(peer: Peer<'_>, run: &RunOptions) -> Result<ListInitiator, Failure> {
        let list_size = run.lists()?.list_size.into();
        let mut lists = ListInitiator::new(peer, Buffer::full(run), list_size, WORDS)?;
        if peer.own.hrp(run).is_on() {
            lists.allow_high_rate(peer.own, run.min_size)?;
        }
        if run.use_idc {
            let counter = lists.counter();
            lists.initiator.set_idc_context(IdcContext {
                restricted: !run.unrestricted,
                fetching: false,
                silent: true,
                counter: Some(counter),
            })?;
        }
        Ok(lists)
    }
}

impl Bandwidth for WriteBandwidth {
    fn measure<R: RepeatLists>(
        pairs: &mut [SideResources<ListInitiator>],
        run: &RunOptions,
        size: u64,
        repeat: R,
    ) -> Result<R::Output, Failure> {
        let offsets = ListOffsets::new(run, size)?;
        for resources in &mut *pairs {
            resources.initiator()?.select_profile(size)?;
        }
        match PutKind::of(run, size) {
            PutKind::Immediate => {
                let numbering = Numbering::of(run, size);
                let put =
                    |lists: &ListInitiator| ImmediatePut::new(&lists.initiator, size, numbering);
                measure_lists(pairs, offsets, put, repeat)
            }
            PutKind::Restricted => {
                let put = |lists: &ListInitiator| RestrictedDma::new(lists, Direction::Put, size);
                measure_lists(pairs, offsets, put, repeat)
            }
            PutKind::Unrestricted => {
                let put = |lists: &ListInitiator| UnrestrictedDma::new(lists, Direction::Put, size);
                measure_lists(pairs, offsets, put, repeat)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::bench::api::Benchmark;
    use crate::bench::testing::{ISSUED, TimesLists, both_ends, endpoint, size_of_run};
    use plan::testing::plan;

    /// The software NIC refuses High Rate Puts of more than 2048 bytes.
    #[test]
    fn t5_selects_high_rate_puts_for_each_size() {
        for (options, uses_high_rate) in [(&[][..], true), (&["--no-hrp"], false)] {
            let options = [&["-s", "1024:8192", "-l", "3"], options].concat();
            let plan = plan("write-bw", &options);
            let endpoint = endpoint(&plan);
            let (mut client, server) = both_ends::<WriteBandwidth>(&endpoint, &plan.run);
            for size in [1024, 2048, 4096, 8192] {
                let pairs = slice::from_mut(&mut client);
                WriteBandwidth::fill(&pairs[0], size_of_run(&plan.run, size)).unwrap();
                WriteBandwidth::measure(pairs, &plan.run, size, TimesLists(2)).unwrap();
                let checked = WriteBandwidth::check(&server, size_of_run(&plan.run, size), ISSUED);
                assert_eq!(checked.unwrap(), 3 * size);
            }
            let lists = client.initiator().unwrap();
            lists.select_profile(2048).unwrap();
            let offsets = ListOffsets::new(&plan.run, 4096).unwrap();
            let put = |lists: &ListInitiator| RestrictedDma::new(lists, Direction::Put, 4096);
            let pairs = slice::from_mut(&mut client);
            let written = measure_lists(pairs, offsets, put, TimesLists(1));
            match written {
                Ok(()) => assert!(!uses_high_rate),
                Err(failure) => {
                    let message = failure.message();
                    assert!(message.contains("HRP_CONFIG_ERROR"), "{message}");
                    assert!(uses_high_rate);
                }
            }
            WriteBandwidth::close(client).unwrap();
            WriteBandwidth::close(server).unwrap();
            endpoint.close().unwrap();
        }
    }
}
