//! Targets that stay open, and measurements against such targets, without a control connection.
//!
//! A process opens a NIC and the targets of its tests once ([`TargetNic`]). Any process that knows
//! the address of the NIC and has the same list of tests measures against them, within a time
//! window that it chooses ([`Window`]). Only the target of a two-sided tool is set up for each
//! measurement: its process serves in the same window.
//!
//! * `nic`: a NIC with its targets; opened, opened again after a failed operation, released; the
//!   CPUs of the sides of a pair.
//! * `test`: the set-up, measurement and release of a pair, and its figures with the definitions of
//!   the tools; whether a link of a modelled fabric was full.
//! * `by_tool`: the code of a tool that measures a pair.
//! * `loaded`: what a NIC does in a slot under load, and whether the model of a fabric explains its
//!   figures.
//! * `aggressor`: a NIC that puts to others in turn.
//! * `window`: the time window, in place of the control connection; the instants of a slot under
//!   load.

mod aggressor;
pub mod by_tool;
mod loaded;
pub mod nic;
pub mod test;
pub mod window;

pub use nic::{NicPlan, TargetNic};
pub use test::{Done, TestPlan};
pub use window::{Attempt, LoadTimes, Window};
