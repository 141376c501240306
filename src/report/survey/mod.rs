//! A survey, for people and for programs.
//!
//! * `document`: the survey as plain data, and what it has come to.
//! * `nics`: what the verdict means for each NIC; the list of bad nodes.
//! * `words`: parts of the cluster and evidence in words; `text`: the text at the end; `distribution`:
//!   its tables.

mod distribution;
mod document;
pub mod nics;
#[cfg(test)]
pub mod testing;
pub mod text;
pub mod words;

pub use document::{Conclusion, SCHEMA_VERSION, Setup, Survey, SurveyJob};
