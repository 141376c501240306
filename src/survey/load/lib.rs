//! The fabric under load, without input and output: which NICs send what to whom in which slot, and
//! what the results say about the fabric (docs/load.md).
//!
//! <!-- From tests/tidy/houses.rs: src/survey/load -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//! 12 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//! 11 | load_campaign   the campaign that loads the fabric                                        |
//!    +-------------------------------------------------------------------------------------------+
//! 10 | conductor       a fabric under load in progress: which slots come next                    |
//!    +-------------------------------------------------------------------------------------------+
//!  9 | preview         what a survey will send, for `--load=plan`                                |
//!    | ramp            the first slots: a part of the load                                       |
//!    | setup           the settings of the load                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  8 | round           the slots of all steps, once                                              |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | results         all results under load so far, and what they say                          |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | crossed         what flows carried over links                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | blame           which part of the fabric slow flows have in common                        |
//!    | confirm         what is measured again, and what retests say                              |
//!    | course          the steps of a survey under load                                          |
//!    | verdicts        judgements on figures                                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | bandwidths      bandwidths under a pattern                                                |
//!    | bundles         slow links among parts that are linked each with each                     |
//!    | isolation       how far another traffic class keeps load away                             |
//!    | possible        why a pattern is left out                                                 |
//!    | slow_nics       NICs and switches that are slow by themselves                             |
//!    | steps           the slots of a step                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | counters        what counters of NICs say about load                                      |
//!    | culprit         a part of the fabric that explains slow flows                             |
//!    | flows           the flows of each pattern among NICs                                      |
//!    | impacts         what load does to the latencies of victims                                |
//!    | sets            bandwidths of parts in which equal parts have equal flows                 |
//!    | stars           targets to which many NICs send                                           |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | incasts         many sources for each target                                              |
//!    | names           the names of patterns in texts and documents                              |
//!    | quiet           bandwidths without load                                                   |
//!    | rates           what NICs sent under load, slot by slot                                   |
//!    | safety          how much load is allowed, and when it ends early                          |
//!    | slots           the flows of a slot -> what the NICs do in it                             |
//!    | timing          how long slots are                                                        |
//!    | victims         the latencies of victims                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | limits          the limits of figures under load                                          |
//!    | roles           who makes load and who is judged                                          |
//!    | slot            all flows of one slot, and what its results are counted for               |
//!    | spec            which load the user wants, as typed                                       |
//!    | tails           high percentiles, quiet and under load                                    |
//!    | theory          what the shape of a fabric allows                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | findings        what the fabric does under load, as data                                  |
//!    | foreign         whether others use the fabric before the load begins                      |
//!    | located         the NICs that take part, ordered by where they are                        |
//!    | pattern         the patterns of load                                                      |
//!    | seeded_rng      random numbers that follow from the seed                                  |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

mod bandwidths;
mod blame;
mod bundles;
pub mod conductor;
mod confirm;
mod counters;
mod course;
mod crossed;
mod culprit;
pub mod findings;
mod flows;
pub mod foreign;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod impacts;
mod incasts;
mod isolation;
pub mod limits;
pub mod load_campaign;
pub mod located;
mod names;
pub mod pattern;
mod possible;
pub mod preview;
mod quiet;
mod ramp;
mod rates;
pub mod results;
pub mod roles;
pub mod round;
mod safety;
pub mod seeded_rng;
mod sets;
pub mod setup;
pub mod slot;
pub mod slots;
mod slow_nics;
pub mod spec;
mod stars;
mod steps;
mod tails;
pub mod theory;
pub mod timing;
mod verdicts;
mod victims;

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
