//! What quiet pairs and load have in common where they ask which part of the cluster is to blame
//! for what is outside its limits (docs/blame.md).
//!
//! * `limits`: the limits of all searches. `chance`: what chance explains.
//! * `count`: the part that explains most of the rows that are outside.

pub mod chance;
pub mod count;
pub mod limits;
