//! What becomes of the samples: exact statistics, a histogram, and the samples themselves
//! where they are asked for; bandwidth and packet rate.

mod gauge;
mod percentile;
mod rates;
mod recorder;
mod stats;

pub use gauge::Gauge;
pub use percentile::Percentile;
pub use rates::Rates;
pub use recorder::Recorder;
pub use stats::Statistics;
