//! `compare` and `report`: results of any kind, read back and compared, and their page.
//!
//! <!-- From tests/tidy/houses.rs: src/compare -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  8 | lib           the list of modules                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | report        `report`: what it takes, and its course                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | command       `compare`: what it takes, and its course                                    |
//!    | html          the page of `report`                                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | layers        what each layer of software adds, and which one changed                     |
//!    | results       any results of ours, read back                                              |
//!    | text          a comparison as text                                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | comparison    runs of two sides compared                                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | grouping      runs of two sides, grouped by what they measured                            |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | changes       surveys or checks of two sides compared                                     |
//!    | expected      stored runs against expectations                                            |
//!    | printed       runs that tools printed, read back                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | program_run   one run that a program of another layer printed -> its outcome              |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | layer_costs   what a layer of software costs, and how its costs changed                   |
//!    | printed_run   one run that a tool printed: its lines -> its outcome                       |
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
pub mod printed;
pub mod printed_run;
pub mod program_run;
pub mod report;
pub mod results;
pub mod runs;
pub mod text;
