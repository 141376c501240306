//! The checks, a file for each group.

pub mod atomics;
mod calls;
mod counters;
mod errors;
mod full;
mod matching;
mod moves;
mod portals;
mod queue_calls;
mod queues;
mod rendezvous;
mod telemetry;
mod unexpected;

use crate::table::CheckGroup;

/// All groups, in the order of their execution: what an operation needs comes before it.
pub static GROUPS: &[&CheckGroup] = &[
    &calls::GROUP,
    &queue_calls::GROUP,
    &queues::GROUP,
    &moves::GROUP,
    &atomics::GROUP,
    &matching::GROUP,
    &unexpected::GROUP,
    &errors::GROUP,
    &counters::GROUP,
    &portals::GROUP,
    &rendezvous::GROUP,
    &full::GROUP,
    &telemetry::GROUP,
];
