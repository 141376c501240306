//! Portals table entries, their lists and matching (nic.md 4, 8).

mod bench;
#[path = "../driver/mod.rs"]
mod driver;
mod entries;
mod matching;
#[path = "../model/lists.rs"]
mod model;
mod random;
mod software_managed;
mod unexpected;
