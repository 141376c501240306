//! The fabric under load, without input and output: which NICs send what to whom in which slot, and
//! what the results say about the fabric (docs/load.md).
//!
//! * `pattern`: which NICs send to which others.
//! * `scene`: all flows of one slot, and what its results are counted for.
//! * `slots`: a scene -> what the NICs do in its slot.
//! * `foreign`: whether others use the fabric.
//! * `findings`: what the survey has found, as data and as a part of its document.
//! * `theory`: what the shape of a fabric allows.
//! * `conductor`: the load from the first scene to the findings. `pass`: its scenes, once.
//!   `setup`: its settings. `ramp`: the first slots. `safety`: how much load is allowed, and when
//!   it ends early. `timing`: how long slots are. `confirm`: what is measured again, and what
//!   retests say. `preview`: what will be sent.
//! * `wanted`: which load the user wants. `course`: which steps come in which order. `steps`: the
//!   slots of a step. `possible`: why a pattern is left out. `placed`: the NICs that take part.
//!   `roles`: who makes load and who is judged. `flows`: the flows of each pattern. Its parts:
//!   `quiet`; `incasts`. `dice`: random numbers.
//! * `tally`: all results so far, and what they say. `rates`: what NICs sent in a slot.
//!   `victims`: what victims measured. `counters`: what counters of NICs say.
//! * `bandwidths`: figures of a pattern. Their parts: `sets`, parts of the fabric; `stars`, targets
//!   with many sources. `impacts`: what load does to latencies. `tails`: their high percentiles.
//!   `isolation`: traffic classes.
//! * `blame`: the part that slow flows have in common (`culprit`). Its parts: `slow_nics`, NICs and
//!   switches; `bundles`, links among switches or groups. `crossed`: what flows carried over
//!   links.
//! * `verdicts`: judgements on figures. `limits`: the limits. `names`: the names of patterns.

mod bandwidths;
mod blame;
mod bundles;
pub mod conductor;
mod confirm;
mod counters;
mod course;
mod crossed;
mod culprit;
mod dice;
pub mod findings;
mod flows;
pub mod foreign;
mod impacts;
mod incasts;
mod isolation;
pub mod limits;
mod names;
mod pass;
pub mod pattern;
mod placed;
mod possible;
pub mod preview;
mod quiet;
mod ramp;
mod rates;
pub mod roles;
mod safety;
pub mod scene;
mod sets;
pub mod setup;
pub mod slots;
mod slow_nics;
mod stars;
mod steps;
mod tails;
pub mod tally;
pub mod theory;
pub mod timing;
mod verdicts;
mod victims;
pub mod wanted;

#[cfg(test)]
mod blame_tests;
#[cfg(test)]
mod conductor_tests;
#[cfg(test)]
mod course_tests;
#[cfg(test)]
mod flows_tests;
#[cfg(any(test, feature = "testing"))]
pub mod model;
#[cfg(test)]
mod roles_tests;
#[cfg(test)]
mod safety_tests;
#[cfg(test)]
mod scale_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod timing_tests;
#[cfg(test)]
mod trial_tests;
#[cfg(any(test, feature = "testing"))]
pub mod trials;
#[cfg(test)]
mod verdict_tests;
