//! A survey, for people and for programs.
//!
//! * `document`: the survey as plain data, and its conclusion. `conclude`: how it is made from the
//!   findings, and what all pairs lack to published figures.
//! * `nics`: what the verdict means for each NIC; the list of bad nodes.
//! * `words`: parts of the cluster, tests, figures and the evidence in words.
//! * `summary`: the first line; `text`: the text at the end; `distribution`: its tables.
//! * `next`: what would decide what is undecided or untested.
//! * `ticket`: a page of Markdown.
//! * Under load: `load_words`: parts and judgements in words, what judgements mean, and the text of
//!   `--load=plan`; `load_text`: the section of the text, with its tables.
//! * `why_text`: the causes of culprits as text.
//! * `progress`: the line on a terminal.
//! * `lines`: a line of JSON for each measurement, written and read back.
//! * `metrics`: metrics of a fleet.
//! * `documents`: all of these files, opened before the survey and written during it and at its
//!   end; a row of CSV for each measurement.

mod conclude;
mod distribution;
mod document;
pub mod documents;
pub mod lines;
pub mod load_text;
pub mod load_words;
pub mod metrics;
pub mod next;
pub mod nics;
pub mod progress;
mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod ticket;
pub mod why_text;
pub mod words;

pub use document::{Conclusion, SCHEMA_VERSION, Scope, Setup, Shortfall, Survey, SurveyJob};
