//! The results of a run, for people and for programs.
//!
//! <!-- From tests/tidy/houses.rs: src/report -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  8 | lib                   the list of modules                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  7 | why                   the diagnosis of one NIC, as data and as JSON                       |
//!    | reporter              receives the results of a run and passes them on                    |
//!    | why_text              the diagnosis of one NIC as text                                    |
//!    +-------------------------------------------------------------------------------------------+
//!  6 | live_output           what is shown while a size is measured                              |
//!    +-------------------------------------------------------------------------------------------+
//!  5 | link_text             the links of NICs as text                                           |
//!    | run_facts             what is known of a run before it measures                           |
//!    | survey                a survey, as text and as documents                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | check_fleet_metrics   the health of many nodes as metrics                                 |
//!    | check_fleet_text      the health of many nodes as text and as CSV                         |
//!    | link_metrics          the links of NICs as metrics                                        |
//!    | nic_table             NICs measured one after the other: table and documents              |
//!    | current_size          what was set about the size that is measured                        |
//!    | run_documents         the documents of a run                                              |
//!    | sampler               the thread that prints intervals                                    |
//!    | summary               the summary block before the results                                |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | check_fleet           the health of many nodes as JSON                                    |
//!    | check_metrics         the health of NICs as metrics                                       |
//!    | check_text            the health of NICs as text                                          |
//!    | csv                   a run as comma-separated values                                     |
//!    | cxi_heatsink_check    the text of HPE's cxi_heatsink_check                                |
//!    | cxi_stat              the text of HPE's cxi_stat                                          |
//!    | extra                 text after the documented table, on request                         |
//!    | link                  the links of NICs as JSON                                           |
//!    | probe_metrics         what probes of other nodes have measured, as metrics                |
//!    | stress_metrics        NICs under load as metrics                                          |
//!    | stress_text           NICs under load as text                                             |
//!    | text                  the table of results                                                |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | check                 the health of NICs as JSON                                          |
//!    | columns               the columns of all tables of results                                |
//!    | counters              what the counters of the NICs did                                   |
//!    | ending                how a run has ended                                                 |
//!    | histogram             the picture of a histogram in a terminal                            |
//!    | measured_bandwidth    what a bandwidth tool reports of a size                             |
//!    | noise                 how far a metric of one run can be trusted                          |
//!    | percentiles           the block of percentiles after the table                            |
//!    | stress                NICs under load, as data and as JSON                                |
//!    | run_columns           the columns of CSV about the run                                    |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | outcome               a run as plain data                                                 |
//!    | samples               the samples of a run as comma-separated values                      |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | bins                  latencies in bins of equal ratio                                    |
//!    | hdr_log               latencies as an HdrHistogram log                                    |
//!    | intervals             the figures of intervals of a size                                  |
//!    | progress              the progress of a size, on a terminal                               |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod bins;
pub mod check;
pub mod check_fleet;
pub mod check_fleet_metrics;
pub mod check_fleet_text;
pub mod check_metrics;
pub mod check_text;
pub mod columns;
mod counters;
mod csv;
mod current_size;
pub mod cxi_heatsink_check;
pub mod cxi_stat;
mod ending;
mod extra;
mod hdr_log;
pub mod histogram;
pub mod intervals;
pub mod link;
pub mod link_metrics;
pub mod link_text;
mod live_output;
mod measured_bandwidth;
pub mod nic_table;
pub mod noise;
pub mod outcome;
mod percentiles;
pub mod probe_metrics;
mod progress;
mod reporter;
mod run_columns;
mod run_documents;
mod run_facts;
mod sampler;
mod samples;
pub mod stress;
pub mod stress_metrics;
pub mod stress_text;
pub mod summary;
pub mod survey;
pub mod text;
pub mod why;
pub mod why_text;

pub use counters::{PeerCounters, RunCounters};
pub use measured_bandwidth::MeasuredBandwidth;
pub use outcome::{Extent, Outcome};
pub use reporter::{Reporter, text_output};
pub use run_documents::refused;
pub use run_facts::Connected;
