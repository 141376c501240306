//! The tests by their tools: which code of a tool measures a pair.

use std::slice;
use std::time::Duration;

use super::test::{MeasurePair, NicTest, ServePair, TestOf, TestPlan, latency, rates};
use diag::bench;
use diag::bench::api::{Bandwidth, Benchmark, BenchmarkTask, OneSidedLatency, RoundTripLatency};
use diag::run::compiled;
use diag::run::context::LoopContext;
use diag::run::results::BandwidthResults;
use facts::error::Failure;
use plan::run_options::RunOptions;

/// The first portal index of targets that stay open. Two-sided tools use the indices below it.
pub(super) const FIRST_PORTAL: u32 = 16;

/// The portal index of the target of test number `index`, if the test is one-sided.
pub fn portal(index: usize) -> u32 {
    FIRST_PORTAL + index as u32
}

/// Returns test number `index`, which measures a pair for the time `pair`.
pub fn test(index: usize, plan: TestPlan, pair: Duration) -> Box<dyn NicTest> {
    let mut run = plan.run;
    run.set_duration(pair);
    bench::perform(
        plan.tool,
        Make {
            run,
            max_waited_percent: plan.max_waited_percent,
            fills_links: plan.tool.measures_bandwidth(),
            pair,
            portal: portal(index),
        },
    )
}

struct Make {
    run: RunOptions,
    max_waited_percent: f64,
    fills_links: bool,
    pair: Duration,
    portal: u32,
}

impl Make {
    fn test<B: Benchmark>(
        self,
        measure: MeasurePair<B>,
        serve: Option<ServePair<B>>,
    ) -> Box<dyn NicTest> {
        let portal = if serve.is_some() { 0 } else { self.portal };
        Box::new(TestOf::<B> {
            run: self.run,
            max_waited_percent: self.max_waited_percent,
            fills_links: self.fills_links,
            pair: self.pair,
            portal,
            measure,
            serve,
            target: None,
        })
    }
}

impl BenchmarkTask for Make {
    type Output = Box<dyn NicTest>;

    fn one_sided<B: OneSidedLatency>(self) -> Self::Output {
        let measure: MeasurePair<B> = |context, resources, instruments| {
            latency(context.run, instruments, |samples| {
                let measure = compiled::measure_one_sided::<B>();
                measure(context, resources, context.run.min_size, samples)
            })
        };
        self.test::<B>(measure, None)
    }

    fn round_trip<B: RoundTripLatency>(self) -> Self::Output {
        let measure: MeasurePair<B> = |context, resources, instruments| {
            latency(context.run, instruments, |samples| {
                let measure = compiled::measure_round_trip::<B>();
                measure(context, resources, context.run.min_size, samples).map(drop)
            })
        };
        let serve: ServePair<B> = |context, resources| {
            compiled::serve_round_trip::<B>()(context, resources, context.run.min_size)?;
            Ok(1)
        };
        self.test::<B>(measure, Some(serve))
    }

    fn bandwidth<B: Bandwidth>(self) -> Self::Output {
        let measure: MeasurePair<B> = |context, resources, _| {
            let results = lists::<B>(context, resources)?;
            let list_size = u64::from(context.run.lists()?.list_size);
            let figures = rates(context.run, &results.own);
            Ok((figures, results.issued / list_size))
        };
        let serve: ServePair<B> = |context, resources| {
            let results = lists::<B>(context, resources)?;
            Ok(results.gauge.get().0)
        };
        self.test::<B>(measure, B::ANSWERS.then_some(serve))
    }
}

/// Runs the part of this side in lists of operations.
pub fn lists<B: Bandwidth>(
    context: &LoopContext<'_>,
    resources: &mut B::Resources,
) -> Result<BandwidthResults, Failure> {
    let part = B::part(context.run, context.side);
    let mut results = BandwidthResults::new(part, context.side, false, false);
    let pairs = slice::from_mut(resources);
    compiled::measure_lists::<B>()(context, pairs, context.run.min_size, &mut results)?;
    Ok(results)
}
