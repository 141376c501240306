//! What becomes of the samples: exact statistics, a histogram, and the samples themselves
//! where they are asked for.

mod recorder;
mod stats;

pub use recorder::Recorder;
pub use stats::Statistics;
