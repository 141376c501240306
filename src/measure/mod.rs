//! Measuring: the clock, waiting for the NIC, exact statistics, a histogram and, if requested, all
//! samples; bandwidth and packet rate.

mod clock;
mod crowding;
mod gauge;
mod percentile;
mod rates;
mod recorder;
mod stats;
pub mod wait_policy;

pub use clock::{Clock, MonotonicRaw};
pub use gauge::Gauge;
pub use percentile::Percentile;
pub use rates::{Rates, SideResult};
pub use recorder::Recorder;
pub use stats::Statistics;
pub use wait_policy::{Supervisor, WaitPolicy};
