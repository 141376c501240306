//! What everything else is built from.
//!
//! <!-- From tests/tidy/houses.rs: src/facts -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib              the list of modules                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | figures          the figures of one measurement between two NICs                          |
//!    | net              connections without a protocol                                           |
//!    | phase            the phases of a run, by name                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | advice           what a refused call or a bad event means, and what to do                 |
//!    | child            processes of this program that another one starts                        |
//!    | device           names of NICs, and the library that opens them                           |
//!    | expect           bounds on metrics, as typed after `--expect`, and published figures      |
//!    | interrupt        early ends of a run: signals, output without a reader                    |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | atomic           atomic operations: names, numbers on the wire, sizes                     |
//!    | bandwidth_unit   the units in which the text shows bandwidths                             |
//!    | error            why a run ends without a result, and its exit status                     |
//!    | error_flag       error flags of a NIC that programs can set                               |
//!    | host             this host                                                                |
//!    | job              the batch job of this process                                            |
//!    | limit            time limits of waits                                                     |
//!    | number           numbers as users type them, sizes of operations                          |
//!    | percentile       percentiles by nearest rank                                              |
//!    | rate             rates that a run is to keep: intended start times                        |
//!    | release          the sources that this program was built from                             |
//!    | robust           robust statistics: medians, spreads, quantiles                           |
//!    | severity         how good something is that was checked                                   |
//!    | text             texts from outside                                                       |
//!    | threads          threads of this program                                                  |
//!    | time_of_day      the time of day without steps of the clock                               |
//!    | token            the secret of a pair of processes                                        |
//!    | user_file        files that users name                                                    |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | groups           values in groups of equal keys                                           |
//!    | named_enum       enums whose variants have names                                          |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod advice;
pub mod atomic;
pub mod bandwidth_unit;
pub mod child;
pub mod device;
pub mod error;
pub mod error_flag;
pub mod expect;
pub mod figures;
pub mod groups;
pub mod host;
pub mod interrupt;
pub mod job;
pub mod limit;
pub mod named_enum;
pub mod net;
pub mod number;
pub mod percentile;
pub mod phase;
pub mod rate;
pub mod release;
pub mod robust;
pub mod severity;
pub mod text;
pub mod threads;
pub mod time_of_day;
pub mod token;
pub mod user_file;
