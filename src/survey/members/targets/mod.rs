//! Targets that stay open, and measurements against such targets, without a control connection.
//!
//! A process opens a NIC and the targets of its tests once ([`TargetNic`]). Any process that knows
//! the address of the NIC and has the same list of tests measures against them, within a time
//! window that it chooses ([`Window`]). Only the target of a two-sided tool is set up for each
//! measurement: its process serves in the same window.
//!
//! * `nic`: a NIC with its targets; opened, opened again after a failed operation, released; the
//!   CPUs of the sides of a pair.
//! * `test`: the set-up, measurement and release of a pair.
//! * `loaded`: the parts of a NIC in a slot under load.
//! * `aggressor`: a NIC that puts to others in turn.
//! * `load_times`: the parts of a slot under load.
//! * `model`: whether the model of a fabric explains a figure.
//! * `by_tool`: the code of a tool that measures a pair.
//! * `instruments`: figures of a pair, with the definitions of the tools.
//! * `full_links`: whether a link of a modelled fabric was full.
//! * `window`: the time window, in place of the control connection.

mod aggressor;
pub mod by_tool;
mod full_links;
pub mod instruments;
mod load_times;
mod loaded;
mod model;
pub mod nic;
pub mod test;
pub mod window;

pub use load_times::LoadTimes;
pub use nic::{NicPlan, TargetNic};
pub use test::{Done, TestPlan};
pub use window::{Attempt, Window};
