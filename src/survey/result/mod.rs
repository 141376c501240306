//! A survey, for people and for programs.
//!
//! * `document`: the survey as plain data, and its conclusion.
//! * `nics`: what the verdict means for each NIC; the list of bad nodes.
//! * `words`: parts of the cluster, tests and figures in words; `evidence`: the evidence in
//!   sentences.
//! * `shortfall`: what all pairs lack to published figures.
//! * `summary`: the first line; `text`: the text at the end; `distribution`: its tables.
//! * `ticket`: a page of Markdown.
//! * Under load: `load_words`: parts and judgements in words, and what judgements mean;
//!   `load_text`: the section of the text, `load_tables`: its tables; `load_metrics`: metrics;
//!   `load_plan`: the text of `--load=plan`.
//! * `why_text`: the causes of culprits as text.
//! * `progress`: the line on a terminal.
//! * `lines`: a line of JSON for each measurement, written and read back.
//! * `pair_table`: a row of CSV for each measurement; `metrics`: metrics of a fleet.
//! * `documents`: all of these files, opened before the survey and written during it and at its
//!   end.

mod conclude;
mod distribution;
mod document;
pub mod documents;
pub mod evidence;
pub mod lines;
mod load_metrics;
pub mod load_plan;
pub mod load_tables;
#[cfg(any(test, feature = "testing"))]
pub mod load_testing;
pub mod load_text;
pub mod load_words;
pub mod metrics;
mod mixed;
pub mod next;
pub mod nics;
pub mod pair_table;
pub mod progress;
mod shortfall;
mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod ticket;
pub mod why_text;
pub mod words;

pub use document::{Conclusion, SCHEMA_VERSION, Scope, Setup, Shortfall, Survey, SurveyJob};
