//! The measuring loops of the tools, compiled in this package. Where another package names the
//! generic functions, it compiles them again, and all loops that they contain.

use std::any::Any;
use std::marker::PhantomData;

use crate::bench::api::{Bandwidth, Benchmark, OneSidedLatency, RoundTripLatency};
use crate::bench::atomic_bw::AtomicBandwidth;
use crate::bench::atomic_lat::AtomicLatency;
use crate::bench::loopback_bw::LoopbackBandwidth;
use crate::bench::read_bw::ReadBandwidth;
use crate::bench::read_lat::ReadLatency;
use crate::bench::send_bw::SendBandwidth;
use crate::bench::send_lat::SendLatency;
use crate::bench::trig_lat::TriggeredLatency;
use crate::bench::write_bw::WriteBandwidth;
use crate::bench::write_lat::WriteLatency;
use crate::run::context::LoopContext;
use crate::run::results::{BandwidthResults, ExtraMedians, Samples};
use crate::run::{bandwidth, latency};
use facts::error::Failure;

type Resources<B> = <B as Benchmark>::Resources;

/// Measures operations of this size with these resources, and records their latencies. Returns what
/// a tool of the kind measures besides.
pub type MeasureLatency<B, Besides> =
    fn(&LoopContext<'_>, &mut Resources<B>, u64, Samples<'_>) -> Result<Besides, Failure>;

/// Answers messages of this size.
pub type ServeMessages<B> = fn(&LoopContext<'_>, &mut Resources<B>, u64) -> Result<(), Failure>;

/// Measures lists of operations of this size on these pairs of queues.
pub type MeasureLists<B> =
    fn(&LoopContext<'_>, &mut [Resources<B>], u64, &mut BandwidthResults) -> Result<(), Failure>;

/// A function for a benchmark. Benchmarks with the same resources have functions of one type.
struct Compiled<B, F>(PhantomData<B>, F);

/// One of these functions: the one for a benchmark that is known as a type only.
macro_rules! compiled {
    ($module:ident::$function:ident as $of:ty: $($bench:ident as $one:ty),*) => {{
        static ALL: &[&(dyn Any + Send + Sync)] =
            &[$(&Compiled::<$bench, $one>(PhantomData, $module::$function::<$bench>)),*];
        let mut all = ALL.iter();
        let found = all.find_map(|one| one.downcast_ref::<Compiled<B, $of>>());
        found.expect("all benchmarks of the kind").1
    }};
}

/// See [`latency::measure_one_sided`].
pub fn measure_one_sided<B: OneSidedLatency>() -> MeasureLatency<B, ()> {
    compiled!(
        latency::measure_one_sided as MeasureLatency<B, ()>:
            WriteLatency as MeasureLatency<WriteLatency, ()>,
            ReadLatency as MeasureLatency<ReadLatency, ()>,
            AtomicLatency as MeasureLatency<AtomicLatency, ()>
    )
}

/// See [`latency::measure_round_trips`].
pub fn measure_round_trip<B: RoundTripLatency>() -> MeasureLatency<B, ExtraMedians> {
    compiled!(
        latency::measure_round_trips as MeasureLatency<B, ExtraMedians>:
            SendLatency as MeasureLatency<SendLatency, ExtraMedians>,
            TriggeredLatency as MeasureLatency<TriggeredLatency, ExtraMedians>
    )
}

/// See [`latency::serve_round_trips`].
pub fn serve_round_trip<B: RoundTripLatency>() -> ServeMessages<B> {
    compiled!(
        latency::serve_round_trips as ServeMessages<B>:
            SendLatency as ServeMessages<SendLatency>,
            TriggeredLatency as ServeMessages<TriggeredLatency>
    )
}

/// See [`bandwidth::measure`].
pub fn measure_lists<B: Bandwidth>() -> MeasureLists<B> {
    compiled!(
        bandwidth::measure as MeasureLists<B>:
            WriteBandwidth as MeasureLists<WriteBandwidth>,
            ReadBandwidth as MeasureLists<ReadBandwidth>,
            AtomicBandwidth as MeasureLists<AtomicBandwidth>,
            SendBandwidth as MeasureLists<SendBandwidth>,
            LoopbackBandwidth as MeasureLists<LoopbackBandwidth>
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench;
    use crate::bench::api::BenchmarkTask;
    use plan::tools::TOOLS;

    struct Find;

    impl BenchmarkTask for Find {
        type Output = ();

        fn one_sided<B: OneSidedLatency>(self) {
            measure_one_sided::<B>();
        }

        fn round_trip<B: RoundTripLatency>(self) {
            measure_round_trip::<B>();
            serve_round_trip::<B>();
        }

        fn bandwidth<B: Bandwidth>(self) {
            measure_lists::<B>();
        }
    }

    #[test]
    fn has_loops_of_each_tool() {
        for tool in TOOLS {
            bench::perform(tool, Find);
        }
    }
}
