//! Which options of a tool a survey can measure with.

use crate::targets::TestPlan;
use campaign::quiet::busy::most_waited_percent;
use diag::bench;
use diag::bench::api::{Bandwidth, BenchmarkTask, OneSidedLatency, RoundTripLatency};
use facts::error::Failure;
use node::gpu::OnGpus;
use plan::buffers::Need;
use plan::run_options::{RunOptions, Side, SyncPoint};
use plan::tool::Tool;

impl TestPlan {
    /// The plan if the processes of a pair need no control connection for it.
    ///
    /// # Errors
    ///
    /// An option that needs the peer, or several sizes; one line that names the option.
    pub fn new(tool: &'static Tool, run: RunOptions) -> Result<Self, Failure> {
        let extensions = &run.extensions;
        let bidirectional = run.lists.is_some_and(|lists| lists.bidirectional);
        let refused = [
            (bidirectional, "bidirectional", ONE_DIRECTION),
            (extensions.reverse, "reverse", ONE_DIRECTION),
            (extensions.both_ends, "both-ends", NO_EXCHANGE),
            (extensions.verify, "verify", NO_EXCHANGE),
            (extensions.counters.is_some(), "counters", NO_EXCHANGE),
            (extensions.pairs > 1, "pairs", ONE_QUEUE),
            (extensions.threads > 1, "threads", ONE_QUEUE),
            (run.sync == SyncPoint::Iteration, "legacy-sync", NO_EXCHANGE),
            (extensions.compare_write, "compare-write", "write-lat is a test of its own"),
            (run.report_all, "report-all", "a survey keeps no single samples"),
            (extensions.fan > 0, "fan", "pairs are compared by the latency of a hop"),
            (extensions.posted.is_range(), "posted=MIN:MAX", "each test of a survey has one row"),
            (extensions.unexpected.is_used(), "unexpected", NO_EXCHANGE),
            (run.min_size < run.max_size, "size", "each test of a survey has one size"),
        ];
        match refused.into_iter().find(|(is_used, ..)| *is_used) {
            Some((_, option, why)) => {
                Err(Failure::usage(format!("--{option} is not possible in a survey: {why}")))
            }
            None => Ok(Self {
                tool,
                run,
                class: None,
                max_waited_percent: most_waited_percent(tool.measures_bandwidth()).into(),
            }),
        }
    }

    /// Checks that one NIC can be both ends of the pair.
    ///
    /// # Errors
    ///
    /// A tool whose target needs a process of its own.
    pub fn check_loopback(&self) -> Result<(), Failure> {
        if !is_two_sided(self.tool) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "loopback pairs are not possible with {}: its target needs a process of its own; use a \
             one-sided tool such as write-lat",
            self.tool.name
        )))
    }
}

const ONE_DIRECTION: &str = "each pair is measured in one direction, which its order states";
const NO_EXCHANGE: &str = "the processes of a pair have no connection to each other";
const ONE_QUEUE: &str = "each pair has one queue and one thread";

/// The most memory that the buffers of `tests` need at a time on one NIC, in bytes: the targets of
/// one-sided tools stay open, and one pair is measured at a time.
pub fn buffer_bytes(tests: &[TestPlan]) -> u64 {
    let side_bytes =
        |test: &TestPlan, side| Need::of(test.tool, &test.run, &[side], OnGpus::NONE).bytes();
    let (two_sided, one_sided): (Vec<_>, Vec<_>) =
        tests.iter().partition(|test| is_two_sided(test.tool));
    let initiators = tests.iter().map(|test| side_bytes(test, Side::Client));
    let targets = two_sided.iter().map(|test| side_bytes(test, Side::Server));
    let measuring = initiators.chain(targets).max().unwrap_or_default();
    let open = one_sided.iter().map(|test| side_bytes(test, Side::Server));
    open.fold(measuring, u64::saturating_add)
}

/// Whether software of the target takes part in the operations of `tool`.
pub fn is_two_sided(tool: &Tool) -> bool {
    struct IsTwoSided;

    impl BenchmarkTask for IsTwoSided {
        type Output = bool;

        fn one_sided<B: OneSidedLatency>(self) -> bool {
            false
        }

        fn round_trip<B: RoundTripLatency>(self) -> bool {
            true
        }

        fn bandwidth<B: Bandwidth>(self) -> bool {
            B::ANSWERS
        }
    }

    bench::perform(tool, IsTwoSided)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::testing::plan;
    use plan::tools::peer_tools;

    #[test]
    fn refuses_options_that_need_the_peer() {
        for (tool, option) in [
            ("write-bw", "bidirectional"),
            ("write-bw", "reverse"),
            ("write-bw", "both-ends"),
            ("write-lat", "verify"),
            ("write-lat", "counters"),
            ("write-bw", "pairs=2"),
            ("send-lat", "legacy-sync"),
            ("trig-lat", "compare-write"),
            ("write-lat", "report-all"),
            ("write-lat", "size=8:16"),
            ("trig-lat", "fan=4"),
            ("send-bw", "posted=0:16"),
            ("send-lat", "unexpected=16"),
        ] {
            let typed = format!("--{option}");
            let plan = plan(tool, &[&typed]);
            let message = TestPlan::new(plan.tool, plan.run).unwrap_err().message();
            let name = typed.split('=').next().unwrap();
            assert!(message.starts_with(name) && message.contains(" is not "), "{message}");
        }
        for tool in peer_tools() {
            assert!(TestPlan::new(tool, tool.defaults).is_ok(), "{}", tool.name);
        }
    }

    #[test]
    fn counts_open_targets_and_the_largest_pair() {
        let test = |tool, size: &str| {
            let plan = plan(tool, &["-l", "1", "-s", size]);
            TestPlan::new(plan.tool, plan.run).unwrap()
        };
        let page = rustix::param::page_size() as u64;
        let bytes = |pages: u64| (pages * page).to_string();
        let writes = [1, 4].map(|pages| test("write-bw", &bytes(pages)));
        // Both targets, and the initiator of the larger size.
        assert_eq!(buffer_bytes(&writes), (1 + 4 + 4) * page);
        // Targets of send-bw open for each pair.
        let sends = [1, 4].map(|pages| test("send-bw", &bytes(pages)));
        assert_eq!(buffer_bytes(&sends), 4 * page);
        assert_eq!(buffer_bytes(&[]), 0);
    }

    #[test]
    fn loopback_pairs_need_one_sided_tools() {
        let refused = peer_tools().iter().filter(|tool| {
            let test = TestPlan::new(tool, tool.defaults).unwrap();
            test.check_loopback().is_err()
        });
        let names: Vec<_> = refused.map(|tool| tool.name).collect();
        assert_eq!(names, ["send-lat", "trig-lat", "send-bw"]);
    }
}
