//! The benchmarks: one file for each transaction type. `plan::tools` has their names, options and
//! defaults. `stress_write` is a load that measures nothing.

pub mod api;
pub(crate) mod atomic_bw;
pub(crate) mod atomic_lat;
pub mod common;
pub(crate) mod loopback_bw;
pub(crate) mod read_bw;
pub(crate) mod read_lat;
pub(crate) mod send_bw;
pub(crate) mod send_lat;
pub(crate) mod stress_write;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub(crate) mod trig_lat;
pub mod write_bw;
pub mod write_lat;

use api::{Benchmark, BenchmarkTask};
use plan::tool::Tool;

/// Defines `perform` for the named benchmarks.
macro_rules! benches {
    ($($module:ident::$bench:ident),* $(,)?) => {
        /// Calls the method of `task` for the benchmark of `tool`.
        ///
        /// # Panics
        ///
        /// If `tool` is not one of [`plan::tools::TOOLS`].
        pub fn perform<T: BenchmarkTask>(tool: &Tool, task: T) -> T::Output {
            $(if tool.name == $module::$bench::TOOL.name {
                return $module::$bench::perform(task);
            })*
            panic!("{} has no benchmark", tool.name)
        }
    };
}

benches![
    write_lat::WriteLatency,
    read_lat::ReadLatency,
    atomic_lat::AtomicLatency,
    send_lat::SendLatency,
    trig_lat::TriggeredLatency,
    write_bw::WriteBandwidth,
    read_bw::ReadBandwidth,
    atomic_bw::AtomicBandwidth,
    send_bw::SendBandwidth,
    loopback_bw::LoopbackBandwidth,
];
