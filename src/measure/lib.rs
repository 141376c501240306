//! Measuring: the clock and the tool's own error, waiting for the NIC, exact statistics, a
//! histogram and, if requested, all samples; bandwidth and packet rate.
//!
//! <!-- From tests/tidy/houses.rs: src/measure -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib           the list of modules                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | recorder      takes all samples of one size; how well their median is known               |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | wait_policy   waits for the NIC with a time limit                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | clock         the clocks that the measuring loops read, and the clock of one run          |
//!    | crowding      waits on a CPU that the peer needs too                                      |
//!    | gauge         the progress of a measurement, for another thread                           |
//!    | memory_copy   how fast the memory of a node is copied                                     |
//!    | own_error     what the tool itself adds to a latency                                      |
//!    | rates         bandwidth and packet rate of one size                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | rank_test     the Mann-Whitney U test                                                     |
//!    | stats         exact statistics of latencies                                               |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

mod clock;
mod crowding;
mod gauge;
mod memory_copy;
mod own_error;
pub mod rank_test;
mod rates;
mod recorder;
mod stats;
pub mod wait_policy;

pub use clock::{
    ChosenClock, Clock, ClockChoice, CounterClock, MeasuringClock, MonotonicRaw, RunClock,
};
pub use crowding::CpuShare;
pub use gauge::{Gauge, LatencyCounts};
pub use memory_copy::memory_copy_rate;
pub use own_error::{Distribution, MeasurementError};
pub use rates::{Rates, SideResult, SideView, ViewTimer};
pub use recorder::{Recorder, StabilityCheck, Until};
pub use stats::Statistics;
pub use wait_policy::{PollTimer, Supervisor, WaitPolicy};
