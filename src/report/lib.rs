//! The results of a run, for people and for programs.
//!
//! <!-- From tests/tidy/houses.rs: src/report -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  7 | lib             the list of modules                                                       |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | reporter        receives the results of a run and passes them on                          |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | live_output     what is shown while a size is measured; progress on a terminal            |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | run_facts       what is known of a run before it measures                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | current_size    what was set about the size that is measured, and its bandwidth           |
//!    | nic_table       NICs measured one after the other: table and documents                    |
//!    | run_documents   the documents of a run                                                    |
//!    | sampler         the thread that prints intervals                                          |
//!    | summary         the summary block before the results                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | csv             a run as comma-separated values                                           |
//!    | extra           text after the documented table, on request                               |
//!    | text            the table of results                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | columns         the columns of all tables of results                                      |
//!    | counters        what the counters of the NICs did                                         |
//!    | distribution    latencies as text: the block of percentiles, the picture of a histogram   |
//!    | noise           how far a metric of one run can be trusted                                |
//!    | outcome         a run as plain data, and how it ended                                     |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | bins            latencies in bins of equal ratio                                          |
//!    | intervals       the figures of intervals of a size                                        |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod bins;
pub mod columns;
mod counters;
mod csv;
mod current_size;
pub mod distribution;
mod extra;
pub mod intervals;
mod live_output;
pub mod nic_table;
pub mod noise;
pub mod outcome;
mod reporter;
mod run_documents;
mod run_facts;
mod sampler;
pub mod summary;
pub mod text;

pub use counters::PeerCounters;
pub use current_size::MeasuredBandwidth;
pub use outcome::{Extent, Outcome};
pub use reporter::{Reporter, text_output};
pub use run_documents::refused;
pub use run_facts::Connected;
