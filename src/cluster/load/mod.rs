//! The fabric under load, without input and output: which NICs send what to whom in which slot, and
//! what the results say about the fabric (docs/load.md).
//!
//! * `pattern`: which NICs send to which others.
//! * `scene`: all flows of one slot, and what its results are counted for.
//! * `timetable`: what the NICs of a process do in slots, and what the process reports.
//! * `histogram`: latencies in bins.
//! * `findings`: what the survey has found, as data and as a part of its document.
//! * `theory`: what the shape of a fabric allows.
//! * `tally`: all results so far, and what they say. `rates`: what NICs sent in a slot.
//!   `bandwidths`: bandwidths of NICs. `statistics`: medians, intervals and fairness. `names`: the
//!   names of patterns.

mod bandwidths;
pub mod findings;
pub mod histogram;
mod names;
pub mod pattern;
mod rates;
pub mod scene;
mod statistics;
pub mod tally;
pub mod theory;
pub mod timetable;
