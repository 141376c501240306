//! A survey, for people and for programs.
//!
//! * `document`: the survey as plain data, with its first line and its exit status.

mod document;

pub use document::{Conclusion, SCHEMA_VERSION, Setup, Survey, SurveyJob};
