//! The command line: options, their help, and the reader of arguments.
//!
//! <!-- From tests/tidy/houses.rs: src/cli -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib          the list of modules                                                          |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | arguments    arguments that several commands read alike                                   |
//!    | output       what a command prints and writes                                             |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | definition   an option: its syntax, its help and what it sets                             |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | derived      the options of a command, from the struct of its request                     |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | parser       arguments -> what was typed; refusals in our words, names for misspelt ones  |
//!    | usage        what a command takes: help, manual, completion                               |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | values       values: from what was typed to what is set                                   |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->

#![forbid(unsafe_code)]

pub mod arguments;
pub mod definition;
pub mod derived;
pub mod output;
pub mod parser;
pub mod usage;
pub mod values;
