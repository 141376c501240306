#![doc = include_str!("../README.md")]
//! # Floors
//!
//! <!-- From tests/tidy/houses.rs: ffi/topology/src -->
//!
//! ```text
//!    +-------------------------------------------------------------------------------------------+
//!  5 | lib           the list of modules                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  4 | parser        files and the short form                                                    |
//!    | tree          a fabric as text                                                            |
//!    +-------------------------------------------------------------------------------------------+
//!  3 | dragonfly     the item for a whole dragonfly                                              |
//!    | faults        the items for what is wrong                                                 |
//!    +-------------------------------------------------------------------------------------------+
//!  2 | items         items of a file, and the fabric that they describe so far                   |
//!    +-------------------------------------------------------------------------------------------+
//!  1 | link          directed links, with what faults leave of them                              |
//!    | values        the values of words                                                         |
//!    +-------------------------------------------------------------------------------------------+
//!  0 | description   switches, NICs, cables, rules and faults                                    |
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
mod link;
mod parser;
mod tree;
mod values;

pub use description::{
    AttachedNic, CLASSES, Cable, ClassRules, Congestion, Fault, MOST_NICS, Outage, PortDirection,
    Routing, Switch, SwitchName, Topology,
};
pub use dragonfly::Dragonfly;
pub use link::{DirectedLink, LinkEnd};

/// The environment variable with the name of the file, or the short form.
pub const VARIABLE: &str = "CXIDIAG_TOPOLOGY";
