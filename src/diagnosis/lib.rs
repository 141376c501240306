//! From a culprit to its cause: which tests measure it beside a good NIC, which causes there are,
//! and what figures and files prove, suggest and exclude (diagnosis.md 1 to 6).
//!
//! * `tests`: the tests, as data. `columns`: what the matrix of causes and tests compares.
//! * `causes`: the causes, as data: their evidence, how they show in each column, and what to do.
//! * `readings`: what the files of a NIC and its node say. `majority`: what most good NICs have.
//! * `comparison`: the figures of a culprit beside the figures of good NICs.
//! * `evaluation`: readings and figures -> causes, each as sure as the evidence permits.
//!
//! The package measures nothing, reads no file and prints nothing.

#![forbid(unsafe_code)]

pub mod causes;
pub mod columns;
pub mod comparison;
pub mod evaluation;
pub mod majority;
pub mod readings;
pub mod tests;
