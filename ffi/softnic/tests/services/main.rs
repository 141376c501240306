//! Services: who may use a NIC, and how much of it (libcxi.md 3, 11).

#[path = "../driver/mod.rs"]
mod driver;

mod administration;
mod admission;
mod desk;
mod identifiers;
mod limits;
mod sharing;
mod users;
