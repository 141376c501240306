//! What the NICs of a job did while a command ran: records of nodes, and reports of them
//! (monitoring.md 1.5).
//!
//! * `record`: what one node has read, as a file.
//! * `job`: the records of all nodes, and what they explain.
//! * `series`: what some counters of a node did over time.
//! * `nic_row`: one NIC as a row of a table.
//! * `text`, `document`, `csv`, `metrics`: the report, in each form; `top`: a screen.

pub mod csv;
pub mod document;
pub mod job;
pub mod metrics;
pub mod nic_row;
pub mod record;
pub mod series;
#[cfg(test)]
pub mod testing;
pub mod text;
pub mod top;

pub use job::JobStat;
pub use text::Level;
