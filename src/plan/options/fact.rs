//! The keys of options in the documents of a run.

use crate::extensions::Extensions;

/// A key of an option in the documents, where `null` stands for a tool without this option.
#[derive(Debug)]
pub struct Fact {
    pub key: &'static str,
    /// Its description in the schema of the documents.
    pub description: &'static str,
    pub value: FactValue,
    /// Whether CSV has a column of this name.
    pub has_column: bool,
    pub printed: Option<PrintedFact>,
}

/// The label of a line of the summary, and a function that returns the value in the line.
pub type PrintedFact = (&'static str, fn(&str) -> Option<&str>);

/// Returns the value of a run; `None` if it does not apply.
#[derive(Clone, Copy, Debug)]
pub enum FactValue {
    Number(fn(&Extensions) -> Option<u16>),
    Switch(fn(&Extensions) -> bool),
    Text(fn(&Extensions) -> String),
}

impl Fact {
    pub const fn new(key: &'static str, description: &'static str, value: FactValue) -> Self {
        Self { key, description, value, has_column: false, printed: None }
    }

    /// Returns the key that CSV has as a column.
    pub const fn column(self) -> Self {
        Self { has_column: true, ..self }
    }

    /// Returns the key whose value a line of the summary has.
    pub const fn printed(self, label: &'static str, read: fn(&str) -> Option<&str>) -> Self {
        Self { printed: Some((label, read)), ..self }
    }
}
