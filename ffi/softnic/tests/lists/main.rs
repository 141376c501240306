//! Lists of a portal, one rule a test (nic.md 8). What sequences of them do is in `list_model`.

mod bench;
#[path = "../driver/mod.rs"]
mod driver;
mod entries;
mod unexpected;
