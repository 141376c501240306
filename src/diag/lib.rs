//! One measurement.
//!
//! <!-- From tests/tidy/houses.rs: src/diag -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib            the list of modules                                                        |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | run            one run: roles, driver, size loop, measuring loops                         |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | bench          the benchmarks, one transaction type each                                  |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | bench/common   what benchmarks share                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | bench/api      the trait `Benchmark`                                                      |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | endpoint       the place of this process on the fabric                                    |
//!    | probe          a short run of a tool whose result a command reads                         |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod bench;
pub mod endpoint;
pub mod probe;
pub mod run;
