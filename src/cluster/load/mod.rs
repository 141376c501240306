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
//!   `victims`: what victims measured. `counters`: what counters of NICs say.
//! * `bandwidths`: figures of a pattern. Their parts: `sets`, parts of the fabric; `stars`, targets
//!   with many sources. `impacts`: what load does to latencies. `tails`: their high percentiles.
//!   `isolation`: traffic classes.
//! * `blame`: the part that slow flows have in common (`culprit`). Its parts: `slow_nics`, NICs and
//!   switches; `cells`, links among switches or groups.
//! * `verdicts`: judgements on figures. `limits`: the limits. `statistics`: medians, intervals and
//!   fairness. `names`: the names of patterns.

mod bandwidths;
mod blame;
mod cells;
mod counters;
mod culprit;
pub mod findings;
pub mod histogram;
mod impacts;
mod isolation;
mod limits;
mod names;
pub mod pattern;
mod rates;
pub mod scene;
mod sets;
mod slow_nics;
mod stars;
mod statistics;
mod tails;
pub mod tally;
pub mod theory;
pub mod timetable;
mod verdicts;
mod victims;

#[cfg(test)]
mod blame_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod verdict_tests;
