//! Why NICs and other parts are slow: the campaigns that measure culprits beside good NICs and read
//! the files of their nodes (diagnosis.md 6.1). What figures and files prove is the package
//! `diagnosis`.
//!
//! * `explanation`: what is known about the cause of a culprit.
//! * `course`: the tests, as members measure them.
//! * `culprits`: the culprits of a verdict. `slots`: what is measured for a culprit, and what that
//!   has come to. `links`: the pairs that show why links between two groups are slow.
//! * `investigation`: the members read files and measure.
//! * `fabric_parts`, `group_links`, `untested`: switches and groups; links between groups; NICs
//!   that the verdict calls neither good nor bad.
//! * `verdict`: the campaign after a survey. `suspect`: the campaign about one NIC.

pub mod course;
mod culprits;
pub mod explanation;
mod fabric_parts;
mod group_links;
mod investigation;
mod links;
mod slots;
pub mod suspect;
mod untested;
pub mod verdict;
#[cfg(test)]
mod verdict_tests;

/// Codes of items of `cxidiag check` that decide which NICs are compared.
pub const GENERATION: &str = "generation";
pub const PARKED_PEERS: &str = "parked-peers";
pub const HUGE_PAGES: &str = "huge-pages";
