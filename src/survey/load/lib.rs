//! The fabric under load, without input and output: which NICs send what to whom in which slot, and
//! what the results say about the fabric (docs/load.md).
//!
//! <!-- From tests/tidy/houses.rs: src/survey/load -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 10 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | load_campaign   the campaign that loads the fabric                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | conductor       a fabric under load in progress: which slots come next                    |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | round           the slots of all steps, once                                              |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | confirm         what is measured again, and what retests say                              |
//!    | results         all results under load so far, and what they say                          |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | blame           which part of the fabric slow flows have in common                        |
//!    | course          the steps of a survey under load                                          |
//!    | verdicts        judgements on figures                                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | bandwidths      bandwidths under a pattern                                                |
//!    | bundles         slow links among parts that are linked each with each                     |
//!    | slow_nics       NICs and switches that are slow by themselves                             |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | counters        what counters of NICs say about load                                      |
//!    | culprit         a part of the fabric that explains slow flows                             |
//!    | flows           the flows of each pattern among NICs                                      |
//!    | impacts         what load does to the latencies of victims                                |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | rates           what NICs sent under load, slot by slot                                   |
//!    | safety          how much load is allowed, and when it ends early                          |
//!    | victims         the latencies of victims                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | limits          the limits of figures under load                                          |
//!    | roles           who makes load and who is judged                                          |
//!    | slot            all flows of one slot, and what its results are counted for               |
//!    | theory          what the shape of a fabric allows                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | findings        what the fabric does under load, as data                                  |
//!    | spec            the patterns of load, and which of them the user wants                    |
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
