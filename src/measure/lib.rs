//! Measuring: the clock and the tool's own error, waiting for the NIC, exact statistics, a
//! histogram and, if requested, all samples; bandwidth and packet rate.

#![forbid(unsafe_code)]

mod clock;
mod cpu_share;
mod crowding;
mod gauge;
mod live_histogram;
mod own_error;
pub mod rank_test;
mod rates;
mod recorder;
mod run_clock;
mod side_view;
mod stability;
mod stats;
pub mod wait_policy;

pub use clock::{ChosenClock, Clock, CounterClock, MonotonicRaw};
pub use cpu_share::CpuShare;
pub use gauge::Gauge;
pub use live_histogram::LatencyCounts;
pub use own_error::{Distribution, OwnError};
pub use rates::{Rates, SideResult};
pub use recorder::Recorder;
pub use run_clock::{ClockChoice, ClockFacts, RunClock};
pub use side_view::{SideView, ViewTimer};
pub use stability::{StabilityCheck, Until};
pub use stats::Statistics;
pub use wait_policy::{PollTimer, Supervisor, WaitPolicy};
