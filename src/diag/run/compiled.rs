//! The measuring loops of the tools, compiled in this package. Where another package names the
//! generic functions, it compiles them again, and all loops that they contain.

use std::any::Any;

use super::context::LoopContext;
use super::results::{BandwidthResults, ExtraMedians, Samples};
use super::{bandwidth, one_sided, round_trip};
use crate::bench::api::{Bandwidth, Benchmark, OneSidedLatency, RoundTripLatency};
use crate::bench::{
    atomic_bw::AtomicBandwidth, atomic_lat::AtomicLatency, loopback_bw::LoopbackBandwidth,
    read_bw::ReadBandwidth, read_lat::ReadLatency, send_bw::SendBandwidth, send_lat::SendLatency,
    trig_lat::TriggeredLatency, write_bw::WriteBandwidth, write_lat::WriteLatency,
};
use facts::error::Failure;

type Resources<B> = <B as Benchmark>::Resources;

/// Measures operations of this size with these resources, and records their latencies. Returns what
/// a tool of the kind measures besides.
pub type MeasureLatency<B, Besides> =
    fn(&LoopContext<'_>, &mut Resources<B>, u64, Samples<'_>) -> Result<Besides, Failure>;

/// Answers messages of this size.
pub type Serve<B> = fn(&LoopContext<'_>, &mut Resources<B>, u64) -> Result<(), Failure>;

/// Measures lists of operations of this size on these pairs of queues.
pub type MeasureLists<B> =
    fn(&LoopContext<'_>, &mut [Resources<B>], u64, &mut BandwidthResults) -> Result<(), Failure>;

/// Finds the function for a benchmark that is known as a type only: this one of all.
macro_rules! compiled {
    ($module:ident::$function:ident, $($bench:ident: $as:ty),*) => {{
        static ALL: &[&(dyn Any + Send + Sync)] = &[$(&($module::$function::<$bench> as $as)),*];
        *ALL.iter().find_map(|one| one.downcast_ref()).expect("all benchmarks of the kind")
    }};
}

/// See [`one_sided::measure`].
pub fn measure_one_sided<B: OneSidedLatency>() -> MeasureLatency<B, ()> {
    compiled!(
        one_sided::measure,
        WriteLatency: MeasureLatency<WriteLatency, ()>,
        ReadLatency: MeasureLatency<ReadLatency, ()>,
        AtomicLatency: MeasureLatency<AtomicLatency, ()>
    )
}

/// See [`round_trip::measure`].
pub fn measure_round_trip<B: RoundTripLatency>() -> MeasureLatency<B, ExtraMedians> {
    compiled!(
        round_trip::measure,
        SendLatency: MeasureLatency<SendLatency, ExtraMedians>,
        TriggeredLatency: MeasureLatency<TriggeredLatency, ExtraMedians>
    )
}

/// See [`round_trip::serve`].
pub fn serve_round_trip<B: RoundTripLatency>() -> Serve<B> {
    compiled!(
        round_trip::serve,
        SendLatency: Serve<SendLatency>,
        TriggeredLatency: Serve<TriggeredLatency>
    )
}

/// See [`bandwidth::measure`].
pub fn measure_lists<B: Bandwidth>() -> MeasureLists<B> {
    compiled!(
        bandwidth::measure,
        WriteBandwidth: MeasureLists<WriteBandwidth>,
        ReadBandwidth: MeasureLists<ReadBandwidth>,
        AtomicBandwidth: MeasureLists<AtomicBandwidth>,
        SendBandwidth: MeasureLists<SendBandwidth>,
        LoopbackBandwidth: MeasureLists<LoopbackBandwidth>
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
            (measure_round_trip::<B>(), serve_round_trip::<B>());
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
