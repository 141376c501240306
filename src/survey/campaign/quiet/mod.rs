//! The survey of a cluster without its input and output: which pairs of NICs are measured when, and
//! what their results say about NICs, nodes, switches and paths.
//!
//! * `roster`: the nodes and NICs, and where they are. `ids`: the names of NICs, nodes, tests and
//!   roles. `units`: the parts that they belong to.
//! * `answer`: the result of one pair, or why it has none. `busy`: nodes with busy CPUs.
//! * `settings`: the settings of a survey, and its progress.
//! * `conductor`: a survey from the first round to the findings. Its parts: `coverage`, which pairs
//!   have an answer; `plan`, which round is next; `parked`, the NICs that the sweep leaves out;
//!   `conclusion`, what the results say.
//! * `pairs`: the pairs that the user asks for. `shape`: each selection, round by round. `rounds`:
//!   all of them, each pair once. `pair_set`: a set of pairs.
//! * `result_store`: the results so far. `observation`: the figures of pairs as the fit reads
//!   them. `population`: distributions of figures. `unmeasured`: pairs that were not measured.
//!   `missing`: whether a NIC has enough of its pairs for a verdict.
//! * `fit`: the robust additive fit of a test, and its residuals. `limits`: what follows from it.
//!   `selection`: parts that explain residuals; `routes`: what their pairs pass on their route.
//!   `slow_parts`: these parts with their retests. `quality`: what the survey could have found.
//!   `silence`: pairs that say nothing.
//! * `outside`: the pairs outside the limits. `retest`: suspect pairs again, and with other
//!   partners. `comparison`: good pairs beside them, and pairs of classes that judge nothing.
//!   `drift`: what the good pairs say about retests.
//! * `explanation`: the parts that explain the pairs outside the limits. `search`: how parts are
//!   found whose pairs fail. `tally`, `role_counts`: counts of their pairs. `signs`: counters and
//!   tails that show a fault beside good figures.
//! * `states`: the state of each NIC, from the findings.
//! * `findings`: what the survey has found, as data and as a document. `cause`, `summary`: its
//!   parts.

pub mod answer;
pub mod busy;
mod cause;
mod conclusion;
pub mod conductor;
mod coverage;
mod drift;
mod explanation;
pub mod findings;
mod fit;
pub mod ids;
mod limits;
mod observation;
mod outside;
pub mod pairs;
mod plan;
pub mod population;
mod quality;
mod result_store;
mod retest;

pub mod roster;
pub mod rounds;
mod routes;
mod search;
mod selection;
pub mod settings;
mod shape;
mod signs;
mod silence;
mod slow_parts;
pub mod states;
mod summary;
mod unmeasured;

#[cfg(test)]
mod conductor_tests;
#[cfg(test)]
mod explanation_tests;
#[cfg(test)]
mod fabric_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(any(test, feature = "testing"))]
pub mod trials;
