//! Services: who may use a NIC, and how much of it (libcxi.md 3, 11).

#[path = "../driver/mod.rs"]
mod driver;

mod administration;
mod admission;
mod desk;
mod groups;
mod limits;
mod nic_limits;
mod parameters;
mod ranges;
mod registers;
mod shared_rgid;
mod sharing;
mod users;
