//! The survey of a cluster without its input and output: which pairs of NICs are measured when, and
//! what their results say about NICs, nodes, switches and paths.
//!
//! * `roster`: the nodes and NICs, and where they are; the names of NICs, nodes, tests and pairs;
//!   the parts that they belong to.
//! * `answer`: the result of one pair, or why it has none. `busy`: nodes with busy CPUs.
//! * `conductor`: a survey from the first round to the findings. Its parts: `plan`, the settings,
//!   and which round is next; `coverage`, which pairs have an answer, which were not measured, and
//!   the NICs that the sweep leaves out; `conclusion`, what the results say, and summaries of them.
//! * `pairs`: the pairs that the user asks for, and each selection round by round. `rounds`: all of
//!   them, each pair once.
//! * `result_store`: the results so far. `population`: distributions of figures.
//! * `fit`: the figures of pairs as the fit reads them, the robust additive fit of a test, and its
//!   residuals. `limits`: what follows from it. `selection`: parts that explain residuals;
//!   `routes`: what their pairs pass on their route. `slow_parts`: these parts with their retests,
//!   and what the good pairs beside them say. `quality`: what the survey could have found.
//!   `silence`: pairs that say nothing.
//! * `outside`: the pairs outside the limits. `retest`: suspect pairs again, and with other
//!   partners; good pairs beside them, and pairs of classes that judge nothing.
//! * `explanation`: the parts that explain the pairs outside the limits. `search`: how parts are
//!   found whose pairs fail.
//! * `findings`: what the survey has found, as data and as a document, and the state of each NIC.
//!   `cause`: its causes, also from counters and tails that show a fault beside good figures.

pub mod answer;
pub mod busy;
mod cause;
mod conclusion;
pub mod conductor;
mod coverage;
mod explanation;
pub mod findings;
mod fit;
mod limits;
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
mod silence;
mod slow_parts;

#[cfg(test)]
mod conductor_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(any(test, feature = "testing"))]
pub mod trials;
