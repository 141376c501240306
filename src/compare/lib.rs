//! `compare` and `report`: results of any kind, read back and compared, and their page.
//!
//! <!-- From tests/tidy/houses.rs: src/compare -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  7 | lib           the list of modules                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | report        `report`: what it takes, and its course                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | command       `compare`: what it takes, and its course                                    |
//!    | html          the page of `report`                                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | results       any results of ours, read back                                              |
//!    | text          a comparison as text                                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | comparison    runs of two sides compared                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | grouping      runs of two sides, grouped by what they measured                            |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | changes       surveys or checks of two sides compared                                     |
//!    | expected      stored runs against expectations                                            |
//!    | printed       runs that tools printed, read back                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | printed_run   one run that a tool printed: its lines -> its outcome                       |
//!    | runs          runs that tools wrote, read back                                            |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod changes;
pub mod command;
pub mod comparison;
pub mod expected;
pub mod grouping;
pub mod html;
pub mod layer_costs;
pub mod layers;
pub mod layers_text;
pub mod printed;
pub mod printed_run;
pub mod program_run;
pub mod report;
pub mod results;
pub mod runs;
pub mod text;
