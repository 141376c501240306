//! The fabric under load, without input and output: which NICs send what to whom in which slot, and
//! what the results say about the fabric (docs/load.md).
//!
//! <!-- From tests/tidy/houses.rs: src/survey/load -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  9 | lib          the list of modules                                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | conductor    a fabric under load in progress, and its campaign                            |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | round        the slots of all steps, once                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | results      all results under load so far, and what they say                             |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | blame        which part of the fabric slow flows have in common                           |
//!    | course       the steps of a survey under load                                             |
//!    | verdicts     judgements on figures, and what retests say about them                       |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | bandwidths   bandwidths under a pattern                                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | culprits     parts of the fabric that explain slow flows by themselves                    |
//!    | flows        the flows of each pattern among NICs                                         |
//!    | impacts      what load does to the latencies of victims                                   |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | safety       how much load is allowed, and when it ends early                             |
//!    | victims      the latencies of victims                                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | limits       the limits of figures, and what the shape of a fabric allows                 |
//!    | roles        who makes load and who is judged                                             |
//!    | slot         all flows of one slot, and what NICs sent in it                              |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | findings     what the fabric does under load, as data                                     |
//!    | spec         the patterns of load, and which of them the user wants                       |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

mod bandwidths;
mod blame;
pub mod conductor;
mod course;
mod culprits;
pub mod findings;
mod flows;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod impacts;
pub mod limits;
pub mod results;
pub mod roles;
pub mod round;
mod safety;
pub mod slot;
pub mod spec;
mod verdicts;
mod victims;

#[cfg(test)]
mod conductor_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(any(test, feature = "testing"))]
pub mod trials;
#[cfg(test)]
mod verdict_tests;
