#![doc = include_str!("../README.md")]
//! # Floors
//!
//! <!-- From tests/tidy/houses.rs: ffi/topology/src -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  4 | lib           the list of modules                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | parser        files and the short form                                                    |
//!    | tree          a fabric as text                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | dragonfly     the item for a whole dragonfly                                              |
//!    | faults        the items for what is wrong                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | items         items of a file, their values, and the fabric that they describe so far     |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | description   switches, NICs, cables, directed links, rules and faults                    |
//!    | grammar       words `name=value`, of other variables of the software NIC, too             |
//!    +-------------------------------------------------------------------------------------------+
//! ```
//!
//! <!-- End of what tests/tidy/houses.rs says. -->
#![forbid(unsafe_code)]

mod description;
mod dragonfly;
mod faults;
pub mod grammar;
mod items;
mod parser;
mod tree;

pub use description::{
    AttachedNic, CLASSES, Cable, ClassRules, Congestion, DirectedLink, Fault, LinkEnd, MOST_NICS,
    Outage, PortDirection, Routing, Switch, SwitchName, Topology,
};
pub use dragonfly::Dragonfly;

/// The environment variable with the name of the file, or the short form.
pub const VARIABLE: &str = "CXIDIAG_TOPOLOGY";
